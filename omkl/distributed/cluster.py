"""The workers of a Dask cluster: their addresses, and whether they still answer."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from omkl.exceptions import DistributionError, InputError, MissingDependencyError

if TYPE_CHECKING:
    from distributed import Client

#: Seconds to wait for a worker where there is none.
WORKER_TIMEOUT = 30.0
#: Seconds to wait for a scheduler that is to be connected to.
CONNECT_TIMEOUT = 5
#: Seconds in which a scheduler or a worker at work answers; one that is silent for longer is taken as lost.
PATIENCE = 60.0
#: Seconds between two looks for workers, and those of waiting after which one asks who is still there.
INTERVAL, ASK_AFTER = 0.05, 10.0

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
    deadline = time.monotonic() + WORKER_TIMEOUT
    while not (running := running_workers(client)):
        if time.monotonic() > deadline:
            raise DistributionError(
                f"The scheduler {client.scheduler.address} has had no running worker for {WORKER_TIMEOUT:g} s: start "
                "one, or see what paused them."
            )
        time.sleep(INTERVAL)
    return sorted(running)


def alive_workers(client: Client) -> dict[str, int]:
    """Number of threads of each worker, paused ones included.

    Parameters
    ----------
    client : dask.distributed.Client

    Returns
    -------
    dict of str to int
    """
    return _ask_scheduler(client, client.scheduler.ncores)


def running_workers(client: Client) -> dict[str, int]:
    """Number of threads of each worker that is not paused.

    Parameters
    ----------
    client : dask.distributed.Client

    Returns
    -------
    dict of str to int
    """
    return _ask_scheduler(client, client.scheduler.ncores_running)


def passes_of(client: Client) -> dict[str, list[str]]:
    """Keys of the tasks of each worker.

    Parameters
    ----------
    client : dask.distributed.Client

    Returns
    -------
    dict of str to list of str
    """
    return _ask_scheduler(client, lambda: client.scheduler.processing(workers=None))


def _ask_scheduler(client: Client, question: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask the scheduler; a DistributionError if it does not answer within :data:`PATIENCE`."""
    address = client.scheduler.address
    try:
        return client.sync(question, callback_timeout=PATIENCE)
    except TimeoutError:
        raise DistributionError(
            f"The scheduler {address} has not answered for {PATIENCE:g} s: is it running?"
        ) from None
    except OSError as error:
        raise DistributionError(f"The scheduler {address} cannot be reached ({error}): is it running?") from None


def answers(client: Client, worker: str) -> bool:
    """Check if a worker answers within :data:`PATIENCE`.

    Parameters
    ----------
    client : dask.distributed.Client
    worker : str
        Its address.

    Returns
    -------
    bool
    """
    if worker not in alive_workers(client):
        return False
    try:
        client.sync(lambda: client.run(os.getpid, workers=[worker], asynchronous=True), callback_timeout=PATIENCE)
    except OSError:  # timeouts among them
        return False
    return True


def moved(client: Client, worker: str, move: Coroutine[Any, Any, Answer]) -> Answer:
    """The result of what moves data to or from a worker, however long that takes while the worker answers.

    Raises
    ------
    OSError
        If the worker is lost.
    omkl.exceptions.DistributionError
        If the scheduler is.
    """
    pending = asyncio.run_coroutine_threadsafe(move, client.loop.asyncio_loop)
    try:
        while True:
            try:
                return pending.result(ASK_AFTER)
            except TimeoutError:
                if pending.done():
                    raise
                if not answers(client, worker):
                    raise ConnectionError(f"The worker {worker} does not answer.") from None
    finally:
        pending.cancel()


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """A Dask client of worker processes on this machine, with one thread each; they end with the context.

    They listen on the loopback address alone, let nobody in who has not the certificate that is made for this context
    (whoever reaches a worker of Dask has it run what they send), and serve no web page that tells what they do.

    Raises
    ------
    omkl.exceptions.MissingDependencyError
        If Dask is not installed, or the library cryptography, which makes the certificate.
    omkl.exceptions.InputError
        If ``n_workers`` is less than one.
    """
    if n_workers < 1:
        raise InputError(f"`workers` must be an integer > 0, got {n_workers}.")
    _require_dask()
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}),
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            host="127.0.0.1",
            protocol="tls://",
            security=_certificate(),
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            silence_logs="ERROR",
        ) as cluster,
        Client(cluster, direct_to_workers=True) as client,
    ):
        client.run(_leave_interrupts_to_caller)
        yield client


@contextmanager
def running_client(address: str) -> Iterator[Client]:
    """A Dask client of the scheduler at an address such as ``"tcp://host:8786"``.

    Its certificates, for ``"tls://host:8786"``, are those of Dask's configuration (``distributed.comm.tls``).

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
        with ThreadPoolExecutor(1) as pool:  # a loop of its own, whichever runs in this thread
            pool.submit(asyncio.run, _greet(address)).result()
        client = Client(address, timeout=CONNECT_TIMEOUT)
    except Exception as error:  # whatever comes of an address that is none, or of a server that is no scheduler
        reason = f"no answer within {CONNECT_TIMEOUT} s" if isinstance(error, OSError) else type(error).__name__
        raise DistributionError(
            f"The scheduler {address} cannot be reached ({reason}): see its address, or start one: 'dask scheduler'."
        ) from None
    try:
        yield client
    finally:
        client.close(timeout=CONNECT_TIMEOUT)


async def _greet(address: str) -> None:
    """Ask a scheduler who it is; a client would wait for ever for a server that takes its greeting and is silent."""
    from distributed import Security, rpc

    # the certificates of Dask's configuration, as a client has them
    async with rpc(address, connection_args=Security().get_connection_args("client")) as scheduler:
        await asyncio.wait_for(scheduler.identity(), CONNECT_TIMEOUT)


def _require_dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise MissingDependencyError(
            "The workers of a cluster need Dask: install it with 'pip install omkl[dask]'."
        ) from None


def _certificate() -> Any:
    """A certificate for one cluster, which is kept in memory alone."""
    from distributed import Security

    try:
        return Security.temporary()
    except ImportError:
        raise MissingDependencyError(
            "Workers on this machine let in nobody else by a certificate, which needs the library cryptography: "
            "install it with 'pip install omkl[dask]'."
        ) from None


def _leave_interrupts_to_caller() -> None:
    """Ctrl-C in a terminal reaches the workers as well, which must end their passes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
