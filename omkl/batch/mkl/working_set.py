r"""The loop that dual Newton methods share: solve on few kernels, look at all of them once, take more in.

Kernels outside the working set are zero. One full pass gives :math:`\|\rho\|_{K_m}` for all kernels: it tells which of
them violate optimality, and certifies the model. The method that solves on the working set sees no other kernel.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from omkl.batch.core.problem import Certificate
from omkl.batch.core.solver import GapMonitor, Listener, Solution
from omkl.batch.mkl.linear_system import system_of
from omkl.batch.mkl.newton import BarrierSearch, KernelTerm
from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.mkl.screening import NONE, DualNorms
from omkl.exceptions import InputError

#: Kernels in the first working set, and the least number to add to it; and the same with several outputs, where
#: products with each of them take many times as long as a pass over all kernels.
FIRST, FIRST_OF_PARTS = 60, 8
#: One in so many kernels is looked at before there is a model worth a look at all.
GLANCE = 4
#: Rounds in which kernels that are inactive leave; later ones stay, so that none comes and goes for ever.
LEAVING = 10
#: Newton steps that one call may take.
MOST_STEPS = 150


class Subproblem(BarrierSearch):
    r"""A problem with all kernels zero but those of a working set, at a point of its dual.

    The model at a dual point is :math:`\alpha_m \leftarrow \mathrm{ratio}_m\, (\alpha_m + \gamma \rho)`; how the ratios
    come from the norms is what methods differ in.

    Parameters
    ----------
    problem : Problem
    which : int array of shape (k,)
        The first working set, increasing.
    rho : array of shape (N,)
        Where to start.
    model : Expansion
        What is known of the answer; its active kernels are in the working set.
    gap : float
        The absolute duality gap at the start.
    """

    def __init__(self, problem: Problem, which: np.ndarray, rho: np.ndarray, model: Expansion, gap: float) -> None:
        super().__init__(problem, rho, model.intercept, gap)
        self.which = which
        self.alphas, self.alpha_products = np.zeros((2, len(which), len(rho)))
        self.alpha_squares = np.zeros(len(which))
        self.kernel_products = problem.kernels.products(self.rho, which)
        self.warm_up(model)

    @classmethod
    def begin(cls, problem: Problem, start: Any, certificate: Certificate, violating: np.ndarray) -> Self:
        """The problem on a first working set: the kernels of a model, and of those that violate optimality.

        Parameters
        ----------
        problem : Problem
        start : Start
        certificate : Certificate
            Of the start: its dual point is the best multiple of the start's.
        violating : int array
            Kernels that violate optimality at the start, the worst first.
        """
        which = np.union1d(start.model.active, violating[: _most(problem, _first(problem))])
        return cls(problem, which, start.rho, start.model, certificate.primal - certificate.dual)

    def grow(self, violating: np.ndarray) -> None:
        """Take in kernels of those that violate optimality, which come worst first; inactive ones leave."""
        few, active = max(_first(self.problem), len(self.which)), self.term.ratios > 0
        self.rounds += 1
        if _has_many(self.problem) and self.rounds <= LEAVING:
            self.recentre()
            self.which, self.kernel_products = self.which[active], self.kernel_products[active]
            self.alphas, self.alpha_products = self.alphas[active], self.alpha_products[active]
            self.alpha_squares = self.alpha_squares[active]
        self.add(np.sort(violating[: _most(self.problem, few)]))

    def recentre(self) -> None:
        """Prepare for kernels that violate optimality by far; methods without a proximal term do nothing."""

    def curve(self) -> Any:
        """The function of the norms that the dual has for each kernel."""
        raise NotImplementedError

    def warm_up(self, model: Expansion) -> None:
        """Begin at a model; one that is a function of the dual point needs nothing."""

    #: Weight of the dual point beside the coefficients.
    gamma = 1.0
    #: Whether to begin on any few kernels: they lead to a better dual point than a pass at the constant does.
    begins_blind = False
    #: How often kernels were taken in.
    rounds = 0
    #: Gap that a working set is solved to, as a share of the gap over all kernels.
    share = 0.05

    @property
    def rho(self) -> np.ndarray:
        return self.dual_loss.rho(self.point.x)

    def add(self, kernels: np.ndarray) -> None:
        """Take more kernels into the working set, with coefficients of zero."""
        order = np.argsort(np.concatenate([self.which, kernels]), kind="stable")
        self.which = np.concatenate([self.which, kernels])[order]
        self.kernel_products = np.concatenate([self.kernel_products, self.problem.kernels.products(self.rho, kernels)])[
            order
        ]
        more = np.zeros((len(kernels), self.problem.kernels.n_samples))
        self.alphas = np.concatenate([self.alphas, more])[order]
        self.alpha_products = np.concatenate([self.alpha_products, more])[order]
        self.alpha_squares = np.concatenate([self.alpha_squares, np.zeros(len(kernels))])[order]

    def solve(self, target: float) -> bool:
        """Solve to an absolute duality gap, within the working set; whether that was reached."""
        self.term = self._term()
        return self.minimize(target, MOST_STEPS)

    def model_norms(self) -> np.ndarray:
        return self.term.curve.first(self.term.norms)

    def dual_norms(self) -> np.ndarray:
        r"""Norms of :math:`\rho` in the kernels of the working set, (k,)."""
        return np.sqrt(np.maximum(self.term.kernel_products @ self.term.rho, 0.0))

    def state(self) -> tuple[np.ndarray, np.ndarray]:
        """Norms of all kernels' parts (M,), and predictions (N,), with the best intercept, which is set."""
        problem, term = self.problem, self.term
        outputs = term.gradient()
        self.point.intercept = problem.best_intercept(outputs)
        norms = np.zeros(problem.kernels.n_kernels)
        norms[self.which] = term.curve.first(term.norms)
        return norms, outputs + self.point.intercept

    def model(self) -> Expansion:
        """The model at the present point."""
        active = np.flatnonzero(self.term.ratios > 0)
        coefficients = self.term.ratios[active, None] * (self.alphas[active] + self.gamma * self.rho)
        return Expansion(self.which[active], coefficients, self.point.intercept)

    def _term(self):
        return KernelTerm(
            self.problem.kernels,
            self.which,
            self.curve(),
            self.rho,
            self.kernel_products,
            self.alpha_products,
            self.alpha_squares,
            self.gamma,
        )


def _evenly(n_kernels: int) -> np.ndarray:
    """All kernels in an order in which the first few are spread evenly over all, in step with no period of theirs."""
    return np.argsort(np.arange(n_kernels) * 0.5 * (np.sqrt(5.0) - 1.0) % 1.0, kind="stable")


def _has_many(problem):
    """Whether passes over all kernels cost so much that it pays to think of which are needed."""
    return problem.kernels.n_parts == 1 and problem.kernels.n_kernels > FIRST


def _first(problem):
    return FIRST if problem.kernels.n_parts == 1 else FIRST_OF_PARTS


def _most(problem, few):
    """So many kernels at once, but all of them where the regularizer makes none zero."""
    return few if problem.regularizer.is_sparse else problem.kernels.n_kernels


#: Part of the gap that is asked for to which a working set is solved: kernels outside of it may add to it.
ENOUGH = 0.6
#: Relative gap below which double precision tells nothing.
FINEST = 1e-15
#: Relative distance of dual points that are one but for rounding.
ROUNDING = 1e-12
#: Rounds after which a solver gives up unless told otherwise; and rounds in a row that take in no kernel and leave, all
#: of them together, more than such a part of the gap: what moves then is rounding.
MOST_ROUNDS, IDLE_ROUNDS, IDLE = 100, 3, 0.5


@dataclass
class Start:
    """A warm start: a model and a dual point of a problem with the same kernels and samples."""

    model: Expansion
    rho: np.ndarray


def solve_by_working_sets(
    problem: Problem,
    method: type[Subproblem],
    tol: float,
    max_iter: int | None = None,
    start: Start | None = None,
    on_iteration: Listener | None = None,
) -> Solution:
    """Solve a problem by a method for its restriction to some kernels.

    Parameters
    ----------
    problem : Problem
    method : type
        A :class:`~omkl.batch.mkl.working_set.Subproblem`.
    tol, max_iter, start, on_iteration
        As for :meth:`~omkl.batch.Solver.solve`.
    """
    if problem.regularizer.on_coordinates:
        raise InputError(
            f"{problem.regularizer!r} penalizes single coordinates, which functions of a kernel have none of: choose a "
            'regularizer of norms, such as "block1".'
        )
    # the start is a record, too
    monitor = GapMonitor(tol, (MOST_ROUNDS if max_iter is None else max_iter) + 1, on_iteration)
    search, subproblem, stalled = _Search(problem, monitor), None, False
    blind = start is None and method.begins_blind and _has_many(problem)
    if start is None:
        constant, rho = problem.best_constant()
        start = Start(Expansion(np.arange(0), np.zeros((0, len(rho))), constant), rho)
    over = search.begin(start, blind)
    while not over and not stalled:
        if subproblem is None:
            violating = _evenly(problem.kernels.n_kernels) if blind else search.by_violation(start.model.active)
            subproblem = method.begin(problem, start, search.certificate, violating)
            if blind:
                search.glance(subproblem)
        else:
            subproblem.grow(search.by_violation(subproblem.which))
        steps = subproblem.newton_steps
        if not subproblem.solve(search.target(subproblem.share)) and subproblem.newton_steps == steps:
            stalled = True
            break
        norms, outputs = subproblem.state()
        over = search.certify(subproblem.rho, subproblem.model(), norms, outputs, subproblem)
        stalled = search.idle_rounds >= IDLE_ROUNDS
    certificate = search.recomputed()
    history, proven = monitor.history, certificate.proves(tol)
    # rounding it is, too, where the model by itself has not the gap that it had in the search
    stalled = not proven and (stalled or history[-1]["gap"] <= tol)
    start = Start(search.model, certificate.rho)
    return Solution(search.model, certificate, len(history) - 1, proven, history, start, stalled)


class _Search:
    """The best model and the best dual point on the way, and the certificate of the latest model."""

    def __init__(self, problem: Problem, monitor: GapMonitor):
        self.problem, self.monitor = problem, monitor
        self.certificate: Certificate = None  # type: ignore[assignment]  # until the start is certified
        self.model: Expansion = None  # type: ignore[assignment]
        self._least, self._left, self._norms_of = np.inf, np.inf, DualNorms(problem)
        self.idle_rounds, self._gap_before, self._looked_at = 0, np.inf, NONE

    def target(self, share: float) -> float:
        """The absolute gap worth reaching on the working set: a share of what is left, or a part of what is asked."""
        certificate = self.certificate
        wanted = max(self.monitor.tol, FINEST) * max(certificate.dual, 1e-3 * abs(certificate.primal))
        return max(ENOUGH * wanted, share * self._left)

    def begin(self, start: Start, blind: bool) -> bool:
        """Certify a start; ``blind``, with no look at the kernels, by the dual point 0, which is always feasible."""
        problem, model = self.problem, start.model
        norms, outputs = problem.evaluate(model)
        if not blind:
            return self.certify(start.rho, model, norms, outputs)
        rho = np.zeros_like(start.rho)
        self.model, self.dual_norms = model, np.zeros_like(norms)
        self.certificate = Certificate(
            problem.primal(outputs, norms), problem.dual(rho, self.dual_norms), norms, outputs, rho
        )
        self._least = self.certificate.primal
        return self._record(model, None)

    def glance(self, subproblem: Subproblem) -> None:
        """Solve roughly, and take in kernels by a look at few of them: of most problems that finds what matters."""
        problem, kernels = self.problem, self.problem.kernels
        among = np.setdiff1d(_evenly(kernels.n_kernels)[: kernels.n_kernels // GLANCE], subproblem.which)
        if not len(among) or not subproblem.solve(self.target(subproblem.share)):
            return
        self.dual_norms[subproblem.which] = subproblem.dual_norms()
        self.dual_norms[among] = self._norms_of.look(subproblem.rho, among)
        violating = self.by_violation(subproblem.which)
        if len(violating):
            self._left = subproblem.primal - _best_multiple(problem, subproblem.rho, self.dual_norms)[0]
            subproblem.grow(violating)

    def certify(
        self, rho: np.ndarray, model: Expansion, norms: np.ndarray, outputs: np.ndarray,
        subproblem: Subproblem | None = None,
    ) -> bool:  # fmt: skip
        """One full pass, or less: certify a model, given with its norms and predictions; whether it is the last."""
        problem, best = self.problem, self.certificate
        given, rho = rho, problem.inside(rho)
        gap = np.inf if best is None else best.gap
        if subproblem is None or np.linalg.norm(rho - given) > ROUNDING * np.linalg.norm(rho):
            self.dual_norms = self._norms_of(rho, gap)
        else:
            self.dual_norms = self._norms_of(rho, gap, subproblem.which, subproblem.dual_norms())
        dual, rho = _best_multiple(problem, rho, self.dual_norms)
        if best is not None and best.dual > dual:
            # a lower bound holds for every model
            dual, rho = best.dual, best.rho
        self.certificate = Certificate(problem.primal(outputs, norms), dual, norms, outputs, rho)
        if self.certificate.primal < self._least:
            self._least, self.model = self.certificate.primal, model
        self._count_idle_rounds(NONE if subproblem is None else subproblem.which)
        return self._record(model, subproblem)

    def _count_idle_rounds(self, which: np.ndarray) -> None:
        """How many rounds in a row have been for nothing; ``which`` is the working set."""
        gap, taken_in = self._least - self.certificate.dual, np.setdiff1d(which, self._looked_at)
        if len(taken_in) or 0.0 < gap <= IDLE * self._gap_before:
            self.idle_rounds, self._gap_before = 0, gap
        else:
            self.idle_rounds += 1
        self._looked_at = which

    def _record(self, model: Expansion, subproblem: Subproblem | None) -> bool:
        # the absolute gap, as far as it is known
        self._left = self.certificate.primal - self.certificate.dual
        return self.monitor.record(
            self.certificate.primal,
            self.certificate.dual,
            len(model.active),
            working_set=0 if subproblem is None else len(subproblem.which),
            full_passes=self._norms_of.passes,
            newton_steps=0 if subproblem is None else subproblem.newton_steps,
            proximal_steps=0 if subproblem is None else subproblem.proximal_steps,
            system=system_of(self.problem.kernels),
        )

    def recomputed(self) -> Certificate:
        """The certificate of the best model: norms and predictions from its coefficients."""
        norms, outputs = self.problem.evaluate(self.model)
        best = self.certificate
        return Certificate(self.problem.primal(outputs, norms), best.dual, norms, outputs, best.rho)

    def by_violation(self, which: np.ndarray) -> np.ndarray:
        r"""Kernels outside ``which`` that violate optimality, the worst first.

        At the optimum the norms b are :math:`\mathrm{prox}_\psi(b + \|\rho\|_K)`: a kernel that is zero shall stay so.
        All of them violate this under a regularizer without a threshold.
        """
        regularizer = self.problem.regularizer
        violations = regularizer.prox(self.certificate.norms + self.dual_norms, 1.0)
        violations[which] = 0.0
        if not regularizer.separable and violations.any():
            # all share one threshold, which those that enter change: the next in line come along
            violations = np.where(np.isin(np.arange(len(violations)), which), 0.0, self.dual_norms)
        order = np.argsort(-violations, kind="stable")
        return order[violations[order] > 0]


def _best_multiple(problem: Problem, rho: np.ndarray, dual_norms: np.ndarray) -> tuple[float, np.ndarray]:
    """The dual at a multiple of a point, and the multiple: the largest feasible one, halved as long as that helps."""
    scale = problem.feasible_scale(dual_norms)
    dual = problem.dual(scale * rho, scale * dual_norms)
    while (less := problem.dual(0.5 * scale * rho, 0.5 * scale * dual_norms)) > dual:
        dual, scale = less, 0.5 * scale
    return dual, scale * rho
