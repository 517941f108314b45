"""What the online estimators share: they are faces of one OnlineModel, which they train, show and save."""

import json
import reprlib
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from threading import get_ident
from typing import Any

import numpy as np

from omkl._components import check_flags, check_n_jobs, check_number, parameters_of
from omkl.data import Stream
from omkl.estimators.held_out import check_validation, held_out_part, joined, label_accuracy, parted, stopping_by
from omkl.estimators.inputs import names_kept
from omkl.estimators.learned import LearnedGroups
from omkl.estimators.learning_more import LearnsMore
from omkl.estimators.saving import SavedEstimator, users_own
from omkl.estimators.sources import StreamSource, TrainingBlock, as_stream, fingerprint, no_companions
from omkl.exceptions import InputError, NotFittedError
from omkl.losses import StructuredLoss
from omkl.online import (
    ArraySource,
    Checkpointer,
    Checkpoints,
    DistanceOverGradients,
    EarlyStopping,
    OnlineModel,
    OnlineSettings,
    OnlineTrainer,
    ProgressBar,
    ProgressiveValidation,
    Schedule,
    TrainingLoop,
    TrainingProgress,
    check_callbacks,
    serial_pass,
)
from omkl.persistence import Packer, Unpacker

#: Parameters that a resumed run may have otherwise: they do not change what is learned.
FREE = ("verbose", "callbacks", "n_jobs")
#: Parameters that a model is made of: one that has started goes on with those that it has.
SETTLED = (
    "kernels", "templates", "loss", "regularizer", "weighting", "method", "eta0", "schedule", "average", "radius",
    "transitions", "allowed_transitions", "transitions_by_position", "order", "cost", "fit_intercept", "batch_size",
    "l2", "budget", "budget_maintenance", "dtype", "structure", "groups", "projective", "single_root", "labeled",
    "exact", "memory", "lexicons", "first", "likely", "ignore",
)  # fmt: skip


class Run:
    """A call of ``fit``, which makes one training loop or several, its stages.

    Parameters
    ----------
    name : str
        Class of the estimator.
    parameters : dict
        Its parameters, as a model file can hold them.
    random_state : int, Generator, RandomState or None
    verbose : bool
        Show progress bars.
    checkpoint : path-like, optional
        Directory for checkpoints.
    checkpoint_every : str or float
        See :class:`~omkl.online.Checkpoints`.
    resume : bool
        Go on from the latest checkpoint.
    client : dask.distributed.Client, optional
        Trains in shards on its workers.
    shards : int, optional
    n_jobs : int or None
        Threads that train shards here.

    Attributes
    ----------
    rng : numpy.random.Generator
        Where a run is resumed, it is put back to where that began.
    """

    def __init__(
        self, name: str, parameters: dict[str, Any], random_state: Any, verbose: bool, *, checkpoint: Any = None,
        checkpoint_every: str | float = "60s", resume: bool = False, client: Any = None, shards: int | None = None,
        n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        if isinstance(random_state, np.random.RandomState):
            random_state = random_state.randint(2**31 - 1)
        try:
            self.rng = np.random.default_rng(random_state)
        except (TypeError, ValueError):
            raise InputError(f"random_state must be None, an integer or a generator, not {random_state!r}.") from None
        self.verbose = verbose
        self.make_pass, self.n_shards = _make_pass(client, shards, n_jobs)
        self.checkpointer = None
        if checkpoint is not None:
            configuration = _configuration(name, parameters, max(self.n_shards, 1), self.rng)
            checkpoints = Checkpoints(checkpoint, checkpoint_every)
            try:
                self.checkpointer = Checkpointer(checkpoints, configuration, self.rng, resume)
            except BaseException:
                checkpoints.close()
                raise
        elif checkpoint_every != "60s":
            raise InputError(
                f"checkpoint_every={checkpoint_every!r} says how often the state is kept: checkpoint=DIRECTORY "
                "(--checkpoint) says where."
            )
        elif resume:
            raise InputError("resume=True needs the directory of the checkpoints: checkpoint=DIRECTORY (--checkpoint).")

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: Any) -> None:
        if self.checkpointer is not None:
            self.checkpointer.checkpoints.close()

    def loop(
        self, stage: str, trainer: OnlineTrainer, source: Any, epochs: int, callbacks: Sequence = ()
    ) -> TrainingLoop:
        """The loop that makes the epochs of one stage."""
        progress = TrainingProgress()
        if self.verbose:
            total = None if source.n_examples is None else epochs * source.n_examples
            callbacks = [*callbacks, ProgressBar(progress, total)]
        checkpointer = None if self.checkpointer is None else self.checkpointer.stage(stage)
        return TrainingLoop(
            trainer, source, make_pass=self.make_pass, callbacks=callbacks, checkpointer=checkpointer,
            progress=progress,
        )  # fmt: skip


def _make_pass(client: Any, shards: int | None, n_jobs: int | None) -> tuple[Callable, int]:
    """What learns a block, and in how many shards; 0 for plain training."""
    if client is None and shards is None:
        return serial_pass, 0
    from omkl.distributed import ParameterMixing

    mixing = ParameterMixing.over(client, shards, n_jobs)
    return (serial_pass, 0) if mixing is None else (mixing, mixing.n_shards)


def _configuration(name: str, parameters: dict[str, Any], n_shards: int, rng: np.random.Generator) -> dict[str, Any]:
    """JSON values: what a run depends on beside its data."""
    packer = Packer()
    packed = {key: packer.pack(value, key) for key, value in parameters.items() if key not in FREE}
    configuration = {
        "estimator": name,
        "omkl": version("omkl"),
        "shards": n_shards,
        **packed,
        "arrays": fingerprint(packer.arrays.values()),
        "generator": type(rng.bit_generator).__name__,
    }
    # as JSON gives them back: what is compared has been through a file
    return json.loads(json.dumps(configuration))


class OnlineEstimator(LearnsMore, LearnedGroups, SavedEstimator):
    """A face: ``__init__`` stores, ``fit`` checks and encodes, ``predict`` decodes; ``model_`` is what is learned."""

    #: Whether the inputs that early stopping looks at are encoded with those of training, as cached kernels need.
    _stops_by_inputs = True
    #: The family that ``loss`` names a member of.
    _losses: type = StructuredLoss

    def _codec(self) -> Any:
        """A codec that knows nothing yet; see :class:`~omkl.online.model.Codec`."""
        raise NotImplementedError

    @staticmethod
    def _automatic_schedule(estimator: Any) -> Schedule:
        """What ``eta0="auto"`` means."""
        return DistanceOverGradients()

    def _settings(self) -> OnlineSettings:
        """Parameters as objects, checked; raises :class:`~omkl.exceptions.InputError`."""
        check_flags(self)
        check_callbacks(self.callbacks)
        check_n_jobs(getattr(self, "n_jobs", None))
        if hasattr(self, "validation_fraction"):
            check_number("validation_fraction", self.validation_fraction, above=0, below=1)
            check_number("n_iter_no_change", self.n_iter_no_change, above=0, integer=True)
        return OnlineSettings.of(self, self._losses, self._automatic_schedule(self))

    # ---- training -----------------------------------------------------------------------------------------------

    def _fit(
        self, codec: Any, read: Callable, X: Any, y: Any, sample_weight: Any, running: dict[str, Any], *,
        held_out_score: Callable = label_accuracy, companions: Callable = no_companions,
        finish: Callable | None = None, validation: Any = None,
    ) -> Any:  # fmt: skip
        """What ``fit`` does, on arrays or a stream.

        Parameters
        ----------
        codec : Codec
            It knows nothing yet.
        read : callable
            ``read(block, first, whole)`` is a :class:`~omkl.estimators.sources.TrainingBlock` as the codec takes it,
            checked; ``first`` where a model starts with it, ``whole`` where there is nothing else.
        X, y, sample_weight
            As users give them.
        running : dict
            What :class:`~omkl.estimators.base.Run` is told by the user.
        held_out_score : callable
            ``held_out_score(predictor, examples)`` is how good a frozen model is, the larger the better.
        companions : callable
            ``companions(model, make_pass)`` are callbacks that learn from the blocks of a stream beside the model.
        finish : callable, optional
            ``finish(model, examples, chosen, run, epochs)`` learns what is left when the epochs on arrays are over.
        validation : pair (X, y), optional
            What early stopping looks at, if not at a part of the training data.
        """
        started, settings, stream = time.perf_counter(), self._settings(), as_stream(X, y, sample_weight)
        model = OnlineModel(codec, settings)
        given = None if validation is None else check_validation(self, validation)
        parameters = {} if running["checkpoint"] is None else self._saved_parameters()
        n_jobs = getattr(self, "n_jobs", None)
        begun = Run(type(self).__name__, parameters, self.random_state, self.verbose, n_jobs=n_jobs, **running)
        with begun as run, names_kept(self):
            if stream is None:
                block = TrainingBlock(X, y, sample_weight)
                starting = self._start_on_arrays(model, read, block, run, held_out_score, finish, given)
            else:
                starting = self._start_on_stream(model, read, stream, run, companions, held_out_score, given)
            source, callbacks, conclude = starting
            history = run.loop("model", model.trainer, source, self.epochs, callbacks).run(self.epochs)
            records = conclude(history)
        self._adopt(model)
        self.n_iter_, self.history_, self.fit_seconds_ = len(history), records, time.perf_counter() - started
        return self

    def _start_on_arrays(
        self, model: OnlineModel, read: Callable, block: TrainingBlock, run: Run, held_out_score: Callable,
        finish: Callable | None, given: TrainingBlock | None,
    ) -> tuple[ArraySource, list[Any], Callable]:  # fmt: skip
        """``(source, callbacks, conclude)`` of training on examples that are all at hand; the model has started."""
        together = given is not None and self._stops_by_inputs
        data = read(joined(block, given) if given is not None and together else block, True, True)
        examples = model.codec.start(data)
        if run.checkpointer is not None:
            run.checkpointer.check_data(model.codec.facts(examples))
        callbacks, chosen = list(self.callbacks or ()), np.arange(examples.n_inputs)
        training = examples
        if given is not None and not together:
            callbacks.insert(0, stopping_by(self, model, given, held_out_score))
        elif self.early_stopping:
            n, rng = examples.n_inputs, run.rng
            chosen, held_out = parted(data, given) if together else held_out_part(n, self.validation_fraction, rng)
            training, validation = examples.only(chosen), examples.only(held_out, weighted=False)
            callbacks.insert(0, EarlyStopping(validation, self.n_iter_no_change, held_out_score))
        training.shorten()
        model.start(given=(training, run.n_shards > 0))
        model.set_objective(training)

        def conclude(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
            model.trainer.release()
            if finish is not None:
                finish(model, examples, chosen, run, len(history))
            return history

        return ArraySource(training, run.rng if self.shuffle else None), callbacks, conclude

    def _start_on_stream(
        self,
        model: OnlineModel,
        read: Callable,
        stream: Stream,
        run: Run,
        companions: Callable,
        held_out_score: Callable,
        given: TrainingBlock | None,
    ) -> tuple[StreamSource, list[Any], Callable]:
        """The same of training on a stream, block by block."""
        if getattr(self, "early_stopping", False) and given is None:
            raise InputError(
                "early_stopping holds out examples, which a stream does not: give some, validation=(X, y) (--dev "
                "FILE). history_ tells the progressive error."
            )
        if stream.once and self.epochs > 1:
            raise InputError(
                f"epochs={self.epochs}, but an iterator can be passed over only once: set epochs=1, or give a "
                "Stream that can be read again."
            )
        source = StreamSource(stream, model, read, run.n_shards, checked=run.checkpointer is not None)
        if run.checkpointer is not None:
            # a stream cannot be looked through before: its blocks are compared one by one, and it is no set of arrays
            run.checkpointer.check_data({"kind of data": "stream"})
            found = run.checkpointer.earlier("model")
            if found is not None:
                values, arrays = found
                model.unpack(values["source"]["model"], arrays, Unpacker(arrays, users_own(self)))
        source.open()
        meter = ProgressiveValidation()

        def conclude(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
            meter.close(model.trainer, len(history))
            return meter.records

        stopping = [] if given is None else [stopping_by(self, model, given, held_out_score)]
        return source, [*stopping, *companions(model, run.make_pass), *(self.callbacks or ()), meter], conclude

    @property
    def model_(self) -> OnlineModel:
        """What is learned; to other threads than the one that learns more, as it was before."""
        attributes = vars(self)
        meanwhile = attributes.get("_meanwhile")
        if meanwhile is not None and meanwhile[0] != get_ident():
            return meanwhile[1]
        if "model_" not in attributes:
            raise NotFittedError(f"This {type(self).__name__} is not fitted yet: call fit first.")
        return attributes["model_"]

    @model_.setter
    def model_(self, model: OnlineModel) -> None:
        self.__dict__["model_"] = model

    def _adopt(self, model: OnlineModel) -> None:
        """Make a trained model the estimator's own; nothing changes where training failed."""
        self.model_, model.given = model, list(map(vars(self).get, parameters_of(type(self))))
        self.__dict__.update(model.codec.learned())

    def _check_settled(self) -> None:
        """Raise where a parameter that the model is made of was set after it had started, which nothing looks at."""
        for name, learned in zip(parameters_of(type(self)), self.model_.given):
            if name in SETTLED and not _is_same(now := vars(self)[name], learned):
                raise InputError(
                    f"{name}={reprlib.repr(now)} was set after the model had started with {reprlib.repr(learned)}: "
                    "call fit to learn with it, or set it back."
                )

    # ---- model files --------------------------------------------------------------------------------------------

    _plain_attributes: tuple[str, ...] = ("n_iter_", "history_", "n_features_in_", "feature_names_in_")

    def _manifest(self, packer: Packer, training: bool, history: bool = False) -> dict[str, Any]:
        self._settings()  # what is refused here would be refused when the file is loaded
        self._check_settled()
        return super()._manifest(packer, training, history)

    def _saved_parameters(self) -> dict[str, Any]:
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return {**self.get_params(deep=False), "callbacks": None, "random_state": seed}

    def _describe(self, packer: Packer) -> dict[str, Any]:
        values, arrays = self.model_.describe(packer)
        packer.arrays.update({**arrays, **self.model_.trainer.state()})
        return values

    _rounded = ("/table", "/coefficients")

    @property
    def _predicts_only(self) -> bool:
        return self.model_.predicts_only

    def _describe_prediction(self, packer: Packer) -> dict[str, Any]:
        values, arrays = self.model_.condense(packer)
        packer.arrays.update(arrays)
        return values

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        self._adopt(OnlineModel(self._codec(), self._settings()).unpack(manifest, unpacker.arrays, unpacker))


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values of a parameter are the same."""
    if a is b:
        return True
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else type(a) is type(b) and repr(a) == repr(b)


def is_probabilistic(estimator: OnlineEstimator) -> bool:
    """Whether potentials are log-probabilities: those of the model, where it has learned."""
    model = vars(estimator).get("model_")
    return (estimator._settings() if model is None else model.settings).probabilistic


def needs_probabilities(estimator: OnlineEstimator) -> bool:
    """Whether potentials are log-probabilities; raises an AttributeError that says which loss makes them so."""
    if is_probabilistic(estimator):
        return True
    raise AttributeError(
        f'{type(estimator).__name__} has probabilities with loss="crf" only, not with loss={estimator.loss!r}.'
    )
