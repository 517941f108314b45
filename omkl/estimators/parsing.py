"""Dependency parsing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from omkl._components import check_number, resolve
from omkl.data import Stream, Strings, Treebank
from omkl.estimators.arc_examples import encode, strongest_features
from omkl.estimators.attachment import attachment_scores
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.examples import check_sample_weight
from omkl.estimators.runs import Run
from omkl.estimators.streaming import TrainingBlock
from omkl.estimators.treebank_codec import TreebankCodec, TreeData
from omkl.estimators.treebanks import as_treebank, check_trees, only_projective
from omkl.exceptions import InputError
from omkl.groups import TemplateSet
from omkl.losses import CRF, StructuredLoss
from omkl.online import MeanPolyak, OnlineModel, OnlineSettings

#: Features of each template that a parser remembers by name.
TOP = 10


class DependencyParser(OnlineEstimator):
    r"""Arc-factored dependency parser that learns which feature templates it needs.

    Each template is a group of hashed features; online proximal steps (Algorithm 1 of Martins et al. 2011) or dual
    averaging train them, and shrink whole templates. A linear classifier labels the arcs of the best tree.

    Parameters
    ----------
    templates : str, path, TemplateSet or iterable of str
        "martins507" (13 views of the head, 13 of the modifier, alone, with direction, with distance), "rich" (those,
        morphology, affixes and the tags between), "mcdonald2005", "small"; a text file with a template a line; or
        templates as :class:`~omkl.groups.TemplateSet` describes them.
    loss : {"hinge", "crf", "perceptron"} or StructuredLoss
    regularizer : str, Regularizer or None
        "mkl" by default; "l2" trains a standard support vector machine.
    C : float
        Weight of the losses: the objective is the mean loss of a sentence plus ``R / (C m)`` for m sentences.
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
    callbacks : list of callable, optional
        As for :class:`~omkl.SequenceLabeler`.
    verbose : bool
        Show a progress bar.
    random_state : int, RandomState or None

    Attributes
    ----------
    template_weights_ : dict of str to float
        Weight of each template, in [0, 1], summing to one.
    templates_ : TemplateSet
        The templates in use: those that need a field which the training data lacks are left out.
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
        self, templates: Any = "martins507", *, loss: Any = "hinge", regularizer: Any = "mkl", C: float = 1.0,
        epochs: int = 10, method: str = "fobos", eta0: float | str = "auto", schedule: Any = None,
        average: Any = "quadratic", projective: bool = False, single_root: bool = True, labeled: bool = True,
        memory: float = 140.0, exact: bool = False, dtype: Any = "float32", radius: float | str | None = None,
        shuffle: bool = True, early_stopping: bool = False, validation_fraction: float = 0.1,
        n_iter_no_change: int = 5, n_examples: float | None = None,
        batch_size: int = 1, l2: float = 0.0, callbacks: Any = None, verbose: bool = False,
        random_state: Any = None,
    ) -> None:  # fmt: skip
        self.templates = templates
        self.loss = loss
        self.regularizer = regularizer
        self.C = C
        self.epochs = epochs
        self.method = method
        self.eta0 = eta0
        self.schedule = schedule
        self.average = average
        self.projective = projective
        self.single_root = single_root
        self.labeled = labeled
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
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None,
        checkpoint_every: str | float = "60s", resume: bool = False, client: Any = None, shards: int | None = None,
    ) -> "DependencyParser":  # fmt: skip
        """Train from scratch.

        Parameters
        ----------
        X : path, list of paths, Treebank, iterable of Sentence, or Stream
            Trees to learn from, in CoNLL-U, CoNLL-X or CoNLL-2008. A :class:`omkl.data.Stream` of treebanks
            (:func:`omkl.data.stream_conllu`) is learned block by block, as by :meth:`partial_fit`, ``epochs`` times,
            and never held whole.
        y : ignored
            The trees are in ``X``.
        sample_weight : array of shape (number of sentences,), optional
            How often each sentence counts: an integer is that many copies. Not for streams.
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
        return self._fit(X, None, sample_weight, {**running, "client": client, "shards": shards})

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "DependencyParser":
        """One round of training for each sentence, in the given order.

        The first call fixes the memory of each template. Relations that come later are taken in; no template is left
        out, whatever the first sentences lack.

        Parameters
        ----------
        X : as for :meth:`fit`
            A stream is passed over once.

        Returns
        -------
        self
        """
        return self._partial_fit(X, None, sample_weight)

    def _settings(self) -> OnlineSettings:
        check_number("memory", self.memory, above=0)
        if self.dtype not in ("float32", "float64", np.float32, np.float64):
            raise InputError(f'dtype must be "float32" or "float64", not {self.dtype!r}.')
        return super()._settings()

    def _automatic_schedule(self) -> Any:
        # trees are learned by heart, whatever the rate: what generalises is how they are approached (see MeanPolyak);
        # dual averaging starts afresh in every round, and asks how far it has to go
        if self.method != "fobos":
            return super()._automatic_schedule()
        # the gradient of a CRF is spread over all arcs: the step that just mends a sentence is three times as long as
        # this mean says (measured on English: 87.0 against 86.5 attached)
        return MeanPolyak(3.0 if isinstance(resolve(StructuredLoss, self.loss, "loss"), CRF) else 1.0)

    def _codec(self) -> TreebankCodec:
        return TreebankCodec(self)

    def _read(self, block: TrainingBlock, first: bool, whole: bool = False) -> TreeData:
        """The sentences to train on, which the structure can produce."""
        treebank = as_treebank(block.X, trees=True, single_root=self.single_root)
        check_trees(treebank, self.single_root)
        weights = check_sample_weight(block.sample_weight, len(treebank))
        kept = only_projective(treebank) if self.projective else np.ones(len(treebank), dtype=bool)
        if whole and weights is not None:
            kept = kept & (weights > 0)
        if not kept.all():
            if not kept.any():
                raise InputError("sample_weight is zero for every projective sentence: nothing is left to train on.")
            treebank, weights = treebank[kept], None if weights is None else weights[kept]
        return TreeData(treebank, weights, whole)

    def _stream(self, X: Any, y: Any) -> Stream | None:
        return X if isinstance(X, Stream) else None

    def _finish(
        self, model: OnlineModel, data: TreeData, examples: Any, chosen: np.ndarray, run: Run, epochs: int
    ) -> None:
        codec = model.codec
        if codec.relations is not None:
            weights = None if data.weights is None else data.weights[chosen]
            codec.relations.fit(data.treebank[chosen], weights, self.C, epochs, run, self.verbose)
        codec.features = strongest_features(model.trainer.banks[0], data.treebank, examples, TOP)

    def _companions(self, model: OnlineModel, make_pass: Callable) -> list[Any]:
        return [] if model.codec.relations is None else [_Relations(model.codec, make_pass)]

    # ---- parsing ------------------------------------------------------------------------------------------------

    def parse(self, X: Any) -> Treebank:
        """Parse sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank, Sentence or iterable of Sentence
            Heads and relations in it are not looked at.

        Returns
        -------
        Treebank
            The same sentences with the best tree of each, and the relations if the parser is labeled. Iterate it for
            sentences, or write it with :func:`omkl.data.write_treebank`.
        """
        predictor = self.predictor_
        treebank = as_treebank(X, trees=False)
        codec = self.model_.codec
        tokens = encode(treebank, codec.templates)
        heads = [np.zeros(0, np.int64)]
        for sentences in tokens.blocks():
            heads += map(predictor.structure.decode, predictor.banks[0].potentials_of(sentences))
        heads = np.concatenate(heads)
        relations, strings = np.zeros(len(heads), np.int32), Strings()
        if codec.relations is not None:
            relations = codec.relations.predict(codec.relations.encode(treebank), heads, treebank.offsets)
            strings = codec.relations.strings
        return replace(
            treebank, heads=heads.astype(np.int32), deprels=relations, strings={**treebank.strings, "deprels": strings}
        )

    def predict(self, X: Any) -> list[np.ndarray]:
        """Heads of each sentence: a list of int arrays; 0 is the root."""
        parsed = self.parse(X)
        return np.split(parsed.heads, parsed.offsets[1:-1])

    def evaluate(self, X: Any, ignore: Any = None) -> dict[str, Any]:
        """Attachment scores on gold trees.

        Parameters
        ----------
        X : as for :meth:`fit`
        ignore : {None, "upos", "xpos", "form"} or callable
            Which words do not count: none; those with UPOS ``PUNCT``; those with a tag of punctuation in the Penn
            treebank; those made of punctuation characters alone, as in the CoNLL-X shared task; or those for which
            ``ignore(form, upos, xpos)`` is true.

        Returns
        -------
        dict
            ``uas`` and ``las`` (None for an unlabeled parser) in [0, 1], ``words`` counted, ``sentences``, and
            ``whole`` (the share of sentences with every head right).
        """
        gold = as_treebank(X, trees=True, single_root=self.single_root)
        check_trees(gold, single_root=False)
        return attachment_scores(gold, self.parse(gold), self.model_.codec.relations is not None, ignore)

    def score(self, X: Any, y: Any = None, ignore: Any = None) -> float:
        """Unlabeled attachment score in [0, 1]; see :meth:`evaluate`."""
        return self.evaluate(X, ignore)["uas"]

    @property
    def template_weights_(self) -> dict[str, float]:
        """Weight of each template by name, in [0, 1], summing to one."""
        return self.kernel_weights_

    def prune(self, keep: int, by: str = "weights") -> "DependencyParser":
        """A smaller parser of the best templates, to use as it is or to train anew with :meth:`fit`.

        Parameters
        ----------
        keep : int
            How many templates stay.
        by : {"weights", "norms"}
            Rank by the learned weights, or by the norms of the groups, which also tell the templates of an SVM apart.

        Returns
        -------
        DependencyParser
        """
        check_number("keep", keep, above=0, integer=True)
        if keep > len(self.templates_):
            raise InputError(f"keep={keep}, but there are {len(self.templates_)} templates.")
        templates = self.templates_.keep(self.ranking(by)[:keep])
        pruned = clone(self).set_params(templates=templates)
        bank = self.model_.trainer.banks[0].restricted(templates)
        model = OnlineModel(self.model_.codec.pruned(pruned, bank), pruned._settings())
        model.start([bank]).take(self.model_.trainer)
        pruned._adopt(model)
        pruned.history_, pruned.n_iter_ = self.history_, self.n_iter_
        return pruned

    def ranking(self, by: str = "weights") -> list[str]:
        """Names of the templates, the best first; see :meth:`prune`."""
        check_is_fitted(self)
        if by not in ("weights", "norms"):
            raise InputError(f'by must be "weights" or "norms", not {by!r}.')
        values = (
            self.template_weights_ if by == "weights" else dict(zip(self.templates_.names, self.model_.trainer.norms))
        )
        return sorted(values, key=values.get, reverse=True)

    def top_features(self, n: int = 10, group: str | None = None) -> list[dict[str, Any]]:
        """The strongest features of the last model of :meth:`fit` (not of the averaged one, which predicts).

        Only features that an arc of a training tree fires have names, and are listed.

        Parameters
        ----------
        n : int
        group : str, optional
            Only features of this template.

        Returns
        -------
        list of dict
            ``feature``, ``group`` and ``weight``; largest magnitude first, at most :data:`TOP` a template.
        """
        check_is_fitted(self)
        return self.model_.codec.top_features(self.predictor_, n, group)

    def n_features(self) -> int:
        """Number of hashed features whose weight is not zero."""
        check_is_fitted(self)
        return self.model_.trainer.banks[0].n_features()

    def collision_rate(self) -> float:
        """Share of the features that must share a weight with another, from how full the tables are."""
        check_is_fitted(self)
        return self.model_.trainer.banks[0].collision_rate()

    # ---- model files --------------------------------------------------------------------------------------------

    def _saved_parameters(self) -> dict[str, Any]:
        templates = self.templates
        if not isinstance(templates, str):
            templates = str(TemplateSet.resolve(templates)).splitlines()
        return {**super()._saved_parameters(), "templates": templates}


class _Relations:
    """Callback that learns the relations of each block beside the trees."""

    def __init__(self, codec: TreebankCodec, make_pass: Callable) -> None:
        self._codec = codec
        self._make_pass = make_pass

    def on_block(self, trainer: Any, block: Any) -> None:
        self._codec.relations.learn(block.examples, trainer, self._make_pass)
