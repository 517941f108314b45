r"""Groups whose single coefficients count as well: sparse groups, and coefficients that are not negative.

.. math:: \Omega_g(w) = \omega_g \|w_g\| + l_g \|w_g\|_1

(on request infinite where a coefficient is negative) is a gauge, and so takes the place of the norm of a group
wherever problem and certificate ask for one: its polar takes that of the dual norm, which bounds follow by the
triangle inequality as well (Simon, Friedman, Hastie, Tibshirani 2013; Ndiaye, Fercoq, Gramfort, Salmon 2016).
"""

import numpy as np

from omkl.batch.design._jit_norms import mixed_dual_norms


class MixedNorms:
    r"""The gauges :math:`\Omega_g` of consecutive blocks of a vector.

    Parameters
    ----------
    sizes : int array of shape (g,)
    norm_weights, l1_weights : arrays of shape (g,)
        The :math:`\omega_g` and :math:`l_g`, both >= 0.
    positive : bool
        Whether coefficients must not be negative.
    """

    def __init__(self, sizes: np.ndarray, norm_weights: np.ndarray, l1_weights: np.ndarray, positive: bool) -> None:
        self.sizes, self.norm_weights, self.l1_weights, self.positive = sizes, norm_weights, l1_weights, positive
        self.ends = np.cumsum(sizes)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.ends - self.sizes) if len(self.ends) else np.zeros(0)

    def norms(self, w: np.ndarray) -> np.ndarray:
        r""":math:`\Omega_g` of each block."""
        values = self.norm_weights * np.sqrt(self._sums(w * w)) + self.l1_weights * self._sums(np.abs(w))
        if not self.positive:
            return values
        is_penalized = self.norm_weights + self.l1_weights > 0
        return np.where(is_penalized & (self._sums((w < 0).astype(np.float64)) > 0), np.inf, values)

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        r"""The polar of :math:`\Omega_g` at each block."""
        return mixed_dual_norms(correlations, self.ends, self.norm_weights, self.l1_weights, self.positive)

    def thresholded(self, v: np.ndarray, step: float) -> np.ndarray:
        """The proximity operator but for the norms: what single coefficients lose, or that are negative."""
        reach = np.repeat(step * self.l1_weights, self.sizes)
        magnitudes = np.maximum((v if self.positive else np.abs(v)) - reach, 0.0)
        return magnitudes if self.positive else np.copysign(magnitudes, v)
