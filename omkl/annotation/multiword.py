"""Splitter of multiword tokens, with a dictionary of known tokens, and predicted edits of other tokens."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from omkl.annotation.lemmatizer import (
    LEAST_WORDS,
    OWN_KEYS,
    Learn,
    Model,
    apply_edit,
    as_dict,
    edit_of,
    labels_by,
    learned,
    own_values,
)
from omkl.persistence import Packer

#: Separator in rules, and the rule of tokens that are words.
RETURN, WHOLE = "\r", ""


def rule_of(form: str, words: list[str]) -> str:
    """Make the rule that splits a token to words: the edit from the token to the longest word, and the other words.

    >>> apply_rule(rule_of("dámelo", ["da", "me", "lo"]), "cómpramelo")
    ['cómpra', 'me', 'lo']
    """
    place = max(range(len(words)), key=lambda i: len(words[i]))
    return RETURN.join([edit_of(form, words[place]), str(place), *words[:place], *words[place + 1 :]])


def apply_rule(rule: str, form: str) -> list[str]:
    """Split a token; an empty rule does not."""
    if rule == WHOLE:
        return []
    edit, place, *words = rule.split(RETURN)
    words.insert(int(place), apply_edit(edit, form))
    return words


class MultiwordSplitter:
    """Splits multiword tokens to words.

    Known tokens, or their lower case, have their most frequent words in the training data. For other tokens, a
    classifier predicts a rule from both ends of the token.

    Attributes
    ----------
    known : dict of str to str
        Words of tokens, joined by tabs; empty for tokens that are words but that the classifier would split.
    rules : SequenceLabeler or str
        Classifier of rules, or the only rule.
    """

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.rules: Model = WHOLE

    def fit(self, tokens: Iterable[tuple[str, list[str]]], learn: Learn) -> "MultiwordSplitter":
        """Train on tokens: forms, and the words of multiword tokens."""
        votes: dict[str, Counter[str]] = {}
        for form, words in tokens:
            votes.setdefault(form, Counter())["\t".join(words)] += 1
        # in a tie, a token is split
        usual = {form: min(own, key=lambda words: (-own[words], not words, words)) for form, own in votes.items()}
        rules = {form: rule_of(form, words.split("\t")) if words else WHOLE for form, words in usual.items()}
        counts = Counter(rules.values())
        common = [form for form, rule in rules.items() if counts[rule] >= LEAST_WORDS]
        X, y = [[as_dict(OWN_KEYS, own_values(form))] for form in common], [[rules[form]] for form in common]
        self.rules = learned(X, y, learn, WHOLE)
        guesses = dict(zip(usual, labels_by(self.rules, OWN_KEYS, list(usual), own_values)))
        self.known = {form: words for form, words in usual.items() if words or guesses[form] != WHOLE}
        return self

    def split(self, forms: Iterable[str]) -> dict[str, list[str]]:
        """Return the words of the multiword tokens among some tokens."""
        found: dict[str, list[str]] = {}
        unknown = []
        for form in dict.fromkeys(forms):
            words = self.known.get(form)
            if words is None and (lower := self.known.get(form.lower())):
                words = lower.upper() if form.isupper() else lower[:1].upper() + lower[1:]
            if words is None:
                unknown.append(form)
            elif words:
                found[form] = words.split("\t")
        for form, rule in zip(unknown, labels_by(self.rules, OWN_KEYS, unknown, own_values)):
            if all(words := apply_rule(rule, form)) and words:
                found[form] = words
        return found

    def describe(self, packer: Packer) -> dict[str, Any]:
        """Return JSON values for a model file, without a classifier; arrays are added to the packer."""
        text = "\n".join(f"{form}\r{words}" for form, words in self.known.items())
        packer.arrays["tokens/multiword"] = np.frombuffer(text.encode(), np.uint8)
        return {"rule": self.rules if isinstance(self.rules, str) else None}

    @classmethod
    def restored(
        cls, values: dict[str, Any], arrays: dict[str, np.ndarray], rules: Model | None
    ) -> "MultiwordSplitter":
        """The inverse of :meth:`describe`, given the classifier, if there is one."""
        splitter = cls()
        splitter.rules = values["rule"] if rules is None else rules
        text = arrays["tokens/multiword"].tobytes().decode()
        splitter.known = dict(line.split("\r") for line in text.split("\n")) if text else {}
        return splitter
