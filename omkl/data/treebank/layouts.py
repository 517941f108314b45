"""Formats of treebanks: their columns, the checks of sentences, and messages about wrong ones."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from omkl.data.files import PathLike, stem
from omkl.data.treebank import _jit_conllu as jit
from omkl.data.treebank.strings import MISSING, Strings
from omkl.exceptions import InputError

#: The fields of a word that are strings.
FIELDS = ("forms", "lemmas", "upos", "xpos", "feats", "deprels", "misc")
#: All columns of a sentence, in the order of CoNLL-U, where DEPS, which is not read, stands before the last.
COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "misc")

UNLIMITED = 1 << 30


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns of a format.

    Attributes
    ----------
    title : str
        Name of the format for users.
    roles : int64 array
        For each column, the number of its field in :data:`FIELDS`, or a role of ``_jit_conllu``. Of two columns with
        one role the later one counts, unless it is ``_``. DEPREL always follows HEAD.
    fewest, most : int
        Numbers of columns of a line; all lines of a sentence have equally many.
    same : dict
        Fields that are read from the column of another field.
    """

    title: str
    roles: np.ndarray
    fewest: int
    most: int
    same: dict[str, str]

    @classmethod
    def of(cls, title: str, columns: str, most: int | None = None, same: Iterable[tuple[str, str]] = ()) -> "Layout":
        """A layout by the names of its columns; ``-`` is not read."""
        special = {"-": jit.NO_ROLE, "heads": jit.HEAD_ROLE}
        roles = [special[name] if name in special else FIELDS.index(name) for name in columns.split()]
        return cls(title, np.array(roles, np.int64), len(roles), most or len(roles), dict(same))

    @property
    def head_column(self) -> int:
        """Position of HEAD."""
        return self.roles.tolist().index(jit.HEAD_ROLE)


LAYOUTS = {
    "conllu": Layout.of("CoNLL-U", "- forms lemmas upos xpos feats heads deprels - misc"),
    "conllx": Layout.of("CoNLL-X", "- forms lemmas upos xpos feats heads deprels - -"),
    # id, form, lemma, gold and predicted tag, then form, lemma and predicted tag of the parts of a split token
    "conll2008": Layout.of(
        "CoNLL-2008", "- forms lemmas upos - forms lemmas upos heads deprels", UNLIMITED, [("xpos", "upos")]
    ),
}
SUFFIXES = {
    ".conllu": "conllu",
    ".conllx": "conllx",
    ".conll06": "conllx",
    ".conll07": "conllx",
    ".conll08": "conll2008",
    ".conll2008": "conll2008",
}


def find_layout(format: str | None, path: PathLike, start: bytes) -> Layout:
    """The layout of a format; without one, of the suffix of a file, or of its first bytes."""
    if format is None:
        suffix = re.findall(r"\.[^.]*$|$", stem(path))[0].lower()
        format = SUFFIXES[suffix] if suffix in SUFFIXES else _guess(start)
    return LAYOUTS[format]


def check_format(format: str | None) -> None:
    """Raise InputError for an unknown format."""
    if format is not None and format not in LAYOUTS:
        raise InputError(f"`format` must be one of {', '.join(map(repr, LAYOUTS))}, got {format!r}.")


def _guess(start: bytes) -> str:
    """Guess by the first word: CoNLL-X has a number, PHEAD, in the column of CoNLL-U's DEPS."""
    word = re.search(rb"^1\t.*$", start, re.MULTILINE)
    columns = word[0].rstrip(b"\r").split(b"\t") if word else []
    if len(columns) > 10 or (len(columns) == 10 and columns[8].isdigit() and not columns[6].isdigit()):
        return "conll2008"
    return "conllx" if len(columns) == 10 and columns[8].isdigit() else "conllu"


def new_strings(strings: dict[str, Strings] | None = None) -> dict[str, Strings]:
    """Check tables of strings, one for each of :data:`FIELDS`, or make new ones."""
    if strings is None:
        return {name: Strings() for name in FIELDS}
    if set(strings) != set(FIELDS) or not all(isinstance(table, Strings) for table in strings.values()):
        raise InputError(f"`strings` must hold a Strings for each of {', '.join(FIELDS)}.")
    return strings


#: Checks of heads, by the argument ``trees``.
MODES = {True: jit.TREES, False: jit.ANY_HEADS, "given": jit.TREES_IF_GIVEN, "partial": jit.PARTIAL_TREES}
#: Columns of the table of sentences that ``_jit_conllu`` fills.
N_WORDS, TEXT_END, N_LINES, WRONG, WRONG_WORD = range(5)


@dataclass(frozen=True)
class Checks:
    """Checks of sentences; ``skip`` leaves wrong ones out. See :func:`~omkl.data.iter_treebank`."""

    trees: bool | str = True
    single_root: bool = False
    skip: bool = False

    def __post_init__(self) -> None:
        # 1 == True, and unhashable objects cannot be looked up
        if not isinstance(self.trees, (bool, str)) or self.trees not in MODES:
            raise InputError(f"`trees` must be one of True, False, 'given', 'partial', got {self.trees!r}.")


def explain(text: bytes, first_line: int, wrong: int, place: int, layout: Layout) -> tuple[int, str]:
    """Explain why a sentence is wrong.

    Parameters
    ----------
    text : bytes
        Text of the sentence with the comments before it.
    first_line : int
        Number of its first line.
    wrong : int
        Error code of ``_jit_conllu``.
    place : int
        Number of the line, or for an error of the tree, of the word.
    layout : Layout

    Returns
    -------
    line : int
    reason : str
    """
    lines = [line.rstrip("\r") for line in text.decode("utf-8", "backslashreplace").split("\n")]
    if wrong in (jit.MISSING_HEAD, jit.HEAD_OUTSIDE, jit.SEVERAL_ROOTS, jit.CYCLE):
        words = [k for k, line in enumerate(lines) if re.match(r"[0-9]+(\t|$)", line)]
        heads = [lines[k].split("\t")[layout.head_column] for k in words]
        return first_line + words[place - 1], explain_heads(heads, wrong, place)
    before, columns = lines[: place - first_line], lines[place - first_line].split("\t")
    if wrong == jit.BAD_COLUMNS:
        return place, _explain_columns(before, columns, layout)
    if wrong == jit.BAD_ID:
        return place, _explain_id(before, columns[0])
    if wrong == jit.BAD_RANGE:
        return place, f"the multiword token {columns[0]!r} is not before its first word, or not within its sentence."
    if wrong == jit.BAD_HEAD:
        return place, f"the head {columns[layout.head_column]!r} is not the number of a word, 0 or '_'."
    return place, "not UTF-8 text." if wrong == jit.NOT_UTF8 else "the sentence has no words, only empty nodes."


def _explain_columns(before: list[str], columns: list[str], layout: Layout) -> str:
    others = [len(line.split("\t")) for line in before if line and line[0] != "#"]
    found = f"{len(columns)} column" + ("s" if len(columns) > 1 else "")
    if others and layout.fewest <= len(columns) <= layout.most:
        return f"{found}, but the lines before it have {others[0]}."
    wanted = f"{layout.fewest}" if layout.fewest == layout.most else f"at least {layout.fewest}"
    spaces = " and not by spaces" if len(columns) == 1 and len(columns[0].split()) > 1 else ""
    return f"{found}, but {layout.title} has {wanted}, separated by tabs{spaces}."


def _explain_id(before: list[str], identifier: str) -> str:
    expected = 1 + sum(re.match(r"[0-9]+\t", line) is not None for line in before)
    if "." in identifier:
        return f"the empty node {identifier!r} is out of order: after word {expected - 1} comes {expected - 1}.1."
    missing = ": is an empty line missing between sentences?" if identifier == "1" else "."
    return f"word {identifier!r} where word {expected} was expected{missing}"


def explain_heads(heads: list[str], wrong: int, word: int) -> str:
    """Explain why the heads of a sentence are no tree.

    Parameters
    ----------
    heads : list of str
    wrong : int
        Error code of ``_jit_conllu``.
    word : int
        Number of the word, from 1.
    """
    if wrong == jit.MISSING_HEAD:
        return f"word {word} has no head: read sentences that are not parsed yet with trees=False."
    if wrong == jit.HEAD_OUTSIDE:
        return f"the head {heads[word - 1]} of word {word} is out of range: it must be 0 (the root) to {len(heads)}."
    if wrong == jit.SEVERAL_ROOTS:
        n_roots = sum(head != MISSING and int(head) == 0 for head in heads)
        return f"{n_roots} words have head 0, and single_root=True allows one: word {word} is the second."
    cycle = [word, int(heads[word - 1])]
    while cycle[-1] != word:
        cycle.append(int(heads[cycle[-1] - 1]))
    rootless = "" if any(head == MISSING or int(head) == 0 for head in heads) else ", and no word has head 0"
    return f"the heads are no tree but have a cycle, {' -> '.join(map(str, cycle))}{rootless}."
