"""The workers of a Dask cluster: their addresses, and whether they still answer."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from omkl.exceptions import DistributionError, InputError, MissingDependencyError

if TYPE_CHECKING:
    from distributed import Client

#: Seconds to wait for a worker where there is none.
WORKER_TIMEOUT = 30.0
#: Seconds to wait for a scheduler that is to be connected to.
CONNECT_TIMEOUT = 5

Answer = TypeVar("Answer")


def workers_of(client: Client) -> list[str]:
    """Addresses of the workers of a Dask client that begin tasks, sorted; the first one is waited for.

    A worker that is short of memory is paused by Dask: it keeps what it holds, and begins nothing.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If Dask is not installed.
    omkl.exceptions.InputError
        If the client is none, or one of asynchronous code.
    omkl.exceptions.DistributionError
        If the scheduler cannot be reached, or there are no workers.
    """
    _require_dask()
    from distributed import Client

    if not isinstance(client, Client) or client.asynchronous:
        raise InputError(f"client must be a dask.distributed.Client that is not asynchronous, not {client!r}.")
    if client.status != "running":
        raise DistributionError(f"The Dask client {client!r} is {client.status}: connect a new one to its scheduler.")
    try:
        client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
    except TimeoutError:
        raise DistributionError(
            f"The scheduler {client.scheduler.address} has had no running worker for {WORKER_TIMEOUT:g} s: start one, "
            "or see what paused them."
        ) from None
    return sorted(running_workers(client))


def alive_workers(client: Client) -> dict[str, int]:
    """Threads by worker, for all that the scheduler knows, paused ones among them."""
    return _ask_scheduler(client, client.nthreads)


def running_workers(client: Client) -> dict[str, int]:
    """Threads by worker, for those that are not paused."""
    return _ask_scheduler(client, lambda: client.sync(client.scheduler.ncores_running))


def _ask_scheduler(client: Client, question: Callable[[], Answer]) -> Answer:
    try:
        return question()
    except OSError as error:
        address = client.scheduler.address
        raise DistributionError(f"The scheduler {address} cannot be reached ({error}): is it running?") from None


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """A Dask client of worker processes on this machine, with one thread each; they end with the context.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If Dask is not installed.
    omkl.exceptions.InputError
        If ``n_workers`` is less than one.
    """
    if n_workers < 1:
        raise InputError(f"workers must be a whole number > 0, not {n_workers}.")
    _require_dask()
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address="localhost:0", silence_logs="ERROR"
        ) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        client.run(_leave_interrupts_to_caller)
        yield client


@contextmanager
def running_client(address: str) -> Iterator[Client]:
    """A Dask client of the scheduler at an address such as ``"tcp://host:8786"``.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If Dask is not installed.
    omkl.exceptions.DistributionError
        If the scheduler does not answer within 5 seconds.
    """
    _require_dask()
    from distributed import Client

    try:
        client = Client(address, timeout=CONNECT_TIMEOUT)
    except Exception as error:  # whatever comes of an address that is none, or of a server that is no scheduler
        reason = f"no answer within {CONNECT_TIMEOUT} s" if isinstance(error, OSError) else type(error).__name__
        raise DistributionError(
            f"The scheduler {address} cannot be reached ({reason}): see its address, or start one: 'dask scheduler'."
        ) from None
    with client:
        yield client


def _require_dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "The workers of a cluster need Dask: install it with 'pip install omkl[dask]'."
        ) from None


def _leave_interrupts_to_caller() -> None:
    """Ctrl-C in a terminal reaches the workers as well, which must end their passes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
