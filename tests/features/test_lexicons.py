"""Lexicons of labelers and annotators: equal to features made by hand, in files and streams."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import omkl
from omkl.cli import main
from omkl.data import Sentence, Stream, Treebank, write_sequences, write_treebank
from omkl.exceptions import InputError
from omkl.features import token_features
from omkl.parsing.sentences import strings_of

from ..commands import read_json, run

TAGS = ("DET", "NOUN", "VERB")


def told_by_clusters(n=120, n_words=400, seed=0):
    """Draw sentences of rare words, whose tag and number are told by the cluster only."""
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in rng.permutation(10**6)[:n_words]]
    clusters = {word: f"{i % 3:02b}{i % 2}{rng.integers(4):03b}" for i, word in enumerate(words)}
    X = []
    y = []
    for _ in range(n):
        sentence = [words[i] for i in rng.integers(n_words, size=rng.integers(1, 8))]
        X.append(sentence)
        y.append([TAGS[int(clusters[word][:2], 2)] for word in sentence])
    return X, y, clusters


PLACES = {"": 0, "[-2]": -2, "[-1]": -1, "[+1]": 1, "[+2]": 2}


def by_hand(X, name, values):
    """Return dicts of features with the values of a lexicon, and their first four characters."""
    return [sentence_by_hand(words, name, values) for words in X]


def sentence_by_hand(words, name, values):
    values_of_words = [values.get(word, values.get(word.lower())) for word in words]
    padded = [None, None, *values_of_words, None, None]
    tokens = []
    for i, features in enumerate(token_features(words), 2):
        token = {key: value for key, value in features.items() if "|" not in key}
        for place, k in PLACES.items():
            token[f"{name}{place}"] = padded[i + k]
        for place, k in PLACES.items():
            token[f"{name}:4{place}"] = padded[i + k] and padded[i + k][:4]
        # pairs of features come last
        tokens.append(token | features)
    return tokens


def assert_same(model, expected, X, other_X):
    assert model.kernel_weights_ == expected.kernel_weights_
    assert model.top_features(50) == expected.top_features(50)
    expected_scores = expected.decision_function(other_X)
    for scores, scores_by_hand in zip(model.decision_function(X), expected_scores):
        assert_array_equal(scores, scores_by_hand)


def test_a_lexicon_is_a_feature_of_dicts(tmp_path, reloaded):
    X, y, clusters = told_by_clusters()
    some = {word: value for i, (word, value) in enumerate(clusters.items()) if i % 5}
    path = tmp_path / "c.tsv"
    path.write_text("".join(f"{word}\t{value}\n" for word, value in some.items()))
    settings = {"epochs": 3, "random_state": 0}
    model = omkl.SequenceLabeler(lexicons={"cluster": path}, **settings).fit(X[:80], y[:80])
    path.unlink()
    dicts = by_hand(X, "cluster", some)
    expected = omkl.SequenceLabeler(**settings).fit(dicts[:80], y[:80])
    assert_same(model, expected, X, dicts)
    assert_same(reloaded(model), expected, X, dicts)
    assert_same(reloaded(model, training=False), expected, X, dicts)
    assert_same(
        pickle.loads(pickle.dumps(model)),
        expected,
        X,
        dicts,
    )
    refitted = reloaded(model).fit(X[:80], y[:80])
    assert_same(refitted, expected, X, dicts)
    assert model.top_features(1, "cluster:4")[0]["feature"].startswith("cluster:4=")


def test_clusters_tag_words_that_training_has_not():
    X, y, clusters = told_by_clusters()
    model = omkl.SequenceLabeler(lexicons={"cluster": clusters}, epochs=5, random_state=0)
    model.fit(X[:80], y[:80])
    new, gold, others = told_by_clusters(seed=1)
    without_cluster = [[f"{word}x" for word in x] for x in new]
    assert model.score(without_cluster, gold) < 0.6
    model.set_params(lexicons={"cluster": clusters | others}).fit(X[:80], y[:80])
    assert model.score(new, gold) > 0.9


def test_lexicons_come_with_streams_parts_and_shards():
    X, y, clusters = told_by_clusters()
    dicts = by_hand(X, "cluster", clusters)
    settings = {"lexicons": {"cluster": clusters}, "random_state": 0}
    model = omkl.SequenceLabeler(epochs=2, **settings)
    plain = omkl.SequenceLabeler(epochs=2, random_state=0)
    model.fit(Stream.from_arrays(X, y, 17), classes=TAGS)
    plain.fit(Stream.from_arrays(dicts, y, 17), classes=TAGS)
    assert_same(model, plain, X, dicts)
    model.fit(X, y, shards=2)
    plain.fit(dicts, y, shards=2)
    assert_same(model, plain, X, dicts)
    partial = omkl.SequenceLabeler(**settings)
    expected = omkl.SequenceLabeler(random_state=0)
    classes_of_blocks = {0: TAGS}
    for low in range(0, len(X), 40):
        rows = slice(low, low + 40)
        classes = classes_of_blocks.get(low)
        partial.partial_fit(X[rows], y[rows], classes=classes).predict([["unseen", X[0][0]]])
        expected.partial_fit(
            dicts[rows],
            y[rows],
            classes=classes,
        )
    assert_same(partial, expected, X, dicts)


def test_prefixes_are_features_only_if_values_share_them():
    X, y, _ = told_by_clusters(20)
    kinds = {}
    for words in X:
        for word in words:
            kinds[word] = ("place", "person")[word < "w5"]
    labeler = omkl.SequenceLabeler(lexicons={"kind": kinds}, epochs=1).fit(X, y)
    keys = [key for key in labeler.kernel_weights_ if key.startswith("kind")]
    assert keys == [f"kind{place}" for place in PLACES]


@pytest.mark.parametrize(
    ("X", "lexicons", "message"),
    [
        (
            [[{"w": "a"}, {"w": "b"}]],
            {"c": {"a": "1"}},
            "must be a string, got tokens of type dict",
        ),
        ([[["w=a"], ["w=b"]]], {"c": {"a": "1"}}, "got tokens of type list"),
        ([np.zeros((2, 3))], {"c": {"a": "1"}}, "got tokens of type array"),
        ([["a", "b"]], {"word": {"a": "1"}}, "no fields, got 'word'"),
        ([["a", "b"]], {"shape": {"a": "1"}}, "no fields, got 'shape'"),
        ([["a", "b"]], {"c": {}}, "holds no word"),
        ([["a", "b"]], ["c"], "lexicons must be a dict"),
    ],
)
def test_bad_lexicons_of_labelers_are_refused(X, lexicons, message):
    with pytest.raises(InputError, match=message):
        omkl.SequenceLabeler(lexicons=lexicons).fit(X, [["A", "B"]])


def test_a_run_is_not_resumed_with_another_lexicon(tmp_path):
    X, y, clusters = told_by_clusters(30)
    labeler = omkl.SequenceLabeler(lexicons={"cluster": clusters}, epochs=1, random_state=0)
    labeler.fit(X, y, checkpoint=tmp_path, checkpoint_every="10 rounds")
    labeler.set_params(lexicons={"cluster": {**clusters, "none": "111111"}})
    with pytest.raises(InputError, match="content of the data"):
        labeler.fit(X, y, checkpoint=tmp_path, resume=True)


# ---- annotators ----------------------------------------------------------------------------------


def treebank(seed=0):
    """Draw sentences whose tags and numbers are told by clusters; the first word is the root."""
    X, y, clusters = told_by_clusters(60, seed=seed)
    numbers = {"0": "Number=Sing", "1": "Number=Plur"}
    sentences = []
    for forms, tags in zip(X, y):
        n_others = len(forms) - 1
        sentence = Sentence(
            forms=forms,
            upos=tags,
            feats=[numbers[clusters[form][2]] for form in forms],
            heads=[0] + [1] * n_others,
            deprels=["root"] + ["dep"] * n_others,
        )
        sentences.append(sentence)
    return Treebank.from_sentences(sentences), clusters


def untrained(**settings):
    parser = omkl.DependencyParser(["h.upos m.upos", "m.upos distance"], epochs=2, memory=10)
    tagger = omkl.SequenceLabeler(epochs=4)
    annotator = omkl.Annotator(tagger=tagger, parser=parser, random_state=0)
    return annotator.set_params(**settings)


def test_lexicons_serve_tags_morphology_and_trees(reloaded):
    train, clusters = treebank()
    test, others = treebank(1)
    parser = omkl.DependencyParser(["m.upos distance", "h.cluster m.cluster"], epochs=2, memory=10)
    model = untrained(lexicons={"cluster": clusters | others}, parser=parser).fit(train)
    expected = model.annotate(test)
    for candidate in (model, reloaded(model), reloaded(model).fit(train)):
        scores = candidate.evaluate(test)
        assert scores["upos"] > 0.9
        assert scores["ufeats"] > 0.9
        annotated = candidate.annotate(test)
        for name in ("upos", "feats"):
            assert strings_of(annotated, name) == strings_of(expected, name)
        assert set(candidate.parser_.lexicons) == {"cluster"}
        assert list(candidate.lexicons) == ["cluster"]
        assert candidate.parser.lexicons is None
        for name in ("upos", "feats of NOUN"):
            assert "cluster" in candidate.kernel_weights_[name]
    assert untrained().fit(train).evaluate(test)["ufeats"] < 0.7


def test_a_tagger_keeps_its_own_lexicons(reloaded):
    train, clusters = treebank()
    model = untrained(
        tagger=omkl.SequenceLabeler(epochs=2, lexicons={"cluster": clusters}),
        parts=["upos", "feats"],
    )
    for candidate in (model.fit(train), reloaded(model)):
        assert candidate.lexicons is None
        assert list(candidate.tagger.lexicons) == ["cluster"]
        assert "cluster" in candidate.kernel_weights_["feats of NOUN"]
    models = {
        "tagger": model.tagger,
        "parser": omkl.DependencyParser(lexicons={"cluster": clusters}),
    }
    for name, with_lexicon in models.items():
        message = f"Only one of `lexicons` and those of `{name}` can be given"
        with pytest.raises(InputError, match=message):
            untrained(**{"lexicons": {"cluster": clusters}, name: with_lexicon}).fit(train)


def test_lexicons_from_the_command_line(tmp_path):
    train, clusters = treebank()
    sentences = str(tmp_path / "t.conllu")
    lexicon = tmp_path / "c.tsv"
    model = str(tmp_path / "m.npz")
    report = tmp_path / "m.json"
    write_treebank(sentences, train)
    lexicon.write_text("".join(f"{word}\t{value}\n" for word, value in clusters.items()))
    options = ["-o", model, "--lexicon", f"cluster={lexicon}", "--epochs", "2", "--quiet"]
    run("train", "labeler", sentences, *options, "--json", report)
    assert "cluster:4" in read_json(report)["kernel_weights"]
    run("train", "labeler", sentences, *options, "--stream")
    assert list(omkl.load(model).lexicons) == ["cluster"]
    run("train", "annotator", sentences, *options, "--parts", "upos", "feats")
    assert "cluster" in omkl.load(model).kernel_weights_["upos"]
    dicts = str(tmp_path / "t.jsonl")
    write_sequences(
        dicts,
        [([{"w": "a"}, {"w": "b"}], ["A", "B"])],
        "jsonl",
    )
    assert main(["train", "labeler", dicts, *options]) == 2
