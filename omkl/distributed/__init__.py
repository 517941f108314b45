"""Kernels and training on a Dask cluster. No other package imports Dask."""

from omkl.distributed.cluster import local_client, running_client
from omkl.distributed.mixing import ParameterMixing
from omkl.distributed.stack import DistributedStack

__all__ = ["DistributedStack", "ParameterMixing", "local_client", "running_client"]
