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
#: Required share of the decrease predicted by the slope (Armijo), and maximum number of halvings of
#: a step.
ARMIJO, MOST_HALVINGS = 1e-4, 40
#: Weight of the barrier, as a share of the gap divided by the number of bounds.
BARRIER_SHARE = 0.1
#: A proximal step is taken if the part of the gap due to the proximal term exceeds this share of
#: the target.
PROXIMAL_SHARE = 0.3
#: Largest second derivative near a bound.
MOST_CURVED = 1e250
#: First ridge of a Cholesky factor, as a share of the mean diagonal, and maximum number of
#: attempts, each ten times larger.
FIRST_RIDGE, MOST_RIDGES = 1e-14, 15


def cholesky(matrix: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of a symmetric matrix (n, n), which is overwritten.

    The smallest sufficient ridge is added if rounding makes it necessary. Raise a DivergenceError
    if it is too large.
    """
    if not matrix.size:
        return matrix
    matrix = matrix if matrix.flags.f_contiguous else matrix.T
    ridge = 0.0
    for _ in range(MOST_RIDGES):
        factor, failed = dpotrf(matrix, lower=1, clean=0)
        if not failed:
            return factor
        more = max(10.0 * ridge, FIRST_RIDGE * np.trace(matrix) / len(matrix))
        matrix[np.diag_indices_from(matrix)] += more - ridge
        ridge = more
    raise DivergenceError("A Newton system is not positive semidefinite: check the kernels.")


class DualLoss:
    r"""The conjugate loss of all samples as :math:`\sum_p \phi_p(x_p)` with :math:`\rho = \sum_p
    s_p x_p`.

    Arrays of variables have shape (P, N): P = 1 without kinks, P = 2 with them.

    Parameters
    ----------
    loss : WeightedLoss
    """

    def __init__(self, loss: WeightedLoss) -> None:
        self.loss = loss
        low, high = loss.domain()
        if loss.loss.has_dead_zone:
            self.signs = np.array([[1.0], [-1.0]])
            self.low, self.high = np.zeros((2, len(low))), np.vstack([high, -low])
        else:
            self.signs = np.array([[1.0]])
            self.low, self.high = low[None], high[None]
        self.barred_low, self.barred_high = np.isfinite(self.low), np.isfinite(self.high)
        self.n_barred = int(self.barred_low.sum() + self.barred_high.sum())
        with np.errstate(under="ignore"):
            self._inside = (
                np.nextafter(self.low, np.inf) + 1e-300,
                np.nextafter(self.high, -np.inf) - 1e-300,
            )

    def _each(self, function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        return np.array([function(sign * part) for sign, part in zip(self.signs[:, 0], x)])

    def value(self, x: np.ndarray) -> float:
        """Return the sum of the functions."""
        return float(self._each(self.loss.conjugates, x).sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the derivative in each variable."""
        return self.signs * self._each(self.loss.conjugate_gradient, x)

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """Return the second derivative in each variable, finite also near a bound."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.minimum(self._each(self.loss.conjugate_curvature, x), MOST_CURVED)

    def strictly_inside(self, x: np.ndarray) -> np.ndarray:
        """Return the variables, moved off bounds that they reach by rounding."""
        return np.clip(x, *self._inside)

    def slacks(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the distances to both bounds, infinite if there is none."""
        low = np.where(self.barred_low, x - self.low, np.inf)
        return low, np.where(self.barred_high, self.high - x, np.inf)

    def rho(self, x: np.ndarray) -> np.ndarray:
        """Return the dual point of the variables."""
        return (self.signs * x).sum(axis=0)

    def interior(self, rho: np.ndarray, balanced: bool) -> np.ndarray:
        r"""Return variables strictly inside their bounds, near :math:`\rho`; ``balanced`` ones sum
        to 0.
        """
        units = self.loss.weights
        width = np.where(np.isfinite(self.high - self.low), self.high - self.low, np.inf)
        margin = np.minimum(
            0.05 * width, 0.05 * units * max(float(np.abs(rho / units).max()), 1e-3)
        )
        low, high = (self.signs * bound for bound in (self.low + margin, self.high - margin))
        rho = np.clip(rho, np.minimum(low, high).min(axis=0), np.maximum(low, high).max(axis=0))
        if balanced:
            # balancing only moves values towards 0, so they stay inside
            rho = self.loss.balanced(rho)
        return (
            rho[None]
            if len(self.signs) == 1
            else np.maximum(self.signs * rho, 0.0) + 0.5 * margin.min(axis=0)
        )


class BarrierSearch:
    r"""Newton steps on a working set, with a decreasing barrier, and proximal steps in between.

    Subclasses set ``term`` and compute the norms of its model. The term is all of the objective
    except the loss, at its dual point ``rho``. Its methods are ``gradient()``, (N,), the
    predictions without the intercept; ``hessian()``; ``along(direction)``, the value along a
    direction as a function of the step; and ``move(step, rho)``, along the last direction to a dual
    point. A Hessian multiplies vectors, and ``solve(diagonal, right, equality)`` returns the
    solution of ``(hessian + diag(diagonal)) x + b 1 = right``, with :math:`\sum_i x_i = 0` if
    ``equality``, and b, an array for several outputs, which is 0 without the equality.

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
        self.barrier = BARRIER_SHARE * gap / max(self.dual_loss.n_barred, 1)
        self.x, self.intercept = self.dual_loss.interior(rho, problem.intercept), intercept
        self.low, self.high = (self.barrier / slack for slack in self.dual_loss.slacks(self.x))
        self.newton_steps = self.proximal_steps = 0
        self.primal, self.dual = np.inf, -np.inf

    def proximal_step(self) -> None:
        """Move the centre of the proximal term to the current model; methods without such a term do
        nothing.
        """

    @abstractmethod
    def dual_norms(self) -> np.ndarray:
        """Return the norms of the dual point in the groups of the working set."""

    @abstractmethod
    def model_norms(self) -> np.ndarray:
        """Return the norms of the model at the dual point."""

    def minimize(self, target: float, max_steps: int) -> bool:
        """Take Newton steps to an absolute duality gap within the working set; return whether it
        was reached.
        """
        fresh, stalled = True, False
        for _ in range(max_steps):
            gap, loss_gap = self.gaps()
            if (self.primal - self.dual if self.keeps_best else gap) <= target:
                return True
            rest, barriers = gap - loss_gap, 2.0 * self.barrier * self.dual_loss.n_barred
            if stalled or (not fresh and loss_gap <= max(rest, 0.5 * target) + barriers):
                self.barrier = min(
                    self.barrier, BARRIER_SHARE * max(gap, target) / max(self.dual_loss.n_barred, 1)
                )
                if rest > PROXIMAL_SHARE * target:  # the part of the gap due to the proximal term
                    self.proximal_step()
                    self.proximal_steps += 1
            fresh = stalled
            step = self._newton_step()
            self.newton_steps += 1
            if step == 0.0 and stalled:
                break
            stalled = step == 0.0
        return False

    def gaps(self) -> tuple[float, float]:
        """Return the duality gap on the working set, and its part due to the loss, which is 0 at
        the inner optimum.
        """
        problem, rho, norms = self.problem, self.term.rho, self.model_norms()
        outputs = self.term.gradient() + self.intercept
        losses = problem.weighted_loss.values(outputs)
        loss_gap = float((losses + problem.weighted_loss.conjugates(rho) + rho * outputs).sum())
        primal = float(losses.sum()) + problem.penalty * problem.regularizer.value(norms)
        dual = problem.scaled_dual(rho, self.dual_norms())[0]
        self.note(primal, dual)
        return primal - dual, loss_gap

    def note(self, primal: float, dual: float) -> None:
        """Update the best values."""
        self.primal, self.dual = min(primal, self.primal), max(dual, self.dual)

    def _newton_step(self) -> float:
        """Take one step with a line search, within the equality constraint.

        Return its length, 0 if none helps.
        """
        loss, barrier = self.dual_loss, self.barrier
        low, high = loss.slacks(self.x)
        gradient = (
            loss.gradient(self.x)
            - barrier / low
            + barrier / high
            + loss.signs * self.term.gradient()
        )
        curvature = loss.curvature(self.x) + self.low / low + self.high / high
        direction = self._newton_direction(gradient, curvature)
        slope = float((gradient * direction).sum())
        step = self._line_search(direction, slope) if slope < 0 else 0.0
        if step > 0:
            for multipliers, slack, change in (
                (self.low, low, direction),
                (self.high, high, -direction),
            ):
                # Newton step of the multipliers, kept positive
                moves = barrier / slack - multipliers - multipliers / slack * change
                falling = moves < 0
                reach = float((multipliers[falling] / -moves[falling]).min(initial=np.inf))
                multipliers += min(1.0, TO_BOUND * reach) * moves
            self.x = loss.strictly_inside(self.x + step * direction)
            self.term.move(step, loss.rho(self.x))
        return step

    def _newton_direction(self, gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        r"""Set the intercept, the multiplier of the equality; return the direction (P, N) of the
        variables.

        The Hessian is diagonal in the variables except for their sum :math:`\rho = \sum_p s_p x_p`.
        So they are eliminated, and the remaining system has size N for any P.
        """
        signs, inverse, hessian = self.dual_loss.signs, 1.0 / curvature, self.term.hessian()
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
        """Return the largest of 1, 1/2, 1/4 ... that stays inside the bounds and decreases enough;
        0 if none does.
        """
        loss, step = self.dual_loss, 1.0
        for bound, towards in ((loss.low, -direction), (loss.high, direction)):
            near = (towards > 0) & np.isfinite(bound)
            step = min(
                step,
                TO_BOUND
                * float((np.abs(bound - self.x)[near] / towards[near]).min(initial=np.inf)),
            )
        along = self.term.along(loss.rho(direction))

        def merit(step: float) -> float:
            moved = loss.strictly_inside(self.x + step * direction)
            low, high = loss.slacks(moved)
            barriers = np.log(low[loss.barred_low]).sum() + np.log(high[loss.barred_high]).sum()
            return loss.value(moved) + along(step) - self.barrier * barriers

        start = merit(0.0)
        for _ in range(MOST_HALVINGS):
            if merit(step) <= start + ARMIJO * step * slope + 1e-13 * abs(start):
                return step
            step *= 0.5
        return 0.0
