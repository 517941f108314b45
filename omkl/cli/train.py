"""``omkl train labeler``, ``classifier`` and ``regressor``."""

from __future__ import annotations

import omkl
from omkl import data
from omkl.cli import options as opt
from omkl.cli.console import Record, bar_chart, entity_line
from omkl.cli.files import Columns, calibrate, labelled_sequences, naming, open_rows, outputs_of, row_scores
from omkl.cli.options import Options, option
from omkl.cli.training import BUDGET, KERNELS, LEXICON, LOSSES, Training, progress_of, training_options
from omkl.exceptions import DataFileError


@opt.group(
    "train",
    {
        "annotator": ("train_parser:train_annotator", "Tags, morphology, lemmas and trees for plain words."),
        "labeler": ("train:labeler", "A label for every token of a sequence."),
        "parser": ("train_parser:train_parser", "Dependency trees; learns which feature templates it needs."),
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


TRANSITIONS = opt.CHOICE(["free", "regularized", "none"])


@opt.command(
    "labeler",
    *(opt.FORMAT, opt.ON_ERROR, KERNELS, BUDGET, LEXICON),
    option("--transitions", type=TRANSITIONS, default="free", help="Scores of neighbours: free, a group, or none."),
    option("--allowed-transitions", metavar="SCHEME", help="Predict chunks that this scheme allows, as BIO or BIOES."),
    option("--order", type=int, default=1, metavar="N", help="1, or 2 to score trigrams of labels as well."),
    training_options(20, ("softmax-margin:cost_weight=2", *LOSSES)),
    opt.METRICS,
)
def labeler(options: Options) -> None:
    """Train a sequence labeler on the file TRAIN.

    Formats: CoNLL-U (part-of-speech tagging), CRFsuite's attribute lists, columns (CoNLL 2000 to 2003) and JSON lines,
    plain or compressed.

    Examples:
      omkl train labeler train.crfsuite -o labeler.npz --dev dev.crfsuite --allowed-transitions BIO
      omkl train labeler train.conllu -o tagger.npz --epochs 5 --json metrics.json
      omkl train labeler train.conllu -o tagger.npz --lexicon cluster=brown.tsv
      omkl train labeler vectors.jsonl -o labeler.npz --kernels linear gaussian:sigma2=5 --budget 1000
      omkl train labeler large.jsonl -o labeler.npz --stream --checkpoint state --resume
    """
    training = Training(options)
    model = omkl.SequenceLabeler(
        list(options.kernels) or None,
        lexicons=options.lexicon,
        transitions=None if options.transitions == "none" else options.transitions,
        allowed_transitions=options.allowed_transitions,
        order=options.order,
        budget=options.budget,
        **training.parameters(),
    )
    model._settings()
    dev = labelled_sequences(options.dev, options) if options.dev else None
    if dev is not None and any(label is None for labels in dev[1] for label in labels):
        raise DataFileError(f"{options.dev} has tokens without a label: accuracy needs all of them.")
    if options.stream:
        stream = data.stream_sequences(options.train, options.format, on_error=options.on_error)
        labels, n_sequences, n_tokens = _survey(stream)
        model.set_params(n_examples=n_sequences)
        X, y, declared = training.shuffled(stream), None, {"classes": labels or None}
    else:
        X, y = labelled_sequences(options.train, options)
        n_sequences, n_tokens, declared = len(X), sum(map(len, X)), {}
    validation = dev if options.early_stopping else None
    training.fit(model, X, y, validation=validation, **declared)
    uncalibrated = [] if dev is None or options.loss == "crf" else calibrate(model, options.dev, *dev)
    training.save(model)
    metrics: Record = {"sequences": n_sequences, "tokens": n_tokens, "labels": len(model.classes_)}
    sizes = f"{n_sequences} sequences, {n_tokens} tokens, {len(model.classes_)} labels"
    lines = [f"Trained on {sizes}: {progress_of(model, 'a sequence')}.", *bar_chart(model.kernel_weights_)]
    if dev is not None:
        found = metrics["dev"] = model.evaluate(*dev)
        lines.append(f"Token accuracy on {options.dev}: {found['accuracy']:.2%}")
        lines += [] if found["entities"] is None else [entity_line(found)]
    training.report(model, [*lines, *uncalibrated], metrics)


def _survey(stream: data.Stream) -> tuple[list, int, int]:
    """Pass over a stream to find the labels, and the numbers of sequences and tokens."""
    labels, n_sequences, n_tokens = {}, 0, 0
    for _, y in stream.blocks():
        for sequence in y or ():
            labels.update(dict.fromkeys(label for label in sequence if label is not None))
            n_sequences, n_tokens = n_sequences + 1, n_tokens + len(sequence)
    return list(labels), n_sequences, n_tokens


# ---- rows --------------------------------------------------------------------------------------------------------

ROW_OPTIONS = (opt.FORMAT, *opt.TABLE, opt.ON_ERROR, KERNELS, BUDGET, opt.METRICS)
ROW_LOSSES = ("squared", "huber:delta=1", "epsilon-insensitive:epsilon=0.1")


@opt.command("classifier", training_options(20, ("crf", "hinge", *LOSSES[2:]), C=100.0), *ROW_OPTIONS)
def classifier(options: Options) -> None:
    """Train a classifier on the rows of the file TRAIN, of numbers, or of numbers and strings.

    Formats: svmlight, CSV, Parquet and npz; plain or compressed.

    Examples:
      omkl train classifier train.csv --target outcome -o model.npz --dev dev.csv
      omkl train classifier train.svm -o model.npz --kernels linear gaussian:sigma2=5 --epochs 5
      omkl train classifier 'part-*.parquet' --target outcome -o model.npz --stream --budget 1000
    """
    _train_rows(omkl.OnlineMKLClassifier, options)


@opt.command("regressor", training_options(20, ROW_LOSSES, C=3.0), *ROW_OPTIONS)
def regressor(options: Options) -> None:
    """Train a regressor on the rows of the file TRAIN, of numbers, or of numbers and strings.

    Formats: svmlight, CSV, Parquet and npz; plain or compressed.

    Examples:
      omkl train regressor train.csv --target outcome -o model.npz --dev dev.csv
      omkl train regressor train.svm -o model.npz --kernels linear gaussian:sigma2=5 --epochs 5
      omkl train regressor 'part-*.parquet' --target outcome -o model.npz --stream --budget 1000
    """
    _train_rows(omkl.OnlineMKLRegressor, options)


def _train_rows(cls: type[omkl.OnlineMKLClassifier | omkl.OnlineMKLRegressor], options: Options) -> None:
    """Train and save a classifier or a regressor."""
    training, is_classifier = Training(options), cls is omkl.OnlineMKLClassifier
    model = cls(list(options.kernels) or None, budget=options.budget, **training.parameters())
    model._settings()
    stream = open_rows(options.train, options)
    with naming(options.train):
        if options.stream:
            first: data.Block | None = None
            classes: set = set()
            n_examples = 0
            for block in stream.blocks():
                first, n_examples = first or block, n_examples + block.n_examples
                classes.update(block.y.tolist() if is_classifier else ())
            model.set_params(n_examples=n_examples or None)
            X, y, declared = training.shuffled(stream), None, {"classes": sorted(classes)} if is_classifier else {}
        else:
            first = X = stream.read()  # with the names of the columns
            y, n_examples, declared = X.y, X.n_examples, {}
        validation = None
        if options.dev is not None and first is not None:
            dev = open_rows(options.dev, options, Columns.of_block(first)).read()
            validation = (dev, dev.y) if options.early_stopping else None
        training.fit(model, X, y, validation=validation, **declared)
    training.save(model)
    metrics: Record = {"examples": n_examples}
    lines = [
        f"Trained on {n_examples} examples: {progress_of(model, 'an example')}.",
        *bar_chart(model.kernel_weights_),
    ]
    if is_classifier:
        metrics["labels"] = len(model.classes_)
    if options.dev:
        found = metrics["dev"] = row_scores(model, *outputs_of(model, options.dev, options))
        scores = "accuracy {accuracy:.2%}" if "accuracy" in found else "R^2 {r2:.4f}, RMSE {rmse:.4g}"
        lines.append(f"On {options.dev}: {scores.format(**found)}")
    training.report(model, lines, metrics)
