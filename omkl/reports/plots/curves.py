"""Named curves, alone and in grids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl._files import PathLike
from omkl.exceptions import InputError
from omkl.reports.plots.canvas import GREY, STYLES, axes_for, dress, figure_for, style
from omkl.reports.plots.names import label_ends

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_curves(
    curves: Mapping[str, Sequence],
    path: PathLike | None = None,
    title: str = "",
    xlabel: str = "",
    ylabel: str = "",
    log: str = "",
    *,
    ax: Axes | None = None,
    width: float | None = None,
) -> Axes:
    """Draw named curves, their names beside them.

    Parameters
    ----------
    curves : dict of str to (x, y) or (x, y, low, high)
        ``low`` and ``high`` bound a band around the curve. Curves after the fifteenth are grey.
    path : path-like, optional
        Save the figure here, in the format of the suffix.
    title, xlabel, ylabel : str
    log : {"", "x", "y", "xy"}
        Axes on a logarithmic scale.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    width : float, optional
        Inches of a new figure: 3.3 is a column of a paper.

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
    ax = axes_for(ax, width)
    styles = {name: style(k) if k < STYLES else {"color": GREY, "alpha": 0.5} for k, name in enumerate(curves)}
    _draw(ax, styles, curves, title, xlabel, ylabel, log)
    if len(curves) > 1:
        named = list(curves)[:STYLES]
        ends = [(np.asarray(curves[name][0])[-1], np.asarray(curves[name][1])[-1]) for name in named]
        label_ends(ax, ends, named, [styles[name] for name in named])
    if path is not None:
        ax.figure.savefig(path, dpi=150)
    return ax


def plot_panels(rows: Sequence[Sequence[dict[str, Any]]], path: PathLike | None = None) -> Figure:
    """Draw several sets of named curves in a grid; equal names have equal colours.

    Parameters
    ----------
    rows : list of list of dict
        A list of panels for each row, all of one length. A panel is what :func:`plot_curves` takes but for the path:
        ``curves``, ``title``, ``xlabel``, ``ylabel``, ``log``.
    path : path-like, optional
        Save the figure here.

    Returns
    -------
    matplotlib.figure.Figure
        With a legend below all panels.
    """
    figure = figure_for(4.0 * len(rows[0]) + 0.6, 3.0 * len(rows) + 0.4)
    grid = figure.subplots(len(rows), len(rows[0]), squeeze=False)
    names = dict.fromkeys(name for row in rows for panel in row for name in panel["curves"])
    styles = {
        name: {**style(k), "marker": "osvD^xP*"[k % 8], "markersize": 3.5} if k < STYLES else {"color": GREY}
        for k, name in enumerate(names)
    }
    for ax, panel in zip(grid.flat, chain.from_iterable(rows)):
        _draw(ax, styles, **panel)
    handles = {name: handle for ax in grid.flat for handle, name in zip(*ax.get_legend_handles_labels())}
    if len(handles) > 1 or grid.size > 1:
        longest = max(map(len, handles), default=1)
        columns = max(1, min(len(handles), int(figure.get_figwidth() * 72 / (5.5 * longest + 40))))
        look: dict[str, Any] = {"loc": "outside lower center", "ncols": columns, "fontsize": "small", "frameon": False}
        figure.legend(list(handles.values()), list(handles), **look)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw(ax, styles, curves, title="", xlabel="", ylabel="", log=""):
    dress(ax, title, xlabel, ylabel)
    ax.set(xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear")
    for name, (x, y, *band) in curves.items():
        ax.plot(x, y, label=name, linewidth=1.3, markevery=max(1, len(x) // 15), **styles[name])
        if band:
            ax.fill_between(x, *band, color=styles[name]["color"], alpha=0.18, linewidth=0)
    ax.margins(x=0.02)
