"""Loops over sparse explicit features, with one row of label weights per feature, and over small dense tables.

Nonzero rows are linked into a list per group (``heads``, ``links``). So to empty a group or fold its scale costs O(rows
touched), not O(dimension). Transitions are (positions, K, K); position ``t`` uses row ``min(t, positions - 1)``.

In dense feature maps, group ``k`` has the columns ``starts[k] .. starts[k + 1]``, and each label is a row of the table.
Nonzero rows are marked in ``touched``. The features of the tokens begin at row ``first``. In a compiled pass without
feature maps, their arrays are None.
"""

import numpy as np

from omkl._compilation import compiled, inner

UNTOUCHED = -2
END = -1


@compiled
def add_scores(features, low, high, table, groups, scales, unary):
    """``unary[i, :] += sum_f x_if s_group(f) v[f, :]`` for the tokens ``low .. high - 1``."""
    n_labels = unary.shape[1]
    starts, ids, values = features
    for i in range(low, high):
        for q in range(starts[i], starts[i + 1]):
            feature = ids[q]
            scale = scales[groups[feature]]
            if scale != 0.0:
                amount = scale * values[q]
                for j in range(n_labels):
                    unary[i - low, j] += amount * table[feature, j]


@compiled
def add_averaged_scores(features, low, high, table, sums, groups, factors, total, left_out, unary):
    """Add the scores of the average ``(a_group(f) v[f, :] + u[f, :]) / total``, or without ``u`` if the total is 0."""
    starts, ids, values = features
    for i in range(low, high):
        for q in range(starts[i], starts[i + 1]):
            feature = ids[q]
            group = groups[feature]
            for j in range(0 if left_out[group] else unary.shape[1]):
                weight = factors[group] * table[feature, j]
                if total > 0.0:
                    weight = (weight + sums[feature, j]) / total
                unary[i - low, j] += values[q] * weight


@compiled
def inner_products(features, low, gradient, table, groups, products, totals):
    """``products[k] = sum_i <v_k-potentials of token i, D[i]>``; add the potentials to ``totals[k]``."""
    starts, ids, values = features
    for i in range(gradient.shape[0]):
        for q in range(starts[low + i], starts[low + i + 1]):
            group = groups[ids[q]]
            for j in range(gradient.shape[1]):
                potential = values[q] * table[ids[q], j]
                products[group] += potential * gradient[i, j]
                totals[group, j] += potential


@compiled
def step_features(features, low, gradient, table, sums, groups, links, heads, step):
    """``v[f, :] -= rate_group(f) x_if D[i, :]``; update norms and averages; only labels with a gradient change.

    The norm of the gradient follows from ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``, which is valid even if
    tokens share features.
    """
    n, n_labels = gradient.shape
    starts, ids, values = features
    (rates, averages, _, square_norms, square_gradients), averaging = step, sums.shape[0] > 0
    for k in range(rates.shape[0]):
        square_gradients[k] = 0.0
    moving = np.empty((n, n_labels + 1), np.int64)  # labels of each token with a gradient; in the last column how many
    for i in range(n):
        count = 0
        for j in range(n_labels):
            if gradient[i, j] != 0.0:
                moving[i, count] = j
                count += 1
        moving[i, n_labels] = count
        # add up the features of a group before writing to the array: writes to the same entry wait for each other
        inner, end = 0.0, starts[low + i + 1]
        for q in range(starts[low + i] if count else end, end):
            total, group = 0.0, groups[ids[q]]
            for m in range(count):
                total += table[ids[q], moving[i, m]] * gradient[i, moving[i, m]]
            inner += values[q] * total
            if q + 1 == end or groups[ids[q + 1]] != group:
                square_gradients[group] += 2.0 * rates[group] * inner
                inner = 0.0
    for i in range(n):
        count, moved, end = moving[i, n_labels], 0.0, starts[low + i + 1]
        for q in range(starts[low + i] if count else end, end):
            feature = ids[q]
            group = groups[feature]
            if links[feature] == UNTOUCHED:
                links[feature] = heads[group]
                heads[group] = feature
            amount, average = rates[group] * values[q], averages[group]
            for m in range(count):
                j = moving[i, m]
                change = -amount * gradient[i, j]
                moved += change * (2.0 * table[feature, j] + change)
                table[feature, j] += change
                if averaging:
                    sums[feature, j] -= average * change
            if q + 1 == end or groups[ids[q + 1]] != group:
                square_norms[group] += moved
                square_gradients[group] += moved
                moved = 0.0
    for k in range(rates.shape[0]):
        square_gradients[k] = max(square_gradients[k], 0.0) / rates[k] ** 2


@compiled
def scale_group(group, factor, table, sums, links, heads, average):
    """Multiply the touched rows of a group, after adding their share of the average to its sums.

    A factor of 0 empties the group: its rows then read as zero.
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
    """Build the lists of touched rows from the table."""
    links[:] = UNTOUCHED
    heads[:] = END
    for feature in range(table.shape[0]):
        for j in range(table.shape[1]):
            if table[feature, j] != 0.0:
                links[feature] = heads[groups[feature]]
                heads[groups[feature]] = feature
                break


@compiled
def add_transitions(table, scale, offsets, low, high, pairwise):
    """Add ``scale * table`` to ``pairwise``, which has a matrix for each token except the last."""
    first = np.searchsorted(offsets, low, side="right") - 1
    for s in range(first, offsets.shape[0] - 1):
        if offsets[s] >= high:
            break
        for t in range(max(offsets[s], low), min(offsets[s + 1] - 1, high - 1)):
            position = min(t - offsets[s], table.shape[0] - 1)
            for i in range(table.shape[1]):
                for j in range(table.shape[2]):
                    pairwise[t - low, i, j] += scale * table[position, i, j]


@inner
def add_constants(table, scale, out):
    """Add the rows of ``scale * table[0]``, the last of which all further rows of ``out`` share."""
    for i in range(out.shape[0]):
        row = min(i, table.shape[1] - 1)
        for j in range(out.shape[1]):
            out[i, j] += scale * table[0, row, j]


@compiled
def step_dense(gradient, table, sums, step):
    """``v -= rate g``; gradient matrices from ``len(table) - 1`` on share the last matrix of the table."""
    rates, averages, _, square_norms, square_gradients = step
    rate, average, averaging = rates[0], averages[0], sums.shape[0] > 0
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
    square_norms[0] += moved
    square_gradients[0] = max(moved + 2.0 * rate * inner, 0.0) / rate**2


@compiled
def add_mapped_scores(features, first, starts, table, sums, factors, total, left_out, unary):
    """Add the scores of the average ``(a_k v_kj + u_kj) / total``, or of ``a_k v_kj`` if the total is 0."""
    if table is None:
        return
    for k in range(starts.shape[0] - 1):
        own, skipped = slice(starts[k], starts[k + 1]), left_out[k] or (factors[k] == 0.0 and total == 0.0)
        for j in range(0 if skipped else unary.shape[1]):
            weights = table[j][own]
            for i in range(unary.shape[0]):
                score = factors[k] * np.dot(weights, features[first + i][own])
                if total > 0.0:
                    score = (score + np.dot(sums[j][own], features[first + i][own])) / total
                unary[i, j] += score


@compiled
def mapped_inner_products(features, first, starts, table, gradient, products, totals):
    """``products[k] = sum_i <v_k-potentials of token i, D[i]>``; add the potentials to ``totals[k]``."""
    if table is None:
        return
    for k in range(starts.shape[0] - 1):
        for j in range(gradient.shape[1]):
            weights = table[j][starts[k] : starts[k + 1]]
            for i in range(gradient.shape[0]):
                potential = np.dot(weights, features[first + i][starts[k] : starts[k + 1]])
                products[k] += potential * gradient[i, j]
                totals[k, j] += potential


@compiled
def step_maps(features, first, starts, gradient, table, sums, touched, step):
    """``v_kj -= rate_k g_kj`` with ``g_kj = sum_i D_ij z_ik``, for labels with a gradient; update norms and averages.

    Norms follow ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``.
    """
    if table is None:
        return
    n, n_labels = gradient.shape
    (rates, averages, _, square_norms, square_gradients), averaging = step, sums.shape[0] > 0
    square_gradients[:] = 0.0
    whole = np.empty(table.shape[1])
    for j in range(n_labels):
        moves = False
        for i in range(n):
            amount = gradient[i, j]
            if amount == 0.0:
                continue
            row = features[first + i]
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
def scale_map(group, factor, starts, table, sums, touched, average):
    """Multiply the touched rows of a group, after adding their share of the average to its sums.

    A factor of 0 empties the group: its rows then read as zero.
    """
    if table is None:
        return
    for j in range(table.shape[0]):
        if not touched[group, j]:
            continue
        for f in range(starts[group], starts[group + 1]):
            if sums.shape[0] > 0:
                sums[j, f] += average * table[j, f]
            table[j, f] *= factor
        touched[group, j] = factor != 0.0


@compiled
def shrink_features(limits, averages, table, sums, groups, square_norms):
    """Reduce the magnitude of the weights of each group by its limit, down to 0; update norms and averages.

    Rows are visited in their order, so that a resumed run adds the same numbers in the same order.
    """
    averaging = sums.shape[0] > 0
    square_norms[:] = 0.0
    for feature in range(groups.shape[0]):
        group = groups[feature]
        for j in range(table.shape[1]):
            weight = table[feature, j]
            if weight == 0.0:
                continue
            excess = abs(weight) - limits[group]
            moved = 0.0 if excess <= 0.0 else (excess if weight > 0.0 else -excess)
            if averaging:
                sums[feature, j] -= averages[group] * (moved - weight)
            table[feature, j] = moved
            square_norms[group] += moved * moved


@compiled
def add_pairs(own, scale, index, pairwise):
    """``pairwise[e, a, b] += scale * own[e, index[a, b]]``; a single row of ``own`` is shared by all edges."""
    for e in range(pairwise.shape[0]):
        row = own[e if own.shape[0] > 1 else 0]
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] >= 0:
                    pairwise[e, a, b] += scale * row[index[a, b]]


@compiled
def sum_pairs(gradient, index, sums):
    """``sums[e, index[a, b]] += gradient[e, a, b]``."""
    for e in range(gradient.shape[0]):
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] >= 0:
                    sums[e, index[a, b]] += gradient[e, a, b]
