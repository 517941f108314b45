"""What subcommands share: options, metrics as JSON, charts for the terminal."""

import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omkl._files import replacing
from omkl.exceptions import InputError


def add_output_options(parser: ArgumentParser) -> None:
    """``--json`` and ``--quiet``."""
    parser.add_argument("--json", metavar="FILE", help="also write the metrics to FILE, as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing, show no progress bar")


def add_training_options(
    parser: ArgumentParser, epochs: int, losses: Sequence[str] = ("hinge", "crf", "perceptron")
) -> None:
    """What every online estimator is trained with; the first of the losses is the default."""
    parser.add_argument("train", help="file to train on")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="file to save the model to (.npz)")
    parser.add_argument("--dev", metavar="FILE", help="file to report the accuracy on")
    names = ", ".join((f"{losses[0]} (default)", *losses[1:-1]))
    parser.add_argument("--loss", default=losses[0], help=f"{names} or {losses[-1]}")
    parser.add_argument(
        "--regularizer", default="mkl", help="mkl (default), l2, group-lasso, elastic-net, lq:q=1.5, ..."
    )
    parser.add_argument("--C", type=float, default=1.0, help="weight of the losses, 1/(lambda m) (default 1)")
    parser.add_argument("--epochs", type=int, default=epochs, help=f"passes over the data (default {epochs})")
    parser.add_argument("--method", choices=("fobos", "rda"), default="fobos", help="online method (default fobos)")
    parser.add_argument("--eta0", type=_rate, default="auto", help="scale of the learning rate (default auto)")
    parser.add_argument("--average", default="quadratic", help="quadratic (default), uniform or last")
    parser.add_argument("--random-state", type=int, metavar="N", help="seed")


def add_budget_option(parser: ArgumentParser) -> None:
    """``--budget``."""
    parser.add_argument("--budget", type=int, metavar="B", help="at most B support vectors for kernels (default: any)")


def add_stream_option(parser: ArgumentParser) -> None:
    """``--stream``."""
    parser.add_argument(
        "--stream", action="store_true",
        help="never hold the file whole: read it once an epoch, and shuffle through a buffer",
    )  # fmt: skip


def shuffled(stream: Any, arguments: Namespace) -> Any:
    """The stream in a fresh order every epoch, the same in a run that is resumed."""
    return stream.shuffled(random_state=arguments.random_state or 0)


def add_checkpoint_options(parser: ArgumentParser) -> None:
    """``--checkpoint DIR --checkpoint-every 60s --resume``."""
    parser.add_argument("--checkpoint", metavar="DIR", help="keep the state of training in this directory")
    parser.add_argument(
        "--checkpoint-every", default="60s", metavar="TIME", help='30s, 5m, 2h or "1000 rounds" (default 60s)'
    )
    parser.add_argument("--resume", action="store_true", help="go on from the latest checkpoint, where there is one")


def checkpointing(arguments: Namespace) -> dict[str, Any]:
    """What :func:`add_checkpoint_options` asks of ``fit``."""
    return {name: getattr(arguments, name) for name in ("checkpoint", "checkpoint_every", "resume")}


def training_parameters(arguments: Namespace) -> dict[str, Any]:
    """The estimator's parameters that :func:`add_training_options` asks for."""
    names = ("loss", "regularizer", "C", "epochs", "method", "eta0", "average", "random_state")
    return {**{name: getattr(arguments, name) for name in names}, "verbose": not arguments.quiet}


def _rate(text):
    return text if text == "auto" else float(text)


def add_cluster_options(parser: ArgumentParser) -> None:
    """``--workers``, ``--scheduler`` and ``--shards``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers", type=int, metavar="N", help="train in shards, on N processes of this machine (needs omkl[dask])"
    )
    where.add_argument(
        "--scheduler", metavar="URL", help="train in shards, on the workers of this Dask scheduler (tcp://host:8786)"
    )
    parser.add_argument("--shards", type=int, metavar="K", help="number of shards (default: one a worker)")


@contextmanager
def training_cluster(arguments: Namespace) -> Iterator[dict[str, Any]]:
    """What ``fit`` takes of :func:`add_cluster_options`: ``client`` and ``shards``; workers end with the context."""
    if arguments.workers is None and arguments.scheduler is None:
        yield {"shards": arguments.shards}
        return
    from omkl.distributed import local_client, running_client

    with (
        running_client(arguments.scheduler) if arguments.workers is None else local_client(arguments.workers) as client
    ):
        yield {"client": client, "shards": arguments.shards}


def add_treebank_options(parser: ArgumentParser) -> None:
    """``--on-error`` of the treebanks that are read."""
    parser.add_argument(
        "--on-error", choices=("raise", "skip"), default="raise",
        help="what to do with sentences that are no trees: stop (default), or leave them out",
    )  # fmt: skip


def add_format_option(parser: ArgumentParser) -> None:
    """``--format`` of a file."""
    parser.add_argument("--format", metavar="NAME", help="format of the data; guessed from the file's name by default")


def add_row_options(parser: ArgumentParser) -> None:
    """``--target`` and ``--no-header`` of a file of rows."""
    parser.add_argument(
        "--target", metavar="WHERE",
        help="where the outputs are: name or place of a column (csv, parquet; the last one by default), an array's "
        "name (npz), a second file (npy)",
    )  # fmt: skip
    parser.add_argument("--no-header", action="store_true", help="csv: the first line is a row, not names of columns")


def add_folds_option(parser: ArgumentParser) -> None:
    """``--folds`` of a file of sequences."""
    parser.add_argument("--folds", type=_folds, metavar="N[-M][,...]", help="only these folds of the OCR data set")


def _folds(text):
    folds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        folds += range(int(first), int(last or first) + 1)
    return folds


def refuse_unread(arguments: Namespace, model: object, *names: str) -> None:
    """Raise an InputError if one of these options was given, which a model of this kind does not read."""
    for name in names:
        if getattr(arguments, name) not in (None, False):
            option = "--" + name.replace("_", "-")
            raise InputError(
                f"{option} does not go with a {type(model).__name__}, which does not read it: leave it out."
            )


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


def write_json(path: str | None, metrics: dict[str, Any]) -> None:
    """Write metrics to a JSON file, if one is asked for; the previous file stays until the new one is whole."""
    if path is not None:
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
