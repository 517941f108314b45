"""Streams of NumPy's files, ``.npy`` and ``.npz``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from omkl._messages import listed
from omkl.data.blocks import Block
from omkl.data.files import FileName, PathLike, check_no_pipe, find_files, is_url
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream, stream_files
from omkl.exceptions import DamagedFileError, DataFileError, InputError


def stream_npy(X: PathLike, y: PathLike | None = None, *, block_size: int = BLOCK_SIZE) -> Stream:
    """Stream arrays in ``.npy`` files, mapped into memory: blocks are views of the files.

    Parameters
    ----------
    X, y : path-like
        Files of arrays with equally many rows; y is optional.
    block_size : int
        Number of examples in a block.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing, cut short or no ``.npy`` file.
    omkl.exceptions.InputError
        If X and y differ in length.
    """
    return Stream.from_arrays(_mapped(X), None if y is None else _mapped(y), block_size)


def _mapped(path: PathLike) -> np.ndarray:
    (file,) = find_files(path)
    with _reading(file):
        array = np.load(file, mmap_mode="r", allow_pickle=False)
        _check(array, file)
    return array


def stream_npz(
    path: PathLike | Sequence[PathLike],
    *,
    X: str = "X",
    y: str = "y",
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream arrays in ``.npz`` files, compressed or not; one file at a time is held in memory.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern.
    X, y : str
        Names of the arrays, which have equally many rows. An array "y" is optional.
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
        At once if a file is missing; while it is read, if it is damaged, or does not hold such arrays.
    """

    def read(path: FileName, skipped: Skipped) -> Iterator[Block]:
        with _reading(path), np.load(path, allow_pickle=False) as archive:
            for info in archive.zip.infolist():
                archive.zip.open(info).close()  # compares the names in the directory with those beside the data
            for name in (X, y):
                if name not in archive.files and (name == X or name != "y"):
                    raise DataFileError(f"{path} has no array {name!r}; its arrays are {listed(archive.files)}.")
            arrays = [archive[name] for name in (X, y) if name in archive.files]
            for array in arrays:
                _check(array, path)
        if len(set(map(len, arrays))) > 1:
            raise DataFileError(f"{path}: {X!r} has {len(arrays[0])} rows, but {y!r} has {len(arrays[1])}.")
        yield Block(*arrays)

    return stream_files(find_files(path), read, block_size=block_size, on_error=on_error)


@contextmanager
def _reading(path: FileName) -> Iterator[None]:
    """Raise DamagedFileError for any error of zipfile and NumPy, whose classes depend on the bytes that are wrong."""
    check_no_pipe(path)
    if is_url(path):
        raise DataFileError(f"{path} is a URL: download the file, and give its path.")
    try:
        yield
    except InputError:
        raise
    except PermissionError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror}.") from None
    except Exception:
        raise DamagedFileError(f"{path} is damaged, cut short, or not a file of NumPy.") from None


def _check(array: np.ndarray, path: FileName) -> None:
    """Raise DataFileError unless an array can hold examples."""
    if array.dtype.kind not in "biufSU" or not array.ndim or (len(array) and not array.nbytes):
        raise DataFileError(f"{path}: an array is not one of numbers or strings in rows.")
