r"""DAL on a design matrix: proximal minimisation through the dual, on a working set of columns.

This is the dual augmented Lagrangian method of Tomioka, Suzuki and Sugiyama, which SpicyMKL
generalises to kernels. Each outer iteration computes :math:`A^\top \rho` over all relevant columns.
It certifies the model, and adds columns that violate the dual constraints to the working set. On
the working set, sweeps of coordinate descent find most of the support at less than the cost of a
Newton step. If they are slow (large supports, or losses far from quadratic), proximal steps take
over. These are minimised by Newton's method in the dual, with systems as small as the support.
"""

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from omkl._components import check_number
from omkl.batch.group_lasso.newton import ProximalNewton
from omkl.batch.group_lasso.problem import DesignNorms, DesignProblem, LinearModel, check_start
from omkl.batch.group_lasso.sweeps import Sweeps
from omkl.batch.group_lasso.working_set import Iterate, WorkingSet
from omkl.batch.problem import Certificate, relative_gap
from omkl.batch.solver import DesignSolver, GapMonitor, Requirement, Solution

#: Limits of groups and columns in the first working set. Later, at most max(active groups, the last
#: number) may enter.
FIRST_GROUPS, FIRST_COLUMNS, FEWEST_ENTRANTS = 128, 1024, 64
#: While groups outside violate the constraints by far, solve for a larger alpha: this share of the
#: largest violation.
CONTINUATION = 0.2
#: Gaps at which the solution of a working set ends. ROUGH: while alpha is larger than requested.
#: FINE, SHARE: shares of the tolerance and of the gap. ALMOST: share of the tolerance for quadratic
#: losses with all groups in the working set. ALMOST, ALONE: shares of these for sweeps over inner
#: products, on a path and for one problem.
ROUGH, FINE, SHARE, ALMOST, ALONE = 0.2, 0.3, 0.3, 0.9, 0.1
#: Guessed dual norms are sufficient while the gap exceeds this multiple of the tolerance.
GUESSED = 3.0
#: Maximum number of halvings of a round whose quadratic model was poor, and of rounds without a
#: smaller gap; and the share of the gap above which three rounds count as slow, if Newton steps in
#: the dual are possible.
HALVINGS, MOST_WAITED, SLOW = 10, 10, 0.1
#: Relative rounding of a sum over the samples.
ROUNDING = 1e-15
#: Compute inner products of a working set if they cost at most this many sweeps: for one problem,
#: on a path.
WORTH_ALONE, WORTH_ON_PATH = 4.0, 30.0
#: Maximum number of Newton steps on one working set. The search stalls after this many certificates
#: whose gap is not smaller by this share; the last number applies if there are only sweeps.
NEWTON_STEPS, SMALLER, MOST_STALLED, MOST_REPEATED = 200, 0.01, 10, 3
#: Predictions, intercept and correlations of coefficients.
Known: TypeAlias = tuple[np.ndarray, np.ndarray, np.ndarray]
#: Longest extrapolation, as a multiple of the distance between the last two solutions.
FARTHEST = 2.0
SUM_OVER_GROUPS = Requirement(
    "a regularizer that is a sum over groups ('sparsa' accepts others)",
    lambda problem: problem.regularizer.separable,
)
ELASTIC_OR_ONE_OUTPUT = Requirement(
    "for several outputs a regularizer that is linear or quadratic in each norm ('sparsa' accepts others)",
    lambda problem: problem.n_outputs == 1 or problem.regularizer.elastic is not None,
)


@dataclass
class DALStart:
    """A warm start of :class:`~omkl.batch.DAL`.

    Attributes
    ----------
    model : LinearModel or None
    working_set, norms : WorkingSet, DesignNorms or None
        Caches of the same design and groups.
    trail : tuple of (float, Iterate)
        Alpha and model of the last two solutions of a path, each on its working set.
    is_settled : bool
        Whether the last solution needed no new groups.
    """

    model: LinearModel | None
    working_set: WorkingSet | None = None
    norms: DesignNorms | None = None
    trail: tuple[tuple[float, Iterate], ...] = ()
    is_settled: bool = False

    def predict(
        self, problem: DesignProblem, working_set: WorkingSet
    ) -> tuple[np.ndarray, Known | None] | None:
        """Extrapolate the coefficients linearly from the last two solutions; return None if there
        are fewer than two.

        Between changes of the support the lasso's solutions are linear in alpha. No group enters,
        or changes its sign. For the squared loss predictions and correlations are linear as well;
        return these, too, if they are known.
        """
        if len(self.trail) < 2 or self.trail[0][0] == self.trail[1][0]:
            return None
        (alpha_0, before), (alpha_1, last) = self.trail
        blocks = working_set.blocks
        reach = min((problem.alpha - alpha_1) / (alpha_1 - alpha_0), FARTHEST)
        w_0, w_1 = (padded(point.w, blocks.bounds[-1]) for point in (before, last))
        straight = w_1 + reach * (w_1 - w_0)
        w = np.where(blocks.spread(blocks.sums(straight * w_1)) > 0, straight, 0.0)
        w = np.maximum(w, 0.0) if working_set.gauge.positive else w
        sizes = {len(w), len(before.correlations), len(last.correlations)}
        products, weights = (
            working_set.products,
            problem.weighted_loss.weights[: len(last.rho) // problem.n_outputs],
        )
        sizes.add(products.known(weights) * problem.n_outputs)
        if not problem.loss.is_quadratic or not (before.own and last.own) or len(sizes) > 1:
            return w, None
        ends = (
            (before.outputs, last.outputs),
            (before.b, last.b),
            (before.correlations, last.correlations),
        )
        outputs, b, correlations = (np.asarray(end + reach * (end - start)) for start, end in ends)
        moved = w - straight
        if moved.any():
            outputs += working_set.outputs(moved)
            correlations -= products.times(moved.reshape(-1, problem.n_outputs)).ravel()
        return w, (outputs, b, correlations[None])


def padded(w: np.ndarray, size: int) -> np.ndarray:
    """Return coefficients padded with zeros for a working set that has grown."""
    return np.concatenate([w, np.zeros(size - len(w))])


class DAL(DesignSolver):
    r"""Dual augmented Lagrangian method for any loss, and any regularizer that is a sum over
    groups.

    Parameters
    ----------
    gamma : float > 0
        First proximal weight :math:`\gamma`, in units of m over the mean squared norm of the
        columns.
    growth : float > 1
        Factor of :math:`\gamma` from one proximal step to the next.

    Notes
    -----
    Sweeps precede Newton steps if the loss has no kink and the regularizer is linear or quadratic
    in each norm. Newton systems have the size of the active columns or of the samples, whichever is
    smaller. They are solved by Cholesky factors. A working set of k columns takes 8 m k bytes;
    other columns are not copied. A regularizer without a threshold, such as the ridge, needs a
    working set of all columns.
    """

    aliases = {"dal": {}}
    requires = SUM_OVER_GROUPS, ELASTIC_OR_ONE_OUTPUT

    def __init__(self, gamma: float = 1e3, growth: float = 10.0) -> None:
        check_number("gamma", gamma, above=0)
        check_number("growth", growth, above=1)
        self.gamma = gamma
        self.growth = growth

    def _search(
        self, problem: DesignProblem, monitor: GapMonitor, start: DALStart | LinearModel | None
    ) -> Solution:
        start = start if isinstance(start, DALStart) else DALStart(start)
        if start.model is not None:
            check_start(start.model, problem)
        # keep only the model if the design, groups or intercept differ
        is_same = start.working_set is not None and start.working_set.is_of(problem)
        return _Search(self, problem, start if is_same else DALStart(start.model)).run(monitor)


class _Search:
    """One solve: working set, current model, the present alpha, and the best certificates."""

    def __init__(self, solver: DAL, problem: DesignProblem, start: DALStart):
        self.solver, self.problem, self.start = solver, problem, start
        self.working_set = WorkingSet(problem) if start.working_set is None else start.working_set
        self.norms = DesignNorms(problem) if start.norms is None else start.norms.of(problem)
        self.alpha, self.newton_steps = np.inf, 0
        self.best: Certificate | None = None
        self.found: tuple[Certificate, Iterate] | None = None

    def _begin(self, tol: float) -> Iterate:
        """Return the better of the last model and its extrapolation along the path."""
        problem, start, size = self.problem, self.start, len(self.working_set.columns)
        if not start.trail:
            if start.model is None:
                return self._iterate(problem, np.zeros(0))
            # add the groups of the model to the working set
            groups, working_set = problem.groups, self.working_set
            present = np.concatenate([working_set.groups, groups.free])
            if len(missing := np.setdiff1d(groups.of_columns(start.model.active), present)):
                working_set.extend(missing)
            w = start.model.dense(problem.design.shape[1])[working_set.columns]
            return self._iterate(problem, working_set.scaled(w))
        last, predicted = start.trail[-1][1], start.predict(problem, self.working_set)
        if predicted is not None:
            iterate = self._iterate(problem, predicted[0], known=predicted[1])
            if iterate.primal < problem.primal(last.outputs, last.norms):
                # an extrapolated dual point cannot certify a gap
                return self._iterate(problem, predicted[0]) if iterate.gap <= 2.0 * tol else iterate
        return self._iterate(problem, padded(last.w, size))

    def run(self, monitor: GapMonitor) -> Solution:
        """Search until the gap is reached or stalls."""
        problem, tol, stalled, least_gap = self.problem, monitor.tol, 0, np.inf
        self.iterate = self._begin(tol)
        most_stalled = MOST_STALLED if problem.takes_newton_steps else MOST_REPEATED
        # if no new groups are expected, solve on the working set before a pass over all groups
        grows, goes_on = (
            False,
            self.start.is_settled and self.iterate.gap > tol and monitor.max_iter > 1,
        )
        if goes_on:
            self.alpha = problem.alpha
            monitor.max_iter -= 1
            self._solve_working_set(FINE * tol)
        while True:
            certificate, dual_norms, own_gap, is_sure = self._certify(tol)
            gap = certificate.gap
            active, size = np.count_nonzero(certificate.norms), len(self.working_set.groups)
            facts = {
                "working_set": size,
                "passes": self.norms.passes,
                "newton_steps": self.newton_steps,
            }
            over = monitor.record(certificate.primal, certificate.dual, active, **facts)
            stalled = 0 if gap < (1.0 - SMALLER) * least_gap else stalled + is_sure
            least_gap = min(gap, least_gap)
            if over or stalled > most_stalled:
                break
            others = self._enlarge(dual_norms)
            grows |= others
            # if no group enters, the remaining gap is due to the working set
            fine = (
                max(FINE * tol, min(SHARE * own_gap, ROUGH))
                if others
                else FINE * SHARE * min(tol, own_gap)
            )
            if (
                len(self.working_set.groups) == problem.groups.n_groups
                and problem.loss.is_quadratic
            ):
                fine = ALMOST * tol
            self._solve_working_set(ROUGH if self.alpha > problem.alpha else fine)
        assert self.found is not None
        assert self.best is not None
        (certificate, iterate), working_set = self.found, self.working_set
        model = working_set.model(padded(iterate.w, len(working_set.columns)), iterate.b)
        # with the best dual point, since lower bounds hold for every model
        certificate = replace(certificate, dual=self.best.dual, rho=self.best.rho)
        n_iter = len(monitor.history) - 1 + goes_on
        trail, is_settled = (
            (*self.start.trail, (self.problem.alpha, iterate))[-2:],
            len(working_set.groups) > 0,
        )
        start = DALStart(model, working_set, self.norms, trail, is_settled and not grows)
        return Solution(
            model, certificate, n_iter, certificate.proves(monitor.tol), monitor.history, start
        )

    def _certify(self, tol: float) -> tuple[Certificate, np.ndarray, float, bool]:
        """Return the best certificate of the model, the dual norms of all groups, and the gap of
        its own dual point.

        The last value is True if the norms are exact or bounds. Guesses are sufficient while they
        show a large gap.
        """
        problem, working_set, iterate = self.problem, self.working_set, self.iterate
        norms, rho = np.zeros(problem.groups.n_groups), iterate.rho
        norms[working_set.groups] = iterate.norms
        primal = problem.primal(iterate.outputs, norms)
        # dual norms on the working set are in double precision for any precision of the design
        known, next_alpha = (
            (working_set.groups, iterate.dual_norms),
            max(problem.alpha, CONTINUATION * self.alpha),
        )
        dual_norms = None if self.best is None else self.norms.likely(rho, next_alpha, *known)
        is_sure = (
            dual_norms is None
            or relative_gap(primal, problem.scaled_dual(rho, dual_norms)[0]) <= GUESSED * tol
        )
        if dual_norms is None or is_sure:
            dual_norms = self.norms.at(rho, *known)
        dual, scale = problem.scaled_dual(rho, dual_norms)
        if is_sure and (self.best is None or dual > self.best.dual):
            self.best = Certificate(primal, dual, norms, iterate.outputs, scale * rho)
        certificate = Certificate(primal, self.best.dual, norms, iterate.outputs, self.best.rho)
        if self.found is None or primal < self.found[0].primal:
            self.found = certificate, iterate
        return certificate, dual_norms, relative_gap(primal, dual), is_sure

    def _enlarge(self, dual_norms: np.ndarray) -> bool:
        """Add the groups that violate their constraints most, and choose the next alpha.

        Return whether more groups are likely to follow. After the first model: whether groups were
        left out.
        """
        problem, working_set = self.problem, self.working_set
        # without a threshold every group is in the model
        outside = (
            dual_norms / problem.threshold
            if problem.threshold > 0
            else np.full(len(dual_norms), np.inf)
        )
        outside[np.concatenate([working_set.groups, problem.groups.free])] = 0.0
        is_first, least = not len(working_set.groups), problem.alpha
        most = max(FEWEST_ENTRANTS, int(np.count_nonzero(self.iterate.norms)))
        if is_first:
            most = min(
                FIRST_GROUPS, int(np.ceil(FIRST_COLUMNS / problem.groups.blocks.sizes.mean()))
            )
            # on a path others follow
            least = 0.0 if self.start.trail else problem.alpha
        if problem.threshold == 0:
            most = len(outside)
        entrants = np.flatnonzero(outside > least)
        others = len(entrants) > (most if is_first else 0)
        # add the worst first: other violations may vanish once these groups change
        entrants = entrants[np.argsort(-outside[entrants], kind="stable")][:most]
        if len(entrants):
            working_set.extend(entrants)
            outside[entrants] = 0.0
        self.alpha = max(problem.alpha, min(self.alpha, CONTINUATION * outside.max(initial=0.0)))
        # keep the model and the dual point on the larger working set, at the present alpha
        last, problem, dual_norms = (
            self.iterate,
            problem.at(self.alpha),
            dual_norms[working_set.groups],
        )
        w, norms = padded(last.w, len(working_set.columns)), padded(last.norms, len(dual_norms))
        primal = problem.primal(last.outputs, norms)
        gap = relative_gap(primal, problem.scaled_dual(last.rho, dual_norms)[0])
        self.iterate = replace(
            last, w=w, norms=norms, dual_norms=dual_norms, primal=primal, gap=gap
        )
        return others

    def _solve_working_set(self, tol: float) -> None:
        """Solve on the working set to a relative gap over its columns: by sweeps, or Newton steps
        if these are slow.
        """
        problem, working_set = self.problem.at(self.alpha), self.working_set
        if not len(working_set.groups):
            return
        if not problem.loss.has_kink and problem.regularizer.elastic is not None:
            self._sweep(problem, tol)
        last = self.iterate
        if last.gap > tol and problem.takes_newton_steps:
            # scale by m: the loss is a mean
            mean_square = float(np.linalg.norm(working_set.entries)) ** 2 / len(working_set.columns)
            gamma = self.solver.gamma * len(last.rho) / (mean_square or 1.0)
            search = ProximalNewton(problem, working_set, last, gamma, self.solver.growth)
            if not search.minimize(tol * abs(last.primal), NEWTON_STEPS):
                search.gaps()  # of the last step
            self.newton_steps += search.newton_steps
            found = self._iterate(problem, search.w, search.rho)
            self.iterate = (
                found if found.primal <= last.primal else self._iterate(problem, last.w, search.rho)
            )

    def _iterate(
        self,
        problem: DesignProblem,
        w: np.ndarray,
        rho: np.ndarray | None = None,
        known: Known | None = None,
    ) -> Iterate:
        """Return a model on the working set with the best intercept, and the better of ``rho`` and
        its dual point.
        """
        working_set = self.working_set
        outputs, b, correlations = known or (working_set.outputs(w), 0.0, None)
        shift = problem.best_intercept(outputs)
        outputs, b = outputs + shift, b + shift
        norms = working_set.gauge.norms(w)
        primal = problem.primal(outputs, norms)
        points = (
            [problem.dual_point(outputs)]
            if rho is None
            else [problem.dual_point(outputs), problem.inside(rho)]
        )
        if not np.isfinite(problem.loss.curvature) and not w.any():
            points.append(problem.best_constant()[1])
        if correlations is None:
            correlations = working_set.correlations(np.array(points))
        dual_norms = [working_set.gauge.dual_norms(found) for found in correlations]
        duals = [problem.scaled_dual(point, own)[0] for point, own in zip(points, dual_norms)]
        k = int(np.argmax(duals))
        gap = relative_gap(primal, duals[k])
        return Iterate(
            w, b, outputs, points[k], norms, dual_norms[k], correlations[k], primal, gap, k == 0
        )

    def _sweep(self, problem: DesignProblem, tol: float) -> None:
        """Take rounds of coordinate descent while they converge fast enough."""
        worth, closely = (WORTH_ON_PATH, ALMOST) if self.start.trail else (WORTH_ALONE, ALONE)
        sweeps, gaps = Sweeps(problem, self.working_set, worth), [self.iterate.gap]
        while gaps[-1] > tol and not self._gives_up(gaps):
            last = self.iterate
            correlations, target = (
                last.correlations if last.own else None,
                closely * tol * abs(last.primal),
            )
            w, halved = sweeps.round(last.w, last.outputs, correlations, target), 0
            # a round may overflow if few losses have curvature; it is then halved
            with np.errstate(over="ignore", invalid="ignore"):
                iterate = self._iterate(problem, w, sweeps.extrapolated)
                while not _descends(iterate, last) and halved < HALVINGS:
                    w, halved = 0.5 * (w + last.w), halved + 1
                    iterate = self._iterate(problem, w)
            sweeps.learn(halved)
            self.iterate = iterate if _descends(iterate, last) else last
            gaps.append(self.iterate.gap)

    def _gives_up(self, gaps: list[float]) -> bool:
        """Return whether rounds have stalled, or gain less than Newton steps in the dual are
        expected to.

        Rounds over groups with Euclidean norms include Newton steps.
        """
        if self.working_set.gauge.is_euclidean or not self.problem.takes_newton_steps:
            return len(gaps) > MOST_WAITED and min(gaps[-MOST_WAITED:]) >= min(gaps[:-MOST_WAITED])
        return len(gaps) > 3 and gaps[-1] > SLOW * gaps[-4]


def _descends(iterate: Iterate, last: Iterate) -> bool:
    """Return whether a round has lowered the objective; within rounding, the gap decides."""
    rounding = ROUNDING * abs(last.primal) if iterate.gap < last.gap else 0.0
    return bool(iterate.primal <= last.primal + rounding)
