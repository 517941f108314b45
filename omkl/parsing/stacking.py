"""Stacking and coarse-to-fine parsing: advice of a first parser for a second parser."""

import warnings

import numpy as np
from sklearn.base import clone

from omkl._components import check_number
from omkl.data import Strings, Treebank
from omkl.estimators.base import OnlineEstimator
from omkl.groups.templates.layout import ArcGuide
from omkl.parsing.decoding import TreeDecoder
from omkl.parsing.sentences import Guide, with_trees
from omkl.structures.trees import as_scores


def advice_of(decoder: TreeDecoder, treebank: Treebank, all_arcs: bool = False) -> Guide:
    """Return trees and potentials of a fitted parser; for ``all_arcs`` see :meth:`TreeDecoder.from_potentials`."""
    potentials = decoder.from_potentials(treebank, lambda own: own, all_arcs=all_arcs)
    trees = list(map(decoder.structure.decode, potentials))
    return Guide(decoder.with_relations(treebank, trees), [ArcGuide(as_scores(own)) for own in potentials])


def _best_potentials(potentials: np.ndarray) -> np.ndarray:
    """Return the best potential of the arcs into each word, (n,)."""
    others = potentials.copy()
    np.fill_diagonal(others, -np.inf)
    return others.max(axis=0)[1:]


def likely_margin(guide: Guide, gold: Treebank, share: float) -> float:
    """Return the smallest margin below the best potential of a word that includes this share of gold arcs."""
    below = []
    for arcs, heads in zip(guide.arcs or (), gold.trees()):
        potentials, known = np.asarray(arcs.potentials, np.float64), np.flatnonzero(heads >= 0)
        below.append(_best_potentials(potentials)[known] - potentials[heads[known], known + 1])
    return float(np.quantile(np.concatenate(below), share, method="higher"))


def only_likely(guide: Guide, right: Treebank, margin: float | None) -> Guide:
    """Advice for a second parser.

    With a margin, the second parser scores only likely arcs: arcs within the margin of the best potential of their
    word, arcs of the guide's tree, and arcs of the ``right`` trees. So at least one tree is possible. In sentences with
    unknown right heads, all arcs are likely. Without a margin, the second parser corrects the potentials of the first;
    right arcs with potential -inf get the lowest finite potential of their word.
    """
    found, offsets = [], guide.trees.offsets
    for s, arcs in enumerate(guide.arcs or ()):
        words = slice(*offsets[s : s + 2])
        potentials, heads = np.asarray(arcs.potentials), right.heads[words]
        likely = np.isfinite(potentials)
        places = np.arange(1, len(potentials))
        for m in places[(heads >= 0) & ~likely[heads, places]]:
            likely_heads = np.flatnonzero(likely[:, m] & (np.arange(len(potentials)) != m))
            potentials[heads[m - 1], m] = potentials[likely_heads, m].min()
            likely[heads[m - 1], m] = True
        if margin is not None and heads.min() >= 0:
            exact = potentials.astype(np.float64)
            likely[:, 1:] &= exact[:, 1:] >= _best_potentials(exact) - margin
            likely[places, places] = likely[heads, places] = likely[guide.trees.heads[words], places] = True
        found.append(ArcGuide(potentials if margin is None else None, None if likely.all() else likely))
    return Guide(guide.trees, found)


def cross_fit(
    first: OnlineEstimator, treebank: Treebank, weights: np.ndarray | None, folds: int
) -> tuple[OnlineEstimator, Guide]:
    """Train a copy of a first parser on gold trees, and collect its cross-fitted advice on the same sentences.

    Advice on sentence ``i`` comes from a parser trained on the sentences ``j`` with ``j % folds != i % folds``.
    """
    check_number("folds", folds, above=1, below=len(treebank) + 1, integer=True)
    whole = clone(first).fit(treebank, sample_weight=weights)
    fold = np.arange(len(treebank)) % folds
    strings, advice = Strings(), [ArcGuide()] * len(treebank)
    heads, relations = np.zeros((2, treebank.n_words), np.int32)
    for f in range(folds):
        rest = None if weights is None else weights[fold != f]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # training on all sentences gave the same warnings
            parser = clone(first).fit(treebank[fold != f], sample_weight=rest)
            trees, arcs = advice_of(parser._decoder, treebank[fold == f])
        words = np.repeat(fold == f, treebank.lengths)
        heads[words] = trees.heads
        relations[words] = strings.codes(trees.strings["deprels"].tolist(), grow=True)[trees.deprels]
        for i, own in zip(np.flatnonzero(fold == f), arcs or ()):
            advice[i] = ArcGuide(own.potentials.astype(np.float32))
    return whole, Guide(with_trees(treebank, heads, relations, strings), advice)
