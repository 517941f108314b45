r"""Iterative parameter mixing: training of one model on shards in parallel.

In every epoch, all shards start from the same training state, make one online pass each, and return
their state. The new parameters are the average over shards, in a fixed order, weighted by the total
weights of the shards' examples. As a group is nonzero after averaging if it is nonzero in any
shard, a proximal step follows to restore group sparsity.

A *round* is one step of every shard: with S shards and N examples, an epoch has ``N / S`` rounds,
and the horizon of decaying rates is ``epochs * N / S``. In each round, the mean of S shards moves
along the mean of S gradients, as with a mini-batch of S examples. For the same reason, the mean of
the shards' sums of gradients in dual averaging is a sum over ``N / S`` rounds. Schedules define how
to mix their states.

Regularizers on coordinates (l1, trees) act only during the shards' passes: a mixed coordinate is
zero only if it is zero in every shard.

References
----------
McDonald, Hall, Mann (2010), Distributed training strategies for the structured perceptron.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from omkl._components import check_number
from omkl._threads import in_threads
from omkl.distributed.cluster import gathered, identity, placed, submitted, unpinned, workers_of
from omkl.exceptions import InputError
from omkl.groups.base import check_ability
from omkl.online.driver import fastest_pass
from omkl.online.rounds import Examples, LearnedBlock, Record, Sharded, Step, added, below
from omkl.online.trainer import RECOMPUTE_EVERY, OnlineTrainer
from omkl.online.training_loop import Pass, Source, serial_pass

if TYPE_CHECKING:
    from distributed import Client

#: State of a trainer: named arrays.
State = dict[str, np.ndarray]
#: Places of the counters in the state of a trainer.
ROUND = 0
PRESENTED = 1
#: Order of the examples of a shard: their indices, or a seed.
Order = np.ndarray | int


class ParameterMixing(Pass):
    """Training in shards, on threads of this process or on Dask workers.

    Both give bitwise the same result. Argument ``make_pass`` of :class:`~omkl.online.TrainingLoop`.
    A shard is sent to one worker and stays there. Passes are pure functions, so Dask can repeat a
    pass if its worker is lost.

    Parameters
    ----------
    n_shards : int or None
        Number of shards; by default one for each worker of the client.
    client : dask.distributed.Client, optional
        Without a client, shards are trained in this process.
    n_jobs : int or None
        Number of threads without a client; None means 1, -1 one for each core.

    Raises
    ------
    omkl.exceptions.InputError
        If ``n_shards`` is not a positive integer, or ``client`` is not a client.
    omkl.exceptions.DistributionError
        If the scheduler cannot be reached, or has no workers.
    """

    def __init__(
        self, n_shards: int | None, client: Client | None = None, n_jobs: int | None = None
    ) -> None:
        workers = [] if client is None else workers_of(client)
        if n_shards is None:
            n_shards = len(workers)
        check_number("shards", n_shards, above=0, integer=True)
        self.n_shards = int(n_shards)
        self.client = client
        self.n_jobs = n_jobs
        self._examples: Examples | None = None  # the examples of the current shards
        self._shards: list = []
        self._sizes: list[int] = []

    def __call__(
        self, trainer: OnlineTrainer, examples: Examples, orders: Callable, done: int
    ) -> Iterator[LearnedBlock | Step]:
        """Train on a block; called by :class:`~omkl.online.TrainingLoop`.

        Shard j of S has the examples ``j, j + S, j + 2S, ...``, in its own order. A single shard is
        bitwise equivalent to :func:`~omkl.online.training_loop.serial_pass`. If there are fewer
        examples than shards, such as at the end of a stream, this process trains on them one after
        the other.

        Parameters
        ----------
        trainer : OnlineTrainer
        examples : sequence of Example
            Must have a method ``part(indices)`` that selects some of them.
        orders : callable
            ``orders(sizes)`` returns an order for each shard.
        done : int
            Number of examples of the block that were already learned in this process; otherwise 0.

        Yields
        ------
        LearnedBlock or Step
        """
        if len(examples) < self.n_shards and not isinstance(examples, Sharded):
            make_pass = fastest_pass(trainer, examples, testing=True) or serial_pass
            yield from make_pass(trainer, examples, orders, done)
            return
        if self._examples is not examples:  # the shards are not on the workers yet
            self._place_shards(examples)
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
        for j, state in enumerate(states, 1):
            loss, weight = state["loss_and_weight"].tolist()
            record[f"loss:shard{j}"] = loss / (weight or 1.0)
            record[f"seconds:shard{j}"] = float(state["seconds"])
        yield LearnedBlock(
            examples,
            n_examples=sum(self._sizes),
            loss=float(losses.sum()),
            weight=float(weights.sum()),
            in_shards=True,
            record=record,
        )

    def _place_shards(self, examples: Examples) -> None:
        """Split examples into shards, and send these to the workers, if there are any."""
        self._examples = examples
        if isinstance(examples, Sharded):
            self._shards = examples.shards
            self._sizes = examples.sizes
            return
        shards = []
        for j in range(self.n_shards):
            shards.append(examples.part(np.arange(j, len(examples), self.n_shards)))
        self._sizes = [len(shard) for shard in shards]
        if self.client is not None:
            shards = [submitted(self.client, identity, shard) for shard in shards]
        self._shards = shards

    def _run(self, trainer: OnlineTrainer, orders: Sequence[Order]) -> list[State]:
        """Make a pass over every shard."""
        client = self.client
        is_alone = self.n_shards == 1
        if client is None:

            def make_pass(shard_and_order: tuple[Examples, Order]) -> State:
                return pass_over_shard(trainer, is_alone, *shard_and_order)

            return in_threads(make_pass, zip(self._shards, orders), self.n_jobs)
        sent = submitted(client, identity, trainer)  # to one worker, from which the others fetch it
        passes = []
        for worker, shard, order in zip(placed(client, self._shards), self._shards, orders):
            passes.append(
                submitted(client, pass_over_shard, sent, is_alone, shard, order, worker=worker)
            )
        unpinned(client, passes)
        return gathered(client, passes)

    def check(self, trainer: OnlineTrainer, source: Source, callbacks: Sequence[object]) -> None:
        """Raise an InputError if shards cannot train this model, or a callback needs single rounds.

        Parameters
        ----------
        trainer : OnlineTrainer
        source : Source
        callbacks : sequence
        """
        for callback in callbacks:
            if hasattr(callback, "on_round") and not hasattr(callback, "on_block"):
                raise InputError(
                    f"{type(callback).__name__} needs single rounds, which shards do not report: "
                    "leave client= and shards= out, or define on_block(trainer, block), "
                    "which is called after every mix."
                )
        if source.n_examples is not None and self.n_shards > source.n_examples:
            raise InputError(
                f"{source.n_examples} examples do not make {self.n_shards} shards: ask for fewer."
            )
        check_ability(
            trainer.banks, "mix", "Shards mix parameters", "leave budget=, client= and shards= out"
        )
        if trainer.average is not None and trainer.average.period:
            raise InputError(
                f"{trainer.average!r} cannot be kept in shards: choose another average."
            )


def pass_over_shard(trainer: OnlineTrainer, alone: bool, shard: Examples, order: Order) -> State:
    """Make one online pass over a shard with a copy of the trainer.

    ``alone`` means that there is one shard. A seed stands for the random order that it makes, which
    need not be sent.

    Returns the state after the pass, with ``loss_and_weight`` (sums), ``seconds``, and
    ``shrinkage`` (reductions of norms by proximal steps, and the sum of the step sizes).
    """
    started = time.perf_counter()
    if isinstance(order, int):
        order = np.random.default_rng(order).permutation(len(shard))
    trainer = deepcopy(trainer)
    trainer.plan(recompute_every=len(order) if alone else RECOMPUTE_EVERY)
    trainer.shrinkage = trainer.shrunk = 0.0
    trainer.group_state.total_shrinkage[:] = 0.0
    loss = 0.0
    weight = 0.0
    make_pass = fastest_pass(trainer, shard) or serial_pass
    for step in make_pass(trainer, shard, lambda sizes: [order], 0):
        loss = added(loss, step.loss)
        weight = added(weight, step.weight)
    if trainer.coordinate_terms:
        trainer.shrink_coordinates()
    return {
        **trainer.state(),
        "loss_and_weight": np.array([loss, weight]),
        "seconds": np.array(time.perf_counter() - started),
        "shrinkage": np.append(trainer.group_state.total_shrinkage, trainer.shrinkage),
    }


def mix(trainer: OnlineTrainer, states: Sequence[State], weights: np.ndarray) -> None:
    """Average the states of shards, and load the result into the trainer (McDonald et al. 2010).

    ``states`` are results of :func:`pass_over_shard`. The weights of the shards, (S,), sum to one.
    A proximal step follows to restore group sparsity.
    """
    group_state = trainer.group_state
    scales = np.array([state["groups/scales"] for state in states])
    if not trainer.method.forgets:  # the state of dual averaging is a sum of gradients
        scales = np.ones_like(scales)
    mixture = group_state.mix([below(state, "groups/") for state in states], weights, scales)
    for index, bank in enumerate(trainer.banks):
        states_of_bank = [below(state, f"bank{index}/") for state in states]
        bank.mix(states_of_bank, mixture.of(bank.group_state.groups))

    counters = np.array([state["counters"] for state in states])
    trainer.go_on(counters[:, ROUND].max(), weights @ counters[:, PRESENTED])
    for role, part in trainer.parts.items():
        part.mix([below(state, f"{role}/") for state in states], weights)
    _restore_sparsity(trainer, weights @ [state["shrinkage"] for state in states])


def _restore_sparsity(trainer: OnlineTrainer, mean_shrinkage: np.ndarray) -> None:
    """Restore group sparsity by a proximal step after mixing.

    ``mean_shrinkage`` is the mean over shards of ``shrinkage`` in the state of
    :func:`pass_over_shard`: the reduction of the norm of each group, (p,), and the sum of steps.
    """
    group_state = trainer.group_state
    n = trainer.n_penalized
    if trainer.method.forgets:
        # undo the shrinkage by the shards' proximal steps first, to count the regularizer only once
        *shrinkage, step = mean_shrinkage
        group_state.empty[:] = group_state.square_norms <= 0.0
        group_state.bases[:] = np.where(group_state.empty, 1.0, group_state.scales)
    else:
        shrinkage = [0.0] * n
        rate = trainer.schedule(trainer.round - trainer.began)
        proximal_weight = trainer.method.proximal_weight(1.0, trainer.presented)
        step = rate * (proximal_weight * trainer.current_lambda)
        group_state.bases[:] = rate
    norms = group_state.measure()[:n]
    norms_of_shards = np.where(norms > 0, norms + shrinkage[:n], 0.0)
    new_norms = np.minimum(trainer.prox(norms_of_shards, step), norms)
    events, _ = group_state.rescale(new_norms, trainer.radius, trainer.method.forgets)
    if events:
        for bank in trainer.banks:
            bank.apply_events(None, None)
