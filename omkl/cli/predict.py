"""``omkl predict``: label the sequences of a file, parse its sentences, or predict for its rows, with a saved model."""

import json
import time
from argparse import Namespace
from typing import Any

from tqdm import tqdm

from omkl import data
from omkl._files import replacing
from omkl.cli import rows
from omkl.cli.common import OUTPUT, ROWS, add_options, load_model, report


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="label the sequences of a file, parse its sentences, or predict for its rows",
        description="Label the sequences of a file: one label a line, an empty line between sequences; or JSON lines, "
        "if the output's name ends in .jsonl. A parser writes the treebank with new heads and relations, a classifier "
        "or regressor one prediction a line.",
    )
    parser.add_argument("model", help="a saved model")
    parser.add_argument("input", help="file of sequences or rows; outputs in it are not looked at")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="file to write the predictions to")
    add_options(parser, "--format", "--folds", *ROWS, "--jobs", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Predict and write labels, or trees."""
    model, kind = load_model(arguments)
    {"trees": _parse, "sequences": _label, "rows": _predict}[kind](model, arguments)


def _parse(parser, arguments):
    """Parse a treebank block by block; everything but heads and relations is written as it was read."""
    started = time.perf_counter()
    n_words = n_sentences = 0
    bar = tqdm(unit=" sentences", delay=1, leave=False, disable=True if arguments.quiet else None)
    with data.treebank_writer(arguments.output) as writer, bar:
        for block in data.iter_treebank(arguments.input, trees=False):
            parsed = parser.parse(block)
            relations = (parsed.deprels, parsed.strings["deprels"]) if parser.labeled else None
            writer.write(block, parsed.heads, relations)
            n_words, n_sentences = n_words + block.n_words, n_sentences + len(block)
            bar.update(len(block))
    seconds = time.perf_counter() - started
    line = f"Parsed {n_words} words of {n_sentences} sentences, {n_words / seconds:.0f} words a second"
    metrics = {"sentences": n_sentences, "tokens": n_words, "seconds": seconds, "output": arguments.output}
    report(arguments, [f"{line}: {arguments.output}"], metrics)


def _label(labeler, arguments):
    X, _ = data.read_sequences(arguments.input, arguments.format, arguments.folds)
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    with replacing(arguments.output) as file:
        for labels in predicted:
            if arguments.output.endswith(".jsonl"):
                file.write(json.dumps({"y": labels}, ensure_ascii=False) + "\n")
            else:
                file.write("".join(f"{label}\n" for label in labels) + "\n")
    metrics = {"sequences": len(X), "tokens": sum(map(len, X)), "output": arguments.output}
    report(arguments, [f"Labelled {metrics['tokens']} tokens of {len(X)} sequences: {arguments.output}"], metrics)


def _predict(model, arguments):
    """A line for each row, block by block."""
    n_rows = 0
    with replacing(arguments.output) as file, rows.naming(arguments.input):
        for block in rows.open_rows(arguments.input, arguments, model, labelled=False).blocks():
            for output in model.predict(block.X).tolist():
                file.write(f"{json.dumps({'y': output}) if arguments.output.endswith('.jsonl') else output}\n")
            n_rows += block.n_examples
    metrics = {"examples": n_rows, "output": arguments.output}
    report(arguments, [f"Predicted {n_rows} rows: {arguments.output}"], metrics)
