"""Columns of treebank formats, and error messages for invalid sentences."""

import re
from dataclasses import dataclass

import numpy as np

from omkl._components import check_choice
from omkl.data.files import PathLike, stem
from omkl.data.treebank import _jit_conllu as jit
from omkl.data.treebank.strings import MISSING

#: Fields of a word that hold strings.
FIELDS = ("forms", "lemmas", "upos", "xpos", "feats", "deprels", "misc")
#: All columns of a sentence, in the order of CoNLL-U. DEPS, before the last column, is not read.
COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "misc")
#: Integer codes of the checks of heads, by the argument ``trees``.
MODES = {True: jit.TREES, False: jit.ANY_HEADS, "given": jit.TREES_IF_GIVEN, "partial": jit.PARTIAL_TREES}
#: Columns of the array ``sentences`` that ``_jit_conllu.scan`` fills.
N_WORDS, TEXT_END, N_LINES, WRONG, WRONG_WORD = range(5)


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns of a treebank format.

    Parameters
    ----------
    title : str
        Name of the format for users.
    columns : list of str
        Names of the columns; ``-`` is not read. Of columns with the same name, the last value other than ``_`` is used.
    is_open : bool
        Whether lines may have additional columns. The lines of a sentence must have equally many columns.
    """

    title: str
    columns: list[str]
    is_open: bool = False

    @property
    def roles(self) -> np.ndarray:
        """For each column, the index of its field in :data:`FIELDS`, or a role of ``_jit_conllu``."""
        special = {"-": jit.NO_ROLE, "heads": jit.HEAD_ROLE}
        return np.array([special[name] if name in special else FIELDS.index(name) for name in self.columns], np.int64)

    @property
    def most(self) -> int:
        """Maximum number of columns."""
        return 1 << 30 if self.is_open else len(self.columns)


LAYOUTS = {
    "conllu": Layout("CoNLL-U", ["-", "forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "-", "misc"]),
    "conllx": Layout("CoNLL-X", ["-", "forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "-", "-"]),
    # id, form, lemma, gold and predicted tag of the token; form, lemma and predicted tag of its parts
    "conll2008": Layout(
        "CoNLL-2008", ["-", "forms", "lemmas", "upos", "-", "forms", "lemmas", "upos", "heads", "deprels"], is_open=True
    ),
}
SUFFIXES = {".conllu": "conllu", ".conllx": "conllx", ".conll06": "conllx", ".conll07": "conllx"}
SUFFIXES |= {".conll08": "conll2008", ".conll2008": "conll2008"}


def find_format(path: PathLike, start: bytes) -> str:
    """Guess the format from the suffix of a file, or from its first word line."""
    suffix = re.findall(r"\.[^.]*$|$", stem(path))[0].lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    word = re.search(rb"^1\t.*$", start, re.MULTILINE)
    columns = word[0].rstrip(b"\r").split(b"\t") if word else []
    # column 9 is PHEAD in CoNLL-X, a number, and DEPS in CoNLL-U
    has_phead = len(columns) == 10 and columns[8].isdigit()
    if len(columns) > 10 or (has_phead and not columns[6].isdigit()):
        return "conll2008"
    return "conllx" if has_phead else "conllu"


def check_mode(trees: bool | str) -> int:
    """Validate the argument ``trees``, and return the code of its check."""
    check_choice("trees", trees, MODES)
    return MODES[trees]


def explain(text: bytes, first_line: int, wrong: int, place: int, layout: Layout) -> tuple[int, str]:
    """Explain why a sentence is invalid: return the line number and the reason.

    ``text`` is the sentence with its comments. ``wrong`` is an error code of ``_jit_conllu``. ``place`` is the number
    of the invalid line, or of the word if the heads are invalid.
    """
    lines = [line.rstrip("\r") for line in text.decode("utf-8", "backslashreplace").split("\n")]
    head_column = layout.columns.index("heads")
    if wrong in (jit.MISSING_HEAD, jit.HEAD_OUTSIDE, jit.SEVERAL_ROOTS, jit.CYCLE):
        words = [k for k, line in enumerate(lines) if re.match(r"[0-9]+(\t|$)", line)]
        heads = [lines[k].split("\t")[head_column] for k in words]
        return first_line + words[place - 1], explain_heads(heads, wrong, place)
    columns = lines[place - first_line].split("\t")
    wanted = f"at least {len(layout.columns)}, as many in all lines," if layout.is_open else str(len(layout.columns))
    return place, {
        jit.BAD_COLUMNS: f"{len(columns)} columns, but {layout.title} has {wanted} separated by tabs.",
        jit.BAD_ID: f"the id {columns[0]!r} is out of order; an empty line ends a sentence.",
        jit.BAD_HEAD: f"the head {''.join(columns[head_column:][:1])!r} is not the number of a word, 0 or '_'.",
        jit.NOT_UTF8: "not UTF-8 text.",
        jit.NO_WORD: "the sentence has no words, only empty nodes.",
    }[wrong]


def explain_heads(heads: list[str], wrong: int, word: int) -> str:
    """Explain why the heads of a sentence are not a tree; ``word``, from 1, is a word with an invalid head."""
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
