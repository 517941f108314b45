"""Storage of kernels as packed lower triangles, computed once or on demand.

All Gaussian kernels share the squared differences of each column. One matrix product of (kernels,
columns) and (columns, pairs of samples) gives the exponents of many kernels on many subsets of
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl._cache import RecentlyUsed
from omkl.kernels import _jit_stack as jit
from omkl.kernels.base import Kernel, known
from omkl.kernels.functions import Gaussian
from omkl.kernels.gram import LARGEST, ROUNDING, checked_gram
from omkl.kernels.inputs import SQUARES, Pair, Vectors, as_floats, take_columns
from omkl.kernels.stack import (
    KernelStack,
    PartedStack,
    Which,
    free_bytes,
    packed_entries,
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
PAIRS, KERNELS = 2**15, 256
#: Lower bound of exponents: smaller kernel values never change a sum, and subnormal numbers are
#: slow.
SMALLEST_EXPONENT = -80.0
#: Range of widths that fit into single precision, as do their inverses.
WIDTHS = 1e-30, 1e30


class PackedStack(KernelStack):
    """Gram matrices as packed lower triangles, row by row, in one array; sums are always in
    float64.

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
        self.rows, self.nbytes = rows, rows.nbytes
        self.n_kernels, self.length = rows.shape
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
        n, interleaved = len(grams[0]), None
        require_memory(len(grams), n, dtype)
        if (
            isinstance(grams, np.ndarray)
            and grams.dtype in (np.float32, np.float64)
            and grams.shape[1:] == (n, n)
        ):
            last = np.moveaxis(grams, 0, -1)
            interleaved = last if last.flags.c_contiguous else None
        rows, proved = (
            np.empty((len(grams), n * (n + 1) // 2), dtype=dtype),
            np.zeros(len(grams), dtype=bool),
        )
        for low in range(0, len(grams), TOGETHER):
            block, part = grams[low : low + TOGETHER], slice(low, low + TOGETHER)
            if interleaved is not None:
                block = np.empty((len(block), n, n), dtype=dtype)
                jit.deinterleave(interleaved, low, block)
            for m, gram in enumerate(block, low):
                gram = as_floats(np.asarray(gram))
                proved[m] = gram.shape == (n, n) and jit.pack_symmetric(
                    gram, LARGEST, ROUNDING, rows[m]
                )
            jit.prove_semidefinite(rows[part], n, ROUNDING, proved[part])
        for m in np.flatnonzero(~proved).tolist():
            # it accepts the others, or names the reason
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
        square, values = np.empty(self.length), np.empty(len(which))
        jit.packed_square(vectors[0], square)
        for vector in vectors[1:]:
            one = np.empty(self.length)
            jit.packed_square(vector, one)
            square += one
        jit.dots(self.rows, which, square, values)
        return np.maximum(values, 0.0)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which, n_vectors = self._indices(which), vectors.shape[-2]
        if n_vectors <= SINGLY:
            products = np.zeros((n_vectors, len(which), self.n_samples))
            for p, own in enumerate(products):
                vector = np.ascontiguousarray(vectors[..., p, :], dtype=np.float64).reshape(
                    -1, self.n_samples
                )
                jit.packed_products(self.rows, which, vector, own)
            return np.ascontiguousarray(products.swapaxes(0, 1))
        result = np.zeros((len(which), n_vectors, self.n_samples))
        blocks = np.ascontiguousarray(vectors, dtype=np.float64).reshape(
            -1, n_vectors, self.n_samples
        )
        jit.packed_times_blocks(self.rows, which, blocks, result)
        return result

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        # for more samples the full matrix is faster, and not much larger
        if samples is not None and 4 * len(samples) < self.n_samples:
            weights, which, everyone = (
                np.asarray(weights, np.float64),
                self._indices(which),
                np.arange(self.n_samples),
            )
            result = np.empty((len(samples), self.n_samples))
            for row, sample in zip(result, samples):
                later = np.maximum(everyone, sample)
                row[:] = (
                    weights
                    @ self.rows[
                        which[:, None], later * (later + 1) // 2 + np.minimum(everyone, sample)
                    ]
                )
            return result
        matrix = np.empty((self.n_samples, self.n_samples))
        jit.unpack(self.packed_sum(weights, which), matrix)
        return matrix if samples is None else matrix[samples]

    def packed(self, m: int) -> np.ndarray:
        return self.rows[m]

    def packed_sum(self, weights: ArrayLike, which: Which) -> np.ndarray:
        """Return ``sum_m w_m K_m``, packed."""
        total = np.empty(self.length)
        jit.weighted_sum(
            self.rows, self._indices(which), np.asarray(weights, dtype=np.float64), total
        )
        return total

    def summed(self, weights: ArrayLike, which: Which = None) -> PackedStack:
        return PackedStack(self.packed_sum(weights, which)[None])

    def diagonals(self, which: Which = None) -> np.ndarray:
        ends = np.cumsum(np.arange(1, self.n_samples + 1)) - 1
        return self.rows[self._indices(which)[:, None], ends].astype(np.float64, copy=False)


class KernelCache:
    """Cache of packed kernels computed on demand, which keeps the latest used ones within a budget
    of bytes.

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
        rows = np.empty((self.recent.capacity, n_samples * (n_samples + 1) // 2), dtype=dtype)
        self.stack, self._make = PackedStack(rows), make

    def fits(self, which: Which) -> TypeGuard[Sequence[int] | np.ndarray]:
        """Return True if the cache can hold all these kernels at once; False if ``which`` is None."""
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
        self.kernels, self.X, self.dtype = list(kernels), np.asarray(X), np.dtype(dtype)
        self.n_kernels, self.n_samples = len(self.kernels), len(self.X)
        self._block = max(1, budget // packed_bytes(1, self.n_samples, dtype))
        self._cache = KernelCache(
            self.n_kernels, self.n_samples, self.dtype, budget, self._computed
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the cached kernels."""
        return len(self._cache.recent) * packed_bytes(1, self.n_samples, self.dtype)

    def _stacks_of(self, which: Which) -> Iterator[tuple[KernelStack, np.ndarray | slice, Which]]:
        which = self._indices(which)
        if self._cache.fits(which):
            yield self._cache.stack, slice(None), self._cache.indices(which)
            return
        # bypass the cache: a pass over too many kernels would evict useful ones
        for low in range(0, len(which), self._block):
            piece = slice(low, low + self._block)
            yield PackedStack(self._computed(which[piece])), piece, None

    def _computed(self, which: np.ndarray) -> np.ndarray:
        return packed_kernels([self.kernels[k] for k in which], self.X, self.dtype)


def packed_kernels(kernels: Iterable[Kernel], X: Vectors, dtype: DTypeLike) -> np.ndarray:
    """Fit kernels with columns by position to data (N, d); return them packed: (M, N (N + 1) / 2)."""
    kernels = list(kernels)
    X = X if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    n: int = X.shape[0]
    require_memory(len(kernels), n, dtype)
    rows = np.empty((len(kernels), n * (n + 1) // 2), dtype=dtype)
    fast = not sparse.issparse(X) and np.abs(X).max(initial=0.0) < SQUARES[1]
    gaussians: dict[int, Gaussian] = {}
    views: dict[tuple, Pair] = {}
    for k, kernel in enumerate(kernels):
        # multiples of exp(widths . squared differences) with known widths
        if (
            fast
            and type(kernel) is Gaussian
            and kernel.normalize != "diagonal"
            and kernel.width_ is not None
        ):
            widths = _widths(kernel)
            if WIDTHS[0] < np.min(widths) and np.max(widths) < WIDTHS[1]:
                gaussians[k] = kernel
                continue
        key = kernel.seen
        if key not in views:
            # kernels on the same columns are usually adjacent: keep only the latest pair
            view = kernel.view(X)
            views = {
                key: Pair(
                    view := view if sparse.issparse(view) else np.ascontiguousarray(view), view
                )
            }
        jit.pack(kernel.fit_view(views[key].X).between(views[key]), rows[k])
    pack_gaussians(gaussians, X, rows)
    return rows


def _widths(kernel: Gaussian) -> np.ndarray | float:
    """Return the width of a fitted Gaussian kernel for each of its columns, in squared units of the
    column.
    """
    return known(kernel.width_, kernel) * (
        1.0 if kernel.deviations_ is None else np.square(kernel.deviations_)
    )


def pack_gaussians(kernels: dict[int, Gaussian], X: np.ndarray, rows: np.ndarray) -> None:
    """Write ``scale exp(widths . squared differences)`` of Gaussian kernels into their rows."""
    (n, d), which = X.shape, np.array(list(kernels), dtype=np.int64)
    widths, scales = np.zeros((len(which), d)), np.ones((len(which), 1))
    for row, scale, kernel in zip(widths, scales, kernels.values()):
        # columns may be repeated
        np.add.at(
            row, take_columns(np.arange(d)[None], kernel.columns(d))[0], -0.5 / _widths(kernel)
        )
        scale[:] = 1.0 / n if kernel.normalize == "trace" else 1.0
    widths, scales = widths.astype(rows.dtype), scales.astype(rows.dtype)
    first_row, columns = 0, np.ascontiguousarray(X.T)
    while first_row < n and len(which):
        # take whole rows of the triangle, about PAIRS entries
        last_row = first_row + 1
        while last_row < n and _start(last_row + 1) - _start(first_row) <= PAIRS:
            last_row += 1
        differences = np.empty((d, _start(last_row) - _start(first_row)), dtype=rows.dtype)
        jit.squared_differences(columns, first_row, last_row, differences)
        for low in range(0, len(which), KERNELS):
            block = slice(low, low + KERNELS)
            exponents = widths[block] @ differences
            np.maximum(exponents, SMALLEST_EXPONENT, out=exponents)
            np.exp(exponents, out=exponents)
            exponents *= scales[block]
            rows[which[block], _start(first_row) : _start(last_row)] = exponents
        first_row = last_row


def _start(row: int) -> int:
    """Return the index of the first entry of a row of a packed kernel."""
    return row * (row + 1) // 2


# ---- memory --------------------------------------------------------------------------------------


def packed_bytes(n_kernels: int, n_samples: int, dtype: DTypeLike) -> int:
    """Return the bytes of packed kernels."""
    return n_kernels * n_samples * (n_samples + 1) // 2 * np.dtype(dtype).itemsize


def packed_bytes_fit(n_kernels: int, n_samples: int, dtype: DTypeLike) -> bool:
    """Return True if packed kernels fit into free memory."""
    return packed_bytes(n_kernels, n_samples, dtype) <= free_bytes()


def require_memory(n_kernels: int, n_samples: int, dtype: DTypeLike) -> None:
    """Raise an InputError unless packed kernels fit into free memory."""
    require_bytes(
        packed_bytes(n_kernels, n_samples, dtype),
        f"{n_kernels} packed kernels of {n_samples} samples",
    )
