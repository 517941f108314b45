"""Streams: re-readable sources of examples in blocks, for data larger than memory."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from omkl._components import check_choice, check_number
from omkl._messages import shown
from omkl.data.blocks import AnyRows, Block, as_rows, grouped, is_frame, join, n_rows, take
from omkl.data.files import is_pipe
from omkl.data.frames import column_names
from omkl.data.table_columns import read_frame
from omkl.exceptions import (
    DamagedFileError,
    DataFileError,
    DataWarning,
    InputError,
    TruncatedFileError,
)

Source = TypeVar("Source")

#: Examples in a block.
BLOCK_SIZE = 1000
#: Maximum number of reasons to keep when records are skipped.
N_REASONS = 10


@dataclass
class Skipped:
    """Counter of skipped records, with the first reasons; ``on_error="raise"`` raises instead of
    counting.
    """

    on_error: str = "skip"
    count: int = 0
    reasons: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        check_choice("on_error", self.on_error, ("raise", "skip"))

    def refuse(self, reason: str) -> None:
        """Raise DataFileError with this reason, or count the record."""
        if self.on_error == "raise":
            raise DataFileError(reason)
        self.note(reason)

    def note(self, reason: str) -> None:
        """Count a skipped record, and keep its reason if it is among the first."""
        self.count += 1
        if self.count <= N_REASONS:
            self.reasons.append(reason)

    def warn(self, stacklevel: int) -> None:
        """Warn if something was skipped."""
        if self.count:
            things = (
                f"{self.count} record{'s were' if self.count > 1 else ' was'} skipped, the first at"
            )
            warnings.warn(f"{things} {self.reasons[0]}", DataWarning, stacklevel=stacklevel + 1)


class Stream:
    """A re-readable source of examples, read one block at a time.

    Readers such as :func:`~omkl.data.stream_svmlight` return streams. :meth:`from_arrays` and
    :meth:`from_iterable` make streams from Python objects. A stream does not store examples: every call of :meth:`blocks` reads them
    again. Two passes with the same ``epoch`` give the same blocks.

    Parameters
    ----------
    passes : callable
        ``passes(epoch)`` returns an iterator over the blocks of a pass. It must give the same
        blocks for the same ``epoch``.
    block_size : int
        Number of examples in a block. The last block may be smaller.
    skipped : omkl.data.streams.Skipped, optional
        Counter to which ``passes`` adds skipped records.
    once : str, optional
        Name of the source, if it can be read only once.
    feature_names : sequence of str, optional
        Names of the columns of X, if they are known before the first block is read.

    Examples
    --------
    >>> stream = Stream.from_arrays(["a", "b", "c"], [0, 1, 0], block_size=2)
    >>> [block.n_examples for block in stream.blocks()]
    [2, 1]
    >>> [y for x, y in stream]
    [0, 1, 0]
    """

    def __init__(
        self,
        passes: Callable[[int], Iterator[Block]],
        block_size: int = BLOCK_SIZE,
        skipped: Skipped | None = None,
        once: str | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        check_number("block_size", block_size, least=1, integer=True)
        self._passes, self._is_spent = passes, False
        self.block_size = block_size
        self.once = once
        self.feature_names = None if feature_names is None else list(feature_names)
        self._skipped = skipped

    def blocks(self, epoch: int = 0) -> Iterator[Block]:
        """Pass over the stream.

        Parameters
        ----------
        epoch : int
            Number of the pass, from 0. Only :meth:`shuffled` streams differ between passes.

        Yields
        ------
        Block
            ``block_size`` examples; the last block may be smaller, but is not empty.

        Raises
        ------
        omkl.exceptions.InputError
            At the second pass over a source that can be read only once.
        """
        if self.once and self._is_spent:
            raise InputError(
                f"This stream reads {self.once}, only once: give a file, a list or a function."
            )
        self._is_spent = True
        return self._passes(epoch)

    def read(self) -> Block:
        """Read all examples of epoch 0 into one block."""
        return join(list(self.blocks()))

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the examples ``(x, y)`` of epoch 0; x of a sparse matrix is a sparse matrix
        with one row.
        """
        for X, y in self.blocks():
            rows = (X[i : i + 1] for i in range(n_rows(X))) if sparse.issparse(X) else iter(X)
            yield from zip(rows, [None] * n_rows(X) if y is None else y)

    @property
    def skipped(self) -> int:
        """Number of records skipped so far by the latest pass, with ``on_error="skip"``."""
        return 0 if self._skipped is None else self._skipped.count

    @property
    def reasons(self) -> list[str]:
        """Reasons why the first skipped records were skipped, with file and line."""
        return [] if self._skipped is None else list(self._skipped.reasons)

    def shuffled(
        self, buffer: int = 10_000, random_state: int | np.random.Generator | None = None
    ) -> "Stream":
        """Return a stream of the same examples in a random order, which differs from epoch to
        epoch.

        Examples pass through a buffer. When the buffer is full, a random half of it is yielded. An
        example moves forward by at most ``buffer`` places, so a file that is sorted by class must
        be shuffled on disk.

        Parameters
        ----------
        buffer : int
            Number of examples to hold, at least 2. If the whole stream fits, all orders are equally
            likely.
        random_state : int, Generator or None
            With an int, the order of an epoch depends only on the seed, the epoch and the examples,
            so a resumed run sees the same order. None draws one seed for all epochs.

        Returns
        -------
        Stream

        >>> stream = Stream.from_arrays(list("abcdef")).shuffled(random_state=0)
        >>> [list(block.X) for epoch in (0, 1, 0) for block in stream.blocks(epoch)]
        [['f', 'd', 'a', 'b', 'c', 'e'], ['e', 'd', 'c', 'a', 'b', 'f'], ['f', 'd', 'a', 'b', 'c',
        'e']]
        """
        check_number("buffer", buffer, least=2, integer=True)
        if isinstance(random_state, np.random.Generator):
            random_state = int(random_state.integers(1 << 63))
        entropy = np.random.SeedSequence(random_state).entropy

        def passes(epoch: int) -> Iterator[Block]:
            # the order of an epoch must not depend on earlier epochs
            rng = np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(epoch,)))
            return regrouped(_shuffled(self.blocks(epoch), buffer, rng), self.block_size)

        return Stream(passes, self.block_size, self._skipped, self.once, self.feature_names)

    def mapped(self, function: Callable[[Block], Block | tuple]) -> "Stream":
        """Apply a function to each block.

        Parameters
        ----------
        function : callable
            Takes a Block, and returns a Block, or a pair ``(X, y)`` whose columns have no names.

        Returns
        -------
        Stream
        """

        def passes(epoch: int) -> Iterator[Block]:
            made = map(function, self.blocks(epoch))
            return (block if isinstance(block, Block) else Block(*block) for block in made)

        return Stream(passes, self.block_size, self._skipped, self.once)

    @classmethod
    def from_arrays(
        cls, X: AnyRows, y: AnyRows | None = None, block_size: int = BLOCK_SIZE
    ) -> "Stream":
        """Make a stream of arrays in memory or of memory maps; blocks of arrays are views.

        Parameters
        ----------
        X : array or memory map of shape (n, ...), data frame, sparse matrix, list of n inputs, or Treebank
            The columns of a data frame keep their names. A data frame with text becomes a list of
            dicts.
        y : array of shape (n, ...) or list of n outputs, optional
        block_size : int

        Raises
        ------
        omkl.exceptions.InputError
            If X and y differ in length, or X has no columns.
        """
        names = column_names(X)
        X, y = as_rows(read_frame(X)), None if y is None else as_rows(y)
        whole, n = Block(X, y, names), n_rows(X)
        is_empty = n > 0 and isinstance(X, np.ndarray) and 0 in X.shape[1:]
        if is_empty or (y is not None and n != n_rows(y)):
            found = f"the shape {X.shape}" if is_empty else f"{n} of X and {n_rows(y)} of y"
            raise InputError(
                f"X and y must have equally many examples with something in them, got {found}."
            )

        def passes(epoch: int) -> Iterator[Block]:
            return (take(whole, slice(i, i + block_size)) for i in range(0, n, block_size))

        return cls(passes, block_size, feature_names=names)

    @classmethod
    def from_iterable(
        cls, examples: Iterable | Callable[[], Iterable], block_size: int = BLOCK_SIZE
    ) -> "Stream":
        """Make a stream of an iterable.

        Parameters
        ----------
        examples : iterable, or callable without arguments that returns one
            Yields pairs ``(x, y)``, pairs of a data frame and its targets, or :class:`Block`. Lists
            and callables allow several passes, iterators and generators only one. Vectors x are
            stacked into an array, and other inputs are collected in a list. y may be None.
        block_size : int

        Raises
        ------
        omkl.exceptions.InputError
            If ``examples`` is not iterable.
        """
        if not (callable(examples) or isinstance(examples, Iterable)):
            raise InputError(
                f"A stream is made of an iterable of pairs (x, y), not of {shown(examples)}."
            )
        once = "an iterator" if isinstance(examples, Iterator) else None
        source = examples if callable(examples) else lambda: examples
        return cls(lambda epoch: _grouped(iter(source()), block_size), block_size, once=once)


def _grouped(items: Iterator, size: int) -> Iterator[Block]:
    """Group single examples, or regroup blocks, into blocks of ``size`` examples."""
    for first in items:  # the first item decides the kind of all items and the names of columns
        items = chain([first], items)
        if isinstance(first, tuple) and len(first) == 2 and is_frame(first[0]):
            items = (
                Block(read_frame(X), None if y is None else as_rows(y), column_names(X))
                for X, y in items
            )
            first = Block(first[0], feature_names=column_names(first[0]))
        if isinstance(first, Block):
            names = first.feature_names
            yield from regrouped(
                (block.aligned(names, "A block of the stream") for block in items), size
            )
        else:
            yield from grouped(items, size)
        return


def regrouped(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """Split and join blocks to exactly ``size`` examples; the last block holds the remainder."""
    pending, n_pending = [], 0
    for block in blocks:
        pending.append(block)
        n_pending += block.n_examples
        if n_pending >= size:
            joined = join(pending)
            whole = n_pending - n_pending % size
            for low in range(0, whole, size):
                yield take(joined, slice(low, low + size))
            n_pending -= whole
            # a view, which keeps one piece of the file in memory; the next join copies it
            pending = [take(joined, slice(whole, None))] if n_pending else []
    if pending:
        yield join(pending)


def _shuffled(blocks: Iterable[Block], buffer: int, rng: np.random.Generator) -> Iterator[Block]:
    """Shuffle examples.

    Half of the buffer is yielded at a time, so an example is copied about four times, for any block
    size.
    """
    held, n_held = [], 0
    for block in blocks:
        held.append(block)
        n_held += block.n_examples
        while n_held >= buffer:
            pool, order = join(held), rng.permutation(n_held)
            leaving, staying = np.split(order, [buffer // 2])
            yield take(pool, leaving)
            held, n_held = [take(pool, staying)], len(staying)
    if held:
        yield take(join(held), rng.permutation(n_held))


# ---- streams of files ----------------------------------------------------------------------------


def stream_files(
    sources: Sequence[Source],
    read: Callable[[Source, Skipped], Iterator[Block]],
    *,
    block_size: int,
    on_error: str,
    noun: str = "example",
    feature_names: Sequence[str] | None = None,
    once: str | None = None,
) -> Stream:
    """Stream files one after the other, and order their columns as in the first file.

    ``read(source, skipped)`` yields blocks of any size, and calls ``skipped.refuse(message)`` for
    invalid records. ``noun`` is the word for an example in messages. ``once`` names a source that
    can be read only once.
    """
    skipped = Skipped(on_error)
    pipes = (
        f"{source}, which is a pipe"
        for source in sources
        if isinstance(source, Path) and is_pipe(source)
    )
    once = once or next(pipes, None)

    def blocks() -> Iterator[Block]:
        """Yield the blocks of all sources; with ``on_error="skip"``, leave out the rest of a
        damaged source.
        """
        skipped.count, skipped.reasons = 0, []
        names, is_empty = feature_names, True
        for source in sources:
            n_examples = 0
            try:
                for block in read(source, skipped):
                    if block.n_examples:
                        n_examples, is_empty = n_examples + block.n_examples, False
                        names = block.feature_names if names is None else names
                        yield block.aligned(names, str(source))
            except DamagedFileError as error:
                damage = "cut short" if isinstance(error, TruncatedFileError) else "damaged"
                place = f"{source}, after {n_examples} {noun}s: the file is {damage}"
                if skipped.on_error == "raise":
                    raise type(error)(
                        f"{place}: {error} on_error='skip' leaves the rest out."
                    ) from None
                skipped.note(f"{place}, and the rest of it is left out: {error}")
        if is_empty:
            why = f" that can be read: {skipped.reasons[0]}" if skipped.count else "."
            files = f"{sources[0]}" + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")
            raise DataFileError(f"{files} holds no {noun}{why}")
        skipped.warn(stacklevel=2)

    return Stream(
        lambda epoch: regrouped(blocks(), block_size), block_size, skipped, once, feature_names
    )
