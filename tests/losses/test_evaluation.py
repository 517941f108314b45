"""Compiled losses against the methods of losses and structures, which are their definition."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl import losses
from omkl.exceptions import InputError
from omkl.losses.evaluation import LossFunction
from omkl.structures import Binary, Chain, ChainPotentials, Multiclass, Scalar, UnaryPotentials

STRUCTURED = [
    losses.StructuredHinge(0.5),
    losses.CRF(),
    losses.SoftmaxMargin(2.0),
    losses.Perceptron(),
]
OF_NUMBERS = [
    losses.Squared(),
    losses.EpsilonInsensitive(0.3),
    losses.Quantile(0.3),
    losses.Huber(0.5),
    losses.Poisson(),
]
OF_CLASSES = [losses.Hinge(), losses.SquaredHinge(), losses.Logistic()]
N_LABELS = 3
KINDS = ["binary", "multiclass", "chain", "labels"]


def structure_and_example(kind, rng):
    """Return a structure with random costs, random potentials, and a gold output, maybe partial."""
    costs = rng.uniform(0, 2, size=(N_LABELS, N_LABELS)) * (1 - np.eye(N_LABELS))
    if kind == "binary":
        return Binary(), UnaryPotentials(rng.normal(size=(1, 1))), int(rng.integers(2))
    if kind == "multiclass":
        scores = UnaryPotentials(rng.normal(size=(1, N_LABELS)))
        return Multiclass(N_LABELS, costs), scores, int(rng.integers(N_LABELS))
    structure = Chain(N_LABELS, costs, linked=kind == "chain")
    unary, pairwise = structure.zeros(int(rng.integers(1, 6)))
    potentials = ChainPotentials(
        rng.normal(size=unary.shape),
        rng.normal(size=pairwise.shape),
    )
    return structure, potentials, rng.integers(-1, N_LABELS, size=len(unary))


def check_equal(first, second, potentials):
    assert_allclose(first[0], second[0], rtol=1e-12, atol=1e-12)
    zero = type(potentials)(*map(np.zeros_like, potentials))
    for ours, theirs in zip(first[1] or zero, second[1] or zero):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("loss", STRUCTURED, ids=repr)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS))
def test_compiled_losses_of_labels_are_the_losses(loss, seed, kind):
    structure, potentials, gold = structure_and_example(kind, np.random.default_rng(seed))
    loss_of = LossFunction(loss, structure)
    assert loss_of.is_compiled
    expected = loss.value_and_gradient(structure, potentials, gold)
    check_equal(loss_of(potentials, gold), expected, potentials)


@pytest.mark.parametrize("loss", OF_NUMBERS, ids=repr)
@given(y=st.floats(0, 5), z=st.floats(-3, 3))
def test_compiled_losses_of_numbers_are_the_losses(loss, y, z):
    potentials = UnaryPotentials(np.array([[z]]))
    loss_of = LossFunction(loss, Scalar())
    assert loss_of.is_compiled
    assert loss_of.takes_numbers
    expected = loss.value_and_gradient(Scalar(), potentials, y)
    check_equal(loss_of(potentials, y), expected, potentials)


@pytest.mark.parametrize("loss", OF_CLASSES, ids=repr)
@given(y=st.sampled_from([-1.0, 1.0]), z=st.floats(-800, 800))
def test_compiled_losses_of_classes_are_the_losses(loss, y, z):
    function, parameters = loss.compiled
    value, slope = function(y, z, parameters)
    assert_allclose(
        value,
        loss.value(np.array([y]), np.array([z]))[0],
        rtol=1e-12,
        atol=1e-300,
    )
    assert_allclose(
        slope,
        loss.gradient(np.array([y]), np.array([z]))[0],
        rtol=1e-12,
        atol=1e-300,
    )


@pytest.mark.parametrize("loss", [*OF_NUMBERS, *OF_CLASSES], ids=repr)
def test_a_loss_of_nan_is_nan(loss):
    function, parameters = loss.compiled
    assert np.isnan(function(1.0, np.nan, parameters)[0])


def test_structures_without_compiled_functions_take_the_methods():
    loss = losses.CRF()
    structure = Chain(N_LABELS, by_position=True)
    loss_of = LossFunction(loss, structure)
    assert not loss_of.is_compiled
    potentials = structure.zeros(4)
    gold = np.array([0, 1, -1, 2])
    expected = loss.value_and_gradient(structure, potentials, gold)
    check_equal(loss_of(potentials, gold), expected, potentials)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda loss: pickle.loads(pickle.dumps(loss))])
def test_a_copy_calls_the_same_functions_with_arrays_of_its_own(copied):
    structure, potentials, gold = structure_and_example("chain", np.random.default_rng(1))
    loss_of = LossFunction(losses.StructuredHinge(), structure)
    value, gradient = loss_of(potentials, gold)
    other = copied(loss_of)
    del loss_of, structure
    other_value, other_gradient = other(potentials, gold)
    assert other_value == value
    assert all(np.array_equal(*arrays) for arrays in zip(gradient or (), other_gradient or ()))


@pytest.mark.compiled
def test_a_compiled_loss_of_another_signature_is_refused():
    class Wrong(losses.Squared):
        compiled = losses.CRF.compiled

    with pytest.raises(InputError, match="must be"):
        LossFunction(Wrong(), Scalar()).address  # noqa: B018
