"""Writing rows with one output each: svmlight's format, CSV, Parquet, Arrow, or NumPy's archives."""

import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from omkl.data.blocks import Block, join
from omkl.data.files import OPENERS, PathLike, output_file
from omkl.data.tables.columns import import_pyarrow
from omkl.exceptions import InputError

#: Blocks that are held until every column has a value; columns without any are numbers.
MOST_WAITING = 64
#: Sparse rows with more columns are not written densely.
MOST_DENSE = 10_000


def write_rows(path: PathLike, blocks: Iterable[Block], format: str, target: str | None = None) -> int:
    """Write rows, block by block.

    Parameters
    ----------
    path : path-like
        Compressed if it ends in ``.gz``, ``.xz`` or ``.bz2``; ``"-"`` is standard output.
    blocks : iterable of Block
        Such as ``Stream.blocks()``.
    format : {"svmlight", "csv", "parquet", "arrow", "npz"}
        ``svmlight`` holds numbers only; ``csv``, ``parquet`` and ``arrow`` (Feather) also strings, and the names of
        columns; ``npz`` arrays ``X`` and ``y``, for which all rows are held at once. Sparse rows with more than 10,000
        columns need svmlight.
    target : str, optional
        Name of the column of the outputs, the last one; "y" by default.

    Returns
    -------
    int
        Number of rows.

    Raises
    ------
    omkl.exceptions.InputError
        If the format cannot hold them; the file stays what it was.
    omkl.exceptions.OutputFileError
        If the file cannot be written.
    omkl.exceptions.MissingDependencyError
        For CSV, Parquet or Arrow without pyarrow.
    """
    if format not in WRITERS:
        raise InputError(f"`format` must be one of {', '.join(map(repr, WRITERS))}, got {format!r}.")
    if format in ("parquet", "arrow") and Path(path).suffix in OPENERS:
        raise InputError(f"{path}: {format} is compressed by itself: leave out {Path(path).suffix}.")
    with output_file(path) as file:
        return WRITERS[format](file, blocks, target or "y")


def _write_svmlight(file: IO[bytes], blocks: Iterable[Block], target: str) -> int:
    n_rows = 0
    for block in blocks:
        if isinstance(block.X, list) or np.asarray(block.X[:0].data).dtype.kind not in "fiub":
            raise InputError("svmlight holds numbers, and some columns hold strings: write csv.")
        y = _outputs(block)
        if y.dtype.kind not in "fiub":
            raise InputError("svmlight holds numbers, and the outputs are others: write csv.")
        X = sparse.csr_array(block.X)
        indices, values = (X.indices + 1).tolist(), X.data.tolist()
        for label, low, high in zip(y.tolist(), X.indptr[:-1].tolist(), X.indptr[1:].tolist()):
            pairs = (f"{j}:{_number(v)}" for j, v in zip(indices[low:high], values[low:high]))
            file.write(" ".join([_number(label), *pairs]).encode() + b"\n")
        n_rows += block.n_examples
    return n_rows


def _number(value: float) -> str:
    """The shortest decimals that are read as this number."""
    return str(int(value)) if isinstance(value, int) else repr(value).removesuffix(".0")


def _outputs(block: Block) -> np.ndarray:
    if block.y is None:
        raise InputError("there are no outputs: say with target= (--target) where they are.")
    y = np.asarray(block.y)
    if y.ndim != 1:
        raise InputError("there are several outputs a row: write npz.")
    return y


def _dense(X: Any) -> Any:
    if not sparse.issparse(X):
        return X
    if X.shape[1] > MOST_DENSE:
        raise InputError(f"the rows are sparse, and have {X.shape[1]} columns: write svmlight.")
    return X.toarray()


def _names(block: Block, X: Any, target: str) -> list[str]:
    if block.feature_names is not None:
        names = [str(name) for name in block.feature_names]
    else:
        names = list(X[0]) if isinstance(X, list) else [f"x{j}" for j in range(X.shape[1])]
    if target in names and block.y is not None:
        raise InputError(f"a column is called {target!r}, as that of the outputs: choose another target.")
    return names


def _tables(blocks: Iterable[Block], target: str) -> Iterator[Any]:
    """Tables of Arrow, all of one schema; what is missing is null."""
    pyarrow, names, schema = import_pyarrow(), None, None
    waiting: list[Any] = []
    for block in blocks:
        X = _dense(block.X)
        names = _names(block, X, target) if names is None else names
        columns = [[row.get(name) for row in X] for name in names] if isinstance(X, list) else list(np.asarray(X).T)
        if block.y is not None:
            columns.append(_outputs(block))
        try:
            arrays = [pyarrow.array(own, from_pandas=True) for own in columns]
            waiting.append(pyarrow.table(arrays, names=[*names, target][: len(columns)]))
            schema = pyarrow.unify_schemas([schema or waiting[-1].schema, waiting[-1].schema])
        except (ValueError, TypeError) as error:  # also pyarrow's own
            raise InputError(f"a column holds values of several kinds ({error}).") from None
        empty = [k for k, own in enumerate(schema) if pyarrow.types.is_null(own.type)]
        if len(waiting) == MOST_WAITING:
            for k in empty:
                schema = schema.set(k, schema.field(k).with_type(pyarrow.float64()))
        if not empty or len(waiting) == MOST_WAITING:
            yield from (own.cast(schema) for own in waiting)
            waiting = []
    yield from (own.cast(schema) for own in waiting)


def _write_tables(file: IO[bytes], blocks: Iterable[Block], target: str, format: str) -> int:
    n_rows, writer = 0, None
    try:
        for table in _tables(blocks, target):
            writer = _writer(file, table.schema, format) if writer is None else writer
            writer.write_table(table)
            n_rows += table.num_rows
    except BaseException:
        if writer is not None:
            with suppress(Exception):  # or it would close itself after the file, and print an error
                writer.close()
        raise
    if writer is None:
        raise InputError("there are no rows: give at least one.")
    writer.close()
    return n_rows


def _writer(file: IO[bytes], schema: Any, format: str) -> Any:
    pyarrow = import_pyarrow()
    if format == "parquet":
        from pyarrow import parquet

        return parquet.ParquetWriter(file, schema)
    if format == "arrow":
        return pyarrow.ipc.new_file(file, schema)
    return pyarrow.csv.CSVWriter(file, schema, write_options=pyarrow.csv.WriteOptions(quoting_style="needed"))


def _write_npz(file: IO[bytes], blocks: Iterable[Block], target: str) -> int:
    whole = join(list(blocks))
    if isinstance(whole.X, list):
        raise InputError("npz holds numbers, and some columns hold strings: write csv.")
    arrays = {"X": _dense(whole.X)} | ({} if whole.y is None else {"y": np.asarray(whole.y)})
    if any(array.dtype.hasobject for array in arrays.values()):
        raise InputError("npz holds numbers or strings, and these are of several kinds: write csv.")
    buffer = io.BytesIO()  # standard output has no positions
    np.savez(buffer, **arrays)
    file.write(buffer.getbuffer())
    return whole.n_examples


WRITERS: dict[str, Callable[[IO[bytes], Iterable[Block], str], int]] = {
    "svmlight": _write_svmlight,
    "npz": _write_npz,
    **{format: partial(_write_tables, format=format) for format in ("csv", "parquet", "arrow")},
}
