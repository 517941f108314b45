"""Kernels that do not fit into memory together: computed anew in every pass."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from omkl._cache import RecentlyUsed
from omkl.kernels.functions import KernelSpec, as_kernel
from omkl.kernels.inputs import Vectors
from omkl.kernels.packing import packed_kernels
from omkl.kernels.stack import PackedStack, WeightedSum, Which

#: Bytes that kept kernels may take, unless said otherwise.
BUDGET = 2**28


class LazyStack:
    """Kernels on data, computed in blocks whenever they are asked for; the latest ones are kept.

    A solver that works on few kernels at a time, as by working sets, finds those kept, and computes the others only in
    its few full passes.

    Parameters
    ----------
    kernels : iterable of Kernel or str
    X : array of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    budget : int
        Bytes that kept kernels may take; one block of a pass takes as much at most, or one packed kernel if that is
        more.
    """

    sums_entries = False

    def __init__(
        self, kernels: Iterable[KernelSpec], X: Vectors, dtype: DTypeLike = np.float32, budget: int = BUDGET
    ) -> None:
        self.kernels, self.X, self.dtype = [as_kernel(kernel) for kernel in kernels], np.asarray(X), np.dtype(dtype)
        self.n_kernels, self.n_samples = len(self.kernels), len(self.X)
        row_bytes = self.n_samples * (self.n_samples + 1) // 2 * self.dtype.itemsize
        # passes come in blocks of as many kernels as may be kept
        self._recent = RecentlyUsed(max(1, min(budget // row_bytes, self.n_kernels)))
        self._kept = [None] * self._recent.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of the kept kernels."""
        return sum(row.nbytes for row in self._kept if row is not None)

    def _blocks(self, which):
        """Pieces of ``which``, and the packed kernels they name."""
        which = np.arange(self.n_kernels) if which is None else np.asarray(which, dtype=np.int64)
        # a pass over more than can be kept would only push out what is worth keeping
        keep = len(which) <= self._recent.capacity
        for low in range(0, len(which), self._recent.capacity):
            piece = slice(low, low + self._recent.capacity)
            yield piece, PackedStack(self._rows(which[piece].tolist(), keep))

    def _rows(self, which, keep):
        if keep:
            indices = self._recent.indices(which, self._keep)
            return np.array([self._kept[index] for index in indices])
        missing = [k for k in which if k not in self._recent]
        fresh = dict(zip(missing, self._computed(missing)))
        if missing == which:
            return np.array(list(fresh.values()))
        return np.array([fresh[k] if k in fresh else self._kept[self._recent.indices([k])[0]] for k in which])

    def _computed(self, which):
        return packed_kernels([self.kernels[k] for k in which], self.X, self.dtype)

    def _keep(self, which, indices):
        for row, index in zip(self._computed(which), indices):
            self._kept[index] = row.copy()

    def _size(self, which):
        return self.n_kernels if which is None else len(which)

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        values = np.empty(self._size(which))
        for piece, stack in self._blocks(which):
            values[piece] = stack.quadratics(vector)
        return values

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        result = np.empty((self._size(which), self.n_samples))
        for piece, stack in self._blocks(which):
            result[piece] = stack.products(vectors if np.ndim(vectors) == 1 else vectors[piece])
        return result

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        total = np.zeros((self.n_samples if samples is None else len(samples), self.n_samples))
        for piece, stack in self._blocks(which):
            total += stack.combine(np.asarray(weights)[piece], None, samples)
        return total

    def summed(self, weights: ArrayLike, which: Which = None) -> Any:
        return WeightedSum(self, weights, which)

    def diagonals(self, which: Which = None) -> np.ndarray:
        values = np.empty((self._size(which), self.n_samples))
        for piece, stack in self._blocks(which):
            values[piece] = stack.diagonals()
        return values

    def traces(self, which: Which = None) -> np.ndarray:
        return self.diagonals(which).sum(axis=1)
