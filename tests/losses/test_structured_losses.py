"""Structured losses: values by enumeration, gradients by finite differences, convexity."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl._components import resolve
from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge, StructuredLoss
from omkl.structures import Chain, ChainPotentials, Multiclass

N, K = 4, 3
LOSSES = [StructuredHinge(), StructuredHinge(cost_weight=2.5), CRF(), Perceptron()]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
seeds = st.integers(0, 10**6)


def example(seed):
    rng = np.random.default_rng(seed)
    potentials = ChainPotentials(rng.normal(size=(N, K)), rng.normal(size=(1, K, K)))
    return potentials, rng.integers(0, K, size=N)


def by_enumeration(loss, chain, potentials, gold):
    outputs = [np.array(labels) for labels in product(range(K), repeat=N)]
    gaps = np.array([chain.score(potentials, y) for y in outputs]) - chain.score(potentials, gold)
    if isinstance(loss, CRF):
        return np.log(np.exp(gaps).sum())
    weight = getattr(loss, "cost_weight", 0.0)
    return max(gap + weight * chain.cost(gold, y) for gap, y in zip(gaps, outputs))


@every_loss
@given(seed=seeds)
def test_value_by_enumeration(loss, seed):
    potentials, gold = example(seed)
    value, _ = loss.value_and_gradient(Chain(K), potentials, gold)
    assert_allclose(value, by_enumeration(loss, Chain(K), potentials, gold), atol=1e-9)


@every_loss
@given(seed=seeds)
def test_gradient_by_finite_differences(loss, seed):
    potentials, gold = example(seed)
    chain, h = Chain(K), 1e-6
    _, gradient = loss.value_and_gradient(chain, potentials, gold)
    for part in range(2):
        for index in np.ndindex(potentials[part].shape):
            shifted = []
            for sign in (1, -1):
                moved = ChainPotentials(*(p.copy() for p in potentials))
                moved[part][index] += sign * h
                shifted.append(loss.value_and_gradient(chain, moved, gold)[0])
            slope = (shifted[0] - shifted[1]) / (2 * h)
            assert_allclose(0.0 if gradient is None else gradient[part][index], slope, atol=1e-5)


@every_loss
@given(first=seeds, second=seeds)
def test_gradient_is_a_subgradient(loss, first, second):
    chain = Chain(K)
    here, gold = example(first)
    there, _ = example(second)
    value, gradient = loss.value_and_gradient(chain, here, gold)
    slope = 0.0
    if gradient is not None:
        slope = sum(np.vdot(g, b - a) for g, a, b in zip(gradient, here, there))
    assert loss.value_and_gradient(chain, there, gold)[0] >= value + slope - 1e-9


@every_loss
def test_no_gradient_where_gold_wins_by_far(loss):
    gold = np.array([0, 1, 2, 0])
    potentials = Chain(K).indicator(gold)
    potentials.unary[:] *= 100
    value, gradient = loss.value_and_gradient(Chain(K), potentials, gold)
    assert value == pytest.approx(0.0, abs=1e-9)
    assert gradient is None or np.abs(gradient.unary).max() < 1e-9


def test_value_at_zero_potentials():
    chain = Chain(K)
    gold = np.array([0, 1, 2, 0])
    for loss, largest in ((StructuredHinge(), N), (StructuredHinge(3.0), 3 * N), (CRF(), N * np.log(K))):
        assert_allclose(loss.value_and_gradient(chain, chain.zeros(N), gold)[0], largest)


def test_losses_by_name():
    assert resolve(StructuredLoss, "hinge", "loss") == StructuredHinge()
    assert resolve(StructuredLoss, "hinge:cost_weight=2", "loss") == StructuredHinge(2)
    assert resolve(StructuredLoss, "crf", "loss") == CRF()


def test_a_perceptron_sees_violations_that_cost_nothing():
    """The loss has no margin, so it does not depend on the cost: labels that may be confused are still told apart."""
    structure = Multiclass(3, cost=[[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    value, gradient = Perceptron().value_and_gradient(structure, np.array([0.0, 5.0, 1.0]), 0)
    assert value == 5.0
    assert_allclose(gradient.unary, [[-1.0, 1.0, 0.0]])
    chain = Chain(2, cost=np.zeros((2, 2)))
    value, gradient = Perceptron().value_and_gradient(chain, (np.array([[0.0, 2.0]]), np.zeros((2, 2))), np.array([0]))
    assert value == 2.0
    assert_allclose(gradient.unary, [[-1.0, 1.0]])


@pytest.mark.parametrize("weight", [-1.0, np.inf, np.nan])
def test_a_margin_is_a_finite_number(weight):
    with pytest.raises(InputError, match="cost_weight"):
        StructuredHinge(weight)
