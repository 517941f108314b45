"""HTML elements of a report, made by the macros in ``page/parts.html``, and formatting of numbers."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from omkl.estimators.base import OnlineEstimator
from omkl.exceptions import InputError, MissingDependencyError
from omkl.linear.base import SparseLinear
from omkl.mkl.base import BatchMKL
from omkl.reports import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A model that a report is about, or a part of an annotator.
Model: TypeAlias = OnlineEstimator | BatchMKL | SparseLinear
#: Record of training or evaluation: values by name.
Record: TypeAlias = dict[str, Any]
#: Maximum number of rows of a table.
ROWS = 200
#: Text for a missing number.
NOTHING = "\N{EN DASH}"
_NOT_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _clean(value: object) -> object:
    """Replace characters that HTML cannot hold."""
    return value if isinstance(value, Markup) else _NOT_HTML.sub("\N{REPLACEMENT CHARACTER}", str(value))


_SPACE: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
ENVIRONMENT = Environment(loader=PackageLoader("omkl.reports", "page"), autoescape=True, finalize=_clean, **_SPACE)
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
    cells = [[_cell(value, is_number) for value, is_number in zip(row, numeric)] for row in rows[:limit]]
    return html.sortable(header, numeric, cells, len(rows) - limit) if rows else ""


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (Cell, int, float, np.number)) and not isinstance(value, bool))


def _cell(value: Any, is_number: bool) -> tuple[object, str | None]:
    """Return the text of a cell, and its sort key; None means the text."""
    if not is_number:
        return ("" if value is None else value), None
    shown, key = value if isinstance(value, Cell) else (number(value), value)
    return shown, "" if key is None else f"{float(key):.10g}"


def shares(records: Iterable[Record], names: Sequence[str], of: Sequence[str]) -> list[list[Any]]:
    """Return the rows of a table of records, with the entries ``of`` as percentages."""
    return [[Cell(percent(r[name]), r[name]) if name in of else r[name] for name in names] for r in records]


def score_table(records: Sequence[Record], name: str) -> str:
    """Make a table of counts, precision, recall and F1 by label, relation or length."""
    counts, scores = ("gold", "predicted", "correct"), ("precision", "recall", "f1")
    rows = shares([{**r, name: str(r[name])} for r in records], (name, *counts, *scores), scores)
    return table([name, *counts, "precision", "recall", "F1"], rows)


def details(summary: str, *parts: str) -> str:
    """Make a collapsible section; empty without content."""
    return html.details(summary, *parts) if any(parts) else ""


def drawn(function: Callable[..., "Axes"], *arguments: object, caption: str = "", paper: bool = False) -> str:
    """Draw a plot of :mod:`omkl.reports` as SVG; empty without matplotlib, or if there is nothing to draw."""
    try:
        plots.canvas.figure_for(1.0, 1.0)
        from matplotlib import rc_context

        with rc_context({"text.parse_math": False}):
            return html.figure(Markup(plots.to_svg(function(*arguments))), caption, paper)
    except (MissingDependencyError, InputError):
        return ""
