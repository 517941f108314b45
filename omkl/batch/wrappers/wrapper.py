r"""The loop of the wrapper methods: kernel weights outside, a single-kernel SVM inside.

At weights :math:`d` in a set :math:`\mathcal D` the best function lies in the RKHS of :math:`\sum_m
d_m K_m`, and

.. math:: J(d) = \max_\rho\ -\sum_i c_i\, l^*(y_i, -\rho_i / c_i)
          - \frac12 \sum_m d_m \|\rho\|_{K_m}^2

is convex in :math:`d`; its minimum over :math:`\mathcal D` is the minimum of the problem with
:math:`\psi(b) = \min_{d \in \mathcal D} \frac12 \sum_m b_m^2 / d_m`. The methods differ in how they
move :math:`d`.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

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
    """Return kernel ridge regression, or libsvm with a hundredth of the tolerance ``tol``."""
    from sklearn.svm import SVC, SVR

    if isinstance(problem.loss, Squared):
        return _kernel_ridge
    settings = {"kernel": "precomputed", "tol": max(0.01 * tol, 1e-10), "max_iter": MOST_PIVOTS}
    if isinstance(problem.loss, EpsilonInsensitive):
        machine = SVR(epsilon=problem.loss.epsilon, **settings)
    else:
        machine = SVC(**settings)

    def base_svm(gram: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
        cost = float(weights.max())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = machine.set_params(C=cost).fit(gram, y, weights / cost)
        coefficients = np.zeros(len(y))
        coefficients[fitted.support_] = fitted.dual_coef_[0]
        return coefficients, float(fitted.intercept_[0])

    return base_svm


def _kernel_ridge(gram: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return coefficients (N,) and intercept of kernel ridge regression.

    The unknowns of the linear system are the coefficients divided by the weights.
    """
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram * weights
    system[np.arange(n), np.arange(n)] += 1.0
    system[:n, n] = 1.0
    system[n, :n] = weights
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
        self.problem = problem
        self.base_svm = base_svm
        self.n_evaluations = 0
        self.primal = np.inf
        self.dual = -np.inf
        self.point: Point
        self.rho: np.ndarray

    def evaluate(self, weights: np.ndarray) -> Point:
        """Evaluate J by a call of the base SVM, a pass over active kernels, and one over all."""
        problem = self.problem
        active = np.flatnonzero(weights)
        gram = problem.kernels.combine(weights[active], active)
        coefficients, intercept = self.base_svm(gram, problem.y, problem.loss_weights)
        self.n_evaluations += 1
        rho, dual_norms = problem.feasible(coefficients)
        squares = dual_norms**2
        gradient = -0.5 * squares
        value = float(weights @ gradient) - float(problem.weighted_loss.conjugates(rho).sum())
        point = Point(
            weights=weights,
            rho=rho,
            squares=squares,
            intercept=intercept,
            value=value,
            gradient=gradient,
        )
        primal = problem.primal(gram @ rho + intercept, weights * dual_norms)
        if primal < self.primal:
            self.primal = primal
            self.point = point
        self.offer(rho, squares)
        return point

    def offer(self, rho: np.ndarray, squares: np.ndarray) -> None:
        r"""Keep the best dual feasible point.

        Parameters
        ----------
        rho : array of shape (N,)
        squares : array of shape (M,)
            :math:`\|\rho\|_{K_m}^2`, or upper bounds of them.
        """
        dual = self.problem.dual(rho, np.sqrt(squares))
        if dual > self.dual:
            self.dual = dual
            self.rho = rho


SVM = Requirement(
    "the hinge, epsilon-insensitive or squared loss, and an intercept",
    lambda problem: (
        type(problem.loss) in (Hinge, EpsilonInsensitive, Squared) and problem.intercept
    ),
)


def weights_in(sets: dict[str, str]) -> Requirement:
    """Return the condition that the regularizer has one of some sets of kernel weights.

    ``sets`` maps each set to the name of a regularizer that has it.
    """
    meaning = f"one of the regularizers {', '.join(sets.values())}"
    return Requirement(meaning, lambda problem: problem.regularizer.weight_set in sets)


#: Kind of search of a method.
OwnSearch = TypeVar("OwnSearch", bound=Search)


class Wrapper(Solver[Problem, np.ndarray], Generic[OwnSearch]):
    """Base of the wrapper methods, for problems with an intercept.

    Subclasses define :meth:`next_point`. The base SVM is scikit-learn's ``SVC`` for the
    hinge loss, its ``SVR`` for the epsilon-insensitive loss, and kernel ridge regression for the
    squared loss.
    """

    default_max_iter = 1000
    requires = SVM, weights_in({"simplex": "'mkl'"})
    #: Least initial weight, as a share of the largest one.
    least_weight = 0.0
    #: Class of the search, with what the method remembers of it.
    search_class: type[OwnSearch]

    @abstractmethod
    def next_point(self, search: OwnSearch, point: Point) -> Point | None:
        """Return the point after ``point``, or None if the method finds none."""

    def _search(self, problem: Problem, monitor: GapMonitor, start: np.ndarray | None) -> Solution:
        monitor.skip_start()
        search = self.search_class(problem, base_svm_for(problem, monitor.tol))
        weights = start
        if weights is None:  # those of equal norms
            weights = problem.regularizer.kernel_weights(np.ones(problem.kernels.n_kernels))
        weights = np.maximum(weights, self.least_weight * weights.max())
        constant, rho = problem.best_constant()
        model = Expansion(np.arange(0), np.zeros((0, len(rho))), constant)
        certificate = certify(problem, model, rho)
        if certificate.proves(monitor.tol):
            # an SVM cannot reach a loss of 0, as for constant targets
            monitor.record(certificate.primal, certificate.dual, active=0, svm_evaluations=0)
            return monitor.solution(model, certificate, start=weights)
        point: Point | None = search.evaluate(weights)
        while point is not None:
            is_over = monitor.record(
                primal=search.primal,
                dual=search.dual,
                active=np.count_nonzero(point.weights),
                svm_evaluations=search.n_evaluations,
            )
            point = None if is_over else self.next_point(search, point)
        best = search.point
        active = np.flatnonzero(best.weights * best.squares)
        coefficients = np.multiply.outer(best.weights[active], best.rho)
        model = Expansion(active, coefficients, best.intercept)
        certificate = certify(problem, model, search.rho)
        return monitor.solution(model, certificate, start=best.weights.copy())
