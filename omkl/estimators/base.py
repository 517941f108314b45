"""What the online estimators share: they are faces of one OnlineModel, which they train, show and save."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from os import PathLike
from types import NoneType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from omkl._components import check_flags, check_number
from omkl._files import write_archive
from omkl.data import Stream
from omkl.estimators.runs import Run
from omkl.estimators.streaming import StreamSource, TrainingBlock, as_stream, one_block, refuse_for_stream
from omkl.exceptions import InputError
from omkl.groups import KernelBank
from omkl.losses import StructuredLoss
from omkl.online import (
    ArraySource,
    DistanceOverGradients,
    EarlyStopping,
    OnlineModel,
    OnlineSettings,
    Predictor,
    ProgressiveValidation,
    Schedule,
    TrainingLoop,
    TrainingProgress,
    serial_pass,
    thinned,
)
from omkl.persistence import Packer, Unpacker


class OnlineEstimator(BaseEstimator):
    """A face: ``__init__`` stores, ``fit`` checks and encodes, ``predict`` decodes; ``model_`` is what is learned.

    A face makes its codec (:meth:`_codec`), reads a :class:`TrainingBlock` into what that takes (:meth:`_read`), and
    may score held-out examples in a way of its own.
    """

    #: The family that ``loss`` names a member of.
    _losses = StructuredLoss

    def _codec(self, **options: Any) -> Any:
        """A codec that knows nothing yet; see :class:`~omkl.online.model.Codec`."""
        raise NotImplementedError

    def _read(self, block: TrainingBlock, first: bool, whole: bool = False) -> Any:
        """Data as the codec takes them, checked; ``first`` where a model starts with them."""
        raise NotImplementedError

    def _settings(self) -> OnlineSettings:
        """Parameters as objects, checked; raises :class:`~omkl.exceptions.InputError`."""
        check_flags(self)
        if not isinstance(self.callbacks, (list, tuple, NoneType)):
            raise InputError(f"callbacks must be a list of callbacks, not {self.callbacks!r}.")
        if getattr(self, "early_stopping", False):
            check_number("validation_fraction", self.validation_fraction, above=0, below=1)
            check_number("n_iter_no_change", self.n_iter_no_change, above=0, integer=True)
        return OnlineSettings.of(self, self._losses, self._automatic_schedule())

    def _automatic_schedule(self) -> Schedule:
        """What ``eta0="auto"`` means."""
        return DistanceOverGradients()

    # ---- training -----------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any, running: dict[str, Any], **options: Any) -> Any:
        """What ``fit`` does; ``running`` is for :class:`~omkl.estimators.runs.Run`, ``options`` for the codec."""
        with self._names_kept():
            return self._fit_from_scratch(X, y, sample_weight, running, **options)

    def _fit_from_scratch(self, X: Any, y: Any, sample_weight: Any, running: dict[str, Any], **options: Any) -> Any:
        settings, stream = self._settings(), self._stream(X, y)
        if stream is not None:
            refuse_for_stream(sample_weight=sample_weight)
            return self._fit_stream(stream, self._run(running), **options)
        started = time.perf_counter()
        data = self._read(TrainingBlock(X, y, sample_weight), first=True, whole=True)
        run = self._run(running)
        model = OnlineModel(self._codec(**options), settings)
        examples = model.codec.start(data)
        if run.checkpointer is not None:
            run.checkpointer.check_data(model.codec.facts(examples))
        chosen, held_out = self._held_out(examples.n_inputs, run.rng)
        training = examples.only(chosen)
        validation = None if held_out is None else examples.only(held_out, weighted=False)
        model.start(*model.codec.banks(settings.averaging, training, run.n_shards > 0))
        history = self._train(model, training, validation, run)
        self._finish(model, data, examples, chosen, run, len(history))
        self._adopt(model)
        self.n_iter_, self.history_, self.fit_seconds_ = len(history), history, time.perf_counter() - started
        return self

    @contextmanager
    def _names_kept(self) -> Iterator[None]:
        """Where training fails, the columns are called what they were: the earlier model still knows these."""
        names = ("n_features_in_", "feature_names_in_")
        before = {name: value for name, value in vars(self).items() if name in names}
        try:
            yield
        except BaseException:
            for name in names:
                vars(self).pop(name, None)
            vars(self).update(before)
            raise

    def _run(self, running: dict[str, Any]) -> Run:
        """How a call of ``fit`` runs."""
        parameters = {} if running["checkpoint"] is None else self._saved_parameters()
        return Run(type(self).__name__, parameters, generator(self.random_state), **running)

    def _finish(self, model: OnlineModel, data: Any, examples: Any, chosen: np.ndarray, run: Run, epochs: int) -> None:
        """What is left to learn when ``fit`` has made its epochs."""

    def _train(self, model: OnlineModel, training: Any, validation: Any, run: Run) -> list[dict[str, Any]]:
        """Make the epochs of ``fit`` on examples that are all at hand; returns the history."""
        model.set_objective(training, lambda: self._loss_at_zero(model, training))
        callbacks = list(self.callbacks or ())
        if validation is not None:
            callbacks.insert(0, EarlyStopping(validation, self.n_iter_no_change, self._validation_score))
        source = ArraySource(training, run.rng if self.shuffle else None)
        history = run.train("model", model.trainer, source, self.epochs, callbacks, self.verbose)
        model.trainer.release()
        return history

    def _fit_stream(self, stream: Stream, run: Run, **options: Any) -> Any:
        """Train from scratch on a stream, block by block."""
        if getattr(self, "early_stopping", False):
            raise InputError(
                "early_stopping holds out examples, which a stream does not: history_ tells the progressive error."
            )
        if stream.once and self.epochs > 1:
            raise InputError(
                f"epochs={self.epochs}, but an iterator can be passed over only once: set epochs=1, or give a "
                "Stream that can be read again."
            )
        if run.checkpointer is not None:
            # a stream cannot be looked through before: its blocks are compared one by one, and it is no set of arrays
            run.checkpointer.check_data({"kind of data": "stream"})
        model = OnlineModel(self._codec(**options), self._settings())
        source = StreamSource(stream, model, self._read, run.n_shards, checked=run.checkpointer is not None)
        found = run.earlier("model")
        if found is not None:
            values, arrays = found
            model.unpack(values["source"]["model"], arrays, Unpacker(arrays, _users_own(self)))
        source.open()
        meter = ProgressiveValidation()
        callbacks = [*self._companions(model, run.make_pass), *(self.callbacks or ()), meter]
        history = run.train("model", model.trainer, source, self.epochs, callbacks, self.verbose)
        meter.close(model.trainer, len(history))
        self._adopt(model)
        self.history_, self.n_iter_ = meter.records, len(history)
        return self

    def _partial_fit(self, X: Any, y: Any, sample_weight: Any = None, **options: Any) -> Any:
        """One pass over a stream, or over examples that are at hand, in their order."""
        stream = self._stream(X, y)
        if stream is not None:
            refuse_for_stream(sample_weight=sample_weight)
        else:
            stream = one_block(X, y, sample_weight)
        settings, started = self._settings(), hasattr(self, "model_")
        if getattr(self, "early_stopping", False):
            raise InputError("early_stopping holds out examples, which partial_fit does not: set it to False.")
        if started and options.get("classes") is not None:
            self.model_.codec.check_declared(options["classes"])
        model = self.model_ if started else OnlineModel(self._codec(**options), settings)
        model.settings = settings
        source = StreamSource(stream, model, self._read)
        source.open()
        if not started:
            self._adopt(model)
            self.history_, self.n_iter_ = [], 1
        done = self.history_[-1]["epoch"] if self.history_ else 0
        progress = TrainingProgress(epoch=done + 1, history=self.history_)
        callbacks = [*self._companions(model, serial_pass), *(self.callbacks or ())]
        try:
            TrainingLoop(model.trainer, source, callbacks=callbacks, progress=progress).run(done + 1)
        finally:
            self._adopt(model)  # outputs may have come to those that are known
        self.history_ = thinned(self.history_)
        return self

    def _companions(self, model: OnlineModel, make_pass: Callable) -> list[Any]:
        """Callbacks that learn from the blocks of a stream beside the model."""
        return []

    def _stream(self, X: Any, y: Any) -> Stream | None:
        """The stream that ``X`` is, if it is one."""
        return as_stream(X, y)

    def _adopt(self, model: OnlineModel) -> None:
        """Make a trained model the estimator's own; nothing changes where training failed."""
        self.model_ = model
        self.__dict__.update(model.codec.learned())

    def _held_out(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray | None]:
        """Indices of ``(training, validation)`` examples; the latter None without early stopping."""
        if not self.early_stopping:
            return np.arange(n), None
        n_held_out = max(1, round(self.validation_fraction * n))
        if n_held_out >= n:
            raise InputError(f"Early stopping cannot hold out {n_held_out} of {n} examples: give more of them.")
        shuffled = rng.permutation(n)
        return np.sort(shuffled[n_held_out:]), np.sort(shuffled[:n_held_out])

    def _validation_score(self, predictor: Predictor, examples: Sequence) -> float:
        """How good a frozen model is on held-out examples, the larger the better: the share of labels it has right."""
        right = total = 0
        for x, y, _ in examples:
            right += np.count_nonzero(predictor.structure.decode(predictor.potentials(x)) == y)
            total += len(x)
        return right / total

    def _loss_at_zero(self, model: OnlineModel, training: Any) -> float:
        """Mean loss where all parameters are zero."""
        trainer = model.trainer
        return training.mean(lambda n: trainer.loss.at_zero(trainer.structure, n))

    # ---- what is learned ----------------------------------------------------------------------------------------

    @property
    def predictor_(self) -> Predictor:
        """The frozen, averaged model that predicts, a :class:`~omkl.online.Predictor`."""
        check_is_fitted(self)
        return self.model_.predictor()

    @property
    def kernel_weights_(self) -> dict[str, float]:
        """Weight of each regularized group by name, in [0, 1], summing to one: how MKL combines them."""
        check_is_fitted(self)
        return self.model_.kernel_weights()

    @property
    def dual_coef_(self) -> dict[str, np.ndarray]:
        """Dual coefficients of the averaged model, for each kernel that is held as an expansion over support vectors.

        ``dual_coef_[name]`` is (S, K), a row for each of ``support_vectors_[name]`` and a column for each label (one
        for two classes and for a regressor): the kernel adds ``K(X, support_vectors_[name]) @ dual_coef_[name]``.
        """
        return {name: A for bank in self._expansions() for name, A in zip(bank.names, bank.averaged_coefficients())}

    @property
    def support_vectors_(self) -> dict[str, np.ndarray]:
        """Support vectors of each such kernel, (S, d), as the kernel reads them."""
        return {name: bank.supports[view] for bank in self._expansions() if bank.supports
                for name, view in zip(bank.names, bank.views)}  # fmt: skip

    def _expansions(self) -> list[KernelBank]:
        check_is_fitted(self)
        return [bank for bank in self.model_.trainer.banks if isinstance(bank, KernelBank)]

    def top_features(self, n: int = 10, group: str | None = None) -> list[dict[str, Any]]:
        """The explicit features of the largest weights in the averaged model.

        Parameters
        ----------
        n : int
        group : str, optional
            Only features of this group.

        Returns
        -------
        list of dict
            ``feature`` (``key=value``, or ``kernel[column]``), ``group``, ``label`` (not of a regressor), ``weight``;
            largest first. Empty where the model holds no explicit features.
        """
        return self.model_.codec.top_features(self.predictor_, n, group)

    def memory_usage(self) -> dict[str, int]:
        """Bytes of the parameters: ``"training"`` what training goes on from, ``"prediction"`` what predicts."""
        check_is_fitted(self)
        return self.model_.memory_usage()

    # ---- model files --------------------------------------------------------------------------------------------

    #: Learned attributes beside the model's own, which a model file keeps where they are set.
    _plain_attributes = ("n_iter_", "history_", "n_features_in_", "feature_names_in_")

    def save(self, path: str | PathLike) -> None:
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
        attributes = {name: getattr(self, name) for name in self._plain_attributes if hasattr(self, name)}
        # equal models are equal files, however long they took
        attributes["history_"] = [{k: v for k, v in r.items() if "seconds" not in k} for r in self.history_]
        if "feature_names_in_" in attributes:
            attributes["feature_names_in_"] = attributes["feature_names_in_"].tolist()
        values, arrays = self._pack(packer)
        parameters = self._saved_parameters()
        manifest = {
            "class": type(self).__name__,
            "version": version("omkl"),
            "parameters": {name: packer.pack(value, name) for name, value in parameters.items()},
            "attributes": packer.pack(attributes, "attributes"),
            **values,
        }
        write_archive(path, manifest, {**packer.arrays, **arrays})

    def _saved_parameters(self) -> dict[str, Any]:
        """Parameters as a model file can hold them."""
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return {**self.get_params(deep=False), "callbacks": None, "random_state": seed}

    def _pack(self, packer: Packer) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """``(JSON values, arrays)`` of what is learned."""
        values, arrays = self.model_.describe(packer)
        return values, {**arrays, **self.model_.trainer.state()}

    def _unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray], unpacker: Unpacker) -> None:
        self._adopt(OnlineModel(self._codec(), self._settings()).unpack(values, arrays, unpacker))

    @classmethod
    def _from_model(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray], unpacker: Unpacker) -> Any:
        estimator = cls(**{name: unpacker.unpack(value) for name, value in manifest["parameters"].items()})
        estimator._unpack(manifest, arrays, unpacker)
        for name, value in unpacker.unpack(manifest["attributes"]).items():
            setattr(estimator, name, np.array(value, dtype=object) if name == "feature_names_in_" else value)
        return estimator


def needs_probabilities(estimator: OnlineEstimator) -> bool:
    """Whether potentials are log-probabilities; raises an AttributeError that says which loss makes them so."""
    if estimator._settings().probabilistic:
        return True
    raise AttributeError(
        f'{type(estimator).__name__} has probabilities with loss="crf" only, not with loss={estimator.loss!r}.'
    )


def generator(random_state: Any) -> np.random.Generator:
    """The generator that ``random_state`` asks for."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise InputError(f"random_state must be None, an integer >= 0 or a generator, not {random_state!r}.") from None


def _users_own(estimator: OnlineEstimator) -> dict[str, Any]:
    """The user's classes and functions among the parameters, by name, which a checkpoint cannot hold."""
    found: dict[str, Any] = {}
    waiting = list(estimator.get_params(deep=False).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif hasattr(value, "parameters"):
            found[type(value).__name__] = type(value)
            waiting += value.parameters().values()
        elif callable(value):
            found[getattr(value, "__name__", "function")] = value
    return found
