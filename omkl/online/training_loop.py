"""The training loop: passes over examples, with callbacks and checkpoints."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from omkl.exceptions import DivergenceError, InputError
from omkl.online import group_selection
from omkl.online.rounds import Example, LearnedBlock, Record, Step, TrainingProgress, below
from omkl.online.trainer import OnlineTrainer


def check_callbacks(callbacks: object) -> list[Any]:
    """Return callbacks as a list, empty for None.

    Parameters
    ----------
    callbacks : list, tuple or None
        Each is callable or has an ``on_*`` method; else an InputError is raised.

    Returns
    -------
    list
    """
    if callbacks is None:
        return []
    if isinstance(callbacks, (list, tuple)) and all(
        callable(callback) or any(name.startswith("on_") for name in dir(callback)) for callback in callbacks
    ):
        return list(callbacks)
    raise InputError(f"`callbacks` must be a list of callables, or of objects with `on_*` methods, got {callbacks!r}.")


def hooks(callbacks: Sequence[object], name: str) -> list[Callable]:
    """Collect the methods of a name that callbacks have; a plain callable is its own ``on_epoch``.

    Parameters
    ----------
    callbacks : sequence
    name : str
        Such as ``"on_round"``.

    Returns
    -------
    list of callable
    """
    found = [getattr(callback, name, callback if name == "on_epoch" else None) for callback in callbacks]
    return [hook for hook in found if callable(hook)]


def states_of(callbacks: Sequence[object]) -> tuple[list, dict[str, np.ndarray]]:
    """Return ``(values, arrays)`` of the callbacks that have a ``state()``.

    Parameters
    ----------
    callbacks : sequence
    """
    values, arrays = [], {}
    for index, state in enumerate(hooks(callbacks, "state")):
        value, own = state()
        values.append(value)
        arrays.update({f"callback{index}/{name}": np.asarray(array) for name, array in own.items()})
    return values, arrays


def load_states(callbacks: Sequence[object], values: list, arrays: dict[str, np.ndarray]) -> None:
    """Load the states of :func:`states_of`.

    Parameters
    ----------
    callbacks : sequence
    values : list
    arrays : dict of str to array
    """
    loaders = hooks(callbacks, "load_state")
    if len(loaders) != len(values):
        raise InputError(f"The checkpoint has states of {len(values)} callbacks, but this run has {len(loaders)}.")
    for index, (load, value) in enumerate(zip(loaders, values)):
        load(value, below(arrays, f"callback{index}/"))


class Pass(Protocol):
    """Learns a block of examples, in rounds or in shards."""

    @property
    def n_shards(self) -> int: ...

    def check(self, trainer: OnlineTrainer, source: Any, callbacks: Sequence[object]) -> None: ...

    def __call__(
        self, trainer: OnlineTrainer, examples: Sequence[Example], orders: Callable, done: int
    ) -> Iterator[Any]: ...


class SerialPass:
    """Learns the examples of a block one round after the other."""

    n_shards = 1

    def check(self, trainer: OnlineTrainer, source: Any, callbacks: Sequence[object]) -> None:
        """Accept everything."""

    def __call__(
        self, trainer: OnlineTrainer, examples: Sequence[Example], orders: Callable, done: int
    ) -> Iterator[Step]:
        """Yield the steps; ``orders(sizes)`` gives orders, in which ``done`` examples are learned already."""
        for i in orders([len(examples)])[0][done:].tolist():
            yield trainer.update(*examples[i])


serial_pass = SerialPass()


class ArraySource:
    """Examples that are all at hand: one block an epoch, in a fresh random order each.

    Parameters
    ----------
    examples : sequence of Example
    rng : numpy.random.Generator, optional
        Draws the orders; None keeps the given one.
    """

    def __init__(self, examples: Sequence[Example], rng: np.random.Generator | None = None) -> None:
        self.examples = examples
        self.n_examples: int | None = len(examples)
        self._rng = rng
        self.end_epoch()

    def begin_epoch(self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int) -> None:
        """Tell the trainer how many rounds there will be: ``epochs`` in all, after ``rounds_before``."""
        n_examples = len(self.examples)
        trainer.schedule.plan(rounds_before + epochs * -(-n_examples // n_shards) - trainer.began)
        trainer.recompute_every = max(1, n_examples)

    def blocks(self, epoch: int, start: int) -> Iterator[Sequence]:
        """Yield the blocks of an epoch (from 0), from block ``start`` on."""
        if start == 0 and len(self.examples):
            yield self.examples

    def orders(self, sizes: Sequence[int]) -> list[np.ndarray]:
        """Return an order for each of the parts that a block is cut into."""
        return [np.arange(n) if self._rng is None else self._rng.permutation(n) for n in sizes]

    def end_epoch(self, n_examples: int = 0, weight: float = 0.0) -> None:
        """Keep the state of the generator between two epochs."""
        self._generator = None if self._rng is None else self._rng.bit_generator.state

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return ``(JSON values, arrays)``: the generator before the order of this epoch was drawn."""
        return {"generator": self._generator}, {}

    def load_state(self, values: dict[str, Any]) -> None:
        """Load the values of :meth:`state`."""
        if self._rng is not None:
            self._rng.bit_generator.state = self._generator = values["generator"]


class TrainingLoop:
    """Makes passes over a source: the only loop that does.

    Parameters
    ----------
    trainer : OnlineTrainer
    source : ArraySource, StreamSource or the like
        Yields blocks of examples; knows its position, and can return to it.
    make_pass : Pass
        Learns a block: :data:`serial_pass`, or in shards ``omkl.distributed.ParameterMixing``.
    callbacks : sequence
        Each may have ``on_start(trainer, source)``, ``on_round(trainer, step)`` after every round,
        ``on_block(trainer, block)`` after every block (in shards, after every mix instead of after rounds),
        ``on_epoch(trainer, record)`` and ``on_end(trainer)``; a plain callable is an ``on_epoch``. A true return
        value ends training: at once, from ``on_round``. With ``state()`` and ``load_state(values, arrays)`` it takes
        part in checkpoints.
    checkpointer : StageCheckpointer, optional
        Writes the states of all of these when it is time, and restores them at the start.
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
        make_pass: Pass = serial_pass,
        callbacks: Sequence[object] = (),
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
        self._shard_record: Record = {}
        self._write_waits = False

    def run(self, epochs: int) -> list[Record]:
        """Make passes until ``epochs`` epochs are over, or a callback ends training.

        Parameters
        ----------
        epochs : int

        Returns
        -------
        list of dict
            A flat record of each epoch: ``epoch``, ``round``, ``examples``, ``loss`` (weighted mean of the losses, each
            before its update), ``penalty``, ``objective``, ``rate``, ``norm:NAME`` and ``weight:NAME`` of every group,
            ``seconds``.
        """
        trainer, source, progress = self.trainer, self.source, self.progress
        rounds_before, first_epoch = trainer.round, progress.epoch
        n_shards = self.make_pass.n_shards
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
                    raise InputError("The training data must have an example.")
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
        """Learn the rest of an epoch; return whether a callback ends training."""
        trainer, progress, checkpointer, on_round = self.trainer, self.progress, self.checkpointer, self._on_round
        for examples in self.source.blocks(progress.epoch - 1, progress.block):
            self._write_waiting()
            stopped = in_shards = False
            steps = self.make_pass(trainer, examples, self.source.orders, progress.block_examples)
            for step in steps:
                progress.add(step.n_examples, step.loss, step.weight)
                in_shards = step.in_shards
                if in_shards:
                    self._shard_record = step.record
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
        """Write the checkpoint that was due when shards were mixed, after the callbacks have seen the block."""
        if self._write_waits and self.checkpointer is not None:
            self.checkpointer.write(self)
            self._write_waits = False

    def _end_epoch(self) -> bool:
        """Make the epoch's record; return whether a callback ends training."""
        progress = self.progress
        mean_loss = progress.loss / progress.weight
        record = self.trainer.record(progress.epoch, progress.examples, mean_loss, progress.elapsed())
        record.update(self._shard_record)
        progress.history.append(record)
        stopped = any([tell(self.trainer, record) for tell in self._on_epoch])
        self.source.end_epoch(progress.examples, progress.weight)
        progress.next_epoch()
        return stopped


def check_finite(trainer: OnlineTrainer) -> None:
    """Raise a DivergenceError if a model or its average is not finite.

    Parameters
    ----------
    trainer : OnlineTrainer
    """
    state = trainer.group_state
    if not math.isfinite(state.square_norms.sum() + state.averages.sum()):
        raise DivergenceError(
            f"Parameters are not finite after round {trainer.round}: training diverged. Choose a smaller eta0, or a "
            "radius."
        )
