"""``omkl evaluate``: compare a saved model's labels with those of a file."""

from collections import Counter

import numpy as np

from omkl.cli.common import add_input_options, add_output_options, add_treebank_options, table, write_json
from omkl.cli.train_parser import attachment_lines
from omkl.data import read_sequences, read_treebank
from omkl.estimators import DependencyParser, load
from omkl.exceptions import DataFileError


def add_parser(subparsers):
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "evaluate",
        help="accuracy of a model on labelled sequences or trees",
        description="Accuracy of a model on labelled sequences, and the mistakes it makes most; "
        "attachment scores of a parser.",
    )
    parser.add_argument("model", help="a saved model")
    parser.add_argument("gold", help="file of labelled sequences")
    parser.add_argument(
        "--mistakes", type=int, default=8, metavar="N", help="list the N commonest confusions (default 8)"
    )
    add_input_options(parser)
    add_treebank_options(parser)
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments):
    """Evaluate a model."""
    model = load(arguments.model)
    (_trees if isinstance(model, DependencyParser) else _labels)(model, arguments)


def _trees(parser, arguments):
    gold = read_treebank(arguments.gold, single_root=parser.single_root, on_error=arguments.on_error)
    metrics = {"all": parser.evaluate(gold)}
    for name, rule in (("without_PUNCT", "upos"), ("without_punctuation_characters", "form")):
        metrics[name] = parser.evaluate(gold, ignore=rule)
    if not arguments.quiet:
        print("\n".join(attachment_lines(metrics, arguments.gold)))
    write_json(arguments.json, metrics)


def _labels(labeler, arguments):
    X, y = read_sequences(arguments.gold, arguments.format, arguments.folds)
    if y is None:
        raise DataFileError(f'{arguments.gold} holds no labels to compare with: give every line a "y".')
    accuracy = labeler.score(X, y)
    predicted = labeler.predict(X)
    whole = float(np.mean([list(p) == list(g) for p, g in zip(predicted, y)]))
    confusions = Counter(
        (gold, label) for p, g in zip(predicted, y) for gold, label in zip(g, p.tolist()) if gold != label
    )
    metrics = {
        "sequences": len(X),
        "tokens": sum(map(len, X)),
        "accuracy": accuracy,
        "sequence_accuracy": whole,
        "confusions": [[gold, label, n] for (gold, label), n in confusions.most_common(arguments.mistakes)],
    }
    if not arguments.quiet:
        print(f"Token accuracy {accuracy:.2%}, whole sequences {whole:.2%} "
              f"({metrics['tokens']} tokens, {len(X)} sequences)")  # fmt: skip
        if metrics["confusions"]:
            print("\n".join(table(metrics["confusions"], ("gold", "predicted", "times"))))
    write_json(arguments.json, metrics)
