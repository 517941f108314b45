"""Data classes of training, and the protocols of its parts.

There are examples, steps, blocks, records, and the progress of a loop. Functions at the end call
the hooks of callbacks.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from omkl._pointers import Layout, Packed
from omkl.exceptions import InputError
from omkl.groups.base import Bank, CompiledBank, initial_potentials
from omkl.groups.group_state import GroupState
from omkl.groups.tokens import Tokens, gathered_rows
from omkl.losses.evaluation import LossFunction
from omkl.losses.structured import StructuredLoss
from omkl.regularizers.base import Regularizer
from omkl.structures.base import Output, Potentials, Structure

T = TypeVar("T")
#: Number of records to keep of ``partial_fit`` and streams.
#:
#: At twice as many, neighbours are merged.
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
    """Some examples that are sequences of tokens, in the order in which they are learned.

    Rows of a table are sequences of one token.

    Attributes
    ----------
    tokens : Tokens
    gold : array of shape (n_tokens,)
        Code or number of each token.
    chosen : int array of shape (n,)
        Sequence of each example.
    weights : array of shape (n,) or None
    layouts : sequence or None
        Layout of the potentials of each sequence, such as the edges of a graph.
    edges : dict of str to Tokens, or None
        Encoded edges of each sequence, for the banks of each kind of pairs of labels.
    """

    tokens: Tokens
    gold: np.ndarray
    chosen: np.ndarray
    weights: np.ndarray | None
    layouts: Sequence[Any] | None = None
    edges: Mapping[str, Tokens] | None = None

    def tokens_for(self, bank: CompiledBank) -> Tokens:
        """Return the tokens that a bank reads."""
        if bank.kind_of_edges is None or self.edges is None:
            return self.tokens
        return self.edges[bank.kind_of_edges]

    def lengths_for(self, bank: CompiledBank) -> np.ndarray:
        """Return the number of tokens of each example that a bank reads."""
        offsets = self.tokens_for(bank).offsets
        return offsets[self.chosen + 1] - offsets[self.chosen]

    def first(self, n: int) -> "Sequences":
        """Return the first n examples."""
        weights = None if self.weights is None else self.weights[:n]
        return self._replace(chosen=self.chosen[:n], weights=weights)

    @property
    def places(self) -> "Places":
        """Places of the tokens of the examples."""
        return Places.of(self.tokens.offsets, self.chosen)

    @property
    def places_of_edges(self) -> "Places | None":
        """Places of the edges of the examples; None if no bank reads edges."""
        if not self.edges:
            return None
        edges = next(iter(self.edges.values()))  # all kinds have the same places
        return Places.of(edges.offsets, self.chosen)


class Places(NamedTuple):
    """Places of the tokens of n examples in a block.

    Attributes
    ----------
    lows : int array of shape (n,)
        First token of each example in the block.
    ends : int array of shape (n + 1,)
        Bounds of each example in ``tokens``.
    tokens : int array
        The tokens of all examples.
    """

    lows: np.ndarray
    ends: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, offsets: np.ndarray, chosen: np.ndarray) -> "Places":
        """Return the places of the tokens of sequences."""
        return cls(offsets[chosen], *gathered_rows(offsets, chosen))


class Change(NamedTuple):
    """A change of the stream."""

    #: Number of rounds before it.
    start: int
    #: :attr:`Schedule.sums` of these rounds.
    sums: tuple[float, float]


class EpochPlan(NamedTuple):
    """The place of an epoch in training."""

    #: Whether its examples are new to the model, as in the first epoch.
    is_new: bool
    #: Whether it is the only epoch, and not in shards.
    is_only: bool
    #: Whether training ends with the last epoch; False if more examples may follow.
    concludes: bool


class Learner(Protocol):
    """The trainer as its parts see it; see :class:`~omkl.online.OnlineTrainer`."""

    banks: list[Bank]
    penalized_banks: list[Bank]
    structure: Structure
    loss: StructuredLoss
    regularizer: Regularizer | None
    group_state: GroupState
    method: Any
    schedule: Any
    average: Any
    round: int

    def join(self, role: str) -> None: ...

    def average_as_stream(self) -> None: ...

    @property
    def loss_function(self) -> LossFunction: ...


class TrainerPart:
    """A part of a trainer with a state of its own.

    Parts are the method, the learning rates, and tests of groups and of the stream. The trainer
    calls these methods of all its parts. By default, a part has no state, and none of them does
    anything.
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
    #: The change of the stream, after compiled functions have found one.
    change: Change | None = None
    #: Layout of :meth:`compiled_arrays`; None without any.
    layout: ClassVar[Layout | None] = None
    _packed: Packed | None = None

    @property
    def takes_part(self) -> bool:
        """True if the part looks at the next examples."""
        return True

    def compiled_arrays(self, n_outputs: int) -> Any:
        """Return the arrays that the compiled functions read and change, as a named tuple.

        Parameters
        ----------
        n_outputs : int
            Number of labels; 0 if they do not matter.
        """

    def packed(self, n_outputs: int = 0) -> Packed | None:
        """Return the block of :meth:`compiled_arrays`; hold it while its address is in use.

        Parameters
        ----------
        n_outputs : int
            Number of labels.
        """
        if self.layout is None:
            return None
        arrays = self.compiled_arrays(n_outputs)
        if self._packed is None or not self._packed.holds(arrays):
            self._packed = self.layout.pack(arrays)
        return self._packed

    @property
    def address(self) -> int:
        """Address of the arrays for compiled functions; 0 without any."""
        packed = self.packed()
        return 0 if packed is None else packed.address

    def start(self, group_state: GroupState, n_groups: int) -> None:
        """Fit the groups of a new model, or of one that has new groups.

        Parameters
        ----------
        group_state : GroupState
        n_groups : int
            Number of regularized groups.
        """

    def joined(self, trainer: Learner) -> None:
        """Prepare the trainer, which the part has joined during training."""

    # ---- rounds, blocks, epochs ------------------------------------------------------------------

    def before_round(
        self, trainer: Learner, x: Sized, y: Output, weight: float
    ) -> Potentials | None:
        """Look at an example before it is learned.

        Returns
        -------
        Potentials or None
            Potentials of the current model, if they were computed.
        """

    def after_round(self, trainer: Learner, loss: float) -> Change | None:
        """Take in the unweighted loss of that example.

        Returns
        -------
        Change or None
            A change of the stream, if one was found.
        """

    def before_block(self, examples: "Examples") -> None:
        """Begin a block of examples."""

    def after_block(self, examples: "Examples") -> None:
        """End a block of examples."""

    def before_epoch(self, trainer: Learner, epoch: EpochPlan) -> np.ndarray | None:
        """Prepare an epoch.

        Returns
        -------
        bool array of shape (p,), or None
            Groups to leave out.
        """

    def after_training(self, trainer: Learner) -> np.ndarray | None:
        """Conclude training, after which no examples follow.

        Returns
        -------
        bool array of shape (p,), or None
            Groups to leave out.
        """

    # ---- restarts --------------------------------------------------------------------------------

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

    def report_change(self, trainer: Learner, examples: "Examples", n_learned: int) -> int | None:
        """Log a change of the stream, which was found after ``n_learned`` examples of a block.

        Returns
        -------
        int or None
            Number of the row, from 1; None from a part that looks for no changes.
        """

    def discount(self, factor: float) -> None:
        """Multiply the weights of all models in the average."""

    # ---- state -----------------------------------------------------------------------------------

    def take(self, other: Self, indices: list[int]) -> None:
        """Take the state of the same part of a model with more groups.

        Parameters
        ----------
        other : TrainerPart
        indices : list of int
            The regularized groups to take.
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
            value: Any = np.array(state[name], dtype=np.float64)
            if value.ndim == 0:
                value = type(getattr(self, name))(value)
            setattr(self, name, value)


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
    """Add numbers to a total one after the other.

    So the sum does not depend on how many are added at once.
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
    """Argument of ``on_block``: a learned block, and sums of its losses and weights."""

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
        self.block_loss = added(self.block_loss, losses)
        self.block_weight = added(self.block_weight, weights)
        self.examples += n_examples
        self.loss = added(self.loss, losses)
        self.weight = added(self.weight, weights)

    def next_block(self) -> None:
        """Begin the next block."""
        self.block += 1
        self.block_examples = 0
        self.block_loss = 0.0
        self.block_weight = 0.0

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch += 1
        self.block = 0
        self.examples = 0
        self.loss = 0.0
        self.weight = 0.0
        self.changes = []
        self.seconds = 0.0
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
    joined = {}
    for name, state in states.items():
        joined.update({f"{name}/{key}": value for key, value in state.items()})
    return joined


def below(values: dict[str, T], prefix: str) -> dict[str, T]:
    """Select the entries whose names start with a prefix, and remove the prefix."""
    names = [name for name in values if name.startswith(prefix)]
    return {name.removeprefix(prefix): values[name] for name in names}


def thinned(records: list[Record]) -> list[Record]:
    """Merge neighbouring records if there are 2,000 or more.

    Losses and errors are means, and all other values those of the second record.
    """
    if len(records) < 2 * RECORDS:
        return records
    pairs = zip(records[::2], records[1::2])
    merged = [_merged(first, second) for first, second in pairs]
    return merged + records[len(records) // 2 * 2 :]


def _merged(first: Record, second: Record) -> Record:
    """Return the record of two neighbours."""
    n_examples = first["examples"] + second["examples"]
    seconds = first.get("seconds", 0.0) + second.get("seconds", 0.0)
    merged = {**second, "examples": n_examples, "seconds": seconds}
    for name in {"loss", "error"} & first.keys() & second.keys():
        total = first["examples"] * first[name] + second["examples"] * second[name]
        merged[name] = total / n_examples
    changes = [*first.get("changes", ()), *second.get("changes", ())]
    if changes:
        merged["changes"] = changes
    return merged


def check_callbacks(callbacks: object) -> list[Any]:
    """Return callbacks as a list.

    Raises
    ------
    InputError
        Unless each is callable or has an ``on_*`` method.
    """
    if callbacks is None:
        return []
    if isinstance(callbacks, (list, tuple)) and all(map(_is_callback, callbacks)):
        return list(callbacks)
    raise InputError(
        "`callbacks` must be a list of callables, or of objects with `on_*` methods, "
        f"got {callbacks!r}."
    )


def _is_callback(candidate: object) -> bool:
    return callable(candidate) or any(name.startswith("on_") for name in dir(candidate))


def hooks(callbacks: Sequence[object], name: str) -> list[Callable]:
    """Collect the methods called ``name`` of all callbacks.

    A plain callable counts as ``on_epoch``.
    """
    collected: list[Callable] = []
    for callback in callbacks:
        default = callback if name == "on_epoch" else None
        hook = getattr(callback, name, default)
        if callable(hook):
            collected.append(hook)
    return collected


def states_of(callbacks: Sequence[object]) -> tuple[list, dict[str, np.ndarray]]:
    """Return the JSON values, and the arrays, of the callbacks with a method ``state``."""
    values_of_all = []
    arrays_of_all: dict[str, np.ndarray] = {}
    for number, state in enumerate(hooks(callbacks, "state")):
        values, arrays = state()
        values_of_all.append(values)
        for name, array in arrays.items():
            arrays_of_all[f"callback{number}/{name}"] = np.asarray(array)
    return values_of_all, arrays_of_all


def load_states(callbacks: Sequence[object], values: list, arrays: dict[str, np.ndarray]) -> None:
    """Load the states of :func:`states_of`."""
    loaders = hooks(callbacks, "load_state")
    if len(loaders) != len(values):
        raise InputError(
            f"The checkpoint has states of {len(values)} callbacks, "
            f"but this run has {len(loaders)}."
        )
    for number, load in enumerate(loaders):
        load(values[number], below(arrays, f"callback{number}/"))
