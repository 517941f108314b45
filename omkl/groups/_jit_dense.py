"""Loops of dense groups. Transitions are (positions, K, K); position ``t`` uses row ``min(t, positions - 1)``."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def add_transitions(table, scale, offsets, low, high, pairwise):
    """Add ``scale * table`` to ``pairwise``, which is (1, K, K) or has a matrix for each token but the last."""
    if pairwise.shape[0] == 1 and table.shape[0] == 1:
        for i in range(table.shape[1]):
            for j in range(table.shape[2]):
                pairwise[0, i, j] += scale * table[0, i, j]
        return
    first = np.searchsorted(offsets, low, side="right") - 1
    for s in range(first, offsets.shape[0] - 1):
        if offsets[s] >= high:
            break
        for t in range(max(offsets[s], low), min(offsets[s + 1] - 1, high - 1)):
            position = min(t - offsets[s], table.shape[0] - 1)
            for i in range(table.shape[1]):
                for j in range(table.shape[2]):
                    pairwise[t - low, i, j] += scale * table[position, i, j]


@njit(cache=True, nogil=True)
def add_constants(table, scale, unary):
    """Add ``scale * table[0, 0]`` to every row of ``unary``."""
    for i in range(unary.shape[0]):
        for j in range(unary.shape[1]):
            unary[i, j] += scale * table[0, 0, j]


@njit(cache=True, nogil=True)
def step(gradient, table, sums, averaging, rates, averages, square_norms, square_gradients):
    """``v -= rate g``; gradient matrices from ``len(table) - 1`` on share the last one of the table."""
    inner = 0.0
    moved = 0.0
    for t in range(gradient.shape[0]):
        weights = table[min(t, table.shape[0] - 1)]
        for i in range(table.shape[1]):
            for j in range(table.shape[2]):
                inner += gradient[t, i, j] * weights[i, j]
    for t in range(gradient.shape[0]):
        position = min(t, table.shape[0] - 1)
        for i in range(table.shape[1]):
            for j in range(table.shape[2]):
                if gradient[t, i, j] != 0.0:
                    change = -rates[0] * gradient[t, i, j]
                    moved += change * (2.0 * table[position, i, j] + change)
                    table[position, i, j] += change
                    if averaging:
                        sums[position, i, j] -= averages[0] * change
    square_norms[0] += moved
    square_gradients[0] = max(moved + 2.0 * rates[0] * inner, 0.0) / rates[0] ** 2
