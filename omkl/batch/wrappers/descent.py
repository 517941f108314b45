"""Descent on kernel weights: SimpleMKL, HessianMKL, and the closed-form updates of Citi and of lp-norm MKL."""

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.linalg import cho_solve
from sklearn.exceptions import ConvergenceWarning

from omkl.batch.mkl.problem import Problem
from omkl.batch.newton import cholesky
from omkl.batch.wrappers.wrapper import MOST_PIVOTS, Point, Search, Wrapper

#: Share of the first slope at which the line search of SimpleMKL ends, and its maximum number of evaluations.
FLATNESS, MOST_EVALUATIONS = 0.1, 30
#: Maximum number of halvings of a step of HessianMKL, and required share of the predicted decrease (Armijo).
MOST_HALVINGS, ARMIJO = 30, 1e-4


class SimpleMKL(Wrapper):
    r"""Reduced gradient descent on the simplex (Rakotomamonjy et al. 2008).

    The search follows a direction while J falls: from one face of the simplex to the next, then to a point of small
    slope. As in the authors' code, every kernel that leaves costs a base SVM.

    References
    ----------
    A. Rakotomamonjy, F. R. Bach, S. Canu, Y. Grandvalet. SimpleMKL. JMLR 9:2491-2521, 2008.
    """

    aliases = {"simplemkl": {}}

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        while True:
            pivot = int(np.argmax(point.weights))
            direction = reduced_gradient(point, pivot)
            if not np.any(direction):
                return
            lower = _descend(search, point, direction, pivot)
            if lower.value >= point.value:
                return
            point = lower
            yield point


def reduced_gradient(point: Point, pivot: int) -> np.ndarray:
    """Return the direction of steepest descent on the simplex: weights keep their sum and stay nonnegative.

    The weight of the kernel ``pivot`` balances the sum.
    """
    direction = point.gradient[pivot] - point.gradient
    direction[(point.weights == 0) & (direction < 0)] = 0.0
    direction[pivot] = 0.0
    direction[pivot] = -direction.sum()
    return direction


def _descend(search: Search, point: Point, direction: np.ndarray, pivot: int) -> Point:
    """Return the lowest point found along a direction; drop components of the direction whose weights reach 0."""
    steepest = point.gradient @ direction
    while True:
        falling = np.flatnonzero(direction < 0)
        reach = point.weights[falling] / -direction[falling]
        weights = np.maximum(point.weights + reach.min() * direction, 0.0)
        vanishing = falling[reach <= reach.min()]
        weights[vanishing] = 0.0
        end = search.evaluate(weights / weights.sum())
        if end.value >= point.value or end.gradient @ direction > 0:
            return _flatten(search, point, end, direction, FLATNESS * abs(steepest))
        point, direction = end, direction.copy()
        direction[vanishing] = 0.0
        direction[pivot] -= direction.sum()
        if point.gradient @ direction >= 0 or not np.any(direction < 0):
            return point


def _flatten(search: Search, low: Point, high: Point, direction: np.ndarray, flat: float) -> Point:
    """Return a point between the two with a slope of at most ``flat``, by regula falsi (Illinois)."""
    slopes, start = [low.gradient @ direction, high.gradient @ direction], low.value
    best = min(low, high, key=lambda point: point.value)
    for _ in range(MOST_EVALUATIONS):
        if not slopes[0] < 0 < slopes[1]:
            break
        share = slopes[0] / (slopes[0] - slopes[1])
        middle = search.evaluate(low.weights + share * (high.weights - low.weights))
        best = min(best, middle, key=lambda point: point.value)
        slope = middle.gradient @ direction
        # slopes of an SVM are less exact than its value
        if abs(slope) <= flat and middle.value < start:
            break
        if slope < 0:
            low, slopes = middle, [slope, 0.5 * slopes[1]]
        else:
            high, slopes = middle, [0.5 * slopes[0], slope]
    return best


class HessianMKL(Wrapper):
    r"""Newton's method on the simplex (Chapelle and Rakotomamonjy 2008).

    The quadratic model of J is minimised over the simplex by libsvm's one-class SVM, which solves this program. Then
    the step is halved until J falls. If the solution is too inexact, a step towards the best single kernel replaces it.

    References
    ----------
    O. Chapelle, A. Rakotomamonjy. Second order optimization of kernel parameters. NIPS workshop on kernel learning,
    2008.
    """

    aliases = {"hessianmkl": {}}
    default_max_iter = 200

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        while True:
            curvature = hessian(search.problem, point)
            # the program needs only a share of the duality gap of the weights
            gap = point.gradient @ point.weights - point.gradient.min()
            best = minimize_on_simplex(curvature, point.gradient - curvature @ point.weights, 1e-3 * gap)
            vertex = np.eye(len(point.weights))[np.argmin(point.gradient)]
            lower = _backtrack(search, point, best - point.weights)
            lower = lower or _backtrack(search, point, vertex - point.weights)
            if lower is None:
                return
            point = lower
            yield point


def hessian(problem: Problem, point: Point) -> np.ndarray:
    r"""Return second derivatives of J, (M, M), with dual variables at bounds or kinks of the conjugate fixed.

    The free variables follow from the derivative of :math:`l^{*\prime}(\rho) + K \rho + b = 0` in the weights.
    """
    low, high = problem.weighted_loss.domain()
    rho, rounding = point.rho, 1e-9 * problem.loss_weights
    free = np.flatnonzero((rho > low + rounding) & (rho < high - rounding) & (np.abs(rho) > rounding))
    if not len(free):
        return np.zeros((len(point.weights), len(point.weights)))
    active = np.flatnonzero(point.weights)
    gram = problem.kernels.combine(point.weights[active], active)[np.ix_(free, free)]
    slopes = problem.kernels.products(rho)[:, free].T
    ridge = 1e-10 * np.trace(gram) / len(gram)
    gram += np.diag(problem.weighted_loss.conjugate_curvature(rho)[free] + ridge)
    factor = cholesky(np.asfortranarray(gram)), True
    response = cho_solve(factor, np.ones(len(free)))
    shared = slopes.T @ response
    return slopes.T @ cho_solve(factor, slopes) - np.outer(shared, shared) / response.sum()


def minimize_on_simplex(curvature: np.ndarray, linear: np.ndarray, tol: float) -> np.ndarray:
    """Minimise ``x' H x / 2 + g' x`` over the simplex by libsvm's one-class SVM, to a tolerance of slopes.

    On the simplex ``g' x = x' (g 1' + 1 g') x / 2``, so the linear term becomes part of the matrix.
    """
    from sklearn.svm import OneClassSVM

    n = len(linear)
    scale = max(np.ptp(linear), np.abs(curvature).max(), np.finfo(float).tiny)
    matrix = (curvature + linear[:, None] + linear) / scale
    # callers only need a descent direction
    base_svm = OneClassSVM(kernel="precomputed", nu=1.0 / n, tol=max(tol / scale, 1e-12), max_iter=MOST_PIVOTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        base_svm.fit(matrix)
    weights = np.zeros(n)
    weights[base_svm.support_] = base_svm.dual_coef_[0]
    return weights / weights.sum()


def _backtrack(search: Search, point: Point, direction: np.ndarray) -> Point | None:
    """Return the point of the first of the steps 1, 1/2, 1/4, ... with enough decrease, or None."""
    slope, step = point.gradient @ direction, 1.0
    for _ in range(MOST_HALVINGS if slope < 0 else 0):
        weights = np.maximum(point.weights + step * direction, 0.0)
        lower = search.evaluate(weights / weights.sum())
        if lower.value <= point.value + ARMIJO * step * slope:
            return lower
        step *= 0.5
    return None


class Alternating(Wrapper):
    r"""Block coordinate descent on the function and the weights.

    With fixed weights an SVM gives the norms, :math:`\|f_m\| = d_m \|\rho\|_{K_m}`; with fixed norms the regularizer
    gives the weights. The lower bound of Citi (2015), Eq. 8 as corrected, is the dual objective at the solution of the
    SVM.
    """

    def initial_weights(self, problem: Problem, start: np.ndarray | None) -> np.ndarray:
        # updates are multiplicative: zero weights would stay zero
        weights = super().initial_weights(problem, start)
        return np.maximum(weights, 1e-4 * weights.max())

    def points(self, search: Search, point: Point) -> Iterator[Point]:
        while np.any(point.squares):
            norms = point.weights * np.sqrt(point.squares)
            point = search.evaluate(search.problem.regularizer.kernel_weights(norms))
            yield point


class WeightConstrained(Alternating):
    r"""MKL with elastic-net-constrained kernel weights, GMKL (Citi 2015, Algorithm 1).

    The regularizer defines the set of weights: :class:`~omkl.regularizers.ElasticNetWeights`, which also implements
    Algorithms 2 and 3; :class:`~omkl.regularizers.SquaredL21` is the lasso constraint.

    References
    ----------
    L. Citi. A simple yet efficient algorithm for multiple kernel learning under elastic-net constraints. 2015.
    """

    aliases = {"gmkl": {}}
    natural_regularizer = "elastic-net-weights"
    weight_sets = {"elastic-net": "'elastic-net-weights'", "simplex": "'mkl'"}


class LpNormMKL(Alternating):
    r"""MKL with kernel weights in an lp ball, by the closed-form update of Kloft et al. (2011).

    The regularizer defines the ball: :class:`~omkl.regularizers.SquaredLq` with :math:`q = 2p / (p + 1)`;
    :class:`~omkl.regularizers.SquaredL21` is p = 1, :class:`~omkl.regularizers.Ridge` uniform weights.

    References
    ----------
    M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien. Lp-norm multiple kernel learning. JMLR 12:953-997, 2011.
    """

    aliases = {"lp-norm": {}}
    natural_regularizer = "lp-norm"
    weight_sets = {"lp-ball": "'lp-norm'", "simplex": "'mkl'", "point": "'uniform'"}
