"""The training loop: passes over examples, with callbacks and checkpoints."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from omkl.exceptions import DivergenceError, InputError
from omkl.online import group_selection
from omkl.online.hooks import check_callbacks, hooks
from omkl.online.progress import Record, TrainingProgress
from omkl.online.rounds import LearnedBlock, Step
from omkl.online.trainer import OnlineTrainer


def serial_pass(
    trainer: OnlineTrainer, examples: Sequence, orders: Callable, done: int, report: Callable
) -> Iterator[Step]:
    """Learn the examples of a block one round after the other.

    Parameters
    ----------
    trainer : OnlineTrainer
    examples : sequence of Example
    orders : callable
        ``orders(sizes)`` gives an order of the examples of each part, an int array.
    done : int
        Examples in this order that are learned already.
    report : callable
        Not needed: every round is yielded.

    Yields
    ------
    Step
        What each round did.
    """
    order = orders([len(examples)])[0][done:].tolist()
    for i in order:
        yield trainer.update(*examples[i])


class ArraySource:
    """Examples that are all at hand: one block an epoch, in a fresh random order each.

    Parameters
    ----------
    examples : sequence of Example
    rng : numpy.random.Generator, optional
        Draws the orders; None keeps the given one.
    """

    def __init__(self, examples: Sequence, rng: np.random.Generator | None = None) -> None:
        self.examples = examples
        self.n_examples: Any = len(examples)
        self._rng = rng
        self.end_epoch()

    def begin_epoch(self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int) -> None:
        """Tell the trainer how many rounds there will be."""
        trainer.schedule.plan(rounds_before + epochs * -(-self.n_examples // n_shards) - trainer.began)
        trainer.recompute_every = max(1, self.n_examples)

    def blocks(self, epoch: int, start: int) -> Iterator[Sequence]:
        """The blocks of an epoch (from 0), from block ``start`` on."""
        if start == 0 and self.n_examples:
            yield self.examples

    def orders(self, sizes: Sequence[int]) -> list[np.ndarray]:
        """An order for each of the parts that a block is cut into."""
        return [np.arange(n) if self._rng is None else self._rng.permutation(n) for n in sizes]

    def end_epoch(self, n_examples: int = 0, weight: float = 0.0) -> None:
        """Remember the generator as it is between two epochs."""
        self._generator = None if self._rng is None else self._rng.bit_generator.state

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """``(JSON values, arrays)``: the generator before the order of this epoch was drawn."""
        return {"generator": self._generator}, {}

    def load_state(self, values: dict[str, Any]) -> None:
        """The inverse of :meth:`state`."""
        if self._rng is not None:
            self._rng.bit_generator.state = self._generator = values["generator"]


class TrainingLoop:
    """Makes passes over a source: the only loop that does.

    Parameters
    ----------
    trainer : OnlineTrainer
    source : ArraySource, StreamSource or the like
        Yields blocks of examples; knows its position, and can return to it.
    make_pass : callable
        Learns a block, as :func:`serial_pass` does, or in shards: ``omkl.distributed.ParameterMixing``.
    callbacks : sequence
        Each may have ``on_start(trainer, source)``, ``on_round(trainer, step)`` after every round,
        ``on_block(trainer, block)`` after every block (in shards: after every mix, and no rounds are told of),
        ``on_epoch(trainer, record)`` and ``on_end(trainer)``; a plain callable is an ``on_epoch``. A true return
        value ends training: at once, from ``on_round``. With ``state()`` and ``load_state(values, arrays)`` it takes
        part in checkpoints.
    checkpointer : StageCheckpointer, optional
        Asks all of these for their states, writes them when it is time, and restores them at the start.
    progress : TrainingProgress, optional
        Where to go on; the beginning by default.
    concludes : bool
        Whether training ends with the last epoch; False where more examples may come, as with ``partial_fit``.
    """

    def __init__(
        self,
        trainer: OnlineTrainer,
        source: Any,
        *,
        make_pass: Callable = serial_pass,
        callbacks: Sequence[Any] = (),
        checkpointer: Any = None,
        progress: TrainingProgress | None = None,
        concludes: bool = True,
    ) -> None:
        self.trainer = trainer
        self.source = source
        self.make_pass = make_pass
        self.callbacks = check_callbacks(callbacks)
        self.checkpointer = checkpointer
        self.progress = TrainingProgress() if progress is None else progress
        self.concludes = concludes
        self._on_round = hooks(self.callbacks, "on_round")
        self._on_block = hooks(self.callbacks, "on_block")
        self._on_epoch = hooks(self.callbacks, "on_epoch")
        self._of_shards: dict[str, Any] = {}
        self._write_waits = False

    def run(self, epochs: int) -> list[Record]:
        """Make passes until ``epochs`` epochs are over, or a callback ends training; returns a record of each.

        A record is flat: ``epoch``, ``round``, ``examples``, ``loss`` (weighted mean of the losses, each before its
        update), ``penalty``, ``objective``, ``rate``, ``norm:NAME`` and ``weight:NAME`` of every group, ``seconds``.
        """
        trainer, source, progress = self.trainer, self.source, self.progress
        rounds_before, first_epoch = trainer.round, progress.epoch
        n_shards = getattr(self.make_pass, "n_shards", 1)
        if hasattr(self.make_pass, "check"):
            self.make_pass.check(trainer, source, self.callbacks)
        for start in hooks(self.callbacks, "on_start"):
            start(trainer, source)
        if self.checkpointer is not None:
            self.checkpointer.restore(self)
        progress.start_clock()
        try:
            while progress.epoch <= epochs and not progress.finished:
                once = epochs == first_epoch and n_shards == 1
                group_selection.begin_epoch(trainer, progress.epoch == first_epoch, once, self.concludes)
                source.begin_epoch(trainer, rounds_before, epochs, n_shards)
                stopped = self._learn_epoch()
                if progress.examples == 0:
                    raise InputError("There is no example: nothing is left to train on.")
                progress.finished = self._end_epoch() or stopped
                self._write_waiting()
            if self.concludes:
                group_selection.end_training(trainer)
        finally:
            for end in hooks(self.callbacks, "on_end"):
                end(trainer)
        check_finite(trainer)
        if self.checkpointer is not None:
            self.checkpointer.end(self)
        return progress.history

    def _learn_epoch(self) -> bool:
        """The rest of an epoch; returns whether a callback ends training."""
        trainer, progress, checkpointer, on_round = self.trainer, self.progress, self.checkpointer, self._on_round
        for examples in self.source.blocks(progress.epoch - 1, progress.block):
            self._write_waiting()
            stopped = in_shards = False
            steps = self.make_pass(trainer, examples, self.source.orders, progress.block_examples, self._report)
            for step in steps:
                progress.add(step.n_examples, step.loss, step.weight)
                in_shards = step.in_shards
                if in_shards:
                    self._of_shards = step.record
                elif on_round and any([tell(trainer, step) for tell in on_round]):
                    trainer.recompute_norms()
                    stopped = True
                    break
                if checkpointer is not None and checkpointer.due(step.n_examples):
                    if in_shards:
                        self._write_waits = True
                    else:
                        checkpointer.write(self)
            learned = progress.block_examples, progress.block_loss, progress.block_weight
            block = LearnedBlock(examples, *learned, in_shards)
            stopped |= any([tell(trainer, block) for tell in self._on_block])
            progress.next_block()
            if stopped:
                return True
        return False

    def _write_waiting(self) -> None:
        """Write the checkpoint that was due when shards were mixed, now that nothing is left to do with their block."""
        if self._write_waits:
            self.checkpointer.write(self)
            self._write_waits = False

    def _end_epoch(self) -> bool:
        """Make the epoch's record; returns whether a callback ends training."""
        progress = self.progress
        mean_loss = progress.loss / progress.weight
        record = self.trainer.record(progress.epoch, progress.examples, mean_loss, progress.elapsed())
        record.update(self._of_shards)
        progress.history.append(record)
        stopped = any([tell(self.trainer, record) for tell in self._on_epoch])
        self.source.end_epoch(progress.examples, progress.weight)
        progress.next_epoch()
        return stopped

    def _report(self, n_examples: int, loss: float) -> None:
        """Shards have come so far in the block at hand."""
        for tell in hooks(self.callbacks, "on_report"):
            tell(n_examples, loss)


def check_finite(trainer: Any) -> None:
    """Raise a DivergenceError where a model, or what its average sums up, has left the finite numbers."""
    state = trainer.group_state
    sums = [getattr(state, name).sum() for name in ("square_norms", "averages") if hasattr(state, name)]
    if not math.isfinite(sum(sums)):
        raise DivergenceError(
            f"Parameters are not finite after round {trainer.round}: training diverged. Choose a smaller eta0, or a "
            "radius."
        )
