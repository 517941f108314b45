"""Stacks of Gram matrices on one set of samples: what batch solvers see of their kernels.

A stack answers four questions, each in one pass over the kernels it is asked about; solvers ask nothing else.
"""

from typing import Protocol

import numpy as np

from omkl.exceptions import InputError
from omkl.kernels._jit_stack import dots, pack, packed_products, packed_square, unpack, weighted_sum
from omkl.kernels.checks import checked_gram, require_memory
from omkl.kernels.packing import packed_kernels


class KernelStack(Protocol):
    """Gram matrices ``K_1 .. K_M`` of the same N samples. ``which`` is an index array; None stands for all kernels."""

    n_kernels: int
    n_samples: int

    def quadratics(self, vector, which=None):
        """``v' K_m v`` for each kernel, clipped at 0: (k,), from a vector (N,)."""

    def products(self, vectors, which=None):
        """``K_m v_m`` for each kernel: (k, N), from one vector (N,) for all, or one each, (k, N)."""

    def combine(self, weights, which=None):
        """``sum_m w_m K_m``: (N, N) float64, from weights (k,)."""

    def traces(self, which=None):
        """The trace of each kernel: (k,)."""


class DenseStack:
    """Gram matrices as one array.

    Parameters
    ----------
    grams : array of shape (M, N, N)
    """

    def __init__(self, grams):
        self.grams = grams
        self.n_kernels, self.n_samples = grams.shape[:2]

    @property
    def nbytes(self):
        """Bytes of the kernels."""
        return self.grams.nbytes

    def _chosen(self, which):
        return self.grams if which is None else self.grams[which]

    def quadratics(self, vector, which=None):
        return np.maximum(self.products(vector, which) @ vector, 0.0)

    def products(self, vectors, which=None):
        grams = self._chosen(which)
        if vectors.ndim == 1:
            return grams @ vectors
        return np.matmul(grams, vectors[:, :, None])[:, :, 0]

    def combine(self, weights, which=None):
        return np.tensordot(weights, self._chosen(which), axes=1)

    def traces(self, which=None):
        return np.trace(self._chosen(which), axis1=1, axis2=2)


class PackedStack:
    """Gram matrices as packed lower triangles, row by row, in one array; sums in float64 whatever the storage.

    Parameters
    ----------
    rows : array of shape (M, N (N + 1) / 2), float32 or float64
        One packed kernel a row.
    """

    def __init__(self, rows):
        self.rows = rows
        self.n_kernels, self.length = rows.shape
        self.n_samples = (int(np.sqrt(8 * self.length + 1)) - 1) // 2

    @classmethod
    def from_grams(cls, grams, dtype=np.float32, normalize=None):
        """Pack Gram matrices one by one: of an iterable, no more than one is in memory beside the packed ones.

        Parameters
        ----------
        grams : array of shape (M, N, N), or iterable of arrays of shape (N, N)
            Checked one by one: see :func:`~omkl.kernels.checked_gram`.
        dtype : {numpy.float32, numpy.float64}
            Of the storage. Single precision errs by less than 1e-7 of an entry.
        normalize : {None, "trace"}
            "trace" divides each kernel by its trace.

        Raises
        ------
        omkl.exceptions.InputError
            If a matrix is no kernel, or not of the first one's size, or there is not enough memory.
        """
        rows, count = None, 0
        for count, gram in enumerate(grams, start=1):
            if rows is None:
                n = len(gram)
                expected = len(grams) if hasattr(grams, "__len__") else 64
                require_memory(expected, n, dtype)
                rows = np.empty((expected, n * (n + 1) // 2), dtype=dtype)
            elif count > len(rows):
                require_memory(len(rows), n, dtype)
                # in place, where the operating system can move pages: what is not written yet takes no memory
                rows.resize((2 * len(rows), rows.shape[1]), refcheck=False)
            pack(checked_gram(gram, count - 1, n), 0, rows[count - 1])
        if rows is None:
            raise InputError("There are no kernels: give at least one Gram matrix.")
        rows.resize((count, rows.shape[1]), refcheck=False)
        stack = cls(rows)
        stack.normalize(normalize)
        return stack

    @classmethod
    def from_kernels(cls, kernels, X, dtype=np.float32):
        """Compute kernels on data straight into packed storage.

        Parameters
        ----------
        kernels : iterable of Kernel or str
            They are fitted to X; ``on`` may be None, a slice, or a tuple of columns.
        X : array of shape (N, d)
        dtype : {numpy.float32, numpy.float64}
        """
        return cls(packed_kernels(kernels, X, dtype))

    def normalize(self, how):
        """Divide each kernel by its trace, in place; kernels that are zero stay so. None does nothing."""
        if how is None:
            return
        if how != "trace":
            raise InputError(f'normalize must be None or "trace", not {how!r}.')
        traces = self.traces()
        for row, trace in zip(self.rows, traces):
            row /= trace if trace > 0 else 1.0

    @property
    def nbytes(self):
        """Bytes of the kernels."""
        return self.rows.nbytes

    def _indices(self, which):
        return np.arange(self.n_kernels) if which is None else np.asarray(which, dtype=np.int64)

    def quadratics(self, vector, which=None):
        which = self._indices(which)
        square, values = np.empty(self.length), np.empty(len(which))
        packed_square(vector, square)
        dots(self.rows, which, square, values)
        return np.maximum(values, 0.0)

    def products(self, vectors, which=None):
        which = self._indices(which)
        result = np.zeros((len(which), self.n_samples))
        packed_products(self.rows, which, np.atleast_2d(vectors), result)
        return result

    def combine(self, weights, which=None):
        total, matrix = np.empty(self.length), np.empty((self.n_samples, self.n_samples))
        weighted_sum(self.rows, self._indices(which), np.asarray(weights, dtype=np.float64), total)
        unpack(total, matrix)
        return matrix

    def traces(self, which=None):
        diagonal = np.arange(1, self.n_samples + 1).cumsum() - 1
        return self.rows[self._indices(which)[:, None], diagonal].sum(axis=1, dtype=np.float64)
