"""Regularization paths: one problem at many values of C or alpha, each solved from the solution of the one before."""

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
    value : float
        Its C, or alpha.
    solution : Solution
    seconds : float
        That it took.
    """

    value: float
    solution: Solution
    seconds: float


def regularization_path(
    solver: Solver,
    problem: BaseProblem,
    values: int | ArrayLike = 20,
    tol: float = 1e-2,
    max_iter: int | None = None,
    decades: float = 3.0,
) -> Iterator[PathPoint]:
    """Solve a problem at many values of C or alpha, from the one that regularizes most.

    Parameters
    ----------
    solver : Solver
        Of kernels, or of design matrices.
    problem : Problem or DesignProblem
        Its own C, or alpha, is not used.
    values : int or array of floats > 0
        Values of C (or alpha), or how many, evenly in the logarithm from the one at which a constant is optimal.
    tol, max_iter
        As for :meth:`Solver.solve`.
    decades : float
        How far the values reach if their number is given.

    Yields
    ------
    PathPoint

    Raises
    ------
    omkl.exceptions.InputError
        If values are neither a number of them nor finite and > 0.
    """
    start = None
    for value in _in_order(problem, values, decades).tolist():
        began = time.perf_counter()
        solution = solver.solve(problem.at(value), tol, max_iter, start)
        start = solution.start
        yield PathPoint(value, solution, time.perf_counter() - began)


def _in_order(problem: BaseProblem, values: int | ArrayLike, decades: float) -> np.ndarray:
    """The values, the one that regularizes most first: as a problem orders its own."""
    if isinstance(values, (int, np.integer)) and values >= 1:
        return problem.path_values(int(values), decades)
    ordered = np.sort(np.asarray(values, dtype=np.float64).ravel())
    if not len(ordered) or not np.isfinite(ordered).all() or ordered[0] <= 0:
        raise InputError(f"Give a number of values, or values that are finite and > 0, not {values!r}.")
    return ordered if problem.larger_fits_closer else ordered[::-1]
