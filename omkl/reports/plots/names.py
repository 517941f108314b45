"""Names of groups in pictures: as long as there is room for, and still told apart."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from omkl.reports.plots.canvas import LARGEST, WHOLE, WIDTH, ink, letters

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Text

#: Names take this part of a figure's width at most; a letter is about so wide, in its height.
SHARE, LETTER = 0.38, 0.58
SHORTEST = 8
#: Inches of a figure that is made wider for the sake of names.
WIDEST = 8.5


def room_for_names(ax: Axes) -> int:
    """How many letters a name beside axes may have."""
    points = ax.figure.get_window_extent().width / ax.figure.dpi * 72.0
    columns = 1 if ax.get_subplotspec() is None else ax.get_subplotspec().get_gridspec().ncols
    return max(SHORTEST, int(SHARE * points / columns / (LETTER * letters(ax))))


def width_for(names: Sequence[Any]) -> float:
    """Inches of a new figure in which such names stand whole, as far as it fits a page."""
    from matplotlib import rcParams

    letter = LETTER * LARGEST * rcParams["font.size"] / 72.0
    return min(max(WIDTH, 1.05 * max((len(str(name)) for name in names), default=0) * letter / SHARE), WIDEST)


def name_rows(ax: Axes, places: Sequence[float], names: Sequence[Any]) -> None:
    """Name places of the upright axis: a web page shows a name that is cut when it is pointed at."""
    ax.set_yticks(places, shortened(names, room_for_names(ax)))
    keep_whole(ax.get_yticklabels(), names)


def keep_whole(texts: Sequence[Text], names: Sequence[Any]) -> None:
    """Note whole names with what is drawn of them, for :func:`~omkl.reports.to_svg`."""
    for text, name in zip(texts, names):
        if text.get_text() != str(name):
            text.set_gid(WHOLE + str(name).encode("utf-8", "replace").hex())


def shortened(names: Sequence[Any], width: int) -> list[str]:
    """Names of at most so many letters, cut in the middle; where that makes two alike, where they begin to differ.

    >>> shortened(["a short one", "gaussian kernel on the pixels"], 12)
    ['a short one', 'gaussi…ixels']
    >>> shortened(["h.form m.form distance direction", "h.form m.feats distance direction"], 16)
    ['h.f…m.form dist…', 'h.f…m.feats dis…']
    """
    # no font has letters for half of a pair of codes, which strings of Python may hold
    names = [str(name).encode("utf-8", "replace").decode() for name in names]
    short = [_cut(name, width, None) for name in names]
    alike = defaultdict[str, set[str]](set)
    for name, cut in zip(names, short):
        alike[cut].add(name)
    found = []
    for name, cut in zip(names, short):
        own = alike[cut]
        found.append(cut if len(own) == 1 else _cut(name, width, _first_difference(own)))
    again = Counter(found)
    places = {name: k for k, name in enumerate(dict.fromkeys(names), 1)}
    return [own if again[own] == 1 else f"{own[: width - 5]}…{places[name]}" for name, own in zip(names, found)]


def _first_difference(names: Iterable[str]) -> int:
    """The first place where not all names have one letter."""
    columns = zip_longest(*names)
    return next((k for k, column in enumerate(columns) if len(set(column)) > 1), 0)


def _cut(name: str, width: int, differs: int | None) -> str:
    """One name, without its middle, or with what comes from the letter where it differs from others."""
    if len(name) <= width:
        return name
    if differs is None:
        return f"{name[: width // 2]}…{name[len(name) - (width - 1) // 2 :]}"
    head = name[: width // 5]
    begins = 1 + max(name.rfind(mark, 0, differs) for mark in " :=,|/")
    start = begins if differs - begins <= width // 3 else differs - 1
    start = min(max(start, len(head)), max(len(name) - (width - len(head) - 1), len(head)))
    rest, room = name[start:], width - len(head) - 1
    return f"{head}…{rest if len(rest) <= room else rest[: room - 1] + '…'}"


def label_ends(
    ax: Axes, ends: Sequence[tuple[float, float]], names: Sequence[str], styles: Sequence[dict[str, Any]]
) -> None:
    """Write names beside the axes, at the ends of their curves."""
    from omkl.reports.plots.end_labels import EndLabels

    own = EndLabels(ax, ends, shortened(names, room_for_names(ax)), styles, 0.92 * letters(ax), ink(ax))
    keep_whole(own.texts, names)
