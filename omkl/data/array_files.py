"""Streams of numpy's files, ``.npy`` and ``.npz``."""

from __future__ import annotations

import errno
import lzma
import math
import os
import struct
import sys
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from omkl.data.file_streams import StreamFormat, stream_files
from omkl.data.files import PathLike, check_local, check_no_pipe, find_files
from omkl.data.rows import Block
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.exceptions import DamagedFileError, DataFileError, InputError, TruncatedFileError


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
    check_no_pipe(path, "an array is mapped into memory")
    check_local(path, "an array is mapped into memory")
    with _opened(path), open(path, "rb") as file:
        shape, in_columns, dtype = _header(file, path, "the array")
        _check_rows(shape, dtype, path, "the array")
        n_bytes, there = file.tell() + _n_bytes(shape, dtype), os.fstat(file.fileno()).st_size
        if n_bytes > there:
            raise TruncatedFileError(f"{path} is cut short: its array needs {n_bytes} bytes, and there are {there}.")
        return np.memmap(file, dtype, "r", file.tell(), shape, "F" if in_columns else "C")


@contextmanager
def _opened(path):
    """What the system says of a file, as an error that names it."""
    try:
        yield
    except (FileNotFoundError, IsADirectoryError):
        raise DataFileError(f"There is no file {path}.") from None
    except OSError as error:
        if error.errno == errno.EINVAL:  # a place before the file begins
            raise DamagedFileError(f"{path} is damaged: get it again.") from None
        raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from None


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
    check_no_pipe(path, "an archive has a directory at its end")
    check_local(path, "an archive is read here and there")
    try:
        with _opened(path), open(path, "rb") as file, zipfile.ZipFile(file) as archive:
            _check_directory(archive, file)
            yield archive
    except EOFError:
        raise TruncatedFileError(f"{path} is cut short: get it again.") from None
    except (zipfile.BadZipFile, zlib.error, *_OF_ZIP) as error:
        if isinstance(error, InputError):
            raise
        raise DamagedFileError(f"{path} is damaged, cut short, or no .npz file: get it again.") from None


#: What zipfile raises besides where bytes are not what they should be.
_OF_ZIP = (
    ValueError,
    KeyError,
    IndexError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    lzma.LZMAError,
)
#: What a zip file ends with: its mark, two numbers of disks, how many members there are on this one and in all, size
#: and place of the directory, and the length of the comment that follows.
END = struct.Struct("<4s4H2LH")


def _check_directory(archive, file):
    """Raise where the directory lacks a member: an array that is left out must not look like one that never was."""
    for info in archive.infolist():
        archive.open(info).close()  # compares the names in the directory and beside the data
    file.seek(-END.size - len(archive.comment), os.SEEK_END)
    n_members = END.unpack(file.read(END.size))[4]
    if n_members not in (len(archive.infolist()), 0xFFFF):  # more of them are counted elsewhere
        raise zipfile.BadZipFile


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
            shape, in_columns, dtype = _header(file, path, repr(name))
            _check_rows(shape, dtype, path, repr(name))
            if in_columns and len(shape) > 1:
                raise DataFileError(f"{path}: {name!r} is stored by columns: save it with np.ascontiguousarray.")
            if info.file_size - file.tell() != _n_bytes(shape, dtype):
                raise DamagedFileError(f"{path}: {name!r} has not as many bytes as its shape needs: get it again.")
            yield cls(file, shape, dtype)

    def rows(self, low, high):
        """Rows ``low`` to ``high - 1``, which follow those that came before."""
        shape = (min(high, self.shape[0]) - low, *self.shape[1:])
        try:
            array = np.empty(shape, self.dtype)
        except MemoryError:  # the size is what the archive says
            raise DamagedFileError("A block of the rows that are promised does not fit into memory.") from None
        buffer = array.reshape(-1).view(np.uint8)
        done = 0
        while done < len(buffer):
            done += (n := self._file.readinto(buffer[done:]))
            if n == 0:
                raise EOFError
        if high >= self.shape[0]:
            self._file.read(1)  # compares the checksum
        return array


def _header(file, path, name):
    """Shape, whether columns come first, and type of the array that begins in a file."""
    try:
        version = np.lib.format.read_magic(file)
        read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}[version[0]]
        with warnings.catch_warnings():  # of files written by Python 2
            warnings.simplefilter("ignore")
            return read(file)
    except (OSError, zipfile.BadZipFile, zlib.error):
        raise
    except Exception:  # numpy has Python read the header, which raises as Python does
        raise DamagedFileError(f"{path}: {name} does not begin as an array does: get it again.") from None


def _n_bytes(shape, dtype):
    return dtype.itemsize * math.prod(shape)


def _check_rows(shape, dtype, path, name):
    """Raise where an array cannot hold examples."""
    if dtype.kind not in "biufSU" or not shape:
        raise DataFileError(f"{path}: {name} is not an array of numbers or strings in rows.")
    if min(shape) < 0:
        raise DamagedFileError(f"{path}: {name} has a negative number of rows or columns: get it again.")
    if dtype.itemsize * math.prod(max(n, 1) for n in shape) > sys.maxsize:  # also of arrays without rows
        raise DamagedFileError(f"{path}: {name} has a shape that no array can have: get it again.")
    if shape[0] and not _n_bytes(shape, dtype):
        raise DataFileError(f"{path}: {name} has {shape[0]} rows with nothing in them: leave them out.")


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
