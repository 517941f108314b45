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
def settle(gram, starts, bends, threshold, ridge, w, correlations, most, worth, every):
    """Minimise over a few groups, by sweeps on the inner products of their columns (k, k) and Newton steps.

    ``w`` (k,) and the ``correlations`` (k,) of the columns with the residual follow. It ends with a sweep that gains no
    more than the share ``worth`` of what one has gained.
    """
    largest = 0.0
    for sweep in range(1, most + 1):
        gained = 0.0
        for g in range(len(bends)):
            first, last = starts[g], starts[g + 1]
            changes = correlations[first:last].copy()
            gained += _step(w[first:last], changes, bends[g], threshold, ridge)
            for k in range(first, last):
                if changes[k - first] != 0.0:
                    row, change = gram[k], changes[k - first]
                    for j in range(len(correlations)):
                        correlations[j] -= change * row[j]
        largest = max(largest, gained)
        if gained <= worth * largest:
            break
        if sweep % every == 0:
            _newton_step(gram, starts, bends, threshold, ridge, w, correlations)


@njit(cache=True, nogil=True)
def _newton_step(gram, starts, bends, threshold, ridge, w, correlations):
    """Newton's step in the groups that are not zero; those that it would lead past zero are zero then."""
    system, right = gram.copy(), correlations - ridge * w
    # duplicate columns make the inner products singular
    least = ridge + 1e-12 * bends.sum()
    for g in range(len(bends)):
        part = slice(starts[g], starts[g + 1])
        norm = np.linalg.norm(w[part])
        slope = 1.0
        if bends[g] * norm <= 1e-12 * threshold:
            system[part], system[:, part], right[part] = 0.0, 0.0, 0.0
        else:
            right[part] -= threshold / norm * w[part]
            slope = least
            if starts[g + 1] - starts[g] > 1:
                # across its ray the norm of a group is curved
                slope += threshold / norm
                system[part, part] -= threshold / norm**3 * np.outer(w[part], w[part])
        for k in range(starts[g], starts[g + 1]):
            system[k, k] += slope
    step = np.linalg.solve(system, right)
    for _ in range(3):
        moves, change = _stopped_at_zero(starts, threshold, ridge, w, step)
        images = np.dot(gram, moves)
        if change + 0.5 * np.dot(moves, images) < np.dot(moves, correlations):
            w += moves
            correlations -= images
            return
        step *= 0.5


@njit(cache=True, nogil=True)
def _stopped_at_zero(starts, threshold, ridge, w, step):
    """A step in which no group goes past zero, (k,), and how it changes the penalty."""
    moves, change = np.empty(len(w)), 0.0
    for g in range(len(starts) - 1):
        before = w[starts[g] : starts[g + 1]]
        after = before + step[starts[g] : starts[g + 1]]
        if np.dot(before, after) <= 0.0:
            after[:] = 0.0
        moves[starts[g] : starts[g + 1]] = after - before
        change += threshold * (np.linalg.norm(after) - np.linalg.norm(before))
        change += 0.5 * ridge * (np.dot(after, after) - np.dot(before, before))
    return moves, change


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
