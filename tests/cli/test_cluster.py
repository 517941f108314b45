"""Training on workers from the command line."""

import sys
import time

import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl.cli import main
from omkl.data import synthetic_treebank, write_treebank

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
def test_a_parser_trained_on_workers_is_the_serial_one(treebank, serial, tmp_path, capsys, where):
    out = tmp_path / "m.npz"
    if where == "--workers":
        assert train(treebank, out, "--workers", "2") == 0
        assert [n_shards(record) for record in omkl.load(out).history_] == [2, 2]
    else:
        with distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs="CRITICAL"
        ) as cluster:
            assert train(treebank, out, "--scheduler", cluster.scheduler_address, "--shards", "2") == 0
    assert "epoch   2: loss" in capsys.readouterr().out
    for name, array in omkl.load(out).model_.trainer.state().items():
        assert_array_equal(array, serial[name], err_msg=name)


def test_one_worker_makes_the_parser_that_plain_training_does(treebank, tmp_path):
    assert train(treebank, tmp_path / "plain.npz") == 0
    assert train(treebank, tmp_path / "m.npz", "--workers", "1") == 0
    plain, found = omkl.load(tmp_path / "plain.npz"), omkl.load(tmp_path / "m.npz")
    assert n_shards(found.history_[0]) == 1
    for name, array in found.model_.trainer.state().items():
        assert_array_equal(array, plain.model_.trainer.state()[name], err_msg=name)


def test_a_scheduler_that_cannot_be_reached_is_one_sentence(treebank, tmp_path, capsys):
    started = time.perf_counter()
    assert train(treebank, tmp_path / "m.npz", "--scheduler", "tcp://127.0.0.1:1") == 2
    assert time.perf_counter() - started < 15
    error = capsys.readouterr().err
    assert error.startswith("omkl: error: The scheduler tcp://127.0.0.1:1 cannot be reached")
    assert error.count("\n") == 1


@pytest.mark.parametrize("kind", ["parser", "labeler"])
def test_bad_options_are_refused(treebank, tmp_path, capsys, kind):
    command = ["train", kind, str(treebank), "-o", str(tmp_path / "m.npz"), "--quiet"]
    assert main([*command, "--workers", "0"]) == 2
    assert "`workers` must be an integer > 0" in capsys.readouterr().err
    assert main([*command, "--shards", "0"]) == 2
    assert "`shards` must be an integer > 0" in capsys.readouterr().err
    assert main([*command, "--shards", "41"]) == 2
    assert "40 examples do not make 41 shards" in capsys.readouterr().err


def test_without_dask_the_extra_is_named(treebank, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert train(treebank, tmp_path / "m.npz", "--workers", "2") == 2
    assert "pip install omkl[dask]" in capsys.readouterr().err
