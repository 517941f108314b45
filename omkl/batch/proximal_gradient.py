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
from omkl.batch.mkl.problem import Expansion, Problem, rkhs_norms
from omkl.batch.problem import certify
from omkl.regularizers.base import ratio_or_zero

MOST_ITERATIONS = 100_000
#: Largest ratio of two consecutive steps of FISTA.
GROWTH = 1.2
#: Number of past objectives in SpaRSA's acceptance rule.
MEMORY = 5
#: Decrease that this rule requires, as a share of the squared move over the step.
DECREASE = 0.005
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

    def extrapolated(self, previous: "Iterate", share: float) -> "Iterate":
        """Return this model plus a share of the move from the previous one."""
        coefficients = self.coefficients + share * (self.coefficients - previous.coefficients)
        images = self.images + share * (self.images - previous.images)
        return Iterate(coefficients, images, norms=np.empty(0))


@dataclass
class Move:
    """An accepted step.

    Attributes
    ----------
    rho : array of shape (N,)
        Dual point at its start.
    outputs : array of shape (N,)
        Change of the predictions.
    square : float
        Squared distance of the models.
    """

    rho: np.ndarray
    outputs: np.ndarray
    square: float


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
        return Iterate(coefficients, images, rkhs_norms(coefficients, images))

    def gradient(self, rho: np.ndarray) -> Iterate:
        """Return the direction of a gradient step: one pass over the kernels."""
        images = self.problem.kernels.products(rho)
        return Iterate(rho, images, np.sqrt(np.maximum(images @ rho, 0.0)))

    def moved(self, iterate: Iterate, direction: Iterate, step: float) -> Iterate:
        """Return the proximal step from a model."""
        coefficients = iterate.coefficients + step * direction.coefficients
        images = iterate.images + step * direction.images
        norms = rkhs_norms(coefficients, images)
        norms_after = self.problem.regularizer.prox(norms, step)
        ratios = ratio_or_zero(norms_after, norms)[:, None]
        return Iterate(ratios * coefficients, ratios * images, norms_after)

    def square(self, after: Iterate, before: Iterate) -> float:
        """Return the squared distance of two models."""
        move = after.coefficients - before.coefficients
        return float(np.sum(move * (after.images - before.images)))

    def model(self, iterate: Iterate, intercept: float) -> Expansion:
        """Return an iterate as a model of the problem."""
        active = np.flatnonzero(iterate.norms)
        return Expansion(active, iterate.coefficients[active], intercept)


class _ColumnSpace:
    """The coefficients of a design's columns, scaled so that every group has weight 1.

    Methods are as in :class:`_KernelSpace`.
    """

    def __init__(self, problem: DesignProblem) -> None:
        self.problem = problem
        self.groups = problem.groups
        self.scales = 1.0 / self.groups.spread(self.groups.gauge.norm_weights)

    def _iterate(self, scaled_coefficients: np.ndarray) -> Iterate:
        support = np.flatnonzero(scaled_coefficients)
        coefficients = scaled_coefficients * self.scales
        images = self.problem.design.product(support, coefficients[support])
        return Iterate(scaled_coefficients, images, self.groups.norms(coefficients))

    def start(self, model: LinearModel | None) -> Iterate:
        n_columns = self.problem.design.shape[1]
        if model is None:
            return self._iterate(np.zeros(n_columns))
        return self._iterate(model.dense(n_columns) / self.scales)

    def gradient(self, rho: np.ndarray) -> Iterate:
        correlations = self.problem.design.correlations(rho)
        dual_norms = self.groups.dual_norms(correlations)
        return Iterate(self.scales * correlations, images=np.empty(0), norms=dual_norms)

    def moved(self, iterate: Iterate, direction: Iterate, step: float) -> Iterate:
        target = iterate.coefficients + step * direction.coefficients
        norms = self.groups.norms(target * self.scales)
        norms_after = self.problem.regularizer.prox(norms, self.problem.penalty * step)
        ratios = ratio_or_zero(norms_after, norms)
        return self._iterate(target * self.groups.spread(ratios))

    def square(self, after: Iterate, before: Iterate) -> float:
        move = after.coefficients - before.coefficients
        return float(move @ move)

    def model(self, iterate: Iterate, intercept: float | np.ndarray) -> LinearModel:
        active = np.flatnonzero(iterate.coefficients)
        coefficients = (iterate.coefficients * self.scales)[active]
        n_outputs = self.problem.n_outputs
        if n_outputs > 1:
            # all samples of an output have the same constant
            constants = np.broadcast_to(intercept, len(self.problem.y))
            intercept = constants.reshape(n_outputs, -1)[:, 0]
        return LinearModel(active, coefficients, intercept)


class _Search:
    """One search, by steps of a rule.

    Attributes
    ----------
    current : Iterate
        The present model.
    primal : float
        Its objective.
    origin : Iterate
        The model to step from: the present one, or an extrapolated one.
    outputs : array of shape (N,)
        Predictions of ``origin``, with the best intercept.
    step : float
        Length of the last step; NaN before the first one.
    momentum : float
        Nesterov's sequence of accelerated steps.
    objectives : deque of float
        The last objectives.
    best, least : Iterate, float
        The model with the least objective so far, and this objective.
    last_move : Move or None
    """

    def __init__(
        self,
        problem: Problem | DesignProblem,
        rule: Rule,
        start: Expansion | LinearModel | None,
    ) -> None:
        self.problem = problem
        self.rule = rule
        self.space: _KernelSpace | _ColumnSpace
        if isinstance(problem, DesignProblem):
            self.space = _ColumnSpace(problem)
        else:
            self.space = _KernelSpace(problem)
        self.current = self.space.start(start)  # type: ignore[arg-type]
        self.origin = self.current
        self.outputs = self._predictions(self.origin)
        self.primal = problem.primal(self.outputs, self.current.norms)
        self.objectives = deque([self.primal], maxlen=MEMORY)
        self.best = self.current
        self.least = self.primal
        self.step = math.nan
        self.momentum = 1.0
        self.last_move: Move | None = None

    def run(self, monitor: solver.GapMonitor) -> solver.Solution:
        """Take steps until the gap is reached."""
        problem = self.problem
        dual = -np.inf
        best_rho = self.outputs
        while True:
            rho = problem.dual_point(self.outputs)
            direction = self.space.gradient(rho)
            scaled_dual, scale = problem.scaled_dual(rho, direction.norms)
            if scaled_dual > dual:
                dual = scaled_dual
                best_rho = scale * rho
            if monitor.record(self.primal, dual, np.count_nonzero(self.current.norms)):
                break
            self._choose_length(rho, direction)
            self._advance(rho, direction)
        model = self.space.model(self.best, problem.best_intercept(self.best.outputs))
        return monitor.solution(model, certify(problem, model, best_rho), start=model)

    def _choose_length(self, rho: np.ndarray, direction: Iterate) -> None:
        """Set the length of the step to try first."""
        if math.isnan(self.step):
            self.step = self._first_length(direction)
        move = self.last_move
        if self.rule == "spectral" and move is not None and move.square > 0.0:
            # Barzilai and Borwein: the curvature along the last move
            curvature = float((move.rho - rho) @ move.outputs) / move.square
            self.step = 1.0 / max(curvature, 1e-10 / self.step)
        is_unbounded = math.isinf(self.problem.loss.curvature)
        if self.rule == "accelerated" or (self.rule == "plain" and is_unbounded):
            self.step = GROWTH * self.step

    def _first_length(self, direction: Iterate) -> float:
        """Return a length from the curvature along the first move, rather long than short."""
        curvature = self.problem.loss.curvature
        if not math.isfinite(curvature):
            curvature = 1.0
        largest = curvature * float(self.problem.loss_weights.max())
        norm = float(np.linalg.norm(direction.norms))
        moved = self.space.moved(self.origin, direction, 1.0 / max(norm, 1e-300))
        square = self.space.square(moved, self.origin)
        if not square > 0.0:
            return 1.0 / largest
        change = moved.outputs - self.origin.outputs
        return square / max(largest * float(change @ change), 1e-300)

    def _advance(self, rho: np.ndarray, direction: Iterate) -> None:
        """Take a step, and choose the origin of the next one."""
        previous = self.current
        origin = self.origin
        primal_before = self.primal
        outputs_before = self.outputs
        self._take_step(rho, direction)
        self.objectives.append(self.primal)
        self.last_move = Move(
            rho=rho,
            outputs=self.outputs - outputs_before,
            square=self.space.square(self.current, origin),
        )
        if self.primal < self.least:
            self.least = self.primal
            self.best = self.current
        self.origin = self.current
        if self.rule == "accelerated" and self.primal <= primal_before:
            next_momentum = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.momentum**2))
            share = (self.momentum - 1.0) / next_momentum
            self.momentum = next_momentum
            self.origin = self.current.extrapolated(previous, share)
            self.outputs = self._predictions(self.origin)
        else:
            self.momentum = 1.0

    def _predictions(self, iterate: Iterate) -> np.ndarray:
        """Return predictions with the best intercept."""
        outputs = iterate.outputs
        return outputs + self.problem.best_intercept(outputs)

    def _take_step(self, rho: np.ndarray, direction: Iterate) -> None:
        """Shorten the step until it is accepted; set the model, its predictions and objective."""
        weighted_loss = self.problem.weighted_loss
        losses = weighted_loss.values(self.outputs)
        while True:
            moved = self.space.moved(self.origin, direction, self.step)
            outputs = self._predictions(moved)
            losses_after = weighted_loss.values(outputs)
            primal = self.problem.objective(losses_after, moved.norms)
            square = self.space.square(moved, self.origin)
            if self.rule == "spectral":
                accepted = self._is_below_past_objectives(primal, square)
            else:
                accepted = self._is_below_bound(rho, outputs, losses_after - losses, square)
            if accepted:
                self.current = moved
                self.outputs = outputs
                self.primal = primal
                return
            self.step *= 0.5

    def _is_below_past_objectives(self, primal: float, square: float) -> bool:
        """Return whether an objective (infinite if exp overflows) fulfils SpaRSA's rule."""
        limit = max(self.objectives) - DECREASE * square / self.step
        return math.isfinite(primal) and primal <= limit + ROUNDING * abs(primal)

    def _is_below_bound(
        self, rho: np.ndarray, outputs: np.ndarray, loss_changes: np.ndarray, square: float
    ) -> bool:
        """Return whether the loss of new predictions (N,) is below its quadratic bound."""
        bound = square / (2.0 * self.step)
        move = outputs - self.outputs
        # the excess of the loss over its tangent
        rise = float(np.sum(loss_changes + rho * move))
        if rise <= bound:
            return True
        # for short moves the change of the gradient is more exact
        return float((rho - self.problem.dual_point(outputs)) @ move) <= bound


class IterativeSoftThresholding(solver.Solver[Problem, Expansion]):
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
        rule: Rule = "accelerated" if self.accelerated else "plain"
        return _Search(problem, rule, start).run(monitor)


class IST(solver.DesignSolver[DesignProblem, LinearModel]):
    """Iterative shrinkage/thresholding on a design, with steps that are halved when too long.

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
        return _Search(problem, self._rule, start).run(monitor)


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
