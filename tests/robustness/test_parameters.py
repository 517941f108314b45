"""Parameters of wrong types and strings of parts give a finite model, a part, or one of omkl's errors."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import omkl
from omkl._components import resolve
from omkl.exceptions import InputError, OmklError
from omkl.kernels import Kernel, as_kernel
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer

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


WORDS = [
    *("linear", "quadratic", "polynomial", "gaussian", "chi2", "on", "degree", "sigma2", "features", "map", "nan"),
    *(":", ",", "=", "-", "[", "]", "(", ")", "'", "0", "1", "-1", "1e308", "0:3", "0:3:0", "a:b", "True", "None"),
]
ODD = ["9" * 25, "9" * 5000, "\0", "\ud800", "é", "x" * 5000, " ", "\n", "\t"]


def made(make, text):
    try:
        return make(text)
    except OmklError as error:
        message = str(error)
        assert "\n" not in message
        assert len(message) < 1000
        message.encode()


@given(
    parts=st.lists(st.sampled_from(WORDS + ODD), min_size=1, max_size=8),
    base=st.sampled_from([Kernel, Regularizer, PointwiseLoss]),
)
def test_strings_of_parts_make_parts_or_are_refused(parts, base):
    part = made(lambda text: resolve(base, text, "part"), "".join(parts))
    assert part is None or isinstance(part, base)
    made(lambda text: as_kernel(text).fit(np.eye(3)), "".join(parts))


@pytest.mark.parametrize("on", ["0:-", "-:", "0:3:0", "0:3:-", "9" * 5000 + ":"])
def test_ranges_of_columns_that_are_none_are_refused(on):
    with pytest.raises(InputError):
        as_kernel(f"linear:on={on}").placed(5)


@pytest.mark.parametrize("value", ["9" * 400, "[,]", "[a", "(((a)))"])
def test_values_that_python_cannot_read_are_refused(value):
    for spec in (f"gaussian:sigma2={value}", f"polynomial:degree={value}", f"linear:on={value}"):
        made(lambda text: as_kernel(text).fit(np.eye(3)), spec)


@pytest.mark.parametrize("degree", ["1001", "1e9", "9" * 400])
def test_powers_that_would_take_for_ever_are_refused(degree):
    with pytest.raises(InputError, match="degree must be a whole number"):
        as_kernel(f"polynomial:degree={degree}")


@pytest.mark.parametrize("spec", ["gaussian:features=1000000000000", "chi2:features=1000001"])
def test_maps_of_more_features_than_fit_are_refused(spec):
    with pytest.raises(InputError, match="features must be a whole number"):
        as_kernel(spec)
