"""TreebankCodec, the codec of a parser: encodes treebanks, and makes the bank of templates."""

from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from tqdm import tqdm

from omkl._components import check_number, resolve, warn_caller
from omkl.data import Sentence, Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.explanations import Explanation, explanation, summary_of
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.training import Run, RunOptions
from omkl.estimators.validation import OneOf, check_sample_weight
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import empty_shares, lacking_columns
from omkl.features.lexicons import as_lexicons, pack_lexicons, unpack_lexicons
from omkl.groups.base import Piece
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import TemplateSet, sees_trees
from omkl.groups.templates.layout import ArcTokens
from omkl.losses import CRF, StructuredLoss
from omkl.online.averaging import Predictor
from omkl.online.group_contributions import contributions
from omkl.online.model import OnlineModel
from omkl.online.rounds import below
from omkl.online.schedules import DistanceOverGradients, MeanPolyak, Schedule
from omkl.online.trainer import OnlineTrainer
from omkl.parsing import sentences, stages
from omkl.parsing.decoding import TreeCodec, TreeDecoder, feature_namer, strongest_features
from omkl.parsing.relations import RelationLabeler
from omkl.parsing.sentences import ArcExamples, TreeData
from omkl.parsing.template_selection import template_banks
from omkl.persistence import Arrays, Manifest, Packer, Unpacker
from omkl.structures.trees.arc_factored import TreeStructure, as_heads

#: Number of strongest features of each template that a parser stores by name.
TOP = 10


def tree_rates(estimator: OnlineEstimator) -> Schedule:
    """Return the schedule of ``eta0="auto"`` for a parser."""
    # rates of dual averaging depend on the distance from the origin, not on the length of a step
    if estimator.method != "fobos":
        return DistanceOverGradients()
    # the gradient of a CRF is spread over all arcs, and needs steps that are three times as long
    # (UAS for English: 87.0 instead of 86.5)
    return MeanPolyak(
        3.0 if isinstance(resolve(StructuredLoss, estimator.loss, "loss"), CRF) else 1.0
    )


def read_trees(
    block: TrainingBlock, projective: bool, single_root: bool, whole: bool = False
) -> TreeData:
    """Read and validate the sentences of a block.

    Sentences without a possible tree are dropped; from the ``whole`` data, sentences of weight 0 as
    well.
    """
    treebank = sentences.as_treebank(block.X, trees="partial", single_root=single_root)
    sentences.check_trees(treebank, partial=True)
    weights = check_sample_weight(block.sample_weight, len(treebank))
    kept = (
        sentences.only_projective(treebank, single_root)
        if projective
        else np.ones(len(treebank), dtype=bool)
    )
    if whole and weights is not None:
        kept = kept & (weights > 0)
    if not kept.any():
        raise InputError(
            "There must be a sentence of positive weight; with projective=True, a projective one."
        )
    if not kept.all():
        treebank, weights = treebank[kept], None if weights is None else weights[kept]
    return TreeData(treebank, weights, whole)


class TreebankCodec(TreeCodec):
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
        Templates of the trainer, adapted to the training data: of arcs, or of the parts of
        second-order trees.
    structure : TreeStructure
    relations : RelationLabeler or None
    features : dict of str to list
        Names and weights of the strongest features of each template.
    stage : SingleStage
        The first parser, if there is one.
    empty : dict of str to float
        Fraction of training words, in [0, 1], for which a column in use was empty, by column.
    """

    def __init__(
        self,
        parser: OnlineEstimator,
        templates: TemplateSet | None = None,
        running: RunOptions | None = None,
    ) -> None:
        self._kind: type = type(parser)
        self._given = SimpleNamespace(**parser.get_params(deep=False))
        self._chosen, self._running = templates, running or {}
        self._sizes: list[list[int]] | None = None
        self.structure: TreeStructure
        self.templates: TemplateSet
        self.relations: RelationLabeler | None = None
        self.features: dict[str, list] = {}
        self.empty: dict[str, float] = {}
        self.stage = stages.SingleStage()

    def _take(self, templates: TemplateSet, stage: stages.SingleStage) -> None:
        """Set the templates of the trainer, the earlier stage, and the structure for these."""
        self.templates, self.stage = templates, stage
        self.structure = stage.structure(self._given.projective, self._given.single_root)

    def suited(self, data: TreeData) -> TemplateSet:
        """Adapt templates to the data, and report changes."""
        asked = self._given.templates if self._chosen is None else self._chosen
        templates = TemplateSet.resolve(asked, as_lexicons(self._given.lexicons))
        found, change = sentences.suited(templates, data.treebank, data.whole)
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
        if field := min(filter(sees_trees, templates.fields), default=""):
            raise InputError(
                f"The field {field!r} needs a tree, which templates do not have: use g.FIELD or s.FIELD."
            )
        if "arc" not in kinds:
            raise InputError("Every template has an atom of g or s: give a template of arcs.")
        of_arcs = kinds.pop("arc")
        second_order = bool(kinds) and self._given.order == 2
        if kinds and not second_order and self._given.templates != "auto":
            warn_caller(
                f"order=1 leaves out {len(templates) - len(of_arcs)} templates of g or s.",
                DataWarning,
            )
        if self._given.labeled:
            arguments = data.treebank, data.whole, templates.lexicons, second_order
            self.relations = RelationLabeler.for_treebank(*arguments)
        fields = templates.fields + (
            [] if self.relations is None else self.relations.templates.fields
        )
        self.empty = empty_shares(data.treebank, fields)
        guide, stage = None, self.stage
        training = data, self._given.folds, self._running
        if second_order:
            if resolve(StructuredLoss, self._given.loss, "loss").is_likelihood:
                raise InputError(
                    f"loss={self._given.loss!r} sums over all trees, which order=2 cannot: set order=1."
                )
            own = {"templates": of_arcs, "memory": self._given.memory * (1.0 - stages.FOR_PARTS)}
            first = self._kind(**{**vars(self._given), **stages.PLAIN, **own})
            stage, guide = stages.SecondOrder.train(first, *training, stages.CANDIDATES)
            of_arcs = TemplateSet(
                [own for kind in kinds.values() for own in kind], templates.lexicons
            )
        elif self._given.likely is not None:
            first = self._kind(
                **stages.QUICK, **{name: vars(self._given)[name] for name in stages.SHARED}
            )
            stage, guide = stages.CoarseToFine.train(first, *training, self._given.likely)
        self._take(of_arcs, stage)
        earlier = stage.first[0].model_.codec.features if stage.corrects else {}
        self.features = earlier | {name: [] for name in self.templates.names}
        return ArcExamples.of(data.treebank, self.templates, data.weights, guide)

    def tokens(self, treebank: Treebank, **options: Any) -> ArcTokens:
        return sentences.encode(
            treebank, self.templates, self.stage.guide(treebank, stages.Asked(**options))
        )

    def encode(self, data: TreeData, trainer: OnlineTrainer) -> ArcExamples:
        """Encode later sentences of a stream."""
        self.stage.check_whole(data.whole)
        return ArcExamples.of(data.treebank, self.templates, data.weights)

    def encode_known(self, data: TreeData) -> ArcExamples:
        """Encode sentences for evaluation."""
        (treebank,) = self.complete([data.treebank])
        guide = self.stage.guide(treebank, stages.Asked(right=[treebank.heads]))
        return ArcExamples.of(treebank, self.templates, None, guide)

    def facts(self, examples: ArcExamples) -> dict[str, Any]:
        """Return facts about the data for a resumed run to compare."""
        advice = (
            [] if examples.guide is None else [part for own in examples.guide.arcs for part in own]
        )
        arrays = [examples.tokens.columns, examples.heads, examples.input_weights, *advice]
        facts = sentences.facts_of(examples.treebank, ["deprels"], arrays)
        return {"number of templates": len(self.templates), **facts}

    @property
    def order(self) -> list[str]:
        """Names of the groups, in the user's order."""
        return self.templates.names

    def banks(
        self, averaging: bool, training: ArcExamples | None = None, in_shards: bool = False
    ) -> tuple[list, list]:
        """Make the untrained bank; memory is allocated by the templates' numbers of features in
        ``training``.
        """
        # prediction needs a copy of the weights
        memory = self._given.memory * (1 / 2 if self._given.average in (None, "last") else 2 / 3)
        dtype, kinds = np.dtype(self._given.dtype), self.templates.by_part()
        memory *= self.stage.memory / len(kinds)
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
        return self.stage.templates(self.templates)

    def learned(self) -> dict[str, Any]:
        """Return learned attributes of the parser."""
        return {
            "templates_": self.all_templates,
            **({"first_": self.stage.first[0]} if self.stage.first else {}),
        }

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[dict[str, Any]]:
        """List the strongest features; see :meth:`omkl.DependencyParser.top_features`."""
        OneOf((None, *self.features)).check("group", group)
        groups = self.features if group is None else [group]
        features = [
            {"feature": own, "group": g, "weight": weight}
            for g in groups
            for own, weight in self.features[g]
        ]
        return sorted(features, key=lambda feature: -abs(feature["weight"]))[:n]

    def finish(
        self, model: OnlineModel, examples: ArcExamples, chosen: np.ndarray, run: Run, epochs: int
    ) -> None:
        """Train relations on the chosen sentences, and name the strongest features, after training
        of trees.
        """
        treebank, weights = examples.treebank, examples.input_weights
        if self.relations is not None:
            weights = None if weights is None else weights[chosen]
            chosen_trees = treebank if len(chosen) == len(treebank) else treebank[chosen]
            epochs = (
                self._given.epochs if self.stage.corrects else epochs
            )  # parts are trained for few
            words = np.isin(np.repeat(np.arange(len(treebank)), treebank.lengths), chosen)
            heads = None if examples.guide is None else examples.guide.heads[words]
            self.relations.fit(chosen_trees, weights, model.settings.C, epochs, run, heads)
        for bank in template_banks(model.trainer):
            self.features |= strongest_features(bank, treebank, examples, TOP)

    def passes(self, epochs: int) -> int:
        """Return the number of epochs, which is small for parts."""
        return self.stage.epochs(epochs)

    def pruned(
        self, parser: OnlineEstimator, banks: list[ArcTemplateBank], stage: stages.SingleStage
    ) -> "TreebankCodec":
        """Make the codec of a pruned parser, with the templates of its banks and the same
        relations.
        """
        codec = TreebankCodec(parser)
        codec._take(
            TemplateSet([own for bank in banks for own in bank.templates], self.templates.lexicons),
            stage,
        )
        codec.relations, codec._sizes = self.relations, [bank.sizes.tolist() for bank in banks]
        codec.empty = self.empty
        codec.features = {name: self.features[name] for name in codec.all_templates.names}
        return codec

    def complete(self, blocks: Iterable[Treebank]) -> Iterator[Treebank]:
        warned = False
        for treebank in blocks:
            lacking = [] if warned else lacking_columns(treebank, self.empty)
            if lacking:
                warned = True
                message = (
                    f"The input has no {', '.join(lacking)}, from which the parser has learned."
                )
                warn_caller(message, DataWarning)
            yield treebank

    def pack(self, packer: Packer, condensed: Arrays | None = None) -> tuple[Manifest, Arrays]:
        """Return ``(JSON values, arrays)`` for a model file; see
        :meth:`omkl.online.model.Codec.pack`.
        """
        relations, arrays = (
            (None, {}) if self.relations is None else self.relations.describe(condensed is None)
        )
        arrays = {f"relations/{name}": array for name, array in arrays.items()}
        looked_up = self.templates.looked_up | (
            set() if self.relations is None else self.relations.templates.looked_up
        )
        lexicons = {name: own for name, own in self.templates.lexicons.items() if name in looked_up}
        arrays |= pack_lexicons(lexicons)
        values: Manifest = {"templates": str(self.templates).splitlines(), "sizes": self._sizes}
        values |= {"relations": relations, "empty": self.empty, "lexicons": list(lexicons)}
        values["top_features"] = self.features
        earlier, own = self.stage.pack(condensed is None)
        return values | earlier, arrays | own

    def unpack(self, values: Manifest, arrays: Arrays, unpacker: Unpacker) -> None:
        """The inverse of :meth:`pack`."""
        lexicons = unpack_lexicons(values["lexicons"], arrays)
        templates, stage = TemplateSet(values["templates"], lexicons), self.stage
        if "first" in values:
            kind = stages.CoarseToFine if templates[0].part == "arc" else stages.SecondOrder
            stage = kind.unpack(self._kind, values, Unpacker(arrays, unpacker.parts))
        self._take(templates, stage)
        self._sizes = values["sizes"]
        self.features, self.empty = values["top_features"], values["empty"]
        if values["relations"] is not None:
            self.relations = RelationLabeler.restored(
                values["relations"], below(arrays, "relations/"), lexicons
            )


# ---- explanations --------------------------------------------------------------------------------


def explain_tree(
    self: Any,
    x: Treebank | Sentence | Sequence[str],
    *,
    heads: ArrayLike | None = None,
    against: ArrayLike | None = None,
    word: int | None = None,
    n: int = 20,
) -> Explanation:
    """Explain the tree of a sentence in comparison with the next best tree.

    The score of a tree is a sum over arcs and templates, and so is the margin, the difference of
    the two scores. Relations are not explained.

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
    decoder: TreeDecoder = self._decoder
    codec: TreebankCodec = self.model_.codec
    [(block, _)] = decoder.blocks(x if isinstance(x, Treebank) else [x])
    if len(block) != 1:
        raise InputError(f"`x` must be one sentence, got {len(block)}.")
    predictor, n_words = decoder.model.predictor(), block.n_words
    if word is not None:
        check_number("word", word, above=0, below=n_words + 1, integer=True)
    given = [as_heads(own, n_words) for own in (heads, against) if own is not None]
    sentence = codec.tokens(block, right=given, wide=True).sentence(0)
    potentials = predictor.potentials(sentence)
    chosen = decoder.trees(block)[0] if heads is None else given[0]
    structure, others = codec.structure, given[-1:]
    if against is None and word is None:
        others = [
            own
            for own in structure.decode_best(potentials, 2)[0]
            if not np.array_equal(own, chosen)
        ]
    elif against is None and word is not None:
        own = structure.forbidding(potentials, [(chosen[word - 1], word)])
        others = [structure.decode(own)] if structure.is_possible(own) else []
    if not others:
        raise InputError("There is no other tree to compare with.")
    other = others[0]
    name = feature_namer(codec.all_templates, block)
    templates = {template.name: template for template in codec.all_templates}

    def named(pieces: list[Piece]) -> list[str]:
        """Return the names of features of single arcs and parts."""
        return [name(templates[piece.group], 0, *piece.key) for piece in pieces]

    forms = ["ROOT", *(form or "_" for form in block[0].forms)]
    told = [
        f"{forms[i + 1]} ({i + 1}) from {forms[chosen[i]]} ({chosen[i]}) rather than {forms[other[i]]} ({other[i]})"
        for i in np.flatnonzero(chosen != other).tolist()
    ]
    margin, direction = structure.difference(potentials, chosen, other)
    found = codec.stage.explained(
        contributions(predictor, sentence, direction), block, given, direction
    )
    return explanation(chosen, other, summary_of(told), margin, found, n, named)
