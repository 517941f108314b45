"""Finding and opening data files."""

import gzip
import lzma
import os
import zlib
from contextlib import contextmanager
from pathlib import Path

from omkl.exceptions import DataFileError


def data_home():
    """Where public data sets are looked for: ``$OMKL_DATA``, else the folder that the data scripts fill."""
    return Path(os.environ["OMKL_DATA"]) if os.environ.get("OMKL_DATA") else user_cache()


def user_cache():
    """The folder ``omkl`` in the user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(cache) / "omkl"


def find(relative, how_to_get):
    """Path of a file below :func:`data_home`; if it is missing, the error says how to get it."""
    path = data_home() / relative
    if not path.exists():
        raise DataFileError(f"There is no {path}: {how_to_get}")
    return path


OPENERS = {".gz": gzip.open, ".xz": lzma.open}


def open_text(path):
    """Open a text file for reading, plain or compressed (``.gz``, ``.xz``), as UTF-8.

    Raises
    ------
    omkl.exceptions.DataFileError
        If the file is missing, or while it is read, cut short, damaged or not text.
    """
    return _opened(path, "rt", encoding="utf-8-sig", newline=None)


def open_bytes(path):
    """Open a file for reading, plain or compressed (``.gz``, ``.xz``), as bytes; raises as :func:`open_text` does."""
    return _opened(path, "rb")


@contextmanager
def _opened(path, mode, **options):
    path = Path(path)
    try:
        with OPENERS.get(path.suffix, open)(path, mode, **options) as file:
            yield file
    except FileNotFoundError:
        raise DataFileError(f"There is no file {path}.") from None
    except (EOFError, zlib.error, gzip.BadGzipFile, lzma.LZMAError):
        raise DataFileError(f"{path} is cut short or damaged: get it again.") from None
    except UnicodeDecodeError:
        raise DataFileError(f"{path} is not UTF-8 text.") from None
    except OSError as error:
        raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from None


def stem(path):
    """Name of a file without the suffix of its compression: ``train.conllu`` for ``train.conllu.gz``."""
    path = Path(path)
    return path.stem if path.suffix in (".gz", ".xz") else path.name
