"""Validation of numeric input."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from omkl.data.blocks import is_frame
from omkl.data.frames import check_unmasked
from omkl.exceptions import InputError


def as_numbers(values: Any, name: str) -> np.ndarray:
    """Real numbers as an array in double precision; raises :class:`~omkl.exceptions.InputError` where they are none."""
    check_unmasked(values, name)
    try:
        values = np.asarray(values)
        if values.dtype.kind not in "cMm":
            return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{name} must hold numbers.")


def refuse_text(X: Any) -> None:
    """Raise :class:`~omkl.exceptions.InputError` for the first text in X that is no number, in a table of numbers.

    Parameters
    ----------
    X : data frame, array of shape (n, d), list of n rows, or anything else
    """
    if is_frame(X):
        columns = ((f"The column {name!r} of X", X[name]) for name in X.columns)
    elif isinstance(X, list) and X and all(isinstance(row, (list, tuple)) for row in X):
        columns = ((f"Column {j} of X", column) for j, column in enumerate(zip(*X)))
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OU":
        columns = ((f"Column {j} of X", column) for j, column in enumerate(X.T))
    else:
        return
    for where, column in columns:
        for row, value in enumerate(column):
            if isinstance(value, str) and not _is_number(value):
                raise InputError(
                    f"{where} holds text, {value[:50]!r} in row {row}: encode it as numbers, with OneHotEncoder for "
                    "example; online estimators take data frames with text as they are."
                )


def refuse_missing(X: Any, names: Sequence[str] | None = None) -> None:
    """Raise :class:`~omkl.exceptions.InputError` for the first number of X that is missing or infinite.

    Parameters
    ----------
    X : data frame, array of shape (n, d), list of n rows, or anything else
    names : sequence of str, optional
        What the columns are called where X is a block of a stream, whose rows have other numbers there.
    """
    if is_frame(X):
        columns = ((repr(name), _as_floats(X[name])) for name in X.columns)
    else:
        array = _as_floats(X)
        if array is None or array.ndim != 2:
            return
        columns = ((str(j) if names is None else repr(names[j]), column) for j, column in enumerate(array.T))
    for where, column in columns:
        if column is None:
            continue
        rows = np.flatnonzero(~np.isfinite(column))
        if len(rows):
            what, row = "NaN" if np.isnan(column[rows[0]]) else "infinity", int(rows[0])
            place = f"column {where}, row {row}" if names is None else f"column {where}"
            raise InputError(
                f"Input X contains {what}: {place}. Fill it in, as SimpleImputer does, or leave such rows out."
            )


def refuse_kind(X: Any) -> None:
    """Raise :class:`~omkl.exceptions.InputError` where X is no table of numbers, but something else that users have."""
    what = type(X).__name__
    if isinstance(X, (str, bytes, dict, set, LinearOperator)) or not hasattr(X, "__len__"):
        remedy = ": collect() it" if hasattr(X, "collect") else ""
        raise InputError(f"X must be an array, a sparse matrix or a data frame, not a {what}{remedy}.")
    if isinstance(X, list) and X and isinstance(X[0], dict):
        raise InputError("X is a list of dicts, which online estimators take: make an array or a data frame of it.")
    for name in X.columns if is_frame(X) else ():
        if _as_floats(X[name]) is None:
            raise InputError(f"The column {name!r} of X holds no numbers, but {X[name].dtype}: convert it.")


def _as_floats(values: Any) -> np.ndarray | None:
    """Numbers, nan where one is missing; None where they are none, or complex."""
    if np.iscomplexobj(values):
        return None
    with suppress(TypeError, ValueError):
        return np.asarray(values, dtype=np.float64)
    with suppress(TypeError, ValueError, AttributeError):  # pandas' own NA
        return values.to_numpy(dtype=np.float64, na_value=np.nan)
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
