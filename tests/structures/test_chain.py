"""Chains against enumeration of all labellings."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl.exceptions import InputError
from omkl.losses import CRF
from omkl.structures import Chain, ChainPotentials, log_space
from omkl.structures import _jit_chain as jit


def potentials_of(seed, n, n_labels, by_position, scale=1.0, whole_numbers=False):
    rng = np.random.default_rng(seed)
    edges = max(n - 1, 1) if by_position else 1
    draw = (lambda shape: rng.integers(-2, 3, size=shape).astype(float)) if whole_numbers else rng.normal
    if whole_numbers:
        return ChainPotentials(draw((n, n_labels)), draw((edges, n_labels, n_labels)))
    return ChainPotentials(scale * rng.normal(size=(n, n_labels)), scale * rng.normal(size=(edges, n_labels, n_labels)))


def score(potentials, labels):
    unary, pairwise = potentials
    total = sum(unary[t, k] for t, k in enumerate(labels))
    for t in range(len(labels) - 1):
        total += pairwise[t if len(pairwise) > 1 else 0][labels[t], labels[t + 1]]
    return total


def all_labellings(n, n_labels):
    return list(product(range(n_labels), repeat=n))


small = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(1, 5),
    "n_labels": st.integers(1, 4),
    "by_position": st.booleans(),
}


@given(**small)
def test_viterbi_finds_the_best_labelling(seed, n, n_labels, by_position):
    potentials = potentials_of(seed, n, n_labels, by_position)
    best = max(all_labellings(n, n_labels), key=lambda labels: score(potentials, labels))
    decoded = Chain(n_labels).decode(potentials)
    assert tuple(decoded) == best
    assert_allclose(Chain(n_labels).score(potentials, decoded), score(potentials, best))


@given(**small)
def test_ties_break_towards_lower_labels_from_the_end(seed, n, n_labels, by_position):
    """The last label is the lowest among the best, then the one before it, and so on."""
    potentials = potentials_of(seed, n, n_labels, by_position, whole_numbers=True)
    highest = max(score(potentials, labels) for labels in all_labellings(n, n_labels))
    tied = [labels for labels in all_labellings(n, n_labels) if score(potentials, labels) == highest]
    assert tuple(Chain(n_labels).decode(potentials)) == min(tied, key=lambda labels: labels[::-1])


@given(**small, weight=st.floats(0.1, 3))
def test_loss_augmented_viterbi_adds_the_cost_of_each_position(seed, n, n_labels, by_position, weight):
    rng = np.random.default_rng(seed)
    costs = rng.uniform(0, 2, size=(n_labels, n_labels)) * (1 - np.eye(n_labels))
    potentials = potentials_of(seed, n, n_labels, by_position)
    gold = rng.integers(0, n_labels, size=n)
    chain = Chain(n_labels, cost=costs)

    def augmented(labels):
        return score(potentials, labels) + weight * chain.cost(gold, labels)

    best = max(map(augmented, all_labellings(n, n_labels)))
    assert_allclose(augmented(chain.loss_augmented(potentials, gold, weight)), best)
    hamming = Chain(n_labels)
    assert hamming.cost(gold, (gold + 1) % n_labels) == (n if n_labels > 1 else 0)
    assert hamming.cost(gold, gold) == 0


@given(**small, scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_marginals_and_log_partition_by_enumeration(seed, n, n_labels, by_position, scale):
    potentials = potentials_of(seed, n, n_labels, by_position, scale)
    chain = Chain(n_labels, by_position=by_position)
    scores = np.array([score(potentials, labels) for labels in all_labellings(n, n_labels)])
    log_partition = scores.max() + np.log(np.exp(scores - scores.max()).sum())
    probabilities = np.exp(scores - log_partition)
    expected = chain.zeros(n)
    for labels, probability in zip(all_labellings(n, n_labels), probabilities):
        indicator = chain.indicator(labels)
        expected.unary[:] += probability * indicator.unary
        expected.pairwise[:] += probability * indicator.pairwise
    for marginals in (jit.forward_backward, log_space.chain):
        found = chain.zeros(n)
        assert_allclose(marginals(*potentials, *found), log_partition, rtol=1e-9)
        assert_allclose(found.unary, expected.unary, atol=1e-9)
        assert_allclose(found.pairwise, expected.pairwise, atol=1e-9)
    value, found = chain.marginals(potentials)
    assert_allclose(value, log_partition, rtol=1e-9)
    assert_allclose(found.unary, expected.unary, atol=1e-9)


@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_marginals_at_large_magnitudes_are_those_of_the_best_labelling(scale):
    potentials = potentials_of(1, 30, 5, True, scale)
    chain = Chain(5, by_position=True)
    log_partition, marginals = chain.marginals(potentials)
    best = chain.decode(potentials)
    assert_allclose(log_partition, chain.score(potentials, best), rtol=1e-9)
    assert_allclose(marginals.unary, chain.indicator(best).unary, atol=1e-6)


def test_messages_that_hardly_overlap_fall_back_to_logs():
    """The first position is certain of label 0 by e^900, the transition of leaving it by e^1000."""
    unary = np.array([[900.0, 0.0], [0.0, 0.0]])
    pairwise = np.array([[[-2000.0, -2000.0], [0.0, 0.0]]])
    assert np.isnan(jit.forward_backward(unary, pairwise, np.empty((2, 2)), np.empty((1, 2, 2))))
    _, marginals = Chain(2).marginals((unary, pairwise))
    assert_allclose(marginals.unary, [[0.0, 1.0], [0.5, 0.5]], atol=1e-12)


@given(seed=st.integers(0, 10**6), by_position=st.booleans())
def test_many_sequences_decode_as_one_by_one(seed, by_position):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 5, size=6)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n = int(offsets[-1])
    chain = Chain(3, by_position=by_position)
    potentials = potentials_of(seed, max(n, 1), 3, by_position)
    decoded = chain.decode_many(potentials, offsets)
    for low, high in pairwise(offsets):
        if high > low:
            one = chain.part(potentials, low, high)
            assert (decoded[low:high] == chain.decode(one)).all()


def test_two_dimensional_transitions_and_lists_are_accepted():
    potentials = [[1.0, 0], [0, 1]], [[5.0, 0], [0, 0]]
    chain = Chain(2)
    assert chain.decode(potentials).tolist() == [0, 0]
    log_partition, marginals = chain.marginals(potentials)
    assert marginals.pairwise.shape == (2, 2)
    assert_allclose(marginals.pairwise.sum(), 1.0)
    _, gradient = CRF().value_and_gradient(chain, potentials, np.array([0, 1]))
    assert_allclose(gradient.pairwise, marginals.pairwise - [[0, 1], [0, 0]])
    assert_allclose(chain.marginals((potentials[0], [potentials[1]]))[0], log_partition)


@given(**small)
def test_difference_is_that_of_indicators_and_scores(seed, n, n_labels, by_position):
    rng = np.random.default_rng(seed)
    potentials = potentials_of(seed, n, n_labels, by_position)
    predicted, gold = rng.integers(0, n_labels, size=(2, n))
    chain = Chain(n_labels, by_position=by_position)
    gap, gradient = chain.difference(potentials, predicted, gold)
    assert_allclose(gap, score(potentials, predicted) - score(potentials, gold), atol=1e-12)
    for part in range(2):
        assert_allclose(gradient[part], chain.indicator(predicted)[part] - chain.indicator(gold)[part])


@pytest.mark.parametrize("cost", [np.ones((2, 2)), np.zeros((3, 3)), [[0, -1], [1, 0]], [[0, np.nan], [1, 0]]])
def test_costs_that_make_no_sense_are_refused(cost):
    with pytest.raises(InputError, match="cost"):
        Chain(2, cost=cost)
