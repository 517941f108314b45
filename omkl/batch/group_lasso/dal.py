r"""DAL on a design matrix: proximal minimisation through the dual, on a working set of columns.

The dual augmented Lagrangian method of Tomioka, Suzuki and Sugiyama, which SpicyMKL generalises to kernels. Each outer
iteration computes :math:`A^\top \rho`, over all columns or those that may matter. It certifies the model, and adds
columns that violate the dual constraints to the working set. There sweeps of coordinate descent find most of the
support for less than a Newton step costs. Where they are slow, as with large supports or losses that are far from
quadratic, proximal steps minimised by Newton's method in the dual take over, with systems as small as the support.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from omkl.batch.group_lasso.newton import ProximalNewton
from omkl.batch.group_lasso.problem import DesignProblem, LinearModel
from omkl.batch.group_lasso.screening import DesignNorms
from omkl.batch.group_lasso.sweeps import Sweeps
from omkl.batch.group_lasso.warm_starts import DALStart, Iterate, Waypoint, padded, usable
from omkl.batch.group_lasso.working_set import WorkingSet
from omkl.batch.problem import Certificate, relative_gap
from omkl.batch.solver import DesignSolver, GapMonitor, Solution
from omkl.exceptions import InputError

#: Most groups of the first working set, and most columns; later as many groups may enter as are active, or the last.
FIRST_GROUPS, FIRST_COLUMNS, FEWEST_ENTRANTS = 128, 1024, 64
#: While groups outside violate the constraints by far, a larger alpha is solved for: this share of the worst.
CONTINUATION = 0.2
#: Gaps that working sets are solved to. ROUGH: while alpha is larger than asked for. FINE, SHARE: shares of the
#: tolerance and of the gap. ALMOST: share of the tolerance for quadratic losses with all groups on the working set.
#: ALMOST, ALONE: shares of these for sweeps over inner products, on a path and for one problem.
ROUGH, FINE, SHARE, ALMOST, ALONE = 0.2, 0.3, 0.3, 0.9, 0.1
#: Most rounds of sweeps that may be left, halvings of a round that the quadratic model has misled, and rounds without a
#: smaller gap before they are given up where there are no Newton steps.
MOST_ROUNDS, HALVINGS, MOST_WAITED = 8, 10, 10
#: Relative rounding of a sum over the samples.
ROUNDING = 1e-15
#: Sweeps over a working set that its inner products are worth, for one problem and on a path.
WORTH_ALONE, WORTH_ON_PATH = 4.0, 30.0
#: Newton steps that a working set is expected to need.
NEWTON_NEEDED = 5
#: Most Newton steps on one working set. The search stalls after so many certificates whose gap is not smaller by this
#: share; earlier (the last number) where there are only sweeps.
NEWTON_STEPS, SMALLER, MOST_STALLED, MOST_REPEATED = 200, 0.01, 10, 3


class DAL(DesignSolver):
    r"""Dual augmented Lagrangian method for any loss, and any regularizer that is a sum over groups.

    Parameters
    ----------
    gamma : float > 0
        First proximal weight :math:`\gamma`, in units of m over the mean squared norm of the columns.
    growth : float > 1
        Factor by which it grows from one proximal step to the next.

    Notes
    -----
    Sweeps go before Newton steps where the loss has no kink and the regularizer is linear or quadratic in each norm.
    Newton systems have the size of the active columns or of the samples, whichever is smaller. They are solved by
    Cholesky factors, beyond 5000 by conjugate gradients. A working set of k columns takes 8 m k bytes; no other is
    copied. A regularizer without a threshold, such as the ridge, takes a working set of all columns.
    """

    aliases = {"dal": {}}

    def __init__(self, gamma: float = 1e3, growth: float = 10.0) -> None:
        if not 0 < gamma < np.inf or not 1 < growth < np.inf:
            raise InputError(f"gamma must be > 0 and growth > 1, both finite, got {gamma!r} and {growth!r}.")
        self.gamma = gamma
        self.growth = growth

    def check(self, problem: DesignProblem) -> None:
        if not problem.regularizer.separable or not problem.regularizer.differentiable_prox:
            raise InputError(
                "The solver 'dal' needs a regularizer that is a sum over groups, got "
                f"{problem.regularizer!r}; 'sparsa' takes others."
            )

    def _search(self, problem: DesignProblem, monitor: GapMonitor, start: Any) -> Solution:
        return _Search(self, problem, usable(start, problem)).run(monitor)


class _Search:
    """One solve: working set, coefficients, the alpha that is solved for, and the best certificates."""

    def __init__(self, solver: DAL, problem: DesignProblem, start: DALStart):
        self.solver, self.problem = solver, problem
        self.working_set = WorkingSet(problem) if start.working_set is None else start.working_set
        self.w = np.zeros(len(self.working_set.columns))
        self.alpha = np.inf
        self.newton_steps = 0
        self.norms = DesignNorms(problem) if start.norms is None else start.norms.of(problem)
        self.best: Any = None
        self.found: Any = None
        if start.trail:
            self.w = padded(start.trail[-1].iterate.w, len(self.w))
        elif start.model is not None:
            self._restore(start.model)
        self.start = start

    def _restore(self, model: LinearModel) -> None:
        """Set the coefficients to those of a model."""
        groups = self.problem.groups
        missing = np.setdiff1d(groups.of_columns(model.active), np.concatenate([self.working_set.groups, groups.free]))
        if len(missing):
            self.working_set.extend(missing)
        full = model.dense(self.problem.design.shape[1])
        self.w = self.working_set.scaled(full[self.working_set.columns])

    def run(self, monitor: GapMonitor) -> Solution:
        """Search until the gap is reached or nothing is gained."""
        stalled, least_gap, tol = 0, np.inf, monitor.tol
        most_stalled = MOST_STALLED if self.problem.takes_newton_steps else MOST_REPEATED
        iterate = self._begin()
        # where no other groups are expected, reach the gap on the working set before a look at them
        grows, goes_on = False, self.start.is_settled and iterate.gap > tol and monitor.max_iter > 1
        if goes_on:
            self.alpha = self.problem.alpha
            monitor.max_iter -= 1
            iterate = self._solve_working_set(FINE * tol, iterate)
        while True:
            certificate, dual_norms, own_gap = self._certify(iterate)
            gap = certificate.gap
            over = monitor.record(
                certificate.primal,
                certificate.dual,
                np.count_nonzero(certificate.norms),
                working_set=len(self.working_set.groups),
                passes=self.norms.passes,
                newton_steps=self.newton_steps,
            )
            stalled = 0 if gap < (1.0 - SMALLER) * least_gap else stalled + 1
            least_gap = min(gap, least_gap)
            if over or stalled > most_stalled:
                break
            others = self._enlarge(dual_norms)
            grows |= others
            # where no group enters, the rest of the gap is the working set's own
            fine = max(FINE * tol, min(SHARE * own_gap, ROUGH)) if others else FINE * SHARE * min(tol, own_gap)
            if self._knows_all and self.problem.loss.is_quadratic:
                fine = ALMOST * tol
            tol_here = ROUGH if self.alpha > self.problem.alpha else fine
            iterate = self._solve_working_set(tol_here, self._on_larger(iterate, dual_norms))
        # lower bounds hold for every model
        certificate = replace(self.found, dual=self.best.dual, rho=self.best.rho)
        return Solution(
            self.model,
            certificate,
            len(monitor.history) - 1 + goes_on,
            certificate.proves(tol),
            monitor.history,
            DALStart(
                self.model,
                self.working_set,
                self.norms,
                (*self.start.trail, Waypoint(self.problem.alpha, self.found_iterate))[-2:],
                len(self.working_set.groups) > 0 and not grows,
            ),
        )

    @property
    def _knows_all(self) -> bool:
        """True if all groups are on the working set."""
        return len(self.working_set.groups) == self.problem.groups.n_groups

    def _certify(self, iterate: Iterate) -> tuple[Certificate, np.ndarray, float]:
        """Return the best certificate of the model, the dual norms of all groups, and the gap of its own dual point."""
        problem, working_set, rho = self.problem, self.working_set, iterate.rho
        norms = np.zeros(problem.groups.n_groups)
        norms[working_set.groups] = iterate.norms
        primal = problem.primal(iterate.outputs, norms)
        # those of the working set are in double precision, whatever that of the design
        dual_norms = self.norms.at(rho, working_set.groups, iterate.dual_norms)
        dual, scale = problem.scaled_dual(rho, dual_norms)
        if self.best is None or dual > self.best.dual:
            self.best = Certificate(primal, dual, norms, iterate.outputs, scale * rho)
        certificate = Certificate(primal, self.best.dual, norms, iterate.outputs, self.best.rho)
        if self.found is None or primal < self.found.primal:
            self.found, self.found_iterate = certificate, iterate
            self.model = working_set.model(iterate.w, iterate.b)
        return certificate, dual_norms, relative_gap(primal, dual)

    def _enlarge(self, dual_norms: np.ndarray) -> bool:
        """Add the groups that violate their constraints most, and choose the next alpha.

        Return whether other groups are likely to follow: after the first model, those that were not added.
        """
        problem, working_set = self.problem, self.working_set
        most: int
        # without a threshold every group is in the model
        outside = dual_norms / problem.threshold if problem.threshold > 0 else np.full(len(dual_norms), np.inf)
        outside[working_set.groups] = 0.0
        outside[problem.groups.free] = 0.0
        if problem.threshold == 0:
            most = len(outside)
            entrants = np.flatnonzero(outside)
        elif len(working_set.groups):
            most = max(FEWEST_ENTRANTS, int(np.count_nonzero(working_set.blocks.norms(self.w))))
            entrants = np.flatnonzero(outside > problem.alpha)
        else:
            most = min(FIRST_GROUPS, int(np.ceil(FIRST_COLUMNS / problem.groups.blocks.sizes.mean())))
            # others follow on a path
            entrants = np.flatnonzero(outside > (0.0 if self.start.trail else problem.alpha))
        others = len(entrants) > (most if not len(working_set.groups) else 0)
        # the worst come first: once they have moved, others need not
        entrants = entrants[np.argsort(-outside[entrants], kind="stable")][:most]
        if len(entrants):
            working_set.extend(entrants)
            self.w = padded(self.w, len(working_set.columns))
            outside[entrants] = 0.0
        self.alpha = max(problem.alpha, min(self.alpha, CONTINUATION * outside.max(initial=0.0)))
        return others

    @property
    def _current(self) -> DesignProblem:
        """The problem at the present alpha."""
        return self.problem if self.alpha == self.problem.alpha else self.problem.at(self.alpha)

    def _solve_working_set(self, tol: float, iterate: Iterate) -> Iterate:
        """Solve on the working set, to a relative gap over its columns: sweeps, then Newton steps if these are slow."""
        problem = self._current
        if len(self.working_set.groups):
            if not problem.loss.has_kink and problem.regularizer.elastic is not None:
                iterate = self._sweep(problem, tol, iterate)
            if iterate.gap > tol and problem.takes_newton_steps:
                iterate = self._step_by_newton(problem, tol, iterate)
        return iterate

    def _begin(self) -> Iterate:
        """Return the model that the path predicts, if it is better than the last one; else the last one."""
        last, predicted = self.w, self.start.predict(self.problem.alpha, self.working_set)
        if predicted is not None:
            self.w, before = predicted, self.start.trail[-1].iterate
            iterate = self._iterate(self.problem)
            if iterate.primal < self.problem.primal(before.outputs, before.norms):
                return iterate
            self.w = last
        return self._iterate(self.problem)

    def _on_larger(self, last: Iterate, dual_norms: np.ndarray) -> Iterate:
        """Return the same model and dual point on the larger working set, at the present alpha."""
        problem, dual_norms = self._current, dual_norms[self.working_set.groups]
        norms = padded(last.norms, len(dual_norms))
        primal = problem.primal(last.outputs, norms)
        gap = relative_gap(primal, problem.scaled_dual(last.rho, dual_norms)[0])
        return replace(last, w=self.w, norms=norms, dual_norms=dual_norms, primal=primal, gap=gap)

    def _iterate(self, problem: DesignProblem, rho: np.ndarray | None = None) -> Iterate:
        """Return the model on the working set, at the best intercept, with its own dual point or a better one given."""
        working_set = self.working_set
        outputs = working_set.outputs(self.w)
        b = problem.best_intercept(outputs)
        outputs += b
        norms = working_set.norms(self.w)
        primal = problem.primal(outputs, norms)
        points = [problem.dual_point(outputs)] if rho is None else [problem.dual_point(outputs), problem.inside(rho)]
        if not np.isfinite(problem.loss.curvature) and not self.w.any():
            points.append(problem.best_constant()[1])
        best: Any = None
        for point, found in zip(points, working_set.correlations(np.array(points))):
            dual_norms = working_set.dual_norms(found)
            dual, _ = problem.scaled_dual(point, dual_norms)
            if best is None or dual > best[0]:
                best = dual, point, dual_norms, found
        dual, point, dual_norms, found = best
        gap, own = relative_gap(primal, dual), point is points[0]
        return Iterate(self.w, b, outputs, point, norms, dual_norms, found, primal, gap, own)

    def _sweep(self, problem: DesignProblem, tol: float, iterate: Iterate) -> Iterate:
        """Take rounds of coordinate descent, as long as they promise the gap soon."""
        worth, closely = (WORTH_ON_PATH, ALMOST) if self.start.trail else (WORTH_ALONE, ALONE)
        sweeps, iterates, made = Sweeps(problem, self.working_set, worth), [iterate], [0]
        while iterates[-1].gap > tol and not (
            self._slow(iterates, made, tol, sweeps.price(self.w))
            if problem.takes_newton_steps
            else self._stuck(iterates)
        ):
            last = iterates[-1]
            self.w = sweeps.round(
                last.w, last.outputs, last.correlations if last.own else None, closely * tol * abs(last.primal)
            )
            # where few losses are curved, a round may overflow, and is halved
            with np.errstate(over="ignore", invalid="ignore"):
                iterate = self._iterate(problem, sweeps.extrapolated)
            for halved in range(HALVINGS + 1):
                if self._descends(iterate, last) or halved == HALVINGS:
                    break
                self.w = 0.5 * (self.w + last.w)
                with np.errstate(over="ignore", invalid="ignore"):
                    iterate = self._iterate(problem)
            sweeps.learn(halved)
            if not self._descends(iterate, last):
                self.w, iterate = last.w, last
            iterates.append(iterate)
            made.append(sweeps.sweeps)
        return iterates[-1]

    @staticmethod
    def _descends(iterate: Iterate, last: Iterate) -> bool:
        """Return whether a round has led down; near the rounding of the primal the gap decides."""
        rounding = ROUNDING * abs(last.primal) if iterate.gap < last.gap else 0.0
        return bool(iterate.primal <= last.primal + rounding)

    def _slow(self, iterates: list[Iterate], made: list[int], tol: float, price: float) -> bool:
        """Return whether sweeps will reach ``tol`` later than Newton steps, at the rate of the last three rounds.

        ``made`` are the sweeps up to each iterate, and ``price`` is the number that takes the time of a Newton step.
        """
        if len(iterates) < 4:
            return False
        gaps = np.minimum.accumulate([iterate.gap for iterate in iterates])
        rate = np.log(gaps[-1] / gaps[-4]) / 3.0
        rounds = np.log(tol / gaps[-1]) / rate if rate < 0 else np.inf
        per_round = (made[-1] - made[-4]) / 3.0
        return rounds > MOST_ROUNDS and rounds * per_round > NEWTON_NEEDED * price

    def _stuck(self, iterates: list[Iterate]) -> bool:
        """Return whether the last rounds have gained nothing."""
        gaps = [iterate.gap for iterate in iterates]
        return len(gaps) > MOST_WAITED and min(gaps[-MOST_WAITED:]) >= min(gaps[:-MOST_WAITED])

    def _step_by_newton(self, problem: DesignProblem, tol: float, iterate: Iterate) -> Iterate:
        """Take proximal steps, each minimised by Newton's method in the dual; return the better of start and end."""
        working_set, target = self.working_set, tol * abs(iterate.primal)
        # the loss is a mean
        gamma = self.solver.gamma * len(iterate.rho) / working_set.mean_square
        search = ProximalNewton(
            problem,
            working_set,
            iterate.w,
            iterate.b,
            iterate.rho,
            iterate.gap * abs(iterate.primal),
            gamma,
            self.solver.growth,
        )
        search.solve(target, NEWTON_STEPS)
        self.newton_steps += search.newton_steps
        self.w = search.w
        found = self._iterate(problem, search.rho)
        if found.primal > iterate.primal:
            self.w = iterate.w
            found = self._iterate(problem, search.rho)
        return found
