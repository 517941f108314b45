"""Callbacks of the training loop: records, progressive validation, early stopping, a log and a progress bar."""

import csv
import os
import time
from collections.abc import Callable, Sequence
from types import NoneType
from typing import Any

import numpy as np

from omkl._components import check_number
from omkl._files import PathLike, check_output, replacing
from omkl._progress import progress_bar
from omkl.exceptions import InputError
from omkl.online.progress import flat_record, thinned

#: Rounds between two updates of the progress bar.
STRIDE = 100


def check_callbacks(callbacks: Any) -> list[Any]:
    """Return callbacks as a list, empty for None.

    Parameters
    ----------
    callbacks : list, tuple or None

    Returns
    -------
    list

    Raises
    ------
    omkl.exceptions.InputError
        If it is no list, or a callback is neither callable nor has an ``on_*`` method.
    """
    if not isinstance(callbacks, (list, tuple, NoneType)):
        raise InputError(f"`callbacks` must be a list of callbacks, got {callbacks!r}.")
    for callback in callbacks or ():
        if not callable(callback) and not any(name.startswith("on_") for name in dir(callback)):
            raise InputError(f"The callback {callback!r} has no `on_*` method and is not callable.")
    return list(callbacks or ())


def hooks(callbacks: Sequence[Any], name: str) -> list[Callable]:
    """Collect the methods of a name that callbacks have.

    Parameters
    ----------
    callbacks : sequence
    name : str
        Such as ``"on_epoch"``.

    Returns
    -------
    list of callable
    """
    return [getattr(callback, name) for callback in callbacks if hasattr(callback, name)]


class Every:
    """Callback that calls others after every ``n_examples`` examples, as ``on_epoch`` is called after every epoch.

    For streams. Examples left over when ``partial_fit`` returns count for its next call.

    Parameters
    ----------
    n_examples : int > 0
        Examples in a record.
    *callbacks : callables, or objects with ``on_epoch``
        Called as ``callback(trainer, record)`` with a record as of an epoch; a true return value ends training.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from omkl import OnlineMKLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> every = Every(60, lambda trainer, record: print(record["round"], record["examples"]))
    >>> _ = OnlineMKLClassifier(callbacks=[every]).partial_fit(X, y)
    60 60
    120 60
    """

    def __init__(self, n_examples: int, *callbacks: Any) -> None:
        check_number("n_examples", n_examples, above=0, integer=True)
        self.every = int(n_examples)
        self.callbacks = callbacks
        self._loss = self._weight = 0.0
        self._examples = 0
        self._epoch = 1
        self._began = time.perf_counter()

    def on_start(self, trainer: Any, source: Any) -> None:
        """Call the same method of the callbacks."""
        for callback in self.callbacks:
            if hasattr(callback, "on_start"):
                callback.on_start(trainer, source)

    def on_round(self, trainer: Any, step: Any) -> bool:
        """Take in one round."""
        return self._take_in(trainer, step)

    def on_block(self, trainer: Any, block: Any) -> bool:
        """Count the examples of a block that shards have learned."""
        return block.in_shards and self._take_in(trainer, block)

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        """Count epochs."""
        self._epoch = record["epoch"] + 1

    def on_end(self, trainer: Any) -> None:
        """Call the same method of the callbacks."""
        for callback in self.callbacks:
            if hasattr(callback, "on_end"):
                callback.on_end(trainer)

    def _take_in(self, trainer: Any, learned: Any) -> bool:
        self._loss += learned.loss
        self._weight += learned.weight
        self._examples += learned.n_examples
        return self._examples >= self.every and self.close(trainer, self._epoch)

    def close(self, trainer: Any, epoch: int) -> bool:
        """Make a record of the examples since the last one.

        Parameters
        ----------
        trainer : OnlineTrainer
        epoch : int

        Returns
        -------
        bool
            Whether training ends.
        """
        if self._examples == 0:
            return False
        now = time.perf_counter()
        loss = self._loss / self._weight if self._weight else 0.0
        record = flat_record(trainer, epoch=epoch, examples=self._examples, loss=loss, seconds=now - self._began)
        self._loss = self._weight = 0.0
        self._examples, self._began = 0, now
        return self._tell(trainer, record)

    def _tell(self, trainer: Any, record: dict[str, Any]) -> bool:
        return any([getattr(callback, "on_epoch", callback)(trainer, record) for callback in self.callbacks])

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values for a checkpoint, those of the callbacks included; no arrays."""
        own = {name: value for name, value in vars(self).items() if name not in ("_began", "callbacks")}
        told = [callback.state()[0] if hasattr(callback, "state") else None for callback in self.callbacks]
        return {**own, "told": told}, {}

    def load_state(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        own = dict(values)
        for callback, state in zip(self.callbacks, own.pop("told")):
            if state is not None:
                callback.load_state(state, {})
        vars(self).update(own)
        self._began = time.perf_counter()


class ProgressiveValidation(Every):
    """Callback that measures the error on each example before learning from it, and the kernel weights over time.

    The mean of these errors is an unbiased estimate of the error along the stream (Blum, Kalai, Langford 1999). It is
    the error of the current model, not of the averaged one. Costs one more decoding per round.

    Parameters
    ----------
    every : int
        Examples in a record. Doubled whenever there are 2,000 records, whose neighbours are then merged.

    Attributes
    ----------
    records : list of dict
        Records of the training loop, with ``error``: the mean cost of the prediction per label, word or example. There
        is no error for examples that shards have learned.

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
        super().__init__(every)
        self.records: list[dict[str, Any]] = []
        self._cost = self._size = 0.0

    def on_round(self, trainer: Any, step: Any) -> bool:
        """Take in one round."""
        batch = isinstance(step.potentials, list)
        for potentials, gold in zip(step.potentials, step.gold) if batch else [(step.potentials, step.gold)]:
            self._cost += trainer.structure.cost(gold, trainer.structure.decode(potentials))
            self._size += trainer.structure.n_known(gold)
        return self._take_in(trainer, step)

    def _tell(self, trainer: Any, record: dict[str, Any]) -> bool:
        if self._size:
            record["error"] = self._cost / self._size
        self._cost = self._size = 0.0
        self.records.append(record)
        merged = thinned(self.records)
        if len(merged) < len(self.records):
            self.records = merged
            self.every *= 2
        return False


class ProgressBar:
    """Callback that shows a progress bar over the examples of all epochs.

    If standard error is not a terminal, it prints a line every half minute.

    Parameters
    ----------
    progress : TrainingProgress
        Progress of the loop.
    total : float, optional
        Examples of all epochs, if known.
    """

    def __init__(self, progress: Any, total: float | None = None) -> None:
        self._progress = progress
        self._total = total
        self._bar: Any = None

    def on_round(self, trainer: Any, step: Any) -> None:
        """Move the bar every :data:`STRIDE` examples."""
        if self._progress.examples % STRIDE == 0:
            self._move(0)

    def on_report(self, n_examples: int, loss: float) -> None:
        """Show the progress of shards in the current block.

        Parameters
        ----------
        n_examples : int
        loss : float
            Sum of the losses.
        """
        self._move(n_examples, loss=f"{loss / max(n_examples, 1):.4g}")

    def on_block(self, trainer: Any, block: Any) -> None:
        """Show the mean loss of the block and the number of groups that are not zero."""
        self._move(0, loss=f"{block.loss / max(block.n_examples, 1):.4g}", groups=np.count_nonzero(trainer.norms))

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        """Show the number of the epoch."""
        self._move(0, epoch=record["epoch"], loss=f"{record['loss']:.4g}")

    def _move(self, more: int, **shown: Any) -> None:
        done = sum(record["examples"] for record in self._progress.history[: self._progress.epoch - 1])
        done += self._progress.examples + more
        if self._bar is None:
            self._bar = progress_bar(True, total=self._total, initial=done, unit=" examples")
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def on_end(self, trainer: Any) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


class EarlyStopping:
    """Callback that stops training when the score of held-out examples has not improved for some epochs.

    At the end, the trainer returns to the state of the best score.

    Parameters
    ----------
    examples : sequence of Example, or callable
        Held-out examples, or a function that returns them when they are first needed.
    patience : int > 0
        Epochs without improvement after which training stops.
    score : callable
        ``score(predictor, examples)`` returns a number; larger is better.
    """

    def __init__(self, examples: Sequence | Callable[[], Sequence], patience: int, score: Callable) -> None:
        self.examples = examples
        self.patience = patience
        self.score = score
        self.best_score = -np.inf
        self.best_epoch = 0
        self._best_state: dict[str, np.ndarray] | None = None

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> bool:
        """Add ``validation_score`` to the record; return whether to stop."""
        if callable(self.examples):
            self.examples = self.examples()
        score = record["validation_score"] = self.score(trainer.predictor(), self.examples)
        if score > self.best_score:
            self.best_score, self.best_epoch = score, record["epoch"]
            self._best_state = {name: np.array(array) for name, array in trainer.state().items()}
        return record["epoch"] - self.best_epoch >= self.patience

    def on_end(self, trainer: Any) -> None:
        """Load the state of the best score."""
        if self._best_state is not None:
            trainer.load_state(self._best_state)

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """JSON values and arrays for a checkpoint."""
        return {"best_score": self.best_score, "best_epoch": self.best_epoch}, self._best_state or {}

    def load_state(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        self.best_score, self.best_epoch = values["best_score"], values["best_epoch"]
        self._best_state = arrays or None


class CSVLog:
    """Callback that appends every record to a CSV file.

    After every epoch; ``Every(1000, CSVLog(path))`` after every 1000 examples. Columns are named as in ``history_``. A
    column that appears later is added, and is empty in earlier rows.

    Parameters
    ----------
    path : path-like
        An existing file is replaced at the first record.
    append : bool
        Append to an existing file. A run that resumes from a checkpoint continues its own file.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile, pandas
    >>> from sklearn.datasets import load_iris
    >>> from omkl import OnlineMKLClassifier
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     _ = OnlineMKLClassifier(epochs=3, callbacks=[CSVLog(file.name)]).fit(*load_iris(return_X_y=True))
    ...     print(pandas.read_csv(file.name)["epoch"].tolist())
    [1, 2, 3]
    """

    def __init__(self, path: PathLike, append: bool = False) -> None:
        check_output(path)
        self.path = path
        self._columns: list[str] | None = None
        self._rows = 0
        if append and os.path.exists(path):
            self._columns, rows = _read(path)
            self._rows = len(rows)

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        """Write a row."""
        if self._columns is None:
            self._columns = list(record)
            with open(self.path, "w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow(self._columns)
        new = [name for name in record if name not in self._columns]
        if new:
            self._rewrite([*self._columns, *new])
        with open(self.path, "a", newline="", encoding="utf-8") as file:
            csv.DictWriter(file, self._columns).writerow(record)
        self._rows += 1

    def _rewrite(self, columns: list[str], n_rows: int | None = None) -> None:
        """Rewrite the file with these columns and its first ``n_rows`` rows."""
        if not os.path.isfile(self.path):
            raise InputError(f"{self.path} is not a regular file, so no column can be added to it.")
        before, rows = _read(self.path)
        with replacing(self.path, newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows([*row, *[""] * (len(columns) - len(before))] for row in rows[:n_rows])
        self._columns = columns

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Columns and number of rows, for a checkpoint."""
        return {"columns": self._columns, "rows": self._rows}, {}

    def load_state(self, values: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
        """Continue after the rows of the checkpoint; later rows are removed."""
        self._columns, self._rows = values["columns"], values["rows"]
        if self._columns is not None and os.path.isfile(self.path):
            self._rewrite(self._columns, self._rows)
        else:
            self._columns, self._rows = None, 0


def _read(path: PathLike) -> tuple[list[str], list[list[str]]]:
    """Columns and rows."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    return (rows[0], rows[1:]) if rows else ([], [])
