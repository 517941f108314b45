"""Rounds of coordinate descent on quadratic models: a cheap method to find the support before
Newton steps.
"""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from omkl.batch.group_lasso import _jit_sweeps as jit
from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.group_lasso.problem import DesignProblem
from omkl.batch.group_lasso.working_set import WorkingSet, inner_products
from omkl.batch.weighted_loss import MultinomialHessian

#: Maximum number of sweeps, sweeps between Newton steps, and maximum number of halvings of a Newton
#: step.
MODEL_SWEEPS, EVERY, HALVINGS = 100, 10, 3
#: Ridge on inner products for duplicate columns, as a share of the sum of eigenvalues; and the
#: size, relative to the threshold, below which the direction of a group is unreliable.
TINY = 1e-12
#: Relative residual of a Newton step of a coupled loss, and maximum number of products for it.
CLOSE, MOST_PRODUCTS = 1e-2, 50


class QuadraticModel(NamedTuple):
    r""":math:`w^\top G w / 2 - c^\top w` for several outputs, with a threshold and a ridge on the
    norms of groups.

    Parameters
    ----------
    gram : C-ordered array of shape (K, K)
        Inner products of the k columns, in the first k rows and columns.
    starts : int array of shape (g + 1,)
        Index of the first column of each group, and k.
    groups : int array of shape (g,)
        Indices of the groups in ``bases``.
    bases : Bases or None
        Computed bases of all groups.
    values : array of shape (k,)
        Eigenvalues of these groups.
    threshold, ridge : float
    """

    gram: np.ndarray
    starts: np.ndarray
    groups: np.ndarray
    bases: jit.Bases | None
    values: np.ndarray
    threshold: float
    ridge: float

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
        largest, made, is_over = 0.0, 0, False
        # None in place of the bases of single columns: less to compile, and faster
        model = (
            self._replace(bases=None)
            if len(self.groups) == self.starts[-1] and w.shape[1] == 1
            else self
        )
        while not is_over and made < MODEL_SWEEPS:
            state = w, correlations, square, target
            sweeps, is_over, square, largest = jit.sweep_products(
                model, *state, EVERY, worth, largest
            )
            made += sweeps
            if not is_over:
                square = self._newton_step(w, correlations, square)

    def _newton_step(self, w: np.ndarray, correlations: np.ndarray, square: float) -> float:
        """Take a Newton step in the nonzero groups, unless the system is singular; groups never
        move past zero.
        """
        sizes, size = np.diff(self.starts), self.starts[-1]
        largest = np.maximum.reduceat(self.values, self.starts[:-1])
        moving = largest * Blocks(sizes).norms(np.linalg.norm(w, axis=1)) > TINY * self.threshold
        indices, blocks = np.flatnonzero(np.repeat(moving, sizes)), Blocks(sizes[moving])
        gram, own, seen = (
            self.gram[np.ix_(indices, indices)],
            w[indices],
            correlations[:, indices].T,
        )
        norms = blocks.norms(np.linalg.norm(own, axis=1))
        slopes = blocks.spread(self.threshold / norms)
        # the norm of a group has curvature orthogonal to its ray
        curved = (
            slopes if w.shape[1] > 1 else np.where(blocks.spread(blocks.sizes) > 1, slopes, 0.0)
        )
        system = gram.copy()
        system[np.diag_indices_from(system)] += curved + self.ridge + TINY * self.values.sum()
        rays = np.sqrt(curved)[:, None] * own / blocks.spread(norms)[:, None]
        try:
            step = _solved_beside_rays(
                system, blocks, rays, seen - (self.ridge + slopes)[:, None] * own
            )
        except np.linalg.LinAlgError:
            return square
        for _ in range(HALVINGS if len(indices) else 0):
            after = own + step
            after[blocks.spread(blocks.sums((own * after).sum(axis=1)) <= 0.0)] = 0.0
            moves, after_norms = after - own, blocks.norms(np.linalg.norm(after, axis=1))
            change = self.threshold * (after_norms - norms).sum()
            change += 0.5 * self.ridge * (after_norms**2 - norms**2).sum()
            if change + 0.5 * (moves * (gram @ moves)).sum() < (moves * seen).sum():
                w[indices] = after
                correlations -= moves.T @ self.gram[indices, :size]
                return square - float((moves * (seen + correlations[:, indices].T)).sum())
            step *= 0.5
        return square


def _solved_beside_rays(
    system: np.ndarray, blocks: Blocks, rays: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Solve with the system, shared by all outputs, minus the outer product of each group's ray,
    (a, K).

    For several outputs use Woodbury's identity, because there are few rays.
    """
    if right.shape[1] == 1:
        labels = blocks.spread(np.arange(len(blocks.sizes)))
        system -= np.where(labels[:, None] == labels, rays @ rays.T, 0.0)
        return np.linalg.solve(system, right)
    inverse = np.linalg.inv(system)
    step = inverse @ right
    small = -blocks.sums(blocks.sums(inverse * (rays @ rays.T)).T)
    small[np.diag_indices_from(small)] += 1.0 + TINY
    shares = np.linalg.solve(small, blocks.sums((rays * step).sum(axis=1)))
    return step + inverse @ (blocks.spread(shares)[:, None] * rays)


def coupled_newton_step(
    columns: Matrix,
    hessian: MultinomialHessian,
    rho: np.ndarray,
    penalty: jit.Penalty,
    w: np.ndarray,
    blocks: Blocks,
) -> np.ndarray:
    """Return a Newton step (a, K) over some columns, with a loss that couples the outputs, by
    conjugate gradients.

    Groups that it would move past zero become zero. The step is 0 if it does not lower the
    objective.

    Parameters
    ----------
    columns : array (m, a), or CSC matrix
    hessian : MultinomialHessian
    rho : array of shape (K m,)
        The residual, with an optimal unpenalized part.
    penalty : Penalty
        Weights of the norms of the groups, and of half their squares.
    w : array of shape (a K,)
        Coefficients of nonzero groups.
    blocks : Blocks
    """
    n_outputs, slope, ridge = len(hessian.shares), penalty.threshold, penalty.ridge

    def with_columns(residual: np.ndarray) -> np.ndarray:
        """Return the correlations (a K,) of the columns with a residual (K m,)."""
        return (columns.T @ residual.reshape(n_outputs, -1).T).ravel()

    def curved(v: np.ndarray) -> np.ndarray:
        """Return the second derivatives times a vector (a K,)."""
        outputs = (columns @ v.reshape(-1, n_outputs)).T.ravel()
        return with_columns(hessian.balance(hessian @ outputs))

    correlations, norms = with_columns(rho), blocks.norms(w)
    unit, across = w / blocks.spread(norms), blocks.spread(slope / norms)

    def times(v: np.ndarray) -> np.ndarray:
        # the norm of a group has curvature orthogonal to its ray
        return (
            curved(v) + (ridge + across) * v - across * unit * blocks.spread(blocks.sums(unit * v))
        )

    squares = columns.multiply(columns) if sparse.issparse(columns) else columns**2
    diagonal = (squares.T @ hessian.diagonal.T).ravel() + ridge + across * (1.0 - unit**2)
    inverse = 1.0 / np.maximum(diagonal, 1e-12 * diagonal.max())
    shape = (len(w), len(w))
    right = correlations - ridge * w - slope * unit
    system, inverses = (
        LinearOperator(shape, times, dtype=float),
        LinearOperator(shape, lambda v: inverse * v),
    )
    step, _ = cg(system, right, rtol=CLOSE, maxiter=MOST_PRODUCTS, M=inverses)
    for _ in range(HALVINGS):
        after = np.where(blocks.spread(blocks.sums(w * (w + step))) > 0, w + step, 0.0)
        moves, after_norms = after - w, blocks.norms(after)
        change = (
            slope * (after_norms - norms).sum() + 0.5 * ridge * (after_norms**2 - norms**2).sum()
        )
        if change + 0.5 * moves @ curved(moves) < moves @ correlations:
            return moves.reshape(-1, n_outputs)
        step *= 0.5
    return np.zeros((columns.shape[1], n_outputs))


#: Maximum number of sweeps of a round, which ends when a sweep gains at most this share of the
#: first.
MOST_SWEEPS, WORTH = 20, 0.01
#: Number of points of an extrapolation.
EXTRAPOLATED = 5
#: Speed of matrix products and factorizations, relative to sweeps with as many operations.
FASTER_FACTORS = 5.0
#: Share of the largest gain at which sweeps over inner products of active groups end.
LEAST_GAIN = 1e-4
#: First damping after a poor quadratic model, as a share of the distance to the loss's largest
#: curvature; substitute for an unbounded largest curvature, as a multiple of the present one.
LEAST_DAMPING, MOST_CURVED = 1e-3, 1e3
#: Sweeps before a Newton step if the loss couples outputs.
SWEEPS_PER_STEP = 2
#: Coupling of a diagonal Hessian.
UNCOUPLED = jit.Coupling(np.empty((0, 0)), np.empty(0), 0.0)


class Sweeps:
    r"""Coordinate descent on a quadratic model of the loss, group by group.

    A round computes the second derivatives h of the loss at the present predictions. It sweeps once
    over all groups and then over the active ones. The step of a group minimises the model over the
    group exactly, in the eigenbasis of
    :math:`B_g^\top \mathrm{diag}(h) B_g`, and updates the dual point :math:`\rho`. On badly conditioned designs, Newton
    steps on the inner products of the active columns replace sweeps once the sweeps have cost as
    much.

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
        self._problem, self._working_set = problem, working_set
        self._starts = working_set.column_blocks.bounds
        self._groups = np.arange(len(working_set.groups))
        slope, curvature = problem.regularizer.elastic or (
            0.0,
            0.0,
        )  # solvers require an elastic regularizer
        self._penalty = problem.penalty * slope, problem.penalty * curvature
        self.extrapolated: np.ndarray | None = None
        self.damping, self._worth = 0.0, worth
        #: The columns, and their mean number of stored entries.
        self._columns = working_set.compiled_columns
        self._entries = working_set.entries.size / max(self._starts[-1], 1)
        gauge, nothing = working_set.gauge, np.empty(0)
        norm_weights, l1_weights = (
            (nothing, nothing) if gauge.is_euclidean else (gauge.norm_weights, gauge.l1_weights)
        )
        self._compiled_penalty = jit.Penalty(
            *self._penalty, norm_weights, l1_weights, gauge.positive
        )
        #: A basis of the unpenalized part.
        self._free = np.ones((working_set.matrix.shape[0], 1)) if problem.intercept else None
        if problem.unpenalized is not None:
            self._free = problem.unpenalized.basis
        #: Hessian of a loss that couples outputs.
        self._hessian: Any = None

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
        working_set, n_outputs = self._working_set, self._problem.n_outputs
        w, rho = w.copy(), self._problem.weighted_loss.dual_point(outputs)
        curvature = self._curvature(rho)
        weights = curvature[: len(rho) // n_outputs]
        working_set.eigenbases.weigh(weights)
        if self._takes_products(weights):
            if correlations is None or len(correlations) < len(w):
                correlations = working_set.correlations(rho[None])[0]
            bases = working_set.eigenbases.of(working_set.matrix, self._starts, weights)
            gram = working_set.products.of(working_set.matrix, weights, self._free)
            model = QuadraticModel(
                gram, self._starts, self._groups, bases, bases.values, *self._penalty
            )
            by_output = np.ascontiguousarray(correlations.reshape(-1, n_outputs).T)
            square = float((rho * rho / curvature).sum())
            model.minimise(
                w.reshape(-1, n_outputs), by_output, square=square, target=target, worth=0.0
            )
            return w
        groups, first, met = self._groups, None, [(w.copy(), rho.copy())]
        bases, coupling = working_set.eigenbases.arrays, UNCOUPLED
        if self._hessian is not None:
            coupling = jit.Coupling(self._hessian.shares, self._hessian.weights, self.damping)
        model = weights, bases, coupling, self._compiled_penalty
        for sweeps in range(1, MOST_SWEEPS + 1):
            by_output = w.reshape(-1, n_outputs), rho.reshape(n_outputs, -1)
            gained = jit.sweep(self._columns, self._starts, groups, *model, *by_output)
            rho = self._balanced(rho, weights)
            first = gained if first is None else first
            met.append((w.copy(), rho.copy()))
            if len(met) > EXTRAPOLATED:
                w, rho = self._extrapolate(met, curvature)
                met = [(w.copy(), rho.copy())]
            groups = np.flatnonzero(working_set.blocks.norms(w))
            if working_set.gauge.is_euclidean and sweeps > self._newton_price(groups):
                self._solve_groups(groups, w, rho, weights)
                break
            if gained <= WORTH * first:
                break
        return w

    def _takes_products(self, weights: np.ndarray) -> bool:
        """Return whether to sweep over the inner products of all columns.

        They must be known, or save more time than they cost. For k columns, f of them new, they
        take
        :math:`f (2 k - f) m` operations, and a sweep takes :math:`4 k m` for each output.
        """
        if not (self._problem.loss.is_quadratic and self._working_set.gauge.is_euclidean):
            return False
        columns, entries = self._starts[-1], self._entries
        new = columns - self._working_set.products.known(weights)
        price = (
            new * (2 * columns - new) / (4.0 * FASTER_FACTORS * columns * self._problem.n_outputs)
        )
        return bool(
            columns <= entries
            and price <= self._worth
            and np.diff(self._starts).max() <= jit.LARGEST_BASIS
        )

    def _curvature(self, rho: np.ndarray) -> np.ndarray:
        """Return damped second derivatives of the losses at a dual point, or bounds shared by all
        outputs, (K m,).
        """
        loss: Any = self._problem.weighted_loss
        curvature = loss.curvature(rho)
        if not self._problem.loss.is_quadratic:
            if not curvature.any():
                self.damping = max(self.damping, LEAST_DAMPING)
            largest = loss.largest_curvature()
            largest = largest if np.isfinite(largest).all() else MOST_CURVED * curvature
            curvature = curvature + self.damping * (largest - curvature)
        if loss.couples_outputs:
            self._hessian = loss.hessian(rho, self.damping)
        n_outputs = self._problem.n_outputs
        return (
            curvature
            if n_outputs == 1
            else np.tile(curvature.reshape(n_outputs, -1).max(axis=0), n_outputs)
        )

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

    def _extrapolate(
        self, met: list[tuple[np.ndarray, np.ndarray]], curvature: np.ndarray
    ) -> tuple:
        """Extrapolate coefficients and residual if that lowers the objective; else return the last
        ones.

        Anderson's extrapolation (Bertrand and Massias 2021): the affine combination with the
        smallest combined step.
        """
        last_w, last_rho = met[-1]
        steps = np.array([after - before for (before, _), (after, _) in pairwise(met)])
        products = steps @ steps.T
        products[np.diag_indices_from(products)] += 1e-12 * np.trace(products) + 1e-300
        weights = np.linalg.solve(products, np.ones(len(steps)))
        weights /= weights.sum()
        w = sum(weight * point for weight, (point, _) in zip(weights, met[1:]))
        rho = sum(weight * point for weight, (_, point) in zip(weights, met[1:]))
        self.extrapolated = rho
        if curvature.all() and self._hessian is None:
            change = 0.5 * float(((rho * rho - last_rho * last_rho) / curvature).sum())
        else:
            change = -0.5 * float((rho + last_rho) @ self._working_set.outputs(w - last_w))
        gauge = self._working_set.gauge
        norms, last_norms = gauge.norms(w), gauge.norms(last_w)
        slope, quadratic = self._penalty
        change += slope * float((norms - last_norms).sum())
        if quadratic:
            change += 0.5 * quadratic * float((norms**2 - last_norms**2).sum())
        return (w, rho.copy()) if change < 0 else (last_w, last_rho)

    def learn(self, halved: int) -> None:
        """Damp the next round more if this one was halved, and less otherwise."""
        if halved:
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
        columns, entries = int(np.diff(self._starts)[groups].sum()), self._entries
        return (
            columns * (1.0 + columns / entries) / (4.0 * FASTER_FACTORS * self._problem.n_outputs)
        )

    def _solve_groups(
        self, groups: np.ndarray, w: np.ndarray, rho: np.ndarray, weights: np.ndarray
    ) -> None:
        """Minimise the quadratic model over these groups, in place; take one Newton step if outputs
        are coupled.
        """
        n_outputs, sizes = self._problem.n_outputs, np.diff(self._starts)
        coefficients, chosen = w.reshape(-1, n_outputs), np.zeros(len(self._groups), dtype=bool)
        chosen[groups] = True
        indices = np.flatnonzero(np.repeat(chosen, sizes))
        columns = self._working_set.matrix[:, indices]
        if self._hessian is not None:
            if len(indices):
                parts = (
                    self._compiled_penalty,
                    coefficients[indices].ravel(),
                    Blocks(sizes[groups] * n_outputs),
                )
                coefficients[indices] += coupled_newton_step(columns, self._hessian, rho, *parts)
            return
        gram = inner_products(columns, weights, self._free)
        bases = self._working_set.eigenbases.arrays
        found, starts = coefficients[indices], np.append(0, np.cumsum(sizes[groups]))
        model = QuadraticModel(gram, starts, groups, bases, bases.values[indices], *self._penalty)
        by_output = np.ascontiguousarray(rho.reshape(n_outputs, -1) @ columns)
        model.minimise(found, by_output, worth=LEAST_GAIN)
        coefficients[indices] = found
