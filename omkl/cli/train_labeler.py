"""``omkl train labeler``: train a sequence labeler on a file and save it."""

from argparse import Namespace
from typing import Any

from omkl import data, estimators
from omkl.cli.choosing import choose_strength
from omkl.cli.common import (
    add_command,
    add_options,
    add_training_options,
    bar_chart,
    calibrate,
    fit_options,
    listeners,
    report,
    shuffled,
    training_parameters,
)  # fmt: skip
from omkl.cli.evaluate import entity_line
from omkl.cli.inputs import format_of, labelled_sequences
from omkl.cli.interrupts import Interruption
from omkl.cli.outputs import save_model
from omkl.exceptions import DataFileError, InputError


def add_parser(kinds: Any) -> None:
    """Add this kind of model."""
    parser = add_command(
        kinds,
        "labeler",
        summary="a sequence labeler: a label for every token",
        description="Train a sequence labeler. Formats: CoNLL-U (part-of-speech tagging), CRFsuite's attribute lists, "
        "columns (CoNLL 2000 to 2003, CRF++), JSON lines, the OCR data set; plain or compressed.",
        examples="""
            omkl train labeler train.crfsuite -o labeler.npz --dev dev.crfsuite --allowed-transitions BIO
            omkl train labeler train.columns -o chunker.npz --template template --dev dev.columns
            omkl train labeler train.conllu -o tagger.npz --epochs 5 --json metrics.json
            omkl train labeler vectors.jsonl -o labeler.npz --kernels linear gaussian:sigma2=5 --budget 1000
            omkl train labeler large.jsonl -o labeler.npz --stream --checkpoint state --resume
        """,
    )
    add_options(parser, "--format", "--folds", "--kernels")
    add_training_options(parser, epochs=20)
    add_options(parser, "--template")
    parser.add_argument(
        "--transitions", choices=("free", "regularized", "none"), default="free",
        help="scores of neighbouring labels: not regularized (default), one more group, or none",
    )  # fmt: skip
    parser.add_argument(
        "--allowed-transitions", metavar="SCHEME", help="labels mark chunks, as BIO or BIOES, and predictions must too"
    )
    parser.add_argument("--order", type=int, choices=(1, 2), default=1, help="2 scores trigrams of labels as well")
    add_options(parser, "--budget", "--on-error")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Train and save a sequence labeler."""
    dev = labelled_sequences(arguments.dev, arguments) if arguments.dev else None
    if dev is not None and any(label is None for labels in dev[1] for label in labels):
        raise DataFileError(f"{arguments.dev} has tokens without a label: what is measured there needs all of them.")
    interruption = Interruption()
    labeler = estimators.SequenceLabeler(
        arguments.kernels, templates=arguments.template,
        transitions=None if arguments.transitions == "none" else arguments.transitions,
        allowed_transitions=arguments.allowed_transitions, order=arguments.order,
        budget=arguments.budget, callbacks=listeners(arguments, interruption),
        **training_parameters(arguments),
    )  # fmt: skip
    with fit_options(arguments) as options:
        options["validation"] = dev if arguments.early_stopping else None
        learned, chosen = (_fit_stream if arguments.stream else _fit_whole)(labeler, arguments, options, dev)
    seconds = labeler.fit_seconds_
    uncalibrated = [] if dev is None or arguments.loss == "crf" else calibrate(labeler, arguments, *dev)
    save_model(labeler, arguments)
    metrics = {
        **learned,
        "labels": len(labeler.classes_),
        "epochs": labeler.n_iter_,
        "seconds": seconds,
        "kernel_weights": labeler.kernel_weights_,
        "interrupted": interruption.happened,
        "history": labeler.history_,
    }
    lines = [
        *chosen,
        f"Trained on {learned['sequences']} sequences, {learned['tokens']} tokens, {len(labeler.classes_)} labels: "
        f"{labeler.n_iter_} epochs in {seconds:.1f} s, loss {labeler.history_[-1]['loss']:.4g} a sequence in the last.",
        *bar_chart(labeler.kernel_weights_),
    ]
    if dev is not None:
        found = metrics["dev"] = labeler.evaluate(*dev)
        lines.append(f"Token accuracy on {arguments.dev}: {found['accuracy']:.2%}")
        if found["entities"] is not None:
            lines += [entity_line(found)]
    lines += uncalibrated
    lines += interruption.lines(labeler, arguments.checkpoint)
    report(arguments, [*lines, f"Saved to {arguments.output}."], metrics)


def _fit_whole(labeler, arguments, options, dev):
    X, y = labelled_sequences(arguments.train, arguments)
    lines, metrics = choose_strength(labeler, X, y, dev, arguments)
    labeler.fit(X, y, **options)
    return {"sequences": len(X), "tokens": sum(map(len, X)), **metrics}, lines


def _fit_stream(labeler, arguments, options, dev):
    """Train block by block, with the labels and tokens that a pass over the file finds."""
    if arguments.folds:
        raise InputError("--folds chooses among sequences that are read at once: leave it or --stream out.")
    format = format_of(arguments.train, arguments)
    stream = data.stream_sequences(arguments.train, format, on_error=arguments.on_error)
    labels, n_sequences, n_tokens = {}, 0, 0
    for _, y in stream.blocks():
        labels.update(dict.fromkeys(label for sequence in y or () for label in sequence if label is not None))
        n_sequences, n_tokens = n_sequences + len(y or ()), n_tokens + sum(map(len, y or ()))
    if not labels:
        raise DataFileError(f"{arguments.train} holds no labels.")
    labeler.set_params(n_examples=n_sequences)
    labeler.fit(shuffled(stream, arguments), classes=list(labels), **options)
    return {"sequences": n_sequences, "tokens": n_tokens}, []
