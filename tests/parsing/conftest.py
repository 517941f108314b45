"""A treebank of a known grammar, which several tests learn from, and parsers."""

import pytest

from omkl import DependencyParser
from omkl.data import synthetic_treebank

INFORMATIVE = ("h.upos m.upos direction", "h.lemma m.lemma", "m.xpos distance")
USELESS = (
    "h.form m.form direction",
    "m.feats distance",
    "h.xpos m.form",
    "h+1.upos m-1.upos direction",
    "h.feats",
)


def untrained(templates, **settings):
    """Return a small parser with a fixed seed."""
    settings = {"epochs": 3, "memory": 20, "random_state": 0, **settings}
    return DependencyParser(templates, **settings)


@pytest.fixture(scope="session")
def grammar():
    """Sentences to train on, and others, whose trees follow three templates."""
    treebank = synthetic_treebank(500, informative=INFORMATIVE, vocabulary=10, random_state=3)
    return treebank[:350], treebank[350:]
