"""Scores of labels and entities equal those of scikit-learn and seqeval; errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support

import omkl
from omkl import evaluate_labels
from omkl.exceptions import InputError

BIO = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-a-b", "I-a-b")
BIOES = (*BIO, "E-PER", "S-PER", "E-LOC", "S-LOC")
BILOU = ("O", "B-PER", "I-PER", "L-PER", "U-PER", "B-LOC", "L-LOC", "I-LOC")


def labels_of(alphabet):
    """Gold and predicted labels of a few sequences."""
    pair = st.tuples(st.sampled_from(alphabet), st.sampled_from(alphabet))
    return st.lists(st.lists(pair, min_size=1, max_size=8), min_size=1, max_size=4)


def sides(sequences):
    return [[[pair[side] for pair in sequence] for sequence in sequences] for side in (0, 1)]


@settings(max_examples=200, deadline=None)
@given(st.one_of(labels_of(BIO), labels_of(BIOES)))
def test_entities_are_those_of_seqeval(sequences):
    metrics = pytest.importorskip("seqeval.metrics")
    gold, predicted = sides(sequences)
    found = evaluate_labels(gold, predicted)
    if found["entities"] is None:  # seqeval knows labels without any entity
        assert {label for labels in gold + predicted for label in labels} == {"O"}
        return
    for name in ("precision", "recall", "f1"):
        assert found[f"entity_{name}"] == pytest.approx(
            getattr(metrics, f"{name}_score")(gold, predicted, zero_division=0)
        )
    report = metrics.classification_report(gold, predicted, output_dict=True, zero_division=0)
    for row in found["entities"]:
        assert row["f1"] == pytest.approx(report[row["type"]]["f1-score"])
        assert row["gold"] == report[row["type"]]["support"]


@settings(max_examples=200, deadline=None)
@pytest.mark.parametrize(
    ("scheme", "name", "alphabet"), [("BIO", "IOB2", BIO), ("BIOES", "IOBES", BIOES), ("BIOES", "BILOU", BILOU)]
)
@given(data=st.data())
def test_entities_of_a_scheme_are_those_of_the_strict_mode(scheme, name, alphabet, data):
    metrics, schemes = pytest.importorskip("seqeval.metrics"), pytest.importorskip("seqeval.scheme")
    gold, predicted = sides(data.draw(labels_of(alphabet)))
    if {label for labels in gold + predicted for label in labels} == {"O"}:
        return
    found = evaluate_labels(gold, predicted, scheme=scheme)
    strict = {"mode": "strict", "scheme": getattr(schemes, name)}
    for measure in ("precision", "recall", "f1"):
        expected = getattr(metrics, f"{measure}_score")(gold, predicted, zero_division=0, **strict)
        assert found[f"entity_{measure}"] == pytest.approx(expected)


@settings(max_examples=50, deadline=None)
@given(labels_of(("NOUN", "VERB", 3, ("a", "tuple"), "B-PER")))
def test_labels_have_the_scores_of_scikit_learn(sequences):
    gold, predicted = sides(sequences)
    found = evaluate_labels(gold, predicted)
    flat = [[str(label) for labels in side for label in labels] for side in (gold, predicted)]
    assert found["accuracy"] == pytest.approx(accuracy_score(*flat))
    labels = [str(row["label"]) for row in found["labels"]]
    assert sorted(labels) == sorted(set(flat[0] + flat[1]))
    expected = np.array(precision_recall_fscore_support(*flat, labels=labels, zero_division=0))
    rows = np.array([[row[name] for name in ("precision", "recall", "f1", "gold")] for row in found["labels"]])
    assert pytest.approx(expected) == rows.T
    whole = [g == p for g, p in zip(gold, predicted)]
    assert found["sequence_accuracy"] == pytest.approx(np.mean(whole))


@pytest.mark.parametrize(
    ("gold", "predicted", "scheme"),
    [
        ([["A"], ["B"]], [["A"]], None),
        ([["A"], ["B"]], [["A"], ["B", "B"]], None),
        ([], [], None),
        ([["NOUN"]], [["NOUN"]], "BIO"),
        ([["O"]], [["O"]], "IOB2"),
    ],
)
def test_labels_that_do_not_fit_are_refused(gold, predicted, scheme):
    with pytest.raises(InputError):
        evaluate_labels(gold, predicted, scheme=scheme)


def test_a_labeler_is_evaluated_on_lists_and_on_streams():
    rng = np.random.default_rng(0)
    words = [[rng.choice(["Ann", "Bob", "Ghent", "runs"]) for _ in range(5)] for _ in range(40)]
    marks = {"Ann": "B-PER", "Bob": "B-PER", "Ghent": "B-LOC", "runs": "O"}
    X = [[{"word": word} for word in sentence] for sentence in words]
    y = [[marks[word] if rng.random() < 0.9 else "O" for word in sentence] for sentence in words]
    labeler = omkl.SequenceLabeler(epochs=2, random_state=0).fit(X, y)
    found = labeler.evaluate(X, y)
    assert found == evaluate_labels(y, labeler.predict(X))
    assert found["accuracy"] == labeler.score(X, y)
    assert 0.5 < found["entity_f1"] < 1.0
    assert labeler.evaluate(iter(zip(X, y))) == found
    assert labeler.evaluate(X, y, scheme="BIO")["entity_f1"] == found["entity_f1"]
