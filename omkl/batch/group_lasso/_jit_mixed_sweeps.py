"""Cyclic descent over groups of columns that weigh their norm and the magnitudes of their coefficients."""

import numpy as np

from omkl._compilation import compiled

#: Proximal steps on the inner products of a group at most, and the change, relative to that of the first, to stop at.
MOST_STEPS, CLOSE = 50, 1e-3
#: Groups of more columns keep no inner products, and take one proximal step.
LARGEST_GRAM = 192


@compiled
def sweep_mixed_dense(
    columns,
    starts,
    groups,
    curvature,
    grams,
    offsets,
    bounds,
    is_known,
    threshold,
    norm_weights,
    l1_weights,
    ridge,
    positive,
    w,
    rho,
):
    """Descend over each of the ``groups`` in turn, on the columns of an array; the decrease is returned.

    As :func:`~omkl.batch.group_lasso._jit_sweeps.sweep_dense`, but ``grams`` are inner products, of which ``bounds``
    (k,) are no less than the largest eigenvalue, and ``threshold`` weighs ``norm_weights[g]`` times the norm of a
    group and ``l1_weights[g]`` times the magnitudes of its coefficients, none of which is negative if ``positive``.
    """
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        block, gram = columns[first:last], grams[offsets[g] : offsets[g + 1]]
        if not is_known[g]:
            is_known[g] = True
            weighted = block * curvature
            if len(gram) or last - first == 1:
                bounds[first:last] = _store(np.dot(weighted, block.T), gram)
            else:
                bounds[first:last] = (weighted * block).sum()
        if last - first == 1:
            move, gain = _solve_single(
                np.dot(block[0], rho),
                bounds[first],
                threshold * (norm_weights[g] + l1_weights[g]),
                ridge,
                positive,
                w[first],
            )
            if gain > 0.0:
                gained += gain
                w[first] += move
                _follow_single(block[0], move, curvature, rho)
            continue
        correlations = np.dot(block, rho)
        moves, gain = _solve_block(
            correlations,
            gram,
            bounds[first],
            threshold * norm_weights[g],
            threshold * l1_weights[g],
            ridge,
            positive,
            w[first:last],
        )
        if gain > 0.0:
            gained += gain
            w[first:last] += moves
            change = np.dot(moves, block)
            for i in range(len(rho)):
                rho[i] -= curvature[i] * change[i]
    return gained


@compiled
def sweep_mixed_sparse(
    data,
    rows,
    ends,
    starts,
    groups,
    curvature,
    grams,
    offsets,
    bounds,
    is_known,
    threshold,
    norm_weights,
    l1_weights,
    ridge,
    positive,
    w,
    rho,
):
    """Do the same for columns of a CSC matrix."""
    gained = 0.0
    for g in groups:
        first, last = starts[g], starts[g + 1]
        gram = grams[offsets[g] : offsets[g + 1]]
        if not is_known[g]:
            is_known[g] = True
            if len(gram) or last - first == 1:
                bounds[first:last] = _store(_sparse_gram(data, rows, ends, first, last, curvature), gram)
            else:
                total = 0.0
                for entry in range(ends[first], ends[last]):
                    total += curvature[rows[entry]] * data[entry] ** 2
                bounds[first:last] = total
        correlations = np.zeros(last - first)
        for k in range(first, last):
            for entry in range(ends[k], ends[k + 1]):
                correlations[k - first] += data[entry] * rho[rows[entry]]
        moves, gain = _solve_block(
            correlations,
            gram,
            bounds[first],
            threshold * norm_weights[g],
            threshold * l1_weights[g],
            ridge,
            positive,
            w[first:last],
        )
        if gain > 0.0:
            gained += gain
            w[first:last] += moves
            for k in range(first, last):
                for entry in range(ends[k], ends[k + 1]):
                    rho[rows[entry]] -= moves[k - first] * curvature[rows[entry]] * data[entry]
    return gained


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
def _store(found, gram):
    """Store the inner products of a group; return a bound of their largest eigenvalue."""
    if len(gram) == 0:
        return found[0, 0]
    gram.reshape(found.shape)[:, :] = found
    return np.linalg.eigvalsh(found)[-1]


@compiled
def _solve_single(correlation, value, threshold, ridge, positive, before):
    """Return the move of a single coefficient to its minimum, and a lower bound of the decrease."""
    if value <= 0.0:
        return 0.0, 0.0
    target = correlation + value * before
    after = 0.0
    if target > threshold:
        after = (target - threshold) / (value + ridge)
    elif target < -threshold and not positive:
        after = (target + threshold) / (value + ridge)
    return after - before, 0.5 * (value + ridge) * (after - before) ** 2


@compiled
def _follow_single(column, move, curvature, rho):
    """Update the residual after a change of a single coefficient."""
    for i in range(len(rho)):
        rho[i] -= move * curvature[i] * column[i]


@compiled
def _solve_block(correlations, gram, bound, norm_weight, l1_weight, ridge, positive, before):
    """Return the move of a group by proximal steps with momentum, and the decrease: 0 where it stays."""
    size = len(before)
    moves, gain = np.zeros(size), 0.0
    if bound <= 0.0:
        return moves, gain
    w, ahead, momentum, first_change = before.copy(), before.copy(), 1.0, -1.0
    for _ in range(MOST_STEPS if size > 1 and len(gram) else 1):
        target = correlations + bound * ahead
        if len(gram):
            target -= np.dot(gram.reshape((size, size)), ahead - before)
        else:
            target -= bound * (ahead - before)
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
        # momentum that leads uphill is dropped
        share = 0.0 if uphill > 0.0 else (momentum - 1.0) / next_momentum
        momentum = 1.0 if uphill > 0.0 else next_momentum
        ahead = w + share * target
        first_change = change if first_change < 0.0 else first_change
        if change <= CLOSE * first_change:
            break
    moves[:] = w - before
    gain = _decrease(correlations, gram, bound, norm_weight, l1_weight, ridge, before, w, moves)
    return moves, gain


@compiled
def _decrease(correlations, gram, bound, norm_weight, l1_weight, ridge, before, after, moves):
    """Return a lower bound of the decrease of the quadratic model and the penalty of a group by a move."""
    size = len(before)
    bent = bound * np.dot(moves, moves)
    if len(gram):
        bent = np.dot(moves, np.dot(gram.reshape((size, size)), moves))
    squares = np.dot(before, before), np.dot(after, after)
    lower = np.dot(correlations, moves) - 0.5 * bent + 0.5 * ridge * (squares[0] - squares[1])
    lower += norm_weight * (np.sqrt(squares[0]) - np.sqrt(squares[1]))
    return lower + l1_weight * (np.abs(before).sum() - np.abs(after).sum())
