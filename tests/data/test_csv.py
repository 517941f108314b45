"""Unusual CSV: line ends in cells, unclosed quotation marks, bad cells, and pipes."""

import csv
import io
import os
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from omkl.data import open_stream, stream_csv, stream_npz, stream_parquet, stream_svmlight
from omkl.data.csv_files import _after_last_row as after_last_row
from omkl.exceptions import DataFileError, DataWarning, InputError

from .stream_files import whole, write

cells = st.text(st.sampled_from('ab1,\n\r"\t é'), max_size=6)
tables = st.integers(2, 4).flatmap(lambda width: st.lists(st.tuples(*[cells] * width), min_size=1, max_size=8))


@given(table=tables, stray=st.integers(0, 40))
def test_after_any_cut_the_rest_begins_with_a_row(table, stray):
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(table)
    text = sink.getvalue().encode()
    end = after_last_row(text[: len(text) - stray % len(text)])
    n_whole = len(list(csv.reader(io.StringIO(text[:end].decode(), newline=""))))
    rest = list(csv.reader(io.StringIO(text[end:].decode(), newline="")))
    assert [tuple(row) for row in rest] == table[n_whole:]


@given(table=tables)
def test_rows_are_those_of_pythons_reader(table, tmp_path_factory):
    """Quoted line ends and quotation marks; the blank and empty cells of a column are missing."""
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    names = [f"c{i}" for i in range(len(table[0]))]
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([names, *table])
    found = stream_csv(path, categorical=names).read().X
    assert found == [{name: cell for name, cell in zip(names, row) if cell} for row in table]


def test_a_quotation_mark_that_is_never_closed_ends_the_file(tmp_path):
    rows = [f"{i},c,0" for i in range(3000)]
    rows[1000] = '1000,"c,0'
    path = write(tmp_path / "a.csv", "x,s,y\n" + "\n".join(rows) + "\n")
    with pytest.raises(DataFileError, match=r"a\.csv, row 1002: an unclosed quotation mark"):
        whole(stream_csv(path, "y"))
    good = write(tmp_path / "b.csv", "x,s,y\n1,c,0\n")
    with pytest.warns(DataWarning, match="the rest of it is left out"):
        assert whole(stream_csv([good, path], "y", on_error="skip"))[0] == [{"x": 1.0, "s": "c"}]
    # a quotation mark within a cell is a character
    path = write(tmp_path / "b.csv", "x,s\n" + "".join(f'{i},5" pipe\n' for i in range(3000)))
    assert whole(stream_csv(path))[0] == [{"x": float(i), "s": '5" pipe'} for i in range(3000)]


def test_text_that_is_not_utf8(tmp_path):
    path = write(tmp_path / "a.csv", b"s,y\na,0\n\nb,1\n\xff,0\n")
    with pytest.raises(DataFileError, match=r"a\.csv, row 2 or later: expected text in UTF-8"):
        stream_csv(path, "y").read()


def test_missing_cells(tmp_path):
    path = write(tmp_path / "a.csv", "country,x,y\nNA,1,null\nDE,NA,b\n,n/a,NA\n")
    X, y = whole(stream_csv(path, "y"))
    assert X == [{"country": "NA", "x": 1.0}, {"country": "DE"}, {}]
    assert y.tolist() == ["null", "b", "NA"]
    good = "".join(f"{k},{'NA' if k % 2 else k},0\n" for k in range(300))
    X, _ = whole(stream_csv(write(tmp_path / "b.csv", f"a,b,y\n{good}?,1,0\n1,NA,0\n"), "y", columns=["b"]))
    assert_array_equal(X[:, 0], [*(np.nan if k % 2 else k for k in range(300)), 1, np.nan])


def test_integer_targets_are_exact(tmp_path):
    classes = [2**53, 2**53 + 1, -(2**62) - 1]
    path = write(tmp_path / "a.csv", "x,y\n" + "".join(f"0,{y}\n" for y in [*classes, ""]))
    with pytest.warns(DataWarning):
        assert whole(stream_csv(path, "y", on_error="skip"))[1].tolist() == classes


@pytest.mark.parametrize("bad", ["?", "1_0", "12a", '"1,2"'])
def test_one_bad_cell_makes_no_column_of_strings(tmp_path, bad):
    path = write(tmp_path / "a.csv", f"a,b\n1,2\n3,4\n{bad},6\n7,8\n")
    with pytest.raises(DataFileError, match=r"row 4: .* in column 'a' is not a number: name the column"):
        whole(stream_csv(path))
    with pytest.warns(DataWarning, match="1 record was skipped"):
        assert_array_equal(whole(stream_csv(path, on_error="skip"))[0], [[1, 2], [3, 4], [7, 8]])
    assert whole(stream_csv(path, categorical=["a"]))[0][0] == {"a": "1", "b": 2.0}
    tickets = "".join(f"{i if i % 4 else 'A/5 ' + str(i)},0\n" for i in range(100))
    assert isinstance(whole(stream_csv(write(tmp_path / "b.csv", "a,b\n" + tickets)))[0], list)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends(tmp_path, end, last):
    text = end.join(["", "x,s", *(f"{k},a" for k in range(50_000)), "7,b"]) + (end if last else "")
    X, _ = whole(stream_csv(write(tmp_path / "a.csv.gz", text)))
    assert [*({"x": float(k), "s": "a"} for k in range(50_000)), {"x": 7.0, "s": "b"}] == X


def test_infinite_numbers_are_refused_where_they_are(tmp_path):
    path = write(tmp_path / "a.csv", "x,y\n1,0\n1e999,0\n-inf,0\n3,0\n")
    with pytest.raises(DataFileError, match=r"row 3: the number in column 'x' is infinite"):
        whole(stream_csv(path, "y"))
    with pytest.warns(DataWarning, match="2 records were skipped"):
        assert_array_equal(whole(stream_csv(path, "y", on_error="skip"))[0], [[1], [3]])


def test_columns_of_one_name_can_stand_where_none_is_asked_for(tmp_path):
    path = write(tmp_path / "a.csv", "a,t,t\n1,2,x\n")
    assert_array_equal(whole(stream_csv(path, columns=["a"]))[0], [[1]])
    for target in ("t", 1):
        with pytest.raises(InputError, match="several columns 't'"):
            stream_csv(path, target, columns=["a"])
    for delimiter in ("", ",,", "é", '"', "\n"):
        with pytest.raises(InputError, match="one ASCII character"):
            stream_csv(path, delimiter=delimiter)
    with pytest.raises(DataFileError, match=r"row 1: there are 0 cells .* no text in UTF-8"):
        stream_csv(write(tmp_path / "b.csv", b"a,\xff\n1,2\n"))


def feed(path, data):
    thread = threading.Thread(target=path.write_bytes, args=[data])
    thread.start()
    return thread


def test_a_pipe_is_read_once_and_from_its_beginning(tmp_path):
    path, n = tmp_path / "pipe.csv", 100_000
    os.mkfifo(path)
    thread = feed(path, b"x,y\n" + b"".join(b"%d,0\n" % i for i in range(n)))
    stream = stream_csv(path, "y")
    assert stream.once
    assert_array_equal(whole(stream)[0][:, 0], np.arange(n))
    thread.join()
    with pytest.raises(InputError, match="which is a pipe, only once"):
        whole(stream)
    thread = feed(path, b"1 1:2\n0 2:1\n")
    assert whole(stream_svmlight(path, 2))[0].shape == (2, 2)
    thread.join()


@pytest.mark.parametrize("stream", [stream_parquet, stream_npz, stream_svmlight])
def test_a_pipe_that_must_be_read_here_and_there_is_refused_at_once(tmp_path, stream):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataFileError, match="is a pipe, which can be read only once and from the start"):
        whole(stream(tmp_path / "pipe"))
    with pytest.raises(DataFileError, match="is a pipe"):
        open_stream([tmp_path / "pipe"])
