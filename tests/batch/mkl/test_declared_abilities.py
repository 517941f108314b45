"""Penalties and losses that the solvers know only by what they declare: a user's own, sums, the Poisson loss."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from omkl.batch import IterativeSoftThresholding, OneStep, Spicy
from omkl.batch.mkl.problem import Problem
from omkl.exceptions import InputError
from omkl.losses import Hinge, Logistic, Poisson, Quantile, Squared
from omkl.regularizers import L21, ElasticNet, LqNorm, Ridge

from ...penalties import OwnPenalty
from ...stacks import DenseStack

SAME = {
    "group lasso": (L21(), OwnPenalty(lambda b: b, np.ones_like, 1.0)),
    "sum": (
        0.5 * LqNorm() + 0.5 * Ridge(),
        OwnPenalty(lambda b: b**1.5 / 3 + b**2 / 4, lambda b: b**0.5 / 2 + b / 2),
    ),
    "sparse sum": (
        ElasticNet(0.3) + LqNorm(3),
        OwnPenalty(lambda b: 0.7 * b + 0.15 * b**2 + b**3 / 3, lambda b: 0.7 + 0.3 * b + b**2),
    ),
}


def problem(loss, regularizer, C=3.0, intercept=True):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 5))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=40))
    y = np.maximum(y, 0.0) if loss.has_link else y
    grams = np.exp(-((X.T[:, :, None] - X.T[:, None, :]) ** 2))
    return Problem(DenseStack(grams), y, loss, regularizer, C, intercept)


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("loss", [Hinge(), Logistic(), Squared(), Quantile(0.3)], ids=repr)
def test_a_penalty_of_ones_own_has_the_optimum_of_the_librarys(name, loss):
    ours, own = SAME[name]
    expected = Spicy().solve(problem(loss, ours), tol=1e-6).certificate
    solvers = [Spicy(), OneStep()] if own.smooth_conjugate else [Spicy()]
    for solver in solvers:
        found = solver.solve(problem(loss, own), tol=1e-6).certificate
        assert found.gap <= 1e-6
        assert_allclose(found.primal, expected.primal, rtol=3e-6)


def test_a_linear_penalty_of_ones_own_has_no_smooth_dual():
    with pytest.raises(InputError, match="smooth dual"):
        OneStep().solve(problem(Squared(), SAME["group lasso"][1]))


@pytest.mark.parametrize("solver", [IterativeSoftThresholding(False), IterativeSoftThresholding(), Spicy()], ids=repr)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_loss_of_unbounded_curvature_reaches_the_optimum_of_a_generic_solver(solver, intercept):
    mine = problem(Poisson(), L21(), 3.0, intercept)
    factors = [np.linalg.cholesky(gram + 1e-9 * np.eye(40)) for gram in mine.kernels.grams]
    parts = [cp.Variable(40) for _ in factors]
    outputs = sum(factor @ part for factor, part in zip(factors, parts))
    outputs = outputs + cp.Variable() if intercept else outputs
    losses = cp.sum(cp.exp(outputs) - cp.multiply(mine.y, outputs)) - mine.y.sum()
    least = cp.Problem(cp.Minimize(3.0 * losses + sum(cp.norm(part) for part in parts))).solve(solver=cp.CLARABEL)
    solution = solver.solve(mine, tol=1e-5)
    assert_allclose(solution.certificate.primal, least, rtol=2e-5)
    assert solution.certificate.dual <= least * (1 + 1e-6)
