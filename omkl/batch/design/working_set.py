"""The working set of a design: some of its columns in double precision, with their inner products; it grows."""

from typing import Any

import numpy as np
from scipy import sparse

from omkl.batch.design._jit_columns import dense_combination
from omkl.batch.design._jit_sweeps import LARGEST_BASIS
from omkl.batch.design.blocks import Blocks
from omkl.batch.design.inner_products import InnerProducts
from omkl.batch.design.problem import DesignProblem, LinearModel

#: Room of a working set that grows, as a multiple of its columns: memory that is not written to is none.
ROOM = 4
#: Share of the columns from which on a product with all of them is cheaper than a copy of the active ones.
COPIED = 0.3


class Eigenbases:
    r"""Eigenvectors and eigenvalues of the groups' :math:`B_g^\top \mathrm{diag}(h) B_g`, found as sweeps need them.

    Attributes
    ----------
    vectors, offsets : arrays
        All eigenvectors, and where those of each group begin; those of single columns and of very large groups are
        left out.
    values : array of shape (k,)
    is_known : bool array of shape (g,)
    """

    def __init__(self) -> None:
        self.vectors, self.offsets, self.values = np.empty(0), np.zeros(1, dtype=np.int64), np.empty(0)
        self.is_known = np.empty(0, dtype=bool)
        self._weights: Any = None

    def extend(self, sizes: np.ndarray) -> None:
        """Make room for groups of these sizes."""
        stored = np.where((sizes > 1) & (sizes <= LARGEST_BASIS), sizes**2, 0)
        self.vectors = np.concatenate([self.vectors, np.empty(stored.sum())])
        self.offsets = np.concatenate([self.offsets, self.offsets[-1] + np.cumsum(stored)])
        self.values = np.concatenate([self.values, np.empty(sizes.sum())])
        self.is_known = np.concatenate([self.is_known, np.zeros(len(sizes), dtype=bool)])

    def weigh(self, weights: np.ndarray) -> None:
        """Let the weights h (m,) of samples be these: what was found for others is forgotten."""
        if self._weights is None or not np.array_equal(weights, self._weights):
            self._weights = weights
            self.is_known[:] = False


class WorkingSet:
    r"""Columns of some groups, divided by their groups' weights, so that every group weighs 1 here.

    With an intercept, dense columns are centered as well: :math:`Aw + b = (A - 1 \bar a^\top) w + b + \bar a^\top w`,
    and :math:`1^\top \rho = 0` leaves :math:`A^\top \rho` as it is. Otherwise columns far from 0 would be nearly
    collinear with the constant. Of all else that is not regularized they are made independent as well.

    Attributes
    ----------
    groups : int array of shape (g,)
    columns : int array of shape (k,)
    blocks : Blocks
    matrix : array (m, k) in Fortran order, or CSC matrix
    eigenbases : Eigenbases
    products : InnerProducts
    """

    def __init__(self, problem: DesignProblem) -> None:
        self._problem = problem
        m = problem.design.shape[0]
        self.groups = np.empty(0, dtype=np.int64)
        self.columns = np.empty(0, dtype=np.int64)
        self.blocks = Blocks(np.empty(0, dtype=np.int64))
        self.eigenbases, self.products = Eigenbases(), InnerProducts()
        self._scales = np.empty(0)
        self._free = problem.unpenalized
        #: What was subtracted from columns: their means, or parts (r, k) in the basis of what is not regularized.
        self._means = np.empty(0 if self._free is None else (self._free.basis.shape[1], 0))
        self.mixed = None if problem.groups.mixed is None else problem.groups.mixed_of(self.groups)
        self._store = np.empty((m, 0), order="F")
        self.matrix = self._store
        self._known = np.empty(0, dtype=np.int64)
        self._kept_at = np.empty(0, dtype=np.int64)
        self._gram = np.empty((0, 0))

    def is_of(self, problem: DesignProblem) -> bool:
        """Whether it holds what a working set of that problem would."""
        mine = self._problem
        return (mine.design, mine.groups, mine.intercept) == (problem.design, problem.groups, problem.intercept)

    def extend(self, groups: np.ndarray) -> None:
        """Bring in more groups, behind those that are there."""
        whole = self._problem.groups
        columns, _ = whole.columns_of(groups)
        self.groups = np.concatenate([self.groups, groups])
        self.blocks = Blocks(whole.blocks.sizes[self.groups])
        self.eigenbases.extend(whole.blocks.sizes[groups])
        self.columns = np.concatenate([self.columns, columns])
        scales = None
        if whole.mixed is not None:
            self.mixed = whole.mixed_of(self.groups)
        if whole.scales is not None:
            scales = np.repeat(whole.scales[groups], whole.blocks.sizes[groups])
            self._scales = np.concatenate([self._scales, scales])
        self._kept_at = np.concatenate([self._kept_at, np.full(len(columns), -1)])
        means = (self._append_sparse if self._problem.design.is_sparse else self._append_dense)(columns, scales)
        self._means = np.concatenate([self._means, means], axis=-1)

    def norms(self, w: np.ndarray) -> np.ndarray:
        """The norm of each group of coefficients w (k,), (g,)."""
        return self.blocks.norms(w) if self.mixed is None else self.mixed.norms(w)

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        """The dual norm of each group of correlations (k,), (g,)."""
        return self.blocks.norms(correlations) if self.mixed is None else self.mixed.dual_norms(correlations)

    def model(self, w: np.ndarray, b: Any) -> LinearModel:
        """The :class:`LinearModel` of the design's own columns, for those (k,) and the intercept of the working set."""
        support = np.flatnonzero(w)
        columns, values = self.columns[support], (w if not len(self._scales) else w / self._scales)[support]
        if self._free is None:
            intercept = float(b - self._means @ w)
        else:
            found = self._free.coefficients(b - self._free.basis @ (self._means @ w))
            intercept = float(found[0]) if self._problem.intercept else 0.0
            columns = np.concatenate([columns, self._problem.free_columns])
            values = np.concatenate([values, found[int(self._problem.intercept) :]])
        order = np.argsort(columns)
        return LinearModel(columns[order], values[order], intercept)

    def _append_sparse(self, columns: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
        """Append columns, divided by their scales; what was subtracted from them is 0."""
        found = self._problem.design.columns(columns)
        if scales is not None:
            found = (found @ sparse.diags_array(1.0 / scales)).tocsc()
        empty = self.matrix.shape[1] == 0
        self.matrix = found if empty else sparse.hstack([self.matrix, found], format="csc")
        return np.zeros((*self._means.shape[:-1], len(columns)))

    def _append_dense(self, columns: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
        """Append columns, divided by their scales; with an intercept their means are subtracted, and returned."""
        k = len(self.columns)
        if k > self._store.shape[1]:
            grown = np.empty((len(self._store), min(ROOM * k, self._problem.design.shape[1])), order="F")
            grown[:, : k - len(columns)] = self.matrix
            self._store = grown
        found = self._store[:, k - len(columns) : k]
        self._problem.design.fill(found, columns)
        if scales is not None:
            found /= scales
        means = np.zeros(len(columns))
        if self._free is not None:
            means = self._free.basis.T @ found
            found -= self._free.basis @ means
        elif self._problem.intercept:
            means = found.mean(axis=0)
            found -= means
        self.matrix = self._store[:, :k]
        return means

    def outputs(self, w: np.ndarray) -> np.ndarray:
        """Predictions of coefficients w (k,), without an intercept."""
        support = np.flatnonzero(w)
        if sparse.issparse(self.matrix):
            return self.matrix @ w if len(support) > COPIED * len(w) else self.matrix[:, support] @ w[support]
        return dense_combination(self.matrix.T, support, w)

    def correlations(self, points: np.ndarray) -> np.ndarray:
        """Products of all columns with several points (P, m), (P, k): the matrix is read once."""
        return points @ self.matrix if len(points) > 1 else (self.matrix.T @ points[0])[None]

    @property
    def mean_square(self) -> float:
        """Mean of the squared norms of the columns; 1 where all are zero."""
        entries = self.matrix.data if sparse.issparse(self.matrix) else self.matrix
        return float(np.linalg.norm(entries)) ** 2 / max(len(self.columns), 1) or 1.0

    def scaled(self, coefficients: np.ndarray) -> np.ndarray:
        """Coefficients of the working set from those of the design's columns."""
        return coefficients if not len(self._scales) else coefficients * self._scales

    def unscaled(self, correlations: np.ndarray) -> np.ndarray:
        """Correlations of the design's columns from those (p,) of the first columns here; of balanced dual points."""
        return correlations if not len(self._scales) else correlations * self._scales[: len(correlations)]

    def gram(self, active: np.ndarray, weights: np.ndarray, columns: Any) -> np.ndarray:
        r""":math:`B^\top \mathrm{diag}(h) B` of the active columns B, with weights (m,) >= 0 of the samples, (a, a)."""
        if np.all(weights == weights[0]):
            return weights[0] * self._plain_gram(active)
        if sparse.issparse(columns):
            return (columns.T @ (sparse.diags_array(weights) @ columns)).toarray()
        half = columns * np.sqrt(weights)[:, None]
        return half.T @ half

    def _plain_gram(self, active: np.ndarray) -> np.ndarray:
        """Without weights; the inner products of all columns that were ever active are kept."""
        new = active[self._kept_at[active] < 0]
        if len(new):
            known = len(self._known)
            self._known = np.concatenate([self._known, new])
            self._kept_at[new] = np.arange(known, len(self._known))
            grown = np.empty((len(self._known), len(self._known)))
            grown[:known, :known] = self._gram
            strip = _dense(self.matrix[:, self._known].T @ self.matrix[:, new])
            grown[:, known:] = strip
            grown[known:, :known] = strip[:known].T
            self._gram = grown
        kept = self._kept_at[active]
        return self._gram[kept][:, kept]


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix
