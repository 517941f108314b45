r"""SpicyMKL, and the one-step method for regularizers with a smooth dual (Suzuki and Tomioka 2011).

Newton systems of few samples are solved by Cholesky factors, larger ones by conjugate gradients without a matrix of all
pairs of samples: low-rank kernels (:class:`~omkl.kernels.FactoredStack`) take memory of N times their ranks. The
history shows the choice: ``system`` is "cholesky", "cg" or "matrix-free".
"""

from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.mkl.working_set import Start, Subproblem, solve_by_working_sets
from omkl.batch.problem import Certificate
from omkl.batch.solver import GapMonitor, Solution, Solver
from omkl.exceptions import InputError
from omkl.regularizers.base import Regularizer

#: First weight of the proximal term, times the mean trace of the kernels and the mean weight of the losses; and its
#: growth from step to step.
FIRST_GAMMA, GROWTH = 1e4, 4.0
#: Number of violating kernels from which the one-step method first solves for a sample, and the size of the sample.
MANY, SAMPLE = 1000, 150
#: Gap to which the sample is solved, as a share of the initial gap.
SAMPLE_SHARE = 0.003
#: Weight of the barrier when all kernels replace the sample, as a share of the gap divided by the number of bounds.
WIDENED = 0.03


class Spicy(Solver):
    r"""SpicyMKL for any pointwise loss, and any regularizer that is a sum over kernels or its square ("mkl").

    Each proximal step minimises the objective plus :math:`\sum_m \|f_m - f_m^{(t)}\|^2 / (2 \gamma)`, through its dual
    (Eq. 25 of Suzuki and Tomioka 2011), whose Hessian needs only the active kernels:

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i)
              + \frac1\gamma M\bigl(\|\alpha_1 + \gamma \rho\|_{K_1}, \ldots\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    with :math:`M` the Moreau envelope of :math:`(\gamma \psi)^*`, followed by
    :math:`\alpha_m \leftarrow \mathrm{prox}_{\gamma \psi}(\alpha_m + \gamma \rho)`. The intercept is the multiplier
    of the equality, which is exact; the paper uses a penalty instead. For losses with kinks, a primal-dual barrier
    replaces the slack variables of the paper. Kernels enter by a working set; a round makes one pass over all kernels.
    """

    aliases = {"spicy": {}}
    several_outputs = True

    def check(self, problem: Problem) -> None:
        if not problem.regularizer.differentiable_prox:
            raise InputError(
                "The solver 'spicy' needs a regularizer that is a sum over kernels, such as 'block1', or 'mkl', got "
                f"{problem.regularizer!r}."
            )

    def _search(self, problem: Problem, monitor: GapMonitor, start: Start | None) -> Solution:
        return solve_by_working_sets(problem, _Proximal, monitor, start)


class OneStep(Solver):
    r"""One smooth minimisation, for the elastic net (mu > 0), the block q-norm (q > 1), the ridge and others.

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i) + \sum_m \psi^*\bigl(\|\rho\|_{K_m}\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    as in section 4.3 of Suzuki and Tomioka (2011), but with an exact equality, a row of the Newton system, instead of a
    penalty of 1e5. Then :math:`\alpha_m = \rho\, \psi^{*\prime}(\|\rho\|_{K_m}) / \|\rho\|_{K_m}`. For many kernels,
    the first round uses a sample of them, as in sub-sampled Newton methods (Roosta and Mahoney 2019).
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


# ---- the proximal method ----------------------------------------------------------------------------------------


class _Envelope:
    r"""The Moreau envelope :math:`M` of :math:`(\gamma \psi)^*` as a function of norms, and its derivatives."""

    def __init__(self, regularizer: Regularizer, weight: float) -> None:
        self.regularizer, self.weight = regularizer, weight

    def value(self, norms: np.ndarray) -> float:
        shrunk = self.first(norms)
        # n^2/2 - (n - p)^2/2, without the difference of squares
        return float(shrunk @ (norms - 0.5 * shrunk)) - self.weight * self.regularizer.value(shrunk)

    def first(self, norms: np.ndarray) -> np.ndarray:
        return self.regularizer.prox(norms, self.weight)

    def second(self, norms: np.ndarray) -> np.ndarray:
        return self.regularizer.prox_slope(norms, self.weight)

    def coupling(self, norms: np.ndarray) -> np.ndarray | None:
        return self.regularizer.prox_coupling(norms, self.weight)


class _Proximal(Subproblem):
    """Proximal steps with a growing weight."""

    def warm_up(self, model: Expansion) -> None:
        traces = self.problem.kernels.traces(self.which) / self.problem.kernels.n_parts
        scale = (float(traces.mean()) or 1.0) if len(traces) else 1.0
        self.gamma = FIRST_GAMMA / (scale * float(self.problem.loss_weights.mean()))
        if len(model.active):
            indices = np.searchsorted(self.which, model.active)
            self.alphas[indices] = model.coefficients
            self.alpha_products[indices] = self.problem.kernels.products(model.coefficients, model.active)
            self.alpha_squares = np.einsum("mi,mi->m", self.alphas, self.alpha_products)

    def curve(self) -> _Envelope:
        return _Envelope(self.problem.regularizer, self.gamma)

    def recentre(self) -> None:
        self._to_model()
        # with a large weight the coefficients of new kernels would be far too large
        self.gamma /= GROWTH

    def proximal_step(self) -> None:
        self._to_model()
        self.gamma *= GROWTH
        self.reset_term()

    def _to_model(self) -> None:
        """Move the centre to the model."""
        term = self.term
        self.alphas = term.ratios[:, None] * (self.alphas + self.gamma * term.rho)
        self.alpha_products = term.ratios[:, None] * term.point_products
        self.alpha_squares = self.curve().first(term.norms) ** 2


# ---- the one-step method ----------------------------------------------------------------------------------------


class _Conjugate:
    r""":math:`\psi^*` as a function of norms, and its derivatives."""

    def __init__(self, regularizer: Regularizer) -> None:
        self.value, self.first = regularizer.conjugate, regularizer.conjugate_gradient
        self.second = regularizer.conjugate_curvature

    def coupling(self, norms: np.ndarray) -> None:
        """Return None: the regularizer is a sum over kernels."""


class _Copies(Regularizer):
    r"""Regularizer for c replicated kernels, :math:`c\, \psi(b / c)`."""

    separable = True

    def __init__(self, regularizer: Regularizer, copies: float) -> None:
        self.regularizer, self.copies = regularizer, copies

    def value(self, norms: ArrayLike) -> float:
        return self.copies * self.regularizer.value(np.asarray(norms) / self.copies)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return self.copies * self.regularizer.conjugate(dual_norms)

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        return self.copies * self.regularizer.conjugate_gradient(dual_norms)

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        return self.copies * self.regularizer.conjugate_curvature(dual_norms)


class _Smooth(Subproblem):
    """The dual without a proximal term; for many kernels, first on a sample.

    Most kernels are active, so the sum over all kernels is close to ten times the sum over every tenth.
    """

    #: Loose, because the barrier follows the gap: a small barrier far from the optimum takes many steps.
    share = 0.2
    #: The whole problem, while ``problem`` is a sample.
    whole: Problem | None = None

    @classmethod
    def begin(cls, problem: Problem, start: Start, certificate: Certificate, violating: np.ndarray) -> Self:
        if len(start.model.active) or len(violating) < MANY:
            return super().begin(problem, replace(start, rho=certificate.rho), certificate, violating)
        # sample both large and small violations
        sample = np.sort(violating[np.linspace(0, len(violating) - 1, SAMPLE).astype(int)])
        copies = replace(problem, regularizer=_Copies(problem.regularizer, len(violating) / SAMPLE))
        sampled = cls(copies, sample, certificate.rho, start.model, certificate.primal - certificate.dual)
        sampled.whole, sampled.share = problem, SAMPLE_SHARE
        return sampled

    def grow(self, violating: np.ndarray) -> None:
        if self.whole is None:
            super().grow(violating)
            return
        self.problem, self.whole, self.share = self.whole, None, 0.0
        self.add(np.sort(violating))
        self.reset_term()
        self.barrier = max(self.barrier, WIDENED * self.gaps()[0] / max(self.dual_loss.n_barred, 1))

    def curve(self) -> _Conjugate:
        return _Conjugate(self.problem.regularizer)
