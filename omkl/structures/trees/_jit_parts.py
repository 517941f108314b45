"""Parts of trees over candidate arcs, and hill climbing (Zhang, Lei, Barzilay and Jaakkola 2014).

A part is a pair of arcs: a *grandparent part* ``g -> h -> m``, or a *sibling part*, two adjacent
modifiers ``s`` and ``m`` on one side of their head ``h``. The first modifier of a side has no
``s``, and a last part without ``m`` ends the side (McDonald and Pereira 2006; Koo and Collins
2010).

``lists`` is a :class:`PartLists` of n words and the root 0. A list has the candidate arcs of a head
on one side, from the inside to the outside; head h has the list ``2 h`` of arcs to the left, and
``2 h + 1`` of arcs to the right. Positions 0 and ``length + 1`` in a list stand for no modifier.
"""

from typing import Any, NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled, inner

#: Improvements below this size are rounding errors.
TINY = 1e-9
#: Maximum number of sweeps over a sentence; more than ten are rare.
SWEEPS = 100
#: No candidate arc.
NO_ARC = -1


@compiled
def list_parts(candidates):
    """List candidate arcs, and number their parts; return the arrays of a :class:`PartLists`.

    Arcs have true entries in ``candidates`` (n + 1, n + 1), by head and modifier.
    """
    n = candidates.shape[0] - 1
    starts = count_arcs(candidates)
    next_arc = starts[: n + 1].copy()
    n_arcs = starts[n + 1]
    heads = np.empty(n_arcs, np.int64)
    modifiers = np.empty(n_arcs, np.int64)
    order = np.empty(n_arcs, np.int64)
    ranks = np.empty(n_arcs, np.int64)
    bounds = np.zeros(2 * n + 3, np.int64)
    n_listed = 0
    for h in range(n + 1):
        for is_right in range(2):
            step = 2 * is_right - 1
            m = h + step
            while 1 <= m <= n:
                if candidates[h, m]:
                    arc = next_arc[m]
                    next_arc[m] += 1
                    heads[arc] = h
                    modifiers[arc] = m
                    order[n_listed] = arc
                    ranks[arc] = n_listed - bounds[2 * h + is_right]
                    n_listed += 1
                m += step
            bounds[2 * h + is_right + 1] = n_listed
    grandparents = number_grandparents(starts, heads)
    siblings = number_siblings(bounds, grandparents[n_arcs])
    return starts, heads, modifiers, order, ranks, bounds, grandparents, siblings


@inner
def count_arcs(candidates):
    """Return the bounds (n + 2,) of the candidate arcs (n + 1, n + 1) into each word."""
    n = candidates.shape[0] - 1
    starts = np.zeros(n + 2, np.int64)
    for h in range(n + 1):
        for m in range(1, n + 1):
            starts[m + 1] += candidates[h, m] and h != m
    for m in range(1, n + 1):
        starts[m + 1] += starts[m]
    return starts


@inner
def number_grandparents(starts, heads):
    """Return the bounds (number of arcs + 1,) of the grandparent parts of each arc.

    An arc has a part for each arc into its head. ``starts`` (n + 2,) and ``heads`` (number of
    arcs,) are those of the lists.
    """
    grandparents = np.zeros(heads.shape[0] + 1, np.int64)
    for arc in range(heads.shape[0]):
        h = heads[arc]
        n_parts = starts[h + 1] - starts[h] if h > 0 else 0
        grandparents[arc + 1] = grandparents[arc] + n_parts
    return grandparents


@inner
def number_siblings(bounds, first):
    """Return the bounds (2 n + 3,) of the sibling parts of each list, from ``first`` on.

    ``bounds`` (2 n + 3,) are those of the lists. There is a part for each two positions in a list.
    """
    siblings = np.zeros(bounds.shape[0], np.int64)
    siblings[0] = first
    for side in range(bounds.shape[0] - 1):
        length = bounds[side + 1] - bounds[side]
        n_parts = (length + 1) * (length + 2) // 2 if length else 0
        siblings[side + 1] = siblings[side] + n_parts
    return siblings


@compiled
def sibling(lists, side, i, j):
    """Return the number of the sibling part of positions ``i < j`` in the list ``side``.

    The parts of a list are numbered by i, and those of one i by j.
    """
    length = lists.bounds[side + 1] - lists.bounds[side]
    return lists.siblings[side] + i * (length + 1) - i * (i - 1) // 2 + j - i - 1


@compiled
def arcs_of(lists, heads):
    """Return the candidate arc into each node (n + 1,) of a tree with ``heads`` (n,).

    It is NO_ARC for the root, and for words whose head is no candidate.
    """
    arc_into = np.full(heads.shape[0] + 1, NO_ARC)
    for m in range(1, heads.shape[0] + 1):
        for arc in range(lists.starts[m], lists.starts[m + 1]):
            if lists.heads[arc] == heads[m - 1]:
                arc_into[m] = arc
    return arc_into


@compiled
def tree_parts(lists, heads):
    """Return the count of each part (number of parts,) in a tree of candidate arcs.

    Heads (n,) can be unknown (-1).
    """
    n = heads.shape[0]
    arc_into = arcs_of(lists, heads)
    counts = np.zeros(lists.siblings[-1])
    for m in range(1, n + 1):
        h = heads[m - 1]
        if h > 0 and arc_into[m] >= 0 and arc_into[h] >= 0:
            counts[lists.grandparents[arc_into[m]] + arc_into[h] - lists.starts[h]] += 1.0
    for side in range(2 * n + 2):
        low = lists.bounds[side]
        high = lists.bounds[side + 1]
        last = 0
        for position in range(1, high - low + 1):
            arc = lists.order[low + position - 1]
            if arc_into[lists.modifiers[arc]] == arc:
                counts[sibling(lists, side, last, position)] += 1.0
                last = position
        if high > low:
            counts[sibling(lists, side, last, high - low + 1)] += 1.0
    return counts


# ---- scores of other heads -----------------------------------------------------------------------


class Climb(NamedTuple):
    """A tree of candidate arcs that is improved.

    The scores of arcs ``scores`` (number of arcs,) and of other parts ``parts`` (number of parts,)
    are fixed. ``arc_into`` (n + 1,) has the arc into each node, and changes. ``head_scores``
    (n + 1,) is memory for :func:`score_heads`.
    """

    lists: Any
    scores: np.ndarray
    parts: np.ndarray
    single_root: bool
    projective: bool
    arc_into: np.ndarray
    head_scores: np.ndarray


@borrowing
def score_heads(climb, m):
    """Write the score of each candidate arc into m, and of its parts, to ``climb.head_scores``.

    The arcs into all other words are given. The first entries are those of the arcs
    ``starts[m] : starts[m + 1]``.
    """
    lists, parts = climb.lists, climb.parts
    arc_into, head_scores = climb.arc_into, climb.head_scores
    starts, bounds = lists.starts, lists.bounds
    first = starts[m]
    n_heads = starts[m + 1] - first
    for arc in range(first, starts[m + 1]):
        h = lists.heads[arc]
        total = score_with_siblings(climb, arc, h, m)
        if h > 0:
            total += parts[lists.grandparents[arc] + arc_into[h] - starts[h]]
        head_scores[arc - first] = total
    for place in range(bounds[2 * m], bounds[2 * m + 2]):
        child = lists.order[place]
        if arc_into[lists.modifiers[child]] == child:
            of_child = lists.grandparents[child]
            for k in range(n_heads):
                head_scores[k] += parts[of_child + k]


@borrowing
def score_with_siblings(climb, arc, h, m):
    """Return the score of an arc from h to m and its sibling parts, less the part that it splits.

    The siblings are the nearest modifiers of h in the tree, before and after m.
    """
    lists, parts, arc_into = climb.lists, climb.parts, climb.arc_into
    order, modifiers = lists.order, lists.modifiers
    side = 2 * h + (1 if m > h else 0)
    low = lists.bounds[side]
    high = lists.bounds[side + 1]
    place = low + lists.ranks[arc]
    before = place - 1
    while before >= low and arc_into[modifiers[order[before]]] != order[before]:
        before -= 1
    after = place + 1
    while after < high and arc_into[modifiers[order[after]]] != order[after]:
        after += 1
    first = before - low + 1
    middle = place - low + 1
    last = after - low + 1
    inner_part = parts[sibling(lists, side, first, middle)]
    outer_part = parts[sibling(lists, side, middle, last)]
    return climb.scores[arc] + inner_part + outer_part - parts[sibling(lists, side, first, last)]


# ---- allowed changes -----------------------------------------------------------------------------


@borrowing
def is_below(lists, arc_into, node, m):
    """Return whether a node is m or one of its descendants, by the arcs ``arc_into`` (n + 1,)."""
    while node > 0 and node != m:
        node = lists.heads[arc_into[node]]
    return node == m


@borrowing
def crosses(climb, h, m, other):
    """Return whether the arc from h to m crosses an arc of the tree; never, if arcs may cross.

    The arcs into ``m`` and ``other`` do not count.
    """
    if not climb.projective:
        return False
    low = min(h, m)
    high = max(h, m)
    for word in range(1, climb.arc_into.shape[0]):
        if word in (m, other, low, high):
            continue
        head = climb.lists.heads[climb.arc_into[word]]
        if head in (low, high):
            continue
        if (low < word < high) != (low < head < high):
            return True
    return False


# ---- hill climbing -------------------------------------------------------------------------------


@compiled
def climb(lists, scores, parts, single_root, projective, arc_into):
    """Improve a tree, the arcs ``arc_into`` (n + 1,), in place; return its score.

    It ends when no change of one head, and no exchange of two, raises the score. ``scores`` and
    ``parts`` are those of a :class:`Climb`.
    """
    n = arc_into.shape[0] - 1
    state = Climb(
        lists=lists,
        scores=scores,
        parts=parts,
        single_root=single_root,
        projective=projective,
        arc_into=arc_into,
        head_scores=np.empty(n + 1),
    )
    for _ in range(SWEEPS):
        has_changed = False
        for m in range(1, n + 1):
            has_changed |= change_head(state, m)
            has_changed |= exchange(state, m)
        if not has_changed:
            break
    heads = np.empty(n, np.int64)
    total = 0.0
    for m in range(1, n + 1):
        heads[m - 1] = lists.heads[arc_into[m]]
        total += scores[arc_into[m]]
    counts = tree_parts(lists, heads)
    for part in range(counts.shape[0]):
        total += counts[part] * parts[part] if counts[part] != 0.0 else 0.0
    return total


@borrowing
def best_arc_into(climb, word, least, m, is_below_m):
    """Return the best arc into a word that scores more than ``least``, NO_ARC if there is none.

    Heads are m and its descendants if ``is_below_m``, else all others. Scores of the arcs are those
    in ``climb.head_scores``.
    """
    lists, head_scores = climb.lists, climb.head_scores
    first = lists.starts[word]
    best = least
    best_arc = NO_ARC
    for arc in range(first, lists.starts[word + 1]):
        h = lists.heads[arc]
        if not head_scores[arc - first] > best or (h == 0 and climb.single_root):
            continue
        is_allowed = is_below(lists, climb.arc_into, h, m) == is_below_m
        if is_allowed and not crosses(climb, h, word, word):
            best = head_scores[arc - first]
            best_arc = arc
    return best_arc


@borrowing
def change_head(climb, m):
    """Give m its best head, in ``climb.arc_into``; return whether it was another one."""
    lists, arc_into, head_scores = climb.lists, climb.arc_into, climb.head_scores
    first = lists.starts[m]
    end = lists.starts[m + 1]
    if end - first == 1:
        return False
    score_heads(climb, m)
    least = head_scores[arc_into[m] - first] + TINY
    best_arc = best_arc_into(climb, m, least, m, False)
    if best_arc == NO_ARC:
        return False
    arc_into[m] = best_arc
    return True


@borrowing
def exchange(climb, m):
    """Put m in the place of its head, or of the root's child, if this is better; return whether.

    The word whose place it takes becomes a descendant of m.
    """
    lists, arc_into = climb.lists, climb.arc_into
    heads = lists.heads
    has_changed = False
    for arc in range(lists.starts[m], lists.starts[m + 1]):
        g = heads[arc]
        above = heads[arc_into[m]]
        if above == 0:
            return has_changed
        if climb.single_root and g == 0:
            while heads[arc_into[above]] != 0:
                above = heads[arc_into[above]]
        elif heads[arc_into[above]] != g:
            continue
        if not crosses(climb, g, m, above):
            has_changed |= take_place(climb, arc, m, above)
    return has_changed


@borrowing
def take_place(climb, arc, m, above):
    """Let an arc enter m in place of the word ``above``, if this is better; return whether it is.

    The word ``above`` gets its best head among m and its descendants. Writes to ``climb.arc_into``.
    """
    lists, arc_into, head_scores = climb.lists, climb.arc_into, climb.head_scores
    score_heads(climb, m)
    gain = head_scores[arc - lists.starts[m]] - head_scores[arc_into[m] - lists.starts[m]]
    arc_before = arc_into[m]
    arc_into[m] = arc
    score_heads(climb, above)
    least = head_scores[arc_into[above] - lists.starts[above]] - gain + TINY
    best_arc = best_arc_into(climb, above, least, m, True)
    if best_arc == NO_ARC:
        arc_into[m] = arc_before
        return False
    arc_into[above] = best_arc
    return True
