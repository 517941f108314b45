"""Storage of kernels on training samples: dense, low rank or on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omkl._components import warn_caller
from omkl.exceptions import MemoryWarning
from omkl.kernels.base import Kernel
from omkl.kernels.feature_maps import Nystrom
from omkl.kernels.inputs import Vectors, count_columns
from omkl.kernels.low_rank import FactoredStack, affordable_rank
from omkl.kernels.packed import BUDGET, LazyStack, PackedStack, packed_bytes, packed_bytes_fit
from omkl.kernels.stack import KernelStack, MixedStack

#: Largest size in double precision, in bytes, at which ``dtype="auto"`` uses double precision.
SMALL = 2**26
#: Smallest tolerance at which ``dtype="auto"`` stores larger kernels in single precision.
COARSE = 1e-4
#: Largest rank of a feature map, relative to the number of samples, for which solving with a factor is as fast as with
#: the Gram matrix.
FACTOR_PART = 1 / 16
#: The same if Gram matrices do not fit into memory: a factor of this rank is no larger than the matrix.
LARGEST_PART = 1 / 2
#: Maximum and minimum number of landmarks to approximate kernels that do not fit into memory.
MOST_LANDMARKS, LEAST_LANDMARKS = 500, 20


def precision(dtype: DTypeLike, n_kernels: int, n_samples: int, tol: float) -> np.dtype:
    """Return the precision of stored kernels; "auto" is double precision up to 64 MiB, and for small tolerances."""
    if str(dtype) != "auto":
        return np.dtype(dtype)
    single = tol >= COARSE and packed_bytes(n_kernels, n_samples, np.float64) > SMALL
    return np.dtype(np.float32 if single else np.float64)


class Representation(NamedTuple):
    """Kernels on training samples, and their storage.

    Attributes
    ----------
    kernels : list of Kernel
        Fitted kernels; some are replaced by approximations if memory is short.
    ranks : dict of int to int
        Number of dimensions of the kernels stored as factors.
    stack : KernelStack
    others : str
        Storage of all other kernels.
    """

    kernels: list[Kernel]
    ranks: dict[int, int]
    stack: KernelStack
    others: str


def represent(
    names: list[str], kernels: list[Kernel], X: Vectors, dtype: DTypeLike, approximate: bool | str
) -> Representation:
    """Choose the cheapest storage of fitted kernels that fits into memory.

    Parameters
    ----------
    names : list of str
        Names of the kernels, for the warning if some do not fit.
    kernels : list of Kernel
    X : array of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    approximate : {"auto", True, False}
        Whether to approximate kernels that do not fit, see :class:`~omkl.MKLClassifier`.
    """
    n_samples = X.shape[0]
    ranks = _low_ranks(kernels, X, FACTOR_PART)
    if not packed_bytes_fit(len(kernels) - len(ranks), n_samples, dtype):
        ranks = _low_ranks(kernels, X, LARGEST_PART)
    n_others = len(kernels) - len(ranks)
    if not n_others or packed_bytes_fit(n_others, n_samples, dtype):
        return Representation(kernels, ranks, _stack(kernels, ranks, PackedStack.from_kernels, X, dtype), "dense")
    if approximate == "auto":
        approximate = packed_bytes(1, n_samples, dtype) > BUDGET
    n_landmarks = min(affordable_rank(len(kernels), n_samples, dtype), MOST_LANDMARKS)
    consequence = "computed anew in every pass over them."
    if approximate and n_landmarks >= LEAST_LANDMARKS:
        approximated = [k if m in ranks else Nystrom(k, n_landmarks).fit(X) for m, k in enumerate(kernels)]
        left_out = {m: k.left_out(X) for m, k in enumerate(approximated) if isinstance(k, Nystrom) and m not in ranks}
        worst = max(left_out, key=left_out.__getitem__)
        consequence = (
            f"approximated by the Nyström method on {n_landmarks} landmarks, which leaves out {left_out[worst]:.2g} "
            f"of {names[worst]!r} and no more of the others (relative, in the trace norm)."
        )
        kernels = approximated
        ranks = {m: rank for m, kernel in enumerate(kernels) if (rank := _rank(kernel, X)) is not None}
    warn_caller(
        f"{n_others} kernels of {n_samples} samples do not fit into memory: they are {consequence}", MemoryWarning
    )
    return Representation(kernels, ranks, _stack(kernels, ranks, LazyStack, X, dtype), "computed in every pass")


def _low_ranks(kernels: list[Kernel], X: Vectors, part: float) -> dict[int, int]:
    """Return ranks of kernels to store as factors: of low rank relative to the samples, or explicit on request."""
    ranks = {}
    for m, kernel in enumerate(kernels):
        rank = _rank(kernel, X)
        if rank is not None and (rank <= part * X.shape[0] if kernel.explicit is None else kernel.explicit):
            ranks[m] = rank
    return ranks


def _rank(kernel: Kernel, X: Vectors) -> int | None:
    """Return the dimension of a kernel's feature map on its columns; None if it has none for this input."""
    if sparse.issparse(X) and not kernel.maps_sparse:
        return None
    return kernel.feature_count(count_columns(kernel.columns(X.shape[1]), X.shape[1]))


def _stack(
    kernels: list[Kernel], ranks: dict[int, int], form: Callable[..., KernelStack], X: Vectors, dtype: DTypeLike
) -> KernelStack:
    """Return one stack of all kernels: some as factors, all others stored by ``form``."""
    others = [m for m in range(len(kernels)) if m not in ranks]
    stacks = [form([kernels[m] for m in others], X, dtype)] if others else []
    if ranks:
        stacks.append(FactoredStack.from_kernels([kernels[m] for m in ranks], X, dtype))
    return stacks[0] if len(stacks) == 1 else MixedStack(stacks, others + list(ranks))
