"""TreebankCodec, the codec of a parser: encodes treebanks, and makes the bank of templates.

A first parser selects candidate arcs, for coarse-to-fine and second-order parsing.
"""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from tqdm import tqdm

from omkl._components import check_number, resolve, warn_caller
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.training import Run, RunOptions, in_folder
from omkl.estimators.validation import OneOf, check_sample_weight
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import empty_shares, lacking_columns
from omkl.features.lexicons import as_lexicons, pack_lexicons, unpack_lexicons
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import TemplateSet, sees_trees
from omkl.groups.templates.layout import ArcGuide, ArcTokens
from omkl.losses import StructuredLoss
from omkl.online.averaging import Predictor
from omkl.online.model import OnlineModel
from omkl.online.rounds import below
from omkl.online.trainer import OnlineTrainer
from omkl.parsing.decoding import FREE, ArcConstraints, TreeDecoder, strongest_features
from omkl.parsing.relations import RelationLabeler
from omkl.parsing.sentences import (
    ArcExamples,
    Guide,
    as_treebank,
    check_trees,
    encode,
    facts_of,
    joined,
    only_projective,
)
from omkl.parsing.template_selection import suited
from omkl.persistence import Packer, Unpacker
from omkl.structures.parts import SecondOrderTree
from omkl.structures.trees import NonProjectiveTree, ProjectiveTree, TreePotentials, TreeStructure, as_scores


class Selection(NamedTuple):
    """Rule that selects candidate arcs by the potentials of a first parser.

    Attributes
    ----------
    margin : float
        Arcs within this margin of the word's best arc are candidates, besides those of the first parser's tree.
    most : int or None
        Maximum number of candidates of a word; None for no limit.
    """

    margin: float
    most: int | None = None


def advice_of(decoder: TreeDecoder, treebank: Treebank, constraints: ArcConstraints = FREE) -> Guide:
    """Return trees and potentials of a fitted parser."""
    potentials = decoder.from_potentials(treebank, as_scores, constraints)
    return Guide(joined([decoder.structure.decode(own) for own in potentials]), [ArcGuide(own) for own in potentials])


def likely_margin(guide: Guide, gold: Treebank, share: float) -> float:
    """Return the smallest margin below the best potential of a word that includes this share of possible gold arcs."""
    below = []
    for arcs, heads in zip(guide.arcs, gold.trees()):
        potentials, known = np.array(arcs.potentials, np.float64), np.flatnonzero(heads >= 0)
        np.fill_diagonal(potentials, -np.inf)
        below.append(potentials[:, 1:].max(axis=0)[known] - potentials[heads[known], known + 1])
    found = np.concatenate(below)
    return float(np.quantile(found[np.isfinite(found)], share, method="higher"))


def candidate_arcs(
    guide: Guide, treebank: Treebank, selection: Selection, right: Sequence[np.ndarray], corrects: bool
) -> Guide:
    """Return advice that selects the candidate arcs of each sentence.

    Parameters
    ----------
    guide : Guide
        Potentials and trees of the first parser.
    treebank : Treebank
    selection : Selection
    right : sequence of int arrays of shape (number of words,)
        Heads whose arcs are candidates as well; negative for unknown heads.
    corrects : bool
        Whether the second parser adds to the potentials of the first. Right arcs that the first parser forbids get the
        lowest potential of their word.
    """
    found = []
    for s, arcs in enumerate(guide.arcs):
        words = slice(*treebank.offsets[s : s + 2])
        potentials = np.array(arcs.potentials, np.float64)
        np.fill_diagonal(potentials, -np.inf)
        into, n = potentials[:, 1:], len(potentials) - 1
        likely = np.ones(potentials.shape, dtype=bool)
        likely[:, 1:] = into >= into.max(axis=0) - selection.margin
        if selection.most is not None and selection.most <= n:
            likely[:, 1:] &= into >= -np.partition(-into, selection.most - 1, axis=0)[selection.most - 1]
        for heads in (guide.heads, *right):
            known = np.flatnonzero(heads[words] >= 0)
            likely[heads[words][known], known + 1] = True
        np.fill_diagonal(likely, True)  # no arc
        own = None
        if corrects:
            lowest = np.where(np.isfinite(potentials), potentials, np.inf).min(axis=0)
            own = np.where(likely & ~np.isfinite(potentials), lowest, potentials).astype(np.float32)
            np.fill_diagonal(own, 0.0)
        found.append(ArcGuide(own, likely))
    return Guide(guide.heads, found)


def completed(structure: TreeStructure, guide: Guide, gold: Treebank) -> np.ndarray:
    """Replace unknown heads by those of the best tree of the first parser that agrees with the known heads."""
    heads = gold.heads.astype(np.int64)
    for s in np.flatnonzero(np.minimum.reduceat(heads, gold.offsets[:-1]) < 0) if len(heads) else ():
        words = slice(*gold.offsets[s : s + 2])
        potentials, known = np.array(guide.arcs[s].potentials, np.float64), np.flatnonzero(heads[words] >= 0)
        potentials[heads[words][known], known + 1] = 0.0  # which the first parser may have forbidden
        agreeing = structure.agreeing(TreePotentials(potentials), heads[words])
        if structure.is_possible(agreeing):
            heads[words] = structure.decode(agreeing)
    return heads


def cross_fit(
    first: OnlineEstimator, treebank: Treebank, weights: np.ndarray | None, folds: int, running: RunOptions
) -> tuple[OnlineEstimator, Guide]:
    """Train a copy of a first parser on gold trees, and collect its cross-fitted advice on the same sentences.

    Advice on sentence ``i`` comes from a parser trained on the sentences ``j`` with ``j % folds != i % folds``.
    ``running`` has further arguments of ``fit``; each training has its own folder of checkpoints.
    """
    check_number("folds", folds, above=1, below=len(treebank) + 1, integer=True)
    whole = clone(first).fit(treebank, sample_weight=weights, **in_folder(running, "first"))
    fold = np.arange(len(treebank)) % folds
    advice, heads = [ArcGuide()] * len(treebank), np.zeros(treebank.n_words, np.int64)
    for f in range(folds):
        rest = None if weights is None else weights[fold != f]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # training on all sentences gave the same warnings
            own = in_folder(running, f"first-{f}")
            parser = clone(first).fit(treebank[fold != f], sample_weight=rest, **own)
            found = advice_of(parser._decoder, treebank[fold == f])
        heads[np.repeat(fold == f, treebank.lengths)] = found.heads
        for i, arcs in zip(np.flatnonzero(fold == f), found.arcs):
            advice[i] = ArcGuide(arcs.potentials.astype(np.float32))
    return whole, Guide(heads, advice)


#: Number of strongest features of each template that a parser stores by name.
TOP = 10
#: Parameters of the small parser that selects likely arcs, and parameters that it copies.
QUICK: dict[str, Any] = {"templates": "small", "order": 1, "C": 1.0, "epochs": 3, "labeled": False}
SHARED = ("lexicons", "projective", "single_root", "memory", "dtype", "n_jobs", "random_state", "verbose")
#: Parameters that the parser of arcs does not copy from a parser of second order.
PLAIN: dict[str, Any] = {
    "order": 1, "keep": None, "labeled": False, "callbacks": None, "early_stopping": False, "decode": "map"
}  # fmt: skip
#: Share of gold arcs among the candidate arcs of second-order trees, and maximum number of candidates of a word.
CANDIDATES, MOST_CANDIDATES = 0.99, 8
#: Maximum number of epochs for parts, which overfit later.
PART_EPOCHS = 3
#: Share of the memory for parts of second-order trees.
FOR_PARTS = 0.25


class TreeData(NamedTuple):
    """Validated trees and their weights; ``whole`` is False for a block of a stream."""

    treebank: Treebank
    weights: np.ndarray | None
    whole: bool


def read_trees(block: TrainingBlock, projective: bool, single_root: bool, whole: bool = False) -> TreeData:
    """Read and validate the sentences of a block.

    Sentences without a possible tree are dropped; from the ``whole`` data, sentences of weight 0 as well.
    """
    treebank = as_treebank(block.X, trees="partial", single_root=single_root)
    check_trees(treebank, partial=True)
    weights = check_sample_weight(block.sample_weight, len(treebank))
    kept = only_projective(treebank, single_root) if projective else np.ones(len(treebank), dtype=bool)
    if whole and weights is not None:
        kept = kept & (weights > 0)
    if not kept.any():
        raise InputError("There must be a sentence of positive weight; with projective=True, a projective one.")
    if not kept.all():
        treebank, weights = treebank[kept], None if weights is None else weights[kept]
    return TreeData(treebank, weights, whole)


class TreebankCodec:
    """Codec of sentences and trees; see :class:`~omkl.online.model.Codec`.

    Parameters
    ----------
    parser : DependencyParser
    templates : TemplateSet, optional
        Templates to use instead of those of the parameters.
    running : RunOptions, optional
        Further arguments of ``fit``, for first parsers.

    Attributes
    ----------
    templates : TemplateSet
        Templates of the trainer, adapted to the training data: of arcs, or of the parts of second-order trees.
    structure : TreeStructure
    relations : RelationLabeler or None
    features : dict of str to list
        Names and weights of the strongest features of each template.
    first : DependencyParser or None
        Trained first parser: of order 1 for second-order trees, else a small parser that selects likely arcs.
    selection : Selection or None
        Rule that selects candidate arcs by the potentials of the first parser.
    empty : dict of str to float
        Fraction of training words, in [0, 1], for which a column in use was empty, by column.
    """

    def __init__(
        self, parser: OnlineEstimator, templates: TemplateSet | None = None, running: RunOptions | None = None
    ) -> None:
        self._kind: Any = type(parser)
        self._given = SimpleNamespace(**parser.get_params(deep=False))
        self._chosen, self._running = templates, running or {}
        self._sizes: list[list[int]] | None = None
        self.structure: TreeStructure
        self.templates: TemplateSet
        self.relations: RelationLabeler | None = None
        self.features: dict[str, list] = {}
        self.empty: dict[str, float] = {}
        self.first: Any = None
        self.selection: Selection | None = None
        #: Whether trees are of second order, and the first parser is of order 1.
        self.has_parts = False

    def _take(self, templates: TemplateSet) -> None:
        """Set the templates of the trainer, and the structure for these."""
        self.templates = templates
        projective, single_root = self._given.projective, self._given.single_root
        self.has_parts = templates[0].part != "arc"
        if self.has_parts:
            self.structure = SecondOrderTree(single_root, projective)
        else:
            self.structure = (ProjectiveTree if projective else NonProjectiveTree)(single_root)

    def suited(self, data: TreeData) -> TemplateSet:
        """Adapt templates to the data, and report changes."""
        asked = self._given.templates if self._chosen is None else self._chosen
        templates = TemplateSet.resolve(asked, as_lexicons(self._given.lexicons))
        found, change = suited(templates, data.treebank, data.whole)
        is_asked = self._chosen is None and not (isinstance(asked, str) and asked == "auto")
        if change and (is_asked or not data.whole):
            warn_caller(change, DataWarning)
        elif change and self._given.verbose:
            tqdm.write(change)
        return found

    def start(self, data: TreeData) -> ArcExamples:
        """Determine templates and relations from the first data, and encode these data."""
        templates = self.suited(data)
        kinds = templates.by_part()
        if of_trees := sorted(filter(sees_trees, templates.fields)):
            raise InputError(
                f"The field {of_trees[0]!r} needs a tree, which templates do not have: use g.FIELD or s.FIELD."
            )
        if "arc" not in kinds:
            raise InputError("Every template has an atom of g or s: give a template of arcs.")
        of_arcs = kinds.pop("arc")
        second_order = bool(kinds) and self._given.order == 2
        if kinds and not second_order and self._given.templates != "auto":
            warn_caller(f"order=1 leaves out {len(templates) - len(of_arcs)} templates of g or s.", DataWarning)
        if self._given.labeled:
            arguments = data.treebank, data.whole, templates.lexicons, second_order
            self.relations = RelationLabeler.for_treebank(*arguments)
        fields = templates.fields + ([] if self.relations is None else self.relations.templates.fields)
        self.empty = empty_shares(data.treebank, fields)
        guide = None
        if second_order:
            if resolve(StructuredLoss, self._given.loss, "loss").is_likelihood:
                raise InputError(f"loss={self._given.loss!r} sums over all trees, which order=2 cannot: set order=1.")
            self._take(TemplateSet([own for kind in kinds.values() for own in kind], templates.lexicons))
            own = {"templates": of_arcs, "memory": self._given.memory * (1.0 - FOR_PARTS)}
            guide = self._train_first(data, {**vars(self._given), **PLAIN, **own}, CANDIDATES, MOST_CANDIDATES)
        else:
            self._take(of_arcs)
            if self._given.likely is not None:
                shared = {name: vars(self._given)[name] for name in SHARED}
                guide = self._train_first(data, {**QUICK, **shared}, self._given.likely, None)
        self.features = dict(self.first.model_.codec.features) if self.has_parts else {}
        self.features |= {name: [] for name in self.templates.names}
        return ArcExamples.of(data.treebank, self.templates, data.weights, guide)

    def _train_first(self, data: TreeData, settings: dict[str, Any], share: float, most: int | None) -> Guide:
        """Train the first parser; return candidate arcs from parsers not trained on the same sentences."""
        self._check_whole(data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # there was a warning about the templates
            first = self._kind(**settings)
            self.first, guide = cross_fit(first, data.treebank, data.weights, self._given.folds, self._running)
        self.selection = Selection(likely_margin(guide, data.treebank, share), most)
        right = completed(self.first.model_.codec.structure, guide, data.treebank)
        return candidate_arcs(guide, data.treebank, self.selection, [right], self.has_parts)

    def _check_whole(self, data: TreeData) -> None:
        if not data.whole:
            what, remedy = ("order=2", "order=1") if self.has_parts else ("likely=", "likely=None")
            raise InputError(
                f"A parser with {what} learns from all sentences at once: give them to fit, or set {remedy}."
            )

    def guide(
        self,
        treebank: Treebank,
        constraints: ArcConstraints = FREE,
        right: Sequence[np.ndarray] = (),
        n_jobs: int | None = None,
        wide: bool = False,
    ) -> Guide | None:
        """Return the advice of the first parser, if there is one, on sentences for prediction or evaluation.

        ``right`` are heads of all words; their arcs are candidates as well. ``wide`` ignores the margin of candidates.
        """
        if self.first is None or self.selection is None:
            return None
        guide = advice_of(replace(self.first._decoder, n_jobs=n_jobs), treebank, constraints)
        selection = self.selection._replace(margin=np.inf) if wide else self.selection
        return candidate_arcs(guide, treebank, selection, right, self.has_parts)

    def tokens(self, treebank: Treebank, **options: Any) -> ArcTokens:
        """Encode sentences to parse; see :meth:`guide` for the options."""
        return encode(treebank, self.templates, self.guide(treebank, **options))

    def encode(self, data: TreeData, trainer: OnlineTrainer) -> ArcExamples:
        """Encode later sentences of a stream."""
        if self.first is not None:
            self._check_whole(data)
        return ArcExamples.of(data.treebank, self.templates, data.weights)

    def encode_known(self, data: TreeData) -> ArcExamples:
        """Encode sentences for evaluation."""
        (treebank,) = self.complete([data.treebank])
        return ArcExamples.of(treebank, self.templates, None, self.guide(treebank, right=[treebank.heads]))

    def before_block(self) -> dict[str, Any]:
        """Return nothing: encoding changes no state."""
        return {}

    def facts(self, examples: ArcExamples) -> dict[str, Any]:
        """Return facts about the data for a resumed run to compare."""
        advice = [] if examples.guide is None else [part for own in examples.guide.arcs for part in own]
        arrays = [examples.tokens.columns, examples.heads, examples.given, *advice]
        facts = facts_of(examples.treebank, ["deprels"], arrays)
        return {"number of templates": len(self.templates), **facts}

    @property
    def order(self) -> list[str]:
        """Names of the groups, in the user's order."""
        return self.templates.names

    def banks(
        self, averaging: bool, training: ArcExamples | None = None, in_shards: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """Make the untrained bank; memory is allocated by the templates' numbers of features in ``training``."""
        # prediction needs a copy of the weights
        memory = self._given.memory * (1 / 2 if self._given.average in (None, "last") else 2 / 3)
        dtype, kinds = np.dtype(self._given.dtype), self.templates.by_part()
        if self.has_parts:
            memory *= FOR_PARTS / len(kinds)
        banks = []
        for number, templates in enumerate(kinds.values()):
            if training is not None:
                banks.append(ArcTemplateBank.plan(templates, training, memory, averaging, dtype))
            else:
                sizes = None if self._sizes is None else self._sizes[number]
                banks.append(ArcTemplateBank(templates, averaging, dtype, sizes, memory))
        self._sizes = [bank.sizes.tolist() for bank in banks]
        return banks, []

    @property
    def all_templates(self) -> TemplateSet:
        """Templates of arcs and parts."""
        of_arcs = self.first.templates_ if self.has_parts else []
        return TemplateSet([*of_arcs, *self.templates], self.templates.lexicons)

    def learned(self) -> dict[str, Any]:
        """Return learned attributes of the parser."""
        return {"templates_": self.all_templates, **({} if self.first is None else {"first_": self.first})}

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[dict[str, Any]]:
        """List the strongest features; see :meth:`omkl.DependencyParser.top_features`."""
        OneOf((None, *self.features)).check("group", group)
        features = [
            {"feature": feature, "group": name, "weight": weight}
            for name in (self.features if group is None else [group])
            for feature, weight in self.features[name]
        ]
        return sorted(features, key=lambda feature: -abs(feature["weight"]))[:n]

    def finish(self, model: OnlineModel, examples: ArcExamples, chosen: np.ndarray, run: Run, epochs: int) -> None:
        """Train relations on the chosen sentences, and name the strongest features, after training of trees."""
        treebank, weights = examples.treebank, examples.given
        if self.relations is not None:
            weights = None if weights is None else weights[chosen]
            sentences = treebank if len(chosen) == len(treebank) else treebank[chosen]
            epochs = self._given.epochs if self.has_parts else epochs
            guide = examples.guide
            heads = (
                guide.heads[np.isin(np.repeat(np.arange(len(treebank)), treebank.lengths), chosen)] if guide else None
            )
            self.relations.fit(sentences, weights, model.settings.C, epochs, run, heads)
        for bank in model.trainer.banks:
            self.features |= strongest_features(bank, treebank, examples, TOP)

    def passes(self, epochs: int) -> int:
        """Return the number of epochs, which is small for parts."""
        return min(epochs, PART_EPOCHS) if self.has_parts else epochs

    def pruned(self, parser: OnlineEstimator, banks: list[ArcTemplateBank], first: Any) -> "TreebankCodec":
        """Make the codec of a pruned parser, with the templates of its banks and the same relations."""
        codec = TreebankCodec(parser)
        codec._take(TemplateSet([own for bank in banks for own in bank.templates], self.templates.lexicons))
        codec.relations, codec._sizes = self.relations, [bank.sizes.tolist() for bank in banks]
        codec.empty, codec.first, codec.selection = self.empty, first, self.selection
        codec.features = {name: self.features[name] for name in codec.all_templates.names}
        return codec

    def complete(self, blocks: Iterable[Treebank]) -> Iterator[Treebank]:
        """Yield the blocks, and warn once about missing columns that the parser uses."""
        warned = False
        for treebank in blocks:
            lacking = [] if warned else lacking_columns(treebank, self.empty)
            if lacking:
                warned = True
                message = f"The input has no {', '.join(lacking)}, from which the parser has learned."
                warn_caller(message, DataWarning)
            yield treebank

    def pack(
        self, packer: Packer, condensed: dict[str, np.ndarray] | None = None
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return ``(JSON values, arrays)`` for a model file; see :meth:`omkl.online.model.Codec.pack`."""
        relations, arrays = (None, {}) if self.relations is None else self.relations.describe(condensed is None)
        arrays = {f"relations/{name}": array for name, array in arrays.items()}
        looked_up = self.templates.looked_up | (set() if self.relations is None else self.relations.templates.looked_up)
        lexicons = {name: own for name, own in self.templates.lexicons.items() if name in looked_up}
        arrays |= pack_lexicons(lexicons)
        values: dict[str, Any] = {"templates": str(self.templates).splitlines(), "sizes": self._sizes}
        values |= {"relations": relations, "empty": self.empty, "lexicons": list(lexicons)}
        values["top_features"] = self.features
        if self.first is not None:
            own = Packer()
            values["first"], values["selection"] = self.first._manifest(own, condensed is None), self.selection
            arrays |= {f"first/{name}": array for name, array in own.arrays.items()}
        return values, arrays

    def unpack(self, values: dict[str, Any], arrays: dict[str, np.ndarray], unpacker: Unpacker) -> None:
        """The inverse of :meth:`pack`."""
        lexicons = unpack_lexicons(values["lexicons"], arrays)
        self._take(TemplateSet(values["templates"], lexicons))
        self._sizes = values["sizes"]
        self.features, self.empty = values["top_features"], values["empty"]
        if values["relations"] is not None:
            self.relations = RelationLabeler.restored(values["relations"], below(arrays, "relations/"), lexicons)
        if "first" in values:
            self.first = self._kind._from_model(values["first"], Unpacker(below(arrays, "first/"), unpacker.parts))
            self.selection = Selection(*values["selection"])
