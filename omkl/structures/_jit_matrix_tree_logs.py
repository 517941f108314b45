"""The elimination of ``_jit_matrix_tree`` in logarithms: slower, and right at any magnitude and with forbidden arcs.

Sums of positive numbers are all it needs, so logarithms lose nothing. The probability of going to the root has two
rows: ``sure``, of order one, and ``rare``, of first order in the vanishing weight of the root's arcs, which is where a
single root child puts them. Rare arcs count only for a token that nothing else enters.
"""

import numpy as np

from omkl._compilation import compiled

SURE, RARE = 0, 1
# exp(-40) is below half a unit in the last place of 1
NEGLIGIBLE = -40.0


@compiled
def plus(a, b):
    """Return log(exp(a) + exp(b))."""
    high, low = (a, b) if a > b else (b, a)
    if not low - high > NEGLIGIBLE:  # also where both are -inf
        return high
    return high + np.log1p(np.exp(low - high))


@compiled
def marginals(scores, single_root, expected):
    """Write arc marginals into the zero array ``expected``; return log Z, -inf if there is no tree."""
    n = scores.shape[0] - 1
    n_levels = 1
    while 2 ** (n_levels - 1) < n:
        n_levels += 1
    # a level's graph: rows 0 and 1 the sure and the rare arcs from the root, row i + 2 the arcs from token i
    blocks = np.empty((n_levels + 1, n + 2, n))
    shift = fill(scores, single_root, blocks[0])
    passing = np.empty((n, n))
    direct = np.empty((2, n))
    order = np.empty((n, 3), np.int64)
    tasks = np.empty((2 * n_levels + 2, 5), np.int64)
    tasks[0] = 0, n, 0, n, 0
    n_tasks, log_pivots, n_rare = 1, 0.0, 0
    while n_tasks:
        n_tasks -= 1
        low, high, from_low, from_high, level = tasks[n_tasks]
        if level > 0:
            graph = blocks[level]
            graph[:, from_low:from_high] = blocks[level - 1, :, from_low:from_high]
            log_pivot, rare = eliminate(graph, low, high, from_low, from_high, passing, direct, order)
            if log_pivot == -np.inf:
                return -np.inf
            if low == 0:
                log_pivots += log_pivot
                n_rare += rare
        if high - low > 1:
            middle = (low + high) // 2
            tasks[n_tasks] = middle, high, low, high, level + 1
            tasks[n_tasks + 1] = low, middle, low, high, level + 1
            n_tasks += 2
            continue
        log_pivot, rare = escaping(low, blocks[0], passing, direct, order, expected)
        if low == 0:  # first visit of this level
            log_pivots += log_pivot
            if log_pivots == -np.inf or n_rare + rare > 1:
                return -np.inf
    return shift + log_pivots


@compiled
def fill(scores, single_root, graph):
    """Subtract from the scores the highest of each column; return the sum of these."""
    n = scores.shape[0] - 1
    shift = 0.0
    for m in range(n):
        highest = scores[0, m + 1]
        for h in range(n):
            if h != m:
                highest = max(highest, scores[h + 1, m + 1])
        highest = highest if highest > -np.inf else 0.0
        shift += highest
        graph[SURE, m] = -np.inf if single_root else scores[0, m + 1] - highest
        graph[RARE, m] = scores[0, m + 1] - highest if single_root else -np.inf
        for h in range(n):
            graph[h + 2, m] = -np.inf if m == h else scores[h + 1, m + 1] - highest
    return shift


@compiled
def eliminate(graph, low, high, from_low, from_high, passing, direct, order):
    """Eliminate from ``from_low : from_high`` all but ``low : high``; return log prod p_k, and how many were rare."""
    n = direct.shape[1]
    downwards = low == from_low
    n_done = n - (from_high - from_low)
    log_pivots, n_rare = 0.0, 0
    for step in range((from_high - from_low) - (high - low)):
        k = from_high - 1 - step if downwards else from_low + step
        first, last = (low, k) if downwards else (k + 1, high)
        order[n_done + step] = k, min(first, k), max(last, k + 1)
        pivot = graph[SURE, k]
        for i in range(first, last):
            pivot = plus(pivot, graph[i + 2, k])
        if pivot > -np.inf:
            direct[SURE, k] = graph[SURE, k] - pivot
            direct[RARE, k] = graph[RARE, k] - pivot
        else:
            pivot = graph[RARE, k]
            n_rare += 1
            direct[SURE, k] = 0.0
            direct[RARE, k] = -np.inf
        log_pivots += pivot
        if pivot == -np.inf:  # nothing enters k: there is no tree
            return -np.inf, n_rare
        for i in range(first, last):
            passing[i, k] = graph[i + 2, k] - pivot
            pass_on(graph, i + 2, passing[i, k], k, first, last)
        pass_on(graph, SURE, direct[SURE, k], k, first, last)
        pass_on(graph, RARE, direct[RARE, k], k, first, last)
    return log_pivots, n_rare


@compiled
def pass_on(graph, row, share, k, first, last):
    """Add to ``row`` the weights of the paths through ``k``."""
    if share > -np.inf:
        for j in range(first, last):
            graph[row, j] = plus(graph[row, j], share + graph[k + 2, j])


@compiled
def escaping(m, graph, passing, direct, order, expected):
    """Write the marginals of the arcs into ``m``, others eliminated; return log of its pivot, and if it was rare."""
    n = direct.shape[1]
    arriving = np.empty(n + 1)
    ever = np.empty(n)
    for way in (SURE, RARE):
        ever[:] = direct[way]
        ever[m] = -np.inf
        for t in range(n - 2, -1, -1):
            i, first, last = order[t]
            if ever[i] > -np.inf:
                for k in range(first):
                    ever[k] = plus(ever[k], ever[i] + passing[i, k])
                for k in range(last, n):
                    ever[k] = plus(ever[k], ever[i] + passing[i, k])
        arriving[0] = graph[way, m]
        arriving[1:] = graph[2:, m] + ever
        highest = arriving.max()
        if highest > -np.inf:
            break
    else:
        return -np.inf, 1
    total = 0.0
    for h in range(n + 1):
        total += np.exp(arriving[h] - highest)
    for h in range(n + 1):
        expected[h, m + 1] = np.exp(arriving[h] - highest) / total
    return highest + np.log(total), int(way)
