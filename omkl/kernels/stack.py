"""Stacks of Gram matrices on one set of samples: what batch solvers see of their kernels.

A stack answers a few questions, each in one pass over the kernels it is asked about; solvers ask nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from omkl.exceptions import InputError
from omkl.kernels._jit_stack import diagonals, dots, pack, packed_products, packed_square, unpack, weighted_sum
from omkl.kernels.checks import checked_gram, require_memory
from omkl.kernels.functions import KernelSpec
from omkl.kernels.inputs import Vectors
from omkl.kernels.packing import packed_kernels

#: Entries of kernels that are worth a thread.
ENTRIES = 2**22


#: Indices of kernels, (k,), or None for all of them.
Which: TypeAlias = Sequence[int] | np.ndarray | None


class KernelStack(Protocol):
    """Gram matrices ``K_1 .. K_M`` of the same N samples. ``which`` is an index array; None stands for all kernels."""

    n_kernels: int
    n_samples: int
    #: Whether :meth:`summed` adds kernels entry by entry, or multiplies by one after the other.
    sums_entries: bool

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        """``v' K_m v`` for each kernel, clipped at 0: (k,), from a vector (N,)."""

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """``K_m v_m`` for each kernel: (k, N), from one vector (N,) for all, or one each, (k, N)."""

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        """``sum_m w_m K_m``: (N, N) float64, from weights (k,); or its rows of some samples, (s, N)."""

    def summed(self, weights: Any, which: Which = None) -> Any:
        """``sum_m w_m K_m`` as an operator: a :class:`WeightedSum`, in less memory than all its entries take."""

    def diagonals(self, which: Which = None) -> np.ndarray:
        """The diagonal of each kernel: (k, N)."""

    def traces(self, which: Which = None) -> np.ndarray:
        """The trace of each kernel: (k,)."""


class WeightedSum:
    """``sum_m w_m K_m`` as an operator: it needs no more memory than the kernels themselves.

    Parameters
    ----------
    kernels : KernelStack
    weights : array of shape (k,)
    which : int array of shape (k,), optional
    """

    def __init__(self, kernels: KernelStack, weights: Any, which: Which = None) -> None:
        self.kernels, self.weights, self.which = kernels, np.asarray(weights, dtype=np.float64), which

    def product(self, vector: np.ndarray) -> np.ndarray:
        """The sum times a vector: (N,)."""
        return self.weights @ self.kernels.products(vector, self.which)

    def rows(self, samples: np.ndarray) -> np.ndarray:
        """Rows of the sum: (s, N)."""
        return self.kernels.combine(self.weights, self.which, samples)

    def diagonal(self) -> np.ndarray:
        """(N,)."""
        return self.weights @ self.kernels.diagonals(self.which)


class DenseStack:
    """Gram matrices as one array.

    Parameters
    ----------
    grams : array of shape (M, N, N)
    """

    sums_entries = True

    def __init__(self, grams: Sequence[np.ndarray] | np.ndarray) -> None:
        self.grams = grams
        self.n_kernels, self.n_samples = grams.shape[:2]

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels."""
        return self.grams.nbytes

    def _chosen(self, which):
        return self.grams if which is None else self.grams[which]

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        return np.maximum(self.products(vector, which) @ vector, 0.0)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        grams = self._chosen(which)
        if vectors.ndim == 1:
            return grams @ vectors
        return np.matmul(grams, vectors[:, :, None])[:, :, 0]

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        grams = self._chosen(which)
        return np.tensordot(weights, grams if samples is None else grams[:, samples], axes=1)

    def summed(self, weights: Any, which: Which = None) -> Any:
        return WeightedSum(DenseStack(self.combine(weights, which)[None]), np.ones(1))

    def diagonals(self, which: Which = None) -> np.ndarray:
        return np.diagonal(self._chosen(which), axis1=1, axis2=2)

    def traces(self, which: Which = None) -> np.ndarray:
        return self.diagonals(which).sum(axis=1)


class PackedStack:
    """Gram matrices as packed lower triangles, row by row, in one array; sums in float64 whatever the storage.

    Parameters
    ----------
    rows : array of shape (M, N (N + 1) / 2), float32 or float64
        One packed kernel a row.
    n_jobs : int >= 1
        Most threads for norms, products and sums; a few megabytes keep one busy. Each kernel, or each entry of a sum,
        is one thread's alone: any number of them gives the same bits.
    """

    sums_entries = True

    def __init__(self, rows: np.ndarray, n_jobs: int = 1) -> None:
        if n_jobs < 1:
            raise InputError(f"n_jobs is a number of threads, at least 1, not {n_jobs!r}.")
        self.rows, self.n_jobs = rows, n_jobs
        self.n_kernels, self.length = rows.shape
        self.n_samples = (int(np.sqrt(8 * self.length + 1)) - 1) // 2

    @classmethod
    def from_grams(
        cls,
        grams: Sequence[np.ndarray] | np.ndarray,
        dtype: DTypeLike = np.float32,
        normalize: str | None = None,
        n_jobs: int = 1,
    ) -> Self:
        """Pack Gram matrices one by one: of an iterable, no more than one is in memory beside the packed ones.

        Parameters
        ----------
        grams : array of shape (M, N, N), or iterable of arrays of shape (N, N)
            Checked one by one: see :func:`~omkl.kernels.checked_gram`.
        dtype : {numpy.float32, numpy.float64}
            Of the storage. Single precision errs by less than 1e-7 of an entry.
        normalize : {None, "trace"}
            "trace" divides each kernel by its trace.
        n_jobs : int >= 1

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
        stack = cls(rows, n_jobs)
        stack.normalize(normalize)
        return stack

    @classmethod
    def from_kernels(
        cls, kernels: Iterable[KernelSpec], X: Vectors, dtype: DTypeLike = np.float32, n_jobs: int = 1
    ) -> Self:
        """Compute kernels on data straight into packed storage.

        Parameters
        ----------
        kernels : iterable of Kernel or str
            They are fitted to X; ``on`` may be None, a slice, or a tuple of columns.
        X : array of shape (N, d)
        dtype : {numpy.float32, numpy.float64}
        n_jobs : int >= 1
        """
        return cls(packed_kernels(kernels, X, dtype), n_jobs)

    def restricted(self, samples: np.ndarray) -> PackedStack:
        """The same kernels on some of the samples, given by increasing indices."""
        i, j = np.tril_indices(len(samples))
        # by take, as an index in brackets would leave the entries of a kernel apart in memory
        return PackedStack(np.take(self.rows, samples[i] * (samples[i] + 1) // 2 + samples[j], axis=1), self.n_jobs)

    def normalize(self, how: str | None) -> None:
        """Divide each kernel by its trace, in place; kernels that are zero stay so. None does nothing."""
        if how is None:
            return
        if how != "trace":
            raise InputError(f'normalize must be None or "trace", not {how!r}.')
        traces = self.traces()
        for row, trace in zip(self.rows, traces):
            row /= trace if trace > 0 else 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels."""
        return self.rows.nbytes

    def _indices(self, which):
        return np.arange(self.n_kernels) if which is None else np.asarray(which, dtype=np.int64)

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        which = self._indices(which)
        square, values = np.empty(self.length), np.empty(len(which))
        packed_square(vector, square)
        self._in_threads(len(which), self.length, lambda part: dots(self.rows, which[part], square, values[part]))
        return np.maximum(values, 0.0)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which = self._indices(which)
        result = np.zeros((len(which), self.n_samples))
        vectors = np.atleast_2d(vectors)

        def multiply(part):
            own = vectors if len(vectors) == 1 else vectors[part]
            packed_products(self.rows, which[part], own, result[part])

        self._in_threads(len(which), self.length, multiply)
        return result

    def _in_threads(self, size, entries, work):
        """Call ``work`` with equal slices of ``range(size)``, each in a thread of its own; ``entries`` go with each."""
        n_threads = max(1, min(self.n_jobs, size * entries // ENTRIES))
        bounds = np.linspace(0, size, n_threads + 1).astype(int)
        parts = [slice(low, high) for low, high in pairwise(bounds) if low < high]
        if len(parts) <= 1:
            for part in parts:
                work(part)
            return
        with ThreadPoolExecutor(len(parts)) as pool:
            # to the end of the list, as an error in a thread is raised only where its result is asked for
            list(pool.map(work, parts))

    def combine(self, weights: Any, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        if samples is not None:
            return self._rows_of(np.asarray(weights, dtype=np.float64), self._indices(which), np.asarray(samples))
        matrix = np.empty((self.n_samples, self.n_samples))
        unpack(self._packed_sum(weights, which), matrix)
        return matrix

    def _packed_sum(self, weights, which):
        which, weights, total = self._indices(which), np.asarray(weights, dtype=np.float64), np.empty(self.length)
        self._in_threads(
            self.length, len(which), lambda part: weighted_sum(self.rows, which, weights, part.start, total[part])
        )
        return total

    def _rows_of(self, weights, which, samples):
        everyone = np.arange(self.n_samples)
        result = np.empty((len(samples), self.n_samples))
        for row, sample in zip(result, samples):
            later = np.maximum(everyone, sample)
            indices = later * (later + 1) // 2 + np.minimum(everyone, sample)
            row[:] = weights @ self.rows[which[:, None], indices]
        return result

    def summed(self, weights: Any, which: Which = None) -> Any:
        return WeightedSum(PackedStack(self._packed_sum(weights, which)[None]), np.ones(1))

    def diagonals(self, which: Which = None) -> np.ndarray:
        which = self._indices(which)
        result = np.empty((len(which), self.n_samples))
        diagonals(self.rows, which, result)
        return result

    def traces(self, which: Which = None) -> np.ndarray:
        return self.diagonals(which).sum(axis=1)
