"""Regularization paths: one problem at many strengths C, each solved from its neighbour."""

from dataclasses import replace

import numpy as np

from omkl.batch.design.dal import DAL
from omkl.exceptions import InputError


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


def descending_strengths(C, largest, decades):
    """Strengths from the largest: those given, or so many, spread evenly in the logarithm below ``largest()``.

    Raises
    ------
    omkl.exceptions.InputError
        If C is neither a number of strengths nor strengths that are finite and > 0.
    """
    if isinstance(C, (int, np.integer)) and C >= 1:
        C = np.geomspace(1.0, 10.0**-decades, C) * largest()
    strengths = np.sort(np.asarray(C, dtype=np.float64).ravel())[::-1]
    if not len(strengths) or not np.isfinite(strengths).all() or strengths[-1] <= 0:
        raise InputError(f"C must be a number of strengths, or strengths that are finite and > 0, not {C!r}.")
    return strengths
