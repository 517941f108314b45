"""``omkl evaluate``: compare what a saved model predicts, or a treebank says, with what a gold file holds."""

from argparse import Namespace
from collections import Counter
from typing import Any

from omkl import data, estimators
from omkl.cli import rows
from omkl.cli.common import (
    OUTPUT,
    ROWS,
    add_command,
    add_options,
    check_options,
    count,
    load_model,
    report,
    table,
)
from omkl.cli.inputs import labelled_sequences
from omkl.cli.train_parser import attachment_lines
from omkl.exceptions import InputError

#: Which words of trees count.
RULES: dict[str, dict[str, str]] = {
    "all": {}, "without_PUNCT": {"ignore": "upos"}, "without_punctuation_characters": {"ignore": "form"},
}  # fmt: skip
#: Scores of trees by what the field calls them; those of columns that a parser does not predict come first.
SCORES = {
    "UPOS": "upos", "XPOS": "xpos", "UFeats": "ufeats", "AllTags": "alltags", "Lemmas": "lemmas", "UAS": "uas",
    "LAS": "las", "CLAS": "clas", "MLAS": "mlas", "BLEX": "blex", "LAS with subtypes": "las_subtypes",
    "sentences whole": "whole",
}  # fmt: skip
#: The part of an annotator that a score is about, where it is not the trees.
PART_OF = {"UPOS": "upos", "XPOS": "xpos", "UFeats": "feats", "AllTags": "upos", "Lemmas": "lemmas"}
#: Labels in the table that is printed, and confusions where nothing else is asked for.
MOST_LABELS, CONFUSIONS = 30, 8


def add_parser(subparsers: Any) -> None:
    """Add this subcommand."""
    parser = add_command(
        subparsers,
        "evaluate",
        summary="accuracy of a model on labelled sequences, trees or rows",
        description="Accuracy of a model on labelled sequences or rows, and the mistakes it makes most; R^2 and errors "
        "of a regressor; the scores of the CoNLL 2018 shared task of a parser, or of the annotation of any other "
        "program: omkl evaluate GOLD SYSTEM compares two treebanks with the same words.",
        examples="""
            omkl evaluate labeler.npz test.crfsuite --scheme BIO
            omkl evaluate parser.npz test.conllu --json scores.json
            omkl evaluate gold.conllu system.conllu             # of any program
            omkl evaluate classifier.npz test.csv --target species --json -
        """,
    )
    parser.add_argument("model", help="a saved model, or a gold treebank (- for standard input)")
    parser.add_argument(
        "gold",
        help="file of labelled sequences, trees or rows; or the treebank to compare with gold (- for standard input)",
    )
    parser.add_argument(
        "--mistakes", type=count, metavar="N", help=f"list the N commonest confusions of labels (default {CONFUSIONS})"
    )
    parser.add_argument(
        "--scheme", choices=("BIO", "BIOES"), help="count only entities that are written as this scheme demands"
    )
    add_options(parser, "--format", "--folds", *ROWS, "--on-error", "--jobs", *OUTPUT)
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> None:
    """Evaluate a model."""
    if _is_treebank(arguments):
        lines, metrics = _treebanks(arguments)
    else:
        model, kind = load_model(arguments)
        lines, metrics = KINDS[kind](model, arguments)
    if metrics.get("confusions"):
        lines += table(metrics["confusions"], ("gold", "predicted", "times"))
    report(arguments, lines, metrics)


def _is_treebank(arguments):
    """Whether the first file is no model: by its name, or by what standard input holds."""
    if arguments.model != getattr(arguments, "standard_input", None):
        return data.find_format(arguments.model).holds == "trees"
    with open(arguments.model, "rb") as file:
        return not file.read(2).startswith(b"PK")  # a model is an archive


def _treebanks(arguments):
    """Scores of one treebank beside another with the same words, the gold one."""
    check_options(arguments, "trees", "a pair of treebanks")
    if arguments.jobs is not None:
        raise InputError("--jobs does not go with a pair of treebanks, which are compared on one core: leave it out.")
    reading = {"trees": "given", "on_error": arguments.on_error, "keep_text": False}
    gold, predicted = (data.read_treebank(path, **reading) for path in (arguments.model, arguments.gold))
    metrics = {name: estimators.evaluate_treebanks(gold, predicted, **rule) for name, rule in RULES.items()}
    return _tree_lines(metrics, arguments.gold, list(SCORES)), metrics


def _trees(parser, arguments):
    gold = data.read_treebank(arguments.gold, single_root=parser.single_root, on_error=arguments.on_error)
    metrics = {name: parser.evaluate(gold, **rule) for name, rule in RULES.items()}
    return _tree_lines(metrics, arguments.gold, list(SCORES)[5:]), metrics


def _annotations(annotator, arguments):
    gold = data.read_treebank(arguments.gold, trees="given", on_error=arguments.on_error, keep_text=False)
    return annotation_scores(annotator, gold, arguments.gold)


def annotation_scores(annotator: Any, gold: Any, path: str) -> tuple[list[str], dict[str, Any]]:
    """Scores of what an annotator makes of the words of gold sentences, as lines of text and as metrics."""
    predicted = annotator.annotate(gold)
    metrics = {name: estimators.evaluate_treebanks(gold, predicted, **rule) for name, rule in RULES.items()}
    names = [name for name in SCORES if PART_OF.get(name, "trees") in annotator.parts_]
    return _tree_lines(metrics, path, names), metrics


def _tree_lines(metrics, path, names):
    found = metrics["all"]
    lines = [] if found["uas"] is None else attachment_lines(metrics, path)
    known = [name for name in names if found[SCORES[name]] is not None]
    lines += ["", *table([(name, f"{found[SCORES[name]]:.2%}") for name in known], ("all words", "score"))]
    for name in ("relation", "length"):
        if found[f"{name}s"]:
            lines += ["", *score_table(found[f"{name}s"], name)]
    return lines


def score_table(records: list[dict[str, Any]], name: str) -> list[str]:
    """Lines of a table of counts, precision, recall and F1; the records' first entry is ``name``."""
    counts = ("gold", "predicted", "correct")
    rows = [
        (row[name], *(row[key] for key in counts), *(f"{row[key]:.2%}" for key in ("precision", "recall", "f1")))
        for row in records
    ]
    return table(rows, (name, *counts, "precision", "recall", "F1"))


def _labels(labeler, arguments):
    X, y = labelled_sequences(arguments.gold, arguments)
    metrics = labeler.evaluate(X, y, scheme=arguments.scheme)
    pairs = ((gold, label) for p, g in zip(labeler.predict(X), y) for gold, label in zip(g, p.tolist()))
    metrics["confusions"] = _confusions(pairs, arguments)
    lines = ["Token accuracy {accuracy:.2%}, whole sequences {sequence_accuracy:.2%} "
             "({tokens} tokens, {sequences} sequences)".format(**metrics)]  # fmt: skip
    lines += _label_lines(metrics["labels"])
    if metrics["entities"] is not None:
        lines += ["", entity_line(metrics), *score_table(metrics["entities"], "type")]
    return [*lines, ""], metrics


def entity_line(metrics: dict[str, Any]) -> str:
    """Scores of entities as a line of text."""
    line = "Entities: precision {entity_precision:.2%}, recall {entity_recall:.2%}, F1 {entity_f1:.2%}"
    return line.format(**metrics)


def _label_lines(records):
    more = [f"and {len(records) - MOST_LABELS} more: --json has all"] if len(records) > MOST_LABELS else []
    return ["", *score_table(records[:MOST_LABELS], "label"), *more]


def _rows(model, arguments):
    gold, predicted = rows.outputs_of(model, arguments.gold, arguments)
    metrics: dict[str, Any] = {"examples": len(gold), **rows.scores(model, gold, predicted)}
    if "accuracy" not in metrics:
        if arguments.mistakes is not None:
            raise InputError("--mistakes lists confusions of labels, and a regressor has none: leave it out.")
        line = "R^2 {r2:.4f}, RMSE {rmse:.4g}, mean absolute error {mae:.4g} ({examples} examples)"
        return [line.format(**metrics)], metrics
    labels = gold.tolist(), predicted.tolist()
    metrics["labels"] = estimators.evaluate_labels(labels[:1], labels[1:])["labels"]
    metrics["confusions"] = _confusions(zip(*labels), arguments)
    line = "Accuracy {accuracy:.2%} ({examples} examples)"
    return [line.format(**metrics), *_label_lines(metrics["labels"]), ""], metrics


def _confusions(pairs, arguments):
    """The commonest mistakes among pairs of gold and predicted labels: ``[gold, predicted, times]``."""
    n = CONFUSIONS if arguments.mistakes is None else arguments.mistakes
    counts = Counter((gold, label) for gold, label in pairs if gold != label)
    return [[gold, label, times] for (gold, label), times in counts.most_common(n)]


#: What evaluates a model of each kind.
KINDS = {"trees": _trees, "annotations": _annotations, "sequences": _labels, "rows": _rows}
