"""``omkl train labeler``, ``classifier`` and ``regressor``; those of trees are in ``train_parser``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import omkl
from omkl import data
from omkl.cli import options as opt
from omkl.cli.console import Record, bar_chart, entity_line
from omkl.cli.files import Columns, calibrate, labelled_sequences, naming, open_rows, outputs_of, row_scores
from omkl.cli.options import Options, option
from omkl.cli.training import (
    BUDGET,
    KERNELS,
    Interruption,
    choose_strength,
    fit_options,
    last_lines,
    save_trained,
    shuffled,
    training_facts,
    training_options,
    training_parameters,
)
from omkl.exceptions import DataFileError

if TYPE_CHECKING:
    from omkl.reports.model import Model


@opt.group(
    "train",
    """
    omkl train labeler train.crfsuite -o labeler.npz --dev dev.crfsuite
    omkl train parser train.conllu -o parser.npz --dev dev.conllu --likely 0.99
    omkl train annotator train.conllu -o annotator.npz
    omkl train classifier train.csv --target species -o classifier.npz
    omkl train labeler --help                           # all options of one kind of model
    """,
    {
        "annotator": ("train_parser:annotator", "Tags, morphology, lemmas and trees for plain words."),
        "labeler": ("train:labeler", "A label for every token of a sequence."),
        "parser": ("train_parser:parser", "Dependency trees; learns which feature templates it needs."),
        "classifier": ("train:classifier", "A label for a row."),
        "regressor": ("train:regressor", "A number for a row."),
    },
)
def train() -> None:
    """Train a model on a file, and save it. Ctrl-C ends training, and saves what is learned."""


@opt.command(
    "labeler",
    """
    omkl train labeler train.crfsuite -o labeler.npz --dev dev.crfsuite --allowed-transitions BIO
    omkl train labeler train.conllu -o tagger.npz --epochs 5 --json metrics.json
    omkl train labeler vectors.jsonl -o labeler.npz --kernels linear gaussian:sigma2=5 --budget 1000
    omkl train labeler large.jsonl -o labeler.npz --stream --checkpoint state --resume
    """,
    *(opt.FORMAT, opt.ON_ERROR, KERNELS, BUDGET),
    option(
        "--transitions",
        type=opt.CHOICE(["free", "regularized", "none"]),
        default="free",
        help="Scores of neighbouring labels: not regularized, one more group, or none.",
    ),
    option("--allowed-transitions", metavar="SCHEME", help="Predict chunks that this scheme allows, as BIO or BIOES."),
    option("--order", type=int, default=1, metavar="N", help="1, or 2 to score trigrams of labels as well."),
    training_options(epochs=20),
    opt.METRICS,
)
def labeler(options: Options) -> None:
    """Train a sequence labeler on the file TRAIN.

    Formats: CoNLL-U (part-of-speech tagging), CRFsuite's attribute lists, columns (CoNLL 2000 to 2003), JSON lines, the
    OCR data set; plain or compressed.
    """
    dev = labelled_sequences(options.dev, options) if options.dev else None
    if dev is not None and any(label is None for labels in dev[1] for label in labels):
        raise DataFileError(f"{options.dev} has tokens without a label: accuracy needs all of them.")
    interruption = Interruption()
    model = omkl.SequenceLabeler(
        list(options.kernels) or None,
        transitions=None if options.transitions == "none" else options.transitions,
        allowed_transitions=options.allowed_transitions,
        order=options.order,
        budget=options.budget,
        **training_parameters(options, interruption),
    )
    with fit_options(options) as settings:
        settings["validation"] = dev if options.early_stopping else None
        fit = _fit_sequence_stream if options.stream else _fit_sequences
        learned, chosen = fit(model, options, settings, dev)
    uncalibrated = [] if dev is None or options.loss == "crf" else calibrate(model, options.dev, *dev)
    save_trained(model, options)
    metrics = {**learned, "labels": len(model.classes_), **training_facts(model, interruption)}
    sizes = f"{learned['sequences']} sequences, {learned['tokens']} tokens, {len(model.classes_)} labels"
    lines = [*chosen, f"Trained on {sizes}: {_progress(model)} a sequence.", *bar_chart(model.kernel_weights_)]
    if dev is not None:
        found = metrics["dev"] = model.evaluate(*dev)
        lines.append(f"Token accuracy on {options.dev}: {found['accuracy']:.2%}")
        lines += [] if found["entities"] is None else [entity_line(found)]
    options.report([*lines, *uncalibrated, *last_lines(model, interruption, options)], metrics)


def _progress(model: Model) -> str:
    return f"{model.n_iter_} epochs in {model.fit_seconds_:.1f} s, last loss {model.history_[-1]['loss']:.4g}"


def _fit_sequences(
    model: omkl.SequenceLabeler, options: Options, settings: Record, dev: tuple | None
) -> tuple[Record, list[str]]:
    X, y = labelled_sequences(options.train, options)
    lines, metrics = choose_strength(model, X, y, dev, options)
    model.fit(X, y, **settings)
    return {"sequences": len(X), "tokens": sum(map(len, X)), **metrics}, lines


def _fit_sequence_stream(
    model: omkl.SequenceLabeler, options: Options, settings: Record, dev: tuple | None
) -> tuple[Record, list[str]]:
    """Train block by block, with the labels that a pass over the file finds."""
    stream = data.stream_sequences(options.train, options.format, on_error=options.on_error)
    labels, n_sequences, n_tokens = {}, 0, 0
    for _, y in stream.blocks():
        labels.update(dict.fromkeys(label for sequence in y or () for label in sequence if label is not None))
        n_sequences, n_tokens = n_sequences + len(y or ()), n_tokens + sum(map(len, y or ()))
    if not labels:
        raise DataFileError(f"{options.train} holds no labels.")
    model.set_params(n_examples=n_sequences)
    model.fit(shuffled(stream, options), classes=list(labels), **settings)
    return {"sequences": n_sequences, "tokens": n_tokens}, []


# ---- rows --------------------------------------------------------------------------------------------------------

ROW_OPTIONS = (opt.FORMAT, *opt.TABLE, opt.ON_ERROR, KERNELS, BUDGET, opt.METRICS)
ROW_EXAMPLES = """
    omkl train KIND train.csv --target outcome -o model.npz --dev dev.csv
    omkl train KIND train.svm -o model.npz --kernels linear gaussian:sigma2=5 --epochs 5
    omkl train KIND 'part-*.parquet' --target outcome -o model.npz --stream --budget 1000
"""
ROW_LOSSES = ("squared", "huber:delta=1", "epsilon-insensitive:epsilon=0.1")


@opt.command("classifier", ROW_EXAMPLES.replace("KIND", "classifier"), training_options(20), *ROW_OPTIONS)
def classifier(options: Options) -> None:
    """Train a classifier on the rows of the file TRAIN, of numbers, or of numbers and strings.

    Formats: svmlight, CSV, Parquet and npz; plain or compressed.
    """
    _train_rows(omkl.OnlineMKLClassifier, options)


@opt.command("regressor", ROW_EXAMPLES.replace("KIND", "regressor"), training_options(20, ROW_LOSSES), *ROW_OPTIONS)
def regressor(options: Options) -> None:
    """Train a regressor on the rows of the file TRAIN, of numbers, or of numbers and strings.

    Formats: svmlight, CSV, Parquet and npz; plain or compressed.
    """
    _train_rows(omkl.OnlineMKLRegressor, options)


def _train_rows(cls: type[omkl.OnlineMKLClassifier | omkl.OnlineMKLRegressor], options: Options) -> None:
    """Train and save a classifier or a regressor."""
    interruption = Interruption()
    kernels, parameters = list(options.kernels) or None, training_parameters(options, interruption)
    model = cls(kernels, budget=options.budget, **parameters)
    stream = open_rows(options.train, options)
    lines: list[str] = []
    chosen: Record = {}
    with fit_options(options) as settings, naming(options.train):
        if options.stream:
            n_examples = _fit_row_stream(model, stream, options, settings)
        else:
            whole = stream.read()
            dev = None if options.dev is None else _read_dev(whole, options)
            compared = None if dev is None else (dev[0].X, dev[1])
            lines, chosen = choose_strength(model, whole.X, whole.y, compared, options)
            settings["validation"] = dev if options.early_stopping else None
            model.fit(whole, whole.y, **settings)  # with the names of the columns
            n_examples = whole.n_examples
    metrics = {**chosen, "examples": n_examples, **training_facts(model, interruption)}
    save_trained(model, options)
    lines += [f"Trained on {n_examples} examples: {_progress(model)} an example.", *bar_chart(model.kernel_weights_)]
    if isinstance(model, omkl.OnlineMKLClassifier):
        metrics["labels"] = len(model.classes_)
    if options.dev:
        found = metrics["dev"] = row_scores(model, *outputs_of(model, options.dev, options))
        scores = "accuracy {accuracy:.2%}" if "accuracy" in found else "R^2 {r2:.4f}, RMSE {rmse:.4g}"
        lines.append(f"On {options.dev}: {scores.format(**found)}")
    options.report([*lines, *last_lines(model, interruption, options)], metrics)


def _read_dev(block: data.Block, options: Options) -> tuple[Any, Any]:
    """The rows of ``--dev`` and their outputs, with the columns of a block of the training data."""
    whole = open_rows(options.dev, options, Columns.of_block(block)).read()
    return whole, whole.y


def _fit_row_stream(model: Model, stream: data.Stream, options: Options, settings: dict[str, Any]) -> int:
    """Train block by block, on the number of examples and the classes that a pass over the file finds."""
    n_examples = 0
    classes: set = set()
    learns_classes = isinstance(model, omkl.OnlineMKLClassifier)
    for block in stream.blocks():
        n_examples += block.n_examples
        classes.update(block.y.tolist() if learns_classes else ())
    model.set_params(n_examples=n_examples or None)
    if options.early_stopping and options.dev:
        settings = {**settings, "validation": _read_dev(block, options)}
    declared = {"classes": sorted(classes)} if learns_classes else {}
    model.fit(shuffled(stream, options), **declared, **settings)
    return n_examples
