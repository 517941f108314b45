"""How far training has come, its flat records, and what listens to it: meters, a progress bar."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from omkl._components import check_number
from omkl._progress import progress_bar
from omkl.exceptions import MissingDependencyError
from omkl.losses import is_partial

#: Records of ``partial_fit`` and of streams that are kept; where there are twice as many, neighbours are merged.
RECORDS = 1000
#: Rounds between two looks of the progress bar at the clock.
STRIDE = 100
_MEANS = ("loss", "error")


@dataclass
class TrainingProgress:
    """How far a loop has come: what is neither in the trainer's state nor in the source's.

    Attributes
    ----------
    epoch : int
        The epoch that is running, from 1.
    block : int
        Blocks of it that are learned.
    block_examples, block_loss, block_weight : int, float, float
        Examples of the block at hand that are learned, the sum of their weighted losses, each before its update, and
        that of their weights.
    examples, loss, weight : int, float, float
        The same for the epoch.
    seconds : float
        What the epoch had taken before :meth:`start_clock`.
    history : list of dict
        Records of the epochs before.
    finished : bool
        Whether a callback has ended training.
    """

    epoch: int = 1
    block: int = 0
    block_examples: int = 0
    block_loss: float = 0.0
    block_weight: float = 0.0
    examples: int = 0
    loss: float = 0.0
    weight: float = 0.0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    finished: bool = False

    def __post_init__(self) -> None:
        self.start_clock()

    def start_clock(self) -> None:
        """The epoch goes on now."""
        self._began = time.perf_counter() - self.seconds

    def elapsed(self) -> float:
        """Seconds that the epoch has taken so far."""
        return time.perf_counter() - self._began

    def add(self, n_examples: int, loss: float, weight: float) -> None:
        """Count learned examples, the sum of their weighted losses, and that of their weights."""
        self.block_examples += n_examples
        self.block_loss += loss
        self.block_weight += weight
        self.examples += n_examples
        self.loss += loss
        self.weight += weight

    def next_block(self) -> None:
        """The block is over."""
        self.block, self.block_examples, self.block_loss, self.block_weight = self.block + 1, 0, 0.0, 0.0

    def next_epoch(self) -> None:
        """The epoch is over."""
        self.epoch, self.block, self.examples, self.loss, self.seconds = self.epoch + 1, 0, 0, 0.0, 0.0
        self.weight = 0.0
        self.start_clock()

    def state(self) -> dict[str, Any]:
        """JSON values for a checkpoint."""
        return {**asdict(self), "seconds": self.elapsed()}

    def load_state(self, values: dict[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        vars(self).update(values)
        self.start_clock()


def flat_record(trainer: Any, *, epoch: int, examples: int, loss: float, seconds: float) -> dict[str, Any]:
    """What a record tells of a trainer and of the rounds just made.

    Parameters
    ----------
    trainer : OnlineTrainer
    epoch : int
        From 1.
    examples : int
        Examples that the record covers.
    loss : float
        Mean of their losses, each before its update.
    seconds : float
        What they took.

    Returns
    -------
    dict
        Also ``round``, ``penalty`` (R of the model now), ``objective`` (the loss plus lambda times that), ``rate``,
        and ``norm:NAME`` and ``weight:NAME`` of each group: those of the last iterate, not of the averaged model.
    """
    penalty = trainer.penalty()
    return {
        "epoch": epoch,
        "round": trainer.round,
        "examples": examples,
        "loss": loss,
        "penalty": penalty,
        "objective": loss + trainer.current_lambda * penalty,
        "rate": trainer.schedule(trainer.round - trainer.began),
        **{f"norm:{name}": norm for name, norm in zip(trainer.group_state.names, trainer.group_state.norms.tolist())},
        **{f"weight:{name}": weight for name, weight in trainer.iterate_weights().items()},
        "seconds": seconds,
    }


def values_of(record: dict[str, Any], kind: str) -> dict[str, float]:
    """The ``kind:NAME`` entries of a record by NAME.

    >>> values_of({"epoch": 1, "norm:a": 0.5, "norm:b:on=x": 0.0}, "norm")
    {'a': 0.5, 'b:on=x': 0.0}
    """
    return {key.removeprefix(f"{kind}:"): value for key, value in record.items() if key.startswith(f"{kind}:")}


def thinned(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same records where there are few, else half as many, each of two neighbours."""
    if len(records) < 2 * RECORDS:
        return records
    return [_merged(*pair) for pair in zip(records[::2], records[1::2])] + records[len(records) // 2 * 2 :]


def _merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """One record of two neighbours: means over the examples of both, and how things stood after the second."""
    n = first["examples"] + second["examples"]
    means = {
        name: (first["examples"] * first[name] + second["examples"] * second[name]) / n
        for name in _MEANS
        if name in first and name in second
    }
    return {**second, **means, "examples": n, "seconds": first.get("seconds", 0.0) + second.get("seconds", 0.0)}


def to_frame(history: Sequence[dict[str, Any]]) -> Any:
    """A history as a pandas data frame with a row for every record, and a column for every entry.

    Parameters
    ----------
    history : sequence of dict
        ``history_`` of an estimator.

    Returns
    -------
    pandas.DataFrame

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If pandas is not installed.
    """
    try:
        import pandas
    except ImportError:
        raise MissingDependencyError("to_frame needs pandas: pip install pandas.") from None
    return pandas.DataFrame(list(history))


class Every:
    """Callback: tells others of training after every so many examples, as ``on_epoch`` does after every epoch.

    For streams without epochs, and for long ones. What is left over when a call of ``partial_fit`` ends waits for the
    next call.

    Parameters
    ----------
    n_examples : int > 0
        Examples in a record.
    *callbacks : callables, or objects with ``on_epoch``
        Called as ``callback(trainer, record)``; a true return value ends training. The record is as the training loop
        makes them of epochs: ``round``, ``examples``, ``loss``, ``objective``, ``norm:NAME``, ``weight:NAME`` ...

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
        """Pass it on."""
        for callback in self.callbacks:
            if hasattr(callback, "on_start"):
                callback.on_start(trainer, source)

    def on_round(self, trainer: Any, step: Any) -> bool:
        """Take in one round."""
        return self._take_in(trainer, step)

    def on_block(self, trainer: Any, block: Any) -> bool:
        """Take in examples that were learned elsewhere: only the sum of their losses is known."""
        return block.in_shards and self._take_in(trainer, block)

    def on_epoch(self, trainer: Any, record: dict[str, Any]) -> None:
        """Count epochs."""
        self._epoch = record["epoch"] + 1

    def on_end(self, trainer: Any) -> None:
        """Pass it on."""
        for callback in self.callbacks:
            if hasattr(callback, "on_end"):
                callback.on_end(trainer)

    def _take_in(self, trainer: Any, learned: Any) -> bool:
        self._loss += learned.loss
        self._weight += learned.weight
        self._examples += learned.n_examples
        return self._examples >= self.every and self.close(trainer, self._epoch)

    def close(self, trainer: Any, epoch: int) -> bool:
        """Make a record of the examples since the last one, if there are any; returns whether to end."""
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
        """What a checkpoint needs: JSON values, and no arrays; also of those that are told."""
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
        super().__init__(every)
        self.records: list[dict[str, Any]] = []
        self._cost = self._size = 0.0

    def on_round(self, trainer: Any, step: Any) -> bool:
        """Take in one round."""
        batch = isinstance(step.potentials, list)
        for potentials, gold in zip(step.potentials, step.gold) if batch else [(step.potentials, step.gold)]:
            self._cost += trainer.structure.cost(gold, trainer.structure.decode(potentials))
            self._size += int(np.count_nonzero(gold >= 0)) if is_partial(trainer.structure, gold) else np.size(gold)
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
    """Callback: a bar over the examples of all epochs, after a second, where standard error is a terminal; elsewhere a
    line every half minute.

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
            self._bar = progress_bar(True, total=self._total, initial=done, unit=" examples")
        if shown:
            self._bar.set_postfix(shown, refresh=False)
        self._bar.update(done - self._bar.n)

    def on_end(self, trainer: Any) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
