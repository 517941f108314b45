"""Loops over lists of arcs, their hashed features, and whole tables of arc weights.

In a table pair ``p`` of views has the lines ``bases[p] : bases[p + 1]``; the buckets of a variant
are of group ``groups[p, b]``, -1 for none; which line and bucket a key has is as in the loops over all arcs of
sentences.

A list of arcs is an array ``places``, (4, number of arcs): nodes of the sentence's root, of the head and of the
modifier among those of all sentences, and a code, the bin of the distance, below 8 to the left and from 8 on to the
right.
"""

import numpy as np

from omkl._compilation import compiled, prefetch

_MIX = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(0xC2B2AE3D27D4EB4F)
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


@compiled
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


@compiled
def add_scores(head_keys, modifier_keys, codes, nodes, places, pairs, between, bases, groups, scales, table, scores):
    """Add the weights of all pairs of views, with the scales of their groups, to the scores of the arcs."""
    seen = np.zeros(_longest(nodes), np.uint64)
    for p in range(pairs.shape[0]):
        bare = scales[groups[p, 0]] if groups[p, 0] >= 0 else 0.0
        directed = scales[groups[p, 1]] if groups[p, 1] >= 0 else 0.0
        distant = scales[groups[p, 2]] if groups[p, 2] >= 0 else 0.0
        if bare == 0.0 and directed == 0.0 and distant == 0.0:
            continue
        lines = table[bases[p] : bases[p + 1]]
        heads, modifiers = head_keys[pairs[p, 0]], modifier_keys[pairs[p, 1]]
        if between[p] == -1 and places.shape[1] < FEW:
            _fetch_lines(heads, modifiers, places, lines)
        size, n_seen, seen[0] = np.uint64(lines.shape[0]), 1, np.uint64(0)
        for a in range(places.shape[1]):
            key, code = heads[places[1, a]] + modifiers[places[2, a]], np.uint64(places[3, a])
            if between[p] != -1:
                n_seen = _values_between(codes, between[p], places[:, a], nodes, seen)
            for q in range(n_seen):
                mixed = (key + seen[q]) * _MIX
                line = lines[((mixed >> _HALF) * size) >> _HALF]
                scores[a] += (
                    bare * line[mixed & _MASK7]
                    + directed * line[_DIRECTION + (((mixed >> _THREE) ^ (code >> _THREE)) & _MASK7)]
                    + distant * line[_DISTANCE + (((mixed >> _SIX) ^ code) & _MASK15)]
                )


@compiled
def _fetch_lines(heads, modifiers, places, lines):
    """Ask for the lines of all arcs: what waits for one in slower memory takes much longer than its arithmetic."""
    size, stride = np.uint64(lines.shape[0]), np.uint64(lines.strides[0])
    start = np.uint64(lines.ctypes.data)
    for a in range(places.shape[1]):
        mixed = (heads[places[1, a]] + modifiers[places[2, a]]) * _MIX
        line = start + (((mixed >> _HALF) * size) >> _HALF) * stride
        for offset in range(0, lines.strides[0], CACHE_LINE):
            prefetch(line + np.uint64(offset))


@compiled
def inner_products(
    head_keys,
    modifier_keys,
    codes,
    nodes,
    places,
    pairs,
    between,
    bases,
    groups,
    empty,
    table,
    gradient,
    products,
):
    """``products[k] = <v_k, g>`` of every group whose ``v`` is not empty, from the gradient in the arcs."""
    seen = np.zeros(_longest(nodes), np.uint64)
    for p in range(pairs.shape[0]):
        if not _any_stored(groups[p], empty):
            continue
        lines = table[bases[p] : bases[p + 1]]
        heads, modifiers = head_keys[pairs[p, 0]], modifier_keys[pairs[p, 1]]
        size = np.uint64(lines.shape[0])
        bare, directed, distant = 0.0, 0.0, 0.0
        n_seen, seen[0] = 1, np.uint64(0)
        if between[p] == -1:
            _fetch_lines(heads, modifiers, places, lines)
        for a in range(places.shape[1]):
            key, code = heads[places[1, a]] + modifiers[places[2, a]], np.uint64(places[3, a])
            if between[p] != -1:
                n_seen = _values_between(codes, between[p], places[:, a], nodes, seen)
            for q in range(n_seen):
                mixed = (key + seen[q]) * _MIX
                line = lines[((mixed >> _HALF) * size) >> _HALF]
                bare += gradient[a] * line[mixed & _MASK7]
                directed += gradient[a] * line[_DIRECTION + (((mixed >> _THREE) ^ (code >> _THREE)) & _MASK7)]
                distant += gradient[a] * line[_DISTANCE + (((mixed >> _SIX) ^ code) & _MASK15)]
        for variant, product in enumerate((bare, directed, distant)):
            k = groups[p, variant]
            if k >= 0 and not empty[k]:
                products[k] = product


@compiled
def _longest(nodes):
    longest = 1
    for s in range(nodes.shape[0] - 1):
        longest = max(longest, nodes[s + 1] - nodes[s])
    return longest


@compiled
def _values_between(codes, between, place, nodes, seen):
    """Write the different values of a field between head and modifier, or their kinship; returns how many there are."""
    root, h, m = place[0], place[1], place[2]
    if between < -1:
        last = nodes[np.searchsorted(nodes, root, side="right")]
        seen[0] = kinship(codes[-2 - between, root:last], h - root, m - root)
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


@compiled
def _any_stored(groups, empty):
    stored = False
    for k in groups:
        stored |= k >= 0 and not empty[k]
    return stored


@compiled
def list_features(head_keys, modifier_keys, codes, pairs, between, variants, bases, bins, heads, starts, ids):
    """Feature ids of the arc into each token, template by template, as CSR rows; ``ids`` must be large enough.

    A template looks at a pair of views; its variant adds nothing (0), the direction (1) or direction and distance (2).
    """
    count = 0
    seen = np.zeros(max(codes.shape[1], 1), np.uint64)
    for i in range(heads.shape[0]):
        h, m = heads[i], i + 1
        side = 1 if m > h else 0
        for p in range(pairs.shape[0]):
            key = head_keys[pairs[p, 0], h] + modifier_keys[pairs[p, 1], m]
            if variants[p] == 1:
                key += np.uint64(side + 1) * _TURN
            elif variants[p] == 2:
                key += bins[side, abs(h - m)] * _TURN
            n_seen = 1
            seen[0] = np.uint64(0)
            if between[p] >= 0:
                n_seen = 0
                for j in range(min(h, m) + 1, max(h, m)):
                    new = True
                    for q in range(n_seen):
                        new = new and seen[q] != codes[between[p], j]
                    if new:
                        seen[n_seen] = codes[between[p], j]
                        n_seen += 1
            size = np.uint64(bases[p + 1] - bases[p])
            for q in range(n_seen):
                mixed = (key + seen[q]) * _MIX
                ids[count] = bases[p] + np.int64(((mixed >> _HALF) * size) >> _HALF)
                count += 1
        starts[i + 1] = count
    return count


@compiled
def kinship(heads, h, m):
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


@compiled
def find_examples(columns, roots, offsets, heads, first_view, second_view, between, bins, variant, wanted, found):
    """For each bucket of one pair's table that is wanted, a gold arc that fires it.

    ``wanted`` (lines, buckets) holds the row of the bucket in ``found``, or -1; ``found`` (rows, 3) takes the number of
    the sentence, the modifier, and the token between (0 for none), and is -1 where there is no such arc. A view is
    ``(offsets, fields)``; ``between`` is a field, -1 for none, or -2 less the field of heads that tell kinship.
    """
    size = np.uint64(wanted.shape[0])
    for s in range(roots.shape[0]):
        root, low = roots[s], offsets[s]
        for i in range(offsets[s + 1] - low):
            h, m = heads[low + i], i + 1
            if h < 0:  # not known
                continue
            side = 1 if m > h else 0
            key = _fold(columns, root + h, first_view)
            other = _fold(columns, root + m, second_view) * _TURN
            key += other ^ (other >> _HALF)
            first, last = (0, 1) if between < 0 else (min(h, m) + 1, max(h, m))
            for j in range(first, last):
                if between < -1:
                    code = kinship(columns[-2 - between, root : root + 1 + offsets[s + 1] - low], h, m)
                else:
                    code = np.uint64(0) if between < 0 else columns[between, root + j]
                mixed = (key + code) * _MIX
                bucket = mixed & _MASK7
                if variant == 1:
                    bucket = _DIRECTION + (((mixed >> _THREE) ^ np.uint64(side)) & _MASK7)
                elif variant == 2:
                    bucket = _DISTANCE + (((mixed >> _SIX) ^ bins[side, abs(h - m)]) & _MASK15)
                line = ((mixed >> _HALF) * size) >> _HALF
                row = wanted[line, bucket]
                if row >= 0 and found[row, 0] < 0:
                    found[row, 0], found[row, 1], found[row, 2] = s, m, j


@compiled
def _fold(columns, token, view):
    key = np.uint64(1)
    offsets, fields = view
    for atom in range(offsets.shape[0]):
        key = (key ^ columns[fields[atom], token + offsets[atom]]) * _MIX
        key ^= key >> _HALF
    return key


@compiled
def scale_group(low, high, first, last, factor, table, sums, averaging, average):
    """Multiply the buckets ``first .. last - 1`` of lines ``low .. high - 1``, after what they gave to the average is
    added to its sums; returns the new squared norm."""
    total = 0.0
    for line in range(low, high):
        for bucket in range(first, last):
            weight = table[line, bucket]
            if weight != 0.0:
                if averaging:
                    sums[line, bucket] += average * weight
                table[line, bucket] = factor * weight
                total += np.float64(table[line, bucket]) ** 2
    return total
