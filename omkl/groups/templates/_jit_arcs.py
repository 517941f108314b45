"""Loops over lists of arcs and their hashed features.

Templates with the same views of head and modifier differ only in their variant (nothing, direction,
distance). They share a *line* of 32 buckets, two adjacent cache lines in float32, so that one
look-up serves all three. Buckets 0-7 belong to the bare conjunction, 8-15 to the direction, 16-31
to the direction and a bin of the distance. The bucket of a feature is hashed as well, so that a
line can store several keys. Features of one key never collide, and neither do templates. Pair ``p``
of views has the lines ``bases[p] : bases[p + 1]`` of a table. The buckets of a variant belong to
the group ``groups[p, variant]``, -1 for none.

A list of arcs is an array ``places``, (5, number of arcs), with the nodes of the sentence's root,
of the head and of the modifier, counted over all sentences, a code, and a third node: -1 for arcs,
the head's head for grandparent parts, and the inner sibling for sibling parts. The code is the bin
of the distance, plus 8 if the modifier is to the right. In sibling parts, modifier or third node
can be -1. Sentence ``s`` has the nodes ``nodes[s] : nodes[s + 1]``. ``keys`` are the hashes of the
views of all nodes.
"""

import numpy as np

from omkl._compilation import compiled, inner, prefetch

LINE = 32
N_VARIANTS = 3
#: Buckets of a line that belong to each variant.
FIRST_BUCKET = (0, 8, 16)
LAST_BUCKET = (8, 16, 32)

MIX = np.uint64(0x9E3779B97F4A7C15)
HALF, THREE, SIX = np.uint64(32), np.uint64(3), np.uint64(6)
DIRECTION, DISTANCE = np.uint64(8), np.uint64(16)
MASK7, MASK15 = np.uint64(7), np.uint64(15)
TURN = np.uint64(0xC2B2AE3D27D4EB4F)

#: Size of a cache line in bytes, and number of pairs of views to prefetch ahead of learning.
CACHE_LINE = 64
AHEAD = 4
#: With fewer arcs, as in one sentence, tables do not stay in cache between uses, so lines are
#: prefetched.
FEW = 1 << 13


@compiled
def fold_views(
    columns, root, n_nodes, starts, offsets, fields, head_keys, modifier_keys, third_keys
):
    """Hash each view of each token into 64 bits; heads, modifiers and third nodes have different
    hashes.
    """
    for view in range(starts.shape[0] - 1):
        for i in range(n_nodes):
            key = np.uint64(1)
            for atom in range(starts[view], starts[view + 1]):
                key = (key ^ columns[fields[atom], root + i + offsets[atom]]) * MIX
                key ^= key >> HALF
            head_keys[view, i] = key
            key *= TURN
            modifier_keys[view, i] = key ^ (key >> HALF)
            if third_keys.shape[0] > 0:
                third_keys[view, i] = (key ^ (key >> HALF)) * TURN


@compiled
def list_parts(lists, wanted, kind, root, bins, places, kept):
    """List the parts of a kind with nonzero entries in ``wanted``, and their numbers; return how
    many there are.

    ``lists`` is a PartLists of one sentence, whose root is the node ``root``; kind 0 has
    grandparent parts, kind 1 sibling parts. The bin of a sibling part that ends a side is 7.
    """
    count = 0
    if kind == 0:
        for arc in range(lists.heads.shape[0]):
            h, m = lists.heads[arc], lists.modifiers[arc]
            for part in range(lists.grandparents[arc], lists.grandparents[arc + 1]):
                g = lists.heads[lists.starts[h] + part - lists.grandparents[arc]]
                if wanted[part] != 0.0 and g != m:
                    places[0, count], places[1, count], places[2, count] = root, root + h, root + m
                    places[3, count], places[4, count] = (
                        bins[1 if m > h else 0, abs(h - m)],
                        root + g,
                    )
                    kept[count] = part
                    count += 1
        return count
    for side in range(lists.siblings.shape[0] - 1):
        low, h, right = lists.bounds[side], side // 2, side % 2
        length, part = lists.bounds[side + 1] - low, lists.siblings[side]
        for i in range(length + 1 if length else 0):
            s = lists.modifiers[lists.order[low + i - 1]] if i > 0 else -1
            for j in range(i + 1, length + 2):
                if wanted[part] != 0.0:
                    m = lists.modifiers[lists.order[low + j - 1]] if j <= length else -1
                    places[0, count], places[1, count], places[2, count] = (
                        root,
                        root + h,
                        root + m if m > 0 else -1,
                    )
                    places[3, count] = bins[right, abs(h - m)] if m > 0 else 7 + 8 * right
                    places[4, count] = root + s if s > 0 else -1
                    kept[count] = part
                    count += 1
                part += 1
    return count


@compiled
def add_scores(keys, places, pairs, groups, scales, table, scores):
    """Add the weights of all pairs of views, times the scales of their groups, to the scores of the
    arcs.
    """
    seen, hashes = (
        np.empty(keys.heads.shape[1] + 1, np.uint64),
        np.empty(places.shape[1], np.uint64),
    )
    for p in range(pairs.views.shape[0]):
        bare = scales[groups[p, 0]] if groups[p, 0] >= 0 else 0.0
        directed = scales[groups[p, 1]] if groups[p, 1] >= 0 else 0.0
        distant = scales[groups[p, 2]] if groups[p, 2] >= 0 else 0.0
        if bare == 0.0 and directed == 0.0 and distant == 0.0:
            continue
        lines, between = table[pairs.bases[p] : pairs.bases[p + 1]], pairs.between[p]
        size, n_seen, seen[0] = np.uint64(lines.shape[0]), 1, np.uint64(0)
        _add_hashes(keys, pairs, p, places, hashes)
        if between == -1 and places.shape[1] < FEW:
            for a in range(places.shape[1]):
                _fetch_line(lines, (((hashes[a] * MIX) >> HALF) * size) >> HALF)
        for a in range(places.shape[1]):
            key, code = hashes[a], np.uint64(places[3, a])
            if between != -1:
                n_seen = _values_between(keys.codes, between, places[:, a], seen)
            for q in range(n_seen):
                mixed = (key + seen[q]) * MIX
                line = lines[((mixed >> HALF) * size) >> HALF]
                scores[a] += (
                    bare * line[mixed & MASK7]
                    + directed * line[DIRECTION + (((mixed >> THREE) ^ (code >> THREE)) & MASK7)]
                    + distant * line[DISTANCE + (((mixed >> SIX) ^ code) & MASK15)]
                )


@inner
def _fetch_line(table, line):
    """Prefetch a line of a table.

    Lines that were not used since the last sentence are in slower memory, and waiting for one takes
    five times as long as the arithmetic.
    """
    start = np.uint64(table.ctypes.data) + np.uint64(line) * np.uint64(table.strides[0])
    for offset in range(0, table.strides[0], CACHE_LINE):
        prefetch(start + np.uint64(offset))


@inner
def _add_hashes(keys, pairs, p, places, hashes):
    """Write the sum of the hashes of the nodes of each arc or part.

    It depends on whether modifier and third node are on the same side of the head, as siblings
    always are.
    """
    heads, modifiers = keys.heads[pairs.views[p, 0]], keys.modifiers[pairs.views[p, 1]]
    if keys.thirds.shape[0] == 0:
        for a in range(places.shape[1]):
            hashes[a] = heads[np.uint32(places[1, a])] + modifiers[np.uint32(places[2, a])]
        return
    thirds = keys.thirds[pairs.views[p, 2]]
    for a in range(places.shape[1]):
        h, m, third = places[1, a], places[2, a], places[4, a]
        hashes[a] = heads[h] + (modifiers[m] if m >= 0 else np.uint64(0))
        if third >= 0:
            hashes[a] += thirds[third] + (
                TURN if (third > h) != (places[3, a] >= 8) else np.uint64(0)
            )


@inner
def _values_between(codes, between, place, seen):
    """Write the distinct values of a field between head and modifier; return the number of values."""
    h, m, n_seen = place[1], place[2], 0
    for j in range(min(h, m) + 1, max(h, m)):
        code, new = codes[between, j], True
        for q in range(n_seen):
            new = new and seen[q] != code
        if new:
            seen[n_seen] = code
            n_seen += 1
    return n_seen


@inner
def _room(keys, places, between):
    """Allocate arrays for :func:`_find_lines`: distinct values between two tokens; arcs, lines,
    buckets; hashes.
    """
    n_entries, some = places.shape[1], False
    for field in between:
        some |= field >= 0
    if some:
        for a in range(places.shape[1]):
            n_entries += abs(places[1, a] - places[2, a])
    seen, buckets = (
        np.empty(keys.heads.shape[1] + 1, np.uint64),
        np.empty((N_VARIANTS, n_entries), np.int64),
    )
    hashes = np.empty(places.shape[1], np.uint64)
    return seen, np.empty(n_entries, np.int64), np.empty(n_entries, np.int64), buckets, hashes


@inner
def _find_lines(keys, places, pairs, p, room):
    """List the arcs, lines and buckets of the features of pair ``p`` of views; return their number."""
    seen, owners, lines, buckets, hashes = room
    _add_hashes(keys, pairs, p, places, hashes)
    low, between = pairs.bases[p], pairs.between[p]
    size, count, n_seen, seen[0] = np.uint64(pairs.bases[p + 1] - low), 0, 1, np.uint64(0)
    for a in range(places.shape[1]):
        key, code = hashes[a], np.uint64(places[3, a])
        if between != -1:
            n_seen = _values_between(keys.codes, between, places[:, a], seen)
        for q in range(n_seen):
            mixed = (key + seen[q]) * MIX
            owners[count] = a
            lines[count] = low + np.int64(((mixed >> HALF) * size) >> HALF)
            buckets[0, count] = np.int64(mixed & MASK7)
            buckets[1, count] = np.int64(DIRECTION + (((mixed >> THREE) ^ (code >> THREE)) & MASK7))
            buckets[2, count] = np.int64(DISTANCE + (((mixed >> SIX) ^ code) & MASK15))
            count += 1
    return count


@compiled
def find_lines(keys, places, pairs, p):
    """Return the arcs (n,), lines (n,) and buckets (3, n) of the features of pair ``p`` of views."""
    room = _room(keys, places, pairs.between)
    count = _find_lines(keys, places, pairs, p, room)
    return room[1][:count], room[2][:count], room[3][:, :count]


@inner
def _any_stored(groups, empty):
    stored = False
    for k in groups:
        stored |= k >= 0 and not empty[k]
    return stored


@compiled
def inner_products(keys, places, gradient, pairs, groups, empty, table, products):
    """``products[k] = <v_k, g>`` of every nonempty group, from the gradient with respect to the
    arcs.
    """
    room = _room(keys, places, pairs.between)
    _, owners, lines, buckets, _ = room
    for p in range(pairs.views.shape[0]):
        if not _any_stored(groups[p], empty):
            continue
        count = _find_lines(keys, places, pairs, p, room)
        for a in range(count):
            _fetch_line(table, lines[a])
        for variant in range(N_VARIANTS):
            k = groups[p, variant]
            if k >= 0 and not empty[k]:
                products[k] = 0.0
                for a in range(count):
                    products[k] += gradient[owners[a]] * table[lines[a], buckets[variant, a]]


@compiled
def step(keys, places, gradient, pairs, groups, table, sums, arrays):
    """``v -= rate g`` for all groups, with their norms and the norms of their gradients.

    Empty groups are postponed: only the norm of their gradient is computed, from the numbers of the
    lines, without a look-up. For the others, ``||g||^2`` follows from ``||v - r g||^2 = ||v||^2 - 2
    r <v, g> + r^2 ||g||^2``.
    """
    room = _room(keys, places, pairs.between)
    _, owners, lines, buckets, hashes = room
    rates, averages, empty = arrays.rates, arrays.averages, arrays.empty
    arrays.square_gradients[:] = 0.0
    for p in range(-AHEAD, pairs.views.shape[0]):
        q = p + AHEAD
        if q < pairs.views.shape[0] and _any_stored(groups[q], empty):
            low, size = pairs.bases[q], np.uint64(pairs.bases[q + 1] - pairs.bases[q])
            _add_hashes(keys, pairs, q, places, hashes)
            for a in range(hashes.shape[0]):
                line = low + np.int64((((hashes[a] * MIX) >> HALF) * size) >> HALF)
                _fetch_line(table, line)
                if sums.shape[0] > 0:
                    _fetch_line(sums, line)
        if p < 0:
            continue
        count = _find_lines(keys, places, pairs, p, room)
        for variant in range(N_VARIANTS):
            k = groups[p, variant]
            if k < 0:
                continue
            if empty[k]:
                arrays.square_gradients[k] = square_norm(
                    owners[:count], lines, buckets[variant], gradient
                )
                arrays.square_norms[k] = rates[k] ** 2 * arrays.square_gradients[k]
            else:
                moved, square_change = _move(
                    owners[:count],
                    lines,
                    buckets[variant],
                    gradient,
                    rates[k],
                    table,
                    sums,
                    averages[k],
                )
                arrays.square_norms[k] += square_change
                arrays.square_gradients[k] = max(moved, 0.0) / rates[k] ** 2


@inner
def _move(owners, lines, buckets, values, rate, table, sums, average):
    """Move one group; return ``r^2 ||g||^2``, and the change of ``||v||^2`` of the stored weights."""
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
        if sums.shape[0] > 0:
            sums[lines[a], buckets[a]] -= average * (after - before)
    return moved, square_change


@inner
def square_norm(owners, lines, buckets, values):
    """Return ``||g||^2`` of one group's gradient; arcs that share a feature are added up first."""
    n = owners.shape[0]
    capacity = 8
    while capacity < 2 * n:
        capacity *= 2
    keys, totals = np.empty(capacity, np.int64), np.empty(capacity)
    keys[:], totals[:] = -1, 0.0
    total = 0.0
    for a in range(n):
        key = lines[a] * LINE + buckets[a]
        place = np.int64((np.uint64(key) * MIX) >> HALF) & (capacity - 1)
        while keys[place] != key and keys[place] >= 0:
            place = (place + 1) & (capacity - 1)
        keys[place] = key
        value = values[owners[a]]
        total += value * (2.0 * totals[place] + value)
        totals[place] += value
    return max(total, 0.0)


@compiled
def list_features(keys, places, pairs, variants, starts, ids):
    """List the feature ids of each arc, template by template, as CSR rows; ``ids`` must be large
    enough.

    A template uses a pair of views; its variant adds nothing (0), the direction (1) or direction
    and distance (2).
    """
    count = 0
    seen = np.empty(keys.heads.shape[1] + 1, np.uint64)
    hashes = np.empty((pairs.views.shape[0], places.shape[1]), np.uint64)
    for p in range(pairs.views.shape[0]):
        _add_hashes(keys, pairs, p, places, hashes[p])
    for a in range(places.shape[1]):
        code = np.uint64(places[3, a])
        for p in range(pairs.views.shape[0]):
            key = hashes[p, a]
            if variants[p] == 1:
                key += ((code >> THREE) + np.uint64(1)) * TURN
            elif variants[p] == 2:
                key += code * TURN
            n_seen, seen[0] = 1, np.uint64(0)
            if pairs.between[p] != -1:
                n_seen = _values_between(keys.codes, pairs.between[p], places[:, a], seen)
            low, size = pairs.bases[p], np.uint64(pairs.bases[p + 1] - pairs.bases[p])
            for q in range(n_seen):
                mixed = (key + seen[q]) * MIX
                ids[count] = low + np.int64(((mixed >> HALF) * size) >> HALF)
                count += 1
        starts[a + 1] = count
    return count


@compiled
def scale_group(lines, buckets, factor, table, sums, average):
    """Multiply buckets of lines, given by their bounds, after adding their share of the average to
    its sums.

    Return the new squared norm.
    """
    total = 0.0
    for line in range(lines[0], lines[1]):
        for bucket in range(buckets[0], buckets[1]):
            weight = table[line, bucket]
            if weight != 0.0:
                if sums.shape[0] > 0:
                    sums[line, bucket] += average * weight
                table[line, bucket] = factor * weight
                total += np.float64(table[line, bucket]) ** 2
    return total
