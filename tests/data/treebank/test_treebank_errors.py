"""Invalid treebanks: strict reading names file and line, lenient reading skips and counts the sentences."""

import contextlib
import gzip
import re
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omkl.data import Sentence, Treebank, read_sequences, read_treebank, stream_conllu, write_treebank
from omkl.data.treebank import conllu as reader
from omkl.exceptions import DataFileError, DataWarning, InputError, OutputFileError

from .treebank_files import files, is_tree, naive_sentences

GOOD = "# a comment\n1\tYes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"


def lines_of(*heads, ids=None):
    """A sentence whose words have these heads."""
    ids = ids or range(1, len(heads) + 1)
    return "".join(f"{i}\tw\t_\t_\t_\t_\t{head}\tdep\t_\t_\n" for i, head in zip(ids, heads)) + "\n"


DAMAGE = [b"", b"\t", b"\n", b"\r", b"\n\n", b"0", b"1", b"-", b".", b"#", b"\xff", b"\xc3\xa9", b"\0", b"9999999999"]
EMPTY_NODE = "1.1\tw" + "\t_" * 8 + "\n"
# the text of a sentence that is wrong, after GOOD (three lines), the line, and what the message says
WRONG = {
    "cycle": (lines_of(2, 1, 0), 4, "cycle, 1 -> 2 -> 1"),
    "cycle below a chain": (lines_of(0, 3, 4, 3), 6, "cycle, 3 -> 4 -> 3"),
    "no root": (lines_of(2, 1), 4, "cycle, 1 -> 2 -> 1, and no word has head 0"),
    "head out of range": (lines_of(2, 0, 4), 6, "the head 4 of word 3 is out of range: it must be 0 (the root) to 3"),
    "head not a number": (lines_of(0, "x"), 5, "the head 'x' is not the number of a word"),
    "head too long": (lines_of(0, "12345678901"), 5, "the head '12345678901' is not"),
    "head missing": (lines_of(0, "_"), 5, "word 2 has no head"),
    "duplicate id": (lines_of(0, 1, 1, ids=[1, 2, 2]), 6, "the id '2' is out of order"),
    "id left out": (lines_of(0, 1, ids=[1, 3]), 5, "the id '3' is out of order"),
    "no empty line between": (lines_of(0, 0, ids=[1, 1]), 5, "the id '1' is out of order"),
    "id not a number": (lines_of(0, 1, ids=[1, "two"]), 5, "the id 'two' is out of order"),
    "range out of order": (lines_of(0, "_", ids=[1, "1-2"]), 5, "the id '1-2' is out of order"),
    "range beyond the end": (lines_of("_", 0, 1, ids=["1-3", 1, 2]), 4, "the id '1-3' is out of order"),
    "empty node out of order": (lines_of(0, "_", ids=[1, "1.2"]), 5, "the id '1.2' is out of order"),
    "empty nodes alone": (lines_of("_", ids=["0.1"]), 4, "no words, only empty nodes"),
    "nine columns": ("1\tw\t_\t_\t_\t_\t0\tr\t_\n\n", 4, "9 columns, but CoNLL-U has 10 separated by tabs."),
    "spaces": ("1 w _ _ _ _ 0 r _ _\n\n", 4, "1 columns, but CoNLL-U has 10 separated by tabs"),
    "columns of an empty node": (lines_of(0)[:-1] + EMPTY_NODE.replace("\t_\n", "\n") + "\n", 5, "9 columns"),
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
        assert (stream.skipped, len(stream.reasons)) == (2, 2)
        assert re.search(expected, stream.reasons[0])
        assert list(treebank.strings["forms"]) == ["_", "Yes"], "strings of skipped sentences are not taken in"
        assert treebank.text == (GOOD + GOOD).replace("\n", newline).encode()


def test_bytes_that_are_not_utf8_are_named_or_skipped(tmp_path):
    path = tmp_path / "a.conllu"
    bad = GOOD.encode().replace(b"Yes", b"Y\xe9s")
    path.write_bytes(bad + GOOD.encode() + bad.replace(b"a comment", b"\xff\n# more"))
    with pytest.raises(DataFileError, match=re.escape(f"{path}, line 2: not UTF-8 text")):
        read_treebank(path)
    treebank, stream = skipping(path)
    assert [reason.split(", ")[-1].split(":")[0] for reason in stream.reasons] == ["line 2", "line 7"]
    assert treebank.text == GOOD.encode()
    path.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(DataFileError, match="line 1: not UTF-8"):
        read_treebank(path)


def test_reasons_are_the_first_ones_and_a_clean_file_does_not_warn(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text((lines_of(2, 1) + GOOD) * 30)
    treebank, stream = skipping(path)
    assert (stream.skipped, len(stream.reasons), len(treebank)) == (30, 10, 30)
    assert "line 55:" in stream.reasons[-1]
    path.write_text(GOOD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_treebank(path, on_error="skip")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n\n", "\ufeff", " "])
def test_files_without_a_sentence(tmp_path, text):
    path = tmp_path / "a.conllu"
    path.write_text(text)
    with pytest.raises(DataFileError, match=re.escape(f"{path}") + "( holds no sentence.|, line 1: 1 columns)"):
        read_treebank(path)


def test_roots_and_missing_heads_are_checked_on_request(tmp_path):
    path = tmp_path / "a.conllu"
    path.write_text(GOOD + lines_of(0, 0, 1, 0))
    assert read_treebank(path)[1].heads == [0, 0, 1, 0]
    with pytest.raises(DataFileError, match=r"line 5: 3 words have head 0, and single_root=True allows one: word 2"):
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
    with pytest.raises(DataFileError, match="line 4: 11 columns, but CoNLL-2008 has at least 10, as many in all"):
        read_treebank(path)
    path.write_text(line.format(1).replace("\tr\t_", "") + "\n")
    with pytest.raises(DataFileError, match="line 1: 9 columns, but CoNLL-2008 has at least 10"):
        read_treebank(path)


@given(data=files(), draw=st.data())
def test_a_damaged_file_is_read_or_refused_and_never_written_otherwise(tmp_path_factory, data, draw):
    damaged = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 4))):
        at = draw.draw(st.integers(0, max(0, len(damaged) - 1)))
        damaged[at : at + draw.draw(st.integers(0, 3))] = draw.draw(st.sampled_from(DAMAGE))
    folder = tmp_path_factory.getbasetemp()
    path, copied = folder / "damaged.conllu", folder / "copy.conllu"
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
    assert (len(treebank), treebank.n_words, stream.skipped) == (4293, 139104, 7)
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
        (Sentence(forms=["a\tb"]), r"Sentence 2, word 1: 'a\\tb' among forms is not a string of one line"),
        (Sentence(forms=["a"], upos=[3]), "Sentence 2, word 1: 3 among upos"),
        (Sentence(forms=["a"], heads=["x"]), "Sentence 2, word 1: 'x' among heads is not the number"),
        (Sentence(forms=["a", "b"], heads=[0, 0.5]), "Sentence 2, word 2: 0.5 among heads"),
        (Sentence(forms=["a"], heads=[2]), "Sentence 2, word 1: the head 2 of word 1 is out of range"),
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
