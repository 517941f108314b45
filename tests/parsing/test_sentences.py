"""Sentences from lists of words."""

import warnings
from pathlib import Path

import pytest

import omkl
from omkl.data import Sentence, synthetic_treebank, write_treebank
from omkl.exceptions import DataFileError, DataWarning, InputError


@pytest.fixture(scope="module")
def model():
    treebank = synthetic_treebank(60, random_state=0)
    return omkl.DependencyParser(["m.form distance", "h.form m.form"], epochs=1, random_state=0).fit(treebank)


def silently_parsed(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return [(sentence.forms, sentence.heads) for sentence in model.parse(X)]


def test_words_sentences_and_one_sentence_are_parsed_alike(model):
    words = [["A", "kutya"], ("ugat", "."), iter(["Hol", "?"])]
    parsed = silently_parsed(model, words)
    assert [forms for forms, _ in parsed] == [["A", "kutya"], ["ugat", "."], ["Hol", "?"]]
    assert all(heads.count(0) == 1 for _, heads in parsed)
    words[2] = ["Hol", "?"]
    made = [Sentence(forms=list(forms)) for forms in words]
    assert silently_parsed(model, made) == silently_parsed(model, (s for s in words)) == parsed
    assert silently_parsed(model, made[0]) == parsed[:1]
    assert silently_parsed(model, [made[0], words[1]]) == parsed[:2]


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (5, "Sentence 1 must be .* got int 5"),
        ({"form": "A"}, "Sentence 1 must be"),
        (["A", ["kutya"]], "Sentence 1 must be a list of words or a Sentence, got str 'A'"),
        ([["A", None]], "Sentence 1 must be"),
        ([["A"], 7], "Sentence 2 must be .* got int 7"),
        ([["A"], []], "Sentence 2 has no words"),
        ([["A", "\t"]], "Sentence 1, word 2"),
    ],
)
def test_other_input_is_refused(model, X, message):
    with pytest.raises(InputError, match=message):
        model.parse(X)


def test_paths_are_read_together(model, tmp_path):
    with pytest.raises(DataFileError, match="There is no file A kutya"):
        model.parse("A kutya ugat")
    path = tmp_path / "a.conllu"
    write_treebank(path, synthetic_treebank(5, random_state=0))
    assert len(model.parse([Path(path), str(path)])) == 10
