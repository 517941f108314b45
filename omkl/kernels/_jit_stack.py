"""Memory-bound passes over packed kernels with float64 sums, and checks of Gram matrices.

Kernels are in float32 or float64. ``rows`` (M, N (N + 1) / 2) holds a packed kernel in each row;
``which`` (k,) are the indices of the kernels to use, and ``vectors`` (1, N) or (k, N) one vector
for all of them, or one for each.

A packed kernel stores its lower triangle row by row: entry (i, j), j <= i, is at ``i (i + 1) / 2 +
j``. Sums run over 64 independent lanes, so that the compiler can use vector instructions without
reordering.
"""

import numpy as np

from omkl._compilation import borrowing, compiled, inner

#: Entries of one block of a long row: 256 KiB of float64, so that vectors shared by all kernels
#: stay in cache.
BLOCK = 32768
LANES = 64
#: Number of rows of a kernel that are multiplied with several vectors while they are in cache.
TILE = 48
#: Smaller numbers, relative to the diagonal, count as 0: their products would be subnormal, which
#: is slow.
TINY = np.float32(1e-12)


@borrowing
def sum_lanes(start, lanes):
    """Return a number plus the sums of all lanes, in their order."""
    total = start
    for lane in range(lanes.shape[0]):
        total += lanes[lane]
    return total


@compiled
def dots(rows, which, vector, out):
    """Write ``out[k] = rows[which[k]] . vector``, in blocks of columns; ``out`` is (k,)."""
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
            total = sum_lanes(0.0, lanes)
            for j in range(even, factors.shape[0]):
                total += row[j] * factors[j]
            out[k] += total


@compiled
def weighted_sum(rows, which, weights, out):
    """Write ``out = sum_k weights[k] rows[which[k]]``, in blocks of columns."""
    out[:] = 0.0
    for low in range(0, out.shape[0], BLOCK):
        sums = out[low : low + BLOCK]
        for k in range(which.shape[0]):
            row = rows[which[k]][low : low + BLOCK]
            weight = weights[k]
            for j in range(sums.shape[0]):
                sums[j] += weight * row[j]


@compiled
def packed_products(rows, which, vectors, out):
    """Write ``out[k] = K_which[k] vectors[k]``; ``out`` (k, N) is zero before.

    Process two rows of a kernel at a time, so that the vector and its product are read and written
    once for both.
    """
    n = vectors.shape[1]
    upper_lanes = np.empty(16)
    lower_lanes = np.empty(16)
    for k in range(which.shape[0]):
        packed = rows[which[k]]
        product = out[k]
        vector = vectors[k if vectors.shape[0] > 1 else 0]
        for i in range(0, n, 2):
            start = i * (i + 1) // 2
            even = i // 16 * 16
            is_last = i + 1 == n
            above = packed[start : start + i + 1]
            below = above if is_last else packed[start + i + 1 :][: i + 2]
            upper = vector[i]
            lower = 0.0 if is_last else vector[i + 1]
            for lane in range(16):
                upper_lanes[lane] = lower_lanes[lane] = 0.0
            for j in range(0, even, 16):
                for lane in range(16):
                    value = vector[j + lane]
                    x = above[j + lane]
                    y = below[j + lane]
                    upper_lanes[lane] += x * value
                    lower_lanes[lane] += y * value
                    product[j + lane] += upper * x + lower * y
            upper_total = sum_lanes(above[i] * upper, upper_lanes)
            lower_total = sum_lanes(0.0, lower_lanes)
            for j in range(even, i):
                upper_total += above[j] * vector[j]
                lower_total += below[j] * vector[j]
                product[j] += upper * above[j] + lower * below[j]
            product[i] = upper_total
            if not is_last:
                product[i] += below[i] * lower
                product[i + 1] = lower_total + below[i] * upper + below[i + 1] * lower


@compiled
def pack(matrix, out):
    """Write the lower triangle of a symmetric matrix (N, N) into a packed kernel ``out``."""
    position = 0
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            out[position + j] = matrix[i, j]
        position += i + 1


@compiled
def unpack(packed, out):
    """Write the full symmetric matrix of a packed kernel into ``out`` (N, N)."""
    position = 0
    for i in range(out.shape[0]):
        for j in range(i + 1):
            out[i, j] = out[j, i] = packed[position + j]
        position += i + 1


@borrowing
def copy_tile(packed, low, left, square):
    """Copy a tile of rows from ``low`` on: its square at the diagonal, and the entries before.

    Writes to ``left`` (rows, low) and ``square`` (rows, rows), with both triangles.
    """
    start = low * (low + 1) // 2
    # entries are copied one by one: an assignment of a slice would take seconds to compile
    for r in range(left.shape[0]):
        before = packed[start : start + low]
        at_diagonal = packed[start + low : start + low + r + 1]
        for j in range(low):
            left[r, j] = before[j]
        for j in range(r + 1):
            square[r, j] = square[j, r] = at_diagonal[j]
        start += low + r + 1


@compiled
def packed_times_blocks(rows, which, blocks, out):
    """Write ``out[k] = blocks[k] K_which[k]`` by tiles of rows; ``out`` (k, P, N) is zero before.

    ``blocks`` (1, P, N) or (k, P, N) are vectors for all kernels, or for each. A tile has a square
    at the diagonal, and entries to its left, which stand for their mirror images as well.
    """
    n = blocks.shape[2]
    for k in range(which.shape[0]):
        block = blocks[k if blocks.shape[0] > 1 else 0]
        product = out[k]
        for low in range(0, n, TILE):
            height = min(TILE, n - low)
            left = np.empty((height, low))
            square = np.empty((height, height))
            copy_tile(rows[which[k]], low, left, square)
            vectors = np.ascontiguousarray(block[:, low : low + height])
            products_of_tile = np.dot(vectors, square)
            if low:
                products_of_tile += np.dot(np.ascontiguousarray(block[:, :low]), left.T)
                mirrored = np.dot(vectors, left)
                for p in range(block.shape[0]):
                    for j in range(low):
                        product[p, j] += mirrored[p, j]
            for p in range(block.shape[0]):
                for r in range(height):
                    product[p, low + r] = products_of_tile[p, r]


@compiled
def squared_differences(columns, first, last, out):
    """Write ``(columns[c, i] - columns[c, j])^2``, packed, into ``out[c]``.

    The samples are ``first <= i < last`` and ``j <= i``; ``columns`` is (d, N).
    """
    for c in range(columns.shape[0]):
        column = columns[c]
        position = 0
        for i in range(first, last):
            value = column[i]
            row = out[c, position : position + i + 1]
            for j in range(i + 1):
                difference = value - column[j]
                row[j] = difference * difference
            position += i + 1


@compiled
def packed_square(vector, out):
    """Write ``v v'``, packed, with off-diagonal entries doubled.

    Its dot product with a packed K is ``v' K v``.
    """
    position = 0
    for i in range(vector.shape[0]):
        double = 2.0 * vector[i]
        for j in range(i):
            out[position + j] = double * vector[j]
        out[position + i] = vector[i] * vector[i]
        position += i + 1


@compiled
def factor_products(rows, starts, which, vectors, out):
    """Write ``out[k] = F F' vectors[k]``; ``out`` (k, N) is zero before.

    The columns of F are ``rows[starts[m] : starts[m + 1]]`` for ``m = which[k]``, each (N,).
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
            total = sum_lanes(0.0, lanes)
            for j in range(n):
                product[j] += total * row[j]


# ---- checks of Gram matrices ---------------------------------------------------------------------


@compiled
def pack_symmetric(gram, largest, rounding, packed):
    """Write the lower triangle of a matrix (N, N) into ``packed``; return False for a bad one.

    It must be symmetric, and no entry may exceed the largest of the diagonal.
    """
    scale = 0.0
    start = 0
    n_bad = 0
    for i in range(gram.shape[0]):
        scale = max(scale, gram[i, i])
    for i in range(gram.shape[0]):
        row = packed[start : start + i + 1]
        values = gram[i]
        mirrored = gram[:, i]
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
    """Clear ``proved`` (M,) of packed matrices that are not proved positive semidefinite.

    The test is sufficient: a matrix that is not proved may still be a kernel. Half of ``rounding``
    is left for that of single precision.
    """
    lower = np.empty((n, n), np.float32)
    for m in range(rows.shape[0]):
        if not proved[m]:
            continue
        packed = rows[m]
        scale = np.float64(0.0)
        start = 0
        for i in range(n):
            scale = max(scale, packed[i * (i + 3) // 2])  # the diagonal entry of row i
        for i in range(n):
            row = lower[i, : i + 1]
            values = packed[start : start + i + 1]
            inverse = 1.0 / scale
            for j in range(row.shape[0]):
                value = np.float32(values[j] * inverse)
                row[j] = value if abs(value) > TINY else np.float32(0.0)
            row[i] += np.float32(0.5 * rounding)
            start += i + 1
        proved[m] = factorize(lower)


@inner
def factorize(lower):
    """Factorize a matrix (N, N) in place by its lower triangle; return False if that is impossible.

    This is Cholesky's method, from the last row to the first, four rows at a time.
    """
    n = lower.shape[0]
    for pivot in range(n - 1, -1, -1):
        row = lower[pivot, : pivot + 1]
        for k in range(pivot + 1, n - 3, 4):
            a = lower[k]
            b = lower[k + 1]
            c = lower[k + 2]
            d = lower[k + 3]
            p = a[pivot]
            q = b[pivot]
            r = c[pivot]
            s = d[pivot]
            for j in range(row.shape[0]):
                row[j] -= (p * a[j] + q * b[j]) + (r * c[j] + s * d[j])
        for k in range(n - (n - 1 - pivot) % 4, n):
            a = lower[k]
            p = lower[k, pivot]
            for j in range(row.shape[0]):
                row[j] -= p * a[j]
        if not row[pivot] > 0.0:
            return False
        factor = np.float32(1.0) / np.sqrt(row[pivot])
        for j in range(row.shape[0]):
            value = factor * row[j]
            row[j] = value if abs(value) > TINY else np.float32(0.0)
    return True
