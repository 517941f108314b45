"""How good a classifier or a regressor is on rows, and those that it gets most wrong."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from omkl.estimators import evaluate_labels
from omkl.estimators.counts import records
from omkl.exceptions import InputError
from omkl.reports import plots
from omkl.reports.markup import NOTHING, Cell, Markup, example, heading, number, paragraph, percent, table, text
from omkl.reports.quality import Quality, calibration_part, confusion_parts, drawn, reasons, score_table

#: Columns of a row that may be an image.
PIXELS = 64
#: Points of a picture, and entries of a row that are shown.
POINTS, ENTRIES = 2000, 12
#: Ranges of targets that errors are told for, with as many rows in each.
RANGES = 10


def row_quality(model: Any, X: Any, y: Any, n_worst: int) -> Quality:
    """What a model makes of rows whose outputs are known."""
    y = np.asarray(y)
    if y.ndim not in (1, 2) or not len(y):
        raise InputError("y must be an array (n,), or (n, K) for K targets or labels, of one row at least.")
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise InputError(f"y has shape {y.shape}, but predictions {predicted.shape}: give what the model predicts.")
    if y.ndim == 2:
        return _several(model, X, y, predicted, n_worst)
    labels = hasattr(model, "classes_") or isinstance(model, OutlierMixin)
    return (_classes if labels else _numbers)(model, X, y, predicted, n_worst)


def _classes(model: Any, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    gold, other = y.tolist(), predicted.tolist()
    found = evaluate_labels([gold], [other])
    parts = [heading("By class"), score_table(found["labels"], "label"), *confusion_parts(gold, other)]
    sure = _confidence(model, X)
    if sure is not None and hasattr(model, "predict_proba"):
        parts += [heading("Calibration"), calibration_part(y == predicted, sure)]
    wrong = np.flatnonzero(y != predicted)
    order = wrong if sure is None else wrong[np.argsort(-sure[wrong], kind="stable")]
    known = set(getattr(model, "classes_", np.zeros(0)).tolist())  # none of a detector of outliers
    worst = []
    for i in order[:n_worst].tolist():
        title = f"Row {i + 1}: {other[i]} instead of {gold[i]}"
        if sure is not None and hasattr(model, "predict_proba"):
            title += f", with a probability of {sure[i]:.1%}"
        chosen = {"label": other[i], "against": gold[i]} if known else {}
        why = partial(model.explain, _row(X, i), **chosen)
        worst.append(example(title, _entries(model, X, i), reasons(why) if gold[i] in known or not known else ""))
    tiles = {"accuracy": percent(found["accuracy"]), "rows": number(len(y)), "wrong": number(len(wrong))}
    return Quality(tiles, parts, worst)


def _confidence(model: Any, X: Any) -> np.ndarray | None:
    """How sure a model is of each prediction: its probability, else by how much it is ahead of the next."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)).max(axis=1)
    scores = np.asarray(model.decision_function(X))
    if scores.ndim == 1:
        return np.abs(scores)
    ranked = np.sort(scores, axis=1)
    return ranked[:, -1] - ranked[:, -2] if scores.shape[1] > 1 else None


def _numbers(model: Any, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    errors = np.abs(y - predicted)
    tiles = {
        "R\N{SUPERSCRIPT TWO}": number(r2_score(y, predicted), 3) if len(y) > 1 else NOTHING,
        "RMSE": number(float(np.sqrt(mean_squared_error(y, predicted)))),
        "mean absolute error": number(mean_absolute_error(y, predicted)),
        "rows": number(len(y)),
    }
    chosen = np.unique(np.linspace(0, len(y) - 1, min(POINTS, len(y))).astype(int))
    caption = "Predictions (upright) against targets; on the line they agree."
    rows = []
    for own in np.array_split(np.argsort(y, kind="stable"), min(RANGES, len(y))):
        low, high = float(y[own].min()), float(y[own].max())
        bias = float(np.mean(predicted[own] - y[own]))
        name = Cell(f"{low:.4g} to {high:.4g}", low)
        rows.append([name, len(own), float(errors[own].mean()), Cell(f"{bias:+.4g}", bias)])
    parts = [
        drawn(_scatter, y[chosen], predicted[chosen], caption=caption),
        heading("By target"),
        table(["targets", "rows", "mean absolute error", "mean of prediction less target"], rows),
    ]
    worst = [
        example(
            f"Row {i + 1}: {number(float(predicted[i]))} instead of {number(float(y[i]))}", _entries(model, X, i),
            reasons(partial(model.explain, _row(X, i))),
        )
        for i in np.argsort(-errors, kind="stable")[:n_worst].tolist() if errors[i] > 0
    ]  # fmt: skip
    return Quality(tiles, parts, worst)


def _several(model: Any, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    """Several targets of a regressor, or labels that a row has or has not."""
    tiles: dict[str, Any] = {"rows": number(len(y)), "outputs": number(y.shape[1])}
    if hasattr(model, "classes_"):
        counts = zip((y != 0).sum(axis=0), (predicted != 0).sum(axis=0), ((y != 0) & (predicted != 0)).sum(axis=0))
        shown = score_table(records("label", {k: row for k, row in enumerate(counts)}), "label")
        wrong = (y != predicted).astype(np.float64)
        tiles["rows all right"] = percent(float(np.mean(~wrong.any(axis=1))))
    else:
        wrong = np.abs(y - predicted) / np.maximum(y.std(axis=0), 1e-300)
        rows = [
            [str(k), float(r2_score(own, found)), float(np.abs(own - found).mean())]
            for k, (own, found) in enumerate(zip(y.T, predicted.T))
        ]
        shown = table(["target", "R\N{SUPERSCRIPT TWO}", "mean absolute error"], rows)
        tiles["R\N{SUPERSCRIPT TWO}, mean"] = number(float(np.mean([row[1] for row in rows])), 3)
    order = np.argsort(-wrong.sum(axis=1), kind="stable")[:n_worst]
    worst = []
    for i in order[wrong[order].any(axis=1)].tolist():
        k = int(wrong[i].argmax())
        title = f"Row {i + 1}: output {k} is {number(predicted[i, k].item())} instead of {number(y[i, k].item())}"
        worst.append(example(title, _entries(model, X, i), reasons(partial(model.explain, _row(X, i), target=k))))
    return Quality(tiles, [heading("By output"), shown], worst)


def _scatter(y: np.ndarray, predicted: np.ndarray) -> Any:
    from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress

    ax = axes_for(None)
    ends = [min(y.min(), predicted.min()), max(y.max(), predicted.max())]
    ax.plot(ends, ends, color=GREY, linewidth=0.8)
    ax.scatter(y, predicted, s=6, color=COLOURS[0], alpha=0.7, linewidths=0)
    return dress(ax, "", "target", "prediction")


def _row(X: Any, i: int) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[i]
    return X[[i]] if hasattr(X, "tocsr") else X[i]


def _entries(model: Any, X: Any, i: int) -> str:
    """An image, where a row is like one; or its first entries, those that are not 0 where there are many."""
    row = _row(X, i)
    if (
        isinstance(row, np.ndarray)
        and len(row) >= PIXELS
        and row.min() >= 0
        and not hasattr(model, "feature_names_in_")
    ):
        picture = drawn(plots.plot_word, row[None], [""], width=1.1, paper=True)
        if picture:
            return picture
    if isinstance(row, dict):
        named = list(row.items())
    else:
        values = np.asarray(row.toarray()[0] if hasattr(row, "toarray") else row, dtype=object).ravel()
        names: Sequence[Any] = getattr(model, "feature_names_in_", [f"column {j}" for j in range(len(values))])
        named = list(zip(names, values.tolist()))
    if len(named) > ENTRIES:
        named = [(name, value) for name, value in named if not isinstance(value, (int, float)) or value != 0]
    shown = [f"<span class=feature>{text(name)} = {text(_short(value))}</span>" for name, value in named[:ENTRIES]]
    more = f"and {len(named) - ENTRIES} more" if len(named) > ENTRIES else ""
    return paragraph(Markup(" ".join([*shown, more])), soft=True)


def _short(value: Any) -> str:
    if isinstance(value, (int, float)):
        return number(value)
    return f"{value!r:.40}" if isinstance(value, str) else f"{type(value).__name__} of {np.size(value)}"
