"""Design matrices: products with all columns or with a few, without copies."""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from omkl.batch.group_lasso._jit_columns import dense_products, dense_products_and_squares
from omkl.exceptions import InputError
from omkl.kernels.inputs import as_floats

#: Matrices that become designs.
DesignLike: TypeAlias = ArrayLike | sparse.sparray | sparse.spmatrix | LinearOperator
#: Matrices of designs; those of numbers are in single or double precision.
StoredMatrix: TypeAlias = np.ndarray | sparse.sparray | sparse.spmatrix | LinearOperator
#: Columns in double precision: a Fortran-ordered array (m, k), or a CSC matrix.
Matrix: TypeAlias = np.ndarray | sparse.csc_matrix


class Design:
    """A matrix (m, n) of m samples by n columns.

    Attributes
    ----------
    shape : (m, n)
    is_sparse : bool
        Whether columns are sparse.
    selective : bool
        Whether products with a few columns cost less than with all. Only then is
        ``correlations_and_norms`` available.
    """

    def __init__(self, matrix: StoredMatrix, selective: bool = False) -> None:
        self.matrix = matrix
        self.selective = selective
        self.shape = matrix.shape
        self.is_sparse = sparse.issparse(matrix)
        self._transposed = matrix.T

    def _in_precision(self, values: np.ndarray) -> np.ndarray:
        """Return values in the precision of the design."""
        return values.astype(self.matrix.dtype, copy=False)

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        r"""Return :math:`A^\top \rho` over all columns, (n,), in one pass.

        Products have the precision of the design.

        Parameters
        ----------
        rho : array of shape (m,)
        """
        products = self._transposed @ self._in_precision(rho)
        return _finite(np.asarray(products, dtype=np.float64))

    def correlations_of_all(self, points: np.ndarray) -> np.ndarray:
        """Return correlations with several points, (n, K).

        Parameters
        ----------
        points : array of shape (K, m)
        """
        return np.column_stack([self.correlations(rho) for rho in points])

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        """Return the correlations of some columns.

        Parameters
        ----------
        indices : int array of shape (k,)
        rho : array of shape (m,)
        """
        return self.correlations(rho)[indices]

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the correlations and the norms of all columns, two arrays (n,).

        Parameters
        ----------
        rho : array of shape (m,)
        """
        raise NotImplementedError

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        """Return columns, (m, k), as a CSC matrix if the design is sparse.

        Parameters
        ----------
        indices : int array of shape (k,)
        out : Fortran-ordered array of shape (m, k), optional
            Output array, if the design is not sparse.
        """
        raise NotImplementedError

    def rows(self, samples: np.ndarray) -> "Design":
        """Return the design of some samples, without a copy.

        Parameters
        ----------
        samples : int array
            Increasing indices of samples.
        """
        return RowsOfDesign(self, samples)

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        r"""Return :math:`\sum_j A_j w_j` over some columns, (m,).

        Parameters
        ----------
        indices : int array of shape (k,)
        coefficients : array of shape (k,)
        """
        if not len(indices):
            return np.zeros(self.shape[0])
        if 4 * len(indices) > self.shape[1]:
            full = np.zeros(self.shape[1], dtype=self.matrix.dtype)
            full[indices] = coefficients
            return np.asarray(self.matrix @ full, dtype=np.float64)
        return self.columns(indices) @ coefficients


class DenseDesign(Design):
    """A float32 or float64 array, C or F order."""

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return dense_products(self._transposed, indices, self._in_precision(rho))

    def correlations_of_all(self, points: np.ndarray) -> np.ndarray:
        products = self._transposed @ self._in_precision(points.T)
        return _finite(products.astype(np.float64, copy=False))

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        products, squares = dense_products_and_squares(self._transposed, self._in_precision(rho))
        return _finite(products), np.sqrt(squares)

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        if out is None:
            out = np.empty((self.shape[0], len(indices)), order="F")
        if self.selective and self.matrix.dtype == out.dtype:
            # modes other than "clip" make another copy
            np.take(self._transposed, indices, axis=0, out=out.T, mode="clip")
        else:
            out[:] = np.take(self.matrix, indices, axis=1)
        return out


class SparseDesign(Design):
    """A CSC or CSR matrix; selecting columns is faster with CSC."""

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return self.matrix[:, indices].T @ rho

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        squares = np.asarray(self.matrix.power(2).sum(axis=0), dtype=np.float64).ravel()
        return self.correlations(rho), np.sqrt(squares)

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        return sparse.csc_matrix(self.matrix[:, indices], dtype=np.float64)


class OperatorDesign(Design):
    """A matrix defined by its products: a scipy ``LinearOperator`` with ``rmatvec``."""

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        return _finite(np.asarray(self.matrix.rmatvec(rho), dtype=np.float64).ravel())

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        if out is None:
            out = np.empty((self.shape[0], len(indices)), order="F")
        for column, j in zip(out.T, indices):
            column[:] = self.matrix.matvec(np.eye(1, self.shape[1], j)[0])
        return out

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        full = np.zeros(self.shape[1])
        full[indices] = coefficients
        return np.asarray(self.matrix.matvec(full), dtype=np.float64).ravel()


class RowsOfDesign(Design):
    """Some samples of a design, as in the folds of cross-validation.

    Products use all samples, with zeros for the others. Norms of columns are norms over all
    samples, which are upper bounds.
    """

    def __init__(self, design: Design, samples: np.ndarray) -> None:
        super().__init__(design.matrix, design.selective)
        self._design = design
        self._samples = samples
        self.shape = (len(samples), design.shape[1])

    def _spread(self, rho: np.ndarray) -> np.ndarray:
        """Return values of all samples of the design, zero except for those of the rows."""
        full = np.zeros(self._design.shape[0])
        full[self._samples] = rho
        return full

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        return self._design.correlations(self._spread(rho))

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return self._design.some_correlations(indices, self._spread(rho))

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._design.correlations_and_norms(self._spread(rho))

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        columns = self._design.columns(indices)[self._samples]
        if out is None:
            return columns
        out[:] = columns
        return out

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        return self._design.product(indices, coefficients)[self._samples]


class StackedDesign(Design):
    """:math:`I_K \\otimes A` for a design A; all outputs of a column are in the same group."""

    def __init__(self, design: Design, n_outputs: int) -> None:
        super().__init__(design.matrix, design.selective)
        self.single = design
        self.n_outputs = n_outputs
        self.shape = (design.shape[0] * n_outputs, design.shape[1] * n_outputs)

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        return self.single.correlations_of_all(rho.reshape(self.n_outputs, -1)).ravel()

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        columns = indices[:: self.n_outputs] // self.n_outputs
        by_output = rho.reshape(self.n_outputs, -1)
        correlations = [self.single.some_correlations(columns, point) for point in by_output]
        return np.column_stack(correlations).ravel()

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        norms = self.single.correlations_and_norms(rho[: self.single.shape[0]])[1]
        return self.correlations(rho), np.repeat(norms, self.n_outputs)

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        outputs = []
        for k in range(self.n_outputs):
            is_of_output = indices % self.n_outputs == k
            columns = indices[is_of_output] // self.n_outputs
            outputs.append(self.single.product(columns, coefficients[is_of_output]))
        return np.concatenate(outputs)


def _finite(products: np.ndarray) -> np.ndarray:
    """Return products with all columns unchanged; raise an InputError unless they are finite."""
    is_finite = np.isfinite(products.reshape(len(products), -1)).all(axis=1)
    invalid = np.flatnonzero(~is_finite)
    if not len(invalid):
        return products
    subject = "The design"
    if len(invalid) < len(products):
        subject = f"Column {invalid[0]} of the design"
    raise InputError(f"{subject} holds NaN, infinite numbers, or numbers whose squares overflow.")


def as_design(matrix: DesignLike | Design) -> Design:
    """Return a :class:`Design` for an array, a scipy sparse matrix or a ``LinearOperator``.

    Parameters
    ----------
    matrix : array, sparse matrix or LinearOperator of shape (m, n)

    Raises
    ------
    omkl.exceptions.InputError
        If ``matrix`` has another type, or is not two-dimensional.
    """
    if isinstance(matrix, Design):
        return matrix
    if isinstance(matrix, LinearOperator):
        return OperatorDesign(matrix)
    if isinstance(matrix, (sparse.sparray, sparse.spmatrix)):
        if matrix.format not in ("csc", "csr"):
            matrix = matrix.tocsc()
        return SparseDesign(as_floats(matrix), matrix.format == "csc")
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.number) or np.iscomplexobj(matrix):
        raise InputError(
            f"A design must be a real matrix (m, n), got an array of {matrix.dtype} {matrix.shape}."
        )
    matrix = as_floats(matrix)
    return DenseDesign(matrix, matrix.flags.f_contiguous)
