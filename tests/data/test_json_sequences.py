"""JSON lines: what training would stop at, or what Python would not get out of, is refused line by line."""

import pytest

from omkl.data import read_sequences, stream_sequences
from omkl.exceptions import DataFileError, DataWarning

from .stream_files import whole, write

WORDS, NUMBERS = '{"x": ["a", "b"], "y": ["A", "B"]}', '{"x": [[1, 2.5]]}'
DICTS = '{"x": [{"w": "a", "v": [1, 2], "d": {"e": true}, "n": null}]}'
BAD = [
    (WORDS, '{"x": ' + "[" * 990 + "]" * 990 + "}", r'tokens in "x" must|expected'),
    (WORDS, "[" * 100_000, "expected"),
    (WORDS, "null", "expected"),
    (WORDS, '{"x": 5}', '"x" must be a list of at least one token, got 5'),
    (WORDS, '{"x": [], "y": []}', '"x" must be a list of at least one token'),
    (WORDS, '{"x": ["a", {"w": "b"}], "y": ["A", "B"]}', 'tokens in "x" must be'),
    (WORDS, '{"x": [{"w": "b"}], "y": ["A"]}', "expected words with labels, as in"),
    (WORDS, '{"x": ["a"]}', "expected words with labels"),
    (WORDS, '{"x": ["a"], "y": ["A", "B"]}', '"y" must be a list of 1 labels'),
    (WORDS, '{"x": ["a"], "y": "A"}', '"y" must be a list of 1 labels'),
    (WORDS, '{"x": ["a"], "y": [["t", ["u"]]]}', "a label must be a string, a number"),
    (WORDS, '{"x": ["a"], "y": [NaN]}', "expected"),
    (WORDS, '{"x": ["a"], "y": [1e999]}', "expected"),
    (WORDS, '{"x": ["\\ud800"], "y": ["A"]}', "expected"),
    (NUMBERS, '{"x": [[1, -1E+4000]]}', "expected"),
    (NUMBERS, '{"x": [[1, ' + "9" * 5000 + "]]}", "expected"),
    (NUMBERS, '{"x": [[1, "2"]]}', 'tokens in "x" must be'),
    (NUMBERS, '{"x": [[1, 2], [3]]}', 'tokens in "x" must be'),
    (NUMBERS, '{"x": [[1, 2, 3]]}', "expected lists of 2 numbers without"),
    (DICTS, '{"x": [{"w": [["a"]]}]}', 'tokens in "x" must be'),
    (DICTS, '{"x": [{"w": {"a": "b"}}]}', 'tokens in "x" must be'),
]


def test_json_lines(tmp_path):
    path = write(
        tmp_path / "a.jsonl", '{"x": [{"w": "a"}, {"w": "b"}], "y": ["A", "B"]}\n\n{"x": [{}], "y": [["t", 1]]}\n'
    )
    assert read_sequences(path) == ([[{"w": "a"}, {"w": "b"}], [{}]], [["A", "B"], [("t", 1)]])
    assert read_sequences(write(path, '{"x": [[0, 1]]}\n')) == ([[[0, 1]]], None)
    with pytest.raises(DataFileError, match="holds no sequence"):
        read_sequences(write(path, ""))


@pytest.mark.parametrize(("good", "bad", "message"), BAD)
def test_one_line_that_is_wrong_costs_one_sequence(tmp_path, good, bad, message):
    path = write(tmp_path / "a.jsonl", f"{good}\n{bad}\n{good}\n")
    with pytest.raises(DataFileError, match=rf"a\.jsonl, line 2: .*({message})"):
        read_sequences(path)
    stream = stream_sequences(path, on_error="skip")
    with pytest.warns(DataWarning, match="1 record was skipped"):
        assert len(whole(stream)[0]) == 2
    assert len(stream.reasons[0]) < 500


@pytest.mark.parametrize("number", ["nan", "inf", "1e999", "-Infinity", "1_0", "x" * 5000])
def test_numbers_of_crfsuite_are_finite(tmp_path, number):
    path = write(tmp_path / "a.crfsuite", f"A\tw:1\n\nB\tw:{number}\n\nA\tw:2\n")
    with pytest.raises(DataFileError, match=r"line 3: .* is not a number") as error:
        read_sequences(path)
    assert len(str(error.value)) < 500
    with pytest.warns(DataWarning, match="1 record was skipped"):
        assert whole(stream_sequences(path, on_error="skip"))[1] == [["A"], ["A"]]
