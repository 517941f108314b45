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
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from omkl._files import PathLike as PathLike
from omkl._files import replacing
from omkl.exceptions import (
    DamagedFileError,
    DataFileError,
    InputError,
    MissingDependencyError,
    OmklError,
    TruncatedFileError,
)

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

#: A file on this machine, or a URL.
FileName: TypeAlias = Path | str
#: Files, directories, patterns or URLs, as given by users.
Paths: TypeAlias = PathLike | Sequence[PathLike]
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
#: Number of bytes to read at a time.
CHUNK = 1 << 18


def data_home() -> Path:
    """Return the folder of data sets: ``$OMKL_DATA``, or the default folder of the data scripts."""
    folder = os.environ.get("OMKL_DATA")
    if folder:
        return Path(folder)
    return user_cache()


def user_cache() -> Path:
    """Return the folder ``omkl`` in the user's cache folder, which the data scripts fill."""
    for variable in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        folder = os.environ.get(variable)
        if folder:
            return Path(folder) / "omkl"
    return Path.home() / ".cache" / "omkl"


# ---- names ---------------------------------------------------------------------------------------


def is_url(path: PathLike) -> bool:
    """Tell whether a path is a URL."""
    return isinstance(path, str) and "://" in path


def file_name(path: PathLike) -> str:
    """Return the last part of a path, or of a URL without its query."""
    if isinstance(path, str) and is_url(path):
        return PurePosixPath(path.partition("?")[0]).name
    return Path(path).name


def stem(path: PathLike) -> str:
    """Return the name of a file without the suffix of its compression, such as ``.gz``."""
    name = Path(file_name(path))
    if name.suffix in OPENERS:
        return name.stem
    return name.name


def is_pipe(path: PathLike) -> bool:
    """Tell whether a path is a pipe, a socket or a terminal, which can be read only once."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))


def check_no_pipe(path: PathLike) -> None:
    """Raise DataFileError for a pipe, which cannot be read twice or at arbitrary positions."""
    if is_pipe(path):
        raise DataFileError(
            f"{path} is a pipe, which can be read only once and from the start: write it to a file."
        )


def find_files(path: Paths) -> list[FileName]:
    """Find the files of a path, a list of paths, a directory, a pattern or a URL.

    A directory means all files in it and in its subdirectories with names like ``year=2024``,
    except for names that begin with ``.`` or ``_``. A pattern (``data/part-*.csv``) means the
    matching files. Both are sorted by name. URLs (``"s3://bucket/sales/*.parquet"``) are strings,
    and are read by fsspec. Raises DataFileError if there is no file.
    """
    files: list[FileName] = []
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    for source in paths or [""]:
        files_of_source: Sequence[FileName] = []
        if isinstance(source, str) and is_url(source):
            files_of_source = _remote_files(source)
        elif os.fspath(source):  # Path("") is the current directory
            files_of_source = _local_files(Path(source))
        if not files_of_source:
            name = os.fspath(source) or "to read: a path, or the list of paths, is empty"
            raise DataFileError(f"There is no file {name}.")
        files += files_of_source
    return files


def _local_files(path: Path) -> list[Path]:
    """Return the file with this path, the files of a directory, or those that match a pattern."""
    if path.is_dir():
        below = (file for file in path.rglob("*") if _is_listed(file.relative_to(path).parts))
        return sorted(file for file in below if file.is_file())
    if path.exists():
        return [path]
    return [Path(match) for match in sorted(glob.glob(str(path))) if os.path.isfile(match)]


def _remote_files(url: str) -> list[str]:
    """Return the file behind a URL, the files of a directory, or those that match a pattern."""
    system, path = _system_of(url)
    try:
        if "*" in path:
            names = [name for name in system.glob(path) if system.isfile(name)]
        elif url.startswith(("http://", "https://")) or not system.isdir(path):
            return [url]
        else:
            names = []
            for name in system.find(path):
                below = PurePosixPath(name.removeprefix(path).lstrip("/"))
                if _is_listed(below.parts):
                    names.append(name)
    except Exception as error:
        raise InputError(f"{url} cannot be listed: {_reason(error)}.") from None
    return [system.unstrip_protocol(name) for name in sorted(names)]


def _is_listed(parts: Sequence[str]) -> bool:
    """Tell whether :func:`find_files` lists a file with this relative path, given in parts."""
    return all(part[0] not in "._" for part in parts) and all("=" in part for part in parts[:-1])


def file_system(paths: Sequence[FileName]) -> tuple[AbstractFileSystem | None, list[str]]:
    """Return the fsspec file system of some files, and their absolute paths in it.

    The file system of local files is None.
    """
    if not is_url(paths[0]):
        return None, [os.path.abspath(path) for path in paths]
    system, _ = _system_of(str(paths[0]))
    return system, [_system_of(str(path))[1] for path in paths]


def _system_of(url: str) -> tuple[AbstractFileSystem, str]:
    """Return the fsspec file system of a URL, and the path in it."""
    try:
        import fsspec

        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingDependencyError(
            f"{url} needs {error.name}: install it with 'pip install omkl[remote]'."
        ) from None
    except Exception as error:  # fsspec raises errors of any class
        raise InputError(f"{url} is not a URL that fsspec knows: {_reason(error)}.") from None


def _reason(error: Exception) -> str:
    """Return the first line of an error message of another library or of the operating system."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).split("\n")[0][:200] or type(error).__name__).rstrip(".")


# ---- bytes ---------------------------------------------------------------------------------------


@contextmanager
def open_bytes(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file for reading as bytes, plain or compressed.

    Raises DataFileError if the file is missing, and during reading if it is truncated or damaged.
    """
    try:
        with ExitStack() as stack:
            source: Any = path
            opener = OPENERS.get(Path(file_name(path)).suffix, open)
            if is_url(path):
                system, key = _system_of(str(path))
                source = stack.enter_context(system.open(key, "rb"))
            if not is_url(path) or opener is not open:
                source = stack.enter_context(opener(source, "rb"))
            yield source
    except OmklError:
        raise
    except FileNotFoundError:
        raise DataFileError(f"There is no file {path}.") from None
    except Exception as error:
        is_damaged = isinstance(error, (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile))
        is_system_error = isinstance(error, OSError) and error.errno is not None
        if not is_damaged and (is_url(path) or is_system_error):
            raise DataFileError(f"{path} cannot be read: {_reason(error)}.") from None
        if is_damaged or isinstance(error, OSError):  # of bz2
            kind = TruncatedFileError if isinstance(error, EOFError) else DamagedFileError
            raise kind(f"{path} is cut short or damaged.") from None
        raise


def unreadable(path: PathLike, error: Exception, kind: str) -> DataFileError:
    """Return the error to raise if another library cannot read a file as a ``kind`` of file."""
    if isinstance(error, OSError) and error.errno is not None:
        return DataFileError(f"{path} cannot be read: {_reason(error)}.")
    return DamagedFileError(f"{path} is damaged, or no {kind}: {_reason(error)}.")


@contextmanager
def output_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file for writing bytes; it replaces an existing file only after everything is written.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; the result depends only on the bytes
        written. ``"-"`` is standard output.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    suffix = Path(path).suffix
    with ExitStack() as stack:
        file: Any = stack.enter_context(replacing(path, "wb"))
        if suffix == ".gz":  # no name and time in the header, to be reproducible
            file = stack.enter_context(
                gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0)
            )
        elif suffix in OPENERS:
            file = stack.enter_context(OPENERS[suffix](file, "wb"))
        yield file


# ---- text ----------------------------------------------------------------------------------------


def chunks(path: PathLike, size: int = CHUNK) -> Iterator[bytes]:
    """Read a text file in UTF-8, plain or compressed, ``size`` bytes at a time.

    The byte order mark is left out.
    """
    with open_bytes(path) as file:
        start = file.read(len(codecs.BOM_UTF8)).removeprefix(codecs.BOM_UTF8)
        if start:
            yield start
        # read1 yields everything before a damaged part, then raises
        read = file.read if is_url(path) else file.read1  # type: ignore[attr-defined]
        while chunk := read(size):
            yield chunk


def pieces(
    chunks: Iterable[bytes], size: int, cut: Callable[[bytes | bytearray], int]
) -> Iterator[bytes]:
    """Cut a text into pieces of about ``size`` bytes at the ends of records.

    ``cut(text)`` is the end of the last complete record, 0 if there is none. If a compressed file
    is truncated, all complete records are yielded before the error is raised.
    """
    text = bytearray()
    length_to_cut = size
    try:
        for chunk in chunks:
            text += chunk
            if len(text) < length_to_cut:
                continue
            end = cut(text)
            piece = bytes(text[:end])
            del text[:end]
            if end:
                yield piece
                length_to_cut = len(text) + size
            else:
                # do not search a long record for every chunk
                length_to_cut = 2 * len(text)
    except TruncatedFileError:  # after other damage, the last bytes may be wrong
        end = cut(text)
        if end:
            yield bytes(text[:end])
        raise
    if text:
        yield bytes(text)


def after_last_line(text: bytes | bytearray) -> int:
    """Return the end of the last complete line."""
    return text.rfind(b"\n") + 1


def lines(path: PathLike) -> Iterator[bytes]:
    """Read the lines of a text file as bytes, without line ends and byte order mark.

    Parameters
    ----------
    path : path-like
        Plain or compressed (``.gz``, ``.xz``, ``.bz2``).

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, and during reading if it is truncated or damaged.
    """
    # small pieces: short lines take much more memory as Python objects
    for piece in pieces(chunks(path, CHUNK // 4), CHUNK // 4, after_last_line):
        for line in piece.removesuffix(b"\n").split(b"\n"):
            yield line.removesuffix(b"\r")


def text_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Yield the lines of a UTF-8 file with their numbers, from 1; see :func:`lines`."""
    for number, line in enumerate(lines(path), 1):
        try:
            yield number, line.decode()
        except UnicodeDecodeError:
            raise DataFileError(f"{path}, line {number}: this is not UTF-8 text.") from None


def text_pieces(path: PathLike) -> Iterator[str]:
    """Read a UTF-8 file in pieces; see :func:`chunks`."""
    try:
        yield from codecs.iterdecode(chunks(path), "utf-8")
    except UnicodeDecodeError as error:
        raise DataFileError(f"{path} is not UTF-8 text: {error.reason}.") from None
