"""Multi-task and multinomial problems, whose outputs share groups, against a convex solver."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import check_grad

from omkl.batch import DAL, ColumnGroups, as_design, certify, stacked_problem
from omkl.batch.group_lasso.several_outputs import StackedDesign
from omkl.batch.group_lasso.sweeps import Sweeps
from omkl.batch.stacked_loss import MultinomialLoss
from omkl.batch.weighted_loss import Unpenalized
from omkl.exceptions import InputError
from omkl.losses import Hinge, Poisson, Squared
from omkl.regularizers import L21, ElasticNet, SparseGroup

LABELS, OUTPUTS = np.arange(24) // 4, 3


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    A, W = rng.normal(size=(80, 24)) + 0.3, np.zeros((24, OUTPUTS))
    W[:6] = rng.normal(size=(6, OUTPUTS))
    z = A @ W - (A @ W).mean(axis=0)
    classes = (z + rng.normal(size=z.shape)).argmax(axis=1)
    targets = {"squared": z + 2 + rng.normal(size=z.shape), "multinomial": np.eye(OUTPUTS)[classes]}
    return A, {**targets, "poisson": rng.poisson(np.exp(0.2 * z)).astype(float)}


def make_problem(samples, kind, weights, intercept, is_sparse=False, labels=LABELS, **options):
    A, targets = samples
    loss = {"squared": Squared(), "multinomial": None, "poisson": Poisson()}[kind]
    design = as_design(sparse.csc_array(A) if is_sparse else A)
    return stacked_problem(
        design, targets[kind], loss, L21(), 0.1, ColumnGroups(labels, 24, weights), intercept, **options
    )


def by_cvxpy(samples, kind, weights, intercept, labels=LABELS, offset=0.0):
    A, targets = samples
    Y, W, b = (
        targets[kind],
        cp.Variable((24, OUTPUTS)),
        cp.Variable((1, OUTPUTS)) if intercept else np.zeros((1, OUTPUTS)),
    )
    z = A @ W + np.ones((80, 1)) @ b + offset
    value = {
        "squared": lambda: 0.5 * cp.sum_squares(Y - z),
        "multinomial": lambda: cp.sum(cp.log_sum_exp(z, axis=1)) - cp.sum(cp.multiply(Y, z)),
        "poisson": lambda: cp.sum(cp.exp(z) - cp.multiply(Y, z)) + (Poisson().value(Y, 0 * Y) - 1).sum(),
    }[kind]()
    norms = [cp.norm(W[np.flatnonzero(labels == g)], "fro") for g in range(len(weights))]
    problem = cp.Problem(cp.Minimize(value / 80 + 0.1 * sum(w * norm for w, norm in zip(weights, norms))))
    problem.solve(solver="CLARABEL")
    return problem.value, W.value


@pytest.mark.parametrize("kind", ["squared", "multinomial", "poisson"])
@pytest.mark.parametrize("has_free", [False, True])
@pytest.mark.parametrize("intercept", [True, False])
def test_solutions_are_those_of_a_convex_solver(samples, kind, has_free, intercept):
    weights = np.ones(6)
    weights[1] = 0.0 if has_free else 2.0
    problem = make_problem(samples, kind, weights, intercept, is_sparse=has_free != intercept)
    solution = DAL().solve(problem, 1e-8)
    value, W = by_cvxpy(samples, kind, weights, intercept)
    assert solution.converged
    assert_allclose(solution.certificate.primal, value, rtol=1e-7)
    assert -1e-12 <= certify(problem, solution.model).gap <= 1e-6
    found = solution.model.dense(24 * OUTPUTS).reshape(24, OUTPUTS)
    if kind == "multinomial":  # unregularized coefficients may all grow by the same amount
        found, W = (coefficients - coefficients.mean(axis=1, keepdims=True) for coefficients in (found, W))
    assert_allclose(found, W, atol=1e-3)
    assert all(len(set((found[g == LABELS] != 0).ravel())) == 1 for g in range(6))


@pytest.mark.parametrize("kind", ["squared", "multinomial"])
def test_single_columns_and_offsets(samples, kind):
    offset = np.random.default_rng(1).normal(size=(80, OUTPUTS))
    labels = np.arange(24)
    problem = make_problem(samples, kind, np.ones(24), True, labels=None, offset=offset)
    solution = DAL().solve(problem, 1e-8)
    assert_allclose(
        solution.certificate.primal, by_cvxpy(samples, kind, np.ones(24), True, labels, offset)[0], rtol=1e-7
    )


@pytest.mark.parametrize("order", ["C", "F", "csc"])
def test_a_stacked_design_is_a_kronecker_product(order):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 7))
    design = as_design(sparse.csc_array(A) if order == "csc" else np.asarray(A, order=order))
    stacked, rho = StackedDesign(design, 2), rng.normal(size=10)
    whole = np.kron(np.eye(2), A)[:, np.arange(14).reshape(2, 7).T.ravel()]
    assert_allclose(stacked.correlations(rho), whole.T @ rho)
    assert_allclose(
        stacked.product(np.array([0, 3, 12]), np.arange(1.0, 4.0)), whole[:, [0, 3, 12]] @ np.arange(1.0, 4.0)
    )
    assert_allclose(
        StackedDesign(design.rows(np.array([1, 3])), 2).correlations(rho[:4]), whole[[1, 3, 6, 8]].T @ rho[:4]
    )
    if design.selective:
        assert_allclose(stacked.some_correlations(np.array([2, 3, 8, 9]), rho), whole[:, [2, 3, 8, 9]].T @ rho)
        assert_allclose(stacked.correlations_and_norms(rho)[1], np.linalg.norm(whole, axis=0))


def test_the_multinomial_loss_and_its_conjugate_are_a_pair():
    rng = np.random.default_rng(0)
    y = np.eye(3)[rng.integers(3, size=6)].T.ravel()
    weights, offset = np.tile(rng.uniform(0.5, 2, 6), 3), rng.normal(size=18)
    loss = MultinomialLoss(y, weights, 3, offset, Unpenalized(np.ones((6, 1))))
    z = rng.normal(size=18)
    assert check_grad(loss.value, lambda z: -loss.dual_point(z), z) < 1e-5
    rho = loss.dual_point(z)
    assert_allclose(loss.value(z) + loss.conjugates(rho).sum(), -rho @ z)
    assert loss.value(z) + loss.conjugates(0.5 * rho).sum() >= -0.5 * rho @ z
    assert np.isinf(loss.conjugates(rho + 1.0)).all()
    balanced = loss.balanced(loss.clipped(rho + 0.1 * rng.normal(size=18)))
    assert_allclose(balanced.reshape(3, 6).sum(axis=1), 0.0, atol=1e-12)
    assert np.isfinite(loss.conjugates(balanced)).all()
    hessian, step = loss.hessian(rho), rng.normal(size=18)
    assert_allclose(
        hessian @ step, (loss.dual_point(z - 1e-6 * step) - loss.dual_point(z + 1e-6 * step)) / 2e-6, atol=1e-8
    )
    assert_allclose(hessian.balance(step).reshape(3, 6).sum(axis=1), step.sum() / 3, atol=1e-12)
    # the bound holds for the curvature in every direction
    u = (y - rho / weights).reshape(3, 6)
    for i, bound in enumerate((loss.curvature(rho) / weights)[:6]):
        assert np.linalg.eigvalsh(np.diag(u[:, i]) - np.outer(u[:, i], u[:, i]))[-1] <= bound <= 0.5


def test_kinks_and_sparse_groups_are_refused_for_several_outputs(samples):
    A, targets = samples
    for loss, regularizer in ((Hinge(), L21()), (Squared(), SparseGroup(0.5))):
        with pytest.raises(InputError, match="several outputs"):
            stacked_problem(as_design(A), targets["squared"], loss, regularizer, 0.1, ColumnGroups(LABELS, 24))
    elastic = stacked_problem(
        as_design(A), targets["squared"], Squared(), ElasticNet(0.5), 0.1, ColumnGroups(LABELS, 24)
    )
    assert DAL().solve(elastic, 1e-7).converged


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", ["squared", "multinomial", "multinomial sparse"])
def test_newton_steps_lead_to_the_solution_of_sweeps(size, intercept, kind, monkeypatch):
    """On correlated columns, where coordinate descent is slow."""
    rng = np.random.default_rng(size)
    A = rng.normal(size=(80, 30)) + rng.normal(size=(80, 1))
    Y = A[:, :6] @ rng.normal(size=(6, 4)) + rng.normal(size=(80, 4))
    Y, loss, share = (Y, Squared(), 0.003) if kind == "squared" else (np.eye(4)[Y.argmax(axis=1)], None, 0.03)
    groups, design = ColumnGroups(np.arange(30) // size, 30), as_design(sparse.csc_matrix(A) if "sparse" in kind else A)
    problem = stacked_problem(design, Y, loss, L21(), 1.0, groups, intercept)
    problem = problem.at(share * problem.largest_alpha())
    quick = DAL().solve(problem, 1e-9)
    assert quick.converged
    assert certify(problem, quick.model).gap <= 1e-8
    monkeypatch.setattr(Sweeps, "_newton_price", lambda self, groups: np.inf)
    slow = DAL().solve(problem, 1e-7, max_iter=1000)
    assert_allclose(quick.certificate.primal, slow.certificate.primal, rtol=1e-6)
    assert_allclose(quick.certificate.outputs, slow.certificate.outputs, atol=0.01 * np.ptp(slow.certificate.outputs))


@pytest.mark.parametrize("seed", [3, 8, 11])
def test_gaps_below_the_root_of_rounding_are_reached(seed):
    """At such gaps, rounding may increase the primal of a better model; its dual point is better all the same."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(80, 30)) + rng.normal(size=(80, 1))
    Y = np.eye(4)[(A[:, :6] @ rng.normal(size=(6, 4)) + rng.normal(size=(80, 4))).argmax(axis=1)]
    problem = stacked_problem(
        as_design(sparse.csc_matrix(A)), Y, None, L21(), 1.0, ColumnGroups(np.arange(30) // 3, 30)
    )
    problem = problem.at(0.03 * problem.largest_alpha())
    solution = DAL().solve(problem, 1e-10)
    assert solution.converged
    assert certify(problem, solution.model).gap <= 1e-9
