"""Plots of shape functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from omkl.exceptions import InputError
from omkl.reports.plots.canvas import GREY, MARK, dress, figure_for, shortened, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from omkl.mkl.shapes import Shape, Shapes

#: Panels in a row.
ACROSS = 3
#: Share of the height of a panel that the density takes.
HEIGHT_OF_DENSITY = 0.15


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
    # a panel shows all outputs, but a surface has one for each
    panels: list[tuple[Shape, int]] = []
    for shape in shapes.parts[:n]:
        n_panels = len(shapes.outputs) if _is_surface(shape) else 1
        panels += [(shape, output) for output in range(n_panels)]
    if not panels:
        raise InputError("There is nothing to draw: no column is in the model.")
    down = -(-len(panels) // ACROSS)
    across = min(ACROSS, len(panels))
    figure = figure_for(2.6 * across + 0.6, 2.2 * down + 0.4)
    highest = [np.max(np.abs(shape.effect) + np.nan_to_num(shape.band)) for shape, _ in panels]
    limit = 1.05 * max(highest)
    for number, (shape, output) in enumerate(panels, 1):
        ax = figure.add_subplot(down, across, number)
        if _is_surface(shape):
            _draw_surface(ax, shape, shapes.outputs, output, limit)
        else:
            _draw_effects(ax, shape, shapes.outputs, limit)
    figure.suptitle(title)
    return figure


def _is_surface(shape: Shape) -> bool:
    """Return whether a shape is of two columns."""
    return shape.grid.ndim == 2


def _by_output(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return effects and half the widths of their bands, (n_outputs, length of the grid)."""
    n = len(shape.grid)
    return shape.effect.reshape(n, -1).T, shape.band.reshape(n, -1).T


def _name(shape: Shape) -> str:
    return " x ".join(shortened(shape.columns, 20))


def _draw_surface(
    ax: Axes, shape: Shape, outputs: Sequence[object], output: int, limit: float
) -> None:
    """Draw points in the colour of the effect of two columns on an output."""
    effects, bands = _by_output(shape)
    x, y = shape.grid.T
    is_null = np.abs(effects[output]) <= np.nan_to_num(bands[output])
    sizes = np.where(is_null, 2, 8)
    colours = {"c": effects[output], "cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
    points = ax.scatter(x, y, s=sizes, **colours)
    ax.figure.colorbar(points, ax=ax)
    name = _name(shape)
    if len(outputs) > 1:
        name = f"{name}, {outputs[output]}"
    dress(ax, name, *shape.columns)


def _draw_effects(ax: Axes, shape: Shape, outputs: Sequence[object], limit: float) -> None:
    """Draw curves of the effects of a column of numbers, or bars for its values."""
    if shape.grid.dtype.kind == "f":
        _draw_curves(ax, shape, outputs)
    else:
        _draw_bars(ax, shape, outputs)
    ax.axhline(0.0, **MARK)
    ax.set_ylim(-limit, limit)
    dress(ax, _name(shape))
    if len(outputs) > 1:
        ax.legend(frameon=False, fontsize="x-small")


def _draw_curves(ax: Axes, shape: Shape, outputs: Sequence[object]) -> None:
    """Draw a curve with a band for each output, and below it the density of the values."""
    grid = shape.grid
    for k, (output, effect, band) in enumerate(zip(outputs, *_by_output(shape))):
        look = style(k)
        ax.plot(grid, effect, label=output, linewidth=1.3, **look)
        low = effect - band
        high = effect + band
        ax.fill_between(grid, low, high, color=look["color"], alpha=0.2, linewidth=0)
    height = HEIGHT_OF_DENSITY * shape.density / shape.density.max()
    below = ax.get_xaxis_transform()
    ax.fill_between(grid, height, color=GREY, alpha=0.4, linewidth=0, transform=below)


def _draw_bars(ax: Axes, shape: Shape, outputs: Sequence[object]) -> None:
    """Draw a bar for each value and output."""
    left = np.arange(len(shape.grid)) - 0.4
    n_outputs = len(outputs)
    for k, (output, effect, band) in enumerate(zip(outputs, *_by_output(shape))):
        centres = left + 0.8 * (k + 0.5) / n_outputs
        colour = style(k)["color"]
        ax.bar(centres, effect, 0.8 / n_outputs, yerr=band, label=output, color=colour)
    ax.set_xticks(range(len(shape.grid)), shortened(shape.grid, 12), rotation=45, ha="right")
