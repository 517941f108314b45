"""The labellings of a chain in the order of their scores, found one after the other."""

import numpy as np

from omkl._compilation import compiled


@compiled
def n_best_labellings(unary, pairwise, labels, scores):
    """Write the best labellings (n_best, n) and their ``scores`` (n_best,); return how many there are.

    Each labelling deviates from an earlier one: it shares its labels from position ``t`` on, has the predecessor of
    the next lower rank there, and the best labels before that (Lawler's partition over the lists of
    Viterbi predecessors). Each labelling has one such description, and O(n) deviations of its own. O(n K^2) for the
    first, O(n K log K) for each other one.
    """
    n, n_labels = unary.shape
    n_best = labels.shape[0]
    best = np.empty((n, n_labels))
    best[0] = unary[0]
    for t in range(1, n):
        for j in range(n_labels):
            highest = -np.inf
            for i in range(n_labels):
                highest = max(highest, best[t - 1, i] + _edge(pairwise, t, i, j))
            best[t, j] = highest + unary[t, j]
    # a candidate: score, the labelling that it deviates from (-1: none), position, rank of the predecessor there
    most = n_best * (n + 1) + 1
    totals = np.empty(most)
    described = np.empty((most, 3), np.int64)
    values = np.empty(n_labels)
    n_candidates = 0
    _arriving(unary, pairwise, best, n, 0, values)
    if values.max() > -np.inf:
        totals[0], described[0, 0], described[0, 1], described[0, 2] = values.max(), -1, n, 0
        n_candidates = 1
    found = 0
    while found < n_best and n_candidates > 0:
        chosen = np.argmax(totals[:n_candidates])
        total = totals[chosen]
        parent, t, rank = described[chosen, 0], described[chosen, 1], described[chosen, 2]
        n_candidates -= 1
        totals[chosen], described[chosen] = totals[n_candidates], described[n_candidates]
        own = labels[found]
        if parent >= 0:
            own[t:] = labels[parent, t:]
        for position in range(t, 0, -1):
            _arriving(unary, pairwise, best, position, own[position] if position < n else 0, values)
            order = np.argsort(-values, kind="mergesort")
            at = rank if position == t else 0
            own[position - 1] = order[at]
            # each lower rank at this position is another candidate, and so is each deviation at an earlier position
            if at + 1 < n_labels and values[order[at + 1]] > -np.inf:
                totals[n_candidates] = total + (values[order[at + 1]] - values[order[at]])
                described[n_candidates, 0], described[n_candidates, 1] = found, position
                described[n_candidates, 2] = at + 1
                n_candidates += 1
        scores[found] = total
        found += 1
    return found


@compiled
def _edge(pairwise, t, i, j):
    """Return the score of label ``i`` before ``j`` at position ``t``."""
    if pairwise.shape[0] == 0:
        return 0.0
    return pairwise[t - 1 if pairwise.shape[0] > 1 else 0, i, j]


@compiled
def _arriving(unary, pairwise, best, t, j, values):
    """Return the scores of the best labellings up to label ``j`` at ``t``, by the label before; at n, by the last."""
    n = unary.shape[0]
    for i in range(unary.shape[1]):
        values[i] = best[t - 1, i] + (_edge(pairwise, t, i, j) + unary[t, j] if t < n else 0.0)
