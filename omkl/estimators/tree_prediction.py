"""What a fitted parser says of sentences: potentials of arcs, and trees with relations."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from omkl.data import Strings, Treebank


def potentials_of(parser: Any, treebank: Treebank) -> Iterator[np.ndarray]:
    """Potentials (n + 1, n + 1) of the arcs of each sentence, one after the other."""
    bank = parser.predictor_.banks[0]
    for sentences in parser.model_.codec.tokens(treebank).blocks():
        yield from bank.potentials_of(sentences)


def relation_strings(parser: Any) -> Strings:
    """The relations of a parser, those that :func:`labeled` trees have."""
    relations = parser.model_.codec.relations
    return Strings() if relations is None else relations.strings


def labeled(parser: Any, treebank: Treebank, trees: Iterable[np.ndarray], strings: Strings) -> Treebank:
    """A treebank with these heads in the place of its own, and their relations; one array for each sentence."""
    heads = np.concatenate([np.zeros(0, np.int64), *trees])
    relations, labeler = np.zeros(len(heads), np.int32), parser.model_.codec.relations
    if labeler is not None:
        relations = labeler.predict(labeler.encode(treebank), heads, treebank.offsets)
    return with_trees(treebank, heads, relations, strings)


def with_trees(treebank: Treebank, heads: np.ndarray, relations: np.ndarray, strings: Strings) -> Treebank:
    """A treebank with these heads and relations in the place of its own."""
    strings = {**treebank.strings, "deprels": strings}
    return replace(treebank, heads=heads.astype(np.int32), deprels=relations.astype(np.int32), strings=strings)
