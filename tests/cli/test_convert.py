"""``omkl convert``: converted files hold the same data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omkl
from omkl.cli import main
from omkl.data import read_sequences, synthetic_treebank, write_sequences, write_treebank
from omkl.exceptions import InputError

COLUMNS = "He PRP B-NP\nreckons\tVBZ   B-VP\n. . O\n\nthe DT B-NP\ndeficit NN I-NP\n"


@pytest.fixture
def columns(tmp_path):
    (tmp_path / "train.columns").write_text(COLUMNS)
    return tmp_path


def convert(*words):
    return main(["convert", *map(str, words), "--quiet"])


def test_columns_are_read_and_written(columns):
    X, y = read_sequences(columns / "train.columns")
    assert X[0][1] == {"c0": "reckons", "c1": "VBZ"}
    assert y == [["B-NP", "B-VP", "O"], ["B-NP", "I-NP"]]
    assert convert(columns / "train.columns", "-o", columns / "out.jsonl") == 0
    assert read_sequences(columns / "out.jsonl") == (X, y)
    assert convert(columns / "out.jsonl", "-o", columns / "again.columns") == 0
    assert read_sequences(columns / "again.columns") == (X, y)
    assert main(["train", "labeler", str(columns / "train.columns"), "-o", str(columns / "m.npz"), "--quiet"]) == 0


TEXT = st.text(st.characters(blacklist_characters="\t\n\r\0\1=", blacklist_categories=["Cs"]), min_size=1)
WEIGHTS = st.floats(allow_nan=False, allow_infinity=False)
ENTRIES = st.one_of(TEXT, st.dictionaries(st.one_of(TEXT, st.just("")), WEIGHTS, min_size=1))
TOKENS = st.dictionaries(TEXT, ENTRIES, max_size=4)


@given(st.lists(st.tuples(TOKENS, TEXT), min_size=1, max_size=4))
def test_attributes_are_read_as_they_were_written(tmp_path_factory, pairs):
    """Colons and backslashes in names, weights of any size: CRFsuite's escapes."""
    path = tmp_path_factory.getbasetemp() / "round.crfsuite"
    x, y = map(list, zip(*pairs))
    assert write_sequences(path, [(x, y)], "crfsuite") == (1, len(x))
    X, Y = read_sequences(path)
    whole = [{key: {v: 1.0} if isinstance(v, str) else v for key, v in token.items()} for token in x]
    assert ([whole], [y]) == (X, Y)


@pytest.mark.parametrize(
    ("format", "token", "label", "message"),
    [
        ("jsonl", {"n": float("nan")}, "A", "Out of range float"),
        ("crfsuite", {"n": float("inf")}, "A", "strings or finite numbers, got 'n'"),
        ("jsonl", {"n": {"a": "x"}}, "A", "expected"),
        ("crfsuite", {"n": {"a": "x"}}, "A", "strings or finite numbers"),
        ("jsonl", {"n": b"x"}, "A", "JSON does not hold"),
        ("crfsuite", {"n": "x"}, b"A", "JSON does not hold"),
        ("columns", {"n": "x"}, float("nan"), "Out of range float"),
        ("crfsuite", {"a=b": "x"}, "A", "name without = .*got 'a=b'"),
        ("columns", {"w": "-DOCSTART-"}, "A", "and not -DOCSTART-"),
        ("jsonl", {"w": "\ud800"}, "A", "surrogates not allowed"),
    ],
)
def test_values_that_cannot_be_read_back_are_refused(tmp_path, format, token, label, message):
    with pytest.raises(InputError, match=f"Sequence 1 cannot be written as {format}: .*{message}"):
        write_sequences(tmp_path / "out", [([token], [label])], format)


def test_words_without_a_tag_have_no_label(tmp_path, capsys):
    """The underscore of CoNLL-U is not a tag."""
    tags = ["DET", "NOUN", "_", "VERB"] * 5
    lines = [f"1\tthe\t_\t{tags[i]}\t_\t_\t0\t_\t_\t_\n2\tdog\t_\tNOUN\t_\t_\t1\t_\t_\t_\n\n" for i in range(20)]
    path, model, whole = (str(tmp_path / name) for name in ("t.conllu", "m.npz", "whole.conllu"))
    (tmp_path / "t.conllu").write_text("".join(lines))
    (tmp_path / "whole.conllu").write_text("".join(line for line in lines if "the\t_\t_" not in line))
    assert read_sequences(path)[1][1:3] == [["NOUN", "NOUN"], [None, "NOUN"]]
    for stream in ([], ["--stream"]):
        assert main(["train", "labeler", path, "-o", model, "--epochs", "2", "--quiet", *stream, "--dev", whole]) == 0
        assert omkl.load(model).classes_.tolist() == ["DET", "NOUN", "VERB"]
    assert convert(path, "-o", tmp_path / "t.jsonl") == 0
    assert read_sequences(tmp_path / "t.jsonl") == read_sequences(path)
    assert main(["train", "labeler", path, "-o", model, "--dev", path]) == 2
    assert "t.conllu has tokens without a label" in capsys.readouterr().err
    with pytest.raises(InputError, match="all of them known"):
        omkl.evaluate_labels([["A", None]], [["A", "B"]])


def test_treebanks_become_conllu_and_words_with_tags(tmp_path):
    treebank = synthetic_treebank(20, vocabulary=10, random_state=0)
    path, plain = tmp_path / "t.conllu", tmp_path / "t.conllx"
    write_treebank(path, treebank)
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    plain.write_text("\n".join("\t".join([*c[:5], "_", *c[6:8], "_", "_"]) if len(c) > 1 else "" for c in lines) + "\n")
    assert convert(plain, "-o", tmp_path / "out.conllu") == 0
    assert convert(path, "-o", tmp_path / "same.conllu") == 0
    assert (tmp_path / "same.conllu").read_bytes() == path.read_bytes()
    found = omkl.data.read_treebank(tmp_path / "out.conllu")
    assert [s.heads for s in found] == [s.heads for s in treebank]
    words = read_sequences(path)
    for name in ("w.jsonl", "w.columns"):
        assert convert(path, "-o", tmp_path / name) == 0
    assert read_sequences(tmp_path / "w.jsonl") == words
    assert [[t["c0"] for t in x] for x in read_sequences(tmp_path / "w.columns")[0]] == words[0]
    assert convert(path, "-o", tmp_path / "w.crfsuite") == 0
    X, y = read_sequences(tmp_path / "w.crfsuite")
    expected = omkl.features.token_features(words[0][0])
    assert y == words[1]
    assert {k for k, v in expected[0].items() if v} == set(X[0][0])
    assert all(X[0][0][k] == {v: 1.0} for k, v in expected[0].items() if isinstance(v, str))


@pytest.mark.parametrize(
    ("content", "output", "message"),
    [
        (COLUMNS, "o.svm", "sequences are written as crfsuite, columns, jsonl"),
        (COLUMNS, "o", "say which with --to"),
        ("a b c\nd e\n", "o.jsonl", "line 2: 2 columns, where there should be 3"),
        ("a\n", "o.jsonl", "1 columns, where there should be 2"),
    ],
)
def test_bad_conversions_are_one_sentence(content, output, message, tmp_path, capsys):
    (tmp_path / "in.columns").write_text(content)
    assert convert(tmp_path / "in.columns", "-o", tmp_path / output) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / output).exists()


def test_files_of_conll_2003_are_recognized_by_their_first_line(tmp_path):
    """An original file of CoNLL 2003 has no telling suffix, and a line for each document."""
    sentences = ["EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n", "Peter NNP I-NP B-PER\nBlackburn NNP I-NP I-PER\n"]
    (tmp_path / "eng.train").write_text("-DOCSTART- -X- -X- O\n\n" + "\n-DOCSTART- -X- -X- O\n\n".join(sentences))
    X, y = read_sequences(tmp_path / "eng.train")
    assert [[token["c0"] for token in x] for x in X] == [["EU", "rejects"], ["Peter", "Blackburn"]]
    assert y == [["B-ORG", "O"], ["B-PER", "I-PER"]]
    assert main(["train", "labeler", str(tmp_path / "eng.train"), "-o", str(tmp_path / "m.npz"), "--quiet"]) == 0
    (tmp_path / "attributes").write_text("B-ORG\tword=EU\tpiece=a b\nO\tword=rejects\n")
    assert read_sequences(tmp_path / "attributes")[1] == [["B-ORG", "O"]]
