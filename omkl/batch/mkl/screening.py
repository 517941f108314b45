r"""Screening of kernels: norms of a dual point, or bounds of them that are good enough.

:math:`\|\rho\|_K \le \|\rho_0\|_K + \sqrt{\lambda_{\max}(K)}\, \|\rho - \rho_0\|`, and the trace bounds the largest
eigenvalue. A kernel whose bound is below the threshold of the regularizer is inactive at :math:`\rho`; near the optimum
these are most kernels. Unlike bounds from the duality gap (Ndiaye et al. 2017), this one holds for losses with kinks.
"""

from typing import Any

import numpy as np

from omkl.batch.mkl.problem import Problem

#: Relative gap from which on a pass is remembered: before, the dual point moves too far.
TIGHT = 1e-3
#: Share of doubtful kernels from which on all norms are computed.
MANY = 0.3
#: No kernels.
NONE = np.arange(0)
#: Factor of bounds for the rounding of stored kernels.
SAFETY = 1.0 + 1e-6


class DualNorms:
    """Norms of dual points: exact for kernels that may be active, upper bounds for the others.

    Parameters
    ----------
    problem : Problem

    Attributes
    ----------
    passes : float
        Norms computed so far, divided by the number of kernels.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.passes = problem, 0.0
        self._origin: Any = None
        self._at_origin: Any = None
        self._reaches: Any = None

    def __call__(self, rho: np.ndarray, gap: float, which: np.ndarray = NONE, known: np.ndarray = NONE) -> np.ndarray:
        """Return norms of a dual point in all kernels, (M,).

        Parameters
        ----------
        rho : array of shape (N,)
        gap : float
            Relative gap that was reached before.
        which, known : arrays of shape (k,)
            Kernels whose norms are known, and these norms.
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
        """Return where norms are above the threshold of the proximity operator."""
        return self.problem.regularizer.prox(norms, 1.0) > 0

    def look(self, rho: np.ndarray, which: np.ndarray) -> np.ndarray:
        """Return the norms of ``rho`` in some kernels."""
        kernels = self.problem.kernels
        self.passes += len(which) / kernels.n_kernels
        return np.sqrt(kernels.quadratics(rho, which))
