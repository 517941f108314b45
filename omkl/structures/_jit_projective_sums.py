"""Marginals of projective dependency trees from sums of weights, which take a product where logs take an exponential.

The spans are those of ``_jit_projective``. All spans that begin at one token are found together, tokens from the last
to the first, eight spans side by side: every combination is a sum of rows of the chart times numbers. Weights are
relative to the heaviest arc into each token, so no span weighs more than there are trees over it, at most 6.75 for each
token. A span whose weight is too small for a number can be left out only if that does not tell in the sum over whole
trees; where it might, there is no answer, and logs have to be taken.
"""

import numpy as np

from omkl._compilation import compiled

#: Log of the smallest normal number; log of the growth of the number of trees with each token (27 / 4).
SMALLEST, GROWTH = -708.0, 1.91
#: Log of the relative error that what is left out may make up.
NEGLIGIBLE = -42.0
#: Columns that are summed side by side; rows of the chart have as many to spare.
WIDTH = 8

#: Rows of the chart: weights of spans ``i .. j`` at ``i, j``. ``UNDER`` is what an arc between both ends spans, without
#: the arc; ``AFTER`` has the left spans of the next token, ``LEFT`` shifted by a row.
RIGHT, LEFT, RIGHTWARD, LEFTWARD, UNDER, AFTER = 0, 1, 2, 3, 4, 5


@compiled
def marginals(scores, single_root, expected):
    """Arc marginals into the zero array ``expected``; returns log Z, -inf if there is no tree, +inf for bad scores.

    NaN, and nothing in ``expected``, where weights are too far apart for numbers.
    """
    n = scores.shape[0] - 1
    weights = np.zeros(scores.shape)
    highest = np.full(n + 1, -np.inf)
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m:
                if not scores[h, m] < np.inf:
                    return np.inf
                highest[m] = max(highest[m], scores[h, m])
    shift = highest[1:].sum()
    if shift == -np.inf:
        return shift
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m:
                weights[h, m] = np.exp(scores[h, m] - highest[m])
    chart = np.zeros((6, n + 1, n + 1 + WIDTH))
    ascend(chart, weights, single_root)
    total = chart[RIGHT, 0, n]
    if not total < np.inf or not np.log(total) > SMALLEST + GROWTH * n + 3.0 * np.log(n + 1.0) - NEGLIGIBLE:
        return np.nan
    descend(chart, weights, single_root, expected)
    return shift + np.log(total)


@compiled
def ascend(chart, weights, single_root):
    """Sums of the weights of all spans."""
    n = weights.shape[0] - 1
    right, left, leftward, after = chart[RIGHT], chart[LEFT], chart[LEFTWARD], chart[AFTER]
    rightward, under = chart[RIGHTWARD], chart[UNDER]
    for i in range(n, -1, -1):
        right[i, i] = left[i, i] = 1.0
        one_child = single_root and i == 0
        for first in range(i + 1, n + 1, WIDTH):
            # of a root with one child, no span is complete but the whole sentence, which is the last of the row
            add_rows(under, i, first, right, i, after, i, i + 1 if one_child else first)
            add_rows(right, i, first, rightward, i, right, i + 1, first)
            add_rows(left, i, first, left, i, leftward, i + 1, first)
            last = min(first + WIDTH, n + 1)
            for k in range(first, last):
                rightward[i, k] = under[i, k] * weights[i, k]
                leftward[i, k] = under[i, k] * weights[k, i]
                right[i, k] += rightward[i, k]
                left[i, k] += leftward[i, k]
                for j in range(k + 1, last):
                    right[i, j] += rightward[i, k] * right[k, j]
                    left[i, j] += left[i, k] * leftward[k, j]
                    if not one_child:
                        under[i, j] += right[i, k] * after[k, j]
        if i > 0:
            after[i - 1] = left[i]


@compiled
def descend(chart, weights, single_root, expected):
    """What the log of the sum over all trees changes by with each span, the reverse of :func:`ascend`; its arcs'."""
    n = weights.shape[0] - 1
    by_end = np.zeros((6, n + 1, n + 1 + WIDTH))
    for kind in (RIGHT, LEFT, RIGHTWARD, LEFTWARD, AFTER):
        by_end[kind, :, : n + 1] = chart[kind, :, : n + 1].T
    right, left, rightward = by_end[RIGHT], by_end[LEFT], by_end[RIGHTWARD]
    slopes = np.zeros(chart.shape)
    of_right, of_left, of_leftward, of_under = slopes[RIGHT], slopes[LEFT], slopes[LEFTWARD], slopes[UNDER]
    of_rightward = slopes[RIGHTWARD]
    of_right[0, n] = 1.0 / chart[RIGHT, 0, n]
    for i in range(n + 1):
        for first in range(i + 1, n + 1, WIDTH):
            # from rows that begin further to the left
            add_rows(of_right, i, first, rightward, i, of_right, 0, i)
            add_rows(of_leftward, i, first, left, i, of_left, 0, i)
            if i > 0:
                add_rows(of_left, i, first, right, i - 1, of_under, int(single_root and i > 1), i)
        one_child = single_root and i == 0
        for first in range(i + 1 + (n - i - 1) // WIDTH * WIDTH, i, -WIDTH):
            last = min(first + WIDTH, n + 1)
            if not one_child:
                add_rows(of_right, i, first, of_under, i, by_end[AFTER], last, n + 1)
            add_rows(of_left, i, first, of_left, i, by_end[LEFTWARD], last, n + 1)
            add_rows(of_rightward, i, first, of_right, i, right, last, n + 1)
            for k in range(last - 1, first - 1, -1):
                for j in range(k + 1, last):
                    if not one_child:
                        of_right[i, k] += of_under[i, j] * chart[AFTER, k, j]
                    of_left[i, k] += of_left[i, j] * chart[LEFTWARD, k, j]
                    of_rightward[i, k] += of_right[i, j] * chart[RIGHT, k, j]
                of_rightward[i, k] += of_right[i, k]
                of_leftward[i, k] += of_left[i, k]
                expected[i, k] = of_rightward[i, k] * chart[RIGHTWARD, i, k]
                expected[k, i] = of_leftward[i, k] * chart[LEFTWARD, i, k]
                of_under[i, k] = of_rightward[i, k] * weights[i, k] + of_leftward[i, k] * weights[k, i]


@compiled
def add_rows(target, i, column, numbers, k, rows, first, last):
    """Add ``numbers[k, t]`` times ``rows[t]``, t in ``first : last``, to row i: eight columns from ``column`` on."""
    i, k = np.uintp(i), np.uintp(k)  # of indices that cannot be negative, several are read at once
    for t in range(np.uintp(first), np.uintp(last)):
        number = numbers[k, t]
        for j in range(np.uintp(column), np.uintp(column + WIDTH)):
            target[i, j] += number * rows[t, j]
