"""Progress of a training loop, and its records."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from omkl.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from pandas import DataFrame

#: Records that ``partial_fit`` and streams keep; where there are twice as many, neighbours are merged.
RECORDS = 1000
#: Entries that are means over the examples of a record.
MEANS = ("loss", "error")
#: A flat record of an epoch, or of some examples; see :meth:`omkl.online.OnlineTrainer.record`.
Record: TypeAlias = dict[str, Any]


@dataclass
class TrainingProgress:
    """Progress of a training loop.

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
        Seconds of the epoch before :meth:`start_clock`.
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
    history: list[Record] = field(default_factory=list)
    finished: bool = False

    def __post_init__(self) -> None:
        self.start_clock()

    def start_clock(self) -> None:
        """Start or restart the clock of the epoch."""
        self._began = time.perf_counter() - self.seconds

    def elapsed(self) -> float:
        """Seconds that the epoch has taken so far."""
        return time.perf_counter() - self._began

    def add(self, n_examples: int, loss: float, weight: float) -> None:
        """Count learned examples.

        Parameters
        ----------
        n_examples : int
        loss, weight : float
            Sums of their weighted losses and of their weights.
        """
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


def values_of(record: Record, kind: str) -> dict[str, float]:
    """The ``kind:NAME`` entries of a record by NAME.

    Parameters
    ----------
    record : dict
    kind : {"norm", "weight"}

    Examples
    --------
    >>> values_of({"epoch": 1, "norm:a": 0.5, "norm:b:on=x": 0.0}, "norm")
    {'a': 0.5, 'b:on=x': 0.0}
    """
    return {key.removeprefix(f"{kind}:"): value for key, value in record.items() if key.startswith(f"{kind}:")}


def thinned(records: list[Record]) -> list[Record]:
    """Merge neighbouring records if there are 2,000 or more.

    Parameters
    ----------
    records : list of dict
    """
    if len(records) < 2 * RECORDS:
        return records
    return [_merged(*pair) for pair in zip(records[::2], records[1::2])] + records[len(records) // 2 * 2 :]


def _merged(first: Record, second: Record) -> Record:
    """One record of two neighbours: means over the examples of both, and how things stood after the second."""
    n = first["examples"] + second["examples"]
    means = {
        name: (first["examples"] * first[name] + second["examples"] * second[name]) / n
        for name in MEANS
        if name in first and name in second
    }
    return {**second, **means, "examples": n, "seconds": first.get("seconds", 0.0) + second.get("seconds", 0.0)}


def to_frame(history: Sequence[Record]) -> DataFrame:
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
