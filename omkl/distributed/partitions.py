"""Partitions of kernels on the workers of a Dask cluster: placed, asked, and made anew where a worker is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.distributed.cluster import alive_workers, running_workers, workers_of
from omkl.exceptions import DistributionError, InputError, OmklError
from omkl.kernels import Kernel, PackedStack
from omkl.kernels.base import Vectors
from omkl.kernels.checks import packed_bytes
from omkl.kernels.packed import packed_kernels

if TYPE_CHECKING:
    from distributed import Client, Future, Worker

#: Seconds to wait, where a worker was lost, for one without a partition before another one gets a second.
GRACE = 5.0
#: Seconds after which an answer that has not come makes one ask whether its worker is still there.
INTERVAL = 1.0
#: How often a partition may be lost before that is no accident.
MOST_LOSSES = 3

#: The name of a method of a partition, and its arguments.
Call = tuple
#: Its iterator gives the calls that fill an empty partition, in this order.
Recipe = Callable[[], Iterator[Call]]
#: Part of a worker's memory limit that may be in use, unless Dask pauses the worker before.
USABLE_FRACTION = 0.9


@dataclass(frozen=True)
class KernelSpec:
    """Kernels, an array or CSR matrix X (N, d), and the dtype of the Gram matrices.

    One object, as Dask takes long over a list of thousands.
    """

    kernels: list[Kernel]
    X: Vectors
    dtype: np.dtype


class KernelPartition:
    """Some of a stack's kernels, on a worker: a Dask actor, made empty, then given its kernels.

    Arguments and results of its methods travel: vectors, numbers, and rows of kernels where they are asked for.
    ``which`` are indices into the partition, (k,), or None for all of its kernels.
    """

    _stack: PackedStack

    def __init__(self) -> None:
        # weights and indices of the latest sum, and the sum
        self._latest_sum: tuple[np.ndarray, np.ndarray | None, PackedStack] | None = None

    # ---- getting the kernels ------------------------------------------------------------------------------------

    def compute(self, spec: KernelSpec, part: range) -> None:
        """Compute the kernels of a range of those in ``spec``."""
        _require_worker_memory(packed_bytes(len(part), spec.X.shape[0], spec.dtype))
        self._hold(packed_kernels(spec.kernels, spec.X, spec.dtype, part))

    def reserve(self, n_kernels: int, n_samples: int, dtype: np.dtype) -> None:
        """Allocate memory for kernels that :meth:`fill` brings."""
        _require_worker_memory(packed_bytes(n_kernels, n_samples, dtype))
        self._hold(np.empty((n_kernels, n_samples * (n_samples + 1) // 2), dtype=dtype))

    def fill(self, first: int, rows: np.ndarray) -> None:
        """Store packed kernels (k, N (N + 1) / 2) as the kernels ``first``, ``first + 1``, ... of the partition."""
        self._stack.rows[first : first + len(rows)] = rows

    def _hold(self, rows: np.ndarray) -> None:
        self._stack = PackedStack(rows, n_jobs=_worker().state.nthreads)

    def nbytes(self) -> int:
        """Bytes of the kernels."""
        return self._stack.nbytes

    # ---- what a stack answers -----------------------------------------------------------------------------------

    def rows(self, which: np.ndarray | None) -> np.ndarray:
        """Packed kernels themselves: (k, N (N + 1) / 2) in the type of the storage."""
        return self._stack.rows[which]

    def quadratics(self, vector: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.quadratics(np.array(vector), which)

    def products(self, vectors: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.products(np.array(vectors), which)

    def block_quadratics(self, vectors: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.block_quadratics(np.array(vectors), which)

    def block_products(self, vectors: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.block_products(np.array(vectors), which)

    def diagonals(self, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.diagonals(which)

    def traces(self, which: np.ndarray | None) -> np.ndarray:
        """See :class:`~omkl.kernels.KernelStack`."""
        return self._stack.traces(which)

    def packed_sum(self, weights: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """``sum_m w_m K_m``, packed: (N (N + 1) / 2,) float64."""
        return self._sum(weights, which).rows[0]

    def sum_product(self, weights: np.ndarray, which: np.ndarray | None, vector: np.ndarray) -> np.ndarray:
        """``sum_m w_m K_m v``: (N,)."""
        return self._sum(weights, which).products(np.array(vector))[0]

    def sum_block_product(self, weights: np.ndarray, which: np.ndarray | None, vectors: np.ndarray) -> np.ndarray:
        """``sum_m w_m K_m v_p``: (P, N)."""
        return self._sum(weights, which).block_products(np.array(vectors))[0]

    def sum_rows(self, weights: np.ndarray, which: np.ndarray | None, samples: np.ndarray) -> np.ndarray:
        """Rows of ``sum_m w_m K_m``: (s, N)."""
        return self._sum(weights, which).combine(np.ones(1), None, samples)

    def sum_diagonal(self, weights: np.ndarray, which: np.ndarray | None) -> np.ndarray:
        """The diagonal of ``sum_m w_m K_m``: (N,)."""
        return self._sum(weights, which).diagonals()[0]

    def _sum(self, weights: np.ndarray, which: np.ndarray | None) -> PackedStack:
        """The weighted sum, as a stack of one kernel; the latest is kept, as solvers multiply by it many times."""
        if self._latest_sum is not None:
            known_weights, known_which, total = self._latest_sum
            if np.array_equal(weights, known_weights) and np.array_equal(which, known_which):  # type: ignore[arg-type]
                return total
        total = self._stack.summed(weights, which)
        self._latest_sum = weights, which, total
        return total


def _worker() -> Worker:
    from distributed import get_worker

    return get_worker()


def _require_worker_memory(needed: int) -> None:
    """Raise an InputError where the worker's limit does not leave so many bytes; Dask would pause or end the worker."""
    worker = _worker()
    limit, pause = worker.memory_manager.memory_limit, worker.memory_manager.memory_pause_fraction
    if limit is None:
        return
    usable = min(USABLE_FRACTION, pause or USABLE_FRACTION) * limit
    free = max(usable - worker.monitor.get_process_memory(), 0)
    if needed > free:
        raise InputError(
            f"Its kernels take {needed / 2**30:.2f} GiB, but its memory limit leaves {free / 2**30:.2f} GiB: start "
            "more workers, or give them more memory."
        )


class WorkerPartitions:
    """Partitions of kernels, each on a worker.

    A worker that is lost loses its partition: that is made anew from its recipe on another worker, and asked again.

    Parameters
    ----------
    client : dask.distributed.Client
    recipes : sequence of callable
        One a partition: a function without arguments whose iterator gives calls ``(method, *arguments)`` of a
        :class:`KernelPartition` that fill it, one after the other.

    Raises
    ------
    omkl.exceptions.DistributionError
        If there are no workers, or workers are lost again and again.
    omkl.exceptions.InputError
        If a worker cannot make its partition.
    """

    def __init__(self, client: Client, recipes: Sequence[Recipe]) -> None:
        self.client, self._recipes = client, recipes
        workers = workers_of(client)
        self._addresses = [workers[s % len(workers)] for s in range(len(recipes))]
        self._losses, self._lost_with = [0] * len(recipes), set[str]()
        self._futures = [self._start(address) for address in self._addresses]
        self._actors: list[Any] = [None] * len(recipes)
        fillings = [recipe() for recipe in recipes]
        # calls of different partitions side by side, those of one partition one after the other
        while calls := {s: call for s, filling in enumerate(fillings) if (call := next(filling, None)) is not None}:
            self.ask(calls)

    @property
    def addresses(self) -> list[str]:
        """The address of each partition's worker."""
        return list(self._addresses)

    def ask(self, calls: Mapping[int, Call]) -> list:
        """Call methods of partitions, all at once.

        Parameters
        ----------
        calls : dict of int to tuple
            For some partitions the name of a method, and its arguments.

        Returns
        -------
        list
            Answers in the order of ``calls``, whichever worker is the first.
        """
        sent = {s: self._send(s, call) for s, call in calls.items()}
        return [self._answer(s, call, sent[s]) for s, call in calls.items()]

    def _answer(self, s: int, call: Call, pending: Future | None) -> Any:
        while True:
            try:
                return self._result(s, pending)
            except _PartitionLostError:
                self._make_anew(s)
                pending = self._send(s, call)

    def _start(self, address: str) -> Future:
        """The future of an empty partition on a worker."""
        return self.client.submit(KernelPartition, actor=True, workers=[address], allow_other_workers=False, pure=False)

    def _send(self, s: int, call: Call) -> Future | None:
        """The future of a method's answer; None where the partition is known to be lost."""
        method, *arguments = call
        if self._actors[s] is None:
            try:
                self._actors[s] = self._result(s, self._futures[s])
            except _PartitionLostError:
                return None
        try:
            return getattr(self._actors[s], method)(*arguments)
        except RuntimeError:
            # Dask has seen the worker go
            return None

    def _result(self, s: int, pending: Future | None) -> Any:
        """The result of a future of partition ``s``, unless its worker is lost."""
        from distributed import CancelledError, KilledWorker
        from distributed.comm import CommClosedError

        while pending is not None:
            try:
                return pending.result(timeout=INTERVAL)
            except TimeoutError:
                # a paused worker answers for the partition it has, but would never begin to make one
                able = running_workers if pending is self._futures[s] else alive_workers
                known = self._futures[s].status in ("finished", "pending")
                if not known or self._addresses[s] not in able(self.client):
                    break
            except (CancelledError, KilledWorker, CommClosedError):
                break
            except OSError as error:
                # what Dask raises where it cannot reach a worker; any other is the user's kernel's own
                if type(error) is OSError:
                    break
                raise
            except OmklError as error:
                raise InputError(f"The worker {self._addresses[s]} cannot do its part. {error}") from None
            except ImportError as error:
                raise DistributionError(
                    f"The worker {self._addresses[s]} has no omkl like this one ({error}): install the same version."
                ) from error
        raise _PartitionLostError

    def _make_anew(self, s: int) -> None:
        """Make a lost partition from its recipe, on another worker."""
        while self._losses[s] < MOST_LOSSES:
            self._losses[s] += 1
            self._lost_with.add(self._addresses[s])
            self._addresses[s] = self._successor()
            self._futures[s], self._actors[s] = self._start(self._addresses[s]), None
            try:
                for call in self._recipes[s]():
                    self._result(s, self._send(s, call))
            except _PartitionLostError:
                continue
            return
        raise DistributionError(
            f"A part of the kernels was lost with its worker {MOST_LOSSES + 1} times, the last "
            f"{self._addresses[s]}: look at the workers' logs, they may lack memory."
        )

    def _successor(self) -> str:
        """A worker for a lost partition: one that has none, if it comes soon, else one with few."""
        begin = time.monotonic()
        while True:
            patient = time.monotonic() - begin < GRACE
            alive = [address for address in workers_of(self.client) if not (patient and address in self._lost_with)]
            loads = {address: self._addresses.count(address) for address in alive}
            if loads and (min(loads.values()) == 0 or not patient):
                return min(loads, key=loads.__getitem__)
            time.sleep(0.1)


class _PartitionLostError(Exception):
    """A partition is no longer there."""
