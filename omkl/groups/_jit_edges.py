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
from omkl.groups._jit_dense import average_at, inner_product, take_step
from omkl.groups._jit_group_state import bank_groups_at

#: Index of pairs of labels without a weight.
NO_WEIGHT = -1


class Pairs(NamedTuple):
    """A table (1, 1, number of weights), as ``_jit_dense.Dense``, and each pair's weight there."""

    table: np.ndarray
    sums: np.ndarray
    groups: int
    weight_of: np.ndarray


class Edges(NamedTuple):
    """A bank of edges with an output for each weight of pairs of labels.

    Addresses of its arrays, groups and functions, and the weight of each pair.
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


@compiled
def add_pairs(weights, index, pairwise):
    """Add the weights of pairs of labels: ``pairwise[e, a, b] += weights[e, index[a, b]]``.

    ``pairwise`` is (E, K, K), and ``weights`` (E or 1, number of weights). All edges share a single
    row.
    """
    for e in range(pairwise.shape[0]):
        row = weights[min(e, weights.shape[0] - 1)]
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] != NO_WEIGHT:
                    pairwise[e, a, b] += row[index[a, b]]


@compiled
def sum_pairs(gradient, index, sums):
    """Sum the gradient of pairs by their weights: ``sums[e, index[a, b]] += gradient[e, a, b]``.

    ``sums`` is (E, number of weights), and ``gradient`` (E, K, K).
    """
    for e in range(gradient.shape[0]):
        for a in range(index.shape[0]):
            for b in range(index.shape[1]):
                if index[a, b] != NO_WEIGHT:
                    sums[e, index[a, b]] += gradient[e, a, b]


# ---- weights that all edges share ----------------------------------------------------------------


@compiled
def add_averaged_pairs(bank, x, at, factors, total, unary, pairwise):
    """Add the averaged weights to ``pairwise`` (E, K, K)."""
    pairs = pairs_at(bank)
    if bank_groups_at(pairs.groups).left_out[0]:
        return
    n_weights = pairs.table.shape[2]
    weights = np.empty((1, n_weights))
    for k in range(n_weights):
        weights[0, k] = average_at(pairs, 0, k, factors[0], total)
    add_pairs(weights, pairs.weight_of, pairwise)


@compiled
def add_shared_pairs(bank, x, at, unary, pairwise):
    """Add the current weights to ``pairwise`` (E, K, K)."""
    scales = bank_groups_at(pairs_at(bank).groups).scales
    add_averaged_pairs(bank, x, at, scales, 0.0, unary, pairwise)


@inner
def total_gradient(pair_gradient, index, n_weights):
    """Return the gradient in the weights (1, 1, number of weights), summed edge by edge.

    ``pair_gradient`` is (E, K, K).
    """
    total = np.zeros((1, 1, n_weights))
    of_edge = np.empty((1, n_weights))
    for e in range(pair_gradient.shape[0]):
        of_edge[:] = 0.0
        sum_pairs(pair_gradient[e : e + 1], index, of_edge)
        for k in range(n_weights):
            total[0, 0, k] += of_edge[0, k]
    return total


@compiled
def step_shared_pairs(bank, x, at, gradient, pair_gradient, postponed):
    """Step along the gradient of the pairs, also of a group at zero.

    So a postponed step has nothing to do.
    """
    if postponed:
        return
    pairs = pairs_at(bank)
    total = total_gradient(pair_gradient, pairs.weight_of, pairs.table.shape[2])
    take_step(total, pairs.table, pairs.sums, bank_groups_at(pairs.groups))


@compiled
def slopes_of_shared_pairs(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add the inner product of the weights with the gradient of the pairs."""
    pairs = pairs_at(bank)
    total = total_gradient(pair_gradient, pairs.weight_of, pairs.table.shape[2])
    slopes[0] += inner_product(pairs.table, total)


# ---- weights that are outputs of a bank of edges -------------------------------------------------


@inner
def no_pairs():
    """Return potentials of pairs for a bank of tokens, which has none."""
    return np.zeros((0, 0, 0))


@compiled
def add_scores_of_edges(bank, x, at, unary, pairwise):
    """Add the scores of the bank of edges to ``pairwise`` (E, K, K)."""
    edges = edges_at(bank)
    n_edges = pairwise.shape[0]
    if n_edges == 0:
        return
    weights = np.zeros((n_edges, edges.n_weights))
    add_scores_of_bank(edges.scores, (edges.bank, x, at, weights, no_pairs()))
    add_pairs(weights, edges.weight_of, pairwise)


@compiled
def add_average_of_edges(bank, x, at, factors, total, unary, pairwise):
    """Add the averaged scores of the bank of edges to ``pairwise`` (E, K, K)."""
    edges = edges_at(bank)
    n_edges = pairwise.shape[0]
    if n_edges == 0:
        return
    weights = np.zeros((n_edges, edges.n_weights))
    add_average_of_bank(edges.average, (edges.bank, x, at, factors, total, weights, no_pairs()))
    add_pairs(weights, edges.weight_of, pairwise)


@compiled
def step_edges(bank, x, at, gradient, pair_gradient, postponed):
    """Step along the gradient of the pairs; a graph without edges moves nothing."""
    edges = edges_at(bank)
    n_edges = pair_gradient.shape[0]
    if n_edges == 0:
        if not postponed:
            bank_groups_at(edges.groups).square_gradients[:] = 0.0
        return
    sums = np.zeros((n_edges, edges.n_weights))
    sum_pairs(pair_gradient, edges.weight_of, sums)
    step_bank(edges.step, (edges.bank, x, at, sums, no_pairs(), postponed))


@compiled(counting=False)
def fold_edges(bank, group, factor):
    """Fold a group of the bank of edges."""
    edges = edges_at(bank)
    fold_bank(edges.fold, (edges.bank, group, factor))


@compiled
def slopes_of_edges(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add the inner products with the gradient of the pairs; there are no unary potentials."""
    edges = edges_at(bank)
    n_edges = pair_gradient.shape[0]
    if n_edges == 0:
        return
    sums = np.zeros((n_edges, edges.n_weights))
    sum_pairs(pair_gradient, edges.weight_of, sums)
    totals_of_weights = np.zeros((edges.n_groups, edges.n_weights))
    arguments = (edges.bank, x, at, sums, no_pairs(), slopes, totals_of_weights)
    add_slopes_of_bank(edges.slopes, arguments)
