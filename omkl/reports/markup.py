"""HTML of a report: parts of a page, made by the macros of ``page/parts.html``, and numbers as text."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from omkl.reports.plots.names import share

#: Rows of a table at most; their number is said below it.
ROWS = 200
#: Where there is no number.
NOTHING = "\N{EN DASH}"
_NOT_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _clean(value: Any) -> Any:
    """Text without the characters that HTML cannot hold."""
    return value if isinstance(value, Markup) else _NOT_HTML.sub("\N{REPLACEMENT CHARACTER}", str(value))


ENVIRONMENT = Environment(
    loader=PackageLoader("omkl.reports", "page"),
    autoescape=True,
    finalize=_clean,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
#: Macros that make parts of a page.
html: Any = ENVIRONMENT.get_template("parts.html").module


class Cell(NamedTuple):
    """A cell of a table: its text, and the number by which it is sorted."""

    text: str
    value: float

    def __str__(self) -> str:
        return self.text


class Section(NamedTuple):
    """A section of the page; ``name`` is its anchor."""

    name: str
    heading: str
    parts: Sequence[str]


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


def share_cell(value: float | None) -> Cell | None:
    """A share in three digits; None stays None."""
    return None if value is None else Cell(share(value), float(value))


def signed_cell(value: float, digits: int = 3) -> Cell:
    """A number with its sign."""
    return Cell(f"{value:+.{digits}g}", float(value))


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], limit: int = ROWS) -> str:
    """A table that a click on a column's name sorts; empty without rows.

    Parameters
    ----------
    header : sequence of str
    rows : iterable of sequences
        Strings, numbers, :class:`Cell`, ``Markup``, or None for nothing. A column of numbers stands on the right.
    limit : int
        Rows at most.
    """
    rows = list(rows)
    numeric = [all(_is_number(value) for value in column) for column in zip(*rows)]
    cells = [[_cell(value, is_number) for value, is_number in zip(row, numeric)] for row in rows[:limit]]
    return html.sortable(header, numeric, cells, "", len(rows) - limit) if rows else ""


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (Cell, int, float, np.number)) and not isinstance(value, bool))


def _cell(value: Any, is_number: bool) -> tuple[Any, str | None]:
    """The text of a cell, and what it is sorted by; None where that is the text."""
    if not is_number:
        return ("" if value is None else value), None
    shown, key = (value.text, value.value) if isinstance(value, Cell) else (number(value), value)
    return shown, "" if key is None else f"{float(key):.10g}"


def details(summary: str, *parts: str) -> str:
    """Parts that a click shows; nothing without parts."""
    return html.details(summary, *parts) if any(parts) else ""


def bar(value: float, largest: float) -> str:
    """A bar as long as a number is large, in another colour below zero."""
    return html.bar(12.0 * abs(value) / largest if largest else 0.0, value < 0)


def page(title: str, lead: Sequence[str], sections: Sequence[Section], foot: str) -> str:
    """The whole page, with style and script in it."""
    sections = [section for section in sections if any(section.parts)]
    return ENVIRONMENT.get_template("page.html").render(title=title, lead=lead, sections=sections, foot=foot)
