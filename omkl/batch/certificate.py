"""Certificates of optimality: duality gaps of models."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from omkl.batch.problem import BaseProblem

#: A gap below minus this is more than rounding.
ROUNDING = 1e-7


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
    """Return ``(primal - dual) / max(|primal|, tiny)``.

    Parameters
    ----------
    primal, dual : float
    """
    return (primal - dual) / max(abs(primal), float(np.finfo(np.float64).tiny))


def certify(problem: BaseProblem, model: Any, rho: np.ndarray | None = None) -> Certificate:
    r"""Compute the duality gap of a model.

    Parameters
    ----------
    problem : Problem or DesignProblem
    model : Expansion or LinearModel
    rho : array of shape (N,), optional
        A dual point to start from; by default :math:`-c_i l'` at the model's predictions, which is good for losses
        without kinks.

    Returns
    -------
    Certificate
    """
    norms, outputs = problem.evaluate(model)
    rho, dual_norms = problem.feasible(problem.weighted_loss.dual_point(outputs) if rho is None else rho)
    return Certificate(problem.primal(outputs, norms), problem.dual(rho, dual_norms), norms, outputs, rho)
