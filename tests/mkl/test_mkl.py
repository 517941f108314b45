"""MKLClassifier and MKLRegressor: scikit-learn's conventions, solutions, weights of classes, saved models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import xlogy
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import Ridge
from sklearn.metrics import recall_score
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from omkl import MKLClassifier, MKLRegressor
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, GramMatrices

from .conftest import KERNELS, grams_of

ITERATIVE = "solved to a tolerance; the columns of transform are the training samples"
WEIGHT_CHECKS = dict.fromkeys(
    (f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")), ITERATIVE
)


@parametrize_with_checks(
    [MKLClassifier(), MKLRegressor(), MKLClassifier(loss="hinge", multiclass="ovr")],
    expected_failed_checks=lambda _: WEIGHT_CHECKS,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize("solver", ["spicy", "simplemkl", "gmkl", "silp", "levelmkl", "hessianmkl", "lp-norm"])
def test_one_kernel_is_a_support_vector_machine(cancer, solver):
    """One kernel of squared norm: whatever the solver, the hinge gives the SVM with cost 1 / C."""
    X, y = cancer
    svm = SVC(C=2.0, gamma=1 / 20, tol=1e-8).fit(X, y)
    regularizer = "uniform" if solver == "spicy" else "mkl"
    model = MKLClassifier(
        [Gaussian(10.0)], loss="hinge", regularizer=regularizer, C=2.0, solver=solver, tol=1e-6, dtype="float64"
    )
    assert_allclose(model.fit(X, y).decision_function(X), svm.decision_function(X), atol=5e-3)
    assert model.dual_gap_ <= 1e-6


def test_block_norm_is_sparse_and_uniform_is_not(cancer):
    X, y = cancer
    kernels = {f"column {j}": Gaussian(1.0, on=slice(j, j + 1)) for j in range(30)}
    sparse = MKLClassifier(kernels, regularizer="block1", C=0.3).fit(X, y)
    dense = MKLClassifier(kernels, regularizer="uniform", C=0.3).fit(X, y)
    assert 0 < sparse.n_active_ < 20
    assert dense.n_active_ == 30
    assert_allclose(sum(sparse.kernel_weights_.values()), 1.0)
    assert all(weight == pytest.approx(1 / 30) for weight in dense.kernel_weights_.values())


def test_no_kernel_is_active_at_the_smallest_C(cancer):
    X, y = cancer
    path = MKLClassifier(KERNELS, regularizer="block1", tol=1e-4).path(X, y, C=12)
    assert path[0]["active"] == 0
    assert path[-1]["active"] > 0
    assert all(record["dual_gap"] <= 1e-4 for record in path)
    values = [record["C"] for record in path]
    assert values == sorted(values)
    for record in path[::4]:
        alone = MKLClassifier(KERNELS, regularizer="block1", C=record["C"], tol=1e-4).fit(X, y)
        assert alone.history_[-1]["primal"] == pytest.approx(record["objective"], rel=2e-4)


def test_a_path_leaves_a_fitted_model_as_it_was(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS).fit(X, y)
    before = model.predict(X)
    model.path(X[:, :10], np.where(y == 1, "yes", "no"), C=3)
    assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("multiclass", ["shared", "ovr"])
def test_several_classes(multiclass):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MKLClassifier(["linear", "gaussian"], C=10.0, multiclass=multiclass).fit(X, names)
    assert model.score(X, names) > 0.95
    assert model.decision_function(X).shape == (150, 3)
    assert model.dual_coef_.shape == (3, 2, 150)


def test_probabilities_are_those_of_the_logistic_loss(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS, C=10.0).fit(X, y)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_allclose(np.log(probabilities[:, 1] / probabilities[:, 0]), model.decision_function(X), atol=1e-8)
    with pytest.raises(AttributeError) as refusal:
        MKLClassifier(loss="hinge").fit(X, y).predict_proba(X)
    assert "has probabilities with loss=\"logistic\", not with loss='hinge'" in str(refusal.value.__cause__)


@pytest.mark.parametrize("kernels", [KERNELS, "precomputed", None], ids=["kernels", "precomputed", "default"])
def test_a_saved_model_predicts_the_same_bits(cancer, kernels, reloaded):
    X, y = cancer
    train, test = (grams_of(X, X), grams_of(X, X[:30])) if kernels == "precomputed" else (X, X[:30])
    model = MKLClassifier(kernels, C=2.0).fit(train, y)
    loaded = reloaded(model)
    assert_array_equal(loaded.decision_function(test), model.decision_function(test))
    assert loaded.kernel_weights_ == model.kernel_weights_
    assert loaded.get_params()["C"] == 2.0
    assert_array_equal(loaded.predict(test), model.predict(test))


def test_the_gap_is_that_of_the_stored_model(cancer):
    """Verify the certificate from public attributes and the definition of the dual."""
    X, y = cancer
    grams = np.array(grams_of(X, X))
    model = MKLClassifier("precomputed", regularizer="block1", C=2.0, tol=1e-5).fit(list(grams), y)
    targets = np.where(y == 1, 1.0, -1.0)
    norms = np.sqrt(np.einsum("mi,mij,mj->m", model.dual_coef_, grams, model.dual_coef_))
    outputs = np.einsum("mij,mj->i", grams, model.dual_coef_) + model.intercept_
    primal = 2.0 * np.logaddexp(0, -targets * outputs).sum() + norms.sum()
    (rho,) = model.dual_variables_
    u = targets * rho / 2.0
    assert 0 <= u.min() <= u.max() <= 1
    assert abs(rho.sum()) < 1e-12
    assert np.sqrt(np.einsum("i,mij,j->m", rho, grams, rho)).max() <= 1 + 1e-9
    dual = -2.0 * (xlogy(u, u) + xlogy(1 - u, 1 - u)).sum()
    assert model.dual_gap_ <= 1e-5
    assert (primal - dual) / primal == pytest.approx(model.dual_gap_, abs=1e-9)


@pytest.mark.parametrize(
    "solver", ["spicy", "one-step", "ista", "fista", "silp", "simplemkl", "levelmkl", "hessianmkl", "gmkl", "lp-norm"]
)
def test_every_solver_has_a_regularizer_of_its_own(cancer, solver):
    X, y = cancer
    loss = "hinge" if solver not in ("ista", "fista") else "logistic"
    model = MKLClassifier(KERNELS, loss=loss, C=2.0, solver=solver, tol=0.05).fit(X, y)
    assert model.dual_gap_ <= 0.05
    assert model.score(X, y) > 0.9


def test_the_defaults_of_regression_predict_as_well_as_ridge():
    X, y = load_diabetes(return_X_y=True)
    ours, ridge = (cross_val_score(model, X, y, cv=3).mean() for model in (MKLRegressor(), Ridge(alpha=0.1)))
    assert ours > ridge - 0.03


def test_weights_on_their_own_scale_are_those_of_citi(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS, loss="hinge", regularizer="elastic-net-weights:eta=0.6", solver="gmkl").fit(X, y)
    theta = np.array(list(model.unscaled_kernel_weights_.values()))
    assert_allclose(0.6 * theta.sum() + 0.4 * theta @ theta, 1.0, rtol=1e-6)
    assert_allclose(theta / theta.sum(), list(model.kernel_weights_.values()))


@pytest.fixture(scope="module")
def few_positives():
    rng = np.random.default_rng(0)
    y = (rng.random(2400) < 0.03).astype(int)
    X = rng.normal(size=(2400, 4))
    X[:, :2] += 1.5 * y[:, None]
    return X[:600], y[:600], X[600:], y[600:]


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_the_few_are_found_at_default_kernels_and_C(loss):
    """The default kernels are not so narrow that they memorize samples."""
    svm, ours = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        for n_columns in (4, 10):
            y = (rng.random(1600) < 0.03).astype(int)
            X = rng.normal(size=(1600, n_columns))
            X[:, :2] += 1.5 * y[:, None]
            found = (
                recall_score(y[400:], model.fit(X[:400], y[:400]).predict(X[400:]))
                for model in (SVC(class_weight="balanced"), MKLClassifier(loss=loss, class_weight="balanced"))
            )
            for values, recall in zip((svm, ours), found):
                values.append(recall)
    assert np.mean(ours) > 0.7 * np.mean(svm)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 0.5, 1: 3.0}, {1: 7.0}])
def test_class_weights_are_those_of_scikit_learn(few_positives, class_weight):
    X, y, new, _ = few_positives
    settings = {"loss": "hinge", "regularizer": "uniform", "tol": 1e-6, "class_weight": class_weight}
    ours = MKLClassifier([Gaussian(10.0)], **settings).fit(X, y).decision_function(new)
    svm = SVC(gamma=0.05, class_weight=class_weight, tol=1e-8).fit(X, y)
    assert_allclose(ours, svm.decision_function(new), atol=5e-3)


@pytest.mark.parametrize(
    "estimator",
    [
        MKLClassifier(KERNELS, C=2.0, tol=1e-7),
        MKLClassifier(KERNELS, loss="hinge", regularizer="block1", tol=1e-6),
        MKLClassifier(KERNELS, loss="hinge", solver="simplemkl", tol=1e-6),
        MKLRegressor(KERNELS, tol=1e-7),
        MKLRegressor(KERNELS, solver="hessianmkl", tol=1e-7),
        MKLRegressor(KERNELS, solver="fista", tol=1e-7),
    ],
    ids=str,
)
@pytest.mark.parametrize("precomputed", [False, True])
def test_whole_weights_are_repetitions_and_zeros_leave_out(cancer, estimator, precomputed):
    X, y = cancer
    y = y if isinstance(estimator, MKLClassifier) else np.sin(X[:, 0])
    train, test = slice(0, 80), slice(80, None)
    weights = np.random.default_rng(0).integers(0, 3, size=80)
    repeated = np.repeat(np.arange(80), weights)
    if precomputed:
        estimator = clone(estimator).set_params(kernels="precomputed")
        grams, cross = GramMatrices(grams_of(X[train], X[train])), GramMatrices(grams_of(X[train], X[test]))
        weighted = clone(estimator).fit(grams, y[train], sample_weight=weights).predict(cross)
        again = clone(estimator).fit(grams[np.ix_(repeated, repeated)], y[repeated])
        expected = again.predict(cross[np.ix_(np.arange(len(X) - 80), repeated)])
    else:
        # kernels that learn nothing from the samples
        estimator = clone(estimator).set_params(kernels=[Gaussian(2.0), Gaussian(50.0)])
        weighted = clone(estimator).fit(X[train], y[train], sample_weight=weights).predict(X[test])
        expected = clone(estimator).fit(X[repeated], y[repeated]).predict(X[test])
    assert_allclose(weighted, expected, atol=2e-3)


def test_a_class_that_is_not_there_has_no_weight(cancer):
    X, y = cancer
    with pytest.raises(InputError, match=r"got \{'yes': 9.0"):
        MKLClassifier(KERNELS, class_weight={"yes": 9.0}).fit(X, y)
    # a fold may lack a class
    MKLClassifier(KERNELS, class_weight={0: 1.0, 1: 2.0, 2: 3.0}).fit(X, y)
