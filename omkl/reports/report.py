"""HTML report on a model, and its sections about learned parameters and training."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from importlib.metadata import version
from inspect import signature
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import is_classifier

import omkl
from omkl._components import check_number
from omkl._messages import shown
from omkl.annotation.tagger import is_for_some_words
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
    Data,
    Model,
    Outputs,
    Record,
    details,
    draw_plot,
    html,
    number,
    percent_cell,
    rows_with_percentages,
    signed_cell,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omkl.mkl.shapes import Shapes

#: A model that a report is about.
AnyModel: TypeAlias = "Model | omkl.Annotator"
#: Number of examples to evaluate groups on.
MEASURED = 500
#: For parsers, number of sentences times templates to evaluate groups on.
MEASURED_TEMPLATES = 6000
#: Minimum number of sentences to evaluate groups on.
FEWEST = 30
#: Functions that evaluate a model on data, by the kind of its examples.
QUALITIES: dict[str | None, Callable[..., Quality]] = dict.fromkeys(
    ("sequences", "graphs"), sequence_quality
)
QUALITIES |= {"rows": row_quality, "trees": tree_quality, "annotations": annotation_quality}
#: Number of strongest features to choose from.
CHOSEN_FROM = 20_000
#: Maximum number of features for a label and against it.
FEATURES = 8
#: Maximum number of labels with features.
LABELS = 60
#: Maximum number of features of a model without labels.
MOST = 40
#: Packages whose versions are listed.
PACKAGES = ("omkl", "numpy", "scipy", "scikit-learn", "numba")


def make_report(
    model: AnyModel | omkl.CheckedModel,
    X: Data | None = None,
    y: Outputs | None = None,
    *,
    title: str | None = None,
    n_worst: int = 10,
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
        caption = "Error of accepted outputs, and a bound."
        accepted = [draw_plot(plot_guarantee, model, caption=caption)]
        model = model.model
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
        foot += (
            " It has no pictures, since matplotlib is missing: "
            "install it with 'pip install omkl[plot]'."
        )
    mistakes = []
    if quality.worst:
        explanation = html.paragraph(
            "The examples with the most or the surest mistakes. Wrong predictions are struck out."
        )
        mistakes = [explanation, *quality.worst]
    return ENVIRONMENT.get_template("page.html").render(
        title=title or type(model).__name__,
        lead=[html.tiles({**quality.tiles, **size_of(model)})],
        sections={
            "What it learned": [*learned_parts(model, X, y), *_effects(model, X)],
            "How good it is": quality.sections,
            "What can be accepted": accepted,
            "What it gets most wrong": mistakes,
            "How it was trained": training_parts(model),
        },
        foot=foot,
    )


def models_of(model: AnyModel) -> dict[str, Any]:
    """Return the models of an annotator by name; any other model has no name."""
    if model.example_kind == "annotations":
        return model.models()
    return {"": model}


def learned_parts(model: AnyModel, X: Data | None = None, y: Outputs | None = None) -> list[str]:
    """Show the sections that a model, or each model of an annotator, has about what it learned.

    Models of the lemmas and the morphology of a tag are shown only as a table.
    """
    sections: list[str] = []
    for name, part in models_of(model).items():
        if is_for_some_words(name):
            sections += _weight_table(part, name=name)
            continue
        measured = None
        if X is not None and "worth" in part.report_sections:
            if isinstance(model, omkl.Annotator) and isinstance(X, Treebank):
                measured = _measured(part, *data_of_part(model, name, X))
            else:
                measured = _measured(part, X, y)
        suffix = f" of {name}" if name else ""
        for section in part.report_sections:
            sections += SECTIONS[section](part, measured, suffix)
    return sections


def _effects(model: AnyModel, X: Data | None) -> list[str]:
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
    return [html.heading("Effects of columns"), draw_plot(_axes_of_shapes, shapes, caption=caption)]


def _axes_of_shapes(shapes: Shapes) -> Axes:
    """Plot shapes, and return the first axes of their figure."""
    return plot_shapes(shapes).axes[0]


def _measured(model: Model, X: Data, y: Outputs | None) -> list[Record] | None:
    """Return the group report on the first examples; None if they are few, or have new labels."""
    if y is None:  # a treebank
        n = MEASURED_TEMPLATES // max(len(model.templates_), 1)
        if n < FEWEST:
            return None
        return model.group_report(X[:n])
    try:
        return model.group_report(X[:MEASURED], y[:MEASURED])
    except InputError:
        return None


def _worth(model: Model, measured: list[Record] | None, of: str) -> list[str]:
    """Plot the increase of the loss without each group; empty if it is unknown."""
    if not measured:
        return []
    caption = "Increase of the loss without each group, plus or minus two standard errors."
    heading = html.heading(f"What each group{of} is worth")
    return [heading, draw_plot(plot_weights, measured, caption=caption)]


def _weights(model: Model, measured: list[Record] | None, of: str) -> list[str]:
    """Plot the weights of groups."""
    plot = draw_plot(plot_weights, model, caption="Weights of the groups, the heaviest first.")
    if not of:
        return [plot]
    return [html.heading(f"Weights{of}"), plot]


def _evidence(model: OnlineEstimator | BatchMKL, *_: object) -> list[str]:
    """List the groups left out, the evidence for each group, and whether it is beyond chance."""
    elements = []
    if model.left_out_:
        names = ", ".join(model.left_out_)
        elements.append(html.paragraph(f"Left out, as they do not help on new examples: {names}."))
    evidence = model.evidence_
    if not evidence or len(evidence) < 2:
        return elements
    level = beyond_chance(len(evidence))
    n = sum(score > level for score in evidence.values())
    text = (
        f"On new examples, {n} of {len(evidence)} groups help beyond chance "
        f"(evidence above {level:.2g})."
    )
    if n == 0:
        text += " The weights may be due to chance."
    ranked = sorted(evidence.items(), key=lambda pair: -pair[1])
    evidence_table = table(["group", "evidence"], ranked)
    return [*elements, html.paragraph(text), details("Evidence for each group", evidence_table)]


def _weight_table(
    model: OnlineEstimator | BatchMKL, *_: object, name: str = "All weights"
) -> list[str]:
    """List the weights of groups."""
    ranked = sorted(model.kernel_weights_.items(), key=lambda pair: -pair[1])
    rows = [[group, percent_cell(weight)] for group, weight in ranked]
    return [details(name, table(["group", "weight"], rows))]


def _group_table(model: OnlineEstimator, measured: list[Record] | None, of: str) -> list[str]:
    """List weights and sizes of groups, and the loss without each group if it is known."""
    names = ["group", "weight", "norm", "bytes_share"]
    rank_by = "weight"
    if measured:
        names += ["loss_without", "loss_increase", "standard_error"]
        rank_by = "loss_increase"
    ranked = sorted(measured or model.group_report_, key=lambda record: -(record[rank_by] or 0.0))
    rows = rows_with_percentages(ranked, names, ("weight", "bytes_share"))
    header = [name.replace("_share", "").replace("_", " ") for name in names]
    return [details("All groups", table(header, rows, limit=1000))]


def _scales(model: omkl.OnlineMKLClassifier | BatchMKL, *_: object) -> list[str]:
    """List the learned scales of columns, if the model has any."""
    rows = [[name, *scale] for name, scale in model.column_scales_.items()]
    scales = table(["column", "mean", "standard deviation"], rows, limit=1000)
    return [details("Scales of standardized columns", scales)]


def _features(model: OnlineEstimator, *_: object) -> list[str]:
    """Show the strongest features, by label if there are labels."""
    features = model.top_features(CHOSEN_FROM)
    if not features:
        return []
    if "label" not in features[0]:
        rows = []
        for feature in features[:MOST]:
            rows.append([feature["feature"], feature["group"], signed_cell(feature["weight"])])
        return [html.heading("Strongest features"), table(["feature", "group", "weight"], rows)]
    speaking_for: dict[Any, list[Record]] = defaultdict(list)
    speaking_against: dict[Any, list[Record]] = defaultdict(list)
    for feature in features:
        side = speaking_for if feature["weight"] > 0 else speaking_against
        side[feature["label"]].append(feature)
    rows = []
    for label in sorted({**speaking_for, **speaking_against}, key=str):
        sides = (speaking_for[label][:FEATURES], speaking_against[label][:FEATURES])
        rows.append([str(label), *map(html.features, sides)])
    heading = html.heading("Strongest features by label")
    return [heading, table(["label", "speak for it", "speak against it"], rows, LABELS)]


def _coefficients(model: SparseLinear, *_: object) -> list[str]:
    """Show the largest coefficients of a linear model."""
    coefficients = np.atleast_2d(model.coef_)
    names = encoded_columns(model) or [f"column {j}" for j in range(coefficients.shape[1])]
    order = np.argsort(-np.abs(coefficients), axis=None, kind="stable")[:MOST]
    indices = zip(*np.unravel_index(order, coefficients.shape))
    rows = [[names[j], int(k), coefficients[k, j]] for k, j in indices if coefficients[k, j] != 0]
    n_nonzero = number(int(np.count_nonzero(coefficients)))
    return [
        html.heading("Coefficients"),
        html.paragraph(f"{n_nonzero} of {number(coefficients.size)} coefficients are not zero."),
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


def training_parts(model: AnyModel) -> list[str]:
    """Show history, settings and versions."""
    elements = []
    for name, part in models_of(model).items():
        if part.history_ and not is_for_some_words(name):
            elements += _history(part.history_, name)
    if not elements:
        note = "The model file holds no history of the training."
        elements = [html.paragraph(note, soft=True)]
    versions = table(["program", "version"], [[name, version(name)] for name in PACKAGES])
    return [
        *elements,
        html.heading("Settings"),
        _settings(model),
        html.heading("Versions"),
        versions,
    ]


def _history(records: Sequence[Record], name: str) -> list[str]:
    """Plot and list the records of a training; ``name`` is that of the part of an annotator."""
    elements = []
    if name:
        elements.append(html.heading(f"Training of {name}"))
    entries = list(dict.fromkeys(chain.from_iterable(records)))
    if "epoch" in entries:
        caption = "The loss along the training."
        rows = chain.from_iterable(record.get("changes", ()) for record in records)
        changes = ", ".join(f"{row:,}" for row in rows)
        if changes:
            caption += f" The stream changed before the rows {changes} (dashed)."
        elements.append(draw_plot(plot_history, records, caption=caption))
        caption = "Weights of the groups along the training."
        elements.append(draw_plot(plot_group_weights, records, caption=caption))
    else:
        caption = "The duality gap along the iterations."
        elements.append(draw_plot(plot_history, records, "gap", caption=caption))
    columns = [entry for entry in entries if ":" not in entry]
    rows = [list(map(record.get, columns)) for record in records]
    return [*elements, details("All records", table(columns, rows))]


def _settings(model: AnyModel) -> str:
    """List non-default parameters, and all parameters."""
    header = ["parameter", "value"]
    defaults = signature(type(model)).parameters
    parameters = {name: shown(value, 300) for name, value in model.get_params(deep=False).items()}
    changed = []
    for name, value in parameters.items():
        if value != shown(defaults[name].default, 300):
            changed.append((name, value))
    summary = table(header, changed)
    if not changed:
        summary = html.paragraph("All parameters have their default values.")
    return summary + details("All parameters", table(header, parameters.items()))


def size_of(model: AnyModel) -> dict[str, str]:
    """Return the sizes of a model."""
    if model.example_kind == "annotations":
        return {"parts": number(len(model.kernel_weights_))}
    tiles = {}
    if is_classifier(model) or model.example_kind in ("sequences", "graphs"):
        tiles["labels"] = number(len(model.classes_))
    if "coefficients" not in model.report_sections:
        weights = list(model.kernel_weights_.values())
        n_used = sum(map(bool, weights))
        tiles["groups in use"] = f"{number(n_used)} of {number(len(weights))}"
    if "features" in model.report_sections:
        tiles["memory to predict"] = f"{model.memory_usage()['prediction']:.3g} MB"
    else:
        tiles["duality gap"] = number(float(np.max(model.dual_gap_)), 2)
    return tiles
