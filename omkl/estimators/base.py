"""What the online estimators share: parameters, banks from an encoder, training, the frozen predictor."""

import math
import time
from importlib.metadata import version

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from omkl._named import resolve
from omkl.estimators.encoding import Encoder
from omkl.estimators.examples import Examples
from omkl.estimators.labels import Labels
from omkl.exceptions import InputError
from omkl.groups import CachedKernelBank, ExplicitBank, KernelExpansion, SparseCachedBank
from omkl.losses import CRF, StructuredLoss
from omkl.online import Average, DistanceOverGradients, OnlineTrainer, Schedule
from omkl.persistence import Packer, check_labels, write_model
from omkl.regularizers import Regularizer

#: Gram matrices up to this many bytes are kept in double precision when ``dtype="auto"``.
DOUBLE_UP_TO = 2**26


def is_probabilistic(estimator):
    """Whether an estimator is trained with a loss whose potentials are log-probabilities."""
    return isinstance(resolve(StructuredLoss, estimator.loss, "loss"), CRF)


class GrowingHorizon:
    """Strength ``1 / (C t)``: the mean in the objective is over the examples seen so far."""

    def __init__(self, C):
        self.C = C

    def __call__(self, t):
        return 1.0 / (self.C * t)


class OnlineEstimator(BaseEstimator):
    """Base of :class:`SequenceLabeler` and :class:`OnlineMKLClassifier`; see there for the parameters."""

    def _resolve(self):
        """Parameters as objects, checked; raises :class:`~omkl.exceptions.InputError`."""
        _check_number("C", self.C, above=0)
        _check_number("epochs", self.epochs, above=0, integer=True)
        _check_number("cache_size", self.cache_size, above=-1)
        if self.n_examples is not None:
            _check_number("n_examples", self.n_examples, above=0)
        if self.early_stopping:
            _check_number("validation_fraction", self.validation_fraction, above=0, below=1)
            _check_number("n_iter_no_change", self.n_iter_no_change, above=0, integer=True)
        if self.dtype not in ("auto", "float32", "float64", np.float32, np.float64):
            raise InputError(f'dtype must be "auto", "float32" or "float64", not {self.dtype!r}.')
        average = self.average
        return {
            "loss": resolve(StructuredLoss, self.loss, "loss"),
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
            return DistanceOverGradients()
        _check_number("eta0", self.eta0, above=0)
        schedule = resolve(Schedule, self.schedule or "sqrt", "schedule")
        return type(schedule)(self.eta0)

    # ---- training -----------------------------------------------------------------------------------------------

    def _start(self, encoder, structure, tokens=None, positions=1):
        """A fresh trainer over the encoder's groups; with ``tokens``, kernels are cached over that training set.

        ``positions`` is the length of the longest sequence, for transitions by position.
        """
        parts = self._resolve()
        averaging = parts["average"] is not None
        banks = []
        n_outputs = structure.zeros(1).unary.shape[1]
        if encoder.explicit_names or encoder.vocabulary is not None:
            banks.append(ExplicitBank(encoder.explicit_names, encoder.explicit_groups(), n_outputs, averaging))
        for names in _dual_banks(encoder):
            kernels = [encoder.kernels[name] for name in names]
            views = [encoder.views[name] for name in names]
            if tokens is None:
                dtype = np.float64 if self.dtype == "auto" else self.dtype
                banks.append(KernelExpansion(names, kernels, views, n_outputs, averaging, dtype))
            else:
                bank = SparseCachedBank if _is_sparse(kernels[0]) else CachedKernelBank
                dtype = self._gram_dtype(len(names), tokens.n_tokens)
                memory = int(self.cache_size * 1e6)
                banks.append(bank(names, kernels, views, tokens, n_outputs, averaging, dtype, memory))
        regularized, free = self._other_banks(structure, n_outputs, positions, averaging)
        trainer = OnlineTrainer(
            banks + regularized, structure, parts["loss"], parts["regularizer"],
            strength=GrowingHorizon(self.C), schedule=parts["schedule"], method=self.method,
            average=parts["average"], unpenalized=free,
        )  # fmt: skip
        trainer.positions = positions
        return trainer

    def _other_banks(self, structure, n_outputs, positions, averaging):
        """Banks that do not look at the input: ``(regularized ones, free ones)``."""
        raise NotImplementedError

    def _gram_dtype(self, n_kernels, n_tokens):
        if self.dtype != "auto":
            return np.dtype(self.dtype)
        return np.dtype(np.float64 if n_kernels * n_tokens**2 * 8 <= DOUBLE_UP_TO else np.float32)

    def _fit(self, inputs, offsets, labels, weights, distinct=None):
        """Train from scratch on inputs with a label each, and set the learned attributes.

        Kernels learn their widths from ``distinct`` inputs, all of them by default.
        """
        started = time.perf_counter()
        known = Labels(labels)
        encoder = Encoder(self.kernels).fit(inputs if distinct is None else distinct)
        tokens = encoder.encode(inputs, offsets, grow=True)
        gold = known.indices(labels, "")
        structure = self._structure(known)
        rng = self._rng()
        longest = int(np.diff(tokens.offsets).max())
        trainer = self._start(encoder, structure, tokens if self.cache_size > 0 else None, longest)
        training, validation = self._split(tokens, gold, weights, rng)
        m = training.total_weight if self.n_examples is None else self.n_examples
        trainer.strength = 1.0 / (self.C * m)
        trainer.radius = self._radius(trainer, training, structure)
        callbacks = list(self.callbacks or ())
        stopping = None
        if validation is not None:
            stopping = EarlyStopping(validation, self.n_iter_no_change)
            callbacks.insert(0, stopping)
        history = trainer.fit(
            training, epochs=self.epochs, rng=rng if self.shuffle else None, callbacks=callbacks, progress=self.verbose
        )
        if stopping is not None:
            stopping.restore_best(trainer)
        trainer.release()
        self.n_iter_ = len(history)
        self.history_ = history
        self.fit_seconds_ = time.perf_counter() - started
        self._adopt(encoder, structure, trainer, known)

    def _adopt(self, encoder, structure, trainer, labels):
        """Make this trained state the estimator's own, all at once: nothing changes where training failed."""
        self.structure_ = structure
        self._encoder = encoder
        self._trainer = trainer
        self._labels = labels
        self.classes_ = labels.as_array()

    def _partial_fit(self, inputs, offsets, labels, classes, weights):
        """One round for each sequence in the given order; the first call fixes kernel widths and labels."""
        started = hasattr(self, "_trainer")
        known = self._labels if started else Labels(labels if classes is None else classes)
        gold = known.indices(labels, "declare all classes at the first call of partial_fit, with classes=.")
        if started:
            tokens = self._encode_more(inputs, offsets)
        else:
            encoder = Encoder(self.kernels).fit(inputs)
            tokens = encoder.encode(inputs, offsets, grow=True)
            structure = self._structure(known)
            trainer = self._start(encoder, structure, positions=int(np.diff(offsets).max()))
            self._adopt(encoder, structure, trainer, known)
            self.history_, self.n_iter_ = [], 1
        trainer = self._trainer
        trainer.strength = GrowingHorizon(self.C) if self.n_examples is None else 1.0 / (self.C * self.n_examples)
        for x, y, weight in self._examples(tokens, gold, np.arange(len(tokens)), weights):
            trainer.update(x, y, weight)
        return self

    def _encode_more(self, tokens, offsets):
        """Encode training tokens for the trainer that exists, which gains the features and keys new to it."""
        try:
            return self._encoder.encode(tokens, offsets, grow=True)
        finally:
            # also when a bad token stops the encoding half-way: no feature may be known that has no parameters
            self._grow()

    def _grow(self):
        encoder, trainer = self._encoder, self._trainer
        if encoder.vocabulary is not None:
            bank = trainer.banks[0]
            new_names = encoder.explicit_names[len(bank.names) :]
            if new_names:
                bank.add_groups(new_names)
                trainer.regroup()
            bank.grow(encoder.explicit_groups(bank.n_features))

    def _examples(self, tokens, gold, chosen, weights):
        return Examples(tokens, gold, chosen, weights)

    def _split(self, tokens, gold, weights, rng):
        """Training examples, and held-out ones for early stopping (None without)."""
        everyone = np.arange(len(tokens))
        if not self.early_stopping:
            return self._examples(tokens, gold, everyone, weights), None
        n_held_out = max(1, round(self.validation_fraction * len(tokens)))
        if n_held_out >= len(tokens):
            raise InputError(
                f"Early stopping cannot hold out {n_held_out} of {len(tokens)} examples: give more of them."
            )
        shuffled = rng.permutation(everyone)
        chosen, held_out = np.sort(shuffled[n_held_out:]), np.sort(shuffled[:n_held_out])
        chosen_weights = None if weights is None else weights[chosen]
        return self._examples(tokens, gold, chosen, chosen_weights), self._examples(tokens, gold, held_out, None)

    def _rng(self):
        state = self.random_state
        if isinstance(state, np.random.RandomState):
            return np.random.default_rng(state.randint(2**31 - 1))
        return np.random.default_rng(state)

    def _radius(self, trainer, training, structure):
        r""":math:`\gamma` of section 3: no minimiser is farther from the origin, where the objective is Lambda."""
        if self.radius is None:
            return math.inf
        if self.radius != "auto":
            _check_number("radius", self.radius, above=0)
            return float(self.radius)
        if trainer.regularizer is None or len(trainer.group_names) < len(trainer.ledger.names):
            raise InputError('radius="auto" needs every group regularized, transitions among them.')
        largest_loss = training.mean(lambda n: trainer.loss.at_zero(structure, n))
        if not largest_loss > 0:
            raise InputError(f'radius="auto" needs a loss with a margin, which {trainer.loss!r} is not.')
        regularizer = trainer.regularizer.bind(trainer.group_names)
        return regularizer.norm_bound(largest_loss / trainer.strength, len(trainer.group_names))

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

    def top_features(self, n=10, group=None):
        """The explicit features of the largest weights in the averaged model.

        Parameters
        ----------
        n : int
        group : str, optional
            Only features of this group.

        Returns
        -------
        list of dict
            ``feature`` (``key=value``, or ``kernel[column]``), ``group``, ``label``, ``weight``; largest first.
            Empty where the model holds no explicit features.
        """
        bank = self.predictor_.banks[0]
        if not isinstance(bank, ExplicitBank):
            return []
        table = bank.table[: bank.n_features]
        if group is not None:
            if group not in bank.names:
                raise InputError(f"No group of features is called {group!r}; there are {', '.join(bank.names)}.")
            table = np.where((bank.groups == bank.names.index(group))[:, None], table, 0.0)
        order = np.argsort(-np.abs(table), axis=None, kind="stable")[:n]
        rows, columns = np.unravel_index(order, table.shape)
        names = self._encoder.feature_names()
        labels = self._labels.members if table.shape[1] > 1 else self._labels.members[1:]
        return [
            {"feature": names(i), "group": bank.names[bank.groups[i]], "label": labels[j], "weight": float(table[i, j])}
            for i, j in zip(rows.tolist(), columns.tolist())
            if table[i, j] != 0.0
        ]

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
        packer = Packer()
        parameters = {**self.get_params(deep=False), "callbacks": None}
        if not isinstance(self.random_state, (int, np.integer)):
            parameters["random_state"] = None
        attributes = {name: getattr(self, name) for name in self._plain_attributes if hasattr(self, name)}
        if "feature_names_in_" in attributes:
            attributes["feature_names_in_"] = attributes["feature_names_in_"].tolist()
        check_labels(self._labels.members)
        manifest = {
            "class": type(self).__name__,
            "version": version("omkl"),
            "parameters": {name: packer.pack(value, name) for name, value in parameters.items()},
            "labels": packer.pack(self._labels.members, "y"),
            "encoder": self._encoder.pack(packer),
            "attributes": packer.pack(attributes, "attributes"),
            "positions": self._trainer.positions,
            "strength": None if callable(self._trainer.strength) else self._trainer.strength,
            "radius": packer.pack(self._trainer.radius, "radius"),
        }
        arrays = {**packer.arrays, **self._trainer.state()}
        if self._encoder.vocabulary is not None:
            arrays.update({f"vocabulary/{key}": value for key, value in self._encoder.vocabulary.state().items()})
        write_model(path, manifest, arrays)

    @classmethod
    def _from_model(cls, manifest, arrays, unpacker):
        estimator = cls(**{name: unpacker.unpack(value) for name, value in manifest["parameters"].items()})
        labels = Labels(unpacker.unpack(manifest["labels"]))
        encoder = Encoder.unpack(manifest["encoder"], unpacker)
        structure = estimator._structure(labels)
        trainer = estimator._start(encoder, structure, positions=manifest["positions"])
        trainer.load_state(arrays)
        if manifest["strength"] is not None:
            trainer.strength = manifest["strength"]
        trainer.radius = unpacker.unpack(manifest["radius"])
        estimator._adopt(encoder, structure, trainer, labels)
        for name, value in unpacker.unpack(manifest["attributes"]).items():
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return estimator

    def __sklearn_is_fitted__(self):
        return hasattr(self, "_trainer")


class EarlyStopping:
    """Callback: score held-out examples after every epoch, and stop when that has not improved for a while."""

    def __init__(self, examples, patience):
        self.examples = examples
        self.patience = patience
        self.best_score = -np.inf
        self.best_epoch = 0
        self._best_state = None

    def __call__(self, trainer, record):
        predictor = trainer.predictor()
        right = total = 0
        for x, y, _ in self.examples:
            predicted = trainer.structure.decode(predictor.potentials(x))
            right += np.count_nonzero(predicted == y)
            total += len(x)
        score = record["validation_score"] = right / total
        if score > self.best_score:
            self.best_score, self.best_epoch = score, record["epoch"]
            self._best_state = {name: np.array(array) for name, array in trainer.state().items()}
        return record["epoch"] - self.best_epoch >= self.patience

    def restore_best(self, trainer):
        """Put the trainer back to where the held-out score was best."""
        trainer.load_state(self._best_state)


def _dual_banks(encoder):
    """Names of the dual kernels, bank by bank: dense ones together, a sparse one by itself."""
    dense = [name for name in encoder.dual if not _is_sparse(encoder.kernels[name])]
    alone = [[name] for name in encoder.dual if _is_sparse(encoder.kernels[name])]
    return ([dense] if dense else []) + alone


def _is_sparse(kernel):
    return getattr(kernel, "sparse", False)


def _check_number(name, value, above=-math.inf, below=math.inf, integer=False):
    """Raise unless ``above < value < below``, finite, and a whole number where one is asked for."""
    is_number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not is_number or not above < value < below or (integer and value != int(value)):
        kind = "a whole number" if integer else "a finite number"
        bounds = f" > {above:g}" if above > -math.inf else ""
        bounds += f" and < {below:g}" if below < math.inf else ""
        raise InputError(f"{name} must be {kind}{bounds}, not {value!r}.")
