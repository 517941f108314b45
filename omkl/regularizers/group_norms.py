"""Regularizers that are functions of the group norms alone: they serve explicit features and kernels alike.

The table of closed forms is that of section 3.2 of Martins et al. (2011) and section 4 of Suzuki and Tomioka (2011).
"""

import numpy as np

from omkl.exceptions import InputError
from omkl.regularizers._jit_prox import (
    project_l1_ball,
    prox_lq,
    prox_squared_l1,
    prox_weighted_squared_l1,
    soft_threshold,
)
from omkl.regularizers.base import Regularizer, as_vector, ratio_or_zero


class L21(Regularizer):
    r"""Group lasso, the block 1-norm: :math:`\sum_k b_k`. Its prox is soft thresholding of the norms.

    >>> L21().prox([3.0, 0.5], step=1.0)
    array([2., 0.])
    """

    aliases = {"l21": {}, "group-lasso": {}, "block1": {}}
    separable = True
    homogeneous = True

    def value(self, norms):
        return float(np.abs(norms).sum())

    def prox(self, norms, step):
        return soft_threshold(as_vector(norms), step)

    def conjugate(self, dual_norms):
        # a point scaled into the unit ball may overshoot by rounding
        return 0.0 if np.abs(dual_norms).max(initial=0.0) <= 1.0 + 1e-12 else np.inf

    def dual_scale(self, dual_norms):
        return 1.0 / max(1.0, np.abs(dual_norms).max(initial=0.0))

    def prox_slope(self, norms, step):
        return (as_vector(norms) > step).astype(np.float64)

    def norm_bound(self, value, n_groups):
        return value

    def kernel_weights(self, norms):
        return np.abs(as_vector(norms))


class SquaredL21(Regularizer):
    r"""Squared mixed norm, the MKL penalty: :math:`\frac12 (\sum_k b_k)^2`.

    Its proximity operator is not separable: Algorithm 2 of Martins et al. (2011), O(p log p) by sorting for few
    groups and expected O(p) by randomised pivoting for many.

    >>> SquaredL21().prox([3.0, 0.5], step=1.0)
    array([1.5, 0. ])
    """

    aliases = {"mkl": {}, "squared-l21": {}}

    def value(self, norms):
        return 0.5 * float(np.abs(norms).sum()) ** 2

    def prox(self, norms, step):
        return prox_squared_l1(as_vector(norms), step)

    differentiable_prox = True

    def prox_slope(self, norms, step):
        return (self.prox(norms, step) > 0).astype(np.float64)

    def prox_coupling(self, norms, step):
        # p = b - t s on the active set, and s = sum p = sum b / (1 + t |active|)
        active = self.prox_slope(norms, step)
        return np.sqrt(step / (1.0 + step * active.sum())) * active

    def conjugate(self, dual_norms):
        return 0.5 * float(np.abs(dual_norms).max(initial=0.0)) ** 2

    def norm_bound(self, value, n_groups):
        return np.sqrt(2.0 * value)

    def kernel_weights(self, norms):
        norms = np.abs(as_vector(norms))
        return ratio_or_zero(norms, norms.sum())


class WeightedSquaredL21(Regularizer):
    r"""Weighted squared mixed norm :math:`\frac12 (\sum_k w_k b_k)^2` (Algorithm 4 of Martins et al. 2011).

    Parameters
    ----------
    weights : array of shape (p,)
        Weights ``w_k >= 0``. A group with weight 0 is not penalised and keeps its norm.

    >>> WeightedSquaredL21([1.0, 0.0]).prox([3.0, 0.5], step=1.0)
    array([1.5, 0.5])
    """

    aliases = {"weighted-mkl": {}}

    def __init__(self, weights):
        weights = np.array(weights, dtype=np.float64)
        if weights.ndim != 1 or not np.all(np.isfinite(weights)) or np.any(weights < 0):
            raise InputError(f"weights must be a vector of finite numbers >= 0, not {weights!r}.")
        self.weights = weights

    def parameters(self):
        return {"weights": self.weights.tolist()}

    def _checked(self, norms):
        norms = as_vector(norms)
        if norms.shape != self.weights.shape:
            raise InputError(f"There are {norms.size} groups but {self.weights.size} weights: give one weight a group.")
        return norms

    def value(self, norms):
        return 0.5 * float(self.weights @ np.abs(self._checked(norms))) ** 2

    def prox(self, norms, step):
        return prox_weighted_squared_l1(self._checked(norms), self.weights, step)

    def conjugate(self, dual_norms):
        dual_norms = np.abs(self._checked(dual_norms))
        free = self.weights == 0
        if np.any(dual_norms[free] > 0):
            return np.inf
        return 0.5 * float(np.max(dual_norms[~free] / self.weights[~free], initial=0.0)) ** 2

    def kernel_weights(self, norms):
        weighted = self.weights * np.abs(self._checked(norms))
        return ratio_or_zero(weighted, weighted.sum())


class LqNorm(Regularizer):
    r"""Block q-norm, non-sparse MKL: :math:`\frac1q \sum_k b_k^q` for any ``q > 1``.

    The prox is the root of :math:`x + t x^{q-1} = b` in :math:`[0, b]`, in closed form for q = 4/3, 3/2, 2 and 3.

    >>> LqNorm(q=3).prox([2.0], step=1.0)
    array([1.])
    """

    aliases = {"lq": {}, "block-q": {}}
    separable = True

    def __init__(self, q=1.5):
        if not q > 1 or not np.isfinite(q):
            raise InputError(f"q must be a finite number > 1, not {q!r}; for q = 1 use the group lasso.")
        self.q = float(q)

    def value(self, norms):
        return float((np.abs(norms) ** self.q).sum()) / self.q

    def prox(self, norms, step):
        return prox_lq(as_vector(norms), step, self.q)

    def conjugate(self, dual_norms):
        return float((np.abs(dual_norms) ** self._r).sum()) / self._r

    @property
    def _r(self):
        """The conjugate exponent: 1/q + 1/r = 1."""
        return self.q / (self.q - 1.0)

    def prox_slope(self, norms, step):
        root = self.prox(norms, step)
        curvature = (self.q - 1.0) * np.power(root, self.q - 2.0, out=np.full_like(root, np.inf), where=root > 0)
        return 1.0 / (1.0 + step * curvature)

    def conjugate_gradient(self, dual_norms):
        return as_vector(dual_norms) ** (self._r - 1.0)

    def conjugate_curvature(self, dual_norms):
        return (self._r - 1.0) * as_vector(dual_norms) ** (self._r - 2.0)

    def norm_bound(self, value, n_groups):
        # ||b||_2 <= ||b||_q for q <= 2, and <= p^(1/2 - 1/q) ||b||_q beyond
        return (self.q * value) ** (1.0 / self.q) * n_groups ** max(0.0, 0.5 - 1.0 / self.q)

    def kernel_weights(self, norms):
        norms = np.abs(as_vector(norms))
        # b^(2-q) with q > 2 falls from infinity at 0, where the group (and its kernel) contributes nothing
        return np.power(norms, 2.0 - self.q, out=np.zeros_like(norms), where=norms > 0)


class ElasticNet(Regularizer):
    r"""Elastic-net MKL: :math:`\sum_k (1-\mu) b_k + \frac{\mu}{2} b_k^2`, between group lasso and ridge.

    Parameters
    ----------
    mu : float in [0, 1]
        0 is the group lasso, 1 is the ridge.
    """

    aliases = {"elastic-net": {}}
    separable = True

    def __init__(self, mu=0.5):
        if not 0 <= mu <= 1:
            raise InputError(f"mu must lie in [0, 1], not {mu!r}.")
        self.mu = float(mu)

    def value(self, norms):
        norms = np.abs(norms)
        return float(((1 - self.mu) * norms + 0.5 * self.mu * norms**2).sum())

    def prox(self, norms, step):
        return soft_threshold(as_vector(norms), step * (1 - self.mu)) / (1 + step * self.mu)

    def conjugate(self, dual_norms):
        excess = np.maximum(np.abs(dual_norms) - (1 - self.mu), 0.0)
        if self.mu == 0:
            return L21().conjugate(dual_norms)
        return float((excess**2).sum()) / (2 * self.mu)

    def dual_scale(self, dual_norms):
        return L21().dual_scale(dual_norms) if self.mu == 0 else 1.0

    def prox_slope(self, norms, step):
        return (as_vector(norms) > step * (1 - self.mu)) / (1 + step * self.mu)

    def conjugate_gradient(self, dual_norms):
        return np.maximum(as_vector(dual_norms) - (1 - self.mu), 0.0) / self.mu

    def conjugate_curvature(self, dual_norms):
        return (as_vector(dual_norms) > 1 - self.mu) / self.mu

    def norm_bound(self, value, n_groups):
        # psi(b) >= (1 - mu) ||b|| + mu/2 ||b||^2, with equality for a single group
        return 2.0 * value / (1 - self.mu + np.sqrt((1 - self.mu) ** 2 + 2.0 * self.mu * value))

    def kernel_weights(self, norms):
        norms = np.abs(as_vector(norms))
        return ratio_or_zero(norms, (1 - self.mu) + self.mu * norms)


class Ridge(Regularizer):
    r"""Uniform kernel weights, the plain SVM or CRF: :math:`\frac12 \sum_k b_k^2`."""

    aliases = {"l2": {}, "ridge": {}, "uniform": {}}
    separable = True
    rank = 3

    def value(self, norms):
        return 0.5 * float(np.square(norms).sum())

    def prox(self, norms, step):
        return as_vector(norms) / (1.0 + step)

    def conjugate(self, dual_norms):
        return 0.5 * float(np.square(dual_norms).sum())

    def prox_slope(self, norms, step):
        return np.full_like(as_vector(norms), 1.0 / (1.0 + step))

    def conjugate_gradient(self, dual_norms):
        return as_vector(dual_norms).copy()

    def conjugate_curvature(self, dual_norms):
        return np.ones_like(as_vector(dual_norms))

    def norm_bound(self, value, n_groups):
        return np.sqrt(2.0 * value)

    def kernel_weights(self, norms):
        return np.ones_like(as_vector(norms))


class L21Ball(Regularizer):
    r"""Indicator of the ball :math:`\sum_k b_k \le r`; its prox is the Euclidean projection (Duchi et al. 2008).

    With it Algorithm 1 is the projected subgradient method with groups.
    """

    aliases = {"l21-ball": {}}
    rank = 4

    def __init__(self, radius=1.0):
        if not radius > 0 or not np.isfinite(radius):
            raise InputError(f"radius must be a finite number > 0, not {radius!r}.")
        self.radius = float(radius)

    def value(self, norms):
        # a projected point may overshoot by rounding
        return 0.0 if np.abs(norms).sum() <= self.radius * (1 + 1e-9) else np.inf

    def prox(self, norms, step):
        return project_l1_ball(as_vector(norms), self.radius)

    def conjugate(self, dual_norms):
        return self.radius * float(np.abs(dual_norms).max(initial=0.0))

    def norm_bound(self, value, n_groups):
        return self.radius

    def kernel_weights(self, norms):
        norms = np.abs(as_vector(norms))
        return ratio_or_zero(norms, norms.sum())


class ScalarPenalty(Regularizer):
    r"""A user's own penalty on each group norm: :math:`\sum_k \psi(b_k)`, convex and increasing, ``psi(0) = 0``.

    Parameters
    ----------
    psi, derivative : callable
        :math:`\psi` and :math:`\psi'`, each taking and returning an array of norms ``>= 0``. ``derivative`` must be
        non-decreasing and >= 0; its value at 0 is the slope on the right.
    curvature : callable, optional
        :math:`\psi''`, for batch solvers; by default the difference quotient of ``derivative``.

    Notes
    -----
    The prox is the root of :math:`x + t \psi'(x) = b` in :math:`[0, b]`, and the conjugate is attained at the root
    of :math:`\psi'(x) = y`; both by bisection on all coordinates at once, to the last bit of a float.

    >>> quartic = ScalarPenalty(lambda b: b**4 / 4, lambda b: b**3)
    >>> quartic.prox([2.0, 10.0], step=1.0)
    array([1., 2.])
    """

    separable = True

    def __init__(self, psi, derivative, curvature=None):
        self.psi = psi
        self.derivative = derivative
        self.curvature = curvature

    def _curvature(self, norms):
        if self.curvature is not None:
            return self.curvature(norms)
        width = 1e-6 * np.maximum(norms, 1e-3)
        low = np.maximum(norms - width, 0.0)
        return (self.derivative(norms + width) - self.derivative(low)) / (norms + width - low)

    def value(self, norms):
        return float(np.sum(self.psi(np.abs(as_vector(norms)))))

    def prox(self, norms, step):
        norms = as_vector(norms)
        magnitudes = np.abs(norms)
        root = _increasing_root(lambda x: x + step * self.derivative(x), magnitudes, magnitudes)
        return np.copysign(root, norms)

    def conjugate(self, dual_norms):
        slopes = np.abs(as_vector(dual_norms))
        maximizer = self._maximizer(slopes)
        return np.inf if maximizer is None else float(np.sum(slopes * maximizer - self.psi(maximizer)))

    def _maximizer(self, slopes):
        """Where the derivative reaches the slopes; None where it never does."""
        upper = np.ones_like(slopes)
        while np.any(short := self.derivative(upper) < slopes):
            if upper.max() > 1e150:
                return None
            upper[short] *= 4.0
        return _increasing_root(self.derivative, slopes, upper)

    def dual_scale(self, dual_norms):
        # the conjugate is finite up to the slope at infinity, of which a far slope is a lower bound
        with np.errstate(over="ignore"):
            steepest = float(self.derivative(np.full(1, 1e100))[0])
        return min(1.0, steepest / max(np.abs(dual_norms).max(initial=0.0), np.finfo(float).tiny))

    def prox_slope(self, norms, step):
        root = self.prox(norms, step)
        return np.where(root > 0, 1.0 / (1.0 + step * self._curvature(root)), 0.0)

    def conjugate_gradient(self, dual_norms):
        return self._maximizer(as_vector(dual_norms))

    def conjugate_curvature(self, dual_norms):
        maximizer = self.conjugate_gradient(dual_norms)
        return np.where(maximizer > 0, 1.0 / np.maximum(self._curvature(maximizer), 1e-300), 0.0)

    def kernel_weights(self, norms):
        norms = np.abs(as_vector(norms))
        return ratio_or_zero(norms, self.derivative(norms))


def _increasing_root(function, target, upper):
    """Smallest ``x`` in ``[0, upper]`` with ``function(x) >= target``, elementwise, for an increasing function."""
    low = np.zeros_like(upper)
    high = upper.astype(np.float64)
    low[function(low) >= target] = high[function(low) >= target] = 0.0
    for _ in range(1100):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        below = function(middle) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high
