"""Axes, colours, sizes of letters, and SVG for all pictures."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue, red, green, orange and purple: distinct for colour-blind people, with a contrast of 3 to white and near black.
COLOURS = ("#0063D6", "#B92B1F", "#0CA95E", "#CF7F00", "#995BA1")
DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
#: Number of looks of curves.
STYLES = len(COLOURS) * len(DASHES)
GREY = "#808080"
#: Default width of a figure in inches.
WIDTH = 5.6
#: Sizes of letters relative to matplotlib's style, at most and at least.
LARGEST, SMALLEST = 0.9, 0.7


def axes_for(ax: Axes | None, width: float | None = None, height: float | None = None) -> Axes:
    """The axes that are given, or those of a new figure; without a layout of their own, with the constrained one.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
    width, height : float, optional
        Inches of a new figure, which is not one of pyplot's.
    """
    if ax is not None:
        figure: Any = ax.figure.figure  # of a part of a figure, the whole
        if figure.get_layout_engine() is None:
            figure.set_layout_engine("constrained")
        return ax
    width = WIDTH if width is None else width
    return figure_for(width, 0.62 * width if height is None else height).subplots()


def figure_for(width: float, height: float) -> Figure:
    """A new figure of so many inches, with constrained layout."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError("Figures need matplotlib: install it with 'pip install omkl[plot]'.") from None
    return Figure(figsize=(width, height), layout="constrained")


def style(kind: int) -> dict[str, Any]:
    """Colour and dashes of the curve of this number, from 0."""
    return {"color": COLOURS[kind % len(COLOURS)], "linestyle": DASHES[kind // len(COLOURS) % len(DASHES)]}


def inches(ax: Axes) -> tuple[float, float]:
    """Width and height of axes."""
    box = ax.get_window_extent()
    return box.width / ax.figure.dpi, box.height / ax.figure.dpi


def letters(ax: Axes) -> float:
    """Size of text in points: smaller than matplotlib's where a picture is as wide as a column of a paper."""
    from matplotlib import rcParams

    return rcParams["font.size"] * min(max(inches(ax)[0] / 4.5, SMALLEST), LARGEST)


def ink(ax: Axes) -> str:
    """The colour of text: what matplotlib's style says."""
    return str(ax.xaxis.label.get_color())


def dress(ax: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> Axes:
    """Name the axes in letters that fit, and remove spines and grid."""
    size = letters(ax)
    ax.set_title(title, fontsize=1.1 * size)
    ax.set_xlabel(xlabel, fontsize=size)
    ax.set_ylabel(ylabel, fontsize=size)
    ax.tick_params(labelsize=0.92 * size)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(False)
    return ax


def note(ax: Axes, text: str, title: str = "") -> None:
    """Write a line above a picture, below its title."""
    size = 0.9 * letters(ax)
    ax.text(0.0, 1.02, text, transform=ax.transAxes, fontsize=size, color=ink(ax), va="bottom")
    ax.set_title(title, fontsize=1.1 * letters(ax), pad=2.2 * size if title else None)


def show_cells(ax: Axes, strength: np.ndarray, colour: str) -> None:
    """Draw an array in [0, 1] as cells of a colour, over any background: the larger the number, the stronger."""
    from matplotlib.colors import to_rgb

    image = np.empty((*strength.shape, 4))
    image[:, :, :3], image[:, :, 3] = to_rgb(colour), strength
    ax.imshow(image, interpolation="none", aspect="equal")


def whole_numbers(ax: Axes) -> Axes:
    """Ticks at whole numbers only, below the axes."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=max(3, int(2 * inches(ax)[0]))))
    return ax


def to_svg(ax: Axes) -> str:
    """The figure of axes as an SVG element to put into a web page, equal for equal pictures.

    The background is transparent and the text has the colour of the page's text, for light pages and dark ones. Images
    of letters are black ink, and need a light background. Text is drawn as shapes, whatever fonts there are.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Of a figure that was made with matplotlib's default style.

    Returns
    -------
    str
        ``<svg ...>...</svg>``.
    """
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "omkl"}):
        ax.figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    found = file.getvalue()
    found = re.sub(r"(?s) <metadata>.*?</metadata>\n", "", found[found.index("<svg") :])
    found = re.sub(r'<g id="[^"]*">', "<g>", found)
    # matplotlib leaves out the fill of what is black, so that it is the root's
    return found.replace("<svg", '<svg fill="currentColor"', 1).replace("#000000", "currentColor")
