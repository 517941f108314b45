r"""Norms of a dual point in all kernels, without looking at kernels of which a bound says enough.

:math:`\|\rho\|_K \le \|\rho_0\|_K + \sqrt{\lambda_{\max}(K)}\, \|\rho - \rho_0\|`, and the trace bounds the largest
eigenvalue. A kernel whose bound is below the threshold of the regularizer is inactive at :math:`\rho`, whatever its
norm; near the optimum, where :math:`\rho` hardly moves, these are most kernels. The bound holds for every loss, also
for those with kinks, for which the duality gap alone bounds nothing (as it does in Ndiaye et al. 2017).
"""

from typing import Any

import numpy as np

from omkl.batch.mkl.problem import Problem

#: Relative gap from which on a pass is worth remembering: further away the dual point moves too far.
TIGHT = 1e-3
#: Part of the kernels in doubt from which on all are looked at, and remembered, anew.
MANY = 0.3
#: No kernels.
NONE = np.arange(0)
#: Kernels are stored with rounding, which their bounds must allow for.
SAFETY = 1.0 + 1e-6


class DualNorms:
    """The norms, exact for each kernel that may matter, an upper bound for each that cannot.

    Parameters
    ----------
    problem : Problem

    Attributes
    ----------
    passes : float
        Kernels looked at so far, in units of all kernels.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.passes = problem, 0.0
        self._origin: Any = None
        self._at_origin: Any = None
        self._reaches: Any = None

    def __call__(self, rho: np.ndarray, gap: float, which: np.ndarray = NONE, known: np.ndarray = NONE) -> np.ndarray:
        """Norms of ``rho`` in all kernels (M,).

        ``gap`` is the relative gap that was reached before; in the kernels ``which`` the norms are ``known``.
        """
        if self._origin is not None:
            bounds = SAFETY * (self._at_origin + self._reaches * np.linalg.norm(rho - self._origin))
            bounds[which] = known
            doubtful = np.setdiff1d(np.flatnonzero(self.exceeds(bounds)), which)
            if len(doubtful) < MANY * len(bounds):
                bounds[doubtful] = self.look(rho, doubtful)
                return bounds
        norms = np.empty(self.problem.kernels.n_kernels)
        norms[which] = known
        others = np.setdiff1d(np.arange(len(norms)), which)
        norms[others] = self.look(rho, others)
        if gap < TIGHT:
            if self._reaches is None:
                self._reaches = np.sqrt(self.problem.kernels.traces())
            self._origin, self._at_origin = rho, norms.copy()
        return norms

    def exceeds(self, norms: np.ndarray) -> np.ndarray:
        """Where kernels with these norms may matter: above the threshold that the proximity operator has."""
        return self.problem.regularizer.prox(norms, 1.0) > 0

    def look(self, rho: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Norms of ``rho`` in some kernels, whatever bounds say."""
        kernels = self.problem.kernels
        self.passes += len(which) / kernels.n_kernels
        return np.sqrt(kernels.quadratics(rho, which))
