"""Marginals of the labels of a graph, and bounds of the log-partition function.

``graph`` and potentials are those of ``_jit_labellings``.
"""

import numpy as np

from omkl._compilation import compiled, inner

#: Sums of weights below this are computed in logs, as some weights underflow.
SMALLEST = 1e-280


@compiled
def marginals(
    unary,
    pairwise,
    graph,
    forest,
    forests,
    rates,
    sweeps,
    tolerance,
    unary_marginals,
    pairwise_marginals,
):
    """Write marginals, and return the log-partition function: -inf if no labelling is allowed.

    On a forest, two sweeps are exact. On other graphs, this is tree-reweighted belief propagation
    (Wainwright, Jaakkola and Willsky 2005), up to ``sweeps`` or until messages move less than
    ``tolerance`` in both directions, and the result is an upper bound. ``forests`` (T, E) says
    which edges each of some spanning forests has, and ``rates`` (E,) is its mean. No two edges may
    have the same ends.
    """
    edges, order, starts, middle, incident = graph
    n, K = unary.shape
    shared = pairwise.shape[0] < edges.shape[0]
    one = shared and forest  # all edges have the same weights
    n_weights = 1 if one else edges.shape[0]
    weights, tops = np.empty((n_weights, K, K)), np.empty(n_weights)
    for e in range(n_weights):
        scores = pairwise[0 if shared else e]
        tops[e] = scores.max() / rates[e]
        if not tops[e] > -np.inf:
            return -np.inf
        for y in range(K):
            for z in range(K):
                weights[e, y, z] = np.exp(scores[y, z] / rates[e] - tops[e])
    # messages[0] go to the first node of an edge, messages[1] to the second
    messages, own, source, new = (
        np.zeros((2, edges.shape[0], K)),
        np.empty(K),
        np.empty(K),
        np.empty(K),
    )
    step = 1.0 if forest else 0.5
    quiet = 0  # sweeps in a row that moved no message
    for sweep in range(2 if forest else sweeps):
        moved, back = 0.0, sweep % 2 == 0
        for place in range(n):
            i = order[n - 1 - place if back else place]
            collect(unary, messages, rates, edges, incident, starts[i], starts[i + 1], i, own)
            for q in range(starts[i] if back else middle[i], middle[i] if back else starts[i + 1]):
                e = incident[q]
                forward = edges[e, 0] == i
                incoming, outgoing = (
                    (messages[0, e], messages[1, e])
                    if forward
                    else (messages[1, e], messages[0, e])
                )
                for y in range(K):
                    source[y] = own[y] - incoming[y] if own[y] > -np.inf else -np.inf
                scores = pairwise[0 if shared else e]
                w = 0 if one else e
                if (
                    not send_sum(source, weights[w], scores, rates[e], tops[w], forward, new)
                    > -np.inf
                ):
                    return -np.inf
                for y in range(K):
                    if new[y] > -np.inf and outgoing[y] > -np.inf:
                        moved = max(moved, abs(new[y] - outgoing[y]))
                        outgoing[y] += step * (new[y] - outgoing[y])
                    else:
                        moved = np.inf if outgoing[y] > new[y] else moved
                        outgoing[y] = new[y]
        quiet = quiet + 1 if moved < tolerance else 0
        if not forest and quiet == 2:  # back and forth
            break
    potentials = np.empty((n, K))
    if not beliefs(
        unary, pairwise, graph, rates, messages, potentials, unary_marginals, pairwise_marginals
    ):
        return -np.inf
    return forest_bound(potentials, pairwise, graph, forests, rates, messages, weights, tops)


@inner
def collect(unary, messages, rates, edges, incident, low, high, i, own):
    """Write the potentials of node i plus weighted messages from its neighbours."""
    for y in range(own.shape[0]):
        own[y] = unary[i, y]
    for q in range(low, high):
        e = incident[q]
        message = messages[0 if edges[e, 0] == i else 1, e]
        for y in range(own.shape[0]):
            own[y] += rates[e] * message[y]


@inner
def send_sum(source, weights, scores, rate, top, forward, message):
    """Write the log of the sums of ``exp(source + scores / rate)``, less their maximum; return it,
    or -inf.
    """
    K = source.shape[0]
    highest = source[0]
    for y in range(1, K):
        highest = max(highest, source[y])
    if not highest > -np.inf:
        return -np.inf
    chances = np.empty(K)
    for y in range(K):
        chances[y] = np.exp(source[y] - highest)
        message[y] = 0.0
    if forward:
        for y in range(K):
            for z in range(K):
                message[z] += chances[y] * weights[y, z]
    else:
        for z in range(K):
            for y in range(K):
                message[z] += chances[y] * weights[z, y]
    largest = -np.inf
    for z in range(K):
        if message[z] >= SMALLEST:
            message[z] = np.log(message[z])
        else:
            most, total = -np.inf, 0.0
            for y in range(K):
                most = max(most, source[y] + (scores[y, z] if forward else scores[z, y]) / rate)
            for y in range(K if most > -np.inf else 0):
                total += np.exp(
                    source[y] + (scores[y, z] if forward else scores[z, y]) / rate - most
                )
            message[z] = most - highest - top + np.log(total) if most > -np.inf else -np.inf
        largest = max(largest, message[z])
    if largest > -np.inf:
        for z in range(K):
            message[z] -= largest
    return highest + top + largest


@compiled
def normalize(logs):
    """Turn logs of weights into probabilities, in place; return the log of their sum, -inf if all
    are zero.
    """
    highest, total = -np.inf, 0.0
    for score in logs:
        highest = score if score > highest else highest
    if not highest > -np.inf:
        return highest
    for y in range(logs.shape[0]):
        logs[y] = np.exp(logs[y] - highest)
        total += logs[y]
    for y in range(logs.shape[0]):
        logs[y] /= total
    return highest + np.log(total)


@inner
def beliefs(
    unary, pairwise, graph, rates, messages, potentials, unary_marginals, pairwise_marginals
):
    """Write the marginals that messages define; return False if no label of a node, or pair of an
    edge, is possible.

    ``potentials`` (n, K) gets those of nodes plus weighted messages.
    """
    edges, _, starts, _, incident = graph
    n, K = unary.shape
    shared = pairwise.shape[0] < edges.shape[0]
    pairs = np.empty(K * K)
    pairwise_marginals[:] = 0.0
    for i in range(n):
        collect(unary, messages, rates, edges, incident, starts[i], starts[i + 1], i, potentials[i])
        for y in range(K):
            unary_marginals[i, y] = potentials[i, y]
        if not normalize(unary_marginals[i]) > -np.inf:
            return False
    for e in range(edges.shape[0]):
        i, j, scores = edges[e, 0], edges[e, 1], pairwise[0 if shared else e]
        for y in range(K):
            for z in range(K):
                possible = potentials[i, y] > -np.inf and potentials[j, z] > -np.inf
                pairs[K * y + z] = -np.inf
                if possible:
                    into = (
                        potentials[i, y] - messages[0, e, y] + potentials[j, z] - messages[1, e, z]
                    )
                    pairs[K * y + z] = scores[y, z] / rates[e] + into
        if not normalize(pairs) > -np.inf:
            return False
        for y in range(K):
            for z in range(K):
                pairwise_marginals[0 if shared else e, y, z] += pairs[K * y + z]
    return True


@inner
def forest_bound(potentials, pairwise, graph, forests, rates, messages, weights, tops):
    """Return the mean of the log-partition functions of forests, an upper bound of that of the
    graph.

    Nodes of a forest have ``potentials`` (n, K), and its edges have their scores divided by their
    rates, less both messages. Whatever the messages are, the mean of these scores is the score in
    the graph, and the log-partition function is convex.
    """
    edges, _, starts, _, incident = graph
    n, K = potentials.shape
    shared, total = pairwise.shape[0] < edges.shape[0], 0.0
    order, parents, seen = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_)
    collected, source, new = np.empty((n, K)), np.empty(K), np.empty(K)
    for t in range(forests.shape[0]):
        walk(edges, starts, incident, forests[t], order, parents, seen)
        for i in range(n):
            for y in range(K):
                collected[i, y] = potentials[i, y]
        for place in range(n):
            i = order[n - 1 - place]
            e = parents[i]
            if e < 0:
                total += normalize(collected[i])
                continue
            forward = edges[e, 0] == i
            up, down = (
                (messages[1, e], messages[0, e]) if forward else (messages[0, e], messages[1, e])
            )
            for y in range(K):
                source[y] = collected[i, y] - down[y] if collected[i, y] > -np.inf else -np.inf
            w, scores = e if weights.shape[0] > 1 else 0, pairwise[0 if shared else e]
            total += send_sum(source, weights[w], scores, rates[e], tops[w], forward, new)
            if not total > -np.inf:
                return total
            j = edges[e, 1] if forward else edges[e, 0]
            for y in range(K):
                if collected[j, y] > -np.inf:
                    collected[j, y] += new[y] - up[y] if new[y] > -np.inf else -np.inf
    return total / forests.shape[0]


@inner
def walk(edges, starts, incident, chosen, order, parents, seen):
    """Write the order of the nodes of a forest of ``chosen`` edges, parents first, and their edges
    to parents or -1.
    """
    seen[:] = False
    done = found = 0
    for root in range(order.shape[0]):
        if not seen[root]:
            seen[root], order[found], parents[root] = True, root, -1
            found += 1
        while done < found:
            i = order[done]
            done += 1
            for q in range(starts[i], starts[i + 1]):
                e = incident[q]
                j = edges[e, 0] + edges[e, 1] - i
                if chosen[e] and not seen[j]:
                    seen[j], order[found], parents[j] = True, j, e
                    found += 1
