"""Figures. They need matplotlib: the extra ``plot``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from omkl._files import PathLike
from omkl.exceptions import MissingDependencyError


def plot_accuracies(rows: Sequence[dict[str, Any]], path: PathLike | None = None, title: str = "Accuracy") -> Any:
    """Draw named accuracies as bars with error bars, beside reference values.

    Parameters
    ----------
    rows : list of dict
        ``name``, ``accuracy`` and ``sd`` in percent, and optionally ``references``, a dict of named percentages.
    path : path-like, optional
        Save the figure here.
    title : str

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure, axes = _figure(width=1.0 + 0.9 * len(rows))
    indices = range(len(rows))
    axes.bar(
        indices, [row["accuracy"] for row in rows], yerr=[row["sd"] for row in rows], color="#4c72b0", label="omkl"
    )
    markers = iter("ovsD^")
    for reference in dict.fromkeys(name for row in rows for name in row.get("references", {})):
        known = [
            (i, row["references"][reference]) for i, row in enumerate(rows) if reference in row.get("references", {})
        ]
        axes.plot(*zip(*known), next(markers), color="black", markersize=5, linestyle="none", label=reference)
    axes.set_xticks(indices, [row["name"] for row in rows], rotation=30, ha="right")
    lowest = min(min([row["accuracy"], *row.get("references", {}).values()]) for row in rows)
    axes.set_ylim(lowest - 3, 100)
    axes.set_ylabel("accuracy, %")
    axes.set_title(title)
    axes.legend(fontsize="small", frameon=False)
    figure.tight_layout()
    return _saved(figure, path)


def plot_curves(
    curves: Mapping[str, Sequence], path: PathLike | None = None, title: str = "", xlabel: str = "",
    ylabel: str = "", log: str = "",
) -> Any:  # fmt: skip
    """Draw named curves.

    Parameters
    ----------
    curves : dict of str to (x, y) or (x, y, low, high)
        With ``low`` and ``high``, which bound a band around the curve.
    path : path-like, optional
        Save the figure here.
    title, xlabel, ylabel : str
    log : {"", "x", "y", "xy"}
        Axes on a logarithmic scale.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return plot_panels([[dict(curves=curves, title=title, xlabel=xlabel, ylabel=ylabel, log=log)]], path)


def plot_panels(rows: Sequence[Sequence[dict[str, Any]]], path: PathLike | None = None) -> Any:
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
    """
    single = len(rows) == len(rows[0]) == 1
    figure, grid = _figure(6.4 if single else 4.6 * len(rows[0]), 4.2 if single else 3.4 * len(rows), rows)
    names = dict.fromkeys(name for row in rows for panel in row for name in panel["curves"])
    styles = {
        name: {"color": f"C{i % 10}", "marker": "osvD^xP*"[i % 8], "markersize": 4} for i, name in enumerate(names)
    }
    for axes, panel in zip(grid.flat, chain.from_iterable(rows)):
        _draw(axes, styles, **panel)
    if single:
        grid.flat[0].legend(fontsize="small", frameon=False)
        figure.tight_layout()
    else:
        handles = {name: axes for axes in grid.flat for axes, name in zip(*axes.get_legend_handles_labels())}
        figure.tight_layout(rect=(0, 0.3 / (3.4 * len(rows)), 1, 1))
        figure.legend(
            handles.values(), handles, loc="lower center", ncols=min(len(handles), 8), fontsize="small", frameon=False
        )
    return _saved(figure, path)


def _saved(figure, path):
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


def _draw(axes, styles, curves, title="", xlabel="", ylabel="", log=""):
    for name, (x, y, *band) in curves.items():
        axes.plot(x, y, label=name, markevery=max(1, len(x) // 15), **styles[name])
        if band:
            axes.fill_between(x, *band, color=styles[name]["color"], alpha=0.15, linewidth=0)
    axes.set(
        title=title, xlabel=xlabel, ylabel=ylabel,
        xscale="log" if "x" in log else "linear", yscale="log" if "y" in log else "linear",
    )  # fmt: skip


def _figure(width=6.4, height=4.2, rows=None):
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("Figures need matplotlib: install it with 'pip install omkl[plot]'.") from None
    # a figure of its own, not pyplot's: no global state, no display needed
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots() if rows is None else figure.subplots(len(rows), len(rows[0]), squeeze=False)
