"""Weighted losses of predictions, their conjugates, and unpenalized coefficients."""

from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import qr

from omkl.exceptions import InputError
from omkl.losses.base import PointwiseLoss

#: Columns are dependent if their part orthogonal to earlier columns is below this share of the largest such part.
DEPENDENT = 1e-10
#: Maximum number of Newton steps, and of halvings of each; relative decrease at which they end.
MOST_STEPS, HALVINGS, FLAT = 100, 40, 1e-14
#: Least second derivative of a step, as a share of the largest one of the loss.
LEAST_CURVED = 1e-3


class WeightedLoss:
    r""":math:`\sum_i c_i\, l(y_i, z_i)` as a function of the predictions z, and its conjugate at :math:`-\rho`.

    The conjugate is :math:`\sum_i c_i\, l^*(y_i, -\rho_i / c_i)`. Arrays have one entry per sample, (N,).

    Parameters
    ----------
    loss : PointwiseLoss
    y : array of shape (N,)
    weights : array of shape (N,)
        The :math:`c_i > 0`.
    offset : array of shape (N,), optional
        Added to the predictions, so that the loss is :math:`l(y_i, z_i + o_i)`; the conjugate gains :math:`o_i \rho_i`.

    Raises
    ------
    omkl.exceptions.InputError
        If there is not one finite weight > 0 per sample, or the targets do not fit the loss.
    """

    #: Whether the loss of a sample has several predictions and is not a sum over them.
    couples_outputs: ClassVar[bool] = False

    def __init__(
        self, loss: PointwiseLoss, y: np.ndarray, weights: np.ndarray, offset: np.ndarray | None = None
    ) -> None:
        loss.check_targets(y)
        if weights.shape != np.shape(y) or not np.isfinite(weights).all() or not (weights > 0).all():
            raise InputError("Sample weights must be finite and > 0, one per sample.")
        self.loss, self.y, self.weights, self.offset = loss, y, weights, offset

    def _with_offset(self, outputs: np.ndarray) -> np.ndarray:
        return outputs if self.offset is None else outputs + self.offset

    def values(self, outputs: np.ndarray) -> np.ndarray:
        """Return the weighted loss of each sample; inf on overflow."""
        with np.errstate(over="ignore"):
            return self.weights * self.loss.value(self.y, self._with_offset(outputs))

    def value(self, outputs: np.ndarray) -> float:
        """Return the sum over samples."""
        return float(self.values(outputs).sum())

    def dual_point(self, outputs: np.ndarray) -> np.ndarray:
        r"""Return :math:`\rho_i = -c_i\, l'(y_i, z_i)`."""
        with np.errstate(over="ignore"):
            return -self.weights * self.loss.gradient(self.y, self._with_offset(outputs))

    def conjugates(self, rho: np.ndarray) -> np.ndarray:
        r"""Return :math:`c_i\, l^*(y_i, -\rho_i / c_i)` of each sample; ``inf`` outside the domain."""
        values = self.weights * self.loss.conjugate(self.y, rho / self.weights)
        return values if self.offset is None else values + self.offset * rho

    def conjugate_gradient(self, rho: np.ndarray) -> np.ndarray:
        r"""Return the derivative of each conjugate in :math:`\rho_i`."""
        return self._with_offset(self.loss.conjugate_gradient(self.y, rho / self.weights))

    def conjugate_curvature(self, rho: np.ndarray) -> np.ndarray:
        r"""Return the second derivative of each conjugate in :math:`\rho_i`."""
        with np.errstate(over="ignore"):
            return self.loss.conjugate_curvature(self.y, rho / self.weights) / self.weights

    def curvature(self, rho: np.ndarray) -> np.ndarray:
        """Return the second derivative of each loss at a dual point; 0 where the loss is linear."""
        if self.loss.is_quadratic:
            return self.largest_curvature()
        low, high = self.domain()
        curved = (rho > low) & (rho < high)
        inside = 0.5 * (np.maximum(low, -self.weights) + np.minimum(high, self.weights))
        inverse = self.conjugate_curvature(np.where(curved, rho, inside))
        return np.divide(1.0, inverse, out=np.zeros_like(inverse), where=curved & (inverse > 0))

    def largest_curvature(self) -> np.ndarray:
        """Return a bound of each sample's second derivatives; infinite if there is none."""
        return self.weights * self.loss.curvature

    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the lowest and the highest :math:`\rho` with a finite conjugate."""
        low, high = self.loss.domain(self.y)
        return self.weights * low, self.weights * high

    @cached_property
    def is_unbounded(self) -> bool:
        """True if every point has a finite conjugate."""
        return all(bool(np.isinf(ends).all()) for ends in self.domain())

    def clipped(self, rho: np.ndarray) -> np.ndarray:
        """Return the closest point of the domain."""
        return rho if self.is_unbounded else np.clip(rho, *self.domain())

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        r"""Return a point near :math:`\rho` in the domain with :math:`\sum_i \rho_i = 0`, as required by an intercept.

        Without bounds, multiples of the weights are subtracted. With bounds, the larger of the positive and the
        negative part is scaled down: unlike subtracting the mean (section 6.1 of Suzuki and Tomioka 2011), this stays
        in the domain.
        """
        if self.is_unbounded:
            return rho - self.weights * (rho.sum() / self.weights.sum())
        rho = self.clipped(rho)
        positive, negative = rho[rho > 0].sum(), -rho[rho < 0].sum()
        lesser = min(positive, negative)
        return np.where(rho > 0, rho * _ratio(lesser, positive), rho * _ratio(lesser, negative))

    def best_intercept(self, outputs: np.ndarray) -> float:
        """Return the constant that, added to all predictions, minimises the loss, by Newton steps inside a bracket.

        Bisection is used for losses with kinks. For samples of one class the best constant is infinite; return a large
        one.
        """
        known = self.loss.best_shift(self.y, self._with_offset(outputs), self.weights)
        if known is not None:
            return known
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
        r"""Return the best constant prediction, and a dual point for it that sums to 0.

        A loss with kinks has many dual points there; mix the points of both sides.
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


# ---- unpenalized coefficients -----------------------------------------------------------------------------------


class Unpenalized:
    """The matrix U (m, q) of columns that are not regularized.

    Parameters
    ----------
    matrix : array of shape (m, q)

    Attributes
    ----------
    basis : array of shape (m, r)
        Orthonormal basis of the span of U.
    """

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix = matrix
        if not matrix.shape[1]:
            self.basis = matrix
            return
        q, r, _ = qr(matrix, mode="economic", pivoting=True)
        sizes = np.abs(np.diag(r))
        self.basis = np.ascontiguousarray(q[:, sizes > DEPENDENT * sizes.max(initial=0.0)])

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """Return the coefficients (q,) of least norm with U c equal to ``values`` (m,)."""
        return np.linalg.lstsq(self.matrix, values, rcond=DEPENDENT)[0]

    def balance(self, rho: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        r"""Return the residual of a quadratic model at the best coefficients: :math:`U^\top \rho = 0`."""
        weighted = curvature[:, None] * self.basis
        return rho - weighted @ np.linalg.lstsq(self.basis.T @ weighted, self.basis.T @ rho, rcond=None)[0]


def minimize(loss: WeightedLoss, outputs: np.ndarray, direction: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the best values (m,) of the unpenalized part, by Newton steps with a line search.

    ``outputs`` (m,) are the predictions of the rest of the model, and ``direction(rho)`` is the Newton step.
    """
    values, value = np.zeros(len(outputs)), loss.value(outputs)
    for _ in range(MOST_STEPS):
        rho = loss.dual_point(outputs + values)
        step = direction(rho)
        if step @ rho <= FLAT * abs(value):
            return values + step
        for _ in range(HALVINGS):
            moved = loss.value(outputs + values + step)
            if moved < value:
                break
            step = 0.5 * step
        else:
            break
        values, value = values + step, moved
    return values


class PartlyFreeLoss(WeightedLoss):
    r"""Weighted losses of predictions plus U c, with the best c; in the dual :math:`U^\top \rho = 0`.

    The array U c, (m,), takes the place of the intercept of other losses.

    Parameters
    ----------
    loss : PointwiseLoss
        Loss without kinks.
    y, weights, offset
        As for :class:`~omkl.batch.weighted_loss.WeightedLoss`.
    free : Unpenalized
    """

    def __init__(
        self, loss: PointwiseLoss, y: np.ndarray, weights: np.ndarray, offset: np.ndarray | None, free: Unpenalized
    ) -> None:
        super().__init__(loss, y, weights, offset)
        self.free = free

    def best_intercept(self, outputs: np.ndarray) -> np.ndarray:  # type: ignore[override]
        """Return the values U c, (m,), that, added to the predictions, minimise the loss."""
        basis = self.free.basis

        def direction(rho: np.ndarray) -> np.ndarray:
            curvature = self.curvature(rho)
            largest = self.loss.curvature * self.weights if np.isfinite(self.loss.curvature) else curvature.max()
            curved = np.maximum(curvature, LEAST_CURVED * largest)  # bounded away from 0
            return basis @ np.linalg.solve(basis.T @ (curved[:, None] * basis), basis.T @ rho)

        return minimize(self, outputs, direction)

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        r"""Return a point near :math:`\rho` in the domain with :math:`U^\top \rho = 0`.

        This is the dual point of the predictions that belong to :math:`\rho`, plus the best U c.
        """
        low, high = self.domain()
        inside = np.clip(rho, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
        outputs = -self.conjugate_gradient(inside)
        return self.dual_point(outputs + self.best_intercept(outputs))

    def best_constant(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        values = self.best_intercept(np.zeros(len(self.y)))
        return values, self.dual_point(values)
