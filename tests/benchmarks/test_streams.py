"""Examples a second of every reader that streams, beside what reads the file whole, in CPU and in wall time."""

import gzip
import lzma
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from omkl.data import (
    read_sequences,
    read_treebank,
    stream_conllu,
    stream_csv,
    stream_npz,
    stream_parquet,
    stream_sequences,
    stream_svmlight,
)
from omkl.data.files import chunks

N, D, NON_ZEROS = 20_000, 100_000, 100


def cpu(function):
    start = time.process_time()
    function()
    return time.process_time() - start


def best(function, rounds=3):
    return min(cpu(function) for _ in range(rounds))


def drain(stream):
    return sum(block.n_examples for block in stream.blocks())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One table of 20 columns, and one sparse matrix of 100 non-zeros a row, in all formats."""
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
    pyarrow.parquet.write_table(pa.table({"a": columns["c0"], "s": categories, "t": categories}), folder / "s.parquet")
    matrix = np.column_stack(list(columns.values()))
    np.savez(folder / "a.npz", X=matrix)
    np.savez_compressed(folder / "b.npz", X=matrix.round(2))
    return folder


def svmlight_whole(path):
    return load_svmlight_file(str(path), n_features=D, zero_based=False)


def svmlight_xz_whole(path):
    with lzma.open(path) as file:
        return load_svmlight_file(file, n_features=D, zero_based=False)


READERS = {
    "full.svm": (lambda path: stream_svmlight(path, D), svmlight_whole),
    "a.svm": (lambda path: stream_svmlight(path, D), svmlight_whole),
    "a.svm.gz": (lambda path: stream_svmlight(path, D), svmlight_whole),
    "a.svm.xz": (lambda path: stream_svmlight(path, D), svmlight_xz_whole),
    "a.csv": (lambda path: stream_csv(path, "y"), lambda path: pyarrow.csv.read_csv(path)),
    "a.parquet": (lambda path: stream_parquet(path, "y"), lambda path: pyarrow.parquet.read_table(path)),
    "s.parquet": (stream_parquet, lambda path: pyarrow.parquet.read_table(path).to_pylist()),
    "a.feather": (lambda path: stream_parquet(path, "y"), lambda path: pyarrow.feather.read_table(path)),
    "a.npz": (stream_npz, lambda path: np.load(path)["X"]),
    "b.npz": (stream_npz, lambda path: np.load(path)["X"]),
}


@pytest.mark.parametrize("name", READERS)
def test_readers(benchmark, files, name):
    """CPU time of a pass in blocks, of a shuffled one, of reading whole, and of the bytes alone."""
    path, (make, read_whole) = files / name, READERS[name]
    stream, seconds = make(path), []
    n = drain(stream)
    benchmark.pedantic(lambda: seconds.append(cpu(lambda: drain(stream))), rounds=3)
    shuffled, whole = best(lambda: drain(stream.shuffled(random_state=0))), best(lambda: read_whole(path))
    floor = best(lambda: sum(map(len, chunks(path))))
    rate, others = n / min(seconds), f"{n / whole / 1e3:.0f} k/s ({whole / min(seconds):.2f} x)"
    print(
        f"\n{name}: {rate / 1e3:.0f} k examples/s; shuffled {n / shuffled / 1e3:.0f} k/s; read whole by the peer "
        f"{others}; bytes alone {n / floor / 1e3:.0f} k/s; a core feeds 20 k/s with {2e6 / rate:.1f}% of its time"
    )
    benchmark.extra_info.update(examples_per_second=rate, whole=n / whole)


def test_treebanks_and_sequences(benchmark, real_data):
    path = real_data("ud/UD_English-EWT/en_ewt-ud-train.conllu.gz")
    stream, seconds = stream_conllu(path), []
    n = drain(stream)
    benchmark.pedantic(lambda: seconds.append(cpu(lambda: drain(stream_conllu(path)))), rounds=3)
    whole, shuffled = best(lambda: read_treebank(path)), best(lambda: drain(stream.shuffled(random_state=0)))
    print(
        f"\ntreebank.gz: {n / min(seconds) / 1e3:.0f} k sentences/s; shuffled {n / shuffled / 1e3:.0f} k/s; "
        f"read_treebank {n / whole / 1e3:.0f} k/s ({whole / min(seconds):.2f} x)"
    )
    words = stream_sequences(path).take(2000)
    tagging, all_tagging = best(lambda: drain(words), 1) / 2000, best(lambda: read_sequences(path), 1) / n
    print(f"tagging features: {1e-3 / tagging:.1f} k sentences/s; read_sequences {1e-3 / all_tagging:.1f} k/s")


@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz", "a.svm.xz", "a.csv", "a.parquet", "s.parquet", "a.npz", "b.npz"])
def test_reading_ahead(benchmark, files, name):
    """Wall time with a trainer that takes as long as the reader: half of it is what a thread can save at best."""
    stream = READERS[name][0](files / name)
    n_blocks = sum(1 for _ in stream.blocks())
    work = np.random.default_rng(0).standard_normal(1 << 16)

    def wall(stream, repeats, function):
        start = time.perf_counter()
        for _ in stream.blocks():
            for _ in range(repeats):
                function()
        return time.perf_counter() - start

    def released():
        np.sin(work)  # numpy gives the lock away, as jitted functions do

    def held():
        sum(range(40_000))

    def calibrated(function):
        once = min(timed(function) for _ in range(20))
        return max(1, round(min(wall(stream, 0, function) for _ in range(3)) / n_blocks / once))

    def timed(function):
        start = time.perf_counter()
        function()
        return time.perf_counter() - start

    report = []
    for function in (released, held):
        repeats = calibrated(function)
        plain = min(wall(stream, repeats, function) for _ in range(3))
        ahead = min(wall(stream.prefetched(), repeats, function) for _ in range(3))
        report.append(f"{ahead / plain:.2f}")
    benchmark.pedantic(lambda: drain(stream.prefetched()), rounds=1)
    print(f"\n{name}: read ahead / not: {report[0]} beside a trainer without Python's lock, {report[1]} with it")
