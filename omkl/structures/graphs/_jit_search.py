"""A search for a labelling of a graph whose parts are all allowed.

``graph`` and potentials are those of ``_jit_labellings``.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import compiled, inner
from omkl.structures._jit_labels import row_of

#: What a search ended with.
FOUND, NONE, UNKNOWN = 0, 1, 2
#: No node, where each has one label left; no label.
NO_NODE = NO_LABEL = -1
#: Columns of a choice: node, its label, and the number of labels removed before.
NODE, LABEL, N_REMOVED, N_COLUMNS = range(4)


class Search(NamedTuple):
    """State of a search: the possible labels that are left, and memory.

    ``left`` (n, K) are the labels left, ``counts`` (n,) their numbers, ``failures`` (n,) how often
    a node had none. The first entries of ``removed`` (n K, 2) are nodes and labels that were
    removed. ``queue`` (n,) is a ring of nodes to look at, ``queued`` (n,) a mask of them.
    """

    left: np.ndarray
    counts: np.ndarray
    failures: np.ndarray
    removed: np.ndarray
    queue: np.ndarray
    queued: np.ndarray


@inner
def choose_node(counts, counts_before, failures):
    """Return the next node to choose a label for, and whether earlier choices do not matter to it.

    It is NO_NODE if each node has one label left. Earlier choices do not matter if they have
    removed no label of the nodes that remain, such as those in another component of the graph. All
    arguments are (n,).
    """
    node = NO_NODE
    is_independent = True
    for i in range(counts.shape[0]):
        if counts[i] > 1:
            is_independent = is_independent and counts[i] == counts_before[i]
            is_best = node == NO_NODE
            if not is_best:
                is_best = counts[i] * (1 + failures[node]) < counts[node] * (1 + failures[i])
            if is_best:
                node = i
    return node, is_independent


@inner
def best_label(unary, left, node):
    """Return the label left (n, K) at a node that scores highest by itself."""
    label = NO_LABEL
    for y in range(unary.shape[1]):
        if left[node, y] and (label == NO_LABEL or unary[node, y] > unary[node, label]):
            label = y
    return label


@inner
def write_labels(left, labels):
    """Write the only label (n,) that is left (n, K) at each node."""
    for i in range(labels.shape[0]):
        for y in range(left.shape[1]):
            if left[i, y]:
                labels[i] = y


@inner
def remove(search, n_removed, i, y):
    """Remove the label y of node i in the state; return the new number of removed labels."""
    search.left[i, y] = False
    search.counts[i] -= 1
    search.removed[n_removed, 0] = i
    search.removed[n_removed, 1] = y
    return n_removed + 1


@inner
def restore(search, n_kept, n_removed):
    """Make the labels possible again that were removed after the first ``n_kept`` ones."""
    for place in range(n_kept, n_removed):
        i = search.removed[place, 0]
        search.left[i, search.removed[place, 1]] = True
        search.counts[i] += 1


@inner
def prune(pairwise, graph, search, n_waiting, n_removed):
    """Remove labels that lack a partner at a neighbour, and those that then lack one, and so on.

    The first ``n_waiting`` nodes of the queue have lost labels before. Returns the new number of
    removed labels, whether each node has a label left, and the number of edges looked at.
    """
    edges, _, starts, _, incident = graph
    left = search.left
    queue = search.queue
    queued = search.queued
    n, n_labels = left.shape
    head = 0
    n_steps = 0
    consistent = True
    while n_waiting > 0:
        i = queue[head]
        head = (head + 1) % n
        n_waiting -= 1
        queued[i] = False
        if not consistent:
            continue
        for q in range(starts[i], starts[i + 1]):
            e = incident[q]
            scores = pairwise[row_of(pairwise, e)]
            is_first_node = edges[e, 0] == i
            j = edges[e, 1] if is_first_node else edges[e, 0]
            n_steps += 1
            for z in range(n_labels):
                if not left[j, z] or has_partner(scores, is_first_node, left[i], z):
                    continue
                n_removed = remove(search, n_removed, j, z)
                if search.counts[j] == 0:
                    search.failures[j] += 1
                    consistent = False
                if not queued[j]:
                    queue[(head + n_waiting) % n] = j
                    queued[j] = True
                    n_waiting += 1
    return n_removed, consistent, n_steps


@inner
def has_partner(scores, is_first_node, left, z):
    """Return whether a label left (K,) at a node is allowed beside label z of its neighbour."""
    for y in range(left.shape[0]):
        score = scores[y, z] if is_first_node else scores[z, y]
        if left[y] and score > -np.inf:
            return True
    return False


@inner
def prune_from(pairwise, graph, search, node, n_removed):
    """Remove labels as :func:`prune` does, from one node on."""
    search.queue[0] = node
    search.queued[node] = True
    return prune(pairwise, graph, search, 1, n_removed)


@compiled
def find_labelling(unary, pairwise, graph, budget, possible, labels):
    """Search a labelling without a score of -inf, and write it (n,).

    Return FOUND, NONE, or UNKNOWN after ``budget`` steps. The node with the fewest possible labels
    for the number of its failures (Boussemart et al. 2004, *Boosting systematic search by weighting
    constraints*) gets the label that scores highest by itself. The labels that then lack a partner
    at a neighbour are removed, which fails if none is left. ``possible`` (n, K) gets the labels
    that have partners before any choice.
    """
    n, n_labels = unary.shape
    search = Search(
        left=possible,
        counts=np.zeros(n, np.int64),
        failures=np.zeros(n, np.int64),
        removed=np.empty((n * n_labels, 2), np.int64),
        queue=np.arange(n),
        queued=np.ones(n, np.bool_),
    )
    for i in range(n):
        for y in range(n_labels):
            possible[i, y] = unary[i, y] > -np.inf
            search.counts[i] += possible[i, y]
        if search.counts[i] == 0:
            return NONE
    n_removed, consistent, n_steps = prune(pairwise, graph, search, n, 0)
    if not consistent:
        return NONE
    counts_before = search.counts.copy()
    search = Search(
        left=possible.copy(),
        counts=search.counts,
        failures=search.failures,
        removed=search.removed,
        queue=search.queue,
        queued=search.queued,
    )
    choices = np.empty((n, N_COLUMNS), np.int64)
    n_choices = 0
    while n_steps <= budget:
        node, is_independent = choose_node(search.counts, counts_before, search.failures)
        if node == NO_NODE:
            write_labels(search.left, labels)
            return FOUND
        if is_independent:
            n_choices = 0
        label = best_label(unary, search.left, node)
        choice = choices[n_choices]
        choice[NODE] = node
        choice[LABEL] = label
        choice[N_REMOVED] = n_removed
        n_choices += 1
        for y in range(n_labels):
            if search.left[node, y] and y != label:
                n_removed = remove(search, n_removed, node, y)
        n_removed, consistent, n_looked_at = prune_from(pairwise, graph, search, node, n_removed)
        n_steps += n + n_looked_at
        while not consistent:  # the last choice was wrong
            if n_choices == 0:
                return NONE
            n_choices -= 1
            choice = choices[n_choices]
            node = choice[NODE]
            restore(search, choice[N_REMOVED], n_removed)
            n_removed = remove(search, choice[N_REMOVED], node, choice[LABEL])
            n_removed, consistent, n_looked_at = prune_from(
                pairwise, graph, search, node, n_removed
            )
            n_steps += n_looked_at
    return UNKNOWN
