r"""Several outputs with the kernels' weights in common: one problem, not one after the other.

.. math:: \min_{f_{mp}, b_p}\ C \sum_p \sum_i w_i\, l\Bigl(y_{ip}, \sum_m f_{mp}(x_i) + b_p\Bigr)
          + \psi(\|f_1\|, \ldots, \|f_M\|), \qquad \|f_m\|^2 = \sum_p \|f_{mp}\|^2

It is an ordinary problem with the kernels :math:`I_P \otimes K_m` on P copies of the samples, but for its intercepts,
one for each copy. A pass over the kernels serves all outputs, and the sum over kernels of a Newton step is one for all.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.solver import Solution
from omkl.batch.stacked_loss import StackedLoss
from omkl.kernels import KernelStack
from omkl.kernels.stack import ReplicatedStack
from omkl.losses import PointwiseLoss
from omkl.regularizers import Regularizer


class SharedProblem(Problem):
    """Multiple kernel learning of several outputs with kernel weights in common; see :func:`shared_problem`."""

    kernels: ReplicatedStack

    @cached_property
    def weighted_loss(self) -> StackedLoss:
        return StackedLoss(self.loss, self.y, self.loss_weights, self.kernels.n_parts)


def shared_problem(
    kernels: KernelStack,
    targets: np.ndarray,
    loss: PointwiseLoss,
    regularizer: Regularizer,
    C: float,
    intercept: bool = True,
    sample_weight: np.ndarray | None = None,
) -> SharedProblem:
    """Make the problem of several outputs with kernel weights in common.

    Parameters
    ----------
    kernels, loss, regularizer, C, intercept
        As for :class:`~omkl.batch.Problem`.
    targets : array of shape (N, P)
    sample_weight : array of shape (N,), optional
        Of a sample's loss in every output.
    """
    n_parts = targets.shape[1]
    weights = None if sample_weight is None else np.tile(sample_weight, n_parts)
    stack = ReplicatedStack(kernels, n_parts)
    return SharedProblem(stack, targets.T.ravel(), loss, regularizer, C, intercept, weights)


def each_output(solution: Solution, n_parts: int) -> list[Solution]:
    """Split the solution of a problem of several outputs; the first part has the history.

    Norms, primal, dual and gap are those of all outputs together.

    Parameters
    ----------
    solution : Solution
    n_parts : int
        Number of outputs.
    """
    model, certificate = solution.model, solution.certificate
    coefficients = model.coefficients.reshape(len(model.active), n_parts, len(certificate.rho) // n_parts)
    intercepts = np.broadcast_to(model.intercept, certificate.rho.shape).reshape(n_parts, -1)[:, 0]
    own = zip(*(values.reshape(n_parts, -1) for values in (certificate.outputs, certificate.rho)))
    return [
        replace(
            solution,
            model=Expansion(model.active, coefficients[:, p], float(intercepts[p])),
            certificate=replace(certificate, outputs=outputs, rho=rho),
            history=[] if p else solution.history,
            start=None,
        )
        for p, (outputs, rho) in enumerate(own)
    ]
