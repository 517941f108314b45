"""Words and attribute lists give the same models as the equivalent dicts; templates of words."""

import warnings
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import omkl
from omkl.data import read_sequences, write_sequences
from omkl.exceptions import DataWarning, InputError
from omkl.features import TEMPLATES, token_features
from omkl.features.vocabulary import AttributeLists, Vocabulary
from omkl.features.words import WordEncoder, Words

WORD = st.one_of(
    st.sampled_from(["a", "A", "b|a", "|", "<s>", "ß", "Zürich", "x-9"]), st.text(max_size=4)
)
SENTENCES = st.lists(
    st.lists(WORD, min_size=1, max_size=6),
    min_size=1,
    max_size=6,
)


def tagged(rng, n=80, n_stems=300):
    """Sentences of made-up words that show their tag by their ending."""
    stems = ["".join(rng.choice(list("bdklmnprst"), 3)) for _ in range(n_stems)]
    X = []
    y = []
    for _ in range(n):
        n_words = rng.integers(1, 9)
        X.append([f"{rng.choice(stems)}{('a', 'en')[t % 2]}" for t in range(n_words)])
        y.append([("DET", "NOUN")[t % 2] for t in range(n_words)])
    return X, y


def as_dicts(X):
    return [token_features(words) for words in X]


def flat(X):
    """Return all tokens, and the offsets of the sequences."""
    return list(chain.from_iterable(X)), np.cumsum([0, *map(len, X)])


def assert_equal_features(features, expected):
    for array, expected_array in zip(features, expected):
        assert_array_equal(array, expected_array)


@given(first=SENTENCES, second=SENTENCES, third=SENTENCES)
def test_features_are_those_of_the_dicts(first, second, third):
    """Training and lookup agree, in one vocabulary and in two."""
    by_word = Vocabulary()
    by_dict = Vocabulary()
    words = WordEncoder(by_word)
    for X, grow in ((first, True), (second, False), (third, True), (second, False), (second, True)):
        tokens, offsets = flat(X)
        features = words.encode(Words(tokens), offsets, grow)
        dicts, _ = flat(as_dicts(X))
        assert_equal_features(features, by_dict.encode(dicts, grow))
    assert by_word.ids == by_dict.ids
    assert_equal_features(by_word.state().values(), by_dict.state().values())


def test_a_vocabulary_that_grew_by_dicts_is_known_to_words():
    vocabulary = Vocabulary()
    words = WordEncoder(vocabulary)
    vocabulary.encode(token_features(["a", "b"]), True)
    before = words.encode(
        Words(["a", "new"]),
        np.array([0, 2]),
        False,
    )
    vocabulary.encode(token_features(["a", "new"]), True)
    after = words.encode(
        Words(["a", "new"]),
        np.array([0, 2]),
        False,
    )
    assert_equal_features(after, vocabulary.encode(token_features(["a", "new"]), False))
    assert len(after.ids) > len(before.ids)


def test_more_words_than_are_encoded_at_a_time(rng):
    X, _ = tagged(rng, n=700, n_stems=2000)
    tokens, offsets = flat(X)
    by_word = Vocabulary()
    by_dict = Vocabulary()
    features = WordEncoder(by_word).encode(Words(tokens), offsets, True)
    dicts, _ = flat(as_dicts(X))
    assert_equal_features(features, by_dict.encode(dicts, True))
    assert by_word.ids == by_dict.ids


def test_forgetting_changes_nothing(rng, monkeypatch):
    X, _ = tagged(rng)
    tokens, offsets = flat(X)
    encoder = WordEncoder(Vocabulary())
    learned = encoder.encode(Words(tokens), offsets, True)
    monkeypatch.setattr("omkl.features.words.MOST_REMEMBERED", 10)
    assert_equal_features(encoder.encode(Words(tokens), offsets, False), learned)


def test_a_labeler_learns_the_same_bits_from_words_and_from_their_features(rng, tmp_path):
    X, y = tagged(rng)
    by_word = omkl.SequenceLabeler(epochs=3, random_state=0).fit(X, y)
    by_dict = omkl.SequenceLabeler(epochs=3, random_state=0).fit(as_dicts(X), y)
    assert by_word.kernel_weights_ == by_dict.kernel_weights_
    by_word.save(tmp_path / "words.npz")
    by_dict.save(tmp_path / "dicts.npz")
    assert (tmp_path / "words.npz").read_bytes() == (tmp_path / "dicts.npz").read_bytes()
    new = [["unheard", *words] for words in X]
    loaded = omkl.load(tmp_path / "words.npz")
    for model in (by_dict, loaded):
        assert_equal_features(by_word.decision_function(new), model.decision_function(new))
    assert by_word.score(X, y) > 0.95


def test_words_come_in_streams_and_in_parts(rng):
    X, y = tagged(rng)
    stream = omkl.data.Stream.from_arrays(X, y, 17)
    streamed = omkl.SequenceLabeler(epochs=2, random_state=0).fit(stream, classes=["DET", "NOUN"])
    assert streamed.score(X, y) > 0.9
    partial = omkl.SequenceLabeler(random_state=0)
    classes_of_blocks = {0: ["DET", "NOUN"]}
    for low in range(0, len(X), 20):
        rows = slice(low, low + 20)
        partial.partial_fit(
            X[rows],
            y[rows],
            classes=classes_of_blocks.get(low),
        )
        assert len(partial.predict([["unseen", "words"]])[0]) == 2
    assert partial.score(X, y) > 0.9
    dicts = omkl.SequenceLabeler(random_state=0)
    for low in range(0, len(X), 20):
        rows = slice(low, low + 20)
        dicts.partial_fit(
            as_dicts(X[rows]),
            y[rows],
            classes=classes_of_blocks.get(low),
        )
    assert dicts.kernel_weights_ == partial.kernel_weights_


def text_features(X):
    """Return dicts of features that are strings, and one that is always true."""
    dicts = as_dicts(X)
    for sentence in dicts:
        for token in sentence:
            for key in [key for key, value in token.items() if not isinstance(value, str)]:
                del token[key]
            token["bias"] = True
    return dicts


def attribute_list(token):
    return [f"{key}={value}" for key, value in token.items() if key != "bias"] + ["bias"]


def attributes(X):
    """Return attributes as CRFsuite takes them: strings, one of them without a value."""
    return [[attribute_list(token) for token in sentence] for sentence in text_features(X)]


def test_attribute_lists_are_short_for_dicts(rng):
    X, y = tagged(rng)
    lists = attributes(X)
    dicts = text_features(X)
    by_list = omkl.SequenceLabeler(epochs=3, random_state=0).fit(lists, y)
    by_dict = omkl.SequenceLabeler(epochs=3, random_state=0).fit(dicts, y)
    assert list(by_list.kernel_weights_) == list(by_dict.kernel_weights_)
    assert_allclose(
        list(by_list.kernel_weights_.values()), list(by_dict.kernel_weights_.values()), rtol=1e-9
    )
    expected = by_dict.decision_function(dicts)
    for model, inputs in ((by_list, lists), (by_list, dicts), (by_dict, lists)):
        for scores, expected_scores in zip(model.decision_function(inputs), expected):
            assert_allclose(scores, expected_scores, atol=1e-9)


@pytest.mark.parametrize("to", ["crfsuite", "jsonl"])
def test_numbers_are_the_same_feature_in_dicts_lists_and_files(rng, tmp_path, to):
    """Numbers from dicts, CRFsuite's files and JSON lines are the same features."""
    X, y = tagged(rng)

    def features(word):
        length = float(len(word))
        return {
            "word": word,
            "length": length,
            "bias": True,
            "empty": "",
            "z": 0,
            "in": {"x": 1.5},
        }

    dicts = [[features(word) for word in words] for words in X]
    write_sequences(tmp_path / "a", zip(dicts, y), to)
    read, _ = read_sequences(tmp_path / "a", to)
    write_sequences(tmp_path / "again", zip(read, y), "jsonl")
    again, _ = read_sequences(tmp_path / "again", "jsonl")
    models = [
        omkl.SequenceLabeler(regularizer="l2", epochs=2, random_state=0).fit(x, y)
        for x in (dicts, read, again)
    ]
    expected = models[0].decision_function(dicts)
    for model in models:
        for inputs in (dicts, read, again):
            assert_equal_features(model.decision_function(inputs), expected)
    sizes = omkl.SequenceLabeler().partial_fit([[{"length": 8.0}, {"length": 16.0}]], [["A", "B"]])
    [from_list] = sizes.decision_function([[["length"]]])
    [from_dict] = sizes.decision_function([[{"length": 1}]])
    assert_array_equal(from_list, from_dict)


def test_attributes_of_files_count_as_often_as_they_are_there(rng, tmp_path):
    X, y = tagged(rng)
    lists = attributes(X)
    for sentence in lists:
        for token in sentence:
            token += [token[0], token[0]]
    write_sequences(tmp_path / "a.crfsuite", zip(lists, y), "crfsuite")
    read, _ = read_sequences(tmp_path / "a.crfsuite")
    assert 3.0 in read[0][0]["word"].values()
    settings = {"regularizer": "l2", "epochs": 2, "random_state": 0}
    scores_of_lists = omkl.SequenceLabeler(**settings).fit(lists, y).decision_function(lists)
    scores_of_read = omkl.SequenceLabeler(**settings).fit(read, y).decision_function(read)
    for scores, expected_scores in zip(scores_of_read, scores_of_lists):
        assert_allclose(scores, expected_scores, atol=1e-9)
    write_sequences(
        tmp_path / "b",
        [([{"k": {None: 2.0, "v": 1.0}}], ["A"])],
        "crfsuite",
    )
    assert (tmp_path / "b").read_text() == "A\tk:2\tk=v\n\n"
    with pytest.raises(InputError):
        write_sequences(
            tmp_path / "c",
            zip(*read_sequences(tmp_path / "b", "crfsuite")),
            "jsonl",
        )


def test_attributes_count_as_often_as_they_are_there_and_may_be_none():
    vocabulary = Vocabulary()
    tokens = AttributeLists([["w=a", "w=a", "b"], [], ("w=c",)])
    learned = vocabulary.encode(tokens, True)
    assert_array_equal(learned.starts, [0, 3, 3, 4])
    assert learned.ids[0] == learned.ids[1]
    assert vocabulary.ids == {"w": {"a": 0, "c": 1}, "b": {None: 2}}
    looked_up = vocabulary.encode(AttributeLists([["w=c", "w=new", "v=1"]]), False)
    assert_array_equal(looked_up.ids, [1])
    vocabulary.encode(AttributeLists([["w=new"]]), True)
    assert len(vocabulary.encode(AttributeLists([["w=c", "w=new", "v=1"]]), False).ids) == 2


def test_tokens_without_attributes_are_lists_of_them_wherever_they_are():
    model = omkl.SequenceLabeler(epochs=1, random_state=0).fit([[["a", "b"], []]], [["A", "B"]])
    together = model.decision_function([[["a"]], [[]]])
    [alone] = model.decision_function([[[]]])
    assert_array_equal(alone, together[1])
    for nothing in [[[], []]], [[{}, {}]]:
        # there is no group that could have a weight yet
        model = omkl.SequenceLabeler(random_state=0).partial_fit(nothing, [["A", "B"]])
        assert set(model.partial_fit([[["a"], ["b"]]], [["A", "B"]]).kernel_weights_) == {"a", "b"}
    with pytest.raises(InputError):
        omkl.SequenceLabeler().fit([np.zeros((2, 0))], [["A", "B"]])


@pytest.mark.parametrize("input_of", [list, as_dicts], ids=["words", "dicts"])
def test_dicts_for_a_model_of_other_features_are_refused(rng, input_of, reloaded):
    X, y = tagged(rng)
    model = omkl.SequenceLabeler(epochs=1).fit(input_of(X), y)
    others = [[{"c0": word} for word in x] for x in X]
    for candidate in (model, reloaded(model)):
        with pytest.raises(InputError):
            candidate.predict(others)
        with pytest.raises(InputError):
            candidate.decision_function(others)
        with pytest.raises(InputError):
            candidate.score(others, y)
        candidate.predict([[{"c0": "a"}, {"word": "the"}], [{}], [{"word": "new"}]])
    classifier = omkl.OnlineMKLClassifier().fit([{"good": 1}, {"bad": 1}], [0, 1])
    classifier.predict([{"new": 1}])  # a row may be of new words alone


def test_entries_of_dicts_that_turn_from_text_into_numbers_are_named():
    X = [[{"w": "a", "n": 1}, {"w": "b", "n": 2}]]
    y = [["A", "B"]]
    texts = [[{"w": "a", "n": "1"}]]
    with pytest.warns(DataWarning, match="entry 'n' holds text"):
        omkl.SequenceLabeler(epochs=1).fit(X, y).predict(texts)
    with pytest.warns(DataWarning, match="entry 'n' holds text"):
        omkl.SequenceLabeler(epochs=1).fit(X, y).partial_fit(texts, [["A"]])
    model = omkl.SequenceLabeler(epochs=1).fit(X, y)
    with pytest.warns(DataWarning, match="entry 'w' holds numbers, and was learned from text"):
        model.predict([[{"w": 3}]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict([[{"w": False, "n": True}], [{"w": ["a"], "n": None}], [{"w": {"a": 2.0}}]])


def test_words_for_a_model_of_other_features_are_refused(rng):
    X = [[{"image": np.ones(2), "form": "a"}]]
    y = [["A"]]
    model = omkl.SequenceLabeler(kernels=[]).fit([[{"form": "a"}, {"form": "b"}]], [["A", "B"]])
    with pytest.raises(InputError):
        model.predict([["a"]])
    with pytest.raises(InputError):
        omkl.SequenceLabeler().fit(X * 2, y * 2).predict([["a"]])
    with pytest.raises(InputError):
        omkl.SequenceLabeler("gaussian").fit([["a"]], [["A"]])


def test_templates_tell_what_a_word_looks_like():
    first, second, third = token_features(["McDonald's", "9-to-5", "x"])
    assert first["shape"] == "XxXxx'x"
    assert second["shape"] == "d-xx-d"
    assert first["word"] == "McDonald's"
    assert first["prefix3"] == "mcd"
    assert first["suffix2"] == "'s"
    assert third["suffix5"] == "x"
    assert second["has_digit"] is True
    assert second["has_hyphen"] is True
    assert second["is_capital"] is False
    for name in ("has_digit", "has_hyphen", "is_capital"):
        assert third[name] is False
    assert token_features(["NATO"])[0]["is_upper"]


def test_templates_look_around():
    first, second, third = token_features(["No", "way", "Out"])
    assert first["lower[-1]"] == "<s>"
    assert first["lower[+2]"] == "out"
    assert first["suffix2[+1]"] == "ay"
    assert third["lower[-2]"] == "no"
    assert third["lower[+1]"] == "</s>"
    assert third["suffix3[-1]"] == "way"
    assert second["lower[-1]|lower[+1]"] == "no|out"
    assert second["lower|lower[+1]"] == "way|out"
    assert first["lower[-1]|lower"] == "<s>|no"


def test_every_token_has_every_template():
    names = [template.name for template in TEMPLATES]
    assert len(set(names)) == len(names)
    for words in (["a"], ["", "я", "日本"], ["x"] * 1000):
        assert all(list(features) == names for features in token_features(words))
    assert token_features([]) == []


@pytest.mark.parametrize("words", ["word", ["a", None], [["a"]], [1.0]])
def test_what_is_no_list_of_words_is_refused(words):
    with pytest.raises(InputError):
        token_features(words)
