"""Attributes and nested dicts as CRFsuite's users have them: their keys, numbers, and groups."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import omkl
from omkl.exceptions import DataWarning, InputError
from omkl.features.vocabulary import flattened, split_attribute

TAGS = [["D", "N"], ["D", "N", "V"], ["N", "V"]] * 4
WORDS = [["the", "cat"], ["a", "dog", "barks"], ["cats", "12:30"]] * 4


@pytest.mark.parametrize(
    ("attribute", "key", "value"),
    [
        ("word:main", "word", "main"),
        ("word=main", "word", "main"),
        ("bias", "bias", None),
        ("next:digits:no_digits", "next:digits", "no_digits"),
        ("length:w:4", "length:w", "4"),
        ("trailing.zeros:", "trailing.zeros", ""),
        ("-1:word.lower()=the", "-1:word.lower()", "the"),
        ("word[-1]:lower=the", "word[-1]:lower", "the"),
        ("w[0]|w[1]=a|b=c", "w[0]|w[1]", "a|b=c"),
        ("url=http://x.org:80", "url", "http://x.org:80"),
        ("word:http://x.org", "word", "http://x.org"),
        ("next:time:12:30", "next:time", "12:30"),
        ("word::", "word", ":"),
        ("word:\n", "word", "\n"),
        ("http://x.org", "http://x.org", None),
        ("12:30", "12:30", None),
        (":", ":", None),
        ("=", "=", None),
        ("", "", None),
    ],
)
def test_keys_of_attributes(attribute, key, value):
    assert split_attribute(attribute) == (key, value)


def forms(word):
    """The same token in each of the forms in which it can be given."""
    yield [f"word:{word}", f"next:end:{word[-1]}", "next:known", ("length", len(word)), "bias"]
    yield [
        f"word={word}",
        f"next:end={word[-1]}",
        "next=known",
        ("length", len(word)),
        ("bias", 1.0),
    ]
    yield {"word": word, "next": {"end": word[-1], "known": True}, "length": len(word), "bias": 1}
    yield {
        f"word={word}": 1.0,
        f"next:end:{word[-1]}": 1,
        "next:known": 1,
        "length": len(word),
        "bias": True,
    }


def in_form(i):
    return [[list(forms(word))[i] for word in sentence] for sentence in WORDS]


def test_all_forms_of_a_token_are_the_same_features():
    in_forms = [in_form(i) for i in range(4)]
    models = [
        omkl.SequenceLabeler(regularizer="l2", epochs=2, random_state=0).fit(X, TAGS)
        for X in in_forms
    ]
    expected = models[0].decision_function(in_forms[0])
    for model in models:
        assert set(model.kernel_weights_) == {"word", "next:end", "next", "length", "bias"}
        for X in in_forms:
            for scores, expected_scores in zip(model.decision_function(X), expected):
                assert_allclose(scores, expected_scores, atol=1e-9)


@pytest.mark.parametrize(
    "token",
    [
        {"word": "the", "bias": 1.0},
        {"next": {"word": "the", "shape": {"upper": True, "length": 2.5, "end": {"last": "e"}}}},
        {"next": {"tags": ["a", "b"], "flag": False}, "word:the": 2.0},
        {"n": {"x": 1.0}, "n:x": 2.0, "n:y": "z"},
    ],
)
def test_nested_dicts_are_flattened_as_by_python_crfsuite(token):
    crfsuite = pytest.importorskip("pycrfsuite")
    (expected,) = crfsuite.ItemSequence([token]).items()
    if "n:x" in expected:
        # python-crfsuite takes the last of two weights of one attribute, and here they add up
        expected["n:x"] = 3.0
    weights = dict.fromkeys(expected, 0.0)
    for key, value in flattened([token])[0].items():
        if isinstance(value, float):
            weights[key] += value
        elif isinstance(value, dict):
            for name, weight in value.items():
                weights[f"{key}:{name}"] += weight
        elif isinstance(value, list):
            for name in value:
                weights[f"{key}:{name}"] += 1.0
        else:
            weights[f"{key}:{value}"] += 1.0
    assert weights == expected


def test_tuples_are_columns():
    X = [[(word, word[-1]) for word in sentence] for sentence in WORDS]
    dicts = [[{"0": word, "1": end} for word, end in sentence] for sentence in X]
    by_tuple = omkl.SequenceLabeler(epochs=2, random_state=0).fit(X, TAGS)
    by_dict = omkl.SequenceLabeler(epochs=2, random_state=0).fit(dicts, TAGS)
    assert by_tuple.kernel_weights_ == by_dict.kernel_weights_
    assert list(by_tuple.kernel_weights_) == ["0", "1"]
    assert all(map(np.array_equal, by_tuple.predict(X), by_dict.predict(dicts)))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[("the", "D"), ("cat",)]], "tuples of 2 values, got .'cat',. at token 1 of sequence 0"),
        ([[("the", "D"), ["cat"]]], "tuples of 2 values, got .'cat'. at token 1"),
        ([[["w=a"], [("length", "3")]]], r"pairs of a string and a number.*got \('length', '3'\)"),
        ([[["w=a"], [("length", float("nan"))]]], "'length' must be a finite number.*nan"),
    ],
)
def test_bad_attributes_are_refused(X, message):
    with pytest.raises(InputError, match=message):
        omkl.SequenceLabeler().fit(X, [["D", "N"]])


def test_a_group_for_each_feature_is_said_once():
    X = [[[f"w_{i}_{j}", "bias"] for j in range(4)] for i in range(60)]
    y = [["A", "B", "A", "B"]] * 60
    message = "241 groups of 241 features, such as 'w_59_3'.*word=main"
    with pytest.warns(DataWarning, match=message) as caught:
        model = omkl.SequenceLabeler(regularizer="l2", epochs=1, random_state=0).fit(X, y)
    assert sum("groups of" in str(warning.message) for warning in caught) == 1
    with_keys = [[[f"w:{i}_{j}", "bias"] for j in range(4)] for i in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
        omkl.SequenceLabeler(regularizer="l2", epochs=1).fit(with_keys, y)
