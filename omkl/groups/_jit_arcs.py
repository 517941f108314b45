"""Lists of the arcs and hashed features of one tree, and passes over whole tables of arc weights.

In a table pair ``p`` of views has the lines ``bases[p] : bases[p + 1]``; the buckets ``edges[b] : edges[b + 1]`` of
each are of group ``groups[p, b]``, -1 for none.
"""

import numpy as np
from numba import njit

_MIX = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def kinship(heads, h, m):
    """As in the loops over hashed templates."""
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
def find_examples(columns, roots, offsets, heads, first_view, second_view, between, own_keys, bins, variant, wanted,
                  found):  # fmt: skip
    """For each bucket of one pair's table that is wanted, a gold arc that fires it.

    ``wanted`` (lines, buckets) holds the row of the bucket in ``found``, or -1; ``found`` (rows, 3) takes the number of
    the sentence, the modifier, and the token between (0 for none), and is -1 where there is no such arc. A view is
    ``(offsets, fields)``; ``between`` is a field, -1 for none, or -2 less the field of heads that tell kinship;
    ``own_keys`` are the pair's exact keys, if it has some.
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
                bucket = mixed & np.uint64(7)
                if variant == 1:
                    bucket = np.uint64(8) + (((mixed >> np.uint64(3)) ^ np.uint64(side)) & np.uint64(7))
                elif variant == 2:
                    bucket = np.uint64(16) + (((mixed >> np.uint64(6)) ^ bins[side, abs(h - m)]) & np.uint64(15))
                line = ((mixed >> _HALF) * size) >> _HALF
                if own_keys.shape[0] > 0:
                    while own_keys[line] != mixed and own_keys[line] != 0:
                        line = (line + np.uint64(1)) % size
                row = wanted[line, bucket]
                if row >= 0 and found[row, 0] < 0:
                    found[row, 0], found[row, 1], found[row, 2] = s, m, j


@njit(cache=True, nogil=True)
def _fold(columns, token, view):
    key = np.uint64(1)
    offsets, fields = view
    for atom in range(offsets.shape[0]):
        key = (key ^ columns[fields[atom], token + offsets[atom]]) * _MIX
        key ^= key >> _HALF
    return key


#: Arcs with a smaller gradient are not moved along: they are nearly all arcs of a trained CRF, and nearly no gradient.
NEGLIGIBLE = 1e-5


@njit(cache=True, nogil=True)
def gradient_arcs(gradient):
    """Arcs whose gradient is not negligible: heads, modifiers, gradients."""
    n_nodes = gradient.shape[0]
    count = 0
    for h in range(n_nodes):
        for m in range(1, n_nodes):
            if abs(gradient[h, m]) > NEGLIGIBLE:
                count += 1
    heads = np.empty(count, np.int64)
    modifiers = np.empty(count, np.int64)
    values = np.empty(count)
    count = 0
    for h in range(n_nodes):
        for m in range(1, n_nodes):
            if abs(gradient[h, m]) > NEGLIGIBLE:
                heads[count], modifiers[count], values[count] = h, m, gradient[h, m]
                count += 1
    return heads, modifiers, values


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def squared_norms(bases, groups, edges, table, out):
    """Sum of squares of each group, from scratch."""
    out[:] = 0.0
    for p in range(groups.shape[0]):
        for variant in range(groups.shape[1]):
            if groups[p, variant] >= 0:
                total = 0.0
                for line in range(bases[p], bases[p + 1]):
                    for bucket in range(edges[variant], edges[variant + 1]):
                        total += np.float64(table[line, bucket]) ** 2
                out[groups[p, variant]] = total


@njit(cache=True, nogil=True)
def combine(bases, groups, edges, averages, total, table, sums, out):
    """``out = (a_k v_k + u_k) / total`` group by group."""
    for p in range(groups.shape[0]):
        for variant in range(groups.shape[1]):
            k = groups[p, variant]
            if k >= 0:
                for line in range(bases[p], bases[p + 1]):
                    for bucket in range(edges[variant], edges[variant + 1]):
                        out[line, bucket] = (averages[k] * table[line, bucket] + sums[line, bucket]) / total
