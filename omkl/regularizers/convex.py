"""Convex functions of a vector, known by value, slopes, prox and conjugate; what one of them leaves out is found by
bisection, on all coordinates at once and to the last bit of a float."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import Component
from omkl.regularizers._jit_prox import shrink_in_order

#: A point scaled to the boundary of a conjugate's domain may overshoot by rounding.
OVERSHOOT = 1e-12
#: Steps, times the squared weights, from which on a threshold is so near to the largest norm that differences are lost.
STRONG = 1e5
#: Norms beyond which no maximizer is looked for.
FARTHEST = 1e150

#: A float64 array of values, without a copy where it already is one.
as_vector: Callable[[ArrayLike], np.ndarray] = partial(np.asarray, dtype=np.float64)


def ratio_or_zero(numerator: ArrayLike, denominator: ArrayLike, otherwise: float = 0.0) -> np.ndarray:
    """Elementwise quotient; 0, or another number, where the denominator is 0."""
    denominator = as_vector(denominator)
    return np.divide(numerator, denominator, out=np.full_like(denominator, otherwise), where=denominator != 0)


def shrink_strongly(x: np.ndarray, weights: np.ndarray, inverse_step: float, radius: float) -> np.ndarray:
    """Prox of ``(sum_k w_k |x_k|)^2 / (2 inverse_step)`` (Algorithm 4), or projection onto ``sum_k |x_k| <= radius``.

    Where thresholds are all but the largest ratios ``r = |x| / w``, ``r - tau`` would lose its digits: what is left is
    summed from differences of ratios instead. What few calls need, sorting above all, is numpy's: compiled, it would
    take the first fit of a user seconds.
    """
    unit = np.abs(x).max(initial=0.0)
    if unit == 0.0:
        return np.zeros(len(x))
    if not np.isfinite(unit):  # of a model that has diverged, as its trainer says
        return np.full(len(x), np.nan)
    exponent = np.round(np.log2(unit))
    # what is left of large numbers may be smaller than one by all of the exponents of floats
    unit = 2.0 ** (exponent - 400.0 if exponent > -600.0 else exponent) if radius == 0.0 else 1.0
    free = weights == 0.0
    ratios = np.abs(x / unit) / np.where(free, 1.0, weights)
    order = np.argsort(np.where(free, 1.0, -ratios), kind="stable")[: len(x) - free.sum()]
    return shrink_in_order(x, weights, ratios, order, inverse_step, radius, unit)


def increasing_root(function: Callable, target: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Smallest ``x`` in ``[0, upper]`` with ``function(x) >= target``, elementwise, for an increasing function."""
    low = np.zeros_like(upper)
    high = upper.astype(np.float64)
    high[function(low) >= target] = 0.0
    for _ in range(1100):
        middle = 0.5 * (low + high)
        if np.all((middle <= low) | (middle >= high)):
            break
        below = function(middle) < target
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def maximizers(slopes: Callable, dual_norms: np.ndarray) -> np.ndarray:
    r"""Where the slopes of :math:`\psi_k` reach ``y_k >= 0``: the maximizers of :math:`y_k b - \psi_k(b)`.

    ``inf`` where they do not below norms of 1e150.
    """
    upper = np.ones_like(dual_norms)
    with np.errstate(over="ignore"):
        while np.any(short := (slopes(upper) < dual_norms) & (upper <= FARTHEST)):
            upper[short] *= 4.0
        root = increasing_root(slopes, dual_norms, upper)
    return np.where(upper > FARTHEST, np.inf, root)


class ConvexFunction(Component):
    """What solvers ask of a :class:`~omkl.regularizers.Regularizer`, whose docstring explains the attributes."""

    on_coordinates: bool = False
    separable: bool = False
    is_sparse: bool = False
    slope_at_zero: float = 0.0
    dual_radius: float = math.inf
    smooth_conjugate: bool = False
    differentiable_prox: bool = False
    least_at_one_group: bool = False
    exact: bool = True
    elastic: tuple[float, float] | None = None
    weight_set: str | None = None
    rank: int = 2

    def value(self, norms: ArrayLike) -> float:
        r""":math:`\psi(b)` (``inf`` outside the domain)."""
        raise self.undefined("value")

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        r""":math:`\partial \psi / \partial b_k` at ``b >= 0``, from the right; an array like ``norms``."""
        raise self.undefined("slopes")

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        r"""Second derivative of each :math:`\psi_k`, for sums over groups; by default a quotient of differences."""
        norms = np.abs(as_vector(norms))
        width = 1e-6 * np.maximum(norms, 1e-3)
        low = np.maximum(norms - width, 0.0)
        return (self.slopes(norms + width) - self.slopes(low)) / (norms + width - low)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        r""":math:`\arg\min_x\ t \psi(x) + \frac12 \|x - b\|^2` with ``t = step >= 0``; an array like ``norms``.

        By default, for sums over groups, the root of :math:`x + t \psi_k'(x) = b_k` in :math:`[0, b_k]`.
        """
        norms = as_vector(norms)
        if step == 0.0:
            return norms.copy()
        magnitudes = np.abs(norms)
        with np.errstate(over="ignore"):
            return np.copysign(increasing_root(lambda x: x + step * self.slopes(x), magnitudes, magnitudes), norms)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        r""":math:`\psi^*(y) = \sup_b\ y^\top b - \psi(b)` (``inf`` outside the domain)."""
        dual_norms = np.abs(as_vector(dual_norms))
        if dual_norms.max(initial=0.0) > self.dual_radius * (1.0 + OVERSHOOT):
            return math.inf
        point = self.conjugate_gradient(dual_norms)
        if not np.isfinite(point).all():
            return math.inf
        return float(np.minimum(dual_norms, self.dual_radius) @ point) - self.value(point)

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        r"""Derivative of each :math:`\psi_k^*` at ``y_k >= 0``; only where :math:`\psi_k^*` is smooth."""
        return maximizers(self.slopes, np.minimum(as_vector(dual_norms), self.dual_radius))

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        r"""Second derivative of each :math:`\psi_k^*` at ``y_k >= 0``, from the right."""
        point = self.conjugate_gradient(dual_norms)
        return np.where(point > 0, 1.0 / np.maximum(self.curvatures(point), 1e-300), 0.0)

    def prox_slope(self, norms: ArrayLike, step: float) -> np.ndarray:
        r"""Diagonal s of the Jacobian of :math:`\mathrm{prox}_{t \psi}` at ``b >= 0``, but for its coupling; in [0, 1].

        The whole is :math:`\mathrm{diag}(s) - c c^\top` with the coupling c. Of a sum over groups these are the
        derivatives of :math:`\mathrm{prox}_{t \psi_k}`.
        """
        root = self.prox(norms, step)
        smooth = (root > 0) | (self.slope_at_zero == 0.0)
        return np.where(smooth, 1.0 / (1.0 + step * self.curvatures(root)), 0.0)

    def prox_coupling(self, norms: ArrayLike, step: float) -> np.ndarray | None:
        """The vector c of :meth:`prox_slope`; None for a sum over groups, which has none."""
        return None

    def dual_scale(self, dual_norms: ArrayLike) -> float:
        r"""The largest factor in [0, 1] at which :math:`\psi^*` is finite: it makes a dual point feasible.

        Of unions of groups it is found to a millionth, from below.
        """
        largest = float(np.abs(dual_norms).max(initial=0.0))
        return 1.0 if largest <= self.dual_radius else self.dual_radius / largest
