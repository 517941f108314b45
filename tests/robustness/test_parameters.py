"""Whatever a parameter of an estimator is set to: a model of finite numbers that can be saved, or omkl's own error.

All values for all estimators: ``pytest -m soak tests/robustness/test_parameters.py``.
"""

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
    "one class": (omkl.OneClassMKL(["linear", "gaussian"]), None),
    "chosen by folds": (omkl.MKLClassifierCV(["linear"], Cs=2, cv=2), SCORE > 0),
    "design": (omkl.GroupLasso(0.1), SCORE),
    "sparse classifier": (omkl.SparseLogisticRegression(0.1), SCORE > 0),
    "design chosen by folds": (omkl.SparseLogisticRegressionCV(alphas=2, cv=2), SCORE > 0),
}


class Thing:
    """Nothing that any parameter is."""


FEW = [Thing(), np.array([1.0, 2.0]), np.array([]), np.float32(1.0), 10**400, 1e308, 1e-308, [], {}]
MANY = [
    *FEW, None, -1, 0, 2, 2.5, np.nan, np.inf, -(10**400), "x", "", "auto", "é" * 5, "a" * 10000, b"x", [None], ["x"],
    [[]], [0], (), {"a": 1}, {"a": None}, {1: 2}, {0: 1.0, 1: 2.0}, set(), True, False, np.array(1.0), np.int64(3),
    np.random.default_rng(0), range(3), range(1, 4), slice(0, 2), 1j, np.full(4, np.nan), iter([1]),
]  # fmt: skip
#: Numbers of passes and bounds of work, which are as long as they say.
LONG = {"epochs", "max_iter", "tol", "verbose"}


def check(name, parameter, value, path):
    """A model or a refusal; nothing foreign is raised, and a model predicts finite numbers from its file, too."""
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
def test_odd_values_of_parameters_are_refused_or_learned_with(name, tmp_path):
    parameters = sorted(ESTIMATORS[name][0].get_params(deep=False).keys() - LONG)
    for parameter, value in itertools.product(parameters, FEW):
        check(name, parameter, value, tmp_path / "model.omkl")


@pytest.mark.soak
@pytest.mark.parametrize("name", ESTIMATORS)
def test_all_values_of_all_parameters_are_refused_or_learned_with(name, tmp_path):
    for parameter, value in itertools.product(ESTIMATORS[name][0].get_params(deep=False), MANY):
        if parameter not in LONG or not isinstance(value, (int, float)):
            check(name, parameter, value, tmp_path / "model.omkl")
