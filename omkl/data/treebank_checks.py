"""Checks of sentences, and the messages about those that fail them."""

import re
from dataclasses import dataclass
from typing import Any

from omkl.data import _jit_treebank as jit
from omkl.exceptions import InputError

#: Which heads are asked for, by the argument ``trees``.
MODES = {True: jit.TREES, False: jit.ANY_HEADS, "given": jit.TREES_IF_GIVEN}
#: Columns of the table of sentences in which :mod:`omkl.data._jit_treebank` notes what it finds.
N_WORDS, TEXT_END, N_LINES, WRONG, WRONG_WORD = range(5)


@dataclass(frozen=True)
class Checks:
    """What is asked of sentences, and what happens to those that are wrong."""

    trees: bool | str = True
    single_root: bool = False
    skip: bool = False

    def __post_init__(self) -> None:
        # 1 == True, and unhashable things are no mode
        if not isinstance(self.trees, (bool, str)) or self.trees not in MODES:
            raise InputError(f"trees is True, False or 'given', not {self.trees!r}.")


def explain(text: bytes, first_line: int, wrong: int, place: int, layout: Any) -> tuple[int, int | None, str]:
    """Say what is wrong with a sentence.

    Parameters
    ----------
    text : bytes
        Its text, with the comments before it.
    first_line : int
        The line that the text begins with.
    wrong, place : int
        What :func:`omkl.data._jit_treebank.scan` found, and in which line; or
        :func:`~omkl.data._jit_treebank.check_trees`, and at which word.
    layout : Layout

    Returns
    -------
    line, word : int or None
    reason : str
    """
    lines = [line.rstrip("\r") for line in text.decode("utf-8", "backslashreplace").split("\n")]
    if wrong in OF_TREES:
        words = [k for k, line in enumerate(lines) if re.match(r"[0-9]+(\t|$)", line)]
        column = layout.roles.tolist().index(jit.HEAD_ROLE)
        heads = [lines[k].split("\t")[column] for k in words]
        return first_line + words[place - 1], place, explain_heads(heads, wrong, place)
    before, line = lines[: place - first_line], lines[place - first_line]
    return place, None, OF_LINES[wrong](before, line.split("\t"), layout)


def _columns(before, columns, layout):
    others = [len(line.split("\t")) for line in before if line and line[0] != "#"]
    found = f"{len(columns)} column" + ("s" if len(columns) > 1 else "")
    if others and layout.fewest <= len(columns) <= layout.most:
        return f"{found}, but the lines before it have {others[0]}: all lines of a sentence need the same."
    advice = " and not by spaces" if len(columns) == 1 and len(columns[0].split()) > 1 else ""
    return f"{found}, but {layout.title} has {layout.wanted}, separated by tabs{advice}."


def _identifier(before, columns, layout):
    expected = 1 + sum(re.match(r"[0-9]+\t", line) is not None for line in before)
    if "." in columns[0]:
        return f"the empty node {columns[0]!r} is out of order: after word {expected - 1} they count " \
               f"{expected - 1}.1, {expected - 1}.2, ..."  # fmt: skip
    advice = "put an empty line between sentences" if columns[0] == "1" else "number the words 1, 2, 3, ... in order"
    return f"word {columns[0]!r} where word {expected} was expected: {advice}."


def _range(before, columns, layout):
    return f"the multiword token {columns[0]!r} does not stand before its first word, overlaps another one, or ends " \
           "after its sentence does: correct its numbers."  # fmt: skip


def _head(before, columns, layout):
    head = columns[layout.roles.tolist().index(jit.HEAD_ROLE)]
    return f"the head {head!r} is not the number of a word: write 0 for the root, or '_' for none."


def _no_word(before, columns, layout):
    return "the sentence has no words, only empty nodes: delete it."


def _not_utf8(before, columns, layout):
    return "not UTF-8 text: convert the file to UTF-8."


OF_LINES = {
    jit.BAD_COLUMNS: _columns,
    jit.BAD_ID: _identifier,
    jit.BAD_RANGE: _range,
    jit.BAD_HEAD: _head,
    jit.NO_WORD: _no_word,
    jit.NOT_UTF8: _not_utf8,
}


def _missing_head(heads, word):
    return f"word {word} has no head: read sentences that are yet to be parsed with trees=False."


def _head_outside(heads, word):
    return f"the head {heads[word - 1]} of word {word} is out of range: it must be 0 (the root) to {len(heads)}."


def _several_roots(heads, word):
    roots = [k for k, head in enumerate(heads, 1) if int(head) == 0]
    return f"{len(roots)} words have head 0, and single_root=True allows one: word {word} is the second."


def _cycle(heads, word):
    cycle = [word, int(heads[word - 1])]
    while cycle[-1] != word:
        cycle.append(int(heads[cycle[-1] - 1]))
    rootless = "" if 0 in map(int, heads) else ", and no word has head 0"
    return f"the heads are no tree but have a cycle, {' -> '.join(map(str, cycle))}{rootless}: correct one of them."


def explain_heads(heads: list[str], wrong: int, word: int) -> str:
    """What is wrong with the heads of a sentence, and at which word (counted from 1), in words."""
    return OF_TREES[wrong](heads, word)


OF_TREES = {
    jit.MISSING_HEAD: _missing_head,
    jit.HEAD_OUTSIDE: _head_outside,
    jit.SEVERAL_ROOTS: _several_roots,
    jit.CYCLE: _cycle,
}
