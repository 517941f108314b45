"""Lasso and group lasso, one alpha and a path, against celer, skglm, adelie and scikit-learn.

All minimize the same objective. A peer gets the loosest tolerance at which it reaches the relative
duality gap at every point of the path; the same function certifies all gaps. The floor is one pass
over the design.
"""

from collections import deque
from contextlib import suppress
from importlib import import_module
from itertools import product

import numpy as np
import pytest

from omkl.batch import (
    DAL,
    ColumnGroups,
    DesignProblem,
    LinearModel,
    as_design,
    certify,
    regularization_path,
)
from omkl.losses import Logistic, Squared
from omkl.regularizers import L21
from tests.benchmarks.measuring import Floor, MissedError, elsewhere

GAP = 1e-3
PATH_GAP = 1e-4
LIMIT = 30.0  # seconds in which a peer must find its tolerance
TOLERANCES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
large = pytest.mark.large
SHAPES, WIDE = [(2048, 512), (512, 4096)], (1024, 16_384)
WIDTHS = [1000, 10_000, pytest.param(100_000, marks=large), pytest.param(1_000_000, marks=large)]


def cases(*others):
    """Combine shapes with parameters.

    A quick run, and the widest shape always, take the first of each.
    """
    first = [options[0] for options in others]
    parameters = []
    for shape, *options in product(SHAPES, *others):
        marks = [] if options == first else [large]
        parameters.append(pytest.param(shape, *options, marks=marks))
    return [*parameters, pytest.param(WIDE, *first, marks=large)]


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """Compile skglm here once, since it has no cache; processes copied from this one inherit it."""
    A, y = design_of(64, 32, "well")
    with suppress(Exception):
        for loss, size in ((Squared(), 1), (Logistic(), 1), (Squared(), 4)):
            problem = problem_of(A, y, loss, 0.5, size)
            skglm(problem, 1e-2).fit(A, problem.y)


def design_of(m, n, condition, seed=0):
    """Draw normal columns: independent, or mixed by a matrix with singular values 1, ..., 1/m."""
    rng = np.random.default_rng(seed)
    A = np.empty((m, n), order="F")
    if condition == "bad":
        root = np.linalg.qr(rng.normal(size=(m, m)))[0] / np.arange(1, m + 1)
    for start in range(0, n, 4096):
        block = rng.normal(size=(m, min(4096, n - start)))
        if condition == "bad":
            block = root @ block
        A[:, start : start + 4096] = block
    n_informative = min(40, n // 8)
    informative = rng.choice(n, n_informative, replace=False)
    signal = A[:, informative] @ rng.normal(size=n_informative)
    noise = 1.0
    if condition == "bad":
        noise = 0.1 * signal.std()
    return A, signal + noise * rng.normal(size=m)


def problem_of(A, y, loss, share, size=1):
    """Make the problem at a fraction of the largest alpha; groups are neighbouring columns."""
    target = np.sign(y) if loss.classifies else y
    groups = None if size == 1 else ColumnGroups(np.arange(A.shape[1]) // size, A.shape[1])
    problem = DesignProblem(as_design(A), target, loss, L21(), 1.0, groups, False)
    return problem.at(share * problem.largest_alpha())


def peer(make_model, problem):
    """Return the fit of a package's model at the loosest tolerance that reaches the gap."""

    def make():
        A = problem.design.matrix
        y = targets_of(problem)
        for tol in TOLERANCES:
            coef = np.atleast_2d(make_model(problem, tol).fit(A, y).coef_).T.ravel()
            active = np.flatnonzero(coef)
            groups = problem.groups.of_columns(active)
            gap = certify(problem, LinearModel(*_whole_groups(problem, groups, coef))).gap
            if gap <= GAP:
                return lambda: make_model(problem, tol).fit(A, y)
        raise MissedError(f"gap {gap:.0e}")

    return make


def targets_of(problem):
    """Return targets as packages expect them: (m,), or (m, K) for several outputs."""
    return problem.y if problem.n_outputs == 1 else problem.y.reshape(problem.n_outputs, -1).T


def _whole_groups(problem, groups, coef):
    columns, _ = problem.groups.columns_of(groups)
    return columns, coef[columns]


def skglm(problem, tol):
    package = import_module("skglm")
    size = int(problem.groups.blocks.sizes[0])
    if size > 1:
        return package.GroupLasso(groups=size, alpha=problem.alpha, tol=tol, fit_intercept=False)
    model = package.SparseLogisticRegression if problem.loss.classifies else package.Lasso
    return model(alpha=problem.alpha, tol=tol, fit_intercept=False)


def celer(problem, tol):
    package = import_module("celer")
    size = int(problem.groups.blocks.sizes[0])
    if size > 1:
        return package.GroupLasso(groups=size, alpha=problem.alpha, tol=tol, fit_intercept=False)
    if problem.loss.classifies:
        return package.LogisticRegression(
            C=1 / (problem.alpha * len(problem.y)), tol=tol, fit_intercept=False
        )
    return package.Lasso(alpha=problem.alpha, tol=tol, fit_intercept=False)


def sklearn(problem, tol):
    package = import_module("sklearn.linear_model")
    if problem.loss.classifies:
        strength = {
            "C": 1 / (problem.alpha * len(problem.y)),
            "l1_ratio": 1.0,
            "solver": "liblinear",
        }
        return package.LogisticRegression(**strength, fit_intercept=False, tol=tol)
    return package.Lasso(alpha=problem.alpha, tol=tol, fit_intercept=False)


def adelie(problem, alphas, gap, kind=None):
    Y = targets_of(problem).reshape(problem.design.matrix.shape[0], -1)
    kind = kind or ("binomial" if problem.loss.classifies else "gaussian")
    return elsewhere(
        "adelie",
        A=problem.design.matrix,
        Y=np.maximum(Y, 0) if kind == "binomial" else Y,
        gap=gap,
        kind=kind,
        alphas=np.atleast_1d(alphas),
        group_size=int(problem.groups.blocks.sizes[0]) // problem.n_outputs,
    )


def a_pass(problem):
    A = problem.design.matrix
    rho = np.ones((A.shape[0], problem.n_outputs))
    return Floor("pass", lambda: A.T @ rho)


def measure_solver(measure, problem, names, size=None):
    """Measure one alpha, against adelie and the given peers."""
    packages = {"skglm": skglm, "celer": celer, "sklearn": sklearn}
    peers = {name: peer(packages[name], problem) for name in names}
    measure_beside(measure, problem, {**peers, "adelie": adelie(problem, problem.alpha, GAP)}, size)


def measure_beside(measure, problem, peers, size=None):
    """Measure one alpha against a peer."""
    solutions = deque(maxlen=1)  # free the memory of earlier tests, as peers have it free
    solve = lambda: solutions.append(DAL().solve(problem, GAP))  # noqa: E731
    measure(solve, floor=a_pass(problem), peers=peers, size=size, limit=LIMIT)
    measure.note(gap=solutions[-1].certificate.gap, active=len(solutions[-1].model.active))


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=["squared", "logistic"])
@pytest.mark.parametrize(
    ("shape", "condition", "share"), cases(["well", "bad"], [0.1, 0.01]), ids=str
)
def test_lasso(measure, shape, condition, share, loss):
    names = ["skglm", "celer"]
    if condition == "well":
        names.append("sklearn")
    measure_solver(measure, problem_of(*design_of(*shape, condition), loss, share), names)


@pytest.mark.parametrize("size", [4, 16, 64])
@pytest.mark.parametrize(("shape", "condition"), cases(["well", "bad"]), ids=str)
def test_group_lasso(measure, shape, condition, size):
    measure_solver(
        measure, problem_of(*design_of(*shape, condition), Squared(), 0.1, size), ["skglm", "celer"]
    )


@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize(("shape", "n_points"), cases([20, 100]), ids=str)
def test_path(measure, shape, size, n_points):
    """Measure a path from the largest alpha to a tenth of it, each with a gap of 1e-4."""
    problem = problem_of(*design_of(*shape, "well"), Squared(), 1.0, size)
    alphas = problem.alpha * np.geomspace(1.0, 0.1, n_points)

    def solve_path():
        for _ in regularization_path(DAL(), problem, alphas, tol=PATH_GAP):
            pass

    measure(
        solve_path,
        floor=a_pass(problem),
        peers={"adelie": adelie(problem, alphas, PATH_GAP)},
        limit=LIMIT,
    )


@pytest.mark.parametrize("n", WIDTHS)
def test_columns(measure, n):
    """128 rows, growing numbers of columns, groups of 4."""
    problem = problem_of(*design_of(128, n, "well"), Squared(), 0.3, 4)
    measure_solver(measure, problem, ["celer"] if n <= 100_000 else [], size=n)
