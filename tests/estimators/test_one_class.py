"""OneClassMKL: one-class support vector machines with one kernel, what nu means, and which kernels it prefers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM
from sklearn.utils.estimator_checks import parametrize_with_checks

import omkl
from omkl import OneClassMKL
from omkl.exceptions import InputError
from omkl.kernels import Gaussian

from .test_mkl import WEIGHT_CHECKS

KERNELS = {f"columns {j}": Gaussian(2.0, on=slice(j, j + 2)) for j in (0, 2, 4)}


@parametrize_with_checks([OneClassMKL()], expected_failed_checks=lambda _: WEIGHT_CHECKS)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(120, 6))


@pytest.mark.parametrize("nu", [0.1, 0.4, 0.8])
def test_one_kernel_is_the_one_class_support_vector_machine(X, nu):
    model = OneClassMKL([Gaussian(8.0)], nu=nu, tol=1e-6).fit(X)
    svm = OneClassSVM(nu=nu, gamma=1 / 16, tol=1e-8).fit(X)
    assert_allclose(model.score_samples(X), svm.score_samples(X) / svm.offset_, atol=0.02)
    new = 2.0 * X[:40]
    assert np.mean(model.predict(new) == svm.predict(new)) > 0.95


@pytest.mark.parametrize("regularizer", ["mkl", "block1", "uniform", "elastic-net"])
@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_nu_bounds_outliers_and_support_vectors(X, regularizer, nu):
    model = OneClassMKL(KERNELS, nu=nu, regularizer=regularizer).fit(X)
    assert np.mean(model.predict(X) < 0) <= nu
    assert np.mean(np.abs(model.dual_coef_).sum(axis=0) > 1e-9) >= 0.97 * nu
    assert model.dual_gap_ <= 1e-3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_rounding_makes_no_outliers_of_samples_at_the_margin(seed, dtype):
    rng = np.random.default_rng(seed)
    X, nu = rng.normal(size=(rng.integers(10, 40), 3)) + 2.0 * rng.random(), rng.uniform(0.05, 0.6)
    weights = rng.integers(0, 4, len(X))
    for sample_weight in (np.ones(len(X)), weights):
        model = OneClassMKL(["gaussian:on=0:2", "gaussian:on=2"], nu=nu, dtype=dtype, tol=1e-2)
        model.fit(X, sample_weight=sample_weight)
        alone = np.array([model.predict(x[None])[0] for x in X])
        for predicted in (model.predict(X), alone):
            assert sample_weight[predicted < 0].sum() <= nu * sample_weight.sum()


def test_the_gap_is_that_of_the_joint_objective(X):
    """Primal and dual under the squared mixed norm, from what the model holds and nothing else."""
    model = OneClassMKL(KERNELS, nu=0.2).fit(X)
    grams = [Gaussian(2.0)(X[:, j : j + 2]) for j in (0, 2, 4)]
    norms = [np.sqrt(a @ K @ a) for a, K in zip(model.dual_coef_, grams)]
    primal = model.C_ * np.maximum(0, 1 - model.score_samples(X)).sum() + 0.5 * sum(norms) ** 2
    rho = np.abs(model.dual_variables_[0])
    assert rho.max() <= model.C_ * (1 + 1e-9)
    dual = rho.sum() - 0.5 * max(rho @ K @ rho for K in grams)
    assert 0 <= primal - dual <= 1e-3 * primal * (1 + 1e-6)


def test_the_kernel_that_finds_samples_alike_is_preferred(rng):
    X = rng.normal(size=(150, 6))
    X[:, 2:4] *= 0.2
    weights = OneClassMKL(KERNELS, nu=0.1).fit(X).kernel_weights_
    assert max(weights, key=weights.get) == "columns 2"


def test_malignant_cells_are_outliers_among_benign_ones():
    X, y = load_breast_cancer(return_X_y=True)
    benign = X[y == 1]
    columns = {f"column {j}": f"gaussian:on={j}:{j + 1}" for j in range(30)}
    detector = make_pipeline(StandardScaler(), OneClassMKL(columns, nu=0.1, regularizer="uniform")).fit(benign[:200])
    held_out = np.vstack([benign[200:], X[y == 0]])
    truth = np.arange(len(held_out)) < len(benign) - 200
    assert roc_auc_score(truth, detector.decision_function(held_out)) > 0.93


def test_whole_weights_are_copies_and_weight_0_is_absence(X):
    weights = np.random.default_rng(1).integers(0, 3, len(X))
    weighted = OneClassMKL(KERNELS, nu=0.2, tol=1e-6).fit(X, sample_weight=weights)
    repeated = OneClassMKL(KERNELS, nu=0.2, tol=1e-6).fit(np.repeat(X, weights, axis=0))
    assert_allclose(weighted.score_samples(X), repeated.score_samples(X), atol=0.01)
    assert weighted.offset_ == pytest.approx(repeated.offset_, abs=0.01)


def test_matrices_and_model_files(X, tmp_path):
    model = OneClassMKL(KERNELS, nu=0.2).fit(X)
    model.save(tmp_path / "model.npz")
    loaded = omkl.load(tmp_path / "model.npz")
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    assert loaded.C_ == model.C_
    grams = {name: Gaussian(2.0)(X[:, j : j + 2]) for name, j in zip(KERNELS, (0, 2, 4))}
    by_matrix = OneClassMKL("precomputed", nu=0.2).fit(grams)
    assert_allclose(by_matrix.decision_function(grams), model.decision_function(X), atol=0.02)


@pytest.mark.parametrize("nu", [0.0, 1.0, "half"])
def test_a_nu_that_is_no_fraction_is_refused(X, nu):
    with pytest.raises(InputError, match="nu must"):
        OneClassMKL(nu=nu).fit(X)


def test_samples_around_the_origin_are_refused(X):
    with pytest.raises(InputError, match="side of the origin"):
        OneClassMKL(["linear:normalize=None"], nu=0.1).fit(np.vstack([X, -X]))
