"""N best trees, trees of minimum risk, and partially known trees, against enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.structures import NonProjectiveTree, ProjectiveTree

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
def test_the_best_trees_come_in_order(structure_class, trees_of, arc_scores, seed, n, single_root, kind, n_best):
    scores, structure = arc_scores(seed, n, kind), structure_class(single_root)
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
    scores, structure = arc_scores(seed, n, kind), structure_class(single_root)
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
@pytest.mark.parametrize("loss", [StructuredHinge(), StructuredHinge(2.0), CRF(), Perceptron()], ids=repr)
@given(**SIZES, known=st.integers(0, 2**5 - 1))
def test_losses_of_trees_known_in_part_are_over_the_trees_that_agree(
    structure_class, loss, trees_of, arc_scores, seed, n, single_root, known
):
    scores, structure = arc_scores(seed, n, "normal"), structure_class(single_root)
    scores[:, 0] = 0.0
    np.fill_diagonal(scores, 0.0)
    trees = trees_of(n, single_root, structure_class is ProjectiveTree)
    gold = trees.heads[seed % len(trees.heads)].copy()
    gold[[known >> i & 1 == 0 for i in range(n)]] = -1
    assert structure.is_partial(gold) == (gold < 0).any()
    values, agree = trees.scores(scores), ((trees.heads == gold) | (gold < 0)).all(axis=1)
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
        assert loss.value_and_gradient(structure, scores - step * gradient.arcs, gold)[0] <= value + 1e-9
