"""The report on a model: one HTML page."""

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

#: Examples that groups are measured on; of parsers, sentences times templates, and the fewest sentences.
MEASURED, MEASURED_TEMPLATES, FEWEST = 500, 6000, 30


def make_report(
    model: Model | omkl.Annotator,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    n_worst: int = 10,
) -> str:
    """A page about a fitted model, and about how good it is on data, as one HTML file that needs nothing else.

    It shows the weights of groups and the strongest features; with data also scores by label, relation or range and by
    length, calibration, and the worst mistakes with their reasons; and the history and settings of the training, and
    versions. A click on a column's name sorts a table. The same model and data give the same bytes.

    Parameters
    ----------
    model : estimator
        Fitted, of any class.
    X, y : optional
        Data that it has not learned from: sequences and their labels; rows and their outputs; a treebank with gold
        trees alone, as :func:`omkl.data.read_treebank` returns it. Not for a :class:`~omkl.StructuredPredictor`.
    title : str, optional
        The heading; the class of the model by default.
    n_worst : int >= 0
        Number of the worst mistakes to show.

    Returns
    -------
    str
        HTML. Pictures are in it if matplotlib is installed; else its foot says that they are missing.

    Raises
    ------
    omkl.exceptions.InputError
        If the data are not as described, or y is given without X or beside a treebank.

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
    """Say that the page needs nothing else, and why it has no pictures."""
    foot = "Made by omkl report. This page loads nothing from the network."
    try:
        figure_for(1.0, 1.0)
    except MissingDependencyError:
        return f"{foot} It has no pictures, since matplotlib is missing: install it with 'pip install omkl[plot]'."
    return foot


def _quality(model: Model | omkl.Annotator, X: Any, y: Any, n_worst: int) -> Quality:
    """Measure a model on data of its kind."""
    if isinstance(model, (omkl.DependencyParser, omkl.Annotator)):
        if not isinstance(X, Treebank):
            raise InputError("A report on trees is on a treebank: read it by omkl.data.read_treebank.")
        own = tree_quality if isinstance(model, omkl.DependencyParser) else annotation_quality
        return own(model, X, n_worst)
    if isinstance(model, StructuredPredictor) or y is None:
        raise InputError("A report on X needs its outputs y, and a model that is no StructuredPredictor.")
    return (sequence_quality if isinstance(model, omkl.SequenceLabeler) else row_quality)(model, X, y, n_worst)


def _measured(model: Model | omkl.Annotator, X: Any, y: Any) -> list[dict[str, Any]] | None:
    """Return the report on groups on some of the data, where the model has one and knows all labels."""
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
