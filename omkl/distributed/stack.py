"""Stacks of kernels that are distributed over the workers of a Dask cluster.

They have the usual interface of stacks. Each worker stores a partition of the kernels. For a pass
over all kernels, each worker receives one vector and returns norms. Between passes, a solver uses a
few kernels many times, and messages would cost more than computations. Therefore these kernels are
fetched, and cached within a budget of bytes. If the budget is too small, the workers do the
computations.

A partition is the result of a task, which Dask repeats if its worker is lost.

The last digits of sums over partitions depend on the number of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from omkl.distributed.cluster import (
    current_client,
    gathered,
    large_graphs,
    submitted,
    unpinned,
    workers_of,
)
from omkl.exceptions import InputError
from omkl.kernels import Kernel, PackedStack, as_kernel
from omkl.kernels._jit_stack import pack
from omkl.kernels.gram import checked_gram
from omkl.kernels.packed import KernelCache, packed_bytes, packed_kernels
from omkl.kernels.stack import KernelStack, Which

if TYPE_CHECKING:
    from distributed import Client as Client
    from distributed import Future


class DistributedStack(KernelStack):
    """Kernels on the same samples, distributed over the workers of a Dask cluster.

    Constructed by :meth:`from_kernels` or :meth:`from_grams`.

    Parameters
    ----------
    client : dask.distributed.Client
        With ``direct_to_workers=True``, messages do not go through the scheduler.
    n_kernels, n_samples : int
    dtype : {numpy.float32, numpy.float64}
        Precision of the storage; sums are in float64.
    make : callable
        ``make(part, worker)`` submits a task that makes a :class:`~omkl.kernels.PackedStack` of a
        range of kernels.
    budget : int
        Maximum number of bytes of kernels cached in this process.

    Raises
    ------
    omkl.exceptions.DistributionError
        If the scheduler cannot be reached, there are no workers, or workers are lost repeatedly.
    omkl.exceptions.InputError
        If there are no kernels.
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
        self.n_kernels = n_kernels
        self.n_samples = n_samples
        self.dtype = np.dtype(dtype)
        self.client = client
        self.workers = workers_of(client)[:n_kernels]
        self._bounds = np.linspace(0, n_kernels, len(self.workers) + 1).astype(np.int64)
        self.partitions = []
        for worker, (low, high) in zip(self.workers, pairwise(self._bounds.tolist())):
            self.partitions.append(make(range(low, high), worker))
        self._length = n_samples * (n_samples + 1) // 2
        self._cache = KernelCache(n_kernels, n_samples, self.dtype, budget, self._fetch)
        unpinned(client, self.partitions)
        self.traces()  # raises errors in the computation of partitions

    @classmethod
    def from_kernels(
        cls,
        kernels: Iterable[Kernel | str],
        X: ArrayLike | sparse.sparray | sparse.spmatrix,
        client: Client,
        dtype: DTypeLike = np.float32,
        budget: int = 2**26,
    ) -> DistributedStack:
        """Make a stack of kernels on data; each worker computes the kernels that it stores.

        Parameters
        ----------
        kernels : iterable of Kernel or str
            Kernels, which are fitted to X. ``on`` must be None, a slice, or a tuple of columns.
        X : array or sparse matrix of shape (N, d)
        client, dtype, budget
            As for the class.
        """
        workers_of(client)
        from distributed.protocol.pickle import dumps

        X = X.tocsr() if sparse.issparse(X) else np.asarray(X, np.float64)
        kernels = [as_kernel(kernel) for kernel in kernels]
        try:
            # as one object, because Dask is slow for lists of thousands of objects
            sent = dumps((kernels, X))
        except Exception as error:
            raise InputError(
                f"The kernels cannot be sent to workers ({error}): define them in a module."
            ) from None

        def make(part: range, worker: str) -> Future:
            return submitted(client, _computed, sent, part, np.dtype(dtype), worker=worker)

        return cls(client, len(kernels), X.shape[0], dtype, make, budget)

    @classmethod
    def from_grams(
        cls,
        grams: Sequence[Any],
        client: Client | None,
        dtype: DTypeLike = np.float32,
        budget: int = 2**26,
        n_rows: int | None = None,
        samples: np.ndarray | None = None,
    ) -> DistributedStack:
        """Make a stack of given Gram matrices.

        They are checked and packed one at a time, each where it is.

        Parameters
        ----------
        grams : sequence of M arrays of shape (N, N), or array of shape (M, N, N)
            Workers compute ``dask.delayed`` objects and ``dask.array`` among them.
        client, dtype, budget
            As for the class; the client that was created last by default.
        n_rows : int, optional
            Size N, which is not known of ``dask.delayed`` objects.
        samples : int array, optional
            Rows and columns of each matrix to keep.
        """
        import dask

        client = current_client(client)
        if n_rows is None:
            n_rows = len(next(iter(grams), ()))
        n_samples = n_rows if samples is None else len(samples)

        def make(part: range, worker: str) -> Future:
            rows = []
            for m in part:
                is_here = isinstance(grams[m], np.ndarray)
                call = _packed if is_here else dask.delayed(_packed)
                rows.append(call(grams[m], m, n_rows, samples, np.dtype(dtype)))
            with large_graphs():
                stack = dask.delayed(PackedStack)(dask.delayed(np.array)(rows))
                return client.compute(stack, workers=[worker], allow_other_workers=True)

        return cls(client, len(grams), n_samples, dtype, make, budget)

    @property
    def nbytes(self) -> int:
        """Total bytes of the kernels on all workers."""
        return packed_bytes(self.n_kernels, self.n_samples, self.dtype)

    def block_quadratics(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        return self._gather(PackedStack.block_quadratics, which, (), vectors)

    def block_products(self, vectors: np.ndarray, which: Which = None) -> np.ndarray:
        if self._cache.fits(which):
            return self._cache.stack.block_products(vectors, self._cache.indices(which))
        shape = (vectors.shape[-2], self.n_samples)
        return self._gather(PackedStack.block_products, which, shape, vectors)

    def diagonals(self, which: Which = None) -> np.ndarray:
        if self._cache.fits(which):
            return self._cache.stack.diagonals(self._cache.indices(which))
        return self._gather(PackedStack.diagonals, which, (self.n_samples,))

    def traces(self, which: Which = None) -> np.ndarray:
        return self._gather(PackedStack.traces, which, ())

    def combine(
        self, weights: ArrayLike, which: Which = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        return self.summed(weights, which).combine(np.ones(1), samples=samples)

    def summed(self, weights: ArrayLike, which: Which = None) -> PackedStack:
        weights = np.asarray(weights, dtype=np.float64)
        if self._cache.fits(which):
            return self._cache.stack.summed(weights, self._cache.indices(which))
        sums = []
        for s, positions, local in self._split(which):
            sums.append(self._submit(s, PackedStack.packed_sum, weights[positions], local))
        total = sum(gathered(self.client, sums), np.zeros(self._length))
        return PackedStack(total[None])

    def _split(self, which: Which) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """Yield partitions with some of these kernels, and positions in ``which`` and in them."""
        which = self._indices(which)
        owners = np.searchsorted(self._bounds, which, side="right") - 1
        for s in np.unique(owners).tolist():
            positions = np.flatnonzero(owners == s)
            yield s, positions, which[positions] - self._bounds[s]

    def _submit(self, s: int, function: Callable, *arguments: np.ndarray) -> Future:
        """Submit a call of a method of the stack of partition ``s``, to where this is."""
        return submitted(self.client, _call, function, self.partitions[s], *arguments)

    def _gather(
        self,
        function: Callable,
        which: Which,
        shape: tuple[int, ...],
        vectors: np.ndarray | None = None,
    ) -> np.ndarray:
        """Collect the results of a method for each kernel, (number of kernels, *shape).

        Three-dimensional ``vectors`` have a block per kernel.
        """
        calls = []
        positions_of_calls = []
        for s, positions, local in self._split(which):
            arguments = [local]
            if vectors is not None:
                arguments = [vectors if vectors.ndim == 2 else vectors[positions], local]
            calls.append(self._submit(s, function, *arguments))
            positions_of_calls.append(positions)
        dtype = self.dtype if function is _rows else np.float64
        result = np.empty((len(self._indices(which)), *shape), dtype)
        for positions, values in zip(positions_of_calls, gathered(self.client, calls)):
            result[positions] = values
        return result

    def _fetch(self, which: np.ndarray) -> np.ndarray:
        """Fetch packed kernels, (k, N (N + 1) / 2)."""
        return self._gather(_rows, which, (self._length,))


def _computed(sent: bytes, part: range, dtype: np.dtype) -> PackedStack:
    """Compute a range of kernels, on a worker."""
    from distributed.protocol.pickle import loads

    kernels, X = loads(sent)
    return PackedStack(packed_kernels(kernels[part.start : part.stop], X, dtype))


def _packed(
    gram: ArrayLike, m: int, n_rows: int, samples: np.ndarray | None, dtype: np.dtype
) -> np.ndarray:
    """Check the Gram matrix of kernel m, (n_rows, n_rows), and pack it for some samples."""
    gram = checked_gram(gram, m, n_rows)
    if samples is not None:
        gram = gram[np.ix_(samples, samples)]
    row = np.empty(len(gram) * (len(gram) + 1) // 2, dtype)
    pack(gram, row)
    return row


def _call(function: Callable, stack: PackedStack, *arguments: np.ndarray) -> np.ndarray:
    """Call a method of a stack on a worker, with writable copies of the received arrays."""
    return function(stack, *map(np.array, arguments))


def _rows(stack: PackedStack, which: np.ndarray) -> np.ndarray:
    return stack.rows[which]
