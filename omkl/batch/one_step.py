r"""The one-step method: where the dual of the regularizer is smooth, one Newton minimisation is all."""

from dataclasses import replace

import numpy as np

from omkl.batch.restricted import Restricted
from omkl.batch.solver import Solver
from omkl.batch.working_set import solve_by_working_sets
from omkl.exceptions import InputError
from omkl.regularizers import Regularizer

#: Kernels of a first working set: the worst, and a sample of the others that stands for all of them.
WORST, SAMPLE = 60, 100
#: Kernels that violate optimality at the start from which on there is a sample.
MANY = 1000


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


class _Counted(Regularizer):
    r""":math:`\sum_m c_m \psi_m(b_m / c_m)`: each kernel stands for :math:`c_m` equal ones, which share its norm.

    Parameters
    ----------
    regularizer : Regularizer
        A sum over kernels.
    many : bool array of shape (k,)
        The kernels with ``count``; that of the others is 1.
    count : float >= 1
    """

    separable = True

    def __init__(self, regularizer, many, count):
        self.regularizer, self.many = regularizer, many
        self.count, self.counts = count, np.where(many, count, 1.0)

    def _sum(self, function, values):
        return function(values[~self.many]) + self.count * function(values[self.many])

    def value(self, norms):
        return self._sum(self.regularizer.value, norms / self.counts)

    def conjugate(self, dual_norms):
        return self._sum(self.regularizer.conjugate, dual_norms)

    def conjugate_gradient(self, dual_norms):
        return self.counts * self.regularizer.conjugate_gradient(dual_norms)

    def conjugate_curvature(self, dual_norms):
        return self.counts * self.regularizer.conjugate_curvature(dual_norms)


class _Smooth(Restricted):
    """The dual as it is: no proximal term, so no proximal steps; of many kernels, first on a sample.

    Mostly many kernels are active, and a sum over them is much like that over every tenth, counted ten times. Its
    minimiser is a point from which few steps on all of them are left.
    """

    @classmethod
    def begin(cls, problem, rho, model, gap, violating):
        if len(model.active) or len(violating) < MANY:
            return super().begin(problem, rho, model, gap, violating)
        rest = violating[WORST:]
        sample = rest[np.linspace(0, len(rest) - 1, SAMPLE).astype(int)]
        which = np.union1d(violating[:WORST], sample)
        counted = _Counted(problem.regularizer, np.isin(which, sample), len(rest) / SAMPLE)
        sampled = cls(replace(problem, regularizer=counted), which, rho, model, gap)
        sampled.whole = problem
        return sampled

    #: The problem that the present one is a sample of.
    whole = None

    def grow(self, violating):
        if self.whole is None:
            return super().grow(violating)
        self.problem, self.whole = self.whole, None
        self.add(np.sort(violating))

    share = 0.01

    def curve(self):
        return _Conjugate(self.problem.regularizer, self.problem.C)
