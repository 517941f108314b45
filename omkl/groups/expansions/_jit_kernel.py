"""Cached potentials of kernel groups over a finite training set: ``F[k] = (K_k A_k)'``, kept current.

``F`` is (p, K, N), so that a coefficient that moves is one axpy of a contiguous Gram row onto a contiguous row of
``F``. A token's Gram row is ``grams[k, rows[i]]``; ``rows[i]`` is meant only where token ``i`` has a gradient.
"""

import numpy as np

from omkl._compilation import compiled


@compiled
def add_scores(cached, scales, low, high, unary):
    """``unary += sum_k s_k F_k`` at the tokens ``low .. high - 1``."""
    for k in range(cached.shape[0]):
        scale = scales[k]
        if scale != 0.0:
            for j in range(cached.shape[1]):
                column = cached[k, j]
                for i in range(low, high):
                    unary[i - low, j] += scale * column[i]


@compiled
def has_gradient(gradient):
    """Indices of the tokens whose gradient is not zero."""
    moving = np.empty(gradient.shape[0], np.int64)
    n_moving = 0
    for i in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            if gradient[i, j] != 0.0:
                moving[n_moving] = i
                n_moving += 1
                break
    return moving[:n_moving]


@compiled
def inner_product(gradient, moving, cached, low):
    """``<D, F>`` over the moving tokens, the group's own potentials times the gradient."""
    total = 0.0
    for i in moving:
        for j in range(gradient.shape[1]):
            if gradient[i, j] != 0.0:
                total += gradient[i, j] * cached[j, low + i]
    return total


@compiled
def move_coefficients(gradient, moving, low, rate, coefficients, sums, averaging, average):
    """``A[x, :] -= rate D`` and the running sums of the average with it."""
    for i in moving:
        for j in range(gradient.shape[1]):
            change = rate * gradient[i, j]
            if change != 0.0:
                coefficients[low + i, j] -= change
                if averaging:
                    sums[low + i, j] += average * change


@compiled
def move(
    grams,
    rows,
    moving,
    low,
    gradient,
    cached,
    coefficients,
    sums,
    averaging,
    skip,
    rates,
    averages,
    square_norms,
    square_gradients,
):
    """Take the step in every group that is not skipped: coefficients, potentials of all tokens, exact norms.

    ``||v - r g||^2 - ||v||^2 = -r (<D, F> + <D, F'>)`` and ``r ||g||^2 = <D, F> - <D, F'>`` with the group's
    potentials before and after the move: no kernel value is needed beside those that the move reads anyway.
    """
    n_tokens = cached.shape[2]
    chosen = np.empty(moving.shape[0], np.int64)
    for k in range(cached.shape[0]):
        if skip[k]:
            continue
        rate = rates[k]
        before = inner_product(gradient, moving, cached[k], low)
        move_coefficients(gradient, moving, low, rate, coefficients[k], sums[k], averaging, averages[k])
        for j in range(gradient.shape[1]):
            count = 0
            for i in moving:
                if gradient[i, j] != 0.0:
                    chosen[count] = i
                    count += 1
            target = cached[k, j]
            # four Gram rows at a time: the target is read and written once for them
            q = 0
            while q + 4 <= count:
                i0, i1, i2, i3 = chosen[q], chosen[q + 1], chosen[q + 2], chosen[q + 3]
                c0 = cached.dtype.type(-rate * gradient[i0, j])
                c1 = cached.dtype.type(-rate * gradient[i1, j])
                c2 = cached.dtype.type(-rate * gradient[i2, j])
                c3 = cached.dtype.type(-rate * gradient[i3, j])
                g0, g1, g2, g3 = grams[k, rows[i0]], grams[k, rows[i1]], grams[k, rows[i2]], grams[k, rows[i3]]
                for t in range(n_tokens):
                    target[t] += (c0 * g0[t] + c1 * g1[t]) + (c2 * g2[t] + c3 * g3[t])
                q += 4
            while q < count:
                c = cached.dtype.type(-rate * gradient[chosen[q], j])
                g = grams[k, rows[chosen[q]]]
                for t in range(n_tokens):
                    target[t] += c * g[t]
                q += 1
        after = inner_product(gradient, moving, cached[k], low)
        square_norms[k] -= rate * (before + after)
        square_gradients[k] = max(before - after, 0.0) / rate


@compiled
def move_sparse(
    starts,
    columns,
    values,
    moving,
    low,
    gradient,
    cached,
    coefficients,
    sums,
    averaging,
    rates,
    averages,
    square_norms,
    square_gradients,
):
    """:func:`move` for one group whose Gram matrix is CSR."""
    rate = rates[0]
    before = inner_product(gradient, moving, cached[0], low)
    move_coefficients(gradient, moving, low, rate, coefficients[0], sums[0], averaging, averages[0])
    for i in moving:
        for j in range(gradient.shape[1]):
            if gradient[i, j] != 0.0:
                c = cached.dtype.type(-rate * gradient[i, j])
                target = cached[0, j]
                for q in range(starts[low + i], starts[low + i + 1]):
                    target[columns[q]] += c * values[q]
    after = inner_product(gradient, moving, cached[0], low)
    square_norms[0] -= rate * (before + after)
    square_gradients[0] = max(before - after, 0.0) / rate


@compiled
def gradient_norm(gram, gradient, moving):
    """``tr(D' K(x, x) D)`` with ``gram`` the kernel values among the moving tokens."""
    total = 0.0
    for a in range(moving.shape[0]):
        for b in range(moving.shape[0]):
            agreement = 0.0
            for j in range(gradient.shape[1]):
                agreement += gradient[moving[a], j] * gradient[moving[b], j]
            total += agreement * gram[a, b]
    return total


@compiled
def gradient_norms(grams, rows, moving, low, gradient, chosen, rates, square_norms, square_gradients):
    """For the chosen groups, whose ``v`` is zero: the norm of the gradient, and of ``v`` if it took the step."""
    among = np.empty((moving.shape[0], moving.shape[0]))
    for k in range(grams.shape[0]):
        if chosen[k]:
            for a in range(moving.shape[0]):
                for b in range(moving.shape[0]):
                    among[a, b] = grams[k, rows[moving[a]], low + moving[b]]
            square_gradients[k] = gradient_norm(among, gradient, moving)
            square_norms[k] = rates[k] ** 2 * square_gradients[k]
