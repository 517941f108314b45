"""Poisson loss and offsets, against other solvers."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import r2_score

from omkl import GroupLasso, GroupLassoCV, MKLRegressor, OnlineMKLRegressor, SparseLogisticRegression
from omkl.exceptions import InputError

GROUPS = np.arange(12) // 3


@pytest.fixture(scope="module")
def counts():
    """Draw a design, counts, and the logarithms of their exposures."""
    rng = np.random.default_rng(0)
    X, exposure = rng.normal(size=(120, 12)), rng.uniform(0.5, 4, 120)
    return X, rng.poisson(exposure * np.exp(0.6 * X[:, 0] - 0.4 * X[:, 1] + 0.3)).astype(float), np.log(exposure)


@pytest.mark.parametrize("solver", ["dal", "sparsa"])
def test_a_ridge_of_counts_is_that_of_scikit_learn(counts, solver):
    X, y, _ = counts
    ours = GroupLasso(0.1, loss="poisson", regularizer="ridge", solver=solver, tol=1e-9).fit(X, y)
    theirs = PoissonRegressor(alpha=0.1, tol=1e-10, max_iter=1000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-3)


@pytest.mark.parametrize("intercept", [True, False])
def test_groups_of_counts_with_exposures_are_those_of_a_convex_solver(counts, intercept):
    X, y, offset = counts
    model = GroupLasso(0.3, groups=GROUPS, loss="poisson", fit_intercept=intercept, tol=1e-9).fit(X, y, offset=offset)
    w, b = cp.Variable(12), cp.Variable() if intercept else 0.0
    z = X @ w + b + offset
    loss = cp.sum(cp.exp(z) - cp.multiply(y, z)) / 120
    cp.Problem(cp.Minimize(loss + 0.3 * sum(cp.norm(w[g == GROUPS]) for g in range(4)))).solve(solver="CLARABEL")
    assert model.dual_gap_ <= 1e-9
    assert 0 < np.count_nonzero(model.coef_) < 12
    assert_allclose(model.coef_, w.value, atol=1e-4)
    assert_allclose(model.predict(X, offset=offset), np.exp(z.value), rtol=1e-3)
    assert model.score(X, y, offset=offset) == r2_score(y, model.predict(X, offset=offset)) != model.score(X, y)


@pytest.mark.parametrize("loss", ["squared", "huber", "epsilon-insensitive"])
def test_an_offset_is_a_shift_of_targets(counts, loss):
    X, y, offset = counts
    shifted = GroupLasso(0.05, loss=loss, tol=1e-8).fit(X, y, offset=offset)
    plain = GroupLasso(0.05, loss=loss, tol=1e-8).fit(X, y - offset)
    assert_allclose(shifted.coef_, plain.coef_, atol=1e-3)
    assert_allclose(shifted.predict(X, offset=offset), plain.predict(X) + offset, atol=1e-2)


def test_an_offset_of_scores_is_a_column_whose_coefficient_is_known(counts):
    X, y, offset = counts
    labels, known = np.where(y > 1, "many", "few"), 0.7 * X[:, 5] + offset
    ours = SparseLogisticRegression(0.02, tol=1e-9).fit(X, labels, offset=known)
    w, b = cp.Variable(12), cp.Variable()
    signs = np.where(y > 1, 1.0, -1.0)
    loss = cp.sum(cp.logistic(-cp.multiply(signs, X @ w + b + known))) / 120
    cp.Problem(cp.Minimize(loss + 0.02 * cp.norm1(w))).solve(solver="CLARABEL")
    assert_allclose(ours.coef_[0], w.value, atol=1e-4)
    scores = ours.decision_function(X, offset=known)
    assert_allclose(scores, X @ w.value + b.value + known, atol=1e-3)
    assert_array_equal(ours.predict(X, offset=known), np.where(scores > 0, "many", "few"))
    assert_allclose(ours.predict_proba(X, offset=known)[:, 1], 1 / (1 + np.exp(-scores)))
    assert ours.score(X, labels, offset=known) == np.mean(ours.predict(X, offset=known) == labels)
    unregularized = SparseLogisticRegression(1e-9, tol=1e-9).fit(X[:, :2], labels, offset=np.zeros(120))
    assert_allclose(unregularized.coef_, LogisticRegression(C=np.inf).fit(X[:, :2], labels).coef_, atol=1e-3)


def test_every_class_may_have_an_offset_of_its_own(counts):
    X, y, offset = counts
    labels = np.minimum(y, 2).astype(int)
    offsets = np.column_stack([offset, -offset, 0 * offset])
    together = SparseLogisticRegression(0.02, tol=1e-7).fit(X, labels, offset=offsets)
    alone = SparseLogisticRegression(0.02, tol=1e-7).fit(X, labels == 1, offset=-offset)
    assert_array_equal(together.coef_[1], alone.coef_[0])
    assert_allclose(together.decision_function(X, offset=offsets) - together.decision_function(X), offsets, atol=1e-12)


def test_a_path_and_cross_validation_know_the_offset(counts):
    X, y, offset = counts
    path = GroupLasso(loss="poisson", groups=GROUPS, tol=1e-6).path(X, y, 5, offset=offset)
    assert path[0]["active"] == 0
    one = GroupLasso(path[3]["alpha"], loss="poisson", groups=GROUPS, tol=1e-6).fit(X, y, offset=offset)
    assert_allclose(path[3]["coef"], one.coef_, atol=1e-3)
    chosen = GroupLassoCV(5, loss="poisson", groups=GROUPS, cv=3, scoring="neg_mean_poisson_deviance")
    chosen.fit(X, y, offset=offset, sample_weight=np.where(np.arange(120) < 10, 0.0, 1.0))
    refit = GroupLasso(chosen.alpha_, loss="poisson", groups=GROUPS).fit(X[10:], y[10:], offset=offset[10:])
    assert_allclose(chosen.coef_, refit.coef_, atol=1e-6)
    own = GroupLassoCV(5, loss="poisson", groups=GROUPS, cv=3, scoring="neg_mean_poisson_deviance").fit(X, y)
    assert own.scores_.mean(axis=0).max() < chosen.scores_.mean(axis=0).max()


def test_bad_counts_and_offsets_are_refused(counts):
    X, y, offset = counts
    with pytest.raises(InputError, match="row 0"):
        GroupLasso(loss="poisson").fit(X, y - 100)
    with pytest.raises(InputError, match="only zeros"):
        GroupLasso(loss="poisson").fit(X, 0 * y)
    for bad in (offset[1:], offset * np.nan, np.column_stack([offset, offset]), "exposure"):
        with pytest.raises(InputError, match="offset"):
            GroupLasso(loss="poisson").fit(X, y, offset=bad)
    for other in (MKLRegressor(["linear"], loss="poisson"), OnlineMKLRegressor(loss="poisson")):
        with pytest.raises(InputError, match="link"):
            other.fit(X, y)
    with pytest.warns(UserWarning, match="y is constant"):
        assert_allclose(GroupLasso(loss="poisson").fit(X, 0 * y + 3).predict(X), 3.0)
