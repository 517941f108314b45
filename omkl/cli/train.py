"""``omkl train``: train an estimator on a file and save it."""

from typing import Any

from omkl.cli import train_annotator, train_labeler, train_parser, train_rows


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser("train", help="train a model on a file", description="Train a model on a file.")
    kinds = parser.add_subparsers(title="models", metavar="MODEL", required=True)
    for models in (train_annotator, train_labeler, train_parser, train_rows):
        models.add_parser(kinds)
