"""Probabilities and best few classes of rows on the command line are those of the model."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import omkl
from omkl.cli import main

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[Y]
MODELS = {
    "crf": omkl.OnlineMKLClassifier(["linear"], loss="crf", epochs=2, random_state=0).fit(X, NAMES),
    "hinge": omkl.OnlineMKLClassifier(["linear"], epochs=2, random_state=0).fit(X, NAMES),
    "two": omkl.OnlineMKLClassifier(["linear"], epochs=2, random_state=0).fit(X[:100], Y[:100]),
    "batch": omkl.MKLClassifier(["linear"], loss="logistic").fit(X, NAMES),
    "numbers": omkl.OnlineMKLRegressor(["linear"], epochs=2, random_state=0).fit(X, Y),
}


def predict(model, folder, *options):
    MODELS[model].save(folder / "m.npz")
    dump_svmlight_file(X, Y, str(folder / "x.svm"), zero_based=False)
    words = [str(folder / "m.npz"), str(folder / "x.svm"), *options, "--quiet"]
    text = main(["predict", *words, "-o", str(folder / "o.txt")]) or (folder / "o.txt").read_text()
    if isinstance(text, int):
        return text
    assert main(["predict", *words, "-o", str(folder / "o.jsonl")]) == 0
    return text.splitlines(), [json.loads(line) for line in (folder / "o.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("name", ["crf", "batch"])
def test_confidence_is_the_probability_of_the_class(name, tmp_path):
    lines, records = predict(name, tmp_path, "--confidence")
    expected = MODELS[name].predict_proba(X).max(axis=1)
    np.testing.assert_allclose([record["confidence"] for record in records], expected, atol=5.1e-4)
    assert [record["y"] for record in records] == MODELS[name].predict(X).tolist()
    assert lines == [f"{record['y']}\t{record['confidence']:.3f}" for record in records]


@pytest.mark.parametrize(("name", "n"), [("crf", 2), ("hinge", 3), ("hinge", 1), ("two", 2), ("batch", 9)])
def test_the_best_classes_come_with_their_scores(name, n, tmp_path):
    lines, records = predict(name, tmp_path, "--nbest", str(n))
    model = MODELS[name]
    scores = model.decision_function(X)
    scores = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    classes = model.classes_.tolist()
    assert [record["nbest"][0]["y"] for record in records] == model.predict(X).tolist()
    for record, line, own in zip(records, lines, scores):
        found = [(part["y"], part["score"]) for part in record["nbest"]]
        assert len(found) == min(n, len(classes))
        assert [score for _, score in found] == pytest.approx(sorted(own, reverse=True)[:n])
        assert all(own[classes.index(label)] == pytest.approx(score) for label, score in found)
        assert line == "\t".join(f"{label}\t{score:.6g}" for label, score in found)
