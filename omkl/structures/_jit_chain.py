"""Dynamic programs over a chain of ``n`` positions and ``K`` labels.

Every function takes ``unary`` (n, K) and ``pairwise``; ``pairwise[t, i, j]`` scores label ``i`` at
position ``t`` followed by ``j``. Its shape is (1, K, K), or (n - 1, K, K) if transitions depend on
the position; for no transitions see :mod:`omkl.structures._jit_labels`. A score of -inf forbids a
label or a transition. A gold label of -1 is unknown. Signatures are those of
:mod:`omkl.signatures`.
"""

import numpy as np

from omkl._compilation import compiled, inner
from omkl._pointers import flat
from omkl.signatures import StructureFunctions
from omkl.structures._jit_labels import (
    augment_labels,
    cost_of_labels,
    decode,
    exponentiate,
    indicate_labels,
    labels_at,
    largest,
    normalize,
    row_of,
    scale_to_one,
    score_labels,
)

# Posteriors are exact to rounding if the forward and backward messages of every position overlap by
# at least this much.
LEAST_OVERLAP = 1e-200


@compiled
def viterbi(labels_address, unary, pairwise, gold, cost_weight, labels):
    """Write the best labels (n,); return their score, costs included.

    With ``cost_weight > 0`` each label adds ``cost_weight * costs[gold, label]``. Ties break
    towards the lower label.
    """
    costs = labels_at(labels_address).costs
    n, n_labels = unary.shape
    if n == 0:
        return 0.0
    augmented = cost_weight != 0.0
    # scores of the best labellings up to each position and label
    best = np.empty((n, n_labels))
    arriving = np.empty(n_labels)
    for t in range(n):
        here = best[t]
        if t == 0:
            for j in range(n_labels):
                here[j] = unary[0, j]
        else:
            transition = pairwise[row_of(pairwise, t - 1)]
            arriving[:] = -np.inf
            i = 0
            # four rows at a time, to read and write the messages less often
            while i + 4 <= n_labels:
                a = best[t - 1, i]
                b = best[t - 1, i + 1]
                c = best[t - 1, i + 2]
                d = best[t - 1, i + 3]
                for j in range(n_labels):
                    first = a + transition[i, j]
                    second = b + transition[i + 1, j]
                    third = c + transition[i + 2, j]
                    fourth = d + transition[i + 3, j]
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
        row = row_of(pairwise, t)
        highest = -np.inf
        labels[t] = 0
        for i in range(n_labels):
            score = best[t, i]
            if t + 1 < n:
                score += pairwise[row, i, labels[t + 1]]
            if score > highest:
                highest = score
                labels[t] = i
    return best[n - 1, labels[n - 1]]


@compiled(counting=False)
def viterbi_many(structure, unary, pairwise, offsets, labels):
    """Write the best labels of each sequence ``offsets[s] : offsets[s + 1]``, see :func:`viterbi`.

    ``structure`` is the address of a structure whose ``decode`` is :func:`viterbi`. ``pairwise`` is
    (1, K, K), or (N, K, K) with the transitions that follow each token. Writes to ``labels`` (N,).
    """
    for s in range(offsets.shape[0] - 1):
        low = offsets[s]
        high = offsets[s + 1]
        if high > low:
            transitions = pairwise
            if pairwise.shape[0] > 1:
                # one row for a single token, which reads none
                transitions = pairwise[low : max(high - 1, low + 1)]
            labels_of_sequence = labels[low:high]
            no_gold = labels_of_sequence  # gold labels are not read
            decode(structure, unary[low:high], transitions, no_gold, 0.0, labels_of_sequence)


@compiled
def forward_backward(labels_address, unary, pairwise, unary_marginals, pairwise_marginals):
    """Write marginals by recursions scaled to sum to one at every position; return log Z.

    ``unary_marginals`` and ``pairwise_marginals`` have the shapes of the potentials. Each potential
    is exponentiated once instead of once per edge. Numbers below 1e-308 of the largest message
    underflow. This matters only if forward and backward messages hardly overlap; then return nan.
    """
    n, n_labels = unary.shape
    shared = pairwise.shape[0] == 1
    local = np.empty((n, n_labels))
    forward = np.empty((n, n_labels))
    incoming = np.empty((n, n_labels))
    # what leaves each label, for `pass_on` with the positions as rows
    leaving = np.empty((n_labels, n))
    log_partition = 0.0
    for t in range(n):
        log_partition += exponentiate(unary[t], local[t])
    edges = np.empty(pairwise.shape)
    transposed = np.empty(pairwise.shape)
    for e in range(pairwise.shape[0]):
        highest = exponentiate(flat(pairwise[e]), flat(edges[e]))
        log_partition += highest * (n - 1 if shared else 1)
        for i in range(n_labels):
            for j in range(n_labels):
                transposed[e, j, i] = edges[e, i, j]

    arriving = np.empty(n_labels)
    backward = np.empty(n_labels)
    arriving[:] = 1.0
    backward[:] = 1.0
    for t in range(n):
        if t > 0:
            pass_on(forward[t - 1], edges[row_of(edges, t - 1)], arriving)
        for j in range(n_labels):
            forward[t, j] = arriving[j] * local[t, j]
        total = scale_to_one(forward[t])
        if not total > 0.0:
            return np.nan
        log_partition += np.log(total)

    for t in range(n - 1, -1, -1):
        for j in range(n_labels):
            unary_marginals[t, j] = forward[t, j] * backward[j]
            incoming[t, j] = local[t, j] * backward[j]
        if not scale_to_one(unary_marginals[t]) > LEAST_OVERLAP:
            return np.nan
        if t == 0:
            break
        pass_on(incoming[t], transposed[row_of(transposed, t - 1)], backward)
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
    """Write the product of a message (n,) and a matrix (n, m) into ``arriving`` (m,).

    Take four rows at a time, to read and write ``arriving`` less often.
    """
    n = message.shape[0]
    i = 0
    arriving[:] = 0.0
    while i + 4 <= n:
        a = message[i]
        b = message[i + 1]
        c = message[i + 2]
        d = message[i + 3]
        for j in range(arriving.shape[0]):
            arriving[j] += (
                a * edge[i, j] + b * edge[i + 1, j] + c * edge[i + 2, j] + d * edge[i + 3, j]
            )
        i += 4
    while i < n:
        for j in range(arriving.shape[0]):
            arriving[j] += message[i] * edge[i, j]
        i += 1


@compiled
def forward_backward_in_logs(labels_address, unary, pairwise, unary_marginals, pairwise_marginals):
    """Write marginals; return log Z.

    If nothing is allowed, it is -inf, and the marginals are not valid. Slow, but accurate at any
    magnitude of the potentials.
    """
    n, n_labels = unary.shape
    forward = unary.copy()
    backward = np.zeros((n, n_labels))
    sums = np.empty(n_labels)
    pairwise_marginals[:] = 0.0
    for t in range(1, n):
        edge = pairwise[row_of(pairwise, t - 1)]
        for j in range(n_labels):
            for i in range(n_labels):
                sums[i] = forward[t - 1, i] + edge[i, j]
            forward[t, j] += normalize(sums)
    for t in range(n - 2, -1, -1):
        edge = pairwise[row_of(pairwise, t)]
        for i in range(n_labels):
            for j in range(n_labels):
                sums[j] = edge[i, j] + unary[t + 1, j] + backward[t + 1, j]
            backward[t, i] = normalize(sums)
    for j in range(n_labels):
        sums[j] = forward[n - 1, j]
    log_partition = normalize(sums)
    if log_partition == -np.inf:
        return log_partition
    pairs = np.empty((n_labels, n_labels))
    for t in range(n - 1):
        row = row_of(pairwise, t)
        for i in range(n_labels):
            for j in range(n_labels):
                after = unary[t + 1, j] + backward[t + 1, j]
                pairs[i, j] = forward[t, i] + pairwise[row, i, j] + after
        normalize(flat(pairs))
        for i in range(n_labels):
            for j in range(n_labels):
                pairwise_marginals[row, i, j] += pairs[i, j]
    for t in range(n):
        for j in range(n_labels):
            unary_marginals[t, j] = forward[t, j] + backward[t, j]
        normalize(unary_marginals[t])
    return log_partition


CHAIN = StructureFunctions(
    decode=viterbi,
    marginals=forward_backward,
    marginals_in_logs=forward_backward_in_logs,
    score=score_labels,
    indicate=indicate_labels,
    cost=cost_of_labels,
    augment=augment_labels,
)
