"""Two worker processes that the tests of this folder share."""

from contextlib import ExitStack, suppress

import pytest

#: Seconds in which Dask replaces a worker that a test has killed, if it does.
PATIENCE = 60


@pytest.fixture(scope="package")
def connect():
    """Return a function that returns a client of two workers: new ones where Dask has not replaced
    a killed one.
    """
    distributed = pytest.importorskip("distributed")
    clients = []
    with ExitStack() as running:

        def connected():
            with suppress(TimeoutError, IndexError):
                clients[-1].wait_for_workers(2, timeout=PATIENCE)
                return clients[-1]
            workers = {
                "n_workers": 2,
                "threads_per_worker": 1,
                "dashboard_address": ":0",
                "silence_logs": "CRITICAL",
            }
            cluster = running.enter_context(distributed.LocalCluster(**workers))
            clients.append(
                running.enter_context(distributed.Client(cluster, direct_to_workers=True))
            )
            return clients[-1]

        yield connected


@pytest.fixture
def client(connect):
    return connect()
