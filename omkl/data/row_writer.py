"""Writing rows with one output each: svmlight's format, CSV, Parquet, Arrow, or numpy's."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from omkl.data.columns import import_pyarrow
from omkl.data.files import OPENERS, PathLike, output_file
from omkl.data.rows import Block, join
from omkl.exceptions import InputError

#: What Arrow's columns cannot hold.
SEVERAL_KINDS = "a column holds values of several kinds"
#: Blocks that are held at once until every column has had a value; columns that had none by then are of numbers.
MOST_WAITING = 64
#: Sparse rows with more columns are not written with a cell for each.
MOST_DENSE = 10_000


def write_rows(path: PathLike, blocks: Iterable[Block], format: str, target: str | None = None) -> int:
    """Write rows, block by block.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    blocks : iterable of Block
        What ``Stream.blocks()`` gives.
    format : {"svmlight", "csv", "parquet", "arrow", "npz"}
        ``svmlight`` holds numbers alone, ``csv``, ``parquet`` and ``arrow`` (Arrow's file format, which is that of
        Feather, too) also strings, and the names of columns; ``npz`` arrays ``X`` and ``y``, for which all rows are
        held at once. Sparse rows with more than 10,000 columns are for svmlight.
    target : str, optional
        What the column of the outputs is called, where columns have names: the last one, "y" by default.

    Returns
    -------
    int
        How many rows there were.

    Raises
    ------
    omkl.exceptions.InputError
        If the format cannot hold them; the file stays what it was.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    omkl.exceptions.MissingDependencyError
        If Parquet or Arrow is asked for without pyarrow.
    """
    if format not in WRITERS:
        raise InputError(f"Unknown format {format!r}: choose one of {', '.join(WRITERS)}.")
    if format in ("parquet", "arrow") and Path(path).suffix in OPENERS:
        raise InputError(f"{path}: {format} is compressed by itself, and read as it is: leave out {Path(path).suffix}.")
    with output_file(path) as file:
        return WRITERS[format](file, blocks, target or "y")


def _svmlight(file: IO[bytes], blocks: Iterable[Block], target: str) -> int:
    n_rows = 0
    for block in blocks:
        if isinstance(block.X, list) or np.asarray(block.X[:0].data).dtype.kind not in "fiub":
            raise InputError("svmlight holds numbers, and some columns hold strings: write csv.")
        X, y = sparse.csr_array(block.X), _outputs(block, "fiub", "svmlight holds numbers, and the outputs are others")
        indices, values = (X.indices + 1).tolist(), X.data.tolist()
        for label, low, high in zip(y, X.indptr[:-1].tolist(), X.indptr[1:].tolist()):
            pairs = (f"{j}:{_number(v)}" for j, v in zip(indices[low:high], values[low:high]))
            file.write(" ".join([_number(label), *pairs, ""])[:-1].encode() + b"\n")
        n_rows += block.n_examples
    return n_rows


def _outputs(block: Block, kinds: str, otherwise: str) -> list:
    if block.y is None:
        raise InputError("there are no outputs: say with target= (--target) where they are.")
    y = np.asarray(block.y)
    if y.ndim != 1 or y.dtype.kind not in kinds:
        raise InputError(f"{otherwise}: write csv." if y.ndim == 1 else "there are several outputs a row: write npz.")
    return y.tolist()


def _number(value: Any) -> str:
    """The shortest decimals that are read as this number."""
    return str(int(value)) if isinstance(value, int) else repr(value).removesuffix(".0")


def _dense(X: Any) -> Any:
    if not sparse.issparse(X):
        return X
    if X.shape[1] > MOST_DENSE:
        raise InputError(f"the rows are sparse, and have {X.shape[1]} columns: write svmlight.")
    return X.toarray()


def _csv(file: IO[bytes], blocks: Iterable[Block], target: str) -> int:
    n_rows, names = 0, None
    for block in blocks:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        X = _dense(block.X)
        if names is None:
            names = _names(block, X, target)
            writer.writerow([*names, *([] if block.y is None else [target])])
        rows = ([row.get(name) for name in names] for row in X) if isinstance(X, list) else X.tolist()
        if block.y is not None:
            rows = ([*row, label] for row, label in zip(rows, _outputs(block, "fiubUO", "outputs are of no such kind")))
        writer.writerows(map(_cells, rows))
        file.write(text.getvalue().encode())
        n_rows += block.n_examples
    return n_rows


def _names(block: Block, X: Any, target: str) -> Sequence[str]:
    if block.feature_names is not None:
        names = [str(name) for name in block.feature_names]
    else:
        names = list(X[0]) if isinstance(X, list) else [f"x{j}" for j in range(X.shape[1])]
    if target in names and block.y is not None:
        raise InputError(f"a column is called {target!r}, as that of the outputs: choose another target.")
    return names


def _cells(row: Iterable[Any]) -> list[Any]:
    """Cells as text; what is missing is an empty one."""
    return ["" if value is None or value != value else _number(value) if isinstance(value, float) else value
            for value in row]  # fmt: skip


def _tables(blocks: Iterable[Block], target: str) -> Iterator[Any]:
    """Tables of Arrow, all of one schema; what is missing is null."""
    pyarrow, names, schema = import_pyarrow(), None, None
    waiting: list[Any] = []
    for block in blocks:
        X = _dense(block.X)
        names = _names(block, X, target) if names is None else names
        columns = [[row.get(name) for row in X] for name in names] if isinstance(X, list) else list(np.asarray(X).T)
        y = [] if block.y is None else [_outputs(block, "fiubUO", "outputs are of no such kind")]
        waiting.append(_table([*names, target][: len(columns) + len(y)], [*columns, *y]))
        schema = _common(schema, waiting[-1].schema)
        empty = [k for k, own in enumerate(schema) if pyarrow.types.is_null(own.type)]
        if len(waiting) == MOST_WAITING:
            for k in empty:
                schema = schema.set(k, schema.field(k).with_type(pyarrow.float64()))
            empty = []
        if not empty:  # else a later block may tell what the column is of
            yield from (own.cast(schema) for own in waiting)
            waiting = []
    yield from (own.cast(schema) for own in waiting)


def _table(names: Sequence[str], columns: Sequence[Any]) -> Any:
    pyarrow = import_pyarrow()
    try:
        return pyarrow.table([pyarrow.array(own, from_pandas=True) for own in columns], names=names)
    except (ValueError, TypeError) as error:  # also pyarrow's own
        raise InputError(f"{SEVERAL_KINDS}: write csv ({error}).") from None


def _common(schema: Any, other: Any) -> Any:
    """The schema of tables of both: a column of nulls in one of them is what it is in the other."""
    try:
        return other if schema is None else import_pyarrow().unify_schemas([schema, other])
    except (ValueError, TypeError) as error:
        raise InputError(f"{SEVERAL_KINDS}: write csv ({error}).") from None


def _parquet(file: IO[bytes], blocks: Iterable[Block], target: str) -> int:
    return _write_tables(blocks, target, lambda schema: import_pyarrow().parquet.ParquetWriter(file, schema))


def _arrow(file: IO[bytes], blocks: Iterable[Block], target: str) -> int:
    return _write_tables(blocks, target, lambda schema: import_pyarrow().ipc.new_file(file, schema))


def _write_tables(blocks: Iterable[Block], target: str, opened: Callable[[Any], Any]) -> int:
    n_rows, writer = 0, None
    try:
        for table in _tables(blocks, target):
            writer = opened(table.schema) if writer is None else writer
            writer.write_table(table)
            n_rows += table.num_rows
    except BaseException:
        if writer is not None:
            with suppress(Exception):  # it would close itself when the file is closed, and print that it cannot
                writer.close()
        raise
    if writer is None:
        raise InputError("there are no rows: give at least one.")
    writer.close()
    return n_rows


def _npz(file: IO[bytes], blocks: Iterable[Block], target: str) -> int:
    whole = join(list(blocks))
    if isinstance(whole.X, list):
        raise InputError("npz holds numbers, and some columns hold strings: write csv.")
    arrays = {"X": _dense(whole.X)} | ({} if whole.y is None else {"y": np.asarray(whole.y)})
    if any(array.dtype.hasobject for array in arrays.values()):
        raise InputError("npz holds numbers or strings, and these are of several kinds: write csv.")
    buffer = io.BytesIO()  # a zip has positions, which standard output has not
    np.savez(buffer, **arrays)
    file.write(buffer.getbuffer())
    return whole.n_examples


WRITERS: dict[str, Callable[[IO[bytes], Iterable[Block], str], int]] = {
    "svmlight": _svmlight, "csv": _csv, "parquet": _parquet, "arrow": _arrow, "npz": _npz,
}  # fmt: skip
