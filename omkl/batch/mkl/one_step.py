"""The one-step method, for regularizers with a smooth dual."""

from dataclasses import replace

import numpy as np

from omkl.batch.mkl.problem import Problem
from omkl.batch.mkl.working_set import Start, Subproblem, solve_by_working_sets
from omkl.batch.solver import GapMonitor, Solution, Solver
from omkl.exceptions import InputError
from omkl.regularizers import Regularizer

#: Number of violating kernels from which on a sample comes first, and the size of the sample.
MANY, SAMPLE = 1000, 150
#: Gap that the sample is solved to, as a share of that at the start.
SAMPLE_SHARE = 0.003
#: Weight of the barrier when all kernels follow the sample, as a share of the gap divided by the number of bounds.
WIDENED = 0.03


class OneStep(Solver):
    r"""One smooth minimisation, for the elastic net (mu > 0), the block q-norm (q > 1), the ridge and their like.

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i) + \sum_m \psi^*\bigl(\|\rho\|_{K_m}\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    (section 4.3 of Suzuki and Tomioka 2011, with the equality exact, by a row of the Newton system, where the paper has
    a penalty of 1e5); then :math:`\alpha_m = \rho\, \psi^{*\prime}(\|\rho\|_{K_m}) / \|\rho\|_{K_m}`.

    Newton systems of few samples are solved by Cholesky factors, those of many by conjugate gradients, with no matrix
    of all pairs of samples: low-rank kernels (:class:`~omkl.kernels.FactoredStack`) take memory of N times their ranks.
    The history says which: ``system`` is "cholesky", "cg" or "matrix-free". Of many kernels a sample stands for all
    in the first round, as in sub-sampled Newton methods (Roosta and Mahoney 2019).
    """

    aliases = {"one-step": {}}
    natural_regularizer = "elastic-net"
    several_outputs = True

    def check(self, problem: Problem) -> None:
        regularizer = problem.regularizer
        if not regularizer.smooth_conjugate:
            raise InputError(
                "The solver 'one-step' needs a regularizer with a smooth dual, such as 'elastic-net', 'block-q' or "
                f"'uniform', got {regularizer!r}."
            )

    def _search(self, problem: Problem, monitor: GapMonitor, start: Start | None) -> Solution:
        return solve_by_working_sets(problem, _Smooth, monitor, start)


class _Conjugate:
    r""":math:`\psi^*` as a function of norms, and its derivatives."""

    def __init__(self, regularizer):
        self.regularizer = regularizer

    def value(self, norms):
        return self.regularizer.conjugate(norms)

    def first(self, norms):
        return self.regularizer.conjugate_gradient(norms)

    def second(self, norms):
        return self.regularizer.conjugate_curvature(norms)

    def coupling(self, norms):
        """Return None: the regularizer is a sum over kernels."""


class _Copies(Regularizer):
    r"""Regularizer for c replicated kernels, :math:`c\, \psi(b / c)`."""

    separable = True

    def __init__(self, regularizer, copies):
        self.regularizer, self.copies = regularizer, copies

    def value(self, norms):
        return self.copies * self.regularizer.value(norms / self.copies)

    def conjugate(self, dual_norms):
        return self.copies * self.regularizer.conjugate(dual_norms)

    def conjugate_gradient(self, dual_norms):
        return self.copies * self.regularizer.conjugate_gradient(dual_norms)

    def conjugate_curvature(self, dual_norms):
        return self.copies * self.regularizer.conjugate_curvature(dual_norms)


class _Smooth(Subproblem):
    """The dual without a proximal term; of many kernels, first on a sample.

    As most kernels are active, the sum over all is much like ten times that over every tenth.
    """

    #: Loose, as the barrier follows the gap: a small barrier far from the optimum takes many steps.
    share = 0.2
    #: The whole problem, while the present one is a sample.
    whole = None

    @classmethod
    def begin(cls, problem, start, certificate, violating):
        if len(start.model.active) or len(violating) < MANY:
            return super().begin(problem, replace(start, rho=certificate.rho), certificate, violating)
        # large and small violations
        sample = np.sort(violating[np.linspace(0, len(violating) - 1, SAMPLE).astype(int)])
        copies = replace(problem, regularizer=_Copies(problem.regularizer, len(violating) / SAMPLE))
        sampled = cls(copies, sample, certificate.rho, start.model, certificate.primal - certificate.dual)
        sampled.whole, sampled.share = problem, SAMPLE_SHARE
        return sampled

    def grow(self, violating):
        if self.whole is None:
            super().grow(violating)
            return
        self.problem, self.whole, self.share = self.whole, None, 0.0
        self.add(np.sort(violating))
        self.term = self._term()
        self.barrier = max(self.barrier, WIDENED * self.gaps()[0] / max(self.dual_loss.n_barred, 1))

    def curve(self):
        return _Conjugate(self.problem.regularizer)
