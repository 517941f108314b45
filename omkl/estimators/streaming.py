"""``fit`` on a stream: a loop of ``partial_fit`` over its blocks, which bounds memory, and can be resumed."""

import copy
import time
import zlib

import numpy as np
from scipy import sparse
from tqdm import tqdm

from omkl._components import Component
from omkl.data import Stream, Treebank
from omkl.data.rows import regrouped
from omkl.estimators.runs import begin_run
from omkl.exceptions import InputError
from omkl.online import ProgressiveValidation
from omkl.online.checkpoint import load_states, states_of
from omkl.online.mixing import tell_of_pass
from omkl.persistence import Unpacker

#: Examples of a stream that a shard learns between two mixes.
MIX_EVERY = 10_000


def as_stream(X, y=None):
    """The stream that ``X`` is, if it is one: a Stream, or an iterable of unknown length of pairs ``(x, y)``."""
    if y is not None or isinstance(X, (str, bytes)) or hasattr(X, "__array__"):
        return None
    if isinstance(X, Stream):
        return X
    return Stream.from_iterable(X) if hasattr(X, "__iter__") and not hasattr(X, "__len__") else None


def refuse_for_stream(**arguments):
    """Raise if any of these arguments of ``fit`` is given, which a stream does not take."""
    for name, value in arguments.items():
        if value is not None:
            raise InputError(f"{name}= goes with examples that are all at hand: a stream does not take it.")


class StreamFit:
    """Training on a stream, from scratch or from a checkpoint.

    A checkpoint is the whole model and the number of the block it has come to. Going on, the blocks before are read
    again, to come to the same place of the same stream, and compared by their checksum, but not learned again.

    Parameters
    ----------
    estimator : OnlineEstimator
        Left as it is; :meth:`run` returns one that has learned.
    stream : Stream
    options : dict
        What ``partial_fit`` is given beside the examples.
    running : dict
        See :func:`~omkl.estimators.runs.running_options`.
    """

    def __init__(self, estimator, stream, options, running):
        if estimator.early_stopping:
            raise InputError(
                "early_stopping holds out examples, which a stream does not: history_ tells the progressive error."
            )
        if stream.once and estimator.epochs > 1:
            raise InputError(
                f"epochs={estimator.epochs}, but an iterator can be passed over only once: set epochs=1, or give a "
                "Stream that can be read again."
            )
        self._stream = stream
        self._mixing = running["mixing"]
        if self._mixing is not None:
            self._mixing.check_callbacks(estimator.callbacks or ())
        self._options = options
        self._meter = ProgressiveValidation()
        self._run = begin_run(estimator, estimator._rng(), **running)
        # a stream cannot be looked through before: its blocks are compared one by one, and it is no set of arrays
        self._run.check_data(lambda: {"kind of data": "stream"})
        self._keeper = self._run.phase("stream")
        self._epoch = self._block = self._digest = self._rounds = 0
        self._watch = _Watch([*(estimator.callbacks or ()), self._meter])
        self._learner = _untrained(estimator)
        self._restore(estimator)
        self._learner.callbacks, self._learner._mixing = [self._watch], self._mixing

    def run(self):
        """Learn all there is to come; returns the estimator that has."""
        learner = self._learner
        m = learner.n_examples
        total = None if m is None else int(m * learner.epochs)
        with tqdm(
            total=total, initial=self._rounds, unit=" examples", delay=1, leave=False,
            disable=None if learner.verbose else True,
        ) as bar:  # fmt: skip
            while self._epoch < learner.epochs and not self._watch.stopped:
                self._pass(bar)
                if self._rounds == 0:
                    raise InputError("The stream has no example: nothing is left to train on.")
                if learner._n_streamed is None:
                    learner._n_streamed = self._rounds
                self._epoch, self._block, self._digest = self._epoch + 1, 0, 0
                self._watch.end_epoch(learner._trainer, self._epoch)
        self._meter.close(learner._trainer)
        learner.history_, learner.n_iter_ = self._meter.records, self._epoch
        del learner._mixing
        return learner

    def _pass(self, bar):
        """One epoch: blocks that the checkpoint has learned are only compared."""
        number = digest = 0
        for number, block in enumerate(self._blocks(), 1):
            if self._keeper is not None:
                digest = _checksum(block, digest)
            if number > self._block:
                self._learn(block)
                self._block, self._digest = number, digest
                bar.update(block.n_examples)
                bar.set_postfix(self._shown(), refresh=False)
                if self._watch.stopped:
                    return
                if self._keeper is not None and self._keeper.due(block.n_examples):
                    self._write()
            elif number == self._block and digest != self._digest:
                raise InputError(
                    f"The checkpoint has learned {number} blocks of epoch {self._epoch + 1} of another stream: the "
                    "examples up to there differ. Resume with the data that it began with."
                )
        if number < self._block:
            raise InputError(
                f"The stream ends early: the checkpoint has learned {self._block} blocks of epoch {self._epoch + 1}, "
                f"and there are {number}. Resume with the data that it began with."
            )

    def _blocks(self):
        """Blocks of the epoch: those of the stream, or larger ones, which shards learn side by side."""
        blocks = self._stream.blocks(self._epoch)
        return blocks if self._mixing is None else regrouped(blocks, MIX_EVERY * self._mixing.n_shards)

    def _learn(self, block):
        if block.y is None and not isinstance(block.X, Treebank):
            raise InputError("The stream has no labels y: give pairs (x, y), or a reader that knows the target.")
        inputs = (block.X,) if isinstance(block.X, Treebank) else block
        self._learner.partial_fit(*inputs, **self._options)
        self._rounds += block.n_examples

    def _shown(self):
        """What the progress bar tells."""
        last = self._meter.records[-1:]
        alive = np.count_nonzero(self._learner._trainer.norms)
        return {
            "groups": alive,
            **{name: f"{last[0][name]:.4g}" for name in ("error", "loss") if last and name in last[0]},
        }

    # ---- checkpoints ----------------------------------------------------------------------------------------------

    def _write(self):
        learner = self._learner
        manifest, arrays = learner._packed(learner._saved_parameters())
        values, own = states_of([*self._watch.callbacks, self._watch])
        place = {name: getattr(self, f"_{name}") for name in ("epoch", "block", "digest", "rounds")}
        state = {"place": place, "model": manifest, "callbacks": values, "n_streamed": learner._n_streamed}
        self._run.write("stream", state, {**arrays, **own})

    def _restore(self, estimator):
        found = None if self._keeper is None else self._run.restore("stream")
        if found is None:
            return
        values, arrays = found
        for name, value in values["place"].items():
            setattr(self, f"_{name}", value)
        self._learner = type(estimator)._from_model(values["model"], arrays, Unpacker(arrays, _users_own(estimator)))
        self._learner._n_streamed = values["n_streamed"]
        vars(self._learner).update(estimator.get_params(deep=False))
        load_states([*self._watch.callbacks, self._watch], values["callbacks"], arrays)


class _Watch:
    """The callback that tells all others of rounds and epochs, and notes whether one of them ends training."""

    def __init__(self, callbacks):
        self.callbacks = callbacks
        self.stopped = False
        self._watchers = [callback.on_round for callback in callbacks if hasattr(callback, "on_round")]
        self._began, self._rounds, self._loss = time.perf_counter(), 0, 0.0

    def on_round(self, trainer, step):
        self._rounds += 1
        self._loss += step.loss
        if any([watch(trainer, step) for watch in self._watchers]):
            self.stopped = True

    def on_pass(self, trainer, loss, rounds):
        """The same for rounds that shards have made."""
        self._rounds += rounds
        self._loss += loss
        if tell_of_pass(self.callbacks, trainer, loss, rounds):
            self.stopped = True

    def end_epoch(self, trainer, epoch):
        """What ends with an epoch."""
        record = {
            "epoch": epoch,
            "rounds": trainer.round,
            "loss": self._loss / max(self._rounds, 1),
            "norms": dict(zip(trainer.group_state.names, trainer.group_state.norms.tolist())),
            "kernel_weights": trainer.kernel_weights(),
            "seconds": time.perf_counter() - self._began,
        }
        if any([callback(trainer, record) for callback in self.callbacks if callable(callback)]):
            self.stopped = True
        self._began, self._rounds, self._loss = time.perf_counter(), 0, 0.0

    def state(self):
        return [self._rounds, self._loss], {}

    def load_state(self, values, arrays):
        self._rounds, self._loss = values


def _untrained(estimator):
    """A copy with the same parameters, the same objects, that has learned nothing."""
    fresh = copy.copy(estimator)
    for name in set(vars(fresh)) - set(estimator.get_params(deep=False)):
        delattr(fresh, name)
    return fresh


def _users_own(estimator):
    """The user's classes and functions among the parameters, by name, which a checkpoint cannot hold."""
    found, waiting = {}, list(estimator.get_params(deep=False).values())
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, Component):
            found[type(value).__name__] = type(value)
            waiting += value.parameters().values()
        elif callable(value):
            found[getattr(value, "__name__", "function")] = value
    return found


def _checksum(value, digest):
    """CRC-32 of a block's content, continued from ``digest``."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return zlib.crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8), digest)
    if sparse.issparse(value):
        value = (value.data, value.indices, value.indptr)
    elif isinstance(value, Treebank):
        value = (value.offsets, value.heads, *(" ".join(sentence.forms) for sentence in value))
    if isinstance(value, (list, tuple)):
        for item in value:
            digest = _checksum(item, digest)
        return digest
    return zlib.crc32(repr(value).encode("utf-8", "surrogatepass"), digest)
