"""Finding and opening data files."""

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
from itertools import chain
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from omkl._files import replacing
from omkl.data.urls import Url, expand_url, is_url, open_url
from omkl.exceptions import DamagedFileError, DataFileError, InputError, TruncatedFileError


def data_home() -> Path:
    """Where public data sets are looked for: ``$OMKL_DATA``, else the folder that the data scripts fill."""
    return Path(os.environ["OMKL_DATA"]) if os.environ.get("OMKL_DATA") else user_cache()


def user_cache() -> Path:
    """The folder ``omkl`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(cache) / "omkl"


def find(relative: str, how_to_get: str) -> Path:
    """Path of a file below :func:`data_home`; if it is missing, the error says how to get it."""
    path = data_home() / relative
    if not path.exists():
        raise DataFileError(f"There is no {path}: {how_to_get}")
    return path


OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
#: What names a file.
PathLike = str | os.PathLike
#: How the name of a directory says that a value is missing.
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
#: Bytes that are read at a time.
CHUNK = 1 << 18
#: A text without a line end, or whatever else it is cut at, in so many bytes is none.
LARGEST_PIECE = 1 << 27


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
            source = stack.enter_context(open_url(path)) if isinstance(path, Url) else path
            if path.suffix in OPENERS or isinstance(source, Path):
                source = stack.enter_context(OPENERS.get(path.suffix, open)(source, "rb"))
            yield source
    except FileNotFoundError:
        raise DataFileError(f"There is no file {path}.") from None
    except EOFError:
        raise TruncatedFileError(f"{path} is cut short or damaged: get it again.") from None
    except (zlib.error, gzip.BadGzipFile, lzma.LZMAError):
        raise DamagedFileError(f"{path} is cut short or damaged: get it again.") from None
    except OSError as error:
        if error.errno is None:  # the decompressor's, not the system's
            raise DamagedFileError(f"{path} is cut short or damaged: get it again.") from None
        raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from None


@contextmanager
def output_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Open a file to write bytes to, which takes its place when all is written, or not at all.

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
        if path.suffix == ".gz":  # neither name nor time
            file = stack.enter_context(gzip.GzipFile("", "wb", compresslevel=6, fileobj=file, mtime=0))
        elif path.suffix in OPENERS:
            file = stack.enter_context(OPENERS[path.suffix](file, "wb"))
        yield file


def is_pipe(path: PathLike) -> bool:
    """Whether a path is a pipe, a socket or a terminal: what is read from it does not come again."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISBLK(mode))


def check_no_pipe(path: PathLike, what: str) -> None:
    """Raise where a file that is read here and there, as ``what`` says, is a pipe."""
    if is_pipe(path):
        raise DataFileError(f"{path} is a pipe, which can be read only once and from the start, but {what}: write it "
                            "into a file.")  # fmt: skip


def check_local(path: PathLike, what: str) -> None:
    """Raise where a file is a URL, but must be on this machine, as ``what`` says."""
    if isinstance(path, Url):
        raise DataFileError(f"{path} is a URL, but {what}: get the file, and give its path.")


def stem(path: PathLike) -> str:
    """Name of a file without the suffix of its compression: ``train.conllu`` for ``train.conllu.gz``."""
    path = Path(path)
    return path.stem if path.suffix in OPENERS else path.name


def find_files(path: PathLike | Sequence[PathLike]) -> list[Path]:
    """The files that a path, a list of paths, a directory or a pattern stands for.

    Parameters
    ----------
    path : path-like or list of path-like
        A directory stands for the files in it, and in directories below it whose names are like ``year=2024``, but for
        those whose names begin with ``.`` or ``_``, and a pattern (``data/part-*.csv``) for those that fit; both in the
        order of their names. A URL (``"s3://bucket/sales/*.parquet"``) names a file that fsspec reads.

    Returns
    -------
    list of Path
        Or, of URLs, of what stands for them: :class:`~omkl.data.urls.Url`.

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
        if not os.fspath(path):  # which Path takes for the present directory
            raise DataFileError("The name of a file is empty: give one.")
        files += expand_url(str(path)) if is_url(path) else _expanded(Path(path))
    return files


def _expanded(path):
    if path.is_dir():
        files = list(_files_below(path))
        if not files:
            raise DataFileError(f"There is no file in the directory {path}.")
        return files
    if path.exists():
        return [path]
    matches = [Path(match) for match in sorted(glob.glob(str(path))) if Path(match).is_file()]
    if not matches:
        raise DataFileError(f"There is no file {path}.")
    return matches


def _files_below(directory):
    """The files in a directory, and in those below it that say what is in them: ``year=2024``."""
    for path in sorted(directory.iterdir()):
        if path.name[0] not in "._":
            if path.is_file():
                yield path
            elif "=" in path.name and path.is_dir():
                yield from _files_below(path)


def partition(path: Path, given: PathLike | Sequence[PathLike]) -> dict[str, str | None]:
    """What the directories between a file and the one that was ``given`` say: ``{"year": "2024"}`` of ``year=2024``."""
    parts = path.parent.parts if isinstance(path, Url) else _parts_below(path, given)
    pairs = (part.split("=", 1) for part in parts if "=" in part)
    return {unquote(name): None if value == HIVE_NULL else unquote(value) for name, value in pairs}


def _parts_below(path, given):
    tops = [Path(top) for top in ([given] if isinstance(given, (str, os.PathLike)) else given)]
    top = next((top for top in tops if top in path.parents), path.parent)
    return path.relative_to(top).parent.parts


def chunks(path: PathLike, size: int = CHUNK) -> Iterator[bytes]:
    """The bytes of a file, plain or compressed, up to ``size`` at a time; all there are before an error is raised."""
    with open_bytes(path) as file:
        while chunk := file.read1(size):
            yield chunk


def without_mark(chunks: Iterator[bytes]) -> tuple[Iterator[bytes], bool]:
    """The same text without the byte order mark it may begin with, and whether it did."""
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= len(codecs.BOM_UTF8):
            break
    has_mark = start.startswith(codecs.BOM_UTF8)
    return chain([start.removeprefix(codecs.BOM_UTF8)], chunks), has_mark


def pieces(chunks: Iterable[bytes], size: int, cut: Callable[[bytes], int], path: PathLike) -> Iterator[bytes]:
    """The same text, cut where it may be, in pieces of about ``size`` bytes.

    Parameters
    ----------
    chunks : iterable of bytes
    size : int
    cut : callable
        ``cut(text)`` is the place to cut a text that goes on, 0 if there is none.
    path : path-like
        What the text is called in messages.

    Yields
    ------
    bytes
        Ends where ``cut`` says, but for the last piece of a file that is whole. Of a compressed file that is cut
        short, everything comes that is whole, and then the error.
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
                raise DamagedFileError(
                    f"{path} is no text in this format: in {LARGEST_PIECE >> 20} MB of it no record ends."
                )
            wanted = n_bytes + size if end else 2 * n_bytes  # a text with no end is not looked at over and over
    except TruncatedFileError:  # of a damaged file, what came last is suspect
        text = b"".join(parts)
        if end := cut(text):
            yield text[:end]
        raise
    if n_bytes:
        yield b"".join(parts)


def text_lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Numbers, from 1, and the lines of a text file, without their ends.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, or while it is read, cut short, damaged or not text.
    """
    for number, line in enumerate(lines(path), 1):
        try:
            yield number, line.decode()
        except UnicodeDecodeError:
            raise DataFileError(f"{path}, line {number}: this is not UTF-8 text.") from None


def after_last_line(text: bytes) -> int:
    """Where the last line that is whole ends."""
    return text.rfind(b"\n") + 1


def lines(path: PathLike) -> Iterator[bytes]:
    """The lines of a text file as bytes, without their ends and without a byte order mark."""
    size = CHUNK // 4  # as Python strings, short lines take many times their bytes
    text, _ = without_mark(chunks(path, size))
    for piece in pieces(text, size, after_last_line, path):
        for line in piece.removesuffix(b"\n").split(b"\n"):
            yield line.removesuffix(b"\r")
