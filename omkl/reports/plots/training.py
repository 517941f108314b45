"""Losses along training, and the duality gap of batch solvers against time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import GREY, whole_numbers
from omkl.reports.plots.curves import plot_curves
from omkl.reports.plots.sources import progress_of, records_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Entries of records to draw by default, the first that there is, with their labels.
LOSSES = {"loss": "mean loss before each update", "objective": "objective", "primal": "primal objective"}
#: Smallest gap on the logarithmic axis.
LEAST = 1e-16


def plot_history(
    source: Any, of: str | None = None, *, ax: Axes | None = None, title: str = "", width: float | None = None
) -> Axes:
    """Draw a number that training records, as the loss, along epochs, examples or iterations.

    Parameters
    ----------
    source : estimator, list of dict, callback, or dict of these
        An estimator that was trained, its ``history_``, or a callback that keeps records. A dict compares several of
        them, by their names.
    of : str, optional
        Which entry of the records: ``"loss"`` by default, or ``"objective"``, ``"primal"``, ``"error"``,
        ``"validation_score"``, ``"active"``, ``"rate"``, ``"seconds"``, ...
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    title : str
    width : float, optional
        Inches of a new figure: 3.3 is a column of a paper.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If there are no records, or none has this entry.

    Examples
    --------
    >>> ax = plot_history([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.2}])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('epoch', 'mean loss before each update')
    """
    runs = _runs(source)
    if of is None:
        of = next((name for name in LOSSES if all(name in own[0] for own in runs.values())), "loss")
    curves, xlabel = {}, ""
    for name, records in runs.items():
        x, xlabel = progress_of(records)
        known = [k for k, record in enumerate(records) if record.get(of) is not None]
        if not known:
            numbers = [key for key, value in records[0].items() if isinstance(value, (int, float)) and ":" not in key]
            raise InputError(f"No record tells {of!r}: they have {', '.join(numbers)}.")
        curves[name] = (x[known], np.array([records[k][of] for k in known], dtype=np.float64))
    ax = plot_curves(
        curves, title=title, xlabel=xlabel, ylabel=LOSSES.get(of, of.replace("_", " ")), ax=ax, width=width
    )
    return whole_numbers(ax)


def plot_gap(
    source: Any,
    *,
    along: str = "auto",
    tol: float | None = None,
    ax: Axes | None = None,
    title: str = "",
    width: float | None = None,
) -> Axes:
    """Draw how the relative duality gap of a batch solver closed, against time or iterations.

    Each of several problems has a curve.

    Parameters
    ----------
    source : estimator, list of dict, or dict of these
        A batch estimator that was fitted, its ``history_``, or a solution of a solver. A dict compares several of them,
        by their names.
    along : {"auto", "seconds", "iteration"}
        "auto" is seconds where the records have them; those of a saved model have iterations alone.
    tol : float, optional
        A gap to mark: that of an estimator by default.
    ax, title, width
        As for :func:`plot_history`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If the records tell no gap.
    """
    if along not in ("auto", "seconds", "iteration"):
        raise InputError(f'along must be "auto", "seconds" or "iteration", not {along!r}.')
    curves, runs = {}, _runs(source)
    if along == "auto":
        told = all("seconds" in record for records in runs.values() for record in records)
        along = "seconds" if told else "iteration"
    for name, records in runs.items():
        if not all("gap" in record and along in record for record in records):
            raise InputError("These records tell no duality gap: those of batch estimators do.")
        for problem, own in _by_problem(records).items():
            x, gaps = (np.array([record[key] for record in own], dtype=np.float64) for key in (along, "gap"))
            gaps = np.where(np.isfinite(gaps), np.maximum(gaps, LEAST), np.nan)
            curves[f"{name} {problem}".strip() if problem else name] = (x, gaps)
    ax = plot_curves(
        curves,
        title=title,
        xlabel="seconds" if along == "seconds" else "iterations",
        ylabel="relative duality gap",
        log="y",
        ax=ax,
        width=width,
    )
    if along == "iteration":
        whole_numbers(ax)
    tol = getattr(source, "tol", None) if tol is None else tol
    if tol is not None:
        ax.axhline(tol, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    return ax


def _runs(source: Any) -> dict[str, Sequence[dict[str, Any]]]:
    """Records by the names of runs; the name is empty where there is only one."""
    if isinstance(source, Mapping):
        if not source:
            raise InputError("There is nothing to draw: the dict is empty.")
        return {str(name): records_of(own) for name, own in source.items()}
    return {"": records_of(source)}


def _by_problem(records: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        found.setdefault(f"problem {record['problem']}" if "problem" in record else "", []).append(record)
    return found
