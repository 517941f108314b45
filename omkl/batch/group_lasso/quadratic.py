"""Quadratic models over a few columns: coordinate descent and Newton steps."""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, cg

from omkl.batch.group_lasso._jit_sweeps import Bases, sweep_products
from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.stacked_loss import MultinomialHessian

#: Most sweeps, sweeps between two Newton steps, and halvings of such a step.
MOST_SWEEPS, EVERY, HALVINGS = 100, 10, 3
#: Ridge on inner products, as a share of the sum of eigenvalues, for duplicate columns; and the size, relative to the
#: threshold, below which a group is too small for its ray to be known.
TINY = 1e-12
#: Residual of a Newton step of a coupled loss, relative, and the most products for it.
CLOSE, MOST_PRODUCTS = 1e-2, 50


class QuadraticModel:
    r""":math:`w^\top G w / 2 - c^\top w` for several outputs, and a threshold and a ridge on the norms of groups.

    Parameters
    ----------
    gram : C-ordered array of shape (K, K)
        Inner products; the first k rows and columns are those of the columns.
    starts : int array of shape (g + 1,)
        Where the columns of each group begin, and k.
    groups : int array of shape (g,)
        The groups' own indices, by which the bases are found.
    bases : Bases
        All groups' bases, which are known.
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
            Those of the columns with the residuals, which follow.
        square : float
            Square of the residuals, each divided by its curvature.
        target : float
            Duality gap to end at, which takes the square.
        worth : float
            It ends with a sweep that gains no more than this share of the most that one has gained.
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
        """Take Newton's step in the groups that are not zero; set groups that it leads past zero to zero."""
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
        """Return Newton's direction from coefficients (a, K) of groups that are not zero; 0 where there is none."""
        slopes = blocks.spread(self._threshold / blocks.norms(np.linalg.norm(w, axis=1)))
        right = correlations - (self._ridge + slopes)[:, None] * w
        # across its ray the norm of a group is curved
        curved = slopes if w.shape[1] > 1 else np.where(blocks.spread(blocks.sizes) > 1, slopes, 0.0)
        system = gram.copy()
        system[np.diag_indices_from(system)] += curved + self._ridge + TINY * self._values.sum()
        rays = np.sqrt(curved)[:, None] * w / blocks.spread(blocks.norms(np.linalg.norm(w, axis=1)))[:, None]
        try:
            return _solved_beside_rays(system, blocks, rays, right)
        except np.linalg.LinAlgError:
            return np.zeros_like(w)


def _solved_beside_rays(system: np.ndarray, blocks: Blocks, rays: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve with the system, the same for all outputs, less the outer product of each group's ray, (a, K).

    With several outputs by Woodbury's identity, as the rays are few.
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
        The residual, where the unpenalized part is optimal.
    slope, ridge : float
        Weights of the norms of the groups, and of half their squares.
    """

    def __init__(
        self, columns: Matrix, hessian: MultinomialHessian, rho: np.ndarray, slope: float, ridge: float
    ) -> None:
        self._columns, self._hessian, self._slope, self._ridge = columns, hessian, slope, ridge
        self._correlations = self._with_columns(rho)

    def _with_columns(self, rho: np.ndarray) -> np.ndarray:
        """Return correlations (a K,) with a residual (K m,)."""
        return (self._columns.T @ rho.reshape(len(self._hessian.shares), -1).T).ravel()

    def _curved(self, w: np.ndarray) -> np.ndarray:
        """Return the second derivatives times a vector (a K,)."""
        outputs = (self._columns @ w.reshape(-1, len(self._hessian.shares))).T.ravel()
        return self._with_columns(self._hessian.balance(self._hessian @ outputs))

    def newton_step(self, w: np.ndarray, blocks: Blocks) -> np.ndarray:
        """Return Newton's step from coefficients (a K,) of groups that are not zero, (a, K), by conjugate gradients.

        Groups that it leads past zero are set to zero. It is 0 where it gains nothing.
        """
        norms = blocks.norms(w)
        unit, across = w / blocks.spread(norms), blocks.spread(self._slope / norms)

        def times(v: np.ndarray) -> np.ndarray:
            # across its ray the norm of a group is curved
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
