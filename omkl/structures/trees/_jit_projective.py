"""Projective dependency trees: Eisner's (1996) dynamic program over the root 0 and n tokens.

A complete span is a head with all its descendants on one side. An incomplete span is an arc with
everything below it. The root is a token at the left end without incoming arcs. If it must have a
single child, its only complete span is the whole sentence.

The charts are stored by rows. ``right[i, j]`` and ``left[i, j]`` are complete spans ``i .. j``
whose head is the left or the right end; ``rightward[i, j]`` and ``leftward[i, j]`` are the
incomplete ones. ``under[i, j]`` is the part below an arc between the ends, and ``after`` is
``left`` shifted up by a row:

    under[i, j] = highest over k of right[i, k] + after[k, j]
    rightward[i, j], leftward[i, j] = under[i, j] plus the score of the arc
    right[i, j] = highest over k of rightward[i, k] + right[k, j]
    left[i, j]  = highest over k of left[i, k] + leftward[k, j]

The spans that begin at one token are computed together, from the last token to the first, eight
spans at a time.

The same recursions serve for scores, for weights, and for logs of weights, see
:mod:`._jit_semirings`: ``both`` joins adjacent spans, and ``either`` chooses among alternatives.
Arcs are (n + 1, n + 1), by head and modifier. Charts are (N_KINDS, n + 1, n + 1 + WIDTH).

Weights are relative to the heaviest arc into each token, so the weight of a span is at most the
number of its trees, at most 6.75 per token. If a weight that underflows might matter, there is no
result; logs are slow, but accurate at any magnitude.
"""

import numpy as np

from omkl._compilation import borrowing, compiled, inner
from omkl._pointers import flat
from omkl.structures._jit_labels import normalize
from omkl.structures.trees._jit_semirings import (
    LOGS,
    SCORES,
    WEIGHTS,
    both,
    either,
    include,
    relative_scores,
)

#: Log of the smallest normal number; log of the growth of the number of trees per token (27 / 4).
SMALLEST, GROWTH = -708.0, 1.91
#: Log of the relative error that omitted spans may cause.
NEGLIGIBLE = -42.0
#: Kinds of spans: the first axis of charts.
RIGHT, LEFT, RIGHTWARD, LEFTWARD, UNDER, AFTER, N_KINDS = range(7)
#: Columns of a span that is traced.
KIND, BEGIN, END, N_COLUMNS = range(4)
#: Columns that are processed together; charts have as many extra columns.
WIDTH = 8


@compiled
def join(target, i, column, numbers, k, rows, first, last, semiring):
    """Join spans that meet at tokens ``first <= t < last``, in WIDTH columns from ``column`` on.

    For each t and j, ``target[i, j]`` becomes :func:`either` this or
    ``both(numbers[k, t], rows[t, j])``. All three arrays are (n + 1, n + 1 + WIDTH).
    """
    # unsigned indices let the compiler read several entries at once
    i = np.uintp(i)
    k = np.uintp(k)
    for t in range(np.uintp(first), np.uintp(last)):
        number = numbers[k, t]
        for j in range(np.uintp(column), np.uintp(column + WIDTH)):
            target[i, j] = either(target[i, j], both(number, rows[t, j], semiring), semiring)


@compiled
def fill(chart, arcs, single_root, semiring):
    """Fill a chart with the best score of every span, or with the sum of the weights of its trees.

    ``arcs`` are numbers of the semiring. The chart has the number for no tree before: 0 for
    weights, and -inf for scores and logs.
    """
    n = arcs.shape[0] - 1
    nothing = chart[UNDER, 0, 0]
    empty = 1.0 if len(semiring) == 1 else 0.0
    right, left, after = chart[RIGHT], chart[LEFT], chart[AFTER]
    rightward, leftward, under = chart[RIGHTWARD], chart[LEFTWARD], chart[UNDER]
    for i in range(n, -1, -1):
        right[i, i] = left[i, i] = empty
        one_child = single_root and i == 0
        for first in range(i + 1, n + 1, WIDTH):
            # a root with a single child has one complete span, the whole sentence, at the end of
            # the row
            end_of_under = i + 1 if one_child else first
            join(under, i, first, right, i, after, i, end_of_under, semiring)
            join(right, i, first, rightward, i, right, i + 1, first, semiring)
            join(left, i, first, left, i, leftward, i + 1, first, semiring)
            end = min(first + WIDTH, n + 1)
            for k in range(first, end):
                rightward[i, k] = both(under[i, k], arcs[i, k], semiring)
                leftward[i, k] = nothing
                if i > 0:
                    leftward[i, k] = both(under[i, k], arcs[k, i], semiring)
                right[i, k] = either(right[i, k], rightward[i, k], semiring)
                left[i, k] = either(left[i, k], leftward[i, k], semiring)
                for j in range(k + 1, end):
                    include(right, (i, j), rightward[i, k], right[k, j], semiring)
                    include(left, (i, j), left[i, k], leftward[k, j], semiring)
                    if not one_child:
                        include(under, (i, j), right[i, k], after[k, j], semiring)
        if i > 0:
            for k in range(left.shape[1]):
                after[i - 1, k] = left[i, k]


@borrowing
def _put(span, kind, first, last):
    """Describe a span (N_COLUMNS,); to assign a whole row would take two seconds to compile."""
    span[KIND] = kind
    span[BEGIN] = first
    span[END] = last


@compiled
def split(spans, others, i, j, first, last, score):
    """Return the first k, at most ``last``, at which spans i .. k and k .. j have this score.

    ``spans`` and ``others`` (n + 1, n + 1 + WIDTH) are the parts of a chart with these spans.
    """
    for k in range(first, last):
        if spans[i, k] + others[k, j] == score:
            return k
    return last


@compiled
def trace(chart, heads):
    """Write the heads (n,) of the best tree in a chart of scores; ties go to the first split."""
    n = heads.shape[0]
    spans = np.empty((2 * n + 2, N_COLUMNS), np.int64)
    _put(spans[0], RIGHT, 0, n)
    n_spans = 1
    while n_spans:
        n_spans -= 1
        kind, i, j = spans[n_spans]
        if i == j:
            continue
        if kind == RIGHT:
            k = split(chart[RIGHTWARD], chart[RIGHT], i, j, i + 1, j, chart[RIGHT, i, j])
            heads[k - 1] = i
            _put(spans[n_spans], UNDER, i, k)
            _put(spans[n_spans + 1], RIGHT, k, j)
        elif kind == LEFT:
            k = split(chart[LEFT], chart[LEFTWARD], i, j, i, j - 1, chart[LEFT, i, j])
            heads[k - 1] = j
            _put(spans[n_spans], LEFT, i, k)
            _put(spans[n_spans + 1], UNDER, k, j)
        else:
            k = split(chart[RIGHT], chart[AFTER], i, j, i, j - 1, chart[UNDER, i, j])
            _put(spans[n_spans], RIGHT, i, k)
            _put(spans[n_spans + 1], LEFT, k + 1, j)
        n_spans += 2


@compiled
def decode(scores, single_root, heads):
    """Write the heads (n,) of the best projective tree; return False if there is none.

    Return False, too, if a score is nan or +inf.
    """
    n = heads.shape[0]
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m and not scores[h, m] < np.inf:
                return False
    chart = np.full((N_KINDS, n + 1, n + 1 + WIDTH), -np.inf)
    fill(chart, scores, single_root, SCORES)
    if not chart[RIGHT, 0, n] > -np.inf:
        return False
    trace(chart, heads)
    return True


@borrowing
def descend_from_longer(i, first, by_end, slopes, single_root, semiring):
    """Add to the slopes of spans i .. j what comes from spans that begin further to the left.

    These are WIDTH columns j from ``first`` on. ``by_end`` is the chart by the ends of spans.
    """
    of_right, of_left, of_under = slopes[RIGHT], slopes[LEFT], slopes[UNDER]
    join(of_right, i, first, by_end[RIGHTWARD], i, of_right, 0, i, semiring)
    join(slopes[LEFTWARD], i, first, by_end[LEFT], i, of_left, 0, i, semiring)
    if i > 0:
        # of a root with a single child, only the split behind the root counts
        first_row = int(single_root and i > 1)
        join(of_left, i, first, by_end[RIGHT], i - 1, of_under, first_row, i, semiring)


@borrowing
def descend_in_row(i, first, chart, by_end, slopes, weights, single_root, semiring, expected):
    """Add to the slopes of spans i .. j what comes from longer spans of the same row.

    These are WIDTH columns j from ``first`` on. ``by_end`` is the chart by the ends of spans. Write
    the marginals of the arcs between i and j into ``expected``.
    """
    n = weights.shape[0] - 1
    of_right, of_left, of_under = slopes[RIGHT], slopes[LEFT], slopes[UNDER]
    of_rightward, of_leftward = slopes[RIGHTWARD], slopes[LEFTWARD]
    one_child = single_root and i == 0
    end = min(first + WIDTH, n + 1)
    if not one_child:
        join(of_right, i, first, of_under, i, by_end[AFTER], end, n + 1, semiring)
    join(of_left, i, first, of_left, i, by_end[LEFTWARD], end, n + 1, semiring)
    join(of_rightward, i, first, of_right, i, by_end[RIGHT], end, n + 1, semiring)
    for k in range(end - 1, first - 1, -1):
        for j in range(k + 1, end):
            if not one_child:
                include(of_right, (i, k), of_under[i, j], chart[AFTER, k, j], semiring)
            include(of_left, (i, k), of_left[i, j], chart[LEFTWARD, k, j], semiring)
            include(of_rightward, (i, k), of_right[i, j], chart[RIGHT, k, j], semiring)
        of_rightward[i, k] = either(of_rightward[i, k], of_right[i, k], semiring)
        of_leftward[i, k] = either(of_leftward[i, k], of_left[i, k], semiring)
        expected[i, k] = both(of_rightward[i, k], chart[RIGHTWARD, i, k], semiring)
        expected[k, i] = both(of_leftward[i, k], chart[LEFTWARD, i, k], semiring)
        of_under[i, k] = both(of_rightward[i, k], weights[i, k], semiring)
        include(of_under, (i, k), of_leftward[i, k], weights[k, i], semiring)


@inner
def descend_sums(chart, weights, single_root, slope, semiring, expected):
    """Write the marginals of arcs into ``expected``: derivatives of the log of the sum.

    The slopes of spans, an array of the shape of the chart, follow in the reverse order of
    :func:`fill`, from the ``slope`` of the sum. Numbers are those of the semiring.
    """
    n = weights.shape[0] - 1
    nothing = chart[UNDER, 0, 0]
    by_end = np.full(chart.shape, nothing)  # the chart with rows of spans that end at one token
    for span in (RIGHT, LEFT, RIGHTWARD, LEFTWARD, AFTER):
        for i in range(n + 1):
            for j in range(n + 1):
                by_end[span, j, i] = chart[span, i, j]
    slopes = np.full(chart.shape, nothing)
    slopes[RIGHT, 0, n] = slope
    for i in range(n + 1):
        for first in range(i + 1, n + 1, WIDTH):
            descend_from_longer(i, first, by_end, slopes, single_root, semiring)
        n_later_blocks = (n - i - 1) // WIDTH
        for first in range(i + 1 + n_later_blocks * WIDTH, i, -WIDTH):
            descend_in_row(
                i, first, chart, by_end, slopes, weights, single_root, semiring, expected
            )


@compiled
def marginals(scores, single_root, expected):
    """Write arc marginals into the zero array ``expected`` (n + 1, n + 1); return log Z.

    Return +inf if a score is nan or +inf. Return nan, and write nothing, if the range of the
    weights exceeds floating point, or there is no tree.
    """
    n = scores.shape[0] - 1
    weights, shift = relative_scores(scores)
    if shift == np.inf:
        return shift
    if shift == -np.inf:
        return np.nan
    entries = flat(weights)
    for arc in range(len(entries)):
        entries[arc] = np.exp(entries[arc])
    chart = np.zeros((N_KINDS, n + 1, n + 1 + WIDTH))
    fill(chart, weights, single_root, WEIGHTS)
    total = chart[RIGHT, 0, n]
    if not total < np.inf:
        return np.nan
    # up to (n + 1)^3 products of spans may have underflowed, each for up to (27 / 4)^n trees
    least = SMALLEST + GROWTH * n + 3.0 * np.log(n + 1.0) - NEGLIGIBLE
    if not np.log(total) > least:
        return np.nan
    descend_sums(chart, weights, single_root, 1.0 / total, WEIGHTS, expected)
    return shift + np.log(total)


@compiled
def marginals_in_logs(scores, best, single_root, expected):
    """Write arc marginals (n + 1, n + 1) for scores of any magnitude; return log Z.

    There is a tree, ``best`` (n,), which is not needed.
    """
    n = scores.shape[0] - 1
    log_weights, shift = relative_scores(scores)
    chart = np.full((N_KINDS, n + 1, n + 1 + WIDTH), -np.inf)
    fill(chart, log_weights, single_root, LOGS)
    total = chart[RIGHT, 0, n]
    descend_sums(chart, log_weights, single_root, -total, LOGS, expected)
    # large logs are not exact: the probabilities of the heads of each token are scaled to one
    for m in range(n + 1):
        expected[m, m] = -np.inf
        if m > 0:
            normalize(expected[:, m])
        expected[m, 0] = 0.0
    return shift + total
