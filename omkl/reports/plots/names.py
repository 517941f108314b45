"""Names of groups in pictures: as long as there is room for, and still told apart."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from omkl.reports.plots.canvas import LARGEST, WIDTH, ink, letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Share of a figure's width for names at most, and width of a letter in heights.
SHARE, LETTER = 0.38, 0.58
SHORTEST = 8
#: Inches of a figure that is widened for names.
WIDEST = 8.5


def room_for_names(ax: Axes) -> int:
    """Number of letters that fit beside axes."""
    points = ax.figure.get_window_extent().width / ax.figure.dpi * 72.0
    columns = 1 if ax.get_subplotspec() is None else ax.get_subplotspec().get_gridspec().ncols
    return max(SHORTEST, int(SHARE * points / columns / (LETTER * letters(ax))))


def width_for(names: Sequence[Any]) -> float:
    """Inches of a new figure in which such names stand whole, as far as it fits a page."""
    from matplotlib import rcParams

    letter = LETTER * LARGEST * rcParams["font.size"] / 72.0
    return min(max(WIDTH, 1.05 * max((len(str(name)) for name in names), default=0) * letter / SHARE), WIDEST)


def name_rows(ax: Axes, places: Sequence[float], names: Sequence[Any]) -> None:
    """Name places of the upright axis."""
    ax.set_yticks(places, shortened(names, room_for_names(ax)))


def shortened(names: Sequence[Any], width: int) -> list[str]:
    """Names of at most so many letters: cut in the middle; where that makes two alike, where they begin to differ.

    >>> shortened(["a short one", "gaussian kernel on the pixels"], 12)
    ['a short one', 'gaussi…ixels']
    >>> shortened(["h.form m.form distance direction", "h.form m.feats distance direction"], 16)
    ['h.f…m.form dista', 'h.f…m.feats dist']
    """
    # no font has letters for half of a pair of codes, which strings of Python may hold
    names = [str(name).encode("utf-8", "replace").decode() for name in names]
    short = [
        name if len(name) <= width else f"{name[: width // 2]}…{name[len(name) - (width - 1) // 2 :]}" for name in names
    ]
    alike = defaultdict[str, set[str]](set)
    for name, cut in zip(names, short):
        alike[cut].add(name)
    found = [cut if len(alike[cut]) == 1 else _cut(name, width, alike[cut]) for name, cut in zip(names, short)]
    n_equal, places = Counter(found), {name: k for k, name in enumerate(dict.fromkeys(names), 1)}
    return [own if n_equal[own] == 1 else f"{own[: width - 5]}…{places[name]}" for name, own in zip(names, found)]


def _cut(name: str, width: int, others: Collection[str]) -> str:
    """A name from the word on in which it differs from others."""
    head, low, high = name[: width // 5], min(others), max(others)
    start = next((k for k, (one, other) in enumerate(zip(low, high)) if one != other), len(low))
    begin = max(1 + max(name.rfind(mark, 0, start) for mark in " :=,|/"), start - width // 3, len(head))
    return f"{head}…{name[begin : begin + width - len(head) - 1]}"


def share(value: float) -> str:
    """A share as percents in three digits, but for the smallest ones: groups by the hundreds are still told apart.

    >>> [share(value) for value in (0.506, 0.0546, 0.0035, 1e-7, 0.0)]
    ['50.6%', '5.46%', '0.350%', '<0.0001%', '0%']
    """
    if value == 0:
        return "0%"
    digits = min(max(-math.floor(math.log10(value)), 1), 4)
    return f"{value:.{digits}%}" if value >= 5e-7 else "<0.0001%"


def label_ends(
    ax: Axes, ends: Sequence[tuple[float, float]], names: Sequence[str], styles: Sequence[dict[str, Any]]
) -> None:
    """Write names beside the axes, at the ends of their curves."""
    from omkl.reports.plots.end_labels import EndLabels

    EndLabels(ax, ends, shortened(names, room_for_names(ax)), styles, 0.92 * letters(ax), ink(ax))
