"""``omkl train``: train an estimator on a file and save it; a kind of model a file."""

from typing import Any

from omkl.cli import train_classifier, train_labeler, train_parser, train_regressor

KINDS = (train_labeler, train_parser, train_classifier, train_regressor)


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = subparsers.add_parser("train", help="train a model on a file", description="Train a model on a file.")
    kinds = parser.add_subparsers(title="models", metavar="MODEL", required=True)
    for kind in KINDS:
        kind.add_parser(kinds)
