"""Streams of CSV files. They need pyarrow: the extra ``arrow``."""

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from omkl.data.columns import LARGEST_EXACT, Columns, cells_as_numbers, import_pyarrow
from omkl.data.csv_rows import after_last_row, first_row, parse_rows
from omkl.data.file_streams import stream_files
from omkl.data.files import PathLike, chunks, find_files, is_pipe, pieces, stem, without_mark
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.data.tables import Table
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Bytes of text that are parsed at a time; the first of them decide what columns hold.
PIECE = 1 << 20
#: A column is of numbers if no more than one cell is none, or one of so many.
CELLS_PER_ERROR = 10


def stream_csv(
    path: PathLike | Sequence[PathLike], target: str | int | None = None, *, columns: Sequence[str] | None = None,
    categorical: Sequence[str] = (), delimiter: str = ",", header: bool = True, block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:  # fmt: skip
    """Stream examples from CSV files.

    Columns are numbers or strings, which the first megabyte of the first file decides: a column is of numbers if no
    more than one of its cells, or one in ten, is something else, which is then an error. Dates, with times or without
    (``2024-02-29``, ``2024-02-29 12:00:00.5``, ``2024-02-29T12:00Z``), are days since 1970 in UTC, if all cells of the
    column there are. So are ``true`` and ``false`` (also ``True``, ``FALSE`` and so on) 1 and 0, but for the output's,
    which are classes of these names. What is missing (an empty cell, or one of ``NA``, ``N/A``, ``NULL``, ``nan`` and
    their like) is NaN, and in a dict it is left out, as an empty string is. Cells in quotation marks may have line ends
    in them.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern; all with the same columns.
    target : str or int, optional
        The column of the output, by name or place (-1 is the last one).
    columns : list of str, optional
        Columns of the input; all but the target by default.
    categorical : list of str
        Columns that are strings though they may look like numbers, dates or truth values.
    delimiter : str
        One ASCII character.
    header : bool
        Whether the first row of every file has the names of the columns. Without, they are ``f0``, ``f1``, ...
    block_size : int
        Examples in a block.
    on_error : {"raise", "skip"}
        What to do with rows that have another number of cells, something else where a number belongs, an infinite
        number, or no target. Skipped ones are counted in ``skipped``, and a warning at the end of a pass says how many
        they were. A compressed file that is cut short or damaged is read up to there.

    Returns
    -------
    Stream
        X is a float64 array of shape (n, d), or where a column is of strings, a list of n dicts of numbers and
        strings by column; y an array, of int64 (or uint64, where that is needed) where all targets of the first
        megabyte are integers.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, at the first row that is wrong (row 1 is the header; empty
        lines are no rows), or where a file is cut short or damaged.
    omkl.exceptions.InputError
        If a column that is asked for is not there.
    """
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise InputError(f"A delimiter is one ASCII character, and neither a quotation mark nor a line end, not "
                         f"{delimiter!r}.")  # fmt: skip
    paths = find_files(path)
    first = _first_text(paths, delimiter, header, on_error)
    plan = Columns(_schema(first, categorical, target), target, columns, first.path, named=header)
    kept = [first] if is_pipe(first.path) else []  # what has come through a pipe does not come again

    def read(path, skipped):
        text = kept.pop() if kept and path == first.path else _Text(path, delimiter, header)
        text.check(plan.all_names, first)
        n_before = 1 + int(header)
        for piece in text.pieces():
            rows = parse_rows(piece, delimiter, text.names, plan.types)
            for number, problem in rows.refused:
                skipped.refuse(f"{path}, row {n_before + number}: {problem}")
            yield plan.block(rows.batch, _places(path, n_before, rows.numbers), skipped)
            n_before += rows.n_rows

    return stream_files(paths, read, block_size=block_size, on_error=on_error, feature_names=plan.feature_names)


def _places(path: PathLike, n_before: int, numbers: Sequence[int]) -> Callable[[int], str]:
    return lambda i: f"{path}, row {n_before + numbers[i]}"


def _first_text(paths, delimiter, header, on_error):
    """The first file, or if files may be left out, the first that can be read."""
    import_pyarrow()
    for path in paths:
        try:
            return _Text(path, delimiter, header)
        except DamagedFileError:
            if on_error == "raise" or path == paths[-1]:
                raise


class _Text:
    """A file from its first row on: the names of its columns, and pieces of whole rows."""

    def __init__(self, path: PathLike, delimiter: str, header: bool) -> None:
        self.path, self.delimiter, self._header = path, delimiter, header
        self._pieces = pieces(_with_line_ends(without_mark(chunks(path))[0]), PIECE, after_last_row, path)
        self.start = next(self._pieces, b"")
        try:
            cells, end = first_row(self.start, delimiter)
        except UnicodeDecodeError:
            raise DataFileError(f"{path}, row 1: this is not UTF-8: save the file as UTF-8 text.") from None
        except csv.Error:
            raise DataFileError(f"{path}, row 1: this is no row of text with {delimiter!r} between cells.") from None
        if not cells:
            raise DataFileError(f"{path}: Empty CSV file: write a row for each example.")
        if header:
            self.names, self.start = cells, self.start[end:]
        else:
            self.names = [f"f{i}" for i in range(len(cells))]

    def check(self, wanted: Sequence[str], first: "_Text") -> None:
        """Raise where a column that is wanted is missing; without names, there must be as many as in the first file."""
        for name in wanted if self._header else ():
            if self.names.count(name) != 1:
                has = "no column" if name not in self.names else "several columns"
                raise DataFileError(
                    f"{self.path} has {has} {name!r:.200}: all files need the columns of the first one."
                )
        if not self._header and len(self.names) != len(first.names):
            raise DataFileError(
                f"{self.path} has {len(self.names)} columns, but {first.path} has {len(first.names)}: without a "
                "header, all need as many."
            )

    def pieces(self) -> Iterator[bytes]:
        yield self.start
        yield from self._pieces


def _with_line_ends(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same text; where its lines end in a carriage return alone, they end in a newline."""
    first = next((chunk for chunk in chunks if chunk), b"")
    chunks = chain([first], chunks)
    return (chunk.replace(b"\r", b"\n") for chunk in chunks) if b"\r" in first and b"\n" not in first else chunks


def _schema(text: _Text, categorical: Sequence[str], target: str | int | None) -> Any:
    """Names and types of columns: integers, floats, times or strings, as the cells at the start of a file suggest."""
    pyarrow = import_pyarrow()
    for name in categorical:
        if name not in text.names:
            raise InputError(f"{text.path} has no column {name!r:.200}, which is to be text.")
    # by their places: several columns may have one name, as long as none of them is asked for
    places = [str(i) for i in range(len(text.names))]
    guessed = parse_rows(text.start, text.delimiter, places).batch
    types = {place: _plain_type(pyarrow, column) for place, column in zip(places, guessed.columns)}
    for place, name in zip(places, text.names):
        if target in (name, int(place), int(place) - len(places)) and types[place] == pyarrow.bool_():
            types[place] = pyarrow.string()  # classes are called as they stand there
    unclear = dict.fromkeys((place for place in places if types[place] is None), pyarrow.string())
    if unclear:
        batch = parse_rows(text.start, text.delimiter, places, unclear).batch
        types |= {place: _type(pyarrow, batch.column(place)) for place in unclear}
    return pyarrow.schema(
        (name, pyarrow.string() if name in categorical else types[place]) for place, name in zip(places, text.names)
    )


def _plain_type(pyarrow, column):
    """The type of the column, if Arrow finds it to be of truth values, dates, or numbers that it can tell apart."""
    type = column.type
    if pyarrow.types.is_boolean(type):
        return type
    if pyarrow.types.is_date(type):
        return pyarrow.timestamp("us")
    if pyarrow.types.is_timestamp(type):  # in seconds if these had no fractions: those to come may have
        return pyarrow.timestamp("ns" if type.unit == "ns" else "us", type.tz)
    if pyarrow.types.is_floating(type):
        values = column.to_numpy(zero_copy_only=False)
        return None if (np.abs(values) > LARGEST_EXACT).any() else type
    return type if pyarrow.types.is_integer(type) or pyarrow.types.is_null(type) else None


def _type(pyarrow, column):
    """The type of a column of strings, of which some may be no numbers."""
    if column.null_count == len(column):
        return pyarrow.null()
    column = cells_as_numbers(column, max(1, (len(column) - column.null_count) // CELLS_PER_ERROR))
    if column is None:
        return pyarrow.string()
    for type in (pyarrow.int64(), pyarrow.uint64()):
        try:
            column.cast(type)
            return type
        except pyarrow.ArrowInvalid:
            pass
    return pyarrow.float64()


class CSV(Table):
    """Text with a separator between cells: see :func:`stream_csv`."""

    aliases = {"csv": {}}
    suffixes = (".csv", ".tsv")

    def options_for(
        self, n_features: int | None, names: Sequence[str] | None, text: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The same columns, in the same order, and text where they were text."""
        return super().options_for(n_features, names) | ({"categorical": list(text)} if text else {})

    def open(self, path: PathLike | Sequence[PathLike], **options: Any) -> Stream:
        """The stream; the cells of files that end in ``.tsv`` are separated by tabs."""
        is_tsv = stem(find_files(path)[0]).endswith(".tsv")
        return stream_csv(path, **({"delimiter": "\t"} if is_tsv else {}) | options)
