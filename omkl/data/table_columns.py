"""Columns of tables: their kinds, how they are read, and how they become numbers or dicts."""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from omkl._components import warn_caller
from omkl._messages import listed
from omkl.data.frames import (
    LARGEST,
    Columns,
    arrow_array,
    as_table,
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
    datetime.date,
    datetime.time,
    datetime.timedelta,
    np.datetime64,
    np.timedelta64,
)


class Column(NamedTuple):
    """A column of a table.

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


# ---- reading -------------------------------------------------------------------------------------


def read_series(series: Any, name: Any, learned: str | None = None) -> Column:
    """Read a column of a data frame of pandas or polars.

    Parameters
    ----------
    series : series of pandas or polars
    name : object
    learned : str, optional
        Kind of the column in training. Numbers and categories in a column that held text are text.

    Raises
    ------
    omkl.exceptions.InputError
        If the column mixes text with other values, holds complex numbers or objects that are no
        numbers, or is of another kind than in training.
    """
    has_categories = hasattr(series.dtype, "categories")
    if learned in (TEXT, IDENTIFIER) or has_categories:
        texts = _texts_of(series.to_list(), name, has_categories)
        kind = TEXT
        if learned == IDENTIFIER:
            kind = IDENTIFIER
        column = Column(name, kind, texts)
    elif is_number(series.dtype):
        column = Column(name, NUMBERS, _floats_of(series))
    elif is_time(series.dtype):
        column = _read_arrow(as_table(series.to_frame()).column(0).combine_chunks(), name)
    else:
        column = _read_objects(series.to_list(), name, learned)
    return _of_kind(column, learned)


def read_arrow(array: Any, name: str, learned: str | None = None) -> Column:
    """Read an array of Arrow, as :func:`read_series` does a series."""
    types = import_pyarrow().types
    has_categories = types.is_dictionary(array.type)
    is_list = types.is_nested(array.type)
    if learned in (TEXT, IDENTIFIER) or has_categories:
        texts = _texts_of(array.to_pylist(), name, has_categories)
        kind = TEXT
        if learned == IDENTIFIER:
            kind = IDENTIFIER
        column = Column(name, kind, texts)
    elif types.is_integer(array.type) or types.is_floating(array.type):
        column = Column(name, NUMBERS, _floats_of_arrow(array))
    elif types.is_temporal(array.type) or is_list:
        column = _read_arrow(array, name)
    else:
        column = _read_objects(array.to_pylist(), name, learned)
    return _of_kind(column, learned)


def read_values(values: list, name: Any, learned: str | None = None) -> Column:
    """Read a column of Python objects, as :func:`read_series` does a series."""
    if learned in (TEXT, IDENTIFIER):
        return Column(name, learned, _texts_of(values, name, has_categories=False))
    return _of_kind(_read_objects(values, name, learned), learned)


def _of_kind(column: Column, learned: str | None) -> Column:
    """Return the column if it is of the kind in training; raise InputError otherwise."""
    if learned in (None, column.kind) or _is_empty(column):
        return column
    if column.is_text:
        refuse_text(column)
    needed = learned
    if learned == NUMBERS:
        needed = "finite numbers"
    raise InputError(
        f"Column {column.name!r} of X must hold {needed}, as in training, got {column.kind}."
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
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric()
    return dtype.kind in "biuf"


def _floats_of(series: Any) -> np.ndarray:
    """Return numbers as floats; single precision stays."""
    is_single = "float32" in str(series.dtype).lower()
    if is_single:
        return np.asarray(series, dtype=np.float32)
    return np.asarray(series, dtype=np.float64)


def _floats_of_arrow(array: Any) -> np.ndarray:
    """Return numbers of Arrow as floats, NaN where they are missing; single precision stays."""
    pyarrow = import_pyarrow()
    if not pyarrow.types.is_float32(array.type):
        array = array.cast(pyarrow.float64(), safe=False)
    return array.to_numpy(zero_copy_only=False)


def _texts_of(values: list, name: Any, has_categories: bool) -> list[str | None]:
    """Return the values as strings, and None where they are missing."""
    texts: list[str | None] = []
    for row, value in enumerate(values):
        if _is_absent(value):
            texts.append(None)
        elif isinstance(value, TIME_TYPES) and not has_categories:
            raise InputError(
                f"Column {name!r} of X must hold text, as in training, "
                f"got {value!r:.60} in row {row}."
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
    texts = [row for row in present if isinstance(values[row], str)]
    if texts:
        if len(texts) < len(present):
            _refuse(name, values[texts[0]], texts[0])
        strings = [None if _is_absent(value) else str(value) for value in values]
        return _read_texts(strings, name, learned)
    types = {type(values[row]) for row in present}
    if all(issubclass(type_of_value, NUMBER_TYPES) for type_of_value in types):
        return Column(name, NUMBERS, _numbers_of(values, present, name))
    for row in present:
        if isinstance(values[row], (complex, np.complexfloating)):
            _refuse(name, values[row], row)
    return _read_arrow(arrow_array(values), name)


def _numbers_of(values: list, present: list[int], name: Any) -> np.ndarray:
    """Convert the values of some rows to floats; all others are NaN."""
    numbers = np.full(len(values), np.nan)
    for row in present:
        try:
            numbers[row] = float(values[row])
        except OverflowError:
            raise InputError(
                f"Column {name!r} of X must hold finite numbers up to {LARGEST:g}, "
                f"got {values[row]!r:.20} in row {row}."
            ) from None
    return numbers


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
    if types.is_temporal(array.type) and not types.is_interval(array.type):
        has_dates = types.is_timestamp(array.type) or types.is_date(array.type)
        numbers = days(array).to_numpy(zero_copy_only=False)
        if has_dates:
            return Column(name, DATES, numbers)
        return Column(name, DURATIONS, numbers)
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
    """Return rows: an array (n, d), or a list of dicts if there is text, or with ``as_dicts``.

    Missing values and identifiers are left out of dicts.
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
            is_present = column.kind == VECTORS or (value is not None and value == value)
            if is_present:
                row[column.name] = value
    return rows


def warn_of_unknown(name: Any, unknown: Sequence[str]) -> None:
    """Warn that a column of text holds values that a model does not know."""
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
    """Encode columns as numbers.

    Parameters
    ----------
    columns : sequence of Column
    categories : sequence, optional
        Categories of each column in training; by default those that are found here.
    """
    arrays: list[np.ndarray] = []
    categories_of_columns: list[list[str] | None] = []
    for j, column in enumerate(columns):
        names = None
        if categories is not None:
            names = categories[j]
        if column.kind == TEXT:
            if categories is None:
                names = sorted({text for text in column.values if text is not None})
            elif names is None:
                refuse_text(column)
            arrays.append(_one_hot(column, names))
        elif column.kind == IDENTIFIER:
            arrays.append(np.zeros(len(column.values)))
        elif column.kind == VECTORS:
            raise InputError(
                f"Column {column.name!r} of X must hold numbers, not lists of numbers: "
                "make a column of each."
            )
        else:
            arrays.append(column.values)
        categories_of_columns.append(names)
    return Encoded(np.column_stack(arrays), categories_of_columns)


def _one_hot(column: Column, categories: list[str]) -> np.ndarray:
    """Return an array (n, K) of 0 and 1 for K categories; warn of values that are none of them."""
    unknown = {text for text in column.values if text is not None}.difference(categories)
    if unknown:
        warn_of_unknown(column.name, sorted(unknown))
    texts = np.array(column.values, dtype=object)[:, None]
    return (texts == np.array(categories, dtype=object)).astype(np.float64)
