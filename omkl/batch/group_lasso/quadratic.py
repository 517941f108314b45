"""Quadratic models over a few columns: coordinate descent and Newton steps."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from omkl.batch.group_lasso._jit_sweeps import Bases, sweep_products
from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.stacked_loss import MultinomialHessian

#: Maximum number of sweeps, sweeps between Newton steps, and maximum number of halvings of a Newton step.
MOST_SWEEPS, EVERY, HALVINGS = 100, 10, 3
#: Ridge on inner products for duplicate columns, as a share of the sum of eigenvalues; and the size, relative to the
#: threshold, below which the direction of a group is unreliable.
TINY = 1e-12
#: Relative residual of a Newton step of a coupled loss, and maximum number of products for it.
CLOSE, MOST_PRODUCTS = 1e-2, 50


class QuadraticModel:
    r""":math:`w^\top G w / 2 - c^\top w` for several outputs, with a threshold and a ridge on the norms of groups.

    Parameters
    ----------
    gram : C-ordered array of shape (K, K)
        Inner products of the k columns, in the first k rows and columns.
    starts : int array of shape (g + 1,)
        Index of the first column of each group, and k.
    groups : int array of shape (g,)
        Indices of the groups in ``bases``.
    bases : Bases
        Computed bases of all groups.
    values : array of shape (k,)
        Eigenvalues of these groups.
    penalty : (float, float)
        Threshold and ridge.
    """

    def __init__(
        self,
        gram: np.ndarray,
        starts: np.ndarray,
        groups: np.ndarray,
        bases: Bases,
        values: np.ndarray,
        penalty: tuple[float, float],
    ) -> None:
        self._gram, self._starts, self._groups, self._bases, self._values = gram, starts, groups, bases, values
        self._threshold, self._ridge = penalty

    def minimise(
        self, w: np.ndarray, correlations: np.ndarray, *, square: float = 0.0, target: float = -np.inf, worth: float
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
        while not is_over and made < MOST_SWEEPS:
            sweeps, is_over, square, largest = sweep_products(
                self._gram,
                self._starts,
                self._groups,
                self._bases,
                self._values,
                self._threshold,
                self._ridge,
                w,
                correlations,
                square,
                target,
                EVERY,
                worth,
                largest,
            )
            made += sweeps
            if not is_over:
                square = self._newton_step(w, correlations, square)

    def _newton_step(self, w: np.ndarray, correlations: np.ndarray, square: float) -> float:
        """Take a Newton step in the nonzero groups; set groups that it would move past zero to zero."""
        sizes, size = np.diff(self._starts), self._starts[-1]
        largest = np.maximum.reduceat(self._values, self._starts[:-1])
        moving = largest * Blocks(sizes).norms(np.linalg.norm(w, axis=1)) > TINY * self._threshold
        indices, blocks = np.flatnonzero(np.repeat(moving, sizes)), Blocks(sizes[moving])
        gram, own, seen = self._gram[np.ix_(indices, indices)], w[indices], correlations[:, indices].T
        step = self._direction(gram, own, seen, blocks)
        norms = blocks.norms(np.linalg.norm(own, axis=1))
        for _ in range(HALVINGS if len(indices) else 0):
            after = own + step
            after[blocks.spread(blocks.sums((own * after).sum(axis=1)) <= 0.0)] = 0.0
            moves, after_norms = after - own, blocks.norms(np.linalg.norm(after, axis=1))
            change = self._threshold * (after_norms - norms).sum()
            change += 0.5 * self._ridge * (after_norms**2 - norms**2).sum()
            if change + 0.5 * (moves * (gram @ moves)).sum() < (moves * seen).sum():
                w[indices] = after
                correlations -= moves.T @ self._gram[indices, :size]
                return square - float((moves * (seen + correlations[:, indices].T)).sum())
            step *= 0.5
        return square

    def _direction(self, gram: np.ndarray, w: np.ndarray, correlations: np.ndarray, blocks: Blocks) -> np.ndarray:
        """Return Newton's direction at coefficients (a, K) of nonzero groups; 0 if the system is singular."""
        slopes = blocks.spread(self._threshold / blocks.norms(np.linalg.norm(w, axis=1)))
        right = correlations - (self._ridge + slopes)[:, None] * w
        # the norm of a group has curvature orthogonal to its ray
        curved = slopes if w.shape[1] > 1 else np.where(blocks.spread(blocks.sizes) > 1, slopes, 0.0)
        system = gram.copy()
        system[np.diag_indices_from(system)] += curved + self._ridge + TINY * self._values.sum()
        rays = np.sqrt(curved)[:, None] * w / blocks.spread(blocks.norms(np.linalg.norm(w, axis=1)))[:, None]
        try:
            return _solved_beside_rays(system, blocks, rays, right)
        except np.linalg.LinAlgError:
            return np.zeros_like(w)


def _solved_beside_rays(system: np.ndarray, blocks: Blocks, rays: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with the system, shared by all outputs, minus the outer product of each group's ray, (a, K).

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


class CoupledModel:
    """A quadratic model over some columns, with a loss that couples the outputs.

    Parameters
    ----------
    columns : array (m, a), or CSC matrix
    hessian : MultinomialHessian
    rho : array of shape (K m,)
        The residual, with an optimal unpenalized part.
    slope, ridge : float
        Weights of the norms of the groups, and of half their squares.
    """

    def __init__(
        self, columns: Matrix, hessian: MultinomialHessian, rho: np.ndarray, slope: float, ridge: float
    ) -> None:
        self._columns, self._hessian, self._slope, self._ridge = columns, hessian, slope, ridge
        self._correlations = self._with_columns(rho)

    def _with_columns(self, rho: np.ndarray) -> np.ndarray:
        """Return the correlations (a K,) of the columns with a residual (K m,)."""
        return (self._columns.T @ rho.reshape(len(self._hessian.shares), -1).T).ravel()

    def _curved(self, w: np.ndarray) -> np.ndarray:
        """Return the second derivatives times a vector (a K,)."""
        outputs = (self._columns @ w.reshape(-1, len(self._hessian.shares))).T.ravel()
        return self._with_columns(self._hessian.balance(self._hessian @ outputs))

    def newton_step(self, w: np.ndarray, blocks: Blocks) -> np.ndarray:
        """Return the Newton step (a, K) from coefficients (a K,) of nonzero groups, by conjugate gradients.

        Groups that it would move past zero become zero. The step is 0 if it does not lower the objective.
        """
        norms = blocks.norms(w)
        unit, across = w / blocks.spread(norms), blocks.spread(self._slope / norms)

        def times(v: np.ndarray) -> np.ndarray:
            # the norm of a group has curvature orthogonal to its ray
            return self._curved(v) + (self._ridge + across) * v - across * unit * blocks.spread(blocks.sums(unit * v))

        squares = self._columns.multiply(self._columns) if sparse.issparse(self._columns) else self._columns**2
        diagonal = (squares.T @ self._hessian.diagonal.T).ravel() + self._ridge + across * (1.0 - unit**2)
        inverse = 1.0 / np.maximum(diagonal, 1e-12 * diagonal.max())
        shape = (len(w), len(w))
        right = self._correlations - self._ridge * w - self._slope * unit
        system, inverses = LinearOperator(shape, times, dtype=float), LinearOperator(shape, lambda v: inverse * v)
        step, _ = cg(system, right, rtol=CLOSE, maxiter=MOST_PRODUCTS, M=inverses)
        for _ in range(HALVINGS):
            after = np.where(blocks.spread(blocks.sums(w * (w + step))) > 0, w + step, 0.0)
            moves, after_norms = after - w, blocks.norms(after)
            change = self._slope * (after_norms - norms).sum() + 0.5 * self._ridge * (after_norms**2 - norms**2).sum()
            if change + 0.5 * moves @ self._curved(moves) < moves @ self._correlations:
                return moves.reshape(-1, len(self._hessian.shares))
            step *= 0.5
        return np.zeros((self._columns.shape[1], len(self._hessian.shares)))
