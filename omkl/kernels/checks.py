"""Checks of Gram matrices, and of the memory that they take."""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy.linalg import eigvalsh
from scipy.linalg.lapack import dpotrf

from omkl.exceptions import InputError
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import Vectors

#: Most that a matrix may differ from its transpose, and lack in positive semidefiniteness, in units of its largest
#: diagonal entry: what single precision and a sum over many samples leave.
ROUNDING = 1e-5
#: Largest entry: what solvers compute with larger ones has no digits left.
LARGEST = 1e15
#: Samples on which functions are checked.
MOST_CHECKED = 1000


def check_kernel_names(names: Iterable[object]) -> None:
    """Raise an InputError unless all names of kernels are strings."""
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise InputError(f"Names of kernels must be strings, got {wrong[0]!r}.")


def checked_gram(gram: ArrayLike, name: int | str, n_samples: int) -> np.ndarray:
    """A Gram matrix as an array (N, N), float32 or float64.

    Parameters
    ----------
    gram : array of shape (N, N)
    name : int or str
        Which kernel it is, for the message.
    n_samples : int
        The size it must have.

    Raises
    ------
    omkl.exceptions.InputError
        If it has another shape, is not finite, has entries above 1e15, is not symmetric, or not positive
        semidefinite beyond rounding.
    """
    gram = np.asarray(gram)
    if gram.dtype not in (np.float32, np.float64):
        gram = gram.astype(np.float64)
    if gram.shape != (n_samples, n_samples):
        _refuse(name, f"has shape {gram.shape}, not ({n_samples}, {n_samples})")
    largest = float(np.abs(gram).max(initial=0.0))
    if not largest <= LARGEST:
        _refuse(name, f"has entries that are not finite, or above {LARGEST:g}")
    scale = float(np.diagonal(gram).max(initial=0.0))
    if np.abs(gram - gram.T).max(initial=0.0) > ROUNDING * max(scale, largest):
        _refuse(name, "is not symmetric")
    if not _semidefinite(gram, scale):
        smallest = float(eigvalsh(gram.astype(np.float64), subset_by_index=(0, 0))[0])
        _refuse(name, f"is not positive semidefinite: its smallest eigenvalue is {smallest:.3g}")
    return gram


def _refuse(name: int | str, why: str) -> NoReturn:
    raise InputError(f"Kernel {name} {why}.")


def check_kernels(names: Sequence[str], kernels: Sequence[Kernel], X: Vectors) -> None:
    """Raise an InputError unless fitted kernels are positive semidefinite on X (N, d), or known to be.

    At most :data:`MOST_CHECKED` samples are used, evenly spread.
    """
    few = X[np.unique(np.linspace(0, X.shape[0] - 1, MOST_CHECKED).astype(int))] if X.shape[0] > MOST_CHECKED else X
    for name, kernel in zip(names, kernels):
        if not kernel.semidefinite:
            checked_gram(kernel(few), repr(name), few.shape[0])


def _semidefinite(gram: np.ndarray, scale: float) -> bool:
    """Return True if a Cholesky factor exists once rounding is added to the diagonal; cheaper than eigenvalues."""
    if scale <= 0.0:
        return not np.any(gram)
    shifted = np.array(gram, dtype=np.float64)
    shifted[np.diag_indices_from(shifted)] += ROUNDING * scale
    return dpotrf(shifted, lower=1, overwrite_a=1)[1] == 0


def packed_bytes(n_kernels: int, n_samples: int, dtype: DTypeLike) -> int:
    """Bytes of packed kernels."""
    return n_kernels * n_samples * (n_samples + 1) // 2 * np.dtype(dtype).itemsize


def packed_bytes_fit(n_kernels: int, n_samples: int, dtype: DTypeLike) -> bool:
    """Return True if packed kernels fit into free memory."""
    return packed_bytes(n_kernels, n_samples, dtype) <= _free_bytes()


def affordable_rank(n_kernels: int, n_samples: int, dtype: DTypeLike) -> int:
    """Return the rank at which factors of ``n_kernels`` take half of free memory."""
    return int(min(_free_bytes() // (2 * n_kernels * n_samples * np.dtype(dtype).itemsize), n_samples))


def require_memory(n_kernels: int, n_samples: int, dtype: DTypeLike) -> None:
    """Raise an InputError unless packed kernels fit into free memory."""
    require_bytes(packed_bytes(n_kernels, n_samples, dtype), f"{n_kernels} packed kernels of {n_samples} samples")


def require_bytes(needed: float, what: str) -> None:
    """Raise an InputError unless ``needed`` bytes are free; ``what`` needs them."""
    free = _free_bytes()
    if needed > free:
        raise InputError(
            f"{what} need {needed / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB are free: use float32, FactoredStack, "
            f"LazyStack, or fewer samples."
        )


def _free_bytes() -> float:
    """Return the bytes of memory that are free; infinite where the system does not tell."""
    with suppress(OSError, StopIteration), open("/proc/meminfo", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    with suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return np.inf
