"""The problem, its dual, its weighted losses and the certificate, against generic solvers and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from omkl.batch import Expansion, certify
from omkl.batch.weighted_loss import WeightedLoss
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge

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


SMOOTH = [Squared(), Logistic(), SquaredHinge(), Huber(0.5)]
each_loss = pytest.mark.parametrize("loss", [*SMOOTH, Hinge(), EpsilonInsensitive(0.2)], ids=repr)


def samples(loss, n=40):
    rng = np.random.default_rng(0)
    z = 2.0 * rng.normal(size=n)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0) if loss.classifies else rng.normal(size=n)
    return y, z, rng.uniform(0.1, 3.0, n)


@each_loss
def test_weights_multiply_the_loss_and_its_conjugate_is_that_of_the_product(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, y, weights)
    assert_allclose(weighted.values(z), weights * loss.value(y, z))
    rho = weighted.dual_point(z)
    # Fenchel's inequality is an equality at the gradient
    assert_allclose(weighted.values(z) + weighted.conjugates(rho) + rho * z, 0.0, atol=1e-12)
    low, high = weighted.domain()
    assert np.all((rho >= low) & (rho <= high))
    balanced = weighted.balanced(rho)
    assert abs(balanced.sum()) <= 1e-12
    assert np.all((balanced >= low) & (balanced <= high))


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_second_derivatives_are_those_of_the_value(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, y, weights)
    slope = (weighted.dual_point(z - 1e-6) - weighted.dual_point(z + 1e-6)) / 2e-6
    assert_allclose(weighted.curvature(weighted.dual_point(z)), slope, atol=1e-5)


@each_loss
def test_the_best_intercept_is_that_of_a_generic_search(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, y, weights)
    found = minimize_scalar(lambda b: weighted.value(z + b), bracket=(-3.0, 3.0), tol=1e-12)
    assert_allclose(weighted.value(z + weighted.best_intercept(z)), found.fun, rtol=1e-9)
