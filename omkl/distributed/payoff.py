"""Whether training in shards pays: measured on a few examples before it starts, and said in one line."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Barrier, Thread
from typing import Any

import numpy as np

from omkl.exceptions import OmklError

#: Seconds that the examples learned for a measurement should take, the fewest, and the most of them.
TRIAL, LEAST, MOST = 0.05, 16, 256


def _silent(count: int, loss: float) -> None:
    """A measurement reports nothing."""


def seconds_of(
    task: Callable, state: dict[str, np.ndarray], shard: Any, order: np.ndarray, clock: Callable = time.thread_time
) -> float:
    """Seconds of a pass over some examples of a shard, by default of CPU, which others that are busy do not change;
    its result is thrown away."""
    started = clock()
    task(state, shard, order, _silent)
    return clock() - started


class Payoff:
    """What an epoch is expected to take, plain and in shards.

    Parameters
    ----------
    task : callable
        ``task(state, shard, order, report)`` is a pass over some examples of a shard, a pure function.
    state : dict of str to array
        What the passes start from.
    shards : list of sequences of Example
    side_by_side : int
        How many passes run at a time.
    threads : bool
        Whether they are threads of this process, which share its interpreter.
    transfer : float
        Seconds that it takes to send a byte to a shard and what changed back.

    Attributes
    ----------
    plain, sharded : float
        Seconds of an epoch.
    round_seconds : float
        Seconds of an example in plain training.
    """

    def __init__(
        self, task: Callable, state: dict[str, np.ndarray], shards: Sequence[Any], side_by_side: int, threads: bool,
        transfer: float = 0.0,
    ) -> None:  # fmt: skip
        shard, sizes = shards[0], [len(shard) for shard in shards]
        few, order = min(LEAST, len(shard)), np.arange(len(shard))
        seconds_of(task, state, shard, order[:1])  # compiled code is loaded, and data comes into the cache
        fixed = seconds_of(task, state, shard, order[:0])
        taken = seconds_of(task, state, shard, order[:few]) - fixed
        while taken < TRIAL and few < min(MOST, len(shard)):
            few = min(4 * few, MOST, len(shard))
            taken = seconds_of(task, state, shard, order[:few]) - fixed
        self.round_seconds = max(taken, 0.0) / few
        together = 1.0
        if threads and side_by_side > 1:
            alone = min(seconds_of(task, state, shard, order[:few], time.perf_counter) for _ in range(2))
            beside = min(_seconds_together(task, state, shards, side_by_side, few) for _ in range(2))
            together = min(max(beside / alone, 1.0), float(side_by_side))
        waves = -(-len(shards) // side_by_side)
        sent = transfer * sum(array.nbytes for array in state.values())
        self.plain = self.round_seconds * sum(sizes)
        # what changed in a shard is found and mixed at about the speed at which its state is taken
        self.sharded = waves * together * (self.round_seconds * max(sizes) + fixed) + len(shards) * (fixed + sent)

    def warn(self, n_shards: int, where: str, stacklevel: int = 2) -> None:
        """One line where shards are expected to take longer, as far as the clock could tell."""
        if 0.0 < self.plain < self.sharded:
            warnings.warn(
                f"An epoch in {n_shards} shards {where} is expected to take {self.sharded:.2g} s, and "
                f"{self.plain:.2g} s without: leave shards= and client= out to save the time.",
                UserWarning,
                stacklevel=stacklevel,
            )


def _seconds_together(
    task: Callable, state: dict[str, np.ndarray], shards: Sequence[Any], side_by_side: int, few: int
) -> float:
    """Seconds of passes over a few examples of as many shards as run at a time, each in a thread."""
    ready = Barrier(min(side_by_side, len(shards)) + 1)

    def learn(shard: Any) -> None:
        ready.wait()
        with suppress(OmklError):  # it will be met again
            task(state, shard, np.arange(min(few, len(shard))), _silent)

    threads = [Thread(target=learn, args=(shard,), daemon=True) for shard in shards[: ready.parties - 1]]
    for thread in threads:
        thread.start()
    ready.wait()
    started = time.perf_counter()
    for thread in threads:
        thread.join()
    return time.perf_counter() - started
