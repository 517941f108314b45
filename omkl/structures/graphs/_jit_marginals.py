"""Marginals of the labels of a graph, and bounds of the log-partition function.

``graph`` and potentials are those of ``_jit_labellings``. The messages ``messages[0]`` (E, K) go to
the first node of an edge, and ``messages[1]`` to the second. An edge has the
``weights[e]`` (K, K), ``exp(pairwise[e] / rates[e] - tops[e])``; on a forest whose edges share
their scores, they also share ``weights[0]``.
"""

import numpy as np

from omkl._compilation import compiled, inner
from omkl._pointers import flat
from omkl.structures._jit_labels import copy, exponentiate, largest, normalize, row_of
from omkl.structures.graphs._jit_labellings import NO_EDGE, graph_at, walk

#: Sums of weights below this are computed in logs, as some weights underflow.
SMALLEST = 1e-280
#: Maximum number of sweeps of belief propagation, and movement of messages at which it ends.
SWEEPS, MOVED = 200, 1e-4
#: Sweeps in a row, back and forth, that move no message where belief propagation has converged.
QUIET = 2


@inner
def weigh_pairs(pairwise, rates, weights, tops):
    """Write the weights (W, K, K) of edges, and the logs of their scales, ``tops`` (W,).

    ``pairwise`` is (E, K, K) or (1, K, K). Return False if an edge forbids all pairs of labels.
    """
    for e in range(weights.shape[0]):
        scores = pairwise[row_of(pairwise, e)]
        tops[e] = scores.max() / rates[e]
        if not tops[e] > -np.inf:
            return False
        for y in range(scores.shape[0]):
            for z in range(scores.shape[1]):
                weights[e, y, z] = np.exp(scores[y, z] / rates[e] - tops[e])
    return True


@inner
def side_of(edges, e, i):
    """Return 0 if i is the first node of edge e, 1 if it is the second."""
    return 0 if edges[e, 0] == i else 1


@inner
def collect(unary, messages, rates, edges, incident, low, high, i, belief):
    """Write the potentials of node i plus weighted messages from its neighbours to ``belief`` (K,).

    The messages are those along the edges ``incident[low:high]``.
    """
    copy(unary[i], belief)
    for q in range(low, high):
        e = incident[q]
        message = messages[side_of(edges, e, i), e]
        for y in range(belief.shape[0]):
            belief[y] += rates[e] * message[y]


@inner
def subtract_message(belief, message, source):
    """Write the potentials of a node without a message to ``source``; all three are (K,).

    Forbidden labels stay forbidden.
    """
    for y in range(belief.shape[0]):
        source[y] = -np.inf
        if belief[y] > -np.inf:
            source[y] = belief[y] - message[y]


@inner
def move_message(message, new, step):
    """Move a message (K,) by the share ``step`` of the way to a new one, in place.

    Return the length of the longest way, infinite if a label has become forbidden.
    """
    moved = 0.0
    for y in range(message.shape[0]):
        if new[y] > -np.inf and message[y] > -np.inf:
            moved = max(moved, abs(new[y] - message[y]))
            message[y] += step * (new[y] - message[y])
        else:
            if message[y] > new[y]:
                moved = np.inf
            message[y] = new[y]
    return moved


@inner
def send_sum(source, weights, scores, rate, top, side, message):
    """Write a message (K,): logs of the sums of ``exp(source + scores / rate)``.

    Their maximum is subtracted, and returned: -inf if all weights are zero. The ``source`` (K,) is
    the node at this ``side`` of an edge with these ``weights`` and ``scores`` (K, K).
    """
    n_labels = source.shape[0]
    chances = np.empty(n_labels)
    highest = exponentiate(source, chances)
    if not highest > -np.inf:
        return -np.inf
    message[:] = 0.0
    if side == 0:
        for y in range(n_labels):
            for z in range(n_labels):
                message[z] += chances[y] * weights[y, z]
    else:
        for z in range(n_labels):
            for y in range(n_labels):
                message[z] += chances[y] * weights[z, y]
    for z in range(n_labels):
        if message[z] >= SMALLEST:
            message[z] = np.log(message[z])
        else:
            message[z] = log_of_sum(source, scores, rate, side, z, highest, top)
    maximum = largest(message)
    if maximum > -np.inf:
        for z in range(n_labels):
            message[z] -= maximum
    return highest + top + maximum


@inner
def log_of_sum(source, scores, rate, side, z, highest, top):
    """Return the log of the sum of ``exp(source + scores / rate)`` for label z.

    The logs ``highest`` and ``top`` of the scales of messages and weights are subtracted.
    """
    logs = np.empty(source.shape[0])
    most = -np.inf
    for y in range(source.shape[0]):
        score = scores[y, z] if side == 0 else scores[z, y]
        logs[y] = source[y] + score / rate
        most = max(most, logs[y])
    if not most > -np.inf:
        return -np.inf
    total = 0.0
    for log in logs:
        total += np.exp(log - most)
    return most - highest - top + np.log(total)


@inner
def beliefs(
    unary, pairwise, graph, rates, messages, potentials, unary_marginals, pairwise_marginals
):
    """Write the marginals that messages define, and ``potentials`` (n, K) of nodes with messages.

    Return False if no label of a node, or no pair of an edge, is possible.
    """
    edges, _, starts, _, incident = graph
    n, n_labels = unary.shape
    pairs = np.empty((n_labels, n_labels))
    pairwise_marginals[:] = 0.0
    for i in range(n):
        collect(unary, messages, rates, edges, incident, starts[i], starts[i + 1], i, potentials[i])
        copy(potentials[i], unary_marginals[i])
        if not normalize(unary_marginals[i]) > -np.inf:
            return False
    for e in range(edges.shape[0]):
        row = row_of(pairwise, e)
        of_first = potentials[edges[e, 0]]
        of_second = potentials[edges[e, 1]]
        scores = pairwise[row]
        for y in range(n_labels):
            for z in range(n_labels):
                pairs[y, z] = -np.inf
                if of_first[y] > -np.inf and of_second[z] > -np.inf:
                    without_messages = (
                        of_first[y] - messages[0, e, y] + of_second[z] - messages[1, e, z]
                    )
                    pairs[y, z] = scores[y, z] / rates[e] + without_messages
        if not normalize(flat(pairs)) > -np.inf:
            return False
        for y in range(n_labels):
            for z in range(n_labels):
                pairwise_marginals[row, y, z] += pairs[y, z]
    return True


@inner
def forest_bound(potentials, pairwise, graph, forests, rates, messages, weights, tops):
    """Return the mean of the log-partition functions of forests, a bound of that of the graph.

    It is an upper bound. Nodes of a forest have ``potentials`` (n, K), and its edges have their
    scores divided by their rates, less both messages. Whatever the messages are, the mean of these
    scores is the score in the graph, and the log-partition function is convex.
    """
    edges, _, starts, _, incident = graph
    n, n_labels = potentials.shape
    order = np.empty(n, np.int64)
    parents = np.empty(n, np.int64)
    seen = np.empty(n, np.bool_)
    collected = np.empty((n, n_labels))
    source = np.empty(n_labels)
    new = np.empty(n_labels)
    total = 0.0
    for t in range(forests.shape[0]):
        walk(edges, starts, incident, forests[t], order, parents, seen)
        copy(flat(potentials), flat(collected))
        for place in range(n):
            i = order[n - 1 - place]
            e = parents[i]
            if e == NO_EDGE:
                total += normalize(collected[i])
                continue
            side = side_of(edges, e, i)
            up = messages[1 - side, e]
            subtract_message(collected[i], messages[side, e], source)
            w = row_of(weights, e)
            scores = pairwise[row_of(pairwise, e)]
            total += send_sum(source, weights[w], scores, rates[e], tops[w], side, new)
            if not total > -np.inf:
                return total
            of_parent = collected[edges[e, 1 - side]]
            for y in range(n_labels):
                if new[y] == -np.inf:
                    of_parent[y] = -np.inf
                elif of_parent[y] > -np.inf:
                    of_parent[y] += new[y] - up[y]
    return total / forests.shape[0]


@compiled
def marginals(graph_address, unary, pairwise, unary_marginals, pairwise_marginals):
    """Write marginals (n, K) and (E, K, K) or (1, K, K); return the log-partition function.

    It is -inf if no labelling is allowed. On a forest, two sweeps are exact. On other graphs, this
    is tree-reweighted belief propagation (Wainwright, Jaakkola and Willsky 2005), until messages
    hardly move in both directions, and the result is an upper bound. Edges are the single edges of
    the graph.
    """
    arrays = graph_at(graph_address)
    edges = arrays.single_edges
    starts = arrays.starts
    incident = arrays.incident
    rates = arrays.rates
    graph = (edges, arrays.order, starts, arrays.middle, incident)
    forest = arrays.is_forest != 0
    n, n_labels = unary.shape
    n_edges = edges.shape[0]
    # the edges of a forest share their weights if they share their scores
    n_weights = n_edges
    if forest:
        n_weights = min(pairwise.shape[0], n_edges)
    weights = np.empty((n_weights, n_labels, n_labels))
    tops = np.empty(n_weights)
    if not weigh_pairs(pairwise, rates, weights, tops):
        return -np.inf
    messages = np.zeros((2, n_edges, n_labels))
    belief = np.empty(n_labels)
    source = np.empty(n_labels)
    new = np.empty(n_labels)
    step = 1.0 if forest else 0.5
    n_quiet = 0
    for number in range(2 if forest else SWEEPS):
        moved = 0.0
        back = number % 2 == 0
        for place in range(n):
            rank = n - 1 - place if back else place
            i = arrays.order[rank]
            collect(unary, messages, rates, edges, incident, starts[i], starts[i + 1], i, belief)
            first = arrays.middle[i]
            end = starts[i + 1]
            if back:
                first = starts[i]
                end = arrays.middle[i]
            for q in range(first, end):
                e = incident[q]
                side = side_of(edges, e, i)
                outgoing = messages[1 - side, e]
                subtract_message(belief, messages[side, e], source)
                scores = pairwise[row_of(pairwise, e)]
                w = row_of(weights, e)
                total = send_sum(source, weights[w], scores, rates[e], tops[w], side, new)
                if not total > -np.inf:
                    return -np.inf
                moved = max(moved, move_message(outgoing, new, step))
        n_quiet += 1
        if not moved < MOVED:
            n_quiet = 0
        if not forest and n_quiet == QUIET:
            break
    potentials = np.empty((n, n_labels))
    if not beliefs(
        unary, pairwise, graph, rates, messages, potentials, unary_marginals, pairwise_marginals
    ):
        return -np.inf
    return forest_bound(potentials, pairwise, graph, arrays.forests, rates, messages, weights, tops)
