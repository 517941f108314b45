r"""Dual norms of the groups of a design; groups that cannot violate the constraints are skipped.

From correlations that are known at a few points :math:`\rho_1, \ldots, \rho_K` follow bounds at any other. With
:math:`\rho = \sum_k \beta_k \rho_k + \delta` and :math:`\delta` orthogonal to all of them

.. math:: \|A_g^\top \rho\| \le \Bigl\|\sum_k \beta_k A_g^\top \rho_k\Bigr\| + \|A_g\|_F\, \|\delta\|.

Along a path, on which solutions follow nearly straight lines, :math:`\delta` is small. Groups whose
bound fulfils the dual constraint play no part in a certificate, whatever their norm.
"""

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from omkl.batch.design.problem import DesignProblem

#: Points at which correlations are kept.
MOST_ORIGINS = 3
#: Part of the groups that are not known, in doubt, from which on all are computed anew.
MANY = 0.5
#: Part of the columns from which on those that are known are not computed again.
WORTH = 0.1
#: Columns seldom point along :math:`\delta`: the share of their norm that a guess allows for. The cosine between a
#: random column and a direction is of the order of 1 over the root of the number of samples: here 0.03 for 1024.
COSINE = 0.15
#: Rounding, which bounds must allow for: relative, in double and in single precision.
SAFETY = {8: 1.0 + 1e-9, 4: 1.0 + 1e-4}


class Known(NamedTuple):
    """What a working set knows of a dual point, in double precision: dual norms of groups, correlations of columns."""

    groups: np.ndarray
    dual_norms: np.ndarray
    columns: np.ndarray
    #: Of the first of the columns: the others have just come in.
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
        Columns that products were computed with so far, in units of all columns.
    """

    def __init__(self, problem: DesignProblem) -> None:
        self._problem, self.passes = problem, 0.0
        self._origins: list[np.ndarray] = []
        self._at_origins: list[np.ndarray] = []
        self._reaches: Any = None
        self._near: Any = None

    def of(self, problem: DesignProblem) -> "DesignNorms":
        """What is known here, for a problem with the same design and groups."""
        same = copy(self)  # whose lists are replaced, not changed
        same._problem, same.passes = problem, 0.0
        return same

    def sure(self, rho: np.ndarray, known: Known = NOTHING) -> np.ndarray:
        """Norms of all groups (g,): exact where the constraint is violated, else perhaps bounds that fulfil it."""
        if len(known.groups) == self._problem.groups.n_groups:
            found = np.empty(len(known.groups))
            found[known.groups] = known.dual_norms
            return found
        found = self._found(self._bounds(rho, 1.0), self._problem.alpha, rho, known)
        return self._compute(rho, known) if found is None else found

    def likely(self, rho: np.ndarray, alpha: float, known: Known = NOTHING) -> np.ndarray | None:
        """Norms of all groups (g,): exact where they may well violate the constraint with that alpha, else guesses.

        None where most of them may: then all are worth computing.
        """
        return self._found(self._bounds(rho, COSINE), alpha, rho, known)

    def _found(self, bounds: np.ndarray | None, alpha: float, rho: np.ndarray, known: Known) -> np.ndarray | None:
        """The bounds, and the norms themselves where those violate the constraint; None where most of them do."""
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
        """Bounds of all norms, with that share of the groups' reach; None where nothing is known."""
        if not self._origins:
            return None
        if self._near is None or self._near[0] is not rho:
            self._near = rho, *self._near_origins(rho)
        _, near, left, rounding = self._near
        return near + (cosine * left) * self._reaches + rounding

    def _near_origins(self, rho: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """Norms at the closest combination of points that are known, the distance from it, and what rounding adds."""
        origins = np.array(self._origins).T
        # any shares give a bound: where points are all but one, large shares would fit rounding
        products = origins.T @ origins
        products[np.diag_indices_from(products)] *= 1.0 + 1e-10
        shares = np.linalg.solve(products, origins.T @ rho)
        left = np.linalg.norm(rho - origins @ shares)
        safety = SAFETY[self._problem.design.matrix.dtype.itemsize]
        near = self._problem.groups.dual_norms(sum(share * found for share, found in zip(shares, self._at_origins)))
        rounding = (safety - 1.0) * float(np.abs(shares) @ np.linalg.norm(origins, axis=0))
        return safety * near, safety * float(left), rounding * self._reaches

    def _compute(self, rho: np.ndarray, known: Known = NOTHING) -> np.ndarray:
        """All norms: a pass over the design, or over the columns that are not known."""
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
        """Those of all columns."""
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
        """Norms of those groups."""
        problem = self._problem
        columns, blocks = problem.groups.columns_of(groups)
        self.passes += len(columns) / problem.design.shape[1]
        return problem.groups.dual_norms_of(groups, blocks, problem.design.some_correlations(columns, rho))
