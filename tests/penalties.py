"""A regularizer as users write one."""

import math

import numpy as np

from omkl.regularizers import Regularizer


class OwnPenalty(Regularizer):
    """A sum over groups of a function of the norm, given with its derivative."""

    separable = differentiable_prox = True

    def __init__(self, psi, derivative, dual_radius=math.inf):
        self.psi, self.derivative, self.dual_radius = psi, derivative, dual_radius
        self.slope_at_zero = float(derivative(np.zeros(1))[0])
        self.is_sparse, self.smooth_conjugate = self.slope_at_zero > 0, math.isinf(dual_radius)

    def value(self, norms):
        with np.errstate(over="ignore"):
            return float(np.sum(self.psi(np.abs(norms))))

    def slopes(self, norms):
        with np.errstate(over="ignore"):
            return self.derivative(np.asarray(norms, dtype=np.float64))
