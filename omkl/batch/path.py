"""Regularization paths: a problem at many values of C or alpha."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from omkl.batch.problem import BaseProblem
from omkl.batch.solver import Solution, Solver
from omkl.exceptions import InputError

#: Largest number of values of a path.
MOST_VALUES = 100_000


@dataclass
class PathPoint:
    """One problem of a path, solved.

    Attributes
    ----------
    value : float
        Its C, or alpha.
    solution : Solution
    seconds : float
        Time of the solution.
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
    """Return the values, the one that regularizes most first."""
    if is_number_of_values(values):
        return problem.path_values(int(values), decades)
    return ordered(values) if problem.larger_fits_closer else ordered(values)[::-1]


def is_number_of_values(values: Any) -> TypeGuard[int]:
    """Return whether this is the number of values of a path, rather than the values.

    Parameters
    ----------
    values : object

    Raises
    ------
    omkl.exceptions.InputError
        If the number is too large.
    """
    is_number = isinstance(values, (int, np.integer)) and bool(values >= 1)
    if is_number and values > MOST_VALUES:
        raise InputError(f"A path may have at most {MOST_VALUES} values, got {values}.")
    return is_number


def ordered(values: ArrayLike) -> np.ndarray:
    """Return values of C or alpha in increasing order.

    Parameters
    ----------
    values : array of floats > 0

    Raises
    ------
    omkl.exceptions.InputError
        If they are not finite and > 0.
    """
    try:
        increasing = np.sort(np.asarray(values, dtype=np.float64).ravel())
    except (ValueError, TypeError, OverflowError):
        increasing = np.empty(0)
    if not len(increasing) or not np.isfinite(increasing).all() or increasing[0] <= 0:
        raise InputError(f"Give a number of values, or values that are finite and > 0, got {values!r}.")
    return increasing
