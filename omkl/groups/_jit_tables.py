"""Loops over sparse explicit features, a table of one row of label weights a feature, and over small dense tables.

Rows that are not zero are linked into a list a group (``heads``, ``links``), so that a group that dies or whose scale
is folded costs its touched rows once, not its dimension. Transitions are (positions, K, K); position ``t`` uses row
``min(t, positions - 1)``.
"""

import numpy as np

from omkl._compilation import compiled

UNTOUCHED = -2
END = -1


@compiled
def add_scores(features, low, high, table, groups, scales, unary):
    """``unary[i, :] += sum_f x_if s_group(f) v[f, :]`` for the tokens ``low .. high - 1``."""
    n_labels = unary.shape[1]
    starts, ids, values = features
    for i in range(low, high):
        row = unary[i - low]
        for q in range(starts[i], starts[i + 1]):
            feature = ids[q]
            scale = scales[groups[feature]]
            if scale != 0.0:
                amount = scale * values[q]
                weights = table[feature]
                for j in range(n_labels):
                    row[j] += amount * weights[j]


@compiled
def inner_products(features, low, gradient, table, groups, products, totals):
    """``products[k] = sum_i <v_k-potentials of token i, D[i]>``; adds the potentials to ``totals[k]``."""
    starts, ids, values = features
    for i in range(gradient.shape[0]):
        for q in range(starts[low + i], starts[low + i + 1]):
            weights, group = table[ids[q]], groups[ids[q]]
            for j in range(gradient.shape[1]):
                potential = values[q] * weights[j]
                products[group] += potential * gradient[i, j]
                totals[group, j] += potential


@compiled
def step_features(features, low, gradient, table, sums, groups, links, heads, step):
    """``v[f, :] -= rate_group(f) x_if D[i, :]``, norms and averages with it; only labels with a gradient move.

    The norm of the gradient follows from ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``, which is right also
    where tokens share features.
    """
    n, n_labels = gradient.shape
    starts, ids, values = features
    rates, averages, averaging = step.rates, step.averages, sums.shape[0] > 0
    inner = np.zeros(rates.shape[0])
    moved = np.zeros(rates.shape[0])
    moving = np.empty((n, n_labels), np.int64)
    n_moving = np.zeros(n, np.int64)
    for i in range(n):
        for j in range(n_labels):
            if gradient[i, j] != 0.0:
                moving[i, n_moving[i]] = j
                n_moving[i] += 1
        if n_moving[i] > 0:
            for q in range(starts[low + i], starts[low + i + 1]):
                weights = table[ids[q]]
                total = 0.0
                for m in range(n_moving[i]):
                    total += weights[moving[i, m]] * gradient[i, moving[i, m]]
                inner[groups[ids[q]]] += values[q] * total
    for i in range(n):
        if n_moving[i] == 0:
            continue
        for q in range(starts[low + i], starts[low + i + 1]):
            feature = ids[q]
            group = groups[feature]
            if links[feature] == UNTOUCHED:
                links[feature] = heads[group]
                heads[group] = feature
            amount = rates[group] * values[q]
            weights = table[feature]
            for m in range(n_moving[i]):
                j = moving[i, m]
                change = -amount * gradient[i, j]
                moved[group] += change * (2.0 * weights[j] + change)
                weights[j] += change
                if averaging:
                    sums[feature, j] -= averages[group] * change
    for k in range(rates.shape[0]):
        step.square_norms[k] += moved[k]
        step.square_gradients[k] = max(moved[k] + 2.0 * rates[k] * inner[k], 0.0) / rates[k] ** 2


@compiled
def scale_group(group, factor, table, sums, links, heads, average):
    """Multiply the touched rows of a group, after what they gave to the average is added to its sums.

    A factor of 0 empties the group: its rows read as zero from now on.
    """
    feature = heads[group]
    while feature != END:
        if sums.shape[0] > 0:
            for j in range(table.shape[1]):
                sums[feature, j] += average * table[feature, j]
        for j in range(table.shape[1]):
            table[feature, j] *= factor
        following = links[feature]
        if factor == 0.0:
            links[feature] = UNTOUCHED
        feature = following
    if factor == 0.0:
        heads[group] = END


@compiled
def link_rows(table, groups, links, heads):
    """Build the lists of touched rows from the table itself."""
    links[:] = UNTOUCHED
    heads[:] = END
    for feature in range(table.shape[0]):
        for j in range(table.shape[1]):
            if table[feature, j] != 0.0:
                links[feature] = heads[groups[feature]]
                heads[groups[feature]] = feature
                break


@compiled
def squared_norms(table, groups, out):
    """Sum of squares of each group, from scratch."""
    out[:] = 0.0
    for feature in range(groups.shape[0]):
        for j in range(table.shape[1]):
            out[groups[feature]] += table[feature, j] * table[feature, j]


@compiled
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


@compiled
def add_constants(table, scale, unary):
    """Add ``scale * table[0, 0]`` to every row of ``unary``."""
    for i in range(unary.shape[0]):
        for j in range(unary.shape[1]):
            unary[i, j] += scale * table[0, 0, j]


@compiled
def step_dense(gradient, table, sums, step):
    """``v -= rate g``; gradient matrices from ``len(table) - 1`` on share the last one of the table."""
    rate, average, averaging = step.rates[0], step.averages[0], sums.shape[0] > 0
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
                    change = -rate * gradient[t, i, j]
                    moved += change * (2.0 * table[position, i, j] + change)
                    table[position, i, j] += change
                    if averaging:
                        sums[position, i, j] -= average * change
    step.square_norms[0] += moved
    step.square_gradients[0] = max(moved + 2.0 * rate * inner, 0.0) / rate**2
