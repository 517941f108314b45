"""Exceptions and warnings of omkl. Every error that omkl raises on purpose derives from :class:`OmklError`."""

import re
from typing import TYPE_CHECKING, Any

#: Characters of a long message that are shown, at its beginning and at its end.
SHOWN = 600, 300


class OmklError(Exception):
    """Base of all errors that omkl raises itself. The message is one line of bounded length."""

    def __str__(self) -> str:
        return _shown(super().__str__())


def _shown(text: str) -> str:
    """Return a message as one line of bounded length that can be encoded."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).encode("utf-8", "backslashreplace").decode()
    first, last = SHOWN
    return text if len(text) <= first + last else f"{text[:first]} ... {text[-last:]}"


class InputError(OmklError, ValueError):
    """An argument, or the content of an array, is not what the documentation asks for."""


class DataFileError(InputError):
    """A data file is missing or malformed. The message names the file and, if there is one, the line."""


class DamagedFileError(DataFileError):
    """The bytes of a file differ from those that were written."""


class TruncatedFileError(DamagedFileError):
    """A file ends too early."""


class DataWarning(UserWarning):
    """Part of the data was left out, or does not suit the defaults."""


class MemoryWarning(UserWarning):
    """Something does not fit into memory, and a slower way is taken."""


class CompilationWarning(UserWarning):
    """Compiled loops cannot be cached on disk: every process compiles them anew, which takes seconds."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read. Training goes on, or starts from the one before."""


class ModelFileError(InputError):
    """A model file is damaged, of another kind, or needs something that this version does not have."""


class OutputFileError(InputError, OSError):
    """A file cannot be written, and has not changed. ``errno`` and ``filename`` are those of an OSError."""

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
    """Make ``NotFittedError``, which derives from scikit-learn's, when it is first used: scikit-learn loads slowly."""
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn import exceptions

    about = "A method needs an estimator that has been fitted."
    made = type(name, (InputError, exceptions.NotFittedError), {"__module__": __name__, "__doc__": about})
    return globals().setdefault(name, made)
