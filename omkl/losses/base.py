r"""Base of pointwise losses: functions of one prediction per sample, and their conjugates.

A batch problem sums ``l(y_i, z_i)``; its dual has :math:`-l^*(y_i, -\rho_i)` in its place (Suzuki
and Tomioka 2011). The dual variable at a prediction is :math:`\rho = -l'(y, z)`. All methods take
and return arrays of shape (N,). The online trainer calls ``value_and_gradient`` with one sample at
a time.
"""

from functools import partial
from typing import ClassVar, TypeAlias

import numpy as np

from omkl._components import Component
from omkl._roots import limit_at, unbounded_root
from omkl.structures.base import Potentials, Structure

#: Value of a loss, and its gradient in the potentials, None if it is zero.
ValueAndGradient: TypeAlias = tuple[float, Potentials | None]
#: Width of the differences that replace second derivatives, relative to a prediction.
WIDTH = 1e-5
#: Relative rounding of a dual point at the ends of the domain.
OVERSHOOT = 1e-12


class PointwiseLoss(Component):
    r"""A convex loss :math:`l(y, z)` of the target and the prediction.

    Subclasses define :meth:`value` and :meth:`gradient`, and declare kinks. The base class computes
    the conjugate, its derivatives and its domain by bisection, for batch solvers; closed forms are
    faster. :func:`omkl.testing.check_loss` checks what is defined.
    """

    required = "value", "gradient"

    #: True if targets are -1 and +1; else they are any finite numbers.
    classifies: bool = False
    #: True if the loss has a kink in z, so that its conjugate is linear between the ends of its
    #: domain.
    has_kink: ClassVar[bool] = False
    #: True if an interval of predictions is optimal, so that the conjugate has a kink at 0 inside
    #: its domain.
    has_dead_zone: bool = False
    #: Upper bound of the second derivative in z: ``inf`` with a kink, or if it is unbounded.
    curvature: float = np.inf
    #: True if the second derivative in z is 1 everywhere.
    is_quadratic: ClassVar[bool] = False
    #: True if the loss depends on the error y - z only: batch solvers with an intercept then centre
    #: the targets.
    shift_invariant: ClassVar[bool] = False
    #: True if the prediction is :meth:`mean` of z, not z itself.
    has_link: ClassVar[bool] = False
    #: Ends of the domain of the conjugate if no target changes them; for a loss of classes, those
    #: for the target 1. None: :meth:`domain` computes them.
    ends: tuple[float, float] | None = None
    #: True if the loss depends on the cost of outputs; see :class:`~omkl.losses.StructuredLoss`.
    uses_cost: ClassVar[bool] = False
    #: Weight of the losses for ``C="auto"``.
    default_c: ClassVar[float] = 1.0

    def value(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the loss of each sample.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        z : array of shape (N,)
            Predictions.
        """
        self.must_define("value")

    def gradient(self, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        """Return the derivative in z, a subgradient at a kink.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        z : array of shape (N,)
            Predictions.
        """
        self.must_define("gradient")

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r""":math:`l^*(y, -\rho) = \sup_z\, -\rho z - l(y, z)`; ``inf`` outside the domain.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        low, high = self.domain(y)
        slack = OVERSHOOT * np.maximum(np.abs(low), np.abs(high))
        z = self._prediction(y, np.clip(rho, low, high))
        with np.errstate(invalid="ignore"):
            values = -rho * z - self.value(y, z)
        is_inside = (rho >= low - slack) & (rho <= high + slack)
        # at the ends of the domain, a prediction may be infinite
        return np.where(is_inside & np.isfinite(values), values, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r"""Return the derivative of :math:`l^*(y, -\rho)` in :math:`\rho`, minus the best z.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        return -self._prediction(y, rho)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r"""Return the second derivative of :math:`l^*(y, -\rho)`; 0 for piecewise linear losses.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        z = self._prediction(y, rho)
        width = WIDTH * np.maximum(1.0, np.abs(z))
        with np.errstate(invalid="ignore"):
            rise = self.gradient(y, z + width) - self.gradient(y, z - width)
        return np.divide(2.0 * width, rise, out=np.full_like(width, np.inf), where=rise > 0.0)

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the lowest and the highest :math:`\rho` with a finite conjugate, around 0.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        """
        if self.ends is None:
            slopes = partial(self.gradient, y)
            return -limit_at(1.0, slopes, y), -limit_at(-1.0, slopes, y)
        low, high = self.ends
        if self.classifies:
            return np.where(y > 0, low, 0.0 - high), np.where(y > 0, high, 0.0 - low)
        return np.full(len(y), low), np.full(len(y), high)

    def _prediction(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """Return the prediction closest to 0 whose dual variable is ``rho``."""
        sign = np.where(self.gradient(y, np.zeros_like(rho)) < -rho, 1.0, -1.0)
        return sign * unbounded_root(lambda size: sign * self.gradient(y, sign * size), -sign * rho)

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
        """Return the constant to add to z that minimizes the weighted loss; None without a formula.

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

    def value_and_gradient(
        self, structure: Structure, potentials: Potentials, gold: float
    ) -> ValueAndGradient:
        """Return value and gradient for a number as output, as structured losses do for labels.

        Parameters
        ----------
        structure : omkl.structures.Scalar, or omkl.structures.Binary for a loss of two classes
        potentials : UnaryPotentials
            Potentials of one sample.
        gold : float
            A number, or the label 0 or 1, whose targets are -1 and +1.

        Returns
        -------
        value : float >= 0
        gradient : UnaryPotentials or None
            None where it is zero.
        """
        target = gold
        if self.classifies:
            target = 2.0 * gold - 1.0
        y = np.array([target])
        z = potentials.unary[:, 0]
        value = float(self.value(y, z)[0])
        slope = self.gradient(y, z)
        if slope[0] == 0.0:
            return value, None
        return value, potentials._replace(unary=slope[:, None])


class PiecewiseQuadratic(PointwiseLoss):
    r"""Base of losses whose pieces are linear, or have the second derivative 1.

    Then :math:`l^*(y, -\rho) = -y \rho`, or :math:`-y \rho + \rho^2 / 2`, in its domain.
    """

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        low, high = self.domain(y)
        values = -y * rho
        if not self.has_kink:
            values = values + 0.5 * rho**2
        return np.where((low <= rho) & (rho <= high), values, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return -np.asarray(y, dtype=np.float64) if self.has_kink else rho - y

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.zeros(len(y)) if self.has_kink else np.ones(len(y))
