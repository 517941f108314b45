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
from numpy.testing import assert_allclose, assert_array_equal

from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.structures import NonProjectiveTree, ProjectiveTree
from omkl.structures.trees import _jit_matrix_tree as matrix_tree
from omkl.structures.trees import _jit_projective

from ..conftest import Trees, draw_scores, reaches_root

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
def test_decoding_finds_the_best_tree(structure_class, seed, n, single_root, kind, scale):
    scores = draw_scores(seed, n, kind, scale)
    structure = structure_class(single_root)
    trees = Trees(n, structure)
    best = trees.scores(scores).max()
    if best == -np.inf:
        with pytest.raises(InputError, match="No tree over these"):
            structure.decode(scores)
        return
    decoded = structure.decode(scores)
    assert decoded in trees
    assert_allclose(
        structure.score(scores, decoded),
        best,
        atol=1e-12 * scale,
    )


@both
@given(**small, weight=st.sampled_from([0.5, 1.0, 1e3]))
def test_loss_augmented_decoding_adds_the_cost_of_every_wrong_head(
    structure_class, seed, n, single_root, kind, scale, weight
):
    """Also of a gold tree that is not projective."""
    kind = "plain" if kind == "forbidden" else kind
    scores = draw_scores(seed, n, kind, scale)
    structure = structure_class(single_root)
    trees = Trees(n, structure)
    golds = Trees(n, NonProjectiveTree(single_root)).heads
    gold = golds[seed % len(golds)]
    augmented = trees.scores(scores) + weight * (trees.heads != gold).sum(axis=1)
    rival = structure.loss_augmented(scores, gold, weight)
    assert rival in trees
    value = structure.score(scores, rival) + weight * structure.cost(gold, rival)
    assert_allclose(
        value,
        augmented.max(),
        atol=1e-11 * (scale + weight),
    )


@both
@given(**small)
def test_marginals_and_log_partition_by_enumeration(
    structure_class, seed, n, single_root, kind, scale
):
    scores = draw_scores(seed, n, kind, scale)
    structure = structure_class(single_root)
    trees = Trees(n, structure)
    if trees.scores(scores).max() == -np.inf:
        with pytest.raises(InputError, match="No tree over these"):
            structure.marginals(scores)
        return
    expected_log_partition, expected = trees.marginals(scores)
    log_partition, (marginals,) = structure.marginals(scores)
    in_logs = np.zeros_like(expected)
    best = structure.decode(scores)
    log_sum = structure.programs.total_in_logs(scores, best, structure.single_root, in_logs)
    tolerance = 1e-10 + 1e-14 * scale
    assert_allclose([log_partition, log_sum], expected_log_partition, atol=tolerance)
    assert_allclose(marginals, expected, atol=tolerance)
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
    if seed:
        order = np.concatenate([[0], 1 + np.random.default_rng(seed).permutation(n)])
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


each_single_root = pytest.mark.parametrize("single_root", [True, False])


@each_single_root
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
    log_partition, (marginals,) = NonProjectiveTree(single_root).marginals(scores)
    exact_log = math.log(total.numerator) - math.log(total.denominator)
    assert_allclose(log_partition, exact_log, rtol=1e-13)
    for h, m in np.ndindex(n + 1, n + 1):
        if m > 0 and h != m:
            without = [list(row) for row in weights]
            without[h][m] = Fraction(0)
            expected = 1 - laplacian_determinant(without, single_root) / total
            assert_allclose(
                marginals[h, m],
                float(expected),
                rtol=1e-12,
            )


@each_single_root
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


@both
@each_single_root
@pytest.mark.parametrize("magnitude", [1e6, 1e12, 1e16, 1e20])
def test_sums_of_logs_give_probabilities_at_any_magnitude(structure_class, single_root, magnitude):
    structure = structure_class(single_root)
    scores = magnitude * np.random.default_rng(0).normal(size=(9, 9))
    best = structure.decode(scores)
    probabilities = np.zeros_like(scores)
    structure.programs.total_in_logs(scores, best, single_root, probabilities)
    assert_allclose(probabilities, structure.indicator(best).arcs, atol=1e-12)


@both
def test_an_indicator_is_subtracted_from_any_array(structure_class):
    structure = structure_class()
    for scores in (np.ones((3, 3)), np.ones((3, 3), order="F")):
        structure.subtract_indicator(scores, [0, 1])
        assert_array_equal(scores, 1.0 - structure.indicator([0, 1]).arcs)
    with pytest.raises(InputError, match="must be 2 heads"):
        structure.subtract_indicator(np.ones((3, 3)), [0])


def test_ties_break_towards_the_lower_head_where_the_choice_is_free():
    assert (NonProjectiveTree(single_root=False).decode(np.zeros((6, 6))) == 0).all()
    scores = np.zeros((5, 5))
    scores[0, 1:] = [1.0, -1.0, -1.0, -1.0]
    assert NonProjectiveTree().decode(scores).tolist() == [0, 1, 1, 1]


@both
@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), single_root=st.booleans())
def test_difference_is_that_of_indicators_and_scores(structure_class, seed, n, single_root):
    structure = structure_class(single_root)
    rng = np.random.default_rng(seed)
    scores = draw_scores(seed, n, "plain")
    trees = Trees(n, NonProjectiveTree(single_root)).heads
    predicted, gold = trees[rng.integers(len(trees), size=2)]
    gap, difference = structure.difference(scores, predicted, gold)
    gradient = difference.arcs
    expected = structure.score(scores, predicted) - structure.score(scores, gold)
    assert_allclose(gap, expected, atol=1e-12)
    assert_allclose(gradient, structure.indicator(predicted).arcs - structure.indicator(gold).arcs)
    assert structure.cost(gold, predicted) == (gold != predicted).sum()
    structure.subtract_indicator(difference, predicted)
    assert_allclose(gradient, -structure.indicator(gold).arcs)
    assert structure.zeros(n).arcs.shape == scores.shape


@both
@each_single_root
def test_the_log_partition_of_zeros_counts_trees(structure_class, single_root):
    structure = structure_class(single_root)
    for n in (1, 2, 3, 7, 30):
        expected = math.log(n_trees(structure_class, single_root, n))
        log_partition, _ = structure.marginals(structure.zeros(n))
        assert_allclose(log_partition, expected, rtol=1e-12, atol=1e-12)


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
@each_single_root
def test_scores_without_a_tree_and_nan_are_refused(structure_class, single_root):
    structure = structure_class(single_root)
    cases = [(np.zeros(shape), "array of n >= 1 tokens") for shape in ((3,), (3, 4), (1, 1))]
    for arc, bad, message in [
        ((0, 2), np.nan, "finite or -inf"),
        ((1, 2), np.nan, "finite or -inf"),
        ((0, 2), np.inf, "finite or -inf"),
        ((1, 2), np.inf, "finite or -inf"),
        (np.s_[:, 2], -np.inf, "No tree over these 2 tokens"),
    ]:
        scores = np.zeros((3, 3))
        scores[arc] = bad
        cases.append((scores, message))
    for scores, message in cases:
        with pytest.raises(InputError, match=message):
            structure.decode(scores)
        with pytest.raises(InputError, match=message):
            structure.marginals(scores)
        with pytest.raises(InputError, match=message):
            structure.loss_augmented(scores, [0, 1])


@both
@pytest.mark.parametrize("heads", [[0], [0, 3], [0, -1], [1, 0], [0.0, 1.0], [[0, 1]]])
def test_invalid_heads_are_refused(structure_class, heads):
    with pytest.raises(InputError, match="A tree over 2 tokens"):
        structure_class().score(np.zeros((3, 3)), heads)


@each_single_root
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_marginals_at_large_magnitudes_are_those_of_the_best_tree(single_root, scale):
    scores = draw_scores(0, 30, "plain", scale)
    structure = ProjectiveTree(single_root)
    best = structure.decode(scores)
    log_partition, (expected,) = structure.marginals(scores)
    assert_allclose(log_partition, structure.score(scores, best), rtol=1e-6)
    assert_allclose(expected, structure.indicator(best).arcs, atol=1e-6)
    assert_allclose(
        expected[:, 1:].sum(axis=0),
        1.0,
        atol=1e-14,
    )


@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([7, 8, 9, 16, 17]),
    single_root=st.booleans(),
    kind=st.sampled_from(["plain", "ties", "rooted", "cyclic", "forbidden"]),
    scale=st.sampled_from([0.1, 1.0, 10.0, 100.0]),
)
def test_sums_of_weights_are_those_of_logs_or_no_answer(seed, n, single_root, kind, scale):
    scores = draw_scores(seed, n, kind, scale)
    structure = ProjectiveTree(single_root)
    by_sums = np.zeros(scores.shape)
    by_logs = np.zeros(scores.shape)
    log_partition = _jit_projective.marginals(scores, single_root, by_sums)
    if np.isnan(log_partition):
        assert not by_sums.any()
        assert scale > 1.0 or not structure.is_possible(scores)
        return
    best = structure.decode(scores)
    expected = _jit_projective.marginals_in_logs(scores, best, single_root, by_logs)
    assert_allclose(log_partition, expected, rtol=1e-13, atol=1e-11)
    assert_allclose(by_sums, by_logs, atol=1e-11)


@pytest.mark.slow
@pytest.mark.compiled
def test_long_sentences_have_marginals():
    """The number of trees overflows, so sums are in log space."""
    scores = draw_scores(0, 350, "plain")
    assert np.isnan(_jit_projective.marginals(scores, True, np.zeros(scores.shape)))
    _, (expected,) = ProjectiveTree().marginals(scores)
    assert_allclose(
        expected[:, 1:].sum(axis=0),
        1.0,
        atol=1e-10,
    )


SIZES = {"seed": st.integers(0, 2**32 - 1), "n": st.integers(1, 5), "single_root": st.booleans()}
KINDS = st.sampled_from(["normal", "ties", "forbidden", "rooted", "cyclic"])


def possible(trees, scores):
    """Trees without a forbidden arc, and their scores, the best first."""
    values = trees.scores(scores)
    order = np.argsort(-values, kind="stable")
    order = order[values[order] > -np.inf]
    return trees.heads[order], values[order]


@both
@given(**SIZES, kind=KINDS, n_best=st.integers(1, 30))
def test_the_best_trees_come_in_order(structure_class, seed, n, single_root, kind, n_best):
    scores = draw_scores(seed, n, kind)
    structure = structure_class(single_root)
    trees = Trees(n, structure)
    _, values = possible(trees, scores)
    if not len(values):
        with pytest.raises(InputError, match="No tree over these"):
            structure.decode_best(scores, n_best)
        return
    heads, decoded_scores = structure.decode_best(scores, n_best)
    assert_allclose(decoded_scores, values[:n_best], atol=1e-9)
    assert np.array_equal(heads[0], structure.decode(scores))
    assert len({tuple(tree) for tree in heads.tolist()}) == len(heads)
    for tree, value in zip(heads, decoded_scores):
        assert tree in trees
        assert_allclose(structure.score(scores, tree), value, atol=1e-9)


@both
@given(**SIZES, kind=KINDS)
def test_the_tree_of_minimum_risk_has_most_heads_right_in_expectation(
    structure_class, seed, n, single_root, kind
):
    scores = draw_scores(seed, n, kind)
    structure = structure_class(single_root)
    trees = Trees(n, structure)
    heads, values = possible(trees, scores)
    if not len(values):
        return
    probabilities = np.exp(values - values[0]) / np.exp(values - values[0]).sum()
    right = (heads[:, None] == heads[None]).sum(axis=2) @ probabilities
    chosen = structure.decode_marginals(scores)
    assert_allclose(
        (heads == chosen).sum(axis=1) @ probabilities,
        right.max(),
        atol=1e-9,
    )
    assert (heads == chosen).all(axis=1).any()


@both
@pytest.mark.parametrize(
    "loss", [StructuredHinge(), StructuredHinge(2.0), CRF(), Perceptron()], ids=repr
)
@given(**SIZES, labelled=st.integers(0, 2**5 - 1))
def test_losses_of_trees_known_in_part_are_over_the_trees_that_agree(
    structure_class, loss, seed, n, single_root, labelled
):
    scores = draw_scores(seed, n, "normal")
    structure = structure_class(single_root)
    scores[:, 0] = 0.0
    np.fill_diagonal(scores, 0.0)
    trees = Trees(n, structure)
    gold = trees.heads[seed % len(trees.heads)].copy()
    gold[labelled >> np.arange(n) & 1 == 0] = -1
    assert structure.is_partial(gold) == (gold < 0).any()
    value, gradient = loss.value_and_gradient(structure, scores, gold)
    assert_allclose(value, enumerated_loss(loss, trees, scores, gold), atol=1e-9)
    if gradient is not None and not isinstance(loss, Perceptron):
        # a step against the gradient makes the loss smaller, unless it is flat
        lower, _ = loss.value_and_gradient(
            structure,
            scores - 1e-6 * gradient.arcs,
            gold,
        )
        assert lower <= value + 1e-9


def enumerated_loss(loss, trees, scores, gold):
    """Return the loss of a partial tree: over all trees, less over those that agree with it."""
    values = trees.scores(scores)
    agree = ((trees.heads == gold) | (gold < 0)).all(axis=1)
    if isinstance(loss, CRF):
        return np.logaddexp.reduce(values) - np.logaddexp.reduce(values[agree])
    weight = getattr(loss, "cost_weight", 0.0)
    costs = weight * ((trees.heads != gold) & (gold >= 0)).sum(axis=1)
    return max((values + costs).max() - values[agree].max(), 0.0)
