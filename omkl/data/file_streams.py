"""Streams of files, and records of them that are skipped."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omkl.data.blocks import Block
from omkl.data.files import PathLike, find_files, is_pipe
from omkl.data.streams import Stream, check_block_size, regrouped
from omkl.exceptions import DamagedFileError, DataFileError, DataWarning, InputError, TruncatedFileError

#: Reasons that are kept when records are skipped.
N_REASONS = 10


@dataclass
class Skipped:
    """Counter of skipped records, with the reasons of the first; or a refusal of all.

    Parameters
    ----------
    count : int
    reasons : list of str
    on_error : {"raise", "skip"}
    """

    count: int = 0
    reasons: list[str] = field(default_factory=list)
    on_error: str = "skip"

    def __post_init__(self) -> None:
        if self.on_error not in ("raise", "skip"):
            raise InputError(f"`on_error` must be one of 'raise', 'skip', got {self.on_error!r}.")

    def refuse(self, reason: str) -> None:
        """Raise DataFileError with this reason, or count the record."""
        if self.on_error == "raise":
            raise DataFileError(reason)
        self.note(1, [reason])

    def note(self, count: int, reasons: Sequence[str]) -> None:
        """Count records; keep the first reasons."""
        self.count += count
        self.reasons += reasons[: max(0, N_REASONS - len(self.reasons))]

    def clear(self) -> None:
        """Forget what was counted."""
        self.count, self.reasons = 0, []

    def warn(self, noun: str, stacklevel: int) -> None:
        """Warn if something was skipped; ``noun`` names one such thing."""
        if self.count:
            things = f"{self.count} {noun}{'s were' if self.count > 1 else ' was'} skipped, the first at"
            warnings.warn(f"{things} {self.reasons[0]}", DataWarning, stacklevel=stacklevel + 1)


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
    check_block_size(block_size)
    paths, skipped = find_files(path), Skipped(on_error=on_error)
    pipes = [path for path in paths if is_pipe(path)]
    n_passes = 0

    def passes(epoch: int) -> Iterator[Block]:
        nonlocal n_passes
        n_passes += 1
        if pipes and n_passes > 1:
            raise InputError(f"{pipes[0]} is a pipe, which can be passed over only once: write it to a file.")
        return regrouped(_file_blocks(paths, read, skipped, noun, feature_names), block_size)

    return Stream(passes, block_size, skipped, once=bool(pipes), feature_names=feature_names)


def first_readable(paths: Sequence[Path], open: Callable[[Path], Any], on_error: str) -> Any:
    """Open the first file; if damaged files are skipped, the first that can be read."""
    for path in paths:
        try:
            return open(path)
        except DamagedFileError:
            if on_error == "raise" or path == paths[-1]:
                raise


def _file_blocks(
    paths: Sequence[Path],
    read: Callable[[Path, Skipped], Iterator[Block]],
    skipped: Skipped,
    noun: str,
    names: Sequence[str] | None,
) -> Iterator[Block]:
    skipped.clear()
    n_examples = 0
    for path in paths:
        n_before = n_examples
        try:
            for block in read(path, skipped):
                if block.n_examples:
                    n_examples += block.n_examples
                    names = block.feature_names if names is None else names
                    yield block.aligned(names, str(path))
        except DamagedFileError as error:
            damage = "cut short" if isinstance(error, TruncatedFileError) else "damaged"
            place = f"{path}, after {n_examples - n_before} {noun}s: the file is {damage}"
            if skipped.on_error == "raise":
                raise type(error)(f"{place}: {error} on_error='skip' leaves the rest out.") from None
            skipped.note(1, [f"{place}, and the rest of it is left out: {error}"])
    if not n_examples:
        why = f" that can be read: {skipped.reasons[0]}" if skipped.count else "."
        files = f"{paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        raise DataFileError(f"{files} holds no {noun}{why}")
    skipped.warn("record", stacklevel=2)
