"""Projective trees against non-projective ones, and sums of weights against log space."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.structures import ProjectiveTree, _jit_projective, log_space


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
def test_sums_of_weights_are_those_of_logs_or_no_answer(arc_scores, seed, n, single_root, kind, scale):
    scores, structure = arc_scores(seed, n, kind, scale), ProjectiveTree(single_root)
    by_sums, by_logs = np.zeros(scores.shape), np.zeros(scores.shape)
    found = _jit_projective.marginals(scores, single_root, by_sums)
    if np.isnan(found):
        assert not by_sums.any()
        assert scale > 1.0 or not structure.is_possible(scores)
        return
    assert_allclose(found, log_space.projective_trees(scores, single_root, by_logs), rtol=1e-13, atol=1e-11)
    assert_allclose(by_sums, by_logs, atol=1e-11)


@pytest.mark.compiled
def test_long_sentences_have_marginals(arc_scores):
    """The number of trees overflows, so sums are in log space."""
    scores = arc_scores(0, 350, "plain")
    assert np.isnan(_jit_projective.marginals(scores, True, np.zeros(scores.shape)))
    _, (expected,) = ProjectiveTree().marginals(scores)
    assert_allclose(expected[:, 1:].sum(axis=0), 1.0, atol=1e-10)
