"""Streams of data frames of every kind: rows in blocks, times, categories, hive directories,
columns by name.
"""

import copy
import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl.data import Block, Stream, open_stream, stream_csv, stream_frames, stream_parquet
from omkl.data.table_reading import read_table
from omkl.exceptions import DataFileError, DataWarning, InputError

N = 137
DAY = 86_400


@pytest.fixture
def frame(rng):
    when = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 10**9, N), "ms")
    table = pd.DataFrame({"a": rng.normal(size=N), "when": when, "y": rng.integers(0, 3, N)})
    table.loc[3, "a"] = np.nan
    return table.set_index(rng.permutation(N))


KINDS = {
    "pandas": lambda frame: frame,
    "polars": lambda frame: pl.from_pandas(frame),
    "lazy": lambda frame: pl.from_pandas(frame).lazy().collect_batches,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "data set": lambda frame: pa.dataset.dataset(pa.Table.from_pandas(frame, preserve_index=False)),
    "list": lambda frame: [frame[:50], pl.from_pandas(frame[50:60]), frame[60:60], frame[60:]],
    "function": lambda frame: lambda: (frame[i : i + 40] for i in range(0, N, 40)),
    "capsule": lambda frame: Capsule(pa.Table.from_pandas(frame, preserve_index=False)),
}


class Capsule:
    """Object of another library that only exports an Arrow stream."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_frames_are_streamed_as_their_rows(frame, kind):
    days = (frame["when"] - pd.Timestamp("1970-01-01")) / pd.Timedelta(days=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = stream_frames(KINDS[kind](frame), "y", block_size=30)
        for _ in range(2):
            blocks = list(stream.blocks())
            assert [block.n_examples for block in blocks] == [30, 30, 30, 30, 17]
            assert all(block.feature_names == ["a", "when"] for block in blocks)
            X, y = stream.read()
            assert_allclose(
                X,
                np.column_stack([frame["a"], days]),
                rtol=1e-15,
            )
            assert_array_equal(y, frame["y"])
            assert y.dtype == np.int64
        assert_array_equal(
            stream_frames(KINDS[kind](frame), columns=["a"]).read().X.ravel(), frame["a"]
        )


def test_an_iterator_of_frames_is_passed_over_once(frame, tmp_path):
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pd.read_csv(tmp_path / "a.csv", chunksize=40, parse_dates=["when"]) as chunks:
        stream = stream_frames(chunks, "y")
        assert stream.once
        assert_array_equal(stream.read().y, frame["y"])
        with pytest.raises(InputError, match="only once"):
            stream.read()


def test_pairs_of_frames_and_targets_are_streamed(frame):
    pairs = [(frame[["a"]][i : i + 50], frame["y"][i : i + 50]) for i in range(0, N, 50)]
    block = Stream.from_iterable(pairs, block_size=64).read()
    assert_array_equal(block.X.ravel(), frame["a"])
    assert_array_equal(block.y, frame["y"])
    assert block.feature_names == ["a"]


TIMES = {
    "when": [datetime.datetime(2024, 1, 1, 12), None, datetime.datetime(1969, 12, 31)],
    "day": [datetime.date(1970, 1, 2), datetime.date(1970, 1, 1), None],
    "long": [datetime.timedelta(hours=6), None, datetime.timedelta(days=-2)],
}
DAYS = np.array([[19723.5, 1.0, 0.25], [np.nan, 0.0, np.nan], [-1.0, np.nan, -2.0]])


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_are_days_in_every_frame_and_unit(kind, unit):
    types = {"when": pa.timestamp(unit), "day": pa.date32(), "long": pa.duration(unit)}
    table = pa.table({name: pa.array(values, types[name]) for name, values in TIMES.items()})
    made = table
    if kind == "polars":
        made = pl.from_arrow(table)
    if kind == "pandas":
        made = table.to_pandas(types_mapper=pd.ArrowDtype).astype(
            {"when": f"datetime64[{unit}]", "day": "datetime64[s]", "long": f"timedelta64[{unit}]"}
        )
    assert_array_equal(stream_frames(made).read().X, DAYS)
    if kind != "arrow":
        assert_array_equal(read_table(made).values, DAYS)
        assert_array_equal(Stream.from_arrays(made).read().X, DAYS)


def test_zones_do_not_matter_and_times_of_a_day_are_parts_of_it():
    noon = datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)
    berlin = pd.DataFrame({"when": pd.Series([noon, None]).dt.tz_convert("Europe/Berlin")})
    assert_array_equal(read_table(berlin).values, [[19905.5], [np.nan]])
    assert_array_equal(
        stream_frames(berlin).read().X,
        [[19905.5], [np.nan]],
    )
    clock = pl.DataFrame({"at": [datetime.time(6), None, datetime.time(18, 0)]})
    assert_array_equal(read_table(clock).values, [[0.25], [np.nan], [0.75]])
    assert_array_equal(stream_frames(clock).read().X, read_table(clock).values)


def test_categories_are_strings_also_where_they_are_numbers():
    frame = pd.DataFrame(
        {"shop": pd.Categorical([30, 4, None]), "size": [1.0, np.nan, 2.0], "y": ["b", "a", "b"]}
    )
    rows = [{"shop": "30", "size": 1.0}, {"shop": "4"}, {"size": 2.0}]
    assert read_table(frame[["shop", "size"]]).values == rows
    for made in (frame, pa.Table.from_pandas(frame), [frame]):
        X, y = stream_frames(made, "y").read()
        assert rows == X
        assert y.tolist() == ["b", "a", "b"]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    "other", [["01234", "99999"], [Decimal("1.5"), Decimal("2.5")], [True, False], [1, 2]]
)
def test_frames_are_read_as_streams_of_them(library, other):
    frame = library({"zip": ["01234", "99999"], "other": other})
    rows = read_table(frame).values
    assert rows[0]["zip"] == "01234"
    assert rows == stream_frames(frame).read().X
    if other[0] != "01234":
        numbers = frame[["other"]]
        assert_array_equal(read_table(numbers).values, stream_frames(numbers).read().X)


@pytest.mark.parametrize("as_stream", [False, True])
def test_columns_that_change_between_text_and_numbers_are_named(as_stream, recwarn):
    made = stream_frames if as_stream else lambda frame: frame
    learned = pd.DataFrame(
        {"zip": ["1", "2", "1"], "size": [1.0, 2.0, np.nan], "color": ["a", "b", "a"]}
    )
    model = omkl.OnlineMKLClassifier(random_state=0).fit(learned, [0, 1, 0])
    for same in (
        learned,
        learned.assign(zip=None),
        learned.assign(size=[np.nan, 1.0, 2.0], zip=["2", "1", None]),
    ):
        model.predict(made(same))
    assert not recwarn
    numbers = learned.assign(zip=[1.0, 2.0, np.nan])
    texts = learned.assign(zip=["1", "2", None])
    assert_array_equal(model.decision_function(made(numbers)), model.decision_function(texts))
    other = copy.deepcopy(model)
    if as_stream:
        model.partial_fit(stream_frames(numbers.assign(y=[0, 1, 0]), "y"))
    else:
        model.partial_fit(numbers, [0, 1, 0])
    other.partial_fit(texts, [0, 1, 0])
    assert_array_equal(model.decision_function(texts), other.decision_function(texts))
    with pytest.raises(InputError, match="'size' of X must hold finite numbers, got '1' in row 0"):
        model.predict(made(learned.assign(size=["1", "2", "3"])))


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_estimators_learn_from_times_and_find_them_in_streams(library, rng):
    when = np.datetime64("2024-01-01", "ms") + 1000 * rng.integers(0, 100 * DAY, 80)
    frame = library({"when": when, "size": rng.normal(size=80)})
    y = (when > np.datetime64("2024-02-15", "s")).astype(int)
    kernels = omkl.kernels.per_column("gaussian", read_table(frame).values)
    model = omkl.OnlineMKLClassifier(kernels, random_state=0).fit(frame, y)
    assert model.score(frame, y) > 0.95
    turned = stream_frames(frame[["size", "when"]])
    assert_array_equal(model.decision_function(turned), model.decision_function(frame))


def write_sales(folder, values=(2023, 2024)):
    for k, value in enumerate(values):
        (folder / f"year={value}" / "shop=a%2Fb").mkdir(parents=True)
        table = pa.table({"size": [1.0 * k, 2.0], "y": [0, 1]})
        pa.parquet.write_table(table, folder / f"year={value}" / "shop=a%2Fb" / "part.parquet")
    return folder


@pytest.mark.parametrize("values", [(2023, 2024), (2023, "__HIVE_DEFAULT_PARTITION__")])
def test_directories_that_say_what_is_in_them_make_columns(tmp_path, values):
    folder = write_sales(tmp_path / "sales=1", values)
    stream = stream_parquet(folder, "y", columns=["size", "year"])
    last = 2024.0 if values[1] == 2024 else np.nan
    assert_array_equal(stream.read().X, [[0.0, 2023.0], [2.0, 2023.0], [1.0, last], [2.0, last]])
    assert open_stream(folder, "parquet", target="y").read().X[0] == {
        "size": 0.0,
        "year": 2023.0,
        "shop": "a/b",
    }
    theirs = stream_frames(
        pa.dataset.dataset(folder, partitioning="hive"), "y", columns=["size", "year"]
    )
    assert_array_equal(theirs.read().X, stream.read().X)
    years = stream_parquet(folder, "year", columns=["y"], on_error="skip").read().y
    assert_array_equal(years[:2], [2023, 2023])


def test_what_is_wrong_is_said_in_one_sentence(frame):
    with pytest.raises(InputError, match="not 3"):
        stream_frames(3).read()
    with pytest.raises(InputError, match="no column 'z'"):
        stream_frames(frame, "z")
    for values in ([1, "b", [3]], [1, "b"], [10**30, 1], np.array([1j, 2])):
        with pytest.raises(InputError, match="column that cannot be converted"):
            stream_frames(pd.DataFrame({"a": values})).read()
    with pytest.raises(DataFileError, match="has no column 'a'"):
        stream_frames([frame, frame[["when", "y"]]], "y").read()
    with pytest.raises(DataFileError, match="no example"):
        stream_frames(frame[:0], "y").read()
    missing = pd.DataFrame({"a": [1.0, 2.0], "y": ["b", None]})
    with pytest.raises(DataFileError, match="Data frame, row 1: there is no 'y'"):
        stream_frames(missing, "y").read()
    with pytest.warns(DataWarning, match="1 record was skipped"):
        assert stream_frames(missing, "y", on_error="skip").read().n_examples == 1


ROWS = np.random.default_rng(0).normal(size=(30, 3)).round(3)


def write_csv(path, names, rows=ROWS):
    columns = ["a", "b", "c"]
    lines = [
        ",".join(str(row[columns.index(name)]) if name in columns else "9" for name in names)
        for row in rows
    ]
    path.write_text("\n".join([",".join(names), *lines, ""]))
    return path


def test_files_with_columns_in_another_order_are_brought_into_that_of_the_first(tmp_path):
    paths = [
        write_csv(tmp_path / "1.csv", ["a", "b", "c"], ROWS[:10]),
        write_csv(
            tmp_path / "2.csv",
            ["c", "extra", "a", "b"],
            ROWS[10:],
        ),
    ]
    with pytest.raises(DataFileError, match=r"2\.csv has the unknown column 'extra'"):
        stream_csv(paths).read()
    stream = stream_csv(paths, columns=["a", "b", "c"], block_size=7)
    assert stream.feature_names == ["a", "b", "c"]
    assert_array_equal(stream.read().X, ROWS)
    for derived in (stream, stream.shuffled()):
        assert derived.feature_names == ["a", "b", "c"]
        assert all(block.feature_names == ["a", "b", "c"] for block in derived.blocks())


def test_a_file_without_a_column_is_named(tmp_path):
    paths = [write_csv(tmp_path / "1.csv", ["a", "b"]), write_csv(tmp_path / "2.csv", ["a", "c"])]
    with pytest.raises(DataFileError, match=r"2\.csv.*'b'"):
        stream_csv(paths).read()


def test_files_without_a_header_need_equally_many_columns(tmp_path):
    (tmp_path / "1.csv").write_text("1,2,0\n3,4,1\n")
    (tmp_path / "2.csv").write_text("1,2,5,0\n3,4,5,1\n")
    assert stream_csv(tmp_path / "1.csv", -1, header=False).read().feature_names is None
    with pytest.raises(DataFileError, match=r"2\.csv has 4 columns, but .*1\.csv has 3"):
        stream_csv([tmp_path / "1.csv", tmp_path / "2.csv"], -1, header=False).read()


def test_columns_of_lists_are_numbered(tmp_path):
    table = pa.table({"x": [1.0, 2.0], "v": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1]})
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    block = stream_parquet(tmp_path / "a.parquet", "y").read()
    assert block.feature_names == ["x", "v[0]", "v[1]"]
    assert_array_equal(
        block.aligned(["v[1]", "x", "v[0]"], "it").X,
        [[2, 1, 1], [4, 2, 3]],
    )


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_columns_of_a_data_frame_keep_their_names(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]})
    stream = Stream.from_arrays(frame, frame["a"], block_size=8)
    assert stream.feature_names == ["a", "b"]
    assert_array_equal(stream.read().X, ROWS[:, :2])
    words = Stream.from_arrays(frames.DataFrame({"w": ["x", None], "n": [1.5, 2.0]})).read()
    assert words.X == [{"w": "x", "n": 1.5}, {"n": 2.0}]


def test_blocks_of_an_iterable_are_aligned_or_refused():
    first = Block(ROWS, None, ["a", "b", "c"])
    second = Block(
        ROWS[:, ::-1],
        None,
        ["c", "b", "a"],
    )
    assert_array_equal(
        Stream.from_iterable([first, second]).read().X,
        np.vstack([ROWS, ROWS]),
    )
    with pytest.raises(InputError, match="has no column 'c': 3 columns are needed"):
        Stream.from_iterable([first, Block(ROWS[:, :2], None, ["a", "b"])]).read()


def test_columns_without_names_stay_as_they_are(tmp_path):
    np.savez(tmp_path / "a.npz", X=ROWS, y=np.arange(30))
    stream = open_stream(tmp_path / "a.npz")
    assert stream.feature_names is stream.read().feature_names is None
    mapped = Stream.from_iterable([Block(ROWS, None, ["a", "b", "c"])]).mapped(
        lambda block: (block.X[:, :1], block.y)
    )
    assert mapped.read().feature_names is None


@pytest.mark.parametrize("passes", ["fit", "partial_fit"])
def test_a_model_of_a_stream_knows_its_columns_by_their_names(tmp_path, passes):
    """The same columns in another order score and predict the same; where one is missing, the
    stream is refused.
    """
    y = (ROWS[:, 0] > 0).astype(int)
    stream = Stream.from_iterable([Block(ROWS, y, ["a", "b", "c"])])
    model = omkl.OnlineMKLClassifier(
        epochs=omkl.Passes(1 if passes == "partial_fit" else 8, n_examples=30), random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(model, passes)(stream.shuffled(random_state=0) if passes == "fit" else stream)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        turned = Stream.from_iterable([Block(ROWS[:, ::-1], y, ["c", "b", "a"])])
        assert model.score(turned) == model.score(stream)
        assert_array_equal(
            model.predict(turned.read()),
            model.predict(stream.read()),
        )
    short = Stream.from_iterable([Block(ROWS[:, :2], y, ["a", "b"])])
    with pytest.raises(InputError, match="has no column 'c'"):
        model.score(short)
    with pytest.raises(InputError, match="has no column 'c'"):
        model.partial_fit(short)


def test_a_target_may_turn_into_decimals_after_the_first_megabyte(tmp_path):
    lines = [f"{row},{row % 9}\n" for row in range(200_000)]
    (tmp_path / "a.csv").write_text("".join(["a,y\n", *lines, "3,12.5\n", "4,1e3\n", "5,7\n"]))
    blocks = list(stream_csv(tmp_path / "a.csv", "y").blocks())
    assert blocks[0].y.dtype == np.int64
    assert blocks[-1].y.tolist() == [12.5, 1000.0, 7.0]
    (tmp_path / "a.csv").write_text("".join(["a,y\n", *lines, "3,12.5\n", "4,much\n"]))
    with pytest.raises(DataFileError, match="row 200003: 'much' in column 'y' is not a number"):
        stream_csv(tmp_path / "a.csv", "y").read()


def test_a_first_row_of_megabytes_tells_the_types_of_columns(tmp_path):
    (tmp_path / "a.csv").write_text(f"text,size,y\n{'z' * 3_000_000},1.5,yes\nshort,2.5,no\n")
    X, y = stream_csv(tmp_path / "a.csv", "y").read()
    assert y.tolist() == ["yes", "no"]
    assert [row["size"] for row in X] == [1.5, 2.5]


SMALL = pd.DataFrame({"a": [1.0, 2.0]})


@pytest.mark.parametrize("item", [SMALL, (SMALL,), (SMALL, [0, 1], [1, 1]), None])
def test_a_stream_of_tables_names_an_item_that_is_no_pair(item):
    stream = Stream.from_iterable([(SMALL, [0, 1]), item])
    with pytest.raises(InputError, match=r"must hold pairs \(table, targets\), got"):
        list(stream.blocks())
