"""Dependency parsing."""

import time
from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from omkl._components import resolve
from omkl.data import Stream, Strings
from omkl.estimators.arcs import ArcExamples, encode, strongest_features
from omkl.estimators.attachment import attachment_scores
from omkl.estimators.base import OnlineEstimator, check_number
from omkl.estimators.relations import RelationLabeler
from omkl.estimators.runs import begin_run, fingerprint, running_options
from omkl.estimators.treebanks import as_treebank, check_trees, only_projective, usable_templates
from omkl.exceptions import InputError
from omkl.groups import ArcTemplateBank, TemplateSet
from omkl.losses import CRF, StructuredLoss
from omkl.online import MeanPolyak
from omkl.structures import NonProjectiveTree, ProjectiveTree

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
        One record an epoch; see :meth:`omkl.online.OnlineTrainer.fit`.

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
        self, templates="martins507", loss="hinge", regularizer="mkl", C=1.0, epochs=10, method="fobos", eta0="auto",
        schedule=None, average="quadratic", projective=False, single_root=True, labeled=True, memory=140.0,
        exact=False, dtype="float32", radius=None, shuffle=True, early_stopping=False, validation_fraction=0.1,
        n_iter_no_change=5, n_examples=None, callbacks=None, verbose=True, random_state=None,
    ):  # fmt: skip
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
        self.callbacks = callbacks
        self.verbose = verbose
        self.random_state = random_state

    # ---- training -----------------------------------------------------------------------------------------------

    def fit(self, X, y=None, *, checkpoint=None, checkpoint_every="60s", resume=False, client=None, shards=None):
        """Train from scratch.

        Parameters
        ----------
        X : path, list of paths, Treebank, iterable of Sentence, or Stream
            Trees to learn from, in CoNLL-U, CoNLL-X or CoNLL-2008. A :class:`omkl.data.Stream` of treebanks
            (:func:`omkl.data.stream_conllu`) is learned block by block, as by :meth:`partial_fit`, ``epochs`` times,
            and never held whole.
        y : ignored
            The trees are in ``X``.
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
        running = running_options(checkpoint, checkpoint_every, resume, client, shards)
        if isinstance(X, Stream):
            return self._fit_stream(X, {}, running)
        self._resolve()
        started = time.perf_counter()
        treebank = self._trees(X)
        templates = usable_templates(self.templates, treebank)
        run = begin_run(self, self._rng(), **running)
        rng = run.rng
        examples = ArcExamples.of(treebank, templates)
        run.check_data(lambda: _facts(treebank, templates, examples.tokens))
        chosen, held_out = self._held_out(len(treebank), rng)
        bank = ArcTemplateBank.plan(
            templates, examples.only(chosen), self._table_memory, self._averaging, self._dtype, self.exact
        )
        trainer = self._trainer_of([bank], self._tree())
        validation = None if held_out is None else examples.only(held_out)
        history = self._train(trainer, examples.only(chosen), validation, run)
        relations = None
        if self.labeled:
            relations = RelationLabeler.for_treebank(treebank)
            relations.fit(treebank[chosen], self.C, len(history), run, self.verbose)
        features = strongest_features(trainer.banks[0], treebank, examples, TOP)
        self._adopt(templates, trainer, relations, features)
        self.n_iter_, self.history_ = len(history), history
        self.fit_seconds_ = time.perf_counter() - started
        return self

    def partial_fit(self, X, y=None):
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
        if isinstance(X, Stream):
            return self._partial_fit_stream(X, {})
        self._resolve()
        treebank = self._trees(X)
        if not hasattr(self, "_trainer"):
            templates = TemplateSet.resolve(self.templates)
            bank = ArcTemplateBank(templates, self._averaging, self._dtype, memory=self._table_memory, exact=self.exact)
            trainer = self._trainer_of([bank], self._tree())
            trainer.radius = self._given_radius()
            relations = RelationLabeler.for_stream() if self.labeled else None
            self._adopt(templates, trainer, relations, {name: [] for name in templates.names})
            self.history_, self.n_iter_ = [], 1
        self._learn_rounds(self._trainer, ArcExamples.of(treebank, self.templates_))
        if self._relations is not None:
            self._relations.partial_fit(treebank, self._trainer, self._mixing)
        return self

    def _resolve(self):
        check_number("memory", self.memory, above=0)
        if self.dtype not in ("float32", "float64", np.float32, np.float64):
            raise InputError(f'dtype must be "float32" or "float64", not {self.dtype!r}.')
        return super()._resolve()

    def _automatic_schedule(self):
        # trees are learned by heart, whatever the rate: what generalises is how they are approached (see MeanPolyak);
        # dual averaging starts afresh in every round, and asks how far it has to go
        if self.method != "fobos":
            return super()._automatic_schedule()
        # the gradient of a CRF is spread over all arcs: the step that just mends a sentence is three times as long as
        # this mean says (measured on English: 87.0 against 86.5 attached)
        return MeanPolyak(3.0 if isinstance(resolve(StructuredLoss, self.loss, "loss"), CRF) else 1.0)

    @property
    def _dtype(self):
        return np.dtype(self.dtype)

    @property
    def _table_memory(self):
        """Megabytes for weights and their averages: the frozen copy takes as much as the weights."""
        return self.memory * (2 / 3 if self._averaging else 1 / 2)

    def _tree(self):
        return (ProjectiveTree if self.projective else NonProjectiveTree)(self.single_root)

    def _trees(self, X):
        """The sentences to train on, which the structure can produce."""
        treebank = as_treebank(X, trees=True, single_root=self.single_root)
        check_trees(treebank, self.single_root)
        if self.projective:
            treebank = only_projective(treebank)
        return treebank

    def _adopt(self, templates, trainer, relations, top_features):
        """Make this trained state the parser's own, all at once."""
        self.templates_ = templates
        self._trainer = trainer
        self._relations = relations
        self._top_features = top_features

    # ---- parsing ------------------------------------------------------------------------------------------------

    def parse(self, X):
        """Parse sentences.

        Parameters
        ----------
        X : path, list of paths, Treebank or iterable of Sentence
            Heads and relations in it are not looked at.

        Returns
        -------
        Treebank
            The same sentences with the best tree of each, and the relations if the parser is labeled. Iterate it for
            sentences, or write it with :func:`omkl.data.write_treebank`.
        """
        predictor = self.predictor_
        treebank = as_treebank(X, trees=False)
        tokens = encode(treebank, self.templates_)
        heads = [np.zeros(0, np.int64)]
        for sentences in tokens.blocks():
            heads += map(self._trainer.structure.decode, predictor.banks[0].potentials_of(sentences))
        heads = np.concatenate(heads)
        relations, strings = np.zeros(len(heads), np.int32), Strings()
        if self._relations is not None:
            relations = self._relations.predict(self._relations.encode(treebank), heads, treebank.offsets)
            strings = self._relations.strings
        return replace(
            treebank, heads=heads.astype(np.int32), deprels=relations, strings={**treebank.strings, "deprels": strings}
        )

    def predict(self, X):
        """Heads of each sentence: a list of int arrays; 0 is the root."""
        parsed = self.parse(X)
        return np.split(parsed.heads, parsed.offsets[1:-1])

    def evaluate(self, X, ignore=None):
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
        return attachment_scores(gold, self.parse(gold), self._relations is not None, ignore)

    def score(self, X, y=None, ignore=None):
        """Unlabeled attachment score in [0, 1]; see :meth:`evaluate`."""
        return self.evaluate(X, ignore)["uas"]

    @property
    def template_weights_(self):
        """Weight of each template by name, in [0, 1], summing to one."""
        return self.kernel_weights_

    def prune(self, keep, by="weights"):
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
        trainer = pruned._trainer_of([self._trainer.banks[0].restricted(templates)], pruned._tree())
        trainer.take(self._trainer)
        features = {name: self._top_features[name] for name in templates.names}
        pruned._adopt(templates, trainer, self._relations, features)
        pruned.history_, pruned.n_iter_ = self.history_, self.n_iter_
        return pruned

    def ranking(self, by="weights"):
        """Names of the templates, the best first; see :meth:`prune`."""
        check_is_fitted(self)
        if by not in ("weights", "norms"):
            raise InputError(f'by must be "weights" or "norms", not {by!r}.')
        values = self.template_weights_ if by == "weights" else dict(zip(self.templates_.names, self._trainer.norms))
        return sorted(values, key=values.get, reverse=True)

    def top_features(self, n=10, group=None):
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
        if group is not None and group not in self._top_features:
            raise InputError(f"There is no template {group!r}.")
        groups = self._top_features if group is None else [group]
        features = [
            {"feature": feature, "group": name, "weight": weight}
            for name in groups for feature, weight in self._top_features[name]
        ]  # fmt: skip
        return sorted(features, key=lambda feature: -abs(feature["weight"]))[:n]

    def n_features(self):
        """Number of hashed features whose weight is not zero."""
        check_is_fitted(self)
        return self._trainer.banks[0].n_features()

    def collision_rate(self):
        """Share of the features that must share a weight with another, from how full the tables are."""
        check_is_fitted(self)
        return self._trainer.banks[0].collision_rate()

    # ---- model files --------------------------------------------------------------------------------------------

    def _saved_parameters(self):
        templates = self.templates
        if not isinstance(templates, str):
            templates = str(TemplateSet.resolve(templates)).splitlines()
        return {**super()._saved_parameters(), "templates": templates}

    def _describe(self, packer):
        relations = None
        arrays = {}
        if self._relations is not None:
            relations, arrays = self._relations.describe()
        described = {
            "templates": str(self.templates_).splitlines(),
            "sizes": self._trainer.banks[0].sizes.tolist(),
            "relations": relations,
            "top_features": self._top_features,
        }
        return described, {f"relations/{name}": array for name, array in arrays.items()}

    def _restore(self, manifest, arrays, unpacker):
        templates = TemplateSet(manifest["templates"])
        bank = ArcTemplateBank(templates, self._averaging, self._dtype, manifest["sizes"], exact=self.exact)
        relations = None
        if manifest["relations"] is not None:
            own = {k.removeprefix("relations/"): a for k, a in arrays.items() if k.startswith("relations/")}
            relations = RelationLabeler.restored(manifest["relations"], own)
        self._adopt(templates, self._trainer_of([bank], self._tree()), relations, manifest["top_features"])


def _facts(treebank, templates, tokens):
    """What a checkpoint notes of the data, the plainest first."""
    relations = "\n".join(treebank.strings["deprels"].tolist())
    names = np.frombuffer(relations.encode("utf-8", "surrogatepass"), np.uint8)
    arrays = [tokens.columns, treebank.offsets, treebank.heads, treebank.deprels, names]
    return {
        "number of sentences": len(treebank),
        "number of words": treebank.n_words,
        "number of templates": len(templates),
        "content of the data": fingerprint(arrays),
    }
