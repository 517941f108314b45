"""The training loop: passes over examples, with callbacks and checkpoints."""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol

import numpy as np

from omkl.exceptions import DivergenceError, InputError
from omkl.online import rounds
from omkl.online.checkpointing import Checkpoints
from omkl.online.driver import AT_A_TIME, fastest_pass, uncompiled_part
from omkl.online.examiners.drift import DriftTest, unit_of
from omkl.online.examiners.evidence import Evidence
from omkl.online.trainer import OnlineTrainer

logger = logging.getLogger("omkl")
#: If groups with more than this total weight are left out after the first epoch, training restarts.
NEGLIGIBLE = 0.1


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
        """Yield the steps on a block in the order of ``orders(sizes)``, after its first ``done``
        examples.
        """
        for i in orders([len(examples)])[0][done:].tolist():
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
        examples, n_examples = self.examples, len(self.examples)
        n_rounds = (
            max(examples.sizes)
            if isinstance(examples, rounds.Sharded)
            else -(-n_examples // n_shards)
        )
        trainer.plan(rounds=rounds_before + epochs * n_rounds, recompute_every=max(1, n_examples))

    def blocks(self, epoch: int, start: int) -> Iterator[rounds.Examples]:
        """Yield the blocks of an epoch (from 0), starting with block ``start``."""
        if start == 0 and len(self.examples):
            yield self.examples

    def orders(self, sizes: Sequence[int]) -> list[Any]:
        """Return an order for each part of a block, which have these sizes, or its seed if they are
        elsewhere.
        """
        if self._rng is not None and isinstance(self.examples, rounds.Sharded):
            return self._rng.integers(2**63, size=len(sizes)).tolist()
        return [np.arange(n) if self._rng is None else self._rng.permutation(n) for n in sizes]

    def end_epoch(self, n_examples: int = 0, weight: float = 0.0) -> None:
        """Save the state of the generator before the next epoch."""
        self._generator = None if self._rng is None else self._rng.bit_generator.state

    def state(self) -> rounds.State:
        """Return ``(JSON values, arrays)``: the generator's state at the beginning of the epoch."""
        return {"generator": self._generator}, {}

    def load_state(self, values: rounds.Values) -> None:
        """Load the values of :meth:`state`."""
        if self._rng is not None:
            self._rng.bit_generator.state = self._generator = values["generator"]


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
        trainer, source, progress = self.trainer, self.source, self.progress
        rounds_before, first_epoch = trainer.round, progress.epoch
        n_shards = self.make_pass.n_shards
        self.make_pass.check(trainer, source, self.callbacks)
        self._tell("on_start", source)
        self._restore()
        progress.start_clock()
        try:
            while progress.epoch <= epochs and not progress.finished:
                once = epochs == first_epoch and n_shards == 1
                _begin_epoch(trainer, progress.epoch == first_epoch, once, self.concludes)
                source.begin_epoch(trainer, rounds_before, epochs, n_shards)
                stopped = self._learn_epoch()
                progress.finished = self._end_epoch() or stopped
                self._write_waiting()
            if self.concludes and trainer.find(Evidence) is not None:
                _leave_out_useless(trainer)  # unless that was done after the first epoch
                trainer.method.meet(trainer.method.learning, trainer.group_state)
        finally:
            self._tell("on_end")
        self._keep()
        return progress.history

    def _tell(self, event: str, *facts: object) -> list[Any]:
        """Call the methods of this name of all callbacks; return what they return."""
        return [tell(self.trainer, *facts) for tell in rounds.hooks(self.callbacks, event)]

    def _learn_epoch(self) -> bool:
        """Train on the remaining blocks of an epoch; return whether a callback ends training."""
        trainer, progress, checkpoints, on_round = (
            self.trainer,
            self.progress,
            self.checkpoints,
            self._on_round,
        )
        for examples in self.source.blocks(progress.epoch - 1, progress.block):
            self._write_waiting()
            stopped = in_shards = False
            for part in trainer.parts.values():
                part.enter(examples)
            steps = self._pass_for(examples)(
                trainer, examples, self.source.orders, progress.block_examples
            )
            for step in steps:
                progress.add(step.n_examples, step.loss, step.weight)
                in_shards = step.in_shards
                if not in_shards and step.changed:
                    for row in _found_change(trainer, examples, progress.block_examples):
                        progress.changes.append(row)
                        self._tell("on_change", row)
                if in_shards:
                    self._shard_record = step.record
                elif on_round and any([tell(trainer, step) for tell in on_round]):
                    trainer.recompute_norms()
                    stopped = True
                    break
                if checkpoints is not None and checkpoints.due(step.n_examples):
                    self._write_waits = True
                    if not in_shards:
                        self._write_waiting()
            learned = progress.block_examples, progress.block_loss, progress.block_weight
            block = rounds.LearnedBlock(examples, *learned, in_shards)
            stopped |= any(self._tell("on_block", block))
            progress.next_block()
            for part in trainer.parts.values():
                part.leave(examples)
            if stopped:
                return True
        return False

    def _pass_for(self, examples: rounds.Examples) -> Callable[..., Iterator[Any]]:
        """Return the pass over a block: a compiled one if all parts have compiled functions, and
        callbacks can wait.
        """
        if self.make_pass is not serial_pass:
            return self.make_pass
        told = [callback for callback in self.callbacks if rounds.hooks([callback], "on_round")]
        sees_every_round = [callback for callback in told if not hasattr(callback, "room")]
        waiting: list[Any] = [*told, *([] if self.checkpoints is None else [self.checkpoints])]
        room = lambda: min((part.room() for part in waiting), default=AT_A_TIME)  # noqa: E731
        testing = any(getattr(callback, "reads_costs", True) for callback in told)
        fastest = fastest_pass(self.trainer, examples, room, testing)
        reason = uncompiled_part(self.trainer)
        if fastest is not None and sees_every_round:
            fastest = None
            reason = sees_every_round[0]
        if reason is not None and hasattr(examples, "sequences"):
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
        """Write a pending checkpoint; with shards, this is delayed until the callbacks of the block
        were called.
        """
        if self._write_waits and self.checkpoints is not None:
            self._keep()
            self.checkpoints.write()
            self._write_waits = False

    def _keep(self) -> None:
        """Pass all states to the checkpoints."""
        if self.checkpoints is not None:
            source, own = self.source.state()
            callbacks, arrays = rounds.states_of(self.callbacks)
            values = {"source": source, "progress": self.progress.state(), "callbacks": callbacks}
            self.checkpoints.keep(self.stage, values, {**self.trainer.state(), **own, **arrays})

    def _restore(self) -> None:
        """Restore all states from the resumed checkpoint, if it has this stage."""
        if (
            self.checkpoints is not None
            and (found := self.checkpoints.earlier(self.stage)) is not None
        ):
            values, arrays = found
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
    """Learn a single example in a pass of its own, as :class:`TrainingLoop` does, but in fewer
    calls.

    ``examples`` presents it once, or several times if its weight is above one. The record is added
    to those of earlier passes in ``history``.
    """
    progress = rounds.TrainingProgress(epoch=history[-1]["epoch"] + 1 if history else 1)
    for part in trainer.parts.values():
        part.enter(examples)
    make_pass = fastest_pass(trainer, examples) or serial_pass
    for step in make_pass(trainer, examples, in_order, 0):
        progress.add(step.n_examples, step.loss, step.weight)
        if step.changed:
            progress.changes += _found_change(trainer, examples, progress.examples)
    for part in trainer.parts.values():
        part.leave(examples)
    history.append(_record_of(trainer, progress))


def _found_change(trainer: OnlineTrainer, examples: rounds.Examples, learned: int) -> list[int]:
    """Log a change of the stream, found after so many ``learned`` examples of a block; return the
    row in a list.
    """
    rows = [
        test.row(examples, learned)
        for test in trainer.parts.values()
        if isinstance(test, DriftTest)
    ]
    for row in rows:
        unit = unit_of(trainer.structure)
        logger.warning(
            "The averaged model lags behind the stream at %s %d: the average restarts.", unit, row
        )
    return rows


def _record_of(trainer: OnlineTrainer, progress: rounds.TrainingProgress) -> rounds.Record:
    """Return the record of an epoch; raise an error if it had no example, or parameters are not
    finite.
    """
    state = trainer.group_state
    if progress.examples == 0:
        raise InputError("The training data must have an example.")
    if not math.isfinite(state.square_norms.sum() + state.averages.sum()):
        found = f"Parameters are not finite after round {trainer.round}: training diverged."
        raise DivergenceError(f"{found} Choose a smaller eta0, or a radius.")
    record = trainer.record(
        progress.epoch, progress.examples, progress.loss / progress.weight, progress.elapsed()
    )
    return {**record, "changes": progress.changes} if progress.changes else record


def _begin_epoch(trainer: OnlineTrainer, new: bool, once: bool, concludes: bool) -> None:
    """Prepare an epoch.

    After the epoch in which examples were ``new``, useless groups are left out. If these had more
    than a tenth of the weight, the other groups are trained from scratch. In a single pass
    (``once``), Hedge learns the weights of MKL. If training does not conclude, groups are neither
    tested nor left out.
    """
    evidence, regularizer = trainer.find(Evidence), trainer.regularizer
    if not concludes and evidence is not None:
        evidence.open = False
    is_mkl = (
        regularizer is not None and regularizer.weight_set == "simplex" and regularizer.is_sparse
    )
    if (
        new
        and once
        and trainer.round == 0
        and evidence is not None
        and is_mkl
        and trainer.method.forgets
    ):
        trainer.join("method")
    if not new and _leave_out_useless(trainer) > NEGLIGIBLE:
        trainer.restart()
    trainer.method.meet(new, trainer.group_state)


def _leave_out_useless(trainer: OnlineTrainer) -> float:
    """Leave out groups that have not helped on new examples; return their total weight."""
    evidence = trainer.find(Evidence)
    if evidence is None or not evidence.open:
        return 0.0
    weight_of = trainer.kernel_weights(trainer.norms)
    evidence.open = False
    left_out = trainer.group_state.left_out[: trainer.n_penalized]
    left_out |= ~evidence.useful()
    trainer.go_on(trainer.round, trainer.presented)
    return sum(weight_of[name] for name, left in zip(trainer.group_names, left_out) if left)
