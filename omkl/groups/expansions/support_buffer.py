"""A bounded set of support vectors that change one by one."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from omkl.groups.expansions import _jit_budget as jit
from omkl.kernels.base import Kernel, inverse_root
from omkl.kernels.inputs import Pair, Reference


class SupportBuffer:
    """Support vectors by their indices, and the few vectors at hand (the present input).

    All vectors are columns of one array, with the vectors at hand just before the first support vector. So one
    evaluation of a kernel between the vectors at hand and all columns gives its values among them and with every
    support vector. ``1 / sqrt(k(x, x))`` of normalised kernels is stored with each vector, so a new one costs
    O(capacity x dimension).

    ``kernels`` are fitted kernels on vectors of dimension ``n_columns``; ``capacity`` is the maximum number of support
    vectors.
    """

    def __init__(self, kernels: Sequence[Kernel], n_columns: int, capacity: int, dtype: DTypeLike) -> None:
        self.normalized = [kernel for kernel in kernels if kernel.normalize == "diagonal"]
        self.capacity, self.first = int(capacity), 1
        self.columns = np.zeros((n_columns, 1 + self.capacity), dtype)
        self.roots = np.zeros((len(self.normalized), 1 + self.capacity), dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.columns.nbytes + self.roots.nbytes

    def _write(self, columns: slice, X: np.ndarray) -> None:
        self.columns[:, columns] = X.T
        for roots, kernel in zip(self.roots, self.normalized):
            roots[columns] = inverse_root(kernel.raw_diagonal(X))

    def stage(self, X: np.ndarray, n_support: int) -> "BufferPair":
        """Set the vectors at hand, (m, d); pair them with themselves, then with the first support vectors."""
        m = len(X)
        if m > self.first:
            self._pad(m - self.first, 0)
        X = np.ascontiguousarray(X, dtype=self.columns.dtype)
        self._write(slice(self.first - m, self.first), X)
        return BufferPair(self, X, slice(self.first - m, self.first), slice(self.first - m, self.first + n_support))

    def pair(self, which: np.ndarray, n_support: int) -> "BufferPair":
        """Pair the support vectors with indices ``which``, (m,), with the first ``n_support`` ones."""
        X = np.ascontiguousarray(self.columns[:, self.first + which].T)
        return BufferPair(self, X, self.first + which, slice(self.first, self.first + n_support))

    def keep(self, back: int, index: int) -> None:
        """Copy a vector at hand to an index; ``back`` counts from the end: 1 is the last vector."""
        self.columns[:, self.first + index] = self.columns[:, self.first - back]
        self.roots[:, self.first + index] = self.roots[:, self.first - back]

    def vectors(self, n_support: int) -> np.ndarray:
        """Return the first support vectors, (n_support, d)."""
        return self.columns[:, self.first : self.first + n_support].T

    def load(self, X: np.ndarray) -> None:
        """Overwrite the first support vectors with the rows of an array, (n, d)."""
        self._write(slice(self.first, self.first + len(X)), X)

    def grow(self, capacity: int) -> None:
        """Allocate space for more vectors."""
        self._pad(0, capacity - self.capacity)

    def _pad(self, before: int, after: int) -> None:
        """Add columns before the vectors at hand, and after the support vectors."""
        self.columns, self.roots = (np.pad(array, ((0, 0), (before, after))) for array in (self.columns, self.roots))
        self.first, self.capacity = self.first + before, self.capacity + int(after)


class BufferPair(Pair):
    """Some columns of a :class:`SupportBuffer`, ``rows``, against a range of columns, ``columns``."""

    def __init__(self, buffer: SupportBuffer, X: np.ndarray, rows: slice | np.ndarray, columns: slice) -> None:
        self._buffer, self._rows, self._columns = buffer, rows, columns
        self._right = buffer.columns, columns.start, columns.stop
        # skip Pair.__init__: the arrays are already known to be dense and floating
        self.X, self.Y = X, buffer.columns[:, columns].T
        self.right = Reference(self.Y)

    products = cached_property(lambda self: jit.compare(jit.PRODUCTS, self.X, *self._right))
    squared_distances = cached_property(lambda self: jit.compare(jit.SQUARED, self.X, *self._right))
    manhattan_distances = cached_property(lambda self: jit.compare(jit.MANHATTAN, self.X, *self._right))
    chi_squared_distances = cached_property(lambda self: jit.compare(jit.CHI_SQUARED, self.X, *self._right))

    def inverse_roots(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        for roots, known in zip(self._buffer.roots, self._buffer.normalized):
            if known is kernel:
                return roots[self._rows], roots[self._columns]
        return super().inverse_roots(kernel)
