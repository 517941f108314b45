"""Files that are elsewhere: what a URL names, read through fsspec."""

import errno
import io
import os
from pathlib import PurePosixPath
from typing import Any, ClassVar
from urllib.parse import urlsplit

from omkl.exceptions import DataFileError, InputError, MissingDependencyError


class Url(os.PathLike):
    """A file that a URL names, with what readers ask of a path.

    >>> url = Url("s3://bucket/year=2024/part.csv.gz?version=3")
    >>> url.name, url.suffix, str(url.parent)
    ('part.csv.gz', '.gz', 'bucket/year=2024')
    """

    def __init__(self, url: str) -> None:
        self._url = url
        parts = urlsplit(url)
        path = PurePosixPath(parts.netloc + parts.path)  # in some systems files have no host
        self.name, self.suffix, self.stem, self.parent = path.name, path.suffix, path.stem, path.parent

    def __str__(self) -> str:
        return self._url

    __repr__ = __fspath__ = __str__

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Url) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)


def is_url(path: Any) -> bool:
    """Whether a string or path names a file by a URL."""
    return isinstance(path, Url) or (isinstance(path, str) and "://" in path and not os.path.exists(path))


def expand_url(url: str) -> list[Url]:
    """The files that a URL stands for: itself, those that fit a pattern, or those in a directory of a store."""
    system, path = _system(url)
    is_page = url.startswith(("http://", "https://"))
    try:
        if "*" in path:
            found = [name for name in system.glob(path) if system.isfile(name)]
        elif is_page or not system.isdir(path):
            return [Url(url)]
        else:
            found = [name for name in system.find(path) if _is_of_table(_below(name, path))]
    except Exception as error:  # each of the systems has its own
        raise InputError(f"{url} cannot be listed: {_said(error)}.") from None
    if not found:
        raise DataFileError(f"There is no file {url}.")
    return [Url(system.unstrip_protocol(name)) for name in sorted(found)]


def open_url(url: Url) -> io.BufferedReader:
    """The bytes of a file that is elsewhere; what goes wrong is an OSError."""
    system, path = _system(str(url))
    try:
        return io.BufferedReader(_Remote(system.open(path, "rb")), 1 << 18)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise OSError(errno.EIO, _said(error)) from None


def _below(name: str, path: str) -> tuple[str, ...]:
    return PurePosixPath(name.removeprefix(path).lstrip("/")).parts


def _is_of_table(parts: tuple[str, ...]) -> bool:
    """Whether a file below a directory is read with it: see :func:`~omkl.data.files.find_files`."""
    return all(part[0] not in "._" for part in parts) and all("=" in part for part in parts[:-1])


def _said(error: Exception) -> str:
    return (str(error).split("\n")[0][:200] or type(error).__name__).rstrip(".")


def _system(url: str) -> tuple[Any, str]:
    """The file system of fsspec that a URL is of, and the path there."""
    try:
        import fsspec
    except ImportError:
        raise MissingDependencyError(
            f"{url} is a URL, which needs fsspec: install it with 'pip install omkl[remote]'."
        ) from None
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingDependencyError(f"{url} needs another package: {_said(error)}.") from None
    except Exception as error:
        raise InputError(f"{url} is no URL that fsspec knows: {_said(error)}.") from None


class _Remote(io.RawIOBase):
    """A file of fsspec whose errors, of whatever kind, are those of a file."""

    _as_they_are: ClassVar = (OSError, EOFError)

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def readinto(self, buffer: Any) -> int:
        try:
            got = self._file.read(len(buffer))
        except self._as_they_are:
            raise
        except Exception as error:
            raise OSError(errno.EIO, _said(error)) from None
        buffer[: len(got)] = got
        return len(got)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
