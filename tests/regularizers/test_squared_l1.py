"""The prox of the squared l1 norm: Algorithms 2 and 4, by sorting and by Newton's method."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.regularizers import SquaredL21, WeightedSquaredL21
from omkl.regularizers._jit_prox import threshold_by_newton, threshold_by_sorting, weighted_threshold_by_newton

DRAWS = {
    "normal": lambda rng, p: rng.normal(size=p),
    "ties": lambda rng, p: np.round(rng.normal(size=p), 1),
    "decades": lambda rng, p: rng.normal(size=p) * 10.0 ** rng.uniform(-8, 8, size=p),
    "halves": lambda rng, p: 0.5 ** np.arange(p),
}


@given(
    seed=st.integers(0, 10**6), p=st.integers(1, 400), step=st.floats(1e-6, 1e3), spread=st.sampled_from(sorted(DRAWS))
)
def test_newton_finds_the_threshold_of_sorting(seed, p, step, spread):
    rng = np.random.default_rng(seed)
    x, weights = DRAWS[spread](rng, p), rng.uniform(0, 2, size=p) * (rng.random(p) < 0.8)
    expected = threshold_by_sorting(x, np.ones(p), step), threshold_by_sorting(x, weights, step)
    found = threshold_by_newton(x, step), weighted_threshold_by_newton(x, weights, step)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("p", [5, 127, 128, 3000])
def test_optimality_conditions_hold_at_every_size(p):
    """At the prox ``b - x = step * (sum x)`` where ``x > 0``, and ``b <= step * (sum x)`` where ``x = 0``."""
    b = np.abs(np.random.default_rng(p).standard_cauchy(size=p))
    step = 0.01
    x = SquaredL21().prox(b, step)
    slope = step * x.sum()
    assert_allclose(b[x > 0] - x[x > 0], slope)
    assert (b[x == 0] <= slope + 1e-12).all()


def test_unit_weights_are_algorithm_2():
    b = np.random.default_rng(0).exponential(size=50)
    assert_allclose(WeightedSquaredL21(np.ones(50)).prox(b, 0.3), SquaredL21().prox(b, 0.3))


def test_a_zero_weight_is_not_penalised():
    shrunk = WeightedSquaredL21([1.0, 0.0, 1.0]).prox([3.0, 0.2, 1.0], 1.0)
    assert shrunk[1] == 0.2
    assert_allclose(shrunk[[0, 2]], SquaredL21().prox([3.0, 1.0], 1.0))


def test_an_empty_vector_and_all_zero_weights_pass():
    assert SquaredL21().prox(np.zeros(0), 1.0).shape == (0,)
    assert_allclose(WeightedSquaredL21([0.0, 0.0]).prox([1.0, 2.0], 1.0), [1.0, 2.0])


def test_step_zero_moves_nothing():
    assert_allclose(SquaredL21().prox([3.0, 1.0], 0.0), [3.0, 1.0])
