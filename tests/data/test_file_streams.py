"""Streams of treebanks, sequences, arrays and formats of one's own equal the whole files, in the memory of a block."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omkl.cli import main
from omkl.data import (
    Stream,
    StreamFormat,
    find_format,
    open_stream,
    read_treebank,
    stream_conllu,
    stream_npz,
    stream_sequences,
    synthetic_treebank,
    write_treebank,
)
from omkl.exceptions import DamagedFileError, DataFileError, DataWarning, InputError

from .stream_files import cut_short, damage, whole, write
from .treebank.treebank_files import columns_of


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A treebank of 600 sentences."""
    path = tmp_path_factory.mktemp("text") / "a.conllu"
    write_treebank(path, synthetic_treebank(600, random_state=0))
    return path.read_bytes()


def test_treebanks_share_their_strings_between_files_and_passes(tmp_path, text):
    sentences = text.split(b"\n\n")
    write(tmp_path / "1.conllu", b"\n\n".join(sentences[300:]))
    write(tmp_path / "2.conllu.gz", b"\n\n".join(sentences[:300]) + b"\n\n")
    stream = stream_conllu(tmp_path, block_size=100)
    both = columns_of(list(read_treebank(tmp_path / "1.conllu")) + list(read_treebank(tmp_path / "2.conllu.gz")))
    assert columns_of(whole(stream)[0]) == both
    shuffled = stream.shuffled(200, random_state=0)
    assert sorted(columns_of(whole(shuffled)[0])) == sorted(both)


CRFSUITE = "B\tw=dog\tlen:3\nO\tw=cat\n\n\nO\tw=a\\:b\n\n"


def test_sequences_without_labels(tmp_path):
    path = write(tmp_path / "a.jsonl", '{"x": [[0, 1]]}\n' * 5)
    assert whole(stream_sequences(path, block_size=2)) == ([[[0, 1]]] * 5, None)
    assert [y for _, y in stream_sequences(path)] == [None] * 5


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
        ({"X": "Z"}, "must hold an array 'Z'; its arrays are 'X', 'y', 'F', 'scalar'"),
        ({"y": "Z"}, "must hold an array 'Z'"),
        ({}, "not 2000 and 1999"),
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
        ({"target": "y"}, "fixed place for outputs"),
        ({"delimiter": ";"}, "read as svmlight, for which there is no delimiter="),
    ):
        with pytest.raises(InputError, match=message):
            open_stream(tmp_path / "a9a", **arguments)


class Semicolons(StreamFormat):
    """Numbers between semicolons; the last one is the output."""

    aliases = {"semicolons": {}}
    suffixes = (".semi",)

    def open(self, path, *, scale=1.0):
        rows = np.loadtxt(path, delimiter=";", ndmin=2)
        return Stream.from_arrays(scale * rows[:, :-1], rows[:, -1])


@pytest.fixture
def path(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    np.savetxt(tmp_path / "rows.semi", np.column_stack([X, X[:, 0] > 0]), delimiter=";")
    return tmp_path / "rows.semi"


def test_it_is_found_by_its_suffix_and_by_its_name(path):
    assert open_stream(path).read().X.shape == (60, 3)
    other = path.rename(path.with_suffix(".txt"))
    assert isinstance(find_format(other, "semicolons"), Semicolons)
    np.testing.assert_array_equal(
        open_stream(other, "semicolons", scale=2.0).read().X, 2 * open_stream(other, Semicolons()).read().X
    )


def test_the_command_line_trains_on_it(path, tmp_path):
    assert main(["train", "classifier", str(path), "-o", str(tmp_path / "m.npz"), "--epochs", "5", "--quiet"]) == 0
    report = tmp_path / "report.json"
    assert main(["evaluate", str(tmp_path / "m.npz"), str(path), "--json", str(report), "--quiet"]) == 0
    assert json.loads(report.read_text())["accuracy"] > 0.9


def test_what_it_does_not_take_is_refused(path):
    with pytest.raises(InputError, match="read as semicolons, for which there is no n_features="):
        open_stream(path, n_features=3)
    with pytest.raises(InputError, match="leave target= out"):
        open_stream(path, target="y")
    with pytest.raises(InputError, match=r"Unknown format 'xml': choose one of .*semicolons"):
        open_stream(path, "xml")
