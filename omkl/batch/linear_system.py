"""The Newton system: positive definite, a diagonal plus kernels, perhaps an equality; by Cholesky or iterations."""

import numpy as np
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotrf

#: Samples from which on conjugate gradients beat a Cholesky factor.
LARGE = 1200
#: Iterations after which a factor is made after all.
MOST_ITERATIONS = 60
#: Residual at which a direction is good enough, in the norm of the preconditioner, relative to the start.
ACCURACY = 1e-4


def solve_system(curvature, diagonal, right, equality):
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
    precondition = _soft_half(curvature, diagonal) if len(diagonal) >= LARGE else None
    if precondition is not None:
        solved = _conjugate_gradients(curvature, precondition, right, equality)
        if solved is not None:
            return solved
    solved = _by_cholesky(curvature, np.column_stack([right, np.ones_like(right)]))
    multiplier = float(solved[:, 0].sum() / solved[:, 1].sum()) if equality else 0.0
    return solved[:, 0] - multiplier * solved[:, 1], multiplier


def _by_cholesky(matrix, sides):
    """Cholesky, with as much more of the diagonal as rounding makes necessary."""
    jitter = 0.0
    while True:
        factor, failed = dpotrf(matrix, lower=1, clean=0)
        if not failed:
            return cho_solve((factor, True), sides, check_finite=False)
        more = max(10.0 * jitter, 1e-14 * np.trace(matrix) / len(matrix))
        matrix[np.diag_indices_from(matrix)] += more - jitter
        jitter = more


def _soft_half(matrix, diagonal):
    """The inverse of the block of the softer half of the samples, and of the diagonal for the others.

    Samples at the bounds of the loss's domain have a huge diagonal, beside which the kernels count for little: the
    block takes an eighth of the work of the whole, and leaves few iterations to do.
    """
    stiffness = np.diagonal(matrix).copy()
    soft = np.sort(np.argsort(diagonal / stiffness, kind="stable")[: len(diagonal) // 2])
    factor, failed = dpotrf(matrix[np.ix_(soft, soft)].T, lower=1, clean=0, overwrite_a=1)
    if failed:
        return None

    def precondition(residual):
        steered = residual / stiffness
        steered[soft] = cho_solve((factor, True), residual[soft], check_finite=False)
        return steered

    return precondition


def _conjugate_gradients(matrix, precondition, right, equality):
    """Conjugate gradients in the space where the equality holds (Gould, Hribar and Nocedal 2001); None if too slow."""
    ones = precondition(np.ones_like(right)) if equality else np.zeros_like(right)
    total = ones.sum() if equality else 1.0

    def steer(residual):
        steered = precondition(residual)
        multiplier = steered.sum() / total if equality else 0.0
        return steered - multiplier * ones, multiplier

    solution, residual = np.zeros_like(right), right.copy()
    steered, multiplier = steer(residual)
    direction, norm = steered, residual @ steered
    enough = ACCURACY**2 * norm
    for _ in range(MOST_ITERATIONS):
        if norm <= enough:
            return solution - solution.mean() * equality, float(multiplier)
        images = matrix @ direction
        step = norm / (direction @ images)
        solution += step * direction
        residual -= step * images
        steered, multiplier = steer(residual)
        previous, norm = norm, residual @ steered
        direction = steered + norm / previous * direction
    return None
