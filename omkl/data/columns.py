"""From columns of a table to examples: numbers to arrays, lists to vectors, strings to dicts."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from omkl.data.file_streams import Skipped
from omkl.data.rows import Block, category_name
from omkl.exceptions import DataFileError, InputError, MissingDependencyError


def import_pyarrow() -> Any:
    """pyarrow, or the sentence that says how to get it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        raise MissingDependencyError(
            "CSV, Parquet and Arrow files need pyarrow: install it with 'pip install omkl[arrow]'."
        ) from None
    return pyarrow


#: What stands for a number that is missing.
MISSING = frozenset(
    "|#N/A|#N/A N/A|#NA|-1.#IND|-1.#QNAN|-NaN|-nan|1.#IND|1.#QNAN|N/A|NA|NULL|NaN|n/a|nan|null".split("|")  # noqa: SIM905
)
#: Units of time in a day.
PER_DAY = {"d": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
#: Integers up to here are floats without error.
LARGEST_EXACT = 2**53


class Columns:
    """Which columns of a table are inputs and which is the output, and what kind each is.

    ``schema`` is that of pyarrow, ``target`` the name or place of the output's column, ``columns`` are those of the
    input (all but the target by default); ``where`` is what messages call the table. Without ``named``, names are only
    the places of columns.

    ``kinds`` says of each column whether it holds a "number", "integer", "string" or "vector"; whether numbers are
    integers matters for the output only. ``types`` are the types of pyarrow as which text is read.
    """

    def __init__(
        self, schema: Any, target: str | int | None, columns: Sequence[str] | None, where: Any, named: bool = True
    ) -> None:
        self.pyarrow = import_pyarrow()
        target = _target(schema.names, target, where)
        names = [name for name in schema.names if name != target] if columns is None else list(columns)
        for name in names if target is None else [*names, target]:
            if schema.names.count(name) != 1:
                has = "no column" if name not in schema.names else "several columns"
                raise InputError(f"{where} has {has} {name!r:.200}; its columns are {_listed(schema.names)}.")
        if not names or target in names:
            divided = _divided(schema.names)
            among = "" if columns is None else " that is not among columns="
            raise InputError(f"{where} needs a column besides the target {target!r:.200}{among}.{divided}")
        self.names, self.target, self._named = names, target, named
        self.kinds = {name: self._kind(schema.field(name), where) for name in self.all_names}
        as_text = {"string": self.pyarrow.string(), "integer": self.pyarrow.float64(), "number": self.pyarrow.float64()}
        self.types = {name: as_text.get(kind, schema.field(name).type) for name, kind in self.kinds.items()}
        for name, kind in self.kinds.items():
            type = schema.field(name).type
            if (name == target and kind == "integer") or (kind != "string" and _is_parsed(self.pyarrow.types, type)):
                self.types[name] = type
        self.makes_dicts = "string" in [self.kinds[name] for name in names]
        self._widths: dict[str, int] = {}

    @property
    def all_names(self) -> list[str]:
        return self.names if self.target is None else [*self.names, self.target]

    @property
    def feature_names(self) -> list[str] | None:
        """What the columns of X are called; None without names, or until it is known how long lists in a column are."""
        if not self._named:
            return None
        names = []
        for name in self.names:
            if self.kinds[name] != "vector" or self.makes_dicts:
                names.append(name)
            elif name in self._widths:
                names += [f"{name}[{i}]" for i in range(self._widths[name])]
            else:
                return None
        return names

    def check(self, schema: Any, where: Any) -> None:
        """Raise where another table lacks one of the columns, or has something else in it."""
        for name in self.all_names:
            if schema.names.count(name) != 1:
                has = "no column" if name not in schema.names else "several columns"
                raise DataFileError(f"{where} has {has} {name!r:.200}: all files need the columns of the first.")
            if self.pyarrow.types.is_null(schema.field(name).type):
                continue  # all of it is missing
            kind, first = self._kind(schema.field(name), where), self.kinds[name]
            if kind != first and {kind, first} != {"integer", "number"}:
                raise DataFileError(f"{where}: column {name!r:.200} holds {kind}s, but in the first file {first}s.")

    def _kind(self, field, where):
        is_type, type = self.pyarrow.types, field.type
        if is_type.is_dictionary(type):
            kind = self._kind(field.with_type(type.value_type), where)
            if field.name != self.target and kind != "vector":
                return "string"  # categories, whatever they are called
            if kind != "vector":
                return kind
        if is_type.is_temporal(type) and not is_type.is_interval(type):
            return "number"
        if is_type.is_integer(type) or is_type.is_boolean(type):
            return "integer"
        if is_type.is_floating(type) or is_type.is_decimal(type) or is_type.is_null(type):
            return "number"
        if _is_text(is_type, type):
            return "string"
        if _is_list(is_type, type) and (is_type.is_integer(type.value_type) or is_type.is_floating(type.value_type)):
            return "vector"
        advice = "leave it out with columns=, or write it as numbers or strings"
        raise InputError(f"{where}: column {field.name!r:.200} is {str(type)[:80]}: {advice}.")

    def block(self, batch: Any, place: Callable[[int], str], skipped: Skipped) -> Block:
        """The examples of a record batch, of which row ``i`` is at ``place(i)``: a file and the number of a row."""
        reasons: dict[int, str] = {}
        columns = {name: _decoded(batch.column(name), self.kinds[name] == "string") for name in self.all_names}
        found = {name: self._values(column, name, reasons) for name, column in columns.items()}
        if self.target is not None:
            y = found[self.target]
            is_none = np.asarray(columns[self.target].is_null())
            if isinstance(y, np.ndarray) and y.ndim == 1 and y.dtype.kind == "f":
                is_none = is_none | np.isnan(y)
            for i in np.flatnonzero(is_none).tolist():
                reasons.setdefault(i, f"there is no {self.target!r}, which is the target.")
        for i in sorted(reasons):
            skipped.refuse(f"{place(i)}: {reasons[i]}")
        y = None if self.target is None else found.pop(self.target)
        good = np.delete(np.arange(batch.num_rows), list(reasons)) if reasons else slice(None)
        if y is not None:
            y = np.array([value or "" for value in y])[good] if self.kinds[self.target] == "string" else y[good]
            if y.dtype.kind in "iu" and y.dtype != np.uint64:
                y = y.astype(np.int64, copy=False)
        if not self.makes_dicts:
            return Block(_matrix(list(found.values()))[good], y, self.feature_names)
        rows = [
            {name: value for name, value in zip(self.names, values) if value is not None}
            for values in zip(*map(_with_none, found.values()))
        ]
        return Block([rows[i] for i in good] if reasons else rows, y, self.names)

    def _values(self, column, name, reasons):
        """The column as an array, or a list of strings; ``reasons`` gets rows that are wrong, and why."""
        pyarrow, kind = self.pyarrow, self.kinds[name]
        if pyarrow.types.is_null(column.type):
            column = column.cast(self.types[name])
        if kind == "string":
            return _strings(column, name, reasons)
        if kind == "vector":
            return self._vectors(column, name, reasons)
        is_output = name == self.target and kind == "integer"
        if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):  # of a CSV file
            column = _numbers(column, self.types[name], name, reasons)
        if pyarrow.types.is_temporal(column.type):
            column = _days(column)
        if is_output and not pyarrow.types.is_floating(column.type):  # classes, which floats might mix up
            filler = pyarrow.scalar(0).cast(column.type)
            return column.fill_null(filler).to_numpy(zero_copy_only=False)
        if not pyarrow.types.is_floating(column.type):
            column = column.cast(pyarrow.float64(), safe=False)  # the nearest float, as of any number
        values = column.to_numpy(zero_copy_only=False)  # what is missing is NaN
        for i in np.flatnonzero(np.isinf(values)).tolist():
            reasons.setdefault(i, f"the number in column {name!r} is infinite, or too large for a float.")
        return values

    def _vectors(self, column, name, reasons):
        lengths = np.asarray(column.value_lengths().fill_null(-1))
        values = column.flatten().to_numpy(zero_copy_only=False)
        if name not in self._widths and (lengths > 0).any():
            self._widths[name] = int(lengths[lengths > 0][0])
        width = self._widths.get(name, 0)
        fits = (lengths == width) & (lengths > 0)
        for i in np.flatnonzero(~fits).tolist():
            has = f"has {lengths[i]} numbers, others {width}" if lengths[i] > 0 else "is empty"
            has = "is missing" if lengths[i] < 0 else has
            reasons.setdefault(i, f"the list in column {name!r} {has}.")
        if fits.all():
            return values.reshape(len(lengths), width)
        vectors = np.zeros((len(lengths), width), values.dtype)
        vectors[fits] = values[np.repeat(fits, np.maximum(lengths, 0))].reshape(np.count_nonzero(fits), width)
        return vectors


def _target(names, target, where):
    if isinstance(target, int) and not isinstance(target, bool):
        if not -len(names) <= target < len(names):
            raise InputError(f"{where} has {len(names)} columns, and no column {target} for the target.")
        return names[target]
    if target is not None and target not in names:
        raise InputError(
            f"{where} has no column {target!r} for the target; its columns are {_listed(names)}.{_divided(names)}"
        )
    return target


def _divided(names):
    """Advice, where a single column looks like several."""
    is_divided = len(names) == 1 and set(names[0]) & set(";\t|")
    return " Cells are divided by commas, in .tsv by tabs, unless delimiter= says otherwise." if is_divided else ""


def _listed(names):
    return ", ".join(f"{name!r:.40}" for name in names[:20]) + (
        f" and {len(names) - 20} more" if len(names) > 20 else ""
    )


def _is_text(types, type):
    return types.is_string(type) or types.is_large_string(type) or types.is_string_view(type)


def _decoded(column, by_name):
    """The values of an array row by row, if it is of a dictionary's; those that are no text are named, or left."""
    pyarrow = import_pyarrow()
    if not pyarrow.types.is_dictionary(column.type):
        return column
    values = column.dictionary
    if pyarrow.types.is_null(values.type):  # which ends the process where pyarrow decodes it
        return pyarrow.nulls(len(column))
    if pyarrow.types.is_string_view(values.type):  # which it does not decode
        values = values.cast(pyarrow.large_string())
    elif by_name and not _is_text(pyarrow.types, values.type):
        values = _names_of(values)
    return pyarrow.DictionaryArray.from_arrays(column.indices, values).dictionary_decode()


def _names_of(values):
    """What categories are called, as in a data frame."""
    try:
        names = [None if value is None else category_name(value) for value in values.to_pylist()]
    except (ValueError, OverflowError):  # times that Python has not
        return values.cast("string")
    return import_pyarrow().array(names, "string")


def _days(column):
    """Dates and times as days since 1970 in UTC, times of a day and durations as days; nulls stay."""
    pyarrow = import_pyarrow()
    type = column.type
    unit = "d" if pyarrow.types.is_date32(type) else "ms" if pyarrow.types.is_date64(type) else type.unit
    width = pyarrow.int32() if type.bit_width == 32 else pyarrow.int64()
    counts = column.cast(width).cast(pyarrow.float64(), safe=False)
    return pyarrow.compute.divide(counts, float(PER_DAY[unit]))


def _is_parsed(types, type):
    """Whether text of this type is read by Arrow alone."""
    return types.is_timestamp(type) or types.is_boolean(type)


def _is_list(types, type):
    return types.is_list(type) or types.is_large_list(type) or types.is_fixed_size_list(type)


def _matrix(parts):
    dtype = np.result_type(np.float32, *(part.dtype for part in parts))
    if len(parts) == 1 and parts[0].ndim == 2:
        return parts[0].astype(dtype, copy=False)
    X = np.empty((len(parts[0]), sum(part.shape[1] if part.ndim == 2 else 1 for part in parts)), dtype)
    at = 0
    for part in parts:
        width = part.shape[1] if part.ndim == 2 else 1
        X[:, at : at + width] = part.reshape(len(part), width)
        at += width
    return X


def _with_none(values):
    """For each row a string, a float, a vector, or None where it is missing."""
    if isinstance(values, list) or values.ndim == 2:
        return values
    return [None if value != value else value for value in values.tolist()]


def _strings(column, name, reasons):
    if not _is_text(import_pyarrow().types, column.type):  # all of it is missing
        column = column.cast("string")
    try:
        return column.to_pylist()
    except UnicodeDecodeError:
        complaint = f"what is in column {name!r} is not UTF-8 text."
        return _one_by_one(column, bytes.decode, lambda text: complaint, reasons)


def _numbers(column, type, name, reasons):
    """Strings as what a type of pyarrow has; as floats, where it is of integers and they are none."""
    pyarrow = import_pyarrow()
    is_truth, is_parsed = pyarrow.types.is_boolean(type), _is_parsed(pyarrow.types, type)

    def complaint(text):
        shown = text.decode("utf-8", "backslashreplace")[:80]
        what = "neither true nor false" if is_truth else "no date" if is_parsed else "no number"
        return f"{shown!r} in column {name!r} is {what}: name the column in categorical= if it is none."

    def parsed(text):
        return pyarrow.scalar(text.decode()).cast(type)

    try:
        return column.cast(type)
    except pyarrow.ArrowInvalid:
        if is_parsed:
            return pyarrow.array(_one_by_one(column, parsed, complaint, reasons), type)
        convert = _number if pyarrow.types.is_floating(type) else _exact
        return pyarrow.array(_one_by_one(column, convert, complaint, reasons), pyarrow.float64())


def _number(text):
    if b"_" in text:  # digits of Python's, not of data
        raise ValueError
    return float(text)


def _exact(text):
    """A number that as a float is no other integer."""
    value = _number(text)
    if abs(value) >= LARGEST_EXACT:
        raise ValueError
    return value


def _one_by_one(column, convert, complaint, reasons):
    """What ``convert`` makes of the bytes of each cell; where it fails, None and a complaint among the reasons."""
    values = []
    for i, text in enumerate(column.cast("binary").to_pylist()):
        try:
            values.append(None if text is None else convert(text))
        except ValueError:
            reasons.setdefault(i, complaint(text))
            values.append(None)
    return values


def cells_as_numbers(column: Any, most: int) -> Any:
    """The cells of a column of strings that are numbers, or None if more than ``most`` or as many as they are not."""
    numbers, n_others = [], 0
    missing = {text.encode() for text in MISSING}
    for text in column.cast("binary").to_pylist():
        try:
            if text is not None and text not in missing:
                _number(text)
                numbers.append(text.strip())
        except ValueError:
            n_others += 1
            if n_others > most:
                return None
    return import_pyarrow().array(numbers, "string") if len(numbers) > n_others else None
