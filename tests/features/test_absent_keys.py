"""Warnings about keys of training tokens that the input of predictions lacks."""

import warnings
from itertools import chain

import numpy as np
import pytest

import omkl
from omkl.exceptions import DataWarning

RNG = np.random.default_rng(0)
TOKENS = [
    [{"word": f"w{i}", "postag": f"t{i % 5}"} for i in RNG.integers(50, size=8)] for _ in range(60)
]
LABELS = [[token["postag"] for token in x] for x in TOKENS]
WORDS = [[token["word"] for token in x] for x in TOKENS]
RENAMED = [[{"word": token["word"], "pos": token["postag"]} for token in x] for x in TOKENS]
ATTRIBUTES = [
    [[f"word={token['word']}", f"postag={token['postag']}"] for token in x] for x in TOKENS
]
ROWS, RENAMED_ROWS, ROW_LABELS = (
    list(chain.from_iterable(own)) for own in (TOKENS, RENAMED, LABELS)
)


def labeler(X):
    return omkl.SequenceLabeler(epochs=2, random_state=0).fit(X, LABELS)


@pytest.mark.parametrize(
    ("trained", "given"),
    [(TOKENS, RENAMED), (ATTRIBUTES, [[token[:1] for token in x] for x in ATTRIBUTES])],
)
def test_absent_keys_are_named_once_a_call(trained, given, tmp_path):
    model = labeler(trained)
    model.save(tmp_path / "model.npz")
    for own in (model, omkl.load(tmp_path / "model.npz")):
        for call, arguments in (
            (own.predict, [given]),
            (own.score, [given, LABELS]),
            (own.evaluate, [given, LABELS]),
        ):
            with pytest.warns(
                DataWarning, match="no 'postag', from which the model has learned"
            ) as found:
                call(*arguments)
            assert len(found) == 1


def test_words_and_dicts_are_compared():
    dicts = [[{"word": word} for word in x] for x in WORDS]
    with pytest.warns(DataWarning, match="no 'lower', 'prefix"):
        labeler(WORDS).predict(dicts)
    with pytest.warns(DataWarning, match="no 'postag'"):
        labeler(TOKENS).predict(WORDS)


def test_absence_by_chance_is_no_reason_to_warn():
    rare = [
        [dict(token, rare="yes") if i == 0 else token for token in x] for i, x in enumerate(TOKENS)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        labeler(TOKENS).predict([RENAMED[0][:1]])
        labeler(rare).predict(TOKENS)
        labeler(WORDS).predict(WORDS)


def test_keys_without_weight_may_be_absent():
    useless = [[dict(token, constant="0", zero=0.0) for token in x] for x in TOKENS]
    model = labeler(useless)
    assert model.kernel_weights_["constant"] == model.kernel_weights_["zero"] == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model.predict(TOKENS)


def test_rows_and_frames():
    pd = pytest.importorskip("pandas")
    model = omkl.OnlineMKLClassifier(epochs=2, random_state=0).fit(ROWS, ROW_LABELS)
    with pytest.warns(DataWarning, match="no 'postag'"):
        model.predict(RENAMED_ROWS)
    frame = pd.DataFrame(ROWS)
    model = omkl.OnlineMKLClassifier(epochs=2, random_state=0).fit(frame, ROW_LABELS)
    with pytest.warns(DataWarning, match="no 'postag'"):
        model.predict(frame.assign(postag=None))
