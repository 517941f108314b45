"""Parts of trees over candidate arcs, and hill climbing (Zhang, Lei, Barzilay and Jaakkola 2014).

A part is a pair of arcs: a *grandparent part* ``g -> h -> m``, or a *sibling part*, two adjacent
modifiers ``s`` and ``m`` on one side of their head ``h``. The first modifier of a side has no
``s``, and a last part without ``m`` ends the side (McDonald and Pereira 2006; Koo and Collins
2010).

``lists`` is a :class:`PartLists`. A list has the candidate arcs of a head on one side, from the
inside to the outside. Positions 0 and ``length + 1`` in a list stand for no modifier.
"""

import numpy as np

from omkl._compilation import compiled, inner

#: Improvements below this size are rounding errors.
TINY = 1e-9
#: Maximum number of sweeps over a sentence; more than ten are rare.
SWEEPS = 100


@compiled
def list_parts(candidates):
    """List the arcs with true entries in ``candidates``, (n + 1, n + 1), and number their parts."""
    n = candidates.shape[0] - 1
    starts, free = np.zeros(n + 2, np.int64), np.zeros(n + 1, np.int64)
    for h in range(n + 1):
        for m in range(1, n + 1):
            starts[m + 1] += candidates[h, m] and h != m
    for m in range(1, n + 1):
        free[m] = starts[m]
        starts[m + 1] += starts[m]
    n_arcs = starts[n + 1]
    heads, modifiers, order, ranks = np.empty((4, n_arcs), np.int64)
    bounds, siblings = np.zeros((2, 2 * n + 3), np.int64)
    listed = 0
    for h in range(n + 1):
        for side in range(2):
            step, m = 2 * side - 1, h + 2 * side - 1
            while 1 <= m <= n:
                if candidates[h, m]:
                    arc = free[m]
                    free[m] += 1
                    heads[arc], modifiers[arc], order[listed], ranks[arc] = (
                        h,
                        m,
                        arc,
                        listed - bounds[2 * h + side],
                    )
                    listed += 1
                m += step
            bounds[2 * h + side + 1] = listed
    grandparents = np.zeros(n_arcs + 1, np.int64)
    for arc in range(n_arcs):
        h = heads[arc]
        grandparents[arc + 1] = grandparents[arc] + (starts[h + 1] - starts[h] if h > 0 else 0)
    siblings[0] = grandparents[n_arcs]
    for side in range(2 * n + 2):
        length = bounds[side + 1] - bounds[side]
        siblings[side + 1] = siblings[side] + ((length + 1) * (length + 2) // 2 if length else 0)
    return starts, heads, modifiers, order, ranks, bounds, grandparents, siblings


@compiled
def sibling(lists, side, i, j):
    """Return the number of the sibling part of positions ``i < j`` in a list."""
    length = lists.bounds[side + 1] - lists.bounds[side]
    return lists.siblings[side] + i * (length + 1) - i * (i - 1) // 2 + j - i - 1


@compiled
def arcs_of(lists, heads):
    """Return the number of the candidate arc into each node of a tree, -1 for other arcs."""
    current = np.full(heads.shape[0] + 1, -1)
    for m in range(1, heads.shape[0] + 1):
        for arc in range(lists.starts[m], lists.starts[m + 1]):
            if lists.heads[arc] == heads[m - 1]:
                current[m] = arc
    return current


@compiled
def tree_parts(lists, heads):
    """Return the count of each part in a tree of candidate arcs, in which heads can be unknown
    (-1).
    """
    n = heads.shape[0]
    current, counts = arcs_of(lists, heads), np.zeros(lists.siblings[-1])
    for m in range(1, n + 1):
        h = heads[m - 1]
        if h > 0 and current[m] >= 0 and current[h] >= 0:
            counts[lists.grandparents[current[m]] + current[h] - lists.starts[h]] += 1.0
    for side in range(2 * n + 2):
        low, high = lists.bounds[side], lists.bounds[side + 1]
        last = 0
        for position in range(1, high - low + 1):
            arc = lists.order[low + position - 1]
            if current[lists.modifiers[arc]] == arc:
                counts[sibling(lists, side, last, position)] += 1.0
                last = position
        if high > low:
            counts[sibling(lists, side, last, high - low + 1)] += 1.0
    return counts


@inner
def score_heads(lists, scores, parts, current, m, values):
    """Write the score of each candidate arc into m, and of its parts, given the arcs into all other
    words.
    """
    starts, bounds, order, modifiers = lists.starts, lists.bounds, lists.order, lists.modifiers
    first = starts[m]
    for arc in range(first, starts[m + 1]):
        h = lists.heads[arc]
        side = 2 * h + (1 if m > h else 0)
        low, high = bounds[side], bounds[side + 1]
        place = low + lists.ranks[arc]
        before, after = place - 1, place + 1
        while before >= low and current[modifiers[order[before]]] != order[before]:
            before -= 1
        while after < high and current[modifiers[order[after]]] != order[after]:
            after += 1
        i, own, j = before - low + 1, place - low + 1, after - low + 1
        total = (
            scores[arc] + parts[sibling(lists, side, i, own)] + parts[sibling(lists, side, own, j)]
        )
        total -= parts[sibling(lists, side, i, j)]
        if h > 0:
            total += parts[lists.grandparents[arc] + current[h] - starts[h]]
        values[arc - first] = total
    for place in range(bounds[2 * m], bounds[2 * m + 2]):
        child = order[place]
        if current[modifiers[child]] == child:
            of_child = lists.grandparents[child]
            for k in range(starts[m + 1] - first):
                values[k] += parts[of_child + k]


@inner
def is_below(lists, current, node, m):
    """Return True if a node is m or one of its descendants."""
    while node > 0 and node != m:
        node = lists.heads[current[node]]
    return node == m


@inner
def crosses(lists, current, h, m, other):
    """Return True if the arc from h to m crosses an arc of the tree, except the arcs into ``m`` and
    ``other``.
    """
    low, high = min(h, m), max(h, m)
    for word in range(1, current.shape[0]):
        head = lists.heads[current[word]]
        if word != m and word != other:
            inside = low < word < high
            if (
                inside != (low < head < high)
                and head != low
                and head != high
                and word != low
                and word != high
            ):
                return True
    return False


@compiled
def climb(lists, scores, parts, single_root, projective, current):
    """Improve a tree until no change of one head, and no exchange of two, raises its score; return
    the score.
    """
    n = current.shape[0] - 1
    values = np.empty(n + 1)
    for _ in range(SWEEPS):
        changed = False
        for m in range(1, n + 1):
            changed |= change_head(
                lists, scores, parts, single_root, projective, current, m, values
            )
            changed |= exchange(lists, scores, parts, single_root, projective, current, m, values)
        if not changed:
            break
    heads, total = np.empty(n, np.int64), 0.0
    for m in range(1, n + 1):
        heads[m - 1] = lists.heads[current[m]]
        total += scores[current[m]]
    counts = tree_parts(lists, heads)
    for part in range(counts.shape[0]):
        total += counts[part] * parts[part] if counts[part] != 0.0 else 0.0
    return total


@inner
def change_head(lists, scores, parts, single_root, projective, current, m, values):
    """Give m its best head; return True if it was another one."""
    first, heads = lists.starts[m], lists.heads
    if lists.starts[m + 1] - first == 1:
        return False
    score_heads(lists, scores, parts, current, m, values)
    best, chosen = values[current[m] - first] + TINY, -1
    for arc in range(first, lists.starts[m + 1]):
        h = heads[arc]
        allowed = (
            values[arc - first] > best
            and (h > 0 or not single_root)
            and not is_below(lists, current, h, m)
        )
        if allowed and not (projective and crosses(lists, current, h, m, m)):
            best, chosen = values[arc - first], arc
    if chosen < 0:
        return False
    current[m] = chosen
    return True


@inner
def exchange(lists, scores, parts, single_root, projective, current, m, values):
    """Put m in the place of its head, or of the root's child, which becomes a descendant of m, if
    this is better.
    """
    changed = False
    starts, heads = lists.starts, lists.heads
    for arc in range(starts[m], starts[m + 1]):
        g, above = heads[arc], heads[current[m]]
        if above == 0:
            return changed
        if single_root and g == 0:
            while heads[current[above]] != 0:
                above = heads[current[above]]
        elif heads[current[above]] != g:
            continue
        if projective and crosses(lists, current, g, m, above):
            continue
        score_heads(lists, scores, parts, current, m, values)
        gain = values[arc - starts[m]] - values[current[m] - starts[m]]
        before, current[m] = current[m], arc
        score_heads(lists, scores, parts, current, above, values)
        best, chosen = values[current[above] - starts[above]] - gain + TINY, -1
        for other in range(starts[above], starts[above + 1]):
            allowed = values[other - starts[above]] > best and is_below(
                lists, current, heads[other], m
            )
            if allowed and not (projective and crosses(lists, current, heads[other], above, above)):
                best, chosen = values[other - starts[above]], other
        if chosen < 0:
            current[m] = before
        else:
            current[above], changed = chosen, True
    return changed
