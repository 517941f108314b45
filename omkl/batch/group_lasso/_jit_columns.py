"""Products with some columns of a matrix, and dual norms of groups."""

import numpy as np

from omkl._compilation import compiled

#: Maximum number of Newton steps for a dual norm.
MOST_STEPS = 200


@compiled
def dense_products(columns, which, rho):
    """Return ``columns[which] @ rho`` for a C-ordered array (n, m)."""
    products = np.empty(len(which))
    for k in range(len(which)):
        products[k] = np.dot(columns[which[k]], rho)
    return products


@compiled
def dense_combination(columns, which, coefficients):
    """Return ``coefficients[which] @ columns[which]`` for a C-ordered array (n, m)."""
    combination = np.empty(columns.shape[1])
    combination[:] = 0.0
    for k in which:
        column = columns[k]
        coefficient = coefficients[k]
        for i in range(len(combination)):
            combination[i] += coefficient * column[i]
    return combination


@compiled
def dense_products_and_squares(columns, rho):
    """Return ``columns @ rho`` and the squared norms of all columns, reading each column once."""
    products = np.empty(len(columns))
    squares = np.empty(len(columns))
    for k in range(len(columns)):
        products[k] = np.dot(columns[k], rho)
        squares[k] = np.dot(columns[k], columns[k])
    return products, squares


@compiled
def mixed_dual_norms(correlations, ends, norm_weights, l1_weights, positive):
    """Return the dual norm of each group, (g,), with l1 terms in the norms.

    It is the least t >= 0 at which the correlations c of the group fulfil :math:`\\|(|c| - t
    l)_+\\| \\le t \\omega`. Groups end at ``ends`` (g,). If coefficients must be ``positive``,
    :math:`|c|` becomes the positive part of c. Groups with zero weights get 0. Newton's method on a
    convex, decreasing function of t never passes the root from the left (the epsilon-norm of Ndiaye
    et al. 2016, by another method).
    """
    dual_norms = np.zeros(len(ends))
    first = 0
    for g in range(len(ends)):
        correlations_of_group = correlations[first : ends[g]]
        first = ends[g]
        if norm_weights[g] == 0.0 and l1_weights[g] == 0.0:
            continue
        t = 0.0
        for _ in range(MOST_STEPS):
            squares = 0.0
            total = 0.0
            for c in correlations_of_group:
                excess = (c if positive else abs(c)) - t * l1_weights[g]
                if excess > 0.0:
                    squares += excess * excess
                    total += excess
            norm = np.sqrt(squares)
            if norm == 0.0:
                break
            step = (norm - t * norm_weights[g]) / (norm_weights[g] + l1_weights[g] * total / norm)
            t += step
            if step <= 1e-15 * t:
                break
        dual_norms[g] = t
    return dual_norms
