"""Cyclic descent over groups of columns, on the columns themselves or on their inner products.

Coefficients ``w`` (k, K) and weighted residuals ``rho`` (K, m) have K outputs.
"""

from typing import NamedTuple

import numpy as np

from omkl._compilation import compiled, inner

#: Largest group with an eigenbasis.
LARGEST_BASIS = 192
#: Power iterations for a bound of the largest eigenvalue of larger groups.
POWER_ITERATIONS = 20
#: Maximum number of proximal steps for one group.
MOST_STEPS = 50
#: Proximal steps end at a change of at most this share of the first.
CLOSE = 1e-3
#: Maximum number of Newton steps for the norm of a group.
MOST_NORM_STEPS = 50


class Columns(NamedTuple):
    """Columns of a working set.

    They are the rows of a C-ordered array ``dense`` (k, m). If this is empty, they are those of a
    CSC matrix: from ``ends[j]`` to ``ends[j + 1]``, ``data`` holds the entries of column j, and
    ``rows`` their rows.
    """

    dense: np.ndarray
    data: np.ndarray
    rows: np.ndarray
    ends: np.ndarray


class Bases(NamedTuple):
    """Eigenvectors of the inner products of each group, and eigenvalues.

    From ``offsets[g]`` on, ``vectors`` holds those of group g, ``values`` (k,) the eigenvalues of
    all groups; ``is_known[g]`` tells whether they are computed. For penalties of single
    coefficients they are the inner products themselves, and their largest eigenvalue.
    """

    vectors: np.ndarray
    offsets: np.ndarray
    values: np.ndarray
    is_known: np.ndarray


class Coupling(NamedTuple):
    r"""Hessian of the loss of a sample in the scores of all outputs.

    It is ``weights[i]`` times :math:`(1 - d) (\mathrm{diag}(u) - u u^\top) + d / 2` for sample i.
    The shares u are (K, m), d is the damping. Without shares the Hessian is diagonal.
    """

    shares: np.ndarray
    weights: np.ndarray
    damping: float


class Penalty(NamedTuple):
    """Weights ``threshold`` of the norm of a group, and ``ridge`` of half its square.

    In mixed norms the threshold is multiplied by ``norm_weights[g]`` for the norm of group g, and
    by ``l1_weights[g]`` for the magnitudes of its coefficients; else these arrays are empty.
    ``positive`` forbids negative coefficients.
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
    w : array of shape (k, K)
        Coefficients, updated in place.
    rho : array of shape (K, m)
        Weighted residuals, updated in place.
    """
    total_gain = 0.0
    is_mixed = len(penalty.norm_weights) > 0
    for g in groups:
        first = starts[g]
        last = starts[g + 1]
        norm_weight = penalty.threshold
        l1_weight = 0.0
        if is_mixed:
            norm_weight = penalty.threshold * penalty.norm_weights[g]
            l1_weight = penalty.threshold * penalty.l1_weights[g]
        if last - first == 1 and len(rho) == 1:
            threshold = norm_weight + l1_weight
            total_gain += _descend_single(
                columns, first, g, curvature, bases, threshold, penalty, w, rho[0]
            )
            continue
        changes = _correlations(columns, first, last, rho)
        if _stays_zero(changes, w[first:last], norm_weight, l1_weight, penalty.positive):
            continue
        basis = bases.vectors[bases.offsets[g] : bases.offsets[g + 1]]
        values = bases.values[first:last]
        if not bases.is_known[g]:
            bases.is_known[g] = True
            _find_basis(columns, first, curvature, is_mixed, basis, values)
        if is_mixed:
            before = w[first:last].copy().ravel()
            correlations = changes.copy().ravel()
            moves, gain = _proximal_steps(
                correlations, basis, values[0], norm_weight, l1_weight, penalty, before
            )
            for j in range(len(moves)):
                changes[j, 0] = moves[j]
        else:
            gain = _change(changes, w[first:last], basis, values, penalty.threshold, penalty.ridge)
        if gain > 0.0:
            total_gain += gain
            _add(w, first, changes)
            _follow_columns(columns, first, curvature, coupling, changes, rho)
    return total_gain


@inner
def _shrunk(value, threshold, positive):
    """Return a number moved towards 0 by a threshold; 0 for negative ones if ``positive``."""
    if value > threshold:
        return value - threshold
    if value < -threshold and not positive:
        return value + threshold
    return 0.0


@inner
def _descend_single(columns, j, g, curvature, bases, threshold, penalty, w, rho):
    """Minimise over the coefficient of one column; return the decrease.

    Update ``w[j, 0]`` and the residuals ``rho`` (m,), and set the eigenvalue of the group if it is
    not known.
    """
    before = w[j, 0]
    if len(columns.dense):
        correlation = np.dot(columns.dense[j], rho)
    else:
        correlation = _sparse_product(columns, j, rho)
    magnitude = correlation if penalty.positive else abs(correlation)
    if before == 0.0 and magnitude <= threshold:
        return 0.0
    if not bases.is_known[g]:
        bases.is_known[g] = True
        bases.values[j] = _square(columns, j, curvature)
    value = bases.values[j]
    if value <= 0.0:
        return 0.0
    target = correlation + value * before
    after = _shrunk(target, threshold, penalty.positive) / (value + penalty.ridge)
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
    return 0.5 * (value + penalty.ridge) * move**2


@inner
def _sparse_product(columns, j, vector):
    """Return the product of a column of the CSC matrix with a vector (m,)."""
    product = 0.0
    for entry in range(columns.ends[j], columns.ends[j + 1]):
        product += columns.data[entry] * vector[columns.rows[entry]]
    return product


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
    correlations = np.zeros((last - first, len(rho)))
    for j in range(first, last):
        for k in range(len(rho)):
            correlations[j - first, k] = _sparse_product(columns, j, rho[k])
    return correlations


@inner
def _stays_zero(correlations, w, norm_weight, l1_weight, positive):
    """Return whether a group is zero and stays zero, for any inner products.

    ``correlations`` and ``w`` are (size, K).
    """
    square = 0.0
    for j in range(len(w)):
        for k in range(w.shape[1]):
            if w[j, k] != 0.0:
                return False
            square += _shrunk(correlations[j, k], l1_weight, positive) ** 2
    return np.sqrt(square) <= norm_weight


@inner
def _follow_columns(columns, first, curvature, coupling, changes, rho):
    """Update the residuals ``rho`` (K, m) after changes (size, K) of coefficients of a group.

    They lose the product of the Hessian with the changes of the scores. The Hessian is that of
    ``coupling``; without shares, it is diagonal, and has the weights ``curvature`` (m,).
    """
    shares, weights, damping = coupling
    if len(columns.dense):
        block = columns.dense[first : first + len(changes)]
        if len(rho) == 1:
            moves_of_output = np.dot(changes.ravel(), block)
            residual = rho[0]
            for i in range(len(residual)):
                residual[i] -= curvature[i] * moves_of_output[i]
            return
        moves = np.dot(changes.T.copy(), block)
        mean_moves = np.zeros(len(weights))
        for k in range(len(shares)):
            for i in range(len(weights)):
                mean_moves[i] += shares[k, i] * moves[k, i]
        for k in range(len(rho)):
            for i in range(len(curvature)):
                move = moves[k, i]
                if len(shares):
                    undamped = (1.0 - damping) * shares[k, i] * (move - mean_moves[i])
                    rho[k, i] -= weights[i] * (undamped + 0.5 * damping * move)
                else:
                    rho[k, i] -= curvature[i] * move
        return
    for j in range(len(changes)):
        for entry in range(columns.ends[first + j], columns.ends[first + j + 1]):
            i = columns.rows[entry]
            factor = columns.data[entry]
            mean_change = 0.0
            for k in range(len(shares)):
                mean_change += shares[k, i] * changes[j, k]
            for k in range(len(rho)):
                change = changes[j, k]
                if len(shares):
                    undamped = (1.0 - damping) * shares[k, i] * (change - mean_change)
                    rho[k, i] -= factor * weights[i] * (undamped + 0.5 * damping * change)
                else:
                    rho[k, i] -= change * curvature[i] * factor


@inner
def _change(changes, w, basis, values, threshold, ridge):
    """Replace correlations of a group by the changes of its coefficients; return the decrease.

    ``changes`` (size, K) are written to; the decrease is a lower bound. The new coefficients
    minimise :math:`x' G x / 2 - c' x + t \\|x\\| + r \\|x\\|^2 / 2`, with the inner products G and
    the correlations c without the group. In the eigenbasis :math:`x_j = c_j b / ((\\lambda_j + r) b
    + t)` with the norm b of :func:`_norm_of_minimum`.
    """
    size, n_outputs = w.shape
    largest = 0.0
    for value in values:
        if value > largest:
            largest = value
    if largest <= 0.0:
        changes[:] = 0.0
        return 0.0
    vectors = basis.reshape((size, len(basis) // size))
    # coefficients before and their moves, in the eigenbasis
    before = np.zeros((n_outputs, size))
    moves = np.zeros((n_outputs, size))
    lengths = np.zeros(size)
    for k in range(n_outputs):
        _rotate(vectors, w[:, k], before[k])
        _rotate(vectors, changes[:, k], moves[k])
        for j in range(size):
            moves[k, j] += values[j] * before[k, j]
            lengths[j] += moves[k, j] ** 2
    for j in range(size):
        lengths[j] = np.sqrt(lengths[j])
    norm = _norm_of_minimum(lengths, values, threshold, ridge)
    gain = 0.0
    for k in range(n_outputs):
        for j in range(size):
            after = 0.0
            if norm > 0.0:
                after = moves[k, j] * norm / ((values[j] + ridge) * norm + threshold)
            moves[k, j] = after - before[k, j]
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
def _rotate(vectors, w, rotated):
    """Add ``vectors.T @ w`` to ``rotated`` (size,), or ``w`` if there are no vectors."""
    for i in range(len(w)):
        if vectors.shape[1] == 0:
            rotated[i] += w[i]
        for j in range(vectors.shape[1]):
            rotated[j] += vectors[i, j] * w[i]


@inner
def _add(w, first, changes):
    """Add changes (size, K) to the coefficients ``w`` of a group."""
    # in loops: array assignments take seconds to compile
    for j in range(len(changes)):
        for k in range(changes.shape[1]):
            w[first + j, k] += changes[j, k]


@inner
def _norm_of_minimum(target, values, threshold, ridge):
    """Return the norm of the coefficients of a group that minimise its quadratic model.

    It is the root b of :math:`\\sum_j c_j^2 / ((\\lambda_j + r) b + t)^2 = 1`, or 0 if there is no
    root b > 0. The ``target`` c and the eigenvalues are (size,). Newton's method is applied to the
    sum to the power of -1/2. This is concave in b, so it never passes the root.
    """
    square = 0.0
    largest = 0.0
    for k in range(len(target)):
        square += target[k] ** 2
        largest = max(largest, values[k])
    norm = np.sqrt(square)
    if norm <= threshold:
        return 0.0
    root = (norm - threshold) / (largest + ridge)
    for _ in range(MOST_NORM_STEPS):
        total = 0.0
        slope = 0.0
        for k in range(len(target)):
            weight = values[k] + ridge
            denominator = weight * root + threshold
            if denominator > 0.0:
                share = (target[k] / denominator) ** 2
                total += share
                slope += share * weight / denominator
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

    ``bound`` is at least the largest eigenvalue of the inner products ``gram`` (size * size,).
    Without ``gram`` one step is taken. ``correlations``, ``before`` and the move are (size,).
    """
    size = len(before)
    ridge = penalty.ridge
    if bound <= 0.0:
        return np.zeros(size), 0.0
    w = before.copy()
    ahead = before.copy()
    momentum = 1.0
    first_change = -1.0  # before the first step
    for _ in range(MOST_STEPS if len(gram) else 1):
        target = correlations + bound * ahead
        if len(gram):
            target -= np.dot(gram.reshape((size, size)), ahead - before)
        square = 0.0
        for k in range(size):
            target[k] = _shrunk(target[k], l1_weight, penalty.positive)
            square += target[k] ** 2
        norm = np.sqrt(square)
        ratio = 0.0
        if not norm <= norm_weight:
            ratio = (1.0 - norm_weight / norm) / (bound + ridge)
        change = 0.0
        uphill = 0.0
        for k in range(size):
            after = ratio * target[k]
            step = after - w[k]
            change = max(change, abs(step))
            uphill += (ahead[k] - after) * step
            target[k] = step
            w[k] = after
        share = 0.0
        if uphill > 0.0:
            momentum = 1.0  # drop momentum that leads uphill
        else:
            next_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum))
            share = (momentum - 1.0) / next_momentum
            momentum = next_momentum
        ahead = w + share * target
        if first_change < 0.0:
            first_change = change
        if change <= CLOSE * first_change:
            break
    moves = w - before
    quadratic = bound * np.dot(moves, moves)
    if len(gram):
        quadratic = np.dot(moves, np.dot(gram.reshape((size, size)), moves))
    square_before = np.dot(before, before)
    square_after = np.dot(w, w)
    gain = np.dot(correlations, moves) - 0.5 * quadratic
    gain += 0.5 * ridge * (square_before - square_after)
    gain += norm_weight * (np.sqrt(square_before) - np.sqrt(square_after))
    return moves, gain + l1_weight * (np.abs(before).sum() - np.abs(w).sum())


@inner
def _find_basis(columns, first, curvature, is_mixed, basis, values):
    """Write the basis (size * size,) and eigenvalues (size,) of a group; see :class:`Bases`.

    For large groups only the largest eigenvalue is bounded. Steps never increase the objective,
    even if the bound is too low by up to one half.
    """
    size = len(values)
    last = first + size
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
        eigenvalues, eigenvectors = np.linalg.eigh(gram)
        # in loops: array assignments take seconds to compile
        for k in range(size):
            rank = size - 1 if is_mixed else k
            values[k] = max(eigenvalues[rank], 0.0)
            for j in range(size):
                basis[k * size + j] = gram[k, j] if is_mixed else eigenvectors[k, j]


@inner
def _outputs(columns, first, last, w, m):
    """Return predictions (1, m) of some columns with coefficients (size, 1)."""
    if len(columns.dense):
        return np.dot(w.T.copy(), columns.dense[first:last])
    outputs = np.zeros((1, m))
    for j in range(first, last):
        for entry in range(columns.ends[j], columns.ends[j + 1]):
            outputs[0, columns.rows[entry]] += columns.data[entry] * w[j - first, 0]
    return outputs


@inner
def _gram(columns, first, last, curvature):
    """Return weighted inner products of some columns, (size, size)."""
    if len(columns.dense):
        block = columns.dense[first:last]
        if (curvature == curvature[0]).all():
            return curvature[0] * np.dot(block, block.T)
        return np.dot(block * curvature, block.T)
    gram = np.zeros((last - first, last - first))
    column = np.zeros(len(curvature))
    for k in range(first, last):
        for entry in range(columns.ends[k], columns.ends[k + 1]):
            column[columns.rows[entry]] += curvature[columns.rows[entry]] * columns.data[entry]
        for j in range(first, k + 1):
            product = _sparse_product(columns, j, column)
            gram[j - first, k - first] = product
            gram[k - first, j - first] = product
        for entry in range(columns.ends[k], columns.ends[k + 1]):
            column[columns.rows[entry]] = 0.0
    return gram


@compiled
def sweep_products(model, w, correlations, square, target, most, worth, largest):
    """Minimise a ``QuadraticModel`` over all groups in turn, on inner products of their columns.

    ``w`` (k, K) and ``correlations`` are updated in place. ``correlations`` (K, k) are those of the
    columns with the residuals, and ``square`` is the squared residuals, each divided by its
    curvature. Stop at the duality gap ``target``, after ``most`` sweeps, or when a sweep gains at
    most ``worth`` times the ``largest`` gain.

    Returns
    -------
    sweeps : int
    is_over : bool
    square, largest : float
    """
    gram, starts, groups, bases, eigenvalues, penalty = model
    threshold = penalty.threshold
    ridge = penalty.ridge
    size = starts[-1]
    for sweep in range(1, most + 1):
        total_gain = 0.0
        for g in range(len(groups)):
            first = starts[g]
            last = starts[g + 1]
            if _stays_zero(correlations[:, first:last].T, w[first:last], threshold, 0.0, False):
                continue
            changes = correlations[:, first:last].T.copy()
            before = changes.copy()
            gain = _move(
                bases, groups[g], changes, w[first:last], eigenvalues[first:last], threshold, ridge
            )
            if gain > 0.0:
                total_gain += gain
                _add(w, first, changes)
                for k in range(first, last):
                    for output in range(len(correlations)):
                        row = gram[k]
                        correlations_of_output = correlations[output]
                        change = changes[k - first, output]
                        for j in range(size):
                            correlations_of_output[j] -= change * row[j]
                for k in range(first, last):
                    for output in range(len(correlations)):
                        sum_of_both = before[k - first, output] + correlations[output, k]
                        square -= changes[k - first, output] * sum_of_both
        largest = max(largest, total_gain)
        if total_gain <= worth * largest:
            return sweep, True, square, largest
        if _model_gap(starts, threshold, ridge, w, correlations, square) <= target:
            return sweep, True, square, largest
    return most, False, square, largest


@inner
def _move(bases, group, changes, w, values, threshold, ridge):
    """Call :func:`_change`, or do the same for a single column of one output, without bases.

    Writes to ``changes`` (size, K); return the decrease.
    """
    if bases is not None:
        basis = bases.vectors[bases.offsets[group] : bases.offsets[group + 1]]
        return _change(changes, w, basis, values, threshold, ridge)
    target = changes[0, 0] + values[0] * w[0, 0]
    curvature = values[0] + ridge
    after = 0.0
    if curvature > 0.0:
        after = _shrunk(target, threshold, False) / curvature
    changes[0, 0] = after - w[0, 0] if values[0] > 0.0 else 0.0
    return 0.5 * curvature * changes[0, 0] ** 2


@inner
def _model_gap(starts, threshold, ridge, w, correlations, square):
    """Return the duality gap of the quadratic model at the present residuals.

    ``w`` is (k, K), ``correlations`` (K, k), and ``square`` the sum of squared residuals.
    """
    penalty = 0.0
    product = 0.0
    largest = 0.0
    conjugate = 0.0
    for g in range(len(starts) - 1):
        squared_norm = 0.0
        squared_dual_norm = 0.0
        for k in range(starts[g], starts[g + 1]):
            for output in range(len(correlations)):
                squared_norm += w[k, output] ** 2
                squared_dual_norm += correlations[output, k] ** 2
                product += w[k, output] * correlations[output, k]
        penalty += threshold * np.sqrt(squared_norm) + 0.5 * ridge * squared_norm
        dual_norm = np.sqrt(squared_dual_norm)
        largest = max(largest, dual_norm)
        if ridge > 0.0:
            conjugate += 0.5 * max(dual_norm - threshold, 0.0) ** 2 / ridge
    scale = 1.0  # of a feasible dual point
    if largest > threshold and ridge == 0.0:
        scale = threshold / largest
    primal = 0.5 * square + penalty
    return primal + conjugate - scale * (square + product) + 0.5 * scale**2 * square
