"""Training examples of a parser: sentences as templates see them, gold heads, and the advice of a first parser."""

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from omkl.data import Treebank
from omkl.estimators.training import WeightedExamples
from omkl.features.fields import OUTSIDE, ROOT, TreeFields, code_of, column_of, present_codes, values_of
from omkl.groups.templates.language import TemplateSet, sees_trees
from omkl.groups.templates.layout import ArcGuide, ArcTokens
from omkl.online.rounds import Example
from omkl.parsing.evaluation import Rule, is_punctuation
from omkl.structures.trees import WeightedHeads

#: The source of a part of examples.
NO_SENTENCES = Treebank.from_sentences([], trees=False)


class Guide(NamedTuple):
    """Advice of a first parser on the sentences of a treebank.

    Attributes
    ----------
    trees : Treebank
        Its trees, at which templates may look.
    arcs : list of ArcGuide or None
        Its advice on the arcs of each sentence; None for no advice.
    """

    trees: Treebank
    arcs: list[ArcGuide] | None


def encode(treebank: Treebank, templates: TemplateSet, guide: Guide | None = None) -> ArcTokens:
    """Encode the fields of the words of a treebank; templates may look at the trees of a ``guide``."""
    fields, reach = templates.fields, templates.reach
    starts, lengths = treebank.offsets[:-1], treebank.lengths
    roots = reach + starts + np.arange(len(treebank)) * (1 + reach)
    indices = np.arange(treebank.n_words) + np.repeat(roots + 1 - starts, lengths)
    columns = np.full(
        (len(fields), reach + treebank.n_words + len(treebank) * (1 + reach)), code_of(OUTSIDE), np.uint64
    )
    columns[:, roots] = code_of(ROOT)
    own = codes = _field_reader(treebank, templates.lexicons)
    if guide is not None and any(map(sees_trees, fields)):
        codes = partial(TreeFields(guide.trees).codes, own=own)
    for row, field in zip(columns, fields):
        row[indices] = codes(field)
    return ArcTokens(fields, columns, roots, lengths, None if guide is None else guide.arcs)


def _field_reader(treebank: Treebank, lexicons: Mapping) -> Callable[[str], np.ndarray]:
    """Make a function that codes a field of all words; each string of a column is read once."""

    @cache
    def strings_in(column: str) -> tuple[np.ndarray, list[str]]:
        """Index of each word's string among the different strings of a column, and these."""
        codes, strings = getattr(treebank, column), treebank.strings[column].tolist()
        present = present_codes(codes)
        return np.searchsorted(present, codes), [strings[code] for code in present]

    def codes_of(field: str) -> np.ndarray:
        places, strings = strings_in(column_of(field))
        return np.array([code_of(value) for value in values_of(field, strings, lexicons)], np.uint64)[places]

    return codes_of


class ArcExamples(WeightedExamples):
    """Weighted examples of sentences and their gold heads; see :class:`~omkl.estimators.training.WeightedExamples`.

    Attributes
    ----------
    treebank : Treebank
        Source of the sentences; a part of the examples is without.
    costs : array (number of tokens,), optional
        Cost of a wrong head of each token, 1 by default. Gold outputs are
        :class:`~omkl.structures.WeightedHeads` where there are costs.
    guide : Guide, optional
        Advice of a first parser.
    """

    def __init__(
        self,
        tokens: ArcTokens,
        heads: np.ndarray,
        offsets: np.ndarray,
        chosen: np.ndarray,
        weights: np.ndarray | None = None,
        treebank: Treebank = NO_SENTENCES,
        costs: np.ndarray | None = None,
        guide: Guide | None = None,
    ) -> None:
        super().__init__(chosen, weights)
        self.tokens = tokens
        self.heads = heads
        self.offsets = offsets
        self.treebank = treebank
        self.costs = costs
        self.guide = guide

    @classmethod
    def of(
        cls,
        treebank: Treebank,
        templates: TemplateSet,
        weights: np.ndarray | None = None,
        ignore: Rule = None,
        guide: Guide | None = None,
    ) -> "ArcExamples":
        """All sentences of a treebank; wrong heads of words that the rule ``ignore`` names cost nothing."""
        tokens, everything = encode(treebank, templates, guide), np.arange(len(treebank))
        costs = None if ignore is None else np.where(is_punctuation(treebank, ignore), 0.0, 1.0)
        heads = treebank.heads.astype(np.int64)
        return cls(tokens, heads, treebank.offsets, everything, weights, treebank, costs, guide)

    def __getitem__(self, i: int) -> Example:
        s = self.chosen[i]
        weight = 1.0 if self._weights is None else self._weights[i]
        words = slice(self.offsets[s], self.offsets[s + 1])
        heads = self.heads[words]
        gold = heads if self.costs is None else WeightedHeads(heads, self.costs[words])
        return Example(self.tokens.sentence(s), gold, weight)

    @property
    def n_inputs(self) -> int:
        """Number of sentences, presented or not."""
        return len(self.tokens)

    def _over(self, chosen: np.ndarray, weights: np.ndarray | None) -> "ArcExamples":
        arrays = self.tokens, self.heads, self.offsets, chosen, weights
        return ArcExamples(*arrays, self.treebank, self.costs, self.guide)

    def _cut(self, inputs: np.ndarray, chosen: np.ndarray) -> "ArcExamples":
        lengths = self.tokens.lengths[inputs]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        words = np.repeat(self.offsets[inputs] - offsets[:-1], lengths) + np.arange(offsets[-1])
        costs = None if self.costs is None else self.costs[words]
        return ArcExamples(self.tokens.only(inputs), self.heads[words], offsets, chosen, costs=costs)
