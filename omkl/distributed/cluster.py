"""The workers of a Dask cluster, and tasks on them."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from omkl.exceptions import DistributionError, InputError, MissingDependencyError

if TYPE_CHECKING:
    from distributed import Client, Future

#: Seconds to wait for a worker where there is none.
WORKER_TIMEOUT = 30.0
#: Seconds to wait for a scheduler that is to be connected to.
CONNECT_TIMEOUT = 5
#: Seconds in which a scheduler or a worker at work answers; one that is silent for longer is taken as lost.
PATIENCE = 60.0
#: Seconds between two looks for workers.
INTERVAL = 0.05


def workers_of(client: Client) -> list[str]:
    """Addresses of the workers of a Dask client that begin tasks, sorted; the first one is waited for.

    A worker that is short of memory is paused by Dask: it keeps what it holds, and begins nothing.

    Parameters
    ----------
    client : dask.distributed.Client

    Returns
    -------
    list of str

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
    while not (running := _running_workers(client)):
        if time.monotonic() > deadline:
            raise DistributionError(
                f"The scheduler {client.scheduler.address} has had no running worker for {WORKER_TIMEOUT:g} s: start "
                "one, or see what paused them."
            )
        time.sleep(INTERVAL)
    return sorted(running)


def _running_workers(client: Client) -> dict[str, int]:
    """Number of threads of each worker that is not paused."""
    address = client.scheduler.address
    try:
        return client.sync(client.scheduler.ncores_running, callback_timeout=PATIENCE)
    except OSError as error:  # timeouts among them
        raise DistributionError(f"The scheduler {address} cannot be reached ({error}): is it running?") from None


def submitted(client: Client, function: Callable, *arguments: Any, worker: str, **options: Any) -> Future:
    """Submit a task to a worker; another one runs it if that one is lost.

    Parameters
    ----------
    client : dask.distributed.Client
    function : callable
    *arguments, **options
        Arguments, futures among them.
    worker : str
        Its address.
    """
    import dask

    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
        return client.submit(function, *arguments, **options, workers=[worker], allow_other_workers=True, pure=False)


def gathered(client: Client, futures: Sequence[Future]) -> list:
    """Wait for tasks, and return their results, or raise the error of the first that failed.

    Parameters
    ----------
    client : dask.distributed.Client
    futures : sequence of Future

    Raises
    ------
    omkl.exceptions.DistributionError
        If workers are lost again and again, the scheduler is lost, or a worker lacks omkl.
    """
    from distributed import CancelledError, KilledWorker
    from distributed.comm import CommClosedError

    try:
        return client.gather(futures)
    except (CancelledError, KilledWorker, CommClosedError) as error:
        raise DistributionError(
            f"Workers, or the scheduler, were lost ({error}): see the workers' logs, they may lack memory."
        ) from None
    except ImportError as error:
        raise DistributionError(f"A worker has no omkl like this one ({error}): install the same version.") from error


@contextmanager
def local_client(n_workers: int) -> Iterator[Client]:
    """A Dask client of worker processes on this machine, with one thread each; they end with the context.

    They listen on the loopback address alone, let nobody in who has not the certificate that is made for this context
    (whoever reaches a worker of Dask has it run what they send), and serve no web page that tells what they do.

    Parameters
    ----------
    n_workers : int

    Yields
    ------
    dask.distributed.Client

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
        dask.config.set(
            {
                "distributed.scheduler.http.routes": [],
                "distributed.worker.http.routes": [],
                "distributed.scheduler.worker-ttl": f"{PATIENCE}s",
            }
        ),
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

    Parameters
    ----------
    address : str

    Yields
    ------
    dask.distributed.Client

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
