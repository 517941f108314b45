"""Loops over hashed arc templates.

Templates that look at the same views of head and modifier and differ only in their variant (nothing, direction,
distance) share a *line* of 32 buckets, two neighbouring cache lines in float32, so that one look-up serves all three:
0-7 are the bare conjunction's, 8-15 have a direction, 16-31 a direction and a bin of distance. Which
of its buckets a feature takes is hashed as well, so that a line has room for several keys; features of one key never
collide, and neither do templates.
"""

import numpy as np

from omkl._compilation import compiled, prefetch

LINE = 32
N_VARIANTS = 3
#: Buckets of a line that belong to each variant.
FIRST_BUCKET = (0, 8, 16)
LAST_BUCKET = (8, 16, 32)

_MIX = np.uint64(0x9E3779B97F4A7C15)
_TURN = np.uint64(0xC2B2AE3D27D4EB4F)
_HALF = np.uint64(32)
_DIRECTION = np.uint64(8)
_DISTANCE = np.uint64(16)
_THREE = np.uint64(3)
_SIX = np.uint64(6)
_MASK7 = np.uint64(7)
_MASK15 = np.uint64(15)


#: Bytes that the processor fetches at a time, and pairs of views by which fetching is ahead of moving.
CACHE_LINE = 64
AHEAD = 4


@compiled
def fold_views(columns, root, n_nodes, starts, offsets, fields, head_keys, modifier_keys):
    """Hash each view of each token into 64 bits; a view means something else at a modifier than at a head."""
    for view in range(starts.shape[0] - 1):
        for i in range(n_nodes):
            key = np.uint64(1)
            for atom in range(starts[view], starts[view + 1]):
                key = (key ^ columns[fields[atom], root + i + offsets[atom]]) * _MIX
                key ^= key >> _HALF
            head_keys[view, i] = key
            key *= _TURN
            modifier_keys[view, i] = key ^ (key >> _HALF)


@compiled
def _fetch_line(table, line):
    """Ask for a line of a table: one that was not looked at since the last sentence is in slower memory, and what
    waits for it takes five times as long as its arithmetic."""
    start = np.uint64(table.ctypes.data) + line * np.uint64(table.strides[0])
    for offset in range(0, table.strides[0], CACHE_LINE):
        prefetch(start + np.uint64(offset))


@compiled
def _fetch_arcs(heads, modifiers, lines, sums, arcs):
    """Ask for the lines of some arcs, in the table and in the sums of its average, if there are any."""
    size = np.uint64(lines.shape[0])
    for a in range(arcs[0].shape[0]):
        line = ((((heads[arcs[0][a]] + modifiers[arcs[1][a]]) * _MIX) >> _HALF) * size) >> _HALF
        _fetch_line(lines, line)
        if sums.shape[0] > 0:
            _fetch_line(sums, line)


@compiled
def kinship(heads, h, m):
    """Kinship of h to m in a tree with the heads ``heads[node]`` (the head of the root is no node):
    its head (1), child (2), grandparent (3), grandchild (4), sibling (5), or none of these (6)."""
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
def _with_value(seen, n_seen, code):
    for q in range(n_seen):
        if seen[q] == code:
            return n_seen
    seen[n_seen] = code
    return n_seen + 1


@compiled
def _find_lines(heads, modifiers, codes, between, low, high, bins, arcs, owners, lines, buckets):
    """List the arcs, lines and buckets that a pair of views fires; return their number."""
    count = 0
    seen = np.empty(codes.shape[1] if between >= 0 else 1, np.uint64)
    size = np.uint64(high - low)
    arc_heads, arc_modifiers, _ = arcs
    for a in range(arc_heads.shape[0]):
        h, m = arc_heads[a], arc_modifiers[a]
        side = 1 if m > h else 0
        turn = np.uint64(side)
        n_seen = 1
        seen[0] = kinship(codes[-2 - between], h, m) if between < -1 else np.uint64(0)
        if between >= 0:
            n_seen = 0
            for i in range(min(h, m) + 1, max(h, m)):
                n_seen = _with_value(seen, n_seen, codes[between, i])
        for q in range(n_seen):
            mixed = (heads[h] + modifiers[m] + seen[q]) * _MIX
            owners[count] = a
            lines[count] = low + np.int64(((mixed >> _HALF) * size) >> _HALF)
            buckets[0, count] = np.int64(mixed & _MASK7)
            buckets[1, count] = np.int64(_DIRECTION + (((mixed >> _THREE) ^ turn) & _MASK7))
            buckets[2, count] = np.int64(_DISTANCE + (((mixed >> _SIX) ^ bins[side, abs(h - m)]) & _MASK15))
            count += 1
    return count


@compiled
def _most_entries(between, arcs):
    """The largest number of lines that one pair's arcs may fire."""
    arc_heads, arc_modifiers, _ = arcs
    n_entries = arc_heads.shape[0]
    if between.max() >= 0:
        for a in range(arc_heads.shape[0]):
            n_entries += abs(arc_heads[a] - arc_modifiers[a])
    return n_entries


@compiled
def step(
    head_keys,
    modifier_keys,
    codes,
    pairs,
    between,
    bases,
    groups,
    bins,
    arcs,
    table,
    sums,
    averaging,
    rates,
    averages,
    empty,
    square_norms,
    square_gradients,
):
    """``v -= rate g`` for all groups, with their norms and those of their gradients.

    Groups that are empty are postponed: only the norm of their gradient is found, from the lines' numbers, without a
    look-up. For the others, ``||g||^2`` follows from ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``.
    """
    n_entries = _most_entries(between, arcs)
    owners = np.empty(n_entries, np.int64)
    lines = np.empty(n_entries, np.int64)
    buckets = np.empty((N_VARIANTS, n_entries), np.int64)
    values = arcs[2]
    square_gradients[:] = 0.0
    for p in range(-AHEAD, pairs.shape[0]):
        q = p + AHEAD
        if q < pairs.shape[0] and _any_stored(groups[q], empty):
            low, high = bases[q], bases[q + 1]
            _fetch_arcs(head_keys[pairs[q, 0]], modifier_keys[pairs[q, 1]], table[low:high], sums[low:high], arcs)
        if p < 0:
            continue
        count = _find_lines(
            head_keys[pairs[p, 0]],
            modifier_keys[pairs[p, 1]],
            codes,
            between[p],
            bases[p],
            bases[p + 1],
            bins,
            arcs,
            owners,
            lines,
            buckets,
        )
        for variant in range(N_VARIANTS):
            k = groups[p, variant]
            if k < 0:
                continue
            if empty[k]:
                square_gradients[k] = _square_norm(owners[:count], lines, buckets[variant], values)
                square_norms[k] = rates[k] ** 2 * square_gradients[k]
            else:
                moved, square_change = _move(
                    owners[:count], lines, buckets[variant], values, rates[k], table, sums, averaging, averages[k]
                )
                square_norms[k] += square_change
                square_gradients[k] = max(moved, 0.0) / rates[k] ** 2


@compiled
def _any_stored(groups, empty):
    stored = False
    for k in groups:
        stored |= k >= 0 and not empty[k]
    return stored


@compiled
def _move(owners, lines, buckets, values, rate, table, sums, averaging, average):
    """Move one group; returns ``r^2 ||g||^2``, and what ``||v||^2`` as it is stored has gained."""
    moved = 0.0
    square_change = 0.0
    for a in range(owners.shape[0]):
        moved += 2.0 * rate * values[owners[a]] * table[lines[a], buckets[a]]
    for a in range(owners.shape[0]):
        before = np.float64(table[lines[a], buckets[a]])
        change = -rate * values[owners[a]]
        table[lines[a], buckets[a]] = before + change
        after = np.float64(table[lines[a], buckets[a]])
        moved += change * (2.0 * before + change)
        square_change += (after - before) * (after + before)
        if averaging:
            sums[lines[a], buckets[a]] -= average * (after - before)
    return moved, square_change


@compiled
def _square_norm(owners, lines, buckets, values):
    """``||g||^2`` of one group's gradient; arcs that share a feature are added up first."""
    n = owners.shape[0]
    capacity = 8
    while capacity < 2 * n:
        capacity *= 2
    keys = np.full(capacity, -1, np.int64)
    totals = np.zeros(capacity)
    total = 0.0
    for a in range(n):
        key = lines[a] * LINE + buckets[a]
        place = np.int64((np.uint64(key) * _MIX) >> _HALF) & (capacity - 1)
        while keys[place] != key and keys[place] >= 0:
            place = (place + 1) & (capacity - 1)
        keys[place] = key
        value = values[owners[a]]
        total += value * (2.0 * totals[place] + value)
        totals[place] += value
    return max(total, 0.0)


@compiled
def mark_lines(head_keys, modifier_keys, codes, pairs, between, bins, arcs, bitmaps):
    """Mark where the arcs' keys fall in each pair's bitmap: the share of marked bits tells how many keys there are."""
    n_entries = _most_entries(between, arcs)
    owners = np.empty(n_entries, np.int64)
    lines = np.empty(n_entries, np.int64)
    buckets = np.empty((N_VARIANTS, n_entries), np.int64)
    for p in range(pairs.shape[0]):
        count = _find_lines(
            head_keys[pairs[p, 0]],
            modifier_keys[pairs[p, 1]],
            codes,
            between[p],
            0,
            bitmaps.shape[1],
            bins,
            arcs,
            owners,
            lines,
            buckets,
        )
        for a in range(count):
            bitmaps[p, lines[a]] = True
