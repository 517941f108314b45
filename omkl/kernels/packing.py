"""Kernels of one data set computed straight into packed storage.

All Gaussian kernels share the squared differences of each column: the exponents of many kernels on many subsets of
columns are one matrix product, from (kernels, columns) and (columns, pairs of samples).
"""

import numpy as np

from omkl.exceptions import InputError
from omkl.kernels._jit_stack import pack
from omkl.kernels.base import Pair
from omkl.kernels.checks import require_memory
from omkl.kernels.functions import Gaussian, as_kernel

#: Pairs of samples, and kernels, of one block of exponents: 32 MiB in float32.
PAIRS, KERNELS = 2**15, 256
#: Exponents are cut here: smaller kernel values are zero to any sum, and slow where they are subnormal.
SMALLEST_EXPONENT = -80.0


def columns_of(kernel, n_columns):
    """Indices of the columns that a kernel sees.

    Raises
    ------
    omkl.exceptions.InputError
        If ``on`` selects none, or not by position.
    """
    if kernel.on is None:
        return np.arange(n_columns)
    if isinstance(kernel.on, str):
        raise InputError(f"The kernel {kernel.name} is on the view {kernel.on!r}, but the input is one array.")
    try:
        columns = np.arange(n_columns)[kernel.on if isinstance(kernel.on, slice) else list(kernel.on)]
    except (IndexError, TypeError):
        columns = np.arange(0)
    if not len(columns):
        raise InputError(f"The kernel {kernel.name} selects columns {kernel.on!r}, but there are {n_columns}.")
    return columns


def packed_kernels(kernels, X, dtype, part=None):
    """Packed kernels (M, N (N + 1) / 2) of X (N, d); or a part of them, with the bits that they have among all.

    Parameters
    ----------
    kernels : iterable of Kernel or str
    X : array of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    part : range, optional
        The kernels to compute, of step 1; all by default.
    """
    kernels, X = [as_kernel(kernel) for kernel in kernels], np.ascontiguousarray(X, dtype=np.float64)
    part = range(len(kernels)) if part is None else part
    n, d = X.shape
    require_memory(len(part), n, dtype)
    rows = np.empty((len(part), n * (n + 1) // 2), dtype=dtype)
    gaussians = np.array([k for k, kernel in enumerate(kernels) if _is_exponential(kernel)], dtype=np.int64)
    views = {}
    for k in np.setdiff1d(part, gaussians, assume_unique=True).tolist():
        columns = columns_of(kernels[k], d)
        key = columns.tobytes()
        if key not in views:
            # kernels on the same columns tend to follow one another: keep what they share, and nothing else
            views = {key: Pair(view := np.ascontiguousarray(X[:, columns]), view)}
        pack(kernels[k].fit(views[key].X).between(views[key]), 0, rows[k - part.start])
    # blocks of which no kernel is wanted are left out, others are not divided: rounding depends on their shape
    blocks = [gaussians[low : low + KERNELS] for low in range(0, len(gaussians), KERNELS)]
    blocks = [block for block in blocks if block[0] < part.stop and part.start <= block[-1]]
    _pack_gaussians([_exponential(kernels, block, X, rows.dtype) for block in blocks], part, X, rows)
    return rows


def _is_exponential(kernel):
    """Whether a kernel is a multiple of ``exp(widths . squared differences)`` with widths that no data tell."""
    return type(kernel) is Gaussian and kernel.normalize != "diagonal" and kernel.width_ is not None


def _exponential(kernels, block, X, dtype):
    """``(block, widths, scales)`` of the kernels of a block: arrays of shapes (k, d) and (k, 1)."""
    n, d = X.shape
    factors = {None: 1.0, "average": 1.0, "trace": 1.0 / n}
    widths = np.zeros((len(block), d))
    for row, k in zip(widths, block.tolist()):
        np.add.at(row, columns_of(kernels[k], d), -0.5 / kernels[k].width_)
    scales = np.array([[factors[kernels[k].normalize]] for k in block.tolist()])
    return block, widths.astype(dtype), scales.astype(dtype)


def _pack_gaussians(blocks, part, X, rows):
    """``scale exp(widths . squared differences)`` of the kernels of blocks, into the rows of those of ``part``."""
    first_row = 0
    while first_row < len(X) and blocks:
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
