"""Which columns of an input a kernel is on: by position, as a range, or by name. Batch and online select alike."""

import fnmatch
import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral
from typing import TypeAlias

import numpy as np
from scipy import sparse

from omkl.exceptions import InputError

#: What ``on=`` may be: everything, a column by position or name, a range, or several of these.
On: TypeAlias = int | str | slice | tuple[int | str, ...] | None
#: Columns by position, as they are selected; None stands for all.
Positions: TypeAlias = slice | tuple[int, ...] | None

RANGE = re.compile(r"\s*-?\d*\s*:\s*-?\d*\s*(:\s*-?\d*\s*)?")


def parse_on(on: int | str | slice | Iterable[int | str] | None) -> On:
    """``on=`` in its one form: ``"0:3"`` as a slice, lists and arrays as tuples.

    >>> parse_on("0:3"), parse_on(["age", 2])
    (slice(0, 3, None), ('age', 2))
    """
    if isinstance(on, str) and RANGE.fullmatch(on):
        return slice(*(int(bound) if bound.strip() else None for bound in on.split(":")))
    if on is None or isinstance(on, (str, slice)):
        return on
    if isinstance(on, Integral) and not isinstance(on, (bool, np.bool_)):
        return int(on)
    try:
        parsed = tuple(item if isinstance(item, str) else int(item) for item in on)
    except (TypeError, ValueError):
        parsed = ()
    if not parsed:
        raise InputError(
            f"on= is a column by name or position, a range such as '0:3', or a list of columns; not {on!r}."
        )
    return parsed


def format_on(on: On) -> str:
    """``on=`` as it stands in a kernel's string.

    >>> format_on(slice(0, 3)), format_on(("age", 2)), format_on("hours per week, total")
    ('0:3', '[age,2]', "'hours per week, total'")
    """
    if isinstance(on, slice):
        bounds = (on.start, on.stop) if on.step in (None, 1) else (on.start, on.stop, on.step)
        return ":".join("" if bound is None else str(bound) for bound in bounds)
    if isinstance(on, tuple):
        return f"[{','.join(map(format_on, on))}]"
    plain = not isinstance(on, str) or re.fullmatch(r"[^\W\d][\w .-]*", on)
    return str(on) if plain else repr(on)


def find_columns(on: On, n_columns: int, names: Sequence[str] | None = None, kernel: str = "") -> Positions:
    """Columns of an input by position: None for all, a slice where they follow one another, else a tuple.

    Parameters
    ----------
    on : int, str, slice, tuple or None
        As :func:`parse_on` returns it.
    n_columns : int
        Columns of the input.
    names : sequence of str, optional
        What they are called.
    kernel : str
        Whose columns they are, for messages.

    Raises
    ------
    omkl.exceptions.InputError
        If there is no such column, or none at all.
    """
    if on is None:
        return None
    if isinstance(on, slice):
        found = range(n_columns)[on]
    else:
        items = on if isinstance(on, tuple) else (on,)
        found = [column for item in items for column in _positions(item, n_columns, names, kernel)]
    if not len(found):
        raise InputError(
            f"The kernel {kernel!r} selects columns {format_on(on)}, which are none: inputs have {n_columns}."
        )
    low, high = found[0], found[-1] + 1
    return slice(low, high) if list(found) == list(range(low, high)) else tuple(found)


def _positions(item, n_columns, names, kernel):
    if not isinstance(item, str):
        if not -n_columns <= item < n_columns:
            raise InputError(
                f"The kernel {kernel!r} selects column {item}, but inputs have {n_columns}: 0 is the first."
            )
        return [item % n_columns]
    if names is None:
        raise InputError(
            f"The kernel {kernel!r} is on the column {item!r}, but the columns of the input have no names: give a data "
            "frame, or columns by position."
        )
    names = list(names)
    found = [names.index(item)] if item in names else [names.index(name) for name in fnmatch.filter(names, item)]
    if not found:
        close = get_close_matches(item, names, n=1) or names[:5]
        raise InputError(
            f"The kernel {kernel!r} is on the column {item!r}, which is none of the {n_columns} columns; there is "
            f"{', '.join(map(repr, close))}."
        )
    return found


def take_columns(X: np.ndarray | sparse.sparray, columns: Positions) -> np.ndarray | sparse.sparray:
    """The columns of an array or sparse matrix (n, d) at positions that :func:`find_columns` found."""
    if columns is None:
        return X
    if isinstance(columns, slice):
        return X[:, columns]
    # an index in brackets would leave the rows of an array apart in memory
    return X[:, list(columns)] if sparse.issparse(X) else X.take(columns, axis=1)


def count_columns(columns: Positions, n_columns: int) -> int:
    """How many columns are selected of so many."""
    if columns is None:
        return n_columns
    return len(range(n_columns)[columns]) if isinstance(columns, slice) else len(columns)
