"""``omkl evaluate``: compare predictions of a model, or an annotated treebank, with a gold file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, TypeAlias

import click

import omkl
from omkl import data
from omkl.cli import files
from omkl.cli import options as opt
from omkl.cli.console import Record, attachment_lines, entity_line, score_table, table
from omkl.cli.options import Options, option
from omkl.exceptions import InputError

#: Lines of text about an evaluation, and its metrics.
Evaluation: TypeAlias = tuple[list[str], Record]
#: Rules of words to ignore in trees.
RULES: dict[str, dict[str, str]] = {
    "all": {},
    "without_PUNCT": {"ignore": "upos"},
    "without_punctuation_characters": {"ignore": "form"},
}
#: Maximum number of labels, and of confusions, to print.
MOST_LABELS = 30
MOST_CONFUSIONS = 8


@opt.command(
    "evaluate",
    opt.MODEL,
    opt.argument("gold", type=opt.READ),
    option(
        "--scheme",
        type=opt.CHOICE(["BIO", "BIOES"]),
        help="Count only entities written as this scheme demands.",
    ),
    option(
        "--raw", is_flag=True, help="Annotators: annotate the raw text of the file, not its words."
    ),
    opt.DATA,
    opt.JOBS,
    opt.METRICS,
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
    if _is_treebank(options.model):
        opt.refuse("does not go with a pair of treebanks", *files.UNREAD["trees"], "jobs", "raw")
        reading: Record = {"trees": "given", "on_error": options.on_error}
        gold = data.read_treebank(options.model, **reading)
        predicted = data.read_treebank(options.gold, **reading)
        lines, metrics = tree_scores(gold, predicted, options.gold)
        options.report(lines, metrics)
        return
    model, kind = files.load_model(options)
    if kind != "annotations":
        opt.refuse(f"is for annotators, not {files.class_with_article(model)}", "raw")
    evaluations: dict[str, Any] = {
        "trees": _evaluate_parser,
        "annotations": _evaluate_annotator,
        "sequences": _evaluate_labeler,
        "graphs": _evaluate_graphs,
        "rows": _evaluate_rows,
    }
    lines, metrics = evaluations[kind](model, options)
    options.report(lines, metrics)


def _is_treebank(path: str) -> bool:
    """Tell whether a file is a treebank rather than a model."""
    if path != click.get_current_context().obj.standard_input:
        return data.find_format(path).holds == "trees"
    with open(path, "rb") as file:
        return not file.read(2).startswith(b"PK")  # a model is a zip archive


def _evaluate_parser(parser: omkl.DependencyParser, options: Options) -> Evaluation:
    gold = files.read_gold(options.gold, parser, options)
    return tree_scores(gold, parser.parse(gold), options.gold, ["trees"])


def _evaluate_annotator(annotator: omkl.Annotator, options: Options) -> Evaluation:
    from omkl.annotation.raw_text import text_of

    gold = files.read_gold(options.gold, annotator, options)
    if options.raw:
        predicted = annotator.annotate_text(text_of(gold))
    else:
        predicted = annotator.annotate(gold)
    return tree_scores(gold, predicted, options.gold, annotator.parts_)


def tree_scores(
    gold: data.Treebank,
    predicted: data.Treebank,
    path: str,
    parts: Collection[str] | None = None,
) -> Evaluation:
    """Return lines and metrics of predicted trees.

    They are scores of the predicted parts, None for all, and tables by relation and by length.
    """
    from omkl.parsing.evaluation import PART_OF_SCORE, SCORES, SEGMENTATION

    metrics = {
        rule: omkl.evaluate_treebanks(gold, predicted, **words_to_ignore)
        for rule, words_to_ignore in RULES.items()
    }
    scores = metrics["all"]
    lines = []
    if scores["uas"] is not None:
        lines += attachment_lines(metrics, path)
    words_were_given = all(scores[name] == 1.0 for name in SEGMENTATION.values())
    rows = []
    for name, entry in (SEGMENTATION | SCORES).items():
        is_predicted = parts is None or PART_OF_SCORE.get(name, "trees") in parts
        is_trivial = words_were_given and name in SEGMENTATION
        if is_predicted and not is_trivial and scores[entry] is not None:
            rows.append((name, f"{scores[entry]:.2%}"))
    if not rows:
        raise InputError(f"There is no gold annotation to score {path} with.")
    lines += ["", *table(rows, ("all words", "score"))]
    for name in ("relation", "length"):
        if scores[f"{name}s"]:
            lines += ["", *score_table(scores[f"{name}s"], name)]
    return lines, metrics


def _evaluate_labeler(labeler: omkl.SequenceLabeler, options: Options) -> Evaluation:
    X, y = files.labelled_sequences(options.gold, options, labeler)
    metrics = labeler.evaluate(X, y, scheme=options.scheme)
    accuracy = f"Token accuracy {metrics['accuracy']:.2%}"
    accuracy += f", whole sequences {metrics['sequence_accuracy']:.2%}"
    lines = [f"{accuracy} ({metrics['tokens']} tokens, {metrics['sequences']} sequences)"]
    if metrics["entities"] is not None:
        lines += ["", entity_line(metrics), *score_table(metrics["entities"], "type")]
    return lines + _label_tables(metrics, _pairs_of_labels(labeler, X, y)), metrics


def _evaluate_graphs(labeler: omkl.GraphLabeler, options: Options) -> Evaluation:
    X, y = files.labelled_graphs(options.gold)
    metrics = labeler.evaluate(X, y)
    n_proved = sum(certificate.proved for certificate in labeler.certificates(X))
    metrics["proved"] = n_proved / len(X)
    accuracy = f"Accuracy {metrics['accuracy']:.2%}, whole graphs {metrics['graph_accuracy']:.2%}"
    sizes = f"{metrics['nodes']} nodes, {metrics['graphs']} graphs"
    proved = f"{metrics['proved']:.2%} of the labellings are proved to have the highest score"
    lines = [f"{accuracy} ({sizes}); {proved}"]
    return lines + _label_tables(metrics, _pairs_of_labels(labeler, X, y)), metrics


def _pairs_of_labels(
    labeler: omkl.SequenceLabeler | omkl.GraphLabeler, X: list, y: list
) -> Iterator[tuple]:
    """Yield the gold and the predicted label of each token or node."""
    for gold, predicted in zip(y, labeler.predict(X)):
        yield from zip(gold, predicted.tolist())


def _evaluate_rows(model: files.Model, options: Options) -> Evaluation:
    gold, predicted = files.outputs_of(model, options.gold, options)
    metrics: Record = {"examples": len(gold), **files.row_scores(model, gold, predicted)}
    if "accuracy" not in metrics:
        line = "R^2 {r2:.4f}, RMSE {rmse:.4g}, mean absolute error {mae:.4g} ({examples} examples)"
        return [line.format(**metrics)], metrics
    gold_labels = gold.tolist()
    predicted_labels = predicted.tolist()
    # the rows are one sequence
    metrics["labels"] = omkl.evaluate_labels([gold_labels], [predicted_labels])["labels"]
    line = f"Accuracy {metrics['accuracy']:.2%} ({len(gold)} examples)"
    return [line, *_label_tables(metrics, zip(gold_labels, predicted_labels))], metrics


def _label_tables(metrics: Record, pairs: Iterable[tuple]) -> list[str]:
    """Return the scores of labels and the most frequent confusions.

    ``pairs`` are gold and predicted labels. The confusions are added to the metrics.
    """
    scores = metrics["labels"]
    lines = ["", *score_table(scores[:MOST_LABELS], "label")]
    if len(scores) > MOST_LABELS:
        lines.append(f"and {len(scores) - MOST_LABELS} more: --json has all")
    mistakes = Counter((gold, predicted) for gold, predicted in pairs if gold != predicted)
    confusions = []
    for (gold, predicted), times in mistakes.most_common(MOST_CONFUSIONS):
        confusions.append([gold, predicted, times])
    metrics["confusions"] = confusions
    if confusions:
        lines += ["", *table(confusions, ("gold", "predicted", "times"))]
    return lines
