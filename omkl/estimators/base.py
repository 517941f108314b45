"""Base class of the online estimators: training, learned groups, model files."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, field
from functools import cache
from operator import is_not
from typing import Any, ClassVar, Generic, TypeAlias

import numpy as np

from omkl._components import RandomState, check_n_jobs
from omkl.data import Stream
from omkl.data.blocks import is_collection
from omkl.estimators import sources
from omkl.estimators.persistence import SavedEstimator, check_is_fitted, set_attributes, users_own
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.training import Plan, Run, RunOptions, Task, held_out_part, warn_of_evidence
from omkl.estimators.validation import Constraint, Number, OneOf, check_parameters
from omkl.exceptions import InputError
from omkl.groups.expansions.kernel import KernelBank
from omkl.losses.structured import StructuredLoss
from omkl.online.averaging import Predictor
from omkl.online.callbacks import EarlyStopping, ProgressiveValidation
from omkl.online.examiners.evidence import Evidence
from omkl.online.group_contributions import group_report, weights_of
from omkl.online.model import Codec, OnlineModel, OnlineSettings, OwnCodec
from omkl.online.rounds import Example, Examples, TrainingProgress, check_callbacks, thinned
from omkl.online.schedules import DistanceOverGradients, Schedule
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import ArraySource, TrainingLoop, learn_alone, serial_pass
from omkl.persistence import Manifest, Packer, Unpacker

#: Number of rounds that ``epochs="auto"`` makes of examples in memory, with at most so many epochs.
ROUNDS, MOST_EPOCHS = 24_000, 40
#: Number of examples of a stream in a record of ``history_``.
EVERY = 10_000
#: A record of ``history_``.
Record: TypeAlias = dict[str, Any]


@dataclass(kw_only=True, eq=False, repr=False)
class OnlineEstimator(SavedEstimator, ABC, Generic[OwnCodec]):
    """Base class of online estimators, which train an :class:`~omkl.online.model.OnlineModel`,
    ``model_``.

    The fields are the parameters that online estimators share; see :class:`~omkl.SequenceLabeler`.
    Subclasses are dataclasses with additional fields, and define :meth:`_codec`,
    :meth:`_read_known`, ``fit``, ``partial_fit`` and ``predict``. Their ``fit`` raises an :class:`~omkl.exceptions.InputError` if a parameter or the data is invalid;
    the model is not changed.
    """

    loss: Any = "hinge"
    regularizer: Any = "mkl"
    weighting: str = "auto"
    C: float | str = "auto"
    epochs: int | str = 20
    method: str = "fobos"
    eta0: float | str = "auto"
    schedule: Any = None
    average: Any = "auto"
    radius: float | str | None = None
    shuffle: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    n_examples: float | None = None
    n_jobs: int | None = None
    callbacks: Any = None
    verbose: bool = False
    random_state: RandomState = None

    #: Valid values of parameters.
    _constraints: ClassVar[dict[str, Constraint]] = {
        "C": Number(above=0, also=("auto",)),
        "weighting": OneOf(("auto", "out-of-sample", "norms")),
        "method": OneOf(("fobos", "rda")),
        "epochs": Number(above=0, integer=True),
        "n_examples": Number(above=0, also=(None,)),
        "radius": Number(above=0, also=(None, "auto")),
        "validation_fraction": Number(above=0, below=1),
        "n_iter_no_change": Number(above=0, integer=True),
    }
    #: Base class of valid losses.
    _losses: ClassVar[type] = StructuredLoss
    _plain_attributes: ClassVar[tuple[str, ...]] = (
        *("n_iter_", "history_"),
        *("n_features_in_", "feature_names_in_", "column_kinds_"),
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
    def _read_known(self, block: TrainingBlock) -> Any:
        """Validate data for evaluation, and convert them for the codec."""

    @staticmethod
    def _automatic_schedule(estimator: OnlineEstimator) -> Schedule:
        """Return the schedule of ``eta0="auto"``."""
        return DistanceOverGradients()

    def _settings(self) -> OnlineSettings:
        """Validate the parameters, and return the settings of the trainer."""
        check_parameters(self, self._constraints)
        check_callbacks(self.callbacks)
        check_n_jobs(self.n_jobs)
        return OnlineSettings.of(self, self._losses, self._automatic_schedule(self))

    def _new_model(self, codec: OwnCodec) -> OnlineModel[OwnCodec]:
        """Return an untrained model, which remembers the present parameters for model files."""
        model = OnlineModel(codec, self._settings())
        model.parameters = self.get_params(deep=False)
        return model

    def _train(
        self, task: Task, data: TrainingBlock, validation: object, options: RunOptions
    ) -> Examples | None:
        """Train a new model on arrays or a stream, and set it as ``model_``.

        ``validation`` is a pair (X, y) for early stopping; by default, a part of the training data
        is held out. Returns the examples for early stopping, or None without early stopping.
        """
        started, collected = time.perf_counter(), is_collection(*data)
        stream = None if collected else sources.as_stream(*data)
        model = self._new_model(task.codec)
        given = sources.validation_block(validation, self.early_stopping)
        parameters = {} if options.get("checkpoint") is None else self._saved_parameters()
        client, n_shards = options.get("client"), options.get("shards")
        partitions = (
            sources.load_partitions(data, client, n_shards) if collected and self._task() else None
        )
        if partitions is not None:
            client, n_shards = partitions.client, len(partitions.sizes)
        if self.early_stopping and given is None and (collected or stream is not None):
            raise InputError(
                "early_stopping needs validation=(X, y) with a stream or a collection."
            )
        shards: dict[str, Any] = {}
        if client is not None or n_shards not in (None, 1):
            from omkl.distributed.mixing import ParameterMixing

            mixing = ParameterMixing(n_shards, client, self.n_jobs)
            shards = {"make_pass": mixing, "n_shards": mixing.n_shards}
        checkpoints: dict[str, Any] = {
            k: own for k, own in options.items() if k not in ("client", "shards")
        }
        run = Run(
            type(self).__name__,
            parameters,
            self.random_state,
            self.verbose,
            **shards,
            **checkpoints,
        )
        if partitions is not None:
            sharded = sources.start_on(partitions, self, model, run.checkpoints)
            source = ArraySource(sharded, run.rng if self.shuffle else None)
            plan = Plan(source, self._stopping(task, model, given))
        elif stream is None:
            plan = self._plan_arrays(task, model, data, run, given)
        else:
            plan = self._plan_stream(task, model, stream, run, given)
        stopping = [] if plan.stopping is None else [plan.stopping]
        callbacks = [*stopping, *plan.companions, *(self.callbacks or ()), *plan.meters]
        epochs = task.passes(model.settings.epochs)
        if self.epochs == "auto" and stream is None:  # few examples need more epochs to converge
            epochs = int(np.clip(ROUNDS // (plan.source.n_examples or 1), epochs, MOST_EPOCHS))
        history = run.loop("model", model.trainer, plan.source, epochs, callbacks).run(epochs)
        records = plan.conclude(history)
        self._adopt(model)
        self.n_iter_, self.history_ = len(history), records
        self.fit_seconds_ = time.perf_counter() - started
        warn_of_evidence(model.trainer.find(Evidence))
        return None if plan.stopping is None else plan.stopping.examples()

    def _stopping(
        self, task: Task, model: OnlineModel, given: TrainingBlock | None
    ) -> EarlyStopping | None:
        """Early stopping on given examples, which are encoded only after an epoch, when all
        features are known.
        """
        if given is None:
            return None
        known = self._read_known(given)
        return EarlyStopping(
            cache(lambda: model.codec.encode_known(known)),
            self.n_iter_no_change,
            task.held_out_score,
        )

    def _plan_arrays(
        self,
        task: Task,
        model: OnlineModel,
        block: TrainingBlock,
        run: Run,
        given: TrainingBlock | None,
    ) -> Plan:
        """Start the model on examples in memory."""
        examples = model.codec.start(task.read(block, True, True))
        if run.checkpoints is not None:
            run.checkpoints.check_data(model.codec.facts(examples))
        stopping, training, chosen = (
            self._stopping(task, model, given),
            examples,
            np.arange(examples.n_inputs),
        )
        if self.early_stopping and stopping is None:
            chosen, others = held_out_part(examples.n_inputs, self.validation_fraction, run.rng)
            training, held_out = examples.only(chosen), examples.only(others, weighted=False)
            stopping = EarlyStopping(lambda: held_out, self.n_iter_no_change, task.held_out_score)
        training.shorten()
        model.start(training=training, in_shards=run.n_shards > 0)
        model.set_objective(training, training.total_weight)

        def conclude(history: list[Record]) -> list[Record]:
            model.trainer.release()
            if task.finish is not None:
                task.finish(model, examples, chosen, run, len(history))
            return history

        return Plan(
            ArraySource(training, run.rng if self.shuffle else None),
            stopping,
            conclude,
            self._recorders,
        )

    def _plan_stream(
        self, task: Task, model: OnlineModel, stream: Stream, run: Run, given: TrainingBlock | None
    ) -> Plan:
        """Start the model with the first block of a stream, or from a checkpoint."""
        if stream.once and self.epochs != 1:
            raise InputError(f"epochs must be 1 to read {stream.once}, got {self.epochs!r}.")
        source = sources.StreamSource(
            stream.blocks, model, task.read, run.n_shards, run.checkpoints is not None
        )
        if run.checkpoints is not None:
            # the source compares the blocks themselves when they are read
            run.checkpoints.check_data({"kind of data": "stream"})
            found = run.checkpoints.earlier("model")
            if found is not None:
                values, arrays = found
                model.unpack(values["source"]["model"], arrays, Unpacker(arrays, users_own(self)))
        if not model.has_started:
            source.open()
        if self.epochs == 1 and run.n_shards == 0:
            model.watch_stream()
        meter = ProgressiveValidation(EVERY, *self._recorders)

        def conclude(history: list[Record]) -> list[Record]:
            meter.close(model.trainer, len(history))
            return meter.records

        companions = [] if task.companions is None else task.companions(model, run.make_pass)
        return Plan(source, self._stopping(task, model, given), conclude, companions, [meter])

    def _train_more(
        self, task: Task[OwnCodec], data: TrainingBlock, classes: Sequence | str | None = None
    ) -> None:
        """Continue training with one pass over a stream, or over examples in the given order.

        After an error, the model keeps the updates made before it. A model keeps the parameters
        with which it started. ``classes`` are the labels that the user declares.
        """
        stream, started = sources.as_stream(*data), self._model is not None
        model = self._new_model(task.codec) if self._model is None else self._model
        if (
            started and not model.trainer.group_state.scales.flags.writeable
        ):  # mapped by joblib.load
            model = deepcopy(model)
        if self.early_stopping or model.predicts_only:
            trainable = "a model with training state, not one saved with training=False"
            needed = "early_stopping=False" if self.early_stopping else trainable
            raise InputError(f"partial_fit needs {needed}; fit trains from scratch.")
        if started and classes is not None:
            model.codec.check_declared(classes)
        if any(map(is_not, map(vars(self).get, model.parameters), model.parameters.values())):
            self._settings()  # raise for invalid values, although the model keeps the old ones
        history, is_alone = (
            self.history_ if started else [],
            type(data.X) in (np.ndarray, list) and len(data.X) == 1,
        )
        if (
            is_alone
            and model.goes_on
            and not (task.companions or self._recorders or self.callbacks)
        ):
            model.expect(None)
            learn_alone(model.trainer, model.encode(task.read(data, False)), history)
        else:
            blocks_of = (lambda epoch: [data]) if stream is None else stream.blocks
            source = sources.StreamSource(blocks_of, model, task.read)
            source.open()
            may_repeat = (
                model.settings.n_examples is not None and model.settings.epochs != 1
            )  # the data, in epochs
            if not may_repeat:
                model.watch_stream()
            progress = TrainingProgress(
                epoch=history[-1]["epoch"] + 1 if history else 1, history=history
            )
            companions = [] if task.companions is None else task.companions(model, serial_pass)
            callbacks = [*companions, *self._recorders, *(self.callbacks or ())]
            loop = TrainingLoop(
                model.trainer, source, callbacks=callbacks, progress=progress, concludes=False
            )
            loop.run(progress.epoch)
            model.goes_on = True
        self._adopt(model)  # in every call, as there may be new labels
        if not started:
            self.n_iter_ = 1
        self.history_ = thinned(history)

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
        """Weights with which MKL combines the regularized groups, by name; in [0, 1], summing to
        one.

        These are the weights of the averaged model, which is used for prediction. ``history_`` has
        the weights of the last iterate of each epoch.
        """
        return weights_of([model.trainer for model in self._models])

    @property
    def left_out_(self) -> list[str]:
        """Groups that ``weighting="out-of-sample"`` has removed because they do not help on new
        examples.

        Their weight is 0, and they are no longer computed. Other groups with weight 0 were set to
        zero by the regularizer.
        """
        trainers = [model.trainer for model in self._models]
        left_out = {
            name
            for own in trainers
            for name, left in zip(own.group_names, own.group_state.left_out)
            if left
        }
        return [name for own in trainers for name in own.order if name in left_out]

    @property
    def evidence_(self) -> dict[str, float] | None:
        """Evidence that each group helps on new examples, as a z-score; None without
        ``weighting="out-of-sample"``.

        Useless groups have a mean of 0 and a standard deviation of 1; see
        ``omkl.online.examiners.evidence.Evidence``.
        """
        trainer = self.model_.trainer
        evidence = trainer.find(Evidence)
        if evidence is None or not evidence.n_examples:
            return None
        scores = dict(zip(trainer.group_names, evidence.z_scores().tolist()))
        return {name: scores[name] for name in trainer.order}

    @property
    def dual_coef_(self) -> dict[str, np.ndarray]:
        """Dual coefficients of the averaged model, for each kernel stored as an expansion over
        support vectors.

        ``dual_coef_[name]`` has shape (S, K): a row for each of ``support_vectors_[name]``, and a
        column for each label (one column for two classes and for regressors). The kernel
        contributes ``K(X, support_vectors_[name]) @ dual_coef_[name]``.
        """
        return {
            name: A
            for bank in self._expansions()
            for name, A in zip(bank.names, bank.averaged_coefficients())
        }

    @property
    def support_vectors_(self) -> dict[str, np.ndarray]:
        """Support vectors of each kernel in ``dual_coef_``, (S, d), in the kernel's columns."""
        banks = [bank for bank in self._expansions() if bank.supports]
        return {
            name: bank.supports[view]
            for bank in banks
            for name, view in zip(bank.names, bank.views)
        }

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
        """Norm, weight and bytes of each group; the part of :meth:`group_report` that needs no
        data.
        """
        return group_report([model.trainer for model in self._models])

    def group_report(self, X: object, y: object = None) -> list[dict[str, Any]]:
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
                yield from codec.encode_known(self._read_known(block))

        return group_report(
            [own.trainer for own in self._models], [examples(own.codec) for own in self._models]
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
