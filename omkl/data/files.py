"""Finding, opening and reading files, plain or compressed, on this machine or behind a URL."""

from __future__ import annotations

import bz2
import codecs
import glob
import gzip
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from omkl._files import replacing
from omkl.exceptions import (
    DamagedFileError,
    DataFileError,
    InputError,
    MissingDependencyError,
    OmklError,
    TruncatedFileError,
)

#: Names of files.
PathLike = str | os.PathLike
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
#: Bytes that are read at a time.
CHUNK = 1 << 18
#: A file in which so many bytes follow each other without the end of a record is damaged.
LARGEST_PIECE = 1 << 27


def data_home() -> Path:
    """Folder of public data sets: ``$OMKL_DATA``, or the folder that the data scripts fill."""
    return Path(os.environ["OMKL_DATA"]) if os.environ.get("OMKL_DATA") else user_cache()


def user_cache() -> Path:
    """The folder ``omkl`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(cache) / "omkl"


class Url(os.PathLike):
    """A URL with the attributes of a path.

    >>> url = Url("s3://bucket/year=2024/part.csv.gz?version=3")
    >>> url.name, url.suffix
    ('part.csv.gz', '.gz')
    """

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        path = PurePosixPath(parts.netloc + parts.path)
        self.name, self.suffix, self.stem = path.name, path.suffix, path.stem

    def __str__(self) -> str:
        return self._url

    __repr__ = __fspath__ = __str__

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Url) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)


def is_url(path: Any) -> bool:
    """Tell whether a string or path is a URL."""
    return isinstance(path, Url) or (isinstance(path, str) and "://" in path and not os.path.exists(path))


def file_system(paths: Sequence[PathLike]) -> tuple[Any, list[str]]:
    """The file system of fsspec that holds some files, None for local ones, and their absolute paths there."""
    if not isinstance(paths[0], Url):
        return None, [os.path.abspath(path) for path in paths]
    found = [_system(str(path)) for path in paths]
    return found[0][0], [path for _, path in found]


def _system(url: str) -> tuple[Any, str]:
    """The file system of fsspec for a URL, and the path there."""
    try:
        import fsspec
    except ImportError:
        raise MissingDependencyError(f"{url} needs fsspec: install it with 'pip install omkl[remote]'.") from None
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingDependencyError(f"{url} needs another package: {_reason(error)}.") from None
    except Exception as error:  # of any class, as all errors of fsspec
        raise InputError(f"{url} is no URL that fsspec knows: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    return (str(error).split("\n")[0][:200] or type(error).__name__).rstrip(".")


@contextmanager
def open_bytes(path: PathLike) -> Iterator[Any]:
    """Open a file for reading as bytes, plain or compressed (``.gz``, ``.xz``, ``.bz2``).

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, or while it is read, cut short or damaged.
    """
    path = path if isinstance(path, Url) else Path(path)
    try:
        with ExitStack() as stack:
            source: Any = path
            if isinstance(path, Url):
                system, key = _system(str(path))
                source = stack.enter_context(system.open(key, "rb"))
            if path.suffix in OPENERS or not isinstance(path, Url):
                source = stack.enter_context(OPENERS.get(path.suffix, open)(source, "rb"))
            yield source
    except OmklError:
        raise
    except FileNotFoundError:
        raise DataFileError(f"There is no file {path}.") from None
    except EOFError:
        raise TruncatedFileError(f"{path} is cut short or damaged.") from None
    except (zlib.error, gzip.BadGzipFile, lzma.LZMAError):
        raise DamagedFileError(f"{path} is cut short or damaged.") from None
    except OSError as error:
        if error.errno is None and not isinstance(path, Url):  # of a decompressor, not of the system
            raise DamagedFileError(f"{path} is cut short or damaged.") from None
        raise DataFileError(f"{path} cannot be read: {error.strerror or _reason(error)}.") from None
    except Exception as error:
        if not isinstance(path, Url):
            raise
        raise DataFileError(f"{path} cannot be read: {_reason(error)}.") from None


@contextmanager
def output_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file for writing bytes; it replaces the previous file when all is written.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; the same bytes give the same file. ``"-"`` is standard
        output.

    Raises
    ------
    omkl.exceptions.OutputFileError
        If it cannot be written.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(path)
    with ExitStack() as stack:
        file: Any = stack.enter_context(replacing(path, "wb"))
        if path.suffix == ".gz":  # without name and time
            file = stack.enter_context(gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0))
        elif path.suffix in OPENERS:
            file = stack.enter_context(OPENERS[path.suffix](file, "wb"))
        yield file


def is_pipe(path: PathLike) -> bool:
    """Tell whether a path is a pipe, a socket or a terminal, which can be read only once."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))


def check_no_pipe(path: PathLike) -> None:
    """Raise if a file that is read several times, or not from its start, is a pipe."""
    if is_pipe(path):
        raise DataFileError(f"{path} is a pipe, which can be read only once and from the start: write it to a file.")


def stem(path: PathLike) -> str:
    """Name of a file without the suffix of its compression: ``train.conllu`` for ``train.conllu.gz``."""
    path = Path(path)
    return path.stem if path.suffix in OPENERS else path.name


def find_files(path: PathLike | Sequence[PathLike]) -> list[Path]:
    """Find the files of a path, a list of paths, a directory or a pattern.

    Parameters
    ----------
    path : path-like or list of path-like
        A directory stands for the files in it, and in directories below it with names like ``year=2024``, except for
        names that begin with ``.`` or ``_``; a pattern (``data/part-*.csv``) for the files that match; both in the
        order of their names. A URL (``"s3://bucket/sales/*.parquet"``) is read by fsspec.

    Returns
    -------
    list of Path
        Or of :class:`Url`.

    Raises
    ------
    omkl.exceptions.DataFileError
        If one of them is missing, or there is none.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not paths:
        raise InputError("There is no file to read: the list of paths is empty.")
    files: list[Any] = []
    for path in paths:
        if not os.fspath(path):  # Path("") is the present directory
            raise DataFileError("The name of a file is empty.")
        found = _remote_files(str(path)) if is_url(path) else _local_files(Path(path))
        if not found:
            raise DataFileError(f"There is no file {path}.")
        files += found
    return files


def _local_files(path: Path) -> list[Path]:
    if path.is_dir():
        return list(_files_below(path))
    if path.exists():
        return [path]
    return [Path(match) for match in sorted(glob.glob(str(path))) if Path(match).is_file()]


def _files_below(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.name[0] not in "._":
            if path.is_file():
                yield path
            elif "=" in path.name and path.is_dir():
                yield from _files_below(path)


def _remote_files(url: str) -> list[Url]:
    system, path = _system(url)
    try:
        if "*" in path:
            found = [name for name in system.glob(path) if system.isfile(name)]
        elif url.startswith(("http://", "https://")) or not system.isdir(path):
            return [Url(url)]
        else:
            found = [name for name in system.find(path) if _is_listed(name.removeprefix(path))]
    except Exception as error:
        raise InputError(f"{url} cannot be listed: {_reason(error)}.") from None
    return [Url(system.unstrip_protocol(name)) for name in sorted(found)]


def _is_listed(name: str) -> bool:
    """Tell whether a file below a directory belongs to it: see :func:`find_files`."""
    *directories, _ = parts = PurePosixPath(name.lstrip("/")).parts
    return all(part[0] not in "._" for part in parts) and all("=" in part for part in directories)


def chunks(path: PathLike, size: int = CHUNK) -> Iterator[bytes]:
    """Read a text file in UTF-8, plain or compressed, without its byte order mark.

    Parameters
    ----------
    path : path-like
    size : int

    Yields
    ------
    bytes
        At most ``size`` at a time; all that can be read come before an error is raised.
    """
    with open_bytes(path) as file:
        if start := file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8):
            yield start
        read = getattr(file, "read1", file.read)
        while chunk := read(size):
            yield chunk


def pieces(chunks: Iterable[bytes], size: int, cut: Callable[[bytes], int], path: PathLike) -> Iterator[bytes]:
    """Cut a text into pieces of about ``size`` bytes at the ends of records.

    Parameters
    ----------
    chunks : iterable of bytes
    size : int
    cut : callable
        ``cut(text)`` is the end of the last whole record, 0 if there is none.
    path : path-like
        Name of the text in messages.

    Yields
    ------
    bytes
        If a compressed file is cut short, all whole records come before the error.
    """
    parts, n_bytes, wanted = [], 0, size
    try:
        for chunk in chunks:
            parts.append(chunk)
            n_bytes += len(chunk)
            if n_bytes < wanted:
                continue
            text = b"".join(parts)
            end = cut(text)
            piece, parts, n_bytes, text = text[:end], [text[end:]], len(text) - end, b""
            if end:
                yield piece
            if n_bytes > LARGEST_PIECE:
                raise DamagedFileError(f"{path}: no record ends in {LARGEST_PIECE >> 20} MB.")
            wanted = n_bytes + size if end else 2 * n_bytes  # not to look at a long text again and again
    except TruncatedFileError:  # after other damage, the last bytes may be wrong
        text = b"".join(parts)
        if end := cut(text):
            yield text[:end]
        raise
    if n_bytes:
        yield b"".join(parts)


def after_last_line(text: bytes) -> int:
    """End of the last whole line."""
    return text.rfind(b"\n") + 1


def lines(path: PathLike) -> Iterator[bytes]:
    """Read the lines of a text file as bytes, without their ends and without a byte order mark.

    Parameters
    ----------
    path : path-like
        Plain or compressed (``.gz``, ``.xz``, ``.bz2``).

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, or while it is read, cut short or damaged.
    """
    size = CHUNK // 4  # short lines take many times their bytes as Python objects
    for piece in pieces(chunks(path, size), size, after_last_line, path):
        for line in piece.removesuffix(b"\n").split(b"\n"):
            yield line.removesuffix(b"\r")


def text_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers, from 1; see :func:`lines`."""
    for number, line in enumerate(lines(path), 1):
        try:
            yield number, line.decode()
        except UnicodeDecodeError:
            raise DataFileError(f"{path}, line {number}: this is not UTF-8 text.") from None
