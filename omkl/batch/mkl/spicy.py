r"""SpicyMKL, and the one-step method for regularizers with a smooth dual (Suzuki and Tomioka 2011).

Newton systems of few samples are solved by Cholesky factors, larger ones by conjugate gradients
without a matrix of all pairs of samples: low-rank kernels (:class:`~omkl.kernels.FactoredStack`)
take memory of N times their ranks. The history shows the choice: ``system`` is "cholesky", "cg" or
"matrix-free".

Both solve on a working set of kernels, then check all kernels. Kernels outside the working set are
zero. One pass computes :math:`\|\rho\|_{K_m}` for all kernels. This certifies the model, and shows
which kernels violate optimality.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from omkl.batch.mkl.newton import Curve, KernelTerm, system_of
from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.newton import BarrierSearch
from omkl.batch.problem import Certificate
from omkl.batch.solver import (
    DERIVATIVE_OF_PROX,
    GROUP_NORMS,
    SMOOTH_DUAL,
    GapMonitor,
    Solution,
    Solver,
)
from omkl.regularizers.base import Regularizer

#: Kernels of the first working set, and the fewest to add; for several outputs, whose products take
#: longer.
FIRST, FIRST_OF_PARTS = 60, 8
#: Rounds in which inactive kernels leave the working set; later they stay, which prevents cycles.
LEAVING = 10
#: Maximum number of Newton steps on one working set.
MOST_STEPS = 150
#: Share of the tolerance to which a working set is solved: kernels outside add to the gap.
ENOUGH = 0.6
#: Smallest relative gap in double precision.
FINEST = 1e-15
#: The search stalls after this many rounds in a row that add no kernel and leave more than this
#: share of the gap.
IDLE_ROUNDS, IDLE = 3, 0.5
#: No kernels.
NONE = np.arange(0)


@dataclass
class Start:
    """A warm start: a model and a dual point of a problem with the same kernels and samples."""

    model: Expansion
    rho: np.ndarray


class Subproblem(BarrierSearch):
    r"""A problem restricted to a working set of kernels, at a dual point.

    The model at a dual point is :math:`\alpha_m \leftarrow \mathrm{ratio}_m\, (\alpha_m + \gamma
    \rho)`. Methods differ in the ratios as functions of the norms.

    Parameters
    ----------
    problem : Problem
    which : int array of shape (k,)
        The first working set, increasing.
    rho : array of shape (N,)
        Initial dual point.
    model : Expansion
        A first model; its active kernels are in the working set.
    gap : float
        The absolute duality gap at the start.
    """

    #: Weight of the dual point relative to the coefficients.
    gamma = 1.0
    #: Gap to which a working set is solved, as a share of the gap over all kernels.
    share = 0.05

    problem: Problem

    def __init__(
        self, problem: Problem, which: np.ndarray, rho: np.ndarray, model: Expansion, gap: float
    ) -> None:
        super().__init__(problem, rho, model.intercept, gap)
        self.which, self.rounds = which, 0
        self.alphas, self.alpha_products = np.zeros((2, len(which), len(rho)))
        self.alpha_squares = np.zeros(len(which))
        self.kernel_products = problem.kernels.products(self.rho, which)
        self.warm_up(model)

    @classmethod
    def begin(
        cls, problem: Problem, start: Start, certificate: Certificate, violating: np.ndarray
    ) -> Self:
        """Begin with the kernels of a model and some of the violating kernels, given worst first.

        The dual point of the certificate is the best multiple of the dual point of the start.
        """
        which = np.union1d(start.model.active, violating[: _most(problem)])
        return cls(problem, which, start.rho, start.model, certificate.primal - certificate.dual)

    @abstractmethod
    def curve(self) -> Curve:
        """Return the function of the norms in the dual."""

    def warm_up(self, model: Expansion) -> None:
        """Begin at a model; do nothing if the model is a function of the dual point."""

    def recentre(self) -> None:
        """Move the centre of the proximal term before kernels enter; methods without such a term do
        nothing.
        """

    @property
    def rho(self) -> np.ndarray:
        """The dual point, (N,)."""
        return self.dual_loss.rho(self.x)

    def grow(self, violating: np.ndarray) -> None:
        """Add kernels that violate optimality, given worst first; drop inactive ones."""
        kernels = self.problem.kernels
        most, active = _most(self.problem, len(self.which)), self.term.ratios > 0
        self.rounds += 1
        # passes over few kernels are cheap
        if kernels.n_parts == 1 and kernels.n_kernels > FIRST and self.rounds <= LEAVING:
            self.recentre()
            self.which, self.kernel_products = self.which[active], self.kernel_products[active]
            self.alphas, self.alpha_products = self.alphas[active], self.alpha_products[active]
            self.alpha_squares = self.alpha_squares[active]
        self.add(np.sort(violating[:most]))

    def add(self, added: np.ndarray) -> None:
        """Add kernels, given in increasing order, with coefficients of zero."""
        order = np.argsort(np.concatenate([self.which, added]), kind="stable")

        def joined(own: np.ndarray, new: np.ndarray) -> np.ndarray:
            return np.concatenate([own, new])[order]

        zeros = np.zeros((len(added), self.problem.kernels.n_samples))
        self.which = joined(self.which, added)
        self.kernel_products = joined(
            self.kernel_products, self.problem.kernels.products(self.rho, added)
        )
        self.alphas, self.alpha_products = (
            joined(self.alphas, zeros),
            joined(self.alpha_products, zeros),
        )
        self.alpha_squares = joined(self.alpha_squares, np.zeros(len(added)))

    def reset_term(self) -> None:
        """Create the term of the present working set and centre."""
        kernels, centre = self.problem.kernels, (self.alpha_products, self.alpha_squares)
        self.term = KernelTerm(
            kernels, self.which, self.curve(), self.rho, self.kernel_products, *centre, self.gamma
        )

    def solve(self, target: float) -> bool:
        """Solve to an absolute duality gap within the working set; return whether it was reached."""
        self.reset_term()
        return self.minimize(target, MOST_STEPS)

    def model_norms(self) -> np.ndarray:
        return self.term.curve.first(self.term.norms)

    def dual_norms(self) -> np.ndarray:
        r"""Return the norms of :math:`\rho` in the kernels of the working set, (k,)."""
        return np.sqrt(np.maximum(self.term.kernel_products @ self.term.rho, 0.0))

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Set the best intercept; return the norms (M,) of all kernels and the predictions (N,)."""
        outputs = self.term.gradient()
        self.intercept = self.problem.best_intercept(outputs)
        norms = np.zeros(self.problem.kernels.n_kernels)
        norms[self.which] = self.model_norms()
        return norms, outputs + self.intercept

    def model(self) -> Expansion:
        """Return the model at the present point."""
        active = np.flatnonzero(self.term.ratios > 0)
        coefficients = self.term.ratios[active, None] * (
            self.alphas[active] + self.gamma * self.rho
        )
        return Expansion(self.which[active], coefficients, self.intercept)


def _most(problem: Problem, n_present: int = 0) -> int:
    """Return the maximum number of kernels to add to those present: all if the regularizer is not
    sparse.
    """
    if not problem.regularizer.is_sparse:
        return problem.kernels.n_kernels
    return max(FIRST if problem.kernels.n_parts == 1 else FIRST_OF_PARTS, n_present)


def solve_by_working_sets(
    problem: Problem, method: type[Subproblem], monitor: GapMonitor, start: Start | None
) -> Solution:
    """Solve a problem by a working-set method, given as a class of subproblems."""
    if start is None:
        constant, rho = problem.best_constant()
        start = Start(Expansion(NONE, np.zeros((0, len(rho))), constant), rho)
    search, stalled = _Search(problem, monitor, start), False
    subproblem: Subproblem | None = None
    while not search.over and not stalled:
        if subproblem is None:
            violating = search.by_violation(start.model.active)
            subproblem = method.begin(problem, start, search.certificate, violating)
        else:
            subproblem.grow(search.by_violation(subproblem.which))
        steps = subproblem.newton_steps
        stalled = (
            not subproblem.solve(search.target(subproblem.share))
            and subproblem.newton_steps == steps
        )
        if not stalled:
            search.look_at(subproblem)
            stalled = search.idle_rounds >= IDLE_ROUNDS
    norms, outputs = problem.evaluate(search.model)
    best, history = search.certificate, monitor.history
    certificate = Certificate(problem.primal(outputs, norms), best.dual, norms, outputs, best.rho)
    proven = certificate.proves(monitor.tol)
    # by rounding, the recomputed gap may exceed the gap of the search
    stalled = not proven and (stalled or history[-1]["gap"] <= monitor.tol)
    start = Start(search.model, certificate.rho)
    return Solution(search.model, certificate, len(history) - 1, proven, history, start, stalled)


class _Search:
    """The best model and the best dual point so far, and the certificate of the latest model."""

    def __init__(self, problem: Problem, monitor: GapMonitor, start: Start) -> None:
        self.problem, self.monitor = problem, monitor
        self.passes, self.idle_rounds, self._gaps_before, self._looked_at = (
            0,
            0,
            np.full(2, np.inf),
            NONE,
        )
        norms, outputs = problem.evaluate(start.model)
        rho = problem.inside(start.rho)
        self.dual_norms = self._norms_of(rho)
        dual, rho = _best_multiple(problem, rho, self.dual_norms)
        self.certificate = Certificate(problem.primal(outputs, norms), dual, norms, outputs, rho)
        self.model, self._least = start.model, self.certificate.primal
        self.over = self._record(start.model)

    def target(self, share: float) -> float:
        """Return the absolute gap to reach on the working set: a share of the remaining gap, or of
        the tolerance.
        """
        certificate = self.certificate
        wanted = max(self.monitor.tol, FINEST) * max(
            certificate.dual, 1e-3 * abs(certificate.primal)
        )
        return max(ENOUGH * wanted, share * (certificate.primal - certificate.dual))

    def look_at(self, subproblem: Subproblem) -> None:
        """Certify the model of a subproblem by a pass over the other kernels, and set whether the
        search is over.
        """
        problem, best = self.problem, self.certificate
        norms, outputs = subproblem.state()
        rho = problem.inside(subproblem.rho)
        # the subproblem's norms lose digits in its steps, if entries of kernels are large
        self.dual_norms = self._norms_of(rho)
        dual, rho = _best_multiple(problem, rho, self.dual_norms)
        if best.dual > dual:
            # lower bounds hold for every model
            dual, rho = best.dual, best.rho
        model = subproblem.model()
        self.certificate = Certificate(problem.primal(outputs, norms), dual, norms, outputs, rho)
        if self.certificate.primal < self._least:
            self._least, self.model = self.certificate.primal, model
        # a round is idle if no kernel entered; from a start near the optimum, the first models may
        # be worse than it
        gaps = np.array([self._least, self.certificate.primal]) - self.certificate.dual
        halved = gaps[0] > 0.0 and (gaps <= IDLE * self._gaps_before).any()
        if len(np.setdiff1d(subproblem.which, self._looked_at)) or halved:
            self.idle_rounds, self._gaps_before = 0, gaps
        else:
            self.idle_rounds += 1
        self._looked_at = subproblem.which
        self.over = self._record(
            model, len(self._looked_at), subproblem.newton_steps, subproblem.proximal_steps
        )

    def _norms_of(self, rho: np.ndarray) -> np.ndarray:
        """Return the norms of a dual point in all kernels, (M,)."""
        self.passes += 1
        return self.problem.dual_norms(rho)

    def _record(
        self, model: Expansion, size: int = 0, newton_steps: int = 0, proximal_steps: int = 0
    ) -> bool:
        facts = {"working_set": size, "full_passes": self.passes}
        facts |= {"newton_steps": newton_steps, "proximal_steps": proximal_steps}
        values, system = (
            (self.certificate.primal, self.certificate.dual),
            system_of(self.problem.kernels),
        )
        return self.monitor.record(*values, len(model.active), **facts, system=system)

    def by_violation(self, which: np.ndarray) -> np.ndarray:
        r"""Return kernels outside ``which`` that violate optimality, worst first.

        At the optimum the norms b are :math:`\mathrm{prox}_\psi(b + \|\rho\|_K)`. Under a
        regularizer without a threshold all kernels outside violate this.
        """
        regularizer = self.problem.regularizer
        violations = regularizer.prox(self.certificate.norms + self.dual_norms, 1.0)
        violations[which] = 0.0
        if not regularizer.separable and violations.any():
            # entering kernels change the threshold of all kernels, so others may enter, too
            violations = np.where(np.isin(np.arange(len(violations)), which), 0.0, self.dual_norms)
        order = np.argsort(-violations, kind="stable")
        return order[violations[order] > 0]


def _best_multiple(
    problem: Problem, rho: np.ndarray, dual_norms: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the dual value at the largest feasible multiple of a point, halved while that helps,
    and that point.
    """
    dual, scale = problem.scaled_dual(rho, dual_norms)
    while (less := problem.dual(0.5 * scale * rho, 0.5 * scale * dual_norms)) > dual:
        dual, scale = less, 0.5 * scale
    return dual, scale * rho


#: First weight of the proximal term, times the mean trace of the kernels and the mean weight of the
#: losses; and its growth from step to step.
FIRST_GAMMA, GROWTH = 1e4, 4.0
#: Number of violating kernels from which the one-step method first solves for a sample, and the
#: size of the sample.
MANY, SAMPLE = 1000, 150
#: Gap to which the sample is solved, as a share of the initial gap.
SAMPLE_SHARE = 0.003
#: Weight of the barrier when all kernels replace the sample, as a share of the gap divided by the
#: number of bounds.
WIDENED = 0.03


class Spicy(Solver):
    r"""SpicyMKL for any pointwise loss, and any regularizer that is a sum over kernels or its
    square ("mkl").

    Each proximal step minimises the objective plus :math:`\sum_m \|f_m - f_m^{(t)}\|^2 / (2
    \gamma)`, through its dual (Eq. 25 of Suzuki and Tomioka 2011), whose Hessian needs only the
    active kernels:

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i)
              + \frac1\gamma M\bigl(\|\alpha_1 + \gamma \rho\|_{K_1}, \ldots\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    with :math:`M` the Moreau envelope of :math:`(\gamma \psi)^*`, followed by
    :math:`\alpha_m \leftarrow \mathrm{prox}_{\gamma \psi}(\alpha_m + \gamma \rho)`. The intercept is the multiplier
    of the equality, which is exact; the paper uses a penalty instead. For losses with kinks, a
    primal-dual barrier replaces the slack variables of the paper. Kernels enter by a working set; a
    round makes one pass over all kernels.
    """

    aliases = {"spicy": {}}
    several_outputs = True
    requires = GROUP_NORMS, DERIVATIVE_OF_PROX

    def _search(self, problem: Problem, monitor: GapMonitor, start: Start | None) -> Solution:
        return solve_by_working_sets(problem, _Proximal, monitor, start)


class OneStep(Solver):
    r"""One smooth minimisation, for the elastic net (mu > 0), the block q-norm (q > 1), the ridge
    and others.

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i) + \sum_m \psi^*\bigl(\|\rho\|_{K_m}\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    as in section 4.3 of Suzuki and Tomioka (2011), but with an exact equality, a row of the Newton
    system, instead of a penalty of 1e5. Then :math:`\alpha_m = \rho\,
    \psi^{*\prime}(\|\rho\|_{K_m}) / \|\rho\|_{K_m}`. For many kernels, the first round uses a
    sample of them, as in sub-sampled Newton methods (Roosta and Mahoney 2019).
    """

    aliases = {"one-step": {}}
    natural_regularizer = "elastic-net"
    several_outputs = True
    requires = GROUP_NORMS, SMOOTH_DUAL

    def _search(self, problem: Problem, monitor: GapMonitor, start: Start | None) -> Solution:
        return solve_by_working_sets(problem, _Smooth, monitor, start)


# ---- the proximal method -------------------------------------------------------------------------


class _Proximal(Subproblem):
    """Proximal steps with a growing weight."""

    def warm_up(self, model: Expansion) -> None:
        traces = self.problem.kernels.traces(self.which) / self.problem.kernels.n_parts
        scale = (float(traces.mean()) or 1.0) if len(traces) else 1.0
        self.gamma = FIRST_GAMMA / (scale * float(self.problem.loss_weights.mean()))
        if len(model.active):
            indices = np.searchsorted(self.which, model.active)
            self.alphas[indices] = model.coefficients
            self.alpha_products[indices] = self.problem.kernels.products(
                model.coefficients, model.active
            )
            self.alpha_squares = np.einsum("mi,mi->m", self.alphas, self.alpha_products)

    def curve(self) -> Curve:
        r"""Return the Moreau envelope :math:`M` of :math:`(\gamma \psi)^*`."""
        psi, weight = self.problem.regularizer, self.gamma

        def value(norms: np.ndarray) -> float:
            shrunk = psi.prox(norms, weight)
            # n^2/2 - (n - p)^2/2, without the difference of squares
            return float(shrunk @ (norms - 0.5 * shrunk)) - weight * psi.value(shrunk)

        return Curve(
            value,
            lambda norms: psi.prox(norms, weight),
            lambda norms: psi.prox_slope(norms, weight),
            lambda norms: psi.prox_coupling(norms, weight),
        )

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


# ---- the one-step method -------------------------------------------------------------------------


class _Copies(Regularizer):
    r"""Regularizer for c replicated kernels, :math:`c\, \psi(b / c)`."""

    separable = True
    is_sparse = False  # the sample enters as a whole

    def __init__(self, regularizer: Regularizer, copies: float) -> None:
        self.regularizer, self.copies = regularizer, copies

    def value(self, norms: ArrayLike) -> float:
        return self.copies * self.regularizer.value(np.asarray(norms) / self.copies)

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return self.regularizer.slopes(np.asarray(norms) / self.copies)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return self.copies * self.regularizer.conjugate(dual_norms)

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        return self.copies * self.regularizer.conjugate_gradient(dual_norms)

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        return self.copies * self.regularizer.conjugate_curvature(dual_norms)


class _Smooth(Subproblem):
    """The dual without a proximal term; for many kernels, first on a sample.

    Most kernels are active, so the sum over all kernels is close to ten times the sum over every
    tenth.
    """

    #: Loose, because the barrier follows the gap: a small barrier far from the optimum takes many
    #: steps.
    share = 0.2
    #: The whole problem, while ``problem`` is a sample.
    whole: Problem | None = None

    @classmethod
    def begin(
        cls, problem: Problem, start: Start, certificate: Certificate, violating: np.ndarray
    ) -> Self:
        if len(start.model.active) or len(violating) < MANY:
            return super().begin(
                problem, replace(start, rho=certificate.rho), certificate, violating
            )
        # sample both large and small violations
        sample = np.sort(violating[np.linspace(0, len(violating) - 1, SAMPLE).astype(int)])
        copies = replace(problem, regularizer=_Copies(problem.regularizer, len(violating) / SAMPLE))
        sampled = cls(
            copies, sample, certificate.rho, start.model, certificate.primal - certificate.dual
        )
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

    def curve(self) -> Curve:
        r"""Return :math:`\psi^*`, a sum over kernels."""
        psi = self.problem.regularizer
        return Curve(
            psi.conjugate, psi.conjugate_gradient, psi.conjugate_curvature, lambda norms: None
        )
