"""The command line on annotators: training, prediction, evaluation, inspection."""

import json
import sys
from dataclasses import replace
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


class TestCommandLine:
    def test_training_tells_what_was_learned(self, folder):
        metrics = json.loads((folder / "train.json").read_text())
        assert metrics["parts"] == ["upos", "xpos", "feats", "lemmas", "trees"]
        assert metrics["dev"]["all"]["las"] > 0.9
        assert "upos" in metrics["kernel_weights"]

    def test_evaluate_agrees_with_predict(self, folder, capsys):
        gold, model, out = (str(folder / name) for name in ("test.conllu", "model.npz", "out.conllu"))
        assert main(["predict", model, gold, "-o", out]) == 0
        assert "words a second" in capsys.readouterr().out
        assert main(["evaluate", model, gold, "--json", str(folder / "own.json"), "--quiet"]) == 0
        assert main(["evaluate", gold, out, "--json", str(folder / "files.json"), "--quiet"]) == 0
        own, files = (json.loads((folder / name).read_text())["all"] for name in ("own.json", "files.json"))
        assert own == files

    def test_standard_input_to_standard_output(self, folder, capfdbinary, monkeypatch):
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"the bobas tatated the dadas\n")))
        assert main(["predict", str(folder / "model.npz"), "-"]) == 0
        lines = capfdbinary.readouterr().out.decode().splitlines()
        assert lines[:2] == ["# sent_id = 1", "# text = the bobas tatated the dadas"]
        assert [line.split("\t")[3] for line in lines[2:7]] == ["DET", "NOUN", "VERB", "DET", "NOUN"]
        assert lines[7:] == [""]

    def test_trees_are_not_compared_with_none(self, folder, capsys):
        bare = Treebank.from_sentences([replace(s, heads=[], deprels=[]) for s in sentences(9, seed=2)])
        write_treebank(folder / "bare.conllu", bare)
        model, gold = str(folder / "model.npz"), str(folder / "bare.conllu")
        assert main(["report", model, gold, "-o", str(folder / "r.html")]) == 0
        page = (folder / "r.html").read_text()
        assert "Calibration of arcs" not in page

    def test_json_lines(self, folder):
        (folder / "in.txt").write_text("the bobas tatated the dadas\n")
        assert main(["predict", str(folder / "model.npz"), str(folder / "in.txt"), "-o", str(folder / "o.jsonl")]) == 0
        record = json.loads((folder / "o.jsonl").read_text())
        assert record["forms"] == ["the", "bobas", "tatated", "the", "dadas"]
        assert set(record) == {"forms", "upos", "xpos", "feats", "lemmas", "heads", "deprels"}

    def test_inspect_lists_every_part(self, folder, capsys):
        assert main(["inspect", str(folder / "model.npz"), "--json", str(folder / "inspect.json")]) == 0
        assert "upos" in capsys.readouterr().out
        assert "trees" in json.loads((folder / "inspect.json").read_text())["kernel_weights"]

    def test_a_failed_calibration_keeps_the_model(self, folder, capsys):
        (folder / "bare.conllu").write_text("1\tthe\t_\tDET\t_\t_\t_\t_\t_\t_\n\n")
        paths = [str(folder / "train.conllu"), "-o", str(folder / "kept.npz"), "--dev", str(folder / "bare.conllu")]
        assert main(["train", "annotator", *paths, "--epochs", "1", "--templates", "small", "--quiet"]) == 2
        message = capsys.readouterr().err
        assert "is saved to" in message
        assert "bare.conllu" in message
        assert message.count("\n") == 1
        assert omkl.load(folder / "kept.npz").annotate([["the", "bobas"]])[0].upos[0] == "DET"

    def test_bad_input_is_one_line(self, folder, capsys):
        assert main(["predict", str(folder / "model.npz"), str(folder / "nothing.txt")]) == 2
        assert main(["predict", str(folder / "model.npz"), str(folder / "test.conllu"), "--target", "y"]) == 2
        assert capsys.readouterr().err.count("\n") == 2
