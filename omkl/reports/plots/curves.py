"""Named curves, alone and in grids, and named accuracies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl._files import PathLike
from omkl.exceptions import InputError
from omkl.reports.plots.canvas import COLOURS, GREY, STYLES, axes_for, dress, figure_for, ink, letters, style
from omkl.reports.plots.names import label_ends, name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_curves(
    curves: Mapping[str, Sequence], path: PathLike | None = None, title: str = "", xlabel: str = "",
    ylabel: str = "", log: str = "", *, ax: Axes | None = None, width: float | None = None,
) -> Axes:  # fmt: skip
    """Draw named curves, their names beside them.

    Parameters
    ----------
    curves : dict of str to (x, y) or (x, y, low, high)
        With ``low`` and ``high``, which bound a band around the curve. Of more than fifteen curves those after them are
        grey.
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
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.
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
    """Draw several sets of named curves in a grid; a curve's name stands for the same colour in all of them.

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
        figure.legend(
            list(handles.values()), list(handles), loc="outside lower center", ncols=columns, fontsize="small",
            frameon=False,
        )  # fmt: skip
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


def plot_accuracies(
    rows: Sequence[dict[str, Any]], path: PathLike | None = None, title: str = "", *, ax: Axes | None = None,
    width: float | None = None,
) -> Axes:  # fmt: skip
    """Draw named accuracies with their standard deviations, beside reference values.

    Parameters
    ----------
    rows : list of dict
        ``name``, ``accuracy`` and ``sd`` in percent, and optionally ``references``, a dict of named percentages.
    path : path-like, optional
        Save the figure here.
    title : str
    ax, width
        As for :func:`plot_curves`.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = axes_for(ax, width, 1.1 + 0.26 * len(rows))
    places = np.arange(len(rows))
    ax.errorbar(
        [row["accuracy"] for row in rows], places, xerr=[row["sd"] for row in rows], fmt="o", color=COLOURS[0],
        markersize=4.5, linewidth=1.3, label="omkl",
    )  # fmt: skip
    references = dict.fromkeys(name for row in rows for name in row.get("references", {}))
    for k, reference in enumerate(references):
        found = {i: row.get("references", {}).get(reference) for i, row in enumerate(rows)}
        known = [(value, i) for i, value in found.items() if value is not None]
        look: dict[str, Any] = {"markersize": 5, "fillstyle": "none", "linestyle": "none", "zorder": 3}
        ax.plot(*zip(*known), "sDv^P"[k % 5], color=ink(ax), label=reference, **look)
    name_rows(ax, places.tolist(), [row["name"] for row in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    dress(ax, title, "accuracy, %")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", color=GREY, alpha=0.25, linewidth=0.6)
    if references:
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=0.92 * letters(ax), frameon=False)
    if path is not None:
        ax.figure.savefig(path, dpi=150)
    return ax
