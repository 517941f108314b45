"""Stacks of kernels that are partitioned over the workers of a Dask cluster: a solver sees a stack like any other.

Each worker holds its partition of the kernels for good. A pass over all kernels sends one vector to each worker, and
norms come back. The few kernels that a solver works on between passes are fetched, and kept within a budget of bytes:
they are asked about many times in a row, when a message costs more than the answer. Workers are idle then, and all
processors of this machine take part. Where more kernels are asked about than the budget holds, the workers answer, too,
and vectors come back.

What concerns one kernel has the same bits as on one machine. So have sums of kernels that are kept; sums over
partitions are added in the order of the kernels, and so depend on the number of partitions in their last digits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl._cache import RecentlyUsed
from omkl.distributed.cluster import workers_of
from omkl.distributed.partitions import Call, KernelSpec, WorkerPartitions
from omkl.exceptions import InputError
from omkl.kernels import Kernel, PackedStack, as_kernel, checked_gram
from omkl.kernels._jit_stack import pack, unpack
from omkl.kernels.stack import KernelStack, Which

if TYPE_CHECKING:
    from distributed import Client

#: Bytes of one message of packed kernels.
MESSAGE = 2**24

#: A function of a range of kernels: its iterator gives the calls that fill a partition with them.
Recipe = Callable[[range], Iterator[Call]]


class DistributedStack(KernelStack):
    """Kernels on the same samples, partitioned over the workers of a Dask cluster.

    Parameters
    ----------
    client : dask.distributed.Client
        Made with ``direct_to_workers=True`` it spares messages the way through the scheduler.
    n_kernels, n_samples : int
    dtype : {numpy.float32, numpy.float64}
        Of the storage; sums are in float64.
    recipe : callable
        A function of a range of kernels: its iterator gives the calls that fill a partition with them; see
        :class:`~omkl.distributed.partitions.WorkerPartitions`.
    budget : int
        Bytes that kernels fetched from workers may take here.

    Raises
    ------
    omkl.exceptions.DistributionError
        If the scheduler cannot be reached, there are no workers, or they are lost again and again.
    omkl.exceptions.InputError
        If there are no kernels, or a partition does not fit into its worker's memory.
    """

    sums_entries = True

    def __init__(
        self, client: Client, n_kernels: int, n_samples: int, dtype: DTypeLike, recipe: Recipe, budget: int = 2**26
    ) -> None:
        if not n_kernels:
            raise InputError("There are no kernels: give at least one.")
        self.n_kernels, self.n_samples, self.dtype = n_kernels, n_samples, np.dtype(dtype)
        n_partitions = min(len(workers_of(client)), n_kernels)
        self._bounds = np.linspace(0, n_kernels, n_partitions + 1).astype(np.int64)
        parts = [range(low, high) for low, high in zip(self._bounds.tolist(), self._bounds[1:].tolist())]
        self._partitions = WorkerPartitions(client, [partial(recipe, part) for part in parts])
        self._cache = _KernelCache(n_kernels, n_samples, self.dtype, budget)

    @classmethod
    def from_kernels(
        cls,
        kernels: Iterable[Kernel | str],
        X: Any,
        client: Client,
        dtype: DTypeLike = np.float32,
        budget: int = 2**26,
    ) -> DistributedStack:
        """Kernels on data, computed by the workers that hold them.

        Parameters
        ----------
        kernels : iterable of Kernel or str
            They are fitted to X; ``on`` may be None, a slice, or a tuple of columns.
        X : array or sparse matrix of shape (N, d)
        client, dtype, budget
            As for the class.
        """
        X = X.tocsr() if sparse.issparse(X) else np.asarray(X, np.float64)
        spec = KernelSpec([as_kernel(kernel) for kernel in kernels], X, np.dtype(dtype))
        workers_of(client)
        _require_sendable(spec)

        def recipe(part):
            yield "compute", spec, part

        return cls(client, len(spec.kernels), X.shape[0], dtype, recipe, budget)

    @classmethod
    def from_grams(
        cls, grams: Sequence[np.ndarray], client: Client, dtype: DTypeLike = np.float32, budget: int = 2**26
    ) -> DistributedStack:
        """Given Gram matrices: checked and packed here a few at a time, and sent.

        Parameters
        ----------
        grams : sequence of M arrays of shape (N, N), or array of shape (M, N, N)
            Kept, not copied, in case a worker is lost.
        client, dtype, budget
            As for the class.
        """
        n, dtype = len(grams[0]) if len(grams) else 0, np.dtype(dtype)
        length = n * (n + 1) // 2
        step = max(1, MESSAGE // max(length * dtype.itemsize, 1))

        def recipe(part):
            yield "reserve", len(part), n, dtype
            for low in range(0, len(part), step):
                piece = part[low : low + step]
                rows = np.empty((len(piece), length), dtype=dtype)
                for row, m in zip(rows, piece):
                    pack(checked_gram(grams[m], m, n), 0, row)
                yield "fill", low, rows

        return cls(client, len(grams), n, dtype, recipe, budget)

    # ---- memory -------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels, on all workers together."""
        return sum(self.bytes_by_worker().values())

    def bytes_by_worker(self) -> dict[str, int]:
        """Bytes of the kernels that each worker holds, by its address."""
        sizes = self._partitions.ask({s: ("nbytes",) for s in range(len(self._bounds) - 1)})
        totals = dict.fromkeys(self._partitions.addresses, 0)
        for address, size in zip(self._partitions.addresses, sizes):
            totals[address] += size
        return totals

    @property
    def cached_bytes(self) -> int:
        """Bytes of the kernels that were fetched and are kept here."""
        return self._cache.nbytes

    # ---- what solvers ask ---------------------------------------------------------------------------------------

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._gather("quadratics", which, (), vector)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        if self._cache.fits(which):
            return self._cache.stack.products(vectors, self._cache.indices(which, self._fetch))
        return self._gather("products", which, (self.n_samples,), vectors)

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._gather("block_quadratics", which, (), vectors, 2)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        if self._cache.fits(which):
            return self._cache.stack.block_products(vectors, self._cache.indices(which, self._fetch))
        return self._gather("block_products", which, vectors.shape[-2:], vectors, 2)

    def diagonals(self, which: Which = None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        if self._cache.fits(which):
            return self._cache.stack.diagonals(self._cache.indices(which, self._fetch))
        return self._gather("diagonals", which, (self.n_samples,))

    def traces(self, which: Which = None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._gather("traces", which, ())

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        if self._cache.fits(which):
            return self._cache.stack.combine(weights, self._cache.indices(which, self._fetch), samples)
        total = DistributedSum(self, weights, which)
        return total.combine(np.ones(1), samples=samples)

    def summed(self, weights: ArrayLike, which: Which = None) -> KernelStack:
        """See :class:`~omkl.kernels.KernelStack`."""
        if self._cache.fits(which):
            return self._cache.stack.summed(weights, self._cache.indices(which, self._fetch))
        return DistributedSum(self, weights, which)

    # ---- asking the workers -------------------------------------------------------------------------------------

    def split(self, which: Which) -> Iterator[tuple[int, np.ndarray | slice, np.ndarray | None]]:
        """For each partition that holds any of these kernels: its number, their positions in ``which``, and in it."""
        if which is None:
            for s, (low, high) in enumerate(zip(self._bounds, self._bounds[1:])):
                yield s, slice(low, high), None
            return
        which = np.asarray(which, dtype=np.int64)
        owners = np.searchsorted(self._bounds, which, side="right") - 1
        for s in np.unique(owners).tolist():
            at = np.flatnonzero(owners == s)
            yield s, at, which[at] - self._bounds[s]

    def ask(self, calls: Mapping[int, Call]) -> list:
        """Call methods of partitions: see :meth:`~omkl.distributed.partitions.WorkerPartitions.ask`."""
        return self._partitions.ask(calls)

    def _fetch(self, which: np.ndarray) -> np.ndarray:
        """Packed kernels: (k, N (N + 1) / 2)."""
        parts = list(self.split(which))
        rows = np.empty((len(which), self.n_samples * (self.n_samples + 1) // 2), dtype=self.dtype)
        for (_, at, _), values in zip(parts, self.ask({s: ("rows", local) for s, _, local in parts})):
            rows[at] = values
        return rows

    def _gather(
        self, method: str, which: Which, shape: tuple[int, ...], vectors: np.ndarray | None = None, ndim: int = 1
    ) -> np.ndarray:
        """Results of a partition method for each kernel; ``vectors`` with ``ndim`` axes are for all kernels."""
        parts = list(self.split(which))
        result = np.empty((self.n_kernels if which is None else len(which), *shape))
        calls = {}
        for s, at, local in parts:
            own = () if vectors is None else (vectors if np.ndim(vectors) == ndim else vectors[at],)
            calls[s] = (method, *own, local)
        for (_, at, _), values in zip(parts, self.ask(calls)):
            result[at] = values
        return result


class DistributedSum(KernelStack):
    """A stack of the single kernel ``sum_m w_m K_m``: each worker keeps the sum over its partition, and vectors travel.

    Parameters
    ----------
    kernels : DistributedStack
    weights : array of shape (k,)
    which : int array of shape (k,), or None
    """

    def __init__(self, kernels: DistributedStack, weights: ArrayLike, which: Which) -> None:
        weights = np.asarray(weights, dtype=np.float64)
        self.kernels, self.n_kernels, self.n_samples = kernels, 1, kernels.n_samples
        self._parts = {s: (weights[at], local) for s, at, local in kernels.split(which)}

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self._total("sum_product", (self.n_samples,), vectors.reshape(-1))[None]

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        vectors = vectors.reshape(vectors.shape[-2:])
        return self._total("sum_block_product", vectors.shape, vectors)[None]

    def diagonals(self, which: Which = None) -> np.ndarray:
        return self._total("sum_diagonal", (self.n_samples,))[None]

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        n, [weight] = self.n_samples, np.asarray(weights)
        if samples is not None:
            return weight * self._total("sum_rows", (len(samples), n), samples)
        matrix = np.empty((n, n))  # it travels once from each worker, packed
        unpack(weight * self._total("packed_sum", (n * (n + 1) // 2,)), matrix)
        return matrix

    def _total(self, method: str, shape: tuple[int, ...], *arguments: np.ndarray) -> np.ndarray:
        total = np.zeros(shape)
        # in the order of the partitions, whichever is the first
        for part in self.kernels.ask({s: (method, *own, *arguments) for s, own in self._parts.items()}):
            total += part
        return total


class _KernelCache:
    """Packed kernels fetched from the workers, the latest used of them kept: as many as a budget of bytes holds."""

    def __init__(self, n_kernels: int, n_samples: int, dtype: np.dtype, budget: int) -> None:
        length = n_samples * (n_samples + 1) // 2
        self._recent = RecentlyUsed(min(budget // (length * dtype.itemsize), n_kernels))
        # what is not written yet takes no memory
        self.stack = PackedStack(np.empty((self._recent.capacity, length), dtype=dtype), n_jobs=os.cpu_count() or 1)

    @property
    def nbytes(self) -> int:
        return len(self._recent) * self.stack.length * self.stack.rows.itemsize

    def fits(self, which: Which) -> TypeGuard[Sequence[int] | np.ndarray]:
        """Check if the cache can hold these kernels; None means all kernels, which stay on the workers."""
        return which is not None and len(which) <= self._recent.capacity

    def indices(self, which: Sequence[int] | np.ndarray, fetch: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The rows of ``stack`` with these kernels, once those that are missing are fetched: int array (k,)."""

        def fill(kernels: list, rows: list[int]) -> None:
            self.stack.rows[rows] = fetch(np.array(kernels))

        return np.array(self._recent.indices(np.asarray(which).tolist(), fill), dtype=np.int64)


def _require_sendable(spec: KernelSpec) -> None:
    """Raise an InputError where kernels cannot be sent; Dask would wait for an answer for ever."""
    from distributed.protocol import serialize

    try:
        serialize(spec, on_error="raise")
    except Exception as error:
        raise InputError(f"The kernels cannot be sent to workers ({error}): define them in a module.") from None
