"""``omkl guarantee``, and ``omkl predict --error``: the marks are those of the library, in every
form.
"""

import json
import re

import numpy as np
import pytest

import omkl
from omkl.cli import main
from omkl.data import Treebank, read_treebank, write_treebank
from omkl.parsing.decoding import TreeDecoder
from omkl.parsing.sentences import strings_of
from omkl.structures.chain import Chain

from ..annotation.made_language import sentences
from ..commands import read_json, run
from ..guarantees.test_checked import rows, words


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write calibration data and new data, and models, in a folder."""
    made = tmp_path_factory.mktemp("guarantee")
    for name, n, seed in (("train", 200, 0), ("cal", 200, 1), ("new", 30, 2)):
        lines = [json.dumps({"x": x, "y": y}) + "\n" for x, y in zip(*words(n, seed))]
        (made / f"{name}.jsonl").write_text("".join(lines))
        lines = [",".join(map(str, [*x, y])) + "\n" for x, y in zip(*rows(n, seed))]
        (made / f"{name}.csv").write_text("a,b,c,y\n" + "".join(lines))
        write_treebank(
            made / f"{name}.conllu",
            Treebank.from_sentences(sentences(n, seed)),
        )
    omkl.SequenceLabeler(loss="crf", random_state=0).fit(*words(200, 0)).save(made / "labeler.npz")
    run(
        "train",
        "classifier",
        made / "train.csv",
        "-o",
        made / "classifier.npz",
        "--random-state",
        0,
        "--quiet",
    )
    treebank = Treebank.from_sentences(sentences(100))
    parser = omkl.DependencyParser(
        "small", epochs=2, memory=5, random_state=0, search=omkl.TreeSearch(order=1)
    ).fit(treebank[:70])
    parser.calibrate(treebank[70:]).save(made / "parser.npz")
    return made


@pytest.mark.parametrize(("unit", "error"), [("output", 0.1), ("token", 0.03)])
def test_labels_are_marked(folder, unit, error, tmp_path):
    checked = tmp_path / "checked.npz"
    out = tmp_path / "out.jsonl"
    run(
        "guarantee",
        folder / "labeler.npz",
        folder / "cal.jsonl",
        "-o",
        checked,
        "--unit",
        unit,
        "--quiet",
    )
    run(
        "predict",
        checked,
        folder / "new.jsonl",
        "-o",
        out,
        "--error",
        error,
        "--confidence",
        "--quiet",
    )
    accepted = omkl.load(checked).accept(X := words(30, 2)[0], error=error)
    marks = [
        np.where(np.broadcast_to(accepted_labels, len(x)), "accept", "check").tolist()
        for accepted_labels, x in zip(accepted, X)
    ]
    records = list(map(json.loads, out.read_text().splitlines()))
    assert [record["guarantee"] for record in records] == marks
    assert {mark for accepted_labels in marks for mark in accepted_labels} == {"accept", "check"}
    run(
        "predict",
        checked,
        folder / "new.jsonl",
        "-o",
        out,
        "--error",
        error,
        "--to",
        "text",
        "--quiet",
    )
    lines = [line.split("\t") for line in out.read_text().splitlines() if line]
    assert lines == [
        [y, mark] for record in records for y, mark in zip(record["y"], record["guarantee"])
    ]


def test_rows_are_marked(folder, tmp_path):
    checked = tmp_path / "checked.npz"
    out = tmp_path / "out.txt"
    run(
        "guarantee",
        folder / "classifier.npz",
        folder / "cal.csv",
        "-o",
        checked,
        "--json",
        tmp_path / "curve.json",
    )
    run("predict", checked, folder / "new.csv", "-o", out, "--error", 0.1, "--quiet")
    loaded = omkl.load(checked)
    with pytest.warns(UserWarning, match="feature names"):
        accepted = loaded.accept(rows(30, 2)[0], error=0.1)
    assert [
        line.split("\t")[1] == "accept" for line in out.read_text().splitlines()
    ] == accepted.tolist()
    assert read_json(tmp_path / "curve.json")["curve"] == loaded.curve()


def test_words_of_trees_are_marked_and_the_report_draws_the_curve(folder, tmp_path):
    checked = tmp_path / "checked.npz"
    out = tmp_path / "out.conllu"
    settings = ("--column", "heads", "--level", 0.8)
    run(
        "guarantee",
        folder / "parser.npz",
        folder / "cal.conllu",
        "-o",
        checked,
        *settings,
        "--quiet",
    )
    run("predict", checked, folder / "new.conllu", "-o", out, "--error", 0.1, "--quiet")
    marked_treebank = read_treebank(out, trees="given")
    loaded = omkl.load(checked)
    assert loaded.column == "heads"
    assert loaded.confidence == 0.8
    marks = np.repeat(loaded.accept(folder / "new.conllu", error=0.1), marked_treebank.lengths)
    assert strings_of(marked_treebank, "misc") == [
        f"Guarantee={'accept' if is_accepted else 'check'}" for is_accepted in marks
    ]
    run("report", checked, folder / "new.conllu", "-o", tmp_path / "page.html", "--quiet")
    assert "What can be accepted" in (tmp_path / "page.html").read_text()
    run("evaluate", checked, folder / "new.conllu", "--quiet")


@pytest.mark.parametrize(
    ("model", "suffix", "unused", "counted", "n"),
    [
        ("labeler", "jsonl", (omkl.SequenceLabeler, "predict"), (Chain, "decode"), 30),
        ("parser", "conllu", (omkl.DependencyParser, "parse"), (TreeDecoder, "from_potentials"), 1),
    ],
)
def test_marks_and_probabilities_need_one_prediction(
    model, suffix, unused, counted, n, folder, tmp_path, monkeypatch
):
    checked = tmp_path / "checked.npz"
    out = tmp_path / f"out.{suffix}"
    n_calls = 0
    run(
        "guarantee",
        folder / f"{model}.npz",
        folder / f"cal.{suffix}",
        "-o",
        checked,
        "--quiet",
    )
    function = getattr(*counted)

    def called(*arguments, **named):
        nonlocal n_calls
        n_calls += 1
        return function(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(*counted, called)
        patched.setattr(*unused, None)
        run(
            "predict",
            checked,
            folder / f"new.{suffix}",
            "-o",
            out,
            "--error",
            0.2,
            "--confidence",
            "--quiet",
        )
    assert n_calls == n
    marked = out.read_text()
    run(
        "predict",
        folder / f"{model}.npz",
        folder / f"new.{suffix}",
        "-o",
        out,
        "--confidence",
        "--quiet",
    )
    assert re.sub(r"\|Guarantee=\w+|, \"guarantee\": \[.*?\]", "", marked) == out.read_text()


def test_a_model_without_a_guarantee_is_refused(folder, capsys):
    assert (
        main(["predict", str(folder / "labeler.npz"), str(folder / "new.jsonl"), "--error", "0.1"])
        == 2
    )
    assert "omkl guarantee" in capsys.readouterr().err
