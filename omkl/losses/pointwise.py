r"""Losses of one number a sample, as functions of the prediction and through their conjugates.

A batch problem sums ``l(y_i, z_i)``; its dual has :math:`-l^*(y_i, -\rho_i)` in its place (Suzuki and Tomioka 2011).
The dual variable at a prediction is :math:`\rho = -l'(y, z)`. All methods take and return arrays of shape (N,). The
online trainer calls ``value_and_gradient`` with one sample at a time.
"""

from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, xlogy

from omkl._components import Component
from omkl.exceptions import InputError

#: Reason in errors for methods beyond value and gradient.
BATCH = "batch solvers need it, online estimators do not"


class PointwiseLoss(Component):
    r"""A convex loss :math:`l(y, z)` of the target and the prediction.

    A loss of your own is a subclass with :meth:`value`, :meth:`gradient`, :meth:`conjugate` and its two derivatives,
    and :meth:`domain`.
    """

    #: True if targets are -1 and +1; else they are any finite numbers.
    classifies: bool = False
    #: True if the loss has a kink in z, so that its conjugate is linear between the ends of its domain.
    has_kink: ClassVar[bool] = False
    #: True if an interval of predictions is optimal, so that the conjugate has a kink at 0 inside its domain.
    has_dead_zone: bool = False
    #: Upper bound of the second derivative in z: ``inf`` with a kink, or where there is none.
    curvature: float = np.inf
    #: True if the second derivative in z is 1 everywhere.
    is_quadratic: ClassVar[bool] = False
    #: True if the prediction is a function of z, :meth:`mean`, and not z itself.
    has_link: ClassVar[bool] = False

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the loss of each sample.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        z : array of shape (N,)
            Predictions.
        """
        raise self.undefined("value")

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the derivative in z, a subgradient at a kink.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        z : array of shape (N,)
            Predictions.
        """
        raise self.undefined("gradient")

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r""":math:`l^*(y, -\rho) = \sup_z\, -\rho z - l(y, z)`; ``inf`` outside the domain.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        raise self.undefined("conjugate", BATCH)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r"""Return the derivative of :math:`l^*(y, -\rho)` in :math:`\rho`, in the domain; :math:`-z` at the optimum.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        raise self.undefined("conjugate_gradient", BATCH)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r"""Return the second derivative of :math:`l^*(y, -\rho)` in :math:`\rho`; 0 where the loss is piecewise linear.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        raise self.undefined("conjugate_curvature", BATCH)

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the lowest and the highest :math:`\rho` with a finite conjugate: two arrays. 0 always lies between.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        """
        raise self.undefined("domain", BATCH)

    def mean(self, z: np.ndarray) -> np.ndarray:
        """Return the expected target at a prediction z: z itself, except for losses with a link.

        Parameters
        ----------
        z : array of shape (N,)
            Predictions.
        """
        return z

    def check_targets(self, y: np.ndarray) -> None:
        """Raise an ``InputError`` unless the loss is defined for these targets.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        """

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float | None:
        """Return the constant to add to z that minimizes the weighted loss, or None without a formula.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        z : array of shape (N,)
            Predictions.
        weights : array of shape (N,)
            Sample weights.
        """
        return None

    def value_and_gradient(self, structure: Any, potentials: Any, gold: float) -> tuple[float, Any]:
        """Return value and gradient as a :class:`~omkl.losses.StructuredLoss` does, for a number as output.

        Parameters
        ----------
        structure : omkl.structures.Scalar
        potentials : Potentials
            Of one sample.
        gold : float

        Returns
        -------
        value : float >= 0
        gradient : Potentials or None
            None where it is zero.
        """
        y, z = np.array([gold]), structure.prediction(potentials)
        slope = self.gradient(y, z)
        return float(self.value(y, z)[0]), structure.as_potentials(slope) if slope[0] != 0.0 else None


class Logistic(PointwiseLoss):
    r""":math:`\log(1 + e^{-yz})`.

    >>> Logistic().gradient(np.array([1.0]), np.array([0.0]))
    array([-0.5])
    """

    aliases = {"logistic": {}}
    classifies = True
    curvature = 0.25

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -y * z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return -y * expit(-y * z)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        inside = (u >= 0) & (u <= 1)
        u = np.clip(u, 0.0, 1.0)
        return np.where(inside, xlogy(u, u) + xlogy(1 - u, 1 - u), np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        return y * (np.log(u) - np.log1p(-u))

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        return 1.0 / (u * (1.0 - u))

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(y, 0.0), np.maximum(y, 0.0)


class Exponential(PointwiseLoss):
    r""":math:`e^{-yz}`, the loss of boosting, with the conjugate :math:`u \log u - u` of :math:`u = y \rho \ge 0`.

    >>> Exponential().value(np.array([-1.0]), np.array([0.0]))
    array([1.])
    """

    aliases = {"exponential": {}}
    classifies = True

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(-y * z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return -y * self.value(y, z)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        return np.where(u >= 0, xlogy(np.maximum(u, 0.0), np.maximum(u, 0.0)) - u, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return y * np.log(y * rho)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return 1.0 / (y * rho)

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)


class Hinge(PointwiseLoss):
    r""":math:`\max(0, 1 - yz)`, the loss of the support vector machine."""

    aliases = {"hinge": {}}
    classifies = True
    has_kink = True

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - y * z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.where(y * z < 1.0, -y, 0.0)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        return np.where((u >= 0) & (u <= 1), -u, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return -np.asarray(y, dtype=np.float64)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.zeros(len(y))

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.minimum(y, 0.0), np.maximum(y, 0.0)

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        return _lowest_point(y - z, weights, -float(weights[y > 0].sum()))


class SquaredHinge(PointwiseLoss):
    r""":math:`\frac12 \max(0, 1 - yz)^2`."""

    aliases = {"squared-hinge": {}}
    classifies = True
    curvature = 1.0

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return _half_squares(np.maximum(0.0, 1.0 - y * z))

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return -y * np.maximum(0.0, 1.0 - y * z)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        u = y * rho
        return np.where(u >= 0, -u + 0.5 * rho**2, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return rho - y

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.ones(len(y))

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.where(y > 0, 0.0, -np.inf), np.where(y > 0, np.inf, 0.0)


class Squared(PointwiseLoss):
    r""":math:`\frac12 (y - z)^2`."""

    aliases = {"squared": {}}
    curvature = 1.0
    is_quadratic = True

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return _half_squares(y - z)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return z - y

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return -y * rho + 0.5 * rho**2

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return rho - y

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.ones(len(y))

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(y), -np.inf), np.full(len(y), np.inf)

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        total = weights.sum()
        shift = weights @ (y - z) / total
        return float(shift + weights @ (y - z - shift) / total)  # a second mean removes the rounding error of the first


class EpsilonInsensitive(PointwiseLoss):
    r""":math:`\max(0, |y - z| - \varepsilon)`, the loss of support vector regression.

    Parameters
    ----------
    epsilon : float >= 0
        Half the width of the tube without loss, in units of y.
    """

    aliases = {"epsilon-insensitive": {}, "eps-insensitive": {}}
    has_kink = True

    def __init__(self, epsilon: float = 0.1) -> None:
        if not 0 <= epsilon < np.inf:
            raise InputError(f"epsilon must be a finite number >= 0, not {epsilon!r}.")
        self.epsilon = float(epsilon)
        self.has_dead_zone = self.epsilon > 0

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, np.abs(y - z) - self.epsilon)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.where(np.abs(y - z) > self.epsilon, np.sign(z - y), 0.0)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.where(np.abs(rho) <= 1.0, -y * rho + self.epsilon * np.abs(rho), np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return -y + self.epsilon * np.sign(rho)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.zeros(len(y))

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(y), -1.0), np.ones(len(y))

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        kinks = np.concatenate([y - z - self.epsilon, y - z + self.epsilon])
        return _lowest_point(kinks, np.tile(weights, 2), -float(weights.sum()))


class Quantile(PointwiseLoss):
    r""":math:`\tau \max(0, y - z) + (1 - \tau) \max(0, z - y)`: its minimizer is a quantile (Koenker, Bassett 1978).

    Parameters
    ----------
    quantile : float in (0, 1)
        :math:`\tau`; 0.5 is the median, at half the absolute error.

    >>> Quantile(0.9).value(np.array([1.0, 1.0]), np.array([0.0, 2.0]))
    array([0.9, 0.1])
    """

    aliases = {"quantile": {}}
    has_kink = True

    def __init__(self, quantile: float = 0.5) -> None:
        if not 0 < quantile < 1:
            raise InputError(f"quantile must lie in (0, 1), not {quantile!r}.")
        self.quantile = float(quantile)

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.maximum(self.quantile * (y - z), (1.0 - self.quantile) * (z - y))

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.where(z < y, -self.quantile, np.where(z > y, 1.0 - self.quantile, 0.0))

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        low, high = self.domain(y)
        return np.where((low <= rho) & (rho <= high), -y * rho, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return -np.asarray(y, dtype=np.float64)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.zeros(len(y))

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(y), self.quantile - 1.0), np.full(len(y), self.quantile)

    def best_shift(self, y: np.ndarray, z: np.ndarray, weights: np.ndarray) -> float:
        return _lowest_point(y - z, weights, -self.quantile * float(weights.sum()))


class Huber(PointwiseLoss):
    r"""Squared up to an error of :math:`\delta`, linear beyond.

    Parameters
    ----------
    delta : float > 0
        In units of y.
    """

    aliases = {"huber": {}}
    curvature = 1.0

    def __init__(self, delta: float = 1.0) -> None:
        if not 0 < delta < np.inf:
            raise InputError(f"delta must be a finite number > 0, not {delta!r}.")
        self.delta = float(delta)

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        error = np.abs(y - z)
        within = np.minimum(error, self.delta)
        return within * (error - 0.5 * within)

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.clip(z - y, -self.delta, self.delta)

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.where(np.abs(rho) <= self.delta, -y * rho + 0.5 * rho**2, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return rho - y

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.ones(len(y))

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(len(y), -self.delta), np.full(len(y), self.delta)


def _half_squares(errors: np.ndarray) -> np.ndarray:
    """Return half the squares, inf on overflow; callers refuse to learn from infinite losses."""
    with np.errstate(over="ignore"):
        return 0.5 * errors**2


def _lowest_point(kinks: np.ndarray, rises: np.ndarray, slope: float) -> float:
    """Return the minimizer of a convex piecewise linear function, the middle of its lowest piece.

    Parameters
    ----------
    kinks, rises : arrays of shape (K,)
        Positions where the slope rises, and by how much.
    slope : float <= 0
        Before the first kink.
    """
    order = np.argsort(kinks, kind="stable")
    slopes, rounding = slope + np.cumsum(rises[order]), 1e-14 * float(rises.sum())
    last = len(order) - 1
    low = kinks[order[min(int(np.searchsorted(slopes, -rounding)), last)]]
    high = kinks[order[min(int(np.searchsorted(slopes, rounding, side="right")), last)]]
    return float(0.5 * low + 0.5 * high)
