"""Axes to draw in, and what all pictures share: colours that anyone can tell apart, sizes of letters, SVG."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from omkl.exceptions import MissingDependencyError
from omkl.reports.markup import text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue, red, green, orange and purple, as far from each other and from grey as can be, for people who are blind to some
#: colours as well; each stands out from white as from near black by a contrast of 3 to 1.
COLOURS = ("#0063D6", "#B92B1F", "#0CA95E", "#CF7F00", "#995BA1")
DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
#: How many curves look different.
STYLES = len(COLOURS) * len(DASHES)
GREY = "#808080"
#: What the ids of names begin with that are cut where they are drawn; the whole name follows, as bytes.
WHOLE = "omkl-"
#: Inches of the figures that are made here, where nothing else is asked for.
WIDTH = 5.6
#: Sizes of letters: this part of those of matplotlib's style at most, and at least.
LARGEST, SMALLEST = 0.9, 0.7


def axes_for(ax: Axes | None, width: float | None = None, height: float | None = None) -> Axes:
    """The axes that are given, or those of a new figure.

    Where the figure of given axes has no layout yet it gets matplotlib's constrained one: names beside axes would be
    cut off otherwise.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, optional
    width, height : float, optional
        Inches of a new figure. It is not one of pyplot's: there is no global state, and no display is needed.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.
    """
    if ax is not None:
        figure: Any = ax.figure.figure  # of a part of a figure, the whole
        if figure.get_layout_engine() is None:
            figure.set_layout_engine("constrained")
        return ax
    width = WIDTH if width is None else width
    return figure_for(width, 0.62 * width if height is None else height).subplots()


def figure_for(width: float, height: float) -> Figure:
    """A new figure of so many inches, which arranges what is in it.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If matplotlib is not installed.
    """
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
    """Name the axes, in letters that fit, and take away what tells nothing."""
    size = letters(ax)
    ax.set_title(title, fontsize=1.1 * size)
    ax.set_xlabel(xlabel, fontsize=size)
    ax.set_ylabel(ylabel, fontsize=size)
    ax.tick_params(labelsize=0.92 * size)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(False)
    return ax


def note(ax: Axes, text: str, title: str = "") -> None:
    """Write what a picture comes to above it, below its title."""
    size = 0.9 * letters(ax)
    ax.text(0.0, 1.02, text, transform=ax.transAxes, fontsize=size, color=ink(ax), va="bottom")
    ax.set_title(title, fontsize=1.1 * letters(ax), pad=2.2 * size if title else None)


def whole_numbers(ax: Axes) -> Axes:
    """Ticks at whole numbers only, below the axes."""
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=max(3, int(2 * inches(ax)[0]))))
    return ax


def to_svg(ax: Axes) -> str:
    """The figure of axes as an SVG element to put into a web page, equal for equal pictures.

    The background is transparent and the text has the colour of the page's text, so that a picture is right on light
    pages as on dark ones; only images of letters, which are black ink, need a light background. Text is drawn as
    shapes: it looks the same whatever fonts there are. Names that are cut are whole in titles, which a browser shows
    when they are pointed at.

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
    found = re.sub(f'<g id="{WHOLE}([0-9a-f]*)">', _titled, found)
    found = re.sub(r'<g id="[^"]*">', "<g>", found)
    # matplotlib leaves out the fill of what is black, so that it is the root's
    return found.replace("<svg", '<svg fill="currentColor"', 1).replace("#000000", "currentColor")


def _titled(match: re.Match[str]) -> str:
    """The beginning of a group of shapes that tells a name when it is pointed at."""
    return f'<g pointer-events="bounding-box"><title>{text(bytes.fromhex(match[1]).decode())}</title>'
