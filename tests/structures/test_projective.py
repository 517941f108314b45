"""Eisner's spans against enumeration of all projective trees."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.exceptions import InputError
from omkl.structures import NonProjectiveTree, ProjectiveTree, _jit_projective

small = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(1, 5),
    "single_root": st.booleans(),
    "kind": st.sampled_from(["plain", "ties", "forbidden", "rooted", "cyclic"]),
    "scale": st.sampled_from([1e-3, 1.0, 30.0, 1e6]),
}


@given(**small)
def test_decoding_finds_the_best_projective_tree(trees_of, arc_scores, seed, n, single_root, kind, scale):
    scores = arc_scores(seed, n, kind, scale)
    trees = trees_of(n, single_root, projective=True)
    best = trees.scores(scores).max()
    structure = ProjectiveTree(single_root)
    if best == -np.inf:
        with pytest.raises(InputError, match="No tree over these"):
            structure.decode(scores)
        return
    decoded = structure.decode(scores)
    assert decoded in trees
    assert_allclose(structure.score(scores, decoded), best, atol=1e-12 * scale)


@given(**small, weight=st.sampled_from([0.5, 1.0, 1e3]))
def test_loss_augmented_decoding_adds_the_cost_of_every_wrong_head(
    trees_of, arc_scores, seed, n, single_root, kind, scale, weight
):
    """Also of a gold tree that is not projective."""
    kind = "plain" if kind == "forbidden" else kind
    scores = arc_scores(seed, n, kind, scale)
    trees = trees_of(n, single_root, projective=True)
    golds = trees_of(n, single_root).heads
    gold = golds[seed % len(golds)]
    structure = ProjectiveTree(single_root)
    augmented = trees.scores(scores) + weight * (trees.heads != gold).sum(axis=1)
    found = structure.loss_augmented(scores, gold, weight)
    assert found in trees
    value = structure.score(scores, found) + weight * structure.cost(gold, found)
    assert_allclose(value, augmented.max(), atol=1e-11 * (scale + weight))


@given(**small)
def test_marginals_and_log_partition_by_enumeration(trees_of, arc_scores, seed, n, single_root, kind, scale):
    scores = arc_scores(seed, n, kind, scale)
    trees = trees_of(n, single_root, projective=True)
    structure = ProjectiveTree(single_root)
    if trees.scores(scores).max() == -np.inf:
        with pytest.raises(InputError, match="No tree over these"):
            structure.marginals(scores)
        return
    log_partition, expected = trees.marginals(scores)
    found, (marginals,) = structure.marginals(scores)
    assert_allclose(found, log_partition, atol=1e-10 + 1e-14 * scale)
    assert_allclose(marginals, expected, atol=1e-10 + 1e-14 * scale)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 25),
    single_root=st.booleans(),
    kind=st.sampled_from(["plain", "ties", "rooted", "cyclic"]),
)
def test_trees_are_projective_and_no_better_than_without_that(projective, arc_scores, seed, n, single_root, kind):
    scores = arc_scores(seed, n, kind)
    heads = ProjectiveTree(single_root).decode(scores)
    assert projective(tuple(heads))
    assert (heads == 0).sum() == 1 or not single_root
    free = NonProjectiveTree(single_root)
    best = free.decode(scores)
    assert free.score(scores, heads) <= free.score(scores, best) + 1e-9
    if projective(tuple(best)):
        assert_allclose(free.score(scores, heads), free.score(scores, best))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), single_root=st.booleans())
def test_a_constant_added_to_a_column_changes_only_the_score(arc_scores, seed, n, single_root):
    scores = np.round(8 * arc_scores(seed, n, "plain"))
    added = np.random.default_rng(seed).integers(-100, 100, size=n + 1)
    structure = ProjectiveTree(single_root)
    assert (structure.decode(scores) == structure.decode(scores + added)).all()
    log_partition, (expected,) = structure.marginals(scores)
    moved, (same,) = structure.marginals(scores + added)
    assert_allclose(moved, log_partition + added[1:].sum(), atol=1e-10)
    assert_allclose(same, expected, atol=1e-11)


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
    n=st.sampled_from([7, 8, 9, 16, 17, 40]),
    single_root=st.booleans(),
    kind=st.sampled_from(["plain", "ties", "rooted", "cyclic", "forbidden"]),
    scale=st.sampled_from([0.1, 1.0, 10.0, 100.0]),
)
def test_sums_of_weights_are_those_of_logs_or_no_answer(arc_scores, seed, n, single_root, kind, scale):
    scores = arc_scores(seed, n, kind, scale)
    by_sums, by_logs = np.zeros(scores.shape), np.zeros(scores.shape)
    found, wanted = (
        marginals(scores, single_root, out)
        for marginals, out in ((_jit_projective.marginals_by_sums, by_sums), (_jit_projective.marginals, by_logs))
    )
    if np.isnan(found):
        assert not by_sums.any()
        assert scale > 1.0 or wanted == -np.inf
        return
    assert_allclose(found, wanted, rtol=1e-13, atol=1e-11)
    assert_allclose(by_sums, by_logs, atol=1e-11)


@pytest.mark.compiled
def test_long_sentences_have_marginals(arc_scores):
    """Too many trees for numbers: logs are taken."""
    scores = arc_scores(0, 400, "plain")
    assert np.isnan(_jit_projective.marginals_by_sums(scores, True, np.zeros(scores.shape)))
    _, (expected,) = ProjectiveTree().marginals(scores)
    assert_allclose(expected[:, 1:].sum(axis=0), 1.0, atol=1e-10)
