"""HTML elements of a report, and drawings of parsed sentences as SVG.

Elements are made by the macros in ``page/parts.html``.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVarTuple
from unicodedata import east_asian_width

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from scipy import sparse

from omkl.data import Sentence, Treebank
from omkl.exceptions import InputError, MissingDependencyError
from omkl.reports.plots.canvas import figure_for, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omkl.estimators.base import OnlineEstimator
    from omkl.linear.base import SparseLinear
    from omkl.mkl.base import BatchMKL

#: A model that a report is about, or a part of an annotator.
Model: TypeAlias = "OnlineEstimator | BatchMKL | SparseLinear"
#: Examples that a report is on, and their labels or numbers.
Data: TypeAlias = "Treebank | Sequence | np.ndarray | sparse.csr_array"
Outputs: TypeAlias = Sequence | np.ndarray
#: Record of training or evaluation: values by name.
Record: TypeAlias = dict[str, Any]
#: Arguments of a plot.
Arguments = TypeVarTuple("Arguments")
#: Maximum number of rows of a table.
ROWS = 200
#: Text for a missing number.
NOTHING = "\N{EN DASH}"
_NOT_HTML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def _clean(value: object) -> object:
    """Replace characters that HTML cannot hold."""
    if isinstance(value, Markup):
        return value
    return _NOT_HTML.sub("\N{REPLACEMENT CHARACTER}", str(value))


ENVIRONMENT = Environment(
    loader=PackageLoader("omkl.reports", "page"),
    autoescape=True,
    finalize=_clean,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
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
    if value is None:
        return NOTHING
    return f"{value:.1%}"


def percent_cell(value: float | None) -> Cell:
    """Make a cell of a fraction in [0, 1], shown as a percentage."""
    return Cell(percent(value), value)


def signed_cell(value: float) -> Cell:
    """Make a cell of a number, shown with its sign."""
    return Cell(f"{value:+.3g}", value)


def table(header: Sequence[str], rows: Iterable[Sequence[object]], limit: int = ROWS) -> str:
    """Make a table that can be sorted by clicking on column names; empty without rows.

    Values are strings, numbers, ``Markup``, :class:`Cell` or None.
    """
    rows = list(rows)
    if not rows:
        return ""
    numeric = [all(map(_is_number, column)) for column in zip(*rows)]
    cells = [list(map(_cell, row, numeric)) for row in rows[:limit]]
    return html.sortable(header, numeric, cells, len(rows) - limit)


def _is_number(value: object) -> bool:
    """Return whether a value may stand in a column of numbers, as a missing one does."""
    if value is None:
        return True
    return isinstance(value, (Cell, int, float, np.number)) and not isinstance(value, bool)


def _cell(value: Any, is_number: bool) -> tuple[object, str | None]:
    """Return the text of a cell, and its sort key; None sorts by the text."""
    if not is_number:
        text = "" if value is None else value
        return text, None
    if not isinstance(value, Cell):
        value = Cell(number(value), value)
    if value.value is None:
        return value.text, ""
    return value.text, f"{float(value.value):.10g}"


def rows_with_percentages(
    records: Iterable[Record], names: Sequence[str], fractions: Sequence[str]
) -> list[list[Any]]:
    """Return the entries ``names`` of records; those in ``fractions`` are percentages."""
    rows = []
    for record in records:
        cells = dict(record)
        for name in fractions:
            cells[name] = percent_cell(record[name])
        rows.append([cells[name] for name in names])
    return rows


def score_section(heading: str, records: Sequence[Record], name: str) -> list[str]:
    """Make a table of counts, precision, recall and F1 by label, relation or length."""
    counts = ("gold", "predicted", "correct")
    scores = ("precision", "recall", "f1")
    named_records = [{**record, name: str(record[name])} for record in records]
    rows = rows_with_percentages(named_records, (name, *counts, *scores), scores)
    return [html.heading(heading), table([name, *counts, "precision", "recall", "F1"], rows)]


def details(summary: str, *contents: str) -> str:
    """Make a collapsible section; empty without content."""
    if not any(contents):
        return ""
    return html.details(summary, *contents)


def draw_plot(
    function: Callable[[*Arguments], "Axes"],
    *arguments: *Arguments,
    caption: str = "",
    paper: bool = False,
) -> str:
    """Draw a plot as SVG; empty without matplotlib, or if there is nothing to draw."""
    try:
        figure_for(1.0, 1.0)
        from matplotlib import rc_context

        with rc_context({"text.parse_math": False}):
            return html.figure(Markup(to_svg(function(*arguments))), caption, paper)
    except (MissingDependencyError, InputError):
        return ""


# ---- drawings of trees ---------------------------------------------------------------------------


_NOT_XML = re.compile("[\x00-\x1f\ud800-\udfff\ufffe\uffff]")
#: Sizes of fonts in pixels.
WORD = 16
LABEL = 11
#: Pixels between words, between the heights of arcs, and between arcs at the same word.
GAP = 14
STEP = 22
PORT = 7
#: Colour of wrong arcs.
WRONG = "#B92B1F"


class Arc(NamedTuple):
    """Labelled arc from the word at x = ``begin`` to the word at x = ``end``.

    ``begin`` is None for an arc from the root.
    """

    begin: float | None
    end: float
    level: int
    label: str
    is_wrong: bool


def draw_tree(sentence: Sentence, predicted: Sentence | None = None) -> str:
    """Draw the tree of a sentence as SVG, and a predicted tree below.

    It looks as in Figure 1 (top) of Martins et al. 2011. Arcs point from heads to words. Text has
    the text colour of the page.

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
    >>> sentence = Sentence(forms=["No", "way"], heads=[2, 0], deprels=["det", "root"])
    >>> picture = draw_tree(sentence)
    >>> picture.count("<path class="), picture.startswith("<svg"), ">det</text>" in picture
    (2, True, True)
    """
    if predicted is not None and list(predicted.forms) != list(sentence.forms):
        raise InputError(
            "The predicted sentence has other words: draw the two sentences by themselves."
        )
    forms = [_text_of(form, "_") for form in sentence.forms]
    tags = _texts_of(sentence.upos, len(sentence))
    sentences = [sentence]
    if predicted is not None:
        sentences.append(predicted)
    centres, width = _centres(forms, tags, sentences)
    above = _arcs(sentence, centres, [False] * len(sentence))
    below = []
    if predicted is not None:
        below = _arcs(predicted, centres, _words_that_differ(sentence, predicted))
    base_above = _height(above)
    base_below = base_above + WORD + LABEL + 14
    return ENVIRONMENT.get_template("tree.svg").render(
        title=" ".join(forms),
        words=list(zip(forms, tags, centres)),
        sides=[(above, base_above, -1), (below, base_below, 1)],
        width=width,
        height=base_below + _height(below),
        step=STEP,
        wrong=WRONG,
    )


def _words_that_differ(sentence: Sentence, predicted: Sentence) -> list[bool]:
    """Return whether each word has another predicted head or relation; missing ones are right."""
    differ = [False] * len(sentence)
    for name in ("heads", "deprels"):
        gold = getattr(sentence, name)
        other = getattr(predicted, name)
        if gold and other:
            differ = [was or a != b for was, a, b in zip(differ, gold, other)]
    return differ


def _height(arcs: Sequence[Arc]) -> int:
    """Return the height of arcs and their labels."""
    return 2 * LABEL + STEP * max((arc.level for arc in arcs), default=0)


def _centres(
    forms: Sequence[str], tags: Sequence[str], sentences: Sequence[Sentence]
) -> tuple[list[float], float]:
    """Return positions of words, so that arcs are wider than their labels, and the total width."""
    widths = [max(_width(form, WORD), _width(tag, LABEL)) for form, tag in zip(forms, tags)]
    distances: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for sentence in sentences:
        heads = sentence.heads or []
        labels = _texts_of(sentence.deprels, len(forms))
        n_ends = Counter(head - 1 for head in heads if head)
        n_ends.update(range(len(heads)))
        for i, head in enumerate(heads):
            label_width = _width(labels[i], LABEL)
            if head:
                left, right = sorted((i, head - 1))
                distance = label_width + GAP + PORT * (n_ends[left] + n_ends[right])
                distances[right].append((left, distance))
            else:
                widths[i] = max(widths[i], label_width)
        widths = [max(width, 2 * PORT * n_ends[i]) for i, width in enumerate(widths)]
    return _placed(widths, distances)


def _placed(
    widths: Sequence[float], distances: dict[int, list[tuple[int, float]]]
) -> tuple[list[float], float]:
    """Return positions of words of these widths, and the total width.

    ``distances`` are the least distances from the left words of arcs, by their right words.
    """
    if not widths:
        return [], GAP
    centres = [GAP + widths[0] / 2]
    for i, (before, width) in enumerate(pairwise(widths), 1):
        positions = [centres[-1] + (before + width) / 2 + GAP]
        positions += [centres[left] + distance for left, distance in distances[i]]
        centres.append(max(positions))
    return centres, centres[-1] + widths[-1] / 2 + GAP


def _arcs(sentence: Sentence, centres: Sequence[float], wrong: Sequence[bool]) -> list[Arc]:
    """Return arcs above the shorter arcs between their words, and roots above all arcs."""
    labels = _texts_of(sentence.deprels, len(sentence))
    heads = sentence.heads or []
    levels = _levels(heads)
    n_ends: Counter[tuple[int, bool]] = Counter()  # by word and side
    arcs = []
    # higher arcs end closer to the centres of their words, so that arcs do not cross
    for i in sorted(levels, key=lambda word: (-levels[word], word)):
        ends = []
        for word, other in ((heads[i] - 1, i), (i, heads[i] - 1)):
            is_right = other > word
            n_ends[word, is_right] += 1
            distance = (n_ends[word, is_right] - 0.5) * PORT
            if not is_right:
                distance = -distance
            ends.append(centres[word] + distance)
        arcs.append(Arc(ends[0], ends[1], levels[i], labels[i], wrong[i]))
    top = 1 + max(levels.values(), default=0)
    roots = [i for i, head in enumerate(heads) if head == 0]
    return arcs + [Arc(None, centres[i], top, labels[i], wrong[i]) for i in roots]


def _levels(heads: Sequence[int | None]) -> dict[int, int]:
    """Return the level of the arc to each word that has a word as head, above shorter arcs."""
    spans = []
    for i, head in enumerate(heads):
        if head:
            left, right = sorted((i, head - 1))
            spans.append((right - left, left, right, i))
    reached = [0] * len(heads)  # highest level between a word and the next one
    levels = {}
    for length, left, right, i in sorted(spans):
        levels[i] = 1 + max(reached[left:right])
        reached[left:right] = [levels[i]] * length
    return levels


def _width(text: str, size: int) -> float:
    """Estimate the width of a text in a sans-serif font of this size."""
    return size * sum(map(_relative_width, text))


def _relative_width(character: str) -> float:
    """Estimate the width of a character in a font of size 1."""
    if east_asian_width(character) in "WF" or character in "mwMW@":
        return 1.05
    return 0.68


def _texts_of(column: Sequence[str | None], n: int) -> list[str]:
    """Return a column of a sentence of n words for XML; empty strings if the column is empty."""
    if not column:
        return [""] * n
    return list(map(_text_of, column))


def _text_of(text: str | None, missing: str = "") -> str:
    """Replace characters that are invalid in XML; return ``missing`` for None and an underscore."""
    if text is None or text == "_":
        return missing
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
