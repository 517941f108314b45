"""The history of a search, and when to end it."""

import time


class Progress:
    """Keeps one record an outer iteration, and knows when enough is enough.

    Parameters
    ----------
    tol : float > 0
        Relative duality gap to reach.
    max_iter : int
    on_iteration : callable or None
        Called with each record; a true return value ends the search.
    """

    def __init__(self, tol, max_iter, on_iteration=None):
        self.tol = tol
        self.max_iter = max_iter
        self.on_iteration = on_iteration
        self.history = []
        self._started = time.perf_counter()

    def ends(self, primal, dual, active, **more):
        """Record an iteration; whether it was the last."""
        record = {
            "seconds": time.perf_counter() - self._started,
            "primal": primal,
            "dual": dual,
            "gap": (primal - dual) / max(abs(primal), 1e-300),
            "active": active,
            **more,
        }
        self.history.append(record)
        stopped = self.on_iteration is not None and bool(self.on_iteration(record))
        return stopped or record["gap"] <= self.tol or len(self.history) >= self.max_iter
