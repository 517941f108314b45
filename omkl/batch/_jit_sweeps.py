"""Coordinate descent over the groups of a panel: the loops."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def dense_bends(columns, starts, curvature):
    """For each group the trace of ``B_g' diag(h) B_g``, at least its largest eigenvalue, (g,)."""
    bends = np.zeros(len(starts) - 1)
    for g in range(len(bends)):
        for k in range(starts[g], starts[g + 1]):
            bends[g] += np.dot(columns[k] * curvature, columns[k])
    return bends


@njit(cache=True, nogil=True)
def sparse_bends(data, rows, ends, starts, curvature):
    """The same for columns of a CSC matrix."""
    bends = np.zeros(len(starts) - 1)
    for g in range(len(bends)):
        for place in range(ends[starts[g]], ends[starts[g + 1]]):
            bends[g] += curvature[rows[place]] * data[place] ** 2
    return bends


@njit(cache=True, nogil=True)
def sweep_dense(columns, starts, groups, curvature, bends, threshold, ridge, w, rho):
    """A step in each of the groups: ``w`` (k,) and the residual ``rho`` (m,) follow; what is gained is returned."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        changes = np.empty(last - first)
        for k in range(first, last):
            changes[k - first] = np.dot(columns[k], rho)
        gained += _step(w[first:last], changes, bends[g], threshold, ridge)
        for k in range(first, last):
            if changes[k - first] != 0.0:
                column, change = columns[k], changes[k - first]
                for i in range(len(rho)):
                    rho[i] -= change * curvature[i] * column[i]
    return gained


@njit(cache=True, nogil=True)
def sweep_sparse(data, rows, ends, starts, groups, curvature, bends, threshold, ridge, w, rho):
    """The same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        changes = np.zeros(last - first)
        for k in range(first, last):
            for place in range(ends[k], ends[k + 1]):
                changes[k - first] += data[place] * rho[rows[place]]
        gained += _step(w[first:last], changes, bends[g], threshold, ridge)
        for k in range(first, last):
            if changes[k - first] != 0.0:
                for place in range(ends[k], ends[k + 1]):
                    rho[rows[place]] -= changes[k - first] * curvature[rows[place]] * data[place]
    return gained


@njit(cache=True, nogil=True)
def _step(w, changes, bend, threshold, ridge):
    """Move one group ``w`` in place; ``changes`` comes as the correlations with the residual. What is gained, at least.

    The proximity operator is that of ``threshold * b + ridge * b^2 / 2`` in the norm of the group.
    """
    if bend <= 0.0:
        changes[:] = 0.0
        return 0.0
    norm = 0.0
    for k in range(len(w)):
        changes[k] = w[k] + changes[k] / bend
        norm += changes[k] ** 2
    norm = np.sqrt(norm)
    ratio = max(1.0 - threshold / (bend * norm), 0.0) / (1.0 + ridge / bend) if norm > 0.0 else 0.0
    gained = 0.0
    for k in range(len(w)):
        moved = ratio * changes[k]
        changes[k] = moved - w[k]
        w[k] = moved
        gained += 0.5 * bend * changes[k] ** 2
    return gained
