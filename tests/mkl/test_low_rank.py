"""Feature maps and factors of low rank: the same models as with kernels and matrices."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

import omkl
from omkl import Budget, MKLClassifier, MKLRegressor, OnlineMKLClassifier
from omkl.batch import Expansion, Problem, certify
from omkl.exceptions import MemoryWarning
from omkl.kernels import Nystrom
from omkl.losses import Logistic
from omkl.regularizers import L21

from ..stacks import DenseStack


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, y


@pytest.fixture(scope="module")
def more_cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:300], y[:300]


# ---- online --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fobos", "rda"])
@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_an_exact_map_trains_as_the_kernel_does(digits, method, loss):
    X = digits[0][:60]
    y = digits[1][:60]
    settings = {"loss": loss, "method": method, "epochs": 4, "random_state": 0}
    dual = OnlineMKLClassifier(
        {"a": "gaussian:sigma2=5", "b": "laplacian:sigma=9"}, **settings
    ).fit(X, y)
    maps = {
        "a": "gaussian:sigma2=5,features=60,map=nystrom",
        "b": "laplacian:sigma=9,features=60,map=nystrom",
    }
    explicit = OnlineMKLClassifier(maps, **settings).fit(X, y)
    assert_allclose(
        explicit.decision_function(X),
        dual.decision_function(X),
        atol=1e-6,
    )
    assert explicit.kernel_weights_ == pytest.approx(dual.kernel_weights_, abs=1e-7)
    assert [r["loss"] for r in explicit.history_] == pytest.approx(
        [r["loss"] for r in dual.history_], abs=1e-7
    )


def test_features_of_a_large_training_set_are_never_all_in_memory(rng):
    X = rng.normal(size=(5000, 5))
    y = rng.integers(0, 2, 5000)
    settings = {"epochs": 1, "random_state": 0, "verbose": False}
    unbounded, bounded = (
        OnlineMKLClassifier(["gaussian:features=1000"], budget=Budget(cache_size=size), **settings)
        for size in (100, 1)
    )
    peaks = []
    for model in (unbounded, bounded):
        model.fit(X[:50], y[:50])
        tracemalloc.start()
        model.fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] > 40e6  # 5000 examples of 1000 features
    assert peaks[1] < 26e6  # a window of 16 MiB, a block of temporary arrays, and the data
    assert_allclose(
        bounded.decision_function(X), unbounded.decision_function(X), rtol=1e-10, atol=1e-12
    )


# ---- batch ---------------------------------------------------------------------------------------

LOW_RANK = {
    "fourier": "gaussian:sigma2=20,features=16",
    "nystrom": "laplacian:features=12,map=nystrom",
    "linear": "linear:on=0:5",
    "cubic": "cubic:on=0:2",
    "dense": "gaussian",
}


def as_grams(kernels, X):
    """Each kernel of the mapping as a Gram matrix, by the kernel's values alone."""
    as_kernels = [omkl.kernels.as_kernel(spec) for spec in kernels.values()]
    views = [X if kernel.on is None else X[:, kernel.on] for kernel in as_kernels]
    return np.array([kernel.fit(view)(view) for kernel, view in zip(as_kernels, views)])


@pytest.mark.parametrize("solver", ["spicy", "fista", "one-step"])
def test_factors_give_the_model_that_matrices_give(more_cancer, solver):
    X, y = more_cancer
    settings = {
        "C": 3.0,
        "solver": solver,
        "dtype": "float64",
        "tol": 1e-7 if solver != "fista" else 1e-4,
    }
    factored = MKLClassifier(LOW_RANK, **settings).fit(X, y)
    assert list(factored.kernel_representations_.values()) == [
        "factor of rank 16",
        "factor of rank 12",
        "factor of rank 5",
        "factor of rank 10",
        "dense",
    ]
    grams = as_grams(LOW_RANK, X)
    dense = MKLClassifier("precomputed", **settings).fit(list(grams), y)
    assert set(dense.kernel_representations_.values()) == {"dense"}
    objectives = [model.history_[-1]["primal"] for model in (factored, dense)]
    assert objectives[0] == pytest.approx(objectives[1], rel=settings["tol"])
    assert_allclose(
        factored.decision_function(X),
        dense.decision_function(list(grams)),
        atol=300 * settings["tol"] ** 0.5,
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_predictions_on_training_samples_are_the_solvers_own(more_cancer, dtype):
    """Recompute the certificate from predictions and kernel values of the same feature maps."""
    X, y = more_cancer
    model = MKLClassifier(LOW_RANK, regularizer="block1", C=3.0, dtype=dtype, tol=1e-3).fit(X, y)
    grams = as_grams(LOW_RANK, X)
    expected = np.einsum("mij,mj->i", grams, model.dual_coef_) + model.intercept_
    assert_allclose(model.decision_function(X), expected, atol=1e-9)
    problem = Problem(
        DenseStack(grams),
        np.where(y == 1, 1.0, -1.0),
        Logistic(),
        L21(),
        3.0,
    )
    expansion = Expansion(
        np.arange(len(grams)),
        model.dual_coef_,
        model.intercept_[0],
    )
    certificate = certify(problem, expansion, model.dual_variables_[0])
    assert_allclose(model.decision_function(X), certificate.outputs, atol=1e-9)
    assert certificate.gap == pytest.approx(
        model.dual_gap_, abs=1e-5 if dtype == "float32" else 1e-10
    )


def test_explicit_says_how_a_kernel_is_held(more_cancer):
    X, y = more_cancer
    kernels = ["quadratic:explicit=False,on=0:2", "linear:explicit=True", "gaussian:features=200"]
    model = MKLClassifier(kernels).fit(X, y)
    assert list(model.kernel_representations_.values()) == ["dense", "factor of rank 30", "dense"]


def test_a_model_of_factors_is_saved_without_its_training_inputs(rng, tmp_path):
    X = rng.normal(size=(3000, 20))
    y = np.sin(X[:, 0])
    model = MKLRegressor({"g": "gaussian:on=0:1,sigma2=1,features=40"}, C=10.0).fit(X, y)
    model.save(tmp_path / "model.npz")
    assert (tmp_path / "model.npz").stat().st_size < X.nbytes / 2
    assert_array_equal(omkl.load(tmp_path / "model.npz").predict(X), model.predict(X))
    assert model.score(X, y) > 0.99


class TestMoreThanFitsIntoMemory:
    KERNELS = {"g": "gaussian", "l": "laplacian:normalize=trace", "q": "quadratic"}

    @pytest.fixture(autouse=True)
    def _little_memory(self, monkeypatch):
        """Allow memory for factors of rank 60, but not for a Gram matrix."""
        monkeypatch.setattr(
            "omkl.mkl.kernel_sources.packed_bytes_fit", lambda n_kernels, *_: n_kernels == 0
        )
        monkeypatch.setattr("omkl.mkl.kernel_sources.affordable_rank", lambda *_: 60)

    def test_kernels_are_approximated_where_that_is_allowed(self, more_cancer):
        X, y = more_cancer
        with pytest.warns(
            MemoryWarning,
            match=r"3 kernels of 300 samples .* 60 landmarks, which leaves out 0\.\d+ of 'l'",
        ):
            model = MKLClassifier(
                self.KERNELS, C=3.0, dtype="float64", tol=1e-5, approximate=True
            ).fit(X, y)
        assert all("factor of rank" in held for held in model.kernel_representations_.values())
        assert model.dual_gap_ <= 1e-5
        maps = {
            "g": Nystrom("gaussian", 60),
            "l": Nystrom("laplacian:normalize=trace", 60),
            "q": Nystrom("quadratic", 60),
        }
        grams = as_grams(maps, X)
        expected = np.einsum("mij,mj->i", grams, model.dual_coef_) + model.intercept_
        assert_allclose(model.decision_function(X), expected, atol=1e-8)

    def test_what_is_left_out_is_a_trace_norm(self, more_cancer):
        kernel = Nystrom("laplacian", 60).fit(more_cancer[0])
        difference = kernel.kernel(more_cancer[0]) - kernel(more_cancer[0])
        expected = np.abs(np.linalg.eigvalsh(difference)).sum() / 300
        assert kernel.left_out(more_cancer[0]) == pytest.approx(expected, abs=1e-9)

    @pytest.mark.parametrize("approximate", ["auto", False])
    def test_small_ones_are_computed_anew(self, more_cancer, approximate):
        X, y = more_cancer
        with pytest.warns(MemoryWarning, match="3 kernels .* in every pass"):
            model = MKLClassifier(
                self.KERNELS, C=3.0, dtype="float64", tol=1e-4, approximate=approximate
            ).fit(X, y)
        assert set(model.kernel_representations_.values()) == {"computed in every pass"}

    def test_large_ones_are_approximated(self, more_cancer, monkeypatch):
        X, y = more_cancer
        monkeypatch.setattr("omkl.mkl.kernel_sources.BUDGET", 300 * 301 * 4 - 1)
        with pytest.warns(MemoryWarning, match="do not fit into memory: .* Nyström"):
            MKLClassifier(self.KERNELS, dtype="float64").fit(X, y)
        monkeypatch.setattr("omkl.mkl.kernel_sources.packed_bytes_fit", lambda *_: True)
        with pytest.warns(
            MemoryWarning, match="are large: .* Nyström .* approximate=False stores them exactly"
        ):
            MKLClassifier(self.KERNELS, dtype="float64").fit(X, y)
        exact = MKLClassifier(self.KERNELS, dtype="float64", approximate=False).fit(X, y)
        assert "dense" in exact.kernel_representations_.values()
