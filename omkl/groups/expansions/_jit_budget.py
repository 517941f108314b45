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

from omkl._compilation import borrowing, compiled, inner

#: Vectors of one tile, which stays in the cache, and number of vectors at hand that are compared with a tile at a time.
TILE, ROWS = 512, 4
PRODUCTS, SQUARED, MANHATTAN, CHI_SQUARED = range(4)


class Held(NamedTuple):
    """Arrays of the bank, and working memory for the tokens of a block, which come in sequences.

    ``order`` has the indices of support vectors in the order of the factors, and ``counts`` the numbers of support
    vectors, of tokens admitted so far, and of replacements. ``values`` are kernel values of the tokens of the block
    with one another and with the support vectors before it, and ``columns`` has the column of each support vector
    there. ``first`` is the first token of the sequence at hand, ``used`` are the kernels in use, and ``relative`` is
    the jitter for vectors of length 1.
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
    values: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    own: np.ndarray
    indices: np.ndarray
    first: np.ndarray
    used: np.ndarray
    budget: int
    relative: float


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


@inner
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
    for r in range(n):
        y = values[r] / U[r, r]
        values[r] = y
        row, rest = U[r, r + 1 : n], values[r + 1 : n]
        for t in range(n - 1 - r):
            rest[t] -= y * row[t]
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
def drop(index, n, square_norms, rows, own, bank):
    """Project one of n support vectors onto the others; update norms and potentials."""
    position = 0
    while bank.order[position] != index:
        position += 1
    for i in range(position, n - 1):
        bank.order[i] = bank.order[i + 1]
    others = bank.order[: n - 1]
    y, c = np.empty(n - 1), np.empty(n - 1)
    for k in bank.used:
        coefficients, factor = bank.coefficients[k], bank.factors[k]
        remove(factor, n, position, y)
        combination(factor, n - 1, y, c)
        replace(rows[k], index, others, c, coefficients, own[k])
        arrays = bank.sums[k], bank.squares[k], bank.diagonals[k]
        square_norms[k] += spread(index, others, c, y, bank.jitters[k], coefficients, *arrays)


@inner
def admit(t, scales, square_norms, rows, own, indices, bank):
    """Make token ``t`` a support vector, which replaces another if the support is full; return its index."""
    n, m = bank.counts[0], len(indices)
    index, n_others = n, min(n, bank.budget - 1)
    if n == bank.budget:
        index = weakest(scales, bank.squares, bank.ages, n)
        drop(index, n, square_norms, rows, own, bank)
        bank.counts[2] += 1
    place(rows, t, index, indices, bank.diagonals, bank.coefficients, bank.sums, bank.squares)
    values = np.empty(n_others)
    for k in bank.used:
        for r in range(n_others):
            values[r] = rows[k, t, m + bank.order[r]]
        square = bank.diagonals[k, index]
        jitter = bank.relative * square if square > 0.0 else 1.0
        bank.jitters[k, index] = append(bank.factors[k], n_others, values, square, jitter)
    bank.order[n_others], bank.ages[index] = index, bank.counts[1]
    bank.counts[0] = n_others + 1
    bank.counts[1] += 1
    return index


@compiled
def at_hand(bank, first, m):
    """Return the kernel values and potentials of the m tokens of a sequence; compute them if it is a new one."""
    p, n_outputs, capacity = bank.coefficients.shape
    rows = bank.rows[: p * m * (m + capacity)].reshape(p, m, m + capacity)
    own, n = bank.own[: p * m * n_outputs].reshape(p, m, n_outputs), bank.counts[0]
    if bank.first[0] != first:
        for k in range(p):
            for t in range(m):
                values, row = bank.values[k, first + t], rows[k, t]
                for other in range(m):
                    row[other] = values[first + other]
                for i in range(n):
                    row[m + i] = values[bank.columns[i]]
        for t in range(m):
            bank.indices[t] = -1
        score(rows, n, bank.coefficients, own)
        bank.first[0] = first
    return rows, own


@compiled
def add_averaged(bank, factors, total, left_out, first, unary):
    """Add the potentials of the averaged groups, or of the current ones if ``total`` is 0."""
    if bank is None:
        return
    rows, own = at_hand(bank, first, len(unary))
    before = np.empty_like(own)
    score(rows, bank.counts[0], bank.sums, before)
    for k in range(len(own)):
        for i in range(0 if left_out[k] else len(unary)):
            for j in range(unary.shape[1]):
                value = factors[k] * own[k, i, j]
                unary[i, j] += (value + before[k, i, j]) / total if total > 0.0 else value


@compiled
def step(moving, D, groups, first, m, scales, arrays, bank):
    """Step along ``D`` in the groups of a mask, token by token of a sequence; tokens become support vectors."""
    rows, own = at_hand(bank, first, m)
    indices = bank.indices[:m]
    for a in range(len(moving)):
        t = moving[a]
        if indices[t] < 0:
            indices[t] = find(rows, t, bank.counts[0], bank.diagonals)
        if indices[t] < 0:
            index = admit(t, scales, arrays.square_norms, rows, own, indices, bank)
            bank.columns[index] = first + t
        move(rows, t, indices[t], D[a], groups, arrays, bank.diagonals, bank.coefficients, bank.sums, bank.squares, own)


@compiled
def fold(factor, average, coefficients, sums, squares, diagonals):
    """Multiply the coefficients of a group, after its share of the average is added to its sums."""
    for i in range(len(squares)):
        importance = 0.0
        for j in range(len(coefficients)):
            if sums.shape[1] > 0:
                sums[j, i] += average * coefficients[j, i]
            coefficients[j, i] *= factor
            importance += coefficients[j, i] ** 2
        squares[i] = importance * diagonals[i]
