"""``partial_fit`` of the online estimators: a pass over more examples, from where training has come."""

import operator
from collections.abc import Callable
from typing import Any

from omkl._components import parameters_of
from omkl.estimators.sources import StreamSource, TrainingBlock, as_stream, no_companions
from omkl.estimators.undoing import as_it_was
from omkl.exceptions import InputError
from omkl.online import OnlineModel, TrainingLoop, TrainingProgress, serial_pass, thinned


class LearnsMore:
    """An estimator that goes on learning."""

    model_: OnlineModel
    callbacks: Any
    history_: list[dict[str, Any]]
    n_iter_: int
    _settings: Callable[[], Any]
    _check_settled: Callable[[], None]
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
        given = list(map(vars(self).get, parameters_of(type(self))))
        # to check them takes as long as to learn from an example
        known = started and len(given) == len(self.model_.given) and all(map(operator.is_, given, self.model_.given))
        settings = self.model_.settings if known else self._settings()
        if started and not known:
            self._check_settled()
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
