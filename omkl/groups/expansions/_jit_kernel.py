"""Loops of all kernel groups: potentials before scaling are (p, n, K)."""

import numpy as np

from omkl._compilation import borrowing, compiled


@compiled
def has_gradient(gradient):
    """Return the indices of the tokens with a nonzero gradient."""
    moving = np.empty(gradient.shape[0], np.int64)
    n_moving = 0
    for i in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            if gradient[i, j] != 0.0:
                moving[n_moving] = i
                n_moving += 1
                break
    return moving[:n_moving]


@compiled(counting=False)
def add_scaled(scales, potentials, unary):
    """``unary += sum_k s_k potentials_k``."""
    for k in range(potentials.shape[0]):
        if scales[k] != 0.0:
            for t in range(unary.shape[0]):
                for j in range(unary.shape[1]):
                    unary[t, j] += scales[k] * potentials[k, t, j]


@compiled(counting=False)
def kernel_inner_products(potentials, gradient, products, totals):
    """Add ``<potentials_k, D>`` to ``products``, and potentials, summed, to ``totals``."""
    for k in range(potentials.shape[0]):
        for t in range(gradient.shape[0]):
            for j in range(gradient.shape[1]):
                products[k] += potentials[k, t, j] * gradient[t, j]
                totals[k, j] += potentials[k, t, j]


@compiled(counting=False)
def measure(values, rows, columns, moving, gradient, groups):
    """Set ``||g_k||^2``, and the norms of empty groups after the step; return whether others move.

    ``values[k, rows[a], columns[b]]`` are kernel values among the tokens with a gradient,
    ``moving`` (m,).
    """
    m = moving.shape[0]
    square_gradients = groups.square_gradients
    square_gradients[:] = 0.0
    for a in range(m):
        for b in range(m):
            agreement = 0.0
            for j in range(gradient.shape[1]):
                agreement += gradient[moving[a], j] * gradient[moving[b], j]
            for k in range(values.shape[0]):
                square_gradients[k] += agreement * values[k, rows[a], columns[b]]
    others_move = False
    for k in range(values.shape[0]):
        if groups.empty[k]:
            rate = groups.rates[k]
            groups.square_norms[k] = rate * rate * square_gradients[k]
        else:
            others_move = m > 0
    return others_move


@borrowing
def advance_norm(groups, k, product):
    """Set the norm after the step, given the product of a group's potentials with the gradient."""
    rate = groups.rates[k]
    square = rate * rate * groups.square_gradients[k]
    groups.square_norms[k] += square - 2.0 * rate * product


@compiled(counting=False)
def advance_norms(potentials, moving, gradient, groups):
    """Set the norms of groups that are not empty after the step."""
    for k in range(potentials.shape[0]):
        if groups.empty[k]:
            continue
        product = 0.0
        for a in range(moving.shape[0]):
            i = moving[a]
            for j in range(gradient.shape[1]):
                product += gradient[i, j] * potentials[k, i, j]
        advance_norm(groups, k, product)
