"""A treebank of a known grammar, which several tests learn from."""

import pytest

from omkl.data import synthetic_treebank


@pytest.fixture(scope="session")
def grammar():
    """Sentences to train on, and others, whose trees follow three templates."""
    informative = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")
    treebank = synthetic_treebank(500, informative=informative, vocabulary=10, random_state=3)
    return treebank[:350], treebank[350:]
