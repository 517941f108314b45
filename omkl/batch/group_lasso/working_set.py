"""The working set of a design: some of its columns, with their inner products."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from omkl.batch.group_lasso._jit_columns import dense_combination
from omkl.batch.group_lasso._jit_sweeps import LARGEST_BASIS, Bases, Columns
from omkl.batch.group_lasso.blocks import Blocks
from omkl.batch.group_lasso.matrices import Matrix
from omkl.batch.group_lasso.problem import DesignProblem, LinearModel

#: Capacity of a growing working set, as a multiple of its columns; memory is used once written.
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
    is_gradient : bool
        Whether the dual point is that of the predictions, not a better one.
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
    is_gradient: bool


class Eigenbases:
    r"""Eigenvectors and eigenvalues of the inner products of each group, computed on demand.

    The inner products are :math:`B_g^\top \mathrm{diag}(h) B_g`.

    Attributes
    ----------
    arrays : Bases
        Single columns and very large groups have no eigenvectors.
    """

    def __init__(self) -> None:
        self.arrays = Bases(
            vectors=np.empty(0),
            offsets=np.zeros(1, dtype=np.int64),
            values=np.empty(0),
            is_known=np.empty(0, dtype=bool),
        )
        self._weights = np.empty(0)

    def extend(self, sizes: np.ndarray) -> None:
        """Make room for groups of these sizes."""
        has_vectors = (sizes > 1) & (sizes <= LARGEST_BASIS)
        n_entries = np.where(has_vectors, sizes**2, 0)
        added = Bases(
            vectors=np.empty(n_entries.sum()),
            offsets=self.arrays.offsets[-1] + np.cumsum(n_entries),
            values=np.empty(sizes.sum()),
            is_known=np.zeros(len(sizes), dtype=bool),
        )
        self.arrays = Bases(*map(np.concatenate, zip(self.arrays, added)))

    def weigh(self, weights: np.ndarray) -> None:
        """Set the weights h (m,) of the samples; forget the bases for other weights."""
        if not np.array_equal(self._weights, weights):
            self._weights = weights
            self.arrays.is_known[:] = False

    def of(self, matrix: Matrix, starts: np.ndarray, weights: np.ndarray) -> Bases:
        """Return the bases of all groups, none of them very large; compute missing ones.

        Compiled sweeps do the same, but take ten seconds to compile.
        """
        vectors, offsets, values, is_known = self.arrays
        missing = np.flatnonzero(~is_known)
        is_single = np.diff(starts)[missing] == 1
        columns = starts[missing[is_single]]
        values[columns] = squared_entries(matrix[:, columns]).T @ weights
        for g in missing[~is_single]:
            first = starts[g]
            last = starts[g + 1]
            gram = inner_products(matrix[:, first:last], weights)
            eigenvalues, eigenvectors = np.linalg.eigh(gram)
            values[first:last] = np.maximum(eigenvalues, 0.0)
            vectors[offsets[g] : offsets[g + 1]] = eigenvectors.ravel()
        is_known[missing] = True
        return self.arrays


class InnerProducts:
    """Cached :func:`inner_products` of the columns of a working set, extended as it grows.

    They hold as long as the sample weights h stay the same, as along a path of the squared loss
    (Friedman, Hastie and Tibshirani 2010, section 2.2).
    """

    def __init__(self) -> None:
        self._weights = np.empty(0)
        #: Number of columns with known products.
        self.n_known = 0
        #: The products are the first rows and columns of this array.
        self._store = np.empty((0, 0))

    def known(self, weights: np.ndarray) -> int:
        """Return the number of columns with known products for these weights."""
        return self.n_known if np.array_equal(self._weights, weights) else 0

    def of(self, matrix: Matrix, weights: np.ndarray, free: np.ndarray | None) -> np.ndarray:
        """Return an array with the inner products in its first k rows and columns.

        Parameters
        ----------
        matrix, weights, free
            As for :func:`inner_products`; new columns follow the columns of the last call.
        """
        first = self.known(weights)
        k = matrix.shape[1]
        if k > len(self._store):
            capacity = max(k, min(2 * len(self._store), len(weights)))
            larger_store = np.empty((capacity, capacity))
            larger_store[:first, :first] = self._store[:first, :first]
            self._store = larger_store
        if first < k:
            products = inner_products(matrix, weights, free, first)
            self._store[:k, first:k] = products
            self._store[first:k, :first] = products[:first].T
        self._weights = weights
        self.n_known = k
        return self._store

    def times(self, w: np.ndarray) -> np.ndarray:
        """Return the product of the known inner products with coefficients (k, K)."""
        support = np.flatnonzero(w.any(axis=1))
        return self._store[: len(w), support] @ w[support]


def squared_entries(matrix: Matrix) -> Matrix:
    """Return the square of each entry of a dense or sparse matrix."""
    return matrix.multiply(matrix) if sparse.issparse(matrix) else matrix**2


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
    is_sparse = sparse.issparse(matrix)
    is_uniform = np.all(weights == weights[0])
    weighted = matrix
    if not is_uniform:
        roots = np.sqrt(weights)
        weighted = sparse.diags_array(roots) @ matrix if is_sparse else roots[:, None] * matrix
    new = weighted[:, first:]
    if is_sparse:
        products = (weighted.T @ new).toarray()
    else:
        # BLAS computes only half of the product of an array with itself
        products = np.concatenate([weighted[:, :first].T @ new, new.T @ new])
    if is_uniform:
        products *= weights[0]
    if free is not None and (is_sparse or not is_uniform):
        weighted_free = weights[:, None] * free
        shares = np.asarray(matrix.T @ weighted_free)
        products -= shares @ np.linalg.pinv(free.T @ weighted_free) @ shares[first:].T
    return products


class WorkingSet:
    r"""Columns of some groups in double precision, divided by the weights of their groups.

    Every group has weight 1 here. With an intercept, dense columns are centred: :math:`Aw + b = (A
    - 1 \bar a^\top) w + b + \bar a^\top w`, and :math:`A^\top \rho` does not change because
    :math:`1^\top \rho = 0`. Otherwise columns far from 0 would be nearly collinear with the
    constant. Columns are also made orthogonal to all other unpenalized columns.

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
        self._problem = problem
        #: The problem of one output.
        self._single = problem.single
        self.n_outputs = problem.n_outputs
        no_indices = np.empty(0, dtype=np.int64)
        self.groups = no_indices
        self.columns = no_indices
        self.blocks = Blocks(no_indices)
        self.column_blocks = self.blocks
        self.gauge = problem.groups.gauge.of(no_indices, self.blocks)
        self.eigenbases = Eigenbases()
        self.products = InnerProducts()
        #: Columns of the design of one output, (k,), and their divisors.
        self._columns = no_indices
        self._scales = np.empty(0)
        self._unpenalized = problem.unpenalized
        #: Subtracted means of the columns, or their coordinates (r, k) in the basis of the
        #: unpenalized part.
        self._means = np.empty(0)
        if self._unpenalized is not None:
            self._means = np.empty((self._unpenalized.basis.shape[1], 0))
        #: The matrix of a dense design is the first columns of this one.
        self._store = np.empty((self._single.design.shape[0], 0), order="F")
        self.matrix: Matrix = self._store

    def is_of(self, problem: DesignProblem) -> bool:
        """Return whether a working set of that problem would have the same columns."""
        return (
            self._problem.design == problem.design
            and self._problem.groups == problem.groups
            and self._problem.intercept == problem.intercept
        )

    def extend(self, groups: np.ndarray) -> None:
        """Append groups."""
        all_groups = self._single.groups
        columns, blocks = all_groups.columns_of(groups)
        self.groups = np.concatenate([self.groups, groups])
        self.column_blocks = Blocks(all_groups.blocks.sizes[self.groups])
        self.blocks = Blocks(self.column_blocks.sizes * self.n_outputs)
        scales = all_groups.scales[self.groups]
        self.gauge = all_groups.gauge.of(self.groups, self.blocks, scales)
        self._scales = self.column_blocks.spread(scales)
        self.eigenbases.extend(blocks.sizes)
        self._columns = np.concatenate([self._columns, columns])
        self.columns = self._indices_of(self._columns).ravel()
        divisors = None
        if (all_groups.gauge.norm_weights != 1.0).any():
            divisors = self._scales[-len(columns) :]
        if self._single.design.is_sparse:
            means = self._append_sparse(columns, divisors)
        else:
            means = self._append_dense(columns, divisors)
        self._means = np.concatenate([self._means, means], axis=-1)

    def _indices_of(self, columns: np.ndarray) -> np.ndarray:
        """Return the columns of the problem's design, (k, K), for columns of one output, (k,)."""
        return columns[:, None] * self.n_outputs + np.arange(self.n_outputs)

    def _append_sparse(self, columns: np.ndarray, divisors: np.ndarray | None) -> np.ndarray:
        """Append columns of the design to the matrix; return their ``_means``, which are 0."""
        added = self._single.design.columns(columns)
        if divisors is not None:
            added = (added @ sparse.diags_array(1.0 / divisors)).tocsc()
        if self.matrix.shape[1]:
            added = sparse.hstack([self.matrix, added], format="csc")
        self.matrix = added
        return np.zeros((*self._means.shape[:-1], len(columns)))

    def _append_dense(self, columns: np.ndarray, divisors: np.ndarray | None) -> np.ndarray:
        """Append columns of the design to the matrix; return their ``_means``."""
        k = len(self._columns)
        first = k - len(columns)
        if k > self._store.shape[1]:
            capacity = min(ROOM * k, self._single.design.shape[1])
            larger_store = np.empty((len(self._store), capacity), order="F")
            larger_store[:, :first] = self.matrix
            self._store = larger_store
        added = self._store[:, first:k]
        self._single.design.columns(columns, out=added)
        if divisors is not None:
            added /= divisors
        means = np.zeros(len(columns))
        if self._unpenalized is not None:
            means = self._unpenalized.basis.T @ added
            added -= self._unpenalized.basis @ means
        elif self._problem.intercept:
            means = added.mean(axis=0)
            added -= means
        self.matrix = self._store[:, :k]
        return means

    def model(self, w: np.ndarray, b: float | np.ndarray) -> LinearModel:
        """Convert coefficients and intercept of the working set to a model of the design."""
        n_outputs = self.n_outputs
        by_output = w.reshape(-1, n_outputs)
        coefficients = by_output / self._scales[:, None]
        columns = self._columns
        constants = np.broadcast_to(b, n_outputs * len(self._store)).reshape(n_outputs, -1)
        is_in_model = coefficients != 0
        if self._unpenalized is None:
            intercepts = constants[:, 0] - self._means @ by_output
        else:
            values = constants.T - self._unpenalized.basis @ (self._means @ by_output)
            free_coefficients = self._unpenalized.coefficients(values)
            intercepts = np.zeros(n_outputs)
            if self._problem.intercept:
                intercepts = free_coefficients[0]
                free_coefficients = free_coefficients[1:]
            columns = np.concatenate([columns, self._single.free_columns])
            coefficients = np.concatenate([coefficients, free_coefficients])
            is_free = np.ones_like(free_coefficients, dtype=bool)
            is_in_model = np.concatenate([is_in_model, is_free])
        indices = self._indices_of(columns)[is_in_model]
        order = np.argsort(indices)
        intercept = float(intercepts[0]) if n_outputs == 1 else intercepts
        return LinearModel(indices[order], coefficients[is_in_model][order], intercept)

    def outputs(self, w: np.ndarray) -> np.ndarray:
        """Return predictions without the intercept, (K m,)."""
        if self.n_outputs > 1:
            by_output = w.reshape(-1, self.n_outputs)
            support = np.flatnonzero(by_output.any(axis=1))
            return (self.matrix[:, support] @ by_output[support]).T.ravel()
        support = np.flatnonzero(w)
        if not sparse.issparse(self.matrix):
            return dense_combination(self.matrix.T, support, w)
        if len(support) > COPIED * len(w):
            return self.matrix @ w
        return self.matrix[:, support] @ w[support]

    def correlations(self, points: np.ndarray) -> np.ndarray:
        """Return the products (P, k K) of all columns with points (P, K m), in one pass."""
        rows = points.reshape(len(points) * self.n_outputs, -1)
        if len(rows) > 1:
            products = np.asarray(rows @ self.matrix)
        else:
            products = (self.matrix.T @ rows[0])[None]
        by_output = products.reshape(len(points), self.n_outputs, -1)
        return by_output.transpose(0, 2, 1).reshape(len(points), -1)

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
