"""Loops over lists of arcs and their hashed features.

Templates with the same views of head and modifier differ only in their variant (nothing, direction,
distance). They share a *line* of 32 buckets, two adjacent cache lines in float32, so that one
look-up serves all three. Buckets 0-7 belong to the bare conjunction, 8-15 to the direction, 16-31
to the direction and a bin of the distance. The bucket of a feature is hashed as well, so that a
line can store several keys. Features of one key never collide, and neither do templates. Pair ``p``
of views has the lines ``bases[p] : bases[p + 1]`` of a table. The buckets of a variant belong to
the group ``groups[p, variant]``, -1 for none.

A list of arcs is an array ``places``, (5, number of arcs), whose rows are named below: the nodes of
the sentence's root, of the head and of the modifier, counted over all sentences, a code, and a
third node: the head's head for grandparent parts, the inner sibling for sibling parts, and none
for arcs. The code is the bin of the distance, plus 8 if the modifier is to the right. In sibling
parts, modifier or third node can be missing. Sentence ``s`` has the nodes ``nodes[s] : nodes[s +
1]``.
``keys`` are the hashes of the views of all nodes, and ``codes`` the values of "between" fields.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import compiled, inner, prefetch

#: Rows of a list of arcs.
ROOT, HEAD, MODIFIER, CODE, THIRD = range(5)
#: A node that a part does not have.
MISSING = -1
#: The code of arcs to the right is larger by this; the bin of a part that ends a side of a head.
TO_THE_RIGHT, END_OF_SIDE = 8, 7

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
#: In place of the value of a "between" field, for pairs of views without one.
NO_VALUE = np.uint64(0)

#: Size of a cache line in bytes; numbers of pairs of views to prefetch ahead of learning, and of
#: features ahead of an inner product.
CACHE_LINE = 64
AHEAD = 4
FEATURES_AHEAD = 128
#: With fewer arcs, as in one sentence, tables do not stay in cache between uses, so lines are
#: prefetched.
FEW = 1 << 13


class Room(NamedTuple):
    """Working memory for the features of one pair of views, see :func:`_find_lines`."""

    #: Distinct values of a field between two tokens.
    seen: np.ndarray
    #: Sums of the hashes of the nodes of each arc.
    hashes: np.ndarray
    #: Arc and line of each feature (n,), and its bucket in each variant (3, n).
    arcs: np.ndarray
    lines: np.ndarray
    buckets: np.ndarray


@inner
def line_of(mixed, n_lines):
    """Return the line of a key among ``n_lines``, both uint64, by the upper half of its bits."""
    return ((mixed >> HALF) * n_lines) >> HALF


@inner
def bucket_of_direction(mixed, side):
    """Return the bucket of a key for a side: 1 for modifiers to the right, else 0."""
    return DIRECTION + (((mixed >> THREE) ^ side) & MASK7)


@inner
def bucket_of_distance(mixed, code):
    """Return the bucket of a key for the code of an arc."""
    return DISTANCE + (((mixed >> SIX) ^ code) & MASK15)


@compiled
def fold_views(columns, root, starts, offsets, fields, keys):
    """Hash each view of each token into 64 bits: write to ``keys`` (views, number of tokens).

    View ``v`` has the atoms ``starts[v] : starts[v + 1]``, each with an offset and a row of
    ``columns``; the first token is in the column ``root``.
    """
    for view in range(keys.shape[0]):
        for i in range(keys.shape[1]):
            key = np.uint64(1)
            for atom in range(starts[view], starts[view + 1]):
                key = (key ^ columns[fields[atom], root + i + offsets[atom]]) * MIX
                key ^= key >> HALF
            keys[view, i] = key


@compiled
def list_grandparents(lists, amounts, root, bins, places, numbers):
    """List the grandparent parts with nonzero ``amounts``; return how many there are.

    ``lists`` is a PartLists of one sentence, whose root is the node ``root``. Writes to ``places``
    (5, n) and ``numbers`` (n,).
    """
    count = 0
    for arc in range(lists.heads.shape[0]):
        h = lists.heads[arc]
        m = lists.modifiers[arc]
        first = lists.grandparents[arc]
        right = 1 if m > h else 0
        for part in range(first, lists.grandparents[arc + 1]):
            g = lists.heads[lists.starts[h] + part - first]
            if amounts[part] == 0.0 or g == m:
                continue
            places[ROOT, count] = root
            places[HEAD, count] = root + h
            places[MODIFIER, count] = root + m
            places[CODE, count] = bins[right, abs(h - m)]
            places[THIRD, count] = root + g
            numbers[count] = part
            count += 1
    return count


@compiled
def list_siblings(lists, amounts, root, bins, places, numbers):
    """List the sibling parts with nonzero ``amounts``; see :func:`list_grandparents`."""
    count = 0
    for side in range(lists.siblings.shape[0] - 1):
        h = side // 2
        right = side % 2
        low = lists.bounds[side]
        length = lists.bounds[side + 1] - low
        if length == 0:
            continue
        part = lists.siblings[side]
        for i in range(length + 1):
            sibling = MISSING
            if i > 0:
                sibling = root + lists.modifiers[lists.order[low + i - 1]]
            for j in range(i + 1, length + 2):
                if amounts[part] != 0.0:
                    places[ROOT, count] = root
                    places[HEAD, count] = root + h
                    places[THIRD, count] = sibling
                    if j <= length:
                        m = lists.modifiers[lists.order[low + j - 1]]
                        places[MODIFIER, count] = root + m
                        places[CODE, count] = bins[right, abs(h - m)]
                    else:
                        places[MODIFIER, count] = MISSING
                        places[CODE, count] = END_OF_SIDE + TO_THE_RIGHT * right
                    numbers[count] = part
                    count += 1
                part += 1
    return count


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
def _fetch_lines(lines, hashes):
    """Prefetch the lines of a pair of views without a "between" field, one for each hash."""
    n_lines = np.uint64(lines.shape[0])
    for a in range(hashes.shape[0]):
        _fetch_line(lines, line_of(hashes[a] * MIX, n_lines))


@inner
def _add_hashes(keys, pairs, p, places, hashes):
    """Write the sum of the hashes of the nodes of each arc or part to ``hashes`` (n,).

    It depends on whether modifier and third node are on the same side of the head, as siblings
    always are.
    """
    heads = keys.heads[pairs.views[p, 0]]
    modifiers = keys.modifiers[pairs.views[p, 1]]
    if keys.thirds.shape[0] == 0:
        for a in range(places.shape[1]):
            head = np.uint32(places[HEAD, a])
            modifier = np.uint32(places[MODIFIER, a])
            hashes[a] = heads[head] + modifiers[modifier]
        return
    thirds = keys.thirds[pairs.views[p, 2]]
    for a in range(places.shape[1]):
        h = places[HEAD, a]
        m = places[MODIFIER, a]
        third = places[THIRD, a]
        total = heads[h]
        if m >= 0:
            total += modifiers[m]
        if third >= 0:
            total += thirds[third]
            if (third > h) != (places[CODE, a] >= TO_THE_RIGHT):
                total += TURN
        hashes[a] = total


@inner
def _values_between(codes, between, place, seen):
    """Write the distinct values of a field between two nodes to ``seen``; return how many."""
    n_seen = 0
    h = place[HEAD]
    m = place[MODIFIER]
    for j in range(min(h, m) + 1, max(h, m)):
        code = codes[between, j]
        new = True
        for q in range(n_seen):
            new = new and seen[q] != code
        if new:
            seen[n_seen] = code
            n_seen += 1
    return n_seen


@inner
def _scale_of(scales, group):
    """Return the scale of a group, 0 for none (-1)."""
    return scales[group] if group >= 0 else 0.0


@compiled
def add_scores(keys, places, pairs, groups, scales, table, scores):
    """Add the weights of all pairs of views, times the scales of their groups, to ``scores`` (n,).

    These are the scores of the n arcs. ``groups`` is (pairs of views, N_VARIANTS), ``scales`` (p,),
    ``table`` (lines, LINE).
    """
    seen = np.empty(keys.heads.shape[1] + 1, np.uint64)
    hashes = np.empty(places.shape[1], np.uint64)
    for p in range(pairs.views.shape[0]):
        bare = _scale_of(scales, groups[p, 0])
        directed = _scale_of(scales, groups[p, 1])
        distant = _scale_of(scales, groups[p, 2])
        if bare == 0.0 and directed == 0.0 and distant == 0.0:
            continue
        lines = table[pairs.bases[p] : pairs.bases[p + 1]]
        n_lines = np.uint64(lines.shape[0])
        _add_hashes(keys, pairs, p, places, hashes)
        between = pairs.between[p]
        if between == -1 and places.shape[1] < FEW:
            _fetch_lines(lines, hashes)
        n_seen = 1
        seen[0] = NO_VALUE
        for a in range(places.shape[1]):
            code = np.uint64(places[CODE, a])
            if between != -1:
                n_seen = _values_between(keys.codes, between, places[:, a], seen)
            for q in range(n_seen):
                mixed = (hashes[a] + seen[q]) * MIX
                line = lines[line_of(mixed, n_lines)]
                scores[a] += (
                    bare * line[mixed & MASK7]
                    + directed * line[bucket_of_direction(mixed, code >> THREE)]
                    + distant * line[bucket_of_distance(mixed, code)]
                )


@inner
def _room(keys, places, between):
    """Allocate working memory for the features of any pair of views of these arcs."""
    n_features = places.shape[1]
    has_between = False
    for field in between:
        has_between |= field >= 0
    if has_between:
        for a in range(places.shape[1]):
            n_features += abs(places[HEAD, a] - places[MODIFIER, a])
    return Room(
        seen=np.empty(keys.heads.shape[1] + 1, np.uint64),
        hashes=np.empty(places.shape[1], np.uint64),
        arcs=np.empty(n_features, np.int64),
        lines=np.empty(n_features, np.int64),
        buckets=np.empty((N_VARIANTS, n_features), np.int64),
    )


@inner
def _find_lines(keys, places, pairs, p, room):
    """List arcs, lines and buckets of the features of pair ``p`` of views; return how many.

    Writes to the arrays of ``room``.
    """
    _add_hashes(keys, pairs, p, places, room.hashes)
    low = pairs.bases[p]
    n_lines = np.uint64(pairs.bases[p + 1] - low)
    between = pairs.between[p]
    count = 0
    n_seen = 1
    room.seen[0] = NO_VALUE
    for a in range(places.shape[1]):
        code = np.uint64(places[CODE, a])
        if between != -1:
            n_seen = _values_between(keys.codes, between, places[:, a], room.seen)
        for q in range(n_seen):
            mixed = (room.hashes[a] + room.seen[q]) * MIX
            room.arcs[count] = a
            room.lines[count] = low + np.int64(line_of(mixed, n_lines))
            room.buckets[0, count] = np.int64(mixed & MASK7)
            room.buckets[1, count] = np.int64(bucket_of_direction(mixed, code >> THREE))
            room.buckets[2, count] = np.int64(bucket_of_distance(mixed, code))
            count += 1
    return count


@compiled
def find_lines(keys, places, pairs, p):
    """Return arcs (n,), lines (n,) and buckets (3, n) of the features of pair ``p`` of views."""
    room = _room(keys, places, pairs.between)
    count = _find_lines(keys, places, pairs, p, room)
    return room.arcs[:count], room.lines[:count], room.buckets[:, :count]


@inner
def _any_stored(groups, empty):
    """Return whether a group of a pair of views is not empty; -1 is no group."""
    stored = False
    for k in groups:
        stored |= k >= 0 and not empty[k]
    return stored


@compiled
def inner_products(keys, places, gradient, pairs, groups, empty, table, products):
    """Write ``<v_k, g>`` of every nonempty group to ``products`` (p,).

    The ``gradient`` (n,) is that with respect to the scores of the arcs.
    """
    room = _room(keys, places, pairs.between)
    totals = np.zeros(N_VARIANTS)
    for p in range(pairs.views.shape[0]):
        if not _any_stored(groups[p], empty):
            continue
        count = _find_lines(keys, places, pairs, p, room)
        for a in range(min(count, FEATURES_AHEAD)):
            _fetch_line(table, room.lines[a])
        for a in range(count):
            _fetch_line(table, room.lines[min(a + FEATURES_AHEAD, count - 1)])
            slope = gradient[room.arcs[a]]
            for variant in range(N_VARIANTS):
                totals[variant] += slope * table[room.lines[a], room.buckets[variant, a]]
        for variant in range(N_VARIANTS):
            k = groups[p, variant]
            if k >= 0 and not empty[k]:
                products[k] = totals[variant]
            totals[variant] = 0.0


@compiled
def step(keys, places, gradient, pairs, groups, table, sums, arrays):
    """Step ``v -= rate g`` in all groups, with their norms and the norms of their gradients.

    Empty groups are postponed: only the norm of their gradient is computed, from the numbers of the
    lines, without a look-up. For the others, ``||g||^2`` follows from ``||v - r g||^2 = ||v||^2 - 2
    r <v, g> + r^2 ||g||^2``. Writes to ``table`` and ``sums`` (lines, LINE), and to the norms in
    ``arrays``, a BankGroups.
    """
    room = _room(keys, places, pairs.between)
    arrays.square_gradients[:] = 0.0
    for p in range(-AHEAD, pairs.views.shape[0]):
        coming = p + AHEAD
        if coming < pairs.views.shape[0] and _any_stored(groups[coming], arrays.empty):
            low = pairs.bases[coming]
            high = pairs.bases[coming + 1]
            _add_hashes(keys, pairs, coming, places, room.hashes)
            _fetch_lines(table[low:high], room.hashes)
            if sums.shape[0] > 0:
                _fetch_lines(sums[low:high], room.hashes)
        if p < 0:
            continue
        count = _find_lines(keys, places, pairs, p, room)
        arcs = room.arcs[:count]
        for variant in range(N_VARIANTS):
            k = groups[p, variant]
            if k < 0:
                continue
            buckets = room.buckets[variant]
            if arrays.empty[k]:
                square = square_norm(arcs, room.lines, buckets, gradient)
                arrays.square_gradients[k] = square
                arrays.square_norms[k] = arrays.rates[k] ** 2 * square
                continue
            rate = arrays.rates[k]
            average = arrays.averages[k]
            moved, square_change = _move(
                arcs, room.lines, buckets, gradient, rate, table, sums, average
            )
            arrays.square_norms[k] += square_change
            arrays.square_gradients[k] = max(moved, 0.0) / rate**2


@inner
def _move(arcs, lines, buckets, gradient, rate, table, sums, average):
    """Move one group; return ``r^2 ||g||^2``, and the change of ``||v||^2`` of the stored weights.

    Its n features have arcs, lines and buckets, (n,); writes to ``table`` and ``sums``.
    """
    moved = 0.0
    square_change = 0.0
    for a in range(arcs.shape[0]):
        moved += 2.0 * rate * gradient[arcs[a]] * table[lines[a], buckets[a]]
    for a in range(arcs.shape[0]):
        before = np.float64(table[lines[a], buckets[a]])
        change = -rate * gradient[arcs[a]]
        table[lines[a], buckets[a]] = before + change
        after = np.float64(table[lines[a], buckets[a]])
        moved += change * (2.0 * before + change)
        square_change += (after - before) * (after + before)
        if sums.shape[0] > 0:
            sums[lines[a], buckets[a]] -= average * (after - before)
    return moved, square_change


@inner
def square_norm(arcs, lines, buckets, gradient):
    """Return ``||g||^2`` of one group's gradient; arcs that share a feature are added up first.

    Features have arcs, lines and buckets, (n,). They are added up in a hash table of twice the
    size.
    """
    n = arcs.shape[0]
    capacity = 8
    while capacity < 2 * n:
        capacity *= 2
    features = np.full(capacity, -1, np.int64)
    totals = np.zeros(capacity)
    square = 0.0
    for a in range(n):
        feature = lines[a] * LINE + buckets[a]
        place = np.int64((np.uint64(feature) * MIX) >> HALF) & (capacity - 1)
        while features[place] != feature and features[place] >= 0:
            place = (place + 1) & (capacity - 1)
        features[place] = feature
        amount = gradient[arcs[a]]
        square += amount * (2.0 * totals[place] + amount)
        totals[place] += amount
    return max(square, 0.0)


@compiled
def list_features(keys, places, pairs, variants, starts, ids):
    """Write the feature ids of each arc, template by template, as CSR rows; return how many.

    A template uses a pair of views; its variant adds nothing (0), the direction (1) or direction
    and distance (2). Writes to ``starts`` (n + 1,) and to ``ids``, which must be large enough.
    """
    count = 0
    seen = np.empty(keys.heads.shape[1] + 1, np.uint64)
    hashes = np.empty((pairs.views.shape[0], places.shape[1]), np.uint64)
    for p in range(pairs.views.shape[0]):
        _add_hashes(keys, pairs, p, places, hashes[p])
    for a in range(places.shape[1]):
        code = np.uint64(places[CODE, a])
        for p in range(pairs.views.shape[0]):
            key = hashes[p, a]
            if variants[p] == 1:
                key += ((code >> THREE) + np.uint64(1)) * TURN
            elif variants[p] == 2:
                key += code * TURN
            low = pairs.bases[p]
            n_lines = np.uint64(pairs.bases[p + 1] - low)
            n_seen = 1
            seen[0] = NO_VALUE
            if pairs.between[p] != -1:
                n_seen = _values_between(keys.codes, pairs.between[p], places[:, a], seen)
            for q in range(n_seen):
                mixed = (key + seen[q]) * MIX
                ids[count] = low + np.int64(line_of(mixed, n_lines))
                count += 1
        starts[a + 1] = count
    return count


@compiled
def scale_group(lines, buckets, factor, table, sums, average):
    """Multiply the weights of a group, after adding their share of the average to its sums.

    They are in the lines ``lines[0] : lines[1]``, in the buckets ``buckets[0] : buckets[1]``.
    Writes to ``table`` and ``sums`` (number of lines, LINE). Return the new squared norm.
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
