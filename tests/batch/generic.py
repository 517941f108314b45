"""Small random problems, and their optima by a generic convex solver on explicit features."""

import cvxpy as cp
import numpy as np
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from omkl.batch import Expansion, Problem
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge
from omkl.regularizers import (
    L21,
    ElasticNet,
    ElasticNetWeights,
    LqNorm,
    Ridge,
    SquaredL21,
    SquaredLq,
)

from ..stacks import DenseStack

#: A lasso penalty, as this version of scikit-learn's LogisticRegression has it.
LASSO = {"penalty": "l1"} if LogisticRegression().penalty == "l2" else {"l1_ratio": 1.0}
N, M = 14, 4
LOSSES = {
    "logistic": (Logistic(), lambda y, z: cp.sum(cp.logistic(-cp.multiply(y, z)))),
    "hinge": (Hinge(), lambda y, z: cp.sum(cp.pos(1 - cp.multiply(y, z)))),
    "squared hinge": (
        SquaredHinge(),
        lambda y, z: 0.5 * cp.square(cp.norm(cp.pos(1 - cp.multiply(y, z)), 2)),
    ),
    "squared": (Squared(), lambda y, z: 0.5 * cp.sum_squares(y - z)),
    "epsilon-insensitive": (
        EpsilonInsensitive(0.2),
        lambda y, z: cp.sum(cp.pos(cp.abs(y - z) - 0.2)),
    ),
    "Huber": (Huber(0.5), lambda y, z: 0.5 * cp.sum(cp.huber(y - z, 0.5))),
}
REGULARIZERS = {
    "block 1-norm": (L21(), cp.sum),
    "elastic net": (ElasticNet(0.4), lambda b: 0.6 * cp.sum(b) + 0.2 * cp.sum_squares(b)),
    "block q-norm": (LqNorm(1.5), lambda b: cp.sum(cp.power(b, 1.5)) / 1.5),
    "uniform": (Ridge(), lambda b: 0.5 * cp.sum_squares(b)),
    "squared block 1-norm": (SquaredL21(), lambda b: 0.5 * cp.square(cp.sum(b))),
}


def constrained(constraint):
    """Minimum of sum b^2 / (2 d) over weights d that meet a constraint, as a cvxpy expression."""

    def penalty(b, constraints):
        weights = cp.Variable(b.shape[0], nonneg=True)
        constraints.append(constraint(weights))
        # b^2 / d <= t, where the solver may increase the norms b
        roofs = cp.Variable(b.shape[0])
        constraints.extend(
            cp.quad_over_lin(b[k], weights[k]) <= roofs[k] for k in range(b.shape[0])
        )
        return 0.5 * cp.sum(roofs)

    return penalty


WEIGHT_SETS = {
    f"weights in elastic net {eta}": (
        ElasticNetWeights(eta),
        constrained(lambda d, eta=eta: eta * cp.sum(d) + (1 - eta) * cp.sum_squares(d) <= 1),
    )
    for eta in (0.0, 0.2, 0.6, 1.0)
} | {
    f"weights in {p}-ball": (
        SquaredLq(2 * p / (p + 1)),
        constrained(lambda d, p=p: cp.norm(d, p) <= 1),
    )
    for p in (4 / 3, 2.0, 4.0)
}


def small_problem(loss, penalty, intercept=True, C=10 / 3, n=N, n_kernels=M, seed=0):
    """A problem, and the factors F of its kernels F F'."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n, 5)) / np.sqrt(5)
    loss = LOSSES[loss][0]
    y = np.sign(rng.normal(size=n) + 0.3) if loss.classifies else rng.normal(size=n) + 0.5
    stack = DenseStack(factors @ factors.transpose(0, 2, 1))
    return Problem(
        stack,
        y,
        loss,
        (REGULARIZERS | WEIGHT_SETS)[penalty][0],
        C,
        intercept,
    ), factors


def solve_generically(problem, factors, loss, penalty):
    """The optimal value, and the model that attains it."""
    coordinates = [cp.Variable(factor.shape[1]) for factor in factors]
    bias = cp.Variable() if problem.intercept else 0.0
    outputs = sum(factor @ w for factor, w in zip(factors, coordinates)) + bias
    norms = cp.Variable(len(factors), nonneg=True)
    constraints = [cp.norm(w, 2) <= norms[k] for k, w in enumerate(coordinates)]
    if penalty in REGULARIZERS:
        penalized = REGULARIZERS[penalty][1](norms)
    else:
        penalized = WEIGHT_SETS[penalty][1](norms, constraints)
    objective = cp.Minimize(problem.C * LOSSES[loss][1](problem.y, outputs) + penalized)
    tight = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
    value = cp.Problem(objective, constraints).solve(solver=cp.CLARABEL, **tight)
    # w = F' alpha has a solution, as F has full column rank
    coefficients = np.array(
        [np.linalg.pinv(factor.T) @ w.value for factor, w in zip(factors, coordinates)]
    )
    return value, Expansion(
        np.arange(len(factors)), coefficients, float(bias.value) if problem.intercept else 0.0
    )


def assert_optimal(solution, optimum):
    """The solution is optimal, and every record bounds the optimum from both sides."""
    assert solution.converged
    assert_allclose(solution.certificate.primal, optimum, rtol=1e-6)
    for record in solution.history:
        assert record["dual"] <= optimum * (1 + 1e-7)
        assert record["primal"] >= optimum * (1 - 1e-7)


def generic_optimum(problem, factors, loss, penalty):
    """The optimal value."""
    return solve_generically(problem, factors, loss, penalty)[0]
