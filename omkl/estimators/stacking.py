"""Stacking: what a first parser makes of sentences, for a second one to look at and to correct."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from omkl._components import check_number
from omkl.data import Strings, Treebank
from omkl.estimators._jit_likely_arcs import forget_unlikely, shortfalls
from omkl.estimators.tree_prediction import from_potentials, labeled, relation_strings, with_trees
from omkl.estimators.treebanks import Guide
from omkl.exceptions import InputError


def guide_of(parser: Any, treebank: Treebank, all_arcs: bool = False, n_jobs: int | None = None) -> Guide:
    """What a fitted parser makes of the sentences of a treebank; the rest is as for :func:`from_potentials`."""
    scores = from_potentials(parser, treebank, lambda potentials, i: potentials, all_arcs, n_jobs)
    trees = list(map(parser.predictor_.structure.decode, scores))
    return Guide(labeled(parser, treebank, trees, relation_strings(parser)), scores)


def likely_margin(guide: Guide, gold: Treebank, share: float) -> float:
    """How far below the highest potential of a word's arcs that of the right one may be, so that this share of right
    arcs, in (0, 1), is not farther."""
    found, count = np.empty(gold.n_words), 0
    for own, heads in zip(guide.scores, np.split(gold.heads, gold.offsets[1:-1])):
        count += shortfalls(own, heads, found[count:])
    return float(np.quantile(found[:count], share, method="higher"))


def only_likely(guide: Guide, right: Treebank, margin: float | None) -> Guide:
    """Potentials for a second parser to add to, in place: -inf for arcs that it need not look at, 0 for others.

    It looks at arcs whose potentials are within the margin of the highest one of the word's arcs, those of the guide's
    tree, and those of the trees that are ``right``; so there is a tree among them. Where some heads of a right tree are
    not known, all arcs of the sentence are looked at. Without a margin the potentials stay what they are, for a second
    parser to correct, but for right arcs that are -inf: those become as unlikely as any that is not.
    """
    offsets = guide.trees.offsets
    for s, own in enumerate(guide.scores):
        words = slice(*offsets[s : s + 2])
        heads = right.heads[words]
        widest = margin if margin is not None and heads.min() >= 0 else np.inf
        forget_unlikely(own, guide.trees.heads[words], heads, widest)
        if margin is not None:
            own[np.isfinite(own)] = 0.0
    return guide


def cross_fit(first: Any, treebank: Treebank, weights: np.ndarray | None, folds: int) -> tuple[Any, Guide]:
    """A first parser that is trained on all sentences, and what parsers that have not seen it make of each.

    Parameters
    ----------
    first : DependencyParser
        Not fitted, and not changed.
    treebank : Treebank
        Gold trees.
    weights : array (number of sentences,), optional
    folds : int >= 2
        Sentence ``i`` is parsed by a parser that is trained on the sentences ``j`` with ``j % folds != i % folds``.

    Returns
    -------
    first : DependencyParser
        The fitted one.
    guide : Guide
    """
    check_number("folds", folds, above=1, integer=True)
    if len(treebank) < folds:
        raise InputError(f"folds={folds}, but there are {len(treebank)} sentences: give more, or use fewer folds.")
    whole = clone(first).fit(treebank, sample_weight=weights)
    fold = np.arange(len(treebank)) % folds
    strings, scores = Strings(), [np.zeros(0)] * len(treebank)
    heads, relations = np.zeros((2, treebank.n_words), np.int32)
    for f in range(folds):
        rest = None if weights is None else weights[fold != f]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # all that there is to say has been said of the whole
            parser = clone(first).fit(treebank[fold != f], sample_weight=rest)
            trees, potentials = guide_of(parser, treebank[fold == f])
        words = np.repeat(fold == f, treebank.lengths)
        heads[words] = trees.heads
        relations[words] = strings.codes(trees.strings["deprels"].tolist(), grow=True)[trees.deprels]
        for i, own in zip(np.flatnonzero(fold == f), potentials):
            scores[i] = own.astype(np.float32)
    return whole, Guide(with_trees(treebank, heads, relations, strings), scores)
