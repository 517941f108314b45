"""Loops over dense feature maps, with one row of weights per label.

Signatures are those of :mod:`omkl.signatures`. Group ``k`` has the columns
``starts[k] : starts[k + 1]``. Nonzero rows of a group are marked in ``touched``, so to empty a
group or fold its scale costs nothing for the others.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl._compilation import borrowing, compiled
from omkl._pointers import ADDRESS, INTEGERS, MATRIX, Layout
from omkl.groups._jit_group_state import bank_groups_at, fold_weights


class Maps(NamedTuple):
    """A table of weights (K, D) with its running sums (K or 0, D), and marks of nonzero rows."""

    starts: np.ndarray
    table: np.ndarray
    sums: np.ndarray
    touched: np.ndarray
    #: Address of the arrays of the groups.
    groups: int


class MappedTokens(NamedTuple):
    """Features of tokens, all groups side by side, (n, D)."""

    features: np.ndarray


MAPS = Layout(
    Maps,
    starts=INTEGERS,
    table=MATRIX,
    sums=MATRIX,
    touched=types.boolean[:, ::1],
    groups=ADDRESS,
)
MAPPED_TOKENS = Layout(MappedTokens, features=MATRIX)
maps_at = MAPS.at
mapped_tokens_at = MAPPED_TOKENS.at


@borrowing
def add_averaged(maps, features, at, factors, total, left_out, unary):
    """Add the scores of the average ``(a_k v_kj + u_kj) / total``; of ``a_k v_kj`` if it is 0."""
    averaging = total > 0.0 and maps.sums.shape[0] > 0
    for k in range(maps.starts.shape[0] - 1):
        if left_out[k] or (factors[k] == 0.0 and total == 0.0):
            continue
        first = maps.starts[k]
        end = maps.starts[k + 1]
        for j in range(unary.shape[1]):
            weights = maps.table[j, first:end]
            for i in range(unary.shape[0]):
                row = features[at + i, first:end]
                score = factors[k] * np.dot(weights, row)
                if averaging:
                    score = (score + np.dot(maps.sums[j, first:end], row)) / total
                unary[i, j] += score


@compiled(counting=False)
def scores(bank, x, at, unary, pairwise):
    """Add the scores of the current model."""
    maps = maps_at(bank)
    groups = bank_groups_at(maps.groups)
    features = mapped_tokens_at(x).features
    add_averaged(maps, features, at, groups.scales, 0.0, groups.left_out, unary)


@compiled(counting=False)
def average(bank, x, at, factors, total, unary, pairwise):
    """See :func:`add_averaged`."""
    maps = maps_at(bank)
    left_out = bank_groups_at(maps.groups).left_out
    add_averaged(maps, mapped_tokens_at(x).features, at, factors, total, left_out, unary)


@compiled(counting=False)
def slopes(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add ``sum_i <v_k-potentials of token i, D[i]>`` to ``slopes``, potentials to ``totals``."""
    maps = maps_at(bank)
    features = mapped_tokens_at(x).features
    for k in range(maps.starts.shape[0] - 1):
        first = maps.starts[k]
        end = maps.starts[k + 1]
        for j in range(gradient.shape[1]):
            weights = maps.table[j, first:end]
            for i in range(gradient.shape[0]):
                potential = np.dot(weights, features[at + i, first:end])
                slopes[k] += potential * gradient[i, j]
                totals[k, j] += potential


@borrowing
def sum_gradient(features, at, gradient, j, direction):
    """Set ``direction = sum_i D_ij z_i``, (D,), for a label; return whether it has a gradient."""
    moves = False
    for i in range(gradient.shape[0]):
        amount = gradient[i, j]
        if amount == 0.0:
            continue
        row = features[at + i]
        if moves:
            for f in range(direction.shape[0]):
                direction[f] += amount * row[f]
        else:
            for f in range(direction.shape[0]):
                direction[f] = amount * row[f]
        moves = True
    return moves


@borrowing
def step_label(maps, groups, k, j, direction):
    """Take the step ``v_kj -= rate_k g_kj`` for one label; update norms and averages.

    The ``direction`` (dimension of the group,) is ``g_kj``. Norms follow
    ``||v - r g||^2 = ||v||^2 - 2 r <v, g> + r^2 ||g||^2``.
    """
    rate = groups.rates[k]
    first = maps.starts[k]
    end = maps.starts[k + 1]
    weights = maps.table[j, first:end]
    square = np.dot(direction, direction)
    groups.square_gradients[k] += square
    groups.square_norms[k] += rate * (rate * square - 2.0 * np.dot(weights, direction))
    for f in range(weights.shape[0]):
        weights[f] -= rate * direction[f]
    if maps.sums.shape[0] > 0 and groups.averages[k] != 0.0:
        shift = groups.averages[k] * rate
        sums = maps.sums[j, first:end]
        for f in range(sums.shape[0]):
            sums[f] += shift * direction[f]
    maps.touched[k, j] = True


@compiled
def step(bank, x, at, gradient, pair_gradient, postponed):
    """Step along ``g_kj = sum_i D_ij z_ik``, for labels with a gradient, also of groups at zero.

    So a postponed step has nothing to do.
    """
    if postponed:
        return
    maps = maps_at(bank)
    groups = bank_groups_at(maps.groups)
    features = mapped_tokens_at(x).features
    groups.square_gradients[:] = 0.0
    direction = np.empty(maps.table.shape[1])
    for j in range(gradient.shape[1]):
        if sum_gradient(features, at, gradient, j, direction):
            for k in range(groups.rates.shape[0]):
                step_label(maps, groups, k, j, direction[maps.starts[k] : maps.starts[k + 1]])


@compiled(counting=False)
def fold(bank, group, factor):
    """Multiply the touched rows of a group, after adding their share of the average to its sums.

    A factor of 0 empties the group: its rows then read as zero.
    """
    maps = maps_at(bank)
    average = bank_groups_at(maps.groups).averages[group]
    first = maps.starts[group]
    end = maps.starts[group + 1]
    for j in range(maps.table.shape[0]):
        if not maps.touched[group, j]:
            continue
        weights = maps.table[j, first:end]
        sums = weights[:0]
        if maps.sums.shape[0] > 0:
            sums = maps.sums[j, first:end]
        fold_weights(weights, sums, average, factor)
        maps.touched[group, j] = factor != 0.0
