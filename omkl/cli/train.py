"""``omkl train``: train an estimator on a file and save it."""

import time

from omkl.cli.common import add_input_options, add_output_options, bar_chart, write_json
from omkl.data import read_sequences
from omkl.estimators import SequenceLabeler
from omkl.exceptions import DataFileError


def add_parser(subparsers):
    """Add this subcommand."""
    parser = subparsers.add_parser("train", help="train a model on a file", description="Train a model on a file.")
    kinds = parser.add_subparsers(title="models", metavar="MODEL", required=True)
    _add_labeler(kinds)


def _add_labeler(kinds):
    parser = kinds.add_parser(
        "labeler",
        help="a sequence labeler: a label for every token",
        description="Train a sequence labeler. Formats: CoNLL-U (part-of-speech tagging), CRFsuite's attribute lists, "
        "JSON lines, the OCR data set; plain or compressed.",
    )
    parser.add_argument("train", help="file to train on")
    parser.add_argument("-o", "--output", required=True, metavar="MODEL", help="file to save the model to (.npz)")
    parser.add_argument("--dev", metavar="FILE", help="file to report the accuracy on")
    add_input_options(parser)
    parser.add_argument(
        "--kernels", nargs="+", metavar="K",
        help="kernels such as linear, quadratic, gaussian:sigma2=5 (for vectors; tokens of strings need none)",
    )  # fmt: skip
    parser.add_argument("--loss", default="hinge", help="hinge (default), crf or perceptron")
    parser.add_argument(
        "--regularizer", default="mkl", help="mkl (default), l2, group-lasso, elastic-net, lq:q=1.5, ..."
    )
    parser.add_argument("--C", type=float, default=1.0, help="weight of the losses, 1/(lambda m) (default 1)")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data (default 20)")
    parser.add_argument("--method", choices=("fobos", "rda"), default="fobos", help="online method (default fobos)")
    parser.add_argument("--eta0", type=_rate, default="auto", help="scale of the learning rate (default auto)")
    parser.add_argument("--average", default="quadratic", help="quadratic (default), uniform or last")
    parser.add_argument("--transitions", choices=("free", "regularized", "none"), default="free")
    parser.add_argument("--early-stopping", action="store_true", help="stop when a held-out tenth gets no better")
    parser.add_argument("--random-state", type=int, metavar="N", help="seed")
    add_output_options(parser)
    parser.set_defaults(run=run_labeler)


def _rate(text):
    return text if text == "auto" else float(text)


def run_labeler(arguments):
    """Train and save a sequence labeler."""
    say = (lambda *_: None) if arguments.quiet else print
    X, y = _labelled(arguments.train, arguments)
    dev = _labelled(arguments.dev, arguments) if arguments.dev else None
    labeler = SequenceLabeler(
        arguments.kernels, loss=arguments.loss, regularizer=arguments.regularizer, C=arguments.C,
        epochs=arguments.epochs, method=arguments.method, eta0=arguments.eta0, average=arguments.average,
        transitions=None if arguments.transitions == "none" else arguments.transitions,
        early_stopping=arguments.early_stopping, random_state=arguments.random_state, verbose=not arguments.quiet,
    )  # fmt: skip
    started = time.perf_counter()
    labeler.fit(X, y)
    seconds = time.perf_counter() - started
    labeler.save(arguments.output)
    n_tokens = sum(map(len, X))
    metrics = {
        "sequences": len(X),
        "tokens": n_tokens,
        "labels": len(labeler.classes_),
        "epochs": labeler.n_iter_,
        "seconds": seconds,
        "kernel_weights": labeler.kernel_weights_,
        "history": labeler.history_,
    }
    say(f"Trained on {len(X)} sequences, {n_tokens} tokens, {len(labeler.classes_)} labels: {labeler.n_iter_} epochs "
        f"in {seconds:.1f} s, loss {labeler.history_[-1]['loss']:.4g} a sequence in the last.")  # fmt: skip
    say("\n".join(bar_chart(labeler.kernel_weights_)))
    if dev is not None:
        metrics["dev_accuracy"] = labeler.score(*dev)
        say(f"Token accuracy on {arguments.dev}: {metrics['dev_accuracy']:.2%}")
    say(f"Saved to {arguments.output}.")
    write_json(arguments.json, metrics)


def _labelled(path, arguments):
    X, y = read_sequences(path, arguments.format, arguments.folds)
    if y is None:
        raise DataFileError(f'{path} holds no labels: give every line a "y".')
    return X, y
