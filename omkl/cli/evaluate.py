"""``omkl evaluate``: compare what a saved model predicts with what a file holds."""

from argparse import Namespace
from collections import Counter
from statistics import mean
from typing import Any

from omkl import data
from omkl.cli import rows
from omkl.cli.common import OUTPUT, ROWS, add_options, labelled_sequences, load_model, report, table
from omkl.cli.train_parser import attachment_lines


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
    add_options(parser, "--format", "--folds", *ROWS, "--on-error", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Evaluate a model."""
    model, kind = load_model(arguments)
    lines, metrics = {"trees": _trees, "sequences": _labels, "rows": _rows}[kind](model, arguments)
    if metrics.get("confusions"):
        lines += table(metrics["confusions"], ("gold", "predicted", "times"))
    report(arguments, lines, metrics)


def _trees(parser, arguments):
    gold = data.read_treebank(arguments.gold, single_root=parser.single_root, on_error=arguments.on_error)
    rules = {"all": {}, "without_PUNCT": {"ignore": "upos"}, "without_punctuation_characters": {"ignore": "form"}}
    metrics = {name: parser.evaluate(gold, **rule) for name, rule in rules.items()}
    return attachment_lines(metrics, arguments.gold), metrics


def _labels(labeler, arguments):
    X, y = labelled_sequences(arguments.gold, arguments)
    predicted = labeler.predict(X)
    pairs = ((gold, label) for p, g in zip(predicted, y) for gold, label in zip(g, p.tolist()))
    metrics = {
        "sequences": len(X),
        "tokens": sum(map(len, X)),
        "accuracy": labeler.score(X, y),
        "sequence_accuracy": mean(list(p) == list(g) for p, g in zip(predicted, y)),
        "confusions": _confusions(pairs, arguments.mistakes),
    }
    line = "Token accuracy {accuracy:.2%}, whole sequences {sequence_accuracy:.2%} "
    line += "({tokens} tokens, {sequences} sequences)"
    return [line.format(**metrics)], metrics


def _rows(model, arguments):
    gold, predicted = rows.outputs_of(model, arguments.gold, arguments)
    metrics: dict[str, Any] = {"examples": len(gold), **rows.scores(model, gold, predicted)}
    if "accuracy" not in metrics:
        line = "R^2 {r2:.4f}, RMSE {rmse:.4g}, mean absolute error {mae:.4g} ({examples} examples)"
    else:
        line = "Accuracy {accuracy:.2%} ({examples} examples)"
        metrics["confusions"] = _confusions(zip(gold.tolist(), predicted.tolist()), arguments.mistakes)
    return [line.format(**metrics)], metrics


def _confusions(pairs, n):
    """The n commonest mistakes among pairs of gold and predicted labels: ``[gold, predicted, times]``."""
    counts = Counter((gold, label) for gold, label in pairs if gold != label)
    return [[gold, label, times] for (gold, label), times in counts.most_common(n)]
