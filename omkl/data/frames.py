"""Streams of data frames: those in memory, lazy ones, data sets of Arrow, and iterators of frames."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from omkl.data.columns import Columns, import_pyarrow
from omkl.data.file_streams import Skipped
from omkl.data.rows import Block, category_name, is_frame
from omkl.data.streams import BLOCK_SIZE, Stream, check_block_size, regrouped
from omkl.exceptions import DataFileError, InputError


def stream_frames(
    frames: Any, target: str | int | None = None, *, columns: Sequence[str] | None = None,
    block_size: int = BLOCK_SIZE, on_error: str = "raise",
) -> Stream:  # fmt: skip
    """Stream examples from data frames, without making arrays of all their rows at once.

    Parameters
    ----------
    frames : data frame, table, iterable of them, or callable
        A data frame of pandas or polars, a ``LazyFrame`` of polars, a table, record batches or a data set of Arrow
        (``pyarrow.dataset.dataset("sales", partitioning="hive")``), or whatever else has ``__arrow_c_stream__``, as
        results of DuckDB; an iterable of such frames, as ``pandas.read_csv(file, chunksize=10_000)``; or a function
        without arguments that returns one of these. An iterator can be passed over only once, a list or a function
        again and again.
    target : str or int, optional
        The column of the output, by name or place (-1 is the last one).
    columns : list of str, optional
        Columns of the input; all but the target by default. Of lazy frames and data sets, others are not read.
    block_size : int
        Examples in a block.
    on_error : {"raise", "skip"}
        What to do with rows that have no target, or a list of another length than others; see
        :func:`~omkl.data.stream_parquet`.

    Returns
    -------
    Stream
        X and y are made of columns as :func:`~omkl.data.stream_parquet` makes them: numbers, times (in days) and lists
        of numbers are columns of an array, in which what is missing is NaN; where a column is of strings or categories,
        X is a list of dicts. An index of pandas is left out.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        Without pyarrow.
    omkl.exceptions.InputError
        If frames are none, a column that is asked for is not there, or holds something else.
    omkl.exceptions.DataFileError
        While frames are read, at the first row that is wrong, or a frame that lacks columns of the first one.

    Examples
    --------
    >>> import pandas as pd
    >>> parts = [pd.DataFrame({"size": [1.0, 2.0], "y": ["a", "b"]}), pd.DataFrame({"size": [3.0], "y": ["a"]})]
    >>> X, y = stream_frames(parts, target="y").read()
    >>> X.ravel().tolist(), y.tolist()
    ([1.0, 2.0, 3.0], ['a', 'b', 'a'])
    """
    check_block_size(block_size)
    import_pyarrow()
    skipped, schema = Skipped(on_error=on_error), _schema_of(frames)
    plans = [] if schema is None else [Columns(schema, target, columns, "The data frame")]
    once, n_passes = isinstance(frames, Iterator) or _is_reader(frames), 0

    def passes(epoch: int) -> Iterator[Block]:
        nonlocal n_passes
        n_passes += 1
        if once and n_passes > 1:
            raise InputError(
                "These frames come from an iterator, which can be passed over only once: give a list, or a function "
                "that returns a new iterator."
            )
        return regrouped(_blocks(frames, plans, schema, target, columns, block_size, skipped), block_size)

    return Stream(passes, block_size, skipped, once, plans[0].feature_names if plans else None)


def _blocks(
    frames: Any, plans: list[Columns], schema: Any, target: Any, columns: Any, size: int, skipped: Skipped
) -> Iterator[Block]:
    """Blocks of any size; ``plans`` holds how columns are read, from the first frame on."""
    skipped.clear()
    n_rows = 0
    names = plans[0].all_names if plans else None
    for batch in _batches(frames, names, schema, size):
        if not plans:
            plans.append(Columns(batch.schema, target, columns, "The first data frame"))
        plans[0].check(batch.schema, "A data frame")
        block = plans[0].block(batch, _places(n_rows), skipped)
        n_rows += batch.num_rows
        if block.n_examples:
            yield block
    if not n_rows:
        raise DataFileError("The data frames have no rows: a stream needs at least one.")
    skipped.warn("row", stacklevel=2)


def _places(n_before: int) -> Callable[[int], str]:
    return lambda i: f"Row {n_before + i} of the data frame"


def _is_lazy(frame: Any) -> bool:
    """Whether this is a lazy frame, which complains where one looks at its columns."""
    is_lazy = hasattr(type(frame), "collect") and hasattr(type(frame), "lazy")
    if is_lazy and not hasattr(frame, "collect_batches"):
        raise InputError("This version of polars has lazy frames in one piece alone: update polars, or give collect().")
    return is_lazy


def _is_pandas(frame: Any) -> bool:
    return hasattr(type(frame), "iloc") and is_frame(frame)


def _is_reader(frame: Any) -> bool:
    """Whether this is a reader of Arrow, which reads once."""
    return hasattr(frame, "read_next_batch")


def _schema_of(frame: Any) -> Any:
    """The schema of Arrow of a frame; None of iterables and functions, until their first frame is there."""
    pyarrow = import_pyarrow()
    if _is_lazy(frame):
        return frame.limit(0).collect().to_arrow().schema
    if isinstance(getattr(frame, "schema", None), pyarrow.Schema):
        return frame.schema
    if _is_pandas(frame):
        with _conversion():
            return pyarrow.Schema.from_pandas(_with_zones(frame), preserve_index=False)
    return frame.limit(0).to_arrow().schema if is_frame(frame) else None


def _with_zones(frame: Any) -> Any:
    """A frame of pandas; categories that are times of a zone, which pyarrow before 23 forgets, are their names."""
    categories = {name: getattr(dtype, "categories", None) for name, dtype in frame.dtypes.items()}
    times = {name: own for name, own in categories.items() if getattr(own, "tz", None) is not None}
    if times and frame.columns.is_unique:  # or the conversion says that they are not
        frame = frame.copy(deep=False)
        for name, own in times.items():
            frame[name] = frame[name].cat.rename_categories([category_name(time) for time in own])
    return frame


@contextmanager
def _conversion() -> Iterator[None]:
    """A context in which what Arrow does not take of a data frame is an InputError."""
    try:
        yield
    except (import_pyarrow().ArrowException, TypeError, ValueError, OverflowError) as error:
        told = str(error).strip().rstrip(".")[:200]
        raise InputError(f"The data frame holds what is no column of one kind: {told}.") from None


def _batches(frame: Any, names: Sequence[str] | None, schema: Any, size: int) -> Iterator[Any]:
    """Record batches of at most ``size`` rows; where it is known, of the columns ``names`` alone."""
    for batch in _whole_batches(frame, names, schema, size):
        batch = batch if names is None else batch.select(names)
        yield from (batch.slice(low, size) for low in range(0, batch.num_rows, size))


def _whole_batches(frame: Any, names: Sequence[str] | None, schema: Any, size: int) -> Iterator[Any]:
    pyarrow = import_pyarrow()
    if isinstance(frame, pyarrow.RecordBatch):
        yield frame
    elif _is_pandas(frame):
        schema = _schema_of(frame) if schema is None else schema
        for low in range(0, len(frame), size):  # a copy of some rows at a time
            with _conversion():
                part = _with_zones(frame.iloc[low : low + size])
                part = pyarrow.Table.from_pandas(part, schema, preserve_index=False)
            yield from part.to_batches()
    elif _is_lazy(frame):
        frame = frame if names is None else frame.select(names)
        for part in frame.collect_batches(chunk_size=size, maintain_order=True):
            yield from part.to_arrow().to_batches()
    elif is_frame(frame):
        with _conversion():
            table = (frame if names is None else frame.select(names)).to_arrow()
        yield from table.to_batches()
    elif hasattr(frame, "scanner"):
        yield from frame.to_batches(columns=names, batch_size=size)
    elif hasattr(frame, "to_batches"):
        yield from frame.to_batches()
    elif hasattr(frame, "__arrow_c_stream__"):
        yield from pyarrow.RecordBatchReader.from_stream(frame)
    else:
        for part in _parts(frame):
            yield from _whole_batches(part, names, None, size)


def _parts(frames: Iterable | Callable[[], Any]) -> Iterable:
    """The frames that an iterable, or what a function returns, is made of."""
    frames = frames() if callable(frames) else frames
    if _schema_of(frames) is not None or hasattr(frames, "__arrow_c_stream__"):
        return [frames]
    if isinstance(frames, (str, bytes, dict)) or not hasattr(frames, "__iter__"):
        raise InputError(
            f"A stream of frames is made of data frames, tables, or an iterable of them, not of {frames!r:.80}."
        )
    return frames
