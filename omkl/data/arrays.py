"""Streams of NumPy ``.npz`` archives."""

from collections.abc import Iterator, Sequence

import numpy as np

from omkl._messages import listed
from omkl.data.blocks import Block
from omkl.data.files import FileName, PathLike, check_no_pipe, find_files, is_url, unreadable
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream, stream_files
from omkl.exceptions import DataFileError


def stream_npz(
    path: PathLike | Sequence[PathLike],
    *,
    X: str = "X",
    y: str = "y",
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream arrays from ``.npz`` files, compressed or not; one file at a time is held in memory.

    For larger arrays, pass memory maps to :meth:`Stream.from_arrays`: ``np.load("X.npy", mmap_mode="r")``.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern.
    X, y : str
        Names of the arrays, which need equally many rows. With the default ``y``, files may have no outputs.
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        "skip" leaves damaged files out, and counts them in ``skipped``.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing; during a pass, if it is damaged or does not hold such arrays.
    """

    def read(path: FileName, skipped: Skipped) -> Iterator[Block]:
        check_no_pipe(path)
        arrays, known = _loaded(path, (X, y))
        found = list(arrays.values())
        missing = [name for name in (X, y) if name not in arrays and (name == X or name != "y")]
        if flaw := f"an array {missing[0]!r}" if missing else _flaw(found):
            raise DataFileError(f"{path} must hold {flaw}; its arrays are {listed(known)}.")
        yield Block(arrays[X], arrays.get(y))

    return stream_files(find_files(path), read, block_size=block_size, on_error=on_error)


def _flaw(arrays: Sequence) -> str:
    """Describe what is missing from the inputs and outputs; empty if nothing is."""
    if not all(isinstance(own, np.ndarray) and own.dtype.kind in "biufSU" and own.ndim for own in arrays):
        return "arrays of numbers or strings in rows"
    lengths = list(map(len, arrays))
    if len(set(lengths)) > 1:
        return f"as many rows of inputs as of outputs, not {lengths[0]} and {lengths[1]}"
    return "" if not lengths[0] or all(own.nbytes for own in arrays) else f"something in its {lengths[0]} rows"


def _loaded(path: FileName, names: tuple[str, str]) -> tuple[dict[str, np.ndarray], list[str]]:
    """Return the arrays ``names`` of an archive, as far as they exist, and the names of all its arrays."""
    if is_url(path):
        raise DataFileError(f"{path} is a URL: download the file, and give its path.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            for info in archive.zip.infolist():
                archive.zip.open(info).close()  # checks that the archive's directory fits its data
            return {name: archive[name] for name in names if name in archive.files}, archive.files
    except Exception as error:  # damaged bytes lead to errors of any class
        raise unreadable(path, error, "archive of NumPy") from None
