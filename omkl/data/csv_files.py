"""Streams of CSV files. They need pyarrow: the extra ``arrow``."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from omkl._components import warn_caller
from omkl._messages import shown
from omkl.data.blocks import Block
from omkl.data.files import (
    FileName,
    Paths,
    after_last_line,
    chunks,
    find_files,
    is_pipe,
    pieces,
    stem,
)
from omkl.data.frames import Columns, Reasons, can_cast, date_type, import_pyarrow, with_missing
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream, stream_files
from omkl.exceptions import DamagedFileError, DataFileError, DataWarning, InputError

if TYPE_CHECKING:
    import pyarrow
    from pyarrow.csv import InvalidRow

#: Number of bytes to parse at a time; the first piece decides the types of columns.
PIECE = 1 << 20
#: A number. Columns are numeric if at most one cell, or one in ten, does not match.
NUMBER = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"
#: A number as people write it: with separators of thousands, a decimal comma, or a sign such as %
#: or $.
WRITTEN_NUMBER = r"^\W*\d+([.,' ]\d{3})*([.,]\d+)?\W*$"


def stream_csv(
    path: Paths,
    target: str | int | None = None,
    *,
    columns: Sequence[str] | None = None,
    categorical: Sequence[str] = (),
    delimiter: str | None = None,
    header: bool = True,
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream examples from CSV files, in UTF-8.

    The first megabyte of the first file decides whether a column holds numbers, dates, truth values
    or strings. If all cells but one, or but one in ten, are numbers there, the column is numeric,
    and the other cells are errors. Dates, with or without times (``2024-02-29``, ``2024-02-29
    12:00:00.5``), become days since 1970 in UTC. Truth values (``true``, ``False``) become 1 and 0
    in X, and stay strings in y. Missing values (empty cells, and ``NA``, ``NULL`` or ``nan`` in
    numeric columns) are NaN in arrays, and absent from dicts. Cells in quotation marks may contain
    line ends. Spaces around names and cells are dropped. Warnings name a column of numbers such as
    ``3,000`` or ``45%``, which is read as strings, and an input column without a name, which may be
    an index.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern. All
        files must have the same columns.
    target : str or int, optional
        Output column, by name or position (-1 is the last one).
    columns : list of str, optional
        Input columns; all but the target by default.
    categorical : list of str
        Columns to read as strings, even if they look like numbers, dates or truth values.
    delimiter : str, optional
        One ASCII character; by default a comma, and a tab for files that end in ``.tsv``.
    header : bool
        Whether the first line of every file names the columns; otherwise the names are ``f0``,
        ``f1``, ...
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        Treatment of rows that have a wrong number of cells, text in a numeric column, an infinite
        number, or no target. Skipped rows are counted in ``skipped``, and a warning at the end of a
        pass gives their number. If a file is truncated, not UTF-8, or has an unclosed quotation
        mark, the rest from that megabyte on is skipped.

    Returns
    -------
    Stream
        X is a float64 array of shape (n, d). If an input column holds strings, X is a list of n
        dicts from column names to numbers and strings. y is an array, of int64 if all targets of
        the first megabyte are integers.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.DataFileError
        If a file is missing; during a pass, at the first invalid row or if a file is damaged. Row 1
        is the header, and empty lines do not count.
    omkl.exceptions.InputError
        If a requested column is missing, or the target has no name.
    """
    paths = find_files(path)
    if delimiter is None:
        delimiter = "\t" if stem(paths[0]).endswith(".tsv") else ","
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise InputError(
            "`delimiter` must be one ASCII character, and no quotation mark or line end: "
            f"{delimiter!r}."
        )
    first = _CSVFile(paths[0], delimiter, header)
    schema = first.guess(categorical, target)
    plan = Columns(schema, target, columns, first.path, named=header)
    if plan.target == "":
        place = "last column"
        if first.names[-1]:
            place = f"column {first.names.index('') + 1}"
        raise InputError(
            f"{first.path}: the {place} has no name, and cannot be the target: choose another one."
        )
    if columns is None and "" in plan.names:
        place = first.names.index("") + 1
        warn_caller(
            f"{first.path}: column {place} has no name, and is an input: is it an index?",
            DataWarning,
        )
    types = {name: schema.field(name).type for name in plan.all_names}

    def read(path: FileName, skipped: Skipped) -> Iterator[Block]:
        file = first
        if path != first.path or not is_pipe(path):  # a pipe cannot be opened again
            file = _CSVFile(path, delimiter, header)
        if header:
            plan.check_names(file.names, path)
        elif len(file.names) != len(first.names):
            raise DataFileError(
                f"{path} has {len(file.names)} columns, but {first.path} has {len(first.names)}."
            )
        for table, numbers, reasons in file.tables(types, skipped):
            yield plan.block(table, f"{path}, row", numbers, skipped.refuse, reasons)

    return stream_files(
        paths, read, block_size=block_size, on_error=on_error, feature_names=plan.feature_names
    )


class _CSVFile:
    """Column names and tables of one CSV file."""

    def __init__(self, path: FileName, delimiter: str, header: bool) -> None:
        self.path = path
        self._delimiter = delimiter
        self._first_row = 1 + int(header)
        self._pieces = pieces(chunks(path), PIECE, _after_last_row)
        text = next(self._pieces, b"").lstrip(b"\r\n")
        first_line, line_end, rows = text.partition(b"\n")
        while not rows.strip(b"\r\n"):
            # a first row longer than a piece decides the types of columns as well
            piece = next(self._pieces, b"")
            if not piece:
                break
            rows += piece
        cells: list[str] = []
        with suppress(UnicodeDecodeError, csv.Error):
            cells = next(csv.reader([first_line.decode()], delimiter=delimiter, strict=True), [])
        separators = [mark for mark in ";\t,|" if len(cells) == 1 and mark in cells[0]]
        if separators or not cells:
            advice = ", or no text in UTF-8"
            if separators:
                advice = f": give delimiter={separators[0]!r} if that separates cells"
            raise DataFileError(
                f"{path}, row 1: there are {len(cells)} cells between {delimiter!r}{advice}."
            )
        if header:
            self.names = [cell.strip() for cell in cells]
            self._start = rows
        else:
            self.names = [f"f{i}" for i in range(len(cells))]
            self._start = first_line + line_end + rows

    def guess(self, categorical: Sequence[str], target: str | int | None) -> pyarrow.Schema:
        """Infer the types of the columns from the first rows."""
        pyarrow = import_pyarrow()
        text = pyarrow.string()
        n = len(self.names)
        unknown = [name for name in categorical if name not in self.names]
        if unknown:
            raise InputError(f"{self.path} has no column {unknown[0]!r:.200} for categorical=.")
        labels = list(map(str, range(n)))  # names may not be unique
        table, _ = self._parsed(self._start, labels, dict.fromkeys(labels, text), first_row=2)
        types = []
        for position, (name, column) in enumerate(zip(self.names, table.columns)):
            if name in categorical:
                types.append(text)
                continue
            is_target = target in (name, position, position - n)
            type = _guessed_type(column, is_target)
            types.append(type)
            if type == text and not is_target:
                self._warn_of_numbers(column, name)
        return pyarrow.schema(zip(self.names, types))

    def _warn_of_numbers(self, column: pyarrow.ChunkedArray, name: str) -> None:
        """Warn if most cells of a column of text are numbers, some of them such as 3,000."""
        cells = [cell for cell in with_missing(column).to_pylist() if cell is not None]
        numbers = [cell for cell in cells if re.match(WRITTEN_NUMBER, cell)]
        example = next((cell for cell in numbers if not re.match(NUMBER, cell)), None)
        if example is not None and len(numbers) > len(cells) / 2:
            warn_caller(
                f"{self.path}: column {name!r:.200} is read as strings, because of "
                f"{example!r:.80}: write plain numbers, or name it in categorical=.",
                DataWarning,
            )

    def tables(
        self, types: dict[str, pyarrow.DataType], skipped: Skipped
    ) -> Iterator[tuple[pyarrow.Table, Sequence[int], Reasons]]:
        """Yield tables, the number of each row in the file, and errors of rows.

        Errors are by the index of a row in its table.
        """
        pyarrow = import_pyarrow()
        first_row = self._first_row
        for text in chain([self._start], self._pieces):
            reasons: Reasons = {}
            try:
                table, refused = self._parsed(text, self.names, types, first_row)
            except DamagedFileError:  # a cell is not of its type
                as_text = dict.fromkeys(types, pyarrow.string())
                texts, refused = self._parsed(text, self.names, as_text, first_row)
                columns = {}
                for name, type in types.items():
                    columns[name] = _cast(texts[name], name, type, reasons)
                table = pyarrow.table(columns)
            for number, reason in refused.items():
                skipped.refuse(f"{self.path}, row {number}: {reason}")
            next_row = first_row + table.num_rows + len(refused)
            numbers: Sequence[int] = range(first_row, next_row)
            if refused:
                numbers = [number for number in numbers if number not in refused]
            yield table, numbers, reasons
            first_row = next_row

    def _parsed(
        self, text: bytes, names: list[str], types: dict[str, pyarrow.DataType], first_row: int
    ) -> tuple[pyarrow.Table, Reasons]:
        """Return a table, and errors of rows with a wrong number of cells, by their numbers."""
        pyarrow = import_pyarrow()
        refused: Reasons = {}
        torn: list[int] = []

        def refuse(row: InvalidRow) -> str:
            number = first_row + row.number - 1
            cells = "cell" if row.actual_columns == 1 else "cells"
            refused[number] = (
                f"{row.actual_columns} {cells}, but there are {row.expected_columns} columns."
            )
            if "\n" in row.text:
                torn.append(number)
            return "skip"

        if not text.strip(b"\r\n"):  # Arrow rejects empty text
            return pyarrow.schema(types.items()).empty_table(), {}
        reading = pyarrow.csv.ReadOptions(
            use_threads=False, block_size=len(text) + 1, column_names=names
        )
        parsing = pyarrow.csv.ParseOptions(
            delimiter=self._delimiter, newlines_in_values=True, invalid_row_handler=refuse
        )
        converting = pyarrow.csv.ConvertOptions(include_columns=list(types), column_types=types)
        try:
            table = pyarrow.csv.read_csv(pyarrow.BufferReader(text), reading, parsing, converting)
        except pyarrow.ArrowInvalid as error:
            place = f"{self.path}, row {first_row} or later"
            reason = str(error).splitlines()[0][:200]
            if "UTF8" in str(error):
                reason = "expected text in UTF-8"
            raise DamagedFileError(f"{place}: {reason}.") from None
        if torn:
            raise DamagedFileError(f"{self.path}, row {torn[0]}: an unclosed quotation mark.")
        for i, name in enumerate(types):
            if types[name] == pyarrow.string():
                table = table.set_column(i, name, with_missing(table[name], [""]))
        return table, refused


def _after_last_row(text: bytes | bytearray) -> int:
    """Return the end of the last complete row of a text; quoted line ends do not end a row."""
    end = after_last_line(text)
    is_open = b'"' in text and text.count(b'"', 0, end) % 2
    while is_open and end:
        before = text.rfind(b"\n", 0, end - 1) + 1
        is_open ^= text.count(b'"', before, end) % 2
        end = before
    return end


def _guessed_type(column: pyarrow.ChunkedArray, is_target: bool) -> pyarrow.DataType:
    """Infer the type of a column from its first cells."""
    pyarrow = import_pyarrow()
    cells = with_missing(column).drop_null()
    number = pyarrow.float64()
    text = pyarrow.string()
    if not len(cells):
        return number
    if is_target and can_cast(cells, pyarrow.int64()):
        return pyarrow.int64()  # classes; input columns of integers may contain fractions later
    if can_cast(cells, number):
        return number
    if can_cast(cells, pyarrow.bool_()):
        return text if is_target else pyarrow.bool_()
    dates = date_type(cells)
    if dates is not None:
        return dates
    is_number = pyarrow.compute.match_substring_regex(cells, NUMBER)
    n_others = len(cells) - pyarrow.compute.sum(is_number).as_py()
    has_few_others = n_others < len(cells) / 2 and n_others <= max(1, len(cells) // 10)
    return number if has_few_others else text


def _cast(
    column: pyarrow.ChunkedArray, name: str, type: pyarrow.DataType, reasons: Reasons
) -> pyarrow.ChunkedArray | pyarrow.Array:
    """Cast a column of text; add an error to ``reasons`` for each cell that cannot be converted."""
    pyarrow = import_pyarrow()
    if type == pyarrow.string():
        return column
    cells = with_missing(column)
    if type == pyarrow.int64() and not can_cast(cells, type):
        type = pyarrow.float64()  # the target's first numbers were integers, others need not be
    if can_cast(cells, type):
        return cells.cast(type)
    needed = {"bool": "a truth value", "double": "a number"}.get(str(type), "a date")
    is_valid = [can_cast(cell, type) for cell in cells]
    for i in np.flatnonzero(~np.array(is_valid)).tolist():
        reasons[i] = (
            f"{shown(cells[i].as_py())} in column {name!r} is not {needed}: "
            "name the column in categorical= if it holds strings."
        )
    return pyarrow.compute.if_else(pyarrow.array(is_valid), cells, None).cast(type)
