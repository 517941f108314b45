"""The command line on annotators: training, prediction, evaluation, inspection."""

import json
import sys
from io import BytesIO, TextIOWrapper

import pytest

import omkl
from omkl.cli import main
from omkl.data import Treebank, write_treebank

from ..annotation.made_language import sentences


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annotator")
    write_treebank(folder / "train.conllu", Treebank.from_sentences(sentences(150)))
    write_treebank(folder / "test.conllu", Treebank.from_sentences(sentences(40, seed=1)))
    arguments = ["--epochs", "3", "--templates", "small", "--random-state", "0"]
    paths = [str(folder / "train.conllu"), "-o", str(folder / "model.npz"), "--dev", str(folder / "test.conllu")]
    assert main(["train", "annotator", *paths, *arguments, "--json", str(folder / "train.json")]) == 0
    return folder


def test_training_and_inspect_tell_what_was_learned(folder, capsys):
    metrics = json.loads((folder / "train.json").read_text())
    assert metrics["parts"] == ["upos", "xpos", "feats", "lemmas", "trees"]
    assert metrics["dev"]["all"]["las"] > 0.9
    assert main(["inspect", str(folder / "model.npz"), "--json", str(folder / "inspect.json")]) == 0
    assert "upos" in capsys.readouterr().out
    assert json.loads((folder / "inspect.json").read_text())["kernel_weights"] == metrics["kernel_weights"]


def test_evaluate_agrees_with_predict(folder, capsys):
    gold, model, out = (str(folder / name) for name in ("test.conllu", "model.npz", "out.conllu"))
    assert main(["predict", model, gold, "-o", out]) == 0
    assert "words a second" in capsys.readouterr().out
    assert main(["evaluate", model, gold, "--json", str(folder / "own.json"), "--quiet"]) == 0
    assert main(["evaluate", gold, out, "--json", str(folder / "files.json"), "--quiet"]) == 0
    own, files = (json.loads((folder / name).read_text())["all"] for name in ("own.json", "files.json"))
    assert own == files


def test_text_on_standard_input_is_annotated(folder, capfdbinary, monkeypatch):
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"the bobas tatated the dadas\n")))
    assert main(["predict", str(folder / "model.npz"), "-", "-o", str(folder / "o.jsonl"), "--quiet"]) == 0
    record = json.loads((folder / "o.jsonl").read_text())
    assert record["forms"] == ["the", "bobas", "tatated", "the", "dadas"]
    assert record["upos"] == ["DET", "NOUN", "VERB", "DET", "NOUN"]
    assert set(record) == {"forms", "upos", "xpos", "feats", "lemmas", "heads", "deprels"}


def test_a_failed_calibration_keeps_the_model(folder, capsys):
    (folder / "bare.conllu").write_text("1\tthe\t_\tDET\t_\t_\t_\t_\t_\t_\n\n")
    paths = [str(folder / "train.conllu"), "-o", str(folder / "kept.npz"), "--dev", str(folder / "bare.conllu")]
    assert main(["train", "annotator", *paths, "--epochs", "1", "--templates", "small"]) == 0
    assert "Scores are not made probabilities by" in capsys.readouterr().out
    assert omkl.load(folder / "kept.npz").annotate([["the", "bobas"]])[0].upos[0] == "DET"
