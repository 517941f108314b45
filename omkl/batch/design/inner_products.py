"""Inner products of all columns of a working set, on which sweeps cost no more for many samples than for few."""

from typing import Any

import numpy as np
from scipy import sparse


class InnerProducts:
    r""":math:`B^\top \mathrm{diag}(h) B` of a working set's columns B, once what is not regularized is best for each.

    They grow with the working set, and stay while the weights h of samples are the same: along a path of the squared
    loss, on which the time that they take is shared by all points (Friedman, Hastie and Tibshirani 2010, section 2.2).
    """

    def __init__(self) -> None:
        self._weights: Any = None
        #: The columns whose products are known, and these products in the first rows and columns of a larger array.
        self.n_known, self._store = 0, np.empty((0, 0))

    def known(self, weights: np.ndarray) -> int:
        """Of how many columns they are known for these weights."""
        return self.n_known if self._weights is not None and np.array_equal(self._weights, weights) else 0

    def of(self, matrix: Any, weights: np.ndarray, free: np.ndarray | None) -> np.ndarray:
        """An array whose first k rows and columns hold them.

        Parameters
        ----------
        matrix : array (m, k) in Fortran order, or CSC matrix
            B: as in the last call, with more columns behind those that were there.
        weights : array of shape (m,)
            h.
        free : array of shape (m, r) or None
            A basis of what is not regularized.
        """
        first, k = self.known(weights), matrix.shape[1]
        if k > len(self._store):
            grown = np.empty((max(k, min(2 * len(self._store), len(weights))),) * 2)
            grown[:first, :first] = self._store[:first, :first]
            self._store = grown
        if first < k:
            self._extend(matrix, first, weights, free)
        self._weights, self.n_known = weights, k
        return self._store

    def _extend(self, matrix: Any, first: int, weights: np.ndarray, free: np.ndarray | None) -> None:
        """Add the products of all columns with those from the first new one on."""
        new, uniform, size = matrix[:, first:], np.all(weights == weights[0]), matrix.shape[1]
        if uniform:
            weighted = new
        elif sparse.issparse(matrix):
            weighted = sparse.diags_array(weights) @ new
        else:
            weighted = weights[:, None] * new
        strip = self._store[:size, first:size]
        strip[:first] = _dense(matrix[:, :first].T @ weighted)
        strip[first:] = _dense(new.T @ weighted)  # where it is of a matrix with itself, half is computed
        if uniform:
            strip *= weights[0]
        if free is not None and (sparse.issparse(matrix) or not uniform):
            weighted = weights[:, None] * free
            parts = np.asarray(matrix.T @ weighted)
            strip -= parts @ np.linalg.pinv(free.T @ weighted) @ parts[first:].T
        self._store[first:size, :first] = strip[:first].T

    def times(self, w: np.ndarray) -> np.ndarray:
        """The products times coefficients (k, K) or (k,) of all columns that are known."""
        support = np.flatnonzero(w.reshape(len(w), -1).any(axis=1))
        return self._store[: self.n_known, support] @ w[support]


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix
