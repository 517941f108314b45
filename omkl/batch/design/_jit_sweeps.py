"""Cyclic descent over groups of columns, each group being minimised exactly in the eigenbasis of its inner products."""

import numpy as np

from omkl._compilation import compiled

#: Groups of more columns have no eigenbasis: they step by the largest eigenvalue alone, from so many power iterations.
LARGEST_BASIS, POWER_ITERATIONS = 192, 20


@compiled
def sweep_dense(
    columns, starts, groups, curvature, bases, offsets, eigenvalues, is_known, threshold, ridge, w, rho
):  # fmt: skip
    """Minimise over each of the ``groups`` in turn, on the columns of an array; what that gains at least is returned.

    ``columns`` (k, m) has a column of the working set in each row, and those of group g begin at ``starts[g]``; the
    quadratic model weighs samples by ``curvature`` (m,). Eigenvectors of each group's inner products are in ``bases``,
    where they begin at ``offsets[g]``, the ``eigenvalues`` are (k,), and both are computed where a group is met first
    and is not yet ``is_known``. ``threshold`` and ``ridge`` weigh the norm of a group and half its square. The
    coefficients ``w`` (k,) and the weighted residual ``rho`` (m,) follow.
    """
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        block, size = columns[first:last], last - first
        basis = bases[offsets[g] : offsets[g + 1]]
        if size == 1:
            if not is_known[g]:
                is_known[g] = True
                _decompose_dense(block, curvature, basis, eigenvalues[first:last])
            change = _single_change(np.dot(block[0], rho), eigenvalues[first], threshold, ridge, w[first])
            if change != 0.0:
                w[first] += change
                _move_single(block[0], change, curvature, rho)
                gained += 0.5 * (eigenvalues[first] + ridge) * change**2
            continue
        changes = np.dot(block, rho)
        if _stays_zero(changes, w[first:last], threshold):
            continue
        if not is_known[g]:
            is_known[g] = True
            _decompose_dense(block, curvature, basis, eigenvalues[first:last])
        gain = _change(changes, w[first:last], basis, eigenvalues[first:last], threshold, ridge)
        if gain > 0.0:
            gained += gain
            for k in range(first, last):
                w[k] += changes[k - first]
            moves = np.dot(changes, block)
            for i in range(len(rho)):
                rho[i] -= curvature[i] * moves[i]
    return gained


@compiled
def _stays_zero(correlations, w, threshold):
    """Whether a group is zero and has no reason to move, whatever its inner products."""
    total = 0.0
    for k in range(len(w)):
        if w[k] != 0.0:
            return False
        total += correlations[k] ** 2
    return np.sqrt(total) <= threshold


@compiled
def _move_single(column, change, curvature, rho):
    """Let the residual follow a single coefficient."""
    for i in range(len(rho)):
        rho[i] -= change * curvature[i] * column[i]


@compiled
def _decompose_dense(block, curvature, basis, values):
    """Eigenvalues and eigenvectors of ``block @ diag(h) @ block.T``; of a large one a bound of the largest eigenvalue.

    Steps by a bound that is too low by less than one half still never go up.
    """
    size = len(block)
    if size == 1:
        values[0] = np.dot(block[0] * curvature, block[0])
    elif size <= LARGEST_BASIS:
        uniform = curvature[0]
        for i in range(len(curvature)):
            if curvature[i] != uniform:
                break
        else:
            _decompose(uniform * np.dot(block, block.T), basis, values)
            return
        _decompose(np.dot(block * curvature, block.T), basis, values)
    else:
        vector = _start_vector(size)
        for _ in range(POWER_ITERATIONS):
            vector /= max(np.linalg.norm(vector), 1e-300)
            vector = np.dot(block, np.dot(vector, block) * curvature)
        values[:] = 1.1 * np.linalg.norm(vector)


@compiled
def sweep_sparse(
    data, rows, ends, starts, groups, curvature, bases, offsets, eigenvalues, is_known, threshold, ridge, w, rho
):  # fmt: skip
    """The same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        basis, values = bases[offsets[g] : offsets[g + 1]], eigenvalues[first:last]
        changes = np.zeros(last - first)
        for k in range(first, last):
            for entry in range(ends[k], ends[k + 1]):
                changes[k - first] += data[entry] * rho[rows[entry]]
        if _stays_zero(changes, w[first:last], threshold):
            continue
        if not is_known[g]:
            is_known[g] = True
            _decompose_sparse(data, rows, ends, first, last, curvature, basis, values)
        gain = _change(changes, w[first:last], basis, values, threshold, ridge)
        if gain > 0.0:
            gained += gain
            for k in range(first, last):
                w[k] += changes[k - first]
            for k in range(first, last):
                for entry in range(ends[k], ends[k + 1]):
                    rho[rows[entry]] -= changes[k - first] * curvature[rows[entry]] * data[entry]
    return gained


@compiled
def _decompose_sparse(data, rows, ends, first, last, curvature, basis, values):
    """The same for columns of a CSC matrix."""
    if last - first <= LARGEST_BASIS:
        _decompose(_sparse_gram(data, rows, ends, first, last, curvature), basis, values)
    else:
        values[:] = 0.0
        for entry in range(ends[first], ends[last]):
            values += curvature[rows[entry]] * data[entry] ** 2


@compiled
def _sparse_gram(data, rows, ends, first, last, curvature):
    """Weighted inner products of columns of a CSC matrix."""
    gram, column = np.zeros((last - first, last - first)), np.zeros(len(curvature))
    for k in range(first, last):
        for entry in range(ends[k], ends[k + 1]):
            column[rows[entry]] += curvature[rows[entry]] * data[entry]
        for j in range(first, k + 1):
            for entry in range(ends[j], ends[j + 1]):
                gram[j - first, k - first] += data[entry] * column[rows[entry]]
            gram[k - first, j - first] = gram[j - first, k - first]
        for entry in range(ends[k], ends[k + 1]):
            column[rows[entry]] = 0.0
    return gram


@compiled
def _start_vector(size):
    """A vector that is unlikely to be orthogonal to anything."""
    return 1.0 + (7919 * np.arange(size) % 101) / 101.0


@compiled
def _decompose(gram, basis, values):
    """Eigenvalues and eigenvectors, the latter in the columns of a square matrix that is stored in ``basis``."""
    if len(values) == 1:
        values[0] = gram[0, 0]
        return
    found, vectors = np.linalg.eigh(gram)
    for k in range(len(values)):
        values[k] = max(found[k], 0.0)
    # element by element, as an assignment of arrays takes seconds to compile
    for k in range(len(values)):
        for j in range(len(values)):
            basis[k * len(values) + j] = vectors[k, j]


@compiled
def _single_change(correlation, value, threshold, ridge, w):
    """How far a single coefficient moves."""
    if value <= 0.0:
        return 0.0
    target = correlation + value * w
    if target > threshold:
        return (target - threshold) / (value + ridge) - w
    if target < -threshold:
        return (target + threshold) / (value + ridge) - w
    return -w


@compiled
def _change(changes, w, basis, values, threshold, ridge):
    """How far a group moves, in place of the correlations of its columns with the residual; what that gains, at least.

    The group's new coefficients minimise :math:`x' G x / 2 - c' x + t \\|x\\| + r \\|x\\|^2 / 2`, with G of these
    eigenvalues and eigenvectors, and c the correlations without the group. In the eigenbasis
    :math:`x_j = c_j b / ((\\lambda_j + r) b + t)`, with the norm b as :func:`_norm_of_minimum` finds it.
    """
    if len(w) == 1:
        changes[0] = _single_change(changes[0], values[0], threshold, ridge, w[0])
        return 0.5 * (values[0] + ridge) * changes[0] ** 2
    if values.max() <= 0.0:
        changes[:] = 0.0
        return 0.0
    before, target, vectors = w, changes, basis.reshape((len(w), len(basis) // len(w)))
    if len(basis):
        before, target = np.dot(w, vectors), np.dot(changes, vectors)
    target = target + values * before
    norm, gain = _norm_of_minimum(target, values, threshold, ridge), 0.0
    moves = np.empty(len(w))
    for k in range(len(w)):
        slope = (values[k] + ridge) * norm + threshold
        moves[k] = (target[k] * norm / slope if norm > 0.0 else 0.0) - before[k]
        gain += 0.5 * (values[k] + ridge) * moves[k] ** 2
    if norm == 0.0:
        # not by way of the eigenbasis, whose rounding would leave a group that is nearly zero
        for k in range(len(w)):
            changes[k] = -w[k]
    else:
        if len(basis):
            moves = np.dot(vectors, moves)
        for k in range(len(w)):
            changes[k] = moves[k]
    return gain


@compiled
def _norm_of_minimum(target, values, threshold, ridge):
    """The root b of :math:`\\sum_j c_j^2 / ((\\lambda_j + r) b + t)^2 = 1`; 0 where no b > 0 is one.

    Newton's method on the sum to the power of -1/2, which is concave in b: from the left it never goes past the root.
    """
    norm, largest = 0.0, 0.0
    for k in range(len(target)):
        norm += target[k] ** 2
        largest = max(largest, values[k])
    norm = np.sqrt(norm)
    if norm <= threshold:
        return 0.0
    root = (norm - threshold) / (largest + ridge)
    for _ in range(50):
        total, slope = 0.0, 0.0
        for k in range(len(target)):
            weight = values[k] + ridge
            reached = weight * root + threshold
            if reached > 0.0:
                share = (target[k] / reached) ** 2
                total += share
                slope += share * weight / reached
        if total <= 1.0 + 1e-14 or slope <= 0.0:
            break
        step = (np.sqrt(total) - 1.0) * total / slope
        root += step
        if step <= 1e-15 * root:
            break
    return root


@compiled
def decompose_dense(columns, starts, groups, curvature, bases, offsets, eigenvalues, is_known):
    """Find the eigenbases of the ``groups`` that are not known, of the columns of an array."""
    for g in groups:
        if not is_known[g]:
            is_known[g] = True
            block, basis = columns[starts[g] : starts[g + 1]], bases[offsets[g] : offsets[g + 1]]
            _decompose_dense(block, curvature, basis, eigenvalues[starts[g] : starts[g + 1]])


@compiled
def decompose_sparse(data, rows, ends, starts, groups, curvature, bases, offsets, eigenvalues, is_known):
    """The same for columns of a CSC matrix."""
    for g in groups:
        if not is_known[g]:
            is_known[g] = True
            basis, values = bases[offsets[g] : offsets[g + 1]], eigenvalues[starts[g] : starts[g + 1]]
            _decompose_sparse(data, rows, ends, starts[g], starts[g + 1], curvature, basis, values)
