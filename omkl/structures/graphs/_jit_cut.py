"""The best labelling with two labels as a minimum cut, where equal labels score higher.

Kolmogorov and Zabih 2004, *What energy functions can be minimized via graph cuts?* Maximum flows
are those of Dinic (1970). All maximum flows have the same nodes that can still be reached from the
source, so the labelling depends on the scores only.

Arc ``a`` of the network has a tail, a head and ``room``, the capacity that is left; ``a ^ 1`` is
its reverse. The arcs of a node are ``arcs[starts[node] : starts[node + 1]]``.
"""

import numpy as np

from omkl._compilation import compiled, inner
from omkl.structures._jit_labels import copy, row_of
from omkl.structures.graphs._jit_labellings import list_by_node

#: Largest capacity of an arc.
LARGEST = 2**30
#: Level of a node that was not reached.
UNREACHED = -1


@inner
def gains_of_second_label(unary, pairwise, edges):
    """Write the scores of labellings as gains of nodes, and attractions of edges.

    ``unary`` is (n, 2), ``pairwise`` (E, 2, 2) or (1, 2, 2), and ``edges`` (E, 2).

    Returns
    -------
    gains : array of shape (n,)
        What a node gains by the second label, if its neighbours in the first place of an edge have
        the second label, and those in the second place the first one.
    sum_of_links : array of shape (n,)
        Sum of the attractions of the edges of a node: a gain of this size decides its label.
    links : array of shape (E,)
        Attraction: what equal labels score above different ones.
    highest : float
        Upper bound of the scores of all labellings.
    """
    n = unary.shape[0]
    of_first = np.zeros(n)
    of_second = np.zeros(n)
    sum_of_links = np.zeros(n)
    links = np.empty(edges.shape[0])
    highest = 0.0
    for e in range(edges.shape[0]):
        scores = pairwise[row_of(pairwise, e)]
        of_first[edges[e, 0]] += scores[1, 0] - scores[0, 0]
        of_second[edges[e, 1]] += scores[1, 1] - scores[1, 0]
        links[e] = (scores[0, 0] - scores[1, 0]) + (scores[1, 1] - scores[0, 1])
        sum_of_links[edges[e, 0]] += links[e]
        sum_of_links[edges[e, 1]] += links[e]
        highest += scores[0, 0]
    gains = np.empty(n)
    for i in range(n):
        gains[i] = unary[i, 1] - unary[i, 0] + of_first[i] + of_second[i]
        highest += unary[i, 0] + max(gains[i], 0.0)
    return gains, sum_of_links, links, highest


@inner
def put_arc(tails, heads, room, arc, tail, head, capacity):
    """Write arc ``2 * arc`` with its capacity, and its reverse ``2 * arc + 1`` of capacity 0.

    Writes to ``tails``, ``heads`` and ``room`` (2 (E + n),), which has zeros before.
    """
    tails[2 * arc] = tail
    heads[2 * arc] = head
    room[2 * arc] = capacity
    tails[2 * arc + 1] = head
    heads[2 * arc + 1] = tail


@inner
def make_arcs(gains, sum_of_links, links, edges, unit):
    """Return tails, heads and capacities of the arcs of a network, each (2 (E + n),).

    There is an arc for each edge, and one for each node i from the source n, or to the sink n + 1.
    Capacities are in units, and rounded down. For arguments see :func:`gains_of_second_label`.
    """
    n = gains.shape[0]
    n_edges = edges.shape[0]
    tails = np.empty(2 * (n_edges + n), np.int64)
    heads = np.empty(2 * (n_edges + n), np.int64)
    room = np.zeros(2 * (n_edges + n), np.int64)
    for e in range(n_edges):
        put_arc(tails, heads, room, e, edges[e, 1], edges[e, 0], np.int64(links[e] / unit))
    for i in range(n):
        capacity = np.int64(min(abs(gains[i]), sum_of_links[i]) / unit)
        if gains[i] > 0.0:
            put_arc(tails, heads, room, n_edges + i, n, i, capacity)
        else:
            put_arc(tails, heads, room, n_edges + i, i, n + 1, capacity)
    return tails, heads, room


@inner
def push_maximum_flow(tails, heads, room, source, sink, levels):
    """Push a maximum flow, which reduces the ``room`` of arcs; return its size.

    ``levels`` (number of nodes,) gets :data:`UNREACHED` for nodes on the side of the sink.
    """
    n_nodes = levels.shape[0]
    starts, arcs = list_by_node(tails, n_nodes)
    next_place = starts.copy()
    queue = np.empty(n_nodes, np.int64)
    path = np.empty(n_nodes, np.int64)
    flow = np.int64(0)
    while find_levels(heads, room, starts, arcs, source, sink, levels, queue):
        copy(starts, next_place)
        flow += push_along_levels(
            tails, heads, room, starts, arcs, next_place, source, sink, levels, path
        )
    return flow


@inner
def find_levels(heads, room, starts, arcs, source, sink, levels, queue):
    """Write the distance of each node from the source; return whether the sink is reached.

    Paths are along arcs with room. Writes to ``levels``; ``queue`` is memory; both have an entry
    for each node.
    """
    levels[:] = UNREACHED
    levels[source] = 0
    queue[0] = source
    n_done, n_found = 0, 1
    while n_done < n_found:
        node = queue[n_done]
        n_done += 1
        for place in range(starts[node], starts[node + 1]):
            arc = arcs[place]
            if room[arc] > 0 and levels[heads[arc]] == UNREACHED:
                levels[heads[arc]] = levels[node] + 1
                queue[n_found] = heads[arc]
                n_found += 1
    return levels[sink] != UNREACHED


@inner
def push_along_levels(tails, heads, room, starts, arcs, next_place, source, sink, levels, path):
    """Push flow along paths of increasing levels until none is left; return how much.

    Writes to ``room``, and to ``next_place``, which has the place in ``arcs`` of the next arc of
    each node to try. ``path`` (number of nodes,) is memory.
    """
    pushed = np.int64(0)
    length = 0
    node = source
    while True:
        if node == sink:
            least = room[path[0]]
            for step in range(1, length):
                least = min(least, room[path[step]])
            for step in range(length):
                room[path[step]] -= least
                room[path[step] ^ 1] += least
            pushed += least
            length = 0
            node = source
            continue
        can_go_on = False
        while next_place[node] < starts[node + 1] and not can_go_on:
            arc = arcs[next_place[node]]
            can_go_on = room[arc] > 0 and levels[heads[arc]] == levels[node] + 1
            if not can_go_on:
                next_place[node] += 1
        if can_go_on:
            path[length] = arcs[next_place[node]]
            length += 1
            node = heads[arcs[next_place[node]]]
        elif node == source:
            return pushed
        else:
            length -= 1
            node = tails[path[length]]
            next_place[node] += 1


@compiled
def minimum_cut(unary, pairwise, edges, labels):
    """Write the best labelling (n,) with two labels; return an upper bound of all scores.

    It is the best one up to rounding. ``pairwise`` is (E, 2, 2) or (1, 2, 2), ``edges`` (E, 2).
    Equal labels score at least as high as different ones at each edge. Capacities are rounded down,
    so that a flow bounds cuts.
    """
    n = unary.shape[0]
    gains, sum_of_links, links, highest = gains_of_second_label(unary, pairwise, edges)
    largest = 0.0
    for e in range(edges.shape[0]):
        largest = max(largest, links[e])
    for i in range(n):
        largest = max(largest, min(abs(gains[i]), sum_of_links[i]))
    unit = 1.0
    if largest > 0.0:
        unit = largest / LARGEST
    tails, heads, room = make_arcs(gains, sum_of_links, links, edges, unit)
    levels = np.empty(n + 2, np.int64)
    flow = push_maximum_flow(tails, heads, room, n, n + 1, levels)
    for i in range(n):
        labels[i] = levels[i] != UNREACHED
        if abs(gains[i]) >= sum_of_links[i]:
            labels[i] = gains[i] > 0.0
    return highest - unit * flow
