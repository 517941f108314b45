r"""Iterative soft thresholding (Mosci et al.): gradient steps on the loss, proximal steps on the norms in the RKHS.

The gradient of the loss with respect to :math:`f_m` has the coefficients :math:`l'(y_i, z_i)` for every kernel (not
:math:`K_m l'`, as the listing of Algorithm 1 says), so that a step needs a single pass: :math:`K_m \rho` with
:math:`\rho = -l'`. The same products give the norms after the step and the norms of the dual point, hence the gap.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from omkl.batch.core.problem import certify
from omkl.batch.core.solver import GapMonitor, Listener, Solution, Solver
from omkl.batch.mkl.problem import Expansion, Problem
from omkl.exceptions import InputError
from omkl.regularizers.convex import ratio_or_zero

#: How much longer than the last step the next one may be, when accelerated.
GROWTH = 1.2
#: Of a step, in units of the one that is always safe.
LONGEST = 1e4
#: A dual point is looked at again after this share of the iterations so far: the dual ball of groups that overlap takes
#: longer than a hundred steps.
SELDOM = 0.05


@dataclass
class Iterate:
    r"""Functions :math:`f_m`: coefficients (M, N), their products :math:`K_m \alpha_m` (M, N), norms (M,)."""

    coefficients: np.ndarray
    products: np.ndarray
    norms: Any

    def extrapolated(self, previous: "Iterate", share: float) -> "Iterate":
        """The point beyond this one as seen from the previous one; its norms are not needed."""
        return Iterate(
            self.coefficients + share * (self.coefficients - previous.coefficients),
            self.products + share * (self.products - previous.products),
            None,
        )


class IterativeSoftThresholding(Solver):
    r"""Proximal gradient descent in the product of the RKHSs, plain (ISTA) or accelerated (FISTA).

    Every loss without a kink, and every regularizer of the group norms. The plain step is the inverse
    of the Lipschitz constant of the gradient, the largest eigenvalue of :math:`\sum_m K_m` (centred, where there is an
    intercept) times the curvature of the loss. The intercept is not stepped but minimised over at every iteration,
    exactly: the loss that is left is as smooth, and its gradient sums to zero. Where the curvature is not bounded
    (the exponential loss), a step is halved until the loss stays below its quadratic bound.

    Accelerated, each step starts from a point extrapolated along the last move (Beck and Teboulle 2009), whose momentum
    is forgotten whenever the objective rises (O'Donoghue and Candes 2015); and steps grow as long as the loss stays
    below its quadratic bound, which few active kernels curve less than all of them would. To try a step takes no pass
    over the kernels.

    Holds two arrays (M, N) of double precision for each of three iterates.

    Parameters
    ----------
    accelerated : bool

    References
    ----------
    S. Mosci, M. Santoro, A. Verri, S. Villa, L. Rosasco. A new algorithm to learn an optimal kernel based on Fenchel
    duality. 2008.
    """

    aliases = {"ista": {"accelerated": False}, "fista": {}}

    def __init__(self, accelerated: bool = True) -> None:
        self.accelerated = bool(accelerated)

    def solve(
        self, problem: Problem, tol: float = 1e-2, max_iter: int | None = None, start: Any = None,
        on_iteration: Listener | None = None,
    ) -> Solution:  # fmt: skip
        _check(problem)
        monitor = GapMonitor(tol, 100_000 if max_iter is None else max_iter, on_iteration)
        best = _Best()
        step = 1.0 / _lipschitz_constant(problem)
        bounded = math.isfinite(problem.loss.curvature)
        shortest, cap = (step, LONGEST * step) if bounded else (0.0, math.inf)
        current = point = _initial(problem, start)
        momentum, last_primal = 1.0, np.inf
        while True:
            longest = min(GROWTH * step, cap) if self.accelerated or not bounded else shortest
            previous = current
            n_iter = len(monitor.history)
            current, predictions, intercept, step = _proximal_step(problem, point, shortest, longest, best, n_iter)
            primal = problem.primal(predictions, current.norms)
            best.offer_model(primal, current, intercept)
            if monitor.record(primal, best.dual, np.count_nonzero(current.norms)):
                break
            point = current
            if self.accelerated and primal <= last_primal:
                following = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
                point = current.extrapolated(previous, (momentum - 1.0) / following)
                momentum = following
            else:
                momentum = 1.0
            last_primal = primal
        model = best.model()
        certificate = certify(problem, model, best.rho)
        return Solution(model, certificate, len(monitor.history), certificate.proves(tol), monitor.history, start=model)


class _Best:
    """The best iterate and the best dual point seen: accelerated steps may rise."""

    def __init__(self):
        self.dual, self.rho, self._due = -np.inf, None, 0.0
        self.primal, self.iterate, self.intercept = np.inf, None, 0.0

    def offer_model(self, primal, iterate, intercept):
        if self.iterate is None or primal < self.primal:
            self.primal, self.iterate, self.intercept = primal, iterate, intercept

    def model(self):
        active = np.flatnonzero(self.iterate.norms)
        return Expansion(active, self.iterate.coefficients[active], self.intercept)

    def offer(self, problem, rho, dual_norms, n_iter):
        """See whether this dual point is better, if it is time to look at one after so many iterations."""
        if n_iter < self._due:
            return
        self._due = (1.0 + SELDOM) * n_iter
        scale = problem.feasible_scale(dual_norms)
        dual = problem.dual(scale * rho, scale * dual_norms)
        if dual > self.dual:
            self.dual, self.rho = dual, scale * rho


def _check(problem):
    if problem.loss.has_kink:
        raise InputError(
            f"Soft thresholding needs a loss with a second derivative, not {problem.loss!r}: choose 'logistic',"
            " 'squared-hinge', 'exponential', 'squared' or 'huber', or a solver that copes with kinks."
        )
    if problem.regularizer.on_coordinates or not problem.regularizer.exact:
        raise InputError(
            f"Soft thresholding needs a regularizer of the group norms with an exact prox, not {problem.regularizer!r}."
        )
    if problem.loss.classifies and problem.intercept and np.all(problem.y == problem.y[0]):
        raise InputError("All samples are of one class: with an intercept there is nothing to learn.")


def _lipschitz_constant(problem: Problem) -> float:
    r"""Of the gradient of the loss in the product of the RKHSs, the intercept minimised over.

    With the loss weights as a diagonal matrix D the Hessian is at most the curvature of the loss times
    :math:`D^{1/2} K D^{1/2}`, without the direction :math:`D^{1/2} 1` where there is an intercept. A loss of unbounded
    curvature counts as one of curvature 1, which is where to begin the search for a step.
    """
    n, roots = problem.kernels.n_samples, np.sqrt(problem.loss_weights)
    curvature = problem.loss.curvature if math.isfinite(problem.loss.curvature) else 1.0
    total = problem.kernels.combine(np.ones(problem.kernels.n_kernels)) * roots[:, None] * roots
    shift_direction = roots / np.linalg.norm(roots)
    centre = (lambda v: v - (shift_direction @ v) * shift_direction) if problem.intercept else (lambda v: v)
    # a shift by a trifle, as Lanczos starts at no null space
    shift = max(1e-9 * np.trace(total), np.finfo(float).tiny)
    if n < 3:
        return curvature * (np.trace(total) + shift)
    operator = LinearOperator(
        (n, n), matvec=lambda v: centre(total @ centre(v.ravel())) + shift * v.ravel(), dtype=np.float64
    )
    largest = eigsh(operator, k=1, tol=1e-3, v0=np.cos(np.arange(n)), return_eigenvectors=False)[0]
    # Lanczos approaches the eigenvalue from below
    return curvature * 1.01 * largest


def _initial(problem, start):
    """All zero, or the model that a similar problem ended with."""
    zeros = np.zeros((problem.kernels.n_kernels, problem.kernels.n_samples))
    current = Iterate(zeros, zeros, np.zeros(len(zeros)))
    if start is not None and len(start.active):
        current = Iterate(zeros, zeros.copy(), current.norms)
        current.products[start.active] = problem.kernels.products(start.coefficients, start.active)
        current.coefficients = zeros.copy()
        current.coefficients[start.active] = start.coefficients
    return current


def _predicted(problem, iterate):
    """Predictions with the best intercept, and that intercept."""
    outputs = iterate.products.sum(axis=0)
    intercept = problem.best_intercept(outputs)
    return outputs + intercept, intercept


def _proximal_step(problem, point, shortest, longest, best, n_iter):
    """A gradient step from a point, halved until it is safe, and the prox of its norms: one pass over the kernels.

    Returns the iterate, its predictions and intercept, and the step. The dual point on the way is offered to ``best``.
    """
    predictions, _ = _predicted(problem, point)
    rho = problem.weighted_loss.dual_point(predictions)
    responses = problem.kernels.products(rho)
    dual_norms = np.sqrt(np.maximum(responses @ rho, 0.0))
    best.offer(problem, rho, dual_norms, n_iter)
    value, step = problem.weighted_loss.values(predictions), longest
    while True:
        moved = _moved(problem, point, rho, responses, step)
        ends, intercept = _predicted(problem, moved)
        # how far the loss rises above its tangent: bounded by the square of the move where the step is short enough
        rise = np.sum(problem.weighted_loss.values(ends) - value + rho * (ends - predictions))
        square = np.sum((moved.coefficients - point.coefficients) * (moved.products - point.products))
        if step <= shortest or rise <= square / (2.0 * step):
            return moved, ends, intercept, step
        step = max(0.5 * step, shortest)


def _moved(problem, point, rho, responses, step):
    coefficients = point.coefficients + step * rho
    products = point.products + step * responses
    norms = np.sqrt(np.maximum(np.einsum("mi,mi->m", coefficients, products), 0.0))
    shrunk = problem.regularizer.prox(norms, step)
    ratios = ratio_or_zero(shrunk, norms)[:, None]
    return Iterate(ratios * coefficients, ratios * products, shrunk)
