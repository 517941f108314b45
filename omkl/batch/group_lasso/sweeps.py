"""Rounds of coordinate descent on quadratic models: a cheap way to find the support."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from omkl.batch.group_lasso import _jit_sweeps as jit
from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.group_lasso.problem import DesignProblem
from omkl.batch.group_lasso.working_set import WorkingSet, inner_products, squared_entries
from omkl.batch.newton import add_to_diagonal
from omkl.batch.weighted_loss import MultinomialHessian

#: Maximum number of sweeps over inner products, and number of sweeps between Newton steps.
MODEL_SWEEPS = 100
EVERY = 10
#: Maximum number of halvings of a Newton step.
HALVINGS = 3
#: Ridge on inner products, for duplicate columns, as a share of the sum of eigenvalues. Also the
#: size of a group, relative to the threshold, below which its direction is unreliable.
TINY = 1e-12
#: Relative residual of a Newton step of a coupled loss.
CLOSE = 1e-2
#: Maximum number of products for it.
MOST_PRODUCTS = 50


def penalty_change(penalty: jit.Penalty, before: np.ndarray, after: np.ndarray) -> float:
    """Return the change of the penalty between two arrays of norms, (g,)."""
    change = penalty.threshold * (after - before).sum()
    return change + 0.5 * penalty.ridge * (after**2 - before**2).sum()


class QuadraticModel(NamedTuple):
    r""":math:`w^\top G w / 2 - c^\top w` for several outputs, plus a penalty on norms of groups.

    Parameters
    ----------
    gram : C-ordered array with at least k rows and columns
        Inner products of the k columns, in the first k rows and columns.
    starts : int array of shape (g + 1,)
        Index of the first column of each group, and k.
    groups : int array of shape (g,)
        Indices of the groups in ``bases``.
    bases : Bases or None
        Computed bases of all groups; None for single columns of one output.
    values : array of shape (k,)
        Eigenvalues of these groups.
    penalty : Penalty
        Its threshold and ridge, for Euclidean norms.
    """

    gram: np.ndarray
    starts: np.ndarray
    groups: np.ndarray
    bases: jit.Bases | None
    values: np.ndarray
    penalty: jit.Penalty

    def minimise(
        self,
        w: np.ndarray,
        correlations: np.ndarray,
        *,
        square: float = 0.0,
        target: float = -np.inf,
        worth: float,
    ) -> None:
        """Minimise over all groups, in place.

        Parameters
        ----------
        w : array of shape (k, K)
            Coefficients of K outputs.
        correlations : C-ordered array of shape (K, k)
            Correlations of the columns with the residuals, updated in place.
        square : float
            Sum of the squared residuals, each divided by its curvature.
        target : float
            Duality gap at which to stop; it needs ``square``.
        worth : float
            Stop after a sweep whose gain is at most this share of the largest gain.
        """
        model = self
        if len(self.groups) == self.starts[-1] and w.shape[1] == 1:
            # None in place of the bases of single columns: less to compile, and faster
            model = self._replace(bases=None)
        largest_gain = 0.0
        n_sweeps = 0
        is_over = False
        while not is_over and n_sweeps < MODEL_SWEEPS:
            swept, is_over, square, largest_gain = jit.sweep_products(
                model, w, correlations, square, target, EVERY, worth, largest_gain
            )
            n_sweeps += swept
            if not is_over:
                square = self._take_newton_step(w, correlations, square)

    def _take_newton_step(self, w: np.ndarray, correlations: np.ndarray, square: float) -> float:
        """Take a Newton step in the nonzero groups, in place, unless the system is singular.

        Groups never move past zero. Parameters are those of :meth:`minimise`; return the new
        ``square``.
        """
        sizes = np.diff(self.starts)
        largest_values = np.maximum.reduceat(self.values, self.starts[:-1])
        norms = _norms_of_rows(Blocks(sizes), w)
        is_active = largest_values * norms > TINY * self.penalty.threshold
        if not is_active.any():
            return square
        indices = np.flatnonzero(np.repeat(is_active, sizes))
        before = w[indices]
        correlations_before = correlations[:, indices].T
        try:
            after = self._after_newton_step(
                self.gram[np.ix_(indices, indices)],
                Blocks(sizes[is_active]),
                before,
                correlations_before,
            )
        except np.linalg.LinAlgError:
            return square
        moves = after - before
        w[indices] = after
        correlations -= moves.T @ self.gram[indices, : self.starts[-1]]
        sums = correlations_before + correlations[:, indices].T
        return square - float((moves * sums).sum())

    def _after_newton_step(
        self, gram: np.ndarray, blocks: Blocks, w: np.ndarray, correlations: np.ndarray
    ) -> np.ndarray:
        """Return coefficients after a Newton step in the active groups; ``w`` if none helps.

        The groups have a columns, with inner products ``gram`` (a, a). Coefficients ``w`` and
        ``correlations`` are (a, K). The penalty t ||w_g|| of a group has the second derivatives
        t / ||w_g|| (I - u u'), where u = w_g / ||w_g|| is its ray; those of a single coefficient
        are 0.
        """
        ridge = self.penalty.ridge
        norms = _norms_of_rows(blocks, w)
        slopes = blocks.spread(self.penalty.threshold / norms)
        curvatures = slopes
        if w.shape[1] == 1:
            curvatures = np.where(blocks.spread(blocks.sizes) > 1, slopes, 0.0)
        system = gram.copy()
        add_to_diagonal(system, curvatures + ridge + TINY * self.values.sum())
        rays = np.sqrt(curvatures)[:, None] * w / blocks.spread(norms)[:, None]
        right = correlations - (ridge + slopes)[:, None] * w
        step = _solved_beside_rays(system, blocks, rays, right)
        for _ in range(HALVINGS):
            after = w + step
            after[blocks.spread(blocks.sums((w * after).sum(axis=1)) <= 0.0)] = 0.0
            moves = after - w
            change = penalty_change(self.penalty, norms, _norms_of_rows(blocks, after))
            change += 0.5 * (moves * (gram @ moves)).sum()
            if change < (moves * correlations).sum():
                return after
            step *= 0.5
        return w


def _norms_of_rows(blocks: Blocks, w: np.ndarray) -> np.ndarray:
    """Return the norms (g,) of blocks of rows of coefficients (k, K)."""
    return blocks.norms(np.linalg.norm(w, axis=1))


def _solved_beside_rays(
    system: np.ndarray, blocks: Blocks, rays: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Solve with a system (a, a) minus the outer product of each group's ray, (a, K).

    All outputs share the system. For several outputs use Woodbury's identity, because there are few
    rays.
    """
    if right.shape[1] == 1:
        labels = blocks.spread(np.arange(len(blocks.sizes)))
        system -= np.where(labels[:, None] == labels, rays @ rays.T, 0.0)
        return np.linalg.solve(system, right)
    inverse = np.linalg.inv(system)
    step = inverse @ right
    inner = -blocks.sums(blocks.sums(inverse * (rays @ rays.T)).T)
    add_to_diagonal(inner, 1.0 + TINY)
    shares = np.linalg.solve(inner, blocks.sums((rays * step).sum(axis=1)))
    return step + inverse @ (blocks.spread(shares)[:, None] * rays)


@dataclass(eq=False)
class CoupledModel:
    """A quadratic model of a loss that couples the outputs, over the columns of nonzero groups.

    Parameters
    ----------
    columns : array (m, a), or CSC matrix
    hessian : MultinomialHessian
    rho : array of shape (K m,)
        The residual, with an optimal unpenalized part.
    penalty : Penalty
        Weights of the norms of the groups, and of half their squares.
    w : array of shape (a K,)
        Coefficients of the groups.
    blocks : Blocks
    """

    columns: Matrix
    hessian: MultinomialHessian
    rho: np.ndarray
    penalty: jit.Penalty
    w: np.ndarray
    blocks: Blocks

    def __post_init__(self) -> None:
        self._correlations = self._correlations_with(self.rho)
        self._norms = self.blocks.norms(self.w)
        #: Directions of the groups, and the curvature of their norms orthogonal to these, (a K,).
        self._rays = self.w / self.blocks.spread(self._norms)
        self._curvatures = self.blocks.spread(self.penalty.threshold / self._norms)

    def _correlations_with(self, residual: np.ndarray) -> np.ndarray:
        """Return the correlations (a K,) of the columns with a residual (K m,)."""
        return (self.columns.T @ residual.reshape(len(self.hessian.shares), -1).T).ravel()

    def _loss_hessian_times(self, v: np.ndarray) -> np.ndarray:
        """Return the second derivatives of the loss times a vector (a K,)."""
        outputs = (self.columns @ v.reshape(-1, len(self.hessian.shares))).T.ravel()
        return self._correlations_with(self.hessian.balance(self.hessian @ outputs))

    def _hessian_times(self, v: np.ndarray) -> np.ndarray:
        """Return all second derivatives times a vector (a K,)."""
        shares_of_rays = self.blocks.spread(self.blocks.sums(self._rays * v))
        product = self._loss_hessian_times(v) + (self.penalty.ridge + self._curvatures) * v
        return product - self._curvatures * self._rays * shares_of_rays

    def newton_step(self) -> np.ndarray:
        """Return a Newton step (a, K), by conjugate gradients.

        Groups that it would move past zero become zero. The step is 0 if it does not lower the
        objective.
        """
        w = self.w
        blocks = self.blocks
        step = self._solve()
        for _ in range(HALVINGS):
            keeps_sign = blocks.spread(blocks.sums(w * (w + step))) > 0
            after = np.where(keeps_sign, w + step, 0.0)
            moves = after - w
            change = penalty_change(self.penalty, self._norms, blocks.norms(after))
            change += 0.5 * moves @ self._loss_hessian_times(moves)
            if change < moves @ self._correlations:
                break
            step *= 0.5
        else:
            moves = np.zeros(len(w))
        return moves.reshape(-1, len(self.hessian.shares))

    def _solve(self) -> np.ndarray:
        """Return the inexact solution (a K,) of the Newton system."""
        ridge = self.penalty.ridge
        squares = squared_entries(self.columns)
        diagonal = (squares.T @ self.hessian.diagonal.T).ravel() + ridge
        diagonal = diagonal + self._curvatures * (1.0 - self._rays**2)
        inverse = 1.0 / np.maximum(diagonal, 1e-12 * diagonal.max())
        right = self._correlations - ridge * self.w - self.penalty.threshold * self._rays
        shape = (len(self.w), len(self.w))
        system = LinearOperator(shape, self._hessian_times, dtype=float)
        preconditioner = LinearOperator(shape, lambda v: inverse * v)
        step, _ = cg(system, right, rtol=CLOSE, maxiter=MOST_PRODUCTS, M=preconditioner)
        return step


#: Maximum number of sweeps of a round.
MOST_SWEEPS = 20
#: A round ends when a sweep gains at most this share of the first.
WORTH = 0.01
#: Number of points of an extrapolation.
EXTRAPOLATED = 5
#: Speed of matrix products and factorizations, relative to sweeps with as many operations.
FASTER_FACTORS = 5.0
#: Share of the largest gain at which sweeps over inner products of active groups end.
LEAST_GAIN = 1e-4
#: First damping after a poor quadratic model, as a share of the distance to the loss's largest
#: curvature.
LEAST_DAMPING = 1e-3
#: Substitute for an unbounded largest curvature, as a multiple of the present one.
MOST_CURVED = 1e3
#: Sweeps before a Newton step if the loss couples outputs.
SWEEPS_PER_STEP = 2
#: Coupling of a diagonal Hessian.
UNCOUPLED = jit.Coupling(shares=np.empty((0, 0)), weights=np.empty(0), damping=0.0)


class Point(NamedTuple):
    """Coefficients (k K,) and residual (K m,) after a sweep."""

    w: np.ndarray
    rho: np.ndarray


class Sweeps:
    r"""Coordinate descent on a quadratic model of the loss, group by group.

    A round computes the second derivatives h of the loss at the present predictions. It sweeps once
    over all groups and then over the active ones. The step of a group minimises the model over the
    group exactly, in the eigenbasis of :math:`B_g^\top \mathrm{diag}(h) B_g`, and updates the dual
    point :math:`\rho`. On badly conditioned designs, Newton steps on the inner products of the
    active columns replace sweeps once the sweeps have cost as much.

    If the loss couples outputs, steps use a bound of the curvature, shared by the outputs of a
    sample. The residual is updated with the Hessian, so a round still ends at the minimum of the
    quadratic model.

    Parameters
    ----------
    problem : DesignProblem
    working_set : WorkingSet
    worth : float
        Maximum cost of the inner products of all columns, in sweeps over the working set.

    Attributes
    ----------
    extrapolated : array of shape (K m,) or None
        The residual of the last extrapolation, often a better dual point.
    damping : float in [0, 1]
        At 1 the model uses the loss's largest second derivatives. If these are bounded, no round
        then increases the objective.
    """

    def __init__(self, problem: DesignProblem, working_set: WorkingSet, worth: float = 0.0) -> None:
        self._problem = problem
        self._working_set = working_set
        self._worth = worth
        self.extrapolated: np.ndarray | None = None
        self.damping = 0.0
        self._starts = working_set.column_blocks.bounds
        self._sizes = np.diff(self._starts)
        self._groups = np.arange(len(working_set.groups))
        #: The columns, and their mean number of stored entries.
        self._columns = working_set.compiled_columns
        self._entries = working_set.entries.size / max(self._starts[-1], 1)
        self._penalty = self._make_penalty()
        #: A basis of the unpenalized part, (m, r).
        self._basis = np.ones((working_set.matrix.shape[0], 1)) if problem.intercept else None
        if problem.unpenalized is not None:
            self._basis = problem.unpenalized.basis
        #: Hessian of a loss that couples outputs.
        self._hessian: MultinomialHessian | None = None

    def _make_penalty(self) -> jit.Penalty:
        # solvers require an elastic regularizer
        slope, curvature = self._problem.regularizer.elastic or (0.0, 0.0)
        gauge = self._working_set.gauge
        norm_weights = gauge.norm_weights
        l1_weights = gauge.l1_weights
        if gauge.is_euclidean:
            norm_weights = np.empty(0)
            l1_weights = norm_weights
        return jit.Penalty(
            threshold=self._problem.penalty * slope,
            ridge=self._problem.penalty * curvature,
            norm_weights=norm_weights,
            l1_weights=l1_weights,
            positive=gauge.positive,
        )

    def round(
        self,
        w: np.ndarray,
        outputs: np.ndarray,
        correlations: np.ndarray | None = None,
        target: float = 0.0,
    ) -> np.ndarray:
        """Return coefficients after a round.

        Parameters
        ----------
        w : array of shape (k K,)
            Coefficients to start from.
        outputs : array of shape (K m,)
            Predictions of ``w``, at the best intercept.
        correlations : array, optional
            Correlations of the columns with the dual point of these predictions, if known.
        target : float
            Absolute gap over the working set at which sweeps over inner products end.
        """
        working_set = self._working_set
        w = w.copy()
        rho = self._problem.weighted_loss.dual_point(outputs)
        curvature = self._curvature(rho)
        weights = curvature[: len(rho) // self._problem.n_outputs]
        working_set.eigenbases.weigh(weights)
        if not self._takes_products(weights):
            return self._sweep_over_columns(Point(w, rho), curvature, weights)
        if correlations is None or len(correlations) < len(w):
            correlations = working_set.correlations(rho[None])[0]
        n_outputs = self._problem.n_outputs
        bases = working_set.eigenbases.of(working_set.matrix, self._starts, weights)
        model = QuadraticModel(
            gram=working_set.products.of(working_set.matrix, weights, self._basis),
            starts=self._starts,
            groups=self._groups,
            bases=bases,
            values=bases.values,
            penalty=self._penalty,
        )
        model.minimise(
            w.reshape(-1, n_outputs),
            np.ascontiguousarray(correlations.reshape(-1, n_outputs).T),
            square=float((rho * rho / curvature).sum()),
            target=target,
            worth=0.0,
        )
        return w

    def _sweep_over_columns(
        self, start: Point, curvature: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        """Return coefficients after sweeps, extrapolations and a Newton step.

        ``curvature`` (K m,) and ``weights``, its first m, are those of the samples.
        """
        working_set = self._working_set
        n_outputs = self._problem.n_outputs
        coupling = UNCOUPLED
        if self._hessian is not None:
            coupling = jit.Coupling(self._hessian.shares, self._hessian.weights, self.damping)
        w, rho = start
        points = [Point(w.copy(), rho.copy())]
        groups = self._groups
        first_gain = None
        for n_sweeps in range(1, MOST_SWEEPS + 1):
            gain = jit.sweep(
                self._columns,
                self._starts,
                groups,
                weights,
                working_set.eigenbases.arrays,
                coupling,
                self._penalty,
                w.reshape(-1, n_outputs),
                rho.reshape(n_outputs, -1),
            )
            rho = self._balanced(rho, weights)
            if first_gain is None:
                first_gain = gain
            points.append(Point(w.copy(), rho.copy()))
            if len(points) > EXTRAPOLATED:
                w, rho = self._extrapolate(points, curvature)
                points = [Point(w.copy(), rho.copy())]
            groups = np.flatnonzero(working_set.blocks.norms(w))
            if working_set.gauge.is_euclidean and n_sweeps > self._newton_price(groups):
                self._solve_groups(groups, w, rho, weights)
                break
            if gain <= WORTH * first_gain:
                break
        return w

    def _takes_products(self, weights: np.ndarray) -> bool:
        """Return whether to sweep over the inner products of all columns.

        They must be known, or save more time than they cost. For k columns, f of them new, they
        take :math:`f (2 k - f) m` operations, and a sweep takes :math:`4 k m` for each output.
        """
        if not (self._problem.loss.is_quadratic and self._working_set.gauge.is_euclidean):
            return False
        k = self._starts[-1]
        n_new = k - self._working_set.products.known(weights)
        operations_of_sweeps = 4.0 * FASTER_FACTORS * k * self._problem.n_outputs
        price = n_new * (2 * k - n_new) / operations_of_sweeps
        has_bases = self._sizes.max() <= jit.LARGEST_BASIS
        return bool(k <= self._entries and price <= self._worth and has_bases)

    def _curvature(self, rho: np.ndarray) -> np.ndarray:
        """Return damped second derivatives of the losses at a dual point, (K m,).

        For several outputs these are bounds, which all outputs share.
        """
        loss: Any = self._problem.weighted_loss
        curvature = loss.curvature(rho)
        if not self._problem.loss.is_quadratic:
            if not curvature.any():
                self.damping = max(self.damping, LEAST_DAMPING)
            largest = loss.largest_curvature()
            if not np.isfinite(largest).all():
                largest = MOST_CURVED * curvature
            curvature = curvature + self.damping * (largest - curvature)
        if loss.couples_outputs:
            self._hessian = loss.hessian(rho, self.damping)
        n_outputs = self._problem.n_outputs
        if n_outputs == 1:
            return curvature
        return np.tile(curvature.reshape(n_outputs, -1).max(axis=0), n_outputs)

    def _balanced(self, rho: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the residual of the quadratic model with an optimal unpenalized part."""
        if self._hessian is not None:
            return self._hessian.balance(rho)
        by_output = rho.reshape(self._problem.n_outputs, -1)
        if self._problem.unpenalized is not None:
            return self._problem.unpenalized.balance(by_output.T, weights).T.ravel()
        if self._problem.intercept and weights.any():
            by_output = by_output - weights * (by_output.sum(axis=1, keepdims=True) / weights.sum())
        return by_output.ravel()

    def _extrapolate(self, points: list[Point], curvature: np.ndarray) -> Point:
        """Return an extrapolation if that lowers the objective, else the last point.

        Anderson's extrapolation (Bertrand and Massias 2021): the affine combination with the
        smallest combined step.
        """
        last = points[-1]
        steps = np.array([after.w - before.w for before, after in pairwise(points)])
        products = steps @ steps.T
        add_to_diagonal(products, 1e-12 * np.trace(products) + 1e-300)
        weights = np.linalg.solve(products, np.ones(len(steps)))
        weights /= weights.sum()
        w = sum(weight * point.w for weight, point in zip(weights, points[1:]))
        rho = sum(weight * point.rho for weight, point in zip(weights, points[1:]))
        self.extrapolated = rho
        if self._objective_change(last, Point(w, rho), curvature) < 0:
            return Point(w, rho.copy())
        return last

    def _objective_change(self, before: Point, after: Point, curvature: np.ndarray) -> float:
        """Return the change of the quadratic model with its penalty between two points."""
        if curvature.all() and self._hessian is None:
            squares = after.rho * after.rho - before.rho * before.rho
            change = 0.5 * float((squares / curvature).sum())
        else:
            moves = self._working_set.outputs(after.w - before.w)
            change = -0.5 * float((after.rho + before.rho) @ moves)
        gauge = self._working_set.gauge
        norms_before = gauge.norms(before.w)
        norms_after = gauge.norms(after.w)
        change += self._penalty.threshold * float((norms_after - norms_before).sum())
        if self._penalty.ridge:
            squares = norms_after**2 - norms_before**2
            change += 0.5 * self._penalty.ridge * float(squares.sum())
        return change

    def adapt_damping(self, n_halvings: int) -> None:
        """Damp the next round more if this one was halved, and less otherwise."""
        if n_halvings:
            self.damping = min(max(LEAST_DAMPING, 10.0 * self.damping), 1.0)
        else:
            self.damping = 0.1 * self.damping if self.damping > LEAST_DAMPING else 0.0

    def _newton_price(self, groups: np.ndarray) -> float:
        """Return the cost of a Newton system of these groups, in sweeps over the groups.

        For a columns of e entries, inner products take :math:`a^2 e` operations and the system
        :math:`a^3`; a sweep takes :math:`4 a e` for each output.
        """
        if self._hessian is not None:
            return SWEEPS_PER_STEP
        a = int(self._sizes[groups].sum())
        return a * (1.0 + a / self._entries) / (4.0 * FASTER_FACTORS * self._problem.n_outputs)

    def _solve_groups(
        self, groups: np.ndarray, w: np.ndarray, rho: np.ndarray, weights: np.ndarray
    ) -> None:
        """Minimise the quadratic model over these groups; update ``w`` (k K,).

        Take one Newton step if outputs are coupled.
        """
        n_outputs = self._problem.n_outputs
        sizes = self._sizes[groups]
        indices = np.flatnonzero(np.repeat(np.isin(self._groups, groups), self._sizes))
        columns = self._working_set.matrix[:, indices]
        by_output = w.reshape(-1, n_outputs)
        w_of_groups = by_output[indices]
        if self._hessian is not None:
            if len(indices):
                coupled_model = CoupledModel(
                    columns=columns,
                    hessian=self._hessian,
                    rho=rho,
                    penalty=self._penalty,
                    w=w_of_groups.ravel(),
                    blocks=Blocks(sizes * n_outputs),
                )
                by_output[indices] += coupled_model.newton_step()
            return
        bases = self._working_set.eigenbases.arrays
        model = QuadraticModel(
            gram=inner_products(columns, weights, self._basis),
            starts=np.append(0, np.cumsum(sizes)),
            groups=groups,
            bases=bases,
            values=bases.values[indices],
            penalty=self._penalty,
        )
        correlations = np.ascontiguousarray(rho.reshape(n_outputs, -1) @ columns)
        model.minimise(w_of_groups, correlations, worth=LEAST_GAIN)
        by_output[indices] = w_of_groups
