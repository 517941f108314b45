"""Separable regularizers, and sums of regularizers.

Separable ones are sums of functions of single group norms or coordinates. Closed forms are those of
Martins et al. (2011) and of Suzuki and Tomioka (2011, Table 1).
"""

import contextlib
import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number, function_and_parameters
from omkl.exceptions import InputError
from omkl.regularizers import _jit_prox as jit
from omkl.regularizers.base import (
    OVERSHOOT,
    ProximalStep,
    Regularizer,
    WeightedTerm,
    as_vector,
    signed_prox,
    soft_threshold,
)


class LinearQuadratic(Regularizer):
    r""":math:`\sum_k l b_k + \frac c2 b_k^2`: between the group lasso and the ridge.

    Attributes
    ----------
    linear, quadratic : float >= 0
        l and c.
    """

    linear = quadratic = 0.0
    separable = True
    least_at_one_group = True
    compiled = property(lambda self: (jit.prox_linear_quadratic, np.array(self.elastic)))

    @property
    def elastic(self) -> tuple[float, float] | None:  # type: ignore[override]
        """``(l, c)``; None for a class that overrides a method, which is not compiled either."""
        if type(self).compiled is not LinearQuadratic.compiled:
            return None
        return self.linear, self.quadratic

    def value(self, norms: ArrayLike) -> float:
        norms = as_vector(norms)
        return float(self.linear * np.abs(norms).sum() + 0.5 * self.quadratic * (norms @ norms))

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return self.linear + self.quadratic * as_vector(norms)

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        return np.full_like(as_vector(norms), self.quadratic)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        shrunk = as_vector(norms)
        if self.linear:
            shrunk = soft_threshold(shrunk, step * self.linear)
        return shrunk / (1.0 + step * self.quadratic)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        if not self.quadratic:
            largest = np.abs(dual_norms).max(initial=0.0)
            is_inside = largest <= self.linear * (1.0 + OVERSHOOT)
            return 0.0 if is_inside else math.inf
        excess = np.maximum(np.abs(dual_norms) - self.linear, 0.0)
        return float(excess @ excess) / (2.0 * self.quadratic)

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        return np.maximum(as_vector(dual_norms) - self.linear, 0.0) / self.quadratic

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        dual_norms = as_vector(dual_norms)
        is_active = np.ones(dual_norms.shape, dtype=bool)
        if self.linear:
            is_active = dual_norms > self.linear
        return is_active / self.quadratic


class L1(LinearQuadratic):
    r"""The lasso penalty :math:`\sum_i |\theta_i|` on every coordinate."""

    aliases = {"l1": {}, "lasso": {}}
    linear = 1.0
    on_coordinates = True
    rank = 0


class L21(LinearQuadratic):
    r"""Group lasso, the block 1-norm: :math:`\sum_k b_k`.

    Its prox is soft thresholding of the norms.

    >>> L21().prox([3.0, 0.5], step=1.0)
    array([2., 0.])
    """

    aliases = {"l21": {}, "group-lasso": {}, "block1": {}}
    linear = 1.0


class ElasticNet(LinearQuadratic):
    r"""Elastic-net MKL, between group lasso and ridge.

    .. math:: \sum_k (1-\mu) b_k + \frac{\mu}{2} b_k^2

    Parameters
    ----------
    mu : float in [0, 1]
        0 is the group lasso, 1 is the ridge.
    """

    aliases = {"elastic-net": {}}

    def __init__(self, mu: float = 0.5) -> None:
        check_number("mu", mu, least=0, most=1)
        self.mu = float(mu)
        self.linear = 1.0 - self.mu
        self.quadratic = self.mu


class Ridge(LinearQuadratic):
    r"""Uniform kernel weights, the plain SVM or CRF: :math:`\frac12 \sum_k b_k^2`."""

    aliases = {"l2": {}, "ridge": {}, "uniform": {}}
    quadratic = 1.0
    weight_set = "point"
    rank = 3


class LqNorm(Regularizer):
    r"""Block q-norm, non-sparse MKL: :math:`\frac1q \sum_k b_k^q` for any ``q > 1``.

    The prox is the root of :math:`x + t x^{q-1} = b` in :math:`[0, b]`, in closed form for q = 4/3,
    3/2, 2 and 3.

    Parameters
    ----------
    q : float > 1

    >>> LqNorm(q=3).prox([2.0], step=1.0)
    array([1.])
    """

    aliases = {"lq": {}, "block-q": {}}
    separable = True
    compiled = property(lambda self: (jit.prox_lq, np.array([self.q])))

    def __init__(self, q: float = 1.5) -> None:
        check_number("q", q, above=1)
        self.q = float(q)
        self._r = self.q / (self.q - 1.0)  # the conjugate exponent
        self.least_at_one_group = q <= 2

    def value(self, norms: ArrayLike) -> float:
        return float(_power(norms, self.q).sum()) / self.q

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return _power(norms, self.q - 1.0)

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        norms = np.abs(as_vector(norms))
        power_at_zero = math.inf
        if self.q >= 2:
            power_at_zero = float(self.q == 2)
        powers = np.full_like(norms, power_at_zero)
        np.power(norms, self.q - 2.0, out=powers, where=norms > 0)
        return (self.q - 1.0) * powers

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        return signed_prox(jit.prox_lq, norms, step, np.array([self.q]))

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return float(_power(dual_norms, self._r).sum()) / self._r

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        return _power(dual_norms, self._r - 1.0)

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        # inf at 0 where q > 2
        return (self._r - 1.0) * _power(dual_norms, self._r - 2.0)

    def norm_bound(self, value: float, n_groups: int) -> float:
        # ||b||_2 <= ||b||_q for q <= 2, and <= p^(1/2 - 1/q) ||b||_q for q > 2, with equality for
        # equal norms
        return (self.q * value) ** (1.0 / self.q) * n_groups ** max(0.0, 0.5 - 1.0 / self.q)


class Composite(Regularizer):
    r"""Weighted sum :math:`c_1 R_1 + \dots + c_J R_J` of regularizers.

    It is written ``2 * first + second``. The prox is exact if at most one term is neither linear
    nor quadratic. The other terms add up to :math:`\sum_k l b_k + c b_k^2 / 2`, so soft
    thresholding and division reduce the problem to the prox of that term with the step
    :math:`t / (1 + t c)`. The prox is also exact, by bisection, if all terms are separable.
    Otherwise the terms take their proximal steps in turn, by ``rank`` (Algorithm 1 with J > 1).
    Then ``exact`` is False, but Lemma 4 of Martins et al. (2011) still holds, because every term
    shrinks.

    Parameters
    ----------
    regularizers : sequence of Regularizer
    factors : sequence of float > 0, optional
        1 each by default.

    >>> from omkl.regularizers import L21
    >>> (2 * L21()).prox([3.0, 1.0], step=0.5)
    array([2., 0.])
    """

    aliases = {"sum": {}}
    compiled = property(lambda self: self.elastic and self._plain.compiled)

    def __init__(
        self, regularizers: Iterable[Regularizer], factors: Iterable[float] | None = None
    ) -> None:
        regularizers = list(regularizers)
        factors = [1.0] * len(regularizers) if factors is None else list(factors)
        if not regularizers or not all(isinstance(term, Regularizer) for term in regularizers):
            raise InputError("regularizers must be a non-empty sequence of regularizers.")
        if not all(0 < factor < math.inf for factor in factors):
            raise InputError(
                f"Factors of regularizers must be finite numbers > 0, not {factors!r}."
            )
        weighted_terms = []
        for regularizer, factor in zip(regularizers, factors):
            for term, factor_of_term in regularizer._weighted_terms:
                weighted_terms.append(WeightedTerm(term, float(factor) * factor_of_term))
        weighted_terms.sort(key=lambda weighted: weighted.term.rank)
        self._weighted_terms = weighted_terms
        terms = [term for term, _ in weighted_terms]
        self.regularizers = terms
        self.factors = [factor for _, factor in weighted_terms]
        self._split_terms()
        self.on_coordinates = any(term.on_coordinates for term in terms)
        is_of_one_kind = len({term.on_coordinates for term in terms}) == 1
        self.separable = is_of_one_kind and all(term.separable for term in terms)
        self.is_sparse = any(term.is_sparse for term in terms)
        self.slope_at_zero = sum(c * term.slope_at_zero for term, c in weighted_terms)
        self.dual_radius = sum(c * term.dual_radius for term, c in weighted_terms)
        self.smooth_conjugate = self.separable and any(term.smooth_conjugate for term in terms)
        has_exact_steps = len(self._others) <= 1 or self.separable
        self.exact = has_exact_steps and all(term.exact for term in terms)
        self.differentiable_prox = self.exact and all(term.differentiable_prox for term in terms)
        self.least_at_one_group = all(term.least_at_one_group for term in terms)
        self.rank = terms[0].rank if len(terms) == 1 else Regularizer.rank
        #: The term, with its factor, that is equal to the sum, if there is one.
        self._only: WeightedTerm | None = None
        if len(weighted_terms) == 1:
            self._only = weighted_terms[0]
        overrides_no_method = type(self).compiled is Composite.compiled
        if not self._others and self.separable and overrides_no_method:
            self.elastic = self._plain.elastic
            self._only = WeightedTerm(self._plain, 1.0)

    def _split_terms(self) -> None:
        """Add up the linear and quadratic terms; list the other terms."""
        elastic = [np.zeros(2)]
        self._others = []
        for weighted in self._weighted_terms:
            if weighted.term.elastic is None:
                self._others.append(weighted)
            else:
                elastic.append(np.multiply(weighted.factor, weighted.term.elastic))
        self._plain = LinearQuadratic()
        self._plain.linear, self._plain.quadratic = np.sum(elastic, axis=0).tolist()

    def _equal_term(self) -> WeightedTerm:
        """Return the term that is equal to the sum, or the methods of the base class."""
        return self._only or WeightedTerm(super(), 1.0)  # type: ignore[arg-type]

    def _sum(self, vectors: Iterable[np.ndarray]) -> np.ndarray:
        """Return the weighted sum of one vector for each term."""
        return np.sum([factor * vector for factor, vector in zip(self.factors, vectors)], axis=0)

    def value(self, norms: ArrayLike) -> float:
        return sum(c * term.value(norms) for term, c in self._weighted_terms)

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return self._sum(term.slopes(norms) for term in self.regularizers)

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        return self._sum(term.curvatures(norms) for term in self.regularizers)

    def _reduced(self, norms: ArrayLike, step: float) -> tuple[np.ndarray, float]:
        """Apply the linear and quadratic terms; return norms and step for the other terms."""
        return self._plain.prox(norms, step), step / (1.0 + step * self._plain.quadratic)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        if len(self._others) > 1 and self.separable:
            return super().prox(norms, step)
        norms, step = self._reduced(norms, step)
        for term, factor in self._others:
            norms = term.prox(norms, factor * step)
        return norms

    def compiled_steps(self) -> list[ProximalStep] | None:
        overrides_prox = type(self).prox is not Composite.prox
        if overrides_prox or self.compiled is not None:
            return super().compiled_steps()
        if len(self._others) > 1 and self.separable:
            return None
        steps = self._plain.compiled_steps() or []
        for term, factor in self._others:
            if term.compiled is None:
                return None
            function, parameters = function_and_parameters(term)
            steps.append(ProximalStep(function, parameters, factor, self._plain.quadratic))
        return steps

    def prox_slope(self, norms: ArrayLike, step: float) -> np.ndarray:
        if len(self._others) > 1:
            return super().prox_slope(norms, step)
        slope = self._plain.prox_slope(norms, step)
        reduced, reduced_step = self._reduced(norms, step)
        for term, factor in self._others:
            slope = slope * term.prox_slope(reduced, factor * reduced_step)
        return slope

    def prox_coupling(self, norms: ArrayLike, step: float) -> np.ndarray | None:
        if len(self._others) != 1:
            return None
        [(term, factor)] = self._others
        reduced, reduced_step = self._reduced(norms, step)
        coupling = term.prox_coupling(reduced, factor * reduced_step)
        if coupling is None:
            return None
        return coupling / np.sqrt(1.0 + step * self._plain.quadratic)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        if self._only or self.separable:
            term, factor = self._equal_term()
            return factor * term.conjugate(as_vector(dual_norms) / factor)
        if not self.exact:
            raise InputError(f"The conjugate of {self!r} is not known: its prox is not exact.")
        # maximize y'b - psi(b) by proximal-point steps
        dual_norms = as_vector(dual_norms)
        point = np.zeros_like(dual_norms)
        step = 1.0
        best = 0.0
        for _ in range(60):
            moved = self.prox(point + step * dual_norms, step)
            best = max(best, float(dual_norms @ moved) - self.value(moved))
            drift = np.abs(moved - point).max(initial=0.0) / step
            if drift * step <= 1e-12 * (1.0 + np.abs(moved).max(initial=0.0)):
                return best
            point = moved
            step = min(step * 4.0, 1e8)
        # the drift tends to the distance of y from the conjugate's domain
        return best if drift <= 1e-6 else math.inf

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        term, factor = self._equal_term()
        return term.conjugate_gradient(as_vector(dual_norms) / factor)

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        term, factor = self._equal_term()
        return term.conjugate_curvature(as_vector(dual_norms) / factor) / factor

    def dual_scale(self, dual_norms: ArrayLike) -> float:
        term, factor = self._equal_term()
        return term.dual_scale(as_vector(dual_norms) / factor)

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        return self._sum(term.reciprocal_weights(norms) for term in self.regularizers)

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        term, factor = self._equal_term()
        return term.kernel_weights(norms) / factor

    def value_alone(self, norm: float, n_groups: int) -> np.ndarray:
        return sum(
            (c * term.value_alone(norm, n_groups) for term, c in self._weighted_terms), np.zeros(1)
        )

    def norm_bound(self, value: float, n_groups: int) -> float:
        if self._only or self.least_at_one_group:
            term, factor = self._equal_term()
            return term.norm_bound(value / factor, n_groups)
        # each term alone bounds the norms, and so does the sum of the terms with exact bounds
        sums = [Composite([term], [factor]) for term, factor in self._weighted_terms]
        exact = [one_term for one_term in sums if one_term.least_at_one_group]
        bounding = [one_term for one_term in sums if not one_term.least_at_one_group]
        if exact:
            bounding.append(Composite(exact))
        bounds = []
        for regularizer in bounding:
            with contextlib.suppress(InputError):
                bounds.append(regularizer.norm_bound(value, n_groups))
        if not bounds:
            return super().norm_bound(value, n_groups)
        return min(bounds)

    def terms(self) -> tuple[Regularizer, ...]:
        on_coordinates: list[Regularizer] = []
        on_norms: list[Regularizer] = []
        for term, factor in self._weighted_terms:
            for step in term.terms():
                steps = on_coordinates if step.on_coordinates else on_norms
                steps.append(step if factor == 1.0 else factor * step)
        if len(on_norms) > 1:
            on_norms = [Composite(on_norms)]
        return *on_coordinates, *on_norms

    def bind(self, names: Sequence[str], order: Sequence[str] | None = None) -> "Composite":
        return Composite([term.bind(names, order) for term in self.regularizers], self.factors)

    def __repr__(self) -> str:
        described = []
        for term, factor in self._weighted_terms:
            prefix = "" if factor == 1.0 else f"{factor:g} * "
            described.append(f"{prefix}{term!r}")
        return " + ".join(described)


class SparseGroup(Composite):
    r"""Sparse group lasso :math:`\sigma \sum_g \|x_g\|_2 + (1 - \sigma) \|x\|_1`.

    See Friedman et al. (2010). It needs the coordinates of the parameters, so it works with
    explicit features only. The l1 step comes before the step on groups: only in this order is their
    composition the exact prox.

    Parameters
    ----------
    sigma : float in [0, 1]
        1 is the group lasso, 0 the lasso.
    """

    aliases = {"sparse-group": {}}

    def __init__(self, sigma: float = 0.5) -> None:
        check_number("sigma", sigma, least=0, most=1)
        self.sigma = float(sigma)
        factor_of: dict[Regularizer, float] = {}
        if self.sigma < 1:
            factor_of[L1()] = 1 - self.sigma
        if self.sigma > 0:
            factor_of[L21()] = self.sigma
        super().__init__(factor_of.keys(), factor_of.values())

    __repr__ = Regularizer.__repr__


def _power(norms: ArrayLike, exponent: float) -> np.ndarray:
    """Return magnitudes to a power, inf where it overflows."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.abs(as_vector(norms)) ** exponent
