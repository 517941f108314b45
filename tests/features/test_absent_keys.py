"""Warnings about keys of training tokens that the input of predictions lacks."""

import warnings
from itertools import chain

import numpy as np
import pytest

import omkl
from omkl.exceptions import DataWarning

RNG = np.random.default_rng(0)
TOKENS = []
for _ in range(60):
    TOKENS.append([{"word": f"w{i}", "postag": f"t{i % 5}"} for i in RNG.integers(50, size=8)])
LABELS = [[token["postag"] for token in x] for x in TOKENS]
WORDS = [[token["word"] for token in x] for x in TOKENS]
RENAMED = [[{"word": token["word"], "pos": token["postag"]} for token in x] for x in TOKENS]
LISTS = [[[f"word={token['word']}", f"postag={token['postag']}"] for token in x] for x in TOKENS]
ROWS = list(chain.from_iterable(TOKENS))
RENAMED_ROWS = list(chain.from_iterable(RENAMED))
ROW_LABELS = list(chain.from_iterable(LABELS))


def labeler(X):
    return omkl.SequenceLabeler(epochs=2, random_state=0).fit(X, LABELS)


@pytest.mark.parametrize(
    ("X", "without_tags"),
    [(TOKENS, RENAMED), (LISTS, [[token[:1] for token in x] for x in LISTS])],
)
def test_absent_keys_are_named_once_a_call(X, without_tags, tmp_path):
    model = labeler(X)
    model.save(tmp_path / "model.npz")
    message = "no 'postag', from which the model has learned"
    for candidate in (model, omkl.load(tmp_path / "model.npz")):
        with pytest.warns(DataWarning, match=message) as caught:
            candidate.predict(without_tags)
        assert len(caught) == 1
        for method in (candidate.score, candidate.evaluate):
            with pytest.warns(DataWarning, match=message) as caught:
                method(without_tags, LABELS)
            assert len(caught) == 1


def test_words_and_dicts_are_compared():
    dicts = [[{"word": word} for word in x] for x in WORDS]
    with pytest.warns(DataWarning, match="no 'lower', 'prefix"):
        labeler(WORDS).predict(dicts)
    with pytest.warns(DataWarning, match="no 'postag'"):
        labeler(TOKENS).predict(WORDS)


def test_absence_by_chance_is_no_reason_to_warn():
    rare = [[dict(token, rare="yes") for token in TOKENS[0]], *TOKENS[1:]]
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
