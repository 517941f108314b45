"""Counting the records that ``on_error="skip"`` leaves out."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

from omkl.exceptions import DataFileError, DataWarning, InputError

#: Reasons that are kept when records are skipped.
N_REASONS = 10


@dataclass
class Skipped:
    """How many records were skipped so far, and why the first of them; or that none may be."""

    count: int = 0
    reasons: list = field(default_factory=list)
    on_error: str = "skip"

    def __post_init__(self) -> None:
        check_on_error(self.on_error)

    def refuse(self, reason: str) -> None:
        """A record cannot be read: raise, or count it.

        Parameters
        ----------
        reason : str
            File, line and what is wrong.
        """
        if self.on_error == "raise":
            raise DataFileError(reason)
        self.note(1, [reason])

    def note(self, count: int, reasons: Sequence[str]) -> None:
        self.count += count
        self.reasons += reasons[: max(0, N_REASONS - len(self.reasons))]

    def clear(self) -> None:
        self.count, self.reasons = 0, []

    def warn(self, what: str, stacklevel: int) -> None:
        """Warn once if something was skipped; ``what`` is what one such thing is called."""
        if self.count:
            things = f"{self.count} {what}{'s were' if self.count > 1 else ' was'} skipped, the first at"
            warnings.warn(f"{things} {self.reasons[0]}", DataWarning, stacklevel=stacklevel + 1)


def check_on_error(on_error: str) -> None:
    if on_error not in ("raise", "skip"):
        raise InputError(f"on_error is 'raise' or 'skip', not {on_error!r}.")
