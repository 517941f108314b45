"""Separable regularizers: sums of functions of single group norms, or coordinates.

Closed forms are those of Martins et al. (2011) and of Suzuki and Tomioka (2011, Table 1).
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl.regularizers._jit_prox import LINEAR_QUADRATIC, LQ, NO_WEIGHTS, prox_lq, soft_threshold
from omkl.regularizers.base import OVERSHOOT, Regularizer, as_vector


class LinearQuadratic(Regularizer):
    r""":math:`\sum_k l b_k + \frac c2 b_k^2`: between the group lasso and the ridge.

    Parameters
    ----------
    linear, quadratic : float >= 0
        l and c.
    """

    separable = True
    least_at_one_group = True
    compiled = property(lambda self: (LINEAR_QUADRATIC, self.elastic, NO_WEIGHTS))
    #: None for a class that overrides a method, as for compiled forms.
    elastic = property(
        lambda self: (self.linear, self.quadratic) if type(self).compiled is LinearQuadratic.compiled else None
    )

    def __init__(self, linear: float, quadratic: float) -> None:
        self.linear, self.quadratic = float(linear), float(quadratic)

    def value(self, norms: ArrayLike) -> float:
        norms = as_vector(norms)
        return float(self.linear * np.abs(norms).sum() + 0.5 * self.quadratic * (norms @ norms))

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return self.linear + self.quadratic * as_vector(norms)

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        return np.full_like(as_vector(norms), self.quadratic)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        norms = as_vector(norms)
        shrunk = soft_threshold(norms, step * self.linear, NO_WEIGHTS) if self.linear else norms
        return shrunk / (1.0 + step * self.quadratic)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        if not self.quadratic:
            largest = np.abs(dual_norms).max(initial=0.0)
            return 0.0 if largest <= self.linear * (1.0 + OVERSHOOT) else math.inf
        excess = np.maximum(np.abs(dual_norms) - self.linear, 0.0)
        return float(excess @ excess) / (2.0 * self.quadratic)

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        return np.maximum(as_vector(dual_norms) - self.linear, 0.0) / self.quadratic

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        dual_norms = as_vector(dual_norms)
        alive = dual_norms > self.linear if self.linear else np.ones_like(dual_norms)
        return alive / self.quadratic


class L1(LinearQuadratic):
    r"""The lasso penalty :math:`\sum_i |\theta_i|` on every coordinate."""

    aliases = {"l1": {}, "lasso": {}}
    on_coordinates = True
    rank = 0

    def __init__(self) -> None:
        super().__init__(1.0, 0.0)


class L21(LinearQuadratic):
    r"""Group lasso, the block 1-norm: :math:`\sum_k b_k`. Its prox is soft thresholding of the norms.

    >>> L21().prox([3.0, 0.5], step=1.0)
    array([2., 0.])
    """

    aliases = {"l21": {}, "group-lasso": {}, "block1": {}}

    def __init__(self) -> None:
        super().__init__(1.0, 0.0)


class ElasticNet(LinearQuadratic):
    r"""Elastic-net MKL: :math:`\sum_k (1-\mu) b_k + \frac{\mu}{2} b_k^2`, between group lasso and ridge.

    Parameters
    ----------
    mu : float in [0, 1]
        0 is the group lasso, 1 is the ridge.
    """

    aliases = {"elastic-net": {}}

    def __init__(self, mu: float = 0.5) -> None:
        check_number("mu", mu, least=0, most=1)
        self.mu = float(mu)
        super().__init__(1.0 - self.mu, self.mu)


class Ridge(LinearQuadratic):
    r"""Uniform kernel weights, the plain SVM or CRF: :math:`\frac12 \sum_k b_k^2`."""

    aliases = {"l2": {}, "ridge": {}, "uniform": {}}
    weight_set = "point"
    rank = 3

    def __init__(self) -> None:
        super().__init__(0.0, 1.0)


class LqNorm(Regularizer):
    r"""Block q-norm, non-sparse MKL: :math:`\frac1q \sum_k b_k^q` for any ``q > 1``.

    The prox is the root of :math:`x + t x^{q-1} = b` in :math:`[0, b]`, in closed form for q = 4/3, 3/2, 2 and 3.

    Parameters
    ----------
    q : float > 1

    >>> LqNorm(q=3).prox([2.0], step=1.0)
    array([1.])
    """

    aliases = {"lq": {}, "block-q": {}}
    separable = True
    compiled = property(lambda self: (LQ, (self.q, 0.0), NO_WEIGHTS))

    def __init__(self, q: float = 1.5) -> None:
        check_number("q", q, above=1)
        self.q = float(q)
        self.least_at_one_group = q <= 2

    @property
    def _r(self) -> float:
        """The conjugate exponent: 1/q + 1/r = 1."""
        return self.q / (self.q - 1.0)

    def value(self, norms: ArrayLike) -> float:
        return float(_power(norms, self.q).sum()) / self.q

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return _power(norms, self.q - 1.0)

    def curvatures(self, norms: ArrayLike) -> np.ndarray:
        norms = np.abs(as_vector(norms))
        at_zero = np.full_like(norms, np.inf if self.q < 2 else float(self.q == 2))
        return (self.q - 1.0) * np.power(norms, self.q - 2.0, out=at_zero, where=norms > 0)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        return prox_lq(as_vector(norms), step, self.q)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return float(_power(dual_norms, self._r).sum()) / self._r

    def conjugate_gradient(self, dual_norms: ArrayLike) -> np.ndarray:
        return _power(dual_norms, self._r - 1.0)

    def conjugate_curvature(self, dual_norms: ArrayLike) -> np.ndarray:
        # inf at 0 where q > 2
        return (self._r - 1.0) * _power(dual_norms, self._r - 2.0)

    def norm_bound(self, value: float, n_groups: int) -> float:
        # ||b||_2 <= ||b||_q for q <= 2, and <= p^(1/2 - 1/q) ||b||_q for q > 2, with equality for equal norms
        return (self.q * value) ** (1.0 / self.q) * n_groups ** max(0.0, 0.5 - 1.0 / self.q)


def _power(norms: ArrayLike, exponent: float) -> np.ndarray:
    """Return magnitudes to a power, inf where it overflows."""
    with np.errstate(over="ignore", divide="ignore"):
        return np.abs(as_vector(norms)) ** exponent
