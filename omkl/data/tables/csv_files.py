"""Streams of CSV files. They need pyarrow: the extra ``arrow``."""

import csv
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from omkl._messages import shown
from omkl.data.blocks import Block
from omkl.data.file_streams import Skipped, first_readable, stream_files
from omkl.data.files import PathLike, after_last_line, chunks, find_files, is_pipe, pieces, without_mark
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.data.tables.columns import Columns, import_pyarrow
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Bytes of text that are parsed at a time; the first of them decide the types of columns.
PIECE = 1 << 20
#: What a cell must look like, but for one or one in ten, in a column of numbers.
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


def stream_csv(
    path: PathLike | Sequence[PathLike],
    target: str | int | None = None,
    *,
    columns: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    delimiter: str = ",",
    header: bool = True,
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream examples from CSV files, in UTF-8.

    The first megabyte of the first file decides whether a column holds numbers, dates, truth values or strings. A
    column of numbers may have one cell there, or one in ten, that is none: this is an error. Dates, with times or
    without (``2024-02-29``, ``2024-02-29 12:00:00.5``), are days since 1970 in UTC. Truth values (``true``, ``False``)
    are 1 and 0, but classes if they are the target. Missing values (an empty cell, or in columns of numbers ``NA``,
    ``NULL``, ``nan`` and the like) are NaN, and left out of dicts. Cells in quotation marks may contain line ends.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern; all with the same columns.
    target : str or int, optional
        Output column, by name or position (-1 is the last one).
    columns : list of str, optional
        Input columns; all but the target by default.
    categorical : list of str
        Columns that hold strings though they look like numbers, dates or truth values.
    delimiter : str
        One ASCII character.
    header : bool
        Whether the first line of every file has the names of columns; otherwise they are ``f0``, ``f1``, ...
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        Treatment of rows with another number of cells, with something else in a column of numbers, with an infinite
        number, or without a target. Skipped rows are counted in ``skipped``; a warning at the end of a pass tells
        their number. A file that is cut short, not UTF-8, or has a quotation mark without another is read up to there.

    Returns
    -------
    Stream
        X is a float64 array of shape (n, d), or if a column holds strings, a list of n dicts of numbers and strings
        by column; y is an array, of int64 if all targets of the first megabyte are integers.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.DataFileError
        At once if a file is missing; during a pass at the first row that is wrong (row 1 is the header; empty lines
        do not count), or if a file is damaged.
    omkl.exceptions.InputError
        If a column that is asked for is missing.
    """
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise InputError(f"`delimiter` must be one ASCII character, and no quotation mark or line end: {delimiter!r}.")
    import_pyarrow()
    paths = find_files(path)
    first, schema = first_readable(
        paths, lambda path: _guessed_schema(_CSVFile(path, delimiter, header), categorical, target), on_error
    )
    plan = Columns(schema, target, columns, first.path, named=header)
    types = {name: _parsed_type(schema.field(name).type, name == plan.target) for name in plan.all_names}
    kept = [first] if is_pipe(first.path) else []  # a pipe cannot be opened again

    def read(path: Path, skipped: Skipped) -> Iterator[Block]:
        file = kept.pop() if kept and path == first.path else _CSVFile(path, delimiter, header)
        file.check(plan, first)
        for batch, numbers, reasons in file.batches(types, skipped):
            place = lambda i, numbers=numbers: f"{path}, row {numbers[i]}"  # noqa: E731
            yield plan.block(batch, place, skipped.refuse, reasons)

    return stream_files(paths, read, block_size=block_size, on_error=on_error, feature_names=plan.feature_names)


class _CSVFile:
    """Names of the columns of a file, and pieces of whole rows."""

    def __init__(self, path: Path, delimiter: str, header: bool) -> None:
        self.path, self._delimiter, self._header = path, delimiter, header
        self._pieces = pieces(without_mark(chunks(path))[0], PIECE, _after_last_row, path)
        text = next(self._pieces, b"").lstrip(b"\r\n")
        line, end, rest = text.partition(b"\n")
        try:
            cells = next(csv.reader([line.decode()], delimiter=delimiter, strict=True), [])
        except (UnicodeDecodeError, csv.Error):
            raise DataFileError(f"{path}, row 1: expected UTF-8 text with {delimiter!r} between cells.") from None
        if not cells:
            raise DataFileError(f"{path}: Empty CSV file.")
        self.names = cells if header else [f"f{i}" for i in range(len(cells))]
        self.start = rest if header else line + end + rest

    def check(self, plan: Columns, first: "_CSVFile") -> None:
        """Raise unless the file has the columns of the first one."""
        if self._header:
            plan.check(import_pyarrow().schema([(name, "null") for name in self.names]), self.path)
        elif len(self.names) != len(first.names):
            raise DataFileError(f"{self.path} has {len(self.names)} columns, but {first.path} has {len(first.names)}.")

    def batches(self, types: dict[str, Any], skipped: Skipped) -> Iterator[tuple[Any, Sequence[int], dict[int, str]]]:
        """Tables of Arrow, the number of each row in the file, and the rows that have wrong cells."""
        n_before = 1 + int(self._header)
        for text in chain([self.start], self._pieces):
            reasons: dict[int, str] = {}
            try:
                table, refused = self.parsed(text, types, n_before)
            except import_pyarrow().ArrowInvalid:  # a cell is not of its type
                table, refused = self.parsed(text, dict.fromkeys(types, import_pyarrow().string()), n_before)
                table = _converted(table, types, reasons)
            for number, reason in refused.items():
                skipped.refuse(f"{self.path}, row {number}: {reason}")
            numbers: Any = range(n_before, n_before + table.num_rows + len(refused))
            if refused:
                numbers = [number for number in numbers if number not in refused]
            yield _without_empty_strings(table), numbers, reasons
            n_before += table.num_rows + len(refused)

    def parsed(self, text: bytes, types: dict[str, Any] | None, n_before: int) -> tuple[Any, dict[int, str]]:
        """A table, and what is wrong with the rows that have another number of cells."""
        pyarrow = import_pyarrow()
        self._check_encoding(text, n_before)
        if not text.strip(b"\r\n"):  # which Arrow refuses
            fields = types or dict.fromkeys(self.names, pyarrow.null())
            return pyarrow.schema(fields.items()).empty_table(), {}
        refused: dict[int, str] = {}
        torn: list[int] = []

        def refuse(row: Any) -> str:
            number = n_before + row.number - 1
            cells = f"{row.actual_columns} cell{'' if row.actual_columns == 1 else 's'}"
            refused[number] = f"{cells}, but there are {row.expected_columns} columns."
            torn.extend([number] if "\n" in row.text else [])
            return "skip"

        options = pyarrow.csv
        reading = options.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=self.names)
        parsing = options.ParseOptions(delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=refuse)
        converting = options.ConvertOptions(include_columns=list(types or ()), column_types=types)
        table = options.read_csv(pyarrow.BufferReader(text), reading, parsing, converting)
        if torn:
            raise DamagedFileError(f"{self.path}, row {torn[0]}: a quotation mark without another.")
        return table, refused

    def _check_encoding(self, text: bytes, n_before: int) -> None:
        try:
            text.isascii() or text.decode()
        except UnicodeDecodeError as error:
            number = n_before + sum(1 for line in text[: error.start].split(b"\n")[:-1] if line.strip())
            raise DamagedFileError(f"{self.path}, row {number}: this is not UTF-8: save the file as UTF-8.") from None


def _after_last_row(text: bytes) -> int:
    """End of the last whole row of a text that begins with a row; lines go on between quotation marks."""
    end = after_last_line(text)
    is_open = b'"' in text and text.count(b'"', 0, end) % 2
    while is_open and end:
        before = text.rfind(b"\n", 0, end - 1) + 1
        is_open ^= text.count(b'"', before, end) % 2
        end = before
    return end


def _guessed_schema(file: _CSVFile, categorical: Sequence[str], target: str | int | None) -> tuple[_CSVFile, Any]:
    """A file, and the types of its columns by its first rows."""
    pyarrow = import_pyarrow()
    for name in categorical:
        if name not in file.names:
            raise InputError(f"{file.path} has no column {name!r:.200}.")
    names, file.names = file.names, list(map(str, range(len(file.names))))  # names may not be unique
    try:
        table = file.parsed(file.start, None, 2)[0]
    finally:
        file.names = names
    types = [_guessed_type(column) for column in table.columns]
    for place, name in enumerate(names):
        is_target = target in (name, place, place - len(names))
        if name in categorical or (is_target and pyarrow.types.is_boolean(types[place])):
            types[place] = pyarrow.string()
    return file, pyarrow.schema(zip(names, types))


def _guessed_type(column: Any) -> Any:
    """The type of a column: strings are numbers if all but a few cells are."""
    pyarrow = import_pyarrow()
    if pyarrow.types.is_date(column.type):
        return pyarrow.timestamp("us")
    if pyarrow.types.is_timestamp(column.type):  # later times may have fractions of a second
        return pyarrow.timestamp("ns" if column.type.unit == "ns" else "us", column.type.tz)
    if not pyarrow.types.is_string(column.type):
        return pyarrow.string() if pyarrow.types.is_time(column.type) else column.type
    cells = column.filter(pyarrow.compute.not_equal(column, ""))
    n_numbers = pyarrow.compute.sum(pyarrow.compute.match_substring_regex(cells, NUMBER)).as_py() or 0
    n_others = len(cells) - n_numbers
    is_number = n_numbers > n_others and n_others <= max(1, len(cells) // 10)
    return pyarrow.float64() if is_number else column.type


def _parsed_type(type: Any, is_target: bool) -> Any:
    """The type to read a column as: integers may be followed by other numbers, unless they are classes."""
    pyarrow = import_pyarrow()
    is_number = pyarrow.types.is_null(type) or (pyarrow.types.is_integer(type) and not is_target)
    return pyarrow.float64() if is_number else type


def _converted(table: Any, types: dict[str, Any], reasons: dict[int, str]) -> Any:
    """Columns of strings as other types; ``reasons`` gets the rows with cells that cannot be converted."""
    pyarrow = import_pyarrow()
    missing = pyarrow.array(pyarrow.csv.ConvertOptions().null_values)
    columns = {}
    for name, type in types.items():
        column = table[name]
        if type != pyarrow.string():
            is_missing = pyarrow.compute.is_in(column, value_set=missing)
            column = pyarrow.compute.if_else(is_missing, pyarrow.scalar(None, pyarrow.string()), column)
            try:
                column = column.cast(type)
            except pyarrow.ArrowInvalid:
                column = pyarrow.array(_cells(column, name, type, reasons), type)
        columns[name] = column
    return pyarrow.table(columns)


def _cells(column: Any, name: str, type: Any, reasons: dict[int, str]) -> Iterator[Any]:
    """Cells of a column, one by one, those that cannot be converted as None."""
    pyarrow = import_pyarrow()
    for i, text in enumerate(column):
        try:
            yield pyarrow.compute.utf8_trim_whitespace(text).cast(type)
        except pyarrow.ArrowInvalid:
            advice = "name the column in categorical= if it holds strings"
            reasons[i] = f"{shown(text.as_py())} in column {name!r} is no {_called(type)}: {advice}."
            yield None


def _called(type: Any) -> str:
    types = import_pyarrow().types
    if types.is_boolean(type):
        return "truth value"
    return "date" if types.is_timestamp(type) else "integer" if types.is_integer(type) else "number"


def _without_empty_strings(table: Any) -> Any:
    """The same table; empty strings are missing."""
    pyarrow = import_pyarrow()
    for i, column in enumerate(table.columns):
        if pyarrow.types.is_string(column.type):
            filled = pyarrow.compute.if_else(pyarrow.compute.equal(column, ""), None, column)
            table = table.set_column(i, table.schema.names[i], filled)
    return table
