"""Which words are punctuation: the conventions that evaluations of trees leave them out by."""

import unicodedata
from collections.abc import Callable

import numpy as np

from omkl.data import Treebank
from omkl.exceptions import InputError

#: Tags of punctuation in the Penn treebank.
PENN_TAGS = frozenset(["``", "''", ":", ",", "."])


def is_punctuation(treebank: Treebank, rule: str | Callable[..., bool] | None) -> np.ndarray:
    """A mask of the words that a rule of :meth:`~omkl.DependencyParser.evaluate` leaves out."""
    if rule is None:
        return np.zeros(treebank.n_words, dtype=bool)
    if rule == "upos":
        return _mask(treebank, "upos", lambda tag: tag == "PUNCT")
    if rule == "xpos":
        return _mask(treebank, "xpos", PENN_TAGS.__contains__)
    if rule == "form":
        return _mask(treebank, "forms", lambda form: all(unicodedata.category(c)[0] == "P" for c in form))
    if not callable(rule):
        raise InputError(f'ignore must be None, "upos", "xpos", "form" or a function, not {rule!r}.')
    columns = [_strings(treebank, name) for name in ("forms", "upos", "xpos")]
    return np.array([bool(rule(*word)) for word in zip(*columns)], dtype=bool)


def _mask(treebank, name, rule):
    return np.array([rule(string) for string in treebank.strings[name]], dtype=bool)[getattr(treebank, name)]


def _strings(treebank, name):
    strings = treebank.strings[name].tolist()
    return [strings[code] for code in getattr(treebank, name).tolist()]
