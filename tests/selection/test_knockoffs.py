"""Knockoffs of columns and tokens, and the knockoff+ rule."""

import numpy as np
import pytest
import scipy
from numpy.testing import assert_allclose, assert_array_equal

from omkl.selection.knockoffs import (
    column_knockoffs,
    knockoff_covariance,
    knockoff_threshold,
    resampled,
)


def autoregressive(d, rho):
    return rho ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))


@pytest.mark.parametrize("fdr", [0.1, 0.3])
def test_the_threshold_is_the_smallest_with_few_enough_negative_statistics(fdr, rng):
    for _ in range(30):
        W = np.round(rng.normal(0.8, 1.0, size=25), 1)
        fit = [t for t in set(abs(W)) - {0.0} if (1 + sum(-t >= W)) / max(1, sum(t <= W)) <= fdr]
        assert knockoff_threshold(W, fdr) == min(fit, default=np.inf)
    assert knockoff_threshold(np.zeros(5), fdr) == np.inf


@pytest.mark.parametrize("groups", [np.arange(6), np.array([0, 1, 0, 2, 2, 1])])
def test_knockoffs_have_the_largest_entropy(groups):
    """Compare with a generic solver over the scales of the blocks."""
    covariance = autoregressive(6, 0.6)
    S = knockoff_covariance(covariance, groups)
    blocks = np.where(
        groups[:, None] == groups,
        covariance,
        0.0,
    )

    def loss(logs):
        sign, value = np.linalg.slogdet(2.0 * covariance - blocks * np.exp(logs)[groups])
        return np.inf if sign <= 0 else -value - np.bincount(groups) @ logs

    start = np.full(groups.max() + 1, np.log(0.05))
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999, "maxfev": 9999}
    solution = scipy.optimize.minimize(loss, start, method="Nelder-Mead", options=options)
    assert_allclose(
        S,
        blocks * np.exp(solution.x)[groups],
        rtol=1e-4,
    )
    assert np.linalg.eigvalsh(2.0 * covariance - S).min() > 0.0


def test_swapping_columns_with_their_knockoffs_keeps_all_covariances():
    """Columns with ties, of any distribution: correlations of ranks are those of the originals."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20_000, 4)) @ np.linalg.cholesky(autoregressive(4, 0.7)).T
    X[:, 1] = np.exp(X[:, 1])
    X[:, 2] = np.round(X[:, 2])
    knockoffs = column_knockoffs(X, np.arange(4), rng)
    for column, knockoff in zip(X.T, knockoffs.T):
        assert np.isin(knockoff, column).all()
    correlations = scipy.stats.spearmanr(np.hstack([X, knockoffs])).statistic
    for j in range(4):
        places = np.arange(8)
        places[[j, 4 + j]] = places[[4 + j, j]]
        assert_allclose(
            correlations[np.ix_(places, places)],
            correlations,
            atol=0.03,
        )
    assert max(correlations[j, 4 + j] for j in range(4)) < 0.95  # knockoffs are no copies


def test_donors_are_a_permutation_within_contexts(rng):
    context = rng.integers(3, size=30)
    draws = np.array([resampled(context, rng) for _ in range(3000)])
    assert_array_equal(
        np.sort(draws, axis=1),
        np.tile(np.arange(30), (3000, 1)),
    )
    assert (context[draws] == context).all()
    n_alike = np.bincount(context)[context[0]]
    assert np.mean(draws[:, 0] == 0) == pytest.approx(1.0 / n_alike, abs=0.02)
