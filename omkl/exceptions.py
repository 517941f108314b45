"""Everything omkl raises on purpose derives from :class:`OmklError`, and says what, where, and what to do."""

import re
from typing import TYPE_CHECKING, Any

#: Characters of a message that are shown: of a longer one, which quotes what was given, these at its begin and end.
SHOWN = 600, 300


class OmklError(Exception):
    """Base of all errors that omkl raises itself; the message is one line, whatever it quotes."""

    def __str__(self) -> str:
        return _shown(super().__str__())


def _shown(text: str) -> str:
    """A message as one line of bounded length that can be encoded."""
    text = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).encode("utf-8", "backslashreplace").decode()
    first, last = SHOWN
    return text if len(text) <= first + last else f"{text[:first]} ... {text[-last:]}"


class InputError(OmklError, ValueError):
    """An argument, or the content of an array, is not what the documentation asks for."""


class DataFileError(InputError):
    """A data file is missing, cut short or malformed; the message names the file and, where there is one, the line."""


class DamagedFileError(DataFileError):
    """The bytes of a file are not those that were once written."""


class TruncatedFileError(DamagedFileError):
    """A file ends too early; what is there is fine."""


class DataWarning(UserWarning):
    """Something in the data was left out, as it was asked for, or is not what defaults suit; the message says what."""


class MemoryWarning(UserWarning):
    """Something does not fit into memory, and is done in a slower way that needs less."""


class CompilationWarning(UserWarning):
    """Compiled loops cannot be kept on disk: every process compiles them anew, which takes seconds."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written or read; training goes on, or from the one before."""


class ModelFileError(InputError):
    """A model file is not one, or is damaged, or needs something that this version does not have."""


class OutputFileError(InputError, OSError):
    """A file cannot be written: what was there before is as it was. ``errno`` and ``filename`` are as of an OSError."""

    def __str__(self) -> str:
        return _shown(str(self.args[0]))


class MissingDependencyError(OmklError, ImportError):
    """An optional dependency is needed and not installed; the message names the extra to install."""


class DistributionError(OmklError):
    """A cluster cannot be reached, or has lost its workers."""


class DivergenceError(OmklError):
    """Training has left the finite numbers: the message names the round, and what to change."""


if TYPE_CHECKING:

    class NotFittedError(InputError):
        """A method was called that needs an estimator which has been fitted; scikit-learn's error of this name, too."""


def __getattr__(name: str) -> Any:
    """``NotFittedError``, made when it is first asked for: scikit-learn is not loaded to have the others."""
    if name != "NotFittedError":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sklearn import exceptions

    about = "A method was called that needs an estimator which has been fitted; scikit-learn's error of this name, too."
    made = type(name, (InputError, exceptions.NotFittedError), {"__module__": __name__, "__doc__": about})
    return globals().setdefault(name, made)
