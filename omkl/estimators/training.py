"""Training runs of online estimators: tasks, checkpoints, shards, and held-out examples."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypedDict

import numpy as np

from omkl._components import RandomState, warn_caller
from omkl.estimators.persistence import fingerprint
from omkl.exceptions import DataWarning, InputError
from omkl.online.averaging import Predictor
from omkl.online.callbacks import BestEpoch, ProgressBar
from omkl.online.checkpointing import Checkpoints
from omkl.online.examiners.evidence import Evidence, beyond_chance
from omkl.online.model import OnlineModel, OwnCodec
from omkl.online.rounds import Example, Record, TrainingProgress, Values
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import Pass, Source, TrainingLoop, serial_pass
from omkl.persistence import Packer

#: Parameters that a resumed run may change, because they do not affect the result.
FREE = ("verbose", "callbacks", "n_jobs")


class RunOptions(TypedDict, total=False):
    """Keyword arguments of ``fit`` for checkpoints and shards.

    See :meth:`omkl.SequenceLabeler.fit`.
    """

    checkpoint: str | PathLike | None
    checkpoint_every: str | float
    resume: bool
    client: Any
    shards: int | None


def in_folder(running: RunOptions, name: str) -> RunOptions:
    """Return the same options with a folder for the checkpoints of one of several trainings."""
    folder = running.get("checkpoint")
    if folder is None:
        return running
    return {**running, "checkpoint": Path(folder) / name}


def label_accuracy(predictor: Predictor, examples: Iterable[Example]) -> float:
    """Return the accuracy of a frozen model on the known labels of examples."""
    structure = predictor.structure
    n_right = 0
    n_known = 0
    for x, y, _ in examples:
        n_right += np.count_nonzero(structure.decode(predictor.potentials(x)) == y)
        if structure.is_partial(y):
            n_known += int(np.count_nonzero(y >= 0))
        else:
            n_known += len(x)
    if not n_known:
        raise InputError("The examples for early stopping must have a known label.")
    return n_right / n_known


class Task(NamedTuple, Generic[OwnCodec]):
    """Parts of training that differ between estimators.

    Attributes
    ----------
    make_codec : callable
        ``make_codec()`` returns an untrained codec, for a new model.
    read : callable
        ``read(block, first, is_all_data)`` validates a
        :class:`~omkl.estimators.sources.TrainingBlock`, and converts it for the codec. ``first``
        means that the model starts with the block, ``is_all_data`` that it is all training data.
    held_out_score : callable
        ``held_out_score(predictor, examples)`` returns the score that early stopping maximizes.
    companions : callable, optional
        ``companions(model, make_pass)`` returns callbacks that train other models on the blocks of
        a stream.
    finish : callable, optional
        ``finish(model, examples, chosen, run, epochs)`` trains other models after the last epoch on
        arrays.
    passes : callable
        ``passes(epochs)`` returns the number of epochs of the model, when the first data are known.
    """

    make_codec: Callable[[], OwnCodec]
    read: Callable[..., Any]
    held_out_score: Callable = label_accuracy
    companions: Callable[..., list] | None = None
    finish: Callable | None = None
    passes: Callable[[int], int] = int

    def companions_of(self, model: OnlineModel, make_pass: Pass) -> list:
        """Return the callbacks that train other models beside a model."""
        if self.companions is None:
            return []
        return self.companions(model, make_pass)


class Plan(NamedTuple):
    """A prepared training run.

    Attributes
    ----------
    source : Source
    stopping : BestEpoch or None
    conclude : callable
        ``conclude(history)`` finishes the run, and returns the records of ``history_``.
    companions, meters : sequences of callbacks
        Called before and after those of the user.
    """

    source: Source
    stopping: BestEpoch | None
    conclude: Callable[[list[Record]], list[Record]] = list
    companions: Sequence = ()
    meters: Sequence = ()

    def callbacks(self, callbacks_of_user: Sequence) -> list:
        """Return all callbacks in the order of their calls."""
        stopping = []
        if self.stopping is not None:
            stopping = [self.stopping]
        return [*stopping, *self.companions, *callbacks_of_user, *self.meters]


class Run:
    """Random generator, checkpoints and shards of the training loops of one call of ``fit``.

    Parameters
    ----------
    name, parameters
        Class of the estimator, and its parameters in a form that a model file can store.
    random_state : int, Generator, RandomState or None
    verbose : bool
        Show progress bars.
    checkpoint, checkpoint_every, resume
        See :meth:`omkl.SequenceLabeler.fit`.
    make_pass : Pass
        Trains on a block of examples, in ``n_shards`` shards; ``n_shards`` is 0 without shards.

    Attributes
    ----------
    rng : numpy.random.Generator
        A resumed run restores its state.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, object],
        random_state: RandomState,
        verbose: bool,
        *,
        checkpoint: str | PathLike | None = None,
        checkpoint_every: str | float = "60s",
        resume: bool = False,
        make_pass: Pass = serial_pass,
        n_shards: int = 0,
    ) -> None:
        if isinstance(random_state, np.random.RandomState):
            random_state = random_state.randint(2**31 - 1)
        try:
            self.rng = np.random.default_rng(random_state)
        except (TypeError, ValueError):
            raise InputError(
                f"random_state must be None, an integer or a generator, got {random_state!r}."
            ) from None
        self.verbose = verbose
        self.make_pass = make_pass
        self.n_shards = n_shards
        self.checkpoints = None
        if checkpoint is not None:
            configuration = self._configuration(name, parameters)
            self.checkpoints = Checkpoints(
                checkpoint, checkpoint_every, configuration, self.rng, resume
            )
        elif checkpoint_every != "60s" or resume:
            raise InputError(
                "checkpoint_every= and resume= need a directory: checkpoint=DIRECTORY."
            )

    def _configuration(self, name: str, parameters: Mapping[str, object]) -> Values:
        """Return all that a run depends on except its data, as it is read from a checkpoint."""
        packer = Packer()
        configuration = {
            "estimator": name,
            "omkl": version("omkl"),
            "shards": max(self.n_shards, 1),
        }
        for key, value in parameters.items():
            if key not in FREE:
                configuration[key] = packer.pack(value, key)
        configuration["arrays"] = fingerprint(packer.arrays.values())
        configuration["generator"] = type(self.rng.bit_generator).__name__
        return json.loads(json.dumps(configuration))

    def loop(
        self,
        stage: str,
        trainer: OnlineTrainer,
        source: Source,
        epochs: int,
        callbacks: Sequence = (),
    ) -> TrainingLoop:
        """Make the training loop of one stage, with progress bar and checkpoints."""
        progress = TrainingProgress()
        if self.verbose:
            total = None
            if source.n_examples is not None:
                total = epochs * source.n_examples
            callbacks = [*callbacks, ProgressBar(progress, total)]
        return TrainingLoop(
            trainer,
            source,
            make_pass=self.make_pass,
            callbacks=callbacks,
            checkpoints=self.checkpoints,
            stage=stage,
            progress=progress,
        )


def held_out_part(
    n: int, fraction: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Split n examples at random; return sorted indices of training and validation examples."""
    n_held_out = max(1, round(fraction * n))
    if n_held_out >= n:
        raise InputError(f"Early stopping cannot hold out {n_held_out} of {n} examples.")
    shuffled = rng.permutation(n)
    return np.sort(shuffled[n_held_out:]), np.sort(shuffled[:n_held_out])


def warn_of_evidence(evidence: Evidence | None) -> None:
    """Warn if no group helps beyond chance on examples that were new to the model."""
    if evidence is None or not evidence.is_weak():
        return
    n = len(evidence.sums)
    largest = evidence.z_scores().max()
    warn_caller(
        f"No group stands out on new examples: the largest z-score of {n} groups is "
        f"{largest:.2g}, and {beyond_chance(n):.2g} is beyond chance. Weights may be due to "
        "chance: see `evidence_`, or select groups by omkl.select_groups.",
        DataWarning,
    )
