r"""Iterative parameter mixing: one model from shards that are trained side by side.

Every epoch, all shards start from the same training state, make one online pass each, and send back their state; the
mix is the average of their parameters, in a fixed order, weighted by the sums of the weights of their examples.
Averaging revives every group that is alive in any shard, so a proximal step follows, and restores group sparsity.

Counters are mixed as follows. A *round* is one step of every shard side by side: S shards of N examples make ``N / S``
rounds an epoch, and the horizon of rates that end with the last round is ``epochs * N / S``. The mean of S shards has
gone along the mean of S gradients at each of these rounds, as a mini-batch of S examples would. Dual averaging needs
this, too: the mean of the shards' sums of gradients is a sum over as many rounds. A schedule mixes its own state.

Regularizers on coordinates (l1, trees) shrink in the shards' passes only: a coordinate of the mix is zero where it is
zero in every shard.

References
----------
McDonald, Hall, Mann (2010), Distributed training strategies for the structured perceptron.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from omkl.distributed.cluster import workers_of
from omkl.distributed.executors import DaskExecutor, SerialExecutor
from omkl.exceptions import InputError
from omkl.groups.base import check_ability
from omkl.online.rounds import Step, below
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import serial_pass


class MixedPass(NamedTuple):
    """A block that shards have learned: sums of its losses, examples and weights, and entries of the epoch's record."""

    loss: float
    n_examples: int
    weight: float
    record: dict[str, Any]
    #: ``on_round`` was not called.
    in_shards: bool = True


class ParameterMixing:
    """Learns blocks in shards, in one process or many: the bits are the same. A ``make_pass`` of the training loop.

    Parameters
    ----------
    n_shards : int
    executor : callable
        Makes, from the list of shards, what runs a pass over each: :class:`~omkl.distributed.SerialExecutor` or
        a :class:`~omkl.distributed.DaskExecutor` with a client.
    """

    def __init__(
        self, n_shards: int, executor: Callable[[list], SerialExecutor | DaskExecutor] = SerialExecutor
    ) -> None:
        if not isinstance(n_shards, (int, np.integer)) or n_shards < 1:
            raise InputError(f"`shards` must be an integer > 0, got {n_shards!r}.")
        self.n_shards = int(n_shards)
        self.executor = executor
        self._examples: Any = None  # those that the executor holds

    @classmethod
    def over(cls, client: Any = None, shards: int | None = None, n_jobs: int | None = None) -> ParameterMixing | None:
        """Mixing for ``fit(..., client=client, shards=shards)`` of an estimator; None for plain training.

        Parameters
        ----------
        client : dask.distributed.Client, optional
            Without one, shards are trained in this process.
        shards : int, optional
            By default one for each worker of the client.
        n_jobs : int, optional
            Threads that train shards in this process.

        Returns
        -------
        ParameterMixing or None
        """
        if client is None:
            here = partial(SerialExecutor, n_jobs=n_jobs)
            return None if shards is None or cls(shards).n_shards == 1 else cls(shards, here)
        for_client = partial(DaskExecutor, client)
        return cls(len(workers_of(client)) if shards is None else shards, for_client)

    def __call__(
        self, trainer: OnlineTrainer, examples: Any, orders: Callable, done: int, report: Callable
    ) -> Iterator[MixedPass | Step]:
        """Learn a block, as a :class:`~omkl.online.TrainingLoop` asks for it.

        Shard j of S has the examples ``j, j + S, j + 2S, ...``, in an order of its own. With one shard the bits are
        those of :func:`~omkl.online.training_loop.serial_pass`; fewer examples than shards, as the last ones of a
        stream, are learned here, one after the other.

        Parameters
        ----------
        trainer : OnlineTrainer
        examples : sequence of Example
            Its method ``part(indices)`` makes a sequence of some of them.
        orders : callable
            ``orders(sizes)`` gives an order of each shard.
        done : int
            0, but for examples that are learned here.
        report : callable
            ``report(n_examples, loss)`` is told now and then how far all shards together have come.

        Yields
        ------
        MixedPass or Step
        """
        if len(examples) < self.n_shards:
            yield from serial_pass(trainer, examples, orders, done, report)
            return
        started = time.perf_counter()
        if self._examples is not examples:
            parts = [examples.part(np.arange(j, len(examples), self.n_shards)) for j in range(self.n_shards)]
            self._examples, self._sizes, self._executor = examples, list(map(len, parts)), self.executor(parts)
        task = partial(pass_over_shard, blueprint(trainer), self.n_shards == 1)
        states = self._executor.run(task, trainer.state(), orders(self._sizes), _Reports(report))
        passed = time.perf_counter()
        losses, weights = np.array([state["loss_and_weight"] for state in states]).T
        if self.n_shards == 1:
            trainer.load_state(states[0])
            trainer.recompute_norms()
        elif weights.any():
            mix(trainer, states, weights / weights.sum())
        now = time.perf_counter()
        record = _record(states, losses, weights, now - started, now - passed)
        yield MixedPass(float(losses.sum()), sum(self._sizes), float(weights.sum()), record)

    def check(self, trainer: OnlineTrainer, source: Any, callbacks: Sequence[Any]) -> None:
        """Raise an InputError where shards cannot train this model, or callbacks would have to see single rounds.

        Parameters
        ----------
        trainer : OnlineTrainer
        source : ArraySource or the like
        callbacks : sequence
        """
        for callback in callbacks:
            if hasattr(callback, "on_round") and not hasattr(callback, "on_block"):
                raise InputError(
                    f"{type(callback).__name__} looks at single rounds, which shards make elsewhere: leave client= "
                    "and shards= out, or give it on_block(trainer, block), which is called after every mix."
                )
        if source.n_examples is not None and self.n_shards > source.n_examples:
            raise InputError(f"{source.n_examples} examples do not make {self.n_shards} shards: ask for fewer.")
        check_ability(trainer.banks, "mix", "Shards mix parameters", "leave budget=, client= and shards= out")
        if trainer.average is not None and trainer.average.period:
            raise InputError(f"{trainer.average!r} cannot be kept in shards: choose another average.")


def blueprint(trainer: OnlineTrainer) -> Callable[[], OnlineTrainer]:
    """A small, picklable function that makes an untrained trainer like this one."""
    banks = [bank.blueprint() for bank in trainer.banks]
    n = len(trainer.penalized_banks)
    return partial(
        _built,
        banks[:n],
        banks[n:],
        trainer.structure,
        trainer.loss,
        trainer.regularizer,
        schedule=trainer.schedule.fresh(),
        lambda_=trainer.lambda_,
        method=trainer.method.name,
        radius=trainer.radius,
        average=trainer.average,
        order=trainer.order,
        weighting=trainer.weighting,
    )


def _built(
    banks: list[Callable], unpenalized: list[Callable], *parts: Any, schedule: Any, **settings: Any
) -> OnlineTrainer:
    own, others = [make() for make in banks], [make() for make in unpenalized]
    # passes may run side by side: each needs its own schedule
    return OnlineTrainer(own, *parts, schedule=schedule.fresh(), unpenalized=others, **settings)


def pass_over_shard(
    make_trainer: Callable[[], OnlineTrainer],
    alone: bool,
    state: dict[str, np.ndarray],
    shard: Any,
    order: np.ndarray,
    report: Callable,
) -> dict[str, np.ndarray]:
    """One online pass over a shard, a pure function: returns the new state, and figures of the pass.

    The sums of losses and weights, the seconds that passed and those of CPU, and the reductions by proximal steps.
    """
    started, cpu_started = time.perf_counter(), time.thread_time()
    trainer = make_trainer()
    trainer.load_state(state)
    if alone:
        trainer.recompute_every = len(order)
    count, loss, weight = 0, 0.0, 0.0
    for step in serial_pass(trainer, shard, lambda sizes: [order], 0, report):
        count, loss, weight = count + step.n_examples, loss + step.loss, weight + step.weight
        report(count, loss)
    return {
        **trainer.state(),
        "loss_and_weight": np.array([loss, weight]),
        "seconds": np.array([time.perf_counter() - started, time.thread_time() - cpu_started]),
        "shrinkage": np.append(trainer.group_state.total_shrinkage, trainer.shrinkage),
    }


def mix(trainer: OnlineTrainer, states: Sequence[dict[str, np.ndarray]], weights: np.ndarray) -> None:
    """Mix the states of shards into the trainer whose state they started from (McDonald et al. 2010).

    One proximal step follows, which restores group sparsity.

    Parameters
    ----------
    trainer : OnlineTrainer
    states : sequence of dict
        Of each shard, from a pass over it.
    weights : array of shape (S,)
        Weights of the shards; they sum to one.
    """
    group_state, method, n = trainer.group_state, trainer.method, trainer.n_penalized
    parts = method.mixed_part(np.array([state["groups/scales"] for state in states]))
    mixture = group_state.mix([below(state, "groups/") for state in states], weights, parts)
    for index, bank in enumerate(trainer.banks):
        bank.mix([below(state, f"bank{index}/") for state in states], mixture.of(bank.group_state.groups))

    counters = np.array([state["counters"] for state in states])
    trainer.go_on(counters[:, 0].max(), weights @ counters[:, 1])
    trainer.schedule.mix(counters[:, 3:], weights)

    if trainer.evidence is not None:
        trainer.evidence.mix([below(state, "evidence/") for state in states])

    rate = trainer.schedule(trainer.round - trainer.began)
    *shrinkage, taken = weights @ [state["shrinkage"] for state in states]
    current = trainer.current_lambda
    step, returned = method.open_mix(group_state, rate, trainer.presented, current, taken, np.array(shrinkage))
    before = group_state.measure()[:n]
    norms = trainer.prox(np.where(before > 0, before + returned[:n], 0.0), step)
    events, _ = group_state.rescale(np.minimum(norms, before), trainer.radius, method.forgets)
    if events:
        for bank in trainer.banks:
            bank.apply_events(None, None)


def _record(
    states: list[dict[str, np.ndarray]], losses: np.ndarray, weights: np.ndarray, seconds: float, mixing_seconds: float
) -> dict[str, Any]:
    """Entries of an epoch's record about its mix; losses are weighted means."""
    record: dict[str, Any] = {"shards": len(states)}
    for j, (state, loss, weight) in enumerate(zip(states, losses.tolist(), weights.tolist()), 1):
        passed, cpu = state["seconds"].tolist()
        mean = loss / weight if weight else 0.0
        record |= {f"loss:shard{j}": mean, f"seconds:shard{j}": passed, f"cpu_seconds:shard{j}": cpu}
    sent = sum(array.nbytes for state in states for array in state.values())
    return {**record, "pass_seconds": seconds, "mixing_seconds": mixing_seconds, "bytes": sent}


class _Reports:
    """Sums up what the shards report of the block at hand."""

    def __init__(self, report: Callable) -> None:
        self._report = report
        self._done: dict[int, tuple[int, float]] = {}
        self._lock = Lock()

    def __call__(self, shard: int, count: int, loss: float) -> None:
        with self._lock:
            self._done[shard] = count, loss
            self._report(*map(sum, zip(*self._done.values())))
