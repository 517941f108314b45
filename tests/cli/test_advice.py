"""Errors and warnings on the command line speak of its options, not of Python's names."""

import numpy as np
import pytest

from omkl.cli import main
from omkl.cli.advice import in_options
from omkl.cli.train import classifier
from omkl.cli.train_parser import train_parser

from ..commands import run


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("`loss` must be a loss.", "--loss must be a loss."),
        (
            "n_jobs must be a whole number >= 1, not 0.",
            "--jobs must be a whole number >= 1, not 0.",
        ),
        ("Set zero_based=True, or leave target= out.", "Set --zero-based, or leave --target out."),
        ("Give delimiter=';' or delimiter='t'.", "Give --delimiter ';' or --delimiter t."),
        ("early_stopping needs validation=(X, y).", "--early-stopping needs --dev FILE."),
        (
            "There is no header=, and on_error is open.",
            "There is no --no-header, and --on-error is open.",
        ),
        (
            "The kernel 'a:loss=3' and 'target=y' (loss=3).",
            "The kernel 'a:loss=3' and 'target=y' (--loss 3).",
        ),
        (
            "Unknown loss 'x': choose one of a, b, or make a Loss.",
            "Unknown loss 'x': choose one of a, b.",
        ),
        (
            "The loss of 20 epochs is in loss_ and evidence_.",
            "The loss of 20 epochs is in loss_ and evidence_.",
        ),
        ("Give weights= or X_new.", "Give weights= or X_new."),
    ],
)
def test_parameters_become_options(message, expected):
    assert in_options(message, classifier.params) == expected


def test_options_of_another_command_are_left_alone():
    assert (
        in_options("Set order=1, not `target`.", train_parser.params)
        == "Set --order 1, not `target`."
    )


@pytest.fixture
def tables(tmp_path, rng):
    rows = [
        f"{a:.3f},{b:.3f},{word}"
        for (a, b), word in zip(rng.normal(size=(40, 2)), ["no", "yes"] * 20)
    ]
    text = "\n".join(["age,height,answer", *rows]) + "\n"
    (tmp_path / "words.csv").write_text(text)
    (tmp_path / "semicolons.csv").write_text(text.replace(",", ";"))
    (tmp_path / "bare.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "numbers.csv").write_text(text.replace("no", "0").replace("yes", "1"))
    (tmp_path / "zero.svm").write_text("1 0:1\n2 1:3\n")
    np.savez(
        tmp_path / "words.npz",
        X=rng.normal(size=(4, 2)),
        y=["no", "yes"] * 2,
    )
    return tmp_path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("classifier semicolons.csv", "give --delimiter ';' if that separates cells."),
        ("classifier words.csv --categorical zip", "has no column 'zip' for --categorical."),
        ("classifier words.csv --delimiter ;;", "--delimiter must be one ASCII character"),
        ("classifier zero.svm", "indices count from 1: set --zero-based."),
        ("classifier zero.svm --target y", "leave --target out."),
        ("classifier zero.svm --delimiter ;", "there is no --delimiter."),
        (
            "classifier words.csv --stream --early-stopping",
            "--early-stopping needs --dev FILE with a stream",
        ),
        (
            "classifier words.csv --kernels gaussian:sigma=5",
            "no parameter 'sigma': choose from sigma2, normalize, on,",
        ),
        (
            "classifier words.csv --loss hinge:cost=2",
            "has no parameter 'cost': choose from cost_weight.",
        ),
        ("regressor numbers.csv --loss huber:d=2", "has no parameter 'd': choose from delta."),
        ("classifier words.csv --regularizer lq:p=2", "has no parameter 'p': choose from q."),
        ("classifier words.csv --average recent:power=2", "has no parameter 'power': it has none."),
    ],
)
def test_errors_name_options(command, message, tables, monkeypatch, capsys):
    monkeypatch.chdir(tables)
    assert main(["train", *command.split(), "-o", "model.npz"]) == 2
    printed = capsys.readouterr().err
    assert message in printed
    assert "__init__" not in printed


@pytest.mark.parametrize(
    ("command", "column"),
    [
        ("words.csv", "The column 'answer' of words.csv"),
        ("words.csv --stream", "The column 'answer' of words.csv"),
        ("words.csv --target answer", "The column 'answer' of words.csv"),
        ("words.csv --target 2", "The column 'answer' of words.csv"),
        ("bare.csv --no-header", "The column 'f2' of bare.csv"),
        ("numbers.csv --dev words.csv", "The column 'answer' of words.csv"),
        ("words.npz", "The array of outputs of words.npz"),
    ],
)
def test_a_regressor_names_a_column_of_words(command, column, tables, monkeypatch, capsys):
    monkeypatch.chdir(tables)
    assert main(["train", "regressor", *command.split(), "-o", "model.npz"]) == 2
    printed = capsys.readouterr().err
    assert f"{column} holds words such as 'no', and a regressor predicts numbers" in printed
    assert "omkl train classifier" in printed


def test_words_for_a_saved_regressor_are_named(tables, monkeypatch, capsys):
    monkeypatch.chdir(tables)
    run("train", "regressor", "numbers.csv", "-o", "model.npz", "--epochs", "1", "--quiet")
    commands = ["evaluate model.npz words.csv", "inspect model.npz --data words.csv"]
    commands += ["guarantee model.npz words.csv -o g.npz", "report model.npz words.csv -o r.html"]
    for command in commands:
        assert main(command.split()) == 2
        assert (
            "The column 'answer' of words.csv holds words such as 'no'" in capsys.readouterr().err
        )
