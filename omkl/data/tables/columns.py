"""Conversion of Arrow record batches to blocks of examples."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl._messages import listed
from omkl.data.blocks import Block
from omkl.exceptions import DataFileError, InputError, MissingDependencyError

#: Units of time in a day.
PER_DAY = {"d": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def import_pyarrow() -> Any:
    """Import pyarrow, or say how to install it."""
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
    """Selection of input and output columns of a table, and the conversion of their values.

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
        False if the names are made up.
    as_dicts : bool
        Make dicts even if all columns are numbers.

    Attributes
    ----------
    names : list of str
        Input columns.
    target : str or None
    kinds : dict of str to {"number", "integer", "string", "vector"}
        Integers differ from other numbers as outputs only.
    """

    def __init__(
        self,
        schema: Any,
        target: str | int | None = None,
        columns: Sequence[str] | None = None,
        where: Any = "The data frame",
        named: bool = True,
        as_dicts: bool = False,
    ) -> None:
        self.pyarrow = import_pyarrow()
        target = _target_name(schema.names, target, where)
        self.names = [name for name in schema.names if name != target] if columns is None else list(columns)
        self.target, self._named = target, named
        for name in self.all_names:
            if schema.names.count(name) != 1:
                has = "no column" if name not in schema.names else "several columns"
                raise InputError(f"{where} has {has} {name!r:.200}; its columns are {listed(schema.names)}.")
        if not self.names or target in self.names:
            has = f"its columns are {listed(schema.names)}"
            raise InputError(f"{where} needs an input column besides the target {target!r:.200}; {has}.")
        self.kinds = {name: self._kind(schema.field(name), where) for name in self.all_names}
        self.makes_dicts = as_dicts or any(self.kinds[name] == "string" for name in self.names)
        #: Length of the lists in each column of vectors.
        self._widths: dict[str, int] = {}

    @property
    def all_names(self) -> list[str]:
        return self.names if self.target is None else [*self.names, self.target]

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X; None if there are none, or lengths of lists are not known yet."""
        if not self._named:
            return None
        if self.makes_dicts:
            return self.names
        names: list[str] = []
        for name in self.names:
            if self.kinds[name] != "vector":
                names.append(name)
            elif name in self._widths:
                names += [f"{name}[{i}]" for i in range(self._widths[name])]
            else:
                return None
        return names

    def check_names(self, names: Sequence[str], where: Any) -> None:
        """Raise DataFileError unless another table has the same columns."""
        for name in self.all_names:
            if names.count(name) != 1:
                has = "no column" if name not in names else "several columns"
                raise DataFileError(f"{where} has {has} {name!r:.200}: all tables need the columns of the first.")

    def check(self, schema: Any, where: Any) -> None:
        """Raise DataFileError unless another table has the same columns, with values of the same kinds."""
        self.check_names(schema.names, where)
        for name in self.all_names:
            if self.pyarrow.types.is_null(schema.field(name).type):
                continue
            kind, first = self._kind(schema.field(name), where), self.kinds[name]
            if kind != first and {kind, first} != {"integer", "number"}:
                raise DataFileError(f"{where}: column {name!r:.200} holds {kind}s, but in the first table {first}s.")

    def _kind(self, field: Any, where: Any) -> str:
        types, type = self.pyarrow.types, field.type
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
        batch: Any,
        where: str,
        numbers: Sequence[int],
        refuse: Callable[[str], None],
        reasons: dict[int, str] | None = None,
    ) -> Block:
        """Examples of a record batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch or pyarrow.Table
        where : str
            Name of a row in messages, before its number.
        numbers : sequence of int
            Numbers of the rows.
        refuse : callable
            Called with a message for each row that is left out.
        reasons : dict of int to str, optional
            Rows that are known to be wrong.

        Returns
        -------
        Block
        """
        reasons = dict(reasons or {})
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
            return Block(_matrix(list(found.values()))[good], y, self.feature_names)
        rows = [
            {name: value for name, value in zip(self.names, values) if value is not None}
            for values in zip(*map(_with_none, found.values()))
        ]
        return Block([rows[i] for i in good] if reasons else rows, y, self.names)

    def _plain(self, column: Any, name: str) -> Any:
        """A column as one array, without a dictionary."""
        is_text = self.kinds[name] == "string"
        if isinstance(column, self.pyarrow.ChunkedArray):
            column = column.combine_chunks()
        if self.pyarrow.types.is_dictionary(column.type):
            column = _decoded(column, is_text)
        if self.pyarrow.types.is_null(column.type):
            column = column.cast(self.pyarrow.string() if is_text else self.pyarrow.float64())
        return column

    def _values(self, column: Any, name: str, reasons: dict[int, str]) -> Any:
        """A column as an array, or a list of strings; ``reasons`` gets the rows that are wrong."""
        pyarrow, types, kind = self.pyarrow, self.pyarrow.types, self.kinds[name]
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

    def _vectors(self, column: Any, name: str, reasons: dict[int, str]) -> np.ndarray:
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


def _target_name(names: Sequence[str], target: str | int | None, where: Any) -> str | None:
    if isinstance(target, str):
        if target not in names:
            raise InputError(f"{where} has no column {target!r} for the target; its columns are {listed(names)}.")
        return target
    if target is None or -len(names) <= target < len(names):
        return None if target is None else names[target]
    raise InputError(f"{where} has {len(names)} columns, and no column {target} for the target.")


def _decoded(column: Any, as_text: bool) -> Any:
    """The values of a dictionary array, row by row."""
    pyarrow = import_pyarrow()
    values = column.dictionary
    if pyarrow.types.is_null(values.type):  # decoding it would end the process
        return pyarrow.nulls(len(column))
    return pyarrow.compute.take(values.cast(pyarrow.string()) if as_text else values, column.indices)


def days(column: Any) -> Any:
    """Dates and times as days since 1970 in UTC; times of a day and durations as days.

    Parameters
    ----------
    column : pyarrow.Array

    Returns
    -------
    pyarrow.DoubleArray
    """
    pyarrow = import_pyarrow()
    column = column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column
    type = column.type
    unit = "d" if pyarrow.types.is_date32(type) else "ms" if pyarrow.types.is_date64(type) else type.unit
    width = pyarrow.int32() if type.bit_width == 32 else pyarrow.int64()
    counts = column.cast(width).cast(pyarrow.float64(), safe=False)
    return pyarrow.compute.divide(counts, float(PER_DAY[unit]))


def _matrix(parts: list[np.ndarray]) -> np.ndarray:
    """Columns and groups of columns side by side: float32 if that is exact for all, else float64."""
    dtype = np.result_type(np.float32, *(part.dtype for part in parts))
    if len(parts) == 1 and parts[0].ndim == 2:
        return parts[0].astype(dtype, copy=False)
    X = np.empty((len(parts[0]), sum(part.shape[1] if part.ndim == 2 else 1 for part in parts)), dtype)
    start = 0
    for part in parts:
        width = part.shape[1] if part.ndim == 2 else 1
        X[:, start : start + width] = part.reshape(len(part), width)
        start += width
    return X


def _with_none(values: Any) -> Any:
    """The values of each row: a string, a float, a vector, or None where it is missing."""
    if isinstance(values, list) or values.ndim == 2:
        return values
    return [None if value != value else value for value in values.tolist()]
