"""A bounded set of support vectors whose members change one by one: what a kernel is evaluated against on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

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
        """A buffer of the vectors X (B, d), in their precision."""
        buffer = cls(kernels, X.shape[1], len(X), X.dtype)
        buffer.load_state(X, np.array([inverse_root(kernel.raw_diagonal(X)) for kernel in buffer.normalized]))
        return buffer

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.columns.nbytes + self.roots.nbytes

    def stage(self, X: np.ndarray, n_support: int) -> BufferPair:
        """Take vectors ``X`` (m, d) at hand; returns their :class:`BufferPair`.

        Its columns are the m vectors at hand, then the first ``n_support`` support vectors.
        """
        m = len(X)
        if m > self.first:
            self._widen(m)
        X = np.ascontiguousarray(X, dtype=self.columns.dtype)
        at_hand = slice(self.first - m, self.first)
        self.columns[:, at_hand] = X.T
        for roots, kernel in zip(self.roots, self.normalized):
            roots[at_hand] = inverse_root(kernel.raw_diagonal(X))
        return BufferPair(self, X, at_hand, slice(self.first - m, self.first + n_support))

    def pair(self, which: slice | np.ndarray, n_support: int) -> BufferPair:
        """The :class:`BufferPair` of some support vectors, by their indices, with the first ``n_support``."""
        columns = (
            slice(self.first + which.start, self.first + which.stop) if isinstance(which, slice) else self.first + which
        )
        X = np.ascontiguousarray(self.columns[:, columns].T)
        return BufferPair(self, X, columns, slice(self.first, self.first + n_support))

    def keep(self, back: int, index: int) -> None:
        """Copy a vector at hand to an index: the last one for ``back=1``, the one before it for 2, and so on."""
        self.columns[:, self.first + index] = self.columns[:, self.first - back]
        self.roots[:, self.first + index] = self.roots[:, self.first - back]

    def vectors(self, n_support: int) -> np.ndarray:
        """The first support vectors, (n_support, d)."""
        return self.columns[:, self.first : self.first + n_support].T

    def grow(self, capacity: int) -> None:
        """Have room for so many vectors."""
        more = ((0, 0), (0, capacity - self.capacity))
        self.columns, self.roots = np.pad(self.columns, more), np.pad(self.roots, more)
        self.capacity = int(capacity)

    def _widen(self, first):
        more = ((0, 0), (first - self.first, 0))
        self.columns = np.pad(self.columns, more)
        self.roots = np.pad(self.roots, more)
        self.first = first

    def state(self, n_support: int) -> tuple[np.ndarray, np.ndarray]:
        """``(vectors, roots)`` of the first vectors."""
        return self.vectors(n_support), self.roots[:, self.first : self.first + n_support]

    def load_state(self, vectors: np.ndarray, roots: np.ndarray) -> None:
        """The inverse of :meth:`state`."""
        self.columns[:, self.first : self.first + len(vectors)] = vectors.T
        if len(self.roots):
            self.roots[:, self.first : self.first + len(vectors)] = roots


class BufferPair(Pair):
    """Vectors against columns of a :class:`SupportBuffer`; what it knows is not computed anew."""

    def __init__(self, buffer: SupportBuffer, X: np.ndarray, rows: Any, columns: slice) -> None:
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
