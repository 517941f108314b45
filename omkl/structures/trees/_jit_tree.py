"""Maximum spanning arborescences of a dense score matrix ``scores[h, m]`` over n tokens and the
root 0.

The algorithm contracts cycles (Chu and Liu 1965, Edmonds 1967) in the path-growing order of Gabow,
Galil, Spencer and Tarjan (1986). It follows best incoming arcs backwards from a token. A cycle
becomes one node, whose row of incoming arcs is the maximum of its children's rows, each less the
cycle's arc into that child. Every node is merged once, so the total cost is O(n^2).

``heads[i]`` is the head of token ``i + 1``.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled, inner

#: Places of tokens that are not on the path.
UNSEEN, DONE = -2, -1
#: Found by :func:`best_heads`.
NOTHING, TREE, CYCLE = range(3)


@compiled
def best_heads(scores, single_root, source, heads):
    """Write the best head of each token (n,); return :data:`TREE`, :data:`CYCLE`, or
    :data:`NOTHING`.

    There is nothing if a token has no head, or a score is nan or +inf. For a cycle, write to
    ``source`` (n + 1,) what :func:`contract` needs.
    """
    n = heads.shape[0]
    best = np.empty(n + 1)
    if not best_token_heads(scores, best, source):
        return NOTHING
    for m in range(1, n + 1):
        if best[m] > scores[0, m]:
            heads[m - 1] = source[m]
        elif scores[0, m] > -np.inf:
            heads[m - 1] = 0
        else:
            return NOTHING
    if is_tree(heads, single_root):
        return TREE
    if not single_root:
        for m in range(1, n + 1):
            source[m] = heads[m - 1]
    return CYCLE


@inner
def best_token_heads(scores, best, source):
    """Write score and index (n + 1,) of each token's best head among the tokens; return False if a
    score is nan or +inf.
    """
    n = scores.shape[0] - 1
    unfit = False
    for m in range(1, n + 1):
        best[m] = -np.inf
        source[m] = 0
        unfit |= not scores[0, m] < np.inf
    for h in range(1, n + 1):
        row = scores[h]
        for first, last in ((1, h), (h + 1, n + 1)):
            for m in range(first, last):
                better = row[m] > best[m]
                best[m] = row[m] if better else best[m]
                source[m] = h if better else source[m]
                unfit |= not row[m] < np.inf
    return not unfit


@inner
def is_tree(heads, single_root):
    """Return whether heads (n,) lead all tokens to the root, which has one child if
    ``single_root``.
    """
    n = heads.shape[0]
    n_children_of_root = 0
    met = np.empty(n + 1, np.int64)  # the walk that first visited a token, 0 if none did
    met[:] = 0
    for start in range(1, n + 1):
        n_children_of_root += heads[start - 1] == 0
        m = start
        while m != 0 and met[m] == 0:
            met[m] = start
            m = heads[m - 1]
        if m != 0 and met[m] == start:
            return False
    return n_children_of_root == 1 or not single_root


class Contraction(NamedTuple):
    """Nodes of a contraction: the root and n tokens, then cycles that became nodes, up to 2 n.

    ``incoming[v, u]`` (2 n, n + 1) is the best arc from token u into the node v, less the arcs of
    its cycles. ``chosen`` and ``spent`` (2 n,) are the source and the score of the arc into each
    node on the path. Node v merges ``children[first_child[v] : first_child[v + 1]]``. The ``path``
    (n + 1,) has nodes, and ``position`` (n + 1,) the place of each token's node on it.
    """

    incoming: np.ndarray
    chosen: np.ndarray
    spent: np.ndarray
    children: np.ndarray
    first_child: np.ndarray
    path: np.ndarray
    position: np.ndarray


@compiled
def contract(scores, single_root, source, heads):
    """Write the heads (n,) of the best tree by contraction; return False if there is none.

    ``source[m]`` is the best head of token m, among tokens for a single root.

    A single root child needs no large constant: arcs are compared by (not from the root, score),
    and contraction never changes the first key, because no cycle contains the root. So a node takes
    the arc from the root only if no other arc enters it, and only once.
    """
    n = heads.shape[0]
    contraction = start_contraction(scores, source)
    chosen, position = contraction.chosen, contraction.position
    n_nodes = n + 1
    is_rooted = False
    for start in range(1, n + 1):
        if position[start] == UNSEEN:
            last, n_nodes = grow(start, single_root, contraction, n_nodes)
            from_root = chosen[last] == 0
            if not contraction.spent[last] > -np.inf:
                return False
            if single_root and from_root and is_rooted:
                return False
            is_rooted |= from_root
            for u in range(1, n + 1):
                position[u] = DONE if position[u] >= 0 else position[u]
    expand(contraction, n_nodes)
    for m in range(n):
        heads[m] = chosen[m + 1]
    return True


@inner
def start_contraction(scores, source):
    """Return a contraction without cycles, where each token has chosen its ``source`` (n + 1,)."""
    n = scores.shape[0] - 1
    contraction = Contraction(
        incoming=np.empty((2 * n, n + 1)),
        chosen=np.empty(2 * n, np.int64),
        spent=np.empty(2 * n),
        children=np.empty(2 * n, np.int64),
        first_child=np.empty(2 * n + 1, np.int64),
        path=np.empty(n + 1, np.int64),
        position=np.empty(n + 1, np.int64),
    )
    incoming = contraction.incoming
    for v in range(1, n + 1):
        for u in range(n + 1):
            incoming[v, u] = scores[u, v]
    contraction.position[:] = UNSEEN
    for v in range(1, n + 1):
        incoming[v, v] = -np.inf
        contraction.chosen[v] = source[v]
    contraction.first_child[n + 1] = 0
    return contraction


@borrowing
def grow(start, single_root, contraction, n_nodes):
    """Follow best arcs backwards from ``start``, contracting cycles, to the root or to a finished
    token.

    Return the node that the last arc enters, and the number of nodes. The score of that arc is -inf
    if there is none.
    """
    incoming, chosen, spent = contraction.incoming, contraction.chosen, contraction.spent
    children, first_child = contraction.children, contraction.first_child
    path, position = contraction.path, contraction.position
    n = position.shape[0] - 1
    first_head = 1 if single_root else 0
    depth = 0
    path[0] = start
    position[start] = 0
    while True:
        v = path[depth]
        u = chosen[v] if v <= n else best_head(incoming[v], first_head)
        chosen[v] = u
        spent[v] = incoming[v, u]
        if u == 0 or position[u] == DONE:
            return v, n_nodes
        if position[u] == UNSEEN:
            depth += 1
            path[depth] = u
            position[u] = depth
            continue
        first = first_child[n_nodes]
        end = first + depth + 1 - position[u]
        depth = position[u]
        for c in range(end - first):
            children[first + c] = path[depth + c]
        first_child[n_nodes + 1] = end
        merge(incoming, n_nodes, spent, children[first:end], position, depth)
        path[depth] = n_nodes
        n_nodes += 1


@borrowing
def best_head(row, first):
    """Return the index of the largest entry of a row (n + 1,) from ``first`` on, the lowest in a
    tie; 0 if all of them are -inf.
    """
    best = -np.inf
    where = 0
    for u in range(first, row.shape[0]):
        if row[u] > best:
            best = row[u]
            where = u
    return where


@borrowing
def merge(incoming, node, spent, children, position, depth):
    """Contract the cycle of ``children`` (any number,) into ``node`` at position ``depth`` on the
    path; write its arcs ``incoming[node]`` (n + 1,).
    """
    n = position.shape[0] - 1
    into = incoming[node]
    into_child = incoming[children[0]]
    score_in_cycle = spent[children[0]]
    for u in range(n + 1):
        into[u] = into_child[u] - score_in_cycle
    for c in range(1, children.shape[0]):
        into_child = incoming[children[c]]
        score_in_cycle = spent[children[c]]
        for u in range(n + 1):
            gain = into_child[u] - score_in_cycle
            into[u] = gain if gain > into[u] else into[u]
    for u in range(1, n + 1):
        position[u] = depth if position[u] > depth else position[u]
        into[u] = -np.inf if position[u] == depth else into[u]


@borrowing
def expand(contraction, n_nodes):
    """Pass the arc chosen for each contracted node down to the child that it enters, in reverse
    order.
    """
    incoming, chosen, spent = contraction.incoming, contraction.chosen, contraction.spent
    first_child = contraction.first_child
    n = incoming.shape[1] - 1
    for v in range(n_nodes - 1, n, -1):
        u = chosen[v]
        for c in range(first_child[v], first_child[v + 1]):
            child = contraction.children[c]
            if incoming[child, u] - spent[child] == incoming[v, u]:
                chosen[child] = u
                break
