"""Kernels of one data set computed straight into packed storage.

All Gaussian kernels share the squared differences of each column: the exponents of many kernels on many subsets of
columns are one matrix product, from (kernels, columns) and (columns, pairs of samples).
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omkl.kernels._jit_stack import pack
from omkl.kernels.checks import require_memory
from omkl.kernels.functions import Gaussian, KernelSpec, as_kernel
from omkl.kernels.inputs import Pair, Vectors, take_columns

#: Pairs of samples, and kernels, of one block of exponents: 32 MiB in float32.
PAIRS, KERNELS = 2**15, 256
#: Exponents are cut here: smaller kernel values are zero to any sum, and slow where they are subnormal.
SMALLEST_EXPONENT = -80.0
#: Larger factors of squared differences might overflow in single precision.
STEEPEST = 1e30


def packed_kernels(
    kernels: Iterable[KernelSpec], X: Vectors, dtype: DTypeLike, part: range | None = None
) -> np.ndarray:
    """Packed kernels (M, N (N + 1) / 2) of X (N, d); or a part of them, with the bits that they have among all.

    Parameters
    ----------
    kernels : iterable of Kernel or str
        They are fitted to X; their columns are by position.
    X : array or CSR matrix of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    part : range, optional
        The kernels to compute, of step 1; all by default.
    """
    kernels = [as_kernel(kernel) for kernel in kernels]
    X = X if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    part = range(len(kernels)) if part is None else part
    n, d = X.shape
    require_memory(len(part), n, dtype)
    rows = np.empty((len(part), n * (n + 1) // 2), dtype=dtype)
    together = [k for k, kernel in enumerate(kernels) if _is_exponential(kernel) and not sparse.issparse(X)]
    gaussians = np.array(together, dtype=np.int64)
    views = {}
    for k in np.setdiff1d(part, gaussians, assume_unique=True).tolist():
        columns = kernels[k].columns(d)
        key = repr(columns)
        if key not in views:
            # kernels on the same columns tend to follow one another: keep what they share, and nothing else
            view = take_columns(X, columns)
            views = {key: Pair(view := view if sparse.issparse(view) else np.ascontiguousarray(view), view)}
        pack(kernels[k].fit_view(views[key].X).between(views[key]), 0, rows[k - part.start])
    # blocks of which no kernel is wanted are left out, others are not divided: rounding depends on their shape
    blocks = [gaussians[low : low + KERNELS] for low in range(0, len(gaussians), KERNELS)]
    blocks = [block for block in blocks if block[0] < part.stop and part.start <= block[-1]]
    _pack_gaussians([_exponential(kernels, block, X, rows.dtype) for block in blocks], part, X, rows)
    return rows


def _is_exponential(kernel: object) -> bool:
    """Whether a kernel is a multiple of ``exp(widths . squared differences)`` with widths that no data tell."""
    return type(kernel) is Gaussian and kernel.normalize != "diagonal" and kernel.width_ is not None


def _exponential(kernels, block, X, dtype):
    """``(block, widths, scales)`` of the kernels of a block: arrays of shapes (k, d) and (k, 1)."""
    n, d = X.shape
    factors = {None: 1.0, "average": 1.0, "trace": 1.0 / n}
    widths = np.zeros((len(block), d))
    for row, k in zip(widths, block.tolist()):
        columns = kernels[k].columns(d)
        np.add.at(row, np.arange(d) if columns is None else np.arange(d)[np.r_[columns]], -0.5 / kernels[k].width_)
    # in units in which no difference overflows in single precision; widths that do make exponents without bottom
    widths = np.maximum(widths * np.square(_units(X)), -STEEPEST)
    scales = np.array([[factors[kernels[k].normalize]] for k in block.tolist()])
    return block, widths.astype(dtype), scales.astype(dtype)


def _units(X):
    """A power of two for each column of X: its largest distance from the first row, rounded; 1 where that is 0."""
    largest = np.abs(X - X[:1]).max(axis=0, initial=0.0)
    return 2.0 ** np.round(np.log2(largest, out=np.zeros_like(largest), where=largest > 0.0))


def _pack_gaussians(blocks, part, X, rows):
    """``scale exp(widths . squared differences)`` of the kernels of blocks, into the rows of those of ``part``."""
    if not blocks:
        return
    first_row, X = 0, X / _units(X)
    while first_row < len(X):
        # whole rows of the triangle, about PAIRS entries
        last_row = first_row + 1
        while last_row < len(X) and _start(last_row + 1) - _start(first_row) <= PAIRS:
            last_row += 1
        i = np.repeat(np.arange(first_row, last_row), np.arange(first_row + 1, last_row + 1))
        j = np.arange(len(i)) - (_start(i) - _start(first_row))
        differences = (np.square(X[i] - X[j]).T).astype(rows.dtype, order="C")
        for block, widths, scales in blocks:
            chosen = (part.start <= block) & (block < part.stop)
            exponents = widths @ differences
            exponents = exponents if chosen.all() else exponents[chosen]
            np.maximum(exponents, SMALLEST_EXPONENT, out=exponents)
            np.exp(exponents, out=exponents)
            exponents *= scales[chosen]
            rows[block[chosen] - part.start, _start(first_row) : _start(last_row)] = exponents
        first_row = last_row


def _start(row):
    return row * (row + 1) // 2
