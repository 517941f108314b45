"""Losses times weights, and the best intercept: against finite differences, Fenchel's equality and scipy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from omkl.batch.core.intercept import best_intercept, second_derivative
from omkl.batch.core.weighted_loss import WeightedLoss
from omkl.losses import EpsilonInsensitive, Hinge, Huber, Logistic, Squared, SquaredHinge

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
    weighted = WeightedLoss(loss, weights)
    assert_allclose(weighted.value(y, z), weights * loss.value(y, z))
    rho = -weighted.gradient(y, z)
    # Fenchel's inequality is an equality at the gradient
    assert_allclose(weighted.value(y, z) + weighted.conjugate(y, rho) + rho * z, 0.0, atol=1e-12)
    low, high = weighted.domain(y)
    assert np.all((rho >= low) & (rho <= high))
    balanced = weighted.balanced(y, rho)
    assert abs(balanced.sum()) <= 1e-12
    assert np.all((balanced >= low) & (balanced <= high))


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_second_derivatives_are_those_of_the_value(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, weights)
    slope = (weighted.gradient(y, z + 1e-6) - weighted.gradient(y, z - 1e-6)) / 2e-6
    assert_allclose(second_derivative(weighted, y, -weighted.gradient(y, z)), slope, atol=1e-5)
    assert weighted.curvature >= slope.max() - 1e-5


@each_loss
def test_the_best_intercept_is_that_of_a_generic_search(loss):
    y, z, weights = samples(loss)
    weighted = WeightedLoss(loss, weights)
    found = minimize_scalar(lambda b: weighted.value(y, z + b).sum(), bracket=(-3.0, 3.0), tol=1e-12)
    assert_allclose(weighted.value(y, z + best_intercept(weighted, y, z)).sum(), found.fun, rtol=1e-9)
