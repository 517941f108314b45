"""Numbers at the ends of what floats hold, in any unit: the same answer, or a sentence at the door, never NaN."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omkl import MKLClassifier, MKLRegressor, OnlineMKLClassifier
from omkl.exceptions import InputError

KERNELS = ["gaussian", "laplacian", "b1", "linear", "gaussian:features=20", "gaussian:features=20,map=nystrom"]


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 30)
    return rng.normal(size=(60, 3)) + 1.5 * y[:, None], y


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_kernel_that_learns_its_width_gives_one_model_in_all_units(blobs, kernel):
    X, y = blobs
    decisions = MKLClassifier([kernel], tol=1e-6).fit(X, y).decision_function(X)
    for unit in (1e-140, 1e-30, 1e30, 1e140):
        model = MKLClassifier([kernel], tol=1e-6).fit(unit * X, y)
        assert_allclose(model.decision_function(unit * X), decisions, atol=1e-3)
        assert 0 <= model.dual_gap_ <= 1e-6


@pytest.mark.parametrize("kernels", [[kernel] for kernel in KERNELS] + [["quadratic"], None], ids=str)
@pytest.mark.parametrize("estimator", [MKLClassifier, OnlineMKLClassifier])
@pytest.mark.parametrize("unit", [1e-200, 1e200, np.inf])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_numbers_whose_squares_are_no_floats_are_refused(blobs, estimator, kernels, unit):
    X, y = blobs
    X = X.copy()
    X[3, 1] = 1.0
    X = unit * X if np.isfinite(unit) else np.where(X == 1.0, np.inf, X)
    with pytest.raises((InputError, ValueError), match=r"1e-150|infinity|finite"):
        estimator(kernels).fit(X, y)


def test_powers_that_overflow_are_refused_and_nothing_is_learned_of_them(blobs):
    X, y = blobs
    for estimator in (MKLClassifier, OnlineMKLClassifier, MKLRegressor):
        with pytest.raises(InputError, match="overflows"):
            estimator(["linear", "quadratic"]).fit(1e100 * X, y)


@pytest.mark.parametrize("estimator", [MKLClassifier, OnlineMKLClassifier, MKLRegressor])
def test_rows_to_predict_are_refused_rather_than_answered_with_nan(blobs, estimator):
    X, y = blobs
    model = estimator(["linear", "quadratic", "gaussian"]).fit(X, y)
    with np.errstate(all="ignore"), pytest.raises(InputError, match="overflows"):
        model.predict(1e200 * X[:2])
