"""Weighted losses of one output or several, their conjugates, and unpenalized coefficients."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import qr
from scipy.special import xlogy

from omkl.exceptions import InputError
from omkl.losses.base import PointwiseLoss

#: Columns are dependent if their part orthogonal to earlier columns is below this share of the
#: largest such part.
DEPENDENT = 1e-10
#: Maximum number of Newton steps of :class:`PartlyFreeLoss`, and of halvings of each.
MOST_STEPS = 100
HALVINGS = 40
#: Relative slope, or decrease of the loss, at which Newton steps end.
FLAT = 1e-14
#: Least second derivative of a step, as a share of the largest one of the loss.
LEAST_CURVED = 1e-3
#: Tolerance for probabilities that leave the simplex by rounding.
ROUNDING = 1e-9
#: Maximum number of Newton steps for a constant; every fourth one is a bisection.
MOST_SHIFTS = 200
BISECT_EVERY = 4
#: Constants beyond this multiple of the targets and predictions count as infinite.
LARGEST_SHIFT = 1e3


@dataclass(eq=False)
class WeightedLoss:
    r"""Weighted sum of the losses of all samples, and its conjugate.

    The sum is :math:`\sum_i c_i\, l(y_i, z_i)`, a function of the predictions z. The conjugate at
    :math:`-\rho` is :math:`\sum_i c_i\, l^*(y_i, -\rho_i / c_i)`. Arrays have one entry per sample,
    (N,).

    Parameters
    ----------
    loss : PointwiseLoss
    y : array of shape (N,)
    weights : array of shape (N,)
        The :math:`c_i > 0`.
    offset : array of shape (N,), optional
        Added to the predictions, so that the loss is :math:`l(y_i, z_i + o_i)`; the conjugate gains
        :math:`o_i \rho_i`.
    n_outputs : int
        Number of outputs, whose samples are concatenated.

    Raises
    ------
    omkl.exceptions.InputError
        If there is not one finite weight > 0 per sample, or the targets do not fit the loss.
    """

    #: Whether the loss of a sample has several predictions and is not a sum over them.
    couples_outputs: ClassVar[bool] = False

    loss: PointwiseLoss
    y: np.ndarray
    weights: np.ndarray
    offset: np.ndarray | None = None
    n_outputs: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        self.loss.check_targets(self.y)
        weights = self.weights
        fits_targets = weights.shape == np.shape(self.y)
        if not fits_targets or not np.isfinite(weights).all() or not (weights > 0).all():
            raise InputError("Sample weights must be finite and > 0, one per sample.")

    def _by_output(self, values: np.ndarray) -> np.ndarray:
        """Return values of all samples with one row for each output."""
        return values.reshape(self.n_outputs, -1)

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
        r"""Return :math:`c_i\, l^*(y_i, -\rho_i / c_i)` of each sample, infinite off the domain."""
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
        is_inside = (rho > low) & (rho < high)
        # any point inside will do where the dual point is not, since the result is 0 there
        middle = 0.5 * (np.maximum(low, -self.weights) + np.minimum(high, self.weights))
        inverse = self.conjugate_curvature(np.where(is_inside, rho, middle))
        is_curved = is_inside & (inverse > 0)
        return np.divide(1.0, inverse, out=np.zeros_like(inverse), where=is_curved)

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
        low, high = self.domain()
        return bool(np.isinf(low).all() and np.isinf(high).all())

    def clipped(self, rho: np.ndarray) -> np.ndarray:
        """Return the closest point of the domain."""
        return rho if self.is_unbounded else np.clip(rho, *self.domain())

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        r"""Return a point of the domain near :math:`\rho` with :math:`\sum_i \rho_i = 0`.

        An intercept requires this. Without bounds, multiples of the weights are subtracted. With
        bounds, the larger of the positive and the negative part is scaled down: unlike subtracting
        the mean (section 6.1 of Suzuki and Tomioka 2011), this stays in the domain.
        """
        if self.is_unbounded:
            return rho - self.weights * (rho.sum() / self.weights.sum())
        rho = self.clipped(rho)
        positive = rho[rho > 0].sum()
        negative = -rho[rho < 0].sum()
        lesser = min(positive, negative)
        shrinkage = np.where(rho > 0, lesser / (positive or 1.0), lesser / (negative or 1.0))
        return rho * shrinkage

    def best_intercept(self, outputs: np.ndarray) -> float:
        """Return the constant that, added to all predictions, minimises the loss.

        Newton steps stay inside a bracket; every fourth step is a bisection, for losses with kinks.
        For samples of one class the best constant is infinite; return a large one.
        """
        closed_form = self.loss.best_shift(self.y, self._with_offset(outputs), self.weights)
        if closed_form is not None:
            return closed_form
        width = 1.0 + float(np.abs(self.y).max())
        limit = LARGEST_SHIFT * (width + np.abs(outputs).max())
        low = -np.inf
        high = np.inf
        shift = 0.0
        for iteration in range(1, MOST_SHIFTS + 1):
            rho = self.dual_point(outputs + shift)
            slope = -float(rho.sum())
            if slope < 0:
                low = shift
            else:
                high = shift
            if abs(slope) <= FLAT * np.abs(rho).sum() or abs(shift) > limit:
                break
            target = np.inf
            if iteration % BISECT_EVERY != 0:
                curvature = float(self.curvature(rho).sum())
                if curvature > 0:
                    target = shift - slope / curvature
            if np.isinf(high - low):
                if abs(target - shift) > width:
                    target = shift - np.sign(slope) * width
                    width *= 2.0
            elif not low < target < high:
                target = 0.5 * (low + high)
                if target in (low, high):
                    return high
            shift = float(target)
        return shift

    def are_separated(self) -> bool:
        """Return whether the unpenalized part alone separates the classes."""
        return False

    def best_constant(self) -> tuple[float, np.ndarray]:
        r"""Return the best constant prediction, and a dual point for it that sums to 0.

        A loss with kinks has many dual points there; mix the points of both sides.
        """
        zeros = np.zeros(len(self.y))
        constant = self.best_intercept(zeros)
        distance = 1e-6 * (1.0 + abs(constant))
        below = self.dual_point(zeros + constant - distance)
        above = self.dual_point(zeros + constant + distance)
        fall = below.sum() - above.sum()
        share_above = 0.5
        if fall > 0:
            share_above = min(max(below.sum() / fall, 0.0), 1.0)
        return constant, self.balanced((1.0 - share_above) * below + share_above * above)


# ---- unpenalized coefficients --------------------------------------------------------------------


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
        q, r, _ = qr(matrix, mode="economic", pivoting=True)
        lengths = np.abs(np.diag(r))
        is_independent = lengths > DEPENDENT * lengths.max(initial=0.0)
        self.basis = np.ascontiguousarray(q[:, is_independent])

    def coefficients(self, values: np.ndarray) -> np.ndarray:
        """Return the coefficients (q,) of least norm with U c equal to ``values`` (m,)."""
        return np.linalg.lstsq(self.matrix, values, rcond=DEPENDENT)[0]

    def balance(self, rho: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        r"""Return the residual of a quadratic model at the best coefficients.

        There :math:`U^\top \rho = 0`.

        Parameters
        ----------
        rho : array of shape (m,) or (m, K)
        curvature : array of shape (m,)
        """
        weighted = curvature[:, None] * self.basis
        gram = self.basis.T @ weighted
        change = np.linalg.lstsq(gram, self.basis.T @ rho, rcond=None)[0]
        return rho - weighted @ change


@dataclass(eq=False)
class PartlyFreeLoss(WeightedLoss):
    r"""Weighted losses of predictions plus U c, with the best c.

    In the dual this is the equality :math:`U^\top \rho = 0`. The array U c, (m,), takes the place
    of the intercept of other losses.

    Parameters
    ----------
    loss : PointwiseLoss
        Loss without kinks.
    y, weights, offset
        As for :class:`~omkl.batch.weighted_loss.WeightedLoss`.
    free : Unpenalized
    """

    free: Unpenalized = field(kw_only=True)

    def best_intercept(self, outputs: np.ndarray) -> np.ndarray:  # type: ignore[override]
        """Return the values U c, (m,), to add to predictions for the least loss.

        Take Newton steps with a line search.
        """
        values = np.zeros(len(outputs))
        loss = self.value(outputs)
        for _ in range(MOST_STEPS):
            rho = self.dual_point(outputs + values)
            step = self.newton_step(rho)
            if step @ rho <= FLAT * abs(loss):
                return values + step
            for _ in range(HALVINGS):
                loss_after = self.value(outputs + values + step)
                if loss_after < loss:
                    break
                step = 0.5 * step
            else:
                break
            values = values + step
            loss = loss_after
        return values

    def newton_step(self, rho: np.ndarray) -> np.ndarray:
        """Return the Newton step of the values U c, (m,), at a dual point."""
        basis = self.free.basis
        curvature = self.curvature(rho)
        largest = curvature.max()
        if np.isfinite(self.loss.curvature):
            largest = self.largest_curvature()
        curvature = np.maximum(curvature, LEAST_CURVED * largest)  # bounded away from 0
        hessian = basis.T @ (curvature[:, None] * basis)
        return basis @ np.linalg.solve(hessian, basis.T @ rho)

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        r"""Return a point near :math:`\rho` in the domain with :math:`U^\top \rho = 0`.

        This is the dual point of the predictions that belong to :math:`\rho`, plus the best U c.
        """
        outputs = self._outputs_at(rho)
        return self.dual_point(outputs + self.best_intercept(outputs))

    def _outputs_at(self, rho: np.ndarray) -> np.ndarray:
        """Return the predictions that a dual point belongs to."""
        low, high = self.domain()
        inside = np.clip(rho, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
        return -self.conjugate_gradient(inside)

    def are_separated(self) -> bool:
        return bool((self.y * self.best_intercept(np.zeros(len(self.y))) > 0.0).all())

    def best_constant(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        values = self.best_intercept(np.zeros(len(self.y)))
        return values, self.dual_point(values)


# ---- several outputs: arrays concatenate the samples of all outputs, (K m,) ----------------------


@dataclass(eq=False)
class StackedLoss(WeightedLoss):
    """The losses of several outputs, one output after the other; each has its own intercept.

    Intercepts are arrays (P N,), added to the predictions. They are constant within each output,
    unless other columns are unpenalized, too.

    Parameters
    ----------
    loss, y, weights, offset, n_outputs
        As for :class:`~omkl.batch.weighted_loss.WeightedLoss`, for all outputs: (P N,).
    free : Unpenalized, optional
        The unpenalized part, in every output.
    """

    free: Unpenalized | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._losses = [self._loss_of_output(output) for output in range(self.n_outputs)]

    def _loss_of_output(self, output: int) -> WeightedLoss:
        y = self._by_output(self.y)[output]
        weights = self._by_output(self.weights)[output]
        offset = None if self.offset is None else self._by_output(self.offset)[output]
        if self.free is None:
            return WeightedLoss(self.loss, y, weights, offset)
        return PartlyFreeLoss(self.loss, y, weights, offset, free=self.free)

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        pairs = zip(self._losses, self._by_output(rho))
        return np.concatenate([loss.balanced(values) for loss, values in pairs])

    def best_intercept(self, outputs: np.ndarray) -> np.ndarray:  # type: ignore[override]
        pairs = zip(self._losses, self._by_output(outputs))
        return self._spread([loss.best_intercept(values) for loss, values in pairs])

    def are_separated(self) -> bool:
        return any(loss.are_separated() for loss in self._losses)

    def best_constant(self) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[override]
        constants, points = zip(*(loss.best_constant() for loss in self._losses))
        return self._spread(constants), np.concatenate(points)

    def _spread(self, constants: Iterable) -> np.ndarray:
        """Return constants of the outputs, or arrays (N,), as one array (P N,)."""
        size = len(self.y) // self.n_outputs
        return np.concatenate([np.broadcast_to(constant, size) for constant in constants])


@dataclass(eq=False)
class MultinomialLoss(PartlyFreeLoss):
    r"""The loss :math:`c_i (\log \sum_k e^{z_{ik}} - z_{i y_i})` of the scores of all classes.

    The conjugate is :math:`c_i \sum_k u_{ik} \log u_{ik}` on the simplex, with :math:`u_i = e_{y_i}
    - \rho_i / c_i`.

    Parameters
    ----------
    loss : Logistic
        The loss of two classes, for its domain.
    y : array of shape (K m,)
        1 for the class of the sample, else 0.
    weights : array of shape (K m,)
    offset : array of shape (K m,), optional
    free : Unpenalized
        The unpenalized part, with the intercept as a column of ones; a matrix without columns if
        there is none.
    n_outputs : int
        The number of classes K.
    """

    couples_outputs = True

    def values(self, outputs: np.ndarray) -> np.ndarray:
        """Return the weighted loss of each sample, (m,)."""
        scores = self._by_output(self._with_offset(outputs))
        scores_of_targets = (self._by_output(self.y) * scores).sum(axis=0)
        return self._sample_weights() * (_log_sums(scores) - scores_of_targets)

    def dual_point(self, outputs: np.ndarray) -> np.ndarray:
        scores = self._by_output(self._with_offset(outputs))
        return self.weights * (self.y - np.exp(scores - _log_sums(scores)).ravel())

    def hessian(self, rho: np.ndarray, damping: float = 0.0) -> "MultinomialHessian":
        """Return the second derivatives at a dual point."""
        shares = np.clip(self._probabilities(rho), 0.0, 1.0)
        return MultinomialHessian(shares, self._sample_weights(), self.free.basis, damping)

    def _probabilities(self, rho: np.ndarray) -> np.ndarray:
        """Return the u, (K, m), of a dual point; outside its domain these may leave the simplex."""
        return self._by_output(self.y - rho / self.weights)

    def _sample_weights(self) -> np.ndarray:
        """Return the weights of the samples, (m,), which all classes share."""
        return self._by_output(self.weights)[0]

    def conjugates(self, rho: np.ndarray) -> np.ndarray:
        u = self._probabilities(rho)
        sums_to_one = np.abs(u.sum(axis=0) - 1.0) <= ROUNDING
        is_inside = (u >= -ROUNDING).all(axis=0) & sums_to_one
        u = np.maximum(u, 0.0)
        negative_entropies = np.where(is_inside, xlogy(u, u).sum(axis=0), np.inf)
        values = self._sample_weights() * negative_entropies
        if self.offset is None:
            return values
        return values + self._by_output(self.offset * rho).sum(axis=0)

    def curvature(self, rho: np.ndarray) -> np.ndarray:
        """Return a bound of the second derivatives, shared by all scores of a sample.

        The Hessian :math:`\\mathrm{diag}(u) - u u^\\top` is at most :math:`2 \\max_k u_k (1 -
        u_k)`.
        """
        u = np.clip(self._probabilities(rho), 0.0, 1.0)
        return self.weights * np.tile(2.0 * (u * (1.0 - u)).max(axis=0), self.n_outputs)

    def largest_curvature(self) -> np.ndarray:
        return 0.5 * self.weights

    def clipped(self, rho: np.ndarray) -> np.ndarray:
        u = np.maximum(self._probabilities(rho), 0.0)
        return self.weights * (self.y - (u / u.sum(axis=0)).ravel())

    def _outputs_at(self, rho: np.ndarray) -> np.ndarray:
        outputs = np.log(np.maximum(self._probabilities(rho), 1e-300)).ravel()
        return outputs if self.offset is None else outputs - self.offset

    def are_separated(self) -> bool:
        scores = self._by_output(self.best_intercept(np.zeros(len(self.y))))
        is_target = self._by_output(self.y) > 0.0
        scores_of_targets = np.where(is_target, scores, -np.inf).max(axis=0)
        best_other_scores = np.where(is_target, -np.inf, scores).max(axis=0)
        return bool((scores_of_targets > best_other_scores).all())

    def newton_step(self, rho: np.ndarray) -> np.ndarray:
        return self.hessian(rho).best_values(rho)


@dataclass(eq=False)
class MultinomialHessian:
    r"""Second derivatives of the multinomial loss in the scores of all samples, damped.

    Without damping they are :math:`c_i (\mathrm{diag}(u_i) - u_i u_i^\top)` for sample i.

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

    shares: np.ndarray
    weights: np.ndarray
    basis: np.ndarray
    damping: float

    def __post_init__(self) -> None:
        shares = self.shares
        basis = self.basis
        n_classes = len(shares)
        rank = basis.shape[1]
        # second derivatives in the coefficients of the basis, for each class
        hessian = np.empty((n_classes, rank, n_classes, rank))
        for k in range(n_classes):
            for j in range(n_classes):
                same = float(k == j)
                curvature = (1.0 - self.damping) * shares[k] * (same - shares[j])
                curvature += 0.5 * self.damping * same
                hessian[k, :, j] = basis.T @ ((self.weights * curvature)[:, None] * basis)
        size = n_classes * rank
        # the matrix is singular: adding a constant to all scores has no effect
        self._inverse = np.linalg.pinv(hessian.reshape(size, size), rcond=1e-12, hermitian=True)

    def __matmul__(self, values: np.ndarray) -> np.ndarray:
        moves = values.reshape(self.shares.shape)
        mean_moves = (self.shares * moves).sum(axis=0)
        undamped = (1.0 - self.damping) * self.shares * (moves - mean_moves)
        return (self.weights * (undamped + 0.5 * self.damping * moves)).ravel()

    @property
    def diagonal(self) -> np.ndarray:
        """The second derivative in each score, (K, m)."""
        undamped = (1.0 - self.damping) * self.shares * (1.0 - self.shares)
        return self.weights * (undamped + 0.5 * self.damping)

    def best_values(self, rho: np.ndarray) -> np.ndarray:
        """Return the best values (K m,) of the unpenalized part in the quadratic model.

        Parameters
        ----------
        rho : array of shape (K m,)
            The residual of the model.
        """
        gradient = (rho.reshape(self.shares.shape) @ self.basis).ravel()
        coefficients = (self._inverse @ gradient).reshape(len(self.shares), -1)
        return (coefficients @ self.basis.T).ravel()

    def balance(self, rho: np.ndarray) -> np.ndarray:
        """Return the residual at the minimum over the unpenalized part."""
        return rho - self @ self.best_values(rho)


def _log_sums(scores: np.ndarray) -> np.ndarray:
    """Return the logarithms of the sums of exponentials over classes, the first axis."""
    largest = scores.max(axis=0)
    return largest + np.log(np.exp(scores - largest).sum(axis=0))
