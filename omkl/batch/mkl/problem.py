"""Multiple kernel learning on a finite set of samples."""

from dataclasses import dataclass, replace

import numpy as np

from omkl.batch.problem import BaseProblem
from omkl.batch.solver import Solution
from omkl.kernels import KernelStack
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


@dataclass(frozen=True)
class Problem(BaseProblem):
    r"""Multiple kernel learning on a finite set of samples.

    .. math:: \min_{f_m \in H_m,\, b}\
              C \sum_i w_i\, l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr) + \psi(\|f_1\|, \ldots, \|f_M\|)

    Its dual is :math:`\max_\rho -\sum_i C w_i\, l^*(y_i, -\rho_i / (C w_i)) - \psi^*(\|\rho\|_{K_1}, \ldots)` subject
    to :math:`\sum_i \rho_i = 0` where there is an intercept.

    Parameters
    ----------
    kernels : KernelStack
    y : array of shape (N,)
    loss : PointwiseLoss
    regularizer : Regularizer
        A function of the group norms :math:`\|f_m\|`.
    C : float > 0
        Weight of the losses: the larger, the closer the fit.
    intercept : bool
    sample_weight : array of shape (N,), optional
        The :math:`w_i > 0`; 1 by default.
    """

    kernels: KernelStack
    y: np.ndarray
    loss: PointwiseLoss
    regularizer: Regularizer
    C: float
    intercept: bool = True
    sample_weight: np.ndarray | None = None

    @property
    def loss_weights(self) -> np.ndarray:
        weights = np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight
        return self.C * np.asarray(weights, dtype=np.float64)

    def dual_norms(self, rho: np.ndarray) -> np.ndarray:
        return np.sqrt(self.kernels.quadratics(rho))

    def evaluate(self, model: "Expansion") -> tuple[np.ndarray, np.ndarray]:
        norms = np.zeros(self.kernels.n_kernels)
        outputs = np.full(self.kernels.n_samples, model.intercept)
        if len(model.active):
            parts = self.kernels.products(model.coefficients, model.active)
            norms[model.active] = np.sqrt(np.maximum(np.einsum("mi,mi->m", model.coefficients, parts), 0.0))
            outputs += parts.sum(axis=0)
        return norms, outputs

    def at(self, value: float) -> "Problem":
        return replace(self, C=value)

    def path_values(self, count: int, decades: float) -> np.ndarray:
        return np.geomspace(1.0, 10.0**decades, count) * smallest_c(self)


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


def smallest_c(problem: Problem) -> float:
    r"""Return the largest C at which a constant is optimal under the block 1-norm.

    It is :math:`1 / \max_m \|\rho\|_{K_m}` at the best constant for C = 1; ``inf`` where that is 0.

    Parameters
    ----------
    problem : Problem
        Its own C is not used.
    """
    largest = float(problem.at(1.0).dual_norms(problem.at(1.0).best_constant()[1]).max())
    return 1.0 / largest if largest > 0 else np.inf


#: Largest relative error of a number that is stored in single precision.
UNIT = 2.0**-24


def rounding_of_storage(problem: Problem, solution: Solution) -> float:
    r"""Return the error of a relative duality gap, of kernels stored in single precision.

    Rounding adds to each kernel a matrix E of independent entries of at most :data:`UNIT` of the largest entry, whose
    spectral norm is at most :math:`2 \sqrt N` of that (Wigner). The losses change by :math:`\rho^\top E \alpha_m`. For
    a constant only the lower bound changes, as :math:`\|\rho\|_K^2` changes by :math:`\rho^\top E \rho`.

    Parameters
    ----------
    problem : Problem
    solution : Solution
    """
    model, certificate, rho = solution.model, solution.certificate, solution.certificate.rho
    active = model.active if len(model.active) else np.arange(problem.kernels.n_kernels)
    spectral = 2.0 * np.sqrt(len(rho) / problem.kernels.n_parts) * UNIT * problem.kernels.diagonals(active).max(axis=1)
    if len(model.active):
        lengths = np.linalg.norm(model.coefficients, axis=1)
        change = 2.0 * float(spectral @ lengths) * float(np.linalg.norm(rho))
    else:
        widened = np.sqrt(problem.dual_norms(rho) ** 2 + spectral * (rho @ rho))
        scale = problem.feasible_scale(widened)
        change = certificate.dual - problem.dual(scale * rho, scale * widened)
    return change / max(abs(certificate.primal), float(np.finfo(np.float64).tiny))
