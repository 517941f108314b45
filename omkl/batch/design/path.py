"""Regularization paths: one problem at many strengths C, each solved from its neighbour."""

from dataclasses import replace

from omkl.batch.core.path import descending_strengths
from omkl.batch.design.dal import DAL


def solve_path(problem, C=20, tol=1e-3, max_iter=None, solver=None, decades=2.0):
    """Solve at each strength, from the largest to the smallest, each from the solution before.

    Parameters
    ----------
    problem : DesignProblem
        Its own C is not used.
    C : int or array of floats > 0
        The strengths, or how many, spread evenly in the logarithm below :meth:`DesignProblem.largest_strength`.
    tol, max_iter
        As for :meth:`DesignSolver.solve`.
    solver : DesignSolver, optional
        :class:`DAL` by default.
    decades : float
        How far down a number of strengths reaches.

    Yields
    ------
    C : float
    solution : omkl.batch.Solution
    """
    solver = DAL() if solver is None else solver
    strengths = descending_strengths(C, problem.largest_strength, decades)
    start = None
    for strength in strengths.tolist():
        solution = solver.solve(replace(problem, C=strength), tol, max_iter, start)
        start = solution.start
        yield strength, solution
