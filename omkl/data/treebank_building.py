"""Treebanks of sentences made in Python: as the text that a file of them would have."""

import re

from omkl.data.layouts import COLUMNS, LAYOUTS
from omkl.data.treebank import Treebank
from omkl.data.treebank_parsing import Checks, new_strings, parse
from omkl.exceptions import DataFileError, InputError

#: Characters of text that are made at a time.
BLOCK_SIZE = 1 << 22
_BREAKS = re.compile(r"[\t\n\r]")


def build(sentences, strings=None, trees="given", single_root=False):
    """A treebank of sentences: see :meth:`omkl.data.Treebank.from_sentences`."""
    strings, checks = new_strings(strings), Checks(trees, single_root)
    blocks, texts, size, done = [], [], 0, 0
    for number, sentence in enumerate(sentences, 1):
        texts.append(_as_text(sentence, number))
        size += len(texts[-1])
        if size > BLOCK_SIZE:
            blocks.append(_parse(texts, strings, checks, done))
            texts, size, done = [], 0, number
    if texts or not blocks:
        blocks.append(_parse(texts, strings, checks, done))
    return Treebank.concatenate(blocks)


def _parse(texts, strings, checks, done):
    def place(line, word, sentence):
        return f"Sentence {done + sentence}" + (f", word {word}" if word else "")

    text = "".join(texts).encode("utf-8", "surrogatepass")
    try:
        return parse(text, LAYOUTS["conllu"], strings, checks, place)[0]
    except DataFileError as error:  # there is no file
        raise InputError(str(error)) from None


def _as_text(sentence, number):
    """A sentence in CoNLL-U, with an empty line after it."""
    n = max(len(getattr(sentence, name)) for name in COLUMNS)
    if n == 0:
        raise InputError(f"Sentence {number} has no words: leave it out.")
    columns = [_column(getattr(sentence, name), name, n, number) for name in COLUMNS]
    return "".join(f"{i}\t{line}\t_\t_\n" for i, line in enumerate(map("\t".join, zip(*columns)), 1)) + "\n"


def _column(values, name, n, number):
    if len(values) not in (0, n):
        advice = "give each word one, or none at all."
        raise InputError(f"Sentence {number} has {n} words, but {len(values)} {name}: {advice}")
    if len(values) == 0:
        return ["_"] * n
    if name == "heads":
        return ["_" if head is None else _head(head, number, word) for word, head in enumerate(values, 1)]
    strings = ["_" if value is None else value for value in values]
    for word, value in enumerate(strings, 1):
        if not isinstance(value, str) or _BREAKS.search(value):
            wanted = "a string without tabs and line breaks"
            raise InputError(f"Sentence {number}, word {word}: {value!r} among {name} is not {wanted}.")
    return strings


def _head(head, number, word):
    try:
        if int(head) == head >= 0:
            return str(int(head))
    except (TypeError, ValueError):
        pass
    raise InputError(f"Sentence {number}, word {word}: the head {head!r} is not the number of a word, 0 or None.")
