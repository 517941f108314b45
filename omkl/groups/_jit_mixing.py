"""Loops over tables of weights that shards have changed: what moved, and the mix of what moved.

A table is (rows, slots). ``owners[row]`` and the block of slots ``edges[b] : edges[b + 1]`` say which group a weight is
of, ``groups[owners[row], b]``; -1 is none. Which weights moved is one bit a weight, in the order of the table; their
values follow in that order without gaps.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def find_moved(table, sums, before, before_sums, owners, groups, edges, kept, given, moved):
    """Mark every weight that is not what scaling its group alone has made of it; returns how many there are.

    Scaling alone makes ``kept v`` of ``v``, and ``u + given v`` of the running sum ``u`` of its average.
    """
    n_rows, n_slots = table.shape
    averaging = sums.shape[0] > 0
    scaled, shifted = np.empty(1, table.dtype), np.empty(1, sums.dtype)
    count = 0
    for row in range(n_rows):
        for b in range(edges.shape[0] - 1):
            k = groups[owners[row], b]
            if k < 0:
                continue
            for slot in range(edges[b], edges[b + 1]):
                scaled[0] = kept[k] * before[row, slot]
                differs = table[row, slot] != scaled[0]
                if averaging:
                    shifted[0] = before_sums[row, slot] + given[k] * before[row, slot]
                    differs |= sums[row, slot] != shifted[0]
                if differs:
                    place = row * n_slots + slot
                    moved[place >> 3] |= np.uint8(1 << (place & 7))
                    count += 1
    return count


@njit(cache=True, nogil=True)
def gather(moved, table, out):
    """The marked weights of a table, one after the other."""
    n_slots = table.shape[1]
    count = 0
    for byte in range(moved.shape[0]):
        bits = moved[byte]
        place = byte << 3
        while bits:
            if bits & 1:
                out[count] = table[place // n_slots, place % n_slots]
                count += 1
            bits >>= 1
            place += 1
    return count


@njit(cache=True, nogil=True)
def add_shard(low, high, cursor, moved, values, value_sums, table, sums, owners, groups, edges, weight, points, pasts,
              kept, given, point, past, touched):  # fmt: skip
    """Add what one shard moved in the rows ``low .. high - 1``; returns how many of its values are used up by now.

    ``point`` gains ``w s (v' - kept v)`` and ``past`` ``w (a v' + u' - a kept v - given v - u)``: what a weight's part
    in the mix differs by from that of a weight that only scaling has changed.
    """
    n_slots = table.shape[1]
    averaging = sums.shape[0] > 0
    for row in range(low, high):
        for b in range(edges.shape[0] - 1):
            k = groups[owners[row], b]
            if k < 0:
                continue
            for slot in range(edges[b], edges[b + 1]):
                place = row * n_slots + slot
                if not (moved[place >> 3] >> (place & 7)) & 1:
                    continue
                start, value = np.float64(table[row, slot]), np.float64(values[cursor])
                point[row - low, slot] += points[k] * (value - kept[k] * start)
                if averaging:
                    own = pasts[k] * value + weight * np.float64(value_sums[cursor])
                    still = (pasts[k] * kept[k] + weight * given[k]) * start + weight * np.float64(sums[row, slot])
                    past[row - low, slot] += own - still
                touched[row - low, slot] = True
                cursor += 1
    return cursor


@njit(cache=True, nogil=True)
def settle_rows(low, high, table, sums, owners, groups, edges, scales, averages, factors, shifts, point, past, touched):
    """Give the rows ``low .. high - 1`` their mixed weights, from what :func:`add_shard` has added up."""
    averaging = sums.shape[0] > 0
    for row in range(low, high):
        for b in range(edges.shape[0] - 1):
            k = groups[owners[row], b]
            if k < 0:
                continue
            rescaled = factors[k] != 1.0 or shifts[k] != 0.0
            for slot in range(edges[b], edges[b + 1]):
                if touched[row - low, slot]:
                    start = np.float64(table[row, slot])
                    table[row, slot] = (scales[k] * factors[k] * start + point[row - low, slot]) / scales[k]
                    if averaging:
                        total = (averages[k] + shifts[k]) * start + sums[row, slot] + past[row - low, slot]
                        sums[row, slot] = total - averages[k] * table[row, slot]
                elif rescaled:
                    start = np.float64(table[row, slot])
                    table[row, slot] = factors[k] * start
                    if averaging:
                        sums[row, slot] += shifts[k] * start
