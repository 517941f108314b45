"""Frozen workers, servers that are no schedulers, and access control."""

import os
import random
import signal
import sys
import threading
import urllib.request
from contextlib import contextmanager, suppress

import numpy as np
import pytest

from omkl import OnlineMKLClassifier
from omkl.distributed import cluster, local_client, running_client
from omkl.exceptions import DistributionError

from ..passes import assert_same_state

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals as POSIX has them")


@pytest.fixture
def client():
    """Start new workers for each attack, since Dask does not always replace a killed one."""
    with local_client(2) as client:
        yield client


def data():
    X = np.random.default_rng(0).normal(size=(4000, 10))
    return X, (X[:, 0] + X[:, 1] > 0).astype(np.int64)


def fit(**options):
    return OnlineMKLClassifier(["linear"], epochs=12, random_state=0).fit(*data(), **options)


@contextmanager
def attacked(client, attack, seed):
    """Call ``attack`` on one worker at a random moment within the context."""
    rng = random.Random(seed)
    victim, delay = rng.choice(sorted(client.run(os.getpid).values())), rng.uniform(0.0, 2.0)
    timer = threading.Timer(delay, attack, [victim])
    timer.start()
    try:
        yield victim
    finally:
        timer.join()


def freeze(pid):
    os.kill(pid, signal.SIGSTOP)


@pytest.fixture(scope="module")
def expected():
    return fit(shards=2)


def test_nobody_else_is_let_in(client):
    addresses = [client.scheduler.address, *client.run(os.getpid)]
    assert {address.rpartition(":")[0] for address in addresses} == {"tls://127.0.0.1"}
    server = client.cluster.scheduler.http_server
    assert server.address == "127.0.0.1"
    for page in "status", "info/main/workers.html", "metrics":
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{page}")
    with pytest.raises(DistributionError, match="cannot be reached"), running_client(addresses[0]):
        pass
    own = client.security
    names = {"ca-file": own.tls_ca_file, "client.cert": own.tls_client_cert, "client.key": own.tls_client_key}
    settings = {f"distributed.comm.tls.{name}": value for name, value in names.items()}
    with dask.config.set(settings), running_client(addresses[0]) as other:
        assert len(other.nthreads()) == 2


def test_a_frozen_worker_is_left_out(expected, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 2.0)
    with local_client(2) as client, attacked(client, freeze, 1) as victim:
        try:
            found = fit(client=client, shards=2)
        finally:
            with suppress(ProcessLookupError):  # Dask may have ended it
                os.kill(victim, signal.SIGKILL)
    assert_same_state(found, expected)
