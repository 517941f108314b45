"""The codec of parsers: treebanks as templates look at them, trees, and the relations of their arcs."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from omkl._components import check_number, resolve
from omkl.data import Treebank
from omkl.estimators.base import Run
from omkl.estimators.lexicons import Lexicon, as_lexicons, check_use
from omkl.estimators.outputs import check_sample_weight
from omkl.estimators.relations import RelationLabeler
from omkl.estimators.sources import TrainingBlock, fingerprint
from omkl.estimators.stacking import cross_fit, guide_of, likely_margin, only_likely
from omkl.estimators.template_choice import announce, suited
from omkl.estimators.token_fields import empty_shares, lacking_columns
from omkl.estimators.treebanks import (
    ArcExamples,
    Guide,
    arc_costs,
    as_treebank,
    check_trees,
    encode,
    only_projective,
    strongest_features,
)
from omkl.exceptions import DataWarning, InputError
from omkl.groups import ArcTemplateBank, ArcTokens, TemplateSet
from omkl.groups.templates import sees_trees
from omkl.losses import CRF, StructuredLoss
from omkl.online import DistanceOverGradients, MeanPolyak, OnlineModel, OnlineTrainer, Predictor, Schedule
from omkl.persistence import Packer, Unpacker
from omkl.structures import NonProjectiveTree, ProjectiveTree

#: Features of each template that a parser remembers by name.
TOP = 10
#: A first parser that is given by its templates alone.
QUICK: dict[str, Any] = {"C": 1.0, "epochs": 3, "labeled": False}
#: What it has in common with the parser that it is for.
OF_BOTH = ("lexicons", "projective", "single_root", "memory", "dtype", "n_jobs", "random_state")


class TreeData(NamedTuple):
    """Checked trees, a weight for each sentence, and whether these are all that there are."""

    treebank: Treebank
    weights: np.ndarray | None
    whole: bool


def read_trees(parser: Any, block: TrainingBlock, first: bool, whole: bool = False) -> TreeData:
    """The sentences to train on, which the structure of a parser can produce, where these are all that there are
    (``whole``) without those of weight 0."""
    treebank = as_treebank(block.X, trees="partial", single_root=parser.single_root)
    check_trees(treebank, partial=True)
    weights = check_sample_weight(block.sample_weight, len(treebank))
    kept = only_projective(treebank, parser.single_root) if parser.projective else np.ones(len(treebank), dtype=bool)
    if whole and weights is not None:
        kept = kept & (weights > 0)
    if not kept.all():
        if not kept.any():
            raise InputError("sample_weight is zero for every projective sentence: nothing is left to train on.")
        treebank, weights = treebank[kept], None if weights is None else weights[kept]
    return TreeData(treebank, weights, whole)


class TreebankCodec:
    """Sentences and their trees as examples; see :class:`~omkl.online.model.Codec`.

    Parameters
    ----------
    estimator : DependencyParser
        For its parameters ``templates``, ``lexicons``, ``memory``, ``exact``, ``dtype``, ``projective``,
        ``single_root``, ``labeled``, ``ignore``, ``loss``, ``average``, ``first``, ``folds``, ``likely``,
        ``n_jobs``, ``random_state`` and ``verbose``.

    Attributes
    ----------
    templates : TemplateSet
        Those in use.
    relations : RelationLabeler or None
    features : dict of str to list
        The strongest features of each template by name, with their weights.
    first : DependencyParser or None
        The fitted parser that comes before this one.
    margin : float or None
        How far below the highest potential of a word's arcs the first parser may find one that is looked at; None if
        its potentials are corrected instead.
    empty : dict of str to float
        The share of training words, in [0, 1], for which each column that is looked at was empty.
    """

    def __init__(self, estimator: Any) -> None:
        check_number("memory", estimator.memory, above=0)
        if estimator.dtype not in ("float32", "float64", np.float32, np.float64):
            raise InputError(f'dtype must be "float32" or "float64", not {estimator.dtype!r}.')
        #: Templates as the user, or a choice among them, asks for them.
        self.asked, self._lexicons = estimator.templates, as_lexicons(estimator.lexicons)
        #: The templates that the user asks for, as they were in their file.
        self.read: TemplateSet | None = None
        self._verbose = estimator.verbose
        # the frozen copy that predicts takes as much as the weights
        self._memory = estimator.memory * (1 / 2 if estimator.average in (None, "last") else 2 / 3)
        self._exact, self._dtype, self._labeled = estimator.exact, np.dtype(estimator.dtype), estimator.labeled
        self._sizes: list[int] | None = None
        self._ignore, loss = estimator.ignore, resolve(StructuredLoss, estimator.loss, "loss")
        if self._ignore is not None and not loss.uses_cost:
            raise InputError(f"{loss!r} does not look at ignore=, words that cost nothing in the margin: leave it out.")
        tree = ProjectiveTree if estimator.projective else NonProjectiveTree
        self.structure = tree(estimator.single_root, None if self._ignore is None else arc_costs)
        self.templates: TemplateSet
        self.relations: RelationLabeler | None = None
        self.features: dict[str, list] = {}
        self.empty: dict[str, float] = {}
        self._kind, self._asked_first, self._folds = type(estimator), estimator.first, estimator.folds
        self._quick = isinstance(estimator.first, str)
        if self._quick:
            own = {name: getattr(estimator, name) for name in OF_BOTH}
            self._asked_first = self._kind(estimator.first, **QUICK, **own)
        self._likely = estimator.likely
        self.first: Any = None
        self.margin: float | None = None

    def suited(self, data: TreeData) -> TemplateSet:
        """The templates that are asked for as they suit the data; what is changed is said."""
        asked = TemplateSet.resolve(self.asked, self._lexicons)
        self.read = self.read or asked
        if not isinstance(self.asked, TemplateSet):
            check_use(asked)
        templates, change = suited(asked, data.treebank, data.whole)
        announce(change, not data.whole or self.asked != "auto", self._verbose)
        return templates

    def start(self, data: TreeData) -> ArcExamples:
        """Choose templates and relations; the first sentences of a stream decide for all of it."""
        self.templates = self.suited(data)
        known = data.treebank, data.whole, self.templates.lexicons
        self.relations = RelationLabeler.for_treebank(*known) if self._labeled else None
        fields = self.templates.fields + ([] if self.relations is None else self.relations.templates.fields)
        self.empty = empty_shares(data.treebank, fields)
        self.features = {name: [] for name in self.templates.names}
        guide = self._learn_first(data)
        return ArcExamples.of(data.treebank, self.templates, data.weights, self._ignore, guide)

    def _learn_first(self, data: TreeData) -> Guide | None:
        """Train the first parser, if there is one; returns what parsers that have not seen them make of sentences."""
        if self._asked_first is None:
            self._check_likely(None)
            looked_at = sorted(field for field in self.templates.fields if sees_trees(field))
            if looked_at:
                raise InputError(f"Templates look at {looked_at[0]!r} in the trees of a first parser: set first=.")
            return None
        if not isinstance(self._asked_first, self._kind):
            raise InputError(
                f"first must be a {self._kind.__name__}, a set of templates or None, not {self._asked_first!r}."
            )
        self._check_likely(self._asked_first)
        if not data.whole:
            raise InputError("A first parser is trained on all sentences before the second begins: fit on arrays.")
        with warnings.catch_warnings():
            if self._quick:  # nobody has asked for its templates one by one
                warnings.simplefilter("ignore", DataWarning)
            self.first, guide = cross_fit(self._asked_first, data.treebank, data.weights, self._folds)
        if self._likely is not None:
            self.margin = likely_margin(guide, data.treebank, self._likely)
        return only_likely(guide, data.treebank, self.margin)

    def _check_likely(self, first: Any) -> None:
        """Raise unless the arcs that the first parser finds likely, if it is asked for, have a tree of this kind."""
        if self._likely is not None:
            check_number("likely", self._likely, above=0)
            if self._likely >= 1 or first is None:
                raise InputError(
                    f"likely={self._likely!r} is a share of right arcs, below 1, that a first parser finds likely: "
                    "set first= and such a share, or leave it out."
                )
        own = (isinstance(self.structure, ProjectiveTree), self.structure.single_root)
        if first is not None and (first.projective, first.single_root) != own:
            raise InputError("The first parser must have the projective= and single_root= of the one that it is for.")

    def guide(
        self, treebank: Treebank, all_arcs: bool = False, right: bool = False, n_jobs: int | None = None
    ) -> Guide | None:
        """What the first parser makes of sentences that are not for training, if there is one; with potentials of all
        arcs, or with arcs that are ``right`` among the likely ones, if asked for."""
        if self.first is None:
            return None
        guide = guide_of(self.first, treebank, all_arcs, n_jobs)
        if all_arcs and self.margin is not None:
            return Guide(guide.trees, None)
        if all_arcs or (self.margin is None and not right):
            return guide
        return only_likely(guide, treebank if right else guide.trees, self.margin)

    def tokens(self, treebank: Treebank, all_arcs: bool = False, n_jobs: int | None = None) -> ArcTokens:
        """Sentences to parse as the templates look at them; the first parser, if there is one, takes these threads."""
        return encode(treebank, self.templates, self.guide(treebank, all_arcs, n_jobs=n_jobs))

    def encode(self, data: TreeData, trainer: OnlineTrainer) -> ArcExamples:
        """Later sentences; nothing grows with them but the relations, when they are learned."""
        if self.first is not None:
            raise InputError("What a first parser makes of sentences that it learns from is found by fit alone.")
        return ArcExamples.of(data.treebank, self.templates, data.weights, self._ignore)

    def encode_known(self, data: TreeData) -> ArcExamples:
        """Sentences to measure the trees of the model on."""
        (treebank,) = self.complete([data.treebank])
        return ArcExamples.of(treebank, self.templates, None, self._ignore, self.guide(treebank, right=True))

    def facts(self, examples: ArcExamples) -> dict[str, Any]:
        """What a checkpoint notes of the data, the plainest first."""
        treebank = examples.treebank
        relations = "\n".join(treebank.strings["deprels"].tolist())
        names = np.frombuffer(relations.encode("utf-8", "surrogatepass"), np.uint8)
        arrays = [treebank.offsets, treebank.heads, treebank.deprels, names, examples.given]
        arrays += [] if examples.guide is None else examples.guide.scores
        return {
            "number of sentences": len(treebank),
            "number of words": treebank.n_words,
            "number of templates": len(self.templates),
            "content of the data": fingerprint([examples.tokens.columns, *arrays]),
        }

    @property
    def order(self) -> list[str]:
        """Names of the groups in the order in which the user gave them."""
        return self.templates.names

    def banks(
        self, averaging: bool, training: ArcExamples | None = None, in_shards: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """The untrained bank; templates share memory by the number of their features in ``training``, if given."""
        if training is not None:
            bank = ArcTemplateBank.plan(self.templates, training, self._memory, averaging, self._dtype, self._exact)
        elif self._sizes is not None:
            bank = ArcTemplateBank(self.templates, averaging, self._dtype, self._sizes, exact=self._exact)
        else:
            bank = ArcTemplateBank(self.templates, averaging, self._dtype, memory=self._memory, exact=self._exact)
        self._sizes = bank.sizes.tolist()
        return [bank], []

    def learned(self) -> dict[str, Any]:
        """Learned attributes of the parser, by name."""
        return {"templates_": self.templates, **({} if self.first is None else {"first_": self.first})}

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[dict[str, Any]]:
        """The strongest features; see :meth:`omkl.DependencyParser.top_features`."""
        if group is not None and group not in self.features:
            raise InputError(f"There is no template {group!r}.")
        features = [
            {"feature": feature, "group": name, "weight": weight}
            for name in (self.features if group is None else [group]) for feature, weight in self.features[name]
        ]  # fmt: skip
        return sorted(features, key=lambda feature: -abs(feature["weight"]))[:n]

    def pruned(self, estimator: Any, bank: ArcTemplateBank) -> "TreebankCodec":
        """The codec of an estimator with the templates of this bank, some of these, and the same relations."""
        codec = TreebankCodec(estimator)
        codec.templates, codec.relations, codec._sizes = estimator.templates, self.relations, bank.sizes.tolist()
        codec.features = {name: self.features[name] for name in codec.templates.names}
        codec.empty, codec.first, codec.margin = self.empty, self.first, self.margin
        return codec

    def complete(self, blocks: Iterable[Treebank]) -> Iterator[Treebank]:
        """Sentences to parse, block by block, with a warning at the first that lacks a column that is looked at."""
        warned = False
        for treebank in blocks:
            lacking = [] if warned else lacking_columns(treebank, self.empty)
            if lacking:
                warned = True
                message = (
                    f"The input has no {', '.join(lacking)}: the parser has learned from that, and does worse without."
                )
                warnings.warn(message, DataWarning, stacklevel=4)
            yield treebank

    def pack(
        self, packer: Packer, condensed: dict[str, np.ndarray] | None = None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """``(JSON values, arrays)`` for a model file; see :meth:`omkl.online.model.Codec.pack`."""
        relations, arrays = (None, {}) if self.relations is None else self.relations.describe(condensed is None)
        arrays = {f"relations/{name}": array for name, array in arrays.items()}
        looked_up = self.templates.looked_up | (set() if self.relations is None else self.relations.templates.looked_up)
        lexicons = {name: own for name, own in self.templates.lexicons.items() if name in looked_up}
        for name, lexicon in lexicons.items():
            arrays |= {f"lexicons/{name}/{key}": array for key, array in lexicon.arrays().items()}
        values: dict[str, Any] = {
            "templates": str(self.templates).splitlines(),
            "sizes": self._sizes,
            "relations": relations,
            "empty": self.empty,
            "lexicons": list(lexicons),
            "top_features": self.features,
        }
        if self.first is not None:
            own = Packer()
            values["first"], values["margin"] = self.first._manifest(own, condensed is None), self.margin
            arrays |= {f"first/{name}": array for name, array in own.arrays.items()}
        return values, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray], unpacker: Unpacker) -> None:
        """The inverse of :meth:`pack`."""
        lexicons = {name: Lexicon.restored(_below(f"lexicons/{name}/", arrays)) for name in values["lexicons"]}
        self.templates, self._sizes = TemplateSet(values["templates"], lexicons), values["sizes"]
        self.features, self.empty = values["top_features"], values["empty"]
        if values["relations"] is not None:
            self.relations = RelationLabeler.restored(values["relations"], _below("relations/", arrays), lexicons)
        if "first" in values:
            self.first = self._kind._from_model(values["first"], Unpacker(_below("first/", arrays), unpacker.parts))
            self.margin = values["margin"]


def _below(prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def tree_rates(estimator: Any) -> Schedule:
    """What ``eta0="auto"`` means for a parser."""
    # trees are learned by heart, whatever the rate: what generalises is how they are approached (see MeanPolyak);
    # dual averaging starts afresh in every round, and asks how far it has to go
    if estimator.method != "fobos":
        return DistanceOverGradients()
    # the gradient of a CRF is spread over all arcs: the step that just mends a sentence is three times as long as
    # this mean says (measured on English: 87.0 against 86.5 attached)
    return MeanPolyak(3.0 if isinstance(resolve(StructuredLoss, estimator.loss, "loss"), CRF) else 1.0)


def learn_relations(model: OnlineModel, examples: ArcExamples, chosen: np.ndarray, run: Run, epochs: int) -> None:
    """What is left to learn where trees have been learned from some sentences, ``chosen``, of those at hand: the
    relations of these, and what the strongest features are called."""
    codec, treebank, weights = model.codec, examples.treebank, examples.given
    if codec.relations is not None:
        weights = None if weights is None else weights[chosen]
        sentences = treebank if len(chosen) == len(treebank) else treebank[chosen]
        codec.relations.fit(sentences, weights, model.settings.C, epochs, run)
    codec.features = strongest_features(model.trainer.banks[0], treebank, examples, TOP)


def relations_beside(model: OnlineModel, make_pass: Callable) -> list[Any]:
    """The callback that learns the relations of each block of a stream beside the trees, if any are learned."""
    return [] if model.codec.relations is None else [_RelationsBeside(model.codec.relations, make_pass)]


class _RelationsBeside:
    def __init__(self, relations: RelationLabeler, make_pass: Callable) -> None:
        self._relations = relations
        self._make_pass = make_pass

    def on_block(self, trainer: Any, block: Any) -> None:
        self._relations.learn(block.examples, trainer, self._make_pass)
