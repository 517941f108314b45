"""Progress on standard error: a bar on a terminal, a line now and then elsewhere."""

import sys
from typing import Any

from tqdm import tqdm

#: Seconds between two lines, and before the first.
PAUSE = 30.0


def progress_bar(shown: bool, **options: Any) -> tqdm:
    """Return a bar that counts steps and disappears when it is closed.

    Parameters
    ----------
    shown : bool
        Whether to show anything.
    **options
        Of ``tqdm``: ``total``, ``initial``, ``unit``.
    """
    if not shown or sys.stderr is None:
        return tqdm(disable=True, **options)
    if sys.stderr.isatty():
        return tqdm(delay=1, leave=False, **options)
    # tqdm writes nothing at the end of a bar whose position is not the first
    return _Lines(mininterval=PAUSE, delay=PAUSE, miniters=1, leave=False, ncols=0, position=1, **options)


class _Lines(tqdm):
    """A progress bar that writes whole lines, for logs."""

    def clear(self, nolock: bool = False) -> None:
        """Do nothing: lines stay."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line if the last one is old enough."""
        if msg is None and self._time() - self.last_print_t >= self.mininterval:
            print(str(self).strip(), file=sys.stderr, flush=True)
