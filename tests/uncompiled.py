"""NumPy substitutes for processor instructions of compiled loops, for runs without compilation."""

import ctypes

import numpy as np

from omkl.groups.templates import _jit_arc_scores, _jit_arcs


def replace_intrinsics():
    for module in (_jit_arcs, _jit_arc_scores):
        module.prefetch = lambda *places: None
    _jit_arc_scores.locate_lanes = locate_lanes
    _jit_arc_scores.weigh_lanes = weigh_lanes


def memory(address, kind, count=_jit_arc_scores.LANES):
    """``count`` numbers at an address, as an array that writes through."""
    kind = np.dtype(kind)
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(int(address)), kind)


def locate_lanes(key, modifiers, turns, size, places):
    mixed = (np.uint64(key) + memory(modifiers, np.uint64)) * _jit_arc_scores.MIX
    lines = ((mixed >> np.uint64(32)) * np.uint64(size)) >> np.uint64(32)
    buckets = (mixed ^ memory(turns, np.uint64)) & np.uint64(2**_jit_arc_scores.BUCKET_BITS - 1)
    memory(places, np.uint64)[:] = (lines << np.uint64(_jit_arc_scores.BUCKET_BITS)) | buckets


def weigh_lanes(places, lines, bare, directed, distant, scores, weight):
    width = _jit_arc_scores.LINE
    sums = memory(scores, np.float64)
    for lane, place in enumerate(memory(places, np.uint64).tolist()):
        line, buckets = divmod(place, 2**_jit_arc_scores.BUCKET_BITS)
        weights = memory(int(lines) + line * width * weight.itemsize, weight.dtype, width)
        terms = [
            (bare, buckets & 7),
            (directed, 8 + (buckets >> 3 & 7)),
            (distant, 16 + (buckets >> 6 & 15)),
        ]
        sums[lane] += sum(
            scale * float(weights[bucket]) if scale else 0.0 for scale, bucket in terms
        )
