"""Streams of Parquet and Arrow files and of data frames. They need pyarrow: the extra ``arrow``."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omkl._messages import shown
from omkl.data.blocks import Block, is_frame
from omkl.data.files import (
    FileName,
    Paths,
    check_no_pipe,
    file_system,
    find_files,
    open_bytes,
    unreadable,
)
from omkl.data.frames import Columns, as_table, import_pyarrow
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream, stream_files
from omkl.exceptions import InputError

if TYPE_CHECKING:
    import pyarrow
    from pandas import DataFrame

#: First bytes of a Parquet file.
PARQUET_START = b"PAR1"
#: Number of rows to convert at a time; small batches cost more time per row.
BATCH = 1 << 13


def stream_parquet(
    path: Paths,
    target: str | int | None = None,
    *,
    columns: Sequence[str] | None = None,
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream examples from Parquet and Arrow (Feather) files.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, a directory, or a pattern. All files must have the same columns. In a directory,
        files below ``year=2024`` have a column ``year``.
    target : str or int, optional
        Output column, by name or position (-1 is the last one).
    columns : list of str, optional
        Input columns; all but the target by default. Others are not read.
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        Treatment of rows without a target, or with a list of a different length. Skipped rows are
        counted in ``skipped``, and a warning at the end of a pass gives their number. A damaged
        file is read up to the damage.

    Returns
    -------
    Stream
        X is an array of shape (n, d) of float64, or float32 if that is exact. A column with lists
        of k numbers becomes k columns of X. Dates and times become days since 1970 in UTC. Times of
        day and durations become days. Missing numbers are NaN. If an input column holds strings or
        categories, X is a list of n dicts from column names to numbers, vectors and strings,
        without missing values. y is an array.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.DataFileError
        If a file is missing; during a pass, at the first invalid row or if a file is damaged.
    omkl.exceptions.InputError
        If a requested column is missing, or holds neither numbers, lists of numbers nor strings.
    """
    pyarrow = import_pyarrow()
    paths = find_files(path)
    for file in paths:
        check_no_pipe(file)
    folder = None
    if isinstance(path, (str, Path)) and Path(path).is_dir():
        folder = os.path.abspath(path)
    with _naming_damage(paths[0]):  # columns have the types of the first file
        dataset = _open_dataset(paths, folder)
    plan = Columns(dataset.schema, target, columns, paths[0])
    fragments = {fragment.path: fragment for fragment in dataset.get_fragments()}
    partitions = []
    if dataset.partitioning:
        partitions = dataset.partitioning.schema

    def read(path: FileName, skipped: Skipped) -> Iterator[Block]:
        n_rows = 0
        with _naming_damage(path):
            _, (key,) = file_system([path])
            fragment = fragments[key]
            physical = fragment.physical_schema
            added = [field for field in partitions if field.name not in physical.names]
            plan.check(pyarrow.schema([*physical, *added]), path)
            for batch in _batches(fragment, dataset.schema, plan.all_names):
                numbers = range(n_rows + 1, n_rows + 1 + batch.num_rows)
                n_rows += batch.num_rows
                yield plan.block(batch, f"{path}, row", numbers, skipped.refuse)

    return stream_files(
        paths, read, block_size=block_size, on_error=on_error, feature_names=plan.feature_names
    )


def _open_dataset(paths: Sequence[FileName], folder: str | None) -> pyarrow.dataset.Dataset:
    """Open Parquet or Arrow files; names of directories below ``folder`` can be columns."""
    pyarrow = import_pyarrow()
    with open_bytes(paths[0]) as file:
        is_parquet = file.read(len(PARQUET_START)) == PARQUET_START
    format = pyarrow.dataset.IpcFileFormat()
    if is_parquet:
        scan = pyarrow.dataset.ParquetFragmentScanOptions(
            pre_buffer=False, page_checksum_verification=True
        )
        format = pyarrow.dataset.ParquetFileFormat(default_fragment_scan_options=scan)
    system, keys = file_system(paths)
    return pyarrow.dataset.dataset(
        keys,
        format=format,
        filesystem=system,
        partitioning="hive" if folder or system else None,
        partition_base_dir=folder,
    )


def _batches(
    fragment: pyarrow.dataset.Fragment, schema: pyarrow.Schema, columns: Sequence[str]
) -> Iterator[pyarrow.RecordBatch]:
    """Yield the record batches of a file; raise an error if one is damaged."""
    # read row groups one by one, to yield all before a damaged one
    groups = [fragment]
    if isinstance(fragment, import_pyarrow().dataset.ParquetFileFragment):
        groups = fragment.split_by_row_group()
    for group in groups:
        for batch in group.to_batches(
            schema=schema,
            columns=columns,
            batch_size=BATCH,
            use_threads=False,
            batch_readahead=0,
        ):
            batch.validate(full=True)  # check that offsets are in bounds
            if batch.num_rows and not batch.get_total_buffer_size():
                raise ValueError("there are rows with nothing in them")
            yield batch


@contextmanager
def _naming_damage(path: FileName) -> Iterator[None]:
    """Convert errors to DamagedFileError; for damaged files Arrow raises errors of many classes."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise unreadable(path, error, "Parquet or Arrow file") from None


def stream_frames(
    frames: DataFrame | Iterable[DataFrame] | Callable[[], Any],
    target: str | int | None = None,
    *,
    columns: Sequence[str] | None = None,
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream examples from data frames, converted a batch of rows at a time.

    Parameters
    ----------
    frames : data frame, table, iterable of them, or callable
        * A data frame of pandas or polars, an Arrow table, record batches or dataset
          (``pyarrow.dataset.dataset("sales", partitioning="hive")``), or any other object with
          ``__arrow_c_stream__``, such as a result of DuckDB.
        * An iterable of such frames, such as ``pandas.read_csv(file, chunksize=10_000)``. Iterators
          allow only one pass.
        * A function without arguments that returns one of these, such as ``collect_batches`` of a
          polars lazy frame.
    target, columns, block_size, on_error : as for :func:`~omkl.data.stream_parquet`

    Returns
    -------
    Stream
        X and y as from :func:`~omkl.data.stream_parquet`. The index of a pandas frame is ignored.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.InputError
        If a requested column is missing, or cannot be converted.
    omkl.exceptions.DataFileError
        During a pass, at the first invalid row, or at a frame without the columns of the first
        frame.

    Examples
    --------
    >>> import pandas as pd
    >>> frames = [
    ...     pd.DataFrame({"size": [1.0, 2.0], "y": ["a", "b"]}),
    ...     pd.DataFrame({"size": [3.0], "y": ["a"]}),
    ... ]
    >>> X, y = stream_frames(frames, target="y").read()
    >>> X.ravel().tolist(), y.tolist()
    ([1.0, 2.0, 3.0], ['a', 'b', 'a'])
    """
    pyarrow = import_pyarrow()
    if is_frame(frames):
        frames = as_table(frames)
    if not (callable(frames) or _is_table(frames) or isinstance(frames, Iterable)):
        raise InputError(
            f"`frames` must be data frames, tables, or an iterable of them, not {shown(frames)}."
        )
    plan = None
    if isinstance(frames, (pyarrow.Table, pyarrow.RecordBatch, pyarrow.dataset.Dataset)):
        plan = Columns(frames.schema, target, columns)

    def read(name: str, skipped: Skipped) -> Iterator[Block]:
        nonlocal plan
        made = frames() if callable(frames) else frames
        if _is_table(made):
            made = [made]
        n_rows = 0
        for frame in made:
            if not _is_table(frame):
                raise InputError(f"A data frame or a table was expected, got {shown(frame)}.")
            if isinstance(frame, pyarrow.dataset.Dataset):
                names = None if plan is None else plan.all_names
                reader = frame.scanner(columns=names, batch_size=BATCH).to_reader()
            else:
                if is_frame(frame):
                    frame = as_table(frame)
                reader = pyarrow.RecordBatchReader.from_stream(frame)
            if plan is None:
                plan = Columns(reader.schema, target, columns, "The first data frame")
            plan.check(reader.schema, "A data frame")
            for batch in reader:
                for low in range(0, batch.num_rows, BATCH):
                    rows = batch.slice(low, BATCH)
                    numbers = range(n_rows, n_rows + rows.num_rows)
                    n_rows = numbers.stop
                    yield plan.block(rows, "Data frame, row", numbers, skipped.refuse)

    reads_once = isinstance(frames, (Iterator, pyarrow.RecordBatchReader))
    return stream_files(
        ["The data frame"],
        read,
        block_size=block_size,
        on_error=on_error,
        feature_names=plan.feature_names if plan else None,
        once="an iterator of data frames" if reads_once else None,
    )


def _is_table(frame: object) -> bool:
    """Tell whether this is a single table, and not an iterable of tables."""
    is_dataset = isinstance(frame, import_pyarrow().dataset.Dataset)
    return is_dataset or is_frame(frame) or hasattr(frame, "__arrow_c_stream__")
