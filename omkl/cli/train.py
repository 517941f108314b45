"""``omkl train labeler``, ``classifier`` and ``regressor``, and what all training commands share.

Ctrl-C ends training, and keeps the model.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

from click import BadParameter, Command, Context, Parameter
from click.exceptions import Exit

import omkl
from omkl import data
from omkl.cli import files
from omkl.cli import options as opt
from omkl.cli.console import Record, bar_chart, counted, entity_line
from omkl.cli.options import (
    CHOICE,
    JOBS,
    READ,
    SEED,
    WRITE,
    Options,
    argument,
    auto_or,
    declare,
    number_or_text,
    option,
    refuse,
)
from omkl.exceptions import DataFileError, InputError

if TYPE_CHECKING:
    from omkl.estimators.base import OnlineEstimator
    from omkl.online import OnlineTrainer, Step
    from omkl.online.training_loop import Source


WEIGHTING = CHOICE(["auto", "out-of-sample", "norms"])
LOSSES = ("hinge", "crf", "softmax-margin", "perceptron")

TRAIN = argument("train", type=READ)
OUTPUT = option(
    "-o",
    "--output",
    type=WRITE,
    metavar="MODEL",
    required=True,
    help="File to save the model to, .npz.",
)
DEV = option(
    "--dev",
    type=READ,
    metavar="FILE",
    help="Measure the model and calibrate probabilities on this file.",
)
CHECKPOINTS = declare(
    option("--checkpoint", metavar="DIR", help="Keep the state of training in this directory."),
    option(
        "--checkpoint-every", default="60s", metavar="TIME", help='30s, 5m, 2h or "1000 rounds".'
    ),
    option("--resume", is_flag=True, help="Go on from the latest checkpoint, where there is one."),
)
KERNELS = option(
    "--kernels",
    multiple=True,
    metavar="K...",
    help="Kernels such as linear, quadratic, gaussian:sigma2=5, linear:on=0:10; the first three, "
    "scaled, by default for numbers and dense vectors, linear for sparse ones. Words need none.",
)


def _lexicons(
    context: Context, parameter: Parameter, values: tuple[str, ...]
) -> dict[str, str] | None:
    """Parse ``NAME=FILE`` arguments to a dict from names of lexicons to files, or None."""
    files_of_lexicons: dict[str, str] = {}
    for value in values:
        name, _, path = value.partition("=")
        if not name or not path or name in files_of_lexicons:
            raise BadParameter("a lexicon is NAME=FILE, with a unique name.", context, parameter)
        files_of_lexicons[name] = path
    return files_of_lexicons or None


LEXICON = option(
    "--lexicon",
    "lexicons",
    multiple=True,
    callback=_lexicons,
    metavar="NAME=FILE",
    help="Clusters or other values of words, as features; h.NAME in templates.",
)
BUDGET = option("--budget", type=int, metavar="B", help="At most B support vectors for kernels.")


def check_options(options: Options) -> None:
    """Check kernels, templates and times of checkpoints, and read lexicons, before the data."""
    if options.resume and options.checkpoint is None:
        raise InputError("--resume needs --checkpoint DIR.")
    from omkl.features.lexicons import as_lexicons
    from omkl.groups.templates.language import TemplateSet
    from omkl.kernels import as_kernel
    from omkl.online.checkpointing import parsed_interval

    options.lexicons = as_lexicons(options.lexicons) or None
    if options.transitions == "none":
        options.transitions = None
    if options.templates is not None:
        TemplateSet.resolve(options.templates, options.lexicons)
    for kernel in options.kernels or ():
        as_kernel(kernel)
    parsed_interval(options.checkpoint_every)


def strength(epochs: int | str, C: float | str = "auto") -> Callable:
    """Declare ``--epochs`` and ``--C`` with these defaults."""
    return declare(
        option(
            "--epochs", type=auto_or(int), metavar="N", default=epochs, help="Passes over the data."
        ),
        option(
            "--C",
            "C",
            type=auto_or(float),
            metavar="C",
            default=C,
            help="Weight of the losses, 1/(lambda m).",
        ),
    )


def training_options(
    epochs: int | str, losses: tuple[str, ...] = LOSSES, C: float | str = "auto"
) -> Callable:
    """Declare the options of all online estimators; the first of the losses is the default."""
    return declare(
        TRAIN,
        OUTPUT,
        DEV,
        option("--loss", metavar="L", default=losses[0], help=f"{', '.join(losses)}."),
        option(
            "--regularizer",
            metavar="R",
            default="mkl",
            help="mkl, l2, group-lasso, elastic-net, lq:q=1.5, ...",
        ),
        option(
            "--weighting",
            type=WEIGHTING,
            default="auto",
            help="Select groups by norms or on new examples.",
        ),
        strength(epochs, C),
        option("--method", type=CHOICE(["fobos", "rda"]), default="fobos", help="Online method."),
        option(
            "--learning-rate",
            type=number_or_text,
            metavar="RATE",
            default="auto",
            help="auto, a scale of rates, or a schedule such as constant:eta0=0.1.",
        ),
        option("--average", metavar="A", default="auto", help="auto, quadratic, uniform or last."),
        option(
            "--early-stopping",
            is_flag=True,
            help="Keep the best epoch, on --dev or a held-out tenth.",
        ),
        option(
            "--stream",
            is_flag=True,
            help="Never hold the file whole: read it once an epoch, through a buffer.",
        ),
        SEED,
        JOBS,
        CHECKPOINTS,
        option(
            "--log",
            type=WRITE,
            metavar="FILE",
            help="Write a line of JSON for every epoch while training.",
        ),
        option(
            "--predict-only",
            is_flag=True,
            help="Save only what predicts: a much smaller file, not to go on from.",
        ),
        option(
            "--precision",
            type=CHOICE(["float32", "float16"]),
            help="Round the weights, and imply --predict-only.",
        ),
        option(
            "--workers",
            type=int,
            metavar="N",
            help="Train in shards on N processes here (needs omkl[dask]).",
        ),
        option(
            "--scheduler",
            metavar="URL",
            help="Train in shards on the workers of this Dask scheduler.",
        ),
        option(
            "--shards", type=int, metavar="K", help="Number of shards; by default one a worker."
        ),
    )


#: Most rounds between two looks at Ctrl-C: a moment, and enough for fast compiled passes.
ROUNDS_AT_ONCE = 100


class Interruption:
    """Callback that ends training at the first Ctrl-C, after the current rounds.

    The second Ctrl-C ends the program.

    Attributes
    ----------
    happened : bool
    """

    #: Compiled passes need not compute the costs of predictions.
    reads_costs = False

    happened = False
    _before: Any = None

    def __deepcopy__(self, memo: dict) -> Interruption:
        return self  # cloned estimators share the callback

    def on_start(self, trainer: OnlineTrainer, source: Source) -> bool:
        """Install a handler of Ctrl-C; return whether Ctrl-C was already pressed."""
        # background jobs of scripts ignore Ctrl-C, and must continue to do so
        if not self.happened and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
            with suppress(ValueError):  # only the main thread receives signals
                self._before = signal.signal(signal.SIGINT, self._note)
        return self.happened

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.happened = True
        self.on_end(None)

    def on_end(self, trainer: OnlineTrainer | None) -> None:
        """Restore the previous handler of Ctrl-C."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def room(self) -> int:
        """Return how many rounds may come before a look at Ctrl-C."""
        return ROUNDS_AT_ONCE

    def on_round(self, trainer: OnlineTrainer, step: Step) -> bool:
        """End training after Ctrl-C."""
        return self.happened

    on_block = on_epoch = on_round


#: Options that are parameters of online estimators.
PARAMETERS = (
    "loss",
    "regularizer",
    "weighting",
    "epochs",
    "C",
    "method",
    "learning_rate",
    "average",
    "random_state",
    "early_stopping",
)


class Training:
    """Training of an online estimator according to the options of a command."""

    def __init__(self, options: Options) -> None:
        options.predict_only |= options.precision is not None
        if options.predict_only and options.budget:
            raise InputError(
                "--predict-only does not go with --budget, "
                "whose models cannot drop their training state."
            )
        check_options(options)
        self.options = options
        self.interruption = Interruption()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the estimator."""
        options = self.options
        callbacks: list[object] = [self.interruption]
        if options.log is not None:
            from omkl.online.callbacks import RecordLog

            callbacks.append(RecordLog(files.destination(options.log)))
        return {
            **options.values(*PARAMETERS),
            "callbacks": callbacks,
            "n_jobs": options.jobs,
            "verbose": not options.quiet,
        }

    def fit(
        self,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        dev: tuple | data.Treebank | None,
        n_examples: int,
        **arguments: Any,
    ) -> None:
        """Fit a model to data in memory, or with ``--stream`` to a stream of so many examples.

        ``dev`` is the data of ``--dev``, on which ``--early-stopping`` measures the model.
        """
        options = self.options
        arguments |= options.values("checkpoint", "checkpoint_every", "resume", "shards")
        if options.early_stopping:
            arguments["validation"] = dev
        if options.stream:
            model.set_params(epochs=omkl.Passes(options.epochs, n_examples=n_examples or None))
            # in a new order every epoch; a resumed run has the same orders
            X = X.shuffled(random_state=options.random_state)
        opened: AbstractContextManager = nullcontext()
        if options.scheduler is not None:
            from omkl.distributed import running_client

            refuse("does not go with --scheduler", "workers")
            opened = running_client(options.scheduler)
        elif options.workers is not None:
            from omkl.distributed import local_client

            opened = local_client(options.workers)
        with opened as client:
            if client is not None:
                arguments["client"] = client
            model.fit(X, y, **arguments)

    def save(self, model: OnlineEstimator) -> None:
        """Save the trained model."""
        options = self.options
        path = files.destination(options.output)
        model.save(path, training=not options.predict_only, dtype=options.precision)

    def report(self, model: OnlineEstimator, lines: list[str], metrics: Record) -> None:
        """Print lines about the training and the output file, and write metrics.

        After Ctrl-C, exit with 130.
        """
        options = self.options
        interrupted = self.interruption.happened
        if interrupted:
            line = f"Interrupted in epoch {model.n_iter_}: the model so far is saved."
            if options.checkpoint:
                line += " To go on, call the command again with --resume and"
                line += f" --checkpoint {options.checkpoint}."
            lines.append(line)
        metrics |= {
            "epochs": model.n_iter_,
            "seconds": model.fit_seconds_,
            "memory": model.memory_usage(),
            "kernel_weights": model.kernel_weights_,
            "interrupted": interrupted,
            "history": model.history_,
        }
        options.report([*lines, f"Saved to {options.output}."], metrics)
        if interrupted:
            raise Exit(130)


def progress_of(model: OnlineEstimator, example: str) -> str:
    """Return epochs, seconds and last loss of a training as text."""
    last_loss = model.history_[-1]["loss"]
    seconds = model.fit_seconds_
    epochs = counted(model.n_iter_, "epoch")
    return f"{epochs} in {seconds:.1f} s, last loss {last_loss:.4g} {example}"


# ---- commands ------------------------------------------------------------------------------------


@opt.group(
    "train",
    {
        "annotator": (
            "train_parser:train_annotator",
            "Tags, morphology, lemmas and trees for plain words.",
        ),
        "graph": ("train:graph", "A label for every node of a graph."),
        "labeler": ("train:labeler", "A label for every token of a sequence."),
        "parser": (
            "train_parser:train_parser",
            "Dependency trees; learns which feature templates it needs.",
        ),
        "classifier": ("train:classifier", "A label for a row."),
        "regressor": ("train:regressor", "A number for a row."),
    },
)
def train() -> None:
    """Train a model on a file, and save it. Ctrl-C ends training, and saves the model.

    Examples:
      omkl train labeler train.crfsuite -o labeler.npz --dev dev.crfsuite
      omkl train parser train.conllu -o parser.npz --dev dev.conllu --likely 0.99
      omkl train annotator train.conllu -o annotator.npz
      omkl train classifier train.csv --target species -o classifier.npz
      omkl train labeler --help                           # all options of one kind of model
    """


TRANSITIONS = option(
    "--transitions",
    type=CHOICE(["free", "regularized", "none"]),
    default="free",
    help="Scores of neighbours: free, a group, or none.",
)


@opt.command(
    "labeler",
    opt.FORMAT,
    opt.ON_ERROR,
    KERNELS,
    BUDGET,
    LEXICON,
    TRANSITIONS,
    option(
        "--allowed-transitions",
        metavar="SCHEME",
        help="Predict chunks that this scheme allows, as BIO or BIOES.",
    ),
    option(
        "--order",
        type=int,
        default=1,
        metavar="N",
        help="1, or 2 to score trigrams of labels as well.",
    ),
    training_options("auto", ("softmax-margin:cost_weight=2", *LOSSES), 30.0),
    opt.METRICS,
)
def labeler(options: Options) -> None:
    """Train a sequence labeler on the file TRAIN.

    Formats: CoNLL-U (part-of-speech tagging), CRFsuite's attribute lists, columns (CoNLL 2000 to
    2003) and JSON lines, plain or compressed.

    Examples:
      omkl train labeler train.crfsuite -o labeler.npz --dev dev.crfsuite --allowed-transitions BIO
      omkl train labeler train.conllu -o tagger.npz --epochs 5 --json metrics.json
      omkl train labeler train.conllu -o tagger.npz --lexicon cluster=brown.tsv
      omkl train labeler vectors.jsonl -o labeler.npz --kernels linear gaussian --budget 1000
      omkl train labeler large.jsonl -o labeler.npz --stream --checkpoint state --resume
    """
    training = Training(options)
    model = omkl.SequenceLabeler(
        transitions=omkl.Transitions(
            options.transitions, allowed=options.allowed_transitions, order=options.order
        ),
        **options.values("kernels", "lexicons", "budget"),
        **training.parameters(),
    )
    model._settings()
    dev = None
    if options.dev:
        dev = files.labelled_sequences(options.dev, options)
        if any(None in labels for labels in dev[1]):
            raise DataFileError(
                f"{options.dev} has tokens without a label: accuracy needs all of them."
            )
    X: Any
    y = None
    classes = None
    if options.stream:
        X = data.stream_sequences(options.train, options.format, on_error=options.on_error)
        classes, sizes = _labels_of_stream(X)
    else:
        X, y = files.labelled_sequences(options.train, options)
        sizes = {"sequences": len(X), "tokens": sum(map(len, X))}
    training.fit(model, X, y, dev=dev, n_examples=sizes["sequences"], classes=classes)
    _finish_labeler(training, model, dev, sizes, example="a sequence", title="Token accuracy")


def _labels_of_stream(stream: data.Stream) -> tuple[list | None, Record]:
    """Read a stream of labels; return its labels in order of appearance, and its sizes.

    The labels are None where the stream has none.
    """
    labels = dict[str, None]()
    n_sequences = 0
    n_tokens = 0
    for _, block in stream.blocks():
        for sequence in block or ():
            labels.update(dict.fromkeys(label for label in sequence if label is not None))
            n_sequences += 1
            n_tokens += len(sequence)
    return list(labels) or None, {"sequences": n_sequences, "tokens": n_tokens}


def _finish_labeler(
    training: Training,
    model: omkl.SequenceLabeler | omkl.GraphLabeler,
    dev: tuple | None,
    sizes: Record,
    *,
    example: str,
    title: str,
) -> None:
    """Calibrate, save and measure a trained labeler of sequences or graphs, and report on it.

    ``sizes`` are those of the training data, ``example`` names one example, and ``title`` the
    accuracy.
    """
    options = training.options
    lines_of_calibration = []
    if dev is not None and options.loss != "crf":
        lines_of_calibration = files.calibrate(model, options.dev, *dev)
    training.save(model)
    metrics = {**sizes, "labels": len(model.classes_)}
    counts = ", ".join(f"{count} {name}" for name, count in metrics.items())
    lines = [f"Trained on {counts}: {progress_of(model, example)}."]
    lines += bar_chart(model.kernel_weights_)
    if dev is not None:
        scores = metrics["dev"] = model.evaluate(*dev)
        lines.append(f"{title} on {options.dev}: {scores['accuracy']:.2%}")
        if scores.get("entities") is not None:
            lines.append(entity_line(scores))
    training.report(model, lines + lines_of_calibration, metrics)


@opt.command(
    "graph",
    KERNELS,
    BUDGET,
    LEXICON,
    option(
        "--edge-kernels",
        multiple=True,
        metavar="K...",
        help="Kernels on the features of edges; linear by default.",
    ),
    option(
        "--pairs",
        type=opt.CHOICE(["full", "symmetric", "equal", "potts"]),
        help="Weights of pairs of labels.",
    ),
    TRANSITIONS,
    training_options("auto", LOSSES, 30.0),
    opt.METRICS,
)
def graph(options: Options) -> None:
    """Train a labeler of the nodes of graphs on the file TRAIN of JSON lines, plain or compressed.

    A line is {"nodes": [...], "edges": [[0, 1], ...], "y": [...]}, with "edge_features" and
    "directed" where needed.

    Examples:
      omkl train graph train.jsonl -o graphs.npz --dev dev.jsonl
      omkl train graph grids.jsonl -o graphs.npz --kernels linear --edge-kernels linear --epochs 15
    """
    refuse("does not go with graphs", "stream")
    training = Training(options)
    model = omkl.GraphLabeler(
        edges=omkl.Edges(
            options.edge_kernels, pairs=options.pairs, transitions=options.transitions
        ),
        **options.values("kernels", "lexicons", "budget"),
        **training.parameters(),
    )
    model._settings()
    X, y = files.labelled_graphs(options.train)
    dev = None
    if options.dev:
        dev = files.labelled_graphs(options.dev)
    training.fit(model, X, y, dev=dev, n_examples=len(X))
    sizes = {"graphs": len(X), "nodes": sum(map(len, X))}
    _finish_labeler(training, model, dev, sizes, example="a graph", title="Accuracy")


# ---- rows ----------------------------------------------------------------------------------------


def _train_rows(kind: str, options: Options) -> None:
    """Train a {kind} on the rows of the file TRAIN, of numbers, or of numbers and strings.

    Formats: svmlight, CSV, Parquet and npz; plain or compressed.

    Examples:
      omkl train {kind} train.csv --target outcome -o model.npz --dev dev.csv
      omkl train {kind} train.svm -o model.npz --kernels linear gaussian:sigma2=5 --epochs 5
      omkl train {kind} 'part-*.parquet' --target outcome -o model.npz --stream --budget 1000
    """
    training = Training(options)
    is_classifier = kind == "classifier"
    estimator = omkl.OnlineMKLClassifier if is_classifier else omkl.OnlineMKLRegressor
    model = estimator(**options.values("kernels", "budget"), **training.parameters())
    model._settings()
    open_stream = files.open_rows if is_classifier else files.open_numbers
    stream = open_stream(options.train, options)
    with files.naming(options.train):
        X: Any = stream
        y = None
        arguments: Record = {}
        if options.stream:
            block, n_examples, classes = _first_pass(stream, is_classifier)
            if is_classifier:
                arguments["classes"] = classes
        else:
            X = block = stream.read()  # with the names of the columns
            y = block.y
            n_examples = block.n_examples
        dev = _dev_rows(open_stream, options, block)
        training.fit(model, X, y, dev=dev, n_examples=n_examples, **arguments)
    training.save(model)
    metrics: Record = {"examples": n_examples}
    lines = [f"Trained on {n_examples} examples: {progress_of(model, 'an example')}."]
    lines += bar_chart(model.kernel_weights_)
    if is_classifier:
        metrics["labels"] = len(model.classes_)
    if options.dev:
        scores = files.row_scores(model, *files.outputs_of(model, options.dev, options))
        metrics["dev"] = scores
        if is_classifier:
            lines.append(f"On {options.dev}: accuracy {scores['accuracy']:.2%}")
        else:
            lines.append(f"On {options.dev}: R^2 {scores['r2']:.4f}, RMSE {scores['rmse']:.4g}")
    training.report(model, lines, metrics)


def _first_pass(stream: data.Stream, is_classifier: bool) -> tuple[data.Block, int, list]:
    """Read a stream of rows; return its first block, the number of examples, and sorted classes."""
    first_block: Any = None
    n_examples = 0
    classes: set = set()
    for block in stream.blocks():
        first_block = first_block or block
        n_examples += block.n_examples
        if is_classifier:
            classes.update(block.y.tolist())
    return first_block, n_examples, sorted(classes)


def _dev_rows(open_stream: Callable, options: Options, training_block: data.Block) -> tuple | None:
    """Read the rows and outputs of ``--dev``, with the columns of the training data."""
    if options.dev is None:
        return None
    columns = files.columns_of_block(training_block)
    block = open_stream(options.dev, options, columns).read()
    return block, block.y


def rows_command(kind: str, losses: tuple[str, ...], C: float) -> Command:
    """Make the command that trains a ``classifier`` or a ``regressor``.

    ``losses`` are those that its help names, the default first, and ``C`` is the default C.
    """
    run = partial(_train_rows, kind)
    run.__doc__ = (_train_rows.__doc__ or "").format(kind=kind)
    declare_command = opt.command(
        kind,
        training_options(20, losses, C),
        opt.FORMAT,
        *opt.TABLE,
        opt.ON_ERROR,
        KERNELS,
        BUDGET,
        opt.METRICS,
    )
    return declare_command(run)


classifier = rows_command("classifier", ("crf", "hinge", *LOSSES[2:]), 100.0)
regressor = rows_command("regressor", ("squared", "huber:delta=1", "..."), 3.0)
