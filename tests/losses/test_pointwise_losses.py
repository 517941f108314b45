"""Pointwise losses against numerical differentiation and numerical suprema."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, minimize_scalar
from sklearn.metrics import mean_poisson_deviance

from omkl.exceptions import InputError
from omkl.losses import (
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from omkl.structures import Scalar, UnaryPotentials

LOSSES = [
    Logistic(),
    Hinge(),
    SquaredHinge(),
    Squared(),
    EpsilonInsensitive(0.3),
    Huber(0.7),
    Quantile(0.2),
    Poisson(),
]
each_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)
predictions = st.floats(-4, 4)


def target(loss, number):
    if loss.has_link:
        return np.array([abs(number)])
    return np.array([np.copysign(1.0, number) if loss.classifies else number])


def inner(loss, y, share):
    """A dual variable strictly inside the domain, not 0."""
    low, high = (bound[0] for bound in loss.domain(y))
    low, high = max(low, -3.0), min(high, 3.0)
    rho = low + (0.05 + 0.9 * share) * (high - low)
    return np.array([rho if abs(rho) > 1e-3 else 0.01 * np.sign(high + low + 0.5)])


@each_loss
@given(number=predictions, z=predictions)
def test_gradient_is_a_subgradient(loss, number, z):
    y, z = target(loss, number), np.array([z])
    others = np.linspace(-6, 6, 50)
    ys = np.full(50, y[0])
    assert np.all(loss.value(ys, others) >= loss.value(y, z) + loss.gradient(y, z) * (others - z) - 1e-12)


@each_loss
@given(number=predictions, share=st.floats(0, 1))
def test_conjugate_is_the_supremum(loss, number, share):
    y = target(loss, number)
    rho = inner(loss, y, share)
    best = minimize_scalar(
        lambda z: float((loss.value(y, np.array([z])) + rho * z)[0]),
        bounds=(-40, 40),
        method="bounded",
        options={"xatol": 1e-10},
    )
    np.testing.assert_allclose(loss.conjugate(y, rho)[0], -best.fun, atol=1e-6)


@each_loss
@given(number=predictions, share=st.floats(0, 1))
def test_derivatives_of_the_conjugate(loss, number, share):
    y = target(loss, number)
    rho = inner(loss, y, share)
    gradient = approx_fprime(rho, lambda r: loss.conjugate(y, r)[0], 1e-7)
    np.testing.assert_allclose(loss.conjugate_gradient(y, rho), gradient, atol=2e-5)
    curvature = approx_fprime(rho, lambda r: loss.conjugate_gradient(y, r)[0], 1e-7)
    np.testing.assert_allclose(loss.conjugate_curvature(y, rho), curvature, rtol=1e-4, atol=1e-5)


@each_loss
@given(number=predictions, z=predictions)
def test_fenchel_young_is_tight_at_the_gradient(loss, number, z):
    y, z = target(loss, number), np.array([z])
    rho = -loss.gradient(y, z)
    np.testing.assert_allclose(loss.value(y, z) + loss.conjugate(y, rho), -rho * z, atol=1e-9)


@each_loss
def test_conjugate_is_infinite_outside_the_domain(loss):
    y = target(loss, 0.5)
    low, high = loss.domain(y)
    for bound, beyond in ((low, -1e-6), (high, 1e-6)):
        if np.isfinite(bound[0]):
            assert loss.conjugate(y, bound + beyond)[0] == np.inf
            assert np.isfinite(loss.conjugate(y, bound)[0])


@each_loss
def test_curvature_bounds_the_second_derivative(loss):
    z = np.linspace(-5, 5, 10_001)
    y = np.full(len(z), target(loss, 0.5)[0])
    slopes = np.diff(loss.gradient(y, z)) / np.diff(z)
    assert slopes.max() <= loss.curvature * (1 + 1e-6)


@each_loss
def test_a_kink_is_where_the_gradient_jumps(loss):
    """Declared, against the largest jump of the gradient between close predictions."""
    z = np.linspace(-3, 3, 600_001)
    y = np.full(len(z), target(loss, 0.5)[0])
    assert loss.has_kink == (np.abs(np.diff(loss.gradient(y, z))).max() > 0.1)


@pytest.mark.parametrize("make", [lambda: EpsilonInsensitive(-1.0), lambda: Huber(0.0), lambda: Quantile(1.0)])
def test_bad_parameters_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_the_constant_of_least_quantile_loss_is_the_quantile():
    y = np.random.default_rng(0).normal(size=1001)
    constants = np.sort(y)
    losses = [Quantile(0.9).value(y, np.full(1001, c)).sum() for c in constants]
    assert constants[np.argmin(losses)] == np.quantile(y, 0.9)


@pytest.mark.parametrize("loss", [Hinge(), EpsilonInsensitive(0.3), EpsilonInsensitive(0.0), Quantile(0.2)], ids=repr)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), ties=st.booleans())
def test_no_kink_is_lower_than_the_best_shift(loss, seed, n, ties):
    """A piecewise linear function has its minimum at a kink; equal classes and weights make a piece flat."""
    rng = np.random.default_rng(seed)
    y = np.sign(rng.normal(size=n)) if loss.classifies else rng.normal(size=n)
    z, weights = (np.zeros(n), np.ones(n)) if ties else (rng.normal(size=n), rng.random(n) + 0.1)
    kinks = np.concatenate([y - z, y - z - 0.3, y - z + 0.3])
    losses = [weights @ loss.value(y, z + b) for b in [*kinks, loss.best_shift(y, z, weights)]]
    assert losses[-1] <= min(losses) + 1e-12 * (1.0 + min(losses))


def test_the_best_shift_is_the_middle_of_the_optimal_interval():
    y = np.array([1.0, 1.0, -1.0, -1.0])
    assert Hinge().best_shift(y, np.zeros(4), np.ones(4)) == 0.0


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.classifies], ids=repr)
@given(y=predictions, z=predictions)
def test_value_and_gradient_agree_with_the_batch_methods(loss, y, z):
    y = target(loss, y)[0]
    structure, potentials = Scalar(), UnaryPotentials(np.array([[z]]))
    value, gradient = loss.value_and_gradient(structure, potentials, y)
    assert value == loss.value(np.array([y]), np.array([z]))[0]
    slope = loss.gradient(np.array([y]), np.array([z]))[0]
    assert (gradient is None) if slope == 0.0 else (gradient.unary.tolist() == [[slope]])
    assert structure.decode(potentials) == z


def test_poisson_is_half_the_deviance_and_takes_counts_only():
    y, z = np.array([0.0, 2.0, 7.5]), np.array([-1.0, 0.5, 2.0])
    np.testing.assert_allclose(Poisson().value(y, z).mean(), 0.5 * mean_poisson_deviance(y, np.exp(z)))
    assert Poisson().value(np.array([1.0]), np.array([1e4]))[0] == np.inf
    with pytest.raises(InputError, match="row 1"):
        Poisson().check_targets(np.array([1.0, -2.0]))
