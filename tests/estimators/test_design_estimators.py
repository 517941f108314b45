"""GroupLasso and SparseLogisticRegression: scikit-learn's checks, what they learn, and what they refuse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import omkl
from omkl import GroupLasso, SparseLogisticRegression
from omkl.exceptions import InputError


@parametrize_with_checks([
    GroupLasso(),
    GroupLasso(loss="huber", regularizer="elastic-net"),
    SparseLogisticRegression(),
    SparseLogisticRegression(loss="squared-hinge", regularizer="elastic-net"),
])  # fmt: skip
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


def test_without_groups_it_is_the_lasso(diabetes):
    X, y = diabetes
    ours = GroupLasso(C=5.0 * len(y), tol=1e-9).fit(X, y)
    theirs = Lasso(alpha=5.0, tol=1e-10).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-6)
    assert ours.dual_gap_ <= 1e-9


@pytest.mark.parametrize("kind", ["float32", "Fortran order", "CSC", "CSR", "operator"])
def test_every_kind_of_design_gives_the_same_model(diabetes, kind):
    X, y = diabetes
    convert = {
        "float32": lambda X: X.astype(np.float32), "Fortran order": np.asfortranarray, "CSC": sparse.csc_array,
        "CSR": sparse.csr_array, "operator": aslinearoperator,
    }[kind]  # fmt: skip
    reference = GroupLasso(C=500.0, tol=1e-8).fit(X, y)
    model = GroupLasso(C=500.0, tol=1e-8).fit(convert(X), y)
    assert_allclose(model.coef_, reference.coef_, atol=1e-3 if kind == "float32" else 1e-4)
    assert_allclose(model.predict(convert(X)), reference.predict(X), rtol=1e-4)


def test_groups_are_chosen_as_a_whole_and_may_be_labels_or_lists(diabetes):
    X, y = diabetes
    lists = [[0, 2, 4, 6, 8], [1, 3], [5, 7, 9]]
    labels = np.array(list("acababacab"))
    labels[[0, 2, 4, 6, 8]], labels[[1, 3]], labels[[5, 7, 9]] = "a", "b", "c"
    by_list = GroupLasso(lists, C=12000.0, tol=1e-8).fit(X, y)
    by_label = GroupLasso(labels, C=12000.0, tol=1e-8).fit(X, y)
    assert_allclose(by_list.coef_, by_label.coef_, atol=1e-6)
    chosen = [bool(by_list.coef_[group].any()) for group in lists]
    assert 0 < sum(chosen) < 3
    for group, is_chosen in zip(lists, chosen):
        assert np.count_nonzero(by_list.coef_[group]) == (len(group) if is_chosen else 0)


def test_weights_by_size_are_weights(diabetes):
    X, y = diabetes
    groups = [[0, 2, 4, 6, 8], [1, 3], [5, 7, 9]]
    named = GroupLasso(groups, C=4000.0, group_weights="sqrt-size", tol=1e-8).fit(X, y)
    given = GroupLasso(groups, C=4000.0, group_weights=np.sqrt([5, 2, 3]), tol=1e-8).fit(X, y)
    assert_array_equal(named.coef_, given.coef_)


def test_many_classes_are_one_against_the_rest():
    X, y = load_iris(return_X_y=True)
    model = SparseLogisticRegression(C=1.0, tol=1e-6).fit(X, y)
    second = SparseLogisticRegression(C=1.0, tol=1e-6).fit(X, y == 1)
    assert model.coef_.shape == (3, 4)
    assert_array_equal(model.coef_[1], second.coef_[0])
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.9
    assert_allclose(second.predict_proba(X)[:, 1], 1 / (1 + np.exp(-second.decision_function(X))))
    assert not hasattr(SparseLogisticRegression(loss="squared-hinge"), "predict_proba")


@pytest.mark.parametrize("solver", ["dal", "sparsa"])
def test_a_path_is_the_separate_fits(cancer, solver):
    X, y = cancer
    path = SparseLogisticRegression(tol=1e-5, solver=solver).path(X, y, C=6)
    assert path[0]["active"] == 0
    assert [record["C"] for record in path] == sorted((record["C"] for record in path), reverse=True)
    for record in path[1:]:
        separate = SparseLogisticRegression(C=record["C"], tol=1e-5).fit(X, y)
        losses = np.logaddexp(0, -(2 * y - 1) * separate.decision_function(X))
        objective = losses.sum() + record["C"] * np.abs(separate.coef_).sum()
        assert_allclose(record["objective"], objective, rtol=2e-5)
        assert record["dual_gap"] <= 1e-5
        assert record["active"] == np.count_nonzero(record["coef"])


def test_a_warm_start_saves_work(cancer):
    X, y = cancer
    model = SparseLogisticRegression(C=1.0, tol=1e-6, warm_start=True).fit(X, y)
    first = model.coef_.copy()
    model.fit(X, y)
    assert model.history_[0][0]["gap"] <= 1e-6
    assert_array_equal(model.coef_, first)


@pytest.mark.parametrize("model", [GroupLasso(C=20.0, group_weights="sqrt-size"), SparseLogisticRegression(C=2.0)])
def test_a_saved_model_predicts_the_same_bits(cancer, model, tmp_path):
    X, y = cancer
    model.set_params(groups=np.arange(X.shape[1]) // 3).fit(X, y).save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    assert type(loaded) is type(model)
    assert_array_equal(loaded.predict(X), model.predict(X))
    assert_array_equal(loaded.coef_, model.coef_)
    assert loaded.C == model.C
    assert loaded.dual_gap_ == model.dual_gap_
    assert_array_equal(loaded.groups, model.groups)


def test_it_works_in_pipelines_and_searches():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SparseLogisticRegression())
    search = GridSearchCV(pipeline, {"sparselogisticregression__C": [1.0, 300.0]}, cv=3).fit(X, y)
    assert search.best_params_ == {"sparselogisticregression__C": 1.0}
    assert search.best_score_ > 0.95


def test_stopping_early_warns_and_tells_the_gap(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* above tol=1e-06"):
        model = SparseLogisticRegression(C=1.0, solver="ist", tol=1e-6, max_iter=3).fit(X, y)
    assert model.dual_gap_ > 1e-6


def test_a_constant_target_is_learned_with_a_warning(diabetes):
    X, _ = diabetes
    with pytest.warns(UserWarning, match="y is constant"):
        model = GroupLasso().fit(X, np.full(len(X), 0.1))
    assert_array_equal(model.predict(X), 0.1)
    assert model.dual_gap_ == 0.0


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GroupLasso(C=0.0), "C must be a finite number > 0"),
        (GroupLasso(C=-1.0), "C must be a finite number > 0"),
        (GroupLasso(tol=0.0), "tol must be"),
        (GroupLasso(groups=[0, 1]), "one label for each of the 10 columns"),
        (GroupLasso(groups=[[0, 1], [1, 2]]), "each of the 10 columns exactly once"),
        (GroupLasso(group_weights=[1.0, 2.0]), "10 finite numbers > 0"),
        (GroupLasso(group_weights="size"), "sqrt-size"),
        (GroupLasso(loss="hinge"), "classification"),
        (GroupLasso(loss="epsilon-insensitive"), "has a kink"),
        (GroupLasso(regularizer="l2"), "selects no groups"),
        (GroupLasso(solver="cd"), "Unknown solver"),
        (SparseLogisticRegression(loss="squared"), "regression"),
        (SparseLogisticRegression(loss="hinge"), "has a kink"),
    ],
)
def test_bad_parameters_are_refused(diabetes, model, message):
    X, y = diabetes
    with pytest.raises(InputError, match=message):
        model.fit(X, y > 150 if isinstance(model, SparseLogisticRegression) else y)


def test_one_class_is_refused(diabetes):
    X, _ = diabetes
    with pytest.raises(InputError, match="one class only"):
        SparseLogisticRegression().fit(X, np.ones(len(X)))


def test_a_path_leaves_a_fitted_model_as_it_was():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    model = SparseLogisticRegression().fit(X, X[:, 0] > 0)
    before = model.predict(X)
    model.path(X[:, :3], np.where(X[:, 1] > 0, "yes", "no"), C=3)
    np.testing.assert_array_equal(model.predict(X), before)
