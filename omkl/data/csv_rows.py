"""Rows of text with separators between cells: where they end, what Arrow makes of them, and which are wrong."""

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from omkl.data.columns import MISSING, import_pyarrow
from omkl.data.files import after_last_line

#: A row is no longer: a quotation mark that is still open after so many bytes, or lines, is none.
LONGEST_ROW, MOST_LINES = 1 << 20, 1000
#: A table has no more columns.
MOST_COLUMNS = 1 << 20


class Rows(NamedTuple):
    """Some rows of a table.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
        The rows that have a cell for each column; strings may not be UTF-8.
    numbers : sequence of int
        The number of each, counted from 0; empty lines are no rows.
    refused : list of (int, str)
        The numbers of the others, and what is wrong with them.
    """

    batch: Any
    numbers: Sequence[int]
    refused: list

    @property
    def n_rows(self) -> int:
        return len(self.numbers) + len(self.refused)


def after_last_row(text: bytes) -> int:
    """Where the last row that is whole ends, of a text that begins with a row.

    A line that ends between quotation marks goes on; but not for more than :data:`LONGEST_ROW` bytes.
    """
    end = after_last_line(text)
    if b'"' not in text:
        return end
    last, is_open = end, text.count(b'"', 0, end) % 2
    while is_open and end:
        before = text.rfind(b"\n", 0, end - 1) + 1
        is_open ^= text.count(b'"', before, end) % 2
        end = before
    return end if end or len(text) <= LONGEST_ROW else last


def first_row(text: bytes, delimiter: str) -> tuple[list[str], int]:
    """The cells of the first row that is not empty, and where it ends.

    Raises
    ------
    UnicodeDecodeError, csv.Error
        If it is no row.
    """
    start = len(text) - len(text.lstrip(b"\r\n"))
    if text.count(delimiter.encode(), start, after_last_line(text) or len(text)) > MOST_COLUMNS:
        line = next(_lines(text, start))
        if line.count(delimiter.encode()) > MOST_COLUMNS:
            raise csv.Error
    lines = islice(_lines(text, start), MOST_LINES)
    used: list[bytes] = []

    def decoded():
        for line in lines:
            used.append(line)
            yield line.decode()

    cells = next(csv.reader(decoded(), delimiter=delimiter, strict=True), [])
    return cells, start + sum(map(len, used))


def _lines(text, start=0):
    while start < len(text):
        end = text.find(b"\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def parse_rows(text: bytes, delimiter: str, names: Sequence[str], types: dict[str, Any] | None = None) -> Rows:
    """Parse rows, all of a text without a header.

    Parameters
    ----------
    text : bytes
    delimiter : str
    names : sequence of str
        Those of all columns.
    types : dict of str to pyarrow.DataType, optional
        Of the columns that are wanted. Where a cell is not what it should be, all columns are strings. By default
        all are wanted, with the types that Arrow finds fit.
    """
    pyarrow = import_pyarrow()
    types = {} if types is None else types
    strings = dict.fromkeys(types or names, pyarrow.string())
    if b'"' not in text or text.count(b'"') % 2 == 0:  # looking for one is ten times as fast as counting
        for wanted in (types, strings):
            try:
                return _with_nulls(_by_arrow(pyarrow, text, delimiter, names, wanted), types)
            except (pyarrow.ArrowInvalid, _NoRowsError):
                pass
    return _with_nulls(_one_by_one(pyarrow, text, delimiter, names, list(strings)), types)


def _with_nulls(rows: Rows, types: dict[str, Any]) -> Rows:
    """The same rows; of strings that should be numbers, those that stand for none are null, of others empty ones."""
    pyarrow = import_pyarrow()
    columns = []
    for name, column in zip(rows.batch.schema.names, rows.batch.columns):
        if column.type == pyarrow.string():
            is_string = types.get(name, column.type) == column.type
            nulls = pyarrow.array([""] if is_string else sorted(MISSING), pyarrow.string())
            is_null = pyarrow.compute.is_in(column, value_set=nulls)
            if is_null.true_count:
                column = pyarrow.compute.if_else(is_null, pyarrow.scalar(None, column.type), column)
        columns.append(column)
    return rows._replace(batch=pyarrow.RecordBatch.from_arrays(columns, rows.batch.schema.names))


class _NoRowsError(Exception):
    """Cells were put together that may not belong together."""


def _by_arrow(pyarrow, text, delimiter, names, types):
    invalid: list[Any] = []

    def note(row):
        invalid.append(row)
        return "skip"

    table = pyarrow.csv.read_csv(
        pyarrow.BufferReader(text),
        pyarrow.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
        # Arrow decodes a row before it asks what to do with it, and fails where that is not UTF-8
        pyarrow.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note if _is_utf8(text) else None),
        pyarrow.csv.ConvertOptions(
            check_utf8=False, null_values=sorted(MISSING), include_columns=list(types), column_types=types
        ),
    )
    if invalid and b'"' in text:  # one may have swallowed others
        raise _NoRowsError
    refused = [(row.number - 1, _wrong_width(row.actual_columns, len(names))) for row in invalid]
    numbers: Sequence[int] = range(table.num_rows)
    if refused:
        numbers = np.delete(np.arange(table.num_rows + len(refused)), [number for number, _ in refused]).tolist()
    batches = table.combine_chunks().to_batches()
    batch = batches[0] if batches else pyarrow.RecordBatch.from_pylist([], table.schema)
    return Rows(batch, numbers, refused)


def _is_utf8(text):
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _wrong_width(n, wanted):
    return f"{n} cell{'' if n == 1 else 's'}, but there are {wanted} columns."


def _one_by_one(pyarrow, text, delimiter, names, wanted):
    """Each row by itself: slow, but a row that is wrong takes no other with it."""
    places = [names.index(name) for name in wanted]
    columns: list[list] = [[] for _ in wanted]
    numbers, refused = [], []
    for number, (cells, problem) in enumerate(_rows(text, delimiter, len(names))):
        if problem:
            refused.append((number, problem))
            continue
        numbers.append(number)
        for place, column in zip(places, columns):
            column.append(cells[place].encode("latin-1"))
    arrays = [pyarrow.array(column, pyarrow.binary()).view(pyarrow.string()) for column in columns]
    return Rows(pyarrow.RecordBatch.from_arrays(arrays, wanted), numbers, refused)


def _rows(text: bytes, delimiter: str, width: int) -> Iterator[tuple[list[str], str]]:
    """The cells of each row, a character a byte, and what is wrong with it; an empty string if nothing is."""
    lines = [line + "\n" for line in text.decode("latin-1").removesuffix("\n").split("\n")]
    i = 0
    while i < len(lines):
        if not lines[i].strip("\r\n"):
            i += 1
            continue
        cells, problem, n_lines = _row(lines, i, delimiter, width)
        yield cells, problem
        i += 1 if problem else n_lines  # the next line may be a row, if this one only seemed to go on


def _row(lines, i, delimiter, width):
    if lines[i].count(delimiter) > MOST_COLUMNS:
        return [], f"more than {MOST_COLUMNS} cells, but there are {width} columns.", 1
    reader = csv.reader(
        map(lines.__getitem__, range(i, min(i + MOST_LINES, len(lines)))), delimiter=delimiter, strict=True
    )
    try:
        cells = next(reader)
    except csv.Error:
        return [], "a quotation mark without another where a cell begins or ends.", 1
    if len(cells) != width and reader.line_num > 1:
        return [], "a quotation mark is not followed by another that ends the cell.", 1
    return cells, "" if len(cells) == width else _wrong_width(len(cells), width), reader.line_num
