"""Storage of kernels as packed lower triangles, computed once or on demand.

All Gaussian kernels share the squared differences of each column. One matrix product of (kernels,
columns) and (columns, pairs of samples) gives the exponents of many kernels on many subsets of
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl._cache import RecentlyUsed
from omkl.kernels import _jit_stack as jit
from omkl.kernels.base import Kernel, fitted_value
from omkl.kernels.functions import Gaussian
from omkl.kernels.gram import LARGEST, ROUNDING, checked_gram
from omkl.kernels.inputs import LARGEST_SQUARED, Pair, Vectors, as_floats
from omkl.kernels.stack import (
    KernelStack,
    PartedStack,
    PartOfStack,
    Which,
    free_bytes,
    packed_entries,
    packed_length,
    require_bytes,
)

#: Default budget for cached kernels, in bytes.
BUDGET = 2**28
#: Number of Gram matrices that are checked in turn.
TOGETHER = 32
#: Up to so many vectors are multiplied one by one, which is as fast as together, and needs no
#: further compilation.
SINGLY = 4
#: Number of pairs of samples, and of kernels, in one block of exponents: 32 MiB in float32.
PAIRS = 2**15
KERNELS = 256
#: Lower bound of exponents: smaller kernel values never change a sum, and subnormal numbers are
#: slow.
SMALLEST_EXPONENT = -80.0
#: Range of widths that fit into single precision, as do their inverses.
SMALLEST_WIDTH = 1e-30
LARGEST_WIDTH = 1e30


class PackedStack(KernelStack):
    """Gram matrices as packed lower triangles, row by row, in one array.

    Sums are always in float64.

    Parameters
    ----------
    rows : array of shape (M, N (N + 1) / 2), float32 or float64
        One packed kernel per row.

    Attributes
    ----------
    nbytes : int
        Bytes of the kernels.
    """

    sums_entries = concurrent = True

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows
        self.nbytes = rows.nbytes
        self.n_kernels, self.length = rows.shape
        # the positive root N of N (N + 1) / 2 = length
        self.n_samples = (int(np.sqrt(8 * self.length + 1)) - 1) // 2

    @classmethod
    def from_grams(
        cls, grams: Sequence[np.ndarray] | np.ndarray, dtype: DTypeLike = np.float32
    ) -> Self:
        """Pack Gram matrices.

        Parameters
        ----------
        grams : array of shape (M, N, N), or sequence of M arrays of shape (N, N)
            In any memory layout. Checked as by :func:`~omkl.kernels.checked_gram`.
        dtype : {numpy.float32, numpy.float64}
            Precision of the storage. Single precision has a relative error below 1e-7.

        Raises
        ------
        omkl.exceptions.InputError
            If a matrix is not a valid kernel, sizes differ, or there is not enough memory.
        """
        n = len(grams[0])
        require_memory(len(grams), n, dtype)
        rows = np.empty((len(grams), packed_length(n)), dtype=dtype)
        proved = np.zeros(len(grams), dtype=bool)
        for low in range(0, len(grams), TOGETHER):
            block = grams[low : low + TOGETHER]
            if isinstance(block, np.ndarray) and not block.flags.c_contiguous:
                # by rows: if kernels are last in memory, a row of all stays in cache
                interleaved = block
                block = np.empty(interleaved.shape, interleaved.dtype)
                for i in range(n):
                    block[:, i] = interleaved[:, i]
            for m, gram in enumerate(block, low):
                gram = as_floats(np.asarray(gram))
                is_square = gram.shape == (n, n)
                proved[m] = is_square and jit.pack_symmetric(gram, LARGEST, ROUNDING, rows[m])
            high = low + TOGETHER
            jit.prove_semidefinite(rows[low:high], n, ROUNDING, proved[low:high])
        for m in np.flatnonzero(~proved).tolist():
            # accepts the matrix, or names the reason
            checked_gram(grams[m], m, n)
        return cls(rows)

    @classmethod
    def from_kernels(
        cls, kernels: Iterable[Kernel], X: Vectors, dtype: DTypeLike = np.float32
    ) -> Self:
        """Compute kernels on data directly into packed storage.

        Parameters
        ----------
        kernels : iterable of Kernel
            Kernels to fit to X; ``on`` may be None, a slice, or a tuple of columns.
        X : array of shape (N, d)
        dtype : {numpy.float32, numpy.float64}
        """
        return cls(packed_kernels(kernels, X, dtype))

    def restricted(self, samples: np.ndarray) -> PackedStack:
        # unlike indexing, np.take leaves the entries of a kernel contiguous
        return PackedStack(np.take(self.rows, packed_entries(samples), axis=1))

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        # sum_p v_p v_p' replaces v v': one pass for any number of vectors
        which = self._indices(which)
        total = np.empty(self.length)
        jit.packed_square(vectors[0], total)
        for vector in vectors[1:]:
            square = np.empty(self.length)
            jit.packed_square(vector, square)
            total += square
        values = np.empty(len(which))
        jit.dots(self.rows, which, total, values)
        return np.maximum(values, 0.0)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which = self._indices(which)
        n_vectors = vectors.shape[-2]
        if n_vectors <= SINGLY:
            products = np.zeros((n_vectors, len(which), self.n_samples))
            for p in range(n_vectors):
                # a vector for all kernels, or one for each: (1, N) or (k, N)
                vector = np.ascontiguousarray(vectors[..., p, :], dtype=np.float64)
                vector = vector.reshape(-1, self.n_samples)
                jit.packed_products(self.rows, which, vector, products[p])
            return np.ascontiguousarray(products.swapaxes(0, 1))
        # many vectors share one pass over the kernels
        products = np.zeros((len(which), n_vectors, self.n_samples))
        blocks = np.ascontiguousarray(vectors, dtype=np.float64)
        blocks = blocks.reshape(-1, n_vectors, self.n_samples)
        jit.packed_times_blocks(self.rows, which, blocks, products)
        return products

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        # for more samples the full matrix is faster, and not much larger
        if samples is not None and 4 * len(samples) < self.n_samples:
            return self._combine_few(np.asarray(weights, np.float64), self._indices(which), samples)
        matrix = np.empty((self.n_samples, self.n_samples))
        jit.unpack(self.packed_sum(weights, which), matrix)
        if samples is None:
            return matrix
        return matrix[samples]

    def _combine_few(
        self, weights: np.ndarray, which: np.ndarray, samples: np.ndarray
    ) -> np.ndarray:
        """Return the rows of some samples (s, N) of ``sum_k weights[k] K_which[k]``."""
        all_samples = np.arange(self.n_samples)
        rows = np.empty((len(samples), self.n_samples))
        for i, sample in enumerate(samples):
            later = np.maximum(all_samples, sample)
            earlier = np.minimum(all_samples, sample)
            rows[i] = weights @ self.rows[which[:, None], packed_length(later) + earlier]
        return rows

    def packed(self, m: int) -> np.ndarray:
        return self.rows[m]

    def packed_sum(self, weights: ArrayLike, which: Which) -> np.ndarray:
        """Return ``sum_m w_m K_m``, packed."""
        weights = np.asarray(weights, dtype=np.float64)
        total = np.empty(self.length)
        jit.weighted_sum(self.rows, self._indices(which), weights, total)
        return total

    def summed(self, weights: ArrayLike, which: Which = None) -> PackedStack:
        return PackedStack(self.packed_sum(weights, which)[None])

    def diagonals(self, which: Which = None) -> np.ndarray:
        ends = np.cumsum(np.arange(1, self.n_samples + 1)) - 1
        return self.rows[self._indices(which)[:, None], ends].astype(np.float64, copy=False)


class KernelCache:
    """Cache of packed kernels that are computed on demand: the latest used, within a budget.

    Parameters
    ----------
    n_kernels, n_samples : int
    dtype : {numpy.float32, numpy.float64}
    budget : int
        Maximum bytes of the cached kernels.
    make : callable
        ``make(which)`` returns the packed kernels (k, N (N + 1) / 2) of k indices.
    """

    def __init__(
        self, n_kernels: int, n_samples: int, dtype: np.dtype, budget: int, make: Callable
    ) -> None:
        self.recent = RecentlyUsed(min(budget // packed_bytes(1, n_samples, dtype), n_kernels))
        # untouched pages take no memory
        rows = np.empty((self.recent.capacity, packed_length(n_samples)), dtype=dtype)
        self.stack = PackedStack(rows)
        self._make = make

    def fits(self, which: Which) -> TypeGuard[Sequence[int] | np.ndarray]:
        """Return True if the cache can hold these kernels at once; False for None, all kernels."""
        return which is not None and len(which) <= self.recent.capacity

    def indices(self, which: Sequence[int] | np.ndarray) -> np.ndarray:
        """Compute missing kernels; return the indices of all these kernels in ``stack``, (k,)."""

        def fill(missing: list[int], rows: list[int]) -> None:
            self.stack.rows[rows] = self._make(np.array(missing))

        return np.array(self.recent.indices(np.asarray(which).tolist(), fill), dtype=np.int64)


class LazyStack(PartedStack):
    """Kernels on data, computed in blocks on demand, with a cache of the latest ones.

    A solver that works on few kernels at a time, such as a working-set solver, finds them in the
    cache. It computes the other kernels only in its few full passes.

    Parameters
    ----------
    kernels : iterable of Kernel
    X : array of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    budget : int
        Maximum bytes of cached kernels. A block of a pass over all kernels takes at most as much,
        or one packed kernel if that is more.
    """

    def __init__(
        self,
        kernels: Iterable[Kernel],
        X: Vectors,
        dtype: DTypeLike = np.float32,
        budget: int = BUDGET,
    ) -> None:
        self.kernels = list(kernels)
        self.X = np.asarray(X)
        self.dtype = np.dtype(dtype)
        self.n_kernels = len(self.kernels)
        self.n_samples = len(self.X)
        self._block = max(1, budget // packed_bytes(1, self.n_samples, dtype))
        self._cache = KernelCache(
            self.n_kernels, self.n_samples, self.dtype, budget, self._computed
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the cached kernels."""
        return len(self._cache.recent) * packed_bytes(1, self.n_samples, self.dtype)

    def _parts_of(self, which: Which) -> Iterator[PartOfStack]:
        which = self._indices(which)
        if self._cache.fits(which):
            cached = self._cache.indices(which)
            yield PartOfStack(stack=self._cache.stack, positions=slice(None), indices=cached)
            return
        # bypass the cache: a pass over too many kernels would evict useful ones
        for low in range(0, len(which), self._block):
            block = slice(low, low + self._block)
            stack = PackedStack(self._computed(which[block]))
            indices = np.arange(stack.n_kernels)
            yield PartOfStack(stack=stack, positions=block, indices=indices)

    def _computed(self, which: np.ndarray) -> np.ndarray:
        return packed_kernels([self.kernels[k] for k in which], self.X, self.dtype)


def packed_kernels(kernels: Iterable[Kernel], X: Vectors, dtype: DTypeLike) -> np.ndarray:
    """Fit kernels on columns by position to data (N, d); return them packed, one a row."""
    kernels = list(kernels)
    is_sparse = sparse.issparse(X)
    if not is_sparse:
        X = np.ascontiguousarray(X, dtype=np.float64)
    n_samples: int = X.shape[0]
    require_memory(len(kernels), n_samples, dtype)
    rows = np.empty((len(kernels), packed_length(n_samples)), dtype=dtype)
    squares_fit = not is_sparse and np.abs(X).max(initial=0.0) < LARGEST_SQUARED
    gaussians: dict[int, Gaussian] = {}
    pair_of_view: dict[tuple, Pair] = {}
    for k, kernel in enumerate(kernels):
        if squares_fit and _sums_squared_differences(kernel):
            gaussians[k] = kernel
            continue
        if kernel.view_key not in pair_of_view:
            view = kernel.view(X)
            if not sparse.issparse(view):
                view = np.ascontiguousarray(view)
            # kernels on the same columns are usually adjacent: keep only the latest pair
            pair_of_view = {kernel.view_key: Pair(view, view)}
        pair = pair_of_view[kernel.view_key]
        jit.pack(kernel.fit_view(pair.X).between(pair), rows[k])
    pack_gaussians(gaussians, X, rows)
    return rows


def _sums_squared_differences(kernel: Kernel) -> TypeGuard[Gaussian]:
    """Return whether a kernel is a multiple of ``exp(widths . squared differences)``.

    Its widths must not depend on the data, and they and their inverses fit into single precision.
    """
    if type(kernel) is not Gaussian or kernel.normalize == "diagonal" or kernel.width_ is None:
        return False
    widths = _widths(kernel)
    return bool(np.min(widths) > SMALLEST_WIDTH and np.max(widths) < LARGEST_WIDTH)


def _widths(kernel: Gaussian) -> np.ndarray | float:
    """Return the width of a fitted Gaussian for each column, in its squared units."""
    width = fitted_value(kernel.width_, kernel)
    if kernel.deviations_ is None:
        return width
    return width * np.square(kernel.deviations_)


def pack_gaussians(kernels: dict[int, Gaussian], X: np.ndarray, rows: np.ndarray) -> None:
    """Write ``scale exp(widths . squared differences)`` of Gaussian kernels into their rows.

    ``kernels`` are by the index of their row in ``rows`` (M, N (N + 1) / 2); X is (N, d).
    """
    if not kernels:
        return
    n, d = X.shape
    which = np.array(list(kernels), dtype=np.int64)
    widths, scales = _exponents_of(kernels.values(), n, d, rows.dtype)
    columns = np.ascontiguousarray(X.T)
    first_row = 0
    while first_row < n:
        # take whole rows of the triangle, about PAIRS entries
        stop_row = first_row + 1
        start = packed_length(first_row)
        while stop_row < n and packed_length(stop_row + 1) - start <= PAIRS:
            stop_row += 1
        entries = slice(start, packed_length(stop_row))
        differences = np.empty((d, entries.stop - entries.start), dtype=rows.dtype)
        jit.squared_differences(columns, first_row, stop_row, differences)
        for low in range(0, len(which), KERNELS):
            block = slice(low, low + KERNELS)
            exponents = widths[block] @ differences
            np.maximum(exponents, SMALLEST_EXPONENT, out=exponents)
            np.exp(exponents, out=exponents)
            exponents *= scales[block]
            rows[which[block], entries] = exponents
        first_row = stop_row


def _exponents_of(
    kernels: Collection[Gaussian], n: int, d: int, dtype: np.dtype
) -> tuple[np.ndarray, np.ndarray]:
    """Return ``-1 / (2 width)`` of each kernel and column, (k, d), and the kernels' scales (k, 1).

    ``n`` is the number of samples, ``d`` that of all columns.
    """
    widths = np.zeros((len(kernels), d))
    scales = np.ones((len(kernels), 1))
    for k, kernel in enumerate(kernels):
        # columns may be repeated
        np.add.at(widths[k], kernel.places(d), -0.5 / _widths(kernel))
        if kernel.normalize == "trace":
            scales[k] = 1.0 / n
    return widths.astype(dtype), scales.astype(dtype)


# ---- memory --------------------------------------------------------------------------------------


def packed_bytes(n_kernels: int, n_samples: int, dtype: DTypeLike) -> int:
    """Return the bytes of packed kernels."""
    return n_kernels * packed_length(n_samples) * np.dtype(dtype).itemsize


def packed_bytes_fit(n_kernels: int, n_samples: int, dtype: DTypeLike) -> bool:
    """Return True if packed kernels fit into free memory."""
    return packed_bytes(n_kernels, n_samples, dtype) <= free_bytes()


def require_memory(n_kernels: int, n_samples: int, dtype: DTypeLike) -> None:
    """Raise an InputError unless packed kernels fit into free memory."""
    require_bytes(
        packed_bytes(n_kernels, n_samples, dtype),
        f"{n_kernels} packed kernels of {n_samples} samples",
    )
