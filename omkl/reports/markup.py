"""HTML of a report: tables that can be sorted, pictures, parts that open, and the page around them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, NamedTuple

import numpy as np

#: Rows of a table at most; how many there are besides is said below it.
ROWS = 200
#: Where there is no number.
NOTHING = "\N{EN DASH}"
_NOT_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


class Markup(str):
    """Text that is HTML already."""


class Cell(NamedTuple):
    """What a table shows, and what it sorts by."""

    text: str
    value: float


class Section(NamedTuple):
    """A part of the page with a heading; ``name`` is what a link to it says."""

    name: str
    heading: str
    parts: Sequence[str]


def text(value: Any) -> Markup:
    """Any value as text of HTML; what HTML cannot hold becomes a replacement character."""
    if isinstance(value, Markup):
        return value
    return Markup(escape(_NOT_HTML.sub("\N{REPLACEMENT CHARACTER}", str(value))))


def number(value: float | None, digits: int = 4) -> str:
    """A number in few digits, with thin spaces between thousands; a dash for none.

    >>> number(12), number(0.123456), number(None) == number(float("nan"))
    ('12', '0.1235', True)
    """
    if value is None or value != value:
        return NOTHING
    if isinstance(value, (int, np.integer)) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}".replace(",", "\u202f")
    return f"{value:.{digits}g}"


def percent(value: float | None) -> Cell | None:
    """A share in [0, 1] as percents; None stays None."""
    return None if value is None else Cell(f"{value:.1%}", float(value))


def with_article(name: str) -> str:
    """The name of a class after "a" or "an", as it is said.

    >>> [with_article(name) for name in ("MKLClassifier", "OneClassMKL", "OnlineMKLRegressor", "GroupLasso")]
    ['an MKLClassifier', 'a OneClassMKL', 'an OnlineMKLRegressor', 'a GroupLasso']
    """
    return f"{'an' if name.startswith(('A', 'E', 'I', 'MKL', 'Onl', 'Ov')) else 'a'} {name}"


def share(value: float) -> str:
    """A share as percents in three digits, but for the smallest ones: groups by the hundreds are still told apart.

    >>> [share(value) for value in (0.506, 0.0546, 0.0035, 1e-7, 0.0)]
    ['50.6%', '5.46%', '0.350%', '<0.0001%', '0%']
    """
    if value == 0:
        return "0%"
    digits = min(max(-math.floor(math.log10(value)), 1), 4)
    return f"{value:.{digits}%}" if value >= 5e-7 else "<0.0001%"


def share_cell(value: float | None) -> Cell | None:
    """A share in a column of such; None stays None."""
    return None if value is None else Cell(share(value), float(value))


def paragraph(words: Any, soft: bool = False) -> str:
    """A paragraph; ``soft`` is for what may be left unread."""
    return f"<p{' class=soft' if soft else ''}>{text(words)}</p>"


def tiles(facts: Mapping[str, Any]) -> str:
    """The most important numbers, each with its name."""
    shown = ((name, value.text if isinstance(value, Cell) else value) for name, value in facts.items())
    return "<dl class=tiles>" + "".join(f"<div><dt>{text(n)}</dt><dd>{text(v)}</dd></div>" for n, v in shown) + "</dl>"


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "", limit: int = ROWS) -> str:
    """A table whose columns are sorted by a click on their names; numbers stand on the right.

    Parameters
    ----------
    header : sequence of str
    rows : iterable of sequences
        Strings, numbers, :class:`Cell`, :class:`Markup`, or None for nothing.
    caption : str
    limit : int
        Rows at most.
    """
    rows = list(rows)
    if not rows:
        return ""
    numeric = [all(_is_number(row[j]) for row in rows) for j in range(len(header))]
    heads = "".join(
        f"<th scope=col{' class=number' if is_number else ''}><button>{text(name)}</button></th>"
        for name, is_number in zip(header, numeric)
    )
    lines = ("<tr>" + "".join(map(_cell, row, numeric)) + "</tr>" for row in rows[:limit])
    more = paragraph(f"and {len(rows) - limit} more.", soft=True) if len(rows) > limit else ""
    title = f"<caption>{text(caption)}</caption>" if caption else ""
    body = "\n".join(lines)
    return f"<div class=wide><table>{title}<thead><tr>{heads}</tr></thead><tbody>\n{body}\n</tbody></table></div>{more}"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (Cell, int, float, np.number)) and not isinstance(value, bool))


def _cell(value: Any, numeric: bool) -> str:
    if not numeric:
        return f"<td>{text('' if value is None else value.text if isinstance(value, Cell) else value)}</td>"
    shown, key = value if isinstance(value, Cell) else (number(value), value)
    return f'<td class=number data-value="{"" if key is None else f"{float(key):.10g}"}">{text(shown)}</td>'


def figure(picture: str, caption: str = "", paper: bool = False) -> str:
    """An SVG picture, and what it shows; on white ``paper`` where it would not be seen on a dark page."""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return f"<figure{' class=paper' * paper}>{picture}{below}</figure>"


def bar(value: float, largest: float) -> Markup:
    """A bar as long as a number is large, in another colour below zero."""
    length = 12.0 * abs(value) / largest if largest else 0.0
    return Markup(f'<span class="bar{"" if value >= 0 else " against"}" style="width:{length:.2f}em"></span>')


def opening(summary: str, *parts: str) -> str:
    """What is hidden until it is asked for; nothing where there are no parts."""
    return f"<details><summary>{text(summary)}</summary>{''.join(parts)}</details>" if any(parts) else ""


def example(heading: str, *parts: str) -> str:
    """An input that the model gets wrong."""
    return f"<article class=example><h3>{text(heading)}</h3>{''.join(parts)}</article>"


def heading(words: str) -> str:
    """The heading of a part of a section."""
    return f"<h3>{text(words)}</h3>"


def page(title: str, lead: Sequence[str], sections: Sequence[Section], foot: str) -> str:
    """The whole page: style and script are in it, and it asks for nothing from anywhere."""
    own = files("omkl.reports").joinpath("page")
    parts = {name: own.joinpath(file).read_text(encoding="utf-8") for name, file in
             (("page", "page.html"), ("style", "style.css"), ("script", "script.js"))}  # fmt: skip
    sections = [section for section in sections if any(section.parts)]
    return Template(parts["page"]).substitute(
        title=text(title),
        style=parts["style"],
        script=parts["script"],
        lead="\n".join(lead),
        links="".join(f'<li><a href="#{s.name}">{text(s.heading)}</a></li>' for s in sections),
        sections="\n".join(
            f'<section id="{s.name}"><h2>{text(s.heading)}</h2>\n{chr(10).join(filter(None, s.parts))}</section>'
            for s in sections
        ),
        foot=text(foot),
    )
