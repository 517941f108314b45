"""Passes over whole tables of arc weights, whatever a sentence looks up in them: norms, averages, folds.

Pair ``p`` of views has the lines ``bases[p] : bases[p + 1]``; the buckets ``edges[b] : edges[b + 1]`` of each are of
group ``groups[p, b]``, -1 for none.
"""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def scale_group(low, high, first, last, factor, table, sums, averaging, average):
    """Multiply the buckets ``first .. last - 1`` of lines ``low .. high - 1``, after what they gave to the average is
    added to its sums; returns the new squared norm."""
    total = 0.0
    for line in range(low, high):
        for bucket in range(first, last):
            weight = table[line, bucket]
            if weight != 0.0:
                if averaging:
                    sums[line, bucket] += average * weight
                table[line, bucket] = factor * weight
                total += np.float64(table[line, bucket]) ** 2
    return total


@njit(cache=True, nogil=True)
def squared_norms(bases, groups, edges, table, out):
    """Sum of squares of each group, from scratch."""
    out[:] = 0.0
    for p in range(groups.shape[0]):
        for variant in range(groups.shape[1]):
            if groups[p, variant] >= 0:
                total = 0.0
                for line in range(bases[p], bases[p + 1]):
                    for bucket in range(edges[variant], edges[variant + 1]):
                        total += np.float64(table[line, bucket]) ** 2
                out[groups[p, variant]] = total


@njit(cache=True, nogil=True)
def combine(bases, groups, edges, averages, total, table, sums, out):
    """``out = (a_k v_k + u_k) / total`` group by group."""
    for p in range(groups.shape[0]):
        for variant in range(groups.shape[1]):
            k = groups[p, variant]
            if k >= 0:
                for line in range(bases[p], bases[p + 1]):
                    for bucket in range(edges[variant], edges[variant + 1]):
                        out[line, bucket] = (averages[k] * table[line, bucket] + sums[line, bucket]) / total
