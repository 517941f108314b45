"""ColumnScales: means and standard deviations of columns, by which kernels see columns of any units alike."""

import numpy as np

from omkl.features._jit_scales import follow_rows

#: Standard deviations up to this fraction of the mean are rounding errors of a constant.
ROUNDING = 1e-12


class ColumnScales:
    """Means and standard deviations of the columns of a table, learned as rows come.

    Missing entries (NaN) do not count. A constant column has the deviation 1, and a column without entries the mean 0.

    Parameters
    ----------
    n_columns : int

    Attributes
    ----------
    weights, means, squares : arrays of shape (d,)
        Total weight of the entries of each column, their mean, and the sum of their weighted squared deviations.

    References
    ----------
    Welford (1962), note on a method for calculating corrected sums of squares; Chan, Golub and LeVeque (1979), updating
    formulae and a pairwise algorithm for computing sample variances.
    """

    def __init__(self, n_columns: int) -> None:
        self.weights, self.means, self.squares = np.zeros((3, n_columns))

    @property
    def deviations(self) -> np.ndarray:
        """Standard deviations, (d,); 1 for constant columns."""
        found = np.sqrt(self.squares / np.where(self.weights > 0.0, self.weights, 1.0))
        return np.where(found <= ROUNDING * np.abs(self.means), 1.0, found)

    def follow(self, X: np.ndarray, row_weights: np.ndarray | None = None) -> np.ndarray:
        """Learn from rows one after the other; return each standardized by the scales that include it, (n, d).

        Splitting rows into several calls changes no bit. Missing entries become 0, the mean.
        """
        standardized = np.empty(X.shape)
        row_weights = np.ones(len(X)) if row_weights is None else row_weights
        X = np.ascontiguousarray(X, dtype=np.float64)
        follow_rows(X, row_weights, self.weights, self.means, self.squares, ROUNDING, standardized)
        return standardized

    def standardized(self, X: np.ndarray) -> np.ndarray:
        """Return rows minus the means, divided by the deviations, (n, d); missing entries become 0."""
        return np.nan_to_num((X - self.means) / self.deviations, copy=False)

    def merge(self, other: "ColumnScales") -> None:
        """Add the rows of other scales of the same columns."""
        total = self.weights + other.weights
        share = other.weights / np.where(total > 0.0, total, 1.0)
        apart = other.means - self.means
        self.squares = self.squares + other.squares + self.weights * share * apart**2
        self.means, self.weights = self.means + share * apart, total
