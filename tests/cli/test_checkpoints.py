"""Training commands that are killed and resumed write the same file; early stopping keeps the best
epoch.
"""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import omkl
from omkl.data import synthetic_treebank, write_treebank

from ..commands import read_json, run

pytestmark = pytest.mark.slow


@pytest.fixture
def treebank(tmp_path):
    path = tmp_path / "train.conllu"
    write_treebank(path, synthetic_treebank(150, vocabulary=10, random_state=0))
    return path


@pytest.mark.parametrize("kind", ["parser", "labeler", "annotator"])
def test_a_killed_command_resumes_to_the_same_file(kind, treebank, tmp_path):
    settings = ["--epochs", "6", "--random-state", "0", "--quiet"]
    settings += ["--templates", "small", "--memory", "10"] if kind != "labeler" else []
    settings += ["--parts", "xpos", "trees", "--tagging-folds", "2"] if kind == "annotator" else []
    command = ["train", kind, str(treebank), *settings, "-o"]
    run(*command, tmp_path / "straight.npz")

    folder = tmp_path / "run"
    resumed = [
        *command,
        str(tmp_path / "resumed.npz"),
        "--checkpoint",
        str(folder),
        "--checkpoint-every",
        "20 rounds",
    ]
    process = subprocess.Popen([sys.executable, "-m", "omkl", *resumed])
    while not folder.exists() or not any(folder.glob("checkpoint-*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "resumed.npz").exists()
    run(*resumed, "--resume")
    assert (tmp_path / "straight.npz").read_bytes() == (tmp_path / "resumed.npz").read_bytes()


@pytest.mark.parametrize("kind", ["parser", "labeler", "classifier", "regressor"])
def test_streams_are_learned_block_by_block_and_resume(kind, treebank, tmp_path):
    settings = ["--epochs", "3", "--random-state", "0", "--stream"]
    settings += ["--templates", "small", "--memory", "10"] if kind == "parser" else []
    path = treebank
    if kind in ("classifier", "regressor"):
        path = tmp_path / "data.svm"
        X, y = load_iris(return_X_y=True)
        dump_svmlight_file(X, y, str(path), zero_based=False)
    command = ["train", kind, path, *settings, "--quiet", "-o"]
    run(*command, tmp_path / "straight.npz")
    checkpoints = ["--checkpoint", tmp_path / "run", "--checkpoint-every", "7 rounds"]
    run(*command, tmp_path / "first.npz", *checkpoints)
    # without the newer checkpoint, the run resumes from the older one
    max((tmp_path / "run").iterdir()).unlink()
    run(*command, tmp_path / "resumed.npz", *checkpoints, "--resume")
    for name in ("first", "resumed"):
        assert (tmp_path / "straight.npz").read_bytes() == (tmp_path / f"{name}.npz").read_bytes()


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
        dump_svmlight_file(
            X[rows],
            y[rows],
            str(folder / name),
            zero_based=False,
        )
    return folder


def train(kind, files, out, *options):
    end = "conllu" if kind in ("parser", "labeler") else "svm"
    more = ["--templates", "small", "--memory", "9"] if kind == "parser" else []
    report = out.with_suffix(".json")
    words = [
        "train",
        kind,
        files / f"t.{end}",
        "-o",
        out,
        "--random-state",
        "0",
        "--epochs",
        "2",
        "--json",
        report,
    ]
    run(
        *words,
        *more,
        "--quiet",
        *(option.format(dev=files / f"d.{end}") for option in options),
    )
    return omkl.load(out), read_json(report)


@pytest.mark.parametrize("stream", [[], ["--stream"]], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", ["labeler", "parser", "classifier", "regressor"])
def test_training_stops_by_the_dev_file(kind, stream, files, tmp_path):
    options = [
        "--early-stopping",
        "--dev",
        "{dev}",
        "--epochs",
        "12",
        "--weighting",
        "norms",
        *stream,
    ]
    model, metrics = train(
        kind, files, tmp_path / "m.npz", *options, "--log", str(tmp_path / "log.jsonl")
    )
    noted = np.array(
        [json.loads(line)["validation_score"] for line in (tmp_path / "log.jsonl").open()]
    )
    assert len(noted) == model.n_iter_ == metrics["epochs"]
    if kind == "parser":
        assert metrics["dev"]["all"]["uas"] == pytest.approx(noted.max())
    elif kind == "regressor":
        assert metrics["dev"]["r2"] == pytest.approx(noted.max())
    else:
        assert metrics["dev"]["accuracy"] == pytest.approx(noted.max())
