"""The history of a solve, and when to end it."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from omkl.batch.core.problem import relative_gap

#: What hears of every record of a search; a true return value ends it.
Listener = Callable[[dict[str, Any]], Any]


class GapMonitor:
    """Keeps one record an outer iteration, and knows when enough is enough.

    Parameters
    ----------
    tol : float > 0
        Relative duality gap to reach.
    max_iter : int
        Records at most.
    on_iteration : callable or None
        Called with each record; a true return value ends the search.

    Attributes
    ----------
    history : list of dict
        Flat records: ``iteration`` (from 0), ``seconds`` since the start, ``primal``, ``dual``, ``gap`` (relative),
        ``active`` (number of groups in the model), and what the solver has to add.
    """

    def __init__(self, tol: float, max_iter: int, on_iteration: Listener | None = None) -> None:
        self.tol, self.max_iter, self.on_iteration = tol, max_iter, on_iteration
        self.history: list[dict[str, Any]] = []
        self._started = time.perf_counter()

    def record(self, primal: float, dual: float, active: int | np.integer, **more: Any) -> bool:
        """Record an iteration; whether it was the last: the gap is reached, it is enough, or the listener says so."""
        gap = relative_gap(primal, dual)
        record = {
            "iteration": len(self.history), "seconds": time.perf_counter() - self._started,
            "primal": primal, "dual": dual, "gap": gap, "active": int(active), **more,
        }  # fmt: skip
        self.history.append(record)
        stopped = self.on_iteration is not None and bool(self.on_iteration(record))
        return stopped or gap <= self.tol or len(self.history) >= self.max_iter
