"""Base of batch solvers, their solutions, the record of a search, and regularization paths."""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import Component, check_number
from omkl.batch.problem import BaseProblem, Certificate, Model, relative_gap
from omkl.exceptions import InputError

#: Called with each record of a search; a true return value ends it.
Listener = Callable[[dict[str, Any]], Any]
#: Kind of problem that a solver solves.
OwnProblem = TypeVar("OwnProblem", bound=BaseProblem)
#: Kind of warm start of a solver.
OwnStart = TypeVar("OwnStart")


class GapMonitor:
    """Record of a search, with one entry per outer iteration, and its stopping rule.

    Parameters
    ----------
    tol : float > 0
        Relative duality gap to reach.
    max_iter : int
        Maximum number of records.
    on_iteration : callable or None
        Called with each record; a true return value ends the search.

    Attributes
    ----------
    history : list of dict
        Flat records: ``iteration`` (from 0), ``seconds`` since the start, ``primal``, ``dual``,
        ``gap`` (relative), ``active`` (number of groups in the model), and entries of the solver.
    """

    def __init__(self, tol: float, max_iter: int, on_iteration: Listener | None = None) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.on_iteration = on_iteration
        self.history: list[dict[str, Any]] = []
        self._records_start = True
        self._started = time.perf_counter()

    def skip_start(self) -> None:
        """Leave the start of the search out of the history: the first record is an iteration."""
        self._records_start = False
        self.max_iter -= 1

    def record(
        self, primal: float, dual: float, active: int | np.integer, **solver_entries: float | str
    ) -> bool:
        """Record an iteration; return whether the search should end.

        Parameters
        ----------
        primal, dual : float
        active : int
            Number of groups in the model.
        **solver_entries
            Further entries of the record.
        """
        gap = relative_gap(primal, dual)
        record = {
            "iteration": len(self.history),
            "seconds": time.perf_counter() - self._started,
            "primal": primal,
            "dual": dual,
            "gap": gap,
            "active": int(active),
            **solver_entries,
        }
        self.history.append(record)
        stopped = self.on_iteration is not None and bool(self.on_iteration(record))
        return stopped or gap <= self.tol or len(self.history) >= self.max_iter

    def solution(
        self, model: Model, certificate: Certificate, start: OwnStart, stalled: bool = False
    ) -> "Solution[OwnStart]":
        """Return a model as the solution of the recorded search.

        Parameters
        ----------
        model : Expansion or LinearModel
        certificate : Certificate
        start : object
            Warm start for a similar problem.
        stalled : bool
        """
        return Solution(
            model=model,
            certificate=certificate,
            n_iter=len(self.history) - int(self._records_start),
            converged=certificate.proves(self.tol),
            history=self.history,
            start=start,
            stalled=stalled,
        )


@dataclass
class Solution(Generic[OwnStart]):
    """A model, its certificate, and the record of the search.

    Attributes
    ----------
    model : Expansion or LinearModel
    certificate : Certificate
        Computed over all groups from the returned model.
    n_iter : int
        Outer iterations.
    converged : bool
        Whether the relative gap is at most the tolerance.
    history : list of dict
        One flat record per outer iteration: see :class:`~omkl.batch.GapMonitor`.
    start : object
        Warm start of the same solver for a similar problem.
    stalled : bool
        Whether rounding prevents further progress.
    """

    model: Any
    certificate: Certificate
    n_iter: int
    converged: bool
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)
    start: OwnStart | None = field(default=None, repr=False)
    stalled: bool = False


class Requirement(NamedTuple):
    """A condition that a solver sets to a problem.

    Attributes
    ----------
    meaning : str
        What is needed, for messages.
    holds : callable
        ``holds(problem)`` returns whether the problem meets the condition.
    """

    meaning: str
    holds: Callable[[Any], bool]


#: Needed by all solvers: the dual norm of a group without a penalty must be 0, and is so up to
#: rounding only.
PENALTY = Requirement(
    "a regularizer that penalizes every group; "
    "groups of columns may have the weight 0 in group_weights",
    lambda problem: bool((problem.regularizer.value_alone(1.0, 1) > 0.0).all()),
)
SMOOTH_LOSS = Requirement(
    "a loss with a second derivative", lambda problem: not problem.loss.has_kink
)
GROUP_NORMS = Requirement(
    "a regularizer of group norms, not of coordinates",
    lambda problem: not problem.regularizer.on_coordinates,
)
EXACT_PROX = Requirement(
    "a regularizer with an exact prox", lambda problem: problem.regularizer.exact
)
DERIVATIVE_OF_PROX = Requirement(
    "a regularizer that defines prox_slope(), such as 'mkl', or is a sum over groups, "
    "such as 'block1'",
    lambda problem: problem.regularizer.differentiable_prox,
)
SMOOTH_DUAL = Requirement(
    "a regularizer with a smooth dual, such as 'elastic-net', 'block-q' or 'uniform'",
    lambda problem: problem.regularizer.smooth_conjugate,
)


class BaseSolver(Component, Generic[OwnProblem, OwnStart]):
    """A method that solves batch problems, whose parameters are constructor arguments.

    Estimators also take solvers by name, such as ``"spicy"`` or ``"dal"``.
    """

    #: Default relative duality gap, and default maximum number of outer iterations.
    default_tol: ClassVar[float] = 1e-2
    default_max_iter: ClassVar[int] = 100
    #: Everything that the method needs of a problem, besides what all losses and regularizers
    #: define.
    requires: ClassVar[tuple[Requirement, ...]] = ()

    def solve(
        self,
        problem: OwnProblem,
        tol: float | None = None,
        max_iter: int | None = None,
        start: OwnStart | None = None,
        on_iteration: Listener | None = None,
    ) -> Solution[OwnStart]:
        """Solve to a relative duality gap of ``tol``.

        Parameters
        ----------
        problem : Problem or DesignProblem
        tol : float > 0, optional
            1e-2 for kernels and 1e-3 for designs by default.
        max_iter : int, optional
            Maximum number of outer iterations; the default depends on the method.
        start : object, optional
            The ``start`` of a solution of a similar problem, or a model.
        on_iteration : callable, optional
            Called with each record of the history; a true return value ends the search.

        Raises
        ------
        omkl.exceptions.InputError
            If the method cannot solve problems with this loss or this regularizer.
        """
        if tol is None:
            tol = self.default_tol
        if max_iter is None:
            max_iter = self.default_max_iter
        check_number("tol", tol, above=0)
        self.check(problem)
        monitor = GapMonitor(tol, max_iter + 1, on_iteration)
        return self._search(problem, monitor, start)

    def check(self, problem: BaseProblem) -> None:
        """Raise an InputError that names all requirements that a problem does not meet."""
        requirements = (PENALTY, *self.requires)
        missing = [needed.meaning for needed in requirements if not needed.holds(problem)]
        if missing:
            raise InputError(
                f"The solver {self.as_string()!r} needs {', and '.join(missing)}; "
                f"got {problem.loss!r} and {problem.regularizer!r}."
            )

    @abstractmethod
    def _search(
        self, problem: OwnProblem, monitor: GapMonitor, start: OwnStart | None
    ) -> Solution[OwnStart]:
        """Solve; the first record is the start."""


class Solver(BaseSolver[OwnProblem, OwnStart]):
    """A method that solves a :class:`~omkl.batch.Problem` of kernels."""

    #: Whether the method solves a :func:`~omkl.batch.shared_problem` of several outputs.
    several_outputs: ClassVar[bool] = False
    #: Default regularizer.
    natural_regularizer: ClassVar[str] = "mkl"


class DesignSolver(BaseSolver[OwnProblem, OwnStart]):
    """A method that solves a :class:`~omkl.batch.DesignProblem`."""

    default_tol = 1e-3


# ---- paths ---------------------------------------------------------------------------------------


@dataclass
class PathPoint:
    """The solution of one problem of a path.

    Attributes
    ----------
    value : float
        C or alpha of the problem.
    solution : Solution
    seconds : float
        Time to solve the problem.
    """

    value: float
    solution: Solution
    seconds: float


def regularization_path(
    solver: BaseSolver,
    problem: BaseProblem,
    values: int | ArrayLike = 20,
    tol: float = 1e-2,
    max_iter: int | None = None,
    decades: float = 3.0,
) -> Iterator[PathPoint]:
    """Solve a problem at many values of C or alpha, from strong to weak regularization.

    Parameters
    ----------
    solver : Solver or DesignSolver
        Solver for kernels or for design matrices.
    problem : Problem or DesignProblem
        Its C or alpha is not used.
    values : int or array of floats > 0
        Values of C (or alpha), or their number, evenly spaced on a log scale, starting where a
        constant is optimal.
    tol, max_iter
        As for :meth:`Solver.solve`.
    decades : float
        Range of the values in powers of ten, if their number is given.

    Yields
    ------
    PathPoint

    Raises
    ------
    omkl.exceptions.InputError
        If ``values`` is neither a number >= 1 nor an array of finite numbers > 0.
    """
    if is_number_of_values(values):
        path_values = problem.path_values(int(values), decades)
    else:
        path_values = ordered(values)
        if not problem.larger_fits_closer:
            path_values = path_values[::-1]
    start = None
    for value in path_values.tolist():
        began = time.perf_counter()
        solution = solver.solve(problem.at(value), tol, max_iter, start)
        start = solution.start
        yield PathPoint(value, solution, time.perf_counter() - began)


def is_number_of_values(values: ArrayLike) -> TypeGuard[int]:
    """Return whether ``values`` is the number of values of a path, rather than the values."""
    return isinstance(values, (int, np.integer)) and bool(values >= 1)


def ordered(values: ArrayLike) -> np.ndarray:
    """Return values of C or alpha in increasing order.

    Raises
    ------
    omkl.exceptions.InputError
        If there are none, or they are not finite and > 0.
    """
    try:
        increasing = np.sort(np.asarray(values, dtype=np.float64).ravel())
    except (ValueError, TypeError, OverflowError):
        increasing = np.empty(0)
    if not len(increasing) or not np.isfinite(increasing).all() or increasing[0] <= 0:
        raise InputError(
            f"Give a number of values, or values that are finite and > 0, got {values!r}."
        )
    return increasing
