"""Treebanks: reading agrees with a naive reader, and writing gives back the same bytes."""

import copy
import gzip
import lzma
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omkl.data import Sentence, Strings, Treebank, read_treebank, stream_conllu, write_treebank
from omkl.data.treebank import conllu as reader
from omkl.data.treebank.layouts import FIELDS
from omkl.exceptions import InputError

from .treebank_files import closed, columns_of, files, naive_sentences, naive_splice, with_trees

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
    path, copied = written(folder / "a.conllu", data), folder / "copy.conllu"
    sentences = naive_sentences(data.decode())
    treebank = read_treebank(path)
    assert columns_of(treebank) == columns_of(sentences)
    assert list(treebank) == sentences
    for name in FIELDS:
        assert np.array_equal(getattr(treebank, name) == 0, [s == "_" for x in sentences for s in getattr(x, name)])
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
    path, changed = written(folder / "a.conllu", data), folder / "changed.conllu"
    treebank = read_treebank(path)
    n = treebank.n_words
    heads = np.array([draw.draw(st.integers(-1, int(n))) for n in treebank.lengths for _ in range(n)])
    deprels = draw.draw(st.lists(st.sampled_from(["_", "nsubj", "x:y", "π"]), min_size=n, max_size=n))
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
    heads, deprels = np.zeros(treebank.n_words, int), ["dep"] * treebank.n_words
    write_treebank(tmp_path / "copy.conllu", with_trees(treebank, heads, deprels))
    assert (tmp_path / "copy.conllu").read_bytes() == naive_splice(data, heads, deprels)


def test_columns_that_have_changed_are_written(tmp_path):
    treebank = read_treebank(written(tmp_path / "a.conllu", CONLLU.encode()))
    strings, heads = Strings(), np.zeros(treebank.n_words, int)
    xpos = strings.codes([f"tag{i}" for i in range(treebank.n_words)], grow=True)
    changed = treebank.with_column("heads", heads).with_column("xpos", xpos, strings)
    for blocks in (changed, [changed[:1], changed[1:]], Treebank.concatenate([changed[:1], changed[1:]])):
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
    before, size = list(train), len(train.strings["forms"])
    known = {name: table.copy() for name, table in train.strings.items()}
    other = written(tmp_path / "b.conllu", CONLLU.replace("go", "stay").encode())
    test = read_treebank(other, strings=train.strings)
    assert test.strings is train.strings
    assert list(train) == before
    assert test.forms[0] == train.forms[0] < size == train.strings["forms"].codes(["stay"])[0]
    assert list(read_treebank(other, strings=known)) == list(test)
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


@pytest.mark.parametrize(("name", "format"), [("a.conllx", None), ("a.conll", None), ("a.txt", "conllx")])
def test_conllx(tmp_path, name, format):
    (sentence,) = read_treebank(written(tmp_path / name, CONLLX.encode()), format=format)
    empty = ["_", "_"]
    columns = ["A", "b"], ["a", "_"], ["C", "C2"], ["F", "F2"], ["x=y", "_"], [2, 0], ["det", "root"], empty
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
    assert (changed.heads, changed.deprels) == ([0, 1, 1, 4], ["a", "b", "c", "d"])
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
    assert text == (
        "1\tNo\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tway\t_\t_\t_\t_\t0\t_\t_\t_\n\n1\ta b\t_\tX\t_\t_\t0\t_\t_\t_\n\n"
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


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=80), max_size=4))
def test_codes_of_strings_are_their_order_of_first_appearance(parts):
    strings, order = Strings(), {"_": 0}
    for part in parts:
        assert strings.codes(part).tolist() == [order.get(text, -1) for text in part]
        expected = [order.setdefault(text, len(order)) for text in part]
        assert strings.codes(part, grow=True).tolist() == expected
        assert strings.tolist() == list(order)
    data, offsets = strings.to_bytes()
    assert [data[a:b].tobytes().decode() for a, b in pairwise(offsets)] == list(strings)
