"""Quality of a model on sequences, rows, trees or annotations, and its worst mistakes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import eq, ne
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.utils import _safe_indexing

import omkl
from omkl.annotation.tagger import confidences
from omkl.data import Graph, Treebank
from omkl.data.sequences import tagged
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.explanations import Explanation, name_with_place
from omkl.estimators.validation import column_names_of
from omkl.exceptions import InputError
from omkl.mkl.base import BatchMKL
from omkl.mkl.rows import RowsLike
from omkl.parsing import decoding
from omkl.parsing.evaluation import PART_OF_SCORE, SCORES, evaluate_treebanks
from omkl.parsing.sentences import strings_of
from omkl.reports.markup import (
    Model,
    Record,
    details,
    draw_plot,
    draw_tree,
    html,
    number,
    percent,
    percent_cell,
    score_section,
    signed_cell,
    table,
)
from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress
from omkl.reports.plots.quality import plot_calibration, plot_confusion, plot_word
from omkl.sequences.evaluation import evaluate_labels, records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Maximum number of groups and features in the explanation of a mistake.
REASONS = 6
#: Maximum number of pairs of confused labels.
CONFUSIONS = 30
#: Maximum number of tokens of an example.
TOKENS = 120
#: Maximum number of letters of the name of a token.
NAME = 24
#: Maximum number of points of a plot.
POINTS = 2000
#: Maximum number of entries of a row.
ENTRIES = 12
R2 = "R\N{SUPERSCRIPT TWO}"
#: Maximum number of sentences for which probabilities are computed.
CALIBRATED = 1000
#: Maximum number of words of a drawn sentence.
DRAWN = 60


@dataclass
class Quality:
    """Quality of a model on data.

    Attributes
    ----------
    tiles : dict of str to str
        The most important numbers.
    sections : list of str
        HTML of tables and plots.
    worst : list of str
        HTML of the worst mistakes.
    """

    tiles: dict[str, str]
    sections: list[str] = field(default_factory=list)
    worst: list[str] = field(default_factory=list)


def confusion_sections(gold: Sequence, predicted: Sequence) -> list[str]:
    """Make a plot of the confusions of labels, and a table of the most frequent ones."""
    mistakes = Counter(pair for pair in zip(gold, predicted) if ne(*pair))
    if not mistakes:
        return []
    n_gold = Counter(gold)
    rows = []
    for (label, other), times in mistakes.most_common(CONFUSIONS):
        share = percent_cell(times / n_gold[label])
        rows.append([str(label), str(other), times, share])
    caption = "Predicted labels (columns) by gold labels (rows)."
    commonest = table(["gold", "predicted", "times", "share of gold"], rows)
    return [
        draw_plot(plot_confusion, gold, predicted, caption=caption),
        details("The commonest mistakes", commonest),
    ]


def calibration_sections(heading: str, right: np.ndarray, confidence: np.ndarray) -> list[str]:
    """Make a plot of the accuracy of predictions by their probability."""
    caption = "Share of right predictions by the probability that the model gives them."
    return [html.heading(heading), draw_plot(plot_calibration, right, confidence, caption=caption)]


def worst_first(wrong: np.ndarray, size: np.ndarray, n: int) -> list[int]:
    """Return the examples with the most mistakes; shorter examples come first among equals."""
    order = np.lexsort((size, -wrong))[:n]
    return [i for i in order.tolist() if wrong[i] > 0]


def reasons(explain: Callable[[], Explanation]) -> str:
    """Make tables of the contributions to a prediction; empty if these are unknown."""
    try:
        explanation = explain()
    except InputError:
        return ""
    title = f"Why: ahead of the right one by {number(explanation.margin, 3)}"
    if explanation.against is None:
        title = f"Why: the parts that add up to {number(explanation.margin, 4)}"
    groups = []
    for name, value in explanation.strongest_groups(REASONS):
        groups.append([name, signed_cell(value)])
    features = []
    for feature in explanation.features[:REASONS]:
        name = name_with_place(feature)
        features.append([name, feature["group"], signed_cell(feature["adds"])])
    return details(
        title,
        table(["group", "adds"], groups),
        table(["strongest parts", "group", "adds"], features),
    )


def marked_tokens(tokens: Sequence[str], *columns: Sequence[Sequence]) -> str:
    """Make tokens with labels below; wrong labels are struck through, and gold labels follow.

    Parameters
    ----------
    tokens : sequence of n str
    *columns : (sequence, sequence)
        n gold and n predicted labels. Correct labels are shown for the first column only.
    """
    words = []
    for token, *pairs in zip(tokens, *(zip(*column) for column in columns)):
        is_wrong = any(ne(*pair) for pair in pairs)
        shown = [pairs[0], *(pair for pair in pairs[1:] if ne(*pair))]
        words.append((token, is_wrong, shown))
    return html.tokens(words)


# ---- sequences -----------------------------------------------------------------------------------


def sequence_quality(
    labeler: omkl.SequenceLabeler | omkl.GraphLabeler, X: Sequence, y: Sequence, n_worst: int
) -> Quality:
    """Evaluate a labeler on sequences or graphs; those with a label None are skipped."""
    labelled = []
    gold = []
    for i, labels in enumerate(y):
        if isinstance(labels, np.ndarray):
            labels = labels.ravel()
        if not any(label is None for label in labels):
            labelled.append(i)
            gold.append(np.asarray(labels, dtype=object).tolist())
    if not labelled:
        raise InputError("No sequence has all its labels: give some to report on.")
    X = [X[i] for i in labelled]
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    quality = _quality_of_labels(gold, predicted)
    if hasattr(labeler, "predict_marginals"):
        confidence = np.concatenate(confidences(labeler, X, predicted))
        right = np.array(list(map(eq, *_joined(gold, predicted))))
        quality.sections += calibration_sections("Calibration", right, confidence)
    lengths = np.array(list(map(len, gold)))
    n_wrong = np.array([sum(map(ne, *labels)) for labels in zip(gold, predicted)])
    for i in worst_first(n_wrong, lengths, n_worst):
        title = f"{labelled[i] + 1}: {n_wrong[i]} of {lengths[i]} wrong"
        explain = partial(labeler.explain, X[i], labels=predicted[i], against=gold[i])
        quality.worst.append(_wrong_sequence(title, X[i], gold[i], predicted[i], explain))
    return quality


def _joined(gold: list[list], predicted: list[list]) -> tuple[list, list]:
    """Return the gold and the predicted labels of all tokens."""
    return list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))


def _quality_of_labels(gold: list[list], predicted: list[list]) -> Quality:
    """Make tiles of scores, and tables by label and by type of entity."""
    scores = evaluate_labels(gold, predicted)
    tiles = {
        "right labels": percent(scores["accuracy"]),
        "sequences all right": percent(scores["sequence_accuracy"]),
    }
    sections = score_section("By label", scores["labels"], "label")
    if scores["entities"] is not None:
        tiles["F1 of entities"] = percent(scores["entity_f1"])
        sections += score_section("By type of entity", scores["entities"], "type")
    tiles |= {"sequences": number(scores["sequences"]), "tokens": number(scores["tokens"])}
    sections += confusion_sections(*_joined(gold, predicted))
    return Quality(tiles, sections)


def _wrong_sequence(
    title: str,
    example: Sequence | Graph,
    gold: list,
    predicted: list,
    explain: Callable[[], Explanation],
) -> str:
    """Show an example of n tokens with their labels, and explain the prediction."""
    kind = "Sequence"
    if isinstance(example, Graph):
        kind = "Graph"
        example = example.nodes
    tokens = example[:TOKENS]
    picture = ""
    if isinstance(tokens[0], np.ndarray) and kind == "Sequence":
        images = np.asarray(tokens)
        picture = draw_plot(plot_word, images, predicted[:TOKENS], gold[:TOKENS], paper=True)
    if not picture:
        names = [_name_of(i, token) for i, token in enumerate(tokens)]
        picture = marked_tokens(names, (gold, predicted))
    note = ""
    if len(gold) > TOKENS:
        note = html.paragraph(f"and {len(gold) - TOKENS} more tokens.", soft=True)
    return html.example(f"{kind} {title}", picture, note, reasons(explain))


def _name_of(i: int, token: str | dict | Sequence) -> str:
    """Return the name of a token: the word itself, its first string entry, or its number."""
    entries: Iterable = token
    if isinstance(token, str):
        entries = [token]
    elif isinstance(token, dict):
        entries = token.values()
    name = next((entry for entry in entries if isinstance(entry, str)), str(i + 1))
    if len(name) > NAME:
        return name[: NAME - 1] + "…"
    return name


# ---- rows ----------------------------------------------------------------------------------------


def row_quality(model: Model, X: RowsLike, y: ArrayLike, n_worst: int) -> Quality:
    """Evaluate a model on rows with known outputs."""
    y = np.asarray(y)
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise InputError(
            f"y has shape {y.shape}, but predictions {predicted.shape}: give outputs of all rows."
        )
    if y.ndim == 2:
        return _quality_of_outputs(model, y, predicted)
    evaluate = _quality_of_numbers
    if is_classifier(model):
        evaluate = _quality_of_classes
    quality = evaluate(model, X, y, predicted, n_worst)
    if _are_training_rows(model, X):
        (first, score), *others = quality.tiles.items()
        quality.tiles = {f"{first} on training rows": score, **dict(others)}
    return quality


def _are_training_rows(model: Model, X: RowsLike) -> bool:
    """Return whether rows are those that a model was trained on.

    Models that do not keep all of them for their kernels cannot tell. Single rows tell nothing, as
    rows of discrete columns repeat.
    """
    if isinstance(model, BatchMKL):
        rows_of_model = getattr(model._model.source, "X", None)
        return isinstance(rows_of_model, np.ndarray) and np.array_equal(
            rows_of_model, np.asarray(X)
        )
    is_online = isinstance(model, OnlineEstimator) and bool(model.support_vectors_)
    if not is_online or not isinstance(X, np.ndarray):
        return False
    kernel, support_vectors = next(iter(model.support_vectors_.items()))
    if len(support_vectors) != len(X):
        return False
    encoder = model.model_.codec.encoder
    # each row is a sequence of one token
    encoded = encoder.encode(X, np.arange(len(X) + 1)).views[encoder.views[kernel].label]
    return np.allclose(_sorted_rows(encoded), _sorted_rows(support_vectors), rtol=1e-6)


def _sorted_rows(matrix: np.ndarray) -> np.ndarray:
    """Return rows (n, d) in lexicographic order: an online estimator does not keep theirs."""
    return matrix[np.lexsort(matrix.T)]


def _quality_of_classes(
    model: Model, X: RowsLike, y: np.ndarray, predicted: np.ndarray, n_worst: int
) -> Quality:
    """Evaluate predicted classes of rows; y and ``predicted`` are (n,)."""
    gold = y.tolist()
    predicted_labels = predicted.tolist()
    scores = evaluate_labels([gold], [predicted_labels])
    wrong = np.flatnonzero(y != predicted)
    tiles = {
        "accuracy": percent(scores["accuracy"]),
        "rows": number(len(y)),
        "wrong": number(len(wrong)),
    }
    quality = Quality(tiles, score_section("By class", scores["labels"], "label"))
    quality.sections += confusion_sections(gold, predicted_labels)
    has_probabilities = hasattr(model, "predict_proba")
    if has_probabilities:
        confidence = model.predict_proba(X).max(axis=1)
        quality.sections += calibration_sections("Calibration", y == predicted, confidence)
    else:
        confidence = _lead_of_best(model.decision_function(X))
    for i in wrong[np.argsort(-confidence[wrong], kind="stable")][:n_worst].tolist():
        label = gold[i]
        title = f"Row {i + 1}: {predicted_labels[i]} instead of {label}"
        if has_probabilities:
            title += f", with a probability of {confidence[i]:.1%}"
        why = ""
        if label in model.classes_.tolist():
            row = _safe_indexing(X, [i])
            why = reasons(partial(model.explain, row, label=predicted_labels[i], against=label))
        quality.worst.append(html.example(title, _entries(model, X, i), why))
    return quality


def _lead_of_best(scores: np.ndarray) -> np.ndarray:
    """Return how far the predicted class is ahead of the next best one, from (n,) or (n, K)."""
    if scores.ndim == 1:
        return np.abs(scores)
    return np.diff(np.sort(scores, axis=1)[:, -2:])[:, 0]


def _quality_of_numbers(
    model: Model, X: RowsLike, y: np.ndarray, predicted: np.ndarray, n_worst: int
) -> Quality:
    """Evaluate predicted numbers of rows; y and ``predicted`` are (n,)."""
    errors = np.abs(y - predicted)
    r2 = r2_score(y, predicted) if len(y) > 1 else None
    tiles = {
        R2: number(r2, 3),
        "RMSE": number(root_mean_squared_error(y, predicted)),
        "mean absolute error": number(mean_absolute_error(y, predicted)),
        "rows": number(len(y)),
    }
    caption = "Predictions against targets."
    plot = draw_plot(_scatter, y[:POINTS], predicted[:POINTS], caption=caption)
    quality = Quality(tiles, [plot])
    for i in np.argsort(-errors, kind="stable")[:n_worst].tolist():
        title = f"Row {i + 1}: {number(float(predicted[i]))} instead of {number(float(y[i]))}"
        why = reasons(partial(model.explain, _safe_indexing(X, [i])))
        quality.worst.append(html.example(title, _entries(model, X, i), why))
    return quality


def _quality_of_outputs(model: Model, y: np.ndarray, predicted: np.ndarray) -> Quality:
    """Evaluate several targets of a regressor, or multilabel predictions; arrays are (n, K)."""
    if is_classifier(model):
        is_gold = y != 0
        is_predicted = predicted != 0
        n_correct = (is_gold & is_predicted).sum(axis=0)
        counts = zip(is_gold.sum(axis=0), is_predicted.sum(axis=0), n_correct)
        scores_of_labels = records("label", dict(enumerate(counts)))
        sections = score_section("By output", scores_of_labels, "label")
        tiles = {"rows all right": percent(float(np.mean((y == predicted).all(axis=1))))}
    else:
        scores = r2_score(y, predicted, multioutput="raw_values")
        errors = np.abs(y - predicted).mean(axis=0)
        rows = zip(map(str, range(len(scores))), scores.tolist(), errors.tolist())
        header = ["target", R2, "mean absolute error"]
        sections = [html.heading("By output"), table(header, rows)]
        tiles = {f"{R2}, mean": number(float(np.mean(scores)), 3)}
    tiles["rows"] = number(len(y))
    return Quality(tiles, sections)


def _scatter(y: np.ndarray, predicted: np.ndarray) -> Axes:
    from sklearn.metrics import PredictionErrorDisplay

    ax = axes_for(None)
    look = {"s": 6, "color": COLOURS[0], "alpha": 0.7, "linewidths": 0}
    PredictionErrorDisplay(y_true=y, y_pred=predicted).plot(
        ax,
        kind="actual_vs_predicted",
        scatter_kwargs=look,
        line_kwargs={"color": GREY, "linewidth": 0.8},
    )
    return dress(ax, "", "prediction", "target")


def _entries(model: Model, X: RowsLike, i: int) -> str:
    """Show the first entries of a row; only nonzero entries if there are many."""
    row = _safe_indexing(X, [i])
    if isinstance(row, list):
        entries = list(row[0].items())
    else:
        if sparse.issparse(row):
            row = row.toarray()
        values = np.asarray(row, dtype=object).ravel().tolist()
        names = column_names_of(model) or [f"column {j}" for j in range(len(values))]
        entries = list(zip(names, values))
    if len(entries) > ENTRIES:
        entries = [(name, value) for name, value in entries if not _is_zero(value)]
    shown = []
    for name, value in entries[:ENTRIES]:
        text = f"{value!r:.40}"
        if isinstance(value, (int, float)):
            text = number(value)
        shown.append((name, text))
    return html.entries(shown, len(entries) - ENTRIES)


def _is_zero(value: object) -> bool:
    return isinstance(value, (int, float)) and value == 0


# ---- trees ---------------------------------------------------------------------------------------


def tree_quality(parser: omkl.DependencyParser, gold: Treebank, y: None, n_worst: int) -> Quality:
    """Evaluate a parser on gold sentences; it reads their other columns."""
    if not (gold.heads >= 0).any():
        raise InputError("No word has a head: give a treebank with trees to report on.")
    predicted = parser.parse(gold)
    quality = _compared(gold, predicted, ["trees"])
    quality.sections += _calibration(parser, gold, predicted)
    for i in _worst(gold, gold.heads != predicted.heads, n_worst):
        sentence = gold[i]
        other = predicted[i]
        n_wrong = sum(map(ne, sentence.heads, other.heads))
        explain = partial(parser.explain, sentence, heads=other.heads, against=sentence.heads)
        why = reasons(explain)
        title = f"Sentence {i + 1}: {n_wrong} of {len(sentence)} heads wrong"
        trees = html.wide(Markup(draw_tree(sentence, other)))
        quality.worst.append(html.example(title, trees, why))
    return quality


def data_of_part(
    annotator: omkl.Annotator, part: str, gold: Treebank
) -> tuple[Treebank | list, list | None]:
    """Return inputs and outputs of the model ``upos``, ``xpos`` or ``trees`` of an annotator.

    Trees have the tags of the annotator.
    """
    if part == "trees":
        if annotator.tagger_ is not None:
            gold = annotator.tagger_.annotate(gold)
        return gold, None
    if part not in ("upos", "xpos"):
        raise InputError(f"Only upos, xpos and trees can be measured on data, not {part!r}.")
    words, tags = zip(*(tagged(sentence, part) for sentence in gold))
    return list(words), list(tags)


def annotation_quality(annotator: omkl.Annotator, gold: Treebank, y: None, n_worst: int) -> Quality:
    """Evaluate an annotator on the words of gold sentences."""
    predicted = annotator.annotate(gold)
    quality = _compared(gold, predicted, annotator.parts_)
    labels = {}
    for column in annotator.columns_:
        if column not in ("heads", "deprels"):
            labels[column] = (strings_of(gold, column), strings_of(predicted, column))
    tags = labels.get("upos", labels.get("xpos"))
    if tags is not None:
        scores = evaluate_labels([tags[0]], [tags[1]])
        quality.sections += score_section("By tag", scores["labels"], "label")
        quality.sections += confusion_sections(*tags)
    has_trees = "trees" in annotator.parts_ and bool((gold.heads >= 0).any())
    wrong = np.zeros(gold.n_words, dtype=bool)
    if has_trees:
        wrong |= gold.heads != predicted.heads
        if annotator.parser_ is not None:
            quality.sections += _calibration(annotator.parser_, gold, predicted)
    for pair in labels.values():
        wrong |= np.array(list(map(ne, *pair)))
    for i in _worst(gold, wrong, n_worst):
        words = slice(*gold.offsets[i : i + 2])
        title = f"Sentence {i + 1}: {int(wrong[words].sum())} of {gold.lengths[i]} words wrong"
        pictures = []
        if labels:
            columns = [[strings[words] for strings in pair] for pair in labels.values()]
            pictures.append(marked_tokens(gold[i].forms, *columns))
        if has_trees:
            pictures.append(html.wide(Markup(draw_tree(gold[i], predicted[i]))))
        quality.worst.append(html.example(title, *pictures))
    return quality


def _calibration(parser: omkl.DependencyParser, gold: Treebank, predicted: Treebank) -> list[str]:
    """Plot the calibration of arcs in the first sentences; empty without probabilities."""
    if not hasattr(parser, "predict_marginals"):
        return []
    first = predicted[np.arange(min(len(predicted), CALIBRATED))]
    confidence = decoding.confidences(first, parser.predict_marginals(first))
    right = gold.heads[: first.n_words] == first.heads
    return calibration_sections("Calibration of arcs", right, confidence[decoding.HEAD_CONFIDENCE])


def _compared(gold: Treebank, predicted: Treebank, parts: Sequence[str]) -> Quality:
    """Make tiles of scores of predicted parts, and tables by relation and by length."""
    evaluation = evaluate_treebanks(gold, predicted)
    scores = {}
    for name, entry in SCORES.items():
        is_shown = PART_OF_SCORE.get(name, "trees") in parts and name != "AllTags"
        if is_shown and evaluation[entry] is not None:
            scores[name] = evaluation[entry]
    tiles = {}
    for name in ("UPOS", "Lemmas", "UAS", "LAS", "sentences whole"):
        if name in scores:
            tiles[name] = percent(scores[name])
    tiles["sentences"] = number(evaluation["sentences"])
    tiles["words"] = number(evaluation["words"])
    without_punctuation: Record = {}
    if "UAS" in scores:
        without_punctuation = evaluate_treebanks(gold, predicted, ignore="form")
    rows: list[list[object]] = []
    for name, score in scores.items():
        other = without_punctuation.get(SCORES[name])
        rows.append([name, percent_cell(score), percent_cell(other)])
    scores_table = table(["score", "all words", "without punctuation"], rows)
    sections = [html.heading("Scores of the CoNLL 2018 shared task"), scores_table]
    if evaluation["relations"]:
        sections += score_section("By relation", evaluation["relations"], "relation")
    if evaluation["lengths"]:
        sections += score_section("By length of the arc", evaluation["lengths"], "length")
    return Quality(tiles, sections)


def _worst(gold: Treebank, wrong: np.ndarray, n: int) -> list[int]:
    """Return the sentences with the most wrong words, among those short enough to be drawn."""
    n_wrong = np.add.reduceat(wrong.astype(np.int64), gold.offsets[:-1])
    return worst_first(np.where(gold.lengths <= DRAWN, n_wrong, 0), gold.lengths, n)
