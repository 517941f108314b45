"""Conversion and checks of the data frames, arrays and targets that users pass."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from omkl._messages import listed
from omkl.data.blocks import Block, Rows, is_frame, take_rows
from omkl.data.files import FileName
from omkl.exceptions import DataFileError, InputError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow
    from pandas import DataFrame, Series
    from pandas.api.extensions import ExtensionDtype

#: Maximum magnitude of numbers, so that squares and sums of squares do not overflow.
LARGEST = 1e100
#: Errors of rows by their numbers.
Reasons: TypeAlias = dict[int, str]
#: Types of dates, times and durations.
TIMES_OF_PYTHON = (datetime.date, datetime.time, datetime.timedelta)
TIME_TYPES = (*TIMES_OF_PYTHON, np.datetime64, np.timedelta64)


def column_labels(X: DataFrame | pyarrow.Table) -> list:
    """Return the labels of the columns of a data frame, or of a table of Arrow.

    Raises InputError if there are no columns, or several of the same name, or only some labels are
    strings.
    """
    labels = _labels_of(X)
    if not labels:
        raise InputError("The data frame has no columns.")
    if len(set(labels)) < len(labels):
        repeated = next(label for label in labels if labels.count(label) > 1)
        raise InputError(f"The data frame has several columns {repeated!r}.")
    n_names = sum(isinstance(label, str) for label in labels)
    if 0 < n_names < len(labels):
        raise InputError(
            "All columns of the data frame must have strings as names, or none, "
            f"got {listed(labels)}."
        )
    return labels


def column_names(X: Rows | pyarrow.Table) -> list[str] | None:
    """Return the names of the columns of a data frame, or of a table of Arrow.

    Return None for other objects, and if names are no strings.
    """
    labels = _labels_of(X)
    if labels and all(isinstance(label, str) for label in labels):
        return labels
    return None


def _labels_of(X: Rows | pyarrow.Table) -> list:
    """Return the labels of the columns of a data frame or a table of Arrow; none of an array."""
    if is_frame(X):
        return list(X.columns)
    return getattr(X, "column_names", [])


def is_time(dtype: np.dtype | ExtensionDtype) -> bool:
    """Tell whether a dtype of pandas or polars is a date, time or duration."""
    if hasattr(dtype, "is_temporal"):
        return dtype.is_temporal()
    return dtype.kind in "mM"


def is_missing(value: object) -> bool:
    """Check for a missing value: None, nan, or pandas' NA or NaT."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def first_value(rows: Iterable[Mapping[str, Any]], key: str) -> Any:
    """Return the first value of a key in dicts that is not None; None if there is none."""
    return next((row[key] for row in rows if row.get(key) is not None), None)


def text_of(value: object) -> str:
    """Return a category as text: 1 and 1.0 are the same."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)


def arrow_array(values: list, name: Hashable) -> pyarrow.Array:
    """Convert the objects of a column to an array of Arrow.

    Raise InputError if they are of different kinds, or of one that Arrow lacks.
    """
    with _converting(f"Column {name!r} of X"):
        return import_pyarrow().array(values, from_pandas=True)


def as_table(X: DataFrame) -> pyarrow.Table:
    """Convert a data frame to a table of Arrow."""
    with _converting("The data frame has a column that"):
        if hasattr(X, "to_arrow"):
            return X.to_arrow()
        return import_pyarrow().Table.from_pandas(X, preserve_index=False)


@contextmanager
def _converting(subject: str) -> Iterator[None]:
    """Raise InputError with this subject if Arrow cannot convert a column."""
    try:
        yield
    except (import_pyarrow().ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = str(error).strip().rstrip(".")[:200]
        raise InputError(f"{subject} cannot be converted: {reason}.") from None


def times_as_days(X: Rows) -> Any:
    """Convert dates, times and durations in an array to days, and NA of pandas to None.

    Other objects are returned unchanged.
    """
    if not isinstance(X, np.ndarray):
        return X
    if X.dtype.kind in "Mm":
        durations = X
        if X.dtype.kind == "M":
            durations = X - np.datetime64(0, "D")
        return durations / np.timedelta64(1, "D")
    if X.dtype.kind != "O" or X.ndim != 2:
        return X
    columns = list(X.T)
    for j, column in enumerate(columns):
        if any(isinstance(value, TIMES_OF_PYTHON) for value in column):
            array = arrow_array(column.tolist(), j)
            if import_pyarrow().types.is_temporal(array.type):
                columns[j] = days(array).to_numpy(zero_copy_only=False)
        elif any(type(value).__name__ == "NAType" for value in column):
            columns[j] = np.array(
                [None if is_missing(value) else value for value in column], object
            )
    return np.column_stack(columns)


def array_of_rows(X: Rows) -> Any:
    """Convert a list of rows to an array, unless it holds text or rows of several lengths.

    Raises InputError for a tuple or an array of dicts.
    """
    if isinstance(X, (list, tuple)):
        with suppress(ValueError, OverflowError):
            rows = np.asarray(X)
            if rows.dtype.kind not in "SU":
                X = times_as_days(rows)
    if isinstance(X, np.ndarray) and X.ndim == 1 and isinstance(next(iter(X), None), Mapping):
        raise InputError("Rows that are dicts must be in a list, not in a tuple or an array.")
    return X


def are_known_columns(X: Rows, learned: Mapping[str, Any]) -> bool:
    """Tell whether X is a valid array of the columns of a model.

    If so, the slower checks of scikit-learn are skipped. ``learned`` holds the attributes of the
    fitted estimator.
    """
    if type(X) is not np.ndarray or X.ndim != 2 or X.dtype.kind not in "fiu" or X.itemsize > 8:
        return False
    if X.size == 0 or X.shape[1] != learned.get("n_features_in_"):
        return False
    if "feature_names_in_" in learned or "categories_" in learned:
        return False
    if learned.get("missing_columns_"):
        return False
    return float(X.min()) >= -LARGEST and float(X.max()) <= LARGEST


def is_column(y: ArrayLike, n: int) -> bool:
    """Tell whether y is an array of n targets that scikit-learn would accept."""
    if type(y) is not np.ndarray or y.shape != (n,):
        return False
    if y.dtype.kind == "f":
        return bool(np.isfinite(y).all())
    return y.dtype.kind in "biuU"


def check_unmasked(values: Rows, name: str) -> None:
    """Raise InputError if entries of a masked array are masked."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError(f"{name} must have no masked entries: fill them, or leave them out.")


def text_array(texts: Sequence[str]) -> np.ndarray:
    """Return strings as an array; as objects if one ends with a NUL, which NumPy would drop."""
    if any(text.endswith("\0") for text in texts):
        array = np.empty(len(texts), dtype=object)
        array[:] = texts
        return array
    return np.array(texts)


def plain_targets(y: Rows) -> Any:
    """Convert nullable and categorical targets of pandas to NumPy arrays.

    Integer classes stay integers.

    Raises InputError if targets are masked, missing, dates or durations.
    """
    check_unmasked(y, "y")
    if is_frame(y):
        return np.column_stack([plain_targets(y[name]) for name in y.columns])
    dtype = getattr(y, "dtype", None)
    if dtype is None:
        if isinstance(y, (list, tuple)) and y and all(isinstance(label, str) for label in y):
            return text_array(y)
        return y
    rows_without = _rows_without_target(y)
    if rows_without.size or is_time(dtype):
        flaw = f"dates or durations, {dtype}"
        if rows_without.size:
            flaw = f"nothing in row {rows_without[0]}"
        raise InputError(f"y must hold classes or numbers in every row, got {flaw}.")
    plain_dtype = getattr(dtype, "numpy_dtype", None)  # only nullable dtypes have it
    if isinstance(plain_dtype, np.dtype) and plain_dtype.kind in "biuf":
        return y.to_numpy(dtype=plain_dtype)
    if hasattr(dtype, "categories"):
        return np.asarray(y)
    return y


def _rows_without_target(y: np.ndarray | Series) -> np.ndarray:
    """Return the positions of missing targets in an array or a series."""
    if hasattr(y, "isna"):
        return np.flatnonzero(y.isna())
    if isinstance(y, np.ndarray) and y.ndim == 1:
        if y.dtype.kind == "O":
            return np.flatnonzero([is_missing(value) for value in y])
        if y.dtype.kind == "f":
            return np.flatnonzero(np.isnan(y))
    return np.empty(0)


def check_rows(X: Rows) -> None:
    """Raise InputError for masked, complex and structured entries, and for damaged matrices."""
    check_unmasked(X, "X")
    dtype = getattr(X, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind == "c":
        raise InputError(f"Complex data not supported: X must hold real numbers, got {dtype}.")
    if isinstance(dtype, np.dtype) and dtype.names is not None:
        raise InputError("X must not be an array of records: make a data frame of it.")
    if isinstance(X, np.matrix):
        raise InputError("X must not be a matrix of NumPy: make an array of it by np.asarray.")
    if sparse.issparse(X) and X.format in ("csr", "csc", "bsr"):
        try:
            X.check_format()  # compiled code does not check that indices are in bounds
        except ValueError as error:
            raise InputError(f"X is a damaged {X.format} matrix: {error}.") from None


def with_unique_entries(X: np.ndarray | sparse.csr_array) -> np.ndarray | sparse.csr_array:
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
            "CSV, Parquet and Arrow files, and data frames with text or times, need pyarrow: "
            "install it with 'pip install omkl[arrow]'."
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
        where: FileName = "The data frame",
        named: bool = True,
    ) -> None:
        self._takes_all = columns is None
        names = schema.names
        if isinstance(target, int):
            if -len(names) <= target < len(names):
                target = names[target]
            else:
                target = str(target)
        self.target = target
        if columns is None:
            columns = [name for name in names if name != target]
        self.names = list(columns)
        self.all_names = [name for name in (*self.names, target) if name is not None]
        self._named = named
        flaw = _count_flaw(self.all_names, names)
        if not self.names or self.target in self.names:
            flaw = "no input column besides the target"
        if flaw:
            raise InputError(f"{where} has {flaw}; its columns are {listed(names)}.")
        self.kinds = {name: self._kind(schema.field(name), where) for name in self.all_names}
        self.makes_dicts = any(self.kinds[name] == "string" for name in self.names)
        #: Length of the lists in each column of vectors.
        self._widths: dict[str, int] = {}

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X.

        None if there are no names, or the lengths of lists are not known yet.
        """
        if not self._named:
            return None
        if self.makes_dicts:
            return self.names
        names = []
        for name in self.names:
            if self.kinds[name] != "vector":
                names.append(name)
            elif name not in self._widths:
                return None
            else:
                names += [f"{name}[{i}]" for i in range(self._widths[name])]
        return names

    def check_names(self, names: Sequence[str], where: FileName) -> None:
        """Raise DataFileError unless another table has the same columns.

        Other columns are left out if the user has chosen columns.
        """
        flaw = _count_flaw(self.all_names, names)
        unknown = [name for name in names if name not in self.all_names]
        if not flaw and unknown and self._takes_all:
            flaw = f"the unknown column {unknown[0]!r:.200}"
        if flaw:
            raise DataFileError(f"{where} has {flaw}: all tables need the columns of the first.")

    def check(self, schema: pyarrow.Schema, where: FileName) -> None:
        """Raise DataFileError unless another table has the same columns, of the same kinds."""
        self.check_names(schema.names, where)
        for name in self.all_names:
            column = schema.field(name)
            if str(column.type) == "null":
                continue
            kind = self._kind(column, where)
            first_kind = self.kinds[name]
            if kind != first_kind and {kind, first_kind} != {"integer", "number"}:
                raise DataFileError(
                    f"{where}: column {name!r:.200} holds {kind}s, "
                    f"but in the first table {first_kind}s."
                )

    def _kind(self, field: pyarrow.Field, where: FileName) -> str:
        """Return the kind of a column; raise InputError if its type is none of them."""
        types = import_pyarrow().types
        type = field.type
        if types.is_dictionary(type):
            kind = self._kind(field.with_type(type.value_type), where)
            if field.name == self.target or kind == "vector":
                return kind
            return "string"
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
        wrong: Reasons | None = None,
    ) -> Block:
        """Convert a record batch to a block of examples.

        ``numbers`` are the row numbers for messages. ``wrong`` has the errors of invalid rows by
        their index. For each row that is left out, ``refuse`` is called with ``where``, the row
        number and the error as a message.
        """
        reasons = dict(wrong or {})
        columns = {name: self._plain(batch.column(name), name) for name in self.all_names}
        values = {name: self._values(column, name, reasons) for name, column in columns.items()}
        y = None
        if self.target is not None:
            y = values.pop(self.target)
            is_missing = np.asarray(columns[self.target].is_null(nan_is_null=True))
            for i in np.flatnonzero(is_missing).tolist():
                reasons.setdefault(i, f"there is no {self.target!r}, which is the target.")
        for i in sorted(reasons):
            refuse(f"{where} {numbers[i]}: {reasons[i]}")
        valid: np.ndarray | slice = slice(None)
        if reasons:
            valid = np.delete(np.arange(batch.num_rows), list(reasons))
        if isinstance(y, list):
            y = text_array([value or "" for value in y])
        y = take_rows(y, valid)
        if self.makes_dicts:
            X = take_rows(rows_as_dicts(values.items(), batch.num_rows), valid)
            return Block(X, y, self.names)
        arrays = list(map(np.asarray, values.values()))
        # float64 unless float32 is exact
        dtype = np.result_type(np.float32, *(array.dtype for array in arrays))
        X = np.column_stack(arrays).astype(dtype, copy=False)
        return Block(X[valid], y, self.feature_names)

    def _plain(self, column: pyarrow.Array | pyarrow.ChunkedArray, name: str) -> pyarrow.Array:
        """Convert a column to one array without dictionary encoding; text becomes strings."""
        pyarrow = import_pyarrow()
        is_text = self.kinds[name] == "string"
        if isinstance(column, pyarrow.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pyarrow.DictionaryArray):
            column = _decoded(column, is_text)
        if str(column.type) == "null":
            dtype = pyarrow.string() if is_text else pyarrow.float64()
            return column.cast(dtype)
        return column

    def _values(self, column: pyarrow.Array, name: str, reasons: Reasons) -> np.ndarray | list:
        """Convert a column to an array or a list of strings.

        Errors of invalid rows are added to ``reasons``.
        """
        pyarrow = import_pyarrow()
        types = pyarrow.types
        kind = self.kinds[name]
        if kind == "string":
            return column.to_pylist()
        if kind == "vector":
            return self._vectors(column, name, reasons)
        if types.is_temporal(column.type):
            column = days(column)
        if name == self.target and kind == "integer" and not types.is_floating(column.type):
            if types.is_boolean(column.type):
                column = column.cast(pyarrow.int8())
            y = column.fill_null(0).to_numpy(zero_copy_only=False)
            if types.is_uint64(column.type):
                return y
            return y.astype(np.int64, copy=False)
        if not types.is_floating(column.type):
            column = column.cast(pyarrow.float64(), safe=False)
        values = column.to_numpy(zero_copy_only=False)
        for i in np.flatnonzero(np.isinf(values)).tolist():
            reasons.setdefault(
                i, f"the number in column {name!r} is infinite, or too large for a float."
            )
        return values

    def _vectors(self, column: pyarrow.Array, name: str, reasons: Reasons) -> np.ndarray:
        """Stack the lists of a column, which must have equal lengths, as rows."""
        lengths = np.asarray(column.value_lengths().fill_null(-1))
        values = column.flatten().to_numpy(zero_copy_only=False)
        if name not in self._widths and (lengths > 0).any():
            self._widths[name] = int(lengths[lengths > 0][0])
        width = self._widths.get(name, 0)
        has_width = (lengths == width) & (lengths > 0)
        for i in np.flatnonzero(~has_width).tolist():
            flaw = "is missing"
            if lengths[i] >= 0:
                flaw = f"has {lengths[i]} numbers, others {width}"
            reasons.setdefault(i, f"the list in column {name!r} {flaw}.")
        is_of_valid_list = np.repeat(has_width, np.maximum(lengths, 0))
        vectors = np.zeros((len(lengths), width), values.dtype)
        vectors[has_width] = values[is_of_valid_list].reshape(np.count_nonzero(has_width), width)
        return vectors


def rows_as_dicts(
    columns: Iterable[tuple[Hashable, np.ndarray | list]], n_rows: int
) -> list[dict[Any, Any]]:
    """Return rows as dicts of strings, floats and vectors, without missing values.

    ``columns`` are pairs of a name and an array (n_rows,) or (n_rows, k), or a list of n_rows.
    """
    names = []
    columns_of_values = []
    for name, values in columns:
        if isinstance(values, np.ndarray) and values.ndim == 1:
            values = [None if value != value else value for value in values.tolist()]
        names.append(name)
        columns_of_values.append(values)
    values_of_rows: Iterable[tuple] = zip(*columns_of_values)
    if not names:
        values_of_rows = [()] * n_rows
    rows = []
    for row in values_of_rows:
        rows.append({name: value for name, value in zip(names, row) if value is not None})
    return rows


def _decoded(column: pyarrow.DictionaryArray, is_text: bool) -> pyarrow.Array:
    """Return a column without dictionary encoding; as strings if it is text."""
    pyarrow = import_pyarrow()
    values = column.dictionary
    if str(values.type) == "null":  # decoding it would crash the process
        return pyarrow.nulls(len(column))
    if is_text:
        texts = [None if value is None else text_of(value) for value in values.to_pylist()]
        values = pyarrow.array(texts, pyarrow.string())
    return values.take(column.indices)


def _count_flaw(needed: Sequence[str], names: Sequence[str]) -> str:
    """Describe the first needed column that is missing or ambiguous; empty if there is none."""
    for name in needed:
        count = names.count(name)
        if count == 0:
            return f"no column {name!r:.200}"
        if count > 1:
            return f"several columns {name!r:.200}"
    return ""


def days(column: pyarrow.Array) -> pyarrow.DoubleArray:
    """Convert dates and times to days since 1970 in UTC, and times of day and durations to days."""
    pyarrow = import_pyarrow()
    type = column.type
    unit = {"date32[day]": "d", "date64[ms]": "ms"}.get(str(type)) or type.unit
    integers = pyarrow.int32() if type.bit_width == 32 else pyarrow.int64()
    counts = column.cast(integers).cast(pyarrow.float64(), safe=False)
    return pyarrow.compute.divide(counts, float(PER_DAY[unit]))


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
    """Return the type of dates in ISO form, with or without zones; None for other cells."""
    pyarrow = import_pyarrow()
    for type in (pyarrow.timestamp("us"), pyarrow.timestamp("us", "UTC")):
        if can_cast(cells, type):
            return type
    return None
