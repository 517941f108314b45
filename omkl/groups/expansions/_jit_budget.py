"""Kernel groups on a budget: p groups, m tokens at hand (the present input), n support vectors by their indices.

``rows`` (p, m, m + B) holds kernel values of the tokens at hand with one another and with the support vectors; ``own``
(p, m, K) holds the groups' potentials of these tokens before scaling. Both are updated with every change.
``coefficients`` and ``sums`` are (p, K, B), so that loops over support vectors run along contiguous rows; ``sums`` has
B = 0 without an average.

Cholesky factors of the kernel matrices project one support vector onto the others. A factor is an upper triangle ``U``
with ``U'U = K + diag(e)``, in the leading n x n block of a larger array; ``e`` is a small jitter. Loops over half of
the matrix run along its contiguous rows.

Loops run over slices from 0, because Numba does not vectorise loops over ``t`` with an index ``t - 1`` or ``r + t``.

Vectors are stored as columns of an array (d, C) and selected by a range. Loops over them vectorise, and a value depends
only on its two vectors, not on their positions.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled

#: Vectors of one tile, which stays in the cache, and number of vectors at hand that are compared with a tile at a time.
TILE, ROWS = 512, 4
PRODUCTS, SQUARED, MANHATTAN, CHI_SQUARED = range(4)


class Held(NamedTuple):
    """Arrays of the support vectors by their indices; ``order`` has the indices in the order of the factors.

    ``counts`` has the numbers of support vectors, of tokens admitted so far, and of replacements.
    """

    coefficients: np.ndarray
    sums: np.ndarray
    diagonals: np.ndarray
    squares: np.ndarray
    jitters: np.ndarray
    factors: np.ndarray
    order: np.ndarray
    ages: np.ndarray
    counts: np.ndarray


@compiled
def term(kind, x, y):
    """Return the part of one column in a product or distance of two vectors."""
    difference = x - y
    if kind == PRODUCTS:
        return x * y
    if kind == SQUARED:
        return difference * difference
    if kind == MANHATTAN:
        return abs(difference)
    mass = x + y
    return difference * difference / mass if mass != 0.0 else mass


@compiled
def compare(kind, X, columns, first, last):
    """Inner products ``X columns[:, first:last]``, or distances of the rows of X (n, d) from these: (n, last - first).

    Squared distances are sums of squared differences, exact also far from the origin. Chi-squared distances are sums of
    ``(x_j - y_j)^2 / (x_j + y_j)``, with terms of 0 / 0 set to 0.
    """
    n, d = X.shape
    out = np.zeros((n, last - first), X.dtype)
    n_even = 0 if kind == CHI_SQUARED else d // 4 * 4
    for low in range(first, last, TILE):
        high = min(low + TILE, last)
        for top in range(0, n, ROWS):
            bottom = min(top + ROWS, n)
            for j in range(0, n_even, 4):
                y0, y1 = columns[j, low:high], columns[j + 1, low:high]
                y2, y3 = columns[j + 2, low:high], columns[j + 3, low:high]
                for i in range(top, bottom):
                    total = out[i, low - first : high - first]
                    x0, x1, x2, x3 = X[i, j], X[i, j + 1], X[i, j + 2], X[i, j + 3]
                    for c in range(high - low):
                        left = term(kind, x0, y0[c]) + term(kind, x1, y1[c])
                        total[c] += left + (term(kind, x2, y2[c]) + term(kind, x3, y3[c]))
            for j in range(n_even, d):
                y = columns[j, low:high]
                for i in range(top, bottom):
                    x, total = X[i, j], out[i, low - first : high - first]
                    for c in range(high - low):
                        total[c] += term(kind, x, y[c])
    return out


@borrowing
def inner_product(left, right):
    """Return the inner product by eight partial sums, which vectorise in a fixed order."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    n = right.shape[0]
    for block in range(n // 8):
        i = 8 * block
        s0 += left[i] * right[i]
        s1 += left[i + 1] * right[i + 1]
        s2 += left[i + 2] * right[i + 2]
        s3 += left[i + 3] * right[i + 3]
        s4 += left[i + 4] * right[i + 4]
        s5 += left[i + 5] * right[i + 5]
        s6 += left[i + 6] * right[i + 6]
        s7 += left[i + 7] * right[i + 7]
    for i in range(n // 8 * 8, n):
        s0 += left[i] * right[i]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@compiled
def score(rows, n, coefficients, own):
    """``own[k] = K_k(x, support) A_k``."""
    m = own.shape[1]
    for k in range(own.shape[0]):
        for t in range(m):
            row = rows[k, t, m : m + n]
            for j in range(own.shape[2]):
                own[k, t, j] = inner_product(row, coefficients[k, j, :n])


@compiled
def weakest(scales, squares, ages, n):
    """Return the support vector of the smallest ``sum_k s_k^2 ||A_k[i]||^2 k_k(i, i)``, the oldest in a tie."""
    importances = np.zeros(n)
    for k in range(scales.shape[0]):
        for i in range(n):
            importances[i] += scales[k] * scales[k] * squares[k, i]
    worst = 0
    for i in range(1, n):
        difference = importances[i] - importances[worst]
        if difference < 0.0 or (difference == 0.0 and ages[i] < ages[worst]):
            worst = i
    return worst


@compiled
def find(rows, t, n, diagonals):
    """Return the index of the support vector that equals token ``t`` in the feature space of every kernel, or -1.

    ``||psi(x) - psi(y)||^2 = k(x, x) - 2 k(x, y) + k(y, y)`` is zero if the three values agree.
    """
    m = rows.shape[1]
    for i in range(n):
        same = True
        for k in range(diagonals.shape[0]):
            if rows[k, t, m + i] != rows[k, t, t] or diagonals[k, i] != rows[k, t, t]:
                same = False
                break
        if same:
            return i
    return -1


@compiled
def place(rows, t, index, indices, diagonals, coefficients, sums, squares):
    """Make token ``t`` the support vector ``index``, with coefficients of zero; unset the index of its former token."""
    m = rows.shape[1]
    for other in range(m):
        if indices[other] == index:
            indices[other] = -1
    indices[t] = index
    for k in range(coefficients.shape[0]):
        for other in range(m):
            rows[k, other, m + index] = rows[k, other, t]
        diagonals[k, index] = rows[k, t, t]
        squares[k, index] = 0.0
        coefficients[k, :, index] = 0.0
        if sums.shape[2] > 0:
            sums[k, :, index] = 0.0


@compiled
def move(rows, t, index, slope, groups, step, diagonals, coefficients, sums, squares, own):
    """``A_k[index] -= rate_k slope`` in the groups of a mask; update all dependent arrays."""
    for k in range(coefficients.shape[0]):
        if not groups[k]:
            continue
        A = coefficients[k, :, index]
        importance = 0.0
        for j in range(slope.shape[0]):
            change = -step.rates[k] * slope[j]
            if change != 0.0:
                step.square_norms[k] += change * (2.0 * own[k, t, j] + change * diagonals[k, index])
                A[j] += change
                if sums.shape[2] > 0:
                    sums[k, j, index] -= step.averages[k] * change
                for other in range(rows.shape[1]):
                    own[k, other, j] += rows[k, other, t] * change
            importance += A[j] * A[j]
        squares[k, index] = importance * diagonals[k, index]


@compiled
def replace(rows, index, others, c, coefficients, own):
    """Update the potentials of one group after replacing support vector ``index`` by ``c`` times others."""
    m = rows.shape[0]
    for t in range(m):
        difference = -rows[t, m + index]
        for r in range(others.shape[0]):
            difference += c[r] * rows[t, m + others[r]]
        for j in range(own.shape[1]):
            own[t, j] += difference * coefficients[j, index]


@borrowing
def append(U, n, values, square, jitter):
    """Add a vector at position n, given its kernel values with the others (overwritten) and with itself.

    Return the jitter on its diagonal entry. It is larger than requested if the kernel is not positive semidefinite, so
    that neither the row of the vector nor later rows blow up.
    """
    for first in range(0, n, 4):
        last = min(first + 4, n)
        for r in range(first, last):
            values[r] /= U[r, r]
            for s in range(r + 1, last):
                values[s] -= U[r, s] * values[r]
        if last < n:
            y0, y1, y2, y3 = values[first], values[first + 1], values[first + 2], values[first + 3]
            row0, row1, row2, row3 = U[first, last:n], U[first + 1, last:n], U[first + 2, last:n], U[first + 3, last:n]
            rest = values[last:n]
            for t in range(n - last):
                rest[t] -= (y0 * row0[t] + y1 * row1[t]) + (y2 * row2[t] + y3 * row3[t])
    explained = 0.0
    for r in range(n):
        U[r, n] = values[r]
        explained += values[r] * values[r]
    pivot = square + jitter - explained
    if pivot < 0.5 * jitter:
        pivot = max(square, explained)
    U[n, n] = np.sqrt(pivot)
    return pivot + explained - square


@compiled
def remove(U, n, a, y):
    """Remove the vector at position ``a``; later vectors move up by one. The cost is O(n^2).

    Its row of the old factor gives a rank-one update of the block behind it, by rotations, which cannot fail. Also
    solve the system ``U' y = k(others, it)`` with the new factor, for :func:`combination`.
    """
    pivot = U[a, a]
    rest = U[a, :n].copy()
    for r in range(a):
        y[r] = U[r, a]
        old, new = U[r, a + 1 : n], U[r, a : n - 1]
        for t in range(n - 1 - a):
            new[t] = old[t]
    for t in range(a + 1, n):
        y[t - 1] = pivot * rest[t]
    for r in range(a + 1, n):
        old, new = U[r], U[r - 1]
        length = np.sqrt(old[r] * old[r] + rest[r] * rest[r])
        c, s = old[r] / length, rest[r] / length
        new[r - 1] = length
        value = y[r - 1] / length
        y[r - 1] = value
        left, right, target, others = old[r + 1 : n], rest[r + 1 : n], new[r : n - 1], y[r : n - 1]
        for t in range(n - 1 - r):
            rotated = c * left[t] + s * right[t]
            right[t] = c * right[t] - s * left[t]
            target[t] = rotated
            others[t] -= value * rotated


@borrowing
def combination(U, n, y, c):
    """Solve ``U c = y``: with ``y`` from :func:`remove`, the coefficients of the projection onto the n others.

    The inner products of several rows do not wait for each other.
    """
    for last in range(n, 0, -8):
        first = max(last - 8, 0)
        for r in range(first, last):
            c[r] = y[r] - inner_product(U[r, last:n], c[last:n])
        for s in range(last - 1, first - 1, -1):
            c[s] /= U[s, s]
            for r in range(first, s):
                c[r] -= U[r, s] * c[s]


@compiled
def spread(index, others, c, y, jitters, coefficients, sums, squares, diagonals):
    r"""Move a vector's part of a group onto the others, ``A[others] += c A[index]``; return the change of ``||v||^2``.

    With ``r = psi(x) - sum_j c_j psi(x_j)`` the group changes by ``-r A[index]``. Since ``(K + diag(e)) c`` are the
    kernel values with the others, ``<r, psi(x_j)> = e_j c_j``. So the norm needs no kernel values.
    """
    n = others.shape[0]
    explained = jittered = 0.0
    for r in range(n):
        explained += y[r] * y[r]
        jittered += jitters[others[r]] * c[r] * c[r]
    residual = diagonals[index] - explained
    change = 0.0
    for i in others:
        squares[i] = 0.0
    for j in range(coefficients.shape[0]):
        A = coefficients[j]
        part = A[index]
        slack = 0.0
        for r in range(n):
            i = others[r]
            slack += jitters[i] * c[r] * A[i]
            A[i] += c[r] * part
            squares[i] += A[i] * A[i]
            if sums.shape[1] > 0:
                sums[j, i] += c[r] * sums[j, index]
        change += part * ((residual - jittered) * part - 2.0 * (residual * part + slack))
    for i in others:
        squares[i] *= diagonals[i]
    return change


@compiled
def drop(index, n, used, square_norms, rows, own, held):
    """Project one of n support vectors onto the others; update norms and potentials."""
    position = 0
    while held.order[position] != index:
        position += 1
    for i in range(position, n - 1):
        held.order[i] = held.order[i + 1]
    others = held.order[: n - 1]
    y, c = np.empty(n - 1), np.empty(n - 1)
    for k in used:
        coefficients, factor = held.coefficients[k], held.factors[k]
        remove(factor, n, position, y)
        combination(factor, n - 1, y, c)
        replace(rows[k], index, others, c, coefficients, own[k])
        arrays = held.sums[k], held.squares[k], held.diagonals[k]
        square_norms[k] += spread(index, others, c, y, held.jitters[k], coefficients, *arrays)


@compiled
def admit(t, budget, relative, used, scales, square_norms, rows, own, indices, held):
    """Make token ``t`` a support vector, which replaces another if the support is full; return its index."""
    n, m = held.counts[0], len(indices)
    index, n_others = n, min(n, budget - 1)
    if n == budget:
        index = weakest(scales, held.squares, held.ages, n)
        drop(index, n, used, square_norms, rows, own, held)
        held.counts[2] += 1
    place(rows, t, index, indices, held.diagonals, held.coefficients, held.sums, held.squares)
    values = np.empty(n_others)
    for k in used:
        for r in range(n_others):
            values[r] = rows[k, t, m + held.order[r]]
        square = held.diagonals[k, index]
        jitter = relative * square if square > 0.0 else 1.0
        held.jitters[k, index] = append(held.factors[k], n_others, values, square, jitter)
    held.order[n_others], held.ages[index] = index, held.counts[1]
    held.counts[0] = n_others + 1
    held.counts[1] += 1
    return index


@compiled
def step(moving, D, groups, first, columns, budget, relative, used, scales, arrays, rows, own, indices, held):
    """Step along ``D`` token by token; write ``first + t`` to the column of each support vector that token t becomes.

    ``used`` are the kernels in use, and ``groups`` a mask of those that step.
    """
    for a in range(len(moving)):
        t = moving[a]
        if indices[t] < 0:
            indices[t] = find(rows, t, held.counts[0], held.diagonals)
        if indices[t] < 0:
            index = admit(t, budget, relative, used, scales, arrays.square_norms, rows, own, indices, held)
            columns[index] = first + t
        parts = held.diagonals, held.coefficients, held.sums, held.squares
        move(rows, t, indices[t], D[a], groups, arrays, *parts, own)


@compiled
def fold(k, factor, average, held):
    """Multiply the coefficients of a group, after its share of the average is added to its sums."""
    for i in range(held.counts[0]):
        importance = 0.0
        for j in range(held.coefficients.shape[1]):
            if held.sums.shape[2] > 0:
                held.sums[k, j, i] += average * held.coefficients[k, j, i]
            held.coefficients[k, j, i] *= factor
            importance += held.coefficients[k, j, i] ** 2
        held.squares[k, i] = importance * held.diagonals[k, i]
