"""Data classes of training: examples, steps, blocks, records, and the progress of a loop; hooks of
callbacks.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from omkl._pointers import Packed
from omkl.exceptions import InputError
from omkl.groups.base import Bank, initial_potentials
from omkl.groups.group_state import GroupState
from omkl.groups.tokens import Tokens, gathered_rows
from omkl.losses.evaluation import LossFunction
from omkl.losses.structured import StructuredLoss
from omkl.structures.base import Output, Potentials, Structure

T = TypeVar("T")
#: Number of records to keep of ``partial_fit`` and streams; at twice as many, neighbours are
#: merged.
RECORDS = 1000
#: Flat record of an epoch, or of some examples; see :meth:`omkl.online.OnlineTrainer.record`.
Record: TypeAlias = dict[str, Any]
#: JSON values by name, for checkpoints and model files.
Values: TypeAlias = dict[str, Any]
#: State of a part of training in a checkpoint: JSON values and named arrays.
State: TypeAlias = tuple[Values, dict[str, np.ndarray]]


class Example(NamedTuple):
    """An encoded input, its gold output, and the weight of its loss.

    Parameters
    ----------
    x : Span, ArcSentence or the like
        Encoded input for the banks.
    y : array or int
        Gold output for the structure.
    weight : float
    """

    x: Any
    y: Output
    weight: float = 1.0


class Sequences(NamedTuple):
    """Examples that are sequences of tokens; rows of a table are sequences of one token.

    Attributes
    ----------
    tokens : Tokens
    gold : array of shape (n_tokens,)
        Code or number of each token.
    chosen : int array of shape (n,)
        Sequence of each example.
    weights : array of shape (n,) or None
    """

    tokens: Tokens
    gold: np.ndarray
    chosen: np.ndarray
    weights: np.ndarray | None

    def lengths(self, examples: np.ndarray) -> np.ndarray:
        """Return the numbers of tokens of some examples."""
        chosen = self.chosen[examples]
        return self.tokens.offsets[chosen + 1] - self.tokens.offsets[chosen]

    def tokens_of(self, examples: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the first token of each of some examples, the bounds of each in their tokens, and
        these tokens.
        """
        offsets, chosen = self.tokens.offsets, self.chosen[examples]
        if len(chosen) == 1:  # the same in fewer calls
            low, high = offsets.item(chosen[0]), offsets.item(chosen[0] + 1)
            return np.array([low]), np.array([0, high - low]), np.arange(low, high)
        return offsets[chosen], *gathered_rows(offsets, chosen)


class Change(NamedTuple):
    """A change of the stream: the number of rounds before it, and the :attr:`Schedule.sums` of
    these.
    """

    start: int
    sums: tuple[float, float]


class Learner(Protocol):
    """The trainer as its parts see it; see :class:`~omkl.online.OnlineTrainer`."""

    banks: list[Bank]
    penalized_banks: list[Bank]
    structure: Structure
    loss: StructuredLoss
    group_state: GroupState
    round: int

    @property
    def part_scales(self) -> np.ndarray: ...

    @property
    def sums(self) -> tuple[float, float]: ...

    @property
    def loss_function(self) -> LossFunction: ...


class TrainerPart:
    """A part of a trainer with a state of its own: method, learning rates, tests of groups and of
    the stream.

    The trainer calls these methods of all its parts. By default, a part has no state, and none of
    them does anything.
    """

    #: Names of the attributes that are the state: arrays and numbers.
    saved: ClassVar[tuple[str, ...]] = ()
    #: Whether models that only predict need the state.
    predicts: ClassVar[bool] = False
    #: Compiled functions; None keeps the rounds of a trainer from being compiled.
    compiled: Any = None
    #: Model that a part looks at before an example is learned: "reference" (without regularized
    #: groups) or "average".
    examines: ClassVar[str] = "reference"

    @property
    def takes_part(self) -> bool:
        """True if the part looks at the next examples."""
        return True

    def packed(self, n_outputs: int) -> Packed | None:
        """Return the arrays of the part for its compiled functions, for this number of labels; None
        without any.
        """
        return None

    def start(self, group_state: GroupState, n_groups: int) -> None:
        """Fit the groups of a new model, or of one that has new groups, of which ``n_groups`` are
        regularized.
        """

    def before(self, trainer: Learner, x: Any, y: Output, weight: float) -> Potentials | None:
        """Look at an example before it is learned; return potentials of the current model if they
        were computed.
        """

    def after(self, trainer: Learner, loss: float) -> Change | None:
        """Take in the unweighted loss of that example; return a change of the stream if one was
        found.
        """

    def enter(self, examples: "Examples") -> None:
        """Begin a block of examples."""

    def leave(self, examples: "Examples") -> None:
        """End a block of examples."""

    def restart(self) -> None:
        """Start again, because the model was reset to the origin."""

    def forget(self, sums: tuple[float, float], before: int, after: int) -> None:
        """Forget the rounds ``before`` a change of the stream.

        Parameters
        ----------
        sums : tuple of float
            Sums of losses and squared norms of gradients of these rounds; see
            :attr:`Schedule.sums`.
        before, after : int
            Number of rounds before and after the change.
        """

    def discount(self, factor: float) -> None:
        """Multiply the weights of all models in the average."""

    def take(self, other: Any, indices: list[int]) -> None:
        """Take the state of the same part of a model with more groups, for the regularized groups
        at ``indices``.
        """
        self.load_state(other.state())

    def mix(self, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
        """Merge the states of copies of this part, one from each shard.

        Parameters
        ----------
        states : list of dict
            :meth:`state` of each copy.
        weights : array
            Weights of the shards, which sum to one.
        """

    def state(self) -> dict[str, np.ndarray]:
        """Return the state as named arrays, for checkpoints and model files."""
        return {name: np.array(getattr(self, name), dtype=np.float64) for name in self.saved}

    def load_state(self, state: dict[str, np.ndarray]) -> None:
        """Load the arrays of :meth:`state`.

        Parameters
        ----------
        state : dict of str to array
        """
        for name in self.saved:
            array = np.array(state[name], dtype=np.float64)
            setattr(self, name, array if array.ndim else type(getattr(self, name))(array))


class Examples(Protocol):
    """A sequence of examples."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int, /) -> Example: ...

    def __iter__(self) -> Iterator[Example]:
        return (self[i] for i in range(len(self)))

    def part(self, indices: np.ndarray, /) -> "Examples":
        """Return some of the examples, for a shard."""
        raise NotImplementedError


@dataclass
class Sharded(Examples):
    """Examples that are in shards already, such as the partitions of a Dask collection.

    Parameters
    ----------
    shards : list of Examples, or of their futures
    sizes : list of int
        Number of examples of each shard.
    """

    shards: list
    sizes: list[int]

    def __len__(self) -> int:
        return sum(self.sizes)

    def __getitem__(self, i: int) -> Example:
        raise InputError(
            "The examples of a Dask collection stay on the workers: a callback cannot read them."
        )

    def part(self, indices: np.ndarray) -> "Sharded":
        """Shards are not split again."""
        raise NotImplementedError


def potentials_of(banks: Sequence[Bank], structure: Structure, x: Sized) -> Potentials:
    """Return the potentials that banks give to an input, in the current model or a frozen one."""
    potentials = initial_potentials(structure, x)
    for bank in banks:
        bank.add_potentials(x, potentials)
    return potentials


def added(total: float, values: float | np.ndarray) -> float:
    """Add numbers to a total one after the other: the sum does not depend on how many are added at
    once.
    """
    if not isinstance(values, np.ndarray):
        return total + values
    if len(values) == 1:
        return total + values.item(0)
    return float(np.cumsum(np.append(total, values))[-1])


class Step(NamedTuple):
    """The result of a training round, or of some rounds that a compiled pass makes at once.

    Parameters
    ----------
    loss : float, or array of shape (n_examples,)
        Weighted loss before the round.
    norms : array of shape (p,)
        Norms of the regularized groups after the round.
    rate : float
        Learning rate.
    square_gradient : float
        Squared norm of the gradient.
    potentials, gold : object
        Potentials before the round, and the gold output.
    n_examples : int
    weight : float, or array of shape (n_examples,)
        Weight of the example.
    in_shards : bool
        Whether the examples were learned in shards.
    costs : array of shape (n_examples,) or None
        Costs of the predictions before each of several rounds.
    changed : bool
        Whether the last of these rounds has found that the stream changed.
    """

    loss: float | np.ndarray
    norms: np.ndarray
    rate: float
    square_gradient: float
    potentials: Potentials
    gold: Output
    n_examples: int = 1
    weight: float | np.ndarray = 1.0
    in_shards: bool = False
    costs: np.ndarray | None = None
    changed: bool = False


class LearnedBlock(NamedTuple):
    """Argument of ``on_block``: the examples of a learned block, and sums of their losses and
    weights.
    """

    examples: Examples
    n_examples: int
    loss: float
    weight: float
    #: Whether the block was learned in shards, without calls of ``on_round``.
    in_shards: bool
    #: What shards add to the epoch's record.
    record: Record | None = None


@dataclass
class TrainingProgress:
    """Progress of a training loop."""

    #: Current epoch, from 1, and its number of learned blocks.
    epoch: int = 1
    block: int = 0
    #: Number of learned examples of the current block, and sums of their weights and weighted
    #: losses (before updates).
    block_examples: int = 0
    block_loss: float = 0.0
    block_weight: float = 0.0
    #: The same for the current epoch.
    examples: int = 0
    loss: float = 0.0
    weight: float = 0.0
    #: Rows of the current epoch after which a change of the stream was found.
    changes: list[int] = field(default_factory=list)
    #: Seconds spent on the epoch before :meth:`start_clock`.
    seconds: float = 0.0
    #: Records of completed epochs.
    history: list[Record] = field(default_factory=list)
    #: Whether a callback has ended training.
    finished: bool = False

    def __post_init__(self) -> None:
        self.start_clock()

    def start_clock(self) -> None:
        """Start or restart the clock of the epoch."""
        self._began = time.perf_counter() - self.seconds

    def elapsed(self) -> float:
        """Return the seconds that the epoch has taken so far."""
        return time.perf_counter() - self._began

    def add(self, n_examples: int, losses: float | np.ndarray, weights: float | np.ndarray) -> None:
        """Add learned examples: their number, weighted losses and weights, or the sums of these."""
        self.block_examples += n_examples
        self.block_loss, self.block_weight = (
            added(self.block_loss, losses),
            added(self.block_weight, weights),
        )
        self.examples += n_examples
        self.loss, self.weight = added(self.loss, losses), added(self.weight, weights)

    def next_block(self) -> None:
        """Begin the next block."""
        self.block, self.block_examples, self.block_loss, self.block_weight = (
            self.block + 1,
            0,
            0.0,
            0.0,
        )

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch, self.block, self.examples, self.loss, self.weight = (
            self.epoch + 1,
            0,
            0,
            0.0,
            0.0,
        )
        self.changes, self.seconds = [], 0.0
        self.start_clock()

    def state(self) -> Values:
        """Return JSON values for a checkpoint."""
        return {**asdict(self), "seconds": self.elapsed()}

    def load_state(self, values: Values) -> None:
        """Load the values of :meth:`state`."""
        vars(self).update(values)
        self.start_clock()


def values_of(record: Record, kind: str) -> dict[str, float]:
    """Select the ``kind:NAME`` entries of a record, by NAME.

    Parameters
    ----------
    record : dict
    kind : {"norm", "weight"}

    Returns
    -------
    dict of str to float

    Examples
    --------
    >>> values_of({"epoch": 1, "norm:a": 0.5, "norm:b:on=x": 0.0}, "norm")
    {'a': 0.5, 'b:on=x': 0.0}
    """
    return below(record, f"{kind}:")


def prefixed(states: Mapping[str, Mapping[str, T]]) -> dict[str, T]:
    """Join dicts to one, whose names are ``name/key``."""
    return {f"{name}/{key}": value for name, own in states.items() for key, value in own.items()}


def below(values: dict[str, T], prefix: str) -> dict[str, T]:
    """Select the entries whose names start with a prefix, and remove the prefix."""
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def thinned(records: list[Record]) -> list[Record]:
    """Merge neighbouring records if there are 2,000 or more.

    Losses and errors are means, and all other values those of the second record.
    """
    if len(records) < 2 * RECORDS:
        return records
    kept = []
    for first, second in zip(records[::2], records[1::2]):
        n, seconds = (
            first["examples"] + second["examples"],
            first.get("seconds", 0.0) + second.get("seconds", 0.0),
        )
        merged = {**second, "examples": n, "seconds": seconds}
        for name in {"loss", "error"} & first.keys() & second.keys():
            merged[name] = (first["examples"] * first[name] + second["examples"] * second[name]) / n
        if changes := [*first.get("changes", ()), *second.get("changes", ())]:
            merged["changes"] = changes
        kept.append(merged)
    return kept + records[len(records) // 2 * 2 :]


def check_callbacks(callbacks: object) -> list[Any]:
    """Return callbacks as a list; raise InputError unless each is callable or has an ``on_*``
    method.
    """
    if callbacks is None:
        return []
    if isinstance(callbacks, (list, tuple)) and all(
        callable(callback) or any(name.startswith("on_") for name in dir(callback))
        for callback in callbacks
    ):
        return list(callbacks)
    raise InputError(
        f"`callbacks` must be a list of callables, or of objects with `on_*` methods, got {callbacks!r}."
    )


def hooks(callbacks: Sequence[object], name: str) -> list[Callable]:
    """Collect the methods called ``name`` of all callbacks; a plain callable counts as
    ``on_epoch``.
    """
    found = [
        getattr(callback, name, callback if name == "on_epoch" else None) for callback in callbacks
    ]
    return [hook for hook in found if callable(hook)]


def states_of(callbacks: Sequence[object]) -> tuple[list, dict[str, np.ndarray]]:
    """Return ``(values, arrays)`` of the callbacks with a method ``state``."""
    states = [state() for state in hooks(callbacks, "state")]
    arrays = prefixed({f"callback{k}": own for k, (_, own) in enumerate(states)})
    return [values for values, _ in states], {
        name: np.asarray(array) for name, array in arrays.items()
    }


def load_states(callbacks: Sequence[object], values: list, arrays: dict[str, np.ndarray]) -> None:
    """Load the states of :func:`states_of`."""
    loaders = hooks(callbacks, "load_state")
    if len(loaders) != len(values):
        raise InputError(
            f"The checkpoint has states of {len(values)} callbacks, but this run has {len(loaders)}."
        )
    for index, (load, value) in enumerate(zip(loaders, values)):
        load(value, below(arrays, f"callback{index}/"))
