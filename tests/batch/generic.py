"""Small random problems, and their optima by a generic convex solver on explicit features."""

import cvxpy as cp
import numpy as np
from sklearn.linear_model import LogisticRegression

from omkl.batch import Problem
from omkl.kernels import DenseStack
from omkl.regularizers import L21, ElasticNetWeights, LqNorm, SquaredL21, SquaredLq

from .conftest import LOSSES

#: A lasso penalty, as this version of scikit-learn's LogisticRegression has it.
LASSO = {"penalty": "l1"} if LogisticRegression().penalty == "l2" else {"l1_ratio": 1.0}


def constrained(constraint):
    """The least of sum b^2 / (2 d) over weights d that meet a constraint, in the language of the generic solver."""

    def penalty(b, constraints):
        weights = cp.Variable(b.shape[0], nonneg=True)
        constraints.append(constraint(weights))
        # b^2 / d <= t, for norms b that the solver may raise
        roofs = cp.Variable(b.shape[0])
        constraints.extend(cp.quad_over_lin(b[k], weights[k]) <= roofs[k] for k in range(b.shape[0]))
        return 0.5 * cp.sum(roofs)

    return penalty


PENALTIES = {
    "mkl": (SquaredL21(), lambda b, _: 0.5 * cp.square(cp.sum(b))),
    "block 1-norm": (L21(), lambda b, _: cp.sum(b)),
    "block q-norm": (LqNorm(1.5), lambda b, _: cp.sum(cp.power(b, 1.5)) / 1.5),
} | {
    f"weights in elastic net {eta}": (
        ElasticNetWeights(eta),
        constrained(lambda d, eta=eta: eta * cp.sum(d) + (1 - eta) * cp.sum_squares(d) <= 1),
    )
    for eta in (0.0, 0.2, 0.6, 1.0)
} | {
    f"weights in {p}-ball": (SquaredLq(2 * p / (p + 1)), constrained(lambda d, p=p: cp.norm(d, p) <= 1))
    for p in (4 / 3, 2.0, 4.0)
}  # fmt: skip


def small_problem(loss, penalty, intercept=True, C=10 / 3, n=14, n_kernels=4, seed=0):
    """A problem, and the factors F of its kernels F F'."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n, 5)) / np.sqrt(5)
    loss = LOSSES[loss][0]
    y = np.sign(rng.normal(size=n) + 0.3) if loss.classifies else rng.normal(size=n) + 0.5
    stack = DenseStack(factors @ factors.transpose(0, 2, 1))
    return Problem(stack, y, loss, PENALTIES[penalty][0], C, intercept), factors


def generic_optimum(problem, factors, loss, penalty):
    """The optimal value."""
    coordinates = [cp.Variable(factor.shape[1]) for factor in factors]
    outputs = sum(factor @ w for factor, w in zip(factors, coordinates)) + (cp.Variable() if problem.intercept else 0.0)
    norms = cp.Variable(len(factors), nonneg=True)
    constraints = [cp.norm(w, 2) <= norms[k] for k, w in enumerate(coordinates)]
    penalized = PENALTIES[penalty][1](norms, constraints)
    objective = cp.Minimize(problem.C * LOSSES[loss][1](problem.y, outputs) + penalized)
    tight = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8}
    return cp.Problem(objective, constraints).solve(solver=cp.CLARABEL, **tight)
