"""Streams of NumPy's files, ``.npy`` and ``.npz``."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from omkl._messages import listed
from omkl.data.blocks import Block
from omkl.data.file_streams import stream_files
from omkl.data.files import PathLike, Url, check_no_pipe, find_files
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream
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
    (path,) = find_files(path)
    with _reading(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        _check(array, path, "the array")
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

    def read(path: Path, skipped: Skipped) -> Iterator[Block]:
        with _reading(path), np.load(path, allow_pickle=False) as archive:
            for info in archive.zip.infolist():
                archive.zip.open(info).close()  # compares the names in the directory with those beside the data
            for name in (X, y):
                if name not in archive.files and (name == X or name != "y"):
                    names = listed(archive.files)
                    raise DataFileError(f"{path} holds no array {name!r}, only {names}: see X= and y=.")
            arrays = [archive[name] for name in (X, y) if name in archive.files]
            for array, name in zip(arrays, (X, y)):
                _check(array, path, repr(name))
        if len(set(map(len, arrays))) > 1:
            raise DataFileError(f"{path}: {X!r} has {len(arrays[0])} rows, but {y!r} has {len(arrays[1])}.")
        yield Block(*arrays)

    return stream_files(path, read, block_size=block_size, on_error=on_error)


@contextmanager
def _reading(path: PathLike) -> Iterator[None]:
    """Raise DamagedFileError for any error of zipfile and NumPy, whose classes depend on the bytes that are wrong."""
    check_no_pipe(path)
    if isinstance(path, Url):
        raise DataFileError(f"{path} is a URL: download the file, and give its path.")
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None and error.strerror != "Invalid argument":
            raise DataFileError(f"{path} cannot be read: {error.strerror}.") from None
        raise DamagedFileError(f"{path} is damaged, cut short, or no file of NumPy.") from None


def _check(array: np.ndarray, path: PathLike, name: str) -> None:
    """Raise unless an array can hold examples."""
    if array.dtype.kind not in "biufSU" or not array.ndim:
        raise DataFileError(f"{path}: {name} is not an array of numbers or strings in rows.")
    if len(array) and not (array.dtype.itemsize and array.size):
        raise DataFileError(f"{path}: {name} has {len(array)} rows with nothing in them.")
