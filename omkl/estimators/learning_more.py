"""``partial_fit`` of the online estimators: a pass over more examples, from where training has come."""

import operator
from collections.abc import Callable
from typing import Any

from omkl._components import parameters_of
from omkl.estimators.sources import StreamSource, TrainingBlock, as_stream, fingerprint, no_companions
from omkl.estimators.undoing import as_it_was
from omkl.exceptions import InputError, ModelFileError
from omkl.online import OnlineModel, TrainingLoop, TrainingProgress, serial_pass, thinned
from omkl.persistence import Packer

#: Parameters that may be set while a model goes on learning; it is made of the others.
CHANGEABLE = frozenset((
    "C", "class_weight", "epochs", "n_examples", "shuffle", "early_stopping", "validation_fraction",
    "n_iter_no_change", "decode", "n_jobs", "callbacks", "verbose", "random_state",
))  # fmt: skip


class LearnsMore:
    """An estimator that goes on learning."""

    model_: OnlineModel
    callbacks: Any
    history_: list[dict[str, Any]]
    n_iter_: int
    _settings: Callable[[], Any]
    _adopt: Callable[[OnlineModel], None]

    def _partial_fit(
        self, codec: Any, read: Callable, X: Any, y: Any, sample_weight: Any, *, classes: Any = None,
        companions: Callable = no_companions,
    ) -> Any:  # fmt: skip
        """One pass over a stream, or over examples that are at hand, in their order; parameters as of ``_fit``.

        Where that fails the estimator is as it was before.

        ``classes`` are what the user declares; ``codec`` is for a model that has not started.
        """
        stream = as_stream(X, y, sample_weight)
        blocks = [TrainingBlock(X, y, sample_weight)] if stream is None else stream
        with as_it_was(self, X, stream is not None):
            self._learn_more(codec, read, blocks, classes, companions)
        return self

    def _learn_more(self, codec: Any, read: Callable, blocks: Any, classes: Any, companions: Callable) -> None:
        """Learn from blocks, or fail on the way; parameters as of :meth:`_partial_fit`."""
        started = hasattr(self, "model_")
        given = given_parameters(self)
        # to check them takes as long as to learn from an example
        known = started and all(map(operator.is_, given, self.model_.given))
        settings = self.model_.settings if known else self._settings()
        if started and not known:
            self._refuse_others()
        if getattr(self, "early_stopping", False):
            raise InputError("early_stopping holds out examples, which partial_fit does not: set it to False.")
        if started and self.model_.predicts_only:
            raise InputError(
                "The model was saved with training=False, without what training goes on from: fit it anew, or load one "
                "that was saved whole."
            )
        if started and classes is not None:
            self.model_.codec.check_declared(classes)
        model = self.model_ if started else OnlineModel(codec, settings)
        model.settings, model.given = settings, given
        source = StreamSource(blocks, model, read)
        source.open()
        if not started:
            self._adopt(model)
            self.history_, self.n_iter_ = [], 1
        done = self.history_[-1]["epoch"] if self.history_ else 0
        progress = TrainingProgress(epoch=done + 1, history=self.history_)
        callbacks = [*companions(model, serial_pass), *(self.callbacks or ())]
        TrainingLoop(model.trainer, source, callbacks=callbacks, progress=progress, concludes=False).run(done + 1)
        self._adopt(model)  # outputs may have come to those that are known
        self.history_ = thinned(self.history_)

    def _refuse_others(self) -> None:
        """Raise where a parameter is set to another value than the model that learns more was made of."""
        for name, before in made_of(self, self.model_).items():
            now = vars(self)[name]
            if not _are_equal(now, before):
                raise InputError(
                    f"{name}={now!r:.80} is for a model that starts, and this one started with {name}={before!r:.80}: "
                    "call fit, or set it back."
                )


def given_parameters(estimator: Any) -> list[Any]:
    """The parameters that an estimator has now, in their order."""
    return list(map(vars(estimator).get, parameters_of(type(estimator))))


def made_of(estimator: Any, model: OnlineModel) -> dict[str, Any]:
    """The parameters that an estimator's model was made of, by name, whatever has been set since."""
    given = zip(parameters_of(type(estimator)), model.given)
    return {name: value for name, value in given if name not in CHANGEABLE}


def _are_equal(a: Any, b: Any) -> bool:
    if a is b:
        return True
    one, other = Packer(), Packer()
    try:
        equal = one.pack(a, "it") == other.pack(b, "it")
    except ModelFileError:  # parts of the user's own that no file holds
        return (a == b) is True
    return equal and fingerprint(one.arrays.values()) == fingerprint(other.arrays.values())
