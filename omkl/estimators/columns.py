"""Data frames and the names of columns: kept at the first fit, compared or aligned wherever inputs come in again."""

from collections.abc import Iterator, Sequence
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
    """X with its columns in the order that a model knows them in.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n, d)
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
            f"{where} has no column {listed}: the model was trained on {len(known)} columns with names, and finds them "
            "by these."
        )
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


def read_rows(X: Any, estimator: Any, reset: bool) -> Any:
    """Rows for an estimator: a data frame with text becomes dicts, and its names are kept (``reset``) or compared.

    Data frames of numbers are left as they are: what checks arrays keeps and compares their names.
    """
    if not is_frame(X):
        return X
    known = None if reset else getattr(estimator, "feature_names_in_", None)
    learned_dicts = not reset and not hasattr(estimator, "n_features_in_")
    rows = read_frame(X, True if learned_dicts else None)
    if not isinstance(rows, list):
        return X
    names = column_names(X)
    align_columns(X, names, known, "The data frame")
    keep_names(estimator, names, reset)
    if reset:
        vars(estimator).pop("n_features_in_", None)
    return rows


def keep_names(estimator: Any, names: Sequence[str] | None, reset: bool) -> None:
    """Set ``feature_names_in_`` where a model starts; none where columns have no names."""
    if not reset:
        return
    if names is None:
        vars(estimator).pop("feature_names_in_", None)
    else:
        estimator.feature_names_in_ = np.array(names, dtype=object)


def read_sequences(X: Any, known: Sequence[str] | None) -> Iterator[Any]:
    """Sequences with data frames among them as arrays or dicts, columns in the order of ``known``."""
    for i, sequence in enumerate(X):
        yield read_frame(align_columns(sequence, column_names(sequence), known, f"Sequence {i} of X"))


def _holds_numbers(column):
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


def _values(column):
    """The entries of a column as Python's own."""
    values = column.to_list()
    if str(column.dtype) in ("category", "Categorical") or str(column.dtype).startswith("Enum"):
        return [value if _is_missing(value) else str(value) for value in values]
    return values


def _is_missing(value):
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or type(value).__name__ in ("NAType", "NaTType")
