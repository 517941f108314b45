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

from omkl.batch.mkl.newton import Curve, KernelTerm, WorkingKernels, system_of
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

#: Number of kernels of the first working set, and least number to add later.
FIRST = 60
#: The same for several outputs, whose products take longer.
FIRST_OF_PARTS = 8
#: Rounds in which inactive kernels leave the working set; later they stay, which prevents cycles.
LEAVING = 10
#: Maximum number of Newton steps on one working set.
MOST_STEPS = 150
#: Share of the tolerance to which a working set is solved: kernels outside add to the gap.
ENOUGH = 0.6
#: Smallest relative gap in double precision.
FINEST = 1e-15
#: A round is idle if it adds no kernel and leaves more than this share of the gap.
IDLE = 0.5
#: The search stalls after this many idle rounds in a row.
IDLE_ROUNDS = 3
#: Indices of no kernels.
NO_KERNELS = np.arange(0)


@dataclass
class Start:
    """A warm start: a model and a dual point of a problem with the same kernels and samples."""

    model: Expansion
    rho: np.ndarray


class Subproblem(BarrierSearch):
    r"""A problem restricted to a working set of kernels, at a dual point.

    The model at a dual point is :math:`\alpha_m \leftarrow \mathrm{ratio}_m\, (\alpha_m + \gamma
    \rho)`, with the :math:`\alpha_m` of the ``working_set``. Methods differ in the ratios as
    functions of the norms.

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
        self.rounds = 0
        self.working_set = self._without_coefficients(which)
        self.warm_up(model)

    def _without_coefficients(self, which: np.ndarray) -> WorkingKernels:
        """Return a working set of kernels with coefficients of zero."""
        zeros = np.zeros((len(which), self.problem.kernels.n_samples))
        return WorkingKernels(
            which=which,
            products=self.problem.kernels.products(self.rho, which),
            alphas=zeros,
            alpha_products=zeros.copy(),
            alpha_squares=np.zeros(len(which)),
        )

    @classmethod
    def begin(
        cls, problem: Problem, start: Start, certificate: Certificate, violating: np.ndarray
    ) -> Self:
        """Begin with the kernels of a model, and some violating kernels, given worst first.

        The dual point of the certificate is the best multiple of the dual point of the start.
        """
        which = np.union1d(start.model.active, violating[: _most_entrants(problem)])
        return cls(problem, which, start.rho, start.model, certificate.primal - certificate.dual)

    @abstractmethod
    def curve(self) -> Curve:
        """Return the function of the norms in the dual."""

    def warm_up(self, model: Expansion) -> None:
        """Begin at a model; do nothing if the model is a function of the dual point."""

    def recentre(self) -> None:
        """Move the centre of the proximal term before kernels enter, if there is such a term."""

    @property
    def rho(self) -> np.ndarray:
        """The dual point, (N,)."""
        return self.dual_loss.rho(self.x)

    def grow(self, violating: np.ndarray) -> None:
        """Add kernels that violate optimality, given worst first; drop inactive ones."""
        kernels = self.problem.kernels
        n_entrants = _most_entrants(self.problem, len(self.working_set.which))
        self.rounds += 1
        # passes over few kernels are cheap
        if kernels.n_parts == 1 and kernels.n_kernels > FIRST and self.rounds <= LEAVING:
            is_active = self.term.ratios > 0
            self.recentre()
            self.working_set = WorkingKernels(*(values[is_active] for values in self.working_set))
        self.add(np.sort(violating[:n_entrants]))

    def add(self, added: np.ndarray) -> None:
        """Add kernels, given in increasing order, with coefficients of zero."""
        order = np.argsort(np.concatenate([self.working_set.which, added]), kind="stable")
        pairs = zip(self.working_set, self._without_coefficients(added))
        self.working_set = WorkingKernels(*(np.concatenate(pair)[order] for pair in pairs))

    def reset_term(self) -> None:
        """Create the term of the present working set and centre."""
        self.term = KernelTerm(
            kernels=self.problem.kernels,
            working_set=self.working_set,
            curve=self.curve(),
            rho=self.rho,
            gamma=self.gamma,
        )

    def model_norms(self) -> np.ndarray:
        return self.term.curve.first(self.term.norms)

    def dual_norms(self) -> np.ndarray:
        r"""Return the norms of :math:`\rho` in the kernels of the working set, (k,)."""
        return np.sqrt(np.maximum(self.working_set.products @ self.term.rho, 0.0))

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Set the best intercept; return the norms (M,) of all kernels and the predictions (N,)."""
        outputs = self.term.gradient()
        self.intercept = self.problem.best_intercept(outputs)
        norms = np.zeros(self.problem.kernels.n_kernels)
        norms[self.working_set.which] = self.model_norms()
        return norms, outputs + self.intercept

    def model(self) -> Expansion:
        """Return the model at the present point."""
        active = np.flatnonzero(self.term.ratios > 0)
        moved = self.working_set.alphas[active] + self.gamma * self.rho
        coefficients = self.term.ratios[active, None] * moved
        return Expansion(self.working_set.which[active], coefficients, self.intercept)


def _most_entrants(problem: Problem, n_present: int = 0) -> int:
    """Return the maximum number of kernels to add; all, if the regularizer is not sparse."""
    if not problem.regularizer.is_sparse:
        return problem.kernels.n_kernels
    return max(FIRST if problem.kernels.n_parts == 1 else FIRST_OF_PARTS, n_present)


def solve_by_working_sets(
    problem: Problem, method: type[Subproblem], monitor: GapMonitor, start: Start | None
) -> Solution:
    """Solve a problem by a working-set method, given as a class of subproblems."""
    if start is None:
        constant, rho = problem.best_constant()
        start = Start(Expansion(NO_KERNELS, np.zeros((0, len(rho))), constant), rho)
    search = _Search(problem, monitor, start)
    stalled = False
    subproblem: Subproblem | None = None
    while not search.over and not stalled:
        if subproblem is None:
            violating = search.by_violation(start.model.active)
            subproblem = method.begin(problem, start, search.certificate, violating)
        else:
            subproblem.grow(search.by_violation(subproblem.working_set.which))
        subproblem.reset_term()
        subproblem.minimize(search.target(subproblem.share), MOST_STEPS)
        search.certify_subproblem(subproblem)
        stalled = search.idle_rounds >= IDLE_ROUNDS
    norms, outputs = problem.evaluate(search.model)
    primal = problem.primal(outputs, norms)
    certificate = replace(search.certificate, primal=primal, norms=norms, outputs=outputs)
    # by rounding, the recomputed gap may exceed the gap of the search
    stalled = stalled or monitor.history[-1]["gap"] <= monitor.tol
    return monitor.solution(
        model=search.model,
        certificate=certificate,
        start=Start(search.model, certificate.rho),
        stalled=stalled and not certificate.proves(monitor.tol),
    )


class _Search:
    """The best model and the best dual point so far, and the certificate of the latest model.

    Attributes
    ----------
    certificate : Certificate
        Of the latest model, with the best dual point.
    dual_norms : array of shape (M,)
        Norms of the latest dual point in all kernels.
    passes, idle_rounds : int
    model : Expansion
        The best model.
    over : bool
    """

    def __init__(self, problem: Problem, monitor: GapMonitor, start: Start) -> None:
        self.problem = problem
        self.monitor = monitor
        self.passes = 0
        self.idle_rounds = 0
        #: Gaps of the best and of the latest model after the last round that was not idle.
        self._gaps_before = np.full(2, np.inf)
        self._last_working_set = NO_KERNELS
        norms, outputs = problem.evaluate(start.model)
        self.certificate = self._certify(norms, outputs, start.rho)
        self.model = start.model
        self._least = self.certificate.primal
        self.over = self._record(start.model)

    def target(self, share: float) -> float:
        """Return the absolute gap to reach on the working set, for a ``share`` of the gap."""
        certificate = self.certificate
        unit = max(certificate.dual, 1e-3 * abs(certificate.primal))
        tolerated_gap = max(self.monitor.tol, FINEST) * unit
        return max(ENOUGH * tolerated_gap, share * (certificate.primal - certificate.dual))

    def certify_subproblem(self, subproblem: Subproblem) -> None:
        """Certify the model of a subproblem by a pass over all kernels; set whether to end."""
        best_dual = self.certificate.dual
        best_rho = self.certificate.rho
        norms, outputs = subproblem.state()
        # the subproblem's norms lose digits in its steps, if entries of kernels are large
        self.certificate = self._certify(norms, outputs, subproblem.rho)
        if best_dual > self.certificate.dual:
            # lower bounds hold for every model
            self.certificate = replace(self.certificate, dual=best_dual, rho=best_rho)
        model = subproblem.model()
        if self.certificate.primal < self._least:
            self._least = self.certificate.primal
            self.model = model
        # a round is idle if no kernel entered; from a start near the optimum, the first models may
        # be worse than it
        best_gap = self._least - self.certificate.dual
        latest_gap = self.certificate.primal - self.certificate.dual
        gaps = np.array([best_gap, latest_gap])
        is_halved = best_gap > 0.0 and (gaps <= IDLE * self._gaps_before).any()
        which = subproblem.working_set.which
        if len(np.setdiff1d(which, self._last_working_set)) or is_halved:
            self.idle_rounds = 0
            self._gaps_before = gaps
        else:
            self.idle_rounds += 1
        self._last_working_set = which
        self.over = self._record(model, subproblem.newton_steps, subproblem.proximal_steps)

    def _certify(self, norms: np.ndarray, outputs: np.ndarray, rho: np.ndarray) -> Certificate:
        """Return the certificate of a model with norms (M,) and predictions (N,) at a dual point.

        Set the norms of the dual point, after it was moved inside the domain of the loss.
        """
        rho = self.problem.inside(rho)
        self.dual_norms = self.problem.dual_norms(rho)
        self.passes += 1
        dual, rho = _best_multiple(self.problem, rho, self.dual_norms)
        return Certificate(
            primal=self.problem.primal(outputs, norms),
            dual=dual,
            norms=norms,
            outputs=outputs,
            rho=rho,
        )

    def _record(self, model: Expansion, newton_steps: int = 0, proximal_steps: int = 0) -> bool:
        """Record a model and the search so far; return whether the search should end."""
        return self.monitor.record(
            primal=self.certificate.primal,
            dual=self.certificate.dual,
            active=len(model.active),
            working_set=len(self._last_working_set),
            full_passes=self.passes,
            newton_steps=newton_steps,
            proximal_steps=proximal_steps,
            system=system_of(self.problem.kernels),
        )

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
    """Return the best dual value of multiples of a point, and the multiple.

    Begin with the largest feasible multiple, and halve it while that helps.
    """
    dual, scale = problem.scaled_dual(rho, dual_norms)
    while True:
        half = 0.5 * scale
        dual_of_half = problem.dual(half * rho, half * dual_norms)
        if not dual_of_half > dual:
            return dual, scale * rho
        dual = dual_of_half
        scale = half


#: First weight of the proximal term, times the mean trace of the kernels and the mean weight of the
#: losses.
FIRST_GAMMA = 1e4
#: Growth of this weight from step to step.
GROWTH = 4.0
#: Number of violating kernels from which the one-step method first solves for a sample.
MANY = 1000
#: Size of this sample.
SAMPLE = 150
#: Gap to which the sample is solved, as a share of the initial gap.
SAMPLE_SHARE = 0.003
#: Weight of the barrier when all kernels replace the sample, as a share of the gap divided by the
#: number of bounds.
WIDENED = 0.03


class Spicy(Solver[Problem, Start]):
    r"""SpicyMKL for any pointwise loss and a sum over kernels, or the square of one ("mkl").

    Each proximal step minimises the objective plus :math:`\sum_m \|f_m - f_m^{(t)}\|^2 / (2
    \gamma)`, through its dual (Eq. 25 of Suzuki and Tomioka 2011), whose Hessian needs only the
    active kernels:

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i)
              + \frac1\gamma M\bigl(\|\alpha_1 + \gamma \rho\|_{K_1}, \ldots\bigr)
              \quad \text{subject to} \quad \sum_i \rho_i = 0

    with :math:`M` the Moreau envelope of :math:`(\gamma \psi)^*`, followed by
    :math:`\alpha_m \leftarrow \mathrm{prox}_{\gamma \psi}(\alpha_m + \gamma \rho)`. The intercept
    is the multiplier of the equality, which is exact; the paper uses a penalty instead. For losses
    with kinks, a primal-dual barrier replaces the slack variables of the paper. Kernels enter by a
    working set; a round makes one pass over all kernels.
    """

    aliases = {"spicy": {}}
    several_outputs = True
    requires = GROUP_NORMS, DERIVATIVE_OF_PROX

    def _search(self, problem: Problem, monitor: GapMonitor, start: Start | None) -> Solution:
        return solve_by_working_sets(problem, _Proximal, monitor, start)


class OneStep(Solver[Problem, Start]):
    r"""One smooth minimisation, for regularizers with a smooth dual.

    These are the elastic net (mu > 0), the block q-norm (q > 1), the ridge and others.

    .. math:: \min_\rho\ \sum_i c_i\, l^*(y_i, -\rho_i / c_i)
              + \sum_m \psi^*\bigl(\|\rho\|_{K_m}\bigr)
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
        kernels = self.problem.kernels
        which, _, alphas, alpha_products, alpha_squares = self.working_set
        traces = kernels.traces(which) / kernels.n_parts
        mean_trace = float(traces.mean()) if len(traces) else 1.0
        scale = mean_trace or 1.0
        self.gamma = FIRST_GAMMA / (scale * float(self.problem.loss_weights.mean()))
        if len(model.active):
            indices = np.searchsorted(which, model.active)
            alphas[indices] = model.coefficients
            alpha_products[indices] = kernels.products(model.coefficients, model.active)
            alpha_squares[:] = np.einsum("mi,mi->m", alphas, alpha_products)

    def curve(self) -> Curve:
        r"""Return the Moreau envelope :math:`M` of :math:`(\gamma \psi)^*`."""
        psi = self.problem.regularizer
        gamma = self.gamma

        def value(norms: np.ndarray) -> float:
            norms_after = psi.prox(norms, gamma)
            # n^2/2 - (n - p)^2/2 = p (n - p/2), which loses no digits
            squares = float(norms_after @ (norms - 0.5 * norms_after))
            return squares - gamma * psi.value(norms_after)

        return Curve(
            value=value,
            first=lambda norms: psi.prox(norms, gamma),
            second=lambda norms: psi.prox_slope(norms, gamma),
            coupling=lambda norms: psi.prox_coupling(norms, gamma),
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
        r"""Move the centre to the model: :math:`\alpha_m \gets r_m (\alpha_m + \gamma \rho)`."""
        term = self.term
        ratios = term.ratios[:, None]
        self.working_set = self.working_set._replace(
            alphas=ratios * (self.working_set.alphas + self.gamma * term.rho),
            alpha_products=ratios * term.point_products,
            alpha_squares=self.curve().first(term.norms) ** 2,
        )


# ---- the one-step method -------------------------------------------------------------------------


class _Copies(Regularizer):
    r"""Regularizer for c replicated kernels, :math:`c\, \psi(b / c)`."""

    separable = True
    is_sparse = False  # the sample enters as a whole

    def __init__(self, regularizer: Regularizer, copies: float) -> None:
        self.regularizer = regularizer
        self.copies = copies

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
    #: The problem of all kernels, while ``problem`` is that of a sample.
    full_problem: Problem | None = None

    @classmethod
    def begin(
        cls, problem: Problem, start: Start, certificate: Certificate, violating: np.ndarray
    ) -> Self:
        start = replace(start, rho=certificate.rho)
        if len(start.model.active) or len(violating) < MANY:
            return super().begin(problem, start, certificate, violating)
        # sample both large and small violations
        ranks = np.linspace(0, len(violating) - 1, SAMPLE).astype(int)
        sample = np.sort(violating[ranks])
        regularizer = _Copies(problem.regularizer, len(violating) / SAMPLE)
        gap = certificate.primal - certificate.dual
        sample_problem = replace(problem, regularizer=regularizer)
        subproblem = cls(sample_problem, sample, start.rho, start.model, gap)
        subproblem.full_problem = problem
        subproblem.share = SAMPLE_SHARE
        return subproblem

    def grow(self, violating: np.ndarray) -> None:
        if self.full_problem is None:
            super().grow(violating)
            return
        self.problem = self.full_problem
        self.full_problem = None
        self.share = 0.0
        self.add(np.sort(violating))
        self.reset_term()
        gap, _ = self.gaps()
        self.barrier = max(self.barrier, self.barrier_at(gap, WIDENED))

    def curve(self) -> Curve:
        r"""Return :math:`\psi^*`, a sum over kernels."""
        psi = self.problem.regularizer
        return Curve(
            value=psi.conjugate,
            first=psi.conjugate_gradient,
            second=psi.conjugate_curvature,
            coupling=lambda norms: None,
        )
