r"""The loop of the wrapper methods: a single-kernel SVM inside, kernel weights outside.

At weights :math:`d` in a set :math:`\mathcal D` the best function lies in the RKHS of :math:`\sum_m d_m K_m`, and

.. math:: J(d) = \max_\rho\ -\sum_i c_i\, l^*(y_i, -\rho_i / c_i) - \frac12 \sum_m d_m \|\rho\|_{K_m}^2

is convex in :math:`d`; its minimum over :math:`\mathcal D` is that of the problem with
:math:`\psi(b) = \min_{d \in \mathcal D} \frac12 \sum_m b_m^2 / d_m`. The methods differ in how they move :math:`d`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from omkl.batch.core.gap_monitor import GapMonitor, Listener
from omkl.batch.core.problem import certify
from omkl.batch.core.solver import Solution, Solver
from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.wrappers.single_kernel import BaseSVM, base_svm_for
from omkl.exceptions import InputError
from omkl.regularizers import Regularizer


@dataclass(frozen=True)
class Point:
    r"""What the base SVM says about kernel weights.

    Attributes
    ----------
    weights : array of shape (M,)
    rho : array of shape (N,)
        Its dual solution, feasible.
    squares : array of shape (M,)
        :math:`\|\rho\|_{K_m}^2`.
    intercept : float
    value : float
        J at the weights.
    gradient : array of shape (M,)
        Of J.
    """

    weights: np.ndarray
    rho: np.ndarray
    squares: np.ndarray
    intercept: float
    value: float
    gradient: np.ndarray


class Search:
    """Evaluates J, and remembers the best model and the best dual point seen.

    Parameters
    ----------
    problem : Problem
    base_svm : callable
    """

    def __init__(self, problem: Problem, base_svm: BaseSVM) -> None:
        self.problem = problem
        self.base_svm = base_svm
        self.n_evaluations = 0
        self.primal, self.dual = np.inf, -np.inf
        self.point: Any = None
        self.rho: np.ndarray | None = None

    def evaluate(self, weights: np.ndarray) -> Point:
        """One call of the base SVM, one pass over the kernels with weights, and one over all."""
        problem = self.problem
        which = None if np.all(weights > 0) else np.flatnonzero(weights)
        gram = problem.kernels.combine(weights if which is None else weights[which], which)
        coefficients, intercept = self.base_svm(gram, problem.y, problem.loss_weights)
        self.n_evaluations += 1
        rho, dual_norms = problem.feasible(coefficients)
        squares = dual_norms**2
        gradient = -0.5 * squares
        value = float(weights @ gradient) - float(problem.weighted_loss.conjugates(rho).sum())
        point = Point(weights, rho, squares, intercept, value, gradient)
        primal = problem.primal(gram @ rho + intercept, weights * dual_norms)
        if primal < self.primal:
            self.primal, self.point = primal, point
        self.offer(rho, squares)
        return point

    def offer(self, rho: np.ndarray, squares: np.ndarray) -> None:
        r"""Take note of a dual feasible point and of :math:`\|\rho\|_{K_m}^2`, or upper bounds of these."""
        dual = self.problem.dual(rho, np.sqrt(squares))
        if dual > self.dual:
            self.dual, self.rho = dual, rho

    def model(self) -> Expansion:
        """The best model seen."""
        active = np.flatnonzero(self.point.weights * self.point.squares)
        coefficients = np.multiply.outer(self.point.weights[active], self.point.rho)
        return Expansion(active, coefficients, self.point.intercept)


class Wrapper(Solver):
    r"""Base of the wrapper methods, which share one loop. A method is a generator: :meth:`points`.

    Parameters
    ----------
    svm : callable or scikit-learn estimator, optional
        The base SVM: a function of a Gram matrix, y and the weights :math:`c_i` of the losses (N,) that returns
        coefficients (N,) and a bias, or an SVM for precomputed kernels. By default scikit-learn's ``SVC`` for the hinge
        loss, its ``SVR`` for the epsilon-insensitive loss, and kernel ridge regression for the squared loss.
    """

    #: Outer iterations at most, unless the caller says otherwise.
    max_iter = 1000

    def __init__(self, svm: Any = None) -> None:
        self.svm = svm

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        """The points of the outer iterations after the first, until the method has nothing more to do.

        Parameters
        ----------
        search : Search
        point : Point
            Where the method starts.

        Yields
        ------
        Point
        """
        raise NotImplementedError

    def check(self, problem: Problem) -> None:
        """Refuse problems whose weights do not lie in the method's set; the simplex for most."""
        require_simplex(problem.regularizer, type(self).__name__)

    def initial_weights(self, problem: Problem, start: ArrayLike | None) -> np.ndarray:
        """The weights of a similar problem, or those of equal norms."""
        n_kernels = problem.kernels.n_kernels
        if start is None:
            return problem.regularizer.kernel_weights(np.ones(n_kernels))
        weights = np.asarray(start, dtype=np.float64)
        usable = weights.shape == (n_kernels,) and np.all(np.isfinite(weights)) and np.all(weights >= 0)
        if not usable or not weights.any():
            raise InputError(f"start must be {n_kernels} kernel weights >= 0, not all 0: the start of a solution.")
        return weights

    def solve(
        self, problem: Problem, tol: float = 1e-2, max_iter: int | None = None, start: Any = None,
        on_iteration: Listener | None = None,
    ) -> Solution:  # fmt: skip
        self.check(problem)
        search = Search(problem, base_svm_for(problem, self.svm, tol))
        monitor = GapMonitor(tol, self.max_iter if max_iter is None else max_iter, on_iteration)
        weights = self.initial_weights(problem, start)
        constant, rho = problem.best_constant()
        model = Expansion(np.arange(0), np.zeros((0, len(rho))), constant)
        certificate = certify(problem, model, rho)
        if certificate.proves(tol):
            # to a loss of 0, as that of constant targets, no SVM comes close enough
            monitor.record(certificate.primal, certificate.dual, 0, svm_evaluations=0)
            return Solution(model, certificate, 1, True, monitor.history, weights)
        first = search.evaluate(weights)
        for point in chain([first], self.points(search, first)):
            active = np.count_nonzero(point.weights)
            if monitor.record(search.primal, search.dual, active, svm_evaluations=search.n_evaluations):
                break
        model = search.model()
        certificate = certify(problem, model, search.rho)
        converged = certificate.proves(tol)
        return Solution(
            model, certificate, len(monitor.history), converged, monitor.history, search.point.weights.copy()
        )


def require_simplex(regularizer: Regularizer, method: str) -> None:
    """Refuse a regularizer whose kernel weights do not lie in the simplex."""
    if regularizer.weight_set != "simplex":
        raise InputError(
            f"{method} keeps kernel weights in the simplex, which is regularizer='mkl' (SquaredL21), not"
            f" {regularizer!r}; a block 1-norm at C has the solution of 'mkl' at C times its sum of norms."
        )
