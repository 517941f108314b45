"""TreebankCodec, the codec of a parser: encodes treebanks, and makes the bank of templates."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from omkl._components import resolve, warn_caller
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.options import Passes
from omkl.estimators.sources import TrainingBlock
from omkl.estimators.training import Run, RunOptions
from omkl.estimators.validation import OneOf, check_sample_weight
from omkl.exceptions import DataWarning, InputError
from omkl.features.fields import empty_shares, lacking_columns
from omkl.features.lexicons import as_lexicons, pack_lexicons, unpack_lexicons
from omkl.groups.templates.bank import ArcTemplateBank
from omkl.groups.templates.language import Template, TemplateSet, sees_trees
from omkl.groups.templates.layout import ArcTokens
from omkl.losses import CRF, StructuredLoss
from omkl.online.averaging import Predictor
from omkl.online.model import OnlineModel
from omkl.online.rounds import Record, State, Values, below
from omkl.online.schedules import DistanceOverGradients, MeanPolyak, Schedule
from omkl.online.trainer import OnlineTrainer
from omkl.parsing import sentences, stages
from omkl.parsing.decoding import NARROW, AdviceRequest, TreeCodec
from omkl.parsing.explanations import strongest_features
from omkl.parsing.relations import RelationLabeler
from omkl.parsing.sentences import ArcExamples, TreeData
from omkl.parsing.template_selection import template_banks
from omkl.persistence import Arrays, Packer, Unpacker
from omkl.structures.trees.arc_factored import TreeStructure

#: Number of strongest features of each template that a parser stores by name.
TOP = 10
#: Type of the weights of features.
WEIGHTS = np.dtype(np.float32)


def tree_rates(estimator: OnlineEstimator) -> Schedule:
    """Return the schedule of ``learning_rate="auto"`` for a parser."""
    # rates of dual averaging depend on the distance from the origin, not on the length of a step
    if estimator.method != "fobos":
        return DistanceOverGradients()
    # the gradient of a CRF is spread over all arcs, and needs steps that are three times as long
    # (UAS for English: 87.0 instead of 86.5)
    is_crf = isinstance(resolve(StructuredLoss, estimator.loss, "loss"), CRF)
    return MeanPolyak(3.0 if is_crf else 1.0)


def read_trees(
    block: TrainingBlock, projective: bool, single_root: bool, is_all_data: bool = False
) -> TreeData:
    """Read and validate the sentences of a block.

    Sentences without a possible tree are dropped, and so are sentences of weight 0 if
    ``is_all_data``, that is, if the block is not one of a stream.
    """
    treebank = sentences.as_treebank(block.X, trees="partial", single_root=single_root)
    sentences.check_trees(treebank, partial=True)
    weights = check_sample_weight(block.sample_weight, len(treebank))
    are_usable = np.ones(len(treebank), dtype=bool)
    if projective:
        are_usable = sentences.only_projective(treebank, single_root)
    if is_all_data and weights is not None:
        are_usable = are_usable & (weights > 0)
    if not are_usable.any():
        raise InputError(
            "There must be a sentence of positive weight; with TreeForm(projective=True), "
            "a projective one."
        )
    if not are_usable.all():
        treebank = treebank[are_usable]
        if weights is not None:
            weights = weights[are_usable]
    return TreeData(treebank=treebank, weights=weights, is_all_data=is_all_data)


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
        self._parser_class: type = type(parser)
        self._parameters = SimpleNamespace(**parser.get_params(deep=False))
        self._chosen_templates = templates
        self._running = running or {}
        #: Number of hash buckets of the templates of each bank.
        self._sizes: list[list[int]] | None = None
        self.structure: TreeStructure
        self.templates: TemplateSet
        self.relations: RelationLabeler | None = None
        self.features: dict[str, list] = {}
        self.empty: dict[str, float] = {}
        self.stage = stages.SingleStage()

    def _set_stage(self, stage: stages.SingleStage, templates: TemplateSet) -> None:
        """Set the earlier stage, the structure for it, and the templates of the trainer."""
        self.stage = stage
        form = self._parameters.trees
        self.structure = stage.structure(form.projective, form.single_root)
        self.templates = templates

    def suitable_templates(self, data: TreeData) -> TemplateSet:
        """Adapt templates to the data, and report changes."""
        templates = self._chosen_templates
        if templates is None:
            templates = self._parameters.templates
        is_auto = isinstance(templates, str) and templates == "auto"
        templates_of_user = self._chosen_templates is None and not is_auto
        templates = TemplateSet.resolve(templates, as_lexicons(self._parameters.lexicons))
        templates, change = sentences.suitable_templates(templates, data.treebank, data.is_all_data)
        if change and (templates_of_user or not data.is_all_data):
            warn_caller(change, DataWarning)
        elif change and self._parameters.verbose:
            tqdm.write(change)
        return templates

    def start(self, data: TreeData) -> ArcExamples:
        """Determine templates and relations from the first data, and encode these data."""
        templates = self.suitable_templates(data)
        field_of_trees = min(filter(sees_trees, templates.fields), default="")
        if field_of_trees:
            raise InputError(
                f"The field {field_of_trees!r} needs a tree, which templates do not have: "
                "use g.FIELD or s.FIELD."
            )
        by_part = templates.by_part()
        if "arc" not in by_part:
            raise InputError("Every template has an atom of g or s: give a template of arcs.")
        arc_templates = by_part.pop("arc")
        part_templates = [template for kind in by_part.values() for template in kind]
        is_second_order = bool(part_templates) and self._parameters.search.order == 2
        if part_templates and not is_second_order and self._parameters.templates != "auto":
            warn_caller(
                f"TreeSearch(order=1) leaves out {len(part_templates)} templates of g or s.",
                DataWarning,
            )
        fields = list(templates.fields)
        if self._parameters.trees.labeled:
            self.relations = RelationLabeler.for_treebank(
                data.treebank, data.is_all_data, templates.lexicons, is_second_order
            )
            fields += self.relations.templates.fields
        self.empty = empty_shares(data.treebank, fields)
        guide = None
        if is_second_order:
            guide = self._train_second_order(data, arc_templates, part_templates)
        elif self._parameters.search.likely is not None:
            guide = self._train_coarse_to_fine(data, arc_templates)
        else:
            self._set_stage(self.stage, arc_templates)
        features = {}
        if self.stage.corrects:
            features = self.stage.first[0].model_.codec.features
        self.features = features | {name: [] for name in self.templates.names}
        return ArcExamples.of(data.treebank, self.templates, data.weights, guide)

    def _train_second_order(
        self, data: TreeData, arc_templates: TemplateSet, part_templates: list[Template]
    ) -> sentences.Guide:
        """Train the parser of arcs, and return its advice on the data."""
        parameters = self._parameters
        if resolve(StructuredLoss, parameters.loss, "loss").is_likelihood:
            raise InputError(
                f"loss={parameters.loss!r} sums over all trees, which parts cannot: "
                "set TreeSearch(order=1)."
            )
        changes = {
            "templates": arc_templates,
            "memory": parameters.memory * (1.0 - stages.FOR_PARTS),
            "trees": replace(parameters.trees, labeled=False),
            "search": replace(parameters.search, order=1, decode="map"),
        }
        first = self._parser_class(**{**vars(parameters), **stages.PLAIN, **changes})
        stage, guide = stages.SecondOrder.train(
            first, data, parameters.search.folds, self._running, stages.CANDIDATES
        )
        self._set_stage(stage, TemplateSet(part_templates, arc_templates.lexicons))
        return guide

    def _train_coarse_to_fine(self, data: TreeData, templates: TemplateSet) -> sentences.Guide:
        """Train the parser that selects likely arcs, and return its advice on the data."""
        parameters = vars(self._parameters)
        shared = {name: parameters[name] for name in stages.SHARED}
        unlabeled = replace(self._parameters.trees, labeled=False)
        first = self._parser_class(trees=unlabeled, **stages.QUICK, **shared)
        search = self._parameters.search
        stage, guide = stages.CoarseToFine.train(
            first, data, search.folds, self._running, search.likely
        )
        self._set_stage(stage, templates)
        return guide

    def tokens(self, treebank: Treebank, request: AdviceRequest = NARROW) -> ArcTokens:
        return sentences.encode(treebank, self.templates, self.stage.guide(treebank, request))

    def encode(self, data: TreeData, trainer: OnlineTrainer) -> ArcExamples:
        """Encode later sentences of a stream."""
        self.stage.check_trainable(data.is_all_data)
        return ArcExamples.of(data.treebank, self.templates, data.weights)

    def encode_for_evaluation(self, data: TreeData) -> ArcExamples:
        """Encode sentences for evaluation."""
        (treebank,) = self.complete([data.treebank])
        guide = self.stage.guide(treebank, AdviceRequest(right=[treebank.heads]))
        return ArcExamples.of(treebank, self.templates, None, guide)

    def facts(self, examples: ArcExamples) -> Values:
        """Return facts about the data for a resumed run to compare."""
        arrays = [examples.tokens.columns, examples.heads, examples.input_weights]
        if examples.guide is not None:
            arrays += chain.from_iterable(examples.guide.arcs)
        facts = sentences.facts_of(examples.treebank, ["deprels"], arrays)
        return {"number of templates": len(self.templates), **facts}

    @property
    def order(self) -> list[str]:
        """Names of the groups, in the user's order."""
        return self.templates.names

    def banks(
        self, averaging: bool, training: ArcExamples | None = None, in_shards: bool = False
    ) -> tuple[list, list]:
        """Make the untrained banks.

        Memory is allocated by the templates' numbers of features in ``training``.
        """
        # prediction needs a copy of the weights
        has_average = self._parameters.average not in (None, "last")
        memory = self._parameters.memory * (2 / 3 if has_average else 1 / 2)
        by_part = self.templates.by_part()
        memory *= self.stage.memory / len(by_part)
        banks = []
        for number, templates in enumerate(by_part.values()):
            if training is not None:
                banks.append(ArcTemplateBank.plan(templates, training, memory, averaging, WEIGHTS))
            else:
                sizes = None if self._sizes is None else self._sizes[number]
                banks.append(ArcTemplateBank(templates, averaging, WEIGHTS, sizes, memory))
        self._sizes = [bank.sizes.tolist() for bank in banks]
        return banks, []

    @property
    def all_templates(self) -> TemplateSet:
        """Templates of arcs and parts."""
        return self.stage.templates(self.templates)

    def learned(self) -> Values:
        """Return learned attributes of the parser."""
        learned: Values = {"templates_": self.all_templates}
        if self.stage.first:
            learned["first_"] = self.stage.first[0]
        return learned

    def top_features(self, predictor: Predictor, n: int, group: str | None) -> list[Record]:
        """List the strongest features; see :meth:`omkl.DependencyParser.top_features`."""
        OneOf((None, *self.features)).check("group", group)
        groups = self.features if group is None else [group]
        features = []
        for name_of_group in groups:
            for name, weight in self.features[name_of_group]:
                features.append({"feature": name, "group": name_of_group, "weight": weight})
        return sorted(features, key=lambda feature: -abs(feature["weight"]))[:n]

    def finish(
        self, model: OnlineModel, examples: ArcExamples, chosen: np.ndarray, run: Run, epochs: int
    ) -> None:
        """Train relations on the chosen sentences, and name the strongest features.

        This is called after the training of trees, which took so many ``epochs``.
        """
        treebank = examples.treebank
        if self.relations is not None:
            weights = examples.input_weights
            if weights is not None:
                weights = weights[chosen]
            if self.stage.corrects:  # parts are trained for few epochs
                epochs = Passes.of("epochs", self._parameters.epochs).epochs
            heads = None
            if examples.guide is not None:
                sentences_of_words = np.repeat(np.arange(len(treebank)), treebank.lengths)
                heads = examples.guide.heads[np.isin(sentences_of_words, chosen)]
            trees = treebank if len(chosen) == len(treebank) else treebank[chosen]
            self.relations.fit(trees, weights, model.settings.C, epochs, run, heads)
        for bank in template_banks(model.trainer):
            self.features |= strongest_features(bank, treebank, examples, TOP)

    def passes(self, epochs: int) -> int:
        """Return the number of epochs, which is small for parts."""
        return self.stage.epochs(epochs)

    def pruned(
        self, parser: OnlineEstimator, banks: list[ArcTemplateBank], stage: stages.SingleStage
    ) -> "TreebankCodec":
        """Make the codec of a pruned parser.

        It has the templates of its banks, and the same relations.
        """
        codec = TreebankCodec(parser)
        templates = list(chain.from_iterable(bank.templates for bank in banks))
        codec._set_stage(stage, TemplateSet(templates, self.templates.lexicons))
        codec.relations = self.relations
        codec._sizes = [bank.sizes.tolist() for bank in banks]
        codec.empty = self.empty
        codec.features = {name: self.features[name] for name in codec.all_templates.names}
        return codec

    def complete(self, blocks: Iterable[Treebank]) -> Iterator[Treebank]:
        has_warned = False
        for treebank in blocks:
            lacking = [] if has_warned else lacking_columns(treebank, self.empty)
            if lacking:
                has_warned = True
                warn_caller(
                    f"The input has no {', '.join(lacking)}, from which the parser has learned.",
                    DataWarning,
                )
            yield treebank

    def pack(self, packer: Packer, condensed: Arrays | None = None) -> State:
        """Return JSON values and arrays for a model file; see :meth:`.Codec.pack`."""
        includes_training = condensed is None
        relations = None
        arrays = {}
        lexicons_in_use = self.templates.looked_up
        if self.relations is not None:
            relations, arrays_of_relations = self.relations.describe(includes_training)
            for name, array in arrays_of_relations.items():
                arrays[f"relations/{name}"] = array
            lexicons_in_use |= self.relations.templates.looked_up
        lexicons = {}
        for name, lexicon in self.templates.lexicons.items():
            if name in lexicons_in_use:
                lexicons[name] = lexicon
        values_of_stage, arrays_of_stage = self.stage.pack(includes_training)
        values: Values = {
            "templates": str(self.templates).splitlines(),
            "sizes": self._sizes,
            "relations": relations,
            "empty": self.empty,
            "lexicons": list(lexicons),
            "top_features": self.features,
        }
        return values | values_of_stage, arrays | pack_lexicons(lexicons) | arrays_of_stage

    def unpack(self, values: Values, arrays: Arrays, unpacker: Unpacker) -> None:
        """Read the result of :meth:`pack`."""
        lexicons = unpack_lexicons(values["lexicons"], arrays)
        templates = TemplateSet(values["templates"], lexicons)
        stage = self.stage
        if "first" in values:
            is_of_arcs = templates[0].part == "arc"
            stage_class = stages.CoarseToFine if is_of_arcs else stages.SecondOrder
            unpacker_of_stage = Unpacker(arrays, unpacker.parts)
            stage = stage_class.unpack(self._parser_class, values, unpacker_of_stage)
        self._set_stage(stage, templates)
        self._sizes = values["sizes"]
        self.features = values["top_features"]
        self.empty = values["empty"]
        if values["relations"] is not None:
            self.relations = RelationLabeler.restored(
                values["relations"], below(arrays, "relations/"), lexicons
            )
