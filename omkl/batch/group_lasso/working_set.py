"""The working set of a design: some of its columns in double precision, with their inner products."""

from typing import Any

import numpy as np
from scipy import sparse

from omkl.batch.group_lasso._jit_columns import dense_combination
from omkl.batch.group_lasso._jit_sweeps import LARGEST_BASIS, Bases, Columns
from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.problem import DesignProblem, LinearModel

#: Room of a working set that grows, as a multiple of its columns: memory costs nothing until it is written.
ROOM = 4
#: Share of the columns from which on a product with all of them is cheaper than a copy of the active ones.
COPIED = 0.3


class Eigenbases:
    r"""Eigenvectors and eigenvalues of the groups' :math:`B_g^\top \mathrm{diag}(h) B_g`, found as sweeps need them.

    Attributes
    ----------
    arrays : Bases
        Single columns and very large groups have no eigenvectors.
    """

    def __init__(self) -> None:
        nothing = np.empty(0)
        self.arrays = Bases(nothing, np.zeros(1, dtype=np.int64), nothing, np.empty(0, dtype=bool))
        self._weights: np.ndarray | None = None

    def extend(self, sizes: np.ndarray) -> None:
        """Make room for groups of these sizes."""
        vectors, offsets, values, is_known = self.arrays
        stored = np.where((sizes > 1) & (sizes <= LARGEST_BASIS), sizes**2, 0)
        self.arrays = Bases(
            np.concatenate([vectors, np.empty(stored.sum())]),
            np.concatenate([offsets, offsets[-1] + np.cumsum(stored)]),
            np.concatenate([values, np.empty(sizes.sum())]),
            np.concatenate([is_known, np.zeros(len(sizes), dtype=bool)]),
        )

    def weigh(self, weights: np.ndarray) -> None:
        """Set the weights h (m,) of the samples; forget bases for other weights."""
        if self._weights is None or not np.array_equal(weights, self._weights):
            self._weights = weights
            self.arrays.is_known[:] = False


class InnerProducts:
    r""":math:`B^\top \mathrm{diag}(h) B` of a working set's columns B, with what is not regularized at its best.

    They grow with the working set, and stay while the weights h of samples are the same. Along a path of the squared
    loss all points share them (Friedman, Hastie and Tibshirani 2010, section 2.2).
    """

    def __init__(self) -> None:
        self._weights: np.ndarray | None = None
        #: Number of columns whose products are known, in the first rows and columns of a larger array.
        self.n_known, self._store = 0, np.empty((0, 0))

    def known(self, weights: np.ndarray) -> int:
        """Return of how many columns they are known for these weights."""
        return self.n_known if self._weights is not None and np.array_equal(self._weights, weights) else 0

    def of(self, matrix: Any, weights: np.ndarray, free: np.ndarray | None) -> np.ndarray:
        """Return an array whose first k rows and columns hold them.

        Parameters
        ----------
        matrix : array (m, k) in Fortran order, or CSC matrix
            B: as in the last call, with more columns behind those that were there.
        weights : array of shape (m,)
            h.
        free : array of shape (m, r) or None
            A basis of what is not regularized.
        """
        first, k = self.known(weights), matrix.shape[1]
        if k > len(self._store):
            grown = np.empty((max(k, min(2 * len(self._store), len(weights))),) * 2)
            grown[:first, :first] = self._store[:first, :first]
            self._store = grown
        if first < k:
            self._extend(matrix, first, weights, free)
        self._weights, self.n_known = weights, k
        return self._store

    def _extend(self, matrix: Any, first: int, weights: np.ndarray, free: np.ndarray | None) -> None:
        """Add the products of all columns with those from the first new one on."""
        new, uniform, size = matrix[:, first:], np.all(weights == weights[0]), matrix.shape[1]
        weighted = new if uniform else _times_rows(weights, new)
        strip = self._store[:size, first:size]
        strip[:first] = _dense(matrix[:, :first].T @ weighted)
        strip[first:] = _dense(new.T @ weighted)  # BLAS computes half of the product of a matrix with itself
        if uniform:
            strip *= weights[0]
        if free is not None and (sparse.issparse(matrix) or not uniform):
            weighted = weights[:, None] * free
            parts = np.asarray(matrix.T @ weighted)
            strip -= parts @ np.linalg.pinv(free.T @ weighted) @ parts[first:].T
        self._store[first:size, :first] = strip[:first].T


class WorkingSet:
    r"""Columns of some groups, divided by their groups' weights, so that every group has weight 1 here.

    With an intercept, dense columns are centred: :math:`Aw + b = (A - 1 \bar a^\top) w + b + \bar a^\top w`, and
    :math:`1^\top \rho = 0` leaves :math:`A^\top \rho` as it is. Otherwise columns far from 0 would be nearly collinear
    with the constant. They are made orthogonal to all else that is not regularized as well.

    Coefficients of K outputs are vectors (k K,), with those of one column side by side.

    Attributes
    ----------
    groups : int array of shape (g,)
    columns : int array of shape (k K,)
        Of the problem's design.
    blocks, column_blocks : Blocks
        The groups' coefficients, and their columns.
    matrix : array (m, k) in Fortran order, or CSC matrix
    eigenbases : Eigenbases
    products : InnerProducts
    mixed : MixedNorms or None
        Norms of the groups, where they are not Euclidean.
    """

    def __init__(self, problem: DesignProblem) -> None:
        self._problem, self._single, self.n_outputs = problem, problem.single, problem.n_outputs
        m = self._single.design.shape[0]
        self.groups = np.empty(0, dtype=np.int64)
        self._columns = np.empty(0, dtype=np.int64)
        self.columns = self._columns
        self.blocks = self.column_blocks = Blocks(np.empty(0, dtype=np.int64))
        self.eigenbases, self.products = Eigenbases(), InnerProducts()
        self._scales = np.empty(0)
        self._free = problem.unpenalized
        #: Means of the columns that were subtracted, or their parts (r, k) in the basis of what is not regularized.
        self._means = np.empty(0 if self._free is None else (self._free.basis.shape[1], 0))
        self.mixed = None if problem.groups.mixed is None else problem.groups.mixed_of(self.groups)
        self._store = np.empty((m, 0), order="F")
        self.matrix: Any = self._store
        self._ever_active = np.empty(0, dtype=np.int64)
        self._kept_at = np.empty(0, dtype=np.int64)
        self._gram = np.empty((0, 0))

    def is_of(self, problem: DesignProblem) -> bool:
        """Return whether a working set of that problem would hold the same."""
        mine = self._problem
        return (mine.design, mine.groups, mine.intercept) == (problem.design, problem.groups, problem.intercept)

    def extend(self, groups: np.ndarray) -> None:
        """Append groups."""
        whole = self._single.groups
        columns, added = whole.columns_of(groups)
        self.groups = np.concatenate([self.groups, groups])
        self.column_blocks = Blocks(whole.blocks.sizes[self.groups])
        self.blocks = self.column_blocks if self.n_outputs == 1 else Blocks(self.column_blocks.sizes * self.n_outputs)
        self.eigenbases.extend(added.sizes)
        self._columns = np.concatenate([self._columns, columns])
        self.columns = (self._columns[:, None] * self.n_outputs + np.arange(self.n_outputs)).ravel()
        if whole.mixed is not None:
            self.mixed = whole.mixed_of(self.groups)
        scales = None
        if whole.scales is not None:
            scales = np.repeat(whole.scales[groups], added.sizes)
            self._scales = np.concatenate([self._scales, scales])
        self._kept_at = np.concatenate([self._kept_at, np.full(len(columns), -1)])
        means = (self._append_sparse if self._single.design.is_sparse else self._append_dense)(columns, scales)
        self._means = np.concatenate([self._means, means], axis=-1)

    def _append_sparse(self, columns: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
        """Append columns, divided by their scales; return what was subtracted from them: 0."""
        found = self._single.design.columns(columns)
        if scales is not None:
            found = (found @ sparse.diags_array(1.0 / scales)).tocsc()
        self.matrix = sparse.hstack([self.matrix, found], format="csc") if self.matrix.shape[1] else found
        return np.zeros((*self._means.shape[:-1], len(columns)))

    def _append_dense(self, columns: np.ndarray, scales: np.ndarray | None) -> np.ndarray:
        """Append columns, divided by their scales; return what was subtracted from them."""
        k = len(self._columns)
        if k > self._store.shape[1]:
            grown = np.empty((len(self._store), min(ROOM * k, self._single.design.shape[1])), order="F")
            grown[:, : k - len(columns)] = self.matrix
            self._store = grown
        found = self._store[:, k - len(columns) : k]
        self._single.design.fill(found, columns)
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

    def norms(self, w: np.ndarray) -> np.ndarray:
        """Return the norm of each group of coefficients, (g,)."""
        return self.blocks.norms(w) if self.mixed is None else self.mixed.norms(w)

    def dual_norms(self, correlations: np.ndarray) -> np.ndarray:
        """Return the dual norm of each group of correlations (k K,), (g,)."""
        return self.blocks.norms(correlations) if self.mixed is None else self.mixed.dual_norms(correlations)

    def model(self, w: np.ndarray, b: Any) -> LinearModel:
        """Return the model of the design's own columns, for coefficients and intercept of the working set."""
        n_outputs, columns = self.n_outputs, self._columns
        by_output = w.reshape(-1, n_outputs)
        values = by_output / self._scales[:, None] if len(self._scales) else by_output
        constants = np.broadcast_to(b, n_outputs * len(self._store)).reshape(n_outputs, -1)
        if self._free is None:
            intercepts, is_free = constants[:, 0] - self._means @ by_output, np.zeros(len(columns), dtype=bool)
        else:
            found = self._free.coefficients(constants.T - self._free.basis @ (self._means @ by_output))
            has_intercept = int(self._problem.intercept)
            intercepts = found[0] if has_intercept else np.zeros(n_outputs)
            is_free = np.repeat([False, True], [len(columns), len(found) - has_intercept])
            columns = np.concatenate([columns, self._single.free_columns])
            values = np.concatenate([values, found[has_intercept:]])
        indices = columns[:, None] * n_outputs + np.arange(n_outputs)
        kept = (values != 0) | is_free[:, None]
        order = np.argsort(indices[kept])
        return LinearModel(
            indices[kept][order], values[kept][order], float(intercepts[0]) if n_outputs == 1 else intercepts
        )

    def outputs(self, w: np.ndarray) -> np.ndarray:
        """Return predictions without the intercept, (K m,)."""
        if self.n_outputs > 1:
            by_output = w.reshape(-1, self.n_outputs)
            support = np.flatnonzero(by_output.any(axis=1))
            return (self.matrix[:, support] @ by_output[support]).T.ravel()
        support = np.flatnonzero(w)
        if sparse.issparse(self.matrix):
            return self.matrix @ w if len(support) > COPIED * len(w) else self.matrix[:, support] @ w[support]
        return dense_combination(self.matrix.T, support, w)

    def correlations(self, points: np.ndarray) -> np.ndarray:
        """Return products of all columns with several points (P, K m), (P, k K): the matrix is read once."""
        rows = points.reshape(len(points) * self.n_outputs, -1)
        products = np.asarray(rows @ self.matrix) if len(rows) > 1 else (self.matrix.T @ rows[0])[None]
        if self.n_outputs == 1:
            return products
        return products.reshape(len(points), self.n_outputs, -1).transpose(0, 2, 1).reshape(len(points), -1)

    @property
    def compiled_columns(self) -> Columns:
        """The columns as compiled loops take them."""
        if not sparse.issparse(self.matrix):
            none = np.empty(0, dtype=np.int32)
            return Columns(self.matrix.T, np.empty(0), none, none)
        return Columns(np.empty((0, 0)), self.matrix.data, self.matrix.indices, self.matrix.indptr)

    @property
    def n_entries(self) -> int:
        """Number of stored entries of the columns."""
        return self.matrix.nnz if sparse.issparse(self.matrix) else self.matrix.size

    @property
    def mean_square(self) -> float:
        """Mean of the squared norms of the columns; 1 where all are zero."""
        entries = self.matrix.data if sparse.issparse(self.matrix) else self.matrix
        return float(np.linalg.norm(entries)) ** 2 / max(len(self._columns), 1) or 1.0

    def scaled(self, coefficients: np.ndarray) -> np.ndarray:
        """Return coefficients of the working set from those of the design's columns."""
        return coefficients * np.repeat(self._scales, self.n_outputs) if len(self._scales) else coefficients

    def gram(self, active: np.ndarray, weights: np.ndarray, columns: Any) -> np.ndarray:
        r"""Return :math:`B^\top \mathrm{diag}(h) B` of the active columns B, with weights (m,) >= 0 of the samples."""
        if np.all(weights == weights[0]):
            return weights[0] * self._unweighted_gram(active)
        if sparse.issparse(columns):
            return (columns.T @ _times_rows(weights, columns)).toarray()
        half = columns * np.sqrt(weights)[:, None]
        return half.T @ half

    def _unweighted_gram(self, active: np.ndarray) -> np.ndarray:
        """Return inner products of active columns; those of all columns that were ever active are kept."""
        new = active[self._kept_at[active] < 0]
        if len(new):
            known = len(self._ever_active)
            self._ever_active = np.concatenate([self._ever_active, new])
            self._kept_at[new] = np.arange(known, len(self._ever_active))
            grown = np.empty((len(self._ever_active), len(self._ever_active)))
            grown[:known, :known] = self._gram
            strip = _dense(self.matrix[:, self._ever_active].T @ self.matrix[:, new])
            grown[:, known:] = strip
            grown[known:, :known] = strip[:known].T
            self._gram = grown
        kept = self._kept_at[active]
        return self._gram[kept][:, kept]


def _times_rows(weights: np.ndarray, matrix: Any) -> Any:
    """Return a matrix whose rows are multiplied by weights."""
    return sparse.diags_array(weights) @ matrix if sparse.issparse(matrix) else weights[:, None] * matrix


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix
