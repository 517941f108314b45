"""Dynamic programs over a second-order chain of ``n`` positions and ``K`` labels.

Every function takes ``unary`` (n, K), ``pairwise`` (1, K, K) and ``triples`` (K, K, K):
``pairwise[0, i, j]`` scores label ``i`` followed by ``j``, ``triples[i, j, k]`` scores ``i``
followed by ``j`` and then ``k``. Messages range over pairs of adjacent labels: O(n K^3). A score of
-inf forbids a part. A gold label of -1 is unknown.
"""

import numpy as np

from omkl._compilation import borrowing, compiled
from omkl._pointers import flat
from omkl.structures._jit_labels import augment_labels, exponentiate, largest, scale_to_one

# Sums above this share of their bound are exact to rounding; numbers below 1e-308 of the bound
# underflow.
LEAST_SUM = 1e-200


@borrowing
def multiply(first, second, product):
    """Write the entrywise product of two vectors of the same length."""
    for k in range(first.shape[0]):
        product[k] = first[k] * second[k]


@compiled
def viterbi(labels_address, unary, pairwise, triples, gold, cost_weight, labels):
    """Write the best labels (n,); return their score, costs included.

    With ``cost_weight > 0`` each label adds ``cost_weight * costs[gold, label]``.
    Ties go to the lowest last label, then to the lowest label before it, and so on.
    """
    n, n_labels = unary.shape
    if n == 0:
        return 0.0
    local = unary.copy()
    if cost_weight != 0.0:
        augment_labels(labels_address, local, gold, cost_weight)
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

    The marginals have the shapes of the potentials, and are zero before. Return nan for one
    position, and if forward and backward messages hardly overlap, because numbers that underflow
    may then matter. Callers then switch to log space.
    """
    n, n_labels = unary.shape
    weights = np.empty((n_labels, n_labels, n_labels))
    local = np.empty((n, n_labels, n_labels))
    forward = np.empty((n, n_labels, n_labels))
    log_partition = exponentiate(flat(triples), flat(weights)) * (n - 2)
    for t in range(1, n):
        here = local[t]
        arriving = forward[t]
        for i in range(n_labels):
            score_of_first = unary[0, i] if t == 1 else 0.0
            for j in range(n_labels):
                here[i, j] = pairwise[0, i, j] + unary[t, j] + score_of_first
                arriving[i, j] = 0.0 if t > 1 else 1.0
        log_partition += exponentiate(flat(here), flat(here))
        if t > 1:
            for i in range(n_labels):
                for j in range(n_labels):
                    before = forward[t - 1, i, j]
                    for k in range(n_labels):
                        arriving[j, k] += before * weights[i, j, k]
        multiply(flat(arriving), flat(here), flat(arriving))
        total = scale_to_one(flat(arriving))
        if not total > LEAST_SUM:
            return np.nan
        log_partition += np.log(total)
    backward = np.empty((n_labels, n_labels))
    following = np.empty((n_labels, n_labels))
    backward[:] = 1.0
    for t in range(n - 1, 0, -1):
        multiply(flat(forward[t]), flat(backward), flat(following))
        if not scale_to_one(flat(following)) > LEAST_SUM:
            return np.nan
        for i in range(n_labels):
            for j in range(n_labels):
                pairwise_marginals[0, i, j] += following[i, j]
                unary_marginals[t, j] += following[i, j]
        if t == 1:
            for i in range(n_labels):
                for j in range(n_labels):
                    unary_marginals[0, i] += following[i, j]
            return log_partition
        multiply(flat(backward), flat(local[t]), flat(backward))
        overlap = 0.0
        for i in range(n_labels):
            for j in range(n_labels):
                total = 0.0
                for k in range(n_labels):
                    total += weights[i, j, k] * backward[j, k]
                following[i, j] = total
                overlap += forward[t - 1, i, j] * total
        if not overlap > LEAST_SUM:
            return np.nan
        for i in range(n_labels):
            for j in range(n_labels):
                share = forward[t - 1, i, j] / overlap
                for k in range(n_labels):
                    triple_marginals[i, j, k] += share * weights[i, j, k] * backward[j, k]
        highest = largest(flat(following))
        for i in range(n_labels):
            for j in range(n_labels):
                backward[i, j] = following[i, j] / highest
    return np.nan
