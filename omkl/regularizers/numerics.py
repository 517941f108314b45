"""Bisection and safe division on vectors of norms."""

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

#: Relative rounding of a point that was scaled to the boundary of a conjugate's domain.
OVERSHOOT = 1e-12
#: Largest norm at which a maximizer is looked for.
FARTHEST = 1e100

#: Convert to a float64 array, without a copy where it already is one.
as_vector: Callable[[ArrayLike], np.ndarray] = partial(np.asarray, dtype=np.float64)


def ratio_or_zero(numerator: ArrayLike, denominator: ArrayLike, otherwise: float = 0.0) -> np.ndarray:
    """Return the elementwise quotient, and ``otherwise`` where the denominator is 0."""
    denominator = as_vector(denominator)
    return np.divide(numerator, denominator, out=np.full_like(denominator, otherwise), where=denominator != 0)


def increasing_root(function: Callable, target: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the smallest ``x`` in ``[0, upper]`` with ``function(x) >= target``, elementwise, by bisection.

    Parameters
    ----------
    function : callable
        Maps an array to an array, increasing in every coordinate.
    target, upper : arrays of shape (p,)
    """
    low = np.zeros_like(upper)
    high = upper.astype(np.float64)
    high[function(low) >= target] = 0.0
    while True:
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            return high
        below = function(middle) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)


def maximizers(slopes: Callable, dual_norms: np.ndarray) -> np.ndarray:
    r"""Return the maximizers of :math:`y_k b - \psi_k(b)`: where the slopes of :math:`\psi_k` reach ``y_k >= 0``.

    They are ``inf`` where the slopes stay below up to norms of 1e100.
    """
    upper = np.ones_like(dual_norms)
    with np.errstate(over="ignore"):
        while np.any(short := (slopes(upper) < dual_norms) & (upper <= FARTHEST)):
            upper[short] *= 4.0
        root = increasing_root(slopes, dual_norms, upper)
    return np.where(upper > FARTHEST, np.inf, root)
