"""URLs: the same examples as of the file on disk, and errors that name the URL."""

import functools
import http.server
import threading

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from numpy.testing import assert_array_equal

from omkl.data import open_stream, read_treebank, stream_npz, stream_parquet
from omkl.exceptions import DamagedFileError, DataFileError, InputError, MissingDependencyError

from .stream_files import COMPRESSIONS, write

ROWS = "a,b,y\n" + "".join(f"{i},{i * i},{i % 3}\n" for i in range(5000))


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

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)) as running:
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
    path = write(tmp_path / f"a.csv{suffix}", ROWS)
    same_examples(open_stream(f"{server}/a.csv{suffix}", target="y"), open_stream(path, target="y"))


@pytest.mark.parametrize("write_table", [pa.parquet.write_table, pa.feather.write_feather], ids=["parquet", "feather"])
def test_tables_are_read_from_a_store(tmp_path, store, write_table):
    write_table(pa.table({"a": np.arange(3000.0), "y": np.arange(3000) % 2}), tmp_path / "a.parquet")
    store.put_file(str(tmp_path / "a.parquet"), "/a.parquet")
    same_examples(stream_parquet("memory://a.parquet", "y"), stream_parquet(tmp_path / "a.parquet", "y"))


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
