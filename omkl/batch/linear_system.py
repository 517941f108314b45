"""The Newton system: positive definite, a diagonal plus a sum of kernels. Cholesky by default, iterations when large."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotrf

#: Samples from which on conjugate gradients beat a Cholesky factor.
LARGE = 1200
#: Columns of the preconditioner, and iterations after which a factor is made after all.
COLUMNS, MOST_ITERATIONS = 300, 60
#: Residual at which a direction is good enough, in the norm of the preconditioner, relative to the start.
ACCURACY = 1e-4


def solve_system(curvature, diagonal, sides):
    """Solve ``(curvature + diag(diagonal)) x = sides``.

    Parameters
    ----------
    curvature : array of shape (N, N)
        Positive semidefinite; it is overwritten by the whole matrix.
    diagonal : array of shape (N,)
        Positive.
    sides : array of shape (N, k)
    """
    preconditioner = _nystrom(curvature, diagonal) if len(diagonal) >= LARGE else None
    curvature[np.diag_indices_from(curvature)] += diagonal
    if preconditioner is not None:
        solved = _conjugate_gradients(curvature, preconditioner, sides)
        if solved is not None:
            return solved
    return _by_cholesky(curvature, sides)


def _by_cholesky(matrix, sides):
    """Cholesky, with as much more of the diagonal as rounding makes necessary."""
    jitter = 0.0
    while True:
        # the transpose of a symmetric matrix is the same matrix in the order that LAPACK wants
        factor, failed = dpotrf(matrix.T, lower=1, clean=0)
        if not failed:
            return cho_solve((factor, True), sides, check_finite=False)
        more = max(10.0 * jitter, 1e-14 * np.trace(matrix) / len(matrix))
        matrix[np.diag_indices_from(matrix)] += more - jitter
        jitter = more


def _nystrom(curvature, diagonal):
    r"""The inverse of the diagonal plus a Nyström approximation of the rest (Frangella, Tropp and Udell 2023).

    Columns are drawn in proportion to what they weigh beside the diagonal: samples at their bounds, whose diagonal is
    huge, are left to it.
    """
    root = np.sqrt(diagonal)
    weights = np.maximum(np.diagonal(curvature), 0.0) / diagonal
    n_columns = min(COLUMNS, np.count_nonzero(weights > 0))
    if not n_columns:
        return None
    drawn = np.random.default_rng(0).choice(len(root), n_columns, replace=False, p=weights / weights.sum())
    columns = curvature[np.sort(drawn)].T / root[:, None]
    columns /= root[np.sort(drawn)]
    core = columns[np.sort(drawn)]
    core = core + 1e-10 * np.trace(core) * np.eye(n_columns)
    factor = cho_factor(core + columns.T @ columns)

    def apply(residual):
        scaled = residual / root[:, None]
        return (scaled - columns @ cho_solve(factor, columns.T @ scaled)) / root[:, None]

    return apply


def _conjugate_gradients(matrix, preconditioner, sides):
    """All right-hand sides in step, so that the matrix is read once an iteration; None where that takes too long."""
    solution, residual = np.zeros_like(sides), sides.copy()
    steered = preconditioner(residual)
    direction, norms = steered.copy(), (residual * steered).sum(axis=0)
    enough = ACCURACY**2 * norms
    for _ in range(MOST_ITERATIONS):
        if np.all(norms <= enough):
            return solution
        images = matrix @ direction
        steps = norms / np.maximum((direction * images).sum(axis=0), np.finfo(np.float64).tiny)
        solution += steps * direction
        residual -= steps * images
        steered = preconditioner(residual)
        previous, norms = norms, (residual * steered).sum(axis=0)
        direction = steered + norms / np.maximum(previous, np.finfo(np.float64).tiny) * direction
    return None
