"""Part-of-speech tagging, against CRFsuite on the same features in the same run."""

import numpy as np
import pytest

from omkl import SequenceLabeler
from omkl.data import read_sequences
from omkl.features import token_features
from tests.benchmarks.measuring import stream

EPOCHS = 10
PERCEPTRON = {
    "loss": "perceptron",
    "regularizer": None,
    "average": "uniform",
    "learning_rate": "constant:eta0=1.0",
}
SETTINGS = {
    "perceptron": PERCEPTRON,
    "MKL": {},
    "SVM": {"regularizer": "l2"},
    "CRF": {"loss": "crf", "regularizer": "l2", "C": 10.0},
}


@pytest.fixture(scope="module")
def corpus(real_data):
    folder = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
    return [read_sequences(real_data(folder.format(part))) for part in ("train", "test")]


def crfsuite(X, y, path, in_advance=False):
    """Train CRFsuite's averaged perceptron; making features and loading data are timed, or done
    before.
    """
    import pycrfsuite

    def taken_in():
        trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
        for x, labels in zip(X, y):
            trainer.append(token_features(x), labels)
        trainer.set_params({"max_iterations": EPOCHS})
        return trainer

    if in_advance:
        trainer = taken_in()
        return lambda: trainer.train(str(path))
    return lambda: taken_in().train(str(path))


def accuracy(predicted, gold):
    return float(np.mean([a == b for p, g in zip(predicted, gold) for a, b in zip(p, g)]))


@pytest.mark.parametrize(
    "name", ["SVM", *(pytest.param(n, marks=pytest.mark.large) for n in SETTINGS if n != "SVM")]
)
def test_training(measure, corpus, name, tmp_path):
    (X, y), (X_test, y_test) = corpus
    if measure.quick:
        X, y = X[:3000], y[:3000]
    SequenceLabeler(epochs=1, verbose=False, **SETTINGS[name]).fit(X[:50], y[:50])
    peers = {
        "CRFsuite": lambda: crfsuite(X, y, tmp_path / "whole"),
        "CRFsuite without reading": lambda: crfsuite(X, y, tmp_path / "alone", in_advance=True),
    }
    found = []

    def fit():
        found.append(
            SequenceLabeler(epochs=EPOCHS, random_state=0, verbose=False, **SETTINGS[name]).fit(
                X, y
            )
        )

    # each epoch reads and changes the weights of 27 templates a token, one cache line each
    floor = stream(64 * 2 * 27 * EPOCHS * sum(map(len, X)))
    measure(fit, floor=floor, peers=peers, once=True)
    measure.note(accuracy=accuracy(found[0].predict(X_test), y_test))


def test_tagging(measure, corpus, tmp_path):
    (X, y), (X_test, _) = corpus
    X, y = X[:2000], y[:2000]
    labeler = SequenceLabeler(epochs=3, random_state=0, verbose=False).fit(X, y)

    def peer():
        import pycrfsuite

        crfsuite(X, y, tmp_path / "model")()
        tagger = pycrfsuite.Tagger()
        tagger.open(str(tmp_path / "model"))
        return lambda: [tagger.tag(token_features(x)) for x in X_test]

    floor = stream(64 * 27 * sum(map(len, X_test)))
    seconds = measure(lambda: labeler.predict(X_test), floor=floor, peers={"CRFsuite": peer})
    measure.note(tokens_a_second=sum(map(len, X_test)) / seconds)
