"""Base of regularizers: convex functions of a vector.

To add a regularizer, derive from :class:`Regularizer`; its ``aliases`` work as soon as the class
exists::

    class PseudoHuber(Regularizer):
        aliases = {"pseudo-huber": {}}
        separable = True

        def value(self, norms):
            return float(np.sum(np.hypot(1.0, norms) - 1.0))

        def slopes(self, norms):
            return norms / np.hypot(1.0, norms)
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import Component, function_and_parameters, members_of
from omkl._roots import FARTHEST, increasing_root, limit_at, unbounded_root
from omkl.exceptions import InputError

#: Relative rounding of a point that was scaled to the boundary of a conjugate's domain.
OVERSHOOT = 1e-12
#: Norms at which the slopes of a function with a smooth conjugate increase.
RISING = np.geomspace(1e-4, 1e4, 200)
#: Norms that tell by a proximal step whether it sends small norms to 0.
SMALL_AND_LARGE = np.array([1e-9, 20.0])
#: Convert to a float64 array, without a copy where it already is one.
as_vector: Callable[[ArrayLike], np.ndarray] = partial(np.asarray, dtype=np.float64)


class ProximalStep(NamedTuple):
    """A compiled function, called with the step ``factor * (step / (1 + step * quadratic))``.

    The quadratic term of a sum, whose step comes before, reduces the step of the others.
    """

    #: A function with the signature ``PROX``, and its parameters.
    function: Any
    parameters: np.ndarray
    factor: float = 1.0
    quadratic: float = 0.0

    def take(self, norms: np.ndarray, step: float, memory: np.ndarray) -> None:
        """Replace norms (p,) by those after the step; ``memory`` (2, p) is working memory."""
        size = self.factor * (step / (1.0 + step * self.quadratic))
        self.function(norms, size, self.parameters, memory)


class WeightedTerm(NamedTuple):
    """A term of a sum of regularizers, and its factor."""

    term: "Regularizer"
    factor: float


#: A default that is computed once, from what a subclass defines.
derived: Any = cached_property


class Regularizer(Component):
    r"""Base of regularizers: convex, even functions :math:`\psi` of a vector.

    They increase in every magnitude. The vector holds the group norms :math:`b_k = \|\theta_k\|`,
    or the coordinates of :math:`\theta` if ``on_coordinates``. By Proposition 1 of Martins et al.
    (2011) the proximity operator of :math:`R(\theta) = \psi(b)` scales every group along its own
    ray, so functions of the norms also work for kernels.

    A subclass defines :meth:`value` and :meth:`slopes`; unless ``separable``, also :meth:`prox` and
    :meth:`conjugate`. The base class computes everything else from these, by bisection; override it
    with closed forms. :func:`omkl.testing.check_regularizer` checks what is defined. Every method
    takes vectors of shape (p,). A prox keeps the signs of its input. ``0.3 * L1() + 0.7 * L21()``
    is a :class:`~omkl.regularizers.Composite`.

    Attributes
    ----------
    on_coordinates : bool
        Whether the vector holds coordinates instead of group norms.
    separable : bool
        Whether :math:`\psi(b) = \sum_k \psi_k(b_k)`.
    is_sparse : bool
        Whether the prox sends small norms to exactly 0. Derived from the prox; a regularizer that
        is not separable, and whose prox does not take two norms, must define it.
    slope_at_zero : float
        Derivative of :math:`\psi_k` at 0, from the right. If not separable: the vector 0 is optimal
        as long as no dual norm exceeds this value. Derived if separable, as are the next three.
    dual_radius : float
        The conjugate is finite if no dual norm exceeds this value. For separable functions: only
        then.
    smooth_conjugate : bool
        Whether the conjugate has two derivatives.
    differentiable_prox : bool
        Whether :meth:`prox_slope` and :meth:`prox_coupling` are available, for Newton's method.
    least_at_one_group : bool
        Whether a vector with a single nonzero group has the least value among all vectors of the
        same Euclidean norm. True if :math:`\psi` is concave as a function of :math:`b_k^2`; makes
        :meth:`norm_bound` exact.
    exact : bool
        Whether :meth:`prox` is the exact proximity operator, not a sequence of the proximal steps
        of several terms.
    elastic : tuple of two floats, or None
        ``(l, c)`` if :math:`\psi(b) = \sum_k l b_k + c b_k^2 / 2`.
    weight_set : {"simplex", "elastic-net", "lp-ball", "point"} or None
        The set of kernel weights d with :math:`\psi(b) = \min_d \frac12 \sum_k b_k^2 / d_k`, for
        solvers that optimize kernel weights; "point" is :math:`d = 1`.
    rank : int
        Order of the proximal steps of a sum that takes them in turn: smaller ranks first.
    """

    on_coordinates: bool = False
    separable: bool = False
    smooth_conjugate: bool = derived(
        lambda self: self.separable and math.isinf(self.dual_radius) and _rises(self.slopes)
    )
    differentiable_prox: bool = derived(
        lambda self: self.separable or type(self).prox_slope is not Regularizer.prox_slope
    )
    least_at_one_group: bool = False
    exact: bool = True
    elastic: tuple[float, float] | None = None
    weight_set: str | None = None
    rank: int = 2
    #: The terms of a sum with their factors; any other regularizer is its own term.
    _weighted_terms: "list[WeightedTerm]" = derived(lambda self: [WeightedTerm(self, 1.0)])

    @derived
    def slope_at_zero(self) -> float:
        if not self.separable:
            return 0.0
        return float(self.slopes(np.zeros(1)).min())

    @derived
    def dual_radius(self) -> float:
        if not self.separable:
            return math.inf
        return float(limit_at(1.0, self.slopes, np.ones(1)).min())

    @derived
    def is_sparse(self) -> bool:
        if self.separable:
            return self.slope_at_zero > 0
        try:
            return bool((self.prox(SMALL_AND_LARGE, 1.0) == 0.0).any())
        except (ValueError, IndexError) as error:
            raise InputError(
                f"{type(self).__name__} must define is_sparse: it cannot be derived, since prox() "
                f"does not take two norms ({error})."
            ) from None

    @property
    def required(self) -> tuple[str, ...]:  # type: ignore[override]
        """Methods that a subclass defines."""
        if self.separable:
            return "value", "slopes"
        return "value", "slopes", "prox", "conjugate"

    def value(self, norms: ArrayLike) -> float:
        r"""Return :math:`\psi(b)`, ``inf`` outside the domain.

        Parameters
        ----------
        norms : array of shape (p,)
        """
        self.must_define("value")

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        r"""Return :math:`\partial \psi / \partial b_k` from the right, (p,).

        Parameters
        ----------
        norms : array of shape (p,)
            At least 0.
        """
        self.must_define("slopes")

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        r"""Return :math:`\arg\min_x\ t \psi(x) + \frac12 \|x - b\|^2`, (p,).

        A separable function has the root of :math:`x + t \psi_k'(x) = b_k` in :math:`[0, b_k]` as
        its prox.

        Parameters
        ----------
        norms : array of shape (p,)
        step : float >= 0
            The step t.
        """
        if not self.separable:
            self.must_define("prox")
        norms = as_vector(norms)
        if step == 0.0:
            return norms.copy()
        magnitudes = np.abs(norms)
        with np.errstate(over="ignore"):
            root = increasing_root(lambda x: x + step * self.slopes(x), magnitudes, magnitudes)
        return np.copysign(root, norms)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        r"""Return :math:`\psi^*(y) = \sup_b\ y^\top b - \psi(b)`, ``inf`` outside the domain.

        Parameters
        ----------
        dual_norms : array of shape (p,)
        """
        if not self.separable:
            self.must_define("conjugate")
        dual_norms = np.abs(as_vector(dual_norms))
        if dual_norms.max(initial=0.0) > self.dual_radius * (1.0 + OVERSHOOT):
            return math.inf
        point = self.conjugate_gradient(dual_norms)
        if not np.isfinite(point).all():
            return math.inf
        return float(np.minimum(dual_norms, self.dual_radius) @ point) - self.value(point)

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        r"""Return the second derivative of each :math:`\psi_k`, (p,).

        By default it follows from differences of slopes.

        Parameters
        ----------
        norms : array of shape (p,)
            Group norms.
        """
        norms = np.abs(as_vector(norms))
        width = 1e-6 * np.maximum(norms, 1e-3)
        low = np.maximum(norms - width, 0.0)
        return (self.slopes(norms + width) - self.slopes(low)) / (norms + width - low)

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        r"""Return the derivative of each smooth :math:`\psi_k^*` at ``y_k >= 0``, (p,).

        Parameters
        ----------
        dual_norms : array of shape (p,)
            Dual norms, at least 0.
        """
        return unbounded_root(self.slopes, np.minimum(as_vector(dual_norms), self.dual_radius))

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        r"""Return the second derivative, from the right, of each :math:`\psi_k^*`, (p,).

        Parameters
        ----------
        dual_norms : array of shape (p,)
            Dual norms, at least 0.
        """
        point = self.conjugate_gradient(dual_norms)
        return np.where(point > 0, 1.0 / np.maximum(self.curvatures(point), 1e-300), 0.0)

    def prox_slope(self, norms: ArrayLike, step: float) -> np.ndarray:
        r"""Return s, (p,), of the Jacobian :math:`\mathrm{diag}(s) - c c^\top` of the prox.

        Parameters
        ----------
        norms : array of shape (p,)
            Group norms.
        step : float >= 0
            The step t.
        """
        root = self.prox(norms, step)
        smooth = (root > 0) | (self.slope_at_zero == 0.0)
        return np.where(smooth, 1.0 / (1.0 + step * self.curvatures(root)), 0.0)

    def prox_coupling(self, norms: ArrayLike, step: float) -> np.ndarray | None:
        """Return c, (p,), of the Jacobian of the prox, see :meth:`prox_slope`; None if c is 0.

        It is 0 for every separable function.

        Parameters
        ----------
        norms : array of shape (p,)
            Group norms.
        step : float >= 0
            The step t.
        """
        return None

    def dual_scale(self, dual_norms: ArrayLike) -> float:
        r"""Return the largest factor in [0, 1] that scales dual norms into the conjugate's domain.

        Parameters
        ----------
        dual_norms : array of shape (p,)
        """
        largest = float(np.abs(dual_norms).max(initial=0.0))
        if largest <= self.dual_radius:
            return 1.0
        return self.dual_radius / largest

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        r"""Return :math:`1 / d_k = \psi_k'(b_k) / b_k`, (p,), or its limit where ``b_k = 0``.

        These are the reciprocal weights of the kernels in the best combination, by the variational
        form :math:`\psi(b) = \min_d \frac12 \sum_k b_k^2 / d_k + h(d)` (Micchelli and Pontil 2005).
        They are additive over the terms of a sum, and 0 for groups that are not penalized.

        Parameters
        ----------
        norms : array of shape (p,)
        """
        norms = np.abs(as_vector(norms))
        slopes = self.slopes(norms)
        curvatures_at_zero = np.zeros_like(norms)
        if self.separable:
            curvatures_at_zero = self.curvatures(np.zeros_like(norms))
        at_zero = np.where(slopes > 0, np.inf, curvatures_at_zero)
        with np.errstate(over="ignore"):  # near 0: infinite, so that the kernel has no weight
            return np.divide(slopes, norms, out=at_zero, where=norms > 0)

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        r"""Return the kernel weights :math:`d_k = b_k / \psi_k'(b_k)` of a solution, (p,).

        The solution is :math:`f_k = d_k \sum_i \rho_i K_k(x_i, \cdot)` with one dual vector
        :math:`\rho` for all kernels. A group that is not penalized has the weight ``inf``, or 0 if
        its norm is 0.

        Parameters
        ----------
        norms : array of shape (p,)
        """
        reciprocal = self.reciprocal_weights(norms)
        without_penalty = np.where(np.abs(as_vector(norms)) > 0, np.inf, 0.0)
        return np.divide(1.0, reciprocal, out=without_penalty, where=reciprocal > 0)

    def normalized_kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        """Return kernel weights that sum to one, (p,); 0 for groups whose norm is 0.

        Groups that are not penalized share the whole weight in proportion to their norms.

        Parameters
        ----------
        norms : array of shape (p,)
        """
        norms = np.abs(as_vector(norms))
        weights = np.where(norms > 0, self.kernel_weights(norms), 0.0)
        is_free = np.isinf(weights)
        if is_free.any():
            weights = np.where(is_free, norms, 0.0)
        largest = weights.max(initial=0.0)
        if largest == 0.0:
            return weights
        scaled = weights / largest
        return scaled / scaled.sum()

    def value_alone(self, norm: float, n_groups: int) -> np.ndarray:
        """Return the value of a vector with one nonzero group, for each: (p,), or (1,) if equal.

        Parameters
        ----------
        norm : float >= 0
            Norm of that group.
        n_groups : int
            Number of groups p.
        """
        return np.array([self.value(np.array([norm]))])

    def norm_bound(self, value: float, n_groups: int) -> float:
        r"""Return the largest :math:`\|b\|_2` with :math:`\psi(b) \le` ``value``, or a bound on it.

        It is exact if ``least_at_one_group`` (Proposition 8.3 of Martins et al. 2011).

        Parameters
        ----------
        value : float
        n_groups : int

        Raises
        ------
        InputError
            If no bound is known, or norms are not bounded at all.
        """
        farthest = np.array([FARTHEST])

        def reaches(norm: np.ndarray) -> np.ndarray:
            least = float(self.value_alone(float(norm[0]), n_groups).min())
            return np.array([least >= value])

        with np.errstate(over="ignore"):
            if not self.least_at_one_group or not reaches(farthest):
                raise InputError(
                    f"{self!r} does not bound the norms of all groups: "
                    "give radius as a number, or None."
                )
            if value <= 0:
                return 0.0
            return float(increasing_root(reaches, np.ones(1), farthest)[0])

    def terms(self) -> "tuple[Regularizer, ...]":
        """Return the proximal steps that Algorithm 1 takes in turn; first those on coordinates."""
        return (self,)

    def compiled_steps(self) -> "list[ProximalStep] | None":
        """Return the compiled functions of a proximal step on norms, which take turns, or None.

        They give the bits of :meth:`prox` for norms, which are at least 0.
        """
        if self.compiled is None:
            return None
        return [ProximalStep(*function_and_parameters(self))]

    def bind(self, names: Sequence[str], order: Sequence[str] | None = None) -> "Regularizer":
        """Return the regularizer for a model: put settings by name into the order of its groups.

        Parameters
        ----------
        names : sequence of str
            The groups of the model, in the order of the vectors of norms.
        order : sequence of str, optional
            The groups in the order of the user, to which settings by position refer.
        """
        return self

    # look Composite up by its alias: a direct import would be circular
    def __mul__(self, factor: float) -> "Regularizer":
        return members_of(Regularizer)["sum"]([self], [factor])

    __rmul__ = __mul__

    def __add__(self, other: "Regularizer") -> "Regularizer":
        return members_of(Regularizer)["sum"]([self, other])


def soft_threshold(x: np.ndarray, threshold: float | np.ndarray) -> np.ndarray:
    """Return ``sign(x) max(|x| - threshold, 0)``, the prox of ``sum_k threshold_k |x_k|``."""
    return np.sign(x) * np.maximum(np.abs(x) - threshold, 0.0)


def signed_prox(
    function: Callable, vector: ArrayLike, step: float, parameters: np.ndarray
) -> np.ndarray:
    """Return the prox of a vector with signs (p,), by a compiled function for norms.

    Parameters
    ----------
    function : compiled function
        With the signature ``PROX``.
    vector : array of shape (p,)
    step : float >= 0
    parameters : array
        Parameters of the function.
    """
    vector = as_vector(vector)
    magnitudes = np.abs(vector)
    function(magnitudes, float(step), parameters, np.empty((2, len(vector))))
    return np.copysign(magnitudes, vector)


def ratio_or_zero(
    numerator: ArrayLike, denominator: ArrayLike, otherwise: ArrayLike = 0.0
) -> np.ndarray:
    """Return the elementwise quotient, and ``otherwise`` where the denominator is 0."""
    denominator = as_vector(denominator)
    return np.divide(
        numerator, denominator, out=np.full_like(denominator, otherwise), where=denominator != 0
    )


def _rises(slopes: Callable) -> bool:
    """Return whether slopes increase strictly, so that the conjugate is differentiable."""
    with np.errstate(over="ignore", invalid="ignore"):
        rises = np.diff([float(slopes(np.array([norm]))[0]) for norm in RISING])
    return bool((rises[np.isfinite(rises)] > 0).all())
