r"""Log-partition and marginals of all arborescences of a dense score matrix, without subtractions.

The Matrix-Tree theorem (Tutte 1984; Koo et al. 2007) uses the determinant and the inverse of the
Laplacian. These lose all accuracy if the best heads form a cycle, because the Laplacian is then
nearly singular. Instead, eliminate one token after the other from the graph (Grassmann, Taksar and
Heyman 1985). Let a token's ancestors be a random walk that goes from ``m`` to its head ``h`` with
probability ``W[h, m] / sum_h W[h, m]``. Eliminating ``k`` gives

.. math::

    W'[h, m] = W[h, m] + W[h, k] W[k, m] / p_k, \qquad p_k = \sum_{h \neq k} W[h, k], \qquad
    Z = \prod_k p_k,

and the marginal of an arc is, for the walk stopped at the root 0 (Wilson 1996),

.. math::

    \mu[h, m] \propto W[h, m] \, P(\text{the walk from } h \text{ meets } 0 \text{ before } m).

All terms are positive, so every number has nearly full relative accuracy, even if the Laplacian is
nearly singular. Each ``m`` requires the elimination of all other tokens; recursive halving of the
set of tokens shares this work, O(n^3) in total.

For a single root child, the weights of the root's arcs are multiplied by a tiny number, so that
trees with one root child outweigh all others by far. Without subtractions, such small numbers stay
accurate.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled, inner
from omkl.structures._jit_labels import normalize, scale_to_one
from omkl.structures.trees._jit_semirings import (
    LOGS,
    WEIGHTS,
    as_log,
    both,
    either,
    include,
    nothing,
    relative_scores,
    without,
)

#: Factor of the root's arcs for a single root child, and its logarithm.
ROOT, LOG_ROOT = 1e-150, -345.38776394910684
#: Log of the smallest share of its bound for which Z is exact to rounding. Weights that underflow
#: are below 1e-300 of the bound, or below 1e-150 for a single root child.
LEAST_LOG_SHARE, LEAST_LOG_SHARE_SINGLE_ROOT = -460.0, -230.0
#: Columns of a task: its tokens ``LOW : HIGH`` remain of the tokens ``FROM_LOW : FROM_HIGH`` of the
#: level above.
LOW, HIGH, FROM_LOW, FROM_HIGH, LEVEL, N_COLUMNS = range(6)
#: Columns of the order of elimination: the token, and the range of tokens that were left with it.
TOKEN, FIRST, LAST, N_ENTRIES = range(4)


class Elimination(NamedTuple):
    """Probabilities of the random walk, written as each token is eliminated.

    ``probability_to_pass[i, k]`` (n, n) is the probability that the walk goes from k to i when k is
    eliminated, ``probability_of_root[k]`` (n,) that it then goes to the root. ``order``
    (n, N_ENTRIES) has the eliminated tokens. ``reaches_root`` (n,) is memory for the probability
    that the walk from each token ever goes to the root.
    """

    probability_to_pass: np.ndarray
    probability_of_root: np.ndarray
    reaches_root: np.ndarray
    order: np.ndarray


@inner
def find_shifts(scores, single_root, shifts):
    """Write the highest score of the arcs into each token; return False if one is nan or +inf.

    Writes to ``shifts`` (n,), 0 if no arc enters a token. Arcs of the root do not count for a
    single root child.
    """
    n = shifts.shape[0]
    for m in range(n):
        shifts[m] = -np.inf if single_root else scores[0, m + 1]
    is_unfit = False
    for h in range(n):
        for m in range(n):
            score = -np.inf if m == h else scores[h + 1, m + 1]
            shifts[m] = score if score > shifts[m] else shifts[m]
            is_unfit |= not score < np.inf
    for m in range(n):
        is_unfit |= not scores[0, m + 1] < np.inf
        shifts[m] = shifts[m] if shifts[m] > -np.inf else 0.0
    return not is_unfit


@inner
def exponentiate(scores, single_root, graph):
    """Write ``exp(score - shift of the column)`` to ``graph``; return the shift of log Z, a bound.

    ``graph`` is (n + 1, n). Every tree has one arc per column, so log Z has the sum of the shifts.
    With a single root child, the arc from the root has an additional shift. The bound is one of
    log Z of the graph: +inf if a score is nan or +inf, and nan if no arc leaves the root.
    """
    n = scores.shape[0] - 1
    shifts = np.empty(n)
    if not find_shifts(scores, single_root, shifts):
        return 0.0, np.inf
    root_shift = 0.0
    if single_root:
        root_shift = -np.inf
        for m in range(n):
            root_shift = max(root_shift, scores[0, m + 1] - shifts[m])
    if root_shift == -np.inf:
        return 0.0, np.nan
    from_root = 0.0
    for m in range(n):
        graph[0, m] = np.exp(scores[0, m + 1] - shifts[m] - root_shift)
        graph[0, m] *= ROOT if single_root else 1.0
        from_root += graph[0, m]
    sums = np.zeros(n)
    for h in range(n):
        for m in range(n):
            graph[h + 1, m] = 0.0 if m == h else np.exp(scores[h + 1, m + 1] - shifts[m])
            sums[m] += graph[h + 1, m]
    log_bound = np.log(from_root) if single_root else 0.0
    shift = root_shift - LOG_ROOT if single_root else 0.0
    for m in range(n):
        total = sums[m] if single_root else sums[m] + graph[0, m]
        log_bound += np.log(total) if total > 0.0 else 0.0
        shift += shifts[m]
    return shift, log_bound


@inner
def empty_levels(n):
    """Return memory for the graphs (n + 1, n) of all levels of elimination.

    Row 0 of a graph has the arcs of the root, i + 1 those of token i.
    """
    n_levels = 1
    while 2 ** (n_levels - 1) < n:
        n_levels += 1
    return np.empty((n_levels + 1, n + 1, n))


@borrowing
def copy_graph(source, target, low, high):
    """Copy the arcs among the tokens ``low : high``, and from the root into them.

    Writes to ``target``; it and ``source`` are graphs (n + 1, n).
    """
    for m in range(low, high):
        target[0, m] = source[0, m]
    for h in range(low + 1, high + 1):
        for m in range(low, high):
            target[h, m] = source[h, m]


@borrowing
def add_multiple(row, factor, other, semiring):
    """Add ``factor`` times another vector of the same length to a row."""
    for j in range(other.shape[0]):
        include(row, j, factor, other[j], semiring)


@borrowing
def eliminate(graph, low, high, from_low, from_high, elimination, semiring):
    """Eliminate the tokens ``from_low : from_high`` except ``low : high``; return log prod p_k.

    Return nan if a token has no arcs left. The remaining tokens are at either end, so they always
    form a range, and all loops run along rows of ``graph`` (n + 1, n). Writes to the graph and the
    elimination.
    """
    n = elimination.probability_of_root.shape[0]
    downwards = low == from_low
    n_eliminated = n - (from_high - from_low)
    n_steps = (from_high - from_low) - (high - low)
    log_pivots = 0.0
    for step in range(n_steps):
        k = from_high - 1 - step if downwards else from_low + step
        first, last = (low, k) if downwards else (k + 1, high)
        eliminated = elimination.order[n_eliminated + step]
        eliminated[TOKEN] = k
        eliminated[FIRST] = min(first, k)
        eliminated[LAST] = max(last, k + 1)
        pivot = graph[0, k]
        for i in range(first, last):
            pivot = either(pivot, graph[i + 1, k], semiring)
        if not pivot > nothing(semiring):
            return np.nan
        log_pivots += as_log(pivot, semiring)
        elimination.probability_of_root[k] = without(graph[0, k], pivot, semiring)
        leaving = graph[k + 1, first:last]
        add_multiple(graph[0, first:last], elimination.probability_of_root[k], leaving, semiring)
        for i in range(first, last):
            share = without(graph[i + 1, k], pivot, semiring)
            elimination.probability_to_pass[i, k] = share
            add_multiple(graph[i + 1, first:last], share, leaving, semiring)
    return log_pivots


@borrowing
def marginals_into(m, graph, elimination, semiring, expected):
    """Write the marginals of the arcs into ``m``, after all others were eliminated.

    ``graph`` (n + 1, n) has the weights of all arcs. Writes to column ``m + 1`` of ``expected``
    (n + 1, n + 1). Return the pivot of m, nan if it is 0.
    """
    reaches_root, probability_to_pass = elimination.reaches_root, elimination.probability_to_pass
    n = reaches_root.shape[0]
    for i in range(n):
        reaches_root[i] = elimination.probability_of_root[i]
    reaches_root[m] = nothing(semiring)
    for t in range(n - 2, -1, -1):
        i, first, last = elimination.order[t]
        probability = reaches_root[i]
        for k in range(first):
            include(reaches_root, k, probability, probability_to_pass[i, k], semiring)
        for k in range(last, n):
            include(reaches_root, k, probability, probability_to_pass[i, k], semiring)
    column = expected[:, m + 1]
    column[0] = graph[0, m]
    for h in range(n):
        column[h + 1] = both(graph[h + 1, m], reaches_root[h], semiring)
    # logs that are large have no room for that of a sum: divide by the sum of what is written
    total = normalize(column) if len(semiring) == 2 else scale_to_one(column)
    if not total > nothing(semiring):
        return np.nan
    return total


@borrowing
def _put(task, low, high, from_low, from_high, level):
    """Describe a task (N_COLUMNS,); to assign a whole row would take two seconds to compile."""
    task[LOW] = low
    task[HIGH] = high
    task[FROM_LOW] = from_low
    task[FROM_HIGH] = from_high
    task[LEVEL] = level


@inner
def sum_over_trees(graphs, log_bound, least, semiring, expected):
    """Write arc marginals into ``expected`` (n + 1, n + 1); return log Z of the first graph.

    Writes to all other ``graphs``. Return nan if log Z is not above ``log_bound`` by ``least``.
    """
    n = graphs.shape[2]
    tasks = np.empty((2 * graphs.shape[0], N_COLUMNS), np.int64)
    elimination = Elimination(
        probability_to_pass=np.empty((n, n)),
        probability_of_root=np.empty(n),
        reaches_root=np.empty(n),
        order=np.empty((n, N_ENTRIES), np.int64),
    )
    _put(tasks[0], 0, n, 0, n, 0)
    n_tasks = 1
    log_pivots = 0.0
    while n_tasks:
        n_tasks -= 1
        low, high, from_low, from_high, level = tasks[n_tasks]
        is_first_visit = low == 0
        if level > 0:
            copy_graph(graphs[level - 1], graphs[level], from_low, from_high)
            log_pivot = eliminate(
                graphs[level], low, high, from_low, from_high, elimination, semiring
            )
            if is_first_visit:
                log_pivots += log_pivot
            if not np.isfinite(log_pivot):
                return np.nan
        if high - low > 1:
            middle = (low + high) // 2
            _put(tasks[n_tasks], middle, high, low, high, level + 1)
            _put(tasks[n_tasks + 1], low, middle, low, high, level + 1)
            n_tasks += 2
            continue
        total = marginals_into(low, graphs[0], elimination, semiring, expected)
        if is_first_visit:
            log_pivots += as_log(total, semiring)
        if not log_pivots - log_bound > least or np.isnan(total):
            return np.nan
    return log_pivots


@compiled
def marginals(scores, single_root, expected):
    """Write arc marginals into the zero array ``expected`` (n + 1, n + 1); return log Z.

    Return +inf if a score is nan or +inf, and nan if numbers may have underflowed or there is no
    tree.
    """
    n = scores.shape[0] - 1
    graphs = empty_levels(n)
    shift, log_bound = exponentiate(scores, single_root, graphs[0])
    if not np.isfinite(log_bound):
        return log_bound
    least = LEAST_LOG_SHARE_SINGLE_ROOT if single_root else LEAST_LOG_SHARE
    return shift + sum_over_trees(graphs, log_bound, least, WEIGHTS, expected)


@compiled
def marginals_in_logs(scores, best, single_root, expected):
    """Write arc marginals (n + 1, n + 1) for scores of any magnitude; return log Z.

    ``best`` (n,) are the heads of a tree of the highest score. For a single root child, arcs from
    the root get a tiny weight, which makes trees with several of them negligible.
    """
    n = scores.shape[0] - 1
    relative, shift = relative_scores(scores)
    if single_root:
        # of at most (n + 1)^n trees, those with two such arcs weigh less than e^-40 of the best one
        far = 40.0 + n * np.log(n + 1.0)
        for m in range(1, n + 1):
            far -= relative[best[m - 1], m]
        shift += far
        for m in range(1, n + 1):
            relative[0, m] -= far
    graphs = empty_levels(n)
    for h in range(n + 1):
        for m in range(n):
            graphs[0, h, m] = relative[h, m + 1]
    return shift + sum_over_trees(graphs, 0.0, -np.inf, LOGS, expected)
