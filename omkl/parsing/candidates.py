"""Candidate arcs and potentials from a first parser, for coarse-to-fine and second-order parsing."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.base import clone

from omkl._components import check_number
from omkl.data import Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.estimators.training import RunOptions, in_folder
from omkl.groups.templates.layout import ArcGuide
from omkl.parsing.decoding import FREE, ArcConstraints, TreeDecoder
from omkl.parsing.sentences import Guide, joined
from omkl.structures.trees import TreePotentials, TreeStructure, as_scores


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
