r"""The dual of the loss as smooth functions of bounded variables: what an interior-point Newton method can minimise.

:math:`l^*(y_i, -\rho_i)` may end at a bound with a finite slope (hinge, squared hinge, Huber), with an infinite one
(logistic), or have a kink at 0 (epsilon-insensitive). Every bound gets a logarithmic barrier: an infinite slope alone
lets Newton steps sink so near to a bound that it takes hundreds to come back. A kink splits
:math:`\rho_i = x^+_i - x^-_i` into two bounded variables, each with a smooth function.
"""

from collections.abc import Callable

import numpy as np

from omkl.batch.core.weighted_loss import WeightedLoss


class DualLoss:
    r"""The conjugate loss of all samples as :math:`\sum_p \phi_p(x_p)` with :math:`\rho = \sum_p s_p x_p`.

    Arrays of variables have shape (P, N): P = 1 without kinks, P = 2 with them.

    Parameters
    ----------
    loss : WeightedLoss
    """

    def __init__(self, loss: WeightedLoss) -> None:
        self.loss = loss
        low, high = loss.domain()
        if loss.loss.has_dead_zone:
            self.signs = np.array([[1.0], [-1.0]])
            self.low, self.high = np.zeros((2, len(low))), np.vstack([high, -low])
        else:
            self.signs = np.array([[1.0]])
            self.low, self.high = low[None], high[None]
        self.barred_low, self.barred_high = np.isfinite(self.low), np.isfinite(self.high)
        self.n_barred = int(self.barred_low.sum() + self.barred_high.sum())

    def _each(self, function: Callable, x: np.ndarray) -> np.ndarray:
        return np.array([function(sign * part) for sign, part in zip(self.signs[:, 0], x)])

    def value(self, x: np.ndarray) -> float:
        """Sum of the functions at ``x``."""
        return float(self._each(self.loss.conjugates, x).sum())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Derivative in each variable."""
        return self.signs * self._each(self.loss.conjugate_gradient, x)

    def curvature(self, x: np.ndarray) -> np.ndarray:
        """Second derivative in each variable; finite also where a variable is so near a bound that it overflows."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.minimum(self._each(self.loss.conjugate_curvature, x), 1e250)

    def strictly_inside(self, x: np.ndarray) -> np.ndarray:
        """The variables, off their bounds by a rounding error where rounding has put them there."""
        return np.clip(x, np.nextafter(self.low, np.inf) + 1e-300, np.nextafter(self.high, -np.inf) - 1e-300)

    def rho(self, x: np.ndarray) -> np.ndarray:
        """The dual point of the variables."""
        return (self.signs * x).sum(axis=0)

    def interior(self, rho: np.ndarray, balanced: bool) -> np.ndarray:
        r"""Variables strictly inside their bounds, near :math:`\rho`; on request with :math:`\sum_i \rho_i = 0`."""
        units = self.loss.weights
        width = np.where(np.isfinite(self.high - self.low), self.high - self.low, np.inf)
        margin = np.minimum(0.05 * width, 0.05 * units * max(float(np.abs(rho / units).max()), 1e-3))
        low, high = (self.signs * bound for bound in (self.low + margin, self.high - margin))
        rho = np.clip(rho, np.minimum(low, high).min(axis=0), np.maximum(low, high).max(axis=0))
        if balanced:
            # what is strictly inside stays so, as balancing only moves values towards 0
            rho = self.loss.balanced(rho)
        return rho[None] if len(self.signs) == 1 else np.maximum(self.signs * rho, 0.0) + 0.5 * margin.min(axis=0)
