"""Options mean the same everywhere, help has examples that are commands, ``-`` is standard input;
``omkl demo``.
"""

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris

import omkl
from omkl.cli import main
from omkl.cli import options as opt
from omkl.cli.demo import LABELERS, USEFUL, USELESS, describe_weights, tokens_of
from omkl.data import synthetic_treebank, write_treebank

from ..commands import read_json, run


def commands(group=opt.omkl, path="omkl"):
    """Return all groups and commands by their full names."""
    yield path, group
    for name in group.list_commands(None) if isinstance(group, click.Group) else ():
        yield from commands(group.get_command(None, name), f"{path} {name}")


COMMANDS = dict(commands())
LEAVES = {
    path: command for path, command in COMMANDS.items() if not isinstance(command, click.Group)
}
#: Options whose meaning depends on the command.
DIFFERENT = {("keep", "omkl prune"), ("regularizer", "omkl prune")}


def test_an_option_means_the_same_wherever_it_is():
    seen = {}
    for path, command in LEAVES.items():
        for option in command.params:
            name = option.name
            differs = (name, path) in DIFFERENT or name in ("output", "to")
            if not isinstance(option, click.Option) or differs:
                continue
            form = [type(option.type), option.opts, option.metavar, option.is_flag, option.multiple]
            if name not in ("C", "epochs", "loss", "order", "random_state"):
                form += [option.help, option.default]
            first = seen.setdefault(name, (path, form))
            assert form == first[1] or name == "C", (name, path, first)
    assert len(seen) > 50


def test_every_option_has_help_and_every_command_writes_metrics():
    for path, command in COMMANDS.items():
        assert command.help, path
        assert all(option.help for option in command.params if isinstance(option, click.Option)), (
            path
        )
    for path, command in LEAVES.items():
        names = {option.name for option in command.params}
        assert {"json", "quiet"} <= names, path
        assert not {"epochs", "C"} & names or {"epochs", "C", "random_state"} <= names, path


def examples(command):
    for line in command.epilog.splitlines()[2:]:
        words = shlex.split(line, comments=True)
        words = words[words.index("omkl") + 1 :]
        ends = [i for i, word in enumerate(words) if word in (">", "|")]
        yield words[: ends[0]] if ends else words


@pytest.mark.parametrize("path", COMMANDS)
def test_help_has_examples_that_are_commands(path, capsys):
    examples_of_command = list(examples(COMMANDS[path]))
    assert len(examples_of_command) >= 2
    for words in examples_of_command:
        command = opt.omkl
        rest = words
        while "--help" not in words and isinstance(command, click.Group):
            command = command.get_command(None, rest[0])
            rest = rest[1:]
        if "--help" not in words:
            assert command.make_context("omkl", list(rest), obj=opt.Run()).params
    run(*path.split()[1:], "--help")
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 120


def test_a_shell_completes_commands_options_and_files():
    env = {"_OMKL_COMPLETE": "bash_complete"}
    cases = [
        ("ev", "evaluate"),
        ("train ann", "annotator"),
        ("train parser --lik", "--likely"),
        ("predict m", "file,"),
    ]
    for words, completion in cases:
        env |= {"COMP_WORDS": f"omkl {words}", "COMP_CWORD": str(len(words.split()))}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            done = subprocess.run([sys.executable, "-m", "omkl"], capture_output=True, text=True)
        assert completion in done.stdout, done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a treebank, rows, and models of both, by name."""
    folder = tmp_path_factory.mktemp("files")
    paths = {
        name: str(folder / name)
        for name in ("t.conllu", "r.svm", "tagger.npz", "rows.npz", "parser.npz")
    }
    write_treebank(paths["t.conllu"], synthetic_treebank(60, vocabulary=10, random_state=0))
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, paths["r.svm"], zero_based=False)
    common = ["--epochs", "1", "--random-state", "0", "--quiet", "-o"]
    small = ["--templates", "small", "--memory", "10"]
    run("train", "labeler", paths["t.conllu"], *common, paths["tagger.npz"])
    run("train", "classifier", paths["r.svm"], *common, paths["rows.npz"])
    run("train", "parser", paths["t.conllu"], *small, *common, paths["parser.npz"])
    return paths


def main_with_input(path, command, monkeypatch):
    """Run a command whose standard input is a file; return its exit code."""
    with open(path, "rb") as file:
        content = io.TextIOWrapper(io.BytesIO(file.read()))
    monkeypatch.setattr("sys.stdin", content)
    return main(command)


def words_of(value):
    """Identify a parameter: a name, or the words of a command."""
    return value if isinstance(value, str) else " ".join(value)


@pytest.mark.parametrize(
    ("what", "command"),
    [
        ("r.svm", ["train", "classifier", "-", "--epochs", "1", "-o", "{out}"]),
        ("r.svm", ["train", "classifier", "-", "--epochs", "1", "--stream", "-o", "{out}"]),
        ("r.svm", ["train", "regressor", "{r.svm}", "--dev", "-", "--epochs", "1", "-o", "{out}"]),
        (
            "t.conllu",
            ["train", "labeler", "-", "--format", "conllu", "--epochs", "1", "-o", "{out}"],
        ),
        (
            "t.conllu",
            [
                "train",
                "parser",
                "-",
                "--templates",
                "small",
                "--epochs",
                "1",
                "--memory",
                "9",
                "-o",
                "{out}",
            ],
        ),
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
    ids=words_of,
)
def test_a_dash_is_standard_input_wherever_a_file_is_read(
    what, command, files, tmp_path, monkeypatch, capsys
):
    out = str(tmp_path / "out.npz")
    places = {"{out}": out, **{f"{{{name}}}": path for name, path in files.items()}}
    assert (
        main_with_input(files[what], [places.get(word, word) for word in command], monkeypatch) == 0
    )
    printed = capsys.readouterr()
    assert "/standard input" not in printed.out + printed.err
    assert "-" not in {path.name for path in tmp_path.iterdir()}


def test_errors_name_standard_input(files, tmp_path, monkeypatch, capsys):
    broken = tmp_path / "broken"
    broken.write_text("1 1:2\nnonsense\n")
    assert main_with_input(broken, ["predict", files["rows.npz"], "-"], monkeypatch) == 2
    assert "error: standard input, line 2" in capsys.readouterr().err
    assert main(["evaluate", "-", "-"]) == 2
    assert "can be read only once" in capsys.readouterr().err


@pytest.mark.slow
def test_a_model_goes_through_a_pipe(files, tmp_path):
    """``omkl train - -o - < data > model``, by two processes."""
    command = [sys.executable, "-m", "omkl", "train", "classifier", "-", "-o", "-", "--epochs", "1"]
    model = tmp_path / "model.npz"
    with open(files["r.svm"], "rb") as data, model.open("wb") as out:
        done = subprocess.run(
            [*command, "--random-state", "0"], stdin=data, stdout=out, stderr=subprocess.PIPE
        )
    assert done.returncode == 0
    assert done.stderr == b""
    assert model.read_bytes() == Path(files["rows.npz"]).read_bytes()


def test_on_error_skip_leaves_out_bad_records(tmp_path, capsys):
    rows = tmp_path / "a.svm"
    words = tmp_path / "a.crfsuite"
    rows.write_text("1 1:2\n0 1:-2\nnonsense\n" * 5)
    words.write_text("D\tw=the\nN\tw=dog\n\nD\tw=the:x\n\n" * 5)
    for kind, path in (("classifier", rows), ("labeler", words)):
        for stream in ([], ["--stream"]):
            train = [
                "train",
                kind,
                str(path),
                "-o",
                str(tmp_path / "m.npz"),
                "--epochs",
                "1",
                *stream,
            ]
            assert main(train) == 2
            assert f"{path.name}, line" in capsys.readouterr().err
            run(*train, "--on-error", "skip", "--json", "-")
            printed = capsys.readouterr()
            metrics = json.loads(printed.out)
            assert metrics.get("examples", metrics.get("sequences")) == (
                10 if kind == "classifier" else 5
            )
            assert "5 records were skipped" in printed.err
        for command in ("evaluate", "inspect"):
            arguments = [
                str(tmp_path / "m.npz"),
                *(["--data"] if command == "inspect" else []),
                str(path),
            ]
            assert main([command, *arguments]) == 2
            run(command, *arguments, "--on-error", "skip")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate TREES TREES --jobs 2", "--jobs does not go with a pair of treebanks"),
        ("inspect MODEL --top -1", "-1 is not in the range x>=0"),
        ("inspect MODEL --scheme BIO", "No such option '--scheme'"),
        ("inspect MODEL --target y", "--target goes with --data FILE"),
        ("report MODEL --worst 3", "--worst is about labelled data: name a file of them"),
        (
            "train annotator TREES -o x.npz --parts upos --memory 9",
            "--memory is about trees, which --parts leaves out",
        ),
        (
            "predict REGRESSOR ROWS --nbest 2",
            "--nbest is for labelers and parsers, not an OnlineMKLRegressor",
        ),
        ("predict MODEL ROWS --confidence", "--confidence needs probabilities"),
        ("train classifier ROWS -o x.npz --checkpoint-every 5s", "--checkpoint DIRECTORY"),
        (
            "train classifier ROWS -o x.npz --precision float16 --budget 9",
            "--predict-only does not go with --budget",
        ),
        ("train classifier ROWS -o x.npz --workers 0", "workers must be a whole number > 0"),
        ("train classifier ROWS -o x.npz --scheduler tcp://127.0.0.1:1", "cannot be reached"),
    ],
)
def test_options_without_an_effect_are_refused(command, message, files_of_rows, refused):
    refused([files_of_rows.get(word, word) for word in command.split()], message)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("labeler --regularizer x", "Unknown regularizer 'x'"),
        ("labeler --lexicon a=none.tsv", "none.tsv"),
        ("classifier --kernels x", "Unknown kernel 'x'"),
        ("regressor --epochs 0", "epochs must be a whole number > 0"),
        ("parser --memory 0", "memory must be"),
        ("parser --resume", "--resume needs --checkpoint DIR"),
        ("annotator --C -1", "C must be"),
        ("annotator --checkpoint-every 5x", "--checkpoint-every must be"),
    ],
)
def test_options_are_checked_before_data_are_read(command, message, tmp_path, refused):
    (tmp_path / "bad").write_bytes(b"\xff\xfe")
    kind, *options = command.split()
    refused(["train", kind, tmp_path / "bad", "-o", tmp_path / "m.npz", *options], message)


@pytest.fixture(scope="module")
def files_of_rows(tmp_path_factory):
    """A table, a classifier and a regressor of its columns, and a treebank."""
    folder = tmp_path_factory.mktemp("rows")
    (folder / "rows.csv").write_text("a,b,y\n" + "1,2,p\n2,1,q\n3,4,p\n4,3,q\n" * 5)
    files = {
        name: str(folder / path)
        for name, path in {
            "ROWS": "rows.csv",
            "MODEL": "model.npz",
            "REGRESSOR": "regressor.npz",
            "TREES": "trees.conllu",
        }.items()
    }
    write_treebank(files["TREES"], synthetic_treebank(4, random_state=0))
    for kind, name, target in (("classifier", "MODEL", "y"), ("regressor", "REGRESSOR", "a")):
        loss = ["--loss", "hinge"] if kind == "classifier" else []
        train = [
            "train",
            kind,
            files["ROWS"],
            "-o",
            files[name],
            "--target",
            target,
            "--epochs",
            "1",
            "--quiet",
            *loss,
        ]
        run(*train)
    return files


def demo(folder, *options):
    return main(["demo", "-o", str(folder), "--json", str(folder / "m.json"), *map(str, options)])


def test_demo_prints_saves_and_draws(tmp_path, capsys):
    assert demo(tmp_path, "--n-train", 60, "--n-test", 100) == 0
    printed = capsys.readouterr().out
    for expected in (*LABELERS, "told which 4 see the digit", "█", "At zero:", "Next:"):
        assert expected in printed
    metrics = read_json(tmp_path / "m.json")
    assert metrics == read_json(tmp_path / "metrics.json")
    accuracies = {row["kernels"]: row["accuracy"] for row in metrics["results"]}
    assert list(accuracies) == list(LABELERS)
    assert accuracies["MKL out of sample"] > accuracies["all 13 alike"] + 0.01
    assert sum(metrics["kernel_weights"][name] for name in USEFUL) > 0.95
    assert 0.5 < sum(metrics["kernel_weights_by_norms"][name] for name in USEFUL) < 0.95
    assert (tmp_path / "group_weights.png").read_bytes().startswith(b"\x89PNG")
    assert omkl.load(tmp_path / "dates.npz").kernel_weights_ == pytest.approx(
        metrics["kernel_weights"]
    )


def test_demo_without_matplotlib_says_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert demo(tmp_path, "--n-train", 5, "--n-test", 1, "--epochs", 1) == 0
    assert "pip install omkl[plot]" in capsys.readouterr().out


def test_useless_views_are_independent_of_the_digit():
    dates = omkl.data.handwritten_dates(300, 1)
    tokens = tokens_of(dates.train_images, np.random.default_rng(0))
    flat = [token for date in tokens for token in date]
    labels = np.concatenate(dates.train_digits)
    assert list(flat[0]) == [*USEFUL, *USELESS]
    digit_of = {row.tobytes(): label for row, label in zip(np.vstack(dates.train_images), labels)}
    others = [digit_of[token["pixels of another digit"].tobytes()] for token in flat]
    # random digits agree this often
    expected = np.sum((np.bincount(labels) / len(labels)) ** 2)
    assert np.mean(others == labels) == pytest.approx(expected, abs=0.03)
    for name in ("place on the page", "number of the form"):
        assert all((token[name] == date[0][name]).all() for date in tokens for token in date)


def test_weights_at_zero_are_named():
    weights = dict.fromkeys((*USEFUL, *USELESS), 0.0) | {"pixels": 0.75, "place on the page": 0.25}
    text = "\n".join(describe_weights(weights, dict.fromkeys(weights, 1 / 13)))
    assert text.startswith("75.0% of the weight is on the 4 that see the digit (by norms 30.8%):")
    charted, zero = text.split("At zero:")
    assert "* pixels" in charted
    assert "place on the page" in charted
    assert "* outline" in zero
    assert "At zero: none." in "\n".join(describe_weights(dict.fromkeys(weights, 1 / 13), weights))
