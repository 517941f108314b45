r"""An interior-point Newton method for the smooth duals that proximal and one-step solvers minimise.

Both minimise, over :math:`\rho` in the domain of the loss and with :math:`\sum_i \rho_i = 0` where there is an
intercept,

.. math:: \sum_i l^*(y_i, -\rho_i)
          + e\bigl(\|\alpha_1 + \gamma \rho\|_{K_1}, \ldots, \|\alpha_M + \gamma \rho\|_{K_M}\bigr)

with a smooth convex :math:`e`, mostly a sum over kernels, flat up to the threshold below which a kernel is inactive.
The equality is a row of the Newton system, whose multiplier is the intercept; bounds are kept by a primal-dual barrier
(Wright 1997).

The conjugate :math:`l^*(y_i, -\rho_i)` may end at a bound with a finite slope (hinge, squared hinge, Huber), with an
infinite one (logistic), or have a kink at 0 (epsilon-insensitive). Every bound gets a logarithmic barrier: an infinite
slope alone lets Newton steps sink so near to a bound that it takes hundreds to come back. A kink splits
:math:`\rho_i = x^+_i - x^-_i` into two bounded variables, each with a smooth function.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm

from omkl.batch.core.problem import BaseProblem, WeightedLoss
from omkl.batch.mkl.linear_system import Curvature, solve_by_cholesky, system_of
from omkl.kernels.stack import KernelStack


class DualLoss:
    r"""The conjugate loss of all samples as :math:`\sum_p \phi_p(x_p)` with :math:`\rho = \sum_p s_p x_p`.

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
            self._inside = np.nextafter(self.low, np.inf) + 1e-300, np.nextafter(self.high, -np.inf) - 1e-300

    def _each(self, function: Callable, x: np.ndarray) -> np.ndarray:
        return np.array([function(sign * part) for sign, part in zip(self.signs[:, 0], x)])

    def value(self, x: np.ndarray) -> float:
        """Sum of the functions at ``x``."""
        return float(self._each(self.loss.conjugates, x).sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Derivative in each variable."""
        return self.signs * self._each(self.loss.conjugate_gradient, x)

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """Second derivative in each variable; finite also where a variable is so near a bound that it overflows."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.minimum(self._each(self.loss.conjugate_curvature, x), 1e250)

    def strictly_inside(self, x: np.ndarray) -> np.ndarray:
        """The variables, off their bounds by a rounding error where rounding has put them there."""
        return np.clip(x, *self._inside)

    def rho(self, x: np.ndarray) -> np.ndarray:
        """The dual point of the variables."""
        return (self.signs * x).sum(axis=0)

    def interior(self, rho: np.ndarray, balanced: bool) -> np.ndarray:
        r"""Variables strictly inside their bounds, near :math:`\rho`; on request with :math:`\sum_i \rho_i = 0`."""
        units = self.loss.weights
        width = np.where(np.isfinite(self.high - self.low), self.high - self.low, np.inf)
        margin = np.minimum(0.05 * width, 0.05 * units * max(float(np.abs(rho / units).max()), 1e-3))
        low, high = (self.signs * bound for bound in (self.low + margin, self.high - margin))
        rho = np.clip(rho, np.minimum(low, high).min(axis=0), np.maximum(low, high).max(axis=0))
        if balanced:
            # what is strictly inside stays so, as balancing only moves values towards 0
            rho = self.loss.balanced(rho)
        return rho[None] if len(self.signs) == 1 else np.maximum(self.signs * rho, 0.0) + 0.5 * margin.min(axis=0)


#: Part of the way to a bound that a step may go.
TO_BOUND = 0.99
ARMIJO = 1e-4
#: What is left of the barrier, as a part of the gap that is left divided by the number of bounds.
BARRIER_SHARE = 0.1


class KernelTerm:
    r"""The second term, over a working set, at a current :math:`\rho`; it knows what a move along a line does to it.

    Parameters
    ----------
    kernels : KernelStack
    which : int array of shape (k,)
    curve : object
        ``value(norms)``, ``first(norms)``, ``second(norms)`` and ``coupling(norms)``: ``gamma e`` of all norms, its
        gradient, and its Hessian ``diag(second) - coupling coupling'``, in which None stands for no coupling.
    rho, kernel_products : arrays of shapes (N,) and (k, N)
        The point, and :math:`K_m \rho`.
    alpha_products, alpha_squares : arrays of shapes (k, N) and (k,)
        :math:`K_m \alpha_m` and :math:`\|\alpha_m\|^2`.
    gamma : float
    """

    def __init__(
        self, kernels: KernelStack, which: np.ndarray, curve: Any, rho: np.ndarray, kernel_products: np.ndarray,
        alpha_products: np.ndarray | float = 0.0, alpha_squares: np.ndarray | float = 0.0, gamma: float = 1.0,
    ) -> None:  # fmt: skip
        self.kernels, self.which, self.curve, self.gamma = kernels, which, curve, gamma
        self.rho, self.kernel_products = rho, kernel_products
        self._kept_for: Any = None
        self.alpha_products, self.alpha_squares = alpha_products, alpha_squares
        self._refresh()

    def _refresh(self):
        self.point_products = self.alpha_products + self.gamma * self.kernel_products
        self.squares = self.alpha_squares + self.gamma * ((self.alpha_products + self.point_products) @ self.rho)
        self.norms = np.sqrt(np.maximum(self.squares, 0.0))
        self.ratios = np.divide(
            self.curve.first(self.norms), self.norms, out=np.zeros_like(self.norms), where=self.norms > 0
        )

    def value(self) -> float:
        return self.curve.value(self.norms) / self.gamma

    def gradient(self) -> np.ndarray:
        return self.ratios @ self.point_products

    def hessian(self) -> np.ndarray | Curvature:
        """Of the active kernels alone: a matrix (N, N), or where N is large a :class:`Curvature` that needs none."""
        active = np.flatnonzero(self.ratios > 0)
        ratios, which = self.ratios[active], self.which[active]
        rank_one_weights = self.gamma * (self.curve.second(self.norms)[active] - ratios) / self.norms[active] ** 2
        vectors = self.point_products[active]
        coupling = self.curve.coupling(self.norms)
        if coupling is not None:
            vectors = np.vstack([vectors, (coupling[active] / self.norms[active]) @ vectors])
            rank_one_weights = np.append(rank_one_weights, -self.gamma)
        if system_of(self.kernels) != "cholesky":
            kernels = self._same_sum(self.kernels.summed, self.gamma * ratios, which)
            return Curvature(kernels, vectors, rank_one_weights, self.kernels.n_parts)
        if not np.any(rank_one_weights != 0):
            return self._same_sum(self.kernels.combine, self.gamma * ratios, which).copy()
        matrix = self.kernels.combine(self.gamma * ratios, which)
        # in place; as the matrix is symmetric, its transpose is it in the order that BLAS wants
        return dgemm(1.0, vectors.T * rank_one_weights, vectors.T, 1.0, matrix.T, trans_b=True, overwrite_c=True)

    def _same_sum(self, add, weights, which):
        """The weighted sum of kernels, kept: the weights of a ridge never change."""
        if self._kept_for is None or not all(map(np.array_equal, self._kept_for, (weights, which))):
            self._kept_for, self._kept = (weights, which), add(weights, which)
        return self._kept

    def along(self, direction: np.ndarray) -> Callable[[float], float]:
        """The term's values on a line through the point: a function of the step."""
        self.moves = self.kernels.products(direction, self.which)
        linear = 2.0 * self.gamma * (self.point_products @ direction)
        quadratic = self.gamma**2 * (self.moves @ direction)

        def value(step):
            squares = self.squares + step * (linear + step * quadratic)
            return self.curve.value(np.sqrt(np.maximum(squares, 0.0))) / self.gamma

        return value

    def move(self, step: float, rho: np.ndarray) -> None:
        """Go that far along the last direction, to ``rho``."""
        self.rho = rho
        self.kernel_products += step * self.moves
        self._refresh()


@dataclass
class Interior:
    """A point strictly inside its bounds: variables, the multipliers of both bounds, all (P, N), and the intercept."""

    x: np.ndarray
    low: np.ndarray
    high: np.ndarray
    intercept: float = 0.0


def interior_start(dual_loss: DualLoss, rho: np.ndarray, barrier: float, equality: bool) -> Interior:
    """A point near ``rho`` whose multipliers are those of the barrier; its dual point sums to 0 on request."""
    x = dual_loss.interior(rho, equality)
    low, high = _slacks(dual_loss, x)
    return Interior(x, barrier / low, barrier / high)


def newton_step(term: KernelTerm, dual_loss: DualLoss, point: Interior, barrier: float, equality: bool) -> float:
    """One step with line search; ``term`` and ``point`` move, and the step's length is returned: 0 where none helps.

    Parameters
    ----------
    term : KernelTerm
    dual_loss : DualLoss
    point : Interior
        It must fulfil the equality constraint already; a step keeps it.
    barrier : float >= 0
        Weight of the logarithmic barrier.
    equality : bool
        Whether the step keeps the sum of the dual point, and finds the intercept.
    """
    low, high = _slacks(dual_loss, point.x)
    gradient = dual_loss.gradient(point.x) - barrier / low + barrier / high + dual_loss.signs * term.gradient()
    hessian_diagonal = dual_loss.curvature(point.x) + point.low / low + point.high / high
    direction, point.intercept = _newton_direction(term, dual_loss.signs, gradient, hessian_diagonal, equality)
    slope = float((gradient * direction).sum())
    step = _search(term, dual_loss, point.x, direction, barrier, slope) if slope < 0 else 0.0
    if step > 0:
        _move_multipliers(point, low, high, direction, barrier)
        point.x = dual_loss.strictly_inside(point.x + step * direction)
        term.move(step, dual_loss.rho(point.x))
    return step


class BarrierSearch:
    """Newton steps on the dual of a problem on a working set, with a barrier that falls and proximal steps between.

    Subclasses have the ``term`` beside the loss, which knows the model's norms and those of the dual point.

    Parameters
    ----------
    problem : BaseProblem
    rho : array of shape (N,)
        Where to start.
    intercept : float
    gap : float
        Absolute duality gap of the start, over the working set.

    Attributes
    ----------
    point : Interior
    newton_steps, proximal_steps : int
    primal, dual : float
        The best met.
    """

    #: Whether the best model and dual point met are the result, and not the last.
    keeps_best = False

    def __init__(self, problem: BaseProblem, rho: np.ndarray, intercept: float, gap: float) -> None:
        self.problem: Any = problem
        self.dual_loss = DualLoss(problem.weighted_loss)
        self.barrier = BARRIER_SHARE * gap / max(self.dual_loss.n_barred, 1)
        self.point = interior_start(self.dual_loss, rho, self.barrier, problem.intercept)
        self.point.intercept = intercept
        self.newton_steps = self.proximal_steps = 0
        self.primal, self.dual = np.inf, -np.inf
        self.term: Any = None

    def proximal_step(self) -> None:
        """Move the centre of the proximal term to the current model; methods without such a term do nothing."""

    def dual_norms(self) -> np.ndarray:
        """Norms of the dual point in the groups of the working set."""
        raise NotImplementedError

    def model_norms(self) -> np.ndarray:
        """Norms of the model at the dual point."""
        raise NotImplementedError

    def minimize(self, target: float, max_steps: int) -> bool:
        """Newton steps to an absolute duality gap within the working set; whether that is met."""
        fresh, stalled = True, False
        for _ in range(max_steps):
            gap, loss_gap = self.gaps()
            if (self.primal - self.dual if self.keeps_best else gap) <= target:
                return True
            rest, barriers = gap - loss_gap, 2.0 * self.barrier * self.dual_loss.n_barred
            if stalled or (not fresh and loss_gap <= max(rest, 0.5 * target) + barriers):
                self._tighten(gap, rest, target)
            fresh = stalled
            step = newton_step(self.term, self.dual_loss, self.point, self.barrier, self.problem.intercept)
            self.newton_steps += 1
            if step == 0.0 and stalled:
                break
            stalled = step == 0.0
        return False

    def _tighten(self, gap: float, rest: float, target: float) -> None:
        """Lower the barrier, and take a proximal step if ``rest``, the part of the gap that is due to it, is large."""
        self.barrier = min(self.barrier, BARRIER_SHARE * max(gap, target) / max(self.dual_loss.n_barred, 1))
        if rest > 0.3 * target:
            self.proximal_step()
            self.proximal_steps += 1

    def gaps(self) -> tuple[float, float]:
        """The duality gap on the working set, and its part that is the loss's: 0 once the inner problem is solved."""
        problem, rho, norms = self.problem, self.term.rho, self.model_norms()
        outputs = self.term.gradient() + self.point.intercept
        losses = problem.weighted_loss.values(outputs)
        loss_gap = float((losses + problem.weighted_loss.conjugates(rho) + rho * outputs).sum())
        dual_norms = self.dual_norms()
        scale = problem.feasible_scale(dual_norms)
        primal = float(losses.sum()) + problem.penalty * problem.regularizer.value(norms)
        dual = problem.dual(scale * rho, scale * dual_norms)
        self.note(primal, dual)
        return primal - dual, loss_gap

    def note(self, primal: float, dual: float) -> None:
        """Take note of a point's values, as far as they are the best."""
        self.primal, self.dual = min(primal, self.primal), max(dual, self.dual)


def _slacks(dual_loss, x):
    """Distances to both bounds; infinite where no barrier is needed."""
    low = np.where(dual_loss.barred_low, x - dual_loss.low, np.inf)
    return low, np.where(dual_loss.barred_high, dual_loss.high - x, np.inf)


def _newton_direction(term, signs, gradient, hessian_diagonal, equality):
    r"""Direction (P, N) of the variables, and the multiplier of the equality.

    With :math:`\rho = \sum_p s_p x_p` the variables are eliminated, as their part of the Hessian is diagonal: what is
    left is a system of size N whatever P.
    """
    inverse = 1.0 / hessian_diagonal
    diagonal = 1.0 / inverse.sum(axis=0)
    right = -diagonal * (signs * gradient * inverse).sum(axis=0)
    curvature = term.hessian()
    if isinstance(curvature, np.ndarray):
        system = curvature.copy() if len(signs) > 1 else curvature
        change, intercept = solve_by_cholesky(system, diagonal, right, equality)
    else:
        change, intercept = curvature.solve(diagonal, right, equality)
    if len(signs) == 1:
        return change[None], intercept
    direction = -(gradient + signs * (curvature @ change + intercept)) * inverse
    # where inverse is tiny the difference above has few digits: the two variables shall add up to the change
    missing = change - (signs * direction).sum(axis=0)
    return direction + signs * inverse * (diagonal * missing), intercept


def _search(term, dual_loss, x, direction, barrier, slope):
    """The largest of 1, 1/2, 1/4 ... that stays inside the bounds and decreases enough (Armijo); 0 where none does."""
    step = 1.0
    for bound, towards in ((dual_loss.low, -direction), (dual_loss.high, direction)):
        near = (towards > 0) & np.isfinite(bound)
        if near.any():
            step = min(step, TO_BOUND * float((np.abs(bound - x)[near] / towards[near]).min()))
    along = term.along(dual_loss.rho(direction))

    def merit(step):
        moved = dual_loss.strictly_inside(x + step * direction)
        low, high = _slacks(dual_loss, moved)
        barriers = np.log(low[dual_loss.barred_low]).sum() + np.log(high[dual_loss.barred_high]).sum()
        return dual_loss.value(moved) + along(step) - barrier * barriers

    start = merit(0.0)
    for _ in range(40):
        if merit(step) <= start + ARMIJO * step * slope + 1e-13 * abs(start):
            return step
        step *= 0.5
    return 0.0


def _move_multipliers(point, low, high, direction, barrier):
    """The multipliers' own Newton step, kept positive and within reach of the barrier's."""
    for multipliers, slack, change in ((point.low, low, direction), (point.high, high, -direction)):
        moves = barrier / slack - multipliers - multipliers / slack * change
        shrinking = moves < 0
        step = (
            min(1.0, TO_BOUND * float((multipliers[shrinking] / -moves[shrinking]).min())) if shrinking.any() else 1.0
        )
        multipliers += step * moves
