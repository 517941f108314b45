"""The workers of a Dask cluster: who they are, and whether they are there."""

from omkl.exceptions import DistributionError, InputError, MissingDependencyError

#: Seconds to wait for a worker where there is none.
PATIENCE = 30.0


def workers_of(client):
    """Addresses of the workers of a Dask client that begin tasks, in a fixed order; the first one is waited for.

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
    try:
        from distributed import Client
    except ImportError:
        raise MissingDependencyError(
            "The workers of a cluster need Dask: install it with 'pip install omkl[dask]'."
        ) from None
    if not isinstance(client, Client) or client.asynchronous:
        raise InputError(f"client must be a dask.distributed.Client that is not asynchronous, not {client!r}.")
    if client.status != "running":
        raise DistributionError(f"The Dask client {client!r} is {client.status}: connect a new one to its scheduler.")
    try:
        client.wait_for_workers(1, timeout=PATIENCE)
    except TimeoutError:
        address = client.scheduler.address
        raise DistributionError(
            f"The scheduler {address} has had no running worker for {PATIENCE:g} s: start one, or see what paused them."
        ) from None
    return sorted(running_workers(client))


def alive_workers(client):
    """Threads by worker, for all that the scheduler knows, paused ones among them."""
    return _asked(client, client.nthreads)


def running_workers(client):
    """Threads by worker, for those that are not paused."""
    return _asked(client, lambda: client.sync(client.scheduler.ncores_running))


def _asked(client, question):
    try:
        return question()
    except OSError as error:
        address = client.scheduler.address
        raise DistributionError(f"The scheduler {address} cannot be reached ({error}): is it running?") from None
