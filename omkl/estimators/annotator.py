"""Annotator: from words to tags, morphology, lemmas and trees, all learned from one treebank."""

import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from omkl._components import check_flags, check_n_jobs, check_number
from omkl._progress import progress_bar
from omkl.data import Treebank
from omkl.estimators.annotations import Annotates
from omkl.estimators.base import Run
from omkl.estimators.cross_fitting import cross_fitted
from omkl.estimators.explaining_trees import ExplainsParts
from omkl.estimators.parsing import DependencyParser
from omkl.estimators.saving import SavedEstimator, packed_parameters
from omkl.estimators.sequence import SequenceLabeler
from omkl.estimators.tagging import COLUMNS, StoppedError, Tagger, strings_of
from omkl.estimators.trainings import Stopping, Trainings, configuration
from omkl.estimators.treebanks import as_treebank, check_trees, sentences_of
from omkl.exceptions import DataWarning, InputError
from omkl.online import below
from omkl.persistence import Packer, Unpacker

#: What an annotator can learn, in the order in which it does.
PARTS = (*COLUMNS, "trees")
#: The parameters that are estimators.
SETTINGS: dict[str, type[SavedEstimator]] = {"tagger": SequenceLabeler, "parser": DependencyParser}
#: Settings of the labelers, where no others are given. With C = 10 instead of 1 tags (English, Danish, Vietnamese),
#: features and lemmas (English, Danish) are 0.04 to 0.4 points better.
TAGGING: dict[str, Any] = {"epochs": 10, "C": 10.0}
#: A parser, where no other is given. Beside one that looks at all arcs trees are as good (English, 2000 sentences, and
#: Danish better by 0.2 and 0.5 points attached, Vietnamese worse by 0.1), training and parsing a quarter faster.
PARSING: dict[str, Any] = {"first": "small", "likely": 0.99}
#: What of the settings of the labelers is about labels and their order, and so for the chain of tags alone.
OF_WORDS = {
    "transitions": None, "allowed_transitions": None, "transitions_by_position": False, "order": 1, "cost": None,
    "class_weight": None,
}  # fmt: skip


class Annotator(Annotates, ExplainsParts, SavedEstimator):
    """Tags, morphology, lemmas and dependency trees for sentences of words.

    A chain labels words with tags (UPOS, or XPOS where the treebank has no UPOS); what is left of XPOS and FEATS is
    told given the tag, lemmas given both, and a parser works on all of these. Morphology and trees are learned beside
    tags that models give which have not seen the sentence, by cross-fitting, so that they know the mistakes that they
    will meet.

    A tag, lemma or head that is not there, ``_`` in a file, is not annotated: what stands beside it is learned all the
    same.

    Parameters
    ----------
    parts : "auto" or sequence of {"upos", "xpos", "feats", "lemmas", "trees"}
        What is learned and written; "auto" takes those whose columns the training data has.
    tagger : SequenceLabeler, optional
        An untrained labeler whose settings those of tags, morphology and lemmas take; they read words and features made
        of them, so it has no ``kernels``. Its ``class_weight``, ``cost`` and what it says of transitions are for the
        chain of tags alone. By default ``SequenceLabeler(epochs=10, C=10)``.
    parser : DependencyParser, optional
        An untrained parser to take the settings of. By default it looks at the arcs that a small one finds likely:
        ``DependencyParser(first="small", likely=0.99)``.
    folds : int > 1
        Parts of the training data, each of which is tagged by a model of the others, for morphology and trees to learn
        from.
    n_jobs : int or None
        Threads that tag and parse, each some of the sentences; None is one, -1 one for each core. What is written is
        the same, bit for bit.
    callbacks : list, optional
        Called as those of :class:`omkl.online.TrainingLoop` while each of the models is trained. One that returns true
        ends all training, and what was learned is kept: the chain of tags and the parser as they are by then,
        morphology and lemmas where they were learned to the end; in place of a tagger that lacks parts the one of the
        last fold, which has learned from the others. ``parts_`` tells which there are.
    verbose : bool
        Show a progress bar.
    random_state : int, RandomState or None
        The same seed gives the same model, bit for bit. It takes the place of that of ``tagger`` and ``parser``.

    A model file, of :meth:`save`, holds what predicts and the history of tags and of trees, whether or not it is asked
    for more.

    Attributes
    ----------
    parts_ : list of str
        What is learned and written.
    tagger_ : Tagger or None
        Tags, morphology and lemmas by themselves.
    parser_ : DependencyParser or None
        The parser by itself, for sentences that have tags.

    Examples
    --------
    >>> from omkl.data import Sentence
    >>> dogs = [Sentence(forms=[noun, "bark"], lemmas=[noun.rstrip("s"), "bark"], upos=["NOUN", "VERB"], heads=[2, 0],
    ...                  deprels=["nsubj", "root"]) for noun in ("dogs", "cats", "cows", "frogs")]
    >>> annotator = Annotator(random_state=0).fit(dogs)
    >>> sentence = annotator.annotate([Sentence(forms=["dogs", "bark"])])[0]
    >>> sentence.upos, sentence.lemmas, sentence.heads
    (['NOUN', 'VERB'], ['dog', 'bark'], [2, 0])
    """

    def __init__(
        self, parts: Any = "auto", *, tagger: Any = None, parser: Any = None, folds: int = 4,
        n_jobs: int | None = None, callbacks: Any = None, verbose: bool = False, random_state: Any = None,
    ) -> None:  # fmt: skip
        self.parts = parts
        self.tagger = tagger
        self.parser = parser
        self.folds = folds
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, *, checkpoint: Any = None, checkpoint_every: str | float = "60s",
        resume: bool = False,
    ) -> "Annotator":  # fmt: skip
        """Learn from a treebank.

        Parameters
        ----------
        X : path, list of paths, Treebank, or iterable of Sentence
            Annotated sentences, in CoNLL-U, CoNLL-X or CoNLL-2008.
        y : None
            All that is learned is in ``X``.
        checkpoint, checkpoint_every, resume
            As for :meth:`omkl.SequenceLabeler.fit`: the directory gets what each of the models has learned as soon as
            it is trained, and checkpoints of the one that is being trained.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or a sentence is not as described, the treebank lacks a column of a part that was asked for,
            or a callback ends training before there is a part to keep; the annotator stays what it was.
        """
        running = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        X = sentences_of(X, y)
        check_flags(self)
        check_number("folds", self.folds, above=1, integer=True)
        check_n_jobs(self.n_jobs)
        stopping = Stopping(self.callbacks)
        labeler, parser, seed = self._settings(stopping)
        models = [] if checkpoint is None else [("tagger", labeler), ("parser", parser)]
        settings = configuration(models, self._saved_parameters())
        with Run(type(self).__name__, settings, seed, False, **running) as run:
            trainings = Trainings(stopping, run, seed, checkpoint_every)
            return self._learn(X, trainings, labeler, parser)

    def _learn(self, X: Any, trainings: Trainings, labeler: SequenceLabeler, parser: DependencyParser) -> "Annotator":
        """Learn from a treebank as ``fit`` does, with models that have all but a seed."""
        stopping = trainings.stopping
        self._give_seed(trainings.seed, labeler, parser)
        learn = partial(_learn, trainings, labeler)
        asked = PARTS if isinstance(self.parts, str) else tuple(self.parts)
        wants_trees = "partial" if "trees" in asked else False
        treebank = as_treebank(X, trees=wants_trees, single_root=parser.single_root)
        parts = self._parts_in(treebank, asked)
        with_trees = self._with_trees(treebank) if "trees" in parts else None
        trainings.begin(treebank)
        columns = tuple(name for name in COLUMNS if name in parts)
        tagger, crossed = None, treebank
        with progress_bar(self.verbose, total=self.folds + 2, unit=" models") as bar:
            if len(columns) > 1 or (columns and "trees" in parts):
                tagger, crossed = cross_fitted(
                    lambda others: Tagger(columns).fit(others, learn), treebank, self.folds, trainings.seed, bar,
                    stopping,
                )  # fmt: skip
            if columns and not stopping.ended:
                bar.set_description("tags, morphology and lemmas")
                found = Tagger(columns)
                found.fit(treebank, learn, None if found.tag is None else strings_of(crossed, found.tag))
                tagger = found if tagger is None or found.columns == columns else tagger
                bar.update()
            if with_trees is not None and not stopping.ended:
                bar.set_description("trees")
                with suppress(StoppedError):
                    trainings.learn_trees(parser, crossed if with_trees.all() else crossed[with_trees])
                bar.update()
        learned = (() if tagger is None else tagger.columns) + (("trees",) if hasattr(parser, "model_") else ())
        if not learned:
            raise InputError("A callback ended training before there was a part to keep: end it later.")
        self.tagger_, self.parser_ = tagger, parser if "trees" in learned else None
        self.parts_ = [part for part in parts if part in learned]
        return self

    def _settings(self, stopping: Stopping | None = None) -> tuple[SequenceLabeler, DependencyParser, int]:
        """An untrained labeler and an untrained parser, and the seed that both are to have."""
        if not isinstance(self.parts, Iterable) or (isinstance(self.parts, str) and self.parts != "auto"):
            raise InputError(f'parts must be "auto" or a list of some of {", ".join(PARTS)}, not {self.parts!r}.')
        for name, kind in SETTINGS.items():
            if getattr(self, name) is not None and not isinstance(getattr(self, name), kind):
                raise InputError(f"{name} must be a {kind.__name__} or None, not {getattr(self, name)!r}.")
        labeler = SequenceLabeler(**TAGGING) if self.tagger is None else clone(self.tagger)
        for name in ("kernels", "templates"):
            if getattr(labeler, name) is not None:
                raise InputError(f"The tagger of an annotator reads words, which {name} do not: leave its {name} out.")
        try:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        except ValueError:
            raise InputError(
                f"random_state must be None, an integer or a RandomState, not {self.random_state!r}."
            ) from None
        parser = DependencyParser(**PARSING) if self.parser is None else clone(self.parser)
        if stopping is not None:
            for model in (labeler, parser):
                model.set_params(callbacks=[*(model.callbacks or ()), stopping])
        return labeler, parser, seed

    def _give_seed(self, seed: int, labeler: SequenceLabeler, parser: DependencyParser) -> None:
        labeler.set_params(random_state=seed)
        seeded: Any = parser
        while isinstance(seeded, DependencyParser):  # a stacked parser has another one before it
            seeded.set_params(random_state=seed, verbose=self.verbose)
            seeded = seeded.first

    def _parts_in(self, treebank: Treebank, asked: tuple[str, ...]) -> tuple[str, ...]:
        """The parts to learn from a treebank, in their order."""
        unknown = [part for part in asked if part not in PARTS]
        if unknown or not asked:
            raise InputError(f'parts must be "auto" or a list of some of {", ".join(PARTS)}, not {self.parts!r}.')
        if not len(treebank):
            raise InputError("There is no sentence: give at least one.")
        there = {name: bool(getattr(treebank, name).any()) for name in COLUMNS}
        there["trees"] = bool((treebank.heads >= 0).any())
        if not any(there.values()):
            raise InputError("The training data has words alone, and no column to learn: give an annotated treebank.")
        missing = [] if isinstance(self.parts, str) else [part for part in asked if not there[part]]
        if missing:
            raise InputError(f"The training data has no {missing[0]} to learn: leave them out of parts.")
        return tuple(part for part in PARTS if part in asked and there[part])

    def _with_trees(self, treebank: Treebank) -> np.ndarray:
        """Which sentences the parser learns from, bool (n_sentences,); raises now what it would raise at the end."""
        annotated = np.maximum.reduceat(treebank.heads, treebank.offsets[:-1]) >= 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the parser will warn
            check_trees(treebank[annotated], partial=True)
        if not annotated.all():
            n, lacking = len(annotated), np.count_nonzero(~annotated)
            message = f"{lacking} of {n} sentences have no heads: trees are learned from the others."
            warnings.warn(message, DataWarning, stacklevel=4)
        return annotated

    # ---- model files --------------------------------------------------------------------------------------------

    _plain_attributes = ("parts_",)
    _rounded = SequenceLabeler._rounded

    _predicts_only = True  # it is trained at once

    def _saved_parameters(self) -> dict[str, Any]:
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return {**self.get_params(deep=False), **dict.fromkeys((*SETTINGS, "callbacks")), "random_state": seed}

    def _describe_prediction(self, packer: Packer) -> dict[str, Any]:
        manifests: dict[str, Any] = {}
        for number, (name, model) in enumerate(self.models().items()):
            own = Packer()
            manifests[name] = model._manifest(own, False, history=" of " not in name)
            packer.arrays.update({f"model{number}/{key}": array for key, array in own.arrays.items()})
        given = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        settings = {name: packed_parameters(estimator, packer) for name, estimator in given.items()}
        if "parser" in given and self.parser_ is not None:
            settings["parser"] = {}  # the model has all of them, its lexicons and the parser that it corrects as well
        tagger = None if self.tagger_ is None else self.tagger_.describe(packer)
        return {"models": manifests, "settings": settings, "tagger": tagger}

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        for name, packed in manifest["settings"].items():
            setattr(self, name, SETTINGS[name](**SETTINGS[name]._loaded_parameters(packed, unpacker)))
        self._settings()  # raises what a fit would
        models = {}
        for number, (name, own) in enumerate(manifest["models"].items()):
            kind = SETTINGS["parser" if name == "trees" else "tagger"]
            models[name] = kind._from_model(own, Unpacker(below(unpacker.arrays, f"model{number}/"), unpacker.parts))
        self.parser_ = models.pop("trees", None)
        if self.parser is not None and self.parser_ is not None:
            self.parser = clone(self.parser_)
        self.tagger_ = None
        if manifest["tagger"] is not None:
            self.tagger_ = Tagger(tuple(manifest["tagger"]["columns"]))
            self.tagger_.restore(manifest["tagger"], unpacker.arrays, models)


def _learn(trainings: Trainings, labeler: SequenceLabeler, X: list, y: list, chain: bool) -> SequenceLabeler:
    """A labeler with the settings of this one, of words by themselves unless it is for a chain, that has learned."""
    return trainings.learn_labels(clone(labeler).set_params(**({} if chain else OF_WORDS)), X, y)
