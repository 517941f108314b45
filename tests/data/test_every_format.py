"""Streams of every format of text: joined blocks are the whole file, and what is wrong is named or
left out.
"""

import io
import re

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from omkl.data import (
    Stream,
    count_svmlight_features,
    read_sequences,
    read_treebank,
    stream_conllu,
    stream_csv,
    stream_sequences,
    stream_svmlight,
    synthetic_treebank,
    write_treebank,
)
from omkl.data.streams import Skipped
from omkl.data.svmlight import _parsed
from omkl.exceptions import (
    DamagedFileError,
    DataFileError,
    DataWarning,
    InputError,
    TruncatedFileError,
)

from .stream_files import COMPRESSIONS, cut_short, damage, listed, peak_memory, read_all, write

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
    csv = pa.BufferOutputStream()
    pyarrow.csv.write_csv(
        pa.table({"a": rng.standard_normal(4000), "y": np.arange(4000), "b": [0.5, None] * 2000}),
        csv,
    )
    path = tmp_path_factory.mktemp("text") / "a.conllu"
    write_treebank(path, synthetic_treebank(600, random_state=0))
    return {
        "svm": random_text(rng, 2000),
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
        return np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()]), table[
            "y"
        ].to_numpy()
    return (read_treebank(path), None) if format == "conllu" else read_sequences(path)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("format", ["svm", "csv", "conllu", "crfsuite", "jsonl"])
def test_blocks_joined_are_the_whole_file(tmp_path, texts, format, suffix):
    expected = listed(*read_whole(format, write(tmp_path / f"whole.{format}", texts[format])))
    path = write(tmp_path / f"a.{format}{suffix}", texts[format])
    stream = STREAMS[format](path, block_size=70)
    for epoch in range(2):
        assert listed(*read_all(stream, epoch)) == expected
    assert listed(*read_all(STREAMS[format]([path, path]))) == expected * 2


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("format", ["svm", "csv", "conllu"])
def test_a_file_cut_short_is_read_up_to_there(tmp_path, texts, format, suffix):
    good = write(tmp_path / f"good.{format}", texts[format])
    path = cut_short(write(tmp_path / f"a.{format}{suffix}", texts[format]))
    expected = listed(*read_whole(format, good))
    message = re.escape(path.name) + r", after \d+ \w+: the file is cut short"
    with pytest.raises(TruncatedFileError, match=message):
        read_all(STREAMS[format]([good, path]))
    stream = STREAMS[format]([good, path], on_error="skip")
    with pytest.warns(DataWarning, match=message + ", and the rest of it is left out"):
        examples = listed(*read_all(stream))
    n = len(examples) - len(expected)
    assert stream.skipped == 1
    # a block of bz2 is the whole file
    assert (len(expected) // 4 if suffix != ".bz2" else 0) <= n < len(expected)
    assert examples == expected + expected[:n]


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
@pytest.mark.parametrize("format", ["svm", "csv", "conllu"])
def test_a_damaged_file_is_never_read_to_its_end(tmp_path, texts, format, suffix):
    good = write(tmp_path / f"good.{format}", texts[format])
    path = damage(write(tmp_path / f"a.{format}{suffix}", texts[format]))
    with pytest.raises(
        DataFileError, match=rf"a\.{format}{suffix}, (after \d+ \w+: the file is|line \d+:|row \d+)"
    ):
        read_all(STREAMS[format]([good, path]))
    stream = STREAMS[format]([good, path], on_error="skip")
    with pytest.warns(DataWarning, match="skipped"):
        read_all(stream)
    assert stream.skipped >= 1


WORDS, NUMBERS = '{"x": ["a", "b"], "y": ["A", "B"]}\n', '{"x": [[1, 2.5]]}\n'
DICTS = '{"x": [{"w": "a", "v": [1, 2], "d": {"e": true}, "n": null}]}\n'
# a format, examples that are right, a wrong one, the number of its line after them, and what the
# message says
WRONG = [
    *(
        ("svm", SPARSE, f"{line}\n", 4, message)
        for line, message in [
            ("x 1:1", "'x' is not a label"),
            ("1:1", "'1:1' is not a label"),
            ("nan 1:1", "'nan' is not a label"),
            ("1_0 1:1", "'1_0' is not a label"),
            ("1 1:2_0", "'1:2_0' is not index:value"),
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
    ("columns", "a A\nb B\n\n", "a b c\n\n", 4, "found 3 columns for a token, not 2"),
    *(
        ("jsonl", JSONL, f"{line}\n", 4, "expected")
        for line in ['{"x": [', '{"x": ["\udcff"], "y": [1]}']
    ),
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
    path = write(
        tmp_path / f"a.{format}.gz",
        (good + bad + good).encode(errors="surrogateescape"),
    )
    expected = listed(*read_all(STREAMS[format](write(tmp_path / f"good.{format}", good * 2))))
    place = rf"a\.{format}\.gz, line {line}: .*({message})"
    with pytest.raises(DataFileError, match=place) as error:
        read_all(STREAMS[format](path, block_size=7))
    assert len(str(error.value)) < 700
    stream = STREAMS[format](path, block_size=7, on_error="skip")
    for _ in range(2):
        with pytest.warns(DataWarning, match="^1 record was skipped, the first at .*" + place):
            assert listed(*read_all(stream)) == expected
        assert stream.skipped == stream.shuffled().skipped == len(stream.reasons) == 1


@pytest.mark.slow
@pytest.mark.parametrize("format", ["svm", "csv", "conllu", "crfsuite", "jsonl"])
def test_memory_is_that_of_a_block_whatever_the_size_of_the_file(tmp_path, texts, format):
    header = b""
    body = texts[format]
    if format == "csv":
        header = body.split(b"\n", 1)[0] + b"\n"
        body = body.split(b"\n", 1)[1]
    # more than is read at a time
    n = (120_000 if format in ("crfsuite", "jsonl") else 4_000_000) // len(body)
    small, large = (write(tmp_path / f"{k}.{format}", header + body * (k * n)) for k in (1, 3))
    peaks = [peak_memory(STREAMS[format](path, block_size=20)) for path in (small, large)]
    assert peaks[1] - peaks[0] < 0.5 * (large.stat().st_size - small.stat().st_size)


def parsed(text, n_features=100, first_index=1):
    return _parsed(text, first_index, n_features, "a.svm", 0, Skipped(on_error="raise"))


def same(X, y, expected):
    assert_array_equal(X.toarray(), expected[0].toarray())
    assert_array_equal(y, expected[1])


def random_text(rng, n=500, d=40, zero_based=False):
    file = io.BytesIO()
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2)
    X[0, -1] = 1.0
    dump_svmlight_file(
        X,
        rng.integers(-1, 2, n),
        file,
        zero_based=zero_based,
        comment="two\nlines",
    )
    return file.getvalue()


NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(
        r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,2})?", fullmatch=True
    ),
)


@given(numbers=st.lists(NUMBER, min_size=1, max_size=20))
def test_numbers_are_the_nearest_floats(numbers):
    lines = "".join(f"{number} 1:{number}\n" for number in numbers)
    X, y = parsed(lines.encode())
    expected = [float(number) for number in numbers]
    assert y.tolist() == expected
    assert X.data.tolist() == expected


@st.composite
def files(draw):
    lines = []
    for _ in range(draw(st.integers(1, 12))):
        indices = sorted(draw(st.sets(st.integers(1, 60), max_size=6)))
        blank = draw(st.sampled_from([" ", "  ", "\t"]))
        pairs = [f"{i}:{draw(st.integers(-999, 999)) / 8}" for i in indices]
        query = [f"qid:{draw(st.integers(0, 9))}"] if draw(st.booleans()) else []
        line = blank.join([str(draw(st.integers(-3, 3))), *query, *pairs])
        lines.append(line + draw(st.sampled_from(["", " ", " # 3:x", "#", "\r"])))
        lines += draw(st.sampled_from([[], [""], ["# comment"], ["   "]]))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


@given(text=files())
def test_blanks_comments_and_queries_are_read_as_scikit_learn_reads_them(text):
    expected = load_svmlight_file(
        io.BytesIO(text.encode()),
        n_features=60,
        zero_based=False,
    )
    same(*parsed(text.encode(), 60), expected)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("zero_based", [False, True])
def test_blocks_of_svmlight_are_the_whole_file_whatever_counts_from_zero(
    tmp_path, rng, suffix, zero_based
):
    text = random_text(rng, zero_based=zero_based)
    path = write(tmp_path / f"a.svm{suffix}", text)
    expected = load_svmlight_file(io.BytesIO(text), zero_based=zero_based)
    for n_features, block_size in ((40, 64), (None, 1000)):
        stream = stream_svmlight(path, n_features, zero_based=zero_based, block_size=block_size)
        for epoch in range(2):
            same(*read_all(stream, epoch), expected)
    assert count_svmlight_features(path, zero_based=zero_based) == 40


def test_many_files_are_one_stream(tmp_path, rng):
    texts = [random_text(rng, 70) for _ in range(3)]
    for name, text in zip(("b.svm", "c.svm.gz", "a.svm.xz"), texts):
        write(tmp_path / name, text)
    write(tmp_path / ".hidden", "nonsense")
    write(tmp_path / "_SUCCESS", "")
    joined = load_svmlight_file(io.BytesIO(b"".join([texts[2], texts[0], texts[1]])), n_features=40)
    same(*read_all(stream_svmlight(tmp_path, 40, block_size=50)), joined)
    same(*read_all(stream_svmlight(tmp_path / "[abc].svm*", 40, block_size=50)), joined)
    listed = [tmp_path / "a.svm.xz", tmp_path / "b.svm", tmp_path / "c.svm.gz"]
    same(*read_all(stream_svmlight(listed, 40, block_size=50)), joined)


def test_arguments_that_are_wrong_are_named(tmp_path):
    path = write(tmp_path / "a.svm", "1 1:1\n")
    for arguments, message in (
        ({"n_features": 0}, "n_features must be"),
        ({"block_size": 0}, "block_size must be"),
        ({"on_error": "stop"}, "on_error must be"),
    ):
        with pytest.raises(InputError, match=message):
            stream_svmlight(path, **arguments)
    for missing in (tmp_path / "nowhere", tmp_path / "*.csv", [path, tmp_path / "nowhere"]):
        with pytest.raises(DataFileError, match="There is no file"):
            stream_svmlight(missing)
    with pytest.raises(InputError, match="a path, or the list of paths, is empty"):
        stream_svmlight([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataFileError, match="There is no file"):
        stream_svmlight(tmp_path / "empty")
    with pytest.raises(DataFileError, match=r"holds no example"):
        read_all(stream_svmlight(write(tmp_path / "empty.svm", "# nothing\n")))
    assert isinstance(stream_svmlight(path), Stream)
    assert issubclass(TruncatedFileError, DamagedFileError)


def test_wrong_lines_do_not_count_as_columns(tmp_path):
    (tmp_path / "a.svm").write_text("-1 2:1\n1 3:2 3:4\n")
    with pytest.raises(DataFileError, match=r"line 2.*'3:4' has an index not larger"):
        list(stream_svmlight(tmp_path / "a.svm").blocks())
    with pytest.warns(DataWarning):
        [block] = stream_svmlight(tmp_path / "a.svm", on_error="skip").blocks()
    assert block.X.shape == (1, 2)
