"""Kernels as low-rank factors: smaller and faster where kernels have low rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl.exceptions import InputError
from omkl.kernels._jit_stack import dots, factor_products, pivoted_cholesky
from omkl.kernels.checks import checked_gram, require_bytes
from omkl.kernels.inputs import Vectors, count_columns, row_blocks, take_columns
from omkl.kernels.packed import PackedStack
from omkl.kernels.stack import MixedStack, OneByOne, WeightedSum, Which

#: Rows of factors that one block of a sum holds in float64.
BLOCK_ROWS = 4096
#: Part of the trace that a factor may leave out, by the storage.
LEFT_OUT = {np.dtype(np.float32): 1e-8, np.dtype(np.float64): 1e-13}


class FactoredStack(OneByOne):
    """Kernels :math:`K_m = F_m F_m'`; sums in float64 whatever the storage.

    Parameters
    ----------
    factors : sequence of arrays of shape (N, r_m)
        Ranks may differ, and may be 0.
    dtype : {numpy.float32, numpy.float64}
        Of the storage.
    """

    sums_entries = False
    concurrent = True

    def __init__(self, factors: Sequence[np.ndarray], dtype: DTypeLike = np.float64) -> None:
        factors = [np.asarray(factor) for factor in factors]
        shapes = {factor.shape[0] if factor.ndim == 2 else -1 for factor in factors}
        if len(shapes) != 1 or -1 in shapes:
            raise InputError(f"Factors must be matrices with one row a sample, all of the same samples, not {shapes}.")
        if not all(np.all(np.isfinite(factor)) for factor in factors):
            raise InputError("Factors must be finite numbers.")
        self._allocate([factor.shape[1] for factor in factors], shapes.pop(), dtype)
        for factor, start, stop in zip(factors, self.starts, self.starts[1:]):
            self.rows[start:stop] = factor.T

    @classmethod
    def from_kernels(cls, kernels: Sequence[Any], X: Vectors, dtype: DTypeLike = np.float32) -> FactoredStack:
        """Kernels with finite feature maps on data, in blocks of samples: no factor is in memory twice.

        Parameters
        ----------
        kernels : sequence of Kernel
            Fitted, their columns by position.
        X : array or CSR matrix of shape (N, d)
        dtype : {numpy.float32, numpy.float64}
        """
        stack = cls.__new__(cls)
        columns = [kernel.columns(X.shape[1]) for kernel in kernels]
        ranks = [kernel.feature_count(count_columns(own, X.shape[1])) for kernel, own in zip(kernels, columns)]
        n_samples = X.shape[0]
        require_bytes(
            sum(ranks) * n_samples * np.dtype(dtype).itemsize, f"{len(kernels)} factors of {n_samples} samples"
        )
        stack._allocate(ranks, n_samples, dtype)
        for kernel, own, start, stop in zip(kernels, columns, stack.starts, stack.starts[1:]):
            for block in row_blocks(n_samples, stop - start, np.float64):
                features = kernel.features(take_columns(X[block], own))
                stack.rows[start:stop, block] = (features.toarray() if sparse.issparse(features) else features).T
        return stack

    def _allocate(self, ranks, n_samples, dtype):
        self.n_kernels, self.n_samples = len(ranks), n_samples
        self.starts = np.concatenate([[0], np.cumsum(ranks)]).astype(np.int64)
        self.rows = np.empty((self.starts[-1], n_samples), dtype=dtype)

    def restricted(self, samples: np.ndarray) -> FactoredStack:
        """The same kernels on some of the samples, given by indices."""
        stack = FactoredStack.__new__(FactoredStack)
        stack._allocate(np.diff(self.starts), len(samples), self.rows.dtype)
        np.take(self.rows, samples, axis=1, out=stack.rows)
        return stack

    @property
    def nbytes(self) -> int:
        """Bytes of the factors."""
        return self.rows.nbytes

    def _chosen(self, which):
        """Indices of the rows of these kernels, and which of the kernels each belongs to."""
        which = np.arange(self.n_kernels) if which is None else np.asarray(which, dtype=np.int64)
        ranks = (self.starts[1:] - self.starts[:-1])[which]
        owners = np.repeat(np.arange(len(which)), ranks)
        within = np.arange(len(owners)) - np.repeat(np.cumsum(ranks) - ranks, ranks)
        return which, self.starts[which][owners] + within, owners

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        which, rows, owners = self._chosen(which)
        inner = np.empty(len(rows))
        dots(self.rows, rows, np.asarray(vector, dtype=np.float64), inner)
        return np.bincount(owners, weights=inner**2, minlength=len(which))

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which = self._chosen(which)[0]
        result = np.zeros((len(which), self.n_samples))
        factor_products(self.rows, self.starts, which, np.atleast_2d(vectors), result)
        return result

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        _, rows, owners = self._chosen(which)
        weights = np.asarray(weights, dtype=np.float64)[owners]
        samples = slice(None) if samples is None else samples
        total = np.zeros((len(np.arange(self.n_samples)[samples]), self.n_samples))
        # as many rows at once as take no more memory than the result
        step = min(BLOCK_ROWS, max(len(total), 16))
        for low in range(0, len(rows), step):
            block = self.rows[rows[low : low + step]].astype(np.float64)
            total += (block[:, samples].T * weights[low : low + step]) @ block
        return total

    def summed(self, weights: ArrayLike, which: Which = None) -> Any:
        return WeightedSum(self, weights, which)

    def diagonals(self, which: Which = None) -> np.ndarray:
        which = self._chosen(which)[0]
        parts = [self.rows[self.starts[m] : self.starts[m + 1]] for m in which]
        return np.array([np.einsum("ri,ri->i", part, part, dtype=np.float64) for part in parts]).reshape(
            len(which), self.n_samples
        )

    def traces(self, which: Which = None) -> np.ndarray:
        which, rows, owners = self._chosen(which)
        squares = np.einsum("ri,ri->r", self.rows, self.rows, dtype=np.float64)[rows]
        return np.bincount(owners, weights=squares, minlength=len(which))


def compact_stack(grams: Any, dtype: DTypeLike = np.float32) -> Any:
    """Each Gram matrix in the smaller form: a factor where its rank is below half of N, packed otherwise.

    Parameters
    ----------
    grams : array of shape (M, N, N), or iterable of arrays of shape (N, N)
        Checked as by :meth:`PackedStack.from_grams`.
    dtype : {numpy.float32, numpy.float64}
        Of the storage. A factor leaves out at most 1e-8 of the trace in single, 1e-13 in double precision.

    Returns
    -------
    KernelStack
    """
    factors, factored, packed, size = [], [], [], None

    def large():
        nonlocal size
        for position, gram in enumerate(grams):
            size = len(gram) if size is None else size
            factor = low_rank_factor(checked_gram(gram, position, size), size // 2, dtype)
            if factor is None:
                packed.append(position)
                yield gram
            else:
                factored.append(position)
                factors.append(factor)

    matrices = large()
    first = next(matrices, None)
    if first is None:
        return FactoredStack(factors, dtype)
    stack = PackedStack.from_grams((gram for part in ((first,), matrices) for gram in part), dtype)
    return MixedStack([stack, FactoredStack(factors, dtype)], packed + factored) if factors else stack


def low_rank_factor(gram: np.ndarray, most: int, dtype: DTypeLike = np.float64) -> np.ndarray | None:
    """A factor (N, r) with ``r <= most``, by pivoted Cholesky; None where no such factor is exact up to rounding."""
    gram = np.ascontiguousarray(gram, dtype=np.float64)
    rows = np.empty((most, len(gram)))
    rank = pivoted_cholesky(gram, LEFT_OUT[np.dtype(dtype)] * np.trace(gram), rows)
    return None if rank < 0 else rows[:rank].T.astype(dtype)
