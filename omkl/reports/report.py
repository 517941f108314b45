"""HTML report on a model, and its sections about learned parameters and training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from importlib.metadata import version
from inspect import signature
from itertools import chain
from typing import Any

import numpy as np
from sklearn.base import is_classifier

import omkl
from omkl._components import check_number
from omkl._messages import shown
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.persistence import check_is_fitted
from omkl.estimators.validation import encoded_columns
from omkl.exceptions import InputError, MissingDependencyError
from omkl.linear.base import SparseLinear
from omkl.mkl.base import BatchMKL
from omkl.online.examiners.evidence import beyond_chance
from omkl.reports.markup import (
    ENVIRONMENT,
    Cell,
    Model,
    Record,
    details,
    drawn,
    html,
    number,
    percent,
    shares,
    table,
)
from omkl.reports.plots.canvas import figure_for
from omkl.reports.plots.curves import plot_guarantee, plot_history
from omkl.reports.plots.shapes import plot_shapes
from omkl.reports.plots.weights import plot_group_weights, plot_weights
from omkl.reports.quality import (
    Quality,
    annotation_quality,
    data_of_part,
    row_quality,
    sequence_quality,
    tree_quality,
)

#: Number of examples to evaluate groups on; for parsers, sentences times templates, and minimum
#: number of sentences.
MEASURED, MEASURED_TEMPLATES, FEWEST = 500, 6000, 30
#: Functions that evaluate a model on data, by the kind of its examples.
QUALITIES: dict[str | None, Callable[..., Quality]] = dict.fromkeys(
    ("sequences", "graphs"), sequence_quality
)
QUALITIES |= {"rows": row_quality, "trees": tree_quality, "annotations": annotation_quality}
#: Maximum number of features per label, and of labels, and number of strongest features to choose
#: from.
FEATURES, LABELS, CHOSEN_FROM = 8, 60, 20_000
#: Maximum number of features of a model without labels.
MOST = 40
#: Packages whose versions are listed.
PACKAGES = ("omkl", "numpy", "scipy", "scikit-learn", "numba")


def make_report(
    model: Any, X: object = None, y: object = None, *, title: str | None = None, n_worst: int = 10
) -> str:
    """Make a self-contained HTML page about a fitted model and its quality on data.

    The page shows the weights of groups, the strongest features, training history, parameters and
    versions. With data, it also shows scores by label, relation or range and by length,
    calibration, explanations of the worst mistakes, and the effects of columns for kernels on
    single columns. Tables can be sorted by clicking on column names. The same model and data give
    bitwise the same page.

    Parameters
    ----------
    model : estimator
        Fitted estimator of any class; for a :class:`~omkl.CheckedModel`, the page also shows what
        can be accepted.
    X, y : optional
        Held-out data: sequences and labels, rows and outputs, or for X alone a treebank with gold
        trees, from
        :func:`omkl.data.read_treebank`. Not for :class:`~omkl.StructuredPredictor`.
    title : str, optional
        Title of the page; the class of the model by default.
    n_worst : int >= 0
        Number of worst mistakes to show.

    Returns
    -------
    str
        HTML. Includes plots if matplotlib is installed; otherwise the footer tells that they are
        missing.

    Raises
    ------
    omkl.exceptions.InputError
        If the data is invalid, or y is given without X or with a treebank.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from omkl import MKLClassifier
    >>> from omkl.reports import make_report
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MKLClassifier(["linear", "gaussian"]).fit(X[::2], y[::2])
    >>> html = make_report(model, X[1::2], y[1::2])
    >>> html.startswith("<!DOCTYPE html>"), "http://" in html.replace("http://www.w3.org/", "")
    (True, False)
    """
    check_is_fitted(model)
    accepted = []
    if isinstance(model, omkl.CheckedModel):
        accepted, model = (
            [drawn(plot_guarantee, model, caption="Error of accepted outputs, and a bound.")],
            model.model,
        )
    check_number("n_worst", n_worst, above=-1, integer=True)
    if y is not None and (X is None or isinstance(X, Treebank)):
        raise InputError(
            "y are the outputs of X, and a treebank has its own: give X beside y, or leave y out."
        )
    quality = Quality({})
    if X is not None:
        has_trees = model.example_kind in ("trees", "annotations")
        if has_trees and not isinstance(X, Treebank):
            raise InputError(
                "A report on trees is on a treebank: read it by omkl.data.read_treebank."
            )
        if not has_trees and (model.example_kind not in QUALITIES or y is None):
            raise InputError(
                "A report on X needs its outputs y, and does not support StructuredPredictor."
            )
        quality = QUALITIES[model.example_kind](model, X, y, n_worst)
    foot = "Made by omkl report. This page loads nothing from the network."
    try:
        figure_for(1.0, 1.0)
    except MissingDependencyError:
        foot += " It has no pictures, since matplotlib is missing: install it with 'pip install omkl[plot]'."
    how = html.paragraph(
        "The examples with the most or the surest mistakes. Wrong predictions are struck out."
    )
    return ENVIRONMENT.get_template("page.html").render(
        title=title or type(model).__name__,
        lead=[html.tiles({**quality.tiles, **size_of(model)})],
        sections={
            "What it learned": [*learned_parts(model, X, y), *_effects(model, X)],
            "How good it is": quality.parts,
            "What can be accepted": accepted,
            "What it gets most wrong": [how, *quality.worst] if quality.worst else [],
            "How it was trained": training_parts(model),
        },
        foot=foot,
    )


def models_of(model: Model | omkl.Annotator) -> dict[str, Any]:
    """Return the models of an annotator by name; any other model has no name."""
    return model.models() if model.example_kind == "annotations" else {"": model}


def learned_parts(model: Model | omkl.Annotator, X: Any = None, y: Any = None) -> list[str]:
    """Show the sections that a model, or each model of an annotator, has about what it learned.

    Models of the lemmas and the morphology of a tag are shown only as a table.
    """
    parts: list[str] = []
    for name, own in models_of(model).items():
        if " of " in name:
            parts += _weight_table(own, name=name)
            continue
        measured = None
        if X is not None and "worth" in own.report_sections:
            measured = _measured(own, *(data_of_part(model, name, X) if name else (X, y)))
        for section in own.report_sections:
            parts += SECTIONS[section](own, measured, f" of {name}" if name else "")
    return parts


def _effects(model: Model, X: Any) -> list[str]:
    """Draw the effects of columns over rows, for a model with kernels on single columns."""
    if X is None or not hasattr(model, "shapes"):
        return []
    try:
        shapes = model.shapes(X)
    except InputError:  # it has kernels on several columns
        return []
    caption = (
        "What each column adds to the score, the strongest first; grey: how often values occur."
    )
    return [
        html.heading("Effects of columns"),
        drawn(lambda own: plot_shapes(own).axes[0], shapes, caption=caption),
    ]


def _measured(model: Model, X: Any, y: Any) -> list[Record] | None:
    """Return the group report on a part of the data; None if that is too small, or has labels that
    are unknown.
    """
    n = MEASURED
    if isinstance(X, Treebank):
        n = MEASURED_TEMPLATES // max(len(model.templates_), 1)
        return model.group_report(X[: min(n, len(X))]) if n >= FEWEST else None
    try:
        return model.group_report(X[:n], y[:n])
    except InputError:
        return None


def _worth(model: Model, measured: list[Record] | None, of: str) -> list[str]:
    """Plot the increase of the loss without each group; empty if it is unknown."""
    caption = "Increase of the loss without each group, plus or minus two standard errors."
    heading = html.heading(f"What each group{of} is worth")
    return [heading, drawn(plot_weights, measured, caption=caption)] if measured else []


def _weights(model: Model, measured: list[Record] | None, of: str) -> list[str]:
    """Plot the weights of groups."""
    heading = [html.heading(f"Weights{of}")] if of else []
    return [
        *heading,
        drawn(plot_weights, model, caption="Weights of the groups, the heaviest first."),
    ]


def _evidence(model: OnlineEstimator | BatchMKL, *_: object) -> list[str]:
    """List the groups that were left out, and the evidence for each group, and say whether any is
    beyond chance.
    """
    parts, evidence = [], model.evidence_
    if model.left_out_:
        parts.append(
            html.paragraph(
                f"Left out, as they do not help on new examples: {', '.join(model.left_out_)}."
            )
        )
    if not evidence or len(evidence) < 2:
        return parts
    level, ranked = (
        beyond_chance(len(evidence)),
        sorted(evidence.items(), key=lambda pair: -pair[1]),
    )
    n = sum(score > level for score in evidence.values())
    text = f"On new examples, {n} of {len(evidence)} groups help beyond chance (evidence above {level:.2g})."
    if n == 0:
        text += " The weights may be due to chance."
    return [
        *parts,
        html.paragraph(text),
        details("Evidence for each group", table(["group", "evidence"], ranked)),
    ]


def _weight_table(
    model: OnlineEstimator | BatchMKL, *_: object, name: str = "All weights"
) -> list[str]:
    """List the weights of groups."""
    ranked = sorted(model.kernel_weights_.items(), key=lambda pair: -pair[1])
    rows = [[group, Cell(percent(weight), weight)] for group, weight in ranked]
    return [details(name, table(["group", "weight"], rows))]


def _group_table(model: OnlineEstimator, measured: list[Record] | None, of: str) -> list[str]:
    """List weights and sizes of groups, and the loss without each group if it is known."""
    names = ["group", "weight", "norm", "bytes_share"]
    if measured:
        names += ["loss_without", "loss_increase", "standard_error"]
    first = "loss_increase" if measured else "weight"
    ranked = sorted(measured or model.group_report_, key=lambda record: -(record[first] or 0.0))
    header = [name.replace("_share", "").replace("_", " ") for name in names]
    return [
        details(
            "All groups",
            table(header, shares(ranked, names, ("weight", "bytes_share")), limit=1000),
        )
    ]


def _scales(model: omkl.OnlineMKLClassifier | BatchMKL, *_: object) -> list[str]:
    """List the learned scales of columns, if the model has any."""
    rows = [[name, *scale] for name, scale in model.column_scales_.items()]
    return [
        details(
            "Scales of standardized columns",
            table(["column", "mean", "standard deviation"], rows, 1000),
        )
    ]


def _features(model: OnlineEstimator, *_: object) -> list[str]:
    """Show the strongest features, by label if there are labels."""
    found = model.top_features(CHOSEN_FROM)
    if not found:
        return []
    if "label" not in found[0]:
        rows = [
            [f["feature"], f["group"], Cell(f"{f['weight']:+.3g}", f["weight"])]
            for f in found[:MOST]
        ]
        return [html.heading("Strongest features"), table(["feature", "group", "weight"], rows)]
    by_label = defaultdict(list)
    for f in found:
        by_label[f["label"]].append(f)
    rows = []
    for label, own in sorted(by_label.items(), key=lambda pair: str(pair[0])):
        sides = ([f for f in own if side * f["weight"] > 0][:FEATURES] for side in (1, -1))
        rows.append([str(label), *map(html.features, sides)])
    heading = html.heading("Strongest features by label")
    return [heading, table(["label", "speak for it", "speak against it"], rows, LABELS)]


def _coefficients(model: SparseLinear, *_: object) -> list[str]:
    """Show the largest coefficients of a linear model."""
    coefficients = np.atleast_2d(model.coef_)
    names = encoded_columns(model) or [f"column {j}" for j in range(coefficients.shape[1])]
    order = np.argsort(-np.abs(coefficients), axis=None, kind="stable")[:MOST]
    pairs = zip(*np.unravel_index(order, coefficients.shape))
    rows = [[names[j], int(k), coefficients[k, j]] for k, j in pairs if coefficients[k, j] != 0]
    count = f"{number(int(np.count_nonzero(coefficients)))} of {number(coefficients.size)} coefficients are not zero."
    return [
        html.heading("Coefficients"),
        html.paragraph(count),
        table(["column", "output", "coefficient"], rows),
    ]


#: Sections about what a model learned, by their names in ``report_sections`` of estimators.
SECTIONS: dict[str, Callable[[Any, list[Record] | None, str], list[str]]] = {
    "worth": _worth,
    "weights": _weights,
    "coefficients": _coefficients,
    "evidence": _evidence,
    "kernels": _weight_table,
    "groups": _group_table,
    "scales": _scales,
    "features": _features,
}


def training_parts(model: Model | omkl.Annotator) -> list[str]:
    """Show history, settings and versions."""
    parts = []
    for name, own in models_of(model).items():
        if own.history_ and " of " not in name:
            records, names = own.history_, list(dict.fromkeys(chain.from_iterable(own.history_)))
            parts += [html.heading(f"Training of {name}")] if name else []
            if "epoch" in names:
                changes = ", ".join(
                    f"{row:,}" for record in records for row in record.get("changes", ())
                )
                note = f" The stream changed before the rows {changes} (dashed)." if changes else ""
                parts.append(
                    drawn(plot_history, records, caption=f"The loss along the training.{note}")
                )
                parts.append(
                    drawn(
                        plot_group_weights,
                        records,
                        caption="Weights of the groups along the training.",
                    )
                )
            else:
                parts.append(
                    drawn(
                        plot_history,
                        records,
                        "gap",
                        caption="The duality gap along the iterations.",
                    )
                )
            names = [name for name in names if ":" not in name]
            parts.append(
                details("All records", table(names, [list(map(own.get, names)) for own in records]))
            )
    parts = parts or [html.paragraph("The model file holds no history of the training.", soft=True)]
    versions = table(["program", "version"], [[name, version(name)] for name in PACKAGES])
    return [*parts, html.heading("Settings"), _settings(model), html.heading("Versions"), versions]


def _settings(model: Model | omkl.Annotator) -> str:
    """List non-default parameters, and all parameters."""
    header, usual = ["parameter", "value"], signature(type(model)).parameters
    parameters = {name: shown(value, 300) for name, value in model.get_params(deep=False).items()}
    own = [
        (name, value)
        for name, value in parameters.items()
        if value != shown(usual[name].default, 300)
    ]
    changed = (
        table(header, own) if own else html.paragraph("All parameters have their default values.")
    )
    return changed + details("All parameters", table(header, parameters.items()))


def size_of(model: Model | omkl.Annotator) -> dict[str, str]:
    """Return the sizes of a model."""
    if model.example_kind == "annotations":
        return {"parts": number(len(model.kernel_weights_))}
    tiles = {}
    if is_classifier(model) or model.example_kind in ("sequences", "graphs"):
        tiles["labels"] = number(len(model.classes_))
    if "coefficients" not in model.report_sections:
        weights = list(model.kernel_weights_.values())
        tiles["groups in use"] = f"{number(sum(map(bool, weights)))} of {number(len(weights))}"
    if "features" in model.report_sections:
        tiles["memory to predict"] = f"{model.memory_usage()['prediction']:.3g} MB"
    else:
        tiles["duality gap"] = number(float(np.max(model.dual_gap_)), 2)
    return tiles
