"""MKLClassifier and MKLRegressor: scikit-learn's checks, what they learn, and what they refuse."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import xlogy
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.utils.estimator_checks import parametrize_with_checks

import omkl
from omkl import MKLClassifier, MKLRegressor
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, Linear


@parametrize_with_checks([MKLClassifier(), MKLRegressor(), MKLClassifier(loss="hinge", multiclass="ovo")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:120], y[:120]


KERNELS = {
    "narrow": Gaussian(2.0),
    "wide": Gaussian(50.0),
    "linear": Linear(normalize="average"),
    "first": "gaussian:on=0:3",
}


def grams_of(X, Y):
    kernels = [omkl.kernels.as_kernel(kernel) for kernel in KERNELS.values()]
    columns = [slice(None) if kernel.on is None else kernel.on for kernel in kernels]
    return [kernel.fit(X[:, on])(Y[:, on], X[:, on]) for kernel, on in zip(kernels, columns)]


@pytest.mark.parametrize("solver", ["spicy", "simplemkl", "gmkl", "silp", "levelmkl", "hessianmkl", "lp-norm"])
def test_one_kernel_is_a_support_vector_machine(cancer, solver):
    """One kernel of squared norm: whatever the solver, the hinge gives the SVM with cost 1 / C."""
    X, y = cancer
    svm = SVC(C=2.0, gamma=1 / 20, tol=1e-8).fit(X, y)
    regularizer = "uniform" if solver == "spicy" else "mkl"
    model = MKLClassifier([Gaussian(10.0)], "hinge", regularizer, C=2.0, solver=solver, tol=1e-6, dtype="float64")
    assert_allclose(model.fit(X, y).decision_function(X), svm.decision_function(X), atol=5e-3)
    assert model.dual_gap_ <= 1e-6


def test_uniform_regression_is_support_vector_regression(cancer):
    X, _ = cancer
    y = np.sin(X[:, 0])
    svm = SVR(C=2.0, gamma=1 / 20, epsilon=0.05, tol=1e-8).fit(X, y)
    model = MKLRegressor(
        [Gaussian(10.0)], "epsilon-insensitive:epsilon=0.05", "uniform", 2.0, tol=1e-7, dtype="float64"
    )
    assert_allclose(model.fit(X, y).predict(X), svm.predict(X), atol=5e-3)


@pytest.mark.parametrize("as_array", [True, False])
def test_matrices_give_the_model_that_kernels_give(cancer, as_array):
    X, y = cancer
    train, test = np.arange(80), np.arange(80, 120)
    model = MKLClassifier(KERNELS, C=2.0, dtype="float64", tol=1e-6).fit(X[train], y[train])
    grams = grams_of(X[train], X[train])
    given = MKLClassifier("precomputed", C=2.0, dtype="float64", tol=1e-6)
    given.fit(np.array(grams) if as_array else grams, y[train])
    assert_allclose(list(given.kernel_weights_.values()), list(model.kernel_weights_.values()), atol=1e-3)
    cross = grams_of(X[train], X[test])
    assert_allclose(given.decision_function(cross), model.decision_function(X[test]), atol=1e-2)
    only_active = [matrix if weight > 0 else None for matrix, weight in zip(cross, given.kernel_weights_.values())]
    assert_array_equal(given.decision_function(only_active), given.decision_function(cross))


def test_prediction_is_the_expansion(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS, C=2.0, dtype="float64").fit(X, y)
    expected = model.intercept_[0] + sum(K @ a for K, a in zip(grams_of(X, X), model.dual_coef_))
    assert_allclose(model.decision_function(X), expected, atol=1e-10)
    assert model.dual_coef_.shape == (4, 120)
    assert model.n_active_ == np.count_nonzero(np.abs(model.dual_coef_).sum(axis=1))


def test_block_norm_is_sparse_and_uniform_is_not(cancer):
    X, y = cancer
    kernels = {f"column {j}": Gaussian(1.0, on=slice(j, j + 1)) for j in range(30)}
    sparse = MKLClassifier(kernels, C=0.3).fit(X, y)
    dense = MKLClassifier(kernels, regularizer="uniform", C=0.3).fit(X, y)
    assert 0 < sparse.n_active_ < 20
    assert dense.n_active_ == 30
    assert_allclose(sum(sparse.kernel_weights_.values()), 1.0)
    assert all(weight == pytest.approx(1 / 30) for weight in dense.kernel_weights_.values())


def test_no_kernel_is_active_at_the_smallest_C(cancer):
    X, y = cancer
    path = MKLClassifier(KERNELS, dtype="float64", tol=1e-4).path(X, y, C=12)
    assert path[0]["active"] == 0
    assert path[-1]["active"] > 0
    assert all(record["dual_gap"] <= 1e-4 for record in path)
    strengths = [record["C"] for record in path]
    assert strengths == sorted(strengths)
    for record in path[::4]:
        alone = MKLClassifier(KERNELS, C=record["C"], dtype="float64", tol=1e-4).fit(X, y)
        assert alone.history_[0][-1]["primal"] == pytest.approx(record["objective"], rel=2e-4)


def test_a_path_leaves_a_fitted_model_as_it_was(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS).fit(X, y)
    before = model.predict(X)
    model.path(X[:, :10], np.where(y == 1, "yes", "no"), C=3)
    assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("C", [0, -1.0, [1.0, np.nan], []])
def test_a_path_needs_strengths(cancer, C):
    with pytest.raises(InputError, match="number of strengths"):
        MKLClassifier(KERNELS).path(*cancer, C=C)


@pytest.mark.parametrize("multiclass", ["ovr", "ovo"])
def test_several_classes(multiclass):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MKLClassifier(["linear", "gaussian"], C=10.0, multiclass=multiclass).fit(X, names)
    assert model.score(X, names) > 0.95
    assert model.decision_function(X).shape == (150, 3)
    assert model.dual_coef_.shape == (3, 2, 150)
    assert hasattr(model, "predict_proba") == (multiclass == "ovr")


def test_probabilities_are_those_of_the_logistic_loss(cancer):
    X, y = cancer
    model = MKLClassifier(KERNELS, C=10.0).fit(X, y)
    probabilities = model.predict_proba(X)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_allclose(np.log(probabilities[:, 1] / probabilities[:, 0]), model.decision_function(X), atol=1e-8)
    assert not hasattr(MKLClassifier(loss="hinge").fit(X, y), "predict_proba")


def test_in_a_pipeline_and_a_grid(cancer):
    X, y = cancer
    pipeline = make_pipeline(StandardScaler(), MKLClassifier(["linear", "gaussian"]))
    search = GridSearchCV(pipeline, {"mklclassifier__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9


@pytest.mark.parametrize("kernels", [KERNELS, "precomputed", None], ids=["kernels", "precomputed", "default"])
def test_a_saved_model_predicts_the_same_bits(cancer, kernels, tmp_path):
    X, y = cancer
    train, test = (grams_of(X, X), grams_of(X, X[:30])) if kernels == "precomputed" else (X, X[:30])
    model = MKLClassifier(kernels, C=2.0).fit(train, y)
    model.save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    assert_array_equal(loaded.decision_function(test), model.decision_function(test))
    assert loaded.kernel_weights_ == model.kernel_weights_
    assert loaded.get_params()["C"] == 2.0
    assert_array_equal(loaded.predict(test), model.predict(test))


def test_a_saved_one_vs_one_model_and_a_regressor(tmp_path):
    X, y = load_iris(return_X_y=True)
    for model in (MKLClassifier(["gaussian"], multiclass="ovo"), MKLRegressor(["gaussian", "linear"], C=10.0)):
        model.fit(X, y).save(tmp_path / "model.npz")
        assert_array_equal(omkl.load(tmp_path / "model.npz").predict(X), model.predict(X))


def test_stopping_early_warns_and_tells_the_gap(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* above tol=1e-06"):
        model = MKLClassifier(KERNELS, "logistic", solver="ista", tol=1e-6, max_iter=5, dtype="float64").fit(X, y)
    assert model.dual_gap_ > 1e-6


def test_the_gap_is_that_of_the_stored_model(cancer):
    """The certificate, verified from public attributes and the definition of the dual alone."""
    X, y = cancer
    grams = np.array(grams_of(X, X))
    model = MKLClassifier("precomputed", C=2.0, dtype="float64", tol=1e-5).fit(grams, y)
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
    ("settings", "message"),
    [
        ({"C": 0.0}, "C must be"),
        ({"tol": -1.0}, "tol must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"loss": "squared"}, "loss of regression"),
        ({"loss": "log"}, "Unknown loss"),
        ({"solver": "newton"}, "Unknown solver"),
        ({"regularizer": "mkl", "solver": "one-step"}, "needs a regularizer with a smooth dual"),
        ({"solver": "one-step", "regularizer": "block1"}, "smooth dual"),
        ({"solver": "simplemkl", "regularizer": "block1", "loss": "hinge"}, "simplex"),
        ({"multiclass": "all"}, "multiclass"),
        ({"dtype": "int8"}, "dtype"),
        ({"kernels": []}, "at least one kernel"),
        ({"kernels": ["gaussian:on=7:7"]}, "selects columns"),
        ({"kernels": ["gaussian", "gaussian"]}, "Two kernels"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(cancer, settings, message):
    X, y = cancer
    with pytest.raises(InputError, match=message):
        MKLClassifier(**settings).fit(X, y)


def with_entry(gram, value):
    gram = gram.copy()
    gram[0, 1] = value
    return gram


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda K: K[:-1, :-1], "Kernel 1 has shape"),
        (lambda K: with_entry(K, 7.0), "Kernel 1 is not symmetric"),
        (lambda K: with_entry(K, np.nan), "Kernel 1 has entries that are not finite"),
        (lambda K: K - np.eye(len(K)), "Kernel 1 is not positive semidefinite: its smallest eigenvalue is -"),
    ],
)
def test_matrices_that_are_no_kernels_are_named(cancer, spoil, message):
    X, y = cancer
    good = grams_of(X, X)[1]
    with pytest.raises(InputError, match=message):
        MKLClassifier("precomputed").fit([good, spoil(good), good], y)


def test_other_bad_input(cancer):
    X, y = cancer
    with pytest.raises(InputError, match="one class only"):
        MKLClassifier().fit(X, np.ones(len(X)))
    with pytest.raises(InputError, match="list of M arrays"):
        MKLClassifier("precomputed").fit(X, y)
    with pytest.raises(InputError, match="finite"):
        MKLRegressor("precomputed").fit(grams_of(X, X), np.full(len(X), np.nan))
    with pytest.raises(NotFittedError, match="not fitted"):
        MKLClassifier().predict(X)
    model = MKLClassifier("precomputed", C=2.0).fit(grams_of(X, X), y)
    with pytest.raises(InputError, match="3 matrices"):
        model.predict(grams_of(X, X)[:3])
    with pytest.raises(InputError, match="test and training samples"):
        model.predict([matrix[:, :5] for matrix in grams_of(X, X)])


def test_a_constant_target_is_said_to_be_one(cancer):
    X, _ = cancer
    with pytest.warns(UserWarning, match="y is constant"):
        model = MKLRegressor(["gaussian"]).fit(X, np.full(len(X), 3.0))
    assert_allclose(model.predict(X), 3.0)


def test_kernels_that_do_not_fit_into_memory_are_computed_again_and_again(cancer, monkeypatch):
    X, y = cancer
    plain = MKLClassifier(KERNELS, C=2.0, tol=1e-4, dtype="float64").fit(X, y)
    monkeypatch.setattr("omkl.estimators.representations.packed_bytes_fit", lambda *_: False)
    with pytest.warns(omkl.exceptions.MemoryWarning, match="every pass"):
        lazy = MKLClassifier(KERNELS, C=2.0, tol=1e-4, dtype="float64").fit(X, y)
    assert_allclose(lazy.decision_function(X), plain.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("solver", ["spicy", "one-step", "ista", "fista", "silp", "simplemkl", "levelmkl", "hessianmkl",
                                    "gmkl", "lp-norm"])  # fmt: skip
def test_every_solver_has_a_regularizer_of_its_own(cancer, solver):
    X, y = cancer
    loss = "hinge" if solver not in ("ista", "fista") else "logistic"
    model = MKLClassifier(KERNELS, loss, C=2.0, solver=solver, tol=0.05).fit(X, y)
    assert model.dual_gap_ <= 0.05
    assert model.score(X, y) > 0.9


def test_fitting_twice_gives_the_same_bits(cancer):
    X, y = cancer
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (MKLClassifier(KERNELS, C=2.0).fit(X, y) for _ in range(2))
    assert_array_equal(first.dual_coef_, second.dual_coef_)
