"""Plots of group weights: ranked, over training, and along a regularization path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np

from omkl.estimators.batch import read_groups
from omkl.estimators.persistence import SavedEstimator
from omkl.exceptions import InputError
from omkl.linear.base import group_norms
from omkl.online.rounds import values_of
from omkl.reports.plots.canvas import COLOURS, GREY, MARK, axes_for, dress, legend, shortened, style
from omkl.reports.plots.curves import Records, along_path, progress_of, records_of
from omkl.selection.result import GroupSelection, group_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omkl.estimators.base import OnlineEstimator
    from omkl.linear.problems import Groups

    Source: TypeAlias = SavedEstimator | GroupSelection | Mapping[str, float] | Records

NORM = "norm of the coefficients"


def plot_weights(source: Source, *, ax: Axes | None = None, n: int = 30, title: str = "") -> Axes:
    """Draw the weights of groups as bars, largest first.

    Parameters
    ----------
    source : estimator, dict or list of dict
        For a fitted estimator, its kernel or template weights, or the norms of its groups of
        columns, are drawn. A dict has numbers by name. For the result of ``group_report`` with
        data, the increase of the loss without each group is drawn, plus or minus two standard
        errors.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.
    n : int
        Number of bars at most.

    Raises
    ------
    omkl.exceptions.InputError
        If the source has no weights.

    Examples
    --------
    >>> ax = plot_weights({"pixels": 0.7, "profiles": 0.3, "noise": 0.0})
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['pixels', 'profiles', 'noise']
    """
    weights, label = weights_of(source)
    values = np.array(list(weights.values()))
    if not len(values) or values.dtype.kind not in "iuf" or not np.isfinite(values).all():
        raise InputError("Weights must be finite numbers, at least one.")
    order = np.argsort(-values, kind="stable")[:n]
    errors = None
    if isinstance(source, Sequence) and "loss_increase" in source[0]:  # a report with data
        errors = np.array([2 * (record["standard_error"] or 0.0) for record in source])[order]
    ax = axes_for(ax, height=0.8 + 0.18 * len(order))
    whiskers = {"elinewidth": 0.9, "capsize": 2}
    positions = range(len(order))
    bars = ax.barh(positions, values[order], xerr=errors, color=COLOURS[0], error_kw=whiskers)
    ax.bar_label(bars, fmt="{:.3g}", padding=3, fontsize="small")
    ax.set_yticks(positions, shortened(np.array(list(weights), object)[order]))
    ax.set_ylim(len(order) - 0.4, -0.6)
    ax.margins(x=0.15)
    n_left_out = len(values) - len(order)
    if n_left_out:
        label = f"{label}\n({n_left_out} smaller ones are not shown)"
    return dress(ax, title, label)


def plot_selection(
    selection: GroupSelection, *, ax: Axes | None = None, n: int = 30, title: str = ""
) -> Axes:
    """Draw the statistics of groups as bars, largest first, with the threshold.

    Selected groups are blue.

    Parameters
    ----------
    selection : GroupSelection
        From :func:`omkl.select_groups`.
    ax
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.
    n : int
        Number of bars at most.
    title : str, optional
        By default the number of selected groups, and the bound.
    """
    ax = plot_weights(selection, ax=ax, n=n, title=title or str(selection))
    for bar, statistic in zip(ax.patches, sorted(selection.statistics.values(), reverse=True)):
        bar.set_color(COLOURS[0] if statistic >= selection.threshold else GREY)
    if np.isfinite(selection.threshold):
        ax.axvline(selection.threshold, **MARK)
    return ax


def weights_of(source: Source) -> tuple[dict[str, float], str]:
    """Return a number for each group, and the label of the axis."""
    if isinstance(source, Mapping):
        return {str(name): value for name, value in source.items()}, "weight"
    if _is_group_report(source):
        if "loss_increase" in source[0]:
            increases = {record["group"]: record["loss_increase"] for record in source}
            return increases, "increase of the loss without it"
        measured = [record for record in source if record["weight"] is not None]
        return {record["group"]: record["weight"] for record in measured}, "weight"
    if isinstance(source, GroupSelection):
        label = "share of halves"
        if source.method == "knockoffs":
            label = "weight minus weight of the knockoff"
        return source.statistics, label
    if isinstance(source, SavedEstimator) and "weights" in source.report_sections:
        label = NORM if "coefficients" in source.report_sections else "weight"
        return group_weights(source), label
    raise InputError(
        f"There are no weights in this {type(source).__name__}: give a fitted estimator, or a dict."
    )


def _is_group_report(source: Any) -> TypeGuard[Records]:
    """Return whether a source is the result of ``group_report``."""
    is_list = isinstance(source, Sequence) and bool(source) and isinstance(source[0], Mapping)
    return is_list and "group" in source[0]


def plot_group_weights(
    source: OnlineEstimator | Records, *, ax: Axes | None = None, n: int = 10, title: str = ""
) -> Axes:
    """Draw the weights of groups over training (Martins et al. 2011, Figure 1).

    Groups with the largest final weights are drawn as curves, and all others as a grey band.

    Parameters
    ----------
    source : estimator, list of dict or callback
        A fitted online estimator, its ``history_``, or a callback with records, such as
        ``ProgressiveValidation``.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.
    n : int
        Number of curves at most.

    Raises
    ------
    omkl.exceptions.InputError
        If the source has no weights of groups.

    Examples
    --------
    >>> history = [{"epoch": 1, "weight:a": 0.5, "weight:b": 0.5}]
    >>> history += [{"epoch": 2, "weight:a": 0.9, "weight:b": 0.1}]
    >>> ax = plot_group_weights(history)
    >>> ax.get_xlabel(), [float(y) for y in ax.lines[0].get_ydata()]
    ('epoch', [0.5, 0.9])
    """
    records = records_of(source)
    kind = next((kind for kind in ("weight", "norm") if values_of(records[-1], kind)), None)
    if kind is None:
        raise InputError(
            "These records hold no weights of groups: plot_path draws paths, plot_history gaps."
        )
    weights = [values_of(record, kind) for record in records]
    curves = {}
    for name in dict.fromkeys(chain.from_iterable(weights)):
        curve = [weights_of_record.get(name, 0.0) for weights_of_record in weights]
        curves[name] = np.array(curve, dtype=np.float64)
    x, xlabel = progress_of(records)
    ax = _draw_heaviest(axes_for(ax), x, curves, itemgetter(-1), n)
    return dress(ax, title, xlabel, kind)


def plot_path(
    path: Records,
    *,
    ax: Axes | None = None,
    n: int = 10,
    title: str = "",
    groups: Groups = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Draw a regularization path: the weight or norm of each group.

    The penalty decreases from left to right.

    Parameters
    ----------
    path : list of dict
        The result of the method ``path`` of a batch estimator.
    ax, title
        As for :func:`~omkl.reports.plot_curves`, which also returns the axes.
    n : int
        Maximum number of curves: those of the groups with the largest values anywhere on the path.
        All others are drawn as a grey band.
    groups : array or list of lists, optional
        For the path of a group lasso, the groups whose norms are drawn; columns by default.
    names : list of str, optional
        Names of the columns.

    Raises
    ------
    omkl.exceptions.InputError
        If ``path`` is not a path.
    """
    records = records_of(path)
    if "kernel_weights" in records[0]:
        penalty = "C"
        label = "weight"
        table = np.array([record["kernel_weights"] for record in records])
        curves = dict(zip(records[0]["model"].kernel_weights_, table.T))
    elif "coef" in records[0]:
        penalty = "alpha"
        label = NORM
        coefficients = np.stack([np.atleast_2d(record["coef"]) for record in records])
        curves = group_norms(coefficients, read_groups(groups, names))
    else:
        raise InputError("This is not a path: plot_group_weights draws the history of a training.")
    x = np.array([record[penalty] for record in records])
    # a group that leads under a strong penalty may have little weight under a weak one
    ax = _draw_heaviest(axes_for(ax), x, curves, np.max, n)
    return dress(along_path(ax, x), title, penalty, label)


def _draw_heaviest(
    ax: Axes,
    x: np.ndarray,
    curves: Mapping[str, np.ndarray],
    height: Callable[[np.ndarray], float],
    n: int,
) -> Axes:
    """Draw the n curves with the largest heights, and all others as a band."""
    table = np.array(list(curves.values()))
    order = np.argsort([-height(curve) for curve in table], kind="stable")
    if len(order) == n + 1:  # a band of a single group would tell less than its curve
        n += 1
    shown = order[:n]
    others = order[n:]
    names = shortened(np.array(list(curves), object)[shown])
    marker = "o" if len(x) <= 12 else ""
    for k, (row, name) in enumerate(zip(shown, names)):
        ax.plot(x, table[row], label=name, linewidth=1.3, marker=marker, ms=2.5, **style(k))
    if len(others):
        low = table[others].min(axis=0)
        high = table[others].max(axis=0)
        label = f"{len(others)} others"
        ax.fill_between(x, low, high, color=GREY, alpha=0.3, linewidth=0, label=label)
    ax.set_ylim(min(0.0, table.min()), 1.04 * table.max() or 1.0)
    legend(ax)
    return ax
