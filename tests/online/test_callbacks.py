"""Records every so many examples, and the table that is written of them: equal to what training tells otherwise."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_iris

import omkl
from omkl.cli import main
from omkl.exceptions import InputError, OutputFileError
from omkl.online import CSVLog, Every, ProgressiveValidation

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(150)
X, Y = X[ORDER], Y[ORDER]


def rows(path):
    return pandas.read_csv(path)


def test_a_row_for_every_epoch_is_the_history(tmp_path):
    log = CSVLog(tmp_path / "log.csv")
    model = omkl.OnlineMKLClassifier(epochs=4, early_stopping=True, callbacks=[log], random_state=0).fit(X, Y)
    pandas.testing.assert_frame_equal(rows(tmp_path / "log.csv"), omkl.online.to_frame(model.history_))
    assert "validation_score" in rows(tmp_path / "log.csv")


def test_records_on_a_stream_without_epochs_are_those_of_progressive_validation(tmp_path):
    """Whether it comes at once or in pieces; both see the same rounds, and one decodes."""
    meter, told = ProgressiveValidation(40), []
    every = Every(40, CSVLog(tmp_path / "log.csv"), lambda trainer, record: told.append(record))
    model = omkl.OnlineMKLClassifier(callbacks=[meter, every], random_state=0)
    for low in range(0, 150, 25):
        model.partial_fit(X[low : low + 25], Y[low : low + 25], classes=[0, 1, 2])
    assert [record["round"] for record in told] == [40, 80, 120]
    table = rows(tmp_path / "log.csv").drop(columns=["seconds", "epoch"])
    expected = omkl.online.to_frame(meter.records)[table.columns]
    pandas.testing.assert_frame_equal(table, expected[:3])


def test_a_listener_ends_training():
    model = omkl.OnlineMKLClassifier(callbacks=[Every(10, lambda trainer, record: record["round"] >= 30)])
    assert model.fit(X, Y).model_.trainer.round == 30


def test_shards_are_told_of_after_every_mix():
    told = []
    every = Every(100, lambda trainer, record: told.append(record["examples"]))
    omkl.OnlineMKLClassifier(["linear"], epochs=2, callbacks=[every], random_state=0).fit(X, Y, shards=2)
    assert told == [150, 150]


@pytest.mark.parametrize("wrap", [lambda log: log, lambda log: Every(50, log)], ids=["epochs", "every 50"])
def test_a_resumed_run_writes_the_file_of_an_uninterrupted_one(wrap, tmp_path):
    def fit(path, **running):
        stop = running.pop("stop", None)
        callbacks = [wrap(CSVLog(path)), *([stop] if stop else [])]
        return omkl.OnlineMKLClassifier(epochs=4, callbacks=callbacks, random_state=0).fit(X, Y, **running)

    def die(trainer, record):
        if record["epoch"] == 3:
            raise KeyboardInterrupt

    fit(tmp_path / "whole.csv")
    running = {"checkpoint": tmp_path / "state", "checkpoint_every": "70 rounds"}
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "log.csv", stop=die, **running)
    fit(tmp_path / "log.csv", resume=True, **running)
    whole, resumed = (rows(tmp_path / name).drop(columns="seconds") for name in ("whole.csv", "log.csv"))
    pandas.testing.assert_frame_equal(whole, resumed)


def test_columns_that_come_later_are_added_and_a_file_is_replaced_or_gone_on_with(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("something else\n")
    log = CSVLog(path)
    log.on_epoch(None, {"epoch": 1, "norm:a, b": 0.1})
    log.on_epoch(None, {"epoch": 2, "norm:a, b": 0.2, "norm:c": 0.3})
    CSVLog(path, append=True).on_epoch(None, {"epoch": 3})
    table = rows(path)
    assert list(table) == ["epoch", "norm:a, b", "norm:c"]
    np.testing.assert_array_equal(table["epoch"], [1, 2, 3])
    np.testing.assert_array_equal(table["norm:c"], [np.nan, 0.3, np.nan])
    with pytest.raises(OutputFileError, match="no directory"):
        CSVLog(tmp_path / "nowhere" / "log.csv")
    with pytest.raises(InputError, match="n_examples"):
        Every(0)


@pytest.mark.parametrize("kind", ["classifier", "labeler", "parser"])
def test_the_command_line_logs_while_it_trains(kind, tmp_path, capfd):
    data, log, model = (str(tmp_path / name) for name in ("data", "log.csv", "model.npz"))
    if kind == "classifier":
        Path(data).write_text("".join(f"{y} 1:{x[0]} 2:{x[2]}\n" for x, y in zip(X, Y)))
    else:
        data += ".conllu"
        omkl.data.write_treebank(data, omkl.data.synthetic_treebank(60, vocabulary=10, random_state=0))
    train = ["train", kind, data, "-o", model, "--epochs", "2", *(["--memory", "9"] if kind == "parser" else [])]
    assert main([*train, "--log", log]) == 0
    assert list(rows(log)["epoch"]) == [1, 2]
    assert main([*train, "--log", log, "--log-every", "50"]) == 0
    assert list(rows(log)["examples"]) == [50] * (6 if kind == "classifier" else 2)
    capfd.readouterr()
    assert main([*train, "--log", "-"]) == 0
    assert len(capfd.readouterr().out.splitlines()) == 3
    for options in (["--log-every", "9"], ["--log", model]):
        assert main([*train, *options]) == 2


def test_the_example_writes_what_tensorboard_reads(tmp_path):
    pytest.importorskip("tensorboardX")
    path = Path(__file__).parents[2] / "examples" / "monitoring.py"
    spec = importlib.util.spec_from_file_location("monitoring", path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(str(tmp_path))
    assert len(rows(tmp_path / "history.csv")) == 8
    [events] = tmp_path.glob("events.*")
    assert b"weight/linear" in events.read_bytes()
