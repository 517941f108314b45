"""MKLRegressor of counts: the model of scikit-learn, choices of C and kernels, and bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance

import omkl
from omkl.exceptions import InputError
from omkl.kernels import Linear, per_column

rng = np.random.default_rng(0)
X = rng.normal(size=(400, 4))
MEANS = np.exp(1.0 + np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1])
COUNTS = rng.poisson(MEANS)
TRAIN = slice(200)
TEST = slice(200, 400)
POISSON = {"loss": "poisson"}


def test_a_linear_kernel_is_the_poisson_regression_of_scikit_learn():
    weights = rng.uniform(0.5, 2.0, 200)
    model = omkl.MKLRegressor(
        [Linear(normalize=None)], C=0.2, regularizer="uniform", tol=1e-8, **POISSON
    )
    model.fit(
        X[TRAIN],
        COUNTS[TRAIN],
        weights,
    )
    other = PoissonRegressor(
        alpha=1.0 / (0.2 * weights.sum()),
        tol=1e-10,
        max_iter=1000,
    )
    other.fit(
        X[TRAIN],
        COUNTS[TRAIN],
        weights,
    )
    assert_allclose(
        model.predict(X[TEST]),
        other.predict(X[TEST]),
        rtol=1e-3,
    )
    assert model.explain(X[0]).margin == pytest.approx(np.log(model.predict(X[:1])[0]))


@pytest.mark.parametrize("form", [omkl.MKLRegressor, omkl.MKLRegressorCV])
def test_curves_of_counts_are_found_without_being_told_anything(form, tmp_path):
    model = form(per_column("gaussian", X), **POISSON).fit(X[TRAIN], COUNTS[TRAIN])
    curves = (
        omkl.MKLRegressorCV(per_column("gaussian", X))
        .fit(X[TRAIN], COUNTS[TRAIN])
        .predict(X[TEST])
        .clip(0.1)
    )
    line = PoissonRegressor(alpha=0.01).fit(X[TRAIN], COUNTS[TRAIN]).predict(X[TEST])
    predictions = model.predict(X[TEST]), MEANS[TEST], curves, line
    deviances = [mean_poisson_deviance(COUNTS[TEST], prediction) for prediction in predictions]
    assert deviances[0] < min(1.2 * deviances[1], 0.75 * deviances[2], 0.75 * deviances[3])
    assert model.kernel_weights_["column 0"] + model.kernel_weights_["column 1"] > 0.9
    assert model.dual_gap_ <= 0.01
    model.save(tmp_path / "counts")
    assert_array_equal(omkl.load(tmp_path / "counts").predict(X), model.predict(X))


def test_a_copied_row_has_twice_the_weight_and_outputs_share_kernels():
    columns = np.column_stack([COUNTS, rng.poisson(2.0 * MEANS)])[TRAIN]
    model = omkl.MKLRegressor(per_column("gaussian", X), **POISSON).fit(X[TRAIN], columns)
    assert_allclose(
        model.predict(X[TRAIN]).mean(axis=0),
        columns.mean(axis=0),
        rtol=0.02,
    )
    twice = omkl.MKLRegressor(["gaussian:sigma2=1"], C=0.1, regularizer="mkl", tol=1e-7, **POISSON)
    once = twice.fit(X[TRAIN], COUNTS[TRAIN], np.full(200, 2.0)).predict(X[TEST])
    again = twice.fit(np.tile(X[TRAIN], (2, 1)), np.tile(COUNTS[TRAIN], 2)).predict(X[TEST])
    assert_allclose(once, again, rtol=1e-2)


@pytest.mark.parametrize(
    ("y", "message"), [(COUNTS - 1, "counts are >= 0"), (0 * COUNTS, "only zeros")]
)
@pytest.mark.filterwarnings("ignore")
def test_targets_that_are_no_counts_are_refused(y, message):
    with pytest.raises(InputError, match=message):
        omkl.MKLRegressor(per_column("gaussian", X), **POISSON).fit(X, y)
    with pytest.raises(InputError, match="with a link"):
        omkl.OnlineMKLRegressor(**POISSON).fit(X, COUNTS)


def test_C_is_chosen_by_the_deviance_of_counts():
    settings = {"Cs": [0.1, 1.0, 10.0], "cv": 3, **POISSON}
    model = omkl.MKLRegressorCV(["gaussian"], **settings).fit(X, COUNTS)
    theirs = omkl.MKLRegressorCV(["gaussian"], scoring="neg_mean_poisson_deviance", **settings).fit(
        X, COUNTS
    )
    assert_allclose(2.0 * model.scores_, theirs.scores_)
    assert model.C_ == theirs.C_
    several = omkl.MKLRegressorCV(["gaussian"], **settings).fit(
        X, np.column_stack([COUNTS, COUNTS])
    )
    assert several.scores_.shape == (3, 3)


@pytest.mark.parametrize(("seed", "regularizer"), [(161, "uniform"), (427, "elastic-net")])
def test_the_gap_keeps_its_digits_beside_kernels_of_large_entries(seed, regularizer):
    """Norms of dual points were updated in each step, and kept the rounding errors of the first
    steps.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(15, 60))
    small = rng.normal(size=(n, 3))
    size = 10.0 ** rng.uniform(6, 12)
    large = rng.normal(size=(n, 2))
    grams = [np.exp(-0.5 * squared_distances(small)), small @ small.T]
    grams += [size * (large @ large.T), size * np.exp(-squared_distances(large))]
    y = rng.poisson(np.exp(0.7 * small[:, 0] + 0.5 * large[:, 0])).astype(np.longdouble)
    C = 10.0 ** rng.uniform(-2, 2)
    model = omkl.MKLRegressor("precomputed", regularizer=regularizer, C=C, **POISSON).fit(
        grams, y.astype(float)
    )
    gap = gap_in_long_precision(model, grams, y, C, regularizer)
    assert model.dual_gap_ == pytest.approx(gap, rel=1e-3)


def gap_in_long_precision(model, grams, y, C, regularizer):
    """Return the relative duality gap of a model of counts."""
    exact = [gram.astype(np.longdouble) for gram in grams]
    alphas = model.dual_coef_.astype(np.longdouble)
    rho = model.dual_variables_[0].astype(np.longdouble)
    intercept = np.longdouble(model.intercept_[0])
    outputs = sum(gram @ alpha for gram, alpha in zip(exact, alphas)) + intercept
    norms = np.sqrt([alpha @ gram @ alpha for gram, alpha in zip(exact, alphas)])
    dual_norms = np.sqrt([rho @ gram @ rho for gram in exact])
    least_losses = np.where(y > 0, y * np.log(np.maximum(y, 1)), 0) - y
    means = y - rho / np.longdouble(C)
    conjugates = means * np.log(means) - means - least_losses
    primal = C * (np.exp(outputs) - y * outputs + least_losses).sum()
    dual = -C * conjugates.sum()
    if regularizer == "uniform":
        primal = primal + (norms**2).sum() / 2
        dual = dual - (dual_norms**2).sum() / 2
    else:
        primal += (norms / 2 + norms**2 / 4).sum()
        dual -= (np.maximum(dual_norms - 0.5, 0) ** 2).sum()
    return float((primal - dual) / primal)


def squared_distances(rows):
    return ((rows[:, None] - rows) ** 2).sum(axis=-1)
