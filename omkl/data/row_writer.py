"""Writing rows with one output each: svmlight's format, CSV, or numpy's."""

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from typing import IO, Any

import numpy as np
from scipy import sparse

from omkl.data.files import PathLike, output_file
from omkl.data.rows import Block, join
from omkl.exceptions import InputError

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
    format : {"svmlight", "csv", "npz"}
        ``svmlight`` holds numbers alone, ``csv`` also strings, with a first line of names; ``npz`` arrays ``X`` and
        ``y``, for which all rows are held at once. Sparse rows with more than 10,000 columns are for svmlight.
    target : str, optional
        What the column of the outputs is called in ``csv``, the last one; "y" by default.

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
    """
    if format not in WRITERS:
        raise InputError(f"Unknown format {format!r}: choose one of {', '.join(WRITERS)}.")
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
            names = _names(block, X)
            if target in names and block.y is not None:
                raise InputError(f"a column is called {target!r}, as that of the outputs: choose another target.")
            writer.writerow([*names, *([] if block.y is None else [target])])
        rows = ([row.get(name) for name in names] for row in X) if isinstance(X, list) else X.tolist()
        if block.y is not None:
            rows = ([*row, label] for row, label in zip(rows, _outputs(block, "fiubUO", "outputs are of no such kind")))
        writer.writerows(map(_cells, rows))
        file.write(text.getvalue().encode())
        n_rows += block.n_examples
    return n_rows


def _names(block: Block, X: Any) -> Sequence[str]:
    if block.feature_names is not None:
        return [str(name) for name in block.feature_names]
    return list(X[0]) if isinstance(X, list) else [f"x{j}" for j in range(X.shape[1])]


def _cells(row: Iterable[Any]) -> list[Any]:
    """Cells as text; what is missing is an empty one."""
    return ["" if value is None or value != value else _number(value) if isinstance(value, float) else value
            for value in row]  # fmt: skip


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
    "svmlight": _svmlight, "csv": _csv, "npz": _npz,
}  # fmt: skip
