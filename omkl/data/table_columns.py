"""Columns of data frames: all estimators read frames through :func:`read_columns`."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from omkl._components import warn_caller
from omkl.data.blocks import is_frame
from omkl.data.frames import (
    LARGEST,
    Columns,
    arrow_array,
    as_table,
    check_names,
    date_type,
    days,
    import_pyarrow,
    is_missing,
    is_time,
    text_of,
    with_missing,
)
from omkl.exceptions import DataWarning, InputError

#: Kinds of columns. Numbers may be missing (NaN), and so may dates and durations, in days.
NUMBERS = "numbers"
DATES = "dates"
DURATIONS = "durations"
#: Strings and categories; None where they are missing.
TEXT = "text"
#: A list of numbers in each row.
VECTORS = "vectors"
#: Text in which nearly every row has its own value. Models do not learn from it.
IDENTIFIER = "identifier"

#: Least number of rows, and of distinct values per row, of a column that identifies rows.
FEWEST_ROWS = 20
LEAST_DISTINCT = 0.9
#: Start of a date in ISO form.
ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
#: Types of values that are numbers.
NUMBER_TYPES = (bool, int, float, np.bool_, np.integer, np.floating, decimal.Decimal)
#: Types of dates and durations.
TIME_TYPES = (
    *(datetime.date, datetime.time, datetime.timedelta),
    *(np.datetime64, np.timedelta64),
)


class Column(NamedTuple):
    """A column of a data frame.

    Attributes
    ----------
    name : object
        Usually a string.
    kind : str
        One of the constants above.
    values : array of n floats, or (n, k) for vectors, or list of n strings or None
    """

    name: Any
    kind: str
    values: Any

    @property
    def is_text(self) -> bool:
        """True if the values are strings."""
        return self.kind in (TEXT, IDENTIFIER)


def read_columns(X: Any, kinds: Sequence[str | None] | None = None) -> list[Column]:
    """Read the columns of a data frame of pandas or polars.

    Numbers of any type become floats. Dates, also those in ISO form as text, are days since 1970
    in UTC. Categories become strings, so that 1 and 1.0 are the same category.

    Parameters
    ----------
    X : data frame
    kinds : sequence of str or None, optional
        Kind of each column in training; None where it is not known. Numbers and categories in a
        column that held text are text.

    Raises
    ------
    omkl.exceptions.InputError
        If a column mixes text with other values, holds complex numbers or objects that are no
        numbers, or is of another kind than in training.
    """
    check_names(X)
    if kinds is None:
        kinds = [None] * len(X.columns)
    return [_read_column(X[name], name, kind) for name, kind in zip(X.columns, kinds)]


def _read_column(series: Any, name: Any, learned: str | None) -> Column:
    """Read a column; ``learned`` is its kind in training."""
    if learned in (TEXT, IDENTIFIER):
        return Column(name, learned, _texts_of(series, name))
    dtype = series.dtype
    if is_number(dtype):
        column = Column(name, NUMBERS, _floats_of(series))
    elif hasattr(dtype, "categories"):
        column = Column(name, TEXT, _texts_of(series, name))
    elif is_time(dtype):
        column = _read_arrow(as_table(series.to_frame()).column(0).combine_chunks(), name)
    else:
        column = _read_objects(series.to_list(), name, learned)
    if learned in (None, column.kind) or _is_empty(column):
        return column
    if column.is_text:
        refuse_text(column)
    if learned == NUMBERS:
        raise InputError(
            f"Column {name!r} of X must hold finite numbers, as in training, got {column.kind}."
        )
    raise InputError(
        f"Column {name!r} of X must hold {learned}, as in training, got {column.kind}."
    )


def refuse_text(column: Column) -> NoReturn:
    """Raise InputError for a column of text where numbers are needed."""
    row = next(i for i, text in enumerate(column.values) if text is not None)
    _refuse(column.name, column.values[row], row)


def _refuse(name: Any, value: object, row: int) -> NoReturn:
    raise InputError(
        f"Column {name!r} of X must hold finite numbers, got {value!r:.40} in row {row}."
    )


def _is_empty(column: Column) -> bool:
    """Tell whether all values are missing."""
    if column.is_text:
        return all(text is None for text in column.values)
    return bool(np.isnan(column.values).all())


def is_number(dtype: Any) -> bool:
    """Tell whether a data type of pandas or polars is numeric."""
    return dtype.is_numeric() if hasattr(dtype, "is_numeric") else dtype.kind in "biuf"


def _floats_of(series: Any) -> np.ndarray:
    """Return numbers as floats; single precision stays."""
    is_single = "float32" in str(series.dtype).lower()
    return np.asarray(series, dtype=np.float32 if is_single else np.float64)


def _texts_of(series: Any, name: Any) -> list[str | None]:
    """Return the values as strings, and None where they are missing."""
    values = series.to_list()
    are_categories = hasattr(series.dtype, "categories")
    texts: list[str | None] = []
    for row, value in enumerate(values):
        if _is_absent(value):
            texts.append(None)
        elif isinstance(value, TIME_TYPES) and not are_categories:
            raise InputError(
                f"Column {name!r} of X must hold text, as in training, got {value!r:.60} in row {row}."
            )
        else:
            texts.append(text_of(value))
    return texts


def _is_absent(value: object) -> bool:
    """Tell whether an entry of a column is missing; lists and arrays are not."""
    return not isinstance(value, (str, list, tuple, np.ndarray)) and is_missing(value)


def _read_objects(values: list, name: Any, learned: str | None) -> Column:
    """Read a column whose data type does not say what it holds."""
    present = [row for row, value in enumerate(values) if not _is_absent(value)]
    types = {type(values[row]) for row in present}
    texts = [row for row in present if isinstance(values[row], str)]
    if texts:
        if len(texts) < len(present):
            _refuse(name, values[texts[0]], texts[0])
        strings = [None if _is_absent(value) else str(value) for value in values]
        return _read_texts(strings, name, learned)
    if all(issubclass(own, NUMBER_TYPES) for own in types):
        numbers = np.full(len(values), np.nan)
        for row in present:
            try:
                numbers[row] = float(values[row])
            except OverflowError:
                raise InputError(
                    f"Column {name!r} of X must hold finite numbers up to {LARGEST:g}, "
                    f"got {values[row]!r:.20} in row {row}."
                ) from None
        return Column(name, NUMBERS, numbers)
    for row in present:
        if isinstance(values[row], (complex, np.complexfloating)):
            _refuse(name, values[row], row)
    return _read_arrow(arrow_array(values), name)


def _read_texts(texts: list[str | None], name: Any, learned: str | None) -> Column:
    """Read a column of strings: dates, if all are dates in ISO form and were not text before."""
    first = next(text for text in texts if text is not None)
    dates = None
    if learned in (None, DATES) and ISO_DATE.match(first):
        dates = iso_days(texts)
    if dates is None:
        return Column(name, TEXT, texts)
    if learned is None:
        warn_caller(
            f"Column {name!r} of X holds dates as text, which count in days, as dates do: "
            "make it a category if it is text.",
            DataWarning,
        )
    return Column(name, DATES, dates)


def iso_days(texts: Sequence[str | None]) -> np.ndarray | None:
    """Return dates in ISO form as days since 1970, NaN where they are missing; else None."""
    pyarrow = import_pyarrow()
    try:
        cells = with_missing(pyarrow.chunked_array([pyarrow.array(texts, pyarrow.string())]))
    except UnicodeEncodeError:  # half of a surrogate pair
        return None
    kind = date_type(cells)
    if kind is None:
        return None
    return days(cells.cast(kind).combine_chunks()).to_numpy(zero_copy_only=False)


def _read_arrow(array: Any, name: Any) -> Column:
    """Read an array of Arrow: dates, durations or lists of numbers."""
    pyarrow = import_pyarrow()
    types = pyarrow.types
    if types.is_temporal(array.type):
        has_dates = types.is_timestamp(array.type) or types.is_date(array.type)
        numbers = days(array).to_numpy(zero_copy_only=False)
        return Column(name, DATES if has_dates else DURATIONS, numbers)
    table = pyarrow.table({str(name): array})
    rows = Columns(table.schema).block(table, "Data frame, row", range(len(array)), refuse_row).X
    return Column(name, VECTORS, rows)


def refuse_row(reason: str) -> NoReturn:
    """Raise InputError for an invalid row of a data frame."""
    raise InputError(reason)


# ---- what becomes of columns ---------------------------------------------------------------------


def without_identifiers(columns: Sequence[Column]) -> list[Column]:
    """Mark the columns of text in which nearly every row has its own value, and warn of them."""
    marked = []
    for column in columns:
        if column.kind == TEXT:
            present = [text for text in column.values if text is not None]
            n_distinct = len(set(present))
            if len(present) >= FEWEST_ROWS and n_distinct >= LEAST_DISTINCT * len(present):
                warn_caller(
                    f"Column {column.name!r} of X is left out: it is text in which nearly every "
                    f"row has its own value ({n_distinct} values in {len(present)} rows).",
                    DataWarning,
                )
                column = column._replace(kind=IDENTIFIER)
        marked.append(column)
    return marked


def rows_of_columns(columns: Sequence[Column], as_dicts: bool = False) -> Any:
    """Return rows: an array (n, d), or dicts if there is text or ``as_dicts``, without missing
    values.

    Identifiers are left out of dicts.
    """
    if not as_dicts and not any(column.is_text for column in columns):
        arrays = [np.asarray(column.values, dtype=np.float64) for column in columns]
        return np.column_stack(arrays)
    rows: list[dict[Any, Any]] = [{} for _ in columns[0].values]
    for column in columns:
        if column.kind == IDENTIFIER:
            continue
        values = column.values
        if column.kind not in (TEXT, VECTORS):
            values = values.tolist()
        for row, value in zip(rows, values):
            is_there = column.kind == VECTORS or (value is not None and value == value)
            if is_there:
                row[column.name] = value
    return rows


def read_frame(X: Any) -> Any:
    """Convert a data frame to an array, or to dicts if a column holds text; return others
    unchanged.
    """
    return rows_of_columns(read_columns(X)) if is_frame(X) else X


def warn_of_unknown(name: Any, unknown: Sequence[str]) -> None:
    """Warn that a column of text holds values that a model does not know."""
    from omkl._messages import listed

    warn_caller(
        f"Column {name!r} of X has unknown values, which count as missing: {listed(unknown, 3)}.",
        DataWarning,
    )


class Encoded(NamedTuple):
    """Columns of a data frame as numbers.

    Attributes
    ----------
    values : array of shape (n, D)
        A column of text is a column of 0 and 1 for each of its categories, all 0 where the text is
        missing or unknown. Identifiers are a constant column.
    categories : list
        For each column of the frame its categories, sorted strings, or None.
    """

    values: np.ndarray
    categories: list[list[str] | None]


def encode_columns(
    columns: Sequence[Column], categories: Sequence[list[str] | None] | None = None
) -> Encoded:
    """Encode columns as numbers; ``categories`` are those of training, by default those found here."""
    arrays: list[np.ndarray] = []
    categories_of_columns: list[list[str] | None] = []
    for j, column in enumerate(columns):
        names = None if categories is None else categories[j]
        if column.kind == TEXT:
            present = {text for text in column.values if text is not None}
            if categories is None:
                names = sorted(present)
            elif names is None:
                refuse_text(column)
            elif unknown := sorted(present - set(names)):
                warn_of_unknown(column.name, unknown)
            texts = np.array(column.values, dtype=object)[:, None]
            arrays.append((texts == np.array(names, dtype=object)).astype(np.float64))
        elif column.kind == IDENTIFIER:
            arrays.append(np.zeros(len(column.values)))
        elif column.kind == VECTORS:
            raise InputError(
                f"Column {column.name!r} of X must hold numbers, not lists of numbers: make a column of each."
            )
        else:
            arrays.append(column.values)
        categories_of_columns.append(names)
    return Encoded(np.column_stack(arrays), categories_of_columns)
