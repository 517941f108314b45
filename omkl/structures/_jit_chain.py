"""Dynamic programs over a chain of ``n`` positions and ``K`` labels.

Every function takes ``unary`` (n, K) and ``pairwise`` (1, K, K), or (n - 1, K, K) where each position has transitions
of its own, or (0, K, K) where there are none; ``pairwise[t, i, j]`` scores label ``i`` at position ``t`` followed by
``j``. What is not allowed scores -inf. A gold label of -1 is not known.
"""

import numpy as np

from omkl._compilation import compiled

# A posterior is exact to rounding as long as no position's forward and backward messages are nearly disjoint.
LEAST_OVERLAP = 1e-200


@compiled
def viterbi(unary, pairwise, costs, gold, cost_weight, labels):
    """Write the best labels; with ``cost_weight > 0`` each label adds ``cost_weight * costs[gold, label]``.

    Return the score of the best labelling, costs included. Ties break towards the lower label.
    """
    n, n_labels = unary.shape
    augmented = cost_weight != 0.0
    if pairwise.shape[0] == 0:
        total = 0.0
        for t in range(n):
            highest = -np.inf
            last = 0
            for j in range(n_labels):
                score = unary[t, j]
                if augmented and gold[t] >= 0:
                    score += cost_weight * costs[gold[t], j]
                if score > highest:
                    highest, last = score, j
            labels[t] = last
            total += highest
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
    final = 0
    for j in range(n_labels):
        if best[n - 1, j] > best[n - 1, final]:
            final = j
    labels[n - 1] = final
    # repeat the sums of the chosen labels: cheaper than to store all predecessors on the way
    for t in range(n - 1, 0, -1):
        transition = pairwise[t - 1] if pairwise.shape[0] > 1 else pairwise[0]
        highest = -np.inf
        last = 0
        for i in range(n_labels):
            score = best[t - 1, i] + transition[i, labels[t]]
            if score > highest:
                highest, last = score, i
        labels[t - 1] = last
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
        if t > 0 and pairwise.shape[0] > 0:
            total += pairwise[t - 1 if pairwise.shape[0] > 1 else 0, labels[t - 1], labels[t]]
    return total


@compiled
def add_indicator(unary, pairwise, labels, amount):
    """Add ``amount`` to every part of the labelling."""
    for t in range(labels.shape[0]):
        unary[t, labels[t]] += amount
        if t > 0 and pairwise.shape[0] > 0:
            pairwise[t - 1 if pairwise.shape[0] > 1 else 0, labels[t - 1], labels[t]] += amount


@compiled
def difference(unary, pairwise, predicted, gold, unary_gradient, pairwise_gradient):
    """Write the indicator of ``predicted`` minus that of ``gold``; return the difference of their scores."""
    gap = 0.0
    for t in range(gold.shape[0]):
        wrong = predicted[t] != gold[t]
        if wrong:
            unary_gradient[t, predicted[t]] = 1.0
            unary_gradient[t, gold[t]] = -1.0
            gap += unary[t, predicted[t]] - unary[t, gold[t]]
        if t > 0 and pairwise.shape[0] > 0 and (wrong or predicted[t - 1] != gold[t - 1]):
            position = t - 1 if pairwise.shape[0] > 1 else 0
            pairwise_gradient[position, predicted[t - 1], predicted[t]] += 1.0
            pairwise_gradient[position, gold[t - 1], gold[t]] -= 1.0
            gap += pairwise[position, predicted[t - 1], predicted[t]] - pairwise[position, gold[t - 1], gold[t]]
    return gap


@compiled
def total_cost(costs, gold, predicted):
    """Return the sum of ``costs[gold, predicted]`` over positions whose gold label is known."""
    total = 0.0
    for t in range(gold.shape[0]):
        if gold[t] >= 0:
            total += costs[gold[t], predicted[t]]
    return total


@compiled
def keep_known(unary, gold):
    """Set the unary potentials of all labels but the gold one to -inf, at each position where it is known."""
    for t in range(gold.shape[0]):
        if gold[t] >= 0:
            for j in range(unary.shape[1]):
                if j != gold[t]:
                    unary[t, j] = -np.inf


@compiled
def is_partial(gold):
    """Return True if a gold label is not known."""
    for t in range(gold.shape[0]):  # noqa: SIM110 (numba)
        if gold[t] < 0:
            return True
    return False


@compiled
def largest(scores):
    """Return the largest of a vector of scores."""
    highest = -np.inf
    for score in scores:
        highest = score if score > highest else highest
    return highest


@compiled
def softmax(unary, marginals):
    """Write the marginals of independent positions; return log Z."""
    log_partition = 0.0
    for t in range(unary.shape[0]):
        highest = largest(unary[t])
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

    Each potential is exponentiated once, not once an edge. Numbers below 1e-308 of the largest message underflow. That
    matters only if forward and backward messages hardly overlap: then return nan, and the caller calls
    :func:`forward_backward_in_logs`.
    """
    n, n_labels = unary.shape
    shared = pairwise.shape[0] == 1
    forward = np.empty((n, n_labels))
    local = np.empty((n, n_labels))
    log_partition = 0.0
    for t in range(n):
        highest = largest(unary[t])
        log_partition += highest
        for j in range(n_labels):
            local[t, j] = np.exp(unary[t, j] - highest)
    edges = np.empty((pairwise.shape[0], n_labels, n_labels))
    for e in range(pairwise.shape[0]):
        highest = largest(pairwise[e].ravel())
        log_partition += highest * (n - 1 if shared else 1)
        for i in range(n_labels):
            for j in range(n_labels):
                edges[e, i, j] = np.exp(pairwise[e, i, j] - highest)

    arriving = np.empty(n_labels)
    for t in range(n):
        arriving[:] = 1.0
        if t > 0:
            edge = edges[0 if shared else t - 1]
            arriving[:] = 0.0
            i = 0
            while i + 4 <= n_labels:
                a, b, c, d = forward[t - 1, i], forward[t - 1, i + 1], forward[t - 1, i + 2], forward[t - 1, i + 3]
                for j in range(n_labels):
                    arriving[j] += a * edge[i, j] + b * edge[i + 1, j] + c * edge[i + 2, j] + d * edge[i + 3, j]
                i += 4
            while i < n_labels:
                a = forward[t - 1, i]
                for j in range(n_labels):
                    arriving[j] += a * edge[i, j]
                i += 1
        total = 0.0
        for j in range(n_labels):
            arriving[j] *= local[t, j]
            total += arriving[j]
        if not total > 0.0:
            return np.nan
        for j in range(n_labels):
            forward[t, j] = arriving[j] / total
        log_partition += np.log(total)

    transposed = np.empty(edges.shape)
    for e in range(edges.shape[0]):
        for i in range(n_labels):
            for j in range(n_labels):
                transposed[e, j, i] = edges[e, i, j]
    backward = np.ones(n_labels)
    incoming, leaving = np.empty((n, n_labels)), np.empty((n, n_labels))
    for t in range(n - 1, -1, -1):
        overlap = 0.0
        for j in range(n_labels):
            unary_marginals[t, j] = forward[t, j] * backward[j]
            overlap += unary_marginals[t, j]
        if not overlap > LEAST_OVERLAP:
            return np.nan
        for j in range(n_labels):
            unary_marginals[t, j] /= overlap
        if t == 0:
            break
        for j in range(n_labels):
            incoming[t, j] = local[t, j] * backward[j]
        edge = transposed[0 if shared else t - 1]
        backward[:] = 0.0
        j = 0
        while j + 4 <= n_labels:
            a, b, c, d = incoming[t, j], incoming[t, j + 1], incoming[t, j + 2], incoming[t, j + 3]
            for i in range(n_labels):
                backward[i] += a * edge[j, i] + b * edge[j + 1, i] + c * edge[j + 2, i] + d * edge[j + 3, i]
            j += 4
        while j < n_labels:
            a = incoming[t, j]
            for i in range(n_labels):
                backward[i] += a * edge[j, i]
            j += 1
        mass = 0.0
        for i in range(n_labels):
            mass += forward[t - 1, i] * backward[i]
        if not mass > LEAST_OVERLAP:
            return np.nan
        for i in range(n_labels):
            leaving[t, i] = forward[t - 1, i] / mass
        highest = largest(backward)
        for i in range(n_labels):
            backward[i] /= highest
    pairwise_marginals[:] = 0.0
    if not shared:
        for t in range(1, n):
            for i in range(n_labels):
                for j in range(n_labels):
                    pairwise_marginals[t - 1, i, j] = leaving[t, i] * edges[t - 1, i, j] * incoming[t, j]
        return log_partition
    for i in range(n_labels):
        arriving[:] = 0.0
        t = 1
        while t + 4 <= n:
            a, b, c, d = leaving[t, i], leaving[t + 1, i], leaving[t + 2, i], leaving[t + 3, i]
            for j in range(n_labels):
                arriving[j] += a * incoming[t, j] + b * incoming[t + 1, j]
                arriving[j] += c * incoming[t + 2, j] + d * incoming[t + 3, j]
            t += 4
        while t < n:
            for j in range(n_labels):
                arriving[j] += leaving[t, i] * incoming[t, j]
            t += 1
        for j in range(n_labels):
            pairwise_marginals[0, i, j] = arriving[j] * edges[0, i, j]
    return log_partition


@compiled
def forward_backward_in_logs(unary, pairwise, unary_marginals, pairwise_marginals):
    """Do the same in log space: slower, and right at any magnitude of the potentials.

    log Z is -inf where no labelling is allowed.
    """
    n, n_labels = unary.shape
    forward = np.empty((n, n_labels))
    backward = np.zeros((n, n_labels))
    forward[0] = unary[0]
    for t in range(1, n):
        edge = pairwise[t - 1 if pairwise.shape[0] > 1 else 0]
        for j in range(n_labels):
            highest = -np.inf
            for i in range(n_labels):
                highest = max(highest, forward[t - 1, i] + edge[i, j])
            if highest == -np.inf:
                forward[t, j] = -np.inf
                continue
            total = 0.0
            for i in range(n_labels):
                total += np.exp(forward[t - 1, i] + edge[i, j] - highest)
            forward[t, j] = unary[t, j] + highest + np.log(total)
    for t in range(n - 2, -1, -1):
        edge = pairwise[t if pairwise.shape[0] > 1 else 0]
        for i in range(n_labels):
            highest = -np.inf
            for j in range(n_labels):
                highest = max(highest, edge[i, j] + unary[t + 1, j] + backward[t + 1, j])
            if highest == -np.inf:
                backward[t, i] = -np.inf
                continue
            total = 0.0
            for j in range(n_labels):
                total += np.exp(edge[i, j] + unary[t + 1, j] + backward[t + 1, j] - highest)
            backward[t, i] = highest + np.log(total)
    highest = forward[n - 1].max()
    if highest == -np.inf:
        return -np.inf
    log_partition = highest + np.log(np.exp(forward[n - 1] - highest).sum())
    pairwise_marginals[:] = 0.0
    for t in range(n):
        # normalise each position by itself: at large magnitudes the difference to log Z loses digits
        here = forward[t] + backward[t]
        normalizer = here.max() + np.log(np.exp(here - here.max()).sum())
        unary_marginals[t] = np.exp(here - normalizer)
        if t > 0:
            position = t - 1 if pairwise.shape[0] > 1 else 0
            highest = -np.inf
            for i in range(n_labels):
                for j in range(n_labels):
                    arc = forward[t - 1, i] + pairwise[position, i, j] + unary[t, j] + backward[t, j]
                    highest = max(highest, arc)
            total = 0.0
            for i in range(n_labels):
                for j in range(n_labels):
                    arc = forward[t - 1, i] + pairwise[position, i, j] + unary[t, j] + backward[t, j]
                    total += np.exp(arc - highest)
            for i in range(n_labels):
                for j in range(n_labels):
                    arc = forward[t - 1, i] + pairwise[position, i, j] + unary[t, j] + backward[t, j]
                    pairwise_marginals[position, i, j] += np.exp(arc - highest) / total
    return log_partition
