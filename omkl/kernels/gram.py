"""Precomputed Gram matrices, and checks of Gram matrices."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from scipy.linalg.lapack import dpotrf

from omkl._threads import in_threads
from omkl.exceptions import InputError
from omkl.kernels._jit_gram import pack_interleaved, pack_symmetric, prove_semidefinite
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import Vectors

#: Largest asymmetry, and largest negative eigenvalue, of an accepted matrix relative to its largest diagonal entry:
#: the rounding of single precision.
ROUNDING = 1e-5
#: Largest accepted entry: with larger entries solvers lose all digits.
LARGEST = 1e15
#: Number of samples on which kernel functions are checked.
MOST_CHECKED = 1000
#: Number of matrices that a pass packs together.
TOGETHER = 256

#: Accepted containers of Gram matrices; None marks a matrix that no model needs.
MatricesLike: TypeAlias = "ArrayLike | sparse.sparray | Sequence | Mapping[str, Any] | GramMatrices"


class GramMatrices:
    """Values of M kernels between n and N samples.

    Select samples by ``matrices[rows]`` or ``matrices[np.ix_(rows, columns)]``. Hence ``train_test_split`` works, and
    so does ``cross_val_score(MKLClassifier("precomputed"), GramMatrices(...), y)``.

    Parameters
    ----------
    matrices : mapping of str to array of shape (n, N), sequence of such arrays, or array of shape (n, N, M) or (n, N)
        An array (n, N) is one kernel. The keys of a mapping name the kernels; otherwise their names are "kernel 0" and
        so on. None stands for a kernel that no model needs.

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
        given: Any = matrices if isinstance(matrices, Sequence) else []
        names: Iterable[str] | None = None
        if isinstance(matrices, GramMatrices):
            names, given = matrices.names, matrices.matrices
        elif isinstance(matrices, Mapping):
            check_kernel_names(matrices)
            names, given = matrices, matrices.values()
        elif hasattr(matrices, "__array__") or sparse.issparse(matrices):
            whole = _dense(matrices)
            given = np.moveaxis(whole, -1, 0) if whole.ndim == 3 else [whole]
        is_one = isinstance(given, np.ndarray)
        self.matrices = given if is_one else [None if matrix is None else _dense(matrix) for matrix in given]
        self.names = default_names(len(given)) if names is None else list(names)
        shapes = {matrix.shape for matrix in self.matrices if matrix is not None}
        if len(shapes) != 1 or len(next(iter(shapes))) != 2:
            raise InputError(
                "Precomputed kernels must be M matrices (n, N) of one shape: a dict with their names, a list of M "
                f"arrays, or one array (n, N, M); not {f'shapes {sorted(shapes)}' if shapes else 'anything else'}."
            )
        self.shape: tuple[int, int, int] = (*shapes.pop(), len(self.matrices))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> "GramMatrices":
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        cut = [None if matrix is None else matrix[key] for matrix in self.matrices]
        return GramMatrices(dict(zip(self.names, cut)))


def default_names(n_kernels: int) -> list[str]:
    """Return the names of kernels without names."""
    return [f"kernel {m}" for m in range(n_kernels)]


def _dense(matrix: ArrayLike | sparse.sparray) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def check_kernel_names(names: Iterable[object]) -> None:
    """Raise an InputError unless all names of kernels are strings."""
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
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
        If it has another shape, is not finite, has entries above 1e15, is not symmetric, or not positive
        semidefinite beyond rounding.
    """
    gram = _as_floats(gram)
    if gram.shape != (n_samples, n_samples):
        _refuse(name, f"has shape {gram.shape}, not ({n_samples}, {n_samples})")
    largest = float(np.abs(gram).max(initial=0.0))
    if not largest <= LARGEST:
        _refuse(name, f"has entries that are not finite, or above {LARGEST:g}")
    scale = float(np.diagonal(gram).max(initial=0.0))
    if np.abs(gram - gram.T).max(initial=0.0) > ROUNDING * max(scale, largest):
        _refuse(name, "is not symmetric")
    if not _semidefinite(gram, scale):
        _refuse(name, "is not positive semidefinite")
    return gram


def _refuse(name: int | str, why: str) -> NoReturn:
    raise InputError(f"Kernel {name} {why}.")


def packed_grams(grams: Sequence[np.ndarray] | np.ndarray, dtype: DTypeLike, n_jobs: int | None = None) -> np.ndarray:
    """Check Gram matrices in the pass that packs them.

    Parameters
    ----------
    grams : array of shape (M, N, N), or sequence of M arrays of shape (N, N)
        In any memory layout.
    dtype : {numpy.float32, numpy.float64}
    n_jobs : int or None
        Number of threads.

    Returns
    -------
    array of shape (M, N (N + 1) / 2)
        Their lower triangles, row by row.

    Raises
    ------
    omkl.exceptions.InputError
        If :func:`checked_gram` refuses a matrix; it decides on those that the pass does not accept.
    """
    n, interleaved = len(grams[0]), np.empty(0)
    if isinstance(grams, np.ndarray) and grams.dtype in (np.float32, np.float64) and grams.shape[1:] == (n, n):
        interleaved = np.moveaxis(grams, 0, -1)
    rows, proved = np.empty((len(grams), n * (n + 1) // 2), dtype=dtype), np.zeros(len(grams), dtype=bool)

    def pack(low: int) -> None:
        part, own = rows[low : low + TOGETHER], proved[low : low + TOGETHER]
        if interleaved.size and interleaved.flags.c_contiguous:
            pack_interleaved(interleaved, low, LARGEST, ROUNDING, part, own)
        else:
            for m, row in enumerate(part):
                gram = _as_floats(grams[low + m])
                own[m] = gram.shape == (n, n) and pack_symmetric(gram, LARGEST, ROUNDING, row)
        prove_semidefinite(part, n, ROUNDING, own)

    in_threads(pack, range(0, len(grams), TOGETHER), n_jobs)
    for m in np.flatnonzero(~proved).tolist():
        checked_gram(grams[m], m, n)
    return rows


def _as_floats(gram: ArrayLike) -> np.ndarray:
    gram = np.asarray(gram)
    return gram if gram.dtype in (np.float32, np.float64) else gram.astype(np.float64)


def check_kernels(names: Sequence[str], kernels: Sequence[Kernel], X: Vectors) -> None:
    """Raise an InputError unless fitted kernels are positive semidefinite on X (N, d).

    Kernels that always are positive semidefinite are skipped. At most :data:`MOST_CHECKED` samples are used.
    """
    few = X[np.unique(np.linspace(0, X.shape[0] - 1, MOST_CHECKED).astype(int))] if X.shape[0] > MOST_CHECKED else X
    for name, kernel in zip(names, kernels):
        if not kernel.semidefinite:
            checked_gram(kernel(few), repr(name), few.shape[0])


def _semidefinite(gram: np.ndarray, scale: float) -> bool:
    """Return True if a Cholesky factor exists after adding rounding to the diagonal; cheaper than eigenvalues."""
    if scale <= 0.0:
        return not np.any(gram)
    shifted = np.array(gram, dtype=np.float64)
    shifted[np.diag_indices_from(shifted)] += ROUNDING * scale
    return dpotrf(shifted, lower=1, overwrite_a=1)[1] == 0
