"""``omkl train classifier`` and ``omkl train regressor``: train on a file of rows and save the model."""

from argparse import Namespace
from functools import partial
from typing import Any

from omkl import estimators
from omkl.cli.choosing import choose_strength
from omkl.cli.common import (
    ROWS,
    add_command,
    add_options,
    add_training_options,
    bar_chart,
    fit_options,
    listeners,
    report,
    shuffled,
    training_parameters,
)  # fmt: skip
from omkl.cli.interrupts import Interruption
from omkl.cli.outputs import save_model
from omkl.cli.rows import naming, open_rows, outputs_of, scores

#: For each kind of model, what it does, and its losses.
KINDS = {
    "classifier": ("one label for a row", ("hinge", "crf", "softmax-margin", "perceptron")),
    "regressor": ("one number for a row", ("squared", "huber:delta=1", "epsilon-insensitive:epsilon=0.1")),
}
EXAMPLES = """
    omkl train {kind} train.csv --target outcome -o model.npz --dev dev.csv
    omkl train {kind} train.svm -o model.npz --kernels linear gaussian:sigma2=5 --epochs 5
    omkl train {kind} 'part-*.parquet' --target outcome -o model.npz --stream --budget 1000
"""


def add_parser(kinds: Any) -> None:
    """Add these kinds of models."""
    for kind, (what, losses) in KINDS.items():
        parser = add_command(
            kinds, kind, summary=f"a {kind}: {what}",
            description=f"Train a {kind} on rows of numbers, or of numbers and strings. Formats: svmlight, CSV, "
            "Parquet, npz and npy; plain or compressed.",
            examples=EXAMPLES.format(kind=kind),
        )  # fmt: skip
        add_options(parser, "--format", *ROWS, "--kernels")
        add_training_options(parser, epochs=20, losses=losses)
        add_options(parser, "--budget", "--on-error")
        parser.set_defaults(run=partial(run, is_classifier=kind == "classifier"))


def run(arguments: Namespace, is_classifier: bool) -> None:
    """Train and save a classifier or a regressor."""
    cls = estimators.OnlineMKLClassifier if is_classifier else estimators.OnlineMKLRegressor
    interruption = Interruption()
    model = cls(
        arguments.kernels, budget=arguments.budget,
        callbacks=listeners(arguments, interruption), **training_parameters(arguments),
    )  # fmt: skip
    stream = open_rows(arguments.train, arguments)
    chosen: tuple[list[str], dict[str, Any]] = ([], {})
    with fit_options(arguments) as options, naming(arguments.train):
        if arguments.stream:
            n_examples = _fit_stream(model, stream, arguments, options)
        else:
            whole = stream.read()
            dev = None if arguments.dev is None else _dev(whole, arguments)
            chosen = choose_strength(model, whole, whole.y, dev, arguments)
            options["validation"] = dev if arguments.early_stopping else None
            model.fit(whole, whole.y, **options)  # with the names of the columns
            n_examples = whole.n_examples
    metrics = {
        **chosen[1],
        "examples": n_examples,
        "epochs": model.n_iter_,
        "seconds": model.fit_seconds_,
        "memory": model.memory_usage(),
        "kernel_weights": model.kernel_weights_,
        "interrupted": interruption.happened,
        "history": model.history_,
    }
    save_model(model, arguments)
    lines = [
        *chosen[0],
        f"Trained on {n_examples} examples: {model.n_iter_} epochs in {metrics['seconds']:.1f} s, "
        f"loss {model.history_[-1]['loss']:.4g} an example at last.",
        *bar_chart(model.kernel_weights_),
    ]
    if is_classifier:
        metrics["labels"] = len(model.classes_)
    if arguments.dev:
        found = scores(model, *outputs_of(model, arguments.dev, arguments))
        metrics["dev"] = found
        if is_classifier:
            lines.append(f"Accuracy on {arguments.dev}: {found['accuracy']:.2%}")
        else:
            lines.append(f"On {arguments.dev}: R^2 {found['r2']:.4f}, RMSE {found['rmse']:.4g}")
    lines += interruption.lines(model, arguments.checkpoint)
    report(arguments, [*lines, f"Saved to {arguments.output}."], metrics)


def _dev(block, arguments):
    """The rows of ``--dev`` and their outputs, with the columns of a block of the training data."""
    rows = block.X if isinstance(block.X, list) else []
    alike = Namespace(
        n_features_in_=getattr(block.X, "shape", (0, None))[1], feature_names_in_=block.feature_names,
        text_columns=list(dict.fromkeys(key for row in rows for key, value in row.items() if isinstance(value, str))),
    )  # fmt: skip
    whole = open_rows(arguments.dev, arguments, alike).read()
    return whole, whole.y


def _fit_stream(estimator, stream, arguments, options):
    """Train block by block, on the number of examples and the classes that a pass over the file finds."""
    n_examples = 0
    classes: set = set()
    learns_classes = isinstance(estimator, estimators.OnlineMKLClassifier)
    for block in stream.blocks():
        n_examples += block.n_examples
        classes.update(block.y.tolist() if learns_classes else ())
    estimator.set_params(n_examples=n_examples or None)
    if arguments.early_stopping and arguments.dev:
        options = {**options, "validation": _dev(block, arguments)}
    declared = {"classes": sorted(classes)} if learns_classes else {}
    estimator.fit(shuffled(stream, arguments), **declared, **options)
    return n_examples
