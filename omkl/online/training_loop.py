"""The training loop: passes over examples, with callbacks and checkpoints."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import numpy as np

from omkl.exceptions import DivergenceError, InputError
from omkl.online import rounds
from omkl.online.checkpointing import Checkpoints
from omkl.online.driver import AT_A_TIME, fastest_pass, uncompiled_part
from omkl.online.trainer import OnlineTrainer


class Source(Protocol):
    """Yields blocks of examples in epochs; its position can be saved and restored."""

    n_examples: int | None

    def begin_epoch(
        self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int
    ) -> None: ...

    def blocks(self, epoch: int, start: int) -> Iterator[rounds.Examples]: ...

    def orders(self, sizes: Sequence[int]) -> list[np.ndarray]: ...

    def end_epoch(self, n_examples: int, weight: float) -> None: ...

    def state(self) -> rounds.State: ...

    def load_state(self, values: rounds.Values) -> None: ...


class Pass:
    """Trains on the examples of a block one after the other; base of passes in shards."""

    n_shards = 1

    def check(self, trainer: OnlineTrainer, source: Source, callbacks: Sequence[object]) -> None:
        """Accept everything."""

    def __call__(
        self, trainer: OnlineTrainer, examples: rounds.Examples, orders: Callable, done: int
    ) -> Iterator[Any]:
        """Yield the steps on a block in the order of ``orders(sizes)``.

        Its first ``done`` examples have been learned before.
        """
        order = orders([len(examples)])[0]
        for i in order[done:].tolist():
            yield trainer.update(*examples[i])


serial_pass = Pass()


class ArraySource:
    """Source of examples in memory: one block per epoch, in a new random order.

    Parameters
    ----------
    examples : sequence of Example
    rng : numpy.random.Generator, optional
        Generator of the orders; None keeps the given order.
    """

    def __init__(self, examples: rounds.Examples, rng: np.random.Generator | None = None) -> None:
        self.examples = examples
        self.n_examples: int | None = len(examples)
        self._rng = rng
        self.end_epoch()

    def begin_epoch(
        self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int
    ) -> None:
        """Plan the trainer's rounds: ``epochs`` epochs after ``rounds_before`` rounds."""
        n_examples = len(self.examples)
        if isinstance(self.examples, rounds.Sharded):
            n_rounds = max(self.examples.sizes)
        else:
            n_rounds = -(-n_examples // n_shards)  # rounded up
        trainer.plan(rounds=rounds_before + epochs * n_rounds, recompute_every=max(1, n_examples))

    def blocks(self, epoch: int, start: int) -> Iterator[rounds.Examples]:
        """Yield the blocks of an epoch (from 0), starting with block ``start``."""
        if start == 0 and len(self.examples):
            yield self.examples

    def orders(self, sizes: Sequence[int]) -> list[Any]:
        """Return an order for each part of a block, or its seed if the examples are elsewhere.

        Parameters
        ----------
        sizes : sequence of int
            Numbers of examples of the parts.
        """
        if self._rng is None:
            return in_order(sizes)
        if isinstance(self.examples, rounds.Sharded):
            return self._rng.integers(2**63, size=len(sizes)).tolist()
        return [self._rng.permutation(n) for n in sizes]

    def end_epoch(self, n_examples: int = 0, weight: float = 0.0) -> None:
        """Save the state of the generator before the next epoch."""
        self._generator = None
        if self._rng is not None:
            self._generator = self._rng.bit_generator.state

    def state(self) -> rounds.State:
        """Return ``(JSON values, arrays)``: the generator's state at the beginning of the epoch."""
        return {"generator": self._generator}, {}

    def load_state(self, values: rounds.Values) -> None:
        """Load the values of :meth:`state`."""
        if self._rng is not None:
            self._generator = values["generator"]
            self._rng.bit_generator.state = self._generator


@dataclass(eq=False, repr=False)
class TrainingLoop:
    """Trains in passes over a source, with callbacks and checkpoints.

    Parameters
    ----------
    trainer : OnlineTrainer
    source : ArraySource, StreamSource or the like
    make_pass : Pass
        Trains on a block: :data:`serial_pass`, or ``omkl.distributed.ParameterMixing`` for shards.
    callbacks : sequence
        Each can define ``on_start(trainer, source)``, ``on_round(trainer, step)``,
        ``on_block(trainer, block)``, ``on_epoch(trainer, record)`` and ``on_end(trainer)``. A plain
        callable counts as ``on_epoch``. In shards, ``on_block`` is called after every mix, and
        ``on_round`` is not called. A true return value ends training; after ``on_round``,
        immediately. ``on_change(trainer, row)`` is called when a change of the stream was found,
        with the number of the last row or sequence, from 1. Callbacks with ``state()`` and
        ``load_state(values, arrays)`` are part of checkpoints.

        A callback with ``on_round`` sees every round, which rules out compiled passes, unless it
        has ``room()``: how many rounds may pass until its next call. The step of that call is about
        all of these. It holds the costs of their predictions, unless the attribute ``reads_costs``
        of the callback is False.
    checkpoints : Checkpoints, optional
        Checkpoints of the states of all of these, which are restored at the start.
    stage : str
        Name of the loop in checkpoints.
    progress : TrainingProgress, optional
        Position from which to continue; the beginning by default.
    concludes : bool
        Whether training ends with the last epoch; False if more examples may follow, as in
        ``partial_fit``.
    """

    trainer: OnlineTrainer
    source: Source
    _: KW_ONLY
    make_pass: Pass = serial_pass
    callbacks: Sequence[object] = ()
    checkpoints: Checkpoints | None = None
    stage: str = "model"
    progress: rounds.TrainingProgress = field(default_factory=rounds.TrainingProgress)
    concludes: bool = True

    def __post_init__(self) -> None:
        self.callbacks = rounds.check_callbacks(self.callbacks)
        self._on_round = rounds.hooks(self.callbacks, "on_round")
        self._shard_record: rounds.Record = {}
        self._write_waits = False

    def run(self, epochs: int) -> list[rounds.Record]:
        """Train for ``epochs`` epochs, or until a callback ends training.

        Parameters
        ----------
        epochs : int

        Returns
        -------
        list of dict
            A flat record of each epoch: ``epoch``, ``round``, ``examples``, ``loss`` (weighted mean
            of the losses before each update), ``penalty``, ``objective``, ``rate``, ``norm:NAME``
            and ``weight:NAME`` of every group, ``seconds``.
        """
        trainer = self.trainer
        source = self.source
        progress = self.progress
        rounds_before = trainer.round
        first_epoch = progress.epoch
        n_shards = self.make_pass.n_shards
        self.make_pass.check(trainer, source, self.callbacks)
        self._tell("on_start", source)
        self._restore()
        progress.start_clock()
        try:
            while progress.epoch <= epochs and not progress.finished:
                epoch = rounds.EpochPlan(
                    is_new=progress.epoch == first_epoch,
                    is_only=epochs == first_epoch and n_shards == 1,
                    concludes=self.concludes,
                )
                trainer.begin_epoch(epoch)
                source.begin_epoch(trainer, rounds_before, epochs, n_shards)
                stopped = self._learn_epoch()
                progress.finished = self._end_epoch() or stopped
                self._write_waiting()
            if self.concludes:
                trainer.conclude()
        finally:
            self._tell("on_end")
        self._keep()
        return progress.history

    def _tell(self, event: str, *facts: object) -> list[Any]:
        """Call the methods of this name of all callbacks; return what they return."""
        return [tell(self.trainer, *facts) for tell in rounds.hooks(self.callbacks, event)]

    def _learn_epoch(self) -> bool:
        """Train on the remaining blocks of an epoch; return whether a callback ends training."""
        for examples in self.source.blocks(self.progress.epoch - 1, self.progress.block):
            self._write_waiting()
            if self._learn_block(examples):
                return True
        return False

    def _learn_block(self, examples: rounds.Examples) -> bool:
        """Train on the remaining examples of a block; return whether a callback ends training."""
        trainer = self.trainer
        progress = self.progress
        stopped = False
        in_shards = False
        for part in trainer.parts.values():
            part.before_block(examples)
        make_pass = self._pass_for(examples)
        for step in make_pass(trainer, examples, self.source.orders, progress.block_examples):
            progress.add(step.n_examples, step.loss, step.weight)
            in_shards = step.in_shards
            if in_shards:
                self._shard_record = step.record
            elif self._take_step(step, examples):
                stopped = True
                break
            if self.checkpoints is not None and self.checkpoints.due(step.n_examples):
                self._write_waits = True
                if not in_shards:
                    self._write_waiting()
        block = rounds.LearnedBlock(
            examples=examples,
            n_examples=progress.block_examples,
            loss=progress.block_loss,
            weight=progress.block_weight,
            in_shards=in_shards,
        )
        stopped |= any(self._tell("on_block", block))
        progress.next_block()
        for part in trainer.parts.values():
            part.after_block(examples)
        return stopped

    def _take_step(self, step: rounds.Step, examples: rounds.Examples) -> bool:
        """Tell the callbacks of a step; return whether one of them ends training."""
        if step.changed:
            for row in _rows_of_change(self.trainer, examples, self.progress.block_examples):
                self.progress.changes.append(row)
                self._tell("on_change", row)
        stops = any([tell(self.trainer, step) for tell in self._on_round])
        if stops:
            self.trainer.recompute_norms()
        return stops

    def _pass_for(self, examples: rounds.Examples) -> Callable[..., Iterator[Any]]:
        """Return the pass over a block.

        It is a compiled one if all parts have compiled functions, and callbacks can wait.
        """
        if self.make_pass is not serial_pass:
            return self.make_pass
        listeners = [
            callback for callback in self.callbacks if rounds.hooks([callback], "on_round")
        ]
        waiting: list[Any] = list(listeners)
        if self.checkpoints is not None:
            waiting.append(self.checkpoints)

        def room() -> int:
            return min((part.room() for part in waiting), default=AT_A_TIME)

        testing = any(getattr(callback, "reads_costs", True) for callback in listeners)
        fastest = fastest_pass(self.trainer, examples, room, testing)
        reason = uncompiled_part(self.trainer)
        sees_every_round = [callback for callback in listeners if not hasattr(callback, "room")]
        if fastest is not None and sees_every_round:
            fastest = None
            reason = sees_every_round[0]
        if reason is not None and hasattr(examples, "are_sequences"):
            self._tell("on_uncompiled", reason)
        return fastest or self.make_pass

    def _end_epoch(self) -> bool:
        """Make the epoch's record; return whether a callback ends training."""
        progress = self.progress
        record = {**_record_of(self.trainer, progress), **self._shard_record}
        progress.history.append(record)
        stopped = any(self._tell("on_epoch", record))
        self.source.end_epoch(progress.examples, progress.weight)
        progress.next_epoch()
        return stopped

    def _write_waiting(self) -> None:
        """Write a pending checkpoint.

        With shards, this is delayed until the callbacks of the block were called.
        """
        if self._write_waits and self.checkpoints is not None:
            self._keep()
            self.checkpoints.write()
            self._write_waits = False

    def _keep(self) -> None:
        """Pass all states to the checkpoints."""
        if self.checkpoints is not None:
            of_source, arrays_of_source = self.source.state()
            of_callbacks, arrays_of_callbacks = rounds.states_of(self.callbacks)
            values = {
                "source": of_source,
                "progress": self.progress.state(),
                "callbacks": of_callbacks,
            }
            arrays = {**self.trainer.state(), **arrays_of_source, **arrays_of_callbacks}
            self.checkpoints.keep(self.stage, values, arrays)

    def _restore(self) -> None:
        """Restore all states from the resumed checkpoint, if it has this stage."""
        if self.checkpoints is None:
            return
        earlier = self.checkpoints.earlier(self.stage)
        if earlier is None:
            return
        values, arrays = earlier
        with self.checkpoints.reading():
            self.trainer.load_state(arrays)
            self.source.load_state(values["source"])
            self.progress.load_state(values["progress"])
            rounds.load_states(self.callbacks, values["callbacks"], arrays)


def in_order(sizes: Sequence[int]) -> list[np.ndarray]:
    """Return the given order of the examples of each part of a block, which have these sizes."""
    return [np.arange(n) for n in sizes]


def learn_alone(
    trainer: OnlineTrainer, examples: rounds.Examples, history: list[rounds.Record]
) -> None:
    """Learn a single example in a pass of its own.

    It is that of :class:`TrainingLoop`, in fewer calls. ``examples`` presents the example once, or
    several times if its weight is above one. The record is added to those of earlier passes in
    ``history``.
    """
    epoch = history[-1]["epoch"] + 1 if history else 1
    progress = rounds.TrainingProgress(epoch=epoch)
    for part in trainer.parts.values():
        part.before_block(examples)
    make_pass = fastest_pass(trainer, examples) or serial_pass
    for step in make_pass(trainer, examples, in_order, 0):
        progress.add(step.n_examples, step.loss, step.weight)
        if step.changed:
            progress.changes += _rows_of_change(trainer, examples, progress.examples)
    for part in trainer.parts.values():
        part.after_block(examples)
    history.append(_record_of(trainer, progress))


def _rows_of_change(trainer: OnlineTrainer, examples: rounds.Examples, n_learned: int) -> list[int]:
    """Let the parts report a change of the stream; return the row after which it was found.

    It was found after ``n_learned`` examples of a block.
    """
    reports = [part.report_change(trainer, examples, n_learned) for part in trainer.parts.values()]
    return [row for row in reports if row is not None]


def _record_of(trainer: OnlineTrainer, progress: rounds.TrainingProgress) -> rounds.Record:
    """Return the record of an epoch.

    Raises
    ------
    InputError
        If the epoch had no example.
    DivergenceError
        If parameters are not finite.
    """
    if progress.examples == 0:
        raise InputError("The training data must have an example.")
    state = trainer.group_state
    if not math.isfinite(state.square_norms.sum() + state.averages.sum()):
        raise DivergenceError(
            f"Parameters are not finite after round {trainer.round}: training diverged. "
            "Choose a smaller learning_rate, or a radius."
        )
    mean_loss = progress.loss / progress.weight
    record = trainer.record(progress.epoch, progress.examples, mean_loss, progress.elapsed())
    if progress.changes:
        record["changes"] = progress.changes
    return record
