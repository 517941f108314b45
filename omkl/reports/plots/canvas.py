"""Figures, styles, labels and SVG export of all plots."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omkl.exceptions import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue, red, green, orange and purple, distinct for colour-blind people, with a contrast of 3 to
#: white and near black.
COLOURS = ("#0063D6", "#B92B1F", "#0CA95E", "#CF7F00", "#995BA1")
DASHES = ("solid", (0, (5, 1.5)), (0, (1.2, 1.2)))
#: Number of distinct styles of curves.
STYLES = len(COLOURS) * len(DASHES)
GREY = "#808080"
#: Style of lines that mark a value.
MARK: dict[str, Any] = {"color": GREY, "linewidth": 0.8, "linestyle": (0, (4, 2)), "zorder": 0}
#: Maximum length of names of groups and labels in plots.
NAME = 40


def axes_for(ax: Axes | None, width: float = 5.6, height: float = 3.5) -> Axes:
    """Return the given axes, or axes of a new figure of this size in inches."""
    if ax is not None:
        return ax
    return figure_for(width, height).subplots()


def figure_for(width: float, height: float) -> Figure:
    """Return a new figure of this size in inches, with constrained layout."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError(
            "Figures need matplotlib: install it with 'pip install omkl[plot]'."
        ) from None
    return Figure(figsize=(width, height), layout="constrained")


def style(kind: int) -> dict[str, Any]:
    """Return colour and dashes of the curve with this number; grey for high numbers."""
    if kind >= STYLES:
        return {"color": GREY, "alpha": 0.5}
    return {"color": COLOURS[kind % len(COLOURS)], "linestyle": DASHES[kind // len(COLOURS)]}


def dress(ax: Axes, title: str = "", xlabel: str = "", ylabel: str = "") -> Axes:
    """Set title and labels, and remove the upper and the right spine."""
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def legend(ax: Axes) -> None:
    """Put a legend on the right of the axes."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small")


def shortened(names: Iterable[object], width: int = NAME) -> list[str]:
    """Shorten long names in the middle, and replace characters that fonts lack.

    >>> shortened(["a short one", "gaussian kernel on the pixels"], 12)
    ['a short one', 'gaussi…ixels']
    """
    printable = [str(name).encode("utf-8", "replace").decode() for name in names]
    return [_without_middle(name, width) for name in printable]


def _without_middle(name: str, width: int) -> str:
    """Return the name with at most ``width`` characters; ``…`` replaces the middle."""
    if len(name) <= width:
        return name
    end = name[len(name) - (width - 1) // 2 :]
    return f"{name[: width // 2]}…{end}"


def to_svg(ax: Axes) -> str:
    """Return the figure of axes as a reproducible SVG element for a web page.

    The background is transparent, and text has the text colour of the page. Text is converted to
    paths, which do not depend on installed fonts.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Axes of a figure with matplotlib's default style.

    Returns
    -------
    str
        ``<svg ...>...</svg>``.
    """
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "omkl"}):
        ax.figure.savefig(
            file, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"(?s) <metadata>.*?</metadata>\n", "", svg)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)
    # matplotlib omits black fill, so set it on the root element
    return svg.replace("<svg", '<svg fill="currentColor"', 1).replace("#000000", "currentColor")
