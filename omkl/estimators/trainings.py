"""The trainings that one model is made of: a callback's end is the end of all, and what is over is not done again."""

import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from omkl._files import read_archive
from omkl.data import Treebank
from omkl.data.treebank_formats import FIELDS
from omkl.estimators.base import FREE, Run
from omkl.estimators.parsing import DependencyParser
from omkl.estimators.saving import SavedEstimator, users_own
from omkl.estimators.sequence import SequenceLabeler
from omkl.estimators.sources import fingerprint
from omkl.estimators.tagging import StoppedError
from omkl.exceptions import CheckpointWarning, ModelFileError
from omkl.online import below, check_callbacks, hooks
from omkl.online.checkpointing import load_states, states_of
from omkl.persistence import Packer, Unpacker


class Stopping:
    """A callback of many trainings that calls others: what ends one of these trainings ends all that come after it.

    Parameters
    ----------
    callbacks : list or None
        As those of :class:`omkl.online.TrainingLoop`.

    Attributes
    ----------
    ended : bool
        Whether one of the callbacks has ended training.
    """

    def __init__(self, callbacks: Any) -> None:
        self.callbacks = check_callbacks(callbacks)
        self.ended = False

    def __deepcopy__(self, memo: Any) -> "Stopping":
        return self  # the same one in all estimators that are cloned

    def on_start(self, trainer: Any, source: Any) -> None:
        """A training begins; raises :class:`StoppedError` where a callback has ended, or ends, all of them."""
        if not self.ended and self._tell("on_start", trainer, source):
            self.on_end(trainer)
        if self.ended:
            raise StoppedError

    def on_round(self, trainer: Any, step: Any) -> bool:
        """A round is over; returns whether to end."""
        return self._tell("on_round", trainer, step)

    def on_block(self, trainer: Any, block: Any) -> bool:
        """A block is over; returns whether to end."""
        return self._tell("on_block", trainer, block)

    def on_epoch(self, trainer: Any, record: Any) -> bool:
        """An epoch is over; returns whether to end."""
        plain = [tell for tell in self.callbacks if callable(tell) and not hasattr(tell, "on_epoch")]
        self.ended |= any([tell(trainer, record) for tell in plain])
        return self._tell("on_epoch", trainer, record)

    def on_end(self, trainer: Any) -> None:
        """A training is over."""
        for tell in hooks(self.callbacks, "on_end"):
            tell(trainer)

    def _tell(self, name: str, *heard: Any) -> bool:
        self.ended |= any([tell(*heard) for tell in hooks(self.callbacks, name)])
        return self.ended

    def state(self) -> tuple[list, dict[str, np.ndarray]]:
        """``(JSON values, arrays)`` of the callbacks that take part in checkpoints."""
        return states_of(self.callbacks)

    def load_state(self, values: list, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        load_states(self.callbacks, values, arrays)


class Trainings:
    """The trainings of one call of ``fit``, one after the other.

    Where there are checkpoints, the directory holds what has been learned of each training that is over, by its number,
    and for the one at hand a directory of that name with checkpoints of its own. A run that is resumed reads the former
    and goes on from the latter.

    Parameters
    ----------
    stopping : Stopping
    run : Run
        Compares parameters and data, and keeps the directory from other runs.
    seed : int
        That of all models; a run that is resumed has the one that it began with.
    checkpoint_every : str or float
        Time between two checkpoints of a training; see :class:`~omkl.online.Checkpoints`.

    Attributes
    ----------
    seed : int
    """

    def __init__(self, stopping: Stopping, run: Run, seed: int, checkpoint_every: str | float) -> None:
        self.stopping = stopping
        self._checkpointer: Any = run.checkpointer
        self._every = checkpoint_every
        self._number = 0
        earlier = None if run.checkpointer is None else run.checkpointer.earlier("trainings")
        self._resumed = earlier is not None
        self.seed = seed
        if earlier is not None:
            with run.checkpointer.reading():
                self.seed = int(earlier[0]["seed"])

    def begin(self, treebank: Treebank) -> None:
        """Training begins, on these sentences.

        Raises
        ------
        omkl.exceptions.InputError
            If a run is resumed that has learned from others.
        """
        if self._checkpointer is None:
            return
        strings = ("\n".join(treebank.strings[name].tolist()).encode("utf-8", "surrogatepass") for name in FIELDS)
        names = [np.frombuffer(string, np.uint8) for string in strings]
        columns = [getattr(treebank, name) for name in (*FIELDS, "heads", "offsets")]
        facts = {"number of sentences": len(treebank), "number of words": treebank.n_words}
        self._checkpointer.check_data({**facts, "content of the data": fingerprint([*columns, *names])})
        if not self._resumed:
            self._checkpointer.keep("trainings", {"seed": self.seed}, {})
            self._checkpointer.write()

    def learn_labels(self, labeler: SequenceLabeler, X: list, y: list) -> SequenceLabeler:
        """A labeler that has learned from these sequences, with its history, but without what only training needs."""
        options = self._next()
        if self._checkpointer is None:
            return _without_state(labeler.fit(X, y))
        kept = self._checkpointer.checkpoints.directory / f"{self._number:04d}.npz"
        learned = self._kept(kept, labeler) if self._resumed and kept.exists() else None
        if learned is None:
            learned = _without_state(labeler.fit(X, y, **options))
            if self.stopping.ended:  # it has not learned all
                return learned
            self._keep(kept, learned)
        if kept.exists():
            shutil.rmtree(kept.with_suffix(""), ignore_errors=True)
        return learned

    def _keep(self, kept: Path, learned: SequenceLabeler) -> None:
        """Write what a training has learned, and the states of callbacks at its end."""
        packer = Packer()
        manifest = {"class": "Training", "model": learned._manifest(packer, False, history=True)}
        manifest["callbacks"], arrays = self.stopping.state()
        arrays = {f"callbacks/{name}": array for name, array in arrays.items()}
        arrays |= {f"model/{name}": array for name, array in packer.arrays.items()}
        self._checkpointer.checkpoints.keep(kept.name, manifest, arrays)

    def _kept(self, kept: Path, labeler: SequenceLabeler) -> SequenceLabeler | None:
        """The inverse; None where the file is damaged."""
        try:
            manifest, arrays = read_archive(kept)
        except ModelFileError as damaged:
            warnings.warn(f"{damaged} What it held is learned again.", CheckpointWarning, stacklevel=2)
            return None
        with self._checkpointer.reading():
            self.stopping.load_state(manifest["callbacks"], below(arrays, "callbacks/"))
            return SequenceLabeler._from_model(manifest["model"], Unpacker(below(arrays, "model/"), users_own(labeler)))

    def learn_trees(self, parser: DependencyParser, treebank: Treebank) -> None:
        """Train a parser on these sentences."""
        parser.fit(treebank, **self._next())

    def _next(self) -> dict[str, Any]:
        """How the next training keeps checkpoints."""
        self._number += 1
        if self._checkpointer is None:
            return {}
        folder = self._checkpointer.checkpoints.part(f"{self._number:04d}")
        if folder is None:
            return {}
        return {"checkpoint": folder, "checkpoint_every": self._every, "resume": self._resumed}


def _without_state(labeler: SequenceLabeler) -> SequenceLabeler:
    """What predicts of a labeler that has learned, a fraction of what its training holds, and its history."""
    predicting = labeler._predicting()
    predicting.history_ = labeler.history_
    return predicting


def configuration(models: Iterable[tuple[str, SavedEstimator]], own: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a model that is made of others, and theirs, by the names that :meth:`set_params` has for them."""
    theirs = {
        f"{name}__{key}": value
        for name, model in models
        for key, value in model._saved_parameters().items()
        if key not in (*FREE, "random_state")
    }
    return {**own, **theirs}
