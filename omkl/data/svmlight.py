"""Streams of files in svmlight (LIBSVM) format."""

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from io import BytesIO
from math import isfinite

import numpy as np
from scipy import sparse

from omkl._components import check_number
from omkl.data.blocks import Block
from omkl.data.files import (
    FileName,
    Paths,
    after_last_line,
    check_no_pipe,
    chunks,
    find_files,
    pieces,
)
from omkl.data.streams import BLOCK_SIZE, Skipped, Stream, stream_files
from omkl.exceptions import DamagedFileError

#: Number of bytes to parse at a time.
PIECE = 1 << 20
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
COMMENT = re.compile(rb"#[^\n]*")
#: Column indices have 32 bits.
MOST_FEATURES = (1 << 31) - 1


def stream_svmlight(
    path: Paths,
    n_features: int | None = None,
    *,
    zero_based: bool = False,
    block_size: int = BLOCK_SIZE,
    on_error: str = "raise",
) -> Stream:
    """Stream examples from files in svmlight (LIBSVM) format.

    Each line is an example, ``label index:value index:value ...``, with increasing indices.
    ``qid:...`` and comments after ``#`` are ignored.

    Parameters
    ----------
    path : path-like or list of path-like
        Files, plain or compressed (``.gz``, ``.xz``, ``.bz2``), a directory, or a pattern.
    n_features : int, optional
        Number of columns of X. None reads all files once to find the largest index. Give it if the
        data is large, comes from a pipe, or needs the same number of columns as other data.
    zero_based : bool
        Whether indices start at 0, as :func:`sklearn.datasets.dump_svmlight_file` writes them by
        default. In LIBSVM's data they start at 1.
    block_size : int
        Number of examples in a block.
    on_error : {"raise", "skip"}
        Treatment of invalid lines. Skipped lines are counted in ``skipped``, and a warning at the
        end of a pass gives their number. A truncated or damaged compressed file is read up to the
        damage.

    Returns
    -------
    Stream
        X is a CSR array of shape (n, n_features), y a float64 array.

    Raises
    ------
    omkl.exceptions.DataFileError
        If a file is missing; during a pass, at the first invalid line or if a file is damaged. The
        message names file and line.
    """
    if n_features is not None:
        check_number("n_features", n_features, least=1, most=MOST_FEATURES, integer=True)
    paths = find_files(path)
    if n_features is None:
        for file in paths:
            check_no_pipe(file)
    count = cache(partial(count_svmlight_features, paths, zero_based=zero_based))

    def read(path: FileName, skipped: Skipped) -> Iterator[Block]:
        # invalid lines do not count, and must not fail for a too large index here either
        for block in _read(path, skipped, zero_based, n_features or MOST_FEATURES):
            if n_features is None:
                block.X.resize(len(block.y), count())
            yield block

    return stream_files(paths, read, block_size=block_size, on_error=on_error)


def count_svmlight_features(path: Paths, *, zero_based: bool = False) -> int:
    """Read files in svmlight format to find their number of columns.

    Parameters
    ----------
    path : path-like or list of path-like
    zero_based : bool
        See :func:`stream_svmlight`.

    Returns
    -------
    int
        At least 1. Invalid lines are ignored.
    """
    n_features = 1
    for file in find_files(path):
        with suppress(DamagedFileError):  # the pass over the stream raises it
            for block in _read(file, Skipped(), zero_based, MOST_FEATURES):
                n_features = max(n_features, int(block.X.indices.max(initial=0)) + 1)
    return n_features


def _read(path: FileName, skipped: Skipped, zero_based: bool, n_features: int) -> Iterator[Block]:
    """Yield the examples of a file, piece by piece."""
    first_index = 0 if zero_based else 1
    n_lines = 0
    for text in pieces(chunks(path), PIECE, after_last_line):
        yield _parsed(text, first_index, n_features, path, n_lines, skipped)
        n_lines += text.count(b"\n")


def _parsed(
    text: bytes, first_index: int, n_features: int, path: FileName, n_before: int, skipped: Skipped
) -> Block:
    """Parse the examples of a piece of a file that follows its first ``n_before`` lines."""
    try:
        return _examples(text, first_index, n_features)
    except (ValueError, OverflowError):
        valid = []
        for number, line in enumerate(text.split(b"\n"), n_before + 1):
            try:
                _examples(line, first_index, n_features)
                valid.append(line)
            except (ValueError, OverflowError):
                skipped.refuse(f"{path}, line {number}: {_flaw(line, first_index, n_features)}")
        return _examples(b"\n".join(valid), first_index, n_features)


def _examples(text: bytes, first_index: int, n_features: int) -> Block:
    """Parse examples; raises ValueError or OverflowError if one is invalid."""
    if b"_" in text and b"_" in COMMENT.sub(b"", text):
        raise ValueError  # Python reads 1_0 as 10; in a file it is a mistake
    from sklearn.datasets import load_svmlight_file  # other formats do without scikit-learn

    rows, labels = load_svmlight_file(
        BytesIO(text), n_features=n_features, zero_based=first_index == 0
    )
    if not (np.isfinite(labels).all() and np.isfinite(rows.data).all()):
        raise ValueError
    indices = rows.indices.astype(np.int32)
    indptr = rows.indptr.astype(np.int32)
    X = sparse.csr_array((rows.data, indices, indptr), rows.shape)
    X.has_canonical_format = True
    return Block(X, labels)


def _flaw(line: bytes, first_index: int, n_features: int) -> str:
    """Tell what is wrong with an invalid line."""
    label, *pairs = line.partition(b"#")[0].split()
    if not _is_finite(label):
        return f"{_shown(label)} is not a label: an example begins with a finite number."
    last = -1
    for pair in pairs:
        if pair.startswith(b"qid:"):
            continue  # a query, which only ranking needs
        index, _, number = pair.partition(b":")
        if not index.isdigit() or not _is_finite(number):
            return f"{_shown(pair)} is not index:value with two finite numbers."
        column = int(index[:20]) - first_index
        if column < 0:
            return f"{_shown(pair)} has the index 0, but indices count from 1: set zero_based=True."
        if column >= n_features:
            return f"{_shown(pair)} has an index beyond n_features={n_features}."
        if column <= last:
            break
        last = column
    return f"{_shown(pair)} has an index not larger than the one before."


def _is_finite(number: bytes) -> bool:
    """Tell whether a cell is a finite number."""
    return bool(NUMBER.fullmatch(number)) and isfinite(float(number))


def _shown(token: bytes) -> str:
    """Return the start of a cell in quotes."""
    return repr(token[:80].decode("utf-8", "backslashreplace"))
