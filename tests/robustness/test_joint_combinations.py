"""Several outputs, one class, models on a budget: every loss, regularizer and solver that takes them, at any strength.

What a certificate says is least is compared with what a generic solver finds, evaluated here; models on a budget with
those that are learned as columns. All of them: ``pytest -m soak tests/robustness/test_joint_combinations.py``.
"""

import itertools
import warnings

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from omkl import (
    GroupLasso,
    MKLClassifier,
    MKLRegressor,
    OneClassMKL,
    OnlineMKLClassifier,
    OnlineMKLRegressor,
    SparseLogisticRegression,
)
from omkl.exceptions import InputError
from omkl.kernels import Custom, Linear

from .test_online_combinations import ONLINE, SCORE, TARGETS, drawn
from .test_online_combinations import X as POINTS

RNG = np.random.default_rng(5)
X = RNG.normal(size=(18, 4))
SCORES = X @ RNG.normal(size=(4, 3)) + X[:, :1] ** 2 + 0.3 * RNG.normal(size=(18, 3))
TARGETS_OF = {"numbers": SCORES, "labels": np.sign(SCORES - np.median(SCORES, axis=0) - 1e-9)}
ONE_HOT = np.eye(3)[SCORES.argmax(axis=1)]
#: Losses of targets and outputs, as they are and in the language of the generic solver, and of what.
LOSSES = {
    "squared": ("numbers", lambda y, z: 0.5 * (y - z) ** 2, lambda y, z: 0.5 * cp.square(y - z)),
    "huber:delta=0.5": (
        "numbers", lambda y, z: np.where(abs(y - z) <= 0.5, 0.5 * (y - z) ** 2, 0.5 * abs(y - z) - 0.125),
        lambda y, z: 0.5 * cp.huber(y - z, 0.5),
    ),
    "epsilon-insensitive:epsilon=0.1": (
        "numbers", lambda y, z: np.maximum(0, abs(y - z) - 0.1), lambda y, z: cp.pos(cp.abs(y - z) - 0.1)
    ),
    "logistic": ("labels", lambda y, z: np.logaddexp(0, -y * z), lambda y, z: cp.logistic(-cp.multiply(y, z))),
    "hinge": ("labels", lambda y, z: np.maximum(0, 1 - y * z), lambda y, z: cp.pos(1 - cp.multiply(y, z))),
    "squared-hinge": (
        "labels", lambda y, z: 0.5 * np.maximum(0, 1 - y * z) ** 2,
        lambda y, z: 0.5 * cp.square(cp.pos(1 - cp.multiply(y, z))),
    ),
}  # fmt: skip
REGULARIZERS = {
    "block1": (np.sum, cp.sum),
    "elastic-net:mu=0.3": (
        lambda b: 0.7 * b.sum() + 0.15 * b @ b, lambda b: 0.7 * cp.sum(b) + 0.15 * cp.sum_squares(b)
    ),
    "block-q:q=1.5": (lambda b: (b**1.5).sum() / 1.5, lambda b: cp.sum(cp.power(b, 1.5)) / 1.5),
    "uniform": (lambda b: 0.5 * b @ b, lambda b: 0.5 * cp.sum_squares(b)),
    "mkl": (lambda b: 0.5 * b.sum() ** 2, lambda b: 0.5 * cp.square(cp.sum(b))),
}  # fmt: skip
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
        )  # fmt: skip
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


POSITIVE = [np.abs(part) for part in MAPS]


def check_one_class(regularizer, nu, weighted):
    penalty, generic_penalty = REGULARIZERS[regularizer]
    weights = np.arange(18) % 3 + 0.5 if weighted else np.ones(18)
    grams = [part @ part.T for part in POSITIVE]
    model = fitted(OneClassMKL("precomputed", nu=nu, regularizer=regularizer, dtype="float64"), grams, None, weights)
    if model is None:
        return
    C = model.C_

    def objective(outputs, norms):
        return C * weights @ np.maximum(0, 1 - outputs.ravel()) + penalty(norms)

    outputs = sum(K @ a for K, a in zip(grams, model.dual_coef_))
    norms = np.sqrt([max(a @ K @ a, 0.0) for K, a in zip(grams, model.dual_coef_)])
    generic = generic_point(
        POSITIVE, 1, False,
        lambda z, b: (C * weights @ cp.pos(1 - z[:, 0]) + generic_penalty(b)) / max(C, 1.0),
    )  # fmt: skip
    check_bounds([(objective(outputs, norms), model.dual_gap_)], generic, objective, POSITIVE)


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


@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_certificates_of_one_class_hold(regularizer):
    for number, nu in enumerate([1e-6, 0.1, 0.9, 1 - 1e-6]):
        check_one_class(regularizer, nu, number % 2 == 1)


@pytest.mark.soak
@pytest.mark.parametrize("C", STRENGTHS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
def test_certificates_of_several_outputs_at_all_strengths(loss, regularizer, C):
    check_outputs(loss, regularizer, C)


@pytest.mark.soak
@pytest.mark.parametrize(("loss", "regularizer"), TASKS)
@pytest.mark.parametrize("share", [10.0**k for k in range(-6, 7)])
def test_certificates_of_designs_of_several_outputs_at_all_strengths(loss, regularizer, share):
    for intercept, weighted in itertools.product([True, False], repeat=2):
        check_tasks(loss, regularizer, intercept, weighted, share)


@pytest.mark.soak
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("nu", [1e-6, 1e-3, 0.03, 0.2, 0.5, 0.8, 0.99, 1 - 1e-6])
def test_certificates_of_one_class_at_all_fractions(regularizer, nu):
    for weighted in (False, True):
        check_one_class(regularizer, nu, weighted)


def inner_products(X, Y):
    """A kernel of which nothing is known but its values."""
    return X @ Y.T


BUDGETED = {name: values for name, values in ONLINE.items() if name not in ("method", "batch_size")} | {
    "method": ["fobos", "rda"], "batch_size": [1], "C": [1.0, 1e-6, 1e-2, 1e2, 1e6],
    "budget": [("projection", 40), ("removal", 40), ("projection", 8)],
}  # fmt: skip


def check_budget(values):
    """A budget above the number of rows, or with projection above the rank of the kernel, changes nothing."""
    parameters = dict(zip(BUDGETED, values))
    target, schedule = parameters.pop("target"), parameters["schedule"]
    maintenance, budget = parameters.pop("budget")
    parameters["eta0"] = "auto" if schedule is None else 0.1
    kind = OnlineMKLRegressor if target == "numbers" else OnlineMKLClassifier
    common = {name: value for name, value in parameters.items() if name in kind().get_params(deep=False)}
    common |= {"epochs": 2, "shuffle": False, "random_state": 0}
    y, outputs, refusals = TARGETS[target], [], []
    for kernels, own in (
        ([Linear(normalize=None)], {}),
        ([Custom(inner_products)], {"budget": budget, "budget_maintenance": maintenance}),
    ):
        model = kind(kernels, **common, **own)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                model.fit(POINTS, y)
            except InputError as refusal:
                refusals.append(str(refusal))
                continue
        outputs.append(model.predict(POINTS) if y is SCORE else model.decision_function(POINTS))
    if refusals:
        assert all(len(sentence.splitlines()) == 1 for sentence in refusals)
        return False
    unit = 1.0 + np.abs(outputs[0]).max()
    assert_allclose(outputs[1], outputs[0], atol=unit * (1e-7 if budget == 40 else 1e-4))
    return True


def test_budgets_that_lose_nothing_change_nothing():
    learned = [check_budget(values) for values in drawn(BUDGETED, 150, 2)]
    assert sum(learned) > 30


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3, 13))
def test_many_budgets_that_lose_nothing_change_nothing(seed):
    for values in drawn(BUDGETED, 500, seed):
        check_budget(values)
