r"""The problem that every batch solver solves, its dual, and the certificate that says how well it was solved."""

from dataclasses import dataclass, field

import numpy as np

from omkl.kernels import KernelStack
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


@dataclass(frozen=True)
class Problem:
    r"""Multiple kernel learning on a finite set of samples.

    .. math:: \min_{f_m \in H_m,\, b}\
              \sum_i l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr) + C\, \psi(\|f_1\|, \ldots, \|f_M\|)

    Its dual is :math:`\max_\rho -\sum_i l^*(y_i, -\rho_i) - C\, \psi^*(\|\rho\|_{K_1} / C, \ldots)` subject to
    :math:`\sum_i \rho_i = 0` where there is an intercept.

    Parameters
    ----------
    kernels : KernelStack
    y : array of shape (N,)
    loss : PointwiseLoss
    regularizer : Regularizer
        A function of the group norms :math:`\|f_m\|`.
    C : float > 0
        Regularization strength on the summed loss.
    intercept : bool
    """

    kernels: KernelStack
    y: np.ndarray
    loss: PointwiseLoss
    regularizer: Regularizer
    C: float
    intercept: bool = True

    def primal(self, outputs, norms):
        """Value of the primal at predictions (N,), intercept included, and group norms."""
        return float(self.loss.value(self.y, outputs).sum()) + self.C * self.regularizer.value(norms)

    def dual(self, rho, dual_norms):
        r"""Value of the dual at a point (N,) with norms :math:`\|\rho\|_{K_m}` (M,); ``-inf`` where not feasible."""
        return -float(self.loss.conjugate(self.y, rho).sum()) - self.C * self.regularizer.conjugate(dual_norms / self.C)

    def inside(self, rho):
        r"""A point near :math:`\rho` in the loss's domain, with :math:`\sum_i \rho_i = 0` if there is an intercept."""
        return self.loss.balanced(self.y, rho) if self.intercept else np.clip(rho, *self.loss.domain(self.y))

    def feasible(self, rho):
        r"""A dual feasible point near :math:`\rho`, and its norms in **all** kernels: one pass over them.

        In three steps (section 6.1 of Suzuki and Tomioka 2011, corrected): into the domain of the loss, onto
        :math:`\sum_i \rho_i = 0`, and towards 0 until :math:`\psi^*` is finite.
        """
        rho = self.inside(rho)
        dual_norms = np.sqrt(self.kernels.quadratics(rho))
        scale = self.regularizer.dual_scale(dual_norms / self.C)
        return scale * rho, scale * dual_norms


@dataclass
class Expansion:
    r"""A model by the representer theorem, :math:`f_m = \sum_i \alpha_{mi} k_m(x_i, \cdot)`: active kernels only.

    Attributes
    ----------
    active : int array of shape (k,)
        Kernels that are not zero, in increasing order.
    coefficients : array of shape (k, N)
    intercept : float
    """

    active: np.ndarray
    coefficients: np.ndarray
    intercept: float = 0.0


@dataclass
class Certificate:
    """How good a model is, recomputed from the model itself over all kernels.

    Attributes
    ----------
    primal, dual : float
        Objective of the model, and a lower bound of the optimum.
    norms : array of shape (M,)
        Norm of each kernel's part of the model.
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
    def gap(self):
        """Relative duality gap: (primal - dual) / max(|primal|, tiny)."""
        return (self.primal - self.dual) / max(abs(self.primal), np.finfo(np.float64).tiny)


def certify(problem, model, rho=None):
    r"""The duality gap of a model.

    Parameters
    ----------
    problem : Problem
    model : Expansion
    rho : array of shape (N,), optional
        A dual point to start from; by default :math:`-l'` at the model's predictions, which only a loss without kinks
        determines.

    Returns
    -------
    Certificate
    """
    norms, outputs = evaluate(problem.kernels, model)
    if rho is None:
        rho = -problem.loss.gradient(problem.y, outputs)
    rho, dual_norms = problem.feasible(rho)
    return Certificate(problem.primal(outputs, norms), problem.dual(rho, dual_norms), norms, outputs, rho)


def evaluate(kernels, model):
    """Norms of all kernels' parts (M,), and predictions (N,), from one pass over the active kernels."""
    norms = np.zeros(kernels.n_kernels)
    outputs = np.full(kernels.n_samples, model.intercept)
    if len(model.active):
        parts = kernels.products(model.coefficients, model.active)
        norms[model.active] = np.sqrt(np.maximum(np.einsum("mi,mi->m", model.coefficients, parts), 0.0))
        outputs += parts.sum(axis=0)
    return norms, outputs
