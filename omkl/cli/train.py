"""``omkl train``: train an estimator on a file and save it."""

from typing import Any

from omkl.cli import train_annotator, train_labeler, train_parser, train_rows
from omkl.cli.common import add_command


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers, "train", summary="train a model on a file", description="Train a model on a file.",
        examples="""
            omkl train labeler train.crfsuite -o labeler.npz --dev dev.crfsuite
            omkl train parser train.conllu -o parser.npz --dev dev.conllu --likely 0.99
            omkl train annotator train.conllu -o annotator.npz
            omkl train classifier train.csv --target species -o classifier.npz
            omkl train labeler --help                           # all options of one kind of model
        """,
    )  # fmt: skip
    kinds = parser.add_subparsers(title="models", metavar="MODEL", required=True)
    for models in (train_annotator, train_labeler, train_parser, train_rows):
        models.add_parser(kinds)
