"""Treebanks: reading agrees with a naive reader, writing gives the same bytes; invalid and
synthetic ones.
"""

import contextlib
import copy
import gzip
import itertools
import lzma
import pickle
import re
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction import FeatureHasher
from sklearn.linear_model import LogisticRegression

from omkl.data import (
    Sentence,
    Strings,
    Treebank,
    read_sequences,
    read_treebank,
    stream_conllu,
    synthetic_treebank,
    write_treebank,
)
from omkl.data.treebank import conllu as reader
from omkl.data.treebank import synthetic
from omkl.data.treebank.layouts import FIELDS
from omkl.exceptions import DataFileError, DataWarning, InputError, OutputFileError
from omkl.groups.templates import language

from .treebank_files import (
    closed,
    columns_of,
    files,
    is_tree,
    naive_sentences,
    naive_splice,
    with_trees,
)

CONLLU = """\
# text = Don't go
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t3\taux\t_\t_
2\tn't\tnot\tPART\tRB\t_\t3\tadvmod\t_\t_
2.1\tghost\t_\t_\t_\t_\t_\t_\t_\tA=b
3\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No

1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("treebanks")


def written(path, data):
    path.write_bytes(data)
    return path


def test_sentences_leave_out_multiword_tokens_and_empty_nodes(tmp_path):
    path = written(tmp_path / "a.conllu", b"\xef\xbb\xbf" + CONLLU.replace("\n", "\r\n").encode())
    first, second = read_treebank(path)
    assert first.forms == ["Do", "n't", "go"]
    assert first.misc == ["_", "_", "SpaceAfter=No"]
    assert first.heads == [3, 3, 0]
    assert second.upos == ["INTJ"]
    assert len(first) == 3


@given(data=files(), size=st.integers(1, 200))
def test_reading_and_writing_agree_with_a_naive_reader(folder, data, size):
    """With pieces of any size, and with the text of the file or without."""
    path = written(folder / "a.conllu", data)
    copied = folder / "copy.conllu"
    sentences = naive_sentences(data.decode())
    treebank = read_treebank(path)
    assert columns_of(treebank) == columns_of(sentences)
    assert list(treebank) == sentences
    for name in FIELDS:
        assert np.array_equal(
            getattr(treebank, name) == 0, [s == "_" for x in sentences for s in getattr(x, name)]
        )
        assert len(set(treebank.strings[name])) == len(treebank.strings[name])
    write_treebank(copied, treebank)
    assert copied.read_bytes() == treebank.text == closed(data)
    assert list(read_treebank(copied)) == sentences
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "PIECE_SIZE", size)
        blocks = [block.X for block in stream_conllu(path, keep_text=True, block_size=2).blocks()]
    assert all(len(block) == 2 for block in blocks[:-1])
    assert list(Treebank.concatenate(blocks)) == sentences
    write_treebank(copied, blocks)
    assert copied.read_bytes() == treebank.text
    plain = read_treebank(path, keep_text=False)
    assert plain.text is None
    write_treebank(copied, plain)
    assert naive_sentences(copied.read_bytes().decode()) == sentences


@given(data=files(), draw=st.data())
def test_only_columns_that_have_changed_are_written_anew(folder, data, draw):
    path = written(folder / "a.conllu", data)
    changed = folder / "changed.conllu"
    treebank = read_treebank(path)
    n = treebank.n_words
    heads = np.array(
        [draw.draw(st.integers(-1, int(n))) for n in treebank.lengths for _ in range(n)]
    )
    deprels = draw.draw(
        st.lists(
            st.sampled_from(["_", "nsubj", "x:y", "π"]),
            min_size=n,
            max_size=n,
        )
    )
    write_treebank(changed, with_trees(treebank, heads, deprels))
    assert changed.read_bytes() == naive_splice(closed(data), heads, deprels)
    again = read_treebank(changed, trees=False)
    assert again.heads.tolist() == heads.tolist()
    assert again.column("deprels", len(again) - 1) == deprels[treebank.offsets[-2] :]
    made = Treebank.from_sentences(treebank)  # which has no text
    assert columns_of(made) == columns_of(treebank)
    write_treebank(changed, with_trees(made, heads, deprels))
    assert list(read_treebank(changed, trees=False)) == list(again)


@given(data=st.lists(files(), min_size=2, max_size=3), draw=st.data())
def test_joined_files_and_selections_are_treebanks_of_their_sentences(folder, data, draw):
    paths = [written(folder / f"{i}.conllu", part) for i, part in enumerate(data)]
    treebank = read_treebank(paths)
    sentences = [sentence for path in paths for sentence in read_treebank(path)]
    assert list(treebank) == sentences
    write_treebank(folder / "all.conllu", treebank)
    assert list(read_treebank(folder / "all.conllu")) == sentences
    chosen = draw.draw(st.lists(st.integers(0, len(treebank) - 1), min_size=1, max_size=6))
    part = treebank[np.array(chosen)]
    assert list(part) == [sentences[i] for i in chosen]
    write_treebank(folder / "part.conllu", part)
    assert list(read_treebank(folder / "part.conllu")) == list(part)
    assert list(treebank[1:]) == sentences[1:]


@pytest.mark.parametrize(
    "name",
    [
        "UD_English-EWT/en_ewt-ud-dev.conllu.gz",
        "grc_agdt_gorman/grc-agdt-gorman-dev.conllu.gz",
    ],
)
def test_real_treebanks_agree_with_a_naive_reader(real_data, tmp_path, name):
    path = real_data(f"ud/{name}")
    with gzip.open(path) as file:
        data = file.read()
    treebank = read_treebank(path, trees=False)
    assert list(treebank) == naive_sentences(data.decode())
    write_treebank(tmp_path / "copy.conllu", treebank)
    assert (tmp_path / "copy.conllu").read_bytes() == data
    heads = np.zeros(treebank.n_words, int)
    deprels = ["dep"] * treebank.n_words
    write_treebank(tmp_path / "copy.conllu", with_trees(treebank, heads, deprels))
    assert (tmp_path / "copy.conllu").read_bytes() == naive_splice(data, heads, deprels)


def test_columns_that_have_changed_are_written(tmp_path):
    treebank = read_treebank(written(tmp_path / "a.conllu", CONLLU.encode()))
    strings = Strings()
    heads = np.zeros(treebank.n_words, int)
    xpos = strings.codes([f"tag{i}" for i in range(treebank.n_words)], grow=True)
    changed = treebank.with_column("heads", heads).with_column("xpos", xpos, strings)
    for blocks in (
        changed,
        [changed[:1], changed[1:]],
        Treebank.concatenate([changed[:1], changed[1:]]),
    ):
        write_treebank(tmp_path / "b.conllu", blocks)
        again = read_treebank(tmp_path / "b.conllu")
        assert list(again) == list(changed) != list(treebank)
        assert [line for line in again.text.splitlines() if not line[:1].isdigit()] == [
            line for line in treebank.text.splitlines() if not line[:1].isdigit()
        ]
    assert not treebank.changed


def test_a_column_that_the_format_does_not_have_is_not_written(tmp_path):
    for name, data, field in (("a.conllx", CONLLX, "misc"), ("a.conll08", CONLL2008, "xpos")):
        treebank = read_treebank(written(tmp_path / name, data.encode()))
        changed = treebank.with_column(field, treebank.misc).with_column("heads", treebank.heads)
        with pytest.raises(InputError, match=f"CoNLL-.* has no place for new {field}: convert"):
            write_treebank(tmp_path / name, changed)
        assert (tmp_path / name).read_text() == data


def test_compressed_files_are_read_and_written_by_their_suffix(tmp_path):
    plain = written(tmp_path / "a.conllu", CONLLU.encode())
    treebank = read_treebank(plain)
    for suffix, decompress in ((".gz", gzip.decompress), (".xz", lzma.decompress)):
        path = tmp_path / f"a.conllu{suffix}"
        write_treebank(path, treebank)
        first = path.read_bytes()
        assert decompress(first) == closed(CONLLU.encode())
        assert list(read_treebank(path)) == list(treebank)
        write_treebank(path, treebank)
        assert path.read_bytes() == first, "the same treebank gives the same file"


def test_codes_stay_valid_when_files_share_their_strings(tmp_path):
    train = read_treebank(written(tmp_path / "a.conllu", CONLLU.encode()))
    before = list(train)
    size = len(train.strings["forms"])
    tables = {name: table.copy() for name, table in train.strings.items()}
    other = written(tmp_path / "b.conllu", CONLLU.replace("go", "stay").encode())
    test = read_treebank(other, strings=train.strings)
    assert test.strings is train.strings
    assert list(train) == before
    assert test.forms[0] == train.forms[0] < size == train.strings["forms"].codes(["stay"])[0]
    assert list(read_treebank(other, strings=tables)) == list(test)
    assert columns_of(Treebank.concatenate([train, test])) == columns_of([*train, *test])
    alone = read_treebank(other)
    joined = Treebank.concatenate([train, alone])
    assert columns_of(joined) == columns_of([*train, *test])
    assert joined.text == train.text + alone.text
    assert list(train) == before
    assert list(alone) == list(test)
    with pytest.raises(InputError, match="`strings` must hold"):
        read_treebank(other, strings={"forms": Strings()})


CONLLX = "1\tA\ta\tC\tF\tx=y\t2\tdet\t2\tdet\n2\tb\t_\tC2\tF2\t_\t0\troot\t_\t_\n\n"
CONLL2008 = (
    "1\tA\ta\tDT\tXX\tA\ta\tDT2\t2\tNMOD\t_\t_\n"
    "2\tmix-up\tmix-up\tNN\tNN\tmix\tmix\t_\t0\tROOT\tmix.01\t_\n"
    "3\t_\t_\t_\t_\t_\t_\tHYPH\t2\tHYPH\t_\tA1\n"
    "4\tUp\tup\tRP\tRP\t_\t_\t_\t2\tX\t_\t_\n\n"
)


def without_old_trees(text):
    """A text in CoNLL-U or CoNLL-X without empty nodes, DEPS, PHEAD and PDEPREL, line by line."""
    lines = []
    for line in text.split("\n"):
        row = line.split("\t")
        if row[0].isdigit():
            row[8:] = ["_", "_"] if row[8].isdigit() else ["_", *row[9:]]
        if "." not in row[0] or line.startswith("#"):
            lines.append("\t".join(row))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "text", "removed"),
    [
        ("a.conllu", CONLLU, "enhanced dependencies (DEPS) and empty nodes"),
        ("a.conllu", "1\ta" + "\t_" * 6 + "\t0:root\t_\n\n", "enhanced dependencies"),
        ("a.conllu", "0.1\tb" + "\t_" * 8 + "\n1\ta" + "\t_" * 8 + "\n\n", "empty nodes"),
        ("a.conllx", CONLLX, "PHEAD and PDEPREL"),
    ],
)
def test_new_trees_replace_everything_of_old_ones(tmp_path, name, text, removed):
    treebank = read_treebank(written(tmp_path / name, text.encode()), trees=False)
    same = treebank.with_trees(treebank.heads)
    with pytest.warns(DataWarning, match=re.escape(removed)) as caught:
        write_treebank(tmp_path / "new", [same[:1], same[1:]])
    assert len({str(warning.message) for warning in caught}) == 1
    assert (tmp_path / "new").read_bytes() == closed(without_old_trees(text).encode())


@pytest.mark.parametrize("name", ["a.conllu", "a.conllx"])
def test_new_trees_give_no_warning_where_there_is_nothing_to_remove(tmp_path, name, recwarn):
    text = "# 1.1\n1\ta" + "\t_" * 8 + "\n2\tb" + "\t_" * 8 + "\n\n"
    treebank = read_treebank(written(tmp_path / name, text.encode()), trees=False)
    write_treebank(tmp_path / "new", treebank.with_trees(treebank.heads))
    assert (tmp_path / "new").read_text() == text
    assert not recwarn.list


@pytest.mark.parametrize(
    ("name", "format"), [("a.conllx", None), ("a.conll", None), ("a.txt", "conllx")]
)
def test_conllx(tmp_path, name, format):
    (sentence,) = read_treebank(written(tmp_path / name, CONLLX.encode()), format=format)
    empty = ["_", "_"]
    columns = (
        ["A", "b"],
        ["a", "_"],
        ["C", "C2"],
        ["F", "F2"],
        ["x=y", "_"],
        [2, 0],
        ["det", "root"],
        empty,
    )
    assert sentence == Sentence(*columns)


@pytest.mark.parametrize("name", ["a.conll08", "a.txt"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("n_columns", [12, 10])
def test_conll2008_has_the_parts_of_split_tokens(tmp_path, name, newline, n_columns):
    lines = ["\t".join(line.split("\t")[:n_columns]) for line in CONLL2008.splitlines()]
    path = written(tmp_path / name, newline.join([*lines, "", ""]).encode())
    treebank = read_treebank(path)
    (sentence,) = treebank
    assert sentence.forms == ["A", "mix", "_", "Up"]
    assert sentence.lemmas == ["a", "mix", "_", "up"]
    assert sentence.upos == sentence.xpos == ["DT2", "NN", "HYPH", "RP"]
    assert sentence.feats == ["_"] * 4
    assert sentence.heads == [2, 0, 2, 2]
    assert sentence.deprels == ["NMOD", "ROOT", "HYPH", "X"]
    write_treebank(path, with_trees(treebank, [0, 1, 1, 4], ["a", "b", "c", "d"]))
    (changed,) = read_treebank(path, trees=False)
    assert changed.heads == [0, 1, 1, 4]
    assert changed.deprels == ["a", "b", "c", "d"]
    write_treebank(path, treebank)
    assert path.read_bytes() == newline.join([*lines, "", ""]).encode()


def test_sentences_made_in_python_become_a_treebank(tmp_path):
    sentences = [
        Sentence(forms=["No", "way"], heads=[2, 0], deprels=["det", None]),
        Sentence(forms=["a b"], upos=["X"]),
    ]
    treebank = Treebank.from_sentences(sentences)
    assert treebank.heads.tolist() == [2, 0, -1]
    assert treebank.forms.tolist() == [1, 2, 3]
    assert treebank.feats.tolist() == [0, 0, 0]
    write_treebank(tmp_path / "a.conllu", treebank.with_column("heads", [2, 0, 0]))
    text = (tmp_path / "a.conllu").read_text()
    assert (
        text == "1\tNo\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tway\t_\t_\t_\t_\t0\t_\t_\t_\n\n1\ta"
        " b\t_\tX\t_\t_\t0\t_\t_\t_\n\n"
    )
    assert [s.heads for s in read_treebank(tmp_path / "a.conllu")] == [[2, 0], [0]]
    assert len(Treebank.from_sentences([])) == 0


def test_a_sentence_of_a_treebank_is_a_sentence(tmp_path):
    treebank = read_treebank(written(tmp_path / "a.conllu", CONLLU.encode()))
    sentence = treebank[-1]
    assert sentence == Sentence(["Yes"], ["yes"], ["INTJ"], ["UH"], ["_"], [0], ["root"], ["_"])
    assert pickle.loads(pickle.dumps(treebank[1])) == copy.deepcopy(treebank[1]) == sentence
    assert treebank[np.int64(1)] == sentence
    assert "Yes" in repr(treebank[1])
    assert "2 sentences, 4 words" in repr(treebank)
    with pytest.raises(IndexError):
        treebank[2]
    with pytest.raises(AttributeError, match="no attribute 'form'"):
        sentence.form  # noqa: B018


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=80),
        max_size=4,
    )
)
def test_codes_of_strings_are_their_order_of_first_appearance(batches):
    strings = Strings()
    order = {"_": 0}
    for part in batches:
        assert strings.codes(part).tolist() == [order.get(text, -1) for text in part]
        expected = [order.setdefault(text, len(order)) for text in part]
        assert strings.codes(part, grow=True).tolist() == expected
        assert strings.tolist() == list(order)
    data, offsets = strings.to_bytes()
    assert [data[a:b].tobytes().decode() for a, b in pairwise(offsets)] == list(strings)


GOOD = "# a comment\n1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"


def lines_of(*heads, ids=None):
    """A sentence whose words have these heads."""
    ids = ids or range(1, len(heads) + 1)
    return "".join(f"{i}\tw\t_\t_\t_\t_\t{head}\tdep\t_\t_\n" for i, head in zip(ids, heads)) + "\n"


DAMAGE = [
    b"",
    b"\t",
    b"\n",
    b"\r",
    b"\n\n",
    b"0",
    b"1",
    b"-",
    b".",
    b"#",
    b"\xff",
    b"\xc3\xa9",
    b"\0",
    b"9999999999",
]
EMPTY_NODE = "1.1\tw" + "\t_" * 8 + "\n"
# the text of a sentence that is wrong, after GOOD (three lines), the line, and what the message
# says
WRONG = {
    "cycle": (lines_of(2, 1, 0), 4, "cycle, 1 -> 2 -> 1"),
    "cycle below a chain": (lines_of(0, 3, 4, 3), 6, "cycle, 3 -> 4 -> 3"),
    "no root": (lines_of(2, 1), 4, "cycle, 1 -> 2 -> 1, and no word has head 0"),
    "head out of range": (
        lines_of(2, 0, 4),
        6,
        "the head 4 of word 3 is out of range: it must be 0 (the root) to 3",
    ),
    "head not a number": (lines_of(0, "x"), 5, "the head 'x' is not the number of a word"),
    "head too long": (lines_of(0, "12345678901"), 5, "the head '12345678901' is not"),
    "head missing": (lines_of(0, "_"), 5, "word 2 has no head"),
    "duplicate id": (lines_of(0, 1, 1, ids=[1, 2, 2]), 6, "the id '2' is out of order"),
    "id left out": (lines_of(0, 1, ids=[1, 3]), 5, "the id '3' is out of order"),
    "no empty line between": (lines_of(0, 0, ids=[1, 1]), 5, "the id '1' is out of order"),
    "id not a number": (lines_of(0, 1, ids=[1, "two"]), 5, "the id 'two' is out of order"),
    "range out of order": (lines_of(0, "_", ids=[1, "1-2"]), 5, "the id '1-2' is out of order"),
    "range beyond the end": (
        lines_of("_", 0, 1, ids=["1-3", 1, 2]),
        4,
        "the id '1-3' is out of order",
    ),
    "empty node out of order": (
        lines_of(0, "_", ids=[1, "1.2"]),
        5,
        "the id '1.2' is out of order",
    ),
    "empty nodes alone": (lines_of("_", ids=["0.1"]), 4, "no words, only empty nodes"),
    "nine columns": (
        "1\tw\t_\t_\t_\t_\t0\tr\t_\n\n",
        4,
        "9 columns, but CoNLL-U has 10 separated by tabs.",
    ),
    "spaces": ("1 w _ _ _ _ 0 r _ _\n\n", 4, "1 columns, but CoNLL-U has 10 separated by tabs"),
    "columns of an empty node": (
        lines_of(0)[:-1] + EMPTY_NODE.replace("\t_\n", "\n") + "\n",
        5,
        "9 columns",
    ),
    "two things wrong": (lines_of("x", 1, 9, ids=[1, 3, 4]), 4, "the head 'x'"),
}


def skipping(path):
    """Read a treebank without its invalid sentences; return it and its stream."""
    stream = stream_conllu(path, on_error="skip", keep_text=True)
    with pytest.warns(DataWarning, match="skipped, the first at") as caught:
        treebank = stream.read().X
    assert len(caught) == 1
    return treebank, stream


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_sentence_is_named_or_skipped(tmp_path, case, newline, monkeypatch):
    text, line, message = WRONG[case]
    path = tmp_path / "a.conllu"
    expected = re.escape(f"{path}, line {line}: ") + ".*" + re.escape(message)
    path.write_bytes((GOOD + text + GOOD + text).replace("\n", newline).encode())
    for size in (reader.PIECE_SIZE, 1):
        monkeypatch.setattr(reader, "PIECE_SIZE", size)
        with pytest.raises(DataFileError, match=expected):
            read_treebank(path)
        treebank, stream = skipping(path)
        assert stream.skipped == 2
        assert len(stream.reasons) == 2
        assert re.search(expected, stream.reasons[0])
        assert list(treebank.strings["forms"]) == [
            "_",
            "Yes",
        ], "strings of skipped sentences are not taken in"
        assert treebank.text == (GOOD + GOOD).replace("\n", newline).encode()


def test_bytes_that_are_not_utf8_are_named_or_skipped(tmp_path):
    path = tmp_path / "a.conllu"
    bad = GOOD.encode().replace(b"Yes", b"Y\xe9s")
    path.write_bytes(bad + GOOD.encode() + bad.replace(b"a comment", b"\xff\n# more"))
    with pytest.raises(DataFileError, match=re.escape(f"{path}, line 2: not UTF-8 text")):
        read_treebank(path)
    treebank, stream = skipping(path)
    assert [reason.split(", ")[-1].split(":")[0] for reason in stream.reasons] == [
        "line 2",
        "line 7",
    ]
    assert treebank.text == GOOD.encode()
    path.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(DataFileError, match="line 1: not UTF-8"):
        read_treebank(path)


def test_reasons_are_the_first_ones_and_a_clean_file_does_not_warn(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text((lines_of(2, 1) + GOOD) * 30)
    treebank, stream = skipping(path)
    assert stream.skipped == 30
    assert len(stream.reasons) == 10
    assert len(treebank) == 30
    assert "line 55:" in stream.reasons[-1]
    path.write_text(GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_treebank(path, on_error="skip")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n\n", "\ufeff", " "])
def test_files_without_a_sentence(tmp_path, text):
    path = tmp_path / "a.conllu"
    path.write_text(text)
    with pytest.raises(
        DataFileError, match=re.escape(f"{path}") + "( holds no sentence.|, line 1: 1 columns)"
    ):
        read_treebank(path)


def test_roots_and_missing_heads_are_checked_on_request(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(GOOD + lines_of(0, 0, 1, 0))
    assert read_treebank(path)[1].heads == [0, 0, 1, 0]
    with pytest.raises(
        DataFileError, match=r"line 5: 3 words have head 0, and single_root=True allows one: word 2"
    ):
        read_treebank(path, single_root=True)
    with pytest.warns(DataWarning, match="1 record was skipped"):
        assert len(read_treebank(path, single_root=True, on_error="skip")) == 1
    path.write_text(GOOD + lines_of("_", "_"))
    with pytest.raises(DataFileError, match=r"line 4: word 1 has no head"):
        read_treebank(path)
    for trees in (False, "given"):
        treebank = read_treebank(path, trees=trees)
        assert treebank.heads.tolist() == [0, -1, -1]
        assert treebank[1].heads == [None, None]
    path.write_text(lines_of(7, 1, "_"))
    assert read_treebank(path, trees=False).heads.tolist() == [7, 1, -1]
    with pytest.raises(DataFileError, match="line 3: word 3 has no head"):
        read_treebank(path, trees="given")
    assert read_sequences(path)[1] == [[None, None, None]], "a tagger needs no trees"


@given(st.lists(st.integers(0, 6), min_size=1, max_size=6))
def test_exactly_the_trees_are_taken(heads):
    sentence = Sentence(forms=["w"] * len(heads), heads=heads)
    if is_tree(heads):
        assert Treebank.from_sentences([sentence])[0].heads == heads
        if heads.count(0) > 1:
            with pytest.raises(InputError, match="single_root"):
                Treebank.from_sentences([sentence], single_root=True)
    else:
        with pytest.raises(InputError, match=r"Sentence 1, word \d: the head"):
            Treebank.from_sentences([sentence])


def test_columns_of_conll2008_may_differ_between_sentences_only(tmp_path):
    path = tmp_path / "a.conll08"
    line = "{}\tw" + "\t_" * 6 + "\t0\tr\t_"
    path.write_text(f"{line.format(1)}\n\n{line.format(1)}\tA0\n{line.format(2)}\n")
    with pytest.raises(
        DataFileError, match="line 4: 11 columns, but CoNLL-2008 has at least 10, as many in all"
    ):
        read_treebank(path)
    path.write_text(line.format(1).replace("\tr\t_", "") + "\n")
    with pytest.raises(DataFileError, match="line 1: 9 columns, but CoNLL-2008 has at least 10"):
        read_treebank(path)


@given(data=files(), draw=st.data())
def test_a_damaged_file_is_read_or_refused_and_never_written_otherwise(
    tmp_path_factory, data, draw
):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, max(0, len(damaged) - 1)))
        damaged[at : at + draw.draw(st.integers(0, 3))] = draw.draw(st.sampled_from(DAMAGE))
    folder = tmp_path_factory.getbasetemp()
    path = folder / "damaged.conllu"
    copied = folder / "copy.conllu"
    path.write_bytes(damaged)
    try:
        treebank = read_treebank(path)
    except DataFileError as error:
        assert str(path) in str(error)  # noqa: PT017 (not every damage is one)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            with contextlib.suppress(DataFileError):
                assert all(is_tree(s.heads) for s in read_treebank(path, on_error="skip"))
    else:
        assert list(treebank) == naive_sentences(damaged.decode())
        write_treebank(copied, treebank.with_column("heads", treebank.heads))
        assert list(read_treebank(copied)) == list(treebank)


def test_real_entries_that_are_no_trees(real_data):
    path = real_data("ud/IcePaHC/is_icepahc-src-dev.conllu.gz")
    with pytest.raises(DataFileError, match=r"line 61150: .* cycle, 35 -> 35"):
        read_treebank(path)
    treebank, stream = skipping(path)
    assert len(treebank) == 4293
    assert treebank.n_words == 139104
    assert stream.skipped == 7
    with gzip.open(path, "rt", encoding="utf-8") as file:
        trees = [sentence for sentence in naive_sentences(file.read()) if is_tree(sentence.heads)]
    assert list(treebank) == trees


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xml"}, "format must be one of"),
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"trees": "maybe"}, "trees must be one of"),
        ({"block_size": 0}, "block_size"),
    ],
)
def test_arguments_are_checked_before_reading(options, message):
    with pytest.raises(InputError, match=message):
        stream_conllu(__file__, **options)
    with pytest.raises(InputError, match="no file to read"):
        read_treebank([])


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        (Sentence(), "Sentence 2 has no words"),
        (Sentence(forms="No"), "Sentence 2 has 'No' as its forms: give a list"),
        (Sentence(forms=["No"], upos=None), "Sentence 2 has None as its upos: give a list"),
        (Sentence(forms=["a", "b"], heads=[0]), "Sentence 2 has 2 words, but 1 heads"),
        (
            Sentence(forms=["a\tb"]),
            r"Sentence 2, word 1: 'a\\tb' among forms is not a string of one line",
        ),
        (Sentence(forms=["a"], upos=[3]), "Sentence 2, word 1: 3 among upos"),
        (
            Sentence(forms=["a"], heads=["x"]),
            "Sentence 2, word 1: 'x' among heads is not the number",
        ),
        (Sentence(forms=["a", "b"], heads=[0, 0.5]), "Sentence 2, word 2: 0.5 among heads"),
        (
            Sentence(forms=["a"], heads=[2]),
            "Sentence 2, word 1: the head 2 of word 1 is out of range",
        ),
        (Sentence(forms=["\ud800"]), "Sentence 2, word 1: .* of one line in UTF-8"),
        (Sentence(forms=["a"], heads=[10**9]), "Sentence 2, word 1: 1000000000 among heads is not"),
    ],
)
def test_sentences_made_in_python_are_checked(sentence, message):
    with pytest.raises(InputError, match=message):
        Treebank.from_sentences([Sentence(forms=["ok"]), sentence])


def test_a_file_that_cannot_be_written(tmp_path):
    treebank = Treebank.from_sentences([Sentence(forms=["a"])])
    with pytest.raises(OutputFileError, match="cannot be written"):
        write_treebank(tmp_path / "nowhere" / "a.conllu", treebank)
    with pytest.raises(InputError, match="no sentence to write"):
        write_treebank(tmp_path / "a.conllu", [])


def test_blocks_can_be_written_over_the_file_they_are_read_from(tmp_path):
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress((GOOD + lines_of(0, 1, 1)).encode() * 20))
    blocks = (block.X for block in stream_conllu(path, keep_text=True, block_size=7).blocks())
    write_treebank(path, (block.with_column("heads", np.zeros(block.n_words)) for block in blocks))
    treebank = read_treebank(path)
    assert len(treebank) == 40
    assert not treebank.heads.any()


NOISE = (
    "h.form m.form direction",
    "h.feats m.feats direction",
    "m.form direction",
    "h-1.form h.feats",
)


def crosses(heads):
    arcs = [tuple(sorted(arc)) for arc in enumerate(heads, 1)]
    return any(a < b < c < d for (a, c), (b, d) in itertools.permutations(arcs, 2))


@pytest.mark.parametrize("projective", [False, True])
def test_every_sentence_is_a_tree_with_one_root(projective):
    treebank = synthetic_treebank(100, mean_length=8, projective=projective)
    assert len(treebank) == 100
    assert all(is_tree(sentence.heads) and sentence.heads.count(0) == 1 for sentence in treebank)
    assert treebank.lengths.min() >= 1
    assert treebank.lengths.mean() == pytest.approx(8, abs=4 * np.sqrt(7 / 100))
    crossing = sum(crosses(sentence.heads) for sentence in treebank)
    assert crossing == 0 if projective else 30 < crossing < 100


def test_the_same_seed_makes_the_same_treebank():
    def heads(random_state):
        return synthetic_treebank(50, random_state=random_state).heads.tolist()

    assert heads(3) == heads(3) == heads(np.random.default_rng(3))
    assert heads(4) != heads(3)


def test_a_written_treebank_is_read_as_it_was(tmp_path):
    treebank = synthetic_treebank(50)
    path = tmp_path / "made-up.conllu.gz"
    write_treebank(path, treebank)
    back = read_treebank(path, single_root=True)
    assert [s.__getstate__() for s in back] == [s.__getstate__() for s in treebank]


def test_every_field_is_filled_and_relations_follow_from_tags():
    treebank = synthetic_treebank(1000)
    for name in ("forms", "lemmas", "upos", "xpos", "feats", "deprels"):
        assert getattr(treebank, name).min() > 0
    assert len(treebank.strings["lemmas"]) == len(treebank.strings["forms"]) == 30 + 1
    of_tags = {}
    for sentence in treebank:
        for head, tag, relation in zip(sentence.heads, sentence.upos, sentence.deprels):
            assert (relation == "root") == (head == 0)
            if head:
                of_tags.setdefault((sentence.upos[head - 1], tag), []).append(relation)
    usual = sum(max(map(relations.count, relations)) for relations in of_tags.values())
    assert 0.94 < usual / sum(map(len, of_tags.values())) < 0.98


def test_the_informative_templates_tell_the_head_and_the_others_do_not():
    treebank = synthetic_treebank(250, mean_length=8)
    train = treebank[:200]
    test = treebank[200:]
    informed = _accuracy(synthetic.INFORMATIVE, train, test)
    each = [_accuracy([template], train, test) for template in synthetic.INFORMATIVE]
    chance = len(test) / test.n_words  # one of n candidates for each of n words
    assert _accuracy(NOISE, train, test) < chance + 0.05
    assert min(each) > chance + 0.1
    assert informed > max(each) + 0.2


def _accuracy(templates, train, test):
    """Share of the heads found by logistic regression of "is it the head?" on the templates'
    features.
    """
    templates = [language.Template.parse(template) for template in templates]
    hasher = FeatureHasher(2**16, input_type="string", alternate_sign=False)
    gold = [is_head for sentence in train for _, _, is_head in _candidates(sentence)]
    model = LogisticRegression(C=1.0, max_iter=200).fit(
        hasher.transform(_rows(templates, train)), gold
    )
    scores = iter(model.decision_function(hasher.transform(_rows(templates, test))).tolist())
    right = 0
    for sentence in test:
        scored = [(next(scores), is_head) for _, _, is_head in _candidates(sentence)]
        right += sum(
            max(scored[i : i + len(sentence)])[1] for i in range(0, len(scored), len(sentence))
        )
    return right / test.n_words


def _candidates(sentence):
    words = range(1, len(sentence) + 1)
    return ((h, m, sentence.heads[m - 1] == h) for m in words for h in (0, *words) if h != m)


def _rows(templates, treebank):
    return (
        [_feature(t, sentence, h, m) for t in templates]
        for sentence in treebank
        for h, m, _ in _candidates(sentence)
    )


def _feature(template, sentence, h, m):
    def at(i, field):
        column = getattr(sentence, synthetic.COLUMN_OF[field])
        if i == 0:
            return "root"
        return column[i - 1] if 1 <= i <= len(column) else "outside"

    values = [at(h + offset, field) for offset, field in template.head]
    values += [at(m + offset, field) for offset, field in template.modifier]
    if template.variant != "arc":
        values.append(str(h < m))
    if template.variant == "distance":
        values.append(str(np.searchsorted(language.DISTANCE_BINS, abs(h - m), side="right")))
    return " ".join([template.atoms, *values])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_sentences": 0}, "n_sentences must be"),
        ({"mean_length": 0.5}, "mean_length must be"),
        ({"vocabulary": 0}, "vocabulary must be"),
        ({"informative": []}, "informative"),
        ({"informative": ["h.suffix3 m.upos"]}, "must look at form, lemma"),
        ({"informative": ["direction distance"]}, "'distance' is not an atom"),
    ],
)
def test_wrong_parameters_are_named(wrong, message):
    with pytest.raises(InputError, match=message):
        synthetic_treebank(**wrong)
