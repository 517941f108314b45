"""Files for tests of streams, and checks that all streams must pass."""

import bz2
import gzip
import lzma
import tracemalloc
from itertools import chain

import numpy as np
from scipy import sparse

from omkl.data import Sentence, Treebank

COMPRESSIONS = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def write(path, text):
    """Write a text, compressed as the suffix says."""
    data = text.encode() if isinstance(text, str) else text
    path.write_bytes(COMPRESSIONS.get(path.suffix, bytes)(data))
    return path


def cut_short(path):
    """Leave the first two thirds of a file."""
    data = path.read_bytes()
    path.write_bytes(data[: 2 * len(data) // 3])
    return path


def damage(path):
    """Change bytes in the middle of a file."""
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    for i in range(middle, middle + 20):
        data[i] ^= 0x5A
    path.write_bytes(data)
    return path


def read_all(stream, epoch=0):
    """Return all inputs and outputs of a stream, and check the sizes of its blocks."""
    blocks = list(stream.blocks(epoch))
    sizes = [block.n_examples for block in blocks]
    assert sizes[:-1] == [stream.block_size] * (len(sizes) - 1)
    X = [block.X for block in blocks]
    if sparse.issparse(X[0]):
        X = sparse.vstack(X, format="csr")
    elif isinstance(X[0], np.ndarray):
        X = np.concatenate(X)
    else:
        X = list(chain.from_iterable(X))
    y = [block.y for block in blocks]
    if y[0] is None:
        y = None
    elif isinstance(y[0], np.ndarray):
        y = np.concatenate(y)
    else:
        y = list(chain.from_iterable(y))
    return X, y


def peak_memory(stream):
    """Return the peak of bytes allocated by Python, numpy and Arrow, the smaller of two passes."""
    return min(_peak_of_pass(stream) for _ in range(2))


def _peak_of_pass(stream):
    import pyarrow

    next(stream.blocks())
    arrow = 0
    tracemalloc.start()
    for _ in stream.blocks():
        arrow = max(arrow, pyarrow.total_allocated_bytes())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak + arrow


def listed(X, y):
    """Pairs of inputs and outputs that can be compared."""
    if isinstance(X, Treebank) or (isinstance(X, list) and X and isinstance(X[0], Sentence)):
        X = [sentence.__getstate__() for sentence in X]
    rows = X.toarray() if sparse.issparse(X) else X
    rows = (
        np.where(np.isnan(rows), None, rows).tolist()
        if isinstance(rows, np.ndarray)
        else list(rows)
    )
    return list(zip(rows, [None] * len(rows) if y is None else list(y)))
