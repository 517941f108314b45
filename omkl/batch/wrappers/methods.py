"""Searches over kernel weights, such as SimpleMKL, closed-form updates and cutting planes."""

import warnings

import numpy as np
import scipy
from scipy.linalg import cho_solve
from sklearn.exceptions import ConvergenceWarning

from omkl._components import check_number
from omkl.batch.mkl.problem import Problem
from omkl.batch.newton import cholesky
from omkl.batch.wrappers.wrapper import (
    MOST_PIVOTS,
    SVM,
    BaseSVM,
    Point,
    Search,
    Wrapper,
    weights_in,
)
from omkl.regularizers import L21Ball

#: Share of the first slope at which the line search of SimpleMKL ends.
FLATNESS = 0.1
#: Maximum number of evaluations of this line search.
MOST_EVALUATIONS = 30
#: Maximum number of halvings of a step of HessianMKL.
MOST_HALVINGS = 30
#: Required share of the predicted decrease (Armijo).
ARMIJO = 1e-4
#: Largest share of the weight of a sample that counts as a dual variable at a bound or at 0.
AT_BOUND = 1e-9


class SimpleMKL(Wrapper[Search]):
    r"""Reduced gradient descent on the simplex (Rakotomamonjy et al. 2008).

    The search follows a direction while J falls: from one face of the simplex to the next, then to
    a point of small slope. As in the authors' code, every kernel that leaves costs a base SVM.

    References
    ----------
    A. Rakotomamonjy, F. R. Bach, S. Canu, Y. Grandvalet. SimpleMKL. JMLR 9:2491-2521, 2008.
    """

    aliases = {"simplemkl": {}}
    search_class = Search

    def next_point(self, search: Search, point: Point) -> Point | None:
        # the direction of steepest descent on the simplex; the weight of the pivot balances the sum
        pivot = int(np.argmax(point.weights))
        direction = point.gradient[pivot] - point.gradient
        direction[(point.weights == 0) & (direction < 0)] = 0.0
        direction[pivot] = -direction.sum()  # it was zero
        if not np.any(direction):
            return None
        lower = _descend(search, point, direction, pivot)
        return lower if lower.value < point.value else None


def _descend(search: Search, point: Point, direction: np.ndarray, pivot: int) -> Point:
    """Return the lowest point along a direction; weights that reach 0 leave the direction."""
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
        point = end
        direction = direction.copy()
        direction[vanishing] = 0.0
        direction[pivot] -= direction.sum()
        if point.gradient @ direction >= 0 or not np.any(direction < 0):
            return point


def _flatten(search: Search, low: Point, high: Point, direction: np.ndarray, flat: float) -> Point:
    """Return a point between two others with a slope of at most ``flat``, by regula falsi."""
    # the variant of Illinois: halve the slope of the end that stays, or it would stay forever
    low_slope = low.gradient @ direction
    high_slope = high.gradient @ direction
    start_value = low.value
    best = min(low, high, key=lambda point: point.value)
    for _ in range(MOST_EVALUATIONS):
        if not low_slope < 0 < high_slope:
            break
        share = low_slope / (low_slope - high_slope)
        middle = search.evaluate(low.weights + share * (high.weights - low.weights))
        best = min(best, middle, key=lambda point: point.value)
        slope = middle.gradient @ direction
        # slopes of an SVM are less exact than its value
        if abs(slope) <= flat and middle.value < start_value:
            break
        if slope < 0:
            low = middle
            low_slope = slope
            high_slope *= 0.5
        else:
            high = middle
            high_slope = slope
            low_slope *= 0.5
    return best


class HessianMKL(Wrapper[Search]):
    r"""Newton's method on the simplex (Chapelle and Rakotomamonjy 2008).

    The quadratic model of J is minimised over the simplex by libsvm's one-class SVM, which solves
    this program. Then the step is halved until J falls. If the solution is too inexact, a step
    towards the best single kernel replaces it.

    References
    ----------
    O. Chapelle, A. Rakotomamonjy. Second order optimization of kernel parameters. NIPS workshop on
    kernel learning, 2008.
    """

    aliases = {"hessianmkl": {}}
    search_class = Search
    default_max_iter = 200

    def next_point(self, search: Search, point: Point) -> Point | None:
        curvature = hessian(search.problem, point)
        # the program needs only a share of the duality gap of the weights
        gap = point.gradient @ point.weights - point.gradient.min()
        linear = point.gradient - curvature @ point.weights
        best = minimize_on_simplex(curvature, linear, 1e-3 * gap)
        vertex = np.eye(len(point.weights))[np.argmin(point.gradient)]
        lower = _backtrack(search, point, best - point.weights)
        return lower or _backtrack(search, point, vertex - point.weights)


def hessian(problem: Problem, point: Point) -> np.ndarray:
    r"""Return second derivatives of J, (M, M).

    Dual variables at bounds or kinks of the conjugate are fixed. The free variables follow from the
    derivative of :math:`l^{*\prime}(\rho) + K \rho + b = 0` in the weights.
    """
    rho = point.rho
    low, high = problem.weighted_loss.domain()
    rounding = AT_BOUND * problem.loss_weights
    is_inside = (rho > low + rounding) & (rho < high - rounding)
    free = np.flatnonzero(is_inside & (np.abs(rho) > rounding))
    if not len(free):
        return np.zeros((len(point.weights), len(point.weights)))
    active = np.flatnonzero(point.weights)
    gram = problem.kernels.combine(point.weights[active], active)[np.ix_(free, free)]
    slopes = problem.kernels.products(rho)[:, free].T
    ridge = 1e-10 * np.trace(gram) / len(gram)
    gram += np.diag(problem.weighted_loss.conjugate_curvature(rho)[free] + ridge)
    factor = cholesky(np.asfortranarray(gram)), True
    response = cho_solve(factor, np.ones(len(free)))
    slopes_of_intercept = slopes.T @ response
    shift = np.outer(slopes_of_intercept, slopes_of_intercept) / response.sum()
    return slopes.T @ cho_solve(factor, slopes) - shift


def minimize_on_simplex(curvature: np.ndarray, linear: np.ndarray, tol: float) -> np.ndarray:
    """Minimise ``x' H x / 2 + g' x`` over the simplex, to a tolerance of slopes.

    The quadratic program is that of a one-class SVM, and libsvm solves it. On the simplex ``g' x =
    x' (g 1' + 1 g') x / 2``, so the linear term becomes part of the matrix.
    """
    from sklearn.svm import OneClassSVM

    n = len(linear)
    scale = max(np.ptp(linear), np.abs(curvature).max(), np.finfo(float).tiny)
    matrix = (curvature + linear[:, None] + linear) / scale
    # callers only need a descent direction
    base_svm = OneClassSVM(
        kernel="precomputed", nu=1.0 / n, tol=max(tol / scale, 1e-12), max_iter=MOST_PIVOTS
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        base_svm.fit(matrix)
    weights = np.zeros(n)
    weights[base_svm.support_] = base_svm.dual_coef_[0]
    return weights / weights.sum()


def _backtrack(search: Search, point: Point, direction: np.ndarray) -> Point | None:
    """Return the point of the first of the steps 1, 1/2, 1/4, ... with enough decrease, or None."""
    slope = point.gradient @ direction
    if not slope < 0:
        return None
    step = 1.0
    for _ in range(MOST_HALVINGS):
        weights = np.maximum(point.weights + step * direction, 0.0)
        lower = search.evaluate(weights / weights.sum())
        if lower.value <= point.value + ARMIJO * step * slope:
            return lower
        step *= 0.5
    return None


class Alternating(Wrapper[Search]):
    r"""Block coordinate descent on the function and the weights.

    With fixed weights an SVM gives the norms, :math:`\|f_m\| = d_m \|\rho\|_{K_m}`; with fixed
    norms the regularizer gives the weights. The lower bound of Citi (2015), Eq. 8 as corrected, is
    the dual objective at the solution of the SVM.
    """

    search_class = Search
    least_weight = 1e-4  # updates are multiplicative: zero weights would stay zero

    def next_point(self, search: Search, point: Point) -> Point | None:
        if not np.any(point.squares):
            return None
        norms = point.weights * np.sqrt(point.squares)
        return search.evaluate(search.problem.regularizer.kernel_weights(norms))


class WeightConstrained(Alternating):
    r"""MKL with elastic-net-constrained kernel weights, GMKL (Citi 2015, Algorithm 1).

    The regularizer defines the set of weights: :class:`~omkl.regularizers.ElasticNetWeights`, which
    also implements Algorithms 2 and 3; :class:`~omkl.regularizers.SquaredL21` is the lasso
    constraint.

    References
    ----------
    L. Citi. A simple yet efficient algorithm for multiple kernel learning under elastic-net
    constraints. 2015.
    """

    aliases = {"gmkl": {}}
    natural_regularizer = "elastic-net-weights"
    requires = SVM, weights_in({"elastic-net": "'elastic-net-weights'", "simplex": "'mkl'"})


class LpNormMKL(Alternating):
    r"""MKL with kernel weights in an lp ball, by the closed-form update of Kloft et al. (2011).

    The regularizer defines the ball: :class:`~omkl.regularizers.SquaredLq` with :math:`q = 2p / (p
    + 1)`; :class:`~omkl.regularizers.SquaredL21` is p = 1, :class:`~omkl.regularizers.Ridge`
    uniform weights.

    References
    ----------
    M. Kloft, U. Brefeld, S. Sonnenburg, A. Zien. Lp-norm multiple kernel learning. JMLR 12:953-997,
    2011.
    """

    aliases = {"lp-norm": {}}
    natural_regularizer = "lp-norm"
    requires = SVM, weights_in({"lp-ball": "'lp-norm'", "simplex": "'mkl'", "point": "'uniform'"})


class CuttingPlanes(Search):
    r"""A search with planes that touch J at all points so far.

    They are a model of J: :math:`\max_j\, c_j + s_j^\top d \le J(d)`, with
    :math:`s_j = \nabla J(d_j)`.
    """

    def __init__(self, problem: Problem, base_svm: BaseSVM) -> None:
        super().__init__(problem, base_svm)
        self.points: list[Point] = []
        self._multipliers = np.zeros(0)

    def evaluate(self, weights: np.ndarray) -> Point:
        point = super().evaluate(weights)
        self.points.append(point)
        self._slopes = np.array([cut.gradient for cut in self.points])
        self._constants = np.array([cut.value - cut.gradient @ cut.weights for cut in self.points])
        return point

    def minimize(self) -> tuple[np.ndarray, float] | None:
        """Minimise the model over the simplex by a linear program.

        Return weights (M,) and the value; None on failure. The multipliers of the planes mix their
        dual points into a dual point whose value is at least the minimum; offer it. Norms are
        convex, so the mixture of the squares bounds the squares of the mixture.
        """
        n_planes, n_kernels = self._slopes.shape
        # scale by the best value: the tolerances of the program are absolute
        unit = max(abs(self.primal), np.finfo(float).tiny)
        # the variables are the weights and a roof of the planes
        program = scipy.optimize.linprog(
            np.append(np.zeros(n_kernels), 1.0),
            A_ub=np.column_stack([self._slopes / unit, np.full(n_planes, -1.0)]),
            b_ub=-self._constants / unit,
            A_eq=np.append(np.ones(n_kernels), 0.0)[None, :],
            b_eq=[1.0],
            bounds=[(0, None)] * n_kernels + [(None, None)],
            method="highs",
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        if not program.success:
            return None
        mixture = np.maximum(-program.ineqlin.marginals, 0.0)
        mixture /= mixture.sum()
        self.offer(
            rho=mixture @ np.array([cut.rho for cut in self.points]),
            squares=mixture @ np.array([cut.squares for cut in self.points]),
        )
        weights = np.maximum(program.x[:n_kernels], 0.0)
        return weights / weights.sum(), unit * program.x[n_kernels]

    def project(self, weights: np.ndarray, level: float) -> np.ndarray:
        """Return the closest point of the simplex with a model value of at most ``level``.

        ``weights`` (M,) is the point to project. The dual of this quadratic program is smooth, with
        one multiplier ``>= 0`` per plane; L-BFGS-B solves it. The primal point is the projection of
        ``weights`` minus the weighted slopes onto the simplex.
        """
        # centred slopes are better conditioned, and equivalent on the simplex
        means = self._slopes.mean(axis=1)
        slopes = self._slopes - means[:, None]
        units = np.maximum(np.linalg.norm(slopes, axis=1), np.finfo(float).tiny)
        slopes = slopes / units[:, None]
        constants = (self._constants + means - level) / units

        def negative_dual(multipliers: np.ndarray) -> tuple[float, np.ndarray]:
            point = _onto_simplex(weights - multipliers @ slopes)
            violations = slopes @ point + constants
            step = point - weights
            return -(0.5 * step @ step + multipliers @ violations), -violations

        start = np.zeros(len(self.points))
        start[: len(self._multipliers)] = self._multipliers
        program = scipy.optimize.minimize(
            negative_dual,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * len(start),
            options={"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-12},
        )
        self._multipliers = program.x
        return _onto_simplex(weights - program.x @ slopes)


def _onto_simplex(vector: np.ndarray) -> np.ndarray:
    """Return the closest point of the simplex."""
    # the projection is invariant to shifts; after this shift it equals the projection onto the l1
    # ball
    return L21Ball(1.0).prox(vector - vector.min() + 1.0 / len(vector), 1.0)


class SILP(Wrapper[CuttingPlanes]):
    r"""Semi-infinite linear programming (Sonnenburg et al. 2006): minimise a cutting-plane model.

    References
    ----------
    S. Sonnenburg, G. Raetsch, C. Schaefer, B. Schoelkopf. Large scale multiple kernel learning.
    JMLR 7:1531-1565, 2006.
    """

    aliases = {"silp": {}}
    default_max_iter = 5000
    search_class = CuttingPlanes

    def next_point(self, search: CuttingPlanes, point: Point) -> Point | None:
        minimum = search.minimize()
        if minimum is None:
            return None
        weights, _ = minimum
        adds_plane = not np.array_equal(weights, point.weights)
        return search.evaluate(weights) if adds_plane else None


class LevelMKL(Wrapper[CuttingPlanes]):
    r"""The extended level method (Xu et al. 2009).

    Weights are projected onto a level set of the cutting-plane model. The level lies between the
    minimum of the model and the best value of J so far.

    Parameters
    ----------
    level : float in (0, 1)
        Position between these two: 0 gives SILP, 1 keeps the weights.

    References
    ----------
    Z. Xu, R. Jin, I. King, M. R. Lyu. An extended level method for efficient multiple kernel
    learning. NIPS 21, 2009.
    """

    aliases = {"levelmkl": {}}
    search_class = CuttingPlanes

    def __init__(self, level: float = 0.9) -> None:
        check_number("level", level, above=0, below=1)
        self.level = level

    def next_point(self, search: CuttingPlanes, point: Point) -> Point | None:
        minimum = search.minimize()
        if minimum is None:
            return None
        _, model_value = minimum
        best_value = min(cut.value for cut in search.points)
        level = self.level * best_value + (1 - self.level) * model_value
        return search.evaluate(search.project(point.weights, level))
