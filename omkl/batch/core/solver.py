"""What a batch solver is: a problem in, a certified model out."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from omkl._components import Component
from omkl.batch.core.gap_monitor import Listener
from omkl.batch.core.problem import Certificate


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
    """

    model: Any
    certificate: Certificate
    n_iter: int
    converged: bool
    history: list[dict[str, Any]] = field(default_factory=list, repr=False)
    start: Any = field(default=None, repr=False)


class Solver(Component):
    """A method of solving :class:`~omkl.batch.Problem`; parameters of the method are its constructor's.

    A string names it wherever a solver is accepted: ``"spicy"``, ``"one-step"``.
    """

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
