"""Exceptions and warnings of omkl. All exceptions derive from :class:`OmklError`."""

import re
from typing import TYPE_CHECKING, Any

#: Number of characters of a long message to keep at its beginning.
BEGINNING = 600
#: Number of characters of a long message to keep at its end.
END = 300


class OmklError(Exception):
    """Base class of all exceptions of omkl. The message is one line of bounded length."""

    def __str__(self) -> str:
        return _shown(super().__str__())


def _shown(text: str) -> str:
    """Format a message as one line of bounded length that can be encoded."""
    line = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)
    line = line.encode("utf-8", "backslashreplace").decode()
    if len(line) <= BEGINNING + END:
        return line
    return f"{line[:BEGINNING]} ... {line[-END:]}"


class InputError(OmklError, ValueError):
    """An argument, or the content of an array, is invalid."""


class DataFileError(InputError):
    """A data file is missing or malformed.

    The message names the file and, if there is one, the line.
    """


class DamagedFileError(DataFileError):
    """A file is damaged."""


class TruncatedFileError(DamagedFileError):
    """A file ends too early."""


class DataWarning(UserWarning):
    """Part of the data was left out, or the data does not suit the settings."""


class MemoryWarning(UserWarning):
    """Data does not fit into memory, so a slower method is used."""


class CompilationWarning(UserWarning):
    """Compiled loops cannot be cached on disk.

    Every process recompiles them, which takes seconds.
    """


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read.

    Training continues, or starts from the previous checkpoint.
    """


class ModelFileError(InputError):
    """A model file cannot be used.

    It is missing, damaged, of another version, or requires a part that is not available.
    """


class OutputFileError(InputError, OSError):
    """A file cannot be written, and was not changed.

    ``errno`` and ``filename`` are those of an OSError.
    """

    def __str__(self) -> str:
        return _shown(str(self.args[0]))


class MissingDependencyError(OmklError, ImportError):
    """An optional dependency is not installed. The message names the extra to install."""


class DistributionError(OmklError):
    """A cluster cannot be reached, or has lost its workers."""


class DivergenceError(OmklError):
    """Parameters are no longer finite. The message names the round and a remedy."""


if TYPE_CHECKING:

    class NotFittedError(InputError):
        """A method needs an estimator that has been fitted."""


def __getattr__(name: str) -> Any:
    """Define ``NotFittedError`` lazily, as the import of its base in scikit-learn is slow."""
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn import exceptions

    attributes = {
        "__module__": __name__,
        "__doc__": "A method needs an estimator that has been fitted.",
    }
    error_class = type(name, (InputError, exceptions.NotFittedError), attributes)
    return globals().setdefault(name, error_class)
