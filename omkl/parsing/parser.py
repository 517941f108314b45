"""Dependency parser: the estimator."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if

from omkl._components import check_number, resolve
from omkl.data import Sentence, Stream, Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.calibration import has_marginals
from omkl.estimators.explanations import Explanation
from omkl.estimators.persistence import check_is_fitted
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.training import RunOptions, Task
from omkl.estimators.validation import Number, OneOf, check_parameters
from omkl.exceptions import InputError
from omkl.groups.templates.language import TemplateSet
from omkl.groups.templates.named_sets import NAMED_SETS
from omkl.losses import CRF, StructuredLoss
from omkl.online.model import OnlineModel
from omkl.online.schedules import DistanceOverGradients, MeanPolyak, Schedule
from omkl.online.training_loop import Pass
from omkl.parsing.codec import TreebankCodec, TreeData, read_trees
from omkl.parsing.decoding import Arcs, Parse, ParseMarginals, TreeDecoder
from omkl.parsing.evaluation import Rule, evaluate_blocks
from omkl.parsing.explain import explain_tree
from omkl.parsing.relations import RelationsBeside
from omkl.parsing.sentences import Sentences, check_sentences, check_trees, treebanks_of
from omkl.parsing.template_selection import ranked, select_templates
from omkl.persistence import Unpacker


def tree_rates(estimator: OnlineEstimator) -> Schedule:
    """Schedule of ``eta0="auto"`` for a parser."""
    # dual averaging needs the distance from the origin, not the length of a step
    if estimator.method != "fobos":
        return DistanceOverGradients()
    # the gradient of a CRF is spread over all arcs, and needs steps that are three times as long (English: 87.0 instead
    # of 86.5 attached)
    return MeanPolyak(3.0 if isinstance(resolve(StructuredLoss, estimator.loss, "loss"), CRF) else 1.0)


@dataclass(kw_only=True, eq=False, repr=False)
class DependencyParser(OnlineEstimator):
    """Arc-factored dependency parser that learns which feature templates it needs.

    Each template is a group of hashed features; online proximal steps (Algorithm 1 of Martins et al. 2011) or dual
    averaging train them, and shrink whole templates. A linear classifier labels the arcs of the best tree.

    Parameters
    ----------
    templates : str, path, TemplateSet or iterable of str
        A named set: "martins507" (13 views of the head, 13 of the modifier, alone, with direction, with distance),
        "rich" (those, morphology, affixes and the tags between), "mcdonald2005" or "small"; "auto" takes the templates
        of "rich" whose columns the training data has. Or a text file with a template a line, or templates as
        :class:`~omkl.groups.TemplateSet` describes them. In each case UPOS and XPOS replace each other where one of
        them is empty, templates of missing columns are left out, and equal ones merged. A warning says so, for "auto" a
        line if ``verbose``.
    lexicons : dict of str to path or dict, optional
        Values of words by the name of the lexicon, such as clusters, entries of a gazetteer or bins of vectors: a file
        with ``word<TAB>value`` in each line, or a dict. ``{"cluster": "brown.tsv"}`` makes ``h.cluster`` a field of
        templates, and ``h.cluster:4`` its first four characters. A word is looked up as it is, then in lower case.
        "auto" has templates for each lexicon; the model file holds them all.
    keep : int, "auto" or None
        Number of templates to train the parser anew on, the best by weight. "auto" halves this number as long as the
        attachment score on one held-out sentence in five is within a standard error of the best one; it takes about
        twice as long, and gives a parser that is several times as fast. None: all.
    projective : bool
        Restrict trees to projective ones. Other training sentences are left out, with a warning.
    single_root : bool
        Allow one child of the root, as Universal Dependencies demand. Training sentences with several are refused.
    labeled : bool
        Learn and predict relations.
    memory : float
        Megabytes for parameters: weights, their averages and the frozen weights that predict take a third each.
        Templates share it by their number of features; features that do not fit share weights, see
        :meth:`collision_rate`.
    dtype : {"float32", "float64"}
    first : DependencyParser or str, optional
        Stacking (Martins, Das, Smith, Xing 2008): an untrained parser whose potentials this one corrects, and at whose
        trees its templates may look, as those of "stacked" do (see :mod:`omkl.groups.templates`). Potentials and trees
        of training sentences come from parsers that have not seen them, so ``first`` is trained ``folds + 1`` times. A
        string is a set of templates for a parser of three epochs with C = 1, without relations. Not for streams.
    folds : int
        Parts of the training data for that, at least 2.
    likely : float, optional
        Coarse-to-fine parsing (Charniak and Johnson 2005; Rush and Petrov 2012): the ``first`` parser is not corrected,
        but selects the arcs to score: those of its tree, and those within a margin of the best of each word. The margin
        is the smallest that holds this share of right arcs, in (0, 1). Other arcs have probability 0. All arcs are
        scored where arcs are required or forbidden, or several trees asked for. None: all arcs.
    decode : {"map", "marginal"}
        Predict the tree of the highest score, or that of the largest expected number of right heads (minimum risk),
        which needs probabilities as :meth:`predict_marginals` does, and takes O(n^3) for n words.
    loss, regularizer, weighting, C, epochs, method, eta0, schedule, average, radius, shuffle, early_stopping, \
validation_fraction, n_iter_no_change, n_examples, n_jobs, callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`. ``eta0="auto"`` is :class:`~omkl.online.MeanPolyak`, or with
        ``method="rda"`` :class:`~omkl.online.DistanceOverGradients`. Early stopping looks at the attachment score.

    Attributes
    ----------
    template_weights_ : dict of str to float
        Weight of each template, in [0, 1], summing to one.
    templates_ : TemplateSet
        The templates in use, adapted to the training data.
    first_ : DependencyParser
        The trained first parser, if there is one.
    temperature_, relation_temperature_ : float or None
        Divisors that make log-probabilities of the potentials of arcs and the scores of relations; see
        :meth:`calibrate`.
    history_ : list of dict
        One flat record an epoch; see :meth:`omkl.online.TrainingLoop.run`.

    References
    ----------
    McDonald, Pereira, Ribarov, Hajic (2005), Non-projective dependency parsing using spanning tree algorithms.
    Martins, Smith, Xing, Aguiar, Figueiredo (2011), Online multiple kernel learning for structured prediction.

    Examples
    --------
    >>> from omkl.data import Sentence
    >>> dogs = Sentence(forms=["dogs", "bark"], lemmas=["dog", "bark"], upos=["NOUN", "VERB"], xpos=["N", "V"],
    ...                 heads=[2, 0], deprels=["nsubj", "root"])
    >>> parser = DependencyParser("small", epochs=3, memory=10, random_state=0).fit([dogs])
    >>> parser.parse([dogs])[0].heads
    [2, 0]
    """

    _constraints = {
        **OnlineEstimator._constraints,
        "keep": Number(above=0, integer=True, also=("auto", None)),
        "memory": Number(above=0),
        "dtype": OneOf(("float32", "float64", np.float32, np.float64)),
        "folds": Number(above=1, integer=True),
        "likely": Number(above=0, below=1, also=(None,)),
        "decode": OneOf(("map", "marginal")),
    }
    _automatic_schedule = staticmethod(tree_rates)

    templates: Any = field(default="auto", kw_only=False)
    lexicons: Any = None
    keep: Any = None
    C: float = 10.0
    epochs: int = 10
    projective: bool = False
    single_root: bool = True
    labeled: bool = True
    memory: float = 140.0
    dtype: Any = "float32"
    first: Any = None
    folds: int = 3
    likely: float | None = None
    decode: str = "map"

    templates_: TemplateSet = field(init=False)
    first_: "DependencyParser" = field(init=False)
    temperature_: float | None = field(init=False, default=None)
    relation_temperature_: float | None = field(init=False, default=None)

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Sentences,
        y: None = None,
        sample_weight: ArrayLike | None = None,
        *,
        validation: Sentences | None = None,
        **run: Unpack[RunOptions],
    ) -> "DependencyParser":
        """Train from scratch.

        Parameters
        ----------
        X : path, list of paths, Treebank, sentences as for :meth:`parse`, or Stream
            Trees in CoNLL-U, CoNLL-X or CoNLL-2008. A :class:`omkl.data.Stream` of treebanks
            (:func:`omkl.data.stream_conllu`) is learned block by block, ``epochs`` times, and never held whole. A head
            ``_`` (None in Python) is not annotated: any tree that agrees with the other heads is right.
        y : None
            The trees are in ``X``.
        sample_weight : array of shape (number of sentences,), optional
            How often each sentence counts: an integer is that many copies. Not for streams.
        validation : path, list of paths, Treebank or sentences, optional
            Trees for ``early_stopping`` and calibration, instead of a part of the training data.
        checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self

        Raises
        ------
        omkl.exceptions.InputError
            If a parameter or a sentence is not as described; the parser stays what it was.
        """
        X = check_sentences(X, y)
        check_parameters(self, self._constraints)
        codec = TreebankCodec(self, None if self.keep is None else self._select_templates(X, sample_weight, run))
        given = None if validation is None else check_sentences(validation)
        task = Task(codec, self._read, companions=_beside, finish=codec.finish)
        data = TrainingBlock(X, None, sample_weight)
        held_out: Any = self._train(task, data, None if given is None else (given, None), run)
        self.temperature_ = self.relation_temperature_ = None
        if given is None and held_out is not None and self.model_.codec.first is None:
            given = held_out.treebank[held_out.chosen]
        return self if given is None else self.calibrate(given)

    def _select_templates(self, X: Sentences, sample_weight: ArrayLike | None, run: RunOptions) -> TemplateSet:
        """The templates that ``keep`` asks for, by training on them."""
        if isinstance(X, Stream) or self.first is not None:
            raise InputError("keep= trains several times, which needs sentences, not a stream, and first=None.")
        data = self._read(TrainingBlock(X, None, sample_weight), whole=True)
        candidates = TreebankCodec(self).suited(data)
        return select_templates(self, self.keep, candidates, data.treebank, data.weights, run)

    def _read(self, block: TrainingBlock, first: bool = False, whole: bool = False) -> TreeData:
        return read_trees(block, self.projective, self.single_root, whole)

    def partial_fit(self, X: Sentences, y: None = None, sample_weight: ArrayLike | None = None) -> "DependencyParser":
        """One round of training for each sentence, in the given order.

        The first call fixes the templates and the memory of each. New relations of later calls are learned.

        Parameters
        ----------
        X : as for :meth:`fit`
            A stream is passed over once.

        Returns
        -------
        self
        """
        if self.keep is not None:
            raise InputError("keep= trains several times, and partial_fit once: set keep=None.")
        check_parameters(self, self._constraints)
        task = Task(TreebankCodec(self), self._read, companions=_beside)
        self._train_more(task, TrainingBlock(check_sentences(X, y), None, sample_weight))
        self.temperature_ = self.relation_temperature_ = None
        return self

    def calibrate(self, X: Sentences) -> "DependencyParser":
        """Find the temperatures that make probabilities of scores, on trees that the parser has not learned from.

        Potentials of arcs are divided by ``temperature_``, and scores of relations by ``relation_temperature_``, the
        numbers of the smallest log loss, word by word (temperature scaling: Guo, Pleiss, Sun, Weinberger 2017). The
        predicted trees stay the same. ``fit`` calibrates on the sentences that ``early_stopping`` holds out, unless
        there is a ``first`` parser, which learns from them. Another ``fit`` or ``partial_fit`` undoes it.

        Parameters
        ----------
        X : as for :meth:`fit`
            Words without a head do not count.

        Returns
        -------
        self
        """
        self.temperature_, self.relation_temperature_ = self._decoder.temperatures(X)
        return self

    # ---- parsing ------------------------------------------------------------------------------------------------

    def parse(
        self, X: Sentences, *, required: Arcs = None, forbidden: Arcs = None, confidence: bool = False
    ) -> Treebank:
        """Parse sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank, Stream, or sentences
            A sentence is a list of words or a :class:`~omkl.data.Sentence`; its heads and relations are ignored. A
            warning names the columns that the parser has learned from and the input lacks.
        required, forbidden : list of iterables of (int, int), optional
            Arcs ``(head, word)`` that the tree of each sentence must have, or must not have; words are counted from 1,
            and the head 0 is the root. Not for streams.
        confidence : bool
            Note the probability of the arc to each word in MISC, as ``HeadConf=0.987``, and that of its relation, as
            ``RelConf=0.912``; see :meth:`predict_marginals`.

        Returns
        -------
        Treebank
            The same sentences with the best tree of each, and the relations if the parser is labeled. Iterate it for
            sentences, or write it with :func:`omkl.data.write_treebank`.

        Raises
        ------
        omkl.exceptions.InputError
            If arcs contradict each other, leave no tree, or are not those of the sentence; or if there are no
            probabilities where they are asked for.
        """
        if confidence:
            has_marginals(self, InputError)
        decoder, parsed = self._decoder, []
        for block, constraints in decoder.blocks(X, required, forbidden):
            found = decoder.with_relations(block, decoder.trees(block, constraints))
            parsed.append(decoder.with_confidence(block, found, constraints) if confidence else found)
        return Treebank.concatenate(parsed)

    @property
    def _decoder(self) -> TreeDecoder:
        minimum_risk = self.decode == "marginal" and has_marginals(self, InputError)
        return TreeDecoder(self.model_, self.temperature_, self.relation_temperature_, minimum_risk, self.n_jobs)

    def predict(self, X: Sentences) -> list[np.ndarray]:
        """Heads of each sentence.

        Parameters
        ----------
        X : as for :meth:`parse`

        Returns
        -------
        list of int array of shape (n_words,)
            0 is the root.
        """
        return self.parse(X).trees()

    def predict_nbest(
        self, X: Sentences, n: int = 5, *, required: Arcs = None, forbidden: Arcs = None
    ) -> list[list[Parse]]:
        """The trees of the highest scores of each sentence, best first (Lawler 1972).

        ``decode`` plays no part. Each tree takes as long as parsing the sentence once for each of its words.

        Parameters
        ----------
        X, required, forbidden
            As for :meth:`parse`.
        n : int > 0
            Number of trees; fewer where a sentence has not so many.

        Returns
        -------
        list of list of Parse
            ``(heads, deprels, score)``.
        """
        check_number("n", n, above=0, integer=True)
        decoder = self._decoder
        blocks = decoder.blocks(X, required, forbidden)
        return [parses for block, constraints in blocks for parses in decoder.nbest(block, constraints, int(n))]

    @property
    def relations_(self) -> list[str]:
        """Relations that a labeled parser knows, in the order of the columns of their probabilities."""
        return self._decoder.relations.tolist()

    @available_if(has_marginals)
    def predict_marginals(self, X: Sentences, *, required: Arcs = None, forbidden: Arcs = None) -> list[ParseMarginals]:
        """Probabilities of arcs, and of the relations of the predicted arcs.

        With ``loss="crf"`` the probabilities of arcs are those of the model until it is calibrated; with other losses,
        and for relations, there are none before :meth:`calibrate`.

        Parameters
        ----------
        X, required, forbidden
            As for :meth:`parse`; probabilities are conditional on the constraints.

        Returns
        -------
        list of ParseMarginals
            ``(arcs, relations)`` of each sentence.
        """
        decoder = self._decoder
        found: list[ParseMarginals] = []
        for block, constraints in decoder.blocks(X, required, forbidden):
            found += decoder.marginals(block, decoder.trees(block, constraints), constraints)
        return found

    def explain(
        self,
        x: Treebank | Sentence | Sequence[str],
        *,
        heads: ArrayLike | None = None,
        against: ArrayLike | None = None,
        word: int | None = None,
        n: int = 20,
    ) -> Explanation:
        """Explain why a sentence gets its tree, and not the next best.

        The score of a tree is a sum over arcs and templates, and so is the margin, the difference of two scores.
        Relations play no part.

        Parameters
        ----------
        x : sentence
            A list of words, a :class:`~omkl.data.Sentence`, or a treebank with one sentence.
        heads : int array of shape (n_words,), optional
            The tree to explain; the predicted one by default.
        against : int array of shape (n_words,), optional
            The tree to compare with; by default the best of all others.
        word : int, optional
            Compare with the best tree in which this word, counted from 1, has another head.
        n : int > 0
            Number of features to list.

        Returns
        -------
        omkl.Explanation

        Raises
        ------
        omkl.exceptions.InputError
            If heads do not fit the sentence, or there is no other tree.
        """
        return explain_tree(self._decoder, x, heads, against, word, n)

    # ---- evaluation and templates -------------------------------------------------------------------------------

    def evaluate(self, X: Sentences, ignore: Rule = None) -> dict[str, Any]:
        """Compare predicted with gold trees, as the CoNLL 2018 shared task does.

        Parameters
        ----------
        X : as for :meth:`fit`
            A stream is not held whole.
        ignore : {None, "upos", "xpos", "form"} or callable
            Words that do not count: none; those with UPOS ``PUNCT``; those with a tag of punctuation in the Penn
            treebank; those made of punctuation characters alone, as in the CoNLL-X shared task; or those for which
            ``ignore(form, upos, xpos)`` is true.

        Returns
        -------
        dict
            Scores, counts and tables as of :func:`omkl.evaluate_treebanks`. Tags and lemmas are the gold ones, and
            always right; scores of relations are None for an unlabeled parser.
        """
        return evaluate_blocks(self._compared(X), ignore)

    def _compared(self, X: Sentences) -> Iterator[tuple[Treebank, Treebank]]:
        """Gold and predicted trees, block by block."""
        for gold in treebanks_of(X, trees=True, single_root=self.single_root):
            check_trees(gold)
            yield gold, self.parse(gold)

    def score(self, X: Sentences, y: None = None, ignore: Rule = None) -> float:
        """Unlabeled attachment score.

        Parameters
        ----------
        X, ignore
            As for :meth:`evaluate`.
        y : None

        Returns
        -------
        float
            In [0, 1].
        """
        return self.evaluate(check_sentences(X, y), ignore)["uas"]

    @property
    def template_weights_(self) -> dict[str, float]:
        """Weight of each template by name, in [0, 1], summing to one."""
        return self.kernel_weights_

    def ranking(self) -> list[str]:
        """Names of the templates, the best first: by weight, and of equal weights, as those of an SVM, by norm."""
        return ranked(self.template_weights_, dict(zip(self.templates_.names, self.predictor_.norms.tolist())))

    def prune(self, keep: int) -> "DependencyParser":
        """Make a smaller parser of the best templates; :meth:`fit` may train it anew.

        Parameters
        ----------
        keep : int
            Number of templates.

        Returns
        -------
        DependencyParser
        """
        check_is_fitted(self)
        check_number("keep", keep, above=0, below=len(self.templates_) + 1, integer=True)
        templates = self.templates_.keep(self.ranking()[:keep])
        pruned = clone(self).set_params(templates=templates, lexicons=dict(templates.lexicons) or None, keep=None)
        bank = self.model_.trainer.banks[0].restricted(templates)
        model = pruned._new_model(self.model_.codec.pruned(pruned, templates, bank))
        model.start([bank])
        model.take(self.model_)
        pruned._adopt(model)
        pruned.history_, pruned.n_iter_ = self.history_, self.n_iter_
        return pruned

    def n_features(self) -> int:
        """Number of hashed features whose weight is not zero."""
        return self.model_.trainer.banks[0].n_features()

    def collision_rate(self) -> float:
        """Estimated share of the features that share a weight with another."""
        return self.model_.trainer.banks[0].collision_rate()

    def _read_known(self, block: TrainingBlock) -> TreeData:
        return self._read(block._replace(X=check_sentences(block.X, block.y)))

    # ---- model files --------------------------------------------------------------------------------------------

    _plain_attributes = (*OnlineEstimator._plain_attributes, "temperature_", "relation_temperature_")

    def _codec(self) -> TreebankCodec:
        return TreebankCodec(self)

    def _saved_parameters(self) -> dict[str, Any]:
        templates = self.templates
        if _is_file(templates) and "model_" in self.__dict__:  # the file may have changed
            templates = str(self.templates_).splitlines()
        elif _is_file(templates) or not isinstance(templates, str):
            templates = str(TemplateSet.resolve(templates, dict.fromkeys(self.lexicons or ()))).splitlines()
        return {**super()._saved_parameters(), "templates": templates, "lexicons": None, "first": None}

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        super()._restore(manifest, unpacker)
        self.lexicons = dict(self.templates_.lexicons) or None
        self.first = None if self.model_.codec.first is None else clone(self.first_)
        self.model_.parameters = self.get_params(deep=False)


def _beside(model: OnlineModel, make_pass: Pass) -> list[RelationsBeside]:
    """Callbacks that learn beside the trees of a stream."""
    return [RelationsBeside(model, make_pass)]


def _is_file(templates: object) -> bool:
    """Check whether templates are read from a file."""
    return isinstance(templates, (str, os.PathLike)) and templates not in NAMED_SETS
