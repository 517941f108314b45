"""A pass over files in blocks, against readers of whole files; the floor reads the bytes."""

import gzip
import lzma

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from omkl.data import stream_csv, stream_npz, stream_parquet, stream_svmlight
from omkl.data.files import chunks
from tests.benchmarks.measuring import Floor

N, D, NON_ZEROS = 20_000, 100_000, 100


def drain(stream):
    return sum(block.n_examples for block in stream.blocks())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One table of 20 columns, and one sparse matrix of 100 non-zeros a row, in all formats."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.csv
    import pyarrow.feather
    import pyarrow.parquet

    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    X = sparse.random_array((N, D), density=NON_ZEROS / D, format="csr", rng=rng)
    dump_svmlight_file(X, rng.integers(0, 2, N), str(folder / "full.svm"), zero_based=False)
    X.data = X.data.round(4)
    dump_svmlight_file(X, rng.integers(0, 2, N), str(folder / "a.svm"), zero_based=False)
    (folder / "a.svm.gz").write_bytes(gzip.compress((folder / "a.svm").read_bytes()))
    (folder / "a.svm.xz").write_bytes(lzma.compress((folder / "a.svm").read_bytes(), preset=1))
    n = 5 * N
    columns = {f"c{i}": rng.standard_normal(n) for i in range(20)}
    table = pa.table({**columns, "y": rng.integers(0, 2, n)})
    pyarrow.csv.write_csv(table, folder / "a.csv")
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=N)
    pyarrow.feather.write_feather(table, folder / "a.feather")
    categories = pa.array(rng.integers(0, 50, n)).cast(pa.string())
    pyarrow.parquet.write_table(
        pa.table({"a": columns["c0"], "s": categories, "t": categories}), folder / "s.parquet"
    )
    matrix = np.column_stack(list(columns.values()))
    np.savez(folder / "a.npz", X=matrix)
    np.savez_compressed(folder / "b.npz", X=matrix.round(2))
    return folder


def by_sklearn(path):
    opener = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)

    def read():
        with opener(path, "rb") as file:
            load_svmlight_file(file, n_features=D, zero_based=False)

    return read


def by_pyarrow(path):
    from pyarrow import csv, feather, parquet

    read = {".csv": csv.read_csv, ".parquet": parquet.read_table, ".feather": feather.read_table}[
        path.suffix
    ]
    return lambda: np.column_stack(
        [column.to_numpy(zero_copy_only=False) for column in read(path).columns]
    )


def by_pandas(path):
    import pandas

    read = {
        ".csv": pandas.read_csv,
        ".parquet": pandas.read_parquet,
        ".feather": pandas.read_feather,
    }[path.suffix]
    return lambda: read(path).to_numpy()


def by_polars(path):
    import polars

    read = {".csv": polars.read_csv, ".parquet": polars.read_parquet, ".feather": polars.read_ipc}[
        path.suffix
    ]
    return lambda: read(path).to_numpy()


def rows_by_pyarrow(path):
    from pyarrow import parquet

    return lambda: parquet.read_table(path).to_pylist()


def rows_by_pandas(path):
    import pandas

    return lambda: pandas.read_parquet(path).to_dict("records")


def rows_by_polars(path):
    import polars

    return lambda: polars.read_parquet(path).to_dicts()


TABLES = {"pyarrow": by_pyarrow, "pandas": by_pandas, "polars": by_polars}
#: With strings in a table, all readers make a dict of each row.
DICTS = {"pyarrow": rows_by_pyarrow, "pandas": rows_by_pandas, "polars": rows_by_polars}
ARRAYS = {"numpy": lambda path: lambda: np.load(path)["X"]}
READERS = {
    "full.svm": (lambda path: stream_svmlight(path, D), {"sklearn": by_sklearn}),
    "a.svm": (lambda path: stream_svmlight(path, D), {"sklearn": by_sklearn}),
    "a.svm.gz": (lambda path: stream_svmlight(path, D), {"sklearn": by_sklearn}),
    "a.svm.xz": (lambda path: stream_svmlight(path, D), {"sklearn": by_sklearn}),
    "a.csv": (lambda path: stream_csv(path, "y"), TABLES),
    "a.parquet": (lambda path: stream_parquet(path, "y"), TABLES),
    "s.parquet": (stream_parquet, DICTS),
    "a.feather": (lambda path: stream_parquet(path, "y"), TABLES),
    "a.npz": (stream_npz, ARRAYS),
    "b.npz": (stream_npz, ARRAYS),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("order", ["in order", pytest.param("shuffled", marks=pytest.mark.large)])
def test_stream(measure, files, name, order):
    path, (make, peers) = files / name, READERS[name]
    stream = make(path) if order == "in order" else make(path).shuffled(random_state=0)
    if order == "in order":
        peers = {peer: lambda make=make: make(path) for peer, make in peers.items()}
    else:
        peers = {}
    floor = Floor("bytes", lambda: sum(map(len, chunks(path))))
    if name == "s.parquet":
        numbers, strings = np.arange(5.0 * N).tolist(), list(map(str, range(5 * N)))
        floor = Floor(
            "dicts",
            lambda: [{"a": a, "s": s, "t": t} for a, s, t in zip(numbers, strings, strings)],
        )
    seconds = measure(lambda: drain(stream), floor=floor, peers=peers)
    measure.note(thousand_rows_a_second=drain(stream) / seconds / 1e3)
