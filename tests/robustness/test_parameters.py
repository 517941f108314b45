"""Values of wrong types for every parameter: the fit gives a finite model that can be saved, or an error."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.base import clone

import omkl
from omkl.exceptions import OmklError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 3))
SCORE = X[:, 0] - X[:, 1]
ESTIMATORS = {
    "online classifier": (omkl.OnlineMKLClassifier(["linear", "gaussian"], epochs=1, random_state=0), SCORE > 0),
    "online regressor": (omkl.OnlineMKLRegressor(["linear", "gaussian"], epochs=1, random_state=0), SCORE),
    "classifier": (omkl.MKLClassifier(["linear", "gaussian"]), SCORE > 0),
    "regressor": (omkl.MKLRegressor(["linear", "gaussian"]), SCORE),
    "chosen by folds": (omkl.MKLClassifierCV(["linear"], Cs=2, cv=2), SCORE > 0),
    "design": (omkl.GroupLasso(0.1), SCORE),
    "sparse classifier": (omkl.SparseLogisticRegression(0.1), SCORE > 0),
    "design chosen by folds": (omkl.SparseLogisticRegressionCV(alphas=2, cv=2), SCORE > 0),
}


class Thing:
    """An object that no parameter takes."""


VALUES = [Thing(), np.array([1.0, 2.0]), np.array([]), np.float32(1.0), -1, np.nan, "x", [], {}]
#: Parameters that make training long.
LONG = {"epochs", "max_iter", "tol", "verbose"}


def check(name, parameter, value, path):
    """Fit a model that predicts finite numbers, also from its file, or raise an error of omkl."""
    model, y = ESTIMATORS[name]
    model = clone(model).set_params(**{parameter: value})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            predicted = model.fit(X, y).predict(X)
        except OmklError:
            return
        assert np.isfinite(predicted).all()
        model.save(path)
        assert np.array_equal(omkl.load(path).predict(X), predicted)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_values_of_wrong_types(name, tmp_path):
    parameters = sorted(ESTIMATORS[name][0].get_params(deep=False).keys() - LONG)
    for parameter, value in itertools.product(parameters, VALUES):
        check(name, parameter, value, tmp_path / "model.omkl")
