"""GroupLassoCV and SparseLogisticRegressionCV: scikit-learn's grid search as the reference, folds of every design."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_iris
from sklearn.linear_model import LassoCV
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from sklearn.utils.estimator_checks import parametrize_with_checks

from omkl import GroupLasso, GroupLassoCV, SparseLogisticRegression, SparseLogisticRegressionCV
from omkl.exceptions import InputError

GROUPS = [[0, 2, 4, 6, 8], [1, 3], [5, 7, 9]]


@parametrize_with_checks([GroupLassoCV(4, cv=3), SparseLogisticRegressionCV(4, cv=3)])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def scores_of(search):
    return np.array([search.cv_results_[f"split{k}_test_score"] for k in range(search.n_splits_)])


def test_the_lasso_is_that_of_scikit_learn(diabetes):
    X, y = diabetes
    alphas = [30.0, 10.0, 3.0, 1.0, 0.1]
    theirs = LassoCV(alphas=alphas, cv=4, tol=1e-10, max_iter=100_000).fit(X, y)
    ours = GroupLassoCV(alphas, cv=4, scoring="neg_mean_squared_error", tol=1e-9).fit(X, y)
    assert_allclose(-ours.scores_.T, theirs.mse_path_, rtol=1e-5)
    assert ours.alpha_ == theirs.alpha_
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csc_array, sparse.csr_array, aslinearoperator, np.float32])
def test_groups_are_scored_as_grid_search_scores_them_on_designs_of_all_kinds(diabetes, convert):
    X, y = diabetes
    alphas, weights = [20.0, 5.0, 1.0], np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    single = GroupLasso(groups=GROUPS, group_weights="sqrt-size", tol=1e-8)
    search = GridSearchCV(single, {"alpha": alphas}, cv=3).fit(X, y)
    settings = {"groups": GROUPS, "group_weights": "sqrt-size", "cv": 3, "tol": 1e-8}
    model = GroupLassoCV(alphas, **settings).fit(convert(X), y)
    assert_allclose(model.scores_, scores_of(search), atol=1e-4)
    assert model.alpha_ == search.best_params_["alpha"]
    assert_allclose(model.coef_, search.best_estimator_.coef_, atol=1e-2)
    assert [record["alpha"] for record in model.cv_results_] == alphas
    weighted = GroupLassoCV(alphas, **settings, n_jobs=2).fit(convert(X), y, weights)
    kept = GroupLassoCV(alphas, **{**settings, "cv": [(np.arange(200), np.arange(200, 300))]})
    assert weighted.scores_.shape == (3, 3)
    # samples of weight 0 are neither learned from nor scored
    ones = np.where(np.arange(len(y)) < 300, 1.0, 0.0)
    assert_allclose(
        kept.fit(convert(X), y, ones).coef_,
        GroupLasso(kept.alpha_, groups=GROUPS, group_weights="sqrt-size", tol=1e-8).fit(X[:300], y[:300]).coef_,
        atol=1e-2,
    )


@pytest.mark.parametrize("scoring", [None, "neg_log_loss", "roc_auc"])
def test_classes_are_scored_as_grid_search_scores_them(cancer, scoring):
    X, y = cancer
    alphas = [0.1, 0.02, 0.005]
    search = GridSearchCV(SparseLogisticRegression(tol=1e-7), {"alpha": alphas}, cv=3, scoring=scoring).fit(X, y)
    model = SparseLogisticRegressionCV(alphas, tol=1e-7, cv=3, scoring=scoring).fit(X, y)
    assert_allclose(model.scores_, scores_of(search), atol=1e-4)
    assert model.alpha_ == search.best_params_["alpha"]
    assert_array_equal(model.predict(X), search.best_estimator_.predict(X))


@pytest.mark.parametrize("cv", [3, KFold(3)], ids=["stratified", "every fold lacks a class"])
def test_a_class_that_a_fold_lacks_is_never_predicted_in_it(cv):
    X, y = load_iris(return_X_y=True)
    model = SparseLogisticRegressionCV(4, cv=cv).fit(X, np.array(["a", "b", "c"])[y])
    if cv == 3:
        assert model.scores_.max() > 0.9
    else:
        assert_array_equal(model.scores_, 0.0)
    assert model.coef_.shape == (3, 4)


def test_a_number_of_alphas_begins_where_no_column_is_in_the_model(diabetes):
    X, y = diabetes
    model = GroupLassoCV(5, groups=GROUPS).fit(X, y)
    assert model.alphas_.shape == (5,)
    assert model.cv_results_[0]["active"] <= 1
    assert len(GroupLasso(groups=GROUPS).path(X, y, model.alphas_)) == 5
    assert GroupLasso(groups=GROUPS).path(X, y, model.alphas_[:1])[0]["active"] == 0
    assert isinstance(model.path(X, y, 2), list)


def test_a_constant_target_is_learned_and_samples_are_kept_together(diabetes):
    X, y = diabetes
    with pytest.warns(UserWarning, match="y is constant"):
        assert_array_equal(GroupLassoCV([1.0], cv=2).fit(X, np.ones(len(y))).predict(X), 1.0)
    together = np.arange(len(y)) // 50
    model = GroupLassoCV([5.0], cv=GroupKFold(3), tol=1e-8).fit(X, y, sample_groups=together)
    search = GridSearchCV(GroupLasso(tol=1e-8), {"alpha": [5.0]}, cv=GroupKFold(3)).fit(X, y, groups=together)
    assert_allclose(model.scores_, scores_of(search), atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alphas": 0}, "number of values"),
        ({"alphas": [1.0, -1.0]}, "finite and > 0"),
        ({"cv": 1}, "does not cut"),
        ({"cv": []}, "must have folds"),
        ({"scoring": "good"}, "name of a score"),
        ({"scoring": "roc_auc"}, "does not score"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"cv": [([0, 1], [])]}, "must have folds"),
    ],
)
def test_bad_parameters_are_refused(diabetes, settings, message):
    X, y = diabetes
    with pytest.raises(InputError, match=message):
        GroupLassoCV(**settings).fit(X, y)
