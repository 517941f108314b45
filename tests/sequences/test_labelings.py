"""Labelers with constraints, partial annotation, n best labellings, and calibrated probabilities."""

from itertools import pairwise, product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl.exceptions import InputError
from omkl.sequences.decoding import sequence_potentials

NAMES, PLACES = ["Ann", "Bob", "Cid", "Dee"], ["Rome", "Oslo", "Bonn"]


def chunked(rng, n=60):
    """Sentences with names of one or two words, labelled as chunks."""
    X, y = [], []
    for _ in range(n):
        words, labels = [], []
        for _ in range(rng.integers(1, 5)):
            kind = rng.integers(3)
            if kind == 2:
                words, labels = [*words, rng.choice(["saw", "left", "likes"])], [*labels, "O"]
            else:
                size = rng.integers(1, 3)
                words += list(rng.choice(NAMES if kind else PLACES, size))
                chunk = "PER" if kind else "LOC"
                labels += [f"B-{chunk}", *[f"I-{chunk}"] * (size - 1)]
        X.append(words)
        y.append(labels)
    return X, y


@pytest.fixture
def chunks(rng):
    return chunked(rng)


def breaks_bio(labels):
    pairs = zip(["O", *labels], labels)
    return any(b[0] == "I" and a[1:] != b[1:] for a, b in pairs)


@pytest.mark.parametrize("loss", ["hinge", "crf", "perceptron"])
@pytest.mark.parametrize("transitions", ["free", None])
def test_predictions_keep_to_the_scheme(chunks, rng, loss, transitions, reloaded):
    """Also with uninformative inputs, where a model without constraints violates the scheme."""
    _, y = chunks
    X = [rng.normal(size=(len(labels), 4)) for labels in y]
    strange = [rng.normal(size=(6, 4)) for _ in range(40)]
    settings = {"loss": loss, "epochs": 5, "random_state": 0}
    labeler = omkl.SequenceLabeler(
        "linear", transitions=transitions, allowed_transitions="BIO", regularizer="l2", **settings
    ).fit(X, y)
    predicted = labeler.predict(strange)
    assert not any(map(breaks_bio, predicted))
    without = omkl.SequenceLabeler("linear", transitions=None, regularizer="l2", **settings).fit(X, y)
    assert any(map(breaks_bio, without.predict(strange)))
    for own, other in zip(predicted, reloaded(labeler).predict(strange)):
        assert_array_equal(own, other)


@pytest.mark.parametrize(
    ("allowed", "labels", "message"),
    [
        ("BIO", ["I-X", "O", "O"], "token 0 of sequence 1"),
        ("BIO", ["B-X", "O", "I-X"], "token 2 of sequence 1"),
        ("BIO", [None, "O", "I-X"], "token 2 of sequence 1"),
        ("BIO", ["DET"] * 3, "DET"),
        ("BIOES", ["O", "O", "B-X"], "sequence"),
        ("IOX", ["O", "O", "O"], "IOX"),
        ({"B-X": ["I-X"], "I-X": ["I-X", "O"]}, ["B-X", None, "I-Y"], "sequence 1"),
    ],
)
def test_training_labels_that_break_transitions_are_refused(allowed, labels, message):
    with pytest.raises(InputError, match=f"(?i){message}"):
        omkl.SequenceLabeler(allowed_transitions=allowed).fit([["a", "b", "c"]] * 2, [["B-X", "I-X", "O"], labels])


def test_given_labels_are_kept_and_the_others_are_the_best(chunks):
    X, y = chunks
    labeler = omkl.SequenceLabeler(epochs=5, allowed_transitions="BIO", random_state=0).fit(X, y)
    K, x = len(labeler.classes_), ["Ann", "saw", "Rome", "Oslo"]
    potentials = next(sequence_potentials(labeler.model_, [x]))
    chain = labeler.structure_
    for forced in ([None, "B-PER", None, "O"], [{"O", "B-LOC"}, None, {"O"}, None], [None] * 4, ["O", "O", "O", "O"]):
        sets = [set(labeler.classes_) if f is None else f if isinstance(f, set) else {f} for f in forced]
        allowed = [
            np.array(codes)
            for codes in product(range(K), repeat=4)
            if all(labeler.classes_[c] in s for c, s in zip(codes, sets))
            and not breaks_bio(labeler.classes_[list(codes)])
        ]
        best = max(allowed, key=lambda codes: chain.score(potentials, codes))
        [found] = labeler.predict([x], labels=[forced])
        assert_array_equal(found, labeler.classes_[best])
        [several] = labeler.predict_nbest([x], 3, labels=[forced])
        scores = sorted((chain.score(potentials, codes) for codes in allowed), reverse=True)
        assert_allclose([own.score for own in several], scores[:3])
        assert_array_equal(several[0].labels, found)
    together = labeler.predict([x, ["Bob"], []], labels=[[None] * 4, ["B-LOC"], []])
    assert [list(labels) for labels in together[1:]] == [["B-LOC"], []]


def test_constraints_that_contradict_are_refused(chunks):
    labeler = omkl.SequenceLabeler(epochs=2, allowed_transitions="BIO", random_state=0).fit(*chunks)
    for method in (labeler.predict, labeler.predict_nbest):
        with pytest.raises(InputError, match="Sequence 1 has no labelling"):
            method([["a"], ["Ann", "saw"]], labels=[[None], ["O", "I-PER"]])
    for X, labels in (([["a"]], [["XYZ"]]), ([["a"]], [["O", "O"]]), (omkl.data.Stream.from_arrays([["a"]]), [["O"]])):
        with pytest.raises(InputError):
            labeler.predict(X, labels=labels)


def test_the_best_labellings_come_in_order(chunks):
    X, y = chunks
    labeler = omkl.SequenceLabeler(epochs=3, random_state=0).fit(X, y)
    best = labeler.predict(X)
    for x, found, first in zip(X, labeler.predict_nbest(X, 4), best):
        assert_array_equal(found[0].labels, first)
        assert len(found) == 4
        assert all(a.score >= b.score for a, b in pairwise(found))
        assert all(len(own.labels) == len(x) for own in found)
    assert [len(found) for found in labeler.predict_nbest([["a"], []], 99)] == [len(labeler.classes_), 1]
    assert len(labeler.predict_nbest(omkl.data.Stream.from_arrays(X), 2)) == len(X)
    with pytest.raises(InputError):
        labeler.predict_nbest(X, 0)


@pytest.mark.parametrize("loss", ["hinge", "crf", "perceptron"])
def test_none_is_an_unknown_label_and_no_class(rng, loss):
    """Removing a third of the labels costs little; sequences without labels change nothing."""
    X, y = chunked(rng, 200)
    partial = [[label if rng.random() < 0.67 else None for label in labels] for labels in y]
    settings = {"loss": loss, "epochs": 5, "random_state": 0, "allowed_transitions": "BIO"}
    whole = omkl.SequenceLabeler(**settings).fit(X[:150], y[:150]).score(X[150:], y[150:])
    labeler = omkl.SequenceLabeler(**settings).fit(X[:150], partial[:150])
    assert None not in labeler.classes_
    assert labeler.score(X[150:], y[150:]) > whole - 0.06
    assert labeler.score(X[150:], partial[150:]) > whole - 0.06
    balanced = omkl.SequenceLabeler(**settings, class_weight="balanced").fit(X[:150], partial[:150])
    assert balanced.score(X[150:], y[150:]) > whole - 0.1
    stopped = omkl.SequenceLabeler(**settings, early_stopping=True).fit(X, partial)
    assert stopped.score(X, y) > whole - 0.06
    growing = omkl.SequenceLabeler(loss=loss, random_state=0)
    growing.partial_fit(X[:50], partial[:50], classes="growing").partial_fit(X[50:], partial[50:])
    assert growing.score(X, y) > whole - 0.15


def test_none_without_any_label_is_refused():
    labeler = omkl.SequenceLabeler(epochs=1).fit([["a", "b"]], [["A", "B"]])
    for call in (labeler.score, labeler.calibrate, labeler.evaluate, omkl.SequenceLabeler().fit):
        with pytest.raises(InputError):
            call([["a"]], [[None]])


def noisy(rng, n):
    """Draw two overlapping labels that tend to repeat."""
    X, y = [], []
    for _ in range(n):
        labels = np.cumsum(rng.random(rng.integers(2, 8)) < 0.2) % 2
        X.append((2 * labels - 1 + 1.5 * rng.normal(size=len(labels)))[:, None] * [[1.0, 0.0]] + [[0.0, 1.0]])
        y.append(labels.tolist())
    return X, y


def log_loss(labeler, X, y):
    marginals = np.concatenate(labeler.predict_marginals(X))
    return -np.log(marginals[np.arange(len(marginals)), np.concatenate(y)]).mean()


def test_a_margin_model_is_calibrated_on_held_out_data(rng, reloaded):
    (X, y), (X_test, y_test) = noisy(rng, 400), noisy(rng, 400)
    labeler = omkl.SequenceLabeler("linear", C=20.0, epochs=5, random_state=0).fit(X, y)
    with pytest.raises(AttributeError) as error:
        labeler.predict_marginals(X)
    assert "after calibrate" in str(error.value.__cause__)
    before = labeler.predict(X_test)
    labeler.calibrate(X_test[:200], y_test[:200])
    marginals = labeler.predict_marginals(X_test[200:])
    assert all(np.allclose(own.sum(axis=1), 1.0) for own in marginals)
    # of labels with probability about p, a fraction of about p is correct
    p, hit = np.concatenate(marginals)[:, 1], np.concatenate(y_test[200:]) == 1
    for low in np.arange(0.1, 0.9, 0.2):
        inside = (p >= low) & (p < low + 0.2)
        assert abs(p[inside].mean() - hit[inside].mean()) < 0.12
    labeler.calibrate([*X_test[:200], X[0]], [*y_test[:200], ["never seen"] * len(X[0])])
    found, best = labeler.temperature_, log_loss(labeler, X_test[:200], y_test[:200])
    for factor in (0.8, 1.25):
        labeler.temperature_ = factor * found
        assert log_loss(labeler, X_test[:200], y_test[:200]) > best
    labeler.temperature_ = found
    for own, other in zip(before, labeler.predict(X_test)):
        assert_array_equal(own, other)
    assert reloaded(labeler).temperature_ == found
    assert labeler.fit(X, y).temperature_ is None


def test_early_stopping_calibrates(rng):
    X, y = noisy(rng, 300)
    labeler = omkl.SequenceLabeler("linear", epochs=5, early_stopping=True, random_state=0).fit(X, y)
    assert labeler.temperature_ > 0
    assert log_loss(labeler, *noisy(rng, 200)) < 0.55
    crf = omkl.SequenceLabeler("linear", loss="crf", epochs=5, early_stopping=True, random_state=0).fit(X, y)
    assert crf.temperature_ is None
    assert len(crf.predict_marginals(X)) == 300
    labeler.set_params(early_stopping=False).partial_fit(X[:1], y[:1])
    assert labeler.temperature_ is None


def test_marginals_given_known_labels(rng):
    X, y = noisy(rng, 200)
    labeler = omkl.SequenceLabeler("linear", loss="crf", epochs=3, random_state=0).fit(X, y)
    x = X[0][:3]
    free, given = (labeler.predict_marginals([x], labels=labels)[0] for labels in (None, [[None, 1, None]]))
    potentials, chain = next(sequence_potentials(labeler.model_, [x])), labeler.structure_
    total, expected = 0.0, np.zeros((3, 2))
    for a, c in product(range(2), repeat=2):
        weight = np.exp(chain.score(potentials, np.array([a, 1, c])))
        total += weight
        expected[[0, 1, 2], [a, 1, c]] += weight
    assert_allclose(given, expected / total)
    assert not np.allclose(free, given)
