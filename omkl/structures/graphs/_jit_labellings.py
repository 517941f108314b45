"""Layouts of graphs, and message passing for the best labelling.

A labelling scores ``sum_i unary[i, y_i] + sum_e pairwise[e, y_i, y_j]``, e = (i, j).

Nodes have an order. ``graph`` is a tuple: edges (E, 2), the nodes in their order, and for each node
its incident edges, ``incident[starts[i]:middle[i]]`` to earlier and ``incident[middle[i]:starts[i +
1]]`` to later nodes. In a forest, each node has at most one earlier neighbour. Potentials
``pairwise`` (1, K, K) are shared by all edges.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl._compilation import compiled, inner
from omkl._pointers import FLAGS, INTEGER, INTEGERS, VECTOR, Layout
from omkl.structures._jit_labels import copy, largest, row_of

#: Sweeps end when one closes at most this share of the gap between bound and score,
SLOW = 0.0001
#: and at least this many in a row have not raised the score.
PATIENCE = 5
#: In place of an edge: that of a root to its parent, or none to leave out.
NO_EDGE = -1


class GraphArrays(NamedTuple):
    """A graph of n nodes for compiled functions; see :class:`GraphLayout`.

    ``edges`` (E, 2) are all edges, and ``single_edges`` (E', 2) those that messages pass, of which
    no two join the same nodes. For ``order`` (n,), ``starts`` (n + 1,), ``middle`` (n,),
    ``incident`` (2 E',) and ``is_forest`` (0 or 1) see :func:`arrange`. ``forests`` (T, E') are
    masks of spanning forests, with T = 0 if nobody asked for them, and ``rates`` (E',) the rates at
    which these hold an edge. If there are parallel edges, edge e is the single edge
    ``single_edge_of[e]`` (E,), with the two nodes in the other order if ``reverse[e]`` (E,). If
    there are none, these two arrays are empty.
    """

    edges: np.ndarray
    single_edges: np.ndarray
    order: np.ndarray
    starts: np.ndarray
    middle: np.ndarray
    incident: np.ndarray
    is_forest: int
    single_edge_of: np.ndarray
    reverse: np.ndarray
    forests: np.ndarray
    rates: np.ndarray


PAIRS_OF_NODES = types.int64[:, ::1]
MASKS = types.boolean[:, ::1]
GRAPH = Layout(
    GraphArrays,
    edges=PAIRS_OF_NODES,
    single_edges=PAIRS_OF_NODES,
    order=INTEGERS,
    starts=INTEGERS,
    middle=INTEGERS,
    incident=INTEGERS,
    is_forest=INTEGER,
    single_edge_of=INTEGERS,
    reverse=FLAGS,
    forests=MASKS,
    rates=VECTOR,
)
graph_at = GRAPH.at


# ---- the order of nodes --------------------------------------------------------------------------


@compiled
def arrange(edges, n):
    """Return the order of n nodes, their incident edges, and whether the graph is a forest.

    These are ``order`` (n,), ``starts`` (n + 1,), ``middle`` (n,) and ``incident`` (2 E,).
    """
    starts, ends = list_by_node(edges.ravel(), n)
    incident = ends // 2
    order = np.empty(n, np.int64)
    parents = np.empty(n, np.int64)
    all_edges = np.ones(edges.shape[0], np.bool_)
    walk(edges, starts, incident, all_edges, order, parents, np.empty(n, np.bool_))
    n_children = 0
    for edge in parents:
        n_children += edge != NO_EDGE
    forest = edges.shape[0] == n_children
    ranks = np.empty(n, np.int64)
    for place in range(n):
        if not forest:  # any order will do: this one reads memory in order
            order[place] = place
        ranks[order[place]] = place
    middle = np.empty(n, np.int64)
    for i in range(n):
        edges_of_node = incident[starts[i] : starts[i + 1]].copy()
        position = starts[i]
        for later in range(2):  # edges to earlier nodes come first
            for e in edges_of_node:
                neighbour = edges[e, 0] + edges[e, 1] - i
                if (ranks[neighbour] > ranks[i]) == (later == 1):
                    incident[position] = e
                    position += 1
            if later == 0:
                middle[i] = position
    return order, starts, middle, incident, forest


@inner
def list_by_node(node_of, n):
    """Return the bounds (n + 1,) of the items of each of n nodes, and these items, in their order.

    Item k belongs to the node ``node_of[k]``.
    """
    starts = np.zeros(n + 1, np.int64)
    for node in node_of:
        starts[node + 1] += 1
    starts = np.cumsum(starts)
    next_place = starts.copy()
    items = np.empty(node_of.shape[0], np.int64)
    for item in range(node_of.shape[0]):
        items[next_place[node_of[item]]] = item
        next_place[node_of[item]] += 1
    return starts, items


@inner
def walk(edges, starts, incident, chosen, order, parents, seen):
    """Write the nodes of a forest in an order with parents first, and their edges to parents.

    The forest has the ``chosen`` edges, a mask (E,). ``parents`` (n,) gets :data:`NO_EDGE` for
    roots; ``order`` is (n,), too, and ``seen`` (n,) is memory.
    """
    seen[:] = False
    n_done = 0
    n_found = 0
    for root in range(order.shape[0]):
        if not seen[root]:
            seen[root] = True
            order[n_found] = root
            parents[root] = NO_EDGE
            n_found += 1
        while n_done < n_found:
            i = order[n_done]
            n_done += 1
            for q in range(starts[i], starts[i + 1]):
                e = incident[q]
                j = edges[e, 0] + edges[e, 1] - i
                if chosen[e] and not seen[j]:
                    seen[j] = True
                    order[n_found] = j
                    parents[j] = e
                    n_found += 1


# ---- parts of a labelling ------------------------------------------------------------------------


@compiled
def score_labels(unary, pairwise, edges, labels):
    """Return the score of a labelling (n,)."""
    score = 0.0
    for i in range(labels.shape[0]):
        score += unary[i, labels[i]]
    for e in range(edges.shape[0]):
        scores = pairwise[row_of(pairwise, e)]
        score += scores[labels[edges[e, 0]], labels[edges[e, 1]]]
    return score


@compiled
def add_indicator(unary, pairwise, edges, labels, amount):
    """Add an amount to every part of a labelling (n,)."""
    for i in range(labels.shape[0]):
        unary[i, labels[i]] += amount
    for e in range(edges.shape[0]):
        scores = pairwise[row_of(pairwise, e)]
        scores[labels[edges[e, 0]], labels[edges[e, 1]]] += amount


# ---- changes of single labels and of pairs -------------------------------------------------------


@inner
def add_column(pairwise, p, edges, e, i, labels, scores):
    """Add the scores ``pairwise[p]`` of edge e, given the label at its other end, to those of i.

    ``scores`` (K,) are those of the labels of node i.
    """
    if edges[e, 0] == i:
        other = labels[edges[e, 1]]
        for y in range(scores.shape[0]):
            scores[y] += pairwise[p, y, other]
    else:
        other = labels[edges[e, 0]]
        for y in range(scores.shape[0]):
            scores[y] += pairwise[p, other, y]


@inner
def collect_scores(unary, pairwise, graph, labels, i, left_out, scores):
    """Write the scores (K,) of the labels of node i, given those of its neighbours.

    The edge ``left_out`` does not count.
    """
    edges, _, starts, _, incident = graph
    copy(unary[i], scores)
    for q in range(starts[i], starts[i + 1]):
        e = incident[q]
        if e != left_out:
            add_column(pairwise, row_of(pairwise, e), edges, e, i, labels, scores)


@inner
def improve(unary, pairwise, graph, labels):
    """Change the labels of single nodes, and of both ends of an edge, where that raises the score.

    No two edges may have the same ends, and scores are finite.
    """
    edges = graph[0]
    n, n_labels = unary.shape
    of_first = np.empty(n_labels)
    of_second = np.empty(n_labels)
    for i in range(n):
        collect_scores(unary, pairwise, graph, labels, i, NO_EDGE, of_first)
        best_label = labels[i]
        best = of_first[best_label]
        for y in range(n_labels):
            if of_first[y] > best:
                best = of_first[y]
                best_label = y
        labels[i] = best_label
    for e in range(edges.shape[0]):
        i = edges[e, 0]
        j = edges[e, 1]
        collect_scores(unary, pairwise, graph, labels, i, e, of_first)
        collect_scores(unary, pairwise, graph, labels, j, e, of_second)
        scores = pairwise[row_of(pairwise, e)]
        best_first = labels[i]
        best_second = labels[j]
        best = of_first[best_first] + (of_second[best_second] + scores[best_first, best_second])
        for y in range(n_labels):
            for z in range(n_labels):
                score = of_first[y] + (of_second[z] + scores[y, z])
                if score > best:
                    best = score
                    best_first = y
                    best_second = z
        labels[i] = best_first
        labels[j] = best_second


@compiled
def ascend(unary, pairwise, graph, sweeps, tolerance, labels):
    """Improve a labelling (n,) in place by a number of sweeps, and return its score.

    The first sweep that does not raise the score, at a maximum or by rounding, is undone and is
    the last one.
    """
    score = score_labels(unary, pairwise, graph[0], labels)
    current = labels.copy()
    for _ in range(sweeps):
        improve(unary, pairwise, graph, current)
        gain = score_labels(unary, pairwise, graph[0], current) - score
        if not gain > 0.0:
            break
        score += gain
        copy(current, labels)
        if gain <= tolerance * max(1.0, abs(score)):
            break
    return score


# ---- the best labelling --------------------------------------------------------------------------


@compiled
def sweep(unary, pairwise, graph, forest, back, messages, labels):
    """Send messages to earlier nodes (``back``), or choose labels and send to later nodes.

    Return the bound of a sweep back. ``messages`` (E, K) go to the earlier node of an edge after
    one sweep, and to the later node after the other. The label of a node is the best one given the
    labels of earlier nodes and the messages from later ones.
    """
    edges, order, starts, middle, incident = graph
    n, n_labels = unary.shape
    bound = 0.0
    belief = np.empty(n_labels)
    source = np.empty(n_labels)
    target = np.empty(n_labels)
    # scores of the labels of earlier neighbours
    n_chosen = 0 if back else n
    chosen = np.zeros((n_chosen, n_labels))
    for place in range(n):
        rank = n - 1 - place if back else place
        i = order[rank]
        for y in range(n_labels):
            belief[y] = unary[i, y]
        for q in range(middle[i], starts[i + 1]):
            for y in range(n_labels):
                belief[y] += messages[incident[q], y]
        if not back:
            label = 0
            for y in range(1, n_labels):
                if belief[y] + chosen[i, y] > belief[label] + chosen[i, label]:
                    label = y
            labels[i] = label
        for q in range(starts[i], middle[i]):
            for y in range(n_labels):
                belief[y] += messages[incident[q], y]
        if back:
            highest = largest(belief)
            bound += highest
            for y in range(n_labels):
                belief[y] -= highest
        n_later = starts[i + 1] - middle[i]
        # TRW-S: the monotonic chains through the node get equal shares of its belief
        share = 1.0
        if not forest:
            share = 1.0 / max(middle[i] - starts[i], n_later, 1)
        first = middle[i]
        end = starts[i + 1]
        if back:
            first = starts[i]
            end = middle[i]
        for q in range(first, end):
            e = incident[q]
            p = row_of(pairwise, e)
            is_first_node = edges[e, 0] == i
            if not back:
                j = edges[e, 0] + edges[e, 1] - i
                for y in range(n_labels):  # a call of add_column takes longer than the rest
                    if is_first_node:
                        chosen[j, y] += pairwise[p, labels[i], y]
                    else:
                        chosen[j, y] += pairwise[p, y, labels[i]]
                if forest:  # the sweep back was enough
                    continue
            for y in range(n_labels):
                source[y] = share * belief[y] - messages[e, y]
                target[y] = -np.inf
            if is_first_node:
                for y in range(n_labels):
                    base = source[y]
                    for z in range(n_labels):
                        score = base + pairwise[p, y, z]
                        target[z] = score if score > target[z] else target[z]
            else:
                for z in range(n_labels):
                    best = -np.inf
                    for y in range(n_labels):
                        score = source[y] + pairwise[p, z, y]
                        best = score if score > best else best
                    target[z] = best
            highest = largest(target)
            for z in range(n_labels):
                messages[e, z] = target[z] - highest
            bound += highest
    return bound


@compiled
def best_labelling(graph_address, unary, pairwise, sweeps, tolerance, labels):
    """Write a labelling (n,), and return its score and an upper bound of all scores.

    On a forest, this is dynamic programming, and exact. On other graphs, it is sequential
    tree-reweighted message passing (Kolmogorov 2006, TRW-S), which ends when bound and score agree
    up to ``tolerance``, after ``sweeps``, or when they gain little (:data:`SLOW`). Without
    agreement, the labelling is then improved by changes of single nodes and of pairs.
    """
    arrays = graph_at(graph_address)
    graph = (arrays.single_edges, arrays.order, arrays.starts, arrays.middle, arrays.incident)
    forest = arrays.is_forest != 0
    messages = np.zeros((arrays.single_edges.shape[0], unary.shape[1]))
    current = np.empty(labels.shape[0], np.int64)
    score = -np.inf
    bound = np.inf
    bound_before = np.inf
    n_stale = 0
    for _ in range(sweeps):
        for back in (True, False):  # for a constant as an argument, Numba would compile once more
            bound_of_sweep = sweep(unary, pairwise, graph, forest, back, messages, current)
            if back and bound_of_sweep < bound:
                bound = bound_of_sweep
        current_score = score_labels(unary, pairwise, arrays.single_edges, current)
        n_stale += 1
        if current_score > score:
            score = current_score
            n_stale = 0
            copy(current, labels)
        if forest or bound - score <= tolerance * max(1.0, abs(score)):
            return score, bound
        # the bound would take too long
        if n_stale >= PATIENCE and bound_before - bound <= SLOW * (bound - score):
            break
        bound_before = bound
    return ascend(unary, pairwise, graph, sweeps, tolerance, labels), bound
