"""Parsing and annotating from the command line: output, files, exit codes, Ctrl-C."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from io import BytesIO, TextIOWrapper

import numpy as np
import pytest

import omkl
from omkl.cli import main
from omkl.cli.train import Interruption
from omkl.data import Sentence, Treebank, read_treebank, synthetic_treebank, write_treebank
from omkl.parsing.sentences import strings_of

from ..annotation.made_language import sentences
from ..commands import read_json, run

TEMPLATES = "tags = h.upos m.upos direction\nh.lemma m.lemma\nm.xpos distance\nh.form m.form\n"


@pytest.fixture(scope="module")
def treebanks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("treebanks")
    treebank = synthetic_treebank(260, vocabulary=10, random_state=0)
    write_treebank(folder / "train.conllu", treebank[:200])
    write_treebank(folder / "test.conllu", treebank[200:])
    (folder / "templates.txt").write_text(TEMPLATES)
    return folder


@pytest.fixture(scope="module")
def model(treebanks):
    path = treebanks / "parser.npz"
    command = [
        "train",
        "parser",
        treebanks / "train.conllu",
        "-o",
        path,
        "--epochs",
        "3",
        "--quiet",
    ]
    settings = [
        "--templates",
        treebanks / "templates.txt",
        "--random-state",
        "0",
        "--memory",
        "20",
    ]
    run(*command, *settings)
    return path


def test_training_reports_dev_scores(treebanks, tmp_path, capsys):
    out = tmp_path / "m.npz"
    metrics = tmp_path / "m.json"
    run(
        "train",
        "parser",
        treebanks / "train.conllu",
        "-o",
        out,
        "--templates",
        "small",
        "--epochs",
        "2",
        "--dev",
        treebanks / "test.conllu",
        "--json",
        metrics,
        "--memory",
        "20",
        "--method",
        "rda",
    )
    printed = capsys.readouterr().out
    assert "of 26 templates" in printed
    assert "LAS" in printed
    report = read_json(metrics)
    assert report["dev"]["all"]["uas"] > 0.2
    assert len(report["template_weights"]) == 26
    assert report["features"] > 1000


def test_predict_writes_the_confidence_of_a_calibrated_parser(treebanks, model, tmp_path, refused):
    out = tmp_path / "parsed.conllu"
    test = str(treebanks / "test.conllu")
    refused(["predict", model, test, "-o", out, "--confidence"], "--confidence needs probabilities")
    command = ["calibrate", model, test, "-o", tmp_path / "calibrated.npz", "--quiet"]
    run(*command)
    omkl.load(model).calibrate(test).save(tmp_path / "same.npz")
    assert (tmp_path / "calibrated.npz").read_bytes() == (tmp_path / "same.npz").read_bytes()
    run("predict", tmp_path / "calibrated.npz", test, "-o", out, "--confidence")
    parsed = read_treebank(out, single_root=True)
    assert np.array_equal(parsed.heads, omkl.load(model).parse(test).heads)
    assert all(
        misc.startswith("HeadConf=") and "|RelConf=" in misc
        for sentence in parsed
        for misc in sentence.misc
    )


@pytest.mark.slow
def test_first_parsers_are_trained_by_one_option(treebanks, tmp_path):
    out = tmp_path / "m.npz"
    templates = treebanks / "templates.txt"
    command = [
        "train",
        "parser",
        treebanks / "train.conllu",
        "-o",
        out,
        "--epochs",
        "1",
        "--memory",
        "10",
    ]
    run(*command, "--likely", "0.95", "--multi-root", "--quiet")
    parser = omkl.load(out)
    assert parser.search.likely == 0.95
    assert parser.first_.trees.single_root is False
    assert len(parser.first_.first_.templates_) == 26
    assert parser.model_.codec.stage.first[0].model_.codec.stage.selection.margin > 0
    assert parser.search.order == 2
    assert parser.first_.first_.templates_.names[0] == "h.upos m.upos direction"
    run(*command, "--order", "1", "--templates", templates, "--C", "5", "--quiet")
    parser = omkl.load(out)
    assert parser.search.order == 1
    assert parser.C == 5.0
    assert len(parser.templates_) == 4
    assert parser.model_.codec.stage.first == ()


@pytest.mark.slow
def test_templates_are_kept_by_number_or_as_few_as_do(treebanks, tmp_path, refused):
    out = tmp_path / "m.npz"
    templates = str(treebanks / "templates.txt")
    command = [
        "train",
        "parser",
        treebanks / "train.conllu",
        "-o",
        out,
        "--templates",
        templates,
    ]
    for keep, most in (("2", 2), ("auto", 4)):
        run(*command, "--epochs", "2", "--memory", "10", "--keep", keep, "--quiet")
        assert len(omkl.load(out).templates_) <= most
    refused([*command, "--keep", "few"], "--keep")


def test_the_best_trees_are_written_with_their_scores(treebanks, model, tmp_path, capsys):
    test = str(treebanks / "test.conllu")
    out = tmp_path / "out.conllu.gz"
    run("predict", model, test, "-o", out, "--nbest", "3")
    written = read_treebank(out)
    parser = omkl.load(model)
    sentences = read_treebank(test)
    best = parser.predict_nbest(sentences, 3)
    assert [sentence.heads for sentence in written] == [
        candidate.heads.tolist() for candidates in best for candidate in candidates
    ]
    assert [sentence.deprels for sentence in written] == [
        candidate.deprels for candidates in best for candidate in candidates
    ]
    comments = gzip.decompress(out.read_bytes()).decode().splitlines()[:2]
    assert comments == ["# rank = 1", f"# score = {best[0][0].score:.6g}"]
    capsys.readouterr()
    run("predict", model, test, "--nbest", "2", "--to", "jsonl")
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["forms"] for record in records] == [sentence.forms for sentence in sentences]
    assert records[0]["nbest"][1] == {
        "heads": best[0][1].heads.tolist(),
        "deprels": best[0][1].deprels,
        "score": best[0][1].score,
    }
    run("predict", model, test, "-o", tmp_path / "parsed.jsonl", "--quiet")
    records = [json.loads(line) for line in (tmp_path / "parsed.jsonl").read_text().splitlines()]
    parsed = parser.parse(sentences)
    assert [record["heads"] for record in records] == [sentence.heads for sentence in parsed]
    assert records[0].keys() == {"forms", "heads", "deprels"}


def test_predict_replaces_heads_and_relations_only(treebanks, model, tmp_path, capsys):
    gold = read_treebank(treebanks / "test.conllu")
    out = tmp_path / "parsed.conllu"
    run("predict", model, treebanks / "test.conllu", "-o", out)
    assert "words a second" in capsys.readouterr().out
    parsed = read_treebank(out, single_root=True)
    assert np.array_equal(parsed.heads, omkl.load(model).parse(gold).heads)
    for before, after in zip(gold.text.split(b"\n"), parsed.text.split(b"\n")):
        before = before.split(b"\t")
        after = after.split(b"\t")
        assert before[:6] + before[8:] == after[:6] + after[8:]


@pytest.mark.slow
def test_evaluate_inspect_prune(treebanks, model, tmp_path, capsys):
    metrics = tmp_path / "m.json"
    smaller = tmp_path / "small.npz"
    run("evaluate", model, treebanks / "test.conllu", "--json", metrics)
    assert "without PUNCT: UAS" in capsys.readouterr().out
    uas = read_json(metrics)["all"]["uas"]
    assert uas > 0.4
    run("inspect", model, "--top", "3", "--groups", "2")
    printed = capsys.readouterr().out
    assert "4 templates" in printed
    assert "and 2 more" in printed
    held_out = ["--data", treebanks / "test.conllu", "--json", metrics]
    run("inspect", model, *held_out)
    assert "loss without" in capsys.readouterr().out
    records = read_json(metrics)["group_report"]
    assert records[0].keys() == omkl.load(model).group_report(treebanks / "test.conllu")[0].keys()
    run("inspect", model, "--group", "tags")
    assert "h.upos=" in capsys.readouterr().out
    prune = [
        "prune",
        model,
        "--keep",
        "3",
        "-o",
        smaller,
        "--dev",
        treebanks / "test.conllu",
    ]
    run(*prune)
    assert "Kept 3 of 4 templates" in capsys.readouterr().out
    assert "h.form m.form" not in omkl.load(smaller).templates_.names
    assert omkl.load(smaller).temperature_ is not None  # by --dev, as in training
    retrain = [
        "--retrain",
        treebanks / "train.conllu",
        "--regularizer",
        "l2",
        "--json",
        metrics,
        "--quiet",
    ]
    run(*prune, *retrain)
    assert omkl.load(smaller).regularizer == "l2"
    assert read_json(metrics)["dev"]["all"]["uas"] > uas - 0.05


@pytest.mark.slow
def test_pruning_draws_its_curve_and_names_the_knee(treebanks, model, tmp_path, capsys):
    train = str(treebanks / "train.conllu")
    small = tmp_path / "small.npz"
    picture = tmp_path / "curve.svg"
    prune = ["prune", str(model), "-o", str(small), "--retrain", train]
    run(*prune, "--keep", "auto", "--plot", picture, "--json", tmp_path / "m.json")
    pruned = omkl.load(small)
    printed = capsys.readouterr().out
    assert f"Kept {len(pruned.templates_)} of 4 templates" in printed
    assert "behind the best" in printed
    curve = read_json(tmp_path / "m.json")["pruning_curve"]
    assert [point["templates"] for point in curve] == [4, 1]  # three have a weight
    assert curve == pruned.pruning_curve_
    assert picture.read_text().startswith("<?xml")
    line = omkl.reports.plot_pruning(pruned).lines[0]
    knee = omkl.reports.plot_pruning(pruned).lines[-1]
    assert line.get_ydata().tolist() == [point["accuracy"] for point in curve]
    assert knee.get_xdata()[0] == len(pruned.templates_)
    with pytest.raises(omkl.exceptions.InputError, match='fit it with keep="auto"'):
        omkl.reports.plot_pruning(omkl.load(model))
    assert main(["prune", str(model), "--keep", "auto", "-o", str(small)]) == 2
    assert "give --retrain FILE" in capsys.readouterr().err
    assert main([*prune, "--keep", "2", "--plot", str(picture)]) == 2
    assert "goes with --keep auto" in capsys.readouterr().err
    assert main([*prune, "--keep", "auto", "--plot", str(tmp_path / "curve.txt")]) == 2
    assert "--plot must end in .svg, .png, .pdf" in capsys.readouterr().err


def test_evaluate_compares_two_treebanks_as_it_does_a_parser(
    treebanks, model, tmp_path, capsys, refused
):
    gold = treebanks / "test.conllu"
    system = tmp_path / "parsed.conllu"
    metrics = tmp_path / "m.json"
    run("predict", model, gold, "-o", system, "--quiet")
    run("evaluate", model, gold, "--json", metrics)
    of_model = read_json(metrics)
    printed = capsys.readouterr().out
    assert "MLAS" in printed
    assert "UPOS" not in printed
    assert "precision" in printed
    run("evaluate", gold, system, "--json", metrics)
    printed = capsys.readouterr().out
    assert read_json(metrics) == of_model
    assert "UPOS               100.00%" in printed
    assert f"LAS with subtypes   {of_model['all']['las_subtypes']:.2%}" in printed
    run("evaluate", model, gold, "--jobs", "2", "--json", metrics, "--quiet")
    assert read_json(metrics) == of_model
    refused(
        ["evaluate", gold, system, "--target", "y"], "--target does not go with a pair of treebanks"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")
def test_ctrl_c_saves_what_there_is(treebanks, tmp_path):
    out = tmp_path / "m.npz"
    log = tmp_path / "log.jsonl"
    command = [
        "train", "parser", str(treebanks / "train.conllu"), "-o", str(out), "--epochs", "100000",
        "--templates", "small", "--memory", "20", "--log", str(log),
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "omkl", *command], stdout=subprocess.PIPE, text=True
    )
    while not log.exists() or log.read_text().count("\n") < 3:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    assert process.wait() == 130
    assert "Interrupted in epoch" in rest
    assert omkl.load(out).score(treebanks / "test.conllu") > 0.2


@pytest.mark.usefixtures("ctrl_c")
def test_a_process_that_ignores_ctrl_c_still_does():
    for handler, heard in ((signal.SIG_IGN, False), (signal.default_int_handler, True)):
        interruption = Interruption()
        signal.signal(signal.SIGINT, handler)
        interruption.on_start(None, None)
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.happened == heard
        interruption.on_end(None)
        assert signal.getsignal(signal.SIGINT) == handler


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["train", "parser", "{cycle}", "-o", "{out}"], "cycle, line 1"),
        (
            ["train", "parser", "{train}", "-o", "{out}", "--templates", "{bad}"],
            "bad, line 1: there is no field",
        ),
        (["predict", "{model}", "{missing}", "-o", "{out}"], "no file"),
        (
            [
                "train",
                "parser",
                "{train}",
                "-o",
                "{out}",
                "--lexicon",
                "a={bad}",
                "--lexicon",
                "a={train}",
            ],
            "with a unique name",
        ),
        (
            ["predict", "{model}", "{train}", "-o", "{out}", "--to", "text"],
            "writes conllu or jsonl, not text",
        ),
        (
            ["predict", "{model}", "{train}", "-o", "{out}", "--nbest", "2", "--confidence"],
            "not go with --nbest",
        ),
        (
            ["predict", "{model}", "{train}", "-o", "{out}", "--target", "y"],
            "--target does not go with a DependencyParser",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    command, message, treebanks, model, tmp_path, refused
):
    paths = {name: tmp_path / name for name in ("cycle", "bad", "out", "missing")}
    paths |= {"train": treebanks / "train.conllu", "model": model}
    paths["cycle"].write_text("1\ta\t_\tX\t_\t_\t2\tdep\t_\t_\n2\tb\t_\tX\t_\t_\t1\tdep\t_\t_\n\n")
    paths["bad"].write_text("h.colour\n")
    paths["out"].write_text("previous")
    refused([word.format(**paths) for word in command], message)
    assert paths["out"].read_text() == "previous"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annotator")
    write_treebank(folder / "train.conllu", Treebank.from_sentences(sentences(150)))
    write_treebank(folder / "test.conllu", Treebank.from_sentences(sentences(40, seed=1)))
    arguments = ["--epochs", "3", "--templates", "small", "--random-state", "0"]
    paths = [
        folder / "train.conllu",
        "-o",
        folder / "model.npz",
        "--dev",
        folder / "test.conllu",
    ]
    run("train", "annotator", *paths, *arguments, "--json", folder / "train.json")
    return folder


def test_training_and_inspect_tell_what_was_learned(folder, capsys):
    metrics = read_json(folder / "train.json")
    assert metrics["parts"] == ["upos", "xpos", "feats", "lemmas", "trees"]
    assert metrics["dev"]["all"]["las"] > 0.9
    run("inspect", folder / "model.npz", "--json", folder / "inspect.json")
    assert "upos" in capsys.readouterr().out
    assert read_json(folder / "inspect.json")["kernel_weights"] == metrics["kernel_weights"]


def test_parts_of_annotators_are_inspected(folder, capsys, refused):
    model, gold, metrics = (
        str(folder / name) for name in ("model.npz", "test.conllu", "part.json")
    )
    for part in ("upos", "xpos", "trees"):
        if part not in omkl.load(model).models():
            continue
        run("inspect", model, "--part", part, "--data", gold, "--groups", "3", "--json", metrics)
        assert "of two alike, only one can go" in " ".join(capsys.readouterr().out.split())
        report = read_json(metrics)
        measured = {row["group"] for row in report["group_report"] if "loss_increase" in row}
        assert measured >= report["kernel_weights"].keys()
    run("inspect", model, "--part", "upos", "--group", "word", "--top", "2", "--json", metrics)
    assert {f["group"] for f in read_json(metrics)["top_features"]} == {"word"}
    capsys.readouterr()
    run("inspect", model, "--groups", "12", "--top", "1")
    block = capsys.readouterr().out.split("upos: ")[1].split("\n\n")[0]
    assert block.count("\n") == 12
    refused(["inspect", model, "--part", "tree"], "--part must be one of ")
    refused(["inspect", model, "--data", gold], "needs --part NAME")


def test_evaluate_agrees_with_predict(folder, capsys):
    gold, model, out = (str(folder / name) for name in ("test.conllu", "model.npz", "out.conllu"))
    run("predict", model, gold, "-o", out)
    assert "words a second" in capsys.readouterr().out
    run("evaluate", model, gold, "--json", folder / "own.json", "--quiet")
    run("evaluate", gold, out, "--json", folder / "files.json", "--quiet")
    direct_scores = read_json(folder / "own.json")["all"]
    assert direct_scores == read_json(folder / "files.json")["all"]


def test_columns_without_gold_annotation_have_no_score(folder, capsys, refused):
    words = folder / "words.conllu"
    lemmas = folder / "lemmas.conllu"
    model = folder / "model.npz"
    gold = read_treebank(folder / "test.conllu")
    plain = Treebank.from_sentences([Sentence(forms=sentence.forms) for sentence in gold])
    write_treebank(words, plain)
    refused(["evaluate", model, words], "no gold annotation")
    write_treebank(lemmas, plain.with_strings("lemmas", strings_of(gold, "lemmas")))
    run("evaluate", model, lemmas)
    printed = capsys.readouterr().out
    assert "Lemmas" in printed
    assert not any(name in printed for name in ("UPOS", "XPOS", "UFeats", "AllTags", "UAS"))


def test_lines_of_standard_input_are_annotated_one_by_one(folder, capfdbinary, monkeypatch):
    lines = b"the bobas tatated the dadas\n\nthe dadas\n"
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(lines)))
    run("predict", folder / "model.npz", "-", "--line-buffered", "--to", "jsonl")
    forms = [json.loads(line)["forms"] for line in capfdbinary.readouterr().out.splitlines()]
    assert forms == [["the", "bobas", "tatated", "the", "dadas"], ["the", "dadas"]]
    written = b"".join(
        b"%d\t%b%b\n" % (i, word, b"\t_" * 8) for i, word in enumerate((b"the", b"dadas"), 1)
    )
    monkeypatch.setattr(
        sys, "stdin", TextIOWrapper(BytesIO(b"# one\n" + written + b"\n# two\n" + written + b"\n"))
    )
    run("predict", folder / "model.npz", "-", "--line-buffered")
    out = capfdbinary.readouterr().out.decode()
    assert out.count("\n\n") == 2
    assert out.startswith("# one\n1\tthe\t")
    assert "\n\n# two\n1\tthe\t" in out


@pytest.fixture(scope="module")
def annotator_of_second_order(tmp_path_factory):
    path = tmp_path_factory.mktemp("second_order") / "model.npz"
    templates = ["h.upos m.upos distance", "g.upos h.upos m.upos", "s.upos m.upos"]
    annotator = omkl.Annotator(
        ["upos", "trees"],
        parser=omkl.DependencyParser(templates, epochs=2, memory=10),
        tagger=omkl.SequenceLabeler(epochs=2),
        random_state=0,
    )
    annotator.fit(sentences(40)).save(path)
    return str(path)


@pytest.mark.parametrize("options", [[], ["--line-buffered"]])
@pytest.mark.parametrize("text", ["hello\n", "the\nthe bobas tatated the dadas\nhello\n"])
def test_lines_of_one_word_are_annotated(
    annotator_of_second_order, text, options, capfdbinary, monkeypatch
):
    monkeypatch.setattr(
        sys,
        "stdin",
        TextIOWrapper(BytesIO(text.encode())),
    )
    command = ["predict", annotator_of_second_order, "-", "--to", "jsonl", "--quiet", *options]
    run(*command)
    records = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert [record["forms"] for record in records] == [line.split() for line in text.splitlines()]
    assert records[-1]["heads"] == [0]


def test_a_saved_annotator_is_calibrated(annotator_of_second_order, folder, tmp_path, refused):
    out = tmp_path / "out.conllu"
    calibrated = tmp_path / "calibrated.npz"
    model = annotator_of_second_order
    gold = str(folder / "test.conllu")
    has_them = "an Annotator has after omkl calibrate, or training with --dev"
    predict = ["predict", model, gold, "-o", out, "--confidence"]
    refused(predict, f"--confidence needs probabilities, which {has_them}")
    guarantee = ["guarantee", model, gold, "-o", tmp_path / "checked.npz"]
    refused(guarantee, f"A guarantee needs probabilities, which {has_them}")
    metrics = str(tmp_path / "metrics.json")
    run("calibrate", model, gold, "-o", calibrated, "--json", metrics)
    assert read_json(metrics)["examples"] == 40
    run("predict", calibrated, gold, "-o", out, "--confidence", "--quiet")
    expected = omkl.load(model).calibrate(gold).annotate(gold, confidence=True)
    assert strings_of(read_treebank(out), "misc") == strings_of(expected, "misc")
    assert "UposConf=" in out.read_text()


def test_models_of_rows_are_not_calibrated(tmp_path, refused):
    classifier = omkl.OnlineMKLClassifier(["linear"], epochs=1).fit(np.eye(4), [0, 1, 0, 1])
    classifier.save(tmp_path / "model.npz")
    (tmp_path / "rows.csv").write_text("a,b,c,d,y\n1,0,0,0,0\n")
    command = [
        "calibrate",
        tmp_path / "model.npz",
        tmp_path / "rows.csv",
        "-o",
        tmp_path / "out.npz",
    ]
    refused(command, "must hold a labeler, a parser or an annotator, got an OnlineMKLClassifier")


@pytest.mark.parametrize(
    ("kind", "options"), [("annotator", []), ("parser", []), ("parser", ["--nbest", "2"])]
)
def test_old_enhanced_trees_are_removed(folder, model, treebanks, tmp_path, capsys, kind, options):
    path, other = (model, treebanks) if kind == "parser" else (folder / "model.npz", folder)
    lines = []
    for line in (other / "test.conllu").read_text().split("\n"):
        row = line.split("\t")
        if row[0].isdigit():
            row[8] = f"{row[6]}:{row[7]}"
        lines.append("\t".join(row))
        if row[0] == "1":
            lines.append("1.1\tghost" + "\t_" * 6 + "\t0:root\t_")
    (tmp_path / "in.conllu").write_text("\n".join(lines))
    command = ["predict", path, tmp_path / "in.conllu", *options]
    run(*command, "-o", tmp_path / "out.conllu")
    assert (
        capsys.readouterr().err.count("enhanced dependencies (DEPS) and empty nodes are removed")
        == 1
    )
    written = (tmp_path / "out.conllu").read_text()
    assert "ghost" not in written
    rows = [line.split("\t") for line in written.split("\n") if line[:1].isdigit()]
    assert {row[8] for row in rows} == {"_"}
    run("evaluate", path, tmp_path / "in.conllu")
    assert "enhanced" not in capsys.readouterr().err


def test_text_on_standard_input_is_annotated(folder, capfdbinary, monkeypatch):
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"the bobas tatated the dadas\n")))
    run("predict", folder / "model.npz", "-", "-o", folder / "o.jsonl", "--quiet")
    record = read_json(folder / "o.jsonl")
    assert record["forms"] == ["the", "bobas", "tatated", "the", "dadas"]
    assert record["upos"] == ["DET", "NOUN", "VERB", "DET", "NOUN"]
    assert set(record) == {"forms", "upos", "xpos", "feats", "lemmas", "heads", "deprels"}


@pytest.mark.slow
def test_a_failed_calibration_keeps_the_model(folder, capsys):
    (folder / "bare.conllu").write_text("1\tthe\t_\tDET\t_\t_\t_\t_\t_\t_\n\n")
    paths = [
        folder / "train.conllu",
        "-o",
        folder / "kept.npz",
        "--dev",
        folder / "bare.conllu",
    ]
    run("train", "annotator", *paths, "--epochs", "1", "--templates", "small")
    assert "Scores are not made probabilities by" in capsys.readouterr().out
    assert omkl.load(folder / "kept.npz").annotate([["the", "bobas"]])[0].upos[0] == "DET"


RAW = "".join(
    f"# text = The {noun} sleeps.\n1\tThe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n"
    f"2\t{noun}\t{noun}\tNOUN\t_\t_\t3\tnsubj\t_\t_\n"
    "3\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No\n"
    "4\t.\t.\tPUNCT\t_\t_\t3\tpunct\t_\t_\n\n"
    for noun in ("dog", "cat", "cow", "bird") * 5
)


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    (folder / "train.conllu").write_text(RAW)
    (folder / "book.txt").write_bytes(b"The bird sleeps.\r\n\r\nThe cat\r\nsleeps.")
    arguments = ["--epochs", "2", "--templates", "small", "--memory", "5", "--random-state", "0"]
    paths = [
        folder / "train.conllu",
        "-o",
        folder / "model.npz",
        "--dev",
        folder / "train.conllu",
    ]
    run("train", "annotator", *paths, *arguments, "--json", folder / "train.json")
    return folder


def test_raw_text_is_split(raw, capsysbinary, monkeypatch):
    metrics = read_json(raw / "train.json")
    assert metrics["parts"][0] == "tokens"
    assert metrics["dev_raw"]["sentences_f1"] > 0.95
    model = raw / "model.npz"
    text = raw / "book.txt"
    run("predict", model, "--text", text, "-o", raw / "book.conllu", "--offsets", "--quiet")
    rows = [
        line.split("\t") for line in (raw / "book.conllu").read_text().split("\n") if "\t" in line
    ]
    assert [row[1] for row in rows] == ["The", "bird", "sleeps", ".", "The", "cat", "sleeps", "."]
    assert rows[2][-1] == "SpaceAfter=No|TokenRange=9:15"
    assert rows[5][-1] == "TokenRange=24:27"
    assert all(row[6] != "_" for row in rows)
    monkeypatch.setattr(
        sys,
        "stdin",
        TextIOWrapper(BytesIO((raw / "book.txt").read_bytes())),
    )
    capsysbinary.readouterr()
    run("predict", model, "--text", "-")
    written = capsysbinary.readouterr().out
    assert written.replace(b"\t_\n", b"\n").startswith(
        b"# sent_id = 1\n# text = The bird sleeps.\n1\tThe\tthe\tDET"
    )


def test_evaluation_of_raw_text(raw, capsys):
    model = raw / "model.npz"
    gold = raw / "train.conllu"
    run("evaluate", model, gold, "--raw", "--json", raw / "own.json")
    direct_scores = read_json(raw / "own.json")["all"]
    text = raw / "gold.txt"
    text.write_text(" ".join(line[9:] for line in RAW.split("\n") if line.startswith("# text")))
    run("predict", model, "--text", text, "-o", raw / "out.conllu")
    capsys.readouterr()
    run("evaluate", gold, raw / "out.conllu", "--json", raw / "files.json")
    assert direct_scores == read_json(raw / "files.json")["all"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("predict MODEL", "Name one file to read: INPUT, or for an annotator --text FILE."),
        ("predict MODEL BOOK --text BOOK", "Name one file to read"),
        ("predict MODEL BOOK --offsets", "--offsets needs --text"),
        (
            "predict WORDS --text BOOK",
            "This annotator has no tokenizer: its training data had no raw text",
        ),
        ("predict PARSER --text BOOK", "--text is for annotators, not a DependencyParser"),
        ("evaluate PARSER TRAIN --raw", "--raw is for annotators, not a DependencyParser"),
        ("evaluate WORDS TEST --raw", "The treebank has no raw text, which is in comments # text"),
        ("predict MODEL --text LATIN", "is not UTF-8 text"),
        ("train annotator TEST -o x.npz --parts tokens", "The training data has no raw text"),
    ],
)
def test_bad_commands_for_raw_text(raw, folder, model, refused, command, message):
    (raw / "latin.txt").write_bytes(b"caf\xe9 noir")
    places = {
        "MODEL": raw / "model.npz",
        "WORDS": folder / "model.npz",
        "PARSER": model,
        "BOOK": raw / "book.txt",
    }
    places |= {
        "TRAIN": raw / "train.conllu",
        "TEST": folder / "test.conllu",
        "LATIN": raw / "latin.txt",
    }
    refused([places.get(word, word) for word in command.split()], message)


def test_an_empty_text_gives_an_empty_file(raw):
    (raw / "empty.txt").write_text("\n")
    out = raw / "empty.conllu"
    run("predict", raw / "model.npz", "--text", raw / "empty.txt", "-o", out, "--quiet")
    assert out.read_bytes() == b""
