"""Executors of passes over shards: in this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from omkl._threads import in_threads
from omkl.distributed.cluster import ASK_AFTER, answers, moved, passes_of, workers_of
from omkl.exceptions import DistributionError

if TYPE_CHECKING:
    from distributed import Client

#: Seconds between two reports of a pass.
INTERVAL = 0.5
#: How often a pass is tried, if worker after worker dies.
ATTEMPTS = 5
#: Seconds until the scheduler has noticed that a worker died.
PAUSE = 1.0


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
        """``task(state, shard, order, report)`` of every shard: a list in their order."""

        def learn(part: tuple[int, Any, np.ndarray]) -> Any:
            j, shard, order = part
            return task(state, shard, order, Reporter(partial(report, j)))

        return in_threads(learn, zip(count(), self._shards, orders), self.n_jobs)


class DaskExecutor:
    """Runs the passes on the workers of a Dask cluster.

    A shard is sent to one worker and stays there. Passes are pure functions: where a worker dies, Dask runs its pass
    again if all it needs is still somewhere, else it is sent again from here, where the shards are kept. So a worker
    that dies, or is silent for a minute, costs its pass, never the run, and the results are the same bits.

    Parameters
    ----------
    client : dask.distributed.Client
    shards : list
    """

    def __init__(self, client: Client, shards: list) -> None:
        self._client = client
        self._shards = shards
        self._sent: list[Any] = [None] * len(shards)
        self._silent: set[str] = set()

    def run(
        self,
        task: Callable,
        state: dict[str, np.ndarray],
        orders: Sequence[np.ndarray],
        report: Callable[[int, int, float], object],
    ) -> list:
        """``task(state, shard, order, report)`` of every shard: a list in their order."""
        results = [None] * len(self._shards)
        with self._listening(report) as topic:
            for _ in range(ATTEMPTS):
                missing = [j for j, result in enumerate(results) if result is None]
                if not missing:
                    return results
                try:
                    for j, result in self._attempt(task, state, orders, topic, missing):
                        results[j] = result
                except (OSError, TimeoutError):  # a worker died while data was sent to it
                    self._sent = [None] * len(self._shards)
                    time.sleep(PAUSE)
        raise DistributionError(
            f"Workers, or the scheduler, were lost {ATTEMPTS} times in one epoch: their logs may tell why."
        )

    def _attempt(
        self, task: Callable, state: dict[str, np.ndarray], orders: Sequence[np.ndarray], topic: str, chosen: list[int]
    ) -> Iterator[tuple[int, Any]]:
        """``(j, result)`` of the chosen shards' passes, as they end; passes whose data was lost are left out."""
        from distributed import CancelledError, KilledWorker

        known = workers_of(self._client)
        workers = [worker for worker in known if worker not in self._silent] or known
        states: dict[str, Any] = {}
        passes: dict[Any, tuple[int, str]] = {}
        for j in chosen:
            worker = workers[j % len(workers)]
            if worker not in states:  # to all at once, Dask sends for ever where one dies
                states[worker] = self._send(state, worker)
            if self._sent[j] is None:
                self._sent[j] = self._send(self._shards[j], worker)
            future = self._client.submit(
                _report_to,
                task,
                topic,
                j,
                states[worker],
                self._sent[j],
                orders[j],
                pure=False,
                workers=[worker],
                allow_other_workers=True,
            )
            passes[future] = j, worker
        for future in self._ended(list(passes)):
            j, worker = passes[future]
            try:
                if future.done():
                    yield j, moved(self._client, worker, self._client.gather(future, asynchronous=True))
                    continue
            except (CancelledError, KilledWorker, OSError):
                pass
            self._sent[j] = None

    def _send(self, value: Any, worker: str) -> Any:
        """The future of a value on a worker."""
        try:
            [sent] = moved(
                self._client,
                worker,
                self._client.scatter([value], workers=[worker], hash=False, asynchronous=True),
            )
        except OSError:
            self._silent.add(worker)
            raise
        return sent

    def _ended(self, pending: list[Any]) -> Iterator[Any]:
        """Futures of passes as they end, and of those whose workers are silent."""
        news, asked = Event(), time.monotonic()
        for future in pending:
            future.add_done_callback(lambda _: news.set())
        while pending:
            news.clear()
            ended = [future for future in pending if future.done()]
            if not ended and time.monotonic() > asked + ASK_AFTER:
                ended, asked = self._on_silent_workers(pending), time.monotonic()
            if not ended:
                news.wait(ASK_AFTER)
            pending = [future for future in pending if future not in ended]
            yield from ended

    def _on_silent_workers(self, pending: list[Any]) -> list[Any]:
        """Futures of passes on workers that do not answer, though the scheduler lists them."""
        keys = {future.key: future for future in pending}
        lost = []
        for worker, theirs in passes_of(self._client).items():
            own = [keys[key] for key in theirs if key in keys]
            if own and not answers(self._client, worker):
                self._silent.add(worker)
                lost += own
        return lost

    @contextmanager
    def _listening(self, report: Callable[[int, int, float], object]) -> Iterator[str]:
        """Hand on what passes report, under a topic of their own."""
        topic = f"omkl-{uuid.uuid4().hex}"
        self._client.subscribe_topic(topic, lambda event: report(*event[1]))
        try:
            yield topic
        finally:
            self._client.unsubscribe_topic(topic)


class Reporter:
    """Forwards reports, at most one every :data:`INTERVAL` seconds."""

    def __init__(self, tell: Callable[[int, float], object]) -> None:
        self._tell = tell
        self._next = time.monotonic() + INTERVAL

    def __call__(self, count: int, loss: float) -> None:
        if count % 16 == 0 and time.monotonic() >= self._next:
            self._tell(count, float(loss))  # a number that any message can hold
            self._next = time.monotonic() + INTERVAL


def _report_to(task: Callable, topic: str, j: int, state: dict[str, np.ndarray], shard: Any, order: np.ndarray) -> Any:
    """A pass as a worker of Dask runs it."""
    from distributed import get_worker

    worker = get_worker()
    return task(state, shard, order, Reporter(lambda *news: worker.log_event(topic, (j, *news))))
