"""Regularization paths: one problem at many strengths C, each solved from its neighbour."""

from dataclasses import replace

import numpy as np

from omkl.batch.design import DAL
from omkl.exceptions import InputError


def largest_strength(problem):
    r""":math:`C_{\max}`: from here on the model is zero, but for the intercept.

    Parameters
    ----------
    problem : DesignProblem
        Its C plays no part.

    Returns
    -------
    float
        :math:`\max_g \|A_g^\top \rho_0\| / (\omega_g \psi'(0))` with :math:`\rho_0 = -l'` at the best constant.
    """
    outputs = np.zeros(len(problem.y))
    rho = problem.dual_point(outputs + problem.best_intercept(outputs))
    return problem.groups.dual_norms(problem.design.correlations(rho)).max(initial=0.0) / problem.threshold


def strengths_from(largest, n_strengths=100, ratio=1e-2):
    """A geometric grid of C from the largest down to ``ratio`` times that."""
    if not n_strengths >= 1 or not 0 < ratio < 1:
        raise InputError(f"A path needs n_strengths >= 1 and 0 < ratio < 1, not {n_strengths!r} and {ratio!r}.")
    return largest * ratio ** (np.arange(n_strengths) / max(n_strengths - 1, 1))


def solve_path(problem, strengths, tol=1e-3, max_iter=None, solver=None):
    """Solve at each strength, from the largest to the smallest, each from the solution before.

    Parameters
    ----------
    problem : DesignProblem
    strengths : array of floats > 0
    tol, max_iter
        As for :meth:`DesignSolver.solve`.
    solver : DesignSolver, optional
        :class:`DAL` by default.

    Yields
    ------
    C : float
    solution : omkl.batch.Solution
    """
    solver = DAL() if solver is None else solver
    start = None
    for C in np.sort(np.asarray(strengths, dtype=np.float64))[::-1]:
        solution = solver.solve(replace(problem, C=float(C)), tol, max_iter, start)
        start = solution.start
        yield float(C), solution
