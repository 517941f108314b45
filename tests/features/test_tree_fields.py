"""Fields of relatives of words in trees, against a search for each word alone."""

import networkx
import numpy as np
import pytest

from omkl.features.fields import OUTSIDE, ROOT, TreeFields, code_of
from omkl.groups.templates.language import RELATIVES


def random_forest(rng, n):
    """Draw heads of n words without cycles; some words have no head (-1)."""
    order = rng.permutation(n).tolist()
    heads = np.zeros(n, np.int64)
    for place, word in enumerate(order):
        above = [-1, 0, *(other + 1 for other in order[:place])]
        heads[word] = rng.choice(above)
    return heads


def relatives_of(word, heads):
    """Return the relatives of a word (from 0) of a sentence: a word, ROOT or OUTSIDE."""
    tree = networkx.DiGraph()
    tree.add_nodes_from(range(-1, len(heads)))
    tree.add_edges_from((max(int(head), 0) - 1, child) for child, head in enumerate(heads))
    parent = next(tree.predecessors(word))
    children = sorted(tree.successors(word))
    left = [child for child in children if child < word]
    right = [child for child in children if child > word]
    siblings = [OUTSIDE, *sorted(tree.successors(parent)), OUTSIDE]
    place = siblings.index(word)
    if parent < 0:
        parent = ROOT
    return {
        "parent": parent,
        "leftmost": [*left, OUTSIDE][0],
        "rightmost": [OUTSIDE, *right][-1],
        "before": siblings[place - 1],
        "after": siblings[place + 1],
    }


@pytest.mark.parametrize("n_words", range(1, 9))
@pytest.mark.parametrize("n_sentences", [1, 2, 5])
def test_relatives_in_blocks_of_every_size(n_words, n_sentences):
    rng = np.random.default_rng(10 * n_words + n_sentences)
    trees = [random_forest(rng, n) for n in rng.integers(1, n_words + 1, n_sentences)]
    offsets = np.cumsum([0, *map(len, trees)])
    names = [f"word {i}" for i in range(offsets[-1])]
    codes = np.array([code_of(name) for name in names], np.uint64)
    fields = TreeFields(offsets, np.concatenate(trees))
    for relative in RELATIVES:
        expected = []
        for first, heads in zip(offsets, trees):
            for word in range(len(heads)):
                value = relatives_of(word, heads)[relative]
                if isinstance(value, int):
                    value = names[first + value]
                expected.append(code_of(value))
        assert fields.codes(f"{relative}_form", lambda field: codes).tolist() == expected
