"""What a regularizer is: a convex function of a vector, known by its value, its prox and its conjugate.

:class:`Scaled` and :class:`Composite` are here as well, because ``*`` and ``+`` make them.
"""

import contextlib
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from omkl.exceptions import InputError
from omkl.regularizers._jit_prox import soft_threshold
from omkl.regularizers.convex import FARTHEST, ConvexFunction, as_vector


class Regularizer(ConvexFunction):
    r"""A convex, even function :math:`\psi` of a vector, increasing in every magnitude.

    The vector is the group norms :math:`b_k = \|\theta_k\|` when ``on_coordinates`` is False: by Proposition 1 of
    Martins et al. (2011) the proximity operator of :math:`R(\theta) = \psi(b)` moves every group along its own ray,
    so a regularizer needs nothing else, and works in an RKHS. It is the coordinates of :math:`\theta` otherwise.

    Terms are scaled and added with the usual operators: ``0.3 * L1() + 0.7 * L21()`` is a :class:`Composite`.

    Every method takes one-dimensional arrays. Signed vectors are accepted: the functions are even, and the prox
    keeps signs.

    Notes
    -----
    A regularizer of your own declares what solvers may rely on, in the attributes below. A sum over groups
    (``separable = True``) needs no more than :meth:`value` and :meth:`slopes`: its prox, its conjugate and their
    derivatives are found by bisection, unless it has formulas of its own. Any other needs :meth:`value`,
    :meth:`prox`, :meth:`conjugate` and :meth:`slopes`.

    Attributes
    ----------
    on_coordinates : bool
        Whether the vector is the coordinates of the parameters; else it is the group norms.
    separable : bool
        Whether it is a sum over groups, :math:`\psi(b) = \sum_k \psi_k(b_k)`.
    is_sparse : bool
        Whether the prox sends small norms to exactly 0.
    slope_at_zero : float
        Derivative of :math:`\psi_k` at 0, from the right. If not separable: a number such that 0 is optimal as long
        as no dual norm exceeds it, 0 if none is known.
    dual_radius : float
        The conjugate is finite where no dual norm exceeds it, and, if separable, nowhere else; ``inf`` if it is
        finite everywhere.
    smooth_conjugate : bool
        Whether the conjugate has the derivatives :meth:`conjugate_gradient` and :meth:`conjugate_curvature`.
    differentiable_prox : bool
        Whether :meth:`prox_slope` and :meth:`prox_coupling` are there, which Newton's method for proximal steps needs.
    least_at_one_group : bool
        Whether, of all vectors of one Euclidean norm, the least value is that of a single group. It is where
        :math:`\psi` is concave as a function of the squares :math:`b_k^2`, and makes :meth:`norm_bound` exact.
    exact : bool
        Whether :meth:`prox` is the proximity operator, and not a sequence of such steps.
    elastic : tuple of two floats, or None
        ``(l, c)`` if :math:`\psi(b) = \sum_k l b_k + c b_k^2 / 2`.
    weight_set : {"simplex", "elastic-net", "lp-ball", "point"} or None
        The set of kernel weights d with :math:`\psi(b) = \min_d \frac12 \sum_k b_k^2 / d_k`; "point" is :math:`d = 1`.
        None where there is no such set, or none that methods on kernel weights know.
    rank : int
        Place in a sum whose proximal steps are taken in turn: smaller ranks first.
    """

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        r""":math:`1 / d_k = \psi_k'(b_k) / b_k`, or its limit where ``b_k = 0``; 0 for what is not penalized, or inf.

        By the variational form :math:`\psi(b) = \min_d \frac12 \sum_k b_k^2 / d_k + h(d)` (Micchelli and Pontil
        2005) these are the weights of kernels in the best combination, and their reciprocals are additive over terms.
        """
        norms = np.abs(as_vector(norms))
        slopes = self.slopes(norms)
        at_zero = np.where(slopes > 0, np.inf, self.curvatures(np.zeros_like(norms)) if self.separable else 0.0)
        with np.errstate(over="ignore"):
            return np.divide(slopes, norms, out=at_zero, where=norms > 0)

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        r"""Weights :math:`d_k = b_k / \psi_k'(b_k)` of the kernels at the solution with these group norms.

        The solution is :math:`f_k = d_k \sum_i \rho_i K_k(x_i, \cdot)` with one dual vector :math:`\rho` for all
        kernels. A group that is not penalized has the weight ``inf`` (0 if its norm is 0).
        """
        reciprocal = self.reciprocal_weights(norms)
        free = np.where(np.abs(as_vector(norms)) > 0, np.inf, 0.0)
        return np.divide(1.0, reciprocal, out=free, where=reciprocal > 0)

    def normalized_kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        """Kernel weights scaled to sum to one; groups with norm 0, which add nothing to a model, have weight 0.

        Where some groups are not penalized, these share the whole weight in proportion to their norms: the limit, as
        their penalty goes to zero. All 0 if all norms are.
        """
        norms = np.abs(as_vector(norms))
        weights = np.where(norms > 0, self.kernel_weights(norms), 0.0)
        free = np.isinf(weights)
        weights = np.where(free, norms, 0.0) if free.any() else weights
        largest = weights.max(initial=0.0)
        return weights if largest == 0.0 else weights / largest / (weights / largest).sum()

    def value_alone(self, norm: float, n_groups: int) -> np.ndarray:
        """The value where one group has this norm and all others 0: for each group, or one number for all alike."""
        return np.array([self.value(np.array([norm]))])

    def norm_bound(self, value: float, n_groups: int) -> float:
        r"""The largest :math:`\|b\|_2` with :math:`\psi(b) \le` ``value``, or a bound on it.

        Exact where ``least_at_one_group``, sums of such terms included (Proposition 8.3 of Martins et al. 2011).

        Raises
        ------
        InputError
            If no bound is known, or norms are not bounded at all.
        """
        if not self.least_at_one_group:
            raise self._unbounded()
        return self._norm_alone(value, n_groups)

    def _norm_alone(self, value: float, n_groups: int) -> float:
        """The largest norm at which some single group has no more than this value, by bisection."""
        if not self._alone(FARTHEST, n_groups) >= value:
            raise self._unbounded()
        if not value > 0:
            return 0.0
        high = 1.0
        while self._alone(high, n_groups) < value:
            high *= 2.0
        while high > 1e-300 and self._alone(0.5 * high, n_groups) >= value:
            high *= 0.5
        low = 0.5 * high
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (low, middle) if self._alone(middle, n_groups) >= value else (middle, high)
        return high

    def _unbounded(self) -> InputError:
        return InputError(f"{self!r} does not bound the norms of all groups: give radius as a number, or None.")

    def _alone(self, norm: float, n_groups: int) -> float:
        with np.errstate(over="ignore"):
            return float(self.value_alone(norm, n_groups).min())

    def terms(self) -> "tuple[Regularizer, ...]":
        """The proximal steps that Algorithm 1 takes for this regularizer, in order: those on coordinates first."""
        return (self,)

    def bind(self, names: Sequence[str], order: Sequence[str] | None = None) -> "Regularizer":
        """The same regularizer for a model's groups; only those that have arguments for single groups differ.

        Parameters
        ----------
        names : sequence of str
            The groups of the model, in the order of the vectors of norms.
        order : sequence of str, optional
            The same in the order in which the user gave them, which arguments by position follow; by default ``names``.
        """
        return self

    def __mul__(self, factor: float) -> "Scaled":
        return Scaled(self, factor)

    __rmul__ = __mul__

    def __add__(self, other: "Regularizer") -> "Composite":
        return Composite([self, other])


class Scaled(Regularizer):
    r""":math:`c\, \psi(b)` for a factor :math:`c > 0`; written ``c * regularizer``.

    >>> from omkl.regularizers import L21
    >>> (2 * L21()).prox([3.0, 1.0], step=0.5)
    array([2., 0.])
    """

    def __init__(self, regularizer: Regularizer, factor: float) -> None:
        if not factor > 0 or not np.isfinite(factor):
            raise InputError(f"A regularizer can only be scaled by a finite factor > 0, not {factor!r}.")
        self.regularizer = regularizer
        self.factor = float(factor)
        self.on_coordinates, self.separable = regularizer.on_coordinates, regularizer.separable
        self.is_sparse, self.exact, self.rank = regularizer.is_sparse, regularizer.exact, regularizer.rank
        self.smooth_conjugate = regularizer.smooth_conjugate
        self.differentiable_prox = regularizer.differentiable_prox
        self.least_at_one_group = regularizer.least_at_one_group
        self.slope_at_zero = self.factor * regularizer.slope_at_zero
        self.dual_radius = self.factor * regularizer.dual_radius
        if regularizer.elastic is not None:
            self.elastic = self.factor * regularizer.elastic[0], self.factor * regularizer.elastic[1]

    def value(self, norms: ArrayLike) -> float:
        return self.factor * self.regularizer.value(norms)

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return self.factor * self.regularizer.slopes(norms)

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        return self.factor * self.regularizer.curvatures(norms)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        return self.regularizer.prox(norms, self.factor * step)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return self.factor * self.regularizer.conjugate(as_vector(dual_norms) / self.factor)

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        return self.regularizer.conjugate_gradient(as_vector(dual_norms) / self.factor)

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        return self.regularizer.conjugate_curvature(as_vector(dual_norms) / self.factor) / self.factor

    def prox_slope(self, norms: ArrayLike, step: float) -> np.ndarray:
        return self.regularizer.prox_slope(norms, self.factor * step)

    def prox_coupling(self, norms: ArrayLike, step: float) -> np.ndarray | None:
        return self.regularizer.prox_coupling(norms, self.factor * step)

    def dual_scale(self, dual_norms: ArrayLike) -> float:
        return self.regularizer.dual_scale(as_vector(dual_norms) / self.factor)

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        return self.factor * self.regularizer.reciprocal_weights(norms)

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        return self.regularizer.kernel_weights(norms) / self.factor

    def value_alone(self, norm: float, n_groups: int) -> np.ndarray:
        return self.factor * self.regularizer.value_alone(norm, n_groups)

    def norm_bound(self, value: float, n_groups: int) -> float:
        return self.regularizer.norm_bound(value / self.factor, n_groups)

    def terms(self) -> tuple[Regularizer, ...]:
        inner = self.regularizer.terms()
        return (self,) if len(inner) == 1 else tuple(Scaled(term, self.factor) for term in inner)

    def bind(self, names: Sequence[str], order: Sequence[str] | None = None) -> "Scaled":
        return Scaled(self.regularizer.bind(names, order), self.factor)


class Composite(Regularizer):
    r"""The sum :math:`R_1 + \dots + R_J` of regularizers; written ``first + second``.

    Linear and quadratic terms are joined, and their steps (soft thresholding, then division) leave the prox of

    .. math:: \psi(b) + \sum_k l b_k + c b_k^2 / 2

    exact if that of :math:`\psi` is, with the step :math:`t / (1 + t c)` for :math:`\psi`. What else is a sum over
    groups is solved for together, by bisection. Several terms that are neither take their proximal steps in turn
    (Algorithm 1 with J > 1), unions of groups first and a ball last: then ``exact`` is False, and Lemma 4 of Martins
    et al. (2011) still holds, because every term shrinks. Steps on coordinates come before all of these, which
    keeps the whole exact.

    Parameters
    ----------
    regularizers : sequence of Regularizer
        All on group norms, or on coordinates for use by themselves; a trainer takes any mixture.
    """

    def __init__(self, regularizers: Iterable[Regularizer]) -> None:
        flat = [term for regularizer in regularizers for term in _flatten(regularizer)]
        if not flat or not all(isinstance(term, Regularizer) for term in flat):
            raise InputError("A composite needs at least one regularizer, and nothing else.")
        self.regularizers = sorted(flat, key=lambda term: term.rank)
        elastic = [term.elastic for term in self.regularizers if term.elastic is not None]
        self._linear, self._quadratic = sum(l for l, _ in elastic), sum(c for _, c in elastic)  # noqa: E741
        self._rest = [term for term in self.regularizers if term.elastic is None]
        self.on_coordinates = any(term.on_coordinates for term in flat)
        self.separable = all(term.separable for term in flat) and len({term.on_coordinates for term in flat}) == 1
        self.is_sparse = any(term.is_sparse for term in flat)
        self.slope_at_zero = sum(term.slope_at_zero for term in flat)
        self.dual_radius = sum(term.dual_radius for term in flat)
        self.smooth_conjugate = self.separable and any(term.smooth_conjugate for term in flat)
        self.exact = len(self._rest) <= 1 or self.separable
        self.exact = self.exact and all(term.exact for term in flat)
        self.differentiable_prox = self.exact and all(term.differentiable_prox for term in flat)
        self.least_at_one_group = all(term.least_at_one_group for term in flat)
        if not self._rest and self.separable:
            self.elastic = self._linear, self._quadratic

    def value(self, norms: ArrayLike) -> float:
        return sum(term.value(norms) for term in self.regularizers)

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return sum((term.slopes(norms) for term in self.regularizers), np.zeros(len(as_vector(norms))))

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        return sum((term.curvatures(norms) for term in self.regularizers), np.zeros(len(as_vector(norms))))

    def _reduced(self, norms: ArrayLike, step: float) -> tuple[np.ndarray, float]:
        """Norms and step that are left to the other terms once the linear and quadratic ones are dealt with."""
        divisor = 1.0 + step * self._quadratic
        return soft_threshold(as_vector(norms), step * self._linear) / divisor, step / divisor

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        if len(self._rest) > 1 and self.separable:
            return super().prox(norms, step)
        norms, step = self._reduced(norms, step)
        for term in self._rest:
            norms = term.prox(norms, step)
        return norms

    def prox_slope(self, norms: ArrayLike, step: float) -> np.ndarray:
        if len(self._rest) > 1:
            return super().prox_slope(norms, step)
        inner, inner_step = self._reduced(norms, step)
        slope = self._rest[0].prox_slope(inner, inner_step) if self._rest else np.ones_like(inner)
        return np.where(as_vector(norms) > step * self._linear, slope / (1.0 + step * self._quadratic), 0.0)

    def prox_coupling(self, norms: ArrayLike, step: float) -> np.ndarray | None:
        if len(self._rest) != 1:
            return None
        coupling = self._rest[0].prox_coupling(*self._reduced(norms, step))
        return None if coupling is None else coupling / np.sqrt(1.0 + step * self._quadratic)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        r"""Of a sum over groups at the maximizers; else by a proximal-point ascent of :math:`y^\top b - \psi(b)`.

        Raises
        ------
        InputError
            If the prox is not exact, on which the ascent rests.
        """
        if self.separable:
            return super().conjugate(dual_norms)
        if not self.exact:
            raise InputError(
                "The conjugate of this composite is not available: its prox is not exact in any known order."
            )
        dual_norms = as_vector(dual_norms)
        point, step, best = np.zeros_like(dual_norms), 1.0, 0.0
        for _ in range(60):
            moved = self.prox(point + step * dual_norms, step)
            best = max(best, float(dual_norms @ moved) - self.value(moved))
            drift = np.abs(moved - point).max(initial=0.0) / step
            if drift * step <= 1e-12 * (1.0 + np.abs(moved).max(initial=0.0)):
                return best
            point, step = moved, min(step * 4.0, 1e8)
        # the drift of the proximal-point iteration tends to the distance of y from the conjugate's domain
        return best if drift <= 1e-6 else math.inf

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        if self._rest or not self._quadratic:
            return super().conjugate_gradient(dual_norms)
        return np.maximum(as_vector(dual_norms) - self._linear, 0.0) / self._quadratic

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        if self._rest:
            return super().conjugate_curvature(dual_norms)
        return (as_vector(dual_norms) > self._linear) / self._quadratic

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        return np.sum([term.reciprocal_weights(norms) for term in self.regularizers], axis=0)

    def value_alone(self, norm: float, n_groups: int) -> np.ndarray:
        return sum((term.value_alone(norm, n_groups) for term in self.regularizers), np.zeros(1))

    def norm_bound(self, value: float, n_groups: int) -> float:
        if self.least_at_one_group:
            return super().norm_bound(value, n_groups)
        # every term, and the sum of those whose bound is exact, bounds the norms by itself
        joint = [term for term in self.regularizers if term.least_at_one_group]
        bounds = []
        for term in [*([Composite(joint)] if joint else []), *(t for t in self.regularizers if t not in joint)]:
            with contextlib.suppress(InputError):
                bounds.append(term.norm_bound(value, n_groups))
        return min(bounds) if bounds else super().norm_bound(value, n_groups)

    def terms(self) -> tuple[Regularizer, ...]:
        steps = [step for regularizer in self.regularizers for step in regularizer.terms()]
        on_norms = [step for step in steps if not step.on_coordinates]
        on_norms = [Composite(on_norms)] if len(on_norms) > 1 else on_norms
        return *(step for step in steps if step.on_coordinates), *on_norms

    def bind(self, names: Sequence[str], order: Sequence[str] | None = None) -> "Composite":
        return Composite([regularizer.bind(names, order) for regularizer in self.regularizers])


def _flatten(regularizer: Regularizer) -> Sequence[Regularizer]:
    return regularizer.regularizers if isinstance(regularizer, Composite) else [regularizer]
