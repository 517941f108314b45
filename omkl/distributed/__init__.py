"""All that knows of machines: kernels and training spread over a Dask cluster. Nothing else imports Dask."""

from omkl.distributed.cluster import local_client, running_client, workers_of
from omkl.distributed.executors import DaskExecutor, SerialExecutor
from omkl.distributed.mixing import ParameterMixing
from omkl.distributed.stack import DistributedStack

__all__ = [
    "DaskExecutor",
    "DistributedStack",
    "ParameterMixing",
    "SerialExecutor",
    "local_client",
    "running_client",
    "workers_of",
]
