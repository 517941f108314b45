"""Inner products and distances between a few vectors and many, the many held column by column.

``columns`` is (d, C) and contiguous, as a part of it is not: the columns that are wanted are given by their bounds. The
loops run along rows of it without a reduction, so they vectorise, and a value depends on its two vectors alone, not on
where they lie. Columns are taken in tiles that stay in the cache while the few vectors pass over them.
"""

import numpy as np

from omkl._compilation import compiled

#: Columns of one tile, and vectors that pass over four rows of it while these are at hand.
TILE, ROWS = 512, 4
PRODUCTS, SQUARED, MANHATTAN = range(3)


@compiled
def compare(kind, X, columns, first, last):
    """Inner products ``X columns[:, first:last]``, or distances of the rows of X (n, d) from these: (n, last - first).

    Squared distances are sums of squared differences, exact also far from the origin.
    """
    n, d = X.shape
    out = np.zeros((n, last - first), X.dtype)
    n_even = d // 4 * 4
    for low in range(first, last, TILE):
        high = min(low + TILE, last)
        for top in range(0, n, ROWS):
            bottom = min(top + ROWS, n)
            for j in range(0, n_even, 4):
                y0, y1 = columns[j, low:high], columns[j + 1, low:high]
                y2, y3 = columns[j + 2, low:high], columns[j + 3, low:high]
                for i in range(top, bottom):
                    total = out[i, low - first : high - first]
                    x0, x1, x2, x3 = X[i, j], X[i, j + 1], X[i, j + 2], X[i, j + 3]
                    if kind == PRODUCTS:
                        for c in range(high - low):
                            total[c] += (x0 * y0[c] + x1 * y1[c]) + (x2 * y2[c] + x3 * y3[c])
                    elif kind == SQUARED:
                        for c in range(high - low):
                            d0, d1, d2, d3 = x0 - y0[c], x1 - y1[c], x2 - y2[c], x3 - y3[c]
                            total[c] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
                    else:
                        for c in range(high - low):
                            total[c] += (abs(x0 - y0[c]) + abs(x1 - y1[c])) + (abs(x2 - y2[c]) + abs(x3 - y3[c]))
            for j in range(n_even, d):
                y = columns[j, low:high]
                for i in range(top, bottom):
                    x, total = X[i, j], out[i, low - first : high - first]
                    if kind == PRODUCTS:
                        for c in range(high - low):
                            total[c] += x * y[c]
                    elif kind == SQUARED:
                        for c in range(high - low):
                            difference = x - y[c]
                            total[c] += difference * difference
                    else:
                        for c in range(high - low):
                            total[c] += abs(x - y[c])
    return out


@compiled
def chi_squared_distances(X, columns, first, last):
    """``sum_j (x_j - y_j)^2 / (x_j + y_j)``, (n, last - first), where a term without mass is 0."""
    n, d = X.shape
    out = np.zeros((n, last - first), X.dtype)
    for low in range(first, last, TILE):
        high = min(low + TILE, last)
        for i in range(n):
            total = out[i, low - first : high - first]
            for j in range(d):
                x, y = X[i, j], columns[j, low:high]
                for c in range(high - low):
                    mass = x + y[c]
                    difference = x - y[c]
                    total[c] += difference * difference / mass if mass != 0.0 else mass
    return out
