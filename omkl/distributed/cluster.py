"""Clients of Dask clusters, tasks on their workers, and results for partitions of collections."""

from __future__ import annotations

import gc
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple

import numpy as np

from omkl._components import check_number
from omkl.exceptions import DistributionError, InputError, MissingDependencyError

if TYPE_CHECKING:
    from dask.array import Array
    from dask.bag import Bag
    from dask.dataframe import DataFrame
    from dask.delayed import Delayed
    from distributed import Client, Future

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")
#: Seconds to wait for the first worker.
WORKER_TIMEOUT = 30.0
#: Seconds to wait for a scheduler to answer a new client.
CONNECT_TIMEOUT = 5
#: Seconds after which a silent scheduler or worker counts as lost.
PATIENCE = 60.0


def workers_of(client: object) -> list[str]:
    """Return the sorted addresses of running workers; wait for the first one.

    Paused workers are left out. Dask pauses a worker that is short of memory: it keeps its data,
    but starts no tasks.
    """
    _require_dask()
    from distributed import Client

    if not isinstance(client, Client) or client.asynchronous:
        raise InputError(
            f"`client` must be a dask.distributed.Client that is not asynchronous, got {client!r}."
        )
    if client.status != "running":
        raise DistributionError(
            f"The Dask client {client!r} is {client.status}: connect a new one to its scheduler."
        )
    deadline = time.monotonic() + WORKER_TIMEOUT
    while True:
        running = _answer(client, client.scheduler.ncores_running)
        if running:
            return sorted(running)
        if time.monotonic() > deadline:
            address = client.scheduler.address
            raise DistributionError(
                f"The scheduler {address} has had no running worker for {WORKER_TIMEOUT:g} s."
            )
        time.sleep(0.05)


def _answer(client: Client, method: Callable, **arguments: Sequence | Mapping) -> Any:
    """Call a method of the scheduler."""
    try:
        return client.sync(method, callback_timeout=PATIENCE, **arguments)
    except OSError as error:  # includes timeouts
        address = client.scheduler.address
        raise DistributionError(
            f"The scheduler {address} cannot be reached ({error}): is it running?"
        ) from None


def current_client(client: Client | None) -> Client:
    """Return a client that :func:`workers_of` accepts, by default the one created last."""
    if client is None:
        _require_dask()
        from distributed import default_client

        try:
            client = default_client()
        except ValueError:
            raise InputError(
                "Dask collections need a cluster: pass client=, or create a distributed.Client."
            ) from None
    workers_of(client)
    return client


def submitted(
    client: Client, function: Callable, *arguments: object, worker: str | None = None
) -> Future:
    """Submit a task, to a worker or where Dask chooses; the arguments may be futures."""
    restrictions: dict[str, Any] = {}
    if worker is not None:
        restrictions = {"workers": [worker], "allow_other_workers": True}
    with large_graphs():
        return client.submit(function, *arguments, pure=False, **restrictions)


def large_graphs() -> Any:
    """Return a context in which Dask does not warn about data inside of tasks.

    Only such tasks can be repeated.
    """
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})


def unpinned(client: Client, futures: Sequence[Future]) -> None:
    """Wait until workers were chosen for tasks, and let Dask repeat these on any worker.

    Otherwise, Dask never repeats a task if its worker is lost while no other one is running.
    """
    keys = [future.key for future in futures]
    while not futures[0].cancelled():
        status = _answer(client, client.scheduler.get_task_status, keys=keys)
        if not {None, "waiting"} & set(status.values()):
            _answer(client, client.scheduler.set_restrictions, worker=dict.fromkeys(keys))
            return
        time.sleep(0.01)


def placed(client: Client, futures: Sequence[Future]) -> list[str]:
    """Choose a worker for each future: one that holds it, if it has less than its share.

    So results stay where they are, unless workers were lost or have joined.
    """
    workers = workers_of(client)
    keys = [future.key for future in futures]
    holders_of = _answer(client, client.scheduler.who_has, keys=keys)
    share = -(-len(futures) // len(workers))
    load = dict.fromkeys(workers, 0)
    chosen: dict[int, str] = {}
    for may_move in (False, True):  # first all that can stay
        for j, key in enumerate(keys):
            if j in chosen:
                continue
            candidates = []
            for holder in sorted(holders_of.get(key, ())):
                if load.get(holder, share) < share:
                    candidates.append(holder)
            if candidates or may_move:
                chosen[j] = min(candidates or workers, key=load.__getitem__)
                load[chosen[j]] += 1
    return [chosen[j] for j in range(len(futures))]


def gathered(client: Client, futures: Sequence[Future]) -> list:
    """Wait for tasks and return their results, or raise the error of the first failed task."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        return client.gather(futures)
    except (CancelledError, KilledWorker, CommClosedError) as error:
        raise DistributionError(
            f"Workers, or the scheduler, were lost ({error}): "
            "see the workers' logs, they may lack memory."
        ) from None
    except ImportError as error:
        raise DistributionError(
            f"A worker has another version of omkl ({error}): install the same version."
        ) from error


def identity(value: T) -> T:
    """Return a value: a task that keeps it on a worker, and that Dask can repeat on another."""
    return value


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """Start worker processes on this machine, with one thread each, and yield a client.

    They end with the context. Anyone who can connect to a Dask worker can run code on it. Therefore
    the workers listen on the loopback address only, require a temporary certificate, and do not
    serve web pages.

    Parameters
    ----------
    n_workers : int

    Yields
    ------
    dask.distributed.Client

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If Dask is not installed.
    omkl.exceptions.InputError
        If ``n_workers`` is less than one.
    """
    check_number("workers", n_workers, above=0, integer=True)
    _require_dask()
    import dask
    from distributed import Client, LocalCluster, Security

    settings: dict[str, Any] = {
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.worker-ttl": f"{PATIENCE}s",
    }
    # its keys are in memory only
    address: dict[str, Any] = {
        "host": "127.0.0.1",
        "protocol": "tls://",
        "security": Security.temporary(),
    }
    quiet = {
        "dashboard_address": "127.0.0.1:0",
        "scheduler_kwargs": {"dashboard": False},
        "silence_logs": "ERROR",
    }
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **address, **quiet) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        client.run(_leave_interrupts_to_caller)
        yield client


@contextmanager
def running_client(address: str) -> Iterator[Client]:
    """Yield a client of the scheduler at an address such as ``"tcp://host:8786"``.

    For ``"tls://host:8786"``, certificates are read from Dask's configuration
    (``distributed.comm.tls``). Dask must be installed, as for :func:`local_client`.

    Parameters
    ----------
    address : str

    Yields
    ------
    dask.distributed.Client

    Raises
    ------
    omkl.exceptions.DistributionError
        If the scheduler does not answer within 5 seconds.
    """
    _require_dask()
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_TIMEOUT)
    except Exception as error:  # invalid addresses raise errors of many classes
        # collected later, while Dask holds its lock, a client that failed to start would wait for
        # this lock for ever
        traceback.clear_frames(error.__traceback__)
        gc.collect()
        reason = type(error).__name__
        if isinstance(error, OSError):
            reason = f"no answer within {CONNECT_TIMEOUT} s"
        raise DistributionError(
            f"The scheduler {address} cannot be reached ({reason}): "
            "see its address, or start one: 'dask scheduler'."
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_TIMEOUT)


def _require_dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "A cluster needs Dask: install it with 'pip install omkl[dask]'."
        ) from None


def _leave_interrupts_to_caller() -> None:
    """Ignore Ctrl-C on a worker, as the calling process handles it and ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Partitions:
    """One result on a worker for each partition of a collection.

    Parameters
    ----------
    client : dask.distributed.Client
    futures : list of Future
    numbers : sequence of int
        Number of each partition in the collection, from 0, for error messages.
    sizes : list of int
        Number of examples of each, if known.
    """

    def __init__(
        self,
        client: Client,
        futures: list[Future],
        numbers: Sequence[int],
        sizes: Sequence[int] = (),
    ) -> None:
        self.client = client
        self.futures = futures
        self.numbers = numbers
        self.sizes = sizes

    @classmethod
    def of(
        cls, client: Client | None, make: Callable, collections: Mapping[str, Any]
    ) -> Partitions:
        """Call ``make(...)`` with a partition of each collection, or None, on the workers."""
        import dask

        client = current_client(client)
        partitions: dict[str, Any] = {}
        for name, collection in collections.items():
            if collection is not None:
                partitions[name] = _delayed(name, collection)
        sizes = {name: len(delayed) for name, delayed in partitions.items()}
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{size} of {name}" for name, size in sizes.items())
            raise InputError(f"Collections must have the same partitions, got {counts}.")
        numbers = range(max(sizes.values()))
        call = dask.delayed(_on_partition)
        missing = [None] * len(numbers)
        columns = [partitions.get(name, missing) for name in collections]
        calls = [call(j, make, *row) for j, row in enumerate(zip(*columns))]
        with large_graphs():
            return cls(client, client.compute(calls), numbers)

    def map(self, function: Callable, *shared: object, each: Sequence | None = None) -> Partitions:
        """Call ``function(*shared, result)`` on the workers for the result of each partition.

        With ``each``, which has an entry for each partition, call ``function(result, entry)``.
        """
        sent = [submitted(self.client, identity, value) for value in shared]  # once
        futures = []
        for i, j in enumerate(self.numbers):
            arguments = [*sent, self.futures[i]]
            if each is not None:
                arguments.append(each[i])
            futures.append(submitted(self.client, _on_partition, j, function, *arguments))
        return Partitions(self.client, futures, self.numbers)

    def gathered(self) -> list:
        """Fetch all results."""
        return gathered(self.client, self.futures)

    def only(self, sizes: Sequence[int]) -> Partitions:
        """Select the partitions whose sizes are not 0."""
        indices = np.flatnonzero(sizes).tolist()
        return Partitions(
            self.client,
            [self.futures[i] for i in indices],
            [self.numbers[i] for i in indices],
            [sizes[i] for i in indices],
        )


def _delayed(name: str, collection: Array | Bag | DataFrame) -> list[Delayed]:
    """Return the partitions of a dask.dataframe, dask.array or dask.bag.

    The columns of an array become one chunk.
    """
    from dask.delayed import Delayed

    if isinstance(collection, Delayed):
        raise InputError(
            f"{name} must be a dask.dataframe, dask.array or dask.bag, got a dask.delayed object."
        )
    if not hasattr(collection, "chunks"):
        return collection.to_delayed()
    chunks_of_columns = collection.chunks[1:]
    if np.isnan([size for sizes in chunks_of_columns for size in sizes]).any():
        raise InputError(
            f"{name} must have a known number of columns, got chunks {chunks_of_columns}."
        )
    if collection.ndim > 1:
        collection = collection.rechunk({axis: -1 for axis in range(1, collection.ndim)})
    return collection.to_delayed().ravel().tolist()


def _on_partition(number: int, function: Callable[[*Arguments], T], *arguments: *Arguments) -> T:
    """Call a function; name the partition in errors about its content."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise InputError(f"Partition {number}: {error}") from None
