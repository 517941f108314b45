"""Training on workers from the command line."""

import sys

import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl.cli import main
from omkl.data import synthetic_treebank, write_treebank

pytestmark = pytest.mark.slow

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    path = tmp_path_factory.mktemp("cluster") / "train.conllu"
    write_treebank(path, synthetic_treebank(40, random_state=0))
    return path


def train(treebank, output, *options):
    settings = ["--templates", "small", "--epochs", "2", "--memory", "5", "--random-state", "0"]
    return main(["train", "parser", str(treebank), "-o", str(output), *settings, *options])


def n_shards(record):
    return sum(key.startswith("loss:shard") for key in record)


@pytest.fixture(scope="module")
def serial(treebank):
    path = treebank.with_name("serial.npz")
    assert train(treebank, path, "--shards", "2", "--quiet") == 0
    return omkl.load(path).model_.trainer.state()


@pytest.mark.parametrize("where", ["--workers", "--scheduler"])
def test_a_parser_trained_on_workers_is_the_serial_one(treebank, serial, tmp_path, where):
    out = tmp_path / "m.npz"
    if where == "--workers":
        assert train(treebank, out, "--workers", "2") == 0
        assert [n_shards(record) for record in omkl.load(out).history_] == [2, 2]
    else:
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
        ) as cluster:
            assert (
                train(treebank, out, "--scheduler", cluster.scheduler_address, "--shards", "2") == 0
            )
    for name, array in omkl.load(out).model_.trainer.state().items():
        assert_array_equal(array, serial[name], err_msg=name)


def test_without_dask_the_extra_is_named(treebank, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert train(treebank, tmp_path / "m.npz", "--workers", "2") == 2
    assert "pip install omkl[dask]" in capsys.readouterr().err
