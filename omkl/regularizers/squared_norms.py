r"""Squared norms of the vector of group norms, and the ball of the mixed norm.

Each squared norm has its set of kernel weights. Methods that learn weights :math:`d` in a set
:math:`\mathcal D` and a function in the RKHS of :math:`\sum_k d_k K_k` minimise
:math:`\psi(b) = \min_{d \in \mathcal D} \frac12 \sum_k b_k^2 / d_k` (Micchelli and Pontil 2005),
whose conjugate is :math:`\psi^*(y) = \frac12 \max_{d \in \mathcal D} \sum_k d_k y_k^2`. The simplex
gives the squared mixed norm, the penalty of multiple kernel learning.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from omkl._components import NO_PARAMETERS, check_number
from omkl.exceptions import InputError
from omkl.regularizers import _jit_prox as jit
from omkl.regularizers.base import (
    Regularizer,
    as_vector,
    ratio_or_zero,
    signed_prox,
    soft_threshold,
)

#: Norms below this share of the largest one count as 0: their squares would underflow.
NEGLIGIBLE = 1e-100
#: Maximum number of updates of elastic-net weights.
MOST_UPDATES = 10_000
#: Relative gap at which updates of elastic-net weights end.
SETTLED = 1e-13


class SquaredL21(Regularizer):
    r"""Squared mixed norm, the MKL penalty: :math:`\frac12 (\sum_k b_k)^2`.

    Its proximity operator is not separable. Newton's method finds the threshold of Algorithm 2 of
    Martins et al. (2011), which sorts the norms.

    >>> SquaredL21().prox([3.0, 0.5], step=1.0)
    array([1.5, 0. ])
    """

    aliases = {"mkl": {}, "squared-l21": {}}
    weight_set = "simplex"
    is_sparse = True
    least_at_one_group = True
    compiled = jit.prox_squared_l1, NO_PARAMETERS

    def value(self, norms: ArrayLike) -> float:
        return 0.5 * float(np.abs(norms).sum()) ** 2

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        norms = as_vector(norms)
        return np.full_like(norms, np.abs(norms).sum())

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        return signed_prox(jit.prox_squared_l1, norms, step, NO_PARAMETERS)

    def prox_slope(self, norms: ArrayLike, step: float) -> np.ndarray:
        return (self.prox(norms, step) > 0).astype(np.float64)

    def prox_coupling(self, norms: ArrayLike, step: float) -> np.ndarray:
        # p = b - t s on the active set, and s = sum p = sum b / (1 + t |active|)
        active = self.prox_slope(norms, step)
        return np.sqrt(step / (1.0 + step * active.sum())) * active

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return 0.5 * float(np.abs(dual_norms).max(initial=0.0)) ** 2


class L21Ball(Regularizer):
    r"""Indicator of the ball :math:`\sum_k b_k \le r`.

    Its prox is the Euclidean projection (Duchi et al. 2008). With this regularizer, Algorithm 1 is
    the projected subgradient method with groups.

    Parameters
    ----------
    radius : float > 0

    Notes
    -----
    The slope on the boundary is not unique. It is set to the sum of the norms, so that the kernel
    weights of the ball alone sum to one.
    """

    aliases = {"l21-ball": {}}
    is_sparse = True
    least_at_one_group = True
    rank = 4

    def __init__(self, radius: float = 1.0) -> None:
        check_number("radius", radius, above=0)
        self.radius = float(radius)

    def value(self, norms: ArrayLike) -> float:
        # a projected point may overshoot by rounding
        return 0.0 if np.abs(norms).sum() <= self.radius * (1 + 1e-9) else math.inf

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        norms = np.abs(as_vector(norms))
        slope = 0.0
        if norms.sum() >= self.radius * (1 - 1e-9):
            slope = norms.sum()
        return np.full_like(norms, slope)

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        norms = as_vector(norms)
        magnitudes = np.abs(norms)
        if magnitudes.sum() <= self.radius:
            return norms.copy()
        decreasing = -np.sort(-magnitudes)
        candidates = (np.cumsum(decreasing) - self.radius) / np.arange(1, len(norms) + 1)
        return soft_threshold(norms, candidates.max())

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return self.radius * float(np.abs(dual_norms).max(initial=0.0))

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        magnitudes = np.abs(as_vector(norms))
        if not magnitudes.any():
            return magnitudes
        return magnitudes / magnitudes.sum()

    def norm_bound(self, value: float, n_groups: int) -> float:
        return self.radius


class WeightedSquaredL21(Regularizer):
    r"""Weighted squared mixed norm :math:`\frac12 (\sum_k w_k b_k)^2`.

    See Algorithm 4 of Martins et al. (2011).

    Parameters
    ----------
    weights : mapping of str to float, or array of shape (p,)
        Weights ``w_k >= 0`` by the name of a group, or in the order in which the groups were given
        to the model. A group with weight 0 is not penalized and keeps its norm.

    >>> WeightedSquaredL21([1.0, 0.0]).prox([3.0, 0.5], step=1.0)
    array([1.5, 0.5])
    """

    aliases = {"weighted-mkl": {}}
    is_sparse = True
    least_at_one_group = True
    compiled = property(lambda self: (jit.prox_squared_l1, self.weights))

    def __init__(self, weights: Mapping[str, float] | ArrayLike) -> None:
        is_series = hasattr(weights, "to_dict")
        if is_series and all(isinstance(name, str) for name in weights.index):
            weights = weights.to_dict()
        self._by_name: dict[str, float] | None = None
        numbers: Any = weights
        if isinstance(weights, Mapping):
            self._by_name = dict(weights)
            numbers = list(weights.values())
        self.weights = np.array(numbers, dtype=np.float64)
        fit = np.all(np.isfinite(self.weights)) and not np.any(self.weights < 0)
        if self.weights.ndim != 1 or not fit:
            raise InputError(
                f"weights must be finite numbers >= 0, one per group, not {weights!r}."
            )
        self.dual_radius = math.inf if np.all(self.weights > 0) else 0.0

    def parameters(self) -> dict[str, Any]:
        return {"weights": self._by_name or self.weights.tolist()}

    def bind(
        self, names: Sequence[str], order: Sequence[str] | None = None
    ) -> "WeightedSquaredL21":
        in_order = names if order is None else order
        if self._by_name is None and len(in_order) != len(self.weights):
            raise InputError(
                f"There are {len(in_order)} groups but {len(self.weights)} weights: "
                "give one per group."
            )
        by_name = self._by_name or dict(zip(in_order, self.weights.tolist()))
        wrong = by_name.keys() ^ set(names)
        if wrong:
            raise InputError(
                f"weights must name the groups {', '.join(names)}, and no others: "
                f"see {min(wrong)!r}."
            )
        return WeightedSquaredL21([by_name[name] for name in names])

    def value(self, norms: ArrayLike) -> float:
        return 0.5 * float(self.weights @ np.abs(norms)) ** 2

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        return float(self.weights @ np.abs(norms)) * self.weights

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        return signed_prox(jit.prox_squared_l1, norms, step, self.weights)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        magnitudes = np.abs(dual_norms)
        is_free = self.weights == 0
        if np.any(magnitudes[is_free] > 0):
            return math.inf
        ratios = magnitudes[~is_free] / self.weights[~is_free]
        return 0.5 * float(np.max(ratios, initial=0.0)) ** 2

    def dual_scale(self, dual_norms: ArrayLike) -> float:
        reaches_free_groups = np.any(as_vector(dual_norms)[self.weights == 0] != 0)
        return 0.0 if reaches_free_groups else 1.0

    def value_alone(self, norm: float, n_groups: int) -> np.ndarray:
        return 0.5 * (self.weights * norm) ** 2


class _SquaredNorm(Regularizer):
    """Base of squared norms that are given by their kernel weights."""

    least_at_one_group = True

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        norms = np.abs(as_vector(norms))
        return ratio_or_zero(norms, self.kernel_weights(norms))

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        return ratio_or_zero(1.0, self.kernel_weights(norms), np.inf)


class SquaredLq(_SquaredNorm):
    r"""Squared q-norm :math:`\frac12 \|b\|_q^2` of the group norms, lp-norm MKL.

    Its weights lie in the ball :math:`\|d\|_p \le 1` with :math:`p = q / (2 - q)`, that is :math:`q
    = 2p / (p + 1)` (Kloft et al. 2011): q = 4/3 gives the Euclidean ball, q = 2 uniform weights.

    Parameters
    ----------
    q : float in (1, 2]

    >>> SquaredLq(q=2).prox([2.0], step=1.0)
    array([1.])
    """

    aliases = {"squared-lq": {}, "lp-norm": {}}
    is_sparse = False
    weight_set = "lp-ball"

    def __init__(self, q: float = 4 / 3) -> None:
        check_number("q", q, above=1, most=2)
        self.q = float(q)

    def value(self, norms: ArrayLike) -> float:
        return 0.5 * _lq_norm(norms, self.q) ** 2

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        # the optimum x for norms b and step t is the prox of tau ||.||_q^q / q at b, where tau = t
        # ||x||_q^(2 - q): find the root of the difference of both sides, in log tau
        norms = as_vector(norms)
        if not norms.any() or step == 0.0 or self.q == 2.0:
            return norms / (1.0 + step)
        power = 2.0 - self.q
        parameters = np.array([self.q])

        def prox_lq(tau: float) -> np.ndarray:
            return signed_prox(jit.prox_lq, norms, tau, parameters)

        def excess(log_tau: float) -> float:
            shrunk = _lq_norm(prox_lq(math.exp(log_tau)), self.q)
            return log_tau - math.log(step) - power * math.log(max(shrunk, 1e-300))

        # for n norms, ||b||_2 / (1 + t n^(2/q - 1)) <= ||x||_2 <= ||x||_q <= ||b||_q / (1 + t)
        spread = math.log1p(step * norms.size ** (2.0 / self.q - 1.0))
        low = math.log(step) + power * (math.log(_lq_norm(norms, 2.0)) - spread)
        high = math.log(step) + power * (math.log(_lq_norm(norms, self.q)) - math.log1p(step))
        return prox_lq(math.exp(scipy.optimize.brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-15)))

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return 0.5 * _lq_norm(dual_norms, self.q / (self.q - 1.0)) ** 2

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        magnitudes: np.ndarray = np.abs(as_vector(norms))
        total = _lq_norm(magnitudes, self.q)
        if total == 0.0:
            return np.zeros_like(magnitudes)
        return (magnitudes / total) ** (2.0 - self.q)


class ElasticNetWeights(_SquaredNorm):
    r"""MKL with an elastic-net constraint on the kernel weights (Citi 2015; Yang et al. 2011).

    .. math:: \psi(b) = \min_d \Bigl\{ \tfrac12 \sum_k b_k^2 / d_k :\
              d \ge 0,\ \eta \|d\|_1 + (1 - \eta) \|d\|_2^2 \le 1 \Bigr\}

    Parameters
    ----------
    eta : float in [0, 1]
        1 is the lasso constraint, the same as :class:`SquaredL21`; 0 the Euclidean ball, the same
        as :class:`SquaredLq` with q = 4/3.

    >>> ElasticNetWeights(eta=1.0).kernel_weights([3.0, 1.0])
    array([0.75, 0.25])
    """

    aliases = {"elastic-net-weights": {}}

    def __init__(self, eta: float = 0.5) -> None:
        check_number("eta", eta, least=0, most=1)
        self.eta = float(eta)
        self.weight_set = "simplex" if eta == 1 else "elastic-net"
        self.is_sparse = self.eta > 0

    def value(self, norms: ArrayLike) -> float:
        weights = self.kernel_weights(norms)
        return 0.5 * float(np.sum(as_vector(norms)[weights > 0] ** 2 / weights[weights > 0]))

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        norms = as_vector(norms)
        if self.eta == 1.0:
            return signed_prox(jit.prox_squared_l1, norms, step, NO_PARAMETERS)
        largest = np.abs(norms).max(initial=0.0)
        if largest == 0.0 or step == 0.0:
            return norms.copy()
        weights = jit.elastic_net_prox_weights((norms / largest) ** 2, step, self.eta)
        return norms * weights / (weights + step)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        squares = as_vector(dual_norms) ** 2
        return 0.5 * float(squares @ best_linear_weights(squares, self.eta))

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        # Algorithm 2 of Citi: update (13a), preceded by (21) if eta < 0.25; the bound (20) holds
        # after (13a) only. Groups of negligible norm get the weight 0, where the published
        # algorithm divides 0 by 0.
        eta = self.eta
        norms = np.abs(as_vector(norms))
        weights = np.zeros_like(norms)
        scale = norms.max(initial=0.0)
        if scale == 0.0:
            return weights
        is_active = norms > NEGLIGIBLE * scale
        b = norms[is_active] / scale
        x = b
        size, slope = _size_and_slope(b, eta)
        for _ in range(MOST_UPDATES):
            if eta < 0.25:
                x = np.cbrt(x * b**2 / slope)
                _, slope = _size_and_slope(x, eta)
            x = b / np.sqrt(slope)
            size, slope = _size_and_slope(x, eta)
            if size / np.sum(b**2 / x) - 1.0 < SETTLED:
                break
        weights[is_active] = x / size
        return weights


def _size_and_slope(x: np.ndarray, eta: float) -> tuple[float, np.ndarray]:
    """Return the norm with the elastic-net set as unit ball, and its gradient (p,).

    See ``s(x)`` in Equations 10 and 13b of Citi.
    """
    half = 0.5 * eta
    total = x.sum()
    root = np.sqrt((half * total) ** 2 + (1 - eta) * (x @ x))
    size = half * total + root
    slope = half + (half**2 * total + (1 - eta) * x) / root
    return size, slope


def best_linear_weights(u: np.ndarray, eta: float) -> np.ndarray:
    r"""Return the weights in the elastic-net set with the largest :math:`u^\top \theta`.

    All ``u >= 0``. Algorithm 3 of Citi. Its radius counts the remaining coordinates, as in the text
    of the paper, not its listing.
    """
    weights = np.zeros_like(u)
    if u.max(initial=0.0) == 0.0:
        return weights
    if eta == 1.0:
        weights[np.argmax(u)] = 1.0
        return weights
    offset = eta / (2 - 2 * eta)
    active = np.flatnonzero(u > 0)
    while True:
        direction = u[active] / u.max()
        radius = np.sqrt(len(active) * offset**2 + 2 * offset + 1)
        point = radius * direction / np.linalg.norm(direction) - offset
        if point.min() >= 0:
            weights[active] = point
            return weights
        active = active[point > 0]


def _lq_norm(vector: ArrayLike, q: float) -> float:
    """Return the q-norm of a vector, without overflow."""
    magnitudes = np.abs(vector)
    largest = magnitudes.max(initial=0.0)
    if largest == 0.0:
        return 0.0
    return float(largest * np.sum((magnitudes / largest) ** q) ** (1.0 / q))
