"""Streams of numpy's files, ``.npy`` and ``.npz``."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from omkl.data.file_streams import StreamFormat, stream_files
from omkl.data.files import PathLike, find_files
from omkl.data.rows import Block
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.exceptions import DamagedFileError, DataFileError, TruncatedFileError


def stream_npy(X: PathLike, y: PathLike | None = None, *, block_size: int = BLOCK_SIZE) -> Stream:
    """Stream arrays in ``.npy`` files, mapped into memory: blocks are views of the files.

    Parameters
    ----------
    X, y : path-like
        Files of arrays with equally many rows; y may be left out.
    block_size : int
        Examples in a block.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing, cut short or no ``.npy`` file.
    omkl.exceptions.InputError
        If X and y differ in length.
    """
    return Stream.from_arrays(_mapped(X), None if y is None else _mapped(y), block_size)


def _mapped(path):
    (path,) = find_files(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DamagedFileError(f"{path} is cut short, or no .npy file of numbers: {error}.") from None
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise DataFileError(f"{path} is no array with rows in a .npy file.")
    return array


def stream_npz(
    path: PathLike | Sequence[PathLike], *, X: str = "X", y: str = "y", block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:  # fmt: skip
    """Stream arrays in ``.npz`` files, compressed or not, without reading them whole.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern.
    X, y : str
        Names of the arrays, which have equally many rows, in C order. There need not be an array "y".
    block_size : int
        Examples in a block.
    on_error : {"raise", "skip"}
        What to do with a file that is damaged: it is read up to there, as far as its checksums tell. One that is cut
        short has lost the directory at its end, and cannot be read at all. Skipped files are counted in ``skipped``.

    Returns
    -------
    Stream

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, if it is damaged, or does not hold such arrays.
    """

    def read(path, skipped):
        with _archive(path) as archive, ExitStack() as stack:
            members = [stack.enter_context(_Member.open(archive, path, X))]
            if y != "y" or "y.npy" in archive.namelist():  # a name that was chosen must be there
                members.append(stack.enter_context(_Member.open(archive, path, y)))
                if members[0].shape[0] != members[1].shape[0]:
                    n_rows = [member.shape[0] for member in members]
                    raise DataFileError(f"{path}: {X!r} has {n_rows[0]} rows, but {y!r} has {n_rows[1]}.")
            for low in range(0, members[0].shape[0], block_size):
                yield Block(*(member.rows(low, low + block_size) for member in members))

    return stream_files(path, read, block_size=block_size, on_error=on_error)


@contextmanager
def _archive(path):
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except EOFError:
        raise TruncatedFileError(f"{path} is cut short: get it again.") from None
    except (zipfile.BadZipFile, zlib.error):
        raise DamagedFileError(f"{path} is damaged, cut short, or no .npz file: get it again.") from None


class _Member:
    """An array of an archive, from the first row to the last."""

    def __init__(self, file, shape, dtype):
        self._file, self.shape, self.dtype = file, shape, dtype

    @classmethod
    @contextmanager
    def open(cls, archive, path, name):
        if f"{name}.npy" not in archive.namelist():
            held = ", ".join(repr(member.removesuffix(".npy")) for member in archive.namelist())
            raise DataFileError(f"{path} holds no array {name!r}, only {held}: name the arrays with X= and y=.")
        info = archive.getinfo(f"{name}.npy")
        with archive.open(info) as file:
            shape, in_columns, dtype = _header(file, path, name)
            if dtype.hasobject or not shape or (in_columns and len(shape) > 1):
                wanted = "numbers or strings in rows: save it with np.ascontiguousarray"
                raise DataFileError(f"{path}: {name!r} is not an array of {wanted}.")
            if info.file_size - file.tell() != dtype.itemsize * int(np.prod(shape, dtype=object)):
                raise DamagedFileError(f"{path}: {name!r} has not as many bytes as its shape needs: get it again.")
            yield cls(file, shape, dtype)

    def rows(self, low, high):
        """Rows ``low`` to ``high - 1``, which follow those that came before."""
        shape = (min(high, self.shape[0]) - low, *self.shape[1:])
        array = np.empty(shape, self.dtype)
        buffer = array.reshape(-1).view(np.uint8)
        done = 0
        while done < len(buffer):
            done += (n := self._file.readinto(buffer[done:]))
            if n == 0:
                raise EOFError
        return array


def _header(file, path, name):
    try:
        version = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[version[0]]
        return read(file)
    except (ValueError, KeyError):
        raise DamagedFileError(f"{path}: {name!r} does not begin as an array does: get it again.") from None


class Npy(StreamFormat):
    """Two files of numpy's, of which ``target`` has the outputs: see :func:`stream_npy`."""

    aliases = {"npy": {}}
    suffixes = (".npy",)
    has_target = True

    def open(self, path: PathLike, target: PathLike | None = None, **options: Any) -> Stream:
        """The stream."""
        return stream_npy(path, target, **options)


class Npz(StreamFormat):
    """Archives of numpy's, with the outputs in the array ``target``: see :func:`stream_npz`."""

    aliases = {"npz": {}}
    suffixes = (".npz",)
    has_target = True

    def open(self, path: PathLike | Sequence[PathLike], target: str = "y", **options: Any) -> Stream:
        """The stream."""
        return stream_npz(path, y=target, **options)
