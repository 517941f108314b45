"""What a batch solver is: a problem in, a certified model and a record of the search out; paths of problems."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import Component
from omkl.batch.core.problem import BaseProblem, Certificate, relative_gap
from omkl.exceptions import InputError

#: Values of C or alpha that a path has at most.
MOST_VALUES = 100_000
#: What hears of every record of a search; a true return value ends it.
Listener = Callable[[dict[str, Any]], Any]


class GapMonitor:
    """Keeps one record an outer iteration, and knows when enough is enough.

    Parameters
    ----------
    tol : float > 0
        Relative duality gap to reach.
    max_iter : int
        Records at most.
    on_iteration : callable or None
        Called with each record; a true return value ends the search.

    Attributes
    ----------
    history : list of dict
        Flat records: ``iteration`` (from 0), ``seconds`` since the start, ``primal``, ``dual``, ``gap`` (relative),
        ``active`` (number of groups in the model), and what the solver has to add.
    """

    def __init__(self, tol: float, max_iter: int, on_iteration: Listener | None = None) -> None:
        self.tol, self.max_iter, self.on_iteration = tol, max_iter, on_iteration
        self.history: list[dict[str, Any]] = []
        self._started = time.perf_counter()

    def record(self, primal: float, dual: float, active: int | np.integer, **more: Any) -> bool:
        """Record an iteration; whether it was the last: the gap is reached, it is enough, or the listener says so."""
        gap = relative_gap(primal, dual)
        record = {
            "iteration": len(self.history), "seconds": time.perf_counter() - self._started,
            "primal": primal, "dual": dual, "gap": gap, "active": int(active), **more,
        }  # fmt: skip
        self.history.append(record)
        stopped = self.on_iteration is not None and bool(self.on_iteration(record))
        return stopped or gap <= self.tol or len(self.history) >= self.max_iter


@dataclass
class Solution:
    """A model, how good it is, and how it came about.

    Attributes
    ----------
    model : Expansion or LinearModel
    certificate : Certificate
        Computed over all groups from the model as it is returned.
    n_iter : int
        Outer iterations.
    converged : bool
        Whether the relative gap is at most the tolerance.
    history : list of dict
        One flat record an outer iteration: see :class:`~omkl.batch.GapMonitor`.
    start : object
        What the same solver can start a similar problem from: a warm start.
    stalled : bool
        Whether the solver saw that further iterations gain nothing, for rounding.
    """

    model: Any
    certificate: Certificate
    n_iter: int
    converged: bool
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)
    start: Any = field(default=None, repr=False)
    stalled: bool = False


class Solver(Component):
    """A method of solving :class:`~omkl.batch.Problem`; parameters of the method are its constructor's.

    A string names it wherever a solver is accepted: ``"spicy"``, ``"one-step"``.
    """

    #: Whether it solves problems of several outputs with one weight a kernel: :func:`~omkl.batch.shared_problem`.
    several_outputs: ClassVar[bool] = False
    #: The regularizer that the method is for, where the user names none.
    natural_regularizer: ClassVar[str] = "mkl"

    def solve(
        self,
        problem: Any,
        tol: float = 1e-2,
        max_iter: int | None = None,
        start: Any = None,
        on_iteration: Listener | None = None,
    ) -> Solution:
        """Solve to a relative duality gap of ``tol``.

        Parameters
        ----------
        problem : Problem
        tol : float > 0
        max_iter : int, optional
            Outer iterations at most; by default as many as the method may reasonably need.
        start : object, optional
            The ``start`` of a solution of a similar problem: same kernels and samples, another C.
        on_iteration : callable, optional
            Called with each record of the history; a true return value ends the search.

        Raises
        ------
        omkl.exceptions.InputError
            If the method cannot solve problems with this loss or this regularizer: the message says which can.
        """
        raise NotImplementedError


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
    if is_number_of_values(values):
        return problem.path_values(int(values), decades)
    return ordered(values) if problem.larger_fits_closer else ordered(values)[::-1]


def is_number_of_values(values: Any) -> TypeGuard[int]:
    """Whether this is how many values a path has, rather than these; raises where they are too many."""
    is_number = isinstance(values, (int, np.integer)) and bool(values >= 1)
    if is_number and values > MOST_VALUES:
        raise InputError(f"A path may have {MOST_VALUES} values at most.")
    return is_number


def ordered(values: ArrayLike) -> np.ndarray:
    """Values of C or alpha in increasing order, refused where they are not finite and > 0."""
    try:
        increasing = np.sort(np.asarray(values, dtype=np.float64).ravel())
    except (ValueError, TypeError, OverflowError):
        increasing = np.empty(0)
    if not len(increasing) or not np.isfinite(increasing).all() or increasing[0] <= 0:
        raise InputError(f"Give a number of values, or values that are finite and > 0, not {values!r}.")
    return increasing
