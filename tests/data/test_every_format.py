"""Streams of every format of text: joined blocks are the whole file, and what is wrong is named or left out."""

import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from omkl.data import (
    read_sequences,
    read_treebank,
    stream_conllu,
    stream_csv,
    stream_sequences,
    stream_svmlight,
    synthetic_treebank,
    write_treebank,
)
from omkl.exceptions import DataFileError, DataWarning, TruncatedFileError

from .stream_files import COMPRESSIONS, cut_short, damage, listed, peak_memory, whole, write

CRFSUITE = "B\tw=dog\tlen:3\nO\tw=cat\n\n\nO\tw=a\\:b\n\n"
JSONL = '{"x": [{"w": "a"}, {"w": "b"}], "y": ["A", "B"]}\n\n{"x": [{"w": "a"}], "y": [["t", 1]]}\n'
SPARSE = "1 1:0.5 40:2\n-1\n0 3:1 # a comment\n"
STREAMS = {
    "svm": lambda path, **options: stream_svmlight(path, 40, **options),
    "csv": lambda path, **options: stream_csv(path, "y", **options),
    "conllu": stream_conllu,
    "crfsuite": stream_sequences,
    "jsonl": stream_sequences,
    "columns": stream_sequences,
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """A text of each format."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 40)) * (rng.random((2000, 40)) < 0.2)
    X[0, -1] = 1.0
    svm = io.BytesIO()
    dump_svmlight_file(X, rng.integers(-1, 2, 2000), svm, zero_based=False, comment="two\nlines")
    csv = pa.BufferOutputStream()
    pyarrow.csv.write_csv(
        pa.table({"a": rng.standard_normal(4000), "y": np.arange(4000), "b": [0.5, None] * 2000}), csv
    )
    path = tmp_path_factory.mktemp("text") / "a.conllu"
    write_treebank(path, synthetic_treebank(600, random_state=0))
    return {
        "svm": svm.getvalue(),
        "csv": csv.getvalue().to_pybytes(),
        "conllu": path.read_bytes(),
        "crfsuite": CRFSUITE.encode() * 50,
        "jsonl": JSONL.encode() * 50,
    }


def read_whole(format, path):
    """Inputs and outputs of a file by another reader."""
    if format == "svm":
        return load_svmlight_file(str(path), n_features=40)
    if format == "csv":
        table = pyarrow.csv.read_csv(path)
        return np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()]), table["y"].to_numpy()
    return (read_treebank(path), None) if format == "conllu" else read_sequences(path)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("format", ["svm", "csv", "conllu", "crfsuite", "jsonl"])
def test_blocks_joined_are_the_whole_file(tmp_path, texts, format, suffix):
    expected = listed(*read_whole(format, write(tmp_path / f"whole.{format}", texts[format])))
    path = write(tmp_path / f"a.{format}{suffix}", texts[format])
    stream = STREAMS[format](path, block_size=70)
    for epoch in range(2):
        assert listed(*whole(stream, epoch)) == expected
    assert listed(*whole(STREAMS[format]([path, path]))) == expected * 2


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("format", ["svm", "csv", "conllu"])
def test_a_file_cut_short_is_read_up_to_there(tmp_path, texts, format, suffix):
    good = write(tmp_path / f"good.{format}", texts[format])
    path, expected = (
        cut_short(write(tmp_path / f"a.{format}{suffix}", texts[format])),
        listed(*read_whole(format, good)),
    )
    message = re.escape(path.name) + r", after \d+ \w+: the file is cut short"
    with pytest.raises(TruncatedFileError, match=message):
        whole(STREAMS[format]([good, path]))
    stream = STREAMS[format]([good, path], on_error="skip")
    with pytest.warns(DataWarning, match=message + ", and the rest of it is left out"):
        found = listed(*whole(stream))
    n = len(found) - len(expected)
    assert stream.skipped == 1
    assert (len(expected) // 4 if suffix != ".bz2" else 0) <= n < len(expected)  # a block of bz2 is the whole file
    assert found == expected + expected[:n]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("format", ["svm", "csv", "conllu"])
def test_a_damaged_file_is_never_read_to_its_end(tmp_path, texts, format, suffix):
    good = write(tmp_path / f"good.{format}", texts[format])
    path = damage(write(tmp_path / f"a.{format}{suffix}", texts[format]))
    with pytest.raises(DataFileError, match=rf"a\.{format}{suffix}, (after \d+ \w+: the file is|line \d+:|row \d+)"):
        whole(STREAMS[format]([good, path]))
    stream = STREAMS[format]([good, path], on_error="skip")
    with pytest.warns(DataWarning, match="skipped"):
        whole(stream)
    assert stream.skipped >= 1


WORDS, NUMBERS = '{"x": ["a", "b"], "y": ["A", "B"]}\n', '{"x": [[1, 2.5]]}\n'
DICTS = '{"x": [{"w": "a", "v": [1, 2], "d": {"e": true}, "n": null}]}\n'
# a format, examples that are right, a wrong one, the number of its line after them, and what the message says
WRONG = [
    *(
        ("svm", SPARSE, f"{line}\n", 4, message)
        for line, message in [
            ("x 1:1", "'x' is not a label"),
            ("1:1", "'1:1' is not a label"),
            ("nan 1:1", "'nan' is not a label"),
            ("1e999 1:1", "'1e999' is not a label"),
            ("1 1:nan", "'1:nan' is not index:value"),
            ("1 a:1", "'a:1' is not index:value"),
            ("1 2:", "'2:' is not index:value"),
            ("1 2:1x", "'2:1x' is not index:value"),
            ("1 -2:1", "'-2:1' is not index:value"),
            ("1 2:1 2:1", "'2:1' has an index not larger"),
            ("1 0:1", "indices count from 1: set zero_based=True"),
            ("1 41:1", "beyond n_features=40"),
            ("1 12345678901234:1", "not index:value|beyond"),
            ("1 \udcff:1", "not index:value"),
        ]
    ),
    ("crfsuite", CRFSUITE, "B\tw=x\nO\tw=dog:cat\n\n", 8, "'cat' is not a number"),
    ("crfsuite", CRFSUITE, "\tw=dog\n\n", 7, "a token needs a label"),
    ("crfsuite", CRFSUITE, "B\tw=\udcff\n\n", 7, "not UTF-8"),
    *(
        ("crfsuite", CRFSUITE, f"B\tw:{number}\n\n", 7, "is not a number")
        for number in ["nan", "inf", "1e999", "-Infinity", "1_0", "x" * 5000]
    ),
    ("columns", "a A\nb B\n\n", "a b c\n\n", 4, "3 columns, where there should be 2"),
    *(("jsonl", JSONL, f"{line}\n", 4, "expected") for line in ['{"x": [', '{"x": ["\udcff"], "y": [1]}']),
    ("jsonl", JSONL, '{"x": [{}], "y": 3}\n', 4, '"y" must be a list'),
    ("jsonl", JSONL, '{"x": [{}]}\n', 4, "expected dicts with labels, as in the sequences before"),
    *(
        ("jsonl", good, f"{line}\n", 2, message)
        for good, line, message in [
            (WORDS, '{"x": ' + "[" * 990 + "]" * 990 + "}", "expected"),
            (WORDS, "[" * 100_000, "expected"),
            (WORDS, "null", "expected"),
            (WORDS, '{"x": 5}', "got 5"),
            (WORDS, '{"x": [], "y": []}', "expected"),
            (WORDS, '{"x": ["a", {"w": "b"}], "y": ["A", "B"]}', "tokens are all words"),
            (WORDS, '{"x": [{"w": "b"}], "y": ["A"]}', "expected words with labels, as in"),
            (WORDS, '{"x": ["a"]}', "expected words with labels"),
            (WORDS, '{"x": ["a"], "y": ["A", "B"]}', '"y" must be a list of 1 labels'),
            (WORDS, '{"x": ["a"], "y": "A"}', '"y" must be a list of 1 labels'),
            (WORDS, '{"x": ["a"], "y": [["t", ["u"]]]}', "strings, numbers, or lists of them"),
            (WORDS, '{"x": ["a"], "y": [NaN]}', "expected"),
            (WORDS, '{"x": ["a"], "y": [1e999]}', "expected"),
            (WORDS, '{"x": ["\\ud800"], "y": ["A"]}', "expected"),
            (NUMBERS, '{"x": [[1, -1E+4000]]}', "expected"),
            (NUMBERS, '{"x": [[1, ' + "9" * 5000 + "]]}", "expected"),
            (NUMBERS, '{"x": [[1, "2"]]}', "lists of as many numbers"),
            (NUMBERS, '{"x": [[1, 2], [3]]}', "lists of as many numbers"),
            (NUMBERS, '{"x": [[1, 2, 3]]}', "expected lists of 2 numbers without"),
            (DICTS, '{"x": [{"w": [["a"]]}]}', "tokens are all words"),
            (DICTS, '{"x": [{"w": {"a": "b"}}]}', "tokens are all words"),
        ]
    ),
]


@pytest.mark.parametrize(("format", "good", "bad", "line", "message"), WRONG)
def test_an_example_that_is_wrong_is_named_or_counted(tmp_path, format, good, bad, line, message):
    path = write(tmp_path / f"a.{format}.gz", (good + bad + good).encode(errors="surrogateescape"))
    expected = listed(*whole(STREAMS[format](write(tmp_path / f"good.{format}", good * 2))))
    place = rf"a\.{format}\.gz, line {line}: .*({message})"
    with pytest.raises(DataFileError, match=place) as error:
        whole(STREAMS[format](path, block_size=7))
    assert len(str(error.value)) < 700
    stream = STREAMS[format](path, block_size=7, on_error="skip")
    for _ in range(2):
        with pytest.warns(DataWarning, match="^1 record was skipped, the first at .*" + place):
            assert listed(*whole(stream)) == expected
        assert stream.skipped == stream.shuffled().skipped == len(stream.reasons) == 1


@pytest.mark.parametrize("format", ["svm", "csv", "conllu", "crfsuite", "jsonl"])
def test_memory_is_that_of_a_block_whatever_the_size_of_the_file(tmp_path, texts, format):
    header, body = b"", texts[format]
    if format == "csv":
        header, body = body.split(b"\n", 1)[0] + b"\n", body.split(b"\n", 1)[1]
    n = (120_000 if format in ("crfsuite", "jsonl") else 4_000_000) // len(body)  # more than is read at a time
    small, large = (write(tmp_path / f"{k}.{format}", header + body * (k * n)) for k in (1, 3))
    peaks = [peak_memory(STREAMS[format](path, block_size=20)) for path in (small, large)]
    assert peaks[1] - peaks[0] < 0.5 * (large.stat().st_size - small.stat().st_size)
