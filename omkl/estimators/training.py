"""Training of online estimators: ``fit`` on arrays or streams, ``partial_fit``, checkpoints and shards."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from os import PathLike
from typing import Any, NamedTuple, Protocol, TypedDict

import numpy as np

from omkl.data import Stream
from omkl.estimators.early_stopping import check_validation, held_out_part, joined, label_accuracy, parted, stopping_by
from omkl.estimators.persistence import users_own
from omkl.estimators.sources import StreamSource, TrainingBlock, as_stream, fingerprint, no_companions
from omkl.exceptions import InputError
from omkl.online import (
    ArraySource,
    Checkpointer,
    Checkpoints,
    EarlyStopping,
    OnlineModel,
    OnlineSettings,
    OnlineTrainer,
    ProgressBar,
    ProgressiveValidation,
    TrainingLoop,
    TrainingProgress,
    serial_pass,
    thinned,
)
from omkl.persistence import Packer, Unpacker

#: Parameters that a resumed run may have otherwise: they do not change what is learned.
FREE = ("verbose", "callbacks", "n_jobs")


class Trainable(Protocol):
    """The members of :class:`~omkl.estimators.base.OnlineEstimator` that training needs."""

    callbacks: Any
    early_stopping: bool
    epochs: int
    history_: list[dict[str, Any]]
    n_iter_: int
    fit_seconds_: float
    n_iter_no_change: int
    n_jobs: int | None
    random_state: Any
    shuffle: bool
    validation_fraction: float
    verbose: bool
    _stops_by_inputs: bool

    def _settings(self) -> OnlineSettings: ...

    def _saved_parameters(self) -> dict[str, Any]: ...

    def _read_known(self, block: TrainingBlock) -> Any: ...

    def _adopt(self, model: OnlineModel) -> None: ...

    def _keep_parameters(self) -> None: ...


class RunOptions(TypedDict, total=False):
    """Keyword arguments of ``fit`` about checkpoints and shards; see :meth:`omkl.SequenceLabeler.fit`."""

    checkpoint: str | PathLike | None
    checkpoint_every: str | float
    resume: bool
    client: Any
    shards: int | None


class Task(NamedTuple):
    """Parts of a training that differ between estimators.

    Attributes
    ----------
    codec : Codec
        Encodes data; it has not learned anything yet.
    read : callable
        ``read(block, first, whole)`` checks a :class:`~omkl.estimators.sources.TrainingBlock` and returns it as the
        codec takes it. ``first``: a model starts with it. ``whole``: there are no other training data.
    held_out_score : callable
        ``held_out_score(predictor, examples)`` is the score that early stopping maximizes.
    companions : callable
        ``companions(model, make_pass)`` are callbacks that learn from the blocks of a stream beside the model.
    finish : callable, optional
        ``finish(model, examples, chosen, run, epochs)`` learns the rest when the epochs on arrays are over.
    """

    codec: Any
    read: Callable[..., Any]
    held_out_score: Callable = label_accuracy
    companions: Callable = no_companions
    finish: Callable | None = None


class Run:
    """Random generator, checkpoints and shards of one call of ``fit``, for its training loop or loops.

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
        Continue from the latest checkpoint.
    client : dask.distributed.Client, optional
        Trains in shards on its workers.
    shards : int, optional
    n_jobs : int or None
        Threads that train shards on this machine.

    Attributes
    ----------
    rng : numpy.random.Generator
        A resumed run restores its state.
    """

    def __init__(
        self,
        name: str,
        parameters: dict[str, Any],
        random_state: Any,
        verbose: bool,
        *,
        checkpoint: str | PathLike | None = None,
        checkpoint_every: str | float = "60s",
        resume: bool = False,
        client: Any = None,
        shards: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        if isinstance(random_state, np.random.RandomState):
            random_state = random_state.randint(2**31 - 1)
        try:
            self.rng = np.random.default_rng(random_state)
        except (TypeError, ValueError):
            raise InputError(f"random_state must be None, an integer or a generator, got {random_state!r}.") from None
        self.verbose = verbose
        self.make_pass, self.n_shards = _make_pass(client, shards, n_jobs)
        self.checkpointer = None
        if checkpoint is not None:
            configuration = _configuration(name, parameters, max(self.n_shards, 1), self.rng)
            checkpoints = Checkpoints(checkpoint, checkpoint_every)
            self.checkpointer = Checkpointer(checkpoints, configuration, self.rng, resume)
        elif checkpoint_every != "60s" or resume:
            raise InputError("checkpoint_every= and resume= need a directory: checkpoint=DIRECTORY (--checkpoint).")

    def loop(
        self, stage: str, trainer: OnlineTrainer, source: Any, epochs: int, callbacks: Sequence = ()
    ) -> TrainingLoop:
        """The training loop of one stage, with its progress bar and checkpoints."""
        progress = TrainingProgress()
        if self.verbose:
            total = None if source.n_examples is None else epochs * source.n_examples
            callbacks = [*callbacks, ProgressBar(progress, total)]
        return TrainingLoop(
            trainer,
            source,
            make_pass=self.make_pass,
            callbacks=callbacks,
            checkpointer=None if self.checkpointer is None else self.checkpointer.stage(stage),
            progress=progress,
        )


def _make_pass(client: Any, shards: int | None, n_jobs: int | None) -> tuple[Callable, int]:
    """The function that learns a block, and the number of shards, 0 for plain training."""
    if client is None and shards is None:
        return serial_pass, 0
    from omkl.distributed import ParameterMixing

    mixing = ParameterMixing.over(client, shards, n_jobs)
    return (serial_pass, 0) if mixing is None else (mixing, mixing.n_shards)


def _configuration(name: str, parameters: dict[str, Any], n_shards: int, rng: np.random.Generator) -> dict[str, Any]:
    """Everything that a run depends on except its data, as JSON values."""
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
    return json.loads(json.dumps(configuration))  # a checkpoint gives it back like this


def train(estimator: Trainable, task: Task, data: TrainingBlock, validation: Any, options: RunOptions) -> Any | None:
    """Train a new model on arrays or a stream, and make it the estimator's own.

    Parameters
    ----------
    estimator : OnlineEstimator
    task : Task
    data : TrainingBlock
        As the user gives it.
    validation : pair (X, y), optional
        Examples for early stopping; by default it holds out a part of the training data.
    options : RunOptions

    Returns
    -------
    sequence of Example, or None
        The examples that early stopping held out and encoded with those of training.
    """
    started, stream = time.perf_counter(), as_stream(*data)
    model = OnlineModel(task.codec, estimator._settings())
    given = None if validation is None else check_validation(estimator, validation)
    parameters = {} if options.get("checkpoint") is None else estimator._saved_parameters()
    name, n_jobs = type(estimator).__name__, estimator.n_jobs
    run = Run(name, parameters, estimator.random_state, estimator.verbose, n_jobs=n_jobs, **options)
    if stream is None:
        plan = _plan_arrays(estimator, task, model, data, run, given)
    else:
        plan = _plan_stream(estimator, task, model, stream, run, given)
    history = run.loop("model", model.trainer, plan.source, estimator.epochs, plan.callbacks).run(estimator.epochs)
    records = plan.conclude(history)
    estimator._adopt(model)
    estimator._keep_parameters()
    estimator.n_iter_, estimator.history_ = len(history), records
    estimator.fit_seconds_ = time.perf_counter() - started
    return plan.held_out


class _Plan(NamedTuple):
    """A training that can begin: ``conclude(history)`` ends it, and returns the records of ``history_``."""

    source: Any
    callbacks: list[Any]
    conclude: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
    held_out: Any | None = None


def _plan_arrays(
    estimator: Trainable, task: Task, model: OnlineModel, block: TrainingBlock, run: Run, given: Any
) -> _Plan:
    """Start the model for examples that are all at hand."""
    together = given is not None and estimator._stops_by_inputs
    data = task.read(joined(block, given) if together else block, True, True)
    examples = model.codec.start(data)
    if run.checkpointer is not None:
        run.checkpointer.check_data(model.codec.facts(examples))
    callbacks, chosen = list(estimator.callbacks or ()), np.arange(examples.n_inputs)
    training, held_out = examples, None
    if given is not None and not together:
        callbacks.insert(0, stopping_by(estimator, model, given, task.held_out_score))
    elif estimator.early_stopping:
        n, rng = examples.n_inputs, run.rng
        chosen, others = parted(data, given) if together else held_out_part(n, estimator.validation_fraction, rng)
        training, held_out = examples.only(chosen), examples.only(others, weighted=False)
        callbacks.insert(0, EarlyStopping(held_out, estimator.n_iter_no_change, task.held_out_score))
    training.shorten()
    model.start(given=(training, run.n_shards > 0))
    model.set_objective(training)

    def conclude(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
        model.trainer.release()
        if task.finish is not None:
            task.finish(model, examples, chosen, run, len(history))
        return history

    return _Plan(ArraySource(training, run.rng if estimator.shuffle else None), callbacks, conclude, held_out)


def _plan_stream(estimator: Trainable, task: Task, model: OnlineModel, stream: Stream, run: Run, given: Any) -> _Plan:
    """Start the model with the first block of a stream, or from a checkpoint."""
    if estimator.early_stopping and given is None:
        raise InputError("early_stopping needs validation=(X, y) (--dev FILE) with a stream, which holds nothing out.")
    if stream.once and estimator.epochs > 1:
        raise InputError(f"epochs must be 1 with an iterator, which can be read only once, got {estimator.epochs}.")
    source = StreamSource(stream, model, task.read, run.n_shards, checked=run.checkpointer is not None)
    if run.checkpointer is not None:
        # its blocks are compared one by one as they are read
        run.checkpointer.check_data({"kind of data": "stream"})
        found = run.checkpointer.earlier("model")
        if found is not None:
            values, arrays = found
            model.unpack(values["source"]["model"], arrays, Unpacker(arrays, users_own(estimator)))
    source.open()
    meter = ProgressiveValidation()

    def conclude(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
        meter.close(model.trainer, len(history))
        return meter.records

    stopping = [] if given is None else [stopping_by(estimator, model, given, task.held_out_score)]
    companions = task.companions(model, run.make_pass)
    return _Plan(source, [*stopping, *companions, *(estimator.callbacks or ()), meter], conclude)


def train_more(estimator: Trainable, task: Task | None, data: TrainingBlock, classes: Any = None) -> None:
    """One pass over a stream, or over examples in their order, from where training has come.

    An error in the middle leaves what was learned before it. A model keeps the parameters that it started with.

    Parameters
    ----------
    estimator : OnlineEstimator
    task : Task
        Its codec is for a model that has not started.
    data : TrainingBlock
        As the user gives it.
    classes : optional
        Labels that the user declares.
    """
    if estimator.early_stopping:
        raise InputError("early_stopping must be False for partial_fit, which holds nothing out.")
    stream, model = as_stream(*data), vars(estimator).get("model_")
    started = model is not None
    if model is None:
        model = OnlineModel(task.codec, estimator._settings())
    elif model.predicts_only:
        raise InputError("The model was saved with training=False, and cannot be trained further: call fit.")
    else:
        if classes is not None:
            model.codec.check_declared(classes)
        if any(vars(estimator)[name] is not value for name, value in model.parameters.items()):
            estimator._settings()  # refuses invalid values, though the model keeps those that it has
    source = StreamSource([data] if stream is None else stream, model, task.read)
    source.open()
    history = estimator.history_ if started else []
    done = history[-1]["epoch"] if history else 0
    progress = TrainingProgress(epoch=done + 1, history=history)
    callbacks = [*task.companions(model, serial_pass), *(estimator.callbacks or ())]
    TrainingLoop(model.trainer, source, callbacks=callbacks, progress=progress, concludes=False).run(done + 1)
    estimator._adopt(model)  # also after the first call: there may be new labels
    if not started:
        estimator._keep_parameters()
        estimator.n_iter_ = 1
    estimator.history_ = thinned(history)
