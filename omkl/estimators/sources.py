"""What a training loop learns from: examples as often as they count, and the blocks of a stream."""

import hashlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from omkl.data import Stream, Treebank
from omkl.data.streams import regrouped
from omkl.exceptions import InputError
from omkl.online import OnlineModel, OnlineTrainer
from omkl.persistence import Packer

#: Examples of a stream that a shard learns between two mixes.
MIX_EVERY = 10_000
#: The mean of the weights of examples at hand from which on their presentations are counted in units of the mean.
MOST_PRESENTATIONS = 10.0


class TrainingBlock(NamedTuple):
    """Data as the user gives them; X is a whole block of a stream where its columns have names."""

    X: Any
    y: Any = None
    sample_weight: Any = None

    @classmethod
    def of(cls, block: tuple) -> "TrainingBlock":
        """What a block of a stream holds."""
        named = getattr(block, "feature_names", None) is not None
        return cls(block if named else block[0], *block[1:])


def as_stream(X: Any, y: Any = None, sample_weight: Any = None) -> Stream | None:
    """The stream that ``X`` is, if it is one: a Stream, or an iterable of unknown length of pairs ``(x, y)``.

    It takes no sample weights.
    """
    if y is not None or isinstance(X, (str, bytes)) or hasattr(X, "__array__"):
        return None
    if not isinstance(X, Stream):
        if hasattr(X, "__len__") or not hasattr(X, "__iter__"):
            return None
        X = Stream.from_iterable(X)
    if sample_weight is not None:
        raise InputError("sample_weight= goes with examples that are all at hand: a stream does not take it.")
    return X


def blocks_of(X: Any, y: Any = None, sample_weight: Any = None) -> Iterator[TrainingBlock]:
    """The blocks of a stream, or the one that is given."""
    stream = as_stream(X, y, sample_weight)
    if stream is None:
        yield TrainingBlock(X, y, sample_weight)
    else:
        yield from map(TrainingBlock.of, stream.blocks())


class WeightedExamples:
    """Examples as often as their weights say: a sequence of :class:`~omkl.online.Example`, made when asked for.

    A sample weight is how often the example is presented in an epoch: an example of weight 3 comes three times, at
    its places of the random order, and one of weight 2.5 twice and once with half of its gradient and half of the
    proximal steps. So weights mean what they mean for a batch learner (weight 3 is three copies, weight 0 none), and
    steps stay small. Where all examples are at hand and weights are large, :meth:`shorten` presents them less often.

    Parameters
    ----------
    chosen : int array of shape (n,)
        The inputs that take part.
    weights : array of shape (n,), optional
        A weight >= 0 for each of them; 1 by default.

    Attributes
    ----------
    given : array or None
        The weights.
    chosen : int array
        The input of each presentation; those of one input stay together.
    """

    def __init__(self, chosen: np.ndarray, weights: np.ndarray | None) -> None:
        self.given: Any = weights
        self.unit = 1.0
        self.chosen = np.asarray(chosen)
        self._weights: np.ndarray | None = None
        if weights is not None:
            self._present(self.chosen, weights)

    def _present(self, inputs: np.ndarray, weights: np.ndarray) -> None:
        """Present each input as often as its weight says."""
        whole = np.floor(weights).astype(np.int64)
        rest = weights - whole
        presented = np.concatenate([np.repeat(inputs, whole), inputs[rest > 0]])
        each = np.concatenate([np.ones(whole.sum()), rest[rest > 0]])
        order = np.argsort(presented, kind="stable")
        self.chosen, self._weights = presented[order], each[order]

    def shorten(self) -> None:
        """Present examples of large weights as often as their weights are times the mean.

        Only the ratios of weights count for the gradient steps, and :attr:`total_weight`, which stays what it was, for
        the weight of the regularizer: the optimum is the same, and an epoch takes two presentations an example, not
        a thousand where weights are. Where they are no larger than :data:`MOST_PRESENTATIONS` on average nothing
        changes. All examples must be at hand: what comes later might have weights of another size.
        """
        if self._weights is not None and self._weights.sum() > MOST_PRESENTATIONS * len(self.given):
            inputs, where = np.unique(self.chosen, return_inverse=True)
            weights = np.bincount(where, self._weights)
            self.unit = float(weights.mean())
            self._present(inputs, weights / self.unit)

    def _over(self, chosen: np.ndarray, weights: np.ndarray | None) -> Any:
        """The same inputs, of which others take part; they share memory."""
        raise NotImplementedError

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> Any:
        """These inputs alone, presented as ``chosen`` says."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.chosen)

    @property
    def total_weight(self) -> float:
        """Sum of the weights, the m of the objective's mean."""
        return float(len(self)) if self._weights is None else self.unit * float(self._weights.sum())

    def only(self, chosen: np.ndarray, weighted: bool = True) -> Any:
        """Some of the inputs, where all take part here; they share memory with these."""
        return self._over(chosen, None if self.given is None or not weighted else self.given[chosen])

    def part(self, indices: np.ndarray) -> Any:
        """Some of the presentations, by their indices, as a sequence of its own that holds no other inputs."""
        part = self._cut(*np.unique(self.chosen[indices], return_inverse=True))
        part.unit, part._weights = self.unit, None if self._weights is None else self._weights[indices]
        return part


class StreamSource:
    """The blocks of a stream as examples, encoded by a model that grows with them.

    Its position is the number of blocks read in an epoch. Going on from a checkpoint, the blocks before are read
    again, to come to the same place of the same stream, and compared by their checksum, but not learned again.

    Parameters
    ----------
    stream : Stream or list
        A list has one block, which may be a :class:`TrainingBlock`.
    model : OnlineModel
    read : callable
        ``read(block, first)`` is the data of a block as the model's codec takes them.
    n_shards : int
        Blocks are put together for so many shards; 0 leaves them as they are.
    checked : bool
        Whether checksums are kept.
    """

    def __init__(
        self, stream: Any, model: OnlineModel, read: Callable, n_shards: int = 0, checked: bool = False
    ) -> None:
        self._stream = stream
        self._model = model
        self._read = read
        self._n_shards = n_shards
        self._checked = checked
        self._opened: tuple[Iterator, Any, Any] | None = None
        self._first = model.trainer is None  # also where the model is then restored
        self._n_read = self._digest = 0
        self.n_examples: int | None = None
        self._weight: float | None = None

    def open(self) -> None:
        """Start the model with the first block of the first epoch, if it has not started."""
        if self._model.trainer is None:
            blocks = self._raw(0)
            for block in blocks:
                self._opened = blocks, block, self._model.encode(self._read(TrainingBlock.of(block), True))
                self._first = False
                return
            raise InputError("The stream has no example: nothing is left to train on.")

    def begin_epoch(self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int) -> None:
        """Set what depends on the number of examples."""
        self._model.expect(self.n_examples, self._weight, n_shards)

    def blocks(self, epoch: int, start: int) -> Iterator[Sequence]:
        """The blocks of an epoch (from 0), from block ``start`` on."""
        compared, wanted = self._n_read, self._digest
        number = digest = 0
        for number, (block, examples) in enumerate(self._pairs(epoch), 1):
            if self._checked:
                digest = checksum(block, digest)
            if number == compared and digest != wanted:
                raise InputError(
                    f"The checkpoint has learned from {number} blocks of epoch {epoch + 1} of another stream: the "
                    "examples up to there differ. Resume with the data that it began with."
                )
            if number > start:
                if examples is None:
                    examples = self._model.encode(self._read(TrainingBlock.of(block), self._first))
                    self._first = False
                self._n_read, self._digest = number, digest
                yield examples
        if number < compared:
            raise InputError(
                f"The stream ends early: the checkpoint has read {compared} blocks of epoch {epoch + 1}, and there "
                f"are {number}. Resume with the data that it began with."
            )

    def _pairs(self, epoch: int) -> Iterator[tuple[Any, Any]]:
        """Blocks, each with its examples where they are encoded already."""
        if self._opened is None:
            blocks = self._raw(epoch)
        else:
            (blocks, *first), self._opened = self._opened, None
            yield first[0], first[1]
            del first
        yield from ((block, None) for block in blocks)

    def _raw(self, epoch: int) -> Iterator[Any]:
        """Blocks of the epoch: those of the stream, or larger ones, which shards learn side by side."""
        if isinstance(self._stream, list):
            return iter(self._stream)
        blocks = iter(self._stream.blocks(epoch))
        return iter(regrouped(blocks, MIX_EVERY * self._n_shards)) if self._n_shards else blocks

    def orders(self, sizes: Sequence[int]) -> list[np.ndarray]:
        """The given order, for each of the parts that a block is cut into."""
        return [np.arange(n) for n in sizes]

    def end_epoch(self, n_examples: int, weight: float) -> None:
        """From now on it is known how many examples there are, and the sum of their weights."""
        if self.n_examples is None:
            self.n_examples, self._weight = n_examples, weight
        self._n_read = self._digest = 0

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """``(JSON values, arrays)``: the position, and what the model has learned of inputs and outputs."""
        packer = Packer()
        model, arrays = self._model.describe(packer)
        position = {"n_read": self._n_read, "digest": self._digest}
        values = {**position, "n_examples": self.n_examples, "weight": self._weight, "model": model}
        return values, {**packer.arrays, **arrays}

    def load_state(self, values: dict[str, Any]) -> None:
        """The inverse of :meth:`state`; the model is made before, for the trainer must have its shape."""
        self._n_read, self._digest = values["n_read"], values["digest"]
        self.n_examples, self._weight = values["n_examples"], values["weight"]


def checksum(value: Any, digest: int) -> int:
    """CRC-32 of a block's content, continued from ``digest``."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return zlib.crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data, digest)
    if sparse.issparse(value):
        value = (value.data, value.indices, value.indptr)
    elif isinstance(value, Treebank):
        value = (value.offsets, value.heads, *(" ".join(sentence.forms) for sentence in value))
    if isinstance(value, (list, tuple)):
        for item in value:
            digest = checksum(item, digest)
        return digest
    return zlib.crc32(repr(value).encode("utf-8", "surrogatepass"), digest)


def fingerprint(arrays: Iterable[np.ndarray | None]) -> str:
    """A digest of what arrays hold: equal for equal data, and for nothing else."""
    digest = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is not None:
            array = np.ascontiguousarray(array)
            digest.update(f"{array.dtype.str} {array.shape}".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def no_companions(model: Any, make_pass: Callable) -> list[Any]:
    """Nothing learns from the blocks of a stream beside the model."""
    return []
