"""HTML elements of a report, made by the macros in ``page/parts.html``, and drawings of parsed
sentences as SVG.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from unicodedata import east_asian_width

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from omkl.data import Sentence
from omkl.exceptions import InputError, MissingDependencyError
from omkl.reports.plots.canvas import figure_for, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omkl.estimators.base import OnlineEstimator
    from omkl.linear.base import SparseLinear
    from omkl.mkl.base import BatchMKL

#: A model that a report is about, or a part of an annotator.
Model: TypeAlias = "OnlineEstimator | BatchMKL | SparseLinear"
#: Record of training or evaluation: values by name.
Record: TypeAlias = dict[str, Any]
#: Maximum number of rows of a table.
ROWS = 200
#: Text for a missing number.
NOTHING = "\N{EN DASH}"
_NOT_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _clean(value: object) -> object:
    """Replace characters that HTML cannot hold."""
    return (
        value
        if isinstance(value, Markup)
        else _NOT_HTML.sub("\N{REPLACEMENT CHARACTER}", str(value))
    )


_SPACE: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
ENVIRONMENT = Environment(
    loader=PackageLoader("omkl.reports", "page"), autoescape=True, finalize=_clean, **_SPACE
)
#: Macros for elements of a page.
html: Any = ENVIRONMENT.get_template("parts.html").module


class Cell(NamedTuple):
    """Cell of a table: its text, and its sort key."""

    text: str
    value: float | None


def number(value: float | None, digits: int = 4) -> str:
    """Format a number with few digits and thin spaces between thousands; a dash if it is missing.

    >>> number(12), number(0.123456), number(None) == number(float("nan"))
    ('12', '0.1235', True)
    """
    if value is None or value != value:
        return NOTHING
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.{digits}g}"


def percent(value: float | None) -> str:
    """Format a fraction in [0, 1] as a percentage."""
    return NOTHING if value is None else f"{value:.1%}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]], limit: int = ROWS) -> str:
    """Make a table that can be sorted by clicking on column names; empty without rows.

    Values are strings, numbers, ``Markup``, :class:`Cell` or None.
    """
    rows = list(rows)
    numeric = [all(_is_number(value) for value in column) for column in zip(*rows)]
    cells = [
        [_cell(value, is_number) for value, is_number in zip(row, numeric)] for row in rows[:limit]
    ]
    return html.sortable(header, numeric, cells, len(rows) - limit) if rows else ""


def _is_number(value: object) -> bool:
    return value is None or (
        isinstance(value, (Cell, int, float, np.number)) and not isinstance(value, bool)
    )


def _cell(value: Any, is_number: bool) -> tuple[object, str | None]:
    """Return the text of a cell, and its sort key; None means the text."""
    if not is_number:
        return ("" if value is None else value), None
    shown, key = value if isinstance(value, Cell) else (number(value), value)
    return shown, "" if key is None else f"{float(key):.10g}"


def shares(records: Iterable[Record], names: Sequence[str], of: Sequence[str]) -> list[list[Any]]:
    """Return the rows of a table of records, with the entries ``of`` as percentages."""
    return [
        [Cell(percent(r[name]), r[name]) if name in of else r[name] for name in names]
        for r in records
    ]


def score_table(records: Sequence[Record], name: str) -> str:
    """Make a table of counts, precision, recall and F1 by label, relation or length."""
    counts, scores = ("gold", "predicted", "correct"), ("precision", "recall", "f1")
    rows = shares([{**r, name: str(r[name])} for r in records], (name, *counts, *scores), scores)
    return table([name, *counts, "precision", "recall", "F1"], rows)


def details(summary: str, *parts: str) -> str:
    """Make a collapsible section; empty without content."""
    return html.details(summary, *parts) if any(parts) else ""


def drawn(
    function: Callable[..., "Axes"], *arguments: object, caption: str = "", paper: bool = False
) -> str:
    """Draw a plot of :mod:`omkl.reports` as SVG; empty without matplotlib, or if there is nothing
    to draw.
    """
    try:
        figure_for(1.0, 1.0)
        from matplotlib import rc_context

        with rc_context({"text.parse_math": False}):
            return html.figure(Markup(to_svg(function(*arguments))), caption, paper)
    except (MissingDependencyError, InputError):
        return ""


# ---- drawings of trees ---------------------------------------------------------------------------


_NOT_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
#: Sizes in pixels: font size, space between words, height between arcs, and distance between arcs
#: at the same word.
WORD, LABEL, GAP, STEP, PORT = 16, 11, 14, 22, 7
#: Colour of wrong arcs.
WRONG = "#B92B1F"


class Arc(NamedTuple):
    """Labelled arc from the word at x = ``begin`` to the word at x = ``end``; ``begin`` is None for
    the root.
    """

    begin: float | None
    end: float
    level: int
    label: str
    is_wrong: bool


def draw_tree(sentence: Sentence, predicted: Sentence | None = None) -> str:
    """Draw the tree of a sentence as SVG, as in Figure 1 (top) of Martins et al. 2011, and a
    predicted tree below.

    Arcs point from heads to words. Text has the text colour of the page.

    Parameters
    ----------
    sentence : Sentence
        Sentence with forms. Heads, relations and tags are drawn if they are present.
    predicted : Sentence, optional
        The same words with predicted heads, drawn below the words. Arcs that differ are red and
        dashed.

    Returns
    -------
    str
        Text of an SVG file, which can be embedded in a web page.

    Raises
    ------
    omkl.exceptions.InputError
        If the predicted sentence has other words.

    Examples
    --------
    >>> from omkl.data import Sentence
    >>> picture = draw_tree(Sentence(forms=["No", "way"], upos=["DET", "NOUN"], heads=[2, 0], deprels=["det", "root"]))
    >>> picture.count("<path class="), picture.startswith("<svg"), ">det</text>" in picture
    (2, True, True)
    """
    if predicted is not None and list(predicted.forms) != list(sentence.forms):
        raise InputError(
            "The predicted sentence has other words: draw the two sentences by themselves."
        )
    forms = [_text_of(form, "_") for form in sentence.forms]
    tags = [_text_of(tag) for tag in sentence.upos or [""] * len(sentence)]
    sides = [sentence] if predicted is None else [sentence, predicted]
    centres, width = _centres(forms, tags, sides)
    above = _arcs(sentence, centres, [False] * len(sentence))
    below = []
    if predicted is not None:
        wrong = [False] * len(sentence)
        for own, other in (
            (sentence.heads, predicted.heads),
            (sentence.deprels, predicted.deprels),
        ):
            wrong = (
                [was or a != b for was, a, b in zip(wrong, own, other)] if own and other else wrong
            )
        below = _arcs(predicted, centres, wrong)
    base = 2 * LABEL + STEP * max((arc.level for arc in above), default=0)
    low = base + WORD + LABEL + 14
    height = low + 2 * LABEL + STEP * max((arc.level for arc in below), default=0)
    content = {"title": " ".join(forms), "words": list(zip(forms, tags, centres))}
    look = {"width": width, "height": height, "step": STEP, "wrong": WRONG}
    drawing = ENVIRONMENT.get_template("tree.svg")
    return drawing.render(**content, sides=[(above, base, -1), (below, low, 1)], **look)


def _centres(
    forms: Sequence[str], tags: Sequence[str], sides: Sequence[Sentence]
) -> tuple[list[float], float]:
    """Return positions of words, so that arcs are wider than their labels, and the total width."""
    widths = [max(_width(form, WORD), _width(tag, LABEL)) for form, tag in zip(forms, tags)]
    ending: list[list[tuple[int, float]]] = [[] for _ in forms]
    for side in sides:
        ends = [0] * len(forms)
        for i, head in enumerate(side.heads or []):
            label = _width(_text_of(side.deprels[i]) if side.deprels else "", LABEL)
            for word in {i, head - 1 if head else i}:
                ends[word] += PORT
            if head:
                ending[max(i, head - 1)].append((min(i, head - 1), label + GAP))
            else:
                widths[i] = max(widths[i], label)
        widths = [max(width, 2 * end) for width, end in zip(widths, ends)]
        ending = [
            [(left, room + ends[left] + ends[right]) for left, room in own]
            for right, own in enumerate(ending)
        ]
    centres = [GAP + widths[0] / 2] if widths else []
    for i, (before, width) in enumerate(pairwise(widths), 1):
        beside = centres[-1] + (before + width) / 2 + GAP
        centres.append(max([beside, *(centres[left] + room for left, room in ending[i])]))
    return centres, (centres[-1] + widths[-1] / 2 if centres else 0.0) + GAP


def _arcs(sentence: Sentence, centres: Sequence[float], wrong: Sequence[bool]) -> list[Arc]:
    """Return arcs, each above the shorter arcs between its words, and lines of roots above all
    arcs.
    """
    labels = [_text_of(label) for label in sentence.deprels or [""] * len(sentence)]
    spans = {i: tuple(sorted((i, h - 1))) for i, h in enumerate(sentence.heads or []) if h}
    reached = [0] * len(sentence)
    levels = {}
    for i, (left, right) in sorted(
        spans.items(), key=lambda pair: (pair[1][1] - pair[1][0], pair[1])
    ):
        levels[i] = 1 + max(reached[left:right])
        reached[left:right] = [levels[i]] * (right - left)
    used: dict[tuple[int, bool], int] = {}
    arcs = []
    # higher arcs end closer to the centres of their words, so that arcs do not cross
    for i in sorted(spans, key=lambda i: -levels[i]):
        ends = []
        for word, other in ((sentence.heads[i] - 1, i), (i, sentence.heads[i] - 1)):
            side = 1 if other > word else -1
            k = used[word, side > 0] = used.get((word, side > 0), 0) + 1
            ends.append(centres[word] + side * (k - 0.5) * PORT)
        arcs.append(Arc(ends[0], ends[1], levels[i], labels[i], wrong[i]))
    top = 1 + max(levels.values(), default=0)
    roots = [i for i, head in enumerate(sentence.heads or []) if head == 0]
    return arcs + [Arc(None, centres[i], top, labels[i], wrong[i]) for i in roots]


def _width(text: str, size: int) -> float:
    """Estimate the width of a text in a sans-serif font of this size."""
    return size * sum(1.05 if east_asian_width(c) in "WF" or c in "mwMW@" else 0.68 for c in text)


def _text_of(text: str | None, missing: str = "") -> str:
    """Replace characters that are invalid in XML; return ``missing`` for None and an underscore."""
    return missing if text in (None, "_") else _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
