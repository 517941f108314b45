r"""Proximal steps of DAL on a working set of columns: the augmented Lagrangian, minimised by Newton
steps.

For weight :math:`1/(2\gamma)` and :math:`v = w + \gamma B^\top \rho`, the augmented Lagrangian
(Tomioka, Suzuki and Sugiyama; sections 4 and 5 of Suzuki and Tomioka 2011 with one kernel per
group)

.. math:: \varphi(\rho) = \sum_i c_i\, l^*(y_i, -\rho_i / c_i) + \frac1\gamma\Bigl(x^\top v - \frac12 \|x\|^2\Bigr)
          - \alpha \psi(x) \quad \text{subject to} \quad \sum_i \rho_i = 0, \qquad
          x = \mathrm{prox}_{\gamma \alpha \psi}(v)

has the gradient :math:`\nabla l^* + B x` and the Hessian :math:`D + \gamma B J B^\top`, in which J
is zero except on active columns. The multiplier of the equality is the intercept. Bounds and kinks
of the dual loss get a barrier.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve

from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.group_lasso.problem import DesignProblem
from omkl.batch.group_lasso.working_set import Iterate, WorkingSet, inner_products
from omkl.batch.newton import BarrierSearch, cholesky

#: Residual of a system, relative to its right side, above which the solution is refined; maximum
#: number of solutions.
WELL_SOLVED, MOST_REFINED = 1e-10, 3


@dataclass(eq=False)
class DesignTerm:
    r"""All of :math:`\varphi` except the loss, at the present :math:`\rho`; see ``BarrierSearch``.

    Parameters
    ----------
    problem : DesignProblem
    working_set : WorkingSet
    w : array of shape (k,)
        Start of the proximal step.
    gamma : float > 0
    rho, correlations : arrays of shapes (m,) and (k,)
        The point, and :math:`B^\top \rho`.

    Attributes
    ----------
    x : array of shape (k,)
        The model of the step.
    norms : array of shape (g,)
        Norms of its groups.
    """

    problem: DesignProblem
    working_set: WorkingSet
    w: np.ndarray
    gamma: float
    rho: np.ndarray
    correlations: np.ndarray

    def __post_init__(self) -> None:
        self._refresh()

    def _refresh(self) -> None:
        gauge = self.working_set.gauge
        self._v = gauge.thresholded(
            self.w + self.gamma * self.correlations, self.gamma * self.problem.penalty
        )
        self._v_norms = self.working_set.blocks.norms(self._v)
        self._radii = self._shrunk(self._v_norms)
        ratio = np.divide(
            self._radii, self._v_norms, out=np.zeros_like(self._radii), where=self._radii > 0
        )
        self.x = self._v * self.working_set.blocks.spread(ratio)
        self.norms = self._radii if gauge.is_euclidean else gauge.norms(self.x)
        self._outputs = self.working_set.outputs(self.x)

    def _shrunk(self, norms: np.ndarray) -> np.ndarray:
        shrunk = self.problem.regularizer.prox(norms, self.gamma * self.problem.penalty)
        # columns are divided by the weight of the norm, unless that is 0
        return np.where(self.working_set.gauge.norm_weights > 0, shrunk, norms)

    def gradient(self) -> np.ndarray:
        """Return predictions without the intercept, (m,)."""
        return self._outputs

    def hessian(self) -> "NewtonSystem":
        """Return the second derivatives, restricted to active columns."""
        blocks, active, gauge = (
            self.working_set.blocks,
            np.flatnonzero(self._radii),
            self.working_set.gauge,
        )
        indices, sizes = np.flatnonzero(blocks.spread(self._radii)), blocks.sizes[active]
        slopes = self.problem.regularizer.prox_slope(
            self._v_norms[active], self.gamma * self.problem.penalty
        )
        if not gauge.is_euclidean:
            indices = np.flatnonzero(self.x)
            sizes = blocks.sums((self.x != 0).astype(np.int64))[active]
            slopes = np.where(gauge.norm_weights[active] > 0, slopes, 1.0)
        parts = self._v[indices], self._v_norms[active], self._radii[active], slopes
        return NewtonSystem(self.working_set.matrix[:, indices], self.gamma, Blocks(sizes), *parts)

    def along(self, direction: np.ndarray) -> Callable[[float], float]:
        """Return the value along ``direction`` as a function of the step."""
        self._moves = self.working_set.matrix.T @ direction
        center, gauge = self.w + self.gamma * self.correlations, self.working_set.gauge

        def value(step: float) -> float:
            # the l1 penalty cancels with the part removed by soft thresholding
            moved = center + (step * self.gamma) * self._moves
            norms = self.working_set.blocks.norms(
                gauge.thresholded(moved, self.gamma * self.problem.penalty)
            )
            shrunk = self._shrunk(norms)
            envelope = float(shrunk @ (norms - 0.5 * shrunk)) / self.gamma
            penalized = np.where(gauge.norm_weights > 0, shrunk, 0.0)
            return envelope - self.problem.penalty * self.problem.regularizer.value(penalized)

        return value

    def move(self, step: float, rho: np.ndarray) -> None:
        """Move by ``step`` along the last direction, to ``rho``."""
        self.rho = rho
        self.correlations = self.correlations + step * self._moves
        self._refresh()


class ProximalNewton(BarrierSearch):
    """Proximal steps on a working set, with growing weights, from a model and a dual point; keeps
    the best model.

    Parameters
    ----------
    problem : DesignProblem
    working_set : WorkingSet
    start : Iterate
        A model, and a dual point in the domain of the loss.
    gamma, growth : float
        The first weight, and its factor of growth.

    Attributes
    ----------
    w, rho : arrays
        Best model and best dual point so far.
    newton_steps : int
    """

    keeps_best = True

    def __init__(
        self,
        problem: DesignProblem,
        working_set: WorkingSet,
        start: Iterate,
        gamma: float,
        growth: float,
    ) -> None:
        super().__init__(problem, start.rho, start.b, start.gap * abs(start.primal))
        self.gamma, self.growth, self.w, self.rho = gamma, growth, start.w, start.rho
        rho = self.dual_loss.rho(self.x)
        self.term = DesignTerm(
            problem, working_set, start.w, gamma, rho, working_set.matrix.T @ rho
        )

    def proximal_step(self) -> None:
        term = self.term
        self.gamma *= self.growth
        self.term = DesignTerm(
            self.problem, term.working_set, term.x, self.gamma, term.rho, term.correlations
        )

    def dual_norms(self) -> np.ndarray:
        return self.term.working_set.gauge.dual_norms(self.term.correlations)

    def model_norms(self) -> np.ndarray:
        return self.term.norms

    def note(self, primal: float, dual: float) -> None:
        if primal < self.primal:
            self.w = self.term.x
        if dual > self.dual:
            self.rho = self.term.rho
        super().note(primal, dual)


@dataclass(eq=False)
class NewtonSystem:
    r""":math:`\gamma Q Q^\top` with :math:`Q = B S`, and linear systems with it, of the smaller
    side of Q.

    :math:`J = S^2` is the Jacobian of a proximity operator that moves blocks along their rays, on its active blocks.
    With :math:`x_g = (p_g / \|v_g\|) v_g` and :math:`p_g = \mathrm{prox}(\|v_g\|)` it is
    :math:`(p_g / \|v_g\|) (I - u u^\top) + p_g' u u^\top` with :math:`u = v_g / \|v_g\|` on each block.

    Parameters
    ----------
    B : array (m, a) or CSC matrix
        Columns.
    gamma : float
    blocks : Blocks
        The active blocks.
    v : array of shape (a,)
    norms, shrunk, slopes : arrays of one value per block
        Norms before and after the proximity operator, and its derivative.
    """

    B: Matrix
    gamma: float
    blocks: Blocks
    v: np.ndarray
    norms: np.ndarray
    shrunk: np.ndarray
    slopes: np.ndarray

    def __post_init__(self) -> None:
        along = np.sqrt(self.slopes)
        if self.blocks.single:
            # for the lasso J is the identity
            self._across = None if np.all(self.slopes == 1.0) else along
        else:
            across = np.sqrt(self.shrunk / self.norms)
            self._across = self.blocks.spread(across)
            self._excess = along - across
            self._ray = self.v / self.blocks.spread(self.norms)

    def sqrt_times(self, rows: np.ndarray) -> np.ndarray:
        """Return S times an array with one row per coordinate; the same array if S is the identity."""
        if self._across is None:
            return rows
        columns = (slice(None),) + (None,) * (rows.ndim - 1)
        product = self._across[columns] * rows
        if not self.blocks.single:
            shares = self._excess[columns] * self.blocks.sums(self._ray[columns] * rows)
            product += self._ray[columns] * self.blocks.spread(shares)
        return product

    def transposed_times(self, t: np.ndarray) -> np.ndarray:
        """Return :math:`Q^\\top t`."""
        return self.sqrt_times(self.B.T @ t)

    def __matmul__(self, t: np.ndarray) -> np.ndarray:
        return self.gamma * (self.B @ self.sqrt_times(self.transposed_times(t)))

    def solve(
        self, diagonal: np.ndarray, right: np.ndarray, equality: bool
    ) -> tuple[np.ndarray, float]:
        r"""Solve ``(self + diag(diagonal)) x + b 1 = right``, with :math:`\sum_i x_i = 0` if
        ``equality``.

        Parameters
        ----------
        diagonal : array of shape (m,)
            Positive.
        right : array of shape (m,)
        equality : bool

        Returns
        -------
        x : array of shape (m,)
        b : float
            0 without the equality.
        """
        if self.B.shape[1] <= self.B.shape[0]:
            solve = self._by_columns(1.0 / diagonal)
        else:  # the original system, of the size of the samples
            Q = self.sqrt_times((self.B.toarray() if sparse.issparse(self.B) else self.B).T)
            M = self.gamma * (Q.T @ Q)
            M[np.diag_indices_from(M)] += diagonal
            solve = partial(cho_solve, (cholesky(M), True), check_finite=False)
        ones = solve(np.ones_like(right)) if equality else np.zeros_like(right)
        x, multiplier, left = np.zeros_like(right), 0.0, right
        # refine the solution: Woodbury's identity loses digits
        for _ in range(MOST_REFINED):
            found = solve(left)
            change = float(found.sum() / ones.sum()) if equality else 0.0
            x, multiplier = x + found - change * ones, multiplier + change
            left = right - (self @ x + diagonal * x + multiplier)
            if np.linalg.norm(left) <= WELL_SOLVED * np.linalg.norm(right):
                break
        return x, multiplier

    def _by_columns(self, inverse: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Solve by Woodbury's identity: a system of the size of the active columns."""
        M = self.sqrt_times(self.sqrt_times(inner_products(self.B, inverse)).T)
        M[np.diag_indices_from(M)] += 1.0 / self.gamma
        factor = cholesky(M), True

        def solve(right: np.ndarray) -> np.ndarray:
            shared = inverse * right
            inner = cho_solve(factor, self.transposed_times(shared), check_finite=False)
            return shared - inverse * (self.B @ self.sqrt_times(inner))

        return solve
