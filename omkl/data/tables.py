"""Streams of tables: CSV, Parquet and Arrow. They need pyarrow: the extra ``arrow``."""

import csv
import io
from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from omkl.data.columns import Columns, import_pyarrow
from omkl.data.file_streams import StreamFormat, stream_files
from omkl.data.files import PathLike, after_last_line, chunks, find_files, lines, open_bytes, pieces, stem, without_mark
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Bytes of text that decide what columns hold, and bytes that are parsed at a time, of which Arrow reads 32 ahead.
START, PIECE = 1 << 20, 1 << 18


def stream_csv(
    path: PathLike | Sequence[PathLike], target: str | int | None = None, *, columns: Sequence[str] | None = None,
    categorical: Sequence[str] = (), delimiter: str = ",", header: bool = True, block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:  # fmt: skip
    """Stream examples from CSV files.

    Columns are numbers or strings, which the first megabyte of the first file decides. An empty cell of a number is
    NaN, and in a dict it is left out.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern; all with the same columns.
    target : str or int, optional
        The column of the output, by name or place (-1 is the last one).
    columns : list of str, optional
        Columns of the input; all but the target by default.
    categorical : list of str
        Columns that are strings though they may look like numbers.
    delimiter : str
    header : bool
        Whether the first row of every file has the names of the columns. Without, they are ``f0``, ``f1``, ...
    block_size : int
        Examples in a block.
    on_error : {"raise", "skip"}
        What to do with rows that have another number of cells, something else where a number belongs, or no target.
        Skipped ones are counted in ``skipped``, and a warning at the end of a pass says how many they were. A
        compressed file that is cut short or damaged is read up to there.

    Returns
    -------
    Stream
        X is a float64 array of shape (n, d), or where a column is of strings, a list of n dicts of numbers and
        strings by column; y an array, of int64 where all targets of the first megabyte are integers.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, at the first row that is wrong (row 1 is the header), or where
        a file is cut short or damaged.
    omkl.exceptions.InputError
        If a column that is asked for is not there.
    """
    paths = find_files(path)
    layout = {"delimiter": delimiter, "header": header}
    with _csv(paths[0], **layout) as reader:
        schema = _with_strings(reader.schema, categorical, paths[0])
    plan = Columns(schema, target, columns, paths[0], named=header)

    def read(path, skipped):
        invalid = []
        if not header and path != paths[0]:
            _check_width(path, len(schema), paths[0], delimiter)
        with _csv(path, **layout, names=plan.all_names, invalid=invalid) as reader:
            n_rows = int(header)
            for batch in reader:
                numbers = _row_numbers(batch.num_rows, n_rows + 1, [row.number for row in invalid])
                n_rows = numbers[-1] if len(numbers) else n_rows
                while invalid and invalid[0].number < n_rows:
                    _refuse(invalid.pop(0), path, skipped)
                yield plan.block(batch, lambda i, numbers=numbers: f"{path}, row {numbers[i]}", skipped)
            while invalid:
                _refuse(invalid.pop(0), path, skipped)

    return stream_files(paths, read, block_size=block_size, on_error=on_error, feature_names=plan.feature_names)


def _check_width(path, width, first, delimiter):
    """Without names, columns are known by their places: the first row of each file has as many as that of the first."""
    text = (line.decode("utf-8", "replace") + "\n" for line in lines(path))
    found = len(next(filter(None, csv.reader(text, delimiter=delimiter)), range(width)))
    if found != width:
        raise DataFileError(f"{path} has {found} columns, but {first} has {width}: without a header, all need as many.")


@contextmanager
def _csv(path, delimiter, header, names=None, invalid=None):
    """A reader of record batches: of strings in the named columns, or with the types that the first one suggests."""
    pyarrow = import_pyarrow()

    def note(row):
        if invalid is not None:
            invalid.append(row)
        return "skip"

    text = _Text(path)
    try:
        reader = pyarrow.csv.open_csv(
            text,
            pyarrow.csv.ReadOptions(
                use_threads=False, block_size=START if names is None else PIECE, autogenerate_column_names=not header
            ),
            pyarrow.csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
            pyarrow.csv.ConvertOptions(
                check_utf8=False, strings_can_be_null=True, include_columns=names,
                column_types=dict.fromkeys(names or (), pyarrow.string()),
            ),
        )  # fmt: skip
        with reader:
            yield reader
    except pyarrow.ArrowKeyError as error:
        raise DataFileError(f"{path}: {error}: all files need the columns of the first one.") from None
    except pyarrow.ArrowInvalid as error:
        raise DataFileError(f"{path}: {str(error).split('. ')[0]}.") from None
    finally:
        text.close()
    if text.damage is not None and names is not None:
        raise text.damage


class _Text(io.RawIOBase):
    """Whole lines of a file; where it is cut short or damaged it ends, and ``damage`` holds the error."""

    def __init__(self, path):
        self._pieces = pieces(without_mark(chunks(path))[0], PIECE, after_last_line)
        self._rest = memoryview(b"")
        self.damage = None

    def readable(self):
        return True

    def readinto(self, buffer):
        while not self._rest:
            try:
                self._rest = memoryview(next(self._pieces))
            except StopIteration:
                return 0
            except DamagedFileError as error:
                self.damage = error
                return 0
        n = min(len(buffer), len(self._rest))
        buffer[:n], self._rest = self._rest[:n], self._rest[n:]
        return n


def _with_strings(schema, categorical, path):
    """The schema, with strings wherever the type that was guessed is no number, or is said to be none."""
    pyarrow = import_pyarrow()
    for name in categorical:
        if name not in schema.names:
            raise InputError(f"{path} has no column {name!r}, which categorical= names.")
    is_type = pyarrow.types
    for i, field in enumerate(schema):
        is_number = is_type.is_integer(field.type) or is_type.is_floating(field.type) or is_type.is_null(field.type)
        if field.name in categorical or not is_number:
            schema = schema.set(i, pyarrow.field(field.name, pyarrow.string()))
    return schema


def _row_numbers(n, first, invalid):
    """Numbers of the next ``n`` rows from ``first`` on that are not among the invalid."""
    if not invalid:
        return range(first, first + n)
    candidates = np.arange(first, first + n + len(invalid))
    return candidates[~np.isin(candidates, invalid)][:n].tolist()


def _refuse(row, path, skipped):
    cells = f"{row.actual_columns} cell" + ("" if row.actual_columns == 1 else "s")
    skipped.refuse(f"{path}, row {row.number}: {cells}, but there are {row.expected_columns} columns.")


def stream_parquet(
    path: PathLike | Sequence[PathLike], target: str | int | None = None, *, columns: Sequence[str] | None = None,
    block_size: int = BLOCK_SIZE, on_error: str = "raise",
) -> Stream:  # fmt: skip
    """Stream examples from Parquet files, and from Arrow's own (IPC files and streams, Feather).

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern; all with the same columns.
    target : str or int, optional
        The column of the output, by name or place (-1 is the last one).
    columns : list of str, optional
        Columns of the input; all but the target by default. Others are not read.
    block_size : int
        Examples in a block.
    on_error : {"raise", "skip"}
        What to do with rows that have no target, or a list of another length than others. Skipped ones are counted in
        ``skipped``, and a warning at the end of a pass says how many they were. A file that is damaged is read up to
        there; one that is cut short has lost the directory at its end, and cannot be read at all.

    Returns
    -------
    Stream
        X is an array of shape (n, d) of float64, or float32 where that is enough, in which a column of lists of
        numbers takes as many columns as its lists are long, and what is missing is NaN. Where a column is of strings,
        X is a list of n dicts of numbers, vectors and strings by column, without what is missing. y is an array.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, at the first row that is wrong, or where a file is damaged.
    omkl.exceptions.InputError
        If a column that is asked for is not there, or holds neither numbers, nor lists of them, nor strings.

    Notes
    -----
    Of a Parquet file, a row group is held compressed, of an Arrow file a record batch where it is compressed.
    """
    paths = find_files(path)
    plan = Columns(_first_schema(paths, on_error), target, columns, paths[0])

    def read(path, skipped):
        with _arrow_file(path) as file:
            missing = [name for name in plan.all_names if name not in file.schema.names]
            if missing:
                raise DataFileError(f"{path} has no column {missing[0]!r}: all files need the columns of the first.")
            n_rows = 0
            for batch in file.batches(plan.all_names, block_size):
                yield plan.block(batch, lambda i, n=n_rows: f"{path}, row {n + i + 1}", skipped)
                n_rows += batch.num_rows

    return stream_files(paths, read, block_size=block_size, on_error=on_error, feature_names=plan.feature_names)


def _first_schema(paths, on_error):
    """The schema of the first file, or if files may be left out, of the first that can be read."""
    for path in paths:
        try:
            with _arrow_file(path) as file:
                return file.schema
        except DamagedFileError:
            if on_error == "raise" or path == paths[-1]:
                raise


@contextmanager
def _arrow_file(path):
    pyarrow = import_pyarrow()
    try:
        with open_bytes(path) as file:
            is_parquet = file.read(4) == b"PAR1"
        yield _Parquet(path) if is_parquet else _Arrow(path)
    except (pyarrow.ArrowException, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from None
        reason = str(error).splitlines()[0].rstrip(".")
        raise DamagedFileError(f"{path} is damaged, or no Parquet or Arrow file: {reason}.") from None


class _Parquet:
    def __init__(self, path):
        parquet = import_pyarrow().parquet
        self._file = parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
        self.schema = self._file.schema_arrow

    def batches(self, names, size):
        with self._file:
            yield from self._file.iter_batches(size, columns=names, use_threads=False)


class _Arrow:
    """Mapped into memory: of what is not compressed, nothing is held."""

    def __init__(self, path):
        pyarrow = import_pyarrow()
        source = pyarrow.memory_map(str(path))
        try:
            self._file = pyarrow.ipc.open_file(source)
        except pyarrow.ArrowInvalid:
            source.seek(0)
            self._file = pyarrow.ipc.open_stream(source)
        self.schema = self._file.schema

    def batches(self, names, size):
        is_file = hasattr(self._file, "num_record_batches")
        whole = map(self._file.get_batch, range(self._file.num_record_batches)) if is_file else self._file
        for batch in whole:
            batch = batch.select(names)
            yield from (batch.slice(low, size) for low in range(0, batch.num_rows, size))


class Table(StreamFormat):
    """Columns, of which one is the output, and those with names are found by their names."""

    has_target = True
    default_target = -1

    def options_for(self, n_features: int | None, names: Sequence[str] | None) -> dict[str, Any]:
        """The same columns, in the same order."""
        return {} if names is None else {"columns": list(names)}


class CSV(Table):
    """Text with a separator between cells: see :func:`stream_csv`."""

    aliases = {"csv": {}}
    suffixes = (".csv", ".tsv")

    def open(self, path: PathLike | Sequence[PathLike], **options: Any) -> Stream:
        """The stream; the cells of files that end in ``.tsv`` are separated by tabs."""
        is_tsv = stem(find_files(path)[0]).endswith(".tsv")
        return stream_csv(path, **({"delimiter": "\t"} if is_tsv else {}) | options)


class Parquet(Table):
    """Parquet and Arrow: see :func:`stream_parquet`."""

    aliases = {"parquet": {}}
    suffixes = (".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")
    open = staticmethod(stream_parquet)  # type: ignore[assignment]  # options of its own
