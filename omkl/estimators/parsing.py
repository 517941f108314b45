"""Dependency parsing."""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone

from omkl.data import Stream, Treebank
from omkl.estimators.evaluation import evaluate_blocks
from omkl.estimators.explaining_trees import ExplainsTrees
from omkl.estimators.parses import PredictsTrees
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.template_pruning import check_keep, kept_templates
from omkl.estimators.treebank_codec import (
    TreebankCodec,
    TreeData,
    learn_relations,
    read_trees,
    relations_beside,
    tree_rates,
)
from omkl.estimators.treebanks import check_trees, sentences_of, treebanks_of
from omkl.exceptions import InputError
from omkl.groups import TemplateSet
from omkl.groups.template_sets import NAMED_SETS
from omkl.online import OnlineModel
from omkl.persistence import Unpacker


class DependencyParser(ExplainsTrees, PredictsTrees):
    r"""Arc-factored dependency parser that learns which feature templates it needs.

    Each template is a group of hashed features; online proximal steps (Algorithm 1 of Martins et al. 2011) or dual
    averaging train them, and shrink whole templates. A linear classifier labels the arcs of the best tree.

    Parameters
    ----------
    templates : str, path, TemplateSet or iterable of str
        "auto", the richest set that the columns of the training data support: of "rich", those templates that look at
        something. "martins507" (13 views of the head, 13 of the modifier, alone, with direction, with distance),
        "rich" (those, morphology, affixes and the tags between), "mcdonald2005", "small"; a text file with a template
        a line; or templates as :class:`~omkl.groups.TemplateSet` describes them. Whichever they are: where XPOS is
        empty in the training data, UPOS takes its place, and the other way round; templates that look at another field
        that no word has are left out, and equal ones merged. A line says so, for "auto" if ``verbose``. What is parsed
        later is then looked at in the same way, whatever columns it has.
    lexicons : dict of str to path or dict, optional
        Values of words by the name of the lexicon, such as clusters, entries of a gazetteer or bins of vectors: a file
        with ``word<TAB>value`` in each line, or a dict. ``{"cluster": "brown.tsv"}`` makes ``h.cluster`` a field of
        templates, and ``h.cluster:4`` its first four characters. A word is looked up as it is, then in lower case.
        "auto" has templates for each lexicon; the model file holds them all.
    keep : int, "auto" or None
        How many templates stay, the best by weight; on these the parser is trained anew. "auto": as few as one sentence
        in five, held out, allows. Their number is halved, and the parser trained, as long as its attachment score there
        is no worse than the best so far by more than a standard error (of the difference, paired by sentence). That
        takes about twice as long, and gives a parser that is several times as fast. None: all.
    loss : {"hinge", "crf", "softmax-margin", "perceptron"} or StructuredLoss
    regularizer : str, Regularizer or None
        "mkl" by default; "l2" trains a standard support vector machine.
    weighting : {"auto", "out-of-sample", "norms"}
        Whether templates are left out that do not help on sentences not yet learned from; as for
        :class:`~omkl.SequenceLabeler`.
    C : float
        Weight of the losses: the objective is the mean loss of a sentence plus ``R / (C m)`` for m sentences. The
        weights of MKL sum to one over hundreds of templates; so the default, 10, is that much larger than for a few
        kernels.
    epochs : int
    method : {"fobos", "rda"}
        "rda" keeps templates at exactly zero.
    eta0, schedule, average, radius
        As for :class:`~omkl.SequenceLabeler`; ``eta0="auto"`` takes the rates of :class:`~omkl.online.MeanPolyak`, and
        with ``method="rda"`` those of :class:`~omkl.online.DistanceOverGradients`.
    projective : bool
        Whether trees must be projective. Training sentences that are not are then left out, with a warning.
    single_root : bool
        Whether the root has exactly one child, as Universal Dependencies demand. Training sentences with several are
        refused.
    labeled : bool
        Whether relations are learned and predicted.
    ignore : {None, "upos", "xpos", "form"} or callable
        Words whose wrong heads cost nothing in the margin of the hinge loss, as those of punctuation do in most
        evaluations: a rule of :meth:`evaluate`. They are parsed all the same. Not for losses without a margin.
    memory : float
        Megabytes for parameters: weights, their averages and the frozen weights that predict take a third each.
        Templates share what there is by the number of their features in the training data; what does not fit is
        hashed closer: features then share weights, as :meth:`collision_rate` tells.
    exact : bool
        Whether no two features may share a weight. Every pair of views of head and modifier that is met then takes a
        line of its own, so this is for small sets of templates, or much memory.
    dtype : {"float32", "float64"}
    shuffle : bool
        Whether every epoch has an order of its own.
    early_stopping, validation_fraction, n_iter_no_change
        Hold out a fraction of the sentences, and stop when their attachment score has not improved for so many epochs.
    n_examples : int, optional
        The m of the objective; the number of sentences by default, for ``partial_fit`` of those met so far.
    batch_size, l2
        As for :class:`~omkl.SequenceLabeler`.
    n_jobs : int or None
        Threads that parse, each some of the sentences; None is one, -1 one for each core. Trees are the same, bit for
        bit.
    callbacks : list of callable, optional
        As for :class:`~omkl.SequenceLabeler`.
    verbose : bool
        Show a progress bar.
    first : DependencyParser or str, optional
        Stacking (Martins, Das, Smith, Xing 2008): a parser, not fitted, whose potentials this one corrects, and whose
        trees the templates of this one may look at, as those of "stacked" do: ``kinship``, ``m.relation``,
        ``h.parent_upos`` and so on (see :mod:`omkl.groups.templates`). All stays arc-factored. On the training data
        potentials and trees are those of parsers that have not seen the sentence; so training takes ``folds`` times as
        long as that of ``first`` and a little more, and ``C`` may be smaller, as in
        ``DependencyParser("stacked", C=1, first=DependencyParser())``. A string is a set of templates, for a parser
        of three epochs with C = 1 and without relations, and this one's lexicons, kind of trees, memory, threads and
        seed. Not for streams.
    folds : int
        How many parts the training data are divided into for that, at least 2.
    likely : float, optional
        Coarse-to-fine parsing (Charniak and Johnson 2005; Rush and Petrov 2012): the ``first`` parser is not corrected,
        but says at which arcs this one looks: those within a margin of each word's best, and those of its tree. The
        margin is such that this share of right arcs, in (0, 1), is within it, in sentences that the first parser has
        not learned from. A first parser of few templates will do:
        ``DependencyParser(first="small", likely=0.99)``. Other arcs have probability 0; only where arcs are required
        or forbidden, or several trees asked for, all are looked at. None: all arcs.
    decode : {"map", "marginal"}
        Which tree is predicted: the most probable one, or that whose arcs have the largest sum of probabilities, which
        has the most right heads in expectation (minimum risk). The latter needs probabilities, as
        :meth:`predict_marginals` does, and takes O(n^3) for n words.
    random_state : int, RandomState or None

    Attributes
    ----------
    template_weights_ : dict of str to float
        Weight of each template, in [0, 1], summing to one.
    templates_ : TemplateSet
        The templates in use, as they suit the training data.
    first_ : DependencyParser
        With ``first``: that parser, trained on all sentences.
    temperature_, relation_temperature_ : float or None
        What potentials of arcs, and scores of relations, are divided by to make probabilities of them; None where the
        model is not calibrated, see :meth:`calibrate`.
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

    def __init__(
        self, templates: Any = "auto", *, lexicons: Any = None, keep: Any = None, loss: Any = "hinge",
        regularizer: Any = "mkl", weighting: str = "auto", C: float = 10.0,
        epochs: int = 10, method: str = "fobos", eta0: float | str = "auto", schedule: Any = None,
        average: Any = "quadratic", projective: bool = False, single_root: bool = True, labeled: bool = True,
        ignore: Any = None, memory: float = 140.0, exact: bool = False, dtype: Any = "float32",
        radius: float | str | None = None, shuffle: bool = True, early_stopping: bool = False,
        validation_fraction: float = 0.1, n_iter_no_change: int = 5, n_examples: float | None = None,
        batch_size: int = 1, l2: float = 0.0, n_jobs: int | None = None, callbacks: Any = None, verbose: bool = False,
        first: Any = None, folds: int = 3, likely: float | None = None, decode: str = "map", random_state: Any = None,
    ) -> None:  # fmt: skip
        self.templates = templates
        self.lexicons = lexicons
        self.keep = keep
        self.loss = loss
        self.regularizer = regularizer
        self.weighting = weighting
        self.C = C
        self.epochs = epochs
        self.method = method
        self.eta0 = eta0
        self.schedule = schedule
        self.average = average
        self.projective = projective
        self.single_root = single_root
        self.labeled = labeled
        self.ignore = ignore
        self.memory = memory
        self.exact = exact
        self.dtype = dtype
        self.radius = radius
        self.shuffle = shuffle
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_examples = n_examples
        self.batch_size = batch_size
        self.l2 = l2
        self.n_jobs = n_jobs
        self.callbacks = callbacks
        self.verbose = verbose
        self.first = first
        self.folds = folds
        self.likely = likely
        self.decode = decode
        self.random_state = random_state

    _stops_by_inputs = False  # no kernels

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, validation: Any = None, checkpoint: Any = None,
        checkpoint_every: str | float = "60s", resume: bool = False, client: Any = None, shards: int | None = None,
    ) -> "DependencyParser":  # fmt: skip
        """Train from scratch.

        Parameters
        ----------
        X : path, list of paths, Treebank, sentences as for :meth:`parse`, or Stream
            Trees to learn from, in CoNLL-U, CoNLL-X or CoNLL-2008. A :class:`omkl.data.Stream` of treebanks
            (:func:`omkl.data.stream_conllu`) is learned block by block, as by :meth:`partial_fit`, ``epochs`` times,
            and never held whole. Words whose head is ``_`` (None in Python) are not annotated: any tree that agrees
            with the other heads is right, and the best of them, or for the CRF all, are learned from.
        y : None
            The trees are in ``X``.
        sample_weight : array of shape (number of sentences,), optional
            How often each sentence counts: an integer is that many copies. Not for streams.
        validation : path, list of paths, Treebank or sentences, optional
            Trees that ``early_stopping`` looks at after every epoch, instead of a part of the training data. The parser
            is calibrated by them.
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
        running = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, "resume": resume}
        running |= {"client": client, "shards": shards}
        read, codec, X = partial(read_trees, self), self._codec(), sentences_of(X, y)
        if self.keep is not None:
            check_keep(self.keep, self.first)
            if isinstance(X, Stream):
                raise InputError(
                    "keep= trains several times, which takes sentences at hand: a stream goes with keep=None."
                )
            data = read(TrainingBlock(X, None, sample_weight), True, True)
            codec.asked = kept_templates(self, codec.suited(data), data, running)
        held_out: list[Treebank] = []
        looked_at = None if validation is None else (sentences_of(validation), None)

        def finish(model: OnlineModel, examples: Any, chosen: np.ndarray, *others: Any) -> None:
            learn_relations(model, examples, chosen, *others)
            if self.early_stopping and model.codec.first is None and validation is None:
                held_out.append(examples.treebank[np.setdiff1d(np.arange(examples.n_inputs), chosen)])

        self._fit(
            codec,
            read,
            X,
            None,
            sample_weight,
            running,
            companions=relations_beside,
            finish=finish,
            validation=looked_at,
        )
        self.temperature_ = self.relation_temperature_ = None
        held_out += [] if looked_at is None else [looked_at[0]]
        return self.calibrate(held_out[0]) if held_out else self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "DependencyParser":
        """One round of training for each sentence, in the given order.

        The first call fixes the memory of each template, and which templates there are: a warning says what its
        sentences lack. Relations that come later are taken in.

        Parameters
        ----------
        X : as for :meth:`fit`
            A stream is passed over once.

        Returns
        -------
        self
        """
        if self.keep is not None:
            raise InputError("keep= trains several times, which partial_fit does not: set it to None, and prune later.")
        read, codec = partial(read_trees, self), None if "model_" in vars(self) else self._codec()
        self._partial_fit(codec, read, sentences_of(X, y), None, sample_weight, companions=relations_beside)
        self.temperature_ = self.relation_temperature_ = None
        return self

    _automatic_schedule = staticmethod(tree_rates)

    def _codec(self) -> TreebankCodec:
        return TreebankCodec(self)

    # ---- parsing ------------------------------------------------------------------------------------------------

    def evaluate(self, X: Any, ignore: Any = None) -> dict[str, Any]:
        """How well trees and relations are found on gold trees, as the CoNLL 2018 shared task measures it.

        Parameters
        ----------
        X : as for :meth:`fit`
            A stream is not held whole.
        ignore : {None, "upos", "xpos", "form"} or callable
            Which words do not count: none; those with UPOS ``PUNCT``; those with a tag of punctuation in the Penn
            treebank; those made of punctuation characters alone, as in the CoNLL-X shared task; or those for which
            ``ignore(form, upos, xpos)`` is true.

        Returns
        -------
        dict
            As :func:`omkl.estimators.evaluate_treebanks` has them: ``uas``, ``las`` with universal relations and
            ``las_subtypes`` with relations as they are written, ``clas``, ``mlas``, ``blex``, all in [0, 1], those with
            relations None for an unlabeled parser; ``words`` counted, ``sentences``, and ``whole`` (the share of
            sentences with every head right); tables by relation and by length of the arcs. Tags and lemmas are the
            gold ones, and always right.
        """
        return evaluate_blocks(self._compared(X), ignore)

    def _compared(self, X: Any) -> Iterator[tuple[Treebank, Treebank]]:
        """Gold trees, and what the parser makes of their sentences, block by block."""
        for gold in treebanks_of(X, trees=True, single_root=self.single_root):
            check_trees(gold)
            yield gold, self.parse(gold)

    def score(self, X: Any, y: Any = None, ignore: Any = None) -> float:
        """Unlabeled attachment score in [0, 1]; see :meth:`evaluate`."""
        return self.evaluate(sentences_of(X, y), ignore)["uas"]

    def group_report(self, X: Any, y: Any = None) -> list[dict[str, Any]]:
        """What each template costs, and how much it helps on trees that the parser has not learned from.

        The records are those of :meth:`omkl.SequenceLabeler.group_report`, the loss that of whole sentences; relations
        play no part.

        Parameters
        ----------
        X : as for :meth:`fit`
        y : None
        """
        return super().group_report(sentences_of(X, y))

    def _read_known(self, block: TrainingBlock) -> TreeData:
        return read_trees(self, block, first=False)

    # ---- model files --------------------------------------------------------------------------------------------

    _plain_attributes = (*PredictsTrees._plain_attributes, "temperature_", "relation_temperature_")

    def _saved_parameters(self) -> dict[str, Any]:
        templates = self.templates
        if not isinstance(templates, str) or templates not in NAMED_SETS:
            read = vars(self)["model_"].codec.read if "model_" in vars(self) else None  # the file may be another by now
            if read is None or not isinstance(templates, (str, os.PathLike)):
                read = TemplateSet.resolve(templates, dict.fromkeys(self.lexicons or ()))
            templates = str(read).splitlines()
        return {**super()._saved_parameters(), "templates": templates, "lexicons": None, "first": None}

    def _restore(self, manifest: dict[str, Any], unpacker: Unpacker) -> None:
        super()._restore(manifest, unpacker)
        self.lexicons = dict(self.templates_.lexicons) or None
        self.first = None if self.model_.codec.first is None else clone(self.first_)
        self._adopt(self.model_)  # with these parameters
