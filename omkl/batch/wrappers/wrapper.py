r"""The loop of the wrapper methods: kernel weights outside, a single-kernel SVM inside.

At weights :math:`d` in a set :math:`\mathcal D` the best function lies in the RKHS of :math:`\sum_m
d_m K_m`, and

.. math:: J(d) = \max_\rho\ -\sum_i c_i\, l^*(y_i, -\rho_i / c_i) - \frac12 \sum_m d_m \|\rho\|_{K_m}^2

is convex in :math:`d`; its minimum over :math:`\mathcal D` is the minimum of the problem with
:math:`\psi(b) = \min_{d \in \mathcal D} \frac12 \sum_m b_m^2 / d_m`. The methods differ in how they move :math:`d`.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np
from scipy.linalg import solve
from sklearn.exceptions import ConvergenceWarning

from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.problem import certify
from omkl.batch.solver import GapMonitor, Requirement, Solution, Solver
from omkl.losses.pointwise import EpsilonInsensitive, Hinge, Squared

#: A function of a Gram matrix (N, N), targets (N,) and weights c of the losses (N,) that returns
#: coefficients a (N,) and a bias b which minimise :math:`\sum_i c_i l(y_i, (K a)_i + b) + \frac12
#: a^\top K a`.
BaseSVM: TypeAlias = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, float]]
#: Maximum number of steps of libsvm in one call; the certificate does not rely on its convergence.
MOST_PIVOTS = 1_000_000


def base_svm_for(problem: Problem, tol: float) -> BaseSVM:
    """Return libsvm or kernel ridge regression for a problem, to a hundredth of the relative
    duality gap ``tol``.
    """
    from sklearn.svm import SVC, SVR

    settings = {"kernel": "precomputed", "tol": max(0.01 * tol, 1e-10), "max_iter": MOST_PIVOTS}
    if isinstance(problem.loss, Squared):
        return _kernel_ridge
    machine = SVC(**settings)
    if isinstance(problem.loss, EpsilonInsensitive):
        machine = SVR(epsilon=problem.loss.epsilon, **settings)

    def base_svm(gram: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
        cost = float(weights.max())
        relative = None if np.all(weights == cost) else weights / cost
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = machine.set_params(C=cost).fit(gram, y, relative)
        coefficients = np.zeros(len(y))
        coefficients[fitted.support_] = fitted.dual_coef_[0]
        return coefficients, float(fitted.intercept_[0])

    return base_svm


def _kernel_ridge(gram: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Solve the linear system of kernel ridge regression with an intercept, in coefficients divided
    by the weights.
    """
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram * weights
    system[np.arange(n), np.arange(n)] += 1.0
    system[:n, n], system[n, :n] = 1.0, weights
    solution = solve(system, np.append(y, 0.0), overwrite_a=True)
    return weights * solution[:n], float(solution[n])


@dataclass(frozen=True)
class Point:
    r"""Solution of the base SVM at given kernel weights.

    Attributes
    ----------
    weights : array of shape (M,)
    rho : array of shape (N,)
        The dual solution, made feasible.
    squares : array of shape (M,)
        :math:`\|\rho\|_{K_m}^2`.
    intercept : float
    value : float
        J at the weights.
    gradient : array of shape (M,)
        Gradient of J.
    """

    weights: np.ndarray
    rho: np.ndarray
    squares: np.ndarray
    intercept: float
    value: float
    gradient: np.ndarray


class Search:
    """Evaluations of J, with the best model and the best dual point."""

    def __init__(self, problem: Problem, base_svm: BaseSVM) -> None:
        self.problem, self.base_svm, self.n_evaluations = problem, base_svm, 0
        self.primal, self.dual = np.inf, -np.inf
        self.point: Point
        self.rho: np.ndarray

    def evaluate(self, weights: np.ndarray) -> Point:
        """Evaluate J: one call of the base SVM, one pass over the kernels with nonzero weights, and
        one over all.
        """
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
        r"""Keep the best dual feasible point (N,), with :math:`\|\rho\|_{K_m}^2`, (M,), or upper
        bounds of them.
        """
        dual = self.problem.dual(rho, np.sqrt(squares))
        if dual > self.dual:
            self.dual, self.rho = dual, rho


SVM = Requirement(
    "the hinge, epsilon-insensitive or squared loss, and an intercept",
    lambda problem: (
        type(problem.loss) in (Hinge, EpsilonInsensitive, Squared) and problem.intercept
    ),
)


def weights_in(sets: dict[str, str]) -> Requirement:
    """Return the condition that the regularizer has one of some sets of kernel weights, given with
    its name.
    """
    meaning = f"one of the regularizers {', '.join(sets.values())}"
    return Requirement(meaning, lambda problem: problem.regularizer.weight_set in sets)


class Wrapper(Solver):
    """Base of the wrapper methods, for problems with an intercept.

    Subclasses define the generator :meth:`points`.

    The base SVM is scikit-learn's ``SVC`` for the hinge loss, its ``SVR`` for the
    epsilon-insensitive loss, and kernel ridge regression for the squared loss.
    """

    default_max_iter = 1000
    requires = SVM, weights_in({"simplex": "'mkl'"})
    #: Least initial weight, as a share of the largest one.
    least_weight = 0.0

    @abstractmethod
    def points(self, search: Search, point: Point) -> Iterator[Point]:
        """Generate the points of the outer iterations after the first."""

    def _search(self, problem: Problem, monitor: GapMonitor, start: np.ndarray | None) -> Solution:
        tol, history = monitor.tol, monitor.history
        monitor.max_iter -= 1  # the start is not recorded
        search, weights = Search(problem, base_svm_for(problem, tol)), start
        if weights is None:  # those of equal norms
            weights = problem.regularizer.kernel_weights(np.ones(problem.kernels.n_kernels))
        weights = np.maximum(weights, self.least_weight * weights.max())
        constant, rho = problem.best_constant()
        model = Expansion(np.arange(0), np.zeros((0, len(rho))), constant)
        certificate = certify(problem, model, rho)
        if certificate.proves(tol):
            # an SVM cannot reach a loss of 0, as for constant targets
            monitor.record(certificate.primal, certificate.dual, 0, svm_evaluations=0)
            return Solution(model, certificate, 1, True, history, weights)
        first = search.evaluate(weights)
        for point in chain([first], self.points(search, first)):
            active = np.count_nonzero(point.weights)
            if monitor.record(
                search.primal, search.dual, active, svm_evaluations=search.n_evaluations
            ):
                break
        best = search.point
        active = np.flatnonzero(best.weights * best.squares)
        model = Expansion(active, np.multiply.outer(best.weights[active], best.rho), best.intercept)
        certificate = certify(problem, model, search.rho)
        return Solution(
            model, certificate, len(history), certificate.proves(tol), history, best.weights.copy()
        )
