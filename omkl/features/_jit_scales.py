"""Compiled loop of :mod:`omkl.features.scales`."""

import numpy as np

from omkl._compilation import compiled


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
        for j in range(X.shape[1]):
            x = X[i, j]
            if np.isnan(x):
                X[i, j] = means[j]
                standardized[i, j] = 0.0
                continue
            if row_weights[i] > 0.0:
                weights[j] += row_weights[i]
                distance = x - means[j]
                means[j] += distance * (row_weights[i] / weights[j])
                squares[j] += row_weights[i] * distance * (x - means[j])
            deviation = 0.0
            if weights[j] > 0.0:
                deviation = np.sqrt(squares[j] / weights[j])
            if deviation <= rounding * abs(means[j]):
                deviation = 1.0
            standardized[i, j] = (x - means[j]) / deviation
