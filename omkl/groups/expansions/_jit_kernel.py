"""Cached potentials of kernel groups over a finite training set: ``F[k] = (K_k A_k)'``, updated with every change.

``F`` is (p, K, N), so that a change of a coefficient is one axpy of a contiguous Gram row onto a contiguous row of
``F``.
"""

import numpy as np

from omkl._compilation import compiled


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


@compiled
def add_scaled(scales, own, unary):
    """``unary += sum_k s_k own_k``."""
    for k in range(own.shape[0]):
        if scales[k] != 0.0:
            for t in range(unary.shape[0]):
                for j in range(unary.shape[1]):
                    unary[t, j] += scales[k] * own[k, t, j]


@compiled
def kernel_inner_products(own, gradient, products, totals):
    """``products[k] = <own_k, D>`` for potentials (p, n, K); add them, summed over tokens, to ``totals[k]``."""
    for k in range(own.shape[0]):
        for t in range(gradient.shape[0]):
            for j in range(gradient.shape[1]):
                products[k] += own[k, t, j] * gradient[t, j]
                totals[k, j] += own[k, t, j]


@compiled
def measure(among, own, moving, gradient, step, alone):
    """Set ``||g_k||^2`` and the norms after the step, only of empty groups if ``alone``; return whether others move.

    ``among`` (p, m, m) are kernel values among tokens with a gradient, ``own`` (p, n, K) potentials of all tokens.
    """
    rates, _, empty, square_norms, square_gradients = step
    m, alive = moving.shape[0], False
    square_gradients[:] = 0.0
    for a in range(m):
        for b in range(m):
            agreement = 0.0
            for j in range(gradient.shape[1]):
                agreement += gradient[moving[a], j] * gradient[moving[b], j]
            for k in range(among.shape[0]):
                square_gradients[k] += agreement * among[k, a, b]
    for k in range(among.shape[0]):
        square = rates[k] * rates[k] * square_gradients[k]
        if empty[k]:
            square_norms[k] = square
        else:
            alive = m > 0
            if alone:
                continue
            product = 0.0
            for i in moving:
                for j in range(gradient.shape[1]):
                    product += gradient[i, j] * own[k, i, j]
            square_norms[k] += square - 2.0 * rates[k] * product
    return alive


@compiled
def move(grams, rows, tokens, D, groups, cached, coefficients, sums, rates, averages):
    """Take the step in the groups of a mask: coefficients, running sums, and potentials of all tokens.

    ``tokens`` (m,) are the tokens with a gradient, ``D`` (m, K), and ``grams[k, rows[i]]`` their Gram rows.
    """
    n_tokens, averaging = cached.shape[2], sums.shape[1] > 0
    chosen, amounts = np.empty(rows.shape[0], np.int64), np.empty(rows.shape[0], cached.dtype)
    for k in range(cached.shape[0]):
        if not groups[k]:
            continue
        for j in range(D.shape[1]):
            count = 0
            for i in range(rows.shape[0]):
                change = rates[k] * D[i, j]
                if change != 0.0:
                    chosen[count], amounts[count] = rows[i], -change
                    count += 1
                    coefficients[k, tokens[i], j] -= change
                    if averaging:
                        sums[k, tokens[i], j] += averages[k] * change
            target = cached[k, j]
            # four Gram rows at a time, so that the target is read and written once for all four
            q = 0
            while q + 4 <= count:
                c0, c1, c2, c3 = amounts[q], amounts[q + 1], amounts[q + 2], amounts[q + 3]
                g0, g1 = grams[k, chosen[q]], grams[k, chosen[q + 1]]
                g2, g3 = grams[k, chosen[q + 2]], grams[k, chosen[q + 3]]
                for t in range(n_tokens):
                    target[t] += (c0 * g0[t] + c1 * g1[t]) + (c2 * g2[t] + c3 * g3[t])
                q += 4
            while q < count:
                g = grams[k, chosen[q]]
                for t in range(n_tokens):
                    target[t] += amounts[q] * g[t]
                q += 1
