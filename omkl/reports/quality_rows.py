"""Quality of a classifier or a regressor on rows, and its worst mistakes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.utils import _safe_indexing

from omkl.estimators.validation import column_names_of
from omkl.exceptions import InputError
from omkl.reports.markup import drawn, html, number, percent, score_table, table
from omkl.reports.model import Model
from omkl.reports.quality import Quality, calibration_parts, confusion_parts, reasons
from omkl.sequences.evaluation import evaluate_labels, records

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points of a picture, and entries of a row that are shown.
POINTS, ENTRIES = 2000, 12
R2 = "R\N{SUPERSCRIPT TWO}"


def row_quality(model: Model, X: Any, y: Any, n_worst: int) -> Quality:
    """Measure a model on rows whose outputs are known."""
    y = np.asarray(y)
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise InputError(f"y has shape {y.shape}, but predictions {predicted.shape}: give outputs of all rows.")
    if y.ndim == 2:
        return _several(model, y, predicted)
    return (_classes if is_classifier(model) else _numbers)(model, X, y, predicted, n_worst)


def _classes(model: Model, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    gold, other = y.tolist(), predicted.tolist()
    found = evaluate_labels([gold], [other])
    parts = [html.heading("By class"), score_table(found["labels"], "label"), *confusion_parts(gold, other)]
    has_probabilities = hasattr(model, "predict_proba")
    sure = model.predict_proba(X).max(axis=1) if has_probabilities else _leads(model.decision_function(X))
    if has_probabilities:
        parts += calibration_parts("Calibration", y == predicted, sure)
    wrong = np.flatnonzero(y != predicted)
    known = set(model.classes_.tolist())
    worst = []
    for i in wrong[np.argsort(-sure[wrong], kind="stable")][:n_worst].tolist():
        title = f"Row {i + 1}: {other[i]} instead of {gold[i]}"
        title += f", with a probability of {sure[i]:.1%}" if has_probabilities else ""
        why = partial(model.explain, _safe_indexing(X, [i]), label=other[i], against=gold[i])
        worst.append(html.example(title, _entries(model, X, i), reasons(why) if gold[i] in known else ""))
    tiles = {"accuracy": percent(found["accuracy"]), "rows": number(len(y)), "wrong": number(len(wrong))}
    return Quality(tiles, parts, worst)


def _leads(scores: np.ndarray) -> np.ndarray:
    """Return the leads of predicted classes over the next ones."""
    return np.abs(scores) if scores.ndim == 1 else np.diff(np.sort(scores, axis=1)[:, -2:])[:, 0]


def _numbers(model: Model, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    errors = np.abs(y - predicted)
    tiles = {
        R2: number(r2_score(y, predicted) if len(y) > 1 else None, 3),
        "RMSE": number(root_mean_squared_error(y, predicted)),
        "mean absolute error": number(mean_absolute_error(y, predicted)),
        "rows": number(len(y)),
    }
    parts = [drawn(_scatter, y[:POINTS], predicted[:POINTS], caption="Predictions against targets.")]
    worst = []
    for i in np.argsort(-errors, kind="stable")[:n_worst].tolist():
        title = f"Row {i + 1}: {number(float(predicted[i]))} instead of {number(float(y[i]))}"
        worst.append(
            html.example(title, _entries(model, X, i), reasons(partial(model.explain, _safe_indexing(X, [i]))))
        )
    return Quality(tiles, parts, worst)


def _several(model: Model, y: np.ndarray, predicted: np.ndarray) -> Quality:
    """Measure several targets of a regressor, or labels that a row has or has not."""
    if is_classifier(model):
        counts = zip((y != 0).sum(axis=0), (predicted != 0).sum(axis=0), ((y != 0) & (predicted != 0)).sum(axis=0))
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

    from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress

    ax = axes_for(None)
    look = {"s": 6, "color": COLOURS[0], "alpha": 0.7, "linewidths": 0}
    PredictionErrorDisplay(y_true=y, y_pred=predicted).plot(
        ax, kind="actual_vs_predicted", scatter_kwargs=look, line_kwargs={"color": GREY, "linewidth": 0.8}
    )
    return dress(ax, "", "prediction", "target")


def _entries(model: Model, X: Any, i: int) -> str:
    """Show the first entries of a row, those that are not 0 where there are many."""
    row = _safe_indexing(X, [i])
    if isinstance(row, list):
        named = list(row[0].items())
    else:
        values = np.asarray(row.toarray() if sparse.issparse(row) else row, dtype=object).ravel().tolist()
        named = list(zip(column_names_of(model) or [f"column {j}" for j in range(len(values))], values))
    if len(named) > ENTRIES:
        named = [(name, value) for name, value in named if not isinstance(value, (int, float)) or value != 0]
    shown = [(name, number(v) if isinstance(v, (int, float)) else f"{v!r:.40}") for name, v in named[:ENTRIES]]
    return html.entries(shown, len(named) - ENTRIES)
