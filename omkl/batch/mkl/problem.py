"""Multiple kernel learning on a finite set of samples; several outputs share kernel weights."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from omkl.batch.problem import BaseProblem
from omkl.batch.weighted_loss import StackedLoss, WeightedLoss
from omkl.kernels import KernelStack
from omkl.kernels.stack import ReplicatedStack
from omkl.losses.base import PointwiseLoss
from omkl.regularizers.base import Regularizer


@dataclass
class Expansion:
    r"""Kernel expansion of a model: a function for each active kernel, and an intercept.

    Function m is :math:`f_m = \sum_i \alpha_{mi} k_m(x_i, \cdot)`.

    Attributes
    ----------
    active : int array of shape (k,)
        Kernels with nonzero coefficients, in increasing order.
    coefficients : array of shape (k, N)
    intercept : float
        For several outputs an array (N,), constant within each output.
    """

    active: np.ndarray
    coefficients: np.ndarray
    intercept: float | np.ndarray = 0.0


@dataclass(frozen=True)
class Problem(BaseProblem[Expansion]):
    r"""Multiple kernel learning on a finite set of samples.

    .. math:: \min_{f_m \in H_m,\, b}\
              C \sum_i w_i\, l\Bigl(y_i, \sum_m f_m(x_i) + b\Bigr) + \psi(\|f_1\|, \ldots, \|f_M\|)

    Its dual is :math:`\max_\rho -\sum_i C w_i\, l^*(y_i, -\rho_i / (C w_i)) -
    \psi^*(\|\rho\|_{K_1}, \ldots)` subject to :math:`\sum_i \rho_i = 0` if there is an intercept.

    Parameters
    ----------
    kernels : KernelStack
    y : array of shape (N,)
    loss : PointwiseLoss
    regularizer : Regularizer
        A function of the group norms :math:`\|f_m\|`.
    C : float > 0
        Weight of the losses; larger values fit closer.
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

    @cached_property
    def weighted_loss(self) -> WeightedLoss:
        if isinstance(self.kernels, ReplicatedStack):
            return StackedLoss(self.loss, self.y, self.loss_weights, n_outputs=self.kernels.n_parts)
        return super().weighted_loss

    def dual_norms(self, rho: np.ndarray) -> np.ndarray:
        return np.sqrt(self.kernels.quadratics(rho))

    def evaluate(self, model: Expansion) -> tuple[np.ndarray, np.ndarray]:
        norms = np.zeros(self.kernels.n_kernels)
        outputs = np.full(self.kernels.n_samples, model.intercept)
        if len(model.active):
            images = self.kernels.products(model.coefficients, model.active)
            norms[model.active] = rkhs_norms(model.coefficients, images)
            outputs += images.sum(axis=0)
        return norms, outputs

    def at(self, value: float) -> "Problem":
        return replace(self, C=value)

    def path_values(self, count: int, decades: float) -> np.ndarray:
        return np.geomspace(1.0, 10.0**decades, count) * smallest_c(self)


def rkhs_norms(coefficients: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the norms of functions (M,) from their coefficients (M, N).

    ``images`` (M, N) are the products of each kernel with its coefficients.
    """
    return np.sqrt(np.maximum(np.einsum("mi,mi->m", coefficients, images), 0.0))


def smallest_c(problem: Problem) -> float:
    r"""Return the C above which kernels enter under the block 1-norm.

    Up to it, a constant is optimal. It is :math:`1 / \max_m \|\rho\|_{K_m}` at the best constant
    for C = 1; ``inf`` if all these norms are 0.
    For regressions with a squared norm, whose C does not depend on the unit of y, this is
    multiplied by the root mean square of the errors of the constant.

    Parameters
    ----------
    problem : Problem
        Its ``C`` is not used.
    """
    constant, rho = problem.at(1.0).best_constant()
    largest = float(problem.dual_norms(rho).max())
    if not largest > 0:
        return np.inf
    has_squared_norm = problem.regularizer.weight_set is not None
    is_regression = not (problem.loss.classifies or problem.loss.has_link)
    unit = 1.0
    if has_squared_norm and is_regression:
        unit = float(np.sqrt(np.mean((problem.y - constant) ** 2)))
    return unit / largest


def shared_problem(
    kernels: KernelStack,
    targets: np.ndarray,
    loss: PointwiseLoss,
    regularizer: Regularizer,
    C: float,
    intercept: bool = True,
    sample_weight: np.ndarray | None = None,
) -> Problem:
    r"""Return the problem of several outputs with shared kernel weights.

    .. math:: \min_{f_{mp}, b_p}\
              C \sum_p \sum_i w_i\, l\Bigl(y_{ip}, \sum_m f_{mp}(x_i) + b_p\Bigr)
              + \psi(\|f_1\|, \ldots, \|f_M\|), \qquad \|f_m\|^2 = \sum_p \|f_{mp}\|^2

    This is a problem with the kernels :math:`I_P \otimes K_m` on P copies of the samples, and an
    intercept for each copy. One pass over the kernels serves all outputs, and a Newton step of all
    outputs needs the sum of the kernels once.

    Parameters
    ----------
    kernels, loss, regularizer, C, intercept
        As for :class:`~omkl.batch.Problem`.
    targets : array of shape (N, P)
    sample_weight : array of shape (N,), optional
        Weights of the samples in every output.
    """
    n_outputs = targets.shape[1]
    return Problem(
        kernels=ReplicatedStack(kernels, n_outputs),
        y=targets.T.ravel(),
        loss=loss,
        regularizer=regularizer,
        C=C,
        intercept=intercept,
        sample_weight=None if sample_weight is None else np.tile(sample_weight, n_outputs),
    )
