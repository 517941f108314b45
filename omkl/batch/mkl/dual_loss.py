r"""The dual of the loss as smooth functions of bounded variables: what an interior-point Newton method can minimise.

:math:`l^*(y_i, -\rho_i)` may end at a bound with a finite slope (hinge, squared hinge, Huber) or have a kink at 0
(epsilon-insensitive). A bound gets a logarithmic barrier; a kink splits :math:`\rho_i = x^+_i - x^-_i` into two bounded
variables, each with a smooth function. Where the slope at a bound is infinite (logistic) the loss is its own barrier.
"""

import numpy as np


class DualLoss:
    r"""The conjugate loss of all samples as :math:`\sum_p \phi_p(x_p)` with :math:`\rho = \sum_p s_p x_p`.

    Arrays of variables have shape (P, N): P = 1 without kinks, P = 2 with them.

    Parameters
    ----------
    loss : PointwiseLoss
    y : array of shape (N,)
    """

    def __init__(self, loss, y):
        self.loss, self.y = loss, y
        low, high = (np.asarray(bound, dtype=np.float64) for bound in loss.domain(y))
        if _has_kink(loss, y, low, high):
            self.signs = np.array([[1.0], [-1.0]])
            self.low, self.high = np.zeros((2, len(y))), np.vstack([high, -low])
        else:
            self.signs = np.array([[1.0]])
            self.low, self.high = low[None], high[None]
        # a bound needs a barrier where it is finite and the slope there is, too
        self.barred_low = np.isfinite(self.low) & np.isfinite(self._slope_at(self.low))
        self.barred_high = np.isfinite(self.high) & np.isfinite(self._slope_at(self.high))
        self.n_barred = int(self.barred_low.sum() + self.barred_high.sum())

    def _slope_at(self, bound):
        with np.errstate(all="ignore"):
            return self.gradient(np.where(np.isfinite(bound), bound, 0.0))

    def _each(self, function, x):
        return np.array([function(self.y, sign * part) for sign, part in zip(self.signs[:, 0], x)])

    def value(self, x):
        """Sum of the functions at ``x``."""
        return float(self._each(self.loss.conjugate, x).sum())

    def gradient(self, x):
        """Derivative in each variable."""
        return self.signs * self._each(self.loss.conjugate_gradient, x)

    def curvature(self, x):
        """Second derivative in each variable; finite also where a variable is so near a bound that it overflows."""
        with np.errstate(over="ignore", divide="ignore"):
            return np.minimum(self._each(self.loss.conjugate_curvature, x), 1e250)

    def strictly_inside(self, x):
        """The variables, off their bounds by a rounding error where rounding has put them there."""
        return np.clip(x, np.nextafter(self.low, np.inf) + 1e-300, np.nextafter(self.high, -np.inf) - 1e-300)

    def rho(self, x):
        """The dual point of the variables."""
        return (self.signs * x).sum(axis=0)

    def interior(self, rho, balanced):
        r"""Variables strictly inside their bounds, near :math:`\rho`; on request with :math:`\sum_i \rho_i = 0`."""
        width = np.where(np.isfinite(self.high - self.low), self.high - self.low, np.inf)
        margin = np.minimum(0.05 * width, 0.05 * max(float(np.abs(rho).max()), 1e-3))
        low, high = (self.signs * bound for bound in (self.low + margin, self.high - margin))
        rho = np.clip(rho, np.minimum(low, high).min(axis=0), np.maximum(low, high).max(axis=0))
        if balanced:
            # what is strictly inside stays so, as balancing only moves values towards 0
            rho = self.loss.balanced(self.y, rho)
        return rho[None] if len(self.signs) == 1 else np.maximum(self.signs * rho, 0.0) + 0.5 * margin.min(axis=0)


def _has_kink(loss, y, low, high):
    """Whether the conjugate's slope jumps at 0 strictly inside the domain."""
    inside = (low < 0) & (high > 0)
    if not inside.any():
        return False
    tiny = np.full(len(y), 1e-9)
    jump = loss.conjugate_gradient(y, tiny) - loss.conjugate_gradient(y, -tiny)
    curvature = np.maximum(loss.conjugate_curvature(y, tiny), loss.conjugate_curvature(y, -tiny))
    return bool(np.any((jump > 1e-6 + 4e-9 * curvature)[inside]))
