r"""The problem on a working set of kernels: Newton steps on its dual, and what they say about the primal."""

from typing import Any, Self

import numpy as np

from omkl.batch.core.problem import Certificate
from omkl.batch.mkl.dual_loss import DualLoss
from omkl.batch.mkl.newton import KernelTerm, interior_start, newton_step
from omkl.batch.mkl.problem import Expansion, Problem

#: Kernels in the first working set, and the least number to add to it.
FIRST = 60
#: Newton steps that one call may take.
MOST_STEPS = 150
#: What is left of the barrier, as a part of the gap that is left divided by the number of bounds.
BARRIER_SHARE = 0.1


class Subproblem:
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
        self.problem, self.which = problem, which
        self.dual_loss = DualLoss(problem.weighted_loss)
        self.barrier = BARRIER_SHARE * gap / max(self.dual_loss.n_barred, 1)
        self.point = interior_start(self.dual_loss, rho, self.barrier, problem.intercept)
        self.point.intercept = model.intercept
        self.newton_steps = self.proximal_steps = 0
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
        which = np.union1d(start.model.active, violating[: _most(problem, FIRST)])
        return cls(problem, which, start.rho, start.model, certificate.primal - certificate.dual)

    def grow(self, violating: np.ndarray) -> None:
        """Take in kernels of those that violate optimality, which come worst first."""
        self.add(np.sort(violating[: _most(self.problem, max(FIRST, len(self.which)))]))

    def curve(self) -> Any:
        """The function of the norms that the dual has for each kernel."""
        raise NotImplementedError

    def warm_up(self, model: Expansion) -> None:
        """Begin at a model; one that is a function of the dual point needs nothing."""

    def proximal_step(self) -> None:
        """Move the centre of the proximal term to the current model; methods without such a term do nothing."""

    #: Weight of the dual point beside the coefficients.
    gamma = 1.0
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
        fresh, stalled = True, False
        for _ in range(MOST_STEPS):
            gap, loss_gap = self._gaps()
            if gap <= target:
                return True
            rest = gap - loss_gap
            barriers = 2.0 * self.barrier * self.dual_loss.n_barred
            if stalled or (not fresh and loss_gap <= max(rest, 0.5 * target) + barriers):
                if stalled and barriers <= 0.1 * target and not self.gamma < np.inf:
                    break
                self._tighten(gap, rest, target)
            fresh = stalled
            step = newton_step(self.term, self.dual_loss, self.point, self.barrier, self.problem.intercept)
            self.newton_steps += 1
            if step == 0.0 and stalled:
                break
            stalled = step == 0.0
        return False

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

    def _gaps(self):
        """The duality gap on the working set, and its part that is the loss's: 0 once the inner problem is solved."""
        problem, term = self.problem, self.term
        norms = term.curve.first(term.norms)
        outputs = term.gradient() + self.point.intercept
        losses = problem.weighted_loss.values(outputs)
        conjugates = problem.weighted_loss.conjugates(term.rho)
        loss_gap = float((losses + conjugates + term.rho * outputs).sum())
        dual_norms = self.dual_norms()
        scale = problem.feasible_scale(dual_norms)
        primal = float(losses.sum()) + problem.regularizer.value(norms)
        return primal - problem.dual(scale * term.rho, scale * dual_norms), loss_gap

    def _tighten(self, gap, rest, target):
        """Lower the barrier, and take a proximal step if ``rest``, the part of the gap that is due to it, is large."""
        if self.dual_loss.n_barred:
            self.barrier = min(self.barrier, BARRIER_SHARE * max(gap, target) / self.dual_loss.n_barred)
        if rest > 0.3 * target:
            self.proximal_step()
            self.proximal_steps += 1


def _most(problem, few):
    """So many kernels at once, but all of them where the regularizer makes none zero."""
    return few if problem.regularizer.is_sparse else problem.kernels.n_kernels
