"""Loops over small dense tables of weights: transitions and intercepts.

Transitions are (positions, K, K); position ``t`` uses row ``min(t, positions - 1)``. An intercept
is (1, 1, K), and all tokens share it. Signatures are those of :mod:`omkl.signatures`. Groups at
zero take their steps at once, so a postponed step has nothing to do.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled
from omkl._pointers import ADDRESS, CUBE, Layout, flat
from omkl.groups._jit_group_state import bank_groups_at, fold_weights


class Dense(NamedTuple):
    """A table with its running sums, and the address of the arrays of its group.

    ``table`` and ``sums`` are (positions, K, K) or (1, 1, K); ``sums`` is empty without an average.
    """

    table: np.ndarray
    sums: np.ndarray
    groups: int


DENSE = Layout(Dense, table=CUBE, sums=CUBE, groups=ADDRESS)
dense_at = DENSE.at


@borrowing
def inner_product(table, gradient):
    """Return the inner product of a table with a gradient; later matrices share the last one.

    ``table`` is (positions, K, K), ``gradient`` (positions or more, K, K).
    """
    product = 0.0
    for t in range(gradient.shape[0]):
        position = min(t, table.shape[0] - 1)
        for i in range(table.shape[1]):
            for j in range(table.shape[2]):
                product += gradient[t, i, j] * table[position, i, j]
    return product


@borrowing
def take_step(gradient, table, sums, groups):
    """Take the step ``v -= rate g``, with norms and averages of the group.

    ``gradient`` (positions or more, K, K): matrices from ``len(table) - 1`` on share the last
    matrix of the table. Writes to ``table``, ``sums`` and the arrays of ``groups``, a BankGroups.
    """
    rate = groups.rates[0]
    average = groups.averages[0]
    averaging = sums.shape[0] > 0
    product = inner_product(table, gradient)
    moved = 0.0
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
    groups.square_norms[0] += moved
    groups.square_gradients[0] = max(moved + 2.0 * rate * product, 0.0) / rate**2


@compiled
def step_dense(gradient, table, sums, groups):
    """Take the step of a dense table, see :func:`take_step`."""
    take_step(gradient, table, sums, groups)


@compiled(counting=False)
def fold(bank, group, factor):
    """Multiply the weights, after adding their share of the average to the running sums."""
    dense = dense_at(bank)
    average = bank_groups_at(dense.groups).averages[0]
    fold_weights(flat(dense.table), flat(dense.sums), average, factor)


@borrowing
def average_at(dense, i, j, factor, total):
    """Return the averaged weight (i, j) of the first matrix of a :class:`Dense`.

    It is ``(factor * weight + sum) / total``; or ``factor * weight`` if ``total`` is 0, which
    stands for the current model.
    """
    weight = factor * dense.table[0, i, j]
    if total == 0.0:
        return weight
    if dense.sums.shape[0] > 0:
        weight += dense.sums[0, i, j]
    return weight / total


# ---- transitions ---------------------------------------------------------------------------------


@compiled(counting=False)
def add_averaged_transitions(bank, x, at, factors, total, unary, pairwise):
    """Add the averaged transitions, which all positions share, to ``pairwise`` (1, K, K)."""
    transitions = dense_at(bank)
    if bank_groups_at(transitions.groups).left_out[0]:
        return
    for i in range(pairwise.shape[1]):
        for j in range(pairwise.shape[2]):
            pairwise[0, i, j] += average_at(transitions, i, j, factors[0], total)


@compiled(counting=False)
def add_transitions(bank, x, at, unary, pairwise):
    """Add the current transitions to ``pairwise`` (1, K, K)."""
    scales = bank_groups_at(dense_at(bank).groups).scales
    add_averaged_transitions(bank, x, at, scales, 0.0, unary, pairwise)


@compiled(counting=False)
def step_transitions(bank, x, at, gradient, pair_gradient, postponed):
    """Step along the gradient of the pairs; a postponed step has nothing to do."""
    if postponed:
        return
    transitions = dense_at(bank)
    groups = bank_groups_at(transitions.groups)
    take_step(pair_gradient, transitions.table, transitions.sums, groups)


@compiled(counting=False)
def slopes_of_transitions(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add the inner product of the transitions with the gradient of the pairs."""
    slopes[0] += inner_product(dense_at(bank).table, pair_gradient)


@compiled
def add_transitions_by_position(table, scale, offsets, low, high, pairwise):
    """Add ``scale * table`` to ``pairwise``, which has a matrix for each token except the last.

    ``pairwise`` (high - low - 1, K, K) are those of the tokens ``low : high``, of which sequence s
    has ``offsets[s] : offsets[s + 1]``. The last token of a sequence gets nothing.
    """
    first = np.searchsorted(offsets, low, side="right") - 1
    for s in range(first, offsets.shape[0] - 1):
        if offsets[s] >= high:
            break
        for t in range(max(offsets[s], low), min(offsets[s + 1] - 1, high - 1)):
            position = min(t - offsets[s], table.shape[0] - 1)
            for i in range(table.shape[1]):
                for j in range(table.shape[2]):
                    pairwise[t - low, i, j] += scale * table[position, i, j]


# ---- intercept -----------------------------------------------------------------------------------


@compiled(counting=False)
def add_averaged_intercept(bank, x, at, factors, total, unary, pairwise):
    """Add the averaged constants to the potentials of every token."""
    intercept = dense_at(bank)
    if bank_groups_at(intercept.groups).left_out[0]:
        return
    for j in range(unary.shape[1]):
        constant = average_at(intercept, 0, j, factors[0], total)
        for i in range(unary.shape[0]):
            unary[i, j] += constant


@compiled(counting=False)
def add_intercept(bank, x, at, unary, pairwise):
    """Add the current constants to the potentials of every token."""
    scales = bank_groups_at(dense_at(bank).groups).scales
    add_averaged_intercept(bank, x, at, scales, 0.0, unary, pairwise)


@compiled(counting=False)
def step_intercept(bank, x, at, gradient, pair_gradient, postponed):
    """Step along the gradient, summed over the tokens; a postponed step has nothing to do."""
    if postponed:
        return
    intercept = dense_at(bank)
    groups = bank_groups_at(intercept.groups)
    rate = groups.rates[0]
    square = 0.0
    moved = 0.0
    for j in range(gradient.shape[1]):
        total = 0.0
        for i in range(gradient.shape[0]):
            total += gradient[i, j]
        change = -rate * total
        square += total * total
        moved += change * (2.0 * intercept.table[0, 0, j] + change)
        intercept.table[0, 0, j] += change
        if intercept.sums.shape[0] > 0:
            intercept.sums[0, 0, j] -= groups.averages[0] * change
    groups.square_norms[0] += moved
    groups.square_gradients[0] = square


@compiled(counting=False)
def slopes_of_intercept(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add the inner product with the gradient, and the constants of all tokens to ``totals``."""
    table = dense_at(bank).table
    for i in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            slopes[0] += table[0, 0, j] * gradient[i, j]
            totals[0, j] += table[0, 0, j]
