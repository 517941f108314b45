"""Labelers and conversions on the command line: output, files, exit codes."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omkl
from omkl.cli import main
from omkl.cli.console import bar_chart, table
from omkl.data import read_sequences, synthetic_treebank, write_sequences, write_treebank
from omkl.exceptions import InputError

from ..commands import read_json, run

CRFSUITE = "".join(
    f"{label}\tw={word}\tn={i % 3}\n" + ("\n" if i % 4 == 3 else "")
    for i, (label, word) in enumerate([("D", "the"), ("N", "dog"), ("V", "runs"), ("P", ".")] * 10)
)


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text(CRFSUITE)
    return path


@pytest.fixture
def model(corpus, tmp_path):
    path = tmp_path / "model.npz"
    run("train", "labeler", corpus, "-o", path, "--random-state", "0", "--quiet")
    return path


def test_train_predict_evaluate_inspect(corpus, model, tmp_path, capsys):
    output = tmp_path / "labels.txt"
    metrics = tmp_path / "metrics.json"
    run("predict", model, corpus, "-o", output)
    labels = output.read_text().split("\n\n")
    assert labels[0] == "D\nN\nV\nP"
    run("predict", model, corpus, "-o", tmp_path / "l.jsonl", "--quiet")
    assert json.loads((tmp_path / "l.jsonl").read_text().splitlines()[0]) == {
        "y": ["D", "N", "V", "P"]
    }
    run("evaluate", model, corpus, "--json", metrics)
    assert read_json(metrics)["accuracy"] == 1.0
    run("inspect", model, "--top", "3", "--json", metrics)
    inspected = read_json(metrics)
    assert sum(inspected["kernel_weights"].values()) == pytest.approx(1.0)
    assert len(inspected["top_features"]) == 3
    printed = capsys.readouterr().out
    assert "Token accuracy 100.00%" in printed
    assert "precision" in printed
    assert "w=the" in printed


@pytest.mark.slow
def test_sentences_are_answered_before_standard_input_ends(model):
    """Each answer is read before the next sentence is written."""
    sentences = ["x\tw=the\tn=0\nx\tw=dog\tn=1\n\n", "\n", "x\tw=runs\tn=2\n\n"]
    command = [sys.executable, "-m", "omkl", "predict", str(model), "-", "--line-buffered"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        process.stdin.write(sentences[0])
        assert [process.stdout.readline() for _ in range(3)] == ["D\n", "N\n", "\n"]
        process.stdin.write("".join(sentences[1:]))
        assert [process.stdout.readline() for _ in range(2)] == ["V\n", "\n"]
        process.stdin.write("x\tw=the\tn=0")
        process.stdin.close()
        assert process.stdout.read() == "D\n\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    "where", [["{data}"], ["-", "-o", "{data}.labels"], ["-", "--json", "{data}.json"]]
)
def test_line_buffering_is_for_standard_input_and_output(where, corpus, model, capsys):
    where = [word.format(data=corpus) for word in where]
    assert main(["predict", str(model), *where, "--line-buffered"]) == 2
    assert "--line-buffered is for sentences from standard input" in capsys.readouterr().err


def test_a_model_that_only_predicts_is_small(corpus, model, tmp_path, capsys):
    small = tmp_path / "small.npz"
    output = tmp_path / "labels.txt"
    train = [
        "train",
        "labeler",
        str(corpus),
        "-o",
        str(small),
        "--random-state",
        "0",
        "--quiet",
        "--predict-only",
    ]
    run(*train, "--precision", "float16")
    assert small.stat().st_size < 0.7 * model.stat().st_size
    run("predict", small, corpus, "-o", output, "--quiet")
    assert output.read_text().startswith("D\nN\nV\nP\n")
    assert main([*train, "--budget", "9"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_entities_are_evaluated_where_labels_mark_them(tmp_path, capsys):
    corpus = tmp_path / "ner.txt"
    model = tmp_path / "ner.npz"
    metrics = tmp_path / "metrics.json"
    corpus.write_text("B-PER\tw=Ann\nI-PER\tw=Lee\nO\tw=runs\n\n" * 8)
    options = ["-o", model, "--random-state", "0", "--quiet"]
    run("train", "labeler", corpus, *options, "--allowed-transitions", "BIO", "--dev", corpus)
    assert omkl.load(model).temperature_ > 0  # calibrated on --dev
    assert omkl.load(model).predict([[["w=Lee"], ["w=Lee"]]])[0][0] != "I-PER"
    corpus.write_text("B-PER\tw=Ann\nI-PER\tw=Lee\nO\tw=runs\n\nI-LOC\tw=Ghent\nO\tw=runs\n\n" * 8)
    run("train", "labeler", corpus, "-o", model, "--random-state", "0", "--quiet")
    run("evaluate", model, corpus, "--json", metrics)
    assert "Entities: precision 100.00%, recall 100.00%" in capsys.readouterr().out
    assert [row["type"] for row in read_json(metrics)["entities"]] == ["PER", "LOC"]
    run("evaluate", model, corpus, "--scheme", "BIO", "--json", metrics)
    assert [row["type"] for row in read_json(metrics)["entities"]] == ["PER"]


def test_train_reports_on_dev_data_and_as_json(corpus, tmp_path, capsys):
    metrics = tmp_path / "metrics.json"
    files = [
        "train",
        "labeler",
        corpus,
        "-o",
        tmp_path / "m.npz",
        "--dev",
        corpus,
        "--json",
        metrics,
    ]
    settings = (
        "--loss crf --regularizer l2 --C 3 --epochs 5 --method rda --learning-rate 0.5"
        " --average last --transitions none"
    )
    run(*files, *settings.split())
    assert "Token accuracy on" in capsys.readouterr().out
    saved = read_json(metrics)
    assert saved["dev"]["accuracy"] > 0.9
    assert len(saved["history"]) == 5
    parameters = omkl.load(tmp_path / "m.npz").get_params()
    assert parameters["loss"] == "crf"
    assert parameters["method"] == "rda"
    assert parameters["learning_rate"] == 0.5
    assert parameters["transitions"] == omkl.Transitions(None)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["train", "labeler", "{missing}", "-o", "{out}"], "no file"),
        (
            ["train", "labeler", "{corpus}", "-o", "{out}", "--C", "0"],
            "C must be a finite number > 0",
        ),
        (["train", "labeler", "{unlabelled}", "-o", "{out}"], "holds no labels"),
        (["train", "labeler", "{corpus}", "-o", "{missing}/m.npz"], "there is no directory"),
        (["predict", "{missing}", "{corpus}", "-o", "{out}"], "There is no file"),
        (["predict", "{corpus}", "{corpus}", "-o", "{out}"], "not an omkl model file"),
        (["predict", "{damaged}", "{corpus}", "-o", "{out}"], "is damaged"),
        (["predict", "{model}", "{empty}", "-o", "{out}"], "holds no sequence"),
        (["evaluate", "{model}", "{unlabelled}"], "holds no labels: give every line a"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    command, message, corpus, model, tmp_path, refused
):
    paths = {name: tmp_path / name for name in ("missing", "out", "damaged", "empty")}
    paths |= {"corpus": corpus, "model": model, "unlabelled": tmp_path / "unlabelled.jsonl"}
    content = bytearray(model.read_bytes())
    content[len(content) // 2] ^= 1
    paths["damaged"].write_bytes(content)
    paths["empty"].write_text("\n\n")
    paths["unlabelled"].write_text('{"x": [{"w": "dog"}]}\n')
    paths["out"].write_text("previous")
    refused([word.format(**paths) for word in command], message)
    assert paths["out"].read_text() == "previous"
    assert not list(tmp_path.glob(".*.tmp"))


def test_wrong_usage_is_one_sentence_and_exit_code_2(capsys):
    train = ["train", "labeler", "x", "-o", "m"]
    for command in (
        [],
        ["frobnicate"],
        train[:3],
        [*train, "--C", "many"],
        ["demo", "--random-state", "-1"],
    ):
        assert main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    run("--version")
    assert capsys.readouterr().out.split() == ["omkl", omkl.__version__]


def test_the_command_is_installed():
    done = subprocess.run(
        [sys.executable, "-m", "omkl", "--help"], capture_output=True, text=True, check=True
    )
    for name in ("demo", "train", "predict", "evaluate", "inspect"):
        assert name in done.stdout


def test_charts_and_tables_line_up():
    lines = bar_chart({"short": 0.25, "a longer name": 0.75})
    assert lines[0].startswith("a longer name   75.0%  █")
    assert len({line.index("%") for line in lines}) == 1
    assert bar_chart({}) == []
    assert (
        len(
            {
                len(line)
                for line in table([("a", 1, "0.5"), ("bcd", 22, "0.25")], ("name", "n", "x"))
            }
        )
        == 1
    )


def test_a_labeler_tags_treebanks_and_text(tmp_path, refused):
    """The output is the input with predicted UPOS."""
    train = tmp_path / "train.conllu"
    text = tmp_path / "text"
    out = tmp_path / "out.conllu"
    lines = [
        "# sent_id = 1",
        "1\tthe\t_\tDET\t_\t_\t0\tx\t_\tA=b",
        "2\tdog\t_\tNOUN\t_\t_\t1\tx\t_\tA=b",
    ]
    train.write_text("\n".join([*lines, "", *lines, ""]) + "\n")
    model = str(tmp_path / "model.npz")
    run("train", "labeler", train, "-o", model, "--epochs", "5", "--quiet")
    blank = tmp_path / "blank.conllu"
    blank.write_text(train.read_text().replace("DET", "_").replace("NOUN", "_"))
    run("predict", model, blank, "-o", out, "--quiet")
    assert out.read_text() == train.read_text()
    assert main(["predict", model, str(blank), "-o", str(out), "--quiet", "--confidence"]) == 2
    run("train", "labeler", train, "-o", model, "--epochs", "5", "--dev", train, "--quiet")
    for output in ("out.conllu", "out.jsonl", "out.txt"):
        run("predict", model, blank, "-o", tmp_path / output, "--quiet", "--confidence")
    [notes] = {
        line.split("\t")[9].rpartition("=")[0]
        for line in out.read_text().splitlines()
        if "\t" in line
    }
    assert notes == "A=b|UposConf"
    record = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert record["y"] == ["DET", "NOUN"]
    assert len(record["confidence"]) == 2
    label, p = (tmp_path / "out.txt").read_text().splitlines()[0].split("\t")
    assert label == "DET"
    assert float(p) == record["confidence"][0]
    best = omkl.load(model).predict_nbest([["the", "dog"]], 2)[0]
    nbest = ["predict", model, blank, "--quiet", "--nbest", "2", "-o"]
    for output in ("out.conllu", "out.jsonl", "out.txt"):
        run(*nbest, tmp_path / output)
    tags = [line.split("\t")[3] for line in out.read_text().splitlines() if "\t" in line]
    assert tags == 2 * [label for labeling in best for label in labeling.labels]
    records = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(records[0]) == {
        "nbest": [{"y": labeling.labels.tolist(), "score": labeling.score} for labeling in best]
    }
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines[:4] == [f"# 1 {best[0].score:.6g}", "DET", "NOUN", ""]
    text.write_text("the dog\n")
    run("predict", model, text, "-o", out, "--quiet")
    assert [line.split("\t")[1:4] for line in out.read_text().splitlines() if "\t" in line] == [
        ["the", "_", "DET"],
        ["dog", "_", "NOUN"],
    ]
    refused(
        ["predict", model, text, "--to", "conllu", "--format", "crfsuite"],
        "--format does not go with --to conllu",
    )


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(("\t", " "), "bad.conllu, line 2: 1 columns"), (("\n", "\r"), "bad.conllu holds no s")],
)
def test_a_treebank_without_tabs_or_line_ends_is_not_read_as_text(
    tmp_path, damage, reason, refused, capsys
):
    row = "{}\t{}\t_\t{}\t_\t_\t0\troot\t_\t_\n"
    good = tmp_path / "good.conllu"
    bad = tmp_path / "bad.conllu"
    model = tmp_path / "model.npz"
    good.write_text(
        "# sent_id = 1\n"
        + row.format(1, "Dogs", "NOUN")
        + "\n"
        + row.format(1, "Run", "VERB")
        + "\n"
    )
    bad.write_bytes(good.read_bytes().replace(*(piece.encode() for piece in damage)))
    run("train", "labeler", good, "-o", model, "--epochs", "1", "--quiet")
    for command in (
        ["evaluate", model, bad],
        ["predict", model, bad, "--to", "conllu", "-o", tmp_path / "out"],
    ):
        refused(command, reason)
    if damage[0] == "\t":
        text = bad.rename(tmp_path / "text")
        run("predict", model, text, "--to", "conllu", "-o", tmp_path / "out")
        assert (
            "text looks like CoNLL-U without tabs, and is read as text" in capsys.readouterr().err
        )


COLUMNS = "He PRP B-NP\nreckons\tVBZ   B-VP\n. . O\n\nthe DT B-NP\ndeficit NN I-NP\n"


@pytest.fixture
def columns(tmp_path):
    (tmp_path / "train.columns").write_text(COLUMNS)
    return tmp_path


def convert(*words):
    return main(["convert", *map(str, words), "--quiet"])


def test_columns_are_read_and_written(columns):
    X, y = read_sequences(columns / "train.columns")
    assert X[0][1] == {"c0": "reckons", "c1": "VBZ"}
    assert y == [["B-NP", "B-VP", "O"], ["B-NP", "I-NP"]]
    assert convert(columns / "train.columns", "-o", columns / "out.jsonl") == 0
    assert read_sequences(columns / "out.jsonl") == (X, y)
    assert convert(columns / "out.jsonl", "-o", columns / "again.columns") == 0
    assert read_sequences(columns / "again.columns") == (X, y)
    run("train", "labeler", columns / "train.columns", "-o", columns / "m.npz", "--quiet")


TEXT = st.text(
    st.characters(blacklist_characters="\t\n\r\0\1=", blacklist_categories=["Cs"]), min_size=1
)
WEIGHTS = st.floats(allow_nan=False, allow_infinity=False)
ENTRIES = st.one_of(TEXT, st.dictionaries(st.one_of(TEXT, st.just("")), WEIGHTS, min_size=1))
TOKENS = st.dictionaries(TEXT, ENTRIES, max_size=4)


@given(
    st.lists(
        st.tuples(TOKENS, TEXT.filter(lambda label: not label.startswith("# "))),
        min_size=1,
        max_size=4,
    )
)
def test_attributes_are_read_as_they_were_written(tmp_path_factory, pairs):
    """Colons and backslashes in names, weights of any size: CRFsuite's escapes."""
    path = tmp_path_factory.getbasetemp() / "round.crfsuite"
    x, y = map(list, zip(*pairs))
    assert write_sequences(path, [(x, y)], "crfsuite") == (1, len(x))
    X, Y = read_sequences(path)
    attributes = [
        {key: {v: 1.0} if isinstance(v, str) else v for key, v in token.items()} for token in x
    ]
    assert [attributes] == X
    assert [y] == Y


@pytest.mark.parametrize(
    ("format", "token", "label", "message"),
    [
        ("jsonl", {"n": float("nan")}, "A", "Out of range float"),
        ("crfsuite", {"n": float("inf")}, "A", "strings or finite numbers, got 'n'"),
        ("jsonl", {"n": {"a": "x"}}, "A", "expected"),
        ("crfsuite", {"n": {"a": "x"}}, "A", "strings or finite numbers"),
        ("jsonl", {"n": b"x"}, "A", "JSON does not hold"),
        ("crfsuite", {"n": "x"}, b"A", "JSON does not hold"),
        ("columns", {"n": "x"}, float("nan"), "Out of range float"),
        ("crfsuite", {"a=b": "x"}, "A", "name without = .*got 'a=b'"),
        ("columns", {"w": "-DOCSTART-"}, "A", "and not -DOCSTART-"),
        ("crfsuite", {"n": "x"}, "# A", "must not start with '# '"),
        ("jsonl", {"w": "\ud800"}, "A", "surrogates not allowed"),
    ],
)
def test_values_that_cannot_be_read_back_are_refused(tmp_path, format, token, label, message):
    with pytest.raises(InputError, match=f"Sequence 1 cannot be written as {format}: .*{message}"):
        write_sequences(
            tmp_path / "out",
            [([token], [label])],
            format,
        )


def test_words_without_a_tag_have_no_label(tmp_path, refused):
    """The underscore of CoNLL-U is not a tag."""
    tags = ["DET", "NOUN", "_", "VERB"] * 5
    lines = [
        f"1\tthe\t_\t{tags[i]}\t_\t_\t0\t_\t_\t_\n2\tdog\t_\tNOUN\t_\t_\t1\t_\t_\t_\n\n"
        for i in range(20)
    ]
    path, model, tagged = (str(tmp_path / name) for name in ("t.conllu", "m.npz", "whole.conllu"))
    (tmp_path / "t.conllu").write_text("".join(lines))
    (tmp_path / "whole.conllu").write_text(
        "".join(line for line in lines if "the\t_\t_" not in line)
    )
    assert read_sequences(path)[1][1:3] == [["NOUN", "NOUN"], [None, "NOUN"]]
    for stream in ([], ["--stream"]):
        run(
            "train",
            "labeler",
            path,
            "-o",
            model,
            "--epochs",
            "2",
            "--quiet",
            *stream,
            "--dev",
            tagged,
        )
        assert omkl.load(model).classes_.tolist() == ["DET", "NOUN", "VERB"]
    assert convert(path, "-o", tmp_path / "t.jsonl") == 0
    assert read_sequences(tmp_path / "t.jsonl") == read_sequences(path)
    refused(
        ["train", "labeler", path, "-o", model, "--dev", path],
        "t.conllu has tokens without a label",
    )
    with pytest.raises(InputError, match="all of them known"):
        omkl.evaluate_labels([["A", None]], [["A", "B"]])


def test_treebanks_become_conllu_and_words_with_tags(tmp_path):
    treebank = synthetic_treebank(20, vocabulary=10, random_state=0)
    path = tmp_path / "t.conllu"
    plain = tmp_path / "t.conllx"
    write_treebank(path, treebank)
    lines = [line.split("\t") for line in path.read_text().splitlines()]
    plain.write_text(
        "\n".join("\t".join([*c[:5], "_", *c[6:8], "_", "_"]) if len(c) > 1 else "" for c in lines)
        + "\n"
    )
    assert convert(plain, "-o", tmp_path / "out.conllu") == 0
    assert convert(path, "-o", tmp_path / "same.conllu") == 0
    assert (tmp_path / "same.conllu").read_bytes() == path.read_bytes()
    written_treebank = omkl.data.read_treebank(tmp_path / "out.conllu")
    assert [s.heads for s in written_treebank] == [s.heads for s in treebank]
    words = read_sequences(path)
    for name in ("w.jsonl", "w.columns"):
        assert convert(path, "-o", tmp_path / name) == 0
    assert read_sequences(tmp_path / "w.jsonl") == words
    assert [[t["c0"] for t in x] for x in read_sequences(tmp_path / "w.columns")[0]] == words[0]
    assert convert(path, "-o", tmp_path / "w.crfsuite") == 0
    X, y = read_sequences(tmp_path / "w.crfsuite")
    expected = omkl.features.token_features(words[0][0])
    assert y == words[1]
    assert {k for k, v in expected[0].items() if v} == set(X[0][0])
    assert all(X[0][0][k] == {v: 1.0} for k, v in expected[0].items() if isinstance(v, str))


@pytest.mark.parametrize(
    ("content", "output", "message"),
    [
        (COLUMNS, "o.svm", "sequences are written as crfsuite, columns, jsonl"),
        (COLUMNS, "o", "say which with --to"),
        ("a b c\nd e\n", "o.jsonl", "line 2: found 2 columns for a token, not 3"),
        ("a\n", "o.jsonl", "1 column, and the last of at least 2 is the label"),
    ],
)
def test_bad_conversions_are_one_sentence(content, output, message, tmp_path, refused):
    (tmp_path / "in.columns").write_text(content)
    refused(["convert", tmp_path / "in.columns", "-o", tmp_path / output, "--quiet"], message)
    assert not (tmp_path / output).exists()


def test_files_of_conll_2003_are_recognized_by_their_first_line(tmp_path):
    """An original file of CoNLL 2003 has no telling suffix, and a line for each document."""
    sentences = [
        "EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n",
        "Peter NNP I-NP B-PER\nBlackburn NNP I-NP I-PER\n",
    ]
    (tmp_path / "eng.train").write_text(
        "-DOCSTART- -X- -X- O\n\n" + "\n-DOCSTART- -X- -X- O\n\n".join(sentences)
    )
    X, y = read_sequences(tmp_path / "eng.train")
    assert [[token["c0"] for token in x] for x in X] == [["EU", "rejects"], ["Peter", "Blackburn"]]
    assert y == [["B-ORG", "O"], ["B-PER", "I-PER"]]
    run("train", "labeler", tmp_path / "eng.train", "-o", tmp_path / "m.npz", "--quiet")
    (tmp_path / "attributes").write_text("B-ORG\tword=EU\tpiece=a b\nO\tword=rejects\n")
    assert read_sequences(tmp_path / "attributes")[1] == [["B-ORG", "O"]]


@pytest.mark.slow
@pytest.mark.parametrize("mark", [" ", "\t"])
@pytest.mark.parametrize("gold", [True, False])
def test_predictions_for_columns_are_beside_their_lines(mark, gold, tmp_path):
    """Every line has its place, also documents, comments, several empty lines, and spaces at the
    end.
    """
    train, path, out, model = (tmp_path / name for name in ("t.bio", "in.txt", "out.txt", "m.npz"))
    train.write_text("EU NNP B\nrejects VBZ O\n\n" * 20)
    rows = [
        f"-DOCSTART- -X-{' O' * gold}",
        "",
        "# id 0",
        f"EU NNP{' X' * gold}",
        f"rejects VBZ{' X' * gold}",
        "",
        "",
        f"EU NNP{' O' * gold}",
    ]
    lines = [row if row.startswith("#") else row.replace(" ", mark) for row in rows]
    path.write_text("\n".join(lines) + " \n")
    run("train", "labeler", train, "-o", model, "--loss", "crf", "--quiet")
    run("predict", model, path, "-o", out, "--quiet")
    added = ["", "", "", "B", "O", "", "", "B"]
    expected = [line + mark * bool(label) + label for line, label in zip(lines, added)]
    assert out.read_text().splitlines() == expected
    command = [
        sys.executable,
        "-m",
        "omkl",
        "predict",
        str(model),
        "/dev/stdin",
        "--quiet",
        "--confidence",
    ]
    piped = subprocess.run(
        command, input=path.read_text(), capture_output=True, text=True, check=True
    )
    assert [
        line.rpartition(mark)[0] if label else line
        for line, label in zip(piped.stdout.splitlines(), added)
    ] == (expected)
