"""Columns of the treebank formats."""

import re
from dataclasses import dataclass

import numpy as np

from omkl.data._jit_treebank import HEAD_ROLE, NO_ROLE
from omkl.data.files import PathLike, stem
from omkl.data.strings import Strings
from omkl.exceptions import InputError

#: The fields of a word that are strings.
FIELDS = ("forms", "lemmas", "upos", "xpos", "feats", "deprels")
#: All columns of a sentence, in the order of CoNLL-U.
COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels")

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
    special = {"-": NO_ROLE, "heads": HEAD_ROLE}
    roles = [special[name] if name in special else FIELDS.index(name) for name in columns.split()]
    return Layout(title, np.array(roles, np.int64), len(roles), most or len(roles), dict(same))


LAYOUTS = {
    "conllu": _layout("CoNLL-U", "- forms lemmas upos xpos feats heads deprels - -"),
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
    """The format whose HEAD is a number in the first line of a word; CoNLL-U and CoNLL-X are read alike."""
    word = re.search(rb"^1\t.*$", start, re.MULTILINE)
    columns = word[0].rstrip(b"\r").split(b"\t") if word else []
    if len(columns) > 10 or (len(columns) == 10 and columns[8].isdigit() and not columns[6].isdigit()):
        return "conll2008"
    return "conllu" if re.search(rb"^(#|\d+[-.]\d)", start, re.MULTILINE) else "conllx"


def new_strings(strings: dict[str, Strings] | None = None) -> dict[str, Strings]:
    """The tables given, or new ones: a table of strings for each of :data:`FIELDS`."""
    if strings is None:
        return {name: Strings() for name in FIELDS}
    if set(strings) != set(FIELDS) or not all(isinstance(table, Strings) for table in strings.values()):
        raise InputError(f"strings must hold a Strings for each of {', '.join(FIELDS)}.")
    return strings
