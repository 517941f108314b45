"""Stacks: many Gram matrices of one set of samples, for batch solvers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from omkl.exceptions import InputError
from omkl.kernels._jit_stack import dots, factor_products, pack
from omkl.kernels.base import Kernel
from omkl.kernels.inputs import Vectors, as_dense, row_blocks

#: Indices of kernels, (k,), or None for all of them.
Which: TypeAlias = Sequence[int] | np.ndarray | None
#: Number of rows of factors in a block of a sum, in float64.
BLOCK_ROWS = 4096
#: Number in the place of a stack for kernels that are not in use.
NO_STACK = -1


#: A number of rows, or several.
Rows = TypeVar("Rows", int, np.ndarray)


def packed_length(n_rows: Rows) -> Rows:
    """Return the number of entries in the first rows of a packed kernel."""
    return n_rows * (n_rows + 1) // 2


def packed_entries(samples: np.ndarray) -> np.ndarray:
    """Return the entries of a packed kernel of all samples that are the packed kernel of some.

    ``samples`` (n,) are their indices, which increase; the result is (n (n + 1) / 2,).
    """
    i, j = np.tril_indices(len(samples))
    return packed_length(samples[i]) + samples[j]


class KernelStack(ABC):
    """Base of stacks: Gram matrices ``K_1`` to ``K_M`` of N samples.

    A subclass sets ``n_kernels`` and ``n_samples``, and defines :meth:`block_products`,
    :meth:`combine` and :meth:`diagonals`, each in one pass over the kernels. The base class derives
    the other methods. ``which`` holds the indices of the kernels, an array of shape (k,); all by
    default.

    Attributes
    ----------
    n_kernels, n_samples : int
    sums_entries : bool
        Whether :meth:`summed` adds kernels entry by entry, instead of multiplying by the kernels in
        turn.
    concurrent : bool
        Whether several threads may call methods at once.
    n_parts : int
        Number of equal diagonal blocks of every kernel, which is zero elsewhere.
    """

    n_kernels: int
    n_samples: int
    sums_entries = False
    concurrent = False
    n_parts = 1

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """Return ``sum_p v_p' K_m v_p`` for each kernel, clipped at 0: (k,).

        Parameters
        ----------
        vectors : array of shape (P, N)
        which : int array of shape (k,), optional
        """
        return np.maximum(np.einsum("kpn,pn->k", self.block_products(vectors, which), vectors), 0.0)

    @abstractmethod
    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """Return ``K_m v_p`` for each kernel: (k, P, N).

        Parameters
        ----------
        vectors : array of shape (P, N), or (k, P, N) where each kernel has its own
        which : int array of shape (k,), optional
        """

    @abstractmethod
    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        """Return ``sum_m w_m K_m``: (N, N) float64, or only the rows of ``samples``, (s, N).

        Parameters
        ----------
        weights : array of shape (k,)
        which : int array of shape (k,), optional
        samples : int array of shape (s,), optional
        """

    @abstractmethod
    def diagonals(self, which: Which = None) -> np.ndarray:
        """Return the diagonal of each kernel: (k, N).

        Parameters
        ----------
        which : int array of shape (k,), optional
        """

    def packed(self, m: int) -> np.ndarray:
        """Return the lower triangle of a kernel, row by row: (N (N + 1) / 2,), not to be changed.

        Parameters
        ----------
        m : int
        """
        packed = np.empty(packed_length(self.n_samples))
        pack(self.combine([1.0], [m]), packed)
        return packed

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        """Return ``v' K_m v`` for each kernel, clipped at 0: (k,).

        Parameters
        ----------
        vector : array of shape (N,)
        which : int array of shape (k,), optional
        """
        return self.block_quadratics(vector[None], which)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """Return ``K_m v_m`` for each kernel: (k, N).

        Parameters
        ----------
        vectors : array of shape (N,) or (k, N)
            One vector for all kernels, or one for each.
        which : int array of shape (k,), optional
        """
        return self.block_products(vectors[..., None, :], which)[:, 0]

    def traces(self, which: Which = None) -> np.ndarray:
        """Return the trace of each kernel: (k,).

        Parameters
        ----------
        which : int array of shape (k,), optional
        """
        return self.diagonals(which).sum(axis=1)

    def summed(self, weights: ArrayLike, which: Which = None) -> KernelStack:
        """Return a stack of the single kernel ``sum_m w_m K_m``, in no more memory than this stack.

        Parameters
        ----------
        weights : array of shape (k,)
        which : int array of shape (k,), optional
        """
        return WeightedSum(self, weights, which)

    def restricted(self, samples: np.ndarray) -> KernelStack:
        """Return the same kernels on some of the samples.

        Parameters
        ----------
        samples : int array of shape (n,)
            Increasing indices of samples.
        """
        return RestrictedView(self, samples)

    def _indices(self, which: Which) -> np.ndarray:
        """Return the indices of kernels as an array (k,); all for None."""
        if which is None:
            return np.arange(self.n_kernels)
        return np.asarray(which, dtype=np.int64)

    def _count_rows(self, samples: np.ndarray | None) -> int:
        """Return the number of samples; of all for None."""
        return self.n_samples if samples is None else len(samples)


class WeightedSum(KernelStack):
    """A stack of the single kernel ``sum_m w_m K_m``, which multiplies by the kernels in turn."""

    def __init__(self, kernels: KernelStack, weights: ArrayLike, which: Which = None) -> None:
        self.kernels = kernels
        self.weights = np.asarray(weights, dtype=np.float64)
        self.which = which
        self.n_kernels = 1
        self.n_samples = kernels.n_samples

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        if vectors.ndim == 3:  # of the only kernel
            vectors = vectors[0]
        products = self.kernels.block_products(vectors, self.which)
        return np.tensordot(self.weights, products, axes=1)[None]

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        return self.kernels.combine(np.asarray(weights)[0] * self.weights, self.which, samples)

    def diagonals(self, which: Which = None) -> np.ndarray:
        return (self.weights @ self.kernels.diagonals(self.which))[None]


class RestrictedView(KernelStack):
    """The kernels of a stack on some samples, without a copy: vectors are padded with zeros."""

    def __init__(self, stack: KernelStack, samples: np.ndarray) -> None:
        self.stack = stack
        self.samples = np.asarray(samples)
        self.n_kernels = stack.n_kernels
        self.n_samples = len(self.samples)
        self.sums_entries = stack.sums_entries
        self.concurrent = stack.concurrent

    def filled(self, vectors: np.ndarray) -> np.ndarray:
        """Pad vectors (..., n) with zeros to vectors (..., N) of the whole stack."""
        full = np.zeros((*vectors.shape[:-1], self.stack.n_samples))
        full[..., self.samples] = vectors
        return full

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.block_quadratics(self.filled(vectors), which)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.block_products(self.filled(vectors), which)[..., self.samples]

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        # by rows: the full matrix may not fit into memory
        rows = self.samples if samples is None else self.samples[samples]
        # unlike indexing, np.take leaves the entries of a row contiguous
        return np.take(self.stack.combine(weights, which, rows), self.samples, axis=1)

    def packed(self, m: int) -> np.ndarray:
        if 4 * self.n_samples < self.stack.n_samples:  # a whole kernel may not fit into memory
            return super().packed(m)
        return self.stack.packed(m).take(self._entries)

    @cached_property
    def _entries(self) -> np.ndarray:
        return packed_entries(self.samples)

    def diagonals(self, which: Which = None) -> np.ndarray:
        return self.stack.diagonals(which)[:, self.samples]

    def summed(self, weights: ArrayLike, which: Which = None) -> RestrictedView:
        return RestrictedView(self.stack.summed(weights, which), self.samples)


class ReplicatedStack(KernelStack):
    r"""The kernels :math:`I_P \otimes K_m`, on P consecutive copies of all samples.

    Kernel values between different copies are zero. So each copy has its own function in every
    kernel, and the norm of a kernel is the norm of all its P functions. Only one block is stored.
    """

    def __init__(self, stack: KernelStack, n_parts: int) -> None:
        self.stack = stack
        self.n_parts = n_parts
        self.n_kernels = stack.n_kernels
        self.n_samples = n_parts * stack.n_samples
        self.sums_entries = stack.sums_entries
        self.concurrent = stack.concurrent

    def _vectors_of_copies(self, vectors: np.ndarray) -> np.ndarray:
        """Return vectors (..., R, P N) as (..., R P, N)."""
        *first, n_vectors, _ = vectors.shape
        return vectors.reshape(*first, n_vectors * self.n_parts, self.stack.n_samples)

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self.stack.block_quadratics(self._vectors_of_copies(vectors), which)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        products = self.stack.block_products(self._vectors_of_copies(vectors), which)
        return products.reshape(len(products), vectors.shape[-2], self.n_samples)

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        if samples is None:
            samples = np.arange(self.n_samples)
        copies, samples_of_copies = np.divmod(samples, self.stack.n_samples)
        n_rows = len(samples)
        rows = np.zeros((n_rows, self.n_parts, self.stack.n_samples))
        rows[np.arange(n_rows), copies] = self.stack.combine(weights, which, samples_of_copies)
        return rows.reshape(n_rows, self.n_samples)

    def diagonals(self, which: Which = None) -> np.ndarray:
        return np.tile(self.stack.diagonals(which), self.n_parts)

    def traces(self, which: Which = None) -> np.ndarray:
        return self.n_parts * self.stack.traces(which)

    def summed(self, weights: ArrayLike, which: Which = None) -> ReplicatedStack:
        return ReplicatedStack(self.stack.summed(weights, which), self.n_parts)


class PartOfStack(NamedTuple):
    """Some kernels of a stack that consists of several stacks.

    Attributes
    ----------
    stack : KernelStack
        The stack that holds the kernels.
    positions : int array of shape (k,) or slice
        Their positions among the kernels that were asked for.
    indices : int array of shape (k,)
        Their indices in ``stack``.
    """

    stack: KernelStack
    positions: np.ndarray | slice
    indices: np.ndarray


class PartedStack(KernelStack):
    """Base of stacks that consist of several stacks."""

    @abstractmethod
    def _parts_of(self, which: Which) -> Iterable[PartOfStack]:
        """Yield the parts that hold these kernels."""

    def _gather(
        self, which: Which, values_of: Callable[[PartOfStack], np.ndarray], *shape: int
    ) -> np.ndarray:
        """Collect ``values_of(part)`` of all parts, in the order of ``which``: (k, *shape)."""
        values = np.zeros((len(self._indices(which)), *shape))
        for part in self._parts_of(which):
            values[part.positions] = values_of(part)
        return values

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self._gather(which, lambda part: part.stack.block_quadratics(vectors, part.indices))

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        def multiply(part: PartOfStack) -> np.ndarray:
            if vectors.ndim == 2:  # the same for all kernels
                return part.stack.block_products(vectors, part.indices)
            return part.stack.block_products(vectors[part.positions], part.indices)

        return self._gather(which, multiply, vectors.shape[-2], self.n_samples)

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        weights = np.asarray(weights)
        total = np.zeros((self._count_rows(samples), self.n_samples))
        for part in self._parts_of(which):
            total += part.stack.combine(weights[part.positions], part.indices, samples)
        return total

    def packed(self, m: int) -> np.ndarray:
        for part in self._parts_of([m]):
            return part.stack.packed(part.indices[0])
        return np.zeros(packed_length(self.n_samples))

    def diagonals(self, which: Which = None) -> np.ndarray:
        return self._gather(which, lambda part: part.stack.diagonals(part.indices), self.n_samples)

    def traces(self, which: Which = None) -> np.ndarray:
        return self._gather(which, lambda part: part.stack.traces(part.indices))


class MixedStack(PartedStack):
    """Union of several stacks on the same samples.

    Parameters
    ----------
    stacks : sequence of KernelStack
    indices : int array of shape (M,), optional
        Index of each kernel of the first stack, then of the second and so on; consecutive by
        default.
    in_use : bool array of shape (M,), optional
        Mask of the kernels in use; the others count as zero and are never evaluated. All by
        default.
    """

    def __init__(
        self, stacks: Sequence[KernelStack], indices: Which = None, in_use: np.ndarray | None = None
    ) -> None:
        self.stacks = list(stacks)
        self.n_samples = self.stacks[0].n_samples
        sizes = [stack.n_kernels for stack in self.stacks]
        self.n_kernels = sum(sizes)
        self.sums_entries = any(stack.sums_entries for stack in self.stacks)
        self.concurrent = all(stack.concurrent for stack in self.stacks)
        self.in_use = in_use
        self.indices = self._indices(indices)
        # for each kernel its stack, or NO_STACK, and its index there
        self._stack_of = np.empty(self.n_kernels, dtype=np.int64)
        self._stack_of[self.indices] = np.repeat(np.arange(len(sizes)), sizes)
        self._index_in_stack = np.empty(self.n_kernels, dtype=np.int64)
        self._index_in_stack[self.indices] = np.concatenate([np.arange(size) for size in sizes])
        if in_use is not None:
            self._stack_of[~in_use] = NO_STACK

    def _parts_of(self, which: Which) -> Iterator[PartOfStack]:
        which = self._indices(which)
        stacks = self._stack_of[which]
        for s, stack in enumerate(self.stacks):
            positions = np.flatnonzero(stacks == s)
            if len(positions):
                indices = self._index_in_stack[which[positions]]
                yield PartOfStack(stack=stack, positions=positions, indices=indices)

    def summed(self, weights: ArrayLike, which: Which = None) -> KernelStack:
        weights = np.asarray(weights)
        sums = []
        for part in self._parts_of(which):
            sums.append(part.stack.summed(weights[part.positions], part.indices))
        if len(sums) == 1:
            return sums[0]
        if not sums:
            return WeightedSum(self, [], np.arange(0))
        return WeightedSum(MixedStack(sums), np.ones(len(sums)))

    def restricted(self, samples: np.ndarray) -> MixedStack:
        stacks = [stack.restricted(samples) for stack in self.stacks]
        return MixedStack(stacks, self.indices, self.in_use)


class FactoredStack(KernelStack):
    """Kernels :math:`K_m = F_m F_m'`. Sums are in float64 for any precision of the storage.

    Parameters
    ----------
    factors : sequence of arrays of shape (N, r_m)
        Ranks may differ, and may be 0.
    dtype : {numpy.float32, numpy.float64}
        Precision of the storage.

    Attributes
    ----------
    nbytes : int
        Bytes of the factors.
    """

    concurrent = True

    def __init__(self, factors: Sequence[np.ndarray], dtype: DTypeLike = np.float64) -> None:
        self._allocate([factor.shape[1] for factor in factors], len(factors[0]), dtype)
        np.concatenate([factor.T for factor in factors], out=self.rows, casting="same_kind")

    @classmethod
    def from_kernels(
        cls, kernels: Sequence[Kernel], X: Vectors, dtype: DTypeLike = np.float32
    ) -> FactoredStack:
        """Compute the features of kernels in blocks of samples: no factor is in memory twice.

        Parameters
        ----------
        kernels : sequence of Kernel
            Fitted kernels, with columns by position.
        X : array or CSR matrix of shape (N, d)
        dtype : {numpy.float32, numpy.float64}
        """
        stack = cls.__new__(cls)
        n_samples, n_columns = X.shape
        ranks = []
        for kernel in kernels:
            ranks.append(kernel.feature_count(len(kernel.places(n_columns))) or 0)
        needed = sum(ranks) * n_samples * np.dtype(dtype).itemsize
        require_bytes(needed, f"{len(kernels)} factors of {n_samples} samples")
        stack._allocate(ranks, n_samples, dtype)
        for kernel, start, stop in zip(kernels, stack.starts, stack.starts[1:]):
            for block in row_blocks(n_samples, stop - start, np.float64):
                features = as_dense(kernel.features(kernel.view(X[block])))
                stack.rows[start:stop, block] = features.T
        return stack

    def _allocate(self, ranks: ArrayLike, n_samples: int, dtype: DTypeLike) -> None:
        """Make room for factors of these ranks (M,).

        The columns of the factor of kernel m are the rows ``starts[m] : starts[m + 1]``, each (N,).
        """
        self.n_samples = n_samples
        self.starts = np.concatenate([[0], np.cumsum(ranks)]).astype(np.int64)
        self.n_kernels = len(self.starts) - 1
        self.rows = np.empty((self.starts[-1], n_samples), dtype=dtype)
        self.nbytes = self.rows.nbytes

    def restricted(self, samples: np.ndarray) -> FactoredStack:
        stack = FactoredStack.__new__(FactoredStack)
        stack._allocate(np.diff(self.starts), len(samples), self.rows.dtype)
        np.take(self.rows, samples, axis=1, out=stack.rows)
        return stack

    def _chosen(self, which: Which) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return indices of kernels (k,), of their rows (R,), and each row's index in ``which``."""
        which = self._indices(which)
        ranks = np.diff(self.starts)[which]
        kernel_of_row = np.repeat(np.arange(len(which)), ranks)
        columns = np.arange(len(kernel_of_row)) - np.repeat(np.cumsum(ranks) - ranks, ranks)
        return which, self.starts[which][kernel_of_row] + columns, kernel_of_row

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which, rows, kernel_of_row = self._chosen(which)
        products = np.empty(len(rows))
        squares = np.zeros(len(rows))
        for vector in np.asarray(vectors, dtype=np.float64):
            dots(self.rows, rows, vector, products)
            squares += products**2
        return np.bincount(kernel_of_row, weights=squares, minlength=len(which))

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        which = self._indices(which)
        products = []
        for p in range(vectors.shape[-2]):
            # a vector for all kernels, or one for each: (1, N) or (k, N)
            vector = np.atleast_2d(np.ascontiguousarray(vectors[..., p, :]))
            products_of_vector = np.zeros((len(which), self.n_samples))
            factor_products(self.rows, self.starts, which, vector, products_of_vector)
            products.append(products_of_vector)
        return np.stack(products, axis=1)

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        _, rows, kernel_of_row = self._chosen(which)
        weights_of_rows = np.asarray(weights, dtype=np.float64)[kernel_of_row]
        n_rows = self._count_rows(samples)
        total = np.zeros((n_rows, self.n_samples))
        # a block of rows takes no more memory than the result
        step = min(BLOCK_ROWS, max(n_rows, 16))
        for low in range(0, len(rows), step):
            block = self.rows[rows[low : low + step]].astype(np.float64)
            columns_of_samples = block if samples is None else block[:, samples]
            total += (columns_of_samples.T * weights_of_rows[low : low + step]) @ block
        return total

    def diagonals(self, which: Which = None) -> np.ndarray:
        which = self._indices(which)
        diagonals = np.empty((len(which), self.n_samples))
        for k, m in enumerate(which):
            factor = self.rows[self.starts[m] : self.starts[m + 1]]
            diagonals[k] = np.einsum("ri,ri->i", factor, factor, dtype=np.float64)
        return diagonals

    def traces(self, which: Which = None) -> np.ndarray:
        which, rows, kernel_of_row = self._chosen(which)
        squares = np.einsum("ri,ri->r", self.rows, self.rows, dtype=np.float64)[rows]
        return np.bincount(kernel_of_row, weights=squares, minlength=len(which))


def affordable_rank(n_kernels: int, n_samples: int, dtype: DTypeLike) -> int:
    """Return the rank at which factors of ``n_kernels`` take half of free memory."""
    bytes_of_rank_one = n_kernels * n_samples * np.dtype(dtype).itemsize
    return int(min(free_bytes() // (2 * bytes_of_rank_one), n_samples))


def require_bytes(needed: float, what: str) -> None:
    """Raise an InputError that names ``what`` unless enough bytes are free."""
    free = free_bytes()
    if needed > free:
        raise InputError(
            f"{what} need {needed / 2**30:.1f} GiB, but {free / 2**30:.1f} GiB are free: use "
            "float32, FactoredStack, LazyStack, or fewer samples."
        )


def free_bytes() -> float:
    """Return the bytes of memory that are free; infinite if unknown."""
    with suppress(OSError), open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable"):
                _, kibibytes, _ = line.split()
                return int(kibibytes) * 1024
    return np.inf
