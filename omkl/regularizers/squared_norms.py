r"""Squares of norms of the group norms, behind each of which stands a set of kernel weights.

Methods that learn weights :math:`d` in a set :math:`\mathcal D` and a function in the RKHS of :math:`\sum_k d_k K_k`
minimise :math:`\psi(b) = \min_{d \in \mathcal D} \frac12 \sum_k b_k^2 / d_k` (Micchelli and Pontil 2005), whose
conjugate is :math:`\psi^*(y) = \frac12 \max_{d \in \mathcal D} \sum_k d_k y_k^2`. The simplex gives
:class:`~omkl.regularizers.SquaredL21`; here are the others.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from omkl.exceptions import InputError
from omkl.regularizers._jit_prox import prox_lq, weights_of_elastic_net_prox
from omkl.regularizers.base import Regularizer, as_vector, ratio_or_zero

#: Norms below this share of the largest one count as 0: their squares would underflow.
NEGLIGIBLE = 1e-100


class SquaredLq(Regularizer):
    r"""Squared q-norm of the group norms, lp-norm MKL: :math:`\frac12 \|b\|_q^2` for :math:`1 < q \le 2`.

    Its weights lie in the ball :math:`\|d\|_p \le 1` with :math:`p = q / (2 - q)`, that is :math:`q = 2p / (p + 1)`
    (Kloft et al. 2011): q = 4/3 is the Euclidean ball, q = 2 are uniform weights.

    >>> SquaredLq(q=2).prox([2.0], step=1.0)
    array([1.])
    """

    aliases = {"squared-lq": {}, "lp-norm": {}}
    weight_set = "lp-ball"
    least_at_one_group = True

    def __init__(self, q: float = 4 / 3) -> None:
        if not 1 < q <= 2:
            raise InputError(f"q must be a number in (1, 2], not {q!r}; for q = 1 use the squared mixed norm, 'mkl'.")
        self.q = float(q)

    def value(self, norms: ArrayLike) -> float:
        return 0.5 * _lq_norm(norms, self.q) ** 2

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        # the optimum is a prox of tau ||.||_q^q / q, with tau = t ||x||_q^(2 - q) of the optimum itself
        norms = as_vector(norms)
        upper = step * _lq_norm(norms, self.q) ** (2.0 - self.q)
        if upper == 0.0:
            return norms.copy()

        def excess(tau: float) -> float:
            return tau - step * _lq_norm(prox_lq(norms, tau, self.q), self.q) ** (2.0 - self.q)

        return prox_lq(norms, brentq(excess, 0.0, upper, xtol=1e-15 * upper), self.q)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        return 0.5 * _lq_norm(dual_norms, self.q / (self.q - 1.0)) ** 2

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        norms = np.abs(as_vector(norms))
        return ratio_or_zero(norms, self.kernel_weights(norms))

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        return ratio_or_zero(1.0, self.kernel_weights(norms), np.inf)

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        magnitudes: np.ndarray = np.abs(as_vector(norms))
        total = _lq_norm(magnitudes, self.q)
        return np.zeros_like(magnitudes) if total == 0.0 else (magnitudes / total) ** (2.0 - self.q)


class ElasticNetWeights(Regularizer):
    r"""MKL with an elastic-net constraint on the kernel weights (Citi 2015; Yang et al. 2011).

    .. math:: \psi(b) = \min_d \Bigl\{ \tfrac12 \sum_k b_k^2 / d_k :\
              d \ge 0,\ \eta \|d\|_1 + (1 - \eta) \|d\|_2^2 \le 1 \Bigr\}

    Parameters
    ----------
    eta : float in [0, 1]
        1 is the lasso constraint, the same as :class:`~omkl.regularizers.SquaredL21`; 0 the Euclidean ball, the same
        as :class:`SquaredLq` with q = 4/3.

    >>> ElasticNetWeights(eta=1.0).kernel_weights([3.0, 1.0])
    array([0.75, 0.25])
    """

    aliases = {"elastic-net-weights": {}}
    least_at_one_group = True

    def __init__(self, eta: float = 0.5) -> None:
        if not 0 <= eta <= 1:
            raise InputError(f"eta must lie in [0, 1], not {eta!r}.")
        self.eta = float(eta)
        self.weight_set = "simplex" if eta == 1 else "elastic-net"
        self.is_sparse = self.eta > 0

    def value(self, norms: ArrayLike) -> float:
        weights = self.kernel_weights(norms)
        return 0.5 * float(np.sum(as_vector(norms)[weights > 0] ** 2 / weights[weights > 0]))

    def prox(self, norms: ArrayLike, step: float) -> np.ndarray:
        norms = as_vector(norms)
        weights = self._weights_of_prox(np.abs(norms), step)
        return norms.copy() if weights is None else norms * weights / (weights + step)

    def _weights_of_prox(self, norms: np.ndarray, step: float) -> np.ndarray | None:
        """The best weights around a proximal step: they minimise ``sum b^2 t / (d + t)`` over the set.

        With a multiplier ``1/m`` of the constraint they solve ``(t + d)^2 (eta + 2 (1 - eta) d) = m t b^2``.
        """
        scale = norms.max(initial=0.0)
        if scale == 0.0 or step == 0.0:
            return None
        return weights_of_elastic_net_prox((norms / scale) ** 2, step, self.eta)

    def conjugate(self, dual_norms: ArrayLike) -> float:
        squares = as_vector(dual_norms) ** 2
        return 0.5 * float(squares @ best_linear_weights(squares, self.eta))

    def slopes(self, norms: ArrayLike) -> np.ndarray:
        norms = np.abs(as_vector(norms))
        return ratio_or_zero(norms, self.kernel_weights(norms))

    def reciprocal_weights(self, norms: ArrayLike) -> np.ndarray:
        return ratio_or_zero(1.0, self.kernel_weights(norms), np.inf)

    def kernel_weights(self, norms: ArrayLike) -> np.ndarray:
        return best_reciprocal_weights(np.abs(as_vector(norms)), self.eta)


def best_reciprocal_weights(norms: np.ndarray, eta: float, tol: float = 1e-13, max_iter: int = 10_000) -> np.ndarray:
    r"""The weights in the elastic-net set with the least :math:`\sum_k b_k^2 / \theta_k` (Citi, Algorithm 2).

    Update (13a), preceded by update (21) where ``eta < 0.25``. Groups whose norm is negligible get no weight: there
    the algorithm as printed divides 0 by 0. The bound (20) holds after an update (13a) only.
    """
    weights = np.zeros_like(norms)
    scale = norms.max(initial=0.0)
    if scale == 0.0:
        return weights
    alive = norms > NEGLIGIBLE * scale
    b = norms[alive] / scale
    x = b.copy()
    for _ in range(max_iter):
        if eta < 0.25:
            x = np.cbrt(x * b**2 / _slope(x, eta))
        x = b / np.sqrt(_slope(x, eta))
        size = _size(x, eta)
        if size / np.sum(b**2 / x) - 1.0 < tol:
            break
    weights[alive] = x / size
    return weights


def _size(x: np.ndarray, eta: float) -> float:
    """``s(x)`` (Citi, Eq. 10), the norm whose unit ball is the elastic-net set."""
    return 0.5 * eta * x.sum() + np.sqrt((0.5 * eta * x.sum()) ** 2 + (1 - eta) * (x @ x))


def _slope(x: np.ndarray, eta: float) -> np.ndarray:
    """The gradient of ``s`` at x > 0 (Citi, Eq. 13b)."""
    half = 0.5 * eta
    root = np.sqrt((half * x.sum()) ** 2 + (1 - eta) * (x @ x))
    return half + (half**2 * x.sum() + (1 - eta) * x) / root


def best_linear_weights(u: np.ndarray, eta: float) -> np.ndarray:
    r"""The weights in the elastic-net set with the largest :math:`u^\top \theta`, for ``u >= 0`` (Citi, Algorithm 3).

    The radius counts the coordinates that are still alive, as the paper's text says and its listing does not.
    """
    weights = np.zeros_like(u)
    if u.max(initial=0.0) == 0.0:
        return weights
    if eta == 1.0:
        weights[np.argmax(u)] = 1.0
        return weights
    offset = eta / (2 - 2 * eta)
    alive = np.flatnonzero(u > 0)
    while True:
        direction = u[alive] / u.max()
        radius = np.sqrt(len(alive) * offset**2 + 2 * offset + 1)
        point = radius * direction / np.linalg.norm(direction) - offset
        if point.min() >= 0:
            weights[alive] = point
            return weights
        alive = alive[point > 0]


def _lq_norm(vector: ArrayLike, q: float) -> float:
    magnitudes = np.abs(vector)
    largest = magnitudes.max(initial=0.0)
    return 0.0 if largest == 0.0 else float(largest * np.sum((magnitudes / largest) ** q) ** (1.0 / q))
