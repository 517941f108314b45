"""What one worker of a cluster holds: its share of the kernels of a stack."""

from dataclasses import dataclass

import numpy as np

from omkl.exceptions import InputError
from omkl.kernels.checks import packed_bytes
from omkl.kernels.packing import packed_kernels
from omkl.kernels.stack import PackedStack

#: Part of a worker's memory limit that may be in use, unless Dask pauses the worker before.
USABLE = 0.9


@dataclass(frozen=True)
class OnData:
    """Kernels on the rows of X (N, d): one object, as Dask takes long over a list of thousands."""

    kernels: list
    X: np.ndarray
    dtype: np.dtype


class Share:
    """Some of a stack's kernels, on a worker: a Dask actor, made empty, then given its kernels.

    What its methods are given and return travels: vectors, numbers, and rows of kernels where they are asked for.
    Kernels are named by their places in the share.
    """

    def __init__(self):
        self._stack = None
        self._summed = None, None, None

    # ---- getting the kernels ------------------------------------------------------------------------------------

    def compute(self, given, part):
        """Compute some of the kernels of an :class:`OnData`: those of a range."""
        _require_worker_memory(packed_bytes(len(part), len(given.X), given.dtype))
        self._hold(packed_kernels(given.kernels, given.X, given.dtype, part))

    def reserve(self, n_kernels, n_samples, dtype):
        """Make room for kernels that :meth:`fill` brings."""
        _require_worker_memory(packed_bytes(n_kernels, n_samples, dtype))
        self._hold(np.empty((n_kernels, n_samples * (n_samples + 1) // 2), dtype=dtype))

    def fill(self, place, rows):
        """Put packed kernels (k, N (N + 1) / 2) where there is room."""
        self._stack.rows[place : place + len(rows)] = rows

    def _hold(self, rows):
        self._stack = PackedStack(rows, n_jobs=_worker().state.nthreads)

    def nbytes(self):
        """Bytes of the kernels."""
        return self._stack.nbytes

    # ---- what a stack answers -----------------------------------------------------------------------------------

    def rows(self, which):
        """Packed kernels themselves: (k, N (N + 1) / 2) in the type of the storage."""
        return self._stack.rows[which]

    def quadratics(self, vector, which):
        """As for every stack."""
        return self._stack.quadratics(np.array(vector), which)

    def products(self, vectors, which):
        """As for every stack."""
        return self._stack.products(np.array(vectors), which)

    def diagonals(self, which):
        """As for every stack."""
        return self._stack.diagonals(which)

    def traces(self, which):
        """As for every stack."""
        return self._stack.traces(which)

    def packed_sum(self, weights, which):
        """``sum_m w_m K_m``, packed: (N (N + 1) / 2,) float64."""
        return self._sum(weights, which).rows[0]

    def sum_product(self, weights, which, vector):
        """``sum_m w_m K_m v``: (N,)."""
        return self._sum(weights, which).products(np.array(vector))[0]

    def sum_rows(self, weights, which, samples):
        """Rows of ``sum_m w_m K_m``: (s, N)."""
        return self._sum(weights, which).combine(np.ones(1), None, samples)

    def sum_diagonal(self, weights, which):
        """The diagonal of ``sum_m w_m K_m``: (N,)."""
        return self._sum(weights, which).diagonals()[0]

    def _sum(self, weights, which):
        """The weighted sum, as a stack of one kernel; the latest is kept, as solvers multiply by it many times."""
        known_weights, known_which, total = self._summed
        if total is None or not (np.array_equal(weights, known_weights) and np.array_equal(which, known_which)):
            total = self._stack.summed(weights, which).kernels
            self._summed = weights, which, total
        return total


def _worker():
    from distributed import get_worker

    return get_worker()


def _require_worker_memory(needed):
    """Raise an InputError where the worker's limit does not leave so many bytes; Dask would pause or end the worker."""
    worker = _worker()
    limit, pause = worker.memory_manager.memory_limit, worker.memory_manager.memory_pause_fraction
    if limit is None:
        return
    free = max(min(USABLE, pause or USABLE) * limit - worker.monitor.get_process_memory(), 0)
    if needed > free:
        raise InputError(
            f"Its share of the kernels takes {needed / 2**30:.2f} GiB, but its memory limit leaves "
            f"{free / 2**30:.2f} GiB: start more workers, or give them more memory."
        )
