r"""Screening of groups: dual norms, or bounds of them that are good enough.

Correlations that are known at a few points :math:`\rho_1, \ldots, \rho_K` give bounds at any other. With
:math:`\rho = \sum_k \beta_k \rho_k + \delta` and :math:`\delta` orthogonal to all of them

.. math:: \|A_g^\top \rho\| \le \Bigl\|\sum_k \beta_k A_g^\top \rho_k\Bigr\| + \|A_g\|_F\, \|\delta\|.

On a path, where solutions follow nearly straight lines, :math:`\delta` is small. The certificate does not need the norm
of a group whose bound fulfils the dual constraint.
"""

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from omkl.batch.group_lasso.problem import DesignProblem

#: Points at which correlations are kept.
MOST_ORIGINS = 3
#: Share of doubtful groups from which on all norms are computed.
MANY = 0.5
#: Share of columns from which on those that are known are not computed again.
WORTH = 0.1
#: Cosine between columns and :math:`\delta` that a guess allows for. For random columns it is about 1 over the root of
#: the number of samples.
COSINE = 0.15
#: Factor of bounds for rounding, in double and in single precision.
SAFETY = {8: 1.0 + 1e-9, 4: 1.0 + 1e-4}


class Known(NamedTuple):
    """Dual norms of groups and correlations of columns that a working set knows, in double precision."""

    groups: np.ndarray
    dual_norms: np.ndarray
    columns: np.ndarray
    #: Of the first columns: the others are new.
    correlations: np.ndarray


NOTHING = Known(np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0))


class DesignNorms:
    """Norms of all groups at the dual points of a search.

    Parameters
    ----------
    problem : DesignProblem

    Attributes
    ----------
    passes : float
        Products computed so far, divided by the number of columns.
    """

    def __init__(self, problem: DesignProblem) -> None:
        self._problem, self.passes = problem, 0.0
        self._origins: list[np.ndarray] = []
        self._at_origins: list[np.ndarray] = []
        self._reaches: Any = None
        self._near: Any = None

    def of(self, problem: DesignProblem) -> "DesignNorms":
        """Return the same for another problem with this design and these groups."""
        same = copy(self)  # its lists are replaced, not changed
        same._problem, same.passes = problem, 0.0
        return same

    def sure(self, rho: np.ndarray, known: Known = NOTHING) -> np.ndarray:
        """Return norms of all groups (g,): exact where they violate the constraint, else perhaps bounds."""
        if len(known.groups) == self._problem.groups.n_groups:
            found = np.empty(len(known.groups))
            found[known.groups] = known.dual_norms
            return found
        found = self._found(self._bounds(rho, 1.0), self._problem.alpha, rho, known)
        return self._compute(rho, known) if found is None else found

    def likely(self, rho: np.ndarray, alpha: float, known: Known = NOTHING) -> np.ndarray | None:
        """Return norms of all groups (g,): exact where they may well violate the constraint at alpha, else guesses.

        None where most of them may.
        """
        return self._found(self._bounds(rho, COSINE), alpha, rho, known)

    def _found(self, bounds: np.ndarray | None, alpha: float, rho: np.ndarray, known: Known) -> np.ndarray | None:
        """Return bounds, or norms where the bounds violate the constraint; None where most of them do."""
        if bounds is None:
            return None
        bounds[known.groups] = 0.0
        doubtful = np.flatnonzero(bounds > alpha * self._problem.threshold)
        if len(doubtful) > MANY * (len(bounds) - len(known.groups)):
            return None
        bounds[doubtful] = self._compute_some(doubtful, rho)
        bounds[known.groups] = known.dual_norms
        return bounds

    def _bounds(self, rho: np.ndarray, cosine: float) -> np.ndarray | None:
        """Return bounds of all norms for a cosine between columns and the rest; None where nothing is known."""
        if not self._origins:
            return None
        if self._near is None or self._near[0] is not rho:
            self._near = rho, *self._near_origins(rho)
        _, near, left, rounding = self._near
        return near + (cosine * left) * self._reaches + rounding

    def _near_origins(self, rho: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """Return norms at the closest combination of known points, the distance from it, and the rounding."""
        origins = np.array(self._origins).T
        # any shares give a bound; large ones, of points that are nearly the same, would fit rounding
        products = origins.T @ origins
        products[np.diag_indices_from(products)] *= 1.0 + 1e-10
        shares = np.linalg.solve(products, origins.T @ rho)
        left = np.linalg.norm(rho - origins @ shares)
        safety = SAFETY[self._problem.design.matrix.dtype.itemsize]
        near = self._problem.groups.dual_norms(sum(share * found for share, found in zip(shares, self._at_origins)))
        rounding = (safety - 1.0) * float(np.abs(shares) @ np.linalg.norm(origins, axis=0))
        return safety * near, safety * float(left), rounding * self._reaches

    def _compute(self, rho: np.ndarray, known: Known = NOTHING) -> np.ndarray:
        """Compute all norms: a pass over the design, or over the columns that are not known."""
        problem = self._problem
        found = self._correlations(rho, known)
        if problem.design.selective and rho.any():
            self._origins = [*self._origins, rho][-MOST_ORIGINS:]
            self._at_origins = [*self._at_origins, found][-MOST_ORIGINS:]
            self._near = None
        norms = problem.groups.dual_norms(found)
        norms[known.groups] = known.dual_norms
        return norms

    def _correlations(self, rho: np.ndarray, known: Known) -> np.ndarray:
        """Compute the correlations of all columns."""
        problem, n_known = self._problem, len(known.correlations)
        self.passes += 1.0
        if problem.design.selective and self._reaches is None:
            found, norms = problem.design.correlations_and_norms(rho)
            self._reaches = problem.groups.dual_norms(norms)
            return found
        found, n_columns = np.empty(problem.design.shape[1]), problem.design.shape[1]
        if not problem.design.selective or problem.n_outputs > 1 or n_known < WORTH * n_columns:
            return problem.design.correlations(rho)
        columns = known.columns[:n_known]
        is_known = np.zeros(n_columns, dtype=bool)
        is_known[columns] = True
        others = np.flatnonzero(~is_known)
        self.passes -= n_known / n_columns
        found[columns], found[others] = known.correlations, problem.design.some_correlations(others, rho)
        return found

    def _compute_some(self, groups: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """Compute the norms of some groups."""
        problem = self._problem
        columns, blocks = problem.groups.columns_of(groups)
        self.passes += len(columns) / problem.design.shape[1]
        return problem.groups.dual_norms_of(groups, blocks, problem.design.some_correlations(columns, rho))
