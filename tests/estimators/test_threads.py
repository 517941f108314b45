"""Predictions in threads, or one sentence at a time, have the same bits as all at once on one thread."""

import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl._threads import in_threads
from omkl.data import synthetic_treebank
from omkl.features import token_features
from omkl.online import averaging


def sentences(rng, n):
    X = [[f"{rng.choice(list('abc'))}{rng.integers(20)}" for _ in range(rng.integers(1, 9))] for _ in range(n)]
    return X, [[word[0] for word in x] for x in X]


@pytest.mark.parametrize("kind", ["words", "dicts", "kernels"])
def test_labels_do_not_depend_on_threads_nor_on_the_other_sentences(kind, rng, monkeypatch):
    X, y = sentences(rng, 120)
    if kind == "dicts":
        X = [token_features(x) for x in X]
    if kind == "kernels":
        X = [rng.normal(size=(len(x), 3)) for x in X]
    labeler = omkl.SequenceLabeler(epochs=2, random_state=0).fit(X[:60], y[:60])
    together = labeler.predict(X)
    monkeypatch.setattr(averaging, "BLOCK", 200)  # dozens of blocks
    alone = omkl.SequenceLabeler(epochs=2, random_state=0).fit(X[:60], y[:60])
    for n_jobs in (None, 1, 2, 5, -1):
        threaded = alone.set_params(n_jobs=n_jobs).predict(X)
        assert [labels.tolist() for labels in threaded] == [labels.tolist() for labels in together]
        assert alone.score(X, y) == labeler.score(X, y)
    assert [alone.predict([x])[0].tolist() for x in X] == [labels.tolist() for labels in together]


def test_trees_do_not_depend_on_threads():
    treebank = synthetic_treebank(900, vocabulary=10, random_state=0)
    parser = omkl.DependencyParser("small", epochs=1, memory=10, random_state=0).fit(treebank[:60])
    together = parser.parse(treebank)
    for n_jobs in (2, -1):
        threaded = parser.set_params(n_jobs=n_jobs).parse(treebank)
        assert_array_equal(threaded.heads, together.heads)
        assert_array_equal(threaded.deprels, together.deprels)
    alone = [parser.parse(sentence)[0].heads for sentence in treebank[:20]]
    assert alone == [sentence.heads for sentence in together[:20]]


def test_parts_come_back_in_their_order_and_errors_come_out():
    assert in_threads(lambda part: part**2, range(20), 4) == [part**2 for part in range(20)]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda part: 1 / part, range(3), 2)
