"""Features of words: values of templates, and errors."""

import pytest

from omkl.exceptions import InputError
from omkl.features import TEMPLATES, token_features


def test_templates_tell_what_a_word_looks_like():
    first, second, third = token_features(["McDonald's", "9-to-5", "x"])
    assert first["shape"] == "XxXxx'x"
    assert second["shape"] == "d-xx-d"
    assert (first["word"], first["prefix3"], first["suffix2"], third["suffix5"]) == ("McDonald's", "mcd", "'s", "x")
    assert [second[name] for name in ("has_digit", "has_hyphen", "is_capital")] == [True, True, False]
    assert [third[name] for name in ("has_digit", "has_hyphen", "is_capital")] == [False] * 3
    assert token_features(["NATO"])[0]["is_upper"]


def test_templates_look_around():
    first, second, third = token_features(["No", "way", "Out"])
    assert (first["lower[-1]"], first["lower[+2]"], first["suffix2[+1]"]) == ("<s>", "out", "ay")
    assert (third["lower[-2]"], third["lower[+1]"], third["suffix3[-1]"]) == ("no", "</s>", "way")
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
