"""Stages of parsing: one model of arcs, or a first parser and a second model that uses its
potentials.
"""

import warnings
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np

from omkl._components import check_number
from omkl.data import Treebank
from omkl.estimators.training import RunOptions, in_folder
from omkl.exceptions import DataWarning, InputError
from omkl.groups.base import Contributions
from omkl.groups.templates.language import TemplateSet
from omkl.groups.templates.layout import ArcGuide
from omkl.online.group_contributions import GIVEN, contributions
from omkl.online.model import OnlineModel
from omkl.online.rounds import below
from omkl.parsing.decoding import FREE, ArcConstraints, TreeCodec, TreeDecoder
from omkl.parsing.sentences import Guide, TreeData, joined
from omkl.persistence import Manifest, Packer, Unpacker
from omkl.structures.base import Potentials
from omkl.structures.trees.arc_factored import (
    NonProjectiveTree,
    ProjectiveTree,
    TreePotentials,
    TreeStructure,
    as_scores,
)
from omkl.structures.trees.parts import SecondOrderTree

#: Parameters of the small parser that selects likely arcs, and parameters that it copies.
QUICK: dict[str, Any] = {"templates": "small", "order": 1, "C": 1.0, "epochs": 3, "labeled": False}
SHARED = (
    "lexicons",
    "projective",
    "single_root",
    "memory",
    "dtype",
    "n_jobs",
    "random_state",
    "verbose",
)
#: Parameters that the parser of arcs does not copy from a parser of second order.
PLAIN: dict[str, Any] = {
    "order": 1, "keep": None, "labeled": False, "callbacks": None, "early_stopping": False, "decode": "map"
}  # fmt: skip
#: Share of gold arcs among the candidate arcs of second-order trees.
CANDIDATES = 0.99
#: Maximum number of epochs for parts, which overfit later.
PART_EPOCHS = 3
#: Share of the memory for parts of second-order trees.
FOR_PARTS = 0.25


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


def advice_of(
    decoder: TreeDecoder, treebank: Treebank, constraints: ArcConstraints = FREE
) -> Guide:
    """Return trees and potentials (float32) of a fitted parser."""

    def advised(potentials: Potentials) -> tuple[np.ndarray, ArcGuide]:
        scores = as_scores(potentials)
        return decoder.structure.decode(scores), ArcGuide(scores.astype(np.float32))

    found = decoder.from_potentials(treebank, advised, constraints)
    return Guide(joined([heads for heads, _ in found]), [arcs for _, arcs in found])


def likely_margin(guide: Guide, gold: Treebank, share: float) -> float:
    """Return the smallest margin below the best potential of a word that includes this share of
    possible gold arcs.
    """
    below = []
    for arcs, heads in zip(guide.arcs, gold.trees()):
        potentials, known = np.array(arcs.potentials, np.float64), np.flatnonzero(heads >= 0)
        np.fill_diagonal(potentials, -np.inf)
        below.append(potentials[:, 1:].max(axis=0)[known] - potentials[heads[known], known + 1])
    found = np.concatenate(below)
    return float(np.quantile(found[np.isfinite(found)], share, method="higher"))


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
    found = []
    for s, arcs in enumerate(guide.arcs):
        words = slice(*treebank.offsets[s : s + 2])
        potentials = np.array(arcs.potentials, np.float64)
        np.fill_diagonal(potentials, -np.inf)
        into, n = potentials[:, 1:], len(potentials) - 1
        likely = np.ones(potentials.shape, dtype=bool)
        likely[:, 1:] = into >= into.max(axis=0) - selection.margin
        if selection.most is not None and selection.most <= n:
            likely[:, 1:] &= (
                into >= -np.partition(-into, selection.most - 1, axis=0)[selection.most - 1]
            )
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
    """Replace unknown heads by those of the best tree of the first parser that agrees with the
    known heads.
    """
    heads = gold.heads.astype(np.int64)
    for s in (
        np.flatnonzero(np.minimum.reduceat(heads, gold.offsets[:-1]) < 0) if len(heads) else ()
    ):
        words = slice(*gold.offsets[s : s + 2])
        potentials, known = (
            np.array(guide.arcs[s].potentials, np.float64),
            np.flatnonzero(heads[words] >= 0),
        )
        potentials[heads[words][known], known + 1] = (
            0.0  # which the first parser may have forbidden
        )
        agreeing = structure.agreeing(TreePotentials(potentials), heads[words])
        if structure.is_possible(agreeing):
            heads[words] = structure.decode(agreeing)
    return heads


def cross_fit(
    first: Any, treebank: Treebank, weights: np.ndarray | None, folds: int, running: RunOptions
) -> tuple[Any, Guide]:
    """Train a copy of a first parser on gold trees, and collect its cross-fitted advice on the same
    sentences.

    Advice on sentence ``i`` comes from a parser trained on the sentences ``j`` with ``j % folds !=
    i % folds``. The copy has no training state: what is trained on its advice cannot be trained
    further either. ``running`` has further arguments of ``fit``; each training has its own folder
    of checkpoints.
    """
    check_number("folds", folds, above=1, below=len(treebank) + 1, integer=True)
    fold = np.arange(len(treebank)) % folds
    advice, heads = [ArcGuide()] * len(treebank), np.zeros(treebank.n_words, np.int64)
    for f in range(folds):
        rest = None if weights is None else weights[fold != f]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # training on all sentences gives the same warnings
            own = in_folder(running, f"first-{f}")
            parser = copy(first).fit(treebank[fold != f], sample_weight=rest, **own)
            found = advice_of(TreeDecoder(parser.model_, n_jobs=first.n_jobs), treebank[fold == f])
        del parser  # before the next one is trained
        heads[np.repeat(fold == f, treebank.lengths)] = found.heads
        for i, arcs in zip(np.flatnonzero(fold == f), found.arcs):
            advice[i] = arcs
    whole = copy(first).fit(treebank, sample_weight=weights, **in_folder(running, "first"))
    return whole._predicting(history=True), Guide(heads, advice)


class Asked(NamedTuple):
    """Request for the advice of a first parser.

    Attributes
    ----------
    constraints : ArcConstraints
    right : sequence of int arrays
        Heads of all words; their arcs are candidates as well.
    n_jobs : int or None
    wide : bool
        Whether to ignore the margin of candidates.
    """

    constraints: ArcConstraints = FREE
    right: Sequence[np.ndarray] = ()
    n_jobs: int | None = None
    wide: bool = False


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
        return (ProjectiveTree if projective else NonProjectiveTree)(single_root)

    def models(self, model: OnlineModel[TreeCodec]) -> list[OnlineModel[TreeCodec]]:
        """Return the models whose templates are those of the parser, given its last one."""
        return [model]

    def templates(self, own: TemplateSet) -> TemplateSet:
        """Return all templates of the parser, given those of its last model."""
        return own

    def epochs(self, epochs: int) -> int:
        """Return the number of epochs of the last model."""
        return epochs

    def check_whole(self, whole: bool) -> None:
        """Raise an InputError if the stages cannot be trained on a block of a stream."""

    def guide(self, treebank: Treebank, asked: Asked) -> Guide | None:
        """Return the advice of the first parser, if there is one, on sentences for prediction or
        evaluation.
        """
        return None

    def explained(
        self, found: Contributions, treebank: Treebank, given: list, direction: Potentials
    ) -> Contributions:
        """Replace the potentials that come with a sentence by contributions of the first parser, if
        there is one.

        ``given`` are heads whose arcs are candidates.
        """
        return found

    def restricted(self, names: Sequence[str], restrict: Callable) -> Self:
        """Return the stages with some of the templates of earlier models; ``restrict(parser,
        names)`` selects them.
        """
        return self

    def pack(self, training: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return ``(JSON values, arrays)`` for a model file, with or without the state for
        ``training``.
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

    #: Parameter that asks for it, and its value that does not.
    asked = "likely=", "likely=None"
    #: Maximum number of candidates of a word.
    most: int | None = None

    def __init__(self, first: Any, selection: Selection) -> None:
        self.first, self.selection = (first,), selection

    @classmethod
    def train(
        cls, first: Any, data: TreeData, folds: int, running: RunOptions, share: float
    ) -> tuple[Self, Guide]:
        """Train a first parser; also return candidate arcs from parsers not trained on the same
        sentences.

        ``share`` of the gold arcs are candidates, and at most :attr:`most` arcs of a word.
        """
        cls.check_whole(data.whole)
        treebank, weights = data.treebank, data.weights
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # there was a warning about the templates
            first, guide = cross_fit(first, treebank, weights, folds, running)
        stage = cls(first, Selection(likely_margin(guide, treebank, share), cls.most))
        right = completed(first.model_.codec.structure, guide, treebank)
        return stage, candidate_arcs(guide, treebank, stage.selection, [right], cls.corrects)

    @classmethod
    def check_whole(cls, whole: bool) -> None:
        if not whole:
            what, remedy = cls.asked
            raise InputError(
                f"A parser with {what} learns from all sentences at once: give them to fit, or set {remedy}."
            )

    def guide(self, treebank: Treebank, asked: Asked) -> Guide:
        decoder = TreeDecoder(self.first[0].model_, n_jobs=asked.n_jobs)
        guide = advice_of(decoder, treebank, asked.constraints)
        selection = self.selection._replace(margin=np.inf) if asked.wide else self.selection
        return candidate_arcs(guide, treebank, selection, asked.right, self.corrects)

    def pack(self, training: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        packer = Packer()
        values = {
            "first": self.first[0]._manifest(packer, False, history=training),
            "selection": self.selection,
        }
        return values, {f"first/{name}": array for name, array in packer.arrays.items()}

    @classmethod
    def unpack(cls, kind: type[Any], values: Manifest, unpacker: Unpacker) -> Self:
        """The inverse of :meth:`pack`; ``kind`` is the class of the parser."""
        first = kind._from_model(
            values["first"], Unpacker(below(unpacker.arrays, "first/"), unpacker.parts)
        )
        return cls(first, Selection(*values["selection"]))


class SecondOrder(CoarseToFine):
    """A first parser of arcs, and a model of parts that adds to its potentials."""

    asked = "order=2", "order=1"
    corrects = True
    most = 8
    memory = FOR_PARTS

    def structure(self, projective: bool, single_root: bool) -> TreeStructure:
        return SecondOrderTree(single_root, projective)

    def models(self, model: OnlineModel[TreeCodec]) -> list[OnlineModel[TreeCodec]]:
        return [self.first[0].model_, model]

    def templates(self, own: TemplateSet) -> TemplateSet:
        return TemplateSet([*self.first[0].model_.codec.templates, *own], own.lexicons)

    def epochs(self, epochs: int) -> int:
        return min(epochs, PART_EPOCHS)

    def explained(
        self, found: Contributions, treebank: Treebank, given: list, direction: Potentials
    ) -> Contributions:
        first = self.first[0].model_
        sentence = first.codec.tokens(treebank, right=given, wide=True).sentence(0)
        of_arcs = contributions(first.predictor(), sentence, direction)
        rest = {name: value for name, value in found.groups.items() if name != GIVEN}
        return Contributions({**of_arcs.groups, **rest}, [*of_arcs.pieces, *found.pieces])

    def restricted(self, names: Sequence[str], restrict: Callable) -> Self:
        own = self.first[0].model_.codec.templates.names
        return type(self)(
            restrict(self.first[0], [name for name in names if name in own]), self.selection
        )
