r"""Losses of several outputs in one problem: one loss for each output, or one loss of all scores of a sample.

Arrays concatenate the samples of all outputs, (K m,).
"""

from collections.abc import Iterable

import numpy as np
from scipy.special import xlogy

from omkl.batch.weighted_loss import PartlyFreeLoss, Unpenalized, WeightedLoss, minimize
from omkl.losses.base import PointwiseLoss
from omkl.losses.pointwise import Logistic

#: Tolerance for probabilities that leave the simplex by rounding.
ROUNDING = 1e-9


class StackedLoss(WeightedLoss):
    """The losses of several outputs, one output after the other; each has its own intercept.

    Intercepts are arrays (P N,), added to the predictions. They are constant within each output, unless other columns
    are unpenalized, too.

    Parameters
    ----------
    loss, y, weights, offset
        As for :class:`~omkl.batch.weighted_loss.WeightedLoss`, for all outputs: (P N,).
    n_parts : int
        The number of outputs P.
    free : Unpenalized, optional
        The unpenalized part, in every output.
    """

    def __init__(
        self,
        loss: PointwiseLoss,
        y: np.ndarray,
        weights: np.ndarray,
        n_parts: int,
        offset: np.ndarray | None = None,
        free: Unpenalized | None = None,
    ) -> None:
        super().__init__(loss, y, weights, offset)
        offsets = [None] * n_parts if offset is None else offset.reshape(n_parts, -1)
        parts = zip(y.reshape(n_parts, -1), weights.reshape(n_parts, -1), offsets)
        self.parts = [WeightedLoss(loss, *own) if free is None else PartlyFreeLoss(loss, *own, free) for own in parts]
        self._free = free

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        own = rho.reshape(len(self.parts), -1)
        if self._free is None and self.is_unbounded:
            weights = self.weights.reshape(own.shape)
            return (own - weights * (own.sum(axis=1) / weights.sum(axis=1))[:, None]).ravel()
        return np.concatenate([part.balanced(values) for part, values in zip(self.parts, own)])

    def best_intercept(self, outputs: np.ndarray) -> np.ndarray:  # type: ignore[override]
        own = outputs.reshape(len(self.parts), -1)
        return self._spread([part.best_intercept(values) for part, values in zip(self.parts, own)])

    def best_constant(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        constants, points = zip(*(part.best_constant() for part in self.parts))
        return self._spread(constants), np.concatenate(points)

    def _spread(self, constants: Iterable) -> np.ndarray:
        """Return constants of the outputs, or arrays (N,), as one array (P N,)."""
        size = len(self.y) // len(self.parts)
        return np.concatenate([np.broadcast_to(constant, size) for constant in constants])


class MultinomialLoss(WeightedLoss):
    r""":math:`c_i \bigl(\log \sum_k e^{z_{ik}} - z_{i y_i}\bigr)` of the scores of all classes.

    The conjugate is :math:`c_i \sum_k u_{ik} \log u_{ik}` on the simplex, with :math:`u_i = e_{y_i} - \rho_i / c_i`.

    Parameters
    ----------
    y : array of shape (K m,)
        1 for the class of the sample, else 0.
    weights : array of shape (K m,)
    n_parts : int
        The number of classes K.
    offset : array of shape (K m,), optional
    free : Unpenalized
        The unpenalized part, with the intercept as a column of ones; a matrix without columns if there is none.
    """

    couples_outputs = True

    def __init__(
        self, y: np.ndarray, weights: np.ndarray, n_parts: int, offset: np.ndarray | None, free: Unpenalized
    ) -> None:
        super().__init__(Logistic(), y, weights, offset)
        self.n_parts, self.free = n_parts, free

    def _by_class(self, values: np.ndarray) -> np.ndarray:
        return values.reshape(self.n_parts, -1)

    def values(self, outputs: np.ndarray) -> np.ndarray:
        """Return the weighted loss of each sample, (m,)."""
        scores = self._by_class(self._with_offset(outputs))
        own = (self._by_class(self.y) * scores).sum(axis=0)
        return self._by_class(self.weights)[0] * (_log_sums(scores) - own)

    def dual_point(self, outputs: np.ndarray) -> np.ndarray:
        scores = self._by_class(self._with_offset(outputs))
        return self.weights * (self.y - np.exp(scores - _log_sums(scores)).ravel())

    def hessian(self, rho: np.ndarray, damping: float = 0.0) -> "MultinomialHessian":
        """Return the second derivatives at a dual point."""
        shares = np.clip(self._probabilities(rho), 0.0, 1.0)
        return MultinomialHessian(shares, self._by_class(self.weights)[0], self.free.basis, damping)

    def _probabilities(self, rho: np.ndarray) -> np.ndarray:
        return self._by_class(self.y - rho / self.weights)

    def conjugates(self, rho: np.ndarray) -> np.ndarray:
        u = self._probabilities(rho)
        inside = (u >= -ROUNDING).all(axis=0) & (np.abs(u.sum(axis=0) - 1.0) <= ROUNDING)
        u = np.maximum(u, 0.0)
        values = self._by_class(self.weights)[0] * np.where(inside, xlogy(u, u).sum(axis=0), np.inf)
        return values if self.offset is None else values + self._by_class(self.offset * rho).sum(axis=0)

    def curvature(self, rho: np.ndarray) -> np.ndarray:
        """Return a bound of the second derivatives, shared by all scores of a sample.

        The Hessian :math:`\\mathrm{diag}(u) - u u^\\top` is at most :math:`2 \\max_k u_k (1 - u_k)`.
        """
        u = np.clip(self._probabilities(rho), 0.0, 1.0)
        return self.weights * np.tile(2.0 * (u * (1.0 - u)).max(axis=0), self.n_parts)

    def largest_curvature(self) -> np.ndarray:
        return 0.5 * self.weights

    def clipped(self, rho: np.ndarray) -> np.ndarray:
        u = np.maximum(self._probabilities(rho), 0.0)
        return self.weights * (self.y - (u / u.sum(axis=0)).ravel())

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        """Return a nearby dual point for which the unpenalized part is optimal."""
        outputs = np.log(np.maximum(self._probabilities(rho), 1e-300)).ravel()
        outputs = outputs if self.offset is None else outputs - self.offset
        return self.dual_point(outputs + self.best_intercept(outputs))

    def best_intercept(self, outputs: np.ndarray) -> np.ndarray:  # type: ignore[override]
        """Return the best values (K m,) of the unpenalized part, for these scores."""
        return minimize(self, outputs, lambda rho: self.hessian(rho).best_values(rho))

    def best_constant(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        values = self.best_intercept(np.zeros(len(self.y)))
        return values, self.dual_point(values)


class MultinomialHessian:
    r"""Second derivatives in the scores of all samples, :math:`c_i (\mathrm{diag}(u_i) - u_i u_i^\top)`, damped.

    Parameters
    ----------
    shares : array of shape (K, m)
        The probabilities u.
    weights : array of shape (m,)
        The :math:`c_i`.
    basis : array of shape (m, r)
        Basis of the unpenalized part.
    damping : float in [0, 1]
        0 gives the Hessian, 1 its upper bound :math:`c_i / 2`; linear in between.
    """

    def __init__(self, shares: np.ndarray, weights: np.ndarray, basis: np.ndarray, damping: float) -> None:
        self.shares, self.weights, self.basis, self.damping = shares, weights, basis, damping
        n_parts, rank = len(shares), basis.shape[1]
        matrix = np.empty((n_parts, rank, n_parts, rank))
        for k in range(n_parts):
            for other in range(n_parts):
                same = float(k == other)
                curvature = (1.0 - damping) * shares[k] * (same - shares[other]) + 0.5 * damping * same
                matrix[k, :, other] = basis.T @ ((weights * curvature)[:, None] * basis)
        # the matrix is singular: adding a constant to all scores has no effect
        self._inverse = np.linalg.pinv(matrix.reshape(n_parts * rank, n_parts * rank), rcond=1e-12, hermitian=True)

    def __matmul__(self, values: np.ndarray) -> np.ndarray:
        moves = values.reshape(self.shares.shape)
        bent = (1.0 - self.damping) * self.shares * (moves - (self.shares * moves).sum(axis=0))
        return (self.weights * (bent + 0.5 * self.damping * moves)).ravel()

    @property
    def diagonal(self) -> np.ndarray:
        """The second derivative in each score, (K, m)."""
        return self.weights * ((1.0 - self.damping) * self.shares * (1.0 - self.shares) + 0.5 * self.damping)

    def best_values(self, rho: np.ndarray) -> np.ndarray:
        """Return the values (K m,) of the unpenalized part that minimise the quadratic model with this residual."""
        change = self._inverse @ (rho.reshape(self.shares.shape) @ self.basis).ravel()
        return (change.reshape(len(self.shares), -1) @ self.basis.T).ravel()

    def balance(self, rho: np.ndarray) -> np.ndarray:
        """Return the residual at the minimum over the unpenalized part."""
        return rho - self @ self.best_values(rho)


def _log_sums(scores: np.ndarray) -> np.ndarray:
    """Return the logarithms of the sums of exponentials over classes, the first axis."""
    largest = scores.max(axis=0)
    return largest + np.log(np.exp(scores - largest).sum(axis=0))
