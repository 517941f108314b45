"""A bounded set of support vectors whose members change one by one: what a kernel is evaluated against on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from omkl.kernels import _jit_distances as jit
from omkl.kernels.base import Kernel, inverse_root
from omkl.kernels.inputs import Pair, Reference


class SupportBuffer:
    """Support vectors that are known by their indices, and the few vectors at hand.

    All are columns of one array, those at hand just before the first support vector: a kernel evaluated once between
    the vectors at hand and all columns gives its values among them and with every vector held. What normalised kernels
    divide by, ``sqrt(k(x, x))``, is kept with each vector, so a new one costs O(capacity x dimension) and nothing is
    computed twice.

    Parameters
    ----------
    kernels : list of Kernel
        The fitted kernels that will be evaluated.
    n_columns : int
        Dimension d of the vectors.
    capacity : int
        Number of vectors B that there is room for.
    dtype : float64 or float32
    """

    def __init__(self, kernels: Sequence[Kernel], n_columns: int, capacity: int, dtype: DTypeLike) -> None:
        self.normalized = [kernel for kernel in kernels if kernel.normalize == "diagonal"]
        self.capacity = int(capacity)
        self.first = 1
        self.columns = np.zeros((n_columns, 1 + self.capacity), dtype)
        self.roots = np.zeros((len(self.normalized), 1 + self.capacity), dtype)

    @classmethod
    def holding(cls, kernels: Sequence[Kernel], X: np.ndarray) -> Self:
        """Make a buffer of vectors, in their precision.

        Parameters
        ----------
        kernels : list of Kernel
        X : array of shape (B, d)
        """
        buffer = cls(kernels, X.shape[1], len(X), X.dtype)
        buffer.load_state(X, np.array([inverse_root(kernel.raw_diagonal(X)) for kernel in buffer.normalized]))
        return buffer

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.columns.nbytes + self.roots.nbytes

    def stage(self, X: np.ndarray, n_support: int) -> BufferPair:
        """Take vectors at hand, and pair them with themselves and the first support vectors, in this order.

        Parameters
        ----------
        X : array of shape (m, d)
        n_support : int
        """
        m = len(X)
        if m > self.first:
            self._pad(m - self.first, 0)
        X = np.ascontiguousarray(X, dtype=self.columns.dtype)
        at_hand = slice(self.first - m, self.first)
        self.columns[:, at_hand] = X.T
        for roots, kernel in zip(self.roots, self.normalized):
            roots[at_hand] = inverse_root(kernel.raw_diagonal(X))
        return BufferPair(self, X, at_hand, slice(self.first - m, self.first + n_support))

    def pair(self, which: slice | np.ndarray, n_support: int) -> BufferPair:
        """Pair some support vectors with the first ones.

        Parameters
        ----------
        which : slice or int array
            Indices of the support vectors.
        n_support : int
        """
        columns = (
            slice(self.first + which.start, self.first + which.stop) if isinstance(which, slice) else self.first + which
        )
        X = np.ascontiguousarray(self.columns[:, columns].T)
        return BufferPair(self, X, columns, slice(self.first, self.first + n_support))

    def keep(self, back: int, index: int) -> None:
        """Copy a vector at hand to an index.

        Parameters
        ----------
        back : int
            1 for the last vector at hand, 2 for the one before it, and so on.
        index : int
        """
        self.columns[:, self.first + index] = self.columns[:, self.first - back]
        self.roots[:, self.first + index] = self.roots[:, self.first - back]

    def vectors(self, n_support: int) -> np.ndarray:
        """Return the first support vectors, (n_support, d).

        Parameters
        ----------
        n_support : int
        """
        return self.columns[:, self.first : self.first + n_support].T

    def grow(self, capacity: int) -> None:
        """Make room for more vectors.

        Parameters
        ----------
        capacity : int
        """
        self._pad(0, capacity - self.capacity)

    def _pad(self, before: int, after: int) -> None:
        """Add columns before the vectors at hand, and after the support vectors."""
        self.columns, self.roots = (np.pad(array, ((0, 0), (before, after))) for array in (self.columns, self.roots))
        self.first, self.capacity = self.first + before, self.capacity + int(after)

    def state(self, n_support: int) -> tuple[np.ndarray, np.ndarray]:
        """Return ``(vectors, roots)`` of the first vectors.

        Parameters
        ----------
        n_support : int
        """
        return self.vectors(n_support), self.roots[:, self.first : self.first + n_support]

    def load_state(self, vectors: np.ndarray, roots: np.ndarray) -> None:
        """Load what :meth:`state` returned.

        Parameters
        ----------
        vectors : array of shape (n, d)
        roots : array of shape (number of normalised kernels, n)
        """
        self.columns[:, self.first : self.first + len(vectors)] = vectors.T
        if len(self.roots):
            self.roots[:, self.first : self.first + len(vectors)] = roots


class BufferPair(Pair):
    """Vectors against columns of a :class:`SupportBuffer`; what it knows is not computed anew."""

    def __init__(self, buffer: SupportBuffer, X: np.ndarray, rows: slice | np.ndarray, columns: slice) -> None:
        self._buffer = buffer
        self._rows = rows
        self._columns = columns
        self._right = buffer.columns, columns.start, columns.stop
        # as Pair.__init__ sets them, which would look once more at what is known to be dense and floating
        self.X, self.Y, self._on_columns = X, buffer.columns[:, columns].T, {}
        self.right = Reference(self.Y)

    @cached_property
    def products(self) -> np.ndarray:
        return jit.compare(jit.PRODUCTS, self.X, *self._right)

    @cached_property
    def squared_distances(self) -> np.ndarray:
        return jit.compare(jit.SQUARED, self.X, *self._right)

    @cached_property
    def manhattan_distances(self) -> np.ndarray:
        return jit.compare(jit.MANHATTAN, self.X, *self._right)

    @cached_property
    def chi_squared_distances(self) -> np.ndarray:
        return jit.chi_squared_distances(self.X, *self._right)

    def inverse_roots(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        for roots, known in zip(self._buffer.roots, self._buffer.normalized):
            if known is kernel:
                return roots[self._rows], roots[self._columns]
        return super().inverse_roots(kernel)
