"""Conversion of Arrow record batches to blocks of examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from omkl._messages import listed
from omkl.data.blocks import Block
from omkl.exceptions import DataFileError, InputError, MissingDependencyError

if TYPE_CHECKING:
    import pyarrow

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

    Numbers, times (in days) and lists of numbers become columns of an array, in which missing values are NaN. If an
    input column holds strings or categories, rows become dicts without missing values.

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
        self.names = [name for name in known if name != self.target] if columns is None else list(columns)
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
    def all_names(self) -> list[str]:
        return self.names if self.target is None else [*self.names, self.target]

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X; None if there are no names, or the lengths of lists are not known yet."""
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
        """Raise DataFileError unless another table has the same columns, with values of the same kinds."""
        self.check_names(schema.names, where)
        for name in self.all_names:
            if str(schema.field(name).type) != "null":
                kind, first = self._kind(schema.field(name), where), self.kinds[name]
                if kind != first and {kind, first} != {"integer", "number"}:
                    raise DataFileError(
                        f"{where}: column {name!r:.200} holds {kind}s, but in the first table {first}s."
                    )

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

        ``numbers`` are the row numbers for messages. ``wrong`` has the errors of invalid rows by their index. For
        each row that is left out, ``refuse`` is called with ``where``, the row number and the error as a message.
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
            y = (np.array([value or "" for value in y]) if isinstance(y, list) else y)[good]
        if not self.makes_dicts:
            return Block(_matrix(list(map(np.asarray, found.values())))[good], y, self.feature_names)
        rows = [
            {name: value for name, value in zip(self.names, values) if value is not None}
            for values in zip(*map(_with_none, found.values()))
        ]
        return Block([rows[i] for i in good] if isinstance(good, np.ndarray) else rows, y, self.names)

    def _plain(self, column: pyarrow.Array | pyarrow.ChunkedArray, name: str) -> pyarrow.Array:
        """Convert a column to one array without dictionary encoding; text becomes strings."""
        pyarrow, is_text = import_pyarrow(), self.kinds[name] == "string"
        if isinstance(column, pyarrow.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pyarrow.DictionaryArray):
            values = column.dictionary
            if str(values.type) == "null":  # decoding it would crash the process
                column = pyarrow.nulls(len(column))
            else:
                column = (values.cast(pyarrow.string()) if is_text else values).take(column.indices)
        if str(column.type) == "null":
            column = column.cast(pyarrow.string() if is_text else pyarrow.float64())
        return column

    def _values(self, column: pyarrow.Array, name: str, reasons: dict[int, str]) -> np.ndarray | list:
        """Convert a column to an array or a list of strings; add errors of invalid rows to ``reasons``."""
        pyarrow, kind = import_pyarrow(), self.kinds[name]
        types = pyarrow.types
        if kind == "string":
            return column.to_pylist()
        if kind == "vector":
            return self._vectors(column, name, reasons)
        if types.is_temporal(column.type):
            column = days(column)
        if name == self.target and kind == "integer" and not types.is_floating(column.type):
            column = column.cast(pyarrow.int8()) if types.is_boolean(column.type) else column
            y = column.fill_null(0).to_numpy(zero_copy_only=False)
            return y if types.is_uint64(column.type) else y.astype(np.int64, copy=False)
        if not types.is_floating(column.type):
            column = column.cast(pyarrow.float64(), safe=False)
        values = column.to_numpy(zero_copy_only=False)
        for i in np.flatnonzero(np.isinf(values)).tolist():
            reasons.setdefault(i, f"the number in column {name!r} is infinite, or too large for a float.")
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
        vectors[fits] = values[np.repeat(fits, np.maximum(lengths, 0))].reshape(np.count_nonzero(fits), width)
        return vectors


def _count_flaw(wanted: Sequence[str], names: Sequence[str]) -> str:
    """Describe the first wanted column that is missing or ambiguous; empty if there is none."""
    wrong = [name for name in wanted if names.count(name) != 1]
    return f"{'several columns' if wrong[0] in names else 'no column'} {wrong[0]!r:.200}" if wrong else ""


def days(column: pyarrow.Array) -> pyarrow.DoubleArray:
    """Convert dates and times to days since 1970 in UTC, and times of day and durations to days."""
    pyarrow, type = import_pyarrow(), column.type
    unit = "d" if pyarrow.types.is_date32(type) else "ms" if pyarrow.types.is_date64(type) else type.unit
    counts = column.cast(pyarrow.int32() if type.bit_width == 32 else pyarrow.int64())
    return pyarrow.compute.divide(counts.cast(pyarrow.float64(), safe=False), float(PER_DAY[unit]))


def _matrix(parts: list[np.ndarray]) -> np.ndarray:
    """Stack columns and groups of columns side by side: float32 if that is exact for all, else float64."""
    return np.column_stack(parts).astype(np.result_type(np.float32, *(part.dtype for part in parts)), copy=False)


def _with_none(values: np.ndarray | list) -> np.ndarray | list:
    """Return the values of a column by row: strings, floats or vectors, and None for missing values."""
    if isinstance(values, list) or values.ndim == 2:
        return values
    return [None if value != value else value for value in values.tolist()]
