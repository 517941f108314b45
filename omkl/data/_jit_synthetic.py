"""Best trees over few words, for data that is made up: short rather than fast, as sentences are.

``scores[h, m]`` scores the arc from ``h`` to ``m``; 0 is the root, whose column and the diagonal are ignored.
"""

import numpy as np
from numba import njit

#: Which end of a span of words is the head of the others.
LAST, FIRST = 0, 1


@njit(cache=True, nogil=True)
def best_tree(scores):
    """Head of every node in the best arborescence (Chu and Liu 1965, Edmonds 1967), by recursive contraction."""
    n = scores.shape[0]
    heads = np.zeros(n, np.int64)
    for m in range(1, n):
        for h in range(1, n):
            if h != m and scores[h, m] > scores[heads[m], m]:
                heads[m] = h
    on_cycle = find_cycle(heads)
    if not on_cycle.any():
        return heads
    rest = np.flatnonzero(~on_cycle)
    k = len(rest)  # the cycle becomes node k of a smaller graph; an arc into it replaces one arc of the cycle
    small = np.full((k + 1, k + 1), -np.inf)
    entered = np.zeros(k, np.int64)
    left = np.zeros(k, np.int64)
    for i in range(k):
        for j in range(k):
            small[i, j] = scores[rest[i], rest[j]]
        for v in np.flatnonzero(on_cycle):
            gain = scores[rest[i], v] - scores[heads[v], v]
            if gain > small[i, k]:
                small[i, k], entered[i] = gain, v
            if scores[v, rest[i]] > small[k, i]:
                small[k, i], left[i] = scores[v, rest[i]], v
    found = best_tree(small)
    for j in range(1, k):
        heads[rest[j]] = rest[found[j]] if found[j] < k else left[j]
    heads[entered[found[k]]] = rest[found[k]]
    return heads


@njit(cache=True, nogil=True)
def find_cycle(heads):
    """Mask of the nodes of one cycle, empty if there is none."""
    n = len(heads)
    on_cycle = np.zeros(n, np.bool_)
    for start in range(1, n):
        node = start
        for _ in range(n):  # after n steps it is at the root, or on a cycle for ever
            node = heads[node]
        while node != 0 and not on_cycle[node]:
            on_cycle[node] = True
            node = heads[node]
        if on_cycle.any():
            break
    return on_cycle


@njit(cache=True, nogil=True)
def best_projective_tree(scores):
    """Head of every node in the best tree without crossing arcs and with one child of the root (Eisner 1996)."""
    n = scores.shape[0]
    closed = np.zeros((2, n, n))  # a head and all its words on one side, up to the other end of the span
    joined = np.zeros((2, n, n))  # an arc between the ends of the span
    for width in range(1, n - 1):
        for i in range(1, n - width):
            j = i + width
            inside = (closed[FIRST, i, i:j] + closed[LAST, i + 1 : j + 1, j]).max()
            joined[FIRST, i, j] = inside + scores[i, j]
            joined[LAST, i, j] = inside + scores[j, i]
            closed[FIRST, i, j] = (joined[FIRST, i, i + 1 : j + 1] + closed[FIRST, i + 1 : j + 1, j]).max()
            closed[LAST, i, j] = (closed[LAST, i, i:j] + joined[LAST, i:j, j]).max()
    return trace(closed, joined, np.argmax(scores[0, 1:] + closed[LAST, 1, 1:] + closed[FIRST, 1:, n - 1]) + 1)


@njit(cache=True, nogil=True)
def trace(closed, joined, top):
    """Heads of the tree that the charts hold under the root's child ``top``."""
    n = closed.shape[1]
    heads = np.zeros(n, np.int64)
    todo = [(LAST, 1, top), (FIRST, top, n - 1)]
    while todo:
        side, i, j = todo.pop()
        if i == j:
            continue
        if side == FIRST:
            k = i + 1 + np.argmax(joined[FIRST, i, i + 1 : j + 1] + closed[FIRST, i + 1 : j + 1, j])
            todo.append((FIRST, k, j))
            heads[k], j = i, k
        else:
            k = i + np.argmax(closed[LAST, i, i:j] + joined[LAST, i:j, j])
            todo.append((LAST, i, k))
            heads[k], i = j, k
        k = i + np.argmax(closed[FIRST, i, i:j] + closed[LAST, i + 1 : j + 1, j])
        todo.append((FIRST, i, k))
        todo.append((LAST, k + 1, j))
    return heads
