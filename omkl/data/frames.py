"""Data frames, of pandas or polars, and the names of columns."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from omkl.exceptions import InputError


def is_frame(X: Any) -> bool:
    """Whether X is a data frame, of pandas or polars."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "to_numpy")


def column_names(X: Any) -> list[str] | None:
    """What the columns of a data frame are called; None for all else, and where names are no strings."""
    names = list(X.columns) if is_frame(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def align_columns(X: Any, names: Sequence[str] | None, known: Sequence[str] | None, where: str = "The input") -> Any:
    """X with the columns that a model knows, in the order in which it knows them.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d), or list of dicts
        Rows that are dicts have their names with them, and stay as they are.
    names : sequence of str or None
        What the columns of X are called; where that is unknown, X is left as it is.
    known : sequence of str or None
        What the model's columns are called, in its order; None where it has learned from columns without names.
    where : str
        What X is called in the message.

    Raises
    ------
    omkl.exceptions.InputError
        If a column is missing. Columns that the model does not know are left out.
    """
    if names is None or known is None or list(names) == list(known):
        return X
    names, known = list(names), list(known)
    missing = [name for name in known if name not in names]
    if missing:
        listed = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise InputError(
            f"{where} has no column {listed}: {len(known)} columns are needed, and they are found by their names."
        )
    if isinstance(X, list):
        return X
    return X[known] if is_frame(X) else X[:, [names.index(name) for name in known]]


def read_frame(X: Any, as_dicts: bool | None = None) -> Any:
    """A data frame as an array of numbers, or as a list of dicts where columns hold text; all else as it is.

    In dicts, what is missing is left out, and a category is a string.

    Parameters
    ----------
    X : data frame, or anything else
    as_dicts : bool, optional
        Whether to make dicts; by default where a column does not hold numbers.
    """
    if not is_frame(X):
        return X
    names = list(X.columns)
    columns = [X[name] for name in names]
    if as_dicts is None:
        as_dicts = not all(map(_holds_numbers, columns))
    if not as_dicts:
        return np.array(X, dtype=np.float64, order="C")
    values = [_values(column) for column in columns]
    return [{str(name): value for name, value in zip(names, row) if not _is_missing(value)} for row in zip(*values)]


def _holds_numbers(column: Any) -> bool:
    kind = getattr(column.dtype, "kind", None)
    if kind is None:
        return column.dtype.is_numeric() or str(column.dtype) == "Boolean"
    if kind != "O" or str(column.dtype) == "category":
        return kind in "biuf"
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _values(column: Any) -> list:
    """The entries of a column as Python's own."""
    values = column.to_list()
    if str(column.dtype) in ("category", "Categorical") or str(column.dtype).startswith("Enum"):
        return [value if _is_missing(value) else str(value) for value in values]
    return values


def _is_missing(value: Any) -> bool:
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")
