"""HTML report on a model."""

from typing import Any

import omkl
from omkl._components import check_number
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.persistence import check_is_fitted
from omkl.estimators.structured import StructuredPredictor
from omkl.exceptions import InputError, MissingDependencyError
from omkl.reports.markup import ENVIRONMENT, html
from omkl.reports.model import Model, learned_parts, size_of, training_parts
from omkl.reports.plots.canvas import figure_for
from omkl.reports.quality import Quality, annotation_quality, row_quality, sequence_quality, tree_quality

#: Number of examples to evaluate groups on; for parsers, sentences times templates, and minimum number of sentences.
MEASURED, MEASURED_TEMPLATES, FEWEST = 500, 6000, 30


def make_report(
    model: Model | omkl.Annotator,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    n_worst: int = 10,
) -> str:
    """Make a self-contained HTML page about a fitted model and its quality on data.

    The page shows the weights of groups, the strongest features, training history, parameters and versions. With data,
    it also shows scores by label, relation or range and by length, calibration, and explanations of the worst mistakes.
    Tables can be sorted by clicking on column names. The same model and data give bitwise the same page.

    Parameters
    ----------
    model : estimator
        Fitted estimator of any class.
    X, y : optional
        Held-out data: sequences and labels, rows and outputs, or for X alone a treebank with gold trees, from
        :func:`omkl.data.read_treebank`. Not for :class:`~omkl.StructuredPredictor`.
    title : str, optional
        Title of the page; the class of the model by default.
    n_worst : int >= 0
        Number of worst mistakes to show.

    Returns
    -------
    str
        HTML. Includes plots if matplotlib is installed; otherwise the footer tells that they are missing.

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
    check_number("n_worst", n_worst, above=-1, integer=True)
    if y is not None and (X is None or isinstance(X, Treebank)):
        raise InputError("y are the outputs of X, and a treebank has its own: give X beside y, or leave y out.")
    quality = Quality({}) if X is None else _quality(model, X, y, n_worst)
    how = html.paragraph("The examples with the most or the surest mistakes. Wrong predictions are struck out.")
    return ENVIRONMENT.get_template("page.html").render(
        title=title or type(model).__name__,
        lead=[html.tiles({**quality.tiles, **size_of(model)})],
        sections={
            "What it learned": learned_parts(model, None if X is None else _measured(model, X, y)),
            "How good it is": quality.parts,
            "What it gets most wrong": [how, *quality.worst] if quality.worst else [],
            "How it was trained": training_parts(model),
        },
        foot=_foot(),
    )


def _foot() -> str:
    """Return the text of the footer: the page is self-contained, and why plots are missing."""
    foot = "Made by omkl report. This page loads nothing from the network."
    try:
        figure_for(1.0, 1.0)
    except MissingDependencyError:
        return f"{foot} It has no pictures, since matplotlib is missing: install it with 'pip install omkl[plot]'."
    return foot


def _quality(model: Model | omkl.Annotator, X: Any, y: Any, n_worst: int) -> Quality:
    """Evaluate a model on data of its kind."""
    if isinstance(model, (omkl.DependencyParser, omkl.Annotator)):
        if not isinstance(X, Treebank):
            raise InputError("A report on trees is on a treebank: read it by omkl.data.read_treebank.")
        own = tree_quality if isinstance(model, omkl.DependencyParser) else annotation_quality
        return own(model, X, n_worst)
    if isinstance(model, StructuredPredictor) or y is None:
        raise InputError("A report on X needs its outputs y, and does not support StructuredPredictor.")
    return (sequence_quality if isinstance(model, omkl.SequenceLabeler) else row_quality)(model, X, y, n_worst)


def _measured(model: Model | omkl.Annotator, X: Any, y: Any) -> list[dict[str, Any]] | None:
    """Return the group report on a part of the data; None if the model has none or does not know all labels."""
    if not isinstance(model, OnlineEstimator):
        return None
    n = MEASURED
    if isinstance(X, Treebank):
        n = MEASURED_TEMPLATES // max(len(model.templates_), 1)
        return model.group_report(X[: min(n, len(X))]) if n >= FEWEST else None
    try:
        return model.group_report(X[:n], y[:n])
    except InputError:
        return None
