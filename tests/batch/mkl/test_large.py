"""Large Newton systems: matrix-free iterations find the solution of Cholesky factors in less memory."""

import tracemalloc

import numpy as np
import pytest

from omkl.batch import OneStep, Problem, Spicy, certify
from omkl.batch.mkl.newton import Curvature, DenseCurvature
from omkl.kernels import FactoredStack, MixedStack, PackedStack
from omkl.losses import EpsilonInsensitive, Hinge, Logistic
from omkl.regularizers import L21, ElasticNet, Ridge


@pytest.fixture
def large_from(monkeypatch):
    """Return a function that sets the number of samples above which no full matrix is formed."""

    def move(n_samples):
        monkeypatch.setattr("omkl.batch.mkl.newton.LARGE", n_samples)

    return move


def factored(n_samples, n_kernels=8, rank=15, seed=0):
    """Draw low-rank kernels, three of which are informative."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_kernels, n_samples, rank)) / np.sqrt(n_samples * rank)
    signal = factors[:3, :, 0].sum(axis=0)
    y = np.sign(signal / signal.std() + 0.5 * rng.normal(size=n_samples))
    return FactoredStack(factors), y


@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize("softest", [1e-3, 1.0])
def test_iterations_solve_what_a_factor_does(equality, softest, monkeypatch):
    monkeypatch.setattr("omkl.batch.mkl.newton.ACCURACY", 1e-9)
    rng = np.random.default_rng(0)
    stack, _ = factored(300)
    images = rng.normal(size=(2, 300))
    bends, diagonal = np.array([0.5, 2.0]), softest * 10 ** rng.uniform(0, 8, 300)
    curvature = Curvature(stack.summed(np.full(8, 50.0)), images, bends)
    # the multiplier's part of the right-hand side dominates
    right = rng.normal(size=300) + 1e3 * equality
    matrix = stack.combine(np.full(8, 50.0)) + (images.T * bends) @ images
    expected, multiplier = DenseCurvature(matrix).solve(diagonal, right, equality)
    found, shift = curvature.solve(diagonal, right, equality)
    residual = matrix @ found + diagonal * found + shift - right
    assert np.abs(residual).max() < 1e-4
    assert shift == pytest.approx(multiplier, rel=1e-6, abs=1e-6)
    if equality:
        assert abs(found.sum()) < 1e-9 * np.abs(found).sum()
    if softest == 1.0:
        np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("solver", "loss", "regularizer"),
    [
        (Spicy(), Logistic(), L21()),
        (Spicy(), Hinge(), L21()),
        (Spicy(), EpsilonInsensitive(0.1), ElasticNet(0.5)),
        (OneStep(), Hinge(), ElasticNet(0.1)),
        (OneStep(), Logistic(), Ridge()),
    ],
)
def test_solvers_end_where_they_do_by_cholesky(solver, loss, regularizer, large_from):
    factors, y = factored(250)
    large_from(250)
    packed = PackedStack.from_grams([factors.combine([1.0], [m]) for m in range(8)], np.float64)
    mixed = MixedStack([packed, factors], np.arange(16)[np.argsort(np.arange(16) % 2, kind="stable")])
    found = {}
    for name, stack in {"matrix-free": factors, "cg": packed, "mixed": mixed}.items():
        solution = solver.solve(Problem(stack, y, loss, regularizer, 50.0), tol=1e-7)
        assert solution.converged
        assert solution.history[-1]["system"] == ("cg" if name == "mixed" else name)
        found[name] = solution.certificate.primal
    large_from(251)
    dense = solver.solve(Problem(factors, y, loss, regularizer, 50.0), tol=1e-7)
    assert dense.history[-1]["system"] == "cholesky"
    assert found["matrix-free"] == pytest.approx(dense.certificate.primal, rel=3e-7)
    assert found["cg"] == pytest.approx(dense.certificate.primal, rel=3e-7)
    if isinstance(regularizer, L21):
        # duplicate kernels change nothing under the block 1-norm
        assert found["mixed"] == pytest.approx(dense.certificate.primal, rel=3e-7)


@pytest.mark.parametrize("loss", [Logistic(), Hinge()])
def test_thousands_of_samples_take_no_more_than_a_few_times_their_factors(loss):
    stack, y = factored(3000, rank=30)
    problem = Problem(stack, y, loss, L21(), 20.0)
    Spicy().solve(Problem(*factored(700), loss, L21(), 20.0))
    tracemalloc.start()
    solution = Spicy().solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert solution.converged
    assert certify(problem, solution.model, solution.certificate.rho).gap <= 1e-2 * (1 + 1e-9)
    # a matrix of all pairs would take 72 MB, the factors take 6 MB
    assert peak < 5 * stack.nbytes
