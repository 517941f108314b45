r"""The loop of the wrapper methods: a single-kernel SVM inside, kernel weights outside.

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

from omkl.batch.core.problem import certify
from omkl.batch.core.solver import GapMonitor, Listener, Solution, Solver
from omkl.batch.mkl.problem import Expansion, Problem
from omkl.exceptions import InputError
from omkl.losses import EpsilonInsensitive, Hinge, PointwiseLoss, Squared
from omkl.regularizers import Regularizer

BaseSVM = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, float]]
#: Steps of libsvm in one call: on kernels of huge entries it would go on for minutes. The certificate tells the rest.
MOST_PIVOTS = 1_000_000


def base_svm_for(problem: Problem, svm: Any, tol: float) -> BaseSVM:
    """The base SVM of a problem.

    Parameters
    ----------
    problem : Problem
    svm : callable, scikit-learn estimator or None
        A base SVM; or an estimator for precomputed kernels with its parameter C, ``sample_weight`` in ``fit``, and
        ``support_``, ``dual_coef_`` and ``intercept_`` once it is fitted; None takes what fits the loss.
    tol : float
        Relative duality gap that the whole search aims for. The SVM is solved to a hundredth of it, as a bound from an
        inexact dual is loose.

    Raises
    ------
    InputError
        If there is none for the loss; if all samples are of one class.
    """
    if problem.loss.classifies and np.all(problem.y == problem.y[0]):
        raise InputError("All samples are of one class: an SVM needs samples of both.")
    if svm is None:
        base_svm = _default(problem.loss, max(0.01 * tol, 1e-10))
    elif hasattr(svm, "fit"):
        base_svm = _support_vectors(svm)
    elif callable(svm):
        base_svm = svm
    else:
        raise InputError(
            f"svm must be a scikit-learn estimator, or a function of a Gram matrix, y and loss weights, not {svm!r}."
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
        f"Methods that wrap a base SVM know one for the hinge, epsilon-insensitive and squared losses, not for"
        f" {type(loss).__name__}: choose one of these, give one in svm=, or use solver='fista' for a smooth loss."
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
    """The linear system of kernel ridge regression, bordered by the constraint that an intercept brings.

    In coefficients divided by the weights, whose column of ones an intercept needs no scaling for.
    """
    n = len(y)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram * weights
    system[np.arange(n), np.arange(n)] += 1.0
    system[:n, n], system[n, :n] = 1.0, weights
    solution = solve(system, np.append(y, 0.0), overwrite_a=True)
    return weights * solution[:n], float(solution[n])


def _without_bias(base_svm: BaseSVM) -> BaseSVM:
    """The same SVM without a bias: beside every sample stands its mirror image ``(-x, -y)``.

    The doubled problem is symmetric, so that its bias is 0; libsvm itself cannot do without.
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
