r"""An interior-point Newton method for smooth duals, for kernels and for designs.

It minimises, over :math:`\rho` in the domain of the loss, and with :math:`\sum_i \rho_i = 0` for an
intercept,

.. math:: \sum_i c_i\, l^*(y_i, -\rho_i / c_i) + e(\rho)

with a smooth convex :math:`e`, the *term*. The equality is a row of the Newton system, and its
multiplier is the intercept. Every bound of the domain has a primal-dual logarithmic barrier (Wright
1997). The logistic loss needs one, too, although its conjugate has an infinite slope at the bounds:
without it, Newton steps come too close to a bound. If the conjugate has a kink at 0
(epsilon-insensitive), :math:`\rho_i = x^+_i - x^-_i` is split into two bounded variables, each with
a smooth function.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dpotrf

from omkl.batch.problem import BaseProblem
from omkl.batch.weighted_loss import WeightedLoss
from omkl.exceptions import DivergenceError

#: Largest step, as a share of the distance to the nearest bound.
TO_BOUND = 0.99
#: Required share of the decrease predicted by the slope (Armijo).
ARMIJO = 1e-4
#: Maximum number of halvings of a step.
MOST_HALVINGS = 40
#: Weight of the barrier, as a share of the gap divided by the number of bounds.
BARRIER_SHARE = 0.1
#: A proximal step is taken if the part of the gap due to the proximal term exceeds this share of
#: the target.
PROXIMAL_SHARE = 0.3
#: Largest second derivative near a bound.
MOST_CURVED = 1e250
#: First ridge of a Cholesky factor, as a share of the mean diagonal.
FIRST_RIDGE = 1e-14
#: Maximum number of ridges to try, each ten times larger than the one before.
MOST_RIDGES = 15
#: Room between the first variables and their bounds: as a share of the distance of the bounds, or
#: of the largest variable.
MARGIN = 0.05


def add_to_diagonal(matrix: np.ndarray, values: np.ndarray | float) -> None:
    """Add values (n,), or one value, to the diagonal of a matrix (n, n), in place."""
    matrix[np.diag_indices_from(matrix)] += values


def cholesky(matrix: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of a symmetric matrix (n, n), which is overwritten.

    Add the smallest sufficient ridge if rounding makes it necessary. Raise a DivergenceError if it
    is too large.
    """
    if not matrix.size:
        return matrix
    if not matrix.flags.f_contiguous:
        matrix = matrix.T
    ridge = 0.0
    for _ in range(MOST_RIDGES):
        factor, failed = dpotrf(matrix, lower=1, clean=0)
        if not failed:
            return factor
        larger_ridge = max(10.0 * ridge, FIRST_RIDGE * np.trace(matrix) / len(matrix))
        add_to_diagonal(matrix, larger_ridge - ridge)
        ridge = larger_ridge
    raise DivergenceError("A Newton system is not positive semidefinite: check the kernels.")


class DualLoss:
    r"""The conjugate loss of all samples as a sum of smooth functions of bounded variables.

    It is :math:`\sum_p \phi_p(x_p)` with :math:`\rho = \sum_p s_p x_p`. Arrays of variables have
    shape (P, N): P = 1 without kinks, P = 2 with them.

    Parameters
    ----------
    loss : WeightedLoss

    Attributes
    ----------
    signs : array of shape (P, 1)
        The :math:`s_p`.
    low, high : arrays of shape (P, N)
        Bounds of the variables, maybe infinite.
    n_bounds : int
        Number of finite bounds.
    """

    def __init__(self, loss: WeightedLoss) -> None:
        self.loss = loss
        low, high = loss.domain()
        if loss.loss.has_dead_zone:
            self.signs = np.array([[1.0], [-1.0]])
            self.low = np.zeros((2, len(low)))
            self.high = np.vstack([high, -low])
        else:
            self.signs = np.array([[1.0]])
            self.low = low[None]
            self.high = high[None]
        self._has_low = np.isfinite(self.low)
        self._has_high = np.isfinite(self.high)
        self.n_bounds = int(self._has_low.sum() + self._has_high.sum())
        with np.errstate(under="ignore"):
            self._lowest = np.nextafter(self.low, np.inf) + 1e-300
            self._highest = np.nextafter(self.high, -np.inf) - 1e-300

    def _of_signed(self, function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        """Return a function (N,) of each row of variables, (P, N), with the sign of the row."""
        return np.array([function(sign * row) for sign, row in zip(self.signs[:, 0], x)])

    def value(self, x: np.ndarray) -> float:
        """Return the sum of the functions."""
        return float(self._of_signed(self.loss.conjugates, x).sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the derivative in each variable."""
        return self.signs * self._of_signed(self.loss.conjugate_gradient, x)

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """Return the second derivative in each variable, finite also near a bound."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.minimum(self._of_signed(self.loss.conjugate_curvature, x), MOST_CURVED)

    def strictly_inside(self, x: np.ndarray) -> np.ndarray:
        """Return the variables, moved off bounds that they reach by rounding."""
        return np.clip(x, self._lowest, self._highest)

    def slacks(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances (P, N) to the lower and the upper bounds, infinite without one."""
        return x - self.low, self.high - x

    def barrier(self, x: np.ndarray) -> float:
        """Return the sum of the logarithms of all finite distances to bounds."""
        above_low, below_high = self.slacks(x)
        return np.log(above_low[self._has_low]).sum() + np.log(below_high[self._has_high]).sum()

    def reach(self, x: np.ndarray, direction: np.ndarray) -> float:
        """Return the longest step, at most 1, that stays off the bounds by a share of the way."""
        step = 1.0
        for bound, approach in ((self.low, -direction), (self.high, direction)):
            approaches = (approach > 0) & np.isfinite(bound)
            steps_to_bound = np.abs(bound - x)[approaches] / approach[approaches]
            step = min(step, TO_BOUND * float(steps_to_bound.min(initial=np.inf)))
        return step

    def rho(self, x: np.ndarray) -> np.ndarray:
        """Return the dual point of the variables."""
        return (self.signs * x).sum(axis=0)

    def interior(self, rho: np.ndarray, balanced: bool) -> np.ndarray:
        r"""Return variables strictly inside their bounds, near :math:`\rho`.

        Clip :math:`\rho` to sums of such variables. Of two variables, the one whose sign it has
        takes its value, and both get half a margin.

        Parameters
        ----------
        rho : array of shape (N,)
        balanced : bool
            Whether the variables must sum to 0.
        """
        units = self.loss.weights
        largest = max(float(np.abs(rho / units).max()), 1e-3)
        margin = np.minimum(MARGIN * (self.high - self.low), MARGIN * units * largest)
        low = self.signs * (self.low + margin)
        high = self.signs * (self.high - margin)
        rho = np.clip(rho, np.minimum(low, high).min(axis=0), np.maximum(low, high).max(axis=0))
        if balanced:
            # balancing only moves values towards 0, so they stay inside
            rho = self.loss.balanced(rho)
        if len(self.signs) == 1:
            return rho[None]
        return np.maximum(self.signs * rho, 0.0) + 0.5 * margin.min(axis=0)


class BarrierSearch:
    r"""Newton steps on a working set, with a decreasing barrier, and proximal steps in between.

    Subclasses set ``term`` and compute the norms of its model. The term is all of the objective
    except the loss. It has a dual point ``rho``, and the methods

    * ``gradient()``: the predictions without the intercept, (N,);
    * ``hessian()``: the second derivatives;
    * ``along(direction)``: the value along a direction as a function of the step;
    * ``move(step, rho)``: moves along the last direction to a dual point.

    A Hessian multiplies vectors. Its ``solve(diagonal, right, equality)`` returns x and b with
    ``(hessian + diag(diagonal)) x + b 1 = right``, and :math:`\sum_i x_i = 0` if ``equality``;
    without it b is 0. For several outputs b is an array.

    Parameters
    ----------
    problem : BaseProblem
    rho : array of shape (N,)
        Initial dual point.
    intercept : float
    gap : float
        Absolute duality gap of the start, over the working set.

    Attributes
    ----------
    x, low, high : arrays of shape (P, N)
        The variables, strictly inside their bounds, and the multipliers of both bounds.
    intercept : float
    newton_steps, proximal_steps : int
    primal, dual : float
        Best values so far.
    """

    #: Whether the result is the best model and dual point so far, instead of the last.
    keeps_best = False
    term: Any

    def __init__(
        self, problem: BaseProblem, rho: np.ndarray, intercept: float | np.ndarray, gap: float
    ) -> None:
        self.problem: Any = problem
        self.dual_loss = DualLoss(problem.weighted_loss)
        self.barrier = self.barrier_at(gap)
        self.x = self.dual_loss.interior(rho, problem.intercept)
        self.intercept = intercept
        above_low, below_high = self.dual_loss.slacks(self.x)
        self.low = self.barrier / above_low
        self.high = self.barrier / below_high
        self.newton_steps = 0
        self.proximal_steps = 0
        self.primal = np.inf
        self.dual = -np.inf

    def barrier_at(self, gap: float, share: float = BARRIER_SHARE) -> float:
        """Return the weight of the barrier that adds a share of an absolute gap to the gap."""
        return share * gap / max(self.dual_loss.n_bounds, 1)

    def proximal_step(self) -> None:
        """Move the centre of the proximal term to the current model, if there is such a term."""

    @abstractmethod
    def dual_norms(self) -> np.ndarray:
        """Return the norms of the dual point in the groups of the working set."""

    @abstractmethod
    def model_norms(self) -> np.ndarray:
        """Return the norms of the model at the dual point."""

    def minimize(self, target: float, max_steps: int) -> bool:
        """Take Newton steps to an absolute gap on the working set; return if it was reached."""
        # take a Newton step before the barrier falls: at first, and after it fell due to a stall
        keeps_barrier = True
        stalled = False
        for _ in range(max_steps):
            gap, loss_gap = self.gaps()
            reached_gap = self.primal - self.dual if self.keeps_best else gap
            if reached_gap <= target:
                return True
            proximal_gap = gap - loss_gap
            barrier_gap = 2.0 * self.barrier * self.dual_loss.n_bounds
            is_solved = loss_gap <= max(proximal_gap, 0.5 * target) + barrier_gap
            if stalled or (is_solved and not keeps_barrier):
                self.barrier = min(self.barrier, self.barrier_at(max(gap, target)))
                if proximal_gap > PROXIMAL_SHARE * target:
                    self.proximal_step()
                    self.proximal_steps += 1
            keeps_barrier = stalled
            step = self._newton_step()
            self.newton_steps += 1
            if step == 0.0 and stalled:
                break
            stalled = step == 0.0
        return False

    def gaps(self) -> tuple[float, float]:
        """Return the gap on the working set, and its part due to the loss, in the end 0."""
        problem = self.problem
        rho = self.term.rho
        norms = self.model_norms()
        outputs = self.term.gradient() + self.intercept
        losses = problem.weighted_loss.values(outputs)
        loss_gap = float((losses + problem.weighted_loss.conjugates(rho) + rho * outputs).sum())
        primal = problem.objective(losses, norms)
        dual, _ = problem.scaled_dual(rho, self.dual_norms())
        self.update_best(primal, dual)
        return primal - dual, loss_gap

    def update_best(self, primal: float, dual: float) -> None:
        """Update the best objectives; subclasses also store the model and dual point of these."""
        self.primal = min(primal, self.primal)
        self.dual = max(dual, self.dual)

    def _newton_step(self) -> float:
        """Take a step with a line search within the equality; return its length, or 0."""
        loss = self.dual_loss
        barrier = self.barrier
        above_low, below_high = loss.slacks(self.x)
        gradient = loss.gradient(self.x) - barrier / above_low + barrier / below_high
        gradient = gradient + loss.signs * self.term.gradient()
        curvature = loss.curvature(self.x) + self.low / above_low + self.high / below_high
        direction = self._newton_direction(gradient, curvature)
        slope = float((gradient * direction).sum())
        if not slope < 0:
            return 0.0
        step = self._line_search(direction, slope)
        if step > 0:
            self._move_multipliers(self.low, above_low, direction)
            self._move_multipliers(self.high, below_high, -direction)
            self.x = loss.strictly_inside(self.x + step * direction)
            self.term.move(step, loss.rho(self.x))
        return step

    def _move_multipliers(
        self, multipliers: np.ndarray, slack: np.ndarray, slack_change: np.ndarray
    ) -> None:
        """Take a Newton step of the multipliers (P, N) of bounds, in place; keep them positive."""
        moves = self.barrier / slack - multipliers - multipliers / slack * slack_change
        falls = moves < 0
        reach = float((multipliers[falls] / -moves[falls]).min(initial=np.inf))
        multipliers += min(1.0, TO_BOUND * reach) * moves

    def _newton_direction(self, gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        r"""Return the direction (P, N) of the variables; set the intercept.

        The intercept is the multiplier of the equality. The Hessian is diagonal in the variables,
        except for its part in :math:`\rho = \sum_p s_p x_p`. So the variables are eliminated, and
        the remaining system has size N for any P.
        """
        signs = self.dual_loss.signs
        hessian = self.term.hessian()
        inverse = 1.0 / curvature
        diagonal = 1.0 / inverse.sum(axis=0)
        right = -diagonal * (signs * gradient * inverse).sum(axis=0)
        change, self.intercept = hessian.solve(diagonal, right, self.problem.intercept)
        if len(signs) == 1:
            return change[None]
        direction = -(gradient + signs * (hessian @ change + self.intercept)) * inverse
        # if inverse is tiny the difference above is inexact: make the two variables add up to the
        # change
        missing = change - (signs * direction).sum(axis=0)
        return direction + signs * inverse * (diagonal * missing)

    def _line_search(self, direction: np.ndarray, slope: float) -> float:
        """Return a step inside the bounds that decreases the objective enough.

        Try the longest step, its half, its quarter and so on; return 0 if none is good enough.
        """
        loss = self.dual_loss
        step = loss.reach(self.x, direction)
        term_along = self.term.along(loss.rho(direction))

        def merit(step: float) -> float:
            x = loss.strictly_inside(self.x + step * direction)
            return loss.value(x) + term_along(step) - self.barrier * loss.barrier(x)

        merit_at_start = merit(0.0)
        rounding = 1e-13 * abs(merit_at_start)
        for _ in range(MOST_HALVINGS):
            if merit(step) <= merit_at_start + ARMIJO * step * slope + rounding:
                return step
            step *= 0.5
        return 0.0
