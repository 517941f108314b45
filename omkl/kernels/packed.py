"""Storage of kernels as packed lower triangles, computed once, or in every pass.

All Gaussian kernels share the squared differences of each column: the exponents of many kernels on many subsets of
columns are one matrix product, from (kernels, columns) and (columns, pairs of samples).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl._cache import RecentlyUsed
from omkl._threads import in_threads
from omkl.exceptions import InputError
from omkl.kernels._jit_stack import (
    diagonals,
    dots,
    pack,
    packed_products,
    packed_square,
    squared_differences,
    unpack,
    unpack_rows,
    weighted_sum,
)
from omkl.kernels.base import Kernel
from omkl.kernels.checks import checked_gram, require_memory
from omkl.kernels.functions import Gaussian
from omkl.kernels.inputs import Pair, Vectors, take_columns
from omkl.kernels.stack import KernelStack, PartedStack, Which

#: Entries of kernels that are worth a thread.
ENTRIES = 2**22
#: Bytes that kept kernels may take, unless said otherwise.
BUDGET = 2**28
#: Rows of a kernel that are multiplied with several vectors while they are in the cache.
TILE = 48
#: Pairs of samples, and kernels, of one block of exponents: 32 MiB in float32.
PAIRS, KERNELS = 2**15, 256
#: Exponents are cut here: smaller kernel values are zero to any sum, and slow where they are subnormal.
SMALLEST_EXPONENT = -80.0
#: Larger factors of squared differences might overflow in single precision.
STEEPEST = 1e30


class PackedStack(KernelStack):
    """Gram matrices as packed lower triangles, row by row, in one array; sums in float64 whatever the storage.

    Parameters
    ----------
    rows : array of shape (M, N (N + 1) / 2), float32 or float64
        One packed kernel a row.
    n_jobs : int >= 1
        Most threads for norms, products and sums; a few megabytes keep one busy. Each kernel, or each entry of a sum,
        is one thread's alone: any number of them gives the same bits.
    """

    sums_entries = concurrent = True

    def __init__(self, rows: np.ndarray, n_jobs: int = 1) -> None:
        self.rows, self.n_jobs = rows, n_jobs
        self.n_kernels, self.length = rows.shape
        self.n_samples = (int(np.sqrt(8 * self.length + 1)) - 1) // 2

    @classmethod
    def from_grams(cls, grams: Sequence[np.ndarray] | np.ndarray, dtype: DTypeLike = np.float32) -> Self:
        """Pack Gram matrices.

        Parameters
        ----------
        grams : array of shape (M, N, N), or sequence of M arrays of shape (N, N)
            Checked one by one: see :func:`~omkl.kernels.checked_gram`.
        dtype : {numpy.float32, numpy.float64}
            Of the storage. Single precision errs by less than 1e-7 of an entry.

        Raises
        ------
        omkl.exceptions.InputError
            If a matrix is no kernel, or not of the first one's size, or there is not enough memory.
        """
        if not len(grams):
            raise InputError("There are no kernels: give at least one Gram matrix.")
        n = len(grams[0])
        require_memory(len(grams), n, dtype)
        rows = np.empty((len(grams), n * (n + 1) // 2), dtype=dtype)
        for m, (row, gram) in enumerate(zip(rows, grams)):
            pack(checked_gram(gram, m, n), 0, row)
        return cls(rows)

    @classmethod
    def from_kernels(cls, kernels: Iterable[Kernel], X: Vectors, dtype: DTypeLike = np.float32) -> Self:
        """Compute kernels on data straight into packed storage.

        Parameters
        ----------
        kernels : iterable of Kernel
            They are fitted to X; ``on`` may be None, a slice, or a tuple of columns.
        X : array of shape (N, d)
        dtype : {numpy.float32, numpy.float64}
        """
        return cls(packed_kernels(kernels, X, dtype))

    def restricted(self, samples: np.ndarray) -> PackedStack:
        i, j = np.tril_indices(len(samples))
        # by take, as an index in brackets would leave the entries of a kernel apart in memory
        return PackedStack(np.take(self.rows, samples[i] * (samples[i] + 1) // 2 + samples[j], axis=1), self.n_jobs)

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels."""
        return self.rows.nbytes

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        # sum_p v_p v_p' in the place of v v': one pass, however many vectors
        which = self._indices(which)
        square, values = np.empty(self.length), np.empty(len(which))
        packed_square(vectors[0], square)
        for vector in vectors[1:]:
            one = np.empty(self.length)
            packed_square(vector, one)
            square += one
        self._in_threads(len(which), self.length, lambda part: dots(self.rows, which[part], square, values[part]))
        return np.maximum(values, 0.0)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which, n_vectors = self._indices(which), vectors.shape[-2]
        result = np.zeros((len(which), n_vectors, self.n_samples))

        def multiply(part: slice) -> None:
            own = vectors if vectors.ndim == 2 else vectors[part]
            if n_vectors == 1:
                packed_products(self.rows, which[part], own.reshape(-1, self.n_samples), result[part, 0])
                return
            buffer = np.empty(TILE * self.n_samples)
            blocks = np.broadcast_to(own, result[part].shape)
            for k, block, out in zip(which[part], blocks, result[part]):
                _packed_times_block(self.rows[k], block, buffer, out)

        self._in_threads(len(which), self.length * n_vectors, multiply)
        return result

    def _in_threads(self, size, entries, work):
        """Call ``work`` with equal slices of ``range(size)``, each in a thread; each item has so many ``entries``."""
        n_threads = max(1, min(self.n_jobs, size, size * entries // ENTRIES))
        bounds = np.linspace(0, size, n_threads + 1).astype(int)
        in_threads(work, [slice(low, high) for low, high in pairwise(bounds)], n_threads)

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
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

    def summed(self, weights: ArrayLike, which: Which = None) -> PackedStack:
        return PackedStack(self._packed_sum(weights, which)[None])

    def diagonals(self, which: Which = None) -> np.ndarray:
        which = self._indices(which)
        result = np.empty((len(which), self.n_samples))
        diagonals(self.rows, which, result)
        return result


def _packed_times_block(packed, vectors, buffer, out):
    """Write the products of a packed kernel and vectors (P, N) into ``out``: both halves of a few rows at a time."""
    n = vectors.shape[1]
    for low in range(0, n, TILE):
        high = min(low + TILE, n)
        tile = buffer[: (high - low) * high].reshape(high - low, high)
        unpack_rows(packed, low, tile)
        np.matmul(vectors[:, :high], tile.T, out=out[:, low:high])
        out[:, :low] += vectors[:, low:high] @ tile[:, :low]


class LazyStack(PartedStack):
    """Kernels on data, computed in blocks whenever they are asked for; the latest ones are kept.

    A solver that works on few kernels at a time, as by working sets, finds those kept, and computes the others only in
    its few full passes.

    Parameters
    ----------
    kernels : iterable of Kernel
    X : array of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    budget : int
        Bytes that kept kernels may take; one block of a pass takes as much at most, or one packed kernel if that is
        more.
    """

    def __init__(
        self, kernels: Iterable[Kernel], X: Vectors, dtype: DTypeLike = np.float32, budget: int = BUDGET
    ) -> None:
        self.kernels, self.X, self.dtype = list(kernels), np.asarray(X), np.dtype(dtype)
        self.n_kernels, self.n_samples = len(self.kernels), len(self.X)
        row_bytes = self.n_samples * (self.n_samples + 1) // 2 * self.dtype.itemsize
        # passes come in blocks of as many kernels as may be kept
        self._recent = RecentlyUsed(max(1, min(budget // row_bytes, self.n_kernels)))
        self._kept: list[Any] = [None] * self._recent.capacity

    @property
    def nbytes(self) -> int:
        """Bytes of the kept kernels."""
        return sum(row.nbytes for row in self._kept if row is not None)

    def _stacks_of(self, which):
        which = self._indices(which)
        # a pass over more than can be kept would only push out what is worth keeping
        keep = len(which) <= self._recent.capacity
        for low in range(0, len(which), self._recent.capacity):
            piece = slice(low, low + self._recent.capacity)
            yield PackedStack(self._rows(which[piece].tolist(), keep)), piece, None

    def _rows(self, which, keep):
        if keep:
            indices = self._recent.indices(which, self._keep)
            return np.array([self._kept[index] for index in indices])
        missing = [k for k in which if k not in self._recent]
        computed = self._computed(missing)
        if missing == which:
            return computed
        fresh = dict(zip(missing, computed))
        return np.array([fresh[k] if k in fresh else self._kept[self._recent.indices([k])[0]] for k in which])

    def _computed(self, which):
        return packed_kernels([self.kernels[k] for k in which], self.X, self.dtype)

    def _keep(self, which, indices):
        for row, index in zip(self._computed(which), indices):
            self._kept[index] = row.copy()


def packed_kernels(kernels: Iterable[Kernel], X: Vectors, dtype: DTypeLike, part: range | None = None) -> np.ndarray:
    """Packed kernels (M, N (N + 1) / 2) of X (N, d), fitted to it; their columns are by position.

    Or a ``part`` of them, a range of step 1, with the bits that they have among all.
    """
    kernels = list(kernels)
    X = X if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    part = range(len(kernels)) if part is None else part
    n, d = X.shape
    require_memory(len(part), n, dtype)
    rows = np.empty((len(part), n * (n + 1) // 2), dtype=dtype)
    together = [k for k, kernel in enumerate(kernels) if _is_exponential(kernel) and not sparse.issparse(X)]
    gaussians = np.array(together, dtype=np.int64)
    views = {}
    for k in np.setdiff1d(part, gaussians, assume_unique=True).tolist():
        columns = kernels[k].columns(d)
        key = repr(columns)
        if key not in views:
            # kernels on the same columns tend to follow one another: keep what they share, and nothing else
            view = take_columns(X, columns)
            views = {key: Pair(view := view if sparse.issparse(view) else np.ascontiguousarray(view), view)}
        pack(kernels[k].fit_view(views[key].X).between(views[key]), 0, rows[k - part.start])
    # blocks of which no kernel is wanted are left out, others are not divided: rounding depends on their shape
    blocks = [gaussians[low : low + KERNELS] for low in range(0, len(gaussians), KERNELS)]
    blocks = [block for block in blocks if block[0] < part.stop and part.start <= block[-1]]
    _pack_gaussians([_exponential(kernels, block, X, rows.dtype) for block in blocks], part, X, rows)
    return rows


def _is_exponential(kernel: object) -> bool:
    """Return True for multiples of ``exp(widths . squared differences)`` whose widths are given."""
    return type(kernel) is Gaussian and kernel.normalize != "diagonal" and kernel.width_ is not None


def _exponential(kernels, block, X, dtype):
    """``(block, widths, scales)`` of the kernels of a block: arrays of shapes (k, d) and (k, 1)."""
    n, d = X.shape
    factors = {None: 1.0, "average": 1.0, "trace": 1.0 / n}
    widths = np.zeros((len(block), d))
    for row, k in zip(widths, block.tolist()):
        columns = kernels[k].columns(d)
        if columns is None or isinstance(columns, slice):
            row[columns or slice(None)] = -0.5 / kernels[k].width_
        else:
            np.add.at(row, list(columns), -0.5 / kernels[k].width_)
    # in units in which no difference overflows in single precision; widths that do make exponents without bottom
    widths = np.maximum(widths * np.square(_units(X)), -STEEPEST)
    scales = np.array([[factors[kernels[k].normalize]] for k in block.tolist()])
    return block, widths.astype(dtype), scales.astype(dtype)


def _units(X):
    """Return for each column its largest distance from the first row, rounded to a power of two; 1 for 0."""
    largest = np.abs(X - X[:1]).max(axis=0, initial=0.0)
    return 2.0 ** np.round(np.log2(largest, out=np.zeros_like(largest), where=largest > 0.0))


def _pack_gaussians(blocks, part, X, rows):
    """``scale exp(widths . squared differences)`` of the kernels of blocks, into the rows of those of ``part``."""
    if not blocks:
        return
    first_row, columns = 0, np.ascontiguousarray((X / _units(X)).T)
    while first_row < len(X):
        # whole rows of the triangle, about PAIRS entries
        last_row = first_row + 1
        while last_row < len(X) and _start(last_row + 1) - _start(first_row) <= PAIRS:
            last_row += 1
        differences = np.empty((len(columns), _start(last_row) - _start(first_row)), dtype=rows.dtype)
        squared_differences(columns, first_row, last_row, differences)
        for block, widths, scales in blocks:
            chosen = (part.start <= block) & (block < part.stop)
            exponents = widths @ differences
            exponents = exponents if chosen.all() else exponents[chosen]
            np.maximum(exponents, SMALLEST_EXPONENT, out=exponents)
            np.exp(exponents, out=exponents)
            exponents *= scales[chosen]
            rows[block[chosen] - part.start, _start(first_row) : _start(last_row)] = exponents
        first_row = last_row


def _start(row):
    return row * (row + 1) // 2
