r"""The one-step method: where the dual of the regularizer is smooth, one Newton minimisation is all."""

import numpy as np

from omkl.batch.restricted import Restricted
from omkl.batch.solver import Solver
from omkl.batch.working_set import solve_by_working_sets
from omkl.exceptions import InputError


class OneStep(Solver):
    r"""One smooth minimisation, for the elastic net (mu > 0), the block q-norm (q > 1), the ridge and their like.

    .. math:: \min_\rho\ \sum_i l^*(y_i, -\rho_i) + C \sum_m \psi^*\bigl(\|\rho\|_{K_m} / C\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    (section 4.3 of Suzuki and Tomioka 2011, with the equality exact, by a row of the Newton system, where the paper has
    a penalty of 1e5); then :math:`\alpha_m = \rho\, \psi^{*\prime}(\|\rho\|_{K_m} / C) / \|\rho\|_{K_m}`.

    Newton systems of few samples are solved by Cholesky factors, those of many by conjugate gradients, with no matrix
    of all pairs of samples: low-rank kernels (:class:`~omkl.kernels.FactoredStack`) take memory of N times their ranks.
    The history says which: ``system`` is "cholesky", "cg" or "matrix-free".
    """

    short_names = {"one-step": {}}
    natural_regularizer = "elastic-net"

    def solve(self, problem, tol=1e-2, max_iter=None, start=None, on_iteration=None):
        regularizer = problem.regularizer
        if not (regularizer.separable and regularizer.dual_scale(np.full(1, 1e12)) == 1.0):
            raise InputError(
                'The solver "one-step" needs a regularizer with a smooth dual: the elastic net with mu > 0, the block '
                f'q-norm or the uniform one, not {regularizer!r}. The solver "spicy" takes others.'
            )
        return solve_by_working_sets(problem, _Smooth, tol, max_iter, start, on_iteration)


class _Conjugate:
    r""":math:`C \psi^*(n / C)` as a function of norms, and its derivatives."""

    def __init__(self, regularizer, C):
        self.regularizer, self.C = regularizer, C

    def value(self, norms):
        return self.C * self.regularizer.conjugate(norms / self.C)

    def first(self, norms):
        return self.regularizer.conjugate_gradient(norms / self.C)

    def second(self, norms):
        return self.regularizer.conjugate_curvature(norms / self.C) / self.C

    def coupling(self, norms):
        """None: the regularizer is a sum over kernels."""


class _Smooth(Restricted):
    """The dual as it is: no proximal term, so no proximal steps.

    Many kernels are active: steps on a few of them are cheap beside those on most, which good ones spare.
    """

    share = 0.01

    def curve(self):
        return _Conjugate(self.problem.regularizer, self.problem.C)
