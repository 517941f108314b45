"""Streams: re-readable sources of examples in blocks, for data larger than memory."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from omkl._components import check_choice, check_number
from omkl._messages import shown
from omkl.data.blocks import AnyRows, Block, Names, as_rows, grouped, join, n_rows, take
from omkl.data.files import is_pipe
from omkl.data.table_reading import is_table, read_table
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
    """Counter of skipped records, with the first reasons.

    With ``on_error="raise"``, it raises an error instead of counting.
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
            were = "s were" if self.count > 1 else " was"
            warnings.warn(
                f"{self.count} record{were} skipped, the first at {self.reasons[0]}",
                DataWarning,
                stacklevel=stacklevel + 1,
            )


class Stream:
    """A re-readable source of examples, read one block at a time.

    Readers such as :func:`~omkl.data.stream_svmlight` return streams. :meth:`from_arrays` and
    :meth:`from_iterable` make streams from Python objects. A stream does not store examples: every
    call of :meth:`blocks` reads them again. Two passes with the same ``epoch`` give the same
    blocks.

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
        feature_names: Names = None,
    ) -> None:
        check_number("block_size", block_size, least=1, integer=True)
        self._passes = passes
        self._is_spent = False
        self.block_size = block_size
        self.once = once
        self.feature_names = None if feature_names is None else list(feature_names)
        self._skipped = skipped or Skipped()

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
        """Iterate over the examples ``(x, y)`` of epoch 0.

        x of a sparse matrix is a sparse matrix with one row.
        """
        for X, y in self.blocks():
            rows = X
            if sparse.issparse(X):
                rows = (X[i : i + 1] for i in range(X.shape[0]))
            targets = y
            if y is None:
                targets = repeat(None)
            yield from zip(rows, targets)

    @property
    def skipped(self) -> int:
        """Number of records skipped so far by the latest pass, with ``on_error="skip"``."""
        return self._skipped.count

    @property
    def reasons(self) -> list[str]:
        """Reasons why the first skipped records were skipped, with file and line."""
        return list(self._skipped.reasons)

    def shuffled(
        self, buffer: int = 10_000, random_state: int | np.random.Generator | None = None
    ) -> "Stream":
        """Return a stream of the same examples in a random order, another one in each epoch.

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
        >>> ["".join(block.X) for epoch in (0, 1, 0) for block in stream.blocks(epoch)]
        ['fdabce', 'edcabf', 'fdabce']
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
        X : array or memory map (n, ...), data frame, sparse matrix, list of n inputs, or Treebank
            The columns of a data frame keep their names. A data frame with text becomes a list of
            dicts.
        y : array of shape (n, ...) or list of n outputs, optional
        block_size : int

        Raises
        ------
        omkl.exceptions.InputError
            If X and y differ in length, or X has no columns.
        """
        examples = _block_of_table(X, y)
        rows, targets = examples
        n = n_rows(rows)
        flaw = ""
        if n > 0 and isinstance(rows, np.ndarray) and 0 in rows.shape[1:]:
            flaw = f"the shape {rows.shape}"
        elif targets is not None and n != n_rows(targets):
            flaw = f"{n} of X and {n_rows(targets)} of y"
        if flaw:
            raise InputError(
                f"X and y must have equally many examples with something in them, got {flaw}."
            )

        def passes(epoch: int) -> Iterator[Block]:
            return (take(examples, slice(i, i + block_size)) for i in range(0, n, block_size))

        return cls(passes, block_size, feature_names=examples.feature_names)

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
        once = None
        if isinstance(examples, Iterator):
            once = "an iterator"

        def passes(epoch: int) -> Iterator[Block]:
            items = examples() if callable(examples) else examples
            return _grouped(iter(items), block_size)

        return cls(passes, block_size, once=once)


def _grouped(items: Iterator, size: int) -> Iterator[Block]:
    """Group single examples, or regroup blocks and tables, into blocks of ``size`` examples."""
    # the first item decides the kind of all items and the names of columns
    first = next(items, None)
    if first is None:
        return
    items = chain([first], items)
    if isinstance(first, tuple) and len(first) == 2 and is_table(first[0]):
        items = map(_block_of_pair, items)
    elif not isinstance(first, Block):
        yield from grouped(items, size)
        return
    yield from regrouped(_aligned(items), size)


def _block_of_pair(pair: Any) -> Block:
    """Convert an item of a stream of tables to a block."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise InputError(f"A stream of tables must hold pairs (table, targets), got {shown(pair)}.")
    return _block_of_table(*pair)


def _block_of_table(X: AnyRows, y: AnyRows | None) -> Block:
    """Convert a table and its targets to a block."""
    table = read_table(X)
    return Block(as_rows(table.values), as_rows(y), table.names)


def _aligned(blocks: Iterable[Block]) -> Iterator[Block]:
    """Order the columns of all blocks as in the first one."""
    names = None
    for block in blocks:
        if names is None:
            names = block.feature_names
        yield block.aligned(names, "A block of the stream")


def regrouped(blocks: Iterable[Block], size: int) -> Iterator[Block]:
    """Split and join blocks to exactly ``size`` examples; the last block holds the remainder."""
    pending: list[Block] = []
    n_pending = 0
    for block in blocks:
        pending.append(block)
        n_pending += block.n_examples
        if n_pending < size:
            continue
        joined = join(pending)
        n_yielded = n_pending - n_pending % size
        for low in range(0, n_yielded, size):
            yield take(joined, slice(low, low + size))
        n_pending -= n_yielded
        pending = []
        if n_pending:
            # a view, which keeps one piece of the file in memory; the next join copies it
            pending.append(take(joined, slice(n_yielded, None)))
    if pending:
        yield join(pending)


def _shuffled(blocks: Iterable[Block], buffer: int, rng: np.random.Generator) -> Iterator[Block]:
    """Shuffle examples in a buffer, of which a random half is yielded whenever it is full.

    So an example is copied about four times, for any block size.
    """
    pending: list[Block] = []
    n_pending = 0
    for block in blocks:
        pending.append(block)
        n_pending += block.n_examples
        while n_pending >= buffer:
            pool = join(pending)
            order = rng.permutation(n_pending)
            leaving, staying = np.split(order, [buffer // 2])
            yield take(pool, leaving)
            pending = [take(pool, staying)]
            n_pending = len(staying)
    if pending:
        yield take(join(pending), rng.permutation(n_pending))


# ---- streams of files ----------------------------------------------------------------------------


def stream_files(
    sources: Sequence[Source],
    read: Callable[[Source, Skipped], Iterator[Block]],
    *,
    block_size: int,
    on_error: str,
    noun: str = "example",
    feature_names: Names = None,
    once: str | None = None,
) -> Stream:
    """Stream files one after the other, and order their columns as in the first file.

    ``read(source, skipped)`` yields blocks of any size, and calls ``skipped.refuse(message)`` for
    invalid records. ``noun`` is the word for an example in messages. ``once`` names a source that
    can be read only once.
    """
    skipped = Skipped(on_error)
    pipes = [source for source in sources if isinstance(source, Path) and is_pipe(source)]
    if pipes and not once:
        once = f"{pipes[0]}, which is a pipe"

    def blocks() -> Iterator[Block]:
        """Yield the blocks of all sources.

        With ``on_error="skip"``, leave out the rest of a damaged source.
        """
        skipped.count = 0
        skipped.reasons = []
        names = feature_names
        is_empty = True
        for source in sources:
            n_examples = 0
            try:
                for block in read(source, skipped):
                    if not block.n_examples:
                        continue
                    n_examples += block.n_examples
                    is_empty = False
                    if names is None:
                        names = block.feature_names
                    yield block.aligned(names, str(source))
            except DamagedFileError as error:
                damage = "damaged"
                if isinstance(error, TruncatedFileError):
                    damage = "cut short"
                place = f"{source}, after {n_examples} {noun}s: the file is {damage}"
                if skipped.on_error == "raise":
                    raise type(error)(
                        f"{place}: {error} on_error='skip' leaves the rest out."
                    ) from None
                skipped.note(f"{place}, and the rest of it is left out: {error}")
        if is_empty:
            reason = "."
            if skipped.count:
                reason = f" that can be read: {skipped.reasons[0]}"
            files = f"{sources[0]}"
            if len(sources) > 1:
                files += f" and {len(sources) - 1} more"
            raise DataFileError(f"{files} holds no {noun}{reason}")
        skipped.warn(stacklevel=2)

    return Stream(
        lambda epoch: regrouped(blocks(), block_size), block_size, skipped, once, feature_names
    )
