"""Linear estimators with sparse groups, groups of weight 0 and nonnegative coefficients."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import ElasticNet, LinearRegression

from omkl import GroupLasso, GroupLassoCV, SparseLogisticRegression
from omkl.exceptions import InputError

GROUPS = [[0, 1], [2, 3], [4, 5, 6, 7], [8, 9]]


@pytest.mark.parametrize("positive", [False, True])
def test_sparse_groups_are_those_of_a_convex_solver(diabetes, positive):
    X, y = diabetes
    model = GroupLasso(
        2.0, groups=GROUPS, regularizer="sparse-group:sigma=0.6", group_weights="sqrt-size", positive=positive, tol=1e-9
    ).fit(X, y)
    w, b = cp.Variable(10), cp.Variable()
    penalty = 0.6 * sum(np.sqrt(len(g)) * cp.norm(w[g]) for g in GROUPS) + 0.4 * cp.norm1(w)
    loss = 0.5 * cp.sum_squares(y - X @ w - b) / len(y)
    cp.Problem(cp.Minimize(loss + 2.0 * penalty), [w >= 0] if positive else []).solve(solver="CLARABEL")
    assert_allclose(model.coef_, w.value, atol=1e-3)
    assert model.dual_gap_ <= 1e-9
    chosen = [np.count_nonzero(model.coef_[group]) for group in GROUPS]
    assert any(0 < count < len(group) for count, group in zip(chosen, GROUPS))


def test_a_positive_elastic_net_agrees_with_scikit_learn(diabetes):
    X, y = diabetes
    ours = GroupLasso(0.5, regularizer="elastic-net:mu=0.4", positive=True, tol=1e-10).fit(X, y)
    theirs = ElasticNet(alpha=0.5, l1_ratio=0.6, positive=True, tol=1e-10, max_iter=10_000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_groups_of_weight_zero_stay_whatever_alpha_is(diabetes, reloaded):
    X, y = diabetes
    weights = [1.0, 0.0, 1.0, 1.0]
    path = GroupLasso(groups=GROUPS, group_weights=weights, tol=1e-8).path(X, y, 4)
    first = LinearRegression().fit(X[:, [2, 3]], y)
    assert path[0]["active"] == 0
    assert_allclose(path[0]["coef"][[2, 3]], first.coef_, rtol=1e-6)
    assert_allclose(path[0]["intercept"], first.intercept_)
    model = GroupLasso(path[2]["alpha"], groups=GROUPS, group_weights=weights, tol=1e-8, warm_start=True).fit(X, y)
    assert_allclose(model.coef_, path[2]["coef"], atol=1e-2)
    assert model.fit(X, y).history_[0]["gap"] <= 1e-7
    assert_allclose(reloaded(model).predict(X), X @ model.coef_ + model.intercept_)
    labels = SparseLogisticRegression(0.05, groups=GROUPS, group_weights=weights).fit(X, y > 150)
    assert np.count_nonzero(labels.coef_[0, [2, 3]]) == 2


def test_alpha_is_chosen_for_sparse_and_positive_groups(diabetes):
    X, y = diabetes
    model = GroupLassoCV(5, groups=GROUPS, regularizer="sparse-group", positive=True, cv=3).fit(X, y)
    assert model.coef_.min() >= 0.0
    assert model.scores_.mean(axis=0).max() > 0.35
    with pytest.raises(InputError, match="dal"):
        GroupLasso(positive=True, solver="sparsa").fit(X, y)
    with pytest.raises(InputError, match="not all 0"):
        GroupLasso(groups=GROUPS, group_weights=np.zeros(4)).fit(X, y)
