"""What the online estimators share: parameters, training, the frozen predictor, model files."""

import math
from importlib.metadata import version

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from omkl._archive import write_archive
from omkl._components import resolve
from omkl.estimators.streaming import StreamFit
from omkl.exceptions import InputError
from omkl.losses import CRF, StructuredLoss
from omkl.online import Average, DistanceOverGradients, OnlineTrainer, Schedule
from omkl.online.trainer import RECOMPUTE_EVERY
from omkl.persistence import Packer
from omkl.regularizers import Regularizer


def is_probabilistic(estimator):
    """Whether an estimator is trained with a loss whose potentials are log-probabilities."""
    return isinstance(resolve(StructuredLoss, estimator.loss, "loss"), CRF)


class GrowingHorizon:
    """Strength ``1 / (C t)``, t the sum of the weights seen so far, over which the objective has its mean."""

    def __init__(self, C):
        self.C = C

    def __call__(self, t):
        return 1.0 / (self.C * t)


class OnlineEstimator(BaseEstimator):
    """Base of every online estimator: parameters, training, what is learned, model files."""

    #: The family that ``loss`` names a member of.
    _losses: type = StructuredLoss

    def _resolve(self):
        """Parameters as objects, checked; raises :class:`~omkl.exceptions.InputError`."""
        check_number("C", self.C, above=0)
        check_number("epochs", self.epochs, above=0, integer=True)
        if self.n_examples is not None:
            check_number("n_examples", self.n_examples, above=0)
        if self.early_stopping:
            check_number("validation_fraction", self.validation_fraction, above=0, below=1)
            check_number("n_iter_no_change", self.n_iter_no_change, above=0, integer=True)
        if self.dtype not in ("auto", "float32", "float64", np.float32, np.float64):
            raise InputError(f'dtype must be "auto", "float32" or "float64", not {self.dtype!r}.')
        average = self.average
        return {
            "loss": resolve(self._losses, self.loss, "loss"),
            "regularizer": None if self.regularizer is None else resolve(Regularizer, self.regularizer, "regularizer"),
            "average": None if average in (None, "last") else resolve(Average, average, "average"),
            "schedule": self._resolve_schedule(),
        }

    def _resolve_schedule(self):
        if isinstance(self.schedule, Schedule):
            return self.schedule.fresh()
        if isinstance(self.eta0, str):
            if self.eta0 != "auto":
                raise InputError(f'eta0 must be a number > 0 or "auto", not {self.eta0!r}.')
            if self.schedule is not None:
                raise InputError('eta0="auto" chooses the rates of every round: leave schedule out, or set eta0.')
            return self._automatic_schedule()
        check_number("eta0", self.eta0, above=0)
        schedule = resolve(Schedule, self.schedule or "sqrt", "schedule")
        return type(schedule)(self.eta0)

    def _automatic_schedule(self):
        """What ``eta0="auto"`` means."""
        return DistanceOverGradients()

    # ---- training -----------------------------------------------------------------------------------------------

    def _trainer_of(self, banks, structure, unpenalized=()):
        """A fresh trainer with this estimator's parameters."""
        parts = self._resolve()
        return OnlineTrainer(
            banks, structure, parts["loss"], parts["regularizer"], strength=GrowingHorizon(self.C),
            schedule=parts["schedule"], method=self.method, average=parts["average"], unpenalized=unpenalized,
        )  # fmt: skip

    @property
    def _averaging(self):
        """Whether banks must keep averaged parameters."""
        return self.average not in (None, "last")

    def _train(self, trainer, training, validation, run):
        """Make the epochs of ``fit`` on examples that know their ``total_weight``; returns the history."""
        m = training.total_weight if self.n_examples is None else self.n_examples
        trainer.strength = 1.0 / (self.C * m)
        trainer.radius = self._radius(trainer, training)
        callbacks = list(self.callbacks or ())
        stopping = None
        if validation is not None:
            stopping = EarlyStopping(validation, self.n_iter_no_change, self._validation_score)
            callbacks.insert(0, stopping)
        history = run.fit(
            "model", trainer, training, epochs=self.epochs, shuffle=self.shuffle, callbacks=callbacks,
            progress=self.verbose,
        )  # fmt: skip
        if stopping is not None:
            stopping.restore_best(trainer)
        trainer.release()
        return history

    def _validation_score(self, predictor, examples):
        """How good a frozen model is on held-out examples, the larger the better: the share of labels it has right."""
        right = total = 0
        for x, y, _ in examples:
            right += np.count_nonzero(predictor.structure.decode(predictor.potentials(x)) == y)
            total += len(x)
        return right / total

    #: Examples in a pass over the stream that ``fit`` learns from, where it has been over it once.
    _n_streamed = None
    #: What makes a pass over the blocks of a stream in shards, while ``fit`` is at it.
    _mixing = None

    def _fit_stream(self, stream, options, running):
        """Train from scratch on a stream; sets the learned attributes when all has gone well."""
        self._resolve()
        learner = StreamFit(self, stream, options, running).run()
        parameters = self.get_params(deep=False)
        vars(self).update({name: value for name, value in vars(learner).items() if name not in parameters})
        return self

    def _partial_fit_stream(self, stream, options):
        """One pass over a stream, block by block."""
        for block in stream.blocks():
            self.partial_fit(*((block.X,) if block.y is None else block), **options)
        return self

    def _learn_rounds(self, trainer, examples):
        """One round for each example: what ``partial_fit`` does.

        Where the number m of examples is known, all is as in ``fit`` on m examples: the strength ``1 / (C m)``, rates
        that decay up to the last of ``epochs * m`` rounds, and norms that are computed anew every m rounds.
        """
        m = self._n_streamed if self.n_examples is None else self.n_examples
        # in shards, as many examples are learned in a round
        side_by_side = 1 if self._mixing is None else self._mixing.n_shards
        trainer.strength = GrowingHorizon(self.C * side_by_side) if m is None else 1.0 / (self.C * m)
        trainer.recompute_every = RECOMPUTE_EVERY if m is None else max(1, int(m))
        if m is not None:
            trainer.schedule.plan(self.epochs * m / side_by_side)
        if self._mixing is not None:
            loss = self._mixing.one_pass(trainer, examples)
            for callback in self.callbacks:
                callback.on_pass(trainer, loss, len(examples))
            return
        watchers = [callback.on_round for callback in self.callbacks or () if hasattr(callback, "on_round")]
        for x, y, weight in examples:
            step = trainer.update(x, y, weight)
            for watch in watchers:
                watch(trainer, step)

    def _given_radius(self):
        """The radius for training without all examples at hand."""
        if self.radius == "auto":
            raise InputError(
                'radius="auto" is found from all examples, which partial_fit does not have: give a number.'
            )
        return math.inf if self.radius is None else float(self.radius)

    def _held_out(self, n, rng):
        """Indices of ``(training, validation)`` examples; the latter None without early stopping."""
        if not self.early_stopping:
            return np.arange(n), None
        n_held_out = max(1, round(self.validation_fraction * n))
        if n_held_out >= n:
            raise InputError(f"Early stopping cannot hold out {n_held_out} of {n} examples: give more of them.")
        shuffled = rng.permutation(n)
        return np.sort(shuffled[n_held_out:]), np.sort(shuffled[:n_held_out])

    def _radius(self, trainer, training):
        r""":math:`\gamma` of section 3: no minimiser is farther from the origin, where the objective is Lambda."""
        if self.radius is None:
            return math.inf
        if self.radius != "auto":
            check_number("radius", self.radius, above=0)
            return float(self.radius)
        if trainer.regularizer is None or len(trainer.group_names) < len(trainer.group_state.names):
            raise InputError('radius="auto" needs every group regularized, transitions among them.')
        largest_loss = self._loss_at_zero(trainer, training)
        if not largest_loss > 0:
            raise InputError(f'radius="auto" needs a loss with a margin, which {trainer.loss!r} is not.')
        regularizer = trainer.regularizer.bind(trainer.group_names)
        return regularizer.norm_bound(largest_loss / trainer.strength, len(trainer.group_names))

    def _loss_at_zero(self, trainer, training):
        """Mean loss where all parameters are zero."""
        return training.mean(lambda n: trainer.loss.at_zero(trainer.structure, n))

    def _rng(self):
        state = self.random_state
        if isinstance(state, np.random.RandomState):
            return np.random.default_rng(state.randint(2**31 - 1))
        return np.random.default_rng(state)

    # ---- what is learned ----------------------------------------------------------------------------------------

    @property
    def predictor_(self):
        """The frozen, averaged model that predicts, a :class:`~omkl.online.Predictor`."""
        check_is_fitted(self)
        return self._trainer.predictor()

    @property
    def kernel_weights_(self):
        """Weight of each regularized group by name, in [0, 1], summing to one: how MKL combines them."""
        check_is_fitted(self)
        return self._trainer.kernel_weights()

    def memory_usage(self):
        """Bytes of the parameters: ``"training"`` what training goes on from, ``"prediction"`` what predicts."""
        return {
            "training": int(sum(bank.nbytes for bank in self._trainer.banks)),
            "prediction": int(self.predictor_.nbytes),
        }

    # ---- model files --------------------------------------------------------------------------------------------

    #: Learned attributes beside the model's own, which a model file keeps where they are set.
    _plain_attributes = ("n_iter_", "history_", "n_features_in_", "feature_names_in_")

    def save(self, path):
        """Write the fitted estimator to one file, which :func:`omkl.load` reads; never a pickle.

        The file holds the whole training state, so that a loaded estimator can go on with ``partial_fit``. A random
        generator and callbacks are not saved, a seed is.

        Raises
        ------
        omkl.exceptions.ModelFileError
            If a part of the estimator cannot be saved. A previous file of this name is left as it was.
        """
        check_is_fitted(self)
        write_archive(path, *self._packed(self._saved_parameters()))

    def _packed(self, parameters):
        """``(manifest, arrays)`` of a model file."""
        packer = Packer()
        attributes = {name: getattr(self, name) for name in self._plain_attributes if hasattr(self, name)}
        # equal models are equal files, however long they took
        attributes["history_"] = [
            {k: v for k, v in epoch.items() if not k.endswith("seconds")} for epoch in self.history_
        ]
        if "feature_names_in_" in attributes:
            attributes["feature_names_in_"] = attributes["feature_names_in_"].tolist()
        described, own_arrays = self._describe(packer)
        manifest = {
            "class": type(self).__name__,
            "version": version("omkl"),
            "parameters": {name: packer.pack(value, name) for name, value in parameters.items()},
            "attributes": packer.pack(attributes, "attributes"),
            **described,
            "strength": None if callable(self._trainer.strength) else self._trainer.strength,
            "radius": packer.pack(self._trainer.radius, "radius"),
        }
        return manifest, {**packer.arrays, **own_arrays, **self._trainer.state()}

    def _saved_parameters(self):
        """Parameters as a model file can hold them."""
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return {**self.get_params(deep=False), "callbacks": None, "random_state": seed}

    def _describe(self, packer):
        """``(manifest entries, arrays)`` of what the estimator knows beside parameters and the trainer's state."""
        raise NotImplementedError

    def _restore(self, manifest, arrays, unpacker):
        """The inverse: an untrained trainer of the right shape, and all else."""
        raise NotImplementedError

    @classmethod
    def _from_model(cls, manifest, arrays, unpacker):
        estimator = cls(**{name: unpacker.unpack(value) for name, value in manifest["parameters"].items()})
        estimator._restore(manifest, arrays, unpacker)
        trainer = estimator._trainer
        trainer.load_state(arrays)
        if manifest["strength"] is not None:
            trainer.strength = manifest["strength"]
        trainer.radius = unpacker.unpack(manifest["radius"])
        for name, value in unpacker.unpack(manifest["attributes"]).items():
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return estimator

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_trainer")


class EarlyStopping:
    """Callback: score held-out examples after every epoch, and stop when that has not improved for a while.

    ``score(predictor, examples)`` is a number, the larger the better.
    """

    def __init__(self, examples, patience, score):
        self.examples = examples
        self.patience = patience
        self.score = score
        self.best_score = -np.inf
        self.best_epoch = 0
        self._best_state = None

    def __call__(self, trainer, record):
        score = record["validation_score"] = self.score(trainer.predictor(), self.examples)
        if score > self.best_score:
            self.best_score, self.best_epoch = score, record["epoch"]
            self._best_state = {name: np.array(array) for name, array in trainer.state().items()}
        return record["epoch"] - self.best_epoch >= self.patience

    def state(self):
        """What a checkpoint needs."""
        return {"best_score": self.best_score, "best_epoch": self.best_epoch}, self._best_state or {}

    def load_state(self, values, arrays):
        """The inverse of :meth:`state`."""
        self.best_score, self.best_epoch = values["best_score"], values["best_epoch"]
        self._best_state = arrays or None

    def restore_best(self, trainer):
        """Put the trainer back to where the held-out score was best."""
        trainer.load_state(self._best_state)


def check_number(name, value, above=-math.inf, below=math.inf, integer=False):
    """Raise unless ``above < value < below``, finite, and a whole number where one is asked for."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not above < value < below or (integer and value != int(value)):
        kind = "a whole number" if integer else "a finite number"
        bounds = f" > {above:g}" if above > -math.inf else ""
        bounds += f" and < {below:g}" if below < math.inf else ""
        raise InputError(f"{name} must be {kind}{bounds}, not {value!r}.")
