r"""Proximal gradient methods: ISTA, FISTA and SpaRSA, for kernels and for designs.

A step moves the model along the gradient of the loss and applies the proximity operator of the
regularizer. The intercept takes no steps: it is optimal for every model, so the gradient sums to
zero. The methods differ in the length of a step and in the rule that accepts it. All certify by the
duality gap over all groups.
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from omkl.batch import solver
from omkl.batch.group_lasso.problem import DesignProblem, LinearModel, check_start
from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.problem import certify
from omkl.regularizers.base import ratio_or_zero

MOST_ITERATIONS = 100_000
#: Largest ratio of two consecutive steps of FISTA.
GROWTH = 1.2
#: Number of past objectives in SpaRSA's acceptance rule, and the required decrease.
MEMORY, DECREASE = 5, 0.005
#: Relative rounding of the objective.
ROUNDING = 1e-12
#: Plain steps keep one length until it is too long. Accelerated steps start from an extrapolated
#: model, and become longer while possible. Spectral steps use the curvature along the last move.
Rule: TypeAlias = Literal["plain", "accelerated", "spectral"]
PLAIN_NORMS = solver.Requirement(
    "groups of positive weights, without l1 terms or signs of coefficients; 'dal' accepts these",
    lambda problem: not len(problem.groups.free) and problem.groups.gauge.is_euclidean,
)


@dataclass
class Iterate:
    """A model, or the direction of a step.

    Attributes
    ----------
    coefficients : array of shape (M, N) or (n,)
        Coefficients of kernels or columns.
    images : array of shape (M, N) or (m,)
        Products of each kernel with its coefficients, or predictions of the columns without the
        intercept.
    norms : array of shape (G,)
        Group norms; dual norms for a direction. Empty for an extrapolated model.
    """

    coefficients: np.ndarray
    images: np.ndarray
    norms: np.ndarray

    @property
    def outputs(self) -> np.ndarray:
        """Predictions without the intercept, (N,)."""
        return self.images.sum(axis=0) if self.images.ndim > 1 else self.images


class _KernelSpace:
    """The product of the reproducing kernel Hilbert spaces of a problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def start(self, model: Expansion | None) -> Iterate:
        """Return ``model``, or the zero model, as an iterate."""
        kernels = self.problem.kernels
        coefficients, images = np.zeros((2, kernels.n_kernels, kernels.n_samples))
        if model is not None and len(model.active):
            coefficients[model.active] = model.coefficients
            images[model.active] = kernels.products(model.coefficients, model.active)
        return Iterate(coefficients, images, _rkhs_norms(coefficients, images))

    def gradient(self, rho: np.ndarray) -> Iterate:
        """Return the direction of a gradient step: one pass over the kernels."""
        images = self.problem.kernels.products(rho)
        return Iterate(rho, images, np.sqrt(np.maximum(images @ rho, 0.0)))

    def moved(self, iterate: Iterate, direction: Iterate, step: float) -> Iterate:
        """Return the proximal step from a model."""
        coefficients = iterate.coefficients + step * direction.coefficients
        images = iterate.images + step * direction.images
        norms = _rkhs_norms(coefficients, images)
        shrunk = self.problem.regularizer.prox(norms, step)
        ratios = ratio_or_zero(shrunk, norms)[:, None]
        return Iterate(ratios * coefficients, ratios * images, shrunk)

    def square(self, after: Iterate, before: Iterate) -> float:
        """Return the squared distance of two models."""
        return float(
            np.sum((after.coefficients - before.coefficients) * (after.images - before.images))
        )

    def model(self, iterate: Iterate, intercept: float) -> Expansion:
        """Return an iterate as a model of the problem."""
        active = np.flatnonzero(iterate.norms)
        return Expansion(active, iterate.coefficients[active], intercept)


class _ColumnSpace:
    """The coefficients of a design's columns, scaled so that every group has weight 1; see
    :class:`_KernelSpace`.
    """

    def __init__(self, problem: DesignProblem) -> None:
        self.problem, self.groups = problem, problem.groups
        self.scales = 1.0 / self.groups.spread(self.groups.gauge.norm_weights)

    def _iterate(self, coefficients: np.ndarray) -> Iterate:
        support, own = np.flatnonzero(coefficients), coefficients * self.scales
        return Iterate(
            coefficients, self.problem.design.product(support, own[support]), self.groups.norms(own)
        )

    def start(self, model: LinearModel | None) -> Iterate:
        n_columns = self.problem.design.shape[1]
        return self._iterate(
            np.zeros(n_columns) if model is None else model.dense(n_columns) / self.scales
        )

    def gradient(self, rho: np.ndarray) -> Iterate:
        correlations = self.problem.design.correlations(rho)
        return Iterate(
            self.scales * correlations, np.empty(0), self.groups.dual_norms(correlations)
        )

    def moved(self, iterate: Iterate, direction: Iterate, step: float) -> Iterate:
        target = iterate.coefficients + step * direction.coefficients
        norms = self.groups.norms(target * self.scales)
        shrunk = self.problem.regularizer.prox(norms, self.problem.penalty * step)
        return self._iterate(target * self.groups.spread(ratio_or_zero(shrunk, norms)))

    def square(self, after: Iterate, before: Iterate) -> float:
        move = after.coefficients - before.coefficients
        return float(move @ move)

    def model(self, iterate: Iterate, intercept: float | np.ndarray) -> LinearModel:
        active, n_outputs = np.flatnonzero(iterate.coefficients), self.problem.n_outputs
        if n_outputs > 1:  # the same for all samples of an output
            intercept = np.broadcast_to(intercept, len(self.problem.y)).reshape(n_outputs, -1)[:, 0]
        return LinearModel(active, (iterate.coefficients * self.scales)[active], intercept)


class _Search:
    """One search, by steps of a rule."""

    def __init__(self, problem: Problem | DesignProblem, rule: Rule) -> None:
        self.problem, self.rule = problem, rule
        self.space: _KernelSpace | _ColumnSpace
        self.space = (
            _ColumnSpace(problem) if isinstance(problem, DesignProblem) else _KernelSpace(problem)
        )
        self.objectives: deque[float] = deque(maxlen=MEMORY)

    def run(
        self, monitor: solver.GapMonitor, start: Expansion | LinearModel | None
    ) -> solver.Solution:
        """Take steps until the gap is reached."""
        problem, space = self.problem, self.space
        grows = self.rule == "accelerated" or (
            self.rule == "plain" and math.isinf(problem.loss.curvature)
        )
        current = ahead = best = space.start(start)  # type: ignore[arg-type]
        outputs = self._predictions(current)
        primal = least = problem.primal(outputs, current.norms)
        dual, best_rho, momentum, step = -np.inf, outputs, 1.0, math.nan
        last: tuple[np.ndarray, np.ndarray, float] | None = None
        while True:
            self.objectives.append(primal)
            rho = problem.dual_point(outputs)
            direction = space.gradient(rho)
            value, scale = problem.scaled_dual(rho, direction.norms)
            if value > dual:
                dual, best_rho = value, scale * rho
            if monitor.record(primal, dual, np.count_nonzero(current.norms)):
                break
            if math.isnan(step):
                # for the curvature along the first move, rather too long than too short
                curvature = problem.loss.curvature if math.isfinite(problem.loss.curvature) else 1.0
                largest, norm = (
                    curvature * float(problem.loss_weights.max()),
                    float(np.linalg.norm(direction.norms)),
                )
                moved = space.moved(ahead, direction, 1.0 / max(norm, 1e-300))
                square, change = space.square(moved, ahead), moved.outputs - ahead.outputs
                step = (
                    square / max(largest * float(change @ change), 1e-300)
                    if square > 0.0
                    else 1.0 / largest
                )
            if self.rule == "spectral" and last is not None and last[2] > 0.0:
                # Barzilai and Borwein: the curvature along the last move
                step = 1.0 / max(float((last[0] - rho) @ last[1]) / last[2], 1e-10 / step)
            previous, before, origin, starts = current, primal, ahead, outputs
            step = GROWTH * step if grows else step
            current, outputs, primal, step = self._step(origin, starts, rho, direction, step)
            last = rho, outputs - starts, space.square(current, origin)
            if primal < least:
                least, best = primal, current
            ahead = current
            if self.rule == "accelerated" and primal <= before:
                following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum**2))
                share, momentum = (momentum - 1.0) / following, following
                coefficients = current.coefficients + share * (
                    current.coefficients - previous.coefficients
                )
                images = current.images + share * (current.images - previous.images)
                ahead = Iterate(coefficients, images, np.empty(0))
                outputs = self._predictions(ahead)
            else:
                momentum = 1.0
        model = space.model(best, problem.best_intercept(best.outputs))
        certificate = certify(problem, model, best_rho)
        converged, n_iter = certificate.proves(monitor.tol), len(monitor.history) - 1
        return solver.Solution(model, certificate, n_iter, converged, monitor.history, model)

    def _predictions(self, iterate: Iterate) -> np.ndarray:
        """Return predictions with the best intercept."""
        outputs = iterate.outputs
        return outputs + self.problem.best_intercept(outputs)

    def _step(
        self, start: Iterate, outputs: np.ndarray, rho: np.ndarray, direction: Iterate, step: float
    ) -> tuple[Iterate, np.ndarray, float, float]:
        """Shorten the step until it is accepted; return the model, its predictions and objective,
        and the step.
        """
        problem, space = self.problem, self.space
        losses = problem.weighted_loss.values(outputs)
        while True:
            moved = space.moved(start, direction, step)
            ends = self._predictions(moved)
            after = problem.weighted_loss.values(ends)
            primal = float(after.sum()) + problem.penalty * problem.regularizer.value(moved.norms)
            square = space.square(moved, start)
            if self.rule == "spectral":
                limit = max(self.objectives) - DECREASE * square / step
                accepted = math.isfinite(primal) and primal <= limit + ROUNDING * abs(
                    primal
                )  # exp overflows
            else:
                # excess of the loss over its tangent; for short moves the change of the gradient is
                # more exact
                bound, move = square / (2.0 * step), ends - outputs
                rise = float(np.sum(after - losses + rho * move))
                accepted = rise <= bound or float((rho - problem.dual_point(ends)) @ move) <= bound
            if accepted:
                return moved, ends, primal, step
            step *= 0.5


def _rkhs_norms(coefficients: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Return the norms of functions (M,) from coefficients and products (M, N)."""
    return np.sqrt(np.maximum(np.einsum("mi,mi->m", coefficients, images), 0.0))


class IterativeSoftThresholding(solver.Solver):
    r"""Proximal gradient descent in the product of the RKHSs, plain (ISTA) or accelerated (FISTA).

    It is for losses without a kink and regularizers of the group norms. Steps are halved until the
    loss stays below its quadratic bound. FISTA steps from an extrapolated model (Beck and Teboulle
    2009), restarts its momentum when the objective rises (O'Donoghue and Candes 2015), and
    lengthens its steps while the bound holds. It stores two arrays (M, N) for each of three models.

    Parameters
    ----------
    accelerated : bool

    References
    ----------
    S. Mosci, M. Santoro, A. Verri, S. Villa, L. Rosasco. A new algorithm to learn an optimal kernel
    based on Fenchel duality. 2008.
    """

    aliases = {"ista": {"accelerated": False}, "fista": {}}
    requires = solver.SMOOTH_LOSS, solver.GROUP_NORMS, solver.EXACT_PROX
    default_max_iter = MOST_ITERATIONS

    def __init__(self, accelerated: bool = True) -> None:
        self.accelerated = bool(accelerated)

    def _search(
        self, problem: Problem, monitor: solver.GapMonitor, start: Expansion | None
    ) -> solver.Solution:
        return _Search(problem, "accelerated" if self.accelerated else "plain").run(monitor, start)


class IST(solver.DesignSolver):
    """Iterative shrinkage/thresholding on a design, with a step length that is halved when it is
    too long.

    References
    ----------
    M. Figueiredo, R. Nowak. An EM algorithm for wavelet-based image restoration. 2003.
    """

    aliases = {"ist": {}}
    requires = solver.SMOOTH_LOSS, solver.EXACT_PROX, PLAIN_NORMS
    default_max_iter = MOST_ITERATIONS
    _rule: Rule = "plain"

    def _search(
        self, problem: DesignProblem, monitor: solver.GapMonitor, start: LinearModel | None
    ) -> solver.Solution:
        if start is not None:
            check_start(start, problem)
        return _Search(problem, self._rule).run(monitor, start)


class SpaRSA(IST):
    r"""Steps of Barzilai and Borwein on a design, with a non-monotone rule.

    A step is taken when the objective falls below the largest of the last five by :math:`0.005 L
    \|\Delta w\|^2`.

    References
    ----------
    S. Wright, R. Nowak, M. Figueiredo. Sparse reconstruction by separable approximation. 2009.
    """

    aliases = {"sparsa": {}}
    _rule: Rule = "spectral"
