"""Quality of a classifier or a regressor on rows, and its worst mistakes."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from omkl.exceptions import InputError
from omkl.reports import plots
from omkl.reports.markup import Cell, html, number, percent, signed_cell, table
from omkl.reports.quality import Quality, calibration_part, confusion_parts, drawn, reasons, score_table
from omkl.sequences.evaluation import evaluate_labels, records

#: Columns of a row that may be an image.
PIXELS = 64
#: Points of a picture, and entries of a row that are shown.
POINTS, ENTRIES = 2000, 12
#: Ranges of targets, with as many rows in each.
RANGES = 10
R2 = "R\N{SUPERSCRIPT TWO}"


def row_quality(model: Any, X: Any, y: Any, n_worst: int) -> Quality:
    """Quality of a model on rows whose outputs are known."""
    y = np.asarray(y)
    if y.ndim not in (1, 2) or not len(y):
        raise InputError("y must be an array (n,), or (n, K) for K targets or labels, of one row at least.")
    predicted = np.asarray(model.predict(X))
    if predicted.shape != y.shape:
        raise InputError(f"y has shape {y.shape}, but predictions {predicted.shape}: give what the model predicts.")
    if y.ndim == 2:
        return _several(model, X, y, predicted, n_worst)
    return (_classes if hasattr(model, "classes_") else _numbers)(model, X, y, predicted, n_worst)


def _classes(model: Any, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    gold, other = y.tolist(), predicted.tolist()
    found = evaluate_labels([gold], [other])
    parts = [html.heading("By class"), score_table(found["labels"], "label"), *confusion_parts(gold, other)]
    has_probabilities, sure = hasattr(model, "predict_proba"), _confidence(model, X)
    if has_probabilities:
        parts += [html.heading("Calibration"), calibration_part(y == predicted, sure)]
    wrong = np.flatnonzero(y != predicted)
    known = set(model.classes_.tolist())
    worst = []
    for i in wrong[np.argsort(-sure[wrong], kind="stable")][:n_worst].tolist():
        title = f"Row {i + 1}: {other[i]} instead of {gold[i]}"
        title += f", with a probability of {sure[i]:.1%}" if has_probabilities else ""
        why = partial(model.explain, _row(X, i), label=other[i], against=gold[i])
        worst.append(html.example(title, _entries(model, X, i), reasons(why) if gold[i] in known else ""))
    tiles = {"accuracy": percent(found["accuracy"]), "rows": number(len(y)), "wrong": number(len(wrong))}
    return Quality(tiles, parts, worst)


def _confidence(model: Any, X: Any) -> np.ndarray:
    """Probabilities of predictions, else their leads over the next class."""
    if hasattr(model, "predict_proba"):
        return np.asarray(model.predict_proba(X)).max(axis=1)
    scores = np.asarray(model.decision_function(X))
    if scores.ndim == 1:
        return np.abs(scores)
    ranked = np.sort(scores, axis=1)
    return ranked[:, -1] - ranked[:, -2]


def _numbers(model: Any, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    errors = np.abs(y - predicted)
    tiles = {
        R2: number(r2_score(y, predicted) if len(y) > 1 else None, 3),
        "RMSE": number(root_mean_squared_error(y, predicted)),
        "mean absolute error": number(mean_absolute_error(y, predicted)),
        "rows": number(len(y)),
    }
    rows = []
    for own in np.array_split(np.argsort(y, kind="stable"), min(RANGES, len(y))):
        low, high = float(y[own].min()), float(y[own].max())
        bias = signed_cell(float(np.mean(predicted[own] - y[own])), 4)
        rows.append([Cell(f"{low:.4g} to {high:.4g}", low), len(own), float(errors[own].mean()), bias])
    chosen = np.unique(np.linspace(0, len(y) - 1, min(POINTS, len(y))).astype(int))
    parts = [
        drawn(_scatter, y[chosen], predicted[chosen], caption="Predictions against targets; on the line they agree."),
        html.heading("By target"),
        table(["targets", "rows", "mean absolute error", "mean of prediction less target"], rows),
    ]
    worst = []
    for i in np.argsort(-errors, kind="stable")[:n_worst].tolist():
        title = f"Row {i + 1}: {number(float(predicted[i]))} instead of {number(float(y[i]))}"
        if errors[i] > 0:
            worst.append(html.example(title, _entries(model, X, i), reasons(partial(model.explain, _row(X, i)))))
    return Quality(tiles, parts, worst)


def _several(model: Any, X: Any, y: np.ndarray, predicted: np.ndarray, n_worst: int) -> Quality:
    """Several targets of a regressor, or labels that a row has or has not."""
    tiles: dict[str, Any] = {"rows": number(len(y)), "outputs": number(y.shape[1])}
    if hasattr(model, "classes_"):
        counts = zip((y != 0).sum(axis=0), (predicted != 0).sum(axis=0), ((y != 0) & (predicted != 0)).sum(axis=0))
        shown = score_table(records("label", dict(enumerate(counts))), "label")
        wrong = (y != predicted).astype(np.float64)
        tiles["rows all right"] = percent(float(np.mean(~wrong.any(axis=1))))
    else:
        wrong = np.abs(y - predicted) / np.maximum(y.std(axis=0), 1e-300)
        scores = r2_score(y, predicted, multioutput="raw_values").tolist()
        errors = np.abs(y - predicted).mean(axis=0).tolist()
        shown = table(
            ["target", R2, "mean absolute error"], [[str(k), *row] for k, row in enumerate(zip(scores, errors))]
        )
        tiles[f"{R2}, mean"] = number(float(np.mean(scores)), 3)
    order = np.argsort(-wrong.sum(axis=1), kind="stable")[:n_worst]
    worst = []
    for i in order[wrong[order].any(axis=1)].tolist():
        k = int(wrong[i].argmax())
        title = f"Row {i + 1}: output {k} is {number(predicted[i, k].item())} instead of {number(y[i, k].item())}"
        why = reasons(partial(model.explain, _row(X, i), target=k))
        worst.append(html.example(title, _entries(model, X, i), why))
    return Quality(tiles, [html.heading("By output"), shown], worst)


def _scatter(y: np.ndarray, predicted: np.ndarray) -> Any:
    from sklearn.metrics import PredictionErrorDisplay

    from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress

    ax = axes_for(None)
    look = {"s": 6, "color": COLOURS[0], "alpha": 0.7, "linewidths": 0}
    PredictionErrorDisplay(y_true=predicted, y_pred=y).plot(
        ax, kind="actual_vs_predicted", scatter_kwargs=look, line_kwargs={"color": GREY, "linewidth": 0.8}
    )
    return dress(ax, "", "target", "prediction")


def _row(X: Any, i: int) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[i]
    return X[[i]] if hasattr(X, "tocsr") else X[i]


def _entries(model: Any, X: Any, i: int) -> str:
    """An image, where a row is like one; or its first entries, those that are not 0 where there are many."""
    row, names = _row(X, i), getattr(model, "feature_names_in_", None)
    if isinstance(row, np.ndarray) and len(row) >= PIXELS and row.min() >= 0 and names is None:
        picture = drawn(plots.plot_word, row[None], [""], width=1.1, paper=True)
        if picture:
            return picture
    if isinstance(row, dict):
        named = list(row.items())
    else:
        values = np.asarray(row.toarray()[0] if hasattr(row, "toarray") else row, dtype=object).ravel()
        names = [f"column {j}" for j in range(len(values))] if names is None else names
        named = list(zip(names, values.tolist()))
    if len(named) > ENTRIES:
        named = [(name, value) for name, value in named if not isinstance(value, (int, float)) or value != 0]
    return html.entries([(name, _short(value)) for name, value in named[:ENTRIES]], len(named) - ENTRIES)


def _short(value: Any) -> str:
    if isinstance(value, (int, float)):
        return number(value)
    return f"{value!r:.40}" if isinstance(value, str) else f"{type(value).__name__} of {np.size(value)}"
