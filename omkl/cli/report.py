"""``omkl report``: a page about a saved model, and how good it is on data."""

from argparse import Namespace
from contextlib import nullcontext
from itertools import islice
from typing import Any

import numpy as np

from omkl import data, reports
from omkl._files import replacing
from omkl.cli.common import OUTPUT, ROWS, add_command, add_options, check_about_data, count, load_model, report
from omkl.cli.inputs import labelled_sequences
from omkl.cli.rows import naming, open_rows
from omkl.exceptions import InputError

#: Sequences, sentences or rows of the data that a page is about at most, where nothing else is asked for.
EXAMPLES = 10_000
#: Examples that a page shows.
WORST = 10


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "report",
        summary="a page about a model, and how good it is on data",
        description="One HTML page about a saved model that needs nothing else, no network either: what the model is "
        "and has learned; with a file of data that it has not learned from, how good it is there by label, relation "
        "and length, whether its probabilities can be believed, which examples it gets most wrong, and why; how it was "
        "trained. Pictures need omkl[plot].",
        examples="""
            omkl report labeler.npz test.crfsuite -o report.html
            omkl report parser.npz test.conllu -o report.html --title "English, gold tags"
            omkl report classifier.npz test.csv --target species -o report.html
            omkl report model.npz > report.html                 # what the model says of itself
        """,
    )
    add_options(parser, "model")
    parser.add_argument(
        "data", nargs="?", help="file of labelled sequences, trees or rows to measure it on (- for standard input)"
    )
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="HTML file to write (default: standard output)"
    )
    parser.add_argument("--title", metavar="TEXT", help="heading of the page (default: the class of the model)")
    parser.add_argument(
        "--examples", type=count, metavar="N",
        help=f"measure it on the first N sequences, sentences or rows (default {EXAMPLES})",
    )  # fmt: skip
    parser.add_argument(
        "--worst", type=count, metavar="N", help=f"show the N examples it gets most wrong (default {WORST})"
    )
    add_options(parser, "--format", "--folds", *ROWS, "--on-error", "--jobs", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Write the page."""
    check_about_data(arguments)
    model, kind = load_model(arguments)
    if arguments.examples == 0:
        raise InputError("--examples must be at least 1, not 0.")
    arguments.examples = EXAMPLES if arguments.examples is None else arguments.examples
    n_worst = WORST if arguments.worst is None else arguments.worst
    X = y = None
    if arguments.data is not None:
        X, y = READERS[kind](model, arguments)
    given = {"model": arguments.model, "data": arguments.data}
    files = {name: path for name, path in given.items() if path is not None}
    with naming(arguments.data or arguments.model) if kind == "rows" else nullcontext():
        page = reports.make_report(model, X, y, title=arguments.title, files=files, n_worst=n_worst)
    if arguments.output == "-":
        print(page, end="")
    else:
        with replacing(arguments.output) as file:
            file.write(page)
    n = None if X is None else len(X) if not hasattr(X, "shape") else X.shape[0]
    metrics = {"class": type(model).__name__, "examples": n, "output": arguments.output, "bytes": len(page.encode())}
    on = "" if n is None else f" on {n} {'sentences' if kind in ('trees', 'annotations') else kind}"
    report(arguments, [f"Report on {metrics['class']}{on}: {arguments.output}"], metrics)


def _trees(model, arguments):
    single_root = getattr(model, "single_root", False)
    gold = data.read_treebank(
        arguments.data, single_root=single_root, trees=True if hasattr(model, "single_root") else "given",
        on_error=arguments.on_error, keep_text=False,
    )  # fmt: skip
    return gold[: arguments.examples], None


def _sequences(model, arguments):
    X, y = labelled_sequences(arguments.data, arguments)
    return X[: arguments.examples], y[: arguments.examples]


def _rows(model, arguments):
    """The first rows: blocks are read until there are enough."""
    blocks, n = [], 0
    with naming(arguments.data):
        for block in open_rows(arguments.data, arguments, model).blocks():
            blocks.append(block)
            n += block.n_examples
            if n >= arguments.examples:
                break
    if not blocks:
        raise InputError(f"{arguments.data} holds no rows: give at least one.")
    y = np.concatenate([block.y for block in blocks])[: arguments.examples]
    parts = [block.X for block in blocks]
    if isinstance(parts[0], list):
        return list(islice((row for part in parts for row in part), arguments.examples)), y
    if hasattr(parts[0], "tocsr"):
        from scipy.sparse import vstack

        return vstack(parts, format="csr")[: arguments.examples], y
    return np.concatenate(parts)[: arguments.examples], y


#: What reads the data for a model of each kind.
READERS = {"trees": _trees, "annotations": _trees, "sequences": _sequences, "rows": _rows}
