r"""Iterative parameter mixing: one model from shards that are trained side by side.

In every epoch, all shards start from the same training state, make one online pass each, and return their state. The
mix is the average of their parameters, in a fixed order, weighted by the sums of the weights of their examples.
Averaging revives every group that is alive in any shard, so a proximal step follows and restores group sparsity.

A *round* is one step of every shard: S shards of N examples make ``N / S`` rounds an epoch, and the horizon of rates
that end with the last round is ``epochs * N / S``. The mean of S shards has moved along the mean of S gradients in each
round, as a mini-batch of S examples would. For the same reason, the mean of the shards' sums of gradients in dual
averaging is a sum over that many rounds. A schedule mixes its own state.

Regularizers on coordinates (l1, trees) shrink in the shards' passes only: a coordinate of the mix is zero where it is
zero in every shard.

References
----------
McDonald, Hall, Mann (2010), Distributed training strategies for the structured perceptron.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from omkl._components import check_number
from omkl._threads import in_threads
from omkl.distributed.cluster import gathered, identity, submitted, workers_of
from omkl.exceptions import InputError
from omkl.groups.base import check_ability
from omkl.online.rounds import Examples, Record, Step, below
from omkl.online.trainer import RECOMPUTE_EVERY, OnlineTrainer
from omkl.online.training_loop import Source, serial_pass

if TYPE_CHECKING:
    from distributed import Client

#: Named arrays: the state of a trainer, as checkpoints have it.
State = dict[str, np.ndarray]


class MixedPass(NamedTuple):
    """A block that shards have learned: sums of its losses, examples and weights, and entries of the epoch's record."""

    loss: float
    n_examples: int
    weight: float
    record: Record
    in_shards: bool = True


class ParameterMixing:
    """Learns blocks in shards, on threads of this process or on the workers of a Dask cluster: the bits are the same.

    It is a ``make_pass`` of :class:`~omkl.online.TrainingLoop`. A shard is sent to one worker and stays there. Passes
    are pure functions: Dask repeats a pass whose worker is lost.

    Parameters
    ----------
    n_shards : int or None
        By default one shard for each worker of the client.
    client : dask.distributed.Client, optional
        Without one, shards are trained in this process.
    n_jobs : int or None
        Threads that train shards in this process; None is one, -1 one for each core.

    Raises
    ------
    omkl.exceptions.InputError
        If ``n_shards`` is not a positive integer, or ``client`` is not a client.
    omkl.exceptions.DistributionError
        If the scheduler cannot be reached, or has no workers.
    """

    def __init__(self, n_shards: int | None, client: Client | None = None, n_jobs: int | None = None) -> None:
        self._workers = [] if client is None else workers_of(client)
        n_shards = len(self._workers) if n_shards is None else n_shards
        check_number("shards", n_shards, above=0, integer=True)
        self.n_shards = int(n_shards)
        self.client = client
        self.n_jobs = n_jobs
        self._examples: Examples | None = None  # those that are cut into shards
        self._shards: list = []
        self._sizes: list[int] = []

    def __call__(
        self, trainer: OnlineTrainer, examples: Examples, orders: Callable, done: int
    ) -> Iterator[MixedPass | Step]:
        """Learn a block, as a :class:`~omkl.online.TrainingLoop` asks for it.

        Shard j of S has the examples ``j, j + S, j + 2S, ...``, in an order of its own. A single shard has the bits of
        :func:`~omkl.online.training_loop.serial_pass`. Fewer examples than shards, such as the last ones of a stream,
        are learned here, one after the other.

        Parameters
        ----------
        trainer : OnlineTrainer
        examples : sequence of Example
            Its method ``part(indices)`` makes a sequence of some of them.
        orders : callable
            ``orders(sizes)`` gives an order for each shard.
        done : int
            0, except for examples that are learned here.

        Yields
        ------
        MixedPass or Step
        """
        if len(examples) < self.n_shards:
            yield from serial_pass(trainer, examples, orders, done)
            return
        self._hold(examples)
        trainer.forget_input()
        states = self._run(trainer, orders(self._sizes))
        passed = time.perf_counter()
        losses, weights = np.array([state["loss_and_weight"] for state in states]).T
        if self.n_shards == 1:
            trainer.load_state(states[0])
            trainer.recompute_norms()
        elif weights.any():
            mix(trainer, states, weights / weights.sum())
        record: Record = {"shards": len(states), "mixing_seconds": time.perf_counter() - passed}
        for j, (state, loss, weight) in enumerate(zip(states, losses.tolist(), weights.tolist()), 1):
            record |= {f"loss:shard{j}": loss / weight if weight else 0.0, f"seconds:shard{j}": float(state["seconds"])}
        yield MixedPass(float(losses.sum()), sum(self._sizes), float(weights.sum()), record)

    def _hold(self, examples: Examples) -> None:
        """Cut examples into shards, and send these to the workers, unless they are there already."""
        if self._examples is examples:
            return
        shards = [examples.part(np.arange(j, len(examples), self.n_shards)) for j in range(self.n_shards)]
        self._examples, self._sizes = examples, list(map(len, shards))
        if self.client is not None:
            self._workers = [self._workers[j % len(self._workers)] for j in range(len(shards))]
            held = zip(self._workers, shards)
            shards = [submitted(self.client, identity, shard, worker=own) for own, shard in held]
        self._shards = shards

    def _run(self, trainer: OnlineTrainer, orders: Sequence[np.ndarray]) -> list[State]:
        """Make a pass over every shard."""
        client, alone = self.client, self.n_shards == 1
        if client is None:
            passes = zip(self._shards, orders)
            return in_threads(lambda part: pass_over_shard(trainer, alone, *part), passes, self.n_jobs)
        sent = {own: submitted(client, identity, trainer, worker=own) for own in dict.fromkeys(self._workers)}
        parts = zip(self._workers, self._shards, orders)
        asked = [submitted(client, pass_over_shard, sent[own], alone, *part, worker=own) for own, *part in parts]
        return gathered(client, asked)

    def check(self, trainer: OnlineTrainer, source: Source, callbacks: Sequence[object]) -> None:
        """Raise an InputError if shards cannot train this model, or callbacks would have to see single rounds.

        Parameters
        ----------
        trainer : OnlineTrainer
        source : Source
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


def pass_over_shard(trainer: OnlineTrainer, alone: bool, shard: Examples, order: np.ndarray) -> State:
    """Make one online pass over a shard with a copy of the trainer: a pure function. ``alone``: no other shards.

    Returns the state after the pass, with ``loss_and_weight`` (sums), ``seconds``, and ``shrinkage`` (reductions of the
    norms by proximal steps, and the sum of the steps).
    """
    started = time.perf_counter()
    trainer = deepcopy(trainer)
    trainer.recompute_every = len(order) if alone else RECOMPUTE_EVERY
    trainer.shrinkage, trainer.group_state.total_shrinkage[:] = 0.0, 0.0
    loss = weight = 0.0
    for step in serial_pass(trainer, shard, lambda sizes: [order], 0):
        loss, weight = loss + step.loss, weight + step.weight
    return {
        **trainer.state(),
        "loss_and_weight": np.array([loss, weight]),
        "seconds": np.array(time.perf_counter() - started),
        "shrinkage": np.append(trainer.group_state.total_shrinkage, trainer.shrinkage),
    }


def mix(trainer: OnlineTrainer, states: Sequence[State], weights: np.ndarray) -> None:
    """Mix the states of shards into the trainer whose state they started from (McDonald et al. 2010).

    States are those of :func:`pass_over_shard`; the weights of the shards, (S,), sum to one. One proximal step follows,
    which restores group sparsity.
    """
    group_state, n = trainer.group_state, trainer.n_penalized
    parts = np.array([state["groups/scales"] for state in states])
    if not trainer.method.forgets:  # dual averaging mixes sums of gradients
        parts = np.ones_like(parts)
    mixture = group_state.mix([below(state, "groups/") for state in states], weights, parts)
    for index, bank in enumerate(trainer.banks):
        bank.mix([below(state, f"bank{index}/") for state in states], mixture.of(bank.group_state.groups))

    counters = np.array([state["counters"] for state in states])
    trainer.go_on(counters[:, 0].max(), weights @ counters[:, 1])
    trainer.schedule.mix(counters[:, 3:], weights)
    if trainer.evidence is not None:
        trainer.evidence.mix([below(state, "evidence/") for state in states])

    if trainer.method.forgets:
        # what the proximal steps of the shards have taken off is added first, else the regularizer would count twice
        *taken, step = weights @ [state["shrinkage"] for state in states]
        group_state.empty[:] = group_state.square_norms <= 0.0
        group_state.bases[:] = np.where(group_state.empty, 1.0, group_state.scales)
    else:
        rate, taken = trainer.schedule(trainer.round - trainer.began), [0.0] * n
        step = trainer.method.proximal_weight(rate, 1.0, trainer.presented) * trainer.current_lambda
        group_state.bases[:] = rate
    before = group_state.measure()[:n]
    norms = trainer.prox(np.where(before > 0, before + taken[:n], 0.0), step)
    events, _ = group_state.rescale(np.minimum(norms, before), trainer.radius, trainer.method.forgets)
    if events:
        for bank in trainer.banks:
            bank.apply_events(None, None)
