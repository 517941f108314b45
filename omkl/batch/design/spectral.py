"""Iterative soft thresholding on a design matrix, with fixed and with spectral steps: what the DAL slides compare with.

Both take the same proximal step, certify by the same duality gap over all columns, and stop by the same rule as DAL.
The intercept is eliminated: every model has the best one.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from omkl.batch.core.problem import Certificate
from omkl.batch.core.solver import GapMonitor, Solution
from omkl.batch.design.problem import DesignProblem, DesignSolver, LinearModel, check_start
from omkl.exceptions import InputError

#: Objectives among which SpaRSA compares the next one with the largest.
MEMORY = 5


class IST(DesignSolver):
    r"""Iterative shrinkage/thresholding: a proximal step from :math:`w + A^\top \rho / L`, of a fixed length.

    L starts at the curvature of the loss times the largest squared norm of a group's columns and doubles for good
    whenever the quadratic bound of a step does not hold (Figueiredo and Nowak 2003; Daubechies et al. 2004).
    """

    aliases = {"ist": {}}

    def solve(
        self,
        problem: DesignProblem,
        tol: float = 1e-3,
        max_iter: int | None = None,
        start: Any = None,
        on_iteration: Callable[[dict[str, Any]], Any] | None = None,
    ) -> Solution:
        """See :meth:`DesignSolver.solve` (100,000 iterations)."""
        if problem.loss.has_kink:
            raise InputError(f'{problem.loss!r} has a kink, at which gradient steps fail: choose solver="dal".')
        several = problem.design.n_outputs > 1
        if several or problem.unpenalized is not None or problem.groups.mixed is not None:
            raise InputError(
                "Several outputs, sparse groups, coefficients that are not negative, and groups of weight 0 are solved "
                'for by dal alone: choose solver="dal".'
            )
        if start is not None:
            check_start(start, problem)
        monitor = GapMonitor(tol, (100_000 if max_iter is None else max_iter) + 1, on_iteration)
        search = _Iterates(problem, start)
        least = np.inf
        while True:
            certificate = search.certificate
            if certificate.primal < least or not monitor.history:
                least, best = certificate.primal, (search.model(), certificate)
            if monitor.record(certificate.primal, certificate.dual, np.count_nonzero(certificate.norms)):
                break
            bound = self._first_bound(search)
            while not search.try_step(bound, self._accepts):
                bound *= 2.0
            search.bound = bound
        model, own = best
        # a lower bound holds for every model
        certificate = own if own.dual >= certificate.dual else Certificate(
            own.primal, certificate.dual, own.norms, own.outputs, certificate.rho
        )  # fmt: skip
        converged = certificate.proves(tol)
        return Solution(model, certificate, len(monitor.history) - 1, converged, monitor.history, model)

    def _first_bound(self, search: "_Iterates") -> float:
        return search.bound

    def _accepts(self, search: "_Iterates", trial: "_Trial", bound: float) -> bool:
        """Whether the quadratic bound on the loss holds."""
        change = trial.w - search.w
        linear = search.loss - search.slope @ change
        return trial.loss <= linear + 0.5 * bound * (change @ change) + 1e-12 * abs(search.loss)


class SpaRSA(IST):
    r"""IST with the spectral step of Barzilai and Borwein, and a non-monotone rule (Wright, Nowak, Figueiredo 2009).

    A step is taken when the objective falls below the largest of the last five by :math:`0.005 L \|\Delta w\|^2`.
    """

    aliases = {"sparsa": {}}

    def _first_bound(self, search: "_Iterates") -> float:
        return search.spectral

    def _accepts(self, search: "_Iterates", trial: "_Trial", bound: float) -> bool:
        change = trial.w - search.w
        return trial.primal <= max(search.objectives) - 0.005 * bound * (change @ change) + 1e-12 * abs(
            search.objectives[-1]
        )


class _Trial:
    """A model in the coordinates in which every group has the weight 1: coefficients, predictions, loss, objective."""

    def __init__(self, problem: DesignProblem, scales: np.ndarray, w: np.ndarray):
        self.w = w
        support = np.flatnonzero(w)
        outputs = problem.design.product(support, w[support] * scales[support])
        self.intercept = problem.best_intercept(outputs)
        self.outputs = outputs + self.intercept
        self.norms = problem.groups.norms(w * scales)
        self.loss = problem.weighted_loss.value(self.outputs)
        self.primal = self.loss + problem.penalty * problem.regularizer.value(self.norms)


class _Iterates:
    """The current model with its gradient and certificate, and the curvatures that steps are chosen by."""

    def __init__(self, problem: DesignProblem, start: LinearModel | None):
        self.problem, self.groups = problem, problem.groups
        self.objectives: list[float] = []
        n = problem.design.shape[1]
        self.scales = 1.0 / self._of_groups(np.ones(self.groups.n_groups) if self.groups.weights is None
                                            else self.groups.weights)  # fmt: skip
        self._take(_Trial(problem, self.scales, np.zeros(n) if start is None else start.dense(n) / self.scales))
        steepest = np.argmax(np.abs(self.slope)) if n else 0
        column = problem.design.columns(np.array([steepest])) if n else np.ones((len(problem.y), 1))
        squares = column.multiply(column) if hasattr(column, "multiply") else column**2
        square = float((problem.loss_weights @ squares).sum())
        # where the curvature is not bounded, steps are searched from 1
        curvature = problem.loss.curvature if np.isfinite(problem.loss.curvature) else 1.0
        self.bound = self.spectral = curvature * square * self.scales[steepest] ** 2 or 1.0

    def _of_groups(self, values: np.ndarray) -> np.ndarray:
        """One value a group -> one a column."""
        spread = self.groups.blocks.spread(values)
        if self.groups.order is None:
            return spread
        columns = np.empty_like(spread)
        columns[self.groups.order] = spread
        return columns

    def _take(self, trial: _Trial) -> None:
        """Make a trial the current model."""
        problem = self.problem
        rho = problem.dual_point(trial.outputs)
        correlations = problem.design.correlations(rho)
        dual_norms = self.groups.dual_norms(correlations)
        scale = problem.feasible_scale(dual_norms)
        dual = problem.dual(scale * rho, scale * dual_norms)
        self.certificate = Certificate(trial.primal, dual, trial.norms, trial.outputs, scale * rho)
        self.objectives = [*self.objectives, trial.primal][-MEMORY:]
        self.w, self.loss, self.intercept, self.slope = trial.w, trial.loss, trial.intercept, self.scales * correlations

    def try_step(self, bound: float, accepts: Callable[["_Iterates", _Trial, float], bool]) -> bool:
        """A proximal step with the curvature ``bound``: taken, and True, if it is accepted."""
        problem, groups = self.problem, self.groups
        target = self.w + self.slope / bound
        norms = groups.norms(target * self.scales)
        shrunk = problem.regularizer.prox(norms, problem.penalty / bound)
        ratio = np.divide(shrunk, norms, out=np.zeros_like(norms), where=shrunk > 0)
        trial = _Trial(problem, self.scales, target * self._of_groups(ratio))
        if not accepts(self, trial, bound):
            return False
        before, slope = self.w, self.slope
        self._take(trial)
        moved, turned = self.w - before, slope - self.slope
        length = moved @ moved
        self.spectral = max(moved @ turned / length, 1e-10 * bound) if length > 0 else bound
        return True

    def model(self) -> LinearModel:
        """The current model in the design's own coordinates."""
        active = np.flatnonzero(self.w)
        return LinearModel(active, (self.w * self.scales)[active], float(self.intercept))
