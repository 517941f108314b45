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

# these four lines, LINE and CACHE_LINE are as in _jit_arcs
MIX = np.uint64(0x9E3779B97F4A7C15)
HALF, THREE, SIX = np.uint64(32), np.uint64(3), np.uint64(6)
DIRECTION, DISTANCE = np.uint64(8), np.uint64(16)
MASK7, MASK15 = np.uint64(7), np.uint64(15)
LINE, CACHE_LINE = 32, 64
#: Number of arcs that are scored at a time.
LANES = 8
#: Number of arcs to prefetch ahead: enough for the lines to arrive, few enough for the fastest
#: cache.
AHEAD = 128
#: Number of bits for the buckets in the place of a key's weights; the other bits are the line.
BUCKET_BITS = 10

_WORD = np.uint64(8)
_BUCKET_BITS = np.uint64(BUCKET_BITS)


@intrinsic
def locate_lanes(typing_context, key, modifiers, turns, size, places):
    """Write the places of ``LANES`` arcs of a head; ``modifiers``, ``turns`` and ``places`` are
    addresses.

    Plain loops over short rows are slower: they leave a remainder after long vectors.
    """

    def generate(context, builder, signature, arguments):
        def at(address):
            return builder.inttoptr(address, word.as_pointer())

        word = ir.VectorType(ir.IntType(64), LANES)
        half, bits, mask = (word([n] * LANES) for n in (32, BUCKET_BITS, 2**BUCKET_BITS - 1))
        key, modifiers, turns, size, places = arguments
        mixed = builder.add(all_lanes(builder, key, LANES), builder.load(at(modifiers), align=8))
        mixed = builder.mul(mixed, word([int(MIX)] * LANES))
        short = builder.and_(
            size, ir.IntType(64)(2**32 - 1)
        )  # tells the compiler that both factors are short
        line = builder.lshr(
            builder.mul(builder.lshr(mixed, half), all_lanes(builder, short, LANES)), half
        )
        buckets = builder.and_(builder.xor(mixed, builder.load(at(turns), align=8)), mask)
        builder.store(builder.or_(builder.shl(line, bits), buckets), at(places), align=8)
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
        def weights(low, mask, first, scale):
            bucket = builder.and_(builder.lshr(place, word([low] * LANES)), word([mask] * LANES))
            offset = builder.mul(
                builder.add(bucket, word([first] * LANES)), word([n_bytes] * LANES)
            )
            wanted = all_lanes(
                builder, builder.fcmp_ordered("!=", scale, ir.DoubleType()(0.0)), LANES
            )
            where = builder.inttoptr(builder.add(line, offset), pointers)
            own = builder.call(
                gather, [where, ir.IntType(32)(n_bytes), wanted, real([0.0] * LANES)]
            )
            return builder.fmul(
                all_lanes(builder, scale, LANES),
                own if n_bytes == 8 else builder.fpext(own, double),
            )

        word, double = ir.VectorType(ir.IntType(64), LANES), ir.VectorType(ir.DoubleType(), LANES)
        kind = ir.DoubleType() if n_bytes == 8 else ir.FloatType()
        real, pointers = ir.VectorType(kind, LANES), ir.VectorType(kind.as_pointer(), LANES)
        gather = builder.module.declare_intrinsic(
            f"llvm.masked.gather.v{LANES}f{8 * n_bytes}.v{LANES}p0f{8 * n_bytes}",
            fnty=ir.FunctionType(
                real, [pointers, ir.IntType(32), ir.VectorType(ir.IntType(1), LANES), real]
            ),
        )
        places, lines, bare, directed, distant, scores, _ = arguments
        place = builder.load(builder.inttoptr(places, word.as_pointer()), align=8)
        line = builder.mul(
            builder.lshr(place, word([BUCKET_BITS] * LANES)), word([LINE * n_bytes] * LANES)
        )
        line = builder.add(all_lanes(builder, lines, LANES), line)
        total = builder.fadd(weights(0, 7, 0, bare), weights(3, 7, 8, directed))
        total = builder.fadd(total, weights(6, 15, 16, distant))
        own = builder.inttoptr(scores, double.as_pointer())
        builder.store(builder.fadd(builder.load(own, align=8), total), own, align=8)
        return context.get_dummy_value()

    address, scale = types.uintp, types.float64
    return types.void(address, address, scale, scale, scale, address, weight), generate


@compiled
def copy(nodes, cells, scores, starts, rows, into_rows):
    """Copy the scores of arcs into rows of nodes, which are padded to whole vectors, or back.

    Sentences are concatenated: ``s`` has the nodes ``nodes[s] : nodes[s + 1]`` and the scores
    ``cells[s] : cells[s + 1]``. The row of a node begins at ``starts[node]``.
    """
    for s in range(nodes.shape[0] - 1):
        n_nodes = nodes[s + 1] - nodes[s]
        for h in range(n_nodes):
            cell, place = cells[s] + h * n_nodes, starts[nodes[s] + h]
            for m in range(1, n_nodes):
                if into_rows:
                    rows[place + m] = scores[cell + m]
                elif m != h:
                    scores[cell + m] = rows[place + m]


@compiled
def add_pairs(
    head_keys, modifier_keys, first, n_arcs, width, pairs, live, scales, table, turns, starts, rows
):
    """Add pairs of views without a field between head and modifier, one head after the other.

    Meanwhile prefetch the lines of later heads, also across the end of a pair. The table of a pair
    stays in cache from one sentence to the next. ``modifier_keys`` has ``LANES`` more columns than
    nodes; ``turns`` has the bucket bits of direction and distance, indexed by N + m - h. ``first``
    is the first node of each node's sentence, ``n_arcs`` the number of arcs from each node, and
    ``width`` the largest of these, rounded up to whole vectors.
    """
    n_nodes = head_keys.shape[1]
    ahead = AHEAD // width + 1
    places = np.empty((ahead + 1, width), np.uint64)
    stride = np.uint64(table.strides[0])
    of_modifiers, of_turns = np.uint64(modifier_keys.ctypes.data), np.uint64(turns.ctypes.data)
    of_lines, of_places = np.uint64(table.ctypes.data), np.uint64(places.ctypes.data)
    of_rows = np.uint64(rows.ctypes.data)
    center = (turns.shape[0] - LANES) // 2
    coming = now = node = own = slot = 0
    weight, n_bytes = table[0, 0], table.strides[0] // LINE
    for row in range(live.shape[0] * n_nodes + ahead):
        if coming < live.shape[0]:
            p, n = live[coming], n_arcs[node]
            modifier = pairs.views[p, 1] * modifier_keys.shape[1] + first[node] + 1
            turn = center - (node - first[node]) + 1
            key, size = (
                head_keys[pairs.views[p, 0], node],
                np.uint64(pairs.bases[p + 1] - pairs.bases[p]),
            )
            from_modifiers, from_turns = (
                of_modifiers + np.uint64(modifier) * _WORD,
                of_turns + np.uint64(turn) * _WORD,
            )
            to = of_places + np.uint64(slot * width) * _WORD
            for a in range(0, n, LANES):
                offset = np.uint64(a) * _WORD
                locate_lanes(key, from_modifiers + offset, from_turns + offset, size, to + offset)
            if (
                first[node] == 0
            ):  # the first sentence prefetches the lines of the pair for the others
                # the bytes of a line, in whole cache lines, with nonzero scales
                low = 0 if scales[p, 0] != 0.0 else (8 if scales[p, 1] != 0.0 else 16)
                high = 32 if scales[p, 2] != 0.0 else (16 if scales[p, 1] != 0.0 else 8)
                low = low * n_bytes // CACHE_LINE * CACHE_LINE
                _fetch(
                    places[slot, :n],
                    of_lines + np.uint64(pairs.bases[p]) * stride,
                    stride,
                    low,
                    high * n_bytes,
                )
            node, coming = (node + 1, coming) if node + 1 < n_nodes else (0, coming + 1)
        slot = slot + 1 if slot < ahead else 0
        if row >= ahead:
            p = live[now]
            bare, directed, distant = scales[p, 0], scales[p, 1], scales[p, 2]
            at, to = (
                of_places + np.uint64(slot * width) * _WORD,
                of_rows + np.uint64(starts[own] + 1) * _WORD,
            )
            lines = of_lines + np.uint64(pairs.bases[p]) * stride
            for a in range(0, n_arcs[own], LANES):
                offset = np.uint64(a) * _WORD
                weigh_lanes(at + offset, lines, bare, directed, distant, to + offset, weight)
            own, now = (own + 1, now) if own + 1 < n_nodes else (0, now + 1)


@inner
def _fetch(places, lines, stride, low, high):
    """Prefetch the bytes ``low .. high - 1`` of the lines of a head's arcs; ``lines`` is the
    address of the table.
    """
    for offset in range(low, high, 2 * CACHE_LINE):
        first = lines + np.uint64(offset)
        second = lines + np.uint64(min(offset + CACHE_LINE, high - 1))
        for a in range(places.shape[0]):
            line = (places[a] >> _BUCKET_BITS) * stride
            prefetch(first + line)
            prefetch(second + line)


@compiled
def add_pair_between(
    head_keys, modifier_keys, codes, nodes, pairs, p, scales, table, bins, starts, rows
):
    """Add a pair of views with a line for each value of a field between the two tokens."""
    view, other, field, first_line = (
        pairs.views[p, 0],
        pairs.views[p, 1],
        pairs.between[p],
        pairs.bases[p],
    )
    bare, directed, distant = scales[p, 0], scales[p, 1], scales[p, 2]
    size = np.uint64(pairs.bases[p + 1] - first_line)
    seen = np.empty(nodes[-1], np.uint64)
    for s in range(nodes.shape[0] - 1):
        low, high = nodes[s], nodes[s + 1]
        for h in range(low, high):
            for side in range(2):
                turn = np.uint64(side)
                sign = 2 * side - 1
                n_seen = 0
                m = h + 2 * sign
                while low < m < high:
                    code, new = codes[field, m - sign], True
                    for q in range(n_seen):
                        new = new and seen[q] != code
                    if new:
                        seen[n_seen] = code
                        n_seen += 1
                    key = head_keys[view, h] + modifier_keys[other, m]
                    total = 0.0
                    for q in range(n_seen):
                        mixed = (key + seen[q]) * MIX
                        line = table[first_line + np.int64(((mixed >> HALF) * size) >> HALF)]
                        total += bare * line[mixed & MASK7]
                        total += directed * line[DIRECTION + (((mixed >> THREE) ^ turn) & MASK7)]
                        total += (
                            distant
                            * line[DISTANCE + (((mixed >> SIX) ^ bins[side, abs(h - m)]) & MASK15)]
                        )
                    rows[starts[h] + m - low] += total
                    m += sign
