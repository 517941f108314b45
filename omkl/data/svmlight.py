"""Streams of svmlight's format, which LIBSVM's data sets are in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from omkl.data import _jit_svmlight as jit
from omkl.data.file_streams import N_REASONS, Skipped, StreamFormat, stream_files
from omkl.data.files import PathLike, after_last_line, check_no_pipe, chunks, find_files, pieces, without_mark
from omkl.data.rows import Block, take
from omkl.data.streams import BLOCK_SIZE, Stream
from omkl.exceptions import DamagedFileError, DataFileError, InputError

#: Bytes of text that are parsed at a time.
PIECE = 1 << 20
#: Columns have 32 bits.
MOST_FEATURES = (1 << 31) - 1


def stream_svmlight(
    path: PathLike | Sequence[PathLike], n_features: int | None = None, *, zero_based: bool = False,
    block_size: int = BLOCK_SIZE, on_error: str = "raise",
) -> Stream:  # fmt: skip
    """Stream examples in svmlight's format, also known as LIBSVM's.

    A line is an example, ``label index:value index:value ...``, with indices in rising order; what follows ``#`` is a
    comment, and ``qid:...`` is passed over. Values are the floats nearest to what is written.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    n_features : int, optional
        Columns of X. None reads all files once to find the largest index: give it where the data is large, comes
        from a pipe, or must have the columns of other data.
    zero_based : bool
        Whether indices count from 0; LIBSVM's count from 1. scikit-learn's "auto" looks for an index 0 in all of the
        data before it decides, which a stream cannot do.
    block_size : int
        Examples in a block.
    on_error : {"raise", "skip"}
        What to do with lines that are no example. Skipped ones are counted in ``skipped``, and a warning at the end
        of a pass says how many they were. A compressed file that is cut short or damaged is read up to there.

    Returns
    -------
    Stream
        X is a CSR array of shape (n, n_features), y a float64 array.

    Raises
    ------
    omkl.exceptions.DataFileError
        At once if a file is missing; while it is read, at the first line that is no example, or where a file is cut
        short or damaged. The message names file and line.
    """
    first_index = 0 if zero_based else 1
    if n_features is not None and not 1 <= n_features <= MOST_FEATURES:
        raise InputError(f"n_features is a number from 1 to {MOST_FEATURES}, not {n_features}.")
    paths = find_files(path)
    if n_features is None:
        for file in paths:
            check_no_pipe(file, "without n_features files are read twice")

    n_counted = None

    def read(path, skipped):
        nonlocal n_counted
        if n_features is not None:
            yield from _read(path, skipped, first_index, n_features)
            return
        if n_counted is None:
            n_counted = count_svmlight_features(paths, zero_based=zero_based)
        # lines that are wrong did not count: it is said what is wrong with them, not that their indices are too large
        for block in _read(path, skipped, first_index, MOST_FEATURES):
            X = block.X
            if int(X.indices.max(initial=0)) >= n_counted:
                raise DataFileError(f"{path} has changed while it was read: read it again.")
            X.resize(len(block.y), n_counted)
            yield block

    return stream_files(paths, read, block_size=block_size, on_error=on_error)


def count_svmlight_features(path: PathLike | Sequence[PathLike], *, zero_based: bool = False) -> int:
    """The columns that files in svmlight's format need, found by reading them; lines that are wrong do not count."""
    n_features = 1
    for file in find_files(path):
        try:
            for block in _read(file, Skipped(), 0 if zero_based else 1, MOST_FEATURES):
                n_features = max(n_features, int(block.X.indices.max(initial=0)) + 1)
        except DamagedFileError:
            pass  # whoever reads the file is told
    return n_features


def _read(path, skipped, first_index, n_features):
    n_lines = 0
    for text in pieces(without_mark(chunks(path))[0], PIECE, after_last_line, path):
        block, more_lines = _parse(text, first_index, n_features, path, n_lines, skipped)
        n_lines += more_lines
        yield block


def _parse(text, first_index, n_features, path, n_before, skipped):
    """The examples of a text, and its number of lines."""
    text = text if text.endswith(b"\n") else text + b"\n"
    n_lines, n_colons = text.count(b"\n"), text.count(b":")
    labels, pointers = np.empty(n_lines), np.empty(n_lines + 1, np.int32)
    indices, values = np.empty(n_colons, np.int32), np.empty(n_colons)
    bad, slow = np.empty((n_lines, 3), np.int64), np.empty((n_lines + n_colons, 3), np.int64)
    data = np.frombuffer(text, np.uint8)
    n, n_values, _, n_bad, n_slow = jit.parse(
        data, first_index, n_features, labels, pointers, indices, values, bad, slow
    )
    for line, wrong, place in bad[: min(n_bad, N_REASONS)].tolist():
        skipped.refuse(f"{path}, line {n_before + line}: {_explain(text, wrong, place, n_features)}")
    skipped.note(max(0, n_bad - N_REASONS), [])
    infinite = _read_slow(text, slow[:n_slow], labels, values, pointers[: n + 1])
    skipped.note(max(0, len(infinite) - N_REASONS), [])
    for begin in list(infinite.values())[:N_REASONS]:
        line = n_before + text.count(b"\n", 0, begin) + 1
        skipped.refuse(f"{path}, line {line}: {_token(text, begin)} is too large for a float.")
    X = sparse.csr_array((values[:n_values], indices[:n_values], pointers[: n + 1]), (n, n_features))
    X.has_canonical_format = True
    block = Block(X, labels[:n])
    return take(block, np.delete(np.arange(n), list(infinite))) if infinite else block, n_lines


def _read_slow(text, slow, labels, values, pointers):
    """Read the numbers that were left to a slower method; where each row with one beyond the floats has it."""
    places, begins = slow[:, 0], slow[:, 1]
    numbers = np.array([float(text[begin:end]) for _, begin, end in slow.tolist()])
    is_value, is_infinite = places >= 0, ~np.isfinite(numbers)
    values[places[is_value]] = numbers[is_value]
    labels[-1 - places[~is_value]] = numbers[~is_value]
    rows = np.where(is_value, np.searchsorted(pointers, places, side="right") - 1, -1 - places)[is_infinite]
    rows, first = np.unique(rows, return_index=True)
    return dict(zip(rows.tolist(), begins[is_infinite][first].tolist()))


def _explain(text, wrong, place, n_features):
    token = _token(text, place)
    if wrong == jit.BAD_LABEL:
        return f"{token} is no label: an example begins with a number."
    if wrong == jit.BAD_PAIR:
        return f"{token} is no index:value of two numbers."
    if wrong == jit.BAD_ORDER:
        return f"the index of {token} is not larger than the one before: sort the indices, and give each once."
    if wrong == jit.TOO_SMALL:
        return f"the index of {token} is 0, but indices count from 1: read the file with zero_based=True."
    return f"the index of {token} is beyond n_features={n_features}: declare as many as there are."


def _token(text, place):
    return repr(text[place : place + 80].split(None, 1)[0].decode("utf-8", "backslashreplace"))


class Svmlight(StreamFormat):
    """svmlight's format: see :func:`stream_svmlight`."""

    aliases = {"svmlight": {}}
    suffixes = (".svm", ".svmlight", ".libsvm")
    open = staticmethod(stream_svmlight)  # type: ignore[assignment]  # options of its own

    def options_for(
        self, n_features: int | None, names: Sequence[str] | None, text: Sequence[str] = ()
    ) -> dict[str, Any]:
        """As many columns."""
        return {"n_features": n_features}
