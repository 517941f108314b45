"""Callbacks of the training loop.

They are progressive validation, early stopping, a log and a progress bar.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from omkl._components import check_number
from omkl._files import PathLike, check_output
from omkl._progress import progress_bar
from omkl.online import rounds
from omkl.online.averaging import Predictor
from omkl.online.trainer import OnlineTrainer

#: Number of rounds between updates of the progress bar.
STRIDE = 100


class ProgressiveValidation:
    """Callback that tests on each example before training on it, and records kernel weights.

    The mean error is an unbiased estimate of the error along the stream (Blum, Kalai, Langford
    1999). It is the error of the current iterate, not of the averaged model. Requires one
    additional decoding per round.

    Parameters
    ----------
    every : int
        Number of examples in a record. At 2,000 records, neighbouring records are merged, and
        ``every`` is doubled. An incomplete record at the end of ``partial_fit`` is continued by the
        next call.
    *listeners : callables, or callbacks with ``on_epoch``
        Called as ``listener(trainer, record)`` for every record. A true return value ends training.

    Attributes
    ----------
    records : list of dict
        Records as of the training loop, with ``error``: the mean cost of the predictions per label,
        word or example. Training in shards records no error. ``changes`` lists the rows at which a
        change of the stream was found, if there are any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from omkl import OnlineMKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> order = np.random.default_rng(0).permutation(150)
    >>> show = lambda trainer, record: print(record["round"], record["examples"])
    >>> meter = ProgressiveValidation(50, show)
    >>> _ = OnlineMKLClassifier(callbacks=[meter]).partial_fit(X[order], y[order])
    50 50
    100 50
    150 50
    """

    def __init__(self, every: int = 10_000, *listeners: object) -> None:
        check_number("every", every, above=0, integer=True)
        self.every = int(every)
        self.listeners = listeners
        self.records: list[rounds.Record] = []
        self._reset(1)

    def _reset(self, epoch: int) -> None:
        """Begin a record."""
        self._sums = rounds.TrainingProgress(epoch)
        self._cost = 0.0
        #: Number of labels, words or examples that the cost is about.
        self._size = 0

    def on_round(self, trainer: OnlineTrainer, step: rounds.Step) -> bool:
        """Add the loss and the cost of one round."""
        structure = trainer.structure
        if step.costs is not None:
            self._cost = rounds.added(self._cost, step.costs)
        else:
            predicted = structure.decode(step.potentials)
            self._cost += structure.cost(step.gold, predicted)
        self._size += structure.n_known(step.gold)
        return self._take_in(trainer, step)

    def on_change(self, trainer: OnlineTrainer, row: int) -> None:
        """Remember a change of the stream for the record."""
        self._sums.changes.append(row)

    def room(self) -> int:
        """Return how many examples may come before the next record."""
        return self.every - self._sums.examples

    def on_block(self, trainer: OnlineTrainer, block: rounds.LearnedBlock) -> bool:
        """Add the loss of a block that was trained in shards."""
        return block.in_shards and self._take_in(trainer, block)

    def on_epoch(self, trainer: OnlineTrainer, record: rounds.Record) -> None:
        """Remember the number of the epoch."""
        self._sums.epoch = record["epoch"] + 1

    def _take_in(self, trainer: OnlineTrainer, learned: rounds.Step | rounds.LearnedBlock) -> bool:
        """Add losses, and make the record if it is complete; return whether a listener ends."""
        self._sums.add(learned.n_examples, learned.loss, learned.weight)
        return self._sums.examples >= self.every and self.close(trainer, self._sums.epoch)

    def close(self, trainer: OnlineTrainer, epoch: int) -> bool:
        """Make a record of the examples since the last one.

        Return whether a listener ends training.
        """
        sums = self._sums
        if sums.examples == 0:
            return False
        loss = sums.loss / sums.weight if sums.weight else 0.0
        record = trainer.record(epoch, sums.examples, loss, sums.elapsed())
        if self._size:
            record["error"] = self._cost / self._size
        if sums.changes:
            record["changes"] = sums.changes
        self._reset(sums.epoch)
        self.records.append(record)
        merged = rounds.thinned(self.records)
        if len(merged) < len(self.records):
            self.records = merged
            self.every *= 2
        return any([tell(trainer, record) for tell in rounds.hooks(self.listeners, "on_epoch")])

    def state(self) -> rounds.State:
        """Return JSON values for a checkpoint, including those of the listeners, and no arrays."""
        values_of_listeners, _ = rounds.states_of(self.listeners)
        values = {
            "every": self.every,
            "records": self.records,
            "costs": [self._cost, self._size],
            "sums": self._sums.state(),
            "listeners": values_of_listeners,
        }
        return values, {}

    def load_state(self, values: rounds.Values, arrays: dict[str, np.ndarray]) -> None:
        """Load the values of :meth:`state`."""
        rounds.load_states(self.listeners, values["listeners"], {})
        self._sums.load_state(values["sums"])
        self.every = values["every"]
        self.records = values["records"]
        self._cost, self._size = values["costs"]


@dataclass(eq=False)
class ProgressBar:
    """Callback that shows a progress bar for the ``total`` examples of all epochs of a loop.

    If standard error is not a terminal, a line is printed every half minute.
    """

    #: Whether compiled passes must compute the costs of predictions.
    reads_costs = False

    _progress: rounds.TrainingProgress
    _total: float | None = None
    _bar: Any = None
    _uncompiled: object = None

    def on_uncompiled(self, trainer: OnlineTrainer, part: object) -> None:
        """Say once why rounds run in Python.

        The reason is a part of the model without compiled functions, or a callback that sees every
        round.
        """
        if self._uncompiled is not None:
            return
        self._uncompiled = part
        if hasattr(part, "on_round"):
            name = type(part).__name__
            reason = f"The callback {name} has `on_round` without `room`, and sees every round"
        elif type(part).__repr__ is object.__repr__:
            reason = f"{type(part).__name__} brings no compiled function"
        else:
            reason = f"{part!r} brings no compiled function"
        tqdm.write(f"{reason}: rounds run in Python, which takes longer.", file=sys.stderr)

    def on_round(self, trainer: OnlineTrainer, step: rounds.Step) -> None:
        """Move the bar every :data:`STRIDE` examples."""
        if self._progress.examples % STRIDE == 0:
            self._move()

    def room(self) -> int:
        """Return how many examples may come before the bar moves."""
        return STRIDE - self._progress.examples % STRIDE

    def on_block(self, trainer: OnlineTrainer, block: rounds.LearnedBlock) -> None:
        """Show the mean loss of the block and the number of nonzero groups."""
        mean_loss = block.loss / max(block.n_examples, 1)
        self._move(loss=f"{mean_loss:.4g}", groups=np.count_nonzero(trainer.norms))

    def on_epoch(self, trainer: OnlineTrainer, record: rounds.Record) -> None:
        """Show the number of the epoch."""
        self._move(epoch=record["epoch"], loss=f"{record['loss']:.4g}")

    def _move(self, **shown: object) -> None:
        """Move the bar to the present example; ``shown`` are figures beside it."""
        past_epochs = self._progress.history[: self._progress.epoch - 1]
        done = sum(record["examples"] for record in past_epochs)
        done += self._progress.examples
        if self._bar is None:
            self._bar = progress_bar(True, total=self._total, initial=done, unit=" examples")
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def on_end(self, trainer: OnlineTrainer) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


@dataclass(eq=False)
class BestEpoch:
    """Callback that stops training when the score of held-out examples does not improve.

    It waits for ``patience`` epochs. The score is ``score(predictor, examples())``; ``examples`` is
    called only after an epoch, when all features are known. At the end, the trainer's state with
    the best score is restored.
    """

    examples: Callable[[], rounds.Examples]
    patience: int
    score: Callable[[Predictor, rounds.Examples], float]
    best_score: float = -np.inf
    best_epoch: int = 0
    _best_state: dict[str, np.ndarray] = field(default_factory=dict)

    def on_epoch(self, trainer: OnlineTrainer, record: rounds.Record) -> bool:
        """Add ``validation_score`` to the record; return whether to stop."""
        score = self.score(trainer.predictor(), self.examples())
        record["validation_score"] = score
        if score > self.best_score:
            self.best_score = score
            self.best_epoch = record["epoch"]
            self._best_state = {name: np.array(array) for name, array in trainer.state().items()}
        return record["epoch"] - self.best_epoch >= self.patience

    def on_end(self, trainer: OnlineTrainer) -> None:
        """Load the state of the best score."""
        if self._best_state:
            trainer.load_state(self._best_state)

    def state(self) -> rounds.State:
        """Return JSON values and arrays for a checkpoint."""
        return {"best_score": self.best_score, "best_epoch": self.best_epoch}, self._best_state

    def load_state(self, values: rounds.Values, arrays: dict[str, np.ndarray]) -> None:
        """Load what :meth:`state` returned."""
        self.best_score = values["best_score"]
        self.best_epoch = values["best_epoch"]
        self._best_state = arrays


class RecordLog:
    """Callback that writes every record to a file during training, as one line of JSON.

    It writes after every epoch, or as a listener of :class:`ProgressiveValidation`, after ``every``
    examples. ``pandas.read_json(path, lines=True)`` reads the file. A resumed run continues its
    file.

    Parameters
    ----------
    path : path-like
        An existing file is replaced at the first record.

    Examples
    --------
    >>> import tempfile, pandas
    >>> from sklearn.datasets import load_iris
    >>> from omkl import OnlineMKLClassifier
    >>> data = load_iris(return_X_y=True)
    >>> with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
    ...     _ = OnlineMKLClassifier(epochs=3, callbacks=[RecordLog(file.name)]).fit(*data)
    ...     print(pandas.read_json(file.name, lines=True)["epoch"].tolist())
    [1, 2, 3]
    """

    def __init__(self, path: PathLike) -> None:
        check_output(path)
        self.path = path
        self._n_records = 0

    def on_epoch(self, trainer: OnlineTrainer, record: rounds.Record) -> None:
        """Write a line."""
        mode = "a" if self._n_records else "w"
        with open(self.path, mode, encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self._n_records += 1

    def state(self) -> rounds.State:
        """Return the number of records, for a checkpoint."""
        return {"records": self._n_records}, {}

    def load_state(self, values: rounds.Values, arrays: dict[str, np.ndarray]) -> None:
        """Continue after the records of the checkpoint, and remove later records from the file."""
        if os.path.isfile(self.path):
            path = Path(self.path)
            lines = path.read_text("utf-8").splitlines(keepends=True)
            lines_before = lines[: values["records"]]
            path.write_text("".join(lines_before), "utf-8")
            self._n_records = len(lines_before)
