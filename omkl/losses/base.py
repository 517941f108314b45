r"""Base of pointwise losses: functions of one prediction per sample, and their conjugates.

A batch problem sums ``l(y_i, z_i)``; its dual has :math:`-l^*(y_i, -\rho_i)` in its place (Suzuki and Tomioka 2011).
The dual variable at a prediction is :math:`\rho = -l'(y, z)`. All methods take and return arrays of shape (N,). The
online trainer calls ``value_and_gradient`` with one sample at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from omkl._components import Component

if TYPE_CHECKING:
    from omkl.structures.base import Potentials, Structure

#: Reason given in errors for missing methods other than value and gradient.
BATCH = "batch solvers need it, online estimators do not"


class PointwiseLoss(Component):
    r"""A convex loss :math:`l(y, z)` of the target and the prediction.

    Subclasses define :meth:`value`, :meth:`gradient`, :meth:`conjugate` and its two derivatives, and :meth:`domain`.
    """

    #: True if targets are -1 and +1; else they are any finite numbers.
    classifies: bool = False
    #: True if the loss has a kink in z, so that its conjugate is linear between the ends of its domain.
    has_kink: ClassVar[bool] = False
    #: True if an interval of predictions is optimal, so that the conjugate has a kink at 0 inside its domain.
    has_dead_zone: bool = False
    #: Upper bound of the second derivative in z: ``inf`` with a kink, or if it is unbounded.
    curvature: float = np.inf
    #: True if the second derivative in z is 1 everywhere.
    is_quadratic: ClassVar[bool] = False
    #: True if the loss depends on the error y - z only: batch solvers with an intercept then centre the targets.
    shift_invariant: ClassVar[bool] = False
    #: True if the prediction is :meth:`mean` of z, not z itself.
    has_link: ClassVar[bool] = False
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
        self.must_define("conjugate", BATCH)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r"""Return the derivative of :math:`l^*(y, -\rho)` in :math:`\rho`, in the domain; :math:`-z` at the optimum.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        self.must_define("conjugate_gradient", BATCH)

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        r"""Return the second derivative of :math:`l^*(y, -\rho)` in :math:`\rho`; 0 where the loss is piecewise linear.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        rho : array of shape (N,)
            Dual variables.
        """
        self.must_define("conjugate_curvature", BATCH)

    def domain(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the lowest and the highest :math:`\rho` with a finite conjugate, as two arrays. 0 lies between them.

        Parameters
        ----------
        y : array of shape (N,)
            Targets.
        """
        self.must_define("domain", BATCH)

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
        """Return the constant to add to z that minimizes the weighted loss, or None if there is no formula for it.

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
    ) -> tuple[float, Potentials | None]:
        """Return value and gradient as a :class:`~omkl.losses.StructuredLoss` does, for a number as output.

        Parameters
        ----------
        structure : omkl.structures.Scalar
        potentials : UnaryPotentials
            Potentials of one sample.
        gold : float

        Returns
        -------
        value : float >= 0
        gradient : UnaryPotentials or None
            None where it is zero.
        """
        y, z = np.array([gold]), potentials.unary[:, 0]
        slope = self.gradient(y, z)
        return float(self.value(y, z)[0]), potentials._replace(unary=slope[:, None]) if slope[0] != 0.0 else None


class PiecewiseQuadratic(PointwiseLoss):
    r"""Base of losses whose pieces are linear, or have the second derivative 1.

    Then :math:`l^*(y, -\rho) = -y \rho`, or :math:`-y \rho + \rho^2 / 2`, in its domain.
    """

    def conjugate(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        low, high = self.domain(y)
        inside = -y * rho if self.has_kink else -y * rho + 0.5 * rho**2
        return np.where((low <= rho) & (rho <= high), inside, np.inf)

    def conjugate_gradient(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return -np.asarray(y, dtype=np.float64) if self.has_kink else rho - y

    def conjugate_curvature(self, y: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return np.zeros(len(y)) if self.has_kink else np.ones(len(y))
