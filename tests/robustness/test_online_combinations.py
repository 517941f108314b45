"""Every combination of online settings, and every one of designs: equal where it is learned in two ways, or refused.

A linear kernel is learned as weights of columns, and as an expansion over the rows of its Gram matrix; a design by
three solvers. All combinations: ``pytest -m soak tests/robustness/test_online_combinations.py``.
"""

import itertools
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from omkl import GroupLasso, OnlineMKLClassifier, OnlineMKLRegressor, SparseLogisticRegression
from omkl.exceptions import InputError
from omkl.kernels import Gaussian, Linear

RNG = np.random.default_rng(0)
X = RNG.normal(size=(36, 4))
SCORE = X[:, 0] - 0.7 * X[:, 1] + 0.3 * RNG.normal(size=36)
TARGETS = {"binary": SCORE > 0, "ternary": np.digitize(SCORE, [-0.5, 0.5]), "numbers": SCORE}

ONLINE = {
    "target": ["binary", "ternary", "numbers"],
    "loss": ["hinge", "crf", "perceptron", "squared", "huber:delta=0.5", "epsilon-insensitive:epsilon=0.1"],
    "regularizer": ["mkl", "l2", "group-lasso", "elastic-net:mu=0.3", "lq:q=1.5", None],
    "method": ["fobos", "rda", "hedge", "omkc"],
    "average": ["quadratic", "uniform", "last", "polynomial:power=3"],
    "weighting": ["norms", "out-of-sample"],
    "schedule": [None, "sqrt", "constant", "inverse-time"],
    "batch_size": [1, 5],
    "radius": [None, 2.0],
}


def settings_of(values):
    """Parameters of an estimator, of one value for each of :data:`ONLINE`."""
    parameters = dict(zip(ONLINE, values))
    target, schedule = parameters.pop("target"), parameters["schedule"]
    parameters["eta0"] = "auto" if schedule is None else 0.1
    kind = OnlineMKLRegressor if target == "numbers" else OnlineMKLClassifier
    known = kind().get_params(deep=False)
    refused = [name for name, value in parameters.items() if name not in known and value != ONLINE[name][0]]
    return kind, TARGETS[target], {name: value for name, value in parameters.items() if name in known}, refused


def check_online(values):
    """Returns whether the combination is one that is learned."""
    kind, y, parameters, refused = settings_of(values)
    if refused:
        return False
    found = []
    for kernels, inputs in (([Linear(normalize=None)], X), ("precomputed", X @ X.T)):
        model = kind(kernels, **parameters, epochs=2, shuffle=False, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                model.fit(inputs, y)
            except InputError as refusal:
                found.append(str(refusal))
                continue
        assert sum(model.kernel_weights_.values()) == pytest.approx(1.0) or not any(model.kernel_weights_.values())
        found.append(model.decision_function(inputs) if y is not SCORE else model.predict(inputs))
        assert np.isfinite(found[-1]).all()
    if isinstance(found[0], str) or isinstance(found[1], str):
        assert all(isinstance(sentence, str) and len(sentence.splitlines()) == 1 for sentence in found)
        return False
    assert_allclose(found[0], found[1], atol=1e-7 * (1.0 + np.abs(found[1]).max()))
    return True


def drawn(options, n, seed):
    """Some of the combinations: each value of each option, beside others that are drawn."""
    rng = np.random.default_rng(seed)
    return [[values[(i + rng.integers(len(values))) % len(values)] for values in options.values()] for i in range(n)]


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_online_settings_are_learned_alike_as_columns_and_as_kernels_or_refused():
    learned = [check_online(values) for values in drawn(ONLINE, 250, 0)]
    assert 50 < sum(learned) < 250


@pytest.mark.soak
@pytest.mark.parametrize("target", ONLINE["target"])
@pytest.mark.parametrize("loss", ONLINE["loss"])
@pytest.mark.parametrize("method", ONLINE["method"])
def test_all_online_settings(target, loss, method):
    for rest in itertools.product(*(ONLINE[name] for name in list(ONLINE)[4:])):
        for regularizer in ONLINE["regularizer"]:
            check_online([target, loss, regularizer, method, *rest])


@pytest.mark.parametrize("kernels", [[Gaussian(4.0), Linear()], ["gaussian:features=20,sigma2=4", "linear"]], ids=str)
@pytest.mark.parametrize("loss", ["hinge", "crf"])
def test_single_precision_and_caches_are_close(kernels, loss):
    y, common = TARGETS["ternary"], {"loss": loss, "epochs": 3, "shuffle": False, "random_state": 0}
    plain = OnlineMKLClassifier(kernels, dtype="float64", **common).fit(X, y)
    for parameters in ({"dtype": "float32"}, {"dtype": "float64", "cache_size": 0}, {"dtype": "float64"}):
        inputs = X.astype(np.float32) if parameters["dtype"] == "float32" else np.asfortranarray(X)
        model = OnlineMKLClassifier(kernels, **parameters, **common).fit(inputs, y)
        tolerance = 1e-3 if parameters["dtype"] == "float32" else 1e-9
        assert_allclose(model.decision_function(X), plain.decision_function(X), atol=tolerance)


GROUPS = [[0], [1, 2], [3]]
DESIGNS = {
    "loss": ["squared", "huber:delta=0.5", "epsilon-insensitive:epsilon=0.1", "logistic", "squared-hinge", "hinge"],
    "regularizer": ["group-lasso", "elastic-net:mu=0.3", "sparse-group:sigma=0.6", "l2"],
    "positive": [False, True],
    "fit_intercept": [True, False],
    "weights": [None, np.linspace(0.5, 2.0, 36)],
    "share": [1e-6, 1e-3, 0.1, 0.5, 2.0],
}
LOSSES = {
    "squared": lambda y, z: 0.5 * (y - z) ** 2,
    "huber:delta=0.5": lambda y, z: np.where(
        np.abs(y - z) <= 0.5, 0.5 * (y - z) ** 2, 0.5 * np.abs(y - z) - 0.125
    ),
    "epsilon-insensitive:epsilon=0.1": lambda y, z: np.maximum(0, np.abs(y - z) - 0.1),
    "logistic": lambda y, z: np.logaddexp(0, -y * z),
    "squared-hinge": lambda y, z: 0.5 * np.maximum(0, 1 - y * z) ** 2,
    "hinge": lambda y, z: np.maximum(0, 1 - y * z),
}  # fmt: skip
PENALTIES = {
    "group-lasso": lambda b, w: b.sum(),
    "elastic-net:mu=0.3": lambda b, w: 0.7 * b.sum() + 0.15 * b @ b,
    "sparse-group:sigma=0.6": lambda b, w: 0.6 * b.sum() + 0.4 * np.abs(w).sum(),
    "l2": lambda b, w: 0.5 * b @ b,
}


def check_design(values):
    """No solver's objective is below what the certificate of another says is least; returns how many learned it."""
    loss, regularizer, positive, intercept, weights, share = values
    classifies = loss in ("logistic", "squared-hinge", "hinge")
    kind = SparseLogisticRegression if classifies else GroupLasso
    y = np.where(SCORE > 0.2, 1.0, -1.0) if classifies else SCORE
    alpha, objectives, bounds, refused = 0.5 * share, [], [], []
    for solver in ("dal", "sparsa", "ist"):
        model = kind(
            alpha, groups=GROUPS, loss=loss, regularizer=regularizer, positive=positive, fit_intercept=intercept,
            solver=solver, tol=1e-5,
        )  # fmt: skip
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            warnings.simplefilter("error", RuntimeWarning)
            try:
                model.fit(X, y, sample_weight=weights)
            except InputError as refusal:
                refused.append(str(refusal))
                continue
        assert -1e-9 <= model.dual_gap_ <= 1e-5 or [w for w in told if w.category is ConvergenceWarning]
        w, b = model.coef_.ravel(), float(np.ravel(model.intercept_)[0])
        assert not positive or (w >= 0).all()
        norms = np.array([np.linalg.norm(w[group]) for group in GROUPS])
        mean = np.average(LOSSES[loss](y, X @ w + b), weights=weights)
        objectives.append(mean + alpha * PENALTIES[regularizer](norms, w))
        bounds.append(objectives[-1] * (1 - model.dual_gap_))
    if objectives:
        assert max(bounds) <= min(objectives) * (1 + 1e-8)
    assert all(len(sentence.splitlines()) == 1 for sentence in refused)
    return len(objectives)


def test_certificates_of_designs_agree_or_what_none_takes_is_refused():
    learned = [check_design(values) for values in drawn(DESIGNS, 20, 1)]
    assert sum(n > 0 for n in learned) > 10
    assert sum(n > 1 for n in learned) > 2


@pytest.mark.soak
@pytest.mark.parametrize("loss", DESIGNS["loss"])
@pytest.mark.parametrize("regularizer", DESIGNS["regularizer"])
def test_certificates_of_all_designs(loss, regularizer):
    for rest in itertools.product(*(DESIGNS[name] for name in list(DESIGNS)[2:])):
        check_design([loss, regularizer, *rest])
