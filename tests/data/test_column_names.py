"""Streams know their columns by name, and models find them in any order."""

import warnings

import numpy as np
import pytest

import omkl
from omkl.data import Block, Stream, open_stream, stream_csv, stream_parquet
from omkl.exceptions import DataFileError, InputError

ROWS = np.random.default_rng(0).normal(size=(30, 3)).round(3)


def write_csv(path, names, rows=ROWS):
    columns = ["a", "b", "c"]
    lines = [",".join(str(row[columns.index(name)]) if name in columns else "9" for name in names) for row in rows]
    path.write_text("\n".join([",".join(names), *lines, ""]))
    return path


def test_files_with_columns_in_another_order_are_brought_into_that_of_the_first(tmp_path):
    paths = [
        write_csv(tmp_path / "1.csv", ["a", "b", "c"], ROWS[:10]),
        write_csv(tmp_path / "2.csv", ["c", "extra", "a", "b"], ROWS[10:]),
    ]
    stream = stream_csv(paths, block_size=7)
    assert stream.feature_names == ["a", "b", "c"]
    np.testing.assert_array_equal(stream.read().X, ROWS)
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
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"x": [1.0, 2.0], "v": [[1.0, 2.0], [3.0, 4.0]], "y": [0, 1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    block = stream_parquet(tmp_path / "a.parquet", "y").read()
    assert block.feature_names == ["x", "v[0]", "v[1]"]
    np.testing.assert_array_equal(block.aligned(["v[1]", "x"], "it").X, [[2, 1], [4, 2]])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_columns_of_a_data_frame_keep_their_names(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]})
    stream = Stream.from_arrays(frame, frame["a"], block_size=8)
    assert stream.feature_names == ["a", "b"]
    np.testing.assert_array_equal(stream.read().X, ROWS[:, :2])
    words = Stream.from_arrays(frames.DataFrame({"w": ["x", None], "n": [1.5, 2.0]})).read()
    assert words.X == [{"w": "x", "n": 1.5}, {"n": 2.0}]


def test_blocks_of_an_iterable_are_aligned_or_refused():
    first, second = Block(ROWS, None, ["a", "b", "c"]), Block(ROWS[:, ::-1], None, ["c", "b", "a"])
    np.testing.assert_array_equal(Stream.from_iterable([first, second]).read().X, np.vstack([ROWS, ROWS]))
    with pytest.raises(InputError, match="has no column 'c': 3 columns are needed"):
        Stream.from_iterable([first, Block(ROWS[:, :2], None, ["a", "b"])]).read()


def test_columns_without_names_stay_as_they_are(tmp_path):
    np.savez(tmp_path / "a.npz", X=ROWS, y=np.arange(30))
    stream = open_stream(tmp_path / "a.npz")
    assert stream.feature_names is stream.read().feature_names is None
    mapped = Stream.from_iterable([Block(ROWS, None, ["a", "b", "c"])]).mapped(lambda block: (block.X[:, :1], block.y))
    assert mapped.read().feature_names is None


@pytest.mark.parametrize("passes", ["fit", "partial_fit"])
def test_a_model_of_a_stream_knows_its_columns_by_their_names(tmp_path, passes):
    """The same columns in another order score and predict the same; where one is missing, the stream is refused."""
    y = (ROWS[:, 0] > 0).astype(int)
    known = Stream.from_iterable([Block(ROWS, y, ["a", "b", "c"])])
    model = omkl.OnlineMKLClassifier(epochs=1 if passes == "partial_fit" else 8, random_state=0, n_examples=30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(model, passes)(known.shuffled(random_state=0) if passes == "fit" else known)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        turned = Stream.from_iterable([Block(ROWS[:, ::-1], y, ["c", "b", "a"])])
        assert model.score(turned) == model.score(known)
        np.testing.assert_array_equal(model.predict(turned.read()), model.predict(known.read()))
    short = Stream.from_iterable([Block(ROWS[:, :2], y, ["a", "b"])])
    with pytest.raises(InputError, match="has no column 'c'"):
        model.score(short)
    with pytest.raises(InputError, match="has no column 'c'"):
        model.partial_fit(short)
