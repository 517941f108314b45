"""DependencyParser, a parser of first or second order with online multiple kernel learning."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from omkl._components import check_number
from omkl.data import Sentence, Stream, Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.calibration import WithMarginals, needs_probabilities
from omkl.estimators.explanations import Explanation, explanation, summary_of
from omkl.estimators.options import Passes
from omkl.estimators.sources import ExamplesLike, OutputsLike, TrainingBlock
from omkl.estimators.training import RunOptions, Task
from omkl.estimators.validation import InstanceOf, Number, check_parameters
from omkl.exceptions import InputError
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import TemplateSet
from omkl.online.group_contributions import contributions, norms_of
from omkl.online.model import OnlineModel
from omkl.online.rounds import Record
from omkl.online.training_loop import Pass
from omkl.parsing import template_selection
from omkl.parsing.codec import TreebankCodec, read_trees, tree_rates
from omkl.parsing.decoding import AdviceRequest, Arcs, Parse, ParseMarginals, TreeDecoder
from omkl.parsing.evaluation import Rule, evaluate_blocks
from omkl.parsing.explanations import FeatureNamer, best_other_tree, describe_differences
from omkl.parsing.options import TreeForm, TreeSearch
from omkl.parsing.relations import RelationTraining
from omkl.parsing.sentences import (
    ArcExamples,
    Sentences,
    TreeData,
    check_sentences,
    check_trees,
    treebanks_of,
)
from omkl.persistence import Manifest, Unpacker
from omkl.structures.trees.arc_factored import as_heads


@dataclass(kw_only=True, eq=False, repr=False)
class DependencyParser(OnlineEstimator[TreebankCodec]):
    """Dependency parser that learns which feature templates it needs.

    The score of a tree is a sum over its arcs, and by default over pairs of arcs. Each template is
    a group of hashed features of these parts. Training by online proximal steps (Algorithm 1 of
    Martins et al. 2011) or dual averaging sets whole templates to zero. A linear classifier
    predicts the relations of the arcs in the best tree.

    Parameters
    ----------
    templates : str, path, TemplateSet or iterable of str
        A named set, a text file with one template per line, or templates as described in
        :class:`~omkl.groups.TemplateSet`. Named sets are "martins507" (13 views of the head times
        13 of the modifier, each alone, with direction, and with distance), "rich" (these, and
        morphology, affixes and tags in between), "mcdonald2005", "small", and "parts" (of
        grandparents and siblings).
        "auto" is "rich" and "parts", without templates of columns that the training data lacks. In
        all cases, UPOS and XPOS replace each other if one of them is empty, templates of missing
        columns are dropped, and duplicates are merged. A warning reports these changes; with
        "auto", a line of text if ``verbose``.
    lexicons : dict of str to path or dict, optional
        Lexicons by name, which map words to values such as clusters, entries of a gazetteer or bins
        of vectors: a file with ``word<TAB>value`` in each line, or a dict. ``{"cluster":
        "brown.tsv"}`` makes ``h.cluster`` a field of templates, and ``h.cluster:4`` its first four
        characters. Words are looked up unchanged first, then in lower case. ``templates="auto"``
        includes templates for each lexicon. Model files contain the lexicons.
    keep : int, "auto" or None
        Number of templates to select by weight; the parser is then retrained on these. "auto"
        eliminates half of the templates again and again, those without which the loss on held-out
        sentences increases least, and retrains. It keeps the smallest number whose attachment score
        on other held-out sentences is within a standard error of the best score. This takes two to
        three times as long, and gives a parser that is several times as fast. None keeps all
        templates.
    trees : TreeForm
        Whether trees are projective, have a single root, and have relations.
    search : TreeSearch
        Whether to score pairs of arcs as well, and only likely arcs, and which tree to predict.
    memory : float
        Megabytes for parameters: a third each for weights, their averages, and the frozen weights
        for prediction. It is allocated to templates by their number of features; with parts,
        a quarter is for parts. Features that do not fit share weights; see :meth:`collision_rate`.
    loss, regularizer, weighting, C, epochs, method, learning_rate, average, radius, \
early_stopping, n_jobs, callbacks, verbose, random_state
        As for :class:`~omkl.SequenceLabeler`. The automatic learning rate is that of
        :class:`~omkl.online.MeanPolyak`, or with ``method="rda"`` of
        :class:`~omkl.online.DistanceOverGradients`. Early stopping uses
        the attachment score.

    Attributes
    ----------
    template_weights_ : dict of str to float
        Weight of each template, in [0, 1], summing to one.
    templates_ : TemplateSet
        Templates in use, adapted to the training data.
    first_ : DependencyParser
        Trained first parser, if there is one. It can predict, but not be trained further.
    temperature_, relation_temperature_ : float or None
        Temperatures by which potentials of arcs and scores of relations are divided to get
        log-probabilities; see
        :meth:`calibrate`.
    pruning_curve_ : list of dict, or None
        With ``keep="auto"``, for each number of ``templates`` the ``accuracy`` of a parser
        retrained on the best ones (the share of correct heads of held-out words), by how much it is
        ``behind`` the best one, and the ``standard_error`` of this difference.
        :func:`omkl.reports.plot_pruning` draws it.
    history_ : list of dict
        A flat record of each epoch; see :meth:`omkl.online.TrainingLoop.run`.

    References
    ----------
    McDonald, Pereira, Ribarov, Hajic (2005), Non-projective dependency parsing using spanning tree
    algorithms. McDonald, Pereira (2006), Online learning of approximate dependency parsing
    algorithms. Zhang, Lei, Barzilay, Jaakkola (2014), Greed is good if randomized: new inference
    for dependency parsing. Martins, Smith, Xing, Aguiar, Figueiredo (2011), Online multiple kernel
    learning for structured prediction.

    Examples
    --------
    >>> from omkl.data import Sentence
    >>> dogs = Sentence(
    ...     forms=["dogs", "bark"],
    ...     lemmas=["dog", "bark"],
    ...     upos=["NOUN", "VERB"],
    ...     xpos=["N", "V"],
    ...     heads=[2, 0],
    ...     deprels=["nsubj", "root"],
    ... )
    >>> parser = DependencyParser("small", epochs=3, memory=10, random_state=0).fit([dogs])
    >>> parser.parse([dogs])[0].heads
    [2, 0]
    """

    _constraints = {
        **OnlineEstimator._constraints,
        "keep": Number(above=0, integer=True, also=("auto", None)),
        "memory": Number(above=0),
        "trees": InstanceOf(TreeForm),
        "search": InstanceOf(TreeSearch),
    }
    _automatic_schedule = staticmethod(tree_rates)

    templates: Any = field(default="auto", kw_only=False)
    lexicons: Any = None
    keep: Any = None
    C: float = 10.0
    epochs: int | Passes = 10
    trees: TreeForm = field(default=TreeForm())
    search: TreeSearch = field(default=TreeSearch())
    memory: float = 160.0

    templates_: TemplateSet = field(init=False)
    first_: "DependencyParser" = field(init=False)
    temperature_: float | None = field(init=False, default=None)
    relation_temperature_: float | None = field(init=False, default=None)
    pruning_curve_: list[Record] | None = field(init=False, default=None)

    # ---- training --------------------------------------------------------------------------------

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
            Trees in CoNLL-U, CoNLL-X or CoNLL-2008. The parser is trained on the blocks of a
            :class:`omkl.data.Stream` of treebanks (:func:`omkl.data.stream_conllu`) ``epochs``
            times, without loading all data into memory. Heads ``_`` (None in Python) are unknown:
            any tree that agrees with the known heads is correct.
        y : None
            Ignored, as ``X`` contains the trees.
        sample_weight : array of shape (number of sentences,), optional
            Weight of each sentence; an integer weight is equivalent to that many copies. Not for
            streams.
        validation : path, list of paths, Treebank or sentences, optional
            Trees for ``early_stopping`` and calibration, instead of a part of the training data.
        checkpoint, checkpoint_every, resume, client, shards
            As for :meth:`omkl.SequenceLabeler.fit`.

        Returns
        -------
        self
        """
        X = check_sentences(X, y)
        check_parameters(self, self._constraints)
        block = TrainingBlock(X, None, sample_weight)
        templates = None
        curve = None
        if self.keep is not None:
            if isinstance(X, Stream):
                raise InputError("keep= requires several trainings: pass sentences, not a stream.")
            data = self._read(block, is_all_data=True)
            candidates = self._codec().suitable_templates(data)
            templates, curve = template_selection.select_templates(
                self, self.keep, candidates, data, run
            )
        codec = TreebankCodec(self, templates, run)
        task = Task(
            lambda: codec,
            self._read,
            companions=_companions,
            finish=codec.finish,
            passes=codec.passes,
        )
        calibration = None
        validation_pair = None
        if validation is not None:
            calibration = check_sentences(validation)
            validation_pair = (calibration, None)
        held_out = self._train(task, block, validation_pair, run)
        self.temperature_ = None
        self.relation_temperature_ = None
        self.pruning_curve_ = curve
        # a first parser has seen the held-out sentences
        can_calibrate = isinstance(held_out, ArcExamples) and not codec.stage.first
        if validation is None and can_calibrate:
            calibration = held_out.treebank[held_out.chosen]
        return self if calibration is None else self.calibrate(calibration)

    def _read(
        self, block: TrainingBlock, first: bool = False, is_all_data: bool = False
    ) -> TreeData:
        return read_trees(block, self.trees.projective, self.trees.single_root, is_all_data)

    def partial_fit(
        self, X: Sentences, y: None = None, sample_weight: ArrayLike | None = None
    ) -> "DependencyParser":
        """Train for one round on each sentence, in the given order.

        The first call determines the templates and the memory of each. Later calls can add new
        relations.

        Parameters
        ----------
        X : as for :meth:`fit`
            A stream is read once.

        Returns
        -------
        self
        """
        if self.keep is not None:
            raise InputError(
                "keep= requires several trainings, which partial_fit cannot do: set keep=None."
            )
        check_parameters(self, self._constraints)
        task = Task(self._codec, self._read, companions=_companions)
        self._train_more(task, TrainingBlock(check_sentences(X, y), None, sample_weight))
        self.temperature_ = None
        self.relation_temperature_ = None
        return self

    def calibrate(self, X: Sentences) -> "DependencyParser":
        """Calibrate probabilities by temperature scaling on held-out trees.

        Potentials of arcs are divided by ``temperature_``, and scores of relations by
        ``relation_temperature_``. These temperatures minimize the log loss of words (Guo, Pleiss,
        Sun, Weinberger 2017), and do not change predictions. With ``early_stopping``, ``fit``
        calibrates on the held-out sentences, unless a ``first`` parser is trained on these. Another
        ``fit`` or ``partial_fit`` removes the temperatures.

        Parameters
        ----------
        X : as for :meth:`fit`
            Words without a head are ignored.

        Returns
        -------
        self
        """
        decoder = TreeDecoder(self.model_, n_jobs=self.n_jobs)
        self.temperature_, self.relation_temperature_ = decoder.temperatures(X)
        return self

    # ---- parsing ---------------------------------------------------------------------------------

    def parse(
        self,
        X: Sentences,
        *,
        required: Arcs = None,
        forbidden: Arcs = None,
        confidence: bool = False,
    ) -> Treebank:
        """Parse sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank, Stream, or sentences
            A sentence is a list of words or a :class:`~omkl.data.Sentence`; its heads and relations
            are ignored. A warning names missing columns that the parser uses.
        required, forbidden : list of iterables of (int, int), optional
            Required or forbidden arcs ``(head, word)`` of the tree of each sentence. Words are
            counted from 1, and head 0 is the root. Not for streams.
        confidence : bool
            Write probabilities to MISC: ``HeadConf=0.987`` for the arc to each word, and
            ``RelConf=0.912`` for its relation; see :meth:`predict_marginals`.

        Returns
        -------
        Treebank
            The sentences with predicted trees, and relations if the parser is labeled. Iterating
            over it yields sentences; :func:`omkl.data.write_treebank` writes it to a file.

        Raises
        ------
        omkl.exceptions.InputError
            If required and forbidden arcs allow no tree or do not exist in the sentence, or if
            ``confidence`` or ``decode`` require probabilities and the parser has none.
        """
        if confidence:
            needs_probabilities(self, InputError)
        decoder = self._decoder
        parsed = []
        for block, constraints in decoder.blocks(X, required, forbidden):
            if confidence:
                trees, marginals = decoder.trees_with_marginals(block, constraints)
                parsed.append(decoder.with_confidences(trees, marginals))
            else:
                parsed.append(decoder.with_relations(block, decoder.trees(block, constraints)))
        return Treebank.concatenate(parsed)

    @property
    def columns_(self) -> tuple[str, ...]:
        """Predicted columns, by their names in :class:`~omkl.data.Sentence`."""
        if self.trees.labeled:
            return "heads", "deprels"
        return ("heads",)

    def _models_for(self, treebank: Treebank, trees: bool) -> tuple[None, TreeDecoder]:
        """Return no tagger, and the decoder, to annotate sentences.

        Raise an InputError unless the parser has probabilities.
        """
        needs_probabilities(self, InputError)
        return None, self._decoder

    @property
    def _decoder(self) -> TreeDecoder:
        minimum_risk = self.search.decode == "marginal" and needs_probabilities(self, InputError)
        return TreeDecoder(
            self.model_,
            temperature=self.temperature_,
            relation_temperature=self.relation_temperature_,
            minimum_risk=minimum_risk,
            n_jobs=self.n_jobs,
        )

    def predict(self, X: Sentences) -> list[np.ndarray]:
        """Predict the heads of each sentence.

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
        """Predict the n best trees of each sentence, best first (Lawler 1972).

        ``decode`` is ignored. Each tree takes as long as parsing the sentence n_words times. With
        ``order=2``, these are good trees that the search finds, and may not be the best ones.

        Parameters
        ----------
        X, required, forbidden
            As for :meth:`parse`.
        n : int > 0
            Number of trees; fewer if a sentence does not have n.

        Returns
        -------
        list of list of Parse
            ``(heads, deprels, score)``.
        """
        check_number("n", n, above=0, integer=True)
        decoder = self._decoder
        parses: list[list[Parse]] = []
        for block, constraints in decoder.blocks(X, required, forbidden):
            parses.extend(decoder.nbest(block, constraints, int(n)))
        return parses

    @property
    def relations_(self) -> list[str]:
        """Relations of a labeled parser, in the order of the columns of their probabilities."""
        return self._decoder.relations.tolist()

    @WithMarginals
    def predict_marginals(
        self, X: Sentences, *, required: Arcs = None, forbidden: Arcs = None
    ) -> list[ParseMarginals]:
        """Predict probabilities of arcs, and of the relations of the predicted arcs.

        With ``loss="crf"``, probabilities of arcs do not require calibration. With other losses,
        and for relations, probabilities are available after :meth:`calibrate`. With ``order=2``,
        probabilities of arcs are approximate: a mixture of the marginals of the first-order parser
        and the best tree.

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
        relations = decoder.relation_temperature is not None
        marginals = []
        for block, constraints in decoder.blocks(X, required, forbidden):
            marginals += decoder.trees_with_marginals(block, constraints, relations)[1]
        return marginals

    def explain(
        self,
        x: Treebank | Sentence | Sequence[str],
        *,
        heads: ArrayLike | None = None,
        against: ArrayLike | None = None,
        word: int | None = None,
        n: int = 20,
    ) -> Explanation:
        """Explain the tree of a sentence in comparison with the next best tree.

        The score of a tree is a sum over arcs and templates, and so is the margin, the difference
        of the two scores. Relations are not explained.

        Parameters
        ----------
        x : sentence
            A list of words, a :class:`~omkl.data.Sentence`, or a treebank with one sentence.
        heads : int array of shape (n_words,), optional
            The tree to explain; the predicted one by default.
        against : int array of shape (n_words,), optional
            The tree to compare with; the best other tree by default.
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
        decoder = self._decoder
        codec = self.model_.codec
        [(block, _)] = decoder.blocks(x if isinstance(x, Treebank) else [x])
        if len(block) != 1:
            raise InputError(f"`x` must be one sentence, got {len(block)}.")
        if word is not None:
            check_number("word", word, above=0, below=block.n_words + 1, integer=True)
        trees = [as_heads(tree, block.n_words) for tree in (heads, against) if tree is not None]
        request = AdviceRequest(right=trees, wide=True)
        sentence = codec.tokens(block, request).sentence(0)
        predictor = self.model_.predictor()
        potentials = predictor.potentials(sentence)
        tree = decoder.trees(block)[0] if heads is None else trees[0]
        if against is None:
            other = best_other_tree(codec.structure, potentials, tree, word)
        else:
            other = trees[-1]
        if other is None:
            raise InputError("There is no other tree to compare with.")
        margin, direction = codec.structure.difference(potentials, tree, other)
        adding = codec.stage.with_contributions_of_first(
            contributions(predictor, sentence, direction), block, request, direction
        )
        namer = FeatureNamer(codec.all_templates, block)
        differences = summary_of(describe_differences(block, tree, other))
        return explanation(tree, other, differences, margin, adding, n, namer.names_of)

    # ---- evaluation and templates ----------------------------------------------------------------

    def evaluate(self, X: Sentences, ignore: Rule = None) -> dict[str, Any]:
        """Evaluate predicted trees as in the CoNLL 2018 shared task.

        Parameters
        ----------
        X : as for :meth:`fit`
            Streams are read block by block.
        ignore : {None, "upos", "xpos", "form"} or callable
            Words to ignore: none; words with UPOS ``PUNCT``; words with an XPOS for punctuation in
            the Penn Treebank; words of punctuation characters only, as in the CoNLL-X shared task;
            or words for which ``ignore(form, upos, xpos)`` is true.

        Returns
        -------
        dict
            Scores, counts and tables of :func:`omkl.evaluate_treebanks`. Tags and lemmas are copied
            from the gold sentences, so their scores are 1. Scores of relations are None for an
            unlabeled parser.
        """
        blocks = map(check_trees, treebanks_of(X, trees=True, single_root=self.trees.single_root))
        return evaluate_blocks(((gold, self.parse(gold)) for gold in blocks), ignore)

    def score(self, X: Sentences, y: None = None, ignore: Rule = None) -> float:
        """Return the unlabeled attachment score.

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

    template_weights_ = OnlineEstimator.kernel_weights_

    @property
    def _models(self) -> list[OnlineModel]:
        return self.model_.codec.stage.models(self.model_)

    @property
    def _banks(self) -> list[ArcTemplateBank]:
        trainers = [model.trainer for model in self._models]
        return list(chain.from_iterable(map(template_selection.template_banks, trainers)))

    def group_report(self, X: ExamplesLike, y: OutputsLike = None) -> list[Record]:
        """Report the size of each template, and how much it helps on held-out trees.

        See :meth:`omkl.OnlineMKLClassifier.group_report`. With ``order=2``, losses without a
        template of arcs are those of the first-order parser.
        """
        return super().group_report(check_sentences(X, y))

    def memory_usage(self) -> dict[str, float]:
        usage = super().memory_usage()
        for first in self.model_.codec.stage.first:
            for key, megabytes in first.memory_usage().items():
                usage[key] += megabytes
        return usage

    def ranking(self) -> list[str]:
        """Return the names of the templates, best first.

        Their order is by weight, then by norm, as the weights of an SVM are equal.
        """
        weights = self.template_weights_
        norms = norms_of([model.trainer for model in self._models])
        return sorted(weights, key=lambda name: (weights[name], norms[name]), reverse=True)

    def prune(self, keep: int) -> "DependencyParser":
        """Return a smaller parser with the best templates, without retraining.

        Parameters
        ----------
        keep : int
            Number of templates.

        Returns
        -------
        DependencyParser
        """
        ranking = template_selection.arcs_first(self.ranking(), self.templates_)
        check_number("keep", keep, above=0, below=len(ranking) + 1, integer=True)
        return self._restricted(ranking[:keep])

    def _restricted(self, names: Sequence[str]) -> "DependencyParser":
        """Return a parser with some of the templates, and their present weights."""
        from sklearn.base import clone

        codec = self.model_.codec
        templates = self.templates_.keep(names)
        lexicons = dict(templates.lexicons) or None
        pruned = clone(self).set_params(templates=templates, lexicons=lexicons, keep=None)
        banks = template_selection.restricted_banks(self.model_.trainer, names)
        stage = codec.stage.restricted(names, DependencyParser._restricted)
        if not banks:  # all parts are gone
            stage.first[0].model_.codec.relations = codec.relations
            return stage.first[0].set_params(trees=self.trees)
        model = pruned._new_model(codec.pruned(pruned, banks, stage))
        model.start(banks)
        model.take(self.model_)
        pruned._adopt(model)
        pruned.history_ = self.history_
        pruned.n_iter_ = self.n_iter_
        return pruned

    def n_features(self) -> int:
        """Return the number of hashed features with nonzero weight."""
        return sum(bank.n_features() for bank in self._banks)

    def collision_rate(self) -> float:
        """Estimate the fraction of features that share a weight with another feature."""
        weights = np.maximum([bank.n_features() for bank in self._banks], 1)
        return float(np.average([bank.collision_rate() for bank in self._banks], weights=weights))

    def _read_for_evaluation(self, block: TrainingBlock) -> TreeData:
        return self._read(block._replace(X=check_sentences(block.X, block.y)))

    _plain_attributes = (
        *OnlineEstimator._plain_attributes,
        "temperature_",
        "relation_temperature_",
        "pruning_curve_",
    )
    example_kind = "trees"

    def _codec(self) -> TreebankCodec:
        return TreebankCodec(self)

    def _saved_parameters(self) -> dict[str, Any]:
        used = None if self._model is None else self.templates_
        lines = template_selection.saved_templates(self.templates, self.lexicons or (), used)
        return {**super()._saved_parameters(), "templates": lines}

    def _restore(self, manifest: Manifest, unpacker: Unpacker) -> None:
        super()._restore(manifest, unpacker)
        self.lexicons = dict(self.templates_.lexicons) or None
        self.model_.parameters = self.get_params(deep=False)


def _companions(model: OnlineModel, make_pass: Pass) -> list[RelationTraining]:
    """Return callbacks that learn from each block after the trees."""
    return [RelationTraining(model, make_pass)]
