"""Newton steps in the dual over kernels: objective and linear systems.

Small systems are solved by a Cholesky factor. From :data:`LARGE` samples on, the method depends on
the stack: stored kernels are summed (``"cg"``), factors and kernels computed on demand are not
(``"matrix-free"``). Conjugate gradients need few iterations, because 200 rows of the kernels make a
good preconditioner.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dgemm

from omkl.batch.newton import add_to_diagonal, cholesky
from omkl.kernels.stack import KernelStack, ReplicatedStack
from omkl.regularizers.base import ratio_or_zero

#: Number of samples from which conjugate gradients are faster than a Cholesky factor.
LARGE = 600
#: Number of samples whose kernel rows are in the preconditioner.
LANDMARKS = 200
#: The same for several outputs.
LANDMARKS_OF_PARTS = 50
#: Least diagonal of the preconditioner, as a share of the curvature's diagonal.
LEAST = 1e-6
#: Maximum number of iterations: even an inexact direction is a descent direction.
MOST_ITERATIONS = 100
#: Residual of a direction at which to stop, in the norm of the preconditioner, relative to the
#: start.
ACCURACY = 1e-2


def system_of(kernels: KernelStack) -> str:
    """Return the method for systems: ``"cholesky"``, ``"cg"`` or ``"matrix-free"``."""
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
        add_to_diagonal(system, diagonal)
        sides = np.column_stack([right, np.ones_like(right)])
        solutions = cho_solve((cholesky(system), True), sides, check_finite=False)
        solution = solutions[:, 0]
        solution_of_ones = solutions[:, 1]
        multiplier = float(solution.sum() / solution_of_ones.sum()) if equality else 0.0
        return solution - multiplier * solution_of_ones, multiplier


class _Residual:
    """Residual of a system with a sum of zero in each output, if ``equality``.

    Parameters
    ----------
    right : array of shape (N,)
    precondition : callable
        Approximate inverse of the system; takes and returns arrays (N,).
    n_outputs : int
        Number of equal blocks of the samples.
    equality : bool

    Attributes
    ----------
    values : array of shape (N,)
        The residual, with the multipliers of the equalities subtracted.
    multipliers : array of shape (n_outputs,)
    """

    def __init__(
        self,
        right: np.ndarray,
        precondition: Callable[[np.ndarray], np.ndarray],
        n_outputs: int,
        equality: bool,
    ) -> None:
        self.values = right.copy()
        self.multipliers = np.zeros(n_outputs)
        self._precondition = precondition
        self._equality = equality
        #: The preconditioned normals of the equalities, (N,), and their sums.
        self._normals = np.zeros_like(right)
        self._normal_sums = np.ones(n_outputs)
        if equality:
            self._normals = precondition(np.ones_like(right))
            self._normal_sums = self._sums(self._normals)

    def _sums(self, vector: np.ndarray) -> np.ndarray:
        """Return the sum of each output, (n_outputs,)."""
        return vector.reshape(len(self.multipliers), -1).sum(axis=1)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Return one value per sample, (N,), from one value per output."""
        return np.repeat(values, len(self.values) // len(self.multipliers))

    def balanced(self, vector: np.ndarray) -> np.ndarray:
        """Return a vector (N,) moved along the normals to sums of zero."""
        return vector - self.spread(self._sums(vector) / self._normal_sums) * self._normals

    def preconditioned(self) -> np.ndarray:
        """Return the preconditioned residual, with sums of zero.

        The constant part of the residual moves to the multipliers, which saves digits.
        """
        preconditioned = self._precondition(self.values)
        if not self._equality:
            return preconditioned
        change = self._sums(preconditioned) / self._normal_sums
        self.values -= self.spread(change)
        self.multipliers += change
        return preconditioned - self.spread(change) * self._normals


@dataclass(eq=False)
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

    kernels: KernelStack
    vectors: np.ndarray
    rank_one_weights: np.ndarray

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        rank_one = (self.rank_one_weights * (self.vectors @ vector)) @ self.vectors
        return self.kernels.products(vector)[0] + rank_one

    def solve(
        self, diagonal: np.ndarray, right: np.ndarray, equality: bool
    ) -> tuple[np.ndarray, float | np.ndarray]:
        """Solve to the accuracy that a Newton step needs.

        Use conjugate gradients in the subspace of the equality (Gould, Hribar and Nocedal 2001).
        Parameters are those of :class:`~omkl.batch.newton.BarrierSearch`.
        """
        precondition = self._preconditioner(diagonal)
        residual = _Residual(right, precondition, self.kernels.n_parts, equality)
        solution = np.zeros_like(right)
        residual.preconditioned()  # sets the multipliers first, since this loses digits
        preconditioned = residual.preconditioned()
        direction = preconditioned
        norm = residual.values @ preconditioned
        target = ACCURACY**2 * norm
        for _ in range(MOST_ITERATIONS):
            if norm <= target:
                break
            change = self @ direction + diagonal * direction
            step = norm / (direction @ change)
            solution += step * direction
            residual.values -= step * change
            preconditioned = residual.preconditioned()
            previous_norm = norm
            norm = residual.values @ preconditioned
            direction = preconditioned + norm / previous_norm * direction
        solution = residual.balanced(solution)
        if self.kernels.n_parts == 1:
            return solution, float(residual.multipliers[0])
        return solution, residual.spread(residual.multipliers)

    def _preconditioner(self, diagonal: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        r"""Return the inverse of a diagonal plus a Nyström approximation with an exact diagonal.

        The landmarks are the samples with the least diagonal: if it is huge, as at the bounds of
        the domain of the loss, the kernels are negligible. Several outputs share one approximation,
        without the rank-one terms.
        """
        diagonal = diagonal.reshape(self.kernels.n_parts, -1)
        if isinstance(self.kernels, ReplicatedStack):
            single = self.kernels.stack
            hessian_diagonal = single.diagonals()[0]
            landmarks = _landmarks(diagonal, hessian_diagonal, LANDMARKS_OF_PARTS)
            rows = single.combine(np.ones(1), samples=landmarks)
        else:
            rank_one_diagonal = self.rank_one_weights @ self.vectors**2
            hessian_diagonal = self.kernels.diagonals()[0] + rank_one_diagonal
            landmarks = _landmarks(diagonal, hessian_diagonal, LANDMARKS)
            rank_one = (self.vectors[:, landmarks].T * self.rank_one_weights) @ self.vectors
            rows = self.kernels.combine(np.ones(1), samples=landmarks) + rank_one
        inner = np.asfortranarray(rows[:, landmarks])
        scale = np.trace(inner) / len(inner)
        if not scale > 0:
            return lambda residual: residual / diagonal.ravel()
        add_to_diagonal(inner, LEAST * scale)
        factor = solve_triangular(cholesky(inner), rows, lower=True, check_finite=False)
        missing = hessian_diagonal - np.einsum("si,si->i", factor, factor)
        # a smaller diagonal would lose its digits in the inverse
        diagonal = diagonal + np.maximum(missing, LEAST * hessian_diagonal)
        return _woodbury(factor, diagonal)


def _landmarks(diagonal: np.ndarray, hessian_diagonal: np.ndarray, number: int) -> np.ndarray:
    """Return the samples with the least share of a diagonal (P, N) in the system, in order."""
    shares = (diagonal / (diagonal + hessian_diagonal)).mean(axis=0)
    return np.sort(np.argsort(shares, kind="stable")[:number])


def _woodbury(factor: np.ndarray, diagonal: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return the inverse of ``F' F`` plus a diagonal, for each of P outputs.

    ``factor`` is F, (k, N), and the diagonals are (P, N). The inverse takes and returns arrays (P
    N,).
    """
    inner_factors = []
    for diagonal_of_output in diagonal:
        inner = (factor / diagonal_of_output) @ factor.T + np.eye(len(factor))
        inner_factors.append(cholesky(np.asfortranarray(inner)))

    def inverse(residual: np.ndarray) -> np.ndarray:
        residual = residual.reshape(diagonal.shape) / diagonal
        inner_solutions = []
        for inner_factor, side in zip(inner_factors, residual @ factor.T):
            inner_solutions.append(cho_solve((inner_factor, True), side, check_finite=False))
        return (residual - (np.array(inner_solutions) @ factor) / diagonal).ravel()

    return inverse


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


class WorkingKernels(NamedTuple):
    r"""A working set of k kernels, at a dual point and a centre of the proximal term.

    Attributes
    ----------
    which : int array of shape (k,)
        Indices of the kernels, increasing.
    products : array of shape (k, N)
        :math:`K_m \rho` at the dual point.
    alphas, alpha_products : arrays of shape (k, N)
        Coefficients :math:`\alpha_m` of the centre, and :math:`K_m \alpha_m`.
    alpha_squares : array of shape (k,)
        :math:`\|\alpha_m\|^2`.
    """

    which: np.ndarray
    products: np.ndarray
    alphas: np.ndarray
    alpha_products: np.ndarray
    alpha_squares: np.ndarray


@dataclass(eq=False)
class KernelTerm:
    r"""All of the dual except the loss, over a working set of kernels.

    The methods are those that :class:`~omkl.batch.newton.BarrierSearch` needs.

    Parameters
    ----------
    kernels : KernelStack
    working_set : WorkingKernels
        Its products move with the dual point.
    curve : Curve
        The function, times gamma.
    rho : array of shape (N,)
        The dual point.
    gamma : float
    """

    kernels: KernelStack
    working_set: WorkingKernels
    curve: Curve
    rho: np.ndarray
    gamma: float

    def __post_init__(self) -> None:
        #: The last weighted sum of kernels, and the bytes of its weights and kernels.
        self._last_sum: Any = None
        self._summed = (b"", b"")
        self._refresh()

    def _refresh(self) -> None:
        """Set products, squared norms, norms and ratios of the kernels at the present point."""
        _, products, _, alpha_products, alpha_squares = self.working_set
        self.point_products = alpha_products + self.gamma * products
        sum_of_products = alpha_products + self.point_products
        self.squares = alpha_squares + self.gamma * (sum_of_products @ self.rho)
        self.norms = np.sqrt(np.maximum(self.squares, 0.0))
        self.ratios = ratio_or_zero(self.curve.first(self.norms), self.norms)

    def gradient(self) -> np.ndarray:
        """Return predictions without the intercept, (N,)."""
        return self.ratios @ self.point_products

    def hessian(self) -> DenseCurvature | Curvature:
        r"""Return the second derivatives, restricted to active kernels.

        With norms :math:`n_m`, vectors :math:`v_m` of the products at the point, ratios :math:`r_m
        = f'_m / n_m`, and the Hessian :math:`\mathrm{diag}(s) - c c^\top` of the curve f, they are

        .. math::

            \gamma \Big(\sum_m r_m K_m + \sum_m \frac{s_m - r_m}{n_m^2} v_m v_m^\top - u u^\top
            \Big), \quad u = \sum_m \frac{c_m}{n_m} v_m.
        """
        active = np.flatnonzero(self.ratios > 0)
        which = self.working_set.which[active]
        ratios = self.ratios[active]
        norms = self.norms[active]
        weights = self.gamma * ratios
        second = self.curve.second(self.norms)[active]
        rank_one_weights = self.gamma * (second - ratios) / norms**2
        vectors = self.point_products[active]
        coupling = self.curve.coupling(self.norms)
        if coupling is not None:
            vectors = np.vstack([vectors, (coupling[active] / norms) @ vectors])
            rank_one_weights = np.append(rank_one_weights, -self.gamma)
        if system_of(self.kernels) != "cholesky":
            kernels = self._cached_sum(self.kernels.summed, weights, which)
            return Curvature(kernels, vectors, rank_one_weights)
        if not np.any(rank_one_weights != 0):
            return DenseCurvature(self._cached_sum(self.kernels.combine, weights, which))
        gram = self.kernels.combine(weights, which)
        matrix = dgemm(
            alpha=1.0,
            a=vectors.T * rank_one_weights,
            b=vectors.T,
            beta=1.0,
            c=gram.T,  # symmetric, so `.T` is Fortran-ordered
            trans_b=True,
            overwrite_c=True,
        )
        return DenseCurvature(matrix)

    def _cached_sum(
        self,
        sum_kernels: Callable[[np.ndarray, np.ndarray], Any],
        weights: np.ndarray,
        which: np.ndarray,
    ) -> Any:
        """Return the weighted sum of kernels; cache it, since weights of a ridge never change."""
        summed = (weights.tobytes(), which.tobytes())
        if self._last_sum is None or summed != self._summed:
            self._summed = summed
            self._last_sum = sum_kernels(weights, which)
        return self._last_sum

    def along(self, direction: np.ndarray) -> Callable[[float], float]:
        """Return the value along ``direction`` as a function of the step."""
        self.moves = self.kernels.products(direction, self.working_set.which)
        linear = 2.0 * self.gamma * (self.point_products @ direction)
        quadratic = self.gamma**2 * (self.moves @ direction)

        def value(step: float) -> float:
            squares = self.squares + step * (linear + step * quadratic)
            return self.curve.value(np.sqrt(np.maximum(squares, 0.0))) / self.gamma

        return value

    def move(self, step: float, rho: np.ndarray) -> None:
        """Move by ``step`` along the last direction, to ``rho``."""
        self.rho = rho
        products = self.working_set.products
        products += step * self.moves
        self._refresh()
