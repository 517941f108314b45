r"""What batch problems have in common: a weighted loss, a regularizer, the dual and the certificate.

Kernels and design matrices are two operators behind one problem

.. math:: \min\ \sum_i c_i\, l(y_i, z_i + b) + \lambda\, \psi(b_1, \ldots, b_G)

with predictions z linear in the model, and the norms :math:`b_g` of its groups. Its dual is
:math:`\max_\rho -\sum_i c_i l^*(y_i, -\rho_i / c_i) - \lambda \psi^*(\beta(\rho) / \lambda)`, with
:math:`\sum_i \rho_i = 0` where there is an intercept, and the dual norms :math:`\beta_g(\rho)` of the operator:
:math:`\|\rho\|_{K_m}`, or :math:`\|A_g^\top \rho\| / \omega_g`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from omkl.exceptions import InputError
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class WeightedLoss:
    r""":math:`\sum_i c_i\, l(y_i, z_i)` as a function of the predictions z, and its conjugate at :math:`-\rho`.

    The conjugate is :math:`\sum_i c_i\, l^*(y_i, -\rho_i / c_i)`. Arrays have one entry a sample, (N,).

    Parameters
    ----------
    loss : PointwiseLoss
    y : array of shape (N,)
    weights : array of shape (N,)
        The :math:`c_i > 0`.
    offset : array of shape (N,), optional
        What is known of the predictions: the loss is :math:`l(y_i, z_i + o_i)`, whose conjugate has
        :math:`o_i \rho_i` besides.

    Raises
    ------
    omkl.exceptions.InputError
        If weights are not finite numbers > 0, one a sample, or targets are not those of the loss.
    """

    #: Whether the loss of a sample has several predictions, and is no sum over them.
    couples_outputs: ClassVar[bool] = False

    def __init__(
        self, loss: PointwiseLoss, y: np.ndarray, weights: np.ndarray, offset: np.ndarray | None = None
    ) -> None:
        loss.check_targets(y)
        if weights.shape != np.shape(y) or not np.isfinite(weights).all() or not (weights > 0).all():
            raise InputError("Sample weights must be finite and > 0, one a sample: leave out samples of weight 0.")
        self.loss, self.y, self.weights, self.offset = loss, y, weights, offset

    def _with_offset(self, outputs: np.ndarray) -> np.ndarray:
        return outputs if self.offset is None else outputs + self.offset

    def values(self, outputs: np.ndarray) -> np.ndarray:
        """The weighted loss of each sample; inf where no float holds it."""
        with np.errstate(over="ignore"):
            return self.weights * self.loss.value(self.y, self._with_offset(outputs))

    def value(self, outputs: np.ndarray) -> float:
        """The sum over samples."""
        return float(self.values(outputs).sum())

    def dual_point(self, outputs: np.ndarray) -> np.ndarray:
        r""":math:`\rho_i = -c_i\, l'(y_i, z_i)`."""
        with np.errstate(over="ignore"):
            return -self.weights * self.loss.gradient(self.y, self._with_offset(outputs))

    def conjugates(self, rho: np.ndarray) -> np.ndarray:
        r""":math:`c_i\, l^*(y_i, -\rho_i / c_i)` of each sample; ``inf`` outside the domain."""
        values = self.weights * self.loss.conjugate(self.y, rho / self.weights)
        return values if self.offset is None else values + self.offset * rho

    def conjugate_gradient(self, rho: np.ndarray) -> np.ndarray:
        r"""Derivative of each in :math:`\rho_i`."""
        return self._with_offset(self.loss.conjugate_gradient(self.y, rho / self.weights))

    def conjugate_curvature(self, rho: np.ndarray) -> np.ndarray:
        r"""Second derivative of each in :math:`\rho_i`."""
        with np.errstate(over="ignore"):
            return self.loss.conjugate_curvature(self.y, rho / self.weights) / self.weights

    def curvature(self, rho: np.ndarray) -> np.ndarray:
        """Second derivative of each in the prediction whose dual point is given; 0 where the loss is straight."""
        if self.loss.is_quadratic:
            return self.largest_curvature()
        low, high = self.domain()
        curved = (rho > low) & (rho < high)
        inside = 0.5 * (np.maximum(low, -self.weights) + np.minimum(high, self.weights))
        inverse = self.conjugate_curvature(np.where(curved, rho, inside))
        return np.divide(1.0, inverse, out=np.zeros_like(inverse), where=curved & (inverse > 0))

    def largest_curvature(self) -> np.ndarray:
        """A bound of each sample's second derivatives; infinite where there is none."""
        return self.weights * self.loss.curvature

    def domain(self) -> tuple[np.ndarray, np.ndarray]:
        r"""Lowest and highest :math:`\rho` with a finite conjugate."""
        low, high = self.loss.domain(self.y)
        return self.weights * low, self.weights * high

    @cached_property
    def is_unbounded(self) -> bool:
        """Whether every point has a finite conjugate."""
        return all(bool(np.isinf(ends).all()) for ends in self.domain())

    def clipped(self, rho: np.ndarray) -> np.ndarray:
        """The closest point of the domain."""
        return rho if self.is_unbounded else np.clip(rho, *self.domain())

    def balanced(self, rho: np.ndarray) -> np.ndarray:
        r"""A point near :math:`\rho` in the domain with :math:`\sum_i \rho_i = 0`, as an intercept demands.

        Where all points are in the domain the intercept moves; else the side (of positive or of negative values) that
        weighs more is scaled down. Unlike subtracting the mean, as in section 6.1 of Suzuki and Tomioka (2011), that
        cannot leave the domain.
        """
        if self.is_unbounded:
            return rho - self.weights * (rho.sum() / self.weights.sum())
        rho = self.clipped(rho)
        positive, negative = rho[rho > 0].sum(), -rho[rho < 0].sum()
        lesser = min(positive, negative)
        return np.where(rho > 0, rho * _ratio(lesser, positive), rho * _ratio(lesser, negative))

    def best_intercept(self, outputs: np.ndarray) -> float:
        """The constant that added to all predictions minimises the loss: Newton steps inside a bracket.

        A loss with kinks is bisected. Where all samples are of one class the best constant is infinite, and a large
        one, which is returned, as good.
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
        r"""The best constant prediction, and a dual point for it that sums to 0.

        A loss with kinks has many :math:`-\rho_i` there: those on both sides are mixed.
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


#: A relative gap below this is not rounding: primal or dual are no values of the problem.
ROUNDING = 1e-7


class BaseProblem(ABC):
    """Weighted losses of predictions, plus a regularizer of norms; subclasses know how models predict.

    Attributes
    ----------
    y : array of shape (N,)
    loss : PointwiseLoss
    regularizer : Regularizer
    intercept : bool
        Whether there is a constant, not regularized.
    penalty : float > 0
        The weight :math:`\\lambda` of the regularizer.
    offset : array of shape (N,) or None
        What is added to the predictions of every model before the loss.
    """

    y: np.ndarray
    loss: PointwiseLoss
    regularizer: Regularizer
    intercept: bool
    penalty: float = 1.0
    offset: np.ndarray | None = None
    #: Whether a larger value, of C or alpha, weighs the losses, or the regularizer.
    larger_fits_closer: ClassVar[bool] = True

    @property
    @abstractmethod
    def loss_weights(self) -> np.ndarray:
        """The weight of each sample's loss, (N,)."""

    @abstractmethod
    def dual_norms(self, rho: np.ndarray) -> np.ndarray:
        """The norm of a dual point in every group, (G,): one pass over the operator."""

    @abstractmethod
    def evaluate(self, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """Norms of all groups (G,) and predictions (N,) of a model, intercept included."""

    @abstractmethod
    def at(self, value: float) -> "BaseProblem":
        """The same problem at another C, or alpha."""

    @abstractmethod
    def path_values(self, count: int, decades: float) -> np.ndarray:
        """So many values of C, or alpha, evenly in the logarithm, from the one at which a constant is optimal."""

    @cached_property
    def weighted_loss(self) -> WeightedLoss:
        """The losses of the problem's samples."""
        return WeightedLoss(self.loss, self.y, self.loss_weights, self.offset)

    def primal(self, outputs: np.ndarray, norms: np.ndarray) -> float:
        """Value of the primal at predictions (N,), intercept included, and group norms (G,)."""
        return self.weighted_loss.value(outputs) + self.penalty * self.regularizer.value(norms)

    def dual(self, rho: np.ndarray, dual_norms: np.ndarray) -> float:
        """Value of the dual at a point (N,) with norms (G,), or upper bounds of these; ``-inf`` where not feasible."""
        conjugate = self.regularizer.conjugate(dual_norms / self.penalty)
        return -float(self.weighted_loss.conjugates(rho).sum()) - self.penalty * conjugate

    def feasible_scale(self, dual_norms: np.ndarray) -> float:
        """The largest factor in (0, 1] that makes a point of the loss's domain with these norms dual feasible."""
        return self.regularizer.dual_scale(dual_norms / self.penalty)

    @property
    def balances(self) -> bool:
        """Whether dual points must fulfil an equation, as they must with an intercept."""
        return self.intercept

    def inside(self, rho: np.ndarray) -> np.ndarray:
        r"""A point near :math:`\rho` in the loss's domain, with :math:`\sum_i \rho_i = 0` if there is an intercept."""
        return self.weighted_loss.balanced(rho) if self.balances else self.weighted_loss.clipped(rho)

    def feasible(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""A dual feasible point near :math:`\rho`, and its norms in **all** groups.

        In three steps (section 6.1 of Suzuki and Tomioka 2011, corrected): into the domain of the loss, onto
        :math:`\sum_i \rho_i = 0`, and towards 0 until :math:`\psi^*` is finite.
        """
        rho = self.inside(rho)
        dual_norms = self.dual_norms(rho)
        scale = self.feasible_scale(dual_norms)
        return scale * rho, scale * dual_norms

    def dual_point(self, outputs: np.ndarray) -> np.ndarray:
        """The dual point of predictions, :meth:`inside`."""
        return self.inside(self.weighted_loss.dual_point(outputs))

    def best_intercept(self, outputs: np.ndarray) -> float:
        """The constant that minimises the loss of predictions plus it; 0 where the problem has none."""
        return self.weighted_loss.best_intercept(outputs) if self.balances else 0.0

    def best_constant(self) -> tuple[float, np.ndarray]:
        """The best constant prediction (0 without an intercept), and a dual point (N,) for it."""
        if self.balances:
            return self.weighted_loss.best_constant()
        return 0.0, self.weighted_loss.dual_point(np.zeros(len(self.y)))


@dataclass
class Certificate:
    """How good a model is, recomputed from the model itself over all groups.

    Attributes
    ----------
    primal, dual : float
        Objective of the model, and a lower bound of the optimum.
    norms : array of shape (G,)
        Norm of each group's part of the model.
    outputs : array of shape (N,)
        Predictions on the training samples.
    rho : array of shape (N,)
        The dual feasible point.
    """

    primal: float
    dual: float
    norms: np.ndarray = field(repr=False)
    outputs: np.ndarray = field(repr=False)
    rho: np.ndarray = field(repr=False)

    @property
    def gap(self) -> float:
        """Relative duality gap, ``(primal - dual) / max(|primal|, tiny)``."""
        return relative_gap(self.primal, self.dual)

    def proves(self, tol: float) -> bool:
        """Whether the gap is at most ``tol``; one below zero beyond rounding proves nothing."""
        return -ROUNDING <= self.gap <= tol

    def lowered(self, error: float) -> "Certificate":
        """The same with a bound that is lower by a part of the primal, as much as it may be off."""
        return replace(self, dual=self.dual - error * abs(self.primal))


def relative_gap(primal: float, dual: float) -> float:
    """(primal - dual) / max(|primal|, tiny)."""
    return (primal - dual) / max(abs(primal), float(np.finfo(np.float64).tiny))


def certify(problem: BaseProblem, model: Any, rho: np.ndarray | None = None) -> Certificate:
    r"""The duality gap of a model.

    Parameters
    ----------
    problem : Problem or DesignProblem
    model : Expansion or LinearModel
    rho : array of shape (N,), optional
        A dual point to start from; by default :math:`-c_i l'` at the model's predictions, which only a loss without
        kinks determines.

    Returns
    -------
    Certificate
    """
    norms, outputs = problem.evaluate(model)
    rho, dual_norms = problem.feasible(problem.weighted_loss.dual_point(outputs) if rho is None else rho)
    return Certificate(problem.primal(outputs, norms), problem.dual(rho, dual_norms), norms, outputs, rho)
