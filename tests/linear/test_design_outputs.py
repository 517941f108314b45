"""GroupLasso of several outputs, and multinomial SparseLogisticRegression, against scikit-learn."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import aslinearoperator
from sklearn.base import clone
from sklearn.datasets import load_iris, load_linnerud
from sklearn.linear_model import LogisticRegression, MultiTaskElasticNet, MultiTaskLasso
from sklearn.preprocessing import StandardScaler

from omkl import GroupLasso, GroupLassoCV, SparseLogisticRegression, SparseLogisticRegressionCV
from omkl.exceptions import InputError


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=(100, 30)), np.zeros((30, 4))
    W[:5] = rng.normal(size=(5, 4))
    return X, X @ W + rng.normal(size=(100, 4)) + np.arange(4)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["a", "b", "c"])[y]


def test_single_columns_of_several_outputs_are_the_multi_task_lasso(outputs):
    X, Y = outputs
    ours, theirs = GroupLasso(0.3, tol=1e-9).fit(X, Y), MultiTaskLasso(0.3, tol=1e-10, max_iter=10_000).fit(X, Y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-3)
    assert ours.dual_gap_ <= 1e-9
    elastic = GroupLasso(0.3, regularizer="elastic-net:mu=0.4", tol=1e-9).fit(X, Y)
    theirs = MultiTaskElasticNet(alpha=0.3, l1_ratio=0.6, tol=1e-10, max_iter=10_000).fit(X, Y)
    assert_allclose(elastic.coef_, theirs.coef_, atol=1e-4)


def test_weights_offsets_and_warm_starts_of_several_outputs(outputs, reloaded):
    X, Y = outputs
    weights = np.where(np.arange(100) < 20, 0.0, np.arange(100) % 3 + 1.0)
    twice = GroupLasso(0.3, groups=np.arange(30) // 3, tol=1e-9).fit(
        np.repeat(X, weights.astype(int), axis=0), np.repeat(Y, weights.astype(int), axis=0)
    )
    model = GroupLasso(0.3, groups=np.arange(30) // 3, tol=1e-9, warm_start=True).fit(X, Y, sample_weight=weights)
    assert_allclose(model.coef_, twice.coef_, atol=1e-4)
    assert model.fit(X, Y, sample_weight=weights).history_[0]["gap"] <= 1e-8
    offset = np.random.default_rng(1).normal(size=Y.shape)
    shifted, plain = GroupLasso(0.3, tol=1e-9).fit(X, Y, offset=offset), GroupLasso(0.3, tol=1e-9).fit(X, Y - offset)
    assert_allclose(shifted.predict(X, offset=offset), plain.predict(X) + offset, atol=1e-4)
    assert_array_equal(reloaded(model).predict(X), model.predict(X))
    with pytest.warns(UserWarning, match="constant"):
        assert_allclose(GroupLasso().fit(X, np.tile([1.0, 2.0], (100, 1))).predict(X), np.tile([1.0, 2.0], (100, 1)))


def test_paths_and_cross_validation_of_several_outputs(outputs):
    X, Y = outputs
    path = GroupLasso(tol=1e-7).path(X, Y, 5)
    alone = GroupLasso(path[2]["alpha"], tol=1e-7).fit(X, Y)
    assert_allclose(path[2]["coef"], alone.coef_, atol=1e-3)
    assert path[2]["active"] == np.count_nonzero(alone.coef_.any(axis=0))
    chosen = GroupLassoCV(6, cv=3).fit(X, Y)
    assert chosen.coef_.shape == (4, 30)
    assert set(np.flatnonzero(chosen.coef_.any(axis=0))) >= set(range(5))
    assert chosen.scores_.mean(axis=0).max() > 0.6


def test_multinomial_probabilities_without_penalty_are_those_of_scikit_learn(iris):
    X, y = iris
    # scikit-learn's penalty, of all coefficients' squares, is that of groups of single columns
    ours = SparseLogisticRegression(0.02, multiclass="multinomial", regularizer="ridge", tol=1e-10).fit(X, y)
    theirs = LogisticRegression(C=1 / (0.02 * 150), tol=1e-8, max_iter=1000).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-4)
    assert ours.dual_gap_ <= 1e-10


def test_all_classes_share_the_columns_of_a_multinomial_model(iris):
    X, y = iris
    model = SparseLogisticRegression(0.1, multiclass="multinomial", tol=1e-7, class_weight="balanced").fit(X, y)
    chosen = model.coef_ != 0
    assert (chosen == chosen[0]).all()
    assert 0 < chosen[0].sum() < 4
    assert model.score(X, y) > 0.9
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    best = SparseLogisticRegressionCV(6, multiclass="multinomial", cv=3, scoring="neg_log_loss").fit(X, y)
    assert best.scores_.mean(axis=0).max() > -0.3
    assert best.coef_.shape == (3, 4)


def test_two_classes_are_the_logistic_loss_and_other_losses_are_refused(iris):
    X, y = iris
    two = [SparseLogisticRegression(0.02, multiclass=kind).fit(X, y == "a").coef_ for kind in ("ovr", "multinomial")]
    assert_array_equal(*two)
    with pytest.raises(InputError, match="its own loss"):
        SparseLogisticRegression(loss="hinge", multiclass="multinomial").fit(X, y)
    with pytest.raises(InputError, match="multiclass"):
        SparseLogisticRegression(multiclass="all").fit(X, y)
    with pytest.raises(InputError, match="positive"):
        GroupLasso(positive=True).fit(*load_linnerud(return_X_y=True))


def single_precision(X):
    return np.asfortranarray(X, dtype=np.float32)


@pytest.mark.parametrize("convert", [aslinearoperator, csr_array, csc_array, single_precision])
def test_every_kind_of_design_gives_the_same_models(outputs, convert):
    X, Y = outputs
    weights = np.ones(10)
    weights[3] = 0.0
    options = {"groups": np.arange(30) // 3, "group_weights": weights, "tol": 1e-7}
    for model, y in (
        (GroupLasso(0.2, **options), Y),
        (GroupLasso(0.2, regularizer="sparse-group", positive=True, **options), Y[:, 0]),
        (GroupLasso(0.2, loss="poisson", **options), np.abs(np.round(Y[:, 0]))),
        (SparseLogisticRegression(0.05, multiclass="multinomial", **options), Y.argmax(axis=1)),
        (SparseLogisticRegressionCV([0.1, 0.05], multiclass="multinomial", cv=2, **options), Y.argmax(axis=1)),
    ):
        reference = clone(model).fit(X, y).coef_
        assert_allclose(clone(model).fit(convert(X), y).coef_, reference, atol=2e-3)
