"""A search for a labelling of a graph whose parts are all allowed.

``graph`` and potentials are those of ``_jit_labellings``.
"""

import numpy as np

from omkl._compilation import compiled, inner

#: What a search ended with.
FOUND, NONE, UNKNOWN = 0, 1, 2


@compiled
def find_labelling(unary, pairwise, graph, budget, possible, labels):
    """Search a labelling without a score of -inf, and write it; return FOUND, NONE, or UNKNOWN
    after ``budget`` steps.

    The node with the fewest possible labels for the number of its failures (Boussemart et al. 2004,
    *Boosting systematic search by weighting constraints*) gets the label that scores highest by
    itself. The labels that then lack a partner at a neighbour are removed, which fails if none is
    left. ``possible`` (n, K) gets the labels that have partners before any choice.
    """
    n, K = unary.shape
    counts, failures = np.zeros(n, np.int64), np.zeros(n, np.int64)
    queue, queued = np.arange(n), np.ones(n, np.bool_)
    removed, chosen = np.empty((n * K, 2), np.int64), np.empty((n, 3), np.int64)
    for i in range(n):
        for y in range(K):
            possible[i, y] = unary[i, y] > -np.inf
            counts[i] += possible[i, y]
        if counts[i] == 0:
            return NONE
    n_removed, consistent, steps = prune(
        pairwise, graph, possible, counts, failures, queue, queued, n, removed, 0
    )
    if not consistent:
        return NONE
    left, counts_before, depth = possible.copy(), counts.copy(), 0
    while steps <= budget:
        node, is_independent = choose_node(counts, counts_before, failures)
        if node < 0:
            write_labels(left, labels)
            return FOUND
        if is_independent:
            depth = 0
        label = best_label(unary, left, node)
        chosen[depth, 0], chosen[depth, 1], chosen[depth, 2] = node, label, n_removed
        depth += 1
        for y in range(K):
            if left[node, y] and y != label:
                n_removed = remove(left, counts, removed, n_removed, node, y)
        queue[0], queued[node] = node, True
        n_removed, consistent, work = prune(
            pairwise, graph, left, counts, failures, queue, queued, 1, removed, n_removed
        )
        steps += n + work
        while not consistent:  # the last choice was wrong
            if depth == 0:
                return NONE
            depth -= 1
            node, label = chosen[depth, 0], chosen[depth, 1]
            while n_removed > chosen[depth, 2]:
                n_removed -= 1
                left[removed[n_removed, 0], removed[n_removed, 1]] = True
                counts[removed[n_removed, 0]] += 1
            n_removed = remove(left, counts, removed, n_removed, node, label)
            queue[0], queued[node] = node, True
            n_removed, consistent, work = prune(
                pairwise, graph, left, counts, failures, queue, queued, 1, removed, n_removed
            )
            steps += work
    return UNKNOWN


@inner
def choose_node(counts, counts_before, failures):
    """Return the next node, -1 if each has one label left, and whether no choice narrows the nodes
    that remain.

    Then earlier choices do not matter any more, such as those in another component of the graph.
    """
    node, is_independent = -1, True
    for i in range(counts.shape[0]):
        if counts[i] > 1:
            is_independent = is_independent and counts[i] == counts_before[i]
            if node < 0 or counts[i] * (1 + failures[node]) < counts[node] * (1 + failures[i]):
                node = i
    return node, is_independent


@inner
def best_label(unary, left, node):
    """Return the label left at a node that scores highest by itself."""
    label = -1
    for y in range(unary.shape[1]):
        if left[node, y] and (label < 0 or unary[node, y] > unary[node, label]):
            label = y
    return label


@inner
def write_labels(left, labels):
    """Write the only label that is left at each node."""
    for i in range(labels.shape[0]):
        for y in range(left.shape[1]):
            if left[i, y]:
                labels[i] = y


@inner
def remove(left, counts, removed, n_removed, i, y):
    """Remove a possible label of node i, and return the new number of removed labels."""
    left[i, y] = False
    counts[i] -= 1
    removed[n_removed, 0], removed[n_removed, 1] = i, y
    return n_removed + 1


@inner
def prune(pairwise, graph, left, counts, failures, queue, queued, waiting, removed, n_removed):
    """Remove labels that lack a partner at a neighbour, from the ``waiting`` nodes at the start of
    ``queue`` on.

    Returns the new number of removed labels, whether each node has a label left, and the number of
    edges looked at.
    """
    edges, _, starts, _, incident = graph
    n, K = left.shape
    head, steps, consistent = 0, 0, True
    while waiting > 0:
        i = queue[head]
        head, waiting, queued[i] = (head + 1) % n, waiting - 1, False
        for q in range(starts[i], starts[i + 1] if consistent else starts[i]):
            e = incident[q]
            scores, forward = (
                pairwise[0 if pairwise.shape[0] < edges.shape[0] else e],
                edges[e, 0] == i,
            )
            j = edges[e, 1] if forward else edges[e, 0]
            steps += 1
            for z in range(K):
                supported = not left[j, z]
                for y in range(0 if supported else K):
                    supported = supported or (
                        left[i, y] and (scores[y, z] if forward else scores[z, y]) > -np.inf
                    )
                if not supported:
                    n_removed = remove(left, counts, removed, n_removed, j, z)
                    if counts[j] == 0:
                        failures[j] += 1
                        consistent = False
                    if not queued[j]:
                        queue[(head + waiting) % n], queued[j] = j, True
                        waiting += 1
    return n_removed, consistent, steps
