"""Cholesky factors of kernel matrices whose members come and go: what projects one support vector onto the others.

A factor is an upper triangle ``U`` with ``U'U = K + diag(e)``, in the leading n x n block of a larger array; ``e`` is
a small jitter. Rows are contiguous, and every loop over half of the matrix runs along them.
"""

import numpy as np

from omkl._compilation import compiled


@compiled
def append(U, n, values, square, jitter):
    """Add a vector at position n, given its kernel values with the others (overwritten) and with itself.

    Returns the jitter on its diagonal entry: the one asked for, or what it takes where the kernel is not positive
    semidefinite. Such a vector gets so much that neither its row nor the later ones blow up.
    """
    for r in range(n):
        y = values[r] / U[r, r]
        values[r] = y
        row = U[r]
        for t in range(r + 1, n):
            values[t] -= y * row[t]
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
    """Take the vector at position ``a`` out; those behind it move up by one. Costs O(n^2).

    Its row of the old factor makes a rank-one update of the block behind it, by rotations, which cannot fail. On the
    way the system ``U' y = k(others, it)`` with the new factor is solved, for :func:`combination`.
    """
    pivot = U[a, a]
    rest = U[a, :n].copy()
    for r in range(a):
        row = U[r]
        y[r] = row[a]
        for t in range(a + 1, n):
            row[t - 1] = row[t]
    for t in range(a + 1, n):
        y[t - 1] = pivot * rest[t]
    for r in range(a + 1, n):
        old, new = U[r], U[r - 1]
        length = np.sqrt(old[r] * old[r] + rest[r] * rest[r])
        c, s = old[r] / length, rest[r] / length
        new[r - 1] = length
        value = y[r - 1] / length
        y[r - 1] = value
        for t in range(r + 1, n):
            rotated = c * old[t] + s * rest[t]
            rest[t] = c * rest[t] - s * old[t]
            new[t - 1] = rotated
            y[t - 1] -= value * rotated


@compiled
def combination(U, n, y, c):
    """Solve ``U c = y``: with ``y`` from :func:`remove`, the coefficients of the projection onto the n others."""
    for back in range(1, n + 1):
        r = n - back
        row, known = U[r, r + 1 : n], c[r + 1 : n]
        # eight sums side by side: they vectorise, in an order that is always the same
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for block in range(known.shape[0] // 8):
            t = 8 * block
            s0 += row[t] * known[t]
            s1 += row[t + 1] * known[t + 1]
            s2 += row[t + 2] * known[t + 2]
            s3 += row[t + 3] * known[t + 3]
            s4 += row[t + 4] * known[t + 4]
            s5 += row[t + 5] * known[t + 5]
            s6 += row[t + 6] * known[t + 6]
            s7 += row[t + 7] * known[t + 7]
        for t in range(known.shape[0] // 8 * 8, known.shape[0]):
            s0 += row[t] * known[t]
        c[r] = (y[r] - (((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7)))) / U[r, r]


@compiled
def spread(index, others, c, y, square, jitters, coefficients, sums, averaging, squares, diagonals):
    r"""Move a vector's part of a group onto the others, ``A[others] += c A[index]``; returns the change of ``||v||^2``.

    With ``r = psi(x) - sum_j c_j psi(x_j)`` the group changes by ``-r A[index]``. Because ``(K + diag(e)) c`` are the
    kernel values with the others, ``<r, psi(x_j)> = e_j c_j``, so that no kernel value is needed to know the norm.
    """
    n = others.shape[0]
    explained = jittered = 0.0
    for r in range(n):
        explained += y[r] * y[r]
        jittered += jitters[others[r]] * c[r] * c[r]
    residual = square - explained
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
            if averaging:
                sums[j, i] += c[r] * sums[j, index]
        change += part * ((residual - jittered) * part - 2.0 * (residual * part + slack))
    for i in others:
        squares[i] *= diagonals[i]
    return change
