"""Threads over parts of the data. Results do not depend on the number of threads."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(
    function: Callable[[Part], Result], data: Iterable[Part], n_jobs: int | None
) -> list[Result]:
    """Return ``function(part)`` for each part of the data, in order.

    Parameters
    ----------
    function : callable
        It should release the GIL during computations, and must not modify data that other parts
        read.
    data : iterable
    n_jobs : int or None
        Number of threads; None means 1, -1 one for each core.
    """
    n = n_threads(n_jobs)
    if n == 1:
        return list(map(function, data))
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(function, data))


def n_threads(n_jobs: int | None) -> int:
    """Return the number of threads for ``n_jobs``."""
    if n_jobs in (None, 1):
        return 1
    from joblib import effective_n_jobs

    return effective_n_jobs(n_jobs)
