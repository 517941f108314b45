"""Coefficients that are not regularized: an intercept, and columns of a design."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import qr

from omkl.batch.weighted_loss import WeightedLoss
from omkl.losses import PointwiseLoss

#: Size of a column's part that is orthogonal to those before, relative to the largest, below which it depends on them.
DEPENDENT = 1e-10
#: Most Newton steps, halvings of each, and the relative decrease at which they end.
MOST_STEPS, HALVINGS, FLAT = 100, 40, 1e-14
#: Least second derivative of a step, as a share of the loss's largest.
LEAST_CURVED = 1e-3


class Unpenalized:
    """The matrix U (m, q) of columns that are not regularized.

    Parameters
    ----------
    matrix : array of shape (m, q)

    Attributes
    ----------
    basis : array of shape (m, r)
        Orthonormal columns that span those of U.
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
        """Return the coefficients (q,) of least norm that give these values (m,) of the matrix's span."""
        return np.linalg.lstsq(self.matrix, values, rcond=DEPENDENT)[0]

    def balance(self, rho: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        r"""Return the residual of a quadratic model at the best coefficients: :math:`U^\top \rho = 0`."""
        weighted = curvature[:, None] * self.basis
        return rho - weighted @ np.linalg.lstsq(self.basis.T @ weighted, self.basis.T @ rho, rcond=None)[0]


def minimize(loss: WeightedLoss, outputs: np.ndarray, direction: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return the best values (m,) of what is not regularized, by Newton steps with a line search.

    Parameters
    ----------
    loss : WeightedLoss
    outputs : array of shape (m,)
        Predictions of the rest of the model.
    direction : callable
        The Newton step at a dual point.
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

    The intercept of other losses is here the array U c, (m,).

    Parameters
    ----------
    loss : PointwiseLoss
        Without kinks.
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
        """Return the values U c, (m,), that minimise the loss of predictions plus them."""
        basis = self.free.basis

        def direction(rho: np.ndarray) -> np.ndarray:
            return basis @ np.linalg.solve(basis.T @ (self._curved(rho)[:, None] * basis), basis.T @ rho)

        return minimize(self, outputs, direction)

    def _curved(self, rho: np.ndarray) -> np.ndarray:
        """Return second derivatives of the losses, none of them nearly 0."""
        curvature = self.curvature(rho)
        largest = self.loss.curvature * self.weights if np.isfinite(self.loss.curvature) else curvature.max()
        return np.maximum(curvature, LEAST_CURVED * largest)

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        r"""Return a point near :math:`\rho` in the domain with :math:`U^\top \rho = 0`.

        It is the dual point of the predictions of :math:`\rho` plus the best U c.
        """
        low, high = self.domain()
        inside = np.clip(rho, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
        outputs = -self.conjugate_gradient(inside)
        return self.dual_point(outputs + self.best_intercept(outputs))

    def best_constant(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        values = self.best_intercept(np.zeros(len(self.y)))
        return values, self.dual_point(values)
