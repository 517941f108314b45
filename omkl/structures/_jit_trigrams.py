"""Dynamic programs over a second-order chain of ``n`` positions and ``K`` labels.

Every function takes ``unary`` (n, K), ``pairwise`` (1, K, K) and ``triples`` (K, K, K): ``pairwise[0, i, j]`` scores
label ``i`` followed by ``j``, ``triples[i, j, k]`` scores ``i`` followed by ``j`` and then ``k``. Messages range over
pairs of adjacent labels: O(n K^3). A score of -inf forbids a part. A gold label of -1 is unknown.
"""

import numpy as np

from omkl._compilation import compiled

# Sums above this share of their bound are exact to rounding; numbers below 1e-308 of the bound underflow.
LEAST_SUM = 1e-200


@compiled
def viterbi(unary, pairwise, triples, costs, gold, cost_weight, labels):
    """Write the best labels; with ``cost_weight > 0`` each label adds ``cost_weight * costs[gold, label]``.

    Return the score of the best labelling, costs included. Ties go to the lowest last label, then to the lowest label
    before it, and so on.
    """
    n, n_labels = unary.shape
    local = unary.copy()
    if cost_weight != 0.0:
        for t in range(n):
            if gold[t] >= 0:
                for j in range(n_labels):
                    local[t, j] += cost_weight * costs[gold[t], j]
    if n == 1:
        labels[0] = np.argmax(local[0])
        return local[0].max()
    best = np.empty((n, n_labels, n_labels))
    for i in range(n_labels):
        for j in range(n_labels):
            best[1, i, j] = local[0, i] + pairwise[0, i, j] + local[1, j]
    for t in range(2, n):
        here = best[t]
        here[:] = -np.inf
        for i in range(n_labels):
            for j in range(n_labels):
                so_far = best[t - 1, i, j]
                for k in range(n_labels):
                    here[j, k] = max(here[j, k], so_far + triples[i, j, k])
        for j in range(n_labels):
            for k in range(n_labels):
                here[j, k] += pairwise[0, j, k] + local[t, k]
    highest = -np.inf
    labels[n - 2 :] = 0
    for j in range(n_labels):
        for i in range(n_labels):
            if best[n - 1, i, j] > highest:
                highest = best[n - 1, i, j]
                labels[n - 2], labels[n - 1] = i, j
    for t in range(n - 1, 1, -1):
        arriving = -np.inf
        labels[t - 2] = 0
        for i in range(n_labels):
            score = best[t - 1, i, labels[t - 1]] + triples[i, labels[t - 1], labels[t]]
            if score > arriving:
                arriving = score
                labels[t - 2] = i
    return highest


@compiled
def forward_backward(unary, pairwise, triples, unary_marginals, pairwise_marginals, triple_marginals):
    """Write marginals by recursions scaled to sum to one at every position; return log Z.

    Return nan for one position, and if forward and backward messages hardly overlap, because numbers that underflow may
    then matter. Callers then switch to log space.
    """
    n, n_labels = unary.shape
    highest = triples.max()
    weights = np.exp(triples - highest)
    log_partition = highest * (n - 2)
    local, forward = np.empty((n, n_labels, n_labels)), np.zeros((n, n_labels, n_labels))
    for t in range(1, n):
        for i in range(n_labels):
            for j in range(n_labels):
                local[t, i, j] = pairwise[0, i, j] + unary[t, j] + (unary[0, i] if t == 1 else 0.0)
        highest = local[t].max()
        log_partition += highest
        local[t] = np.exp(local[t] - highest)
        for i in range(n_labels if t > 1 else 0):
            for j in range(n_labels):
                before = forward[t - 1, i, j]
                for k in range(n_labels):
                    forward[t, j, k] += before * weights[i, j, k]
        forward[t] = forward[t] * local[t] if t > 1 else local[t]
        total = forward[t].sum()
        if not total > LEAST_SUM:
            return np.nan
        forward[t] /= total
        log_partition += np.log(total)
    unary_marginals[:], pairwise_marginals[:], triple_marginals[:] = 0.0, 0.0, 0.0
    backward, following = np.ones((n_labels, n_labels)), np.empty((n_labels, n_labels))
    for t in range(n - 1, 0, -1):
        pairs = forward[t] * backward
        overlap = pairs.sum()
        if not overlap > LEAST_SUM:
            return np.nan
        pairs /= overlap
        pairwise_marginals[0] += pairs
        unary_marginals[t] = pairs.sum(axis=0)
        if t == 1:
            unary_marginals[0] = pairs.sum(axis=1)
            return log_partition
        incoming = local[t] * backward
        overlap = 0.0
        for i in range(n_labels):
            for j in range(n_labels):
                total = 0.0
                for k in range(n_labels):
                    total += weights[i, j, k] * incoming[j, k]
                following[i, j] = total
                overlap += forward[t - 1, i, j] * total
        if not overlap > LEAST_SUM:
            return np.nan
        for i in range(n_labels):
            for j in range(n_labels):
                share = forward[t - 1, i, j] / overlap
                for k in range(n_labels):
                    triple_marginals[i, j, k] += share * weights[i, j, k] * incoming[j, k]
        backward = following / following.max()
    return np.nan
