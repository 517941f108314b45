r"""Dual norms of the groups of a design; groups that cannot violate the constraints are skipped.

From norms that are known at a point :math:`\rho_0` follow bounds at any other. With
:math:`\rho = \beta \rho_0 + \delta` and :math:`\delta` orthogonal to :math:`\rho_0`

.. math:: \|A_g^\top \rho\| \le |\beta|\, \|A_g^\top \rho_0\| + \|A_g\|_F\, \|\delta\|.

Groups whose bound fulfils the dual constraint play no part in a certificate, whatever their norm.
"""

from copy import copy
from typing import Any

import numpy as np

from omkl.batch.design.problem import DesignProblem

#: Part of the groups in doubt from which on all are computed anew.
MANY = 0.5
#: Columns seldom point along :math:`\delta`: the share of their norm that a guess allows for. The cosine between a
#: random column and a direction is of the order of 1 over the root of the number of samples: here 0.03 for 1024.
COSINE = 0.15
#: Rounding, which bounds must allow for: relative, in double and in single precision.
SAFETY = {8: 1.0 + 1e-9, 4: 1.0 + 1e-4}


class DesignNorms:
    """Norms of all groups at the dual points of a search.

    Parameters
    ----------
    problem : DesignProblem

    Attributes
    ----------
    passes : float
        Columns that products were computed with so far, in units of all columns.
    """

    def __init__(self, problem: DesignProblem) -> None:
        self._problem, self.passes = problem, 0.0
        self._origin: Any = None
        self._at_origin: Any = None
        self._reaches: Any = None

    def of(self, problem: DesignProblem) -> "DesignNorms":
        """What is known here, for a problem with the same design and groups."""
        same = copy(self)
        same._problem, same.passes = problem, 0.0
        return same

    def sure(self, rho: np.ndarray) -> np.ndarray:
        """Norms of all groups (g,): exact where the constraint is violated, else perhaps bounds that fulfil it."""
        bounds = self._bounds(rho, 1.0)
        if bounds is None:
            return self._compute(rho)
        doubtful = self._violating(bounds, self._problem.alpha)
        if len(doubtful) > MANY * len(bounds):
            return self._compute(rho)
        bounds[doubtful] = self._compute_some(doubtful, rho)
        return bounds

    def likely(self, rho: np.ndarray, alpha: float) -> np.ndarray | None:
        """Norms of all groups (g,): exact where they may well violate the constraint with that alpha, else guesses.

        None where most of them may: then all are worth computing.
        """
        guesses = self._bounds(rho, COSINE)
        if guesses is None:
            return None
        doubtful = self._violating(guesses, alpha)
        if len(doubtful) > MANY * len(guesses):
            return None
        guesses[doubtful] = self._compute_some(doubtful, rho)
        return guesses

    def _violating(self, norms: np.ndarray, alpha: float) -> np.ndarray:
        return np.flatnonzero(norms > alpha * self._problem.threshold)

    def _bounds(self, rho: np.ndarray, cosine: float) -> np.ndarray | None:
        """Bounds of all norms, with that share of the groups' reach; None where nothing is known."""
        if self._origin is None:
            return None
        share = (rho @ self._origin) / (self._origin @ self._origin)
        left = np.linalg.norm(rho - share * self._origin)
        safety = SAFETY[self._problem.design.matrix.dtype.itemsize]
        return safety * (abs(share) * self._at_origin + (cosine * left) * self._reaches)

    def _compute(self, rho: np.ndarray) -> np.ndarray:
        """All norms: a pass over the design."""
        problem = self._problem
        self.passes += 1.0
        if not problem.design.selective:
            return problem.groups.dual_norms(problem.design.correlations(rho))
        if self._reaches is None:
            found, norms = problem.design.correlations_and_norms(rho)
            self._reaches = problem.groups.dual_norms(norms)
        else:
            found = problem.design.correlations(rho)
        self._at_origin = problem.groups.dual_norms(found)
        self._origin = rho if rho.any() else None
        return self._at_origin.copy()

    def _compute_some(self, groups: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """Norms of those groups."""
        problem = self._problem
        columns, blocks = problem.groups.columns_of(groups)
        self.passes += len(columns) / problem.design.shape[1]
        norms = blocks.norms(problem.design.some_correlations(columns, rho))
        return norms if problem.groups.weights is None else norms / problem.groups.weights[groups]
