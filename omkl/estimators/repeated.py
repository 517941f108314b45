"""Rows that are there several times: as one row whose weight is theirs, copies and weights are the same problem."""

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

#: Columns of an array that are looked at before whole rows are.
FEW_COLUMNS = 4
#: Rows that are brought into one piece of memory at a time.
AT_A_TIME = 4096


def first_alike(X: Any, columns: np.ndarray) -> np.ndarray | None:
    """For each row the first one that holds the same.

    Rows that differ in the other columns, or in a few of X, are not looked at whole: where there are no copies this
    takes the time of some columns, or of a product with a sparse matrix.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n)
    columns : array of shape (m, k)
        What else must be the same, as targets.

    Returns
    -------
    int array of shape (m,), or None
        None where all rows differ.

    Examples
    --------
    >>> first_alike(np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1)))
    array([0, 1, 0])
    """
    alike, codes = np.arange(len(columns)), np.zeros(len(columns), dtype=np.int64)
    for values in _telling(X, columns):
        alike, codes = _still_alike(alike, codes, values[alike])
        if not len(alike):
            return None
    alike, codes = _still_alike(alike, codes, _digests(X, alike))
    if not len(alike):
        return None
    first = np.arange(len(columns))
    _, starts, group = np.unique(codes, return_index=True, return_inverse=True)
    first[alike] = alike[starts[group]]
    return first


def _telling(X: Any, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays (m,) in which rows that are the same are the same."""
    yield from columns.T
    if sparse.issparse(X):
        yield X @ np.random.default_rng(0).standard_normal(X.shape[1])
    else:
        for j in np.unique(np.linspace(0, X.shape[1] - 1, FEW_COLUMNS).astype(np.int64)):
            yield X[:, j]


def _still_alike(alike: np.ndarray, codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that share code and value with another, and numbers for what they share."""
    _, own = np.unique(values, return_inverse=True)
    _, both, counts = np.unique(codes * (own.max() + 1) + own, return_inverse=True, return_counts=True)
    stays = counts[both] > 1
    return alike[stays], both[stays]


def _digests(X: Any, rows: np.ndarray) -> np.ndarray:
    """A digest of each of some rows, the same for rows that hold the same and for no others."""
    found = []
    for low in range(0, len(rows), AT_A_TIME):
        part = X[rows[low : low + AT_A_TIME]]
        if sparse.issparse(part):
            part = sparse.csr_array(part)
            part.sum_duplicates()
            part.eliminate_zeros()
            ends = part.indptr.tolist()
            held = [part.indices[a:b].astype(np.int64).tobytes() + part.data[a:b].tobytes() for a, b in pairwise(ends)]
        else:
            held = [row.tobytes() for row in np.ascontiguousarray(part) + 0.0]  # 0 has one sign
        found += [int.from_bytes(hashlib.blake2b(one, digest_size=8).digest(), "little") for one in held]
    return np.array(found, dtype=np.uint64)
