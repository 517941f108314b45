r"""The loop of the dual Newton methods: solve on a working set of kernels, then check all kernels.

Kernels outside the working set are zero. One pass computes :math:`\|\rho\|_{K_m}` for all kernels. This certifies the
model, and shows which kernels violate optimality.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np

from omkl.batch.mkl.newton import Curve, KernelTerm, system_of
from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.newton import BarrierSearch
from omkl.batch.problem import Certificate
from omkl.batch.solver import GapMonitor, Solution
from omkl.exceptions import InputError

#: Kernels of the first working set, and the fewest to add; for several outputs, whose products take longer.
FIRST, FIRST_OF_PARTS = 60, 8
#: Rounds in which inactive kernels leave the working set; later they stay, which prevents cycles.
LEAVING = 10
#: Maximum number of Newton steps on one working set.
MOST_STEPS = 150
#: Share of the tolerance to which a working set is solved: kernels outside add to the gap.
ENOUGH = 0.6
#: Smallest relative gap in double precision.
FINEST = 1e-15
#: Relative distance of dual points that differ by rounding only.
ROUNDING = 1e-12
#: The search stalls after this many rounds in a row that add no kernel and leave more than this share of the gap.
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

    The model at a dual point is :math:`\alpha_m \leftarrow \mathrm{ratio}_m\, (\alpha_m + \gamma \rho)`. Methods differ
    in the ratios as functions of the norms.

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

    def __init__(self, problem: Problem, which: np.ndarray, rho: np.ndarray, model: Expansion, gap: float) -> None:
        super().__init__(problem, rho, model.intercept, gap)
        self.which, self.rounds = which, 0
        self.alphas, self.alpha_products = np.zeros((2, len(which), len(rho)))
        self.alpha_squares = np.zeros(len(which))
        self.kernel_products = problem.kernels.products(self.rho, which)
        self.warm_up(model)

    @classmethod
    def begin(cls, problem: Problem, start: Start, certificate: Certificate, violating: np.ndarray) -> Self:
        """Begin with the kernels of a model and some of the violating kernels, given worst first.

        The dual point of the certificate is the best multiple of the dual point of the start.
        """
        which = np.union1d(start.model.active, violating[: _most(problem, _first(problem))])
        return cls(problem, which, start.rho, start.model, certificate.primal - certificate.dual)

    @abstractmethod
    def curve(self) -> Curve:
        """Return the function of the norms in the dual."""

    def warm_up(self, model: Expansion) -> None:
        """Begin at a model; do nothing if the model is a function of the dual point."""

    def recentre(self) -> None:
        """Move the centre of the proximal term before kernels enter; methods without such a term do nothing."""

    @property
    def rho(self) -> np.ndarray:
        """The dual point, (N,)."""
        return self.dual_loss.rho(self.x)

    def grow(self, violating: np.ndarray) -> None:
        """Add kernels that violate optimality, given worst first; drop inactive ones."""
        kernels = self.problem.kernels
        few, active = max(_first(self.problem), len(self.which)), self.term.ratios > 0
        self.rounds += 1
        # passes over few kernels are cheap
        if kernels.n_parts == 1 and kernels.n_kernels > FIRST and self.rounds <= LEAVING:
            self.recentre()
            self.which, self.kernel_products = self.which[active], self.kernel_products[active]
            self.alphas, self.alpha_products = self.alphas[active], self.alpha_products[active]
            self.alpha_squares = self.alpha_squares[active]
        self.add(np.sort(violating[: _most(self.problem, few)]))

    def add(self, added: np.ndarray) -> None:
        """Add kernels, given in increasing order, with coefficients of zero."""
        order = np.argsort(np.concatenate([self.which, added]), kind="stable")

        def joined(own: np.ndarray, new: np.ndarray) -> np.ndarray:
            return np.concatenate([own, new])[order]

        zeros = np.zeros((len(added), self.problem.kernels.n_samples))
        self.which = joined(self.which, added)
        self.kernel_products = joined(self.kernel_products, self.problem.kernels.products(self.rho, added))
        self.alphas, self.alpha_products = joined(self.alphas, zeros), joined(self.alpha_products, zeros)
        self.alpha_squares = joined(self.alpha_squares, np.zeros(len(added)))

    def reset_term(self) -> None:
        """Create the term of the present working set and centre."""
        kernels, centre = self.problem.kernels, (self.alpha_products, self.alpha_squares)
        self.term: KernelTerm = KernelTerm(
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
        coefficients = self.term.ratios[active, None] * (self.alphas[active] + self.gamma * self.rho)
        return Expansion(self.which[active], coefficients, self.intercept)


def _first(problem: Problem) -> int:
    """Return the number of kernels of the first working set."""
    return FIRST if problem.kernels.n_parts == 1 else FIRST_OF_PARTS


def _most(problem: Problem, few: int) -> int:
    """Return the maximum number of kernels to add at once: all if the regularizer is not sparse."""
    return few if problem.regularizer.is_sparse else problem.kernels.n_kernels


def solve_by_working_sets(
    problem: Problem, method: type[Subproblem], monitor: GapMonitor, start: Start | None
) -> Solution:
    """Solve a problem by a working-set method, given as a class of subproblems."""
    if problem.regularizer.on_coordinates:
        raise InputError(
            "The regularizer must be a function of group norms, such as 'block1': "
            f"{problem.regularizer!r} penalizes single coordinates."
        )
    if start is None:
        constant, rho = problem.best_constant()
        start = Start(Expansion(NONE, np.zeros((0, len(rho))), constant), rho)
    search, stalled = _Search(problem, monitor, start), False
    over = search.over
    subproblem: Subproblem | None = None
    while not over and not stalled:
        if subproblem is None:
            violating = search.by_violation(start.model.active)
            subproblem = method.begin(problem, start, search.certificate, violating)
        else:
            subproblem.grow(search.by_violation(subproblem.which))
        steps = subproblem.newton_steps
        if not subproblem.solve(search.target(subproblem.share)) and subproblem.newton_steps == steps:
            stalled = True
            break
        over = search.look_at(subproblem)
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
        self.passes, self.idle_rounds, self._gaps_before, self._looked_at = 0.0, 0, np.full(2, np.inf), NONE
        norms, outputs = problem.evaluate(start.model)
        rho = problem.inside(start.rho)
        self.dual_norms = self._norms_of(rho)
        dual, rho = _best_multiple(problem, rho, self.dual_norms)
        self.certificate = Certificate(problem.primal(outputs, norms), dual, norms, outputs, rho)
        self.model, self._least = start.model, self.certificate.primal
        self.over = self._record(start.model, None)

    def target(self, share: float) -> float:
        """Return the absolute gap to reach on the working set: a share of the remaining gap, or of the tolerance."""
        certificate = self.certificate
        wanted = max(self.monitor.tol, FINEST) * max(certificate.dual, 1e-3 * abs(certificate.primal))
        return max(ENOUGH * wanted, share * (certificate.primal - certificate.dual))

    def look_at(self, subproblem: Subproblem) -> bool:
        """Certify the model of a subproblem by a pass over the other kernels; return whether the search ends."""
        problem, best = self.problem, self.certificate
        norms, outputs = subproblem.state()
        given = subproblem.rho
        rho = problem.inside(given)
        if np.linalg.norm(rho - given) > ROUNDING * np.linalg.norm(rho):
            self.dual_norms = self._norms_of(rho)
        else:
            self.dual_norms = self._norms_of(rho, subproblem.which, subproblem.dual_norms())
        dual, rho = _best_multiple(problem, rho, self.dual_norms)
        if best.dual > dual:
            # lower bounds hold for every model
            dual, rho = best.dual, best.rho
        self.certificate, model = (
            Certificate(problem.primal(outputs, norms), dual, norms, outputs, rho),
            subproblem.model(),
        )
        if self.certificate.primal < self._least:
            self._least, self.model = self.certificate.primal, model
        self._count_idle_rounds(subproblem.which)
        return self._record(model, subproblem)

    def _norms_of(self, rho: np.ndarray, which: np.ndarray = NONE, known: np.ndarray = NONE) -> np.ndarray:
        """Return the norms of a dual point in all kernels (M,); the norms of the kernels ``which`` are ``known``."""
        norms = np.empty(self.problem.kernels.n_kernels)
        norms[which] = known
        others = np.setdiff1d(np.arange(len(norms)), which)
        self.passes += len(others) / len(norms)
        norms[others] = np.sqrt(self.problem.kernels.quadratics(rho, others))
        return norms

    def _count_idle_rounds(self, which: np.ndarray) -> None:
        """Count the rounds in a row without progress; ``which`` is the working set."""
        # from a start near the optimum, the first models may be worse than the start
        gaps = np.array([self._least, self.certificate.primal]) - self.certificate.dual
        halved = gaps[0] > 0.0 and (gaps <= IDLE * self._gaps_before).any()
        if len(np.setdiff1d(which, self._looked_at)) or halved:
            self.idle_rounds, self._gaps_before = 0, gaps
        else:
            self.idle_rounds += 1
        self._looked_at = which

    def _record(self, model: Expansion, subproblem: Subproblem | None) -> bool:
        return self.monitor.record(
            self.certificate.primal,
            self.certificate.dual,
            len(model.active),
            working_set=0 if subproblem is None else len(subproblem.which),
            full_passes=self.passes,
            newton_steps=0 if subproblem is None else subproblem.newton_steps,
            proximal_steps=0 if subproblem is None else subproblem.proximal_steps,
            system=system_of(self.problem.kernels),
        )

    def by_violation(self, which: np.ndarray) -> np.ndarray:
        r"""Return kernels outside ``which`` that violate optimality, worst first.

        At the optimum the norms b are :math:`\mathrm{prox}_\psi(b + \|\rho\|_K)`. Under a regularizer without a
        threshold all kernels outside violate this.
        """
        regularizer = self.problem.regularizer
        violations = regularizer.prox(self.certificate.norms + self.dual_norms, 1.0)
        violations[which] = 0.0
        if not regularizer.separable and violations.any():
            # entering kernels change the threshold of all kernels, so others may enter, too
            violations = np.where(np.isin(np.arange(len(violations)), which), 0.0, self.dual_norms)
        order = np.argsort(-violations, kind="stable")
        return order[violations[order] > 0]


def _best_multiple(problem: Problem, rho: np.ndarray, dual_norms: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the dual value at the largest feasible multiple of a point, halved while that helps, and that point."""
    dual, scale = problem.scaled_dual(rho, dual_norms)
    while (less := problem.dual(0.5 * scale * rho, 0.5 * scale * dual_norms)) > dual:
        dual, scale = less, 0.5 * scale
    return dual, scale * rho
