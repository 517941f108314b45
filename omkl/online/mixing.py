r"""Iterative parameter mixing: one model from shards that are trained side by side (section 13).

Every epoch, all shards start from the same training state, make one online pass each, and send back what changed; the
mix is the average of their parameters, weighted by the shards' sizes, in a fixed order. Averaging revives every group
that is alive in any shard, so a proximal step follows, and restores group sparsity.

How counters are mixed. A *round* is one step of every shard side by side: S shards of N examples make ``N / S`` rounds
an epoch, and the horizon of rates that end with the last round is ``epochs * N / S``. The mean of S shards has gone
along the mean of S gradients at each of these rounds, as a mini-batch of S examples would: what rates decay with is how
often the model moved, not how many examples it saw. Dual averaging needs it so, too: the mean of the shards' sums of
gradients is a sum over as many rounds. How the state of a schedule is mixed is told by its ``mix``.

Regularizers on coordinates (l1, trees) shrink in the shards' passes only: a coordinate of the mix is zero where it is
zero in every shard.

References
----------
McDonald, Hall, Mann (2010), Distributed training strategies for the structured perceptron.
"""

import time
from functools import partial

import numpy as np
from tqdm import tqdm

from omkl.distributed.cluster import workers_of
from omkl.exceptions import InputError
from omkl.groups import Mixable, check_ability
from omkl.online.checkpoint import Course
from omkl.online.executors import DaskExecutor, SerialExecutor
from omkl.online.trainer import OnlineTrainer

WEIGHTINGS = ("size", "uniform")


class ParameterMixing:
    """Trains a model on shards of its examples, one process or many: the bits are the same.

    Parameters
    ----------
    n_shards : int
    executor : callable
        Makes, from the list of shards, what runs a pass over each: :class:`~omkl.online.executors.SerialExecutor` or
        a :class:`~omkl.online.executors.DaskExecutor` with a client.
    weighting : {"size", "uniform"}
        Whether a shard counts by its number of examples, or all count the same.
    """

    def __init__(self, n_shards, executor=SerialExecutor, weighting="size"):
        if not isinstance(n_shards, (int, np.integer)) or n_shards < 1:
            raise InputError(f"shards must be a whole number > 0, not {n_shards!r}.")
        if weighting not in WEIGHTINGS:
            raise InputError(f"weighting must be one of {', '.join(WEIGHTINGS)}, not {weighting!r}.")
        self.n_shards = int(n_shards)
        self.executor = executor
        self.weighting = weighting

    @classmethod
    def over(cls, client=None, shards=None):
        """What ``fit(..., client=client, shards=shards)`` of an estimator asks for; None for plain training.

        With a Dask client there are as many shards as workers by default; shards alone are trained here, one after
        the other.
        """
        if client is None:
            return None if shards is None or cls(shards).n_shards == 1 else cls(shards)
        for_client = partial(DaskExecutor, client)
        return cls(len(workers_of(client)) if shards is None else shards, for_client)

    def fit(self, trainer, examples, *, epochs=1, rng=None, callbacks=(), progress=False, keeper=None):
        """As :meth:`omkl.online.OnlineTrainer.fit`, with every epoch made by the shards side by side.

        Shard j of S has the examples ``j, j + S, j + 2S, ...``, in a fresh random order every epoch. With one shard
        this is that ``fit``, bit for bit. Rounds may happen elsewhere: where a callback has it, ``on_pass(trainer,
        loss, rounds)`` is called after every mix, with the sum of the losses and their number, in place of
        ``on_round``. A ``keeper`` writes checkpoints between epochs.

        Parameters
        ----------
        examples : sequence of Example
            With ``part(indices)``, which makes a sequence of its own of some of them.

        Returns
        -------
        history : list of dict
            The records have more: ``examples``, ``shard_losses``, ``shard_seconds`` (of each pass: those that passed,
            those of CPU), ``mixing_seconds``, and the ``bytes`` that the shards sent back.
        """
        self.check_callbacks(callbacks)
        sizes, run = self._shards(trainer, examples)
        trainer.schedule.plan(trainer.round + epochs * max(sizes))
        for callback in callbacks:
            getattr(callback, "on_start", _nothing)(trainer, examples)
        course = Course()
        course.note(rng)
        if keeper is not None:
            keeper.restore(trainer, course, callbacks)
            course.rewind(rng)
        with _Progress(epochs * len(examples), (course.epoch - 1) * len(examples), progress) as bar:
            while course.epoch <= epochs and not course.finished:
                started = time.perf_counter()
                orders = [np.arange(n) if rng is None else rng.permutation(n) for n in sizes]
                changes = run(trainer.state(), orders, bar.report)
                passed = time.perf_counter()
                self._mix(trainer, changes, np.array(sizes))
                now = time.perf_counter()
                record = _record(trainer, course.epoch, changes, sizes, now - started, now - passed)
                course.history.append(record)
                bar.end_epoch(record, np.count_nonzero(trainer.norms))
                stopped = tell_of_pass(callbacks, trainer, record["loss"] * len(examples), len(examples))
                stopped |= any([callback(trainer, record) for callback in callbacks])
                course.next_epoch(rng)
                course.finished = stopped
                if keeper is not None and keeper.due(len(examples)):
                    keeper.write(trainer, course, callbacks)
        if keeper is not None:
            keeper.end(trainer, course, callbacks)
        return course.history

    def one_pass(self, trainer, examples):
        """One mixed pass over examples in their order, such as those of a stream that are at hand.

        Shards are as in :meth:`fit`; fewer examples than shards are learned here, one after the other.

        Returns
        -------
        loss : float
            Sum of the losses, each before its update.
        """
        if len(examples) < self.n_shards:
            return sum(trainer.update(*examples[i]).loss for i in range(len(examples)))
        sizes, run = self._shards(trainer, examples)
        changes = run(trainer.state(), [np.arange(n) for n in sizes], _nothing)
        self._mix(trainer, changes, np.array(sizes))
        return sum(float(change["loss"]) for change in changes)

    def check_callbacks(self, callbacks):
        """Raise an InputError where a callback would have to see single rounds."""
        for callback in callbacks:
            if hasattr(callback, "on_round") and not hasattr(callback, "on_pass"):
                raise InputError(
                    f"{type(callback).__name__} looks at single rounds, which shards make elsewhere: leave client= "
                    "and shards= out, or give it on_pass(trainer, loss, rounds), which is called after every mix."
                )

    def _shards(self, trainer, examples):
        """Sizes of the shards, and what makes a pass over each from a state, in some orders."""
        self._check(trainer, examples)
        places = [np.arange(j, len(examples), self.n_shards) for j in range(self.n_shards)]
        executor = self.executor([examples.part(own) for own in places])
        task = partial(pass_over_shard, blueprint(trainer), self.n_shards == 1)
        return list(map(len, places)), partial(executor.run, task)

    def _mix(self, trainer, changes, sizes):
        if self.n_shards == 1:
            trainer.load_state(changes[0])
            trainer.recompute_norms()
        else:
            sizes = sizes if self.weighting == "size" else np.ones(self.n_shards)
            trainer.mix(changes, sizes / sizes.sum())

    def _check(self, trainer, examples):
        if self.n_shards > len(examples):
            raise InputError(f"{len(examples)} examples do not make {self.n_shards} shards: ask for fewer.")
        check_ability(
            trainer.banks, Mixable, "Training in shards mixes parameters", "leave budget=, client= and shards= out"
        )
        if getattr(trainer.average, "period", None):
            raise InputError(f"{trainer.average!r} cannot be kept in shards: choose another average.")


def tell_of_pass(callbacks, trainer, loss, rounds):
    """Tell the callbacks that want it of a pass that shards have made; returns whether one of them ends training."""
    return any([callback.on_pass(trainer, loss, rounds) for callback in callbacks if hasattr(callback, "on_pass")])


def blueprint(trainer):
    """What makes an untrained trainer like this one: small, and sent to other machines."""
    banks = [bank.blueprint() for bank in trainer.banks]
    n = len(trainer._coordinate_banks)
    return partial(
        _built, banks[:n], banks[n:], trainer.structure, trainer.loss, trainer.regularizer, trainer.schedule.fresh(),
        strength=trainer.strength, method=trainer.method.name, radius=trainer.radius, average=trainer.average,
        coordinates_every=trainer.coordinates_every, batch_size=trainer.batch_size, l2=trainer.l2,
    )  # fmt: skip


def _built(banks, unpenalized, structure, loss, regularizer, schedule, **settings):
    banks, unpenalized = [make() for make in banks], [make() for make in unpenalized]
    return OnlineTrainer(banks, structure, loss, regularizer, schedule=schedule, unpenalized=unpenalized, **settings)


def pass_over_shard(make_trainer, alone, state, shard, order, report):
    """One online pass over a shard, a pure function: what it returns depends on its arguments alone.

    Parameters
    ----------
    make_trainer : callable
        See :func:`blueprint`.
    alone : bool
        Whether there is no other shard.
    state : dict of str to array
        What all shards start from; see :meth:`omkl.online.OnlineTrainer.state`.
    shard : sequence of Example
    order : int array
    report : callable
        Told, every so often, how many examples are done and the sum of their losses.

    Returns
    -------
    dict of str to array
        What changed, or all of the state where the shard is alone; with the sum of the losses, and the seconds that
        passed and those of CPU.
    """
    started, cpu_started = time.perf_counter(), time.process_time()
    trainer = make_trainer()
    trainer.load_state(state)
    if alone:
        trainer.recompute_every = len(order)
    loss = 0.0
    for count, i in enumerate(order.tolist(), 1):
        loss += trainer.update(*shard[i]).loss
        report(count, loss)
    changes = trainer.state() if alone else trainer.changes(state)
    seconds = time.perf_counter() - started, time.process_time() - cpu_started
    return {**changes, "loss": np.array(loss), "seconds": np.array(seconds)}


def _record(trainer, epoch, changes, sizes, seconds, mixing_seconds):
    losses = [float(change["loss"]) for change in changes]
    return {
        **trainer._record(epoch, sum(losses) / sum(sizes), seconds),
        "examples": sum(sizes),
        "shard_losses": [loss / n for loss, n in zip(losses, sizes)],
        "shard_seconds": [change["seconds"].tolist() for change in changes],
        "mixing_seconds": mixing_seconds,
        "bytes": sum(array.nbytes for change in changes for array in change.values()),
    }


class _Progress:
    """One progress bar over the examples of all shards."""

    def __init__(self, total, done, shown):
        self._bar = tqdm(
            total=total, initial=done, unit=" examples", delay=1, leave=False, disable=None if shown else True
        )
        self._done = {}
        self._before = done

    def report(self, shard, count, loss):
        """A shard has met so many examples of the epoch, with this sum of losses."""
        self._done[shard] = count, loss
        done, losses = map(sum, zip(*self._done.values()))
        self._bar.n = self._before + done
        self._bar.set_postfix(loss=f"{losses / max(done, 1):.4g}")

    def end_epoch(self, record, groups):
        self._done = {}
        self._before += record["examples"]
        self._bar.n = self._before
        self._bar.set_postfix(epoch=record["epoch"], loss=f"{record['loss']:.4g}", groups=groups)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._bar.close()


def _nothing(*_):
    """Stands in for a hook that a callback does not have."""
