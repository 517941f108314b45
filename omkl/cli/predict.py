"""``omkl predict``: label the sequences of a file, or parse its sentences, with a saved model."""

import json
import time

from tqdm import tqdm

from omkl._files import replacing
from omkl.cli.common import add_input_options, add_output_options, write_json
from omkl.data import iter_treebank, read_sequences, treebank_writer
from omkl.estimators import DependencyParser, load


def add_parser(subparsers):
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "predict",
        help="label the sequences of a file, or parse its sentences",
        description="Label the sequences of a file: one label a line, an empty line between sequences; or JSON lines, "
        "if the output's name ends in .jsonl. A parser writes the treebank with new heads and relations.",
    )
    parser.add_argument("model", help="a saved model")
    parser.add_argument("input", help="file of sequences; labels in it are not looked at")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="file to write the labels to")
    add_input_options(parser)
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments):
    """Predict and write labels, or trees."""
    model = load(arguments.model)
    (_parse if isinstance(model, DependencyParser) else _label)(model, arguments)


def _parse(parser, arguments):
    """Parse a treebank block by block; everything but heads and relations is written as it was read."""
    started = time.perf_counter()
    n_words = n_sentences = 0
    bar = tqdm(unit=" sentences", delay=1, leave=False, disable=True if arguments.quiet else None)
    with treebank_writer(arguments.output) as writer, bar:
        for block in iter_treebank(arguments.input, trees=False):
            parsed = parser.parse(block)
            relations = (parsed.deprels, parsed.strings["deprels"]) if parser.labeled else None
            writer.write(block, parsed.heads, relations)
            n_words, n_sentences = n_words + block.n_words, n_sentences + len(block)
            bar.update(len(block))
    seconds = time.perf_counter() - started
    if not arguments.quiet:
        print(f"Parsed {n_words} words of {n_sentences} sentences, {n_words / seconds:.0f} words a second: "
              f"{arguments.output}")  # fmt: skip
    metrics = {"sentences": n_sentences, "tokens": n_words, "seconds": seconds, "output": arguments.output}
    write_json(arguments.json, metrics)


def _label(labeler, arguments):
    X, _ = read_sequences(arguments.input, arguments.format, arguments.folds)
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    with replacing(arguments.output) as file:
        for labels in predicted:
            if arguments.output.endswith(".jsonl"):
                file.write(json.dumps({"y": labels}, ensure_ascii=False) + "\n")
            else:
                file.write("".join(f"{label}\n" for label in labels) + "\n")
    metrics = {"sequences": len(X), "tokens": sum(map(len, X)), "output": arguments.output}
    if not arguments.quiet:
        print(f"Labelled {metrics['tokens']} tokens of {len(X)} sequences: {arguments.output}")
    write_json(arguments.json, metrics)
