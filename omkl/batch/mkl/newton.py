"""Newton steps in the dual over kernels: objective and linear systems.

Small systems are solved by a Cholesky factor. From :data:`LARGE` samples on, the method depends on
the stack: stored kernels are summed (``"cg"``), factors and kernels computed on demand are not
(``"matrix-free"``). Conjugate gradients need few iterations, because 200 rows of the kernels make a
good preconditioner.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dgemm

from omkl.batch.newton import cholesky
from omkl.kernels.stack import KernelStack, ReplicatedStack
from omkl.regularizers.base import ratio_or_zero

#: Number of samples from which conjugate gradients are faster than a Cholesky factor.
LARGE = 600
#: Number of samples whose kernel rows are in the preconditioner; for several outputs.
LANDMARKS, LANDMARKS_OF_PARTS = 200, 50
#: Least diagonal of the preconditioner, as a share of the curvature's diagonal.
LEAST = 1e-6
#: Maximum number of iterations: even an inexact direction is a descent direction.
MOST_ITERATIONS = 100
#: Residual of a direction at which to stop, in the norm of the preconditioner, relative to the
#: start.
ACCURACY = 1e-2


def system_of(kernels: KernelStack) -> str:
    """Return the method for systems with these kernels: ``"cholesky"``, ``"cg"`` or
    ``"matrix-free"``.
    """
    if kernels.n_samples < LARGE and kernels.n_parts == 1:
        return "cholesky"
    return "cg" if kernels.sums_entries else "matrix-free"


@dataclass(eq=False)
class DenseCurvature:
    """Second derivatives as a matrix.

    Parameters
    ----------
    matrix : array of shape (N, N)
        Symmetric and positive semidefinite.
    """

    matrix: np.ndarray

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        return self.matrix @ vector

    def solve(
        self, diagonal: np.ndarray, right: np.ndarray, equality: bool
    ) -> tuple[np.ndarray, float]:
        """Solve by a Cholesky factor; see :class:`~omkl.batch.newton.BarrierSearch`."""
        system = self.matrix.copy(order="K")
        system[np.diag_indices_from(system)] += diagonal
        sides = np.column_stack([right, np.ones_like(right)])
        solved = cho_solve((cholesky(system), True), sides, check_finite=False)
        multiplier = float(solved[:, 0].sum() / solved[:, 1].sum()) if equality else 0.0
        return solved[:, 0] - multiplier * solved[:, 1], multiplier


class Curvature:
    """Kernels and rank-one terms, ``S + sum_m b_m v_m v_m'``, as an operator.

    Parameters
    ----------
    kernels : KernelStack
        S, a stack of one kernel. Each of its equal diagonal blocks has its own equality.
    vectors : array of shape (k, N)
        ``v_m``.
    rank_one_weights : array of shape (k,)
        ``b_m``, of either sign; the sum must be positive semidefinite.
    """

    def __init__(
        self, kernels: KernelStack, vectors: np.ndarray, rank_one_weights: np.ndarray
    ) -> None:
        self.kernels, self.vectors, self.rank_one_weights = kernels, vectors, rank_one_weights

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        return (
            self.kernels.products(vector)[0]
            + (self.rank_one_weights * (self.vectors @ vector)) @ self.vectors
        )

    def solve(
        self, diagonal: np.ndarray, right: np.ndarray, equality: bool
    ) -> tuple[np.ndarray, float | np.ndarray]:
        """Solve to the accuracy that a Newton step needs; see
        :class:`~omkl.batch.newton.BarrierSearch`.

        Use conjugate gradients in the subspace of the equality (Gould, Hribar and Nocedal 2001).
        """
        n_parts = self.kernels.n_parts
        precondition = self._preconditioner(diagonal)
        ones = precondition(np.ones_like(right)) if equality else np.zeros_like(right)
        total = _of_parts(ones, n_parts) if equality else np.ones(n_parts)
        solution, residual, multiplier = np.zeros_like(right), right.copy(), np.zeros(n_parts)

        def spread(values: np.ndarray) -> np.ndarray:
            return np.repeat(values, len(right) // n_parts)

        def steer() -> np.ndarray:
            """Return the preconditioned residual; move its constant part to the multiplier, to save
            digits.
            """
            steered = precondition(residual)
            if not equality:
                return steered
            multiple = _of_parts(steered, n_parts) / total
            residual[:] -= spread(multiple)
            multiplier[:] += multiple
            return steered - spread(multiple) * ones

        steer()
        direction = steered = steer()
        norm = residual @ steered
        enough = ACCURACY**2 * norm
        for _ in range(MOST_ITERATIONS):
            if norm <= enough:
                break
            change = self @ direction + diagonal * direction
            step = norm / (direction @ change)
            solution += step * direction
            residual -= step * change
            steered = steer()
            previous, norm = norm, residual @ steered
            direction = steered + norm / previous * direction
        solution -= spread(_of_parts(solution, n_parts) / total) * ones
        return solution, float(multiplier[0]) if n_parts == 1 else spread(multiplier)

    def _preconditioner(self, diagonal: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        r"""Return the inverse of a diagonal plus a Nyström approximation with an exact diagonal.

        The landmarks are the samples with the least diagonal: if it is huge, as at the bounds of
        the domain of the loss, the kernels are negligible. Equal parts share one approximation,
        without the rank-one terms.
        """
        replicated = isinstance(self.kernels, ReplicatedStack)
        single = self.kernels.stack if isinstance(self.kernels, ReplicatedStack) else self.kernels
        hessian_diagonal = single.diagonals()[0]
        if not replicated:
            hessian_diagonal = hessian_diagonal + self.rank_one_weights @ self.vectors**2
        diagonal = diagonal.reshape(self.kernels.n_parts, -1)
        softest = (diagonal / (diagonal + hessian_diagonal)).mean(axis=0)
        softest = np.sort(
            np.argsort(softest, kind="stable")[: LANDMARKS_OF_PARTS if replicated else LANDMARKS]
        )
        rows = single.combine(np.ones(1), samples=softest)
        if not replicated:
            rows = rows + (self.vectors[:, softest].T * self.rank_one_weights) @ self.vectors
        inner = np.asfortranarray(rows[:, softest])
        scale = np.trace(inner) / len(inner)
        if not scale > 0:
            return lambda residual: residual / diagonal.ravel()
        inner[np.diag_indices_from(inner)] += LEAST * scale
        factor = solve_triangular(cholesky(inner), rows, lower=True, check_finite=False)
        missing = hessian_diagonal - np.einsum("si,si->i", factor, factor)
        # a smaller diagonal would lose its digits in the inverse
        diagonal = diagonal + np.maximum(missing, LEAST * hessian_diagonal)
        # factors of the small matrix of Woodbury's identity, for each output
        inners = [(factor / own) @ factor.T + np.eye(len(factor)) for own in diagonal]
        small = [cholesky(np.asfortranarray(own)) for own in inners]

        def precondition(residual: np.ndarray) -> np.ndarray:
            residual = residual.reshape(diagonal.shape) / diagonal
            sides = residual @ factor.T
            inner = [
                cho_solve((own, True), side, check_finite=False) for own, side in zip(small, sides)
            ]
            return (residual - (np.array(inner) @ factor) / diagonal).ravel()

        return precondition


def _of_parts(vector: np.ndarray, n_parts: int) -> np.ndarray:
    """Return the sum of each of ``n_parts`` equal parts of a vector."""
    return vector.reshape(n_parts, -1).sum(axis=1)


class Curve(NamedTuple):
    """A convex function of the norms (k,) of kernels, and its derivatives.

    Attributes
    ----------
    value : callable
        Returns a float.
    first : callable
        Returns the gradient, (k,).
    second, coupling : callables
        Return vectors s and c, (k,), of the Hessian ``diag(s) - c c'``; c may be None for 0.
    """

    value: Callable[[np.ndarray], float]
    first: Callable[[np.ndarray], np.ndarray]
    second: Callable[[np.ndarray], np.ndarray]
    coupling: Callable[[np.ndarray], np.ndarray | None]


@dataclass(eq=False)
class KernelTerm:
    r"""All of the dual except the loss, over a working set of kernels; see
    :class:`~omkl.batch.newton.BarrierSearch`.

    Parameters
    ----------
    kernels : KernelStack
    which : int array of shape (k,)
    curve : Curve
        The function, times gamma.
    rho, kernel_products : arrays of shapes (N,) and (k, N)
        The point, and :math:`K_m \rho`.
    alpha_products, alpha_squares : arrays of shapes (k, N) and (k,)
        :math:`K_m \alpha_m` and :math:`\|\alpha_m\|^2`.
    gamma : float
    """

    kernels: KernelStack
    which: np.ndarray
    curve: Curve
    rho: np.ndarray
    kernel_products: np.ndarray
    alpha_products: np.ndarray | float = 0.0
    alpha_squares: np.ndarray | float = 0.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        self._kept_for: tuple[np.ndarray, np.ndarray] | None = None
        self._refresh()

    def _refresh(self):
        self.point_products = self.alpha_products + self.gamma * self.kernel_products
        self.squares = self.alpha_squares + self.gamma * (
            (self.alpha_products + self.point_products) @ self.rho
        )
        self.norms = np.sqrt(np.maximum(self.squares, 0.0))
        self.ratios = ratio_or_zero(self.curve.first(self.norms), self.norms)

    def gradient(self) -> np.ndarray:
        """Return predictions without the intercept, (N,)."""
        return self.ratios @ self.point_products

    def hessian(self) -> DenseCurvature | Curvature:
        """Return the second derivatives, restricted to active kernels."""
        active = np.flatnonzero(self.ratios > 0)
        ratios, which = self.ratios[active], self.which[active]
        rank_one_weights = (
            self.gamma * (self.curve.second(self.norms)[active] - ratios) / self.norms[active] ** 2
        )
        vectors = self.point_products[active]
        coupling = self.curve.coupling(self.norms)
        if coupling is not None:
            vectors = np.vstack([vectors, (coupling[active] / self.norms[active]) @ vectors])
            rank_one_weights = np.append(rank_one_weights, -self.gamma)
        if system_of(self.kernels) != "cholesky":
            kernels = self._same_sum(self.kernels.summed, self.gamma * ratios, which)
            return Curvature(kernels, vectors, rank_one_weights)
        if not np.any(rank_one_weights != 0):
            return DenseCurvature(self._same_sum(self.kernels.combine, self.gamma * ratios, which))
        matrix = self.kernels.combine(self.gamma * ratios, which)
        # symmetric, so `.T` is Fortran-ordered
        sums = dgemm(
            1.0,
            vectors.T * rank_one_weights,
            vectors.T,
            1.0,
            matrix.T,
            trans_b=True,
            overwrite_c=True,
        )
        return DenseCurvature(sums)

    def _same_sum(self, add, weights, which):
        """Return the weighted sum of kernels; keep it, since the weights of a ridge never change."""
        if self._kept_for is None or not all(map(np.array_equal, self._kept_for, (weights, which))):
            self._kept_for, self._kept = (weights, which), add(weights, which)
        return self._kept

    def along(self, direction: np.ndarray) -> Callable[[float], float]:
        """Return the value along ``direction`` as a function of the step."""
        self.moves = self.kernels.products(direction, self.which)
        linear = 2.0 * self.gamma * (self.point_products @ direction)
        quadratic = self.gamma**2 * (self.moves @ direction)

        def value(step):
            squares = self.squares + step * (linear + step * quadratic)
            return self.curve.value(np.sqrt(np.maximum(squares, 0.0))) / self.gamma

        return value

    def move(self, step: float, rho: np.ndarray) -> None:
        """Move by ``step`` along the last direction, to ``rho``."""
        self.rho = rho
        self.kernel_products += step * self.moves
        self._refresh()
