"""Loops over dense features: group ``k`` has the columns ``starts[k] .. starts[k + 1]``, each label a row of the table.

Rows of labels that are not zero are marked (``touched``), so that a group that dies or whose scale is folded costs
these rows, not all labels.
"""

import numpy as np

from omkl._compilation import compiled


@compiled
def add_scores(features, starts, table, scales, unary):
    """``unary[i, j] += sum_k s_k <v_kj, z_ik>``."""
    n, n_labels = unary.shape
    for k in range(scales.shape[0]):
        scale = scales[k]
        if scale == 0.0:
            continue
        for j in range(n_labels):
            weights = table[j][starts[k] : starts[k + 1]]
            for i in range(n):
                unary[i, j] += scale * np.dot(weights, features[i][starts[k] : starts[k + 1]])


@compiled
def step(features, starts, gradient, table, sums, touched, arrays):
    """``v_kj -= rate_k g_kj`` with ``g_kj = sum_i D_ij z_ik``, norms and averages with it; only labels with a gradient.

    Norms follow ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``.
    """
    n, n_labels = gradient.shape
    rates, averages, averaging = arrays.rates, arrays.averages, sums.shape[0] > 0
    square_norms, square_gradients = arrays.square_norms, arrays.square_gradients
    square_gradients[:] = 0.0
    whole = np.empty(table.shape[1])
    for j in range(n_labels):
        moves = False
        for i in range(n):
            amount = gradient[i, j]
            if amount == 0.0:
                continue
            row = features[i]
            if moves:
                for f in range(whole.shape[0]):
                    whole[f] += amount * row[f]
            else:
                for f in range(whole.shape[0]):
                    whole[f] = amount * row[f]
            moves = True
        if not moves:
            continue
        for k in range(rates.shape[0]):
            rate = rates[k]
            direction = whole[starts[k] : starts[k + 1]]
            weights = table[j][starts[k] : starts[k + 1]]
            square = np.dot(direction, direction)
            square_gradients[k] += square
            square_norms[k] += rate * (rate * square - 2.0 * np.dot(weights, direction))
            for f in range(weights.shape[0]):
                weights[f] -= rate * direction[f]
            if averaging and averages[k] != 0.0:
                shift = averages[k] * rate
                total = sums[j][starts[k] : starts[k + 1]]
                for f in range(total.shape[0]):
                    total[f] += shift * direction[f]
            touched[k, j] = True


@compiled
def scale_group(group, factor, starts, table, sums, touched, average):
    """Multiply the touched rows of a group, after what they gave to the average is added to its sums.

    A factor of 0 empties the group: its rows are zero from now on.
    """
    for j in range(table.shape[0]):
        if not touched[group, j]:
            continue
        for f in range(starts[group], starts[group + 1]):
            if sums.shape[0] > 0:
                sums[j, f] += average * table[j, f]
            table[j, f] *= factor
        touched[group, j] = factor != 0.0
