"""Progress: a bar on a terminal; elsewhere, as in the log of a job, a line now and then."""

import sys
from typing import Any

from tqdm import tqdm

#: Seconds between two lines, and before the first.
PAUSE = 30.0


def progress_bar(shown: bool, **options: Any) -> tqdm:
    """What counts steps on standard error, and goes when it is closed.

    Parameters
    ----------
    shown : bool
        Whether to show anything.
    **options
        As of ``tqdm``: ``total``, ``initial``, ``unit``.
    """
    if not shown or sys.stderr is None:
        return tqdm(disable=True, **options)
    if sys.stderr.isatty():
        return tqdm(delay=1, leave=False, **options)
    # at a position other than the first, nothing is written when it ends
    return _Lines(mininterval=PAUSE, delay=PAUSE, miniters=1, leave=False, ncols=0, position=1, **options)


class _Lines(tqdm):
    """Whole lines, without what moves a cursor."""

    def clear(self, nolock: bool = False) -> None:
        """Nothing is to be cleared for what others write."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line, if it is time; what others write asks for one as well."""
        if msg is None and self._time() - self.last_print_t >= self.mininterval:
            print(str(self).strip(), file=sys.stderr, flush=True)
