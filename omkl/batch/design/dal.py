r"""DAL on a design matrix: proximal minimisation through the dual, on a working set of columns.

The dual augmented Lagrangian method of Tomioka, Suzuki and Sugiyama, which SpicyMKL generalises to kernels, with what
it takes to be fast on designs of all kinds. Each outer iteration looks at :math:`A^\top \rho`, over all columns or
those that may matter. That certifies the model, and tells which columns violate the dual constraints and so enter the
panel of columns on which the next model is found. There sweeps of coordinate descent find most of the support, which
they do for less than a Newton step, and settle it on its columns' inner products where they are slow, as on badly
conditioned designs. Where that is not enough, as with large supports or losses that are far from quadratic, proximal
steps minimised by Newton's method in the dual take over, whose systems then are as small as the support.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from omkl.batch.core.problem import Certificate
from omkl.batch.core.solver import Solution
from omkl.batch.design.newton import AugmentedLagrangian
from omkl.batch.design.problem import DesignSolver, LinearModel, certify_linear
from omkl.batch.design.screening import DesignNorms
from omkl.batch.design.sweeps import Sweeps
from omkl.batch.design.working_set import Panel
from omkl.exceptions import InputError

#: Columns of the first panel, and groups that may enter later: as many as are active, but no fewer than this.
FIRST_COLUMNS, FEWEST_ENTRANTS = 128, 64
#: While many groups outside violate the constraints by far, a larger C is solved for: this share of the worst.
CONTINUATION = 0.2
#: Relative gaps of panels: while C is larger than asked for; as shares of the tolerance, and of the gap.
ROUGH, FINE, SHARE = 0.2, 0.3, 0.1
#: A gap that rests on a guess of the dual norms counts while it is larger than so many times the tolerance.
GUESSED = 3.0
#: Rounds of sweeps that may be left to go, and halvings of one that the loss's quadratic model has misled.
MOST_ROUNDS, HALVINGS = 8, 10
#: How far proximal weights may grow from the first; proximal steps of one panel, and Newton steps of one of them.
LARGEST_GROWTH = 1e6
PROXIMAL_STEPS, NEWTON_STEPS = 40, 50


@dataclass
class DALStart:
    """What :class:`DAL` can start from: a model, and where they are known the panel, the proximal weight and the norms.

    Panel and norms are those of one design and its groups; C, loss, regularizer and y of the new problem may differ.
    """

    model: LinearModel
    panel: Panel | None = None
    growth: float = 1.0
    norms: DesignNorms | None = None


class DAL(DesignSolver):
    r"""Dual augmented Lagrangian method for lasso, group lasso and elastic net, with any smooth loss.

    Parameters
    ----------
    gamma : float > 0
        First proximal weight :math:`\gamma`, in units of 1 over the mean squared norm of the columns.
    growth : float > 1
        Factor by which it grows from one proximal step to the next.

    Notes
    -----
    Newton's system is solved on the side of the active columns or on that of the samples, whichever is smaller, by
    Cholesky; by conjugate gradients beyond 5000. A panel of k columns takes 8 m k bytes; the design is never copied.
    """

    aliases = {"dal": {}}

    def __init__(self, gamma=1e3, growth=10.0):
        if not 0 < gamma < np.inf or not 1 < growth < np.inf:
            raise InputError(f"gamma must be > 0 and growth > 1, both finite, not {gamma!r} and {growth!r}.")
        self.gamma = gamma
        self.growth = growth

    def solve(self, problem, tol=1e-3, max_iter=None, start=None, on_iteration=None):
        """See :meth:`DesignSolver.solve`; ``start`` may also be the ``start`` of a solution by DAL (100 iterations)."""
        if not tol > 0:
            raise InputError(f"tol must be > 0, not {tol!r}.")
        search = _Search(self, problem, start if isinstance(start, DALStart) else DALStart(start))
        return search.run(tol, 100 if max_iter is None else max_iter, on_iteration)


@dataclass
class _View:
    """What a look at the groups says of a model: a certificate, all dual norms, and the relative gap that is likely.

    The dual of a certificate is that of an earlier model unless the look was ``sure``.
    """

    certificate: Certificate
    dual_norms: np.ndarray
    gap: float
    sure: bool


@dataclass
class _Place:
    """A model on the panel: its predictions, its dual point, and the norms and dual norms of the panel's groups.

    Its objective and its relative gap over the panel are those for one C.
    """

    outputs: np.ndarray
    rho: np.ndarray
    norms: np.ndarray
    dual_norms: np.ndarray
    primal: float
    gap: float


class _Search:
    """The state of one solve: panel, model on the panel, dual point, proximal weight."""

    def __init__(self, solver, problem, start):
        self.solver, self.problem = solver, problem
        self.panel = Panel(problem) if start.panel is None else start.panel
        self.growth = start.growth
        self.w, self.b = np.zeros(len(self.panel.columns)), 0.0
        self.C = np.inf
        self.newton_steps = 0
        self.norms = DesignNorms(problem) if start.norms is None else start.norms.of(problem)
        self.best = None
        if start.model is not None:
            self._restore(start.model)

    def _restore(self, model):
        """Put a model on the panel."""
        missing = np.setdiff1d(self.problem.groups.of_columns(model.active), self.panel.groups)
        if len(missing):
            self.panel.extend(missing)
        full = model.dense(self.problem.design.shape[1])
        self.w, self.b = self.panel.scaled(full[self.panel.columns]), model.intercept

    def run(self, tol, max_iter, on_iteration):
        began = time.perf_counter()
        history, stalled, best = [], 0, np.inf
        place = self._place(self.problem)
        for iteration in range(max_iter + 1):
            view = self._view(place, tol)
            gap = view.certificate.gap
            history.append({
                "seconds": time.perf_counter() - began, "primal": view.certificate.primal,
                "dual": view.certificate.dual, "gap": gap, "active": int(np.count_nonzero(view.certificate.norms)),
                "panel": len(self.panel.groups), "passes": self.norms.passes, "newton_steps": self.newton_steps,
            })  # fmt: skip
            if view.sure:
                stalled, best = (0 if gap < best else stalled + 1), min(gap, best)
            asked_to_stop = on_iteration is not None and on_iteration(history[-1])
            if gap <= tol or asked_to_stop or stalled > 10 or iteration == max_iter:
                break
            entered = self._enlarge(view.dual_norms)
            # what is left of the gap is the panel's own where nothing has entered: solve it better, then
            fine = max(FINE * tol, min(SHARE * view.gap, ROUGH)) if entered else SHARE * min(tol, view.gap)
            place = self._solve_panel(ROUGH if self.C > self.problem.C else fine)
        model = self._model()
        certificate = view.certificate if view.sure else certify_linear(self.problem, model)
        start = DALStart(model, self.panel, self.growth, self.norms)
        return Solution(model, certificate, iteration, certificate.gap <= tol, history, start)

    def _model(self):
        support = np.flatnonzero(self.w)
        support = support[np.argsort(self.panel.columns[support])]
        return LinearModel(
            self.panel.columns[support], self.panel.unscaled(self.w)[support], self.panel.intercept(self.w, self.b)
        )

    def _view(self, place, tol):
        """The certificate of the model, and the dual norms of all groups: a pass over the design, or less."""
        problem, panel, rho = self.problem, self.panel, place.rho
        norms = np.zeros(problem.groups.n_groups)
        norms[panel.groups] = place.norms
        primal = problem.primal(place.outputs, norms)
        # C falls by no more than this with the next panel
        strength = max(problem.C, CONTINUATION * self.C)
        for sure in (True,) if self.best is None else (False, True):
            dual_norms = self.norms.sure(rho) if sure else self.norms.likely(rho, strength)
            if dual_norms is None:
                continue
            # in double precision, whatever that of the design
            dual_norms[panel.groups] = place.dual_norms
            dual, scale = problem.dual(rho, dual_norms)
            gap = (primal - dual) / abs(primal)
            if gap > GUESSED * tol:
                break
        if sure and (self.best is None or dual > self.best.dual):
            self.best = Certificate(primal, dual, norms, place.outputs, scale * rho)
        # a lower bound holds for every model
        dual, rho = (dual, scale * rho) if sure else (self.best.dual, self.best.rho)
        return _View(Certificate(primal, dual, norms, place.outputs, rho), dual_norms, gap, sure)

    def _enlarge(self, dual_norms):
        """Bring in the groups that violate their constraints most, and choose the C to solve for next."""
        problem, panel = self.problem, self.panel
        outside = dual_norms / problem.threshold
        outside[panel.groups] = 0.0
        if len(panel.groups):
            room = max(FEWEST_ENTRANTS, np.count_nonzero(panel.blocks.norms(self.w)))
            entrants = np.flatnonzero(outside > problem.C)
        else:
            room = int(np.ceil(FIRST_COLUMNS / problem.groups.blocks.sizes.mean()))
            entrants = np.flatnonzero(outside)
        if len(entrants) > room:
            entrants = np.sort(entrants[np.argpartition(-outside[entrants], room)[:room]])
        if len(entrants):
            panel.extend(entrants)
            self.w = np.concatenate([self.w, np.zeros(len(panel.columns) - len(self.w))])
            outside[entrants] = 0.0
        self.C = max(problem.C, min(self.C, CONTINUATION * outside.max(initial=0.0)))
        return len(entrants) > 0

    def _solve_panel(self, tol):
        """Solve on the panel, to a relative gap over its columns: sweeps, and Newton steps where those are slow."""
        problem = replace(self.problem, C=self.C)
        place = self._place(problem)
        if len(self.panel.groups):
            place = self._sweep(problem, tol, place)
            if place.gap > tol:
                place = self._step_by_newton(problem, tol, place)
        return place

    def _place(self, problem):
        """Where the model is on the panel, at the best intercept, which is set."""
        outputs = self.panel.outputs(self.w)
        self.b = self.problem.best_intercept(outputs)
        outputs += self.b
        rho = problem.dual_point(outputs)
        norms, dual_norms = self.panel.blocks.norms(self.w), self.panel.blocks.norms(self.panel.matrix.T @ rho)
        primal, (dual, _) = problem.primal(outputs, norms), problem.dual(rho, dual_norms)
        return _Place(outputs, rho, norms, dual_norms, primal, (primal - dual) / abs(primal))

    def _sweep(self, problem, tol, place):
        """Rounds of coordinate descent, as long as few more of them promise the gap; the place that they end at."""
        sweeps, places = Sweeps(problem, self.panel), [place]
        while places[-1].gap > tol and not _slow([place.gap for place in places], tol):
            before = self.w
            self.w = sweeps.round(before, places[-1].outputs)
            place = self._place(problem)
            for halved in range(HALVINGS + 1):
                if place.primal <= places[-1].primal or halved == HALVINGS:
                    break
                self.w = 0.5 * (self.w + before)
                place = self._place(problem)
            sweeps.learn(halved)
            if place.primal > places[-1].primal:
                self.w = before
                place = self._place(problem)
            places.append(place)
        return places[-1]

    def _step_by_newton(self, problem, tol, place):
        """Proximal steps, each minimised by Newton's method in the dual; the place that they end at."""
        panel, scale, rho = self.panel, self.panel.mean_square, place.rho
        for _ in range(PROXIMAL_STEPS):
            weight = self.solver.gamma * self.growth
            step = AugmentedLagrangian(problem, panel, self.w, self.b, weight / scale, 10.0 * weight / len(rho))
            distance = FINE * tol * self.C * problem.threshold / np.sqrt(scale)
            slack = FINE * tol * abs(place.primal)
            point, used = step.minimise(step.at(step.inside(rho)), slack, distance, NEWTON_STEPS)
            self.newton_steps += used
            rho = point.rho
            if used == NEWTON_STEPS:
                # not minimised: from the same model and the better dual point, a shorter step
                self.growth /= self.solver.growth
            else:
                self.growth = min(self.growth * self.solver.growth, LARGEST_GROWTH)
                self.w, self.b = point.x, point.u
                place = self._place(problem)
                if place.gap <= tol:
                    # the next panel starts with the weight before the last
                    self.growth = max(1.0, self.growth / self.solver.growth**2)
                    break
        return place


def _slow(gaps, tol):
    """Whether rounds with these gaps have many more to go before they reach ``tol``, at the rate of the last two."""
    if len(gaps) < 3:
        return False
    rate = np.sqrt(gaps[-1] / gaps[-3])
    return rate >= 1.0 or np.log(tol / gaps[-1]) < MOST_ROUNDS * np.log(rate)
