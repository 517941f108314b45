"""Spanning trees against enumeration, another library's arborescences, exact fractions, and sums in
log space.
"""

import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.structures import NonProjectiveTree, ProjectiveTree, log_space
from omkl.structures.trees import _jit_matrix_tree as matrix_tree
from omkl.structures.trees import _jit_projective

from ..conftest import reaches_root

small = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(1, 5),
    "single_root": st.booleans(),
    "kind": st.sampled_from(["plain", "ties", "forbidden", "rooted", "cyclic"]),
    "scale": st.sampled_from([1e-3, 1.0, 30.0, 1e6]),
}
both = pytest.mark.parametrize("structure_class", [NonProjectiveTree, ProjectiveTree])


def arborescence_score(scores):
    """Score of the best arborescence by networkx; whole numbers stay exact."""
    graph = nx.DiGraph()
    n = len(scores) - 1
    arcs = [(h, m) for h in range(n + 1) for m in range(1, n + 1) if h != m]
    graph.add_weighted_edges_from((h, m, scores[h, m]) for h, m in arcs)
    best = nx.maximum_spanning_arborescence(graph)
    return sum(scores[h, m] for h, m in best.edges), best


@both
@given(**small)
def test_decoding_finds_the_best_tree(
    structure_class, trees_of, arc_scores, seed, n, single_root, kind, scale
):
    scores = arc_scores(seed, n, kind, scale)
    trees = trees_of(n, single_root, structure_class is ProjectiveTree)
    best = trees.scores(scores).max()
    structure = structure_class(single_root)
    if best == -np.inf:
        with pytest.raises(InputError, match="No tree over these"):
            structure.decode(scores)
        return
    decoded = structure.decode(scores)
    assert decoded in trees
    assert_allclose(structure.score(scores, decoded), best, atol=1e-12 * scale)


@both
@given(**small, weight=st.sampled_from([0.5, 1.0, 1e3]))
def test_loss_augmented_decoding_adds_the_cost_of_every_wrong_head(
    structure_class, trees_of, arc_scores, seed, n, single_root, kind, scale, weight
):
    """Also of a gold tree that is not projective."""
    kind = "plain" if kind == "forbidden" else kind
    scores = arc_scores(seed, n, kind, scale)
    trees = trees_of(n, single_root, structure_class is ProjectiveTree)
    golds = trees_of(n, single_root).heads
    gold = golds[seed % len(golds)]
    structure = structure_class(single_root)
    augmented = trees.scores(scores) + weight * (trees.heads != gold).sum(axis=1)
    found = structure.loss_augmented(scores, gold, weight)
    assert found in trees
    value = structure.score(scores, found) + weight * structure.cost(gold, found)
    assert_allclose(value, augmented.max(), atol=1e-11 * (scale + weight))


@both
@given(**small)
def test_marginals_and_log_partition_by_enumeration(
    structure_class, trees_of, arc_scores, seed, n, single_root, kind, scale
):
    scores = arc_scores(seed, n, kind, scale)
    trees = trees_of(n, single_root, structure_class is ProjectiveTree)
    structure = structure_class(single_root)
    if trees.scores(scores).max() == -np.inf:
        with pytest.raises(InputError, match="No tree over these"):
            structure.marginals(scores)
        return
    log_partition, expected = trees.marginals(scores)
    tolerance = 1e-10 + 1e-14 * scale
    found, (marginals,) = structure.marginals(scores)
    assert_allclose(found, log_partition, atol=tolerance)
    assert_allclose(marginals, expected, atol=tolerance)
    in_logs = np.zeros_like(expected)
    best = structure.decode(scores)
    found = structure.programs.total_in_logs(scores, best, structure.single_root, in_logs)
    assert_allclose(found, log_partition, atol=tolerance)
    assert_allclose(in_logs, expected, atol=tolerance)


@pytest.mark.parametrize("n", [8, 20, 40])
@pytest.mark.parametrize("magnitude", [1, 10**6])
def test_a_single_root_is_exact_where_all_tokens_would_be_roots(n, magnitude):
    """With integers, a large constant forces a single root child exactly."""
    rng = np.random.default_rng(n)
    scores = magnitude * rng.integers(-5, 5, size=(n + 1, n + 1))
    scores[0] += 20 * magnitude
    priced = scores.astype(object)
    priced[0] -= 10**15
    best, _ = arborescence_score(priced)
    structure = NonProjectiveTree()
    heads = structure.decode(scores)
    assert all(reaches_root(heads, m) for m in range(1, n + 1))
    assert (heads == 0).sum() == 1
    assert structure.score(scores, heads) == best + 10**15
    assert (NonProjectiveTree(single_root=False).decode(scores) == 0).all()


def nested_cycles(n, shape):
    """Draw scores with nested contractions: one token at a time, or recursively in pairs."""
    scores = np.full((n + 1, n + 1), -(10**6))
    if shape == "chain":
        for m in range(1, n):
            scores[m, m + 1] = 10 * n - m
            scores[m + 1, 1 : m + 1] = -20 * n * m + np.arange(m)
        scores[2, 1] = 10 * n
    else:
        tokens = np.arange(n)
        # of the smallest cluster of both
        level = np.frexp((tokens[:, None] ^ tokens[None, :]).astype(float))[1]
        scores[1:, 1:] = -1000 * level + (tokens[:, None] * 7 + tokens * 3) % 11
    scores[0, 1:] = -(10**5) + np.arange(n) % 5
    return scores


@pytest.mark.parametrize("shape", ["chain", "pairs"])
@pytest.mark.parametrize("n", [16, 40])
@pytest.mark.parametrize("seed", [0, 1])
def test_deeply_nested_cycles(shape, n, seed):
    scores = nested_cycles(n, shape)
    order = (
        np.concatenate([[0], 1 + np.random.default_rng(seed).permutation(n)])
        if seed
        else np.arange(n + 1)
    )
    scores = scores[np.ix_(order, order)]
    best, tree = arborescence_score(scores)
    assert len(list(tree.successors(0))) == 1
    for single_root in (True, False):
        structure = NonProjectiveTree(single_root)
        assert structure.score(scores, structure.decode(scores)) == best


def fraction_determinant(matrix):
    matrix = [list(row) for row in matrix]
    determinant = Fraction(1)
    for k in range(len(matrix)):
        p = next((i for i in range(k, len(matrix)) if matrix[i][k]), None)
        if p is None:
            return Fraction(0)
        if p != k:
            matrix[k], matrix[p] = matrix[p], matrix[k]
            determinant = -determinant
        determinant *= matrix[k][k]
        for i in range(k + 1, len(matrix)):
            factor = matrix[i][k] / matrix[k][k]
            matrix[i] = [a - factor * b for a, b in zip(matrix[i], matrix[k])]
    return determinant


def laplacian_determinant(weights, single_root):
    """Sum over all trees by the Matrix-Tree theorem, and for one root child by Koo et al. (2007),
    in fractions.
    """
    n = len(weights) - 1
    laplacian = [[-weights[h][m] for m in range(1, n + 1)] for h in range(1, n + 1)]
    for m in range(1, n + 1):
        heads = [weights[h][m] for h in range(0 if not single_root else 1, n + 1) if h != m]
        laplacian[m - 1][m - 1] = sum(heads, Fraction(0))
    if single_root:
        laplacian[0] = list(weights[0][1:])
    return fraction_determinant(laplacian)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_every_marginal_keeps_its_digits_where_the_laplacian_is_nearly_singular(single_root, seed):
    """Pairs of tokens that prefer each other by e^40, and pairs of such pairs by e^20, against
    exact fractions.
    """
    n = 6
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n + 1, n + 1)) - 20.0
    for pair in (1, 3, 5):
        scores[pair, pair + 1] += 40.0
        scores[pair + 1, pair] += 40.0
    scores[1:3, 3:5] += 20.0
    scores[3:5, 1:3] += 20.0
    scores[0] -= 60.0
    weights = [[Fraction(math.exp(score)) for score in row] for row in scores]
    total = laplacian_determinant(weights, single_root)
    log_partition, (expected,) = NonProjectiveTree(single_root).marginals(scores)
    exact_log = math.log(total.numerator) - math.log(total.denominator)
    assert_allclose(log_partition, exact_log, rtol=1e-13)
    for h, m in np.ndindex(n + 1, n + 1):
        if m > 0 and h != m:
            without = [list(row) for row in weights]
            without[h][m] = Fraction(0)
            assert_allclose(
                expected[h, m],
                float(1 - laplacian_determinant(without, single_root) / total),
                rtol=1e-12,
            )


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("shape", ["chain", "pairs"])
def test_marginals_of_huge_scores_are_the_best_tree(single_root, shape):
    """Nested cycles with gaps of 1e6 underflow as weights; a jitter makes the best tree the only
    one that counts.
    """
    jitter = np.random.default_rng(0).integers(0, 1000, size=(25, 25))
    scores = 1e3 * nested_cycles(24, shape) + 100.0 * jitter
    structure = NonProjectiveTree(single_root)
    best = structure.decode(scores)
    assert np.isnan(matrix_tree.marginals(scores, single_root, np.zeros_like(scores)))
    log_partition, (expected,) = structure.marginals(scores)
    assert_allclose(log_partition, structure.score(scores, best), rtol=1e-14)
    assert_allclose(expected, structure.indicator(best).arcs, atol=1e-9)


def test_ties_break_towards_the_lower_head_where_the_choice_is_free():
    assert (NonProjectiveTree(single_root=False).decode(np.zeros((6, 6))) == 0).all()
    scores = np.zeros((5, 5))
    scores[0, 1:] = [1.0, -1.0, -1.0, -1.0]
    assert NonProjectiveTree().decode(scores).tolist() == [0, 1, 1, 1]


@both
@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), single_root=st.booleans())
def test_difference_is_that_of_indicators_and_scores(
    structure_class, trees_of, arc_scores, seed, n, single_root
):
    structure = structure_class(single_root)
    rng = np.random.default_rng(seed)
    scores = arc_scores(seed, n, "plain")
    trees = trees_of(n, single_root).heads
    predicted, gold = trees[rng.integers(len(trees), size=2)]
    gap, (gradient,) = structure.difference(scores, predicted, gold)
    assert_allclose(
        gap, structure.score(scores, predicted) - structure.score(scores, gold), atol=1e-12
    )
    assert_allclose(gradient, structure.indicator(predicted).arcs - structure.indicator(gold).arcs)
    assert structure.cost(gold, predicted) == (gold != predicted).sum()
    structure.subtract_indicator(gradient, predicted)
    assert_allclose(gradient, -structure.indicator(gold).arcs)
    assert structure.zeros(n).arcs.shape == scores.shape


@both
@pytest.mark.parametrize("single_root", [True, False])
def test_the_log_partition_of_zeros_counts_trees(structure_class, single_root):
    structure = structure_class(single_root)
    for n in (1, 2, 3, 7, 30):
        count = math.log(n_trees(structure_class, single_root, n))
        assert_allclose(structure.marginals(structure.zeros(n))[0], count, rtol=1e-12, atol=1e-12)


def n_trees(structure_class, single_root, n):
    """Of all trees: Cayley (1889).

    Of projective ones as of noncrossing trees: Noy (1998); Deutsch and Noy (2002).
    """
    if structure_class is NonProjectiveTree:
        return (n if single_root else n + 1) ** (n - 1)
    return math.comb(3 * n - 2, n - 1) // n if single_root else math.comb(3 * n, n) // (2 * n + 1)


@both
def test_lists_whole_numbers_and_columns_first_are_accepted(structure_class):
    structure = structure_class()
    scores = np.random.default_rng(0).integers(-9, 9, size=(6, 6))
    heads = structure.decode(scores.astype(float)).tolist()
    assert structure.decode(scores.tolist()).tolist() == heads
    assert structure.decode(np.asfortranarray(scores, dtype=float)).tolist() == heads
    assert structure.cost(heads, heads) == 0.0


@both
@pytest.mark.parametrize("single_root", [True, False])
def test_scores_without_a_tree_and_nan_are_refused(structure_class, single_root):
    structure = structure_class(single_root)
    calls = (
        structure.decode,
        structure.marginals,
        lambda scores: structure.loss_augmented(scores, [0, 1]),
    )
    for call in calls:
        for bad in (np.nan, np.inf):
            for arc in ((0, 2), (1, 2)):
                scores = np.zeros((3, 3))
                scores[arc] = bad
                with pytest.raises(InputError, match="finite or -inf"):
                    call(scores)
        scores = np.zeros((3, 3))
        scores[:, 2] = -np.inf
        with pytest.raises(InputError, match="No tree over these 2 tokens"):
            call(scores)
        for shape in ((3,), (3, 4), (1, 1)):
            with pytest.raises(InputError, match="array of n >= 1 tokens"):
                call(np.zeros(shape))


@both
@pytest.mark.parametrize("heads", [[0], [0, 3], [0, -1], [1, 0], [0.0, 1.0], [[0, 1]]])
def test_invalid_heads_are_refused(structure_class, heads):
    with pytest.raises(InputError, match="A tree over 2 tokens"):
        structure_class().score(np.zeros((3, 3)), heads)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_marginals_at_large_magnitudes_are_those_of_the_best_tree(arc_scores, single_root, scale):
    scores = arc_scores(0, 30, "plain", scale)
    structure = ProjectiveTree(single_root)
    best = structure.decode(scores)
    log_partition, (expected,) = structure.marginals(scores)
    assert_allclose(log_partition, structure.score(scores, best), rtol=1e-6)
    assert_allclose(expected, structure.indicator(best).arcs, atol=1e-6)
    assert_allclose(expected[:, 1:].sum(axis=0), 1.0, atol=1e-14)


@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([7, 8, 9, 16, 17]),
    single_root=st.booleans(),
    kind=st.sampled_from(["plain", "ties", "rooted", "cyclic", "forbidden"]),
    scale=st.sampled_from([0.1, 1.0, 10.0, 100.0]),
)
def test_sums_of_weights_are_those_of_logs_or_no_answer(
    arc_scores, seed, n, single_root, kind, scale
):
    scores = arc_scores(seed, n, kind, scale)
    structure = ProjectiveTree(single_root)
    by_sums = np.zeros(scores.shape)
    by_logs = np.zeros(scores.shape)
    found = _jit_projective.marginals(scores, single_root, by_sums)
    if np.isnan(found):
        assert not by_sums.any()
        assert scale > 1.0 or not structure.is_possible(scores)
        return
    expected = log_space.projective_trees(scores, structure.decode(scores), single_root, by_logs)
    assert_allclose(found, expected, rtol=1e-13, atol=1e-11)
    assert_allclose(by_sums, by_logs, atol=1e-11)


@pytest.mark.compiled
def test_long_sentences_have_marginals(arc_scores):
    """The number of trees overflows, so sums are in log space."""
    scores = arc_scores(0, 350, "plain")
    assert np.isnan(_jit_projective.marginals(scores, True, np.zeros(scores.shape)))
    _, (expected,) = ProjectiveTree().marginals(scores)
    assert_allclose(expected[:, 1:].sum(axis=0), 1.0, atol=1e-10)


STRUCTURES = [NonProjectiveTree, ProjectiveTree]
SIZES = {"seed": st.integers(0, 2**32 - 1), "n": st.integers(1, 5), "single_root": st.booleans()}
KINDS = st.sampled_from(["normal", "ties", "forbidden", "rooted", "cyclic"])


def possible(trees, scores):
    """Trees without a forbidden arc, and their scores, the best first."""
    values = trees.scores(scores)
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > -np.inf]
    return trees.heads[order], values[order]


@pytest.mark.parametrize("structure_class", STRUCTURES)
@given(**SIZES, kind=KINDS, n_best=st.integers(1, 30))
def test_the_best_trees_come_in_order(
    structure_class, trees_of, arc_scores, seed, n, single_root, kind, n_best
):
    scores = arc_scores(seed, n, kind)
    structure = structure_class(single_root)
    trees = trees_of(n, single_root, structure_class is ProjectiveTree)
    _, values = possible(trees, scores)
    if not len(values):
        with pytest.raises(InputError, match="No tree over these"):
            structure.decode_best(scores, n_best)
        return
    heads, found = structure.decode_best(scores, n_best)
    assert_allclose(found, values[:n_best], atol=1e-9)
    assert np.array_equal(heads[0], structure.decode(scores))
    assert len({tuple(tree) for tree in heads.tolist()}) == len(heads)
    for tree, value in zip(heads, found):
        assert tree in trees
        assert_allclose(structure.score(scores, tree), value, atol=1e-9)


@pytest.mark.parametrize("structure_class", STRUCTURES)
@given(**SIZES, kind=KINDS)
def test_the_tree_of_minimum_risk_has_most_heads_right_in_expectation(
    structure_class, trees_of, arc_scores, seed, n, single_root, kind
):
    scores = arc_scores(seed, n, kind)
    structure = structure_class(single_root)
    trees = trees_of(n, single_root, structure_class is ProjectiveTree)
    heads, values = possible(trees, scores)
    if not len(values):
        return
    probabilities = np.exp(values - values[0]) / np.exp(values - values[0]).sum()
    right = (heads[:, None] == heads[None]).sum(axis=2) @ probabilities
    chosen = structure.decode_marginals(scores)
    assert_allclose((heads == chosen).sum(axis=1) @ probabilities, right.max(), atol=1e-9)
    assert (heads == chosen).all(axis=1).any()


@pytest.mark.parametrize("structure_class", STRUCTURES)
@pytest.mark.parametrize(
    "loss", [StructuredHinge(), StructuredHinge(2.0), CRF(), Perceptron()], ids=repr
)
@given(**SIZES, known=st.integers(0, 2**5 - 1))
def test_losses_of_trees_known_in_part_are_over_the_trees_that_agree(
    structure_class, loss, trees_of, arc_scores, seed, n, single_root, known
):
    scores = arc_scores(seed, n, "normal")
    structure = structure_class(single_root)
    scores[:, 0] = 0.0
    np.fill_diagonal(scores, 0.0)
    trees = trees_of(n, single_root, structure_class is ProjectiveTree)
    gold = trees.heads[seed % len(trees.heads)].copy()
    gold[[known >> i & 1 == 0 for i in range(n)]] = -1
    assert structure.is_partial(gold) == (gold < 0).any()
    values = trees.scores(scores)
    agree = ((trees.heads == gold) | (gold < 0)).all(axis=1)
    if isinstance(loss, CRF):
        expected = np.logaddexp.reduce(values) - np.logaddexp.reduce(values[agree])
    else:
        weight = getattr(loss, "cost_weight", 0.0)
        costs = weight * ((trees.heads != gold) & (gold >= 0)).sum(axis=1)
        expected = (values + costs).max() - values[agree].max()
    value, gradient = loss.value_and_gradient(structure, scores, gold)
    assert_allclose(value, max(expected, 0.0), atol=1e-9)
    if gradient is not None and not isinstance(loss, Perceptron):
        step = 1e-6  # a step against the gradient makes the loss smaller, unless it is flat
        assert (
            loss.value_and_gradient(structure, scores - step * gradient.arcs, gold)[0]
            <= value + 1e-9
        )
