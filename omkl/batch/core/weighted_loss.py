"""The loss of each sample times its weight: what objectives with sample weights, C or means are made of."""

import numpy as np
from numpy.typing import ArrayLike

from omkl.losses import PointwiseLoss


class WeightedLoss(PointwiseLoss):
    r""":math:`v_i\, l(y_i, z)`, with the conjugate :math:`v_i\, l^*(y_i, -\rho / v_i)`.

    Parameters
    ----------
    loss : PointwiseLoss
    weights : float or array of shape (N,)
        :math:`v_i > 0`.

    >>> from omkl.losses import Squared
    >>> WeightedLoss(Squared(), 0.5).gradient(np.zeros(2), np.array([1.0, 2.0]))
    array([0.5, 1. ])
    """

    def __init__(self, loss: PointwiseLoss, weights: ArrayLike):
        self.loss = loss
        self.weights = np.asarray(weights, dtype=np.float64)
        self.classifies = loss.classifies
        self.curvature = loss.curvature * float(self.weights.max())

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return self.weights * self.loss.value(y, z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return self.weights * self.loss.gradient(y, z)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return self.weights * self.loss.conjugate(y, rho / self.weights)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return self.loss.conjugate_gradient(y, rho / self.weights)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return self.loss.conjugate_curvature(y, rho / self.weights) / self.weights

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        low, high = self.loss.domain(y)
        return self.weights * low, self.weights * high

    def balanced(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        low, high = self.domain(y)
        if np.isneginf(low).all() and np.isposinf(high).all():
            return rho - self.weights * rho.mean() / self.weights.mean()
        return super().balanced(y, rho)
