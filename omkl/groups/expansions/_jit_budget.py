"""Kernel groups on a budget: p groups, the tokens of an example, n support vectors by indices.

``rows`` (p, M, M + B) holds kernel values of the tokens at hand with one another, and from column M
on with the support vectors; ``potentials`` (p, M, K) are the groups' potentials of these tokens
before scaling. Both are updated with every change. There is room for M tokens; the example has as
many as it has ``indices``. ``coefficients`` and ``sums`` are (p, K, B), so that loops over support
vectors run along contiguous rows; ``sums`` has B = 0 without an average. Signatures of what the
bank declares are those of :mod:`omkl.signatures`.

Cholesky factors of the kernel matrices project one support vector onto the others. A factor is an
upper triangle ``U`` with ``U'U = K + diag(e)``, in the leading n x n block of a larger array; ``e``
is a small jitter. Loops over half of the matrix run along its contiguous rows.

Loops run over slices from 0, because Numba does not vectorise loops over ``t`` with an index
``t - 1`` or ``r + t``.

Vectors are stored as columns of an array (d, C) and selected by a range. Loops over them vectorise,
and a value depends only on its two vectors, not on their positions.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import borrowing, compiled, inner
from omkl._pointers import ADDRESS, CUBE, FLOAT, INTEGER, INTEGERS, MATRIX, Layout
from omkl.groups._jit_group_state import bank_groups_at
from omkl.groups.expansions._jit_kernel import (
    add_scaled,
    has_gradient,
    kernel_inner_products,
    measure,
)

#: Vectors of one tile, which stays in the cache, and number of vectors at hand that are compared
#: with a tile at a time.
TILE, ROWS = 512, 4
#: Kinds of comparisons of vectors, see :func:`compare`.
PRODUCTS, SQUARED, MANHATTAN, CHI_SQUARED = range(4)
#: Entries of ``counts``: numbers of support vectors, of admitted tokens, and of replacements.
SUPPORT, ADMITTED, REPLACED = range(3)
#: Index of tokens that are not known to be support vectors.
UNKNOWN = -1


class Budgeted(NamedTuple):
    """Arrays of the bank.

    ``order`` has the indices of support vectors in the order of the factors, and ``relative`` is
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
    budget: int
    relative: float
    #: Address of the arrays of the groups.
    groups: int


class TokensAtHand(NamedTuple):
    """Tokens of several examples, and working memory for the example at hand.

    ``values`` are kernel values of the tokens with one another and with the support vectors before
    them, and ``columns`` has the column of each support vector there. ``first`` (1,) is the first
    token of the example at hand, ``indices`` are its tokens' places in the support.
    """

    values: np.ndarray
    columns: np.ndarray
    rows: np.ndarray
    potentials: np.ndarray
    indices: np.ndarray
    first: np.ndarray


BUDGETED = Layout(
    Budgeted,
    coefficients=CUBE,
    sums=CUBE,
    diagonals=MATRIX,
    squares=MATRIX,
    jitters=MATRIX,
    factors=CUBE,
    order=INTEGERS,
    ages=INTEGERS,
    counts=INTEGERS,
    budget=INTEGER,
    relative=FLOAT,
    groups=ADDRESS,
)
TOKENS_AT_HAND = Layout(
    TokensAtHand,
    values=CUBE,
    columns=INTEGERS,
    rows=CUBE,
    potentials=CUBE,
    indices=INTEGERS,
    first=INTEGERS,
)
budgeted_at = BUDGETED.at
tokens_at_hand = TOKENS_AT_HAND.at


@inner
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
    if mass == 0.0:
        return mass
    return difference * difference / mass


@compiled
def compare(kind, X, columns, first, last):
    """Return inner products ``X columns[:, first:last]``, or distances of rows from columns.

    X (n, d), columns (d, C); the result is (n, last - first). Squared distances are sums of squared
    differences, exact also far from the origin. Chi-squared distances are sums of
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
                y0 = columns[j, low:high]
                y1 = columns[j + 1, low:high]
                y2 = columns[j + 2, low:high]
                y3 = columns[j + 3, low:high]
                for i in range(top, bottom):
                    total = out[i, low - first : high - first]
                    x0 = X[i, j]
                    x1 = X[i, j + 1]
                    x2 = X[i, j + 2]
                    x3 = X[i, j + 3]
                    for c in range(high - low):
                        first_two = term(kind, x0, y0[c]) + term(kind, x1, y1[c])
                        total[c] += first_two + (term(kind, x2, y2[c]) + term(kind, x3, y3[c]))
            for j in range(n_even, d):
                y0 = columns[j, low:high]
                for i in range(top, bottom):
                    total = out[i, low - first : high - first]
                    x0 = X[i, j]
                    for c in range(high - low):
                        total[c] += term(kind, x0, y0[c])
    return out


@borrowing
def inner_product(left, right):
    """Return the inner product of vectors by eight partial sums, which vectorise in a fixed order.

    ``left`` may be longer than ``right``.
    """
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


@borrowing
def score(rows, n, n_tokens, coefficients, potentials):
    """Write ``potentials[k] = K_k(x, support) A_k`` for the first tokens and n support vectors.

    ``rows`` (p, M, M + B), ``coefficients`` (p, K, B), ``potentials`` (p, M, K).
    """
    first = rows.shape[1]
    for k in range(potentials.shape[0]):
        for t in range(n_tokens):
            row = rows[k, t, first : first + n]
            for j in range(potentials.shape[2]):
                potentials[k, t, j] = inner_product(row, coefficients[k, j, :n])


@inner
def weakest(scales, squares, ages, n):
    """Return the support vector of the smallest ``sum_k s_k^2 ||A_k[i]||^2 k_k(i, i)``.

    In a tie, it is the oldest. ``squares`` (p, B) are ``||A_k[i]||^2 k_k(i, i)``.
    """
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


@borrowing
def find(rows, t, n, diagonals):
    """Return the support vector that equals token ``t`` for every kernel, ``UNKNOWN`` for none.

    ``rows`` (p, M, M + B) are the kernel values at hand, and ``diagonals`` (p, B) the values of the
    n support vectors with themselves.
    ``||psi(x) - psi(y)||^2 = k(x, x) - 2 k(x, y) + k(y, y)`` is zero if the three values agree.
    """
    first = rows.shape[1]
    for i in range(n):
        same = True
        for k in range(diagonals.shape[0]):
            if rows[k, t, first + i] != rows[k, t, t] or diagonals[k, i] != rows[k, t, t]:
                same = False
                break
        if same:
            return i
    return UNKNOWN


@borrowing
def place(rows, t, index, indices, bank):
    """Make token ``t`` the support vector ``index``, with coefficients of zero.

    Writes to ``rows`` (p, M, M + B), ``indices`` (tokens of the example,) and the bank.
    """
    column = rows.shape[1] + index
    n_tokens = indices.shape[0]
    for other in range(n_tokens):
        if indices[other] == index:
            indices[other] = UNKNOWN
    indices[t] = index
    for k in range(bank.coefficients.shape[0]):
        for other in range(n_tokens):
            rows[k, other, column] = rows[k, other, t]
        bank.diagonals[k, index] = rows[k, t, t]
        bank.squares[k, index] = 0.0
        for j in range(bank.coefficients.shape[1]):
            bank.coefficients[k, j, index] = 0.0
            if bank.sums.shape[2] > 0:
                bank.sums[k, j, index] = 0.0


@borrowing
def move(rows, t, indices, slope, postponed, groups, bank, potentials):
    """Step ``A_k[index] -= rate_k slope`` in groups that are not empty, or in those activated.

    ``slope`` (K,) is the gradient of token t, whose support vector is ``indices[t]``. Updates
    norms, averages, and the ``potentials`` (p, M, K) of the tokens at hand.
    """
    index = indices[t]
    for k in range(bank.coefficients.shape[0]):
        moves = groups.activated[k] if postponed else not groups.empty[k]
        if not moves:
            continue
        A = bank.coefficients[k, :, index]
        diagonal = bank.diagonals[k, index]
        importance = 0.0
        for j in range(slope.shape[0]):
            change = -groups.rates[k] * slope[j]
            if change != 0.0:
                moved = change * (2.0 * potentials[k, t, j] + change * diagonal)
                groups.square_norms[k] += moved
                A[j] += change
                if bank.sums.shape[2] > 0:
                    bank.sums[k, j, index] -= groups.averages[k] * change
                for other in range(indices.shape[0]):
                    potentials[k, other, j] += rows[k, other, t] * change
            importance += A[j] * A[j]
        bank.squares[k, index] = importance * diagonal


@borrowing
def replace(rows, n_tokens, index, others, c, coefficients, potentials):
    """Update the potentials of one group after replacing a support vector by ``c`` times others.

    Writes to ``potentials``.
    ``rows`` (M, M + B), ``others`` and ``c`` (n,), ``coefficients`` (K, B), ``potentials`` (M, K).
    """
    first = rows.shape[0]
    for t in range(n_tokens):
        difference = -rows[t, first + index]
        for r in range(others.shape[0]):
            difference += c[r] * rows[t, first + others[r]]
        for j in range(potentials.shape[1]):
            potentials[t, j] += difference * coefficients[j, index]


@borrowing
def append(U, n, values, square, jitter):
    """Add a vector at position n of the factor U, in place; return the jitter that it gets.

    ``values`` (n,), overwritten, and ``square`` are its kernel values with the others and itself.
    The jitter on its diagonal entry is larger than the requested ``jitter`` if the kernel is not
    positive semidefinite, so that neither the row of the vector nor later rows blow up.
    """
    for r in range(n):
        y = values[r] / U[r, r]
        values[r] = y
        row = U[r, r + 1 : n]
        later_values = values[r + 1 : n]
        for t in range(n - 1 - r):
            later_values[t] -= y * row[t]
    explained = 0.0
    for r in range(n):
        U[r, n] = values[r]
        explained += values[r] * values[r]
    pivot = square + jitter - explained
    if pivot < 0.5 * jitter:
        pivot = max(square, explained)
    U[n, n] = np.sqrt(pivot)
    return pivot + explained - square


@inner
def remove(U, n, a, y):
    """Remove the vector at position ``a`` of n in U; later vectors move up by one, in O(n^2).

    Its row of the old factor gives a rank-one update of the block behind it, by rotations, which
    cannot fail. Also solve the system ``U' y = k(others, it)`` with the new factor, for
    :func:`combination`; writes to ``y`` (n - 1,).
    """
    pivot = U[a, a]
    removed = U[a, :n].copy()
    for r in range(a):
        y[r] = U[r, a]
        old = U[r, a + 1 : n]
        new = U[r, a : n - 1]
        for t in range(n - 1 - a):
            new[t] = old[t]
    for t in range(a + 1, n):
        y[t - 1] = pivot * removed[t]
    for r in range(a + 1, n):
        length = np.sqrt(U[r, r] * U[r, r] + removed[r] * removed[r])
        cosine = U[r, r] / length
        sine = removed[r] / length
        U[r - 1, r - 1] = length
        solution = y[r - 1] / length
        y[r - 1] = solution
        old = U[r, r + 1 : n]
        new = U[r - 1, r : n - 1]
        later_removed = removed[r + 1 : n]
        later_y = y[r : n - 1]
        for t in range(n - 1 - r):
            rotated = cosine * old[t] + sine * later_removed[t]
            later_removed[t] = cosine * later_removed[t] - sine * old[t]
            new[t] = rotated
            later_y[t] -= solution * rotated


@borrowing
def combination(U, n, y, c):
    """Solve ``U c = y``, and write to ``c`` (n,).

    With ``y`` from :func:`remove`, these are the coefficients of the projection onto the n others.
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


@borrowing
def spread(index, others, c, y, jitters, coefficients, sums, squares, diagonals):
    r"""Move a vector's part of a group onto others; return the change of ``||v||^2``.

    This is ``A[others] += c A[index]``. With ``r = psi(x) - sum_j c_j psi(x_j)`` the group changes
    by ``-r A[index]``. Since ``(K + diag(e)) c`` are the kernel values with the others,
    ``<r, psi(x_j)> = e_j c_j``. So the norm needs no kernel values.

    ``others``, ``c`` and ``y`` are (n,), see :func:`remove` and :func:`combination`. Writes to
    ``coefficients`` and ``sums`` (K, B) and ``squares`` (B,) of the group; ``jitters`` and
    ``diagonals`` are (B,).
    """
    n = others.shape[0]
    explained = 0.0
    jittered = 0.0
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


@inner
def drop(index, n, n_tokens, groups, rows, potentials, bank):
    """Project one of n support vectors onto the others; update the bank, norms and potentials."""
    position = 0
    while bank.order[position] != index:
        position += 1
    for i in range(position, n - 1):
        bank.order[i] = bank.order[i + 1]
    others = bank.order[: n - 1]
    y = np.empty(n - 1)
    c = np.empty(n - 1)
    for k in range(bank.factors.shape[0]):
        if groups.left_out[k]:
            continue
        coefficients = bank.coefficients[k]
        factor = bank.factors[k]
        remove(factor, n, position, y)
        combination(factor, n - 1, y, c)
        replace(rows[k], n_tokens, index, others, c, coefficients, potentials[k])
        arrays = (coefficients, bank.sums[k], bank.squares[k], bank.diagonals[k])
        groups.square_norms[k] += spread(index, others, c, y, bank.jitters[k], *arrays)


@inner
def admit(t, groups, rows, potentials, indices, bank):
    """Make token ``t`` a support vector, in place of another if all are taken; return its index.

    ``rows``, ``potentials`` and ``indices`` are those of :class:`TokensAtHand`. Writes to them, to
    the bank and, if a vector is replaced, to the norms in ``groups``.
    """
    n = bank.counts[SUPPORT]
    first = rows.shape[1]
    index = n
    n_others = min(n, bank.budget - 1)
    if n == bank.budget:
        index = weakest(groups.scales, bank.squares, bank.ages, n)
        drop(index, n, indices.shape[0], groups, rows, potentials, bank)
        bank.counts[REPLACED] += 1
    place(rows, t, index, indices, bank)
    values = np.empty(n_others)
    for k in range(bank.factors.shape[0]):
        if groups.left_out[k]:
            continue
        for r in range(n_others):
            values[r] = rows[k, t, first + bank.order[r]]
        square = bank.diagonals[k, index]
        jitter = bank.relative * square if square > 0.0 else 1.0
        bank.jitters[k, index] = append(bank.factors[k], n_others, values, square, jitter)
    bank.order[n_others] = index
    bank.ages[index] = bank.counts[ADMITTED]
    bank.counts[SUPPORT] = n_others + 1
    bank.counts[ADMITTED] += 1
    return index


@borrowing
def take_up(bank, tokens, first, n_tokens):
    """Set the kernel values and potentials of the tokens of an example, if it is a new one."""
    if tokens.first[0] == first:
        return
    n = bank.counts[SUPPORT]
    rows = tokens.rows
    for k in range(rows.shape[0]):
        for t in range(n_tokens):
            values = tokens.values[k, first + t]
            row = rows[k, t]
            for other in range(n_tokens):
                row[other] = values[first + other]
            for i in range(n):
                row[rows.shape[1] + i] = values[tokens.columns[i]]
    for t in range(n_tokens):
        tokens.indices[t] = UNKNOWN
    score(rows, n, n_tokens, bank.coefficients, tokens.potentials)
    tokens.first[0] = first


@inner
def move_along(budgeted, groups, tokens, at, moving, gradient, postponed):
    """Step token by token, since projections may intervene; tokens become support vectors."""
    rows = tokens.rows
    indices = tokens.indices[: gradient.shape[0]]
    for t in moving:
        if indices[t] == UNKNOWN:
            indices[t] = find(rows, t, budgeted.counts[SUPPORT], budgeted.diagonals)
        if indices[t] == UNKNOWN:
            index = admit(t, groups, rows, tokens.potentials, indices, budgeted)
            tokens.columns[index] = at + t
        move(rows, t, indices, gradient[t], postponed, groups, budgeted, tokens.potentials)


@compiled(counting=False)
def scores(bank, x, at, unary, pairwise):
    """Add the potentials of the current model."""
    budgeted = budgeted_at(bank)
    tokens = tokens_at_hand(x)
    take_up(budgeted, tokens, at, unary.shape[0])
    add_scaled(bank_groups_at(budgeted.groups).scales, tokens.potentials, unary)


@compiled
def average(bank, x, at, factors, total, unary, pairwise):
    """Add the potentials of the averaged groups, or of the current ones if ``total`` is 0."""
    budgeted = budgeted_at(bank)
    left_out = bank_groups_at(budgeted.groups).left_out
    tokens = tokens_at_hand(x)
    take_up(budgeted, tokens, at, unary.shape[0])
    potentials = tokens.potentials
    before = np.empty(potentials.shape)
    score(tokens.rows, budgeted.counts[SUPPORT], unary.shape[0], budgeted.sums, before)
    for k in range(potentials.shape[0]):
        if left_out[k]:
            continue
        for i in range(unary.shape[0]):
            for j in range(unary.shape[1]):
                value = factors[k] * potentials[k, i, j]
                if total > 0.0:
                    value = (value + before[k, i, j]) / total
                unary[i, j] += value


@compiled
def step(bank, x, at, gradient, pair_gradient, postponed):
    """Take the step of groups that are not empty, and measure the others; or a postponed step.

    ``gradient`` is (n, K). Writes to the bank, to the norms of its groups, and to the potentials at
    hand.
    """
    budgeted = budgeted_at(bank)
    groups = bank_groups_at(budgeted.groups)
    tokens = tokens_at_hand(x)
    take_up(budgeted, tokens, at, gradient.shape[0])
    moving = has_gradient(gradient)
    moves = postponed
    if not postponed:
        moves = measure(tokens.rows, moving, moving, moving, gradient, groups)
    for k in range(groups.activated.shape[0]):
        if postponed and groups.activated[k]:
            groups.square_norms[k] = 0.0  # the norm of the step is known, and moves add to it
    if moves:
        move_along(budgeted, groups, tokens, at, moving, gradient, postponed)


@compiled(counting=False)
def fold(bank, group, factor):
    """Multiply the coefficients of a group, after its share of the average is added to its sums."""
    budgeted = budgeted_at(bank)
    average = bank_groups_at(budgeted.groups).averages[group]
    coefficients = budgeted.coefficients[group]
    for i in range(coefficients.shape[1]):
        importance = 0.0
        for j in range(coefficients.shape[0]):
            if budgeted.sums.shape[2] > 0:
                budgeted.sums[group, j, i] += average * coefficients[j, i]
            coefficients[j, i] *= factor
            importance += coefficients[j, i] ** 2
        budgeted.squares[group, i] = importance * budgeted.diagonals[group, i]


@compiled(counting=False)
def slopes(bank, x, at, gradient, pair_gradient, slopes, totals):
    """Add the inner products of the potentials with the gradient."""
    tokens = tokens_at_hand(x)
    take_up(budgeted_at(bank), tokens, at, gradient.shape[0])
    kernel_inner_products(tokens.potentials, gradient, slopes, totals)
