"""Streams of treebanks, sequences and arrays equal what is read whole, in the memory of a block."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omkl.data import (
    open_stream,
    read_sequences,
    read_treebank,
    stream_conllu,
    stream_npz,
    stream_sequences,
    synthetic_treebank,
    write_treebank,
)
from omkl.exceptions import DamagedFileError, DataFileError, DataWarning, InputError, TruncatedFileError

from .stream_files import COMPRESSIONS, cut_short, damage, peak_memory, whole, write
from .treebank.treebank_files import COLUMNS, columns_of


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A treebank of 600 sentences."""
    path = tmp_path_factory.mktemp("text") / "a.conllu"
    write_treebank(path, synthetic_treebank(600, random_state=0))
    return path.read_bytes()


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_treebanks_joined_are_the_whole_file(tmp_path, text, suffix):
    path = write(tmp_path / f"a.conllu{suffix}", text)
    expected = read_treebank(path)
    stream = stream_conllu(path, block_size=70, keep_text=True)
    for epoch in range(2):
        blocks = [block.X for block in stream.blocks(epoch)]
        assert [len(block) for block in blocks] == [70] * 8 + [40]
        assert all(block.y is None for block in stream.blocks())
        joined = type(expected).concatenate(blocks)
        for name in COLUMNS:
            assert_array_equal(getattr(joined, name), getattr(expected, name))
        assert joined.text == expected.text
        assert joined.strings["forms"].tolist() == expected.strings["forms"].tolist()


def test_treebanks_share_their_strings_between_files_and_passes(tmp_path, text):
    sentences = text.split(b"\n\n")
    write(tmp_path / "1.conllu", b"\n\n".join(sentences[300:]))
    write(tmp_path / "2.conllu.gz", b"\n\n".join(sentences[:300]) + b"\n\n")
    stream = stream_conllu(tmp_path, block_size=100)
    both = columns_of(list(read_treebank(tmp_path / "1.conllu")) + list(read_treebank(tmp_path / "2.conllu.gz")))
    assert columns_of(whole(stream)[0]) == both
    shuffled = stream.shuffled(200, random_state=0)
    assert sorted(columns_of(whole(shuffled)[0])) == sorted(both)


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_a_treebank_cut_short_is_read_up_to_there(tmp_path, text, suffix):
    sentences = columns_of(read_treebank(write(tmp_path / "whole.conllu", text)))
    path = cut_short(write(tmp_path / f"a.conllu{suffix}", text))
    after = r"after \d+ sentences: the file is cut short"
    with pytest.raises(TruncatedFileError, match=re.escape(f"{path.name}, ") + after):
        whole(stream_conllu(path))
    if suffix != ".bz2":  # whose blocks are longer than the file
        with pytest.warns(DataWarning, match=after):
            found = columns_of(whole(stream_conllu(path, on_error="skip"))[0])
        assert len(found) > 200
        assert found == sentences[: len(found)]


CRFSUITE = "B\tw=dog\tlen:3\nO\tw=cat\n\n\nO\tw=a\\:b\n\n"
JSONL = '{"x": [{"w": "a"}, {"w": "b"}], "y": ["A", "B"]}\n\n{"x": [{"w": "a"}], "y": [["t", 1]]}\n'


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_sequences_joined_are_the_whole_file(tmp_path, text, suffix):
    files = {"a.crfsuite": CRFSUITE * 50, "a.jsonl": JSONL * 50, "a.conllu": text.decode()[:20_000]}
    files["a.conllu"] = files["a.conllu"].rpartition("\n\n")[0]
    for name, content in files.items():
        path = write(tmp_path / f"{name}{suffix}", content)
        stream = stream_sequences(path, block_size=7)
        for epoch in range(2):
            assert whole(stream, epoch) == read_sequences(path)
        assert len(whole(stream_sequences([path, path]))[0]) == 2 * len(whole(stream)[0])


def test_sequences_without_labels(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"x": [[0, 1]]}\n' * 5)
    assert whole(stream_sequences(path, block_size=2)) == ([[[0, 1]]] * 5, None)
    assert [y for _, y in stream_sequences(path)] == [None] * 5


@pytest.mark.parametrize(
    ("name", "good", "bad", "message"),
    [
        ("a.crfsuite", CRFSUITE, "B\tw=x\nO\tw=dog:cat\n\n", "line 8: 'cat' is not a number"),
        ("a.crfsuite", CRFSUITE, "\tw=dog\n\n", "line 7: a token needs a label"),
        ("a.crfsuite", CRFSUITE, "B\tw=\udcff\n\n", "line 7: not UTF-8"),
        ("a.jsonl", JSONL, '{"x": [\n', "line 4: expected"),
        ("a.jsonl", JSONL, '{"x": ["\udcff"], "y": [1]}\n', "line 4: expected"),
        ("a.jsonl", JSONL, '{"x": [{}], "y": 3}\n', 'line 4: "y" must be a list'),
        ("a.jsonl", JSONL, '{"x": [{}]}\n', "line 4: expected dicts with labels, as in the sequences before"),
    ],
)
def test_sequences_that_are_wrong_are_named_or_counted(tmp_path, name, good, bad, message):
    path = write(tmp_path / f"{name}.gz", (good + bad + good).encode(errors="surrogateescape"))
    with pytest.raises(DataFileError, match=message):
        whole(stream_sequences(path))
    stream = stream_sequences(path, on_error="skip")
    with pytest.warns(DataWarning, match="1 record was skipped, the first at .*" + message):
        found = whole(stream)
    X, y = read_sequences(write(tmp_path / name, good))
    assert found == (X * 2, y * 2)
    assert stream.skipped == 1


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, "<U3"])
def test_archives_joined_are_the_whole_file(tmp_path, rng, save, dtype):
    X, y = rng.integers(0, 100, (203, 7)).astype(dtype), rng.integers(0, 3, 203)
    save(tmp_path / "a.npz", X=X, y=y, other=np.zeros(3))
    stream = stream_npz(tmp_path / "a.npz", block_size=50)
    for epoch in range(2):
        found = whole(stream, epoch)
        assert_array_equal(found[0], X)
        assert_array_equal(found[1], y)
        assert found[0].dtype == dtype
    save(tmp_path / "b.npz", inputs=X)
    assert_array_equal(whole(stream_npz(tmp_path / "b.npz", X="inputs"))[0], X)
    assert whole(stream_npz(tmp_path / "b.npz", X="inputs"))[1] is None


def test_archives_that_are_wrong_are_named(tmp_path, rng):
    X, path = rng.standard_normal((2000, 50)), tmp_path / "a.npz"
    np.savez(path, X=X, y=np.zeros(1999), F=np.asfortranarray(X), scalar=3.0)
    for arguments, message in (
        ({"X": "Z"}, "has no array 'Z'; its arrays are 'X', 'y', 'F', 'scalar'"),
        ({"y": "Z"}, "has no array 'Z'"),
        ({}, "'X' has 2000 rows, but 'y' has 1999"),
        ({"X": "scalar"}, "must hold arrays of numbers or strings in rows"),
    ):
        with pytest.raises(DataFileError, match=message):
            whole(stream_npz(path, **arguments))
    np.savez(path, X=X)
    for change in (damage, cut_short):
        broken = change(write(tmp_path / f"{change.__name__}.npz", path.read_bytes()))
        with pytest.raises(DamagedFileError, match=r"after \d+ examples: the file is damaged"):
            whole(stream_npz(broken))
        stream = stream_npz([broken, path], on_error="skip")
        with pytest.warns(DataWarning, match="the rest of it is left out"):
            assert_array_equal(whole(stream)[0][-2000:], X)
        assert stream.skipped == 1


def test_memory_is_that_of_a_block_whatever_the_size_of_the_file(tmp_path, text, rng):
    for name, content, stream, sizes in (
        ("a.conllu", text + b"\n", stream_conllu, (6, 30)),
        ("a.crfsuite", CRFSUITE.encode() * 100, stream_sequences, (20, 120)),
        ("a.jsonl", JSONL.encode() * 100, stream_sequences, (20, 60)),
    ):
        small, large = (write(tmp_path / f"{n}{name}", content * n) for n in sizes)
        peaks = [peak_memory(stream(path, block_size=20)) for path in (small, large)]
        assert peaks[1] - peaks[0] < 0.5 * (large.stat().st_size - small.stat().st_size), name


def test_the_name_of_a_file_tells_its_format(tmp_path, text):
    np.savez(tmp_path / "a.npz", X=np.eye(3), label=np.arange(3))
    files = {
        "a9a": "1 1:1\n",
        "a.svm.bz2": "1 1:1\n",
        "a.LIBSVM": "1 1:1\n",
        "a.csv": "u,v\n1,2\n",
        "a.tsv.gz": "u\tv\n1\t2\n",
        "a.conllu.gz": text,
        "a.jsonl": json.dumps({"x": [{"a": 1}], "y": ["b"]}),
        "a.crfsuite": CRFSUITE,
    }
    for name, content in files.items():
        write(tmp_path / name, content)
    for name in ("a9a", "a.svm.bz2", "a.LIBSVM"):
        assert whole(open_stream(tmp_path / name, n_features=3))[0].shape == (1, 3)
    for name in ("a.csv", "a.tsv.gz"):
        X, y = whole(open_stream(tmp_path / name, target=-1, block_size=5))
        assert (X.tolist(), y.tolist()) == ([[1.0]], [2])
    assert len(whole(open_stream(tmp_path / "a.conllu.gz"))[0]) == 600
    assert whole(open_stream(tmp_path / "a.jsonl"))[1] == [["b"]]
    assert whole(open_stream(tmp_path / "a.crfsuite"))[1] == [["B", "O"], ["O"]]
    assert whole(open_stream(tmp_path / "a.npz", target="label"))[1].tolist() == [0, 1, 2]
    for arguments, message in (
        ({"format": "xml"}, "Unknown format 'xml'"),
        ({"target": "y"}, "places of their own"),
        ({"delimiter": ";"}, "read as svmlight, for which there is no delimiter="),
    ):
        with pytest.raises(InputError, match=message):
            open_stream(tmp_path / "a9a", **arguments)
