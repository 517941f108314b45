"""Attachment scores of parsed sentences, and the conventions about which words count."""

import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np

from omkl.data import Treebank
from omkl.exceptions import InputError

#: Tags of punctuation in the Penn treebank.
PENN_TAGS = frozenset(["``", "''", ":", ",", "."])


def attachment_scores(
    gold: Treebank, parsed: Treebank, labeled: bool, ignore: str | Callable[..., bool] | None = None
) -> dict[str, Any]:
    """What :meth:`~omkl.DependencyParser.evaluate` returns, of gold trees and those of a parser."""
    counted = ~is_punctuation(gold, ignore)
    if not counted.any():
        raise InputError("No word is left to count: choose another ignore=.")
    right = parsed.heads == gold.heads
    las = None
    if labeled:
        known = parsed.strings["deprels"].codes(gold.strings["deprels"].tolist())[gold.deprels]
        las = float(np.mean((right & (parsed.deprels == known))[counted]))
    wrong = np.add.reduceat(counted & ~right, gold.offsets[:-1])
    return {
        "uas": float(np.mean(right[counted])),
        "las": las,
        "words": int(counted.sum()),
        "sentences": len(gold),
        "whole": float(np.mean(wrong == 0)),
    }


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
