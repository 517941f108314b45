"""CSV, Parquet and Arrow, also at URLs: blocks hold what pyarrow reads at once, and errors name the
wrong rows.
"""

import csv
import functools
import http.server
import io
import os
import re
import sys
import threading
import warnings
from contextlib import nullcontext

import fsspec
import numpy as np
import pandas
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from omkl.data import (
    open_stream,
    read_treebank,
    stream_csv,
    stream_npz,
    stream_parquet,
    stream_svmlight,
)
from omkl.data.csv_files import _after_last_row as after_last_row
from omkl.exceptions import (
    DamagedFileError,
    DataFileError,
    DataWarning,
    InputError,
    MissingDependencyError,
)

from .stream_files import COMPRESSIONS, cut_short, damage, read_all, write

N = 523


@pytest.fixture
def numbers(rng):
    return pa.table(
        {
            "a": rng.standard_normal(N),
            "i": rng.integers(-5, 5, N),
            "y": rng.integers(0, 3, N),
            "c": [None if x < -1 else x for x in rng.standard_normal(N).tolist()],
        }
    )


def matrix(table, names):
    return np.column_stack([table[name].to_numpy(zero_copy_only=False) for name in names])


def to_csv(path, table):
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, sink)
    return write(path, sink.getvalue().to_pybytes())


WRITERS = {
    "row groups": lambda table, path: pyarrow.parquet.write_table(table, path, row_group_size=100),
    "one group": pyarrow.parquet.write_table,
    "feather": pyarrow.feather.write_feather,
    "mapped": lambda table, path: pyarrow.feather.write_feather(
        table, path, compression="uncompressed", chunksize=77
    ),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_tables_joined_are_the_whole_file(tmp_path, numbers, writer):
    WRITERS[writer](numbers, tmp_path / "a.parquet")
    stream = stream_parquet(tmp_path / "a.parquet", "y", block_size=50)
    for epoch in range(2):
        X, y = read_all(stream, epoch)
        assert_array_equal(X, matrix(numbers, ["a", "i", "c"]))
        assert_array_equal(y, numbers["y"].to_numpy())
        assert X.dtype == np.float64
        assert y.dtype == np.int64
    WRITERS[writer](numbers, tmp_path / "b.parquet")
    assert len(read_all(stream_parquet(tmp_path, "y"))[0]) == 2 * N


ROWS = [
    {"size": 1.5, "color": "red"},
    {"size": 2.0, "color": "green"},
    {"color": "red"},
    {"size": 0.0},
]


@pytest.mark.parametrize("kind", ["csv", "parquet", "dictionary"])
def test_strings_make_dicts_without_what_is_missing(tmp_path, kind):
    table = pa.table(
        {name: [row.get(name) for row in ROWS] for name in ("size", "color")} | {"y": list("abab")}
    )
    if kind == "csv":
        stream = stream_csv(to_csv(tmp_path / "a.csv", table), "y")
    else:
        if kind == "dictionary":
            table = table.set_column(1, "color", table["color"].dictionary_encode())
            table = table.set_column(2, "y", table["y"].dictionary_encode())
        pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
        stream = stream_parquet(tmp_path / "a.parquet", "y")
    X, y = read_all(stream)
    assert X == ROWS
    assert y.tolist() == list("abab")


def arrow_file(path, table):
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    return path


CATEGORIES = [
    (pa.string(), ["a", "b"], ["a", "b"]),
    (pa.uint64(), [1, 2**64 - 1], ["1", "18446744073709551615"]),
    (pa.bool_(), [True, False], ["True", "False"]),
    (pa.date32(), [1, 18000], ["1970-01-02", "2019-04-14"]),
    (pa.float32(), [1.5, 2.0], ["1.5", "2"]),
    (pa.null(), [None, None], [None, None]),
]


@pytest.mark.parametrize(
    ("type", "values", "expected"), CATEGORIES, ids=lambda item: str(item)[:12]
)
def test_categories_of_any_type(tmp_path, type, values, expected):
    column = pa.DictionaryArray.from_arrays(
        pa.array([1, 0, 0], pa.int8()),
        pa.array(values, type),
    )
    path = arrow_file(
        tmp_path / "a.arrow", pa.table({"x": column, "s": ["s", "s", "s"], "y": [1, 2, 3]})
    )
    X, _ = read_all(stream_parquet(path, "y"))
    assert [row.get("x") for row in X] == [expected[1], expected[0], expected[0]]


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["2024-01-01", "", "2024-01-03"], [19723, np.nan, 19725]),
        (["2024-01-01", "NA", "2024-01-01T06:00"], [19723, np.nan, 19723.25]),
        (["2024-01-01 12:00:00.5", "1700-01-01"], [19723.5 + 0.5 / 86400, -98615]),
        (["2024-01-01 00:00Z", "2024-01-01 00:00+06:00"], [19723, 19722.75]),
    ],
)
def test_dates_of_text_are_days(tmp_path, cells, days):
    path = write(tmp_path / "a.csv", "when,x\n" + "".join(f"{cell},1\n" for cell in cells))
    assert_array_equal(
        read_all(stream_csv(path))[0],
        np.column_stack([days, np.ones(len(days))]),
    )
    text = read_all(stream_csv(path, categorical=["when"]))[0]
    assert [row.get("when", "") for row in text] == cells
    parsed = pandas.to_datetime(
        [None if cell in ("", "NA") else cell for cell in cells], format="ISO8601", utc=True
    )
    assert_array_equal((parsed - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1), days)


def test_a_cell_that_is_no_date_is_named(tmp_path):
    path = write(
        tmp_path / "a.csv",
        "when,x\n" + "2024-01-01,1\n" * 200_000 + "2024-01-02 12:00,1\nsoon,1\n,1\n",
    )
    with pytest.raises(
        DataFileError, match="row 200003: 'soon' in column 'when' is not a date: name the column"
    ):
        read_all(stream_csv(path))
    with pytest.warns(DataWarning, match="1 record"):
        X, _ = read_all(stream_csv(path, on_error="skip"))
    assert_array_equal(X[-2:, 0], [19724.5, np.nan])
    later = write(tmp_path / "b.csv", "when,x\n,1\n2024-01-05,1\n")
    assert_array_equal(
        read_all(stream_csv([later, later], "x"))[0][:, 0],
        [np.nan, 19727] * 2,
    )


@pytest.mark.slow
def test_truth_values_of_text_are_numbers_but_for_classes(tmp_path):
    path = write(tmp_path / "a.csv", "ok,x,y\nTrue,1,true\nfalse,2,false\n,3,true\n")
    for target in ("y", 2, -1):
        X, y = read_all(stream_csv(path, target))
        assert_array_equal(X, [[1, 1], [0, 2], [np.nan, 3]])
        assert y.tolist() == ["true", "false", "true"]
    assert read_all(stream_csv(path, categorical=["ok"]))[0][0] == {
        "ok": "True",
        "x": 1.0,
        "y": 1.0,
    }
    table = pa.table({"ok": [True, False, None], "x": [1, 2, 3], "y": [True, False, True]})
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    X, y = read_all(stream_parquet(tmp_path / "a.parquet", "y"))
    assert_array_equal(X, [[1, 1], [0, 2], [np.nan, 3]])
    assert y.tolist() == [True, False, True]
    path = write(tmp_path / "b.csv", "ok,x\n" + "true,1\n" * 300_000 + "0,1\nmaybe,1\n")
    with pytest.raises(
        DataFileError, match="row 300003: 'maybe' in column 'ok' is not a truth value: name the"
    ):
        read_all(stream_csv(path))
    with pytest.warns(DataWarning, match="1 record"):
        assert read_all(stream_csv(path, on_error="skip"))[0][-2:, 0].tolist() == [1, 0]


def test_what_is_no_date_of_all_cells_is_text(tmp_path):
    path = write(tmp_path / "a.csv", "when,at,x\n2024-01-01,12:30,1\n2024-13-01,13:30,1\n")
    assert read_all(stream_csv(path))[0][0] == {"when": "2024-01-01", "at": "12:30", "x": 1.0}


def test_numbers_that_are_categories(tmp_path):
    path = write(tmp_path / "a.csv", "zip,x,y\n01234,1,0\n99999,2,1\n")
    assert read_all(stream_csv(path, "y", categorical=["zip"]))[0] == [
        {"zip": "01234", "x": 1.0},
        {"zip": "99999", "x": 2.0},
    ]
    assert read_all(stream_csv(path, "y", categorical=["y"]))[1].tolist() == ["0", "1"]


@pytest.mark.parametrize(
    "text", ["a, y\n1, p\n2,  q \n", "a,y\n 1,p\n2 ,q\n", 'a,y\n1, p\n2," q"\n']
)
def test_spaces_around_cells_are_dropped(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    X, y = stream_csv(tmp_path / "t.csv", "y").read()
    assert X.tolist() == [[1.0], [2.0]]
    assert y.tolist() == ["p", "q"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",a,y\n0,1,p\n1,2,q\n", "column 1 has no name"),
        ("y,a,\np,1,\nq,2,\n", "column 3 has no name"),
        ('a,y\n"3,000",p\n500,q\n', "column 'a' is read as strings, because of '3,000'"),
        ('a,y\n"1,5",p\n2,q\n"3,25",q\n', "column 'a' is read as strings, because of '1,5'"),
        ("a,y\n$3,p\n$4.50,q\n", "column 'a' is read as strings, because of '$3'"),
        ("a,y\n18-25,p\n<18,q\n>65,q\n26-65,q\n", None),
        ("a,y\n1,3%\n2,5%\n", None),
    ],
)
def test_columns_that_look_wrong_are_named_in_a_warning(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with nullcontext() if message is None else pytest.warns(DataWarning, match=re.escape(message)):
        stream_csv(tmp_path / "t.csv", "y").read()


def test_a_column_that_is_asked_for_gets_no_warning(tmp_path):
    (tmp_path / "t.csv").write_text(',a,y\n0,"3,000",p\n1,"4,000",q\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream_csv(tmp_path / "t.csv", "y", columns=["", "a"], categorical=["a"]).read()


def test_files_without_a_header_and_with_other_delimiters(tmp_path):
    path = write(tmp_path / "a.csv", '1;2;"a;b"\n3;4;c\n')
    X, y = read_all(stream_csv(path, 1, delimiter=";", header=False))
    assert X == [{"f0": 1.0, "f2": "a;b"}, {"f0": 3.0, "f2": "c"}]
    assert y.tolist() == [2, 4]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
def test_lists_are_vectors(tmp_path, rng, fixed, dtype):
    vectors = rng.integers(0, 100, (30, 5)).astype(dtype)
    of = pa.list_(pa.from_numpy_dtype(np.dtype(dtype)), 5 if fixed else -1)
    table = pa.table(
        {"v": pa.array(vectors.tolist(), of), "x": np.arange(30, dtype=np.float32), "s": ["a"] * 30}
    )
    for write_table in (pyarrow.parquet.write_table, pyarrow.feather.write_feather):
        write_table(table, tmp_path / "a.parquet")
        X, _ = read_all(stream_parquet(tmp_path / "a.parquet", columns=["v"], block_size=7))
        assert_array_equal(X, vectors)
        assert X.dtype == np.result_type(np.float32, dtype)
        X, _ = read_all(stream_parquet(tmp_path / "a.parquet", columns=["x", "v"], block_size=7))
        assert_array_equal(X, np.column_stack([np.arange(30), vectors]))
        x, _ = next(iter(stream_parquet(tmp_path / "a.parquet")))
        assert_array_equal(x["v"], vectors[0])
        assert x["x"] == 0.0
        assert x["s"] == "a"


def check_wrong_rows(make, message, n_skipped, expected):
    with pytest.raises(DataFileError, match=message):
        read_all(make("raise"))
    stream = make("skip")
    for _ in range(2):
        with pytest.warns(
            DataWarning, match=f"{n_skipped} records? w.* skipped, the first at .*{message}"
        ):
            X, y = read_all(stream)
        assert X.tolist() == expected
        assert y.tolist() == [0] * len(expected)
        assert stream.skipped == n_skipped


@pytest.mark.slow
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,0", "2 cells, but there are 3 columns"),
        ("1,0,2,3", "4 cells, but there are 3 columns"),
        ("x,0,2", "'x' in column 'a' is not a number: name the column in categorical="),
        ("1,,2", "there is no 'y', which is the target"),
        ("1e999,0,2", "the number in column 'a' is infinite"),
        ("1,0,-inf", "the number in column 'b' is infinite"),
        ("1,x,2", "'x' in column 'y' is not a number"),
    ],
)
def test_csv_rows_that_are_wrong_are_named_or_counted(tmp_path, row, message):
    # more than the megabyte that decides what columns hold
    good = [f"{i},0,{i}.{'0' * 40}\n" for i in range(30_000)]
    rows = [
        "a,y,b\n",
        *good[:-3],
        row + "\n",
        *good[-3:-1],
        row + "\n",
        good[-1],
    ]
    path = write(tmp_path / "a.csv", "".join(rows).encode(errors="surrogateescape"))
    check_wrong_rows(
        lambda on_error: stream_csv(path, "y", on_error=on_error, block_size=777),
        f"a.csv, row {len(good) - 1}: .*{message}",
        2,
        [[i, i] for i in range(len(good))],
    )


def test_rows_of_tables_that_are_wrong_are_named_or_counted(tmp_path):
    vectors = [[1.0, 2.0]] * 60 + [[1.0], None, [1.0, 2.0]]
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pa.table({"v": vectors, "y": [0] * 63}), path)
    check_wrong_rows(
        lambda on_error: stream_parquet(path, "y", on_error=on_error, block_size=50),
        "a.parquet, row 61: the list in column 'v' has 1 numbers, others 2",
        2,
        [[1.0, 2.0]] * 61,
    )
    vectors = [None, [1.0, 2.0], [1.0], [3.0, 4.0], [5.0, 6.0, 7.0], [8.0, 9.0]]
    pyarrow.parquet.write_table(pa.table({"v": vectors, "y": [False] * 6}), path)
    check_wrong_rows(
        lambda on_error: stream_parquet(path, "y", on_error=on_error),
        "a.parquet, row 1: the list in column 'v' is missing",
        3,
        [[1.0, 2.0], [3.0, 4.0], [8.0, 9.0]],
    )
    vectors = pa.array(
        [[], None, [1.0], [2.0], []],
        pa.list_(pa.float64()),
    )
    pyarrow.parquet.write_table(pa.table({"v": vectors, "y": [False] * 5}), path)
    for size in (1, 2, 50):  # a block may hold nothing else
        check_wrong_rows(
            lambda on_error, size=size: stream_parquet(
                path, "y", on_error=on_error, block_size=size
            ),
            "a.parquet, row 1: the list in column 'v' has 0 numbers",
            3,
            [[1.0], [2.0]],
        )
    pyarrow.parquet.write_table(pa.table({"v": vectors[:2], "y": [False] * 2}), path)
    with pytest.raises(DataFileError, match="holds no example that can be read"):
        read_all(stream_parquet(path, "y", on_error="skip"))
    pyarrow.parquet.write_table(pa.table({"x": [1.0, 2.0, 3.0], "y": [0, None, 0]}), path)
    check_wrong_rows(
        lambda on_error: stream_parquet(path, "y", on_error=on_error),
        "a.parquet, row 2: there is no 'y'",
        1,
        [[1.0], [3.0]],
    )


@pytest.mark.parametrize("writer", ["row groups", "feather"])
def test_tables_that_are_cut_short_are_left_out(tmp_path, rng, writer):
    table = pa.table({"a": rng.standard_normal(20_000)})
    good = tmp_path / "good.parquet"
    path = tmp_path / "a.parquet"
    WRITERS[writer](table, good)
    cut_short(write(path, good.read_bytes()))
    with pytest.raises(DataFileError, match=r"a\.parquet is damaged, or no Parquet or Arrow file"):
        stream_parquet(path)
    stream = stream_parquet([good, path], on_error="skip")
    with pytest.warns(
        DataWarning, match="after 0 examples: the file is damaged, and the rest of it is left"
    ):
        assert_array_equal(read_all(stream)[0][:, 0], table["a"].to_numpy())
    assert stream.skipped == 1


def test_a_table_that_is_damaged_is_read_up_to_there(tmp_path, rng):
    values = rng.standard_normal(20_000)
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(
        pa.table({"a": values}), path, row_group_size=1000, write_page_checksum=True
    )
    damage(path)
    with pytest.raises(
        DamagedFileError, match=r"a\.parquet, after \d+ examples: the file is damaged"
    ):
        read_all(stream_parquet(path))
    with pytest.warns(DataWarning, match="the file is damaged, and the rest of it is left out"):
        X, _ = read_all(stream_parquet(path, on_error="skip"))
    assert 5000 <= len(X) < 15_000
    assert_array_equal(X[:, 0], values[: len(X)])


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_file_that_shrinks_while_it_is_read_is_refused(tmp_path, rng, suffix):
    """A memory map would end the process."""
    path = tmp_path / f"data.{suffix}"
    n = 400_000
    table = pa.table({"a": rng.standard_normal(n), "y": np.arange(n)})
    if suffix == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=20_000)
    else:
        pyarrow.feather.write_feather(table, path, compression="uncompressed", chunksize=20_000)
    blocks = stream_parquet(path, "y").blocks()
    next(blocks)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 10)
    with pytest.raises(DataFileError, match="data"):
        list(blocks)


def test_what_is_not_there_is_named(tmp_path, numbers):
    csv = to_csv(tmp_path / "a.csv", numbers)
    parquet = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(numbers, parquet)
    for stream, path in ((stream_csv, csv), (stream_parquet, parquet)):
        for arguments, message in (
            ({"target": "z"}, "no column 'z'; its columns are 'a', 'i', 'y', 'c'"),
            ({"target": 4}, "no column '4'"),
            ({"columns": ["z"]}, "no column 'z'"),
            ({"columns": ["y"], "target": "y"}, "no input column besides"),
            ({"columns": []}, "no input column"),
        ):
            with pytest.raises(InputError, match=message):
                stream(path, **arguments)
    with pytest.raises(InputError, match="no column 'z'"):
        stream_csv(csv, categorical=["z"])
    pyarrow.parquet.write_table(numbers.drop_columns("i"), tmp_path / "b.parquet")
    with pytest.raises(DataFileError, match=r"b\.parquet has no column 'i': all tables need"):
        read_all(stream_parquet([parquet, tmp_path / "b.parquet"]))
    to_csv(tmp_path / "b.csv", numbers.drop_columns("i"))
    with pytest.raises(DataFileError, match=r"b\.csv has no column .i.: all tables need"):
        read_all(stream_csv([csv, tmp_path / "b.csv"]))
    pyarrow.parquet.write_table(pa.table({"t": pa.array([b"0"], pa.binary())}), parquet)
    with pytest.raises(InputError, match=r"column 't' is binary: leave it out with columns="):
        stream_parquet(parquet)
    with pytest.raises(DataFileError, match=r"empty\.csv, row 1: there are 0 cells"):
        stream_csv(write(tmp_path / "empty.csv", ""))
    with pytest.raises(DataFileError, match="holds no example"):
        read_all(stream_csv(write(tmp_path / "empty.csv", "a,b\n")))


def test_without_pyarrow_the_extra_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "a.csv", "a,b\n1,2\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for stream in (stream_csv, stream_parquet):
        with pytest.raises(MissingDependencyError, match=r"pip install omkl\[arrow\]"):
            stream(path)


cells = st.text(st.sampled_from('ab1,\n\r"\t é'), max_size=6)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.tuples(*[cells] * width), min_size=1, max_size=8)
)


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
    """Quoted line ends and quotation marks; blank and empty cells are missing, and spaces around
    others go.
    """
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    names = [f"c{i}" for i in range(len(table[0]))]
    with path.open("w", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([names, *table])
    rows = stream_csv(path, categorical=names).read().X
    assert rows == [
        {name: cell.strip() for name, cell in zip(names, row) if cell.strip()} for row in table
    ]


def test_a_quotation_mark_that_is_never_closed_ends_the_file(tmp_path):
    rows = [f"{i},c,0" for i in range(3000)]
    rows[1000] = '1000,"c,0'
    path = write(tmp_path / "a.csv", "x,s,y\n" + "\n".join(rows) + "\n")
    with pytest.raises(DataFileError, match=r"a\.csv, row 1002: an unclosed quotation mark"):
        read_all(stream_csv(path, "y"))
    good = write(tmp_path / "b.csv", "x,s,y\n1,c,0\n")
    with pytest.warns(DataWarning, match="the rest of it is left out"):
        assert read_all(stream_csv([good, path], "y", on_error="skip"))[0] == [{"x": 1.0, "s": "c"}]
    # a quotation mark within a cell is a character
    path = write(tmp_path / "b.csv", "x,s\n" + "".join(f'{i},5" pipe\n' for i in range(3000)))
    assert read_all(stream_csv(path))[0] == [{"x": float(i), "s": '5" pipe'} for i in range(3000)]


def test_text_that_is_not_utf8(tmp_path):
    path = write(tmp_path / "a.csv", b"s,y\na,0\n\nb,1\n\xff,0\n")
    with pytest.raises(DataFileError, match=r"a\.csv, row 2 or later: expected text in UTF-8"):
        stream_csv(path, "y").read()


def test_missing_cells(tmp_path):
    path = write(tmp_path / "a.csv", "country,x,y\nNA,1,null\nDE,NA,b\n,n/a,NA\n")
    X, y = read_all(stream_csv(path, "y"))
    assert X == [{"country": "NA", "x": 1.0}, {"country": "DE"}, {}]
    assert y.tolist() == ["null", "b", "NA"]
    good = "".join(f"{k},{'NA' if k % 2 else k},0\n" for k in range(300))
    X, _ = read_all(
        stream_csv(
            write(tmp_path / "b.csv", f"a,b,y\n{good}?,1,0\n1,NA,0\n"),
            "y",
            columns=["b"],
        )
    )
    assert_array_equal(X[:, 0], [*(np.nan if k % 2 else k for k in range(300)), 1, np.nan])


def test_integer_targets_are_exact(tmp_path):
    classes = [2**53, 2**53 + 1, -(2**62) - 1]
    path = write(tmp_path / "a.csv", "x,y\n" + "".join(f"0,{y}\n" for y in [*classes, ""]))
    with pytest.warns(DataWarning):
        assert read_all(stream_csv(path, "y", on_error="skip"))[1].tolist() == classes


@pytest.mark.parametrize("bad", ["?", "1_0", "12a", '"1,2"'])
def test_one_bad_cell_makes_no_column_of_strings(tmp_path, bad):
    path = write(tmp_path / "a.csv", f"a,b\n1,2\n3,4\n{bad},6\n7,8\n")
    with pytest.raises(
        DataFileError, match=r"row 4: .* in column 'a' is not a number: name the column"
    ):
        read_all(stream_csv(path))
    with pytest.warns(DataWarning, match="1 record was skipped"):
        assert_array_equal(
            read_all(stream_csv(path, on_error="skip"))[0],
            [[1, 2], [3, 4], [7, 8]],
        )
    assert read_all(stream_csv(path, categorical=["a"]))[0][0] == {"a": "1", "b": 2.0}
    tickets = "".join(f"{i if i % 4 else 'A/5 ' + str(i)},0\n" for i in range(100))
    assert isinstance(read_all(stream_csv(write(tmp_path / "b.csv", "a,b\n" + tickets)))[0], list)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_line_ends(tmp_path, end, last):
    text = end.join(["", "x,s", *(f"{k},a" for k in range(50_000)), "7,b"]) + (end if last else "")
    X, _ = read_all(stream_csv(write(tmp_path / "a.csv.gz", text)))
    assert [*({"x": float(k), "s": "a"} for k in range(50_000)), {"x": 7.0, "s": "b"}] == X


def test_columns_of_one_name_can_stand_where_none_is_asked_for(tmp_path):
    path = write(tmp_path / "a.csv", "a,t,t\n1,2,x\n")
    assert_array_equal(read_all(stream_csv(path, columns=["a"]))[0], [[1]])
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
    path = tmp_path / "pipe.csv"
    n = 100_000
    os.mkfifo(path)
    thread = feed(path, b"x,y\n" + b"".join(b"%d,0\n" % i for i in range(n)))
    stream = stream_csv(path, "y")
    assert stream.once
    assert_array_equal(read_all(stream)[0][:, 0], np.arange(n))
    thread.join()
    with pytest.raises(InputError, match="which is a pipe, only once"):
        read_all(stream)
    thread = feed(path, b"1 1:2\n0 2:1\n")
    assert read_all(stream_svmlight(path, 2))[0].shape == (2, 2)
    thread.join()


@pytest.mark.parametrize("stream", [stream_parquet, stream_npz, stream_svmlight])
def test_a_pipe_that_must_be_read_here_and_there_is_refused_at_once(tmp_path, stream):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        DataFileError, match="is a pipe, which can be read only once and from the start"
    ):
        read_all(stream(tmp_path / "pipe"))
    with pytest.raises(DataFileError, match="is a pipe"):
        open_stream([tmp_path / "pipe"])


LINES = "a,b,y\n" + "".join(f"{i},{i * i},{i % 3}\n" for i in range(5000))


@pytest.fixture
def store():
    """A store of files in memory."""
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


@pytest.fixture
def server(tmp_path):
    """The address of a server of the files in a folder."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)
    ) as running:
        thread = threading.Thread(target=running.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def same_examples(stream, other):
    for _ in range(2):
        for mine, theirs in zip(stream.read(), other.read()):
            assert_array_equal(mine, theirs)


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_text_is_read_from_a_server(tmp_path, server, suffix):
    path = write(tmp_path / f"a.csv{suffix}", LINES)
    same_examples(open_stream(f"{server}/a.csv{suffix}", target="y"), open_stream(path, target="y"))


@pytest.mark.parametrize(
    "write_table", [pa.parquet.write_table, pa.feather.write_feather], ids=["parquet", "feather"]
)
def test_tables_are_read_from_a_store(tmp_path, store, write_table):
    write_table(
        pa.table({"a": np.arange(3000.0), "y": np.arange(3000) % 2}), tmp_path / "a.parquet"
    )
    store.put_file(str(tmp_path / "a.parquet"), "/a.parquet")
    same_examples(
        stream_parquet("memory://a.parquet", "y"), stream_parquet(tmp_path / "a.parquet", "y")
    )


def test_patterns_directories_and_what_they_say(store):
    for year in (2023, 2024):
        with store.open(f"/sales/year={year}/part.parquet", "wb") as file:
            pa.parquet.write_table(pa.table({"size": [1.0, 2.0], "y": [0, 1]}), file)
    with store.open("/sales/_SUCCESS", "wb") as file:
        file.write(b"")
    X = stream_parquet("memory://sales", "y").read().X
    assert_array_equal(X, [[1, 2023], [2, 2023], [1, 2024], [2, 2024]])
    assert_array_equal(stream_parquet("memory://sales/*/part.parquet", "y").read().X, X)
    assert open_stream(["memory://sales/year=2024/part.parquet"], target="y").read().n_examples == 2


def test_other_formats_read_urls(store):
    store.pipe("/a.libsvm", b"1 1:2.0\n-1 3:1.0\n")
    assert open_stream("memory://a.libsvm").read().X.shape == (2, 3)
    store.pipe("/a.conllu", b"1\ta\t_\tDET\t_\t_\t0\troot\t_\t_\n\n")
    assert len(read_treebank("memory://a.conllu")) == 1


def test_what_goes_wrong_names_the_url(store, server, tmp_path, monkeypatch):
    with pytest.raises(DataFileError, match=r"There is no file http://.*/none\.csv"):
        open_stream(f"{server}/none.csv", target="y").read()
    with pytest.raises(DataFileError, match="There is no file memory://none/"):
        open_stream("memory://none/*.csv", target="y")
    with pytest.raises(InputError, match=r"tent://a\.csv is not a URL that fsspec knows"):
        open_stream("tent://a.csv")
    with pytest.raises(DataFileError, match=r"a\.npz is a URL"):
        stream_npz("memory://a.npz").read()
    store.pipe("/a.csv.gz", b"this is no gzip")
    with pytest.raises(DamagedFileError, match=r"memory://a\.csv\.gz"):
        open_stream("memory://a.csv.gz", target="y").read()
    monkeypatch.setitem(__import__("sys").modules, "fsspec", None)
    with pytest.raises(MissingDependencyError, match=r"pip install omkl\[remote\]"):
        open_stream("memory://a.csv.gz")
