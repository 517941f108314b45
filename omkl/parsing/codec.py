"""TreebankCodec, the codec of a parser: encodes treebanks, and makes the bank of templates."""

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from omkl._components import warn_caller
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.training import Run
from omkl.estimators.validation import OneOf, check_sample_weight
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import Lexicon, as_lexicons, empty_shares, lacking_columns
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import TemplateSet, sees_trees
from omkl.groups.templates.layout import ArcTokens
from omkl.online.averaging import Predictor
from omkl.online.model import OnlineModel
from omkl.online.rounds import below
from omkl.online.trainer import OnlineTrainer
from omkl.parsing.explain import strongest_features
from omkl.parsing.relations import RelationLabeler
from omkl.parsing.sentences import ArcExamples, Guide, as_treebank, check_trees, encode, facts_of, only_projective
from omkl.parsing.stacking import advice_of, cross_fit, likely_margin, only_likely
from omkl.parsing.template_selection import suited
from omkl.persistence import Packer, Unpacker
from omkl.structures.trees import NonProjectiveTree, ProjectiveTree

#: Number of strongest features of each template that a parser stores by name.
TOP = 10
#: Parameters of a first parser that is given as a string.
QUICK: dict[str, Any] = {"C": 1.0, "epochs": 3, "labeled": False}
#: Parameters that such a first parser copies from the second one.
SHARED = ("lexicons", "projective", "single_root", "memory", "dtype", "n_jobs", "random_state")


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

    Attributes
    ----------
    templates : TemplateSet
        Templates in use, adapted to the training data.
    relations : RelationLabeler or None
    features : dict of str to list
        Names and weights of the strongest features of each template.
    first : DependencyParser or None
        Trained first parser.
    margin : float or None
        Margin of likely arcs below the word's best potential in the first parser; None to correct its potentials.
    empty : dict of str to float
        Fraction of training words, in [0, 1], for which a column in use was empty, by column.
    """

    def __init__(self, parser: OnlineEstimator, templates: TemplateSet | None = None) -> None:
        self._kind: Any = type(parser)
        self._given = SimpleNamespace(**parser.get_params(deep=False))
        self._chosen = templates
        self._sizes: list[int] | None = None
        self.structure = (ProjectiveTree if self._given.projective else NonProjectiveTree)(self._given.single_root)
        self.templates: TemplateSet
        self.relations: RelationLabeler | None = None
        self.features: dict[str, list] = {}
        self.empty: dict[str, float] = {}
        self.first: Any = None
        self.margin: float | None = None

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
        self.templates = self.suited(data)
        if self._given.labeled:
            self.relations = RelationLabeler.for_treebank(data.treebank, data.whole, self.templates.lexicons)
        fields = self.templates.fields + ([] if self.relations is None else self.relations.templates.fields)
        self.empty = empty_shares(data.treebank, fields)
        self.features = {name: [] for name in self.templates.names}
        return ArcExamples.of(data.treebank, self.templates, data.weights, self._train_first(data))

    def _train_first(self, data: TreeData) -> Guide | None:
        """Train the first parser, if there is one; return advice from parsers not trained on the same sentences."""
        first, likely = self._given.first, self._given.likely
        if first is None:
            fields = sorted(filter(sees_trees, self.templates.fields))
            if fields or likely is not None:
                what = f"The template field {fields[0]!r}" if fields else f"likely={likely!r}"
                raise InputError(f"{what} needs a first parser: set first=.")
            return None
        is_quick = isinstance(first, str)
        if is_quick:
            first = self._kind(first, **QUICK, **{name: vars(self._given)[name] for name in SHARED})
        kind = self._given.projective, self._given.single_root
        if not isinstance(first, self._kind) or (first.projective, first.single_root) != kind:
            raise InputError(
                f"`first` must be a set of templates, or a {self._kind.__name__} with the same projective= and "
                f"single_root=, got {first!r:.80}."
            )
        self._check_whole(data)
        with warnings.catch_warnings():
            if is_quick:  # the user did not choose its templates
                warnings.simplefilter("ignore", DataWarning)
            self.first, guide = cross_fit(first, data.treebank, data.weights, self._given.folds)
        if likely is not None:
            self.margin = likely_margin(guide, data.treebank, likely)
        return only_likely(guide, data.treebank, self.margin)

    def _check_whole(self, data: TreeData) -> None:
        if not data.whole:
            raise InputError("A parser with first= learns from all sentences at once: call fit with no stream.")

    def guide(
        self, treebank: Treebank, all_arcs: bool = False, right: bool = False, n_jobs: int | None = None
    ) -> Guide | None:
        """Return the advice of the first parser, if there is one, on sentences for prediction or evaluation.

        ``all_arcs`` keeps all arcs. ``right`` includes the arcs of the treebank in the likely arcs.
        """
        only_trees = all_arcs and self.margin is not None
        if self.first is None or (only_trees and not any(map(sees_trees, self.templates.fields))):
            return None
        guide = advice_of(replace(self.first._decoder, n_jobs=n_jobs), treebank, all_arcs)
        if all_arcs:
            return Guide(guide.trees, None) if only_trees else guide
        return only_likely(guide, treebank if right else guide.trees, self.margin)

    def tokens(self, treebank: Treebank, all_arcs: bool = False, n_jobs: int | None = None) -> ArcTokens:
        """Encode sentences to parse; see :meth:`guide` for the parameters."""
        return encode(treebank, self.templates, self.guide(treebank, all_arcs, n_jobs=n_jobs))

    def encode(self, data: TreeData, trainer: OnlineTrainer) -> ArcExamples:
        """Encode later sentences of a stream."""
        if self.first is not None:
            self._check_whole(data)
        return ArcExamples.of(data.treebank, self.templates, data.weights)

    def encode_known(self, data: TreeData) -> ArcExamples:
        """Encode sentences for evaluation."""
        (treebank,) = self.complete([data.treebank])
        return ArcExamples.of(treebank, self.templates, None, self.guide(treebank, right=True))

    def facts(self, examples: ArcExamples) -> dict[str, Any]:
        """Return facts about the data for a resumed run to compare."""
        advice = [] if examples.guide is None else [part for own in examples.guide.arcs or () for part in own]
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
        dtype = np.dtype(self._given.dtype)
        if training is not None:
            bank = ArcTemplateBank.plan(self.templates, training, memory, averaging, dtype)
        else:
            bank = ArcTemplateBank(self.templates, averaging, dtype, self._sizes, memory)
        self._sizes = bank.sizes.tolist()
        return [bank], []

    def learned(self) -> dict[str, Any]:
        """Return learned attributes of the parser."""
        return {"templates_": self.templates, **({} if self.first is None else {"first_": self.first})}

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
            self.relations.fit(sentences, weights, model.settings.C, epochs, run)
        self.features = strongest_features(model.trainer.banks[0], treebank, examples, TOP)

    def pruned(self, parser: OnlineEstimator, templates: TemplateSet, bank: ArcTemplateBank) -> "TreebankCodec":
        """Make the codec of a pruned parser, with the templates of its bank and the same relations."""
        codec = TreebankCodec(parser)
        codec.templates, codec.relations, codec._sizes = templates, self.relations, bank.sizes.tolist()
        codec.features = {name: self.features[name] for name in templates.names}
        codec.empty, codec.first, codec.margin = self.empty, self.first, self.margin
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
        lexicons = {name: Lexicon.restored(below(arrays, f"lexicons/{name}/")) for name in values["lexicons"]}
        self.templates, self._sizes = TemplateSet(values["templates"], lexicons), values["sizes"]
        self.features, self.empty = values["top_features"], values["empty"]
        if values["relations"] is not None:
            self.relations = RelationLabeler.restored(values["relations"], below(arrays, "relations/"), lexicons)
        if "first" in values:
            self.first = self._kind._from_model(values["first"], Unpacker(below(arrays, "first/"), unpacker.parts))
            self.margin = values["margin"]
