"""What all readers of files have in common: many files, blocks of one size, records that are left out."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from omkl.data.files import PathLike, find_files
from omkl.data.rows import Block, regrouped
from omkl.data.skipping import Skipped
from omkl.data.streams import Stream, check_block_size
from omkl.exceptions import DamagedFileError, DataFileError, TruncatedFileError


def stream_files(
    path: PathLike | Sequence[PathLike], read: Callable[[Path, Skipped], Iterator[Block]], *, block_size: int,
    on_error: str, noun: str = "example", feature_names: Sequence[str] | None = None,
) -> Stream:  # fmt: skip
    """A stream over files. Where columns have names, those of all files are brought into the order of the first.

    Parameters
    ----------
    path : path-like or list of path-like
        What :func:`~omkl.data.files.find_files` takes.
    read : callable
        ``read(path, skipped)`` yields the blocks of a file, of any size, and gives records that are wrong to
        ``skipped.refuse``.
    block_size : int
    on_error : {"raise", "skip"}
    noun : str
        What an example is called in messages.
    feature_names : sequence of str, optional
        What columns are called, where that is known before a file is read.

    Returns
    -------
    Stream
    """
    check_block_size(block_size)
    paths, skipped = find_files(path), Skipped(on_error=on_error)

    def passes(epoch: int) -> Iterator[Block]:
        return regrouped(_blocks(paths, read, skipped, noun, feature_names), block_size)

    return Stream(passes, block_size, skipped, feature_names=feature_names)


def _blocks(
    paths: Sequence[Path], read: Callable[[Path, Skipped], Iterator[Block]], skipped: Skipped, noun: str,
    names: Sequence[str] | None,
) -> Iterator[Block]:  # fmt: skip
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
            what = "cut short" if isinstance(error, TruncatedFileError) else "damaged"
            place = f"{path}, after {n_examples - n_before} {noun}s: the file is {what}"
            if skipped.on_error == "raise":
                advice = "get it again, or leave the rest of it out with on_error='skip'"
                raise type(error)(f"{place}: {advice}.") from None
            # a compressed file cannot be taken up again behind the damage
            skipped.note(1, [f"{place}, and the rest of it is left out."])
    if not n_examples:
        why = f" that can be read: {skipped.reasons[0]}" if skipped.count else ": it needs at least one."
        files = f"{paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
        raise DataFileError(f"{files} holds no {noun}{why}")
    skipped.warn("record", stacklevel=2)
