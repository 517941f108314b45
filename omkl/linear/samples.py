"""Training samples of sparse linear models, and the detection of identical ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl.batch import Design
from omkl.estimators.validation import as_numbers, row_digests
from omkl.exceptions import InputError

#: Largest magnitude of features, by the bytes of their type: sums of squares must not overflow.
LARGEST = {4: 1e15, 8: 1e100}
#: Columns of an array that are compared before whole rows are.
FEW_COLUMNS = 4


@dataclass
class Samples:
    """A design, and the targets of the problems on it.

    Attributes
    ----------
    design : Design
        m rows.
    targets : sequence of arrays
        (m,) for each problem, or (m, K) for one of K outputs.
    weights : array of shape (m,), optional
    offsets : array of shape (K, m), optional
    largest : float
        Largest magnitude of a feature, if it is known.
    copies : int array of shape (m,), optional
        A number that identical samples share.
    """

    design: Design
    targets: Sequence[np.ndarray]
    weights: np.ndarray | None = None
    offsets: np.ndarray | None = None
    largest: float = np.inf
    copies: np.ndarray | None = None

    def rows(self, kept: np.ndarray) -> Samples:
        """The samples at some positions; rows of the design are not copied."""
        weights, offsets, copies = (
            None if part is None else part[..., kept] for part in (self.weights, self.offsets, self.copies)
        )
        targets = [target[kept] for target in self.targets]
        return Samples(self.design.rows(kept), targets, weights, offsets, self.largest, copies)

    def merged(self) -> Samples:
        """One sample in place of identical ones, with the sum of their weights: the problem is the same."""
        if self.copies is None:
            return self
        _, first, own = np.unique(self.copies, return_index=True, return_inverse=True)
        order = np.argsort(first)
        if len(order) == len(own):
            return self
        sums = np.bincount(own, np.ones(len(own)) if self.weights is None else self.weights)
        samples = self.rows(first[order])
        samples.weights, samples.copies = sums[order], None
        return samples


def check_design(X: Any) -> float:
    """The largest magnitude of the features; raises an InputError if sums of their squares may overflow."""
    values = X.data if sparse.issparse(X) else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))
    if largest > (bound := LARGEST[values.dtype.itemsize]):
        raise InputError(f"X must hold numbers up to {bound:g} in {values.dtype}, got {largest:.3g}.")
    return largest


def read_offsets(offset: ArrayLike | None, n_samples: int, n_problems: int) -> np.ndarray | None:
    """Offsets as an array (P, n); one a sample is used for all problems."""
    if offset is None:
        return None
    offsets = as_numbers(offset, "offset")
    if offsets.shape not in ((n_samples,), (n_samples, n_problems)) or not np.isfinite(offsets).all():
        alternative = f", or ({n_samples}, {n_problems})," if n_problems > 1 else ""
        raise InputError(
            f"offset must hold a finite number for each sample, ({n_samples},){alternative} not {offsets.shape}."
        )
    return np.broadcast_to(offsets if offsets.ndim == 1 else offsets.T, (n_problems, n_samples))


def identical_samples(X: Any, y: np.ndarray, offsets: np.ndarray | None) -> np.ndarray | None:
    """For each sample the first one with the same features, targets and offsets; None if all differ."""
    codes = [np.unique(column, return_inverse=True)[1] for column in y.reshape(len(y), -1).T]
    return first_alike(X, np.column_stack(codes if offsets is None else [*codes, *offsets]))


def first_alike(X: Any, columns: np.ndarray) -> np.ndarray | None:
    """For each row the first identical one.

    Only rows that agree in the other columns, and in a few of X, are compared as a whole: without copies this takes the
    time of some columns, or of a product with a sparse matrix.

    Parameters
    ----------
    X : array or sparse matrix of shape (m, n)
    columns : array of shape (m, k)
        More columns that must agree, such as targets.

    Returns
    -------
    int array of shape (m,), or None
        None if all rows differ.

    Examples
    --------
    >>> first_alike(np.array([[1.0], [2.0], [1.0]]), np.zeros((3, 1)))
    array([0, 1, 0])
    """
    alike, codes = np.arange(len(columns)), np.zeros(len(columns), dtype=np.int64)
    for values in _informative_columns(X, columns):
        alike, codes = _still_alike(alike, codes, values[alike])
        if not len(alike):
            return None
    alike, codes = _still_alike(alike, codes, row_digests(X, alike))
    if not len(alike):
        return None
    first = np.arange(len(columns))
    _, starts, group = np.unique(codes, return_index=True, return_inverse=True)
    first[alike] = alike[starts[group]]
    return first


def _informative_columns(X: Any, columns: np.ndarray) -> Iterator[np.ndarray]:
    """Arrays (m,) in which identical rows agree."""
    yield from columns.T
    if sparse.issparse(X):
        yield X @ np.random.default_rng(0).standard_normal(X.shape[1])
    else:
        for j in np.unique(np.linspace(0, X.shape[1] - 1, FEW_COLUMNS).astype(np.int64)):
            yield X[:, j]


def _still_alike(alike: np.ndarray, codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that share code and value with another row, and a number for each such pair of code and value."""
    _, own = np.unique(values, return_inverse=True)
    _, both, counts = np.unique(codes * (own.max() + 1) + own, return_inverse=True, return_counts=True)
    stays = counts[both] > 1
    return alike[stays], both[stays]
