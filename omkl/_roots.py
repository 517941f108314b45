"""Roots and limits of increasing functions, from which parts derive what is not defined."""

from collections.abc import Callable
from typing import Any

import numpy as np

#: Largest argument tried in the search for a root.
FARTHEST = 1e100
#: Two arguments that are as good as infinite.
FAR = 1e25
FARTHER = 1e50
#: Largest relative change between these of a function that has a limit.
SETTLED = 1e-9


def increasing_root(function: Callable, target: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Return the smallest ``x`` in ``[0, upper]`` with ``function(x) >= target``, by bisection.

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
        low = np.where(below, middle, low)
        high = np.where(below, high, middle)


def unbounded_root(function: Callable, target: np.ndarray) -> np.ndarray:
    """Return the smallest ``x >= 0`` with ``function(x) >= target``, (p,); ``inf`` beyond 1e100."""
    upper = np.ones_like(target)
    with np.errstate(over="ignore"):
        while np.any(short := (function(upper) < target) & (upper <= FARTHEST)):
            upper[short] *= 4.0
        root = increasing_root(function, target, upper)
    return np.where(upper > FARTHEST, np.inf, root)


def limit_at(sign: float, function: Callable, like: np.ndarray) -> Any:
    """Return the limits of an increasing function at plus or minus infinity.

    They have the shape of ``like``.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        near = function(np.full_like(like, sign * FAR))
        far = function(np.full_like(like, sign * FARTHER))
        return np.where(np.abs(far - near) <= SETTLED * np.abs(far), far, sign * np.inf)
