"""Streams of files in svmlight's format, also known as LIBSVM's."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy import sparse

from omkl.data.blocks import Block, take
from omkl.data.file_streams import stream_files
from omkl.data.files import PathLike, after_last_line, check_no_pipe, chunks, find_files, pieces
from omkl.data.streams import BLOCK_SIZE, N_REASONS, Skipped, Stream
from omkl.data.tables import _jit_svmlight as jit
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Bytes of text that are parsed at a time.
PIECE = 1 << 20
#: Indices of columns have 32 bits.
MOST_FEATURES = (1 << 31) - 1


def stream_svmlight(
    path: PathLike | Sequence[PathLike],
    n_features: int | None = None,
    *,
    zero_based: bool = False,
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream examples in svmlight's format, also known as LIBSVM's.

    A line is an example, ``label index:value index:value ...``, with increasing indices. ``qid:...`` and comments
    after ``#`` are ignored. This reader takes about an eighth of the time of
    :func:`sklearn.datasets.load_svmlight_file`.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    n_features : int, optional
        Number of columns of X. None reads all files once to find the largest index: give it if the data is large,
        comes from a pipe, or needs the columns of other data.
    zero_based : bool
        Whether indices count from 0. LIBSVM's count from 1.
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        Treatment of lines that are no example. Skipped lines are counted in ``skipped``; a warning at the end of a
        pass tells their number. A compressed file that is cut short or damaged is read up to there.

    Returns
    -------
    Stream
        X is a CSR array of shape (n, n_features), y a float64 array.

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, at the first line that is no example, or if a file is damaged.
        The message names file and line.
    """
    if n_features is not None and not 1 <= n_features <= MOST_FEATURES:
        raise InputError(f"`n_features` must be from 1 to {MOST_FEATURES}, got {n_features}.")
    paths = find_files(path)
    if n_features is None:
        for file in paths:
            check_no_pipe(file)
    n_counted = n_features

    def read(path: Path, skipped: Skipped) -> Iterator[Block]:
        nonlocal n_counted
        if n_counted is None:
            n_counted = count_svmlight_features(paths, zero_based=zero_based)
        # without n_features, an index is never too large: lines that are wrong otherwise did not count
        most = MOST_FEATURES if n_features is None else n_features
        for block in _read(path, skipped, 0 if zero_based else 1, most):
            if n_features is None:
                if int(block.X.indices.max(initial=0)) >= n_counted:
                    raise DataFileError(f"{path} has changed since its features were counted.")
                block.X.resize(len(block.y), n_counted)
            yield block

    return stream_files(paths, read, block_size=block_size, on_error=on_error)


def count_svmlight_features(path: PathLike | Sequence[PathLike], *, zero_based: bool = False) -> int:
    """Count the columns that files in svmlight's format need, by reading them.

    Parameters
    ----------
    path : path-like or list of path-like
    zero_based : bool
        See :func:`stream_svmlight`.

    Returns
    -------
    int
        At least 1. Lines that are no example do not count.
    """
    n_features = 1
    for file in find_files(path):
        try:
            for block in _read(file, Skipped(), 0 if zero_based else 1, MOST_FEATURES):
                n_features = max(n_features, int(block.X.indices.max(initial=0)) + 1)
        except DamagedFileError:
            pass  # the pass over the stream raises it
    return n_features


def _read(path: PathLike, skipped: Skipped, first_index: int, n_features: int) -> Iterator[Block]:
    n_lines = 0
    for text in pieces(chunks(path), PIECE, after_last_line, path):
        yield _parsed(text, first_index, n_features, path, n_lines, skipped)
        n_lines += text.count(b"\n")


def _parsed(text: bytes, first_index: int, n_features: int, path: PathLike, n_before: int, skipped: Skipped) -> Block:
    """Parse the examples of a text that comes after ``n_before`` lines of a file."""
    text = text if text.endswith(b"\n") else text + b"\n"
    n_lines, n_colons = text.count(b"\n"), text.count(b":")
    labels, pointers = np.empty(n_lines), np.empty(n_lines + 1, np.int32)
    indices, values = np.empty(n_colons, np.int32), np.empty(n_colons)
    bad, slow = np.empty((n_lines, 3), np.int64), np.empty((n_lines + n_colons, 3), np.int64)
    data = np.frombuffer(text, np.uint8)
    n, n_values, _, n_bad, n_slow = jit.parse(
        data, first_index, n_features, labels, pointers, indices, values, bad, slow
    )
    for line, problem, place in bad[: min(n_bad, N_REASONS)].tolist():
        reason = _MESSAGES[problem].format(token=_token(text, place), n_features=n_features)
        skipped.refuse(f"{path}, line {n_before + line}: {reason}")
    skipped.note(max(0, n_bad - N_REASONS), [])
    infinite = _read_slow(text, slow[:n_slow], labels, values, pointers[: n + 1])
    for begin in infinite.values():
        line = n_before + text.count(b"\n", 0, begin) + 1
        skipped.refuse(f"{path}, line {line}: {_token(text, begin)} is too large for a float.")
    X = sparse.csr_array((values[:n_values], indices[:n_values], pointers[: n + 1]), (n, n_features))
    X.has_canonical_format = True
    block = Block(X, labels[:n])
    return take(block, np.delete(np.arange(n), list(infinite))) if infinite else block


def _read_slow(
    text: bytes, slow: np.ndarray, labels: np.ndarray, values: np.ndarray, pointers: np.ndarray
) -> dict[int, int]:
    """Parse the numbers that compiled code cannot round for sure; the place of an infinite one, by row."""
    places, begins = slow[:, 0], slow[:, 1]
    numbers = np.array([float(text[begin:end]) for _, begin, end in slow.tolist()])
    is_value, is_infinite = places >= 0, ~np.isfinite(numbers)
    values[places[is_value]] = numbers[is_value]
    labels[-1 - places[~is_value]] = numbers[~is_value]
    rows = np.where(is_value, np.searchsorted(pointers, places, side="right") - 1, -1 - places)[is_infinite]
    rows, first = np.unique(rows, return_index=True)
    return dict(zip(rows.tolist(), begins[is_infinite][first].tolist()))


_MESSAGES = {
    jit.BAD_LABEL: "{token} is no label: an example begins with a number.",
    jit.BAD_PAIR: "{token} is no index:value of two numbers.",
    jit.BAD_ORDER: "the index of {token} is not larger than the one before.",
    jit.TOO_SMALL: "the index of {token} is 0, but indices count from 1: read the file with zero_based=True.",
    jit.TOO_LARGE: "the index of {token} is beyond n_features={n_features}.",
}


def _token(text: bytes, place: int) -> str:
    return repr(text[place : place + 80].split(None, 1)[0].decode("utf-8", "backslashreplace"))
