"""Plots of shape functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import GREY, MARK, dress, figure_for, shortened, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from omkl.mkl.shapes import Shapes

#: Panels in a row, and the share of a panel that the density takes.
ACROSS, LOW = 3, 0.15


def plot_shapes(shapes: Shapes, *, n: int = 12, title: str = "") -> Figure:
    """Draw the effects of columns on one scale, the strongest first.

    Numbers have curves, with their density in grey below, text and categories have bars, and pairs
    of columns have points in the colour of their effect, small where its band contains 0.

    Parameters
    ----------
    shapes : Shapes
        From the method ``shapes`` of a model with kernels on single columns.
    n : int
        Number of shapes at most.
    title : str

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    omkl.exceptions.InputError
        If no column is in the model.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from omkl import MKLRegressor
    >>> from omkl.kernels import per_column
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = MKLRegressor(per_column("gaussian", X)).fit(X, y)
    >>> figure = plot_shapes(model.shapes(X), n=2)
    >>> [ax.get_title() for ax in figure.axes]
    ['s5', 'bmi']
    """
    several, n_outputs = len(shapes.outputs) > 1, len(shapes.outputs)
    # a panel shows all outputs, but a surface has one for each
    panels = [
        (part, p)
        for part in shapes.parts[:n]
        for p in range(n_outputs if part.grid.ndim == 2 else 1)
    ]
    if not panels:
        raise InputError("There is nothing to draw: no column is in the model.")
    down, across = -(-len(panels) // ACROSS), min(ACROSS, len(panels))
    figure = figure_for(2.6 * across + 0.6, 2.2 * down + 0.4)
    largest = 1.05 * max(
        np.max(np.abs(part.effect) + np.nan_to_num(part.band)) for part, _ in panels
    )
    for at, (part, p) in enumerate(panels, 1):
        ax, name = figure.add_subplot(down, across, at), " x ".join(shortened(part.columns, 20))
        effects, bands = (own.reshape(len(part.grid), -1).T for own in (part.effect, part.band))
        if part.grid.ndim == 2:
            x, y = part.grid.T
            sizes = np.where(np.abs(effects[p]) <= np.nan_to_num(bands[p]), 2, 8)
            points = ax.scatter(
                x, y, c=effects[p], s=sizes, cmap="RdBu_r", vmin=-largest, vmax=largest
            )
            figure.colorbar(points, ax=ax)
            dress(ax, f"{name}, {shapes.outputs[p]}" if several else name, *part.columns)
            continue
        is_curve, places = part.grid.dtype.kind == "f", np.arange(len(part.grid)) - 0.4
        for k, (output, effect, band) in enumerate(zip(shapes.outputs, effects, bands)):
            colour = style(k)["color"]
            if is_curve:
                ax.plot(part.grid, effect, label=output, linewidth=1.3, **style(k))
                ax.fill_between(
                    part.grid, effect - band, effect + band, color=colour, alpha=0.2, linewidth=0
                )
            else:
                ax.bar(
                    places + 0.8 * (k + 0.5) / n_outputs,
                    effect,
                    0.8 / n_outputs,
                    yerr=band,
                    label=output,
                    color=colour,
                )
        if is_curve:
            share = LOW * part.density / part.density.max()
            ax.fill_between(
                part.grid,
                share,
                color=GREY,
                alpha=0.4,
                linewidth=0,
                transform=ax.get_xaxis_transform(),
            )
        else:
            ax.set_xticks(range(len(part.grid)), shortened(part.grid, 12), rotation=45, ha="right")
        ax.axhline(0.0, **MARK)
        ax.set_ylim(-largest, largest)
        dress(ax, name)
        if several:
            ax.legend(frameon=False, fontsize="x-small")
    figure.suptitle(title)
    return figure
