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
    gaussians, widths, scales = [], [], []
    views = {}
    for k, kernel in enumerate(kernels, start=-part.start):
        columns = columns_of(kernel, d)
        key = columns.tobytes()
        if type(kernel) is Gaussian and kernel.normalize != "diagonal" and kernel.width_ is not None:
            exponents = np.zeros(d)
            np.add.at(exponents, columns, -0.5 / kernel.width_)
            gaussians.append(k)
            widths.append(exponents)
            scales.append({None: 1.0, "average": 1.0, "trace": 1.0 / n}[kernel.normalize])
            continue
        if not 0 <= k < len(part):
            continue
        if key not in views:
            # kernels on the same columns tend to follow one another: keep what they share, and nothing else
            views = {key: Pair(view := np.ascontiguousarray(X[:, columns]), view)}
        pack(kernel.fit(views[key].X).between(views[key]), 0, rows[k])
    if gaussians:
        _pack_gaussians(np.array(widths), np.array(scales), X, np.array(gaussians), rows)
    return rows


def _pack_gaussians(widths, scales, X, places, rows):
    """``scale exp(width . squared differences)`` for each row of ``widths`` (k, d), into ``rows[places]``.

    Places outside the rows are left out, but not of the products, whose rounding depends on their shape.
    """
    wanted = (places >= 0) & (places < len(rows))
    first_row = 0
    while first_row < len(X):
        # whole rows of the triangle, about PAIRS entries
        last_row = first_row + 1
        while last_row < len(X) and _start(last_row + 1) - _start(first_row) <= PAIRS:
            last_row += 1
        i = np.repeat(np.arange(first_row, last_row), np.arange(first_row + 1, last_row + 1))
        j = np.arange(len(i)) - (_start(i) - _start(first_row))
        differences = (np.square(X[i] - X[j]).T).astype(rows.dtype, order="C")
        for low in range(0, len(places), KERNELS):
            block = slice(low, low + KERNELS)
            chosen = wanted[block]
            if not chosen.any():
                continue
            exponents = widths[block].astype(rows.dtype) @ differences
            exponents = exponents if chosen.all() else exponents[chosen]
            np.maximum(exponents, SMALLEST_EXPONENT, out=exponents)
            np.exp(exponents, out=exponents)
            exponents *= scales[block][chosen, None].astype(rows.dtype)
            rows[places[block][chosen], _start(first_row) : _start(last_row)] = exponents
        first_row = last_row


def _start(row):
    return row * (row + 1) // 2
