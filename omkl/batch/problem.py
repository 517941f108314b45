r"""The batch problem, its dual, and certificates.

Kernels and design matrices are two operators in the same problem

.. math:: \min\ \sum_i c_i\, l(y_i, z_i + b) + \lambda\, \psi(b_1, \ldots, b_G)

with predictions z linear in the model, and the norms :math:`b_g` of its groups. Its dual is
:math:`\max_\rho -\sum_i c_i l^*(y_i, -\rho_i / c_i) - \lambda \psi^*(\beta(\rho) / \lambda)`, with
:math:`\sum_i \rho_i = 0` if there is an intercept, and the dual norms :math:`\beta_g(\rho)` of the
operator: :math:`\|\rho\|_{K_m}`, or :math:`\|A_g^\top \rho\| / \omega_g`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from omkl.batch.weighted_loss import WeightedLoss
from omkl.losses.base import PointwiseLoss
from omkl.regularizers.base import Regularizer

#: Gaps below minus this value are not due to rounding.
ROUNDING = 1e-7


class Model(Protocol):
    """A sparse model: an :class:`~omkl.batch.Expansion` or a :class:`~omkl.batch.LinearModel`.

    Attributes
    ----------
    active : int array of shape (k,)
        Kernels or columns with nonzero coefficients, in increasing order.
    coefficients : array of shape (k, ...)
    intercept : float or array
    """

    active: np.ndarray
    coefficients: np.ndarray
    intercept: float | np.ndarray


#: Kind of model of a problem.
OwnModel = TypeVar("OwnModel", bound=Model)


class BaseProblem(ABC, Generic[OwnModel]):
    r"""Weighted losses of predictions, plus a regularizer of norms.

    Subclasses define the predictions of models.

    Attributes
    ----------
    y : array of shape (N,)
    loss : PointwiseLoss
    regularizer : Regularizer
    intercept : bool
        Whether there is a constant, which is not regularized.
    penalty : float > 0
        The weight :math:`\lambda` of the regularizer.
    offset : array of shape (N,) or None
        Added to the predictions of every model before the loss.
    """

    y: np.ndarray
    loss: PointwiseLoss
    regularizer: Regularizer
    intercept: bool
    penalty: float = 1.0
    offset: np.ndarray | None = None
    #: Whether path values weight the losses (C), not the regularizer (alpha).
    larger_fits_closer: ClassVar[bool] = True

    @property
    @abstractmethod
    def loss_weights(self) -> np.ndarray:
        """The weight of each sample's loss, (N,)."""

    @abstractmethod
    def dual_norms(self, rho: np.ndarray) -> np.ndarray:
        """Return the norm of a dual point in every group, (G,): one pass over the operator.

        Parameters
        ----------
        rho : array of shape (N,)
        """

    @abstractmethod
    def evaluate(self, model: OwnModel) -> tuple[np.ndarray, np.ndarray]:
        """Return the norms of all groups (G,) and the predictions (N,) of a model.

        Predictions include the intercept.

        Parameters
        ----------
        model : Expansion or LinearModel
        """

    @abstractmethod
    def at(self, value: float) -> "BaseProblem[OwnModel]":
        """Return the same problem at another C, or alpha.

        Parameters
        ----------
        value : float > 0
        """

    @abstractmethod
    def path_values(self, count: int, decades: float) -> np.ndarray:
        """Return values of C, or alpha, for a path, evenly spaced on a log scale.

        The first is the last one at which a constant is optimal.

        Parameters
        ----------
        count : int
        decades : float
        """

    @cached_property
    def weighted_loss(self) -> WeightedLoss:
        """The losses of all samples."""
        return WeightedLoss(self.loss, self.y, self.loss_weights, self.offset)

    def primal(self, outputs: np.ndarray, norms: np.ndarray) -> float:
        """Return the primal objective.

        Parameters
        ----------
        outputs : array of shape (N,)
            Predictions, intercept included.
        norms : array of shape (G,)
        """
        return self.objective(self.weighted_loss.values(outputs), norms)

    def objective(self, losses: np.ndarray, norms: np.ndarray) -> float:
        """Return the primal objective from the weighted loss of each sample.

        Parameters
        ----------
        losses : array of shape (N,)
        norms : array of shape (G,)
        """
        return float(losses.sum()) + self.penalty * self.regularizer.value(norms)

    def dual(self, rho: np.ndarray, dual_norms: np.ndarray) -> float:
        """Return the dual objective; ``-inf`` if the point is not feasible.

        Parameters
        ----------
        rho : array of shape (N,)
        dual_norms : array of shape (G,)
            Dual norms, or upper bounds of them.
        """
        conjugate = self.regularizer.conjugate(dual_norms / self.penalty)
        return -float(self.weighted_loss.conjugates(rho).sum()) - self.penalty * conjugate

    def scaled_dual(self, rho: np.ndarray, dual_norms: np.ndarray) -> tuple[float, float]:
        """Return the dual objective at the largest feasible multiple of a point, and the factor.

        Parameters
        ----------
        rho : array of shape (N,)
        dual_norms : array of shape (G,)
        """
        scale = self.regularizer.dual_scale(dual_norms / self.penalty)
        return self.dual(scale * rho, scale * dual_norms), scale

    @property
    def balances(self) -> bool:
        """True if the dual problem has an equality constraint, as with an intercept."""
        return self.intercept

    def inside(self, rho: np.ndarray) -> np.ndarray:
        r"""Return a nearby point of the loss's domain.

        If there is an intercept, it fulfils :math:`\sum_i \rho_i = 0`.

        Parameters
        ----------
        rho : array of shape (N,)
        """
        if self.balances:
            return self.weighted_loss.balanced(rho)
        return self.weighted_loss.clipped(rho)

    def feasible(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""Return a dual feasible point near :math:`\rho`, and its norms in all groups.

        Three steps (section 6.1 of Suzuki and Tomioka 2011, corrected) move the point into the
        domain of the loss, onto :math:`\sum_i \rho_i = 0`, and towards 0 until :math:`\psi^*` is
        finite.

        Parameters
        ----------
        rho : array of shape (N,)
        """
        rho = self.inside(rho)
        dual_norms = self.dual_norms(rho)
        scale = self.regularizer.dual_scale(dual_norms / self.penalty)
        return scale * rho, scale * dual_norms

    def dual_point(self, outputs: np.ndarray) -> np.ndarray:
        """Return the dual point of predictions, moved :meth:`inside`.

        Parameters
        ----------
        outputs : array of shape (N,)
        """
        return self.inside(self.weighted_loss.dual_point(outputs))

    def best_intercept(self, outputs: np.ndarray) -> float:
        """Return the constant to add to predictions for the least loss, 0 without an intercept.

        Parameters
        ----------
        outputs : array of shape (N,)
        """
        return self.weighted_loss.best_intercept(outputs) if self.balances else 0.0

    def best_constant(self) -> tuple[float, np.ndarray]:
        """Return the best constant prediction, 0 without an intercept, and a dual point (N,)."""
        if self.balances:
            return self.weighted_loss.best_constant()
        return 0.0, self.weighted_loss.dual_point(np.zeros(len(self.y)))


@dataclass
class Certificate:
    """The duality gap of a model over all groups.

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
        """Return whether the gap is at most ``tol``, and not negative beyond rounding.

        Parameters
        ----------
        tol : float
        """
        return -ROUNDING <= self.gap <= tol


def relative_gap(primal: float, dual: float) -> float:
    """Return ``(primal - dual) / max(|primal|, tiny)``."""
    return (primal - dual) / max(abs(primal), float(np.finfo(np.float64).tiny))


def certify(problem: BaseProblem, model: Model, rho: np.ndarray | None = None) -> Certificate:
    r"""Compute the duality gap of a model.

    Parameters
    ----------
    problem : Problem or DesignProblem
    model : Expansion or LinearModel
    rho : array of shape (N,), optional
        A dual point to start from; by default :math:`-c_i l'` at the model's predictions, which
        works well for losses without kinks.

    Returns
    -------
    Certificate
    """
    norms, outputs = problem.evaluate(model)
    if rho is None:
        rho = problem.weighted_loss.dual_point(outputs)
    rho, dual_norms = problem.feasible(rho)
    return Certificate(
        primal=problem.primal(outputs, norms),
        dual=problem.dual(rho, dual_norms),
        norms=norms,
        outputs=outputs,
        rho=rho,
    )
