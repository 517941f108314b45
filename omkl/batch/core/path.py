"""Regularization paths: one problem at many strengths, each solved from the solution of the one before."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from omkl.batch.core.problem import BaseProblem
from omkl.batch.core.solver import Solution, Solver
from omkl.exceptions import InputError


@dataclass
class PathPoint:
    """One problem of a path, solved.

    Attributes
    ----------
    strength : float
        Its C, or alpha.
    solution : Solution
    seconds : float
        That it took.
    """

    strength: float
    solution: Solution
    seconds: float


def regularization_path(
    solver: Solver,
    problem: BaseProblem,
    strengths: int | ArrayLike = 20,
    tol: float = 1e-2,
    max_iter: int | None = None,
    decades: float = 3.0,
) -> Iterator[PathPoint]:
    """Solve a problem at many strengths, from the one that regularizes most.

    Parameters
    ----------
    solver : Solver
        Of kernels, or of design matrices.
    problem : Problem or DesignProblem
        Its own C, or alpha, is not used.
    strengths : int or array of floats > 0
        Values of C (or alpha), or how many, evenly in the logarithm from the one at which a constant is optimal.
    tol, max_iter
        As for :meth:`Solver.solve`.
    decades : float
        How far a number of strengths reaches.

    Yields
    ------
    PathPoint

    Raises
    ------
    omkl.exceptions.InputError
        If strengths are neither a number of them nor values that are finite and > 0.
    """
    start = None
    for strength in _in_order(problem, strengths, decades).tolist():
        began = time.perf_counter()
        solution = solver.solve(problem.at(strength), tol, max_iter, start)
        start = solution.start
        yield PathPoint(strength, solution, time.perf_counter() - began)


def _in_order(problem: BaseProblem, strengths: int | ArrayLike, decades: float) -> np.ndarray:
    """The strengths, the one that regularizes most first: as a problem orders its own."""
    if isinstance(strengths, (int, np.integer)) and strengths >= 1:
        return problem.strengths(int(strengths), decades)
    values = np.sort(np.asarray(strengths, dtype=np.float64).ravel())
    if not len(values) or not np.isfinite(values).all() or values[0] <= 0:
        raise InputError(f"Give a number of strengths, or strengths that are finite and > 0, not {strengths!r}.")
    return values if problem.larger_fits_closer else values[::-1]
