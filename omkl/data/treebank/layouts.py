"""Columns of treebank formats, and checks of trees."""

import re
from dataclasses import dataclass

import numpy as np

from omkl._components import check_choice
from omkl.data.files import PathLike, stem
from omkl.data.treebank import _jit_conllu as jit

#: Fields of a word that hold strings.
FIELDS = ("forms", "lemmas", "upos", "xpos", "feats", "deprels", "misc")
#: All columns of a sentence, in the order of CoNLL-U. DEPS, before the last column, is not read.
COLUMNS = ("forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels", "misc")
#: Columns that are not read, and that new trees make wrong.
COLUMNS_OF_OLD_TREES = ("deps", "phead", "pdeprel")
#: Values of the argument ``trees``.
MODES = (True, False, "given", "partial")


@dataclass(frozen=True, eq=False)
class Layout:
    """Columns of a treebank format.

    Parameters
    ----------
    title : str
        Name of the format for users.
    columns : list of str
        Names of the columns; ``-`` is not read. Of columns with the same name, the last value other
        than ``_`` is used.
    max_columns : int
        Maximum number of columns. The lines of a sentence must have equally many columns.
    text_on_old_trees : str
        What a file can hold of trees besides heads and relations, for messages.
    pattern_of_old_trees : bytes
        Regular expression of the start of a line with something of this kind.
    """

    title: str
    columns: list[str]
    max_columns: int = 10
    text_on_old_trees: str = ""
    pattern_of_old_trees: bytes = b""

    @property
    def roles(self) -> np.ndarray:
        """Index in :data:`FIELDS` of the field of each column, or a role of ``_jit_conllu``."""
        roles = {name: index for index, name in enumerate(FIELDS)}
        roles["heads"] = jit.HEAD_ROLE
        for name in ("-", *COLUMNS_OF_OLD_TREES):
            roles[name] = jit.NO_ROLE
        return np.array([roles[name] for name in self.columns], np.int64)


#: Columns that CoNLL-U and CoNLL-X begin with, and a regular expression of the eight columns of a
#: word.
_FIRST_COLUMNS = ["-", "forms", "lemmas", "upos", "xpos", "feats", "heads", "deprels"]
_EIGHT_COLUMNS = rb"[0-9]+\t(?:[^\t\n]*\t){7}"
LAYOUTS = {
    "conllu": Layout(
        "CoNLL-U",
        [*_FIRST_COLUMNS, "deps", "misc"],
        text_on_old_trees="enhanced dependencies (DEPS) and empty nodes",
        pattern_of_old_trees=rb"[0-9]+\.|" + _EIGHT_COLUMNS + rb"(?!_\t)",
    ),
    "conllx": Layout(
        "CoNLL-X",
        [*_FIRST_COLUMNS, "phead", "pdeprel"],
        text_on_old_trees="PHEAD and PDEPREL",
        pattern_of_old_trees=_EIGHT_COLUMNS + rb"(?!_\t_\r?\n)",
    ),
    # id, form, lemma, gold and predicted tag of the token; form, lemma and predicted tag of its
    # parts
    "conll2008": Layout(
        "CoNLL-2008",
        ["-", "forms", "lemmas", "upos", "-", "forms", "lemmas", "upos", "heads", "deprels"],
        max_columns=1 << 30,  # any number
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
    columns = []
    if word:
        columns = word[0].rstrip(b"\r").split(b"\t")
    # column 9 is a number in CoNLL-X (PHEAD) and CoNLL-2008 (HEAD), but not in CoNLL-U (DEPS);
    # column 7 is one in CoNLL-X (HEAD), but a lemma in CoNLL-2008
    has_number = len(columns) == 10 and columns[8].isdigit()
    if len(columns) > 10 or (has_number and not columns[6].isdigit()):
        return "conll2008"
    if has_number:
        return "conllx"
    return "conllu"


def last_boundary(text: bytes | bytearray) -> int:
    """Return the end of the last sentence that is followed by another word; 0 if there is none.

    Thus every piece of a file contains a sentence, and comments at the end of a file belong to its
    last sentence.
    """
    boundary = 0
    word_follows = False
    end = len(text)
    while end > 0:
        begin = text.rfind(b"\n", 0, end - 1) + 1
        is_word = text[begin] not in b"#\r\n"
        if is_word and boundary:
            return boundary
        word_follows = word_follows or is_word
        if word_follows and text[begin:end] in (b"\n", b"\r\n"):
            boundary = end  # the sentence ends at the first of several empty lines
        end = begin
    return 0


def bad_trees(
    offsets: np.ndarray, heads: np.ndarray, trees: bool | str, single_root: bool
) -> np.ndarray:
    """Return a mask of the sentences whose heads do not satisfy ``trees``.

    See :func:`~omkl.data.stream_conllu`; ``offsets`` (n_sentences + 1,), ``heads`` (n_words,).
    """
    check_choice("trees", trees, MODES)
    lengths = np.diff(offsets)
    n_sentences = len(lengths)
    n_words = len(heads)
    if trees is False or not n_words:
        return np.zeros(n_sentences, bool)
    sentences = np.repeat(np.arange(n_sentences), lengths)
    is_outside = heads > lengths[sentences]
    # climb from all words by doubled steps; those that stay below n_words, which stands for the
    # root, are on or below a cycle
    has_head = (heads > 0) & ~is_outside
    above = np.append(np.where(has_head, offsets[sentences] + heads - 1, n_words), n_words)
    for _ in range(int(lengths.max()).bit_length()):
        above = above[above]
    is_wrong = is_outside | (above[:-1] < n_words)
    n_wrong = np.bincount(sentences[is_wrong], minlength=n_sentences)
    n_missing = np.bincount(sentences[heads < 0], minlength=n_sentences)
    n_roots = np.bincount(sentences[heads == 0], minlength=n_sentences)
    bad = n_wrong > 0
    if trees == "given":
        bad |= (n_missing > 0) & (n_missing < lengths)
    elif trees is True:
        bad |= n_missing > 0
    if single_root:
        bad |= n_roots > 1
    return bad


def explain_heads(heads: list[int], trees: bool | str, single_root: bool) -> tuple[int, str]:
    """Explain why the heads of a sentence are not a tree; ``NO_HEAD`` is a missing head.

    Return the number of a word, from 1, and the reason.
    """
    n_words = len(heads)
    if trees != "partial" and jit.NO_HEAD in heads:
        word = heads.index(jit.NO_HEAD) + 1
        return word, (
            f"word {word} has no head: read sentences that are not parsed yet with trees=False."
        )
    if max(heads) > n_words:
        word = next(word for word, head in enumerate(heads, 1) if head > n_words)
        return word, (
            f"the head {heads[word - 1]} of word {word} is out of range: "
            f"it must be 0 (the root) to {n_words}."
        )
    n_roots = heads.count(0)
    if single_root and n_roots > 1:
        word = heads.index(0, heads.index(0) + 1) + 1
        return word, (
            f"{n_roots} words have head 0, and single_root=True allows one: "
            f"word {word} is the second."
        )
    import networkx  # reading valid trees does not need it

    cycle = [word for word, _ in networkx.find_cycle(networkx.DiGraph(enumerate(heads, 1)))]
    start = cycle.index(min(cycle))
    shown = " -> ".join(map(str, [*cycle[start:], *cycle[: start + 1]]))
    rootless = ", and no word has head 0" if min(heads) >= 1 else ""
    return cycle[start], f"the heads are no tree but have a cycle, {shown}{rootless}."
