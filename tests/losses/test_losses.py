"""Losses against enumeration, finite differences, numerical suprema and scikit-learn."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from sklearn.metrics import mean_poisson_deviance

from omkl._components import resolve
from omkl.exceptions import InputError
from omkl.losses import (
    CRF,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Perceptron,
    Poisson,
    Quantile,
    SoftmaxMargin,
    Squared,
    SquaredHinge,
    StructuredHinge,
    StructuredLoss,
)
from omkl.structures import (
    Binary,
    Chain,
    ChainPotentials,
    Multiclass,
    NonProjectiveTree,
    ProjectiveTree,
    Scalar,
    UnaryPotentials,
)

from ..structures.conftest import enumerate_trees

N, K = 4, 3
LOSSES = [
    StructuredHinge(),
    StructuredHinge(cost_weight=2.5),
    CRF(),
    SoftmaxMargin(),
    SoftmaxMargin(2.5),
    Perceptron(),
]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=str)
seeds = st.integers(0, 10**6)


def example(seed):
    rng = np.random.default_rng(seed)
    potentials = ChainPotentials(
        rng.normal(size=(N, K)),
        rng.normal(size=(1, K, K)),
    )
    return potentials, rng.integers(0, K, size=N)


def by_enumeration(loss, chain, potentials, gold):
    outputs = [np.array(labels) for labels in product(range(K), repeat=N)]
    gaps = np.array([chain.score(potentials, y) for y in outputs]) - chain.score(potentials, gold)
    weight = getattr(loss, "cost_weight", 0.0)
    gaps += [weight * chain.cost(gold, y) for y in outputs]
    return np.log(np.exp(gaps).sum()) if isinstance(loss, CRF) else gaps.max()


@every_loss
@given(seed=seeds)
def test_value_by_enumeration(loss, seed):
    potentials, gold = example(seed)
    value, _ = loss.value_and_gradient(Chain(K), potentials, gold)
    assert_allclose(
        value,
        by_enumeration(loss, Chain(K), potentials, gold),
        atol=1e-9,
    )


@every_loss
@given(seed=seeds)
def test_gradient_by_finite_differences(loss, seed):
    potentials, gold = example(seed)
    chain = Chain(K)
    h = 1e-6
    _, gradient = loss.value_and_gradient(chain, potentials, gold)
    for part in range(2):
        for index in np.ndindex(potentials[part].shape):
            shifted = []
            for sign in (1, -1):
                moved = ChainPotentials(*(p.copy() for p in potentials))
                moved[part][index] += sign * h
                shifted.append(loss.value_and_gradient(chain, moved, gold)[0])
            slope = (shifted[0] - shifted[1]) / (2 * h)
            assert_allclose(
                0.0 if gradient is None else gradient[part][index],
                slope,
                atol=1e-5,
            )


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


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
@pytest.mark.parametrize(
    ("structure", "outputs"),
    [
        (Binary(), [0, 1]),
        (Multiclass(3, costs=[[0, 1, 4], [2, 0, 1], [1, 1, 0]]), [0, 1, 2]),
        (Chain(2, costs=[[0, 3], [1, 0]]), [np.array(y) for y in product(range(2), repeat=3)]),
        (NonProjectiveTree(), enumerate_trees(3, True, False)),
        (ProjectiveTree(), enumerate_trees(3, True, True)),
    ],
    ids=["binary", "multiclass", "chain", "tree", "projective tree"],
)
def test_the_softmax_margin_by_enumeration_of_every_structure(structure, outputs, weight, rng):
    zeros = structure.zeros(3)
    arrays = [
        rng.normal(size=np.shape(part)) for part in (zeros if isinstance(zeros, tuple) else [zeros])
    ]
    potentials = type(zeros)(*arrays) if isinstance(zeros, tuple) else arrays[0]
    hinge = StructuredHinge(weight)
    for gold in outputs:
        value, _ = SoftmaxMargin(weight).value_and_gradient(structure, potentials, gold)
        ahead = [structure.score(potentials, y) + weight * structure.cost(gold, y) for y in outputs]
        assert_allclose(
            value, np.logaddexp.reduce(ahead) - structure.score(potentials, gold), atol=1e-9
        )
        assert value >= hinge.value_and_gradient(structure, potentials, gold)[0] - 1e-9


@pytest.mark.parametrize("loss", [StructuredHinge, SoftmaxMargin])
@pytest.mark.parametrize("weight", [-1.0, np.nan])
def test_a_margin_is_a_finite_number(loss, weight):
    with pytest.raises(InputError, match="cost_weight"):
        loss(weight)


def test_unknown_labels_cost_nothing_in_a_softmax_margin():
    chain = Chain(K)
    (potentials, gold) = example(0)
    gold = np.array([gold[0], -1, gold[2], -1])
    value, _ = SoftmaxMargin(2.0).value_and_gradient(chain, potentials, gold)
    outputs = [np.array(labels) for labels in product(range(K), repeat=N)]
    scores = np.array([chain.score(potentials, y) for y in outputs])
    wrong = np.array([(y != gold)[gold >= 0].sum() for y in outputs])
    expected = np.logaddexp.reduce(scores + 2.0 * wrong) - np.logaddexp.reduce(scores[wrong == 0])
    assert_allclose(value, expected, atol=1e-9)


def test_losses_by_name():
    assert resolve(StructuredLoss, "softmax-margin:cost_weight=3", "loss") == SoftmaxMargin(3.0)
    assert resolve(StructuredLoss, "hinge", "loss") == StructuredHinge()
    assert resolve(StructuredLoss, "hinge:cost_weight=2", "loss") == StructuredHinge(2)
    assert resolve(StructuredLoss, "crf", "loss") == CRF()


def test_a_perceptron_sees_violations_that_cost_nothing():
    """The loss has no margin, so it does not depend on the cost: labels with zero cost are still
    separated.
    """
    structure = Multiclass(3, costs=[[0, 0, 1], [0, 0, 1], [1, 1, 0]])
    value, gradient = Perceptron().value_and_gradient(
        structure,
        np.array([0.0, 5.0, 1.0]),
        0,
    )
    assert value == 5.0
    assert_allclose(gradient.unary, [[-1.0, 1.0, 0.0]])
    chain = Chain(2, costs=np.zeros((2, 2)))
    value, gradient = Perceptron().value_and_gradient(
        chain, (np.array([[0.0, 2.0]]), np.zeros((2, 2))), np.array([0])
    )
    assert value == 2.0
    assert_allclose(gradient.unary, [[-1.0, 1.0]])


POINTWISE = [
    Logistic(),
    Hinge(),
    SquaredHinge(),
    Squared(),
    EpsilonInsensitive(0.3),
    Huber(0.7),
    Quantile(0.2),
    Poisson(),
]
each_loss = pytest.mark.parametrize("loss", POINTWISE, ids=repr)
predictions = st.floats(-4, 4)


def target(loss, number):
    if loss.has_link:
        return np.array([abs(number)])
    return np.array([np.copysign(1.0, number) if loss.classifies else number])


def inner(loss, y, share):
    """A dual variable strictly inside the domain, not 0."""
    low, high = (bound[0] for bound in loss.domain(y))
    low = max(low, -3.0)
    high = min(high, 3.0)
    rho = low + (0.05 + 0.9 * share) * (high - low)
    return np.array([rho if abs(rho) > 1e-3 else 0.01 * np.sign(high + low + 0.5)])


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
    assert_allclose(
        loss.conjugate(y, rho)[0],
        -best.fun,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "make", [lambda: EpsilonInsensitive(-1.0), lambda: Huber(0.0), lambda: Quantile(1.0)]
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_the_constant_of_least_quantile_loss_is_the_quantile():
    y = np.random.default_rng(0).normal(size=1001)
    constants = np.sort(y)
    losses = [Quantile(0.9).value(y, np.full(1001, c)).sum() for c in constants]
    assert constants[np.argmin(losses)] == np.quantile(y, 0.9)


@pytest.mark.parametrize(
    "loss", [Hinge(), EpsilonInsensitive(0.3), EpsilonInsensitive(0.0), Quantile(0.2)], ids=repr
)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 12), ties=st.booleans())
def test_no_kink_is_lower_than_the_best_shift(loss, seed, n, ties):
    """A piecewise linear function has its minimum at a kink; equal classes and weights make a piece
    flat.
    """
    rng = np.random.default_rng(seed)
    y = np.sign(rng.normal(size=n)) if loss.classifies else rng.normal(size=n)
    z, weights = (np.zeros(n), np.ones(n)) if ties else (rng.normal(size=n), rng.random(n) + 0.1)
    kinks = np.concatenate([y - z, y - z - 0.3, y - z + 0.3])
    losses = [weights @ loss.value(y, z + b) for b in [*kinks, loss.best_shift(y, z, weights)]]
    assert losses[-1] <= min(losses) + 1e-12 * (1.0 + min(losses))


def test_the_best_shift_is_the_middle_of_the_optimal_interval():
    y = np.array([1.0, 1.0, -1.0, -1.0])
    assert Hinge().best_shift(y, np.zeros(4), np.ones(4)) == 0.0


@pytest.mark.parametrize("loss", [loss for loss in POINTWISE if not loss.classifies], ids=repr)
@given(y=predictions, z=predictions)
def test_value_and_gradient_agree_with_the_batch_methods(loss, y, z):
    y = target(loss, y)[0]
    structure = Scalar()
    potentials = UnaryPotentials(np.array([[z]]))
    value, gradient = loss.value_and_gradient(structure, potentials, y)
    assert value == loss.value(np.array([y]), np.array([z]))[0]
    slope = loss.gradient(np.array([y]), np.array([z]))[0]
    assert (gradient is None) if slope == 0.0 else (gradient.unary.tolist() == [[slope]])
    assert structure.decode(potentials) == z


def test_poisson_is_half_the_deviance_and_takes_counts_only():
    y = np.array([0.0, 2.0, 7.5])
    z = np.array([-1.0, 0.5, 2.0])
    assert_allclose(
        Poisson().value(y, z).mean(),
        0.5 * mean_poisson_deviance(y, np.exp(z)),
    )
    assert Poisson().value(np.array([1.0]), np.array([1e4]))[0] == np.inf
    with pytest.raises(InputError, match="row 1"):
        Poisson().check_targets(np.array([1.0, -2.0]))
