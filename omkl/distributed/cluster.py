"""Clients of Dask clusters, tasks on their workers, and results for the partitions of collections."""

from __future__ import annotations

import gc
import signal
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from omkl._components import check_number
from omkl.exceptions import DistributionError, InputError, MissingDependencyError

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future

T = TypeVar("T")
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
        if running := _answer(client, client.scheduler.ncores_running):
            return sorted(running)
        if time.monotonic() > deadline:
            address = client.scheduler.address
            raise DistributionError(
                f"The scheduler {address} has had no running worker for {WORKER_TIMEOUT:g} s."
            )
        time.sleep(0.05)


def _answer(client: Client, method: Callable, **arguments: object) -> Any:
    """Call a method of the scheduler."""
    try:
        return client.sync(method, callback_timeout=PATIENCE, **arguments)
    except OSError as error:  # includes timeouts
        address = client.scheduler.address
        raise DistributionError(
            f"The scheduler {address} cannot be reached ({error}): is it running?"
        ) from None


def current_client(client: Client | None) -> Client:
    """Return a client, by default the one that was created last, after checks by
    :func:`workers_of`.
    """
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
    """Submit a task, to a worker or where Dask chooses: one that holds the arguments, which can be
    futures.
    """
    where: dict[str, Any] = (
        {} if worker is None else {"workers": [worker], "allow_other_workers": True}
    )
    with large_graphs():
        return client.submit(function, *arguments, pure=False, **where)


def large_graphs() -> Any:
    """Return a context in which Dask does not warn about data inside of tasks: only these can be
    repeated.
    """
    import dask

    return dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"})


def unpinned(client: Client, futures: Sequence[Future]) -> None:
    """Wait until workers were chosen for tasks, and let Dask repeat these on any worker.

    Otherwise, Dask never repeats a task if its worker is lost while no other one is running.
    """
    keys = [future.key for future in futures]
    while not futures[0].cancelled():
        if not {None, "waiting"} & set(
            _answer(client, client.scheduler.get_task_status, keys=keys).values()
        ):
            _answer(client, client.scheduler.set_restrictions, worker=dict.fromkeys(keys))
            return
        time.sleep(0.01)


def placed(client: Client, futures: Sequence[Future]) -> list[str]:
    """Choose a worker for each future: one that holds it, as long as no worker gets more than its
    share.

    So results stay where they are, unless workers were lost or have joined.
    """
    workers = workers_of(client)
    holders = _answer(client, client.scheduler.who_has, keys=[future.key for future in futures])
    share, load = -(-len(futures) // len(workers)), dict.fromkeys(workers, 0)
    chosen: list[str] = [""] * len(futures)
    for may_move in (False, True):  # first all that can stay
        for j in (j for j, own in enumerate(chosen) if not own):
            held = [
                own
                for own in sorted(holders.get(futures[j].key, ()))
                if load.get(own, share) < share
            ]
            if held or may_move:
                chosen[j] = min(held or workers, key=load.__getitem__)
                load[chosen[j]] += 1
    return chosen


def gathered(client: Client, futures: Sequence[Future]) -> list:
    """Wait for tasks and return their results, or raise the error of the first failed task."""
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        return client.gather(futures)
    except (CancelledError, KilledWorker, CommClosedError) as error:
        raise DistributionError(
            f"Workers, or the scheduler, were lost ({error}): see the workers' logs, they may lack memory."
        ) from None
    except ImportError as error:
        raise DistributionError(
            f"A worker has another version of omkl ({error}): install the same version."
        ) from error


def identity(value: T) -> T:
    """Return a value; as a task, this keeps the value on a worker, and Dask can repeat it on
    another one.
    """
    return value


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """Start worker processes on this machine, with one thread each, and yield a client; they end
    with the context.

    Anyone who can connect to a Dask worker can run code on it. Therefore the workers listen on the
    loopback address only, require a temporary certificate, and do not serve web pages.

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

    routes: dict[str, list] = {
        f"distributed.{own}.http.routes": [] for own in ("scheduler", "worker")
    }
    # its keys are in memory only
    place: dict[str, Any] = {
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
        dask.config.set({**routes, "distributed.scheduler.worker-ttl": f"{PATIENCE}s"}),
        LocalCluster(n_workers=n_workers, threads_per_worker=1, **place, **quiet) as cluster,
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
        reason = (
            f"no answer within {CONNECT_TIMEOUT} s"
            if isinstance(error, OSError)
            else type(error).__name__
        )
        raise DistributionError(
            f"The scheduler {address} cannot be reached ({reason}): see its address, or start one: 'dask scheduler'."
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
        self.client, self.futures, self.numbers, self.sizes = client, futures, numbers, sizes

    @classmethod
    def of(
        cls, client: Client | None, make: Callable, collections: Mapping[str, Any]
    ) -> Partitions:
        """Load a partition of each collection, or None, and call ``make(...)`` with these, on a
        worker.
        """
        import dask

        client, named = (
            current_client(client),
            {name: own for name, own in collections.items() if own is not None},
        )
        parts = {name: _delayed(name, own) for name, own in named.items()}
        sizes = {name: len(own) for name, own in parts.items()}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"{size} of {name}" for name, size in sizes.items())
            raise InputError(f"Collections must have the same partitions, got {found}.")
        numbers = range(max(sizes.values()))
        each: Any = [
            [parts[name][j] if name in parts else None for name in collections] for j in numbers
        ]
        call = dask.delayed(_on_partition)
        with large_graphs():
            return cls(
                client,
                client.compute([call(j, make, *own) for j, own in zip(numbers, each)]),
                numbers,
            )

    def map(self, function: Callable, *shared: object, each: Sequence | None = None) -> Partitions:
        """Call ``function(*shared, result)``, or ``function(result, own)`` with its own of
        ``each``, on the workers.
        """
        held = [submitted(self.client, identity, own) for own in shared]  # sent once
        own = [[future] for future in self.futures] if each is None else zip(self.futures, each)
        futures = [
            submitted(self.client, _on_partition, j, function, *held, *a)
            for j, a in zip(self.numbers, own)
        ]
        return Partitions(self.client, futures, self.numbers)

    def gathered(self) -> list:
        """Fetch all results."""
        return gathered(self.client, self.futures)

    def only(self, sizes: Sequence[int]) -> Partitions:
        """Select the partitions whose sizes are not 0."""
        kept = [
            (future, j, size) for future, j, size in zip(self.futures, self.numbers, sizes) if size
        ]
        return Partitions(self.client, *map(list, zip(*kept)))


def _delayed(name: str, collection: Any) -> list[Delayed]:
    """Return the partitions of a dask.dataframe, dask.array or dask.bag; columns of an array become
    one chunk.
    """
    from dask.delayed import Delayed

    if isinstance(collection, Delayed):
        raise InputError(
            f"{name} must be a dask.dataframe, dask.array or dask.bag, got a dask.delayed object."
        )
    if not hasattr(collection, "chunks"):
        return collection.to_delayed()
    if np.isnan([size for sizes in collection.chunks[1:] for size in sizes]).any():
        raise InputError(
            f"{name} must have a known number of columns, got chunks {collection.chunks[1:]}."
        )
    whole = (
        collection.rechunk({axis: -1 for axis in range(1, collection.ndim)})
        if collection.ndim > 1
        else collection
    )
    return whole.to_delayed().ravel().tolist()


def _on_partition(number: int, function: Callable, *arguments: object) -> Any:
    """Call a function; name the partition in errors about its content."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise InputError(f"Partition {number}: {error}") from None
