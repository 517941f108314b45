"""Storage of kernels as low-rank factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl.kernels._jit_stack import dots, factor_products
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import Vectors, count_columns, row_blocks
from omkl.kernels.stack import KernelStack, Which, free_bytes, require_bytes

#: Number of rows of factors in a block of a sum, in float64.
BLOCK_ROWS = 4096


class FactoredStack(KernelStack):
    """Kernels :math:`K_m = F_m F_m'`. Sums are in float64 for any precision of the storage.

    Parameters
    ----------
    factors : sequence of arrays of shape (N, r_m)
        Ranks may differ, and may be 0.
    dtype : {numpy.float32, numpy.float64}
        Precision of the storage.
    """

    concurrent = True

    def __init__(self, factors: Sequence[np.ndarray], dtype: DTypeLike = np.float64) -> None:
        self._allocate([factor.shape[1] for factor in factors], len(factors[0]), dtype)
        np.concatenate([factor.T for factor in factors], out=self.rows, casting="same_kind")

    @classmethod
    def from_kernels(cls, kernels: Sequence[Kernel], X: Vectors, dtype: DTypeLike = np.float32) -> FactoredStack:
        """Compute the features of kernels in blocks of samples, so that no factor is in memory twice.

        Parameters
        ----------
        kernels : sequence of Kernel
            Fitted kernels, with columns by position.
        X : array or CSR matrix of shape (N, d)
        dtype : {numpy.float32, numpy.float64}
        """
        stack = cls.__new__(cls)
        widths = [count_columns(kernel.columns(X.shape[1]), X.shape[1]) for kernel in kernels]
        ranks = [kernel.feature_count(width) or 0 for kernel, width in zip(kernels, widths)]
        n_samples = X.shape[0]
        needed = sum(ranks) * n_samples * np.dtype(dtype).itemsize
        require_bytes(needed, f"{len(kernels)} factors of {n_samples} samples")
        stack._allocate(ranks, n_samples, dtype)
        for kernel, start, stop in zip(kernels, stack.starts, stack.starts[1:]):
            for block in row_blocks(n_samples, stop - start, np.float64):
                features = kernel.features(kernel.view(X[block]))
                stack.rows[start:stop, block] = (features.toarray() if sparse.issparse(features) else features).T
        return stack

    def _allocate(self, ranks: ArrayLike, n_samples: int, dtype: DTypeLike) -> None:
        self.n_samples = n_samples
        self.starts = np.concatenate([[0], np.cumsum(ranks)]).astype(np.int64)
        self.n_kernels = len(self.starts) - 1
        self.rows = np.empty((self.starts[-1], n_samples), dtype=dtype)

    def restricted(self, samples: np.ndarray) -> FactoredStack:
        stack = FactoredStack.__new__(FactoredStack)
        stack._allocate(np.diff(self.starts), len(samples), self.rows.dtype)
        np.take(self.rows, samples, axis=1, out=stack.rows)
        return stack

    @property
    def nbytes(self) -> int:
        """Bytes of the factors."""
        return self.rows.nbytes

    def _chosen(self, which: Which) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return indices of these kernels, of their rows, and the position in ``which`` of each row's kernel."""
        which = self._indices(which)
        ranks = (self.starts[1:] - self.starts[:-1])[which]
        owners = np.repeat(np.arange(len(which)), ranks)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(ranks) - ranks, ranks)
        return which, self.starts[which][owners] + within, owners

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which, rows, owners = self._chosen(which)
        inner, squares = np.empty(len(rows)), np.zeros(len(rows))
        for vector in np.asarray(vectors, dtype=np.float64):
            dots(self.rows, rows, vector, inner)
            squares += inner**2
        return np.bincount(owners, weights=squares, minlength=len(which))

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which, parts = self._chosen(which)[0], []
        for p in range(vectors.shape[-2]):
            parts.append(np.zeros((len(which), self.n_samples)))
            own = np.atleast_2d(np.ascontiguousarray(vectors[..., p, :]))
            factor_products(self.rows, self.starts, which, own, parts[-1])
        return np.stack(parts, axis=1)

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        _, rows, owners = self._chosen(which)
        weights = np.asarray(weights, dtype=np.float64)[owners]
        samples = slice(None) if samples is None else samples
        total = np.zeros((len(np.arange(self.n_samples)[samples]), self.n_samples))
        # a block of rows takes no more memory than the result
        step = min(BLOCK_ROWS, max(len(total), 16))
        for low in range(0, len(rows), step):
            block = self.rows[rows[low : low + step]].astype(np.float64)
            total += (block[:, samples].T * weights[low : low + step]) @ block
        return total

    def diagonals(self, which: Which = None) -> np.ndarray:
        parts = [self.rows[self.starts[m] : self.starts[m + 1]] for m in self._indices(which)]
        found = [np.einsum("ri,ri->i", part, part, dtype=np.float64) for part in parts]
        return np.reshape(found, (len(parts), self.n_samples))

    def traces(self, which: Which = None) -> np.ndarray:
        which, rows, owners = self._chosen(which)
        squares = np.einsum("ri,ri->r", self.rows, self.rows, dtype=np.float64)[rows]
        return np.bincount(owners, weights=squares, minlength=len(which))


def affordable_rank(n_kernels: int, n_samples: int, dtype: DTypeLike) -> int:
    """Return the rank at which factors of ``n_kernels`` take half of free memory."""
    return int(min(free_bytes() // (2 * n_kernels * n_samples * np.dtype(dtype).itemsize), n_samples))
