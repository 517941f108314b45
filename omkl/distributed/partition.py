"""What one worker of a cluster holds: its partition of the kernels of a stack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from omkl.exceptions import InputError
from omkl.kernels import Kernel, PackedStack
from omkl.kernels.base import Vectors
from omkl.kernels.checks import packed_bytes
from omkl.kernels.packed import packed_kernels

if TYPE_CHECKING:
    from distributed import Worker

#: Part of a worker's memory limit that may be in use, unless Dask pauses the worker before.
USABLE_FRACTION = 0.9


@dataclass(frozen=True)
class KernelSpec:
    """What Gram matrices are computed from: kernels, an array or CSR matrix X (N, d), and the type of their entries.

    One object, as Dask takes long over a list of thousands.
    """

    kernels: list[Kernel]
    X: Vectors
    dtype: np.dtype


class KernelPartition:
    """Some of a stack's kernels, on a worker: a Dask actor, made empty, then given its kernels.

    Arguments and results of its methods travel: vectors, numbers, and rows of kernels where they are asked for.
    ``which`` are indices into the partition, (k,), or None for all of its kernels.
    """

    _stack: PackedStack

    def __init__(self) -> None:
        # weights and indices of the latest sum, and the sum
        self._latest_sum: tuple[np.ndarray, np.ndarray | None, PackedStack] | None = None

    # ---- getting the kernels ------------------------------------------------------------------------------------

    def compute(self, spec: KernelSpec, part: range) -> None:
        """Compute the kernels of a range of those in ``spec``."""
        _require_worker_memory(packed_bytes(len(part), spec.X.shape[0], spec.dtype))
        self._hold(packed_kernels(spec.kernels, spec.X, spec.dtype, part))

    def reserve(self, n_kernels: int, n_samples: int, dtype: np.dtype) -> None:
        """Allocate memory for kernels that :meth:`fill` brings."""
        _require_worker_memory(packed_bytes(n_kernels, n_samples, dtype))
        self._hold(np.empty((n_kernels, n_samples * (n_samples + 1) // 2), dtype=dtype))

    def fill(self, first: int, rows: np.ndarray) -> None:
        """Store packed kernels (k, N (N + 1) / 2) as the kernels ``first``, ``first + 1``, ... of the partition."""
        self._stack.rows[first : first + len(rows)] = rows

    def _hold(self, rows: np.ndarray) -> None:
        self._stack = PackedStack(rows, n_jobs=_worker().state.nthreads)

    def nbytes(self) -> int:
        """Bytes of the kernels."""
        return self._stack.nbytes

    # ---- what a stack answers -----------------------------------------------------------------------------------

    def rows(self, which: np.ndarray | None) -> np.ndarray:
        """Packed kernels themselves: (k, N (N + 1) / 2) in the type of the storage."""
        return self._stack.rows[which]

    def quadratics(self, vector: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.quadratics(np.array(vector), which)

    def products(self, vectors: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.products(np.array(vectors), which)

    def diagonals(self, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.diagonals(which)

    def traces(self, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.traces(which)

    def packed_sum(self, weights: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """``sum_m w_m K_m``, packed: (N (N + 1) / 2,) float64."""
        return self._sum(weights, which).rows[0]

    def sum_product(self, weights: np.ndarray, which: np.ndarray | None, vector: np.ndarray) -> np.ndarray:
        """``sum_m w_m K_m v``: (N,)."""
        return self._sum(weights, which).products(np.array(vector))[0]

    def sum_rows(self, weights: np.ndarray, which: np.ndarray | None, samples: np.ndarray) -> np.ndarray:
        """Rows of ``sum_m w_m K_m``: (s, N)."""
        return self._sum(weights, which).combine(np.ones(1), None, samples)

    def sum_diagonal(self, weights: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """The diagonal of ``sum_m w_m K_m``: (N,)."""
        return self._sum(weights, which).diagonals()[0]

    def _sum(self, weights: np.ndarray, which: np.ndarray | None) -> PackedStack:
        """The weighted sum, as a stack of one kernel; the latest is kept, as solvers multiply by it many times."""
        if self._latest_sum is not None:
            known_weights, known_which, total = self._latest_sum
            if np.array_equal(weights, known_weights) and np.array_equal(which, known_which):  # type: ignore[arg-type]
                return total
        total = self._stack.summed(weights, which).kernels
        self._latest_sum = weights, which, total
        return total


def _worker() -> Worker:
    from distributed import get_worker

    return get_worker()


def _require_worker_memory(needed: int) -> None:
    """Raise an InputError where the worker's limit does not leave so many bytes; Dask would pause or end the worker."""
    worker = _worker()
    limit, pause = worker.memory_manager.memory_limit, worker.memory_manager.memory_pause_fraction
    if limit is None:
        return
    usable = min(USABLE_FRACTION, pause or USABLE_FRACTION) * limit
    free = max(usable - worker.monitor.get_process_memory(), 0)
    if needed > free:
        raise InputError(
            f"Its kernels take {needed / 2**30:.2f} GiB, but its memory limit leaves {free / 2**30:.2f} GiB: start "
            "more workers, or give them more memory."
        )
