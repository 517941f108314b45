"""``--checkpoint`` and ``--resume``: a killed and resumed command writes the same file as an uninterrupted one."""

import signal
import subprocess
import sys
import time

import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

from omkl.cli import main
from omkl.data import synthetic_treebank, write_treebank


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
    assert main([*command, str(tmp_path / "straight.npz")]) == 0

    run = tmp_path / "run"
    resumed = [*command, str(tmp_path / "resumed.npz"), "--checkpoint", str(run), "--checkpoint-every", "20 rounds"]
    process = subprocess.Popen([sys.executable, "-m", "omkl", *resumed])
    while not run.exists() or not any(run.glob("checkpoint-*")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "resumed.npz").exists()
    assert main([*resumed, "--resume"]) == 0
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
    command = ["train", kind, str(path), *settings, "--quiet", "-o"]
    assert main([*command, str(tmp_path / "straight.npz")]) == 0
    run = ["--checkpoint", str(tmp_path / "run"), "--checkpoint-every", "7 rounds"]
    assert main([*command, str(tmp_path / "first.npz"), *run]) == 0
    # without the newer checkpoint, the run resumes from the older one
    max((tmp_path / "run").iterdir()).unlink()
    assert main([*command, str(tmp_path / "resumed.npz"), *run, "--resume"]) == 0
    for name in ("first", "resumed"):
        assert (tmp_path / "straight.npz").read_bytes() == (tmp_path / f"{name}.npz").read_bytes()
