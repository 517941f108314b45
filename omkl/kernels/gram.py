"""Gram matrices of many kernels at once: dense stacks, sparse matrices, rows on demand.

``inputs`` is one array a kernel, shape (n, d); kernels that are given the same array object share its inner products.
Values are computed in ``dtype``, in blocks of rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omkl._cache import RecentlyUsed
from omkl.kernels.base import Kernel, Pair, Vectors

#: Bytes of one block of kernel values: large enough for BLAS, small enough for temporaries to be reused memory.
BLOCK_BYTES = 2**21
#: Numbers between these have squares, and sums of many squares, in single precision.
SQUARES = 1e-12, 1e15


def cross_matrices(
    kernels: Sequence[Kernel], left: Sequence[Vectors], right: Sequence[Vectors]
) -> Iterator[np.ndarray]:
    """Yield each kernel's matrix between its left inputs (n, d) and its right ones (m, d): arrays (n, m)."""
    pairs: dict[tuple[int, int], Pair] = {}
    for kernel, X, Y in zip(kernels, left, right):
        pair = pairs.setdefault((id(X), id(Y)), Pair(X, Y))
        yield kernel.between(pair)


def row_blocks(n_rows: int, n_columns: int, dtype: DTypeLike) -> list[slice]:
    """Slices that cover ``range(n_rows)``, each a block of a matrix with so many columns."""
    size = max(16, BLOCK_BYTES // (max(n_columns, 1) * np.dtype(dtype).itemsize))
    return [slice(low, min(low + size, n_rows)) for low in range(0, n_rows, size)]


def per_object(inputs: Sequence[np.ndarray], function: Callable[[np.ndarray], Any]) -> list[Any]:
    """``function`` of each input, called once an object: inputs that were equal objects still are."""
    results = {}
    for X in inputs:
        if id(X) not in results:
            results[id(X)] = function(X)
    return [results[id(X)] for X in inputs]


def sliced(inputs: Sequence[np.ndarray], rows: slice | list[int]) -> list[np.ndarray]:
    """The same rows of each input."""
    return per_object(inputs, lambda X: X[rows])


def in_precision(inputs: Sequence[np.ndarray], dtype: DTypeLike) -> list[np.ndarray]:
    """The inputs in ``dtype``, or as float64 where the squares of their numbers would overflow or vanish."""
    return per_object(inputs, lambda X: np.ascontiguousarray(X, dtype=dtype if _has_squares(X, dtype) else np.float64))


def _has_squares(X, dtype):
    largest, (low, high) = np.abs(X).max(initial=0.0), SQUARES
    return np.dtype(dtype) == np.float64 or largest == 0.0 or low < largest < high


def dense_grams(kernels: Sequence[Kernel], inputs: Sequence[np.ndarray], dtype: DTypeLike = np.float32) -> np.ndarray:
    """Stack of Gram matrices, (p, N, N) in ``dtype``, contiguous in its last axis."""
    inputs = in_precision(inputs, dtype)
    n = len(inputs[0])
    stack = np.empty((len(kernels), n, n), dtype=dtype)
    supports = _supports(kernels, inputs)
    for rows in row_blocks(n, n, dtype):
        for k, matrix in enumerate(cross_matrices(kernels, sliced(inputs, rows), supports)):
            stack[k, rows] = matrix
    return stack


def sparse_gram(kernel: Kernel, X: np.ndarray, dtype: DTypeLike = np.float32) -> sparse.csr_array:
    """Gram matrix of one kernel as CSR (N, N): zeros are not stored."""
    (X,) = in_precision([X], dtype)
    (support,) = _supports([kernel], [X])
    slices = row_blocks(len(X), len(X), dtype)
    blocks = [sparse.csr_array(kernel.between(Pair(X[rows], support)), dtype=dtype) for rows in slices]
    return sparse.vstack(blocks, format="csr")


class GramRows:
    """Rows of Gram matrices that do not fit in memory together: computed on demand, the latest kept.

    Parameters
    ----------
    kernels, inputs
        As for :func:`dense_grams`.
    budget : int
        Bytes that the kept rows may take.
    """

    def __init__(
        self, kernels: Sequence[Kernel], inputs: Sequence[np.ndarray], dtype: DTypeLike = np.float32,
        budget: int = 2**30,
    ) -> None:  # fmt: skip
        self.kernels = kernels
        self.inputs = in_precision(inputs, dtype)
        self.dtype = np.dtype(dtype)
        self._supports = _supports(kernels, self.inputs)
        capacity = max(1, budget // (len(kernels) * len(inputs[0]) * self.dtype.itemsize))
        self._recent = RecentlyUsed(min(capacity, len(inputs[0])))
        self._rows: list[np.ndarray | None] = [None] * self._recent.capacity

    @property
    def n_kept(self) -> int:
        """Number of rows that are kept."""
        return len(self._recent)

    @property
    def nbytes(self) -> int:
        """Bytes of the kept rows."""
        return sum(row.nbytes for row in self._rows if row is not None)

    def __getitem__(self, rows: list[int]) -> np.ndarray:
        """The rows with these indices: an array of shape (p, len(rows), N)."""
        block = np.empty((len(self.kernels), len(rows), len(self.inputs[0])), dtype=self.dtype)
        for low in range(0, len(rows), self._recent.capacity):
            indices = self._recent.indices(rows[low : low + self._recent.capacity], self._compute)
            for i, index in enumerate(indices, start=low):
                block[:, i] = self._rows[index]
        return block

    def _compute(self, rows, indices):
        for row, index in zip(rows, indices):
            # one at a time: the bits of a row must not depend on which others happen to be missing
            matrices = cross_matrices(self.kernels, sliced(self.inputs, [row]), self._supports)
            self._rows[index] = np.concatenate([matrix.astype(self.dtype, copy=False) for matrix in matrices])


def _supports(kernels, inputs):
    """Training inputs as each kernel keeps them; the arrays themselves for all but precomputed kernels."""
    return [kernel.as_support(X) for kernel, X in zip(kernels, inputs)]
