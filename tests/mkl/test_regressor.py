"""OnlineMKLRegressor: scikit-learn's checks, convergence to the optimum, and invariance to the unit of targets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_diabetes
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import omkl
from omkl.exceptions import InputError
from omkl.kernels import Gaussian
from omkl.online import values_of

LOSSES = ["squared", "huber:delta=30", "epsilon-insensitive:epsilon=5"]


@pytest.fixture(scope="module")
def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X / X.std(axis=0), y


@parametrize_with_checks(
    [
        omkl.OnlineMKLRegressor(),
        omkl.OnlineMKLRegressor(kernels=["linear"], loss="huber", method="rda"),
        omkl.OnlineMKLRegressor(
            kernels=["laplacian"], loss="epsilon-insensitive", regularizer="elastic-net", cache_size=0, epochs=8
        ),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("cache_size", [4000, 0], ids=["cached", "expansion"])
def test_with_one_kernel_and_a_ridge_it_is_kernel_ridge_regression(diabetes, cache_size):
    X, y = diabetes[0][:60], diabetes[1][:60]
    C, kernel = 3.0, Gaussian(sigma2=10.0)
    model = omkl.OnlineMKLRegressor(
        [kernel],
        regularizer="l2",
        C=C,
        epochs=60,
        eta0=0.3,
        schedule="linear",
        average=None,
        fit_intercept=False,
        cache_size=cache_size,
        verbose=False,
        random_state=0,
    ).fit(X, y)
    exact = KernelRidge(alpha=1.0 / C, kernel="precomputed").fit(kernel(X), y)

    def objective(predicted, square_norm):
        return 0.5 * np.sum((y - predicted) ** 2) + square_norm / (2 * C)

    optimum = objective(exact.predict(kernel(X)), exact.dual_coef_ @ kernel(X) @ exact.dual_coef_)
    reached = objective(model.predict(X), sum(norm**2 for norm in values_of(model.history_[-1], "norm").values()))
    assert optimum <= reached * (1 + 1e-9)
    assert reached < 1.001 * optimum
    assert_allclose(model.predict(X), exact.predict(kernel(X)), atol=0.05 * y.std())


@pytest.mark.parametrize(("loss", "C"), list(zip(LOSSES, (1.0, 1.0, 30.0))))
def test_it_predicts_as_well_as_ridge_regression_untuned(diabetes, loss, C):
    X, y = diabetes
    model = omkl.OnlineMKLRegressor(loss=loss, C=C, verbose=False, random_state=0)
    ridge = cross_val_score(RidgeCV(), X, y, cv=3).mean()
    assert cross_val_score(model, X, y, cv=3).mean() > ridge - 0.02


def test_one_pass_over_a_stream_learns_what_there_is_to_learn(rng):
    X = rng.uniform(-1, 1, size=(4000, 3))
    clean = np.sin(4 * X[:, 0]) * 1.8 + X[:, 1] ** 2
    y = 1e3 + clean + 0.5 * rng.normal(size=4000)
    model = omkl.OnlineMKLRegressor(["gaussian:sigma2=0.2", "quadratic"], random_state=0)
    for rows in np.split(np.arange(3000), 30):
        model.partial_fit(X[rows], y[rows])
    explained = 1 - np.mean((model.predict(X[3000:]) - 1e3 - clean[3000:]) ** 2) / clean.var()
    assert explained > 0.95


@pytest.mark.parametrize("regularizer", ["mkl", "l2"])
def test_targets_may_have_any_unit(diabetes, regularizer):
    """Scaling targets by a power of two scales the model exactly."""
    X, y = diabetes
    models = [
        omkl.OnlineMKLRegressor(regularizer=regularizer, epochs=3, random_state=0).fit(X, unit * y)
        for unit in (1.0, 2.0**20, 2.0**-20)
    ]
    for model, unit in zip(models[1:], (2.0**20, 2.0**-20)):
        assert_array_equal(model.predict(X) / unit, models[0].predict(X))


@pytest.mark.parametrize("loss", LOSSES)
def test_targets_may_be_far_from_zero(diabetes, loss):
    X, y = diabetes
    near, far = (omkl.OnlineMKLRegressor(loss=loss, epochs=3, random_state=0).fit(X, y + s) for s in (0.0, 2.0**20))
    assert_allclose(far.predict(X) - 2.0**20, near.predict(X), atol=1e-6)
    assert near.level_ == np.sort(y)[(len(y) - 1) // 2]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_stream_is_the_same_however_it_is_cut_into_calls(diabetes, loss):
    X, y = diabetes
    models = []
    for size in (1, 50):
        model = omkl.OnlineMKLRegressor(["linear", "gaussian:sigma2=10"], loss=loss, random_state=0)
        model.partial_fit(X[:42], y[:42])
        for first in range(42, 242, size):
            model.partial_fit(X[first : first + size], y[first : first + size])
        models.append(model)
    assert_array_equal(models[0].predict(X), models[1].predict(X))


def test_early_stopping_keeps_the_model_of_the_best_r2(diabetes):
    X, y = diabetes
    model = omkl.OnlineMKLRegressor(
        "gaussian:sigma2=1", C=100.0, epochs=60, early_stopping=True, validation_fraction=0.3, random_state=0
    ).fit(X, y)
    scores = [record["validation_score"] for record in model.history_]
    assert model.n_iter_ == min(60, int(np.argmax(scores)) + 1 + model.n_iter_no_change)
    assert max(scores) < 1.0


def test_sparse_input_and_dicts_are_dense_input():
    X, y = load_diabetes(return_X_y=True)
    settings = {"shuffle": False, "epochs": 2}
    dense = omkl.OnlineMKLRegressor("linear", **settings).fit(X, y)
    thin = omkl.OnlineMKLRegressor("linear", **settings).fit(sparse.csr_matrix(X), y)
    assert_allclose(dense.predict(X), thin.predict(sparse.csr_array(X)), rtol=1e-12)
    rows = [{"x": row} for row in X]
    assert_array_equal(omkl.OnlineMKLRegressor("linear:on=x", **settings).fit(rows, y).predict(rows), dense.predict(X))


def test_strongest_features_have_no_label():
    X = [{"colour": c, "size": float(s)} for c, s in zip("rgbrgb", range(6))]
    model = omkl.OnlineMKLRegressor(epochs=30, random_state=0).fit(X, [5.0, 0.0, 0.0, 5.0, 0.0, 0.0])
    strongest = model.top_features(1)[0]
    assert strongest["feature"] == "colour=r"
    assert set(strongest) == {"feature", "group", "weight"}


def test_no_iterate_leaves_the_ball_that_holds_the_solution(diabetes):
    X, y = diabetes
    model = omkl.OnlineMKLRegressor(C=0.1, radius="auto", fit_intercept=False, epochs=3, random_state=0).fit(X, y)
    # the mean loss of predicting 0 bounds the penalty of the solution, C * sum(y^2 / 2)
    assert_allclose(model.model_.trainer.radius, np.sqrt(2 * 0.1 * np.sum(y**2) / 2))
    assert np.linalg.norm(model.model_.trainer.norms) <= model.model_.trainer.radius


@pytest.mark.parametrize(
    ("parameters", "y", "match"),
    [
        ({"loss": "hinge"}, [1.0, 2.0], "loss of classification"),
        ({"loss": "crf"}, [1.0, 2.0], "Unknown loss"),
        ({}, ["a", "b"], "must hold numbers"),
        ({}, [1.0, np.nan], "got nan in row 1"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(parameters, y, match):
    with pytest.raises(InputError, match=match):
        omkl.OnlineMKLRegressor(**parameters).fit([{"a": 1.0}, {"a": 2.0}], y)
