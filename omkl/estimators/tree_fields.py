"""What templates see of trees that are there already, those of a first parser: relatives of words, relations."""

from collections.abc import Callable

import numpy as np

from omkl.data import Treebank
from omkl.estimators.token_fields import OUTSIDE, ROOT, code_of
from omkl.groups.templates import KINSHIP, RELATIVES

#: Children on either side that are told apart.
MOST_CHILDREN = 3


class TreeFields:
    """Fields of the words of a treebank in its trees.

    ``relation`` is that of the arc to a word, ``valency`` how many children it has on either side (up to three), and
    ``parent_FIELD``, ``leftmost_FIELD``, ``rightmost_FIELD``, ``before_FIELD``, ``after_FIELD`` are a field of its
    head, of its outermost children, and of the siblings next to it.

    Parameters
    ----------
    treebank : Treebank
        Every word has a head.
    """

    def __init__(self, treebank: Treebank) -> None:
        self._relations = treebank.deprels, treebank.strings["deprels"].tolist()
        self._heads = treebank.heads.astype(np.uint64)
        n, words = treebank.n_words, np.arange(treebank.n_words)
        starts = np.repeat(treebank.offsets[:-1], treebank.lengths)
        parents = np.where(treebank.heads > 0, starts + treebank.heads - 1, -1)
        left, right = words[words < parents], words[(words > parents) & (parents >= 0)]
        self._children = [np.bincount(parents[side], minlength=n).clip(max=MOST_CHILDREN) for side in (left, right)]
        # the word that each relative is, -1 for the root, -2 for none
        leftmost, rightmost, before, after = np.full((4, n), -2)
        leftmost[parents[left[::-1]]] = left[::-1]  # the last one written stays
        rightmost[parents[right]] = right
        order = np.lexsort((words, np.where(parents < 0, -1 - starts, parents)))
        one, other = order[:-1], order[1:]
        siblings = (parents[one] == parents[other]) & (starts[one] == starts[other])
        before[other[siblings]], after[one[siblings]] = one[siblings], other[siblings]
        self._relatives = dict(zip(RELATIVES, (parents, leftmost, rightmost, before, after)))

    def codes(self, field: str, own: Callable[[str], np.ndarray]) -> np.ndarray:
        """A field of each word, (number of words,) uint64; ``own`` tells those that are no field of trees."""
        relative, _, rest = field.partition("_")
        if relative in RELATIVES and rest:
            words, codes = self._relatives[relative], self.codes(rest, own)
            nobody = np.where(words == -1, np.uint64(code_of(ROOT)), np.uint64(code_of(OUTSIDE)))
            return np.where(words >= 0, codes[words], nobody)
        if field == KINSHIP:  # which is found out from the heads, arc by arc
            return self._heads
        if field == "valency":
            names = [code_of(f"\t{n} children") for n in range((MOST_CHILDREN + 1) ** 2)]
            left, right = self._children
            return np.array(names, np.uint64)[left * (MOST_CHILDREN + 1) + right]
        if field == "relation":
            codes, strings = self._relations
            return np.array([code_of(string) for string in strings], np.uint64)[codes]
        return own(field)

    def value(self, field: str, word: int, own: Callable[[str, int], str]) -> str:
        """A field of one word as text; ``own(field, word)`` tells those that are no field of trees."""
        relative, _, rest = field.partition("_")
        if relative in RELATIVES and rest:
            found = int(self._relatives[relative][word])
            return self.value(rest, found, own) if found >= 0 else ("OUTSIDE", "ROOT")[found]
        if field == "valency":
            return "+".join(str(side[word]) for side in self._children)
        if field == "relation":
            codes, strings = self._relations
            return strings[codes[word]]
        return own(field, word)

    def kinship(self, first_word: int, head: int, modifier: int) -> str:
        """What ``head`` is to ``modifier``, both counted from 1 in the sentence that begins at ``first_word``."""

        def above(node: int) -> int:
            return int(self._heads[first_word + node - 1]) if node > 0 else -1

        if above(modifier) == head:
            return "head"
        if above(head) == modifier:
            return "child"
        if above(above(modifier)) == head:
            return "grandparent"
        if above(above(head)) == modifier:
            return "grandchild"
        return "sibling" if above(modifier) == above(head) else "none"
