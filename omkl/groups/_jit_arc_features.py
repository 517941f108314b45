"""Hashed features of the arcs of one tree, listed: for classifiers of arcs."""

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
