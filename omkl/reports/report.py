"""The report on a model: one HTML page."""

from collections.abc import Callable, Mapping
from typing import Any

from omkl._components import check_number
from omkl._files import PathLike
from omkl.annotation.annotator import Annotator
from omkl.data import Treebank
from omkl.estimators.structured import StructuredPredictor
from omkl.estimators.validation import check_is_fitted
from omkl.exceptions import InputError, MissingDependencyError
from omkl.parsing.parser import DependencyParser
from omkl.reports.learned import learned_parts
from omkl.reports.markup import Section, html, page
from omkl.reports.plots.canvas import figure_for
from omkl.reports.quality import Quality
from omkl.reports.quality_rows import row_quality
from omkl.reports.quality_sequences import sequence_quality
from omkl.reports.quality_trees import annotation_quality, tree_quality
from omkl.reports.training import size_of, training_parts
from omkl.sequences.labeler import SequenceLabeler

#: Purposes of models by their classes.
PURPOSES = {
    "DependencyParser": "finds the dependency tree of a sentence",
    "Annotator": "tags the words of a sentence and finds its dependency tree",
    "SequenceLabeler": "gives every token of a sequence a label",
    "OnlineMKLClassifier": "gives a row one of several classes, by a combination of kernels learned online",
    "OnlineMKLRegressor": "predicts a number for a row, by a combination of kernels learned online",
    "MKLClassifier": "gives a row one of several classes, by a combination of kernels with a certificate",
    "MKLRegressor": "predicts a number for a row, by a combination of kernels with a certificate",
    "GroupLasso": "predicts a number for a row from the columns or groups of columns that it has selected",
    "SparseLogisticRegression": "gives a row a class by the columns or groups of columns that it has selected",
    "StructuredPredictor": "predicts outputs with a structure of its own",
}
NO_PICTURES = "It has no pictures, since matplotlib was not there: install it with 'pip install omkl[plot]'."
#: Examples to measure groups on; product of sentences and templates of parsers, and fewest sentences.
MEASURED, MEASURED_TEMPLATES, FEWEST = 500, 6000, 30


def make_report(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    title: str | None = None,
    files: Mapping[str, PathLike] | None = None,
    n_worst: int = 10,
) -> str:
    """A page about a fitted model, and about how good it is on data, as one HTML file that needs nothing else.

    It shows the weights of groups and the strongest features; with data also scores by label, relation or range and by
    length, calibration, and the worst mistakes with their reasons; and the history, settings, versions and checksums
    of the training. A click on a column's name sorts a table. The same model and data give the same bytes.

    Parameters
    ----------
    model : estimator
        Fitted, of any class.
    X, y : optional
        Data that it has not learned from: sequences and their labels; rows and their outputs; a treebank with gold
        trees alone, as :func:`omkl.data.read_treebank` returns it. Not for a :class:`~omkl.StructuredPredictor`.
    title : str, optional
        The heading; the class of the model by default.
    files : dict of str to path, optional
        Files to note with their checksums, by what they are, such as ``{"model": "model.npz"}``.
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
    kind = type(model).__name__
    if y is not None and (X is None or isinstance(X, Treebank)):
        raise InputError("y are the outputs of X, and a treebank has its own: give X beside y, or leave y out.")
    quality = Quality({}) if X is None else _quality_of(model, X, y)(model, X, y, n_worst)
    measured = None if X is None else _measured(model, X, y)
    purpose = PURPOSES.get(kind.removesuffix("CV"), "predicts")
    lead = [
        html.paragraph(f"This is a model of the class {kind} of omkl: it {purpose}."),
        html.tiles({**quality.tiles, **size_of(model)}),
    ]
    worst = quality.worst
    if worst:
        how = "Of the data that this page is about, those with the most or the surest mistakes."
        if any("<del>" in part for part in worst):
            how += " What is struck out is predicted, what stands beside it is right."
        worst = [html.paragraph(how), *worst]
    sections = [
        Section("learned", "What it learned", learned_parts(model, measured)),
        Section("quality", "How good it is", quality.parts),
        Section("worst", "What it gets most wrong", worst),
        Section("training", "How it was trained", training_parts(model, files or {})),
    ]
    foot = "Made by omkl report. This page is complete in itself: it asks for nothing from the network."
    return page(title or kind, lead, sections, foot if _can_draw() else f"{foot} {NO_PICTURES}")


def _can_draw() -> bool:
    try:
        figure_for(1.0, 1.0)
    except MissingDependencyError:
        return False
    return True


def _quality_of(model: Any, X: Any, y: Any) -> Callable[[Any, Any, Any, int], Quality]:
    """The function that measures a model on data of this kind."""
    if isinstance(model, (DependencyParser, Annotator)):
        if not isinstance(X, Treebank):
            raise InputError("A report on trees is on a treebank: read it by omkl.data.read_treebank.")
        own = tree_quality if isinstance(model, DependencyParser) else annotation_quality
        return lambda model, X, y, n_worst: own(model, X, n_worst)
    if isinstance(model, StructuredPredictor):
        raise InputError("A report on a StructuredPredictor has no part about data: make it without X.")
    if y is None:
        raise InputError("There are no outputs y: give them beside X.")
    return sequence_quality if isinstance(model, SequenceLabeler) else row_quality


def _measured(model: Any, X: Any, y: Any) -> list[dict[str, Any]] | None:
    """The report on groups on some of the data, where the model has one."""
    if not hasattr(model, "group_report"):
        return None
    n = MEASURED
    if isinstance(X, Treebank):
        n = MEASURED_TEMPLATES // max(len(model.templates_), 1)
        if n < FEWEST:
            return None
        return model.group_report(X[: min(n, len(X))])
    try:
        return model.group_report(X[:n], y[:n])
    except InputError:  # labels that the model does not know
        return None
