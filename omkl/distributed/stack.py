"""Stacks of kernels that are partitioned over the workers of a Dask cluster: a solver sees a stack like any other.

Each worker holds its partition of the kernels. A pass over all kernels sends one vector to each worker, and norms come
back. The few kernels that a solver works on between passes are fetched, and kept within a budget of bytes: they are
asked about many times in a row, when a message costs more than the answer. Where more kernels are asked about than the
budget holds, the workers answer, too, and vectors come back.

A partition is the result of a task. Dask computes it again if its worker is lost.

Values of one kernel have the same bits as on one machine. So have sums of kernels that are kept; sums over partitions
are added in the order of the kernels, and so depend on the number of partitions in their last digits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl._cache import RecentlyUsed
from omkl.distributed.cluster import gathered, submitted, workers_of
from omkl.exceptions import InputError
from omkl.kernels import Kernel, PackedStack, as_kernel
from omkl.kernels._jit_stack import pack
from omkl.kernels.checks import checked_gram, packed_bytes
from omkl.kernels.packed import packed_kernels
from omkl.kernels.stack import KernelStack, Which

if TYPE_CHECKING:
    from distributed import Client, Future

#: Part of a worker's memory limit that may be in use, unless Dask pauses the worker before.
USABLE_FRACTION = 0.9


class DistributedStack(KernelStack):
    """Kernels on the same samples, partitioned over the workers of a Dask cluster.

    Made by :meth:`from_kernels` or :meth:`from_grams`.

    Parameters
    ----------
    client : dask.distributed.Client
        Made with ``direct_to_workers=True`` it spares messages the way through the scheduler.
    n_kernels, n_samples : int
    dtype : {numpy.float32, numpy.float64}
        Of the storage; sums are in float64.
    make : callable
        ``make(part, worker)`` submits the task that makes a :class:`~omkl.kernels.PackedStack` of a range of kernels.
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
        self,
        client: Client,
        n_kernels: int,
        n_samples: int,
        dtype: DTypeLike,
        make: Callable[[range, str], Future],
        budget: int = 2**26,
    ) -> None:
        if not n_kernels:
            raise InputError("There are no kernels: give at least one.")
        self.n_kernels, self.n_samples, self.dtype = n_kernels, n_samples, np.dtype(dtype)
        self.client, workers = client, workers_of(client)[:n_kernels]
        self._bounds = np.linspace(0, n_kernels, len(workers) + 1).astype(np.int64)
        parts = [range(low, high) for low, high in zip(self._bounds.tolist(), self._bounds[1:].tolist())]
        self.workers = workers
        self.partitions = [make(part, worker) for part, worker in zip(parts, workers)]
        self._cache = _KernelCache(n_kernels, n_samples, self.dtype, budget)
        self.traces()  # raises what goes wrong with a partition

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
        workers_of(client)
        from distributed.protocol.pickle import dumps

        X = X.tocsr() if sparse.issparse(X) else np.asarray(X, np.float64)
        kernels = [as_kernel(kernel) for kernel in kernels]
        try:
            sent = dumps((kernels, X))  # as one object: Dask takes long over a list of thousands
        except Exception as error:
            raise InputError(f"The kernels cannot be sent to workers ({error}): define them in a module.") from None

        def make(part, worker):
            return submitted(client, _computed, sent, part, np.dtype(dtype), worker=worker)

        return cls(client, len(kernels), X.shape[0], dtype, make, budget)

    @classmethod
    def from_grams(
        cls, grams: Sequence[np.ndarray], client: Client, dtype: DTypeLike = np.float32, budget: int = 2**26
    ) -> DistributedStack:
        """Given Gram matrices: checked and packed here, one partition after the other, and sent.

        They cannot be computed again if a worker is lost.

        Parameters
        ----------
        grams : sequence of M arrays of shape (N, N), or array of shape (M, N, N)
        client, dtype, budget
            As for the class.
        """

        n = len(grams[0]) if len(grams) else 0

        def make(part, worker):
            rows = np.empty((len(part), n * (n + 1) // 2), dtype=dtype)
            for row, m in zip(rows, part):
                pack(checked_gram(grams[m], m, n), 0, row)
            return submitted(client, _held, client.scatter(rows, workers=[worker], hash=False), worker=worker)

        return cls(client, len(grams), n, dtype, make, budget)

    @property
    def nbytes(self) -> int:
        """Bytes of the kernels, on all workers together."""
        return packed_bytes(self.n_kernels, self.n_samples, self.dtype)

    def quadratics(self, vector: np.ndarray, which: Which = None) -> np.ndarray:
        return self._gather("quadratics", which, (), vector)

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        if self._cache.fits(which):
            return self._cache.stack.products(vectors, self._cache.indices(which, self._fetch))
        return self._gather("products", which, (self.n_samples,), vectors)

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self._gather("block_quadratics", which, (), vectors, 2)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        if self._cache.fits(which):
            return self._cache.stack.block_products(vectors, self._cache.indices(which, self._fetch))
        return self._gather("block_products", which, vectors.shape[-2:], vectors, 2)

    def diagonals(self, which: Which = None) -> np.ndarray:
        if self._cache.fits(which):
            return self._cache.stack.diagonals(self._cache.indices(which, self._fetch))
        return self._gather("diagonals", which, (self.n_samples,))

    def traces(self, which: Which = None) -> np.ndarray:
        return self._gather("traces", which, ())

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        return self.summed(weights, which).combine(np.ones(1), samples=samples)

    def summed(self, weights: ArrayLike, which: Which = None) -> KernelStack:
        if self._cache.fits(which):
            return self._cache.stack.summed(weights, self._cache.indices(which, self._fetch))
        return DistributedSum(self, weights, which)

    def split(self, which: Which) -> Iterator[tuple[int, np.ndarray | slice, np.ndarray | None]]:
        """For each partition that holds any of these kernels: its number, their positions in ``which``, and in it.

        Parameters
        ----------
        which : int array of shape (k,), or None
        """
        if which is None:
            for s, (low, high) in enumerate(zip(self._bounds, self._bounds[1:])):
                yield s, slice(low, high), None
            return
        which = np.asarray(which, dtype=np.int64)
        owners = np.searchsorted(self._bounds, which, side="right") - 1
        for s in np.unique(owners).tolist():
            at = np.flatnonzero(owners == s)
            yield s, at, which[at] - self._bounds[s]

    def ask(self, stack: Future, s: int, method: str, *arguments: Any, **options: Any) -> Future:
        """Submit a call of a method of a stack that the worker of partition ``s`` holds."""
        return submitted(self.client, _asked, stack, method, *arguments, worker=self.workers[s], **options)

    def _fetch(self, which: np.ndarray) -> np.ndarray:
        """Packed kernels: (k, N (N + 1) / 2)."""
        parts = list(self.split(which))
        asked = [submitted(self.client, _rows, self.partitions[s], i, worker=self.workers[s]) for s, _, i in parts]
        rows = np.empty((len(which), self.n_samples * (self.n_samples + 1) // 2), dtype=self.dtype)
        for (_, at, _), values in zip(parts, gathered(self.client, asked)):
            rows[at] = values
        return rows

    def _gather(
        self, method: str, which: Which, shape: tuple[int, ...], vectors: np.ndarray | None = None, ndim: int = 1
    ) -> np.ndarray:
        """Results of a method for each kernel; ``vectors`` with ``ndim`` axes are for all kernels."""
        parts = list(self.split(which))
        asked = []
        for s, at, local in parts:
            own = () if vectors is None else (vectors if np.ndim(vectors) == ndim else vectors[at],)
            asked.append(self.ask(self.partitions[s], s, method, *own, which=local))
        result = np.empty((self.n_kernels if which is None else len(which), *shape))
        for (_, at, _), values in zip(parts, gathered(self.client, asked)):
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
        self._sums = {
            s: kernels.ask(kernels.partitions[s], s, "summed", weights[at], which=local)
            for s, at, local in kernels.split(which)
        }

    def products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self._total((1, self.n_samples), "products", vectors.reshape(-1))

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        vectors = vectors.reshape(vectors.shape[-2:])
        return self._total((1, *vectors.shape), "block_products", vectors)

    def diagonals(self, which: Which = None) -> np.ndarray:
        return self._total((1, self.n_samples), "diagonals")

    def combine(self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None) -> np.ndarray:
        shape = self.n_samples if samples is None else len(samples), self.n_samples
        return self._total(shape, "combine", np.asarray(weights, np.float64), samples=samples)

    def _total(self, shape: tuple[int, ...], method: str, *arguments: np.ndarray, **options: Any) -> np.ndarray:
        """The sum of what the workers answer, in the order of the partitions."""
        asked = [self.kernels.ask(own, s, method, *arguments, **options) for s, own in self._sums.items()]
        return sum(gathered(self.kernels.client, asked), np.zeros(shape))


class _KernelCache:
    """Packed kernels fetched from the workers, the latest used of them kept: as many as a budget of bytes holds."""

    def __init__(self, n_kernels: int, n_samples: int, dtype: np.dtype, budget: int) -> None:
        length = n_samples * (n_samples + 1) // 2
        self._recent = RecentlyUsed(min(budget // (length * dtype.itemsize), n_kernels))
        # what is not written yet takes no memory
        self.stack = PackedStack(np.empty((self._recent.capacity, length), dtype=dtype), n_jobs=os.cpu_count() or 1)

    def fits(self, which: Which) -> TypeGuard[Sequence[int] | np.ndarray]:
        """Check if the cache can hold these kernels; None means all kernels, which stay on the workers."""
        return which is not None and len(which) <= self._recent.capacity

    def indices(self, which: Sequence[int] | np.ndarray, fetch: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The rows of ``stack`` with these kernels, once those that are missing are fetched: int array (k,)."""

        def fill(kernels: list, rows: list[int]) -> None:
            self.stack.rows[rows] = fetch(np.array(kernels))

        return np.array(self._recent.indices(np.asarray(which).tolist(), fill), dtype=np.int64)


def _computed(sent: bytes, part: range, dtype: np.dtype) -> PackedStack:
    """Compute the kernels of a range, on a worker."""
    from distributed.protocol.pickle import loads

    kernels, X = loads(sent)
    _require_worker_memory(packed_bytes(len(part), X.shape[0], dtype))
    return _held(packed_kernels(kernels, X, dtype, part))


def _held(rows: np.ndarray) -> PackedStack:
    """Packed kernels as a stack that uses the threads of its worker."""
    from distributed import get_worker

    return PackedStack(np.require(rows, requirements="W"), n_jobs=get_worker().state.nthreads)


def _asked(stack: PackedStack, method: str, *arguments: np.ndarray, **options: np.ndarray | None) -> Any:
    """Call a method of a stack on a worker, with writable copies of the arrays that have come."""
    return getattr(stack, method)(*map(np.array, arguments), **options)


def _rows(stack: PackedStack, which: np.ndarray | None) -> np.ndarray:
    return stack.rows[which]


def _require_worker_memory(needed: int) -> None:
    """Raise an InputError where the worker's limit does not leave so many bytes; Dask would pause or end the worker."""
    from distributed import get_worker

    worker = get_worker()
    limit, pause = worker.memory_manager.memory_limit, worker.memory_manager.memory_pause_fraction
    if limit is None:
        return
    usable = min(USABLE_FRACTION, pause or USABLE_FRACTION) * limit
    free = max(usable - worker.monitor.get_process_memory(), 0)
    if needed > free:
        raise InputError(
            f"The worker {worker.address} cannot hold its kernels: they take {needed / 2**30:.2f} GiB, but its memory "
            f"limit leaves {free / 2**30:.2f} GiB."
        )
