"""The formats of treebanks: their columns, and what is asked of sentences and said of those that are wrong."""

import re
from dataclasses import dataclass

import numpy as np

from omkl.data import _jit_treebank as jit
from omkl.data.files import PathLike, stem
from omkl.data.strings import MISSING, Strings
from omkl.exceptions import InputError

#: The fields of a word that are strings.
FIELDS = ("forms", "lemmas", "upos", "xpos", "feats", "deprels", "misc")
#: All columns of a sentence, in the order of CoNLL-U, where DEPS, which is not read, stands before the last.
COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "misc")

UNLIMITED = 1 << 30


@dataclass(frozen=True, eq=False)
class Layout:
    """Which column of a format is which field.

    Attributes
    ----------
    title : str
        What people call the format.
    roles : int64 array
        For each column, the number of its field in :data:`FIELDS`, or what :mod:`omkl.data._jit_treebank` calls it.
        Of two columns with one role the later one counts, unless it is ``_``. DEPREL always follows HEAD.
    fewest, most : int
        Columns that a line may have; all lines of a sentence have equally many.
    same : dict
        Fields that another field stands for.
    """

    title: str
    roles: np.ndarray
    fewest: int
    most: int
    same: dict

    @property
    def wanted(self) -> str:
        """How many columns there should be, for a message."""
        return f"{self.fewest}" if self.fewest == self.most else f"at least {self.fewest}"


def _layout(title, columns, most=None, same=()):
    special = {"-": jit.NO_ROLE, "heads": jit.HEAD_ROLE}
    roles = [special[name] if name in special else FIELDS.index(name) for name in columns.split()]
    return Layout(title, np.array(roles, np.int64), len(roles), most or len(roles), dict(same))


LAYOUTS = {
    "conllu": _layout("CoNLL-U", "- forms lemmas upos xpos feats heads deprels - misc"),
    "conllx": _layout("CoNLL-X", "- forms lemmas upos xpos feats heads deprels - -"),
    # id, form, lemma, gold and predicted tag, then form, lemma and predicted tag of the parts of a split token
    "conll2008": _layout(
        "CoNLL-2008", "- forms lemmas upos - forms lemmas upos heads deprels", most=UNLIMITED, same={"xpos": "upos"}
    ),
}
SUFFIXES = {
    ".conllu": "conllu", ".conllx": "conllx", ".conll06": "conllx", ".conll07": "conllx",
    ".conll08": "conll2008", ".conll2008": "conll2008",
}  # fmt: skip


def find_layout(format: str | None, path: PathLike, start: bytes) -> Layout:
    """The layout of a format, or where it is None, of a file with that name and these first bytes."""
    if format is None:
        suffix = re.findall(r"\.[^.]*$|$", stem(path))[0].lower()
        format = SUFFIXES[suffix] if suffix in SUFFIXES else _guess(start)
    return LAYOUTS[format]


def check_format(format: str | None) -> None:
    if format is not None and format not in LAYOUTS:
        raise InputError(f"Unknown treebank format {format!r}: choose one of {', '.join(LAYOUTS)}.")


def _guess(start):
    """The format whose HEAD is a number in the first line of a word; CoNLL-X has another one, PHEAD, where CoNLL-U has
    DEPS, and without it nothing in the last column, where CoNLL-U has MISC."""
    word = re.search(rb"^1\t.*$", start, re.MULTILINE)
    columns = word[0].rstrip(b"\r").split(b"\t") if word else []
    if len(columns) > 10 or (len(columns) == 10 and columns[8].isdigit() and not columns[6].isdigit()):
        return "conll2008"
    return "conllx" if len(columns) == 10 and columns[8].isdigit() else "conllu"


def new_strings(strings: dict[str, Strings] | None = None) -> dict[str, Strings]:
    """The tables given, or new ones: a table of strings for each of :data:`FIELDS`."""
    if strings is None:
        return {name: Strings() for name in FIELDS}
    if set(strings) != set(FIELDS) or not all(isinstance(table, Strings) for table in strings.values()):
        raise InputError(f"strings must hold a Strings for each of {', '.join(FIELDS)}.")
    return strings


#: Which heads are asked for, by the argument ``trees``.
MODES = {True: jit.TREES, False: jit.ANY_HEADS, "given": jit.TREES_IF_GIVEN, "partial": jit.PARTIAL_TREES}
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
            raise InputError(f"trees is True, False, 'given' or 'partial', not {self.trees!r}.")


def explain(text: bytes, first_line: int, wrong: int, place: int, layout: Layout) -> tuple[int, str]:
    """The line that is wrong, and why.

    ``text`` is that of a sentence with the comments before it, which begins with line ``first_line``. What is wrong,
    and in which line, is what :func:`omkl.data._jit_treebank.scan` found; or at which word,
    :func:`~omkl.data._jit_treebank.check_trees`.
    """
    lines = [line.rstrip("\r") for line in text.decode("utf-8", "backslashreplace").split("\n")]
    if wrong in OF_TREES:
        words = [k for k, line in enumerate(lines) if re.match(r"[0-9]+(\t|$)", line)]
        column = layout.roles.tolist().index(jit.HEAD_ROLE)
        heads = [lines[k].split("\t")[column] for k in words]
        return first_line + words[place - 1], explain_heads(heads, wrong, place)
    before, line = lines[: place - first_line], lines[place - first_line]
    return place, OF_LINES[wrong](before, line.split("\t"), layout)


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


OF_LINES = {
    jit.BAD_COLUMNS: _columns,
    jit.BAD_ID: _identifier,
    jit.BAD_RANGE: _range,
    jit.BAD_HEAD: _head,
    jit.NO_WORD: lambda *_: "the sentence has no words, only empty nodes: delete it.",
    jit.NOT_UTF8: lambda *_: "not UTF-8 text: convert the file to UTF-8.",
}


def _missing_head(heads, word):
    return f"word {word} has no head, as words of trees do: read sentences that are yet to be parsed with trees=False."


def _head_outside(heads, word):
    return f"the head {heads[word - 1]} of word {word} is out of range: it must be 0 (the root) to {len(heads)}."


def _several_roots(heads, word):
    roots = [k for k, head in enumerate(heads, 1) if head != MISSING and int(head) == 0]
    return f"{len(roots)} words have head 0, and single_root=True allows one: word {word} is the second."


def _cycle(heads, word):
    cycle = [word, int(heads[word - 1])]
    while cycle[-1] != word:
        cycle.append(int(heads[cycle[-1] - 1]))
    rootless = "" if any(head == MISSING or int(head) == 0 for head in heads) else ", and no word has head 0"
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
