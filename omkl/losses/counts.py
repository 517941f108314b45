"""Losses of counts, whose mean is a function of the prediction."""

import numpy as np
from scipy.special import logsumexp, xlogy

from omkl.exceptions import InputError
from omkl.losses.pointwise import PointwiseLoss


class Poisson(PointwiseLoss):
    r""":math:`e^z - y z + y \log y - y`, half the deviance of counts y whose mean is :math:`e^z`.

    The conjugate is that of the exponential function: :math:`l^*(y, -\rho) = u \log u - u - y \log y + y` with
    :math:`u = y - \rho \ge 0`. As in scikit-learn's ``PoissonRegressor``, targets are any numbers >= 0.

    >>> Poisson().mean(np.array([0.0]))
    array([1.])
    """

    aliases = {"poisson": {}}
    has_link = True

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(z) - y * z + (xlogy(y, y) - y)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return self.mean(z) - y

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y - rho
        inside = np.maximum(u, 0.0)
        return np.where(u >= 0, xlogy(inside, inside) - inside - (xlogy(y, y) - y), np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return -np.log(y - rho)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return 1.0 / (y - rho)

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(y), -np.inf), np.asarray(y, dtype=np.float64)

    def mean(self, z: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(z)

    def check_targets(self, y: np.ndarray) -> None:
        if np.any(y < 0):
            row = int(np.argmax(y < 0))
            raise InputError(f"y holds {y[row]:g} in row {row}, but counts are >= 0: choose another loss.")

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float | None:
        if not y.any():
            raise InputError(
                "y holds zeros only, for which the best constant is minus infinity: there is nothing to learn."
            )
        return float(np.log(weights @ y) - logsumexp(z, b=weights))
