"""Design matrices: products with all columns or with a few, without copies."""

from typing import Any, TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from omkl.batch.group_lasso._jit_columns import dense_products, dense_products_and_squares
from omkl.exceptions import InputError
from omkl.kernels.inputs import as_floats

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

    def __init__(self, matrix: Any, selective: bool = False) -> None:
        self.matrix, self.selective, self._transposed = matrix, selective, matrix.T
        self.shape, self.is_sparse = matrix.shape, sparse.issparse(matrix)

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        r"""Return :math:`A^\top \rho` over all columns (n,), in the precision of the design: one
        pass.

        Parameters
        ----------
        rho : array of shape (m,)
        """
        return _finite(
            np.asarray(
                self._transposed @ rho.astype(self.matrix.dtype, copy=False), dtype=np.float64
            )
        )

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

    def rows(self, kept: np.ndarray) -> "Design":
        """Return the design of some samples, without a copy.

        Parameters
        ----------
        kept : int array
            Increasing indices of samples.
        """
        return RowsOfDesign(self, kept)

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
        return dense_products(self._transposed, indices, rho.astype(self.matrix.dtype, copy=False))

    def correlations_of_all(self, points: np.ndarray) -> np.ndarray:
        found = self._transposed @ points.T.astype(self.matrix.dtype, copy=False)
        return _finite(found.astype(np.float64, copy=False))

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found, squares = dense_products_and_squares(
            self._transposed, rho.astype(self.matrix.dtype, copy=False)
        )
        return _finite(found), np.sqrt(squares)

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        out = np.empty((self.shape[0], len(indices)), order="F") if out is None else out
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
    """A matrix defined by its products: a scipy ``LinearOperator`` with ``matvec`` and ``rmatvec``."""

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        return _finite(np.asarray(self.matrix.rmatvec(rho), dtype=np.float64).ravel())

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        out = np.empty((self.shape[0], len(indices)), order="F") if out is None else out
        for column, j in zip(out.T, indices):
            column[:] = self.matrix.matvec(np.eye(1, self.shape[1], j)[0])
        return out

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        full = np.zeros(self.shape[1])
        full[indices] = coefficients
        return np.asarray(self.matrix.matvec(full), dtype=np.float64).ravel()


class RowsOfDesign(Design):
    """Some samples of a design, as in the folds of cross-validation: products use all samples, with
    zeros elsewhere.

    Norms of columns are norms over all samples, which are upper bounds.
    """

    def __init__(self, design: Design, kept: np.ndarray) -> None:
        super().__init__(design.matrix, design.selective)
        self._design, self._kept, self.shape = design, kept, (len(kept), design.shape[1])

    def _spread(self, rho: np.ndarray) -> np.ndarray:
        full = np.zeros(self._design.shape[0])
        full[self._kept] = rho
        return full

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        return self._design.correlations(self._spread(rho))

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        return self._design.some_correlations(indices, self._spread(rho))

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self._design.correlations_and_norms(self._spread(rho))

    def columns(self, indices: np.ndarray, out: np.ndarray | None = None) -> Matrix:
        found = self._design.columns(indices)[self._kept]
        if out is None:
            return found
        out[:] = found
        return out

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        return self._design.product(indices, coefficients)[self._kept]


class StackedDesign(Design):
    """:math:`I_K \\otimes A` for a design A; all outputs of a column are in the same group."""

    def __init__(self, design: Design, n_outputs: int) -> None:
        super().__init__(design.matrix, design.selective)
        self.single, self.n_outputs = design, n_outputs
        self.shape = design.shape[0] * n_outputs, design.shape[1] * n_outputs

    def correlations(self, rho: np.ndarray) -> np.ndarray:
        return self.single.correlations_of_all(rho.reshape(self.n_outputs, -1)).ravel()

    def some_correlations(self, indices: np.ndarray, rho: np.ndarray) -> np.ndarray:
        columns = indices[:: self.n_outputs] // self.n_outputs
        own = [
            self.single.some_correlations(columns, part) for part in rho.reshape(self.n_outputs, -1)
        ]
        return np.column_stack(own).ravel()

    def correlations_and_norms(self, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        norms = self.single.correlations_and_norms(rho[: self.single.shape[0]])[1]
        return self.correlations(rho), np.repeat(norms, self.n_outputs)

    def product(self, indices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        of_outputs = [indices % self.n_outputs == k for k in range(self.n_outputs)]
        parts = [
            self.single.product(indices[own] // self.n_outputs, coefficients[own])
            for own in of_outputs
        ]
        return np.concatenate(parts)


def _finite(products: np.ndarray) -> np.ndarray:
    """Return products with all columns unchanged; raise an InputError unless they are finite."""
    if not np.isfinite(products).all():
        bad = np.flatnonzero(~np.isfinite(products))
        where = (
            f"Column {bad[0]} of the design holds"
            if len(bad) < len(products)
            else "The design holds"
        )
        raise InputError(f"{where} NaN, infinite numbers, or numbers whose squares overflow.")
    return products


def as_design(matrix: Any) -> Design:
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
    if sparse.issparse(matrix):
        matrix = matrix if matrix.format in ("csc", "csr") else matrix.tocsc()
        return SparseDesign(as_floats(matrix), matrix.format == "csc")
    matrix = np.asarray(matrix)
    if matrix.ndim != 2 or not np.issubdtype(matrix.dtype, np.number) or np.iscomplexobj(matrix):
        raise InputError(
            f"A design must be a real matrix (m, n), got an array of {matrix.dtype} {matrix.shape}."
        )
    matrix = as_floats(matrix)
    return DenseDesign(matrix, matrix.flags.f_contiguous)
