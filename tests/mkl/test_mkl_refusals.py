"""Errors and warnings of MKLClassifier and MKLRegressor."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from omkl import MKLClassifier, MKLClassifierCV, MKLRegressor
from omkl.exceptions import InputError

from .conftest import KERNELS, grams_of


@pytest.mark.parametrize("C", [0, -1.0, [1.0, np.nan], []])
def test_a_path_needs_strengths(cancer, C):
    with pytest.raises(InputError, match="number of values"):
        MKLClassifier(KERNELS).path(*cancer, C=C)


def test_stopping_early_warns_with_the_gap(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match=r"relative duality gap of .* not within tol=1e-06"):
        model = MKLClassifier(KERNELS, solver="ista", tol=1e-6, max_iter=5, dtype="float64").fit(X, y)
    assert model.dual_gap_ > 1e-6


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
        ({"solver": "simplemkl", "regularizer": "block1", "loss": "hinge"}, "'mkl'"),
        ({"multiclass": "all"}, "multiclass"),
        ({"dtype": "int8"}, "dtype"),
        ({"weighting": "loo"}, "weighting must be one of"),
        ({"approximate": "yes"}, "approximate must be"),
        ({"kernels": []}, "at least one kernel"),
        ({"kernels": ["gaussian:on=7:7"]}, "selects the column"),
        ({"kernels": ["gaussian", "gaussian"]}, "Two kernels"),
    ],
)
def test_bad_parameters_are_refused_in_one_sentence(cancer, settings, message):
    X, y = cancer
    with pytest.raises(InputError, match=message):
        MKLClassifier(**settings).fit(X, y)


def test_other_bad_input(cancer):
    X, y = cancer
    with pytest.raises(InputError, match="one class only"):
        MKLClassifier().fit(X, np.ones(len(X)))
    with pytest.raises(InputError, match="must be matrices"):
        MKLClassifier("precomputed").fit(X, y)
    with pytest.raises(InputError, match="finite"):
        MKLRegressor("precomputed").fit(grams_of(X, X), np.full(len(X), np.nan))
    with pytest.raises(NotFittedError, match="not fitted"):
        MKLClassifier().predict(X)
    model = MKLClassifier("precomputed", C=2.0).fit(grams_of(X, X), y)
    with pytest.raises(InputError, match="4 matrices"):
        model.predict(grams_of(X, X)[:3])
    with pytest.raises(InputError, match="predicts from one matrix"):
        model.predict([matrix[:, :5] for matrix in grams_of(X, X)])


def test_a_constant_target_is_the_model(cancer):
    X, _ = cancer
    with pytest.warns(UserWarning, match="y is constant"):
        model = MKLRegressor(["gaussian"]).fit(X, np.full(len(X), 3.0))
    assert_allclose(model.predict(X), 3.0)
    for settings in ({"fit_intercept": False}, {"loss": "epsilon-insensitive"}):
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="y is constant")
            MKLRegressor(["gaussian"], **settings).fit(X, np.full(len(X), 3.0))


def test_a_model_without_kernels_says_so(cancer):
    X, y = cancer
    with pytest.warns(UserWarning, match="No kernel is in the model at C=1e-06: raise C"):
        MKLClassifier(["gaussian"], regularizer="block1", C=1e-6).fit(X, y)


def test_a_path_that_stops_early_warns(cancer):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="relative duality gap"):
        MKLClassifier(KERNELS, solver="ista", tol=1e-6, max_iter=5).path(X, y, C=[1.0, 10.0])


@pytest.mark.parametrize("scale", [1e-8, 1e-4])
@pytest.mark.parametrize("solver", ["spicy", "fista"])
def test_a_constant_prediction_warns(cancer, scale, solver):
    X, y = cancer
    grams = [scale * gram for gram in grams_of(X, X)]
    with pytest.warns(UserWarning, match=r"all of them|No kernel"):
        model = MKLClassifier("precomputed", solver=solver).fit(grams, y)
    assert len(set(model.predict(grams))) == 1
    with pytest.warns(UserWarning, match=r"all of them|No kernel"):
        MKLRegressor("precomputed", solver=solver).fit([1e-4 * gram for gram in grams], y + 0.1 * X[:, 0])


@pytest.mark.parametrize("solver", ["spicy", "one-step", "fista"])
def test_a_kernel_has_no_coordinates_to_penalize(cancer, solver):
    with pytest.raises(InputError, match=r"coordinates|group norms|needs a regularizer"):
        MKLClassifier(KERNELS, regularizer="l1", solver=solver).fit(*cancer)


@pytest.mark.parametrize(
    "settings",
    [dict(C=1e16), dict(C=1e16, loss="hinge"), dict(tol=1e-308), dict(tol=1e-308, loss="hinge")],
    ids=["C of the logistic loss", "C of the hinge", "tol of the logistic loss", "tol of the hinge"],
)
def test_a_search_that_rounding_stops_ends_early_with_a_warning(cancer, settings):
    """Without the check it would try a hundred rounds of up to 150 steps."""
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="rounding prevents progress: raise tol, lower C, or scale"):
        model = MKLClassifier(["gaussian", "linear"], **settings).fit(X[:100], y[:100])
    assert model.n_iter_ < 40
    assert model.dual_gap_ > model.tol
    assert model.score(X[:100], y[:100]) > 0.9


@pytest.mark.parametrize("model", [MKLClassifier(), MKLClassifierCV(Cs=2, cv=2)], ids=["fixed", "cv"])
def test_classes_of_two_kinds_are_refused_by_their_types(model):
    labels = np.array(["a", 1] * 10, dtype=object)
    with pytest.raises(InputError, match="got int and str"):
        model.fit(np.arange(40.0).reshape(20, 2), labels)
