"""Loops over all arcs of sentences, which add the weights of templates to arc scores.

See ``_jit_arcs`` for lines and buckets. Eight arcs of a head are scored at a time, in vectors,
while the lines of later heads are prefetched. The scores are bitwise equal to scores of single
arcs.
"""

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from omkl._compilation import all_lanes, compiled, inner, prefetch
from omkl.groups.templates._jit_arcs import (
    CACHE_LINE,
    LINE,
    MASK7,
    bucket_of_direction,
    bucket_of_distance,
    line_of,
)

#: As in ``_jit_arcs``, but not imported: an intrinsic uses it, and the cache notices changes of an
#: intrinsic's own file only.
MIX = np.uint64(0x9E3779B97F4A7C15)
#: Number of arcs that are scored at a time.
LANES = 8
#: Number of arcs to prefetch ahead: enough for the lines to arrive, few enough for the fastest
#: cache.
AHEAD = 128
#: The place of a key's weights is an integer. So many of its lowest bits are the buckets of the
#: three variants, the bare one lowest; the other bits are the line.
BUCKET_BITS = 10
#: Lowest bit of the buckets of each variant, ones for all their bits, and first bucket in a line.
BARE, DIRECTED, DISTANT = (0, 7, 0), (3, 7, 8), (6, 15, 16)

#: A vector of 64-bit integers, one in each lane.
WORDS = ir.VectorType(ir.IntType(64), LANES)

_WORD = np.uint64(8)
_BUCKET_BITS = np.uint64(BUCKET_BITS)


def in_all_lanes(number):
    """Return a vector with the same integer in all lanes."""
    return WORDS([number] * LANES)


@intrinsic
def locate_lanes(typing_context, key, modifiers, turns, size, places):
    """Write the places of ``LANES`` arcs of a head.

    ``modifiers``, ``turns`` and ``places`` are addresses. Plain loops over short rows are slower:
    they leave a remainder after long vectors.
    """

    def generate(context, builder, signature, arguments):
        def at(address):
            return builder.inttoptr(address, WORDS.as_pointer())

        half = in_all_lanes(32)
        mask = in_all_lanes(2**BUCKET_BITS - 1)
        key, modifiers, turns, size, places = arguments
        mixed = builder.add(all_lanes(builder, key, LANES), builder.load(at(modifiers), align=8))
        mixed = builder.mul(mixed, in_all_lanes(int(MIX)))
        # tells the compiler that both factors are short
        short = builder.and_(size, ir.IntType(64)(2**32 - 1))
        line = builder.mul(builder.lshr(mixed, half), all_lanes(builder, short, LANES))
        line = builder.lshr(line, half)
        buckets = builder.and_(builder.xor(mixed, builder.load(at(turns), align=8)), mask)
        line = builder.shl(line, in_all_lanes(BUCKET_BITS))
        builder.store(builder.or_(line, buckets), at(places), align=8)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uintp, types.uintp, types.uint64, types.uintp), generate


@intrinsic
def weigh_lanes(typing_context, places, lines, bare, directed, distant, scores, weight):
    """Add the weights at ``LANES`` places, times the scales of their groups, to ``LANES`` scores.

    ``places``, ``lines`` (the table) and ``scores`` are addresses; ``weight`` is any number of the
    table's type.
    """
    n_bytes = weight.bitwidth // 8

    def generate(context, builder, signature, arguments):
        double = ir.VectorType(ir.DoubleType(), LANES)
        kind = ir.DoubleType() if n_bytes == 8 else ir.FloatType()
        real = ir.VectorType(kind, LANES)
        pointers = ir.VectorType(kind.as_pointer(), LANES)
        flags = ir.VectorType(ir.IntType(1), LANES)
        gather = builder.module.declare_intrinsic(
            f"llvm.masked.gather.v{LANES}f{8 * n_bytes}.v{LANES}p0f{8 * n_bytes}",
            fnty=ir.FunctionType(real, [pointers, ir.IntType(32), flags, real]),
        )
        places, lines, bare, directed, distant, scores, _ = arguments
        place = builder.load(builder.inttoptr(places, WORDS.as_pointer()), align=8)
        line = builder.lshr(place, in_all_lanes(BUCKET_BITS))
        line = builder.mul(line, in_all_lanes(LINE * n_bytes))
        line = builder.add(all_lanes(builder, lines, LANES), line)

        def weights(variant, scale):
            lowest_bit, mask, first = variant
            bucket = builder.lshr(place, in_all_lanes(lowest_bit))
            bucket = builder.and_(bucket, in_all_lanes(mask))
            bucket = builder.add(bucket, in_all_lanes(first))
            offset = builder.mul(bucket, in_all_lanes(n_bytes))
            is_used = builder.fcmp_ordered("!=", scale, ir.DoubleType()(0.0))
            are_used = all_lanes(builder, is_used, LANES)
            where = builder.inttoptr(builder.add(line, offset), pointers)
            alignment = ir.IntType(32)(n_bytes)
            values = builder.call(gather, [where, alignment, are_used, real([0.0] * LANES)])
            if n_bytes != 8:
                values = builder.fpext(values, double)
            return builder.fmul(all_lanes(builder, scale, LANES), values)

        total = builder.fadd(weights(BARE, bare), weights(DIRECTED, directed))
        total = builder.fadd(total, weights(DISTANT, distant))
        score = builder.inttoptr(scores, double.as_pointer())
        builder.store(builder.fadd(builder.load(score, align=8), total), score, align=8)
        return context.get_dummy_value()

    address, scale = types.uintp, types.float64
    return types.void(address, address, scale, scale, scale, address, weight), generate


@compiled
def copy_scores(nodes, cells, scores, starts, rows, into_rows):
    """Copy the scores of arcs into rows of nodes, which are padded to whole vectors, or back.

    Writes to ``rows`` if ``into_rows``, else to ``scores``; both are one-dimensional.
    Sentences are concatenated: ``s`` has the nodes ``nodes[s] : nodes[s + 1]`` and the scores
    ``cells[s] : cells[s + 1]``. The row of a node begins at ``starts[node]``.
    """
    for s in range(nodes.shape[0] - 1):
        n_nodes = nodes[s + 1] - nodes[s]
        for h in range(n_nodes):
            cell = cells[s] + h * n_nodes
            place = starts[nodes[s] + h]
            for m in range(1, n_nodes):
                if into_rows:
                    rows[place + m] = scores[cell + m]
                elif m != h:  # no node is its own head: its entry of a row has no meaning
                    scores[cell + m] = rows[place + m]


@inner
def _fetch(places, lines, stride, scales, n_bytes):
    """Prefetch the lines of a head's arcs: the bytes with nonzero scales, in whole cache lines.

    ``lines`` is the address of the table, ``n_bytes`` the size of a weight, and ``scales`` (3,) are
    those of the three variants.
    """
    # buckets 0-7 are bare, 8-15 directed and 16-31 distant, see ``_jit_arcs``
    low = 0
    if scales[0] == 0.0:
        low = 8 if scales[1] != 0.0 else 16
    high = 32
    if scales[2] == 0.0:
        high = 16 if scales[1] != 0.0 else 8
    low = low * n_bytes // CACHE_LINE * CACHE_LINE
    high = high * n_bytes
    for offset in range(low, high, 2 * CACHE_LINE):
        first = lines + np.uint64(offset)
        second = lines + np.uint64(min(offset + CACHE_LINE, high - 1))
        for a in range(places.shape[0]):
            line = (places[a] >> _BUCKET_BITS) * stride
            prefetch(first + line)
            prefetch(second + line)


@compiled
def add_pairs(
    head_keys, modifier_keys, first, n_arcs, width, pairs, live, scales, table, turns, starts, rows
):
    """Add pairs of views without a field between head and modifier, one head after the other.

    Meanwhile prefetch the lines of later heads, also across the end of a pair. The table of a pair
    stays in cache from one sentence to the next. ``modifier_keys`` has ``LANES`` more columns than
    nodes; ``turns`` (2 N + 1 + LANES,) has the bucket bits of direction and distance of the arc
    from h to m at N + m - h, see :class:`DistanceBins`. ``first`` is the first node of each node's
    sentence, ``n_arcs`` the number of arcs from each node, and ``width`` the largest of these,
    rounded up to whole vectors. ``live`` are the pairs. Writes to ``rows``, see
    :func:`copy_scores`.
    """
    n_nodes = head_keys.shape[1]
    ahead = AHEAD // width + 1
    # a ring of the places of later heads
    places = np.empty((ahead + 1, width), np.uint64)
    slot = 0
    stride = np.uint64(table.strides[0])
    n_bytes = table.strides[0] // LINE
    any_weight = table[0, 0]
    modifiers_address = np.uint64(modifier_keys.ctypes.data)
    turns_address = np.uint64(turns.ctypes.data)
    table_address = np.uint64(table.ctypes.data)
    places_address = np.uint64(places.ctypes.data)
    rows_address = np.uint64(rows.ctypes.data)
    center = (turns.shape[0] - LANES) // 2  # N: distance 0
    # pair and head whose lines are located next
    coming_pair = 0
    coming_head = 0
    # pair and head that is scored next
    pair = 0
    head = 0
    for step in range(live.shape[0] * n_nodes + ahead):
        if coming_pair < live.shape[0]:
            p = live[coming_pair]
            n = n_arcs[coming_head]
            root = first[coming_head]
            modifier = pairs.views[p, 1] * modifier_keys.shape[1] + root + 1
            turn = center - (coming_head - root) + 1
            key = head_keys[pairs.views[p, 0], coming_head]
            size = np.uint64(pairs.bases[p + 1] - pairs.bases[p])
            from_modifiers = modifiers_address + np.uint64(modifier) * _WORD
            from_turns = turns_address + np.uint64(turn) * _WORD
            to_places = places_address + np.uint64(slot * width) * _WORD
            for a in range(0, n, LANES):
                offset = np.uint64(a) * _WORD
                locate_lanes(
                    key, from_modifiers + offset, from_turns + offset, size, to_places + offset
                )
            # the first sentence prefetches the lines of the pair for the others
            if root == 0:
                lines = table_address + np.uint64(pairs.bases[p]) * stride
                _fetch(places[slot, :n], lines, stride, scales[p], n_bytes)
            coming_head += 1
            if coming_head == n_nodes:
                coming_head = 0
                coming_pair += 1
        slot = slot + 1 if slot < ahead else 0
        if step >= ahead:
            p = live[pair]
            bare = scales[p, 0]
            directed = scales[p, 1]
            distant = scales[p, 2]
            from_places = places_address + np.uint64(slot * width) * _WORD
            to_scores = rows_address + np.uint64(starts[head] + 1) * _WORD
            lines = table_address + np.uint64(pairs.bases[p]) * stride
            for a in range(0, n_arcs[head], LANES):
                offset = np.uint64(a) * _WORD
                weigh_lanes(
                    from_places + offset,
                    lines,
                    bare,
                    directed,
                    distant,
                    to_scores + offset,
                    any_weight,
                )
            head += 1
            if head == n_nodes:
                head = 0
                pair += 1


@compiled
def add_pair_between(
    head_keys, modifier_keys, codes, nodes, pairs, p, scales, table, bins, starts, rows
):
    """Add a pair of views with a line for each value of a field between the two tokens.

    Arrays are those of :func:`add_pairs` and :func:`copy_scores`; ``codes`` are the values of
    "between" fields, and ``bins`` (2, N + 1) those of distances to the left and to the right.
    """
    head_keys_of_view = head_keys[pairs.views[p, 0]]
    modifier_keys_of_view = modifier_keys[pairs.views[p, 1]]
    values = codes[pairs.between[p]]
    lines = table[pairs.bases[p] : pairs.bases[p + 1]]
    n_lines = np.uint64(lines.shape[0])
    bare = scales[p, 0]
    directed = scales[p, 1]
    distant = scales[p, 2]
    seen = np.empty(nodes[-1], np.uint64)
    for s in range(nodes.shape[0] - 1):
        low = nodes[s]
        high = nodes[s + 1]
        for h in range(low, high):
            for side in range(2):
                sign = 2 * side - 1
                n_seen = 0
                m = h + 2 * sign
                while low < m < high:
                    value = values[m - sign]
                    is_new = True
                    for q in range(n_seen):
                        is_new = is_new and seen[q] != value
                    if is_new:
                        seen[n_seen] = value
                        n_seen += 1
                    key = head_keys_of_view[h] + modifier_keys_of_view[m]
                    code_of_arc = bins[side, abs(h - m)]
                    total = 0.0
                    for q in range(n_seen):
                        mixed = (key + seen[q]) * MIX
                        line = lines[np.int64(line_of(mixed, n_lines))]
                        total += bare * line[mixed & MASK7]
                        total += directed * line[bucket_of_direction(mixed, np.uint64(side))]
                        total += distant * line[bucket_of_distance(mixed, code_of_arc)]
                    rows[starts[h] + m - low] += total
                    m += sign
