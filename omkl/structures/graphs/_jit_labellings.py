"""Message passing on graphs whose labellings score ``sum_i unary[i, y_i] + sum_e pairwise[e, y_i,
y_j]``, e = (i, j).

Nodes have an order. ``graph`` is a tuple: edges (E, 2), the nodes in their order, and for each node
its incident edges, ``incident[starts[i]:middle[i]]`` to earlier and ``incident[middle[i]:starts[i +
1]]`` to later nodes. In a forest, each node has at most one earlier neighbour. Potentials
``pairwise`` (1, K, K) are shared by all edges.
"""

import numpy as np

from omkl._compilation import compiled, inner

#: Sweeps end when one closes less than this share of the gap between bound and score.
SLOW = 0.0001


@compiled
def arrange(edges, n):
    """Return the order of n nodes, their incident edges, and whether the graph is a forest."""
    degrees = np.zeros(n + 1, np.int64)
    for e in range(edges.shape[0]):
        degrees[edges[e, 0] + 1] += 1
        degrees[edges[e, 1] + 1] += 1
    starts = np.cumsum(degrees)
    incident, free = np.empty(2 * edges.shape[0], np.int64), starts[:-1].copy()
    for e in range(edges.shape[0]):
        for side in range(2):
            incident[free[edges[e, side]]] = e
            free[edges[e, side]] += 1
    order, seen = np.empty(n, np.int64), np.zeros(n, np.bool_)
    done = found = components = 0
    for root in range(n):  # breadth first
        if not seen[root]:
            seen[root], order[found] = True, root
            found, components = found + 1, components + 1
        while done < found:
            i = order[done]
            done += 1
            for q in range(starts[i], starts[i + 1]):
                j = edges[incident[q], 0] + edges[incident[q], 1] - i
                if not seen[j]:
                    seen[j], order[found] = True, j
                    found += 1
    forest = edges.shape[0] == n - components
    ranks = np.empty(n, np.int64)
    for place in range(n):
        if not forest:  # memory is read in the order of the nodes
            order[place] = place
        ranks[order[place]] = place
    middle = np.empty(n, np.int64)
    for i in range(n):
        own = incident[starts[i] : starts[i + 1]].copy()
        position = starts[i]
        for later in range(2):
            for e in own:
                if (ranks[edges[e, 0] + edges[e, 1] - i] > ranks[i]) == (later == 1):
                    incident[position] = e
                    position += 1
            if later == 0:
                middle[i] = position
    return order, starts, middle, incident, forest


# ---- the best labelling --------------------------------------------------------------------------


@compiled
def best_labelling(unary, pairwise, graph, forest, sweeps, tolerance, labels):
    """Write a labelling, and return its score and an upper bound of all scores.

    On a forest, this is dynamic programming, and exact. On other graphs, it is sequential
    tree-reweighted message passing (Kolmogorov 2006, TRW-S), which ends when bound and score agree
    up to ``tolerance``, or after some sweeps. The labelling is improved by changes of single nodes,
    and of both ends of an edge.
    """
    edges = graph[0]
    messages = np.zeros((edges.shape[0], unary.shape[1]))
    current, score, bound = np.empty(labels.shape[0], np.int64), -np.inf, np.inf
    stale, before = 0, np.inf
    for _ in range(sweeps):
        for back in (True, False):  # for a constant as an argument, Numba would compile once more
            above = sweep(unary, pairwise, graph, forest, back, messages, current)
            bound = above if back and above < bound else bound
        found = score_labels(unary, pairwise, edges, current)
        stale += 1
        if found > score:
            score, stale = found, 0
            for i in range(labels.shape[0]):
                labels[i] = current[i]
        precision = tolerance * max(1.0, abs(score))
        if forest or bound - score <= precision:
            return score, bound
        if stale >= 5 and before - bound <= SLOW * (bound - score):  # the bound would take too long
            break
        before = bound
    return ascend(unary, pairwise, graph, sweeps, tolerance, labels), bound


@compiled
def sweep(unary, pairwise, graph, forest, back, messages, labels):
    """Send messages to earlier nodes (``back``) and return the bound; or choose labels, and send to
    later nodes.

    ``messages`` (E, K) go to the earlier node of an edge after one sweep, and to the later node
    after the other. The label of a node is the best one given the labels of earlier nodes and the
    messages from later ones.
    """
    edges, order, starts, middle, incident = graph
    n, K = unary.shape
    shared, bound = pairwise.shape[0] < edges.shape[0], 0.0
    own, source, target = np.empty(K), np.empty(K), np.empty(K)
    chosen = np.zeros((0 if back else n, K))  # scores of the labels of earlier neighbours
    for place in range(n):
        i = order[n - 1 - place if back else place]
        for y in range(K):
            own[y] = unary[i, y]
        for q in range(middle[i], starts[i + 1]):
            for y in range(K):
                own[y] += messages[incident[q], y]
        if not back:
            label = 0
            for y in range(1, K):
                if own[y] + chosen[i, y] > own[label] + chosen[i, label]:
                    label = y
            labels[i] = label
        for q in range(starts[i], middle[i]):
            for y in range(K):
                own[y] += messages[incident[q], y]
        if back:
            highest = own[0]
            for y in range(1, K):
                highest = own[y] if own[y] > highest else highest
            bound += highest
            for y in range(K):
                own[y] -= highest
        share = 1.0 if forest else 1.0 / max(middle[i] - starts[i], starts[i + 1] - middle[i], 1)
        for q in range(starts[i] if back else middle[i], middle[i] if back else starts[i + 1]):
            e = incident[q]
            p = 0 if shared else e
            if not back:
                j = edges[e, 0] + edges[e, 1] - i
                for y in range(K):  # a call of add_column takes longer than the rest
                    chosen[j, y] += (
                        pairwise[p, labels[i], y] if edges[e, 0] == i else pairwise[p, y, labels[i]]
                    )
                if forest:
                    continue
            for y in range(K):
                source[y] = share * own[y] - messages[e, y]
                target[y] = -np.inf
            if edges[e, 0] == i:
                for y in range(K):
                    base = source[y]
                    for z in range(K):
                        score = base + pairwise[p, y, z]
                        target[z] = score if score > target[z] else target[z]
            else:
                for z in range(K):
                    best = -np.inf
                    for y in range(K):
                        score = source[y] + pairwise[p, z, y]
                        best = score if score > best else best
                    target[z] = best
            highest = target[0]
            for z in range(1, K):
                highest = target[z] if target[z] > highest else highest
            for z in range(K):
                messages[e, z] = target[z] - highest
            bound += highest
    return bound


@inner
def add_column(pairwise, p, edges, e, i, labels, own):
    """Add the scores ``pairwise[p]`` of the labels of node i, given the label at the other end of
    edge e.
    """
    if edges[e, 0] == i:
        other = labels[edges[e, 1]]
        for y in range(own.shape[0]):
            own[y] += pairwise[p, y, other]
    else:
        other = labels[edges[e, 0]]
        for y in range(own.shape[0]):
            own[y] += pairwise[p, other, y]


@compiled
def ascend(unary, pairwise, graph, sweeps, tolerance, labels):
    """Improve a labelling in place by a number of sweeps, and return its score.

    The first sweep that does not raise the score is undone and ends this, whatever rounding does.
    """
    score = score_labels(unary, pairwise, graph[0], labels)
    current = labels.copy()
    for _ in range(sweeps):
        improve(unary, pairwise, graph, current)
        gain = score_labels(unary, pairwise, graph[0], current) - score
        if not gain > 0.0:
            break
        score += gain
        for i in range(labels.shape[0]):
            labels[i] = current[i]
        if gain <= tolerance * max(1.0, abs(score)):
            break
    return score


@inner
def improve(unary, pairwise, graph, labels):
    """Change the labels of single nodes, and of both ends of an edge, where that raises the score.

    No two edges may have the same ends, and scores are finite.
    """
    edges, _, starts, _, incident = graph
    n, K = unary.shape
    shared = pairwise.shape[0] < edges.shape[0]
    first, second = np.empty(K), np.empty(K)
    for e in range(-n, edges.shape[0]):
        i, j = (n + e, -1) if e < 0 else (edges[e, 0], edges[e, 1])
        for end, own in ((i, first), (j, second)):
            for y in range(K):
                own[y] = unary[end, y] if end >= 0 else 0.0
            for q in range(starts[end], starts[end + 1] if end >= 0 else starts[end]):
                if incident[q] != e:
                    add_column(
                        pairwise, 0 if shared else incident[q], edges, incident[q], end, labels, own
                    )
        best_i, best_j = labels[i], labels[j] if j >= 0 else 0
        scores = pairwise[0 if shared else max(e, 0)]
        best = first[best_i] + (second[best_j] + scores[best_i, best_j] if j >= 0 else 0.0)
        for y in range(K):
            for z in range(K if j >= 0 else 1):
                score = first[y] + (second[z] + scores[y, z] if j >= 0 else 0.0)
                if score > best:
                    best, best_i, best_j = score, y, z
        labels[i] = best_i
        if j >= 0:
            labels[j] = best_j


@compiled
def score_labels(unary, pairwise, edges, labels):
    """Return the score of a labelling."""
    shared, score = pairwise.shape[0] < edges.shape[0], 0.0
    for i in range(labels.shape[0]):
        score += unary[i, labels[i]]
    for e in range(edges.shape[0]):
        score += pairwise[0 if shared else e, labels[edges[e, 0]], labels[edges[e, 1]]]
    return score


@compiled
def add_indicator(unary, pairwise, edges, labels, amount):
    """Add an amount to every part of a labelling."""
    shared = pairwise.shape[0] < edges.shape[0]
    for i in range(labels.shape[0]):
        unary[i, labels[i]] += amount
    for e in range(edges.shape[0]):
        pairwise[0 if shared else e, labels[edges[e, 0]], labels[edges[e, 1]]] += amount
