"""Scores along C or alpha, and along the number of templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress, note
from omkl.reports.plots.curves import plot_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Ratio of the largest to the smallest number of templates from which on the axis is logarithmic.
WIDE = 20


def plot_search(
    model: Any, *, ax: Axes | None = None, title: str = "", ylabel: str = "score", width: float | None = None
) -> Axes:
    """Draw the scores of cross-validation along C or alpha: each fold, their mean, and the value that was chosen.

    Parameters
    ----------
    model : MKLClassifierCV, MKLRegressorCV, GroupLassoCV or SparseLogisticRegressionCV
        That was fitted. The model fits closer from left to right.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    title, ylabel : str
    width : float, optional
        Inches of a new figure: 3.3 is a column of a paper.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If nothing was chosen by cross-validation.
    """
    if not hasattr(model, "scores_") or not hasattr(model, "cv_results_"):
        raise InputError(f"{type(model).__name__} has chosen nothing by cross-validation: give an estimator that does.")
    ax = axes_for(ax, width)
    name = "C" if hasattr(model, "Cs_") else "alpha"
    values, chosen = getattr(model, f"{name}s_"), getattr(model, f"{name}_")
    dress(ax, xlabel=name, ylabel=ylabel)
    ax.set_xscale("log")
    ax.plot(values, model.scores_.T, color=GREY, linewidth=0.7, alpha=0.6)
    means = np.array([record["mean_score"] for record in model.cv_results_], dtype=np.float64)
    ax.plot(values, means, color=COLOURS[0], linewidth=1.6)
    best = means[int(np.argmin(np.abs(np.log(values / chosen))))]
    ax.plot([chosen], [best], "o", color=COLOURS[1], markersize=5, zorder=3)
    ax.axvline(chosen, color=COLOURS[1], linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    if len(values) > 1:
        ax.set_xlim(values[0], values[-1])
    note(ax, f"{name} = {chosen:.3g}: {best:.4g} in the mean of {len(model.scores_)} folds", title)
    return ax


def plot_pruning(source: Any, *, ax: Axes | None = None, title: str = "", width: float | None = None) -> Axes:
    """Draw a pruning curve: the score of a parser with fewer templates.

    Parameters
    ----------
    source : list of dict, or dict of these
        Records of :func:`~omkl.reports.pruning_curve`; two standard errors to either side are a band. A dict compares
        several rankings, by their names.
    ax, title, width
        As for :func:`plot_search`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If these are no such records.
    """
    runs = source if isinstance(source, Mapping) else {"": source}
    curves, last = {}, []
    for name, records in runs.items():
        rows = records if isinstance(records, Sequence) else ()
        if not rows or not all(isinstance(row, Mapping) and {"templates", "score"} <= row.keys() for row in rows):
            raise InputError("A pruning curve has records with templates and score: pruning_curve makes them.")
        ordered = sorted(rows, key=lambda record: record["templates"])
        x, y = (np.array([record[key] for record in ordered], dtype=np.float64) for key in ("templates", "score"))
        error = 2 * np.array([record.get("standard_error") or 0.0 for record in ordered])
        curves[name] = (x, 100 * y, 100 * (y - error), 100 * (y + error))
        last.append((x[-1], y[-1]))
    sizes = np.concatenate([own[0] for own in curves.values()])
    log = "x" if sizes.max() > WIDE * sizes.min() else ""
    ax = plot_curves(curves, title=title, xlabel="templates", ylabel="right heads, %", log=log, ax=ax, width=width)
    ax.axhline(100 * max(last)[1], color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    if log:
        from matplotlib.ticker import LogLocator

        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter("")
    return ax
