r"""SpicyMKL: proximal minimisation in the primal, Newton's method in the dual (Suzuki and Tomioka 2011)."""

import numpy as np

from omkl.batch.mkl.problem import Problem
from omkl.batch.mkl.working_set import Start, Subproblem, solve_by_working_sets
from omkl.batch.solver import GapMonitor, Solution, Solver
from omkl.exceptions import InputError

#: First weight of the proximal term, times the mean trace of the kernels and the mean weight of the losses; and its
#: growth from step to step.
FIRST_GAMMA = 1e4
GROWTH = 4.0


class Spicy(Solver):
    r"""SpicyMKL for any pointwise loss, and any regularizer that is a sum over kernels or the square of one ("mkl").

    Each proximal step minimises the objective plus :math:`\sum_m \|f_m - f_m^{(t)}\|^2 / (2 \gamma)`, through its dual
    (Eq. 25 of Suzuki and Tomioka 2011), whose Hessian needs the active kernels alone:

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i)
              + \frac1\gamma M\bigl(\|\alpha_1 + \gamma \rho\|_{K_1}, \ldots\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    with :math:`M` the Moreau envelope of :math:`(\gamma \psi)^*`, followed by
    :math:`\alpha_m \leftarrow \mathrm{prox}_{\gamma \psi}(\alpha_m + \gamma \rho)`. The intercept is the multiplier
    of the equality, which is exact, where the paper has a penalty. Losses with kinks keep their bounds by a primal-dual
    barrier instead of the paper's slack variables. Kernels enter by a working set; a round makes one pass over all.

    Newton systems of few samples are solved by Cholesky factors, those of many by conjugate gradients, with no matrix
    of all pairs of samples: low-rank kernels (:class:`~omkl.kernels.FactoredStack`) take memory of N times their ranks.
    The history says which: ``system`` is "cholesky", "cg" or "matrix-free".
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


class _Envelope:
    r"""The Moreau envelope :math:`M` of :math:`(\gamma \psi)^*` as a function of norms, and its derivatives."""

    def __init__(self, regularizer, weight):
        self.regularizer, self.weight = regularizer, weight

    def value(self, norms):
        shrunk = self.first(norms)
        # n^2/2 - (n - p)^2/2, without the difference of squares
        return float(shrunk @ (norms - 0.5 * shrunk)) - self.weight * self.regularizer.value(shrunk)

    def first(self, norms):
        return self.regularizer.prox(norms, self.weight)

    def second(self, norms):
        return self.regularizer.prox_slope(norms, self.weight)

    def coupling(self, norms):
        return self.regularizer.prox_coupling(norms, self.weight)


class _Proximal(Subproblem):
    """Proximal steps with a growing weight."""

    def warm_up(self, model):
        traces = self.problem.kernels.traces(self.which) / self.problem.kernels.n_parts
        scale = (float(traces.mean()) or 1.0) if len(traces) else 1.0
        self.gamma = FIRST_GAMMA / (scale * float(self.problem.loss_weights.mean()))
        if len(model.active):
            indices = np.searchsorted(self.which, model.active)
            self.alphas[indices] = model.coefficients
            self.alpha_products = self.alphas.copy()
            self.alpha_products[indices] = self.problem.kernels.products(model.coefficients, model.active)
            self.alpha_squares = np.einsum("mi,mi->m", self.alphas, self.alpha_products)

    def curve(self):
        return _Envelope(self.problem.regularizer, self.gamma)

    def recentre(self):
        self._to_model()
        # a large weight makes the coefficients of new kernels far too large
        self.gamma /= GROWTH

    def proximal_step(self):
        self._to_model()
        self.gamma *= GROWTH
        self.term = self._term()

    def _to_model(self):
        """Move the centre to the model."""
        term = self.term
        self.alphas = term.ratios[:, None] * (self.alphas + self.gamma * term.rho)
        self.alpha_products = term.ratios[:, None] * term.point_products
        self.alpha_squares = self.curve().first(term.norms) ** 2
