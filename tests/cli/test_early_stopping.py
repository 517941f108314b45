"""``--early-stopping --dev`` keeps the best epoch on the file."""

import json

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import omkl
from omkl.cli import main
from omkl.data import synthetic_treebank, write_treebank


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return training and test files of a treebank and of rows, by name."""
    folder = tmp_path_factory.mktemp("files")
    trees = synthetic_treebank(120, vocabulary=10, random_state=0)
    write_treebank(folder / "t.conllu", trees[:80])
    write_treebank(folder / "d.conllu", trees[80:])
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    for name, rows in (("t.svm", order[:100]), ("d.svm", order[100:])):
        dump_svmlight_file(X[rows], y[rows], str(folder / name), zero_based=False)
    return folder


def train(kind, files, out, *options):
    end = "conllu" if kind in ("parser", "labeler") else "svm"
    more = ["--templates", "small", "--memory", "9"] if kind == "parser" else []
    report = out.with_suffix(".json")
    words = ["train", kind, files / f"t.{end}", "-o", out, "--random-state", "0", "--epochs", "2", "--json", report]
    assert (
        main([*map(str, words), *more, "--quiet", *(option.format(dev=files / f"d.{end}") for option in options)]) == 0
    )
    return omkl.load(out), json.loads(report.read_text())


@pytest.mark.parametrize("stream", [[], ["--stream"]], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", ["labeler", "parser", "classifier", "regressor"])
def test_training_stops_by_the_dev_file(kind, stream, files, tmp_path):
    options = ["--early-stopping", "--dev", "{dev}", "--epochs", "12", "--weighting", "norms", *stream]
    model, metrics = train(kind, files, tmp_path / "m.npz", *options, "--log", str(tmp_path / "log.jsonl"))
    noted = np.array([json.loads(line)["validation_score"] for line in (tmp_path / "log.jsonl").open()])
    assert len(noted) == model.n_iter_ == metrics["epochs"]
    if kind == "parser":
        assert metrics["dev"]["all"]["uas"] == pytest.approx(noted.max())
    elif kind == "regressor":
        assert metrics["dev"]["r2"] == pytest.approx(noted.max())
    else:
        assert metrics["dev"]["accuracy"] == pytest.approx(noted.max())
