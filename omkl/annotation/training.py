"""Training of the models of an annotator, with callbacks, checkpoints and cross-fitting."""

import warnings
from typing import Any

import numpy as np
from tqdm import tqdm

from omkl._components import warn_caller
from omkl.annotation.raw_text import NO_TEXT, has_text
from omkl.annotation.tagger import COLUMNS, KEYS, Tagger
from omkl.data import Treebank
from omkl.data.treebank.layouts import FIELDS
from omkl.estimators.persistence import load, parts_in_parameters
from omkl.estimators.training import Run
from omkl.exceptions import CheckpointWarning, DataWarning, InputError, ModelFileError
from omkl.features.lexicons import as_lexicons, pack_lexicons
from omkl.parsing.sentences import check_trees, facts_of, strings_of
from omkl.sequences.labeler import SequenceLabeler

#: Parts of an annotator, in order.
PARTS = ("tokens", *COLUMNS, "trees")
#: Parameters of the chain that labelers without transitions do not share.
WITHOUT_TRANSITIONS: dict[str, Any] = dict.fromkeys(
    ("transitions", "cost", "class_weight", "lexicons")
)


class TrainingSequence:
    """Resumable training of several models, one after the other.

    With checkpoints, the directory contains each trained labeler in a numbered file, and a
    subdirectory with the checkpoints of the parser. A resumed run loads these labelers, and
    continues from the parser's checkpoint.

    Parameters
    ----------
    labeler : SequenceLabeler
        Untrained labeler with the parameters of all labelers.
    callbacks : list
        Callbacks for each model.
    run : Run
        Run with the checkpoints, which compare parameters and data of a resumed run.
    seed : int
        Seed of all models.
    checkpoint_every : str or float
        Interval between checkpoints of the parser; see
        :class:`~omkl.online.checkpointing.Checkpoints`.

    Attributes
    ----------
    seed : int
        Seed of all models. A resumed run keeps the seed of the interrupted run.
    """

    def __init__(
        self,
        labeler: SequenceLabeler,
        callbacks: list,
        run: Run,
        seed: int,
        checkpoint_every: str | float,
    ) -> None:
        self.callbacks = callbacks
        self._labeler = labeler
        self._checkpoint_every = checkpoint_every
        self._checkpoints = run.checkpoints
        self._lexicons = as_lexicons(labeler.lexicons, KEYS)
        labeler.set_params(lexicons=self._lexicons or None)  # files are read once
        self._number = 0
        self.seed = seed
        earlier = None
        if run.checkpoints is not None:
            earlier = run.checkpoints.earlier("trainings")
        self._resumed = earlier is not None
        if earlier is not None:
            values, _ = earlier
            self.seed = int(values["seed"])

    def begin(self, treebank: Treebank) -> None:
        """Register the data; raises an InputError if a resumed run had other data."""
        if self._checkpoints is None:
            return
        arrays = (treebank.heads, *pack_lexicons(self._lexicons).values())
        self._checkpoints.check_data(facts_of(treebank, FIELDS, arrays))
        if not self._resumed:
            self._checkpoints.keep("trainings", {"seed": self.seed}, {})
            self._checkpoints.write()

    def fit_labeler(
        self, X: list, y: list, linked: bool = False, weighting: str | None = None
    ) -> SequenceLabeler:
        """Train a labeler, or load it if a resumed run has trained it; None is an unknown label.

        ``linked`` adds transitions, and ``weighting`` replaces that of the parameters.
        """
        from sklearn.base import clone

        labeler = clone(self._labeler)
        labeler.set_params(
            random_state=self.seed,
            weighting=weighting or labeler.weighting,
            callbacks=[*(labeler.callbacks or ()), *self.callbacks],
        )
        if not linked:
            labeler.set_params(**WITHOUT_TRANSITIONS)
        self._number += 1
        checkpoints = self._checkpoints
        if checkpoints is None:
            return _without_training_state(labeler.fit(X, y))
        path = checkpoints.directory / f"{self._number:04d}.npz"
        if self._resumed and path.exists():
            try:
                return _without_training_state(load(path, parts_in_parameters(labeler)))
            except ModelFileError as error:
                warnings.warn(
                    f"{error} Its model is trained again.", CheckpointWarning, stacklevel=2
                )
        labeler.fit(X, y)
        with checkpoints.writing():
            labeler.save(path)
        return _without_training_state(labeler)

    def fit_tagger(
        self, treebank: Treebank, columns: tuple[str, ...], n_folds: int, bar: tqdm
    ) -> tuple[Tagger, Treebank]:
        """Train a tagger, and predict columns by cross-fitting for the training of later models.

        Parameters
        ----------
        treebank : Treebank
        columns : tuple of str
            Columns to learn.
        n_folds : int
            Number of folds, each annotated by a tagger trained on the others; 0 for no
            cross-fitting.
        bar : tqdm
            Progress bar over the folds and the tagger.

        Returns
        -------
        tagger : Tagger
        treebank : Treebank
            With cross-fitted columns.
        """
        from sklearn.model_selection import KFold

        if len(treebank) < n_folds:
            raise InputError(
                f"folds={n_folds}, but there are {len(treebank)} sentences: set fewer folds."
            )
        cross_fitted = treebank
        if n_folds:
            splits = KFold(n_folds, shuffle=True, random_state=self.seed).split(treebank.lengths)
            cross_fitted = self._cross_fit(treebank, columns, list(splits), bar)
        bar.set_description("tags, morphology and lemmas")
        tagger = Tagger(columns, self._lexicons)
        tags = None if tagger.tag is None else strings_of(cross_fitted, tagger.tag)
        tagger.fit(treebank, self.fit_labeler, tags)
        bar.update()
        return tagger, cross_fitted

    def _cross_fit(
        self,
        treebank: Treebank,
        columns: tuple[str, ...],
        splits: list[tuple[np.ndarray, np.ndarray]],
        bar: tqdm,
    ) -> Treebank:
        """Replace columns by predictions of taggers that were trained on other sentences."""
        predictions = {name: np.empty(treebank.n_words, dtype=object) for name in columns}
        sentences_of_words = np.repeat(np.arange(len(treebank)), treebank.lengths)
        for number, (others, fold) in enumerate(splits, 1):
            bar.set_description(f"fold {number} of {len(splits)}")
            tagger = Tagger(columns, self._lexicons).fit(treebank[others], self.fit_labeler)
            annotated = tagger.annotate(treebank[fold])
            words = np.isin(sentences_of_words, fold)
            for name, column in predictions.items():
                column[words] = strings_of(annotated, name)
            bar.update()
        for name, column in predictions.items():
            treebank = treebank.with_strings(name, column.tolist())
        return treebank

    def checkpoint_options(self, name: str) -> dict[str, Any]:
        """Return the options of ``fit`` of a model with its checkpoints in a subdirectory."""
        if self._checkpoints is None:
            return {}
        return {
            "checkpoint": self._checkpoints.part(name),
            "checkpoint_every": self._checkpoint_every,
            "resume": self._resumed,
        }


def _without_training_state(labeler: SequenceLabeler) -> SequenceLabeler:
    """Return a copy of a labeler without training state, but with its history."""
    copy = labeler._predicting()
    copy.history_ = labeler.history_
    return copy


def parts_to_learn(
    treebank: Treebank, requested: tuple[str, ...], all_needed: bool
) -> tuple[str, ...]:
    """Return the parts to learn from a treebank, in order."""
    present = {name for name in COLUMNS if treebank.codes(name).any()}
    if has_text(treebank):
        present.add("tokens")
    if (treebank.heads >= 0).any():
        present.add("trees")
    if not present:
        raise InputError("The training data has no column to learn: give an annotated treebank.")
    missing = [part for part in requested if part not in present]
    if "tokens" in missing and all_needed:
        raise InputError(f"The training data has {NO_TEXT}.")
    if missing and all_needed:
        raise InputError(
            f"The training data has no {missing[0]} to learn: leave them out of parts."
        )
    return tuple(part for part in PARTS if part in requested and part in present)


def sentences_with_heads(treebank: Treebank) -> np.ndarray:
    """Return a mask of the sentences with heads; warn about the number of others."""
    have_heads = np.maximum.reduceat(treebank.heads, treebank.offsets[:-1]) >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser will warn
        check_trees(treebank[have_heads], partial=True)
    if not have_heads.all():
        n_others = np.count_nonzero(~have_heads)
        warn_caller(
            f"{n_others} of {len(treebank)} sentences have no heads: "
            "trees are learned from the others.",
            DataWarning,
        )
    return have_heads
