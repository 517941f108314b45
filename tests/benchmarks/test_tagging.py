"""Part-of-speech tagging by the features of words, and CRFsuite's averaged perceptron on them in the same run."""

import time

import numpy as np
import pycrfsuite
import pytest

from omkl import SequenceLabeler
from omkl.data import read_sequences
from omkl.features import token_features

EPOCHS = 10
SETTINGS = {
    "averaged perceptron": {
        "loss": "perceptron", "regularizer": None, "eta0": 1.0, "schedule": "constant", "average": "uniform",
    },
    "MKL over templates": {},
    "SVM": {"regularizer": "l2"},
    "CRF": {"loss": "crf", "regularizer": "l2", "C": 10.0},
}  # fmt: skip


@pytest.fixture(scope="module")
def corpus(real_data):
    folder = "ud/UD_English-EWT/en_ewt-ud-{}.conllu.gz"
    return [read_sequences(real_data(folder.format(part))) for part in ("train", "test")]


@pytest.fixture(scope="module")
def crfsuite(corpus, tmp_path_factory):
    """CPU seconds to take in the data, to train and to tag, and the accuracy."""
    (X, y), (X_test, y_test) = corpus
    model = str(tmp_path_factory.mktemp("crfsuite") / "model")
    clock = [time.process_time()]
    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    for x, labels in zip(X, y):
        trainer.append(token_features(x), labels)
    clock.append(time.process_time())
    trainer.set_params({"max_iterations": EPOCHS})
    trainer.train(model)
    clock.append(time.process_time())
    tagger = pycrfsuite.Tagger()
    tagger.open(model)
    tags, tag = quickest(lambda: [tagger.tag(token_features(x)) for x in X_test])
    append, train = np.diff(clock)
    one = milliseconds(lambda x: tagger.tag(token_features(x)), X_test)
    return {"append": append, "train": train, "tag": tag, "accuracy": accuracy(tags, y_test), "one": one}


def quickest(function, repeats=5):
    """What the function returns, and its CPU seconds when the machine disturbs it least."""
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        returned = function()
        seconds.append(time.process_time() - start)
    return returned, min(seconds)


def milliseconds(function, X):
    """What a sentence of 20 words takes, one at a time, in the median."""
    sentences = [x for x in X if len(x) == 20]
    seconds = []
    for x in sentences * 5:
        start = time.perf_counter()
        function(x)
        seconds.append(time.perf_counter() - start)
    return 1e3 * float(np.median(seconds))


def accuracy(predicted, gold):
    return np.mean([a == b for p, g in zip(predicted, gold) for a, b in zip(p, g)])


@pytest.mark.parametrize("name", SETTINGS)
def test_against_crfsuites_averaged_perceptron(benchmark, name, corpus, crfsuite):
    (X, y), (X_test, y_test) = corpus
    SequenceLabeler(epochs=1, verbose=False, **SETTINGS[name]).fit(X[:50], y[:50]).predict(X_test[:5])
    found = {}

    def run():
        start = time.process_time()
        labeler = SequenceLabeler(epochs=EPOCHS, random_state=0, verbose=False, **SETTINGS[name]).fit(X, y)
        found["fit"] = time.process_time() - start
        predicted, found["tag"] = quickest(lambda: labeler.predict(X_test))
        found["accuracy"] = accuracy(predicted, y_test)
        found["one"] = milliseconds(lambda x: labeler.predict([x]), X_test)

    benchmark.pedantic(run, rounds=1)
    n_tokens = sum(map(len, X_test))
    print(
        f"\n{name}: accuracy {found['accuracy']:.2%} (CRFsuite {crfsuite['accuracy']:.2%}); "
        f"fit {found['fit']:.2f} s CPU = {found['fit'] / crfsuite['train']:.2f} x CRFsuite's train "
        f"({crfsuite['train']:.2f} s), {found['fit'] / (crfsuite['append'] + crfsuite['train']):.2f} x with append; "
        f"tagging {n_tokens / found['tag'] / 1e3:.0f} k tokens/s = {crfsuite['tag'] / found['tag']:.2f} x CRFsuite's; "
        f"a sentence of 20 words in {found['one']:.3f} ms (CRFsuite, features included, {crfsuite['one']:.3f})"
    )
    benchmark.extra_info.update(found, **{f"crfsuite_{key}": value for key, value in crfsuite.items()})
