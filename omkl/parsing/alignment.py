"""Alignment of the words of two segmentations of the same text."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from omkl.data import Treebank
from omkl.exceptions import InputError
from omkl.parsing.sentences import strings_of

#: Line of a multiword token in CoNLL-U: its first and last word, and its form.
_MULTIWORD_LINE = re.compile(rb"^([0-9]+)-([0-9]+)\t([^\t\n]*)", re.MULTILINE)
#: Number of characters to show where two texts differ.
SHOWN = 20


class Word(NamedTuple):
    """Word of a text.

    Attributes
    ----------
    form : str
        Form in lower case.
    start, end : int
        Its token is the characters ``start : end`` of the text without whitespace.
    in_multiword : bool
        Whether the token has several words.
    """

    form: str
    start: int
    end: int
    in_multiword: bool


class MultiwordToken(NamedTuple):
    """Token of several words: the index after its last word, and its form."""

    end: int
    form: str


class Segmentation(NamedTuple):
    """Tokens and words of a treebank.

    Attributes
    ----------
    characters : str
        All characters but whitespace.
    words : list of Word
    tokens, sentences : set of (int, int)
        Start and end of their characters.
    """

    characters: str
    words: list[Word]
    tokens: set[tuple[int, int]]
    sentences: set[tuple[int, int]]

    @classmethod
    def of(cls, treebank: Treebank) -> "Segmentation":
        """Find the tokens of a treebank; without its text, every word is a token."""
        multiword_tokens = multiword_tokens_of(treebank)
        texts = []
        tokens = []
        words = []
        n_characters = 0
        end_of_token = 0  # index after the last word of the token
        for i, form in enumerate(strings_of(treebank, "forms")):
            if i in multiword_tokens or i >= end_of_token:
                # a token of one word gets its own index, so that it is no multiword token
                end_of_token, text = multiword_tokens.get(i, (i, form))
                text = "".join(text.split())
                texts.append(text)
                tokens.append((n_characters, n_characters + len(text)))
                n_characters += len(text)
            start, end = tokens[-1]
            words.append(Word(form.lower(), start, end, in_multiword=i < end_of_token))
        bounds = [words[i].start for i in treebank.offsets[:-1].tolist()]
        bounds.append(n_characters)
        return cls(
            characters="".join(texts),
            words=words,
            tokens=set(tokens),
            sentences=set(pairwise(bounds)),
        )


def multiword_tokens_of(treebank: Treebank) -> dict[int, MultiwordToken]:
    """Return the multiword tokens of a treebank by the index of their first word."""
    if treebank.text is None or treebank.text_offsets is None or treebank.format != "conllu":
        return {}
    lines = list(_MULTIWORD_LINE.finditer(treebank.text))
    starts = np.array([line.start() for line in lines], np.int64)
    sentences = np.searchsorted(treebank.text_offsets, starts, side="right") - 1
    tokens = {}
    for line, offset in zip(lines, treebank.offsets[sentences].tolist()):
        first, last, form = line.groups()
        token = MultiwordToken(end=offset + int(last), form=form.decode())
        tokens[offset + int(first) - 1] = token
    return tokens


def check_characters(gold: str, predicted: str) -> None:
    """Raise InputError if the characters of two treebanks differ."""
    if gold == predicted:
        return
    n = min(len(gold), len(predicted))
    place = next((i for i in range(n) if gold[i] != predicted[i]), n)
    remark = ""
    if unicodedata.normalize("NFC", gold) == unicodedata.normalize("NFC", predicted):
        remark = "; they are equal in Unicode's normal form NFC"
    raise InputError(
        f"Both treebanks must have the same characters; at character {place + 1}, the gold one has "
        f"{_characters_at(gold, place)}, and the other one has "
        f"{_characters_at(predicted, place)}{remark}."
    )


def _characters_at(text: str, place: int) -> str:
    """Show the characters of a text from a place on, and the code of the first one.

    Some characters look alike.
    """
    code = f" (U+{ord(text[place]):04X})" if place < len(text) else ""
    return f"{text[place : place + SHOWN]!r}{code}"


def align_words(gold: Sequence[Word], predicted: Sequence[Word]) -> np.ndarray:
    """Align words of the same characters, and return the indices of aligned words, (n, 2).

    Words are aligned if they are tokens of the same characters. The words around multiword tokens
    are aligned by the longest common subsequence of their forms (Zeman et al. 2018).
    """
    pairs: list[tuple[int, int]] = []
    g = 0
    p = 0
    while g < len(gold) and p < len(predicted):
        gold_word = gold[g]
        predicted_word = predicted[p]
        if gold_word.in_multiword or predicted_word.in_multiword:
            if not predicted_word.in_multiword and predicted_word.start < gold_word.start:
                p += 1
            elif not gold_word.in_multiword and gold_word.start < predicted_word.start:
                g += 1
            end = gold_word.end if gold_word.in_multiword else predicted_word.end
            g_end, p_end = _multiword_span(gold, predicted, g, p, end)
            gold_forms = [word.form for word in gold[g:g_end]]
            predicted_forms = [word.form for word in predicted[p:p_end]]
            for i, j in _longest_common_subsequence(gold_forms, predicted_forms):
                pairs.append((g + i, p + j))
            g = g_end
            p = p_end
        elif (gold_word.start, gold_word.end) == (predicted_word.start, predicted_word.end):
            pairs.append((g, p))
            g += 1
            p += 1
        elif gold_word.start <= predicted_word.start:
            g += 1
        else:
            p += 1
    return np.array(pairs, np.int64).reshape(-1, 2)


def _multiword_span(
    gold: Sequence[Word], predicted: Sequence[Word], g: int, p: int, end: int
) -> tuple[int, int]:
    """Return the indices after the last gold and predicted word of a span of characters.

    The span begins with the words ``g`` and ``p``. It ends at character ``end``, or at the end of
    the last multiword token that begins within it.
    """

    def is_inside(words: Sequence[Word], i: int) -> bool:
        if i >= len(words):
            return False
        return words[i].start < end if words[i].in_multiword else words[i].end <= end

    while is_inside(gold, g) or is_inside(predicted, p):
        if g < len(gold) and (p >= len(predicted) or gold[g].start <= predicted[p].start):
            word = gold[g]
            g += 1
        else:
            word = predicted[p]
            p += 1
        if word.in_multiword:
            end = max(end, word.end)
    return g, p


def _longest_common_subsequence(first: list[str], second: list[str]) -> tuple[tuple[int, int], ...]:
    """Return the indices of the longest common subsequence of two lists.

    Of several, it is the one that pairs equal strings as soon as they meet, and otherwise leaves
    out a string of the first list. The lists are short: the words of a few tokens.
    """

    # longest[i, j] is the result for first[i:] and second[j:], as a linked list with its length
    nothing: Any = (0, None, None)
    below = [nothing] * (len(second) + 1)
    for i in reversed(range(len(first))):
        here = [nothing] * (len(second) + 1)
        for j in reversed(range(len(second))):
            if first[i] == second[j]:
                here[j] = (below[j + 1][0] + 1, (i, j), below[j + 1])
            else:
                here[j] = max(below[j], here[j + 1], key=itemgetter(0))
        below = here
    pairs = []
    length, pair, rest = below[0]
    while length:
        pairs.append(pair)
        length, pair, rest = rest
    return tuple(pairs)
