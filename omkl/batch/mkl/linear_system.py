"""The Newton system: positive definite, a diagonal plus kernels, perhaps an equality; by Cholesky or iterations.

From :data:`LARGE` samples on no matrix of all pairs is made. What takes its place is up to the kernels' stack: their
sum where they are stored entry by entry (``"cg"``), nothing where they are factors or computed on demand
(``"matrix-free"``). Few iterations suffice, as 200 rows of the kernels make a good preconditioner.
"""

from typing import Any

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.lapack import dpotrf

from omkl.kernels.stack import KernelStack

#: Samples from which on conjugate gradients beat a Cholesky factor.
LARGE = 600
#: Samples whose rows of the kernels the preconditioner knows.
LANDMARKS = 200
#: The same where the approximation is inverted with the diagonals of several parts.
LANDMARKS_OF_PARTS = 50
#: Least diagonal of the preconditioner, as a part of the curvature's.
LEAST = 1e-6
#: Iterations after which a direction is taken as it is: it leads down, however inexact.
MOST_ITERATIONS = 100
#: Residual at which a direction is good enough, in the norm of the preconditioner, relative to the start.
ACCURACY = 1e-2


def system_of(kernels: KernelStack) -> str:
    """How systems with these kernels are solved: ``"cholesky"``, ``"cg"`` or ``"matrix-free"``."""
    if kernels.n_samples < LARGE and kernels.n_parts == 1:
        return "cholesky"
    return "cg" if kernels.sums_entries else "matrix-free"


class Curvature:
    """Kernels and rank-one terms, ``S + sum_m b_m v_m v_m'``, as an operator: no matrix of all pairs is made.

    Parameters
    ----------
    kernels : WeightedSum
        S.
    vectors : array of shape (k, N)
        ``v_m``.
    rank_one_weights : array of shape (k,)
        ``b_m``, of either sign; the whole is positive semidefinite.
    n_parts : int
        Equal blocks on the diagonal of S, beside which it is zero; each has an equality of its own.
    """

    def __init__(self, kernels: Any, vectors: np.ndarray, rank_one_weights: np.ndarray, n_parts: int = 1) -> None:
        self.kernels, self.vectors, self.rank_one_weights = kernels, vectors, rank_one_weights
        self.n_parts = n_parts

    def __matmul__(self, vector: np.ndarray) -> np.ndarray:
        return self.kernels.product(vector) + (self.rank_one_weights * (self.vectors @ vector)) @ self.vectors

    def solve(self, diagonal: np.ndarray, right: np.ndarray, equality: bool) -> tuple[np.ndarray, float]:
        """See :func:`solve_by_iterations`."""
        return solve_by_iterations(self, diagonal, right, equality)

    def rows(self, samples: np.ndarray) -> np.ndarray:
        """Rows of the matrix: (s, N)."""
        return self.kernels.rows(samples) + (self.vectors[:, samples].T * self.rank_one_weights) @ self.vectors

    def diagonal(self) -> np.ndarray:
        """(N,)."""
        return self.kernels.diagonal() + self.rank_one_weights @ self.vectors**2


def solve_by_cholesky(
    curvature: np.ndarray, diagonal: np.ndarray, right: np.ndarray, equality: bool
) -> tuple[np.ndarray, float]:
    r"""Solve ``(curvature + diag(diagonal)) x + b 1 = right``, with :math:`\sum_i x_i = 0` if there is an equality.

    Parameters
    ----------
    curvature : array of shape (N, N)
        Positive semidefinite; symmetric; it is overwritten by the whole matrix.
    diagonal : array of shape (N,)
        Positive.
    right : array of shape (N,)
    equality : bool

    Returns
    -------
    x : array of shape (N,)
    b : float
        0 without the equality.
    """
    curvature = curvature if curvature.flags.f_contiguous else curvature.T
    curvature[np.diag_indices_from(curvature)] += diagonal
    solved = cho_solve((_factor(curvature), True), np.column_stack([right, np.ones_like(right)]), check_finite=False)
    multiplier = float(solved[:, 0].sum() / solved[:, 1].sum()) if equality else 0.0
    return solved[:, 0] - multiplier * solved[:, 1], multiplier


def _factor(matrix):
    """The lower Cholesky factor, with as much more of the diagonal as rounding makes necessary."""
    jitter = 0.0
    while True:
        factor, failed = dpotrf(matrix, lower=1, clean=0)
        if not failed:
            return factor
        more = max(10.0 * jitter, 1e-14 * np.trace(matrix) / len(matrix))
        matrix[np.diag_indices_from(matrix)] += more - jitter
        jitter = more


def solve_by_iterations(
    curvature: Curvature, diagonal: np.ndarray, right: np.ndarray, equality: bool
) -> tuple[np.ndarray, float]:
    """Solve what :func:`solve_by_cholesky` does, for a :class:`Curvature`, and no more exactly than a step needs.

    Conjugate gradients in the space where the equality holds (Gould, Hribar and Nocedal 2001).
    """
    n_parts = curvature.n_parts
    precondition = _landmarks(curvature, diagonal)
    ones = precondition(np.ones_like(right)) if equality else np.zeros_like(right)
    total = _of_parts(ones, n_parts) if equality else np.ones(n_parts)
    solution, residual, multiplier = np.zeros_like(right), right.copy(), np.zeros(n_parts)

    def spread(values):
        return np.repeat(values, len(right) // n_parts)

    def steer():
        """The preconditioned residual; what the equality takes of it leaves the residual, too, to save its digits."""
        nonlocal multiplier
        steered = precondition(residual)
        if not equality:
            return steered
        multiple = _of_parts(steered, n_parts) / total
        residual[:] -= spread(multiple)
        multiplier += multiple
        return steered - spread(multiple) * ones

    steer()
    direction = steered = steer()
    norm = residual @ steered
    enough = ACCURACY**2 * norm
    for _ in range(MOST_ITERATIONS):
        if norm <= enough:
            break
        change = curvature @ direction + diagonal * direction
        step = norm / (direction @ change)
        solution += step * direction
        residual -= step * change
        steered = steer()
        previous, norm = norm, residual @ steered
        direction = steered + norm / previous * direction
    solution -= spread(_of_parts(solution, n_parts) / total) * ones
    return solution, float(multiplier[0]) if n_parts == 1 else spread(multiplier)


def _of_parts(vector, n_parts):
    """The sum of each of so many equal parts of a vector."""
    return vector.reshape(n_parts, -1).sum(axis=1)


def _landmarks(curvature, diagonal):
    r"""The inverse of a diagonal plus a low-rank approximation of the curvature, from its rows of a few samples.

    That is a Nyström approximation, with what it misses of the diagonal put there. The samples are those with the
    least diagonal: where it is huge, as at the bounds of the loss's domain, the kernels count for little. Equal parts
    on the diagonal have one approximation, without the terms of rank one, which couple them.
    """
    n_parts = curvature.n_parts
    alone = n_parts == 1
    hessian_diagonal = curvature.diagonal() if alone else curvature.kernels.part.diagonal()
    diagonal = diagonal.reshape(n_parts, -1)
    softest = (diagonal / (diagonal + hessian_diagonal)).mean(axis=0)
    softest = np.sort(np.argsort(softest, kind="stable")[: LANDMARKS if alone else LANDMARKS_OF_PARTS])
    rows = curvature.rows(softest) if alone else curvature.kernels.part.rows(softest)
    inner = np.asfortranarray(rows[:, softest])
    scale = np.trace(inner) / len(inner)
    if not scale > 0:
        return lambda residual: residual / diagonal.ravel()
    inner[np.diag_indices_from(inner)] += LEAST * scale
    factor = solve_triangular(_factor(inner), rows, lower=True, check_finite=False)
    # what is below loses its digits in the difference that the inverse is
    diagonal = diagonal + np.maximum(hessian_diagonal - np.einsum("si,si->i", factor, factor), LEAST * hessian_diagonal)
    small = [_of_identity(factor, own) for own in diagonal]

    def precondition(residual):
        residual = residual.reshape(diagonal.shape) / diagonal
        inner = [cho_solve((own, True), values, check_finite=False) for own, values in zip(small, residual @ factor.T)]
        return (residual - (np.array(inner) @ factor) / diagonal).ravel()

    return precondition


def _of_identity(factor, diagonal):
    """The Cholesky factor of ``1 + F diag(diagonal)^-1 F'``."""
    matrix = (factor / diagonal) @ factor.T
    matrix[np.diag_indices_from(matrix)] += 1.0
    return _factor(np.asfortranarray(matrix))
