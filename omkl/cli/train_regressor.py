"""``omkl train regressor``: train a regressor on a file of rows and save it."""

from argparse import Namespace
from typing import Any

from omkl import estimators
from omkl.cli.rows import outputs_of, regression_scores
from omkl.cli.train_rows import add_options, report, train


def add_parser(kinds: Any) -> None:
    """Add this kind of model."""
    parser = kinds.add_parser(
        "regressor",
        help="a regressor: one number for a row",
        description="Train a regressor on rows of numbers, or of numbers and strings. Formats: svmlight, CSV, "
        "Parquet, npz and npy; plain or compressed.",
    )
    add_options(parser, losses=("squared", "huber:delta=1", "epsilon-insensitive:epsilon=0.1"))
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Train and save a regressor."""
    regressor, metrics = train(estimators.OnlineMKLRegressor, arguments)
    line = None
    if arguments.dev:
        metrics["dev"] = regression_scores(*outputs_of(regressor, arguments.dev, arguments))
        line = f"On {arguments.dev}: R^2 {metrics['dev']['r2']:.4f}, RMSE {metrics['dev']['rmse']:.4g}"
    report(arguments, regressor, metrics, line)
