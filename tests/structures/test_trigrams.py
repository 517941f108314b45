"""Second-order chains against enumeration of all labellings."""

import copy
import pickle
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from omkl import SequenceLabeler, load
from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.structures import Chain, TrigramPotentials, allowed_transitions, log_space
from omkl.structures import _jit_trigrams as jit

small = {"seed": st.integers(0, 10**6), "n": st.integers(1, 5), "n_labels": st.integers(1, 3)}


def potentials_of(seed, n, n_labels, scale=1.0, whole_numbers=False):
    rng = np.random.default_rng(seed)
    shapes = (n, n_labels), (1, n_labels, n_labels), (n_labels, n_labels, n_labels)
    if whole_numbers:
        return TrigramPotentials(*(rng.integers(-2, 3, size=shape).astype(float) for shape in shapes))
    return TrigramPotentials(*(scale * rng.normal(size=shape) for shape in shapes))


def score(potentials, labels):
    unary, pairwise, triples = potentials
    total = sum(unary[t, k] for t, k in enumerate(labels))
    total += sum(pairwise[0, labels[t - 1], labels[t]] for t in range(1, len(labels)))
    return total + sum(triples[tuple(labels[t - 2 : t + 1])] for t in range(2, len(labels)))


def all_labellings(n, n_labels):
    return list(product(range(n_labels), repeat=n))


def enumerated_marginals(potentials, labellings):
    """log Z and expected counts by summing over labellings one by one."""
    scores = np.array([score(potentials, labels) for labels in labellings])
    log_partition = np.logaddexp.reduce(scores)
    expected = TrigramPotentials(*(np.zeros(array.shape) for array in potentials))
    for labels, p in zip(labellings, np.exp(scores - log_partition)):
        for t, k in enumerate(labels):
            expected.unary[t, k] += p
            if t > 0:
                expected.pairwise[0, labels[t - 1], k] += p
            if t > 1:
                expected.triples[labels[t - 2], labels[t - 1], k] += p
    return log_partition, expected


@given(**small)
def test_viterbi_finds_the_best_labelling_ties_towards_lower_labels_from_the_end(seed, n, n_labels):
    potentials = potentials_of(seed, n, n_labels, whole_numbers=True)
    highest = max(score(potentials, labels) for labels in all_labellings(n, n_labels))
    tied = [labels for labels in all_labellings(n, n_labels) if score(potentials, labels) == highest]
    chain = Chain(n_labels, order=2)
    decoded = chain.decode(potentials)
    assert tuple(decoded) == min(tied, key=lambda labels: labels[::-1])
    assert chain.score(potentials, decoded) == highest


@given(**small, weight=st.floats(0.1, 3))
def test_loss_augmented_viterbi_adds_the_cost_of_each_position(seed, n, n_labels, weight):
    rng = np.random.default_rng(seed)
    costs = rng.uniform(0, 2, size=(n_labels, n_labels)) * (1 - np.eye(n_labels))
    potentials, gold = potentials_of(seed, n, n_labels), rng.integers(-1, n_labels, size=n)
    chain = Chain(n_labels, cost=costs, order=2)

    def augmented(labels):
        return score(potentials, labels) + weight * chain.cost(gold, labels)

    best = max(map(augmented, all_labellings(n, n_labels)))
    assert_allclose(augmented(chain.loss_augmented(potentials, gold, weight)), best)


@given(**small, scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_marginals_are_those_of_enumeration(seed, n, n_labels, scale):
    potentials = potentials_of(seed, n, n_labels, scale)
    log_partition, expected = enumerated_marginals(potentials, all_labellings(n, n_labels))
    found_partition, found = Chain(n_labels, order=2).marginals(potentials)
    assert_allclose(found_partition, log_partition, rtol=1e-12, atol=1e-12)
    for own, right in zip(found, expected):
        assert_allclose(own, right, atol=1e-11)


@given(**small, scale=st.sampled_from([1.0, 100.0]))
def test_both_recursions_agree(seed, n, n_labels, scale):
    potentials = potentials_of(seed, n, n_labels, scale)
    quick, exact = Chain(n_labels, order=2).zeros(n), Chain(n_labels, order=2).zeros(n)
    log_partition = jit.forward_backward(*potentials, *quick)
    found = log_space.second_order_chain(*potentials, *exact)
    assert_allclose(found, enumerated_marginals(potentials, all_labellings(n, n_labels))[0], rtol=1e-12, atol=1e-12)
    if not np.isnan(log_partition):
        for one, other in zip(quick, exact):
            assert_allclose(one, other, atol=1e-10)


def test_potentials_of_any_magnitude_have_marginals():
    potentials = potentials_of(0, 6, 3, scale=2000.0)
    _, marginals = Chain(3, order=2).marginals(potentials)
    best = Chain(3, order=2).decode(potentials)
    assert_allclose(marginals.unary, np.eye(3)[best], atol=1e-12)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 5))
def test_what_is_not_allowed_is_not_decoded_and_has_no_probability(seed, n):
    potentials, labels = potentials_of(seed, n, 3), ["O", "B-X", "I-X"]
    allowed = allowed_transitions("BIO", labels)
    chain = Chain(3, allowed=allowed, order=2)

    def is_allowed(labels):
        pairs = pairwise(labels)
        return allowed.first[labels[0]] and allowed.last[labels[-1]] and all(allowed.following[pair] for pair in pairs)

    kept = [labels for labels in all_labellings(n, 3) if is_allowed(labels)]
    assert tuple(chain.decode(potentials)) == max(kept, key=lambda labels: score(potentials, labels))
    log_partition, expected = enumerated_marginals(potentials, kept)
    found_partition, found = chain.marginals(potentials)
    assert_allclose(found_partition, log_partition, rtol=1e-12, atol=1e-12)
    for own, right in zip(found, expected):
        assert_allclose(own, right, atol=1e-11)


@given(**small)
def test_forbidden_trigrams_have_no_probability(seed, n, n_labels):
    potentials = potentials_of(seed, n, n_labels)
    potentials.triples[np.random.default_rng(seed).random(potentials.triples.shape) < 0.3] = -np.inf
    possible = [labels for labels in all_labellings(n, n_labels) if score(potentials, labels) > -np.inf]
    chain = Chain(n_labels, order=2)
    if not possible:
        with pytest.raises(InputError, match="contradict"):
            chain.marginals(potentials)
        return
    log_partition, expected = enumerated_marginals(potentials, possible)
    found_partition, found = chain.marginals(potentials)
    assert_allclose(found_partition, log_partition, rtol=1e-12, atol=1e-12)
    for own, right in zip(found, expected):
        assert_allclose(own, right, atol=1e-11)


@pytest.mark.parametrize("loss", [CRF(), StructuredHinge(), Perceptron()], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("partial", [False, True])
def test_gradients_are_slopes_of_the_loss(loss, partial, rng):
    chain, potentials, gold = Chain(3, order=2), potentials_of(4, 5, 3), np.array([0, 2, 1, 1, 0])
    if partial:
        gold[2] = -1
    _, gradient = loss.value_and_gradient(chain, potentials, gold)
    for array, slopes in zip(potentials, gradient):
        for index in map(tuple, rng.integers(0, array.shape, size=(8, array.ndim))):
            values = []
            for shift in (1e-6, -1e-6):
                array[index] += shift
                values.append(loss.value_and_gradient(chain, potentials, gold)[0])
                array[index] -= shift
            assert_allclose((values[0] - values[1]) / 2e-6, slopes[index], atol=1e-5)


def test_many_sequences_are_decoded_as_one_by_one():
    potentials, offsets = potentials_of(3, 9, 4), np.array([0, 4, 4, 5, 9])
    chain = Chain(4, order=2)
    alone = [chain.decode(chain.part(potentials, a, b)) for a, b in pairwise(offsets) if b > a]
    assert np.array_equal(chain.decode_many(potentials, offsets), np.concatenate(alone))


def test_zero_trigrams_leave_a_first_order_chain():
    unary, pairwise, triples = potentials_of(5, 6, 4)
    given = TrigramPotentials(unary, pairwise, np.zeros_like(triples))
    log_partition, first = Chain(4).marginals((unary, pairwise))
    found, second = Chain(4, order=2).marginals(given)
    assert_allclose(found, log_partition)
    assert_allclose(second.unary, first.unary, atol=1e-12)
    assert_allclose(second.pairwise, first.pairwise, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"order": 3}, "order must be 1 or 2"),
        ({"order": 2, "by_position": True}, "all positions share"),
        ({"order": 2, "linked": False}, "all positions share"),
        ({"order": 2, "n_labels": 1000}, "at most 400 labels"),
    ],
)
def test_chains_that_there_are_not_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        Chain(**{"n_labels": 3, **settings})


def test_n_best_and_pairs_of_arrays_are_refused_by_a_sentence():
    chain = Chain(3, order=2)
    with pytest.raises(InputError, match="order=1"):
        chain.decode_best(potentials_of(0, 3, 3), 2)
    with pytest.raises(InputError, match=r"\(unary, pairwise, triples\), not 2 arrays"):
        chain.decode((np.zeros((2, 3)), np.zeros((3, 3))))


def sequences(rng, n=60):
    """Labels repeat the one two before, which no pair tells; inputs tell only the first two."""
    X, y = [], []
    for _ in range(n):
        first = rng.integers(0, 2, size=2)
        labels = first[np.arange(8) % 2]
        X.append([{"x": f"{label}{t}" if t < 2 else "rest"} for t, label in enumerate(labels)])
        y.append(labels.tolist())
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "crf", "perceptron"])
@pytest.mark.parametrize("transitions", ["free", "regularized"])
def test_trigrams_learn_what_pairs_do_not_tell(loss, transitions, rng, tmp_path):
    X, y = sequences(rng)
    settings = {"loss": loss, "transitions": transitions, "random_state": 0, "epochs": 10, "C": 10.0}
    first = SequenceLabeler(**settings).fit(X[:40], y[:40])
    second = SequenceLabeler(order=2, **settings).fit(X[:40], y[:40])
    assert second.score(X[40:], y[40:]) == 1.0 > first.score(X[40:], y[40:])
    assert second.trigrams_.shape == (2, 2, 2)
    assert not first.trigrams_.any()
    second.save(tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert all(np.array_equal(a, b) for a, b in zip(again.predict(X), second.predict(X)))
    assert np.array_equal(again.trigrams_, second.trigrams_)
    for row in second.predict_marginals(X[:3]) if loss == "crf" else []:
        assert_allclose(row.sum(axis=1), 1.0)


def test_labels_that_come_later_have_trigrams():
    labeler = SequenceLabeler(order=2, random_state=0)
    labeler.partial_fit([["a", "b", "a"]], [["x", "y", "x"]], classes="growing")
    labeler.partial_fit([["c", "b", "a"]] * 3, [["z", "y", "x"]] * 3)
    assert labeler.trigrams_.shape == (3, 3, 3)
    assert labeler.predict([["c", "b", "a"]])[0].tolist() == ["z", "y", "x"]


def test_shards_mix_trigrams(rng):
    X, y = sequences(rng)
    labeler = SequenceLabeler(order=2, random_state=0, epochs=40, C=10.0).fit(X[:40], y[:40], shards=2)
    assert labeler.score(X[40:], y[40:]) == 1.0


def test_a_chain_is_copied_and_sent_as_any_other_object():
    again = pickle.loads(pickle.dumps(copy.deepcopy(Chain(3, order=2))))
    assert np.array_equal(again.decode(potentials_of(0, 4, 3)), Chain(3, order=2).decode(potentials_of(0, 4, 3)))
