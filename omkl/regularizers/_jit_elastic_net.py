"""Weights of kernels under an elastic-net constraint: the loops of their proximity operator."""

import numpy as np

from omkl._compilation import compiled


@compiled
def elastic_net_root(excess, step, eta, unit):
    """The ``d`` in ``[0, 2]`` with ``((t + d) / u)^2 (eta + 2 (1 - eta) d) - (t / u)^2 eta = excess``, and its slope.

    0 where none is. The left side, a sum of terms >= 0, is convex and increasing: Newton's method from the right, from
    where its tangent in 0 reaches the excess, never passes the root.
    """
    if excess <= 0.0:
        return 0.0, 0.0
    first_slope = 2.0 * (1.0 - eta) * (step / unit) ** 2 + 2.0 * eta * (step / unit) / unit
    d = min(2.0, excess / first_slope) if first_slope > 0.0 else 2.0
    while True:
        whole = (step + d) / unit
        quadratic = 2.0 * (1.0 - eta) * whole * whole
        linear = eta * (2.0 * step / unit + d / unit) / unit
        slope = quadratic + 2.0 * whole * (eta + 2.0 * (1.0 - eta) * d) / unit
        moved = d - (d * (quadratic + linear) - excess) / slope
        if not moved < d or moved <= 0.0:
            return d, slope
        d = moved


@compiled
def weights_of_elastic_net_prox(squares, step, eta):
    """The ``d >= 0`` with ``eta ||d||_1 + (1 - eta) ||d||_2^2 = 1`` and least ``sum_k squares_k t / (d_k + t)``.

    ``(t + d_k)^2 (eta + 2 (1 - eta) d_k) = m squares_k`` where ``d_k > 0``, in units of ``u = max(t, 1)`` squared; the
    multiplier ``m`` is found by Newton's method, kept inside a bracket. The largest square is 1, and ``eta < 1``.
    """
    weights = np.empty(squares.shape[0])
    unit = max(step, 1.0)
    low = (step / unit) ** 2 * eta
    high = ((step + 2.0) / unit) ** 2 * (4.0 - 3.0 * eta)
    multiplier = ((step + 1.0) / unit) ** 2 * (2.0 - eta)
    for _ in range(200):
        size = -1.0
        growth = 0.0
        for k in range(squares.shape[0]):
            d, slope = elastic_net_root(multiplier * squares[k] - (step / unit) ** 2 * eta, step, eta, unit)
            weights[k] = d
            size += eta * d + (1.0 - eta) * d * d
            if d > 0.0:
                growth += (eta + 2.0 * (1.0 - eta) * d) * squares[k] / slope
        if size > 0.0:
            high = multiplier
        else:
            low = multiplier
        moved = multiplier - size / growth if growth > 0.0 else low
        if not low < moved < high:
            moved = 0.5 * (low + high)
        if abs(moved - multiplier) <= 1e-15 * multiplier:
            break
        multiplier = moved
    return weights
