"""Executors of passes over shards: in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl._threads import in_threads
from omkl.distributed.cluster import gathered, submitted, workers_of

if TYPE_CHECKING:
    from distributed import Client

#: Seconds between two reports of a pass.
INTERVAL = 0.5


class SerialExecutor:
    """Runs the passes here, one after the other, or on threads of this process.

    Threads learn side by side where rounds release the interpreter's lock: in compiled loops and products of matrices,
    as those of parsers and of large sets of kernels.

    Parameters
    ----------
    shards : list
    n_jobs : int or None
        Threads; None is one, -1 one for each core. The results are the same bits.
    """

    def __init__(self, shards: list, n_jobs: int | None = None) -> None:
        self._shards = shards
        self.n_jobs = n_jobs

    def run(
        self,
        task: Callable,
        state: dict[str, np.ndarray],
        orders: Sequence[np.ndarray],
        report: Callable[[int, int, float], object],
    ) -> list:
        """Run a pass over every shard.

        Parameters
        ----------
        task : callable
            ``task(state, shard, order, report)``, a pure function.
        state : dict of str to array
        orders : sequence of array
            One for each shard.
        report : callable
            Told the number of a shard, and how many of its examples are done with which sum of losses.

        Returns
        -------
        list
            The results, in the order of the shards.
        """

        def learn(part: tuple[int, Any, np.ndarray]) -> Any:
            j, shard, order = part
            return task(state, shard, order, Reporter(partial(report, j)))

        return in_threads(learn, zip(count(), self._shards, orders), self.n_jobs)


class DaskExecutor:
    """Runs the passes on the workers of a Dask cluster.

    A shard is sent to one worker and stays there. Passes are pure functions: Dask runs a pass again if its worker is
    lost, and the results are the same bits.

    Parameters
    ----------
    client : dask.distributed.Client
    shards : list
    """

    def __init__(self, client: Client, shards: list) -> None:
        self._client, workers = client, workers_of(client)
        self._workers = [workers[j % len(workers)] for j in range(len(shards))]
        self._shards = [submitted(client, _held, shard, worker=own) for shard, own in zip(shards, self._workers)]

    def run(
        self,
        task: Callable,
        state: dict[str, np.ndarray],
        orders: Sequence[np.ndarray],
        report: Callable[[int, int, float], object],
    ) -> list:
        """Run a pass over every shard; see :meth:`SerialExecutor.run`.

        Parameters
        ----------
        task : callable
        state : dict of str to array
        orders : sequence of array
        report : callable
        """
        client, topic = self._client, f"omkl-{uuid.uuid4().hex}"
        client.subscribe_topic(topic, lambda event: report(*event[1]))
        try:
            states = {own: submitted(client, _held, state, worker=own) for own in dict.fromkeys(self._workers)}
            passes = []
            for j, (own, shard, order) in enumerate(zip(self._workers, self._shards, orders)):
                passes.append(submitted(client, _pass, task, topic, j, states[own], shard, order, worker=own))
            return gathered(client, passes)
        finally:
            client.unsubscribe_topic(topic)


class Reporter:
    """Forwards reports, at most one every :data:`INTERVAL` seconds."""

    def __init__(self, tell: Callable[[int, float], object]) -> None:
        self._tell = tell
        self._next = time.monotonic() + INTERVAL

    def __call__(self, count: int, loss: float) -> None:
        if count % 16 == 0 and time.monotonic() >= self._next:
            self._tell(count, float(loss))  # a number that any message can hold
            self._next = time.monotonic() + INTERVAL


def _held(value: Any) -> Any:
    """A value that a worker keeps, and that Dask sends again if it is lost."""
    return value


def _pass(task: Callable, topic: str, j: int, state: dict[str, np.ndarray], shard: Any, order: np.ndarray) -> Any:
    """A pass as a worker of Dask runs it."""
    from distributed import get_worker

    worker = get_worker()
    return task(state, shard, order, Reporter(lambda *news: worker.log_event(topic, (j, *news))))
