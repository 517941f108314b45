"""The training loop: passes over examples, with callbacks and checkpoints."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from omkl.exceptions import DivergenceError, InputError
from omkl.online.checkpointing import Checkpoints
from omkl.online.hooks import check_callbacks, hooks, load_states, states_of
from omkl.online.rounds import Examples, LearnedBlock, Record, State, Step, TrainingProgress, Values
from omkl.online.trainer import OnlineTrainer

#: Weight of the groups left out after the first epoch above which the others are trained anew.
NEGLIGIBLE = 0.1


class Source(Protocol):
    """Yields blocks of examples in epochs; knows its position, and can return to it."""

    n_examples: int | None

    def begin_epoch(self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int) -> None: ...

    def blocks(self, epoch: int, start: int) -> Iterator[Examples]: ...

    def orders(self, sizes: Sequence[int]) -> list[np.ndarray]: ...

    def end_epoch(self, n_examples: int, weight: float) -> None: ...

    def state(self) -> State: ...

    def load_state(self, values: Values) -> None: ...


class Pass(Protocol):
    """Learns a block of examples, in rounds or in shards."""

    @property
    def n_shards(self) -> int: ...

    def check(self, trainer: OnlineTrainer, source: Source, callbacks: Sequence[object]) -> None: ...

    def __call__(self, trainer: OnlineTrainer, examples: Examples, orders: Callable, done: int) -> Iterator[Any]: ...


class SerialPass:
    """Learns the examples of a block one round after the other."""

    n_shards = 1

    def check(self, trainer: OnlineTrainer, source: Source, callbacks: Sequence[object]) -> None:
        """Accept everything."""

    def __call__(self, trainer: OnlineTrainer, examples: Examples, orders: Callable, done: int) -> Iterator[Step]:
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

    def __init__(self, examples: Examples, rng: np.random.Generator | None = None) -> None:
        self.examples = examples
        self.n_examples: int | None = len(examples)
        self._rng = rng
        self.end_epoch()

    def begin_epoch(self, trainer: OnlineTrainer, rounds_before: int, epochs: int, n_shards: int) -> None:
        """Tell the trainer how many rounds there will be: ``epochs`` in all, after ``rounds_before``."""
        n_examples = len(self.examples)
        trainer.schedule.plan(rounds_before + epochs * -(-n_examples // n_shards) - trainer.began)
        trainer.recompute_every = max(1, n_examples)

    def blocks(self, epoch: int, start: int) -> Iterator[Examples]:
        """Yield the blocks of an epoch (from 0), from block ``start`` on."""
        if start == 0 and len(self.examples):
            yield self.examples

    def orders(self, sizes: Sequence[int]) -> list[np.ndarray]:
        """Return an order for each of the parts that a block is cut into."""
        return [np.arange(n) if self._rng is None else self._rng.permutation(n) for n in sizes]

    def end_epoch(self, n_examples: int = 0, weight: float = 0.0) -> None:
        """Keep the state of the generator between two epochs."""
        self._generator = None if self._rng is None else self._rng.bit_generator.state

    def state(self) -> State:
        """Return ``(JSON values, arrays)``: the generator before the order of this epoch was drawn."""
        return {"generator": self._generator}, {}

    def load_state(self, values: Values) -> None:
        """Load the values of :meth:`state`."""
        if self._rng is not None:
            self._rng.bit_generator.state = self._generator = values["generator"]


class TrainingLoop:
    """Makes passes over a source: the only loop that does.

    Parameters
    ----------
    trainer : OnlineTrainer
    source : ArraySource, StreamSource or the like
    make_pass : Pass
        Learns a block: :data:`serial_pass`, or in shards ``omkl.distributed.ParameterMixing``.
    callbacks : sequence
        Each may have ``on_start(trainer, source)``, ``on_round(trainer, step)`` after every round,
        ``on_block(trainer, block)`` after every block (in shards, after every mix instead of after rounds),
        ``on_epoch(trainer, record)`` and ``on_end(trainer)``; a plain callable is an ``on_epoch``. A true return
        value ends training: at once, from ``on_round``. With ``state()`` and ``load_state(values, arrays)`` it takes
        part in checkpoints.
    checkpoints : Checkpoints, optional
        They hold the states of all of these, which are restored at the start.
    stage : str
        Name of the loop in checkpoints.
    progress : TrainingProgress, optional
        Where to go on; the beginning by default.
    concludes : bool
        Whether training ends with the last epoch; False where more examples may come, as with ``partial_fit``.
    """

    def __init__(
        self,
        trainer: OnlineTrainer,
        source: Source,
        *,
        make_pass: Pass = serial_pass,
        callbacks: Sequence[object] = (),
        checkpoints: Checkpoints | None = None,
        stage: str = "model",
        progress: TrainingProgress | None = None,
        concludes: bool = True,
    ) -> None:
        self.trainer = trainer
        self.source = source
        self.make_pass = make_pass
        self.callbacks = check_callbacks(callbacks)
        self.checkpoints = checkpoints
        self.stage = stage
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
        self._restore()
        progress.start_clock()
        try:
            while progress.epoch <= epochs and not progress.finished:
                once = epochs == first_epoch and n_shards == 1
                _begin_epoch(trainer, progress.epoch == first_epoch, once, self.concludes)
                source.begin_epoch(trainer, rounds_before, epochs, n_shards)
                stopped = self._learn_epoch()
                if progress.examples == 0:
                    raise InputError("The training data must have an example.")
                progress.finished = self._end_epoch() or stopped
                self._write_waiting()
            if self.concludes:
                _end_training(trainer)
        finally:
            for end in hooks(self.callbacks, "on_end"):
                end(trainer)
        check_finite(trainer)
        self._keep()
        return progress.history

    def _learn_epoch(self) -> bool:
        """Learn the rest of an epoch; return whether a callback ends training."""
        trainer, progress, checkpoints, on_round = self.trainer, self.progress, self.checkpoints, self._on_round
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
                if checkpoints is not None and checkpoints.due(step.n_examples):
                    self._write_waits = True
                    if not in_shards:
                        self._write_waiting()
            learned = progress.block_examples, progress.block_loss, progress.block_weight
            block = LearnedBlock(examples, *learned, in_shards)
            stopped |= any([tell(trainer, block) for tell in self._on_block])
            progress.next_block()
            if stopped:
                return True
        return False

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

    def _write_waiting(self) -> None:
        """Write the checkpoint that is due; of shards that were mixed, after the callbacks have seen the block."""
        if self._write_waits and self.checkpoints is not None:
            self._keep()
            self.checkpoints.write()
            self._write_waits = False

    def _keep(self) -> None:
        """Keep all states for checkpoints."""
        if self.checkpoints is not None:
            source, own = self.source.state()
            callbacks, arrays = states_of(self.callbacks)
            values = {"source": source, "progress": self.progress.state(), "callbacks": callbacks}
            self.checkpoints.keep(self.stage, values, {**self.trainer.state(), **own, **arrays})

    def _restore(self) -> None:
        """Restore all states from the resumed checkpoint, if it has this stage."""
        found = None if self.checkpoints is None else self.checkpoints.earlier(self.stage)
        if found is not None and self.checkpoints is not None:
            values, arrays = found
            with self.checkpoints.reading():
                self.trainer.load_state(arrays)
                self.source.load_state(values["source"])
                self.progress.load_state(values["progress"])
                load_states(self.callbacks, values["callbacks"], arrays)


def _begin_epoch(trainer: OnlineTrainer, new: bool, once: bool, concludes: bool) -> None:
    """Prepare an epoch.

    If its examples are not ``new``, the groups that have not helped while they were are left out, and the others are
    trained anew if those had more than a tenth of the weight. If examples come only ``once``, Hedge learns the weights
    of MKL. If training never ``concludes``, nothing is tested, and nothing left out.
    """
    if not concludes and trainer.evidence is not None:
        trainer.evidence.open = False
    if new and once and trainer.round == 0 and _can_hedge(trainer):
        trainer.hedge()
    if not new and _leave_out_useless(trainer) > NEGLIGIBLE:
        _restart(trainer)
    trainer.method.meet(new, trainer.group_state)


def _end_training(trainer: OnlineTrainer) -> None:
    """End training: leave out what has not helped, even if no example has come again."""
    if trainer.evidence is None:
        return
    _leave_out_useless(trainer)
    trainer.method.meet(trainer.method.learning, trainer.group_state)


def _can_hedge(trainer: OnlineTrainer) -> bool:
    regularizer = trainer.regularizer
    is_mkl = regularizer is not None and regularizer.weight_set == "simplex" and regularizer.is_sparse
    return trainer.evidence is not None and is_mkl and trainer.method.forgets


def _leave_out_useless(trainer: OnlineTrainer) -> float:
    """Leave out the groups that have not helped on new examples, if there is evidence; return their weight."""
    evidence = trainer.evidence
    if evidence is None or not evidence.open:
        return 0.0
    weight_of = trainer.kernel_weights(trainer.norms)
    evidence.open = False
    left_out = trainer.group_state.left_out[: trainer.n_penalized]
    left_out |= ~evidence.useful()
    trainer.go_on(trainer.round, trainer.presented)
    return sum(weight_of[name] for name, left in zip(trainer.group_names, left_out) if left)


def _restart(trainer: OnlineTrainer) -> None:
    """Set parameters to zero, and restart rates and averages; groups that are left out stay so."""
    trainer.group_state.restart()
    trainer.method.prepare(trainer.group_state)
    for bank in trainer.banks:
        bank.restart()
    trainer.schedule.restart()
    trainer.began = trainer.round
    trainer.go_on(trainer.round, 0.0)


def check_finite(trainer: OnlineTrainer) -> None:
    """Raise a DivergenceError if a model or its average is not finite."""
    state = trainer.group_state
    if not math.isfinite(state.square_norms.sum() + state.averages.sum()):
        raise DivergenceError(
            f"Parameters are not finite after round {trainer.round}: training diverged. Choose a smaller eta0, or a "
            "radius."
        )
