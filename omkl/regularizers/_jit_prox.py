"""Loops of the proximity operators.

Those of training, ``prox_*``, replace norms (p,), all at least 0, as
:data:`omkl.signatures.PROX` declares.
"""

import numpy as np

from omkl._compilation import borrowing, compiled


@compiled(counting=False)
def prox_linear_quadratic(norms, step, parameters, memory):
    """Prox of ``sum_k l x_k + c x_k^2 / 2``; the parameters are l and c."""
    threshold = step * parameters[0]
    divisor = 1.0 + step * parameters[1]
    for k in range(norms.shape[0]):
        norms[k] = max(norms[k] - threshold, 0.0) / divisor


@compiled(counting=False)
def threshold_by_newton(x, weights, step, magnitudes, active_weights):
    """Return ``tau``, the root of ``step sum_k w_k max(|x_k| - w_k tau, 0) - tau``.

    See Algorithm 4 of Martins et al. The function is convex and decreasing. So Newton steps from 0
    never pass the root, and what is once below the threshold takes no further part (Michelot 1986).
    ``x`` is (p,), and so are ``weights``, or empty if all are 1. ``magnitudes`` and
    ``active_weights`` are working memory (p,), whose first n entries are those above the threshold.
    """
    n = 0
    for k in range(x.shape[0]):
        magnitudes[n] = abs(x[k])
        active_weights[n] = 1.0
        if weights.shape[0]:
            active_weights[n] = weights[k]
        n += active_weights[n] > 0.0
    threshold = 0.0
    while True:
        n_before = n
        n = 0
        mass = 0.0
        moment = 0.0
        for k in range(n_before):
            weight = active_weights[k]
            magnitude = magnitudes[k]
            above = magnitude > threshold * weight
            mass += weight * weight if above else 0.0
            moment += weight * magnitude if above else 0.0
            magnitudes[n] = magnitude
            active_weights[n] = weight
            n += above
        following = step * moment / (1.0 + step * mass)
        if following <= threshold:
            return threshold
        threshold = following


@compiled(counting=False)
def prox_squared_l1(norms, step, parameters, memory):
    """Prox of ``(sum_k w_k x_k)^2 / 2``; the parameters are the weights, none if all are 1."""
    threshold = threshold_by_newton(norms, parameters, step, memory[0], memory[1])
    for k in range(norms.shape[0]):
        weight = 1.0
        if parameters.shape[0]:
            weight = parameters[k]
        norms[k] = max(norms[k] - weight * threshold, 0.0)


@borrowing
def lq_root(b, step, q):
    """Return the ``x`` in ``[0, b]`` with ``x + step x^(q-1) = b``.

    There are closed forms for q = 4/3, 3/2, 2 and 3. For other q, substitute ``x = x_0 s``, with
    ``x_0`` such that the larger of the two terms is b. Then s solves ``p s + r s^(q-1) = 1`` with
    ``max(p, r) = 1``. The logarithm of the left side is convex and increasing in ``log s``, so
    Newton's method descends to the root from ``s = 1`` and never passes it.
    """
    if b <= 0.0 or step == 0.0:
        return b
    if q == 2.0:
        return b / (1.0 + step)
    if q == 3.0:
        return 2.0 * b / (1.0 + np.sqrt(1.0 + 4.0 * step * b))
    if q == 1.5:
        root = 2.0 * b / (step + np.sqrt(step * step + 4.0 * b))
        return root * root
    if q == 4.0 / 3.0:
        angle = np.arcsinh(1.5 * b / step * np.sqrt(3.0 / step)) / 3.0
        root = 2.0 * np.sqrt(step / 3.0) * np.sinh(angle)
        return min(root**3, b)
    log_ratio = np.log(step) + (q - 2.0) * np.log(b)
    p = 1.0
    r = 1.0
    if log_ratio <= 0.0:
        r = np.exp(log_ratio)
    else:
        p = np.exp(-log_ratio / (q - 1.0))
    log_s = 0.0
    for _ in range(200):
        linear = p * np.exp(log_s)
        power = r * np.exp((q - 1.0) * log_s)
        total = linear + power
        moved = log_s - np.log(total) * total / (linear + (q - 1.0) * power)
        if not moved < log_s:
            break
        log_s = moved
    if log_ratio <= 0.0:
        return b * np.exp(log_s)
    return min(np.exp(np.log(b) - log_ratio / (q - 1.0) + log_s), b)


@compiled(counting=False)
def prox_lq(norms, step, parameters, memory):
    """Prox of ``sum_k x_k^q / q``; the parameter is q."""
    for k in range(norms.shape[0]):
        norms[k] = lq_root(norms[k], step, parameters[0])


@borrowing
def elastic_net_root(excess, step, eta):
    """Return the root ``d`` of a cubic function in ``[0, 2]``, and the slope there.

    It solves ``(t + d)^2 (eta + 2 (1 - eta) d) - t^2 eta = excess`` with t the step. Return zeros
    unless ``excess > 0``. The left side is convex and increasing: Newton's method never passes the
    root.
    """
    if excess <= 0.0:
        return 0.0, 0.0
    slope_at_zero = 2.0 * (1.0 - eta) * step * step + 2.0 * eta * step
    d = 2.0
    if slope_at_zero > 0.0:
        d = min(d, excess / slope_at_zero)
    while True:
        shifted = step + d
        quadratic = 2.0 * (1.0 - eta) * shifted * shifted
        linear = eta * (2.0 * step + d)
        slope = quadratic + 2.0 * shifted * (eta + 2.0 * (1.0 - eta) * d)
        moved = d - (d * (quadratic + linear) - excess) / slope
        if not moved < d or moved <= 0.0:
            return d, slope
        d = moved


@compiled
def elastic_net_prox_weights(squares, step, eta):
    """Return the weights ``d`` (p,) in the elastic-net set that belong to a proximal step.

    They have ``eta ||d||_1 + (1 - eta) ||d||_2^2 = 1``, all ``d_k >= 0``, and the least
    ``sum_k squares_k t / (d_k + t)`` with t the step. The optimum satisfies
    ``(t + d_k)^2 (eta + 2 (1 - eta) d_k) = m squares_k`` where ``d_k > 0``. Newton's method finds
    the multiplier ``m``, inside a bracket. The largest square must be 1, and ``eta < 1``.
    """
    weights = np.empty(squares.shape[0])
    low = step**2 * eta
    high = (step + 2.0) ** 2 * (4.0 - 3.0 * eta)
    multiplier = (step + 1.0) ** 2 * (2.0 - eta)
    for _ in range(200):
        size = -1.0
        growth = 0.0
        for k in range(squares.shape[0]):
            d, slope = elastic_net_root(multiplier * squares[k] - step**2 * eta, step, eta)
            weights[k] = d
            size += eta * d + (1.0 - eta) * d * d
            if d > 0.0:
                growth += (eta + 2.0 * (1.0 - eta) * d) * squares[k] / slope
        if size > 0.0:
            high = multiplier
        else:
            low = multiplier
        moved = low
        if growth > 0.0:
            moved = multiplier - size / growth
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - multiplier) <= 1e-15 * multiplier:
            break
        multiplier = moved
    return weights


@borrowing
def norm_of(x, members, first, last):
    """Return ``||x_g||`` of one group."""
    square = 0.0
    for j in range(first, last):
        square += x[members[j]] ** 2
    return np.sqrt(square)


@compiled
def shrink_groups_in_turn(x, starts, members, thresholds):
    """Return ``x_g <- max(1 - threshold_g / ||x_g||, 0) x_g`` for one union after the other, (p,).

    Union g has ``members[starts[g] : starts[g + 1]]``.
    """
    shrunk = x.astype(np.float64)
    for g in range(thresholds.shape[0]):
        norm = norm_of(shrunk, members, starts[g], starts[g + 1])
        ratio = 0.0 if norm <= thresholds[g] else (norm - thresholds[g]) / norm
        for j in range(starts[g], starts[g + 1]):
            shrunk[members[j]] *= ratio
    return shrunk


@compiled
def prox_overlapping(x, starts, members, thresholds, tolerance, max_sweeps):
    """Return the prox of ``sum_g threshold_g ||x_g||`` for any overlaps, (p,).

    Block coordinate ascent on the dual, ``min 1/2 ||x - sum_g z_g||^2`` with ``||z_g|| <=
    threshold_g``, whose residual ``x - sum_g z_g`` is the prox (Jenatton et al. 2011). It has
    converged when a sweep moves no coordinate by more than ``tolerance``, relative to the norm of
    its group. Residuals of at most ``10 tolerance |x_k|`` become 0.
    """
    residual = x.astype(np.float64)
    duals = np.zeros(members.shape[0])
    for _ in range(max_sweeps):
        settled = True
        for g in range(thresholds.shape[0]):
            for j in range(starts[g], starts[g + 1]):
                residual[members[j]] += duals[j]
            norm = norm_of(residual, members, starts[g], starts[g + 1])
            ratio = 1.0 if norm <= thresholds[g] else thresholds[g] / norm
            for j in range(starts[g], starts[g + 1]):
                dual = ratio * residual[members[j]]
                settled = settled and abs(dual - duals[j]) <= tolerance * norm
                duals[j] = dual
                residual[members[j]] -= dual
        if settled:
            break
    for k in range(x.shape[0]):
        if abs(residual[k]) <= 10.0 * tolerance * abs(x[k]):
            residual[k] = 0.0
    return residual
