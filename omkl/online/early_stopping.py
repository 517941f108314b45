"""Early stopping: held-out examples say when training has gone on for long enough."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class EarlyStopping:
    """Callback: score held-out examples after every epoch, and stop when that has not improved for a while.

    Parameters
    ----------
    examples : sequence of Example, or callable
        Held out: no round learns from them. What is called without arguments when they are first needed returns them.
    patience : int > 0
        Epochs without improvement.
    score : callable
        ``score(predictor, examples)`` is a number, the larger the better.
    """

    def __init__(self, examples: Sequence | Callable[[], Sequence], patience: int, score: Callable) -> None:
        self.examples = examples
        self.patience = patience
        self.score = score
        self.best_score = -np.inf
        self.best_epoch = 0
        self._best_state: dict[str, np.ndarray] | None = None

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> bool:
        """Score the model, note it in the record as ``validation_score``, and tell whether to stop."""
        if callable(self.examples):
            self.examples = self.examples()
        score = record["validation_score"] = self.score(trainer.predictor(), self.examples)
        if score > self.best_score:
            self.best_score, self.best_epoch = score, record["epoch"]
            self._best_state = {name: np.array(array) for name, array in trainer.state().items()}
        return record["epoch"] - self.best_epoch >= self.patience

    def on_end(self, trainer: Any) -> None:
        """Put the trainer back to where the held-out score was best."""
        if self._best_state is not None:
            trainer.load_state(self._best_state)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a checkpoint needs: JSON values, and arrays."""
        return {"best_score": self.best_score, "best_epoch": self.best_epoch}, self._best_state or {}

    def load_state(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        self.best_score, self.best_epoch = values["best_score"], values["best_epoch"]
        self._best_state = arrays or None
