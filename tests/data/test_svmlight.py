"""svmlight's format: blocks hold what scikit-learn reads at once, and errors name the wrong lines."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from omkl.data import Stream, count_svmlight_features, stream_svmlight
from omkl.data.streams import Skipped
from omkl.data.svmlight import _parsed
from omkl.exceptions import DamagedFileError, DataFileError, DataWarning, InputError, TruncatedFileError

from .stream_files import COMPRESSIONS, whole, write


def parsed(text, n_features=100, first_index=1):
    return _parsed(text, first_index, n_features, "a.svm", 0, Skipped(on_error="raise"))


def same(X, y, expected):
    assert_array_equal(X.toarray(), expected[0].toarray())
    assert_array_equal(y, expected[1])


def random_text(rng, n=500, d=40, zero_based=False):
    file = io.BytesIO()
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.2)
    X[0, -1] = 1.0
    dump_svmlight_file(X, rng.integers(-1, 2, n), file, zero_based=zero_based, comment="two\nlines")
    return file.getvalue()


NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"[+-]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)


@given(numbers=st.lists(NUMBER, min_size=1, max_size=20))
def test_numbers_are_the_nearest_floats(numbers):
    lines = "".join(f"{number} 1:{number}\n" for number in numbers)
    X, y = parsed(lines.encode())
    expected = [float(number) for number in numbers]
    assert y.tolist() == expected
    assert X.data.tolist() == expected


def test_random_bits_survive_printing(rng):
    bits = rng.integers(0, 1 << 63, 20_000, dtype=np.int64).view(np.float64)
    bits = bits[np.isfinite(bits)]
    assert_array_equal(parsed("".join(f"{x!r}\n" for x in bits.tolist()).encode()).y, bits)


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
    expected = load_svmlight_file(io.BytesIO(text.encode()), n_features=60, zero_based=False)
    same(*parsed(text.encode(), 60), expected)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("zero_based", [False, True])
def test_blocks_joined_are_the_whole_file(tmp_path, rng, suffix, zero_based):
    text = random_text(rng, zero_based=zero_based)
    path = write(tmp_path / f"a.svm{suffix}", text)
    expected = load_svmlight_file(io.BytesIO(text), zero_based=zero_based)
    for n_features, block_size in ((40, 64), (None, 1000)):
        stream = stream_svmlight(path, n_features, zero_based=zero_based, block_size=block_size)
        for epoch in range(2):
            same(*whole(stream, epoch), expected)
    assert count_svmlight_features(path, zero_based=zero_based) == 40


def test_many_files_are_one_stream(tmp_path, rng):
    texts = [random_text(rng, 70) for _ in range(3)]
    for name, text in zip(("b.svm", "c.svm.gz", "a.svm.xz"), texts):
        write(tmp_path / name, text)
    write(tmp_path / ".hidden", "nonsense")
    write(tmp_path / "_SUCCESS", "")
    joined = load_svmlight_file(io.BytesIO(b"".join([texts[2], texts[0], texts[1]])), n_features=40)
    same(*whole(stream_svmlight(tmp_path, 40, block_size=50)), joined)
    same(*whole(stream_svmlight(tmp_path / "[abc].svm*", 40, block_size=50)), joined)
    listed = [tmp_path / "a.svm.xz", tmp_path / "b.svm", tmp_path / "c.svm.gz"]
    same(*whole(stream_svmlight(listed, 40, block_size=50)), joined)


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
        whole(stream_svmlight(write(tmp_path / "empty.svm", "# nothing\n")))
    assert isinstance(stream_svmlight(path), Stream)
    assert issubclass(TruncatedFileError, DamagedFileError)


def test_wrong_lines_do_not_count_as_columns(tmp_path):
    (tmp_path / "a.svm").write_text("-1 2:1\n1 3:2 3:4\n")
    with pytest.raises(DataFileError, match=r"line 2.*'3:4' has an index not larger"):
        list(stream_svmlight(tmp_path / "a.svm").blocks())
    with pytest.warns(DataWarning):
        [block] = stream_svmlight(tmp_path / "a.svm", on_error="skip").blocks()
    assert block.X.shape == (1, 2)
