"""DAL on a design matrix: against generic solvers and scikit-learn, for every kind of design, in degenerate cases."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator
from sklearn.linear_model import ElasticNet as SklearnElasticNet
from sklearn.linear_model import Lasso, LogisticRegression

from omkl.batch import (
    DAL,
    ColumnGroups,
    DesignProblem,
    LinearModel,
    as_design,
    certify_linear,
    solve_path,
)
from omkl.batch.design import newton
from omkl.exceptions import InputError
from omkl.losses import Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L1, L21, ElasticNet, LqNorm

LOSSES = {
    "squared": (Squared(), lambda y, z: 0.5 * cp.sum_squares(y - z)),
    "logistic": (Logistic(), lambda y, z: cp.sum(cp.logistic(-cp.multiply(y, z)))),
    "squared hinge": (SquaredHinge(), lambda y, z: 0.5 * cp.square(cp.norm(cp.pos(1 - cp.multiply(y, z)), 2))),
    "Huber": (Huber(0.5), lambda y, z: 0.5 * cp.sum(cp.huber(y - z, 0.5))),
}
REGULARIZERS = {
    "lasso": (L1(), cp.sum),
    "elastic net": (ElasticNet(0.4), lambda b: 0.6 * cp.sum(b) + 0.2 * cp.sum_squares(b)),
    "scaled": (2.5 * L21(), lambda b: 2.5 * cp.sum(b)),
}
#: Labels of groups of several sizes, not in order; and weights.
LABELS = np.repeat(["c", "a", "d", "b"], [1, 6, 8, 5])[np.random.default_rng(3).permutation(20)]
WEIGHTS = np.array([0.7, 1.0, 2.0, 1.3])
each_loss = pytest.mark.parametrize("loss", LOSSES)


def make_problem(loss, regularizer="lasso", m=30, n=20, share=0.2, intercept=True, grouped=False, seed=0, **settings):
    """A random problem with correlated columns, at a share of its largest useful strength."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) @ (np.eye(n) + 0.3 * rng.normal(size=(n, n)) / np.sqrt(n)) + 0.5
    loss = LOSSES[loss][0]
    y = X[:, :3] @ [1.0, -2.0, 1.0] + 0.5 * rng.normal(size=m) + 1.0
    y = np.sign(y) if loss.classifies else y
    groups = ColumnGroups(LABELS, n, WEIGHTS) if grouped else None
    problem = DesignProblem(as_design(X), y, loss, REGULARIZERS[regularizer][0], 1.0, groups, intercept)
    C = share * problem.largest_strength()
    return DesignProblem(as_design(X), y, loss, REGULARIZERS[regularizer][0], C, groups, intercept)


def generic_optimum(problem, loss, regularizer, grouped):
    """The least objective, by a generic convex solver."""
    X = problem.design.matrix
    w = cp.Variable(X.shape[1])
    b = cp.Variable() if problem.intercept else 0.0
    if grouped:
        norms = cp.hstack([weight * cp.norm(w[label == LABELS], 2) for label, weight in zip("abcd", WEIGHTS)])
    else:
        norms = cp.abs(w)
    objective = LOSSES[loss][1](problem.y, X @ w + b) + problem.C * REGULARIZERS[regularizer][1](norms)
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@each_loss
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("grouped", [True, False])
def test_the_objective_is_that_of_a_generic_solver(loss, regularizer, intercept, grouped):
    problem = make_problem(loss, regularizer, intercept=intercept, grouped=grouped)
    optimum = generic_optimum(problem, loss, regularizer, grouped)
    solution = DAL().solve(problem, tol=1e-8)
    assert solution.converged
    assert len(solution.model.active) > 0
    assert abs(solution.certificate.primal - optimum) <= 1e-6 * optimum


@each_loss
@pytest.mark.parametrize("grouped", [True, False])
def test_the_gap_bounds_the_suboptimality_of_any_model(loss, grouped):
    problem = make_problem(loss, grouped=grouped)
    optimum = generic_optimum(problem, loss, "lasso", grouped)
    rng = np.random.default_rng(1)
    for scale in (0.0, 0.01, 0.3, 2.0):
        active = np.sort(rng.choice(20, 5, replace=False))
        certificate = certify_linear(problem, LinearModel(active, scale * rng.normal(size=5), 0.3))
        assert certificate.dual <= optimum * (1 + 1e-7)
        assert certificate.primal >= optimum * (1 - 1e-7)


def test_the_certificate_is_that_of_the_returned_model():
    problem = make_problem("logistic", m=40, n=200)
    solution = DAL().solve(problem, tol=1e-4)
    certificate = certify_linear(problem, solution.model)
    assert_allclose(certificate.gap, solution.certificate.gap, atol=1e-12)
    assert certificate.gap <= 1e-4
    optimum = DAL().solve(problem, tol=1e-10).certificate.primal
    for record in solution.history:
        assert record["dual"] <= optimum * (1 + 1e-9)
        assert record["primal"] >= optimum * (1 - 1e-9)


def test_lasso_and_elastic_net_are_those_of_scikit_learn():
    problem = make_problem("squared", m=50, n=120)
    X, m = problem.design.matrix, 50
    theirs = Lasso(alpha=problem.C / m, tol=1e-12, max_iter=100_000).fit(X, problem.y)
    ours = DAL().solve(problem, tol=1e-10)
    assert_allclose(ours.model.dense(120), theirs.coef_, atol=1e-5)
    assert_allclose(ours.model.intercept, theirs.intercept_, atol=1e-5)
    net = DesignProblem(problem.design, problem.y, Squared(), ElasticNet(0.3), problem.C)
    theirs = SklearnElasticNet(alpha=problem.C / m, l1_ratio=0.7, tol=1e-12, max_iter=100_000).fit(X, problem.y)
    assert_allclose(DAL().solve(net, tol=1e-10).model.dense(120), theirs.coef_, atol=1e-5)


def test_logistic_regression_is_that_of_scikit_learn():
    problem = make_problem("logistic", m=50, n=120, share=0.1, intercept=False)
    theirs = LogisticRegression(C=1 / problem.C, l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-10)
    theirs.fit(problem.design.matrix, problem.y)
    active = np.flatnonzero(theirs.coef_[0])
    theirs = certify_linear(problem, LinearModel(active, theirs.coef_[0, active]))
    ours = DAL().solve(problem, tol=1e-9).certificate
    assert_allclose(ours.primal, theirs.primal, rtol=1e-6)
    saga = LogisticRegression(C=1 / problem.C, l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=20_000)
    saga.fit(problem.design.matrix, problem.y)
    active = np.flatnonzero(saga.coef_[0])
    with_intercept = DesignProblem(problem.design, problem.y, Logistic(), L21(), problem.C)
    theirs = certify_linear(with_intercept, LinearModel(active, saga.coef_[0, active], saga.intercept_[0]))
    assert_allclose(DAL().solve(with_intercept, tol=1e-9).certificate.primal, theirs.primal, rtol=1e-6)


@each_loss
@pytest.mark.parametrize("grouped", [True, False])
def test_every_kind_of_design_gives_the_same_model(loss, grouped):
    problem = make_problem(loss, grouped=grouped)
    X = problem.design.matrix * (np.random.default_rng(5).random((30, 20)) < 0.4)
    kinds = [np.asfortranarray(X), X.astype(np.float32), sparse.csc_array(X), sparse.csr_array(X), aslinearoperator(X)]
    kinds += [sparse.csc_array(X.astype(np.float32)), X.astype(np.float64)]

    def model(matrix):
        other = DesignProblem(as_design(matrix), problem.y, problem.loss, L21(), 0.5, problem.groups)
        solution = DAL().solve(other, tol=1e-8)
        assert solution.converged
        return solution.certificate.primal

    assert_allclose([model(matrix) for matrix in kinds], model(X), rtol=1e-6)


def test_designs_are_never_copied():
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 8)), dtype=np.float32)
    for matrix in (X, X.T, sparse.csc_array(X), sparse.csr_array(X)):
        held = as_design(matrix).matrix
        shares = np.shares_memory(held, matrix) if isinstance(matrix, np.ndarray) else held is matrix
        assert shares


@each_loss
@pytest.mark.parametrize("side", ["_by_columns", "_by_rows", "_by_conjugate_gradients"])
@pytest.mark.parametrize("grouped", [True, False])
def test_every_way_to_solve_newtons_system_gives_the_same_model(loss, side, grouped, monkeypatch):
    problem = make_problem(loss, grouped=grouped)
    expected = DAL().solve(problem, tol=1e-7).certificate.primal
    way = getattr(newton.NewtonSystem, side)

    def solve(system, right, inverse):
        return (
            way(system, right, inverse, np.flatnonzero(inverse)) if side == "_by_rows" else way(system, right, inverse)
        )

    monkeypatch.setattr(newton.NewtonSystem, "solve", solve)
    assert_allclose(DAL().solve(problem, tol=1e-7).certificate.primal, expected, rtol=2e-7)


@each_loss
def test_badly_conditioned_designs_are_solved_tightly(loss):
    rng = np.random.default_rng(0)
    m, n = 60, 400
    U, V = (np.linalg.qr(rng.normal(size=(size, m)))[0] for size in (m, n))
    X = U / np.arange(1, m + 1) @ V.T
    y = X[:, :5] @ rng.normal(size=5)
    loss = LOSSES[loss][0]
    y = np.sign(y) if loss.classifies else y / np.abs(y).mean()
    base = DesignProblem(as_design(X), y, loss, L21(), 1.0)
    for C, solution in solve_path(base, [share * base.largest_strength() for share in (0.3, 0.1, 0.01, 1e-3)], 1e-6):
        assert solution.converged, C


@pytest.mark.parametrize("grouped", [True, False])
def test_a_path_is_the_separate_solutions(grouped):
    problem = make_problem("squared", grouped=grouped)
    path = list(solve_path(problem, 8, tol=1e-8))
    assert len(path[0][1].model.active) == 0
    assert_allclose(path[-1][0] / path[0][0], 1e-2)
    for C, solution in path:
        separate = DesignProblem(problem.design, problem.y, problem.loss, problem.regularizer, C, problem.groups)
        assert_allclose(solution.certificate.primal, DAL().solve(separate, tol=1e-8).certificate.primal, rtol=2e-8)
    with pytest.raises(InputError, match="number of strengths"):
        next(solve_path(problem, 0))


@each_loss
@pytest.mark.parametrize("intercept", [True, False])
def test_from_the_largest_strength_on_the_model_is_a_constant(loss, intercept):
    problem = make_problem(loss, "elastic net", share=1.0, intercept=intercept)
    assert len(DAL().solve(problem, tol=1e-6).model.active) == 0
    below = make_problem(loss, "elastic net", share=0.98, intercept=intercept)
    assert len(DAL().solve(below, tol=1e-9).model.active) > 0


def test_zero_and_duplicate_columns_do_no_harm():
    problem = make_problem("logistic", n=20)
    X = problem.design.matrix
    padded = np.concatenate([np.zeros((30, 3)), X, X, np.zeros((30, 2))], axis=1)
    other = DesignProblem(as_design(padded), problem.y, problem.loss, L21(), problem.C)
    solution = DAL().solve(other, tol=1e-8)
    assert_allclose(solution.certificate.primal, DAL().solve(problem, tol=1e-8).certificate.primal, rtol=1e-7)
    w = solution.model.dense(45)
    assert_array_equal(w[[0, 1, 2, 43, 44]], 0.0)
    zero = DesignProblem(as_design(np.zeros((30, 4))), problem.y, problem.loss, L21(), 0.1)
    solution = DAL().solve(zero, tol=1e-6)
    assert solution.converged
    assert len(solution.model.active) == 0


@pytest.mark.parametrize(("m", "n"), [(300, 4), (8, 600), (40, 40), (3, 1)])
@each_loss
def test_tall_and_wide_designs(loss, m, n):
    problem = make_problem(loss, m=m, n=max(n, 3), share=0.02)
    solution = DAL().solve(problem, tol=1e-6)
    assert solution.converged
    assert certify_linear(problem, solution.model).gap <= 1e-6


def test_scales_of_columns_and_targets_do_not_matter():
    problem = make_problem("squared", m=40, n=100)
    expected = DAL().solve(problem, tol=1e-8).certificate.primal
    for column, target in ((1e-6, 1.0), (1e6, 1.0), (1.0, 1e6), (1e-4, 1e-5)):
        design = as_design(column * problem.design.matrix)
        scaled = DesignProblem(design, target * problem.y, Squared(), L21(), problem.C * column * target)
        solution = DAL().solve(scaled, tol=1e-8)
        assert solution.converged
        assert_allclose(solution.certificate.primal, expected * target**2, rtol=2e-8)


def test_a_callback_ends_the_search_and_a_start_goes_on():
    problem = make_problem("logistic", m=60, n=500, share=0.05)
    short = DAL().solve(problem, tol=1e-8, on_iteration=lambda record: record["active"] > 0)
    assert not short.converged
    for start in (short.start, short.model):
        resumed = DAL().solve(problem, tol=1e-8, start=start)
        assert resumed.converged
        assert resumed.history[0]["primal"] <= short.certificate.primal * (1 + 1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"loss": Hinge(), "y": np.ones(4)}, "has a kink"),
        ({"regularizer": LqNorm(1.5)}, "selects no groups"),
        ({"C": 0.0}, "C must be a finite number > 0"),
        ({"y": np.zeros(3)}, "4 rows, but y has shape"),
        ({"loss": Logistic(), "y": np.ones(4)}, "one class only"),
        ({"groups": ColumnGroups(None, 3)}, "groups are of 3 columns"),
    ],
)
def test_bad_problems_are_refused(settings, message):
    given = {"design": as_design(np.eye(4)), "y": np.arange(4.0), "loss": Squared(), "regularizer": L21(), "C": 1.0}
    with pytest.raises(InputError, match=message):
        DesignProblem(**{**given, **settings})


def test_bad_parameters_are_refused():
    with pytest.raises(InputError, match="gamma must be > 0"):
        DAL(gamma=0.0)
    with pytest.raises(InputError, match="tol must be > 0"):
        DAL().solve(make_problem("squared"), tol=0.0)
    with pytest.raises(InputError, match="real matrix"):
        as_design(np.zeros(3))
    with pytest.raises(InputError, match="empty group"):
        ColumnGroups([[0, 1], []], 2)
