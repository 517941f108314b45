"""Iterative soft thresholding on a design matrix, with fixed and with spectral steps: what the DAL slides compare with.

Both take the same proximal step, certify by the same duality gap over all columns, and stop by the same rule as DAL.
The intercept is eliminated: every model has the best one.
"""

import time

import numpy as np

from omkl.batch.core.problem import Certificate
from omkl.batch.core.solver import Solution
from omkl.batch.design.problem import DesignSolver, LinearModel

#: Objectives among which SpaRSA compares the next one with the largest.
MEMORY = 5


class IST(DesignSolver):
    r"""Iterative shrinkage/thresholding: :math:`w \leftarrow \mathrm{prox}_{C/L}(w + A^\top \rho / L)`, a fixed step.

    L starts at the curvature of the loss times the largest squared norm of a group's columns and doubles for good
    whenever the quadratic bound of a step does not hold (Figueiredo and Nowak 2003; Daubechies et al. 2004).
    """

    aliases = {"ist": {}}

    def solve(self, problem, tol=1e-3, max_iter=None, start=None, on_iteration=None):
        """See :meth:`DesignSolver.solve` (100,000 iterations)."""
        began, history = time.perf_counter(), []
        search = _Iterates(problem, start)
        for iteration in range((100_000 if max_iter is None else max_iter) + 1):
            certificate = search.certificate
            history.append({
                "seconds": time.perf_counter() - began, "primal": certificate.primal, "dual": certificate.dual,
                "gap": certificate.gap, "active": int(np.count_nonzero(certificate.norms)),
            })  # fmt: skip
            asked_to_stop = on_iteration is not None and on_iteration(history[-1])
            if certificate.gap <= tol or asked_to_stop or iteration == max_iter:
                break
            bound = self._first_bound(search)
            while not search.try_step(bound, self._accepts):
                bound *= 2.0
            search.bound = bound
        model = search.model()
        return Solution(model, search.certificate, iteration, certificate.gap <= tol, history, model)

    def _first_bound(self, search):
        return search.bound

    def _accepts(self, search, trial, bound):
        """Whether the quadratic bound on the loss holds."""
        change = trial.w - search.w
        linear = search.loss - search.slope @ change
        return trial.loss <= linear + 0.5 * bound * (change @ change) + 1e-12 * abs(search.loss)


class SpaRSA(IST):
    r"""IST with the spectral step of Barzilai and Borwein, and a non-monotone rule (Wright, Nowak, Figueiredo 2009).

    A step is taken when the objective falls below the largest of the last five by :math:`0.005 L \|\Delta w\|^2`.
    """

    aliases = {"sparsa": {}}

    def _first_bound(self, search):
        return search.spectral

    def _accepts(self, search, trial, bound):
        change = trial.w - search.w
        return trial.primal <= max(search.objectives) - 0.005 * bound * (change @ change) + 1e-12 * abs(
            search.objectives[-1]
        )


class _Trial:
    """A model in the coordinates in which every group has the weight 1: coefficients, predictions, loss, objective."""

    def __init__(self, problem, scales, w):
        self.w = w
        support = np.flatnonzero(w)
        outputs = problem.design.product(support, w[support] * scales[support])
        self.intercept = problem.best_intercept(outputs)
        self.outputs = outputs + self.intercept
        self.norms = problem.groups.norms(w * scales)
        self.loss = float(problem.loss.value(problem.y, self.outputs).sum())
        self.primal = self.loss + problem.C * problem.regularizer.value(self.norms)


class _Iterates:
    """The current model with its gradient and certificate, and the curvatures that steps are chosen by."""

    def __init__(self, problem, start):
        self.problem, self.groups = problem, problem.groups
        self.objectives = []
        n = problem.design.shape[1]
        self.scales = 1.0 / self._of_groups(np.ones(self.groups.n_groups) if self.groups.weights is None
                                            else self.groups.weights)  # fmt: skip
        self._take(_Trial(problem, self.scales, np.zeros(n) if start is None else start.dense(n) / self.scales))
        steepest = np.argmax(np.abs(self.slope)) if n else 0
        column = problem.design.columns(np.array([steepest])) if n else np.ones((1, 1))
        square = float((column.multiply(column) if hasattr(column, "multiply") else column * column).sum())
        self.bound = self.spectral = problem.loss.curvature * square * self.scales[steepest] ** 2 or 1.0

    def _of_groups(self, values):
        """One value a group -> one a column."""
        spread = self.groups.blocks.spread(values)
        if self.groups.order is None:
            return spread
        columns = np.empty_like(spread)
        columns[self.groups.order] = spread
        return columns

    def _take(self, trial):
        """Make a trial the current model."""
        problem = self.problem
        rho = problem.dual_point(trial.outputs)
        correlations = problem.design.correlations(rho)
        dual, scale = problem.dual(rho, self.groups.dual_norms(correlations))
        self.certificate = Certificate(trial.primal, dual, trial.norms, trial.outputs, scale * rho)
        self.objectives = [*self.objectives, trial.primal][-MEMORY:]
        self.w, self.loss, self.intercept, self.slope = trial.w, trial.loss, trial.intercept, self.scales * correlations

    def try_step(self, bound, accepts):
        """A proximal step with the curvature ``bound``: taken, and True, if it is accepted."""
        problem, groups = self.problem, self.groups
        target = self.w + self.slope / bound
        norms = groups.norms(target * self.scales)
        shrunk = problem.regularizer.prox(norms, problem.C / bound)
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

    def model(self):
        """The current model in the design's own coordinates."""
        active = np.flatnonzero(self.w)
        return LinearModel(active, (self.w * self.scales)[active], float(self.intercept))
