"""Resumable training of several models, and columns predicted by models that have not seen the sentence."""

import shutil
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from tqdm import tqdm

from omkl._files import read_archive
from omkl.annotation.tagger import StoppedError, Tagger
from omkl.data import Treebank
from omkl.data.treebank.layouts import FIELDS
from omkl.estimators.persistence import fingerprint, users_own
from omkl.estimators.training import Run
from omkl.exceptions import CheckpointWarning, InputError, ModelFileError
from omkl.online.rounds import below
from omkl.online.trainer import OnlineTrainer
from omkl.online.training_loop import check_callbacks, hooks, load_states, states_of
from omkl.parsing.parser import DependencyParser
from omkl.parsing.sentences import strings_of, with_strings
from omkl.persistence import Packer, Unpacker
from omkl.sequences.labeler import SequenceLabeler


class SharedCallbacks:
    """One callback for several trainings: where one of its callbacks ends a training, all trainings end.

    Parameters
    ----------
    callbacks : list or None
        As those of :class:`omkl.online.TrainingLoop`.

    Attributes
    ----------
    ended : bool
        Set when a callback ends training.
    """

    def __init__(self, callbacks: Iterable | None) -> None:
        self.callbacks = check_callbacks(callbacks)
        self.ended = False

    def __deepcopy__(self, memo: dict) -> "SharedCallbacks":
        return self  # shared by the clones of an estimator

    def on_start(self, trainer: OnlineTrainer, source: object) -> None:
        """Begin a training; raises :class:`StoppedError` where training has ended."""
        if not self.ended and self._call("on_start", trainer, source):
            self.on_end(trainer)
        if self.ended:
            raise StoppedError

    def on_round(self, trainer: OnlineTrainer, step: object) -> bool:
        """Pass on a round."""
        return self._call("on_round", trainer, step)

    def on_block(self, trainer: OnlineTrainer, block: object) -> bool:
        """Pass on a block."""
        return self._call("on_block", trainer, block)

    def on_epoch(self, trainer: OnlineTrainer, record: dict) -> bool:
        """Pass on an epoch, also to plain functions."""
        return self._call("on_epoch", trainer, record)

    def on_end(self, trainer: OnlineTrainer) -> None:
        """Pass on the end of a training."""
        for tell in hooks(self.callbacks, "on_end"):
            tell(trainer)

    def _call(self, name: str, *arguments: object) -> bool:
        """Call all callbacks; returns whether training has ended."""
        self.ended |= any([tell(*arguments) for tell in hooks(self.callbacks, name)])
        return self.ended

    def state(self) -> tuple[list, dict[str, np.ndarray]]:
        """``(JSON values, arrays)`` of the callbacks that take part in checkpoints."""
        return states_of(self.callbacks)

    def load_state(self, values: list, arrays: dict[str, np.ndarray]) -> None:
        """The inverse of :meth:`state`."""
        load_states(self.callbacks, values, arrays)


class TrainingSequence:
    """Resumable training of several models, one after the other.

    With checkpoints, the directory holds each trained labeler in a file named by its number, and the checkpoints of the
    current training in a directory of that name. A resumed run reads the former, and goes on from the latter.

    Parameters
    ----------
    callbacks : SharedCallbacks
    run : Run
        Holds the checkpoints, and compares parameters and data.
    seed : int
        Seed of all models.
    checkpoint_every : str or float
        Time between two checkpoints of a training; see :class:`~omkl.online.checkpointing.Checkpoints`.

    Attributes
    ----------
    seed : int
        Of a resumed run the one that it began with.
    """

    def __init__(self, callbacks: SharedCallbacks, run: Run, seed: int, checkpoint_every: str | float) -> None:
        self.callbacks = callbacks
        self.seed = seed
        self._checkpointer: Any = run.checkpointer
        self._every = checkpoint_every
        self._number = 0
        earlier = None if run.checkpointer is None else run.checkpointer.earlier("trainings")
        self._resumed = earlier is not None
        if earlier is not None:
            with run.checkpointer.reading():
                self.seed = int(earlier[0]["seed"])

    def begin(self, treebank: Treebank) -> None:
        """Note the data; raises an InputError where a resumed run has learned from others."""
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

    def fit_labeler(self, labeler: SequenceLabeler, X: list, y: list) -> SequenceLabeler:
        """Train a labeler, or read the one that an earlier run has trained; it keeps no training state."""
        options = self._next()
        if self._checkpointer is None:
            return _predicting(labeler.fit(X, y))
        kept = self._checkpointer.checkpoints.directory / f"{self._number:04d}.npz"
        learned = self._read(kept, labeler) if self._resumed and kept.exists() else None
        if learned is None:
            learned = _predicting(labeler.fit(X, y, **options))
            if self.callbacks.ended:  # before its time
                return learned
            self._write(kept, learned)
        if kept.exists():
            shutil.rmtree(kept.with_suffix(""), ignore_errors=True)
        return learned

    def fit_parser(self, parser: DependencyParser, treebank: Treebank) -> None:
        """Train a parser in place."""
        parser.fit(treebank, **self._next())

    def _write(self, path: Path, learned: SequenceLabeler) -> None:
        """Write a trained labeler, and the states of callbacks at its end."""
        packer = Packer()
        manifest = {"class": "Training", "model": learned._manifest(packer, False, history=True)}
        manifest["callbacks"], arrays = self.callbacks.state()
        arrays = {f"callbacks/{name}": array for name, array in arrays.items()}
        arrays |= {f"model/{name}": array for name, array in packer.arrays.items()}
        self._checkpointer.checkpoints.keep(path.name, manifest, arrays)

    def _read(self, path: Path, labeler: SequenceLabeler) -> SequenceLabeler | None:
        """The inverse; None where the file is damaged."""
        try:
            manifest, arrays = read_archive(path)
        except ModelFileError as damaged:
            warnings.warn(f"{damaged} Its model is trained again.", CheckpointWarning, stacklevel=2)
            return None
        with self._checkpointer.reading():
            self.callbacks.load_state(manifest["callbacks"], below(arrays, "callbacks/"))
            return SequenceLabeler._from_model(manifest["model"], Unpacker(below(arrays, "model/"), users_own(labeler)))

    def _next(self) -> dict[str, Any]:
        """Options of the next training for its checkpoints."""
        self._number += 1
        folder = None if self._checkpointer is None else self._checkpointer.checkpoints.part(f"{self._number:04d}")
        if folder is None:
            return {}
        return {"checkpoint": folder, "checkpoint_every": self._every, "resume": self._resumed}


def _predicting(labeler: SequenceLabeler) -> SequenceLabeler:
    """A copy of a labeler that only predicts, with its history."""
    predicting = labeler._predicting()
    predicting.history_ = labeler.history_
    return predicting


def cross_fitted(
    fit: Callable[[Treebank], Tagger],
    treebank: Treebank,
    n_folds: int,
    trainings: TrainingSequence,
    bar: tqdm,
) -> tuple[Tagger, Treebank]:
    """Predict the columns of a treebank by taggers that have not seen the sentence.

    Parameters
    ----------
    fit : callable
        ``fit(treebank)`` is a trained tagger.
    treebank : Treebank
    n_folds : int
    trainings : TrainingSequence
    bar : tqdm
        Progress over the folds.

    Returns
    -------
    tagger : Tagger
        The last one that has learned all columns.
    treebank : Treebank
        With the predicted columns; as it was, where training was ended.
    """
    if len(treebank) < n_folds:
        raise InputError(f"folds={n_folds}, but there are {len(treebank)} sentences: set fewer folds.")
    found: dict[str, np.ndarray] = {}
    last: Tagger | None = None
    sentences = np.repeat(np.arange(len(treebank)), treebank.lengths)
    folds = KFold(n_folds, shuffle=True, random_state=trainings.seed).split(np.arange(len(treebank)))
    for number, (others, own) in enumerate(folds, 1):
        bar.set_description(f"fold {number} of {n_folds}")
        tagger = fit(treebank[others])
        if trainings.callbacks.ended:
            return last or tagger, treebank
        annotated, words = tagger.annotate(treebank[own]), np.isin(sentences, own)
        for name in tagger.columns:
            column = found.setdefault(name, np.empty(treebank.n_words, dtype=object))
            column[words] = strings_of(annotated, name)
        last = tagger
        bar.update()
    for name, column in found.items():
        treebank = with_strings(treebank, name, column.tolist())
    assert last is not None
    return last, treebank
