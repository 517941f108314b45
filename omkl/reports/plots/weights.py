"""Weights of groups: ranked, along training, and along a regularization path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, GREY, axes_for, dress, inches, ink, letters, style, whole_numbers
from omkl.reports.plots.names import label_ends, name_rows, share, width_for
from omkl.reports.plots.sources import Curves, Weights, curves_of, weights_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bars by default, and the height of each in heights of letters.
BARS, STEP = 30, 1.6
#: Groups that are never heavier than this share of the heaviest get no curve of their own.
FAINT = 0.02
#: So many groups get bars even where they are zero.
FEW = 12


def plot_weights(
    source: Any, *, ax: Axes | None = None, n: int | None = None, title: str = "", width: float | None = None
) -> Axes:
    """Draw the weights of groups as bars, the heaviest first, with intervals where the source has several values.

    The last row summarizes the groups after the first n.

    Parameters
    ----------
    source : estimator, dict, list or StabilitySelection
        A fitted estimator: its kernel or template weights, or the norms of its groups of columns. Numbers by name. A
        list of these, from several seeds or folds: means and ranges. The result of ``group_report``: with data, the
        increase of the loss without each group, plus or minus two standard errors. A result of
        ``stability_selection``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    n : int, optional
        Bars at most; 30 by default, and in axes that are given as many as there is room for.
    title : str
    width : float, optional
        Inches of a new figure: 3.3 is a column of a paper.

    Returns
    -------
    matplotlib.axes.Axes

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
    weights = weights_of(source)
    names, values = list(weights.values), np.array(list(weights.values.values()))
    order = np.argsort(-values, kind="stable")
    order = order[values[order] != 0] if len(names) > FEW and values.any() else order
    n = BARS if n is None and ax is None else n
    rows = min(len(order), n or BARS) + (len(order) < len(names))
    width = width_for([names[k] for k in order[: n or BARS]]) if width is None else width
    height = 0.75 + 0.25 * bool(title) + rows * STEP * (8.5 if width > 4 else 7) / 72.0
    ax = axes_for(ax, width, height)
    room = max(2, int(inches(ax)[1] * 72.0 / (1.15 * letters(ax))) if n is None else n)
    shown, rest = (order[:room], order[room:]) if len(order) <= room else (order[: room - 1], order[room - 1 :])
    _bars(ax, weights, values, shown)
    others = len(names) - len(shown)
    labels = [names[k] for k in shown]
    if others:
        _rest_of_bars(ax, weights, values[rest], len(shown), others)
        labels.append(f"{others} others" if others > 1 else "1 other")
    name_rows(ax, range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    dress(ax, title, weights.label)
    ax.tick_params(axis="y", length=0)
    if weights.add_up:
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.3g}" if value == 0 else f"{100 * value:.3g}%")
    if weights.mark is not None:
        ax.axvline(weights.mark, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    return ax


def _bars(ax: Axes, weights: Weights, values: np.ndarray, shown: np.ndarray) -> None:
    """The bars, their intervals, and the numbers right of them."""
    places = np.arange(len(shown))
    ax.barh(places, values[shown], height=0.68, color=COLOURS[0], linewidth=0)
    ends = np.maximum(values[shown], 0.0)
    if weights.low is not None and weights.high is not None:
        low, high = weights.low[shown], weights.high[shown]
        errors = np.maximum([values[shown] - low, high - values[shown]], 0.0)
        ax.errorbar(
            values[shown], places, xerr=errors, fmt="none", ecolor=ink(ax), elinewidth=0.9, capsize=2, capthick=0.9
        )
        ends = np.maximum(ends, high)
    for place, value, end in zip(places.tolist(), values[shown].tolist(), ends.tolist()):
        _number(ax, place, end, _written(value, weights.add_up))
    ax.axvline(0.0, color=ink(ax), linewidth=0.6)
    lows = values[shown] if weights.low is None else weights.low[shown]
    left, right = min(lows.min(), 0.0), max(ends.max(), weights.mark or 0.0)
    span = (right - left) or 1.0
    ax.set_xlim(left - 0.03 * span * (left < 0), right + 0.17 * span)


def _rest_of_bars(ax: Axes, weights: Weights, rest: np.ndarray, place: int, others: int) -> None:
    """One row for all other groups: the heaviest of them, and their sum."""
    if not len(rest):
        _number(ax, place, 0.0, "all zero")
        return
    ax.barh(place, rest.max(), height=0.68, color=GREY, linewidth=0)
    text = f"each ≤ {_written(rest.max(), weights.add_up)}"
    if weights.add_up:
        text += f", {rest.sum():.1%} in sum"
    if others > len(rest):
        text += f", {others - len(rest)} zero"
    _number(ax, place, max(rest.max(), 0.0), text)


def _number(ax: Axes, place: float, end: float, text: str) -> None:
    ax.annotate(
        text,
        (end, place),
        xytext=(3, 0),
        textcoords="offset points",
        va="center_baseline",
        fontsize=0.85 * letters(ax),
        color=ink(ax),
        annotation_clip=False,
    )


def _written(value: float, is_share: bool) -> str:
    return "zero" if value == 0 else share(value) if is_share else f"{value:.3g}"


def plot_group_weights(
    source: Any,
    *,
    ax: Axes | None = None,
    n: int = 10,
    title: str = "",
    groups: Any = None,
    names: Any = None,
    width: float | None = None,
) -> Axes:
    """Draw the weights of groups as curves along epochs or examples (Martins et al. 2011, Figure 1), or along a path.

    The n heaviest groups at the end have curves with their names beside them; all others are one grey band.

    Parameters
    ----------
    source : estimator, list of dict, callback or StabilitySelection
        An online estimator, its ``history_``, or a callback that keeps records, as ``ProgressiveValidation``; the
        ``path`` of a batch estimator, as for :func:`plot_path`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    n : int
        Curves at most; fewer where there is no room for so many names.
    title : str
    groups : array or list of lists, optional
        For the path of a group lasso: its groups, whose norms are drawn; columns by default.
    names : list of str, optional
        For a path: names of the kernels or columns.
    width : float, optional
        Inches of a new figure: 3.3 is a column of a paper.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If the source holds no weights.

    Examples
    --------
    >>> history = [{"epoch": 1, "weight:a": 0.5, "weight:b": 0.5}, {"epoch": 2, "weight:a": 0.9, "weight:b": 0.1}]
    >>> ax = plot_group_weights(history)
    >>> ax.get_xlabel(), [float(y) for y in ax.lines[0].get_ydata()]
    ('epoch', [0.5, 0.9])
    """
    curves = curves_of(source, groups, names)
    return _draw_curves(axes_for(ax, width), curves, n, title)


def plot_path(
    source: Any,
    *,
    ax: Axes | None = None,
    n: int = 10,
    title: str = "",
    groups: Any = None,
    names: Any = None,
    chosen: float | None = None,
    width: float | None = None,
) -> Axes:
    """Draw a regularization path: the weight or norm of each group, for closer fits from left to right.

    The axis above gives the number of groups in the model.

    Parameters
    ----------
    source : list of dict, or StabilitySelection
        The ``path`` of a batch estimator; or the frequencies of kernels on halves of the data.
    ax, n, title, groups, names, width
        As for :func:`plot_group_weights`.
    chosen : float, optional
        A value of C, or alpha, to mark.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    omkl.exceptions.InputError
        If the source is no path.
    """
    curves = curves_of(source, groups, names)
    if curves.counts is None:
        raise InputError("This is no path: plot_group_weights draws the history of a training.")
    ax = _draw_curves(axes_for(ax, width), curves, n, title)
    if chosen is not None:
        ax.axvline(chosen, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    above, size = ax.secondary_xaxis("top"), 0.85 * letters(ax)
    some = np.unique(np.linspace(0, len(curves.x) - 1, max(2, int(inches(ax)[0] / 0.6))).round().astype(int))
    above.set_xticks(curves.x[some], [f"{curves.counts[k]:.3g}" for k in some], minor=False)
    above.set_xticks([], minor=True)
    above.tick_params(labelsize=size, length=2)
    above.set_xlabel("groups in the model", fontsize=size)
    above.spines["top"].set_visible(False)
    return ax


def _draw_curves(ax: Axes, curves: Curves, n: int, title: str) -> Axes:
    """Curves with their names, and the rest as a band."""
    dress(ax, title, curves.xlabel, curves.ylabel)
    ax.set_xscale("log" if curves.is_log else "linear")
    if curves.is_whole:
        whole_numbers(ax)
    names = list(curves.values)
    table = np.array([curves.values[name] for name in names])
    room = int(inches(ax)[1] * 72.0 / (1.3 * letters(ax)))
    peaks = table.max(axis=1)
    order = np.lexsort((-peaks, -table[:, -1], peaks <= FAINT * peaks.max()))
    seen = int(np.count_nonzero(peaks > FAINT * peaks.max()))
    n = max(1, min(n, room - 1, seen if len(order) - seen > 1 else n))
    shown, rest = (order, order[:0]) if len(order) <= n + 1 else (order[:n], order[n:])
    ends, labels, styles = [], [], []
    if len(rest):
        low, high = table[rest].min(axis=0), table[rest].max(axis=0)
        ax.fill_between(curves.x, low, high, color=GREY, alpha=0.3, linewidth=0, zorder=1)
        ends.append((curves.x[-1], float(low[-1] + high[-1]) / 2))
        labels.append(f"{len(rest)} others" + ", all zero" * (not table[rest].any()))
        styles.append({"color": GREY, "linestyle": "solid"})
    look: dict[str, Any] = {"linewidth": 1.3, "zorder": 2.5, "clip_on": False}
    look |= {"marker": "o", "markersize": 2.5} if len(curves.x) <= 12 else {}
    for k, member in enumerate(shown):
        ax.plot(curves.x, table[member], label=names[member], **style(k), **look)
        ends.append((curves.x[-1], table[member, -1]))
        labels.append(names[member])
        styles.append(style(k))
    if curves.mark is not None:
        ax.axhline(curves.mark, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)), zorder=0)
    _limit(ax, curves, table)
    label_ends(ax, ends, labels, styles)
    return ax


def _limit(ax: Axes, curves: Curves, table: np.ndarray) -> None:
    """Axes that begin at zero, and end where the curves do."""
    if len(curves.x) > 1:
        first, last = (curves.x.max(), curves.x.min()) if curves.is_reversed else (curves.x.min(), curves.x.max())
        ax.set_xlim(first, last)
    ax.set_ylim(min(0.0, table.min()), 1.04 * table.max() or 1.0)
    if curves.ylabel == "weight":
        ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
