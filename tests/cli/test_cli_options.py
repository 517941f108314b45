"""One even door: the same options everywhere, help with examples that run, and ``-`` for standard input and output."""

import argparse
import io
import json
import shlex
import subprocess
import sys
import warnings
from contextlib import suppress
from pathlib import Path

import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import omkl
from omkl.cli import commands, inspect, main
from omkl.cli.completion import parsers_of
from omkl.data import synthetic_treebank, write_treebank

PARSERS = list(parsers_of(commands.build_parser()))
LEAVES = [p for p in PARSERS if not any(isinstance(a, argparse._SubParsersAction) for a in p._actions)]
#: What an option takes may differ in these: a demonstration fills a folder, a picture is no model, tuned templates are
#: searched for.
DIFFERENT = {
    *(("--output", f"omkl {name}") for name in ("demo", "predict", "plot")), ("--keep", "omkl prune"),
    ("--to", "omkl convert"), ("--title", "omkl plot"),
}  # fmt: skip
NO_RESULT = ("omkl completion",)


def options(parser):
    return {name: action for action in parser._actions for name in action.option_strings if name != "-h"}


def test_an_option_means_the_same_wherever_it_is():
    seen = {}
    for parser in LEAVES:
        for name, action in options(parser).items():
            if (name, parser.prog) in DIFFERENT or name == "--help" or action.option_strings[0] == "-o":
                continue
            form = (type(action).__name__, action.dest, action.type, action.nargs, action.metavar)
            # the trainer of trees has no learner for every group: its methods are fewer
            if action.dest not in ("method", "loss", "epochs", "C"):
                form += (action.help, None if action.choices is None else tuple(action.choices))
            first = seen.setdefault(name, (parser.prog, form))
            assert form == first[1] or name == "--method", (name, parser.prog, first)
    assert len(seen) > 50


def test_every_option_has_help_and_every_result_is_written_as_asked():
    for parser in PARSERS:
        for action in parser._actions:
            assert action.help or isinstance(action, argparse._SubParsersAction), (parser.prog, action)
    for parser in LEAVES:
        if parser.prog not in NO_RESULT:
            assert {"--json", "--quiet"} <= set(options(parser)), parser.prog
        trains = {"--epochs", "--C"} & set(options(parser))
        assert not trains or {"--epochs", "--C", "--random-state"} <= set(options(parser)), parser.prog


def examples(parser):
    for line in parser.epilog.splitlines()[1:]:
        words = shlex.split(line, comments=True)
        if "omkl" in words:
            words = words[words.index("omkl") + 1 :]
            ends = [i for i, word in enumerate(words) if word in (">", "|")]
            yield words[: ends[0]] if ends else words


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_help_has_examples_that_are_commands(parser):
    found = list(examples(parser))
    assert len(found) >= 2
    for words in found:
        if "--help" not in words:
            assert hasattr(commands.build_parser().parse_args(words), "run")
    assert max(map(len, parser.format_help().splitlines())) <= 120


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_a_shell_completes_commands_and_options(shell, capsys):
    pytest.importorskip("shtab")
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("evaluate", "--json", "annotator"):
        assert word in script


def test_bash_takes_the_script(tmp_path):
    pytest.importorskip("shtab")
    script = subprocess.run([sys.executable, "-m", "omkl", "completion", "bash"], capture_output=True, check=True)
    for words, found in (("ev", "evaluate"), ("train ann", "annotator"), ("train parser --lik", "--likely")):
        asked = f"COMP_WORDS=(omkl {words}); COMP_CWORD={len(words.split())}; _shtab_omkl omkl {words.split()[-1]}"
        line = f'{script.stdout.decode()}\n{asked}; echo "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        assert done.stdout.split() == [found], done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A treebank, rows, and models of both, by what they are called."""
    folder = tmp_path_factory.mktemp("files")
    found = {name: str(folder / name) for name in ("t.conllu", "r.svm", "tagger.npz", "rows.npz", "parser.npz")}
    write_treebank(found["t.conllu"], synthetic_treebank(60, vocabulary=10, random_state=0))
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, found["r.svm"], zero_based=False)
    common = ["--epochs", "1", "--random-state", "0", "--quiet", "-o"]
    small = ["--templates", "small", "--memory", "10"]
    assert main(["train", "labeler", found["t.conllu"], *common, found["tagger.npz"]]) == 0
    assert main(["train", "classifier", found["r.svm"], *common, found["rows.npz"]]) == 0
    assert main(["train", "parser", found["t.conllu"], *small, *common, found["parser.npz"]]) == 0
    return found


def given(path, command, monkeypatch):
    with open(path, "rb") as file:
        content = io.TextIOWrapper(io.BytesIO(file.read()))
    monkeypatch.setattr("sys.stdin", content)
    return main(command)


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("r.svm", ["train", "classifier", "-", "--epochs", "1", "-o", "{out}"]),
        ("r.svm", ["train", "classifier", "-", "--epochs", "1", "--stream", "-o", "{out}"]),
        ("r.svm", ["train", "regressor", "{r.svm}", "--dev", "-", "--epochs", "1", "-o", "{out}"]),
        ("t.conllu", ["train", "labeler", "-", "--format", "conllu", "--epochs", "1", "-o", "{out}"]),
        ("t.conllu", ["train", "parser", "-", "--templates", "small", "--epochs", "1", "--memory", "9", "-o", "{out}"]),
        ("r.svm", ["predict", "{rows.npz}", "-"]),
        ("rows.npz", ["predict", "-", "{r.svm}"]),
        ("r.svm", ["evaluate", "{rows.npz}", "-"]),
        ("rows.npz", ["evaluate", "-", "{r.svm}"]),
        ("t.conllu", ["evaluate", "-", "{t.conllu}"]),
        ("t.conllu", ["evaluate", "{t.conllu}", "-"]),
        ("parser.npz", ["inspect", "-"]),
        ("r.svm", ["inspect", "{rows.npz}", "--data", "-"]),
        ("parser.npz", ["prune", "-", "--keep", "2", "-o", "{out}"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_dash_is_standard_input_wherever_a_file_is_read(what, command, files, tmp_path, monkeypatch, capsys):
    out = str(tmp_path / "out.npz")
    places = {"{out}": out, **{f"{{{name}}}": path for name, path in files.items()}}
    assert given(files[what], [places.get(word, word) for word in command], monkeypatch) == 0
    printed = capsys.readouterr()
    assert "/standard input" not in printed.out + printed.err
    assert "-" not in {path.name for path in tmp_path.iterdir()}


def test_standard_input_is_named_where_it_is_wrong_and_read_once(files, tmp_path, monkeypatch, capsys):
    broken = tmp_path / "broken"
    broken.write_text("1 1:2\nnonsense\n")
    assert given(broken, ["predict", files["rows.npz"], "-"], monkeypatch) == 2
    assert "error: standard input, line 2" in capsys.readouterr().err
    assert main(["evaluate", "-", "-"]) == 2
    assert "can be read only once" in capsys.readouterr().err
    assert main(["demo", "-o", "-"]) == 2
    assert "names the folder" in capsys.readouterr().err


def test_a_model_goes_through_a_pipe(files, tmp_path):
    """``omkl train - -o - < data > model``, by two processes."""
    command = [sys.executable, "-m", "omkl", "train", "classifier", "-", "-o", "-", "--epochs", "1"]
    model = tmp_path / "model.npz"
    with open(files["r.svm"], "rb") as data, model.open("wb") as out:
        done = subprocess.run([*command, "--random-state", "0"], stdin=data, stdout=out, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert model.read_bytes() == Path(files["rows.npz"]).read_bytes()


@pytest.mark.parametrize("kind", ["labeler", "parser", "classifier", "annotator"])
def test_quiet_is_quiet(kind, files, tmp_path, capfd):
    path = files["r.svm" if kind == "classifier" else "t.conllu"]
    more = ["--memory", "10"] if kind in ("parser", "annotator") else []
    train = ["train", kind, path, "-o", str(tmp_path / "m.npz"), "--epochs", "1", *more, "--quiet"]
    assert main([*train, "--dev", path]) == 0
    assert main(["evaluate", str(tmp_path / "m.npz"), path, "--quiet"]) == 0
    assert main(["inspect", str(tmp_path / "m.npz"), "--quiet"]) == 0
    assert capfd.readouterr() == ("", "")


def test_records_that_cannot_be_read_are_left_out_where_asked(tmp_path, capsys):
    rows, words = tmp_path / "a.svm", tmp_path / "a.crfsuite"
    rows.write_text("1 1:2\n0 1:-2\nnonsense\n" * 5)
    words.write_text("D\tw=the\nN\tw=dog\n\nD\tw=the:x\n\n" * 5)
    for kind, path in (("classifier", rows), ("labeler", words)):
        for stream in ([], ["--stream"]):
            train = ["train", kind, str(path), "-o", str(tmp_path / "m.npz"), "--epochs", "1", *stream]
            assert main(train) == 2
            assert f"{path.name}, line" in capsys.readouterr().err
            assert main([*train, "--on-error", "skip", "--json", "-"]) == 0
            printed = capsys.readouterr()
            metrics = json.loads(printed.out)
            assert metrics.get("examples", metrics.get("sequences")) == (10 if kind == "classifier" else 5)
            assert "5 records were skipped" in printed.err
        for command in ("evaluate", "inspect"):
            own = [str(tmp_path / "m.npz"), *(["--data"] if command == "inspect" else []), str(path)]
            assert main([command, *own]) == 2
            assert main([command, *own, "--on-error", "skip"]) == 0


def test_a_line_now_and_then_where_there_is_no_terminal(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("omkl._progress.PAUSE", 1e-9)
    train = ["train", "classifier", files["r.svm"], "-o", str(tmp_path / "m.npz"), "--epochs", "3"]
    assert main(train) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any("400/450" in line and "epoch=2" in line for line in lines)
    assert all(line == line.strip() and "\r" not in line for line in lines)
    omkl.GroupLasso(0.01, verbose=True).fit(*load_iris(return_X_y=True))
    assert "gap=" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate MODEL ROWS --mistakes -1", "at least 0, not '-1'"),
        ("evaluate REGRESSOR ROWS --target a --mistakes 3", "a regressor has none"),
        ("evaluate TREES TREES --mistakes 3", "--mistakes does not go with a pair of treebanks"),
        ("evaluate TREES TREES --jobs 2", "--jobs does not go with a pair of treebanks"),
        ("inspect MODEL --target y", "--target is about labelled data"),
        ("inspect MODEL --jobs 2", "--jobs is about labelled data"),
        ("inspect MODEL --on-error skip", "--on-error is about labelled data"),
        ("report MODEL --worst 3", "--worst is about labelled data"),
        ("report MODEL --examples 3", "--examples is about labelled data"),
        ("report MODEL ROWS --examples 0", "--examples must be at least 1"),
        ("plot MODEL -o x.png --format csv", "--format is about labelled data"),
        ("predict MODEL ROWS --folds 1", "does not go with an OnlineMKLClassifier"),
        ("train classifier ROWS -o x.npz --checkpoint-every 5s", "checkpoint=DIRECTORY"),
    ],
)
def test_options_that_would_say_nothing_are_refused(command, message, files_of_rows, capsys):
    command = [files_of_rows.get(word, word) for word in command.split()]
    with suppress(SystemExit):  # by argparse
        assert main(command) == 2
    assert message in capsys.readouterr().err


def test_a_report_of_rows_by_their_names_has_no_warning(files_of_rows, tmp_path, recwarn):
    assert main(["report", files_of_rows["MODEL"], files_of_rows["ROWS"], "-o", str(tmp_path / "r.html")]) == 0
    assert not [str(warning.message) for warning in recwarn if "feature names" in str(warning.message)]


def test_deprecations_of_other_packages_are_not_for_those_who_run_omkl(files_of_rows, monkeypatch, capsys):
    def load_model(arguments):
        for kind in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.warn(kind.__name__, kind, stacklevel=2)
        return known(arguments)

    known = inspect.load_model
    monkeypatch.setattr(inspect, "load_model", load_model)
    assert main(["inspect", files_of_rows["MODEL"]]) == 0
    assert capsys.readouterr().err == "omkl: warning: FutureWarning\n"


@pytest.fixture(scope="module")
def files_of_rows(tmp_path_factory):
    """A table, a classifier and a regressor of its columns, and a treebank."""
    folder = tmp_path_factory.mktemp("rows")
    (folder / "rows.csv").write_text("a,b,y\n" + "1,2,p\n2,1,q\n3,4,p\n4,3,q\n" * 5)
    files = {name: str(folder / path) for name, path in {
        "ROWS": "rows.csv", "MODEL": "model.npz", "REGRESSOR": "regressor.npz", "TREES": "trees.conllu",
    }.items()}  # fmt: skip
    write_treebank(files["TREES"], synthetic_treebank(4, random_state=0))
    for kind, name, target in (("classifier", "MODEL", "y"), ("regressor", "REGRESSOR", "a")):
        train = ["train", kind, files["ROWS"], "-o", files[name], "--target", target, "--epochs", "1", "--quiet"]
        assert main(train) == 0
    return files
