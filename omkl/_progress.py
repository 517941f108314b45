"""Progress on standard error: a bar on a terminal, otherwise occasional lines."""

import sys
from typing import Any

from tqdm import tqdm

#: Seconds between lines, and before the first line.
PAUSE = 30.0


def progress_bar(shown: bool, **options: Any) -> tqdm:
    """Return a progress bar that disappears when it is closed.

    Parameters
    ----------
    shown : bool
        Whether to show anything.
    **options
        Options of ``tqdm``: ``total``, ``initial``, ``unit``.
    """
    if not shown or sys.stderr is None:
        return tqdm(disable=True, **options)
    if sys.stderr.isatty():
        return tqdm(delay=1, leave=False, **options)
    # tqdm writes nothing when a bar at another position than the first is closed
    return _Lines(
        mininterval=PAUSE, delay=PAUSE, miniters=1, leave=False, ncols=0, position=1, **options
    )


class _Lines(tqdm):
    """Progress bar for logs, which writes whole lines."""

    def clear(self, nolock: bool = False) -> None:
        """Do nothing, because lines cannot be cleared."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line if enough time has passed since the last one."""
        if msg is None and self._time() - self.last_print_t >= self.mininterval:
            print(str(self).strip(), file=sys.stderr, flush=True)
