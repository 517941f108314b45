r"""A loss summed over weighted samples, and its conjugate: what primal and dual of every batch problem are made of."""

import numpy as np

from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss


class WeightedLoss:
    r""":math:`\sum_i c_i\, l(y_i, z_i)` as a function of the predictions z, and its conjugate at :math:`-\rho`.

    The conjugate is :math:`\sum_i c_i\, l^*(y_i, -\rho_i / c_i)`. Arrays have one entry a sample, (N,).

    Parameters
    ----------
    loss : PointwiseLoss
    y : array of shape (N,)
    weights : array of shape (N,)
        The :math:`c_i > 0`.

    Raises
    ------
    omkl.exceptions.InputError
        If weights are not finite numbers > 0, one a sample.
    """

    def __init__(self, loss: PointwiseLoss, y: np.ndarray, weights: np.ndarray) -> None:
        if weights.shape != np.shape(y) or not np.isfinite(weights).all() or not (weights > 0).all():
            raise InputError("Sample weights must be finite and > 0, one a sample: leave out samples of weight 0.")
        self.loss, self.y, self.weights = loss, y, weights

    def values(self, outputs: np.ndarray) -> np.ndarray:
        """The weighted loss of each sample."""
        return self.weights * self.loss.value(self.y, outputs)

    def value(self, outputs: np.ndarray) -> float:
        """The sum over samples."""
        return float(self.values(outputs).sum())

    def dual_point(self, outputs: np.ndarray) -> np.ndarray:
        r""":math:`\rho_i = -c_i\, l'(y_i, z_i)`."""
        return -self.weights * self.loss.gradient(self.y, outputs)

    def conjugates(self, rho: np.ndarray) -> np.ndarray:
        r""":math:`c_i\, l^*(y_i, -\rho_i / c_i)` of each sample; ``inf`` outside the domain."""
        return self.weights * self.loss.conjugate(self.y, rho / self.weights)

    def conjugate_gradient(self, rho: np.ndarray) -> np.ndarray:
        r"""Derivative of each in :math:`\rho_i`."""
        return self.loss.conjugate_gradient(self.y, rho / self.weights)

    def conjugate_curvature(self, rho: np.ndarray) -> np.ndarray:
        r"""Second derivative of each in :math:`\rho_i`."""
        return self.loss.conjugate_curvature(self.y, rho / self.weights) / self.weights

    def curvature(self, rho: np.ndarray) -> np.ndarray:
        """Second derivative of each in the prediction whose dual point is given; 0 where the loss is straight."""
        low, high = self.domain()
        curved = (rho > low) & (rho < high)
        inside = 0.5 * (np.maximum(low, -self.weights) + np.minimum(high, self.weights))
        inverse = self.conjugate_curvature(np.where(curved, rho, inside))
        return np.divide(1.0, inverse, out=np.zeros_like(inverse), where=curved & (inverse > 0))

    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Lowest and highest :math:`\rho` with a finite conjugate."""
        low, high = self.loss.domain(self.y)
        return self.weights * low, self.weights * high

    def clipped(self, rho: np.ndarray) -> np.ndarray:
        """The closest point of the domain."""
        return np.clip(rho, *self.domain())

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        r"""A point near :math:`\rho` in the domain with :math:`\sum_i \rho_i = 0`, as an intercept demands.

        Where all points are in the domain the intercept moves; else the side (of positive or of negative values) that
        weighs more is scaled down. Unlike subtracting the mean, as in section 6.1 of Suzuki and Tomioka (2011), that
        cannot leave the domain.
        """
        low, high = self.domain()
        if np.isneginf(low).all() and np.isposinf(high).all():
            return rho - self.weights * (rho.sum() / self.weights.sum())
        rho = np.clip(rho, low, high)
        positive, negative = rho[rho > 0].sum(), -rho[rho < 0].sum()
        lesser = min(positive, negative)
        return np.where(rho > 0, rho * _ratio(lesser, positive), rho * _ratio(lesser, negative))

    def best_intercept(self, outputs: np.ndarray) -> float:
        """The constant that added to all predictions minimises the loss: Newton steps inside a bracket.

        A loss with kinks is bisected. Where all samples are of one class the best constant is infinite, and a large
        one, which is returned, as good.
        """
        limit = 1e3 * (1.0 + np.abs(self.y).max() + np.abs(outputs).max())
        low, high, shift, width = -np.inf, np.inf, 0.0, 1.0 + float(np.abs(self.y).max())
        for iteration in range(200):
            rho = self.dual_point(outputs + shift)
            slope = -float(rho.sum())
            low, high = (shift, high) if slope < 0 else (low, shift)
            if abs(slope) <= 1e-14 * np.abs(rho).sum() or abs(shift) > limit:
                break
            curvature = float(self.curvature(rho).sum()) if iteration % 4 != 3 else 0.0
            target = shift - slope / curvature if curvature > 0 else np.inf
            if np.isinf(high - low):
                if abs(target - shift) > width:
                    target, width = shift - np.sign(slope) * width, 2.0 * width
            elif not low < target < high:
                target = 0.5 * (low + high)
                if target in (low, high):
                    return high
            shift = float(target)
        return shift

    def best_constant(self) -> tuple[float, np.ndarray]:
        r"""The best constant prediction, and a dual point for it that sums to 0.

        A loss with kinks has many :math:`-\rho_i` there: those on both sides are mixed.
        """
        zeros = np.zeros(len(self.y))
        constant = self.best_intercept(zeros)
        beside = 1e-6 * (1.0 + abs(constant))
        below, above = self.dual_point(zeros + constant - beside), self.dual_point(zeros + constant + beside)
        fall = below.sum() - above.sum()
        share = min(max(below.sum() / fall, 0.0), 1.0) if fall > 0 else 0.5
        return constant, self.balanced((1.0 - share) * below + share * above)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
