"""Loops over sparse explicit features, with one row of label weights per feature.

Nonzero rows are linked into a list per group (``heads``, ``links``). So to empty a group or fold
its scale costs O(rows touched), not O(dimension). Tables are of float64 or float32: each loop
stands once, and has a compiled function for each of both, with the signatures of
:mod:`omkl.signatures`.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl._compilation import borrowing, compiled
from omkl._pointers import ADDRESS, INDICES, INTEGERS, MATRIX, VECTOR, Layout
from omkl.groups._jit_group_state import bank_groups_at

#: Links of rows that are zero, and of the last row of a list.
UNTOUCHED = -2
END = -1


class Weights(NamedTuple):
    """A table of label weights (number of features, K) with its running sums, and lists of rows.

    ``group_of`` has the group of each feature; ``heads`` the first nonzero row of each group, and
    ``links`` the next one after each row.
    """

    group_of: np.ndarray
    table: np.ndarray
    sums: np.ndarray
    links: np.ndarray
    heads: np.ndarray
    #: Address of the arrays of the groups.
    groups: int


class FeaturesOfTokens(NamedTuple):
    """Features of tokens as CSR, see :class:`omkl.groups.tokens.Features`."""

    starts: np.ndarray
    ids: np.ndarray
    values: np.ndarray


def _layout_of(table: types.Array) -> Layout:
    return Layout(
        Weights,
        group_of=INDICES,
        table=table,
        sums=table,
        links=INDICES,
        heads=INDICES,
        groups=ADDRESS,
    )


WEIGHTS = _layout_of(MATRIX)
WEIGHTS_32 = _layout_of(types.float32[:, ::1])
FEATURES = Layout(FeaturesOfTokens, starts=INTEGERS, ids=INDICES, values=VECTOR)
weights_at = WEIGHTS.at
weights_32_at = WEIGHTS_32.at
features_at = FEATURES.at


@compiled
def point_to(block, starts, ids, values):
    """Write the entries of :data:`FEATURES` for these arrays to ``block`` (6,).

    ``Layout.pack`` does the same, in the time of some rounds on one row.
    """
    block[0], block[1] = starts.ctypes.data, len(starts)
    block[2], block[3] = ids.ctypes.data, len(ids)
    block[4], block[5] = values.ctypes.data, len(values)


@borrowing
def features_of(features, token):
    """Return the ids and the values of a token's features."""
    start = features.starts[token]
    end = features.starts[token + 1]
    return features.ids[start:end], features.values[start:end]


@borrowing
def index(number):
    """Return an id or a group as an index, which is not checked for negative numbers."""
    return np.uint64(number)


@borrowing
def add_weighted(weights, features, at, unary):
    """``unary[i, :] += sum_f x_if s_group(f) v[f, :]`` (n, K) for the tokens from ``at`` on."""
    scales = bank_groups_at(weights.groups).scales
    table = weights.table
    group_of = weights.group_of
    for i in range(unary.shape[0]):
        ids, values = features_of(features, at + i)
        potentials = unary[i]
        if len(potentials) == 1:  # in a register, since each write to the array waits for the last
            total = potentials[0]
            for q in range(len(ids)):
                feature = index(ids[q])
                scale = scales[index(group_of[feature])]
                total += scale * values[q] * table[feature, 0]
            potentials[0] = total
            continue
        for q in range(len(ids)):
            feature = index(ids[q])
            scale = scales[index(group_of[feature])]
            if scale != 0.0:
                amount = scale * values[q]
                for j in range(len(potentials)):
                    potentials[j] += amount * table[feature, j]


@borrowing
def add_averaged(weights, features, at, factors, total, unary):
    """Add the scores of the average ``(a_group(f) v[f, :] + u[f, :]) / total`` to ``unary`` (n, K).

    If the total is 0, they are those of ``a_group(f) v[f, :]``.
    """
    left_out = bank_groups_at(weights.groups).left_out
    averaging = weights.sums.shape[0] > 0
    for i in range(unary.shape[0]):
        for q in range(features.starts[at + i], features.starts[at + i + 1]):
            feature = features.ids[q]
            group = weights.group_of[feature]
            if left_out[group]:
                continue
            for j in range(unary.shape[1]):
                weight = factors[group] * weights.table[feature, j]
                if total > 0.0 and averaging:
                    weight = (weight + weights.sums[feature, j]) / total
                unary[i, j] += features.values[q] * weight


@borrowing
def add_inner_products(weights, features, at, gradient, slopes, totals):
    """``slopes[k] += sum_i <v_k-potentials of token i, D[i]>``; add potentials to ``totals[k]``."""
    for i in range(gradient.shape[0]):
        for q in range(features.starts[at + i], features.starts[at + i + 1]):
            group = weights.group_of[features.ids[q]]
            for j in range(gradient.shape[1]):
                potential = features.values[q] * weights.table[features.ids[q], j]
                slopes[group] += potential * gradient[i, j]
                totals[group, j] += potential


@borrowing
def list_moving(gradient, moving):
    """Write the labels of each token with a gradient, and how many: ``moving`` (n, K + 1)."""
    for i in range(gradient.shape[0]):
        count = 0
        for j in range(gradient.shape[1]):
            if gradient[i, j] != 0.0:
                moving[i, count] = j
                count += 1
        moving[i, gradient.shape[1]] = count


@borrowing
def add_products(weights, features, at, gradient, moving, groups):
    """Add ``2 r <v, g>`` of each token to the squared gradients of its groups, before the step.

    ``moving`` is written by :func:`list_moving`. Features of a group are added up before they are
    written to the array, since writes to the same entry wait for each other.
    """
    table = weights.table
    group_of = weights.group_of
    for i in range(gradient.shape[0]):
        count = moving[i, gradient.shape[1]]
        if count == 0:
            continue
        ids, values = features_of(features, at + i)
        first = index(moving[i, 0])
        product = 0.0
        for q in range(len(ids)):
            feature = index(ids[q])
            group = index(group_of[feature])
            total = table[feature, first] * gradient[i, first]
            for m in range(1, count):
                j = index(moving[i, m])
                total += table[feature, j] * gradient[i, j]
            product += values[q] * total
            if q + 1 == len(ids) or index(group_of[index(ids[q + 1])]) != group:
                groups.square_gradients[group] += 2.0 * groups.rates[group] * product
                product = 0.0


@borrowing
def move_weight(weights, feature, label, change, average):
    """Add a change to a weight, and to the running sums; return the change of its square."""
    table = weights.table
    weight = table[feature, label]
    table[feature, label] = weight + change
    if weights.sums.shape[0] > 0:
        weights.sums[feature, label] -= average * change
    return change * (2.0 * weight + change)


@borrowing
def move_rows(weights, features, at, gradient, moving, groups):
    """Step along the gradient of each token, see :func:`add_products`; update norms, averages."""
    group_of = weights.group_of
    for i in range(gradient.shape[0]):
        count = moving[i, gradient.shape[1]]
        if count == 0:
            continue
        ids, values = features_of(features, at + i)
        first = index(moving[i, 0])
        moved = 0.0
        for q in range(len(ids)):
            feature = index(ids[q])
            group = index(group_of[feature])
            if weights.links[feature] == UNTOUCHED:
                weights.links[feature] = weights.heads[group]
                weights.heads[group] = feature
            amount = groups.rates[group] * values[q]
            average = groups.averages[group]
            moved += move_weight(weights, feature, first, -amount * gradient[i, first], average)
            for m in range(1, count):
                j = index(moving[i, m])
                moved += move_weight(weights, feature, j, -amount * gradient[i, j], average)
            if q + 1 == len(ids) or index(group_of[index(ids[q + 1])]) != group:
                groups.square_norms[group] += moved
                groups.square_gradients[group] += moved
                moved = 0.0


@borrowing
def take_step(weights, features, at, gradient, moving):
    """``v[f, :] -= rate_group(f) x_if D[i, :]``; update norms and averages.

    Only labels with a gradient change; they are written to ``moving`` (n, K + 1). The norm of the
    gradient follows from ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``, which is valid
    even if tokens share features.
    """
    groups = bank_groups_at(weights.groups)
    groups.square_gradients[:] = 0.0
    list_moving(gradient, moving)
    add_products(weights, features, at, gradient, moving, groups)
    move_rows(weights, features, at, gradient, moving, groups)
    for k in range(groups.rates.shape[0]):
        groups.square_gradients[k] = max(groups.square_gradients[k], 0.0) / groups.rates[k] ** 2


@borrowing
def fold_group(weights, group, factor):
    """Multiply the touched rows of a group, after adding their share of the average to its sums.

    A factor of 0 empties the group: its rows then read as zero.
    """
    average = bank_groups_at(weights.groups).averages[group]
    table = weights.table
    sums = weights.sums
    feature = weights.heads[group]
    while feature != END:
        for j in range(table.shape[1]):
            if sums.shape[0] > 0:
                sums[feature, j] += average * table[feature, j]
            table[feature, j] *= factor
        following = weights.links[feature]
        if factor == 0.0:
            weights.links[feature] = UNTOUCHED
        feature = following
    if factor == 0.0:
        weights.heads[group] = END


@compiled
def link_rows(table, groups, links, heads):
    """Build the lists of touched rows from the table (number of features, K).

    ``groups`` has the group of each feature. Writes to ``links`` and ``heads``, see
    :class:`Weights`.
    """
    links[:] = UNTOUCHED
    heads[:] = END
    for feature in range(table.shape[0]):
        for j in range(table.shape[1]):
            if table[feature, j] != 0.0:
                links[feature] = heads[groups[feature]]
                heads[groups[feature]] = feature
                break


@compiled
def shrink_features(limits, averages, table, sums, groups, square_norms):
    """Reduce the magnitude of the weights of each group by its limit, down to 0.

    Update norms and averages. Rows are visited in their order, so that a resumed run adds the same
    numbers in the same order.
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
            moved = 0.0
            if excess > 0.0:
                moved = excess if weight > 0.0 else -excess
            if averaging:
                sums[feature, j] -= averages[group] * (moved - weight)
            table[feature, j] = moved
            square_norms[group] += moved * moved


# ---- tables of float64 ---------------------------------------------------------------------------


@compiled(counting=False)
def scores(bank, x, at, unary, pairwise):
    """See :func:`add_weighted`."""
    add_weighted(weights_at(bank), features_at(x), at, unary)


@compiled(counting=False)
def average(bank, x, at, factors, total, unary, pairwise):
    """See :func:`add_averaged`."""
    add_averaged(weights_at(bank), features_at(x), at, factors, total, unary)


@compiled
def step(bank, x, at, gradient, pair_gradient, postponed):
    """See :func:`take_step`; groups at zero take their steps at once, so none is postponed."""
    if not postponed:
        moving = np.empty((gradient.shape[0], gradient.shape[1] + 1), np.int64)
        take_step(weights_at(bank), features_at(x), at, gradient, moving)


@compiled(counting=False)
def fold(bank, group, factor):
    """See :func:`fold_group`."""
    fold_group(weights_at(bank), group, factor)


@compiled(counting=False)
def slopes(bank, x, at, gradient, pair_gradient, slopes, totals):
    """See :func:`add_inner_products`."""
    add_inner_products(weights_at(bank), features_at(x), at, gradient, slopes, totals)


# ---- tables of float32 ---------------------------------------------------------------------------


@compiled(counting=False)
def scores_32(bank, x, at, unary, pairwise):
    """See :func:`add_weighted`."""
    add_weighted(weights_32_at(bank), features_at(x), at, unary)


@compiled(counting=False)
def average_32(bank, x, at, factors, total, unary, pairwise):
    """See :func:`add_averaged`."""
    add_averaged(weights_32_at(bank), features_at(x), at, factors, total, unary)


@compiled
def step_32(bank, x, at, gradient, pair_gradient, postponed):
    """See :func:`take_step`; groups at zero take their steps at once, so none is postponed."""
    if not postponed:
        moving = np.empty((gradient.shape[0], gradient.shape[1] + 1), np.int64)
        take_step(weights_32_at(bank), features_at(x), at, gradient, moving)


@compiled(counting=False)
def fold_32(bank, group, factor):
    """See :func:`fold_group`."""
    fold_group(weights_32_at(bank), group, factor)


@compiled(counting=False)
def slopes_32(bank, x, at, gradient, pair_gradient, slopes, totals):
    """See :func:`add_inner_products`."""
    add_inner_products(weights_32_at(bank), features_at(x), at, gradient, slopes, totals)
