"""Precomputed Gram matrices, and checks of Gram matrices."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.linalg.lapack import dpotrf

from omkl.exceptions import InputError
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import Vectors, as_dense, as_floats

#: Largest asymmetry, and largest negative eigenvalue, of an accepted matrix relative to its largest
#: diagonal entry: the rounding of single precision.
ROUNDING = 1e-5
#: Largest accepted entry: with larger entries solvers lose all digits.
LARGEST = 1e15
#: Number of samples on which kernel functions are checked.
MOST_CHECKED = 1000

#: Accepted containers of Gram matrices; None marks a matrix that no model needs.
MatricesLike: TypeAlias = "ArrayLike | sparse.sparray | Sequence | Mapping[str, Any] | GramMatrices"


class GramMatrices:
    """Values of M kernels between n and N samples.

    Select samples by ``matrices[rows]`` or ``matrices[np.ix_(rows, columns)]``. Hence
    ``train_test_split`` works, and so does ``cross_val_score(MKLClassifier("precomputed"),
    GramMatrices(...), y)``.

    Parameters
    ----------
    matrices : mapping or sequence of arrays of shape (n, N), or array of shape (n, N, M) or (n, N)
        An array (n, N) is one kernel. The keys of a mapping name the kernels; otherwise their names
        are "kernel 0" and so on. None stands for a kernel that no model needs.

    Attributes
    ----------
    names : list of str
    matrices : list of arrays of shape (n, N) or None, or array of shape (M, n, N)
    shape : tuple
        (n, N, M).

    Raises
    ------
    omkl.exceptions.InputError
        If there are no matrices, or their shapes differ.

    Examples
    --------
    >>> grams = GramMatrices({"constant": np.ones((3, 3)), "identity": np.eye(3)})
    >>> grams[np.ix_([0, 2], [0, 2])].shape
    (2, 2, 2)
    """

    names: list[str]
    matrices: Any

    def __init__(self, matrices: MatricesLike) -> None:
        if isinstance(matrices, GramMatrices):
            matrices = dict(zip(matrices.names, matrices.matrices))
        if hasattr(matrices, "__array__") or sparse.issparse(matrices):
            array = np.asarray(as_dense(matrices))
            matrices = np.moveaxis(array, -1, 0) if array.ndim == 3 else [array]
        elif not isinstance(matrices, Sequence | Mapping):
            matrices = []
        self.matrices = matrices
        if isinstance(matrices, Mapping):
            check_kernel_names(matrices)
            self.names = list(matrices)
            self.matrices = matrices.values()
        else:
            self.names = [f"kernel {m}" for m in range(len(matrices))]
        if not isinstance(self.matrices, np.ndarray):
            self.matrices = [
                matrix if matrix is None else np.asarray(as_dense(matrix))
                for matrix in self.matrices
            ]
        shapes = {matrix.shape for matrix in self.matrices if matrix is not None}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            other = "anything else"
            if shapes:
                other = f"shapes {sorted(shapes)}"
            raise InputError(
                "Precomputed kernels must be M matrices (n, N) of one shape: a dict with their "
                f"names, a list of M arrays, or one array (n, N, M); not {other}."
            )
        self.shape: tuple[int, int, int] = (*shapes.pop(), len(self.matrices))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: slice | ArrayLike | tuple[ArrayLike, ...]) -> "GramMatrices":
        selected = [None if matrix is None else matrix[key] for matrix in self.matrices]
        return GramMatrices(dict(zip(self.names, selected)))


def check_kernel_names(names: Iterable[Hashable]) -> None:
    """Raise an InputError unless all names of kernels are strings."""
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise InputError(f"Names of kernels must be strings, got {wrong[0]!r}.")


def checked_gram(gram: ArrayLike, name: int | str, n_samples: int) -> np.ndarray:
    """Return a Gram matrix as an array (N, N), float32 or float64.

    Parameters
    ----------
    gram : array of shape (N, N)
    name : int or str
        Name or index of the kernel, for error messages.
    n_samples : int
        Required size N.

    Raises
    ------
    omkl.exceptions.InputError
        If it has another shape, is not finite, has entries above 1e15, is not symmetric, or not
        positive semidefinite beyond rounding.
    """
    gram = as_floats(np.asarray(gram))
    if gram.shape != (n_samples, n_samples):
        _refuse(name, f"has shape {gram.shape}, not ({n_samples}, {n_samples})")
    largest = float(np.abs(gram).max(initial=0.0))
    if not largest <= LARGEST:
        _refuse(name, f"has entries that are not finite, or above {LARGEST:g}")
    scale = float(np.diagonal(gram).max(initial=0.0))
    if np.abs(gram - gram.T).max(initial=0.0) > ROUNDING * max(scale, largest):
        _refuse(name, "is not symmetric")
    if not _is_semidefinite(gram, scale):
        _refuse(name, "is not positive semidefinite")
    return gram


def _is_semidefinite(gram: np.ndarray, scale: float) -> bool:
    """Return whether a symmetric matrix (N, N) has no negative eigenvalues beyond rounding.

    ``scale`` is its largest diagonal entry.
    """
    if scale <= 0.0:
        return not np.any(gram)
    # a Cholesky factor exists after adding rounding to the diagonal; cheaper than eigenvalues
    shifted = np.array(gram, dtype=np.float64)
    shifted[np.diag_indices_from(shifted)] += ROUNDING * scale
    _, failed_at = dpotrf(shifted, lower=1, overwrite_a=1)
    return failed_at == 0


def _refuse(name: int | str, why: str) -> NoReturn:
    raise InputError(f"Kernel {name} {why}.")


def check_kernels(names: Sequence[str], kernels: Sequence[Kernel], X: Vectors) -> None:
    """Raise an InputError unless fitted kernels are positive semidefinite on X (N, d).

    Kernels that always are positive semidefinite are skipped. At most :data:`MOST_CHECKED` samples
    are used.
    """
    n_samples = X.shape[0]
    if n_samples > MOST_CHECKED:
        X = X[np.unique(np.linspace(0, n_samples - 1, MOST_CHECKED).astype(int))]
    for name, kernel in zip(names, kernels):
        if not kernel.semidefinite:
            checked_gram(kernel(X), repr(name), X.shape[0])
