"""Callbacks of the training loop: early stopping and the progress bar."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

#: Rounds between two looks of the progress bar at the clock.
STRIDE = 100


class EarlyStopping:
    """Callback: score held-out examples after every epoch, and stop when that has not improved for a while.

    Parameters
    ----------
    examples : sequence of Example
        Held out: no round learns from them.
    patience : int > 0
        Epochs without improvement.
    score : callable
        ``score(predictor, examples)`` is a number, the larger the better.
    """

    def __init__(self, examples: Sequence, patience: int, score: Callable) -> None:
        self.examples = examples
        self.patience = patience
        self.score = score
        self.best_score = -np.inf
        self.best_epoch = 0
        self._best_state: dict[str, np.ndarray] | None = None

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> bool:
        """Score the model, note it in the record as ``validation_score``, and tell whether to stop."""
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


class ProgressBar:
    """Callback: a bar over the examples of all epochs, after a second, where standard error is a terminal.

    Parameters
    ----------
    progress : TrainingProgress
        That of the loop, which tells how far it has come.
    total : float, optional
        Examples of all epochs, where that is known.
    """

    def __init__(self, progress: Any, total: float | None = None) -> None:
        self._progress = progress
        self._total = total
        self._bar: Any = None

    def on_round(self, trainer: Any, step: Any) -> None:
        """Move the bar now and then."""
        if self._progress.examples % STRIDE == 0:
            self._move(0)

    def on_report(self, n_examples: int, loss: float) -> None:
        """Shards have learned so many examples of the block at hand, with this sum of losses."""
        self._move(n_examples, loss=f"{loss / max(n_examples, 1):.4g}")

    def on_block(self, trainer: Any, block: Any) -> None:
        """Show the mean loss of the block, and how many groups are not zero."""
        self._move(0, loss=f"{block.loss / max(block.n_examples, 1):.4g}", groups=np.count_nonzero(trainer.norms))

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        """Show the number of the epoch."""
        self._move(0, epoch=record["epoch"], loss=f"{record['loss']:.4g}")

    def _move(self, more: int, **shown: Any) -> None:
        done = sum(record["examples"] for record in self._progress.history[: self._progress.epoch - 1])
        done += self._progress.examples + more
        if self._bar is None:
            self._bar = tqdm(total=self._total, initial=done, unit=" examples", delay=1, leave=False, disable=None)
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def on_end(self, trainer: Any) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
