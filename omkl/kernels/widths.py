"""Widths of kernels from data, by a median rule: the same kernel in whatever units the data are."""

import numpy as np
from scipy import sparse

from omkl.kernels.base import Pair, Vectors

#: Distinct rows that a width is learned from, and entries of data that are looked through for them.
SAMPLE, ENTRIES = 1000, 2**20
#: Distances up to this part of the largest are zeros that were rounded.
EQUAL = 1e-14


def median_distance(X: Vectors, distances: str, quantile: float = 0.5) -> float:
    """Median, or another quantile, of a distance between distinct rows of X (n, d), never 0.

    The rows are a sample that does not depend on a random state nor, where X is small, on the order or the number of
    copies of its rows. Multiplying X by a number multiplies the result by it (by its square, for squared distances),
    from 1e-150 to 1e150. Where all rows are the same it is 1.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    distances : str
        The attribute of :class:`~omkl.kernels.Pair` that has them.
    quantile : float in [0, 1]
    """
    if sparse.issparse(X):
        X = X.toarray() if X.shape[0] * X.shape[1] <= ENTRIES else X[_evenly(X.shape[0])]
    rows = X if sparse.issparse(X) else _distinct_rows(X)
    # the origin does not matter to distances, except where they are relative to it; zeros must stay zeros
    relative = sparse.issparse(rows) or distances == "chi_squared_distances"
    centered = rows if relative or not len(rows) else rows - rows[len(rows) // 2]
    largest = abs(centered).max() if centered.shape[0] else 0.0
    if not largest > 0.0:
        return 1.0
    # by a power of two, which changes no digit: squares of what is left neither overflow nor vanish
    unit = 2.0 ** float(np.round(np.log2(largest)))
    scaled = centered / unit
    found = getattr(Pair(scaled, scaled), distances)[np.triu_indices(scaled.shape[0], 1)]
    found = found[found > EQUAL * found.max(initial=0.0)]
    if not len(found):
        return 1.0
    width = float(np.quantile(found, quantile)) * unit
    return width * unit if distances == "squared_distances" else width


def _distinct_rows(X: np.ndarray) -> np.ndarray:
    """At most :data:`SAMPLE` different rows, evenly spaced among all in their order, or in that of X if it is large."""
    few = X if X.size <= ENTRIES or X.shape[1] == 1 else X[_evenly(len(X))]
    distinct = np.unique(few, axis=0)
    if len(distinct) < 2 and few is not X:
        distinct = np.unique(X, axis=0)
    return distinct[_evenly(len(distinct))].astype(np.float64)


def _evenly(n: int) -> np.ndarray:
    return np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64)
