"""Conversion and checks of the data frames, arrays and targets that users pass."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from omkl._messages import listed
from omkl.data.blocks import Block, is_frame
from omkl.exceptions import DataFileError, InputError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow

#: Maximum magnitude of numbers, so that squares and sums of squares do not overflow.
LARGEST = 1e100


def column_names(X: Any) -> list[str] | None:
    """Return the column names of a data frame; None if X is not a data frame, or a name is not a
    string.
    """
    names = list(X.columns) if is_frame(X) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def check_names(X: Any) -> None:
    """Raise InputError if a data frame has no columns, or duplicate column names."""
    names = list(X.columns)
    if len(set(names)) < max(1, len(names)):
        several = next(
            (f"several columns {name!r}" for name in names if names.count(name) > 1), "no columns"
        )
        raise InputError(f"The data frame has {several}.")


def is_time(dtype: Any) -> bool:
    """Tell whether a dtype of pandas or polars is a date, time or duration."""
    return dtype.is_temporal() if hasattr(dtype, "is_temporal") else dtype.kind in "mM"


def is_missing(value: object) -> bool:
    """Check for a missing value: None, nan, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def text_of(value: object) -> str:
    """Return a category as text: 1 and 1.0 are the same."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def arrow_array(values: list) -> pyarrow.Array:
    """Convert objects to an array of Arrow; raise InputError if they are of different kinds."""
    with _converting():
        return import_pyarrow().array(values, from_pandas=True)


def as_table(X: object) -> pyarrow.Table:
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
        raise InputError(
            f"The data frame has a column that cannot be converted: {reason}."
        ) from None


def times_as_days(X: Any) -> Any:
    """Convert dates, times and durations in an array to days; return other objects unchanged."""
    if isinstance(X, np.ndarray) and X.dtype.kind in "Mm":
        return (X - np.datetime64(0, "D") if X.dtype.kind == "M" else X) / np.timedelta64(1, "D")
    if not isinstance(X, np.ndarray) or X.dtype.kind != "O" or X.ndim != 2:
        return X
    columns = list(X.T)
    for j, column in enumerate(columns):
        if any(
            isinstance(value, (datetime.date, datetime.time, datetime.timedelta))
            for value in column
        ):
            array = arrow_array(column.tolist())
            if import_pyarrow().types.is_temporal(array.type):
                columns[j] = days(array).to_numpy(zero_copy_only=False)
    return np.column_stack(columns)


def are_known_columns(X: object, learned: Mapping[str, object]) -> bool:
    """Tell whether X is a valid array of the columns of a model, to skip the slower checks of
    scikit-learn.

    ``learned`` holds the attributes of the fitted estimator.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind not in "fiu" or X.itemsize > 8:
        return False
    fits = (
        X.shape[1] == learned.get("n_features_in_")
        and not {"feature_names_in_", "categories_"} & learned.keys()
    )
    fits = fits and not learned.get("missing_columns_")
    return fits and X.size > 0 and float(X.min()) >= -LARGEST and float(X.max()) <= LARGEST


def is_column(y: Any, n: int) -> bool:
    """Tell whether y is an array of n targets that scikit-learn would accept."""
    is_plain = type(y) is np.ndarray and y.shape == (n,)
    return is_plain and (
        y.dtype.kind in "biuU" or (y.dtype.kind == "f" and bool(np.isfinite(y).all()))
    )


def check_unmasked(values: object, name: str) -> None:
    """Raise InputError if entries of a masked array are masked."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{name} must have no masked entries: fill them, or leave them out.")


def check_real(values: Any, name: str) -> None:
    """Raise InputError if an array or sparse matrix holds complex numbers."""
    dtype = getattr(values, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} must hold real numbers, got {dtype}.")


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Return strings as an array; as objects if one ends with a NUL, which NumPy would drop."""
    if any(text.endswith("\0") for text in texts):
        array = np.empty(len(texts), dtype=object)
        array[:] = texts
        return array
    return np.array(texts)


def plain_targets(y: Any) -> Any:
    """Convert nullable and categorical targets of pandas to NumPy arrays; integer classes stay
    integers.

    Raises InputError if targets are masked, missing, dates or durations.
    """
    check_unmasked(y, "y")
    if is_frame(y):
        return np.column_stack([plain_targets(y[name]) for name in y.columns])
    dtype = getattr(y, "dtype", None)
    if dtype is None:
        is_text = isinstance(y, (list, tuple)) and all(isinstance(label, str) for label in y)
        return text_array(y) if is_text and y else y
    missing = np.flatnonzero(y.isna()) if hasattr(y, "isna") else np.empty(0)
    if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind in ("f", "O"):
        missing = np.flatnonzero(
            [is_missing(value) for value in y] if y.dtype.kind == "O" else np.isnan(y)
        )
    if missing.size or is_time(dtype):
        found = f"nothing in row {missing[0]}" if missing.size else f"dates or durations, {dtype}"
        raise InputError(f"y must hold classes or numbers in every row, got {found}.")
    own = getattr(dtype, "numpy_dtype", None)  # only nullable dtypes have it
    if isinstance(own, np.dtype) and own.kind in "biuf":
        return y.to_numpy(dtype=own)
    return np.asarray(y) if hasattr(dtype, "categories") else y


def check_rows(X: Any) -> None:
    """Raise InputError if entries are masked or complex, or a sparse matrix is damaged."""
    check_unmasked(X, "X")
    check_real(X, "X")
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


# ---- record batches of Arrow ---------------------------------------------------------------------


#: Units of time in a day.
PER_DAY = {"d": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def import_pyarrow() -> ModuleType:
    """Import pyarrow, or raise an error that tells how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.dataset
    except ImportError:
        raise MissingDependencyError(
            "CSV, Parquet and Arrow files, and data frames with text or times, need pyarrow: install it with "
            "'pip install omkl[arrow]'."
        ) from None
    return pyarrow


class Columns:
    """Selection and conversion of the input and output columns of a table.

    Numbers, times (in days) and lists of numbers become columns of an array, in which missing
    values are NaN. If an input column holds strings or categories, rows become dicts without
    missing values.

    Parameters
    ----------
    schema : pyarrow.Schema
    target : str or int, optional
        Name or position of the output column.
    columns : sequence of str, optional
        Input columns; by default all but the target.
    where : str or path-like
        Name of the table in messages.
    named : bool
        Whether columns have names in the data; otherwise blocks have no feature names.
    as_dicts : bool
        Make dicts even if all columns are numbers.

    Attributes
    ----------
    names : list of str
        Input columns.
    target : str or None
    kinds : dict of str to {"number", "integer", "string", "vector"}
        "integer" differs from "number" only for the target.
    """

    def __init__(
        self,
        schema: pyarrow.Schema,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        where: object = "The data frame",
        named: bool = True,
        as_dicts: bool = False,
    ) -> None:
        known = schema.names
        if isinstance(target, int):
            target = known[target] if -len(known) <= target < len(known) else str(target)
        self.target = target
        self.names = (
            [name for name in known if name != self.target] if columns is None else list(columns)
        )
        self.all_names = self.names if self.target is None else [*self.names, self.target]
        self._named = named
        flaw = _count_flaw(self.all_names, known)
        if not self.names or self.target in self.names:
            flaw = "no input column besides the target"
        if flaw:
            raise InputError(f"{where} has {flaw}; its columns are {listed(known)}.")
        self.kinds = {name: self._kind(schema.field(name), where) for name in self.all_names}
        self.makes_dicts = as_dicts or any(self.kinds[name] == "string" for name in self.names)
        #: Length of the lists in each column of vectors.
        self._widths: dict[str, int] = {}

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X; None if there are no names, or the lengths of lists are not
        known yet.
        """
        if not self._named:
            return None
        if self.makes_dicts:
            return self.names
        vectors = [name for name in self.names if self.kinds[name] == "vector"]
        if not all(name in self._widths for name in vectors):
            return None
        parts = {name: [f"{name}[{i}]" for i in range(self._widths[name])] for name in vectors}
        return [part for name in self.names for part in parts.get(name, [name])]

    def check_names(self, names: Sequence[str], where: object) -> None:
        """Raise DataFileError unless another table has the same columns."""
        if flaw := _count_flaw(self.all_names, names):
            raise DataFileError(f"{where} has {flaw}: all tables need the columns of the first.")

    def check(self, schema: pyarrow.Schema, where: object) -> None:
        """Raise DataFileError unless another table has the same columns, with values of the same
        kinds.
        """
        self.check_names(schema.names, where)
        for name in self.all_names:
            if str(schema.field(name).type) != "null":
                kind, first = self._kind(schema.field(name), where), self.kinds[name]
                if kind != first and {kind, first} != {"integer", "number"}:
                    kinds = f"{kind}s, but in the first table {first}s"
                    raise DataFileError(f"{where}: column {name!r:.200} holds {kinds}.")

    def _kind(self, field: pyarrow.Field, where: object) -> str:
        types, type = import_pyarrow().types, field.type
        if types.is_dictionary(type):
            kind = self._kind(field.with_type(type.value_type), where)
            return kind if field.name == self.target or kind == "vector" else "string"
        if types.is_integer(type) or types.is_boolean(type):
            return "integer"
        if types.is_floating(type) or types.is_decimal(type) or types.is_null(type):
            return "number"
        if types.is_temporal(type) and not types.is_interval(type):
            return "number"
        if types.is_string(type) or types.is_large_string(type) or types.is_string_view(type):
            return "string"
        is_list = types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type)
        if is_list and (types.is_integer(type.value_type) or types.is_floating(type.value_type)):
            return "vector"
        advice = "leave it out with columns=, or write it as numbers or strings"
        raise InputError(f"{where}: column {field.name!r:.200} is {str(type)[:80]}: {advice}.")

    def block(
        self,
        batch: pyarrow.RecordBatch | pyarrow.Table,
        where: str,
        numbers: Sequence[int],
        refuse: Callable[[str], None],
        wrong: Mapping[int, str] | None = None,
    ) -> Block:
        """Convert a record batch to a block of examples.

        ``numbers`` are the row numbers for messages. ``wrong`` has the errors of invalid rows by
        their index. For each row that is left out, ``refuse`` is called with ``where``, the row
        number and the error as a message.
        """
        reasons = dict(wrong or {})
        columns = {name: self._plain(batch.column(name), name) for name in self.all_names}
        found = {name: self._values(column, name, reasons) for name, column in columns.items()}
        y = None
        if self.target is not None:
            y = found.pop(self.target)
            is_none = np.asarray(columns[self.target].is_null(nan_is_null=True))
            for i in np.flatnonzero(is_none).tolist():
                reasons.setdefault(i, f"there is no {self.target!r}, which is the target.")
        for i in sorted(reasons):
            refuse(f"{where} {numbers[i]}: {reasons[i]}")
        good = np.delete(np.arange(batch.num_rows), list(reasons)) if reasons else slice(None)
        if y is not None:
            y = (text_array([value or "" for value in y]) if isinstance(y, list) else y)[good]
        if not self.makes_dicts:
            parts = list(map(np.asarray, found.values()))
            exact = np.result_type(
                np.float32, *(part.dtype for part in parts)
            )  # float64 unless float32 is exact
            return Block(
                np.column_stack(parts).astype(exact, copy=False)[good], y, self.feature_names
            )
        entries = []  # strings, floats or vectors by row, and None for missing values
        for values in found.values():
            is_plain = isinstance(values, list) or values.ndim == 2
            entries.append(
                values
                if is_plain
                else [None if value != value else value for value in values.tolist()]
            )
        rows = [
            {name: value for name, value in zip(self.names, row) if value is not None}
            for row in zip(*entries)
        ]
        return Block(
            [rows[i] for i in good] if isinstance(good, np.ndarray) else rows, y, self.names
        )

    def _plain(self, column: pyarrow.Array | pyarrow.ChunkedArray, name: str) -> pyarrow.Array:
        """Convert a column to one array without dictionary encoding; text becomes strings."""
        pyarrow, is_text = import_pyarrow(), self.kinds[name] == "string"
        column = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
        if isinstance(column, pyarrow.DictionaryArray):
            values = column.dictionary
            if str(values.type) == "null":  # decoding it would crash the process
                column = pyarrow.nulls(len(column))
            else:
                if is_text:
                    texts = [
                        None if value is None else text_of(value) for value in values.to_pylist()
                    ]
                    values = pyarrow.array(texts, pyarrow.string())
                column = values.take(column.indices)
        if str(column.type) == "null":
            column = column.cast(pyarrow.string() if is_text else pyarrow.float64())
        return column

    def _values(
        self, column: pyarrow.Array, name: str, reasons: dict[int, str]
    ) -> np.ndarray | list:
        """Convert a column to an array or a list of strings; add errors of invalid rows to
        ``reasons``.
        """
        pyarrow, kind = import_pyarrow(), self.kinds[name]
        types = pyarrow.types
        if kind == "string":
            return column.to_pylist()
        if kind == "vector":
            return self._vectors(column, name, reasons)
        column = days(column) if types.is_temporal(column.type) else column
        if name == self.target and kind == "integer" and not types.is_floating(column.type):
            column = column.cast(pyarrow.int8()) if types.is_boolean(column.type) else column
            y = column.fill_null(0).to_numpy(zero_copy_only=False)
            return y if types.is_uint64(column.type) else y.astype(np.int64, copy=False)
        column = (
            column if types.is_floating(column.type) else column.cast(pyarrow.float64(), safe=False)
        )
        values = column.to_numpy(zero_copy_only=False)
        for i in np.flatnonzero(np.isinf(values)).tolist():
            reasons.setdefault(
                i, f"the number in column {name!r} is infinite, or too large for a float."
            )
        return values

    def _vectors(self, column: pyarrow.Array, name: str, reasons: dict[int, str]) -> np.ndarray:
        """Stack the lists of a column, which must have equal lengths, as rows."""
        lengths = np.asarray(column.value_lengths().fill_null(-1))
        values = column.flatten().to_numpy(zero_copy_only=False)
        if name not in self._widths and (lengths > 0).any():
            self._widths[name] = int(lengths[lengths > 0][0])
        width = self._widths.get(name, 0)
        fits = (lengths == width) & (lengths > 0)
        for i in np.flatnonzero(~fits).tolist():
            has = f"has {lengths[i]} numbers, others {width}" if lengths[i] >= 0 else "is missing"
            reasons.setdefault(i, f"the list in column {name!r} {has}.")
        vectors = np.zeros((len(lengths), width), values.dtype)
        vectors[fits] = values[np.repeat(fits, np.maximum(lengths, 0))].reshape(
            np.count_nonzero(fits), width
        )
        return vectors


def _count_flaw(wanted: Sequence[str], names: Sequence[str]) -> str:
    """Describe the first wanted column that is missing or ambiguous; empty if there is none."""
    wrong = [name for name in wanted if names.count(name) != 1]
    return (
        f"{'several columns' if wrong[0] in names else 'no column'} {wrong[0]!r:.200}"
        if wrong
        else ""
    )


def days(column: pyarrow.Array) -> pyarrow.DoubleArray:
    """Convert dates and times to days since 1970 in UTC, and times of day and durations to days."""
    pyarrow, type = import_pyarrow(), column.type
    unit = (
        "d"
        if pyarrow.types.is_date32(type)
        else "ms"
        if pyarrow.types.is_date64(type)
        else type.unit
    )
    counts = column.cast(pyarrow.int32() if type.bit_width == 32 else pyarrow.int64())
    return pyarrow.compute.divide(counts.cast(pyarrow.float64(), safe=False), float(PER_DAY[unit]))


def with_missing(
    column: pyarrow.ChunkedArray, markers: Sequence[str] | None = None
) -> pyarrow.ChunkedArray:
    """Strip cells, and replace markers of missing values by null; by default those of numbers."""
    pyarrow = import_pyarrow()
    if markers is None:
        markers = pyarrow.csv.ConvertOptions().null_values
    column = pyarrow.compute.utf8_trim_whitespace(column)
    is_marker = pyarrow.compute.is_in(column, value_set=pyarrow.array(markers))
    return pyarrow.compute.if_else(is_marker, pyarrow.scalar(None, pyarrow.string()), column)


def can_cast(cells: pyarrow.ChunkedArray | pyarrow.Scalar, type: pyarrow.DataType) -> bool:
    """Tell whether all cells of text can be converted to a type."""
    try:
        cells.cast(type)
    except import_pyarrow().ArrowInvalid:
        return False
    return True


def date_type(cells: pyarrow.ChunkedArray) -> pyarrow.DataType | None:
    """Return the type of dates in ISO form, with or without zones; None if cells are something
    else.
    """
    pyarrow = import_pyarrow()
    for type in (pyarrow.timestamp("us"), pyarrow.timestamp("us", "UTC")):
        if can_cast(cells, type):
            return type
    return None
