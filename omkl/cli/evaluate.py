"""``omkl evaluate``: compare what a saved model predicts with what a file holds."""

from argparse import Namespace
from collections import Counter
from statistics import mean
from typing import Any

from omkl import data, estimators
from omkl.cli import rows
from omkl.cli.common import (
    add_folds_option,
    add_format_option,
    add_output_options,
    add_row_options,
    add_treebank_options,
    refuse_unread,
    table,
    write_json,
)
from omkl.cli.train_parser import attachment_lines
from omkl.exceptions import DataFileError


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser(
        "evaluate",
        help="accuracy of a model on labelled sequences, trees or rows",
        description="Accuracy of a model on labelled sequences or rows, and the mistakes it makes most; "
        "attachment scores of a parser; R^2 and errors of a regressor.",
    )
    parser.add_argument("model", help="a saved model")
    parser.add_argument("gold", help="file of labelled sequences, trees or rows")
    parser.add_argument(
        "--mistakes", type=int, default=8, metavar="N", help="list the N commonest confusions (default 8)"
    )
    add_format_option(parser)
    add_folds_option(parser)
    add_row_options(parser)
    add_treebank_options(parser)
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Evaluate a model."""
    model = estimators.load(arguments.model)
    if isinstance(model, estimators.DependencyParser):
        refuse_unread(arguments, model, "format", "folds", "target", "no_header")
        _trees(model, arguments)
    elif isinstance(model, estimators.SequenceLabeler):
        refuse_unread(arguments, model, "target", "no_header")
        _labels(model, arguments)
    else:
        refuse_unread(arguments, model, "folds")
        _rows(model, arguments)


def _trees(parser, arguments):
    gold = data.read_treebank(arguments.gold, single_root=parser.single_root, on_error=arguments.on_error)
    metrics = {"all": parser.evaluate(gold)}
    for name, rule in (("without_PUNCT", "upos"), ("without_punctuation_characters", "form")):
        metrics[name] = parser.evaluate(gold, ignore=rule)
    if not arguments.quiet:
        print("\n".join(attachment_lines(metrics, arguments.gold)))
    write_json(arguments.json, metrics)


def _labels(labeler, arguments):
    X, y = data.read_sequences(arguments.gold, arguments.format, arguments.folds)
    if y is None:
        raise DataFileError(f'{arguments.gold} holds no labels to compare with: give every line a "y".')
    accuracy = labeler.score(X, y)
    predicted = labeler.predict(X)
    whole = mean(list(p) == list(g) for p, g in zip(predicted, y))
    pairs = ((gold, label) for p, g in zip(predicted, y) for gold, label in zip(g, p.tolist()))
    metrics = {
        "sequences": len(X),
        "tokens": sum(map(len, X)),
        "accuracy": accuracy,
        "sequence_accuracy": whole,
        "confusions": _confusions(pairs, arguments.mistakes),
    }
    if not arguments.quiet:
        print(f"Token accuracy {accuracy:.2%}, whole sequences {whole:.2%} "
              f"({metrics['tokens']} tokens, {len(X)} sequences)")  # fmt: skip
        _print_confusions(metrics)
    write_json(arguments.json, metrics)


def _rows(model, arguments):
    gold, predicted = rows.outputs_of(model, arguments.gold, arguments)
    metrics: dict[str, Any] = {"examples": len(gold)}
    if hasattr(model, "classes_"):
        metrics["accuracy"] = float((gold == predicted).mean())
        metrics["confusions"] = _confusions(zip(gold.tolist(), predicted.tolist()), arguments.mistakes)
        line = "Accuracy {accuracy:.2%} ({examples} examples)"
    else:
        metrics |= rows.regression_scores(gold, predicted)
        line = "R^2 {r2:.4f}, RMSE {rmse:.4g}, mean absolute error {mae:.4g} ({examples} examples)"
    if not arguments.quiet:
        print(line.format(**metrics))
        _print_confusions(metrics)
    write_json(arguments.json, metrics)


def _confusions(pairs, n):
    """The n commonest mistakes among pairs of gold and predicted labels: ``[gold, predicted, times]``."""
    counts = Counter((gold, label) for gold, label in pairs if gold != label)
    return [[gold, label, times] for (gold, label), times in counts.most_common(n)]


def _print_confusions(metrics):
    if metrics.get("confusions"):
        print("\n".join(table(metrics["confusions"], ("gold", "predicted", "times"))))
