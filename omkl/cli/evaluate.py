"""``omkl evaluate``: compare predictions of a model, or an annotated treebank, with a gold file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any

import click

import omkl
from omkl import data
from omkl.cli import files
from omkl.cli import options as opt
from omkl.cli.console import Record, attachment_lines, entity_line, score_table, table
from omkl.cli.options import Options, option
from omkl.exceptions import InputError

#: Rules of words to ignore in trees.
RULES: dict[str, dict[str, str]] = {
    "all": {},
    "without_PUNCT": {"ignore": "upos"},
    "without_punctuation_characters": {"ignore": "form"},
}
#: Part of an annotator for each score of a column or of the segmentation, and entry of all scores.
SEGMENTATION, COLUMNS = (
    ("tokens", "words", "sentences"),
    ("UPOS", "XPOS", "UFeats", "AllTags", "Lemmas"),
)
PART_OF = dict.fromkeys(SEGMENTATION, "tokens") | dict(
    zip(COLUMNS, ("upos", "xpos", "feats", "upos", "lemmas"))
)
SCORES = {name: f"{name}_f1" for name in SEGMENTATION}
SCORES |= {name: name.lower() for name in (*COLUMNS, "UAS", "LAS", "CLAS", "MLAS", "BLEX")}
SCORES |= {"LAS with subtypes": "las_subtypes", "sentences whole": "whole"}
#: Maximum number of labels, and of confusions, to print.
MOST_LABELS, MOST_CONFUSIONS = 30, 8


@opt.command(
    "evaluate",
    *(opt.MODEL, opt.argument("gold", type=opt.READ)),
    option(
        "--scheme",
        type=opt.CHOICE(["BIO", "BIOES"]),
        help="Count only entities written as this scheme demands.",
    ),
    option(
        "--raw", is_flag=True, help="Annotators: annotate the raw text of the file, not its words."
    ),
    *(opt.DATA, opt.JOBS, opt.METRICS),
)
def evaluate(options: Options) -> None:
    """Score the saved MODEL on the labelled sequences, rows or trees of the file GOLD.

    Prints accuracy and the most frequent mistakes for labels, R^2 and errors for numbers, and the
    scores of the CoNLL 2018 shared task for trees. MODEL can also be a gold treebank; then GOLD is
    the output of any other program.

    Examples:
      omkl evaluate labeler.npz test.crfsuite --scheme BIO
      omkl evaluate parser.npz test.conllu --json scores.json
      omkl evaluate gold.conllu system.conllu             # of any program
      omkl evaluate annotator.npz test.conllu --raw
      omkl evaluate classifier.npz test.csv --target species --json -
    """
    if options.model != click.get_current_context().obj.standard_input:
        is_treebank = data.find_format(options.model).holds == "trees"
    else:
        with open(options.model, "rb") as file:
            is_treebank = not file.read(2).startswith(b"PK")  # a model is a zip archive
    if is_treebank:
        opt.refuse("does not go with a pair of treebanks", *files.UNREAD["trees"], "jobs", "raw")
        reading: Record = {"trees": "given", "on_error": options.on_error}
        gold, predicted = (
            data.read_treebank(path, **reading) for path in (options.model, options.gold)
        )
        lines, metrics = tree_scores(gold, predicted, options.gold, (*PART_OF.values(), "trees"))
    else:
        model, kind = files.load_model(options)
        if kind != "annotations":
            opt.refuse(f"is for annotators, not {files.of_class(model)}", "raw")
        if kind == "trees":
            gold = files.read_gold(options.gold, model, options)
            lines, metrics = tree_scores(gold, model.parse(gold), options.gold, ["trees"])
        elif kind == "annotations":
            gold = files.read_gold(options.gold, model, options)
            from omkl.annotation.raw_text import text_of

            found = model.annotate_text(text_of(gold)) if options.raw else model.annotate(gold)
            lines, metrics = tree_scores(gold, found, options.gold, model.parts_)
        else:
            evaluation: Any = {
                "sequences": _evaluate_labeler,
                "graphs": _evaluate_graphs,
                "rows": _evaluate_rows,
            }[kind]
            lines, metrics = evaluation(model, options)
    options.report(lines, metrics)


def tree_scores(
    gold: data.Treebank, predicted: data.Treebank, path: str, parts: Collection[str]
) -> tuple[list[str], Record]:
    """Return lines and metrics: scores of the predicted parts, and tables by relation and by
    length.
    """
    metrics = {
        name: omkl.evaluate_treebanks(gold, predicted, **rule) for name, rule in RULES.items()
    }
    found = metrics["all"]
    lines = [] if found["uas"] is None else attachment_lines(metrics, path)
    keys = {name: key for name, key in SCORES.items() if PART_OF.get(name, "trees") in parts}
    if all(found[SCORES[name]] == 1.0 for name in SEGMENTATION):  # the words were given
        keys = {name: key for name, key in keys.items() if name not in SEGMENTATION}
    known = [(name, f"{found[key]:.2%}") for name, key in keys.items() if found[key] is not None]
    if not known:
        raise InputError(f"There is no gold annotation to score {path} with.")
    lines += ["", *table(known, ("all words", "score"))]
    for name in ("relation", "length"):
        if found[f"{name}s"]:
            lines += ["", *score_table(found[f"{name}s"], name)]
    return lines, metrics


def _evaluate_labeler(labeler: omkl.SequenceLabeler, options: Options) -> tuple[list[str], Record]:
    X, y = files.labelled_sequences(options.gold, options, labeler)
    metrics = labeler.evaluate(X, y, scheme=options.scheme)
    accuracy = "Token accuracy {accuracy:.2%}, whole sequences {sequence_accuracy:.2%}".format(
        **metrics
    )
    lines = [f"{accuracy} ({metrics['tokens']} tokens, {metrics['sequences']} sequences)"]
    if metrics["entities"] is not None:
        lines += ["", entity_line(metrics), *score_table(metrics["entities"], "type")]
    predicted = (labels.tolist() for labels in labeler.predict(X))
    return lines + _label_tables(metrics, chain.from_iterable(map(zip, y, predicted))), metrics


def _evaluate_graphs(labeler: omkl.GraphLabeler, options: Options) -> tuple[list[str], Record]:
    X, y = files.labelled_graphs(options.gold)
    metrics = labeler.evaluate(X, y)
    metrics["proved"] = sum(found.proved for found in labeler.certificates(X)) / len(X)
    line = "Accuracy {accuracy:.2%}, whole graphs {graph_accuracy:.2%} ({nodes} nodes, {graphs} graphs); {proved:.2%} "
    predicted = (labels.tolist() for labels in labeler.predict(X))
    lines = [(line + "of the labellings are proved to have the highest score").format(**metrics)]
    return lines + _label_tables(metrics, chain.from_iterable(map(zip, y, predicted))), metrics


def _evaluate_rows(model: Any, options: Options) -> tuple[list[str], Record]:
    gold, predicted = files.outputs_of(model, options.gold, options)
    metrics: Record = {"examples": len(gold), **files.row_scores(model, gold, predicted)}
    if "accuracy" not in metrics:
        line = "R^2 {r2:.4f}, RMSE {rmse:.4g}, mean absolute error {mae:.4g} ({examples} examples)"
        return [line.format(**metrics)], metrics
    labels = gold.tolist(), predicted.tolist()
    metrics["labels"] = omkl.evaluate_labels(labels[:1], labels[1:])["labels"]
    line = f"Accuracy {metrics['accuracy']:.2%} ({len(gold)} examples)"
    return [line, *_label_tables(metrics, zip(*labels))], metrics


def _label_tables(metrics: Record, pairs: Iterable[tuple]) -> list[str]:
    """Return the scores of labels and the most frequent confusions; add the confusions to the
    metrics.
    """
    labels, wrong = metrics["labels"], Counter(pair for pair in pairs if pair[0] != pair[1])
    lines = ["", *score_table(labels[:MOST_LABELS], "label")]
    lines += [f"and {len(labels) - MOST_LABELS} more: --json has all"] * (len(labels) > MOST_LABELS)
    metrics["confusions"] = [[*pair, times] for pair, times in wrong.most_common(MOST_CONFUSIONS)]
    return lines + (
        ["", *table(metrics["confusions"], ("gold", "predicted", "times"))] if wrong else []
    )
