"""Rounds of coordinate descent on a working set: a cheap way to the support, before Newton steps."""

from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from omkl.batch.design._jit_mixed_sweeps import sweep_mixed_dense, sweep_mixed_sparse
from omkl.batch.design._jit_sweeps import (
    LARGEST_BASIS,
    decompose_dense,
    decompose_sparse,
    sweep_dense,
    sweep_sparse,
)
from omkl.batch.design.problem import DesignProblem
from omkl.batch.design.quadratic import QuadraticModel
from omkl.batch.design.working_set import WorkingSet

#: Sweeps of a round, while they gain this share of what the first did.
MOST_SWEEPS, WORTH = 20, 0.01
#: Points that an extrapolation rests on, of which the last may be its outcome.
EXTRAPOLATED = 5
#: A sweep takes the time of so many times its operations in products and factors of matrices.
FASTER_FACTORS = 5.0
#: Sweeps over inner products of active groups go on while they gain this share of the most that one did.
LEAST_GAIN = 1e-4
#: The first damping where the quadratic model has misled, as a share of the way to the loss's largest curvature; where
#: that is not bounded, to so many times the present one.
LEAST_DAMPING, MOST_CURVED = 1e-3, 1e3


class Sweeps:
    r"""Coordinate descent on a quadratic model of the loss, group by group.

    A round takes the loss's second derivatives h at the present predictions, sweeps once over all groups and then over
    the active ones. A group's step minimises the model over it exactly, in the eigenbasis of
    :math:`B_g^\top \mathrm{diag}(h) B_g`; the dual point :math:`\rho` is kept up to date. Sweeps that have gone on for
    as long as it takes to form the inner products of the active columns and a Newton system, as they do on badly
    conditioned designs, give way to just that.

    Parameters
    ----------
    problem : DesignProblem
    working_set : WorkingSet
    worth : float
        Sweeps over the working set that the inner products of its columns are worth.

    Attributes
    ----------
    extrapolated : array of shape (m,) or None
        The residual of the last extrapolation: often the better dual point.
    sweeps : int
        That were made so far.
    damping : float in [0, 1]
        Where it is 1 the second derivatives are the loss's largest, where these are bounded, and no round increases the
        objective.
    """

    #: Whether second derivatives of the loss are those of one prediction at a time.
    _is_diagonal = True

    def __init__(self, problem: DesignProblem, working_set: WorkingSet, worth: float = 0.0) -> None:
        self._problem, self._working_set, self._blocks = problem, working_set, working_set.blocks
        self._starts = np.append(working_set.blocks.starts, len(working_set.columns))
        self._groups = np.arange(len(working_set.groups))
        elastic: Any = problem.regularizer.elastic  # which the solver asks for
        slope, curvature = elastic
        self._penalty = problem.penalty * slope, problem.penalty * curvature
        self.extrapolated: np.ndarray | None = None
        self.sweeps = 0
        self.damping, self._worth = 0.0, worth
        self._bind()

    def _bind(self) -> None:
        """Choose the loop that sweeps, and what it reads."""
        matrix: Any = self._working_set.matrix
        is_sparse, mixed = sparse.issparse(matrix), self._working_set.mixed
        self._matrix: tuple[Any, ...] = (matrix.data, matrix.indices, matrix.indptr) if is_sparse else (matrix.T,)
        self._sweep: Any = sweep_sparse if is_sparse else sweep_dense
        self._weights: tuple[Any, ...] = self._penalty
        if mixed is not None:
            self._sweep = sweep_mixed_sparse if is_sparse else sweep_mixed_dense
            weights = mixed.norm_weights, mixed.l1_weights
            self._weights = self._penalty[0], *weights, self._penalty[1], mixed.positive

    def round(
        self, w: np.ndarray, outputs: np.ndarray, correlations: np.ndarray | None = None, target: float = 0.0
    ) -> np.ndarray:
        """Coefficients after a round.

        Parameters
        ----------
        w : array of shape (k,)
            Coefficients to start from.
        outputs : array of shape (m,)
            Their predictions, at the best intercept.
        correlations : array, optional
            Those of columns with the dual point of these predictions, where they are known.
        target : float
            Absolute gap over the working set at which sweeps over inner products end.
        """
        loss = self._problem.weighted_loss
        w, rho = w.copy(), loss.dual_point(outputs)
        curvature = self._curvature(rho)
        bases, weights = self._working_set.eigenbases, self._arrays(w, rho, curvature)[2]
        bases.weigh(weights)
        if self._takes_products(weights):
            if correlations is None or len(correlations) < len(w):
                correlations = self._working_set.correlations(rho[None])[0]
            self.sweeps += self._sweep_products(w, correlations, float((rho * rho / curvature).sum()), weights, target)
            return w
        groups, first, met = self._groups, None, [(w.copy(), rho.copy())]
        for sweeps in range(1, MOST_SWEEPS + 1):
            coefficients, residual, weights = self._arrays(w, rho, curvature)
            gained = self._sweep(
                *self._matrix, self._starts, groups, weights, *self._bases(groups, weights), *self._weights,
                coefficients, residual,
            )  # fmt: skip
            rho = self._balanced(rho, curvature)
            first = gained if first is None else first
            met.append((w.copy(), rho.copy()))
            if len(met) > EXTRAPOLATED:
                w, rho = self._extrapolate(met, curvature)
                met = [(w.copy(), rho.copy())]
            groups = np.flatnonzero(self._blocks.norms(w))
            if self._working_set.mixed is None and sweeps > self._price(groups):
                self._solve_groups(groups, w, rho, curvature)
                break
            if gained <= WORTH * first:
                break
        self.sweeps += sweeps
        return w

    def _takes_products(self, weights: np.ndarray) -> bool:
        """Whether sweeps go over the inner products of all columns, which are known or take no longer than they save.

        Of k columns, f of which are new, they are :math:`f (2 k - f) m` operations, and a sweep is :math:`4 k m` for
        each output.
        """
        if not self._problem.loss.is_quadratic or self._working_set.mixed is not None:
            return False
        columns, entries = self._starts[-1], self._matrix[0].size / max(self._starts[-1], 1)
        new = columns - self._working_set.products.known(weights)
        price = new * (2 * columns - new) / (4.0 * FASTER_FACTORS * columns * self._problem.n_outputs)
        return bool(columns <= entries and price <= self._worth and np.diff(self._starts).max() <= LARGEST_BASIS)

    def _sweep_products(
        self, w: np.ndarray, correlations: np.ndarray, square: float, weights: np.ndarray, target: float
    ) -> int:
        """Minimise the model over all groups, by the inner products of their columns, in place; how many sweeps."""
        problem, working_set, free = self._problem, self._working_set, None
        if problem.unpenalized is not None:
            free = problem.unpenalized.basis
        elif problem.intercept:
            free = np.ones((len(weights), 1))
        self._decompose(self._groups, weights)
        bases = working_set.eigenbases
        model = QuadraticModel(
            working_set.products.of(working_set.matrix, weights, free), self._starts, self._groups, bases, bases.values,
            self._penalty,
        )  # fmt: skip
        by_output = np.ascontiguousarray(correlations.reshape(-1, problem.n_outputs).T)
        return model.minimise(w.reshape(-1, problem.n_outputs), by_output, square=square, target=target, worth=0.0)

    def _decompose(self, groups: np.ndarray, weights: np.ndarray) -> None:
        """Find the eigenbases of these groups."""
        decompose = decompose_sparse if sparse.issparse(self._working_set.matrix) else decompose_dense
        bases = self._working_set.eigenbases
        decompose(
            *self._matrix, self._starts, groups, weights, bases.vectors, bases.offsets, bases.values, bases.is_known
        )

    def _bases(self, groups: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
        """The eigenbases as the loop reads them, for groups that it goes over."""
        bases = self._working_set.eigenbases
        return bases.vectors, bases.offsets, bases.values, bases.is_known

    def _arrays(self, w: np.ndarray, rho: np.ndarray, curvature: np.ndarray) -> tuple[np.ndarray, ...]:
        """Coefficients, residual and curvature as the loop reads them, and changes the first two."""
        return w, rho, curvature

    def _curvature(self, rho: np.ndarray) -> np.ndarray:
        """Second derivatives of the losses at a dual point, (m,), damped."""
        loss = self._problem.weighted_loss
        curvature = loss.curvature(rho)
        if self._problem.loss.is_quadratic:
            return curvature
        if not curvature.any():
            self.damping = max(self.damping, LEAST_DAMPING)
        largest = loss.largest_curvature()
        largest = largest if np.isfinite(largest).all() else MOST_CURVED * curvature
        return curvature + self.damping * (largest - curvature)

    def _balanced(self, rho: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """The residual of the quadratic model once what is not regularized is best."""
        if self._problem.unpenalized is not None:
            return self._problem.unpenalized.balance(rho, curvature)
        if self._problem.intercept and curvature.any():
            rho -= curvature * (rho.sum() / curvature.sum())
        return rho

    def _extrapolate(self, met: list[tuple[np.ndarray, np.ndarray]], curvature: np.ndarray) -> tuple:
        """Coefficients and residual where sweeps seem to lead to, if that is lower; else where they are.

        Anderson's extrapolation (Bertrand and Massias 2021): the affine combination whose last steps cancel best.
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
        if curvature.all() and self._is_diagonal:
            change = 0.5 * float(((rho * rho - last_rho * last_rho) / curvature).sum())
        else:
            change = -0.5 * float((rho + last_rho) @ self._working_set.outputs(w - last_w))
        norms, last_norms = self._working_set.norms(w), self._working_set.norms(last_w)
        slope, quadratic = self._penalty
        change += slope * float((norms - last_norms).sum()) + 0.5 * quadratic * float((norms**2 - last_norms**2).sum())
        return (w, rho.copy()) if change < 0 else (last_w, last_rho)

    def learn(self, halved: int) -> None:
        """Damp the next round more if this one had to be shortened, and less if not."""
        if halved:
            self.damping = min(max(LEAST_DAMPING, 10.0 * self.damping), 1.0)
        else:
            self.damping = 0.1 * self.damping if self.damping > LEAST_DAMPING else 0.0

    def price(self, w: np.ndarray) -> float:
        """Sweeps over the groups that are not zero that take the time of a Newton step on the side of the samples or
        the columns, whichever is smaller."""
        columns, entries = np.count_nonzero(w), self._matrix[0].size / len(self._starts)
        return min(columns, len(self._problem.y)) * (1.0 + columns / entries) / (4.0 * FASTER_FACTORS)

    def _price(self, groups: np.ndarray) -> float:
        """Sweeps over these groups that take the time of their inner products and a Newton system.

        With a columns of e entries they are :math:`a^2 e` and :math:`a^3` operations, and a sweep is :math:`4 a e` for
        each output.
        """
        columns, entries = np.diff(self._starts)[groups].sum(), self._matrix[0].size / len(self._starts)
        return columns * (1.0 + columns / entries) / (4.0 * FASTER_FACTORS * self._problem.n_outputs)

    def _solve_groups(self, groups: np.ndarray, w: np.ndarray, rho: np.ndarray, curvature: np.ndarray) -> None:
        """Minimise the quadratic model over these groups alone, in place."""
        coefficients, residual, curvature = self._arrays(w, rho, curvature)
        coefficients = coefficients.reshape(-1, self._problem.n_outputs)
        sizes, chosen = np.diff(self._starts), np.zeros(len(self._groups), dtype=bool)
        chosen[groups] = True
        indices = np.flatnonzero(np.repeat(chosen, sizes))
        columns = self._working_set.matrix[:, indices]
        gram = self._working_set.gram(indices, curvature, columns)
        if self._problem.unpenalized is not None:
            weighted = curvature[:, None] * self._problem.unpenalized.basis
            products = columns.T @ weighted
            gram = gram - products @ np.linalg.pinv(self._problem.unpenalized.basis.T @ weighted) @ products.T
        elif self._problem.intercept:
            means = columns.T @ curvature
            gram = gram - np.outer(means, means) / curvature.sum()
        bases = self._working_set.eigenbases
        found, starts = coefficients[indices], np.append(0, np.cumsum(sizes[groups]))
        model = QuadraticModel(gram, starts, groups, bases, bases.values[indices], self._penalty)
        by_output = np.ascontiguousarray(np.atleast_2d(residual) @ columns)
        model.minimise(found, by_output, worth=LEAST_GAIN)
        coefficients[indices] = found
