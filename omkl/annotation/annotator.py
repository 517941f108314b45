"""Annotator, which predicts tags, morphology, lemmas and trees of words."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from omkl._components import check_n_jobs
from omkl._progress import progress_bar
from omkl.annotation.tagger import COLUMNS, Tagger
from omkl.annotation.training import TrainingSequence
from omkl.data import Treebank
from omkl.estimators.calibration import has_marginals
from omkl.estimators.persistence import SavedEstimator, check_is_fitted, packed_parameters
from omkl.estimators.training import FREE, Run
from omkl.estimators.validation import Number, check_parameters
from omkl.exceptions import DataWarning, InputError
from omkl.features.lexicons import LexiconSource, as_lexicons
from omkl.online.rounds import below, check_callbacks
from omkl.parsing.evaluation import Rule, evaluate_blocks
from omkl.parsing.parser import DependencyParser
from omkl.parsing.sentences import (
    Sentences,
    as_treebank,
    check_sentences,
    check_trees,
    treebanks_of,
    with_notes,
)
from omkl.persistence import Packer, Unpacker
from omkl.sequences.labeler import SequenceLabeler

#: Parts of an annotator, in order.
PARTS = (*COLUMNS, "trees")
#: Parameters that are estimators.
SETTINGS: dict[str, type[SavedEstimator]] = {"tagger": SequenceLabeler, "parser": DependencyParser}
#: Default parameters of labelers. C = 10 instead of 1 improves tags (English, Danish, Vietnamese), features and lemmas
#: (English, Danish) by 0.04 to 0.4 points.
TAGGING: dict[str, Any] = {"epochs": 10, "C": 10.0}
#: Default parameters of the parser. Compared to scoring all arcs, training and parsing are a quarter faster. UAS is 0.2
#: and 0.5 points higher on English (2000 sentences) and Danish, and 0.1 points lower on Vietnamese.
PARSING: dict[str, Any] = {"likely": 0.99}


@dataclass(kw_only=True, eq=False, repr=False)
class Annotator(SavedEstimator):
    """Annotator of words with tags, morphology, lemmas and dependency trees.

    A chain model predicts tags (UPOS, or XPOS if the treebank has no UPOS). Morphology (FEATS, and XPOS besides UPOS)
    is predicted given the tag, lemmas given both, and trees given all of these. As predicted tags have errors,
    morphology and trees are trained on tags predicted by models of other sentences (cross-fitting).

    A tag, lemma or head ``_`` is unknown: training uses the known values of the sentence.

    Parameters
    ----------
    parts : "auto" or sequence of {"upos", "xpos", "feats", "lemmas", "trees"}
        Parts to learn and predict. "auto" selects the parts whose columns the training data has.
    tagger : SequenceLabeler, optional
        An untrained labeler without ``kernels``, with the parameters of all labelers; ``class_weight``, ``cost`` and
        transitions are for the chain of tags only, and ``weighting`` is for tags and lemmas. By default
        ``SequenceLabeler(epochs=10, C=10)``.
    parser : DependencyParser, optional
        An untrained parser; by default ``DependencyParser(likely=0.99)``.
    lexicons : dict of str to path or dict, optional
        Lexicons for tags, morphology and trees, as for :class:`~omkl.SequenceLabeler` and
        :class:`~omkl.DependencyParser`. Without these, ``tagger`` and ``parser`` can have their own.
    folds : int > 1
        Number of folds of the training data for cross-fitting.
    n_jobs : int or None
        Number of threads; None means 1, -1 one for each core. Annotations do not depend on it.
    callbacks : list, optional
        Callbacks for the training of each model, as for :class:`omkl.online.TrainingLoop`. A true return value ends the
        training of the current model.
    verbose : bool
        Show a progress bar.
    random_state : int, RandomState or None
        Replaces ``random_state`` of ``tagger`` and ``parser``. An int gives bitwise reproducible models.

    Attributes
    ----------
    parts_ : list of str
        Learned parts.
    tagger_ : Tagger or None
        Model of tags, morphology and lemmas.
    parser_ : DependencyParser or None
        The parser, for sentences with tags.

    Notes
    -----
    Files of :meth:`save` do not contain training state.

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

    _constraints = {"folds": Number(above=1, integer=True)}

    parts: str | Sequence[str] = field(default="auto", kw_only=False)
    tagger: SequenceLabeler | None = None
    parser: DependencyParser | None = None
    lexicons: Mapping[str, LexiconSource] | None = None
    folds: int = 4
    n_jobs: int | None = None
    callbacks: Any = None
    verbose: bool = False
    random_state: Any = None

    parts_: list[str] = field(init=False)
    tagger_: Tagger | None = field(init=False)
    parser_: DependencyParser | None = field(init=False)

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sentences,
        y: None = None,
        *,
        checkpoint: Any = None,
        checkpoint_every: str | float = "60s",
        resume: bool = False,
    ) -> "Annotator":
        """Train on a treebank.

        Parameters
        ----------
        X : path, list of paths, Treebank, or iterable of Sentence
            Annotated sentences, in CoNLL-U, CoNLL-X or CoNLL-2008.
        y : None
            Ignored, as ``X`` contains all annotations.
        checkpoint, checkpoint_every, resume
            As for :meth:`omkl.SequenceLabeler.fit`. The directory contains trained labelers, and checkpoints of the
            parser. States of callbacks are saved during the training of the parser only.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or a sentence is invalid, or the treebank lacks a column of a requested part; the annotator
            is not changed.
        """
        X = check_sentences(X, y)
        labeler, parser = self._settings()
        if self.lexicons is not None:
            lexicons = as_lexicons(self.lexicons)
            for model in (labeler, parser):
                model.set_params(lexicons=lexicons)
        configuration = self._saved_parameters()
        if checkpoint is not None:
            configuration |= _nested_parameters("tagger", labeler) | _nested_parameters("parser", parser)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        options: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        run = Run(type(self).__name__, configuration, seed, False, **options)
        trainings = TrainingSequence(labeler, check_callbacks(self.callbacks), run, seed, checkpoint_every)
        asked = PARTS if isinstance(self.parts, str) else tuple(self.parts)
        treebank = as_treebank(X, trees="partial" if "trees" in asked else False, single_root=parser.single_root)
        parts = self._parts_in(treebank, asked)
        with_heads = _sentences_with_heads(treebank) if "trees" in parts else None
        trainings.begin(treebank)
        columns, tagger = tuple(name for name in COLUMNS if name in parts), None
        with progress_bar(self.verbose, total=self.folds + 2, unit=" models") as bar:
            if columns:
                n_folds = self.folds if len(parts) > 1 else 0
                tagger, treebank = trainings.fit_tagger(treebank, columns, n_folds, bar)
            if with_heads is not None:
                bar.set_description("trees")
                self._seed_parser(parser, trainings.seed)
                treebank = treebank if with_heads.all() else treebank[with_heads]
                parser.fit(treebank, **trainings.checkpoints_of_parser())
                bar.update()
        self.tagger_, self.parser_ = tagger, parser if "trees" in parts else None
        self.parts_ = list(parts)
        return self

    def _settings(self) -> tuple[SequenceLabeler, DependencyParser]:
        """Validate the parameters; return an untrained labeler and an untrained parser."""
        check_parameters(self, self._constraints)
        check_n_jobs(self.n_jobs)
        named = not isinstance(self.parts, str) and len(self.parts) > 0 and set(self.parts) <= set(PARTS)
        if self.parts != "auto" and not named:
            raise InputError(f"`parts` must be 'auto' or a list of some of {', '.join(PARTS)}, got {self.parts!r}.")
        for name, kind in SETTINGS.items():
            given = self.get_params(deep=False)[name]
            if given is not None and not isinstance(given, kind):
                raise InputError(f"`{name}` must be a {kind.__name__} or None, got {given!r}.")
            if self.lexicons is not None and given is not None and given.lexicons is not None:
                raise InputError(f"Only one of `lexicons` and those of `{name}` can be given, got both.")
        labeler = SequenceLabeler(**TAGGING) if self.tagger is None else clone(self.tagger)
        if labeler.kernels is not None:
            raise InputError("The tagger of an annotator reads words: leave its kernels out.")
        return labeler, DependencyParser(**PARSING) if self.parser is None else clone(self.parser)

    def _parts_in(self, treebank: Treebank, asked: tuple[str, ...]) -> tuple[str, ...]:
        """Return the parts to learn from a treebank, in order."""
        there = [name for name in COLUMNS if treebank.codes(name).any()] + ["trees"] * bool((treebank.heads >= 0).any())
        if not there:
            raise InputError("The training data has no column to learn: give an annotated treebank.")
        missing = [] if isinstance(self.parts, str) else [part for part in asked if part not in there]
        if missing:
            raise InputError(f"The training data has no {missing[0]} to learn: leave them out of parts.")
        return tuple(part for part in PARTS if part in asked and part in there)

    def _seed_parser(self, parser: DependencyParser, seed: int) -> None:
        """Set callbacks and seed of a parser."""
        callbacks = [*(parser.callbacks or ()), *check_callbacks(self.callbacks)]
        parser.set_params(callbacks=callbacks, random_state=seed, verbose=self.verbose)

    # ---- annotating ---------------------------------------------------------------------------------------------

    def annotate(self, X: Sentences, *, confidence: bool = False) -> Treebank:
        """Annotate sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank, Sentence, iterable of Sentence or of lists of words, or Stream
            Columns that the annotator predicts are ignored; all others are kept.
        confidence : bool
            Write probabilities to MISC: ``UposConf=0.987`` for tags (``XposConf`` if the chain is over XPOS),
            ``HeadConf`` for arcs, and ``RelConf`` for relations.

        Returns
        -------
        Treebank
            Iterating over it yields sentences; :func:`omkl.data.write_treebank` writes it to a file.

        Raises
        ------
        omkl.exceptions.InputError
            If ``confidence`` is set, and the annotator is not calibrated; see :meth:`calibrate`.
        """
        check_is_fitted(self)
        check_n_jobs(self.n_jobs)
        for model in (self.parser_, None if self.tagger_ is None else self.tagger_.labeler):
            if model is not None:
                model.n_jobs = self.n_jobs
                if confidence:
                    has_marginals(model, InputError)
        annotated = []
        for block in treebanks_of(X, trees=False):
            if self.tagger_ is not None:
                block = self.tagger_.annotate(block)
                if confidence and self.tagger_.tag is not None:
                    block = with_notes(block, {f"{self.tagger_.tag.capitalize()}Conf": self.tagger_.confidence(block)})
            annotated.append(block if self.parser_ is None else self.parser_.parse(block, confidence=confidence))
        return Treebank.concatenate(annotated)

    def calibrate(self, X: Sentences) -> "Annotator":
        """Calibrate probabilities on held-out sentences.

        Annotations do not change. See :meth:`omkl.SequenceLabeler.calibrate` and
        :meth:`omkl.DependencyParser.calibrate`. Trees are calibrated given the predicted tags. Another ``fit`` removes
        the temperatures.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        self
        """
        check_is_fitted(self)
        gold = Treebank.concatenate(treebanks_of(X, trees=self.parser_ is not None and "partial"))
        if self.tagger_ is not None:
            self.tagger_.calibrate(gold)
        if self.parser_ is not None:
            self.parser_.calibrate(gold if self.tagger_ is None else self.tagger_.annotate(gold))
        return self

    # ---- evaluation and models ----------------------------------------------------------------------------------

    def evaluate(self, X: Sentences, ignore: Rule = None) -> dict[str, Any]:
        """Evaluate annotations of gold words as in the CoNLL 2018 shared task.

        Parameters
        ----------
        X, ignore
            As for :meth:`omkl.DependencyParser.evaluate`.

        Returns
        -------
        dict
            Scores of :func:`omkl.evaluate_treebanks`. Columns that the annotator does not predict are copied from the
            gold sentences, so their scores are 1.
        """
        check_is_fitted(self)
        gold = treebanks_of(X, trees=self.parser_ is not None and "given")
        return evaluate_blocks(((block, self.annotate(block)) for block in gold), ignore)

    def score(self, X: Sentences, y: None = None) -> float:
        """Return the score of the last learned part, predicted from words.

        Parameters
        ----------
        X : as for :meth:`evaluate`
        y : None

        Returns
        -------
        float
            In [0, 1]: the labeled attachment score. Without trees, the fraction of words with correct tags and
            features; with lemmas only, the fraction of words with correct lemmas.
        """
        scores = self.evaluate(check_sentences(X, y))
        if "trees" in self.parts_:
            return scores["uas" if scores["las"] is None else "las"]
        return scores["lemmas" if self.parts_ == ["lemmas"] else "alltags"]

    @property
    def columns_(self) -> tuple[str, ...]:
        """Predicted columns, by their names in :class:`~omkl.data.Sentence`."""
        check_is_fitted(self)
        trees = () if self.parser_ is None else ("heads", "deprels") if self.parser_.labeled else ("heads",)
        return (*(name for name in COLUMNS if name in self.parts_), *trees)

    @property
    def kernel_weights_(self) -> dict[str, dict[str, float]]:
        """Weights of the feature groups of each model, ``weights[name][group]``; see :meth:`models` for names."""
        return {name: model.kernel_weights_ for name, model in self.models().items()}

    def models(self) -> dict[str, Any]:
        """Return the labelers and the parser, by name.

        Returns
        -------
        dict of str to SequenceLabeler or DependencyParser
            ``"upos"``, the chain of tags; ``"xpos+feats of NOUN"`` and ``"lemmas of NOUN"``, for words with this tag;
            and ``"trees"``. Tags with a single label have no model.
        """
        check_is_fitted(self)
        models: dict[str, Any] = {} if self.tagger_ is None else self.tagger_.models()
        return models | ({} if self.parser_ is None else {"trees": self.parser_})

    # ---- model files --------------------------------------------------------------------------------------------

    _plain_attributes = ("parts_",)
    _rounded = SequenceLabeler._rounded

    _predicts_only = True  # no partial_fit

    def _saved_parameters(self) -> dict[str, Any]:
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return {
            **self.get_params(deep=False),
            **dict.fromkeys((*SETTINGS, "callbacks", "lexicons")),
            "random_state": seed,
        }

    def _describe(self, packer: Packer, training: bool) -> dict[str, Any]:
        manifests: dict[str, Any] = {}
        for number, (name, model) in enumerate(self.models().items()):
            own = Packer()
            manifests[name] = model._manifest(own, False, history=" of " not in name)
            packer.arrays.update({f"model{number}/{key}": array for key, array in own.arrays.items()})
        settings = {}
        if self.tagger is not None:
            settings["tagger"] = packed_parameters(self.tagger, packer)
        if self.parser is not None:  # the trained parser has the parameters
            settings["parser"] = {} if self.parser_ is not None else packed_parameters(self.parser, packer)
        tagger = None if self.tagger_ is None else self.tagger_.describe(packer)
        return {"models": manifests, "settings": settings, "tagger": tagger, "lexicons": self.lexicons is not None}

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        self.set_params(
            **{
                name: SETTINGS[name](**SETTINGS[name]._loaded_parameters(packed, unpacker))
                for name, packed in manifest["settings"].items()
            }
        )
        self._settings()  # validates the parameters
        models = {}
        for number, (name, own) in enumerate(manifest["models"].items()):
            kind = SETTINGS["parser" if name == "trees" else "tagger"]
            models[name] = kind._from_model(own, Unpacker(below(unpacker.arrays, f"model{number}/"), unpacker.parts))
        self.parser_, self.tagger_ = models.pop("trees", None), None
        if self.parser is not None and self.parser_ is not None:
            self.parser = clone(self.parser_)
        if manifest["tagger"] is not None:
            self.tagger_ = Tagger.restored(manifest["tagger"], unpacker.arrays, models)
        if manifest["lexicons"]:
            self.lexicons = self.parser_.lexicons if self.tagger_ is None else self.tagger_.lexicons
            if self.parser is not None:
                self.parser.set_params(lexicons=None)
        elif self.tagger is not None and self.tagger_ is not None:
            self.tagger.set_params(lexicons=self.tagger_.lexicons or None)


def _nested_parameters(name: str, model: SavedEstimator) -> dict[str, Any]:
    """Return parameters of a nested model that affect its training, named as for ``set_params``."""
    parameters = model._saved_parameters()
    return {f"{name}__{key}": parameters[key] for key in parameters if key not in (*FREE, "random_state")}


def _sentences_with_heads(treebank: Treebank) -> np.ndarray:
    """Return a mask of the sentences with heads; warn about the number of others."""
    annotated = np.maximum.reduceat(treebank.heads, treebank.offsets[:-1]) >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser will warn
        check_trees(treebank[annotated], partial=True)
    if not annotated.all():
        n, lacking = len(annotated), np.count_nonzero(~annotated)
        message = f"{lacking} of {n} sentences have no heads: trees are learned from the others."
        warnings.warn(message, DataWarning, stacklevel=4)
    return annotated
