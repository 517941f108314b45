"""Scores of pairs of labels that share weights, with the signatures of :mod:`omkl.signatures`.

``index`` or ``weight_of`` (K, K) has the weight of each pair of labels, :data:`NO_WEIGHT` for none.
There are E edges. The weights belong to all edges together (:class:`Pairs`), or are the outputs of
a bank of tokens that are edges (:class:`Edges`).
"""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl import signatures
from omkl._compilation import compiled, inner
from omkl._pointers import ADDRESS, CUBE, INTEGER, Layout
from omkl.groups._jit_dense import average_of, sum_at
from omkl.groups._jit_group_state import bank_groups_at

#: Pairs of labels where a bank of tokens has none.
NO_LABELS = 0


class Pairs(NamedTuple):
    """A table (1, 1, number of weights), as ``_jit_dense.Dense``, and the weight of each pair of
    labels.
    """

    table: np.ndarray
    sums: np.ndarray
    groups: int
    weight_of: np.ndarray


class Edges(NamedTuple):
    """A bank of edges with an output for each weight: addresses of its arrays, groups and
    functions, and the weight of each pair of labels.
    """

    bank: int
    groups: int
    scores: int
    average: int
    step: int
    fold: int
    slopes: int
    n_groups: int
    n_weights: int
    weight_of: np.ndarray


INDEX = types.int64[:, ::1]
PAIRS = Layout(Pairs, table=CUBE, sums=CUBE, groups=ADDRESS, weight_of=INDEX)
_OF_EDGES = dict.fromkeys(Edges._fields, ADDRESS)
_OF_EDGES |= {"n_groups": INTEGER, "n_weights": INTEGER, "weight_of": INDEX}
EDGES = Layout(Edges, **_OF_EDGES)
pairs_at = PAIRS.at
edges_at = EDGES.at
add_scores_of_bank = signatures.SCORES.call
add_average_of_bank = signatures.AVERAGE.call
step_bank = signatures.STEP.call
fold_bank = signatures.FOLD.call
add_slopes_of_bank = signatures.SLOPES.call

#: Index of pairs of labels without a weight.
NO_WEIGHT = -1


@compiled
def add_pairs(weights, scale, index, pairwise):
    """``pairwise[e, a, b] += scale * weights[e, index[a, b]]``.

    ``pairwise`` (E, K, K), ``weights`` (E or 1, number of weights): all edges share a single row.
    """
    for e in range(pairwise.shape[0]):
        row = weights[min(e, weights.shape[0] - 1)]
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] != NO_WEIGHT:
                    pairwise[e, a, b] += scale * row[index[a, b]]


@compiled
def sum_pairs(gradient, index, sums):
    """``sums[e, index[a, b]] += gradient[e, a, b]``, for (E, number of weights), (E, K, K).

    All edges share a single row of sums.
    """
    for e in range(gradient.shape[0]):
        row = e if sums.shape[0] > 1 else 0
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] != NO_WEIGHT:
                    sums[row, index[a, b]] += gradient[e, a, b]


# ---- weights that all edges share ----------------------------------------------------------------


@compiled(counting=False)
def add_shared_pairs(bank, x, at, unary, pairwise):
    """Add the weights to ``pairwise`` (E, K, K)."""
    pairs = pairs_at(bank)
    scale = bank_groups_at(pairs.groups).scales[0]
    if scale != 0.0:
        add_pairs(pairs.table[0], scale, pairs.weight_of, pairwise)


@compiled
def add_averaged_pairs(bank, x, at, factors, total, unary, pairwise):
    """Add the averaged weights to ``pairwise`` (E, K, K)."""
    pairs = pairs_at(bank)
    if bank_groups_at(pairs.groups).left_out[0]:
        return
    n_weights = pairs.table.shape[2]
    weights = np.empty((1, n_weights))
    for k in range(n_weights):
        before = sum_at(pairs.sums, 0, 0, k)
        weights[0, k] = average_of(pairs.table[0, 0, k], before, factors[0], total)
    add_pairs(weights, 1.0, pairs.weight_of, pairwise)


@inner
def total_gradient(pair_gradient, index, n_weights):
    """Return the gradient in the weights (1, number of weights), summed edge by edge."""
    total = np.zeros((1, n_weights))
    of_edge = np.empty((1, n_weights))
    for e in range(pair_gradient.shape[0]):
        for k in range(n_weights):
            of_edge[0, k] = 0.0
        sum_pairs(pair_gradient[e : e + 1], index, of_edge)
        for k in range(n_weights):
            total[0, k] += of_edge[0, k]
    return total


@compiled
def step_shared_pairs(bank, x, at, gradient, pair_gradient, postponed):
    """Step along the gradient of the pairs; no step is postponed."""
    if postponed:
        return
    pairs = pairs_at(bank)
    groups = bank_groups_at(pairs.groups)
    n_weights = pairs.table.shape[2]
    slopes = total_gradient(pair_gradient, pairs.weight_of, n_weights)
    rate, average = groups.rates[0], groups.averages[0]
    product = 0.0
    moved = 0.0
    for k in range(n_weights):
        product += slopes[0, k] * pairs.table[0, 0, k]
    for k in range(n_weights):
        if slopes[0, k] != 0.0:
            change = -rate * slopes[0, k]
            moved += change * (2.0 * pairs.table[0, 0, k] + change)
            pairs.table[0, 0, k] += change
            if pairs.sums.shape[0] > 0:
                pairs.sums[0, 0, k] -= average * change
    groups.square_norms[0] += moved
    groups.square_gradients[0] = max(moved + 2.0 * rate * product, 0.0) / rate**2


@compiled
def slopes_of_shared_pairs(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add the inner product of the weights with the gradient of the pairs."""
    pairs = pairs_at(bank)
    n_weights = pairs.table.shape[2]
    total = total_gradient(pair_gradient, pairs.weight_of, n_weights)
    for k in range(n_weights):
        slopes[0] += pairs.table[0, 0, k] * total[0, k]


# ---- weights that are outputs of a bank of edges -------------------------------------------------


@compiled
def add_scores_of_edges(bank, x, at, unary, pairwise):
    """Add the scores of the bank of edges to ``pairwise`` (E, K, K)."""
    edges = edges_at(bank)
    n_edges = pairwise.shape[0]
    if n_edges == 0:
        return
    weights = np.zeros((n_edges, edges.n_weights))
    no_pairs = np.zeros((0, NO_LABELS, NO_LABELS))
    add_scores_of_bank(edges.scores, (edges.bank, x, at, weights, no_pairs))
    add_pairs(weights, 1.0, edges.weight_of, pairwise)


@compiled
def add_average_of_edges(bank, x, at, factors, total, unary, pairwise):
    """Add the averaged scores of the bank of edges to ``pairwise`` (E, K, K)."""
    edges = edges_at(bank)
    n_edges = pairwise.shape[0]
    if n_edges == 0:
        return
    weights = np.zeros((n_edges, edges.n_weights))
    no_pairs = np.zeros((0, NO_LABELS, NO_LABELS))
    add_average_of_bank(edges.average, (edges.bank, x, at, factors, total, weights, no_pairs))
    add_pairs(weights, 1.0, edges.weight_of, pairwise)


@compiled
def step_edges(bank, x, at, gradient, pair_gradient, postponed):
    """Step of the bank of edges along the gradient of the pairs; a graph without edges moves
    nothing.
    """
    edges = edges_at(bank)
    n_edges = pair_gradient.shape[0]
    if n_edges == 0:
        if not postponed:
            square_gradients = bank_groups_at(edges.groups).square_gradients
            for k in range(edges.n_groups):
                square_gradients[k] = 0.0
        return
    sums = np.zeros((n_edges, edges.n_weights))
    sum_pairs(pair_gradient, edges.weight_of, sums)
    no_pairs = np.zeros((0, NO_LABELS, NO_LABELS))
    step_bank(edges.step, (edges.bank, x, at, sums, no_pairs, postponed))


@compiled(counting=False)
def fold_edges(bank, group, factor):
    """Fold a group of the bank of edges."""
    edges = edges_at(bank)
    fold_bank(edges.fold, (edges.bank, group, factor))


@compiled
def slopes_of_edges(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add the inner products of the groups of edges with the gradient of the pairs; there are no
    unary potentials.
    """
    edges = edges_at(bank)
    n_edges = pair_gradient.shape[0]
    if n_edges == 0:
        return
    sums = np.zeros((n_edges, edges.n_weights))
    sum_pairs(pair_gradient, edges.weight_of, sums)
    no_pairs = np.zeros((0, NO_LABELS, NO_LABELS))
    totals_of_weights = np.zeros((edges.n_groups, edges.n_weights))
    arguments = (edges.bank, x, at, sums, no_pairs, slopes, totals_of_weights)
    add_slopes_of_bank(edges.slopes, arguments)
