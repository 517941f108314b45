r"""The loop of the wrapper methods: kernel weights outside, a single-kernel SVM inside.

At weights :math:`d` in a set :math:`\mathcal D` the best function lies in the RKHS of :math:`\sum_m d_m K_m`, and

.. math:: J(d) = \max_\rho\ -\sum_i c_i\, l^*(y_i, -\rho_i / c_i) - \frac12 \sum_m d_m \|\rho\|_{K_m}^2

is convex in :math:`d`; its minimum over :math:`\mathcal D` is that of the problem with
:math:`\psi(b) = \min_{d \in \mathcal D} \frac12 \sum_m b_m^2 / d_m`. The methods differ in how they move :math:`d`.

A base SVM takes a Gram matrix ``K`` (N, N), targets (N,) and weights ``c`` of the losses (N,), and returns coefficients
``a`` (N,) and a bias ``b`` that minimise :math:`\sum_i c_i l(y_i, (K a)_i + b) + \frac12 a^\top K a`.
"""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, SVR

from omkl.batch.mkl.problem import Expansion, Problem
from omkl.batch.problem import certify
from omkl.batch.solver import GapMonitor, Solution, Solver
from omkl.exceptions import InputError
from omkl.losses import EpsilonInsensitive, Hinge, PointwiseLoss, Squared
from omkl.regularizers import Regularizer

BaseSVM = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, float]]
#: Most steps of libsvm in one call; the certificate does not rely on its convergence.
MOST_PIVOTS = 1_000_000


def base_svm_for(problem: Problem, svm: Any, tol: float) -> BaseSVM:
    """Make the base SVM of a problem.

    Parameters
    ----------
    problem : Problem
    svm : callable, scikit-learn estimator or None
        A base SVM; or an estimator for precomputed kernels with its parameter C, ``sample_weight`` in ``fit``, and
        ``support_``, ``dual_coef_`` and ``intercept_`` once it is fitted; None takes what fits the loss.
    tol : float
        Relative duality gap of the whole search. The SVM is solved to a hundredth of it.

    Raises
    ------
    InputError
        If there is none for the loss; if all samples are of one class.
    """
    if problem.loss.classifies and np.all(problem.y == problem.y[0]):
        raise InputError("All samples are of one class: an SVM needs both.")
    if svm is None:
        base_svm = _default(problem.loss, max(0.01 * tol, 1e-10))
    elif hasattr(svm, "fit"):
        base_svm = _support_vectors(svm)
    elif callable(svm):
        base_svm = svm
    else:
        raise InputError(
            f"svm must be a scikit-learn estimator, or a function of a Gram matrix, y and loss weights, got {svm!r}."
        )
    return base_svm if problem.intercept else _without_bias(base_svm)


def _default(loss: PointwiseLoss, tol: float) -> BaseSVM:
    if type(loss) is Hinge:
        return _support_vectors(SVC(kernel="precomputed", tol=tol, max_iter=MOST_PIVOTS))
    if type(loss) is EpsilonInsensitive:
        return _support_vectors(SVR(kernel="precomputed", epsilon=loss.epsilon, tol=tol, max_iter=MOST_PIVOTS))
    if type(loss) is Squared:
        return _kernel_ridge
    raise InputError(
        f"There are base SVMs for the hinge, epsilon-insensitive and squared losses, not for {type(loss).__name__}: "
        "give one in svm=."
    )


def _support_vectors(estimator: Any) -> BaseSVM:
    def base_svm(gram, y, weights):
        cost = float(weights.max())
        relative = {} if np.all(weights == cost) else {"sample_weight": weights / cost}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = clone(estimator).set_params(C=cost).fit(gram, y, **relative)
        coefficients = np.zeros(len(y))
        coefficients[fitted.support_] = fitted.dual_coef_[0]
        return coefficients, float(fitted.intercept_[0])

    return base_svm


def _kernel_ridge(gram: np.ndarray, y: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Solve the linear system of kernel ridge regression with an intercept, in coefficients divided by the weights."""
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram * weights
    system[np.arange(n), np.arange(n)] += 1.0
    system[:n, n], system[n, :n] = 1.0, weights
    solution = solve(system, np.append(y, 0.0), overwrite_a=True)
    return weights * solution[:n], float(solution[n])


def _without_bias(base_svm: BaseSVM) -> BaseSVM:
    """Return the same SVM without a bias, which libsvm cannot leave out.

    Every sample gets a mirror image ``(-x, -y)``: the bias of the doubled problem is 0 by symmetry.
    """

    def mirrored(gram, y, weights):
        n = len(y)
        both, _ = base_svm(
            np.block([[gram, -gram], [-gram, gram]]), np.concatenate([y, -y]), 0.5 * np.concatenate([weights, weights])
        )
        return both[:n] - both[n:], 0.0

    return mirrored


@dataclass(frozen=True)
class Point:
    r"""The base SVM's solution at kernel weights.

    Attributes
    ----------
    weights : array of shape (M,)
    rho : array of shape (N,)
        The dual solution, feasible.
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
    """Evaluations of J, with the best model and the best dual point.

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
        """Evaluate J: one call of the base SVM, one pass over the kernels with weights, and one over all.

        Parameters
        ----------
        weights : array of shape (M,)
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
        r"""Note a dual feasible point.

        Parameters
        ----------
        rho : array of shape (N,)
        squares : array of shape (M,)
            :math:`\|\rho\|_{K_m}^2`, or upper bounds.
        """
        dual = self.problem.dual(rho, np.sqrt(squares))
        if dual > self.dual:
            self.dual, self.rho = dual, rho

    def model(self) -> Expansion:
        """Return the best model seen."""
        active = np.flatnonzero(self.point.weights * self.point.squares)
        coefficients = np.multiply.outer(self.point.weights[active], self.point.rho)
        return Expansion(active, coefficients, self.point.intercept)


class Wrapper(Solver):
    r"""Base of the wrapper methods. A method is a generator: :meth:`points`.

    Parameters
    ----------
    svm : callable or scikit-learn estimator, optional
        The base SVM: a function of a Gram matrix, y and the weights :math:`c_i` of the losses (N,) that returns
        coefficients (N,) and a bias, or an SVM for precomputed kernels. By default scikit-learn's ``SVC`` for the hinge
        loss, its ``SVR`` for the epsilon-insensitive loss, and kernel ridge regression for the squared loss.
    """

    default_max_iter = 1000

    def __init__(self, svm: Any = None) -> None:
        self.svm = svm

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        """Generate the points of the outer iterations after the first.

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
        require_simplex(problem.regularizer, type(self).__name__)

    def initial_weights(self, problem: Problem, start: ArrayLike | None) -> np.ndarray:
        """Return the first weights: those of a similar problem, or of equal norms.

        Parameters
        ----------
        problem : Problem
        start : array of shape (M,) or None
        """
        n_kernels = problem.kernels.n_kernels
        if start is None:
            return problem.regularizer.kernel_weights(np.ones(n_kernels))
        weights = np.asarray(start, dtype=np.float64)
        usable = weights.shape == (n_kernels,) and np.all(np.isfinite(weights)) and np.all(weights >= 0)
        if not usable or not weights.any():
            raise InputError(f"start must be {n_kernels} kernel weights >= 0, not all 0.")
        return weights

    def _search(self, problem: Problem, monitor: GapMonitor, start: Any) -> Solution:
        tol = monitor.tol
        monitor.max_iter -= 1  # the start is no record
        search = Search(problem, base_svm_for(problem, self.svm, tol))
        weights = self.initial_weights(problem, start)
        constant, rho = problem.best_constant()
        model = Expansion(np.arange(0), np.zeros((0, len(rho))), constant)
        certificate = certify(problem, model, rho)
        if certificate.proves(tol):
            # a loss of 0, as of constant targets, is out of reach of an SVM
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
    """Refuse a regularizer whose kernel weights do not lie in the simplex.

    Parameters
    ----------
    regularizer : Regularizer
    method : str
        Its name in the error.
    """
    if regularizer.weight_set != "simplex":
        raise InputError(
            f"{method} keeps kernel weights in the simplex and needs regularizer='mkl', got {regularizer!r}."
        )
