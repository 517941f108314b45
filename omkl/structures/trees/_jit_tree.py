"""Maximum spanning arborescences of a dense score matrix over n tokens and the root 0.

``scores[h, m]`` (n + 1, n + 1) is the score of the arc from head h to token m. The algorithm
contracts cycles (Chu and Liu 1965, Edmonds 1967) in the path-growing order of Gabow, Galil, Spencer
and Tarjan (1986). It follows best incoming arcs backwards from a token. A cycle becomes one node,
whose row of incoming arcs is the maximum of its children's rows, each less the cycle's arc into
that child. Every node is merged once, so the total cost is O(n^2).

``heads[i]`` is the head of token ``i + 1``.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled, inner

#: In place of an index on the path: tokens that no path has reached, and those of finished paths.
UNSEEN, DONE = -2, -1
#: What the best heads of all tokens form, see :func:`best_heads`.
NOTHING, TREE, CYCLE = range(3)


@compiled
def best_heads(scores, single_root, source, heads):
    """Write the best head of each token; return :data:`TREE`, :data:`CYCLE`, or :data:`NOTHING`.

    There is nothing if a token has no head, or a score is nan or +inf. Writes to ``heads`` (n,),
    and for a cycle to ``source`` (n + 1,) what :func:`contract` needs.
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
    """Write each token's best head among the tokens; return False if a score is nan or +inf.

    ``best`` and ``source`` (n + 1,) are set to the score and the index of the head.
    """
    n = scores.shape[0] - 1
    is_unfit = False
    for m in range(1, n + 1):
        best[m] = -np.inf
        source[m] = 0
        is_unfit |= not scores[0, m] < np.inf
    for h in range(1, n + 1):
        row = scores[h]
        for first, last in ((1, h), (h + 1, n + 1)):
            for m in range(first, last):
                is_better = row[m] > best[m]
                best[m] = row[m] if is_better else best[m]
                source[m] = h if is_better else source[m]
                is_unfit |= not row[m] < np.inf
    return not is_unfit


@inner
def is_tree(heads, single_root):
    """Return whether heads (n,) lead all tokens to the root, by one child if ``single_root``."""
    n = heads.shape[0]
    n_children_of_root = 0
    walk_of = np.empty(n + 1, np.int64)  # the walk that first visited a token, 0 if none did
    walk_of[:] = 0
    for start in range(1, n + 1):
        n_children_of_root += heads[start - 1] == 0
        m = start
        while m != 0 and walk_of[m] == 0:
            walk_of[m] = start
            m = heads[m - 1]
        if m != 0 and walk_of[m] == start:
            return False
    return n_children_of_root == 1 or not single_root


class Contraction(NamedTuple):
    """Nodes of a contraction: the root and n tokens, then cycles that became nodes, up to 2 n.

    ``incoming[v, u]`` (2 n, n + 1) is the score of the best arc from token u into the node v, less
    the arcs of its cycles. ``chosen_head`` and ``score_on_path`` (2 n,) are the head and the score
    of the arc into each node on the path; the head is a token or the root. Node v merges
    ``children[first_child[v] : first_child[v + 1]]`` (2 n,). The ``path`` (n + 1,) has nodes, and
    ``index_on_path`` (n + 1,) the index of each token's node on it, or :data:`UNSEEN` or
    :data:`DONE`.
    """

    incoming: np.ndarray
    chosen_head: np.ndarray
    score_on_path: np.ndarray
    children: np.ndarray
    first_child: np.ndarray
    path: np.ndarray
    index_on_path: np.ndarray


@compiled
def contract(scores, single_root, source, heads):
    """Write the heads (n,) of the best tree by contraction; return False if there is none.

    ``source[m]`` (n + 1,) is the best head of token m, among tokens for a single root.

    A single root child needs no large constant: arcs are compared by (not from the root, score),
    and contraction never changes the first key, because no cycle contains the root. So a node takes
    the arc from the root only if no other arc enters it, and only once.
    """
    n = heads.shape[0]
    contraction = start_contraction(scores, source)
    chosen_head, index_on_path = contraction.chosen_head, contraction.index_on_path
    n_nodes = n + 1
    is_rooted = False
    for start in range(1, n + 1):
        if index_on_path[start] == UNSEEN:
            last, n_nodes = grow(start, single_root, contraction, n_nodes)
            from_root = chosen_head[last] == 0
            if not contraction.score_on_path[last] > -np.inf:
                return False
            if single_root and from_root and is_rooted:
                return False
            is_rooted |= from_root
            for u in range(1, n + 1):
                index_on_path[u] = DONE if index_on_path[u] >= 0 else index_on_path[u]
    expand(contraction, n_nodes)
    for m in range(n):
        heads[m] = chosen_head[m + 1]
    return True


@inner
def start_contraction(scores, source):
    """Return a contraction without cycles, in which ``source`` (n + 1,) are the chosen heads."""
    n = scores.shape[0] - 1
    contraction = Contraction(
        incoming=np.empty((2 * n, n + 1)),
        chosen_head=np.empty(2 * n, np.int64),
        score_on_path=np.empty(2 * n),
        children=np.empty(2 * n, np.int64),
        first_child=np.empty(2 * n + 1, np.int64),
        path=np.empty(n + 1, np.int64),
        index_on_path=np.empty(n + 1, np.int64),
    )
    incoming = contraction.incoming
    for v in range(1, n + 1):
        for u in range(n + 1):
            incoming[v, u] = scores[u, v]
    contraction.index_on_path[:] = UNSEEN
    for v in range(1, n + 1):
        incoming[v, v] = -np.inf
        contraction.chosen_head[v] = source[v]
    contraction.first_child[n + 1] = 0
    return contraction


@borrowing
def grow(start, single_root, contraction, n_nodes):
    """Follow best arcs backwards from ``start`` to the root or a finished token; contract cycles.

    Writes to the arrays of the contraction, which has ``n_nodes`` nodes. Return the node that the
    last arc enters, and the new number of nodes. The score of that arc is -inf if there is none.
    """
    incoming = contraction.incoming
    chosen_head = contraction.chosen_head
    score_on_path = contraction.score_on_path
    children, first_child = contraction.children, contraction.first_child
    path, index_on_path = contraction.path, contraction.index_on_path
    n = index_on_path.shape[0] - 1
    first_head = 1 if single_root else 0
    depth = 0
    path[0] = start
    index_on_path[start] = 0
    while True:
        v = path[depth]
        u = chosen_head[v] if v <= n else best_head(incoming[v], first_head)
        chosen_head[v] = u
        score_on_path[v] = incoming[v, u]
        if u == 0 or index_on_path[u] == DONE:
            return v, n_nodes
        if index_on_path[u] == UNSEEN:
            depth += 1
            path[depth] = u
            index_on_path[u] = depth
            continue
        first = first_child[n_nodes]
        end = first + depth + 1 - index_on_path[u]
        depth = index_on_path[u]
        for c in range(end - first):
            children[first + c] = path[depth + c]
        first_child[n_nodes + 1] = end
        merge(incoming, n_nodes, score_on_path, children[first:end], index_on_path, depth)
        path[depth] = n_nodes
        n_nodes += 1


@borrowing
def best_head(row, first):
    """Return the index of the largest entry of a row (n + 1,) from ``first`` on.

    It is the lowest one in a tie, and 0 if all of them are -inf.
    """
    best = -np.inf
    best_index = 0
    for u in range(first, row.shape[0]):
        if row[u] > best:
            best = row[u]
            best_index = u
    return best_index


@borrowing
def merge(incoming, node, score_on_path, children, index_on_path, depth):
    """Contract the cycle of ``children``, any number of nodes, into a node on the path.

    ``incoming`` (2 n, n + 1), ``score_on_path`` (2 n,) and ``index_on_path`` (n + 1,) are those of
    the :class:`Contraction`. Writes the arcs into the node, ``incoming[node]``, and its index
    ``depth`` on the path for the tokens of the cycle, which are those beyond this index.
    """
    n = index_on_path.shape[0] - 1
    into = incoming[node]
    into_child = incoming[children[0]]
    score_in_cycle = score_on_path[children[0]]
    for u in range(n + 1):
        into[u] = into_child[u] - score_in_cycle
    for c in range(1, children.shape[0]):
        into_child = incoming[children[c]]
        score_in_cycle = score_on_path[children[c]]
        for u in range(n + 1):
            gain = into_child[u] - score_in_cycle
            into[u] = gain if gain > into[u] else into[u]
    for u in range(1, n + 1):
        index_on_path[u] = depth if index_on_path[u] > depth else index_on_path[u]
        into[u] = -np.inf if index_on_path[u] == depth else into[u]


@borrowing
def expand(contraction, n_nodes):
    """Pass the arc into each contracted node down to the child that it enters, last nodes first.

    Writes to ``chosen_head`` of the contraction.
    """
    incoming = contraction.incoming
    chosen_head = contraction.chosen_head
    score_on_path = contraction.score_on_path
    first_child = contraction.first_child
    n = incoming.shape[1] - 1
    for v in range(n_nodes - 1, n, -1):
        u = chosen_head[v]
        for c in range(first_child[v], first_child[v + 1]):
            child = contraction.children[c]
            if incoming[child, u] - score_on_path[child] == incoming[v, u]:
                chosen_head[child] = u
                break
