"""Cyclic descent over groups of columns, each group being minimised exactly in the eigenbasis of its inner products."""

import numpy as np
from numba import njit

#: Groups of more columns have no eigenbasis: they step by the largest eigenvalue alone, from so many power iterations.
LARGEST_BASIS, POWER_ITERATIONS = 192, 20


@njit(cache=True, nogil=True)
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
        if not is_known[g]:
            is_known[g] = True
            _decompose_dense(block, curvature, basis, eigenvalues[first:last])
        if size == 1:
            correlation = np.dot(block[0], rho)
            change = _single_change(correlation, eigenvalues[first], threshold, ridge, w[first])
            if change != 0.0:
                w[first] += change
                _move_single(block[0], change, curvature, rho)
                gained += 0.5 * (eigenvalues[first] + ridge) * change**2
            continue
        changes = np.dot(block, rho)
        gain = _change(changes, w[first:last], basis, eigenvalues[first:last], threshold, ridge)
        if gain > 0.0:
            gained += gain
            w[first:last] += changes
            moves = np.dot(changes, block)
            for i in range(len(rho)):
                rho[i] -= curvature[i] * moves[i]
    return gained


@njit(cache=True, nogil=True)
def _move_single(column, change, curvature, rho):
    """Let the residual follow a single coefficient."""
    for i in range(len(rho)):
        rho[i] -= change * curvature[i] * column[i]


@njit(cache=True, nogil=True)
def _decompose_dense(block, curvature, basis, values):
    """Eigenvalues and eigenvectors of ``block @ diag(h) @ block.T``; of a large one a bound of the largest eigenvalue.

    Steps by a bound that is too low by less than one half still never go up.
    """
    size = len(block)
    if size == 1:
        values[0] = np.dot(block[0] * curvature, block[0])
    elif size <= LARGEST_BASIS:
        _decompose(np.dot(block * curvature, block.T), basis, values)
    else:
        vector = _start_vector(size)
        for _ in range(POWER_ITERATIONS):
            vector /= max(np.linalg.norm(vector), 1e-300)
            vector = np.dot(block, np.dot(vector, block) * curvature)
        values[:] = 1.1 * np.linalg.norm(vector)


@njit(cache=True, nogil=True)
def sweep_sparse(
    data, rows, ends, starts, groups, curvature, bases, offsets, eigenvalues, is_known, threshold, ridge, w, rho
):  # fmt: skip
    """The same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        basis, values = bases[offsets[g] : offsets[g + 1]], eigenvalues[first:last]
        if not is_known[g]:
            is_known[g] = True
            _decompose_sparse(data, rows, ends, first, last, curvature, basis, values)
        changes = np.zeros(last - first)
        for k in range(first, last):
            for entry in range(ends[k], ends[k + 1]):
                changes[k - first] += data[entry] * rho[rows[entry]]
        gain = _change(changes, w[first:last], basis, values, threshold, ridge)
        if gain > 0.0:
            gained += gain
            w[first:last] += changes
            for k in range(first, last):
                for entry in range(ends[k], ends[k + 1]):
                    rho[rows[entry]] -= changes[k - first] * curvature[rows[entry]] * data[entry]
    return gained


@njit(cache=True, nogil=True)
def _decompose_sparse(data, rows, ends, first, last, curvature, basis, values):
    """The same for columns of a CSC matrix."""
    if last - first <= LARGEST_BASIS:
        _decompose(_sparse_gram(data, rows, ends, first, last, curvature), basis, values)
    else:
        values[:] = 0.0
        for entry in range(ends[first], ends[last]):
            values += curvature[rows[entry]] * data[entry] ** 2


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _start_vector(size):
    """A vector that is unlikely to be orthogonal to anything."""
    return 1.0 + (7919 * np.arange(size) % 101) / 101.0


@njit(cache=True, nogil=True)
def _decompose(gram, basis, values):
    """Eigenvalues and eigenvectors, the latter in the columns of a square matrix that is stored in ``basis``."""
    if len(values) == 1:
        values[0] = gram[0, 0]
        return
    found, vectors = np.linalg.eigh(gram)
    for k in range(len(values)):
        values[k] = max(found[k], 0.0)
    basis.reshape(gram.shape)[:, :] = vectors


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
        changes[:] = -w
    else:
        changes[:] = np.dot(vectors, moves) if len(basis) else moves
    return gain


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def minimise_quadratic(
    gram, starts, groups, bases, offsets, eigenvalues, threshold, ridge, w, correlations, most, worth, every
):  # fmt: skip
    """Minimise over a few groups, by sweeps on the inner products of their columns (k, k) and Newton steps.

    ``w`` (k,) and the ``correlations`` (k,) of the columns with the residual follow; ``eigenvalues`` (k,) are those of
    the groups, whose ``bases`` begin at ``offsets``. It ends with a sweep that gains no more than the share ``worth``
    of what one has gained.
    """
    largest = 0.0
    for sweep in range(1, most + 1):
        gained = 0.0
        for g in range(len(groups)):
            first, last = starts[g], starts[g + 1]
            changes = correlations[first:last].copy()
            basis = bases[offsets[groups[g]] : offsets[groups[g] + 1]]
            gain = _change(changes, w[first:last], basis, eigenvalues[first:last], threshold, ridge)
            if gain > 0.0:
                gained += gain
                w[first:last] += changes
                for k in range(first, last):
                    row, change = gram[k], changes[k - first]
                    for j in range(len(correlations)):
                        correlations[j] -= change * row[j]
        largest = max(largest, gained)
        if gained <= worth * largest:
            break
        if sweep % every == 0:
            _newton_step(gram, starts, eigenvalues, threshold, ridge, w, correlations)


@njit(cache=True, nogil=True)
def _newton_step(gram, starts, eigenvalues, threshold, ridge, w, correlations):
    """Newton's step in the groups that are not zero; those that it would lead past zero are zero then."""
    system, right = gram.copy(), correlations - ridge * w
    # duplicate columns make the inner products singular
    least = ridge + 1e-12 * eigenvalues.sum()
    for g in range(len(starts) - 1):
        part = slice(starts[g], starts[g + 1])
        norm = np.linalg.norm(w[part])
        slope = 1.0
        if eigenvalues[part].max() * norm <= 1e-12 * threshold:
            system[part], system[:, part], right[part] = 0.0, 0.0, 0.0
        else:
            right[part] -= threshold / norm * w[part]
            slope = least
            if starts[g + 1] - starts[g] > 1:
                # across its ray the norm of a group is curved
                slope += threshold / norm
                system[part, part] -= threshold / norm**3 * np.outer(w[part], w[part])
        for k in range(starts[g], starts[g + 1]):
            system[k, k] += slope
    step = np.linalg.solve(system, right)
    for _ in range(3):
        moves, change = _stopped_at_zero(starts, threshold, ridge, w, step)
        products = np.dot(gram, moves)
        if change + 0.5 * np.dot(moves, products) < np.dot(moves, correlations):
            w += moves
            correlations -= products
            return
        step *= 0.5


@njit(cache=True, nogil=True)
def _stopped_at_zero(starts, threshold, ridge, w, step):
    """A step in which no group goes past zero, (k,), and how it changes the penalty."""
    moves, change = np.empty(len(w)), 0.0
    for g in range(len(starts) - 1):
        before = w[starts[g] : starts[g + 1]]
        after = before + step[starts[g] : starts[g + 1]]
        if np.dot(before, after) <= 0.0:
            after[:] = 0.0
        moves[starts[g] : starts[g + 1]] = after - before
        change += threshold * (np.linalg.norm(after) - np.linalg.norm(before))
        change += 0.5 * ridge * (np.dot(after, after) - np.dot(before, before))
    return moves, change


@njit(cache=True, nogil=True)
def sweep_outputs_dense(
    columns, starts, groups, curvature, bases, offsets, eigenvalues, is_known, shares, weights, damping, threshold,
    ridge, w, rho,
):  # fmt: skip
    """As :func:`sweep_dense`, with several outputs: ``w`` (k, K), ``rho`` (K, m).

    Steps are those for ``curvature``, which is at least the largest eigenvalue of each sample's Hessian. That is
    ``weights[i]`` times :math:`(1 - d) (\\mathrm{diag}(u) - u u^\\top) + d / 2` with the ``shares`` u (K, m) and the
    ``damping`` d; or where there are no shares diagonal.
    """
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        block, basis = columns[first:last], bases[offsets[g] : offsets[g + 1]]
        if not is_known[g]:
            is_known[g] = True
            _decompose_dense(block, curvature, basis, eigenvalues[first:last])
        moves = np.dot(rho, block.T).T.copy()
        gain = _change_outputs(moves, w[first:last], basis, eigenvalues[first:last], threshold, ridge)
        if gain > 0.0:
            gained += gain
            w[first:last] += moves
            changes = np.dot(moves.T.copy(), block)
            for k in range(len(rho) if len(shares) == 0 else 0):
                for i in range(len(curvature)):
                    rho[k, i] -= curvature[i] * changes[k, i]
            for i in range(len(curvature) if len(shares) else 0):
                _follow(rho, i, changes, i, 1.0, curvature, shares, weights, damping)
    return gained


@njit(cache=True, nogil=True)
def sweep_outputs_sparse(
    data, rows, ends, starts, groups, curvature, bases, offsets, eigenvalues, is_known, shares, weights, damping,
    threshold, ridge, w, rho,
):  # fmt: skip
    """The same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        basis, values = bases[offsets[g] : offsets[g + 1]], eigenvalues[first:last]
        if not is_known[g]:
            is_known[g] = True
            _decompose_sparse(data, rows, ends, first, last, curvature, basis, values)
        moves = np.zeros((last - first, len(rho)))
        for j in range(first, last):
            for entry in range(ends[j], ends[j + 1]):
                for k in range(len(rho)):
                    moves[j - first, k] += data[entry] * rho[k, rows[entry]]
        gain = _change_outputs(moves, w[first:last], basis, values, threshold, ridge)
        if gain > 0.0:
            gained += gain
            w[first:last] += moves
            for j in range(first, last):
                for entry in range(ends[j], ends[j + 1]):
                    _follow(rho, rows[entry], moves.T, j - first, data[entry], curvature, shares, weights, damping)
    return gained


@njit(cache=True, nogil=True)
def _follow(rho, i, changes, j, factor, curvature, shares, weights, damping):
    """Let the residual of sample i follow ``factor * changes[:, j]``, by which its predictions move."""
    mean = 0.0
    for k in range(len(shares)):
        mean += shares[k, i] * changes[k, j]
    for k in range(len(rho)):
        bent = curvature[i] * changes[k, j]
        if len(shares):
            bent = (1.0 - damping) * shares[k, i] * (changes[k, j] - mean) + 0.5 * damping * changes[k, j]
            bent *= weights[i]
        rho[k, i] -= factor * bent


@njit(cache=True, nogil=True)
def _change_outputs(changes, w, basis, values, threshold, ridge):
    """As :func:`_change`, for several outputs: arrays (size, K)."""
    if values.max() <= 0.0:
        changes[:] = 0.0
        return 0.0
    before, target, vectors = w, changes, basis.reshape((len(w), len(basis) // len(w)))
    if len(basis):
        before, target = np.dot(vectors.T, w), np.dot(vectors.T, changes)
    moves, lengths = np.empty(w.shape), np.empty(len(w))
    for j in range(len(w)):
        moves[j] = target[j] + values[j] * before[j]
        lengths[j] = np.sqrt(np.dot(moves[j], moves[j]))
    norm, gain = _norm_of_minimum(lengths, values, threshold, ridge), 0.0
    for j in range(len(w)):
        slope = (values[j] + ridge) * norm + threshold
        for k in range(w.shape[1]):
            moves[j, k] = (moves[j, k] * norm / slope if norm > 0.0 else 0.0) - before[j, k]
            gain += 0.5 * (values[j] + ridge) * moves[j, k] ** 2
    if norm == 0.0:
        changes[:] = -w
    else:
        changes[:] = np.dot(vectors, moves) if len(basis) else moves
    return gain
