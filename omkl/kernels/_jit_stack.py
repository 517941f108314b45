"""Memory-bound passes over packed kernels in float32 or float64, with float64 sums, and checks of
Gram matrices.

A packed kernel stores its lower triangle row by row: entry (i, j), j <= i, is at ``i (i + 1) / 2 +
j``. Sums run over 64 independent lanes, so that the compiler can use vector instructions without
reordering.
"""

import numpy as np

from omkl._compilation import compiled, inner

#: Entries of one block of a long row: 256 KiB of float64, so that vectors shared by all kernels
#: stay in cache.
BLOCK = 32768
LANES = 64
#: Number of rows of a kernel that are multiplied with several vectors while they are in cache.
TILE = 48
#: Entries of a row of each matrix that are copied together from interleaved matrices.
COPIED = 64
#: Smaller numbers, relative to the diagonal, count as 0: their products would be subnormal, which
#: is slow.
TINY = np.float32(1e-12)


@compiled
def dots(rows, which, vector, out):
    """``out[k] = rows[which[k]] . vector``, in blocks of columns."""
    lanes = np.empty(LANES)
    out[:] = 0.0
    for low in range(0, vector.shape[0], BLOCK):
        factors = vector[low : low + BLOCK]
        even = factors.shape[0] // LANES * LANES
        for k in range(which.shape[0]):
            row = rows[which[k]][low : low + BLOCK]
            lanes[:] = 0.0
            for j in range(0, even, LANES):
                for lane in range(LANES):
                    lanes[lane] += row[j + lane] * factors[j + lane]
            total = 0.0
            for lane in range(LANES):
                total += lanes[lane]
            for j in range(even, factors.shape[0]):
                total += row[j] * factors[j]
            out[k] += total


@compiled
def weighted_sum(rows, which, weights, out):
    """``out = sum_k weights[k] rows[which[k]]``, in blocks of columns."""
    out[:] = 0.0
    for low in range(0, out.shape[0], BLOCK):
        sums = out[low : low + BLOCK]
        for k in range(which.shape[0]):
            row, weight = rows[which[k]][low : low + BLOCK], weights[k]
            for j in range(sums.shape[0]):
                sums[j] += weight * row[j]


@compiled
def packed_products(rows, which, vectors, out):
    """``out[k] = K_which[k] vectors[k]``; a single row of ``vectors`` is used for all kernels.

    Process two rows of a kernel at a time, so that the vector and its product are read and written
    once for both.
    """
    n, first, second = vectors.shape[1], np.empty(16), np.empty(16)
    for k in range(which.shape[0]):
        packed, product, vector = rows[which[k]], out[k], vectors[k if vectors.shape[0] > 1 else 0]
        for i in range(0, n, 2):
            start, even, single = i * (i + 1) // 2, i // 16 * 16, i + 1 == n
            above = packed[start : start + i + 1]
            below = above if single else packed[start + i + 1 :][: i + 2]
            upper, lower = vector[i], 0.0 if single else vector[i + 1]
            for lane in range(16):
                first[lane] = second[lane] = 0.0
            for j in range(0, even, 16):
                for lane in range(16):
                    value, x, y = vector[j + lane], above[j + lane], below[j + lane]
                    first[lane] += x * value
                    second[lane] += y * value
                    product[j + lane] += upper * x + lower * y
            total, other = above[i] * upper, 0.0
            for lane in range(16):
                total += first[lane]
                other += second[lane]
            for j in range(even, i):
                total += above[j] * vector[j]
                other += below[j] * vector[j]
                product[j] += upper * above[j] + lower * below[j]
            product[i] = total
            if not single:
                product[i] += below[i] * lower
                product[i + 1] = other + below[i] * upper + below[i + 1] * lower


@compiled
def pack(matrix, out):
    """Write the lower triangle of a symmetric matrix into a packed kernel."""
    position = 0
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            out[position + j] = matrix[i, j]
        position += i + 1


@compiled
def unpack(packed, out):
    """Write the full symmetric matrix of a packed kernel."""
    position = 0
    for i in range(out.shape[0]):
        for j in range(i + 1):
            out[i, j] = out[j, i] = packed[position + j]
        position += i + 1


@compiled
def packed_times_blocks(rows, which, blocks, out):
    """``out[k] = blocks[k] K_which[k]`` for vectors (P, N), or the same ones for all kernels, by
    tiles of rows.

    A tile has a square at the diagonal, and entries to its left, which stand for their mirror
    images as well.
    """
    n = blocks.shape[2]
    for k in range(which.shape[0]):
        packed, block, product = rows[which[k]], blocks[k if blocks.shape[0] > 1 else 0], out[k]
        for low in range(0, n, TILE):
            height, start = min(TILE, n - low), low * (low + 1) // 2
            left, square = np.empty((height, low)), np.empty((height, height))
            for r in range(height):
                before, own = packed[start : start + low], packed[start + low : start + low + r + 1]
                for j in range(low):
                    left[r, j] = before[j]
                for j in range(r + 1):
                    square[r, j] = square[j, r] = own[j]
                start += low + r + 1
            # entries are copied one by one: an assignment of a slice would take seconds to compile
            vectors = np.ascontiguousarray(block[:, low : low + height])
            own = np.dot(vectors, square)
            if low:
                own += np.dot(np.ascontiguousarray(block[:, :low]), left.T)
                mirrored = np.dot(vectors, left)
                for p in range(block.shape[0]):
                    for j in range(low):
                        product[p, j] += mirrored[p, j]
            for p in range(block.shape[0]):
                for r in range(height):
                    product[p, low + r] = own[p, r]


@compiled
def squared_differences(columns, first, last, out):
    """``(columns[c, i] - columns[c, j])^2`` for samples ``first <= i < last`` and j <= i, packed in
    ``out[c]``.
    """
    for c in range(columns.shape[0]):
        column, position = columns[c], 0
        for i in range(first, last):
            value, row = column[i], out[c, position : position + i + 1]
            for j in range(i + 1):
                difference = value - column[j]
                row[j] = difference * difference
            position += i + 1


@compiled
def packed_square(vector, out):
    """``v v'`` packed with its off-diagonal entries doubled: its dot with a packed K is ``v' K v``."""
    position = 0
    for i in range(vector.shape[0]):
        double = 2.0 * vector[i]
        for j in range(i):
            out[position + j] = double * vector[j]
        out[position + i] = vector[i] * vector[i]
        position += i + 1


@compiled
def factor_products(rows, starts, which, vectors, out):
    """``out[k] = F F' vectors[k]``: the columns of F are the rows ``starts[m] .. starts[m + 1]``,
    ``m = which[k]``.
    """
    lanes = np.empty(32)
    n = vectors.shape[1]
    even = n // 32 * 32
    for k in range(which.shape[0]):
        product = out[k]
        vector = vectors[k if vectors.shape[0] > 1 else 0]
        for r in range(starts[which[k]], starts[which[k] + 1]):
            row = rows[r]
            for lane in range(32):
                lanes[lane] = 0.0
            for j in range(0, even, 32):
                for lane in range(32):
                    lanes[lane] += row[j + lane] * vector[j + lane]
            for j in range(even, n):
                lanes[j - even] += row[j] * vector[j]
            total = 0.0
            for lane in range(32):
                total += lanes[lane]
            for j in range(n):
                product[j] += total * row[j]


# ---- checks of Gram matrices ---------------------------------------------------------------------


@compiled
def deinterleave(grams, first, out):
    """Copy the matrices ``first ..`` of an array (N, N, M) to an array (m, N, N)."""
    for i in range(out.shape[1]):
        for low in range(0, out.shape[1], COPIED):
            for m in range(out.shape[0]):
                row, source = out[m, i, low : low + COPIED], grams[i, low : low + COPIED, first + m]
                for j in range(row.shape[0]):
                    row[j] = source[j]


@compiled
def pack_symmetric(gram, largest, rounding, packed):
    """Pack the lower triangle of a matrix; return True if it is symmetric, and no entry is above
    the diagonal's.
    """
    scale, start, n_bad = 0.0, 0, 0
    for i in range(gram.shape[0]):
        scale = max(scale, gram[i, i])
    for i in range(gram.shape[0]):
        row, values, mirrored = packed[start : start + i + 1], gram[i], gram[:, i]
        for j in range(row.shape[0]):
            row[j] = values[j]
            # NaN fails every comparison
            is_good = (abs(values[j]) <= scale * (1.0 + rounding)) & (
                abs(values[j] - mirrored[j]) <= scale * rounding
            )
            n_bad += not is_good
        start += i + 1
    return n_bad == 0 and 0.0 < scale <= largest


@compiled
def prove_semidefinite(rows, n, rounding, proved):
    """Clear ``proved`` of packed matrices (N, N) unless they are positive semidefinite.

    The test is sufficient: a matrix that is not proved may still be a kernel. Half of ``rounding``
    is left for that of single precision.
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


@inner
def factorize(lower):
    """Factorize a matrix in place by its lower triangle, from the last row to the first: Cholesky's
    method.
    """
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
