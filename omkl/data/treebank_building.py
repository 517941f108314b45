"""Sentences made in Python as columns of codes, and columns as the text of a CoNLL-U file."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omkl.data import _jit_treebank as jit
from omkl.data.conll import Sentence
from omkl.data.layouts import COLUMNS, FIELDS
from omkl.data.strings import MISSING, Strings
from omkl.data.treebank_checks import MODES, WRONG, WRONG_WORD, Checks, explain_heads
from omkl.exceptions import InputError

# half a pair of surrogates is no character that UTF-8 can hold
_UNFIT = re.compile("[\t\n\r\ud800-\udfff]")
_UNFIT_BUT_TABS = re.compile("[\n\r\ud800-\udfff]")


def encode_sentences(sentences: Iterable[Sentence], strings: dict[str, Strings], checks: Checks) -> dict:
    """Columns of a treebank: see :meth:`omkl.data.Treebank.from_sentences`.

    Parameters
    ----------
    sentences : iterable of Sentence
    strings : dict of str to Strings
        Grown by the strings of the sentences.
    checks : Checks

    Returns
    -------
    dict
        ``offsets`` int64 (n_sentences + 1,), ``heads`` int32 (n_words,), and int32 codes (n_words,) for each field.
    """
    values: dict[str, list] = {name: [] for name in COLUMNS}
    lengths = []
    for number, sentence in enumerate(sentences, 1):
        columns = [getattr(sentence, name) for name in COLUMNS]
        n = max(map(len, columns))
        if n == 0:
            raise InputError(f"Sentence {number} has no words: leave it out.")
        lengths.append(n)
        for name, column in zip(COLUMNS, columns):
            values[name] += _column(column, name, n, number)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    heads = np.array(values["heads"], np.int32)
    _check_heads(offsets, heads, checks)
    codes = {name: strings[name].codes(values[name], grow=True) for name in FIELDS}
    return {"offsets": offsets, "heads": heads, **codes}


def _check_heads(offsets: np.ndarray, heads: np.ndarray, checks: Checks) -> None:
    if MODES[checks.trees] == jit.ANY_HEADS:
        return
    found = np.zeros((len(offsets) - 1, 5), np.int64)
    jit.check_trees(offsets, heads, MODES[checks.trees], checks.single_root, found)
    if found[:, WRONG].any():
        i = int(np.argmax(found[:, WRONG] != jit.FINE))
        wrong, word = found[i, [WRONG, WRONG_WORD]].tolist()
        own = [MISSING if head < 0 else str(head) for head in heads[offsets[i] : offsets[i + 1]].tolist()]
        raise InputError(f"Sentence {i + 1}, word {word}: {explain_heads(own, wrong, word)}")


def _column(values: Sequence, name: str, n: int, number: int) -> list:
    """A column of sentence ``number``: strings, or heads of which -1 is none."""
    if len(values) not in (0, n):
        advice = "give each word one, or none at all."
        raise InputError(f"Sentence {number} has {n} words, but {len(values)} {name}: {advice}")
    if name == "heads":
        return [_head(head, number, word) for word, head in enumerate(values, 1)] or [-1] * n
    if not len(values):
        return [MISSING] * n
    strings = [MISSING if value is None else value for value in values]
    if _are_fit(strings):
        return strings
    word = next(i for i, value in enumerate(strings) if not isinstance(value, str) or _UNFIT.search(value))
    wanted = "a string that UTF-8 can hold, without tabs and line breaks"
    raise InputError(f"Sentence {number}, word {word + 1}: {strings[word]!r} among {name} is not {wanted}.")


def _are_fit(strings: list) -> bool:
    """Whether strings have no tabs, line breaks and lone surrogates; looked at together, which is fast."""
    try:
        text = "\t".join(strings)
    except TypeError:
        return False
    return text.count("\t") == len(strings) - 1 and not _UNFIT_BUT_TABS.search(text)


def _head(head: Any, number: int, word: int) -> int:
    if head is None:
        return -1
    try:
        if 0 <= int(head) == head < 10**jit.MOST_DIGITS:
            return int(head)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"Sentence {number}, word {word}: the head {head!r} is not the number of a word, 0 or None.")


def conllu_text(sentences: Iterable[Sentence]) -> Iterable[bytes]:
    """Each sentence as the lines of a CoNLL-U file, with an empty line after them."""
    for sentence in sentences:
        heads = [MISSING if head is None else str(head) for head in sentence.heads]
        columns = [heads if name == "heads" else getattr(sentence, name) for name in COLUMNS]
        words = map("\t".join, zip(*columns))
        yield "".join(f"{i}\t{word}\t_\t_\n" for i, word in enumerate(words, 1)).encode() + b"\n"
