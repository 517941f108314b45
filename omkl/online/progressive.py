"""Progressive validation: on a stream every example is a test first, and learned from after."""

import time
from typing import Any

import numpy as np

from omkl.online.history import flat_record, thinned


class ProgressiveValidation:
    """Callback: the error of each example before the round that learns from it, and the kernel weights over time.

    No example is held out, and none is tested after it was learned: the mean of these errors is an honest estimate of
    the error along the stream (Blum, Kalai, Langford 1999). It is that of the current model, not of the averaged one.
    Costs one more decoding a round.

    Parameters
    ----------
    every : int
        Examples in a record. On long streams records are put together, so that there are never more than
        2,000: memory stays bounded, and every record covers as many examples as any other, but for the last.

    Attributes
    ----------
    records : list of dict
        As the training loop makes them, with ``error``: the mean cost per label, word or example of what the model
        would have predicted. Where shards have learned the examples there is none.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from omkl import OnlineMKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(150)
    >>> meter = ProgressiveValidation(every=50)
    >>> _ = OnlineMKLClassifier(callbacks=[meter]).partial_fit(X[order], y[order])
    >>> [record["round"] for record in meter.records]
    [50, 100, 150]
    """

    def __init__(self, every: int = 10_000) -> None:
        self.every = int(every)
        self.records: list[dict[str, Any]] = []
        self._cost = self._size = self._loss = self._weight = 0.0
        self._examples = 0
        self._epoch = 1
        self._began = time.perf_counter()

    def on_round(self, trainer: Any, step: Any) -> None:
        """Take in one round."""
        batch = isinstance(step.potentials, list)
        for potentials, gold in zip(step.potentials, step.gold) if batch else [(step.potentials, step.gold)]:
            self._cost += trainer.structure.cost(gold, trainer.structure.decode(potentials))
            self._size += np.size(gold)
        self._take_in(trainer, step)

    def on_block(self, trainer: Any, block: Any) -> None:
        """Take in examples that were learned elsewhere: only the sum of their losses is known."""
        if block.in_shards:
            self._take_in(trainer, block)

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        """Count epochs."""
        self._epoch = record["epoch"] + 1

    def _take_in(self, trainer: Any, learned: Any) -> None:
        self._loss += learned.loss
        self._weight += learned.weight
        self._examples += learned.n_examples
        if self._examples >= self.every:
            self.close(trainer, self._epoch)

    def close(self, trainer: Any, epoch: int) -> None:
        """Make a record of the examples since the last one, if there are any."""
        if self._examples == 0:
            return
        now = time.perf_counter()
        loss = self._loss / self._weight if self._weight else 0.0
        record = flat_record(trainer, epoch=epoch, examples=self._examples, loss=loss, seconds=now - self._began)
        if self._size:
            record["error"] = self._cost / self._size
        self.records.append(record)
        self._cost = self._size = self._loss = self._weight = 0.0
        self._examples, self._began = 0, now
        merged = thinned(self.records)
        if len(merged) < len(self.records):
            self.records = merged
            self.every *= 2

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """What a checkpoint needs: JSON values, and no arrays."""
        return {name: value for name, value in vars(self).items() if name != "_began"}, {}

    def load_state(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        vars(self).update(values)
        self._began = time.perf_counter()
