"""Several outputs that share the weights of kernels: optima against a generic convex solver, and honest gaps."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from omkl import MKLClassifier
from omkl.batch import OneStep, Problem, Spicy, certify, shared_problem
from omkl.exceptions import InputError

from ...stacks import DenseStack
from ..generic import LOSSES, REGULARIZERS, M, N

P = 3


def make(loss, regularizer, C=10 / 3, intercept=True, seed=0):
    """Draw a problem of three outputs; return it, its targets and the factors of its kernels."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(M, N, 5)) / np.sqrt(5)
    loss = LOSSES[loss][0]
    targets = np.sign(rng.normal(size=(N, P)) + 0.2) if loss.classifies else rng.normal(size=(N, P)) + 0.5
    stack = DenseStack(factors @ factors.transpose(0, 2, 1))
    return shared_problem(stack, targets, loss, REGULARIZERS[regularizer][0], C, intercept), targets, factors


def generic_optimum(problem, targets, factors, loss, regularizer):
    """The optimum by a generic convex solver: matrices of weights, one column an output, and their Frobenius norms."""
    blocks = [cp.Variable((factor.shape[1], P)) for factor in factors]
    outputs = sum(factor @ W for factor, W in zip(factors, blocks))
    if problem.intercept:
        outputs = outputs + np.ones((N, 1)) @ cp.Variable((1, P))
    norms = cp.hstack([cp.norm(W, "fro") for W in blocks])
    losses = LOSSES[loss][1](targets.ravel(), cp.vec(outputs, order="C"))
    objective = problem.C * losses + REGULARIZERS[regularizer][1](norms)
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared hinge", "squared", "epsilon-insensitive"])
def test_reaches_the_optimum_between_valid_bounds(loss, regularizer, intercept):
    problem, targets, factors = make(loss, regularizer, intercept=intercept)
    optimum = generic_optimum(problem, targets, factors, loss, regularizer)
    for solver in (Spicy(), *([OneStep()] if problem.regularizer.smooth_conjugate else [])):
        solution = solver.solve(problem, tol=1e-6)
        assert solution.converged
        assert solution.certificate.primal == pytest.approx(optimum, rel=2e-6, abs=1e-6)
        for record in solution.history:
            assert record["dual"] <= optimum * (1 + 1e-6) + 1e-6 <= record["primal"] + 1e-4 * abs(optimum) + 1e-4
        recomputed = certify(problem, solution.model, solution.certificate.rho)
        assert recomputed.gap == pytest.approx(solution.certificate.gap, abs=1e-9)


def test_the_squared_norm_of_one_kernel_makes_the_outputs_independent():
    """With one kernel, the squared common norm is a sum over outputs."""
    problem, targets, factors = make("logistic", "squared block 1-norm")
    stack = DenseStack((factors @ factors.transpose(0, 2, 1))[:1])
    settings = (problem.loss, problem.regularizer, 2.0, True, np.random.default_rng(1).uniform(0.5, 2.0, size=N))
    together = Spicy().solve(shared_problem(stack, targets, *settings), 1e-9)
    outputs, intercepts = together.certificate.outputs.reshape(P, N), together.model.intercept.reshape(P, N)
    for target, own, constant in zip(targets.T, outputs, intercepts):
        alone = Spicy().solve(Problem(stack, target, *settings), 1e-9)
        assert_allclose(own, alone.certificate.outputs, atol=1e-3)
        assert_allclose(constant, alone.model.intercept, atol=1e-3)


def test_solvers_of_one_function_say_so():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match="needs the solver"):
        MKLClassifier(["linear"], solver="silp", loss="hinge", multiclass="shared").fit(X, y)
    by_default = MKLClassifier(["linear"], solver="silp", loss="hinge").fit(X, y)
    assert {record["problem"] for record in by_default.history_} == {0, 1, 2}
