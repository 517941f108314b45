"""Dynamic programs over a second-order chain of ``n`` positions and ``K`` labels.

Every function takes ``unary`` (n, K), ``pairwise`` (1, K, K) and ``triples`` (K, K, K):
``pairwise[0, i, j]`` scores label ``i`` followed by ``j``, ``triples[i, j, k]`` scores ``i``
followed by ``j`` and then ``k``. Messages range over pairs of adjacent labels: O(n K^3). A score of
-inf forbids a part. A gold label of -1 is unknown.
"""

import numpy as np

from omkl._compilation import compiled

# Sums above this share of their bound are exact to rounding; numbers below 1e-308 of the bound
# underflow.
LEAST_SUM = 1e-200


@compiled
def viterbi(unary, pairwise, triples, costs, gold, cost_weight, labels):
    """Write the best labels (n,); return their score, costs included.

    With ``cost_weight > 0`` each label adds ``cost_weight * costs[gold, label]``; costs are (K, K).
    Ties go to the lowest last label, then to the lowest label before it, and so on.
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
        return local[0, labels[0]]
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
                    score = so_far + triples[i, j, k]
                    here[j, k] = score if score > here[j, k] else here[j, k]
        for j in range(n_labels):
            for k in range(n_labels):
                here[j, k] += pairwise[0, j, k] + local[t, k]
    highest = -np.inf
    labels[n - 2] = 0
    labels[n - 1] = 0
    for j in range(n_labels):
        for i in range(n_labels):
            if best[n - 1, i, j] > highest:
                highest = best[n - 1, i, j]
                labels[n - 2] = i
                labels[n - 1] = j
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
def forward_backward(
    unary, pairwise, triples, unary_marginals, pairwise_marginals, triple_marginals
):
    """Write marginals by recursions scaled to sum to one at every position; return log Z.

    The marginals have the shapes of the potentials. Return nan for one position, and if forward and
    backward messages hardly overlap, because numbers that underflow may then matter. Callers then
    switch to log space.
    """
    n, n_labels = unary.shape
    highest = -np.inf
    # entries are computed one by one: an assignment of an array would take seconds to compile
    weights = np.empty((n_labels, n_labels, n_labels))
    local = np.empty((n, n_labels, n_labels))
    forward = np.empty((n, n_labels, n_labels))
    for i in range(n_labels):
        for j in range(n_labels):
            for k in range(n_labels):
                highest = triples[i, j, k] if triples[i, j, k] > highest else highest
                triple_marginals[i, j, k] = 0.0
            pairwise_marginals[0, i, j] = 0.0
    for i in range(n_labels):
        for j in range(n_labels):
            for k in range(n_labels):
                weights[i, j, k] = np.exp(triples[i, j, k] - highest)
    log_partition = highest * (n - 2)
    for t in range(1, n):
        here = local[t]
        arriving = forward[t]
        highest = -np.inf
        for i in range(n_labels):
            score_of_first = unary[0, i] if t == 1 else 0.0
            for j in range(n_labels):
                here[i, j] = pairwise[0, i, j] + unary[t, j] + score_of_first
                highest = here[i, j] if here[i, j] > highest else highest
                arriving[i, j] = 0.0 if t > 1 else 1.0
        log_partition += highest
        if t > 1:
            for i in range(n_labels):
                for j in range(n_labels):
                    before = forward[t - 1, i, j]
                    for k in range(n_labels):
                        arriving[j, k] += before * weights[i, j, k]
        total = 0.0
        for i in range(n_labels):
            for j in range(n_labels):
                here[i, j] = np.exp(here[i, j] - highest)
                arriving[i, j] *= here[i, j]
                total += arriving[i, j]
        if not total > LEAST_SUM:
            return np.nan
        for i in range(n_labels):
            for j in range(n_labels):
                arriving[i, j] /= total
        log_partition += np.log(total)
    backward = np.empty((n_labels, n_labels))
    following = np.empty((n_labels, n_labels))
    backward[:] = 1.0
    for t in range(n - 1, 0, -1):
        overlap = 0.0
        for i in range(n_labels):
            unary_marginals[t, i] = unary_marginals[t - 1, i] = 0.0
            for j in range(n_labels):
                following[i, j] = forward[t, i, j] * backward[i, j]
                overlap += following[i, j]
        if not overlap > LEAST_SUM:
            return np.nan
        for i in range(n_labels):
            for j in range(n_labels):
                following[i, j] /= overlap
                pairwise_marginals[0, i, j] += following[i, j]
                unary_marginals[t - 1, i] += following[i, j]
                unary_marginals[t, j] += following[i, j]
                backward[i, j] *= local[t, i, j]
        if t == 1:
            return log_partition
        overlap = 0.0
        highest = 0.0
        for i in range(n_labels):
            for j in range(n_labels):
                total = 0.0
                for k in range(n_labels):
                    total += weights[i, j, k] * backward[j, k]
                following[i, j] = total
                overlap += forward[t - 1, i, j] * total
                highest = total if total > highest else highest
        if not overlap > LEAST_SUM:
            return np.nan
        for i in range(n_labels):
            for j in range(n_labels):
                share = forward[t - 1, i, j] / overlap
                for k in range(n_labels):
                    triple_marginals[i, j, k] += share * weights[i, j, k] * backward[j, k]
        for i in range(n_labels):
            for j in range(n_labels):
                backward[i, j] = following[i, j] / highest
    return np.nan
