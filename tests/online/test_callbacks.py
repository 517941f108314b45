"""Callbacks: records of epochs and of examples, and the file that they are written to."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_iris

import omkl
from omkl.cli import main
from omkl.exceptions import InputError, OutputFileError
from omkl.online import ProgressiveValidation, RecordLog

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
X, Y = X[ORDER], Y[ORDER]


def rows(path):
    return pandas.DataFrame(map(json.loads, Path(path).read_text().splitlines()))


def test_a_line_for_every_epoch_is_the_history(tmp_path):
    log = RecordLog(tmp_path / "log")
    model = omkl.OnlineMKLClassifier(epochs=4, early_stopping=True, callbacks=[log], random_state=0).fit(X, Y)
    pandas.testing.assert_frame_equal(rows(tmp_path / "log"), pandas.DataFrame(model.history_))
    assert "validation_score" in rows(tmp_path / "log")


def test_listeners_get_the_records_of_a_stream_that_comes_in_pieces(tmp_path):
    told = []
    meter = ProgressiveValidation(40, RecordLog(tmp_path / "log"), lambda trainer, record: told.append(record))
    model = omkl.OnlineMKLClassifier(callbacks=[meter], random_state=0)
    for low in range(0, 150, 25):
        model.partial_fit(X[low : low + 25], Y[low : low + 25], classes=[0, 1, 2])
    assert [record["round"] for record in told] == [40, 80, 120]
    assert told == meter.records
    pandas.testing.assert_frame_equal(rows(tmp_path / "log"), pandas.DataFrame(told))


def test_a_listener_ends_training():
    stop = ProgressiveValidation(10, lambda trainer, record: record["round"] >= 30)
    assert omkl.OnlineMKLClassifier(callbacks=[stop]).fit(X, Y).model_.trainer.round == 30


def test_shards_are_counted_after_every_mix():
    told = []
    meter = ProgressiveValidation(100, lambda trainer, record: told.append(record["examples"]))
    omkl.OnlineMKLClassifier(["linear"], epochs=2, callbacks=[meter], random_state=0).fit(X, Y, shards=2)
    assert told == [150, 150]


@pytest.mark.parametrize("wrap", [lambda log: log, lambda log: ProgressiveValidation(50, log)], ids=["epochs", "50"])
def test_a_resumed_run_writes_the_file_of_an_uninterrupted_one(wrap, tmp_path):
    def fit(path, **running):
        stop = running.pop("stop", None)
        callbacks = [wrap(RecordLog(path)), *([stop] if stop else [])]
        return omkl.OnlineMKLClassifier(epochs=4, callbacks=callbacks, random_state=0).fit(X, Y, **running)

    def die(trainer, record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    fit(tmp_path / "whole")
    running = {"checkpoint": tmp_path / "state", "checkpoint_every": "70 rounds"}
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "log", stop=die, **running)
    fit(tmp_path / "log", resume=True, **running)
    whole, resumed = (rows(tmp_path / name).drop(columns="seconds") for name in ("whole", "log"))
    pandas.testing.assert_frame_equal(whole, resumed)


def test_a_file_is_replaced_and_entries_may_come_later(tmp_path):
    path = tmp_path / "log"
    path.write_text("something else\n")
    log = RecordLog(path)
    log.on_epoch(None, {"epoch": 1})
    log.on_epoch(None, {"epoch": 2, "norm:c": 0.3})
    np.testing.assert_array_equal(rows(path)["norm:c"], [np.nan, 0.3])
    with pytest.raises(OutputFileError, match="no directory"):
        RecordLog(tmp_path / "nowhere" / "log")
    with pytest.raises(InputError, match="every must be"):
        ProgressiveValidation(0)


def test_the_command_line_logs_while_it_trains(tmp_path, capfd):
    data, log, model = (str(tmp_path / name) for name in ("data", "log", "model.npz"))
    Path(data).write_text("".join(f"{y} 1:{x[0]} 2:{x[2]}\n" for x, y in zip(X, Y)))
    train = ["train", "classifier", data, "-o", model, "--epochs", "2"]
    assert main([*train, "--log", log]) == 0
    assert list(rows(log)["epoch"]) == [1, 2]
    capfd.readouterr()
    assert main([*train, "--log", "-"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 2
    assert main([*train, "--log", model]) == 2


def test_the_example_writes_what_tensorboard_reads(tmp_path):
    pytest.importorskip("tensorboardX")
    path = Path(__file__).parents[2] / "examples" / "monitoring.py"
    spec = importlib.util.spec_from_file_location("monitoring", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(str(tmp_path))
    assert len(rows(tmp_path / "history.jsonl")) == 8
    [events] = tmp_path.glob("events.*")
    assert b"weight/linear" in events.read_bytes()
