"""The problem, its dual and the certificate, against a generic convex solver."""

import cvxpy as cp
import numpy as np
import pytest

from omkl.batch import Expansion, Problem, certify
from omkl.kernels import DenseStack
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L21, ElasticNet, LqNorm, Ridge

N, M = 14, 4
LOSSES = {
    "logistic": (Logistic(), lambda y, z: cp.sum(cp.logistic(-cp.multiply(y, z)))),
    "hinge": (Hinge(), lambda y, z: cp.sum(cp.pos(1 - cp.multiply(y, z)))),
    "squared hinge": (SquaredHinge(), lambda y, z: 0.5 * cp.square(cp.norm(cp.pos(1 - cp.multiply(y, z)), 2))),
    "squared": (Squared(), lambda y, z: 0.5 * cp.sum_squares(y - z)),
    "epsilon-insensitive": (EpsilonInsensitive(0.2), lambda y, z: cp.sum(cp.pos(cp.abs(y - z) - 0.2))),
    "Huber": (Huber(0.5), lambda y, z: 0.5 * cp.sum(cp.huber(y - z, 0.5))),
}
REGULARIZERS = {
    "block 1-norm": (L21(), cp.sum),
    "elastic net": (ElasticNet(0.4), lambda b: 0.6 * cp.sum(b) + 0.2 * cp.sum_squares(b)),
    "block q-norm": (LqNorm(1.5), lambda b: cp.sum(cp.power(b, 1.5)) / 1.5),
    "uniform": (Ridge(), lambda b: 0.5 * cp.sum_squares(b)),
}
each_loss = pytest.mark.parametrize("loss", LOSSES)
each_regularizer = pytest.mark.parametrize("regularizer", REGULARIZERS)


def random_problem(loss, regularizer, C=0.3, intercept=True, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(M, N, 5)) / np.sqrt(5)
    loss = LOSSES[loss][0]
    y = np.sign(rng.normal(size=N) + 0.3) if loss.classifies else rng.normal(size=N) + 0.5
    kernels = DenseStack(factors @ factors.transpose(0, 2, 1))
    return Problem(kernels, y, loss, REGULARIZERS[regularizer][0], C, intercept), factors


def generic_optimum(problem, factors, loss, regularizer):
    """The optimum, and the model that attains it, by a generic convex solver on explicit features."""
    weights = [cp.Variable(factor.shape[1]) for factor in factors]
    bias = cp.Variable() if problem.intercept else 0.0
    z = sum(factor @ w for factor, w in zip(factors, weights)) + bias
    norms = cp.hstack([cp.norm(w, 2) for w in weights])
    objective = LOSSES[loss][1](problem.y, z) + problem.C * REGULARIZERS[regularizer][1](norms)
    value = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    # w = F' alpha has a solution, as F has full column rank
    coefficients = np.array([np.linalg.pinv(factor.T) @ w.value for factor, w in zip(factors, weights)])
    return value, Expansion(np.arange(M), coefficients, float(bias.value) if problem.intercept else 0.0)


@each_loss
@each_regularizer
@pytest.mark.parametrize("intercept", [True, False])
def test_no_dual_point_is_above_the_optimum(loss, regularizer, intercept):
    problem, factors = random_problem(loss, regularizer, intercept=intercept)
    optimum, _ = generic_optimum(problem, factors, loss, regularizer)
    rng = np.random.default_rng(1)
    for scale in (0.01, 0.1, 1.0, 5.0):
        value = problem.dual(*problem.feasible(scale * rng.normal(size=N) + 0.3))
        assert -np.inf < value <= optimum + 1e-7


@each_regularizer
@pytest.mark.parametrize("loss", ["logistic", "squared hinge", "squared", "Huber"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_gap_closes_at_the_optimum(loss, regularizer, intercept):
    problem, factors = random_problem(loss, regularizer, intercept=intercept)
    optimum, model = generic_optimum(problem, factors, loss, regularizer)
    certificate = certify(problem, model)
    assert abs(certificate.primal - optimum) < 1e-6 * abs(optimum)
    assert 0 <= certificate.gap < 1e-3


@each_loss
@each_regularizer
def test_the_gap_bounds_the_suboptimality_of_any_model(loss, regularizer):
    problem, factors = random_problem(loss, regularizer)
    optimum, _ = generic_optimum(problem, factors, loss, regularizer)
    rng = np.random.default_rng(2)
    for scale in (0.0, 0.01, 0.1, 1.0):
        active = np.array([0, 2])
        certificate = certify(problem, Expansion(active, scale * rng.normal(size=(2, N)), 0.2))
        assert certificate.primal >= optimum - 1e-7
        assert certificate.dual <= optimum + 1e-7
        np.testing.assert_array_equal(certificate.norms[[1, 3]], 0.0)
