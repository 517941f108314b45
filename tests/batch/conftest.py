"""Random problems with every loss and regularizer, and a generic convex solver for them."""

import cvxpy as cp
import numpy as np
import pytest

from omkl.batch import Expansion, Problem
from omkl.kernels import DenseStack
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import L21, ElasticNet, LqNorm, Ridge, SquaredL21

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
    "squared block 1-norm": (SquaredL21(), lambda b: 0.5 * cp.square(cp.sum(b))),
}


def make_random_problem(loss, regularizer, C=10 / 3, intercept=True, seed=0):
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(M, N, 5)) / np.sqrt(5)
    loss = LOSSES[loss][0]
    y = np.sign(rng.normal(size=N) + 0.3) if loss.classifies else rng.normal(size=N) + 0.5
    kernels = DenseStack(factors @ factors.transpose(0, 2, 1))
    return Problem(kernels, y, loss, REGULARIZERS[regularizer][0], C, intercept), factors


def solve_generically(problem, factors, loss, regularizer):
    """The optimum, and the model that attains it, by a generic convex solver on explicit features."""
    weights = [cp.Variable(factor.shape[1]) for factor in factors]
    bias = cp.Variable() if problem.intercept else 0.0
    z = sum(factor @ w for factor, w in zip(factors, weights)) + bias
    norms = cp.hstack([cp.norm(w, 2) for w in weights])
    objective = problem.C * LOSSES[loss][1](problem.y, z) + REGULARIZERS[regularizer][1](norms)
    value = cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    # w = F' alpha has a solution, as F has full column rank
    coefficients = np.array([np.linalg.pinv(factor.T) @ w.value for factor, w in zip(factors, weights)])
    return value, Expansion(np.arange(len(factors)), coefficients, float(bias.value) if problem.intercept else 0.0)


@pytest.fixture
def random_problem():
    """A function of the names of a loss and a regularizer: a problem, and the factors of its kernels (M, N, r)."""
    return make_random_problem


@pytest.fixture
def generic_optimum():
    """A function of a problem, its factors and the two names: the optimum, and the model that attains it."""
    return solve_generically


def pytest_generate_tests(metafunc):
    """``loss`` and ``regularizer`` run over all there are."""
    for argument, values in (("loss", LOSSES), ("regularizer", REGULARIZERS)):
        if argument in metafunc.fixturenames and not any(
            argument in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")
        ):
            metafunc.parametrize(argument, list(values))
