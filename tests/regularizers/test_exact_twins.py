"""Proximity operators against twins in exact or extended arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omkl.regularizers import (
    L21,
    ElasticNet,
    ElasticNetWeights,
    L21Ball,
    LqNorm,
    OverlappingGroups,
    Ridge,
    SparseGroup,
    SquaredL21,
    SquaredLq,
    TreeGroups,
    WeightedSquaredL21,
)

P = 6
TREE, PARTITION = [[3, 4], [0, 1], [2, 3, 4], [0, 1, 2, 3, 4, 5]], [[0, 1], [2, 3, 4], [5]]
LONG = np.longdouble


def linear_quadratic(b, step, linear=0, quadratic=0):
    linear, quadratic = Fraction(linear), Fraction(quadratic)
    return [max(value - step * linear, Fraction(0)) / (1 + step * quadratic) for value in b]


def squared(b, step, weights=(1.0,) * P):
    """Algorithm 4 in fractions: the largest ratios ``b / w``, as long as these exceed the threshold of all before."""
    weights = [Fraction(w) for w in weights]
    mass = moment = threshold = Fraction(0)
    for k in sorted((k for k in range(P) if weights[k] > 0), key=lambda k: -b[k] / weights[k]):
        candidate = step * (moment + weights[k] * b[k]) / (1 + step * (mass + weights[k] ** 2))
        if b[k] <= weights[k] * candidate:
            break
        mass, moment, threshold = mass + weights[k] ** 2, moment + weights[k] * b[k], candidate
    return [max(value - w * threshold, Fraction(0)) for value, w in zip(b, weights)]


def ball(b, radius):
    if sum(b) <= Fraction(radius):
        return b
    total = threshold = Fraction(0)
    for j, value in enumerate(sorted(b, reverse=True), start=1):
        candidate = (total + value - Fraction(radius)) / j
        if value <= candidate:
            break
        total, threshold = total + value, candidate
    return [max(value - threshold, Fraction(0)) for value in b]


def q_norm(b, step, q):
    """Roots of ``x + t x^(q-1) = b`` by bisection of ``log x``, in numbers of 64 bits whose exponents have 15."""
    log_b, power = np.log(b), LONG(q) - 1
    high = np.minimum(log_b, (log_b - np.log(step)) / power)
    low = np.minimum(log_b - 1, (log_b - 1 - np.log(step)) / power)
    for _ in range(80):
        middle = (low + high) / 2
        below = np.logaddexp(middle, np.log(step) + power * middle) < log_b
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.exp((low + high) / 2)


def squared_q_norm(b, step, q):
    """``tau`` with ``tau = t ||x||^(2 - q)`` of the roots x, by bisection of its logarithm."""
    size = lambda x: np.log(x.max()) + np.log(((x / x.max()) ** q).sum()) / q  # noqa: E731
    high = np.log(step) + (2 - q) * size(b)
    low = high - (2 - q) * (np.log1p(step) + 2)
    for _ in range(75):
        middle = (low + high) / 2
        below = middle < np.log(step) + (2 - q) * size(q_norm(b, np.exp(middle), q))
        low, high = (middle, high) if below else (low, middle)
    return q_norm(b, np.exp((low + high) / 2), q)


def unions(b, step, groups, weights):
    x = b.copy()
    for group, weight in zip(groups, weights):
        norm = np.sqrt((x[group] ** 2).sum())
        x[group] *= max(norm - step * LONG(weight), LONG(0)) / norm if norm > 0 else LONG(0)
    return x


def sparse_group(b, step, sigma):
    return unions(np.maximum(b - step * (1 - LONG(sigma)), 0), step * LONG(sigma), PARTITION, np.ones(3))


def in_fractions(function):
    """A function of fractions as one of arrays; what no float holds is inf."""

    def twin(b, step):
        found = function([Fraction(float(value)) for value in b], Fraction(float(step)))
        return np.array([float(v) if v < 2**1023 else np.inf for v in found])

    return twin


def cases(rng):
    """Regularizers with parameters from anywhere in their ranges, and the twin of each."""
    q, r = 1 + 10 ** rng.uniform(-3, 1.5), 1 + 10 ** rng.uniform(-2, -0.01)
    weights = 10 ** rng.uniform(-6, 6, P) * (rng.random(P) < 0.8)
    by_union = 10 ** rng.uniform(-6, 6, 4) * (rng.random(4) < 0.8)
    mu, radius, factor = rng.random(), 10 ** rng.uniform(-20, 20), 10 ** rng.uniform(-6, 6)
    return {
        "l21": (L21(), in_fractions(lambda b, t: linear_quadratic(b, t, 1))),
        "ridge": (Ridge(), in_fractions(lambda b, t: linear_quadratic(b, t, 0, 1))),
        "elastic net": (ElasticNet(mu), in_fractions(lambda b, t: linear_quadratic(b, t, 1.0 - mu, mu))),
        "mkl": (SquaredL21(), in_fractions(squared)),
        "scaled": (factor * SquaredL21(), in_fractions(lambda b, t: squared(b, Fraction(float(t) * factor)))),
        "mkl + ridge": (
            SquaredL21() + factor * Ridge(),
            in_fractions(lambda b, t: squared(linear_quadratic(b, t, 0, factor), t / (1 + t * Fraction(factor)))),
        ),
        "weighted": (WeightedSquaredL21(weights), in_fractions(lambda b, t: squared(b, t, weights))),
        "lasso of weights": (ElasticNetWeights(1.0), in_fractions(squared)),
        "ball of weights": (ElasticNetWeights(0.0), lambda b, t: squared_q_norm(b, t, LONG(4) / 3)),
        "lq": (LqNorm(q), lambda b, t: q_norm(b, t, q)),
        "squared lq": (SquaredLq(r), lambda b, t: squared_q_norm(b, t, LONG(r))),
        "ball": (L21Ball(radius), in_fractions(lambda b, t: ball(b, radius))),
        "tree": (TreeGroups(TREE, by_union), lambda b, t: unions(b, t, TREE, by_union)),
        "partition": (
            OverlappingGroups(PARTITION, by_union[:3], exact=True),
            lambda b, t: unions(b, t, PARTITION, by_union),
        ),
        "sparse group": (SparseGroup(mu, PARTITION), lambda b, t: sparse_group(b, t, mu)),
    }


NAMES = list(cases(np.random.default_rng(0)))


def norms_and_step(rng):
    """Norms alike in any unit, norms of all sizes, ties; and a step."""
    spread = [rng.exponential(size=P) + 1e-9, 10 ** rng.uniform(-6, 6, P), np.full(P, 1.0)][rng.integers(3)]
    return spread * 10 ** rng.uniform(-20, 20), 10 ** rng.uniform(-6, 6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("error")
def test_prox_equals_its_twin(name):
    # bisection in a bisection is slow
    for seed in range(8 if name in ("squared lq", "ball of weights") else 40):
        rng = np.random.default_rng(seed)
        regularizer, twin = cases(rng)[name]
        b, step = norms_and_step(rng)
        with np.errstate(all="ignore"):
            expected = twin(b.astype(LONG), LONG(step)).astype(float)
        assert_allclose(regularizer.prox(b, step), expected, rtol=0, atol=1e-8 * expected.max() + 1e-12 * b.max())
        assert_allclose(regularizer.prox(-b, step), -regularizer.prox(b, step), rtol=0, atol=0)


@pytest.mark.parametrize("eta", [0.0, 1e-6, 0.3, 0.9, 1 - 1e-6, 1.0])
@pytest.mark.parametrize("step", [1e-9, 1e-3, 1.0, 1e5])
def test_weights_of_an_elastic_net_prox_meet_their_constraint_and_are_the_best(eta, step):
    """``x = b d / (d + t)`` with ``sum_k b_k^2 t / (d_k + t)`` least: no weights of the set around d do better."""
    b = np.array([1.0, 0.9, 0.5, 1e-3, 0.0])
    x = ElasticNetWeights(eta).prox(b, step)
    weights = np.divide(x, b, out=np.zeros(5), where=b > 0)
    # d = t s / (1 - s), of the share s that is left of a norm
    d = step * weights / np.maximum(1.0 - weights, 1e-300)
    if step > 1e-8:
        assert_allclose(eta * d.sum() + (1 - eta) * d @ d, 1.0, rtol=1e-6)

    def gain(weights):
        return (b**2 * weights / (1.0 + weights / step)).sum()

    for k, l in np.ndindex(5, 5):  # noqa: E741
        moved = d.copy()
        moved[k] += 1e-3
        moved[l] = max(moved[l] - 1e-3, 0.0)
        size = 0.5 * eta * moved.sum() + np.sqrt((0.5 * eta * moved.sum()) ** 2 + (1 - eta) * moved @ moved)
        assert gain(moved / size) <= gain(d) * (1 + 1e-9)


@pytest.mark.parametrize("name", ["l21", "elastic net", "mkl", "lq", "squared lq", "ball", "ball of weights", "ridge"])
def test_permuting_groups_permutes_the_prox(name):
    rng = np.random.default_rng(2)
    for _ in range(20):
        regularizer, _ = cases(rng)[name]
        b, order = rng.exponential(size=P), rng.permutation(P)
        step = 10 ** rng.uniform(-6, 6)
        assert_allclose(regularizer.prox(b[order], step), regularizer.prox(b, step)[order], rtol=1e-12, atol=1e-300)
