"""Progressive validation: on a stream every example is a test first, and learned from after."""

import numpy as np

#: Records that are kept; where there are twice as many, neighbours are put together.
RECORDS = 1000


class ProgressiveValidation:
    """Callback: the error of each example before the round that learns from it, and the kernel weights over time.

    No example is held out, and none is tested after it was learned: the mean of these errors is an honest estimate of
    the error along the stream (Blum, Kalai, Langford 1999). It is that of the current model, not of the averaged one.
    Costs one more decoding a round.

    Parameters
    ----------
    every : int
        Rounds in a record. On long streams records are put together, so that there are never more than
        2,000: memory stays bounded, and every record covers as many rounds as any other, but for the last.

    Attributes
    ----------
    records : list of dict
        ``rounds`` (the last one covered), ``error`` (mean cost per label, word or example of what the model would
        have predicted), ``loss`` (mean per round), ``norms`` and ``kernel_weights`` by group after these rounds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from omkl import OnlineMKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(150)
    >>> meter = ProgressiveValidation(every=50)
    >>> _ = OnlineMKLClassifier(callbacks=[meter]).partial_fit(X[order], y[order])
    >>> [record["rounds"] for record in meter.records]
    [50, 100, 150]
    """

    def __init__(self, every=10_000):
        self.every = int(every)
        self.records = []
        self._cost = self._size = self._loss = 0.0
        self._rounds = 0

    def __call__(self, trainer, record):
        """Nothing happens at the end of an epoch."""

    def on_round(self, trainer, step):
        """Take in one round."""
        predicted = trainer.structure.decode(step.potentials)
        self._cost += trainer.structure.cost(step.gold, predicted)
        self._size += np.size(step.gold)
        self._loss += step.loss
        self._rounds += 1
        if self._rounds >= self.every:
            self.close(trainer)

    def on_pass(self, trainer, loss, rounds):
        """Take in rounds that were made elsewhere: only the sum of their losses is known, and records have no error."""
        self._loss += loss
        self._rounds += rounds
        if self._rounds >= self.every:
            self.close(trainer)

    def close(self, trainer):
        """Make a record of the rounds since the last one, if there are any."""
        if self._rounds == 0:
            return
        error = {"error": self._cost / self._size} if self._size else {}
        self.records.append(
            {
                "rounds": trainer.round,
                **error,
                "loss": self._loss / self._rounds,
                "norms": dict(zip(trainer.group_state.names, trainer.group_state.norms.tolist())),
                "kernel_weights": trainer.kernel_weights(),
            }
        )
        self._cost = self._size = self._loss = 0.0
        self._rounds = 0
        if len(self.records) >= 2 * RECORDS:
            self.records = [_together(*pair) for pair in zip(self.records[::2], self.records[1::2])]
            self.every *= 2

    def state(self):
        """What a checkpoint needs: JSON values, and no arrays."""
        return dict(vars(self)), {}

    def load_state(self, values, arrays):
        """The inverse of :meth:`state`."""
        vars(self).update(values)


def _together(first, second):
    """One record of two that cover the same number of rounds."""
    means = {name: (first[name] + second[name]) / 2 for name in ("error", "loss") if name in first}
    return {**second, **means}
