"""What subcommands share: options, loading of models, metrics as JSON, charts for the terminal."""

import json
import os
import shutil
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omkl import estimators
from omkl._components import check_n_jobs
from omkl._files import PathLike, replacing
from omkl.cli.inputs import columns_of
from omkl.exceptions import InputError

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


def count(text: str) -> int:
    """A whole number of things to show, from 0."""
    if not text.isdecimal():
        raise ArgumentTypeError(f"a number of things is whole and at least 0, not {text!r}")
    return int(text)


def _rate(text):
    return text if text == "auto" else float(text)


#: Options of several subcommands.
OPTIONS: dict[str, dict[str, Any]] = {
    "model": {"help": "a saved model (- for standard input)"},
    "train": {"help": "file to train on (- for standard input)"},
    "--output": {"metavar": "MODEL", "required": True, "help": "file to save the model to, .npz (- for standard "
                 "output)"},
    "--dev": {"metavar": "FILE", "help": "file to report how good the model is on, and to make probabilities of scores "
              "by (- for standard input)"},
    "--json": {"metavar": "FILE", "help": "also write the metrics to FILE, as JSON (- for standard output)"},
    "--quiet": {"action": "store_true", "help": "print nothing but errors, show no progress"},
    "--log": {"metavar": "FILE", "help": "write a row of CSV for every epoch while training (- for standard output)"},
    "--log-every": {"type": int, "metavar": "N", "help": "with --log: a row for every N examples instead"},
    "--format": {"metavar": "NAME", "help": "format of the data; guessed from the file's name by default"},
    "--template": {"metavar": "FILE", "help": "templates of CRF++ that make attributes of columns, a token's and its "
                   "neighbours', each a group: U01:%%x[-1,0]/%%x[0,0]"},
    "--target": {"metavar": "WHERE", "help": "where the outputs are: name or place of a column (csv, parquet; the last "
                 "one by default), an array's name (npz), a second file (npy)"},
    "--no-header": {"action": "store_true", "help": "csv: the first line is a row, not names of columns"},
    "--delimiter": {"metavar": "C", "help": "csv: what divides cells, as ';' (default: a comma, in .tsv files a tab)"},
    "--categorical": {"metavar": "NAMES", "type": lambda text: text.split(","),
                      "help": "csv: columns that are text though they look like numbers or dates, as zip codes do, "
                      "separated by commas (a model knows which it has learned as text)"},
    "--folds": {"type": _folds, "metavar": "N[-M][,...]",
                "help": "only these folds of the OCR data set"},
    "--on-error": {"choices": ("raise", "skip"), "default": "raise",
                   "help": "what to do with records that cannot be read, and sentences that are no trees: stop "
                   "(default), or leave them out"},
    "--jobs": {"type": int, "metavar": "N", "help": "threads; -1 is one for each core (default: one)"},
    "--budget": {"type": int, "metavar": "B", "help": "at most B support vectors for kernels (default: any)"},
    "--early-stopping": {"action": "store_true", "help": "stop when --dev, or without it a held-out tenth, gets no "
                         "better, and keep the best"},
    "--stream": {"action": "store_true",
                 "help": "never hold the file whole: read it once an epoch, and shuffle through a buffer"},
    "--checkpoint": {"metavar": "DIR", "help": "keep the state of training in this directory"},
    "--checkpoint-every": {"default": "60s", "metavar": "TIME",
                           "help": '30s, 5m, 2h or "1000 rounds" (default 60s)'},
    "--resume": {"action": "store_true", "help": "go on from the latest checkpoint, where there is one"},
    "--kernels": {"nargs": "+", "metavar": "K",
                  "help": "kernels such as linear, quadratic, gaussian:sigma2=5, linear:on=0:10 (default: linear, "
                          "quadratic and gaussian for dense vectors, linear for sparse ones; words need none)"},
    "--regularizer": {"metavar": "R", "default": "mkl",
                      "help": "mkl (default), l2, group-lasso, elastic-net, lq:q=1.5, ..."},
    "--weighting": {"choices": ("auto", "out-of-sample", "norms"), "default": "auto",
                    "help": "leave out groups that do not help on examples not yet learned from (out-of-sample), or go "
                            "by their norms alone; auto: out-of-sample where the regularizer selects groups (default)"},
    "--method": {"metavar": "M", "default": "fobos",
                 "help": "online method: fobos (default) or rda; a learner for every kernel, "
                 "combined by Hedge: hedge, omkc (classifiers), raker or adaraker, with settings as in hedge:rate=0.5"},
    "--eta0": {"type": _rate, "metavar": "RATE", "default": "auto",
               "help": "scale of the learning rate (default auto)"},
    "--average": {"metavar": "A", "default": "quadratic", "help": "quadratic (default), uniform or last"},
    "--random-state": {"type": _seed, "metavar": "N", "help": "seed"},
}  # fmt: skip
#: Their short names.
FLAGS = {"--output": ("-o",)}
OUTPUT = ("--json", "--quiet")
ROWS = ("--target", "--no-header", "--delimiter", "--categorical")
LOG = ("--log", "--log-every")
CHECKPOINTS = ("--checkpoint", "--checkpoint-every", "--resume")
OF_TABLES = ("target", "no_header", "delimiter", "categorical")
#: The options that a model of each kind does not read.
UNREAD = {
    "trees": ("format", "folds", "scheme", *OF_TABLES, "mistakes"), "sequences": OF_TABLES, "rows": ("folds", "scheme"),
    "annotations": ("format", "folds", "scheme", *OF_TABLES, "mistakes"),
}  # fmt: skip
#: Options that say how labelled data are read and used, for commands that do without data as well.
ABOUT_DATA = ("format", "folds", *OF_TABLES, "on_error", "jobs", "examples", "worst")


class Help(HelpFormatter):
    """Help whose examples stay as they are written."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


def add_command(commands: Any, name: str, *, summary: str, description: str, examples: str) -> ArgumentParser:
    """Add a command, or a kind of model, and its help.

    Parameters
    ----------
    commands
        What ``add_subparsers`` returns.
    name, summary, description : str
        What it is called, and what it does, in a line and in sentences.
    examples : str
        Command lines, one a line, and what they do in comments.
    """
    examples = "examples:\n" + textwrap.indent(textwrap.dedent(examples).strip("\n"), "  ")
    return commands.add_parser(name, help=summary, description=description, epilog=examples, formatter_class=Help)


def add_options(parser: ArgumentParser, *names: str) -> None:
    """Add some of :data:`OPTIONS`."""
    for name in names:
        parser.add_argument(*FLAGS.get(name, ()), name, **OPTIONS[name])


def add_training_options(
    parser: ArgumentParser, epochs: int, losses: Sequence[str] = ("hinge", "crf", "softmax-margin", "perceptron"),
    hedge: bool = True, C: float = 1.0,
) -> None:  # fmt: skip
    """What every online estimator is trained with; ``epochs``, ``C`` and the first of the losses are the defaults.

    ``hedge`` is whether there can be a learner for every group.
    """
    add_options(parser, "train", "--output", "--dev")
    names = ", ".join((f"{losses[0]} (default)", *losses[1:-1]))
    parser.add_argument("--loss", metavar="L", default=losses[0], help=f"{names} or {losses[-1]}")
    add_options(parser, "--regularizer", "--weighting", "--eta0", "--average", "--random-state")
    add_strength(parser, epochs, C)
    if hedge:
        add_options(parser, "--method")
    else:
        parser.add_argument("--method", choices=("fobos", "rda"), default="fobos", help="online method (default fobos)")
    add_options(parser, "--early-stopping", "--stream", "--jobs", *CHECKPOINTS, *LOG, *OUTPUT)
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


def add_strength(parser: ArgumentParser, epochs: int, C: float) -> None:
    """How long and how closely to fit; with these defaults."""
    parser.add_argument("--epochs", type=int, metavar="N", default=epochs, help=f"passes over the data ({epochs})")
    text = f"weight of the losses, 1/(lambda m) ({C:g}); auto tries five around it, on --dev or by cross-validation"
    parser.add_argument("--C", type=_rate, metavar="C", default=C, help=text)


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
    if arguments.C == "auto" and arguments.stream:
        raise InputError("--C auto trains several times on data that are all at hand: leave --stream out, or give C.")
    names = ["loss", "regularizer", "weighting", "epochs", "method", "eta0", "average", "random_state"]
    names += [] if arguments.C == "auto" else ["C"]
    parameters = {name: getattr(arguments, name) for name in (*names, "early_stopping")}
    return {**parameters, "n_jobs": arguments.jobs, "verbose": not arguments.quiet}


def listeners(arguments: Namespace, *others: Any) -> list[Any]:
    """Callbacks of training: these, and what ``--log`` asks for.

    Raises
    ------
    omkl.exceptions.InputError
        If it is said how often to log, but not where.
    """
    if arguments.log is None:
        if arguments.log_every is not None:
            raise InputError(f"--log-every {arguments.log_every} says when --log FILE gets a row: give both.")
        return list(others)
    from omkl.online import CSVLog, Every

    log: Any = CSVLog("/dev/stdout" if arguments.log == "-" else arguments.log)
    return [*others, log if arguments.log_every is None else Every(arguments.log_every, log)]


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


def calibrate(model: Any, arguments: Namespace, *dev: Any) -> list[str]:
    """Make probabilities of scores by the data of ``--dev``; returns lines that tell why they are none."""
    try:
        model.calibrate(*dev)
    except InputError as error:
        return [f"Scores are not made probabilities by {arguments.dev}: {error}"]
    return []


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
    check_options(arguments, kind, of_class(model))
    if kind == "sequences":
        arguments.n_columns = columns_of(model)
    if getattr(arguments, "jobs", None) is not None:
        check_n_jobs(arguments.jobs)
        if "n_jobs" not in model.get_params(deep=False):
            raise InputError(f"--jobs does not go with {of_class(model)}, which does not read it: leave it out.")
        model.set_params(n_jobs=arguments.jobs)
    return model, kind


def of_class(model: Any) -> str:
    """An estimator by its class, with its article."""
    name = type(model).__name__
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def check_about_data(arguments: Namespace) -> None:
    """Raise if an option was given that is about data, and no data were."""
    if arguments.data is not None:
        return
    for name in ABOUT_DATA:
        if getattr(arguments, name, None) not in (None, False, "raise"):
            raise InputError(
                f"--{name.replace('_', '-')} is about labelled data: name a file of them, or leave it out."
            )


def check_options(arguments: Namespace, kind: str, what: str) -> None:
    """Raise if an option was given that models, or files, of a kind do not read; ``what`` they are in the message."""
    for name in UNREAD[kind]:
        if getattr(arguments, name, None) not in (None, False):
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} does not go with {what}, which does not read it: leave it out.")


def say(arguments: Namespace, *lines: str) -> None:
    """Print lines unless ``--quiet`` is given, or standard output is for something else."""
    if not arguments.quiet:
        print(*(without_place(arguments, line) for line in lines), sep="\n")


def without_place(arguments: Namespace, text: str) -> str:
    """A text in which standard input is called so, and not by where a copy of it lies."""
    place = getattr(arguments, "standard_input", None)
    return text if place is None else text.replace(place, "standard input")


def report(arguments: Namespace, lines: Iterable[str], metrics: dict[str, Any]) -> None:
    """Print lines unless ``--quiet`` is given, and write the metrics where ``--json`` says."""
    say(arguments, *lines)
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
