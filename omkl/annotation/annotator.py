"""Annotator, which splits raw text to words, and predicts their tags, lemmas and trees."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np

from omkl._components import as_random_state, check_n_jobs
from omkl._progress import progress_bar
from omkl.annotation import training
from omkl.annotation.raw_text import NO_TEXT, text_of
from omkl.annotation.tagger import COLUMNS, Tagger, is_for_some_words
from omkl.annotation.tokenizer import RULES, Tokenizer
from omkl.annotation.training import PARTS, TrainingSequence
from omkl.data import Stream, Treebank
from omkl.estimators.calibration import has_probabilities
from omkl.estimators.persistence import SavedEstimator, check_is_fitted, packed_parameters
from omkl.estimators.training import FREE, Run
from omkl.estimators.validation import Number, check_parameters
from omkl.exceptions import InputError
from omkl.features.lexicons import Lexicons, as_lexicons
from omkl.online.rounds import below, check_callbacks
from omkl.parsing.decoding import TreeDecoder
from omkl.parsing.evaluation import Rule, evaluate_blocks
from omkl.parsing.options import TreeSearch
from omkl.parsing.parser import DependencyParser
from omkl.parsing.sentences import Sentences, as_treebank, check_sentences, treebanks_of, with_notes
from omkl.persistence import Manifest, Packer, Unpacker
from omkl.sequences.labeler import SequenceLabeler

#: Parameters that are estimators.
SETTINGS: dict[str, Any] = {"tagger": SequenceLabeler, "parser": DependencyParser}
#: Default parameters of labelers. C = 10 instead of 1 improves tags (English, Danish, Vietnamese),
#: features and lemmas (English, Danish) by 0.04 to 0.4 points.
TAGGING: dict[str, Any] = {"loss": "hinge", "epochs": 10, "C": 10.0}
#: Default parameters of the parser. Compared to scoring all arcs, training and parsing are a
#: quarter faster. UAS is 0.2 and 0.5 points higher on English (2000 sentences) and Danish, and 0.1
#: points lower on Vietnamese.
PARSING: dict[str, Any] = {"search": TreeSearch(likely=0.99)}


@dataclass(kw_only=True, eq=False, repr=False)
class Annotator(SavedEstimator):
    """Annotator of raw text or words with tags, morphology, lemmas and dependency trees.

    Sentences, tokens and words of raw text are learned from CoNLL-U with comments ``# text`` or
    SpaceAfter=No. A chain model predicts tags (UPOS, or XPOS if the treebank has no UPOS).
    Morphology (FEATS, and XPOS besides UPOS) is predicted given the tag, lemmas given both, and
    trees given all of these. As predicted tags have errors, morphology and trees are trained on
    tags predicted by models of other sentences (cross-fitting).

    A tag, lemma or head ``_`` is unknown: training uses the known values of the sentence. Files of
    :meth:`save` do not contain training state.

    Parameters
    ----------
    parts : "auto" or sequence of {"tokens", "upos", "xpos", "feats", "lemmas", "trees"}
        Parts to learn and predict. "auto" selects the parts that the training data has: columns,
        and raw text.
    tagger : SequenceLabeler, optional
        An untrained labeler without ``kernels``, with the parameters of all labelers;
        ``class_weight``, ``cost`` and transitions are for the chain of tags only, and ``weighting``
        is for tags and lemmas. By default ``SequenceLabeler(loss="hinge", epochs=10, C=10)``.
    parser : DependencyParser, optional
        An untrained parser; by default ``DependencyParser(likely=0.99)``.
    lexicons : dict of str to path or dict, optional
        Lexicons for tags, morphology and trees, as for :class:`~omkl.SequenceLabeler` and
        :class:`~omkl.DependencyParser`. Without these, ``tagger`` and ``parser`` can have their
        own.
    folds : int > 1
        Number of folds of the training data for cross-fitting.
    n_jobs : int or None
        Number of threads; None means 1, -1 one for each core. Annotations do not depend on it.
    callbacks : list, optional
        Callbacks for the training of each model, as for :class:`omkl.online.TrainingLoop`. A true
        return value ends the training of the current model.
    verbose : bool
        Show a progress bar.
    random_state : int, Generator, RandomState or None
        Replaces ``random_state`` of ``tagger`` and ``parser``. An int gives bitwise reproducible
        models.

    Attributes
    ----------
    parts_ : list of str
        Learned parts.
    tokenizer_ : Tokenizer or None
        Model of tokens and sentences.
    tagger_ : Tagger or None
        Model of tags, morphology and lemmas.
    parser_ : DependencyParser or None
        The parser, for sentences with tags.

    Examples
    --------
    >>> from omkl.data import Sentence
    >>> animals = []
    >>> for noun in ("dogs", "cats", "cows", "frogs"):
    ...     sentence = Sentence(
    ...         forms=[noun, "bark"],
    ...         lemmas=[noun.rstrip("s"), "bark"],
    ...         upos=["NOUN", "VERB"],
    ...         heads=[2, 0],
    ...         deprels=["nsubj", "root"],
    ...     )
    ...     animals.append(sentence)
    >>> annotator = Annotator(random_state=0).fit(animals)
    >>> sentence = annotator.annotate([Sentence(forms=["dogs", "bark"])])[0]
    >>> sentence.upos, sentence.lemmas, sentence.heads
    (['NOUN', 'VERB'], ['dog', 'bark'], [2, 0])
    """

    _constraints = {"folds": Number(above=1, integer=True)}

    parts: str | Sequence[str] = field(default="auto", kw_only=False)
    tagger: SequenceLabeler | None = None
    parser: DependencyParser | None = None
    lexicons: Lexicons = None
    folds: int = 4
    n_jobs: int | None = None
    callbacks: Any = None
    verbose: bool = False
    random_state: Any = None

    parts_: list[str] = field(init=False)
    tokenizer_: Tokenizer | None = field(init=False)
    tagger_: Tagger | None = field(init=False)
    parser_: DependencyParser | None = field(init=False)

    # ---- training --------------------------------------------------------------------------------

    def fit(
        self,
        X: Sentences,
        y: None = None,
        *,
        checkpoint: str | PathLike | None = None,
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
            As for :meth:`omkl.SequenceLabeler.fit`. The directory contains trained labelers, and
            checkpoints of the parser. States of callbacks are saved during the training of the
            parser only.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or a sentence is invalid, or the treebank lacks a column or the raw text
            of a requested part; the annotator is not changed.
        """
        X = check_sentences(X, y)
        labeler, parser = self._untrained_models()
        if self.lexicons is not None:
            lexicons = as_lexicons(self.lexicons)
            labeler.set_params(lexicons=lexicons)
            parser.set_params(lexicons=lexicons)
        configuration = self._saved_parameters()
        if checkpoint is not None:
            configuration |= _prefixed_parameters("tagger", labeler)
            configuration |= _prefixed_parameters("parser", parser)
        seed = int(as_random_state(self.random_state).randint(2**31 - 1))
        run = Run(
            type(self).__name__,
            configuration,
            seed,
            verbose=False,
            checkpoint=checkpoint,
            checkpoint_every=checkpoint_every,
            resume=resume,
        )
        callbacks = check_callbacks(self.callbacks)
        trainings = TrainingSequence(labeler, callbacks, run, seed, checkpoint_every)
        requested = PARTS if self.parts == "auto" else tuple(self.parts)
        trees = "partial" if "trees" in requested else False
        treebank = as_treebank(X, trees, parser.trees.single_root, keep_text=True)
        parts = training.parts_to_learn(treebank, requested, self.parts != "auto")
        have_heads = training.sentences_with_heads(treebank) if "trees" in parts else None
        trainings.begin(treebank)
        self._train(trainings, treebank, parts, parser, have_heads)
        self.parts_ = list(parts)
        return self

    def _train(
        self,
        trainings: TrainingSequence,
        treebank: Treebank,
        parts: Sequence[str],
        parser: DependencyParser,
        have_heads: np.ndarray | None,
    ) -> None:
        """Train the models of the parts, and set them if all are trained.

        ``have_heads`` is a mask of the sentences for the parser; None without trees.
        """
        tokenizer = None
        tagger = None
        columns = tuple(name for name in COLUMNS if name in parts)
        with progress_bar(self.verbose, total=self.folds + 3, unit=" models") as bar:
            bar.set_description("tokens")
            if "tokens" in parts:
                tokenizer = Tokenizer().fit(
                    treebank, trainings.fit_labeler, trainings.seed, trainings.callbacks
                )
            treebank = replace(treebank, text=None, text_offsets=None)  # saves memory
            bar.update()
            if columns:
                has_later_models = len(columns) > 1 or have_heads is not None
                n_folds = self.folds if has_later_models else 0
                tagger, treebank = trainings.fit_tagger(treebank, columns, n_folds, bar)
            if have_heads is not None:
                bar.set_description("trees")
                if not have_heads.all():
                    treebank = treebank[have_heads]
                parser.set_params(
                    callbacks=[*(parser.callbacks or ()), *trainings.callbacks],
                    random_state=trainings.seed,
                    verbose=self.verbose,
                )
                parser.fit(treebank, **trainings.checkpoint_options("trees"))
                bar.update()
        self.tokenizer_ = tokenizer
        self.tagger_ = tagger
        self.parser_ = None if have_heads is None else parser

    def _untrained_models(self) -> tuple[SequenceLabeler, DependencyParser]:
        """Validate the parameters; return an untrained labeler and an untrained parser."""
        from sklearn.base import clone

        self._check_settings()
        labeler = SequenceLabeler(**TAGGING) if self.tagger is None else clone(self.tagger)
        parser = DependencyParser(**PARSING) if self.parser is None else clone(self.parser)
        return labeler, parser

    def _check_settings(self) -> None:
        """Validate the parameters without importing scikit-learn."""
        check_parameters(self, self._constraints)
        check_n_jobs(self.n_jobs)
        if self.parts != "auto":
            is_list = not isinstance(self.parts, str) and len(self.parts) > 0
            if not is_list or not set(self.parts) <= set(PARTS):
                raise InputError(
                    f"`parts` must be 'auto' or a list of some of {', '.join(PARTS)}, "
                    f"got {self.parts!r}."
                )
        for name, estimator_class in SETTINGS.items():
            model = self.get_params(deep=False)[name]
            if model is None:
                continue
            if not isinstance(model, estimator_class):
                raise InputError(
                    f"`{name}` must be a {estimator_class.__name__} or None, got {model!r}."
                )
            if self.lexicons is not None and model.lexicons is not None:
                raise InputError(
                    f"Only one of `lexicons` and those of `{name}` can be given, got both."
                )
        if self.tagger is not None and self.tagger.kernels is not None:
            raise InputError("The tagger of an annotator reads words: leave its kernels out.")

    # ---- annotating ------------------------------------------------------------------------------

    def annotate(self, X: Sentences, *, confidence: bool = False) -> Treebank:
        """Annotate sentences of words; see :meth:`annotate_text` for raw text.

        Parameters
        ----------
        X : path, list of paths, Treebank, Sentence, iterable of Sentence or lists, or Stream
            Lists are lists of words. Columns that the annotator predicts are ignored; all others
            are kept.
        confidence : bool
            Write probabilities to MISC: ``UposConf=0.987`` for tags (``XposConf`` if the chain is
            over XPOS), ``HeadConf`` for arcs, and ``RelConf`` for relations.

        Returns
        -------
        Treebank
            Iterating over it yields sentences; :func:`omkl.data.write_treebank` writes it to a
            file.

        Raises
        ------
        omkl.exceptions.InputError
            If ``confidence`` is set, and the annotator is not calibrated; see :meth:`calibrate`.
        """
        check_is_fitted(self)
        check_n_jobs(self.n_jobs)
        if confidence:
            self.check_probabilities()
        annotated = []
        for block in treebanks_of(X, trees=False):
            self._prepare(block)
            if self.tagger_ is not None:
                block = self.tagger_.annotate(block)
                if confidence and self.tagger_.tag is not None:
                    name = f"{self.tagger_.tag.capitalize()}Conf"
                    block = with_notes(block, {name: self.tagger_.confidence(block)})
            if self.parser_ is not None:
                block = self.parser_.parse(block, confidence=confidence)
            annotated.append(block)
        return Treebank.concatenate(annotated)

    def check_probabilities(self, trees: bool = True) -> None:
        """Raise an InputError unless the tagger and the parser have probabilities.

        Without ``trees``, the parser may have none.
        """
        models: dict[str, Any] = {}
        if self.tagger_ is not None:
            models["tagger"] = self.tagger_.labeler
        if trees:
            models["parser"] = self.parser_
        for name, model in models.items():
            if model is not None and not has_probabilities(model):
                raise InputError(
                    "An annotator has probabilities after calibrate(), "
                    f'or if its {name} has loss="crf", got loss={model.loss!r}.'
                )

    def _models_for(
        self, treebank: Treebank, trees: bool
    ) -> tuple[Tagger | None, TreeDecoder | None]:
        """Return the tagger, and with ``trees`` the decoder, to annotate sentences.

        Raise an InputError unless they have probabilities.
        """
        self._prepare(treebank)
        self.check_probabilities(trees)
        decoder = None
        if trees and self.parser_ is not None:
            decoder = self.parser_._decoder
        return self.tagger_, decoder

    def _prepare(self, block: Treebank) -> None:
        """Pass ``n_jobs`` on to the models, and check the words of sentences to annotate."""
        if self.parser_ is not None:
            self.parser_.n_jobs = self.n_jobs
        if self.tagger_ is not None and self.tagger_.labeler is not None:
            self.tagger_.labeler.n_jobs = self.n_jobs
        if self.tokenizer_ is not None:
            self.tokenizer_.check_words(block)

    def annotate_text(
        self, text: str, *, offsets: bool = False, confidence: bool = False
    ) -> Treebank:
        """Split raw text to sentences, tokens and words, and annotate these.

        Parameters
        ----------
        text : str
            The text itself; :meth:`annotate` takes a str for a path.
        offsets : bool
            Write the characters ``text[12:15]`` of a token to MISC, as ``TokenRange=12:15``.
        confidence : bool
            As for :meth:`annotate`.

        Returns
        -------
        Treebank
            Its text has ``# text``, SpaceAfter=No and multiword tokens. No character but whitespace
            is lost.
        """
        blocks = list(self.stream_text(text, offsets=offsets, confidence=confidence))
        return Treebank.concatenate(blocks) if blocks else Treebank.from_sentences([])

    def stream_text(
        self, text: str | Iterable[str], *, offsets: bool = False, confidence: bool = False
    ) -> Iterator[Treebank]:
        """Annotate raw text of any length in constant memory; yield blocks of sentences.

        ``text`` is a str, or its pieces in order, such as an open text file. See
        :meth:`annotate_text` for the others.
        """
        return (self.annotate(block, confidence=confidence) for block in self.split(text, offsets))

    def split(self, text: str | Iterable[str], offsets: bool) -> Iterator[Treebank]:
        """Split raw text to blocks of sentences of words."""
        check_is_fitted(self)
        if self.tokenizer_ is None:
            raise InputError(f"This annotator has no tokenizer: its training data had {NO_TEXT}.")
        return self.tokenizer_.treebanks(text, offsets)

    def calibrate(self, X: Sentences) -> "Annotator":
        """Calibrate probabilities on held-out sentences.

        Annotations do not change. See :meth:`omkl.SequenceLabeler.calibrate` and
        :meth:`omkl.DependencyParser.calibrate`. Trees are calibrated given the predicted tags.
        Another ``fit`` removes the temperatures.

        Parameters
        ----------
        X : as for :meth:`fit`

        Returns
        -------
        self
        """
        check_is_fitted(self)
        trees = False if self.parser_ is None else "partial"
        gold = Treebank.concatenate(treebanks_of(X, trees=trees))
        if self.tagger_ is not None:
            self.tagger_.calibrate(gold)
        if self.parser_ is not None:
            if self.tagger_ is not None:
                gold = self.tagger_.annotate(gold)
            self.parser_.calibrate(gold)
        return self

    # ---- evaluation and models -------------------------------------------------------------------

    def evaluate(self, X: Sentences, ignore: Rule = None, *, raw: bool = False) -> dict[str, Any]:
        """Evaluate annotations of gold words, or of raw text, as in the CoNLL 2018 shared task.

        Parameters
        ----------
        X, ignore
            As for :meth:`omkl.DependencyParser.evaluate`.
        raw : bool
            Annotate the raw text of the sentences. A stream must keep its text.

        Returns
        -------
        dict
            Scores of :func:`omkl.evaluate_treebanks`, None without gold annotation. For gold words,
            columns that the annotator does not predict are copied from the gold sentences, so their
            scores are 1.
        """
        check_is_fitted(self)
        trees = False if self.parser_ is None else "given"
        if raw and not isinstance(X, Stream):
            X = as_treebank(X, trees, keep_text=True)
        blocks = treebanks_of(X, trees)
        if raw:
            pairs = ((gold, self.annotate_text(text_of(gold))) for gold in blocks)
        else:
            pairs = ((gold, self.annotate(gold)) for gold in blocks)
        return evaluate_blocks(pairs, ignore)

    def score(self, X: Sentences, y: None = None) -> float:
        """Return the score of the last learned part, predicted from words.

        With tokens only, it is predicted from raw text.

        Parameters
        ----------
        X : as for :meth:`evaluate`
        y : None

        Returns
        -------
        float
            In [0, 1]: the labeled attachment score. Without trees, the fraction of words with
            correct tags and features; with lemmas only, the fraction of words with correct lemmas;
            with tokens only, the F1 of words.

        Raises
        ------
        omkl.exceptions.InputError
            If X lacks the gold annotation.
        """
        if self.parts_ == ["tokens"]:
            return self.evaluate(check_sentences(X, y), raw=True)["words_f1"]
        scores = self.evaluate(check_sentences(X, y))
        if "trees" in self.parts_:
            annotation = "heads"
            name = "uas" if scores["las"] is None else "las"
        elif set(self.parts_) <= {"tokens", "lemmas"}:
            annotation = "lemmas"
            name = "lemmas"
        else:
            annotation = "tags"
            name = "alltags"
        if scores[name] is None:
            raise InputError(f"X must have gold {annotation}.")
        return scores[name]

    @property
    def columns_(self) -> tuple[str, ...]:
        """Predicted columns, by their names in :class:`~omkl.data.Sentence`."""
        check_is_fitted(self)
        columns = [name for name in COLUMNS if name in self.parts_]
        if self.parser_ is not None:
            columns += self.parser_.columns_
        return tuple(columns)

    @property
    def kernel_weights_(self) -> dict[str, dict[str, float]]:
        """Weights of the feature groups of each model, ``weights[name][group]``.

        See :meth:`models` for names.
        """
        weights = {}
        if self.tokenizer_ is not None:
            weights["tokens"] = self.tokenizer_.labeler.group_weights
        for name, model in self.models().items():
            weights[name] = model.kernel_weights_
        return weights

    def models(self) -> dict[str, Any]:
        """Return the labelers and the parser, by name.

        Returns
        -------
        dict of str to SequenceLabeler or DependencyParser
            ``"words of tokens"``, for multiword tokens; ``"upos"``, the chain of tags;
            ``"xpos+feats of NOUN"`` and ``"lemmas of NOUN"``, for words with this tag; and
            ``"trees"``. Tags with a single label have no model.
        """
        check_is_fitted(self)
        models: dict[str, Any] = {}
        if self.tokenizer_ is not None:
            models |= self.tokenizer_.models()
        if self.tagger_ is not None:
            models |= self.tagger_.models()
        if self.parser_ is not None:
            models["trees"] = self.parser_
        return models

    # ---- model files -----------------------------------------------------------------------------

    _plain_attributes = ("parts_",)
    example_kind = "annotations"
    _rounded = SequenceLabeler._rounded

    _predicts_only = True  # no partial_fit

    def _saved_parameters(self) -> dict[str, Any]:
        return super()._saved_parameters() | dict.fromkeys(SETTINGS)

    def _describe(self, packer: Packer, training: bool) -> Manifest:
        settings = {}
        if self.tagger is not None:
            settings["tagger"] = packed_parameters(self.tagger, packer)
        if self.parser is not None:
            settings["parser"] = {}
            if self.parser_ is None:  # the trained parser has the parameters
                settings["parser"] = packed_parameters(self.parser, packer)
        tokenizer = None if self.tokenizer_ is None else self.tokenizer_.describe(packer)
        tagger = None if self.tagger_ is None else self.tagger_.describe(packer)
        models = {}
        for number, (name, model) in enumerate(self.models().items()):
            packer_of_model = Packer()
            has_history = not is_for_some_words(name)
            models[name] = model._manifest(packer_of_model, training=False, history=has_history)
            for key, array in packer_of_model.arrays.items():
                packer.arrays[f"model{number}/{key}"] = array
        return {
            "models": models,
            "settings": settings,
            "lexicons": self.lexicons is not None,
            "tokenizer": tokenizer,
            "tagger": tagger,
        }

    def _restore(self, manifest: Manifest, unpacker: Unpacker) -> None:
        for name, packed in manifest["settings"].items():
            estimator_class = SETTINGS[name]
            parameters = estimator_class._loaded_parameters(packed, unpacker)
            self.set_params(**{name: estimator_class(**parameters)})
        self._check_settings()
        models: dict[str, Any] = {}
        for number, (name, packed) in enumerate(manifest["models"].items()):
            arrays = below(unpacker.arrays, f"model{number}/")
            estimator_class = DependencyParser if name == "trees" else SequenceLabeler
            models[name] = estimator_class._from_model(packed, Unpacker(arrays, unpacker.parts))
        self.parser_ = models.pop("trees", None)
        if self.parser is not None and self.parser_ is not None:
            self.parser = DependencyParser(**self.parser_.get_params(deep=False))
        rules = models.pop(RULES, None)
        self.tokenizer_ = None
        if manifest["tokenizer"] is not None:
            self.tokenizer_ = Tokenizer.restored(manifest["tokenizer"], unpacker.arrays, rules)
        self.tagger_ = None
        if manifest["tagger"] is not None:
            self.tagger_ = Tagger.restored(manifest["tagger"], unpacker.arrays, models)
        if manifest["lexicons"]:
            self.lexicons = self.parser_.lexicons if self.tagger_ is None else self.tagger_.lexicons
            if self.parser is not None:
                self.parser.set_params(lexicons=None)
        elif self.tagger is not None and self.tagger_ is not None:
            self.tagger.set_params(lexicons=self.tagger_.lexicons or None)


def _prefixed_parameters(prefix: str, model: SavedEstimator) -> dict[str, Any]:
    """Return the parameters of a model that a resumed run compares, as ``prefix__name``."""
    parameters = {}
    for name, value in model._saved_parameters().items():
        if name not in FREE and name != "random_state":
            parameters[f"{prefix}__{name}"] = value
    return parameters
