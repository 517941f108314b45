"""A bounded set of support vectors whose members change one by one: what a kernel is evaluated against on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike

from omkl.kernels import _jit_slots as jit
from omkl.kernels.base import Kernel, Pair, inverse_root


class SupportSlots:
    """Vectors in numbered slots, and before them the few vectors at hand.

    Vectors are columns of one array, those at hand right-aligned before the first slot: a kernel evaluated once between
    the vectors at hand and all columns gives its values among them and against every slot. What normalised kernels
    divide by, ``sqrt(k(x, x))``, is kept with each vector, so a new one costs O(slots x columns) and nothing is
    computed twice.

    Parameters
    ----------
    kernels : list of Kernel
        The fitted kernels that will be evaluated.
    n_columns : int
        Dimension d of the vectors.
    n_slots : int
        Number of slots B.
    dtype : float64 or float32
    """

    def __init__(self, kernels: Sequence[Kernel], n_columns: int, n_slots: int, dtype: DTypeLike) -> None:
        self.normalized = [kernel for kernel in kernels if kernel.normalize == "diagonal"]
        self.n_slots = int(n_slots)
        self.room = 1
        self.columns = np.zeros((n_columns, 1 + self.n_slots), dtype)
        self.roots = np.zeros((len(self.normalized), 1 + self.n_slots), dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.columns.nbytes + self.roots.nbytes

    def stage(self, X: np.ndarray, n_support: int) -> SlotPair:
        """Take vectors ``X`` (m, d) at hand; returns their :class:`SlotPair` with themselves and ``n_support`` slots.

        Its columns are the m vectors at hand, then the slots.
        """
        m = len(X)
        if m > self.room:
            self._widen(m)
        X = np.ascontiguousarray(X, dtype=self.columns.dtype)
        at_hand = slice(self.room - m, self.room)
        self.columns[:, at_hand] = X.T
        for roots, kernel in zip(self.roots, self.normalized):
            roots[at_hand] = inverse_root(kernel.raw_diagonal(X))
        return SlotPair(self, X, at_hand, slice(self.room - m, self.room + n_support))

    def pair(self, slots: slice, n_support: int) -> SlotPair:
        """The :class:`SlotPair` of some slots (a slice) with the first ``n_support`` of them."""
        places = slice(self.room + slots.start, self.room + slots.stop)
        X = np.ascontiguousarray(self.columns[:, places].T)
        return SlotPair(self, X, places, slice(self.room, self.room + n_support))

    def keep(self, back: int, slot: int) -> None:
        """Copy a vector at hand into a slot: the last one for ``back=1``, the one before it for 2, and so on."""
        self.columns[:, self.room + slot] = self.columns[:, self.room - back]
        self.roots[:, self.room + slot] = self.roots[:, self.room - back]

    def vectors(self, n_support: int) -> np.ndarray:
        """The vectors in the first slots, (n_support, d)."""
        return self.columns[:, self.room : self.room + n_support].T

    def grow(self, n_slots: int) -> None:
        """Have so many slots, of which the first are those that there were."""
        more = ((0, 0), (0, n_slots - self.n_slots))
        self.columns, self.roots = np.pad(self.columns, more), np.pad(self.roots, more)
        self.n_slots = int(n_slots)

    def _widen(self, room):
        more = ((0, 0), (room - self.room, 0))
        self.columns = np.pad(self.columns, more)
        self.roots = np.pad(self.roots, more)
        self.room = room

    def state(self, n_support: int) -> tuple[np.ndarray, np.ndarray]:
        """``(vectors, roots)`` of the first slots."""
        return self.vectors(n_support), self.roots[:, self.room : self.room + n_support]

    def load_state(self, vectors: np.ndarray, roots: np.ndarray) -> None:
        """The inverse of :meth:`state`."""
        self.columns[:, self.room : self.room + len(vectors)] = vectors.T
        self.roots[:, self.room : self.room + len(vectors)] = roots


class SlotPair(Pair):
    """Vectors against columns of :class:`SupportSlots`: what kernels share, without a pass over what is known."""

    def __init__(self, slots: SupportSlots, X: np.ndarray, rows: slice, columns: slice) -> None:
        self._slots = slots
        self._rows = rows
        self._columns = columns
        self._right = slots.columns[:, columns]
        super().__init__(X, self._right.T)

    @cached_property
    def products(self) -> np.ndarray:
        return jit.products(self.X, self._right)

    @cached_property
    def squared_distances(self) -> np.ndarray:
        return jit.squared_distances(self.X, self._right)

    @cached_property
    def manhattan_distances(self) -> np.ndarray:
        return jit.manhattan_distances(self.X, self._right)

    @cached_property
    def chi_squared_distances(self) -> np.ndarray:
        return jit.chi_squared_distances(self.X, self._right)

    def inverse_roots(self, kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
        for roots, known in zip(self._slots.roots, self._slots.normalized):
            if known is kernel:
                return roots[self._rows], roots[self._columns]
        return super().inverse_roots(kernel)
