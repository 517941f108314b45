"""Stages of parsing: a model of arcs, or a first parser and a model that uses its potentials."""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, Unpack

import numpy as np

from omkl._components import check_number
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.training import RunOptions, in_folder
from omkl.exceptions import DataWarning, InputError
from omkl.groups.base import Contributions
from omkl.groups.templates.language import TemplateSet
from omkl.groups.templates.layout import ArcGuide
from omkl.online import group_contributions
from omkl.online.model import OnlineModel
from omkl.online.rounds import State, Values, below
from omkl.parsing.decoding import FREE, AdviceRequest, ArcConstraints, TreeCodec, TreeDecoder
from omkl.parsing.options import TreeSearch
from omkl.parsing.sentences import Guide, TreeData, concatenate_heads
from omkl.persistence import Packer, Unpacker
from omkl.structures.base import Potentials
from omkl.structures.trees.arc_factored import (
    NonProjectiveTree,
    ProjectiveTree,
    TreePotentials,
    TreeStructure,
    as_scores,
    known_arcs,
)
from omkl.structures.trees.parts import SecondOrderTree

#: Parameters of the small parser that selects likely arcs, and parameters that it copies.
QUICK: dict[str, Any] = {
    "templates": "small",
    "search": TreeSearch(order=1),
    "C": 1.0,
    "epochs": 3,
}
SHARED = ("lexicons", "memory", "n_jobs", "random_state", "verbose")
#: Parameters that the parser of arcs does not copy from a parser of second order.
PLAIN: dict[str, Any] = {
    "keep": None,
    "callbacks": None,
    "early_stopping": False,
}
#: Share of gold arcs among the candidate arcs of second-order trees.
CANDIDATES = 0.99
#: Maximum number of epochs for parts, which overfit later.
PART_EPOCHS = 3
#: Share of the memory for parts of second-order trees.
FOR_PARTS = 0.25


#: A trained parser of a stage.
Parser: TypeAlias = OnlineEstimator[TreeCodec]


class TrainableParser(Protocol):
    """A parser that stages train on sentences."""

    n_jobs: int | None

    def fit(
        self,
        X: Treebank,
        *,
        sample_weight: np.ndarray | None = None,
        **run: Unpack[RunOptions],
    ) -> Parser:
        """Train from scratch."""


class Selection(NamedTuple):
    """Rule that selects candidate arcs by the potentials of a first parser.

    Attributes
    ----------
    margin : float
        Arcs within this margin of the word's best arc are candidates, besides those of the first
        parser's tree.
    most : int or None
        Maximum number of candidates of a word; None for no limit.
    """

    margin: float
    most: int | None = None

    def mask_of(self, potentials: np.ndarray) -> np.ndarray:
        """Return a mask of the candidate arcs, given their potentials, both (n + 1, n + 1)."""
        into = potentials[:, 1:]
        candidates = into >= into.max(axis=0) - self.margin
        if self.most is not None and self.most < len(potentials):
            rank = self.most - 1
            lowest = -np.partition(-into, rank, axis=0)[rank]
            candidates &= into >= lowest
        mask = np.ones(potentials.shape, dtype=bool)
        mask[:, 1:] = candidates
        return mask


def advice_of(
    decoder: TreeDecoder, treebank: Treebank, constraints: ArcConstraints = FREE
) -> Guide:
    """Return trees and potentials (float32) of a fitted parser."""

    def decode(potentials: Potentials) -> tuple[np.ndarray, ArcGuide]:
        scores = as_scores(potentials)
        return decoder.structure.decode(scores), ArcGuide(scores.astype(np.float32))

    results = decoder.from_potentials(treebank, decode, constraints)
    heads = concatenate_heads([heads_of_sentence for heads_of_sentence, _ in results])
    return Guide(heads=heads, arcs=[arcs for _, arcs in results])


def _potentials_of(arcs: ArcGuide) -> np.ndarray:
    """Return potentials, (n + 1, n + 1) float64, that forbid arcs from words to themselves."""
    potentials = np.array(arcs.potentials, np.float64)
    np.fill_diagonal(potentials, -np.inf)
    return potentials


def margin_of_candidates(guide: Guide, gold: Treebank, share: float) -> float:
    """Return the smallest margin that includes this share of gold arcs that are possible.

    The margin is below the best potential of a word.
    """
    margins = []
    for arcs, heads in zip(guide.arcs, gold.trees()):
        potentials = _potentials_of(arcs)
        gold_arcs = known_arcs(heads)
        margins.append(potentials.max(axis=0)[gold_arcs[1]] - potentials[gold_arcs])
    all_margins = np.concatenate(margins)
    possible = all_margins[np.isfinite(all_margins)]
    return float(np.quantile(possible, share, method="higher"))


def candidate_arcs(
    guide: Guide,
    treebank: Treebank,
    selection: Selection,
    right: Sequence[np.ndarray],
    corrects: bool,
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
        Whether the second parser adds to the potentials of the first. Right arcs that the first
        parser forbids get the lowest potential of their word.
    """
    advice = []
    for arcs, (start, end) in zip(guide.arcs, pairwise(treebank.offsets)):
        potentials = _potentials_of(arcs)
        likely = selection.mask_of(potentials)
        for heads in (guide.heads, *right):
            likely[known_arcs(heads[start:end])] = True
        np.fill_diagonal(likely, True)  # no arc
        corrected = None
        if corrects:
            are_possible = np.isfinite(potentials)
            lowest = np.where(are_possible, potentials, np.inf).min(axis=0)
            corrected = np.where(likely & ~are_possible, lowest, potentials).astype(np.float32)
            np.fill_diagonal(corrected, 0.0)
        advice.append(ArcGuide(corrected, likely))
    return Guide(heads=guide.heads, arcs=advice)


def complete_heads(structure: TreeStructure, guide: Guide, gold: Treebank) -> np.ndarray:
    """Replace unknown heads by those of the first parser's best tree with the known heads."""
    all_heads = gold.heads.astype(np.int64)
    for arcs, (start, end) in zip(guide.arcs, pairwise(gold.offsets)):
        heads = all_heads[start:end]
        if (heads >= 0).all():
            continue
        potentials = np.array(arcs.potentials, np.float64)
        potentials[known_arcs(heads)] = 0.0  # which the first parser may have forbidden
        agreeing = structure.agreeing(TreePotentials(potentials), heads)
        if structure.is_possible(agreeing):
            all_heads[start:end] = structure.decode(agreeing)
    return all_heads


def cross_fit(
    first: TrainableParser,
    treebank: Treebank,
    weights: np.ndarray | None,
    folds: int,
    running: RunOptions,
) -> tuple[Parser, Guide]:
    """Train a copy of a first parser on gold trees, and collect its cross-fitted advice.

    Advice on sentence ``i`` comes from a parser trained on the sentences ``j`` with ``j % folds !=
    i % folds``. The copy has no training state: what is trained on its advice cannot be trained
    further either. ``running`` has further arguments of ``fit``; each training has its own folder
    of checkpoints.
    """
    check_number("folds", folds, above=1, below=len(treebank) + 1, integer=True)

    def train(name: str, sentences: np.ndarray | None = None) -> Parser:
        """Train a copy of the first parser on these sentences; None: all."""
        options = in_folder(running, name)
        if sentences is None:
            return copy(first).fit(treebank, sample_weight=weights, **options)
        chosen_weights = None if weights is None else weights[sentences]
        return copy(first).fit(treebank[sentences], sample_weight=chosen_weights, **options)

    folds_of_sentences = np.arange(len(treebank)) % folds
    heads = np.zeros(treebank.n_words, np.int64)
    advice = [ArcGuide()] * len(treebank)
    for fold in range(folds):
        are_held_out = folds_of_sentences == fold
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # training on all sentences gives the same warnings
            parser = train(f"first-{fold}", ~are_held_out)
            decoder = TreeDecoder(parser.model_, n_jobs=first.n_jobs)
            guide = advice_of(decoder, treebank[are_held_out])
        del parser, decoder  # before the next one is trained
        heads[np.repeat(are_held_out, treebank.lengths)] = guide.heads
        for i, arcs in zip(np.flatnonzero(are_held_out), guide.arcs):
            advice[i] = arcs
    return train("first")._predicting(history=True), Guide(heads=heads, arcs=advice)


class SingleStage:
    """A model of arcs without a first parser."""

    #: Trained parsers before the model.
    first: tuple[Any, ...] = ()
    #: Share of the memory of the parser for the model.
    memory = 1.0
    #: Whether the model adds to the potentials of the first parser.
    corrects = False

    def structure(self, projective: bool, single_root: bool) -> TreeStructure:
        """Return the structure of trees."""
        if projective:
            return ProjectiveTree(single_root)
        return NonProjectiveTree(single_root)

    def models(self, model: OnlineModel[TreeCodec]) -> list[OnlineModel[TreeCodec]]:
        """Return the models whose templates are those of the parser, given its last one."""
        return [model]

    def templates(self, of_last_model: TemplateSet) -> TemplateSet:
        """Return all templates of the parser, given those of its last model."""
        return of_last_model

    def epochs(self, epochs: int) -> int:
        """Return the number of epochs of the last model."""
        return epochs

    def check_trainable(self, is_all_data: bool) -> None:
        """Raise an InputError if the stages cannot be trained on a block of a stream."""

    def guide(self, treebank: Treebank, request: AdviceRequest) -> Guide | None:
        """Return the advice of the first parser on sentences to parse or evaluate.

        None if there is no first parser.
        """
        return None

    def with_contributions_of_first(
        self,
        contributions: Contributions,
        treebank: Treebank,
        request: AdviceRequest,
        direction: Potentials,
    ) -> Contributions:
        """Add contributions of the first parser to those of the model.

        Without a first parser, return ``contributions`` as they are.
        """
        return contributions

    def restricted(self, names: Sequence[str], restrict: Callable) -> Self:
        """Return the stages with some of the templates of earlier models.

        ``restrict(parser, names)`` selects them.
        """
        return self

    def pack(self, training: bool) -> State:
        """Return JSON values and arrays for a model file.

        ``training`` says whether to include the state for training.
        """
        return {}, {}


class CoarseToFine(SingleStage):
    """A small first parser that selects the arcs that the model scores.

    Parameters
    ----------
    first : DependencyParser
        The trained first parser.
    selection : Selection
        Rule that selects candidate arcs by its potentials.
    """

    #: Parameter of the parser for this stage, and its setting for none.
    parameter = "TreeSearch(likely=...)"
    setting_for_none = "TreeSearch(likely=None)"
    #: Maximum number of candidates of a word.
    most: int | None = None

    def __init__(self, first: Parser, selection: Selection) -> None:
        self.first = (first,)
        self.selection = selection

    @classmethod
    def train(
        cls, first: TrainableParser, data: TreeData, folds: int, running: RunOptions, share: float
    ) -> tuple[Self, Guide]:
        """Train a first parser, and select candidate arcs for training.

        These are from parsers that were not trained on the same sentences. ``share`` of the gold
        arcs are candidates, and at most :attr:`most` arcs of a word.
        """
        cls.check_trainable(data.is_all_data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # there was a warning about the templates
            parser, guide = cross_fit(first, data.treebank, data.weights, folds, running)
        margin = margin_of_candidates(guide, data.treebank, share)
        stage = cls(parser, Selection(margin=margin, most=cls.most))
        right = complete_heads(parser.model_.codec.structure, guide, data.treebank)
        guide = candidate_arcs(guide, data.treebank, stage.selection, [right], cls.corrects)
        return stage, guide

    @classmethod
    def check_trainable(cls, is_all_data: bool) -> None:
        if not is_all_data:
            raise InputError(
                f"A parser with {cls.parameter} learns from all sentences at once: "
                f"give them to fit, or set {cls.setting_for_none}."
            )

    def guide(self, treebank: Treebank, request: AdviceRequest) -> Guide:
        decoder = TreeDecoder(self.first[0].model_, n_jobs=request.n_jobs)
        guide = advice_of(decoder, treebank, request.constraints)
        selection = self.selection
        if request.wide:
            selection = selection._replace(margin=np.inf)
        return candidate_arcs(guide, treebank, selection, request.right, self.corrects)

    def pack(self, training: bool) -> State:
        packer = Packer()
        values = {
            "first": self.first[0]._manifest(packer, training=False, history=training),
            "selection": self.selection,
        }
        return values, {f"first/{name}": array for name, array in packer.arrays.items()}

    @classmethod
    def unpack(cls, kind: type[Parser], values: Values, unpacker: Unpacker) -> Self:
        """Create the stage from the result of :meth:`pack`; ``kind`` is the class of the parser."""
        unpacker_of_first = Unpacker(below(unpacker.arrays, "first/"), unpacker.parts)
        first = kind._from_model(values["first"], unpacker_of_first)
        return cls(first, Selection(*values["selection"]))


class SecondOrder(CoarseToFine):
    """A first parser of arcs, and a model of parts that adds to its potentials."""

    parameter = "TreeSearch(order=2)"
    setting_for_none = "TreeSearch(order=1)"
    corrects = True
    most = 8
    memory = FOR_PARTS

    def structure(self, projective: bool, single_root: bool) -> TreeStructure:
        return SecondOrderTree(single_root, projective)

    def models(self, model: OnlineModel[TreeCodec]) -> list[OnlineModel[TreeCodec]]:
        return [self.first[0].model_, model]

    def templates(self, of_last_model: TemplateSet) -> TemplateSet:
        arc_templates = self.first[0].model_.codec.templates
        return TemplateSet([*arc_templates, *of_last_model], of_last_model.lexicons)

    def epochs(self, epochs: int) -> int:
        return min(epochs, PART_EPOCHS)

    def with_contributions_of_first(
        self,
        contributions: Contributions,
        treebank: Treebank,
        request: AdviceRequest,
        direction: Potentials,
    ) -> Contributions:
        first = self.first[0].model_
        sentence = first.codec.tokens(treebank, request).sentence(0)
        adds = group_contributions.contributions(first.predictor(), sentence, direction)
        groups = dict(contributions.groups)
        groups.pop(group_contributions.GIVEN, None)
        return Contributions(adds.groups | groups, [*adds.pieces, *contributions.pieces])

    def restricted(self, names: Sequence[str], restrict: Callable) -> Self:
        names_of_first = self.first[0].model_.codec.templates.names
        names_to_keep = [name for name in names if name in names_of_first]
        return type(self)(restrict(self.first[0], names_to_keep), self.selection)
