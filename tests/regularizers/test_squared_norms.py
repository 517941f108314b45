"""Squared norms that stand for sets of kernel weights: value, prox and conjugate against a generic
convex solver.
"""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from omkl.regularizers import ElasticNetWeights, SquaredL21, SquaredLq, WeightedSquaredL21
from omkl.regularizers._jit_prox import threshold_by_newton

P = 6


def elastic_net_set(eta):
    return lambda d: eta * cp.sum(d) + (1 - eta) * cp.sum_squares(d) <= 1


# every regularizer, and the set of kernel weights that it stands for
CASES = {
    f"elastic net {eta}": (ElasticNetWeights(eta), elastic_net_set(eta))
    for eta in (0.0, 0.1, 0.25, 0.5, 0.9, 1.0)
}
CASES |= {
    f"lp-norm {p}": (SquaredLq(2 * p / (p + 1)), lambda d, p=p: cp.norm(d, p) <= 1)
    for p in (1.2, 4 / 3, 2.0, 4.0)
}
CASES["uniform"] = (SquaredLq(2.0), lambda d: d <= 1)
each_case = pytest.mark.parametrize("case", CASES)
vectors = arrays(
    np.float64,
    P,
    elements=st.floats(-20, 20).map(lambda v: round(v, 3)),
)


@each_case
@pytest.mark.parametrize("seed", range(3))
def test_value_is_the_least_over_the_set_of_weights(case, seed):
    regularizer, constraint = CASES[case]
    b = np.random.default_rng(seed).normal(size=P)
    d = cp.Variable(P, nonneg=True)
    objective = 0.5 * sum(cp.quad_over_lin(b[k], d[k]) for k in range(P))
    least = cp.Problem(cp.Minimize(objective), [constraint(d)]).solve(solver=cp.CLARABEL)
    assert_allclose(regularizer.value(b), least, rtol=1e-6)
    assert_allclose(regularizer.kernel_weights(b), d.value, atol=2e-3)
    weights = regularizer.kernel_weights(b)
    assert_allclose(
        0.5 * np.sum(b**2 / weights),
        regularizer.value(b),
        rtol=1e-9,
    )


@each_case
@pytest.mark.parametrize("seed", range(3))
def test_conjugate_is_the_largest_over_the_set_of_weights(case, seed):
    regularizer, constraint = CASES[case]
    y = np.random.default_rng(seed).normal(size=P)
    d = cp.Variable(P, nonneg=True)
    largest = cp.Problem(cp.Maximize(0.5 * y**2 @ d), [constraint(d)]).solve(solver=cp.CLARABEL)
    assert_allclose(regularizer.conjugate(y), largest, rtol=1e-6)


@each_case
def test_norm_bound_holds(case, rng):
    regularizer, _ = CASES[case]
    for _ in range(30):
        b = rng.exponential(size=5) * (rng.random(5) < 0.6)
        assert np.linalg.norm(b) <= regularizer.norm_bound(regularizer.value(b), 5) * (1 + 1e-9)


def test_the_ends_of_the_elastic_net_set_are_the_simplex_and_the_euclidean_ball():
    b, y = np.random.default_rng(1).exponential(size=(2, 40))
    for regularizer, same in [
        (ElasticNetWeights(1.0), SquaredL21()),
        (ElasticNetWeights(0.0), SquaredLq(4 / 3)),
    ]:
        assert_allclose(
            regularizer.value(b),
            same.value(b),
            rtol=1e-12,
        )
        assert_allclose(
            regularizer.conjugate(y),
            same.conjugate(y),
            rtol=1e-12,
        )
        assert_allclose(
            regularizer.kernel_weights(b),
            same.kernel_weights(b),
            rtol=1e-6,
        )
        assert_allclose(
            regularizer.prox(b, 0.3),
            same.prox(b, 0.3),
            atol=1e-9,
        )


@pytest.mark.parametrize("eta", [0.0, 0.1, 0.3, 0.7, 0.99])
def test_norms_whose_squares_underflow_get_no_weight_and_do_no_harm(eta):
    b = np.array([1e-200, 1.0, 3e-163, 0.0, 2.0])
    regularizer = ElasticNetWeights(eta)
    weights = regularizer.kernel_weights(b)
    assert_allclose(
        weights[[1, 4]],
        regularizer.kernel_weights(b[[1, 4]]),
        rtol=1e-12,
    )
    assert (weights[[0, 2, 3]] == 0.0).all()
    assert np.isfinite(regularizer.value(b))


@pytest.mark.parametrize("eta", [0.0, 0.1, 0.24, 0.26, 0.6, 0.95])
def test_the_weights_of_many_kernels_meet_the_optimality_conditions(eta):
    b = np.random.default_rng(2).exponential(size=2000) ** 3
    weights = ElasticNetWeights(eta).kernel_weights(b)
    assert_allclose(
        eta * weights.sum() + (1 - eta) * weights @ weights,
        1.0,
        rtol=1e-12,
    )
    # b^2 / d^2 is proportional to the gradient of the constraint
    multiplier = (b / weights) ** 2 / (eta + 2 * (1 - eta) * weights)
    assert_allclose(multiplier, multiplier.mean(), rtol=1e-4)


DRAWS = {
    "normal": lambda rng, p: rng.normal(size=p),
    "ties": lambda rng, p: np.round(rng.normal(size=p), 1),
    "decades": lambda rng, p: rng.normal(size=p) * 10.0 ** rng.uniform(-8, 8, size=p),
    "halves": lambda rng, p: 0.5 ** np.arange(p),
}


@given(
    seed=st.integers(0, 10**6),
    p=st.integers(1, 400),
    step=st.floats(1e-6, 1e3),
    spread=st.sampled_from(sorted(DRAWS)),
)
def test_newton_finds_the_threshold_of_sorting(seed, p, step, spread):
    rng = np.random.default_rng(seed)
    x = DRAWS[spread](rng, p)
    weights = rng.uniform(0, 2, size=p) * (rng.random(p) < 0.8)
    sizes = np.abs(x[weights > 0])
    positive_weights = weights[weights > 0]
    order = np.argsort(-sizes / positive_weights)
    masses = np.cumsum(positive_weights[order] ** 2)
    moments = np.cumsum((positive_weights * sizes)[order])
    # the threshold of the first j of Algorithm 4 is the largest of the candidates
    expected = (step * moments / (1.0 + step * masses)).max(initial=0.0)
    assert_allclose(
        threshold_by_newton(
            x,
            weights,
            step,
            *np.empty((2, len(x))),
        ),
        expected,
        rtol=1e-10,
        atol=1e-14,
    )


@pytest.mark.parametrize("p", [5, 127, 128, 3000])
def test_optimality_conditions_hold_at_every_size(p):
    """At the prox ``b - x = step * (sum x)`` where ``x > 0``, and ``b <= step * (sum x)`` where ``x
    = 0``.
    """
    b = np.abs(np.random.default_rng(p).standard_cauchy(size=p))
    step = 0.01
    x = SquaredL21().prox(b, step)
    slope = step * x.sum()
    assert_allclose(b[x > 0] - x[x > 0], slope)
    assert (b[x == 0] <= slope + 1e-12).all()


def test_a_zero_weight_is_not_penalised():
    shrunk = WeightedSquaredL21([1.0, 0.0, 1.0]).prox([3.0, 0.2, 1.0], 1.0)
    assert shrunk[1] == 0.2
    assert_allclose(shrunk[[0, 2]], SquaredL21().prox([3.0, 1.0], 1.0))


@pytest.mark.parametrize("eta", [0.0, 1e-6, 0.3, 0.9, 1 - 1e-6, 1.0])
@pytest.mark.parametrize("step", [1e-9, 1e-3, 1.0, 1e5])
def test_weights_of_an_elastic_net_prox_meet_their_constraint_and_are_the_best(eta, step):
    """``x = b d / (d + t)`` with ``sum_k b_k^2 t / (d_k + t)`` least: no weights of the set around
    d do better.
    """
    b = np.array([1.0, 0.9, 0.5, 1e-3, 0.0])
    x = ElasticNetWeights(eta).prox(b, step)
    weights = np.divide(x, b, out=np.zeros(5), where=b > 0)
    # d = t s / (1 - s), of the share s that is left of a norm
    d = step * weights / np.maximum(1.0 - weights, 1e-300)
    if step > 1e-8:
        assert_allclose(
            eta * d.sum() + (1 - eta) * d @ d,
            1.0,
            rtol=1e-6,
        )

    def gain(weights):
        return (b**2 * weights / (1.0 + weights / step)).sum()

    for k, l in np.ndindex(5, 5):  # noqa: E741
        moved = d.copy()
        moved[k] += 1e-3
        moved[l] = max(moved[l] - 1e-3, 0.0)
        size = 0.5 * eta * moved.sum() + np.sqrt(
            (0.5 * eta * moved.sum()) ** 2 + (1 - eta) * moved @ moved
        )
        assert gain(moved / size) <= gain(d) * (1 + 1e-9)
