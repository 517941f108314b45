"""Loops over hashed templates of some arcs of sentences: those that a first parser finds likely, or with a gradient.

An arc is a column of ``places``: nodes of its sentence's root, of its head and of its modifier among all nodes, and its
code, the bin of its distance, below 8 to the left and from 8 on to the right. Lines of buckets are those of the loops
over all arcs.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_DIRECTION = np.uint64(8)
_DISTANCE = np.uint64(16)
_THREE = np.uint64(3)
_SIX = np.uint64(6)
_MASK7 = np.uint64(7)
_MASK15 = np.uint64(15)

#: Bytes that the processor fetches at a time, and arcs, those of one sentence, that are not enough to keep tables in
#: the cache.
CACHE_LINE = 64
FEW = 1 << 13


@intrinsic
def _prefetch(typing_context, address):
    """Ask for the cache line at an address, without waiting for it."""

    def generate(context, builder, signature, arguments):
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        fetch = builder.module.declare_intrinsic("llvm.prefetch", [byte], function_type)
        # to be read, into all caches, data
        builder.call(fetch, [builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


@njit(cache=True, nogil=True)
def list_arcs(wanted, nodes, cells, bins, places, kept):
    """List the arcs whose number in ``wanted`` is not 0, and their cells in it; returns how many there are.

    Sentence ``s`` has the nodes ``nodes[s] : nodes[s + 1]`` and the cells ``cells[s] : cells[s + 1]``.
    """
    count = 0
    for s in range(nodes.shape[0] - 1):
        n_nodes = nodes[s + 1] - nodes[s]
        for h in range(n_nodes):
            for m in range(1, n_nodes):
                cell = cells[s] + h * n_nodes + m
                if h != m and wanted[cell] != 0.0:
                    places[0, count], places[1, count], places[2, count] = nodes[s], nodes[s] + h, nodes[s] + m
                    places[3, count] = bins[1 if m > h else 0, abs(h - m)]
                    kept[count] = cell
                    count += 1
    return count


@njit(cache=True, nogil=True)
def add_scores(head_keys, modifier_keys, codes, nodes, places, pairs, between, bases, groups, scales, table, keys,
               scores):  # fmt: skip
    """Add the weights of all pairs of views, with the scales of their groups, to the scores of the arcs."""
    seen = np.zeros(_longest(nodes), np.uint64)
    for p in range(pairs.shape[0]):
        bare = scales[groups[p, 0]] if groups[p, 0] >= 0 else 0.0
        directed = scales[groups[p, 1]] if groups[p, 1] >= 0 else 0.0
        distant = scales[groups[p, 2]] if groups[p, 2] >= 0 else 0.0
        if bare == 0.0 and directed == 0.0 and distant == 0.0:
            continue
        lines, own_keys = table[bases[p] : bases[p + 1]], keys[bases[p] : bases[p + 1]]
        heads, modifiers = head_keys[pairs[p, 0]], modifier_keys[pairs[p, 1]]
        if between[p] == -1:
            if places.shape[1] < FEW:
                _fetch_lines(heads, modifiers, places, lines)
            _add_pair(heads, modifiers, places, bare, directed, distant, lines, own_keys, scores)
            continue
        size = np.uint64(lines.shape[0])
        for a in range(places.shape[1]):
            key, code = heads[places[1, a]] + modifiers[places[2, a]], np.uint64(places[3, a])
            for q in range(_values_between(codes, between[p], places[:, a], nodes, seen)):
                mixed = (key + seen[q]) * _MIX
                line = lines[_line(own_keys, mixed, size)]
                scores[a] += (
                    bare * line[mixed & _MASK7]
                    + directed * line[_DIRECTION + (((mixed >> _THREE) ^ (code >> _THREE)) & _MASK7)]
                    + distant * line[_DISTANCE + (((mixed >> _SIX) ^ code) & _MASK15)]
                )


@njit(cache=True, nogil=True)
def _fetch_lines(heads, modifiers, places, lines):
    """Ask for the lines of all arcs: what waits for one in slower memory takes much longer than its arithmetic."""
    size, stride = np.uint64(lines.shape[0]), np.uint64(lines.strides[0])
    start = np.uint64(lines.ctypes.data)
    for a in range(places.shape[1]):
        mixed = (heads[places[1, a]] + modifiers[places[2, a]]) * _MIX
        line = start + (((mixed >> _HALF) * size) >> _HALF) * stride
        for offset in range(0, lines.strides[0], CACHE_LINE):
            _prefetch(line + np.uint64(offset))


@njit(cache=True, nogil=True)
def _add_pair(heads, modifiers, places, bare, directed, distant, lines, own_keys, scores):
    size = np.uint64(lines.shape[0])
    for a in range(places.shape[1]):
        mixed = (heads[places[1, a]] + modifiers[places[2, a]]) * _MIX
        code = np.uint64(places[3, a])
        line = lines[_line(own_keys, mixed, size)]
        scores[a] += (
            bare * line[mixed & _MASK7]
            + directed * line[_DIRECTION + (((mixed >> _THREE) ^ (code >> _THREE)) & _MASK7)]
            + distant * line[_DISTANCE + (((mixed >> _SIX) ^ code) & _MASK15)]
        )


@njit(cache=True, nogil=True)
def inner_products(head_keys, modifier_keys, codes, nodes, places, pairs, between, bases, groups, empty, table, keys,
                   gradient, products):  # fmt: skip
    """``products[k] = <v_k, g>`` of every group whose ``v`` is not empty, from the gradient in the arcs."""
    seen = np.zeros(_longest(nodes), np.uint64)
    for p in range(pairs.shape[0]):
        if not _any_stored(groups[p], empty):
            continue
        lines, own_keys = table[bases[p] : bases[p + 1]], keys[bases[p] : bases[p + 1]]
        heads, modifiers = head_keys[pairs[p, 0]], modifier_keys[pairs[p, 1]]
        size = np.uint64(lines.shape[0])
        bare, directed, distant = 0.0, 0.0, 0.0
        n_seen, seen[0] = 1, np.uint64(0)
        for a in range(places.shape[1]):
            key, code = heads[places[1, a]] + modifiers[places[2, a]], np.uint64(places[3, a])
            if between[p] != -1:
                n_seen = _values_between(codes, between[p], places[:, a], nodes, seen)
            for q in range(n_seen):
                mixed = (key + seen[q]) * _MIX
                line = lines[_line(own_keys, mixed, size)]
                bare += gradient[a] * line[mixed & _MASK7]
                directed += gradient[a] * line[_DIRECTION + (((mixed >> _THREE) ^ (code >> _THREE)) & _MASK7)]
                distant += gradient[a] * line[_DISTANCE + (((mixed >> _SIX) ^ code) & _MASK15)]
        for variant, product in enumerate((bare, directed, distant)):
            k = groups[p, variant]
            if k >= 0 and not empty[k]:
                products[k] = product


@njit(cache=True, nogil=True)
def _longest(nodes):
    longest = 1
    for s in range(nodes.shape[0] - 1):
        longest = max(longest, nodes[s + 1] - nodes[s])
    return longest


@njit(cache=True, nogil=True)
def _values_between(codes, between, place, nodes, seen):
    """Write the different values of a field between head and modifier, or their kinship; returns how many there are."""
    root, h, m = place[0], place[1], place[2]
    if between < -1:
        last = nodes[np.searchsorted(nodes, root, side="right")]
        seen[0] = _kinship(codes[-2 - between, root:last], h - root, m - root)
        return 1
    n_seen = 0
    for j in range(min(h, m) + 1, max(h, m)):
        code, new = codes[between, j], True
        for q in range(n_seen):
            new = new and seen[q] != code
        if new:
            seen[n_seen] = code
            n_seen += 1
    return n_seen


@njit(cache=True, nogil=True)
def _kinship(heads, h, m):
    """As in the loops over all arcs."""
    n, above, below = np.uint64(heads.shape[0]), heads[m], heads[h]
    if above == np.uint64(h):
        return np.uint64(1)
    if below == np.uint64(m):
        return np.uint64(2)
    if above < n and heads[above] == np.uint64(h):
        return np.uint64(3)
    if below < n and heads[below] == np.uint64(m):
        return np.uint64(4)
    return np.uint64(5) if above == below else np.uint64(6)


@njit(cache=True, nogil=True)
def _line(own_keys, mixed, size):
    """As in the loops over all arcs."""
    line = ((mixed >> _HALF) * size) >> _HALF
    if own_keys.shape[0] > 0:
        while own_keys[line] != mixed and own_keys[line] != 0:
            line += np.uint64(1)
            if line == size:
                line = np.uint64(0)
    return line


@njit(cache=True, nogil=True)
def _any_stored(groups, empty):
    stored = False
    for k in groups:
        stored |= k >= 0 and not empty[k]
    return stored


@njit(cache=True, nogil=True)
def shortfalls(scores, heads, found):
    """How far the potential of each right arc, of a head that is known, is below the highest one of its word; returns
    how many there are."""
    count = 0
    for m in range(1, scores.shape[0]):
        if heads[m - 1] >= 0:
            best = -np.inf
            for h in range(scores.shape[0]):
                if h != m:
                    best = max(best, scores[h, m])
            found[count] = best - scores[heads[m - 1], m]
            count += 1
    return count


@njit(cache=True, nogil=True)
def forget_unlikely(scores, heads, right, margin):
    """Make -inf what is farther than a margin below the highest potential of its word, but for two trees: arcs of the
    second that were -inf become as unlikely as any that is not."""
    for m in range(1, scores.shape[0]):
        best, least = -np.inf, np.inf
        for h in range(scores.shape[0]):
            if h != m:
                best = max(best, scores[h, m])
        for h in range(scores.shape[0]):
            if h != m and scores[h, m] > -np.inf:
                if scores[h, m] < best - margin and h != heads[m - 1] and h != right[m - 1]:
                    scores[h, m] = -np.inf
                else:
                    least = min(least, scores[h, m])
        if right[m - 1] >= 0 and scores[right[m - 1], m] == -np.inf:
            scores[right[m - 1], m] = least
