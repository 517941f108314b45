"""Templates of CRF++: which columns of a token and its neighbours make its attributes."""

import re
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from omkl.data.files import PathLike, text_lines
from omkl.exceptions import DataFileError, DataWarning, InputError

#: ``%x[row,column]``: the column of the token that is so many rows further.
MACRO = re.compile(r"%x\[\s*(-?\d+)\s*,\s*(\d+)\s*\]")


class AttributeTemplate(NamedTuple):
    """One line of a template file.

    Attributes
    ----------
    name : str
        What stands before the colon of ``U01:%x[0,0]``, or before the first macro: the group of its attributes.
    text : str
        The rest, with macros in it.
    """

    name: str
    text: str

    def values(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """What the template says of each token of a sequence: its text, with cells in the place of macros.

        Before the first token stand ``_B-1``, ``_B-2``, ..., after the last one ``_B+1``, ``_B+2``, ..., as in CRF++.
        """
        first, *others = MACRO.split(self.text)  # macros are rows and columns, between them the rest of the text
        values = [first] * len(rows)
        for row, column, text in zip(others[::3], others[1::3], others[2::3]):
            values = [f"{value}{cell}{text}" for value, cell in zip(values, self._cells(rows, int(row), int(column)))]
        return values

    def _cells(self, rows: Sequence[Sequence[str]], offset: int, column: int) -> list[str]:
        """A column of the tokens that are so many rows further."""
        width, n = min(map(len, rows), default=0), len(rows)
        if column >= width:
            raise InputError(
                f"The template {self.name!r} looks at column {column}, and tokens have columns 0 to {width - 1} beside "
                "their labels."
            )
        cells = [row[column] for row in rows]
        before = [f"_B{place}" for place in range(offset, min(0, offset + n))]
        after = [f"_B+{place}" for place in range(max(offset - n, 0) + 1, offset + 1)]
        return [*before, *cells[max(offset, 0) : max(n + offset, 0)], *after]


def read_attribute_templates(path: PathLike) -> list[AttributeTemplate]:
    """Read a template file of CRF++.

    Parameters
    ----------
    path : path-like
        Lines such as ``U01:%x[-1,0]/%x[0,0]``; empty lines and those that begin with ``#`` say nothing. A line ``B``
        asks for transitions between labels, which labelers learn anyhow. One of transitions that depend on tokens,
        ``B01:%x[0,0]``, of which labelers have none, is read as ``U01:%x[0,0]``, with a warning: what it looks at tells
        of the label, whatever the one before it.

    Returns
    -------
    list of AttributeTemplate

    Raises
    ------
    omkl.exceptions.DataFileError
        If a line is no template, or if no line is left.

    References
    ----------
    T. Kudo: CRF++, Yet Another CRF toolkit; "Preparing feature templates" in its manual.
    """
    return parse_attribute_templates(text_lines(path), str(path))


def parse_attribute_templates(lines: Iterable[tuple[int, str]], source: str) -> list[AttributeTemplate]:
    """Templates of numbered lines, as :func:`read_attribute_templates` reads them; errors name their ``source``."""
    templates, of_pairs = [], []
    for number, line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        where = f"{source}, line {number}"
        if line[0] not in "UB" or "%" in MACRO.sub("", line):
            raise DataFileError(f"{where}: {line[:80]!r} is no template such as U01:%x[-1,0]/%x[0,0].")
        if line[0] == "B":
            if not MACRO.search(line):
                continue
            of_pairs.append(line)
        before = line[: found.start()] if (found := MACRO.search(line)) else line
        name, colon, _ = before.partition(":")
        templates.append(AttributeTemplate(name, line[len(name) + len(colon) :]))
    if of_pairs:
        some = ", ".join(of_pairs[:3]) + (", ..." if len(of_pairs) > 3 else "")
        warnings.warn(
            f"{source}: {len(of_pairs)} templates are of transitions that depend on tokens, which labelers do not "
            f"learn ({some:.200}): they tell of single labels, as if they began with U.",
            DataWarning,
            stacklevel=3,
        )
    if not templates:
        raise DataFileError(f"{source} holds no template: it needs one such as U01:%x[0,0].")
    return templates


def templated(
    templates: Sequence[AttributeTemplate], rows: Sequence[Sequence[str]]
) -> list[dict[str, dict[str | None, float]]]:
    """The attributes of every token of a sequence.

    Parameters
    ----------
    templates : sequence of AttributeTemplate
    rows : sequence of sequences of str
        The columns of each token.

    Returns
    -------
    list of dict
        For each token, by the name of a template, what it says and how often, as readers of CRFsuite's format have it;
        None of a template that is only a name, the same for all tokens.

    Examples
    --------
    >>> templated([AttributeTemplate("U0", "%x[-1,0]/%x[0,1]")], [["the", "D"], ["dog", "N"]])
    [{'U0': {'_B-1/D': 1.0}}, {'U0': {'the/N': 1.0}}]
    """
    tokens: list[dict[str, dict[str | None, float]]] = [{} for _ in rows]
    for template in templates if rows else ():
        for token, value in zip(tokens, template.values(rows)):
            values, own = token.setdefault(template.name, {}), value if template.text else None
            values[own] = values.get(own, 0.0) + 1.0
    return tokens
