"""How the kernels of a batch problem are held: as Gram matrices, as factors, or computed in every pass."""

import warnings
from typing import NamedTuple

from numpy.typing import DTypeLike
from scipy import sparse

from omkl.exceptions import MemoryWarning
from omkl.kernels import FactoredStack, KernelStack, LazyStack, MixedStack, Nystrom, PackedStack
from omkl.kernels.base import Kernel
from omkl.kernels.checks import affordable_rank, packed_bytes, packed_bytes_fit
from omkl.kernels.inputs import Vectors, count_columns
from omkl.kernels.packed import BUDGET

#: A finite feature map of at most this part of the samples is held as a factor, unless a kernel says otherwise: to
#: build it and to solve with it takes no longer than with the Gram matrix.
FACTOR_PART = 1 / 16
#: The same where Gram matrices do not fit into memory: a factor takes no more of it.
LARGEST_PART = 1 / 2
#: Landmarks of kernels that are approximated because they do not fit: so many at most, and fewer are too few.
MOST_LANDMARKS, LEAST_LANDMARKS = 500, 20


class Representation(NamedTuple):
    """Kernels on training samples, and how they are held.

    Attributes
    ----------
    kernels : list of Kernel
        Fitted; approximations where there is no room for what was asked for.
    ranks : dict of int to int
        Those that are held as factors, by their feature maps, and the dimensions of these.
    stack : KernelStack
    others : str
        How those that are not factors are held.
    """

    kernels: list[Kernel]
    ranks: dict[int, int]
    stack: KernelStack
    others: str

    @property
    def described(self) -> list[str]:
        """How each kernel is held, in words."""
        return [f"factor of rank {self.ranks[m]}" if m in self.ranks else self.others for m in range(len(self.kernels))]


def represent(
    names: list[str], kernels: list[Kernel], X: Vectors, dtype: DTypeLike, approximate: bool | str
) -> Representation:
    """Hold kernels as is cheapest, and in the memory that there is.

    Parameters
    ----------
    names : list of str
        What the kernels are called in the warning that says that some do not fit.
    kernels : list of Kernel
        Fitted to their columns of X.
    X : array of shape (N, d)
    dtype : {numpy.float32, numpy.float64}
    approximate : {"auto", True, False}
        What becomes of kernels that do not fit: see :class:`~omkl.MKLClassifier`.

    Returns
    -------
    Representation
    """
    ranks = _low_ranks(kernels, X, FACTOR_PART)
    if not packed_bytes_fit(len(kernels) - len(ranks), X.shape[0], dtype):
        ranks = _low_ranks(kernels, X, LARGEST_PART)
    n_others = len(kernels) - len(ranks)
    if not n_others or packed_bytes_fit(n_others, X.shape[0], dtype):
        return Representation(kernels, ranks, _stack(kernels, ranks, PackedStack.from_kernels, X, dtype), "dense")
    if approximate == "auto":
        approximate = packed_bytes(1, X.shape[0], dtype) > BUDGET
    n_landmarks = min(affordable_rank(len(kernels), X.shape[0], dtype), MOST_LANDMARKS)
    approximate = approximate and n_landmarks >= LEAST_LANDMARKS
    consequence = "computed anew in every pass over them."
    if approximate:
        kernels, left_out = _approximations(names, kernels, ranks, X, n_landmarks)
        ranks = {m: rank for m, kernel in enumerate(kernels) if (rank := _rank(kernel, X)) is not None}
        consequence = (
            f"approximated by the Nyström method on {n_landmarks} landmarks, which leaves out {left_out} (relative, in "
            "the trace norm); ask for other approximations by features= in a kernel's string, or set approximate=False "
            "to have kernels computed anew in every pass."
        )
    warnings.warn(
        f"{n_others} kernels of {X.shape[0]} samples do not fit into memory: they are {consequence}",
        MemoryWarning,
        stacklevel=5,
    )
    return Representation(kernels, ranks, _stack(kernels, ranks, LazyStack, X, dtype), "computed in every pass")


def _low_ranks(kernels: list[Kernel], X: Vectors, part: float) -> dict[int, int]:
    """Ranks of the kernels whose feature map has at most this part of the samples as dimensions, or that ask for it."""
    ranks = {m: _rank(kernel, X) for m, kernel in enumerate(kernels)}
    return {
        m: rank
        for m, rank in ranks.items()
        if rank is not None and (rank <= part * X.shape[0] if kernels[m].explicit is None else kernels[m].explicit)
    }


def _rank(kernel: Kernel, X: Vectors) -> int | None:
    """Dimension of a kernel's feature map on its columns; None where it has none, or takes no sparse input."""
    if sparse.issparse(X) and not kernel.maps_sparse:
        return None
    n_columns = X.shape[1]
    return kernel.feature_count(count_columns(kernel.columns(n_columns), n_columns))


def _stack(kernels, ranks, form, X, dtype):
    """One stack of all kernels: factors, and ``form`` of the others."""
    others = [m for m in range(len(kernels)) if m not in ranks]
    stacks = [form([kernels[m] for m in others], X, dtype)] if others else []
    if ranks:
        stacks.append(FactoredStack.from_kernels([kernels[m] for m in ranks], X, dtype))
    return stacks[0] if len(stacks) == 1 else MixedStack(stacks, others + list(ranks))


def _approximations(names, kernels, ranks, X, n_landmarks):
    """The kernels, those that are no factors by the Nyström method, and what that leaves out of them, in words."""
    approximated, left_out = list(kernels), {}
    for m, kernel in enumerate(kernels):
        if m not in ranks:
            approximated[m] = Nystrom(kernel, n_landmarks).fit(X)
            left_out[names[m]] = approximated[m].left_out(X)
    worst = sorted(left_out, key=left_out.__getitem__, reverse=True)
    listed = ", ".join(f"{left_out[name]:.2g} of {name!r}" for name in worst[:3])
    return approximated, listed + (", less of the others" if len(worst) > 3 else "")
