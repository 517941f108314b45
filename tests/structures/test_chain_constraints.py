"""Chains whose labellings are constrained, and the best of them one after the other, against enumeration."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from omkl.exceptions import InputError
from omkl.losses import CRF, Perceptron, StructuredHinge
from omkl.structures import AllowedTransitions, Chain, ChainPotentials, allowed_transitions

small = {
    "seed": st.integers(0, 10**6),
    "n": st.integers(1, 5),
    "n_labels": st.integers(1, 4),
    "kind": st.sampled_from(["shared", "by position", "none"]),
}


def chain_of(kind, n_labels, **options):
    return Chain(n_labels, by_position=kind == "by position", linked=kind != "none", **options)


def example(seed, n, kind, n_labels, **options):
    """A chain with random constraints, all of its labellings that meet them, and potentials."""
    rng = np.random.default_rng(seed)
    allowed = AllowedTransitions(
        rng.random((n_labels, n_labels)) < 0.7, rng.random(n_labels) < 0.8, rng.random(n_labels) < 0.8
    )
    chain = chain_of(kind, n_labels, allowed=allowed, **options)
    shapes = chain.zeros(n)
    potentials = ChainPotentials(rng.normal(size=shapes.unary.shape), rng.normal(size=shapes.pairwise.shape))
    outputs = [
        np.array(labels)
        for labels in product(range(n_labels), repeat=n)
        if allowed.first[labels[0]]
        and allowed.last[labels[-1]]
        and all(allowed.following[pair] for pair in pairwise(labels))
    ]
    return chain, potentials, outputs, rng.integers(-1, n_labels, size=n)


def log_sum(scores):
    return np.max(scores) + np.log(np.exp(scores - np.max(scores)).sum())


@given(**small)
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
    assert_array_equal(chain.loss_augmented(potentials, gold, 1.5), outputs[np.argmax(scores + 1.5 * costs)])
    assert_allclose(costs, [np.sum((output != gold) & (gold >= 0)) for output in outputs])
    log_partition, marginals = chain.marginals(potentials)
    assert_allclose(log_partition, log_sum(scores), atol=1e-9)
    expected = chain.zeros(n)
    for output, score in zip(outputs, scores):
        for total, own in zip(expected, chain.indicator(output)):
            total += np.exp(score - log_partition) * own
    assert_allclose(marginals.unary, expected.unary, atol=1e-9)
    if kind != "none":
        assert_allclose(marginals.pairwise, expected.pairwise, atol=1e-9)


@given(**small, n_best=st.integers(1, 40))
def test_the_best_labellings_come_in_the_order_of_their_scores(seed, n, n_labels, kind, n_best):
    chain, potentials, outputs, _ = example(seed, n, kind, n_labels)
    labels, scores = chain.decode_best(potentials, n_best)
    expected = sorted((chain.score(potentials, output) for output in outputs), reverse=True)[:n_best]
    assert_allclose(scores, expected, atol=1e-9)
    assert_allclose([chain.score(potentials, own) for own in labels], scores, atol=1e-9)
    assert len({tuple(own) for own in labels}) == len(labels)
    assert {tuple(own) for own in labels} <= {tuple(output) for output in outputs}
    if len(labels):
        assert_array_equal(labels[0], chain.decode(potentials))


@given(**small)
def test_potentials_that_agree_forbid_what_does_not(seed, n, n_labels, kind):
    chain, potentials, outputs, gold = example(seed, n, kind, n_labels)
    agreeing = [output for output in outputs if np.all((output == gold) | (gold < 0))]
    as_sets = np.array([[g in (-1, k) for k in range(n_labels)] for g in gold])
    for constraint in (gold, as_sets):
        labels, scores = chain.decode_best(chain.agreeing(potentials, constraint), len(outputs) + 1)
        assert {tuple(own) for own in labels} == {tuple(output) for output in agreeing}
        assert_allclose([chain.score(potentials, own) for own in labels], scores, atol=1e-9)


@pytest.mark.parametrize("loss", [StructuredHinge(), StructuredHinge(2.0), Perceptron(), CRF()], ids=str)
@given(**small)
def test_losses_of_partial_annotation_by_enumeration(loss, seed, n, n_labels, kind):
    chain, potentials, outputs, gold = example(seed, n, kind, n_labels)
    scores = np.array([chain.score(potentials, output) for output in outputs])
    agrees = np.array([np.all((output == gold) | (gold < 0)) for output in outputs], dtype=bool)
    if not agrees.any():
        return
    value, gradient = loss.value_and_gradient(chain, potentials, gold)
    if isinstance(loss, CRF):
        assert_allclose(value, log_sum(scores) - log_sum(scores[agrees]), atol=1e-9)
    else:
        costs = getattr(loss, "cost_weight", 0.0) * np.array([chain.cost(gold, output) for output in outputs])
        assert_allclose(value, np.max(scores + costs) - np.max(scores[agrees]), atol=1e-9)
    if gradient is not None:
        step, numeric = 1e-6, np.zeros_like(potentials.unary)
        for at in np.ndindex(*numeric.shape):
            moved = [ChainPotentials(potentials.unary.copy(), potentials.pairwise) for _ in range(2)]
            for sign, own in zip((1, -1), moved):
                own.unary[at] += sign * step
            up, down = (loss.value_and_gradient(chain, own, gold)[0] for own in moved)
            numeric[at] = (up - down) / (2 * step)
        assert_allclose(gradient.unary, numeric, atol=1e-5)


def test_many_constrained_sequences_decode_as_one_by_one():
    rng = np.random.default_rng(3)
    chain = Chain(4, allowed=allowed_transitions("BIO", ["B-X", "I-X", "O", "B-Y"]))
    offsets = np.array([0, 3, 3, 4, 9])
    potentials = ChainPotentials(rng.normal(size=(9, 4)), rng.normal(size=(1, 4, 4)))
    together = chain.decode_many(potentials, offsets)
    for low, high in ((0, 3), (3, 4), (4, 9)):
        assert_array_equal(together[low:high], chain.decode(chain.part(potentials, low, high)))
    assert chain.allowed.first_violation(together, offsets) is None


# ---- what users say of transitions --------------------------------------------------------------------------------

BIO = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]


def names(allowed, labels):
    return {(labels[i], labels[j]) for i, j in np.argwhere(allowed.following)}


def test_bio_lets_an_inside_follow_only_its_own_chunk():
    allowed = allowed_transitions("BIO", BIO)
    assert [a for a, b in names(allowed, BIO) if b == "I-PER"] in (["B-PER", "I-PER"], ["I-PER", "B-PER"])
    assert all((a, b) in names(allowed, BIO) for a in BIO for b in ("O", "B-PER", "B-LOC"))
    assert [BIO[k] for k in np.flatnonzero(~allowed.first)] == ["I-PER", "I-LOC"]
    assert allowed.last.all()


@pytest.mark.parametrize(("name", "ends"), [("BIOES", "ES"), ("IOBES", "ES"), ("BILOU", "LU")])
def test_bioes_closes_what_it_opens(name, ends):
    end, single = ends
    labels = ["O", *(f"{kind}-{chunk}" for chunk in ("A", "B") for kind in f"BI{ends}")]
    allowed = allowed_transitions(name, labels)
    found = names(allowed, labels)
    assert {b for a, b in found if a == "B-A"} == {"I-A", f"{end}-A"} == {b for a, b in found if a == "I-A"}
    starts = {"O", "B-A", "B-B", f"{single}-A", f"{single}-B"}
    for closed in ("O", f"{end}-A", f"{single}-A"):
        assert {b for a, b in found if a == closed} == starts
    assert {labels[k] for k in np.flatnonzero(allowed.first)} == starts
    assert {labels[k] for k in np.flatnonzero(allowed.last)} == {"O", *(f"{k}-{c}" for k in ends for c in "AB")}


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
        ({"x": ["a"]}, "names 'x'"),
        ({"a": ["x"]}, "names 'x'"),
        (np.eye(2), r"\(3, 3\) matrix"),
        (2 * np.eye(3), "True and False"),
        ([[1], [2, 3]], "must be"),
    ],
)
def test_transitions_that_make_no_sense_are_one_sentence(spec, message):
    with pytest.raises(InputError, match=message):
        allowed_transitions(spec, ["a", "b", "c"])
