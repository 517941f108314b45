"""Columns of tables: their kinds, how they are read, and how they become numbers or dicts."""

from __future__ import annotations

import decimal
import re
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from omkl._components import warn_caller
from omkl._messages import listed
from omkl.data.frames import (
    LARGEST,
    TIME_TYPES,
    Columns,
    arrow_array,
    as_table,
    date_type,
    days,
    import_pyarrow,
    is_missing,
    is_time,
    rows_as_dicts,
    text_of,
    with_missing,
)
from omkl.exceptions import DataWarning, InputError

if TYPE_CHECKING:
    import pyarrow
    from pandas import Series
    from pandas.api.extensions import ExtensionDtype

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
#: Kinds whose values are strings.
TEXTS = (TEXT, IDENTIFIER)

#: Least number of rows, and of distinct values per row, of a column that identifies rows.
FEWEST_ROWS = 20
LEAST_DISTINCT = 0.9
#: Start of a date in ISO form.
ISO_DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}")
#: Types of values that are numbers.
NUMBER_TYPES = (bool, int, float, np.bool_, np.integer, np.floating, decimal.Decimal)


class Column(NamedTuple):
    """A column of a table.

    Attributes
    ----------
    name : str or another label of a data frame
    kind : str
        One of the constants above.
    values : array of n floats, or (n, k) for vectors, or list of n strings or None
    """

    name: Hashable
    kind: str
    values: Any

    @property
    def is_text(self) -> bool:
        """True if the values are strings."""
        return self.kind in TEXTS


# ---- reading -------------------------------------------------------------------------------------


def read_series(series: Series, name: Hashable, learned: str | None = None) -> Column:
    """Read a column of a data frame of pandas or polars.

    Parameters
    ----------
    series : series of pandas or polars
    name : label of the data frame
    learned : str, optional
        Kind of the column in training. Numbers and categories in a column that held text are text.

    Raises
    ------
    omkl.exceptions.InputError
        If the column mixes text with other values, or holds complex numbers or objects that are no
        numbers.
    """
    has_categories = hasattr(series.dtype, "categories")
    is_text = has_categories or learned in TEXTS
    if not is_text and is_number(series.dtype):
        return Column(name, NUMBERS, _floats_of(series))
    if not is_text and is_time(series.dtype):
        return _read_times_or_lists(as_table(series.to_frame()).column(0).combine_chunks(), name)
    return read_values(series.to_list(), name, learned, has_categories)


def read_arrow(array: pyarrow.Array, name: str, learned: str | None = None) -> Column:
    """Read an array of Arrow, as :func:`read_series` does a series."""
    types = import_pyarrow().types
    has_categories = types.is_dictionary(array.type)
    if not has_categories and learned not in TEXTS:
        if types.is_integer(array.type) or types.is_floating(array.type):
            return Column(name, NUMBERS, _floats_of_arrow(array))
        if types.is_temporal(array.type) or types.is_nested(array.type):
            return _read_times_or_lists(array, name)
    return read_values(array.to_pylist(), name, learned, has_categories)


def read_values(
    values: list, name: Hashable, learned: str | None = None, has_categories: bool = False
) -> Column:
    """Read a column of Python objects, as :func:`read_series` does a series."""
    if learned in TEXTS:
        return Column(name, learned, _texts_of(values, name, has_categories))
    if has_categories:
        return Column(name, TEXT, _texts_of(values, name, has_categories))
    return _read_objects(values, name, learned)


def of_kind(column: Column, learned: str | None) -> Column:
    """Return the column if it is of the kind in training; raise InputError otherwise."""
    if learned not in (None, column.kind) and not _is_empty(column):
        if column.is_text:
            refuse_text(column)
        refuse_kind(column.name, learned, column.kind)
    return column


def refuse_kind(name: Hashable, learned: str, kind: str) -> NoReturn:
    """Raise InputError for a column that is of another kind than in training."""
    needed = learned
    if learned == NUMBERS:
        needed = "finite numbers"
    raise InputError(f"Column {name!r} of X must hold {needed}, as in training, got {kind}.")


def refuse_text(column: Column) -> NoReturn:
    """Raise InputError for a column of text where numbers are needed."""
    row = next(i for i, text in enumerate(column.values) if text is not None)
    _refuse(column.name, column.values[row], row)


def _refuse(name: Hashable, value: object, row: int) -> NoReturn:
    raise InputError(
        f"Column {name!r} of X must hold finite numbers, got {value!r:.40} in row {row}."
    )


def _is_empty(column: Column) -> bool:
    """Tell whether all values are missing."""
    if column.is_text:
        return all(text is None for text in column.values)
    return bool(np.isnan(column.values).all())


def is_number(dtype: np.dtype | ExtensionDtype) -> bool:
    """Tell whether a data type of pandas or polars is numeric."""
    if hasattr(dtype, "is_numeric"):
        return dtype.is_numeric()
    return dtype.kind in "biuf"


def _floats_of(series: Series) -> np.ndarray:
    """Return numbers as floats; single precision stays."""
    is_single = "float32" in str(series.dtype).lower()
    dtype = np.float32 if is_single else np.float64
    return np.asarray(series, dtype=dtype)


def _floats_of_arrow(array: pyarrow.Array) -> np.ndarray:
    """Return numbers of Arrow as floats, NaN where they are missing; single precision stays."""
    pyarrow = import_pyarrow()
    if not pyarrow.types.is_float32(array.type):
        array = array.cast(pyarrow.float64(), safe=False)
    return array.to_numpy(zero_copy_only=False)


def _texts_of(values: list, name: Hashable, has_categories: bool) -> list[str | None]:
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


def _read_objects(values: list, name: Hashable, learned: str | None) -> Column:
    """Read a column whose data type does not say what it holds."""
    present = [row for row, value in enumerate(values) if not _is_absent(value)]
    texts = [row for row in present if isinstance(values[row], str)]
    if texts:
        if len(texts) < len(present):
            _refuse(name, values[texts[0]], texts[0])
        strings = [None if _is_absent(value) else str(value) for value in values]
        return _read_texts(strings, name, learned)
    if all(isinstance(values[row], NUMBER_TYPES) for row in present):
        return Column(name, NUMBERS, _numbers_of(values, present, name))
    for row in present:
        if isinstance(values[row], (complex, np.complexfloating)):
            _refuse(name, values[row], row)
    return _read_times_or_lists(arrow_array(values, name), name)


def _numbers_of(values: list, present: list[int], name: Hashable) -> np.ndarray:
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


def _read_texts(texts: list[str | None], name: Hashable, learned: str | None) -> Column:
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


def _read_times_or_lists(array: pyarrow.Array, name: Hashable) -> Column:
    """Read an array of Arrow that holds dates, durations or lists of numbers."""
    pyarrow = import_pyarrow()
    types = pyarrow.types
    if types.is_temporal(array.type) and not types.is_interval(array.type):
        kind = DURATIONS
        if types.is_timestamp(array.type) or types.is_date(array.type):
            kind = DATES
        return Column(name, kind, days(array).to_numpy(zero_copy_only=False))
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
    present = [(column.name, column.values) for column in columns if column.kind != IDENTIFIER]
    return rows_as_dicts(present, len(columns[0].values))


def warn_of_unknown(name: Hashable, unknown: Sequence[str]) -> None:
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
    learns = categories is None
    for column, names in zip(columns, categories or [None] * len(columns)):
        if column.kind == TEXT:
            if learns:
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
