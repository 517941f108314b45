"""``omkl train classifier``: train a classifier on a file of rows and save it."""

from argparse import Namespace
from typing import Any

from omkl import estimators
from omkl.cli.rows import outputs_of
from omkl.cli.train_rows import add_options, report, train


def add_parser(kinds: Any) -> None:
    """Add this kind of model."""
    parser = kinds.add_parser(
        "classifier",
        help="a classifier: one label for a row",
        description="Train a classifier on rows of numbers, or of numbers and strings. Formats: svmlight, CSV, "
        "Parquet, npz and npy; plain or compressed.",
    )
    add_options(parser, losses=("hinge", "crf", "perceptron"))
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Train and save a classifier."""
    classifier, metrics = train(estimators.OnlineMKLClassifier, arguments)
    metrics["labels"] = len(classifier.classes_)
    line = None
    if arguments.dev:
        gold, predicted = outputs_of(classifier, arguments.dev, arguments)
        metrics["dev_accuracy"] = float((gold == predicted).mean())
        line = f"Accuracy on {arguments.dev}: {metrics['dev_accuracy']:.2%}"
    report(arguments, classifier, metrics, line)
