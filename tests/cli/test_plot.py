"""``omkl plot``: every kind of picture from saved models, and one sentence where there is nothing to draw."""

import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.datasets import load_iris

import omkl
from omkl.cli import main
from omkl.data import synthetic_treebank, write_treebank

pytest.importorskip("matplotlib")
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Models, and labelled files for them, by what they are called."""
    folder = tmp_path_factory.mktemp("files")
    treebank = synthetic_treebank(80, vocabulary=10, random_state=0)
    write_treebank(folder / "trees.conllu", treebank)
    X, y = load_iris(return_X_y=True)
    np.savetxt(folder / "rows.csv", np.column_stack([X, y]), delimiter=",", header="a,b,c,d,kind", comments="")
    settings = {"epochs": 2, "random_state": 0, "verbose": False}
    parser = omkl.DependencyParser("small", memory=10, **settings).fit(treebank)
    parser.save(folder / "parser.npz")
    parser.calibrate(treebank).save(folder / "sure.npz")
    omkl.OnlineMKLClassifier(["linear", "gaussian"], loss="crf", **settings).fit(X, y).save(folder / "rows.npz")
    omkl.OnlineMKLRegressor(["linear"], **settings).fit(X, y).save(folder / "numbers.npz")
    omkl.MKLClassifierCV(["linear", "gaussian"], Cs=[0.1, 1.0], cv=2).fit(X, y).save(folder / "batch.npz")
    once = omkl.SequenceLabeler(epochs=1), omkl.DependencyParser("small", memory=10, epochs=1)
    annotator = omkl.Annotator(("upos", "trees"), tagger=once[0], parser=once[1], folds=2, verbose=False)
    annotator.fit(treebank[:30]).save(folder / "annotator.npz")
    annotator.calibrate(treebank[30:]).save(folder / "calibrated.npz")
    sentences = [[{"word": form} for form in sentence.forms] for sentence in treebank]
    labeler = omkl.SequenceLabeler(loss="crf", **settings).fit(sentences, [sentence.upos for sentence in treebank])
    labeler.save(folder / "labeler.npz")
    (folder / "words.txt").write_text(
        "\n".join("".join(f"{tag}\tword={form}\n" for form, tag in zip(s.forms, s.upos)) for s in treebank)
    )
    return folder


def plot(files, model, data, *options, name="picture.png"):
    out = files / name
    out.unlink(missing_ok=True)
    command = ["plot", str(files / model), *([str(files / data)] if data else []), "-o", str(out), *options]
    return main(command), out


@pytest.mark.parametrize(
    ("model", "data", "kind"),
    [
        ("labeler.npz", None, "weights"), ("labeler.npz", None, "history"), ("parser.npz", None, "loss"),
        ("batch.npz", None, "search"), ("batch.npz", None, "gap"), ("batch.npz", None, "weights"),
        ("parser.npz", "trees.conllu", "groups"), ("rows.npz", "rows.csv", "groups"),
        ("labeler.npz", "words.txt", "confusion"), ("parser.npz", "trees.conllu", "confusion"),
        ("annotator.npz", "trees.conllu", "confusion"), ("rows.npz", "rows.csv", "confusion"),
        ("labeler.npz", "words.txt", "calibration"), ("sure.npz", "trees.conllu", "calibration"),
        ("rows.npz", "rows.csv", "calibration"), ("parser.npz", "trees.conllu", "pruning"),
    ],
)  # fmt: skip
def test_pictures_of_models_and_of_what_they_do_on_data(files, model, data, kind, capsys):
    more = ["--format", "crfsuite"] if data == "words.txt" else []
    code, out = plot(files, model, data, "--kind", kind, *more)
    assert (code, capsys.readouterr().err) == (0, "")
    assert out.read_bytes().startswith(PNG)


@pytest.mark.parametrize("model", ["parser.npz", "sure.npz", "annotator.npz"])
def test_a_tree_beside_the_gold_one(files, model, capsys):
    code, out = plot(files, model, "trees.conllu", "--kind", "tree", "--example", "3", name="tree.svg")
    assert code == 0
    drawn = ElementTree.fromstring(out.read_text())
    forms = [t.text for t in drawn.iter("{http://www.w3.org/2000/svg}text") if t.get("class") == "form"]
    assert forms == synthetic_treebank(80, vocabulary=10, random_state=0)[2].forms
    assert ("unsure" in out.read_text()) == (model == "sure.npz")


def test_formats_sizes_backgrounds_and_standard_output(files, capsys):
    assert plot(files, "rows.npz", None, "--width", "3.3", "--dark", "--title", "T", name="a.pdf")[0] == 0
    assert (files / "a.pdf").read_bytes().startswith(b"%PDF")
    assert plot(files, "rows.npz", None, name="a.svg")[0] == 0
    first = (files / "a.svg").read_bytes()
    assert plot(files, "rows.npz", None, name="a.svg")[0] == 0
    assert (files / "a.svg").read_bytes() == first  # equal models are equal pictures
    assert plot(files, "annotator.npz", None, "--part", "upos")[0] == 0
    capsys.readouterr()
    command = [sys.executable, "-m", "omkl", "plot", "-", "-o", "-"]
    with (files / "rows.npz").open("rb") as model:
        assert ElementTree.fromstring(subprocess.run(command, stdin=model, capture_output=True, check=True).stdout)
    assert main(["plot", str(files / "rows.npz"), "-o", str(files / "b.png"), "--quiet", "--json", "-"]) == 0
    assert '"kind": "weights"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "data", "options", "words"),
    [
        ("rows.npz", None, ["--kind", "confusion"], "needs labelled data"),
        ("rows.npz", "rows.csv", [], "does not read"),
        ("rows.npz", None, ["--kind", "search"], "cross-validation"),
        ("rows.npz", "rows.csv", ["--kind", "pruning"], "is for parsers"),
        ("batch.npz", None, ["--kind", "history"], "plot_gap"),
        ("annotator.npz", None, [], "upos, trees."),
        ("annotator.npz", None, ["--kind", "search"], "cross-validation"),
        (
            "annotator.npz",
            "trees.conllu",
            ["--kind", "confusion", "--part", "lemmas"],
            "only of these parts: upos, trees",
        ),
        ("annotator.npz", "trees.conllu", ["--kind", "groups"], "not for an Annotator"),
        ("annotator.npz", "trees.conllu", ["--kind", "calibration", "--part", "upos"], "calibrate"),
        (
            "calibrated.npz",
            "trees.conllu",
            ["--kind", "calibration", "--part", "lemmas"],
            "only of these parts: upos, trees",
        ),
        ("annotator.npz", None, ["--kind", "gap", "--part", "upos"], "--part does not go with --kind gap"),
        ("rows.npz", None, ["--part", "upos"], "not go with an OnlineMKLClassifier"),
        ("parser.npz", None, ["--kind", "loss", "--show", "3"], "--show does not go with --kind loss"),
        ("rows.npz", None, ["--example", "2"], "--example does not go with --kind weights"),
        ("numbers.npz", "rows.csv", ["--kind", "confusion"], "is for models that predict labels"),
        ("parser.npz", "trees.conllu", ["--kind", "calibration"], "is for models with probabilities"),
        ("rows.npz", None, ["--width", "0"], "--width"),
        ("rows.npz", None, ["--show", "0"], "--show"),
        ("rows.npz", None, ["--kind", "gap"], "no duality gap"),
        ("batch.npz", "rows.csv", ["--kind", "groups"], "trained online"),
    ],
)
def test_impossible_pictures_are_one_sentence(files, model, data, options, words, capsys):
    code, out = plot(files, model, data, *options)
    printed = capsys.readouterr()
    assert code == 2
    assert words in printed.err
    assert printed.err.startswith("omkl: error: ")
    assert printed.err.count("\n") == 1
    assert not out.exists()


@pytest.mark.parametrize("part", ["upos", "trees"])
def test_the_probabilities_of_each_part_of_an_annotator_are_those_that_it_notes(files, monkeypatch, part):
    given = []

    def drawing(right, sure, **options):
        given.append((np.mean(right), np.array(sure)))
        return omkl.reports.plot_weights({"a": 1.0})

    monkeypatch.setattr("omkl.reports.plot_calibration", drawing)
    options = [] if part == "upos" else ["--part", part]  # tags, if it is not said which
    assert plot(files, "calibrated.npz", "trees.conllu", "--kind", "calibration", *options)[0] == 0
    annotator, gold = omkl.load(files / "calibrated.npz"), omkl.data.read_treebank(files / "trees.conllu")
    noted = "UposConf" if part == "upos" else "HeadConf"
    notes = [dict(note.split("=") for note in misc.split("|")) for s in annotator.annotate(gold, confidence=True)
             for misc in s.misc]  # fmt: skip
    [(share, sure)] = given
    np.testing.assert_allclose(sure, [float(own[noted]) for own in notes], atol=6e-4)
    assert share == annotator.evaluate(gold)["upos" if part == "upos" else "uas"]


def test_the_labels_of_each_part_of_an_annotator_are_compared(files, monkeypatch):
    from omkl import reports

    gold = synthetic_treebank(80, vocabulary=10, random_state=0)
    compared, draw = {}, reports.plot_confusion

    def noting(*labels, **options):
        compared[part] = labels
        return draw(*labels, **options)

    monkeypatch.setattr(reports, "plot_confusion", noting)
    for part in ("upos", "trees"):
        plot(files, "annotator.npz", "trees.conllu", "--kind", "confusion", "--part", part)
    assert compared["upos"][0] == [sentence.upos for sentence in gold]
    assert compared["trees"][0] == [sentence.deprels for sentence in gold]


@pytest.mark.parametrize("option", [["--dark"], ["--width", "3.3"], ["--title", "T"], ["--part", "trees"]])
def test_unread_options_of_trees_are_refused(files, option, capsys):
    code, _ = plot(files, "annotator.npz", "trees.conllu", "--kind", "tree", *option, name="tree.svg")
    assert code == 2
    assert option[0] in capsys.readouterr().err


def test_names_say_the_format(files, capsys):
    assert plot(files, "rows.npz", None, name="picture.doc")[0] == 2
    assert ".png, .svg, .pdf" in capsys.readouterr().err
    assert plot(files, "parser.npz", "trees.conllu", "--kind", "tree", name="tree.png")[0] == 2
    assert ".svg" in capsys.readouterr().err
    options = ["--kind", "tree", "--example", "81"]
    assert plot(files, "parser.npz", "trees.conllu", *options, name="tree.svg")[0] == 2
    assert "80 sentences" in capsys.readouterr().err
