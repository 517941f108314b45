"""Passes that pack Gram matrices, and prove most of them symmetric and positive semidefinite up to rounding.

They are sufficient tests: a matrix that is not proved may still be a kernel.
"""

import numpy as np

from omkl._compilation import compiled

#: Entries of a row of each matrix that are copied together from interleaved matrices.
TILE = 64
#: Smaller numbers, relative to the diagonal, count as 0: their products would be subnormal, which is slow.
TINY = np.float32(1e-12)


@compiled
def deinterleave(grams, first, out):
    """Copy the matrices ``first ..`` of an array (N, N, M) to an array (m, N, N)."""
    for i in range(out.shape[1]):
        for low in range(0, out.shape[1], TILE):
            for m in range(out.shape[0]):
                row, source = out[m, i, low : low + TILE], grams[i, low : low + TILE, first + m]
                for j in range(row.shape[0]):
                    row[j] = source[j]


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
def prove_semidefinite(rows, n, rounding, proved):
    """Clear ``proved`` of packed matrices (N, N) unless they are positive semidefinite.

    Half of ``rounding`` is left for that of single precision.
    """
    lower = np.empty((n, n), np.float32)
    for m in range(rows.shape[0]):
        packed, scale, start = rows[m], np.float64(0.0), 0
        for i in range(n):
            scale = max(scale, packed[i * (i + 3) // 2])
        for i in range(n if proved[m] else 0):
            row, values, inverse = lower[i, : i + 1], packed[start : start + i + 1], 1.0 / scale
            for j in range(row.shape[0]):
                value = np.float32(values[j] * inverse)
                row[j] = value if abs(value) > TINY else np.float32(0.0)
            row[i] += np.float32(0.5 * rounding)
            start += i + 1
        proved[m] = proved[m] and factorize(lower)


@compiled
def factorize(lower):
    """Factorize a matrix in place by its lower triangle, from the last row to the first: Cholesky's method."""
    n = lower.shape[0]
    for pivot in range(n - 1, -1, -1):
        row = lower[pivot, : pivot + 1]
        for k in range(pivot + 1, n - 3, 4):
            a, b, c, d = lower[k], lower[k + 1], lower[k + 2], lower[k + 3]
            p, q, r, s = a[pivot], b[pivot], c[pivot], d[pivot]
            for j in range(row.shape[0]):
                row[j] -= (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])
        for k in range(n - (n - 1 - pivot) % 4, n):
            a, p = lower[k], lower[k, pivot]
            for j in range(row.shape[0]):
                row[j] -= p * a[j]
        if not row[pivot] > 0.0:
            return False
        factor = np.float32(1.0) / np.sqrt(row[pivot])
        for j in range(row.shape[0]):
            value = factor * row[j]
            row[j] = value if abs(value) > TINY else np.float32(0.0)
    return True
