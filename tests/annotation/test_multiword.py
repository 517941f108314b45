"""Rules that split multiword tokens, and the choice among rules that can be applied."""

from hypothesis import given
from hypothesis import strategies as st

import omkl
from omkl.annotation.edits import WHOLE, apply_rule, rule_of
from omkl.annotation.tagger import FORM_KEYS, as_dict, form_values
from omkl.annotation.tokenizer import MultiwordSplitter

from .made_language import SYLLABLES, stems_of

FORMS = st.text("abcDE", min_size=1, max_size=6)
SHORT_FORMS = st.text("ab", min_size=1, max_size=4)


def fitted(tokens):
    labeler = omkl.SequenceLabeler(transitions=None, epochs=4, random_state=0)
    return MultiwordSplitter().fit(tokens, lambda X, y, *rest: labeler.fit(X, y))


def features_of(form):
    """Return the features of a token: those of a word, and its longer affixes."""
    lower = form.lower()
    affixes = {f"prefix{k}": lower[:k] for k in range(5, 9)}
    affixes |= {f"suffix{k}": lower[-k:] for k in range(6, 9)}
    return as_dict(FORM_KEYS, form_values(form)) | affixes


@given(FORMS, st.lists(FORMS, min_size=2, max_size=3))
def test_a_rule_splits_its_token(form, words):
    longest = max(words, key=len)
    result = apply_rule(rule_of(form, words), form)
    if set(form.lower()).isdisjoint(longest.lower()):
        assert result is None
    else:
        assert result == words
    assert apply_rule(rule_of("".join(words), words), "".join(words)) == words
    assert apply_rule(WHOLE, form) == []


@given(st.lists(SHORT_FORMS, min_size=2, max_size=3), st.text("abc", max_size=12))
def test_rules_of_concatenations_add_and_lose_no_letter(words, token):
    split_words = apply_rule(rule_of("".join(words), words), token)
    place = max(range(len(words)), key=lambda i: len(words[i]))
    front = "".join(words[:place])
    back = "".join(words[place + 1 :])
    stem = token.removeprefix(front).removesuffix(back)
    if stem and token == front + stem + back:
        assert split_words == [*words[:place], stem, *words[place + 1 :]]
        assert "".join(split_words) == token
    else:
        assert split_words is None


def test_rules_are_applied_to_unknown_tokens():
    tokens = [(f"{stem}lo", [stem, "lo"]) for stem in stems_of(SYLLABLES[:12], SYLLABLES[12:16])]
    tokens += [(stem, []) for stem in stems_of(SYLLABLES[:12], SYLLABLES[12:18])]
    tokens += [("zum", ["zu", "dem"])] * 3 + [("zum", [])]
    splitter = fitted(tokens)
    forms = ["zum", "Zum", "ZUM", "bibilo", "bibi", "."]
    assert splitter.split(forms) == {
        "zum": ["zu", "dem"],
        "Zum": ["Zu", "dem"],
        "ZUM": ["ZU", "DEM"],
        "bibilo": ["bibi", "lo"],
    }
    assert splitter.split(["zum"]) == {"zum": ["zu", "dem"]}  # no token is left for the rules
    assert splitter.split([]) == {}


def test_tokens_are_split_by_the_best_rule_that_can_be_applied():
    prefixes = ("h", "bh", "lo", "w")
    suffixes = ("lo", "me", "o")
    stems = stems_of(SYLLABLES[:10], SYLLABLES[10:16])
    tokens = []
    for prefix in prefixes:
        tokens += [(prefix + stem, [prefix, stem]) for stem in stems]
    for suffix in suffixes:
        tokens += [(stem + suffix, [stem, suffix]) for stem in stems[::2]]
    splitter = fitted(tokens)
    forms = [*prefixes, *suffixes, "x", "xy", "hlo", "lolo", "wo", "who", "bhme", "lomeo", "xx"]
    forms = [form for form in forms if form not in splitter.words_of]
    words_of_tokens = splitter.split(forms)
    n_refused = 0
    for form in forms:
        (ranking,) = splitter.rules.predict_nbest([[features_of(form)]], 99)
        splits = [apply_rule(labelling.labels[0], form) for labelling in ranking]
        expected = next((words for words in splits if words is not None), [])
        assert words_of_tokens.get(form, []) == expected
        assert "".join(words_of_tokens.get(form, [form])) == form
        n_refused += splits[0] is None
    assert n_refused > 5  # the best rule alone is not enough
    assert "h" not in words_of_tokens


def test_in_a_tie_a_token_is_split():
    tokens = [("du", ["de", "le"]), ("du", []), ("des", []), ("des", []), ("des", ["de", "les"])]
    splitter = MultiwordSplitter().fit(tokens, lambda X, y, *rest: None)
    assert splitter.split(["du", "des"]) == {"du": ["de", "le"]}
