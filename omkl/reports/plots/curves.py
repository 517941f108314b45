"""Plots of curves: named curves, training histories, and cross-validation scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from omkl._files import PathLike
from omkl.exceptions import InputError
from omkl.reports.plots.canvas import (
    COLOURS,
    GREY,
    MARK,
    axes_for,
    dress,
    figure_for,
    legend,
    shortened,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    import omkl
    from omkl.batch.solver import Solution
    from omkl.estimators.persistence import SavedEstimator
    from omkl.online.callbacks import ProgressiveValidation

Records = Sequence[dict[str, Any]]
#: An estimator, a callback or a solution with records, or its records.
Recorded: TypeAlias = "SavedEstimator | ProgressiveValidation | Solution | Records"
#: Entries for the x axis, with labels; the first one that all records have is the default.
PROGRESS = {
    "epoch": "epoch",
    "seconds": "seconds",
    "iteration": "iteration",
    "round": "rounds",
    "examples": "examples learned from",
}
#: Entries for the y axis, with labels; the first one in the records is the default.
LOSSES = {
    "loss": "mean loss before each update",
    "objective": "objective",
    "primal": "primal objective",
}
#: Labels of the y axis for these and the duality gap.
LABELS = {**LOSSES, "gap": "relative duality gap"}
#: Minimum on a logarithmic axis.
LEAST = 1e-16


def plot_curves(
    curves: Mapping[str, Sequence],
    path: PathLike | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    log: str = "",
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw named curves, with a legend if there are several.

    Parameters
    ----------
    curves : dict of str to (x, y) or (x, y, low, high)
        ``low`` and ``high`` are bounds of a band around the curve. Curves after the fifteenth are
        grey.
    path : path-like, optional
        Save the figure here, in the format of the suffix.
    title, xlabel, ylabel : str
    log : {"", "x", "y", "xy"}
        Axes with a logarithmic scale.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If there are no curves.
    """
    if not curves:
        raise InputError("There is nothing to draw: give at least one curve.")
    ax = axes_for(ax)
    styles = {name: style(k) for k, name in enumerate(curves)}
    _draw(ax, styles, curves, log, title=title, xlabel=xlabel, ylabel=ylabel)
    if len(curves) > 1:
        legend(ax)
    if path is not None:
        ax.figure.savefig(path, dpi=150)
    return ax


def plot_panels(
    rows: Sequence[Sequence[Mapping[str, Any]]], path: PathLike | None = None
) -> Figure:
    """Draw a grid of panels with named curves; equal names have equal colours.

    Parameters
    ----------
    rows : list of list of dict
        A list of panels for each row; rows have equal length. A panel is a dict of arguments of
        :func:`plot_curves`: ``curves``, ``title``, ``xlabel``, ``ylabel``, ``log``.
    path : path-like, optional
        Save the figure here.

    Returns
    -------
    matplotlib.figure.Figure
        With a legend below all panels.
    """
    figure = figure_for(4.0 * len(rows[0]) + 0.6, 3.0 * len(rows) + 0.4)
    grid = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    panels = list(chain.from_iterable(rows))
    names = dict.fromkeys(chain.from_iterable(panel["curves"] for panel in panels))
    styles = {}
    for k, name in enumerate(names):
        styles[name] = {**style(k), "marker": "osvD^xP*"[k % 8], "markersize": 3.5}
    handles: dict[str, Any] = {}
    for ax, panel in zip(grid.flat, panels):
        _draw(ax, styles, **panel)
        lines, labels = ax.get_legend_handles_labels()
        handles.update(zip(labels, lines))
    if len(handles) > 1 or grid.size > 1:
        longest = max(map(len, handles), default=1)
        # in points: a letter takes about 5.5, and the line and space of an entry 40
        columns = max(1, min(len(handles), int(figure.get_figwidth() * 72 / (5.5 * longest + 40))))
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=columns,
            fontsize="small",
            frameon=False,
        )
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw(
    ax: Axes,
    styles: Mapping[str, Mapping[str, Any]],
    curves: Mapping[str, Sequence],
    log: str = "",
    **labels: str,
) -> None:
    """Draw curves with these styles; ``labels`` are title, xlabel and ylabel."""
    dress(ax, **labels)
    for axis in log:
        ax.set(**{f"{axis}scale": "log"})
    for label, name in zip(shortened(curves), curves):
        x, y, *band = curves[name]
        ax.plot(x, y, label=label, linewidth=1.3, markevery=max(1, len(x) // 15), **styles[name])
        if band:
            ax.fill_between(x, *band, color=styles[name]["color"], alpha=0.18, linewidth=0)
    ax.margins(x=0.02)


def plot_history(
    source: Recorded | Mapping[str, Recorded],
    of: str | None = None,
    along: str | None = None,
    *,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw a recorded value of training over epochs, time or iterations.

    Dashed lines mark records in which a change of the stream was found.

    Parameters
    ----------
    source : estimator, list of dict, callback, or dict of these
        A fitted estimator, its ``history_``, or a callback with records. A dict compares several of
        these, by name.
    of : str, optional
        Entry of the records: ``"loss"`` by default, or ``"objective"``, ``"gap"`` (with a
        logarithmic axis, and a curve for each problem), ``"error"``, ``"validation_score"``,
        ``"active"``, ``"rate"``, ...
    along : {"epoch", "seconds", "iteration", "round", "examples"}, optional
        By default the first of these that all records of all runs have, but the number of examples
        if a run has several records of an epoch.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.

    Raises
    ------
    omkl.exceptions.InputError
        If there are no records, none has this entry, or the runs share no entry for the x axis.

    Examples
    --------
    >>> ax = plot_history([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.2}])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('epoch', 'mean loss before each update')
    """
    runs = _runs_of(source)
    if of is None:
        of = _recorded_loss(runs)
    if along is None:
        along = shared_progress(runs)
    log = "y" if of == "gap" else ""
    curves = {}
    xlabel = ""
    changes: list[float] = []
    for name, records in runs.items():
        x, xlabel = progress_of(records, along)
        changes += [position for position, record in zip(x, records) if record.get("changes")]
        values = [record.get(of) for record in records]
        has_value = np.array([value is not None for value in values])
        if not has_value.any():
            names = ", ".join(_names_of_numbers(records[0]))
            raise InputError(f"No record has an entry {of!r}, only {names}.")
        y = np.array(values, dtype=np.float64)[has_value]
        if log:
            y = np.maximum(y, LEAST)
        curves[name] = x[has_value], y
    ylabel = LABELS.get(of, of.replace("_", " "))
    ax = plot_curves(curves, title=title, xlabel=xlabel, ylabel=ylabel, log=log, ax=ax)
    for position in changes:
        ax.axvline(position, **MARK)
    return ax


def _runs_of(source: Recorded | Mapping[str, Recorded]) -> dict[str, list[dict[str, Any]]]:
    """Return the records of each run by name; a batch solver has a run for each problem."""
    sources = source if isinstance(source, Mapping) else {"": source}
    runs: dict[str, list[dict[str, Any]]] = {}
    for name, source_of_runs in sources.items():
        for record in records_of(source_of_runs):
            run = name
            if "problem" in record:
                run = f"{name} problem {record['problem']}".strip()
            runs.setdefault(run, []).append(record)
    return runs


def _recorded_loss(runs: Mapping[str, Records]) -> str:
    """Return the first of the losses that all runs record; ``"loss"`` if there is none."""
    for name in LOSSES:
        if runs and all(name in records[0] for records in runs.values()):
            return name
    return "loss"


def _names_of_numbers(record: Mapping[str, Any]) -> list[str]:
    """Return the entries of a record that are numbers, except those of groups."""
    numbers = [name for name, value in record.items() if isinstance(value, (int, float))]
    return [name for name in numbers if ":" not in name]


def records_of(source: Recorded) -> Records:
    """Return the records of an estimator or a callback, or a given list of records."""
    records: Any = source
    for name in ("history_", "records", "history"):  # of an estimator, a callback, a solution
        records = getattr(records, name, records)
    is_sequence = isinstance(records, Sequence) and len(records) > 0
    if is_sequence and all(isinstance(record, Mapping) for record in records):
        return records
    raise InputError(
        f"There are no records in this {type(records).__name__}: give a fitted estimator that was "
        "not saved with training=False, its history_, or the result of its method path."
    )


def progress_of(records: Records, along: str | None = None) -> tuple[np.ndarray, str]:
    """Return the progress of training at each record, and the label of its axis."""
    if along is None:
        along = shared_progress({"": records})
    if along == "record":
        return np.arange(1, len(records) + 1), along
    if not all(along in record for record in records):
        raise InputError(f"The records have no entry {along!r}.")
    progress = np.array([record[along] for record in records])
    if along == "examples":  # since the record before
        progress = np.cumsum(progress)
    return progress, PROGRESS.get(along, along)


def shared_progress(runs: Mapping[str, Records]) -> str:
    """Return the entry for the x axis that all records of all runs have, ``"record"`` if none has.

    It is ``"examples"`` if a run has several records of an epoch.
    """
    shared = set(PROGRESS)
    run_of_entry: dict[str, str] = {}
    repeats_epochs = False
    for name, records in runs.items():
        entries = set(PROGRESS).intersection(*records)
        shared &= entries
        run_of_entry[_first_progress(entries)] = name
        epochs = {record.get("epoch") for record in records}
        repeats_epochs |= len(epochs) < len(records)
    if repeats_epochs and "examples" in shared:
        return "examples"
    if not shared and len(run_of_entry) > 1:
        (entry, run), (other_entry, other_run), *_ = run_of_entry.items()
        raise InputError(
            f"Runs must share an entry for the x axis: {run!r} has {entry!r}, "
            f"{other_run!r} has {other_entry!r}."
        )
    return _first_progress(shared)


def _first_progress(entries: Collection[str]) -> str:
    """Return the first of some entries for the x axis, ``"record"`` if there are none."""
    return next((entry for entry in PROGRESS if entry in entries), "record")


def plot_search(
    model: omkl.MKLClassifierCV
    | omkl.MKLRegressorCV
    | omkl.GroupLassoCV
    | omkl.SparseLogisticRegressionCV,
    *,
    ax: Axes | None = None,
    title: str = "",
) -> Axes:
    """Draw cross-validation scores over C or alpha: each fold, the mean, and the best value.

    Parameters
    ----------
    model : MKLClassifierCV, MKLRegressorCV, GroupLassoCV or SparseLogisticRegressionCV
        Fitted estimator. The penalty decreases from left to right.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.
    """
    ax = axes_for(ax)
    name = "C" if hasattr(model, "Cs_") else "alpha"
    values = getattr(model, f"{name}s_")
    chosen = getattr(model, f"{name}_")
    ylabel = f"score of {len(model.scores_)} folds and their mean"
    dress(ax, title, f"{name}; chosen: {chosen:.3g}", ylabel)
    ax.plot(values, model.scores_.T, color=GREY, linewidth=0.7, alpha=0.6)
    ax.plot(values, model.scores_.mean(axis=0), color=COLOURS[0], linewidth=1.6)
    ax.axvline(chosen, **{**MARK, "color": COLOURS[1]})
    return along_path(ax, values)


def along_path(ax: Axes, penalties: np.ndarray) -> Axes:
    """Make the x axis logarithmic, from the first to the last value of a regularization path."""
    ax.set_xscale("log")
    if len(penalties) > 1:
        ax.set_xlim(penalties[0], penalties[-1])
    return ax


def plot_pruning(parser: omkl.DependencyParser, *, ax: Axes | None = None, title: str = "") -> Axes:
    """Draw the accuracy of parsers by the number of templates they learn from, and the knee.

    Parameters
    ----------
    parser : DependencyParser
        Fitted with ``keep="auto"``. Bars are standard errors of the difference to the best
        accuracy.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.

    Raises
    ------
    omkl.exceptions.InputError
        If the parser has no curve.
    """
    if not parser.pruning_curve_:
        raise InputError('The parser has no `pruning_curve_`: fit it with keep="auto".')
    ax = axes_for(ax)
    n_templates = [point["templates"] for point in parser.pruning_curve_]
    accuracy = [point["accuracy"] for point in parser.pruning_curve_]
    error = [point["standard_error"] for point in parser.pruning_curve_]
    xlabel = f"templates; knee: {len(parser.templates_)}"
    dress(ax, title, xlabel, "share of right heads of held-out words")
    ax.set_xscale("log")
    ax.errorbar(n_templates, accuracy, error, color=COLOURS[0], marker="o", markersize=4, capsize=2)
    ax.axvline(len(parser.templates_), **{**MARK, "color": COLOURS[1]})
    return ax


def plot_guarantee(checked: omkl.CheckedModel, *, ax: Axes | None = None, title: str = "") -> Axes:
    """Draw the error of accepted outputs, and the bound on it, by the share that is accepted.

    Parameters
    ----------
    checked : CheckedModel
        Of a labeler, parser or classifier.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.

    Raises
    ------
    omkl.exceptions.InputError
        If there is no curve, as for a regressor.
    """
    points = checked.curve()
    if not points:
        raise InputError("There is nothing to draw: this guarantee has no curve.")
    accepted = [point["accepted"] for point in points]
    curves = {}
    for name in ("error", "bound"):
        curves[name] = accepted, [point[name] for point in points]
    return plot_curves(
        curves, ax=ax, title=title, xlabel="share of accepted outputs", ylabel="error"
    )
