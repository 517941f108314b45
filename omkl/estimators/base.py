"""Base class of the online estimators: training, learned groups, model files."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias

import numpy as np

from omkl._components import RandomState, check_n_jobs, resolve
from omkl.data import Stream
from omkl.data.blocks import is_collection
from omkl.estimators import sources
from omkl.estimators.options import EarlyStopping, OptionsOr, Passes
from omkl.estimators.persistence import (
    SavedEstimator,
    check_is_fitted,
    parts_in_parameters,
    set_attributes,
)
from omkl.estimators.sources import ExamplesLike, OutputsLike, TrainingBlock
from omkl.estimators.training import Plan, Run, RunOptions, Task, held_out_part, warn_of_evidence
from omkl.estimators.validation import (
    Constraint,
    Number,
    OneOf,
    check_parameters,
    restoring_columns,
)
from omkl.exceptions import InputError
from omkl.groups.expansions.kernel import KernelBank
from omkl.losses.structured import StructuredLoss
from omkl.online.averaging import Predictor
from omkl.online.callbacks import BestEpoch, ProgressiveValidation
from omkl.online.examiners.evidence import Evidence
from omkl.online.group_contributions import group_report, weights_of
from omkl.online.model import Codec, OnlineModel, OnlineSettings, OwnCodec
from omkl.online.rounds import Example, Examples, TrainingProgress, check_callbacks, thinned
from omkl.online.schedules import DistanceOverGradients, Schedule
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import ArraySource, TrainingLoop, learn_alone, serial_pass
from omkl.persistence import Manifest, Packer, Unpacker

if TYPE_CHECKING:
    from omkl.distributed.cluster import Partitions

#: Number of rounds that ``epochs="auto"`` makes of examples in memory.
ROUNDS = 24_000
#: Maximum number of epochs of ``epochs="auto"``.
MOST_EPOCHS = 40
#: Number of examples of a stream in a record of ``history_``.
EVERY = 10_000
#: A record of ``history_``.
Record: TypeAlias = dict[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineEstimator(SavedEstimator, ABC, Generic[OwnCodec]):
    """Base class of online estimators, which train an :class:`~omkl.online.model.OnlineModel`.

    The model is ``model_``. The fields are the parameters that online estimators share; see
    :class:`~omkl.SequenceLabeler`. Subclasses are dataclasses with additional fields, and define
    :meth:`_codec`, :meth:`_read_for_evaluation`, ``fit``, ``partial_fit`` and ``predict``. Their
    ``fit`` raises an :class:`~omkl.exceptions.InputError` if a parameter or the data is invalid;
    the model is not changed.
    """

    loss: Any = "hinge"
    regularizer: Any = "mkl"
    weighting: str = "auto"
    C: float | str = "auto"
    epochs: int | str | Passes = 20
    method: str = "fobos"
    learning_rate: float | str | Schedule = "auto"
    average: Any = "auto"
    radius: float | str | None = None
    early_stopping: bool | EarlyStopping = False
    n_jobs: int | None = None
    callbacks: Any = None
    verbose: bool = False
    random_state: RandomState = None

    #: Valid values of parameters.
    _constraints: ClassVar[dict[str, Constraint]] = {
        "C": Number(above=0, also=("auto",)),
        "weighting": OneOf(("auto", "out-of-sample", "norms")),
        "method": OneOf(("fobos", "rda")),
        "epochs": OptionsOr(Passes, Number(above=0, integer=True)),
        "radius": Number(above=0, also=(None, "auto")),
        "early_stopping": OptionsOr(EarlyStopping, OneOf((True, False))),
    }
    _plain_attributes: ClassVar[tuple[str, ...]] = (
        "n_iter_",
        "history_",
        "n_features_in_",
        "feature_names_in_",
        "column_kinds_",
    )
    _rounded = ("/table", "/coefficients")
    #: Functions of the trainer and a record of ``history_``, which add to it.
    _recorders: ClassVar[tuple[Callable[[OnlineTrainer, Record], None], ...]] = ()
    report_sections: ClassVar[tuple[str, ...]] = (
        "worth",
        "weights",
        "evidence",
        "groups",
        "features",
    )

    history_: list[dict[str, Any]] = field(init=False)
    n_iter_: int = field(init=False)
    fit_seconds_: float = field(init=False)
    _model: OnlineModel[OwnCodec] | None = field(init=False, default=None)

    # ---- training --------------------------------------------------------------------------------

    @abstractmethod
    def _codec(self) -> OwnCodec:
        """Return an untrained codec."""

    def _task(self) -> Task[OwnCodec]:
        """Return the task of training; raise an InputError if it needs all examples in memory."""
        raise InputError(
            f"{type(self).__name__} takes no Dask collections: pass data in memory, or a stream."
        )

    @abstractmethod
    def _read_for_evaluation(self, block: TrainingBlock) -> Any:
        """Validate data for evaluation, and convert them for the codec."""

    @staticmethod
    def _automatic_schedule(estimator: OnlineEstimator) -> Schedule:
        """Return the schedule of ``learning_rate="auto"``."""
        return DistanceOverGradients()

    def _settings(self) -> OnlineSettings:
        """Validate the parameters, and return the settings of the trainer."""
        check_parameters(self, self._constraints)
        check_callbacks(self.callbacks)
        check_n_jobs(self.n_jobs)
        return OnlineSettings.of(
            self, self._passes, self._resolved_loss(), self._automatic_schedule(self)
        )

    @property
    def _passes(self) -> Passes:
        """Settings of the passes over the data."""
        return Passes.of("epochs", self.epochs)

    def _resolved_loss(self) -> Any:
        """Return the loss as an object."""
        return resolve(StructuredLoss, self.loss, "loss")

    def _new_model(self, codec: OwnCodec) -> OnlineModel[OwnCodec]:
        """Return an untrained model, which remembers the present parameters for model files."""
        model = OnlineModel(codec, self._settings())
        model.parameters = self.get_params(deep=False)
        return model

    def _train(
        self, task: Task, data: TrainingBlock, validation: tuple | None, options: RunOptions
    ) -> Examples | None:
        """Train a new model on arrays or a stream, and set it as ``model_``.

        ``validation`` is a pair (X, y) for early stopping; by default, a part of the training data
        is held out. Returns the examples for early stopping, or None without early stopping. After
        an error, the estimator is as it was.
        """
        with restoring_columns(self):
            return self._train_anew(task, data, validation, options)

    def _train_anew(
        self, task: Task, data: TrainingBlock, validation: tuple | None, options: RunOptions
    ) -> Examples | None:
        """Train a new model; see :meth:`_train`."""
        started = time.perf_counter()
        are_collections = is_collection(*data)
        stream = None
        if not are_collections:
            stream = sources.as_stream(*data)
        model = self._new_model(task.make_codec())
        held_out = sources.validation_block(validation, bool(self.early_stopping))
        partitions = None
        if are_collections:
            self._task()  # raises an error for estimators that take no collections
            client = options.get("client")
            partitions = sources.load_partitions(data, client, options.get("shards"))
        if self.early_stopping and held_out is None and (are_collections or stream is not None):
            raise InputError(
                "early_stopping needs validation=(X, y) with a stream or a collection."
            )
        run = self._new_run(options, partitions)
        if partitions is not None:
            plan = self._plan_partitions(task, model, partitions, run, held_out)
        elif stream is None:
            plan = self._plan_arrays(task, model, data, run, held_out)
        else:
            plan = self._plan_stream(task, model, stream, run, held_out)
        epochs = task.passes(model.settings.epochs)
        if self._passes.epochs == "auto" and stream is None:
            # few examples need more epochs to converge
            n_examples = plan.source.n_examples or 1
            epochs = int(np.clip(ROUNDS // n_examples, epochs, MOST_EPOCHS))
        callbacks = plan.callbacks(self.callbacks or ())
        history = run.loop("model", model.trainer, plan.source, epochs, callbacks).run(epochs)
        records = plan.conclude(history)
        self._adopt(model)
        self.n_iter_ = len(history)
        self.history_ = records
        self.fit_seconds_ = time.perf_counter() - started
        warn_of_evidence(model.trainer.find(Evidence))
        if plan.stopping is None:
            return None
        return plan.stopping.examples()

    def _new_run(self, options: RunOptions, partitions: Partitions | None) -> Run:
        """Prepare checkpoints and shards; ``partitions`` of collections are shards."""
        client = options.get("client")
        n_shards = options.get("shards")
        if partitions is not None:
            client = partitions.client
            n_shards = len(partitions.sizes)
        settings: dict[str, Any] = {}
        for name, value in options.items():
            if name not in ("client", "shards"):
                settings[name] = value
        if client is not None or n_shards not in (None, 1):
            from omkl.distributed.mixing import ParameterMixing

            mixing = ParameterMixing(n_shards, client, self.n_jobs)
            settings["make_pass"] = mixing
            settings["n_shards"] = mixing.n_shards
        parameters: dict[str, Any] = {}
        if options.get("checkpoint") is not None:
            parameters = self._saved_parameters()
        return Run(type(self).__name__, parameters, self.random_state, self.verbose, **settings)

    def _stopping(
        self, task: Task, model: OnlineModel, held_out: TrainingBlock | None
    ) -> BestEpoch | None:
        """Prepare early stopping on a block of examples that the user holds out.

        They are encoded only after an epoch, when all features are known.
        """
        if held_out is None:
            return None
        data = self._read_for_evaluation(held_out)
        examples = cache(lambda: model.codec.encode_for_evaluation(data))
        return BestEpoch(examples, self._when_to_stop.patience, task.held_out_score)

    @property
    def _when_to_stop(self) -> EarlyStopping:
        """Settings of early stopping."""
        if isinstance(self.early_stopping, EarlyStopping):
            return self.early_stopping
        return EarlyStopping()

    def _array_source(self, examples: Examples, run: Run) -> ArraySource:
        rng = None
        if self._passes.shuffle:
            rng = run.rng
        return ArraySource(examples, rng)

    def _plan_partitions(
        self,
        task: Task,
        model: OnlineModel,
        partitions: Partitions,
        run: Run,
        held_out: TrainingBlock | None,
    ) -> Plan:
        """Start the model on the partitions of Dask collections."""
        sample = self._task().read(sources.sample_of(partitions), True)
        reader = copy(self)  # for the workers: without the model and callbacks
        set_attributes(reader, {**self._saved_parameters(), "_model": None})
        examples = sources.start_on(partitions, sample, reader._task().read, model, run.checkpoints)
        return Plan(
            source=self._array_source(examples, run),
            stopping=self._stopping(task, model, held_out),
        )

    def _plan_arrays(
        self,
        task: Task,
        model: OnlineModel,
        block: TrainingBlock,
        run: Run,
        held_out: TrainingBlock | None,
    ) -> Plan:
        """Start the model on examples in memory."""
        examples = model.codec.start(task.read(block, first=True, is_all_data=True))
        if run.checkpoints is not None:
            run.checkpoints.check_data(model.codec.facts(examples))
        stopping = self._stopping(task, model, held_out)
        training = examples
        training_inputs = np.arange(examples.n_inputs)
        if self.early_stopping and stopping is None:
            training_inputs, held_out_inputs = held_out_part(
                examples.n_inputs, self._when_to_stop.fraction, run.rng
            )
            training = examples.only(training_inputs)
            held_out_examples = examples.only(held_out_inputs, weighted=False)
            stopping = BestEpoch(
                lambda: held_out_examples, self._when_to_stop.patience, task.held_out_score
            )
        training.shorten()
        model.start(training=training, in_shards=run.n_shards > 0)
        model.set_objective(training, training.total_weight)

        def conclude(history: list[Record]) -> list[Record]:
            model.trainer.release()
            if task.finish is not None:
                task.finish(model, examples, training_inputs, run, len(history))
            return history

        return Plan(
            source=self._array_source(training, run),
            stopping=stopping,
            conclude=conclude,
            companions=self._recorders,
        )

    def _plan_stream(
        self,
        task: Task,
        model: OnlineModel,
        stream: Stream,
        run: Run,
        held_out: TrainingBlock | None,
    ) -> Plan:
        """Start the model with the first block of a stream, or from a checkpoint."""
        epochs = self._passes.epochs
        if stream.once and epochs != 1:
            raise InputError(f"epochs must be 1 to read {stream.once}, got {epochs!r}.")
        has_checkpoints = run.checkpoints is not None
        source = sources.StreamSource(
            stream.blocks, model, task.read, run.n_shards, has_checkpoints
        )
        if run.checkpoints is not None:
            # the source compares the blocks themselves when they are read
            run.checkpoints.check_data({"kind of data": "stream"})
            checkpoint = run.checkpoints.earlier("model")
            if checkpoint is not None:
                values, arrays = checkpoint
                unpacker = Unpacker(arrays, parts_in_parameters(self))
                model.unpack(values["source"]["model"], arrays, unpacker)
        if not model.has_started:
            source.open()
        if epochs == 1 and run.n_shards == 0:
            model.watch_stream()
        meter = ProgressiveValidation(EVERY, *self._recorders)

        def conclude(history: list[Record]) -> list[Record]:
            meter.close(model.trainer, len(history))
            return meter.records

        return Plan(
            source=source,
            companions=task.companions_of(model, run.make_pass),
            stopping=self._stopping(task, model, held_out),
            conclude=conclude,
            meters=[meter],
        )

    def _train_more(
        self, task: Task[OwnCodec], data: TrainingBlock, classes: Sequence | str | None = None
    ) -> None:
        """Continue training with one pass over a stream, or over examples in the given order.

        After an error, the model keeps the updates made before it. A model keeps the parameters
        with which it started. ``classes`` are the labels that the user declares.
        """
        stream = sources.as_stream(*data)
        has_model = self._model is not None
        model = self._model_to_continue(task, classes)
        history = []
        if has_model:
            history = self.history_
        is_single_example = type(data.X) in (np.ndarray, list) and len(data.X) == 1
        has_callbacks = bool(task.companions or self._recorders or self.callbacks)
        if is_single_example and model.goes_on and not has_callbacks:
            model.expect(None)
            learn_alone(model.trainer, model.encode(task.read(data, first=False)), history)
        else:
            self._make_pass(task, model, data, stream, history)
            model.goes_on = True
        self._adopt(model)  # in every call, as there may be new labels
        if not has_model:
            self.n_iter_ = 1
        self.history_ = thinned(history)

    def _model_to_continue(
        self, task: Task[OwnCodec], classes: Sequence | str | None
    ) -> OnlineModel[OwnCodec]:
        """Return the model for ``partial_fit``, a new one if there is none.

        Raises InputError if it cannot be trained further, or parameters or ``classes`` are invalid.
        """
        has_model = self._model is not None
        if self._model is None:
            model = self._new_model(task.make_codec())
        else:
            model = self._model
        # joblib.load maps arrays of files, which are read-only
        if has_model and not model.trainer.group_state.scales.flags.writeable:
            model = deepcopy(model)
        if self.early_stopping or model.predicts_only:
            needed = "a model with training state, not one saved with training=False"
            if self.early_stopping:
                needed = "early_stopping=False"
            raise InputError(f"partial_fit needs {needed}; fit trains from scratch.")
        if has_model and classes is not None:
            model.codec.check_declared(classes)
        parameters = vars(self)
        if any(parameters.get(name) is not value for name, value in model.parameters.items()):
            # raise for invalid values, although the model keeps the old ones
            self._settings()
            task.make_codec()
        return model

    def _make_pass(
        self,
        task: Task[OwnCodec],
        model: OnlineModel[OwnCodec],
        data: TrainingBlock,
        stream: Stream | None,
        history: list[Record],
    ) -> None:
        """Train with one pass over a stream, or over data, and add its record to the history."""

        def single_block(epoch: int) -> list[TrainingBlock]:
            return [data]

        if stream is None:
            blocks_of = single_block
        else:
            blocks_of = stream.blocks
        source = sources.StreamSource(blocks_of, model, task.read)
        source.open()
        # in epochs over data of known size
        may_repeat = model.settings.n_examples is not None and model.settings.epochs != 1
        if not may_repeat:
            model.watch_stream()
        epoch = 1
        if history:
            epoch = history[-1]["epoch"] + 1
        progress = TrainingProgress(epoch=epoch, history=history)
        companions = task.companions_of(model, serial_pass)
        loop = TrainingLoop(
            model.trainer,
            source,
            callbacks=[*companions, *self._recorders, *(self.callbacks or ())],
            progress=progress,
            concludes=False,
        )
        loop.run(epoch)

    @property
    def model_(self) -> OnlineModel[OwnCodec]:
        """The trained model; raises a NotFittedError before ``fit``."""
        if self._model is None:
            check_is_fitted(self)
        return self._model  # type: ignore[return-value]

    @property
    def _models(self) -> list[OnlineModel]:
        """The models whose groups add up, :attr:`model_` last."""
        return [self.model_]

    def __sklearn_is_fitted__(self) -> bool:
        return self._model is not None

    def _adopt(self, model: OnlineModel[OwnCodec]) -> None:
        """Set a trained model, and its learned attributes."""
        self._model = model
        set_attributes(self, model.codec.learned())

    # ---- learned groups --------------------------------------------------------------------------

    @property
    def predictor_(self) -> Predictor:
        """The frozen averaged model used for prediction, a :class:`~omkl.online.Predictor`."""
        return self.model_.predictor()

    @property
    def kernel_weights_(self) -> dict[str, float]:
        """Weights with which MKL combines the regularized groups, by name.

        They are in [0, 1], and sum to one. These are the weights of the averaged model, which is
        used for prediction. ``history_`` has the weights of the last iterate of each epoch.
        """
        return weights_of([model.trainer for model in self._models])

    @property
    def left_out_(self) -> list[str]:
        """Groups that ``weighting="out-of-sample"`` has removed.

        They do not help on new examples. Their weight is 0, and they are no longer computed. Other
        groups with weight 0 were set to zero by the regularizer.
        """
        trainers = [model.trainer for model in self._models]
        left_out = set()
        for trainer in trainers:
            for name, is_left_out in zip(trainer.group_names, trainer.group_state.left_out):
                if is_left_out:
                    left_out.add(name)
        names = []
        for trainer in trainers:
            names += [name for name in trainer.order if name in left_out]
        return names

    @property
    def evidence_(self) -> dict[str, float] | None:
        """Evidence that each group helps on new examples, as a z-score.

        None without ``weighting="out-of-sample"``. Useless groups have a mean of 0 and a standard
        deviation of 1; see ``omkl.online.examiners.evidence.Evidence``.
        """
        trainer = self.model_.trainer
        evidence = trainer.find(Evidence)
        if evidence is None or not evidence.n_examples:
            return None
        scores = dict(zip(trainer.group_names, evidence.z_scores().tolist()))
        return {name: scores[name] for name in trainer.order}

    @property
    def dual_coef_(self) -> dict[str, np.ndarray]:
        """Dual coefficients of the averaged model for each kernel that has support vectors.

        ``dual_coef_[name]`` has shape (S, K): a row for each of ``support_vectors_[name]``, and a
        column for each label (one column for two classes and for regressors). The kernel
        contributes ``K(X, support_vectors_[name]) @ dual_coef_[name]``.
        """
        coefficients: dict[str, np.ndarray] = {}
        for bank in self._expansions():
            coefficients.update(zip(bank.names, bank.averaged_coefficients()))
        return coefficients

    @property
    def support_vectors_(self) -> dict[str, np.ndarray]:
        """Support vectors of each kernel in ``dual_coef_``, (S, d), in the kernel's columns."""
        vectors = {}
        for bank in self._expansions():
            if bank.supports:
                for name, view in zip(bank.names, bank.views):
                    vectors[name] = bank.supports[view]
        return vectors

    def _expansions(self) -> list[KernelBank]:
        return [bank for bank in self.model_.trainer.banks if isinstance(bank, KernelBank)]

    def top_features(self, n: int = 10, group: str | None = None) -> list[dict[str, Any]]:
        """List the explicit features with the largest weights in the averaged model.

        Parameters
        ----------
        n : int
        group : str, optional
            Only features of this group.

        Returns
        -------
        list of dict
            Records with ``feature`` (``key=value``, or ``kernel[column]``), ``group``, ``label``
            (not for regressors) and ``weight``, by decreasing magnitude. Empty if the model has no
            explicit features.
        """
        return self.model_.codec.top_features(self.predictor_, n, group)

    @property
    def group_report_(self) -> list[dict[str, Any]]:
        """Norm, weight and bytes of each group: the :meth:`group_report` without data."""
        return group_report([model.trainer for model in self._models])

    def group_report(self, X: ExamplesLike, y: OutputsLike = None) -> list[dict[str, Any]]:
        """Report the size of each group, and how much it helps on held-out data.

        The loss without a group is the model's loss after setting the group's parameters to zero.

        Parameters
        ----------
        X, y
            Held-out data, as for :meth:`score`. Streams are read block by block.

        Returns
        -------
        list of dict
            A flat record for each group, in the order of ``kernel_weights_``, followed by
            unregularized groups: ``group``; ``norm`` and ``weight`` in the averaged model (the
            weight of an unregularized group is None); ``bytes`` of its parameters, and
            ``bytes_share`` in [0, 1]; ``loss_without``, the mean training loss per example of ``X``
            without the group; ``loss_increase``, the difference to the loss of the whole model; and
            its ``standard_error`` over the examples (None for a single example). The increase is 0
            for groups at zero.

        Raises
        ------
        omkl.exceptions.InputError
            If the data is invalid, or has labels that are unknown to the model.
        """

        def examples(codec: Codec) -> Iterator[Example]:
            for block in sources.blocks_of(X, y):
                yield from codec.encode_for_evaluation(self._read_for_evaluation(block))

        return group_report(
            [model.trainer for model in self._models],
            [examples(model.codec) for model in self._models],
        )

    def memory_usage(self) -> dict[str, float]:
        """Return the memory of the parameters, in megabytes (10^6 bytes).

        Returns
        -------
        dict
            ``"training"``: parameters with training state; ``"prediction"``: parameters of the
            averaged model.
        """
        return self.model_.memory_usage()

    # ---- model files -----------------------------------------------------------------------------

    def _manifest(self, packer: Packer, training: bool, history: bool = False) -> Manifest:
        # the parameters of the model, which the user may have changed since
        fitted = copy(self)
        set_attributes(fitted, self.model_.parameters)
        return super(OnlineEstimator, fitted)._manifest(packer, training, history)

    def _describe(self, packer: Packer, training: bool) -> dict[str, Any]:
        values, arrays = self.model_.pack(packer, training)
        packer.arrays.update(arrays)
        return values

    @property
    def _predicts_only(self) -> bool:
        return self.model_.predicts_only

    def _restore(self, manifest: Manifest, unpacker: Unpacker) -> None:
        self._adopt(self._new_model(self._codec()).unpack(manifest, unpacker.arrays, unpacker))
