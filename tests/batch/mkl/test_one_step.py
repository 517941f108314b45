"""The one-step method: optima against a generic convex solver and against SpicyMKL."""

import numpy as np
import pytest

from omkl.batch import OneStep, Problem, Spicy
from omkl.losses import Hinge, Logistic
from omkl.regularizers import ElasticNet, LqNorm, Ridge, ScalarPenalty

from ...stacks import DenseStack
from ..generic import generic_optimum, small_problem

#: The elastic net as a user might write it.
OWN = ScalarPenalty(lambda b: b + b**2 / 2, lambda b: 1 + b)
SMOOTH = ["elastic net", "block q-norm", "uniform"]


@pytest.mark.parametrize("regularizer", SMOOTH)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_reaches_the_optimum(loss, regularizer, intercept, C):
    problem, factors = small_problem(loss, regularizer, C=C, intercept=intercept)
    optimum = generic_optimum(problem, factors, loss, regularizer)
    solution = OneStep().solve(problem, tol=1e-7)
    assert solution.converged
    assert solution.certificate.primal == pytest.approx(optimum, rel=1e-6, abs=1e-7)
    if intercept:
        assert abs(solution.certificate.rho.sum()) < 1e-9


@pytest.mark.parametrize(
    "regularizer",
    [
        ElasticNet(0.05),
        3.0 * ElasticNet(0.9),
        LqNorm(1.1),
        LqNorm(3.0),
        Ridge(),
        OWN,
    ],
)
@pytest.mark.parametrize("loss", [Logistic(), Hinge()])
def test_agrees_with_spicy_on_many_kernels(loss, regularizer):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(150, 40, 6)) / np.sqrt(240)
    y = np.sign(factors[:3, :, 0].sum(axis=0) + 0.02 * rng.normal(size=40))
    problem = Problem(DenseStack(factors @ factors.transpose(0, 2, 1)), y, loss, regularizer, 20.0)
    one, many = (solver.solve(problem, tol=1e-7) for solver in (OneStep(), Spicy()))
    assert one.converged
    assert many.converged
    assert one.certificate.primal == pytest.approx(many.certificate.primal, rel=1e-6)


@pytest.mark.parametrize("regularizer", [ElasticNet(0.5), LqNorm(1.5)])
@pytest.mark.parametrize("loss", [Logistic(), Hinge()])
def test_a_sample_of_the_kernels_first_leads_to_the_same_optimum(loss, regularizer, monkeypatch):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(150, 40, 6)) / np.sqrt(240)
    y = np.sign(factors[:3, :, 0].sum(axis=0) + 0.02 * rng.normal(size=40))
    problem = Problem(DenseStack(factors @ factors.transpose(0, 2, 1)), y, loss, regularizer, 20.0)
    directly = OneStep().solve(problem, tol=1e-8)
    monkeypatch.setattr("omkl.batch.mkl.spicy.MANY", 100)
    monkeypatch.setattr("omkl.batch.mkl.spicy.SAMPLE", 20)
    sampled = OneStep().solve(problem, tol=1e-8)
    assert sampled.history[1]["working_set"] == 20
    assert sampled.history[1]["dual"] >= sampled.history[0]["dual"] >= 0.0
    assert sampled.certificate.primal == pytest.approx(directly.certificate.primal, rel=1e-7)
    np.testing.assert_allclose(sampled.certificate.norms, directly.certificate.norms, atol=1e-3)
    # a search that ends with the sample has a model of it, whose certificate holds
    stopped = OneStep().solve(problem, tol=1e-8, max_iter=1)
    assert len(stopped.model.active) <= 20
    assert stopped.certificate.dual <= directly.certificate.primal <= stopped.certificate.primal
