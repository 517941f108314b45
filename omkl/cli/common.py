"""What subcommands share: options, loading of models, metrics as JSON, charts for the terminal."""

import json
import os
import shutil
import sys
import tempfile
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omkl import data, estimators
from omkl._components import check_n_jobs
from omkl._files import PathLike, replacing
from omkl.exceptions import DataFileError, InputError

#: Digits of the number of a fold.
FOLD_DIGITS = 4


def _folds(text):
    folds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()) or max(len(first), len(last)) > FOLD_DIGITS:
            raise ArgumentTypeError(f"folds are numbers such as 0-3,5, not {text[:80]!r}")
        folds += range(int(first), int(last or first) + 1)
    return folds


def _seed(text):
    if not text.isdecimal():
        raise ArgumentTypeError(f"a seed is a whole number, at least 0, not {text!r}")
    return int(text)


def _rate(text):
    return text if text == "auto" else float(text)


#: Options of several subcommands.
OPTIONS: dict[str, dict[str, Any]] = {
    "--json": {"metavar": "FILE", "help": "also write the metrics to FILE, as JSON (- for standard output)"},
    "--quiet": {"action": "store_true", "help": "print nothing, show no progress bar"},
    "--format": {"metavar": "NAME", "help": "format of the data; guessed from the file's name by default"},
    "--target": {"metavar": "WHERE", "help": "where the outputs are: name or place of a column (csv, parquet; the last "
                 "one by default), an array's name (npz), a second file (npy)"},
    "--no-header": {"action": "store_true", "help": "csv: the first line is a row, not names of columns"},
    "--folds": {"type": _folds, "metavar": "N[-M][,...]",
                "help": "only these folds of the OCR data set"},
    "--on-error": {"choices": ("raise", "skip"), "default": "raise",
                   "help": "what to do with sentences that are no trees: stop (default), or leave them out"},
    "--jobs": {"type": int, "metavar": "N", "help": "threads that predict; -1 is one for each core (default: one)"},
    "--budget": {"type": int, "metavar": "B", "help": "at most B support vectors for kernels (default: any)"},
    "--early-stopping": {"action": "store_true", "help": "stop when a held-out tenth gets no better"},
    "--stream": {"action": "store_true",
                 "help": "never hold the file whole: read it once an epoch, and shuffle through a buffer"},
    "--checkpoint": {"metavar": "DIR", "help": "keep the state of training in this directory"},
    "--checkpoint-every": {"default": "60s", "metavar": "TIME",
                           "help": '30s, 5m, 2h or "1000 rounds" (default 60s)'},
    "--resume": {"action": "store_true", "help": "go on from the latest checkpoint, where there is one"},
    "--regularizer": {"default": "mkl", "help": "mkl (default), l2, group-lasso, elastic-net, lq:q=1.5, ..."},
    "--weighting": {"choices": ("auto", "out-of-sample", "norms"), "default": "auto",
                    "help": "leave out groups that do not help on examples not yet learned from (out-of-sample), or go "
                            "by their norms alone; auto: out-of-sample where the regularizer selects groups (default)"},
    "--method": {"default": "fobos", "help": "online method: fobos (default) or rda; a learner for every kernel, "
                 "combined by Hedge: hedge, omkc (classifiers), raker or adaraker, with settings as in hedge:rate=0.5"},
    "--eta0": {"type": _rate, "default": "auto",
               "help": "scale of the learning rate (default auto)"},
    "--average": {"default": "quadratic", "help": "quadratic (default), uniform or last"},
    "--random-state": {"type": _seed, "metavar": "N", "help": "seed"},
}  # fmt: skip
OUTPUT = ("--json", "--quiet")
ROWS = ("--target", "--no-header")
CHECKPOINTS = ("--checkpoint", "--checkpoint-every", "--resume")
#: The options that a model of each kind does not read.
UNREAD = {
    "trees": ("format", "folds", "scheme", "target", "no_header"), "sequences": ("target", "no_header"),
    "rows": ("folds", "scheme"), "annotations": ("format", "folds", "scheme", "target", "no_header"),
}  # fmt: skip


def add_options(parser: ArgumentParser, *names: str) -> None:
    """Add some of :data:`OPTIONS`."""
    for name in names:
        parser.add_argument(name, **OPTIONS[name])


def add_training_options(
    parser: ArgumentParser, epochs: int, losses: Sequence[str] = ("hinge", "crf", "perceptron"), hedge: bool = True,
    C: float = 1.0,
) -> None:  # fmt: skip
    """What every online estimator is trained with; ``epochs``, ``C`` and the first of the losses are the defaults.

    ``hedge`` is whether there can be a learner for every group.
    """
    parser.add_argument("train", help="file to train on")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="file to save the model to (.npz)")
    parser.add_argument("--dev", metavar="FILE", help="file to report the accuracy on, and to calibrate labelers by")
    names = ", ".join((f"{losses[0]} (default)", *losses[1:-1]))
    parser.add_argument("--loss", default=losses[0], help=f"{names} or {losses[-1]}")
    parser.add_argument("--epochs", type=int, default=epochs, help=f"passes over the data (default {epochs})")
    add_options(parser, "--regularizer", "--weighting", "--eta0", "--average", "--random-state")
    parser.add_argument("--C", type=float, default=C, help=f"weight of the losses, 1/(lambda m) (default {C:g})")
    if hedge:
        add_options(parser, "--method")
    else:
        parser.add_argument("--method", choices=("fobos", "rda"), default="fobos", help="online method (default fobos)")
    add_options(parser, "--stream", *CHECKPOINTS, *OUTPUT)
    parser.add_argument(
        "--predict-only", action="store_true", help="save only what predicts: a much smaller file, not to go on from"
    )
    parser.add_argument(
        "--precision", choices=("float32", "float16"), help="with --predict-only: round the weights to this precision"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=int, metavar="N", help="train in shards, on N processes of this machine (needs omkl[dask])"
    )
    where.add_argument(
        "--scheduler", metavar="URL", help="train in shards, on the workers of this Dask scheduler (tcp://host:8786)"
    )
    parser.add_argument("--shards", type=int, metavar="K", help="number of shards (default: one a worker)")


def shuffled(stream: Any, arguments: Namespace) -> Any:
    """The stream in a fresh order every epoch, the same in a run that is resumed."""
    return stream.shuffled(random_state=arguments.random_state or 0)


def training_parameters(arguments: Namespace) -> dict[str, Any]:
    """The estimator's parameters that :func:`add_training_options` asks for.

    Raises
    ------
    omkl.exceptions.InputError
        If what is to be saved does not go with them.
    """
    if arguments.precision and not arguments.predict_only:
        raise InputError(f"--precision {arguments.precision} rounds what --predict-only saves: give both.")
    if arguments.predict_only and (getattr(arguments, "budget", None) or arguments.method not in ("fobos", "rda")):
        raise InputError(
            "--predict-only is not for models on a --budget, nor for those that Hedge combines: leave it out."
        )
    names = ("loss", "regularizer", "weighting", "C", "epochs", "method", "eta0", "average", "random_state")
    return {**{name: getattr(arguments, name) for name in names}, "verbose": not arguments.quiet}


@contextmanager
def fit_options(arguments: Namespace) -> Iterator[dict[str, Any]]:
    """What ``fit`` takes: where to keep checkpoints, and in how many shards to learn; workers end with the context."""
    names = ("checkpoint", "checkpoint_every", "resume", "shards")
    options = {name: getattr(arguments, name) for name in names}
    if arguments.workers is None and arguments.scheduler is None:
        yield options
        return
    from omkl.distributed import local_client, running_client

    with (
        running_client(arguments.scheduler) if arguments.workers is None else local_client(arguments.workers) as client
    ):
        yield {"client": client, **options}


def load_model(arguments: Namespace) -> tuple[Any, str]:
    """The saved model, and what it is about: ``"trees"``, ``"annotations"``, ``"sequences"`` or ``"rows"``.

    Raises
    ------
    omkl.exceptions.InputError
        If an option was given that a model of this kind does not read.
    """
    model = estimators.load(arguments.model)
    kinds = {
        estimators.DependencyParser: "trees", estimators.Annotator: "annotations",
        estimators.SequenceLabeler: "sequences",
    }  # fmt: skip
    kind = kinds.get(type(model), "rows")
    check_options(arguments, kind, f"a {type(model).__name__}")
    if getattr(arguments, "jobs", None) is not None:
        check_n_jobs(arguments.jobs)
        if "n_jobs" not in model.get_params(deep=False):
            raise InputError(f"--jobs does not go with a {type(model).__name__}, which does not read it: leave it out.")
        model.set_params(n_jobs=arguments.jobs)
    return model, kind


def check_options(arguments: Namespace, kind: str, what: str) -> None:
    """Raise if an option was given that models, or files, of a kind do not read; ``what`` they are in the message."""
    for name in UNREAD[kind]:
        if getattr(arguments, name, None) not in (None, False):
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} does not go with {what}, which does not read it: leave it out.")


@contextmanager
def input_file(path: str) -> Iterator[str]:
    """The path of a file to read: of one that holds what standard input gives, for ``-``."""
    if path != "-":
        yield path
        return
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "standard input")
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield path


def read_sequences(path: str, arguments: Namespace) -> tuple[list, list | None]:
    """Sequences, and their labels where the file holds some; an error where no token has anything to go by."""
    X, y = data.read_sequences(path, arguments.format, arguments.folds)
    if not any(getattr(token, "size", token) for x in X for token in x):
        raise DataFileError(f"No token in {path} has attributes: it holds no sequences, or choose another --format.")
    return X, y


def labelled_sequences(path: str, arguments: Namespace) -> tuple[list, list]:
    """Sequences and their labels; an error where the file holds none."""
    X, y = read_sequences(path, arguments)
    if y is None:
        raise DataFileError(f'{path} holds no labels: give every line a "y".')
    return X, y


def report(arguments: Namespace, lines: Iterable[str], metrics: dict[str, Any]) -> None:
    """Print lines unless ``--quiet`` is given, and write the metrics where ``--json`` says."""
    if not arguments.quiet:
        print(*lines, sep="\n")
    write_json(arguments.json, metrics)


def peak_memory() -> str:
    """``", 380 MB"``, the most memory that the process has had; empty where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return ""
    return f", {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == 'darwin' else 1e3):.0f} MB"


def as_typed(program: str) -> str:
    """How to call a program of this environment: by its name where it is on the path, else by where it lies."""
    here = Path(sys.executable).parent / program
    return program if shutil.which(program) == str(here) else os.path.relpath(here)


def write_json(path: PathLike | None, metrics: dict[str, Any]) -> None:
    """Write metrics to a JSON file, if one is asked for; the previous file stays until the new one is whole."""
    if path == "-":
        print(json.dumps(metrics, indent=1, default=float))
    elif path is not None:
        with replacing(path) as file:
            json.dump(metrics, file, indent=1, default=float)
            file.write("\n")


def bar_chart(weights: dict[str, float], width: int = 40) -> list[str]:
    """Lines of a bar chart of named values in [0, 1], the largest first."""
    if not weights:
        return []
    name_width = max(len(name) for name in weights)
    width = max(10, min(width, shutil.get_terminal_size().columns - name_width - 12))
    longest = max(weights.values()) or 1.0
    ranked = sorted(weights.items(), key=lambda item: -item[1])
    return [f"{name:>{name_width}}  {weight:6.1%}  {'█' * round(width * weight / longest)}" for name, weight in ranked]


def table(rows: Iterable[Sequence], header: Sequence[str]) -> list[str]:
    """Lines of a table with aligned columns; the first column is text, the others are numbers as text."""
    rows = [tuple(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join([row[0].ljust(widths[0])] + [cell.rjust(w) for cell, w in zip(row[1:], widths[1:])]) for row in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]
