"""Quality of a model on data, and its worst mistakes, for sequences, rows, trees and annotations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.utils import _safe_indexing

import omkl
from omkl.annotation.tagger import confidences
from omkl.data import Graph, Treebank
from omkl.data.treebank.strings import MISSING
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.explanations import Explanation
from omkl.estimators.validation import column_names_of
from omkl.exceptions import InputError
from omkl.mkl.base import BatchMKL
from omkl.mkl.rows import RowsLike
from omkl.parsing import decoding
from omkl.parsing.evaluation import evaluate_treebanks
from omkl.parsing.sentences import strings_of
from omkl.reports.markup import (
    Cell,
    Model,
    details,
    draw_tree,
    drawn,
    html,
    number,
    percent,
    score_table,
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
#: Maximum number of tokens of an example, and of letters of a token.
TOKENS, NAME = 120, 24
#: Maximum number of points of a plot, and of entries of a row.
POINTS, ENTRIES = 2000, 12
R2 = "R\N{SUPERSCRIPT TWO}"
#: Columns that an annotator predicts, by the name of their score, and titles of all scores.
WRITTEN = {"UPOS": "upos", "XPOS": "xpos", "UFeats": "feats", "Lemmas": "lemmas"}
SCORES = {name: name.lower() for name in (*WRITTEN, "UAS", "LAS", "CLAS", "MLAS", "BLEX")}
SCORES |= {"LAS with subtypes": "las_subtypes", "sentences whole": "whole"}
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
    parts : list of str
        HTML of tables and plots.
    worst : list of str
        HTML of the worst mistakes.
    """

    tiles: dict[str, str]
    parts: list[str] = field(default_factory=list)
    worst: list[str] = field(default_factory=list)


def confusion_parts(gold: Sequence, predicted: Sequence) -> list[str]:
    """Make a plot of the confusions of labels, and a table of the most frequent ones."""
    mistakes = Counter((own, other) for own, other in zip(gold, predicted) if own != other)
    if not mistakes:
        return []
    n_gold, rows = Counter(gold), []
    for (own, other), times in mistakes.most_common(CONFUSIONS):
        share = times / n_gold[own] if n_gold[own] else None
        rows.append([str(own), str(other), times, Cell(percent(share), share)])
    caption = "Predicted labels (columns) by gold labels (rows)."
    common = table(["gold", "predicted", "times", "share of gold"], rows)
    return [
        drawn(plot_confusion, gold, predicted, caption=caption),
        details("The commonest mistakes", common),
    ]


def calibration_parts(heading: str, right: np.ndarray, confidence: np.ndarray) -> list[str]:
    """Make a plot of the accuracy of predictions by their probability."""
    caption = "Share of right predictions by the probability that the model gives them."
    return [html.heading(heading), drawn(plot_calibration, right, confidence, caption=caption)]


def worst_first(wrong: np.ndarray, size: np.ndarray, n: int) -> list[int]:
    """Return the examples with the most mistakes; shorter examples come first among equals."""
    order = np.lexsort((size, -wrong))[:n]
    return [i for i in order.tolist() if wrong[i] > 0]


def reasons(explain: Callable[[], Explanation]) -> str:
    """Make tables of the contributions of groups and features to a prediction; empty if these are
    unknown.
    """
    try:
        why = explain()
    except InputError:
        return ""
    title = f"Why: ahead of the right one by {number(why.margin, 3)}"
    if why.against is None:
        title = f"Why: the parts that add up to {number(why.margin, 4)}"
    groups = [[name, Cell(f"{value:+.3g}", value)] for name, value in why.strongest_groups(REASONS)]
    single = []
    for f in why.features[:REASONS]:
        place = f["feature"] if f["token"] is None else f"{f['feature']} at {f['token']}"
        single.append([place, f["group"], Cell(f"{f['adds']:+.3g}", f["adds"])])
    return details(
        title, table(["group", "adds"], groups), table(["strongest parts", "group", "adds"], single)
    )


def marked_tokens(tokens: Sequence[str], *columns: tuple[Sequence, Sequence]) -> str:
    """Make tokens with labels below them; wrong labels are struck through and followed by the gold
    labels.

    Parameters
    ----------
    tokens : sequence of n str
    *columns : (sequence, sequence)
        n gold and n predicted labels. Correct labels are shown for the first column only.
    """
    words = []
    for token, *labels in zip(tokens, *(list(zip(*column)) for column in columns)):
        shown = [labels[0], *((gold, other) for gold, other in labels[1:] if gold != other)]
        words.append((token, any(gold != other for gold, other in labels), shown))
    return html.tokens(words)


# ---- sequences -----------------------------------------------------------------------------------


def sequence_quality(
    labeler: omkl.SequenceLabeler | omkl.GraphLabeler, X: Sequence, y: Sequence, n_worst: int
) -> Quality:
    """Evaluate a labeler on sequences or graphs; those with a label None are skipped."""
    y = [labels.ravel() if isinstance(labels, np.ndarray) else labels for labels in y]
    kept = [i for i, labels in enumerate(y) if not any(label is None for label in labels)]
    X, gold = [X[i] for i in kept], [np.asarray(y[i], dtype=object).tolist() for i in kept]
    if not X:
        raise InputError("No sequence has all its labels: give some to report on.")
    predicted = [labels.tolist() for labels in labeler.predict(X)]
    found = evaluate_labels(gold, predicted)
    lengths = np.array(list(map(len, gold)))
    wrong = np.array(
        [sum(own != other for own, other in zip(*pair)) for pair in zip(gold, predicted)]
    )
    flat = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    tiles = {
        "right labels": percent(found["accuracy"]),
        "sequences all right": percent(found["sequence_accuracy"]),
    }
    parts = [html.heading("By label"), score_table(found["labels"], "label")]
    if found["entities"] is not None:
        tiles["F1 of entities"] = percent(found["entity_f1"])
        parts += [html.heading("By type of entity"), score_table(found["entities"], "type")]
    tiles |= {"sequences": number(found["sequences"]), "tokens": number(found["tokens"])}
    parts += confusion_parts(*flat)
    if hasattr(labeler, "predict_marginals"):
        right = np.array([own == other for own, other in zip(*flat)])
        parts += calibration_parts(
            "Calibration", right, np.concatenate(confidences(labeler, X, predicted))
        )
    worst = []
    for i in worst_first(wrong, lengths, n_worst):
        is_graph = isinstance(X[i], Graph)
        x, shown = (X[i].nodes if is_graph else X[i])[:TOKENS], ""
        if isinstance(x[0], np.ndarray) and not is_graph:
            shown = drawn(
                plot_word, np.asarray(x), predicted[i][:TOKENS], gold[i][:TOKENS], paper=True
            )
        shown = shown or marked_tokens(
            [_name_of(k, token) for k, token in enumerate(x)], (gold[i], predicted[i])
        )
        n_more = len(gold[i]) - TOKENS
        title = f"{'Graph' if is_graph else 'Sequence'} {kept[i] + 1}: {wrong[i]} of {len(gold[i])} wrong"
        more = html.paragraph(f"and {n_more} more tokens.", soft=True) if n_more > 0 else ""
        why = partial(labeler.explain, X[i], labels=predicted[i], against=gold[i])
        worst.append(html.example(title, shown, more, reasons(why)))
    return Quality(tiles, parts, worst)


def _name_of(i: int, token: str | dict | Sequence) -> str:
    """Return the name of a token: the word itself, its first string entry, or its number."""
    entries = (
        [token] if isinstance(token, str) else token.values() if isinstance(token, dict) else token
    )
    name = next((entry for entry in entries if isinstance(entry, str)), str(i + 1))
    return name if len(name) <= NAME else name[: NAME - 1] + "…"


# ---- rows ----------------------------------------------------------------------------------------


def row_quality(model: Model, X: object, y: object, n_worst: int) -> Quality:
    """Evaluate a model on rows with known outputs."""
    y = np.asarray(y)
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise InputError(
            f"y has shape {y.shape}, but predictions {predicted.shape}: give outputs of all rows."
        )
    if y.ndim == 2:
        return _several(model, y, predicted)
    quality = (_classes if is_classifier(model) else _numbers)(model, X, y, predicted, n_worst)
    if _are_training_rows(model, X):
        (first, score), *others = quality.tiles.items()
        quality.tiles = {f"{first} on training rows": score, **dict(others)}
    return quality


def _are_training_rows(model: Model, X: object) -> bool:
    """Return whether rows are those that a model was trained on, if it keeps all of them for its
    kernels.

    Single rows tell nothing, as rows of discrete columns repeat.
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
    encoded = encoder.encode(X, np.arange(len(X) + 1)).views[encoder.views[kernel].label]
    return np.allclose(_sorted_rows(encoded), _sorted_rows(support_vectors), rtol=1e-6)


def _sorted_rows(matrix: np.ndarray) -> np.ndarray:
    """Return rows (n, d) in lexicographic order: an online estimator does not keep theirs."""
    return matrix[np.lexsort(matrix.T)]


def _classes(
    model: Model, X: RowsLike, y: np.ndarray, predicted: np.ndarray, n_worst: int
) -> Quality:
    gold, other = y.tolist(), predicted.tolist()
    found = evaluate_labels([gold], [other])
    parts = [
        html.heading("By class"),
        score_table(found["labels"], "label"),
        *confusion_parts(gold, other),
    ]
    has_probabilities = hasattr(model, "predict_proba")
    if has_probabilities:
        sure = model.predict_proba(X).max(axis=1)
        parts += calibration_parts("Calibration", y == predicted, sure)
    else:  # how far the predicted class is ahead of the next best one
        scores = model.decision_function(X)
        sure = (
            np.abs(scores) if scores.ndim == 1 else np.diff(np.sort(scores, axis=1)[:, -2:])[:, 0]
        )
    wrong = np.flatnonzero(y != predicted)
    known = set(model.classes_.tolist())
    worst = []
    for i in wrong[np.argsort(-sure[wrong], kind="stable")][:n_worst].tolist():
        title = f"Row {i + 1}: {other[i]} instead of {gold[i]}"
        title += f", with a probability of {sure[i]:.1%}" if has_probabilities else ""
        why = partial(model.explain, _safe_indexing(X, [i]), label=other[i], against=gold[i])
        worst.append(
            html.example(title, _entries(model, X, i), reasons(why) if gold[i] in known else "")
        )
    tiles = {
        "accuracy": percent(found["accuracy"]),
        "rows": number(len(y)),
        "wrong": number(len(wrong)),
    }
    return Quality(tiles, parts, worst)


def _numbers(
    model: Model, X: RowsLike, y: np.ndarray, predicted: np.ndarray, n_worst: int
) -> Quality:
    errors = np.abs(y - predicted)
    tiles = {
        R2: number(r2_score(y, predicted) if len(y) > 1 else None, 3),
        "RMSE": number(root_mean_squared_error(y, predicted)),
        "mean absolute error": number(mean_absolute_error(y, predicted)),
        "rows": number(len(y)),
    }
    parts = [
        drawn(_scatter, y[:POINTS], predicted[:POINTS], caption="Predictions against targets.")
    ]
    worst = []
    for i in np.argsort(-errors, kind="stable")[:n_worst].tolist():
        title = f"Row {i + 1}: {number(float(predicted[i]))} instead of {number(float(y[i]))}"
        why = partial(model.explain, _safe_indexing(X, [i]))
        worst.append(html.example(title, _entries(model, X, i), reasons(why)))
    return Quality(tiles, parts, worst)


def _several(model: Model, y: np.ndarray, predicted: np.ndarray) -> Quality:
    """Evaluate several targets of a regressor, or multilabel predictions."""
    if is_classifier(model):
        counts = zip(
            (y != 0).sum(axis=0),
            (predicted != 0).sum(axis=0),
            ((y != 0) & (predicted != 0)).sum(axis=0),
        )
        shown = score_table(records("label", dict(enumerate(counts))), "label")
        tiles = {"rows all right": percent(float(np.mean((y == predicted).all(axis=1))))}
    else:
        scores = r2_score(y, predicted, multioutput="raw_values")
        errors = np.abs(y - predicted).mean(axis=0)
        rows = zip(map(str, range(len(scores))), scores.tolist(), errors.tolist())
        shown = table(["target", R2, "mean absolute error"], rows)
        tiles = {f"{R2}, mean": number(float(np.mean(scores)), 3)}
    return Quality({**tiles, "rows": number(len(y))}, [html.heading("By output"), shown])


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
        named = list(row[0].items())
    else:
        values = (
            np.asarray(row.toarray() if sparse.issparse(row) else row, dtype=object)
            .ravel()
            .tolist()
        )
        named = list(
            zip(column_names_of(model) or [f"column {j}" for j in range(len(values))], values)
        )
    if len(named) > ENTRIES:
        named = [
            (name, value)
            for name, value in named
            if not isinstance(value, (int, float)) or value != 0
        ]
    shown = [
        (name, number(v) if isinstance(v, (int, float)) else f"{v!r:.40}")
        for name, v in named[:ENTRIES]
    ]
    return html.entries(shown, len(named) - ENTRIES)


# ---- trees ---------------------------------------------------------------------------------------


def tree_quality(parser: omkl.DependencyParser, gold: Treebank, y: None, n_worst: int) -> Quality:
    """Evaluate a parser on gold sentences; it reads their other columns."""
    predicted = parser.parse(gold)
    quality = _compared(gold, predicted, [name for name in SCORES if name not in WRITTEN])
    quality.parts += _calibration(parser, gold, predicted)
    for i in _worst(gold, gold.heads != predicted.heads, n_worst):
        sentence, other = gold[i], predicted[i]
        n_wrong = sum(own != head for own, head in zip(sentence.heads, other.heads))
        why = ""
        if None not in sentence.heads:
            why = reasons(
                partial(parser.explain, sentence, heads=other.heads, against=sentence.heads)
            )
        title = f"Sentence {i + 1}: {n_wrong} of {len(sentence)} heads wrong"
        quality.worst.append(
            html.example(title, html.wide(Markup(draw_tree(sentence, other))), why)
        )
    return quality


def data_of_part(annotator: Any, part: str, gold: Treebank) -> tuple[Any, list | None]:
    """Return inputs and outputs of the model ``upos``, ``xpos`` or ``trees`` of an annotator; trees
    have its tags.
    """
    if part == "trees":
        return gold if annotator.tagger_ is None else annotator.tagger_.annotate(gold), None
    if part not in ("upos", "xpos"):
        raise InputError(f"Only upos, xpos and trees can be measured on data, not {part!r}.")
    tags = [
        [None if tag == MISSING else tag for tag in getattr(sentence, part)] for sentence in gold
    ]
    return [sentence.forms for sentence in gold], tags


def annotation_quality(annotator: omkl.Annotator, gold: Treebank, y: None, n_worst: int) -> Quality:
    """Evaluate an annotator on the words of gold sentences."""
    predicted = annotator.annotate(gold)
    trees = "trees" in annotator.parts_ and bool((gold.heads >= 0).any())
    quality = _compared(
        gold, predicted, [n for n in SCORES if WRITTEN.get(n, "trees") in annotator.parts_]
    )
    columns = [name for name in annotator.columns_ if name not in ("heads", "deprels")]
    labels = {name: (strings_of(gold, name), strings_of(predicted, name)) for name in columns}
    wrong = gold.heads != predicted.heads if trees else np.zeros(gold.n_words, dtype=bool)
    for pair in labels.values():
        wrong |= np.array([own != other for own, other in zip(*pair)])
    tag = next((name for name in ("upos", "xpos") if name in columns), None)
    if tag is not None:
        records = evaluate_labels(*([side] for side in labels[tag]))["labels"]
        quality.parts += [
            html.heading("By tag"),
            score_table(records, "label"),
            *confusion_parts(*labels[tag]),
        ]
    if trees and annotator.parser_ is not None:
        quality.parts += _calibration(annotator.parser_, gold, predicted)
    for i in _worst(gold, wrong, n_worst):
        sentence, own = gold[i], slice(*gold.offsets[i : i + 2])
        tokens = marked_tokens(
            sentence.forms, *((right[own], found[own]) for right, found in labels.values())
        )
        title = f"Sentence {i + 1}: {int(wrong[own].sum())} of {len(sentence)} words wrong"
        picture = html.wide(Markup(draw_tree(sentence, predicted[i]))) if trees else ""
        quality.worst.append(html.example(title, tokens if columns else "", picture))
    return quality


def _calibration(parser: omkl.DependencyParser, gold: Treebank, predicted: Treebank) -> list[str]:
    """Plot the calibration of arcs in the first sentences; empty without probabilities."""
    if not hasattr(parser, "predict_marginals"):
        return []
    some = predicted[np.arange(min(len(predicted), CALIBRATED))]
    sure = decoding.confidences(some, parser.predict_marginals(some))[decoding.HEAD_CONFIDENCE]
    return calibration_parts("Calibration of arcs", gold.heads[: some.n_words] == some.heads, sure)


def _compared(gold: Treebank, predicted: Treebank, names: list[str]) -> Quality:
    """Make tiles of scores, and tables by relation and by length."""
    found = evaluate_treebanks(gold, predicted)
    known = {name: found[SCORES[name]] for name in names if found[SCORES[name]] is not None}
    first = [name for name in ("UPOS", "Lemmas", "UAS", "LAS", "sentences whole") if name in known]
    tiles = {str(name): percent(known[name]) for name in first}
    tiles |= {"sentences": number(found["sentences"]), "words": number(found["words"])}
    without = evaluate_treebanks(gold, predicted, ignore="form") if "UAS" in known else {}
    cells = {name: [known[name], without.get(SCORES[name])] for name in known}
    rows = [[name, *(Cell(percent(value), value) for value in own)] for name, own in cells.items()]
    scores = table(["score", "all words", "without punctuation"], rows)
    parts = [html.heading("Scores of the CoNLL 2018 shared task"), scores]
    if found["relations"]:
        parts += [html.heading("By relation"), score_table(found["relations"], "relation")]
    if found["lengths"]:
        parts += [html.heading("By length of the arc"), score_table(found["lengths"], "length")]
    return Quality(tiles, parts)


def _worst(gold: Treebank, wrong: np.ndarray, n: int) -> list[int]:
    """Return the sentences with the most wrong words, among sentences that are short enough to be
    drawn.
    """
    counts = np.add.reduceat(wrong.astype(np.int64), gold.offsets[:-1])
    return worst_first(np.where(gold.lengths <= DRAWN, counts, 0), gold.lengths, n)
