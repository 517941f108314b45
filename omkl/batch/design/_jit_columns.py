"""Columns of a matrix, which are not copied: products with some, and coordinate descent over groups of them."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def dense_products(columns, which, rho):
    """``columns[which] @ rho`` for a C-ordered array (n, m)."""
    products = np.empty(len(which))
    for k in range(len(which)):
        products[k] = np.dot(columns[which[k]], rho)
    return products


@njit(cache=True, nogil=True)
def dense_products_and_squares(columns, rho):
    """``columns @ rho`` and the squared norms of all columns, each column being read once."""
    products, squares = np.empty(len(columns)), np.empty(len(columns))
    for k in range(len(columns)):
        products[k] = np.dot(columns[k], rho)
        squares[k] = np.dot(columns[k], columns[k])
    return products, squares


@njit(cache=True, nogil=True)
def sparse_products(data, rows, ends, which, rho):
    """The same for columns of a CSC matrix."""
    products = np.zeros(len(which))
    for k in range(len(which)):
        for entry in range(ends[which[k]], ends[which[k] + 1]):
            products[k] += data[entry] * rho[rows[entry]]
    return products


@njit(cache=True, nogil=True)
def dense_diagonals(columns, starts, curvature):
    """For each group the trace of ``B_g' diag(h) B_g``, at least its largest eigenvalue, (g,)."""
    hessian_diagonal = np.zeros(len(starts) - 1)
    for g in range(len(hessian_diagonal)):
        for k in range(starts[g], starts[g + 1]):
            hessian_diagonal[g] += np.dot(columns[k] * curvature, columns[k])
    return hessian_diagonal


@njit(cache=True, nogil=True)
def sparse_diagonals(data, rows, ends, starts, curvature):
    """The same for columns of a CSC matrix."""
    hessian_diagonal = np.zeros(len(starts) - 1)
    for g in range(len(hessian_diagonal)):
        for entry in range(ends[starts[g]], ends[starts[g + 1]]):
            hessian_diagonal[g] += curvature[rows[entry]] * data[entry] ** 2
    return hessian_diagonal


@njit(cache=True, nogil=True)
def sweep_dense(columns, starts, groups, curvature, hessian_diagonal, threshold, ridge, w, rho):
    """A step in each of the groups: ``w`` (k,) and the residual ``rho`` (m,) follow; what is gained is returned."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        changes = np.empty(last - first)
        for k in range(first, last):
            changes[k - first] = np.dot(columns[k], rho)
        gained += _step(w[first:last], changes, hessian_diagonal[g], threshold, ridge)
        for k in range(first, last):
            if changes[k - first] != 0.0:
                column, change = columns[k], changes[k - first]
                for i in range(len(rho)):
                    rho[i] -= change * curvature[i] * column[i]
    return gained


@njit(cache=True, nogil=True)
def sweep_sparse(data, rows, ends, starts, groups, curvature, hessian_diagonal, threshold, ridge, w, rho):
    """The same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        changes = np.zeros(last - first)
        for k in range(first, last):
            for entry in range(ends[k], ends[k + 1]):
                changes[k - first] += data[entry] * rho[rows[entry]]
        gained += _step(w[first:last], changes, hessian_diagonal[g], threshold, ridge)
        for k in range(first, last):
            if changes[k - first] != 0.0:
                for entry in range(ends[k], ends[k + 1]):
                    rho[rows[entry]] -= changes[k - first] * curvature[rows[entry]] * data[entry]
    return gained


@njit(cache=True, nogil=True)
def minimise_quadratic(gram, starts, hessian_diagonal, threshold, ridge, w, correlations, most, worth, every):
    """Minimise over a few groups, by sweeps on the inner products of their columns (k, k) and Newton steps.

    ``w`` (k,) and the ``correlations`` (k,) of the columns with the residual follow. It ends with a sweep that gains no
    more than the share ``worth`` of what one has gained.
    """
    largest = 0.0
    for sweep in range(1, most + 1):
        gained = 0.0
        for g in range(len(hessian_diagonal)):
            first, last = starts[g], starts[g + 1]
            changes = correlations[first:last].copy()
            gained += _step(w[first:last], changes, hessian_diagonal[g], threshold, ridge)
            for k in range(first, last):
                if changes[k - first] != 0.0:
                    row, change = gram[k], changes[k - first]
                    for j in range(len(correlations)):
                        correlations[j] -= change * row[j]
        largest = max(largest, gained)
        if gained <= worth * largest:
            break
        if sweep % every == 0:
            _newton_step(gram, starts, hessian_diagonal, threshold, ridge, w, correlations)


@njit(cache=True, nogil=True)
def _newton_step(gram, starts, hessian_diagonal, threshold, ridge, w, correlations):
    """Newton's step in the groups that are not zero; those that it would lead past zero are zero then."""
    system, right = gram.copy(), correlations - ridge * w
    # duplicate columns make the inner products singular
    least = ridge + 1e-12 * hessian_diagonal.sum()
    for g in range(len(hessian_diagonal)):
        part = slice(starts[g], starts[g + 1])
        norm = np.linalg.norm(w[part])
        slope = 1.0
        if hessian_diagonal[g] * norm <= 1e-12 * threshold:
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
        products = np.dot(gram, moves)
        if change + 0.5 * np.dot(moves, products) < np.dot(moves, correlations):
            w += moves
            correlations -= products
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
def _step(w, changes, bound, threshold, ridge):
    """Move one group ``w`` in place; ``changes`` comes as the correlations with the residual. What is gained, at least.

    The proximity operator is that of ``threshold * b + ridge * b^2 / 2`` in the norm of the group.
    """
    if bound <= 0.0:
        changes[:] = 0.0
        return 0.0
    norm = 0.0
    for k in range(len(w)):
        changes[k] = w[k] + changes[k] / bound
        norm += changes[k] ** 2
    norm = np.sqrt(norm)
    ratio = max(1.0 - threshold / (bound * norm), 0.0) / (1.0 + ridge / bound) if norm > 0.0 else 0.0
    gained = 0.0
    for k in range(len(w)):
        moved = ratio * changes[k]
        changes[k] = moved - w[k]
        w[k] = moved
        gained += 0.5 * bound * changes[k] ** 2
    return gained
