"""Rounds of coordinate descent on a working set: a cheap way to the support, before Newton steps."""

from typing import Any

import numpy as np
from scipy import sparse

from omkl.batch.design._jit_sweeps import LARGEST_BASIS, minimise_quadratic, sweep_dense, sweep_sparse
from omkl.batch.design.problem import DesignProblem
from omkl.batch.design.working_set import WorkingSet

#: Sweeps of a round, while they gain this share of what the first did.
MOST_SWEEPS, WORTH = 20, 0.05
#: A sweep takes the time of so many times its operations in products and factors of matrices.
FASTER_FACTORS = 5.0
#: Most sweeps over the active groups alone, while they gain this share of the most that one did; and how many of
#: them go between two Newton steps.
MOST_INNER_SWEEPS, LEAST_GAIN, EVERY = 100, 1e-4, 10
#: The first damping where the quadratic model has misled, as a share of the way to the loss's largest curvature.
LEAST_DAMPING = 1e-3


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

    Attributes
    ----------
    damping : float in [0, 1]
        Where it is 1 the second derivatives are the loss's largest, and no round increases the objective.
    """

    def __init__(self, problem: DesignProblem, working_set: WorkingSet) -> None:
        self._problem, self._working_set, self._blocks = problem, working_set, working_set.blocks
        self._starts = np.append(working_set.blocks.starts, len(working_set.columns))
        self._groups = np.arange(len(working_set.groups))
        elastic: Any = problem.regularizer.elastic  # which the solver asks for
        slope, curvature = elastic
        self._penalty = problem.penalty * slope, problem.penalty * curvature
        matrix: Any = working_set.matrix
        self._matrix: tuple[Any, ...]
        if sparse.issparse(matrix):
            self._matrix, self._sweep = (matrix.data, matrix.indices, matrix.indptr), sweep_sparse
        else:
            self._matrix, self._sweep = (matrix.T,), sweep_dense
        sizes = working_set.blocks.sizes
        stored = np.where((sizes > 1) & (sizes <= LARGEST_BASIS), sizes**2, 0)
        self._offsets = np.append(0, np.cumsum(stored))
        self._bases, self._eigenvalues = np.empty(self._offsets[-1]), np.empty(len(working_set.columns))
        self._is_known = np.zeros(len(sizes), dtype=bool)
        self._curvature: Any = None
        self.damping = 0.0

    def round(self, w: np.ndarray, outputs: np.ndarray) -> np.ndarray:
        """Coefficients (k,) after a round from those given, which predict ``outputs`` (m,)."""
        loss = self._problem.weighted_loss
        w, rho = w.copy(), loss.dual_point(outputs)
        curvature = loss.curvature(rho)
        if not curvature.any():
            self.damping = max(self.damping, LEAST_DAMPING)
        curvature += self.damping * (loss.weights * loss.loss.curvature - curvature)
        if self._curvature is None or not np.array_equal(curvature, self._curvature):
            self._curvature = curvature
            self._is_known[:] = False
        groups, first = self._groups, None
        for sweeps in range(1, MOST_SWEEPS + 1):
            gained = self._sweep(
                *self._matrix, self._starts, groups, curvature, self._bases, self._offsets, self._eigenvalues,
                self._is_known, *self._penalty, w, rho,
            )  # fmt: skip
            if self._problem.intercept and curvature.any():
                rho -= curvature * (rho.sum() / curvature.sum())
            first = gained if first is None else first
            groups = np.flatnonzero(self._blocks.norms(w))
            if sweeps > self._price(groups):
                self._solve_groups(groups, w, rho)
                break
            if gained <= WORTH * first:
                break
        return w

    def learn(self, halved: int) -> None:
        """Damp the next round more if this one had to be shortened, and less if not."""
        if halved:
            self.damping = min(max(LEAST_DAMPING, 10.0 * self.damping), 1.0)
        else:
            self.damping = 0.1 * self.damping if self.damping > LEAST_DAMPING else 0.0

    def _price(self, groups: np.ndarray) -> float:
        """Sweeps over these groups that take the time of their inner products and a Newton system.

        With a columns of e entries they are :math:`a^2 e` and :math:`a^3` operations, and a sweep is :math:`4 a e`.
        """
        columns, entries = self._blocks.sizes[groups].sum(), self._matrix[0].size / len(self._starts)
        return columns * (1.0 + columns / entries) / (4.0 * FASTER_FACTORS)

    def _solve_groups(self, groups: np.ndarray, w: np.ndarray, rho: np.ndarray) -> None:
        """Minimise the quadratic model over these groups alone, in place."""
        chosen = np.zeros(len(self._groups), dtype=bool)
        chosen[groups] = True
        indices = np.flatnonzero(self._blocks.spread(chosen))
        columns = self._working_set.matrix[:, indices]
        gram = self._working_set.gram(indices, self._curvature, columns)
        if self._problem.intercept:
            means = columns.T @ self._curvature
            gram = gram - np.outer(means, means) / self._curvature.sum()
        found, starts = w[indices], np.append(0, np.cumsum(self._blocks.sizes[groups]))
        minimise_quadratic(
            gram, starts, groups, self._bases, self._offsets, self._eigenvalues[indices], *self._penalty, found,
            columns.T @ rho, MOST_INNER_SWEEPS, LEAST_GAIN, EVERY,
        )  # fmt: skip
        w[indices] = found
