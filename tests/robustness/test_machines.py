"""Frozen workers, and access control."""

import asyncio
import os
import signal
import sys
import urllib.request

import numpy as np
import pytest

from omkl import OnlineMKLClassifier
from omkl.distributed import cluster, local_client, running_client
from omkl.exceptions import DistributionError

from ..passes import assert_same_state

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them"),
]


@pytest.fixture
def client():
    """Start new workers for each attack, since Dask does not always replace a killed one."""
    with local_client(2) as client:
        yield client


def data():
    X = np.random.default_rng(0).normal(size=(4000, 10))
    return X, (X[:, 0] + X[:, 1] > 0).astype(np.int64)


def fit(callbacks=(), **options):
    model = OnlineMKLClassifier(["linear"], epochs=12, callbacks=callbacks, random_state=0)
    return model.fit(*data(), **options)


class Freeze:
    """Callback that stops a worker before the second epoch, and sets the clock forward once it has
    a task.
    """

    def __init__(self, client):
        self.client = client
        self.victim = None

    def on_block(self, trainer, block):
        if self.victim is None:
            self.victim, pid = min(self.client.run(os.getpid).items())
            os.kill(pid, signal.SIGSTOP)
            asyncio.run_coroutine_threadsafe(self.forward(), self.client.cluster.loop.asyncio_loop)

    async def forward(self):
        scheduler = self.client.cluster.scheduler
        worker = scheduler.workers[self.victim]
        while not worker.processing:
            await asyncio.sleep(0.01)
        worker.last_seen -= 1.01 * cluster.PATIENCE
        await scheduler.check_worker_ttl()


def test_nobody_else_is_let_in(client, monkeypatch):
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT", 300)
    addresses = [client.scheduler.address, *client.run(os.getpid)]
    assert {address.rpartition(":")[0] for address in addresses} == {"tls://127.0.0.1"}
    server = client.cluster.scheduler.http_server
    assert server.address == "127.0.0.1"
    for page in "status", "info/main/workers.html", "metrics":
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{page}")
    with (
        pytest.raises(DistributionError, match=r"cannot be reached \(TypeError\)"),
        running_client(addresses[0]),
    ):
        pass
    security = client.security
    names = {
        "ca-file": security.tls_ca_file,
        "client.cert": security.tls_client_cert,
        "client.key": security.tls_client_key,
    }
    settings = {f"distributed.comm.tls.{name}": value for name, value in names.items()}
    with dask.config.set(settings), running_client(addresses[0]) as other:
        assert len(other.nthreads()) == 2


def test_a_frozen_worker_is_left_out(client):
    freeze = Freeze(client)
    with_frozen_worker = fit(client=client, shards=2, callbacks=[freeze])
    assert client.cluster.scheduler.worker_ttl == cluster.PATIENCE
    assert freeze.victim not in client.scheduler_info()["workers"]
    assert_same_state(with_frozen_worker, fit(shards=2))
