"""Small array work of kernel groups on a budget: p groups, m tokens at hand, n support vectors, known by their indices.

``rows`` (p, m, m + n, within larger arrays) holds kernel values of the tokens at hand with one another and with the
support vectors; ``own`` (p, m, K) the groups' potentials of these tokens before scaling. Both are kept current.
``coefficients`` and ``sums`` are (p, K, B), so that what runs over all support vectors runs along contiguous rows.
"""

import numpy as np

from omkl._compilation import compiled


@compiled
def inner_product(left, right):
    """Eight sums side by side: they vectorise, in an order that is always the same."""
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
def score(rows, m, n, coefficients, own):
    """``own[k] = K_k(x, support) A_k``."""
    for k in range(own.shape[0]):
        for t in range(m):
            row = rows[k, t, m : m + n]
            for j in range(own.shape[2]):
                own[k, t, j] = inner_product(row, coefficients[k, j, :n])


@compiled
def add_scaled(scales, own, m, unary):
    """``unary += sum_k s_k own_k``."""
    for k in range(own.shape[0]):
        if scales[k] != 0.0:
            for t in range(m):
                for j in range(unary.shape[1]):
                    unary[t, j] += scales[k] * own[k, t, j]


@compiled
def measure_gradients(rows, gradient, moving, empty, rates, square_norms, square_gradients):
    """``||g_k||^2`` of every group, and for the empty ones the norm after the step; whether one is not."""
    alive = False
    for k in range(square_gradients.shape[0]):
        total = 0.0
        for a in moving:
            for b in moving:
                agreement = 0.0
                for j in range(gradient.shape[1]):
                    agreement += gradient[a, j] * gradient[b, j]
                total += agreement * rows[k, a, b]
        square_gradients[k] = total
        if empty[k]:
            square_norms[k] = rates[k] ** 2 * total
        else:
            alive = True
    return alive


@compiled
def weakest(scales, squares, ages, n):
    """The support vector of the smallest ``sum_k s_k^2 ||A_k[i]||^2 k_k(i, i)``; the oldest of equals."""
    worst = 0
    smallest = np.inf
    for i in range(n):
        importance = 0.0
        for k in range(scales.shape[0]):
            importance += scales[k] * scales[k] * squares[k, i]
        if importance < smallest or (importance == smallest and ages[i] < ages[worst]):
            worst = i
            smallest = importance
    return worst


@compiled
def find(rows, m, t, n, diagonals):
    """The index of the support vector that is token ``t`` in the feature space of every kernel, or -1.

    ``||psi(x) - psi(y)||^2 = k(x, x) - 2 k(x, y) + k(y, y)`` is zero where the three values agree.
    """
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
def place(rows, m, t, index, indices, diagonals, coefficients, sums, averaging, squares):
    """Make token ``t`` the support vector ``index``, with coefficients of zero; another that was it is none now."""
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
        if averaging:
            sums[k, :, index] = 0.0


@compiled
def move(
    rows,
    m,
    t,
    index,
    gradient,
    chosen,
    rates,
    averages,
    diagonals,
    coefficients,
    sums,
    averaging,
    squares,
    own,
    square_norms,
):
    """``A_k[index] -= rate_k D_t`` in the chosen groups, with all that depends on it."""
    for k in range(coefficients.shape[0]):
        if not chosen[k]:
            continue
        A = coefficients[k, :, index]
        importance = 0.0
        for j in range(gradient.shape[1]):
            change = -rates[k] * gradient[t, j]
            if change != 0.0:
                square_norms[k] += change * (2.0 * own[k, t, j] + change * diagonals[k, index])
                A[j] += change
                if averaging:
                    sums[k, j, index] -= averages[k] * change
                for other in range(m):
                    own[k, other, j] += rows[k, other, t] * change
            importance += A[j] * A[j]
        squares[k, index] = importance * diagonals[k, index]


@compiled
def replace(rows, m, index, others, c, coefficients, own):
    """Potentials of the tokens at hand in one group when support vector ``index`` is replaced by ``c`` times others."""
    for t in range(m):
        difference = -rows[t, m + index]
        for r in range(others.shape[0]):
            difference += c[r] * rows[t, m + others[r]]
        for j in range(own.shape[1]):
            own[t, j] += difference * coefficients[j, index]


@compiled
def measure_parts(n, diagonals, coefficients, squares):
    """``||A[i]||^2 k(i, i)`` of one group, for every support vector."""
    squares[:n] = 0.0
    for j in range(coefficients.shape[0]):
        for i in range(n):
            squares[i] += coefficients[j, i] * coefficients[j, i]
    for i in range(n):
        squares[i] *= diagonals[i]
