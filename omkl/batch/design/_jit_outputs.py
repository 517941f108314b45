"""Cyclic descent over groups of columns with several outputs each, on the columns or on their inner products."""

import numpy as np

from omkl._compilation import compiled


@compiled
def sweep_outputs_dense(
    columns, starts, groups, curvature, bases, offsets, eigenvalues, shares, weights, damping, threshold,
    ridge, w, rho,
):  # fmt: skip
    """Descend over each of the ``groups`` in turn, on the columns of an array; what that gains at least is returned.

    As :func:`~omkl.batch.design._jit_sweeps.sweep_dense`, with several outputs: ``w`` (k, K), ``rho`` (K, m); all
    eigenbases must be known. Steps are those for ``curvature``, which is at least the largest eigenvalue of each
    sample's Hessian. That is ``weights[i]`` times :math:`(1 - d) (\\mathrm{diag}(u) - u u^\\top) + d / 2` with the
    ``shares`` u (K, m) and the ``damping`` d; or where there are no shares diagonal.
    """
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        block, basis = columns[first:last], bases[offsets[g] : offsets[g + 1]]
        moves = np.dot(rho, block.T).T.copy()
        gain = _change_outputs(moves, w[first:last], basis, eigenvalues[first:last], threshold, ridge)
        if gain > 0.0:
            gained += gain
            _add(w, first, moves)
            changes = np.dot(moves.T.copy(), block)
            for k in range(len(rho) if len(shares) == 0 else 0):
                for i in range(len(curvature)):
                    rho[k, i] -= curvature[i] * changes[k, i]
            if len(shares):
                _follow_all(rho, changes, shares, weights, damping)
    return gained


@compiled
def sweep_outputs_sparse(
    data, rows, ends, starts, groups, curvature, bases, offsets, eigenvalues, shares, weights, damping,
    threshold, ridge, w, rho,
):  # fmt: skip
    """The same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        basis, values = bases[offsets[g] : offsets[g + 1]], eigenvalues[first:last]
        moves = np.zeros((last - first, len(rho)))
        for j in range(first, last):
            for entry in range(ends[j], ends[j + 1]):
                for k in range(len(rho)):
                    moves[j - first, k] += data[entry] * rho[k, rows[entry]]
        gain = _change_outputs(moves, w[first:last], basis, values, threshold, ridge)
        if gain > 0.0:
            gained += gain
            _add(w, first, moves)
            for j in range(first, last):
                for entry in range(ends[j], ends[j + 1]):
                    _follow(rho, rows[entry], moves.T, j - first, data[entry], curvature, shares, weights, damping)
    return gained


@compiled
def _follow_all(rho, changes, shares, weights, damping):
    """Let the residuals follow ``changes`` (K, m) of the predictions, where the loss couples outputs."""
    means = np.zeros(len(weights))
    for k in range(len(shares)):
        for i in range(len(weights)):
            means[i] += shares[k, i] * changes[k, i]
    for k in range(len(shares)):
        for i in range(len(weights)):
            bent = (1.0 - damping) * shares[k, i] * (changes[k, i] - means[i]) + 0.5 * damping * changes[k, i]
            rho[k, i] -= weights[i] * bent


@compiled
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


@compiled
def _change_outputs(changes, w, basis, values, threshold, ridge):
    """How far a group moves with all its outputs, (size, K), in place of its correlations; what that gains, at least.

    As :func:`~omkl.batch.design._jit_sweeps._change`: each direction of the eigenbasis has K coefficients.
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
def _add(w, first, changes):
    """Add changes (size, K) to the coefficients of a group, element by element: arrays take seconds to compile."""
    for j in range(len(changes)):
        for k in range(changes.shape[1]):
            w[first + j, k] += changes[j, k]


@compiled
def _change_row(changes, w, value, threshold, ridge):
    """The same for a single column, (K,)."""
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
def sweep_products(
    gram, starts, groups, bases, offsets, eigenvalues, threshold, ridge, w, correlations, square, target, most, worth,
    largest,
):  # fmt: skip
    """Descend over groups, on the inner products of their columns.

    The number of sweeps, at most so many, whether they are over, the square and the largest gain are returned.

    The first k rows and columns of ``gram`` are theirs. ``w`` (k, K) and the ``correlations`` (K, k) of the columns
    with the residuals follow; ``eigenvalues`` (k,) are those of the groups, whose ``bases`` begin at ``offsets``. With
    the ``square`` of the residuals, each divided by its curvature, it ends where the duality gap is ``target``; at the
    latest with a sweep that gains no more than the share ``worth`` of the ``largest`` gain of one.
    """
    size = starts[-1]
    for sweep in range(1, most + 1):
        gained = 0.0
        for g in range(len(groups)):
            first, last = starts[g], starts[g + 1]
            if _stays_zero(correlations, w, first, last, threshold):
                continue
            changes = correlations[:, first:last].T.copy()
            before = changes.copy()
            basis = bases[offsets[groups[g]] : offsets[groups[g] + 1]]
            gain = _change_outputs(changes, w[first:last], basis, eigenvalues[first:last], threshold, ridge)
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
def _stays_zero(correlations, w, first, last, threshold):
    """Whether a group is zero and has no reason to move."""
    total = 0.0
    for k in range(first, last):
        for output in range(len(correlations)):
            if w[k, output] != 0.0:
                return False
            total += correlations[output, k] ** 2
    return np.sqrt(total) <= threshold


@compiled
def _follow_products(row, changes, correlations):
    """Let correlations follow the changes (K,) of one column's coefficients, whose inner products are ``row`` (k,)."""
    for output in range(len(correlations)):
        follower, change = correlations[output], changes[output]
        for j in range(len(row)):
            follower[j] -= change * row[j]


@compiled
def _model_gap(starts, threshold, ridge, w, correlations, square):
    """The duality gap of the quadratic model, of residuals with that square."""
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
