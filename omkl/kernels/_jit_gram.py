"""Passes that pack Gram matrices, and prove most of them symmetric and positive semidefinite up to rounding.

They are sufficient tests: a matrix that is not proved may still be a kernel.
"""

import numpy as np

from omkl._compilation import compiled

#: Entries of a row that are collected for each of several interleaved matrices.
TILE = 64
#: Rows that an elimination takes together.
PANEL = 8
#: Smaller numbers, relative to the diagonal, count as 0: their products would be subnormal, which is slow.
TINY = np.float32(1e-12)


@compiled
def pack_symmetric(gram, largest, rounding, packed):
    """Pack the lower triangle of a matrix; return True if it is symmetric, and no entry is above the diagonal's."""
    scale, start, n_bad = 0.0, 0, 0
    for i in range(gram.shape[0]):
        scale = max(scale, gram[i, i])
    for i in range(gram.shape[0]):
        row, values, mirrored = packed[start : start + i + 1], gram[i], gram[:, i]
        for j in range(row.shape[0]):
            row[j] = values[j]
            # NaN fails every comparison
            is_good = (abs(values[j]) <= scale * (1.0 + rounding)) & (abs(values[j] - mirrored[j]) <= scale * rounding)
            n_bad += not is_good
        start += i + 1
    return n_bad == 0 and 0.0 < scale <= largest


@compiled
def pack_interleaved(grams, low, largest, rounding, rows, proved):
    """Apply :func:`pack_symmetric` to the matrices ``low ..`` of a C-contiguous array (N, N, M)."""
    n, n_kernels = grams.shape[0], rows.shape[0]
    scales, n_bad, tile = np.zeros(n_kernels), np.zeros(n_kernels, np.int64), np.empty((TILE, n_kernels), rows.dtype)
    for i in range(n):
        scales[:] = np.maximum(scales, grams[i, i, low : low + n_kernels])
    for i in range(n):
        for left in range(0, i + 1, TILE):
            width = min(TILE, i + 1 - left)
            for j in range(width):
                values, mirrored = grams[i, left + j, low:][:n_kernels], grams[left + j, i, low:][:n_kernels]
                collected = tile[j]
                for m in range(n_kernels):
                    collected[m] = values[m]
                    is_small = abs(values[m]) <= scales[m] * (1.0 + rounding)
                    n_bad[m] += not (is_small & (abs(values[m] - mirrored[m]) <= scales[m] * rounding))
            start = i * (i + 1) // 2 + left
            for m in range(n_kernels):
                row = rows[m, start : start + width]
                for j in range(row.shape[0]):
                    row[j] = tile[j, m]
    for m in range(n_kernels):
        proved[m] = n_bad[m] == 0 and 0.0 < scales[m] <= largest


@compiled
def prove_semidefinite(rows, n, rounding, proved):
    """Clear ``proved`` of packed matrices (N, N) unless they are positive semidefinite.

    Half of ``rounding`` is left for that of single precision.
    """
    lower, panel = np.empty((n, n), np.float32), np.empty((PANEL, n), np.float32)
    for m in range(rows.shape[0]):
        if proved[m]:
            packed, scale, start = rows[m], np.float64(0.0), 0
            for i in range(n):
                scale = max(scale, packed[i * (i + 3) // 2])
            inverse = 1.0 / scale
            for i in range(n):
                row, values = lower[i, : i + 1], packed[start : start + i + 1]
                for j in range(row.shape[0]):
                    value = np.float32(values[j] * inverse)
                    row[j] = value if abs(value) > TINY else np.float32(0.0)
                row[i] += np.float32(0.5 * rounding)
                start += i + 1
            proved[m] = _is_definite(lower, panel)


@compiled
def _is_definite(lower, panel):
    """Eliminate the last rows of a lower triangle in turn; return True if what is left stays positive definite."""
    for size in range(lower.shape[0], 0, -PANEL):
        if (lower.shape[0] - size) % (8 * PANEL) == 0 and _dominates(lower, size, panel[0]):
            return True
        for k in range(min(PANEL, size)):
            pivot = size - 1 - k
            row, source = panel[k, : pivot + 1], lower[pivot]
            for j in range(row.shape[0]):
                row[j] = source[j]
            for earlier in range(k):
                own = panel[earlier, : pivot + 1]
                factor = own[pivot]
                for j in range(row.shape[0]):
                    row[j] -= factor * own[j]
            if not row[pivot] > 0.0:
                return False
            factor = np.float32(1.0) / np.sqrt(row[pivot])
            for j in range(row.shape[0]):
                value = factor * row[j]
                row[j] = value if abs(value) > TINY else np.float32(0.0)
        _subtract_squares(lower, size - PANEL, panel)
    return True


@compiled
def _subtract_squares(lower, size, panel):
    """Subtract the outer products of the rows of a panel from the first ``size`` rows of a lower triangle."""
    p0, p1, p2, p3, p4, p5, p6, p7 = panel[0], panel[1], panel[2], panel[3], panel[4], panel[5], panel[6], panel[7]
    for i in range(size):
        row = lower[i, : i + 1]
        f0, f1, f2, f3, f4, f5, f6, f7 = p0[i], p1[i], p2[i], p3[i], p4[i], p5[i], p6[i], p7[i]
        for j in range(row.shape[0]):
            first = f0 * p0[j] + f1 * p1[j] + f2 * p2[j] + f3 * p3[j]
            row[j] -= first + (f4 * p4[j] + f5 * p5[j] + f6 * p6[j] + f7 * p7[j])


@compiled
def _dominates(lower, size, sums):
    """Return True if the smallest diagonal entry is above the Frobenius norm of all other entries."""
    sums[:size] = 0.0
    smallest = lower[0, 0]
    for i in range(size):
        row = lower[i, :i]
        smallest = min(smallest, lower[i, i])
        for j in range(row.shape[0]):
            sums[j] += row[j] * row[j]
    return smallest > 0.0 and 2.0 * sums[:size].sum() < smallest * smallest
