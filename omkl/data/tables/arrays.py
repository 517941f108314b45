"""Streams of NumPy's files, ``.npy`` and ``.npz``."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from omkl._messages import listed
from omkl.data.blocks import Block
from omkl.data.file_streams import Skipped, stream_files
from omkl.data.files import PathLike, Url, check_no_pipe, find_files
from omkl.data.streams import BLOCK_SIZE, Stream
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
    _check_seekable(path)
    with _naming_damage(path, "no .npy file"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError
        _check_rows(array.shape, array.dtype, path, "the array")
        return array


def stream_npz(
    path: PathLike | Sequence[PathLike],
    *,
    X: str = "X",
    y: str = "y",
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream arrays in ``.npz`` files, compressed or not, without reading them whole.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern.
    X, y : str
        Names of the arrays, which have equally many rows, in C order. An array "y" is optional.
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        "skip" reads a damaged file up to the damage, as far as its checksums tell. A file that is cut short has lost
        the directory at its end, and cannot be read. Skipped files are counted in ``skipped``.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, if it is damaged, or does not hold such arrays.
    """

    def read(path: Path, skipped: Skipped) -> Iterator[Block]:
        _check_seekable(path)
        with ExitStack() as stack:
            stack.enter_context(_naming_damage(path, "no .npz file"))
            archive = stack.enter_context(zipfile.ZipFile(path))
            for info in archive.infolist():
                archive.open(info).close()  # compares the names in the directory with those beside the data
            members = [_Member(archive, stack, path, X)]
            if y != "y" or "y.npy" in archive.namelist():  # a name that was chosen must be there
                members.append(_Member(archive, stack, path, y))
                n_rows = [member.shape[0] for member in members]
                if n_rows[0] != n_rows[1]:
                    raise DataFileError(f"{path}: {X!r} has {n_rows[0]} rows, but {y!r} has {n_rows[1]}.")
            for low in range(0, members[0].shape[0], block_size):
                parts = [member.rows(low, low + block_size) for member in members]
                yield Block(parts[0], parts[1] if len(parts) > 1 else None)

    return stream_files(path, read, block_size=block_size, on_error=on_error)


def _check_seekable(path: PathLike) -> None:
    check_no_pipe(path)
    if isinstance(path, Url):
        raise DataFileError(f"{path} is a URL: download the file, and give its path.")


@contextmanager
def _naming_damage(path: PathLike, otherwise: str) -> Iterator[None]:
    """Raise DamagedFileError for any error of zipfile and NumPy, whose classes depend on the bytes that are wrong."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        if error.errno is not None and error.strerror != "Invalid argument":  # a negative position
            raise DataFileError(f"{path} cannot be read: {error.strerror}.") from None
        raise DamagedFileError(f"{path} is damaged.") from None
    except Exception:
        raise DamagedFileError(f"{path} is damaged, cut short, or {otherwise}.") from None


class _Member:
    """An array of an archive, read from the first row to the last."""

    def __init__(self, archive: zipfile.ZipFile, stack: ExitStack, path: PathLike, name: str) -> None:
        if f"{name}.npy" not in archive.namelist():
            names = [member.removesuffix(".npy") for member in archive.namelist()]
            raise DataFileError(f"{path} holds no array {name!r}, only {listed(names)}: see X= and y=.")
        info = archive.getinfo(f"{name}.npy")
        self._file: Any = stack.enter_context(archive.open(info))
        version = np.lib.format.read_magic(self._file)
        header = np.lib.format.read_array_header_1_0 if version[0] == 1 else np.lib.format.read_array_header_2_0
        self.shape, in_columns, self.dtype = header(self._file)
        _check_rows(self.shape, self.dtype, path, repr(name))
        if in_columns and len(self.shape) > 1:
            raise DataFileError(f"{path}: {name!r} is stored by columns: save it with np.ascontiguousarray.")
        n_bytes = self.dtype.itemsize
        for n in self.shape:
            n_bytes *= n
        if info.file_size - self._file.tell() != n_bytes:
            raise DamagedFileError(f"{path}: {name!r} has not as many bytes as its shape needs.")

    def rows(self, low: int, high: int) -> np.ndarray:
        """Rows ``low`` to ``high - 1``, which follow those of the previous call."""
        try:
            array = np.empty((min(high, self.shape[0]) - low, *self.shape[1:]), self.dtype)
        except MemoryError:  # the size is what the archive says
            raise DamagedFileError("A block of rows does not fit into memory.") from None
        buffer = array.reshape(-1).view(np.uint8)
        done = 0
        while done < len(buffer):
            done += (n := self._file.readinto(buffer[done:]))
            if n == 0:
                raise EOFError
        if high >= self.shape[0]:
            self._file.read(1)  # compares the checksum
        return array


def _check_rows(shape: tuple[int, ...], dtype: Any, path: PathLike, name: str) -> None:
    """Raise unless an array can hold examples."""
    if dtype.kind not in "biufSU" or not shape:
        raise DataFileError(f"{path}: {name} is not an array of numbers or strings in rows.")
    if min(shape) < 0:
        raise DamagedFileError(f"{path}: {name} has a negative number of rows or columns.")
    if shape[0] and (not dtype.itemsize or 0 in shape):
        raise DataFileError(f"{path}: {name} has {shape[0]} rows with nothing in them.")
