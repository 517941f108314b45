"""Roots of non-decreasing functions of one number, all coordinates at once, to the last bit of a float."""

from collections.abc import Callable

import numpy as np

#: Norms beyond which no maximizer is looked for.
FARTHEST = 1e150

Slopes = Callable[[np.ndarray], np.ndarray]


def increasing_root(function: Slopes, target: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Smallest ``x`` in ``[0, upper]`` with ``function(x) >= target``, elementwise, for an increasing function."""
    low = np.zeros_like(upper)
    high = upper.astype(np.float64)
    high[function(low) >= target] = 0.0
    for _ in range(1100):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        below = function(middle) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def maximizers(slopes: Slopes, dual_norms: np.ndarray) -> np.ndarray:
    r"""Where the slopes of :math:`\psi_k` reach ``y_k >= 0``: the maximizers of :math:`y_k b - \psi_k(b)`.

    ``inf`` where they do not below norms of 1e150.
    """
    upper = np.ones_like(dual_norms)
    with np.errstate(over="ignore"):
        while np.any(short := (slopes(upper) < dual_norms) & (upper <= FARTHEST)):
            upper[short] *= 4.0
        root = increasing_root(slopes, dual_norms, upper)
    return np.where(upper > FARTHEST, np.inf, root)
