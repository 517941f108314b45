"""Inputs of kernels: selection of columns, precision, and products and distances of two sets of
vectors.
"""

import fnmatch
import math
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omkl.exceptions import InputError

#: Vectors as rows: an array, or a scipy sparse matrix if the kernel supports it.
Vectors: TypeAlias = np.ndarray | sparse.sparray
#: Values of ``on=``: everything, a column by position or name, a range, or several of these.
On: TypeAlias = int | str | slice | tuple[int | str, ...] | None
#: Positions of selected columns; None stands for all.
Positions: TypeAlias = slice | tuple[int, ...] | None

#: Inputs are centred if the squared length of their mean exceeds this multiple of the total
#: variance, by precision.
FAR_FROM_ORIGIN = {np.dtype(np.float32): 16.0, np.dtype(np.float64): 1e9}
#: Bytes of one block of kernel values: large enough for BLAS, small enough for temporaries to be
#: reused memory.
BLOCK_BYTES = 2**21
#: Range of numbers whose squares, and sums of many squares, fit into single precision.
SQUARES = 1e-12, 1e15
#: Largest number that kernels accept.
LARGEST = 1e100
#: Maximum number of distinct rows that a width is learned from, and of entries of data searched for
#: them.
SAMPLE, ENTRIES = 1000, 2**20
#: Distances up to this fraction of the largest count as 0.
EQUAL = 1e-14
RANGE = re.compile(r"\s*(-?\d{1,18})?\s*:\s*(-?\d{1,18})?\s*(:\s*(-?\d{1,18})?\s*)?")


def parse_on(on: int | str | slice | Iterable[int | str] | None) -> On:
    """Return ``on=`` in its normal form: ``"0:3"`` as a slice, lists and arrays as tuples.

    >>> parse_on("0:3"), parse_on(["age", 2])
    (slice(0, 3, None), ('age', 2))
    """
    if isinstance(on, str) and RANGE.fullmatch(on):
        on = slice(*(int(bound) if bound.strip() else None for bound in on.split(":")))
    if on is None or isinstance(on, str) or (isinstance(on, slice) and on.step != 0):
        return on
    if isinstance(on, Integral) and not isinstance(on, (bool, np.bool_)):  # type: ignore[unreachable]
        return int(on)
    with suppress(TypeError, ValueError):
        if parsed := tuple(item if isinstance(item, str) else int(item) for item in on):
            return parsed
    raise InputError(
        f"on= is a column by name or position, a range such as '0:3', or a list of columns; not {on!r}."
    )


def format_on(on: On | list) -> str:
    """Return ``on=`` as written in a kernel's string.

    >>> format_on(slice(0, 3)), format_on(("age", 2)), format_on("hours per week, total")
    ('0:3', '[age,2]', "'hours per week, total'")
    """
    if isinstance(on, slice):
        bounds = (on.start, on.stop) if on.step in (None, 1) else (on.start, on.stop, on.step)
        return ":".join("" if bound is None else str(bound) for bound in bounds)
    if isinstance(on, (tuple, list)):
        return f"[{','.join(map(format_on, on))}]"
    plain = not isinstance(on, str) or re.fullmatch(r"[^\W\d][\w .-]*", on)
    return str(on) if plain else repr(on)


def find_columns(
    on: On | list, n_columns: int, names: Sequence[str] | None = None, kernel: object = ""
) -> Positions:
    """Return columns by position: None for all, a slice if they are consecutive, else a tuple.

    Raise an InputError that names the ``kernel`` if a column does not exist, or none is selected.
    """
    if on is None:
        return None
    known, found = [] if names is None else list(names), list[int]()
    everything: Sequence[Any] = list(dict.fromkeys(known)) or range(n_columns)
    columns: Sequence[Any]
    for item in on if isinstance(on, (tuple, list)) else (on,):
        if isinstance(item, str):
            columns = [item] if item in known else fnmatch.filter(everything, item) if known else []
        elif isinstance(item, slice):
            columns = everything[item]
        else:
            columns = everything[item:][:1] if -len(everything) <= item < len(everything) else []
        if not columns:
            told = f"there is {', '.join(map(repr, known[:5]))}" if known else "they have no names"
            raise InputError(
                f"The kernel '{kernel}' selects the column {format_on(item)}, which is not one of the {n_columns} "
                f"columns; {told}."
            )
        found += [
            j for column in columns for j in (column_block(known, column) if known else [column])
        ]
    low, high = found[0], found[-1] + 1
    return slice(low, high) if found == list(range(low, high)) else tuple(found)


def column_block(names: Sequence[str], name: str) -> range:
    """Return the positions of a name, which is in a row k times if the column has k categories."""
    first = last = names.index(name)
    while last < len(names) and names[last] == name:
        last += 1
    return range(first, last)


def take_columns(X: np.ndarray | sparse.sparray, columns: Positions) -> np.ndarray | sparse.sparray:
    """Return the columns of an array or sparse matrix (n, d) at positions from
    :func:`find_columns`.
    """
    if columns is None:
        return X
    if isinstance(columns, slice):
        return X[:, columns]
    # unlike indexing, np.take leaves the rows of an array contiguous
    return X[:, list(columns)] if sparse.issparse(X) else X.take(columns, axis=1)


def count_columns(columns: Positions, n_columns: int) -> int:
    """Return the number of selected columns."""
    return take_columns(np.empty((0, n_columns)), columns).shape[1]


class Pair:
    """Two sets of vectors, with products and distances that kernels share, computed once and on
    demand.

    Parameters
    ----------
    X, Y : arrays or CSR matrices of shapes (n, d) and (m, d)
        Integers are converted to float64.
    """

    def __init__(self, X: Vectors, Y: "Vectors | Reference") -> None:
        self.X = as_floats(X)
        self.right = Y if isinstance(Y, Reference) else Reference(self.X if Y is X else Y)
        self.Y = self.right.X

    @cached_property
    def products(self) -> np.ndarray:
        """Inner products, (n, m)."""
        products = self.X @ self.Y.T
        return products.toarray() if sparse.issparse(products) else products

    @cached_property
    def squared_distances(self) -> np.ndarray:
        """Squared Euclidean distances, (n, m), never negative."""
        X, Y = self.X, self.Y
        if sparse.issparse(X):
            from sklearn.metrics.pairwise import euclidean_distances

            return euclidean_distances(X, Y, squared=True)
        center, square, variance = self.right.spread
        if square / FAR_FROM_ORIGIN.get(X.dtype, np.inf) > variance:
            # far from the origin distances are small differences of large numbers: center the data
            X, Y = X - center, Y - center
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
        r""":math:`\sum_i (x_i - y_i)^2 / (x_i + y_i)`, (n, m), of vectors without negative entries."""
        from sklearn.metrics.pairwise import additive_chi2_kernel

        return -additive_chi2_kernel(self.X, self.Y)

    def inverse_roots(self, kernel: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return ``1 / sqrt(k(x, x))`` for the rows of X and of Y, before normalisation.

        Parameters
        ----------
        kernel : Kernel
        """
        return kernel.inverse_roots(self.X), self.right.inverse_roots(kernel)


class Reference:
    """Right-hand vectors of pairs.

    Quantities that depend only on these vectors are computed once for all pairs.

    Parameters
    ----------
    X : array or CSR matrix of shape (m, d)
        Integers are converted to float64. The array must not change.
    """

    def __init__(self, X: Vectors) -> None:
        self.X = as_floats(X)
        self._inverse_roots: dict[int, tuple[Any, np.ndarray]] = {}

    @cached_property
    def spread(self) -> tuple[np.ndarray, Any, Any]:
        """The mean of the vectors, (d,), its squared length, and the sum of the variances of all
        columns.
        """
        center = self.X.mean(axis=0)
        return center, center @ center, self.X.var(axis=0).sum()

    @cached_property
    def squares(self) -> np.ndarray:
        """Squared lengths of the vectors, (m,)."""
        return np.einsum("ij,ij->i", self.X, self.X)

    def inverse_roots(self, kernel: Any) -> np.ndarray:
        """Return ``1 / sqrt(k(x, x))`` of the vectors, before normalisation."""
        found = self._inverse_roots.get(id(kernel))
        if found is None:
            # keep the kernel alive, so that its id stays unique
            found = self._inverse_roots[id(kernel)] = kernel, kernel.inverse_roots(self.X)
        return found[1]


def as_floats(X: Vectors) -> Vectors:
    """Return float32 and float64 vectors as they are, others as float64, since integers overflow."""
    return X if X.dtype in FAR_FROM_ORIGIN else X.astype(np.float64)


def check_magnitudes(X: Vectors, kernel: object) -> None:
    """Raise an InputError that names the kernel unless numbers are finite and at most 1e100."""
    numbers = X.data if sparse.issparse(X) else X
    largest = max(float(numbers.max(initial=0.0)), -float(numbers.min(initial=0.0)))
    if not largest <= LARGEST:
        raise InputError(
            f"The kernel '{kernel}' needs finite numbers up to {LARGEST:g}, got {largest:.3g}."
        )


def finite_squares(squares: np.ndarray) -> np.ndarray:
    """Return squared lengths or values ``k(x, x)`` unchanged; raise an InputError unless they are
    finite.
    """
    if not math.isfinite(squares.sum()):
        raise InputError(
            "An input is too large for its kernels, or not finite: k(x, x) overflows. Scale the columns, as "
            "StandardScaler does."
        )
    return squares


def in_precision(X: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    """Return vectors in ``dtype``, or as float64 if the squares of their numbers would overflow or
    vanish.
    """
    dtype = np.dtype(dtype)
    if dtype != np.float64:
        largest = np.abs(X).max(initial=0.0)
        dtype = (
            dtype if largest == 0.0 or SQUARES[0] < largest < SQUARES[1] else np.dtype(np.float64)
        )
    return np.ascontiguousarray(X, dtype=dtype)


def row_blocks(n_rows: int, n_columns: int, dtype: DTypeLike) -> list[slice]:
    """Return slices that cover ``range(n_rows)``, each a block of a matrix with ``n_columns``
    columns.
    """
    size = max(16, BLOCK_BYTES // (max(n_columns, 1) * np.dtype(dtype).itemsize))
    return [slice(low, min(low + size, n_rows)) for low in range(0, n_rows, size)]


def median_distance(
    X: Vectors, distances: Callable[[Pair], np.ndarray], quantile: float = 0.5
) -> float:
    """Return a quantile of the nonzero distances between distinct rows, by default the median; 1 if
    all are equal.

    The sample of rows is deterministic. If X is small, it depends neither on the order of the rows
    nor on duplicates.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    distances : callable
        ``distances(pair)`` returns the distances of a :class:`Pair`.
    quantile : float in [0, 1]
    """
    if sparse.issparse(X):
        X = X.toarray() if X.shape[0] * X.shape[1] <= ENTRIES else X[_evenly(X.shape[0])]
    rows = X
    if not sparse.issparse(
        X
    ):  # distinct rows, evenly spaced in sorted order; a large X is sampled first
        few = X if X.size <= ENTRIES or X.shape[1] == 1 else X[_evenly(len(X))]
        rows = np.unique(few, axis=0)
        if len(rows) < 2 and few is not X:
            rows = np.unique(X, axis=0)
        rows = rows[_evenly(len(rows))].astype(np.float64)
    found = distances(Pair(rows, rows))[np.triu_indices(rows.shape[0], 1)]
    found = found[found > EQUAL * found.max(initial=0.0)]
    return float(np.quantile(found, quantile)) if len(found) else 1.0


def squared_distances(pair: Pair) -> np.ndarray:
    """Return the squared Euclidean distances among the rows of a pair, centered at one of them."""
    if sparse.issparse(pair.X) or not len(pair.X):
        return pair.squared_distances
    centered = pair.X - pair.X[len(pair.X) // 2]
    return Pair(centered, centered).squared_distances


def _evenly(n: int) -> np.ndarray:
    return np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)
