"""Numbers at the ends of what floats hold, in any unit: the same answer, or a sentence at the door, never NaN."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omkl import GroupLasso, MKLClassifier, MKLRegressor, OnlineMKLClassifier, SparseLogisticRegression
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


DESIGNS = {
    "lasso": (GroupLasso, {}, lambda score: score),
    "groups": (GroupLasso, {"groups": [0, 0, 0, 1, 1, 1]}, lambda score: score),
    "outputs": (GroupLasso, {"groups": [0, 0, 0, 1, 1, 1]}, lambda score: np.column_stack([score, score**2])),
    "positive": (GroupLasso, {"positive": True}, lambda score: score),
    "counts": (GroupLasso, {"loss": "poisson"}, lambda score: np.round(np.exp(score / 3))),
    "logistic": (SparseLogisticRegression, {}, lambda score: score > 0),
    "multinomial": (SparseLogisticRegression, {"multiclass": "multinomial"}, lambda score: np.digitize(score, [-1, 1])),
}  # fmt: skip


@pytest.fixture(scope="module")
def columns():
    X = np.random.default_rng(0).normal(size=(60, 6))
    return X, X[:, :3] @ [1.0, -2.0, 1.0] + X[:, 4]


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.filterwarnings("error")
def test_a_design_has_one_model_in_all_units_and_one_sentence_where_it_has_none(columns, name):
    X, score = columns
    kind, parameters, target = DESIGNS[name]
    y = target(score)
    plain = kind(0.05, tol=1e-6, **parameters).fit(X, y)
    assert plain.coef_.any()
    for unit in (1e-139, 1e-20, 1e20, 1e98):
        model = kind(0.05 * unit, tol=1e-6, **parameters).fit(unit * X, y)
        assert_allclose(unit * model.coef_, plain.coef_, atol=1e-2)
        assert -1e-12 <= model.dual_gap_ <= 1e-6
        if name in ("lasso", "groups", "outputs", "positive"):
            model = kind(0.05 * unit, tol=1e-6, **parameters).fit(X, unit * y)
            assert_allclose(model.coef_ / unit, plain.coef_, atol=1e-2)
            with pytest.raises(InputError, match=r"y (is .* at most|holds .*), whose square is too (small|large)"):
                kind(0.05, **parameters).fit(X, y * 1e300 if unit > 1 else y * 1e-200)
        with pytest.raises(InputError, match=r"X (is .* at most|holds .*), whose square is too (small|large)"):
            kind(0.05, **parameters).fit(X * (1e300 if unit > 1 else 1e-200), y)
    for fit in (lambda model: model.fit(1e20 * X, y), lambda model: model.path(1e20 * X, y, [1.0, 1e-2])):
        with pytest.raises(InputError, match=r"is lost in rounding: .* choose an alpha above"):
            fit(kind(0.05, **parameters))
