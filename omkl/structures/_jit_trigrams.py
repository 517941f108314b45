"""Dynamic programs over a second-order chain of ``n`` positions and ``K`` labels.

Every function takes ``unary`` (n, K), ``pairwise`` (1, K, K), whose ``[0, i, j]`` scores label ``i`` followed by ``j``,
and ``triples`` (K, K, K), whose ``[i, j, k]`` scores ``i`` followed by ``j`` and then ``k``. Messages are of pairs of
neighbouring labels: O(n K^3). What is not allowed scores -inf. A gold label of -1 is not known.
"""

import numpy as np

from omkl._compilation import compiled

# Sums of exponentials are exact to rounding where they are above this share of their largest term's scale.
LEAST_SUM = 1e-200


@compiled
def viterbi(unary, pairwise, triples, costs, gold, cost_weight, labels):
    """Write the best labels; with ``cost_weight > 0`` each label adds ``cost_weight * costs[gold, label]``.

    Return the score of the best labelling, costs included. The last label is the lowest among the best, then the one
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
def viterbi_many(unary, pairwise, triples, offsets, costs, labels):
    """Write the best labels of each sequence ``offsets[s] : offsets[s + 1]``, see :func:`viterbi`."""
    for s in range(offsets.shape[0] - 1):
        low, high = offsets[s], offsets[s + 1]
        if high > low:
            viterbi(unary[low:high], pairwise, triples, costs, labels[low:high], 0.0, labels[low:high])


@compiled
def score_labels(unary, pairwise, triples, labels):
    """Return the score of a labelling."""
    total = 0.0
    for t in range(labels.shape[0]):
        total += unary[t, labels[t]]
        if t > 0:
            total += pairwise[0, labels[t - 1], labels[t]]
        if t > 1:
            total += triples[labels[t - 2], labels[t - 1], labels[t]]
    return total


@compiled
def add_indicator(unary, pairwise, triples, labels, amount):
    """Add ``amount`` to every part of the labelling."""
    for t in range(labels.shape[0]):
        unary[t, labels[t]] += amount
        if t > 0:
            pairwise[0, labels[t - 1], labels[t]] += amount
        if t > 1:
            triples[labels[t - 2], labels[t - 1], labels[t]] += amount


@compiled
def forward_backward(unary, pairwise, triples, unary_marginals, pairwise_marginals, triple_marginals):
    """Write marginals by recursions on logarithms of messages; return log Z.

    Each trigram and each message is exponentiated once: the messages to a pair are scaled by the largest of them.
    Return nan where a sum is below 1e-200 of that scale; the caller then takes logarithms throughout.
    """
    n, n_labels = unary.shape
    if n == 1:
        triple_marginals[:], pairwise_marginals[:] = 0.0, 0.0
        return _softmax(unary[0], unary_marginals[0])
    highest = max(triples.max(), -1e300)
    weights = np.exp(triples - highest)
    local = np.empty((n, n_labels, n_labels))
    for t in range(1, n):
        for i in range(n_labels):
            for j in range(n_labels):
                local[t, i, j] = pairwise[0, i, j] + unary[t, j] + (unary[0, i] if t == 1 else 0.0)
    forward, backward = np.empty((n, n_labels, n_labels)), np.zeros((n, n_labels, n_labels))
    forward[1] = local[1]
    scaled, sums = np.empty((n_labels, n_labels)), np.empty((n_labels, n_labels))
    for t in range(2, n):
        largest = _exponentials_by_column(forward[t - 1], scaled)
        sums[:] = 0.0
        for i in range(n_labels):
            for j in range(n_labels):
                for k in range(n_labels):
                    sums[j, k] += scaled[i, j] * weights[i, j, k]
        if not _take_logs(sums, largest, highest, local[t], forward[t]):
            return np.nan
    for t in range(n - 2, 0, -1):
        largest = _exponentials_by_column((local[t + 1] + backward[t + 1]).T, scaled)
        for i in range(n_labels):
            for j in range(n_labels):
                total = 0.0
                for k in range(n_labels):
                    total += weights[i, j, k] * scaled[k, j]
                sums[j, i] = total
        if not _take_logs(sums, largest, highest, np.zeros((n_labels, n_labels)), scaled):
            return np.nan
        backward[t] = scaled.T
    top = forward[n - 1].max()
    log_partition = top + np.log(np.exp(forward[n - 1] - top).sum()) if top > -np.inf else -np.inf
    unary_marginals[:], pairwise_marginals[:], triple_marginals[:] = 0.0, 0.0, 0.0
    if log_partition == -np.inf:
        return log_partition
    for t in range(1, n):
        _add_pairs(forward[t] + backward[t], t, unary_marginals, pairwise_marginals)
        if t > 1:
            left, right = forward[t - 1], local[t] + backward[t]
            left_scale, right_scale = left.max(), right.max()
            left, right = np.exp(left - left_scale), np.exp(right - right_scale)
            total = 0.0
            for i in range(n_labels):
                for j in range(n_labels):
                    for k in range(n_labels):
                        total += left[i, j] * weights[i, j, k] * right[j, k]
            if not total > LEAST_SUM:
                return np.nan
            for i in range(n_labels):
                for j in range(n_labels):
                    share = left[i, j] / total
                    if share > 0.0:
                        for k in range(n_labels):
                            triple_marginals[i, j, k] += share * weights[i, j, k] * right[j, k]
    return log_partition


@compiled
def _softmax(scores, marginals):
    highest = scores.max()
    if highest == -np.inf:
        return highest
    marginals[:] = np.exp(scores - highest)
    total = marginals.sum()
    marginals /= total
    return highest + np.log(total)


@compiled
def _exponentials_by_column(logs, scaled):
    """Return exponentials of a matrix, each column relative to its largest entry, and these largest entries."""
    largest = np.empty(logs.shape[1])
    for j in range(logs.shape[1]):
        largest[j] = logs[:, j].max()
        for i in range(logs.shape[0]):
            scaled[i, j] = np.exp(logs[i, j] - largest[j]) if largest[j] > -np.inf else 0.0
    return largest


@compiled
def _take_logs(sums, largest, highest, local, out):
    """Take logarithms of sums whose row j is relative to ``largest[j]`` and all to ``highest``.

    Return False where a logarithm is not exact. A row of zeros whose largest message is -inf is exact."""
    for j in range(sums.shape[0]):
        for k in range(sums.shape[1]):
            if largest[j] == -np.inf:
                out[j, k] = -np.inf
            elif sums[j, k] > LEAST_SUM:
                out[j, k] = np.log(sums[j, k]) + largest[j] + highest + local[j, k]
            else:
                return False
    return True


@compiled
def _add_pairs(logs, t, unary_marginals, pairwise_marginals):
    """Add the probabilities of the pairs that end at position t, from their logarithms up to a constant."""
    pairs = np.exp(logs - logs.max())
    pairs /= pairs.sum()
    pairwise_marginals[0] += pairs
    unary_marginals[t] = pairs.sum(axis=0)
    if t == 1:
        unary_marginals[0] = pairs.sum(axis=1)
