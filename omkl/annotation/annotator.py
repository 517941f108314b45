"""Annotator: from words to tags, morphology, lemmas and trees, all learned from one treebank."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from tqdm import tqdm

from omkl._components import check_flags, check_n_jobs, check_number
from omkl._progress import progress_bar
from omkl.annotation.cross_fitting import SharedCallbacks, TrainingSequence, cross_fitted
from omkl.annotation.tagger import COLUMNS, StoppedError, Tagger
from omkl.data import Sentence, Treebank
from omkl.estimators.explanations import Explanation
from omkl.estimators.persistence import SavedEstimator, check_is_fitted, packed_parameters
from omkl.estimators.training import FREE, Run
from omkl.exceptions import DataWarning, InputError
from omkl.online.rounds import below
from omkl.parsing.decoding import likeliest_trees, with_notes
from omkl.parsing.evaluation import Rule, evaluate_blocks
from omkl.parsing.parser import DependencyParser
from omkl.parsing.sentences import Sentences, as_treebank, check_sentences, check_trees, strings_of, treebanks_of
from omkl.persistence import Packer, Unpacker
from omkl.sequences.labeler import SequenceLabeler

#: Parts that an annotator can learn, in order.
PARTS = (*COLUMNS, "trees")
#: Parameters that are estimators.
SETTINGS: dict[str, type[SavedEstimator]] = {"tagger": SequenceLabeler, "parser": DependencyParser}
#: Default settings of labelers. With C = 10 instead of 1 tags (English, Danish, Vietnamese), features and lemmas
#: (English, Danish) are 0.04 to 0.4 points better.
TAGGING: dict[str, Any] = {"epochs": 10, "C": 10.0}
#: Default settings of the parser. Compared with scoring all arcs trees are as good (English, 2000 sentences, and
#: Danish better by 0.2 and 0.5 points UAS, Vietnamese worse by 0.1), training and parsing a quarter faster.
PARSING: dict[str, Any] = {"first": "small", "likely": 0.99}
#: Settings of labelers without transitions, which do not take those of the chain.
WITHOUT_TRANSITIONS: dict[str, Any] = {
    "transitions": None,
    "allowed_transitions": None,
    "transitions_by_position": False,
    "order": 1,
    "cost": None,
    "class_weight": None,
}


class Annotation(NamedTuple):
    """An annotated sentence.

    Attributes
    ----------
    sentence : Sentence
    score : float
        Log-probability of its tags, plus that of its tree given the tags.
    """

    sentence: Sentence
    score: float


class Annotator(SavedEstimator):
    """Tags, morphology, lemmas and dependency trees for sentences of words.

    A chain labels words with tags (UPOS, or XPOS where the treebank has no UPOS); morphology, the rest of XPOS and
    FEATS, is predicted given the tag, lemmas given both, and a parser uses all of these. Morphology and trees are
    learned with tags predicted by models that have not seen the sentence (cross-fitting), as they meet in use.

    A tag, lemma or head ``_`` is not annotated: the others of the sentence are learned all the same.

    Parameters
    ----------
    parts : "auto" or sequence of {"upos", "xpos", "feats", "lemmas", "trees"}
        Parts to learn and write; "auto" takes those whose columns the training data has.
    tagger : SequenceLabeler, optional
        An untrained labeler without ``kernels``, with the settings of all labelers. Its ``class_weight``, ``cost`` and
        settings of transitions are for the chain of tags alone. By default ``SequenceLabeler(epochs=10, C=10)``.
    parser : DependencyParser, optional
        An untrained parser with the settings of the parser; by default ``DependencyParser(first="small",
        likely=0.99)``.
    folds : int > 1
        Parts of the training data for cross-fitting: each is tagged by a model of the others.
    n_jobs : int or None
        Threads that tag and parse; None is one, -1 one for each core. They do not change the annotations.
    callbacks : list, optional
        Called as those of :class:`omkl.online.TrainingLoop` during the training of each model. One that returns true
        ends all training, and the parts learned so far are kept, see ``parts_``: the chain of tags and the parser as
        they are then, morphology and lemmas if they were learned to the end. If the tagger lacks parts, the one of the
        last fold takes its place.
    verbose : bool
        Show a progress bar.
    random_state : int, RandomState or None
        Replaces that of ``tagger`` and ``parser``. The same seed gives the same model, bit for bit.

    Attributes
    ----------
    parts_ : list of str
        Parts that are learned and written.
    tagger_ : Tagger or None
        Tags, morphology and lemmas by themselves.
    parser_ : DependencyParser or None
        The parser by itself, for sentences that have tags.

    Notes
    -----
    A file of :meth:`save` holds no training state.

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
        self,
        parts: str | Sequence[str] = "auto",
        *,
        tagger: SequenceLabeler | None = None,
        parser: DependencyParser | None = None,
        folds: int = 4,
        n_jobs: int | None = None,
        callbacks: Any = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
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
        self,
        X: Sentences,
        y: None = None,
        *,
        checkpoint: Any = None,
        checkpoint_every: str | float = "60s",
        resume: bool = False,
    ) -> "Annotator":
        """Learn from a treebank.

        Parameters
        ----------
        X : path, list of paths, Treebank, or iterable of Sentence
            Annotated sentences, in CoNLL-U, CoNLL-X or CoNLL-2008.
        y : None
            All that is learned is in ``X``.
        checkpoint, checkpoint_every, resume
            As for :meth:`omkl.SequenceLabeler.fit`. The directory holds the trained models, and checkpoints of the one
            in training.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or a sentence is not as described, the treebank lacks a column of a part that was asked for,
            or a callback ends training before a part is learned; the annotator stays what it was.
        """
        X = check_sentences(X, y)
        check_flags(self)
        check_number("folds", self.folds, above=1, integer=True)
        check_n_jobs(self.n_jobs)
        callbacks = SharedCallbacks(self.callbacks)
        labeler, parser, seed = self._settings()
        for model in (labeler, parser):
            model.set_params(callbacks=[*(model.callbacks or ()), callbacks])
        configuration = {**self._saved_parameters()}
        if checkpoint is not None:
            configuration |= _nested_parameters("tagger", labeler) | _nested_parameters("parser", parser)
        options = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        run = Run(type(self).__name__, configuration, seed, False, **options)
        trainings = TrainingSequence(callbacks, run, seed, checkpoint_every)
        labeler.set_params(random_state=trainings.seed)
        _seed_parser(parser, trainings.seed, self.verbose)
        return self._learn(X, trainings, labeler, parser)

    def _learn(
        self, X: Sentences, trainings: TrainingSequence, labeler: SequenceLabeler, parser: DependencyParser
    ) -> "Annotator":
        """Learn all parts; the labeler and the parser have all settings."""
        asked = PARTS if isinstance(self.parts, str) else tuple(self.parts)
        treebank = as_treebank(X, trees="partial" if "trees" in asked else False, single_root=parser.single_root)
        parts = self._parts_in(treebank, asked)
        annotated = _sentences_with_heads(treebank) if "trees" in parts else None
        trainings.begin(treebank)
        tagger = None
        with progress_bar(self.verbose, total=self.folds + 2, unit=" models") as bar:
            columns = tuple(name for name in COLUMNS if name in parts)
            if columns:
                tagger, treebank = self._learn_tags(treebank, columns, "trees" in parts, trainings, labeler, bar)
            if annotated is not None and not trainings.callbacks.ended:
                bar.set_description("trees")
                with suppress(StoppedError):
                    trainings.fit_parser(parser, treebank if annotated.all() else treebank[annotated])
                bar.update()
        learned = (() if tagger is None else tagger.columns) + (("trees",) if hasattr(parser, "model_") else ())
        if not learned:
            raise InputError("A callback ended training before a part was learned.")
        self.tagger_, self.parser_ = tagger, parser if "trees" in learned else None
        self.parts_ = [part for part in parts if part in learned]
        return self

    def _learn_tags(
        self,
        treebank: Treebank,
        columns: tuple[str, ...],
        with_trees: bool,
        trainings: TrainingSequence,
        labeler: SequenceLabeler,
        bar: tqdm,
    ) -> tuple[Tagger | None, Treebank]:
        """Learn columns; returns the tagger, and the treebank with columns of taggers that have not seen it."""

        def learn(X: list, y: list, **settings: Any) -> SequenceLabeler:
            """A trained labeler with these settings."""
            return trainings.fit_labeler(clone(labeler).set_params(**settings), X, y)

        learners = learn, partial(learn, **WITHOUT_TRANSITIONS)
        tagger, crossed = None, treebank
        if len(columns) > 1 or with_trees:
            tagger, crossed = cross_fitted(
                lambda others: Tagger(columns).fit(others, *learners), treebank, self.folds, trainings, bar
            )
        if trainings.callbacks.ended:
            return tagger, crossed
        bar.set_description("tags, morphology and lemmas")
        found = Tagger(columns)
        found.fit(treebank, *learners, None if found.tag is None else strings_of(crossed, found.tag))
        bar.update()
        return found if tagger is None or found.columns == columns else tagger, crossed

    def _settings(self) -> tuple[SequenceLabeler, DependencyParser, int]:
        """An untrained labeler, an untrained parser, and a seed for both."""
        if not isinstance(self.parts, Iterable) or (isinstance(self.parts, str) and self.parts != "auto"):
            raise self._wrong_parts()
        for name, kind in SETTINGS.items():
            if getattr(self, name) is not None and not isinstance(getattr(self, name), kind):
                raise InputError(f"`{name}` must be a {kind.__name__} or None, got {getattr(self, name)!r}.")
        labeler = SequenceLabeler(**TAGGING) if self.tagger is None else clone(self.tagger)
        if labeler.kernels is not None:
            raise InputError("The tagger of an annotator reads words: leave its kernels out.")
        try:
            seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        except ValueError:
            raise InputError(
                f"random_state must be None, an integer or a RandomState, not {self.random_state!r}."
            ) from None
        parser = DependencyParser(**PARSING) if self.parser is None else clone(self.parser)
        return labeler, parser, seed

    def _wrong_parts(self) -> InputError:
        return InputError(f"`parts` must be 'auto' or a list of some of {', '.join(PARTS)}, got {self.parts!r}.")

    def _parts_in(self, treebank: Treebank, asked: tuple[str, ...]) -> tuple[str, ...]:
        """The parts to learn from a treebank, in their order."""
        unknown = [part for part in asked if part not in PARTS]
        if unknown or not asked:
            raise self._wrong_parts()
        if not len(treebank):
            raise InputError("There is no sentence: give at least one.")
        there = {name: bool(getattr(treebank, name).any()) for name in COLUMNS}
        there["trees"] = bool((treebank.heads >= 0).any())
        if not any(there.values()):
            raise InputError("The training data has no column to learn: give an annotated treebank.")
        missing = [] if isinstance(self.parts, str) else [part for part in asked if not there[part]]
        if missing:
            raise InputError(f"The training data has no {missing[0]} to learn: leave them out of parts.")
        return tuple(part for part in PARTS if part in asked and there[part])

    # ---- annotating ---------------------------------------------------------------------------------------------

    def annotate(self, X: Sentences, *, confidence: bool = False) -> Treebank:
        """Annotate sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank, Sentence, iterable of Sentence or of lists of words, or Stream
            The columns that the annotator writes are ignored; all others are kept.
        confidence : bool
            Note probabilities in MISC: of tags as ``UposConf=0.987`` (``XposConf`` where the chain is over XPOS), of
            arcs as ``HeadConf``, of relations as ``RelConf``.

        Returns
        -------
        Treebank
            Iterate it for sentences, or write it with :func:`omkl.data.write_treebank`.

        Raises
        ------
        omkl.exceptions.InputError
            If probabilities are asked for, and the annotator is not calibrated; see :meth:`calibrate`.
        """
        check_is_fitted(self)
        return Treebank.concatenate(self.annotate_blocks(treebanks_of(X, trees=False), confidence=confidence))

    def annotate_blocks(self, blocks: Iterable[Treebank], *, confidence: bool = False) -> Iterator[Treebank]:
        """Annotate treebanks one after the other, as they come.

        Parameters
        ----------
        blocks : iterable of Treebank
        confidence : bool
            As for :meth:`annotate`.

        Yields
        ------
        Treebank
        """
        check_is_fitted(self)
        check_n_jobs(self.n_jobs)
        if confidence:
            self._check_calibrated()
        self._share_threads()
        for block in blocks:
            if self.tagger_ is not None:
                block = self.tagger_.annotate(block)
                if confidence and self.tagger_.tag is not None:
                    block = with_notes(block, {f"{self.tagger_.tag.capitalize()}Conf": self.tagger_.confidence(block)})
            yield block if self.parser_ is None else self.parser_.parse(block, confidence=confidence)

    def predict_nbest(self, X: Sentences, n: int = 5) -> list[list[Annotation]]:
        """The likeliest annotations of each sentence, likeliest first.

        They are the likeliest pairs of the n likeliest sequences of tags and the n likeliest trees of each; morphology
        and lemmas are the best given the tags. The first may differ from that of :meth:`annotate`, which finds a tree
        given the best tags alone.

        Parameters
        ----------
        X : as for :meth:`annotate`
        n : int > 0
            Number of annotations; fewer where a sentence has not so many.

        Returns
        -------
        list of list of Annotation
            ``(sentence, score)``, the score a log-probability.

        Raises
        ------
        omkl.exceptions.InputError
            If the annotator is not calibrated; see :meth:`calibrate`.
        """
        annotations: list[list[Annotation]] = []
        for block in treebanks_of(X, trees=False):
            found, owners, scores = self.nbest_of(block, n)
            annotations += [[] for _ in range(len(block))]
            for sentence, owner, score in zip(found, (owners - len(block)).tolist(), scores.tolist()):
                annotations[owner].append(Annotation(sentence, score))
        return annotations

    def nbest_of(self, block: Treebank, n: int) -> tuple[Treebank, np.ndarray, np.ndarray]:
        """The n likeliest annotations of each sentence of a treebank, in one treebank.

        Parameters
        ----------
        block : Treebank
        n : int > 0

        Returns
        -------
        treebank : Treebank
            The annotations of the first sentence, likeliest first, then those of the next.
        owners : int array
            The number of the sentence of each.
        scores : array
            Log-probabilities.
        """
        check_is_fitted(self)
        check_number("n", n, above=0, integer=True)
        self._check_calibrated()
        self._share_threads()
        owners, scores = np.arange(len(block)), np.zeros(len(block))
        if self.tagger_ is not None:
            block, owners, scores = self.tagger_.nbest(block, int(n))
        if self.parser_ is not None:
            block, parents, own = likeliest_trees(self.parser_, block, int(n))
            owners, scores = owners[parents], scores[parents] + own
        order = np.lexsort((-scores, owners))
        owners = owners[order]
        kept = np.arange(len(owners)) - np.searchsorted(owners, owners) < n
        return block[order[kept]], owners[kept], scores[order[kept]]

    def calibrate(self, X: Sentences) -> "Annotator":
        """Calibrate probabilities on sentences that the annotator has not learned from.

        Annotations stay the same. See :meth:`omkl.SequenceLabeler.calibrate` and
        :meth:`omkl.DependencyParser.calibrate`; trees are calibrated given the predicted tags. Another ``fit`` undoes
        it.

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

    def _check_calibrated(self) -> None:
        """Raise where tags or trees have no probabilities."""
        scored = [] if self.parser_ is None else [self.parser_]
        scored += [] if self.tagger_ is None else self.tagger_.chains
        if not all(hasattr(model, "predict_marginals") for model in scored):
            raise InputError(
                "The annotator has no probabilities: call calibrate with sentences it has not learned from."
            )

    def explain(self, x: Treebank | Sentence | Sequence[str], part: str | None = None, **options: Any) -> Explanation:
        """Explain why a sentence gets its tree, or its tags, and not the next best.

        Parameters
        ----------
        x : list of str or Sentence
        part : str, optional
            ``"trees"``, the default of an annotator with trees, or the column of the chain of tags, ``"upos"`` or
            ``"xpos"``. Other parts are explained by their :meth:`models`.
        **options
            As for :meth:`omkl.DependencyParser.explain` or :meth:`omkl.SequenceLabeler.explain`.

        Returns
        -------
        omkl.Explanation
            That of a tree is given the predicted tags.

        Raises
        ------
        omkl.exceptions.InputError
            If the annotator has no such part, or as for these methods.
        """
        check_is_fitted(self)
        chains = [] if self.tagger_ is None else self.tagger_.chains
        known = ["trees"] * (self.parser_ is not None) + [str(self.tagger_.tag) for _ in chains]
        part = known[0] if part is None and known else part
        if part not in known:
            raise InputError(f"`part` must be one of {', '.join(map(repr, known)) or 'none'}, got {part!r}.")
        [sentence] = treebanks_of(x if isinstance(x, Treebank) else [x], trees=False)
        if part != "trees":
            return chains[0].explain([form or "" for form in sentence[0].forms], **options)
        return self.parser_.explain(sentence if self.tagger_ is None else self.tagger_.annotate(sentence), **options)

    # ---- evaluation and models ----------------------------------------------------------------------------------

    def evaluate(self, X: Sentences, ignore: Rule = None) -> dict[str, Any]:
        """Compare annotations made from words alone with gold ones, as the CoNLL 2018 shared task does.

        Parameters
        ----------
        X, ignore
            As for :meth:`omkl.DependencyParser.evaluate`.

        Returns
        -------
        dict
            As of :func:`omkl.evaluate_treebanks`. Columns that the annotator does not write are the gold ones, and
            always right.
        """
        check_is_fitted(self)
        gold = treebanks_of(X, trees=self.parser_ is not None and "given")
        return evaluate_blocks(((block, next(self.annotate_blocks([block]))) for block in gold), ignore)

    def score(self, X: Sentences, y: None = None) -> float:
        """Score of the last part, from words alone.

        Parameters
        ----------
        X : as for :meth:`evaluate`
        y : None

        Returns
        -------
        float
            In [0, 1]: the labeled attachment score; without trees the share of words with the right tags and features,
            or with the right lemma where nothing else is written.
        """
        scores = self.evaluate(check_sentences(X, y))
        if "trees" in self.parts_:
            return scores["uas" if scores["las"] is None else "las"]
        return scores["lemmas" if self.parts_ == ["lemmas"] else "alltags"]

    @property
    def columns_(self) -> tuple[str, ...]:
        """Columns of a treebank that are written, by the names of :class:`~omkl.data.Sentence`."""
        check_is_fitted(self)
        trees = () if self.parser_ is None else ("heads", "deprels") if self.parser_.labeled else ("heads",)
        return (*(name for name in COLUMNS if name in self.parts_), *trees)

    @property
    def kernel_weights_(self) -> dict[str, dict[str, float]]:
        """Weights of the groups of features of each model, ``weights[name][group]``; names as of :meth:`models`."""
        return {name: model.kernel_weights_ for name, model in self.models().items()}

    def models(self) -> dict[str, Any]:
        """The labelers and the parser, by name.

        Returns
        -------
        dict of str to SequenceLabeler or DependencyParser
            ``"upos"``, the chain of tags; ``"xpos+feats of NOUN"`` and ``"lemmas of NOUN"``, for the words of one tag;
            and ``"trees"``. A tag with one label only has no model.
        """
        check_is_fitted(self)
        self._share_threads()
        return self._models()

    def _models(self) -> dict[str, Any]:
        models: dict[str, Any] = {} if self.tagger_ is None else self.tagger_.models()
        return models | ({} if self.parser_ is None else {"trees": self.parser_})

    def _share_threads(self) -> None:
        """Give all models the threads of the annotator."""
        for model in self._models().values():
            model.n_jobs = self.n_jobs

    # ---- model files --------------------------------------------------------------------------------------------

    _plain_attributes = ("parts_",)
    _rounded = SequenceLabeler._rounded

    _predicts_only = True  # it is trained at once

    def _saved_parameters(self) -> dict[str, Any]:
        seed = self.random_state if isinstance(self.random_state, (int, np.integer)) else None
        return {**self.get_params(deep=False), **dict.fromkeys((*SETTINGS, "callbacks")), "random_state": seed}

    def _describe(self, packer: Packer, training: bool) -> dict[str, Any]:
        manifests: dict[str, Any] = {}
        for number, (name, model) in enumerate(self.models().items()):
            own = Packer()
            manifests[name] = model._manifest(own, False, history=" of " not in name)
            packer.arrays.update({f"model{number}/{key}": array for key, array in own.arrays.items()})
        given = {name: getattr(self, name) for name in SETTINGS if getattr(self, name) is not None}
        settings = {name: packed_parameters(estimator, packer) for name, estimator in given.items()}
        if "parser" in given and self.parser_ is not None:
            settings["parser"] = {}  # the trained parser has them
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


def _nested_parameters(name: str, model: SavedEstimator) -> dict[str, Any]:
    """Parameters of a model that training depends on, by the names that ``set_params`` has for them."""
    parameters = model._saved_parameters()
    return {f"{name}__{key}": parameters[key] for key in parameters if key not in (*FREE, "random_state")}


def _seed_parser(parser: DependencyParser, seed: int, verbose: bool) -> None:
    """Seed a parser, and the first parsers before it."""
    seeded: Any = parser
    while isinstance(seeded, DependencyParser):
        seeded.set_params(random_state=seed, verbose=verbose)
        seeded = seeded.first


def _sentences_with_heads(treebank: Treebank) -> np.ndarray:
    """Mask of the sentences with heads; a warning tells how many others there are."""
    annotated = np.maximum.reduceat(treebank.heads, treebank.offsets[:-1]) >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the parser will warn
        check_trees(treebank[annotated], partial=True)
    if not annotated.all():
        n, lacking = len(annotated), np.count_nonzero(~annotated)
        message = f"{lacking} of {n} sentences have no heads: trees are learned from the others."
        warnings.warn(message, DataWarning, stacklevel=4)
    return annotated
