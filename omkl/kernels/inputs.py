"""Inputs of kernels: selection of columns, precision, products and distances of vectors."""

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omkl.exceptions import InputError

#: Vectors as rows: an array, or a scipy sparse matrix if the kernel supports it.
Vectors: TypeAlias = np.ndarray | sparse.sparray
#: Values of ``on=``: everything, a column by position or name, a range, or several of these.
On: TypeAlias = int | str | slice | tuple[int | str, ...] | None
#: Names of columns, or their positions if they have no names.
ColumnKeys: TypeAlias = Sequence[Any]
#: Positions of selected columns; None stands for all.
Positions: TypeAlias = slice | tuple[int, ...] | None

#: Inputs are centred if the squared length of their mean exceeds this multiple of the total
#: variance, by precision.
FAR_FROM_ORIGIN = {np.dtype(np.float32): 16.0, np.dtype(np.float64): 1e9}
#: Bytes of one block of kernel values: large enough for BLAS, small enough for temporaries to be
#: reused memory.
BLOCK_BYTES = 2**21
#: Smallest number of rows of a block.
FEWEST_ROWS = 16
#: Range of numbers whose squares, and sums of many squares, fit into single precision.
SMALLEST_SQUARED = 1e-12
LARGEST_SQUARED = 1e15
#: Largest number that kernels accept.
LARGEST = 1e100
#: Maximum number of distinct rows that a width is learned from.
MOST_ROWS = 1000
#: Maximum number of entries of data that are searched for these rows.
MOST_ENTRIES = 2**20
#: Distances up to this fraction of the largest count as 0.
EQUAL = 1e-14
#: A range of columns, such as "0:3" or "::2".
RANGE = re.compile(r"\s*(-?\d{1,18})?\s*:\s*(-?\d{1,18})?\s*(:\s*(-?\d{1,18})?\s*)?")


class NormalizedKernel(Protocol):
    """The part of a :class:`~omkl.kernels.Kernel` that a :class:`Pair` uses."""

    def inverse_roots(self, X: Vectors) -> np.ndarray:
        """Return ``1 / sqrt(k(x, x))`` before normalisation for each row, (n,)."""


#: A kernel, or its name, for error messages.
KernelOrName: TypeAlias = NormalizedKernel | str


def parse_on(on: int | str | slice | Iterable[int | str] | None) -> On:
    """Return ``on=`` in its normal form: ``"0:3"`` as a slice, lists and arrays as tuples.

    >>> parse_on("0:3"), parse_on(["age", 2])
    (slice(0, 3, None), ('age', 2))
    """
    if isinstance(on, str) and RANGE.fullmatch(on):
        bounds = [int(bound) if bound.strip() else None for bound in on.split(":")]
        on = slice(*bounds)
    if on is None or isinstance(on, str) or (isinstance(on, slice) and on.step != 0):
        return on
    is_truth_value = isinstance(on, (bool, np.bool_))
    if isinstance(on, Integral) and not is_truth_value:
        return int(on)
    with suppress(TypeError, ValueError):
        columns = tuple(column if isinstance(column, str) else int(column) for column in on)
        if columns:
            return columns
    raise InputError(
        "on= is a column by name or position, a range such as '0:3', or a list of columns; "
        f"not {on!r}."
    )


def format_on(on: On | list) -> str:
    """Return ``on=`` as written in a kernel's string.

    >>> format_on(slice(0, 3)), format_on(("age", 2)), format_on("hours per week, total")
    ('0:3', '[age,2]', "'hours per week, total'")
    """
    if isinstance(on, slice):
        bounds = [on.start, on.stop]
        if on.step not in (None, 1):
            bounds.append(on.step)
        return ":".join("" if bound is None else str(bound) for bound in bounds)
    if isinstance(on, (tuple, list)):
        return f"[{','.join(map(format_on, on))}]"
    needs_no_quotes = not isinstance(on, str) or re.fullmatch(r"[^\W\d][\w .-]*", on)
    if needs_no_quotes:
        return str(on)
    return repr(on)


def find_columns(
    on: On | list, n_columns: int, names: Sequence[str] | None = None, kernel: KernelOrName = ""
) -> Positions:
    """Return columns by position: None for all, a slice if they are consecutive, else a tuple.

    Raise an InputError that names the ``kernel`` if a column does not exist, or none is selected.
    """
    if on is None:
        return None
    all_names = list(names or ())
    # distinct names, or positions if there are no names
    columns: ColumnKeys = list(dict.fromkeys(all_names)) or range(n_columns)
    items = on if isinstance(on, (tuple, list)) else (on,)
    positions: list[int] = []
    for item in items:
        selected = _selected(item, columns, has_names=bool(all_names))
        if not selected:
            there_is = "they have no names"
            if all_names:
                there_is = f"there is {', '.join(map(repr, all_names[:5]))}"
            raise InputError(
                f"The kernel '{kernel}' selects the column {format_on(item)}, which is not one of "
                f"the {n_columns} columns; {there_is}."
            )
        for column in selected:
            if all_names:
                positions += column_block(all_names, column)
            else:
                positions.append(column)
    first = positions[0]
    stop = positions[-1] + 1
    if positions == list(range(first, stop)):
        return slice(first, stop)
    return tuple(positions)


def _selected(item: int | str | slice, columns: ColumnKeys, has_names: bool) -> ColumnKeys:
    """Return those of the columns that one item of ``on=`` selects; none if there are no such."""
    if isinstance(item, slice):
        return columns[item]
    if isinstance(item, str):
        if not has_names:
            return []
        if item in columns:
            return [item]
        return fnmatch.filter(columns, item)
    if not -len(columns) <= item < len(columns):
        return []
    return [columns[item]]


def column_block(names: Sequence[str], name: str) -> range:
    """Return the positions of a name: several in a row for a column of categories."""
    first = names.index(name)
    stop = first
    while stop < len(names) and names[stop] == name:
        stop += 1
    return range(first, stop)


def take_columns(X: np.ndarray | sparse.sparray, columns: Positions) -> np.ndarray | sparse.sparray:
    """Return columns of an array or sparse matrix (n, d), by positions of :func:`find_columns`."""
    if columns is None:
        return X
    if isinstance(columns, slice):
        return X[:, columns]
    if sparse.issparse(X):
        return X[:, list(columns)]
    # unlike indexing, np.take leaves the rows of an array contiguous
    return X.take(columns, axis=1)


class Pair:
    """Two sets of vectors, with products and distances that kernels share, computed on demand.

    Parameters
    ----------
    X, Y : arrays or CSR matrices of shapes (n, d) and (m, d)
        Integers are converted to float64.
    """

    def __init__(self, X: Vectors, Y: "Vectors | Reference") -> None:
        self.X = as_floats(X)
        if not isinstance(Y, Reference):
            Y = Reference(self.X if Y is X else Y)
        self.right = Y
        self.Y = Y.X

    @cached_property
    def products(self) -> np.ndarray:
        """Inner products, (n, m)."""
        return as_dense(self.X @ self.Y.T)

    @cached_property
    def squared_distances(self) -> np.ndarray:
        """Squared Euclidean distances, (n, m), never negative."""
        X = self.X
        Y = self.Y
        if sparse.issparse(X):
            from sklearn.metrics.pairwise import euclidean_distances

            return euclidean_distances(X, Y, squared=True)
        # ||x - y||^2 = ||x||^2 - 2 x'y + ||y||^2
        mean = self.right.mean
        if mean @ mean / FAR_FROM_ORIGIN[X.dtype] > self.right.variance:
            # far from the origin distances are small differences of large numbers: center the data
            X = X - mean
            Y = Y - mean
            distances = X @ Y.T
            distances *= -2.0
            squares_y = np.einsum("ij,ij->i", Y, Y)
        else:
            distances = self.products * self.products.dtype.type(-2.0)
            squares_y = self.right.squares
        distances += finite_squares(np.einsum("ij,ij->i", X, X))[:, None]
        distances += squares_y[None, :]
        return np.maximum(distances, 0.0, out=distances)

    @cached_property
    def manhattan_distances(self) -> np.ndarray:
        """City-block distances, (n, m)."""
        from sklearn.metrics.pairwise import manhattan_distances

        return manhattan_distances(self.X, self.Y)

    @cached_property
    def chi_squared_distances(self) -> np.ndarray:
        r""":math:`\sum_i (x_i - y_i)^2 / (x_i + y_i)`, (n, m); vectors have no negative entries."""
        from sklearn.metrics.pairwise import additive_chi2_kernel

        return -additive_chi2_kernel(self.X, self.Y)

    def inverse_roots(self, kernel: NormalizedKernel) -> tuple[np.ndarray, np.ndarray]:
        """Return ``1 / sqrt(k(x, x))`` for the rows of X and of Y, before normalisation.

        Parameters
        ----------
        kernel : Kernel
        """
        return kernel.inverse_roots(self.X), self.right.inverse_roots(kernel)


class Reference:
    """Right-hand vectors of pairs, with what is computed of them once for all pairs.

    Parameters
    ----------
    X : array or CSR matrix of shape (m, d)
        Integers are converted to float64. The array must not change.
    """

    def __init__(self, X: Vectors) -> None:
        self.X = as_floats(X)
        self._inverse_roots: dict[int, tuple[NormalizedKernel, np.ndarray]] = {}

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean of the vectors, (d,)."""
        return self.X.mean(axis=0)

    @cached_property
    def variance(self) -> float:
        """Sum of the variances of all columns."""
        return self.X.var(axis=0).sum()

    @cached_property
    def squares(self) -> np.ndarray:
        """Squared lengths of the vectors, (m,)."""
        return np.einsum("ij,ij->i", self.X, self.X)

    def inverse_roots(self, kernel: NormalizedKernel) -> np.ndarray:
        """Return ``1 / sqrt(k(x, x))`` of the vectors, before normalisation."""
        if id(kernel) not in self._inverse_roots:
            # keep the kernel alive, so that its id stays unique
            self._inverse_roots[id(kernel)] = kernel, kernel.inverse_roots(self.X)
        _, inverse_roots = self._inverse_roots[id(kernel)]
        return inverse_roots


def as_dense(X: Vectors) -> np.ndarray:
    """Return vectors as an array: a copy if they are sparse, else as they are."""
    if sparse.issparse(X):
        return X.toarray()
    return X


def as_floats(X: Vectors) -> Vectors:
    """Return float32 and float64 vectors unchanged, others as float64: integers overflow."""
    if X.dtype in FAR_FROM_ORIGIN:
        return X
    return X.astype(np.float64)


def check_magnitudes(X: Vectors, kernel: KernelOrName) -> None:
    """Raise an InputError that names the kernel unless numbers are finite and at most 1e100."""
    numbers = X.data if sparse.issparse(X) else X
    largest = max(float(numbers.max(initial=0.0)), -float(numbers.min(initial=0.0)))
    if not largest <= LARGEST:
        raise InputError(
            f"The kernel '{kernel}' needs finite numbers up to {LARGEST:g}, got {largest:.3g}."
        )


def finite_squares(squares: np.ndarray) -> np.ndarray:
    """Return squared lengths or values ``k(x, x)`` unchanged: (n,).

    Raises
    ------
    omkl.exceptions.InputError
        If they are not finite.
    """
    total = squares.item() if len(squares) == 1 else squares.sum()
    if not math.isfinite(total):
        raise InputError(
            "An input is too large for its kernels, or not finite: k(x, x) overflows. Scale the "
            "columns, as StandardScaler does."
        )
    return squares


def in_precision(X: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return vectors in ``dtype``, or as float64 if squares of numbers would overflow or vanish."""
    dtype = np.dtype(dtype)
    if dtype != np.float64:
        largest = np.abs(X).max(initial=0.0)
        if not (largest == 0.0 or SMALLEST_SQUARED < largest < LARGEST_SQUARED):
            dtype = np.dtype(np.float64)
    return np.ascontiguousarray(X, dtype=dtype)


def row_blocks(n_rows: int, n_columns: int, dtype: DTypeLike) -> list[slice]:
    """Return slices that cover the rows of a matrix (n_rows, n_columns) in blocks."""
    if 0 < n_rows <= FEWEST_ROWS:  # the same in fewer calls
        return [slice(0, n_rows)]
    size = max(FEWEST_ROWS, BLOCK_BYTES // (max(n_columns, 1) * np.dtype(dtype).itemsize))
    return [slice(low, min(low + size, n_rows)) for low in range(0, n_rows, size)]


def median_distance(
    X: Vectors, distances: Callable[[Pair], np.ndarray], quantile: float = 0.5
) -> float:
    """Return a quantile of the nonzero distances between distinct rows, by default the median.

    It is 1 if all rows are equal. The sample of rows is deterministic. If X is small, it depends
    neither on the order of the rows nor on duplicates.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    distances : callable
        ``distances(pair)`` returns the distances of a :class:`Pair`.
    quantile : float in [0, 1]
    """
    if not sparse.issparse(X):
        rows = _distinct_rows(X)
    elif X.shape[0] * X.shape[1] <= MOST_ENTRIES:
        rows = _distinct_rows(X.toarray())
    else:
        rows = X[_evenly(X.shape[0])]
    pairs_of_rows = np.triu_indices(rows.shape[0], 1)
    values = distances(Pair(rows, rows))[pairs_of_rows]
    values = values[values > EQUAL * values.max(initial=0.0)]
    if not len(values):
        return 1.0
    return float(np.quantile(values, quantile))


def _distinct_rows(X: np.ndarray) -> np.ndarray:
    """Return up to MOST_ROWS distinct rows, evenly spaced in sorted order: (n, d), float64.

    A large X is sampled first.
    """
    searched = X
    if X.size > MOST_ENTRIES and X.shape[1] > 1:
        searched = X[_evenly(len(X))]
    rows = np.unique(searched, axis=0)
    if len(rows) < 2 and searched is not X:
        rows = np.unique(X, axis=0)
    return rows[_evenly(len(rows))].astype(np.float64)


def squared_distances(pair: Pair) -> np.ndarray:
    """Return the squared Euclidean distances among the rows of a pair, centered at one of them."""
    if sparse.issparse(pair.X) or not len(pair.X):
        return pair.squared_distances
    centered = pair.X - pair.X[len(pair.X) // 2]
    return Pair(centered, centered).squared_distances


def _evenly(n: int) -> np.ndarray:
    """Return at most MOST_ROWS evenly spaced indices below n."""
    return np.linspace(0, n - 1, min(n, MOST_ROWS)).astype(np.int64)
