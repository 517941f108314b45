"""Scales of columns: means, standard deviations and ranges."""

from functools import cached_property

import numpy as np

from omkl.features._jit_scales import follow_rows

#: Standard deviations up to this fraction of the mean are rounding errors of a constant.
ROUNDING = 1e-12


class ColumnScales:
    """Means and standard deviations of the columns of a table, learned as rows come.

    Missing entries (NaN) do not count. A constant column has the deviation 1, and a column without
    entries the mean 0.

    Parameters
    ----------
    n_columns : int

    Attributes
    ----------
    weights, means, squares : arrays of shape (d,)
        Total weight of the entries of each column, their mean, and the sum of their weighted
        squared deviations.
    lows, highs : arrays of shape (d,)
        Smallest and largest entry of each column in the first call of :meth:`follow`; NaN if there
        is none.
    before : array of shape (5, d)
        The :meth:`state` before the last call of :meth:`follow`, from which a resumed run learns
        the same rows again.

    References
    ----------
    Welford (1962), note on a method for calculating corrected sums of squares; Chan, Golub and
    LeVeque (1979), updating formulae and a pairwise algorithm for computing sample variances.
    """

    def __init__(self, n_columns: int) -> None:
        self.weights, self.means, self.squares = np.zeros((3, n_columns))
        self.lows, self.highs = np.full((2, n_columns), np.nan)
        self.before = self.state()

    @cached_property  # for rows that are predicted one by one
    def deviations(self) -> np.ndarray:
        """Standard deviations, (d,); 1 for constant columns."""
        deviations = np.sqrt(self.squares / np.where(self.weights > 0.0, self.weights, 1.0))
        return np.where(deviations <= ROUNDING * np.abs(self.means), 1.0, deviations)

    @property
    def shares(self) -> np.ndarray:
        """Standard deviations as shares of the columns' ranges, (d,); 1 for constant columns."""
        ranges = self.highs - self.lows
        return np.divide(self.deviations, ranges, out=np.ones(len(ranges)), where=ranges > 0.0)

    def follow(self, X: np.ndarray, row_weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Learn from rows one after the other, and return them raw and standardized, both (n, d).

        Each row is standardized by the scales so far. Missing entries become the mean so far.
        Splitting rows into several calls changes no bit.
        """
        self.before = self.state()
        self.__dict__.pop("deviations", None)
        if not np.count_nonzero(self.weights) and len(X):
            self.lows = np.fmin.reduce(X)
            self.highs = np.fmax.reduce(X)
        filled = np.array(X, dtype=np.float64, order="C")
        standardized = np.empty(X.shape)
        follow_rows(
            filled, row_weights, self.weights, self.means, self.squares, ROUNDING, standardized
        )
        return filled, standardized

    def apply(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return rows raw and standardized, both (n, d).

        Missing entries become the mean in a copy.
        """
        missing = np.isnan(X)
        if np.count_nonzero(missing):  # faster than any() for a few rows
            X = np.where(missing, self.means, X)
        return X, (X - self.means) / self.deviations

    def state(self) -> np.ndarray:
        """Return everything learned as an array, (5, d)."""
        return np.array([self.weights, self.means, self.squares, self.lows, self.highs])

    @classmethod
    def from_state(cls, state: np.ndarray) -> "ColumnScales":
        """Create scales from their :meth:`state`."""
        scales = cls(state.shape[1])
        copy = np.array(state, dtype=np.float64)
        scales.weights, scales.means, scales.squares, scales.lows, scales.highs = copy
        return scales

    def merge(self, other: "ColumnScales") -> None:
        """Add the rows of other scales of the same columns."""
        self.__dict__.pop("deviations", None)
        total = self.weights + other.weights
        share = other.weights / np.where(total > 0.0, total, 1.0)
        distance = other.means - self.means
        self.squares = self.squares + other.squares + self.weights * share * distance**2
        self.means = self.means + share * distance
        self.weights = total
        self.lows = np.fmin(self.lows, other.lows)
        self.highs = np.fmax(self.highs, other.highs)
