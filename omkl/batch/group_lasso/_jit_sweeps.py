"""Cyclic descent over groups of columns, on the columns themselves or on their inner products.

Coefficients ``w`` (k, K) and weighted residuals ``rho`` (K, m) have K outputs.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import compiled, inner

#: Largest group with an eigenbasis. Larger groups use a bound of the largest eigenvalue, from power
#: iterations.
LARGEST_BASIS, POWER_ITERATIONS = 192, 20
#: Maximum number of proximal steps for one group, which end at a change of at most this share of
#: the first.
MOST_STEPS, CLOSE = 50, 1e-3


class Columns(NamedTuple):
    """Columns of a working set: rows of a C-ordered array (k, m), or a CSC matrix if ``dense`` is
    empty.
    """

    dense: np.ndarray
    data: np.ndarray
    rows: np.ndarray
    ends: np.ndarray


class Bases(NamedTuple):
    """Eigenvectors of each group's inner products from ``offsets[g]`` on, and eigenvalues (k,).

    Penalties of single coefficients store the inner products themselves, and their largest
    eigenvalue.
    """

    vectors: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    is_known: np.ndarray


class Coupling(NamedTuple):
    r"""Hessian of sample i, ``weights[i]`` times :math:`(1 - d) (\mathrm{diag}(u) - u u^\top) + d /
    2`.

    The shares u are (K, m), d is the damping. Without shares the Hessian is diagonal.
    """

    shares: np.ndarray
    weights: np.ndarray
    damping: float


class Penalty(NamedTuple):
    """Weights of the norm of a group and of half its square.

    In mixed norms these are multiplied by ``norm_weights[g]`` for the norm of group g, and by
    ``l1_weights[g]`` for the magnitudes of its coefficients. ``positive`` forbids negative
    coefficients.
    """

    threshold: float
    ridge: float
    norm_weights: np.ndarray
    l1_weights: np.ndarray
    positive: bool


@compiled
def sweep(columns, starts, groups, curvature, bases, coupling, penalty, w, rho):
    """Minimise over each of the ``groups`` in turn, in place; return a lower bound of the decrease.

    Parameters
    ----------
    columns : Columns
        The columns of group g begin at ``starts[g]``.
    curvature : array of shape (m,)
        Weights of the samples in the quadratic model. If the loss couples outputs: bounds of the
        Hessians' largest eigenvalues.
    bases : Bases
        Computed when a group is first needed.
    coupling : Coupling
    penalty : Penalty
    """
    gained, is_mixed = 0.0, len(penalty.norm_weights) > 0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        norm_weight, l1_weight = penalty.threshold, 0.0
        if is_mixed:
            norm_weight, l1_weight = (
                norm_weight * penalty.norm_weights[g],
                norm_weight * penalty.l1_weights[g],
            )
        if last - first == 1 and len(rho) == 1:
            threshold = norm_weight + l1_weight
            gained += _descend_single(
                columns, first, g, curvature, bases, threshold, penalty, w, rho[0]
            )
            continue
        changes = _correlations(columns, first, last, rho)
        if _stays_zero(changes, w[first:last], norm_weight, l1_weight, penalty.positive):
            continue
        if not bases.is_known[g]:
            _find_basis(columns, starts, g, curvature, bases, is_mixed)
        basis, values = (
            bases.vectors[bases.offsets[g] : bases.offsets[g + 1]],
            bases.values[first:last],
        )
        if is_mixed:
            before, correlations = w[first:last].copy().ravel(), changes.copy().ravel()
            moves, gain = _proximal_steps(
                correlations, basis, values[0], norm_weight, l1_weight, penalty, before
            )
            for j in range(len(moves)):
                changes[j, 0] = moves[j]
        else:
            gain = _change(changes, w[first:last], basis, values, penalty.threshold, penalty.ridge)
        if gain > 0.0:
            gained += gain
            _add(w, first, changes)
            _follow_columns(columns, first, curvature, coupling, changes, rho)
    return gained


@inner
def _descend_single(columns, j, g, curvature, bases, threshold, penalty, w, rho):
    """Minimise over the coefficient of one column, in place; return the decrease."""
    correlation, before, ridge, positive = 0.0, w[j, 0], penalty.ridge, penalty.positive
    if len(columns.dense):
        correlation = np.dot(columns.dense[j], rho)
    else:
        for entry in range(columns.ends[j], columns.ends[j + 1]):
            correlation += columns.data[entry] * rho[columns.rows[entry]]
    if before == 0.0 and (correlation if positive else abs(correlation)) <= threshold:
        return 0.0
    if not bases.is_known[g]:
        bases.is_known[g] = True
        bases.values[j] = _square(columns, j, curvature)
    value = bases.values[j]
    if value <= 0.0:
        return 0.0
    target, after = correlation + value * before, 0.0
    if target > threshold:
        after = (target - threshold) / (value + ridge)
    elif target < -threshold and not positive:
        after = (target + threshold) / (value + ridge)
    move = after - before
    if move == 0.0:
        return 0.0
    w[j, 0] = after
    if len(columns.dense):
        column = columns.dense[j]
        for i in range(len(rho)):
            rho[i] -= move * curvature[i] * column[i]
    else:
        for entry in range(columns.ends[j], columns.ends[j + 1]):
            row = columns.rows[entry]
            rho[row] -= move * curvature[row] * columns.data[entry]
    return 0.5 * (value + ridge) * move**2


@inner
def _square(columns, j, curvature):
    """Return the weighted square of a column's norm."""
    if len(columns.dense):
        return np.dot(columns.dense[j] * curvature, columns.dense[j])
    square = 0.0
    for entry in range(columns.ends[j], columns.ends[j + 1]):
        square += curvature[columns.rows[entry]] * columns.data[entry] ** 2
    return square


@inner
def _correlations(columns, first, last, rho):
    """Return the products (size, K) of some columns with residuals (K, m)."""
    if len(columns.dense):
        block = columns.dense[first:last]
        if len(rho) == 1:
            return np.dot(block, rho[0]).reshape((last - first, 1))
        return np.dot(rho, block.T).T.copy()
    found = np.zeros((last - first, len(rho)))
    for j in range(first, last):
        for k in range(len(rho)):
            residual, total = rho[k], 0.0
            for entry in range(columns.ends[j], columns.ends[j + 1]):
                total += columns.data[entry] * residual[columns.rows[entry]]
            found[j - first, k] = total
    return found


@inner
def _stays_zero(correlations, w, norm_weight, l1_weight, positive):
    """Return whether a group is zero and stays zero, for any inner products."""
    total = 0.0
    for j in range(len(w)):
        for k in range(w.shape[1]):
            if w[j, k] != 0.0:
                return False
            excess = (correlations[j, k] if positive else abs(correlations[j, k])) - l1_weight
            if excess > 0.0:
                total += excess**2
    return np.sqrt(total) <= norm_weight


@inner
def _follow_columns(columns, first, curvature, coupling, changes, rho):
    """Update the residuals after changes (size, K) of the coefficients of a group."""
    shares, weights, damping = coupling
    if len(columns.dense):
        block = columns.dense[first : first + len(changes)]
        if len(rho) == 1:
            moves, residual = np.dot(changes.ravel(), block), rho[0]
            for i in range(len(residual)):
                residual[i] -= curvature[i] * moves[i]
            return
        moved = np.dot(changes.T.copy(), block)
        means = np.zeros(len(weights))
        for k in range(len(shares)):
            for i in range(len(weights)):
                means[i] += shares[k, i] * moved[k, i]
        for k in range(len(rho)):
            for i in range(len(curvature)):
                if len(shares):
                    bent = (1.0 - damping) * shares[k, i] * (
                        moved[k, i] - means[i]
                    ) + 0.5 * damping * moved[k, i]
                    rho[k, i] -= weights[i] * bent
                else:
                    rho[k, i] -= curvature[i] * moved[k, i]
        return
    for j in range(len(changes)):
        for entry in range(columns.ends[first + j], columns.ends[first + j + 1]):
            i, factor, mean = columns.rows[entry], columns.data[entry], 0.0
            for k in range(len(shares)):
                mean += shares[k, i] * changes[j, k]
            for k in range(len(rho)):
                if len(shares):
                    bent = (1.0 - damping) * shares[k, i] * (
                        changes[j, k] - mean
                    ) + 0.5 * damping * changes[j, k]
                    rho[k, i] -= factor * weights[i] * bent
                else:
                    rho[k, i] -= changes[j, k] * curvature[i] * factor


@inner
def _change(changes, w, basis, values, threshold, ridge):
    """Replace the correlations (size, K) of a group by the moves of its coefficients; return a
    bound of the decrease.

    The new coefficients minimise :math:`x' G x / 2 - c' x + t \\|x\\| + r \\|x\\|^2 / 2`, with the
    inner products G and the correlations c without the group. In the eigenbasis :math:`x_j = c_j b
    / ((\\lambda_j + r) b + t)` with the norm b of :func:`_norm_of_minimum`.
    """
    (size, n_outputs), largest = w.shape, 0.0
    for value in values:
        largest = value if value > largest else largest
    if largest <= 0.0:
        changes[:] = 0.0
        return 0.0
    vectors = basis.reshape((size, len(basis) // size))
    before, moves, lengths = (
        np.empty((n_outputs, size)),
        np.empty((n_outputs, size)),
        np.empty(size),
    )
    before[:], moves[:], lengths[:] = 0.0, 0.0, 0.0
    for k in range(n_outputs):
        _rotate(vectors, w[:, k], before[k])
        _rotate(vectors, changes[:, k], moves[k])
        for j in range(size):
            moves[k, j] += values[j] * before[k, j]
            lengths[j] += moves[k, j] ** 2
    for j in range(size):
        lengths[j] = np.sqrt(lengths[j])
    norm, gain = _norm_of_minimum(lengths, values, threshold, ridge), 0.0
    for k in range(n_outputs):
        for j in range(size):
            slope = (values[j] + ridge) * norm + threshold
            moves[k, j] = (moves[k, j] * norm / slope if norm > 0.0 else 0.0) - before[k, j]
            gain += 0.5 * (values[j] + ridge) * moves[k, j] ** 2
        for i in range(size):
            if norm == 0.0:
                # the eigenbasis would leave rounding errors instead of zeros
                changes[i, k] = -w[i, k]
            elif len(basis):
                changes[i, k] = 0.0
                for j in range(size):
                    changes[i, k] += vectors[i, j] * moves[k, j]
            else:
                changes[i, k] = moves[k, i]
    return gain


@inner
def _rotate(vectors, w, found):
    """Add ``vectors.T @ w`` to a vector, or ``w`` if there are no vectors."""
    for i in range(len(w)):
        if vectors.shape[1] == 0:
            found[i] += w[i]
        for j in range(vectors.shape[1]):
            found[j] += vectors[i, j] * w[i]


@inner
def _add(w, first, changes):
    """Add changes (size, K) to the coefficients of a group, in loops: array assignments take
    seconds to compile.
    """
    for j in range(len(changes)):
        for k in range(changes.shape[1]):
            w[first + j, k] += changes[j, k]


@inner
def _norm_of_minimum(target, values, threshold, ridge):
    """Return the root b of :math:`\\sum_j c_j^2 / ((\\lambda_j + r) b + t)^2 = 1`; 0 if there is no
    root b > 0.

    Newton's method is applied to the sum to the power of -1/2. This is concave in b, so it never
    passes the root.
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


@inner
def _proximal_steps(correlations, gram, bound, norm_weight, l1_weight, penalty, before):
    """Return the move of a group by proximal steps with momentum, and the decrease.

    ``bound`` is at least the largest eigenvalue of the inner products ``gram``. Without ``gram``
    one step is taken.
    """
    size, ridge, positive = len(before), penalty.ridge, penalty.positive
    if bound <= 0.0:
        return np.zeros(size), 0.0
    w, ahead, momentum, first_change = before.copy(), before.copy(), 1.0, -1.0
    for _ in range(MOST_STEPS if len(gram) else 1):
        target = correlations + bound * ahead
        if len(gram):
            target -= np.dot(gram.reshape((size, size)), ahead - before)
        norm = 0.0
        for k in range(size):
            magnitude = (target[k] if positive else abs(target[k])) - l1_weight
            target[k] = 0.0 if magnitude <= 0.0 else (magnitude if target[k] > 0.0 else -magnitude)
            norm += target[k] ** 2
        norm = np.sqrt(norm)
        ratio = 0.0 if norm <= norm_weight else (1.0 - norm_weight / norm) / (bound + ridge)
        change, uphill = 0.0, 0.0
        next_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
        for k in range(size):
            after = ratio * target[k]
            step = after - w[k]
            change = max(change, abs(step))
            uphill += (ahead[k] - after) * step
            target[k], w[k] = step, after
        # drop momentum that leads uphill
        share = 0.0 if uphill > 0.0 else (momentum - 1.0) / next_momentum
        momentum = 1.0 if uphill > 0.0 else next_momentum
        ahead = w + share * target
        first_change = change if first_change < 0.0 else first_change
        if change <= CLOSE * first_change:
            break
    moves = w - before
    bent = bound * np.dot(moves, moves)
    if len(gram):
        bent = np.dot(moves, np.dot(gram.reshape((size, size)), moves))
    squares = np.dot(before, before), np.dot(w, w)
    gain = np.dot(correlations, moves) - 0.5 * bent + 0.5 * ridge * (squares[0] - squares[1])
    gain += norm_weight * (np.sqrt(squares[0]) - np.sqrt(squares[1]))
    return moves, gain + l1_weight * (np.abs(before).sum() - np.abs(w).sum())


@inner
def _find_basis(columns, starts, g, curvature, bases, is_mixed):
    """Compute the basis of a group.

    For large groups only the largest eigenvalue is bounded. Steps never increase the objective,
    even if the bound is too low by up to one half.
    """
    bases.is_known[g] = True
    first, last = starts[g], starts[g + 1]
    basis, values, size = (
        bases.vectors[bases.offsets[g] : bases.offsets[g + 1]],
        bases.values[first:last],
        last - first,
    )
    if size == 1:
        values[0] = _square(columns, first, curvature)
    elif size > LARGEST_BASIS:
        # a start that is unlikely to be orthogonal to the first eigenvector
        vector = (1.0 + (7919 * np.arange(size) % 101) / 101.0).reshape((size, 1))
        for _ in range(POWER_ITERATIONS):
            vector = vector / max(float(np.linalg.norm(vector)), 1e-300)
            outputs = _outputs(columns, first, last, vector, len(curvature))
            vector = _correlations(columns, first, last, outputs * curvature)
        values[:] = 1.1 * np.linalg.norm(vector)
    else:
        gram = _gram(columns, first, last, curvature)
        found, vectors = np.linalg.eigh(gram)
        # in loops: array assignments take seconds to compile
        for k in range(size):
            values[k] = max(found[size - 1 if is_mixed else k], 0.0)
            for j in range(size):
                basis[k * size + j] = gram[k, j] if is_mixed else vectors[k, j]


@inner
def _outputs(columns, first, last, w, m):
    """Return predictions (1, m) of some columns with coefficients (size, 1)."""
    if len(columns.dense):
        return np.dot(w.T.copy(), columns.dense[first:last])
    found = np.zeros((1, m))
    for j in range(first, last):
        for entry in range(columns.ends[j], columns.ends[j + 1]):
            found[0, columns.rows[entry]] += columns.data[entry] * w[j - first, 0]
    return found


@inner
def _gram(columns, first, last, curvature):
    """Return weighted inner products of some columns."""
    if len(columns.dense):
        block = columns.dense[first:last]
        if (curvature == curvature[0]).all():
            return curvature[0] * np.dot(block, block.T)
        return np.dot(block * curvature, block.T)
    gram, column = np.zeros((last - first, last - first)), np.zeros(len(curvature))
    for k in range(first, last):
        for entry in range(columns.ends[k], columns.ends[k + 1]):
            column[columns.rows[entry]] += curvature[columns.rows[entry]] * columns.data[entry]
        for j in range(first, k + 1):
            for entry in range(columns.ends[j], columns.ends[j + 1]):
                gram[j - first, k - first] += columns.data[entry] * column[columns.rows[entry]]
            gram[k - first, j - first] = gram[j - first, k - first]
        for entry in range(columns.ends[k], columns.ends[k + 1]):
            column[columns.rows[entry]] = 0.0
    return gram


@compiled
def sweep_products(model, w, correlations, square, target, most, worth, largest):
    """Minimise a ``QuadraticModel`` over all groups in turn, in place, on the inner products of
    their columns.

    ``correlations`` (K, k) are those of the columns with the residuals, and ``square`` is the
    squared residuals, each divided by its curvature. Stop at the duality gap ``target``, after
    ``most`` sweeps, or when a sweep gains at most ``worth`` times the ``largest`` gain.

    Returns
    -------
    sweeps : int
    is_over : bool
    square, largest : float
    """
    gram, starts, groups, bases, eigenvalues, threshold, ridge = model
    size = starts[-1]
    for sweep in range(1, most + 1):
        gained = 0.0
        for g in range(len(groups)):
            first, last = starts[g], starts[g + 1]
            if _stays_zero(correlations[:, first:last].T, w[first:last], threshold, 0.0, False):
                continue
            changes = correlations[:, first:last].T.copy()
            before = changes.copy()
            gain = _move(
                bases, groups[g], changes, w[first:last], eigenvalues[first:last], threshold, ridge
            )
            if gain > 0.0:
                gained += gain
                _add(w, first, changes)
                for k in range(first, last):
                    for output in range(len(correlations)):
                        row, follower, change = (
                            gram[k],
                            correlations[output],
                            changes[k - first, output],
                        )
                        for j in range(size):
                            follower[j] -= change * row[j]
                for k in range(first, last):
                    for output in range(len(correlations)):
                        both = before[k - first, output] + correlations[output, k]
                        square -= changes[k - first, output] * both
        largest = max(largest, gained)
        if (
            gained <= worth * largest
            or _model_gap(starts, threshold, ridge, w, correlations, square) <= target
        ):
            return sweep, True, square, largest
    return most, False, square, largest


@inner
def _move(bases, group, changes, w, values, threshold, ridge):
    """Call :func:`_change`, or do the same for a single column of one output, for which ``bases``
    are None.
    """
    if bases is not None:
        basis = bases.vectors[bases.offsets[group] : bases.offsets[group + 1]]
        return _change(changes, w, basis, values, threshold, ridge)
    target, curved = changes[0, 0] + values[0] * w[0, 0], values[0] + ridge
    after = (
        np.sign(target) * (abs(target) - threshold) / curved
        if abs(target) > threshold and curved > 0.0
        else 0.0
    )
    changes[0, 0] = after - w[0, 0] if values[0] > 0.0 else 0.0
    return 0.5 * curved * changes[0, 0] ** 2


@inner
def _model_gap(starts, threshold, ridge, w, correlations, square):
    """Return the duality gap of the quadratic model at the present residuals."""
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
