"""The working set of a design: some of its columns in double precision, with their inner products."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from omkl.batch.group_lasso._jit_columns import dense_combination
from omkl.batch.group_lasso._jit_sweeps import LARGEST_BASIS, Bases, Columns
from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.group_lasso.problem import DesignProblem, LinearModel

#: Capacity of a growing working set, as a multiple of its columns: unwritten memory costs nothing.
ROOM = 4
#: Share of active columns above which a product with all columns is cheaper than a copy of the
#: active ones.
COPIED = 0.3


@dataclass
class Iterate:
    """A model on the working set, with a dual point.

    Attributes
    ----------
    w, b : array of shape (k,), float or array
        Coefficients and intercept.
    outputs, rho : arrays of shape (m,)
        Predictions and dual point.
    norms, dual_norms : arrays of shape (g,)
    correlations : array of shape (k,)
        Correlations of the columns with the dual point.
    primal, gap : float
        Objective and relative gap over the working set, for one alpha.
    own : bool
        Whether the dual point belongs to the predictions, and is not a better one.
    """

    w: np.ndarray
    b: float | np.ndarray
    outputs: np.ndarray
    rho: np.ndarray
    norms: np.ndarray
    dual_norms: np.ndarray
    correlations: np.ndarray
    primal: float
    gap: float
    own: bool


class Eigenbases:
    r"""Eigenvectors and eigenvalues of the groups' :math:`B_g^\top \mathrm{diag}(h) B_g`, computed
    on demand by sweeps.

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
        stored = np.where((sizes > 1) & (sizes <= LARGEST_BASIS), sizes**2, 0)
        offsets = self.arrays.offsets[-1] + np.cumsum(stored)
        added = (
            np.empty(stored.sum()),
            offsets,
            np.empty(sizes.sum()),
            np.zeros(len(sizes), dtype=bool),
        )
        self.arrays = Bases(*map(np.concatenate, zip(self.arrays, added)))

    def weigh(self, weights: np.ndarray) -> None:
        """Set the weights h (m,) of the samples; discard bases of other weights."""
        if self._weights is None or not np.array_equal(weights, self._weights):
            self._weights = weights
            self.arrays.is_known[:] = False

    def of(self, matrix: Matrix, starts: np.ndarray, weights: np.ndarray) -> Bases:
        """Return the bases of all groups, none of them very large; compute what is missing.

        Compiled sweeps do the same, but take ten seconds to compile.
        """
        vectors, offsets, values, is_known = self.arrays
        missing = np.flatnonzero(~is_known)
        single = starts[missing[np.diff(starts)[missing] == 1]]
        columns = matrix[:, single]
        squares = columns.multiply(columns) if sparse.issparse(matrix) else columns**2
        values[single] = squares.T @ weights
        for g in missing:
            first, last = starts[g], starts[g + 1]
            if last - first > 1:
                found, basis = np.linalg.eigh(inner_products(matrix[:, first:last], weights))
                values[first:last] = np.maximum(found, 0.0)
                vectors[offsets[g] : offsets[g + 1]] = basis.ravel()
        is_known[missing] = True
        return self.arrays


class InnerProducts:
    """Cached :func:`inner_products` of the columns of a working set, extended as it grows.

    They are valid while the sample weights h stay the same, as along a path of the squared loss
    (Friedman, Hastie and Tibshirani 2010, section 2.2).
    """

    def __init__(self) -> None:
        self._weights: np.ndarray | None = None
        #: Number of columns with known products, which are the first rows and columns of a larger
        #: array.
        self.n_known, self._store = 0, np.empty((0, 0))

    def known(self, weights: np.ndarray) -> int:
        """Return the number of columns with known products for these weights."""
        return (
            self.n_known
            if self._weights is not None and np.array_equal(self._weights, weights)
            else 0
        )

    def of(self, matrix: Matrix, weights: np.ndarray, free: np.ndarray | None) -> np.ndarray:
        """Return an array with the inner products in its first k rows and columns.

        Parameters
        ----------
        matrix, weights, free
            As for :func:`inner_products`; new columns follow the columns of the last call.
        """
        first, k = self.known(weights), matrix.shape[1]
        if k > len(self._store):
            grown = np.empty((max(k, min(2 * len(self._store), len(weights))),) * 2)
            grown[:first, :first] = self._store[:first, :first]
            self._store = grown
        if first < k:
            self._store[:k, first:k] = strip = inner_products(matrix, weights, free, first)
            self._store[first:k, :first] = strip[:first].T
        self._weights, self.n_known = weights, k
        return self._store

    def times(self, w: np.ndarray) -> np.ndarray:
        """Return the product of the known inner products with coefficients (k, K)."""
        support = np.flatnonzero(w.any(axis=1))
        return self._store[: len(w), support] @ w[support]


def inner_products(
    matrix: Matrix, weights: np.ndarray, free: np.ndarray | None = None, first: int = 0
) -> np.ndarray:
    r"""Return :math:`B^\top \mathrm{diag}(h) B`, with the unpenalized part at its optimum.

    Parameters
    ----------
    matrix : array (m, k) in Fortran order, or CSC matrix
        B; columns of an array are orthogonal to ``free``.
    weights : array of shape (m,)
        h >= 0.
    free : array of shape (m, r), optional
        A basis of the unpenalized part.
    first : int
        The first column of the result, which is (k, k - first).
    """
    is_sparse, uniform = sparse.issparse(matrix), np.all(weights == weights[0])
    weighted = matrix
    if not uniform:
        root = np.sqrt(weights)
        weighted = sparse.diags_array(root) @ matrix if is_sparse else root[:, None] * matrix
    new = weighted[:, first:]
    # BLAS computes only half of the product of an array with itself
    products = (
        (weighted.T @ new).toarray()
        if is_sparse
        else np.concatenate([weighted[:, :first].T @ new, new.T @ new])
    )
    if uniform:
        products *= weights[0]
    if free is not None and (is_sparse or not uniform):
        curved = weights[:, None] * free
        shares = np.asarray(matrix.T @ curved)
        products -= shares @ np.linalg.pinv(free.T @ curved) @ shares[first:].T
    return products


class WorkingSet:
    r"""Columns of some groups, divided by the weights of their groups, so that every group has
    weight 1 here.

    With an intercept, dense columns are centred: :math:`Aw + b = (A - 1 \bar a^\top) w + b + \bar
    a^\top w`, and
    :math:`A^\top \rho` does not change because :math:`1^\top \rho = 0`. Otherwise columns far from 0 would be nearly
    collinear with the constant. Columns are also made orthogonal to all other unpenalized columns.

    Coefficients of K outputs are vectors (k K,), with the outputs of a column side by side.

    Attributes
    ----------
    groups : int array of shape (g,)
    columns : int array of shape (k K,)
        Columns of the design of the problem.
    blocks, column_blocks : Blocks
        Blocks of the coefficients and of the columns of the groups.
    gauge : GroupNorms
        Norms of the groups' coefficients.
    matrix : array (m, k) in Fortran order, or CSC matrix
    eigenbases : Eigenbases
    products : InnerProducts
    """

    def __init__(self, problem: DesignProblem) -> None:
        self._problem, self._single, self.n_outputs = problem, problem.single, problem.n_outputs
        m, nothing = self._single.design.shape[0], np.empty(0, dtype=np.int64)
        self.groups = self._columns = self.columns = nothing
        self.blocks = self.column_blocks = Blocks(nothing)
        self.gauge = problem.groups.gauge.of(nothing, self.blocks)
        self.eigenbases, self.products = Eigenbases(), InnerProducts()
        self._scales = np.empty(0)
        self._free = problem.unpenalized
        #: Subtracted means of the columns, or their coordinates (r, k) in the basis of the
        #: unpenalized part.
        self._means = np.empty(0 if self._free is None else (self._free.basis.shape[1], 0))
        self._store = np.empty((m, 0), order="F")
        self.matrix: Matrix = self._store

    def is_of(self, problem: DesignProblem) -> bool:
        """Return whether a working set of that problem would have the same columns."""
        mine = self._problem
        return (mine.design, mine.groups, mine.intercept) == (
            problem.design,
            problem.groups,
            problem.intercept,
        )

    def extend(self, groups: np.ndarray) -> None:
        """Append groups."""
        whole, n_outputs = self._single.groups, self.n_outputs
        columns, added = whole.columns_of(groups)
        self.groups = np.concatenate([self.groups, groups])
        self.column_blocks = Blocks(whole.blocks.sizes[self.groups])
        self.blocks = Blocks(self.column_blocks.sizes * n_outputs)
        scales = whole.scales[self.groups]
        self.gauge = whole.gauge.of(self.groups, self.blocks, scales)
        self._scales = self.column_blocks.spread(scales)
        self.eigenbases.extend(added.sizes)
        self._columns = np.concatenate([self._columns, columns])
        self.columns = (self._columns[:, None] * n_outputs + np.arange(n_outputs)).ravel()
        own = self._scales[len(self._scales) - len(columns) :]
        is_weighted = (whole.gauge.norm_weights != 1.0).any()
        if self._single.design.is_sparse:
            found = self._single.design.columns(columns)
            if is_weighted:
                found = (found @ sparse.diags_array(1.0 / own)).tocsc()
            self.matrix = (
                sparse.hstack([self.matrix, found], format="csc") if self.matrix.shape[1] else found
            )
            means = np.zeros((*self._means.shape[:-1], len(columns)))
        else:
            k, first = len(self._columns), len(self._columns) - len(columns)
            if k > self._store.shape[1]:
                grown = np.empty(
                    (len(self._store), min(ROOM * k, self._single.design.shape[1])), order="F"
                )
                grown[:, :first] = self.matrix
                self._store = grown
            found, means = self._store[:, first:k], np.zeros(len(columns))
            self._single.design.columns(columns, found)
            if is_weighted:
                found /= own
            if self._free is not None:
                means = self._free.basis.T @ found
                found -= self._free.basis @ means
            elif self._problem.intercept:
                means = found.mean(axis=0)
                found -= means
            self.matrix = self._store[:, :k]
        self._means = np.concatenate([self._means, means], axis=-1)

    def model(self, w: np.ndarray, b: float | np.ndarray) -> LinearModel:
        """Convert coefficients and intercept of the working set to a model of the design."""
        n_outputs, columns = self.n_outputs, self._columns
        by_output = w.reshape(-1, n_outputs)
        values = by_output / self._scales[:, None]
        constants = np.broadcast_to(b, n_outputs * len(self._store)).reshape(n_outputs, -1)
        if self._free is None:
            intercepts, is_free = (
                constants[:, 0] - self._means @ by_output,
                np.zeros(len(columns), dtype=bool),
            )
        else:
            found = self._free.coefficients(
                constants.T - self._free.basis @ (self._means @ by_output)
            )
            has_intercept = int(self._problem.intercept)
            intercepts = found[0] if has_intercept else np.zeros(n_outputs)
            is_free = np.repeat([False, True], [len(columns), len(found) - has_intercept])
            columns = np.concatenate([columns, self._single.free_columns])
            values = np.concatenate([values, found[has_intercept:]])
        indices = columns[:, None] * n_outputs + np.arange(n_outputs)
        kept = (values != 0) | is_free[:, None]
        order = np.argsort(indices[kept])
        intercept = float(intercepts[0]) if n_outputs == 1 else intercepts
        return LinearModel(indices[kept][order], values[kept][order], intercept)

    def outputs(self, w: np.ndarray) -> np.ndarray:
        """Return predictions without the intercept, (K m,)."""
        if self.n_outputs > 1:
            by_output = w.reshape(-1, self.n_outputs)
            support = np.flatnonzero(by_output.any(axis=1))
            return (self.matrix[:, support] @ by_output[support]).T.ravel()
        support = np.flatnonzero(w)
        if sparse.issparse(self.matrix):
            return (
                self.matrix @ w
                if len(support) > COPIED * len(w)
                else self.matrix[:, support] @ w[support]
            )
        return dense_combination(self.matrix.T, support, w)

    def correlations(self, points: np.ndarray) -> np.ndarray:
        """Return the products (P, k K) of all columns with points (P, K m), in one pass over the
        matrix.
        """
        rows = points.reshape(len(points) * self.n_outputs, -1)
        products = (
            np.asarray(rows @ self.matrix) if len(rows) > 1 else (self.matrix.T @ rows[0])[None]
        )
        return (
            products.reshape(len(points), self.n_outputs, -1)
            .transpose(0, 2, 1)
            .reshape(len(points), -1)
        )

    @property
    def compiled_columns(self) -> Columns:
        """The columns for compiled loops."""
        if isinstance(self.matrix, np.ndarray):
            none = np.empty(0, dtype=np.int32)
            return Columns(self.matrix.T, np.empty(0), none, none)
        return Columns(np.empty((0, 0)), self.matrix.data, self.matrix.indices, self.matrix.indptr)

    @property
    def entries(self) -> np.ndarray:
        """The stored entries of the columns."""
        return self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.data

    def scaled(self, coefficients: np.ndarray) -> np.ndarray:
        """Return coefficients of the working set from coefficients of the design."""
        return coefficients * np.repeat(self._scales, self.n_outputs)
