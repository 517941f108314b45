r"""DAL on a design matrix: proximal minimisation through the dual, on a working set of columns.

This is the dual augmented Lagrangian method of Tomioka, Suzuki and Sugiyama, which SpicyMKL
generalises to kernels. Each outer iteration computes :math:`A^\top \rho` over all relevant columns.
It certifies the model, and adds columns that violate the dual constraints to the working set. On
the working set, sweeps of coordinate descent find most of the support at less than the cost of a
Newton step. If they are slow (large supports, or losses far from quadratic), proximal steps take
over. These are minimised by Newton's method in the dual, with systems as small as the support.
"""

from dataclasses import dataclass, replace

import numpy as np

from omkl._components import check_number
from omkl.batch.group_lasso.newton import ProximalNewton
from omkl.batch.group_lasso.problem import DesignNorms, DesignProblem, LinearModel, check_start
from omkl.batch.group_lasso.sweeps import Sweeps
from omkl.batch.group_lasso.working_set import Iterate, WorkingSet
from omkl.batch.problem import Certificate, relative_gap
from omkl.batch.solver import DesignSolver, GapMonitor, Requirement, Solution

#: Limits of groups and of columns in the first working set.
FIRST_GROUPS = 128
FIRST_COLUMNS = 1024
#: Later, at most the number of active groups may enter, or this number if it is larger.
FEWEST_ENTRANTS = 64
#: While groups outside violate the constraints by far, solve for a larger alpha: this share of the
#: largest violation.
CONTINUATION = 0.2
#: Gap to which a working set is solved while alpha is larger than requested.
ROUGH = 0.2
#: Gap to which it is solved at the requested alpha, as shares of the tolerance and of the gap.
FINE = 0.3
SHARE = 0.3
#: The same share of the tolerance for quadratic losses with all groups in the working set.
ALMOST = 0.9
#: Gap at which sweeps over inner products end, as a share of the gap of the working set: on a path,
#: and for one problem.
ALMOST_ON_PATH = 0.9
ALMOST_ALONE = 0.1
#: Guessed dual norms are sufficient while the gap exceeds this multiple of the tolerance.
GUESSED = 3.0
#: Maximum number of halvings of a round whose quadratic model was poor.
HALVINGS = 10
#: Maximum number of rounds without a smaller gap.
MOST_WAITED = 10
#: Where Newton steps in the dual are possible, this number of rounds is slow if they leave more
#: than this share of the gap.
SLOW_ROUNDS = 3
SLOW = 0.1
#: Relative rounding of a sum over the samples.
ROUNDING = 1e-15
#: Compute inner products of a working set if they cost at most this many sweeps: for one problem,
#: on a path.
WORTH_ALONE = 4.0
WORTH_ON_PATH = 30.0
#: Maximum number of Newton steps on one working set.
NEWTON_STEPS = 200
#: A certificate stalls if its gap is not smaller by this share than the least one before.
SMALLER = 0.01
#: The search ends after this many stalled certificates in a row: with Newton steps, and without.
MOST_STALLED = 10
MOST_REPEATED = 3
#: Longest extrapolation, as a multiple of the distance between the last two solutions.
FARTHEST = 2.0
SUM_OVER_GROUPS = Requirement(
    "a regularizer that is a sum over groups ('sparsa' accepts others)",
    lambda problem: problem.regularizer.separable,
)
ELASTIC_OR_ONE_OUTPUT = Requirement(
    "for several outputs a regularizer that is linear or quadratic in each norm "
    "('sparsa' accepts others)",
    lambda problem: problem.n_outputs == 1 or problem.regularizer.elastic is not None,
)


@dataclass
class Outputs:
    """Predictions and correlations that follow from coefficients on a working set.

    Attributes
    ----------
    outputs : array of shape (K m,)
        Predictions, with the intercept ``b``.
    b : float or array
    correlations : array of shape (k K,) or None
        Correlations of the columns with the dual point of the predictions, if outputs_of_w.
    """

    outputs: np.ndarray
    b: float | np.ndarray
    correlations: np.ndarray | None


@dataclass
class TrailPoint:
    """A solution of a path, on its working set."""

    alpha: float
    iterate: Iterate


@dataclass
class DALStart:
    """A warm start of :class:`~omkl.batch.DAL`.

    Attributes
    ----------
    model : LinearModel or None
    working_set, norms : WorkingSet, DesignNorms or None
        Caches of the same design and groups.
    trail : tuple of TrailPoint
        The last two solutions of a path.
    is_settled : bool
        Whether the last solution needed no new groups.
    """

    model: LinearModel | None
    working_set: WorkingSet | None = None
    norms: DesignNorms | None = None
    trail: tuple[TrailPoint, ...] = ()
    is_settled: bool = False


class Extrapolation:
    """Linear extrapolation from the last two solutions of a path.

    Between changes of the support, solutions of the lasso are linear in alpha. In an extrapolation
    no group enters, or changes its sign.

    Parameters
    ----------
    trail : tuple of two TrailPoint
    problem : DesignProblem
    working_set : WorkingSet

    Attributes
    ----------
    w : array of shape (k K,)
        Extrapolated coefficients.
    """

    def __init__(
        self, trail: tuple[TrailPoint, ...], problem: DesignProblem, working_set: WorkingSet
    ) -> None:
        first, last = trail
        self._first = first.iterate
        self._last = last.iterate
        self._problem = problem
        self._working_set = working_set
        self._reach = min((problem.alpha - last.alpha) / (last.alpha - first.alpha), FARTHEST)
        blocks = working_set.blocks
        first_w = padded(self._first.w, blocks.bounds[-1])
        last_w = padded(self._last.w, blocks.bounds[-1])
        #: Coefficients on the straight line.
        self._line_w = self._on_line(first_w, last_w)
        keeps_sign = blocks.spread(blocks.sums(self._line_w * last_w)) > 0
        self.w = np.where(keeps_sign, self._line_w, 0.0)
        if working_set.gauge.positive:
            self.w = np.maximum(self.w, 0.0)

    def _on_line(self, first: np.ndarray | float, last: np.ndarray | float) -> np.ndarray:
        """Return values on the line through the values of both solutions."""
        return np.asarray(last + self._reach * (last - first))

    def _is_linear(self) -> bool:
        """Return whether both solutions have correlations, which are linear in the coefficients."""
        problem = self._problem
        first = self._first
        last = self._last
        if not problem.loss.is_quadratic or not (first.is_gradient and last.is_gradient):
            return False
        n_samples = len(last.rho) // problem.n_outputs
        weights = problem.weighted_loss.weights[:n_samples]
        n_known = self._working_set.products.known(weights) * problem.n_outputs
        return len(self.w) == len(first.correlations) == len(last.correlations) == n_known

    def outputs(self) -> Outputs | None:
        """Return predictions and correlations on the line, None unless both are linear."""
        if not self._is_linear():
            return None
        outputs = self._on_line(self._first.outputs, self._last.outputs)
        b = self._on_line(self._first.b, self._last.b)
        correlations = self._on_line(self._first.correlations, self._last.correlations)
        moves = self.w - self._line_w
        if moves.any():
            outputs += self._working_set.outputs(moves)
            by_output = moves.reshape(-1, self._problem.n_outputs)
            correlations -= self._working_set.products.times(by_output).ravel()
        return Outputs(outputs, b, correlations)


def padded(w: np.ndarray, size: int) -> np.ndarray:
    """Return coefficients padded with zeros for a working set that has grown."""
    return np.concatenate([w, np.zeros(size - len(w))])


class DAL(DesignSolver[DesignProblem, DALStart | LinearModel]):
    r"""Dual augmented Lagrangian method for any loss and any sum over groups as a regularizer.

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
        if start.working_set is None or not start.working_set.is_of(problem):
            # keep only the model, since the design, groups or intercept differ
            start = DALStart(start.model)
        return _Search(self, problem, start).run(monitor)


@dataclass
class Candidate:
    """The present model, certified.

    Attributes
    ----------
    certificate : Certificate
        Its certificate, with the best dual point so far.
    dual_norms : array of shape (g,)
        Norms of its dual point in all groups.
    gap : float
        Relative gap at its dual point.
    is_sure : bool
        Whether the norms are exact or bounds, and not guesses.
    """

    certificate: Certificate
    dual_norms: np.ndarray
    gap: float
    is_sure: bool


class _Search:
    """One solve: working set, current model, the present alpha, and the best certificates.

    Attributes
    ----------
    iterate : Iterate
        The present model.
    alpha : float
        The alpha of the present working set, at least that of the problem.
    best_dual : Certificate or None
        The certificate with the best dual point.
    best_primal, best_iterate : Certificate, Iterate or None
        The best model.
    """

    def __init__(self, solver: DAL, problem: DesignProblem, start: DALStart):
        self.solver = solver
        self.problem = problem
        self.start = start
        self.working_set = WorkingSet(problem) if start.working_set is None else start.working_set
        self.norms = DesignNorms(problem) if start.norms is None else start.norms.of(problem)
        self.alpha = np.inf
        self.newton_steps = 0
        self.best_dual: Certificate | None = None
        self.best_primal: Certificate | None = None
        self.best_iterate: Iterate | None = None

    def _begin(self, tol: float) -> Iterate:
        """Return the better of the last model and its extrapolation along the path."""
        problem = self.problem
        trail = self.start.trail
        if not trail:
            return self._begin_with(self.start.model)
        last = trail[-1].iterate
        if len(trail) == 2 and trail[0].alpha != trail[1].alpha:
            extrapolation = Extrapolation(trail, problem, self.working_set)
            iterate = self._iterate(problem, extrapolation.w, outputs_of_w=extrapolation.outputs())
            if iterate.primal < problem.primal(last.outputs, last.norms):
                if iterate.gap > 2.0 * tol:
                    return iterate
                # an extrapolated dual point cannot certify a gap
                return self._iterate(problem, extrapolation.w)
        return self._iterate(problem, padded(last.w, len(self.working_set.columns)))

    def _begin_with(self, model: LinearModel | None) -> Iterate:
        """Return a model as an iterate; add its groups to the working set."""
        problem = self.problem
        if model is None:
            return self._iterate(problem, np.zeros(0))
        groups = problem.groups
        present = np.concatenate([self.working_set.groups, groups.free])
        missing = np.setdiff1d(groups.of_columns(model.active), present)
        if len(missing):
            self.working_set.extend(missing)
        w = model.dense(problem.design.shape[1])[self.working_set.columns]
        return self._iterate(problem, self.working_set.scaled(w))

    def run(self, monitor: GapMonitor) -> Solution:
        """Search until the gap is reached or stalls."""
        tol = monitor.tol
        n_stalled = 0
        most_stalled = MOST_STALLED if self.problem.takes_newton_steps else MOST_REPEATED
        least_gap = np.inf
        grows = False
        self.iterate = self._begin(tol)
        if self.start.is_settled and self.iterate.gap > tol and monitor.max_iter > 1:
            # no new groups are expected: solve on the working set before a pass over all groups
            self.alpha = self.problem.alpha
            monitor.skip_start()
            self._solve_working_set(FINE * tol)
        while True:
            candidate = self._certify(tol)
            is_over = self._record(monitor, candidate.certificate)
            gap = candidate.certificate.gap
            if gap < (1.0 - SMALLER) * least_gap:
                n_stalled = 0
            elif candidate.is_sure:
                n_stalled += 1
            least_gap = min(gap, least_gap)
            if is_over or n_stalled > most_stalled:
                break
            others_follow = self._enlarge(candidate.dual_norms)
            grows |= others_follow
            self._solve_working_set(self._target(tol, candidate.gap, others_follow))
        return self._solution(monitor, grows)

    def _record(self, monitor: GapMonitor, certificate: Certificate) -> bool:
        """Record the search so far; return whether it should end."""
        return monitor.record(
            primal=certificate.primal,
            dual=certificate.dual,
            active=np.count_nonzero(certificate.norms),
            working_set=len(self.working_set.groups),
            passes=self.norms.passes,
            newton_steps=self.newton_steps,
        )

    def _target(self, tol: float, gap: float, others_follow: bool) -> float:
        """Return the relative gap to reach on the working set, from the gap over all groups."""
        if self.alpha > self.problem.alpha:
            return ROUGH
        has_all_groups = len(self.working_set.groups) == self.problem.groups.n_groups
        if has_all_groups and self.problem.loss.is_quadratic:
            return ALMOST * tol
        if others_follow:
            return max(FINE * tol, min(SHARE * gap, ROUGH))
        # no group enters: the remaining gap is due to the working set
        return FINE * SHARE * min(tol, gap)

    def _solution(self, monitor: GapMonitor, grows: bool) -> Solution:
        """Return the best model as the solution."""
        assert self.best_primal is not None
        assert self.best_iterate is not None
        assert self.best_dual is not None
        iterate = self.best_iterate
        working_set = self.working_set
        model = working_set.model(padded(iterate.w, len(working_set.columns)), iterate.b)
        # with the best dual point, since lower bounds hold for every model
        dual = self.best_dual
        certificate = replace(self.best_primal, dual=dual.dual, rho=dual.rho)
        trail = (*self.start.trail, TrailPoint(self.problem.alpha, iterate))
        start = DALStart(
            model=model,
            working_set=working_set,
            norms=self.norms,
            trail=trail[-2:],
            is_settled=len(working_set.groups) > 0 and not grows,
        )
        return monitor.solution(model, certificate, start)

    def _certify(self, tol: float) -> Candidate:
        """Certify the present model; update the best model and the best dual point.

        Guesses of dual norms are good enough while they show a large gap.
        """
        problem = self.problem
        iterate = self.iterate
        rho = iterate.rho
        groups = self.working_set.groups
        norms = np.zeros(problem.groups.n_groups)
        norms[groups] = iterate.norms
        primal = problem.primal(iterate.outputs, norms)
        # dual norms on the working set are in double precision for any precision of the design
        dual_norms = None
        if self.best_dual is not None:
            next_alpha = max(problem.alpha, CONTINUATION * self.alpha)
            dual_norms = self.norms.likely(rho, next_alpha, groups, iterate.dual_norms)
        is_sure = dual_norms is None
        if dual_norms is not None:
            guessed_dual, _ = problem.scaled_dual(rho, dual_norms)
            is_sure = relative_gap(primal, guessed_dual) <= GUESSED * tol
        if dual_norms is None or is_sure:
            dual_norms = self.norms.at(rho, groups, iterate.dual_norms)
        dual, scale = problem.scaled_dual(rho, dual_norms)
        certificate = Certificate(
            primal=primal, dual=dual, norms=norms, outputs=iterate.outputs, rho=scale * rho
        )
        if self.best_dual is None or (is_sure and dual > self.best_dual.dual):
            self.best_dual = certificate
        certificate = replace(certificate, dual=self.best_dual.dual, rho=self.best_dual.rho)
        if self.best_primal is None or primal < self.best_primal.primal:
            self.best_primal = certificate
            self.best_iterate = iterate
        return Candidate(
            certificate=certificate,
            dual_norms=dual_norms,
            gap=relative_gap(primal, dual),
            is_sure=is_sure,
        )

    def _enlarge(self, dual_norms: np.ndarray) -> bool:
        """Add the groups that violate their constraints most, and choose the next alpha.

        Return whether more groups are likely to follow: at first, whether some were left out.
        """
        problem = self.problem
        working_set = self.working_set
        is_first = not len(working_set.groups)
        # without a threshold every group is in the model
        violations = np.full(len(dual_norms), np.inf)
        if problem.threshold > 0:
            violations = dual_norms / problem.threshold
        violations[np.concatenate([working_set.groups, problem.groups.free])] = 0.0
        # on a path others follow the first groups
        least_violation = 0.0 if is_first and self.start.trail else problem.alpha
        n_most = self._most_entrants()
        entrants = np.flatnonzero(violations > least_violation)
        n_expected = n_most if is_first else 0
        others_follow = len(entrants) > n_expected
        # add the worst first: other violations may vanish once these groups change
        entrants = entrants[np.argsort(-violations[entrants], kind="stable")][:n_most]
        if len(entrants):
            working_set.extend(entrants)
            violations[entrants] = 0.0
        next_alpha = min(self.alpha, CONTINUATION * violations.max(initial=0.0))
        self.alpha = max(problem.alpha, next_alpha)
        self._extend_iterate(dual_norms[working_set.groups])
        return others_follow

    def _most_entrants(self) -> int:
        """Return the maximum number of groups to add to the working set."""
        groups = self.problem.groups
        if self.problem.threshold == 0:
            return groups.n_groups
        if not len(self.working_set.groups):
            return min(FIRST_GROUPS, int(np.ceil(FIRST_COLUMNS / groups.blocks.sizes.mean())))
        return max(FEWEST_ENTRANTS, int(np.count_nonzero(self.iterate.norms)))

    def _extend_iterate(self, dual_norms: np.ndarray) -> None:
        """Keep the model and dual point on a larger working set, at the present alpha.

        ``dual_norms`` (g,) are those of the groups of the working set.
        """
        problem = self.problem.at(self.alpha)
        iterate = self.iterate
        norms = padded(iterate.norms, len(dual_norms))
        primal = problem.primal(iterate.outputs, norms)
        dual, _ = problem.scaled_dual(iterate.rho, dual_norms)
        self.iterate = replace(
            iterate,
            w=padded(iterate.w, len(self.working_set.columns)),
            norms=norms,
            dual_norms=dual_norms,
            primal=primal,
            gap=relative_gap(primal, dual),
        )

    def _solve_working_set(self, tol: float) -> None:
        """Solve on the working set to a relative gap, by sweeps, then by Newton steps if needed."""
        problem = self.problem.at(self.alpha)
        if not len(self.working_set.groups):
            return
        if not problem.loss.has_kink and problem.regularizer.elastic is not None:
            self._sweep(problem, tol)
        if self.iterate.gap > tol and problem.takes_newton_steps:
            self._take_newton_steps(problem, tol)

    def _take_newton_steps(self, problem: DesignProblem, tol: float) -> None:
        """Take proximal steps, by Newton's method in the dual, to a relative gap."""
        working_set = self.working_set
        last = self.iterate
        # scale by m: the loss is a mean
        mean_square = float(np.linalg.norm(working_set.entries)) ** 2 / len(working_set.columns)
        gamma = self.solver.gamma * len(last.rho) / (mean_square or 1.0)
        search = ProximalNewton(problem, working_set, last, gamma, self.solver.growth)
        if not search.minimize(tol * abs(last.primal), NEWTON_STEPS):
            search.gaps()  # of the last step
        self.newton_steps += search.newton_steps
        self.iterate = self._iterate(problem, search.w, search.rho)
        if not self.iterate.primal <= last.primal:
            self.iterate = self._iterate(problem, last.w, search.rho)

    def _iterate(
        self,
        problem: DesignProblem,
        w: np.ndarray,
        rho: np.ndarray | None = None,
        outputs_of_w: Outputs | None = None,
    ) -> Iterate:
        """Return a model on the working set with the best intercept.

        Its dual point is that of its predictions, or ``rho`` (m,) if that is better. Predictions
        may be given as ``outputs_of_w``.
        """
        working_set = self.working_set
        if outputs_of_w is None:
            outputs_of_w = Outputs(working_set.outputs(w), b=0.0, correlations=None)
        shift = problem.best_intercept(outputs_of_w.outputs)
        outputs = outputs_of_w.outputs + shift
        norms = working_set.gauge.norms(w)
        primal = problem.primal(outputs, norms)
        points = [problem.dual_point(outputs)]
        if rho is not None:
            points.append(problem.inside(rho))
        if not np.isfinite(problem.loss.curvature) and not w.any():
            _, rho_of_constant = problem.best_constant()
            points.append(rho_of_constant)
        if outputs_of_w.correlations is None:
            correlations = working_set.correlations(np.array(points))
        else:
            # extrapolated models have one point
            correlations = outputs_of_w.correlations[None]
        dual_norms = []
        duals = []
        for point, correlations_of_point in zip(points, correlations):
            dual_norms.append(working_set.gauge.dual_norms(correlations_of_point))
            dual, _ = problem.scaled_dual(point, dual_norms[-1])
            duals.append(dual)
        best = int(np.argmax(duals))
        return Iterate(
            w=w,
            b=outputs_of_w.b + shift,
            outputs=outputs,
            rho=points[best],
            norms=norms,
            dual_norms=dual_norms[best],
            correlations=correlations[best],
            primal=primal,
            gap=relative_gap(primal, duals[best]),
            is_gradient=best == 0,
        )

    def _sweep(self, problem: DesignProblem, tol: float) -> None:
        """Take rounds of coordinate descent while they converge fast enough."""
        is_on_path = len(self.start.trail) > 0
        worth = WORTH_ON_PATH if is_on_path else WORTH_ALONE
        share = ALMOST_ON_PATH if is_on_path else ALMOST_ALONE
        sweeps = Sweeps(problem, self.working_set, worth)
        gaps = [self.iterate.gap]
        while gaps[-1] > tol and not self._gives_up(gaps):
            last = self.iterate
            correlations = last.correlations if last.is_gradient else None
            target = share * tol * abs(last.primal)
            w = sweeps.round(last.w, last.outputs, correlations, target)
            n_halvings = 0
            # a round may overflow if few losses have curvature; it is then halved
            with np.errstate(over="ignore", invalid="ignore"):
                iterate = self._iterate(problem, w, sweeps.extrapolated)
                while not _descends(iterate, last) and n_halvings < HALVINGS:
                    w = 0.5 * (w + last.w)
                    n_halvings += 1
                    iterate = self._iterate(problem, w)
            sweeps.adapt_damping(n_halvings)
            if _descends(iterate, last):
                self.iterate = iterate
            gaps.append(self.iterate.gap)

    def _gives_up(self, gaps: list[float]) -> bool:
        """Return whether rounds have stalled, or gain less than Newton steps in the dual would.

        Rounds over groups with Euclidean norms include Newton steps.
        """
        if self.working_set.gauge.is_euclidean or not self.problem.takes_newton_steps:
            latest = gaps[-MOST_WAITED:]
            earlier = gaps[:-MOST_WAITED]
            return len(earlier) > 0 and min(latest) >= min(earlier)
        return len(gaps) > SLOW_ROUNDS and gaps[-1] > SLOW * gaps[-SLOW_ROUNDS - 1]


def _descends(iterate: Iterate, last: Iterate) -> bool:
    """Return whether a round has lowered the objective; within rounding, the gap decides."""
    rounding = ROUNDING * abs(last.primal) if iterate.gap < last.gap else 0.0
    return bool(iterate.primal <= last.primal + rounding)
