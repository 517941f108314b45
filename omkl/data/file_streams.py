"""Streams of files."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from omkl.data.blocks import Block
from omkl.data.files import PathLike, find_files, is_pipe
from omkl.data.streams import Skipped, Stream, regrouped
from omkl.exceptions import DamagedFileError, DataFileError, TruncatedFileError

Source = TypeVar("Source")
Opened = TypeVar("Opened")


def stream_files(
    path: PathLike | Sequence[PathLike],
    read: Callable[[Path, Skipped], Iterator[Block]],
    *,
    block_size: int,
    on_error: str,
    noun: str = "example",
    feature_names: Sequence[str] | None = None,
) -> Stream:
    """Stream files, one after the other, with the columns of all in the order of the first.

    Parameters
    ----------
    path : path-like or list of path-like
        See :func:`~omkl.data.files.find_files`.
    read : callable
        ``read(path, skipped)`` yields the blocks of a file, of any size, and gives messages about wrong records to
        ``skipped.refuse``.
    block_size : int
    on_error : {"raise", "skip"}
    noun : str
        Name of an example in messages.
    feature_names : sequence of str, optional
        Names of columns, if they are known before the first block.

    Returns
    -------
    Stream
        With a single pass if one of the files is a pipe.
    """
    paths = find_files(path)
    pipes = [f"{path}, which is a pipe" for path in paths if is_pipe(path)]
    return stream_of(
        paths,
        read,
        block_size=block_size,
        on_error=on_error,
        noun=noun,
        feature_names=feature_names,
        once=pipes[0] if pipes else None,
    )


def stream_of(
    sources: Sequence[Source],
    read: Callable[[Source, Skipped], Iterator[Block]],
    *,
    block_size: int,
    on_error: str,
    noun: str = "example",
    feature_names: Sequence[str] | None = None,
    once: str | None = None,
) -> Stream:
    """Stream sources, such as files, one after the other; see :func:`stream_files`."""
    skipped = Skipped(on_error=on_error)

    def passes(epoch: int) -> Iterator[Block]:
        return regrouped(_blocks(sources, read, skipped, noun, feature_names), block_size)

    return Stream(passes, block_size, skipped, once, feature_names)


def first_readable(paths: Sequence[Path], open: Callable[[Path], Opened], on_error: str) -> Opened:
    """Open the first file; if damaged files are skipped, the first that can be read."""
    for path in paths:
        try:
            return open(path)
        except DamagedFileError:
            if on_error == "raise":
                raise
    return open(paths[-1])


def _blocks(
    sources: Sequence[Source],
    read: Callable[[Source, Skipped], Iterator[Block]],
    skipped: Skipped,
    noun: str,
    names: Sequence[str] | None,
) -> Iterator[Block]:
    skipped.clear()
    n_examples = 0
    for source in sources:
        n_before = n_examples
        try:
            for block in read(source, skipped):
                if block.n_examples:
                    n_examples += block.n_examples
                    names = block.feature_names if names is None else names
                    yield block.aligned(names, str(source))
        except DamagedFileError as error:
            damage = "cut short" if isinstance(error, TruncatedFileError) else "damaged"
            place = f"{source}, after {n_examples - n_before} {noun}s: the file is {damage}"
            if skipped.on_error == "raise":
                raise type(error)(f"{place}: {error} on_error='skip' leaves the rest out.") from None
            skipped.note(1, [f"{place}, and the rest of it is left out: {error}"])
    if not n_examples:
        why = f" that can be read: {skipped.reasons[0]}" if skipped.count else "."
        files = f"{sources[0]}" + (f" and {len(sources) - 1} more" if len(sources) > 1 else "")
        raise DataFileError(f"{files} holds no {noun}{why}")
    skipped.warn(stacklevel=2)
