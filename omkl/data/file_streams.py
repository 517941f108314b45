"""What all readers of files have in common: many files, blocks of one size, records that are left out."""

from omkl.data.files import find_files
from omkl.data.rows import regrouped
from omkl.data.skipping import Skipped
from omkl.data.streams import Stream, check_block_size
from omkl.exceptions import DamagedFileError, DataFileError, TruncatedFileError


def stream_files(path, read, *, block_size, on_error, noun="example"):
    """A stream over files.

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

    Returns
    -------
    Stream
    """
    check_block_size(block_size)
    paths, skipped = find_files(path), Skipped(on_error=on_error)
    return Stream(lambda epoch: regrouped(_blocks(paths, read, skipped, noun), block_size), block_size, skipped)


def _blocks(paths, read, skipped, noun):
    skipped.clear()
    n_examples = 0
    for path in paths:
        n_before = n_examples
        try:
            for block in read(path, skipped):
                if block.n_examples:
                    n_examples += block.n_examples
                    yield block
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
