"""``omkl demo`` prints what it measures."""

import json
import sys

import numpy as np
import pytest

import omkl
from omkl.cli import main
from omkl.cli.demo import LABELERS, USEFUL, USELESS, describe_weights, tokens_of


def demo(folder, *options):
    return main(["demo", "-o", str(folder), "--json", str(folder / "m.json"), *map(str, options)])


def test_demo_prints_saves_and_draws(tmp_path, capsys):
    assert demo(tmp_path, "--n-train", 60, "--n-test", 100) == 0
    printed = capsys.readouterr().out
    for expected in (*LABELERS, "told which 4 see the digit", "█", "At zero:", "Next:"):
        assert expected in printed
    metrics = json.loads((tmp_path / "m.json").read_text())
    assert metrics == json.loads((tmp_path / "metrics.json").read_text())
    accuracies = {row["kernels"]: row["accuracy"] for row in metrics["results"]}
    assert list(accuracies) == list(LABELERS)
    assert accuracies["MKL out of sample"] > accuracies["all 13 alike"] + 0.01
    assert sum(metrics["kernel_weights"][name] for name in USEFUL) > 0.95
    assert 0.5 < sum(metrics["kernel_weights_by_norms"][name] for name in USEFUL) < 0.95
    assert (tmp_path / "group_weights.png").read_bytes().startswith(b"\x89PNG")
    assert omkl.load(tmp_path / "dates.npz").kernel_weights_ == pytest.approx(metrics["kernel_weights"])


def test_demo_without_matplotlib_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert demo(tmp_path, "--n-train", 5, "--n-test", 1, "--epochs", 1) == 0
    assert "pip install omkl[plot]" in capsys.readouterr().out


def test_useless_views_are_independent_of_the_digit():
    dates = omkl.data.handwritten_dates(300, 1)
    tokens = tokens_of(dates.train_images, np.random.default_rng(0))
    flat, labels = [token for date in tokens for token in date], np.concatenate(dates.train_digits)
    assert list(flat[0]) == [*USEFUL, *USELESS]
    digit_of = {row.tobytes(): label for row, label in zip(np.vstack(dates.train_images), labels)}
    others = [digit_of[token["pixels of another digit"].tobytes()] for token in flat]
    # random digits agree this often
    expected = np.sum((np.bincount(labels) / len(labels)) ** 2)
    assert np.mean(others == labels) == pytest.approx(expected, abs=0.03)
    for name in ("place on the page", "number of the form"):
        assert all((token[name] == date[0][name]).all() for date in tokens for token in date)


def test_weights_at_zero_are_named():
    weights = dict.fromkeys((*USEFUL, *USELESS), 0.0) | {"pixels": 0.75, "place on the page": 0.25}
    text = "\n".join(describe_weights(weights, dict.fromkeys(weights, 1 / 13)))
    assert text.startswith("75.0% of the weight is on the 4 that see the digit (by norms 30.8%):")
    charted, zero = text.split("At zero:")
    assert "* pixels" in charted
    assert "place on the page" in charted
    assert "* outline" in zero
    assert "At zero: none." in "\n".join(describe_weights(dict.fromkeys(weights, 1 / 13), weights))
