"""Stacks of kernels that are partitioned over the workers of a Dask cluster: a solver sees a stack like any other.

Each worker holds its share of the kernels for good. A pass over all kernels sends one vector to each worker, and its
norms come back. The few kernels that a solver works on between passes are fetched, and kept within a budget of bytes:
they are asked about many times in a row, when a message costs more than the answer. Workers are idle then, and all
processors of this machine take part. Where more kernels are asked about than the budget holds, the workers answer, too,
and vectors come back.

What is a matter of one kernel has the same bits as on one machine. So have sums of kernels that are kept; sums over
shares are added in the order of the kernels, and so depend on the number of shares in their last digits.
"""

import os
from functools import partial

import numpy as np

from omkl._cluster import workers_of
from omkl.exceptions import InputError
from omkl.kernels._jit_stack import pack, unpack
from omkl.kernels.checks import checked_gram
from omkl.kernels.functions import as_kernel
from omkl.kernels.share import OnData
from omkl.kernels.stack import PackedStack
from omkl.kernels.worker_shares import WorkerShares

#: Bytes of one message of packed kernels.
MESSAGE = 2**24


class DistributedStack:
    """Kernels on the same samples, partitioned over the workers of a Dask cluster.

    Parameters
    ----------
    client : dask.distributed.Client
        Made with ``direct_to_workers=True`` it spares messages the way through the scheduler.
    n_kernels, n_samples : int
    dtype : {numpy.float32, numpy.float64}
        Of the storage; sums are in float64.
    recipe : callable
        A function of a range of kernels: its iterator gives the calls that make a share of them; see
        :class:`~omkl.kernels.worker_shares.WorkerShares`.
    budget : int
        Bytes that kernels fetched from workers may take here.

    Raises
    ------
    omkl.exceptions.DistributionError
        If the scheduler cannot be reached, there are no workers, or they are lost again and again.
    omkl.exceptions.InputError
        If there are no kernels, or a share does not fit into its worker's memory.
    """

    sums_entries = True

    def __init__(self, client, n_kernels, n_samples, dtype, recipe, budget=2**26):
        if not n_kernels:
            raise InputError("There are no kernels: give at least one.")
        self.n_kernels, self.n_samples, self.dtype = n_kernels, n_samples, np.dtype(dtype)
        n_shares = min(len(workers_of(client)), n_kernels)
        self._bounds = np.linspace(0, n_kernels, n_shares + 1).astype(np.int64)
        parts = [range(low, high) for low, high in zip(self._bounds.tolist(), self._bounds[1:].tolist())]
        self._shares = WorkerShares(client, [partial(recipe, part) for part in parts])
        self._kept = _Kept(n_kernels, n_samples, self.dtype, budget)

    @classmethod
    def from_kernels(cls, kernels, X, client, dtype=np.float32, budget=2**26):
        """Kernels on data, computed by the workers that hold them.

        Parameters
        ----------
        kernels : iterable of Kernel or str
            They are fitted to X; ``on`` may be None, a slice, or a tuple of columns.
        X : array of shape (N, d)
        client, dtype, budget
            As for the class.
        """
        given = OnData([as_kernel(kernel) for kernel in kernels], np.asarray(X, np.float64), np.dtype(dtype))
        workers_of(client)
        _require_sendable(given)

        def recipe(part):
            yield "compute", given, part

        return cls(client, len(given.kernels), len(given.X), dtype, recipe, budget)

    @classmethod
    def from_grams(cls, grams, client, dtype=np.float32, budget=2**26):
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
    def nbytes(self):
        """Bytes of the kernels, on all workers together."""
        return sum(self.share_bytes().values())

    def share_bytes(self):
        """Bytes of the kernels that each worker holds, by its address."""
        totals = dict.fromkeys(self._shares.homes, 0)
        sizes = self._shares.ask({s: ("nbytes",) for s in range(len(self._bounds) - 1)})
        for home, size in zip(self._shares.homes, sizes):
            totals[home] += size
        return totals

    @property
    def kept_bytes(self):
        """Bytes of the kernels that are kept here."""
        return self._kept.nbytes

    # ---- what solvers ask ---------------------------------------------------------------------------------------

    def quadratics(self, vector, which=None):
        return self._gather("quadratics", which, (), vector)

    def products(self, vectors, which=None):
        if self._kept.takes(which):
            return self._kept.stack.products(vectors, self._kept.places(which, self._fetch))
        return self._gather("products", which, (self.n_samples,), vectors)

    def diagonals(self, which=None):
        if self._kept.takes(which):
            return self._kept.stack.diagonals(self._kept.places(which, self._fetch))
        return self._gather("diagonals", which, (self.n_samples,))

    def traces(self, which=None):
        return self._gather("traces", which, ())

    def combine(self, weights, which=None, samples=None):
        if self._kept.takes(which):
            return self._kept.stack.combine(weights, self._kept.places(which, self._fetch), samples)
        total = DistributedSum(self, weights, which)
        return total.matrix() if samples is None else total.rows(samples)

    def summed(self, weights, which=None):
        if self._kept.takes(which):
            return self._kept.stack.summed(weights, self._kept.places(which, self._fetch))
        return DistributedSum(self, weights, which)

    # ---- asking the workers -------------------------------------------------------------------------------------

    def split(self, which):
        """For each share that holds any of these kernels: its number, their positions in ``which``, and in it."""
        if which is None:
            for s, (low, high) in enumerate(zip(self._bounds, self._bounds[1:])):
                yield s, slice(low, high), None
            return
        which = np.asarray(which, dtype=np.int64)
        owners = np.searchsorted(self._bounds, which, side="right") - 1
        for s in np.unique(owners).tolist():
            at = np.flatnonzero(owners == s)
            yield s, at, which[at] - self._bounds[s]

    def ask(self, calls):
        """Call methods of shares: see :meth:`~omkl.kernels.worker_shares.WorkerShares.ask`."""
        return self._shares.ask(calls)

    def _fetch(self, which):
        """Packed kernels: (k, N (N + 1) / 2)."""
        parts = list(self.split(which))
        rows = np.empty((len(which), self.n_samples * (self.n_samples + 1) // 2), dtype=self.dtype)
        for (_, at, _), values in zip(parts, self.ask({s: ("rows", local) for s, _, local in parts})):
            rows[at] = values
        return rows

    def _gather(self, method, which, shape, vectors=None):
        """What a method of the shares gives for each kernel; ``vectors`` are one for all, or one for each."""
        parts, arguments = list(self.split(which)), ()
        result = np.empty((self.n_kernels if which is None else len(which), *shape))
        calls = {}
        for s, at, local in parts:
            if vectors is not None:
                arguments = (vectors if np.ndim(vectors) == 1 else vectors[at],)
            calls[s] = (method, *arguments, local)
        for (_, at, _), values in zip(parts, self.ask(calls)):
            result[at] = values
        return result


class DistributedSum:
    """``sum_m w_m K_m`` as an operator: each worker keeps the sum over its share, and vectors travel.

    Parameters
    ----------
    kernels : DistributedStack
    weights : array of shape (k,)
    which : int array of shape (k,), or None
    """

    def __init__(self, kernels, weights, which):
        weights = np.asarray(weights, dtype=np.float64)
        self.kernels = kernels
        self._parts = {s: (weights[at], local) for s, at, local in kernels.split(which)}

    def product(self, vector):
        """The sum times a vector: (N,)."""
        return self._total("sum_product", (self.kernels.n_samples,), vector)

    def rows(self, samples):
        """Rows of the sum: (s, N)."""
        return self._total("sum_rows", (len(samples), self.kernels.n_samples), samples)

    def diagonal(self):
        """(N,)."""
        return self._total("sum_diagonal", (self.kernels.n_samples,))

    def matrix(self):
        """The sum itself: (N, N); it travels once from each worker, packed."""
        n = self.kernels.n_samples
        matrix = np.empty((n, n))
        unpack(self._total("packed_sum", (n * (n + 1) // 2,)), matrix)
        return matrix

    def _total(self, method, shape, *arguments):
        total = np.zeros(shape)
        # in the order of the shares, whichever is the first
        for part in self.kernels.ask({s: (method, *own, *arguments) for s, own in self._parts.items()}):
            total += part
        return total


class _Kept:
    """Packed kernels fetched from the workers, the latest used of them kept: as many as a budget of bytes holds."""

    def __init__(self, n_kernels, n_samples, dtype, budget):
        length = n_samples * (n_samples + 1) // 2
        self._capacity = min(budget // (length * dtype.itemsize), n_kernels)
        # what is not written yet takes no memory
        self.stack = PackedStack(np.empty((self._capacity, length), dtype=dtype), n_jobs=os.cpu_count() or 1)
        # where each kernel is, or -1; which kernel is where, and when it was used last
        self._places = np.full(n_kernels, -1)
        self._kernels, self._used = np.full((2, self._capacity), -1)
        self._clock = 0

    @property
    def nbytes(self):
        return np.count_nonzero(self._kernels >= 0) * self.stack.length * self.stack.rows.itemsize

    def takes(self, which):
        """Whether these kernels can all be kept; None stands for all there are, which stay where they are."""
        return which is not None and len(which) <= self._capacity

    def places(self, which, fetch):
        """Where in ``stack`` these kernels are, once those that are missing are fetched: int array of shape (k,)."""
        which = np.asarray(which, dtype=np.int64)
        self._clock += 1
        missing = np.unique(which[self._places[which] < 0])
        self._used[self._places[np.setdiff1d(which, missing)]] = self._clock
        if len(missing):
            rows = fetch(missing)
            oldest = np.argsort(self._used, kind="stable")[: len(missing)]
            left = self._kernels[oldest]
            self._places[left[left >= 0]] = -1
            self.stack.rows[oldest] = rows
            self._places[missing], self._kernels[oldest], self._used[oldest] = oldest, missing, self._clock
        return self._places[which]


def _require_sendable(given):
    """Raise an InputError where kernels cannot be sent; Dask would wait for an answer for ever."""
    from distributed.protocol import serialize

    try:
        serialize(given, on_error="raise")
    except Exception as error:
        raise InputError(f"The kernels cannot be sent to workers ({error}): define them in a module.") from None
