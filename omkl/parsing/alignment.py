"""Alignment of the words of two treebanks of the same text, as in the CoNLL 2018 shared task."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from omkl.data import Treebank
from omkl.exceptions import InputError
from omkl.parsing.sentences import strings_of

_RANGE = re.compile(rb"^([0-9]+)-([0-9]+)\t([^\t\n]*)", re.MULTILINE)
#: Number of characters to show where two texts differ.
SHOWN = 20


class Word(NamedTuple):
    """A word: its form in lower case, the characters of its token, and whether the token is a multiword token."""

    form: str
    start: int
    end: int
    in_multiword: bool


class Segmentation(NamedTuple):
    """Tokens and words of a treebank; spans are numbers of characters, without whitespace, from start to end.

    Attributes
    ----------
    characters : str
    words : list of Word
    tokens, sentences : set of (int, int)
    """

    characters: str
    words: list[Word]
    tokens: set[tuple[int, int]]
    sentences: set[tuple[int, int]]

    @classmethod
    def of(cls, treebank: Treebank) -> "Segmentation":
        """Find the tokens of a treebank; without its text, every word is a token."""
        ranges, parts, words = ranges_of(treebank), [], []
        at = last = 0
        tokens = []
        for i, form in enumerate(strings_of(treebank, "forms")):
            if i in ranges:
                last, own = ranges[i]
                in_multiword = True
            elif i >= last:
                own, in_multiword = form, False
            if i in ranges or i >= last:
                own = "".join(own.split())
                parts.append(own)
                tokens.append((at, at + len(own)))
                at += len(own)
            words.append(Word(form.lower(), *tokens[-1], in_multiword))
        bounds = [words[i].start for i in treebank.offsets[:-1].tolist()] + [at]
        return cls("".join(parts), words, set(tokens), set(pairwise(bounds)))


def ranges_of(treebank: Treebank) -> dict[int, tuple[int, str]]:
    """Return the multiword tokens of a treebank, by their first word: the end of their words, and the form."""
    if treebank.text is None or treebank.text_offsets is None or treebank.format != "conllu":
        return {}
    found = list(_RANGE.finditer(treebank.text))
    places = np.array([match.start() for match in found], np.int64)
    firsts = treebank.offsets[np.searchsorted(treebank.text_offsets, places, side="right") - 1].tolist()
    return {
        first + int(match[1]) - 1: (first + int(match[2]), match[3].decode()) for first, match in zip(firsts, found)
    }


def check_characters(gold: Segmentation, predicted: Segmentation) -> None:
    """Raise InputError if the characters of two treebanks differ."""
    ours, theirs = gold.characters, predicted.characters
    if ours == theirs:
        return
    n = min(len(ours), len(theirs))
    at = next((i for i in range(n) if ours[i] != theirs[i]), n)
    raise InputError(
        f"Both treebanks must have the same characters; at character {at + 1}, the gold one has "
        f"{ours[at : at + SHOWN]!r}, and the other one has {theirs[at : at + SHOWN]!r}."
    )


def aligned(gold: Sequence[Word], predicted: Sequence[Word]) -> np.ndarray:
    """Align words of the same characters, and return the indices of aligned words, (n, 2).

    Words are aligned if they are tokens of the same characters. The words around multiword tokens are aligned by the
    longest common subsequence of their forms (Zeman et al. 2018).
    """
    pairs: list[tuple[int, int]] = []
    g = p = 0
    while g < len(gold) and p < len(predicted):
        ours, theirs = gold[g], predicted[p]
        if ours.in_multiword or theirs.in_multiword:
            if not theirs.in_multiword and theirs.start < ours.start:
                p += 1
            elif not ours.in_multiword and ours.start < theirs.start:
                g += 1
            g_end, p_end = _multiword_span(gold, predicted, g, p, ours.end if ours.in_multiword else theirs.end)
            common = _common([word.form for word in gold[g:g_end]], [word.form for word in predicted[p:p_end]])
            pairs += [(g + i, p + j) for i, j in common]
            g, p = g_end, p_end
        elif (ours.start, ours.end) == (theirs.start, theirs.end):
            pairs.append((g, p))
            g, p = g + 1, p + 1
        elif ours.start <= theirs.start:
            g += 1
        else:
            p += 1
    return np.array(pairs, np.int64).reshape(-1, 2)


def _multiword_span(gold: Sequence[Word], predicted: Sequence[Word], g: int, p: int, end: int) -> tuple[int, int]:
    """Return the ends of the words up to character ``end``, which grows with multiword tokens that begin before it."""

    def is_inside(words: Sequence[Word], i: int) -> bool:
        return i < len(words) and (words[i].start < end if words[i].in_multiword else words[i].end <= end)

    while is_inside(gold, g) or is_inside(predicted, p):
        if g < len(gold) and (p >= len(predicted) or gold[g].start <= predicted[p].start):
            word, g = gold[g], g + 1
        else:
            word, p = predicted[p], p + 1
        if word.in_multiword:
            end = max(end, word.end)
    return g, p


def _common(ours: list[str], theirs: list[str]) -> list[tuple[int, int]]:
    """Return the places of the longest common subsequence of two lists; of several, our later ones are left out."""
    longest = np.zeros((len(ours) + 1, len(theirs) + 1), np.int64)
    for i in reversed(range(len(ours))):
        for j in reversed(range(len(theirs))):
            both = longest[i + 1, j + 1] + 1 if ours[i] == theirs[j] else 0
            longest[i, j] = max(both, longest[i + 1, j], longest[i, j + 1])
    pairs, i, j = [], 0, 0
    while i < len(ours) and j < len(theirs):
        if ours[i] == theirs[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif longest[i, j] == longest[i + 1, j]:
            i += 1
        else:
            j += 1
    return pairs
