"""The compiled functions of :class:`PairwiseGraph`, with the signatures of :mod:`omkl.signatures`.

A node has the scores ``unary`` (n, K), and edge e the scores ``pairwise[e]`` (E, K, K), or all of
them ``pairwise[0]`` (1, K, K). Message passing takes *single edges*, of which no two join the same
nodes; their scores are the sums of those of parallel edges.
"""

from typing import NamedTuple

import numpy as np
from numba import types

from omkl._compilation import compiled, inner
from omkl._pointers import ADDRESS, CUBE, FLOAT, INTEGER, INTEGERS, MATRIX, Layout, Signature
from omkl.signatures import MARGINALS, StructureFunctions
from omkl.structures._jit_labels import augment_labels, copy, cost_of_labels, row_of
from omkl.structures.graphs._jit_labellings import (
    PAIRS_OF_NODES,
    add_indicator,
    graph_at,
    score_labels,
)

#: A labelling is proved best if no other scores higher by more than this, relative to the larger of
#: 1 and its score.
PROOF_TOLERANCE = 1e-8
#: Sweeps before a minimum cut, which takes longer on small graphs.
SWEEPS_BEFORE_CUT = 20
#: Entries of ``counts``: numbers of labellings that were sought, and of those proved the best.
SOUGHT, PROVED_BEST, N_COUNTS = range(3)


class GraphStructure(NamedTuple):
    """Arrays of a structure for one graph; it begins as ``_jit_labels.Labels`` does."""

    costs: np.ndarray
    #: Address of the :class:`GraphArrays`.
    graph: int
    #: Maximum number of sweeps.
    sweeps: int
    #: Addresses of functions that take long to compile, which happens when they are called:
    #: ``best_labelling``, ``minimum_cut`` for two labels, and ``marginals``.
    search: int
    cut: int
    sum: int
    counts: np.ndarray


STRUCTURE_OF_GRAPH = Layout(
    GraphStructure,
    costs=MATRIX,
    graph=ADDRESS,
    sweeps=INTEGER,
    search=ADDRESS,
    cut=ADDRESS,
    sum=ADDRESS,
    counts=INTEGERS,
)
#: Write a labelling; return its score, and an upper bound of all scores.
SEARCH = Signature(
    "best labelling",
    types.UniTuple(FLOAT, 2),
    graph=ADDRESS,
    unary=MATRIX,
    pairwise=CUBE,
    sweeps=INTEGER,
    tolerance=FLOAT,
    labels=INTEGERS,
)
#: Write the labelling of a minimum cut; return an upper bound of all scores.
CUT = Signature(
    "minimum cut",
    FLOAT,
    unary=MATRIX,
    pairwise=CUBE,
    edges=PAIRS_OF_NODES,
    labels=INTEGERS,
)
structure_of_graph_at = STRUCTURE_OF_GRAPH.at
search_labelling = SEARCH.call
call_cut = CUT.call
sum_over_labellings = MARGINALS.call


# ---- single edges --------------------------------------------------------------------------------


@compiled
def sum_parallel_edges(pairwise, single_edge_of, reverse, n_single):
    """Return the sums (E', K, K) of the scores of the edges that join the same nodes.

    ``pairwise`` is (E, K, K) or (1, K, K). Edge e is the single edge ``single_edge_of[e]`` (E,), in
    the other direction if ``reverse[e]`` (E,). There are ``n_single`` single edges, E'.
    """
    n_labels = pairwise.shape[1]
    sums = np.zeros((n_single, n_labels, n_labels))
    for e in range(single_edge_of.shape[0]):
        scores = pairwise[row_of(pairwise, e)]
        for y in range(n_labels):
            for z in range(n_labels):
                sums[single_edge_of[e], y, z] += scores[z, y] if reverse[e] else scores[y, z]
    return sums


@inner
def spread_to_parallel_edges(of_single, single_edge_of, reverse, pair_marginals):
    """Write the marginals of all edges (E, K, K), or their sum (1, K, K).

    They are those of the single edges, ``of_single`` (E', K, K). For ``single_edge_of`` and
    ``reverse`` see :func:`sum_parallel_edges`.
    """
    n_labels = of_single.shape[1]
    pair_marginals[:] = 0.0
    for e in range(single_edge_of.shape[0]):
        chances = of_single[single_edge_of[e]]
        row = row_of(pair_marginals, e)
        for y in range(n_labels):
            for z in range(n_labels):
                pair_marginals[row, y, z] += chances[z, y] if reverse[e] else chances[y, z]


# ---- the best labelling --------------------------------------------------------------------------


@inner
def sum_of_largest(scores):
    """Return the sum of the largest finite magnitudes of rows (rows, n), and if a score is -inf."""
    total = 0.0
    forbids = False
    for row in range(scores.shape[0]):
        largest = 0.0
        for column in range(scores.shape[1]):
            score = scores[row, column]
            forbids |= score == -np.inf
            if np.isfinite(score):
                largest = max(largest, abs(score))
        total += largest
    return total, forbids


@compiled
def lowest_score(unary, pairwise, n_edges):
    """Return a finite score that may replace those of -inf, which forbid parts; 0 without any.

    It is so low that every allowed labelling is better than every forbidden one. ``unary`` is
    (n, K), and ``pairwise`` is (n_edges, K, K) or (1, K, K).
    """
    n_tables, n_labels, _ = pairwise.shape
    of_nodes, forbids_labels = sum_of_largest(unary)
    of_edges, forbids_pairs = sum_of_largest(pairwise.reshape(n_tables, n_labels * n_labels))
    if not forbids_labels and not forbids_pairs:
        return 0.0
    return -2.0 * (of_nodes + n_edges / max(n_tables, 1) * of_edges) - 1.0


@inner
def is_attractive(pairwise):
    """Return whether equal labels of two score at least as high as different ones, at all edges.

    ``pairwise`` is (E, 2, 2) or (1, 2, 2).
    """
    for e in range(pairwise.shape[0]):
        of_first = pairwise[e, 0, 0] - pairwise[e, 1, 0]
        of_second = pairwise[e, 1, 1] - pairwise[e, 0, 1]
        if not of_first + of_second >= 0.0:
            return False
    return True


@inner
def pass_messages(structure_address, unary, pairwise, labels):
    """Write a labelling (n,) by messages or a minimum cut; return an upper bound of all scores."""
    structure = structure_of_graph_at(structure_address)
    graph = graph_at(structure.graph)
    edges = graph.single_edges
    forest = graph.is_forest != 0
    attractive = unary.shape[1] == 2 and not forest and is_attractive(pairwise)
    sweeps = structure.sweeps
    if attractive:
        sweeps = min(sweeps, SWEEPS_BEFORE_CUT)
    arguments = (structure.graph, unary, pairwise, sweeps, PROOF_TOLERANCE, labels)
    score, bound = search_labelling(structure.search, arguments)
    if attractive and bound - score > PROOF_TOLERANCE * max(1.0, abs(score)):
        cut = np.zeros(labels.shape[0], np.int64)
        bound = min(bound, call_cut(structure.cut, (unary, pairwise, edges, cut)))
        if score_labels(unary, pairwise, edges, cut) > score:
            copy(cut, labels)
    return bound


@compiled
def solve(structure_address, unary, pairwise, labels):
    """Write a good labelling (n,), for scores of single edges.

    Return its score, -inf if it is forbidden, and an upper bound of the scores of all labellings.
    """
    structure = structure_of_graph_at(structure_address)
    graph = graph_at(structure.graph)
    edges = graph.single_edges
    labels[:] = 0
    lowest = 0.0
    if graph.is_forest == 0:  # a difference of infinite messages has no value
        lowest = lowest_score(unary, pairwise, edges.shape[0])
    scores = unary
    pairs = pairwise
    if lowest < 0.0:
        scores = np.maximum(unary, lowest)
        pairs = np.maximum(pairwise, lowest)
    bound = pass_messages(structure_address, scores, pairs, labels)
    return score_labels(unary, pairwise, edges, labels), bound


@compiled
def is_proved(score, bound):
    """Return whether no labelling is better than one of this score, up to rounding."""
    return score > -np.inf and bound - score <= PROOF_TOLERANCE * max(1.0, abs(score))


@compiled
def decode_graph(structure_address, unary, pairwise, gold, cost_weight, labels):
    """Write a good labelling (n,); return the sum of its score and its weighted cost."""
    structure = structure_of_graph_at(structure_address)
    graph = graph_at(structure.graph)
    augmented = unary
    if cost_weight != 0.0:
        augmented = unary.copy()
        augment_labels(structure_address, augmented, gold, cost_weight)
    pairs = pairwise
    if graph.single_edge_of.shape[0] > 0:
        n_single = graph.single_edges.shape[0]
        pairs = sum_parallel_edges(pairwise, graph.single_edge_of, graph.reverse, n_single)
    score, bound = solve(structure_address, augmented, pairs, labels)
    structure.counts[SOUGHT] += 1
    if is_proved(score, bound):
        structure.counts[PROVED_BEST] += 1
    return score


# ---- marginals -----------------------------------------------------------------------------------


@compiled
def marginals_of_graph(structure_address, unary, pairwise, unary_marginals, pair_marginals):
    """Write marginals of nodes (n, K) and of all edges (E, K, K), or the sum of these (1, K, K).

    Return log Z, an upper bound of it if there are cycles; nan if no labelling is allowed. If no
    pairs are forbidden and each node has an allowed label, nan means that scores are not finite.
    """
    structure = structure_of_graph_at(structure_address)
    graph = graph_at(structure.graph)
    has_parallel_edges = graph.single_edge_of.shape[0] > 0
    pairs = pairwise
    of_single = pair_marginals
    if has_parallel_edges:
        n_single = graph.single_edges.shape[0]
        pairs = sum_parallel_edges(pairwise, graph.single_edge_of, graph.reverse, n_single)
        of_single = np.empty(pairs.shape)
    log_partition = sum_over_labellings(
        structure.sum, (structure.graph, unary, pairs, unary_marginals, of_single)
    )
    if not log_partition > -np.inf:
        return np.nan
    if has_parallel_edges:
        spread_to_parallel_edges(of_single, graph.single_edge_of, graph.reverse, pair_marginals)
    return log_partition


# ---- parts of a labelling ------------------------------------------------------------------------


@compiled(counting=False)
def score_graph(structure_address, unary, pairwise, labels):
    """Return the score of labels (n,)."""
    edges = graph_at(structure_of_graph_at(structure_address).graph).edges
    return score_labels(unary, pairwise, edges, labels)


@compiled(counting=False)
def indicate_graph(structure_address, unary, pairwise, labels, amount):
    """Add ``amount`` to every part of labels (n,)."""
    edges = graph_at(structure_of_graph_at(structure_address).graph).edges
    add_indicator(unary, pairwise, edges, labels, amount)


GRAPHS = StructureFunctions(
    decode=decode_graph,
    marginals=marginals_of_graph,
    score=score_graph,
    indicate=indicate_graph,
    cost=cost_of_labels,
    augment=augment_labels,
)
