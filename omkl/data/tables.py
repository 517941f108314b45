"""Streams of Parquet and Arrow files. They need pyarrow: the extra ``arrow``."""

from collections.abc import Sequence
from contextlib import contextmanager
from typing import Any

from omkl.data.columns import Columns, import_pyarrow
from omkl.data.file_streams import StreamFormat, stream_files
from omkl.data.files import PathLike, check_no_pipe, find_files, open_bytes, partition
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.data.urls import Url, open_url
from omkl.exceptions import DamagedFileError, DataFileError


def stream_parquet(
    path: PathLike | Sequence[PathLike], target: str | int | None = None, *, columns: Sequence[str] | None = None,
    block_size: int = BLOCK_SIZE, on_error: str = "raise",
) -> Stream:  # fmt: skip
    """Stream examples from Parquet files, and from Arrow's own (IPC files and streams, Feather).

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern; all with the same columns. Of files in directories whose names are like
        ``year=2024``, below the one that is given, ``year`` is a column.
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
        numbers takes as many columns as its lists are long, and what is missing is NaN. Dates and times are days since
        1970 in UTC, times of a day and durations are days. Where a column is of strings, or of categories
        (dictionaries), X is a list of n dicts of numbers, vectors and strings by column, without what is missing. y is
        an array.

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
    for file in paths:
        check_no_pipe(file, "tables have a directory at their end")
    said = {file: partition(file, path) for file in paths}
    schema = _first_schema(paths, on_error)
    types = _partition_types(said.values(), schema)
    plan = Columns(_with_partition(schema, types), target, columns, paths[0])

    def read(path, skipped):
        file = _arrow_file(path)
        plan.check(_with_partition(file.schema, types), path)
        n_rows = 0
        held = [name for name in plan.all_names if name not in types]
        for batch in _batches(file, held or file.schema.names[:1], block_size, path):
            batch = _batch_of_partition(batch, said[path], types)
            yield plan.block(batch, lambda i, n=n_rows: f"{path}, row {n + i + 1}", skipped)
            n_rows += batch.num_rows

    return stream_files(paths, read, block_size=block_size, on_error=on_error, feature_names=plan.feature_names)


def _partition_types(said, schema):
    """The columns that the names of directories make beside those in files, and their types: integers or strings."""
    pyarrow, types = import_pyarrow(), {}
    for name in dict.fromkeys(name for one in said for name in one if name not in schema.names):
        values = [one[name] for one in said if one.get(name) is not None]
        is_whole = all(value.isdecimal() and value.isascii() and len(value) < 16 for value in values)
        types[name] = pyarrow.int64() if is_whole else pyarrow.string()
    return types


def _with_partition(schema, types):
    for name, type in types.items():
        schema = schema.append(import_pyarrow().field(name, type))
    return schema


def _batch_of_partition(batch, said, types):
    """The batch with columns that say the same of all rows."""
    pyarrow = import_pyarrow()
    if not types:
        return batch
    values = {name: None if said.get(name) is None else said[name] for name in types}
    same = [
        pyarrow.array([value] * batch.num_rows, pyarrow.string()).cast(types[name]) for name, value in values.items()
    ]
    return pyarrow.RecordBatch.from_arrays([*batch.columns, *same], schema=_with_partition(batch.schema, types))


def _first_schema(paths, on_error):
    """The schema of the first file, or if files may be left out, of the first that can be read."""
    for path in paths:
        try:
            return _arrow_file(path).schema
        except DamagedFileError:
            if on_error == "raise" or path == paths[-1]:
                raise


@contextmanager
def _as_damage(path):
    """What Arrow raises of bytes that it never wrote, which may be anything, as the error that says so."""
    try:
        yield
    except DataFileError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise DataFileError(f"{path} cannot be read: {error.strerror or error}.") from None
        reason = str(error).split("\n")[0][:200].rstrip(".") or type(error).__name__
        raise DamagedFileError(f"{path} is damaged, or no Parquet or Arrow file: {reason}.") from None


def _arrow_file(path):
    import_pyarrow()
    with open_bytes(path) as file:
        is_parquet = file.read(4) == b"PAR1"
    with _as_damage(path):
        file = _Parquet(path) if is_parquet else _Arrow(path)
        file.schema.names  # noqa: B018 (may not be UTF-8)
        return file


def _batches(file, names, size, path):
    """Record batches that hold what they promise, of at most ``size`` rows."""
    batches = file.batches(names, size)
    while True:
        with _as_damage(path):
            batch = next(batches, None)
            if batch is None:
                return
            batch = batch.select(names)
            _check_batch(batch)
        yield from (batch.slice(low, size) for low in range(0, batch.num_rows, size))


def _check_batch(batch):
    """Raise where offsets, indices or lengths point outside of the bytes that are there: Arrow would follow them."""
    pyarrow = import_pyarrow()
    as_bytes = {pyarrow.string(): pyarrow.binary(), pyarrow.large_string(): pyarrow.large_binary()}
    for column in batch.columns:  # a string that is not UTF-8 is wrong by itself
        column.view(as_bytes.get(column.type, column.type)).validate(full=True)
    if batch.num_rows and not batch.get_total_buffer_size():
        raise ValueError("there are rows with nothing in them")


class _Parquet:
    def __init__(self, path):
        parquet = import_pyarrow().parquet
        source = open_url(path) if isinstance(path, Url) else path
        self._file = parquet.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
        self.schema = self._file.schema_arrow

    def batches(self, names, size):
        with self._file:
            yield from self._file.iter_batches(size, columns=names, use_threads=False)


class _Arrow:
    """Mapped into memory: of what is not compressed, nothing is held."""

    def __init__(self, path):
        pyarrow = import_pyarrow()
        source = open_url(path) if isinstance(path, Url) else pyarrow.memory_map(str(path))
        try:
            self._file = pyarrow.ipc.open_file(source)
        except pyarrow.ArrowInvalid:
            source.seek(0)
            self._file = pyarrow.ipc.open_stream(source)
        self.schema = self._file.schema

    def batches(self, names, size):
        is_file = hasattr(self._file, "num_record_batches")
        yield from map(self._file.get_batch, range(self._file.num_record_batches)) if is_file else self._file


class Table(StreamFormat):
    """Columns, of which one is the output, and those with names are found by their names."""

    has_target = True
    default_target = -1

    def options_for(
        self, n_features: int | None, names: Sequence[str] | None, text: Sequence[str] = ()
    ) -> dict[str, Any]:
        """The same columns, in the same order."""
        return {} if names is None else {"columns": list(names)}


class Parquet(Table):
    """Parquet and Arrow: see :func:`stream_parquet`."""

    aliases = {"parquet": {}}
    suffixes = (".parquet", ".pq", ".arrow", ".arrows", ".feather", ".ipc")
    open = staticmethod(stream_parquet)  # type: ignore[assignment]  # options of its own
