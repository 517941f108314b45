"""SimpleMKL: reduced gradient descent on the kernel weights."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from omkl.batch.wrappers.wrapper import Point, Search, Wrapper
from omkl.exceptions import InputError


class SimpleMKL(Wrapper):
    r"""Reduced gradient descent on the simplex (Rakotomamonjy et al. 2008).

    A direction is followed as long as J falls: from one face of the simplex to the next, then to a point where the
    slope along it has all but vanished. As in the authors' own code every kernel that leaves costs a base SVM, which
    among thousands of kernels are hundreds an outer iteration.

    Parameters
    ----------
    flatness : float in (0, 1)
        Share of the first slope at which the line search ends.
    svm : callable or scikit-learn estimator, optional
        As for every wrapper method.

    References
    ----------
    A. Rakotomamonjy, F. R. Bach, S. Canu, Y. Grandvalet. SimpleMKL. JMLR 9:2491-2521, 2008.
    """

    aliases = {"simplemkl": {}}

    def __init__(self, flatness: float = 0.1, svm: Any = None) -> None:
        if not 0 < flatness < 1:
            raise InputError(f"flatness must lie in (0, 1), not {flatness!r}.")
        super().__init__(svm)
        self.flatness = float(flatness)

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        while True:
            pivot = int(np.argmax(point.weights))
            direction = reduced_gradient(point, pivot)
            if not np.any(direction):
                return
            lower = self._descend(search, point, direction, pivot)
            if lower.value >= point.value:
                return
            point = lower
            yield point

    def _descend(self, search, point, direction, pivot):
        """The lowest point found along a direction, which loses the components that reach 0."""
        steepest = point.gradient @ direction
        while True:
            falling = np.flatnonzero(direction < 0)
            reach = point.weights[falling] / -direction[falling]
            weights = _moved(point.weights, direction, reach.min())
            vanishing = falling[reach <= reach.min()]
            weights[vanishing] = 0.0
            end = search.evaluate(weights / weights.sum())
            if end.value >= point.value or end.gradient @ direction > 0:
                return self._flatten(search, point, end, direction, steepest)
            point = end
            direction = direction.copy()
            direction[vanishing] = 0.0
            direction[pivot] -= direction.sum()
            if point.gradient @ direction >= 0 or not np.any(direction < 0):
                return point

    def _flatten(self, search, low, high, direction, steepest):
        """A point between the two where the slope is small: regula falsi, halving the end that stays (Illinois)."""
        slopes, start = [low.gradient @ direction, high.gradient @ direction], low.value
        best = min(low, high, key=lambda point: point.value)
        for _ in range(30):
            if not slopes[0] < 0 < slopes[1]:
                break
            share = slopes[0] / (slopes[0] - slopes[1])
            middle = search.evaluate(low.weights + share * (high.weights - low.weights))
            best = min(best, middle, key=lambda point: point.value)
            slope = middle.gradient @ direction
            # an SVM's slopes are less exact than its value: flat is not enough
            if abs(slope) <= self.flatness * abs(steepest) and middle.value < start:
                break
            if slope < 0:
                low, slopes = middle, [slope, 0.5 * slopes[1]]
            else:
                high, slopes = middle, [0.5 * slopes[0], slope]
        return best


def reduced_gradient(point: Point, pivot: int) -> np.ndarray:
    """The direction of steepest descent in which the weights keep their sum, and none at 0 falls."""
    direction = point.gradient[pivot] - point.gradient
    direction[(point.weights == 0) & (direction < 0)] = 0.0
    direction[pivot] = 0.0
    direction[pivot] = -direction.sum()
    return direction


def _moved(weights, direction, step):
    return np.maximum(weights + step * direction, 0.0)
