"""Partitions of Dask collections, which are the shards of training and stay on their workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl.distributed.cluster import current_client, gathered, identity, large_graphs, submitted
from omkl.exceptions import InputError

if TYPE_CHECKING:
    from dask.delayed import Delayed
    from distributed import Client, Future


class Partitions:
    """One result on a worker for each partition of a collection.

    Parameters
    ----------
    client : dask.distributed.Client
    futures : list of Future
    numbers : sequence of int
        Number of each partition in the collection, from 0, for error messages.
    sizes : list of int
        Number of examples of each, if known.
    """

    def __init__(
        self, client: Client, futures: list[Future], numbers: Sequence[int], sizes: Sequence[int] = ()
    ) -> None:
        self.client, self.futures, self.numbers, self.sizes = client, futures, numbers, sizes

    @classmethod
    def of(cls, client: Client | None, make: Callable, collections: Mapping[str, Any]) -> Partitions:
        """Load a partition of each collection, or None, and call ``make(...)`` with these, on a worker."""
        import dask

        client, named = current_client(client), {name: own for name, own in collections.items() if own is not None}
        parts = {name: _delayed(name, own) for name, own in named.items()}
        sizes = {name: len(own) for name, own in parts.items()}
        if len(set(sizes.values())) > 1:
            found = ", ".join(f"{size} of {name}" for name, size in sizes.items())
            raise InputError(f"Collections must have the same partitions, got {found}.")
        numbers = range(max(sizes.values()))
        each: Any = [[parts[name][j] if name in parts else None for name in collections] for j in numbers]
        call = dask.delayed(_on_partition)
        with large_graphs():
            return cls(client, client.compute([call(j, make, *own) for j, own in zip(numbers, each)]), numbers)

    def map(self, function: Callable, *shared: object, each: Sequence | None = None) -> Partitions:
        """Call ``function(*shared, result)``, or ``function(result, own)`` with its own of ``each``, on the workers."""
        held = [submitted(self.client, identity, own) for own in shared]  # sent once
        own = [[future] for future in self.futures] if each is None else zip(self.futures, each)
        futures = [submitted(self.client, _on_partition, j, function, *held, *a) for j, a in zip(self.numbers, own)]
        return Partitions(self.client, futures, self.numbers)

    def gathered(self) -> list:
        """Fetch all results."""
        return gathered(self.client, self.futures)

    def only(self, sizes: Sequence[int]) -> Partitions:
        """Select the partitions whose sizes are not 0."""
        kept = [(future, j, size) for future, j, size in zip(self.futures, self.numbers, sizes) if size]
        return Partitions(self.client, *map(list, zip(*kept)))


def _delayed(name: str, collection: Any) -> list[Delayed]:
    """Return the partitions of a dask.dataframe, dask.array or dask.bag; columns of an array become one chunk."""
    from dask.delayed import Delayed

    if isinstance(collection, Delayed):
        raise InputError(f"{name} must be a dask.dataframe, dask.array or dask.bag, got a dask.delayed object.")
    if not hasattr(collection, "chunks"):
        return collection.to_delayed()
    if np.isnan([size for sizes in collection.chunks[1:] for size in sizes]).any():
        raise InputError(f"{name} must have a known number of columns, got chunks {collection.chunks[1:]}.")
    whole = collection.rechunk({axis: -1 for axis in range(1, collection.ndim)}) if collection.ndim > 1 else collection
    return whole.to_delayed().ravel().tolist()


def _on_partition(number: int, function: Callable, *arguments: object) -> Any:
    """Call a function; name the partition in errors about its content."""
    try:
        return function(*arguments)
    except ValueError as error:
        raise InputError(f"Partition {number}: {error}") from None
