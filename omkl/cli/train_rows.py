"""What ``omkl train classifier`` and ``omkl train regressor`` share."""

import time
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

from omkl import estimators
from omkl.cli.common import (
    add_budget_option,
    add_checkpoint_options,
    add_cluster_options,
    add_format_option,
    add_output_options,
    add_row_options,
    add_stream_option,
    add_training_options,
    bar_chart,
    checkpointing,
    shuffled,
    training_cluster,
    training_parameters,
    write_json,
)
from omkl.cli.rows import naming, open_rows


def add_options(parser: ArgumentParser, losses: Sequence[str]) -> None:
    """The options of both."""
    add_format_option(parser)
    add_row_options(parser)
    parser.add_argument(
        "--kernels", nargs="+", metavar="K",
        help="kernels such as linear, quadratic, gaussian:sigma2=5, linear:on=0:10 (default: linear, quadratic and "
        "gaussian for dense rows, linear for sparse ones)",
    )  # fmt: skip
    add_training_options(parser, epochs=20, losses=losses)
    add_budget_option(parser)
    add_stream_option(parser)
    parser.add_argument("--early-stopping", action="store_true", help="stop when a held-out tenth gets no better")
    add_checkpoint_options(parser)
    add_cluster_options(parser)
    add_output_options(parser)


def train(estimator_class: type, arguments: Namespace) -> tuple[Any, dict[str, Any]]:
    """Train an estimator on the file, and save it; returns it with the metrics to report."""
    estimator = estimator_class(
        arguments.kernels,
        early_stopping=arguments.early_stopping,
        budget=arguments.budget,
        **training_parameters(arguments),
    )
    stream = open_rows(arguments.train, arguments)
    started = time.perf_counter()
    with training_cluster(arguments) as cluster, naming(arguments.train):
        options = {**checkpointing(arguments), **cluster}
        n_examples = (_fit_stream if arguments.stream else _fit_whole)(estimator, stream, arguments, options)
    seconds = time.perf_counter() - started
    estimator.save(arguments.output)
    metrics = {
        "examples": n_examples,
        "epochs": estimator.n_iter_,
        "seconds": seconds,
        "memory": estimator.memory_usage(),
        "kernel_weights": estimator.kernel_weights_,
        "history": estimator.history_,
    }
    return estimator, metrics


def _fit_whole(estimator, stream, arguments, options):
    whole = stream.read()
    estimator.fit(whole, whole.y, **options)  # with the names of the columns
    return whole.n_examples


def _fit_stream(estimator, stream, arguments, options):
    """Train block by block, on the number of examples and the classes that a pass over the file finds."""
    n_examples = 0
    classes: set = set()
    learns_classes = isinstance(estimator, estimators.OnlineMKLClassifier)
    for block in stream.blocks():
        n_examples += block.n_examples
        classes.update(block.y.tolist() if learns_classes else ())
    estimator.set_params(n_examples=n_examples or None)
    declared = {"classes": sorted(classes)} if learns_classes else {}
    estimator.fit(shuffled(stream, arguments), **declared, **options)
    return n_examples


def report(arguments: Namespace, estimator: Any, metrics: dict[str, Any], dev_line: str | None) -> None:
    """Print what training came to, and write the metrics."""
    if not arguments.quiet:
        print(f"Trained on {metrics['examples']} examples: {metrics['epochs']} epochs in {metrics['seconds']:.1f} s, "
              f"loss {estimator.history_[-1]['loss']:.4g} an example at last.")  # fmt: skip
        print("\n".join(bar_chart(metrics["kernel_weights"])))
        if dev_line:
            print(dev_line)
        print(f"Saved to {arguments.output}.")
    write_json(arguments.json, metrics)
