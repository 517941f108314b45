"""Stacking: what a first parser makes of sentences, for a second one to look at and to correct."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import clone

from omkl._components import check_number
from omkl.data import Strings, Treebank
from omkl.estimators.tree_prediction import from_potentials, labeled, relation_strings, with_trees
from omkl.estimators.treebanks import Guide
from omkl.exceptions import InputError


def guide_of(parser: Any, treebank: Treebank) -> Guide:
    """What a fitted parser makes of the sentences of a treebank."""
    scores = from_potentials(parser, treebank, lambda potentials, i: potentials)
    trees = list(map(parser.predictor_.structure.decode, scores))
    return Guide(labeled(parser, treebank, trees, relation_strings(parser)), scores)


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
