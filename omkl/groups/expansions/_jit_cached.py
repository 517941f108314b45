"""Cached potentials of kernel groups over a finite training set, updated with every change.

The potentials ``F[k] = (K_k A_k)'`` are (p, K, N), so that a change of a coefficient is one axpy of
a contiguous Gram row onto a contiguous row of ``F``. Gram matrices and potentials are of float64 or
float32: each loop stands once, and has a compiled function for each of both, with the signatures of
:mod:`omkl.signatures`.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl._compilation import borrowing, compiled, inner
from omkl._pointers import ADDRESS, CUBE, FLAGS, FLOAT, INTEGER, MATRIX, Layout, flat
from omkl.groups._jit_group_state import bank_groups_at, fold_weights
from omkl.groups.expansions._jit_kernel import advance_norm, has_gradient, measure


class Cached(NamedTuple):
    """Potentials of all tokens (p, K, N), and coefficients (p, N, K) with their running sums.

    ``sums`` is (p, 0, K) without an average.
    """

    potentials: np.ndarray
    coefficients: np.ndarray
    sums: np.ndarray
    #: Whether a group has coefficients, (p,).
    moved: np.ndarray
    #: Sums of gradients that wait until they are large enough, and directions of the latest steps,
    #: (N, K).
    carried: np.ndarray
    directions: np.ndarray
    #: Least entry of a direction; smaller ones wait.
    least: float
    #: Address of the arrays of the groups.
    groups: int


class RowsAtHand(NamedTuple):
    """Rows of Gram matrices, (p, m, N)."""

    grams: np.ndarray
    #: 1 if these are the rows of all tokens, 0 if of the tokens of the step with a gradient.
    of_all: int


CUBE_32 = types.float32[:, :, ::1]


def _layout_of(potentials: types.Array) -> Layout:
    return Layout(
        Cached,
        potentials=potentials,
        coefficients=CUBE,
        sums=CUBE,
        moved=FLAGS,
        carried=MATRIX,
        directions=MATRIX,
        least=FLOAT,
        groups=ADDRESS,
    )


CACHED = _layout_of(CUBE)
CACHED_32 = _layout_of(CUBE_32)
GRAM_ROWS = Layout(RowsAtHand, grams=CUBE, of_all=INTEGER)
GRAM_ROWS_32 = Layout(RowsAtHand, grams=CUBE_32, of_all=INTEGER)
cached_at = CACHED.at
cached_32_at = CACHED_32.at
gram_rows_at = GRAM_ROWS.at
gram_rows_32_at = GRAM_ROWS_32.at


@borrowing
def add_scores(cached, at, unary):
    """Add the cached potentials of the current model."""
    scales = bank_groups_at(cached.groups).scales
    for k in range(cached.potentials.shape[0]):
        if scales[k] != 0.0:
            for t in range(unary.shape[0]):
                for j in range(unary.shape[1]):
                    unary[t, j] += scales[k] * cached.potentials[k, j, at + t]


@borrowing
def add_inner_products(cached, at, gradient, slopes, totals):
    """``slopes[k] += <F_k, D>``; add the potentials, summed over tokens, to ``totals[k]``."""
    for k in range(cached.potentials.shape[0]):
        for t in range(gradient.shape[0]):
            for j in range(gradient.shape[1]):
                potential = cached.potentials[k, j, at + t]
                slopes[k] += potential * gradient[t, j]
                totals[k, j] += potential


@borrowing
def advance_cached_norms(cached, groups, tokens, moving, gradient):
    """Set the norms of groups that are not empty after the step."""
    for k in range(cached.potentials.shape[0]):
        if groups.empty[k]:
            continue
        product = 0.0
        for a in range(moving.shape[0]):
            for j in range(gradient.shape[1]):
                product += gradient[moving[a], j] * cached.potentials[k, j, tokens[a]]
        advance_norm(groups, k, product)


@compiled(counting=False)
def carry(gradient, carried, least, directions):
    """Write the entries of a gradient that are large enough for a step, and what they carried.

    Smaller ones are added to ``carried``, and their directions are 0; all are (n, K).
    """
    for i in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            total = carried[i, j] + gradient[i, j]
            carried[i, j] = 0.0
            directions[i, j] = total
            if abs(total) < least:
                carried[i, j] = total
                directions[i, j] = 0.0


@borrowing
def write_directions(cached, at, gradient):
    """Write the directions (n, K) of a step along a gradient, see :func:`carry`."""
    directions = cached.directions[at : at + gradient.shape[0]]
    carry(gradient, cached.carried[at : at + gradient.shape[0]], cached.least, directions)


@borrowing
def list_rows(gram_rows, at, moving, tokens, rows):
    """Write the tokens that move, and the Gram rows of these: ``tokens`` and ``rows`` (m,)."""
    for a in range(moving.shape[0]):
        tokens[a] = at + moving[a]
        rows[a] = tokens[a] if gram_rows.of_all else a


@borrowing
def take_step(cached, gram_rows, at, n, moving, tokens, rows, chosen, amounts, postponed):
    """Take the step of groups that are not empty, and measure all; or take a postponed step.

    ``moving``, ``tokens`` and ``rows`` (m,) are those of :func:`list_rows`; ``chosen`` and
    ``amounts`` are working memory of m + 2 numbers.
    """
    groups = bank_groups_at(cached.groups)
    directions = cached.directions[at : at + n]
    if not postponed:
        if not measure(gram_rows.grams, rows, tokens, moving, directions, groups):
            return
        advance_cached_norms(cached, groups, tokens, moving, directions)
    for k in range(cached.potentials.shape[0]):
        moves = groups.activated[k] if postponed else not groups.empty[k]
        if not moves:
            continue
        cached.moved[k] = True
        for j in range(directions.shape[1]):
            count = 0
            for a in range(moving.shape[0]):
                change = groups.rates[k] * directions[moving[a], j]
                if change != 0.0:
                    chosen[count] = rows[a]
                    amounts[count] = -change
                    count += 1
                    cached.coefficients[k, tokens[a], j] -= change
                    if cached.sums.shape[1] > 0:
                        cached.sums[k, tokens[a], j] += groups.averages[k] * change
            # two or three remaining rows are read with a multiple 0 of the first, in one pass
            while count % 4 > 1:
                chosen[count] = chosen[0]
                amounts[count] = 0.0
                count += 1
            add_rows(gram_rows.grams[k], chosen[:count], amounts, cached.potentials[k, j])


@inner
def step_along(cached, gram_rows, at, gradient, postponed):
    """Step along a gradient (n, K), or take the latest step of groups that postponed it."""
    n = gradient.shape[0]
    if not postponed:
        write_directions(cached, at, gradient)
    moving = has_gradient(cached.directions[at : at + n])
    m = moving.shape[0]
    tokens = np.empty(m, np.int64)
    rows = np.empty(m, np.int64)
    list_rows(gram_rows, at, moving, tokens, rows)
    chosen = np.empty(m + 2, np.int64)
    amounts = np.empty(m + 2, cached.potentials.dtype)
    take_step(cached, gram_rows, at, n, moving, tokens, rows, chosen, amounts, postponed)


@borrowing
def add_rows(gram, rows, amounts, target):
    """``target += sum_q amounts[q] gram[rows[q]]``; the target is read once for four rows."""
    n_rows = rows.shape[0]
    n_tokens = target.shape[0]
    q = 0
    while q + 4 <= n_rows:
        c0 = amounts[q]
        c1 = amounts[q + 1]
        c2 = amounts[q + 2]
        c3 = amounts[q + 3]
        g0 = gram[rows[q]]
        g1 = gram[rows[q + 1]]
        g2 = gram[rows[q + 2]]
        g3 = gram[rows[q + 3]]
        for t in range(n_tokens):
            target[t] += (c0 * g0[t] + c1 * g1[t]) + (c2 * g2[t] + c3 * g3[t])
        q += 4
    while q < n_rows:
        row = gram[rows[q]]
        for t in range(n_tokens):
            target[t] += amounts[q] * row[t]
        q += 1


@borrowing
def fold_group(cached, group, factor):
    """Multiply coefficients and potentials, after adding their share of the average to the sums."""
    if not cached.moved[group]:
        return
    average = bank_groups_at(cached.groups).averages[group]
    fold_weights(flat(cached.coefficients[group]), flat(cached.sums[group]), average, factor)
    potentials = flat(cached.potentials[group])
    rounded = potentials.dtype.type(factor)
    for i in range(potentials.shape[0]):
        potentials[i] *= rounded
    cached.moved[group] = factor != 0.0


@compiled(counting=False)
def no_average(bank, x, at, factors, total, unary, pairwise):
    """Add nothing, since nobody asks for averages of a bank without the ability "watch"."""


# ---- Gram matrices of float64 --------------------------------------------------------------------


@compiled(counting=False)
def scores(bank, x, at, unary, pairwise):
    """See :func:`add_scores`."""
    add_scores(cached_at(bank), at, unary)


@compiled
def step(bank, x, at, gradient, pair_gradient, postponed):
    """See :func:`step_along`."""
    step_along(cached_at(bank), gram_rows_at(x), at, gradient, postponed)


@compiled(counting=False)
def fold(bank, group, factor):
    """See :func:`fold_group`."""
    fold_group(cached_at(bank), group, factor)


@compiled(counting=False)
def slopes(bank, x, at, gradient, pair_gradient, slopes, totals):
    """See :func:`add_inner_products`."""
    add_inner_products(cached_at(bank), at, gradient, slopes, totals)


# ---- Gram matrices of float32 --------------------------------------------------------------------


@compiled(counting=False)
def scores_32(bank, x, at, unary, pairwise):
    """See :func:`add_scores`."""
    add_scores(cached_32_at(bank), at, unary)


@compiled
def step_32(bank, x, at, gradient, pair_gradient, postponed):
    """See :func:`step_along`."""
    step_along(cached_32_at(bank), gram_rows_32_at(x), at, gradient, postponed)


@compiled(counting=False)
def fold_32(bank, group, factor):
    """See :func:`fold_group`."""
    fold_group(cached_32_at(bank), group, factor)


@compiled(counting=False)
def slopes_32(bank, x, at, gradient, pair_gradient, slopes, totals):
    """See :func:`add_inner_products`."""
    add_inner_products(cached_32_at(bank), at, gradient, slopes, totals)
