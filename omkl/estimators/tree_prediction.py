"""What a fitted parser says of sentences: potentials of arcs, and trees with relations."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from omkl.data import Strings, Treebank
from omkl.online import in_threads


def from_potentials(
    parser: Any, treebank: Treebank, function: Callable[[np.ndarray, int], Any], all_arcs: bool = False,
    n_jobs: int | None = None,
) -> list[Any]:  # fmt: skip
    """``function`` of the potentials (n + 1, n + 1) and the number of each sentence.

    Parameters
    ----------
    parser : DependencyParser
        Fitted.
    treebank : Treebank
    function : callable
    all_arcs : bool
        Whether arcs that a first parser finds unlikely have potentials as well; else they have -inf.
    n_jobs : int, optional
        Threads; those of the parser by default.
    """
    n_jobs = parser.n_jobs if n_jobs is None else n_jobs
    bank = parser.predictor_.banks[0]

    def of_block(numbered: Any) -> list[Any]:
        first, sentences = numbered
        return [function(own, first + i) for i, own in enumerate(bank.potentials_of(sentences))]

    blocks = list(parser.model_.codec.tokens(treebank, all_arcs, n_jobs).blocks())
    firsts = np.cumsum([0, *map(len, blocks)]).tolist()
    return list(chain.from_iterable(in_threads(of_block, zip(firsts, blocks), n_jobs)))


def relation_strings(parser: Any) -> Strings:
    """The relations of a parser, those that :func:`labeled` trees have."""
    relations = parser.model_.codec.relations
    return Strings() if relations is None else relations.strings


def labeled(parser: Any, treebank: Treebank, trees: list[np.ndarray], strings: Strings) -> Treebank:
    """A treebank with these heads in the place of its own, an array for each sentence, and their relations."""
    heads = np.concatenate([np.zeros(0, np.int64), *trees])
    relations, labeler = np.zeros(len(heads), np.int32), parser.model_.codec.relations
    if labeler is not None:
        relations = labeler.predict(labeler.encode(treebank), heads, treebank.offsets, parser.n_jobs)
    return with_trees(treebank, heads, relations, strings)


def with_trees(treebank: Treebank, heads: np.ndarray, relations: np.ndarray, strings: Strings) -> Treebank:
    """A treebank with these heads and relations in the place of its own."""
    return treebank.with_column("heads", heads).with_column("deprels", relations, strings)
