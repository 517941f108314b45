r"""Screening of groups: dual norms, or bounds of them that are good enough.

Correlations that are known at a few points :math:`\rho_1, \ldots, \rho_K` give bounds at any other. With
:math:`\rho = \sum_k \beta_k \rho_k + \delta` and :math:`\delta` orthogonal to all of them

.. math:: \|A_g^\top \rho\| \le \Bigl\|\sum_k \beta_k A_g^\top \rho_k\Bigr\| + \|A_g\|_F\, \|\delta\|.

On a path, where solutions follow nearly straight lines, :math:`\delta` is small. The certificate does not need the norm
of a group whose bound fulfils the dual constraint.
"""

from copy import copy

import numpy as np

from omkl.batch.group_lasso.problem import DesignProblem

#: Points at which correlations are kept.
MOST_ORIGINS = 3
#: Share of doubtful groups from which on all norms are computed.
MANY = 0.5
#: Factor of bounds for rounding, in double and in single precision.
SAFETY = {8: 1.0 + 1e-9, 4: 1.0 + 1e-4}


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
        #: Norms of the groups' columns.
        self._reaches: np.ndarray | None = None

    def of(self, problem: DesignProblem) -> "DesignNorms":
        """Return the same for another problem with this design and these groups."""
        same = copy(self)  # its lists are replaced, not changed
        same._problem, same.passes = problem, 0.0
        return same

    def at(self, rho: np.ndarray, groups: np.ndarray, known: np.ndarray) -> np.ndarray:
        """Return norms of all groups (g,): exact where they violate the constraint, else perhaps bounds.

        Parameters
        ----------
        rho : array of shape (m,)
        groups, known : arrays of shape (k,)
            Groups whose norms are known, and these.
        """
        problem, bounds = self._problem, None
        if self._reaches is not None and len(groups) < problem.groups.n_groups:
            bounds = self._bounds(rho, self._reaches)
            bounds[groups] = 0.0
            doubtful = np.flatnonzero(bounds > problem.alpha * problem.threshold)
            if len(doubtful) <= MANY * (len(bounds) - len(groups)):
                bounds[doubtful] = self._compute_some(doubtful, rho)
            else:
                bounds = None
        if bounds is None:
            bounds = np.empty(len(groups)) if len(groups) == problem.groups.n_groups else self._compute(rho)
        bounds[groups] = known
        return bounds

    def _bounds(self, rho: np.ndarray, reaches: np.ndarray) -> np.ndarray:
        """Return bounds of all norms, from the closest combination of known points."""
        origins = np.array(self._origins).T
        # any shares give a bound; large ones, of points that are nearly the same, would fit rounding
        products = origins.T @ origins
        products[np.diag_indices_from(products)] *= 1.0 + 1e-10
        shares = np.linalg.solve(products, origins.T @ rho)
        left = float(np.linalg.norm(rho - origins @ shares))
        safety = SAFETY[self._problem.design.matrix.dtype.itemsize]
        near = self._problem.groups.dual_norms(shares @ np.array(self._at_origins))
        rounding = (safety - 1.0) * float(np.abs(shares) @ np.linalg.norm(origins, axis=0))
        return safety * near + (safety * left + rounding) * reaches

    def _compute(self, rho: np.ndarray) -> np.ndarray:
        """Compute all norms: a pass over the design."""
        problem, design = self._problem, self._problem.design
        self.passes += 1.0
        if not design.selective or not rho.any():
            return problem.groups.dual_norms(design.correlations(rho))
        if self._reaches is None:
            found, norms = design.correlations_and_norms(rho)
            self._reaches = problem.groups.dual_norms(norms)
        else:
            found = design.correlations(rho)
        self._origins = [*self._origins, rho][-MOST_ORIGINS:]
        self._at_origins = [*self._at_origins, found][-MOST_ORIGINS:]
        return problem.groups.dual_norms(found)

    def _compute_some(self, groups: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """Compute the norms of some groups."""
        problem = self._problem
        columns, blocks = problem.groups.columns_of(groups)
        self.passes += len(columns) / problem.design.shape[1]
        found = problem.design.some_correlations(columns, rho)
        return problem.groups.gauge.of(groups, blocks).dual_norms(found)
