"""Conversion and checks of the data frames, arrays and targets that users pass."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from omkl._components import warn_caller
from omkl._messages import listed
from omkl.data.blocks import is_frame
from omkl.data.columns import Columns, days, import_pyarrow
from omkl.exceptions import DataWarning, InputError

if TYPE_CHECKING:
    import pyarrow

#: Maximum size of arrays for which our own fast checks replace those of scikit-learn.
FEW = 2**14
#: Maximum magnitude of numbers, so that squares and sums of squares do not overflow.
LARGEST = 1e100
#: Maximum number of targets for which scikit-learn cannot warn that classes look like numbers.
FEW_CLASSES = 20


def column_names(X: Any) -> list[str] | None:
    """Return the column names of a data frame; None if X is not a data frame, or a name is not a string."""
    names = list(X.columns) if is_frame(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def _check_names(X: Any) -> None:
    """Raise InputError if a data frame has no columns, or duplicate column names."""
    names = list(X.columns)
    if len(set(names)) < max(1, len(names)):
        several = next((f"several columns {name!r}" for name in names if names.count(name) > 1), "no columns")
        raise InputError(f"The data frame has {several}.")


def read_frame(X: Any, as_dicts: bool = False) -> Any:
    """Convert a data frame to a float64 array (n, d), or to a list of n dicts if a column holds text, or ``as_dicts``.

    Values are converted as by :func:`~omkl.data.stream_frames`. Frames of plain numbers do not need pyarrow. Other
    objects are returned unchanged.
    """
    if not is_frame(X):
        return X
    _check_names(X)
    columns = [X[name] for name in X.columns]
    if not as_dicts and all(_is_number(column.dtype) for column in columns):
        # column by column: pandas cannot convert nullable columns of a whole frame
        return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    table = as_table(X)
    rows = Columns(table.schema, as_dicts=as_dicts).block(table, "Data frame, row", range(table.num_rows), _refuse).X
    return rows if isinstance(rows, list) else rows.astype(np.float64, copy=False)


def _refuse(reason: str) -> None:
    raise InputError(reason)


def _is_number(dtype: Any) -> bool:
    """Tell whether a dtype of pandas or polars is numeric."""
    return dtype.is_numeric() if hasattr(dtype, "is_numeric") else dtype.kind in "biuf"


def _is_time(dtype: Any) -> bool:
    """Tell whether a dtype of pandas or polars is a date, time or duration."""
    return dtype.is_temporal() if hasattr(dtype, "is_temporal") else dtype.kind in "mM"


def text_columns(X: Any) -> list[str]:
    """Names of the columns of a data frame that hold text or categories."""
    kinds = Columns(as_table(X).schema).kinds
    return [name for name, kind in kinds.items() if kind == "string"]


def is_missing(value: object) -> bool:
    """Check for a missing value: None, nan, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


class Table(NamedTuple):
    """The numbers of a data frame.

    Attributes
    ----------
    values : array of shape (n, D)
        Times are days, booleans are 0 and 1, and missing entries are NaN. A column of text is a column of 0 and 1 for
        each of its categories, all 0 if the text is missing or unknown.
    categories : list
        For each column of the frame its categories, sorted strings, or None for numbers.
    """

    values: np.ndarray
    categories: list[list[str] | None]


def read_table(X: Any, categories: Sequence[list[str] | None] | None = None) -> Table:
    """Convert a data frame to numbers; ``categories`` are those of the training table, by default those found here."""
    found = [_categories(X[name]) for name in X.columns] if categories is None else list(categories)
    parts: list[np.ndarray] = []
    for name, known in zip(X.columns, found):
        parts.append(_numbers(X, name) if known is None else _indicators(X[name], known))
    return Table(np.column_stack(parts), found)


def _categories(column: Any) -> list[str] | None:
    """Return the distinct values of a column of strings, or of a categorical data type; None for other columns."""
    values, typed = [] if _is_number(column.dtype) else column.to_list(), hasattr(column.dtype, "categories")
    if not typed and not any(isinstance(value, str) for value in values):
        return None
    values = [value for value in values if not is_missing(value)]
    return sorted(set(map(str, values))) if typed or all(isinstance(value, str) for value in values) else None


def _indicators(column: Any, known: list[str]) -> np.ndarray:
    """Return a column of 0 and 1 for each category: (n, K)."""
    texts = [None if is_missing(value) else str(value) for value in column.to_list()]
    if unknown := sorted({text for text in texts if text is not None} - {*known}):
        listing = listed(unknown, 3)
        warn_caller(f"Column {column.name!r} of X has unknown values, which count as missing: {listing}.", DataWarning)
    return (np.array(texts, dtype=object)[:, None] == np.array(known, dtype=object)).astype(np.float64)


def _numbers(X: Any, name: str) -> np.ndarray:
    """Return a column of numbers, booleans, times or durations, (n,), with NaN for missing entries."""
    column = X[name]
    if _is_number(column.dtype) and "float32" in str(column.dtype).lower():
        return np.asarray(column, dtype=np.float32)
    texts = [] if _is_number(column.dtype) else [isinstance(value, str) for value in column.to_list()]
    if any(texts):
        row = texts.index(True)
        raise InputError(f"Column {name!r} of X must hold finite numbers, got {column[row]!r:.40} in row {row}.")
    if not _is_time(column.dtype):
        with suppress(TypeError, ValueError):
            return np.asarray(column, dtype=np.float64)
    values = read_frame(X[[name]])
    if values.shape[1] != 1:
        raise InputError(f"Column {name!r} of X must hold numbers, not lists of numbers: make a column of each.")
    return values[:, 0]


def as_table(X: Any) -> "pyarrow.Table":
    """Convert a data frame to a table of Arrow."""
    with _converting():
        if hasattr(X, "to_arrow"):
            return X.to_arrow()
        return import_pyarrow().Table.from_pandas(X, preserve_index=False)


@contextmanager
def _converting() -> Iterator[None]:
    """Raise InputError if Arrow cannot convert a column of a data frame."""
    try:
        yield
    except (import_pyarrow().ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = str(error).strip().rstrip(".")[:200]
        raise InputError(f"The data frame has a column that cannot be converted: {reason}.") from None


def times_as_days(X: Any) -> Any:
    """Convert dates, times and durations in an array or a data frame to days; return other objects unchanged."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "Mm":
        return (X - np.datetime64(0, "D") if X.dtype.kind == "M" else X) / np.timedelta64(1, "D")
    if isinstance(X, np.ndarray) and X.dtype.kind == "O" and X.ndim == 2:
        return np.column_stack([_times_of_objects(column) for column in X.T])
    names = list(X.columns) if is_frame(X) else []
    times = [name for name in names if names.count(name) == 1 and _is_time(X[name].dtype)]
    if not times:
        return X
    table = as_table(X[times]).combine_chunks()
    found = {name: days(table[name].combine_chunks()).to_numpy(zero_copy_only=False) for name in times}
    if hasattr(X, "with_columns"):
        return X.with_columns(type(X[name])(name, values) for name, values in found.items())
    return X.assign(**found)


def _times_of_objects(column: np.ndarray) -> np.ndarray:
    """Convert dates, times and durations in a column of objects to days; return other columns unchanged."""
    if not any(isinstance(value, (datetime.date, datetime.time, datetime.timedelta)) for value in column):
        return column
    with _converting():
        pyarrow = import_pyarrow()
        found = pyarrow.array(column.tolist(), from_pandas=True)
        return days(found).to_numpy(zero_copy_only=False) if pyarrow.types.is_temporal(found.type) else column


def are_few_rows(X: object, learned: Mapping[str, object]) -> bool:
    """Tell whether X is a small valid array, to skip the slower checks of scikit-learn.

    ``learned`` holds the attributes of the fitted estimator.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind not in "fiu" or X.itemsize > 8:
        return False
    fits = X.shape[1] == learned.get("n_features_in_") and not {"feature_names_in_", "categories_"} & learned.keys()
    fits = fits and not learned.get("missing_columns_")
    return fits and 0 < X.size <= FEW and float(np.abs(X).max()) <= LARGEST


def is_column(y: Any, n: int) -> bool:
    """Tell whether y is an array of n targets that scikit-learn would accept."""
    is_plain = type(y) is np.ndarray and y.shape == (n,)
    return is_plain and (y.dtype.kind in "biuU" or (y.dtype.kind == "f" and bool(np.isfinite(y).all())))


def are_few_classes(y: np.ndarray) -> bool:
    """Tell whether y holds integers or strings, and is too short to be taken for a continuous target."""
    return y.dtype.kind in "biuU" and len(y) <= FEW_CLASSES


def check_unmasked(values: object, name: str) -> None:
    """Raise InputError if entries of a masked array are masked."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{name} must have no masked entries: fill them, or leave them out.")


def plain_targets(y: Any) -> Any:
    """Convert nullable and categorical targets of pandas to NumPy arrays; integer classes stay integers.

    Raises InputError if targets are masked, missing, dates or durations.
    """
    check_unmasked(y, "y")
    if is_frame(y):
        return np.column_stack([plain_targets(y[name]) for name in y.columns])
    dtype = getattr(y, "dtype", None)
    if dtype is None:
        return y
    missing = np.flatnonzero(y.isna()) if hasattr(y, "isna") else np.empty(0)
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in "fO":
        missing = np.flatnonzero([is_missing(value) for value in y] if y.dtype.kind == "O" else np.isnan(y))
    if missing.size or _is_time(dtype):
        found = f"nothing in row {missing[0]}" if missing.size else f"dates or durations, {dtype}"
        raise InputError(f"y must hold classes or numbers in every row, got {found}.")
    own = getattr(dtype, "numpy_dtype", None)  # only nullable dtypes have it
    if isinstance(own, np.dtype) and own.kind in "biuf":
        return y.to_numpy(dtype=own)
    return np.asarray(y) if hasattr(dtype, "categories") else y


def check_rows(X: Any) -> None:
    """Raise InputError if entries are masked, columns share a name, or a sparse matrix is damaged."""
    check_unmasked(X, "X")
    if is_frame(X):
        _check_names(X)
    if sparse.issparse(X) and X.format in ("csr", "csc", "bsr"):
        try:
            X.check_format()  # compiled code does not check that indices are in bounds
        except ValueError as error:
            raise InputError(f"X is a damaged {X.format} matrix: {error}.") from None


def with_unique_entries(X: Any) -> Any:
    """Return a copy of a sparse matrix with duplicate entries summed and indices sorted."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
