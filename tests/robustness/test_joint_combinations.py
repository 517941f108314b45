"""Certificates of several outputs, for many losses, regularizers and strengths."""

import itertools
import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from omkl import (
    GroupLasso,
    MKLClassifier,
    MKLRegressor,
    SparseLogisticRegression,
)
from omkl.exceptions import InputError

RNG = np.random.default_rng(5)
X = RNG.normal(size=(18, 4))
SCORES = X @ RNG.normal(size=(4, 3)) + X[:, :1] ** 2 + 0.3 * RNG.normal(size=(18, 3))
TARGETS_OF = {"numbers": SCORES, "labels": np.sign(SCORES - np.median(SCORES, axis=0) - 1e-9)}
ONE_HOT = np.eye(3)[SCORES.argmax(axis=1)]
#: Losses of targets and outputs, as they are and in the language of the generic solver, and of what.
LOSSES = {
    "squared": ("numbers", lambda y, z: 0.5 * (y - z) ** 2, lambda y, z: 0.5 * cp.square(y - z)),
    "huber:delta=0.5": (
        "numbers",
        lambda y, z: np.where(abs(y - z) <= 0.5, 0.5 * (y - z) ** 2, 0.5 * abs(y - z) - 0.125),
        lambda y, z: 0.5 * cp.huber(y - z, 0.5),
    ),
    "epsilon-insensitive:epsilon=0.1": (
        "numbers",
        lambda y, z: np.maximum(0, abs(y - z) - 0.1),
        lambda y, z: cp.pos(cp.abs(y - z) - 0.1),
    ),
    "logistic": ("labels", lambda y, z: np.logaddexp(0, -y * z), lambda y, z: cp.logistic(-cp.multiply(y, z))),
    "hinge": ("labels", lambda y, z: np.maximum(0, 1 - y * z), lambda y, z: cp.pos(1 - cp.multiply(y, z))),
    "squared-hinge": (
        "labels",
        lambda y, z: 0.5 * np.maximum(0, 1 - y * z) ** 2,
        lambda y, z: 0.5 * cp.square(cp.pos(1 - cp.multiply(y, z))),
    ),
}
REGULARIZERS = {
    "block1": (np.sum, cp.sum),
    "elastic-net:mu=0.3": (
        lambda b: 0.7 * b.sum() + 0.15 * b @ b,
        lambda b: 0.7 * cp.sum(b) + 0.15 * cp.sum_squares(b),
    ),
    "block-q:q=1.5": (lambda b: (b**1.5).sum() / 1.5, lambda b: cp.sum(cp.power(b, 1.5)) / 1.5),
    "uniform": (lambda b: 0.5 * b @ b, lambda b: 0.5 * cp.sum_squares(b)),
    "mkl": (lambda b: 0.5 * b.sum() ** 2, lambda b: 0.5 * cp.square(cp.sum(b))),
}
STRENGTHS = [1e-6, 1e-3, 1.0, 1e3, 1e6]


def generic_point(parts, n_outputs, intercept, objective):
    """Coefficients of each part, by columns, and intercepts that a generic solver finds; None where it fails."""
    coefficients = [cp.Variable((part.shape[1], n_outputs)) for part in parts]
    constant = cp.Variable((1, n_outputs)) if intercept else np.zeros((1, n_outputs))
    roofs = cp.Variable(len(parts), nonneg=True)
    outputs = sum(part @ own for part, own in zip(parts, coefficients)) + np.ones((len(parts[0]), 1)) @ constant
    cones = [cp.norm(own, "fro") <= roofs[k] for k, own in enumerate(coefficients)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cp.Problem(cp.Minimize(objective(outputs, roofs)), cones).solve(solver=cp.CLARABEL)
    except cp.SolverError:
        return None
    if coefficients[0].value is None:
        return None
    return [own.value for own in coefficients], constant.value if intercept else constant


def check_bounds(models, generic, objective, parts):
    """No certificate is above an objective; models are pairs of an objective and a relative gap."""
    objectives = [value for value, _ in models]
    if generic is not None:
        coefficients, constant = generic
        outputs = sum(part @ own for part, own in zip(parts, coefficients)) + constant
        objectives.append(objective(outputs, np.array([np.linalg.norm(own) for own in coefficients])))
    assert max(value * (1 - gap) for value, gap in models) <= min(objectives) * (1 + 1e-7)


def fitted(model, *data, **weights):
    """The model, or None where it is refused; a certificate that is loose is told."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            model.fit(*data, **weights)
        except InputError:  # at the door
            return None
    assert -1e-7 <= model.dual_gap_ <= model.tol or [w for w in told if issubclass(w.category, ConvergenceWarning)]
    return model


#: Features of each kernel.
MAPS = [X[:, :1], X[:, 1:3], X**2, X[:, 3:] * X[:, :2]]
GRAMS = [part @ part.T for part in MAPS]


def check_outputs(loss, regularizer, C):
    """Kernels that several outputs share; returns how many solvers learned them."""
    kind, value, generic_value = LOSSES[loss]
    penalty, generic_penalty = REGULARIZERS[regularizer]
    y, unit = TARGETS_OF[kind], max(C, 1.0)

    def objective(outputs, norms):
        return C * value(y, outputs).sum() + penalty(norms)

    found = []
    for solver in ("spicy", "one-step"):  # others learn one output after the other
        estimator = MKLRegressor if kind == "numbers" else MKLClassifier
        model = estimator(
            "precomputed", loss=loss, regularizer=regularizer, C=C, solver=solver, tol=1e-4, dtype="float64"
        )
        if fitted(model, GRAMS, y if kind == "numbers" else (y > 0).astype(int)) is None:
            continue
        outputs = sum(K @ model.dual_coef_[:, m].T for m, K in enumerate(GRAMS)) + model.intercept_
        norms = [np.sqrt(max(sum(a @ K @ a for a in model.dual_coef_[:, m]), 0)) for m, K in enumerate(GRAMS)]
        found.append((objective(outputs, np.array(norms)), model.dual_gap_))
    generic = generic_point(
        MAPS, 3, True, lambda z, b: C / unit * cp.sum(generic_value(y, z)) + generic_penalty(b) / unit
    )
    check_bounds(found, generic, objective, MAPS)
    return len(found)


GROUPS = [[0], [1, 2], [3]]
DESIGN_PENALTIES = {"group-lasso": "block1", "elastic-net:mu=0.3": "elastic-net:mu=0.3", "l2": "uniform"}


def check_tasks(loss, regularizer, intercept, weighted, share):
    """Groups of columns that several outputs, or all classes, share."""
    penalty, generic_penalty = REGULARIZERS[DESIGN_PENALTIES[regularizer]]
    weights = np.linspace(0.5, 2.0, 18) if weighted else np.ones(18)
    weights /= weights.sum()
    parts, alpha = [X[:, group] for group in GROUPS], 0.5 * share
    options = {"groups": GROUPS, "regularizer": regularizer, "fit_intercept": intercept, "tol": 1e-5}
    if loss == "multinomial":
        value = lambda z: np.logaddexp.reduce(z, axis=1) - (ONE_HOT * z).sum(axis=1)  # noqa: E731
        generic_value = lambda z: cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(ONE_HOT, z), axis=1)  # noqa: E731
        model, y = SparseLogisticRegression(alpha, multiclass=loss, **options), ONE_HOT.argmax(axis=1)
    else:
        y = TARGETS_OF["numbers"]
        value = lambda z: LOSSES[loss][1](y, z).sum(axis=1)  # noqa: E731
        generic_value = lambda z: cp.sum(LOSSES[loss][2](y, z), axis=1)  # noqa: E731
        model = GroupLasso(alpha, loss=loss, **options)

    def objective(outputs, norms):
        return weights @ value(outputs) + alpha * penalty(norms)

    assert fitted(model, X, y, sample_weight=weights) is not None
    outputs = X @ model.coef_.T + model.intercept_
    norms = np.array([np.linalg.norm(model.coef_[:, group]) for group in GROUPS])
    generic = generic_point(
        parts, 3, intercept, lambda z, b: (weights @ generic_value(z) + alpha * generic_penalty(b)) / max(alpha, 1.0)
    )
    check_bounds([(objective(outputs, norms), model.dual_gap_)], generic, objective, parts)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_certificates_of_several_outputs_are_those_of_the_joint_problem(loss, regularizer):
    place = list(REGULARIZERS).index(regularizer) + list(LOSSES).index(loss)
    assert check_outputs(loss, regularizer, STRENGTHS[place % 5]) > 0


TASKS = list(itertools.product(["squared", "huber:delta=0.5", "multinomial"], DESIGN_PENALTIES))


@pytest.mark.parametrize(("loss", "regularizer"), TASKS)
def test_certificates_of_designs_of_several_outputs_hold(loss, regularizer):
    for number, share in enumerate([1e-6, 1e-2, 0.5, 1e6]):
        check_tasks(loss, regularizer, number % 2 == 0, number % 3 == 0, share)


@pytest.mark.parametrize("solver", ["sparsa", "ist"])
def test_solvers_of_one_output_refuse_several(solver):
    with pytest.raises(InputError, match="Several outputs"):
        GroupLasso(0.1, solver=solver).fit(X, SCORES)
