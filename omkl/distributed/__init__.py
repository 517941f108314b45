"""All that knows of machines: kernels partitioned over the workers of a Dask cluster. Nothing else imports Dask."""

from omkl.distributed.cluster import local_client, running_client, workers_of
from omkl.distributed.stack import DistributedStack

__all__ = ["DistributedStack", "local_client", "running_client", "workers_of"]
