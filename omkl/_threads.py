"""Threads over parts of the data: the parts do not depend on how many threads there are, nor does any bit."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from joblib import effective_n_jobs


def in_threads(function: Callable[[Any], Any], parts: Iterable[Any], n_jobs: int | None) -> list[Any]:
    """``function`` of each part, in the order of the parts.

    Parameters
    ----------
    function : callable
        It releases the GIL where it computes, and changes nothing that another part is computed from.
    parts : iterable
    n_jobs : int or None
        Threads; None is one, -1 one for each core.
    """
    n = n_threads(n_jobs)
    if n == 1:
        return list(map(function, parts))
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(function, parts))


def n_threads(n_jobs: int | None) -> int:
    """The number of threads that ``n_jobs`` stands for."""
    return 1 if n_jobs in (None, 1) else effective_n_jobs(n_jobs)
