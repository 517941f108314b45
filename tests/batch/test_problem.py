"""The problem, its dual and the certificate, against a generic convex solver."""

import numpy as np
import pytest

from omkl.batch import Expansion, certify

from .generic import generic_optimum, small_problem, solve_generically

N = 14


@pytest.mark.parametrize("intercept", [True, False])
def test_no_dual_point_is_above_the_optimum(loss, regularizer, intercept):
    problem, factors = small_problem(loss, regularizer, intercept=intercept)
    optimum = generic_optimum(problem, factors, loss, regularizer)
    rng = np.random.default_rng(1)
    for scale in (0.01, 0.1, 1.0, 5.0):
        value = problem.dual(*problem.feasible(scale * rng.normal(size=N) + 0.3))
        assert -np.inf < value <= optimum + 1e-7


@pytest.mark.parametrize("loss", ["logistic", "squared hinge", "squared", "Huber"])
@pytest.mark.parametrize("intercept", [True, False])
def test_the_gap_closes_at_the_optimum(loss, regularizer, intercept):
    problem, factors = small_problem(loss, regularizer, intercept=intercept)
    optimum, model = solve_generically(problem, factors, loss, regularizer)
    certificate = certify(problem, model)
    assert abs(certificate.primal - optimum) < 1e-6 * abs(optimum)
    assert -1e-12 <= certificate.gap < 1e-3


def test_the_gap_bounds_the_suboptimality_of_any_model(loss, regularizer):
    problem, factors = small_problem(loss, regularizer)
    optimum = generic_optimum(problem, factors, loss, regularizer)
    rng = np.random.default_rng(2)
    for scale in (0.0, 0.01, 0.1, 1.0):
        active = np.array([0, 2])
        certificate = certify(problem, Expansion(active, scale * rng.normal(size=(2, N)), 0.2))
        assert certificate.primal >= optimum - 1e-7
        assert certificate.dual <= optimum + 1e-7
        np.testing.assert_array_equal(certificate.norms[[1, 3]], 0.0)
