"""Cyclic descent over groups of columns; each group is minimised exactly in the eigenbasis of its inner products.

Coefficients ``w`` (k, K) and weighted residuals ``rho`` (K, m) are those of K outputs.
"""

import numpy as np

from omkl._compilation import compiled

#: Groups of more columns have no eigenbasis: they step by the largest eigenvalue alone, from so many power iterations.
LARGEST_BASIS, POWER_ITERATIONS = 192, 20


@compiled
def sweep_dense(
    columns,
    starts,
    groups,
    curvature,
    bases,
    offsets,
    eigenvalues,
    is_known,
    shares,
    weights,
    damping,
    threshold,
    ridge,
    w,
    rho,
):
    """Minimise over each of the ``groups`` in turn, in place, on the columns of an array.

    Parameters
    ----------
    columns : array of shape (k, m)
        Columns of the working set as rows; those of group g begin at ``starts[g]``.
    curvature : array of shape (m,)
        Weights of the samples in the quadratic model: bounds of the Hessians' largest eigenvalues where the loss
        couples outputs.
    bases, offsets, eigenvalues, is_known : arrays
        Eigenvectors of each group's inner products, which begin at ``offsets[g]``, and eigenvalues (k,). Both are
        computed where a group is met first.
    shares, weights, damping : array of shape (K, m), array of shape (m,), float
        The Hessian of sample i, ``weights[i]`` times :math:`(1 - d) (\\mathrm{diag}(u) - u u^\\top) + d / 2` with the
        shares u and the damping d. Without shares it is diagonal.
    threshold, ridge : float
        Weights of the norm of a group and of half its square.

    Returns
    -------
    float
        A lower bound of the decrease.
    """
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        block, basis, values = columns[first:last], bases[offsets[g] : offsets[g + 1]], eigenvalues[first:last]
        if last - first == 1 and len(rho) == 1:
            correlation = np.dot(block[0], rho[0])
            if w[first, 0] == 0.0 and abs(correlation) <= threshold:
                continue
            if not is_known[g]:
                is_known[g] = True
                _decompose_dense(block, curvature, basis, values)
            change = _single_change(correlation, values[0], threshold, ridge, w[first, 0])
            if change != 0.0:
                w[first, 0] += change
                gained += 0.5 * (values[0] + ridge) * change**2
                residual, column = rho[0], block[0]
                for i in range(len(curvature)):
                    residual[i] -= change * curvature[i] * column[i]
            continue
        moves = np.dot(block, rho[0]).reshape((last - first, 1)) if len(rho) == 1 else np.dot(rho, block.T).T.copy()
        if _stays_zero(moves, w[first:last], threshold):
            continue
        if not is_known[g]:
            is_known[g] = True
            _decompose_dense(block, curvature, basis, values)
        gain = _change(moves, w[first:last], basis, values, threshold, ridge)
        if gain > 0.0:
            gained += gain
            _add(w, first, moves)
            changes = np.dot(moves.T.copy(), block)
            _follow_all(rho, changes, curvature, shares, weights, damping)
    return gained


@compiled
def sweep_sparse(
    data,
    rows,
    ends,
    starts,
    groups,
    curvature,
    bases,
    offsets,
    eigenvalues,
    is_known,
    shares,
    weights,
    damping,
    threshold,
    ridge,
    w,
    rho,
):
    """Do the same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        basis, values = bases[offsets[g] : offsets[g + 1]], eigenvalues[first:last]
        moves = np.zeros((last - first, len(rho)))
        for j in range(first, last):
            for k in range(len(rho)):
                residual, total = rho[k], 0.0
                for entry in range(ends[j], ends[j + 1]):
                    total += data[entry] * residual[rows[entry]]
                moves[j - first, k] = total
        if _stays_zero(moves, w[first:last], threshold):
            continue
        if not is_known[g]:
            is_known[g] = True
            _decompose_sparse(data, rows, ends, first, last, curvature, basis, values)
        gain = _change(moves, w[first:last], basis, values, threshold, ridge)
        if gain > 0.0:
            gained += gain
            _add(w, first, moves)
            for j in range(first, last):
                if len(shares) == 0:
                    for k in range(len(rho)):
                        residual, change = rho[k], moves[j - first, k]
                        for entry in range(ends[j], ends[j + 1]):
                            residual[rows[entry]] -= change * curvature[rows[entry]] * data[entry]
                    continue
                for entry in range(ends[j], ends[j + 1]):
                    _follow(rho, rows[entry], moves[j - first], data[entry], shares, weights, damping)
    return gained


@compiled
def _stays_zero(correlations, w, threshold):
    """Return whether a group is zero and has no reason to move, whatever its inner products."""
    total = 0.0
    for j in range(len(w)):
        for k in range(w.shape[1]):
            if w[j, k] != 0.0:
                return False
            total += correlations[j, k] ** 2
    return np.sqrt(total) <= threshold


@compiled
def _single_change(correlation, value, threshold, ridge, w):
    """Return how far a single coefficient moves."""
    if value <= 0.0:
        return 0.0
    target = correlation + value * w
    if target > threshold:
        return (target - threshold) / (value + ridge) - w
    if target < -threshold:
        return (target + threshold) / (value + ridge) - w
    return -w


@compiled
def _follow_all(rho, changes, curvature, shares, weights, damping):
    """Update the residuals after ``changes`` (K, m) of the predictions."""
    if len(shares) == 0:
        for k in range(len(rho)):
            for i in range(len(curvature)):
                rho[k, i] -= curvature[i] * changes[k, i]
        return
    means = np.zeros(len(weights))
    for k in range(len(shares)):
        for i in range(len(weights)):
            means[i] += shares[k, i] * changes[k, i]
    for k in range(len(shares)):
        for i in range(len(weights)):
            bent = (1.0 - damping) * shares[k, i] * (changes[k, i] - means[i]) + 0.5 * damping * changes[k, i]
            rho[k, i] -= weights[i] * bent


@compiled
def _follow(rho, i, changes, factor, shares, weights, damping):
    """Update the coupled residuals of sample i after predictions that change by ``factor * changes``."""
    mean = 0.0
    for k in range(len(shares)):
        mean += shares[k, i] * changes[k]
    for k in range(len(shares)):
        bent = (1.0 - damping) * shares[k, i] * (changes[k] - mean) + 0.5 * damping * changes[k]
        rho[k, i] -= factor * weights[i] * bent


@compiled
def _change(changes, w, basis, values, threshold, ridge):
    """Replace the correlations (size, K) of a group by how far it moves; return a lower bound of the decrease.

    The new coefficients minimise :math:`x' G x / 2 - c' x + t \\|x\\| + r \\|x\\|^2 / 2`, with the inner products G and
    the correlations c without the group. In the eigenbasis :math:`x_j = c_j b / ((\\lambda_j + r) b + t)` with the
    norm b of :func:`_norm_of_minimum`.
    """
    if len(w) == 1:
        return _change_row(changes[0], w[0], values[0], threshold, ridge)
    if values.max() <= 0.0:
        changes[:] = 0.0
        return 0.0
    before, target, vectors = w, changes, basis.reshape((len(w), len(basis) // len(w)))
    if len(basis):
        before, target = np.dot(vectors.T, w), np.dot(vectors.T, changes)
    moves, lengths = np.empty(w.shape), np.empty(len(w))
    for j in range(len(w)):
        lengths[j] = 0.0
        for k in range(w.shape[1]):
            moves[j, k] = target[j, k] + values[j] * before[j, k]
            lengths[j] += moves[j, k] ** 2
        lengths[j] = np.sqrt(lengths[j])
    norm, gain = _norm_of_minimum(lengths, values, threshold, ridge), 0.0
    for j in range(len(w)):
        slope = (values[j] + ridge) * norm + threshold
        for k in range(w.shape[1]):
            moves[j, k] = (moves[j, k] * norm / slope if norm > 0.0 else 0.0) - before[j, k]
            gain += 0.5 * (values[j] + ridge) * moves[j, k] ** 2
    if norm == 0.0:
        # rounding in the eigenbasis would leave a group that is nearly zero
        for j in range(len(w)):
            for k in range(w.shape[1]):
                changes[j, k] = -w[j, k]
        return gain
    if len(basis):
        moves = np.dot(vectors, moves)
    for j in range(len(w)):
        for k in range(w.shape[1]):
            changes[j, k] = moves[j, k]
    return gain


@compiled
def _change_row(changes, w, value, threshold, ridge):
    """Do the same for a single column, (K,)."""
    norm, gain = 0.0, 0.0
    for k in range(len(w) if value > 0.0 else 0):
        changes[k] += value * w[k]
        norm += changes[k] ** 2
    norm = np.sqrt(norm)
    ratio = (1.0 - threshold / norm) / (value + ridge) if norm > threshold else 0.0
    for k in range(len(w)):
        changes[k] = ratio * changes[k] - w[k] if value > 0.0 else 0.0
        gain += 0.5 * (value + ridge) * changes[k] ** 2
    return gain


@compiled
def _add(w, first, changes):
    """Add changes (size, K) to the coefficients of a group, element by element: arrays take seconds to compile."""
    for j in range(len(changes)):
        for k in range(changes.shape[1]):
            w[first + j, k] += changes[j, k]


@compiled
def _norm_of_minimum(target, values, threshold, ridge):
    """Return the root b of :math:`\\sum_j c_j^2 / ((\\lambda_j + r) b + t)^2 = 1`; 0 where no b > 0 is one.

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
def _decompose_dense(block, curvature, basis, values):
    """Find the eigenvectors of ``block @ diag(h) @ block.T``; of a large one bound the largest eigenvalue.

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
        # unlikely to be orthogonal to anything
        vector = 1.0 + (7919 * np.arange(size) % 101) / 101.0
        for _ in range(POWER_ITERATIONS):
            vector = vector / max(float(np.linalg.norm(vector)), 1e-300)
            vector = np.dot(block, np.dot(vector, block) * curvature)
        values[:] = 1.1 * np.linalg.norm(vector)


@compiled
def _decompose_sparse(data, rows, ends, first, last, curvature, basis, values):
    """Do the same for columns of a CSC matrix."""
    if last - first <= LARGEST_BASIS:
        _decompose(_sparse_gram(data, rows, ends, first, last, curvature), basis, values)
    else:
        values[:] = 0.0
        for entry in range(ends[first], ends[last]):
            values += curvature[rows[entry]] * data[entry] ** 2


@compiled
def _sparse_gram(data, rows, ends, first, last, curvature):
    """Return weighted inner products of columns of a CSC matrix."""
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
def _decompose(gram, basis, values):
    """Write the eigenvalues, and the eigenvectors as the columns of a square matrix in ``basis``."""
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
def decompose_dense(columns, starts, groups, curvature, bases, offsets, eigenvalues, is_known):
    """Find the eigenbases of the ``groups`` that are not known, of the columns of an array."""
    for g in groups:
        if not is_known[g]:
            is_known[g] = True
            block, basis = columns[starts[g] : starts[g + 1]], bases[offsets[g] : offsets[g + 1]]
            _decompose_dense(block, curvature, basis, eigenvalues[starts[g] : starts[g + 1]])


@compiled
def decompose_sparse(data, rows, ends, starts, groups, curvature, bases, offsets, eigenvalues, is_known):
    """Do the same for columns of a CSC matrix."""
    for g in groups:
        if not is_known[g]:
            is_known[g] = True
            basis, values = bases[offsets[g] : offsets[g + 1]], eigenvalues[starts[g] : starts[g + 1]]
            _decompose_sparse(data, rows, ends, starts[g], starts[g + 1], curvature, basis, values)


@compiled
def sweep_products(
    gram,
    starts,
    groups,
    bases,
    offsets,
    eigenvalues,
    threshold,
    ridge,
    w,
    correlations,
    square,
    target,
    most,
    worth,
    largest,
):
    """Minimise over all groups in turn, in place, on the inner products of their columns.

    The first k rows and columns of ``gram`` are theirs, and ``correlations`` (K, k) are those with the residuals. With
    the ``square`` of the residuals, each divided by its curvature, it ends at the duality gap ``target``; at the latest
    after ``most`` sweeps, or one that gains no more than the share ``worth`` of the ``largest`` gain.

    Returns
    -------
    sweeps : int
    is_over : bool
    square, largest : float
    """
    size = starts[-1]
    for sweep in range(1, most + 1):
        gained = 0.0
        for g in range(len(groups)):
            first, last = starts[g], starts[g + 1]
            if _stays_zero(correlations[:, first:last].T, w[first:last], threshold):
                continue
            changes = correlations[:, first:last].T.copy()
            before = changes.copy()
            basis = bases[offsets[groups[g]] : offsets[groups[g] + 1]]
            gain = _change(changes, w[first:last], basis, eigenvalues[first:last], threshold, ridge)
            if gain > 0.0:
                gained += gain
                _add(w, first, changes)
                for k in range(first, last):
                    _follow_products(gram[k, :size], changes[k - first], correlations)
                for k in range(first, last):
                    for output in range(len(correlations)):
                        both = before[k - first, output] + correlations[output, k]
                        square -= changes[k - first, output] * both
        largest = max(largest, gained)
        if gained <= worth * largest or _model_gap(starts, threshold, ridge, w, correlations, square) <= target:
            return sweep, True, square, largest
    return most, False, square, largest


@compiled
def _follow_products(row, changes, correlations):
    """Update correlations after changes (K,) of one column's coefficients, with inner products ``row`` (k,)."""
    for output in range(len(correlations)):
        follower, change = correlations[output], changes[output]
        for j in range(len(row)):
            follower[j] -= change * row[j]


@compiled
def _model_gap(starts, threshold, ridge, w, correlations, square):
    """Return the duality gap of the quadratic model at residuals with that square."""
    penalty, reach, largest, conjugate = 0.0, 0.0, 0.0, 0.0
    for g in range(len(starts) - 1):
        squared, dual = 0.0, 0.0
        for k in range(starts[g], starts[g + 1]):
            for output in range(len(correlations)):
                squared += w[k, output] ** 2
                dual += correlations[output, k] ** 2
                reach += w[k, output] * correlations[output, k]
        penalty += threshold * np.sqrt(squared) + 0.5 * ridge * squared
        largest = max(largest, np.sqrt(dual))
        if ridge > 0.0:
            conjugate += 0.5 * max(np.sqrt(dual) - threshold, 0.0) ** 2 / ridge
    scale = threshold / largest if largest > threshold and ridge == 0.0 else 1.0
    return 0.5 * square + penalty + conjugate - scale * (square + reach) + 0.5 * scale**2 * square
