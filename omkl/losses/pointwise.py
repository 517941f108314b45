"""Losses of one prediction per sample, for classification, regression and counts."""

import numpy as np
from scipy.special import expit, logsumexp, xlogy

from omkl._components import NO_PARAMETERS, check_number
from omkl.exceptions import InputError
from omkl.losses import _jit_pointwise as jit
from omkl.losses.base import PiecewiseQuadratic, PointwiseLoss


class Logistic(PointwiseLoss):
    r""":math:`\log(1 + e^{-yz})`.

    >>> Logistic().gradient(np.array([1.0]), np.array([0.0]))
    array([-0.5])
    """

    aliases = {"logistic": {}}
    compiled = jit.logistic, NO_PARAMETERS
    classifies = True
    ends = 0.0, 1.0
    curvature = 0.25

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -y * z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return -y * expit(-y * z)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        is_inside = (u >= 0) & (u <= 1)
        u = np.clip(u, 0.0, 1.0)
        return np.where(is_inside, xlogy(u, u) + xlogy(1 - u, 1 - u), np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        return y * (np.log(u) - np.log1p(-u))

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        return 1.0 / (u * (1.0 - u))


class Hinge(PiecewiseQuadratic):
    r""":math:`\max(0, 1 - yz)`, the loss of the support vector machine."""

    aliases = {"hinge": {}}
    compiled = jit.hinge, NO_PARAMETERS
    classifies = True
    ends = 0.0, 1.0
    has_kink = True

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - y * z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.where(y * z < 1.0, -y, 0.0)

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        return _lowest_point(y - z, weights, -float(weights[y > 0].sum()))


class SquaredHinge(PiecewiseQuadratic):
    r""":math:`\frac12 \max(0, 1 - yz)^2`."""

    aliases = {"squared-hinge": {}}
    compiled = jit.squared_hinge, NO_PARAMETERS
    classifies = True
    ends = 0.0, np.inf
    curvature = 1.0

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return _half_squares(np.maximum(0.0, 1.0 - y * z))

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return -y * np.maximum(0.0, 1.0 - y * z)


class Squared(PiecewiseQuadratic):
    r""":math:`\frac12 (y - z)^2`."""

    aliases = {"squared": {}}
    ends = -np.inf, np.inf
    compiled = jit.squared, NO_PARAMETERS
    shift_invariant = True
    curvature = 1.0
    is_quadratic = True

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return _half_squares(y - z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return z - y

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        total = weights.sum()
        shift = weights @ (y - z) / total
        # a second mean removes the rounding error of the first
        return float(shift + weights @ (y - z - shift) / total)


class EpsilonInsensitive(PiecewiseQuadratic):
    r""":math:`\max(0, |y - z| - \varepsilon)`, the loss of support vector regression.

    Parameters
    ----------
    epsilon : float >= 0
        Half the width of the tube without loss, in units of y.
    """

    aliases = {"epsilon-insensitive": {}, "eps-insensitive": {}}
    ends = -1.0, 1.0
    shift_invariant = True
    has_kink = True
    compiled = property(lambda self: (jit.epsilon_insensitive, np.array([self.epsilon])))

    def __init__(self, epsilon: float = 0.1) -> None:
        check_number("epsilon", epsilon, least=0)
        self.epsilon = float(epsilon)
        self.has_dead_zone = self.epsilon > 0

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.abs(y - z) - self.epsilon)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.where(np.abs(y - z) > self.epsilon, np.sign(z - y), 0.0)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return super().conjugate(y, rho) + self.epsilon * np.abs(rho)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return self.epsilon * np.sign(rho) - y

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        kinks = np.concatenate([y - z - self.epsilon, y - z + self.epsilon])
        return _lowest_point(kinks, np.tile(weights, 2), -float(weights.sum()))


class Quantile(PiecewiseQuadratic):
    r""":math:`\tau \max(0, y - z) + (1 - \tau) \max(0, z - y)`, whose minimizer is a quantile.

    See Koenker and Bassett (1978).

    Parameters
    ----------
    quantile : float in (0, 1)
        :math:`\tau`; 0.5 is the median, at half the absolute error.

    >>> Quantile(0.9).value(np.array([1.0, 1.0]), np.array([0.0, 2.0]))
    array([0.9, 0.1])
    """

    aliases = {"quantile": {}}
    shift_invariant = True
    has_kink = True
    compiled = property(lambda self: (jit.quantile, np.array([self.quantile])))

    def __init__(self, quantile: float = 0.5) -> None:
        check_number("quantile", quantile, above=0, below=1)
        self.quantile = float(quantile)
        self.ends = self.quantile - 1.0, self.quantile

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(self.quantile * (y - z), (1.0 - self.quantile) * (z - y))

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.where(z < y, -self.quantile, np.where(z > y, 1.0 - self.quantile, 0.0))

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        return _lowest_point(y - z, weights, -self.quantile * float(weights.sum()))


class Huber(PiecewiseQuadratic):
    r"""Squared up to an error of :math:`\delta`, linear beyond.

    Parameters
    ----------
    delta : float > 0
        Largest error with a squared loss, in units of y.
    """

    aliases = {"huber": {}}
    shift_invariant = True
    curvature = 1.0
    compiled = property(lambda self: (jit.huber, np.array([self.delta])))

    def __init__(self, delta: float = 1.0) -> None:
        check_number("delta", delta, above=0)
        self.delta = float(delta)
        self.ends = -self.delta, self.delta

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        error = np.abs(y - z)
        within = np.minimum(error, self.delta)
        return within * (error - 0.5 * within)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.clip(z - y, -self.delta, self.delta)


class Poisson(PointwiseLoss):
    r""":math:`e^z - y z + y \log y - y`, half the deviance of counts y whose mean is :math:`e^z`.

    The conjugate is that of the exponential function:
    :math:`l^*(y, -\rho) = u \log u - u - y \log y + y` with :math:`u = y - \rho \ge 0`. As in
    scikit-learn's ``PoissonRegressor``, targets may be any numbers >= 0.

    >>> Poisson().mean(np.array([0.0]))
    array([1.])
    """

    aliases = {"poisson": {}}
    has_link = True
    compiled = jit.poisson, NO_PARAMETERS

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return self.mean(z) - y * z + (xlogy(y, y) - y)

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
            raise InputError(
                f"y holds {y[row]:g} in row {row}, but counts are >= 0: choose another loss."
            )

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float | None:
        if not y.any():
            raise InputError("y holds only zeros, for which the best constant is minus infinity.")
        return float(np.log(weights @ y) - logsumexp(z, b=weights))


def _half_squares(errors: np.ndarray) -> np.ndarray:
    """Return half the squares, inf on overflow; callers reject infinite losses."""
    with np.errstate(over="ignore"):
        return 0.5 * errors**2


def _lowest_point(kinks: np.ndarray, rises: np.ndarray, slope: float) -> float:
    """Return the minimizer of a convex piecewise linear function, the middle of its lowest piece.

    Parameters
    ----------
    kinks, rises : arrays of shape (K,)
        Positions where the slope rises, and by how much.
    slope : float <= 0
        Slope before the first kink.
    """
    order = np.argsort(kinks, kind="stable")
    sorted_kinks = kinks[order]
    slopes_after = slope + np.cumsum(rises[order])
    rounding = 1e-14 * float(rises.sum())
    last = len(kinks) - 1
    first_flat = int(np.searchsorted(slopes_after, -rounding))
    first_rising = int(np.searchsorted(slopes_after, rounding, side="right"))
    low = sorted_kinks[min(first_flat, last)]
    high = sorted_kinks[min(first_rising, last)]
    return float(0.5 * low + 0.5 * high)
