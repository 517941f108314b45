"""Two worker processes that the tests of this folder share."""

import pytest


@pytest.fixture(scope="package")
def cluster():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster, direct_to_workers=True) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    cluster.wait_for_workers(2)
    return cluster
