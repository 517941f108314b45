"""Chains, also constrained ones, and single outputs against enumeration of all labellings."""

import copy
import pickle
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_softmax, logsumexp, softmax

from omkl import SequenceLabeler, Transitions
from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.structures import (
    AllowedTransitions,
    Binary,
    Chain,
    ChainPotentials,
    Multiclass,
    _jit_chain,
    _jit_trigrams,
    allowed_transitions,
    log_space,
)
from omkl.structures._jit_labels import NO_ARRAYS

KINDS = {"shared": {}, "by position": {"by_position": True}, "second order": {"order": 2}}
small = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(1, 5),
    "n_labels": st.integers(1, 3),
    "kind": st.sampled_from(sorted(KINDS)),
}


def chain_of(kind, n_labels, **settings):
    return Chain(n_labels, **KINDS[kind], **settings)


def potentials_of(seed, n, n_labels, kind, scale=1.0, whole_numbers=False):
    """Random potentials of a chain; those of an empty one are those of one position."""
    rng = np.random.default_rng(seed)
    zeros = chain_of(kind, n_labels).zeros(max(n, 1))

    def draw(shape):
        if whole_numbers:
            return rng.integers(-2, 3, size=shape).astype(float)
        return rng.standard_normal(shape)

    return type(zeros)(*(scale * draw(array.shape) for array in zeros))


def score(potentials, labels):
    return sum(array[index] for array, index in places(potentials, labels))


def places(potentials, labels):
    """Yield the arrays and indices of the potentials that a labelling sums up."""
    unary, pairwise, *triples = potentials
    for t, k in enumerate(labels):
        yield unary, (t, k)
        if t > 0:
            position = t - 1 if len(pairwise) > 1 else 0
            yield pairwise[position], tuple(labels[t - 1 : t + 1])
        if t > 1 and triples:
            yield triples[0], tuple(labels[t - 2 : t + 1])


def all_labellings(n, n_labels):
    return list(product(range(n_labels), repeat=n))


def enumerated_marginals(potentials, labellings):
    """Log Z and expected counts by summing over labellings one by one."""
    expected = type(potentials)(*(np.zeros(array.shape) for array in potentials))
    scores = np.array([score(potentials, labels) for labels in labellings])
    log_partition = np.logaddexp.reduce(scores)
    for labels, p in zip(labellings, np.exp(scores - log_partition)):
        for array, index in places(expected, labels):
            array[index] += p
    return log_partition, expected


def check_marginals(result, expected):
    assert_allclose(result[0], expected[0], rtol=1e-12, atol=1e-12)
    for marginals, right in zip(result[1], expected[1]):
        assert_allclose(marginals, right, atol=1e-11)


@given(**small)
def test_viterbi_finds_the_best_labelling_ties_towards_lower_labels_from_the_end(
    seed, n, n_labels, kind
):
    """The last label is the lowest among the best, then the one before it, and so on."""
    potentials = potentials_of(seed, n, n_labels, kind, whole_numbers=True)
    labellings = sorted(all_labellings(n, n_labels), key=lambda labels: labels[::-1])
    scores = [score(potentials, labels) for labels in labellings]
    chain = chain_of(kind, n_labels)
    decoded = chain.decode(potentials)
    assert tuple(decoded) == labellings[np.argmax(scores)]
    assert chain.score(potentials, decoded) == max(scores)


@given(**small, weight=st.floats(0.1, 3))
def test_loss_augmented_viterbi_adds_the_cost_of_each_position(seed, n, n_labels, kind, weight):
    rng = np.random.default_rng(seed)
    costs = rng.uniform(0, 2, size=(n_labels, n_labels)) * (1 - np.eye(n_labels))
    potentials = potentials_of(seed, n, n_labels, kind)
    gold = rng.integers(-1, n_labels, size=n)
    chain = chain_of(kind, n_labels, costs=costs)

    def augmented(labels):
        return score(potentials, tuple(labels)) + weight * chain.cost(gold, labels)

    best = max(map(augmented, all_labellings(n, n_labels)))
    assert_allclose(augmented(chain.loss_augmented(potentials, gold, weight)), best)
    hamming = chain_of(kind, n_labels)
    gold = np.maximum(gold, 0)
    assert hamming.cost(gold, (gold + 1) % n_labels) == (n if n_labels > 1 else 0)
    assert hamming.cost(gold, gold) == 0


@given(**small, scale=st.sampled_from([0.1, 1.0, 10.0, 30.0]))
def test_marginals_are_those_of_enumeration_by_weights_and_by_logarithms(
    seed, n, n_labels, kind, scale
):
    potentials = potentials_of(seed, n, n_labels, kind, scale)
    chain = chain_of(kind, n_labels)
    expected = enumerated_marginals(potentials, all_labellings(n, n_labels))
    check_marginals(chain.marginals(potentials), expected)
    if kind == "second order":
        programs = _jit_trigrams.forward_backward, log_space.second_order_chain
    else:
        functions = _jit_chain.forward_backward, _jit_chain.forward_backward_in_logs
        programs = [partial(function, NO_ARRAYS) for function in functions]
    for program in programs:
        marginals = chain.zeros(n)
        log_partition = program(*potentials, *marginals)
        if not np.isnan(log_partition):
            check_marginals((log_partition, marginals), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e3, 1e6])
def test_marginals_at_large_magnitudes_are_those_of_the_best_labelling(kind, scale):
    potentials = potentials_of(1, 20, 4, kind, scale)
    chain = chain_of(kind, 4)
    log_partition, marginals = chain.marginals(potentials)
    best = chain.decode(potentials)
    assert_allclose(log_partition, chain.score(potentials, best), rtol=1e-9)
    assert_allclose(marginals.unary, chain.indicator(best).unary, atol=1e-6)


def test_messages_that_hardly_overlap_fall_back_to_logs():
    """The first position prefers label 0 by e^900, the transition away from it by e^1000."""
    unary = np.array([[900.0, 0.0], [0.0, 0.0]])
    pairwise = np.array([[[-2000.0, -2000.0], [0.0, 0.0]]])
    expected = np.empty((2, 2)), np.empty((1, 2, 2))
    assert np.isnan(_jit_chain.forward_backward(NO_ARRAYS, unary, pairwise, *expected))
    _, marginals = Chain(2).marginals((unary, pairwise))
    assert_allclose(
        marginals.unary,
        [[0.0, 1.0], [0.5, 0.5]],
        atol=1e-12,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_where_no_labelling_is_allowed_an_error_says_so(kind):
    chain = chain_of(kind, 3)
    potentials = potentials_of(0, 4, 3, kind)
    potentials.unary[2] = -np.inf
    for method in (chain.decode, chain.marginals):
        with pytest.raises(InputError, match="No labelling is allowed"):
            method(potentials)


@given(seed=st.integers(0, 10**6), kind=st.sampled_from(sorted(KINDS)))
def test_many_sequences_decode_as_one_by_one(seed, kind):
    lengths = np.random.default_rng(seed).integers(0, 5, size=6)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chain = chain_of(kind, 3)
    potentials = potentials_of(
        seed,
        int(offsets[-1]),
        3,
        kind,
    )
    decoded = chain.decode_many(potentials, offsets)
    for low, high in pairwise(offsets):
        if high > low:
            assert (decoded[low:high] == chain.decode(chain.part(potentials, low, high))).all()


@given(**small)
def test_difference_is_that_of_indicators_and_scores(seed, n, n_labels, kind):
    potentials = potentials_of(seed, n, n_labels, kind)
    chain = chain_of(kind, n_labels)
    predicted, gold = np.random.default_rng(seed).integers(0, n_labels, size=(2, n))
    gap, gradient = chain.difference(potentials, predicted, gold)
    assert_allclose(
        gap,
        score(potentials, predicted) - score(potentials, gold),
        atol=1e-12,
    )
    indicators = zip(chain.indicator(predicted), chain.indicator(gold))
    for difference, (counts, gold_counts) in zip(gradient, indicators):
        assert_allclose(difference, counts - gold_counts)


@pytest.mark.parametrize(
    "cost", [np.ones((2, 2)), np.zeros((3, 3)), [[0, -1], [1, 0]], [[0, np.nan], [1, 0]]]
)
def test_costs_that_make_no_sense_are_refused(cost):
    with pytest.raises(InputError, match="cost"):
        Chain(2, costs=cost)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 5))
def test_what_is_not_allowed_is_not_decoded_and_has_no_probability(seed, n):
    potentials = potentials_of(seed, n, 3, "second order")
    allowed = allowed_transitions("BIO", ["O", "B-X", "I-X"])
    chain = Chain(3, allowed=allowed, order=2)
    labellings = allowed_labellings(allowed, n, 3)
    best = max(labellings, key=lambda labels: score(potentials, labels))
    assert tuple(chain.decode(potentials)) == best
    expected = enumerated_marginals(potentials, labellings)
    check_marginals(chain.marginals(potentials), expected)


def allowed_labellings(allowed, n, n_labels):
    def is_allowed(labels):
        is_free = allowed.first[labels[0]] and allowed.last[labels[-1]]
        return is_free and all(allowed.following[pair] for pair in pairwise(labels))

    return list(filter(is_allowed, all_labellings(n, n_labels)))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), n_labels=st.integers(1, 3))
def test_forbidden_trigrams_have_no_probability(seed, n, n_labels):
    potentials = potentials_of(seed, n, n_labels, "second order")
    potentials.triples[np.random.default_rng(seed).random(potentials.triples.shape) < 0.3] = -np.inf
    possible = [
        labels for labels in all_labellings(n, n_labels) if score(potentials, labels) > -np.inf
    ]
    chain = Chain(n_labels, order=2)
    if possible:
        check_marginals(chain.marginals(potentials), enumerated_marginals(potentials, possible))
        return
    with pytest.raises(InputError, match="contradict"):
        chain.marginals(potentials)


@pytest.mark.parametrize(
    "loss", [CRF(), StructuredHinge(), Perceptron()], ids=lambda loss: type(loss).__name__
)
@pytest.mark.parametrize("partial", [False, True])
def test_gradients_are_slopes_of_the_loss(loss, partial, rng):
    chain = Chain(3, order=2)
    potentials = potentials_of(4, 5, 3, "second order")
    gold = np.array([0, 2, 1, 1, 0])
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
            assert_allclose(
                (values[0] - values[1]) / 2e-6,
                slopes[index],
                atol=1e-5,
            )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"order": 3}, "order must be 1 or 2"),
        ({"order": 2, "by_position": True}, "all positions share"),
        ({"order": 2, "linked": False}, "all positions share"),
        ({"order": 2, "n_labels": 1000}, "at most 400 labels"),
    ],
)
def test_unsupported_chains_are_refused(settings, sentence):
    with pytest.raises(InputError, match=sentence):
        Chain(**{"n_labels": 3, **settings})


def test_n_best_and_pairs_of_arrays_are_refused_by_a_sentence():
    chain = Chain(3, order=2)
    with pytest.raises(InputError, match="order=1"):
        chain.decode_best(potentials_of(0, 3, 3, "second order"), 2)
    with pytest.raises(InputError, match=r"\(unary, pairwise, triples\), not 2 arrays"):
        chain.decode((np.zeros((2, 3)), np.zeros((3, 3))))


def sequences(rng, n=60):
    """Draw labels that repeat the one two positions before; the first two depend on the input."""
    X = []
    y = []
    for _ in range(n):
        first = rng.integers(0, 2, size=2)
        labels = first[np.arange(8) % 2]
        X.append([{"x": f"{label}{t}" if t < 2 else "rest"} for t, label in enumerate(labels)])
        y.append(labels.tolist())
    return X, y


@pytest.mark.parametrize("loss", ["hinge", "crf", "perceptron"])
@pytest.mark.parametrize("transitions", ["free", "regularized"])
def test_trigrams_learn_what_pairs_do_not_tell(loss, transitions, rng, reloaded):
    X, y = sequences(rng)
    settings = {
        "loss": loss,
        "transitions": transitions,
        "random_state": 0,
        "epochs": 10,
        "C": 10.0,
    }
    first = SequenceLabeler(**settings).fit(X[:40], y[:40])
    second = (
        SequenceLabeler(**settings)
        .set_params(transitions=Transitions(transitions, order=2))
        .fit(X[:40], y[:40])
    )
    assert second.score(X[40:], y[40:]) == 1.0 > first.score(X[40:], y[40:])
    assert second.trigrams_.shape == (2, 2, 2)
    assert not first.trigrams_.any()
    again = reloaded(second)
    assert all(np.array_equal(a, b) for a, b in zip(again.predict(X), second.predict(X)))
    assert np.array_equal(again.trigrams_, second.trigrams_)
    if loss == "crf":
        for row in second.predict_marginals(X[:3]):
            assert_allclose(row.sum(axis=1), 1.0)


def test_a_chain_is_copied_and_sent_as_any_other_object():
    again = pickle.loads(pickle.dumps(copy.deepcopy(Chain(3, order=2))))
    potentials = potentials_of(0, 4, 3, "second order")
    assert np.array_equal(again.decode(potentials), Chain(3, order=2).decode(potentials))


scores = st.lists(st.floats(-30, 30), min_size=1, max_size=6).map(np.array)


@given(z=scores)
def test_softmax_is_scipys(z):
    log_partition, marginals = Multiclass(len(z)).marginals(z)
    assert_allclose(log_partition, logsumexp(z), atol=1e-12)
    assert_allclose(marginals.unary[0], softmax(z), atol=1e-12)


@given(z=scores, gold=st.integers(0, 5))
def test_decoding_takes_the_first_of_the_best(z, gold):
    gold = gold % len(z)
    structure = Multiclass(len(z))
    assert structure.decode(z) == int(np.argmax(z))
    assert structure.loss_augmented(z, gold) == int(np.argmax(z + (np.arange(len(z)) != gold)))


def test_a_cost_matrix_weighs_mistakes():
    structure = Multiclass(3, costs=[[0, 5, 1], [1, 0, 1], [1, 1, 0]])
    assert structure.loss_augmented([0.0, 0.0, 3.0], 0) == 1
    assert structure.cost(0, 1) == 5


@given(z=st.floats(-20, 20), gold=st.integers(0, 1))
def test_binary_is_the_two_class_problem_with_opposite_scores(z, gold):
    binary = Binary()
    multiclass = Multiclass(2)
    one = np.array([z])
    two = np.array([-z / 2, z / 2])
    assert binary.decode(one) == multiclass.decode(two)
    for loss in (StructuredHinge(), CRF()):
        value, gradient = loss.value_and_gradient(binary, one, gold)
        expected, expected_gradient = loss.value_and_gradient(multiclass, two, gold)
        assert_allclose(value, expected, atol=1e-12)
        if gradient is None:
            assert expected_gradient is None
        else:
            # dL/dz = (dL/ds_1 - dL/ds_0) / 2
            slope = (expected_gradient.unary[0, 1] - expected_gradient.unary[0, 0]) / 2
            assert_allclose(gradient.unary[0, 0], slope, atol=1e-12)
    assert_allclose(
        binary.score(one, gold),
        multiclass.score(two, gold),
    )
    assert_allclose(
        binary.indicator(gold).unary[0, 0] * z,
        binary.score(one, gold),
    )


@pytest.mark.parametrize("y", [-1, 1])
@pytest.mark.parametrize("z", [-3.0, -0.2, 0.0, 0.7, 1.0, 5.0])
def test_binary_losses_are_the_textbook_ones(y, z):
    gold = (y + 1) // 2
    hinge, _ = StructuredHinge().value_and_gradient(
        Binary(),
        np.array([z]),
        gold,
    )
    assert_allclose(hinge, max(0.0, 1 - y * z))
    logistic, gradient = CRF().value_and_gradient(
        Binary(),
        np.array([z]),
        gold,
    )
    assert_allclose(logistic, np.log1p(np.exp(-y * z)))
    assert_allclose(
        gradient.unary[0, 0],
        -y / (1 + np.exp(y * z)),
    )


def test_multiclass_crf_is_log_loss():
    z = np.array([0.3, -1.0, 2.0])
    value, gradient = CRF().value_and_gradient(Multiclass(3), z, 1)
    assert_allclose(value, -log_softmax(z)[1])
    assert_allclose(gradient.unary[0], softmax(z) - np.eye(3)[1])


limited = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(1, 5),
    "n_labels": st.integers(1, 4),
    "kind": st.sampled_from(["shared", "by position", "none"]),
}


def limited_chain(kind, n_labels, **options):
    return Chain(n_labels, by_position=kind == "by position", linked=kind != "none", **options)


def example(seed, n, kind, n_labels, **options):
    """Draw a chain with constraints, potentials, all outputs that meet them, and a partial gold."""
    rng = np.random.default_rng(seed)
    allowed = AllowedTransitions(
        rng.random((n_labels, n_labels)) < 0.7,
        rng.random(n_labels) < 0.8,
        rng.random(n_labels) < 0.8,
    )
    chain = limited_chain(kind, n_labels, allowed=allowed, **options)
    shapes = chain.zeros(n)
    potentials = ChainPotentials(
        rng.normal(size=shapes.unary.shape), rng.normal(size=shapes.pairwise.shape)
    )
    outputs = [np.array(labels) for labels in allowed_labellings(allowed, n, n_labels)]
    return chain, potentials, outputs, rng.integers(-1, n_labels, size=n)


@given(**limited)
def test_decoding_and_marginals_stay_within_what_is_allowed(seed, n, n_labels, kind):
    chain, potentials, outputs, gold = example(seed, n, kind, n_labels)
    if not outputs:
        if kind != "none" or n > 1:
            with pytest.raises(InputError, match="contradict"):
                chain.marginals(potentials)
        return
    scores = np.array([chain.score(potentials, output) for output in outputs])
    assert_array_equal(chain.decode(potentials), outputs[np.argmax(scores)])
    costs = np.array([chain.cost(gold, output) for output in outputs])
    rival = outputs[np.argmax(scores + 1.5 * costs)]
    assert_array_equal(chain.loss_augmented(potentials, gold, 1.5), rival)
    assert_allclose(costs, [np.sum((output != gold) & (gold >= 0)) for output in outputs])
    log_partition, marginals = chain.marginals(potentials)
    assert_allclose(log_partition, logsumexp(scores), atol=1e-9)
    expected = chain.zeros(n)
    for output, score in zip(outputs, scores):
        for total, counts in zip(expected, chain.indicator(output)):
            total += np.exp(score - log_partition) * counts
    assert_allclose(marginals.unary, expected.unary, atol=1e-9)
    if kind != "none":
        assert_allclose(marginals.pairwise, expected.pairwise, atol=1e-9)


@given(**limited, n_best=st.integers(1, 40))
def test_the_best_labellings_come_in_the_order_of_their_scores(seed, n, n_labels, kind, n_best):
    chain, potentials, outputs, _ = example(seed, n, kind, n_labels)
    labels, scores = chain.decode_best(potentials, n_best)
    expected = sorted((chain.score(potentials, output) for output in outputs), reverse=True)
    assert_allclose(scores, expected[:n_best], atol=1e-9)
    assert_allclose(
        [chain.score(potentials, labelling) for labelling in labels],
        scores,
        atol=1e-9,
    )
    decoded = set(map(tuple, labels))
    assert len(decoded) == len(labels)
    assert decoded <= set(map(tuple, outputs))
    if len(labels):
        assert_array_equal(labels[0], chain.decode(potentials))


@given(**limited)
def test_potentials_that_agree_forbid_what_does_not(seed, n, n_labels, kind):
    chain, potentials, outputs, gold = example(seed, n, kind, n_labels)
    agreeing = [output for output in outputs if np.all((output == gold) | (gold < 0))]
    as_sets = np.array([[g in (-1, k) for k in range(n_labels)] for g in gold])
    for constraint in (gold, as_sets):
        labels, scores = chain.decode_best(chain.agreeing(potentials, constraint), len(outputs) + 1)
        assert set(map(tuple, labels)) == set(map(tuple, agreeing))
        expected = [chain.score(potentials, labelling) for labelling in labels]
        assert_allclose(scores, expected, atol=1e-9)


@pytest.mark.parametrize(
    "loss", [StructuredHinge(), StructuredHinge(2.0), Perceptron(), CRF()], ids=str
)
@given(**limited)
def test_losses_of_partial_annotation_by_enumeration(loss, seed, n, n_labels, kind):
    chain, potentials, outputs, gold = example(seed, n, kind, n_labels)
    scores = np.array([chain.score(potentials, output) for output in outputs])
    agrees = np.array([np.all((output == gold) | (gold < 0)) for output in outputs], dtype=bool)
    if not agrees.any():
        return
    value, gradient = loss.value_and_gradient(chain, potentials, gold)
    if isinstance(loss, CRF):
        assert_allclose(
            value,
            logsumexp(scores) - logsumexp(scores[agrees]),
            atol=1e-9,
        )
    else:
        weight = getattr(loss, "cost_weight", 0.0)
        costs = weight * np.array([chain.cost(gold, output) for output in outputs])
        assert_allclose(
            value,
            np.max(scores + costs) - np.max(scores[agrees]),
            atol=1e-9,
        )
    if gradient is not None:
        differences = unary_differences(loss, chain, potentials, gold)
        assert_allclose(gradient.unary, differences, atol=1e-5)


def unary_differences(loss, chain, potentials, gold, step=1e-6):
    """Return the derivatives of a loss in the unary potentials by central differences."""
    derivatives = np.zeros_like(potentials.unary)
    for place in np.ndindex(*derivatives.shape):
        values = []
        for move in (step, -step):
            unary = potentials.unary.copy()
            unary[place] += move
            moved = ChainPotentials(unary, potentials.pairwise)
            value, _ = loss.value_and_gradient(chain, moved, gold)
            values.append(value)
        derivatives[place] = (values[0] - values[1]) / (2 * step)
    return derivatives


def test_many_constrained_sequences_decode_as_one_by_one():
    rng = np.random.default_rng(3)
    chain = Chain(4, allowed=allowed_transitions("BIO", ["B-X", "I-X", "O", "B-Y"]))
    offsets = np.concatenate([[0, 3, 3], np.arange(4, 9)])
    potentials = ChainPotentials(
        rng.normal(size=(offsets[-1], 4)),
        rng.normal(size=(1, 4, 4)),
    )
    together = chain.decode_many(potentials, offsets)
    for low, high in pairwise(offsets):
        if high > low:
            assert_array_equal(
                together[low:high],
                chain.decode(chain.part(potentials, low, high)),
            )
    assert chain.allowed.first_violation(together, offsets) is None


# ---- what users say of transitions ---------------------------------------------------------------

BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def followers(allowed, labels):
    """Return the set of labels that may follow each label."""
    return {
        label: {labels[j] for j in np.flatnonzero(row)}
        for label, row in zip(labels, allowed.following)
    }


def test_bio_lets_an_inside_follow_only_its_own_chunk():
    allowed = allowed_transitions("BIO", BIO)
    following = followers(allowed, BIO)
    assert {label for label in BIO if "I-PER" in following[label]} == {"B-PER", "I-PER"}
    for label in BIO:
        assert following[label] >= {"O", "B-PER", "B-LOC"}
    assert [BIO[k] for k in np.flatnonzero(~allowed.first)] == ["I-PER", "I-LOC"]
    assert allowed.last.all()


@pytest.mark.parametrize(
    ("scheme", "labels"), [("BIO", "BIO"), ("BIOES", "BEIOS"), ("BILOU", "BILOU")]
)
def test_labels_without_types_are_of_one_type(scheme, labels):
    typed = [label if label == "O" else f"{label}-X" for label in labels]
    untyped = allowed_transitions(scheme, list(labels))
    for array, expected in zip(untyped, allowed_transitions(scheme, typed)):
        assert_array_equal(array, expected)
    for label in ("B-X", "B-", "O-"):
        with pytest.raises(InputError, match=f"label '{label}' is not in {scheme}"):
            allowed_transitions(scheme, [*labels, label])


@pytest.mark.parametrize(("name", "ends"), [("BIOES", "ES"), ("IOBES", "ES"), ("BILOU", "LU")])
def test_bioes_closes_what_it_opens(name, ends):
    end, single = ends
    labels = ["O", *(f"{kind}-{chunk}" for chunk in ("A", "B") for kind in f"BI{ends}")]
    allowed = allowed_transitions(name, labels)
    following = followers(allowed, labels)
    for opened in ("B-A", "I-A"):
        assert following[opened] == {"I-A", f"{end}-A"}
    starts = {"O", "B-A", "B-B", f"{single}-A", f"{single}-B"}
    for closed in ("O", f"{end}-A", f"{single}-A"):
        assert following[closed] == starts
    assert {labels[k] for k in np.flatnonzero(allowed.first)} == starts
    closing = {"O", f"{end}-A", f"{end}-B", f"{single}-A", f"{single}-B"}
    assert {labels[k] for k in np.flatnonzero(allowed.last)} == closing


def test_a_dict_says_what_may_follow_and_begin():
    allowed = allowed_transitions({"a": ["b"], None: ["a", "c"]}, ["a", "b", "c"])
    assert_array_equal(allowed.following, [[0, 1, 0], [1, 1, 1], [1, 1, 1]])
    assert_array_equal(allowed.first, [1, 0, 1])
    matrix = allowed_transitions(np.eye(3, dtype=bool), ["a", "b", "c"])
    assert_array_equal(matrix.following, np.eye(3))
    assert matrix.first.all()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("BIS", "Unknown transitions 'BIS'"),
        ("BIO", "label 'a' is not in BIO"),
        ({"x": ["a"]}, "name 'x'"),
        ({"a": ["x"]}, "name 'x'"),
        (np.eye(2), r"\(3, 3\) matrix"),
        (2 * np.eye(3), "True and False"),
        ([[1], [2, 3]], "must be"),
    ],
)
def test_transitions_that_make_no_sense_are_one_sentence(spec, message):
    with pytest.raises(InputError, match=message):
        allowed_transitions(spec, ["a", "b", "c"])


@pytest.mark.parametrize("order", [1, 2])
def test_an_indicator_is_subtracted_from_any_array(order):
    chain = Chain(3, order=order)
    labels = np.array([0, 2, 1, 1])
    expected = chain.indicator(labels)
    for unary in (np.ones((4, 3), order="F"), np.ones((4, 3), dtype=np.float32)):
        potentials = chain.zeros(4)._replace(unary=unary)
        chain.subtract_indicator(potentials, labels)
        assert_array_equal(potentials.unary, 1.0 - expected.unary)
        assert_array_equal(potentials.pairwise, -expected.pairwise)


@pytest.mark.parametrize("order", [1, 2])
def test_an_empty_sequence_has_one_labelling(order):
    chain = Chain(3, order=order)
    potentials = chain.zeros(0)
    assert len(chain.decode(potentials)) == 0
    log_partition, expected = chain.marginals(potentials)
    assert log_partition == 0.0
    assert len(expected.unary) == 0
