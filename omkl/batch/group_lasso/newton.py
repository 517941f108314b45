r"""Proximal steps of DAL on a working set of columns.

They minimise the augmented Lagrangian by Newton steps (Tomioka, Suzuki and Sugiyama; sections 4 and
5 of Suzuki and Tomioka 2011 with one kernel per group). For a weight :math:`1/(2\gamma)` and
:math:`v = w + \gamma B^\top \rho`, the augmented Lagrangian

.. math:: \varphi(\rho) = \sum_i c_i\, l^*(y_i, -\rho_i / c_i)
          + \frac1\gamma\Bigl(x^\top v - \frac12 \|x\|^2\Bigr) - \alpha \psi(x) \quad \text{subject
          to} \quad \sum_i \rho_i = 0, \qquad x = \mathrm{prox}_{\gamma \alpha \psi}(v)

has the gradient :math:`\nabla l^* + B x` and the Hessian :math:`D + \gamma B J B^\top`, in which J
is zero except on active columns. The multiplier of the equality is the intercept. Bounds and kinks
of the dual loss get a barrier.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve

from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.group_lasso.problem import DesignProblem
from omkl.batch.group_lasso.working_set import Iterate, WorkingSet, inner_products
from omkl.batch.newton import BarrierSearch, add_to_diagonal, cholesky
from omkl.regularizers.base import ratio_or_zero

#: Residual of a system, relative to its right side, above which the solution is refined.
WELL_SOLVED = 1e-10
#: Maximum number of solutions of a system, with refinements.
MOST_REFINED = 3


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
        """Set the model and its norms at the present point.

        Also set ``_v`` (k,), which is v after soft thresholding, and ``_v_norms`` and ``_radii``
        (g,), the Euclidean norms of its groups before and after the proximity operator.
        """
        blocks = self.working_set.blocks
        gauge = self.working_set.gauge
        target = self.w + self.gamma * self.correlations
        self._v = gauge.thresholded(target, self._step)
        self._v_norms = blocks.norms(self._v)
        self._radii = self._shrunk(self._v_norms)
        ratios = ratio_or_zero(self._radii, self._v_norms)
        self.x = self._v * blocks.spread(ratios)
        self.norms = self._radii if gauge.is_euclidean else gauge.norms(self.x)
        self._outputs = self.working_set.outputs(self.x)

    @property
    def _step(self) -> float:
        """The step of the proximity operator."""
        return self.gamma * self.problem.penalty

    def _shrunk(self, norms: np.ndarray) -> np.ndarray:
        """Return Euclidean norms (g,) after the proximity operator."""
        shrunk = self.problem.regularizer.prox(norms, self._step)
        # columns are divided by the weight of the norm, unless that is 0
        return np.where(self.working_set.gauge.norm_weights > 0, shrunk, norms)

    def gradient(self) -> np.ndarray:
        """Return predictions without the intercept, (m,)."""
        return self._outputs

    def hessian(self) -> "NewtonSystem":
        """Return the second derivatives, restricted to active columns."""
        blocks = self.working_set.blocks
        gauge = self.working_set.gauge
        if gauge.is_euclidean:
            active = np.flatnonzero(self._radii)
            indices = np.flatnonzero(blocks.spread(self._radii))
            sizes = blocks.sizes
        else:
            indices = np.flatnonzero(self.x)
            sizes = blocks.sums((self.x != 0).astype(np.int64))
            active = np.flatnonzero(sizes)
        slopes = self.problem.regularizer.prox_slope(self._v_norms[active], self._step)
        if not gauge.is_euclidean:
            slopes = np.where(gauge.norm_weights[active] > 0, slopes, 1.0)
        return NewtonSystem(
            B=self.working_set.matrix[:, indices],
            gamma=self.gamma,
            blocks=Blocks(sizes[active]),
            v=self._v[indices],
            norms=self._v_norms[active],
            shrunk=self._radii[active],
            slopes=slopes,
        )

    def along(self, direction: np.ndarray) -> Callable[[float], float]:
        """Return the value along ``direction`` as a function of the step."""
        self._moves = self.working_set.matrix.T @ direction
        center = self.w + self.gamma * self.correlations
        gauge = self.working_set.gauge

        def value(step: float) -> float:
            # the l1 penalty cancels with the part removed by soft thresholding
            moved = center + (step * self.gamma) * self._moves
            norms = self.working_set.blocks.norms(gauge.thresholded(moved, self._step))
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
    """Proximal steps on a working set, with growing weights, which keep the best model.

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
        self.gamma = gamma
        self.growth = growth
        self.w = start.w
        self.rho = start.rho
        rho = self.dual_loss.rho(self.x)
        correlations = working_set.matrix.T @ rho
        self.term = DesignTerm(problem, working_set, start.w, gamma, rho, correlations)

    def proximal_step(self) -> None:
        self.gamma *= self.growth
        self.term = replace(self.term, w=self.term.x, gamma=self.gamma)

    def dual_norms(self) -> np.ndarray:
        return self.term.working_set.gauge.dual_norms(self.term.correlations)

    def model_norms(self) -> np.ndarray:
        return self.term.norms

    def update_best(self, primal: float, dual: float) -> None:
        if primal < self.primal:
            self.w = self.term.x
        if dual > self.dual:
            self.rho = self.term.rho
        super().update_best(primal, dual)


@dataclass(eq=False)
class NewtonSystem:
    r""":math:`\gamma Q Q^\top` with :math:`Q = B S`, and linear systems with it.

    :math:`J = S^2` is the Jacobian of a proximity operator that moves blocks along their rays, on
    its active blocks. With :math:`x_g = (p_g / \|v_g\|) v_g` and :math:`p_g =
    \mathrm{prox}(\|v_g\|)` it is :math:`(p_g / \|v_g\|) (I - u u^\top) + p_g' u u^\top` with
    :math:`u = v_g / \|v_g\|` on each block. Systems have the size of the smaller side of Q.

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
        """Return S times an array, (a,) or (a, n); the same array if S is the identity."""
        if self._across is None:
            return rows
        # turns values of coordinates or blocks into columns if there are several
        as_column = (slice(None),) + (None,) * (rows.ndim - 1)
        product = self._across[as_column] * rows
        if not self.blocks.single:
            ray = self._ray[as_column]
            shares = self._excess[as_column] * self.blocks.sums(ray * rows)
            product += ray * self.blocks.spread(shares)
        return product

    def transposed_times(self, t: np.ndarray) -> np.ndarray:
        """Return :math:`Q^\\top t`."""
        return self.sqrt_times(self.B.T @ t)

    def __matmul__(self, t: np.ndarray) -> np.ndarray:
        return self.gamma * (self.B @ self.sqrt_times(self.transposed_times(t)))

    def solve(
        self, diagonal: np.ndarray, right: np.ndarray, equality: bool
    ) -> tuple[np.ndarray, float]:
        r"""Solve ``(self + diag(diagonal)) x + b 1 = right``.

        Parameters
        ----------
        diagonal : array of shape (m,)
            Positive.
        right : array of shape (m,)
        equality : bool
            Whether :math:`\sum_i x_i = 0` must hold.

        Returns
        -------
        x : array of shape (m,)
        b : float
            0 without the equality.
        """
        if self.B.shape[1] <= self.B.shape[0]:
            solve = self._by_columns(1.0 / diagonal)
        else:
            solve = self._by_samples(diagonal)
        ones = solve(np.ones_like(right)) if equality else np.zeros_like(right)
        x = np.zeros_like(right)
        multiplier = 0.0
        residual = right
        # refine the solution: Woodbury's identity loses digits
        for _ in range(MOST_REFINED):
            solution = solve(residual)
            change = float(solution.sum() / ones.sum()) if equality else 0.0
            x = x + solution - change * ones
            multiplier += change
            residual = right - (self @ x + diagonal * x + multiplier)
            if np.linalg.norm(residual) <= WELL_SOLVED * np.linalg.norm(right):
                break
        return x, multiplier

    def _by_samples(self, diagonal: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return a solver of the system itself, of the size of the samples."""
        B = self.B.toarray() if sparse.issparse(self.B) else self.B
        Q_transposed = self.sqrt_times(B.T)
        M = self.gamma * (Q_transposed.T @ Q_transposed)
        add_to_diagonal(M, diagonal)
        return partial(cho_solve, (cholesky(M), True), check_finite=False)

    def _by_columns(self, inverse: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return a solver by Woodbury's identity, of the size of the active columns.

        ``inverse`` (m,) is the inverse of the diagonal.
        """
        M = self.sqrt_times(self.sqrt_times(inner_products(self.B, inverse)).T)
        add_to_diagonal(M, 1.0 / self.gamma)
        factor = cholesky(M), True

        def solve(right: np.ndarray) -> np.ndarray:
            weighted = inverse * right
            inner = cho_solve(factor, self.transposed_times(weighted), check_finite=False)
            return weighted - inverse * (self.B @ self.sqrt_times(inner))

        return solve
