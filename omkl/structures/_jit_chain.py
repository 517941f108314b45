"""Dynamic programs over a chain of ``n`` positions and ``K`` labels.

Every function takes ``unary`` (n, K) and ``pairwise``; ``pairwise[t, i, j]`` scores label ``i`` at position ``t``
followed by ``j``. Its shape is (1, K, K), (n - 1, K, K) if transitions depend on the position, or (0, K, K) or None if
there are none. A score of -inf forbids a label or a transition. A gold label of -1 is unknown.
"""

import numpy as np

from omkl._compilation import compiled, inner

#: Structures in compiled passes: one of two labels; a chain, or a single label without transitions; a number.
BINARY, LABELS, SCALAR = range(3)
# Posteriors are exact to rounding if the forward and backward messages of every position overlap by at least this much.
LEAST_OVERLAP = 1e-200


@compiled
def viterbi(unary, pairwise, costs, gold, cost_weight, labels):
    """Write the best labels; with ``cost_weight > 0`` each label adds ``cost_weight * costs[gold, label]``.

    Labels without transitions have ``pairwise = None``, for which Numba compiles no chain.

    Return the score of the best labelling, costs included. Ties break towards the lower label.
    """
    n, n_labels = unary.shape
    augmented = cost_weight != 0.0
    if pairwise is None:
        total = 0.0
        for t in range(n):
            labels[t] = best_label(unary[t], costs, gold[t], cost_weight)
            cost = cost_weight * costs[gold[t], labels[t]] if augmented and gold[t] >= 0 else 0.0
            total += unary[t, labels[t]] + cost
        return total
    best = np.empty((n, n_labels))
    arriving = np.empty(n_labels)
    for t in range(n):
        here = best[t]
        if t == 0:
            for j in range(n_labels):
                here[j] = unary[0, j]
        else:
            transition = pairwise[t - 1] if pairwise.shape[0] > 1 else pairwise[0]
            arriving[:] = -np.inf
            i = 0
            while i + 4 <= n_labels:  # four rows at a time, to read and write the messages less often
                a, b, c, d = best[t - 1, i], best[t - 1, i + 1], best[t - 1, i + 2], best[t - 1, i + 3]
                for j in range(n_labels):
                    first, second = a + transition[i, j], b + transition[i + 1, j]
                    third, fourth = c + transition[i + 2, j], d + transition[i + 3, j]
                    first = first if first > second else second
                    third = third if third > fourth else fourth
                    first = first if first > third else third
                    arriving[j] = first if first > arriving[j] else arriving[j]
                i += 4
            while i < n_labels:
                a = best[t - 1, i]
                for j in range(n_labels):
                    first = a + transition[i, j]
                    arriving[j] = first if first > arriving[j] else arriving[j]
                i += 1
            for j in range(n_labels):
                here[j] = arriving[j] + unary[t, j]
        if augmented and gold[t] >= 0:
            for j in range(n_labels):
                here[j] += cost_weight * costs[gold[t], j]
    # recompute the sums of the chosen labels, which is cheaper than storing all predecessors
    for t in range(n - 1, -1, -1):
        highest, last = -np.inf, 0
        for i in range(n_labels):
            score = best[t, i]
            if t + 1 < n:
                score += pairwise[t if pairwise.shape[0] > 1 else 0, i, labels[t + 1]]
            if score > highest:
                highest, last = score, i
        labels[t] = last
    return best[n - 1, labels[n - 1]]


@compiled
def viterbi_many(unary, pairwise, offsets, costs, labels):
    """Write the best labels of each sequence ``offsets[s] : offsets[s + 1]``, see :func:`viterbi`.

    ``pairwise`` is (0, K, K), (1, K, K), or (N, K, K) with the transitions that follow each token.
    """
    for s in range(offsets.shape[0] - 1):
        low, high = offsets[s], offsets[s + 1]
        if high > low:
            transitions = pairwise[low : max(high - 1, low + 1)] if pairwise.shape[0] > 1 else pairwise
            viterbi(unary[low:high], transitions, costs, labels[low:high], 0.0, labels[low:high])


@compiled
def score_labels(unary, pairwise, labels):
    """Return the score of a labelling."""
    total = 0.0
    for t in range(labels.shape[0]):
        total += unary[t, labels[t]]
        if pairwise is not None and t > 0 and pairwise.shape[0] > 0:
            total += pairwise[t - 1 if pairwise.shape[0] > 1 else 0, labels[t - 1], labels[t]]
    return total


@compiled
def add_indicator(unary, pairwise, labels, amount):
    """Add ``amount`` to every part of the labelling."""
    for t in range(labels.shape[0]):
        unary[t, labels[t]] += amount
        if pairwise is not None and t > 0 and pairwise.shape[0] > 0:
            pairwise[t - 1 if pairwise.shape[0] > 1 else 0, labels[t - 1], labels[t]] += amount


@compiled
def total_cost(costs, gold, predicted):
    """Return the sum of ``costs[gold, predicted]`` over positions whose gold label is known."""
    total = 0.0
    for t in range(gold.shape[0]):
        if gold[t] >= 0:
            total += costs[gold[t], predicted[t]]
    return total


@compiled
def largest(scores):
    """Return the largest of a vector of scores."""
    highest = -np.inf
    for score in scores:
        highest = score if score > highest else highest
    return highest


@compiled
def softmax(unary, marginals):
    """Write the marginals of independent positions; return log Z, -inf if a position allows no label."""
    log_partition = 0.0
    for t in range(unary.shape[0]):
        highest = largest(unary[t])
        if highest == -np.inf:
            return highest
        total = 0.0
        for j in range(unary.shape[1]):
            marginals[t, j] = np.exp(unary[t, j] - highest)
            total += marginals[t, j]
        for j in range(unary.shape[1]):
            marginals[t, j] /= total
        log_partition += highest + np.log(total)
    return log_partition


@compiled
def forward_backward(unary, pairwise, unary_marginals, pairwise_marginals):
    """Write marginals by recursions scaled to sum to one at every position; return log Z.

    Each potential is exponentiated once instead of once per edge. Numbers below 1e-308 of the largest message
    underflow, which matters only if forward and backward messages hardly overlap. Then return nan.
    """
    n, n_labels = unary.shape
    shared = pairwise.shape[0] == 1
    local, forward, incoming = np.empty((n, n_labels)), np.empty((n, n_labels)), np.empty((n, n_labels))
    # what leaves each label, for `pass_on` with the positions as rows
    leaving = np.empty((n_labels, n))
    log_partition = 0.0
    for t in range(n):
        highest = largest(unary[t])
        log_partition += highest
        for j in range(n_labels):
            local[t, j] = np.exp(unary[t, j] - highest)
    edges, transposed = np.empty(pairwise.shape), np.empty(pairwise.shape)
    for e in range(pairwise.shape[0]):
        highest = largest(pairwise[e].ravel())
        log_partition += highest * (n - 1 if shared else 1)
        for i in range(n_labels):
            for j in range(n_labels):
                edges[e, i, j] = transposed[e, j, i] = np.exp(pairwise[e, i, j] - highest)

    arriving, backward = np.empty(n_labels), np.empty(n_labels)
    arriving[:], backward[:] = 1.0, 1.0
    for t in range(n):
        if t > 0:
            pass_on(forward[t - 1], edges[0 if shared else t - 1], arriving)
        total = 0.0
        for j in range(n_labels):
            arriving[j] *= local[t, j]
            total += arriving[j]
        if not total > 0.0:
            return np.nan
        for j in range(n_labels):
            forward[t, j] = arriving[j] / total
        log_partition += np.log(total)

    for t in range(n - 1, -1, -1):
        overlap = 0.0
        for j in range(n_labels):
            unary_marginals[t, j] = forward[t, j] * backward[j]
            overlap += unary_marginals[t, j]
            incoming[t, j] = local[t, j] * backward[j]
        if not overlap > LEAST_OVERLAP:
            return np.nan
        for j in range(n_labels):
            unary_marginals[t, j] /= overlap
        if t == 0:
            break
        pass_on(incoming[t], transposed[0 if shared else t - 1], backward)
        mass = 0.0
        for i in range(n_labels):
            mass += forward[t - 1, i] * backward[i]
        if not mass > LEAST_OVERLAP:
            return np.nan
        highest = largest(backward)
        for i in range(n_labels):
            leaving[i, t] = forward[t - 1, i] / mass
            backward[i] /= highest
    for e in range(pairwise.shape[0]):
        for i in range(n_labels):
            if shared:
                pass_on(leaving[i, 1:], incoming[1:], arriving)
            for j in range(n_labels):
                share = arriving[j] if shared else leaving[i, e + 1] * incoming[e + 1, j]
                pairwise_marginals[e, i, j] = share * edges[e, i, j]
    return log_partition


@inner
def pass_on(message, edge, arriving):
    """Write the product of a message and a matrix, four rows at a time, to read and write ``arriving`` less often."""
    n, i = message.shape[0], 0
    arriving[:] = 0.0
    while i + 4 <= n:
        a, b, c, d = message[i], message[i + 1], message[i + 2], message[i + 3]
        for j in range(arriving.shape[0]):
            arriving[j] += a * edge[i, j] + b * edge[i + 1, j] + c * edge[i + 2, j] + d * edge[i + 3, j]
        i += 4
    while i < n:
        for j in range(arriving.shape[0]):
            arriving[j] += message[i] * edge[i, j]
        i += 1


@compiled
def log_sum(values):
    """Return the logarithm of the sum of exponentials."""
    highest = largest(values)
    if highest == -np.inf:
        return highest
    total = 0.0
    for value in values:
        total += np.exp(value - highest)
    return highest + np.log(total)


@compiled
def forward_backward_in_logs(unary, pairwise, unary_marginals, pairwise_marginals):
    """Write marginals, slowly but at any magnitude of the potentials; return log Z, -inf if nothing is allowed."""
    (n, n_labels), shared = unary.shape, pairwise.shape[0] == 1
    forward, backward, sums = unary.copy(), np.zeros((n, n_labels)), np.empty(n_labels)
    unary_marginals[:], pairwise_marginals[:] = 0.0, 0.0
    for t in range(1, n):
        edge = pairwise[0 if shared else t - 1]
        for j in range(n_labels):
            for i in range(n_labels):
                sums[i] = forward[t - 1, i] + edge[i, j]
            forward[t, j] += log_sum(sums)
    for t in range(n - 2, -1, -1):
        edge = pairwise[0 if shared else t]
        for i in range(n_labels):
            for j in range(n_labels):
                sums[j] = edge[i, j] + unary[t + 1, j] + backward[t + 1, j]
            backward[t, i] = log_sum(sums)
    log_partition = log_sum(forward[n - 1])
    if log_partition == -np.inf:
        return log_partition
    pairs = np.empty((1, n_labels * n_labels))
    for t in range(n - 1):
        edge = 0 if shared else t
        for i in range(n_labels):
            for j in range(n_labels):
                after = unary[t + 1, j] + backward[t + 1, j]
                pairs[0, i * n_labels + j] = forward[t, i] + pairwise[edge, i, j] + after
        softmax(pairs, pairs)
        for i in range(n_labels):
            for j in range(n_labels):
                pairwise_marginals[edge, i, j] += pairs[0, i * n_labels + j]
    for t in range(n):
        for j in range(n_labels):
            forward[t, j] += backward[t, j]
    softmax(forward, unary_marginals)
    return log_partition


@compiled
def marginals(unary, pairwise, unary_marginals, pairwise_marginals):
    """Write marginals; return log Z, -inf if no labelling is allowed."""
    if pairwise is None:
        return softmax(unary, unary_marginals)
    log_partition = forward_backward(unary, pairwise, unary_marginals, pairwise_marginals)
    if np.isfinite(log_partition):
        return log_partition
    return forward_backward_in_logs(unary, pairwise, unary_marginals, pairwise_marginals)


@compiled
def best_label(scores, costs, gold, cost_weight):
    """Return the index of the highest ``scores + cost_weight * costs[gold]``, the first in a tie.

    A gold label of -1 is unknown, and costs nothing.
    """
    best, highest, costly = 0, -np.inf, cost_weight != 0.0 and gold >= 0
    for k in range(scores.shape[0]):
        score = scores[k] + cost_weight * costs[gold, k] if costly else scores[k]
        if score > highest:
            highest = score
            best = k
    return best
