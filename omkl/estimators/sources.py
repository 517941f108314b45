"""Data of online estimators: blocks, weighted examples, streams and Dask collections."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from copy import copy
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from omkl._files import PathLike
from omkl.data.blocks import Block, is_collection, is_frame, join, n_rows, take_rows
from omkl.data.streams import Stream, regrouped
from omkl.estimators.persistence import fingerprint
from omkl.exceptions import InputError
from omkl.features.views import TokenData
from omkl.online.checkpointing import Checkpoints
from omkl.online.model import OnlineModel
from omkl.online.rounds import Examples, Sharded, State, Values
from omkl.online.trainer import OnlineTrainer
from omkl.persistence import Packer

if TYPE_CHECKING:
    from pandas import DataFrame

    from omkl.distributed.cluster import Partitions
    from omkl.distributed.stack import Client

#: Examples of any kind: rows, tables, sequences, sentences, a stream of these, or a file.
ExamplesLike: TypeAlias = ArrayLike | Iterable | Stream | PathLike
#: Their outputs; None if the examples hold these.
OutputsLike: TypeAlias = ArrayLike | Iterable | None
#: Number of examples of a stream that a shard learns between two mixes.
MIX_EVERY = 10_000
#: If the mean weight is larger, weights are divided by their mean.
LARGEST_MEAN = 10.0
#: Most presentations of the examples of a block.
MOST_PRESENTATIONS = 10**8


class TrainingBlock(NamedTuple):
    """User data before validation; X is a :class:`Block` of a stream if its columns have names."""

    X: Any
    y: Any = None
    sample_weight: ArrayLike | None = None

    @classmethod
    def of(cls, block: tuple) -> TrainingBlock:
        """Convert a block of a stream."""
        if isinstance(block, Block) and block.feature_names is not None:
            return cls(block, *block[1:])
        return cls(*block)


def as_stream(
    X: ExamplesLike, y: OutputsLike = None, sample_weight: ArrayLike | None = None
) -> Stream | None:
    """Return ``X`` as a stream, or None if it is no stream.

    A stream is a Stream, or an iterable of ``(x, y)`` without a length. None also if ``y`` is not
    None, since streams contain outputs: whoever reads the data then refuses them.
    """
    if is_collection(X, y, sample_weight):
        raise InputError(
            "Only fit takes Dask collections: call other methods on partitions, "
            "as by X.map_partitions."
        )
    if isinstance(X, Iterable) and not isinstance(X, (Stream, Sized)):
        X = Stream.from_iterable(X)
    if y is not None or not isinstance(X, Stream):
        return None
    if sample_weight is not None:
        raise InputError("sample_weight must be None for a stream.")
    return X


def blocks_of(
    X: ExamplesLike, y: OutputsLike = None, sample_weight: ArrayLike | None = None
) -> Iterator[TrainingBlock]:
    """Yield the blocks of a stream, or arrays as a single block."""
    stream = as_stream(X, y, sample_weight)
    if stream is None:
        yield TrainingBlock(X, y, sample_weight)
    else:
        yield from map(TrainingBlock.of, stream.blocks())


def validation_block(validation: tuple | None, early_stopping: bool) -> TrainingBlock | None:
    """Return the pair (X, y) for early stopping, if there is one."""
    if validation is None:
        return None
    if _is_pair(validation) and early_stopping and not is_collection(*validation):
        return TrainingBlock(*validation)
    raise InputError("validation must be a pair (X, y) in memory, with early_stopping=True.")


class WeightedExamples(Examples):
    """Sequence of :class:`~omkl.online.Example` in which weights are repetitions.

    An example of weight 3 is presented three times in an epoch. An example of weight 2.5 is
    presented twice with weight 1 and once with weight 0.5. So weights are equivalent to copies, as
    in batch learning, and steps stay small.

    Parameters
    ----------
    n_inputs : int
        Number of inputs.
    chosen : int array of shape (n,)
        Inputs to present.
    weights : array of shape (n,), optional
        Weight >= 0 of each input; 1 by default.

    Attributes
    ----------
    input_weights : array or None
        The weights.
    unit : float
        The weight that one presentation stands for; see :meth:`shorten`.
    """

    def __init__(self, n_inputs: int, chosen: np.ndarray, weights: np.ndarray | None) -> None:
        self.n_inputs = n_inputs
        self.input_weights = weights
        self.unit = 1.0
        self._inputs = np.asarray(chosen)
        self._presented: tuple[np.ndarray, np.ndarray | None] | None = None

    @property
    def _presentations(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Input and weight of each presentation; None for weights that are all 1.

        They are made when they are first needed, since there may be too many before
        :meth:`shorten`.
        """
        if self._presented is None:
            if self.input_weights is None:
                self._presented = (self._inputs, None)
            else:
                self._presented = _repeated(self._inputs, self.input_weights / self.unit)
        return self._presented

    @property
    def chosen(self) -> np.ndarray:
        """Input of each presentation. Presentations of the same input are adjacent."""
        return self._presentations[0]

    @property
    def _weights(self) -> np.ndarray | None:
        """Weight of each presentation; None if all are 1."""
        return self._presentations[1]

    def shorten(self) -> None:
        """Divide weights by their mean if it is above :data:`LARGEST_MEAN`; not for streams.

        The optimum does not change: gradient steps depend only on ratios of weights, and the
        regularizer depends on :attr:`total_weight`, which stays the same.
        """
        weights = self.input_weights
        if weights is not None and weights.mean() > LARGEST_MEAN:
            self.unit = float(weights[weights > 0.0].mean())
            self._presented = None

    @abstractmethod
    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> Self:
        """Copy some inputs; ``chosen`` has the index of the input of each presentation."""

    def __len__(self) -> int:
        return len(self.chosen)

    def weight(self, i: int) -> float:
        """Return the weight of a presentation."""
        return 1.0 if self._weights is None else self._weights[i]

    def weights(self, order: np.ndarray) -> np.ndarray | None:
        """Return the weights of some presentations; None if all are 1."""
        return None if self._weights is None else self._weights[order]

    @property
    def total_weight(self) -> float:
        """Sum of the weights, m in the objective."""
        if self._weights is None:
            return float(len(self))
        return self.unit * float(self._weights.sum())

    def only(self, chosen: np.ndarray, weighted: bool = True) -> Self:
        """Select inputs without copying them."""
        weights = take_rows(self.input_weights, chosen) if weighted else None
        selected = copy(self)
        WeightedExamples.__init__(selected, self.n_inputs, chosen, weights)
        return selected

    def part(self, indices: np.ndarray) -> Self:
        """Select presentations by their indices, and copy their inputs."""
        selected = self._cut(*np.unique(self.chosen[indices], return_inverse=True))
        selected.unit = self.unit
        selected._presented = (selected.chosen, take_rows(self._weights, indices))
        return selected


def _repeated(inputs: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Repeat each input according to its weight; both are (n,).

    Return the input and the weight of each presentation, at most 1.
    """
    if weights.sum() > MOST_PRESENTATIONS:
        raise InputError(
            "sample_weight counts the copies of an example, and must add up to at most "
            f"{MOST_PRESENTATIONS:,} in a block, got {weights.sum():.3g}: "
            "divide the weights by a number."
        )
    n_full = np.floor(weights).astype(np.int64)
    remainders = weights - n_full
    has_remainder = remainders > 0
    presented = np.concatenate([np.repeat(inputs, n_full), inputs[has_remainder]])
    each = np.concatenate([np.ones(n_full.sum()), remainders[has_remainder]])
    order = np.argsort(presented, kind="stable")
    return presented[order], each[order]


class StreamSource:
    """Source of the blocks of a stream, encoded by a model that grows with them.

    The position is the number of blocks read in an epoch. A resumed run reads the blocks before
    this position again, and compares their checksum, but does not train on them.

    Parameters
    ----------
    blocks_of : callable
        ``blocks_of(epoch)`` is an iterator over the blocks of a pass, as :meth:`Stream.blocks`.
    model : OnlineModel
    read : callable
        ``read(block, first)`` validates a block, and converts it for the model's codec.
    n_shards : int
        Join blocks for this number of shards; 0 keeps the stream's blocks.
    checked : bool
        Whether to compute checksums.
    """

    def __init__(
        self,
        blocks_of: Callable,
        model: OnlineModel,
        read: Callable,
        n_shards: int = 0,
        checked: bool = False,
    ) -> None:
        self._blocks_of = blocks_of
        self._model = model
        self._read = read
        self._n_shards = n_shards
        self._checked = checked
        #: Blocks of a pass whose first block is encoded already; see :meth:`open`.
        self._opened: Iterable[tuple] | None = None
        #: Whether the next block starts the model; a model that is restored has started.
        self._first = not model.has_started
        #: Number of blocks of the epoch whose training has begun, and their checksum.
        self._n_read = 0
        self._digest = ""
        self._in_block = False
        self.n_examples: int | None = None
        self._weight: float | None = None

    def open(self) -> None:
        """Validate and encode the first block before training; starts the model if necessary."""
        blocks = self._raw(0)
        first = next(blocks, None)
        if first is None:
            raise InputError("The stream must have an example.")
        encoded_first = (first, self._encoded(first))
        self._opened = chain([encoded_first], ((block, None) for block in blocks))

    def begin_epoch(
        self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int
    ) -> None:
        """Plan the rounds, if the number of examples is known."""
        self._model.expect(self.n_examples, self._weight, n_shards)

    def blocks(self, epoch: int, start: int) -> Iterator[Examples]:
        """Yield the blocks of an epoch (from 0), starting with block ``start``.

        In a resumed run, the blocks before it are read for their checksum only, which must be that
        of the checkpoint.
        """
        n_compared = self._n_read
        digest_of_checkpoint = self._digest
        opened = self._opened
        self._opened = None
        if opened is None:  # None stands for examples that are not encoded yet
            opened = ((block, None) for block in self._raw(epoch))
        number = 0
        digest = ""
        n_before = 0
        for number, (block, examples) in enumerate(opened, 1):
            if self._checked:
                digest = fingerprint([digest, block])
            if number == n_compared and digest != digest_of_checkpoint:
                break
            if number > start:
                if examples is None:
                    examples = self._encoded(block, n_before)
                self._n_read = number
                self._digest = digest
                yield examples
            n_before += n_rows(block[0])
        if number <= n_compared and digest != digest_of_checkpoint:
            raise InputError(
                f"The first {n_compared} blocks of epoch {epoch + 1} must be those of the "
                "checkpoint."
            )

    def _encoded(self, block: tuple, n_before: int = 0) -> Examples:
        try:
            examples = self._model.encode(self._read(TrainingBlock.of(block), self._first))
        except InputError as error:
            if not n_before or type(error) is not InputError:
                raise
            # rows in the message are counted from the start of the block
            raise InputError(f"After {n_before} examples of the stream: {error}") from None
        self._first = False
        self._in_block = True
        return examples

    def _raw(self, epoch: int) -> Iterator[Any]:
        """Return the stream's blocks, joined to larger ones for shards."""
        blocks = iter(self._blocks_of(epoch))
        if not self._n_shards:
            return blocks
        return iter(regrouped(blocks, MIX_EVERY * self._n_shards))

    def orders(self, sizes: Sequence[int]) -> list[np.ndarray]:
        """Return the given order, for each part of a block."""
        return [np.arange(n) for n in sizes]

    def end_epoch(self, n_examples: int, weight: float) -> None:
        """Store the number of examples and their total weight, known after the first epoch."""
        if self.n_examples is None:
            self.n_examples = n_examples
            self._weight = weight
        self._n_read = 0
        self._digest = ""
        self._in_block = False

    def state(self) -> State:
        """Return ``(JSON values, arrays)`` of the position and of the model without its trainer."""
        packer = Packer()
        model, arrays_of_model = self._model.describe(packer)
        values = {
            "n_read": self._n_read,
            "digest": self._digest,
            "n_examples": self.n_examples,
            "weight": self._weight,
            "model": model,
        }
        arrays = {**packer.arrays, **arrays_of_model}
        if self._in_block:  # a resumed run encodes the block again
            arrays.update(self._model.codec.before_block())
        return values, arrays

    def load_state(self, values: Values) -> None:
        """Load the position from the values of :meth:`state`."""
        self._n_read = values["n_read"]
        self._digest = values["digest"]
        self.n_examples = values["n_examples"]
        self._weight = values["weight"]


# ---- Dask collections ----------------------------------------------------------------------------


#: Content of a partition: an array, a data frame, or the iterator of a bag.
Partition: TypeAlias = "np.ndarray | DataFrame | Iterator"
#: Maximum number of examples that are fetched to fit kernels and the level of targets.
SAMPLE = 2000


def load_partitions(data: TrainingBlock, client: Client | None, shards: int | None) -> Partitions:
    """Load the partitions of Dask collections as blocks on workers; leave out empty ones."""
    from omkl.distributed.cluster import Partitions

    if shards is not None:
        raise InputError(
            f"shards must be None for Dask collections: partitions are the shards, got {shards}."
        )
    for name, collection in data._asdict().items():
        if collection is not None and not is_collection(collection):
            kind = type(collection).__name__
            raise InputError(
                f"{name} must be a Dask collection with the partitions of the others, got {kind}."
            )
    partitions = Partitions.of(client, _block, data._asdict())

    sizes, columns = zip(*partitions.map(_size_and_columns).gathered())
    if not any(sizes):
        raise InputError(
            "A collection must have an example of a weight above 0: all its partitions are empty."
        )
    first, *others = (j for j, size in enumerate(sizes) if size)
    for j in others:
        if columns[j] != columns[first]:
            raise InputError(
                f"Partition {j} of X has {columns[j]}, but partition {first} {columns[first]}."
            )
    return partitions.only(sizes)


def _size_and_columns(block: TrainingBlock) -> tuple[int, str]:
    """Return the number of examples, and words for the columns, which partitions share."""
    X = block.X
    if is_frame(X):
        return n_rows(X), f"the columns {list(X.columns)}"
    return n_rows(X), f"rows of shape {getattr(X, 'shape', ())[1:]}"


def start_on(
    partitions: Partitions,
    sample: TokenData,
    read: Callable[..., TokenData],
    model: OnlineModel,
    checkpoints: Checkpoints | None,
) -> Sharded:
    """Start a model on blocks, and encode these where they are; only surveys are fetched.

    ``sample`` has some of the examples, from :func:`sample_of`. ``read(block, first=False)``
    validates a block on a worker.
    """
    codec = model.codec
    codec_class = type(codec)
    sample = sample._replace(total=sum(partitions.sizes))
    codec.encoder.fit(sample)
    data = partitions.map(partial(read, first=False))
    codec.learn(sample, data.map(codec_class.survey, codec).gathered())
    partitions.futures.clear()  # frees the memory of the workers
    encoded = data.map(codec_class.encode_part, codec)
    sizes, weights = zip(*encoded.map(_size_and_weight).gathered())
    if not any(weights):
        raise InputError("class_weight must leave an example a weight above 0.")
    if checkpoints is not None:
        facts = encoded.map(codec_class.facts, codec).gathered()
        checkpoints.check_data(
            {"number of partitions": len(facts), "content of the data": fingerprint(facts)}
        )
    model.start()
    model.set_objective(None, float(sum(weights)))
    return Sharded(encoded.futures, list(sizes))


def sample_of(partitions: Partitions) -> TrainingBlock:
    """Fetch up to :data:`SAMPLE` examples, drawn at random."""
    bounds = np.cumsum([0, *partitions.sizes])
    n_drawn = min(bounds[-1], SAMPLE)
    examples = np.sort(np.random.default_rng(0).choice(bounds[-1], n_drawn, replace=False))
    examples_of_partitions = np.split(examples, np.searchsorted(examples, bounds[1:-1]))
    rows = [numbers - low for numbers, low in zip(examples_of_partitions, bounds)]
    blocks = partitions.map(_some, each=rows).gathered()
    return TrainingBlock(*map(_joined, zip(*blocks)))


def _size_and_weight(examples: WeightedExamples) -> tuple[int, float]:
    """Return the number of presentations, and their total weight."""
    return len(examples), examples.total_weight


def _block(X: Partition, y: Partition | None, weights: Partition | None) -> TrainingBlock:
    """Make a block of the examples of a partition with a weight above 0.

    A partition of a bag without ``y`` has pairs (x, y).
    """
    X, y, sample_weight = map(_array_or_list, (X, y, weights))
    if y is None:
        if not isinstance(X, list) or not all(map(_is_pair, X)):
            raise InputError("y must be given, unless X is a bag of pairs (x, y).")
        y = [output for _, output in X]
        X = [x for x, _ in X]
    n_inputs = n_rows(X)
    n_outputs = n_rows(y)
    if n_inputs != n_outputs or (sample_weight is not None and n_rows(sample_weight) != n_inputs):
        raise InputError(
            "X, y and sample_weight must have equally many examples, "
            f"got {n_inputs} of X, {n_outputs} of y."
        )
    if sample_weight is None or np.all(sample_weight):
        return TrainingBlock(X, y, sample_weight)
    return _some(TrainingBlock(X, y, np.asarray(sample_weight)), np.flatnonzero(sample_weight))


def _array_or_list(values: Partition | None) -> Any:
    """Return arrays, tables and None as they are, and the iterator of a bag as a list."""
    if values is None or hasattr(values, "shape"):
        return values
    return list(values)


def _is_pair(value: object) -> TypeGuard[tuple | list]:
    """Tell whether a value is a pair (X, y), or (x, y)."""
    return isinstance(value, (tuple, list)) and len(value) == 2


def _some(block: TrainingBlock, rows: np.ndarray) -> TrainingBlock:
    """Select some examples."""
    return TrainingBlock(*(take_rows(data, rows) for data in block))


def _joined(arrays: Sequence[Any]) -> Any:
    """Join the inputs, outputs or weights of several blocks."""
    if hasattr(arrays[0], "iloc"):
        import pandas

        return pandas.concat(arrays, ignore_index=True)
    if arrays[0] is None:
        return None
    return join([Block(array) for array in arrays]).X
