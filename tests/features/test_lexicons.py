"""Lexicons of labelers and annotators: equal to features made by hand, in files, streams and on the
command line.
"""

import json
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

TAGS = ("DET", "NOUN", "VERB")


def told_by_clusters(n=120, n_words=400, seed=0):
    """Draw sentences of rare words, whose tag and number are told by the cluster only."""
    rng = np.random.default_rng(seed)
    words = [f"w{i}" for i in rng.permutation(10**6)[:n_words]]
    clusters = {word: f"{i % 3:02b}{i % 2}{rng.integers(4):03b}" for i, word in enumerate(words)}
    X = [[words[i] for i in rng.integers(n_words, size=rng.integers(1, 8))] for _ in range(n)]
    return X, [[TAGS[int(clusters[word][:2], 2)] for word in x] for x in X], clusters


def by_hand(X, name, values):
    """Return dicts of features with the values of a lexicon, whole and their first four characters."""
    found = []
    for words in X:
        padded = ["", "", *words, "", ""]
        tokens = token_features(words)
        for i, token in enumerate(tokens, 2):
            pairs = {key: token.pop(key) for key in [key for key in token if "|" in key]}
            for suffix, width in (("", None), (":4", 4)):
                for k in (0, -2, -1, 1, 2):
                    value = values.get(padded[i + k], values.get(padded[i + k].lower()))
                    token[name + suffix + (f"[{k:+}]" if k else "")] = (
                        None if value is None else value[:width]
                    )
            token |= pairs
        found.append(tokens)
    return found


def assert_same(ours, theirs, X, other_X):
    assert ours.kernel_weights_ == theirs.kernel_weights_
    assert ours.top_features(50) == theirs.top_features(50)
    for own, other in zip(ours.decision_function(X), theirs.decision_function(other_X)):
        assert_array_equal(own, other)


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
    for own in (
        model,
        reloaded(model),
        reloaded(model, training=False),
        pickle.loads(pickle.dumps(model)),
    ):
        assert_same(own, expected, X, dicts)
    refitted = reloaded(model).fit(X[:80], y[:80])
    assert_same(refitted, expected, X, dicts)
    assert model.top_features(1, "cluster:4")[0]["feature"].startswith("cluster:4=")


def test_clusters_tag_words_that_training_has_not():
    X, y, clusters = told_by_clusters()
    model = omkl.SequenceLabeler(lexicons={"cluster": clusters}, epochs=5, random_state=0).fit(
        X[:80], y[:80]
    )
    new, gold, others = told_by_clusters(seed=1)
    blind = model.score([[f"{word}x" for word in x] for x in new], gold)
    assert blind < 0.6
    model = omkl.SequenceLabeler(
        lexicons={"cluster": clusters | others}, epochs=5, random_state=0
    ).fit(X[:80], y[:80])
    assert model.score(new, gold) > 0.9


def test_lexicons_come_with_streams_parts_and_shards():
    X, y, clusters = told_by_clusters()
    dicts, settings = (
        by_hand(X, "cluster", clusters),
        {"lexicons": {"cluster": clusters}, "random_state": 0},
    )
    streamed = omkl.SequenceLabeler(epochs=2, **settings).fit(
        Stream.from_arrays(X, y, 17), classes=TAGS
    )
    plain = omkl.SequenceLabeler(epochs=2, random_state=0).fit(
        Stream.from_arrays(dicts, y, 17), classes=TAGS
    )
    assert_same(streamed, plain, X, dicts)
    partial, expected = omkl.SequenceLabeler(**settings), omkl.SequenceLabeler(random_state=0)
    for low in range(0, len(X), 40):
        classes, rows = TAGS if low == 0 else None, slice(low, low + 40)
        partial.partial_fit(X[rows], y[rows], classes=classes).predict([["unseen", X[0][0]]])
        expected.partial_fit(dicts[rows], y[rows], classes=classes)
    assert_same(partial, expected, X, dicts)
    sharded = omkl.SequenceLabeler(epochs=2, **settings).fit(X, y, shards=2)
    assert_same(
        sharded, omkl.SequenceLabeler(epochs=2, random_state=0).fit(dicts, y, shards=2), X, dicts
    )


def test_prefixes_are_features_only_if_values_share_them():
    X, y, _ = told_by_clusters(20)
    kinds = {"kind": {word: "person" if word < "w5" else "place" for x in X for word in x}}
    keys = omkl.SequenceLabeler(lexicons=kinds, epochs=1).fit(X, y).kernel_weights_
    assert [key for key in keys if key.startswith("kind")] == [
        "kind",
        *(f"kind[{k:+}]" for k in (-2, -1, 1, 2)),
    ]


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
    sentences = [
        Sentence(
            forms=x,
            upos=tags,
            feats=[("Number=Sing", "Number=Plur")[int(clusters[word][2])] for word in x],
            heads=[0, *[1] * (len(x) - 1)],
            deprels=["root", *["dep"] * (len(x) - 1)],
        )
        for x, tags in zip(X, y)
    ]
    return Treebank.from_sentences(sentences), clusters


def untrained(**settings):
    parser = omkl.DependencyParser(["h.upos m.upos", "m.upos distance"], epochs=2, memory=10)
    return omkl.Annotator(
        **{
            "tagger": omkl.SequenceLabeler(epochs=4),
            "parser": parser,
            "random_state": 0,
            **settings,
        }
    )


def test_lexicons_serve_tags_morphology_and_trees(reloaded):
    train, clusters = treebank()
    test, others = treebank(1)
    parser = omkl.DependencyParser(["m.upos distance", "h.cluster m.cluster"], epochs=2, memory=10)
    model = untrained(lexicons={"cluster": clusters | others}, parser=parser).fit(train)
    for own in (model, reloaded(model), reloaded(model).fit(train)):
        scores = own.evaluate(test)
        assert (scores["upos"] > 0.9, scores["ufeats"] > 0.9) == (True, True)
        assert [strings_of(own.annotate(test), name) for name in ("upos", "feats")] == [
            strings_of(model.annotate(test), name) for name in ("upos", "feats")
        ]
        assert set(own.parser_.lexicons) == {"cluster"}
        assert list(own.lexicons) == ["cluster"]
        assert own.parser.lexicons is None
        assert all("cluster" in own.kernel_weights_[name] for name in ("upos", "feats of NOUN"))
    assert untrained().fit(train).evaluate(test)["ufeats"] < 0.7


def test_a_tagger_keeps_its_own_lexicons(reloaded):
    train, clusters = treebank()
    model = untrained(
        tagger=omkl.SequenceLabeler(epochs=2, lexicons={"cluster": clusters}),
        parts=["upos", "feats"],
    )
    for own in (model.fit(train), reloaded(model)):
        assert own.lexicons is None
        assert list(own.tagger.lexicons) == ["cluster"]
        assert "cluster" in own.kernel_weights_["feats of NOUN"]
    for name, given in (
        ("tagger", model.tagger),
        ("parser", omkl.DependencyParser(lexicons={"cluster": clusters})),
    ):
        with pytest.raises(
            InputError, match=f"Only one of `lexicons` and those of `{name}` can be given"
        ):
            untrained(**{"lexicons": {"cluster": clusters}, name: given}).fit(train)


def test_lexicons_from_the_command_line(tmp_path):
    train, clusters = treebank()
    files = {
        name: str(tmp_path / name) for name in ("t.conllu", "c.tsv", "m.npz", "m.json", "t.jsonl")
    }
    write_treebank(files["t.conllu"], train)
    (tmp_path / "c.tsv").write_text(
        "".join(f"{word}\t{value}\n" for word, value in clusters.items())
    )
    options = [
        "-o",
        files["m.npz"],
        "--lexicon",
        f"cluster={files['c.tsv']}",
        "--epochs",
        "2",
        "--quiet",
    ]
    assert main(["train", "labeler", files["t.conllu"], *options, "--json", files["m.json"]]) == 0
    assert "cluster:4" in json.loads((tmp_path / "m.json").read_text())["kernel_weights"]
    assert main(["train", "labeler", files["t.conllu"], *options, "--stream"]) == 0
    assert list(omkl.load(files["m.npz"]).lexicons) == ["cluster"]
    assert (
        main(["train", "annotator", files["t.conllu"], *options, "--parts", "upos", "feats"]) == 0
    )
    assert "cluster" in omkl.load(files["m.npz"]).kernel_weights_["upos"]
    write_sequences(files["t.jsonl"], [([{"w": "a"}, {"w": "b"}], ["A", "B"])], "jsonl")
    assert main(["train", "labeler", files["t.jsonl"], *options]) == 2
