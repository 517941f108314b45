"""Compiled loop of :mod:`omkl.features.scales`."""

import numpy as np

from omkl._compilation import borrowing, compiled


@borrowing
def learn_row(row, row_weight, weights, means, squares):
    """Add the entries of a row (d,) to ``weights``, ``means`` and ``squares`` (d,).

    This is Welford's recursion. A missing entry has weight 0, and no branch of its own, so that
    several entries are computed at once. ``row_weight`` is positive.
    """
    for j in range(len(row)):
        weight = 0.0 if np.isnan(row[j]) else row_weight
        before = 0.0 if np.isnan(row[j]) else row[j] - means[j]
        total = weights[j] + weight
        # as long as all entries are missing, the total is 0, and must not divide
        share = np.divide(weight, max(total, row_weight))
        mean = means[j] + before * share
        after = 0.0 if np.isnan(row[j]) else row[j] - mean
        weights[j] = total
        means[j] = mean
        squares[j] += weight * before * after


@borrowing
def standardize_row(row, weights, means, squares, rounding, standardized):
    """Write the standardized entries of a row (d,), and the mean to its missing entries."""
    for j in range(len(row)):
        mean = means[j]
        entry = mean if np.isnan(row[j]) else row[j]
        variance = np.divide(squares[j], weights[j]) if weights[j] > 0.0 else 0.0
        deviation = np.sqrt(variance)
        scale = 1.0 if deviation <= rounding * abs(mean) else deviation
        standardized[j] = np.divide(entry - mean, scale)
        row[j] = entry


@compiled
def follow_rows(X, row_weights, weights, means, squares, rounding, standardized):
    """Learn rows by Welford's recursion, and standardize each by the scales that include it.

    Parameters
    ----------
    X : array of shape (n, d)
        Missing entries are NaN; changed: they are set to the mean of the column so far.
    row_weights : array of shape (n,)
    weights, means, squares : arrays of shape (d,)
        Changed: weight, mean and sum of squared deviations of the entries of each column.
    rounding : float
        Deviations up to this fraction of the mean count as those of a constant.
    standardized : array of shape (n, d)
        Set to the standardized rows, 0 where an entry is missing.
    """
    for i in range(X.shape[0]):
        row = X[i]
        if row_weights[i] > 0.0:
            learn_row(row, row_weights[i], weights, means, squares)
        standardize_row(row, weights, means, squares, rounding, standardized[i])
